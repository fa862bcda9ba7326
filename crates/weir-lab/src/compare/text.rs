//! The comparison as text: every run, the figures side by side, and what follows in words.

use std::fmt::Write;

use super::comparison::{
    ComparedFigure, ComparedVariant, Design, DifferenceDirection, FigureConfidence,
    FigureDifference, RunComparison,
};
use super::figures::RunFigure;
use super::statistics::LEVEL;
use crate::bench::wrk_text::{metric_text, time_text};

/// Fewer repetitions than this give wide intervals, which the report says.
const FEW_RUNS: usize = 5;

impl RunComparison {
    /// The report.
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.write_runs(&mut out);
        self.write_figures(&mut out);
        for sentence in self.sentences() {
            let _ = writeln!(out, "  {sentence}");
        }
        out
    }

    /// The outcome in words: a sentence for each difference, then what limits them.
    pub fn sentences(&self) -> Vec<String> {
        let mut found: Vec<String> = self.variants.iter().filter_map(fault_sentence).collect();
        for (figure, index, difference) in self.differences() {
            found.push(self.sentence(figure, self.name(index), difference));
        }
        found.push(self.joint_sentence());
        found.extend(self.caveats());
        found
    }

    /// Every difference with its figure and the index of its variant, by variant.
    fn differences(&self) -> impl Iterator<Item = (&ComparedFigure, usize, &FigureDifference)> {
        (1..self.variants.len()).flat_map(|index| {
            self.figures
                .iter()
                .filter_map(move |figure| Some((figure, index, figure.differences.get(index - 1)?)))
        })
    }

    fn name(&self, index: usize) -> &str {
        self.variants.get(index).map_or("", |variant| &variant.name)
    }

    fn sentence(
        &self,
        figure: &ComparedFigure,
        name: &str,
        difference: &FigureDifference,
    ) -> String {
        let (first, figure) = (self.name(0), &figure.name);
        let Some(certainty) = &difference.certainty else {
            let by = change_text(difference.ratio);
            return format!(
                "{figure}: {name} differs from {first} by {by} in one run; repeat it to see what is chance"
            );
        };
        let (low, high) = (certainty.ratio.low, certainty.ratio.high);
        let sure = LEVEL * 100.0;
        let range = |from: f64, to: f64| {
            let (from, to) = (percent(from), percent(to));
            if from == to { from } else { format!("{from} to {to}") }
        };
        match certainty.outcome() {
            DifferenceDirection::Higher => format!(
                "{figure}: that of {name} is {} higher than that of {first} ({sure:.0} % interval)",
                range(low - 1.0, high - 1.0)
            ),
            DifferenceDirection::Lower => format!(
                "{figure}: that of {name} is {} lower than that of {first} ({sure:.0} % interval)",
                range(1.0 - high, 1.0 - low)
            ),
            DifferenceDirection::NotSeen => format!(
                "{figure}: no difference of {name} from {first} is seen; it is at most {} ({sure:.0} % interval)",
                percent((high - 1.0).max(1.0 - low))
            ),
        }
    }

    /// The differences that hold when all figures are considered together.
    fn joint_sentence(&self) -> String {
        let certain = || {
            self.differences().filter_map(|(figure, index, difference)| {
                Some((figure, self.name(index), difference.certainty?))
            })
        };
        let count = certain().count();
        if count == 0 {
            return "nothing can be said about chance: repeat the runs".to_owned();
        }
        let holding: Vec<String> = certain()
            .filter(|(.., certainty)| certainty.holds_together)
            .map(|(figure, name, certainty)| {
                let word = if certainty.ratio.low > 1.0 { "higher" } else { "lower" };
                format!("{} of {name} is {word}", figure.name)
            })
            .collect();
        let risk = (1.0 - LEVEL) * 100.0;
        let sure = format!("with all {count} intervals considered together ({risk:.0} % risk)");
        if holding.is_empty() {
            let why = if self.variants.iter().any(|variant| variant.faults() > 0) {
                " while requests fail"
            } else {
                ""
            };
            format!("{sure}, no difference is certain{why}")
        } else {
            format!("{sure}: {}", holding.join("; "))
        }
    }

    fn caveats(&self) -> Vec<String> {
        let mut found = Vec::new();
        let runs = || self.variants.iter().flat_map(|variant| &variant.runs);
        match self.design {
            Design::InTurns => {}
            Design::Apart => found.push(
                "the runs were not made in turns: what changed on the machine between them is part of the \
                differences"
                    .to_owned(),
            ),
            Design::OneRun => found.push(
                "there is one run of a variant: the intervals come from blocks of time within runs, and what \
                changes from run to run is not in them"
                    .to_owned(),
            ),
        }
        let mut settings = self.variants.iter().filter_map(|variant| variant.runs.first());
        let first = settings.next().map(|run| &run.settings);
        if settings.any(|run| Some(&run.settings) != first) {
            let each = self.variants.iter().filter_map(|variant| {
                Some(format!("{}: {}", variant.name, variant.runs.first()?.settings))
            });
            let each: Vec<String> = each.collect();
            found.push(format!("the loads differ: {}", each.join("; ")));
        }
        let fewest = self.variants.iter().map(|variant| variant.runs.len()).min().unwrap_or(0);
        if fewest < FEW_RUNS && self.design != Design::OneRun {
            found.push(format!(
                "{fewest} runs of a variant make wide intervals; {FEW_RUNS} or more make narrower ones"
            ));
        }
        found.extend(self.left_out.iter().cloned());
        let invalid = runs().filter(|run| !run.objections.is_empty()).count();
        if invalid > 0 {
            found.push(format!(
                "{invalid} of {} runs are NOT VALID by themselves, for the reasons beside them",
                runs().count()
            ));
        }
        found
    }

    /// Writes a line for each run, round by round.
    fn write_runs(&self, out: &mut String) {
        let most = self.variants.iter().map(|variant| variant.runs.len()).max().unwrap_or(0);
        let mut rows = vec![vec!["run".to_owned(), "variant".to_owned()]];
        let mut reasons = Vec::new();
        let figures: Vec<&ComparedFigure> = self.figures.iter().collect();
        rows[0].extend(figures.iter().map(|figure| figure.name.clone()));
        for (number, index) in
            (0..most).flat_map(|number| (0..self.variants.len()).map(move |index| (number, index)))
        {
            let Some(variant) = self.variants.get(index) else { continue };
            let Some(run) = variant.runs.get(number) else { continue };
            let mut row = vec![(number + 1).to_string(), variant.name.clone()];
            for figure in &figures {
                let value = figure.value_of_run(index, number, variant.runs.len());
                row.push(value.map_or_else(String::new, |value| figure.value_text(value)));
            }
            rows.push(row);
            for objection in &run.objections {
                reasons.push(format!(
                    "run {} of {}: NOT VALID: {objection}",
                    number + 1,
                    variant.name
                ));
            }
        }
        for variant in &self.variants {
            if let Some(run) = variant.runs.first() {
                let _ = writeln!(out, "  {}: {}", variant.name, run.target);
            }
        }
        out.push('\n');
        write_table(out, &rows);
        for reason in reasons {
            let _ = writeln!(out, "  {reason}");
        }
        out.push('\n');
    }

    /// Writes a line for each figure and variant.
    fn write_figures(&self, out: &mut String) {
        let sure = format!("{:.0} % interval", LEVEL * 100.0);
        let mut rows = vec![
            ["figure", "variant", "value", self.name(0), "difference", &sure, "change", &sure]
                .map(str::to_owned)
                .to_vec(),
        ];
        for (figure, index, difference) in self.differences() {
            let value = |index: usize| {
                figure
                    .values
                    .get(index)
                    .map_or_else(String::new, |data| figure.value_text(data.whole))
            };
            let (absolute, ratio) = match &difference.certainty {
                Some(FigureConfidence { absolute, ratio, .. }) => (
                    format!(
                        "{} to {}",
                        figure.difference_text(absolute.low),
                        figure.difference_text(absolute.high)
                    ),
                    format!("{} to {}", change_text(ratio.low), change_text(ratio.high)),
                ),
                None => ("-".to_owned(), "-".to_owned()),
            };
            rows.push(vec![
                figure.name.clone(),
                self.name(index).to_owned(),
                value(index),
                value(0),
                figure.difference_text(difference.absolute),
                absolute,
                change_text(difference.ratio),
                ratio,
            ]);
        }
        write_table(out, &rows);
        out.push('\n');
    }
}

