//! The report as files that programs read: JSON, and one line a request.

use std::fmt::Write;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::load::Pace;
use super::machine::Cpu;
use super::record::{Failure, Sample};
use super::report::{Figures, PERCENTILES, percent_text};
use super::schedule::Arrival;
use super::wrk_text::{deviation_us, mean_us};

/// Every figure of a run. Times are microseconds, rates requests per second.
pub fn json(figures: &Figures<'_>, url: &str) -> Value {
    let outcome = figures.outcome;
    let record = &outcome.record;
    let failures: serde_json::Map<String, Value> = Failure::ALL
        .into_iter()
        .map(|failure| (failure.name().to_owned(), record.failures_of(failure).into()))
        .collect();
    let statuses: serde_json::Map<String, Value> = record
        .status_classes
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
        .map(|(class, count)| (format!("{class}xx"), (*count).into()))
        .collect();
    let seconds: Vec<Value> = record
        .seconds
        .iter()
        .map(|second| {
            let mean = second.sum_ns as f64 / second.count.max(1) as f64 / 1e3;
            json!({"requests": second.count, "errors": second.errors, "mean_us": mean, "max_us": second.max_ns as f64 / 1e3})
        })
        .collect();
    let objections = figures.objections();
    json!({
        "url": url,
        "load": load(figures),
        "threads": figures.threads,
        "connections": {
            "asked": figures.connections, "opened": outcome.opened, "open": outcome.open, "lost": outcome.lost,
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
        "lateness": histogram(&record.lateness),
        "failures": failures,
        "statuses": statuses,
        "seconds": seconds,
        "tls": outcome.tls.as_ref().map(|tls| json!({"version": tls.version, "suite": tls.suite, "group": tls.group})),
        "generator_cpu": figures.usage.own.map(cpu),
        "target_cpu": figures.usage.target.map(cpu),
        "steal": figures.usage.steal,
        "busy": figures.usage.busy,
        "throttled_us": figures.usage.throttled.map(|throttled| throttled.time_us),
        "cut_short": outcome.is_cut_short,
        "valid": objections.is_empty(),
        "objections": objections,
    })
}

fn load(figures: &Figures<'_>) -> Value {
    match figures.pace {
        Pace::Open { schedule, .. } => json!({
            "loop": "open",
            "arrival": match schedule.arrival { Arrival::Constant => "constant", Arrival::Poisson => "poisson" },
            "rate": schedule.rate,
            "seed": schedule.seed,
        }),
        Pace::Closed { requests } => json!({"loop": "closed", "requests": requests}),
    }
}

fn cpu(cpu: Cpu) -> Value {
    json!({"user_us": cpu.user_us, "system_us": cpu.system_us})
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
    Value::Object(values)
}

/// One line a request, in the order of the schedule. Times are microseconds since the measurement began.
pub fn csv(samples: &[Sample]) -> String {
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
            sample.failure.map_or("", Failure::name)
        );
    }
    out
}
