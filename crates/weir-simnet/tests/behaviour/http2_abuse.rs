//! HTTP/2 clients that cost much with few bytes: each pattern ends with ENHANCE_YOUR_CALM, is
//! counted by its reason, and an honest client of the same kind is left alone.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use weir_stats::metrics::Http2Excess;

use crate::OK;
use crate::http2_peer::{
    self, ACK, CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GET,
    HEADERS, Http2Peer, PING, POST, PRIORITY, RST_STREAM, SETTINGS, WINDOW_UPDATE, block, frame,
};
use crate::world::{World, app, play};

fn http2(listener: &str) -> String {
    http2_peer::http2(&format!("route path /own -> respond 200; {listener}"))
}

/// The number of connections that were ended for this reason; there must be none for another one.
fn ended(world: &World, why: Http2Excess) -> u64 {
    let counts = world.process.numbers.read().listeners[0].http2_ended;
    let of = Http2Excess::ALL.into_iter().zip(counts);
    let others: Vec<_> = of.clone().filter(|((one, _), count)| *one != why && *count > 0).collect();
    assert!(others.is_empty(), "{others:?}");
    of.filter(|((one, _), _)| *one == why).map(|(_, count)| count).sum()
}

/// Sends `one` repeatedly, up to `most` times, while it reads what comes, and checks that the
/// connection ends with ENHANCE_YOUR_CALM for this reason.
async fn flood(world: &World, mut client: Http2Peer, most: usize, one: &[u8], why: Http2Excess) {
    let mut sent = 0;
    while sent < most && client.peer.try_send(one).await.is_ok() {
        sent += 1;
        if sent % 64 == 0 {
            sleep(Duration::from_millis(1)).await;
        }
    }
    let end = client.goaway().await;
    assert_eq!(end.code(), ENHANCE_YOUR_CALM, "{why:?}");
    assert_eq!(ended(world, why), 1);
}

#[test]
fn floods_of_frames_that_carry_nothing_end_the_connection() {
    let cases = [
        (frame(SETTINGS, 0, 0, &[]), 100, Http2Excess::Settings),
        (frame(PING, 0, 0, &[1; 8]), 1_000, Http2Excess::Pings),
        (frame(PING, ACK, 0, &[1; 8]), 1_000, Http2Excess::Pings),
        (frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 9]), 2_000, Http2Excess::Priorities),
        (frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]), 4_000, Http2Excess::WindowUpdates),
        (frame(0xbe, 0, 0, &[]), 500, Http2Excess::OtherFrames),
    ];
    for (one, most, why) in cases {
        play(&http2(""), async |world| {
            let client = Http2Peer::connect(world).await;
            flood(world, client, most, &one, why).await;
        });
    }
}

#[test]
fn data_frames_with_little_in_them_end_the_connection() {
    for (data, most, why) in
        [(&b""[..], 300, Http2Excess::EmptyData), (b"x", 30_000, Http2Excess::SmallData)]
    {
        play(&http2(""), async |world| {
            let origin = world.origin(1);
            let mut client = Http2Peer::connect(world).await;
            client.request(1, &POST, 0).await;
            let mut upstream = origin.accept().await;
            upstream.head().await;
            tokio::task::spawn_local(async move { upstream.rest().await });
            flood(world, client, most, &frame(DATA, 0, 1, data), why).await;
            world.log_line().await;
        });
    }
}

#[test]
fn streams_that_are_opened_and_reset_end_the_connection() {
    play(&http2(""), async |world| {
        let origin = world.origin(1);
        tokio::task::spawn_local(async move {
            while let Some(mut peer) = origin.accept_within(Duration::from_mins(1)).await {
                tokio::task::spawn_local(async move { peer.rest().await });
            }
        });
        let mut client = Http2Peer::connect(world).await;
        for stream in (1..4_000).step_by(2) {
            let head = frame(HEADERS, END_STREAM | END_HEADERS, stream, &block(&GET));
            let reset = frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes());
            if client.peer.try_send(&[head, reset].concat()).await.is_err() {
                break;
            }
            if stream % 20 == 1 {
                sleep(Duration::from_millis(1)).await;
            }
        }
        assert_eq!(client.goaway().await.code(), ENHANCE_YOUR_CALM);
        assert_eq!(ended(world, Http2Excess::Resets), 1);
        let lines = world.log().await.len();
        assert!(lines < 400, "{lines} requests were served");
    });
}

