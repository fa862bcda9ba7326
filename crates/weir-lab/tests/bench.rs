//! The load generator against origins whose behaviour is known: every request is reported as it
//! happened.

use std::net::SocketAddr;

use serde_json::Value;
use weir_lab::bench::load::{LoadSpec, SendPace, StartOrder};
use weir_lab::bench::monitor::RunUsage;
use weir_lab::bench::probe::{probe, settle};
use weir_lab::bench::record::{RequestFailure, RunRecord};
use weir_lab::bench::report::ReportInput;
use weir_lab::bench::run::{RunResults, RunningBench};
use weir_lab::bench::schedule::{ArrivalProcess, Schedule};
use weir_lab::bench::target::{Form, Requests, Url};
use weir_lab::bench::tls::{TlsSettings, server_name};
use weir_lab::bench::wrk2::CALIBRATION_NS;
use weir_lab::origin::{BoundOrigin, Origin, OriginSettings, addresses};
use weir_lab::service_time::ServiceTime;

const SECOND_NS: u64 = 1_000_000_000;

fn origin(settings: OriginSettings) -> (Origin, SocketAddr) {
    let listen =
        if settings.listen_tls.is_empty() { addresses("127.0.0.1:0").unwrap() } else { Vec::new() };
    let bound = BoundOrigin::new(OriginSettings { listen, ..settings }).unwrap();
    let address = bound.listening().next().unwrap().0;
    (bound.start().unwrap(), address)
}

fn load(address: SocketAddr, path: &str, pace: SendPace) -> LoadSpec {
    let url = Url::parse(&format!("http://{address}{path}")).unwrap();
    LoadSpec {
        requests: Requests::new(vec![(1.0, Form::default().request(&url).unwrap())]),
        address,
        source: None,
        tls: None,
        pace,
        order: StartOrder::Shared,
        calibration_ns: CALIBRATION_NS,
        warmup_ns: 0,
        threads: 2,
        connections: 16,
        streams: None,
        timeout_ns: 20 * SECOND_NS,
        seed: 1,
        cores: Vec::new(),
        samples: false,
    }
}

fn open(rate: f64, duration_ms: u64) -> SendPace {
    let schedule = Schedule { arrival: ArrivalProcess::Constant, rate, seed: 1 };
    SendPace::Open { schedule, duration_ns: duration_ms * 1_000_000 }
}

fn run(load: LoadSpec) -> RunResults {
    RunningBench::start(load).unwrap().finish(|_| {}).unwrap()
}

fn objections(outcome: &RunResults, pace: SendPace) -> Vec<String> {
    let usage = RunUsage::default();
    ReportInput::of(outcome, pace, &usage).objections()
}

/// The descriptions of failures, in one text.
fn texts(outcome: &RunResults) -> String {
    let found: Vec<&str> = outcome.examples.failures.iter().flatten().map(String::as_str).collect();
    found.join("; ")
}

fn number(stats: &Value, name: &str) -> u64 {
    stats[name].as_u64().unwrap()
}

/// A busy machine only adds time: one correct run of a few shows that the figures are correct.
fn in_one_of_a_few_runs(mut attempt: impl FnMut() -> Result<(), String>) {
    let errors: Vec<String> = (0..5).map_while(|_| attempt().err()).collect();
    assert!(errors.len() < 5, "{errors:#?}");
}

