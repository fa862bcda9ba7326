//! Connections to origins are kept and reused within their four limits. A connection that turns out
//! closed is replaced without a visible effect on the client, where that is safe.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::sleep;

use crate::peer::Peer;
use crate::tls_peer::{TlsPeer, certify};
use crate::world::{Connects, World, app, play};
use crate::{GET, OK};

const ONE: &str = "server 10.0.1.1:80;";

async fn get(client: &mut Peer) -> u16 {
    client.send(GET).await;
    client.message().await.status()
}

#[test]
fn a_connection_is_used_again_by_the_same_client_and_by_others() {
    play(&app(ONE, ""), async |world| {
        let seen = world.origin(1).answers(OK);
        let mut first = world.client().await;
        let mut second = world.client().await;
        for client in [&mut first, &mut second] {
            assert_eq!((get(client).await, get(client).await), (200, 200));
        }
        assert_eq!(seen.borrow().connections, 1);
        let reused: Vec<String> =
            world.log().await.iter().map(|line| line.text("reused")).collect();
        assert_eq!(reused, ["false", "true", "true", "true"]);
    });
}

/// The number of exchanges that took over an idle connection of another worker, and of those that
/// found none to take over while another worker had one.
fn taken_over_and_left(world: &World) -> (u64, u64) {
    let endpoint = world.snapshot().pools[0].endpoints[0].clone();
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    (read(&endpoint.taken_over), read(&endpoint.idle_elsewhere))
}

#[test]
fn a_connection_that_was_idle_for_a_while_is_taken_over_by_another_worker() {
    let text = format!("workers 2; {}", app(ONE, ""));
    play(&text, async |world| {
        let seen = world.origin(1).answers(OK);
        let mut first = world.client().await;
        let mut second = world.client().await;
        for turn in 0..3 {
            assert_eq!(get(&mut first).await, 200);
            sleep(Duration::from_secs(3)).await;
            assert_eq!(get(&mut second).await, 200);
            sleep(Duration::from_secs(3)).await;
            assert_eq!(seen.borrow().connections, 1, "turn {turn}");
        }
        assert_eq!(world.open_by_worker(), [1, 1]);
        assert_eq!(taken_over_and_left(world), (6 - 1, 0));
        let pool = &world.snapshot().pools[0];
        assert_eq!(pool.endpoints[0].idle.now(), 1);
    });
}

/// No other worker takes a connection for a name that a request decided, so it waits for its own.
#[test]
fn a_connection_for_a_name_that_was_idle_for_a_while_is_used_again() {
    let text = app("server 10.0.1.1:80; tls verify=off name=$http_host;", "");
    play(&format!("workers 2; {text}"), async |world| {
        let certified = certify(world);
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(GET).await;
        let mut upstream = TlsPeer::server(origin.accept().await, &certified).await;
        for _ in 0..3 {
            assert!(upstream.head().await.starts_with("GET "));
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
            sleep(Duration::from_secs(3)).await;
            client.send(GET).await;
        }
    });
}

/// A connection that another worker has just used stays there, because that worker may use it again
/// at once; the next one that becomes idle there is for the worker that had to open one.
#[test]
fn a_worker_that_found_no_idle_connection_gets_the_next_one_of_another() {
    let text = format!("workers 2; {}", app(ONE, ""));
    play(&text, async |world| {
        let seen = world.origin(1).answers(OK);
        let mut first = world.client().await;
        let mut second = world.client().await;
        assert_eq!(get(&mut first).await, 200);
        assert_eq!(world.open_by_worker(), [1, 1]);
        assert_eq!(taken_over_and_left(world), (0, 0), "no worker had any");
        assert_eq!(get(&mut second).await, 200);
        assert_eq!(taken_over_and_left(world), (0, 1));
        assert_eq!(seen.borrow().connections, 2);
        // The first worker parks its connection, and the second has one of its own.
        assert_eq!((get(&mut first).await, get(&mut second).await), (200, 200));
        assert_eq!(taken_over_and_left(world), (0, 1));
        assert_eq!(get(&mut first).await, 200, "the first worker takes its own one back");
        assert_eq!(taken_over_and_left(world), (1, 1));
        assert_eq!(seen.borrow().connections, 2);
    });
}

