//! Reloads: a reload changes exactly what its configuration changes. Connected, waiting and running
//! exchanges continue.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;
use weir_balance::Health;
use weir_proxy::snapshot::Snapshot;

use crate::origin::Origin;
use crate::peer::Peer;
use crate::world::{World, app, pass, play};
use crate::{GET, OK};

const ONE: &str = "server 10.0.1.1:80 name=one;";
const TWO: &str = "server 10.0.1.1:80 name=one; server 10.0.1.2:80 name=two;";

fn busy(servers: &[u8]) -> String {
    let server = |number: &u8| format!("server 10.0.1.{number}:80 name=s{number} max_conn=1;");
    let servers: String = servers.iter().map(server).collect();
    app(&format!("{servers} queue timeout=1m;"), "")
}

/// Sends a request and lets it proceed as far as it can while no time passes.
async fn asks(world: &World, target: &str) -> Peer {
    let mut client = world.client().await;
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
    pass(1).await;
    client
}

/// Returns the target of an origin's next request and its connection, which waits for a response.
async fn taken(origin: &Origin) -> (String, Peer) {
    let mut upstream = origin.accept().await;
    let request = upstream.message().await;
    (request.first.split(' ').nth(1).unwrap().to_owned(), upstream)
}

async fn get(client: &mut Peer) -> u16 {
    client.send(GET).await;
    let response = client.message().await;
    assert_eq!(response.header("connection"), None, "the connection may go on");
    response.status()
}

/// Checks that no reference to the snapshot is left once the log's timers have run out.
async fn expect_freed(snapshot: Weak<Snapshot>) {
    pass(1_500).await;
    assert_eq!(snapshot.strong_count(), 0, "a generation is still held");
}

#[test]
fn conditions_count_the_servers_that_are_up() {
    let text = |server: &str| app(server, "route servers app=0 -> respond 418;");
    play(&text("server 10.0.1.1:80 name=one down;"), async |world| {
        let seen = world.origin(1).answers(OK);
        let mut client = world.client().await;
        assert_eq!(get(&mut client).await, 418);
        let first = world.snapshot();
        world.reload(&text(ONE)).await;
        let second = world.snapshot();
        assert!(Arc::ptr_eq(&first.listeners[0], &second.listeners[0]));
        assert_eq!(get(&mut client).await, 200);
        for (health, expected) in [(Health::Unhealthy, 418), (Health::Healthy, 200)] {
            second.pools[0].balancer.set_health(0, health, 0);
            assert_eq!(get(&mut client).await, expected);
        }
        drop(seen);
    });
}

#[test]
fn unchanged_parts_are_kept() {
    let text = |timeout: &str| {
        format!(
            "{} pool other {{ server 10.0.1.9:80; queue page=/sorry.html timeout={timeout}; }} \
             listen 10.0.0.1:81 {{ error_page 404 /gone.html; default -> respond 404; }}",
            app(ONE, "")
        )
    };
    play(&text("1s"), async |world| {
        let seen = world.origin(1).answers(OK);
        let mut client = world.client().await;
        assert_eq!(get(&mut client).await, 200);
        let first = world.snapshot();
        world.reload(&text("1s")).await;
        let second = world.snapshot();
        assert_eq!((first.generation, second.generation), (1, 2));
        assert!(first.pools.iter().zip(&second.pools).all(|(one, other)| Arc::ptr_eq(one, other)));
        let mut listeners = first.listeners.iter().zip(&second.listeners);
        assert!(listeners.all(|(one, other)| Arc::ptr_eq(one, other)));
        world.reload(&text("2s")).await;
        world.write_file("/gone.html", "it moved");
        world.reload(&text("2s")).await;
        let fourth = world.snapshot();
        assert!(Arc::ptr_eq(&second.pools[0], &fourth.pools[0]));
        assert!(!Arc::ptr_eq(&second.pools[1], &fourth.pools[1]));
        assert!(Arc::ptr_eq(&second.listeners[0], &fourth.listeners[0]));
        assert!(!Arc::ptr_eq(&second.listeners[1], &fourth.listeners[1]));
        let mut other = world.client_from("192.0.2.1", "10.0.0.1:81").await;
        other.send(GET).await;
        assert_eq!(other.message().await.text(), "it moved");
        // All requests used one connection to the server and one of the client.
        assert_eq!(get(&mut client).await, 200);
        assert_eq!((seen.borrow().connections, seen.borrow().requests.len()), (1, 2));
    });
}

