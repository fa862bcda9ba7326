//! The report in formats for programs: JSON, and CSV with one line per request. It writes no file
//! itself.

use std::fmt::Write;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::encoded::encode;
use super::load::{SendPace, StartOrder};
use super::machine::{ProcessCpu, ProcessUsage};
use super::monitor::Slice;
use super::record::{RequestFailure, RequestSample, RunRecord, Second};
use super::report::{PERCENTILES, ReportInput, percent_text};
use super::schedule::ArrivalProcess;
use super::spectrum::Curve;
use super::wrk_text::{deviation_us, mean_us};

/// All figures of a run. Times are in microseconds, rates in requests per second.
pub fn json(figures: &ReportInput<'_>, url: &str) -> Value {
    let outcome = figures.outcome;
    let record = &outcome.record;
    let objections = figures.objections();
    json!({
        "url": url,
        "began": outcome.began_at.to_string(),
        "load": load(figures),
        "threads": figures.threads,
        "connections": {
            "asked": figures.connections, "open_at_start": outcome.open_at_start, "opened": outcome.opened,
            "open": outcome.open, "lost": outcome.lost,
        },
        "elapsed_us": outcome.elapsed_ns as f64 / 1e3,
        "offered": figures.offered(),
        "achieved": figures.achieved(),
        "requests": {
            "intended": outcome.intended,
            "sent": record.sent,
            "answered": record.answered,
            "failed": record.failed(),
            "unsent": outcome.unsent,
            "unanswered": outcome.unanswered,
            "delayed": record.delayed,
            "warm_up": record.warm,
        },
        "bytes": record.bytes,
        "response": histogram(&record.response),
        "service": histogram(&record.service),
        "wrk2": as_wrk2(figures),
        "lateness": histogram(&record.lateness),
        "blocks": blocks(record),
        "failures": failures(record),
        "first_failures": first_failures(figures),
        "first_redirect": outcome.examples.redirect,
        "statuses": statuses(record),
        "seconds": seconds(record),
        "http2": outcome.streams.map(|streams| json!({"streams": streams.asked, "allowed": streams.allowed})),
        "tls": outcome.tls.as_ref().map(|tls| json!({"version": tls.version, "suite": tls.suite, "group": tls.group})),
        "generator_cpu": figures.usage.whole.own.map(cpu),
        "target_cpu": figures.usage.whole.targets.first().copied().flatten().map(|process| cpu(process.cpu)),
        "targets": figures.usage.targets.iter().zip(&figures.usage.whole.targets).map(|(target, used)| {
            json!({"pid": target.pid, "name": target.name, "used": used.map(process)})
        }).collect::<Vec<_>>(),
        "machine": slice(&figures.usage.whole),
        "machine_seconds": figures.usage.slices.iter().map(slice).collect::<Vec<_>>(),
        "throttled_from_s": figures.usage.throttled_from_s(),
        "stolen_from_s": figures.usage.stolen_from_s().map(|(second, _)| second),
        "pattern_s": figures.pattern().map(|period| period.length as f64 / 1e9),
        "pages": pages(figures),
        "valid_up_to": figures.valid_up_to(),
        "cut_short": outcome.is_cut_short,
        "valid": objections.is_empty(),
        "objections": objections,
    })
}

/// The figures that wrk2 keeps of the same requests; nothing for a closed loop.
fn as_wrk2(figures: &ReportInput<'_>) -> Value {
    if matches!(figures.pace, SendPace::Closed { .. }) {
        return Value::Null;
    }
    let record = &figures.outcome.record;
    let [kept, _] = record.kept_by_wrk2(figures.outcome.elapsed_ns);
    let at = |percentile: f64| kept.value_at_percentile(percentile) as f64 / 1e3;
    json!({
        "followed": figures.order == StartOrder::PerConnection,
        "calibration_us": record.calibrated.from_ns as f64 / 1e3,
        "left_out": record.response.len() - kept.len(),
        "samples": kept.len(),
        "mean": mean_us(kept), "p50": at(50.0), "p75": at(75.0), "p90": at(90.0), "p99": at(99.0),
        "p99.9": at(99.9), "max": kept.max() as f64 / 1e3,
    })
}

/// The failures by kind.
fn failures(record: &RunRecord) -> Value {
    let count =
        |failure: RequestFailure| (failure.name().to_owned(), record.failures_of(failure).into());
    Value::Object(RequestFailure::ALL.into_iter().map(count).collect())
}

/// The responses by status class; classes without any are left out.
fn statuses(record: &RunRecord) -> Value {
    let classes = record.status_classes.iter().enumerate().filter(|(_, count)| **count > 0);
    Value::Object(classes.map(|(class, count)| (format!("{class}xx"), (*count).into())).collect())
}

