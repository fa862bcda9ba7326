//! Explanations of a request: the requests ahead of it, the choice of the endpoint, and the waits
//! inside the phases. They are in the log, in the record of slow requests, and in a response header
//! for clients that know the secret.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use weir_balance::AdminState;
use weir_balance::ChosenBy;
use weir_stats::{ExchangeRecord, WaitedFor};

use crate::peer::Peer;
use crate::world::{Connects, World, app, play};
use crate::{GET, OK};

async fn pass(millis: u64) {
    sleep(Duration::from_millis(millis)).await;
}

async fn asks(world: &World, target: &str, lines: &str) -> Peer {
    let mut client = world.client().await;
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{lines}\r\n")).await;
    pass(1).await;
    client
}

fn record(world: &World, id: &str) -> ExchangeRecord {
    let now_us = world.process.balance_clock(Instant::now());
    world.process.numbers.why(id, now_us).expect("the record is recent")
}

#[test]
fn the_requests_ahead_and_the_server_that_became_free_are_named() {
    let pool = "server 10.0.1.1:80 name=one max_conn=1; queue timeout=1m;";
    play(&app(pool, "trusted_proxies 192.0.2.0/24;"), async |world| {
        let _seen = world.origin(1).answers_after(Duration::from_millis(100), OK);
        let mut clients = Vec::new();
        for number in 0..8 {
            clients.push(asks(world, "/", &format!("X-Request-Id: id-{number}\r\n")).await);
        }
        for client in &mut clients {
            client.message().await;
        }
        let last = record(world, "id-7");
        assert_eq!((last.queue_position, last.waited_for), (7, WaitedFor::AnyEndpoint));
        assert_eq!(last.ahead, ["id-1", "id-2", "id-3", "id-4"]);
        assert_eq!((last.chosen_by, &*last.policy), (ChosenBy::Freed, "round_robin"));
        let told = last.explain();
        assert!(
            told.contains(
                "6 requests were ahead of it on arrival (id-1, id-2, id-3, id-4 and 2 more)"
            ),
            "{told}"
        );
        assert!(told.contains("led to pool app; the next free place was at one ("), "{told}");
        let lines = world.log().await;
        let line = lines.iter().find(|line| line.text("request_id") == "id-2").unwrap();
        assert_eq!((&*line.list("ahead"), &*line.text("waited_for")), ("id-1", "any_endpoint"));
    });
}

#[test]
fn the_runner_up_is_shown_with_its_load() {
    let pool = "balance least_conn; server 10.0.1.1:80 name=one; server 10.0.1.2:80 name=two weight=2; server 10.0.1.3:80 name=three;";
    play(&app(pool, ""), async |world| {
        let _seen = [1, 2, 3]
            .map(|number| world.origin(number).answers_after(Duration::from_millis(500), OK));
        let mut clients = Vec::new();
        for _ in 0..6 {
            clients.push(asks(world, "/", "").await);
        }
        for client in &mut clients {
            client.message().await;
        }
        let lines = world.log().await;
        let records = lines.iter().map(|line| record(world, &line.text("request_id")));
        let records: Vec<ExchangeRecord> = records.collect();
        for (record, line) in records.iter().zip(&lines) {
            let other = record.runner_up.as_ref().unwrap();
            let found = record.load * other.weight;
            assert!(found <= other.load.unwrap() * record.weight, "{record:?}");
            assert_ne!(other.endpoint, record.endpoint);
            assert_eq!(line.text("runner_up"), other.endpoint);
        }
        // The third request found the other two servers busy.
        assert!(records.iter().any(|record| record.chosen_by == ChosenBy::Better), "{records:?}");
        let first = &records[0];
        let other = first.runner_up.as_ref().unwrap();
        let told = first.explain();
        let expected = format!("over its equal {} (0 in flight", other.endpoint);
        assert!(first.chosen_by == ChosenBy::Turn && told.contains(&expected), "{told}");
    });
}

#[test]
fn the_second_choice_of_a_key_is_looked_up_for_slow_requests() {
    let pool = "balance hash $arg_k; server 10.0.1.1:80 name=one; server 10.0.1.2:80 name=two;";
    play(&app(pool, ""), async |world| {
        let _seen = [1, 2].map(|number| world.origin(number).answers(OK));
        asks(world, "/?k=7", "").await.message().await;
        let slow = record(world, &world.log_line().await.text("request_id"));
        let other = slow.runner_up.as_ref().unwrap();
        assert_eq!((slow.chosen_by, other.load), (ChosenBy::Key, None));
        let told = slow.explain();
        let expected = format!("its second choice is {}", other.endpoint);
        assert!(other.endpoint != slow.endpoint && told.contains(&expected), "{told}");
    });
}

