//! HTTP/2 to servers: the four pairs of versions, bodies and trailers both ways at once, streams
//! that share connections, and what a server refuses or loses.

use std::time::Duration;

use h2::Reason;
use tokio::time::Instant;

use crate::http2_origin::{Http2Connection, OriginStream, WebSockets};
use crate::http2_peer::{
    ACK, CANCEL, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, Http2Peer, INTERNAL_ERROR, PING,
    POST, RST_STREAM, WINDOW_UPDATE, block, http2,
};
use crate::peer::{End, Peer};
use crate::tls_peer::{TlsPeer, certify};
use crate::world::{World, app, pass, play};
use crate::{GET, OK};

const SERVER: &str = "server 10.0.1.1:80 http=2;";
const TWO: &str = "http_version 2; server 10.0.1.1:80 name=one; server 10.0.1.2:80 name=two;";

/// A configuration with this pool; the listener speaks HTTP/2 too.
fn pool(pool: &str) -> String {
    app(pool, "http2 on;")
}

async fn begin(world: &World, requests: &[&str]) -> Vec<Peer> {
    let mut clients = Vec::new();
    for request in requests {
        let mut client = world.client().await;
        client.send(request).await;
        clients.push(client);
    }
    clients
}

/// Reads a response; returns its status and body.
async fn answer(client: &mut Peer) -> (u16, String) {
    let message = client.message().await;
    (message.status(), message.text().to_owned())
}

#[test]
fn a_client_of_http1_gets_the_response_of_a_server_of_http2() {
    play(&pool(SERVER), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        let lines = "Host: shop.test\r\nX-A: 1\r\nConnection: x-hop\r\nX-Hop: 1\r\n";
        client.send(format!("GET /a?b=c HTTP/1.1\r\n{lines}\r\n")).await;
        let mut upstream = origin.accept_http2(100).await;
        let stream = upstream.request().await;
        assert_eq!(stream.request.uri(), "http://shop.test/a?b=c");
        assert_eq!((stream.header("x-a"), stream.header("x-hop")), (Some("1"), None));
        assert_eq!((stream.header("connection"), stream.header("te")), (None, None));
        assert!(stream.request.body().is_end_stream(), "the request is one frame");
        let mut stream = stream;
        let mut body = stream.begin(201, &[("x-b", "2"), ("content-length", "5")]);
        body.send("fi");
        body.finish("rst");
        let response = client.message().await;
        assert_eq!((response.status(), response.text()), (201, "first"));
        assert_eq!(response.first, "HTTP/1.1 201 Created");
        assert_eq!(response.header("x-b"), Some("2"));
        // The next request has the same connection, and its end shows in its head.
        client.send(GET).await;
        upstream.request().await.end(200, &[]);
        let response = client.message().await;
        assert_eq!((response.header("content-length"), response.text()), (Some("0"), ""));
        let lines = world.log().await;
        assert_eq!(lines.len(), 2);
        assert_eq!(world.connect_count(1), 1);
        assert_eq!(world.pool().endpoints[0].idle.now(), 1);
    });
}

#[test]
fn bodies_and_trailers_pass_both_ways_between_all_versions() {
    let trailers = [("x-sum", "5"), ("content-length", "9")];
    play(&pool(SERVER), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: te\r\n";
        client.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")).await;
        let mut upstream = origin.accept_http2(100).await;
        let mut stream = upstream.request().await;
        assert_eq!(stream.header("transfer-encoding"), None);
        assert_eq!(stream.header("te"), Some("trailers"));
        assert_eq!(stream.data().await.as_deref(), Some("abc"));
        client.send("2\r\nde\r\n0\r\nX-In: 1\r\nHost: b\r\n\r\n").await;
        let (rest, received) = stream.body().await;
        assert_eq!((rest.as_str(), received.len()), ("de", 1));
        assert_eq!(received["x-in"], "1");
        let mut body = stream.begin(200, &[]);
        body.send("out");
        body.trailers(&trailers);
        let response = client.message().await;
        assert_eq!(
            (response.text(), response.trailers.as_slice()),
            ("out", &["x-sum: 5".to_owned()][..])
        );

        // The same with HTTP/2 on both sides, and a length beside the trailers.
        let mut client = Http2Peer::connect(world).await;
        client.request(1, &[&POST[..], &[("te", "trailers")]].concat(), 0).await;
        client.send(DATA, 0, 1, b"abc").await;
        let mut stream = upstream.request().await;
        assert_eq!(
            (stream.header("te"), stream.header("content-length")),
            (Some("trailers"), None)
        );
        assert_eq!(stream.data().await.as_deref(), Some("abc"));
        client.send(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[("x-in", "2")])).await;
        let (rest, received) = stream.body().await;
        assert_eq!((rest.as_str(), &received["x-in"]), ("", &"2".parse().unwrap()));
        let mut body = stream.begin(200, &[("content-length", "3")]);
        body.send("out");
        body.trailers(&trailers);
        assert_eq!(client.frame().await.status(), 200);
        assert_eq!(client.frame().await.payload, b"out");
        let last = client.frame().await;
        assert_eq!((last.kind, last.ends_stream()), (HEADERS, true));
        assert!(last.payload.windows(5).any(|bytes| bytes == b"x-sum") || last.payload.len() > 5);
        assert_eq!(world.log().await.len(), 2);
    });
}