impl ComparedFigure {
    /// The value of one run of a variant with so many runs.
    pub(super) fn value_of_run(&self, variant: usize, run: usize, runs: usize) -> Option<f64> {
        let data = self.values.get(variant)?;
        if runs == 1 { Some(data.whole) } else { data.sections.get(run).copied() }
    }

    fn value_text(&self, value: f64) -> String {
        if self.figure == RunFigure::Rate { metric_text(value) } else { time_text(value) }
    }

    fn difference_text(&self, value: f64) -> String {
        let sign = if value < 0.0 { "-" } else { "+" };
        format!("{sign}{}", self.value_text(value.abs()))
    }
}

fn fault_sentence(variant: &ComparedVariant) -> Option<String> {
    let faults = variant.faults();
    let all: f64 = variant.runs.iter().map(|run| run.requests).sum();
    (faults > 0).then(|| {
        format!(
            "{}: {faults} of {all} requests failed or had an error status, so its times are not those \
            of the same work",
            variant.name
        )
    })
}

/// A share in percent.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent.abs() < 10.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// A quotient as a change in percent.
fn change_text(ratio: f64) -> String {
    let sign = if ratio < 1.0 { "-" } else { "+" };
    format!("{sign}{}", percent((ratio - 1.0).abs()))
}

/// Writes a table: columns as wide as their longest cell, the second one from the left, others from
/// the right.
fn write_table(out: &mut String, rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    for row in rows {
        let mut line = String::from(" ");
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = if column < 2 {
                write!(line, " {cell:<width$} ")
            } else {
                write!(line, " {cell:>width$} ")
            };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
}
