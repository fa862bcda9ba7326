//! Clients that leave: their exchanges end at once and release their slots.

use std::time::Duration;

use tokio::time::sleep;

use crate::interim::tunnel;
use crate::world::{Connects, app, play};
use crate::{GET, OK};

const ONE: &str = "server 10.0.1.1:80 max_conn=1;";

#[test]
fn a_client_that_leaves_while_it_waits_frees_its_slot_at_once() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(GET).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        assert_eq!(world.in_flight(), 1);
        drop(client);
        sleep(Duration::from_millis(1)).await;
        assert_eq!(world.in_flight(), 0);
        upstream.expect_end().await;
        world.expect_logged("client_gone", Some(499)).await;
        let mut next = world.client().await;
        next.send(GET).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send(OK).await;
        assert_eq!(next.message().await.status(), 200);
    });
}

#[test]
fn a_client_that_leaves_inside_its_upload_ends_the_upload_unfinished() {
    for framing in
        ["Content-Length: 10\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"]
    {
        play(&app(ONE, ""), async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}")).await;
            let mut upstream = origin.accept().await;
            upstream.head().await;
            drop(client);
            let (body, _) = upstream.rest().await;
            let body = String::from_utf8(body).unwrap();
            assert!(body.contains("hello") && !body.contains("0\r\n\r\n"), "{body:?}");
            assert_eq!(world.in_flight(), 0);
            world.expect_logged("client_gone", Some(499)).await;
        });
    }
}

#[test]
fn a_client_that_leaves_inside_its_response_ends_the_response() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(GET).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhello").await;
        client.head().await;
        drop(client);
        upstream.send("more").await;
        sleep(Duration::from_millis(1)).await;
        upstream.send("more").await;
        upstream.expect_end().await;
        assert_eq!(world.in_flight(), 0);
        world.expect_logged("client_gone", Some(200)).await;
    });
}

#[test]
fn a_client_that_leaves_a_quiet_stream_ends_it_at_once() {
    play(&app("server 10.0.1.1:80 max_conn=1; timeout read=1h;", ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(GET).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream
            .send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
            .await;
        client.head().await;
        assert_eq!(client.chunk().await.as_deref(), Some("data: 1\n\n"));
        drop(client);
        sleep(Duration::from_secs(1)).await;
        assert_eq!(world.in_flight(), 0, "a stream without a client holds no slot");
        upstream.expect_end().await;
        world.expect_logged("client_gone", Some(200)).await;
    });
}

#[test]
fn a_client_that_leaves_during_the_connect_ends_it_at_once() {
    play(&app(ONE, ""), async |world| {
        world.connects(1, Some(Connects::Never));
        let mut client = world.client().await;
        client.send(GET).await;
        sleep(Duration::from_secs(1)).await;
        assert_eq!(world.in_flight(), 1);
        drop(client);
        sleep(Duration::from_secs(1)).await;
        assert_eq!(world.in_flight(), 0);
        world.expect_logged("client_gone", Some(499)).await;
    });
}

#[test]
fn a_client_that_leaves_inside_its_head_is_logged_and_one_that_sent_nothing_is_not() {
    play(&app(ONE, ""), async |world| {
        drop(world.client().await);
        assert!(world.log().await.is_empty());
        let mut client = world.client().await;
        client.send("GET / HT").await;
        drop(client);
        world.expect_logged("client_gone", Some(499)).await;
    });
}

#[test]
fn a_buffered_request_whose_client_leaves_reaches_no_origin() {
    play(&app("server 10.0.1.1:80; buffer_request 1m;", ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello").await;
        drop(client);
        origin.expect_no_connection().await;
        world.expect_logged("client_gone", Some(499)).await;
    });
}

#[test]
fn pipelined_requests_are_complete_if_the_client_leaves_after_their_responses() {
    play(&app("server 10.0.1.1:80;", ""), async |world| {
        let seen = world.origin(1).answers(OK);
        let mut client = world.client().await;
        client.send([GET, GET].concat()).await;
        assert_eq!((client.message().await.status(), client.message().await.status()), (200, 200));
        drop(client);
        assert_eq!(seen.borrow().requests.len(), 2);
        assert!(world.log().await.iter().all(|line| line.text("cause") == "complete"));
    });
}

/// Returns pipelined requests of more than the 16 KB that Weir reads ahead.
fn pipelined() -> String {
    GET.repeat(700)
}

