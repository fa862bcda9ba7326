//! Calls of gRPC from clients of HTTP/2: their status in logs, retries and ejections, their
//! deadline, and failures of Weir's own.

use tokio::time::Instant;

use crate::http2_peer::{DATA, END_STREAM, HEADERS, Http2Peer, POST, RST_STREAM};
use crate::origin::Origin;
use crate::peer::Peer;
use crate::world::{Connects, World, app, play};

const ONE: &str = "server 10.0.1.1:80;";
const TWO: &str = "server 10.0.1.1:80 name=one; server 10.0.1.2:80 name=two;";

/// A response whose head ends a call with this status.
fn ended(status: u8) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\n\
         grpc-status: {status}\r\n\r\n"
    )
}

/// A response with one message, whose trailers end a call with this status.
fn answered(status: u8) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n\
         5\r\n\0\0\0\0\0\r\n0\r\ngrpc-status: {status}\r\ngrpc-message: no\r\n\r\n"
    )
}

/// A configuration with this pool and a listener with HTTP/2.
fn calls(pool: &str, listener: &str) -> String {
    app(pool, &format!("http2 on; {listener}"))
}

/// Sends a call of `shop.v1.Cart/Add` without a message, and with these headers.
async fn call(client: &mut Http2Peer, stream: u32, headers: &[(&str, &str)]) {
    let mut fields = POST;
    fields[2].1 = "/shop.v1.Cart/Add";
    let usual = [("te", "trailers"), ("content-type", "application/grpc+proto")];
    client.request(stream, &[&fields[..], &usual, headers].concat(), END_STREAM).await;
}

/// Reads a response that is one head and nothing else; returns its status.
async fn only_head(client: &mut Http2Peer) -> u16 {
    let head = client.frame().await;
    assert_eq!((head.kind, head.ends_stream()), (HEADERS, true), "{head:?}");
    head.status()
}

/// Reads the frames of [`answered`].
async fn whole(client: &mut Http2Peer) {
    while !client.frame().await.ends_stream() {}
}

async fn logged(world: &World) -> String {
    world.log_line().await.object("grpc").to_owned()
}

#[test]
fn the_status_of_a_call_is_logged_with_its_method() {
    play(&calls(ONE, ""), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        call(&mut client, 1, &[]).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send(answered(5)).await;
        whole(&mut client).await;
        let of_cart = |status: &str| {
            format!("{{\"service\":\"shop.v1.Cart\",\"method\":\"Add\",\"status\":{status}}}")
        };
        assert_eq!(logged(world).await, of_cart("5"));
        call(&mut client, 3, &[]).await;
        upstream.message().await;
        upstream.send(ended(14)).await;
        assert_eq!(only_head(&mut client).await, 200);
        assert_eq!(logged(world).await, of_cart("14"));
        // A response that breaks off tells no status.
        call(&mut client, 5, &[]).await;
        upstream.message().await;
        upstream.send(&answered(0)[..100]).await;
        drop(upstream);
        until_reset(&mut client).await;
        assert_eq!(logged(world).await, of_cart("null"));
    });
}

/// Reads frames up to a reset.
async fn until_reset(client: &mut Http2Peer) {
    while client.frame().await.kind != RST_STREAM {}
}

