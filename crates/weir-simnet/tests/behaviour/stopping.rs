//! Graceful stop: no new connections are accepted, running exchanges finish, idle connections get
//! one more response, and the deadline ends the rest.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::peer::Peer;
use crate::world::{World, app, play};
use crate::{GET, OK};

const ONE: &str = "server 10.0.1.1:80;";

/// Returns a client whose request the origin holds, and the origin's connection.
async fn held(world: &World, origin: &crate::origin::Origin) -> (Peer, Peer) {
    let mut client = world.client().await;
    client.send(GET).await;
    let mut upstream = origin.accept().await;
    upstream.message().await;
    (client, upstream)
}

#[test]
fn a_running_exchange_finishes_and_ends_its_connection() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let (mut client, mut upstream) = held(world, &origin).await;
        world.drain(Duration::from_secs(30));
        sleep(Duration::from_secs(20)).await;
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhe").await;
        let head = client.head().await;
        assert_eq!(head.header("connection"), Some("close"));
        sleep(Duration::from_secs(5)).await;
        upstream.send("re").await;
        client.expect("here").await;
        client.expect_closed().await;
        world.expect_logged("complete", Some(200)).await;
        world.expect_stopped(Duration::from_secs(1)).await;
    });
}

#[test]
fn an_idle_connection_gets_one_more_response_with_connection_close() {
    play(&app(ONE, ""), async |world| {
        world.origin(1).answers(OK);
        let mut client = world.client().await;
        client.send(GET).await;
        assert_eq!(client.message().await.header("connection"), None);
        sleep(Duration::from_secs(5)).await;
        world.drain(Duration::from_secs(30));
        sleep(Duration::from_millis(500)).await;
        assert!(client.is_open().await, "a close now could cross the client's next request");
        client.send(GET).await;
        let response = client.message().await;
        assert_eq!((response.status(), response.header("connection")), (200, Some("close")));
        client.expect_closed().await;
        world.expect_stopped(Duration::from_secs(3)).await;
    });
}

#[test]
fn an_idle_connection_that_stays_idle_does_not_delay_the_stop() {
    play(&app(ONE, ""), async |world| {
        world.origin(1).answers(OK);
        let mut client = world.client().await;
        client.send(GET).await;
        client.message().await;
        world.drain(Duration::from_secs(30));
        world.expect_stopped(Duration::from_secs(3)).await;
        client.expect_closed().await;
    });
}

#[test]
fn no_connection_is_accepted_after_a_stop() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let (mut client, mut upstream) = held(world, &origin).await;
        world.drain(Duration::from_secs(30));
        sleep(Duration::from_millis(1)).await;
        world.expect_no_listener().await;
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
    });
}

#[test]
fn connections_accepted_before_the_stop_are_served() {
    play(&app(ONE, ""), async |world| {
        world.origin(1).answers(OK);
        let mut client = world.client().await;
        sleep(Duration::from_millis(1)).await;
        world.drain(Duration::from_secs(30));
        client.send(GET).await;
        let response = client.message().await;
        assert_eq!((response.status(), response.header("connection")), (200, Some("close")));
    });
}

#[test]
fn at_the_deadline_waiting_requests_are_answered_and_running_ones_are_cut_off() {
    play(&app("server 10.0.1.1:80; timeout response=1h read=1h;", ""), async |world| {
        let origin = world.origin(1);
        let (mut waiting, _silent) = held(world, &origin).await;
        let (mut reading, mut upstream) = held(world, &origin).await;
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhe").await;
        let mut writing = world.client().await;
        writing.send("GET / HTTP/1.1\r\n").await;
        sleep(Duration::from_millis(1)).await;
        let start = Instant::now();
        world.drain(Duration::from_secs(5));
        world.expect_stopped(Duration::from_millis(5_200)).await;
        assert!(start.elapsed() >= Duration::from_secs(5));
        for client in [&mut waiting, &mut writing] {
            let response = client.message().await;
            assert_eq!((response.status(), response.header("connection")), (503, Some("close")));
        }
        reading.head().await;
        reading.expect("he").await;
        reading.expect_end().await;
        let logged = world.log().await;
        assert!(logged.iter().all(|line| line.text("cause") == "shutdown"), "{logged:?}");
        let mut statuses: Vec<_> = logged.iter().map(|line| line.number("status")).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [Some(200), Some(503), Some(503)]);
        assert_eq!(world.process.cut_off.load(Ordering::Relaxed), 3);
    });
}

#[test]
fn an_order_to_stop_at_once_ends_a_drain() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let (mut client, _upstream) = held(world, &origin).await;
        world.drain(Duration::from_secs(30));
        sleep(Duration::from_secs(1)).await;
        world.stop_now();
        world.expect_stopped(Duration::from_millis(200)).await;
        assert_eq!(client.message().await.status(), 503);
        world.expect_logged("shutdown", Some(503)).await;
    });
}