#[test]
fn a_stream_goes_both_ways_at_once() {
    play(&pool(SERVER), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.request(1, &POST, 0).await;
        let mut upstream = origin.accept_http2(100).await;
        let mut stream = upstream.request().await;
        // The server speaks first.
        stream.inform(103, &[("link", "</a>")]);
        let mut body = stream.begin(200, &[]);
        assert_eq!(client.frame().await.status(), 103);
        assert_eq!(client.frame().await.status(), 200);
        for (question, reply) in [("one", "eins"), ("two", "zwei"), ("three", "drei")] {
            client.send(DATA, 0, 1, question.as_bytes()).await;
            assert_eq!(stream.data().await.as_deref(), Some(question));
            body.send(reply);
            assert_eq!(client.frame().await.payload, reply.as_bytes());
        }
        client.send(DATA, END_STREAM, 1, b"").await;
        assert_eq!(stream.body().await.0, "");
        body.trailers(&[("grpc-status", "0")]);
        assert!(client.frame().await.ends_stream());
        world.expect_logged("complete", Some(200)).await;
    });
}

#[test]
fn an_early_response_does_not_cut_the_upload() {
    play(&pool(SERVER), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.request(1, &POST, 0).await;
        let mut upstream = origin.accept_http2(100).await;
        let mut stream = upstream.request().await;
        let mut body = stream.begin(200, &[]);
        body.send("early");
        assert_eq!(client.frame().await.status(), 200);
        assert_eq!(client.frame().await.payload, b"early");
        let ((), (text, _)) = tokio::join!(client.upload(1, 60_000), stream.body());
        assert_eq!(text.len(), 60_000);
        body.finish("");
        world.expect_logged("complete", Some(200)).await;
    });
}

#[test]
fn streams_share_a_connection_within_the_servers_limit() {
    play(&pool(SERVER), async |world| {
        let origin = world.origin(1);
        let mut clients = begin(world, &[GET; 5]).await;
        let mut first = origin.accept_http2(2).await;
        let (one, two) = (first.request().await, first.request().await);
        first.expect_no_request().await;
        // As many wait for the next connection as the last one permits.
        let (mut second, mut third) = (origin.accept_http2(3).await, origin.accept_http2(3).await);
        let others = [second.request().await, second.request().await, third.request().await];
        assert_eq!((world.connect_count(1), world.in_flight()), (3, 5));
        one.answer("ok");
        two.answer("ok");
        for stream in others {
            stream.answer("ok");
        }
        for client in &mut clients {
            assert_eq!(answer(client).await, (200, "ok".into()));
        }
        // The first one has room for the next.
        clients[0].send(GET).await;
        first.request().await.answer("again");
        assert_eq!(answer(&mut clients[0]).await, (200, "again".into()));
        assert_eq!((world.log().await.len(), world.connect_count(1)), (6, 3));
        assert_eq!(world.pool().endpoints[0].idle.now(), 3);
    });
}

#[test]
fn a_limit_of_one_is_a_connection_for_each_request_in_flight() {
    play(&pool(SERVER), async |world| {
        let origin = world.origin(1);
        let mut clients = begin(world, &[GET; 3]).await;
        for _ in 0..3 {
            let mut upstream = origin.accept_http2(1).await;
            let stream = upstream.request().await;
            upstream.expect_no_request().await;
            stream.answer("ok");
        }
        for client in &mut clients {
            assert_eq!(answer(client).await.0, 200);
        }
        assert_eq!(world.log().await.len(), 3);
    });
}