#[test]
fn a_stream_that_is_reset_at_once_costs_no_connection_to_a_server() {
    play(&http2(""), async |world| {
        let mut client = Http2Peer::connect(world).await;
        let head = frame(HEADERS, END_STREAM | END_HEADERS, 1, &block(&GET));
        let reset = frame(RST_STREAM, 0, 1, &CANCEL.to_be_bytes());
        client.peer.send([head, reset].concat()).await;
        world.expect_logged("client_gone", Some(499)).await;
        assert_eq!(world.connect_count(1), 0);
    });
}

#[test]
fn a_client_that_makes_the_server_reset_streams_ends_its_connection() {
    let head = |fields: &[(&str, &str)], stream| {
        frame(HEADERS, END_STREAM | END_HEADERS, stream, &block(fields))
    };
    // A window is opened too far; a head is malformed.
    let overflow = |stream| {
        let update = frame(WINDOW_UPDATE, 0, stream, &0x7fff_ffffu32.to_be_bytes());
        [head(&GET, stream), update].concat()
    };
    let malformed = |stream| head(&[&GET[..], &[("te", "gzip")]].concat(), stream);
    for provoke in [&overflow as &dyn Fn(u32) -> Vec<u8>, &malformed] {
        play(&http2(""), async |world| {
            let origin = world.origin(1);
            tokio::task::spawn_local(async move {
                while let Some(mut peer) = origin.accept_within(Duration::from_mins(1)).await {
                    tokio::task::spawn_local(async move { peer.rest().await });
                }
            });
            let mut client = Http2Peer::connect(world).await;
            for stream in (1..4_000).step_by(2) {
                if client.peer.try_send(&provoke(stream)).await.is_err() {
                    break;
                }
                sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(client.goaway().await.code(), ENHANCE_YOUR_CALM);
            assert_eq!(ended(world, Http2Excess::ProvokedResets), 1);
            let lines = world.log().await.len();
            assert!(lines < 600, "{lines} requests were served");
        });
    }
}

#[test]
fn heads_without_an_end_cost_no_memory() {
    for (first, one, most) in [
        (block(&GET), Vec::new(), 10_000),
        (block(&GET), block(&[("x", "y")]), 100_000),
        (block(&GET), block(&[("x", &"y".repeat(16_000))]), 100),
    ] {
        play(&http2(""), async |world| {
            let mut client = Http2Peer::connect(world).await;
            client.send(HEADERS, END_STREAM, 1, &first).await;
            flood(world, client, most, &frame(CONTINUATION, 0, 1, &one), Http2Excess::Heads).await;
            assert!(world.log().await.is_empty());
        });
    }
}

#[test]
fn a_small_head_that_grows_when_it_is_decoded_is_refused() {
    play(&http2(""), async |world| {
        let mut client = Http2Peer::connect(world).await;
        // One field of 4000 bytes goes into the dynamic table, and is then named 16000 times.
        let long = "y".repeat(4_000);
        let mut head = block(&GET);
        let field = block(&[("x", &long)]);
        head.push(0x40);
        head.extend_from_slice(&field[1..]);
        head.extend(std::iter::repeat_n(0xbe, 12_000));
        client.send(HEADERS, END_STREAM | END_HEADERS, 1, &head).await;
        assert_eq!(client.goaway().await.code(), ENHANCE_YOUR_CALM);
        assert_eq!(ended(world, Http2Excess::Heads), 1);
    });
}

#[test]
fn a_head_that_dribbles_ends_the_connection() {
    play(&http2("timeout head=5s;"), async |world| {
        let mut client = Http2Peer::connect(world).await;
        client.frame_settings().await;
        let start = Instant::now();
        let head = frame(HEADERS, END_STREAM | END_HEADERS, 1, &block(&GET));
        for byte in head.chunks(1).take(6) {
            let _ = client.peer.try_send(byte).await;
            sleep(Duration::from_millis(900)).await;
        }
        let _ = client.peer.try_send(&head[6..12]).await;
        // A frame's header is needed to know that it is a head.
        assert_eq!(client.goaway().await.code(), ENHANCE_YOUR_CALM);
        let waited = start.elapsed().as_secs_f64();
        assert!((5.0..12.0).contains(&waited), "{waited}");
        assert_eq!(ended(world, Http2Excess::SlowHead), 1);
    });
}

#[test]
fn streams_whose_clients_stop_end_each_in_time_and_the_connection_after_many() {
    play(&http2("timeout body=5s;"), async |world| {
        let origin = world.origin(1);
        tokio::task::spawn_local(async move {
            while let Some(mut peer) = origin.accept_within(Duration::from_mins(1)).await {
                tokio::task::spawn_local(async move { peer.rest().await });
            }
        });
        let mut client = Http2Peer::connect(world).await;
        let start = Instant::now();
        for stream in (1..=71).step_by(2) {
            client.request(stream, &POST, 0).await;
        }
        assert_eq!(client.goaway().await.code(), ENHANCE_YOUR_CALM);
        assert_eq!(start.elapsed().as_secs(), 5);
        assert_eq!(ended(world, Http2Excess::StalledStreams), 1);
        assert_eq!(world.in_flight(), 0);
        assert_eq!(world.log().await.len(), 36);
    });
}

#[test]
fn windows_that_never_open_end_each_stream_in_time_and_the_connection_after_many() {
    play(&http2("timeout send=5s;"), async |world| {
        world.origin(1).answers(OK);
        let mut client = Http2Peer::with(world, &[(4, 0)]).await;
        let start = Instant::now();
        for stream in (1..=71).step_by(2) {
            client.get(stream).await;
        }
        assert_eq!(client.goaway().await.code(), ENHANCE_YOUR_CALM);
        assert_eq!(start.elapsed().as_secs(), 5);
        assert_eq!(ended(world, Http2Excess::StalledStreams), 1);
        assert_eq!(world.log().await.len(), 36);
    });
}

#[test]
fn one_stalled_stream_ends_alone() {
    play(&http2("timeout send=5s;"), async |world| {
        world.origin(1).answers(OK);
        let mut client = Http2Peer::with(world, &[(4, 0)]).await;
        client.get(1).await;
        assert_eq!(client.frame().await.status(), 200);
        let start = Instant::now();
        let reset = client.frame().await;
        assert_eq!((reset.kind, reset.stream, reset.code()), (RST_STREAM, 1, CANCEL));
        assert_eq!(start.elapsed().as_secs(), 5);
        world.expect_logged("client_send_timeout", Some(200)).await;
        client.send(WINDOW_UPDATE, 0, 3, &[0, 0, 0, 9]).await;
        client.request(3, &[&GET[..2], &[(":path", "/own")], &GET[3..]].concat(), END_STREAM).await;
    });
}

#[test]
fn small_messages_that_wait_for_a_slot_end_no_connection_however_small_its_windows_are() {
    let pool = "server 10.0.1.1:80 max_conn=1; queue timeout=1m;";
    let listener = "http2 on streams=2 window=16k;";
    play(&app(pool, listener), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.get(1).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        client.request(3, &POST, 0).await;
        for _ in 0..1_000 {
            client.send(DATA, 0, 3, b"x").await;
        }
        client.send(DATA, END_STREAM, 3, b"x").await;
        sleep(Duration::from_secs(1)).await;
        upstream.send(OK).await;
        assert_eq!(client.response(1).await, (200, "ok".into()));
        assert_eq!(upstream.message().await.chunks.concat().len(), 1_001);
        upstream.send(OK).await;
        assert_eq!(client.response(3).await, (200, "ok".into()));
        assert_eq!(ended(world, Http2Excess::SmallData), 0);
    });
}

