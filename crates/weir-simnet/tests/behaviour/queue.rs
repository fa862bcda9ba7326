//! The queue: when all servers are full, requests wait in order of arrival over all workers, and a
//! released slot goes to the next request at once. A request that waits too long, or finds the
//! queue full, gets an error response.

use std::time::Duration;

use tokio::task::{JoinHandle, spawn_local};
use tokio::time::Instant;
use weir_balance::{AdminState, Health};

use crate::origin::Origin;
use crate::peer::Peer;
use crate::world::{Connects, World, app, pass, play};
use crate::{GET, OK};

/// One server with one slot.
const ONE: &str = "server 10.0.1.1:80 max_conn=1;";
const TWO: &str = "server 10.0.1.1:80 max_conn=1; server 10.0.1.2:80 max_conn=1;";

fn four_workers(pool: &str) -> String {
    format!("workers 4; {}", app(pool, ""))
}

fn request(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// Sends a request and lets it proceed as far as it can while no time passes.
async fn asks(world: &World, target: &str) -> Peer {
    let mut client = world.client().await;
    client.send(request(target)).await;
    pass(1).await;
    client
}

/// Returns the target of an origin's next request and its connection, which waits for a response.
async fn taken(origin: &Origin) -> (String, Peer) {
    let mut upstream = origin.accept().await;
    let target = target_of(&mut upstream).await;
    (target, upstream)
}

async fn target_of(upstream: &mut Peer) -> String {
    upstream.message().await.first.split(' ').nth(1).unwrap().to_owned()
}

#[test]
fn conditions_look_at_the_load_of_a_pool_and_of_its_servers() {
    let routes = "route path /look in_flight app=1 queued app=2 load app=3 queued_per_server app=2.. \
            in_flight app/one=1 queued app/one=0 servers app/one=1 -> respond 200 full; \
        route path /look in_flight app/one=0 load app=0 queued_per_server app=0 -> respond 200 idle; \
        route path /look -> respond 200 other;";
    let pool = "server 10.0.1.1:80 name=one max_conn=1; queue timeout=1m;";
    play(&app(pool, routes), async |world| {
        let origin = world.origin(1);
        let mut observer = world.client().await;
        let mut look = async || {
            observer.send(request("/look")).await;
            observer.message().await.text().to_owned()
        };
        assert_eq!(look().await, "idle");
        let mut clients = vec![asks(world, "/1").await];
        let (_, mut upstream) = taken(&origin).await;
        assert_eq!(look().await, "other");
        clients.push(asks(world, "/2").await);
        clients.push(asks(world, "/3").await);
        assert_eq!(look().await, "full");
        for (client, more) in clients.iter_mut().zip([true, true, false]) {
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
            if more {
                target_of(&mut upstream).await;
            }
        }
        assert_eq!(look().await, "idle");
    });
}

#[test]
fn the_limit_is_exact_on_the_wire_over_four_workers_and_no_server_idles_while_a_request_waits() {
    let pool = "balance least_conn; server 10.0.1.1:80 max_conn=1; server 10.0.1.2:80 max_conn=1; \
                server 10.0.1.3:80 max_conn=1; queue timeout=1m;";
    play(&four_workers(pool), async |world| {
        let service = Duration::from_millis(20);
        let seen = [1, 2, 3].map(|number| world.origin(number).answers_after(service, OK));
        let began = Instant::now();
        let (clients, each) = (30, 10);
        let mut running: Vec<JoinHandle<()>> = Vec::new();
        for _ in 0..clients {
            let mut client = world.client().await;
            running.push(spawn_local(async move {
                for _ in 0..each {
                    client.send(GET).await;
                    assert_eq!(client.message().await.status(), 200);
                }
            }));
        }
        for client in running {
            client.await.unwrap();
        }
        // The optimum: three servers that are never idle.
        assert_eq!(began.elapsed(), service * clients * each / 3);
        assert_eq!(seen.each_ref().map(|seen| seen.borrow().most_busy), [1, 1, 1]);
        assert_eq!(seen.map(|seen| seen.borrow().requests.len()), [100, 100, 100]);
        let balancer = &world.pool().balancer;
        assert_eq!((balancer.counters().violations, balancer.queue_length().longest), (0, 27));
    });
}

#[test]
fn servers_see_requests_in_order_of_arrival_over_all_workers() {
    play(&four_workers(&format!("{ONE} queue timeout=1m;")), async |world| {
        let seen = world.origin(1).answers_after(Duration::from_millis(100), OK);
        let targets: Vec<String> = (0..40).map(|number| format!("/{number}")).collect();
        let mut clients = Vec::new();
        for target in &targets {
            clients.push(asks(world, target).await);
        }
        assert_eq!(world.open_by_worker(), [10, 10, 10, 10]);
        for client in &mut clients {
            assert_eq!(client.message().await.status(), 200);
        }
        assert_eq!(seen.borrow().targets(), targets);
        let mut lines = world.log().await;
        lines.sort_by_key(|line| line.number("queue_position"));
        for (number, line) in lines.iter().enumerate() {
            let number = number as u64;
            assert_eq!(line.number("queue_position"), Some(number));
            // Each request arrived a millisecond after the one before, and its number is the number
            // of requests ahead of it.
            line.expect_times(&[("t_queue", 99 * number), ("t_connect", 0), ("t_response", 100)]);
        }
    });
}

#[test]
fn a_full_queue_refuses_at_once_with_the_queue_s_own_response() {
    let pool = format!(
        "{ONE} queue max=2 status=429 retry_after=7s page=/sorry.json type=application/problem+json;"
    );
    play(&four_workers(&pool), async |world| {
        let origin = world.origin(1);
        let mut clients = Vec::new();
        for target in ["/1", "/2", "/3"] {
            clients.push(asks(world, target).await);
        }
        assert_eq!(world.waiting(), 2);
        let (_, mut upstream) = taken(&origin).await;
        let asked = Instant::now();
        let mut client = world.client().await;
        client.send(GET).await;
        let message = client.message().await;
        assert_eq!(asked.elapsed(), Duration::ZERO);
        assert_eq!(message.status(), 429);
        assert_eq!(message.header("retry-after"), Some("7"));
        assert_eq!(message.header("content-type"), Some("application/problem+json"));
        assert_eq!(message.text(), "the page /sorry.json");
        let line = world.log_line().await;
        assert_eq!((line.text("cause").as_str(), line.number("status")), ("queue_full", Some(429)));
        assert_eq!((line.number("attempts"), line.number("t_queue")), (Some(0), None));
        for (client, more) in clients.iter_mut().zip([true, true, false]) {
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
            if more {
                upstream = taken(&origin).await.1;
            }
        }
    });
}

#[test]
fn a_wait_that_takes_too_long_ends_with_the_page_and_another_cause() {
    let pool = format!("{ONE} queue timeout=3s retry_after=1s page=/sorry.html;");
    play(&app(&pool, ""), async |world| {
        let origin = world.origin(1);
        let mut first = asks(world, "/1").await;
        let (_, mut upstream) = taken(&origin).await;
        let mut late = asks(world, "/2").await;
        pass(1_000).await;
        let mut next = asks(world, "/3").await;
        let message = late.message().await;
        assert_eq!((message.status(), message.text()), (503, "the page /sorry.html"));
        assert_eq!(message.header("retry-after"), Some("1"));
        let line = world.log_line().await;
        assert_eq!(
            (line.text("cause").as_str(), line.text("target").as_str()),
            ("queue_timeout", "/2")
        );
        assert_eq!(line.number("queue_position"), Some(1));
        line.expect_times(&[("t_queue", 3_000), ("t_total", 3_000)]);
        assert_eq!(world.waiting(), 1);
        upstream.send(OK).await;
        assert_eq!(first.message().await.status(), 200);
        assert_eq!(target_of(&mut upstream).await, "/3");
        upstream.send(OK).await;
        assert_eq!(next.message().await.status(), 200);
        assert!(late.is_open().await, "its connection is kept");
    });
}

#[test]
fn by_default_the_queue_has_the_connect_timeout_and_the_standard_page() {
    let pool = format!("{ONE} timeout connect=2s;");
    play(&app(&pool, "error_page 503 /busy.html;"), async |world| {
        let origin = world.origin(1);
        let _first = asks(world, "/1").await;
        let _held = taken(&origin).await;
        let asked = Instant::now();
        let mut client = world.client().await;
        client.send(GET).await;
        let message = client.message().await;
        assert_eq!((message.status(), message.text()), (503, "the page /busy.html"));
        assert_eq!(message.header("retry-after"), None);
        assert_eq!(asked.elapsed(), Duration::from_secs(2));
    });
}

#[test]
fn a_client_that_leaves_is_removed_from_the_queue_at_once() {
    let body = "Host: a\r\nContent-Length: 5\r\n\r\nhe";
    for request in [request("/2"), format!("POST /2 HTTP/1.1\r\n{body}")] {
        play(&four_workers(&format!("{ONE} queue max=2;")), async |world| {
            let origin = world.origin(1);
            let mut first = asks(world, "/1").await;
            let (_, mut upstream) = taken(&origin).await;
            let mut leaves = world.client().await;
            leaves.send(&request).await;
            pass(1).await;
            let mut third = asks(world, "/3").await;
            assert_eq!(world.waiting(), 2);
            pass(1_000).await;
            drop(leaves);
            pass(1).await;
            assert_eq!(world.waiting(), 1);
            let line = world.log_line().await;
            assert_eq!(
                (line.text("cause").as_str(), line.number("status")),
                ("client_gone", Some(499))
            );
            assert_eq!(
                (line.number("queue_position"), line.number("attempts")),
                (Some(1), Some(0))
            );
            line.expect_times(&[("t_queue", 1_002)]);
            upstream.send(OK).await;
            assert_eq!(first.message().await.status(), 200);
            let (target, mut upstream) = taken(&origin).await;
            assert_eq!(target, "/3");
            upstream.send(OK).await;
            assert_eq!(third.message().await.status(), 200);
        });
    }
}

#[test]
fn a_body_that_comes_while_its_request_waits_is_sent_whole() {
    play(&app(&format!("{ONE} queue timeout=1m;"), ""), async |world| {
        let origin = world.origin(1);
        let mut first = asks(world, "/1").await;
        let (_, mut upstream) = taken(&origin).await;
        let mut client = world.client().await;
        let head = "POST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        client.send([head, "5\r\nhello\r\n"].concat()).await;
        pass(100).await;
        client.send(format!("3\r\n wo\r\n3\r\nrld\r\n0\r\n\r\n{}", request("/3"))).await;
        pass(100).await;
        upstream.send(OK).await;
        assert_eq!(first.message().await.status(), 200);
        assert_eq!(upstream.message().await.text(), "hello world");
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
        assert_eq!(target_of(&mut upstream).await, "/3");
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
    });
}

#[test]
fn when_the_last_server_goes_down_waiting_requests_are_answered_at_once() {
    play(&four_workers(&format!("{TWO} queue timeout=1m;")), async |world| {
        let origins = [world.origin(1), world.origin(2)];
        let mut first = [asks(world, "/1").await, asks(world, "/2").await];
        let mut held = [taken(&origins[0]).await.1, taken(&origins[1]).await.1];
        let mut waiting = [asks(world, "/3").await, asks(world, "/4").await];
        let balancer = world.pool().balancer.clone();
        let now_us = || world.process.balance_clock(Instant::now());
        balancer.set_health(0, Health::Unhealthy, now_us());
        pass(1_000).await;
        assert_eq!(world.waiting(), 2, "the other may serve them");
        let asked = Instant::now();
        balancer.set_admin_state(1, AdminState::Maintenance, now_us());
        for client in &mut waiting {
            assert_eq!(client.message().await.status(), 503);
        }
        assert_eq!(asked.elapsed(), Duration::ZERO);
        let lines = world.log().await;
        assert!(lines.iter().all(|line| line.text("cause") == "no_endpoint"), "{lines:?}");
        for (upstream, client) in held.iter_mut().zip(&mut first) {
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
        }
    });
}

#[test]
fn a_server_that_comes_back_serves_waiting_requests_at_once() {
    let pool = format!("{TWO} queue timeout=1m; passive errors=1 eject=10s; retry 1;");
    play(&four_workers(&pool), async |world| {
        world.connects(2, Some(Connects::Refused));
        let origin = world.origin(1);
        let mut first = asks(world, "/1").await;
        let (_, mut upstream) = taken(&origin).await;
        // The second server refuses the request and is ejected; the request waits for the first.
        let mut second = asks(world, "/2").await;
        let ejected = Instant::now();
        let mut third = asks(world, "/3").await;
        assert_eq!(world.waiting(), 2);
        world.connects(2, None);
        let back = world.origin(2);
        let (target, mut other) = taken(&back).await;
        // The second request was tried there before, so it waits for the first server only.
        assert_eq!(target, "/3");
        let out = ejected.elapsed();
        // The ejection ends on time; it lasts up to a fifth longer than ten seconds.
        let until_us = world.pool().endpoints[1].state.ejected_until();
        let late_us = world.process.balance_clock(Instant::now()).saturating_sub(until_us);
        assert!((9_998..=12_001).contains(&out.as_millis()), "{out:?}");
        assert!(late_us < 2_000, "{late_us} us late");
        other.send(OK).await;
        assert_eq!(third.message().await.status(), 200);
        upstream.send(OK).await;
        assert_eq!(first.message().await.status(), 200);
        let (target, mut upstream) = taken(&origin).await;
        assert_eq!(target, "/2");
        upstream.send(OK).await;
        assert_eq!(second.message().await.status(), 200);
    });
}

#[test]
fn a_retry_waits_behind_the_requests_that_wait_already() {
    let pool = format!("{TWO} queue timeout=1m; retry 1 on=reset;");
    play(&app(&pool, ""), async |world| {
        let origins = [world.origin(1), world.origin(2)];
        let mut clients = [asks(world, "/1").await, asks(world, "/2").await];
        let (_, broken) = taken(&origins[0]).await;
        let (_, mut upstream) = taken(&origins[1]).await;
        let _third = asks(world, "/3").await;
        let mut fourth = asks(world, "/4").await;
        // The first server resets /1 and gets /3; /1 waits for the second server, behind /4.
        drop(broken);
        let (target, _held) = taken(&origins[0]).await;
        assert_eq!(target, "/3");
        pass(1).await;
        assert_eq!(world.waiting(), 2);
        upstream.send(OK).await;
        assert_eq!(clients[1].message().await.status(), 200);
        assert_eq!(target_of(&mut upstream).await, "/4");
        upstream.send(OK).await;
        assert_eq!(fourth.message().await.status(), 200);
        assert_eq!(target_of(&mut upstream).await, "/1");
        upstream.send(OK).await;
        assert_eq!(clients[0].message().await.status(), 200);
    });
}

#[test]
fn the_time_in_the_queue_is_bounded_over_all_attempts() {
    let pool = format!("{TWO} queue timeout=5s; retry 3 on=reset;");
    play(&app(&pool, ""), async |world| {
        let origins = [world.origin(1), world.origin(2)];
        let _clients = [asks(world, "/1").await, asks(world, "/2").await];
        let (_, first) = taken(&origins[0]).await;
        let _second = taken(&origins[1]).await;
        let asked = Instant::now();
        let mut client = asks(world, "/3").await;
        pass(2_999).await;
        // /1 releases its slot to /3 and waits for the second server; /3 is reset too and waits for
        // the second server as well.
        drop(first);
        drop(taken(&origins[0]).await.1);
        assert_eq!(client.message().await.status(), 503);
        assert_eq!(asked.elapsed(), Duration::from_secs(5));
        let line = world.log_line().await;
        assert_eq!(
            (line.text("cause").as_str(), line.number("attempts")),
            ("queue_timeout", Some(1))
        );
        line.expect_times(&[("t_queue", 5_000)]);
    });
}

#[test]
fn a_request_that_the_queue_refused_is_not_retried() {
    let pool = format!("{ONE} queue max=1 timeout=1s; retry 3 on=connect,reset,503 backoff=10ms;");
    play(&app(&pool, ""), async |world| {
        let origin = world.origin(1);
        let _first = asks(world, "/1").await;
        let _held = taken(&origin).await;
        let mut late = asks(world, "/2").await;
        let mut refused = asks(world, "/3").await;
        assert_eq!((refused.message().await.status(), late.message().await.status()), (503, 503));
        let causes: Vec<String> = world.log().await.iter().map(|line| line.text("cause")).collect();
        assert_eq!(causes, ["queue_full", "queue_timeout"]);
    });
}

/// Sends a response larger than the network holds for a client that reads nothing: the rest is in
/// the proxy's buffers.
async fn send_more_than_is_read(upstream: &mut Peer) -> usize {
    let length = 65_536 + 40_000;
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
    upstream.send(head + &"x".repeat(length)).await;
    pass(1).await;
    length
}

#[test]
fn a_client_that_reads_slowly_keeps_no_slot_once_its_response_was_read() {
    play(&app(&format!("{ONE} queue timeout=1m;"), ""), async |world| {
        let origin = world.origin(1);
        let mut slow = asks(world, "/1").await;
        let (_, mut upstream) = taken(&origin).await;
        let mut next = asks(world, "/2").await;
        let length = send_more_than_is_read(&mut upstream).await;
        assert_eq!(target_of(&mut upstream).await, "/2", "over the connection that was kept");
        upstream.send(OK).await;
        assert_eq!(next.message().await.text(), "ok");
        pass(10_000).await;
        assert_eq!(slow.message().await.body.len(), length);
        let line = world.log().await.remove(1);
        assert_eq!(line.text("cause"), "complete");
        line.expect_times(&[("t_data", 10_001)]);
    });
}

#[test]
fn a_client_that_reads_nothing_is_closed_although_its_slot_is_free_already() {
    play(&app(&format!("{ONE} queue timeout=1m;"), "timeout send=5s;"), async |world| {
        let origin = world.origin(1);
        let mut slow = asks(world, "/1").await;
        let (_, mut upstream) = taken(&origin).await;
        let length = send_more_than_is_read(&mut upstream).await;
        pass(1).await;
        assert_eq!(world.in_flight(), 0);
        pass(6_000).await;
        world.expect_logged("client_send_timeout", Some(200)).await;
        assert!(slow.rest().await.0.len() < length);
        assert!(upstream.is_open().await, "the server's connection is kept");
    });
}

#[test]
fn a_refused_request_holds_no_slot_while_its_response_is_read() {
    let pool = format!("{ONE} queue timeout=1m; timeout response=1s;");
    play(&app(&pool, ""), async |world| {
        let origin = world.origin(1);
        let mut first = asks(world, "/1").await;
        let (_, _silent) = taken(&origin).await;
        let mut second = asks(world, "/2").await;
        let (target, mut upstream) = taken(&origin).await;
        assert_eq!(target, "/2");
        assert_eq!(first.message().await.status(), 504);
        upstream.send(OK).await;
        assert_eq!(second.message().await.status(), 200);
    });
}

#[test]
fn a_graceful_stop_serves_waiting_requests_until_its_deadline() {
    play(&four_workers(&format!("{ONE} queue timeout=1h; timeout response=1h;")), async |world| {
        let origin = world.origin(1);
        let mut first = asks(world, "/1").await;
        let (_, mut upstream) = taken(&origin).await;
        let mut second = asks(world, "/2").await;
        let mut third = asks(world, "/3").await;
        world.drain(Duration::from_secs(30));
        pass(10_000).await;
        upstream.send(OK).await;
        assert_eq!(first.message().await.status(), 200);
        // The slot goes to another worker than the connection does, if the two differ.
        let mut upstream = if upstream.is_open().await { taken(&origin).await.1 } else { upstream };
        assert_eq!(world.waiting(), 1);
        pass(19_000).await;
        assert_eq!(world.waiting(), 1);
        world.expect_stopped(Duration::from_secs(2)).await;
        for client in [&mut second, &mut third] {
            let message = client.message().await;
            assert_eq!((message.status(), message.header("connection")), (503, Some("close")));
        }
        upstream.expect_end().await;
        let lines = world.log().await;
        assert_eq!(lines.iter().filter(|line| line.text("cause") == "shutdown").count(), 2);
    });
}

#[test]
fn waiting_requests_are_listed_with_their_age_client_and_request_line() {
    play(
        &app(&format!("{ONE} queue timeout=1m;"), "trusted_proxies 192.0.2.0/24;"),
        async |world| {
            let origin = world.origin(1);
            let mut first = asks(world, "/1").await;
            let (_, mut upstream) = taken(&origin).await;
            let mut client = world.client().await;
            client.send("GET /2 HTTP/1.1\r\nHost: a\r\nX-Request-Id: abcdefghijk\r\n\r\n").await;
            let since_us = world.process.balance_clock(Instant::now());
            pass(1_000).await;
            let waiting = world.pool().balancer.waiting();
            assert_eq!(waiting.len(), 1);
            assert_eq!(waiting[0].tag, u64::from_be_bytes(*b"abcdefgh"));
            let about = &waiting[0].about;
            assert_eq!((&about.name[..], &about.wish[..]), (&b"abcdefghijk"[..], &b"GET /2"[..]));
            assert_eq!((&about.client[..3], about.cut), (&[192, 0, 2][..], false));
            assert_eq!((waiting[0].since_us, waiting[0].position), (since_us, 0));
            for client in [&mut first, &mut client] {
                upstream.send(OK).await;
                assert_eq!(client.message().await.status(), 200);
                pass(1).await;
            }
        },
    );
}

#[test]
fn the_older_of_a_request_with_a_cookie_and_one_without_is_served_first() {
    let pool = format!("{TWO} queue timeout=1m; sticky cookie SRV insert;");
    for bound_first in [true, false] {
        play(&app(&pool, ""), async |world| {
            let origins = [world.origin(1), world.origin(2)];
            let mut owner = asks(world, "/").await;
            let (_, mut upstream) = taken(&origins[0]).await;
            upstream.send(OK).await;
            let cookie = owner.message().await.header("set-cookie").unwrap().to_owned();
            let cookie = cookie.split(';').next().unwrap();
            // Both servers are busy; the cookie belongs to the first.
            let mut second = asks(world, "/2").await;
            let (_, mut other) = taken(&origins[1]).await;
            let mut first = asks(world, "/1").await;
            assert_eq!(target_of(&mut upstream).await, "/1");
            let bound = format!("GET /bound HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n");
            let requests =
                if bound_first { [bound, request("/any")] } else { [request("/any"), bound] };
            let mut waiting = Vec::new();
            for request in requests {
                let mut client = world.client().await;
                client.send(request).await;
                pass(1).await;
                waiting.push(client);
            }
            let order = if bound_first { ["/bound", "/any"] } else { ["/any", "/bound"] };
            upstream.send(OK).await;
            assert_eq!(first.message().await.status(), 200);
            for (client, target) in waiting.iter_mut().zip(order) {
                assert_eq!(target_of(&mut upstream).await, target);
                upstream.send(OK).await;
                assert_eq!(client.message().await.status(), 200);
            }
            other.send(OK).await;
            assert_eq!(second.message().await.status(), 200);
        });
    }
}

#[test]
fn a_client_bound_to_a_server_waits_for_it_while_others_pass() {
    let pool = format!("{TWO} queue timeout=1m per_endpoint=1; sticky cookie SRV insert;");
    play(&app(&pool, ""), async |world| {
        let origins = [world.origin(1), world.origin(2)];
        let mut owner = asks(world, "/").await;
        let (_, mut upstream) = taken(&origins[0]).await;
        upstream.send(OK).await;
        let cookie = owner.message().await.header("set-cookie").unwrap().to_owned();
        let cookie = cookie.split(';').next().unwrap();
        let bound =
            |target: &str| format!("GET {target} HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n");
        let mut clients = Vec::new();
        for target in ["/1", "/2", "/3"] {
            let mut client = world.client().await;
            client.send(bound(target)).await;
            pass(1).await;
            clients.push(client);
        }
        assert_eq!(target_of(&mut upstream).await, "/1");
        // The second request waits for its server; for the third that endpoint's line is full, so
        // it takes any server.
        let (target, mut other) = taken(&origins[1]).await;
        assert_eq!(target, "/3");
        other.send(OK).await;
        assert_eq!(clients[2].message().await.status(), 200);
        let mut any = asks(world, "/4").await;
        assert_eq!(target_of(&mut other).await, "/4");
        other.send(OK).await;
        assert_eq!(any.message().await.status(), 200);
        assert_eq!(world.waiting(), 1);
        upstream.send(OK).await;
        assert_eq!(clients[0].message().await.status(), 200);
        assert_eq!(target_of(&mut upstream).await, "/2");
        upstream.send(OK).await;
        assert_eq!(clients[1].message().await.status(), 200);
    });
}
