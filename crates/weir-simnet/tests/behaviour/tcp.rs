//! Connections that are passed on: a slow, dead, silent, half-closed, resetting or flooding peer on
//! either side, names of TLS clients, and headers of the PROXY protocol.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::OK;
use crate::peer::{End, Peer};
use crate::world::{Connects, FRONT, World, pass, play};

/// A configuration with one pool and a `tcp` listener that leads to it.
fn tcp(pool: &str, listener: &str) -> String {
    format!("pool app {{ {pool} }} listen tcp {FRONT} {{ {listener} default -> app; }}")
}

const ONE: &str = "server 10.0.1.1:80;";
const TWO: &str = "server 10.0.1.1:80; server 10.0.1.2:80;";

/// Returns the two ends of a new connection.
async fn joined(world: &World) -> (Peer, Peer) {
    let origin = world.origin(1);
    let client = world.client().await;
    let upstream = origin.accept().await;
    (client, upstream)
}

/// Checks the cause and the bytes of the only line of the log.
async fn expect_line(world: &World, cause: &str, received: u64, sent: u64) {
    let line = world.log_line().await;
    assert_eq!(line.text("cause"), cause);
    assert_eq!(
        (line.number("bytes_received"), line.number("bytes_sent")),
        (Some(received), Some(sent))
    );
}

#[test]
fn a_connection_reaches_its_server_before_the_client_says_anything() {
    play(&tcp(ONE, ""), async |world| {
        let (mut client, mut upstream) = joined(world).await;
        upstream.send("hello").await;
        client.expect("hello").await;
        client.send("\0\r\n").await;
        upstream.expect("\0\r\n").await;
        client.finish().await;
        upstream.expect_end().await;
        // The other direction goes on.
        upstream.send("late").await;
        client.expect("late").await;
        upstream.finish().await;
        client.expect_end().await;
        expect_line(world, "tunnel_closed", 3, 9).await;
    });
}

#[test]
fn a_server_that_does_not_answer_a_connect_is_passed_over() {
    play(&tcp(&format!("{TWO} balance first; timeout connect=3s;"), ""), async |world| {
        world.connects(1, Some(Connects::Never));
        let origin = world.origin(2);
        let start = Instant::now();
        let mut client = world.client().await;
        client.send("early").await;
        let mut upstream = origin.accept().await;
        assert!(start.elapsed() >= Duration::from_secs(3), "{:?}", start.elapsed());
        upstream.expect("early").await;
        client.finish().await;
        upstream.expect_end().await;
        upstream.finish().await;
        client.expect_end().await;
        let line = world.log_line().await;
        assert_eq!((line.number("attempts"), line.number("status")), (Some(2), Some(200)));
    });
}

#[test]
fn a_client_whose_server_cannot_be_reached_is_closed() {
    play(&tcp(&format!("{ONE} timeout connect=3s;"), ""), async |world| {
        world.connects(1, Some(Connects::Never));
        let mut client = world.client().await;
        let start = Instant::now();
        client.expect_end().await;
        assert_eq!(start.elapsed().as_secs(), 3);
        world.expect_logged("connect_timeout", Some(504)).await;
    });
}

#[test]
fn silence_ends_a_connection_and_bytes_of_either_side_put_that_off() {
    play(&tcp(&format!("{ONE} timeout tunnel=30s;"), ""), async |world| {
        let (mut client, mut upstream) = joined(world).await;
        for _ in 0..2 {
            sleep(Duration::from_secs(20)).await;
            client.send("ping").await;
            upstream.expect("ping").await;
            sleep(Duration::from_secs(20)).await;
            upstream.send("pong").await;
            client.expect("pong").await;
        }
        let start = Instant::now();
        client.expect_end().await;
        assert_eq!(start.elapsed().as_secs(), 30);
        upstream.expect_end().await;
        expect_line(world, "tunnel_timeout", 8, 8).await;
    });
}

#[test]
fn a_flood_in_either_direction_waits_for_its_reader_in_little_memory() {
    for client_floods in [true, false] {
        play(&tcp(ONE, ""), async |world| {
            let (client, upstream) = joined(world).await;
            let (mut flooder, mut reader) =
                if client_floods { (client, upstream) } else { (upstream, client) };
            let mut sent = flooder.send_what_fits(100_000_000).await;
            pass(10).await;
            sent += flooder.send_what_fits(100_000_000).await;
            pass(1_000).await;
            assert!(sent < 1_000_000, "{sent} bytes were taken, and none was read");
            assert_eq!(flooder.send_what_fits(1_000_000).await, 0);
            reader.discard(sent).await;
            flooder.send("end").await;
            reader.expect("end").await;
            drop(flooder);
            reader.expect_end().await;
            drop(reader);
            world.log_line().await;
        });
    }
}

