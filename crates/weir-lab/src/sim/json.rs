//! A comparison for programs: JSON with every figure unrounded, and CSV with one line per request.
//! Times are in microseconds.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::outcome::{RequestEnd, RequestOutcome};
use super::plan::{Scenario, SimCandidate};
use super::report::{ComparisonReport, Row, ScenarioReport};

impl ComparisonReport {
    /// One JSON object, followed by a line break.
    pub fn to_json(&self) -> String {
        let scenarios: Vec<Value> = self.scenarios.iter().map(ScenarioReport::to_json).collect();
        let value = json!({ "title": self.title, "seed": self.seed, "scenarios": scenarios });
        format!("{value:#}\n")
    }
}

impl ScenarioReport {
    fn to_json(&self) -> Value {
        let bounds = &self.bounds;
        let rows: Vec<Value> = self.rows.iter().map(Row::to_json).collect();
        json!({
            "load": self.scenario.load.word(),
            "service": self.scenario.service.to_string(),
            "requests": self.requests,
            "ceiling_per_s": bounds.ceiling,
            "capacity_per_s": bounds.capacity,
            "offered_per_s": bounds.offered,
            "ideal_longest_wait_us": micros(bounds.ideal_longest_wait),
            "ideal_mean_wait_us": bounds.ideal_mean_wait / 1e3,
            "rows": rows,
        })
    }
}

impl Row {
    fn to_json(&self) -> Value {
        let summary = &self.summary;
        let quantiles: Map<String, Value> = summary
            .quantiles
            .iter()
            .map(|quantile| {
                let value = json!({ "us": micros(quantile.value), "samples": quantile.samples });
                (quantile.name.to_owned(), value)
            })
            .collect();
        let ends: Map<String, Value> =
            summary.ends.iter().map(|(end, count)| (end.word().to_owned(), json!(count))).collect();
        let period = summary.period.map(
            |period| json!({ "us": micros(period.length), "autocorrelation": period.correlation }),
        );
        json!({
            "policy": self.candidate.policy.to_string(),
            "max_conn": self.candidate.max_conn.to_string(),
            "queue": self.candidate.queue.to_string(),
            "state": self.candidate.state.to_string(),
            "ends": ends,
            "duration_us": micros(summary.duration),
            "answers_per_s": summary.throughput,
            "samples": summary.samples,
            "mean_us": summary.mean / 1e3,
            "fastest_us": micros(summary.fastest),
            "quantiles": quantiles,
            "near_fastest": summary.near_fastest,
            "longest_queue_wait_us": micros(summary.longest_queue_wait),
            "longest_wait_us": micros(summary.longest_wait),
            "mean_wait_us": summary.mean_wait / 1e3,
            "longest_wait_to_ideal": summary.wait_to_ideal,
            "inversions": summary.inversions,
            "regret_us": summary.regret_us,
            "overlaps": summary.overlaps,
            "order_violations": summary.order_violations,
            "most_ahead_of_share": summary.most_ahead,
            "longest_queue": summary.longest_queue,
            "served_by_endpoint": summary.served,
            "most_at_endpoint": summary.most,
            "period": period,
            "credits_ended_us": summary.credits_ended.map(micros),
        })
    }
}

impl RequestEnd {
    /// The name in files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::TimedOut => "timed_out",
            Self::Forgotten => "never_served",
            Self::QueueFull => "queue_full",
            Self::Full => "full",
            Self::Unavailable => "unavailable",
            Self::Unreachable => "unreachable",
            Self::Reset => "reset",
        }
    }
}

fn micros(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

/// The header line of the CSV that [`write_points`] writes.
pub const POINTS_HEADER: &str = "load,service,policy,max_conn,queue,request,arrival_us,response_us,queue_us,door_us,\
    queue_position,endpoint,attempts,end,state\n";

/// Writes a line for each request of a run. Endpoints are numbered from 1.
pub fn write_points(
    out: &mut impl Write,
    scenario: &Scenario,
    candidate: &SimCandidate,
    outcomes: &[RequestOutcome],
) -> io::Result<()> {
    let run = format!(
        "{},{},{},{},{}",
        scenario.load.word(),
        quoted(&scenario.service.to_string()),
        candidate.policy,
        candidate.max_conn,
        candidate.queue
    );
    for (request, outcome) in outcomes.iter().enumerate() {
        let endpoint = outcome.endpoint.map_or_else(String::new, |index| (index + 1).to_string());
        writeln!(
            out,
            "{run},{request},{},{},{},{},{},{endpoint},{},{},{}",
            micros(outcome.arrived),
            micros(outcome.response),
            micros(outcome.queue),
            micros(outcome.door),
            outcome.position,
            outcome.attempts,
            outcome.end.word(),
            candidate.state
        )?;
    }
    Ok(())
}

/// Quotes a field if necessary: `lognormal:20ms,0.5` contains a comma.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