#[test]
fn totals_are_those_of_the_origin() {
    let (origin, address) = origin(OriginSettings { workers: 2, ..OriginSettings::default() });
    let mut seen = 0;
    let schedule = |arrival| Schedule { arrival, rate: 800.0, seed: 3 };
    let half = |arrival| SendPace::Open { schedule: schedule(arrival), duration_ns: SECOND_NS / 2 };
    for pace in [
        half(ArrivalProcess::Constant),
        half(ArrivalProcess::Poisson),
        SendPace::Closed { requests: 1000 },
    ] {
        let warmup_ns = if matches!(pace, SendPace::Open { .. }) { SECOND_NS / 4 } else { 0 };
        let outcome = run(LoadSpec { warmup_ns, samples: true, ..load(address, "/1k", pace) });
        let record = &outcome.record;
        let expected = match pace {
            SendPace::Open { schedule, duration_ns } => {
                let before = schedule.count_before(warmup_ns);
                assert_eq!(record.warm, before);
                schedule.count_before(warmup_ns + duration_ns) - before
            }
            SendPace::Closed { requests } => requests,
        };
        assert_eq!(
            (outcome.intended, record.sent, record.answered),
            (expected, expected, expected)
        );
        assert_eq!(
            (outcome.unsent, outcome.unanswered, record.errors(), outcome.lost),
            (0, 0, 0, 0)
        );
        assert_eq!(
            (record.response.len(), record.service.len(), record.status_classes[2]),
            (expected, expected, expected)
        );
        assert_eq!((outcome.opened, outcome.open_at_start, outcome.open), (16, 16, 16));
        let numbers = record.samples.as_ref().unwrap().iter().map(|sample| sample.n);
        assert!(numbers.eq(record.warm..record.warm + expected));
        seen += expected + record.warm;
        let stats = origin.stats();
        assert_eq!((number(&stats, "requests"), number(&stats, "broken")), (seen, 0));
        let each = record.bytes / expected;
        assert!(
            each > 1024 && record.bytes.is_multiple_of(expected),
            "{} bytes of {expected}",
            record.bytes
        );
    }
}

/// Checks that a measured time is not below the true one, and above it by at most 1 %, the
/// generator's own error bar and `queued_ns`, the time that the origin may take for others first.
fn is_true(
    what: &str,
    found_ns: u64,
    true_ns: f64,
    queued_ns: f64,
    record: &RunRecord,
) -> Result<(), String> {
    let bar = 2.0 * record.lateness.max() as f64 + 1e6 + queued_ns;
    let found = found_ns as f64;
    if found >= true_ns * 0.999 && found <= true_ns * 1.01 + bar {
        return Ok(());
    }
    Err(format!("{what}: {found} instead of {true_ns}, error bar {bar}"))
}

#[test]
fn percentiles_are_those_of_the_service_times_drawn() {
    in_one_of_a_few_runs(|| {
        let service = ServiceTime::parse("lognormal:40ms,0.7", |_| unreachable!()).unwrap();
        let settings = OriginSettings {
            service: Some(service.clone()),
            seed: 5,
            workers: 2,
            ..OriginSettings::default()
        };
        let (_origin, address) = origin(settings);
        let outcome = run(LoadSpec { connections: 200, ..load(address, "/1k", open(300.0, 2000)) });
        let record = &outcome.record;
        assert_eq!(record.answered, 600);
        let mut drawn: Vec<u64> = (0..600).map(|n| service.draw_ns(5, n)).collect();
        drawn.sort_unstable();
        for (name, histogram) in [("response", &record.response), ("service", &record.service)] {
            for quantile in [0.25, 0.5, 0.75, 0.9, 0.99, 1.0] {
                let place = (quantile * 600.0_f64).ceil() as usize - 1;
                let found = histogram.value_at_quantile(quantile);
                is_true(&format!("{name} p{quantile}"), found, drawn[place] as f64, 0.0, record)?;
            }
        }
        Ok(())
    });
}

/// The service times are the quantiles of an exponential distribution in steps of a thousandth,
/// shuffled: the measured percentiles are the analytic ones.
#[test]
fn percentiles_are_the_analytic_ones_of_an_exponential_distribution() {
    const COUNT: usize = 1000;
    const MEAN_NS: f64 = 30e6;
    let analytic_ns = |share: f64| -MEAN_NS * (1.0 - share).ln();
    // 387 and 1000 have no common divisor, so every place occurs once.
    let places = (0..COUNT).map(|n| n * 387 % COUNT);
    let times = places.map(|place| analytic_ns((place as f64 + 0.5) / COUNT as f64) as u64);
    let times: Vec<u64> = times.collect();
    in_one_of_a_few_runs(|| {
        let service = Some(ServiceTime::List(times.clone()));
        let (_origin, address) =
            origin(OriginSettings { service, workers: 2, ..OriginSettings::default() });
        let outcome = run(LoadSpec { connections: 150, ..load(address, "/1k", open(500.0, 2000)) });
        let record = &outcome.record;
        assert_eq!(record.answered, COUNT as u64);
        for quantile in [0.25, 0.5, 0.75, 0.9, 0.95, 0.99] {
            // The sample of a rank represents a share that is smaller by half a thousandth.
            let found = record.response.value_at_quantile(quantile);
            let expected = analytic_ns(quantile - 0.5 / COUNT as f64);
            is_true(&format!("p{quantile}"), found, expected, 0.0, record)?;
        }
        let mean = record.response.mean();
        is_true("mean", mean as u64, times.iter().sum::<u64>() as f64 / COUNT as f64, 0.0, record)
    });
}