#[test]
fn a_reset_is_passed_on_even_if_nothing_is_read() {
    for client_leaves in [true, false] {
        play(&tcp(ONE, ""), async |world| {
            let (client, upstream) = joined(world).await;
            // A close with unread bytes sends a reset.
            let (mut leaver, mut deaf) =
                if client_leaves { (client, upstream) } else { (upstream, client) };
            deaf.send("unread").await;
            leaver.send_what_fits(10_000_000).await;
            pass(10).await;
            drop(leaver);
            pass(10).await;
            assert_eq!(world.in_flight(), 0);
            assert_eq!(deaf.rest().await.1, End::Reset);
            let side = if client_leaves { "client" } else { "upstream" };
            world.expect_logged(&format!("tunnel_{side}_reset"), Some(200)).await;
        });
    }
}

#[test]
fn a_client_that_has_ended_its_side_keeps_its_place_in_the_queue() {
    let pool = "server 10.0.1.1:80 max_conn=1; queue timeout=1m;";
    play(&tcp(pool, ""), async |world| {
        let origin = world.origin(1);
        let mut first = world.client().await;
        let mut upstream = origin.accept().await;
        let mut second = world.client().await;
        second.send("question").await;
        second.finish().await;
        pass(5_000).await;
        assert_eq!(world.waiting(), 1);
        first.finish().await;
        upstream.expect_end().await;
        upstream.finish().await;
        first.expect_end().await;
        let mut upstream = origin.accept().await;
        upstream.expect("question").await;
        upstream.expect_end().await;
        upstream.send("answer").await;
        second.expect("answer").await;
        upstream.finish().await;
        second.expect_end().await;
        let lines = world.log().await;
        let waited = lines.last().and_then(|line| line.number("t_queue")).unwrap_or(0);
        assert!(waited >= 5_000_000, "{waited}");
    });
}

#[test]
fn a_reset_ends_the_wait_in_the_queue() {
    let pool = "server 10.0.1.1:80 max_conn=1; queue timeout=1m;";
    play(&tcp(pool, ""), async |world| {
        let origin = world.origin(1);
        let first = world.client().await;
        let mut upstream = origin.accept().await;
        let mut second = world.client().await;
        second.send_what_fits(10_000_000).await;
        pass(10).await;
        assert_eq!(world.waiting(), 1);
        second.reset();
        pass(10).await;
        assert_eq!(world.waiting(), 0);
        world.expect_logged("client_gone", Some(499)).await;
        drop(first);
        upstream.expect_end().await;
        drop(upstream);
        world.log_line().await;
    });
}

#[test]
fn a_reload_leaves_connections_alone_and_takes_the_listener_to_http() {
    play(&tcp(ONE, ""), async |world| {
        let (mut client, mut upstream) = joined(world).await;
        world.reload(&format!("pool app {{ {ONE} }} listen {FRONT} -> app;")).await;
        client.send("raw").await;
        upstream.expect("raw").await;
        let mut other = world.client().await;
        other.send("raw\r\n\r\n").await;
        assert_eq!(other.message().await.status(), 400);
        drop(client);
        upstream.expect_end().await;
        drop(upstream);
        other.expect_end().await;
        assert_eq!(world.log().await.len(), 2);
    });
}

#[test]
fn a_kept_http_connection_gets_no_tunnel_after_a_reload() {
    let http = format!("pool app {{ {ONE} }} listen {FRONT} -> app;");
    play(&http, async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
        world.reload(&tcp(ONE, "")).await;
        pass(10_000).await;
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        client.expect_end().await;
        world.expect_logged("complete", Some(200)).await;
    });
}

/// Returns the `ClientHello` of a client that asks for this name, in records of at most `piece`
/// bytes.
fn client_hello(name: &str, piece: usize) -> Vec<u8> {
    client_hello_with(name, &[], piece)
}

fn block(content: &[u8]) -> Vec<u8> {
    [&(content.len() as u16).to_be_bytes()[..], content].concat()
}

