//! Accepting: a connection goes to the worker with the fewest. At a limit the oldest idle
//! connection is closed to make room; if none is idle, connections beyond the limit wait and do not
//! affect the others.

use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::{Instant, timeout};

use crate::http2_peer::{END_STREAM, ENHANCE_YOUR_CALM, Http2Peer, PING};
use crate::peer::Peer;
use crate::world::{Connects, World, app, pass, play};
use crate::{GET, OK};

/// A client that got one response and is idle since then.
async fn idle_client(world: &World) -> Peer {
    let mut client = world.client().await;
    client.send(GET).await;
    assert_eq!(client.message().await.status(), 200);
    client
}

/// Returns the numbers of idle connections closed so far, by the resource that was short.
fn closed(world: &World) -> [u64; 3] {
    world.process.numbers.read().listeners[0].given_up_idle
}

#[test]
fn a_hundred_connections_are_spread_evenly_and_gaps_are_filled_first() {
    let text = format!("workers 4; {}", app("server 10.0.1.1:80;", ""));
    play(&text, async |world| {
        world.origin(1).answers(OK);
        let mut clients = Vec::new();
        for _ in 0..100 {
            let mut client = world.client().await;
            client.send(GET).await;
            assert_eq!(client.message().await.status(), 200);
            clients.push((client, world.log_line().await.number("worker")));
        }
        assert_eq!(world.open_by_worker(), [25, 25, 25, 25]);
        clients.retain(|(_, worker)| *worker != Some(2));
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(world.open_by_worker(), [25, 25, 0, 25]);
        for _ in 0..25 {
            clients.push((world.client().await, None));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(world.open_by_worker(), [25, 25, 25, 25]);
    });
}

#[test]
fn connections_over_the_cap_wait_and_are_served_later() {
    let text = format!("workers 2; max_connections 3; {}", app("server 10.0.1.1:80;", ""));
    play(&text, async |world| {
        world.origin(1).answers(OK);
        let mut served = Vec::new();
        for _ in 0..3 {
            let mut client = world.client().await;
            client.send("GET / HTTP/1.1\r\n").await;
            served.push(client);
        }
        let mut waiting = Vec::new();
        for _ in 0..20 {
            let mut client = world.client().await;
            client.send(GET).await;
            waiting.push(client);
        }
        for client in &mut waiting {
            client.expect_silence(Duration::from_millis(100)).await;
        }
        for client in &mut served {
            client.send("Host: a\r\n\r\n").await;
            assert_eq!(client.message().await.status(), 200);
        }
        assert_eq!(world.open_by_worker().iter().sum::<usize>(), 3);
        drop(served);
        for mut client in waiting {
            assert_eq!(client.message().await.status(), 200);
        }
    });
}

/// The connections of both sides.
fn both_sides(world: &World) -> usize {
    world.process.open_connections() + world.process.server_connections.now()
}

/// A configuration with a cap of eight on both sides, seven of them for clients.
fn eight_of_both_sides() -> String {
    let pool = app("server 10.0.1.1:80;", "");
    format!("workers 2; worker_connections 4 servers; max_connections 7; {pool}")
}

#[test]
fn connections_to_servers_count_under_a_cap_on_both_sides_and_the_surplus_waits() {
    play(&eight_of_both_sides(), async |world| {
        let silent = world.origin(1);
        let (mut clients, mut upstreams) = (Vec::new(), Vec::new());
        for _ in 0..4 {
            let mut client = world.client().await;
            client.send(GET).await;
            clients.push(client);
            upstreams.push(silent.accept().await);
        }
        assert_eq!(both_sides(world), 8);
        let mut surplus = Vec::new();
        for _ in 0..3 {
            let mut client = world.client().await;
            client.send(GET).await;
            surplus.push(client);
        }
        surplus[0].expect_silence(Duration::from_secs(3)).await;
        silent.expect_no_connection().await;
        assert_eq!(both_sides(world), 8);
        // Responses leave idle connections on both sides, which make room for those that wait.
        for mut upstream in upstreams {
            upstream.message().await;
            upstream.send(OK).await;
            spawn_local(async move {
                while upstream.next_message().await.is_some() {
                    upstream.send(OK).await;
                }
            });
        }
        silent.answers(OK);
        for client in clients.iter_mut().chain(&mut surplus) {
            assert_eq!(client.message().await.status(), 200);
            assert!(both_sides(world) <= 8);
        }
    });
}

#[test]
fn an_idle_client_makes_room_for_a_connection_to_a_server() {
    play(&eight_of_both_sides(), async |world| {
        world.origin(1).answers(OK);
        let mut clients = Vec::new();
        for _ in 0..7 {
            clients.push(idle_client(world).await);
        }
        assert_eq!(both_sides(world), 8, "seven clients have shared one connection");
        let mut gone = clients.remove(0);
        for client in clients.iter_mut().take(2) {
            client.send(GET).await;
        }
        for client in clients.iter_mut().take(2) {
            assert_eq!(client.message().await.status(), 200);
        }
        gone.expect_end().await;
        assert!(both_sides(world) <= 8);
    });
}

/// Like [`eight_of_both_sides`], with a second listener whose clients need no server.
fn eight_with_a_second_listener() -> String {
    format!("{} listen 10.0.0.1:81 -> respond 200;", eight_of_both_sides())
}

/// Clients of the second listener that are idle.
async fn idle_elsewhere(world: &World, count: usize) -> Vec<Peer> {
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut client = world.client_from("192.0.2.1", "10.0.0.1:81").await;
        client.send(GET).await;
        assert_eq!(client.message().await.status(), 200);
        clients.push(client);
        pass(200).await;
    }
    clients
}

