//! The events of a run: signals to roles, and commands, each under a guard.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use super::process::path_of;
use super::programs::RunningProgram;
use crate::experiment::{LoadEventAction, Workload};

/// An event that is due.
pub(super) struct DueEvent {
    /// The time since the generator started.
    pub(super) at: Duration,
    pub(super) action: LoadEventAction,
    /// Its words for the report.
    pub(super) text: String,
}

/// The events of a run in detail.
pub(super) fn due_events(workload: &Workload) -> Vec<DueEvent> {
    let mut found = Vec::new();
    for event in &workload.events {
        let text = match &event.action {
            LoadEventAction::Signal(role, signal) => format!("signal {signal} to {role}"),
            LoadEventAction::Run(words) => format!("run {}", words.join(" ")),
        };
        let (every_ns, until_ns) = event.every_ns.unwrap_or((u64::MAX, event.at_ns));
        let mut at_ns = event.at_ns;
        while at_ns <= until_ns.max(event.at_ns) {
            found.push(DueEvent {
                at: Duration::from_nanos(at_ns),
                action: event.action.clone(),
                text: text.clone(),
            });
            at_ns = at_ns.saturating_add(every_ns);
            if at_ns == u64::MAX {
                break;
            }
        }
    }
    found
}

/// Sends a signal to a role: to all its processes if it stops or goes on, otherwise to its main
/// one.
pub(super) fn send(all: &[&mut RunningProgram], role: &str, candidate: &str, name: &str) {
    let wanted = if role == "proxy" { candidate } else { role };
    let signal = match name {
        "STOP" => Signal::STOP,
        "CONT" => Signal::CONT,
        "HUP" => Signal::HUP,
        "TERM" => Signal::TERM,
        "KILL" => Signal::KILL,
        "USR1" => Signal::USR1,
        _ => Signal::USR2,
    };
    let is_whole = matches!(name, "STOP" | "CONT" | "KILL");
    for process in
        all.iter().filter(|program| program.name == wanted).flat_map(|program| &program.processes)
    {
        if is_whole {
            process.signal(signal);
        } else {
            process.signal_main(signal);
        }
    }
}

/// The command of an event. It ends with this value, with all its descendants.
#[derive(Debug)]
pub(super) struct EventCommand {
    text: String,
    guard: Child,
}

impl EventCommand {
    /// Starts it.
    pub(super) fn start(weir: &Path, words: &[String]) -> Result<Self, String> {
        let program = words.first().map(String::as_str).unwrap_or_default();
        if path_of(program).is_none() {
            return Err(format!("cannot start {program}: there is no such program"));
        }
        let mut command = Command::new(weir);
        command.args(["lab", "guard", "--"]).args(words);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let guard = command.spawn();
        let guard = guard.map_err(|error| format!("cannot start {program}: {error}"))?;
        Ok(Self { text: words.join(" "), guard })
    }

    /// Returns true if it has ended by itself.
    pub(super) fn has_ended(&mut self) -> bool {
        matches!(self.guard.try_wait(), Ok(Some(_)))
    }

    /// Ends it. Returns a sentence if it had failed by itself.
    pub(super) fn end(mut self) -> Option<String> {
        let status = self.guard.try_wait().ok().flatten()?;
        (!status.success()).then(|| format!("run {} failed ({status})", self.text))
    }
}

impl Drop for EventCommand {
    fn drop(&mut self) {
        // The guard ends it within a bounded time.
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}
