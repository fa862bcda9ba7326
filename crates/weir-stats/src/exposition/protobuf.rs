//! Metrics as Prometheus' protocol buffers: a sequence of `MetricFamily` messages
//! (`io/prometheus/client/metrics.proto`), each with its length in front. Histograms have classic
//! and native buckets; the server stores those that it is configured to.

use prost::Message;

use super::family::{Exemplar, Family, HistogramTimes, Labels, MetricKind, MetricValue};
use crate::metrics::{NativeBuckets, SCHEMA, ZERO_THRESHOLD_S};

/// The longest gap of empty buckets that is written as zero counts, because another span takes as
/// much space.
const SHORT_GAP: i32 = 2;

/// A sequence of messages.
#[derive(Debug, Default)]
pub(super) struct ProtobufWriter {
    out: Vec<u8>,
    /// The family that samples belong to.
    family: Option<(MetricKind, MetricFamily)>,
}

impl ProtobufWriter {
    pub(super) fn family(&mut self, family: Family) {
        self.write();
        let kind = match family.kind {
            MetricKind::Counter => 0,
            MetricKind::Gauge => 1,
            MetricKind::Histogram => 4,
        };
        // A counter's family has the name of its samples, as in Prometheus' own text format.
        let message = MetricFamily {
            name: format!("{}{}", family.name, family.suffix()),
            help: family.help.to_owned(),
            kind,
            metric: Vec::new(),
        };
        self.family = Some((family.kind, message));
    }

    pub(super) fn sample(&mut self, labels: Labels<'_>, value: MetricValue) {
        let value = Some(Sample {
            value: match value {
                MetricValue::Count(count) => count as f64,
                MetricValue::Seconds(us) => us as f64 / 1e6,
                MetricValue::Number(number) => number,
            },
        });
        let Some((kind, family)) = &mut self.family else { return };
        let (gauge, counter) =
            if *kind == MetricKind::Counter { (None, value) } else { (value, None) };
        family.metric.push(Metric { label: pairs(labels), gauge, counter, histogram: None });
    }

    pub(super) fn histogram(&mut self, labels: Labels<'_>, times: HistogramTimes<'_>) {
        let Some((_, family)) = &mut self.family else { return };
        let histogram = Some(HistogramMessage::of(times));
        family.metric.push(Metric { label: pairs(labels), histogram, ..Metric::default() });
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.write();
        self.out
    }

    /// Writes the current family, if it has samples.
    fn write(&mut self) {
        if let Some((_, family)) = self.family.take().filter(|(_, own)| !own.metric.is_empty()) {
            self.out.extend(family.encode_length_delimited_to_vec());
        }
    }
}

fn pairs(labels: Labels<'_>) -> Vec<LabelPair> {
    let pair = |(name, value): &(&str, &str)| LabelPair {
        name: (*name).to_owned(),
        value: (*value).to_owned(),
    };
    labels.iter().map(pair).collect()
}

impl HistogramMessage {
    fn of(times: HistogramTimes<'_>) -> Self {
        let HistogramTimes { all, bounds_us, exemplars } = times;
        let mut below_us = 0;
        let mut bucket = Vec::with_capacity(bounds_us.len());
        // The bucket without a bound could be left out, because it holds the total count. But its
        // exemplar has no other place.
        let bounds = bounds_us.iter().map(|bound| Some(*bound)).chain([None]);
        for (bound, cumulative_count) in
            bounds.zip(all.cumulative(bounds_us).into_iter().chain([all.count()]))
        {
            bucket.push(BucketMessage {
                cumulative_count,
                upper_bound: bound.map_or(f64::INFINITY, |us| us as f64 / 1e6),
                exemplar: Exemplar::within(exemplars, below_us, bound).map(ExemplarMessage::of),
            });
            below_us = bound.unwrap_or(below_us);
        }
        let native = NativeBuckets::of(all);
        let (positive_span, positive_delta) = spans(&native.counts);
        Self {
            sample_count: all.count(),
            sample_sum: all.sum_us() as f64 / 1e6,
            bucket,
            schema: SCHEMA,
            zero_threshold: ZERO_THRESHOLD_S,
            zero_count: native.zero,
            positive_span,
            positive_delta,
        }
    }
}

/// Encodes counts by bucket as the protocol requires: runs of buckets, each after a gap, and each
/// count as the difference to the one before.
fn spans(counts: &[(i32, u64)]) -> (Vec<BucketSpan>, Vec<i64>) {
    let mut spans: Vec<BucketSpan> = Vec::new();
    let mut deltas = Vec::with_capacity(counts.len());
    let (mut next, mut before) = (0, 0_i64);
    for (bucket, count) in counts {
        let gap = bucket - next;
        match spans.last_mut() {
            Some(span) if gap <= SHORT_GAP => {
                for _ in 0..gap {
                    deltas.push(-before);
                    before = 0;
                }
                span.length += gap.unsigned_abs() + 1;
            }
            _ => spans.push(BucketSpan { offset: gap, length: 1 }),
        }
        deltas.push(*count as i64 - before);
        before = *count as i64;
        next = bucket + 1;
    }
    (spans, deltas)
}

impl ExemplarMessage {
    fn of(exemplar: &Exemplar) -> Self {
        let micros = (exemplar.started_unix_us % 1_000_000) as i32;
        Self {
            label: pairs(&[("request_id", exemplar.request_id.as_str())]),
            value: exemplar.us as f64 / 1e6,
            timestamp: Some(Timestamp {
                seconds: (exemplar.started_unix_us / 1_000_000) as i64,
                nanos: micros * 1_000,
            }),
        }
    }
}

