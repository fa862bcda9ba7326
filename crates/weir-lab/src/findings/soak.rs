//! The verdict on a long run: does a role's memory grow, do its open files or threads, do response
//! times drift?

use std::fmt;

use hdrhistogram::Histogram;
use serde_json::Value;

use super::run::LabRun;
use super::trend::{Trend, TrendPoint};
use crate::bench::encoded::decode;
use crate::bench::report::{FEW, samples_beyond};
use crate::experiment::{SOAK_PERCENTILE, SoakLimits};

/// The share of a run at its beginning in which caches and pools fill: no growth is told of it.
const SETTLING: f64 = 0.25;

/// A figure of a long run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoakFigure {
    /// Resident memory, in bytes.
    Memory,
    /// Open files.
    Files,
    /// Threads.
    Threads,
    /// The p99 of response times, in µs.
    Latency,
}

/// The verdict on a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoakVerdict {
    /// It does not change, or by less than the limit.
    Steady,
    /// It grows: a leak, or a drift of response times.
    Grows,
    /// The run is too short, or the figure varies too much.
    CannotTell,
}

/// A figure of a role in a long run.
#[derive(Clone, Debug)]
pub struct SoakRow {
    /// The role: `proxy`, `origin`, or `client` for response times.
    pub role: &'static str,
    /// The figure.
    pub figure: SoakFigure,
    /// Its trend after the time of settling; that of a latency is of its logarithm.
    pub trend: Option<Trend>,
    /// The verdict.
    pub verdict: SoakVerdict,
}

impl fmt::Display for SoakFigure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Memory => "memory",
            Self::Files => "open files",
            Self::Threads => "threads",
            Self::Latency => "p99",
        })
    }
}

/// All figures of a long run.
pub fn soak(run: &LabRun, limits: SoakLimits) -> Vec<SoakRow> {
    let mut found = Vec::new();
    for role in ["proxy", "origin"] {
        for (figure, name) in [
            (SoakFigure::Memory, "resident_bytes"),
            (SoakFigure::Files, "open_files"),
            (SoakFigure::Threads, "threads"),
        ] {
            let points = points_of(run, role, name);
            if !points.is_empty() {
                found.push(row(role, figure, Trend::of(settled(&points)), limits));
            }
        }
    }
    let trend = Trend::of(settled(&latencies(run)));
    found.push(row("client", SoakFigure::Latency, trend, limits));
    found
}

fn row(
    role: &'static str,
    figure: SoakFigure,
    trend: Option<Trend>,
    limits: SoakLimits,
) -> SoakRow {
    let verdict = trend.map_or(SoakVerdict::CannotTell, |trend| {
        let limit = match figure {
            SoakFigure::Memory => limits.memory * trend.first,
            SoakFigure::Files => limits.files,
            SoakFigure::Threads => limits.threads,
            SoakFigure::Latency => limits.latency.ln_1p(),
        };
        let [low, high] = [trend.interval.low, trend.interval.high].map(|end| end * trend.span_s);
        if low > 0.0 && trend.change() > limit {
            SoakVerdict::Grows
        } else if high <= limit {
            SoakVerdict::Steady
        } else {
            SoakVerdict::CannotTell
        }
    });
    SoakRow { role, figure, trend, verdict }
}

