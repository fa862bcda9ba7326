//! Recording and reading: every exchange is counted once, under its names, and found again by its
//! request id.

use weir_stats::metrics::{
    Asked, Done, Handshake, Keep, MetricsRegistry, Outcome, Phase, TransferredBytes,
};
use weir_stats::{Cause, ExchangeRecord, Micros, Times};

fn times(response_us: i64) -> Times {
    Times {
        handshake: Micros::ZERO,
        idle: Micros(1_000_000),
        request: Micros::ZERO,
        queue: Micros::ZERO,
        connect: Micros::ZERO,
        response: Micros(response_us),
        data: Micros(30),
        total: Micros(1_000_000 + response_us + 100),
        own: Micros(70),
    }
}

fn outcome(status: u16, cause: Cause) -> Outcome {
    Outcome {
        status,
        cause,
        bytes_received: 100,
        bytes_sent: 1_000,
        attempts: 1,
        ..Outcome::default()
    }
}

#[test]
fn every_exchange_counts_once_at_every_level() {
    let numbers = MetricsRegistry::new(2);
    let shop = numbers.route("web", "shop", "app");
    let static_files = numbers.route("web", "static", "");
    let (one, two) = (numbers.endpoint("app", "app1"), numbers.endpoint("app", "app2"));
    let listener = numbers.listener("web");
    for turn in 0..300_u64 {
        let (times, worker) = (times(turn as i64), turn as usize % 2);
        let done = |outcome| Done {
            request_id: b"",
            asked: Asked::default(),
            ended_us: turn,
            times: &times,
            outcome,
            counted: TransferredBytes::default(),
        };
        let complete = done(outcome(200, Cause::Complete));
        let (route, endpoint) = match turn % 3 {
            0 => (&*shop, Some(&*one)),
            1 => (&*shop, Some(&*two)),
            _ => (&*static_files, None),
        };
        let _ = numbers.record(worker, route, endpoint, &complete);
        if turn % 10 == 0 {
            let refused = done(outcome(503, Cause::QueueFull));
            let _ = numbers.record(worker, &shop, None, &refused);
            let unknown = done(outcome(404, Cause::NoRoute));
            let _ = numbers.record(worker, listener.routeless(), None, &unknown);
        }
    }
    let figures = numbers.read();
    assert_eq!(figures.tally_of_listener("web").requests(), 360);
    assert_eq!(figures.tally_of_pool("app").requests(), 230);
    assert_eq!(figures.tally_of_pool("app").of_cause(Cause::QueueFull), 30);
    assert_eq!(figures.tally_of_endpoint("app", "app2").of_class(2), 100);
    assert_eq!(figures.tally_of_pool("app").bytes_sent, 230_000);
    assert_eq!(figures.phases_of_listener("web").of(Phase::Total).count(), 360);
    assert_eq!(figures.phases_of_pool("app").of(Phase::Own).at_quantile(0.5), 70);
    assert_eq!(figures.phases_of_endpoint("app", "app1").of(Phase::Response).count(), 100);
    let idle_is_left_out = figures.phases_of_listener("web").of(Phase::Total).max_us();
    assert_eq!(idle_is_left_out, 399);
    assert_eq!(figures.workers.iter().map(|worker| worker.exchanges).sum::<u64>(), 360);
    let cells: Vec<_> = figures
        .cells
        .iter()
        .map(|cell| (&*cell.route, &*cell.endpoint, cell.tally.requests()))
        .collect();
    let expected = [
        ("", "", 30),
        ("shop", "", 30),
        ("static", "", 100),
        ("shop", "app1", 100),
        ("shop", "app2", 100),
    ];
    assert_eq!(cells, expected);
}

#[test]
fn names_find_their_counts_again_and_removed_names_are_bounded() {
    let numbers = MetricsRegistry::new(1);
    let record = |route: &str| {
        let (route, endpoint) =
            (numbers.route("web", route, "app"), numbers.endpoint("app", route));
        let times = times(5);
        let outcome = outcome(200, Cause::Complete);
        let done = Done {
            request_id: b"",
            asked: Asked::default(),
            ended_us: 0,
            times: &times,
            outcome,
            counted: TransferredBytes::default(),
        };
        let _ = numbers.record(0, &route, Some(&endpoint), &done);
    };
    record("kept");
    record("kept");
    assert_eq!(numbers.read().tally_of_pool("app").requests(), 2);
    let held = numbers.route("web", "kept", "app");
    let bytes = |numbers: &MetricsRegistry| numbers.read().histogram_bytes;
    let mut most = 0;
    for turn in 0..2_000 {
        record(&format!("route{turn}"));
        numbers.forget_removed();
        if turn % 100 == 99 {
            most = most.max(bytes(&numbers));
        }
    }
    let figures = numbers.read();
    assert!(
        figures.routes.len() <= 258 && figures.endpoints.len() <= 257,
        "{}",
        figures.routes.len()
    );
    assert!(figures.routes.iter().any(|route| route.route == "kept"));
    assert_eq!(most, bytes(&numbers), "memory stays flat");
    drop(held);
}