#[test]
fn max_conn_counts_streams() {
    let one = "server 10.0.1.1:80 http=2 max_conn=2; queue timeout=5s;";
    play(&pool(one), async |world| {
        let origin = world.origin(1);
        let mut clients = begin(world, &[GET; 3]).await;
        let mut upstream = origin.accept_http2(100).await;
        let (one, two) = (upstream.request().await, upstream.request().await);
        upstream.expect_no_request().await;
        assert_eq!((world.in_flight(), world.waiting()), (2, 1));
        one.answer("one");
        upstream.request().await.answer("three");
        two.answer("two");
        for client in &mut clients {
            assert_eq!(answer(client).await.0, 200);
        }
        assert_eq!(world.log().await.len(), 3);
    });
}

#[test]
fn a_body_that_arrives_while_its_request_waits_is_sent_whole() {
    let one = "server 10.0.1.1:80 max_conn=1; queue timeout=60s;";
    play(&pool(one), async |world| {
        let origin = world.origin(1);
        let mut clients = begin(world, &[GET]).await;
        let mut waiting = Http2Peer::connect(world).await;
        waiting.request(1, &POST, 0).await;
        pass(10).await;
        waiting.send(DATA, 0, 1, b"bo").await;
        pass(10).await;
        waiting.send(DATA, 0, 1, b"dy").await;
        waiting.send(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[("x-in", "2")])).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send(OK).await;
        assert_eq!(answer(&mut clients[0]).await.1, "ok");
        let message = upstream.message().await;
        assert_eq!((message.text(), message.trailers.len()), ("body", 1));
        upstream.send(OK).await;
        assert_eq!(waiting.response(1).await, (200, "ok".into()));
        assert_eq!(world.log().await.len(), 2);
    });
}

#[test]
fn a_body_that_is_empty_ends_while_its_request_waits() {
    for server in ["server 10.0.1.1:80 max_conn=1;", "server 10.0.1.1:80 max_conn=1 http=2;"] {
        play(&pool(&format!("{server} queue timeout=60s;")), async |world| {
            let origin = world.origin(1);
            let mut first = Http2Peer::connect(world).await;
            first.get(1).await;
            let mut waiting = Http2Peer::connect(world).await;
            waiting.request(1, &POST, 0).await;
            pass(10).await;
            waiting.send(DATA, END_STREAM, 1, b"").await;
            pass(10).await;
            if server.contains("http=2") {
                let mut upstream = origin.accept_http2(100).await;
                upstream.request().await.answer("ok");
                assert_eq!(first.response(1).await.1, "ok");
                let mut stream = upstream.request().await;
                assert_eq!(stream.body().await.0, "");
                stream.answer("ok");
            } else {
                let mut upstream = origin.accept().await;
                upstream.message().await;
                upstream.send(OK).await;
                assert_eq!(first.response(1).await.1, "ok");
                assert_eq!(upstream.message().await.text(), "");
                upstream.send(OK).await;
            }
            assert_eq!(waiting.response(1).await, (200, "ok".into()));
            assert_eq!(world.log().await.len(), 2);
        });
    }
}

#[test]
fn a_slot_is_free_when_the_response_was_read_though_its_client_reads_slowly() {
    let one = "server 10.0.1.1:80 http=2 max_conn=1; queue timeout=60s;";
    play(&pool(one), async |world| {
        let origin = world.origin(1);
        let mut slow = Http2Peer::with(world, &[(4, 0)]).await;
        slow.get(1).await;
        let mut upstream = origin.accept_http2(100).await;
        let mut stream = upstream.request().await;
        let mut body = stream.begin(200, &[("content-length", "8")]);
        body.send("slow");
        let mut clients = begin(world, &[GET]).await;
        upstream.expect_no_request().await;
        body.finish("body");
        // The window of the first client is still closed.
        upstream.request().await.answer("ok");
        assert_eq!(answer(&mut clients[0]).await.1, "ok");
        slow.send(8, 0, 1, &100_u32.to_be_bytes()).await;
        assert_eq!(slow.response(1).await, (200, "slowbody".into()));
        assert_eq!(world.log().await.len(), 2);
    });
}

