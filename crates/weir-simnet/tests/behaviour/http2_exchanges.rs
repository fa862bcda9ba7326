//! An exchange does not know how its request arrived: retries, the queue, affinity, error pages,
//! limits, explanations and slow requests are over HTTP/2 what they are over HTTP/1.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};
use weir_simnet::{Faults, LinkFaults};
use weir_stats::WaitedFor;

use crate::OK;
use crate::http2_peer::{CANCEL, DATA, END_STREAM, GET, Http2Peer, ONE, POST, RST_STREAM, http2};
use crate::origin::Origin;
use crate::peer::Peer;
use crate::tls_peer::{TlsPeer, certify};
use crate::world::{FRONT, World, app, pass, play, play_on};

const TWO: &str = "server 10.0.1.1:80 name=one; server 10.0.1.2:80 name=two;";

/// A configuration with this pool and a listener with HTTP/2.
fn pool(pool: &str, listener: &str) -> String {
    app(pool, &format!("http2 on; {listener}"))
}

/// A request with further fields.
fn with<'a>(fields: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [&GET[..], fields].concat()
}

#[test]
fn a_request_whose_server_breaks_off_is_repeated_at_another_one() {
    play(&pool(&format!("{TWO} retry 1 on=reset;"), ""), async |world| {
        let (first, second) = (world.origin(1), world.origin(2));
        let mut client = Http2Peer::connect(world).await;
        client.get(1).await;
        first.accept().await.message().await;
        let mut upstream = second.accept().await;
        upstream.message().await;
        upstream.send(OK).await;
        assert_eq!(client.response(1).await, (200, "ok".into()));
        let line = world.log_line().await;
        assert_eq!(line.number("attempts"), Some(2));
        assert_eq!(line.list("failed_attempts"), "one=upstream_reset");
    });
}

#[test]
fn a_request_with_a_body_under_way_is_not_repeated() {
    play(&pool(&format!("{TWO} retry 1 on=reset;"), ""), async |world| {
        let (first, second) = (world.origin(1), world.origin(2));
        let mut client = Http2Peer::connect(world).await;
        client.request(1, &POST, 0).await;
        client.send(DATA, 0, 1, b"half").await;
        let mut upstream = first.accept().await;
        upstream.head().await;
        assert_eq!(upstream.chunk().await.as_deref(), Some("half"));
        upstream.reset();
        assert_eq!(client.response(1).await.0, 502);
        second.expect_no_connection().await;
        // The rest of the body is not wanted: the stream is over without an error.
        let end = client.frame().await;
        assert_eq!((end.kind, end.stream, end.code()), (RST_STREAM, 1, 0));
        world.expect_logged("upstream_reset", Some(502)).await;
    });
}

#[test]
fn streams_of_one_connection_wait_in_the_queue_and_leave_it_when_they_are_cancelled() {
    let one = "server 10.0.1.1:80 max_conn=1; queue timeout=5s;";
    play(&pool(one, "trusted_proxies 192.0.2.0/24;"), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        for (stream, id) in [(1, "id-1"), (3, "id-3"), (5, "id-5"), (7, "id-7")] {
            client.request(stream, &with(&[("x-request-id", id)]), END_STREAM).await;
            pass(10).await;
        }
        let mut upstream = origin.accept().await;
        upstream.message().await;
        assert_eq!((world.in_flight(), world.waiting()), (1, 3));
        client.send(RST_STREAM, 0, 3, &CANCEL.to_be_bytes()).await;
        pass(10).await;
        assert_eq!((world.in_flight(), world.waiting()), (1, 2));
        upstream.send(OK).await;
        assert_eq!(client.response(1).await.0, 200);
        // The stream that has its turn is cancelled at its server: the slot is the next one's.
        upstream.message().await;
        client.send(RST_STREAM, 0, 5, &CANCEL.to_be_bytes()).await;
        upstream.expect_end().await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        assert_eq!((world.in_flight(), world.waiting()), (1, 0));
        upstream.send(OK).await;
        assert_eq!(client.response(7).await.0, 200);
        let lines = world.log().await;
        let gone = lines.iter().filter(|line| line.text("cause") == "client_gone");
        assert_eq!((gone.count(), lines.len()), (2, 4));
        let now_us = world.process.balance_clock(Instant::now());
        let why = world.process.numbers.why("id-7", now_us).expect("the record is recent");
        assert_eq!(why.waited_for, WaitedFor::AnyEndpoint);
        assert_eq!(why.ahead, ["id-3", "id-5"]);
        assert!(why.explain().contains("2 requests were ahead of it"), "{}", why.explain());
    });
}

#[test]
fn a_stream_that_waited_too_long_gets_503_and_the_others_go_on() {
    let one = "server 10.0.1.1:80 max_conn=1; queue timeout=2s;";
    play(&pool(one, ""), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.get(1).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        let start = Instant::now();
        client.get(3).await;
        assert_eq!(client.response(3).await.0, 503);
        assert_eq!(start.elapsed().as_secs(), 2);
        world.expect_logged("queue_timeout", Some(503)).await;
        upstream.send(OK).await;
        assert_eq!(client.response(1).await.0, 200);
        world.log_line().await;
    });
}