/// The same with these extensions behind the name.
fn client_hello_with(name: &str, others: &[u8], piece: usize) -> Vec<u8> {
    let names = block(&[&[0][..], &block(name.as_bytes())].concat());
    let extensions = [&[0, 23, 0, 0][..], &[0, 0], &block(&names), others].concat();
    let suites = block(&[0x13, 1]);
    let body = [&[3, 3][..], &[7; 32], &[0], &suites, &[1, 0], &block(&extensions)].concat();
    let length = (body.len() as u32).to_be_bytes();
    let message = [&[1][..], &length[1..], &body].concat();
    let records = message.chunks(piece);
    records.flat_map(|piece| [&[22, 3, 1][..], &block(piece)].concat()).collect()
}

const NAMES: &str = "sni db.test *.db.test -> app; sni other.test -> other;";

/// A configuration whose routes depend on the name of a TLS client.
fn named(rest: &str) -> String {
    format!(
        "pool app {{ {ONE} }} pool other {{ server 10.0.1.2:80; }} \
         pool rest {{ server 10.0.1.3:80; }} listen tcp {FRONT} {{ {NAMES} {rest} }}"
    )
}

#[test]
fn the_name_that_a_tls_client_asks_for_decides_and_its_bytes_are_passed_on_unchanged() {
    play(&named("default -> rest;"), async |world| {
        let origins = [world.origin(1), world.origin(2), world.origin(3)];
        for (name, origin) in
            [("db.test", 0), ("A.DB.TEST", 0), ("other.test", 1), ("third.test", 2), ("", 2)]
        {
            for piece in [1, 7, 10_000] {
                let hello = client_hello(name, piece);
                let mut client = world.client().await;
                for part in hello.chunks(50) {
                    client.send(part).await;
                    pass(1).await;
                }
                client.send("behind").await;
                let mut upstream = origins[origin].accept().await;
                assert_eq!(upstream.exactly(hello.len()).await, hello, "{name}");
                upstream.expect("behind").await;
                drop(client);
                upstream.expect_end().await;
                drop(upstream);
                let line = world.log_line().await;
                assert_eq!(line.text("host"), if name.is_empty() { "null" } else { name });
            }
        }
    });
}

/// Returns the extensions with application protocols and with versions of TLS.
fn offers(protocols: &[&str], versions: &[u16]) -> Vec<u8> {
    let short = |content: &[u8]| [&[content.len() as u8][..], content].concat();
    let names: Vec<u8> = protocols.iter().flat_map(|name| short(name.as_bytes())).collect();
    let versions: Vec<u8> = versions.iter().flat_map(|version| version.to_be_bytes()).collect();
    let mut all = Vec::new();
    if !names.is_empty() {
        all.extend([&[0, 16][..], &block(&block(&names))].concat());
    }
    if !versions.is_empty() {
        all.extend([&[0, 43][..], &block(&short(&versions))].concat());
    }
    all
}

#[test]
fn the_protocols_and_the_version_that_a_tls_client_offers_decide() {
    let text = format!(
        "pool app {{ {ONE} }} pool other {{ server 10.0.1.2:80; }} \
         pool rest {{ server 10.0.1.3:80; }} listen tcp {FRONT} {{ route alpn acme-tls/1 h2 -> app; \
         route variable $ssl_preread_protocol=TLSv1.3 and not variable $ssl_server_name=old.test -> other; \
         default -> rest; }}"
    );
    play(&text, async |world| {
        let origins = [world.origin(1), world.origin(2), world.origin(3)];
        // The last three have a version that is reserved, a list that is cut off, and none.
        for (name, others, origin) in [
            ("a.test", offers(&["acme-tls/1"], &[0x304]), 0),
            ("a.test", offers(&["http/1.1", "h2"], &[]), 0),
            ("a.test", offers(&["http/1.1", "h2c", "xh2"], &[0x304, 0x303]), 1),
            ("", offers(&[], &[0x303, 0x304]), 1),
            ("old.test", offers(&["H2"], &[0x304]), 2),
            ("a.test", offers(&["http/1.1"], &[0x303]), 2),
            ("a.test", offers(&[], &[0x3a3a, 0x303]), 2),
            ("a.test", [&[0, 16, 0, 6, 0, 4, 9][..], b"h2x"].concat(), 2),
            ("a.test", Vec::new(), 2),
        ] {
            for piece in [3, 10_000] {
                let hello = client_hello_with(name, &others, piece);
                let mut client = world.client().await;
                client.send(&hello).await;
                let mut upstream = origins[origin].accept().await;
                assert_eq!(upstream.exactly(hello.len()).await, hello, "{name} {others:?}");
                drop(client);
                upstream.expect_end().await;
            }
        }
        let mut client = world.client().await;
        client.send("SSH-2.0-x\r\n").await;
        origins[2].accept().await.expect("SSH-2.0-x\r\n").await;
    });
}

