//! WebSockets to servers of HTTP/2 (RFC 8441), of clients of both versions; `http2_exchanges.rs`
//! has those of HTTP/2 clients to servers of HTTP/1, and `interim.rs` those of HTTP/1 on both
//! sides.

use std::time::Duration;

use h2::Reason;

use crate::http2_origin::{Http2Connection, OriginStream, WebSockets};
use crate::http2_peer::{
    CANCEL, DATA, END_HEADERS, END_STREAM, HEADERS, Http2Peer, RST_STREAM, block,
};
use crate::origin::Origin;
use crate::peer::{End, Peer};
use crate::tls_peer::{Certified, TlsPeer, certify};
use crate::world::{FRONT, World, app, pass, play};
use crate::{GET, OK};

const SERVER: &str = "server 10.0.1.1:80 http=2;";
/// A pool whose server chooses the version.
const AUTO: &str = "http_version auto; server 10.0.1.1:80; tls verify=off name=a;";

/// The request for a WebSocket over HTTP/1, with the key of RFC 6455 section 1.3.
const CHAT: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
/// The answer to that key.
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
    Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
/// The same over HTTP/2.
const CONNECT: [(&str, &str); 6] = [
    (":method", "CONNECT"),
    (":protocol", "websocket"),
    (":scheme", "http"),
    (":path", "/chat"),
    (":authority", "a"),
    ("sec-websocket-version", "13"),
];

/// A configuration with this pool; the listener speaks HTTP/2 too.
fn pool(pool: &str) -> String {
    app(pool, "http2 on;")
}

/// Waits for the request for a WebSocket and checks it.
async fn asked(upstream: &mut Http2Connection) -> OriginStream {
    let stream = upstream.request().await;
    let (method, path) = (stream.request.method().as_str(), stream.request.uri().path());
    assert_eq!((method, path), ("CONNECT", "/chat"));
    let protocol = stream.request.extensions().get::<h2::ext::Protocol>();
    assert_eq!(protocol.map(h2::ext::Protocol::as_str), Some("websocket"));
    for name in ["sec-websocket-key", "upgrade", "connection", "content-length"] {
        assert_eq!(stream.header(name), None, "{name}");
    }
    assert_eq!(stream.header("sec-websocket-version"), Some("13"));
    stream
}

/// Opens a WebSocket of an HTTP/1 client.
async fn open(world: &World, upstream: &mut Option<Http2Connection>, origin: &Origin) -> Peer {
    let mut client = world.client().await;
    client.send(CHAT).await;
    if upstream.is_none() {
        *upstream = Some(origin.accept_http2(100).await);
    }
    client
}

#[test]
fn a_websocket_of_an_http1_client_passes_to_a_server_of_http2() {
    play(&pool(SERVER), async |world| {
        let (origin, mut upstream) = (world.origin(1), None);
        let mut client = open(world, &mut upstream, &origin).await;
        let mut stream = asked(upstream.as_mut().unwrap()).await;
        let mut body = stream.begin(200, &[("sec-websocket-protocol", "chat")]);
        let head = client.head().await;
        assert_eq!((head.status(), head.header("upgrade")), (101, Some("websocket")));
        assert_eq!(head.header("sec-websocket-accept"), Some(ACCEPT));
        assert_eq!(head.header("sec-websocket-protocol"), Some("chat"));
        // Both ways, before the other side has said anything; the connection carries others.
        client.send("ping").await;
        assert_eq!(stream.data().await.as_deref(), Some("ping"));
        let mut other = world.client().await;
        other.send(GET).await;
        upstream.as_mut().unwrap().request().await.answer("ok");
        assert_eq!(other.message().await.text(), "ok");
        world.expect_logged("complete", Some(200)).await;
        body.send("pong");
        client.expect("pong").await;
        // The client ends its side; the other one goes on.
        client.finish().await;
        assert_eq!(stream.body().await.0, "");
        body.send("and ");
        body.finish("bye");
        let (rest, end) = client.rest().await;
        assert_eq!((rest.as_slice(), end), (&b"and bye"[..], End::Closed));
        world.expect_logged("tunnel_closed", Some(101)).await;
        assert_eq!(world.connect_count(1), 1);
    });
}