/// An origin that serves one request at a time and responds at once, except for one request that
/// takes a second.
fn stalling_origin(at: usize, of: usize) -> (Origin, SocketAddr) {
    let times = (0..of).map(|n| if n == at { SECOND_NS } else { 0 }).collect();
    origin(OriginSettings {
        service: Some(ServiceTime::List(times)),
        concurrency: Some(1),
        ..OriginSettings::default()
    })
}

/// 200 requests per second for 3 s, with a stall from 0.5 s to 1.5 s: 200 requests wait for its
/// end, from 1 s down to 0, whether they wait in the origin or, without a free connection, in the
/// generator. Then each waits for those before it; how long the origin takes for as many requests
/// is measured after the load.
#[test]
fn a_stall_gives_the_distribution_that_theory_gives_however_few_connections_there_are() {
    for connections in [300, 4] {
        in_one_of_a_few_runs(|| {
            let (_origin, address) = stalling_origin(100, 800);
            let outcome = run(LoadSpec { connections, ..load(address, "/1k", open(200.0, 3000)) });
            let record = &outcome.record;
            assert_eq!((record.answered, outcome.unsent), (600, 0));
            let backlog = SendPace::Closed { requests: 200 };
            let drain = run(LoadSpec { connections, ..load(address, "/1k", backlog) });
            for slow in [199, 150, 100, 50, 10] {
                // The stalled request with this index, the fastest first, waited 5 ms × (index +
                // 1), and for the requests before it.
                let quantile = (400.0 + f64::from(slow) + 0.5) / 600.0;
                let true_ns = 5e6 * f64::from(slow + 1);
                let before_ns = drain.elapsed_ns as f64 * f64::from(199 - slow) / 200.0;
                let found = record.response.value_at_quantile(quantile);
                is_true(&format!("{slow}"), found, true_ns, before_ns, record)?;
            }
            let quick = record.response.value_at_quantile(0.6);
            is_true("those beside the stall", quick, 0.0, 0.0, record)?;
            // The latency that a generator which waits for responses would report.
            let slow = record.service.count_between(100_000_000, u64::MAX);
            let expected = if connections == 4 { 1..=5 } else { 170..=190 };
            assert!(
                expected.contains(&slow),
                "{slow} slow service times over {connections} connections"
            );
            Ok(())
        });
    }
}

/// One request of 600 takes a second, and the origin serves others meanwhile. As in wrk2 its
/// connection keeps its own schedule of 50 requests per second, so the fifty that were due
/// meanwhile wait; by default the other connections send them.
#[test]
fn as_wrk2_a_slow_response_delays_its_connection_and_what_came_first_is_forgotten() {
    in_one_of_a_few_runs(|| {
        let slow_of = |order| {
            let times = (0..800).map(|n| if n == 200 { SECOND_NS } else { 0 }).collect();
            let (_origin, address) = origin(OriginSettings {
                service: Some(ServiceTime::List(times)),
                ..OriginSettings::default()
            });
            let pace = open(200.0, 3000);
            let calibration_ns = SECOND_NS / 2;
            let own =
                LoadSpec { connections: 4, order, calibration_ns, ..load(address, "/1k", pace) };
            let outcome = run(own);
            let slow = outcome.record.response.count_between(100_000_000, u64::MAX);
            (slow, outcome)
        };
        let (slow, outcome) = slow_of(StartOrder::PerConnection);
        assert_eq!(outcome.intended, 600);
        // Those that waited for more than 0.1 s.
        if !(43..=47).contains(&slow) {
            return Err(format!("{slow} slow requests"));
        }
        let pace = open(200.0, 3000);
        let record = &outcome.record;
        let [kept, _] = record.kept_by_wrk2(outcome.elapsed_ns);
        let left_out = record.response.len() - kept.len();
        assert!((90..=104).contains(&left_out), "{left_out}");
        assert_eq!(record.calibrated.threads.len(), 2);
        let usage = RunUsage::default();
        let order = StartOrder::PerConnection;
        let text = ReportInput { order, ..ReportInput::of(&outcome, pace, &usage) }.text();
        let words = format!("the {left_out} responses of its calibration of 510.00ms are left out");
        assert!(text.contains(&words) && text.contains("twice its rate once it is late"), "{text}");
        let text = ReportInput::of(&outcome, pace, &usage).text();
        assert!(text.contains("as wrk2 ") && text.contains(&words), "{text}");
        let (slow, _) = slow_of(StartOrder::Shared);
        if slow > 3 {
            return Err(format!("{slow} slow requests over shared connections"));
        }
        Ok(())
    });
}