#[test]
fn a_parked_connection_counts_for_the_cap_and_is_closed_after_its_time() {
    let text = app("server 10.0.1.1:80; keepalive idle=1 timeout=10s;", "");
    play(&format!("workers 2; {text}"), async |world| {
        let origin = world.origin(1);
        let mut first = world.client().await;
        let mut second = world.client().await;
        first.send(GET).await;
        let mut parked = origin.accept().await;
        parked.message().await;
        second.send(GET).await;
        let mut other = origin.accept().await;
        other.message().await;
        parked.send(OK).await;
        assert_eq!(first.message().await.status(), 200);
        sleep(Duration::from_secs(4)).await;
        other.send(OK).await;
        assert_eq!(second.message().await.status(), 200);
        assert!(!parked.is_open().await, "the parked one was idle for longer");
        assert!(other.is_open().await);
        let endpoint = world.snapshot().pools[0].endpoints[0].clone();
        assert_eq!(endpoint.idle.now(), 1);
        sleep(Duration::from_secs(4)).await;
        assert!(endpoint.idle.now() == 1 && other.is_open().await, "it is parked now");
        sleep(Duration::from_secs(8)).await;
        assert!(!other.is_open().await);
        assert_eq!(endpoint.idle.now(), 0);
    });
}

#[test]
fn a_parked_connection_that_its_endpoint_closed_is_not_used() {
    let text = format!("workers 2; {}", app(ONE, ""));
    play(&text, async |world| {
        let origin = world.origin(1);
        let mut first = world.client().await;
        let mut second = world.client().await;
        first.send(GET).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send(OK).await;
        assert_eq!(first.message().await.status(), 200);
        sleep(Duration::from_secs(3)).await;
        drop(upstream);
        sleep(Duration::from_secs(1)).await;
        second.send(GET).await;
        let mut fresh = origin.accept().await;
        fresh.message().await;
        fresh.send(OK).await;
        assert_eq!(second.message().await.status(), 200);
        assert_eq!(taken_over_and_left(world), (0, 0));
    });
}

#[test]
fn a_reload_closes_parked_connections_to_endpoints_that_are_gone() {
    let text = |server: &str| format!("workers 2; {}", app(server, ""));
    play(&text(ONE), async |world| {
        let origin = world.origin(1);
        let mut first = world.client().await;
        let _second = world.client().await;
        first.send(GET).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send(OK).await;
        assert_eq!(first.message().await.status(), 200);
        let endpoint = world.snapshot().pools[0].endpoints[0].clone();
        sleep(Duration::from_secs(3)).await;
        assert!(upstream.is_open().await && endpoint.idle.now() == 1);
        world.reload(&text("server 10.0.1.2:80;")).await;
        assert!(!upstream.is_open().await);
        assert_eq!(endpoint.idle.now(), 0);
    });
}

/// Each step is a request of one of three clients; the numbers are those of the connections that
/// the origin has seen after it.
#[test]
fn the_level_of_reuse_says_which_requests_take_idle_connections() {
    for (level, expected) in [
        ("always", [1, 1, 1, 1, 1]),
        ("aggressive", [1, 2, 2, 2, 2]),
        ("safe", [1, 2, 2, 2, 3]),
        ("never", [1, 2, 2, 2, 3]),
    ] {
        let text = app(&format!("server 10.0.1.1:80; keepalive reuse={level};"), "");
        play(&text, async |world| {
            let seen = world.origin(1).answers(OK);
            let mut clients = [world.client().await, world.client().await, world.client().await];
            let mut opened = Vec::new();
            for client in [0, 1, 0, 1, 2] {
                assert_eq!(get(&mut clients[client]).await, 200);
                opened.push(seen.borrow().connections);
            }
            assert_eq!(opened, expected, "{level}");
        });
    }
}