#[test]
fn a_new_server_is_used_and_a_removed_one_is_not() {
    play(&app(TWO, ""), async |world| {
        let (one, two) = (world.origin(1).answers(OK), world.origin(2).answers(OK));
        let three = world.origin(3).answers(OK);
        let mut client = world.client().await;
        for _ in 0..4 {
            assert_eq!(get(&mut client).await, 200);
        }
        assert_eq!((one.borrow().requests.len(), two.borrow().requests.len()), (2, 2));
        let before = world.pool();
        world.reload(&app("server 10.0.1.1:80 name=one; server 10.0.1.3:80 name=three;", "")).await;
        for _ in 0..4 {
            assert_eq!(get(&mut client).await, 200);
        }
        let counts = [&one, &two, &three].map(|seen| seen.borrow().requests.len());
        assert_eq!(counts, [4, 2, 2]);
        assert_eq!(
            one.borrow().connections,
            1,
            "an idle connection to a server that stays is kept"
        );
        let after = world.pool();
        assert!(Arc::ptr_eq(&before.endpoints[0], &after.endpoints[0]));
        assert_eq!(after.endpoints[0].state.picks(), 4, "its counts are kept");
        let idle = |pool: &weir_proxy::upstream::UpstreamPool, index: usize| {
            pool.endpoints[index].idle.now()
        };
        assert_eq!((idle(&after, 0), idle(&after, 1), idle(&before, 1)), (1, 1, 0));
    });
}

#[test]
fn waiting_requests_are_served_by_a_new_server_in_the_order_of_arrival() {
    play(&format!("workers 2; {}", busy(&[1])), async |world| {
        let (one, two) = (world.origin(1), world.origin(2));
        let mut clients = Vec::new();
        for target in ["/1", "/2", "/3", "/4"] {
            clients.push(asks(world, target).await);
        }
        let (_, mut first) = taken(&one).await;
        assert_eq!(world.waiting(), 3);
        world.reload(&format!("workers 2; {}", busy(&[2, 1]))).await;
        let (target, mut second) = taken(&two).await;
        assert_eq!((target.as_str(), world.waiting()), ("/2", 2));
        first.send(OK).await;
        assert_eq!(first.message().await.first, "GET /3 HTTP/1.1");
        second.send(OK).await;
        assert_eq!(second.message().await.first, "GET /4 HTTP/1.1");
        first.send(OK).await;
        second.send(OK).await;
        for client in &mut clients {
            assert_eq!(client.message().await.status(), 200);
        }
        let mut lines = world.log().await;
        lines.sort_by_key(|line| line.text("target"));
        let of: Vec<_> = lines.iter().map(|line| line.text("endpoint")).collect();
        assert_eq!(of, ["s1", "s2", "s1", "s2"]);
    });
}

/// A pool of these servers that buffers requests or not, and tries again after a 503.
fn buffering(servers: &[u8], buffers: &str) -> String {
    let text = busy(servers);
    text.replacen("queue", &format!("buffer_request {buffers}; retry 1 on=503; queue"), 1)
}

#[test]
fn a_waiting_request_keeps_its_body_when_a_reload_turns_buffering_off_or_on() {
    const BUSY: &str = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";
    for (before, after, sent) in [("1m", "off", 10), ("off", "1m", 5)] {
        play(&buffering(&[1], before), async |world| {
            let (one, two) = (world.origin(1), world.origin(2));
            let mut first = asks(world, "/1").await;
            let (_, mut held) = taken(&one).await;
            let mut client = world.client().await;
            let (body, rest) = "0123456789".split_at(sent);
            let next = if rest.is_empty() { "GET /next HTTP/1.1\r\nHost: a\r\n\r\n" } else { "" };
            client
                .send(format!(
                    "PUT /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{body}{next}"
                ))
                .await;
            pass(1).await;
            assert_eq!(world.waiting(), 1);
            world.reload(&buffering(&[1, 2], after)).await;
            let mut refusing = two.accept().await;
            if rest.is_empty() {
                refusing.message().await;
            } else {
                refusing.head().await;
            }
            refusing.send(BUSY).await;
            pass(1).await;
            held.send(OK).await;
            assert_eq!(first.message().await.status(), 200);
            if !rest.is_empty() {
                pass(1).await;
                client.send(rest).await;
            }
            let again = held.message().await;
            assert_eq!((again.first.as_str(), again.text()), ("PUT /2 HTTP/1.1", "0123456789"));
            held.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
            if rest.is_empty() {
                assert_eq!(refusing.message().await.first, "GET /next HTTP/1.1");
                refusing.send(OK).await;
                assert_eq!(client.message().await.status(), 200);
            }
        });
    }
}

