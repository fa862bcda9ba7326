//! `weir ctl percentiles`: the histograms of one instance or of several, merged count by count, as
//! a table, as JSON, and as files for HdrHistogram's programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Args;
use serde_json::json;
use weir_stats::interchange::{Interval, Log, Wanted, read_log, spectrum, to_hdr, write_log};
use weir_stats::metrics::{Distribution, Phase};

use super::show::{table, time};
use crate::admin_client::AdminPlace;
use crate::failure::CommandFailure;
use crate::terminal;

#[derive(Args, Debug)]
pub(super) struct PercentilesArguments {
    /// Only requests of this listener
    #[arg(long, value_name = "NAME")]
    listener: Option<String>,
    /// Only requests of this route
    #[arg(long, value_name = "NAME", conflicts_with_all = ["pool", "endpoint"])]
    route: Option<String>,
    /// Only requests of this pool
    #[arg(long, value_name = "NAME", conflicts_with_all = ["listener", "endpoint"])]
    pool: Option<String>,
    /// Only requests of this server, `POOL/SERVER`
    #[arg(long, value_name = "SERVER", conflicts_with = "listener")]
    endpoint: Option<String>,
    /// Phase: request, queue, connect, response, data, total, or own (the time that Weir itself
    /// added)
    #[arg(long, value_name = "PHASE", default_value = "total")]
    phase: String,
    /// Recent values only, instead of those since the start
    #[arg(long)]
    recent: bool,
    /// Merge these instances, each an admin address or an .hlog file
    #[arg(long, value_name = "PLACE", num_args = 1..)]
    merge: Vec<String>,
    /// Write the percentile distribution in the format of HdrHistogram's plotter; `-` prints it
    #[arg(long, value_name = "FILE")]
    hgrm: Option<PathBuf>,
    /// Write all histograms in HdrHistogram's log format; `-` prints them
    #[arg(long, value_name = "FILE")]
    hlog: Option<PathBuf>,
}

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PercentilesFormat {
    Table,
    Json,
}

pub(super) fn run(
    arguments: &PercentilesArguments,
    place: &AdminPlace,
    form: PercentilesFormat,
) -> Result<(), CommandFailure> {
    let (wanted, phase) = (arguments.wanted()?, arguments.phase()?);
    let (log, interval) = arguments.gathered(place)?;
    let times = wanted.of(&log, phase);
    let mut printed = false;
    let mut write = |path: &Path, text: &str| {
        if path.as_os_str() == "-" {
            printed = true;
            return terminal::print(text);
        }
        fs::write(path, text).map_err(|error| {
            CommandFailure::RunTime(format!("cannot write {}: {error}", path.display()))
        })
    };
    if let Some(path) = &arguments.hlog {
        write(path, &write_log(&log, interval, &arguments.places(place)?))?;
    }
    let Some(times) = times else {
        let is_unfiltered = wanted == Wanted::default();
        return Err(CommandFailure::RunTime(if is_unfiltered {
            "there has been no request yet".to_owned()
        } else {
            "there is no listener, route, pool or server of that name that has had a request"
                .to_owned()
        }));
    };
    if let Some(path) = &arguments.hgrm {
        write(path, &spectrum(&to_hdr(&times), 1e3))?;
    }
    match form {
        PercentilesFormat::Json => terminal::print(&json_of(phase, &times, arguments.instances())),
        PercentilesFormat::Table if printed => Ok(()),
        PercentilesFormat::Table => {
            terminal::print(&table_of(phase, &times, arguments.instances()))
        }
    }
}

impl PercentilesArguments {
    fn wanted(&self) -> Result<Wanted, CommandFailure> {
        let (mut pool, mut endpoint) = (self.pool.clone(), None);
        if let Some(server) = &self.endpoint {
            let (of, name) = server
                .split_once('/')
                .ok_or_else(|| CommandFailure::Usage(format!("`{server}` is not POOL/SERVER")))?;
            (pool, endpoint) = (Some(of.to_owned()), Some(name.to_owned()));
        }
        Ok(Wanted { listener: self.listener.clone(), route: self.route.clone(), pool, endpoint })
    }

