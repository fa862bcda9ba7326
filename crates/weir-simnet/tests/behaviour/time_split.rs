//! The time split of a request, exactly: the network takes no time, and everything else takes the
//! time that the scenario sets.

use std::time::Duration;

use crate::world::{Connects, app, pass, play, slow_exchange};
use crate::{GET, OK};

const ONE: &str = "server 10.0.1.1:80;";

#[test]
fn every_phase_of_an_exchange_has_its_time() {
    play(&app(ONE, ""), async |world| {
        let (mut client, mut upstream) = slow_exchange(world).await;
        assert_eq!(client.message().await.text(), "here");
        let line = world.log_line().await;
        line.expect_times(&[
            ("t_handshake", 0),
            ("t_idle", 100),
            ("t_request", 20),
            ("t_queue", 0),
            ("t_connect", 40),
            ("t_response", 300),
            ("t_data", 70),
            ("t_active", 430),
            ("t_total", 530),
        ]);
        let before = 150;
        pass(2_000 - before).await;
        client.send(GET).await;
        upstream.message().await;
        pass(11).await;
        upstream.send(OK).await;
        client.message().await;
        world.log_line().await.expect_times(&[
            ("t_handshake", 0),
            ("t_idle", 2_000),
            ("t_request", 0),
            ("t_queue", 0),
            ("t_connect", 0),
            ("t_response", 11),
            ("t_data", 0),
            ("t_active", 11),
            ("t_total", 2_011),
        ]);
    });
}

#[test]
fn a_pipelined_request_has_no_idle_time() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send([GET, GET].concat()).await;
        let mut upstream = origin.accept().await;
        for millis in [30, 50] {
            upstream.message().await;
            pass(millis).await;
            upstream.send(OK).await;
        }
        client.message().await;
        client.message().await;
        let lines = world.log().await;
        lines[0].expect_times(&[("t_idle", 0), ("t_response", 30), ("t_total", 30)]);
        lines[1].expect_times(&[("t_idle", 0), ("t_response", 50), ("t_total", 50)]);
    });
}

#[test]
fn an_upload_ends_before_the_response_time_begins() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nhe").await;
        let mut upstream = origin.accept().await;
        pass(400).await;
        client.send("re").await;
        upstream.message().await;
        pass(25).await;
        upstream.send(OK).await;
        client.message().await;
        world.log_line().await.expect_times(&[
            ("t_request", 0),
            ("t_connect", 0),
            ("t_response", 25),
            ("t_total", 425),
        ]);
    });
}

#[test]
fn reading_a_buffered_body_does_not_count_for_the_server() {
    play(&app("server 10.0.1.1:80; buffer_request 1m;", ""), async |world| {
        let origin = world.origin(1);
        world.connects(1, Some(Connects::After(Duration::from_millis(7))));
        let mut client = world.client().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nhe").await;
        pass(400).await;
        client.send("re").await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        pass(25).await;
        upstream.send(OK).await;
        client.message().await;
        world.log_line().await.expect_times(&[
            ("t_queue", 0),
            ("t_connect", 7),
            ("t_response", 25),
            ("t_total", 432),
        ]);
    });
}

#[test]
fn phases_that_were_not_reached_have_no_time() {
    play(&app("server 10.0.1.1:80; timeout connect=3s; retry 0;", ""), async |world| {
        world.connects(1, Some(Connects::Never));
        let mut client = world.client().await;
        client.send(GET).await;
        client.message().await;
        let line = world.log_line().await;
        line.expect_times(&[("t_queue", 0), ("t_total", 3_000)]);
        for name in ["t_connect", "t_response", "t_data"] {
            assert_eq!(line.number(name), None, "{name}");
        }
    });
}