#[test]
fn idle_clients_of_one_listener_make_room_for_another_under_a_cap_on_both_sides() {
    play(&eight_with_a_second_listener(), async |world| {
        let mut elsewhere = idle_elsewhere(world, 6).await;
        let silent = world.origin(1);
        let mut busy = Vec::new();
        for _ in 0..3 {
            let since = Instant::now();
            let mut client = world.client().await;
            client.send(GET).await;
            busy.push((client, silent.accept().await));
            assert!(since.elapsed() < Duration::from_millis(200), "{:?}", since.elapsed());
            assert_eq!(both_sides(world), 8);
        }
        for client in elsewhere.iter_mut().take(4) {
            client.expect_end().await;
        }
    });
}

#[test]
fn a_client_at_a_cap_on_both_sides_closes_one_idle_connection_to_a_server_at_once() {
    play(&eight_with_a_second_listener(), async |world| {
        let origin = world.origin(1);
        let (mut clients, mut upstreams) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let mut client = world.client().await;
            client.send(GET).await;
            clients.push(client);
            upstreams.push(origin.accept().await);
        }
        for (client, upstream) in clients.iter_mut().zip(&mut upstreams) {
            upstream.message().await;
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
        }
        clients.extend(idle_elsewhere(world, 2).await);
        assert_eq!(both_sides(world), 8);
        let since = Instant::now();
        clients.extend(idle_elsewhere(world, 1).await);
        assert!(since.elapsed() < Duration::from_millis(250), "{:?}", since.elapsed());
        pass(2500).await;
        assert_eq!(world.process.server_connections.idle(), 2, "one made room");
        for client in &mut clients {
            assert!(client.is_open().await);
        }
    });
}

#[test]
fn a_request_at_a_cap_on_both_sides_closes_an_idle_connection_of_another_worker_in_time() {
    let text = format!(
        "{} pool other {{ server 10.0.1.2:80; timeout connect=300ms; }}
         listen 10.0.0.1:81 -> other;",
        eight_of_both_sides()
    );
    play(&text, async |world| {
        let origin = world.origin(1);
        world.origin(2).answers(OK);
        // The first worker has two idle connections to the first server.
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(world.client().await);
            pass(1).await;
        }
        let mut upstreams = Vec::new();
        for number in [0, 2] {
            clients[number].send(GET).await;
            upstreams.push(origin.accept().await);
        }
        let mut workers = Vec::new();
        for (number, upstream) in [0, 2].into_iter().zip(&mut upstreams) {
            upstream.message().await;
            upstream.send(OK).await;
            assert_eq!(clients[number].message().await.status(), 200);
            workers.push(world.log_line().await.number("worker"));
        }
        assert_eq!(workers[0], workers[1]);
        clients.push(world.client_from("192.0.2.1", "10.0.0.1:81").await);
        pass(1).await;
        let mut other = world.client_from("192.0.2.1", "10.0.0.1:81").await;
        pass(1).await;
        assert_eq!((both_sides(world), world.process.server_connections.idle()), (8, 2));
        other.send(GET).await;
        assert_eq!(other.message().await.status(), 200);
        assert_ne!(world.log_line().await.number("worker"), workers[0]);
        assert_eq!(world.process.server_connections.idle(), 2, "one was closed for another");
        assert_eq!(both_sides(world), 8);
    });
}

