//! HTTP/2 from clients: each stream is a request like any other, towards endpoints of HTTP/1.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::http2_peer::{
    CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, GET, GOAWAY, HEADERS, Http2Peer,
    INTERNAL_ERROR, ONE, PING, POST, PROTOCOL_ERROR, RST_STREAM, SETTINGS, WINDOW_UPDATE, block,
    frame, http2, literal,
};
use crate::world::{FRONT, World, app, play};
use crate::{GET as GET1, OK};

#[test]
fn a_stream_is_a_request_and_its_response() {
    play(&http2(""), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        let fields = [
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/x/../a?b=c"),
            (":authority", "shop.example"),
            ("cookie", "a=1"),
            ("accept", "*/*"),
            ("cookie", "b=2"),
        ];
        client.request(1, &fields, END_STREAM).await;
        let mut upstream = origin.accept().await;
        let request = upstream.message().await;
        assert_eq!(request.first, "GET /a?b=c HTTP/1.1");
        assert_eq!(request.header("host"), Some("shop.example"));
        assert_eq!(request.header("cookie"), Some("a=1; b=2"));
        assert_eq!(request.header("transfer-encoding"), None);
        upstream.send(OK).await;
        assert_eq!(client.response(1).await, (200, "ok".into()));
        let line = world.log_line().await;
        assert_eq!(line.text("protocol"), "HTTP/2.0");
        assert_eq!(line.text("cause"), "complete");
        // The connection to the endpoint, and the client's, serve the next request.
        client.get(3).await;
        upstream.message().await;
        upstream.send(OK).await;
        assert_eq!(client.response(3).await, (200, "ok".into()));
        assert_eq!(world.log_line().await.text("host"), "a");
        assert_eq!(world.connect_count(1), 1);
        assert_eq!(world.process.numbers.read().listeners[0].http2_connections, 1);
    });
}

#[test]
fn streams_run_at_once_and_end_in_any_order() {
    play(&http2(""), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        let mut upstreams = Vec::new();
        for stream in [1, 3, 5] {
            client.get(stream).await;
            let mut upstream = origin.accept().await;
            upstream.message().await;
            upstreams.push(upstream);
        }
        for (number, stream) in [(1, 3), (2, 5), (0, 1)] {
            upstreams[number].send(OK).await;
            assert_eq!(client.response(stream).await, (200, "ok".into()));
        }
        assert_eq!(world.log().await.len(), 3);
    });
}

#[test]
fn bodies_and_trailers_pass_both_ways() {
    play(&http2(""), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        let fields = [&POST[..], &[("te", "trailers")]].concat();
        client.request(1, &fields, 0).await;
        client.send(DATA, 0, 1, b"hello ").await;
        let mut upstream = origin.accept().await;
        let head = upstream.head().await;
        assert_eq!(head.header("transfer-encoding"), Some("chunked"));
        assert_eq!(upstream.chunk().await.as_deref(), Some("hello "));
        client.send(DATA, 0, 1, b"world").await;
        assert_eq!(upstream.chunk().await.as_deref(), Some("world"));
        let trailers = block(&[("x-sum", "5"), ("content-length", "9")]);
        client.send(HEADERS, END_STREAM | END_HEADERS, 1, &trailers).await;
        assert_eq!(upstream.chunk().await, None);
        assert_eq!(upstream.trailers().await, ["x-sum: 5"]);
        upstream
            .send("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
            .await;
        let head = client.frame().await;
        assert_eq!((head.status(), head.ends_stream()), (201, false));
        let text = String::from_utf8_lossy(&head.payload).to_lowercase();
        assert!(!text.contains("chunked"), "{text}");
        assert_eq!(client.frame().await.payload, b"abc");
        upstream.send("0\r\nX-Total: 7\r\n\r\n").await;
        let trailers = client.frame().await;
        assert_eq!((trailers.kind, trailers.ends_stream()), (HEADERS, true));
        world.expect_logged("complete", Some(201)).await;
    });
}

