//! The text formats for Prometheus, checked by a strict parser that follows the specification and
//! shares no code with the writer.

mod strict;

use std::sync::Arc;

use strict::{Text, parse};
use weir_stats::exposition::{
    AdminReport, Cpu, CpuGroup, CreditsReport, CreditsState, EndpointReport, EndpointState, Format,
    IncidentReport, ListenerReport, LogReport, MachineFigures, MemoryReport, PoolReport,
    ProcessReport, QueueReport, Report, WorkerReport, expose,
};
use weir_stats::metrics::{Asked, Done, Handshake, MetricsRegistry, Outcome};
use weir_stats::{Cause, ExchangeRecord, Micros, Times};

const AWKWARD: &str = "a \"quoted\" \\ route\nof two lines";

fn counted() -> (Arc<MetricsRegistry>, Vec<Arc<ExchangeRecord>>) {
    let numbers = MetricsRegistry::new(2);
    let route = numbers.route("web", AWKWARD, "app");
    let endpoint = numbers.endpoint("app", "app1");
    let listener = numbers.listener("web");
    listener.accepted(0);
    listener.handshake(0, Handshake::Full, Micros(700));
    for turn in 0..1_000_u64 {
        let elapsed_us = 200 + turn * 50;
        let times = Times {
            request: Micros::ZERO,
            queue: Micros(turn as i64 % 7),
            connect: Micros::ZERO,
            response: Micros(elapsed_us as i64 - 100),
            data: Micros(20),
            total: Micros(elapsed_us as i64),
            own: Micros(30 + turn as i64 % 50),
            ..Times::default()
        };
        let status = if turn % 100 == 0 { 503 } else { 200 };
        let outcome = Outcome { status, cause: Cause::Complete, attempts: 1, ..Outcome::default() };
        let id = format!("id-{turn}");
        let done = Done {
            request_id: id.as_bytes(),
            asked: Asked::default(),
            ended_us: turn,
            times: &times,
            outcome,
        };
        let worker = turn as usize % 2;
        let keep = numbers.record(worker, &route, Some(&endpoint), &done);
        if keep == weir_stats::metrics::Keep::Whole {
            let record = ExchangeRecord {
                request_id: id,
                listener: "web".to_owned(),
                route: AWKWARD.to_owned(),
                times,
                started_unix_us: 1_700_000_000_000_000,
                worker,
                ..ExchangeRecord::default()
            };
            route.keep(worker, record);
        }
    }
    let slowest = numbers.slowest(None, 1_000);
    (numbers, slowest)
}

fn report() -> Report {
    let (numbers, slowest) = counted();
    let figures = numbers.read();
    let endpoint = |name: &str, state| EndpointReport {
        name: name.to_owned(),
        state,
        max_conn: Some(4),
        in_flight: 3,
        ..EndpointReport::default()
    };
    Report {
        process: ProcessReport {
            version: "0.1.0".to_owned(),
            started_unix_us: 1_700_000_000_250_000,
            generation: 7,
            connections: 12,
            max_connections: 1_000,
            shortages: 0,
            refused_at_cap: 0,
            given_up_at_cap: 0,
            incidents: IncidentReport::default(),
            memory: MemoryReport { used: 5 << 20, max: Some(64 << 20), ..MemoryReport::default() },
        },
        admin: AdminReport { closed: 1, late: 2, refused: 3 },
        listeners: vec![ListenerReport { name: "web".to_owned(), connections: 12 }],
        pools: vec![PoolReport {
            name: "app".to_owned(),
            queue: Some(QueueReport { now: 5, max: 100, longest: 9 }),
            endpoints: vec![
                endpoint("app1", EndpointState::Up),
                endpoint("app2", EndpointState::Stalled),
            ],
            ..PoolReport::default()
        }],
        workers: vec![WorkerReport::default(); 2],
        logs: vec![LogReport { name: "access".to_owned(), dropped: 3 }],
        machine: MachineFigures {
            cpu: Some(Cpu { user_us: 1_500_000, system_us: 250_000 }),
            steal_us: Some(10),
            open_files: Some(33),
            group: CpuGroup {
                limit_cores: Some(1.5),
                burst_us: Some(50_000),
                periods: Some(90),
                bursts: Some(7),
                bursts_us: Some(210),
            },
            ..MachineFigures::default()
        },
        credits: Some(CreditsReport {
            state: CreditsState::Lasting,
            balance: 12.5,
            max: 576.0,
            weight_percent: 40,
            ..CreditsReport::default()
        }),
        recent: figures.clone(),
        figures: Arc::new(figures),
        slowest,
        ..Report::default()
    }
}