#[test]
fn a_failure_of_our_own_is_a_head_with_the_status_of_a_call() {
    let listener = "route path /denied -> respond 403; route path /* -> app;";
    play(&calls("server 10.0.1.1:80; retry off;", listener), async |world| {
        let mut client = Http2Peer::connect(world).await;
        world.connects(1, Some(Connects::Refused));
        for (stream, fields, status, code) in [
            (1, &[("content-type", "application/grpc")][..], 200, "14"),
            (3, &[("content-type", "application/grpc-web")], 502, ""),
            (5, &[], 502, ""),
        ] {
            let mut all = POST.to_vec();
            all[2].1 = "/shop.v1.Cart/Add";
            all.extend_from_slice(fields);
            client.request(stream, &all, END_STREAM).await;
            if code.is_empty() {
                assert_eq!(client.response(stream).await.0, status);
            } else {
                assert_eq!(only_head(&mut client).await, status);
            }
            let line = world.log_line().await;
            assert_eq!(line.number("status"), Some(u64::from(status)));
            assert_eq!(line.text("cause"), "connect_failed");
            assert_eq!(line.object("grpc").contains("\"status\":14"), !code.is_empty());
        }
        let mut denied = POST.to_vec();
        denied[2].1 = "/denied";
        denied.push(("content-type", "application/grpc"));
        client.request(7, &denied, END_STREAM).await;
        assert_eq!(only_head(&mut client).await, 200);
        world.expect_logged("local", Some(200)).await;
    });
}

#[test]
fn a_call_ends_at_the_deadline_of_its_client() {
    let one = "server 10.0.1.1:80 max_conn=1; queue timeout=60s; timeout response=60s;";
    play(&calls(one, ""), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        let began = Instant::now();
        call(&mut client, 1, &[("grpc-timeout", "2S")]).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        // It waits in the queue behind the first.
        call(&mut client, 3, &[("grpc-timeout", "500m")]).await;
        let head = client.frame().await;
        assert_eq!((head.stream, head.status(), head.ends_stream()), (3, 200, true));
        assert_eq!(began.elapsed().as_millis() / 10, 50);
        let line = world.log_line().await;
        assert_eq!(line.text("cause"), "total_timeout");
        assert!(line.object("grpc").ends_with("\"status\":4}"), "{line:?}");
        assert_eq!(world.waiting(), 0);
        let head = client.frame().await;
        assert_eq!((head.stream, head.ends_stream()), (1, true));
        assert_eq!(began.elapsed().as_secs(), 2);
        upstream.expect_end().await;
        assert!(logged(world).await.ends_with("\"status\":4}"));
    });
}

#[test]
fn a_deadline_of_our_own_that_is_earlier_holds() {
    play(&calls("server 10.0.1.1:80; timeout request=1s;", ""), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        let began = Instant::now();
        call(&mut client, 1, &[("grpc-timeout", "1H")]).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        only_head(&mut client).await;
        assert_eq!(began.elapsed().as_secs(), 1);
        world.log_line().await;
        // Something that is no timeout sets none.
        call(&mut client, 3, &[("grpc-timeout", "1")]).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        only_head(&mut client).await;
        assert_eq!(began.elapsed().as_secs(), 2);
        world.log_line().await;
    });
}

#[test]
fn a_call_that_a_server_did_not_begin_is_repeated_at_another_one() {
    let retry = format!("{TWO} balance first; retry 1 on=grpc-unavailable;");
    play(&calls(&retry, ""), async |world| {
        let (one, two) = (world.origin(1), world.origin(2));
        let mut client = Http2Peer::connect(world).await;
        // Its message arrives behind its head, as those of real clients do.
        let mut fields = POST.to_vec();
        fields[2].1 = "/shop.v1.Cart/Add";
        fields.extend_from_slice(&[("te", "trailers"), ("content-type", "application/grpc")]);
        client.request(1, &fields, 0).await;
        let mut first = one.accept().await;
        first.head().await;
        client.send(DATA, END_STREAM, 1, b"\0\0\0\0\x01m").await;
        assert_eq!(first.chunk().await.as_deref(), Some("\0\0\0\0\x01m"));
        assert_eq!(first.chunk().await, None);
        first.trailers().await;
        first.send(ended(14)).await;
        let mut second = two.accept().await;
        assert_eq!(second.message().await.text(), "\0\0\0\0\x01m");
        second.send(answered(0)).await;
        whole(&mut client).await;
        let line = world.log_line().await;
        assert_eq!(line.list("failed_attempts"), "one=grpc-unavailable");
        assert!(line.object("grpc").ends_with("\"status\":0}"), "{line:?}");
        // Another status is the client's.
        call(&mut client, 3, &[]).await;
        first.message().await;
        first.send(ended(13)).await;
        only_head(&mut client).await;
        assert_eq!(world.log_line().await.number("attempts"), Some(1));
    });
}