#[test]
fn a_websocket_of_an_http2_client_passes_to_a_server_of_http2() {
    play(&pool(SERVER), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.request(1, &CONNECT, 0).await;
        let mut upstream = origin.accept_http2(100).await;
        let mut stream = asked(&mut upstream).await;
        let mut body = stream.begin(200, &[]);
        assert_eq!(client.frame().await.status(), 200);
        client.send(DATA, 0, 1, b"ping").await;
        assert_eq!(stream.data().await.as_deref(), Some("ping"));
        body.send("pong");
        assert_eq!(client.frame().await.payload, b"pong");
        // The server ends its side first.
        body.finish("bye");
        let mut last = client.frame().await;
        assert_eq!(last.payload, b"bye");
        while !last.ends_stream() {
            last = client.frame().await;
        }
        client.send(DATA, 0, 1, b"late").await;
        assert_eq!(stream.data().await.as_deref(), Some("late"));
        client.send(DATA, END_STREAM, 1, b"").await;
        assert_eq!(stream.body().await.0, "");
        world.expect_logged("tunnel_closed", Some(101)).await;
    });
}

#[test]
fn bytes_behind_the_request_for_a_websocket_are_not_lost() {
    play(&pool(SERVER), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(format!("{CHAT}early")).await;
        let mut upstream = origin.accept_http2(100).await;
        let mut stream = asked(&mut upstream).await;
        let body = stream.begin(200, &[]);
        body.finish("first");
        assert_eq!(client.head().await.status(), 101);
        client.expect("first").await;
        assert_eq!(stream.data().await.as_deref(), Some("early"));
        client.finish().await;
        assert_eq!(stream.body().await.0, "");
        world.expect_logged("tunnel_closed", Some(101)).await;
    });
}

#[test]
fn a_reset_ends_a_websocket_on_both_sides() {
    play(&pool(SERVER), async |world| {
        let (origin, mut upstream) = (world.origin(1), None);
        // The server resets the stream.
        let mut client = open(world, &mut upstream, &origin).await;
        let upstream = upstream.as_mut().unwrap();
        let body = asked(upstream).await.begin(200, &[]);
        assert_eq!(client.head().await.status(), 101);
        body.reset(Reason::INTERNAL_ERROR);
        assert_eq!(client.rest().await.1, End::Reset);
        world.expect_logged("tunnel_upstream_reset", Some(101)).await;
        let mut client = Http2Peer::connect(world).await;
        client.request(1, &CONNECT, 0).await;
        let body = asked(upstream).await.begin(200, &[]);
        assert_eq!(client.frame().await.status(), 200);
        body.reset(Reason::CANCEL);
        assert_eq!(client.frame().await.kind, RST_STREAM);
        world.expect_logged("tunnel_upstream_reset", Some(101)).await;
        // The client does.
        client.request(3, &CONNECT, 0).await;
        let body = asked(upstream).await.begin(200, &[]);
        assert_eq!(client.frame().await.status(), 200);
        client.send(RST_STREAM, 0, 3, &CANCEL.to_be_bytes()).await;
        assert_eq!(body.reset_by_client().await, Reason::CANCEL);
        world.expect_logged("tunnel_client_reset", Some(101)).await;
        let mut client = world.client().await;
        client.send(CHAT).await;
        let body = asked(upstream).await.begin(200, &[]);
        assert_eq!(client.head().await.status(), 101);
        client.reset();
        assert_eq!(body.reset_by_client().await, Reason::CANCEL);
        world.expect_logged("tunnel_client_reset", Some(101)).await;
        assert_eq!(world.connect_count(1), 1);
    });
}