fn text_of(format: Format) -> String {
    String::from_utf8(expose(&report(), format)).unwrap()
}

fn read(format: Format) -> Text {
    let text = text_of(format);
    parse(&text, format == Format::OpenMetrics).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"))
}

#[test]
fn both_formats_hold_to_their_rules() {
    for format in [Format::Prometheus, Format::OpenMetrics] {
        let text = read(format);
        assert!(text.families.len() > 60, "{}", text.families.len());
        for family in &text.families {
            assert!(!family.help.is_empty() && family.help.ends_with('.'), "{}", family.name);
            assert!(family.name.starts_with("weir_") || family.name.starts_with("process_"));
        }
    }
}

#[test]
fn requests_are_counted_by_listener_route_pool_endpoint_and_code() {
    let text = read(Format::Prometheus);
    let labels = [("listener", "web"), ("route", AWKWARD), ("pool", "app"), ("endpoint", "app1")];
    let of = |code| text.count("weir_requests_total", &[&labels[..], &[("code", code)]].concat());
    assert_eq!((of("200"), of("503")), (990, 10));
    let process = |name| text.value(name, &[]);
    assert!((process("process_cpu_seconds_total") - 1.75).abs() < 1e-9);
    assert!((process("process_start_time_seconds") - 1_700_000_000.25).abs() < 1e-6);
    assert_eq!(text.count("weir_generation", &[]), 7);
    let dropped = text.count("weir_log_lines_dropped_total", &[("log", "access")]);
    assert_eq!(dropped, 3);
}

#[test]
fn credits_and_bursts_are_told_where_there_are_any() {
    let text = read(Format::OpenMetrics);
    let value = |name| text.value(name, &[]);
    assert!((value("weir_cpu_credits_balance") - 12.5).abs() < 1e-9);
    assert!((value("weir_advertised_weight_ratio") - 0.4).abs() < 1e-9);
    assert!(value("weir_cpu_credits_exhausted_in_seconds").is_infinite());
    let state = |state| text.count("weir_cpu_credits_state", &[("state", state)]);
    assert_eq!((state("lasting"), state("empty")), (1, 0));
    assert!((value("weir_cpu_limit_cores") - 1.5).abs() < 1e-9);
    assert!((value("weir_burst_seconds_total") - 0.000_21).abs() < 1e-9);
    assert_eq!(text.count("weir_burst_periods_total", &[]), 7);
    let without = Report { credits: None, machine: MachineFigures::default(), ..report() };
    let without = String::from_utf8(expose(&without, Format::Prometheus)).unwrap();
    assert!(
        !["credits", "advertised", "burst", "weir_cpu_limit"]
            .iter()
            .any(|name| without.contains(name))
    );
}

#[test]
fn buckets_sum_up_to_the_count_and_quantiles_say_their_samples() {
    let text = read(Format::OpenMetrics);
    let labels = [("listener", "web"), ("route", AWKWARD), ("pool", "app")];
    let with = |more: (&'static str, &'static str)| [&labels[..], &[more]].concat();
    let name = "weir_request_duration_seconds";
    let bucket = |le| text.count(&format!("{name}_bucket"), &with(("le", le)));
    assert_eq!(
        [bucket("0.0001"), bucket("0.00025"), bucket("0.1"), bucket("+Inf")],
        [0, 2, 1000, 1000]
    );
    assert_eq!(text.count(&format!("{name}_count"), &labels), 1000);
    let sum = (0..1_000_u64).map(|turn| 200 + turn * 50).sum::<u64>() as f64 / 1e6;
    assert!((text.value(&format!("{name}_sum"), &labels) - sum).abs() < 1e-6);
    let quantile = |name: &str, quantile| {
        let more = [("window", "start"), ("phase", "total"), ("quantile", quantile)];
        text.value(name, &[&labels[..], &more].concat())
    };
    assert!((quantile("weir_route_quantile_seconds", "0.5") - 0.02517).abs() < 0.0001);
    assert!((quantile("weir_route_quantile_samples", "0.999999") - 1.0).abs() < 1e-9);
}

