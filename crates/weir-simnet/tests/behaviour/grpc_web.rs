//! Calls of gRPC-Web, from clients of HTTP/1.1 and of HTTP/2, which servers get as calls of gRPC.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::http2_peer::{DATA, HEADERS, Http2Peer, POST};
use crate::peer::Peer;
use crate::world::{World, app, play};

const ONE: &str = "server 10.0.1.1:80;";
/// The message of a request, and that of a response.
const ASKED: &[u8] = b"\x00\x00\x00\x00\x03ask";
const TOLD: &[u8] = b"\x00\x00\x00\x00\x04told";
/// A response of gRPC, and the frame of its trailers.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc+proto\r\n\
    Transfer-Encoding: chunked\r\n\r\n9\r\n\x00\x00\x00\x00\x04told\r\n0\r\ngrpc-status: 0\r\n\r\n";
const END: &[u8] = b"\x80\x00\x00\x00\x10grpc-status: 0\r\n";

/// A listener that converts calls.
fn web(pool: &str) -> String {
    app(pool, "http2 on; grpc web;")
}

/// A request of HTTP/1.1 with this type and body, which comes in pieces.
async fn post(client: &mut Peer, kind: &str, pieces: &[&[u8]]) {
    let length: usize = pieces.iter().map(|piece| piece.len()).sum();
    client
        .send(format!(
            "POST /shop.v1.Cart/Add HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\n\
             Content-Length: {length}\r\nX-Grpc-Web: 1\r\n\r\n"
        ))
        .await;
    for piece in pieces {
        client.send(piece).await;
    }
}

/// Checks the status of the call in the log.
async fn expect_status(world: &World, status: u8) {
    let call = world.log_line().await.object("grpc").to_owned();
    assert!(call.ends_with(&format!("\"method\":\"Add\",\"status\":{status}}}")), "{call}");
}

#[test]
fn the_trailers_are_the_last_frame_of_a_response() {
    play(&web(ONE), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        post(&mut client, "application/grpc-web+proto", &[ASKED]).await;
        let mut upstream = origin.accept().await;
        for _ in 0..2 {
            let request = upstream.message().await;
            assert_eq!(request.all("content-type"), ["application/grpc+proto"]);
            assert_eq!(request.header("content-length"), Some("8"));
            assert_eq!(request.body, ASKED);
            upstream.send(ANSWER).await;
            let head = client.head().await;
            assert_eq!((head.status(), head.header("transfer-encoding")), (200, Some("chunked")));
            assert_eq!(head.all("content-type"), ["application/grpc-web+proto"]);
            let body = [b"9\r\n", TOLD, b"\r\n15\r\n", END, b"\r\n0\r\n\r\n"].concat();
            assert_eq!(client.exactly(body.len()).await, body);
            expect_status(world, 0).await;
            post(&mut client, "application/grpc-web+proto", &[ASKED]).await;
        }
    });
}

#[test]
fn text_is_decoded_for_the_server_and_encoded_for_the_client() {
    play(&web(ONE), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        let (begin, end) = ASKED.split_at(4);
        let text = [STANDARD.encode(begin), STANDARD.encode(end)].concat();
        let (first, second) = text.as_bytes().split_at(5);
        post(&mut client, "application/grpc-web-text", &[first, second]).await;
        let mut upstream = origin.accept().await;
        let request = upstream.message().await;
        assert_eq!(request.header("content-type"), Some("application/grpc"));
        assert_eq!(request.header("content-length"), None);
        assert_eq!(request.body, ASKED);
        upstream.send(ANSWER).await;
        let response = client.message().await;
        assert_eq!(response.header("content-type"), Some("application/grpc-web-text+proto"));
        let whole = [STANDARD.encode(TOLD), STANDARD.encode(END)].concat();
        assert_eq!(response.text(), whole);
        expect_status(world, 0).await;
        for wrong in ["AAAAA", "AA*A"] {
            post(&mut client, "application/grpc-web-text", &[wrong.as_bytes()]).await;
            let response = client.message().await;
            assert_eq!(response.header("content-type"), Some("application/grpc-web-text"));
            assert_eq!(response.header("grpc-status"), Some("13"));
            assert_eq!(world.log_line().await.text("cause"), "bad_request_body");
            client = world.client().await;
        }
    });
}

/// Reads the frames of a response; returns its head's flags, and its body.
async fn frames(client: &mut Http2Peer) -> (bool, Vec<u8>) {
    let head = client.frame().await;
    assert_eq!((head.kind, head.status()), (HEADERS, 200));
    let (mut body, mut ended) = (Vec::new(), head.ends_stream());
    let is_whole = ended;
    while !ended {
        let frame = client.frame().await;
        assert_eq!(frame.kind, DATA, "the trailers are in the body");
        ended = frame.ends_stream();
        body.extend_from_slice(&frame.payload);
    }
    (is_whole, body)
}

#[test]
fn calls_over_http2_have_the_same_forms() {
    play(&web(ONE), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        let mut kept = None;
        let text = STANDARD.encode(ASKED).into_bytes();
        let told = [STANDARD.encode(TOLD), STANDARD.encode(END)].concat().into_bytes();
        for (stream, kind, asked, expected) in [
            (1, "application/grpc-web", ASKED, [TOLD, END].concat()),
            (3, "application/grpc-web-text", text.as_slice(), told),
        ] {
            let mut fields = POST.to_vec();
            fields[2].1 = "/shop.v1.Cart/Add";
            fields.push(("content-type", kind));
            client.request(stream, &fields, 0).await;
            let upstream = match &mut kept {
                Some(upstream) => upstream,
                None => kept.insert(origin.accept().await),
            };
            client.send(DATA, crate::http2_peer::END_STREAM, stream, asked).await;
            assert_eq!(upstream.message().await.body, ASKED);
            upstream.send(ANSWER).await;
            assert_eq!(frames(&mut client).await, (false, expected));
            expect_status(world, 0).await;
        }
    });
}