#[test]
fn a_client_that_leaves_the_queue_is_noticed_behind_pipelined_bytes() {
    play(&app(&format!("{ONE} queue timeout=1h; timeout response=1h;"), ""), async |world| {
        let origin = world.origin(1);
        let mut first = world.client().await;
        first.send(GET).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        for leaves in [true, false] {
            let mut client = world.client().await;
            client.send(GET).await;
            client.send(pipelined()).await;
            sleep(Duration::from_millis(1)).await;
            assert_eq!(world.waiting(), 1);
            // A reset, or an orderly close.
            if leaves {
                drop(client);
                sleep(Duration::from_millis(1)).await;
            } else {
                client.finish().await;
                sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(world.waiting(), 0, "{leaves}");
            world.expect_logged("client_gone", Some(499)).await;
        }
        upstream.send(OK).await;
        assert_eq!(first.message().await.status(), 200);
    });
}

#[test]
fn a_client_that_leaves_the_queue_is_noticed_behind_its_body() {
    play(&app(&format!("{ONE} queue timeout=1h; timeout response=1h;"), ""), async |world| {
        let origin = world.origin(1);
        let mut first = world.client().await;
        first.send(GET).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        for framing in
            ["Content-Length: 80000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n13880\r\n"]
        {
            let mut client = world.client().await;
            client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}")).await;
            client.send_what_fits(80_000).await;
            sleep(Duration::from_millis(1)).await;
            assert_eq!(world.waiting(), 1);
            drop(client);
            sleep(Duration::from_millis(1)).await;
            assert_eq!(world.waiting(), 0, "{framing}");
            world.expect_logged("client_gone", Some(499)).await;
        }
        upstream.send(OK).await;
        assert_eq!(first.message().await.status(), 200);
    });
}

#[test]
fn a_client_that_leaves_is_noticed_behind_pipelined_requests_while_an_endpoint_is_silent() {
    play(&app(&format!("{ONE} timeout response=1h read=1h;"), ""), async |world| {
        let origin = world.origin(1);
        for head in ["", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhello"] {
            let mut client = world.client().await;
            client.send(GET).await;
            client.send(pipelined()).await;
            let mut upstream = origin.accept().await;
            upstream.message().await;
            upstream.send(head).await;
            sleep(Duration::from_millis(1)).await;
            drop(client);
            sleep(Duration::from_millis(1)).await;
            assert_eq!(world.in_flight(), 0, "{head:?}");
            upstream.expect_end().await;
            let status = if head.is_empty() { 499 } else { 200 };
            world.expect_logged("client_gone", Some(status)).await;
        }
    });
}

#[test]
fn a_client_that_leaves_during_an_upload_that_is_not_read_is_noticed() {
    play(&app(&format!("{ONE} timeout send=1h response=1h read=1h;"), ""), async |world| {
        let origin = world.origin(1);
        for answer in ["", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhello"] {
            let mut client = world.client().await;
            client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n").await;
            let mut upstream = origin.accept().await;
            upstream.send(answer).await;
            let sent = client.send_what_fits(9_000_000).await;
            assert!(sent < 9_000_000);
            assert_eq!(world.in_flight(), 1);
            drop(client);
            sleep(Duration::from_millis(1)).await;
            assert_eq!(world.in_flight(), 0, "{answer:?}");
            let status = if answer.is_empty() { 499 } else { 200 };
            world.expect_logged("client_gone", Some(status)).await;
        }
    });
}

#[test]
fn pipelined_requests_that_were_left_unread_are_answered_in_order() {
    play(&app(&format!("{ONE} timeout response=1h;"), ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(GET).await;
        client.send(pipelined()).await;
        let mut upstream = origin.accept().await;
        sleep(Duration::from_secs(1)).await;
        for _ in 0..701 {
            upstream.message().await;
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
        }
    });
}

#[test]
fn a_reset_of_one_side_ends_a_tunnel_even_if_nothing_is_read() {
    for client_leaves in [true, false] {
        play(&app(ONE, ""), async |world| {
            let (client, upstream) = tunnel(world, "", "").await;
            // A close with unread bytes sends a reset.
            let (mut leaver, mut deaf) =
                if client_leaves { (client, upstream) } else { (upstream, client) };
            deaf.send("unread").await;
            leaver.send_what_fits(10_000_000).await;
            sleep(Duration::from_millis(10)).await;
            assert_eq!(world.in_flight(), 1);
            drop(leaver);
            sleep(Duration::from_millis(10)).await;
            assert_eq!(world.in_flight(), 0);
            let side = if client_leaves { "client" } else { "upstream" };
            world.expect_logged(&format!("tunnel_{side}_reset"), Some(101)).await;
        });
    }
}

#[test]
fn a_reset_after_a_half_close_ends_a_tunnel_soon() {
    play(&app(ONE, ""), async |world| {
        let (mut client, mut upstream) = tunnel(world, "", "").await;
        client.finish().await;
        upstream.expect_end().await;
        sleep(Duration::from_secs(5)).await;
        assert_eq!(world.in_flight(), 1, "the end of one direction is not the end of the other");
        upstream.send("unread").await;
        sleep(Duration::from_millis(10)).await;
        drop(client);
        sleep(Duration::from_millis(1_500)).await;
        assert_eq!(world.in_flight(), 0);
    });
}