#[test]
fn a_limit_holds_over_all_configurations() {
    play(&busy(&[1]), async |world| {
        let one = world.origin(1);
        let mut clients = vec![asks(world, "/1").await];
        let (_, mut upstream) = taken(&one).await;
        // Another pool, no pool, and the first again, while its server is busy.
        world.reload(&busy(&[1, 2])).await;
        world.reload("pool other { server 10.0.1.9:80; } listen 10.0.0.1:80 -> other;").await;
        world.reload(&busy(&[1])).await;
        clients.push(asks(world, "/2").await);
        assert_eq!((world.in_flight(), world.waiting()), (1, 1));
        upstream.send(OK).await;
        assert_eq!(upstream.message().await.first, "GET /2 HTTP/1.1");
        upstream.send(OK).await;
        for client in &mut clients {
            assert_eq!(client.message().await.status(), 200);
        }
    });
}

#[test]
fn health_and_ejections_are_kept() {
    let pool =
        |more: &str| app(&format!("{TWO} passive errors=1 eject=1h max_ejected=100%; {more}"), "");
    play(&pool(""), async |world| {
        let two = world.origin(2).answers(OK);
        let mut client = world.client().await;
        for _ in 0..4 {
            // No origin listens at the first server's address.
            assert_eq!(get(&mut client).await, 200);
        }
        world.reload(&pool("keepalive idle=7;")).await;
        let now_us = world.process.balance_clock(Instant::now());
        assert!(world.pool().endpoints[0].state.is_ejected(now_us));
        world.pool().balancer.set_health(0, Health::Unhealthy, now_us);
        world.reload(&pool("keepalive idle=8;")).await;
        assert_eq!(world.pool().endpoints[0].state.health(), Health::Unhealthy);
        assert_eq!(get(&mut client).await, 200);
        assert_eq!(world.connect_count(1), 1);
        assert_eq!(two.borrow().requests.len(), 5);
    });
}

#[test]
fn an_exchange_ends_on_the_configuration_that_it_began_on() {
    let text = |value: &str| app(ONE, &format!("response_header set X-Version {value};"));
    play(&text("1"), async |world| {
        let origin = world.origin(1);
        let mut client = asks(world, "/slow").await;
        let (_, mut upstream) = taken(&origin).await;
        let first = Arc::downgrade(&world.snapshot());
        world.reload(&text("2")).await;
        pass(5_000).await;
        assert!(first.strong_count() > 0);
        upstream.send(OK).await;
        assert_eq!(client.message().await.header("x-version"), Some("1"));
        // The next exchange on the same connections uses the new generation.
        client.send(GET).await;
        upstream.message().await;
        upstream.send(OK).await;
        assert_eq!(client.message().await.header("x-version"), Some("2"));
        expect_freed(first).await;
        assert!(client.is_open().await);
    });
}

#[test]
fn a_tunnel_outlives_reloads_and_holds_its_own_generation_only() {
    let text = |number: u32| app(ONE, &format!("response_header set X-Version {number};"));
    play(&text(0), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client
            .send(
                "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
            )
            .await;
        let (_, mut upstream) = taken(&origin).await;
        upstream.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n").await;
        assert_eq!(client.message().await.status(), 101);
        let mut earlier = Vec::new();
        for number in 1..10 {
            earlier.push(Arc::downgrade(&world.snapshot()));
            world.reload(&text(number)).await;
            client.send("ping").await;
            upstream.expect("ping").await;
            upstream.send("pong").await;
            client.expect("pong").await;
        }
        // A reload that removes its pool and its listener does not affect the tunnel.
        earlier.push(Arc::downgrade(&world.snapshot()));
        world.reload("listen 10.0.0.1:81 -> respond 204;").await;
        client.send("ping").await;
        upstream.expect("ping").await;
        let own = earlier.remove(0);
        // The connection still belongs to the listener.
        let last = earlier.pop().unwrap();
        for snapshot in earlier {
            expect_freed(snapshot).await;
        }
        assert!(own.strong_count() > 0);
        drop(client);
        upstream.expect_end().await;
        drop(upstream);
        expect_freed(own).await;
        expect_freed(last).await;
    });
}

#[test]
fn connections_of_a_removed_listener_get_one_more_response() {
    let text = format!("{} listen 10.0.0.1:81 -> respond 204;", app(ONE, ""));
    play(&format!("workers 2; {text}"), async |world| {
        world.origin(1).answers(OK);
        let mut idle = world.client().await;
        assert_eq!(get(&mut idle).await, 200);
        let mut fresh = world.client().await;
        pass(500).await;
        world.reload("workers 2; listen 10.0.0.1:81 -> respond 204;").await;
        pass(5_000).await;
        world.expect_no_listener().await;
        for client in [&mut idle, &mut fresh] {
            assert!(client.is_open().await, "a close now could cross the client's next request");
            client.send(GET).await;
            let response = client.message().await;
            assert_eq!((response.status(), response.header("connection")), (200, Some("close")));
            client.expect_closed().await;
        }
    });
}