#[test]
fn a_server_that_refuses_a_websocket_has_its_response_passed_on() {
    play(&pool(SERVER), async |world| {
        let (origin, mut upstream) = (world.origin(1), None);
        let mut client = open(world, &mut upstream, &origin).await;
        let upstream = upstream.as_mut().unwrap();
        let mut stream = asked(upstream).await;
        stream.begin(403, &[]).finish("no");
        // The request ends in order: a reset would count against Weir at some servers.
        assert_eq!(stream.body().await.0, "");
        let response = client.message().await;
        assert_eq!((response.status(), response.text()), (403, "no"));
        world.expect_logged("complete", Some(403)).await;
        // The client's connection goes on.
        client.send(GET).await;
        upstream.request().await.answer("ok");
        assert_eq!(client.message().await.text(), "ok");
        world.expect_logged("complete", Some(200)).await;
        let mut client = Http2Peer::connect(world).await;
        client.request(1, &CONNECT, 0).await;
        asked(upstream).await.end(404, &[]);
        let head = client.frame().await;
        assert_eq!((head.status(), head.ends_stream()), (404, true));
        world.expect_logged("complete", Some(404)).await;
    });
}

#[test]
fn a_server_that_takes_no_websockets_is_told_from_one_that_fails() {
    let passive = "passive errors=1 eject=1h on=connect,reset,timeout,invalid;";
    play(&pool(&format!("{SERVER} {passive}")), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(CHAT).await;
        let mut upstream = origin.accept_frames(&[]).await;
        assert_eq!(client.message().await.status(), 501);
        world.expect_logged("no_websocket", Some(501)).await;
        // Known by now, it is not asked again, and other requests have the connection.
        let mut other = Http2Peer::connect(world).await;
        other.request(1, &CONNECT, 0).await;
        assert_eq!(other.frame().await.status(), 501);
        world.expect_logged("no_websocket", Some(501)).await;
        client.send(GET).await;
        assert_eq!(upstream.frame().await.kind, HEADERS);
        upstream.send(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[(":status", "204")])).await;
        assert_eq!(client.message().await.status(), 204);
        world.expect_logged("complete", Some(204)).await;
        assert_eq!(world.connect_count(1), 1);
    });
}

#[test]
fn a_websocket_goes_to_a_server_of_the_pool_that_takes_it() {
    let two = "server 10.0.1.1:80 name=one http=2; server 10.0.1.2:80 name=two; balance first;";
    play(&pool(&format!("{two} retry 1;")), async |world| {
        let (first, second) = (world.origin(1), world.origin(2));
        let mut client = world.client().await;
        client.send(CHAT).await;
        let _settings = first.accept_frames(&[]).await;
        let mut upstream = second.accept().await;
        assert_eq!(upstream.message().await.header("upgrade"), Some("websocket"));
        upstream.send(SWITCHED).await;
        assert_eq!(client.head().await.status(), 101);
        client.finish().await;
        upstream.finish().await;
        let line = world.log_line().await;
        assert_eq!(line.list("failed_attempts"), "one=no_websocket");
    });
}

#[test]
fn a_request_for_another_protocol_passes_without_it() {
    play(&app(SERVER, "upgrade websocket other;"), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client
            .send("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
            .await;
        let mut upstream = origin.accept_http2(100).await;
        let stream = upstream.request().await;
        assert_eq!((stream.request.method().as_str(), stream.header("upgrade")), ("GET", None));
        stream.answer("plain");
        assert_eq!(client.message().await.text(), "plain");
        // A WebSocket that no server could answer as one: it has no key.
        client.send(CHAT.replace("Sec-WebSocket-Key", "X-Key")).await;
        let stream = upstream.request().await;
        assert_eq!(stream.request.method().as_str(), "GET");
        stream.answer("plain");
        assert_eq!(client.message().await.text(), "plain");
        assert_eq!(world.log().await.len(), 2);
    });
}

#[test]
fn a_side_of_a_websocket_that_reads_nothing_holds_the_other_up() {
    play(&pool(SERVER), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::with(world, &[(4, 0)]).await;
        client.request(1, &CONNECT, 0).await;
        let mut upstream = origin.accept_http2(100).await;
        let mut stream = asked(&mut upstream).await;
        let mut body = stream.begin(200, &[]);
        assert_eq!(client.frame().await.status(), 200);
        let sent = body.send_what_fits().await;
        assert!((64 * 1024..=224 * 1024).contains(&sent), "{sent}");
        // The other stream of the connection, and the other direction, go on.
        client.send(DATA, 0, 1, b"ping").await;
        assert_eq!(stream.data().await.as_deref(), Some("ping"));
        client.get(3).await;
        upstream.request().await.end(204, &[]);
        assert_eq!(client.frame().await.status(), 204);
        world.log_line().await;
        drop((body, stream));
        // The same for a server that reads nothing.
        let mut client = world.client().await;
        client.send(CHAT).await;
        let mut stream = asked(&mut upstream).await;
        let body = stream.begin(200, &[]);
        assert_eq!(client.head().await.status(), 101);
        let sent = client.send_what_fits(4 << 20).await;
        assert!((64 * 1024..1 << 20).contains(&sent), "{sent}");
        assert_eq!(stream.hold_what_comes().await, 65_535);
        drop((body, stream));
        drop(client);
        world.log().await;
    });
}

