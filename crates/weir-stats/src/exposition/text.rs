//! The text that Prometheus reads, in its own format (0.0.4) or as OpenMetrics (1.0): families with help and type, samples with labels,
//! exemplars. It knows how things are written and not what they are.

use std::fmt::Write as _;

/// How the text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text format 0.0.4: understood by everybody, no exemplars.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// What the value of `Accept` asks for. Quality values are not weighed: who names OpenMetrics at all can read it.
    pub fn accepted(accept: &str) -> Self {
        let names = accept.split(',').map(|one| one.split(';').next().unwrap_or_default().trim());
        let mut names =
            names.filter(|name| name.eq_ignore_ascii_case("application/openmetrics-text"));
        if names.next().is_some() { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// The `Content-Type` of such a text.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What kind of figures a family has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Counts up, its samples are named with `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Cumulative buckets.
    Histogram,
}

/// A family's name and what stands above its samples.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The name, without `_total`; with its unit at the end if it has one.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// One sentence.
    pub help: &'static str,
}

/// A value as it is written.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// A count.
    Count(u64),
    /// A time in µs, written in seconds.
    Seconds(u64),
    /// Anything else.
    Number(f64),
}

/// One request that stands for a bucket.
#[derive(Clone, Debug)]
pub struct Exemplar {
    /// Its request id.
    pub request_id: String,
    /// How long it took, µs.
    pub us: u64,
    /// When it began, µs since 1970.
    pub started_unix_us: u64,
}

/// Label names and values.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// Bytes that names and values of an exemplar's labels may have (OpenMetrics 1.0).
const EXEMPLAR_BYTES: usize = 128;

/// A text that is being written.
#[derive(Debug)]
pub struct Exposition {
    format: Format,
    out: String,
    family: Option<Family>,
    /// Whether its head was written.
    begun: bool,
}

impl Exposition {
    /// An empty one.
    pub fn new(format: Format) -> Self {
        Self { format, out: String::with_capacity(16 * 1024), family: None, begun: false }
    }

    /// From now on samples are of this family. One without samples is left out. All samples of a family come together.
    pub fn family(&mut self, family: Family) {
        self.family = Some(family);
        self.begun = false;
    }

    /// A sample of a counter or a gauge.
    pub fn sample(&mut self, labels: Labels<'_>, value: Value) {
        let suffix = match self.family {
            Some(Family { kind: Kind::Counter, .. }) => "_total",
            _ => "",
        };
        self.line(suffix, labels, value);
        self.out.push('\n');
    }

    /// A gauge of one sample.
    pub fn gauge(&mut self, name: &'static str, help: &'static str, value: Value) {
        self.family(Family { name, kind: Kind::Gauge, help });
        self.sample(&[], value);
    }

    /// A counter of one sample.
    pub fn counter(&mut self, name: &'static str, help: &'static str, value: Value) {
        self.family(Family { name, kind: Kind::Counter, help });
        self.sample(&[], value);
    }

    /// A histogram of times: counts up to and including each of `bounds_us`, then the count of all and their sum.
    pub fn histogram(
        &mut self,
        labels: Labels<'_>,
        (bounds_us, counts): (&[u64], &[u64]),
        (count, sum_us): (u64, u64),
        exemplars: &[Exemplar],
    ) {
        let mut below = 0;
        let bounds = bounds_us.iter().map(|bound| Some(*bound)).chain([None]);
        for (bound, count) in bounds.zip(counts.iter().copied().chain([count])) {
            let text = bound.map_or_else(|| "+Inf".to_owned(), seconds);
            let with_bound: Vec<(&str, &str)> =
                labels.iter().copied().chain([("le", text.as_str())]).collect();
            self.line("_bucket", &with_bound, Value::Count(count));
            let within = |exemplar: &&Exemplar| {
                (exemplar.us > below || below == 0)
                    && bound.is_none_or(|bound| exemplar.us <= bound)
            };
            if let Some(exemplar) = exemplars.iter().find(within) {
                self.exemplar(exemplar);
            }
            self.out.push('\n');
            below = bound.unwrap_or(below);
        }
        self.line("_sum", labels, Value::Seconds(sum_us));
        self.out.push('\n');
        self.line("_count", labels, Value::Count(count));
        self.out.push('\n');
    }

    /// The whole text.
    pub fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }

    fn begin(&mut self) -> &'static str {
        let Some(Family { name, kind, help }) = self.family else { return "" };
        if !std::mem::replace(&mut self.begun, true) {
            // Prometheus' own format calls a counter's family as its samples.
            let shown = match (self.format, kind) {
                (Format::Prometheus, Kind::Counter) => "_total",
                _ => "",
            };
            let word = match kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram => "histogram",
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

    fn line(&mut self, suffix: &str, labels: Labels<'_>, value: Value) {
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
            Value::Count(count) => write!(self.out, " {count}"),
            Value::Seconds(us) => write!(self.out, " {}", seconds(us)),
            Value::Number(f64::INFINITY) => write!(self.out, " +Inf"),
            Value::Number(number) => write!(self.out, " {number}"),
        };
    }

    fn exemplar(&mut self, exemplar: &Exemplar) {
        let fits = exemplar.request_id.chars().count() + "request_id".len() <= EXEMPLAR_BYTES;
        if self.format != Format::OpenMetrics || !fits || exemplar.request_id.is_empty() {
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

/// Microseconds as seconds, without an error of rounding: `0.00025`, `1.0`.
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
    fn openmetrics_is_sent_to_who_names_it() {
        let check = |accept, format| assert_eq!(Format::accepted(accept), format, "{accept}");
        check("", Format::Prometheus);
        check("text/plain", Format::Prometheus);
        check(
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2",
            Format::OpenMetrics,
        );
    }

    #[test]
    fn labels_are_escaped() {
        let mut text = Exposition::new(Format::Prometheus);
        text.family(Family { name: "weir_a", kind: Kind::Counter, help: "A \\ and\na line." });
        text.sample(&[("route", "a\"b\\c\nd")], Value::Count(3));
        let expected = "# TYPE weir_a_total counter\n# HELP weir_a_total A \\\\ and\\na line.\n\
                        weir_a_total{route=\"a\\\"b\\\\c\\nd\"} 3\n";
        assert_eq!(text.finish(), expected);
    }
}
