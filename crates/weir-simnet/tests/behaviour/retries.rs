//! Retries: an attempt that failed before any byte of the response reached the client is repeated
//! if `retry` says so, but never if the request could take effect twice, and never beyond the
//! budget (law 7).

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::origin::Origin;
use crate::peer::Peer;
use crate::world::{Connects, World, app, play};
use crate::{GET, OK};

const TWO: &str = "server 10.0.1.1:80; server 10.0.1.2:80;";
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
const PUT: &str = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
const EMPTY: &str = "HTTP/1.1 204 No Content\r\n\r\n";
const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy";

fn two(retry: &str) -> String {
    app(&format!("{TWO} retry {retry};"), "")
}

/// Returns both origins of [`TWO`]; the first is tried first.
fn both(world: &World) -> (Origin, Origin) {
    (world.origin(1), world.origin(2))
}

/// Reads the next request at an origin and closes the connection.
async fn drop_one(origin: &Origin) {
    let mut upstream = origin.accept().await;
    upstream.message().await;
}

async fn answer(origin: &Origin, response: &str) -> Peer {
    let mut upstream = origin.accept().await;
    upstream.message().await;
    upstream.send(response).await;
    upstream
}

/// Checks cause and attempts in the only log line since the last call.
async fn expect_attempts(world: &World, cause: &str, attempts: u64, failed: &str) {
    let line = world.log_line().await;
    let found = (line.text("cause"), line.number("attempts"), line.list("failed_attempts"));
    assert_eq!(found, (cause.to_owned(), Some(attempts), failed.to_owned()), "{line:?}");
}