#[test]
fn what_is_no_client_hello_takes_the_routes_without_a_name() {
    play(&named("default -> rest;"), async |world| {
        let origin = world.origin(3);
        for bytes in ["GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\0\0", "\x16\x02", "\0"] {
            let mut client = world.client().await;
            client.send(bytes).await;
            let mut upstream = origin.accept().await;
            upstream.expect(bytes).await;
            drop(client);
            upstream.expect_end().await;
            drop(upstream);
            world.log_line().await;
        }
        // One that says nothing, or too little, gets there when its time is over.
        for start in ["", "\x16\x03\x01\x02\0\x01"] {
            let mut client = world.client().await;
            let since = Instant::now();
            client.send(start).await;
            let mut upstream = origin.accept().await;
            assert_eq!(since.elapsed().as_secs(), 10);
            upstream.expect(start).await;
            drop(client);
            upstream.expect_end().await;
            drop(upstream);
            world.log_line().await;
        }
        // One that leaves without a byte gets to no server.
        drop(world.client().await);
        world.expect_logged("client_gone", Some(499)).await;
        origin.expect_no_connection().await;
    });
}

#[test]
fn a_name_without_a_route_and_a_hello_over_its_limits_end_the_connection() {
    play(&named(""), async |world| {
        let mut client = world.client().await;
        client.send(client_hello("third.test", 10_000)).await;
        client.expect_end().await;
        world.expect_logged("no_route", Some(404)).await;
        let mut client = world.client().await;
        client.send([&b"\x16\x03\x01\x40\0\x01\xff\xff\xff"[..], &[0; 0x4000]].concat()).await;
        client.expect_end().await;
        world.expect_logged("bad_request", Some(400)).await;
    });
}

#[test]
fn a_name_longer_than_any_of_a_host_is_none() {
    play(&named("default -> rest;"), async |world| {
        let origin = world.origin(3);
        for (length, is_name) in [(255, true), (256, false), (12_000, false)] {
            let hello = client_hello(&"a".repeat(length), 10_000);
            let mut client = world.client().await;
            client.send(&hello).await;
            let mut upstream = origin.accept().await;
            assert_eq!(upstream.exactly(hello.len()).await, hello);
            drop(client);
            upstream.expect_end().await;
            drop(upstream);
            let line = world.log_line().await;
            assert_eq!(line.text("host") != "null", is_name, "{length}");
        }
    });
}

#[test]
fn a_client_hello_on_its_way_counts_as_memory_of_its_connection() {
    play(&named("default -> rest;"), async |world| {
        let hello = client_hello(&"a".repeat(12_000), 10_000);
        let mut client = world.client().await;
        client.send(&hello[..hello.len() - 1]).await;
        pass(10).await;
        let held = world.process.loads[0].held.load(std::sync::atomic::Ordering::Relaxed);
        assert!(held >= 2 * (hello.len() - 1), "{held}");
        drop(client);
        let origin = world.origin(3);
        let mut upstream = origin.accept().await;
        assert_eq!(upstream.rest().await.0, hello[..hello.len() - 1]);
        drop(upstream);
        world.log_line().await;
    });
}

#[test]
fn the_name_is_read_for_whatever_depends_on_it() {
    let pools = format!("pool app {{ {ONE} }} pool other {{ server 10.0.1.2:80; }}");
    let listen = |text: &str| format!("listen tcp {FRONT} {{ {text} }}");
    let cases = [
        format!(
            "map $ssl_server_name $chosen {{ db.test other; default app; }} {pools} {}",
            listen("default -> $chosen;")
        ),
        format!("{pools} {}", listen("limit in_flight $ssl_server_name max=1; default -> other;")),
        format!(
            "{pools} {}",
            listen("default -> other { limit rate $ssl_server_name rate=1000/s; };")
        ),
        format!(
            "pool other {{ server 10.0.1.2:80; balance hash $ssl_server_name; }} {}",
            listen("default -> other;")
        ),
    ];
    for text in cases {
        play(&text, async |world| {
            let origin = world.origin(2);
            let hello = client_hello("db.test", 10_000);
            let mut client = world.client().await;
            client.send(&hello).await;
            let mut upstream = origin.accept().await;
            assert_eq!(upstream.exactly(hello.len()).await, hello);
            drop(client);
            upstream.expect_end().await;
            drop(upstream);
            assert_eq!(world.log_line().await.text("host"), "db.test", "{text}");
        });
    }
}