#[test]
fn slow_requests_are_exemplars_of_their_buckets() {
    let text = text_of(Format::OpenMetrics);
    let line = text.lines().find(|line| line.contains("# {request_id=\"id-999\"}")).unwrap();
    assert!(
        line.starts_with("weir_request_duration_seconds_bucket{") && line.contains("le=\"0.1\"")
    );
    assert!(line.ends_with(" 0.05015 1700000000.0"), "{line}");
    assert!(!text_of(Format::Prometheus).contains("request_id"));
}

#[test]
fn on_demand_what_was_counted_has_its_worker_and_sums_up_to_the_same() {
    let (numbers, _) = counted();
    let by_worker = Report { by_worker: numbers.read_by_worker(), ..report() };
    let plain = read(Format::Prometheus);
    for format in [Format::Prometheus, Format::OpenMetrics] {
        let text = String::from_utf8(expose(&by_worker, format)).unwrap();
        let text = parse(&text, format == Format::OpenMetrics)
            .unwrap_or_else(|wrong| panic!("{wrong}\n{text}"));
        let names = |text: &Text| {
            text.families.iter().map(|family| family.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&text).len(), names(&plain).len());
        let labels =
            [("listener", "web"), ("route", AWKWARD), ("pool", "app"), ("endpoint", "app1")];
        let of = |code, worker| {
            let more = [("code", code), ("worker", worker)];
            text.count("weir_requests_total", &[&labels[..], &more].concat())
        };
        // Every hundredth request failed, and the even ones are the first worker's.
        assert_eq!((of("200", "0"), of("503", "0"), of("200", "1")), (490, 10, 500));
        let duration = |worker| {
            let name = "weir_request_duration_seconds_count";
            text.count(name, &[&labels[..3], &[("worker", worker)]].concat())
        };
        assert_eq!(duration("0") + duration("1"), 1_000);
        let accepted = [("listener", "web"), ("worker", "0")];
        assert_eq!(text.count("weir_connections_accepted_total", &accepted), 1);
        assert_eq!(text.count("weir_pool_queue", &[("pool", "app")]), 5, "one queue for all");
    }
    let text = String::from_utf8(expose(&by_worker, Format::OpenMetrics)).unwrap();
    let slow = text.lines().find(|line| line.contains("request_id=\"id-999\"")).unwrap();
    assert!(slow.contains("worker=\"1\""), "{slow}");
}

#[test]
fn one_state_of_an_endpoint_is_1() {
    let text = read(Format::Prometheus);
    for (endpoint, state) in [("app1", "up"), ("app2", "stalled")] {
        for one in EndpointState::ALL {
            let labels = [("pool", "app"), ("endpoint", endpoint), ("state", one.as_str())];
            let expected = u64::from(one.as_str() == state);
            assert_eq!(text.count("weir_endpoint_state", &labels), expected);
        }
    }
    assert_eq!(text.count("weir_endpoint_up", &[("pool", "app"), ("endpoint", "app2")]), 0);
}

/// A field of a message: a number, or bytes of some length.
#[derive(Clone, Debug)]
enum Field<'a> {
    Number(u64),
    Double(f64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    number
}

fn taken<'a>(bytes: &mut &'a [u8], length: u64) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(length as usize);
    *bytes = rest;
    taken
}

/// Decodes the fields of a message, by the specification of the protocol buffers encoding.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut list = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => Field::Double(f64::from_le_bytes(taken(&mut bytes, 8).try_into().unwrap())),
            2 => {
                let length = varint(&mut bytes);
                Field::Bytes(taken(&mut bytes, length))
            }
            other => panic!("wire type {other}"),
        };
        list.push((key >> 3, field));
    }
    list
}

fn bytes_of<'a>(message: &[(u64, Field<'a>)], tag: u64) -> Vec<&'a [u8]> {
    let bytes = message.iter().filter(|(own, _)| *own == tag);
    bytes
        .map(|(_, field)| if let Field::Bytes(bytes) = field { *bytes } else { panic!() })
        .collect()
}