#[test]
fn no_idle_client_is_closed_for_a_shortage_that_this_does_not_mend() {
    play(&eight_with_a_second_listener(), async |world| {
        let mut elsewhere = idle_elsewhere(world, 3).await;
        // No local port is left.
        world.connects(1, Some(Connects::Fails(99)));
        let mut client = world.client().await;
        client.send(GET).await;
        assert_eq!(client.message().await.status(), 503);
        for client in &mut elsewhere {
            assert!(client.is_open().await);
        }
    });
}

#[test]
fn without_room_for_a_connection_to_a_server_a_request_gets_503_in_time() {
    let pool = app("server 10.0.1.1:80; timeout connect=2s;", "");
    let text = format!("worker_connections 2 servers; max_connections 2; {pool}");
    play(&text, async |world| {
        let silent = world.origin(1);
        let mut first = world.client().await;
        first.send("GET / HTTP/1.1\r\n").await;
        let mut other = world.client().await;
        other.send(GET).await;
        // Both connections are those of clients, and neither is idle.
        assert_eq!(other.message().await.status(), 503);
        silent.expect_no_connection().await;
        assert_eq!(both_sides(world), 2);
    });
}

#[test]
fn a_listener_at_its_own_cap_does_not_delay_another() {
    let text = "pool app { server 10.0.1.1:80; }
        listen 10.0.0.1:80 max_connections=1 -> app;
        listen 10.0.0.1:81 -> app;";
    play(text, async |world| {
        world.origin(1).answers(OK);
        let mut first = world.client().await;
        first.send("GET / HTTP/1.1\r\n").await;
        let mut surplus = world.client().await;
        surplus.send(GET).await;
        surplus.expect_silence(Duration::from_secs(1)).await;
        let mut elsewhere = world.client_from("192.0.2.1", "10.0.0.1:81").await;
        elsewhere.send(GET).await;
        assert_eq!(elsewhere.message().await.status(), 200);
        drop(first);
        assert_eq!(surplus.message().await.status(), 200);
    });
}

#[test]
fn the_oldest_idle_connection_makes_room_at_the_cap_whichever_worker_has_it() {
    let text = format!("workers 2; max_connections 4; {}", app("server 10.0.1.1:80;", ""));
    play(&text, async |world| {
        world.origin(1).answers(OK);
        let mut idle = Vec::new();
        for _ in 0..4 {
            idle.push(idle_client(world).await);
            pass(200).await;
        }
        pass(5000).await;
        assert_eq!(closed(world), [0, 0, 0], "no connection waits");
        for expected in 1..=3 {
            let mut newcomer = world.client().await;
            newcomer.send(GET).await;
            assert_eq!(newcomer.message().await.status(), 200);
            idle.remove(0).expect_closed().await;
            assert_eq!(closed(world), [expected, 0, 0]);
            idle.push(newcomer);
            pass(200).await;
        }
        for client in &mut idle {
            client.send(GET).await;
            assert_eq!(client.message().await.status(), 200);
        }
    });
}

