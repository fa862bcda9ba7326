//! Metrics as text, in Prometheus' own format (0.0.4) or as OpenMetrics (1.0).

use std::fmt::Write as _;

use super::family::{Exemplar, Family, Format, HistogramTimes, Labels, MetricKind, MetricValue};

/// A writer of one of the text formats.
#[derive(Debug)]
pub(super) struct TextWriter {
    format: Format,
    out: String,
    family: Option<Family>,
    /// Set once the family's header is written.
    begun: bool,
}

impl TextWriter {
    /// Creates an empty writer for a text format.
    pub(super) fn new(format: Format) -> Self {
        Self { format, out: String::with_capacity(16 * 1024), family: None, begun: false }
    }

    pub(super) fn family(&mut self, family: Family) {
        self.family = Some(family);
        self.begun = false;
    }

    pub(super) fn sample(&mut self, labels: Labels<'_>, value: MetricValue) {
        let suffix = self.family.map_or("", |family| family.suffix());
        self.line(suffix, labels, value);
        self.out.push('\n');
    }

    /// Writes the counts up to and including each bound, then the sum of all times and their count.
    pub(super) fn histogram(&mut self, labels: Labels<'_>, times: HistogramTimes<'_>) {
        let HistogramTimes { all, bounds_us, exemplars } = times;
        let mut below_us = 0;
        let bounds = bounds_us.iter().map(|bound| Some(*bound)).chain([None]);
        for (bound, count) in bounds.zip(all.cumulative(bounds_us).into_iter().chain([all.count()]))
        {
            let text = bound.map_or_else(|| "+Inf".to_owned(), seconds);
            let with_bound: Vec<(&str, &str)> =
                labels.iter().copied().chain([("le", text.as_str())]).collect();
            self.line("_bucket", &with_bound, MetricValue::Count(count));
            if let Some(exemplar) = Exemplar::within(exemplars, below_us, bound) {
                self.exemplar(exemplar);
            }
            self.out.push('\n');
            below_us = bound.unwrap_or(below_us);
        }
        self.line("_sum", labels, MetricValue::Seconds(all.sum_us()));
        self.out.push('\n');
        self.line("_count", labels, MetricValue::Count(all.count()));
        self.out.push('\n');
    }

    /// Returns the complete text.
    pub(super) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }

    fn begin(&mut self) -> &'static str {
        let Some(family) = self.family else { return "" };
        let Family { name, kind, help } = family;
        if !std::mem::replace(&mut self.begun, true) {
            // In Prometheus' own format a counter's family has the name of its samples.
            let shown = if self.format == Format::Prometheus { family.suffix() } else { "" };
            let word = match kind {
                MetricKind::Counter => "counter",
                MetricKind::Gauge => "gauge",
                MetricKind::Histogram => "histogram",
            };
            let _ = writeln!(self.out, "# TYPE {name}{shown} {word}");
            if self.format == Format::OpenMetrics
                && let Some(unit) =
                    ["seconds", "bytes"].into_iter().find(|unit| has_unit(name, unit))
            {
                let _ = writeln!(self.out, "# UNIT {name} {unit}");
            }
            let _ = write!(self.out, "# HELP {name}{shown} ");
            escape(help, self.format == Format::OpenMetrics, &mut self.out);
            self.out.push('\n');
        }
        name
    }

    fn line(&mut self, suffix: &str, labels: Labels<'_>, value: MetricValue) {
        let name = self.begin();
        self.out.push_str(name);
        self.out.push_str(suffix);
        let mut before = '{';
        for (name, value) in labels {
            self.out.push(before);
            self.out.push_str(name);
            self.out.push_str("=\"");
            escape(value, true, &mut self.out);
            self.out.push('"');
            before = ',';
        }
        if before == ',' {
            self.out.push('}');
        }
        let _ = match value {
            MetricValue::Count(count) => write!(self.out, " {count}"),
            MetricValue::Seconds(us) => write!(self.out, " {}", seconds(us)),
            MetricValue::Number(f64::INFINITY) => write!(self.out, " +Inf"),
            MetricValue::Number(number) => write!(self.out, " {number}"),
        };
    }

    fn exemplar(&mut self, exemplar: &Exemplar) {
        if self.format != Format::OpenMetrics {
            return;
        }
        self.out.push_str(" # {request_id=\"");
        escape(&exemplar.request_id, true, &mut self.out);
        let at = seconds(exemplar.started_unix_us);
        let _ = write!(self.out, "\"}} {} {at}", seconds(exemplar.us));
    }
}

fn has_unit(name: &str, unit: &str) -> bool {
    name.strip_suffix(unit).is_some_and(|name| name.ends_with('_'))
}

/// Formats microseconds as seconds, without rounding: `0.00025`, `1.0`.
fn seconds(us: u64) -> String {
    let mut text = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    while text.ends_with('0') && !text.ends_with(".0") {
        text.pop();
    }
    text
}

fn escape(text: &str, quotes: bool, out: &mut String) {
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_written_exactly() {
        let check = |us, text: &str| assert_eq!(seconds(us), text);
        check(0, "0.0");
        check(250, "0.00025");
        check(1_000_000, "1.0");
        check(3_600_000_001, "3600.000001");
    }

    #[test]
    fn labels_are_escaped() {
        let mut text = TextWriter::new(Format::Prometheus);
        text.family(Family {
            name: "weir_a",
            kind: MetricKind::Counter,
            help: "A \\ and\na line.",
        });
        text.sample(&[("route", "a\"b\\c\nd")], MetricValue::Count(3));
        let expected = "# TYPE weir_a_total counter\n# HELP weir_a_total A \\\\ and\\na line.\n\
                        weir_a_total{route=\"a\\\"b\\\\c\\nd\"} 3\n";
        assert_eq!(text.finish(), expected);
    }
}