#[test]
fn a_stalled_stream_holds_no_other_up_and_its_bytes_are_bounded() {
    play(&pool(SERVER), async |world| {
        let origin = world.origin(1);
        let mut stalled = Http2Peer::with(world, &[(4, 0)]).await;
        stalled.get(1).await;
        let mut upstream = origin.accept_http2(100).await;
        let mut stream = upstream.request().await;
        let mut body = stream.begin(200, &[]);
        // The window of the stream, and what waits for the client here.
        let sent = body.send_what_fits().await;
        assert!((64 * 1024..=224 * 1024).contains(&sent), "{sent}");
        let mut clients = begin(world, &[GET]).await;
        upstream.request().await.answer("ok");
        assert_eq!(answer(&mut clients[0]).await.1, "ok");
        stalled.send(RST_STREAM, 0, 1, &CANCEL.to_be_bytes()).await;
        assert_eq!(body.reset_by_client().await, Reason::CANCEL);
        assert_eq!(world.log().await.len(), 2);
    });
}

#[test]
fn small_messages_that_wait_for_slow_clients_do_not_end_the_connection_of_others() {
    play(&pool(SERVER), async |world| {
        let origin = world.origin(1);
        let mut slow = Http2Peer::with(world, &[(4, 0)]).await;
        let mut upstream = None;
        let mut bodies = Vec::new();
        for number in 0..8 {
            slow.get(2 * number + 1).await;
            if upstream.is_none() {
                upstream = Some(origin.accept_http2(100).await);
            }
            let mut stream = upstream.as_mut().unwrap().request().await;
            let mut body = stream.begin(200, &[]);
            body.send_messages(b"event").await;
            bodies.push(body);
        }
        // The others of the connection go on, and the messages come when they are wanted.
        let mut clients = begin(world, &[GET]).await;
        upstream.as_mut().unwrap().request().await.answer("ok");
        assert_eq!(answer(&mut clients[0]).await.1, "ok");
        let heads = slow.frame().await;
        assert_eq!(heads.status(), 200);
        slow.send(WINDOW_UPDATE, 0, 1, &(1_u32 << 20).to_be_bytes()).await;
        slow.send(WINDOW_UPDATE, 0, 0, &(1_u32 << 20).to_be_bytes()).await;
        let mut text = Vec::new();
        while text.len() < 50_000 {
            let frame = slow.frame().await;
            if frame.kind == DATA {
                assert_eq!(frame.stream, 1);
                text.extend_from_slice(&frame.payload);
            }
        }
        assert!(text.chunks_exact(5).all(|message| message == b"event"));
        assert_eq!(world.connect_count(1), 1);
        drop((bodies, slow));
        assert_eq!(world.log().await.len(), 9);
    });
}

#[test]
fn a_client_that_leaves_resets_its_stream_alone() {
    play(&pool(SERVER), async |world| {
        let origin = world.origin(1);
        let mut clients = begin(world, &[GET; 2]).await;
        let mut upstream = origin.accept_http2(100).await;
        let (first, second) = (upstream.request().await, upstream.request().await);
        clients.remove(0).reset();
        assert_eq!(first.reset().await, Reason::CANCEL);
        world.expect_logged("client_gone", Some(499)).await;
        second.answer("ok");
        assert_eq!(answer(&mut clients[0]).await.1, "ok");
        world.expect_logged("complete", Some(200)).await;
    });
}

#[test]
fn a_response_that_breaks_off_is_never_taken_for_the_whole() {
    play(&pool(SERVER), async |world| {
        let origin = world.origin(1);
        let mut clients = begin(world, &[GET; 2]).await;
        let mut other = Http2Peer::connect(world).await;
        other.get(1).await;
        let mut upstream = origin.accept_http2(100).await;
        for fields in [&[][..], &[("content-length", "9")]] {
            let mut stream = upstream.request().await;
            let mut body = stream.begin(200, fields);
            body.send("half");
            pass(10).await;
            body.reset(Reason::NO_ERROR);
        }
        let mut stream = upstream.request().await;
        let mut body = stream.begin(200, &[]);
        body.send("half");
        pass(10).await;
        body.reset(Reason::INTERNAL_ERROR);
        for client in &mut clients {
            let (bytes, end) = client.rest().await;
            let text = String::from_utf8(bytes).unwrap();
            assert!(text.contains("half") && !text.ends_with("0\r\n\r\n"), "{text}");
            assert!(matches!(end, End::Closed | End::Reset), "{end:?}");
        }
        assert_eq!(other.frame().await.status(), 200);
        assert_eq!(other.frame().await.payload, b"half");
        assert_eq!(other.frame().await.code(), INTERNAL_ERROR);
        for line in world.log().await {
            assert_eq!(line.text("cause"), "upstream_aborted");
        }
    });
}

