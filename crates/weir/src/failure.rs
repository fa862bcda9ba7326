//! How a command fails: what it says on standard error and its exit code.

use std::io::IsTerminal;
use std::process::ExitCode;

use weir_config::diagnostic::{Diagnostics, Severity};

use crate::terminal::say;

/// Why a command did not do what it was told.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something went wrong while it ran: exit code 1.
    RunTime(String),
    /// Another process has said what was wrong: this exit code.
    Exit(u8),
    /// The command line makes no sense: exit code 2.
    Usage(String),
    /// A run met a condition that it was not to meet: exit code 4.
    Threshold(String),
    /// The admin interface does not answer: exit code 5.
    Unreachable(String),
    /// A running Weir refused its configuration and goes on with the one it has: exit code 3.
    RejectedThere(String),
    /// The configuration is wrong; nothing was started: exit code 3.
    Rejected {
        /// What it was read from.
        name: String,
        /// Everything that is wrong.
        diagnostics: Diagnostics,
    },
}

impl Failure {
    /// What is wrong, as it is said of a configuration that is not taken.
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

    /// Says what is wrong and gives the exit code.
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

/// Shows warnings on standard error.
pub(crate) fn warn(diagnostics: &Diagnostics) {
    if !diagnostics.is_empty() {
        say(&format!("{}\n\n", diagnostics.render(colour())));
    }
}

/// Whether standard error takes colours and nobody asked for none.
fn colour() -> bool {
    std::io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
