//! The writer of metrics in the format that a reader asked for.

use super::family::{Family, Format, HistogramTimes, Labels, MetricKind, MetricValue};
use super::protobuf::ProtobufWriter;
use super::text::TextWriter;

/// A writer of metrics.
#[derive(Debug)]
pub struct Exposition(ExpositionWriter);

#[derive(Debug)]
enum ExpositionWriter {
    Text(TextWriter),
    Protobuf(ProtobufWriter),
}

impl Exposition {
    /// Creates an empty exposition.
    pub fn new(format: Format) -> Self {
        Self(match format {
            Format::Prometheus | Format::OpenMetrics => {
                ExpositionWriter::Text(TextWriter::new(format))
            }
            Format::Protobuf => ExpositionWriter::Protobuf(ProtobufWriter::default()),
        })
    }

    /// Starts a family, to which the following samples belong. A family without samples is left
    /// out. All samples of a family must follow each other.
    pub fn family(&mut self, family: Family) {
        match &mut self.0 {
            ExpositionWriter::Text(text) => text.family(family),
            ExpositionWriter::Protobuf(messages) => messages.family(family),
        }
    }

    /// Writes a sample of a counter or a gauge.
    pub fn sample(&mut self, labels: Labels<'_>, value: MetricValue) {
        match &mut self.0 {
            ExpositionWriter::Text(text) => text.sample(labels, value),
            ExpositionWriter::Protobuf(messages) => messages.sample(labels, value),
        }
    }

    /// Writes a gauge with one sample.
    pub fn gauge(&mut self, name: &'static str, help: &'static str, value: MetricValue) {
        self.family(Family { name, kind: MetricKind::Gauge, help });
        self.sample(&[], value);
    }

    /// Writes a counter with one sample.
    pub fn counter(&mut self, name: &'static str, help: &'static str, value: MetricValue) {
        self.family(Family { name, kind: MetricKind::Counter, help });
        self.sample(&[], value);
    }

    /// Writes a histogram.
    pub fn histogram(&mut self, labels: Labels<'_>, times: HistogramTimes<'_>) {
        match &mut self.0 {
            ExpositionWriter::Text(text) => text.histogram(labels, times),
            ExpositionWriter::Protobuf(messages) => messages.histogram(labels, times),
        }
    }

    /// Returns the complete text or messages.
    pub fn finish(self) -> Vec<u8> {
        match self.0 {
            ExpositionWriter::Text(text) => text.finish().into_bytes(),
            ExpositionWriter::Protobuf(messages) => messages.finish(),
        }
    }
}