#[test]
fn a_response_that_is_none_of_http2_is_refused() {
    play(&pool(SERVER), async |world| {
        let origin = world.origin(1);
        for fields in [
            &[(":status", "101")][..],
            &[(":status", "200"), ("connection", "close")],
            &[(":status", "200"), ("X-Big", "1")],
            &[(":status", "200"), ("a", "b\r\nc: d")],
            &[(":status", "200"), ("content-length", "1"), ("content-length", "2")],
            &[("a", "b")],
        ] {
            let mut client = world.client().await;
            client.send(GET).await;
            let mut upstream = origin.accept_frames(&[]).await;
            let request = upstream.frame().await;
            assert_eq!(request.kind, HEADERS);
            upstream.send(HEADERS, END_HEADERS | END_STREAM, 1, &block(fields)).await;
            assert_eq!(answer(&mut client).await.0, 502, "{fields:?}");
            // For `h2` some of these are errors of the connection.
            let cause = world.log_line().await.text("cause");
            assert!(["bad_response", "upstream_reset"].contains(&cause.as_str()), "{cause}");
            drop(upstream.peer);
        }
    });
}

#[test]
fn requests_above_the_last_stream_of_a_goaway_are_repeated_whatever_they_are() {
    play(&pool(SERVER), async |world| {
        let origin = world.origin(1);
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
        let mut clients = begin(world, &[GET, post]).await;
        let mut third = Http2Peer::connect(world).await;
        third.request(1, &POST, 0).await;
        third.send(DATA, END_STREAM, 1, b"more").await;
        let mut old = origin.accept_frames(&[]).await;
        let mut heads = 0;
        while heads < 3 {
            heads += usize::from(old.frame().await.kind == HEADERS);
        }
        pass(10).await;
        old.send(GOAWAY, 0, 0, &[1_u32.to_be_bytes(), 0_u32.to_be_bytes()].concat()).await;
        let mut new = origin.accept_http2(100).await;
        for expected in ["body", "more"] {
            let mut stream = new.request().await;
            assert_eq!(stream.body().await.0, expected);
            stream.answer("new");
        }
        // The one below finishes on the old connection, which then ends.
        old.send(HEADERS, END_HEADERS, 1, &block(&[(":status", "200")])).await;
        old.send(DATA, END_STREAM, 1, b"old").await;
        assert_eq!(answer(&mut clients[0]).await, (200, "old".into()));
        assert_eq!(answer(&mut clients[1]).await, (200, "new".into()));
        assert_eq!(third.response(1).await, (200, "new".into()));
        assert_eq!(old.peer.rest().await.1, End::Closed);
        let attempts = world.log().await;
        let attempts = attempts.iter().filter_map(|line| line.number("attempts"));
        assert_eq!(attempts.sum::<u64>(), 5);
    });
}

#[test]
fn a_goaway_between_requests_costs_none() {
    play(&pool(SERVER), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        for number in 0..3 {
            client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").await;
            let mut upstream = origin.accept_http2(100).await;
            upstream.request().await.answer("ok");
            assert_eq!(answer(&mut client).await.0, 200, "{number}");
            upstream.leave();
            upstream.expect_end().await;
        }
        assert_eq!(world.log().await.len(), 3);
    });
}

#[test]
fn a_refused_stream_is_repeated_whatever_it_is_but_not_for_ever() {
    play(&pool(SERVER), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.request(1, &POST, 0).await;
        client.send(DATA, END_STREAM, 1, b"body").await;
        let mut upstream = origin.accept_http2(100).await;
        for _ in 0..2 {
            let mut stream = upstream.request().await;
            assert_eq!(stream.body().await.0, "body");
            stream.refuse(Reason::REFUSED_STREAM);
        }
        let mut stream = upstream.request().await;
        assert_eq!(stream.body().await.0, "body");
        stream.answer("ok");
        assert_eq!(client.response(1).await, (200, "ok".into()));
        world.log_line().await;
        client.request(3, &POST, END_STREAM).await;
        for _ in 0..3 {
            upstream.request().await.refuse(Reason::REFUSED_STREAM);
        }
        assert_eq!(client.response(3).await.0, 502);
        world.expect_logged("upstream_reset", Some(502)).await;
    });
}

#[test]
fn a_refused_stream_goes_to_another_server_in_the_end() {
    play(&pool(&format!("{TWO} retry 1;")), async |world| {
        let (first, second) = (world.origin(1), world.origin(2));
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
        let mut clients = begin(world, &[post]).await;
        let mut upstream = first.accept_http2(100).await;
        for _ in 0..3 {
            upstream.request().await.refuse(Reason::REFUSED_STREAM);
        }
        let mut upstream = second.accept_http2(100).await;
        let mut stream = upstream.request().await;
        assert_eq!(stream.body().await.0, "body");
        stream.answer("ok");
        assert_eq!(answer(&mut clients[0]).await.1, "ok");
        world.log_line().await;
    });
}