#[test]
fn a_connection_that_is_never_shared_serves_its_client_and_ends_with_it() {
    let pool = "server 10.0.1.1:80; keepalive idle=1 timeout=2s reuse=never;";
    let text = format!("workers 2; {}", app(pool, ""));
    play(&text, async |world| {
        let origin = world.origin(1);
        let (mut clients, mut upstreams) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let mut client = world.client().await;
            client.send(GET).await;
            let mut upstream = origin.accept().await;
            upstream.message().await;
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
            clients.push(client);
            upstreams.push(upstream);
        }
        // It is not parked for other workers either.
        sleep(Duration::from_secs(4)).await;
        for (client, upstream) in clients.iter_mut().zip(&mut upstreams) {
            client.send(GET).await;
            upstream.message().await;
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
        }
        let endpoint = world.snapshot().pools[0].endpoints[0].clone();
        assert_eq!(endpoint.idle.now(), 3);
        drop(clients.remove(0));
        upstreams[0].expect_closed().await;
        assert_eq!(endpoint.idle.now(), 2);
        assert!(upstreams[1].is_open().await && upstreams[2].is_open().await);
    });
}

/// The bytes that one user left on a connection must not reach another when the setting changes.
#[test]
fn connections_of_single_clients_are_not_shared_after_a_reload() {
    let text = |level: &str| app(&format!("server 10.0.1.1:80; keepalive reuse={level};"), "");
    play(&text("never"), async |world| {
        let seen = world.origin(1).answers(OK);
        let mut first = world.client().await;
        assert_eq!(get(&mut first).await, 200);
        world.reload(&text("always")).await;
        let mut second = world.client().await;
        assert_eq!((get(&mut second).await, get(&mut first).await), (200, 200));
        assert_eq!(seen.borrow().connections, 2);
    });
}

#[test]
fn beyond_the_cap_the_connection_that_was_idle_the_longest_is_closed() {
    play(&app("server 10.0.1.1:80; keepalive idle=2;", ""), async |world| {
        let origin = world.origin(1);
        let (mut clients, mut upstreams) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let mut client = world.client().await;
            client.send(GET).await;
            let mut upstream = origin.accept().await;
            upstream.message().await;
            clients.push(client);
            upstreams.push(upstream);
        }
        for number in [1, 0, 2] {
            upstreams[number].send(OK).await;
            assert_eq!(clients[number].message().await.status(), 200);
        }
        upstreams[1].expect_closed().await;
        assert!(upstreams[0].is_open().await && upstreams[2].is_open().await);
        let endpoint = world.snapshot().pools[0].endpoints[0].clone();
        assert_eq!(endpoint.idle.now(), 2);
        world.reload(&app("server 10.0.1.1:80; keepalive idle=1;", "")).await;
        clients[1].send(GET).await;
        upstreams[2].message().await;
        upstreams[2].send(OK).await;
        assert_eq!(clients[1].message().await.status(), 200);
        upstreams[0].expect_closed().await;
        assert_eq!(endpoint.idle.now(), 1, "a lower cap holds once a connection is kept");
    });
}

#[test]
fn the_cap_on_idle_connections_is_exact_over_all_workers() {
    let text = format!("workers 3; {}", app("server 10.0.1.1:80; keepalive idle=4;", ""));
    play(&text, async |world| {
        let origin = world.origin(1);
        let (mut clients, mut upstreams) = (Vec::new(), Vec::new());
        for _ in 0..9 {
            let mut client = world.client().await;
            client.send(GET).await;
            let mut upstream = origin.accept().await;
            upstream.message().await;
            clients.push(client);
            upstreams.push(upstream);
        }
        assert_eq!(world.open_by_worker(), [3, 3, 3]);
        for (client, upstream) in clients.iter_mut().zip(&mut upstreams) {
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
        }
        let mut open = 0;
        for upstream in &mut upstreams {
            open += usize::from(upstream.is_open().await);
        }
        assert_eq!(open, 4);
    });
}

#[test]
fn an_idle_connection_is_closed_after_its_time() {
    play(&app("server 10.0.1.1:80; keepalive timeout=5s;", ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(GET).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send(OK).await;
        client.message().await;
        sleep(Duration::from_millis(4_900)).await;
        assert!(upstream.is_open().await);
        sleep(Duration::from_millis(1_200)).await;
        upstream.expect_closed().await;
    });
}

#[test]
fn a_connection_serves_at_most_its_number_of_requests() {
    play(&app("server 10.0.1.1:80; keepalive max_requests=3;", ""), async |world| {
        let seen = world.origin(1).answers(OK);
        let mut client = world.client().await;
        for _ in 0..7 {
            assert_eq!(get(&mut client).await, 200);
        }
        assert_eq!(seen.borrow().connections, 3);
    });
}

