//! Slow exchanges and peers: total timeouts, attempt timeouts, minimum rates, and the age of
//! connections.

use std::sync::LazyLock;
use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

use crate::peer::{End, Peer};
use crate::world::{World, app, play};
use crate::{GET, OK};

const ONE: &str = "server 10.0.1.1:80;";
const ONE_SLOT: &str = "server 10.0.1.1:80 max_conn=1; queue timeout=10m;";
const UPLOAD: &str = "POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n";

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Sends pieces of this size at this interval until the other side closes or responds, at most
/// `most` pieces.
async fn dribble(client: &mut Peer, piece: usize, interval: Duration, most: usize) -> usize {
    for sent in 0..most {
        sleep(interval).await;
        if !client.is_open().await || client.try_send(&vec![b'x'; piece]).await.is_err() {
            return sent;
        }
    }
    most
}

#[test]
fn an_exchange_that_takes_too_long_in_all_gets_504_in_every_phase() {
    play(&app(ONE_SLOT, "timeout request=7s;"), async |world| {
        let origin = world.origin(1);
        let start = Instant::now();
        let mut first = world.client().await;
        first.send(GET).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        sleep(seconds(1)).await;
        let mut queued = world.client().await;
        queued.send(GET).await;
        // The server does not respond.
        assert_eq!(first.message().await.status(), 504);
        assert_eq!(start.elapsed(), seconds(7));
        world.expect_logged("total_timeout", Some(504)).await;
        upstream.expect_end().await;
        // The request that waited has the slot now, and its timeout expires too.
        let mut upstream = origin.accept().await;
        upstream.message().await;
        assert_eq!(queued.message().await.status(), 504);
        assert_eq!(start.elapsed(), seconds(8));
        world.expect_logged("total_timeout", Some(504)).await;
    });
}

#[test]
fn a_response_that_takes_too_long_in_all_is_broken_off() {
    play(&app(ONE, "timeout request=7s;"), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(GET).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n").await;
        for _ in 0..6 {
            sleep(seconds(1)).await;
            upstream.send("x").await;
        }
        assert_eq!(client.head().await.status(), 200);
        assert_eq!(client.rest().await.0, b"xxxxxx");
        world.expect_logged("total_timeout", Some(200)).await;
    });
}

#[test]
fn a_body_that_takes_too_long_in_all_releases_its_slot() {
    play(&app(ONE_SLOT, "timeout request=20s;"), async |world| {
        let origin = world.origin(1);
        let mut slow = world.client().await;
        slow.send(UPLOAD).await;
        let mut upstream = origin.accept().await;
        assert!(dribble(&mut slow, 10_000, seconds(1), 100).await < 21);
        assert_eq!(slow.message().await.status(), 504);
        upstream.head().await;
        upstream.rest().await;
        assert_eq!(world.in_flight(), 0);
        world.expect_logged("total_timeout", Some(504)).await;
    });
}

#[test]
fn routes_and_pools_limit_the_time_of_an_exchange() {
    let text = "pool app { server 10.0.1.1:80; timeout request=5s; } listen 10.0.0.1:80 { \
                timeout request=8s; \
                route path /free -> app { timeout request=off; } \
                route path /own -> app { timeout request=12s; } \
                route path /listener -> 10.0.1.1:80; default -> app; }";
    play(text, async |world| {
        world.origin(1).answers_after(seconds(20), OK);
        for (path, expected) in [("/", 5), ("/listener", 8), ("/own", 12), ("/free", 20)] {
            let start = Instant::now();
            let mut client = world.client().await;
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
            let status = client.message().await.status();
            assert_eq!(start.elapsed(), seconds(expected), "{path}");
            assert_eq!(status, if expected == 20 { 200 } else { 504 }, "{path}");
        }
    });
}

#[test]
fn a_tunnel_is_not_bounded_by_the_time_of_an_exchange() {
    play(&app(ONE, "timeout request=5s;"), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{upgrade}")).await;
        let mut upstream = origin.accept().await;
        upstream.head().await;
        upstream.send(format!("HTTP/1.1 101 Switching Protocols\r\n{upgrade}")).await;
        assert_eq!(client.head().await.status(), 101);
        sleep(seconds(60)).await;
        client.send("ping").await;
        upstream.expect("ping").await;
        drop(client);
        upstream.expect_end().await;
    });
}