/// The values of a role in the course of a run, all its programs together.
fn points_of(run: &LabRun, role: &str, name: &str) -> Vec<TrendPoint> {
    let roles: Vec<&str> =
        run.raw["watched"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let seconds = run.raw["bench"]["machine_seconds"].as_array().into_iter().flatten();
    let point = |second: &Value| {
        let targets = second["targets"].as_array()?;
        let own = roles.iter().zip(targets).filter(|(one, _)| **one == role);
        let values: Option<Vec<f64>> = own.map(|(_, used)| used[name].as_f64()).collect();
        let values = values.filter(|values| !values.is_empty())?;
        let t_s = second["t_s"].as_f64()? + second["wall_us"].as_f64()? / 1e6;
        Some(TrendPoint { t_s, value: values.iter().sum() })
    };
    seconds.filter_map(point).filter(|point| point.t_s > 0.0).collect()
}

/// The logarithms of the p99 of the blocks of a run. Blocks with too few requests are joined.
fn latencies(run: &LabRun) -> Vec<TrendPoint> {
    let blocks = &run.raw["bench"]["blocks"];
    let width_s = blocks["seconds"].as_f64().unwrap_or(0.0);
    let texts = blocks["response_hdr"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let histograms: Option<Vec<Histogram<u64>>> = texts.map(|text| decode(text).ok()).collect();
    let histograms = histograms.unwrap_or_default();
    for size in 1..=histograms.len() {
        let parts: Option<Vec<TrendPoint>> = histograms
            .chunks_exact(size)
            .enumerate()
            .map(|(number, part)| {
                let (first, rest) = part.split_first()?;
                let mut sum = first.clone();
                for other in rest {
                    sum.add(other).ok()?;
                }
                let is_sure = samples_beyond(SOAK_PERCENTILE / 100.0, sum.len()) >= FEW;
                let value = (sum.value_at_percentile(SOAK_PERCENTILE) as f64 / 1e3).ln();
                let t_s = (number as f64 + 0.5) * size as f64 * width_s;
                is_sure.then_some(TrendPoint { t_s, value })
            })
            .collect();
        if let Some(parts) = parts {
            return parts;
        }
    }
    Vec::new()
}

/// The part of a series after the time of settling.
fn settled(points: &[TrendPoint]) -> &[TrendPoint] {
    points.get((points.len() as f64 * SETTLING).ceil() as usize..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{SoakFigure, SoakVerdict, soak};
    use crate::bench::encoded::encode;
    use crate::bench::record::empty_histogram;
    use crate::experiment::{LoadLevel, SoakLimits};
    use crate::findings::tests::even;

    /// The verdicts on a run of 400 s, by figure of the proxy and p99.
    fn verdicts(
        value: impl Fn(f64) -> [f64; 3],
        time_ns: impl Fn(u64) -> u64,
    ) -> Vec<(SoakFigure, SoakVerdict)> {
        let mut run = even("a", LoadLevel::Rate(100.0), 0, 1_000_000);
        let second = |t: u32| {
            let [memory, files, threads] = value(f64::from(t));
            let used = json!({"resident_bytes": memory, "open_files": files, "threads": threads});
            json!({"t_s": f64::from(t), "wall_us": 1e6, "targets": [used]})
        };
        run.raw["bench"]["machine_seconds"] = (0..400).map(second).collect::<Vec<_>>().into();
        let block = |number: u64| {
            let mut times = empty_histogram();
            for n in 0..2000 {
                times.record(time_ns(number) + n % 100).unwrap();
            }
            Value::from(encode(&times))
        };
        let blocks: Vec<Value> = (0..20).map(block).collect();
        run.raw["bench"]["blocks"] = json!({"seconds": 20.0, "response_hdr": blocks});
        soak(&run, SoakLimits::default()).iter().map(|row| (row.figure, row.verdict)).collect()
    }

    fn all(verdict: [SoakVerdict; 4]) -> Vec<(SoakFigure, SoakVerdict)> {
        [SoakFigure::Memory, SoakFigure::Files, SoakFigure::Threads, SoakFigure::Latency]
            .into_iter()
            .zip(verdict)
            .collect()
    }

    const MB: f64 = 1_048_576.0;

    #[test]
    fn what_grows_is_told_from_what_only_varies() {
        use SoakVerdict::{CannotTell, Grows, Steady};
        // Memory goes up and down by a tenth with a period of 20 s, and rises at first.
        let wave = |t: f64| (t * 0.314).sin() * 0.5 * MB + (t / 100.0).min(0.5) * MB + 20.0 * MB;
        let steady = verdicts(|t| [wave(t), 30.0, 3.0], |number| 1_000_000 + 10_000 * (number % 3));
        assert_eq!(steady, all([Steady; 4]));
        let leaks = verdicts(
            |t| [wave(t) + t * 0.02 * MB, 30.0 + (t / 20.0).floor(), 3.0 + (t / 50.0).floor()],
            |number| 1_000_000 + 40_000 * number,
        );
        assert_eq!(leaks, all([Grows; 4]));
        // A growth within the limits is none.
        let slow = verdicts(|t| [wave(t) + t * 0.0001 * MB, 30.0, 3.0], |_| 1_000_000);
        assert_eq!(slow, all([Steady; 4]));
        // Memory that shrinks is no leak, and one that is all over the place is no trend.
        let shrinks = verdicts(|t| [wave(t) - t * 0.02 * MB, 30.0, 3.0], |_| 1_000_000);
        assert_eq!(shrinks[0].1, Steady);
        let wild =
            verdicts(|t| [20.0 * MB + 15.0 * MB * (t / 60.0).sin(), 30.0, 3.0], |_| 1_000_000);
        assert!(matches!(wild[0].1, CannotTell | Steady), "{wild:?}");
    }

    #[test]
    fn nothing_is_told_of_a_run_without_figures() {
        let run = even("a", LoadLevel::Rate(100.0), 0, 1_000_000);
        let found = soak(&run, SoakLimits::default());
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].figure, found[0].verdict),
            (SoakFigure::Latency, SoakVerdict::CannotTell)
        );
    }
}
