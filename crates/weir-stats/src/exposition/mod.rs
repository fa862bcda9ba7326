//! Everything that is known of a process as text for Prometheus (rows O-06 to O-09, O-17, O-19). It takes plain values and opens no
//! socket.

mod counted;
mod credits;
mod machine;
mod report;
mod text;

pub use credits::{CreditsReport, CreditsState};
pub use machine::{Cpu, CpuGroup, MachineFigures, Usage};
pub use report::{
    EndpointReport, EndpointState, ListenerReport, LogReport, PoolCounters, PoolReport,
    ProcessReport, QueueReport, Report, WorkerReport,
};
pub use text::{Exemplar, Exposition, Family, Format, Kind, Labels, Value};

/// The whole text of a report.
pub fn expose(report: &Report, format: Format) -> String {
    let mut text = Exposition::new(format);
    report::write(report, &mut text);
    machine::write(report, &mut text);
    if let Some(credits) = &report.credits {
        credits::write(credits, &mut text);
    }
    counted::write(report, &mut text);
    text.finish()
}