#[test]
fn a_body_of_announced_length_keeps_it() {
    play(&http2(""), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.request(1, &[&POST[..], &[("content-length", "5")]].concat(), 0).await;
        client.send(DATA, END_STREAM, 1, b"hello").await;
        let mut upstream = origin.accept().await;
        let request = upstream.message().await;
        assert_eq!(request.header("transfer-encoding"), None);
        assert_eq!((request.header("content-length"), request.text()), (Some("5"), "hello"));
        upstream.send(OK).await;
        assert_eq!(client.response(1).await.0, 200);
        world.log_line().await;
    });
}

#[test]
fn interim_responses_pass_and_an_expectation_is_met() {
    play(&http2(""), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.request(1, &[&POST[..], &[("expect", "100-continue")]].concat(), 0).await;
        let interim = client.frame().await;
        assert_eq!((interim.status(), interim.ends_stream()), (100, false));
        client.send(DATA, END_STREAM, 1, b"x").await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n").await;
        assert_eq!(client.frame().await.status(), 103);
        upstream.send(OK).await;
        assert_eq!(client.response(1).await, (200, "ok".into()));
        world.log_line().await;
    });
}

#[test]
fn responses_without_a_body_end_with_their_head() {
    play(&http2(""), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        let cases = [
            ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", 200),
            ("GET", "HTTP/1.1 204 No Content\r\n\r\n", 204),
            ("GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304),
            ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200),
        ];
        for (stream, (method, response, status)) in (1..).step_by(2).zip(cases) {
            let fields = [&[(":method", method)], &GET[1..]].concat();
            client.request(stream, &fields, END_STREAM).await;
            let mut upstream = origin.accept().await;
            upstream.message().await;
            upstream.send(response).await;
            let head = client.frame().await;
            assert_eq!((head.status(), head.ends_stream()), (status, true), "{method} {status}");
            // Each request gets a connection of its own.
            drop(upstream);
            sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(world.log().await.len(), 4);
    });
}

#[test]
fn responses_of_weirs_own_are_those_of_http1() {
    let routes = "http2 on; route path /own -> respond 200 \"own text\"; \
        route path /moved -> redirect 302 https://b/; route path /none -> respond 204;";
    play(&app(ONE, routes), async |world| {
        let mut client = Http2Peer::connect(world).await;
        let mut stream = 1;
        for (path, status, text) in
            [("/own", 200, "own text"), ("/moved", 302, ""), ("/none", 204, "")]
        {
            let fields = [&GET[..2], &[(":path", path)], &GET[3..]].concat();
            client.request(stream, &fields, END_STREAM).await;
            let (found, body) = client.response(stream).await;
            assert_eq!(found, status, "{path}");
            assert!(body.starts_with(text), "{body}");
            stream += 2;
        }
        // Nothing listens at the server.
        client.get(stream).await;
        let (status, body) = client.response(stream).await;
        assert_eq!(status, 502);
        assert!(body.contains("502"), "{body}");
        assert_eq!(world.log().await.len(), 4);
    });
}

/// The outcome of a request that is refused.
#[derive(Debug, PartialEq, Eq)]
enum Refused {
    Response(u16),
    Reset(u32),
    /// The whole connection ends.
    Connection(u32),
}

/// Sends a head with these fields and flags; returns how it was refused.
async fn refusal(world: &World, head: &[u8], flags: u8) -> Refused {
    let mut client = Http2Peer::connect(world).await;
    client.send(HEADERS, flags | END_HEADERS, 1, head).await;
    let frame = client.frame().await;
    let refused = match frame.kind {
        HEADERS => Refused::Response(frame.status()),
        RST_STREAM => Refused::Reset(frame.code()),
        GOAWAY => Refused::Connection(frame.code()),
        _ => panic!("{frame:?}"),
    };
    if !matches!(refused, Refused::Connection(_)) {
        // Other streams of the connection go on.
        client.request(3, &[&GET[..2], &[(":path", "/own")], &GET[3..]].concat(), END_STREAM).await;
        loop {
            let frame = client.frame().await;
            if frame.stream == 3 {
                assert_eq!(frame.status(), 200);
                break;
            }
        }
    }
    refused
}