#[test]
fn a_wait_for_the_server_of_a_cookie_is_explained() {
    let pool = "server 10.0.1.1:80 name=one max_conn=1; server 10.0.1.2:80 name=two max_conn=1; \
                sticky cookie SRV insert; queue timeout=1m;";
    play(&app(pool, ""), async |world| {
        let _seen =
            [1, 2].map(|number| world.origin(number).answers_after(Duration::from_millis(300), OK));
        let first = asks(world, "/", "").await.message().await;
        let cookie = first.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        let line = format!("Cookie: {cookie}\r\n");
        let mut clients = [asks(world, "/", &line).await, asks(world, "/", &line).await];
        for client in &mut clients {
            client.message().await;
        }
        let lines = world.log().await;
        let [_, second, third] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!((&*second.text("chosen_by"), &*second.text("waited_for")), ("sticky", "null"));
        assert_eq!((&*third.text("chosen_by"), &*third.text("waited_for")), ("sticky", "sticky"));
        let told = record(world, &third.text("request_id")).explain();
        assert!(told.contains("for a place at the one server that its cookie names"), "{told}");
    });
}

#[test]
fn the_times_of_failed_attempts_and_of_a_slow_client_are_shown_separately() {
    let pool = "server 10.0.1.1:80 name=one; server 10.0.1.2:80 name=two; retry 1 on=connect; timeout connect=2s;";
    play(&app(pool, ""), async |world| {
        world.connects(1, Some(Connects::Never));
        let origin = world.origin(2);
        let mut client = asks(world, "/", "").await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        // More than the network and Weir's buffer hold, so that both kinds of waiting for the
        // client occur.
        let length = 400_000;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        let sender = tokio::task::spawn_local(async move {
            upstream.send(head + &"x".repeat(length)).await;
            upstream
        });
        pass(3_000).await;
        assert_eq!(client.message().await.body.len(), length);
        drop(sender.await.unwrap());
        let line = world.log_line().await;
        assert_eq!(line.number("t_retry"), Some(2_000_000), "{line:?}");
        let blocked = line.number("t_client").unwrap();
        assert!((2_990_000..3_001_000).contains(&blocked), "{line:?}");
        let told = record(world, &line.text("request_id")).explain();
        assert!(told.contains("2.00 s of it with attempts that failed"), "{told}");
        assert!(told.contains("in which the client took nothing"), "{told}");
    });
}

/// Returns the value of the header, if it is present.
async fn why(world: &World, target: &str, lines: &str) -> Option<String> {
    let answer = asks(world, target, lines).await.message().await;
    answer.header("weir-why").map(str::to_owned)
}

#[test]
fn a_request_with_the_secret_gets_the_explanation_in_a_header_and_no_other_does() {
    let listener = "explain_header when=X-Explain=s3cret; route path /own -> respond 403;";
    play(
        &app("server 10.0.1.1:80 name=one; server 10.0.1.2:80 name=two;", listener),
        async |world| {
            let _seen = [1, 2].map(|number| world.origin(number).answers(OK));
            for lines in ["", "X-Explain: s3cre\r\n", "X-Explain:\r\n", "X-Other: s3cret\r\n"] {
                assert_eq!(why(world, "/", lines).await, None, "{lines}");
            }
            let secret = "x-explain: s3cret\r\n";
            let told = why(world, "/", secret).await.unwrap();
            let expected = "pool=app server=one policy=round_robin by=turn load=0/1 over=two request=0 connect=0 response=";
            assert!(told.starts_with("route=") && told.contains(expected), "{told}");
            let own = why(world, "/own", secret).await.unwrap();
            assert!(own.starts_with("route=") && !own.contains("pool="), "{own}");
            for number in 0..2 {
                let now_us = world.process.balance_clock(Instant::now());
                world.pool().balancer.set_admin_state(number, AdminState::Maintenance, now_us);
            }
            let refused = why(world, "/", secret).await.unwrap();
            assert!(refused.contains("pool=app") && !refused.contains("server="), "{refused}");
        },
    );
}

#[test]
fn only_trusted_proxies_get_the_explanation_if_so_configured() {
    for (network, told) in [("192.0.2.0/24", true), ("10.9.0.0/16", false)] {
        let listener = format!("explain_header X-Why trusted; trusted_proxies {network};");
        play(&app("server 10.0.1.1:80;", &listener), async |world| {
            let _seen = world.origin(1).answers(OK);
            let mut client = world.client().await;
            client.send(GET).await;
            assert_eq!(client.message().await.header("x-why").is_some(), told);
        });
    }
}

#[test]
fn the_explanation_is_a_variable_for_logs_and_headers() {
    let listener = "route -> app { response_header set X-Split $why; };";
    play(
        &app("server 10.0.1.1:80 name=one; server 10.0.1.2:80 name=two;", listener),
        async |world| {
            let _seen = [1, 2].map(|number| world.origin(number).answers(OK));
            let answer = asks(world, "/", "").await.message().await;
            let told = answer.header("x-split").unwrap();
            assert!(
                told.contains("server=one policy=round_robin by=turn load=0/1 over=two"),
                "{told}"
            );
        },
    );
}