#[test]
fn a_connection_that_waits_at_the_cap_is_accepted_as_soon_as_another_is_idle() {
    let text = format!("max_connections 2; {}", app("server 10.0.1.1:80;", ""));
    play(&text, async |world| {
        let origin = world.origin(1);
        let mut busy = Vec::new();
        for _ in 0..2 {
            let mut client = world.client().await;
            client.send(GET).await;
            let mut upstream = origin.accept().await;
            upstream.message().await;
            busy.push((client, upstream));
        }
        let mut waiting = world.client().await;
        waiting.send(GET).await;
        waiting.expect_silence(Duration::from_secs(5)).await;
        let (mut client, mut upstream) = busy.remove(1);
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
        upstream.message().await;
        upstream.send(OK).await;
        assert_eq!(waiting.message().await.status(), 200);
        client.expect_closed().await;
        assert_eq!(closed(world), [1, 0, 0]);
        let (mut client, mut upstream) = busy.remove(0);
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
    });
}

#[test]
fn a_connection_that_never_sent_a_request_goes_before_those_that_did() {
    let text = format!("max_connections 3; {}", app("server 10.0.1.1:80;", ""));
    play(&text, async |world| {
        world.origin(1).answers(OK);
        let mut kept = idle_client(world).await;
        pass(200).await;
        let mut silent = vec![world.client().await, world.client().await];
        pass(1500).await;
        for expected in 1..=2 {
            let mut newcomer = world.client().await;
            newcomer.send("GET / HTTP/1.1\r\n").await;
            silent.remove(0).expect_closed().await;
            assert_eq!(closed(world), [expected, 0, 0]);
            silent.push(newcomer);
        }
        kept.send(GET).await;
        assert_eq!(kept.message().await.status(), 200);
    });
}

#[test]
fn at_a_listeners_own_cap_only_its_own_connections_make_room() {
    let text = "workers 2; pool app { server 10.0.1.1:80; }
        listen 10.0.0.1:80 max_connections=1 -> app;
        listen 10.0.0.1:81 -> app;";
    play(text, async |world| {
        world.origin(1).answers(OK);
        let mut elsewhere = world.client_from("192.0.2.1", "10.0.0.1:81").await;
        elsewhere.send(GET).await;
        assert_eq!(elsewhere.message().await.status(), 200);
        pass(1000).await;
        let mut first = idle_client(world).await;
        pass(1000).await;
        let mut second = idle_client(world).await;
        first.expect_closed().await;
        assert_eq!(closed(world), [0, 1, 0]);
        elsewhere.send(GET).await;
        assert_eq!(elsewhere.message().await.status(), 200);
        second.send(GET).await;
        assert_eq!(second.message().await.status(), 200);
    });
}

#[test]
fn idle_connections_are_closed_for_memory_on_request() {
    let text = format!("workers 3; {}", app("server 10.0.1.1:80;", ""));
    play(&text, async |world| {
        world.origin(1).answers(OK);
        let mut idle = Vec::new();
        for _ in 0..9 {
            idle.push(idle_client(world).await);
            pass(10).await;
        }
        pass(1000).await;
        world.process.idle_clients.give_up_for_memory(5);
        pass(10).await;
        assert_eq!(closed(world), [0, 0, 5]);
        world.process.idle_clients.give_up_for_memory(100);
        pass(10).await;
        assert_eq!(closed(world), [0, 0, 9]);
        for mut client in idle {
            client.expect_closed().await;
        }
    });
}

