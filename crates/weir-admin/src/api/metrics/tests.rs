//! The metrics as a whole: the text formats checked by a strict parser that follows the
//! specification and shares no code with the writer, the protocol buffers by a decoder.

mod strict;

use std::collections::BTreeMap;
use std::sync::Arc;

use strict::{Text, parse};
use weir_stats::exposition::{CpuGroup, CreditsReport, CreditsState, MachineFigures};
use weir_stats::metrics::{Asked, Done, Handshake, MetricsRegistry, Outcome, TransferredBytes};
use weir_stats::procfs::{Cpu, InterfaceTraffic, NetworkInterface, TcpCounters};
use weir_stats::{Cause, ExchangeRecord, Micros, Times};

use super::*;
use crate::dashboard::sample::status as sample_status;
use crate::haproxy::stat_csv;
use crate::status::{AdminStatus, LimitStatus, LimitsStatus, LogStatus, OperationalState};

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
            counted: TransferredBytes::default(),
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

/// The values of a process, of which the metrics are written.
struct Sample {
    status: Status,
    machine: MachineUse,
    figures: Figures,
    by_worker: Vec<Figures>,
    slowest: Vec<Arc<ExchangeRecord>>,
}

impl Sample {
    fn expose(&self, format: Format) -> Vec<u8> {
        let counted = CountedMetrics {
            figures: &self.figures,
            by_worker: &self.by_worker,
            recent: &self.figures,
            slowest: &self.slowest,
        };
        expose(&self.status, &self.machine, &counted, format)
    }
}

fn sample() -> Sample {
    let (numbers, slowest) = counted();
    let mut status = sample_status();
    status.info.started_us = 1_700_000_000_250_000;
    status.info.generation = 7;
    status.admin = AdminStatus { closed: 1, late: 2, refused: 3 };
    status.logs = vec![LogStatus { name: "access".to_owned(), dropped: 3 }];
    status.limits = Some(LimitsStatus {
        limits: vec![LimitStatus {
            limit: "web".to_owned(),
            bound: "client_rate".to_owned(),
            refused: 4,
            ..LimitStatus::default()
        }],
        ..LimitsStatus::default()
    });
    status.credits = Some(CreditsReport {
        state: CreditsState::Lasting,
        balance: 12.5,
        max: 576.0,
        weight_percent: 40,
        ..CreditsReport::default()
    });
    status.pools[0].endpoints[1].state = OperationalState::Stalled;
    let endpoint = &mut status.pools[0].endpoints[0];
    (endpoint.queued, endpoint.passive_failures, endpoint.ejections) = (6, 9, 2);
    let figures = MachineFigures {
        cpu: Some(Cpu { user_us: 1_500_000, system_us: 250_000 }),
        steal_us: Some(10),
        open_files: Some(33),
        network: vec![
            NetworkInterface { name: "lo".to_owned(), ..NetworkInterface::default() },
            NetworkInterface {
                name: "eth0".to_owned(),
                sent: InterfaceTraffic { bytes: 5_000, dropped: 2, ..InterfaceTraffic::default() },
                bytes_per_s: Some(1_250_000.0),
                ..NetworkInterface::default()
            },
        ],
        tcp: Some(TcpCounters {
            sent_segments: 900,
            retransmitted_segments: 8,
            backlog_overflows: 1,
        }),
        group: CpuGroup {
            limit_cores: Some(1.5),
            burst_us: Some(50_000),
            periods: Some(90),
            bursts: Some(7),
            bursts_us: Some(210),
        },
        ..MachineFigures::default()
    };
    Sample {
        status,
        machine: MachineUse { figures, ..MachineUse::default() },
        figures: numbers.read(),
        by_worker: Vec::new(),
        slowest,
    }
}

fn text_of(format: Format) -> String {
    String::from_utf8(sample().expose(format)).unwrap()
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
    let mut without = sample();
    (without.status.credits, without.machine) = (None, MachineUse::default());
    let without = String::from_utf8(without.expose(Format::Prometheus)).unwrap();
    assert!(
        !["credits", "advertised", "burst", "weir_cpu_limit"]
            .iter()
            .any(|name| without.contains(name))
    );
}