#[test]
fn a_server_that_refuses_all_streams_is_ejected() {
    let passive = "passive errors=2 eject=1h;";
    play(&pool(&format!("{TWO} balance first; retry off; {passive}")), async |world| {
        let (first, second) = (world.origin(1), world.origin(2));
        let mut client = Http2Peer::connect(world).await;
        let mut refusing = None;
        for stream in [1, 3] {
            client.get(stream).await;
            if refusing.is_none() {
                refusing = Some(first.accept_http2(100).await);
            }
            let upstream = refusing.as_mut().unwrap();
            for _ in 0..3 {
                upstream.request().await.refuse(Reason::REFUSED_STREAM);
            }
            assert_eq!(client.response(stream).await.0, 502);
        }
        client.get(5).await;
        let mut upstream = second.accept_http2(100).await;
        upstream.request().await.answer("ok");
        assert_eq!(client.response(5).await, (200, "ok".into()));
        assert_eq!(world.log().await.len(), 3);
    });
}

#[test]
fn a_body_that_is_not_kept_any_more_is_not_repeated() {
    play(&pool(SERVER), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.request(1, &POST, 0).await;
        let mut upstream = origin.accept_http2(100).await;
        let mut stream = upstream.request().await;
        for _ in 0..5 {
            client.send(DATA, 0, 1, &[b'x'; 16_384]).await;
            let mut read = 0;
            while read < 16_384 {
                read += stream.data().await.unwrap().len();
            }
        }
        stream.refuse(Reason::REFUSED_STREAM);
        assert_eq!(client.response(1).await.0, 502);
        upstream.expect_no_request().await;
        world.expect_logged("upstream_reset", Some(502)).await;
    });
}

#[test]
fn a_reset_of_the_server_is_no_refusal() {
    play(&pool(SERVER), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.request(1, &POST, END_STREAM).await;
        let mut upstream = origin.accept_http2(100).await;
        upstream.request().await.refuse(Reason::INTERNAL_ERROR);
        assert_eq!(client.response(1).await.0, 502);
        upstream.expect_no_request().await;
        world.expect_logged("upstream_reset", Some(502)).await;
    });
}

#[test]
fn a_server_that_is_gone_is_found_by_a_ping() {
    play(&pool(&format!("{SERVER} timeout response=1h;")), async |world| {
        let origin = world.origin(1);
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
        let mut clients = begin(world, &[GET, post, GET]).await;
        let mut upstream = origin.accept_http2(100).await;
        let streams =
            [upstream.request().await, upstream.request().await, upstream.request().await];
        upstream.vanish();
        let start = Instant::now();
        // A GET on a connection that others have used is repeated on another one.
        let mut next = origin.accept_http2(100).await;
        next.request().await.answer("repeated");
        assert_eq!(start.elapsed().as_secs(), 15);
        assert_eq!(answer(&mut clients[0]).await.0, 502);
        assert_eq!(answer(&mut clients[1]).await.0, 502);
        assert_eq!(answer(&mut clients[2]).await.1, "repeated");
        let causes = world.log().await;
        let causes = causes.iter().map(|line| line.text("cause"));
        assert_eq!(causes.filter(|cause| cause == "upstream_reset").count(), 2);
        drop(streams);
        // The next request has another connection.
        clients[0].send(GET).await;
        next.request().await.answer("ok");
        assert_eq!(answer(&mut clients[0]).await.1, "ok");
        world.log_line().await;
    });
}

#[test]
fn a_server_that_is_only_slow_is_asked_once_in_a_silence() {
    play(&pool(&format!("{SERVER} timeout response=1h;")), async |world| {
        let origin = world.origin(1);
        let mut clients = begin(world, &[GET]).await;
        let mut upstream = origin.accept_frames(&[]).await;
        assert_eq!(upstream.frame().await.kind, HEADERS);
        let start = Instant::now();
        for (silence, expected) in [(9, 10), (355, 370)] {
            upstream.peer.expect_silence(Duration::from_secs(silence)).await;
            let ping = upstream.any_frame().await;
            assert_eq!((ping.kind, ping.flags), (PING, 0), "{ping:?}");
            assert_eq!(start.elapsed().as_secs(), expected);
            upstream.send(PING, ACK, 0, &ping.payload).await;
        }
        upstream.send(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[(":status", "204")])).await;
        assert_eq!(answer(&mut clients[0]).await.0, 204);
        world.log_line().await;
    });
}