#[test]
fn a_request_that_an_endpoint_could_read_in_two_ways_is_refused() {
    let with = |field: (&str, &str)| block(&[&GET[..], &[field]].concat());
    let raw = |name: &[u8], value: &[u8]| [block(&GET), literal(name, value)].concat();
    let path = |path| block(&[GET[0], GET[1], (":path", path), GET[3]]);
    let reset = Refused::Reset(PROTOCOL_ERROR);
    let bad = Refused::Response(400);
    // `h2` ends the connection for a field that is none.
    let gone = Refused::Connection(PROTOCOL_ERROR);
    let cases = [
        ("a name in capitals", with(("X-Upper", "1")), &gone),
        ("a colon in a name", with(("x:y", "1")), &gone),
        ("an empty name", with(("", "1")), &gone),
        ("a space in a name", with(("x y", "1")), &gone),
        ("connection", with(("connection", "close")), &reset),
        ("keep-alive", with(("keep-alive", "5")), &reset),
        ("proxy-connection", with(("proxy-connection", "close")), &reset),
        ("transfer-encoding", with(("transfer-encoding", "chunked")), &reset),
        ("upgrade", with(("upgrade", "h2c")), &reset),
        ("te", with(("te", "gzip")), &reset),
        ("a line end in a value", raw(b"x", b"a\r\nb: c"), &gone),
        ("CR in a value", raw(b"x", b"a\rb"), &gone),
        ("LF in a value", raw(b"x", b"a\nb"), &gone),
        ("NUL in a value", raw(b"x", b"a\0b"), &gone),
        ("a space before a value", with(("x", " a")), &bad),
        ("a space after a value", with(("x", "a ")), &bad),
        ("a space in the path", path("/a b"), &reset),
        ("an empty path", path(""), &reset),
        ("a path without a slash", path("a"), &reset),
        ("another host", with(("host", "b")), &bad),
        ("two hosts", block(&[&GET[..3], &[("host", "a"), ("host", "a")]].concat()), &bad),
        ("no host", block(&GET[..3]), &bad),
        ("no path", block(&[GET[0], GET[1], GET[3]]), &reset),
        ("no method", block(&GET[1..]), &reset),
        ("no scheme", block(&[GET[0], GET[2], GET[3]]), &reset),
        ("two methods", with((":method", "GET")), &reset),
        ("a late pseudo-header", block(&[GET[0], GET[1], ("x", "y"), GET[2], GET[3]]), &reset),
        ("an unknown pseudo-header", block(&[GET[0], GET[1], GET[2], GET[3], (":x", "y")]), &gone),
        ("a status", block(&[GET[0], GET[1], GET[2], GET[3], (":status", "200")]), &reset),
        ("two lengths", with(("content-length", "1, 2")), &reset),
        ("a length without a body", with(("content-length", "1")), &reset),
        ("CONNECT with a path", block(&[(":method", "CONNECT"), GET[2], GET[3]]), &reset),
        (
            "CONNECT",
            block(&[(":method", "CONNECT"), (":authority", "a:443")]),
            &Refused::Response(405),
        ),
    ];
    let listener = "http2 on; route path /own -> respond 200;";
    play(&app(ONE, listener), async |world| {
        for (what, head, expected) in &cases {
            assert_eq!(refusal(world, head, END_STREAM).await, **expected, "{what}");
        }
        let connect = block(&[(":method", "CONNECT"), (":authority", "a:443")]);
        assert_eq!(refusal(world, &connect, 0).await, bad, "CONNECT with a body");
        assert_eq!(world.connect_count(1), 0, "nothing was forwarded");
        world.log().await;
    });
}