#[test]
fn an_honest_client_is_left_alone() {
    play(&http2("limits body=off;"), async |world| {
        world.origin(1).answers(OK);
        let mut client = Http2Peer::connect(world).await;
        let mut stream = 1;
        // A browser that loads pages, leaves every fifth, and pings now and then.
        for page in 0..60 {
            let first = stream;
            for _ in 0..20 {
                client.send(PRIORITY, 0, stream, &[0, 0, 0, 0, 9]).await;
                client.get(stream).await;
                stream += 2;
            }
            if page % 5 == 0 {
                for left in (first..stream).step_by(2).take(10) {
                    client.send(RST_STREAM, 0, left, &CANCEL.to_be_bytes()).await;
                }
            }
            client.send(PING, 0, 0, &[0; 8]).await;
            sleep(Duration::from_millis(500)).await;
            for sent in (first..stream).step_by(2) {
                client.send(WINDOW_UPDATE, 0, sent, &[0, 0, 0, 2]).await;
                client.send(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 2]).await;
            }
            client.peer.waiting().await;
        }
        client.get(stream).await;
        let mut frame = client.frame().await;
        while frame.stream != stream {
            frame = client.frame().await;
        }
        assert_eq!(frame.status(), 200);
        assert_eq!(ended(world, Http2Excess::Resets), 0);
        assert_eq!(world.log().await.len(), 1201);
    });
}
