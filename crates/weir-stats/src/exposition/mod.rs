//! The metrics of a process in Prometheus' formats: text, OpenMetrics, or protocol buffers with
//! native histograms. It takes plain values and opens no socket.

mod counted;
mod credits;
mod family;
mod limits;
mod machine;
mod protobuf;
mod report;
mod text;
mod writer;

pub use counted::lines_by_worker;
pub use credits::{CreditsReport, CreditsState};
pub use family::{Exemplar, Family, Format, Kind, Labels, Times, Value};
pub use limits::{LimitReport, LimitedKeyReport, LimitsReport};
pub use machine::{Cpu, CpuGroup, MachineFigures, Usage};
pub use report::{
    AdminReport, EndpointReport, EndpointState, IncidentReport, ListenerReport, LogReport,
    MemoryReport, PoolCounters, PoolReport, ProcessReport, QueueReport, Report, WorkerReport,
};
pub use writer::Exposition;

/// Writes a whole report.
pub fn expose(report: &Report, format: Format) -> Vec<u8> {
    let mut text = Exposition::new(format);
    report::write(report, &mut text);
    machine::write(&report.machine, &report.usage, &mut text);
    if let Some(credits) = &report.credits {
        credits::write(credits, &mut text);
    }
    if let Some(limits) = &report.limits {
        limits::write(limits, &mut text);
    }
    counted::write(report, &mut text);
    text.finish()
}