#[test]
fn a_body_longer_or_shorter_than_announced_never_looks_complete() {
    for (sent, ends) in [("toolong", 0), ("ab", END_STREAM)] {
        play(&http2(""), async |world| {
            let origin = world.origin(1);
            let mut client = Http2Peer::connect(world).await;
            client.request(1, &[&POST[..], &[("content-length", "5")]].concat(), 0).await;
            let mut upstream = origin.accept().await;
            upstream.head().await;
            client.send(DATA, ends, 1, sent.as_bytes()).await;
            let frame = client.frame().await;
            assert_eq!((frame.kind, frame.code()), (RST_STREAM, PROTOCOL_ERROR), "{sent}");
            let (body, _) = upstream.rest().await;
            assert!(body.len() < 5, "{} reached the server", body.escape_ascii());
            world.log_line().await;
        });
    }
}

#[test]
fn a_client_that_resets_its_stream_is_gone() {
    play(&http2(""), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.get(1).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        client.send(RST_STREAM, 0, 1, &CANCEL.to_be_bytes()).await;
        upstream.expect_end().await;
        world.expect_logged("client_gone", Some(499)).await;
        // In the middle of a response, too.
        client.get(3).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab").await;
        assert_eq!(client.frame().await.status(), 200);
        assert_eq!(client.frame().await.payload, b"ab");
        client.send(RST_STREAM, 0, 3, &CANCEL.to_be_bytes()).await;
        upstream.expect_end().await;
        world.expect_logged("client_gone", Some(200)).await;
        // And a connection that ends takes its streams with it.
        client.get(5).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        drop(client);
        upstream.expect_end().await;
        world.expect_logged("client_gone", Some(499)).await;
    });
}

#[test]
fn a_response_that_breaks_off_is_reset() {
    play(&http2(""), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        for (stream, head) in [(1, "Content-Length: 9"), (3, "Transfer-Encoding: chunked")] {
            client.get(stream).await;
            let mut upstream = origin.accept().await;
            upstream.message().await;
            upstream.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n")).await;
            upstream.send(if stream == 1 { "ab" } else { "2\r\nab\r\n" }).await;
            assert_eq!(client.frame().await.status(), 200);
            assert_eq!(client.frame().await.payload, b"ab");
            drop(upstream);
            let frame = client.frame().await;
            assert_eq!((frame.kind, frame.stream), (RST_STREAM, stream));
            assert_eq!(frame.code(), INTERNAL_ERROR);
            world.expect_logged("upstream_aborted", Some(200)).await;
        }
    });
}

/// Opens the windows of this stream and of the connection.
async fn open_windows(client: &mut Http2Peer, stream: u32, bytes: u32) {
    client.send(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes()).await;
    client.send(WINDOW_UPDATE, 0, 0, &bytes.to_be_bytes()).await;
}

#[test]
fn a_stream_whose_client_does_not_read_waits_and_holds_no_other_up() {
    play(&http2(""), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.send(WINDOW_UPDATE, 0, 0, &10_000_000u32.to_be_bytes()).await;
        client.get(1).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n").await;
        let sent = upstream.send_what_fits(9_000_000).await;
        // The window of the stream, two buffers, and what the network holds.
        assert!(sent < 700_000, "{sent} bytes were taken");
        client.get(3).await;
        let mut second = origin.accept().await;
        second.message().await;
        second.send(OK).await;
        let mut received = 0;
        loop {
            let frame = client.frame().await;
            if frame.stream == 3 && frame.ends_stream() {
                break;
            }
            received += if frame.kind == DATA { frame.payload.len() } else { 0 };
        }
        assert!(received <= 65_535 + 2, "{received}");
        // The response goes on as the window opens.
        open_windows(&mut client, 1, 1_000_000).await;
        let more = upstream.send_what_fits(1_000_000).await;
        assert!(more > 100_000, "{more}");
        client.send(RST_STREAM, 0, 1, &CANCEL.to_be_bytes()).await;
        sleep(Duration::from_secs(1)).await;
        assert_eq!(world.log().await.len(), 2);
    });
}