#[test]
fn six_hundred_heads_sent_byte_by_byte_do_not_delay_another_client() {
    let text = format!("workers 2; {}", app("server 10.0.1.1:80;", ""));
    play(&text, async |world| {
        world.origin(1).answers(OK);
        let mut slow = Vec::new();
        for _ in 0..600 {
            let mut client = world.client().await;
            client.send("GET / HTTP/1.1\r\nX").await;
            slow.push(client);
        }
        for _ in 0..5 {
            let mut honest = world.client().await;
            let start = tokio::time::Instant::now();
            honest.send(GET).await;
            assert_eq!(honest.message().await.status(), 200);
            assert_eq!(start.elapsed(), Duration::ZERO);
            for client in &mut slow {
                client.send("x").await;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        for mut client in slow {
            assert_eq!(client.message().await.status(), 408);
        }
    });
}

/// A limit of which one client may hold a quarter before its connections are closed to make room;
/// `/never` is not answered.
fn capped(cap: usize) -> String {
    format!(
        "workers 2; max_connections {cap};
         pool app {{ server 10.0.1.1:80; }}
         pool silent {{ server 10.0.1.2:80; }}
         listen 10.0.0.1:80 {{ route path /never -> silent; route -> app; }}"
    )
}

const NEVER: &str = "GET /never HTTP/1.1\r\nHost: a\r\n\r\n";
const LISTENER: &str = "10.0.0.1:80";

/// Connects from another address and checks that its request is answered at once.
async fn honest(world: &World, last: usize) -> Peer {
    let mut client = world.client_from(&format!("198.51.100.{last}"), LISTENER).await;
    client.send(GET).await;
    let began = tokio::time::Instant::now();
    assert_eq!(client.message().await.status(), 200);
    assert!(began.elapsed() < Duration::from_millis(5), "it waited for {:?}", began.elapsed());
    client
}

#[test]
fn a_client_with_most_of_the_connections_gives_way_to_others() {
    play(&capped(40), async |world| {
        world.origin(1).answers(OK);
        let _silent = world.origin(2);
        let mut kept = honest(world, 1).await;
        let mut hostile = Vec::new();
        for _ in 0..100 {
            let mut client = world.client_from("192.0.2.66", LISTENER).await;
            client.send(NEVER).await;
            hostile.push(client);
            pass(1).await;
        }
        pass(10).await;
        let mut others = Vec::new();
        for last in 2..20 {
            others.push(honest(world, last).await);
            kept.send(GET).await;
            assert_eq!(kept.message().await.status(), 200);
            pass(5).await;
        }
        let read =
            |count: &std::sync::atomic::AtomicU64| count.load(std::sync::atomic::Ordering::Relaxed);
        let (refused, given_up) =
            (read(&world.process.refused_at_cap), read(&world.process.given_up_at_cap));
        assert!(refused >= 40, "{refused} refused");
        assert!((10..30).contains(&given_up), "{given_up} given up");
        let lines = world.log().await;
        let lost = lines.iter().filter(|line| line.text("cause") == "connection_cap");
        let lost = lost.filter(|line| line.number("status") == Some(503)).count();
        assert_eq!(lost as u64, given_up);
    });
}

/// Like [`capped`], with a cap on both sides: half of it is enough for a client whose requests all
/// have connections to servers.
fn capped_on_both_sides(cap: usize) -> String {
    let clients = format!("max_connections {}", cap - cap / 8);
    let both = format!("worker_connections {} servers", cap / 2);
    capped(cap).replace(&format!("max_connections {cap}"), &format!("{both}; {clients}"))
}

/// Fills a cap of 40 on both sides with 20 requests of one client.
async fn fill_both_sides(world: &World) -> Vec<Peer> {
    let mut hostile = Vec::new();
    for _ in 0..30 {
        let mut client = world.client_from("192.0.2.66", LISTENER).await;
        client.send(NEVER).await;
        hostile.push(client);
        pass(1).await;
    }
    pass(100).await;
    hostile
}

#[test]
fn a_client_with_most_of_the_requests_gives_way_under_a_cap_on_both_sides() {
    play(&capped_on_both_sides(40), async |world| {
        world.origin(1).answers(OK);
        let _silent = world.origin(2);
        let mut kept = world.client_from("198.51.100.1", LISTENER).await;
        kept.send(GET).await;
        assert_eq!(kept.message().await.status(), 200);
        let _hostile = fill_both_sides(world).await;
        assert!(both_sides(world) >= 39, "{}", both_sides(world));
        let mut others = Vec::new();
        for last in 2..10 {
            let mut client = world.client_from(&format!("198.51.100.{last}"), LISTENER).await;
            client.send(GET).await;
            let began = Instant::now();
            assert_eq!(client.message().await.status(), 200);
            assert!(began.elapsed() < Duration::from_millis(200), "{:?}", began.elapsed());
            others.push(client);
            kept.send(GET).await;
            assert_eq!(kept.message().await.status(), 200);
            assert!(both_sides(world) <= 40);
        }
        for client in &mut others {
            assert!(client.is_open().await, "no other client gives way");
        }
        let causes = world.log().await.into_iter().map(|line| line.text("cause"));
        assert!(causes.filter(|cause| cause == "connection_cap").count() >= 1);
    });
}

#[test]
fn a_request_of_another_client_is_served_under_a_cap_on_both_sides() {
    play(&capped_on_both_sides(40), async |world| {
        world.origin(1).answers(OK);
        let _silent = world.origin(2);
        let mut others = Vec::new();
        for last in 1..3 {
            others.push(world.client_from(&format!("198.51.100.{last}"), LISTENER).await);
            pass(1).await;
        }
        let _hostile = fill_both_sides(world).await;
        for client in &mut others {
            let began = Instant::now();
            client.send(GET).await;
            assert_eq!(client.message().await.status(), 200);
            assert!(began.elapsed() < Duration::from_millis(200), "{:?}", began.elapsed());
        }
    });
}

#[test]
fn a_client_behind_a_proxy_with_most_of_the_connections_gives_way_to_others() {
    let text = capped(40).replace("route path", "proxy_protocol 10.9.0.0/16; route path");
    play(&text, async |world| {
        world.origin(1).answers(OK);
        let _silent = world.origin(2);
        let _others = honest(world, 1).await;
        let mut hostile = Vec::new();
        for _ in 0..39 {
            let mut client = world.client_from("10.9.0.1", LISTENER).await;
            client.send("PROXY TCP4 192.0.2.66 10.0.0.1 1234 80\r\n").await;
            client.send(NEVER).await;
            hostile.push(client);
            pass(1).await;
        }
        pass(10).await;
        let mut others = Vec::new();
        for last in 2..20 {
            others.push(honest(world, last).await);
            pass(5).await;
        }
        let causes = world.log().await.into_iter().map(|line| line.text("cause"));
        let given_up = causes.filter(|cause| cause == "connection_cap").count();
        assert!((10..30).contains(&given_up), "{given_up} given up");
    });
}

/// A request that is never answered, over HTTP/2.
const NEVER2: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":path", "/never"), (":authority", "a")];