    fn phase(&self) -> Result<Phase, CommandFailure> {
        Phase::named(&self.phase).ok_or_else(|| {
            let known = Phase::ALL.map(Phase::as_str).join(", ");
            CommandFailure::Usage(format!("`{}` is not a phase: use {known}", self.phase))
        })
    }

    fn instances(&self) -> usize {
        self.merge.len().max(1)
    }

    /// Returns the names of the instances that are asked.
    fn places(&self, place: &AdminPlace) -> Result<String, CommandFailure> {
        if self.merge.is_empty() { place.name() } else { Ok(self.merge.join(", ")) }
    }

    /// Merges the histograms of all instances. It fails if one does not answer: percentiles without
    /// that instance would mislead.
    fn gathered(&self, place: &AdminPlace) -> Result<(Log, Interval), CommandFailure> {
        let mut log = Log::new();
        let mut interval: Option<Interval> = None;
        let mut add = |name: &str, text: &str| {
            let read = read_log(text, &mut log)
                .map_err(|error| CommandFailure::RunTime(format!("{name}: {error}")))?;
            interval = match (interval, read) {
                (Some(all), Some(read)) => Some(all.and(read)),
                (all, read) => all.or(read),
            };
            Ok(())
        };
        let window = if self.recent { "recent" } else { "start" };
        let path = format!("/v1/distributions.hlog?window={window}");
        if self.merge.is_empty() {
            add("the response", &place.ask("GET", &path, None)?.body)?;
        }
        for name in &self.merge {
            let text = if Path::new(name).is_file() {
                fs::read_to_string(name).map_err(|error| {
                    CommandFailure::RunTime(format!("cannot read {name}: {error}"))
                })?
            } else {
                place.at(name).ask("GET", &path, None)?.body
            };
            add(name, &text)?;
        }
        let none = Interval { from: SystemTime::UNIX_EPOCH, length: Duration::ZERO };
        Ok((log, interval.unwrap_or(none)))
    }
}

fn json_of(phase: Phase, times: &Distribution, instances: usize) -> String {
    let value = json!({
        "phase": phase.as_str(),
        "instances": instances,
        "count": times.count(),
        "mean_us": times.mean_us(),
        "min_us": times.min_us(),
        "max_us": times.max_us(),
        "quantiles": times.quantiles(),
        "counts": times.counts(),
    });
    format!("{value:#}\n")
}

fn table_of(phase: Phase, times: &Distribution, instances: usize) -> String {
    let of = if instances == 1 { String::new() } else { format!(" of {instances} instances") };
    let (count, mean) = (times.count(), time(times.mean_us().round() as u64));
    let mut rows: Vec<Vec<String>> = times
        .quantiles()
        .into_iter()
        .map(|one| {
            let percent = format!("{:.4}", one.quantile * 100.0);
            let percent = percent.trim_end_matches('0').trim_end_matches('.');
            vec![format!("p{percent}"), time(one.us), one.samples.to_string()]
        })
        .collect();
    rows.push(vec!["max".to_owned(), time(times.max_us()), String::new()]);
    let heading = ["percentile", phase.as_str(), "samples at it or above"];
    format!("{count} requests{of}, mean {mean}\n\n{}", table(&heading, &rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_percentile_has_its_samples_beside_it() {
        let text = table_of(Phase::Total, &Distribution::of(1..=10_000), 3);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "10000 requests of 3 instances, mean 5.0ms");
        assert_eq!(lines[2], "PERCENTILE  TOTAL   SAMPLES AT IT OR ABOVE");
        assert_eq!(lines[7], "p99         9.9ms   105");
        assert_eq!(lines[10], "p99.9999    10.0ms  1");
        assert_eq!(lines[11], "max         10.0ms");
    }
}