#[test]
fn a_server_that_does_not_read_holds_up_its_client_and_no_other_stream() {
    play(&http2("limits body=off;"), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.request(1, &POST, 0).await;
        let mut upstream = origin.accept().await;
        upstream.head().await;
        // The window of a stream is 64 KiB; more is sent only as Weir opens it.
        client.send(DATA, 0, 1, &[b'x'; 16_384]).await;
        client.send(DATA, 0, 1, &[b'x'; 16_384]).await;
        client.send(DATA, 0, 1, &[b'x'; 16_384]).await;
        client.send(DATA, 0, 1, &[b'x'; 16_383]).await;
        let mut opened = 0;
        let mut total = 65_535;
        sleep(Duration::from_secs(1)).await;
        while total < 3_000_000 {
            client.send(PING, 0, 0, &[7; 8]).await;
            loop {
                let frame = client.any_frame().await;
                match frame.kind {
                    WINDOW_UPDATE if frame.stream == 1 => {
                        opened += u32::from_be_bytes(frame.payload.try_into().unwrap());
                    }
                    PING => break,
                    _ => {}
                }
            }
            if opened == 0 {
                break;
            }
            let now = opened.min(16_384);
            opened -= now;
            total += now;
            client.send(DATA, 0, 1, &vec![b'x'; now as usize]).await;
            sleep(Duration::from_millis(20)).await;
        }
        assert!(total < 600_000, "{total} bytes were taken, and none was read");
        client.get(3).await;
        let mut second = origin.accept().await;
        second.message().await;
        second.send(OK).await;
        loop {
            let frame = client.frame().await;
            if frame.stream == 3 && frame.ends_stream() {
                break;
            }
        }
        drop(client);
        sleep(Duration::from_secs(1)).await;
        assert_eq!(world.log().await.len(), 2);
    });
}

#[test]
fn a_listener_speaks_what_it_is_told() {
    play(&http2(""), async |world| {
        world.origin(1).answers(OK);
        let mut client = world.client().await;
        client.send(GET1).await;
        assert_eq!(client.message().await.status(), 200);
        client.send(GET1).await;
        assert_eq!(client.message().await.status(), 200);
        // The preface is recognised in pieces, and a beginning of it is no preface.
        let mut client = world.client().await;
        client.send("PRI * HT").await;
        sleep(Duration::from_millis(100)).await;
        client.send("TP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(client.message().await.status(), 400);
        let mut client = Http2Peer::of(world.client().await);
        for piece in [&b"P"[..], b"RI * HTTP/2.0\r\n\r\nSM\r\n\r", b"\n\0\0\0\x04\0\0\0\0\0"] {
            client.peer.send(piece).await;
            sleep(Duration::from_millis(100)).await;
        }
        client.get(1).await;
        assert_eq!(client.response(1).await.0, 200);
        world.log().await;
    });
    play(&app(ONE, ""), async |world| {
        let mut client = Http2Peer::connect(world).await;
        client.peer.expect("HTTP/1.1 505").await;
        world.log_line().await;
    });
    play(&app(ONE, "http2 only;"), async |world| {
        let mut client = world.client().await;
        client.send(GET1).await;
        let (bytes, _) = client.rest().await;
        assert!(!bytes.starts_with(b"HTTP/1"), "{}", bytes.escape_ascii());
    });
}

#[test]
fn the_number_of_streams_is_limited_at_once_and_in_all() {
    play(&app(ONE, "http2 on streams=2; limits requests=4;"), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        let settings = client.any_frame().await;
        assert_eq!(settings.kind, SETTINGS);
        let streams = settings.payload.chunks(6).find(|one| one[..2] == [0, 3]).unwrap();
        assert_eq!(streams[2..], [0, 0, 0, 2]);
        let mut held = Vec::new();
        for stream in [1, 3] {
            client.get(stream).await;
            let mut upstream = origin.accept().await;
            upstream.message().await;
            held.push(upstream);
        }
        client.get(5).await;
        let refused = client.frame().await;
        assert_eq!((refused.kind, refused.stream, refused.code()), (RST_STREAM, 5, 7));
        for (upstream, stream) in held.iter_mut().zip([1, 3]) {
            upstream.send(OK).await;
            assert_eq!(client.response(stream).await.0, 200);
        }
        for stream in [7, 9] {
            client.get(stream).await;
            let upstream = &mut held[1];
            upstream.message().await;
            upstream.send(OK).await;
            let mut frame = client.frame().await;
            while frame.kind == GOAWAY {
                frame = client.frame().await;
            }
            assert_eq!((frame.stream, frame.status()), (stream, 200));
            if stream == 7 {
                assert!(client.frame().await.ends_stream());
            }
        }
        drop(client);
        assert_eq!(world.log().await.len(), 4);
    });
}