#[test]
fn a_cookie_leads_a_stream_back_to_its_server() {
    let servers =
        TWO.replace("name=one", "name=one cookie=one").replace("name=two", "name=two cookie=two");
    play(&pool(&format!("{servers} sticky cookie SRV insert;"), ""), async |world| {
        let seen = [1, 2].map(|number| world.origin(number).answers(OK));
        let mut client = Http2Peer::connect(world).await;
        client.request(1, &with(&[("cookie", "a=1"), ("cookie", "SRV=two")]), END_STREAM).await;
        assert_eq!(client.response(1).await.0, 200);
        for stream in [3, 5, 7] {
            client.request(stream, &with(&[("cookie", "SRV=two")]), END_STREAM).await;
            assert_eq!(client.response(stream).await.0, 200);
        }
        let counts = seen.each_ref().map(|seen| seen.borrow().requests.len());
        assert_eq!(counts, [0, 4]);
        let cookies = |number: usize| {
            let seen = seen[1].borrow();
            seen.requests[number].header("cookie").map(str::to_owned)
        };
        assert_eq!(cookies(0).as_deref(), Some("a=1"));
        assert_eq!(cookies(1), None, "servers never see the cookie");
        assert_eq!(world.log().await.len(), 4);
    });
}

#[test]
fn error_pages_and_limits_are_those_of_http1() {
    let listener = "error_page 502 text=sorry; limit rate $remote_addr rate=1/s;";
    play(&pool(ONE, listener), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.get(1).await;
        origin.accept().await.message().await;
        assert_eq!(client.response(1).await, (502, "sorry".into()));
        client.get(3).await;
        assert_eq!(client.response(3).await.0, 429);
        let lines = world.log().await;
        let causes = lines.iter().map(|line| line.text("cause")).collect::<Vec<_>>();
        assert_eq!(causes, ["upstream_reset", "rate_limited"]);
    });
    play(&pool(ONE, "limits body=10b;"), async |world| {
        let mut client = Http2Peer::connect(world).await;
        client.request(1, &[&POST[..], &[("content-length", "11")]].concat(), 0).await;
        assert_eq!(client.response(1).await.0, 413);
        world.expect_logged("body_too_large", Some(413)).await;
    });
}

#[test]
fn a_slow_stream_is_recorded_with_its_time_split() {
    play(&http2(""), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.get(1).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        sleep(Duration::from_secs(3)).await;
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no").await;
        sleep(Duration::from_secs(1)).await;
        upstream.send("k").await;
        assert_eq!(client.response(1).await, (200, "ok".into()));
        let line = world.log_line().await;
        let now_us = world.process.balance_clock(Instant::now());
        let id = line.text("request_id");
        let record = world.process.numbers.why(&id, now_us).expect("the record is recent");
        let told = record.explain();
        assert!(told.contains("4 s") || told.contains("4.0"), "{told}");
        line.expect_times(&[("t_response", 3_000), ("t_data", 1_000), ("t_active", 4_000)]);
        // A second stream's times are its own, though its connection is older.
        client.get(3).await;
        upstream.message().await;
        upstream.send(OK).await;
        assert_eq!(client.response(3).await.0, 200);
        world.log_line().await.expect_times(&[("t_response", 0), ("t_data", 0), ("t_active", 0)]);
    });
}

#[test]
fn a_switch_of_protocols_that_no_stream_asked_for_is_no_response() {
    play(&http2(""), async |world: &World| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.get(1).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream
            .send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
            .await;
        assert_eq!(client.response(1).await.0, 502);
        world.log_line().await;
    });
}

/// A request for a WebSocket (RFC 8441).
const CHAT: [(&str, &str); 6] = [
    (":method", "CONNECT"),
    (":protocol", "websocket"),
    (":scheme", "http"),
    (":path", "/chat"),
    (":authority", "a"),
    ("sec-websocket-version", "13"),
];

/// Accepts a request for a WebSocket as an HTTP/1 server does.
async fn switched(origin: &Origin) -> Peer {
    let mut upstream = origin.accept().await;
    let request = upstream.head().await;
    assert_eq!(request.first, "GET /chat HTTP/1.1");
    assert_eq!(request.header("upgrade"), Some("websocket"));
    assert_eq!(request.header("sec-websocket-version"), Some("13"));
    assert_eq!(request.header("sec-websocket-key").map(str::len), Some(24));
    for name in ["transfer-encoding", "content-length"] {
        assert_eq!(request.header(name), None);
    }
    upstream
        .send(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Accept: x\r\n\r\nfirst",
        )
        .await;
    upstream
}