#[test]
fn a_closed_loop_leaves_out_what_users_would_have_waited() {
    let (_origin, address) = stalling_origin(100, 600);
    let pace = SendPace::Closed { requests: 600 };
    let outcome = run(LoadSpec { connections: 4, ..load(address, "/1k", pace) });
    let slow = outcome.record.response.count_between(500_000_000, u64::MAX);
    assert!((1..=4).contains(&slow), "{slow} of four connections were slow");
    let usage = RunUsage::default();
    let figures = ReportInput {
        connections: 4,
        asked: vec![0.999],
        ..ReportInput::of(&outcome, pace, &usage)
    };
    let text = figures.text();
    assert!(
        text.contains("closed loop, 4 connections") && text.contains("coordinated omission"),
        "{text}"
    );
    assert!(text.contains("p99.9 rests on 0.6 samples"), "{text}");
}

#[test]
fn a_rate_beyond_the_target_s_capacity_is_reported() {
    let (_origin, address) = origin(OriginSettings::default());
    let pace = open(200.0, 1000);
    let outcome =
        run(LoadSpec { threads: 1, connections: 1, ..load(address, "/delay/50ms", pace) });
    let record = &outcome.record;
    // One connection completes at most 20 requests per second.
    assert!(
        record.answered <= 20 && outcome.unsent >= 180,
        "{} {}",
        record.answered,
        outcome.unsent
    );
    assert_eq!(record.answered + outcome.unsent, outcome.intended);
    assert!(record.delayed >= record.answered - 1);
    // The last request was intended long before it was sent.
    assert!(record.response.max() > 5 * record.service.value_at_quantile(0.5));
    let objections = objections(&outcome, pace);
    assert!(objections.iter().any(|text| text.starts_with("saturated")), "{objections:?}");
}

#[test]
fn failures_are_counted_by_their_kind() {
    let (origin, address) = origin(OriginSettings::default());
    for (path, failure, words) in [
        ("/fault/close", RequestFailure::Read, "closed before the response"),
        ("/fault/close-head", RequestFailure::Read, "closed in the head"),
        ("/fault/reset", RequestFailure::Read, "reset"),
        ("/1k?fault=close-body", RequestFailure::Read, "closed in the body"),
        ("/stream/4?fault=close-body", RequestFailure::Read, "closed in the body"),
        ("/fault/garbage", RequestFailure::Protocol, "the response is not HTTP"),
        ("/fault/hang", RequestFailure::Timeout, "-T"),
        ("/1k?fault=hang-body", RequestFailure::Timeout, "-T"),
    ] {
        let pace = open(100.0, 200);
        let outcome = run(LoadSpec {
            timeout_ns: SECOND_NS / 4,
            connections: 32,
            ..load(address, path, pace)
        });
        let record = &outcome.record;
        let expected = RequestFailure::ALL.map(|kind| if kind == failure { 20 } else { 0 });
        assert_eq!((record.failures, record.answered, record.sent), (expected, 0, 20), "{path}");
        // A timeout has lasted at least that long and counts in the figures.
        let measured = if failure == RequestFailure::Timeout { 20 } else { 0 };
        assert_eq!(record.response.len(), measured, "{path}");
        assert!(measured == 0 || record.response.min() >= SECOND_NS / 5, "{path}");
        assert!(outcome.opened >= 20 && !objections(&outcome, pace).is_empty());
        let texts: Vec<_> = outcome.examples.failures.iter().flatten().collect();
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert!(texts[0].contains(words), "{path}: {texts:?}");
    }
    let bad = run(load(address, "/status/503", open(100.0, 200)));
    assert_eq!((bad.record.answered, bad.record.bad_status(), bad.record.errors()), (20, 20, 20));
    let redirects = run(load(address, "/status/302", open(100.0, 200)));
    assert_eq!((redirects.record.errors(), redirects.record.status_classes[3]), (0, 20));
    assert!(redirects.examples.redirect.is_some());
    let usage = RunUsage::default();
    let text = ReportInput::of(&redirects, open(100.0, 200), &usage).text();
    assert!(text.contains("redirects are not followed"), "{text}");
    assert_eq!(number(&origin.stats(), "broken"), 0);
}