#[test]
fn an_idle_connection_ends_at_its_time() {
    play(&pool(&format!("{SERVER} keepalive timeout=20s;")), async |world| {
        let origin = world.origin(1);
        let mut clients = begin(world, &[GET]).await;
        let mut upstream = origin.accept_http2(100).await;
        upstream.request().await.answer("ok");
        answer(&mut clients[0]).await;
        let start = Instant::now();
        upstream.expect_end().await;
        assert_eq!(start.elapsed().as_secs(), 20);
        assert_eq!(world.pool().endpoints[0].idle.now(), 0);
        world.log_line().await;
    });
}

#[test]
fn the_limits_of_keepalive_hold_for_connections_of_http2() {
    let limits = "keepalive max_requests=2;";
    play(&pool(&format!("{SERVER} {limits}")), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        for _ in 0..2 {
            client.send(GET).await;
            let mut upstream = origin.accept_http2(100).await;
            upstream.request().await.answer("ok");
            answer(&mut client).await;
            client.send(GET).await;
            upstream.request().await.answer("ok");
            answer(&mut client).await;
        }
        assert_eq!((world.log().await.len(), world.connect_count(1)), (4, 2));
    });
    play(&pool(&format!("{SERVER} keepalive off;")), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        for _ in 0..2 {
            client.send(GET).await;
            let mut upstream = origin.accept_http2(100).await;
            upstream.request().await.answer("ok");
            answer(&mut client).await;
            upstream.expect_end().await;
        }
        assert_eq!((world.log().await.len(), world.connect_count(1)), (2, 2));
    });
}

#[test]
fn requests_that_wait_for_a_connection_are_served_where_each_takes_one_request() {
    play(&pool(&format!("{SERVER} keepalive max_requests=1;")), async |world| {
        let origin = world.origin(1);
        let mut clients = begin(world, &[GET; 6]).await;
        let mut open = Vec::new();
        for _ in 0..6 {
            let mut upstream = origin.accept_http2(100).await;
            upstream.request().await.answer("ok");
            open.push(upstream);
        }
        for client in &mut clients {
            assert_eq!(answer(client).await, (200, "ok".to_owned()));
        }
        assert_eq!((world.log().await.len(), world.connect_count(1)), (6, 6));
    });
}

#[test]
fn a_reload_that_removes_a_server_lets_its_streams_finish() {
    let after = "server 10.0.1.2:80 http=2;";
    play(&pool(SERVER), async |world| {
        let (first, second) = (world.origin(1), world.origin(2));
        let mut clients = begin(world, &[GET; 2]).await;
        let mut old = first.accept_http2(100).await;
        let (one, two) = (old.request().await, old.request().await);
        one.answer("first");
        assert_eq!(answer(&mut clients[0]).await.1, "first");
        world.reload(&pool(after)).await;
        clients[0].send(GET).await;
        let mut new = second.accept_http2(100).await;
        new.request().await.answer("second");
        assert_eq!(answer(&mut clients[0]).await.1, "second");
        two.answer("first");
        assert_eq!(answer(&mut clients[1]).await.1, "first");
        old.expect_end().await;
        assert_eq!(world.log().await.len(), 3);
    });
}

#[test]
fn a_reload_of_the_version_changes_the_next_requests_connection() {
    play(&pool(SERVER), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(GET).await;
        let mut upstream = origin.accept_http2(100).await;
        upstream.request().await.answer("ok");
        assert_eq!(answer(&mut client).await.1, "ok");
        world.reload(&pool("server 10.0.1.1:80;")).await;
        upstream.expect_end().await;
        client.send(GET).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send(OK).await;
        assert_eq!(answer(&mut client).await.1, "ok");
        assert_eq!(world.log().await.len(), 2);
    });
}

#[test]
fn a_server_that_speaks_http1_only_is_a_failed_connect() {
    play(&pool(&format!("{TWO} retry 1;")), async |world| {
        let (first, second) = (world.origin(1), world.origin(2));
        let mut clients = begin(world, &[GET]).await;
        let mut wrong = first.accept().await;
        wrong.exactly(24).await;
        wrong.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
        let mut upstream = second.accept_http2(100).await;
        upstream.request().await.answer("ok");
        assert_eq!(answer(&mut clients[0]).await.1, "ok");
        let line = world.log_line().await;
        assert_eq!(line.list("failed_attempts"), "one=connect_failed");
    });
}