#[test]
fn a_reload_that_changes_the_key_of_a_pool_changes_whether_the_name_is_read() {
    let text = |policy: &str| {
        format!("pool app {{ {ONE} balance {policy}; }} listen tcp {FRONT} {{ default -> app; }}")
    };
    play(&text("hash $remote_addr"), async |world| {
        let origin = world.origin(1);
        for (policy, name) in [("hash $ssl_server_name", "db.test"), ("least_conn", "null")] {
            world.reload(&text(policy)).await;
            let mut client = world.client().await;
            client.send(client_hello("db.test", 10_000)).await;
            let mut upstream = origin.accept().await;
            drop(client);
            upstream.rest().await;
            drop(upstream);
            assert_eq!(world.log_line().await.text("host"), name, "{policy}");
        }
    });
}

/// A configuration of an HTTP listener behind proxies of one network.
const BEHIND: &str = "pool app { server 10.0.1.1:80; } \
    listen 10.0.0.1:80 { proxy_protocol 10.9.0.0/16; deny 192.0.2.66; default -> app; }";

#[test]
fn the_client_is_the_one_that_the_proxy_header_tells() {
    play(BEHIND, async |world| {
        let seen = world.origin(1).answers(OK);
        for (header, client) in [
            ("PROXY TCP4 192.0.2.7 10.0.0.1 1234 80\r\n", "192.0.2.7"),
            ("PROXY TCP6 2001:db8::7 2001:db8::1 1234 80\r\n", "2001:db8::7"),
            ("PROXY UNKNOWN\r\n", "10.9.0.1"),
            (
                "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x0a\x01\x02\x03\x0a\0\0\x01\0\x07\0\x50",
                "10.1.2.3",
            ),
        ] {
            let mut peer = world.client_from("10.9.0.1", FRONT).await;
            // Byte by byte, as a slow proxy sends it.
            for byte in header.as_bytes() {
                peer.send([*byte]).await;
                pass(1).await;
            }
            peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
            assert_eq!(peer.message().await.status(), 200);
            {
                let seen = seen.borrow();
                let request = seen.requests.last().expect("a request");
                assert_eq!(request.header("x-forwarded-for"), Some(client));
            }
            assert_eq!(world.log_line().await.text("client"), client);
        }
        let mut peer = world.client_from("10.9.0.1", FRONT).await;
        peer.send("PROXY TCP4 192.0.2.66 10.0.0.1 1 80\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(peer.message().await.status(), 403);
        world.log_line().await;
        // Other peers send none.
        let mut peer = world.client_from("10.8.0.1", FRONT).await;
        peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(peer.message().await.status(), 200);
        assert_eq!(world.log_line().await.text("client"), "10.8.0.1");
        let mut peer = world.client_from("10.8.0.1", FRONT).await;
        peer.send("PROXY TCP4 192.0.2.7 10.0.0.1 1234 80\r\n\r\n").await;
        assert_eq!(peer.message().await.status(), 400);
        world.log_line().await;
    });
}

#[test]
fn a_connection_without_a_sound_proxy_header_is_closed_and_counted() {
    play(BEHIND, async |world| {
        let cases: [(&[u8], &str); 6] = [
            (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "missing"),
            (b"PROXY TCP4 192.0.2.7 10.0.0.1 1234\r\n", "malformed"),
            (b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff", "too_long"),
            (b"PROXY TCP4 192.0.2.7", "timeout"),
            (b"", "timeout"),
            (b"PROXY", "closed"),
        ];
        for (bytes, reason) in cases {
            let mut peer = world.client_from("10.9.0.1", FRONT).await;
            let since = Instant::now();
            peer.send(bytes).await;
            if reason == "closed" {
                peer.finish().await;
            }
            peer.expect_end().await;
            let waited = since.elapsed().as_secs();
            assert_eq!(waited, if reason == "timeout" { 10 } else { 0 }, "{reason}");
        }
        assert!(world.log().await.is_empty());
        let figures = world.process.numbers.read();
        assert_eq!(figures.listeners[0].proxy_headers_refused, [1, 1, 1, 0, 2, 1]);
    });
}

/// Reads the header that a server gets and checks it; the client's port is not known here.
async fn expect_header(upstream: &mut Peer, version: &str) {
    if version == "v1" {
        upstream.expect("PROXY TCP4 10.5.5.5 10.0.0.1 ").await;
        let mut rest = Vec::new();
        while !rest.ends_with(b"\r\n") {
            rest.extend(upstream.exactly(1).await);
        }
        assert!(rest.ends_with(b" 80\r\n") && rest[0].is_ascii_digit(), "{rest:?}");
    } else {
        upstream.expect("\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x0a\x05\x05\x05\x0a\0\0\x01").await;
        let ports = upstream.exactly(4).await;
        assert_eq!(ports[2..], 80_u16.to_be_bytes());
    }
}

#[test]
fn servers_are_told_the_client_in_the_version_that_the_pool_sends() {
    for version in ["v1", "v2"] {
        let pool = format!("{ONE} send_proxy {version};");
        play(&tcp(&pool, ""), async |world| {
            let origin = world.origin(1);
            let mut client = world.client_from("10.5.5.5", FRONT).await;
            client.send("hello").await;
            let mut upstream = origin.accept().await;
            expect_header(&mut upstream, version).await;
            upstream.expect("hello").await;
            drop(client);
            upstream.expect_end().await;
            drop(upstream);
            // The header is not among the client's bytes.
            expect_line(world, "tunnel_closed", 5, 0).await;
        });
        // Requests of different clients share no connection.
        let text = format!("pool app {{ {pool} }} listen {FRONT} -> app;");
        play(&text, async |world| {
            let origin = world.origin(1);
            for _ in 0..2 {
                let mut client = world.client_from("10.5.5.5", FRONT).await;
                client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
                let mut upstream = origin.accept().await;
                expect_header(&mut upstream, version).await;
                upstream.message().await;
                upstream.send(OK).await;
                assert_eq!(client.message().await.status(), 200);
                upstream.expect_end().await;
                world.log_line().await;
            }
        });
    }
}

#[test]
fn a_kept_connection_is_not_used_once_the_pool_sends_a_header() {
    let text = |pool: &str| format!("pool app {{ {ONE} {pool} }} listen {FRONT} -> app;");
    play(&text(""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client_from("10.5.5.5", FRONT).await;
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let mut kept = origin.accept().await;
        kept.message().await;
        kept.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
        world.reload(&text("send_proxy v1;")).await;
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let mut upstream = origin.accept().await;
        expect_header(&mut upstream, "v1").await;
        upstream.message().await;
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
        kept.expect_closed().await;
        assert_eq!(world.log().await.len(), 2);
    });
}

/// A `tcp` listener that answers with this target.
fn answering(listener: &str, target: &str) -> String {
    format!("pool app {{ {ONE} }} listen tcp {FRONT} {{ {listener} default -> {target}; }}")
}

#[test]
fn a_text_is_written_and_ends_the_connection() {
    let text = answering("", "respond 200 \"bye $remote_addr\\n\"");
    play(&text, async |world| {
        let mut client = world.client().await;
        client.send("not read").await;
        client.expect("bye 192.0.2.1\n").await;
        client.expect_end().await;
        let line = world.log_line().await;
        assert_eq!(line.text("cause"), "local");
        assert_eq!((line.number("status"), line.number("bytes_sent")), (Some(200), Some(14)));
    });
}

#[test]
fn a_denied_client_gets_no_text() {
    play(&answering("deny all;", "respond 200 secret"), async |world| {
        let mut client = world.client().await;
        client.expect_end().await;
        let line = world.log_line().await;
        assert_eq!(line.text("cause"), "denied");
        assert_eq!(line.number("bytes_sent"), Some(0));
    });
}

#[test]
fn a_client_that_takes_no_text_is_closed() {
    // More than the sockets of both sides hold.
    let text = format!("respond 200 {}", "x".repeat(1_000_000));
    play(&answering("", &text), async |world| {
        let client = world.client().await;
        sleep(Duration::from_mins(2)).await;
        world.expect_logged("client_send_timeout", Some(200)).await;
        drop(client);
    });
}