#[test]
fn a_websocket_outlives_a_reload_a_goaway_and_the_age_of_its_connection() {
    let limits = "keepalive max_age=1m;";
    play(&pool(&format!("{SERVER} {limits}")), async |world| {
        let (origin, mut upstream) = (world.origin(1), None);
        let mut client = open(world, &mut upstream, &origin).await;
        let mut upstream = upstream.unwrap();
        let mut stream = asked(&mut upstream).await;
        let mut body = stream.begin(200, &[]);
        assert_eq!(client.head().await.status(), 101);
        upstream.leave();
        pass(120_000).await;
        world.reload(&pool("server 10.0.1.2:80 http=2;")).await;
        client.send("ping").await;
        assert_eq!(stream.data().await.as_deref(), Some("ping"));
        body.send("pong");
        client.expect("pong").await;
        client.finish().await;
        assert_eq!(stream.body().await.0, "");
        body.finish("");
        client.expect_closed().await;
        upstream.expect_end().await;
        world.expect_logged("tunnel_closed", Some(101)).await;
    });
}

#[test]
fn a_stop_lets_a_websocket_finish_until_its_deadline() {
    for ends in [true, false] {
        play(&pool(SERVER), async |world| {
            let (origin, mut upstream) = (world.origin(1), None);
            let mut client = open(world, &mut upstream, &origin).await;
            let mut stream = asked(upstream.as_mut().unwrap()).await;
            let mut body = stream.begin(200, &[]);
            assert_eq!(client.head().await.status(), 101);
            world.drain(Duration::from_secs(30));
            pass(10_000).await;
            body.send("still here");
            client.expect("still here").await;
            if ends {
                client.finish().await;
                assert_eq!(stream.body().await.0, "");
                body.finish("");
                client.expect_closed().await;
                world.expect_stopped(Duration::from_secs(5)).await;
                world.expect_logged("tunnel_closed", Some(101)).await;
            } else {
                world.expect_stopped(Duration::from_secs(25)).await;
                client.expect_end().await;
                world.expect_logged("shutdown", Some(101)).await;
            }
        });
    }
}

/// Waits for the next connection, whose server speaks these protocols.
async fn accept_tls(origin: &Origin, own: &Certified, protocols: &[&str]) -> TlsPeer {
    TlsPeer::server_of(origin.accept().await, own, protocols).await
}

const BOTH: [&str; 2] = ["h2", "http/1.1"];

#[test]
fn a_server_that_chooses_http2_without_websockets_has_them_over_http1() {
    play(&pool(AUTO), async |world| {
        let (origin, own) = (world.origin(1), certify(world));
        let mut client = world.client().await;
        client.send(CHAT).await;
        let first = accept_tls(&origin, &own, &BOTH).await;
        assert_eq!(first.protocol(), Some(&b"h2"[..]));
        let mut http2 = Http2Connection::serve(first.into_stream(), 100, WebSockets::NotTaken);
        let mut http1 = accept_tls(&origin, &own, &BOTH).await;
        assert_ne!(http1.protocol(), Some(&b"h2"[..]));
        assert!(http1.head().await.contains("Upgrade: websocket\r\n"));
        http1.send(SWITCHED).await;
        assert_eq!(client.head().await.status(), 101);
        // Other requests have the connection of HTTP/2, and the next WebSocket does without.
        let mut other = world.client().await;
        other.send(GET).await;
        http2.request().await.answer("ok");
        assert_eq!(other.message().await.text(), "ok");
        other.send(CHAT).await;
        let mut next = accept_tls(&origin, &own, &BOTH).await;
        assert!(next.head().await.contains("Upgrade: websocket\r\n"));
        next.send(OK).await;
        assert_eq!(other.message().await.text(), "ok");
        client.send("ping").await;
        http1.expect("ping").await;
        client.finish().await;
        http1.finish().await;
        client.expect_closed().await;
        assert_eq!((world.log().await.len(), world.connect_count(1)), (3, 3));
        http2.expect_no_request().await;
    });
}