#[test]
fn a_client_with_open_streams_on_most_of_the_connections_gives_way_to_others() {
    let text = capped(40).replace("route path", "http2 on; route path");
    play(&text, async |world| {
        world.origin(1).answers(OK);
        let _silent = world.origin(2);
        let mut kept = honest(world, 1).await;
        let mut hostile = Vec::new();
        for _ in 0..60 {
            let peer = world.client_from("192.0.2.66", LISTENER).await;
            let mut client = Http2Peer::begin(peer, &[]).await;
            for stream in [1, 3, 5] {
                client.request(stream, &NEVER2, END_STREAM).await;
            }
            hostile.push(client);
            pass(1).await;
        }
        pass(10).await;
        let mut others = Vec::new();
        for last in 2..20 {
            others.push(honest(world, last).await);
            kept.send(GET).await;
            assert_eq!(kept.message().await.status(), 200);
            pass(5).await;
        }
        let given_up = world.process.given_up_at_cap.load(std::sync::atomic::Ordering::Relaxed);
        assert!((10..30).contains(&given_up), "{given_up} given up");
        let lines = world.log().await;
        let causes = lines.iter().map(|line| line.text("cause")).collect::<Vec<_>>();
        let lost = causes.iter().filter(|cause| *cause == "connection_cap").count() as u64;
        assert_eq!(lost, 3 * given_up, "all streams of a connection end with it: {causes:?}");
        let mut told = 0;
        for client in &mut hostile {
            let mut bytes = [0; 4096];
            let read = timeout(Duration::from_millis(1), client.peer.try_read(&mut bytes)).await;
            let Ok(Ok(count)) = read else { continue };
            // The end of a GOAWAY: its last stream and its code.
            let last = [5u32.to_be_bytes(), ENHANCE_YOUR_CALM.to_be_bytes()].concat();
            told += u64::from(bytes[..count].ends_with(&last));
        }
        assert_eq!(told, given_up, "each client is told");
    });
}