#[test]
fn statuses_in_the_trailers_eject_a_server_that_answers_with_200() {
    let passive = "passive errors=3 on=grpc-unavailable,grpc-internal eject=10s;";
    play(&calls(&format!("{TWO} balance first; {passive}"), ""), async |world| {
        let (one, two) = (world.origin(1), world.origin(2));
        let mut client = Http2Peer::connect(world).await;
        let mut upstream: Option<Peer> = None;
        let mut stream = 1;
        // Of these, three are failures of the server.
        for response in [answered(14), answered(5), ended(13), answered(0), answered(14)] {
            call(&mut client, stream, &[]).await;
            let upstream = match &mut upstream {
                Some(upstream) => upstream,
                none => none.insert(one.accept().await),
            };
            upstream.message().await;
            upstream.send(response).await;
            whole(&mut client).await;
            assert_eq!(world.log_line().await.text("endpoint"), "one");
            stream += 2;
        }
        let mut other = expect_at(&two, &mut client, stream).await;
        // After its ejection one more failure is enough, though its head says 200.
        tokio::time::sleep(std::time::Duration::from_secs(13)).await;
        call(&mut client, stream + 2, &[]).await;
        let mut upstream = upstream.unwrap();
        upstream.message().await;
        upstream.send(answered(14)).await;
        whole(&mut client).await;
        call(&mut client, stream + 4, &[]).await;
        other.message().await;
        other.send(answered(0)).await;
        whole(&mut client).await;
        assert_eq!(world.log().await.len(), 3);
    });
}

/// Sends a call that this server gets and answers; returns its connection.
async fn expect_at(origin: &Origin, client: &mut Http2Peer, stream: u32) -> Peer {
    call(client, stream, &[]).await;
    let mut upstream = origin.accept().await;
    upstream.message().await;
    upstream.send(answered(0)).await;
    whole(client).await;
    upstream
}

#[test]
fn calls_are_counted_by_method_where_the_listener_asks_for_it() {
    play(&calls(ONE, "grpc metrics;"), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        let mut upstream: Option<Peer> = None;
        for (stream, response) in [(1, answered(0)), (3, ended(14)), (5, answered(0))] {
            call(&mut client, stream, &[]).await;
            let upstream = match &mut upstream {
                Some(upstream) => upstream,
                none => none.insert(origin.accept().await),
            };
            upstream.message().await;
            upstream.send(response).await;
            whole(&mut client).await;
        }
        // A guess that the server does not know makes no name.
        let mut guess = POST.to_vec();
        guess[2].1 = "/shop.v1.Cart/Guess";
        guess.push(("content-type", "application/grpc"));
        client.request(7, &guess, END_STREAM).await;
        let mut upstream = upstream.unwrap();
        upstream.message().await;
        upstream.send(ended(12)).await;
        whole(&mut client).await;
        world.log().await;
        let read = world.process.numbers.read().grpc;
        let shown: Vec<_> = read
            .iter()
            .map(|own| {
                (own.service.as_str(), own.method.as_str(), own.by_end().collect::<Vec<_>>())
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("other", "other", vec![("unimplemented", 1)]),
                ("shop.v1.Cart", "Add", vec![("ok", 2), ("unavailable", 1)]),
            ]
        );
        // A call is a stream, too.
        assert_eq!(world.process.numbers.read().routes[1].streams.first.count(), 2);
    });
    play(&calls(ONE, ""), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        call(&mut client, 1, &[]).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send(answered(0)).await;
        whole(&mut client).await;
        world.log().await;
        assert!(world.process.numbers.read().grpc.is_empty());
    });
}
