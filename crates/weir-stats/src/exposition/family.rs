//! The elements of metrics: families with help and type, samples with labels, histograms,
//! exemplars; and the names of the formats that they are written in. It is independent of the
//! meaning of the figures.

use crate::metrics::Distribution;

/// A format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text format 0.0.4: supported by all readers, without exemplars.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' `MetricFamily` messages, each with its length in front: the only format with
    /// native histograms.
    Protobuf,
}

impl Format {
    /// The format for a value of `Accept`: of the supported formats the one with the highest
    /// weight, the first one on a tie. Prometheus' text if none is named.
    pub fn accepted(accept: &str) -> Self {
        let mut best = (Self::Prometheus, 0.0);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default();
            let parameters: Vec<(&str, &str)> =
                parts.filter_map(|part| part.split_once('=')).collect();
            let Some(format) = Self::named(name, &parameters) else { continue };
            let weight = value_of(&parameters, "q").and_then(|weight| weight.parse().ok());
            let weight: f64 = weight.unwrap_or(1.0);
            if weight > best.1 {
                best = (format, weight);
            }
        }
        best.0
    }

    fn named(name: &str, parameters: &[(&str, &str)]) -> Option<Self> {
        let is = |wanted: &str| name.eq_ignore_ascii_case(wanted);
        let says = |name, wanted: &str| {
            value_of(parameters, name).is_some_and(|value| value.eq_ignore_ascii_case(wanted))
        };
        if is("application/openmetrics-text") {
            Some(Self::OpenMetrics)
        } else if is("application/vnd.google.protobuf") {
            let ours = says("proto", MESSAGE) && says("encoding", "delimited");
            ours.then_some(Self::Protobuf)
        } else if is("text/plain") || is("text/*") || is("*/*") {
            Some(Self::Prometheus)
        } else {
            None
        }
    }

    /// The `Content-Type` of this format.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }
}

/// The name of Prometheus' protocol buffers message.
const MESSAGE: &str = "io.prometheus.client.MetricFamily";

fn value_of<'a>(parameters: &[(&str, &'a str)], name: &str) -> Option<&'a str> {
    let found = parameters.iter().find(|(own, _)| own.trim().eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.trim().trim_matches('"'))
}

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A counter; the names of its samples end in `_total`.
    Counter,
    /// A value that goes up and down.
    Gauge,
    /// A histogram of times.
    Histogram,
}

/// The header of a family.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The name, without `_total`; it ends in the unit if there is one.
    pub name: &'static str,
    /// The family's type.
    pub kind: MetricKind,
    /// One sentence.
    pub help: &'static str,
}

impl Family {
    /// The suffix of the names of a counter's samples.
    pub(super) fn suffix(&self) -> &'static str {
        if self.kind == MetricKind::Counter { "_total" } else { "" }
    }
}

/// A value of a sample.
#[derive(Clone, Copy, Debug)]
pub enum MetricValue {
    /// A count.
    Count(u64),
    /// A time in µs, written in seconds.
    Seconds(u64),
    /// Any other number.
    Number(f64),
}

/// The contents of a histogram.
#[derive(Clone, Copy, Debug)]
pub struct HistogramTimes<'a> {
    /// All times.
    pub all: &'a Distribution,
    /// The upper bounds of classic buckets, µs, ascending.
    pub bounds_us: &'a [u64],
    /// Example requests for the buckets.
    pub exemplars: &'a [Exemplar],
}

/// An example request for a bucket.
#[derive(Clone, Debug)]
pub struct Exemplar {
    /// The request id.
    pub request_id: String,
    /// The duration, µs.
    pub us: u64,
    /// The start, µs since 1970.
    pub started_unix_us: u64,
}

/// The maximum length of the names and values of an exemplar's labels (OpenMetrics 1.0).
const EXEMPLAR_BYTES: usize = 128;

impl Exemplar {
    /// The exemplar for the times above `below_us` up to `bound_us`; without a bound, for all
    /// above.
    pub(super) fn within(all: &[Self], below_us: u64, bound_us: Option<u64>) -> Option<&Self> {
        let stands = |exemplar: &&Self| {
            let fits = exemplar.request_id.chars().count() + "request_id".len() <= EXEMPLAR_BYTES;
            (exemplar.us > below_us || below_us == 0)
                && bound_us.is_none_or(|bound| exemplar.us <= bound)
                && fits
                && !exemplar.request_id.is_empty()
        };
        all.iter().find(stands)
    }
}

/// Pairs of label name and value.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_what_the_reader_likes_best() {
        let check = |accept: &str, format| assert_eq!(Format::accepted(accept), format, "{accept}");
        check("", Format::Prometheus);
        check("text/plain", Format::Prometheus);
        check("application/json", Format::Prometheus);
        check(
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2",
            Format::OpenMetrics,
        );
        check(
            "text/plain;q=0.9, application/openmetrics-text;q=0.3, */*;q=0.1",
            Format::Prometheus,
        );
        // The headers of Prometheus 2.42 with native histograms, and of version 3 without.
        let protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
        let text = "application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        check(&format!("{protobuf},{text}"), Format::Protobuf);
        check(&format!("{text},{protobuf};q=0.2"), Format::OpenMetrics);
        check(&format!("{protobuf};q=0"), Format::Prometheus);
        check("application/vnd.google.protobuf;proto=other;encoding=delimited", Format::Prometheus);
        check(&protobuf.replace("delimited", "text"), Format::Prometheus);
        check(Format::Protobuf.content_type(), Format::Protobuf);
    }
}