#[test]
fn a_connection_is_closed_at_its_age_however_busy() {
    play(&app("server 10.0.1.1:80; keepalive max_age=10s;", ""), async |world| {
        let seen = world.origin(1).answers(OK);
        let mut client = world.client().await;
        for _ in 0..30 {
            assert_eq!(get(&mut client).await, 200);
            sleep(Duration::from_millis(900)).await;
        }
        assert_eq!(seen.borrow().connections, 3);
    });
}

#[test]
fn no_connection_is_kept_when_keepalive_is_off() {
    play(&app("server 10.0.1.1:80; keepalive off;", ""), async |world| {
        let seen = world.origin(1).answers(OK);
        let mut client = world.client().await;
        assert_eq!((get(&mut client).await, get(&mut client).await), (200, 200));
        assert_eq!(seen.borrow().connections, 2);
    });
}

#[test]
fn a_connection_that_the_origin_ends_is_not_kept() {
    let ending = [
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok surplus",
    ];
    for response in ending {
        play(&app(ONE, ""), async |world| {
            let seen = world.origin(1).answers(response);
            let mut client = world.client().await;
            assert_eq!((get(&mut client).await, get(&mut client).await), (200, 200));
            assert_eq!(seen.borrow().connections, 2, "{response:?}");
        });
    }
}

/// Returns a client whose next request uses a kept connection, and the origin's end of that
/// connection.
async fn used_connection(world: &World, origin: &crate::origin::Origin) -> (Peer, Peer) {
    let mut client = world.client().await;
    client.send(GET).await;
    let mut upstream = origin.accept().await;
    upstream.message().await;
    upstream.send(OK).await;
    assert_eq!(client.message().await.status(), 200);
    world.expect_logged("complete", Some(200)).await;
    (client, upstream)
}

#[test]
fn an_idempotent_request_is_repeated_once_when_a_used_connection_closes_without_a_byte() {
    let requests = [
        GET,
        "DELETE /x HTTP/1.1\r\nHost: a\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ];
    for request in requests {
        play(&app(ONE, ""), async |world| {
            let origin = world.origin(1);
            let (mut client, mut upstream) = used_connection(world, &origin).await;
            client.send(request).await;
            let before = upstream.message().await;
            drop(upstream);
            let mut upstream = origin.accept().await;
            let again = upstream.message().await;
            assert_eq!((&again.first, &again.body), (&before.first, &before.body));
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
            let line = world.log_line().await;
            assert_eq!(line.text("cause"), "complete");
            assert_eq!((line.text("reused").as_str(), line.number("attempts")), ("false", Some(2)));
        });
    }
}

#[test]
fn a_buffered_request_is_repeated_with_its_whole_body() {
    play(&app("server 10.0.1.1:80; buffer_request 1m;", ""), async |world| {
        let origin = world.origin(1);
        let (mut client, mut upstream) = used_connection(world, &origin).await;
        client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello").await;
        sleep(Duration::from_secs(1)).await;
        client.send("world").await;
        assert_eq!(upstream.message().await.text(), "helloworld");
        drop(upstream);
        let mut upstream = origin.accept().await;
        assert_eq!(upstream.message().await.text(), "helloworld");
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
    });
}

#[test]
fn a_request_is_not_repeated_a_second_time() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let (mut client, mut upstream) = used_connection(world, &origin).await;
        client.send(GET).await;
        upstream.message().await;
        drop(upstream);
        let mut upstream = origin.accept().await;
        upstream.message().await;
        drop(upstream);
        assert_eq!(client.message().await.status(), 502);
        origin.expect_no_connection().await;
        world.expect_logged("upstream_reset", Some(502)).await;
    });
}

#[test]
fn a_request_that_may_not_be_repeated_gets_502() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let (mut client, mut upstream) = used_connection(world, &origin).await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").await;
        upstream.message().await;
        drop(upstream);
        assert_eq!(client.message().await.status(), 502);
        origin.expect_no_connection().await;
        world.expect_logged("upstream_reset", Some(502)).await;
    });
}

