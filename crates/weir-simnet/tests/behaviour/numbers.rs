//! Statistics: the counts of exchanges and the records of slow ones. Every scenario checks that
//! each exchange with a log line is counted once (`World::expect_settled`).

use std::time::Duration;

use tokio::time::Instant;
use weir_stats::metrics::{EndpointFigures, Phase};
use weir_stats::{Cause, ExchangeRecord};

use crate::world::{Connects, World, app, pass, play, slow_exchange};
use crate::{GET, OK};

const ONE: &str = "server 10.0.1.1:80 name=one;";

fn now_us(world: &World) -> u64 {
    world.process.balance_clock(Instant::now())
}

/// Returns the record of the exchange with the only log line since the last call.
async fn why(world: &World) -> ExchangeRecord {
    let id = world.log_line().await.text("request_id");
    world.process.numbers.why(&id, now_us(world)).expect("the record is recent")
}

#[test]
fn every_phase_is_recorded_in_the_histograms_of_route_and_endpoint() {
    play(&app(ONE, ""), async |world| {
        let (mut client, _upstream) = slow_exchange(world).await;
        client.message().await;
        world.log().await;
        let figures = world.process.numbers.read();
        let listener = world.snapshot().listeners[0].name.to_string();
        for phases in [
            figures.phases_of_listener(&listener),
            figures.phases_of_pool("app"),
            figures.phases_of_endpoint("app", "one"),
        ] {
            // In virtual time only waiting takes time, so Weir's own share is zero.
            let expected = [20, 0, 40, 300, 70, 430, 0];
            for ((phase, found), millis) in phases.each().zip(expected) {
                assert_eq!((found.count(), found.sum_us()), (1, millis * 1_000), "{phase:?}");
            }
        }
        assert_eq!(figures.tally_of_endpoint("app", "one").of_class(2), 1);
        assert_eq!(figures.listeners[0].accepted, 1);
    });
}

#[test]
fn weir_s_own_time_excludes_its_waits() {
    let pool =
        format!("{ONE} queue timeout=1m; buffer_request 1k;").replace(":80 ", ":80 max_conn=1 ");
    play(&app(&pool, ""), async |world| {
        let _seen = world.origin(1).answers_after(Duration::from_millis(80), OK);
        let mut clients = Vec::new();
        for _ in 0..3 {
            let mut client = world.client().await;
            client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n").await;
            clients.push(client);
        }
        pass(50).await;
        for client in &mut clients {
            client.send("hi").await;
        }
        for client in &mut clients {
            assert_eq!(client.message().await.status(), 200);
        }
        world.log().await;
        let phases = world.process.numbers.read().phases_of_pool("app");
        assert_eq!((phases.of(Phase::Own).count(), phases.of(Phase::Own).sum_us()), (3, 0));
        assert_eq!(phases.of(Phase::Queue).sum_us(), 240_000);
        assert_eq!(phases.of(Phase::Total).max_us() / 1_000, 290);
    });
}

#[test]
fn a_slow_request_is_explained_by_its_id() {
    let pool = "server 10.0.1.1:80 name=one max_conn=1; queue timeout=1m;";
    play(&app(pool, ""), async |world| {
        let _seen = world.origin(1).answers_after(Duration::from_millis(200), OK);
        let mut clients = Vec::new();
        for target in ["/first", "/second", "/third"] {
            let mut client = world.client().await;
            client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
            pass(1).await;
            clients.push(client);
        }
        for client in &mut clients {
            client.message().await;
        }
        let lines = world.log().await;
        let third = lines.iter().find(|line| line.text("target") == "/third").unwrap();
        let record = world.process.numbers.why(&third.text("request_id"), now_us(world)).unwrap();
        assert!(record.whole);
        assert_eq!(
            (&*record.target, &*record.endpoint, record.queue_position),
            ("/third", "one", 2)
        );
        let told = record.explain();
        let second = lines.iter().find(|line| line.text("target") == "/second").unwrap();
        let ahead = second.text("request_id");
        let expected = format!(
            "GET /third took 598.0 ms. It waited 398.0 ms (66 %) in the queue of pool app for a free place; one request was \
             ahead of it on arrival ({ahead}). Endpoint one took 200.0 ms (33 %) to answer."
        );
        assert!(told.starts_with(&expected), "{told}");
        let slowest = world.process.numbers.slowest(None, now_us(world));
        let targets: Vec<&str> = slowest.iter().map(|record| &*record.target).collect();
        assert_eq!(targets, ["/third", "/second", "/first"]);
        pass(16 * 60 * 1_000).await;
        assert!(world.process.numbers.slowest(None, now_us(world)).is_empty());
        let later = world.process.numbers.why(&third.text("request_id"), now_us(world)).unwrap();
        assert_eq!((later.whole, later.times.queue.reached()), (false, Some(398_000)));
        assert_eq!((&*later.method, &*later.target), ("GET", "/third"));
        assert!(later.client.starts_with("192.0.2."), "{}", later.client);
    });
}

