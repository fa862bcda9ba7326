//! Servers of HTTP/2 that cost much with few bytes: their connection ends, is counted, and others
//! go on; an honest server is left alone, and connections are left before the library would end
//! them.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use h2::Reason;
use tokio::time::{Instant, sleep};

use crate::http2_peer::{
    ACK, DATA, END_HEADERS, END_STREAM, HEADERS, Http2Peer, PING, PRIORITY, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, block, frame,
};
use crate::world::{World, app, play};
use crate::{GET, OK};

const SERVER: &str = "server 10.0.1.1:80 http=2; retry off; timeout response=1h read=1h;";

/// The sentences to the operator in the scenario that listens to them.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The number of connections that were ended because of what the server sent.
fn ended(world: &World) -> u64 {
    world.pool().endpoints[0].streams.connections_ended.load(Ordering::Relaxed)
}

/// Sends `one` repeatedly, up to `most` times; returns the number until the connection ended.
async fn flood(upstream: &mut Http2Peer, one: &[u8], most: usize) -> usize {
    for sent in 0..most {
        if upstream.peer.try_send(one).await.is_err() {
            return sent;
        }
        if sent % 64 == 0 {
            sleep(Duration::from_millis(1)).await;
        }
    }
    most
}

#[test]
fn floods_of_frames_that_carry_nothing_end_the_connection_to_a_server() {
    let interim = block(&[(":status", "103")]);
    for (one, most) in [
        (frame(SETTINGS, 0, 0, &[]), 200),
        (frame(PING, 0, 0, &[1; 8]), 1_000),
        (frame(PING, ACK, 0, &[1; 8]), 1_000),
        (frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 9]), 2_000),
        (frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]), 4_000),
        (frame(0xbe, 0, 0, &[]), 500),
        (frame(HEADERS, END_HEADERS, 1, &interim), 6_000),
    ] {
        play(&app(SERVER, ""), async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            client.send(GET).await;
            let mut upstream = origin.accept_frames(&[]).await;
            assert_eq!(upstream.frame().await.kind, HEADERS);
            let sent = flood(&mut upstream, &one, most).await;
            assert!(sent < most, "{} frames of type {}", most, one[3]);
            assert_eq!(ended(world), 1, "type {}", one[3]);
            let mut response = client.message().await;
            while response.status() == 103 {
                response = client.message().await;
            }
            assert_eq!(response.status(), 502);
            world.log_line().await;
            // The next request has another connection.
            client.send(GET).await;
            let mut upstream = origin.accept_http2(100).await;
            upstream.request().await.answer("ok");
            assert_eq!(client.message().await.text(), "ok");
            world.log_line().await;
        });
    }
}

#[test]
fn empty_data_frames_end_the_connection_to_a_server() {
    play(&app(SERVER, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(GET).await;
        let mut upstream = origin.accept_frames(&[]).await;
        assert_eq!(upstream.frame().await.kind, HEADERS);
        upstream.send(HEADERS, END_HEADERS, 1, &block(&[(":status", "200")])).await;
        let sent = flood(&mut upstream, &frame(DATA, 0, 1, &[]), 300).await;
        assert!(sent < 300);
        assert_eq!(ended(world), 1);
        client.head().await;
        client.expect_end().await;
        world.expect_logged("upstream_aborted", Some(200)).await;
    });
}