#[test]
fn a_stream_becomes_a_websocket() {
    play(&http2(""), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.request(1, &CHAT, 0).await;
        let mut upstream = switched(&origin).await;
        let head = client.frame().await;
        assert_eq!((head.status(), head.ends_stream()), (200, false));
        assert_eq!(client.frame().await.payload, b"first");
        // Both ways at once, beside other streams of the connection.
        client.send(DATA, 0, 1, b"ping").await;
        upstream.expect("ping").await;
        upstream.send("pong").await;
        assert_eq!(client.frame().await.payload, b"pong");
        client.get(3).await;
        let mut other = origin.accept().await;
        other.message().await;
        other.send(OK).await;
        assert_eq!(client.response(3).await.0, 200);
        // Each side ends by itself.
        client.send(DATA, END_STREAM, 1, b"bye").await;
        let (rest, _) = upstream.rest().await;
        assert_eq!(rest, b"bye");
        upstream.send("bye too").await;
        upstream.finish().await;
        let last = client.frame().await;
        assert_eq!((last.stream, &*last.payload), (1, &b"bye too"[..]));
        let ends = last.ends_stream() || client.frame().await.ends_stream();
        assert!(ends);
        let causes = world.log().await.into_iter().map(|line| line.text("cause"));
        assert_eq!(causes.collect::<Vec<_>>(), ["complete", "tunnel_closed"]);
    });
}

#[test]
fn a_websocket_that_is_reset_ends_at_its_server() {
    for half_closed in [false, true] {
        play(&http2(""), async |world| {
            let origin = world.origin(1);
            let mut client = Http2Peer::connect(world).await;
            client.request(1, &CHAT, 0).await;
            let mut upstream = switched(&origin).await;
            assert_eq!(client.frame().await.status(), 200);
            if half_closed {
                client.send(DATA, END_STREAM, 1, b"").await;
                pass(100).await;
            }
            client.send(RST_STREAM, 0, 1, &CANCEL.to_be_bytes()).await;
            upstream.rest().await;
            world.expect_logged("tunnel_client_reset", Some(101)).await;
        });
    }
}

#[test]
fn an_unknown_protocol_over_connect_gets_501_and_a_refused_websocket_no_2xx() {
    play(&http2(""), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        let mut fields = CHAT;
        fields[1].1 = "webtransport";
        client.request(1, &fields, 0).await;
        assert_eq!(client.response(1).await.0, 501);
        client.request(3, &CHAT, 0).await;
        let mut upstream = origin.accept().await;
        upstream.head().await;
        upstream.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno").await;
        let mut frame = client.frame().await;
        while frame.stream != 3 {
            frame = client.frame().await;
        }
        assert_eq!(frame.status(), 403);
        // A 200 means no to a client of HTTP/1, and would mean yes to one of HTTP/2.
        client.request(5, &CHAT, 0).await;
        upstream.head().await;
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno").await;
        while frame.stream != 5 {
            frame = client.frame().await;
        }
        assert_eq!(frame.status(), 502);
        drop(client);
        assert_eq!(world.log().await.len(), 3);
    });
}

#[test]
fn frames_of_a_turn_leave_together_within_tls() {
    // Writes and reads are not cut.
    let wide = LinkFaults {
        transfer: 1 << 40..=1 << 40,
        window: 1 << 20..=1 << 20,
        ..LinkFaults::default()
    };
    let faults = Faults { downstream: wide.clone(), upstream: wide, ..Faults::default() };
    let listener = format!("listen {FRONT} {{ route -> app; }}");
    play_on(faults, &format!("pool app {{ {TWO} }} {listener}"), async |world| {
        let certified = certify(world);
        let listener =
            format!("listen {FRONT} tls {{ certificate /cert.pem key=/key.pem; route -> app; }}");
        world.reload(&format!("pool app {{ {TWO} }} {listener}")).await;
        let body = "x".repeat(200_000);
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n";
        world.origin(1).answers(&format!("{head}{body}"));
        let client = TlsPeer::client_of(world.client().await, &certified, &["h2"]).await;
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(1 << 20).initial_connection_window_size(1 << 20);
        let handshake = builder.handshake::<_, Bytes>(client.into_stream());
        let (mut requests, connection) = handshake.await.unwrap();
        let connection = tokio::task::spawn_local(connection);
        pass(100).await;
        let before = world.writes_to_clients();
        let request = http::Request::get("https://a/").body(()).unwrap();
        let mut body = requests.send_request(request, true).unwrap().0.await.unwrap().into_body();
        let mut received = 0;
        while let Some(data) = body.data().await {
            let data = data.unwrap();
            received += data.len();
            body.flow_control().release_capacity(data.len()).unwrap();
        }
        assert_eq!(received, 200_000);
        // Of 13 frames, three leave together.
        let writes = world.writes_to_clients() - before;
        assert!(writes <= 8, "{writes} writes");
        drop((requests, body));
        connection.abort();
        world.log_line().await;
    });
}