#[test]
fn an_attempt_that_takes_too_long_is_followed_by_another() {
    let pool = "balance first; server 10.0.1.1:80; server 10.0.1.2:80; timeout try=3s; \
                retry 1 on=timeout;";
    play(&app(pool, ""), async |world| {
        let hanging = world.origin(1);
        world.origin(2).answers(OK);
        let start = Instant::now();
        let mut client = world.client().await;
        client.send(GET).await;
        let mut upstream = hanging.accept().await;
        upstream.message().await;
        assert_eq!(client.message().await.status(), 200);
        assert_eq!(start.elapsed(), seconds(3));
        let line = world.log_line().await;
        assert_eq!((line.text("cause").as_str(), line.number("attempts")), ("complete", Some(2)));
        upstream.expect_end().await;
    });
    play(&app("server 10.0.1.1:80; timeout try=3s;", ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(GET).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        assert_eq!(client.message().await.status(), 504);
        world.expect_logged("try_timeout", Some(504)).await;
    });
}

#[test]
fn waiting_for_the_clients_body_does_not_count_for_the_attempt() {
    play(&app("server 10.0.1.1:80; timeout try=3s;", ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n").await;
        let mut upstream = origin.accept().await;
        for _ in 0..5 {
            sleep(seconds(4)).await;
            client.send("x").await;
        }
        assert_eq!(upstream.message().await.text(), "xxxxx");
        sleep(seconds(2)).await;
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
        world.expect_logged("complete", Some(200)).await;
    });
}

#[test]
fn a_slow_body_releases_its_limited_slot_by_default() {
    play(&app(ONE_SLOT, ""), async |world| {
        let origin = world.origin(1);
        let start = Instant::now();
        let mut slow = world.client().await;
        slow.send(UPLOAD).await;
        let mut upstream = origin.accept().await;
        let mut honest = world.client().await;
        honest.send(GET).await;
        dribble(&mut slow, 10, seconds(9), 100).await;
        assert!(start.elapsed() < seconds(40), "{:?}", start.elapsed());
        assert_eq!(slow.message().await.status(), 408);
        upstream.head().await;
        upstream.rest().await;
        world.expect_logged("body_too_slow", Some(408)).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send(OK).await;
        assert_eq!(honest.message().await.status(), 200);
    });
}

#[test]
fn a_slow_body_is_served_if_it_keeps_the_minimum_rate_or_slots_are_not_limited() {
    for (pool, piece) in [(ONE_SLOT, 10_000), (ONE, 10)] {
        play(&app(pool, ""), async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            let pieces = 60;
            let length = pieces * piece;
            let head = "POST / HTTP/1.1\r\nHost: a";
            client.send(format!("{head}\r\nContent-Length: {length}\r\n\r\n")).await;
            let mut upstream = origin.accept().await;
            upstream.head().await;
            for _ in 0..pieces {
                sleep(seconds(10)).await;
                client.send(vec![b'x'; piece]).await;
                upstream.discard(piece).await;
            }
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200, "{pool}");
        });
    }
}

/// Returns the number of bytes that a client gets of a response of a megabyte if it reads pieces of
/// this size at this interval, until it is disconnected or `most` has passed.
async fn read_slowly(world: &World, piece: usize, interval: Duration, most: Duration) -> usize {
    const BODY: usize = 1_000_000;
    let origin = world.origin(1);
    spawn_local(async move {
        let mut upstream = origin.accept().await;
        upstream.message().await;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n\r\n");
        let _ = upstream.try_send(&[head.as_bytes(), &vec![b'x'; BODY]].concat()).await;
        upstream.rest().await;
    });
    taken(world, piece, interval, most).await
}

#[test]
fn a_slow_reader_releases_its_limited_slot_by_default() {
    play(&app(ONE_SLOT, ""), async |world| {
        read_slowly(world, 100, seconds(5), seconds(3 * 60)).await;
        assert_eq!(world.in_flight(), 0);
        world.expect_logged("client_too_slow", Some(200)).await;
    });
}