#[test]
fn every_framing_of_an_answer_is_read_to_its_end() {
    let (origin, address) = origin(OriginSettings::default());
    for (path, least) in [
        ("/bytes/0", 0),
        ("/bytes/300000", 300_000),
        ("/stream/5?size=70000", 350_000),
        ("/events/3?every=1ms", 60),
        ("/status/204", 0),
    ] {
        let outcome = run(load(address, path, open(100.0, 200)));
        assert_eq!(
            (outcome.record.answered, outcome.record.errors(), outcome.opened),
            (20, 0, 16),
            "{path}"
        );
        assert!(outcome.record.bytes > 20 * least, "{path}");
    }
    let head = Form { method: "HEAD".to_owned(), ..Form::default() };
    let url = Url::parse(&format!("http://{address}/100k")).unwrap();
    let requests = Requests::new(vec![(1.0, head.request(&url).unwrap())]);
    let outcome = run(LoadSpec { requests, ..load(address, "/", open(100.0, 200)) });
    assert_eq!((outcome.record.answered, outcome.opened), (20, 16));
    let close = Form { close: true, body: b"hello".to_vec(), ..Form::default() };
    let url = Url::parse(&format!("http://{address}/echo")).unwrap();
    let requests = Requests::new(vec![(1.0, close.request(&url).unwrap())]);
    let outcome = run(LoadSpec { requests, ..load(address, "/", open(100.0, 200)) });
    // The first connection of each task was opened before the start, the others when needed. Tasks
    // were free, so hardly any request was delayed.
    assert_eq!((outcome.record.answered, outcome.record.errors()), (20, 0));
    assert!(outcome.record.delayed <= 2, "{}", outcome.record.delayed);
    assert!((20..=36).contains(&outcome.opened), "{}", outcome.opened);
    assert_eq!(number(&origin.stats(), "broken"), 0);
}

#[test]
fn a_target_that_goes_away_is_a_failure_and_no_hang() {
    let (origin, address) = origin(OriginSettings::default());
    let pace = open(200.0, 1500);
    let running = RunningBench::start(load(address, "/1k", pace)).unwrap();
    let watch = running.watch();
    let killer = std::thread::spawn(move || {
        while watch.counts().1 < 50 {
            std::thread::yield_now();
        }
        drop(origin);
    });
    let outcome = running.finish(|_| {}).unwrap();
    killer.join().unwrap();
    let record = &outcome.record;
    assert!(
        record.answered >= 50 && record.failures_of(RequestFailure::Connect) > 0,
        "{:?}",
        record.failures
    );
    assert_eq!(record.answered + record.failed() + outcome.unsent, outcome.intended);
}

#[test]
fn a_run_that_is_stopped_reports_what_it_measured() {
    let (_origin, address) = origin(OriginSettings::default());
    let pace = open(200.0, 60_000);
    let running = RunningBench::start(load(address, "/1k", pace)).unwrap();
    let watch = running.watch();
    let stopper = std::thread::spawn(move || {
        while watch.counts().1 < 50 {
            std::thread::yield_now();
        }
        watch.stop();
    });
    let outcome = running.finish(|_| {}).unwrap();
    stopper.join().unwrap();
    assert!(outcome.is_cut_short && outcome.record.answered >= 50);
    assert!(outcome.elapsed_ns < 60 * SECOND_NS);
    assert!(objections(&outcome, pace).iter().any(|text| text.contains("was stopped")));
}