fn text(message: &[(u64, Field<'_>)], tag: u64) -> String {
    String::from_utf8(bytes_of(message, tag)[0].to_vec()).unwrap()
}

fn numbers(message: &[(u64, Field<'_>)], tag: u64) -> Vec<u64> {
    let found = message.iter().filter(|(own, _)| *own == tag);
    found
        .map(|(_, field)| if let Field::Number(number) = field { *number } else { panic!() })
        .collect()
}

fn double(message: &[(u64, Field<'_>)], tag: u64) -> f64 {
    let found = message.iter().find(|(own, _)| *own == tag).unwrap();
    if let Field::Double(number) = found.1 { number } else { panic!() }
}

fn zigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// The counts of native buckets by their numbers.
fn native(histogram: &[(u64, Field<'_>)]) -> Vec<(i64, i64)> {
    let mut deltas = numbers(histogram, 13).into_iter().map(zigzag);
    let (mut counts, mut bucket, mut count) = (Vec::new(), 0, 0);
    for span in bytes_of(histogram, 12) {
        let span = fields(span);
        bucket += zigzag(numbers(&span, 1)[0]);
        for _ in 0..numbers(&span, 2)[0] {
            count += deltas.next().unwrap();
            counts.push((bucket, count));
            bucket += 1;
        }
    }
    assert_eq!(deltas.next(), None);
    counts
}

#[test]
fn protocol_buffers_say_the_same_and_have_native_histograms() {
    let out = expose(&report(), Format::Protobuf);
    let mut rest = out.as_slice();
    let mut families = std::collections::BTreeMap::new();
    while !rest.is_empty() {
        let length = varint(&mut rest);
        let family = fields(taken(&mut rest, length));
        assert!(families.insert(text(&family, 1), family).is_none(), "a family twice");
    }
    let plain = read(Format::Prometheus);
    let names: Vec<&str> = plain.families.iter().map(|family| family.name.as_str()).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(families.keys().collect::<Vec<_>>(), sorted);
    let generation = fields(bytes_of(&families["weir_generation"], 4)[0]);
    assert!((double(&fields(bytes_of(&generation, 2)[0]), 1) - 7.0).abs() < 1e-9);
    let duration = &families["weir_request_duration_seconds"];
    assert_eq!(numbers(duration, 3), [4]);
    let metric = fields(bytes_of(duration, 4).pop().unwrap());
    let label = fields(bytes_of(&metric, 1)[1]);
    assert_eq!((text(&label, 1).as_str(), text(&label, 2).as_str()), ("route", AWKWARD));
    let histogram = fields(bytes_of(&metric, 7)[0]);
    assert_eq!(numbers(&histogram, 1), [1_000]);
    let sum = (0..1_000_u64).map(|turn| 200 + turn * 50).sum::<u64>() as f64 / 1e6;
    assert!((double(&histogram, 2) - sum).abs() < 1e-6);
    // 0.1 s is one of the classic bounds: all times are below it, and the slowest is that bucket's
    // exemplar.
    let classic: Vec<_> = bytes_of(&histogram, 3).into_iter().map(fields).collect();
    let tenth = classic.iter().find(|bucket| (double(bucket, 2) - 0.1).abs() < 1e-9).unwrap();
    assert_eq!(numbers(tenth, 1), [1_000]);
    let exemplar = fields(bytes_of(tenth, 3)[0]);
    assert_eq!(text(&fields(bytes_of(&exemplar, 1)[0]), 2), "id-999");
    assert_eq!(numbers(&fields(bytes_of(&exemplar, 3)[0]), 1), [1_700_000_000]);
    // The native buckets: 32 per octave, from 200 µs to 50.15 ms.
    assert_eq!(zigzag(numbers(&histogram, 5)[0]), 5);
    let native = native(&histogram);
    assert_eq!(native.iter().map(|(_, count)| count).sum::<i64>(), 1_000);
    assert!(native.iter().all(|(_, count)| *count >= 0));
    let upper = |bucket: i64| (bucket as f64 / 32.0).exp2();
    let (first, last) = (native[0].0, native.last().unwrap().0);
    assert!(upper(first - 1) < 0.000_2 && 0.000_2 <= upper(first));
    assert!(upper(last - 1) < 0.050_15 * 1.001 && 0.050_15 <= upper(last));
}