/// Reads the two steps of an ordered end: the last stream is any, then `last`.
async fn expect_ordered_end(client: &mut Http2Peer, last: u32) {
    let first = client.goaway().await;
    assert_eq!((first.last_stream(), first.code()), (0x7fff_ffff, 0));
    let ping = client.any_frame().await;
    assert_eq!((ping.kind, ping.flags), (PING, 0), "{ping:?}");
    client.send(PING, 1, 0, &ping.payload).await;
    let second = client.goaway().await;
    assert_eq!((second.last_stream(), second.code()), (last, 0));
}

#[test]
fn a_stop_ends_a_connection_in_two_steps_and_loses_no_request() {
    play(&http2(""), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.get(1).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        world.drain(Duration::from_secs(30));
        let first = client.goaway().await;
        assert_eq!((first.last_stream(), first.code()), (0x7fff_ffff, 0));
        let ping = client.any_frame().await;
        assert_eq!((ping.kind, ping.flags), (PING, 0), "{ping:?}");
        // A request that crossed the first GOAWAY is served.
        client.get(3).await;
        client.send(PING, 1, 0, &ping.payload).await;
        let mut other = origin.accept().await;
        other.message().await;
        let second = client.goaway().await;
        assert_eq!((second.last_stream(), second.code()), (3, 0));
        sleep(Duration::from_secs(5)).await;
        other.send(OK).await;
        assert_eq!(client.response(3).await.0, 200);
        upstream.send(OK).await;
        assert_eq!(client.response(1).await.0, 200);
        client.expect_closed().await;
        assert_eq!(world.log().await.len(), 2);
        world.expect_stopped(Duration::from_secs(3)).await;
    });
}

#[test]
fn an_idle_connection_ends_at_a_stop_at_once() {
    play(&http2(""), async |world| {
        let mut client = Http2Peer::connect(world).await;
        sleep(Duration::from_secs(1)).await;
        let start = Instant::now();
        world.drain(Duration::from_secs(30));
        expect_ordered_end(&mut client, 0).await;
        assert!(start.elapsed() < Duration::from_millis(100), "{:?}", start.elapsed());
        world.expect_stopped(Duration::from_secs(3)).await;
    });
}

