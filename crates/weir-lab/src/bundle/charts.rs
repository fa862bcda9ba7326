//! The charts of an experiment.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;

use crate::bench::chart::{Plot, PlotAxis, PlotPoint, PlotSeries};
use crate::bench::report::{FEW, percent_text, samples_beyond};
use crate::bench::spectrum::Curve;
use crate::experiment::{DIRECT, JudgedFigure, LoadLevel, RunOrder, Workload};
use crate::findings::{LabRun, merged_times, regime_change, value_of};

use super::results::LabResults;

/// Largest number of percentile charts of a workload.
const MOST_DISTRIBUTIONS: usize = 4;
/// The largest part of a file of requests that is read.
const MOST_CSV_BYTES: u64 = 64 * 1024 * 1024;
/// The largest number of requests in a chart.
const MOST_REQUESTS: usize = 20_000;
/// Curves whose ends differ by more than this factor are drawn on a logarithmic scale.
const WIDE: f64 = 12.0;

/// A chart.
#[derive(Clone, Debug)]
pub struct ExperimentChart {
    /// The name of its file.
    pub name: String,
    /// The subject of the chart.
    pub caption: String,
    /// The picture.
    pub svg: String,
    /// Set if it is one of the small results.
    pub is_published: bool,
}

/// All charts, the most telling first.
pub fn charts(results: LabResults<'_>) -> Vec<ExperimentChart> {
    let mut found = Vec::new();
    for workload in &results.experiment.workloads {
        let chosen = ChartChoice::of(results, workload);
        found.extend(chosen.distributions());
        found.extend(chosen.by_level());
        found.extend(chosen.consecutive());
        found.extend(chosen.requests());
    }
    found
}

/// The runs of a workload.
struct ChartChoice<'a> {
    results: LabResults<'a>,
    workload: &'a Workload,
    runs: Vec<&'a LabRun>,
    /// All measured levels, ascending.
    levels: Vec<LoadLevel>,
    /// The names of the candidates, the direct runs last.
    names: Vec<&'a str>,
}

impl<'a> ChartChoice<'a> {
    fn of(results: LabResults<'a>, workload: &'a Workload) -> Self {
        let is_own = |run: &&LabRun| {
            run.workload == workload.name
                && run.failure.is_none()
                && run.level != LoadLevel::Saturation
        };
        let runs: Vec<&LabRun> = results.runs.iter().filter(is_own).collect();
        let mut levels: Vec<LoadLevel> = Vec::new();
        for run in &runs {
            if !levels.contains(&run.level) {
                levels.push(run.level);
            }
        }
        levels.sort_by(|one, other| one.number().total_cmp(&other.number()));
        let mut names: Vec<&str> =
            results.experiment.candidates.iter().map(|one| one.role.name.as_str()).collect();
        names.push(DIRECT);
        Self { results, workload, runs, levels, names }
    }