#[test]
fn a_stop_does_not_wait_for_connections_that_do_not_open() {
    // It accepts connections and never sends a TLS message.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let settings = TlsSettings { insecure: true, ..TlsSettings::default() };
    let tls = Some((settings.config().unwrap(), server_name("localhost").unwrap()));
    let pace = open(200.0, 1000);
    let timeout_ns = 24 * 3600 * SECOND_NS;
    let running =
        RunningBench::start(LoadSpec { tls, timeout_ns, ..load(address, "/1k", pace) }).unwrap();
    let _taken = silent.accept().unwrap();
    running.watch().stop();
    let outcome = running.finish(|_| {}).unwrap();
    assert_eq!((outcome.record.sent, outcome.opened, outcome.elapsed_ns), (0, 0, 0));
    assert!(objections(&outcome, pace).iter().any(|text| text.contains("was stopped")));
    let usage = RunUsage::default();
    assert!(!ReportInput::of(&outcome, pace, &usage).text().contains("NaN"));
}

#[test]
fn tls_is_spoken_and_its_facts_are_reported() {
    let listen_tls = addresses("127.0.0.1:0").unwrap();
    let (origin, address) = origin(OriginSettings { listen_tls, ..OriginSettings::default() });
    let with = |settings: TlsSettings| {
        let tls = Some((settings.config().unwrap(), server_name("localhost").unwrap()));
        LoadSpec { tls, ..load(address, "/100k", open(100.0, 300)) }
    };
    let trusting =
        TlsSettings { insecure: true, version: Some("1.3".to_owned()), ..TlsSettings::default() };
    let outcome = run(with(trusting));
    assert_eq!((outcome.record.answered, outcome.record.errors()), (30, 0));
    let facts = outcome.tls.unwrap();
    assert_eq!((facts.version.as_str(), facts.group.is_empty()), ("TLSv1_3", false));
    let old = TlsSettings {
        insecure: true,
        version: Some("1.2".to_owned()),
        ciphers: Some("ECDHE-ECDSA-AES256-GCM-SHA384".to_owned()),
        no_resumption: true,
        ..TlsSettings::default()
    };
    let facts = run(with(old)).tls.unwrap();
    assert_eq!(
        (facts.version.as_str(), facts.suite.as_str()),
        ("TLSv1_2", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384")
    );
    assert_eq!(number(&origin.stats(), "requests"), 60);
    let distrusting = with(TlsSettings::default());
    let error = probe(&distrusting).unwrap_err();
    assert!(error.contains("certificate") && error.contains("--insecure"), "{error}");
    // Without the probe, every request is a counted failure.
    assert_eq!(run(distrusting).record.failures_of(RequestFailure::Connect), 30);
}

#[test]
fn a_server_of_another_protocol_is_a_counted_failure() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                use std::io::{Read, Write};
                let mut bytes = [0; 1024];
                while stream.read(&mut bytes).is_ok_and(|read| read > 0) {
                    if stream.write_all(b"220 mail.example ESMTP\r\n").is_err() {
                        return;
                    }
                }
            });
        }
    });
    let outcome = run(load(address, "/", open(100.0, 200)));
    assert_eq!(outcome.record.failures_of(RequestFailure::Protocol), 20);
    let text = texts(&outcome);
    assert!(text.contains("it begins with `220 mail.example ESMTP"), "{text}");
    // A common mistake: an HTTPS port accessed without TLS.
    let listen_tls = addresses("127.0.0.1:0").unwrap();
    let (_origin, address) = origin(OriginSettings { listen_tls, ..OriginSettings::default() });
    let outcome = run(load(address, "/", open(100.0, 200)));
    assert_eq!(outcome.record.failures_of(RequestFailure::Protocol), 20);
    let text = texts(&outcome);
    assert!(text.contains("the server uses TLS: write https://"), "{text}");
}

#[test]
fn of_several_addresses_the_first_that_answers_is_taken() {
    let (_origin, address) = origin(OriginSettings::default());
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut load = load(closed, "/", open(10.0, 100));
    assert_eq!(settle(&mut load, &[closed, address]), Ok(()));
    assert_eq!(load.address, address);
    let error = settle(&mut load, &[closed]).unwrap_err();
    assert!(error.starts_with(&format!("cannot connect to {closed}: ")), "{error}");
}

#[test]
fn an_unreachable_target_is_reported_in_a_sentence() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let load = LoadSpec { timeout_ns: SECOND_NS, ..load(address, "/", open(10.0, 100)) };
    let error = probe(&load).unwrap_err();
    assert!(error.starts_with(&format!("cannot connect to {address}: ")), "{error}");
}