#[test]
fn a_slow_exchange_is_asked_for_whole_and_found_by_its_id() {
    let numbers = MetricsRegistry::new(2);
    let (route, endpoint) = (numbers.route("web", "shop", "app"), numbers.endpoint("app", "app1"));
    let record = |id: &str, response_us: i64, worker: usize| {
        let times = times(response_us);
        let outcome = outcome(200, Cause::Complete);
        let done = Done {
            request_id: id.as_bytes(),
            asked: Asked::default(),
            ended_us: 9,
            times: &times,
            outcome,
            counted: TransferredBytes::default(),
        };
        if numbers.record(worker, &route, Some(&endpoint), &done) == Keep::Whole {
            let record = ExchangeRecord {
                request_id: id.to_owned(),
                whole: true,
                times,
                target: "/cart".to_owned(),
                ended_us: 9,
                ..ExchangeRecord::default()
            };
            route.keep(worker, record);
        }
    };
    (0..1_000)
        .for_each(|turn| record(&format!("slow-{turn}"), 1_000_000 - turn, turn as usize % 2));
    (0..1_000).for_each(|turn| record(&format!("fast-{turn}"), turn, 1));
    let slowest = numbers.slowest(Some("shop"), 10);
    assert_eq!(slowest.len(), 16);
    assert_eq!(slowest[0].request_id, "slow-0");
    assert!(numbers.slowest(Some("other"), 10).is_empty());
    let whole = numbers.why("slow-1", 10).unwrap();
    assert_eq!((whole.whole, &*whole.target), (true, "/cart"));
    let recent = numbers.why("fast-77", 10).unwrap();
    assert_eq!(
        (recent.whole, &*recent.endpoint, &*recent.route, recent.worker),
        (false, "app1", "shop", 1)
    );
    assert_eq!(recent.elapsed_us(), 177);
    assert_eq!(recent.times.response, Micros(77));
    assert!(numbers.why("nobody", 10).is_none());
}

#[test]
fn tunnels_count_and_their_length_is_no_latency() {
    let numbers = MetricsRegistry::new(1);
    let route = numbers.route("web", "chat", "app");
    let times = times(3_000_000_000);
    let outcome = outcome(101, Cause::TunnelClosed);
    let done = Done {
        request_id: b"a",
        asked: Asked::default(),
        ended_us: 0,
        times: &times,
        outcome,
        counted: TransferredBytes::default(),
    };
    assert_eq!(numbers.record(0, &route, None, &done), Keep::Counted);
    let figures = numbers.read();
    assert_eq!(figures.tally_of_pool("app").requests(), 1);
    assert_eq!(figures.phases_of_pool("app").of(Phase::Total).count(), 0);
    assert_eq!(figures.phases_of_pool("app").of(Phase::Response).count(), 1);
}

#[test]
fn connections_and_handshakes_count_for_their_listener() {
    let numbers = MetricsRegistry::new(2);
    let listener = numbers.listener("web");
    listener.accepted(0);
    listener.accepted(1);
    listener.handshake(0, Handshake::Full, Micros(900));
    listener.handshake(0, Handshake::Failed, Micros(5_000));
    listener.handshake(1, Handshake::Resumed, Micros(300));
    let figures = numbers.read();
    let [web] = &figures.listeners[..] else { panic!() };
    assert_eq!((web.accepted, web.handshakes_full, web.handshakes_resumed), (2, 1, 1));
    assert_eq!((web.handshakes_failed, web.handshake.count(), web.handshake.max_us()), (1, 2, 900));
}

#[test]
fn what_came_between_two_readings_is_told_by_name() {
    let numbers = MetricsRegistry::new(1);
    let record = |route: &str, times_many: usize| {
        let route = numbers.route("web", route, "app");
        let endpoint = numbers.endpoint("app", "app1");
        for _ in 0..times_many {
            let times = times(50);
            let outcome = outcome(200, Cause::Complete);
            let done = Done {
                request_id: b"",
                asked: Asked::default(),
                ended_us: 0,
                times: &times,
                outcome,
                counted: TransferredBytes::default(),
            };
            let _ = numbers.record(0, &route, Some(&endpoint), &done);
        }
    };
    record("b", 3);
    let before = numbers.read();
    record("b", 5);
    record("a", 7);
    let later = numbers.read().since(&before);
    let requests: Vec<_> =
        later.cells.iter().map(|cell| (&*cell.route, cell.tally.requests())).collect();
    assert_eq!(requests, [("b", 5), ("a", 7)]);
    assert_eq!((later.requests(), later.tally_of_pool("app").bytes_sent), (12, 12_000));
    assert_eq!(later.phases_of_endpoint("app", "app1").of(Phase::Own).sum_us(), 12 * 70);
    assert_eq!(later.phases_of_pool("app").of(Phase::Total).count(), 12);
    assert_eq!(numbers.read().since(&numbers.read()).requests(), 0);
}