#[test]
fn retries_once_when_endpoint_resets_before_head() {
    play(&two("1 on=reset"), async |world| {
        let (first, second) = both(world);
        let mut client = world.client().await;
        for part in ["", "HTTP/1.1 200 OK\r\nContent-"] {
            client.send(GET).await;
            let mut upstream = first.accept().await;
            upstream.message().await;
            upstream.send(part).await;
            drop(upstream);
            let mut upstream = answer(&second, OK).await;
            assert_eq!(client.message().await.text(), "ok");
            expect_attempts(world, "complete", 2, "10.0.1.1:80=upstream_reset").await;
            // The next turn is the first server's again, and then the second is tried again.
            upstream.expect_silence(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn failures_that_are_not_configured_are_not_retried() {
    play(&two("2 on=connect,timeout,503"), async |world| {
        let (first, second) = both(world);
        let mut client = world.client().await;
        client.send(GET).await;
        drop_one(&first).await;
        assert_eq!(client.message().await.status(), 502);
        second.expect_no_connection().await;
        expect_attempts(world, "upstream_reset", 1, "").await;
    });
}

#[test]
fn a_post_is_not_retried_once_bytes_of_it_went_upstream() {
    play(&two("2 on=connect,reset,timeout,503"), async |world| {
        let (first, second) = both(world);
        let mut client = world.client().await;
        client.send(POST).await;
        drop_one(&first).await;
        assert_eq!(client.message().await.status(), 502);
        let mut client = world.client().await;
        client.send(POST).await;
        answer(&second, BUSY).await;
        assert_eq!(client.message().await.text(), "busy");
        first.expect_no_connection().await;
    });
}

#[test]
fn a_post_is_retried_if_the_configuration_allows_it() {
    play(&two("1 on=reset non_idempotent"), async |world| {
        let (first, second) = both(world);
        let mut client = world.client().await;
        client.send(POST).await;
        drop_one(&first).await;
        let mut upstream = second.accept().await;
        assert_eq!(upstream.message().await.text(), "hi");
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
    });
}

#[test]
fn a_body_that_arrives_while_it_is_sent_is_sent_again_from_its_beginning() {
    play(&two("1 on=reset"), async |world| {
        let (first, second) = both(world);
        let mut client = world.client().await;
        client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello").await;
        let mut upstream = first.accept().await;
        upstream.head().await;
        upstream.expect("hello").await;
        client.send("wor").await;
        upstream.expect("wor").await;
        drop(upstream);
        let mut upstream = second.accept().await;
        upstream.head().await;
        upstream.expect("hellowor").await;
        // The rest, and a request behind it.
        client.send(["ld", GET].concat()).await;
        upstream.expect("ld").await;
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
        answer(&first, OK).await;
        assert_eq!(client.message().await.status(), 200);
        let lines = world.log().await;
        assert_eq!(lines[0].list("failed_attempts"), "10.0.1.1:80=upstream_reset");
        assert_eq!(lines[1].number("attempts"), Some(1));
    });
}

#[test]
fn chunks_and_trailers_are_sent_again() {
    play(&two("1 on=reset"), async |world| {
        let (first, second) = both(world);
        let mut client = world.client().await;
        client.send("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        client.send("3\r\nabc\r\n").await;
        let mut upstream = first.accept().await;
        upstream.head().await;
        assert_eq!(upstream.chunk().await.as_deref(), Some("abc"));
        client.send(["2\r\nde\r\n0\r\nX-Sum: 5\r\n\r\n", GET].concat()).await;
        assert_eq!(upstream.chunk().await.as_deref(), Some("de"));
        assert_eq!(upstream.chunk().await, None);
        assert_eq!(upstream.trailers().await, ["X-Sum: 5"]);
        drop(upstream);
        let mut upstream = second.accept().await;
        let request = upstream.message().await;
        assert_eq!((request.text(), &*request.trailers), ("abcde", &["X-Sum: 5".to_owned()][..]));
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
        answer(&first, OK).await;
        assert_eq!(client.message().await.status(), 200);
    });
}

#[test]
fn a_body_that_is_too_long_to_be_kept_is_not_sent_again() {
    for (bytes, status) in [(65_536, 200), (65_537, 502)] {
        play(&two("1 on=reset"), async |world| {
            let (first, second) = both(world);
            let mut client = world.client().await;
            let head = format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n");
            client.send(head).await;
            let mut upstream = first.accept().await;
            upstream.head().await;
            client.send(vec![b'x'; bytes]).await;
            upstream.discard(bytes).await;
            drop(upstream);
            if status == 200 {
                let mut upstream = second.accept().await;
                assert_eq!(upstream.message().await.text().len(), bytes);
                upstream.send(OK).await;
            } else {
                second.expect_no_connection().await;
            }
            assert_eq!(client.message().await.status(), status);
        });
    }
}

#[test]
fn a_body_that_was_buffered_is_sent_again() {
    let half = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello";
    play(&app(&format!("{TWO} retry 1 on=reset; buffer_request 1m;"), ""), async |world| {
        let (first, second) = both(world);
        let mut client = world.client().await;
        client.send(half).await;
        sleep(Duration::from_secs(1)).await;
        client.send("world").await;
        drop_one(&first).await;
        let mut upstream = second.accept().await;
        assert_eq!(upstream.message().await.text(), "helloworld");
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
    });
    play(&two("1 on=reset"), async |world| {
        let (first, second) = both(world);
        let mut client = world.client().await;
        // A pipelined request behind the body is not mixed up with it.
        client.send([PUT, GET].concat()).await;
        drop_one(&first).await;
        let mut upstream = second.accept().await;
        assert_eq!(upstream.message().await.text(), "hi");
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
        answer(&first, OK).await;
        assert_eq!(client.message().await.status(), 200);
    });
}

#[test]
fn a_response_of_a_configured_status_is_discarded_and_its_connection_kept() {
    play(&two("1 on=503"), async |world| {
        let (first, second) = both(world);
        let mut client = world.client().await;
        client.send(GET).await;
        let mut refused = answer(&first, BUSY).await;
        let mut served = answer(&second, OK).await;
        assert_eq!(client.message().await.text(), "ok");
        expect_attempts(world, "complete", 2, "10.0.1.1:80=503").await;
        client.send(GET).await;
        refused.message().await;
        refused.send(OK).await;
        assert_eq!(client.message().await.text(), "ok");
        assert!(served.is_open().await);
        assert_eq!(world.in_flight(), 0);
    });
}

#[test]
fn the_connection_of_an_incomplete_discarded_response_is_closed() {
    play(&two("1 on=503"), async |world| {
        let (first, second) = both(world);
        let mut client = world.client().await;
        client.send(GET).await;
        let part =
            "HTTP/1.1 503 Service Unavailable\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbusy";
        let mut refused = answer(&first, part).await;
        answer(&second, OK).await;
        assert_eq!(client.message().await.text(), "ok");
        refused.expect_end().await;
    });
}

#[test]
fn the_response_of_the_last_attempt_is_forwarded_whatever_its_status() {
    play(&two("1 on=503"), async |world| {
        let (first, second) = both(world);
        let mut client = world.client().await;
        client.send(GET).await;
        answer(&first, BUSY).await;
        answer(&second, &BUSY.replace("busy", "late")).await;
        let message = client.message().await;
        assert_eq!((message.status(), message.text()), (503, "late"));
        expect_attempts(world, "complete", 2, "10.0.1.1:80=503").await;
    });
}

#[test]
fn without_another_server_a_response_is_not_discarded() {
    for pool in ["server 10.0.1.1:80; retry 2 on=503;", "server 10.0.1.1:80; retry 0 on=503;"] {
        play(&app(pool, ""), async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            client.send(GET).await;
            answer(&origin, BUSY).await;
            assert_eq!(client.message().await.text(), "busy");
            expect_attempts(world, "complete", 1, "").await;
        });
    }
}

#[test]
fn a_server_that_does_not_answer_in_time_is_abandoned_for_another() {
    let pool = format!("{TWO} retry 1 on=timeout; timeout response=3s;");
    play(&app(&pool, ""), async |world| {
        let (first, second) = both(world);
        let mut client = world.client().await;
        client.send(GET).await;
        let mut slow = first.accept().await;
        slow.message().await;
        let mut upstream = second.accept().await;
        upstream.message().await;
        sleep(Duration::from_millis(20)).await;
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
        slow.expect_end().await;
        let line = world.log_line().await;
        assert_eq!(line.list("failed_attempts"), "10.0.1.1:80=response_timeout");
        line.expect_times(&[("t_queue", 0), ("t_connect", 3_000), ("t_response", 20)]);
    });
}

#[test]
fn a_connection_that_owes_a_response_is_not_used_again() {
    let pool = format!("{TWO} retry 1 on=timeout,reset; timeout response=3s;");
    play(&app(&pool, ""), async |world| {
        let (first, second) = both(world);
        let mut client = world.client().await;
        client.send(GET).await;
        let mut slow = answer(&first, EMPTY).await;
        assert_eq!(client.message().await.status(), 204);
        client.send(GET).await;
        let mut sound = answer(&second, EMPTY).await;
        assert_eq!(client.message().await.status(), 204);
        // No response in time: the request goes to the other server, and later bytes of the first
        // are discarded.
        client.send(GET).await;
        slow.message().await;
        sound.message().await;
        sound.send(EMPTY).await;
        assert_eq!(client.message().await.status(), 204);
        slow.expect_end().await;
        client.send(GET).await;
        let mut again = answer(&first, EMPTY).await;
        assert_eq!(client.message().await.status(), 204);
        // An incomplete head is no response either, whatever interim responses came before it.
        client.send(GET).await;
        sound.message().await;
        sound.send("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 2").await;
        sound.finish().await;
        again.message().await;
        again.send(EMPTY).await;
        assert_eq!(client.head().await.status(), 103);
        assert_eq!(client.message().await.status(), 204);
        sound.expect_end().await;
    });
}

#[test]
fn an_invalid_response_is_retried_if_configured() {
    play(&two("1 on=invalid"), async |world| {
        let (first, second) = both(world);
        let mut client = world.client().await;
        client.send(GET).await;
        answer(&first, "SSH-2.0-OpenSSH\r\n\r\n").await;
        answer(&second, OK).await;
        assert_eq!(client.message().await.status(), 200);
        expect_attempts(world, "complete", 2, "10.0.1.1:80=bad_response").await;
    });
}

#[test]
fn a_refused_connect_is_distinguished_from_a_connect_timeout() {
    let pool = format!("{TWO} retry 1 on=refused; timeout connect=1s;");
    for (manner, status) in [(Connects::Refused, 200), (Connects::Never, 504)] {
        play(&app(&pool, ""), async |world| {
            world.connects(1, Some(manner));
            world.origin(2).answers(OK);
            let mut client = world.client().await;
            client.send(GET).await;
            assert_eq!(client.message().await.status(), status);
        });
    }
}

#[test]
fn every_failed_attempt_is_logged() {
    let servers = "server 10.0.1.1:80; server 10.0.1.2:80; server 10.0.1.3:80;";
    let pool = format!("{servers} retry 3 on=connect,reset,503;");
    play(&app(&pool, ""), async |world| {
        world.connects(1, Some(Connects::Refused));
        let (second, third) = (world.origin(2), world.origin(3));
        let mut client = world.client().await;
        client.send(GET).await;
        answer(&second, BUSY).await;
        drop_one(&third).await;
        // All servers were tried, and none is tried twice.
        assert_eq!(client.message().await.status(), 502);
        let failed = "10.0.1.1:80=connect_failed,10.0.1.2:80=503";
        expect_attempts(world, "upstream_reset", 3, failed).await;
    });
}

#[test]
fn the_same_server_is_tried_again_after_a_while_if_no_other_is_left() {
    let pool = "server 10.0.1.1:80; retry 3 on=refused backoff=100ms; passive off;";
    play(&app(pool, ""), async |world| {
        world.connects(1, Some(Connects::Refused));
        let mut client = world.client().await;
        let mut waits = Vec::new();
        for _ in 0..20 {
            let asked = Instant::now();
            client.send(GET).await;
            assert_eq!(client.message().await.status(), 502);
            waits.push(asked.elapsed());
        }
        assert_eq!(world.connect_count(1), 80);
        let longest = Duration::from_millis(100 + 200 + 400);
        assert!(waits.iter().all(|wait| *wait <= longest + Duration::from_millis(3)), "{waits:?}");
        let mean = waits.iter().sum::<Duration>() / 20;
        assert!(mean > longest / 4 && mean < longest * 3 / 4, "full jitter: {mean:?}");
        let line = world.log().await.pop().unwrap();
        assert_eq!(line.number("attempts"), Some(4));
        assert_eq!(line.list("failed_attempts"), ["10.0.1.1:80=connect_failed"; 3].join(","));
    });
}

#[test]
fn other_servers_are_tried_before_the_same_one_and_without_waiting() {
    play(&two("2 on=refused backoff=1h"), async |world| {
        world.connects(1, Some(Connects::Refused));
        world.origin(2).answers(OK);
        let mut client = world.client().await;
        let asked = Instant::now();
        client.send(GET).await;
        assert_eq!(client.message().await.status(), 200);
        assert_eq!(asked.elapsed(), Duration::ZERO);
    });
}

#[test]
fn a_client_that_leaves_during_the_back_off_ends_it() {
    let pool = "server 10.0.1.1:80 max_conn=1; retry 1 on=refused backoff=1d;";
    for request in [GET, &PUT[..PUT.len() - 1]] {
        play(&app(pool, ""), async |world| {
            world.connects(1, Some(Connects::Refused));
            let mut client = world.client().await;
            client.send(request).await;
            sleep(Duration::from_millis(1)).await;
            assert_eq!(world.in_flight(), 0, "a wait holds no slot");
            drop(client);
            expect_attempts(world, "client_gone", 1, "10.0.1.1:80=connect_failed").await;
            assert_eq!(world.connect_count(1), 1);
        });
    }
}

#[test]
fn no_retry_begins_after_its_time() {
    let pool = format!("{TWO} retry 1 on=timeout within=2s; timeout response=1s;");
    play(&app(&pool, ""), async |world| {
        let (first, second) = both(world);
        let mut client = world.client().await;
        client.send(GET).await;
        let _silent = first.accept().await;
        answer(&second, OK).await;
        assert_eq!(client.message().await.status(), 200);
    });
    play(&app(&pool.replace("within=2s", "within=500ms"), ""), async |world| {
        let (first, second) = both(world);
        let mut client = world.client().await;
        client.send(GET).await;
        let _silent = first.accept().await;
        assert_eq!(client.message().await.status(), 504);
        second.expect_no_connection().await;
    });
}

/// Sends `count` requests on one connection, all of which fail.
async fn fail(world: &World, count: usize, status: u16) {
    let mut client = world.client().await;
    for _ in 0..count {
        client.send(GET).await;
        assert_eq!(client.message().await.status(), status);
    }
}

#[test]
fn the_budget_holds_under_total_failure() {
    // A tenth of the requests, and three per second over the window of ten seconds.
    let (requests, retries) = (500, 50 + 30);
    play(&format!("workers 3; {}", two("5 on=503 budget=10%")), async |world| {
        let seen = [1, 2].map(|number| world.origin(number).answers(BUSY));
        fail(world, requests, 503).await;
        let asked: usize = seen.iter().map(|seen| seen.borrow().requests.len()).sum();
        assert_eq!(asked, requests + retries);
    });
    let pool = format!("{TWO} retry 5 on=connect budget=10%; passive off;");
    play(&app(&pool, ""), async |world| {
        fail(world, requests, 502).await;
        assert_eq!(world.connect_count(1) + world.connect_count(2), requests + retries);
    });
}

#[test]
fn the_default_budget_limits_only_retries_of_requests_that_were_sent() {
    play(&two("1 on=503"), async |world| {
        let seen = [1, 2].map(|number| world.origin(number).answers(BUSY));
        fail(world, 500, 503).await;
        let asked: usize = seen.iter().map(|seen| seen.borrow().requests.len()).sum();
        assert_eq!(asked, 500 + 500 / 5 + 30);
    });
    play(&app(&format!("{TWO} retry 1; passive off;"), ""), async |world| {
        fail(world, 500, 502).await;
        assert_eq!(world.connect_count(1) + world.connect_count(2), 1_000);
    });
}
