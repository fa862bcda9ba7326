//! Timeouts: every wait ends in time, with its status and its cause.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::peer::End;
use crate::world::{Connects, app, play};
use crate::{GET, OK};

const ONE: &str = "server 10.0.1.1:80;";

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn a_head_that_does_not_end_gets_408_even_if_bytes_keep_arriving() {
    play(&app(ONE, "timeout head=3s;"), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        let start = Instant::now();
        for part in ["GET / HT", "TP/1.1\r\nHo", "st: a\r\nX-"] {
            client.send(part).await;
            sleep(seconds(1)).await;
        }
        let response = client.message().await;
        assert_eq!(start.elapsed(), seconds(3));
        assert_eq!((response.status(), response.header("connection")), (408, Some("close")));
        client.expect_closed().await;
        origin.expect_no_connection().await;
        world.expect_logged("request_timeout", Some(408)).await;
    });
}

#[test]
fn a_connection_that_sends_nothing_is_closed_without_a_response() {
    play(&app(ONE, "timeout head=3s;"), async |world| {
        let start = Instant::now();
        world.client().await.expect_closed().await;
        assert_eq!(start.elapsed(), seconds(3));
        assert!(world.log().await.is_empty());
    });
}

#[test]
fn a_body_that_stalls_gets_408_and_the_origin_sees_no_end() {
    play(&app(ONE, "timeout body=7s;"), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc").await;
        let mut upstream = origin.accept().await;
        upstream.head().await;
        upstream.expect("abc").await;
        sleep(seconds(5)).await;
        client.send("def").await;
        upstream.expect("def").await;
        let start = Instant::now();
        let response = client.message().await;
        assert_eq!(start.elapsed(), seconds(7));
        assert_eq!((response.status(), response.header("connection")), (408, Some("close")));
        upstream.expect_end().await;
        world.expect_logged("body_timeout", Some(408)).await;
    });
}

#[test]
fn a_stalled_buffered_body_gets_408_and_reaches_no_origin() {
    play(&app("server 10.0.1.1:80; buffer_request 1m;", "timeout body=7s;"), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc").await;
        assert_eq!(client.message().await.status(), 408);
        origin.expect_no_connection().await;
        world.expect_logged("body_timeout", Some(408)).await;
    });
}

#[test]
fn an_idle_connection_is_closed_in_order() {
    play(&app(ONE, "timeout keepalive=20s;"), async |world| {
        world.origin(1).answers(OK);
        let mut client = world.client().await;
        for pause_ms in [0, 500, 19_999] {
            sleep(Duration::from_millis(pause_ms)).await;
            client.send(GET).await;
            assert_eq!(client.message().await.status(), 200);
        }
        let start = Instant::now();
        client.expect_closed().await;
        assert_eq!(start.elapsed(), seconds(20));
    });
}

#[test]
fn a_client_that_does_not_read_is_disconnected() {
    play(&app(ONE, "timeout send=9s;"), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(GET).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n").await;
        upstream.send_what_fits(1_000_000).await;
        sleep(seconds(10)).await;
        let (_, end) = upstream.rest().await;
        assert_eq!(end, End::Reset);
        let line = world.log_line().await;
        assert_eq!(line.text("cause"), "client_send_timeout");
        assert_eq!(line.number("status"), Some(200));
        assert!(line.number("t_data").unwrap() >= 9_000_000, "{line:?}");
        assert!(client.rest().await.0.len() < 1_000_000);
    });
}

/// The log names no bytes and no time of a body whose response was cut off.
#[test]
fn a_small_response_that_is_never_taken_is_logged_without_a_body() {
    play(&app(ONE, "timeout request=5s;"), async |world| {
        let answer =
            format!("HTTP/1.1 200 OK\r\nContent-Length: 1500\r\n\r\n{}", "x".repeat(1_500));
        world.origin(1).answers(&answer);
        let mut client = world.client().await;
        client.send(&GET.repeat(300)).await;
        sleep(seconds(6)).await;
        let lines = world.log().await;
        let (line, complete) = lines.split_last().unwrap();
        assert!(!complete.is_empty());
        assert!(complete.iter().all(|line| line.number("body_bytes_sent") == Some(1_500)));
        assert_eq!(
            (line.text("cause").as_str(), line.number("status")),
            ("total_timeout", Some(200))
        );
        assert_eq!((line.number("body_bytes_sent"), line.number("t_data")), (Some(0), None));
    });
}

#[test]
fn a_slow_reader_is_not_disconnected() {
    play(&app(ONE, "timeout send=9s;"), async |world| {
        world.origin(1).answers(&format!(
            "HTTP/1.1 200 OK\r\nContent-Length: 500000\r\n\r\n{}",
            "x".repeat(500_000)
        ));
        let mut client = world.client().await;
        client.send(GET).await;
        client.head().await;
        for _ in 0..10 {
            sleep(seconds(8)).await;
            client.exactly(50_000).await;
        }
        world.expect_logged("complete", Some(200)).await;
    });
}

#[test]
fn connects_that_hang_get_504_after_every_server_was_tried_once() {
    let pool = "server 10.0.1.1:80; server 10.0.1.2:80; timeout connect=5s;";
    play(&app(pool, ""), async |world| {
        world.connects(1, Some(Connects::Never));
        world.connects(2, Some(Connects::Never));
        let mut client = world.client().await;
        let start = Instant::now();
        client.send(GET).await;
        assert_eq!(client.message().await.status(), 504);
        assert_eq!(start.elapsed(), seconds(10));
        let line = world.log_line().await;
        assert_eq!(line.text("cause"), "connect_timeout");
        assert_eq!(line.number("attempts"), Some(2));
        assert_eq!((world.connect_count(1), world.connect_count(2)), (1, 1));
    });
}