// The messages contain only the fields that are written here. Numbers and types are those of
// `metrics.proto`. Fields that are required here are optional there, but always set.

#[derive(Clone, PartialEq, Message)]
struct MetricFamily {
    #[prost(string, required, tag = "1")]
    name: String,
    #[prost(string, required, tag = "2")]
    help: String,
    /// A `MetricType`.
    #[prost(int32, required, tag = "3")]
    kind: i32,
    #[prost(message, repeated, tag = "4")]
    metric: Vec<Metric>,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(message, repeated, tag = "1")]
    label: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Sample>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Sample>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<HistogramMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct LabelPair {
    #[prost(string, required, tag = "1")]
    name: String,
    #[prost(string, required, tag = "2")]
    value: String,
}

/// The common beginning of `Gauge` and `Counter`.
#[derive(Clone, Copy, PartialEq, Message)]
struct Sample {
    #[prost(double, required, tag = "1")]
    value: f64,
}

#[derive(Clone, PartialEq, Message)]
struct HistogramMessage {
    #[prost(uint64, required, tag = "1")]
    sample_count: u64,
    #[prost(double, required, tag = "2")]
    sample_sum: f64,
    #[prost(message, repeated, tag = "3")]
    bucket: Vec<BucketMessage>,
    #[prost(sint32, required, tag = "5")]
    schema: i32,
    #[prost(double, required, tag = "6")]
    zero_threshold: f64,
    #[prost(uint64, required, tag = "7")]
    zero_count: u64,
    #[prost(message, repeated, tag = "12")]
    positive_span: Vec<BucketSpan>,
    #[prost(sint64, repeated, packed = "false", tag = "13")]
    positive_delta: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct BucketMessage {
    #[prost(uint64, required, tag = "1")]
    cumulative_count: u64,
    #[prost(double, required, tag = "2")]
    upper_bound: f64,
    #[prost(message, optional, tag = "3")]
    exemplar: Option<ExemplarMessage>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct BucketSpan {
    #[prost(sint32, required, tag = "1")]
    offset: i32,
    #[prost(uint32, required, tag = "2")]
    length: u32,
}

/// An `Exemplar`.
#[derive(Clone, PartialEq, Message)]
struct ExemplarMessage {
    #[prost(message, repeated, tag = "1")]
    label: Vec<LabelPair>,
    #[prost(double, required, tag = "2")]
    value: f64,
    #[prost(message, optional, tag = "3")]
    timestamp: Option<Timestamp>,
}

/// A `google.protobuf.Timestamp`.
#[derive(Clone, Copy, PartialEq, Message)]
struct Timestamp {
    #[prost(int64, required, tag = "1")]
    seconds: i64,
    #[prost(int32, required, tag = "2")]
    nanos: i32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Distribution;

    #[test]
    fn counts_are_runs_of_buckets_with_their_gaps() {
        let check = |counts: &[(i32, u64)], expected: &[(i32, u32)], deltas: &[i64]| {
            let (spans, found) = super::spans(counts);
            let spans: Vec<_> = spans.iter().map(|span| (span.offset, span.length)).collect();
            assert_eq!((spans.as_slice(), found.as_slice()), (expected, deltas));
        };
        check(&[], &[], &[]);
        check(&[(-3, 5)], &[(-3, 1)], &[5]);
        check(&[(-3, 5), (-2, 4), (0, 4)], &[(-3, 4)], &[5, -1, -4, 4]);
        check(&[(7, 1), (11, 3)], &[(7, 1), (3, 1)], &[1, 2]);
    }

    /// Expected bytes written out by hand, by the specification of the encoding.
    #[test]
    fn messages_are_these_bytes() {
        let mut messages = ProtobufWriter::default();
        messages.family(Family { name: "a", kind: MetricKind::Gauge, help: "Nothing." });
        messages.family(Family { name: "b", kind: MetricKind::Counter, help: "B." });
        messages.sample(&[("l", "v")], MetricValue::Count(3));
        messages.family(Family { name: "h", kind: MetricKind::Histogram, help: "H." });
        let all = Distribution::of([0, 1_000_000, 1_000_000]);
        messages.histogram(&[], HistogramTimes { all: &all, bounds_us: &[], exemplars: &[] });
        let double = |number: f64| number.to_le_bytes();
        let mut expected = vec![36, 0x0a, 7];
        expected.extend(b"b_total\x12\x02B.\x18\x00\x22\x13\x0a\x06\x0a\x01l\x12\x01v\x1a\x09\x09");
        expected.extend(double(3.0));
        expected.extend([58, 0x0a, 1, b'h', 0x12, 2, b'H', b'.', 0x18, 4, 0x22, 47, 0x3a, 45]);
        // Three samples with a sum of 2 s; all three are below +Inf.
        expected.extend([0x08, 3, 0x11]);
        expected.extend(double(2.0));
        expected.extend([0x1a, 11, 0x08, 3, 0x11]);
        expected.extend(double(f64::INFINITY));
        expected.extend([0x28, 10, 0x31]);
        expected.extend(double(ZERO_THRESHOLD_S));
        // One sample below a microsecond; two in the first bucket above 1 s, because their place
        // extends up to 1.0004 s.
        expected.extend([0x38, 1, 0x62, 4, 0x08, 2, 0x10, 1, 0x68, 4]);
        let found = messages.finish();
        assert_eq!(found, expected, "{found:x?}");
    }
}