#[test]
fn silence_age_and_a_removed_listener_end_a_connection_in_order() {
    play(&http2("timeout keepalive=20s;"), async |world| {
        let mut client = Http2Peer::connect(world).await;
        let start = Instant::now();
        expect_ordered_end(&mut client, 0).await;
        assert_eq!(start.elapsed().as_secs(), 20);
        client.expect_closed().await;
        // A client that does not answer the PING gets the second step all the same.
        let mut client = Http2Peer::connect(world).await;
        assert_eq!(client.goaway().await.last_stream(), 0x7fff_ffff);
        assert_eq!(client.goaway().await.last_stream(), 0);
        client.expect_closed().await;
    });
    play(&http2("timeout age=30s keepalive=1h;"), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.get(1).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        let start = Instant::now();
        expect_ordered_end(&mut client, 1).await;
        assert_eq!(start.elapsed().as_secs(), 30);
        upstream.send(OK).await;
        assert_eq!(client.response(1).await.0, 200);
        client.expect_closed().await;
        world.log_line().await;
    });
    play(&http2(""), async |world| {
        world.origin(1).answers(OK);
        let mut client = Http2Peer::connect(world).await;
        client.get(1).await;
        assert_eq!(client.response(1).await.0, 200);
        world.reload(&format!("pool app {{ {ONE} }} listen 10.0.0.1:81 -> app;")).await;
        // The next request is served, and the last of its connection.
        client.get(3).await;
        let (mut served, mut told) = (false, false);
        while !served || !told {
            let frame = client.frame().await;
            served |= frame.kind == HEADERS && frame.status() == 200;
            told |= frame.kind == GOAWAY && frame.last_stream() == 0x7fff_ffff;
        }
        client.send(PING, 1, 0, &[0; 8]).await;
        sleep(Duration::from_secs(5)).await;
        drop(client);
        assert_eq!(world.log().await.len(), 2);
    });
}

#[test]
fn a_reload_changes_the_routes_of_later_streams() {
    play(&http2(""), async |world| {
        let mut client = Http2Peer::connect(world).await;
        let text = |status| format!("listen {FRONT} {{ http2 on; default -> respond {status}; }}");
        for (stream, status) in [(1, 200), (3, 201), (5, 403)] {
            world.reload(&text(status)).await;
            client.get(stream).await;
            assert_eq!(client.response(stream).await.0, status);
        }
        assert_eq!(world.log().await.len(), 3);
    });
}

#[test]
fn a_head_in_several_frames_is_one() {
    play(&http2(""), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        let head = block(&[&GET[..], &[("x", "y")]].concat());
        let (first, rest) = head.split_at(7);
        let (second, last) = rest.split_at(1);
        client.send(HEADERS, END_STREAM, 1, first).await;
        client.send(CONTINUATION, 0, 1, second).await;
        client.send(CONTINUATION, END_HEADERS, 1, last).await;
        let mut upstream = origin.accept().await;
        assert_eq!(upstream.message().await.header("x"), Some("y"));
        upstream.send(OK).await;
        assert_eq!(client.response(1).await.0, 200);
        world.log_line().await;
    });
}

#[test]
fn a_head_over_the_limit_gets_431() {
    play(&http2("limits head=4k;"), async |world| {
        let mut client = Http2Peer::connect(world).await;
        for (stream, bytes) in [(1, 5_000), (3, 12_000)] {
            let long = "v".repeat(bytes);
            client.request(stream, &[&GET[..], &[("x", &long)]].concat(), END_STREAM).await;
            let mut head = client.frame().await;
            while head.stream != stream {
                head = client.frame().await;
            }
            assert_eq!(head.status(), 431, "{bytes}");
        }
        // Only the first is small enough for Weir's own parser, which logs it.
        world.expect_logged("bad_request", Some(431)).await;
    });
}

#[test]
fn idle_connections_make_room_for_others() {
    play(&format!("max_connections 2; {}", http2("")), async |world| {
        world.origin(1).answers(OK);
        let mut idle = Vec::new();
        for _ in 0..2 {
            let mut client = Http2Peer::connect(world).await;
            client.get(1).await;
            assert_eq!(client.response(1).await.0, 200);
            sleep(Duration::from_secs(2)).await;
            idle.push(client);
        }
        let mut newcomer = world.client().await;
        newcomer.send(GET1).await;
        assert_eq!(newcomer.message().await.status(), 200);
        let end = idle[0].goaway().await;
        assert_eq!((end.last_stream(), end.code()), (1, 0));
        idle[1].get(3).await;
        assert_eq!(idle[1].response(3).await.0, 200);
        assert_eq!(world.log().await.len(), 4);
    });
}