#[test]
fn the_network_is_told_by_interface_and_direction() {
    let mut sample = sample();
    let usage = &mut sample.machine.recent;
    (usage.network, usage.retransmitted_segments) = (Some(0.8), Some(0.01));
    let text = String::from_utf8(sample.expose(Format::Prometheus)).unwrap();
    let text = parse(&text, false).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"));
    let of = |name, direction| text.count(name, &[("interface", "eth0"), ("direction", direction)]);
    assert_eq!(of("weir_network_bytes_total", "transmit"), 5_000);
    assert_eq!(of("weir_network_bytes_total", "receive"), 0);
    assert_eq!(of("weir_network_dropped_total", "transmit"), 2);
    assert_eq!(text.count("weir_network_speed_bytes", &[("interface", "eth0")]), 1_250_000);
    assert_eq!(text.count("weir_tcp_retransmitted_segments_total", &[]), 8);
    assert_eq!(text.count("weir_tcp_backlog_overflows_total", &[]), 1);
    assert!((text.value("weir_network_use_ratio", &[]) - 0.8).abs() < 1e-9);
    assert!((text.value("weir_tcp_retransmitted_ratio", &[]) - 0.01).abs() < 1e-9);
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
fn counts_by_worker_add_up_to_the_totals() {
    let (numbers, _) = counted();
    let by_worker = Sample { by_worker: numbers.read_by_worker(), ..sample() };
    let plain = read(Format::Prometheus);
    for format in [Format::Prometheus, Format::OpenMetrics] {
        let text = String::from_utf8(by_worker.expose(format)).unwrap();
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
        assert_eq!(text.count("weir_pool_queue", &[("pool", "app")]), 3, "one queue for all");
    }
    let text = String::from_utf8(by_worker.expose(Format::OpenMetrics)).unwrap();
    let slow = text.lines().find(|line| line.contains("request_id=\"id-999\"")).unwrap();
    assert!(slow.contains("worker=\"1\""), "{slow}");
}

#[test]
fn one_state_of_an_endpoint_is_1() {
    let text = read(Format::Prometheus);
    for (endpoint, state) in [("app1", "up"), ("app2", "stalled")] {
        for one in OperationalState::ALL {
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
    let out = sample().expose(Format::Protobuf);
    let mut rest = out.as_slice();
    let mut families = BTreeMap::new();
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

#[test]
fn metrics_of_each_worker_are_bounded() {
    let numbers = MetricsRegistry::new(4);
    let listener = numbers.listener("web");
    for worker in 0..4 {
        listener.accepted(worker);
    }
    let figures = numbers.read_by_worker();
    let lines = lines_by_worker(&figures);
    assert!(lines >= 4, "{lines}");
    assert_eq!(bounded(figures.clone(), lines).unwrap().len(), 4);
    let refused = bounded(figures, lines - 1).unwrap_err();
    assert_eq!(refused.field.as_deref(), Some("per_worker"));
    assert!(refused.message.contains("4 workers"), "{}", refused.message);
}

/// The row of `show stat` with these names, by column.
fn stat_row<'a>(csv: &'a str, names: (&str, &str)) -> BTreeMap<&'a str, &'a str> {
    let mut lines = csv.lines();
    let columns: Vec<&str> = lines.next().unwrap().trim_start_matches("# ").split(',').collect();
    let rows = lines.map(|line| columns.iter().copied().zip(line.split(',')));
    let mut rows = rows.map(BTreeMap::from_iter);
    rows.find(|row: &BTreeMap<_, _>| (row["pxname"], row["svname"]) == names).unwrap()
}

#[test]
fn a_value_is_the_same_in_json_prometheus_and_haproxy_csv() {
    let Sample { status, .. } = sample();
    let json = serde_json::to_value(&status).unwrap();
    let text = read(Format::Prometheus);
    let csv = stat_csv(&status);
    let endpoint = &json["pools"][0]["endpoints"][0];
    let labels = [("pool", "app"), ("endpoint", "app1")];
    let row = stat_row(&csv, ("app", "app1"));
    for (field, metric, column) in [
        ("in_flight", "weir_endpoint_in_flight", "scur"),
        ("max_conn", "weir_endpoint_max_conn", "slim"),
        ("queued", "weir_endpoint_queued", "qcur"),
        ("picks", "weir_endpoint_picks_total", "lbtot"),
        ("passive_failures", "weir_endpoint_passive_failures_total", "econ"),
        ("ejections", "weir_endpoint_ejections_total", "hanafail"),
        ("connections_opened", "weir_endpoint_connections_opened_total", "connect"),
        ("idle_connections", "weir_endpoint_idle_connections", "srv_icur"),
    ] {
        let value = endpoint[field].as_u64().unwrap();
        assert_eq!(text.count(metric, &labels), value, "{field}");
        assert_eq!(row[column], value.to_string(), "{field}");
    }
    for (metric, value) in [
        ("weir_endpoint_streams", 3),
        ("weir_endpoint_streams_opened_total", 9),
        ("weir_endpoint_streams_reset_total", 2),
        ("weir_endpoint_http2_connections_ended_total", 1),
    ] {
        assert_eq!(text.count(metric, &labels), value, "{metric}");
    }
    let pool = &json["pools"][0];
    let row = stat_row(&csv, ("app", "BACKEND"));
    for (value, metric, column) in [
        (&pool["in_flight"], "weir_pool_in_flight", "scur"),
        (&pool["queue"]["now"], "weir_pool_queue", "qcur"),
        (&pool["queue"]["max"], "weir_pool_queue_max", "qlimit"),
        (&pool["queue"]["longest"], "weir_pool_queue_longest", "qmax"),
        (&pool["counters"]["dispatched"], "weir_pool_dispatched_total", "stot"),
    ] {
        assert_eq!(text.count(metric, &[("pool", "app")]), value.as_u64().unwrap(), "{metric}");
        assert_eq!(row[column], value.to_string(), "{metric}");
    }
    let connections = json["listeners"][0]["connections"].as_u64().unwrap();
    let metric = text.count("weir_listener_connections", &[("listener", "front")]);
    let row = stat_row(&csv, ("front", "FRONTEND"));
    assert_eq!((metric, row["scur"]), (connections, &*connections.to_string()));
}