#[test]
fn failed_attempts_count_at_their_endpoint_and_are_shown() {
    let pool = "server 10.0.1.1:80 name=one; server 10.0.1.2:80 name=two; retry 1 on=connect;";
    play(&app(pool, ""), async |world| {
        world.connects(1, Some(Connects::Refused));
        let _seen = world.origin(2).answers(OK);
        let mut client = world.client().await;
        client.send(GET).await;
        client.message().await;
        let record = why(world).await;
        assert_eq!((record.attempts, &*record.failed_attempts[0].endpoint), (2, "one"));
        assert!(record.explain().contains("given up before: one (connect_failed)"));
        let figures = world.process.numbers.read();
        let given_up = |one: &EndpointFigures| {
            (one.given_up.attempts, one.given_up.repeated, one.given_up.redispatched)
        };
        let given_up: Vec<_> = figures.endpoints.iter().map(given_up).collect();
        assert_eq!(given_up, [(1, 0, 1), (0, 0, 0)]);
        let tally = figures.tally_of_endpoint("app", "two");
        assert_eq!((tally.requests(), tally.attempts, tally.retried), (1, 2, 1));
        assert_eq!(figures.tally_of_endpoint("app", "one").requests(), 0);
    });
}

#[test]
fn a_retry_at_the_same_endpoint_is_no_redispatch() {
    let pool = "server 10.0.1.1:80 name=one; retry 2 on=refused backoff=1ms;";
    play(&app(pool, ""), async |world| {
        world.connects(1, Some(Connects::Refused));
        let mut client = world.client().await;
        client.send(GET).await;
        assert_eq!(client.message().await.status(), 502);
        why(world).await;
        let given_up = world.process.numbers.read().given_up(|one| one.endpoint == "one");
        assert_eq!((given_up.attempts, given_up.repeated, given_up.redispatched), (2, 2, 0));
    });
}

#[test]
fn local_replies_are_counted_with_their_cause() {
    let text = "listen 10.0.0.1:80 { route path /a -> respond 204; route path /b -> app; } pool app { server 10.0.1.1:80; }";
    play(text, async |world| {
        world.connects(1, Some(Connects::Refused));
        for request in [
            "GET /a HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /b HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /c HTTP/1.1\r\nHost: a\r\n\r\n",
            "nonsense\r\n\r\n",
        ] {
            let mut client = world.client().await;
            client.send(request).await;
            client.message().await;
        }
        world.log().await;
        let figures = world.process.numbers.read();
        let all = figures.tally(|_| true);
        for cause in [Cause::Local, Cause::ConnectFailed, Cause::NoRoute, Cause::BadRequest] {
            assert_eq!(all.of_cause(cause), 1, "{cause:?}");
        }
        let without_route = figures.tally(|cell| cell.route.is_empty());
        assert_eq!(without_route.requests(), 2);
        let codes: Vec<_> = all.codes().collect();
        let expected = ["204", "400", "404", "502"].map(|code| (code.to_owned(), 1));
        assert_eq!(codes, expected);
    });
}