#[test]
fn a_server_that_chooses_http2_with_websockets_has_them_there() {
    play(&pool(AUTO), async |world| {
        let (origin, own) = (world.origin(1), certify(world));
        let mut client = world.client().await;
        client.send(CHAT).await;
        let first = accept_tls(&origin, &own, &BOTH).await;
        let mut http2 = Http2Connection::serve(first.into_stream(), 100, WebSockets::Taken);
        let mut stream = asked(&mut http2).await;
        assert_eq!(stream.request.uri().scheme_str(), Some("https"));
        stream.begin(200, &[]).finish("bye");
        assert_eq!(client.head().await.status(), 101);
        client.expect("bye").await;
        client.finish().await;
        assert_eq!(stream.body().await.0, "");
        world.expect_logged("tunnel_closed", Some(101)).await;
    });
}

#[test]
fn a_side_that_ends_tls_without_saying_so_ends_its_direction_of_a_websocket() {
    // A client of HTTP/1.
    let tls = |listener: &str| {
        format!("pool app {{ {SERVER} }} listen {FRONT} {listener} default -> app; }}")
    };
    play(&tls("{"), async |world| {
        let (origin, own) = (world.origin(1), certify(world));
        world.reload(&tls("tls { certificate /cert.pem key=/key.pem;")).await;
        let mut client = TlsPeer::client(world.client().await, &own).await;
        client.send(CHAT).await;
        let mut upstream = origin.accept_http2(100).await;
        let mut stream = asked(&mut upstream).await;
        let body = stream.begin(200, &[]);
        assert!(client.head().await.starts_with("HTTP/1.1 101 "));
        client.send("last").await;
        assert_eq!(stream.data().await.as_deref(), Some("last"));
        drop(client);
        assert_eq!(stream.body().await.0, "");
        body.finish("");
        world.log_line().await;
    });
    // A server of HTTP/1.
    play(&pool("server 10.0.1.1:80; tls verify=off name=a;"), async |world| {
        let (origin, own) = (world.origin(1), certify(world));
        let mut client = Http2Peer::connect(world).await;
        client.request(1, &CONNECT, 0).await;
        let mut upstream = TlsPeer::server(origin.accept().await, &own).await;
        upstream.head().await;
        upstream.send(SWITCHED).await;
        assert_eq!(client.frame().await.status(), 200);
        upstream.send("last").await;
        assert_eq!(client.frame().await.payload, b"last");
        drop(upstream);
        assert!(client.frame().await.ends_stream());
        client.send(DATA, END_STREAM, 1, b"").await;
        world.log_line().await;
    });
}

#[test]
fn a_server_may_take_websockets_for_one_name_and_not_for_another() {
    let named = "server 10.0.1.1:80 http=2; tls verify=off name=$http_host;";
    play(&pool(named), async |world| {
        let (origin, own) = (world.origin(1), certify(world));
        let mut client = world.client().await;
        client.send("GET / HTTP/1.1\r\nHost: without\r\n\r\n").await;
        let first = accept_tls(&origin, &own, &BOTH).await.into_stream();
        let mut without = Http2Connection::serve(first, 100, WebSockets::NotTaken);
        without.request().await.answer("ok");
        assert_eq!(client.message().await.text(), "ok");
        client.send(CHAT).await;
        let second = accept_tls(&origin, &own, &BOTH).await.into_stream();
        let mut with = Http2Connection::serve(second, 100, WebSockets::Taken);
        let mut stream = asked(&mut with).await;
        stream.begin(200, &[]).finish("bye");
        assert_eq!(client.head().await.status(), 101);
        client.expect("bye").await;
        client.finish().await;
        assert_eq!(stream.body().await.0, "");
        assert_eq!(world.log().await.len(), 2);
    });
}