#[test]
fn a_request_whose_response_has_begun_is_not_repeated() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let (mut client, mut upstream) = used_connection(world, &origin).await;
        client.send(GET).await;
        upstream.message().await;
        upstream.send("HTTP/1.1 2").await;
        drop(upstream);
        assert_eq!(client.message().await.status(), 502);
        origin.expect_no_connection().await;
        world.expect_logged("upstream_reset", Some(502)).await;
    });
}

#[test]
fn a_streamed_body_that_is_gone_is_not_repeated() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let (mut client, mut upstream) = used_connection(world, &origin).await;
        client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello").await;
        upstream.head().await;
        upstream.expect("hello").await;
        client.send("world").await;
        upstream.expect("world").await;
        drop(upstream);
        assert_eq!(client.message().await.status(), 502);
        origin.expect_no_connection().await;
    });
}

#[test]
fn a_request_that_found_a_closed_connection_before_it_was_sent_goes_over_a_fresh_one() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let (mut client, upstream) = used_connection(world, &origin).await;
        drop(upstream);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").await;
        let mut upstream = origin.accept().await;
        assert_eq!(upstream.message().await.text(), "hi");
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
    });
}

#[test]
fn a_reset_on_a_fresh_connection_gets_502() {
    for method in ["GET", "POST"] {
        play(&app(ONE, ""), async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            client
                .send(format!("{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"))
                .await;
            drop(origin.accept().await);
            assert_eq!(client.message().await.status(), 502);
            origin.expect_no_connection().await;
            world.expect_logged("upstream_reset", Some(502)).await;
        });
    }
}

#[test]
fn a_repeated_request_whose_server_has_gone_goes_to_another() {
    play(&app("server 10.0.1.1:80; server 10.0.1.2:80 backup;", ""), async |world| {
        let origin = world.origin(1);
        let (mut client, mut upstream) = used_connection(world, &origin).await;
        world.origin(2).answers("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
        client.send(GET).await;
        upstream.message().await;
        world.connects(1, Some(Connects::Refused));
        drop(upstream);
        assert_eq!(client.message().await.status(), 201);
        let line = world.log_line().await;
        assert_eq!(
            (line.text("endpoint").as_str(), line.number("attempts")),
            ("10.0.1.2:80", Some(3))
        );
    });
}

#[test]
fn the_keep_alive_header_of_an_origin_is_respected() {
    let cases = [
        ("timeout=5, max=100", 3_900, 1),
        ("timeout=5, max=100", 4_100, 2),
        ("Timeout = 1", 400, 1),
        ("timeout=1", 600, 2),
        ("timeout=0", 0, 2),
        ("max=0", 0, 2),
        ("max=1; timeout=9999999999", 50_000, 1),
        ("timeout=soon, , =, max", 50_000, 1),
    ];
    for (line, pause_ms, connections) in cases {
        play(&app(ONE, ""), async |world| {
            let head =
                format!("HTTP/1.1 200 OK\r\nKeep-Alive: {line}\r\nContent-Length: 2\r\n\r\nok");
            let seen = world.origin(1).answers(&head);
            let mut client = world.client().await;
            assert_eq!(get(&mut client).await, 200);
            sleep(Duration::from_millis(pause_ms)).await;
            client.send(GET).await;
            let response = client.message().await;
            assert_eq!(response.header("keep-alive"), None, "it concerns another connection");
            assert_eq!(seen.borrow().connections, connections, "{line} after {pause_ms} ms");
        });
    }
}

#[test]
fn a_response_that_precedes_its_request_is_never_taken_for_its_response() {
    for after_ms in [0, 1, 4, 5, 50] {
        play(&app("server 10.0.1.1:80;", ""), async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            client.send(GET).await;
            let mut upstream = origin.accept().await;
            upstream.message().await;
            upstream.send(OK).await;
            assert_eq!(client.message().await.text(), "ok");
            upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray").await;
            sleep(Duration::from_millis(after_ms)).await;
            client.send(GET).await;
            let mut fresh = origin.accept_within(Duration::from_secs(1)).await.expect("a new one");
            fresh.message().await;
            fresh.send(OK).await;
            assert_eq!(client.message().await.text(), "ok", "{after_ms} ms after");
            upstream.expect_end().await;
        });
    }
}