#[test]
fn an_address_that_moves_to_another_listener_keeps_its_socket() {
    let text =
        |name: &str, status: u16| format!("listen 10.0.0.1:80 name={name} -> respond {status};");
    play(&text("a", 204), async |world| {
        let mut client = world.client().await;
        assert_eq!(get(&mut client).await, 204);
        world.reload(&text("b", 202)).await;
        assert_eq!(get(&mut client).await, 202);
        let mut other = world.client().await;
        assert_eq!(get(&mut other).await, 202);
        // The address moves from one of two listeners to the other.
        world.reload(&format!("{} listen 10.0.0.1:81 -> respond 201;", text("b", 202))).await;
        world.reload("listen 10.0.0.1:81 10.0.0.1:80 -> respond 201;").await;
        client.send(GET).await;
        let response = client.message().await;
        assert_eq!((response.status(), response.header("connection")), (202, Some("close")));
        let mut other = world.client().await;
        assert_eq!(get(&mut other).await, 201);
    });
}

#[test]
fn caps_on_connections_can_be_changed() {
    let text = |cap: u32| format!("listen 10.0.0.1:80 max_connections={cap} -> respond 204;");
    play(&text(2), async |world| {
        // The connections must not be idle: idle ones would be closed to make room.
        let begin = "GET / HTTP/1.1\r\n";
        let mut clients = vec![world.client().await, world.client().await];
        for client in &mut clients {
            assert_eq!(get(client).await, 204);
            client.send(begin).await;
        }
        let mut third = world.client().await;
        third.send(GET).await;
        third.expect_silence(Duration::from_secs(1)).await;
        world.reload(&text(3)).await;
        assert_eq!(third.message().await.status(), 204);
        third.send(begin).await;
        world.reload(&text(1)).await;
        clients.push(third);
        let mut fourth = world.client().await;
        fourth.send(GET).await;
        clients.pop();
        clients.pop();
        fourth.expect_silence(Duration::from_secs(1)).await;
        clients.pop();
        assert_eq!(fourth.message().await.status(), 204);
    });
}

#[test]
fn a_request_that_waits_in_a_removed_pool_is_served_by_it() {
    play(&busy(&[1]), async |world| {
        let one = world.origin(1);
        let mut clients = vec![asks(world, "/1").await, asks(world, "/2").await];
        let (_, mut upstream) = taken(&one).await;
        let first = Arc::downgrade(&world.snapshot());
        world.reload("listen 10.0.0.1:80 -> respond 204;").await;
        let mut other = world.client().await;
        assert_eq!(get(&mut other).await, 204);
        for client in &mut clients {
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
            if first.strong_count() > 0 {
                pass(10).await;
            }
            client.send(GET).await;
            assert_eq!(client.message().await.status(), 204);
            if let Some(next) = one.accept_within(Duration::from_millis(10)).await {
                upstream = next;
                assert_eq!(upstream.message().await.first, "GET /2 HTTP/1.1");
            }
        }
        drop(upstream);
        expect_freed(first).await;
    });
}

#[test]
fn a_thousand_reloads_leave_nothing_behind() {
    let text = |number: u32| {
        let server = 2 + number % 50;
        app(
            &format!("{ONE} server 10.0.1.{server}:80 name=s{server}; queue max={};", 10 + number),
            "",
        )
    };
    play(&text(0), async |world| {
        world.origin(1).answers(OK);
        for server in 2..52 {
            world.origin(server).answers(OK);
        }
        let mut client = world.client().await;
        let mut earlier = Vec::new();
        for number in 1..1_000 {
            earlier.push(Arc::downgrade(&world.snapshot()));
            world.reload(&text(number)).await;
            assert_eq!(get(&mut client).await, 200);
        }
        pass(1_500).await;
        let held = earlier.iter().filter(|snapshot| snapshot.strong_count() > 0).count();
        assert_eq!(held, 0, "generations are still held");
        assert_eq!(world.snapshot().generation, 1_000);
    });
}

/// Simulates a name whose addresses change with each DNS answer: each is a new configuration.
#[test]
fn servers_that_change_every_100_ms_fail_no_request_and_leave_nothing_behind() {
    let pool = |turn: u8| {
        let number = 1 + turn % 3;
        format!("server 10.0.1.{number}:80 name=app; server 10.0.1.4:80 name=app~2;")
    };
    play(&app(&pool(0), ""), async |world| {
        let seen = [1, 2, 3, 4].map(|number| world.origin(number).answers(OK));
        let mut client = world.client().await;
        let first = Arc::downgrade(&world.snapshot());
        for turn in 0..200_u8 {
            world.reload(&app(&pool(turn), "")).await;
            for _ in 0..3 {
                assert_eq!(get(&mut client).await, 200, "in turn {turn}");
            }
            pass(100).await;
        }
        let counts = seen.map(|seen| seen.borrow().requests.len());
        assert_eq!(counts.iter().sum::<usize>(), 600);
        assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
        expect_freed(first).await;
    });
}
