//! The failure of a command: its message on standard error and its exit code.

use std::io::IsTerminal;
use std::process::ExitCode;

use weir_config::diagnostic::{Diagnostics, Severity};

use crate::terminal::say;

/// The failure of a command.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error at run time: exit code 1.
    RunTime(String),
    /// Another process has already reported the error: this exit code.
    Exit(u8),
    /// The command line is invalid: exit code 2.
    Usage(String),
    /// A condition of `weir bench --fail-if` was met: exit code 4.
    Threshold(String),
    /// The admin interface does not respond: exit code 5.
    Unreachable(String),
    /// A running Weir refused its new configuration and keeps the present one: exit code 3.
    RejectedThere(String),
    /// The configuration is invalid; nothing was started: exit code 3.
    Rejected {
        /// The name of the configuration.
        name: String,
        /// The errors and warnings.
        diagnostics: Diagnostics,
    },
}

impl Failure {
    /// Returns the message as it is reported for a rejected reload or a failed upgrade.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Exit(_) => String::new(),
            Self::RunTime(sentence)
            | Self::Usage(sentence)
            | Self::Threshold(sentence)
            | Self::Unreachable(sentence)
            | Self::RejectedThere(sentence) => sentence.clone(),
            Self::Rejected { name, diagnostics } => {
                let errors = diagnostics.iter();
                let errors = errors.filter(|entry| matches!(entry.severity, Severity::Error));
                let errors = count(errors.count(), "error");
                format!("{}\n\n{name}: {errors}", diagnostics.render(colour()))
            }
        }
    }

    /// Writes the message to standard error and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Exit(code) => ExitCode::from(*code),
            Self::RunTime(sentence) => {
                say(&format!("weir: {sentence}\n"));
                ExitCode::from(1)
            }
            Self::Usage(sentence) => {
                say(&format!("weir: {sentence}\n"));
                ExitCode::from(2)
            }
            Self::Threshold(sentence) => {
                say(&format!("weir: {sentence}\n"));
                ExitCode::from(4)
            }
            Self::Unreachable(sentence) => {
                say(&format!("weir: {sentence}\n"));
                ExitCode::from(5)
            }
            Self::RejectedThere(sentence) => {
                say(&format!(
                    "{sentence}\n\nweir: rejected; what was served before is served on\n"
                ));
                ExitCode::from(3)
            }
            Self::Rejected { name, diagnostics } => {
                let is_error = |severity| matches!(severity, Severity::Error);
                let errors = diagnostics.iter().filter(|entry| is_error(entry.severity)).count();
                let errors = count(errors, "error");
                say(&format!("{}\n\nweir: {name}: {errors}\n", diagnostics.render(colour())));
                ExitCode::from(3)
            }
        }
    }
}

/// Writes warnings to standard error.
pub(crate) fn warn(diagnostics: &Diagnostics) {
    if !diagnostics.is_empty() {
        say(&format!("{}\n\n", diagnostics.render(colour())));
    }
}

/// Returns true if standard error is a terminal and `NO_COLOR` is not set.
fn colour() -> bool {
    std::io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