#[test]
fn a_response_that_is_only_a_head_stays_one() {
    play(&web(&format!("{ONE} retry off;")), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        post(&mut client, "application/grpc-web", &[ASKED]).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream
            .send(
                "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\n\
                 grpc-status: 5\r\n\r\n",
            )
            .await;
        let response = client.message().await;
        assert_eq!(response.header("content-type"), Some("application/grpc-web"));
        assert_eq!(response.header("grpc-status"), Some("5"));
        assert_eq!(response.text(), "");
        expect_status(world, 5).await;
        // A response that is none of gRPC passes as it is.
        post(&mut client, "application/grpc-web", &[ASKED]).await;
        upstream.message().await;
        upstream
            .send(
                "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nno",
            )
            .await;
        let response = client.message().await;
        assert_eq!((response.status(), response.text()), (404, "no"));
        assert_eq!(response.header("content-type"), Some("text/html"));
        world.log_line().await;
        // A failure of our own is a response of gRPC-Web.
        post(&mut client, "application/grpc-web", &[ASKED]).await;
        upstream.message().await;
        upstream.reset();
        let response = client.message().await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.header("content-type"), Some("application/grpc-web"));
        assert_eq!(response.header("grpc-status"), Some("14"));
    });
}

#[test]
fn a_call_is_repeated_with_its_decoded_message() {
    let two = "server 10.0.1.1:80 name=one; server 10.0.1.2:80 name=two; balance first; \
               retry 1 on=grpc-unavailable;";
    play(&web(two), async |world| {
        let (one, other) = (world.origin(1), world.origin(2));
        let mut client = world.client().await;
        let text = STANDARD.encode(ASKED);
        post(&mut client, "application/grpc-web-text", &[text.as_bytes()]).await;
        let mut first = one.accept().await;
        assert_eq!(first.message().await.body, ASKED);
        first
            .send(
                "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\n\
                 grpc-status: 14\r\n\r\n",
            )
            .await;
        let mut second = other.accept().await;
        assert_eq!(second.message().await.body, ASKED);
        second.send(ANSWER).await;
        let response = client.message().await;
        assert_eq!(response.text(), [STANDARD.encode(TOLD), STANDARD.encode(END)].concat());
        expect_status(world, 0).await;
    });
}

#[test]
fn a_stream_of_messages_arrives_one_by_one() {
    play(&web(ONE), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        post(&mut client, "application/grpc-web-text", &[STANDARD.encode(ASKED).as_bytes()]).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream
            .send(
                "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\n\
                 Transfer-Encoding: chunked\r\n\r\n",
            )
            .await;
        client.head().await;
        for _ in 0..3 {
            upstream.send([b"9\r\n", TOLD, b"\r\n"].concat()).await;
            assert_eq!(client.chunk().await, Some(STANDARD.encode(TOLD)));
        }
        upstream.send("0\r\ngrpc-status: 0\r\n\r\n").await;
        assert_eq!(client.chunk().await, Some(STANDARD.encode(END)));
        assert_eq!(client.chunk().await, None);
    });
}

#[test]
fn calls_pass_as_they_are_where_they_are_not_converted() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        post(&mut client, "application/grpc-web-text", &[b"AAAA"]).await;
        let mut upstream = origin.accept().await;
        let request = upstream.message().await;
        assert_eq!(request.header("content-type"), Some("application/grpc-web-text"));
        assert_eq!(request.text(), "AAAA");
    });
}

/// The bytes of a page behind a head that ends the response would be read as the next one.
#[test]
fn a_failure_has_no_page_however_the_page_is_sent() {
    for limit in ["", "limit bandwidth down=100k;"] {
        let listener = format!(
            "http2 on; grpc web; error_page 502 -> internal /page;
             route path /page -> files / {{ rewrite path /etc/passwd; {limit} }}"
        );
        play(&app("server 10.0.1.1:80; retry off;", &listener), async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            for _ in 0..2 {
                post(&mut client, "application/grpc-web", &[ASKED]).await;
                let mut upstream = origin.accept().await;
                upstream.message().await;
                upstream.reset();
                let response = client.message().await;
                assert_eq!((response.status(), response.text()), (200, ""), "{limit}");
                assert_eq!(response.header("grpc-status"), Some("14"));
            }
            client.expect_silence(std::time::Duration::from_secs(1)).await;
        });
    }
}

#[test]
fn much_framing_around_a_part_of_a_group_is_no_fault() {
    play(&web(ONE), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        let extension = "e".repeat(900);
        let text = STANDARD.encode(ASKED);
        let chunks = text.chars().map(|letter| format!("1;{extension}\r\n{letter}\r\n"));
        let body = chunks.collect::<Vec<_>>().concat();
        client
            .send(format!(
                "POST /shop.v1.Cart/Add HTTP/1.1\r\nHost: a\r\n\
                 Content-Type: application/grpc-web-text\r\n\
                 Transfer-Encoding: chunked\r\n\r\n{body}0\r\n\r\n"
            ))
            .await;
        let mut upstream = origin.accept().await;
        assert_eq!(upstream.message().await.body, ASKED);
    });
}
