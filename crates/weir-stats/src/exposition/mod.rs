//! Metrics in Prometheus' formats: text, OpenMetrics, or protocol buffers with native histograms;
//! the families of what this crate counts. It takes plain values and opens no socket.

mod counted;
mod credits;
mod family;
mod machine;
mod protobuf;
mod text;
mod writer;

pub use counted::{CountedMetrics, lines_by_worker};
pub use credits::{CreditsReport, CreditsState, write_credits};
pub use family::{Exemplar, Family, Format, HistogramTimes, Labels, MetricKind, MetricValue};
pub use machine::{CpuGroup, MachineFigures, Usage, write_machine};
pub use writer::Exposition;