#[test]
fn a_slow_reader_that_keeps_the_minimum_rate_gets_the_whole_response() {
    for listener in ["", "timeout min_rate=600b;"] {
        play(&app(ONE_SLOT, listener), async |world| {
            let most = seconds(60 * 60);
            assert!(read_slowly(world, 20_000, seconds(10), most).await > 1_000_000);
            world.expect_logged("complete", Some(200)).await;
        });
    }
}

#[test]
fn a_minimum_rate_of_the_listener_holds_everywhere() {
    play(&app(ONE, "timeout min_rate=1k after=10s;"), async |world| {
        let most = seconds(60 * 60);
        assert!(read_slowly(world, 4_000, seconds(5), most).await < 1_000_000);
        world.expect_logged("client_too_slow", Some(200)).await;
    });
    let buffered = "server 10.0.1.1:80; buffer_request 2m;";
    play(&app(buffered, "timeout min_rate=1k after=10s;"), async |world| {
        let start = Instant::now();
        let mut client = world.client().await;
        client.send(UPLOAD).await;
        dribble(&mut client, 100, seconds(1), 100).await;
        assert!(start.elapsed() < seconds(13), "{:?}", start.elapsed());
        assert_eq!(client.message().await.status(), 408);
        world.expect_logged("body_too_slow", Some(408)).await;
    });
}

/// Returns the number of bytes that a client gets of the response to a GET if it reads pieces of
/// this size at this interval, until it is disconnected or `most` has passed.
async fn taken(world: &World, piece: usize, interval: Duration, most: Duration) -> usize {
    let start = Instant::now();
    let mut client = world.client().await;
    client.send(GET).await;
    let mut read = 0;
    while start.elapsed() < most {
        sleep(interval).await;
        let until = read + piece;
        while read < until {
            match client.try_read(&mut vec![0; until - read]).await {
                Ok(count) if count > 0 => read += count,
                _ => return read,
            }
        }
    }
    read
}