#[test]
fn a_client_that_answers_no_ping_opens_no_streams_for_ever() {
    play(&http2("timeout age=10s;"), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.get(1).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        assert_eq!(client.goaway().await.last_stream(), 0x7fff_ffff);
        sleep(Duration::from_millis(1_500)).await;
        client.get(3).await;
        let refused = client.frame().await;
        assert_eq!((refused.kind, refused.stream, refused.code()), (RST_STREAM, 3, 7));
        upstream.send(OK).await;
        assert_eq!(client.response(1).await.0, 200);
        client.goaway().await;
        client.expect_closed().await;
        world.log_line().await;
    });
}

#[test]
fn each_stream_has_a_number_of_its_own() {
    let text = http2("route path /own -> respond 200 \"$connection_requests\";");
    play(&text, async |world| {
        let mut client = Http2Peer::connect(world).await;
        let own = [&GET[..2], &[(":path", "/own")], &GET[3..]].concat();
        let heads = (1..7).step_by(2);
        let heads =
            heads.map(|stream| frame(HEADERS, END_STREAM | END_HEADERS, stream, &block(&own)));
        client.peer.send(heads.collect::<Vec<_>>().concat()).await;
        let mut numbers = BTreeMap::new();
        while numbers.len() < 3 {
            let frame = client.frame().await;
            if frame.kind == DATA {
                numbers.insert(frame.stream, String::from_utf8(frame.payload).unwrap());
            }
        }
        assert_eq!(numbers.into_values().collect::<Vec<_>>(), ["1", "2", "3"]);
        assert_eq!(world.log().await.len(), 3);
    });
}

#[test]
fn an_offer_of_h2c_is_neither_taken_nor_passed_on() {
    for mode in ["on", "off"] {
        play(&app(ONE, &format!("http2 {mode};")), async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            client
                .send(
                    "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\n\
                     Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
                )
                .await;
            let mut upstream = origin.accept().await;
            let request = upstream.message().await;
            for name in ["upgrade", "http2-settings"] {
                assert_eq!(request.header(name), None, "http2 {mode}");
            }
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
            world.log_line().await;
        });
    }
}

/// `docs/http2.md` names these among the decisions of the library.
#[test]
fn the_library_decides_some_things_by_itself() {
    // Trailers on a stream that was refused.
    play(&http2("streams=1;").replace("on; streams", "on streams"), async |world| {
        let _silent = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.get(1).await;
        client.request(3, &POST, 0).await;
        client.request(3, &[("x-trailer", "1")], END_STREAM).await;
        assert_eq!(client.goaway().await.code(), PROTOCOL_ERROR);
        world.log().await;
    });
    // A pseudo-header among trailers, and a header of connections in the first part of a head.
    play(&http2(""), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.request(1, &POST, 0).await;
        client.request(1, &[(":path", "/x"), ("x-trailer", "1")], END_STREAM).await;
        let mut upstream = origin.accept().await;
        let trailers = format!("{:?}", upstream.message().await);
        assert!(trailers.contains("x-trailer") && !trailers.contains("/x"), "{trailers}");
        upstream.send(OK).await;
        assert_eq!(client.response(1).await.0, 200);
        world.log().await;
    });
    // A header of connections in a head that is cut: behind the cut it ends its stream alone.
    let cut = [("connection", "x-second", GOAWAY), ("x-first", "connection", RST_STREAM)];
    for (first, second, kind) in cut {
        play(&http2(""), async |world| {
            let mut client = Http2Peer::connect(world).await;
            let begun = [&GET[..], &[(first, "close")]].concat();
            client.send(HEADERS, END_STREAM, 1, &block(&begun)).await;
            client.send(CONTINUATION, END_HEADERS, 1, &block(&[(second, "close")])).await;
            let answer = client.frame().await;
            assert_eq!((answer.kind, answer.code()), (kind, PROTOCOL_ERROR), "{first} {second}");
        });
    }
}