#[test]
fn a_server_without_settings_is_a_connect_that_took_too_long() {
    play(&pool(&format!("{SERVER} timeout connect=3s; retry off;")), async |world| {
        let origin = world.origin(1);
        let start = Instant::now();
        let mut clients = begin(world, &[GET; 2]).await;
        let silent = origin.accept().await;
        for client in &mut clients {
            assert_eq!(answer(client).await.0, 504);
        }
        assert_eq!((start.elapsed().as_secs(), world.connect_count(1)), (3, 1));
        drop(silent);
        for line in world.log().await {
            assert_eq!(line.text("cause"), "connect_timeout");
        }
    });
}

#[test]
fn a_connection_that_ended_while_it_was_idle_costs_no_request() {
    play(&pool(SERVER), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(GET).await;
        let mut upstream = origin.accept_frames(&[]).await;
        assert_eq!(upstream.frame().await.kind, HEADERS);
        upstream.send(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[(":status", "204")])).await;
        assert_eq!(answer(&mut client).await.0, 204);
        // The second request crosses the end of the connection.
        client.send(GET).await;
        assert_eq!(upstream.frame().await.kind, HEADERS);
        upstream.peer.reset();
        let mut upstream = origin.accept_http2(100).await;
        upstream.request().await.answer("ok");
        assert_eq!(answer(&mut client).await, (200, "ok".into()));
        assert_eq!(world.log().await.len(), 2);
    });
}

#[test]
fn idle_connections_of_http1_are_used_while_their_server_is_asked_for_its_version_again() {
    let auto = "http_version auto; server 10.0.1.1:80; tls verify=off name=a;";
    play(&pool(&format!("{auto} keepalive timeout=10m;")), async |world| {
        let (origin, own) = (world.origin(1), certify(world));
        let mut clients = begin(world, &[GET]).await;
        let mut first = TlsPeer::server_of(origin.accept().await, &own, &["http/1.1"]).await;
        first.head().await;
        first.send(OK).await;
        assert_eq!(answer(&mut clients[0]).await.1, "ok");
        // A minute later it is asked again, with the next connection that has to be opened.
        pass(61_000).await;
        clients[0].send(GET).await;
        first.head().await;
        clients.extend(begin(world, &[GET]).await);
        let asked = origin.accept().await;
        // Nothing waits for its answer.
        clients.extend(begin(world, &[GET]).await);
        let mut third = TlsPeer::server_of(origin.accept().await, &own, &["http/1.1"]).await;
        third.head().await;
        third.send(OK).await;
        first.send(OK).await;
        assert_eq!(answer(&mut clients[2]).await.1, "ok");
        assert_eq!(answer(&mut clients[0]).await.1, "ok");
        // It has HTTP/2 by now, and so have all later requests.
        let asked = TlsPeer::server_of(asked, &own, &["h2"]).await;
        let mut upstream = Http2Connection::serve(asked.into_stream(), 100, WebSockets::Taken);
        upstream.request().await.answer("two");
        assert_eq!(answer(&mut clients[1]).await.1, "two");
        clients[0].send(GET).await;
        upstream.request().await.answer("two");
        assert_eq!(answer(&mut clients[0]).await.1, "two");
        assert_eq!((world.log().await.len(), world.connect_count(1)), (5, 3));
    });
}

#[test]
fn a_stop_lets_streams_finish() {
    play(&pool(SERVER), async |world| {
        let origin = world.origin(1);
        let mut clients = begin(world, &[GET]).await;
        let mut upstream = origin.accept_http2(100).await;
        let stream = upstream.request().await;
        world.drain(Duration::from_secs(30));
        pass(1_000).await;
        stream.answer("ok");
        assert_eq!(answer(&mut clients[0]).await.1, "ok");
        world.expect_stopped(Duration::from_secs(5)).await;
        upstream.expect_end().await;
        world.log_line().await;
    });
}

#[test]
fn a_grpc_response_that_is_its_head_stays_that() {
    play(&http2(""), async |_| {});
    play(&pool(SERVER), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.request(1, &POST, END_STREAM).await;
        let mut upstream = origin.accept_http2(100).await;
        let stream: OriginStream = upstream.request().await;
        stream.end(200, &[("content-type", "application/grpc"), ("grpc-status", "5")]);
        let head = client.frame().await;
        assert!(head.ends_stream() && head.status() == 200, "{head:?}");
        world.log_line().await;
    });
}