/// A directory with a large index page. It is written once: tests run in parallel, and a file that
/// is written again is empty for a moment.
static DIRECTORY: LazyLock<String> = LazyLock::new(|| {
    let own = format!("{}/slow-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(format!("{own}/index.html"), vec![b'x'; LARGE]).unwrap();
    own
});

const LARGE: usize = 1_000_000;

/// Returns listeners with local replies that exceed the network's buffers: a fixed response, a
/// file, a refusal.
fn own_answers(timeout: &str) -> [String; 3] {
    let text = "x".repeat(LARGE);
    let directory = &*DIRECTORY;
    let answers = [
        format!("default -> respond 200 \"{text}\";"),
        format!("default -> files {directory};"),
        "error_page 403 /sorry; deny all; default -> respond 200;".to_owned(),
    ];
    answers.map(|answer| format!("listen 10.0.0.1:80 {{ timeout {timeout}; {answer} }}"))
}

/// Runs a scenario on a configuration whose pages are large.
fn play_own(text: &str, scene: impl AsyncFnOnce(&World)) {
    play("listen 10.0.0.1:80 -> respond 204;", async |world| {
        world.write_file("/sorry", &"x".repeat(LARGE));
        world.reload(text).await;
        scene(world).await;
    });
}

#[test]
fn a_client_that_reads_a_local_reply_too_slowly_is_disconnected() {
    for text in own_answers("min_rate=1k after=10s") {
        play_own(&text, async |world| {
            let read = taken(world, 2_000, seconds(5), seconds(60 * 60)).await;
            assert!(read < LARGE, "{read} {text:.60}");
            let line = world.log_line().await;
            let expected =
                if line.number("status") == Some(403) { "denied" } else { "client_too_slow" };
            assert_eq!(line.text("cause"), expected);
        });
        play_own(&text, async |world| {
            let read = taken(world, 20_000, seconds(5), seconds(60 * 60)).await;
            assert!(read > LARGE, "{read} {text:.60}");
        });
    }
}

#[test]
fn a_local_reply_ends_at_the_total_timeout() {
    for text in own_answers("request=20s send=30s") {
        play_own(&text, async |world| {
            let start = Instant::now();
            taken(world, 20_000, seconds(5), seconds(60 * 60)).await;
            assert!(start.elapsed() < seconds(60), "{:?} {text:.60}", start.elapsed());
        });
    }
}

#[test]
fn a_client_that_reads_interim_responses_slowly_releases_a_limited_slot() {
    play(&app(ONE_SLOT, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(GET).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        let line = format!("Link: {}\r\n", "x".repeat(50_000));
        let hints = format!("HTTP/1.1 103 Early Hints\r\n{line}\r\n");
        spawn_local(async move {
            let _ = upstream.try_send(hints.repeat(8).as_bytes()).await;
            upstream.rest().await;
        });
        let start = Instant::now();
        while world.in_flight() > 0 {
            sleep(seconds(5)).await;
            let _ = client.try_read(&mut [0; 100]).await;
            assert!(start.elapsed() < seconds(300), "the place is held");
        }
    });
}

#[test]
fn an_upload_that_is_slow_after_the_response_head_releases_a_limited_slot() {
    play(&app(ONE_SLOT, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(UPLOAD).await;
        let mut upstream = origin.accept().await;
        upstream.head().await;
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n").await;
        assert_eq!(client.head().await.status(), 200);
        let start = Instant::now();
        while world.in_flight() > 0 {
            sleep(seconds(5)).await;
            let _ = client.try_send(&[b'x'; 100]).await;
            assert!(start.elapsed() < seconds(60), "the place is held");
        }
        world.expect_logged("body_too_slow", Some(200)).await;
    });
}

#[test]
fn neither_direction_is_too_slow_while_the_other_one_moves() {
    let pool = "server 10.0.1.1:80 max_conn=1; timeout min_rate=1k after=10s;";
    play(&app(pool, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 600001\r\n\r\n").await;
        let mut upstream = origin.accept().await;
        upstream.head().await;
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 600001\r\n\r\n").await;
        client.head().await;
        // Only the client sends.
        for _ in 0..60 {
            sleep(seconds(5)).await;
            client.send(vec![b'x'; 10_000]).await;
            upstream.discard(10_000).await;
        }
        // Only the server sends.
        for _ in 0..60 {
            sleep(seconds(5)).await;
            upstream.send(vec![b'x'; 10_000]).await;
            client.discard(10_000).await;
        }
        client.send("x").await;
        upstream.send("x").await;
        client.expect("x").await;
        world.expect_logged("complete", Some(200)).await;
    });
}

#[test]
fn a_stream_of_events_is_never_too_slow_for_its_client() {
    play(&app(ONE_SLOT, "timeout min_rate=1k after=10s;"), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(GET).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        client.head().await;
        for _ in 0..60 {
            sleep(seconds(20)).await;
            upstream.send("1\r\nx\r\n").await;
            assert_eq!(client.chunk().await.as_deref(), Some("x"));
        }
        upstream.send("0\r\n\r\n").await;
        assert_eq!(client.chunk().await, None);
        world.expect_logged("complete", Some(200)).await;
    });
}

#[test]
fn a_server_that_sends_its_response_slowly_is_abandoned_if_so_configured() {
    play(&app("server 10.0.1.1:80; timeout min_rate=1k after=10s;", ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(GET).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n").await;
        assert!(dribble(&mut upstream, 100, seconds(1), 100).await < 13);
        client.rest().await;
        world.expect_logged("upstream_too_slow", Some(200)).await;
    });
}

#[test]
fn an_old_connection_ends_with_its_next_response() {
    for own in ["default -> app;", "default -> respond 200 ok;"] {
        let text = format!(
            "pool app {{ {ONE} }} listen 10.0.0.1:80 {{ timeout age=2m keepalive=1h; {own} }}"
        );
        play(&text, async |world| {
            world.origin(1).answers(OK);
            let mut client = world.client().await;
            for (pause, closes) in [(0, false), (60, false), (59, false), (2, true)] {
                sleep(seconds(pause)).await;
                client.send(GET).await;
                let response = client.message().await;
                assert_eq!(response.status(), 200);
                assert_eq!(response.header("connection").is_some(), closes, "{own} {pause}");
            }
            assert_eq!(client.rest().await.1, End::Closed);
            assert_eq!(world.process.numbers.read().listeners[0].aged, 1);
        });
    }
}