#[test]
fn a_client_whose_connections_never_begin_http2_gives_way_to_others() {
    for begun in ["P", "PRI * HTTP/2.0\r\n\r\nSM"] {
        let text = capped(40).replace("route path", "http2 on; route path");
        play(&text, async |world| {
            world.origin(1).answers(OK);
            let _kept = honest(world, 1).await;
            let mut hostile = Vec::new();
            for _ in 0..60 {
                let mut client = world.client_from("192.0.2.66", LISTENER).await;
                client.send(begun).await;
                hostile.push(client);
                pass(1).await;
            }
            pass(10).await;
            let mut others = Vec::new();
            for last in 2..20 {
                others.push(honest(world, last).await);
                pass(5).await;
            }
            drop((hostile, others));
            world.log().await;
        });
    }
}

#[test]
fn a_connection_whose_streams_stand_still_gives_way_before_one_that_is_used() {
    let text = capped(16).replace("route path", "http2 on; route path");
    play(&text, async |world| {
        world.origin(1).answers(OK);
        let _silent = world.origin(2);
        let _others = honest(world, 1).await;
        let mut hostile = Vec::new();
        for _ in 0..15 {
            let peer = world.client_from("192.0.2.66", LISTENER).await;
            let mut client = Http2Peer::begin(peer, &[]).await;
            client.request(1, &NEVER2, END_STREAM).await;
            hostile.push(client);
            pass(1).await;
        }
        pass(1_000).await;
        // The oldest one does something.
        hostile[0].send(PING, 0, 0, &[1; 8]).await;
        pass(10).await;
        let _newcomer = honest(world, 2).await;
        pass(100).await;
        hostile[1].goaway().await;
        let used = &mut hostile[0];
        used.frame_settings().await;
        used.send(PING, 0, 0, &[2; 8]).await;
        while used.any_frame().await.payload != [2; 8] {}
        drop(hostile);
        world.log().await;
    });
}

#[test]
fn without_other_clients_connections_over_the_cap_wait() {
    play(&capped(40), async |world| {
        let silent = world.origin(2);
        let mut clients = Vec::new();
        for _ in 0..60 {
            let mut client = world.client().await;
            client.send(NEVER).await;
            clients.push(client);
        }
        let mut upstreams = Vec::new();
        for _ in 0..40 {
            upstreams.push(silent.accept().await);
        }
        silent.expect_no_connection().await;
        for upstream in &mut upstreams {
            upstream.message().await;
            upstream.send(OK).await;
        }
        drop(upstreams);
        silent.answers(OK);
        for mut client in clients {
            assert_eq!(client.message().await.status(), 200);
        }
    });
}

#[test]
fn silent_connections_of_one_client_close_no_idle_ones_of_others() {
    play(&capped(40), async |world| {
        world.origin(1).answers(OK);
        let mut idle = Vec::new();
        for last in 1..=10 {
            idle.push(honest(world, last).await);
        }
        pass(1000).await;
        let mut silent = Vec::new();
        for _ in 0..200 {
            silent.push(world.client_from("192.0.2.66", LISTENER).await);
        }
        pass(10).await;
        for client in &mut idle {
            client.send(GET).await;
            assert_eq!(client.message().await.status(), 200);
        }
        assert_ne!(closed(world), [0, 0, 0]);
    });
}

#[test]
fn room_is_made_for_another_client_however_many_requests_come_first() {
    for burst in 8..16 {
        play(&capped(12), async |world| {
            world.origin(1).answers(OK);
            let _silent = world.origin(2);
            let mut kept = honest(world, 1).await;
            pass(1000).await;
            let mut hostile = Vec::new();
            for _ in 0..burst {
                let mut client = world.client_from("192.0.2.66", LISTENER).await;
                client.send(NEVER).await;
                hostile.push(client);
            }
            let mut other = world.client_from("198.51.100.2", LISTENER).await;
            other.send(GET).await;
            let began = tokio::time::Instant::now();
            assert_eq!(other.message().await.status(), 200);
            assert!(began.elapsed() < Duration::from_millis(50), "{burst}: {:?}", began.elapsed());
            kept.send(GET).await;
            assert_eq!(kept.message().await.status(), 200);
        });
    }
}