#[test]
fn a_connect_that_hangs_is_followed_by_one_to_another_server() {
    let pool = "server 10.0.1.1:80; server 10.0.1.2:80; timeout connect=5s;";
    play(&app(pool, ""), async |world| {
        world.connects(1, Some(Connects::Never));
        world.origin(2).answers(OK);
        let mut client = world.client().await;
        client.send(GET).await;
        assert_eq!(client.message().await.status(), 200);
        let line = world.log_line().await;
        assert_eq!((line.text("cause").as_str(), line.number("attempts")), ("complete", Some(2)));
        assert_eq!(line.number("t_connect"), Some(5_000_000));
    });
}

#[test]
fn a_request_that_the_origin_does_not_read_gets_504() {
    play(&app("server 10.0.1.1:80; timeout send=9s;", "cause_header;"), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n").await;
        client.send_what_fits(1_000_000).await;
        let _upstream = origin.accept().await;
        let response = client.message().await;
        assert_eq!((response.status(), response.header("connection")), (504, Some("close")));
        assert_eq!(response.header("weir-cause"), Some("upstream_send_timeout"));
        world.expect_logged("upstream_send_timeout", Some(504)).await;
    });
}

#[test]
fn a_response_head_that_does_not_come_gets_504() {
    for begun in ["", "HTTP/1.1 200 OK\r\nContent-Le"] {
        play(&app("server 10.0.1.1:80; timeout response=9s;", ""), async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            let start = Instant::now();
            client.send(GET).await;
            let mut upstream = origin.accept().await;
            upstream.message().await;
            upstream.send(begun).await;
            let response = client.message().await;
            assert_eq!(start.elapsed(), seconds(9));
            assert_eq!(response.status(), 504);
            upstream.expect_end().await;
            world.expect_logged("response_timeout", Some(504)).await;
            assert!(client.is_open().await, "the client's connection is kept");
        });
    }
}

#[test]
fn a_response_body_that_stalls_is_broken_off_so_that_the_client_notices() {
    let heads = [
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "Content-Length: 9\r\n\r\nhello",
        "\r\nhello",
    ];
    for rest in heads {
        play(&app("server 10.0.1.1:80; timeout read=9s;", ""), async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            client.send(GET).await;
            let mut upstream = origin.accept().await;
            upstream.message().await;
            let start = Instant::now();
            upstream.send(format!("HTTP/1.1 200 OK\r\n{rest}")).await;
            let head = client.head().await;
            let (body, _) = client.rest().await;
            assert_eq!(start.elapsed(), seconds(9));
            let body = String::from_utf8(body).unwrap();
            assert!(body.contains("hello") && !body.contains("\r\n0\r\n"), "{body:?}");
            assert!(
                head.header("transfer-encoding").is_some()
                    || head.header("content-length") == Some("9")
            );
            upstream.expect_end().await;
            world.expect_logged("upstream_read_timeout", Some(200)).await;
        });
    }
}

#[test]
fn a_response_body_that_arrives_slowly_is_not_broken_off() {
    play(&app("server 10.0.1.1:80; timeout read=9s;", ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(GET).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").await;
        for letter in ["h", "e", "l", "l", "o"] {
            sleep(seconds(8)).await;
            upstream.send(letter).await;
        }
        assert_eq!(client.message().await.text(), "hello");
        world.expect_logged("complete", Some(200)).await;
    });
}

#[test]
fn a_tunnel_in_which_nothing_moves_is_closed() {
    play(&app("server 10.0.1.1:80; timeout tunnel=30s;", ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client
            .send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
            .await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream
            .send("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
            .await;
        assert_eq!(client.head().await.status(), 101);
        sleep(seconds(20)).await;
        client.send("ping").await;
        upstream.expect("ping").await;
        sleep(seconds(20)).await;
        upstream.send("pong").await;
        client.expect("pong").await;
        let start = Instant::now();
        client.expect_end().await;
        assert_eq!(start.elapsed(), seconds(30));
        upstream.expect_end().await;
        world.expect_logged("tunnel_timeout", Some(101)).await;
    });
}

#[test]
fn a_second_response_that_finds_no_room_is_abandoned_after_one_timeout() {
    play(&app("server 10.0.1.1:80; timeout read=1h;", "timeout send=9s;"), async |world| {
        let filling = 65_600;
        let body = "x".repeat(filling);
        world
            .origin(1)
            .answers(&format!("HTTP/1.1 200 OK\r\nContent-Length: {filling}\r\n\r\n{body}"));
        let mut client = world.client().await;
        client.send([GET, GET].concat()).await;
        sleep(seconds(1)).await;
        // Byte by byte, so that the first response ends while the buffers to the client are full.
        let first = loop {
            client.discard(1).await;
            if let [line] = &world.log().await[..] {
                break line.text("cause");
            }
        };
        assert_eq!(first, "complete");
        let start = Instant::now();
        sleep(seconds(10)).await;
        let line = world.log_line().await;
        assert_eq!(
            (line.text("cause").as_str(), line.number("status")),
            ("client_send_timeout", None)
        );
        assert!(start.elapsed() < seconds(11));
        client.rest().await;
    });
}

#[test]
fn the_next_head_on_a_connection_has_its_own_time() {
    play(&app(ONE, "timeout head=3s;"), async |world| {
        world.origin(1).answers(OK);
        for behind in [true, false] {
            let mut client = world.client().await;
            client.send(GET).await;
            if !behind {
                client.message().await;
                sleep(seconds(20)).await;
            }
            let start = Instant::now();
            client.send("GET / HT").await;
            if behind {
                client.message().await;
            }
            let response = client.message().await;
            assert_eq!((response.status(), start.elapsed()), (408, seconds(3)));
            assert_eq!(world.log().await.len(), 2);
        }
    });
}