    fn of_level(&self, name: &str, level: LoadLevel) -> Vec<&'a LabRun> {
        self.runs
            .iter()
            .copied()
            .filter(|run| run.candidate == name && run.level == level)
            .collect()
    }

    /// The title of the experiment, with the workload if there are several.
    fn subject(&self) -> String {
        if self.results.experiment.workloads.len() > 1 {
            format!(", {}", self.workload.name)
        } else {
            String::new()
        }
    }

    /// Response times by percentile at some levels.
    fn distributions(&self) -> Vec<ExperimentChart> {
        let common: Vec<LoadLevel> = self
            .levels
            .iter()
            .copied()
            .filter(|level| {
                self.names.iter().filter(|name| !self.of_level(name, *level).is_empty()).count() > 1
            })
            .collect();
        let count = common.len().min(MOST_DISTRIBUTIONS);
        let mut chosen: Vec<LoadLevel> = (0..count)
            .filter_map(|number| {
                common
                    .get(if count > 1 { number * (common.len() - 1) / (count - 1) } else { 0 })
                    .copied()
            })
            .collect();
        // The highest level tells most.
        chosen.reverse();
        chosen.iter().enumerate().map(|(rank, level)| self.distribution(*level, rank + 1)).collect()
    }

    /// The chart of a level. Its name has its rank, not its rate: that of a saturation differs each
    /// time.
    fn distribution(&self, level: LoadLevel, rank: usize) -> ExperimentChart {
        let mut series = Vec::new();
        let mut ends: Vec<f64> = Vec::new();
        for name in &self.names {
            let runs = self.of_level(name, level);
            let times = merged_times(runs.iter().copied());
            if times.is_empty() {
                continue;
            }
            let curve = Curve::of(name, &times);
            let end = (curve.samples.max(1) as f64).log10();
            let place =
                |share: f64| if share < 1.0 { (-(1.0 - share).log10()).min(end) } else { end };
            let points = curve.points.iter().map(|(share, ms)| PlotPoint {
                x: place(*share),
                y: *ms,
                is_small: false,
            });
            ends.push(curve.points.last().map_or(0.0, |(_, ms)| *ms));
            let is_saturated = runs.iter().any(|run| run.is_saturated());
            let word = if is_saturated { ", saturated" } else { "" };
            let label = if *name == DIRECT { "without a proxy" } else { name };
            series.push(PlotSeries {
                name: format!("{label} ({} samples{word})", curve.samples),
                points: points.collect(),
                is_curve: true,
                is_scatter: false,
            });
        }
        let (least, most) = ends
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |range, end| (range.0.min(*end), range.1.max(*end)));
        let y_axis = if most > least * WIDE { PlotAxis::LogTime } else { PlotAxis::Time };
        let scale = if y_axis == PlotAxis::LogTime { " (logarithmic scale)" } else { "" };
        let title = format!("Response time by percentile at {level}{}", self.subject());
        let plot = Plot {
            title: title.clone(),
            x_axis: PlotAxis::Nines,
            x_title: "percentile of all requests; each further nine has the same width".to_owned(),
            y_axis,
            y_title: format!("{}{scale}", self.time_title()),
            series,
            marks: Vec::new(),
            line: None,
        };
        ExperimentChart {
            name: format!("percentiles-{}-{rank}", self.workload.name),
            caption: title,
            svg: plot.svg(),
            is_published: true,
        }
    }

    /// Figures by level, if there are several levels.
    fn by_level(&self) -> Vec<ExperimentChart> {
        if self.levels.len() < 2 {
            return Vec::new();
        }
        let percent = |figure: &&JudgedFigure| {
            matches!(figure, JudgedFigure::Percentile(_) | JudgedFigure::Mean)
        };
        let mut found: Vec<ExperimentChart> = self
            .results
            .experiment
            .judged
            .iter()
            .filter(percent)
            .filter_map(|figure| self.latency_by_level(*figure))
            .collect();
        found.push(self.cpu_by_level("cpu", "CPU of the proxy", PlotAxis::Percent, |run| {
            Some(run.proxy?.share * 100.0)
        }));
        found.push(self.cpu_by_level(
            "cpu-per-request",
            "CPU time of the proxy per request",
            PlotAxis::Micros,
            LabRun::cpu_per_request_us,
        ));
        found
    }

    /// The start of the measured times: a closed loop has no intended one.
    fn time_title(&self) -> &'static str {
        if self.workload.is_closed() {
            "time from the send (closed loop)"
        } else {
            "response time from the intended start"
        }
    }

    fn x_title(&self) -> &'static str {
        match self.levels.first() {
            Some(LoadLevel::Concurrency(_)) if self.workload.streams.is_some() => {
                "connections, each with several requests at a time"
            }
            Some(LoadLevel::Concurrency(_)) => "connections, each with one request at a time",
            _ => "offered requests per second",
        }
    }

    /// The chart of a figure; none if no run had enough samples for it.
    fn latency_by_level(&self, figure: JudgedFigure) -> Option<ExperimentChart> {
        let value_ms = |run: &LabRun| Some(value_of(run, figure)? / 1e3);
        let merged_ms = |runs: &[&LabRun]| {
            let times = merged_times(runs.iter().copied());
            match figure {
                JudgedFigure::Percentile(percent) => {
                    let is_sure = samples_beyond(percent / 100.0, times.len()) >= FEW;
                    is_sure.then(|| times.value_at_percentile(percent) as f64 / 1e6)
                }
                _ => (!times.is_empty()).then(|| times.mean() / 1e6),
            }
        };
        let series = self.series_by_level(value_ms, merged_ms);
        if series.is_empty() {
            return None;
        }
        let line = self
            .results
            .experiment
            .budget
            .filter(|budget| figure == JudgedFigure::Percentile(budget.percentile));
        let line = line.map(|budget| {
            (budget.time_ns as f64 / 1e6, format!("budget of p{}", percent_text(budget.percentile)))
        });
        let name = figure.name();
        let title = format!("{name} response time by {}{}", self.level_word(), self.subject());
        let plot = Plot {
            title: title.clone(),
            x_axis: PlotAxis::Number,
            x_title: self.x_title().to_owned(),
            y_axis: PlotAxis::LogTime,
            y_title: format!(
                "{name} (logarithmic scale); small marks are single runs, large ones all runs together"
            ),
            series,
            marks: Vec::new(),
            line,
        };
        let is_published =
            matches!(figure, JudgedFigure::Percentile(percent) if (99.0..100.0).contains(&percent));
        Some(ExperimentChart {
            name: format!("{name}-{}", self.workload.name),
            caption: title,
            svg: plot.svg(),
            is_published,
        })
    }

    fn level_word(&self) -> &'static str {
        if matches!(self.levels.first(), Some(LoadLevel::Concurrency(_))) {
            "concurrency"
        } else {
            "rate"
        }
    }

    fn cpu_by_level(
        &self,
        name: &str,
        title: &str,
        axis: PlotAxis,
        value: impl Fn(&LabRun) -> Option<f64>,
    ) -> ExperimentChart {
        let mean = |runs: &[&LabRun]| {
            let values: Vec<f64> = runs.iter().filter_map(|run| value(run)).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let mut series = self.series_by_level(&value, mean);
        series.retain(|series| !series.points.is_empty());
        let caption = format!("{title} by {}{}", self.level_word(), self.subject());
        let unit =
            if axis == PlotAxis::Percent { "of the proxy's cores" } else { "user and system time" };
        let plot = Plot {
            title: caption.clone(),
            x_axis: PlotAxis::Number,
            x_title: self.x_title().to_owned(),
            y_axis: axis,
            y_title: format!("{unit}; small marks are single runs, large ones their mean"),
            series,
            marks: Vec::new(),
            line: None,
        };
        ExperimentChart {
            name: format!("{name}-{}", self.workload.name),
            caption,
            svg: plot.svg(),
            is_published: true,
        }
    }

    fn series_by_level(
        &self,
        single: impl Fn(&LabRun) -> Option<f64>,
        together: impl Fn(&[&LabRun]) -> Option<f64>,
    ) -> Vec<PlotSeries> {
        let series =
            |name: &&str| {
                let mut points = Vec::new();
                for level in &self.levels {
                    let runs = self.of_level(name, *level);
                    let x = level.number();
                    if runs.len() > 1 {
                        points.extend(runs.iter().filter_map(|run| {
                            Some(PlotPoint { x, y: single(run)?, is_small: true })
                        }));
                    }
                    points.extend(together(&runs).map(|y| PlotPoint { x, y, is_small: false }));
                }
                let name = if **name == *DIRECT { "without a proxy" } else { name };
                PlotSeries { name: name.to_owned(), points, is_curve: false, is_scatter: false }
            };
        let all = self.names.iter().map(series);
        all.filter(|series| !series.points.is_empty()).collect()
    }

    /// Runs that follow each other, with the change of regime.
    fn consecutive(&self) -> Vec<ExperimentChart> {
        if self.results.experiment.order != RunOrder::Consecutive {
            return Vec::new();
        }
        let Some(level) = self.levels.last().copied() else { return Vec::new() };
        let mut changes: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        let mut series = Vec::new();
        for name in self.names.iter().filter(|name| **name != DIRECT) {
            let runs = self.of_level(name, level);
            let means: Vec<f64> = runs.iter().map(|run| run.response.mean() / 1e6).collect();
            if let Some(first) = regime_change(&means) {
                changes.entry(first).or_default().push(name);
            }
            let points = means.iter().enumerate();
            let points = points.map(|(number, mean)| PlotPoint {
                x: number as f64 + 1.0,
                y: *mean,
                is_small: false,
            });
            series.push(PlotSeries {
                name: (*name).to_owned(),
                points: points.collect(),
                is_curve: false,
                is_scatter: false,
            });
        }
        let marks = changes.into_iter().map(|(first, names)| {
            (first as f64 + 0.5, format!("{}: change of regime", names.join(", ")))
        });
        let title = format!("Mean response time of consecutive runs at {level}{}", self.subject());
        let plot = Plot {
            title: title.clone(),
            x_axis: PlotAxis::Number,
            x_title: "number of the run".to_owned(),
            y_axis: PlotAxis::LogTime,
            y_title: "mean (logarithmic scale)".to_owned(),
            series,
            marks: marks.collect(),
            line: None,
        };
        let name = format!("consecutive-{}", self.workload.name);
        vec![ExperimentChart { name, caption: title, svg: plot.svg(), is_published: true }]
    }

    /// Every request of a closed loop, as the article of 2008 shows them.
    fn requests(&self) -> Vec<ExperimentChart> {
        let Some(level) =
            self.levels.last().copied().filter(|level| matches!(level, LoadLevel::Concurrency(_)))
        else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for name in &self.names {
            let Some(run) = self.of_level(name, level).first().copied() else { continue };
            let points = samples_of(run);
            if points.is_empty() {
                continue;
            }
            let title = format!("Every request with {level}: {name}{}", self.subject());
            let series = PlotSeries {
                name: format!("response time of {} requests", points.len()),
                points,
                is_curve: false,
                is_scatter: true,
            };
            let plot = Plot {
                title: title.clone(),
                x_axis: PlotAxis::Number,
                x_title: "number of the request, in the order of sending".to_owned(),
                y_axis: PlotAxis::Time,
                y_title: self.time_title().to_owned(),
                series: vec![series],
                marks: Vec::new(),
                line: None,
            };
            found.push(ExperimentChart {
                name: format!("requests-{}-{name}", self.workload.name),
                caption: title,
                svg: plot.svg(),
                is_published: *name != DIRECT,
            });
        }
        found
    }
}

/// The response times of a run with one line for each request, by its number.
fn samples_of(run: &LabRun) -> Vec<PlotPoint> {
    let Some(path) = run.raw["csv_path"].as_str() else { return Vec::new() };
    let mut text = String::new();
    let file = fs::File::open(path);
    let read = file.and_then(|file| file.take(MOST_CSV_BYTES).read_to_string(&mut text));
    if read.is_err() {
        return Vec::new();
    }
    let point = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let (x, us) = (cells.first()?.parse::<f64>().ok()?, cells.get(4)?.parse::<f64>().ok()?);
        Some(PlotPoint { x, y: us / 1e3, is_small: false })
    };
    text.lines().skip(1).filter_map(point).take(MOST_REQUESTS).collect()
}