/// The requests that were due in each second.
fn seconds(record: &RunRecord) -> Value {
    let second = |second: &Second| {
        let mean = second.sum_ns as f64 / second.count.max(1) as f64 / 1e3;
        json!({"requests": second.count, "errors": second.errors, "mean_us": mean, "max_us": second.max_ns as f64 / 1e3})
    };
    record.seconds.iter().map(second).collect()
}

/// The response times in consecutive blocks of the run.
fn blocks(record: &RunRecord) -> Value {
    let response: Vec<String> = record.blocks.used().iter().map(encode).collect();
    json!({"seconds": record.blocks.width_ns() as f64 / 1e9, "response_hdr": response})
}

fn load(figures: &ReportInput<'_>) -> Value {
    match figures.pace {
        SendPace::Open { schedule, .. } => json!({
            "loop": "open",
            "arrival": match schedule.arrival { ArrivalProcess::Constant => "constant", ArrivalProcess::Poisson => "poisson" },
            "rate": schedule.rate,
            "seed": schedule.seed,
        }),
        SendPace::Closed { requests } => json!({"loop": "closed", "requests": requests}),
    }
}

fn cpu(cpu: ProcessCpu) -> Value {
    json!({"user_us": cpu.user_us, "system_us": cpu.system_us})
}

fn process(process: ProcessUsage) -> Value {
    json!({
        "user_us": process.cpu.user_us,
        "system_us": process.cpu.system_us,
        "read_bytes": process.read_bytes,
        "written_bytes": process.written_bytes,
        "switches": process.switches,
        "resident_bytes": process.resident_bytes,
        "open_files": process.open_files,
        "threads": process.threads,
    })
}

/// The resources used between two readings; `t_s` has the same origin as the intended starts.
fn slice(slice: &Slice) -> Value {
    json!({
        "t_s": slice.from_s,
        "wall_us": slice.wall_us,
        "generator_cpu": slice.own.map(cpu),
        "targets": slice.targets.iter().map(|used| used.map(process)).collect::<Vec<_>>(),
        "busy": slice.busy,
        "steal": slice.steal,
        "interrupts": slice.interrupts,
        "throttled_us": slice.throttled.map(|throttled| throttled.time_us),
        "received_bytes": slice.network.map(|network| network.received_bytes),
        "sent_bytes": slice.network.map(|network| network.sent_bytes),
        "network_share": slice.network_share,
    })
}

fn first_failures(figures: &ReportInput<'_>) -> Value {
    let texts = RequestFailure::ALL.into_iter().zip(&figures.outcome.examples.failures);
    let found = texts.filter_map(|(failure, text)| {
        Some((failure.name().to_owned(), Value::from(text.as_ref()?.as_str())))
    });
    Value::Object(found.collect())
}

/// The shares of pages that have a slow request, for the page sizes and times requested.
fn pages(figures: &ReportInput<'_>) -> Vec<Value> {
    let each = figures
        .pages
        .iter()
        .flat_map(|requests| figures.slower.iter().map(move |limit| (*requests, *limit)));
    each.map(|(requests, limit)| {
        let share = figures.pages_with_slower(requests, limit);
        json!({"requests": requests, "slower_than_us": limit as f64 / 1e3, "share": share})
    })
    .collect()
}

fn histogram(histogram: &Histogram<u64>) -> Value {
    let us = |value: u64| value as f64 / 1e3;
    let mut values = serde_json::Map::new();
    for percentile in PERCENTILES {
        let value = us(histogram.value_at_percentile(percentile));
        values.insert(format!("p{}", percent_text(percentile)), value.into());
    }
    values.insert("max".to_owned(), us(histogram.max()).into());
    values.insert("min".to_owned(), us(histogram.min()).into());
    values.insert("mean".to_owned(), mean_us(histogram).into());
    values.insert("stdev".to_owned(), deviation_us(histogram).into());
    values.insert("samples".to_owned(), histogram.len().into());
    // For `weir bench compare` and HdrHistogram's own programs.
    values.insert("hdr".to_owned(), encode(histogram).into());
    // In the form that `--compare` reads.
    values.insert("spectrum_ms".to_owned(), json!(Curve::of("", histogram).points));
    Value::Object(values)
}

/// One line per request, in schedule order. Times are in microseconds since the measurement began.
pub fn csv(samples: &[RequestSample]) -> String {
    let mut out = String::from(
        "n,intended_us,sent_us,ended_us,response_us,service_us,status,bytes,failure\n",
    );
    for sample in samples {
        let us = |time: u64| time as f64 / 1e3;
        let _ = writeln!(
            out,
            "{},{:.3},{:.3},{:.3},{:.3},{:.3},{},{},{}",
            sample.n,
            us(sample.intended_ns),
            us(sample.sent_ns),
            us(sample.ended_ns),
            us(sample.ended_ns.saturating_sub(sample.intended_ns)),
            us(sample.ended_ns.saturating_sub(sample.sent_ns)),
            sample.status,
            sample.bytes,
            sample.failure.map_or("", RequestFailure::name)
        );
    }
    out
}