#[test]
fn a_head_that_never_ends_ends_the_connection_to_a_server() {
    play(&app(SERVER, ""), async |world| {
        let origin = world.origin(1);
        let say = |line: &str| SAID.lock().unwrap().push(line.to_owned());
        world.process.incidents.set_speaker(say);
        let mut client = world.client().await;
        client.send(GET).await;
        let mut upstream = origin.accept_frames(&[]).await;
        assert_eq!(upstream.frame().await.kind, HEADERS);
        let start = Instant::now();
        upstream.send(HEADERS, 0, 1, &block(&[(":status", "200")])).await;
        // Nothing of another stream could come meanwhile; each byte shows that the server is there.
        loop {
            let piece = frame(9, 0, 1, &block(&[("a", "b")]));
            if upstream.peer.try_send(&piece).await.is_err() {
                break;
            }
            sleep(Duration::from_secs(2)).await;
        }
        assert!((10..=14).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
        assert_eq!(ended(world), 1);
        let line = "pool app: ended the HTTP/2 connection to server 10.0.1.1:80 after 1 streams: slow_head";
        assert_eq!(*SAID.lock().unwrap(), [line]);
        assert_eq!(client.message().await.status(), 502);
        world.expect_logged("upstream_reset", Some(502)).await;
    });
}

#[test]
fn a_connection_with_many_empty_frames_is_left_before_the_library_ends_it() {
    play(&app(SERVER, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(GET).await;
        let mut upstream = origin.accept_frames(&[]).await;
        assert_eq!(upstream.frame().await.kind, HEADERS);
        upstream.send(HEADERS, END_HEADERS, 1, &block(&[(":status", "200")])).await;
        client.head().await;
        // As many as no budget minds.
        for _ in 0..50 {
            upstream.send(DATA, 0, 1, &[]).await;
            sleep(Duration::from_millis(500)).await;
        }
        let mut other = world.client().await;
        other.send(GET).await;
        let mut next = origin.accept_http2(100).await;
        next.request().await.answer("ok");
        assert_eq!(other.message().await.text(), "ok");
        world.log_line().await;
        // Streams on the old one finish.
        upstream.send(DATA, END_STREAM, 1, b"whole").await;
        assert_eq!(client.chunk().await.as_deref(), Some("whole"));
        assert_eq!(client.chunk().await, None);
        client.trailers().await;
        world.expect_logged("complete", Some(200)).await;
        assert_eq!((ended(world), world.connect_count(1)), (0, 2));
        upstream.peer.rest().await;
    });
}

/// The library ends a connection at the 101st such frame.
#[test]
fn an_empty_frame_of_each_of_many_streams_at_once_breaks_none_off() {
    play(&app(SERVER, ""), async |world| {
        let origin = world.origin(1);
        let mut clients = Vec::new();
        for _ in 0..95 {
            let mut client = world.client().await;
            client.send(GET).await;
            clients.push(client);
        }
        let mut upstream = origin.accept_frames(&[]).await;
        for _ in 0..95 {
            assert_eq!(upstream.frame().await.kind, HEADERS);
        }
        for number in 0..95 {
            let stream = 2 * number + 1;
            upstream.send(HEADERS, END_HEADERS, stream, &block(&[(":status", "200")])).await;
            upstream.send(DATA, 0, stream, &[]).await;
            upstream.send(DATA, END_STREAM, stream, b"ok").await;
        }
        for client in &mut clients {
            assert_eq!(client.message().await.text(), "ok");
        }
        assert_eq!(ended(world), 0);
        // The next request has another connection.
        clients[0].send(GET).await;
        let mut next = origin.accept_http2(100).await;
        next.request().await.answer("ok");
        assert_eq!(clients[0].message().await.text(), "ok");
        assert_eq!((world.log().await.len(), world.connect_count(1)), (96, 2));
        upstream.peer.rest().await;
    });
}

#[test]
fn a_connection_with_many_streams_that_were_reset_from_here_is_left() {
    play(&app(SERVER, ""), async |world| {
        let origin = world.origin(1);
        let mut upstream = None;
        for _ in 0..1024 {
            let mut client = world.client().await;
            client.send(GET).await;
            if upstream.is_none() {
                upstream = Some(origin.accept_http2(100).await);
            }
            let stream = upstream.as_mut().unwrap().request().await;
            client.reset();
            assert_eq!(stream.reset().await, Reason::CANCEL);
        }
        let streams = &world.pool().endpoints[0].streams;
        let mut client = world.client().await;
        client.send(GET).await;
        let mut next = origin.accept_http2(100).await;
        next.request().await.answer("ok");
        assert_eq!(client.message().await.text(), "ok");
        upstream.unwrap().expect_end().await;
        assert_eq!((world.log().await.len(), world.connect_count(1)), (1025, 2));
        let count = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        assert_eq!((count(&streams.opened), count(&streams.reset)), (1025, 1024));
    });
}

#[test]
fn streams_are_counted_and_their_protocol_is_logged() {
    let spoken = "response_header set X-Spoken $upstream_protocol;";
    play(&app(SERVER, spoken), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        let mut second = world.client().await;
        client.send(GET).await;
        second.send(GET).await;
        let mut upstream = origin.accept_http2(100).await;
        let (one, two) = (upstream.request().await, upstream.request().await);
        // A stream of another connection is not among them.
        let streams = &world.pool().endpoints[0].streams;
        assert_eq!(streams.open(), 2);
        one.answer("ok");
        assert_eq!(client.message().await.header("x-spoken"), Some("HTTP/2.0"));
        two.refuse(Reason::INTERNAL_ERROR);
        assert_eq!(second.message().await.status(), 502);
        assert_eq!(world.log().await.len(), 2);
        assert_eq!((streams.open(), streams.reset.load(Ordering::Relaxed)), (0, 1));
    });
    play(&app("server 10.0.1.1:80;", spoken), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(GET).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send(OK).await;
        assert_eq!(client.message().await.header("x-spoken"), Some("HTTP/1.1"));
        assert_eq!(world.pool().endpoints[0].streams.opened.load(Ordering::Relaxed), 0);
        world.log_line().await;
    });
}

#[test]
fn resets_of_a_server_have_a_budget_by_its_requests() {
    play(&app(SERVER, ""), async |world| {
        let origin = world.origin(1);
        let mut upstream = None;
        for number in 0..300 {
            let mut client = world.client().await;
            client.send(GET).await;
            if upstream.is_none() {
                upstream = Some(origin.accept_frames(&[]).await);
            }
            let upstream = upstream.as_mut().unwrap();
            assert_eq!(upstream.frame().await.kind, HEADERS);
            let reset = Reason::INTERNAL_ERROR;
            upstream.send(RST_STREAM, 0, 2 * number + 1, &u32::from(reset).to_be_bytes()).await;
            assert_eq!(client.message().await.status(), 502);
        }
        assert_eq!((world.log().await.len(), ended(world)), (300, 0));
    });
}
