//! Connects that fail because Weir is short of descriptors, ports or memory: the exchange waits,
//! and no server is ejected for it.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::world::{Connects, World, app, pass, play};
use crate::{GET, OK};

/// EMFILE, ENFILE, EADDRNOTAVAIL, ENOBUFS, ENOMEM, EAGAIN, ENOSPC.
const SHORTAGES: [i32; 7] = [24, 23, 99, 105, 12, 11, 28];

const POOL: &str = "server 10.0.1.1:80; server 10.0.1.2:80; timeout connect=2s; retry 1;
    passive errors=1 window=1m eject=1h;";

/// Returns true if no server is ejected.
fn all_are_in(world: &World) -> bool {
    let now_us = world.process.balance_clock(Instant::now());
    let snapshot = world.snapshot();
    let balancer = &snapshot.pools[0].balancer;
    (0..balancer.len()).all(|index| {
        balancer.endpoint(index).is_some_and(|state| {
            !state.is_ejected(now_us) && state.ejections() == 0 && state.failures() == 0
        })
    })
}

#[test]
fn a_shortage_that_lasts_is_503_and_ejects_no_server() {
    for errno in SHORTAGES {
        play(&app(POOL, ""), async |world| {
            world.connects(1, Some(Connects::Fails(errno)));
            world.connects(2, Some(Connects::Fails(errno)));
            let began = Instant::now();
            let mut clients = Vec::new();
            for _ in 0..5 {
                let mut client = world.client().await;
                client.send(GET).await;
                clients.push(client);
            }
            for client in &mut clients {
                assert_eq!(client.message().await.status(), 503, "{errno}");
            }
            let waited = began.elapsed();
            assert!((2_000..2_200).contains(&waited.as_millis()), "{errno}: {waited:?}");
            for line in world.log().await {
                assert_eq!(line.text("cause"), "no_resources");
                assert_eq!(line.number("attempts"), Some(1));
            }
            assert!(all_are_in(world), "{errno}");
            assert!(world.process.shortages.load(std::sync::atomic::Ordering::Relaxed) >= 10);
            // The shortage has no lasting effect.
            world.connects(1, None);
            world.connects(2, None);
            world.origin(1).answers(OK);
            world.origin(2).answers(OK);
            clients[0].send(GET).await;
            assert_eq!(clients[0].message().await.status(), 200, "{errno}");
        });
    }
}

#[test]
fn a_shortage_that_ends_in_time_is_only_a_wait() {
    play(&app(POOL, ""), async |world| {
        world.connects(1, Some(Connects::Fails(24)));
        world.connects(2, Some(Connects::Fails(24)));
        let (one, two) = (world.origin(1).answers(OK), world.origin(2).answers(OK));
        let mut client = world.client().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").await;
        sleep(Duration::from_millis(1_500)).await;
        world.connects(1, None);
        world.connects(2, None);
        assert_eq!(client.message().await.status(), 200);
        let asked = one.borrow().requests.len() + two.borrow().requests.len();
        assert_eq!(asked, 1);
        let line = world.log_line().await;
        assert_eq!((line.text("cause").as_str(), line.number("attempts")), ("complete", Some(1)));
        assert!(all_are_in(world));
    });
}

#[test]
fn an_idle_connection_is_closed_for_one_that_is_needed() {
    let text =
        "pool one { server 10.0.1.1:80; } pool two { server 10.0.1.2:80; timeout connect=2s; }
        listen 10.0.0.1:80 { route path /two -> two; default -> one; }";
    play(text, async |world| {
        let kept = world.origin(1);
        let mut client = world.client().await;
        client.send(GET).await;
        let mut upstream = kept.accept().await;
        upstream.message().await;
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
        assert!(upstream.is_open().await);
        world.connects(2, Some(Connects::Fails(24)));
        world.origin(2).answers(OK);
        client.send("GET /two HTTP/1.1\r\nHost: a\r\n\r\n").await;
        pass(50).await;
        assert!(!upstream.is_open().await, "an unused descriptor is kept");
        world.connects(2, None);
        assert_eq!(client.message().await.status(), 200);
    });
}

#[test]
fn a_client_that_leaves_during_a_shortage_ends_the_wait() {
    play(&app(POOL, ""), async |world| {
        world.connects(1, Some(Connects::Fails(24)));
        world.connects(2, Some(Connects::Fails(24)));
        let mut client = world.client().await;
        client.send(GET).await;
        pass(100).await;
        drop(client);
        pass(200).await;
        assert_eq!(world.log_line().await.text("cause"), "client_gone");
    });
}

/// The exchange keeps its slot at a server, and the wait does not count as the server's silence.
#[test]
fn a_server_that_was_not_contacted_is_not_stalled() {
    let pool = "server 10.0.1.1:80 max_conn=1; server 10.0.1.2:80 max_conn=1; timeout connect=30s;";
    play(&app(pool, ""), async |world| {
        let seen = world.origin(2).answers(OK);
        world.origin(1).answers(OK);
        let mut client = world.client().await;
        for _ in 0..40 {
            client.send(GET).await;
            client.message().await;
        }
        world.connects(1, Some(Connects::Fails(24)));
        let before = seen.borrow().requests.len();
        let mut waiting = Vec::new();
        for _ in 0..4 {
            let mut client = world.client().await;
            client.send(GET).await;
            waiting.push(client);
        }
        pass(10_000).await;
        assert!(seen.borrow().requests.len() >= before);
        assert!(all_are_in(world));
        let snapshot = world.snapshot();
        let state = snapshot.pools[0].balancer.endpoint(0).unwrap();
        assert_eq!(state.stalls(), 0);
        world.connects(1, None);
        for client in &mut waiting {
            assert_eq!(client.message().await.status(), 200);
        }
    });
}
