//! The failure of a command: its message and its exit code. It writes nothing.

use std::io::IsTerminal;
use std::process::ExitCode;

use weir_config::diagnostic::{DiagnosticSeverity, Diagnostics};

/// The failure of a command.
#[derive(Debug)]
pub(crate) enum CommandFailure {
    /// An error at run time: exit code 1.
    RunTime(String),
    /// The error has been reported already: this exit code.
    Exit(u8),
    /// The command line is invalid: exit code 2.
    Usage(String),
    /// A condition of `weir bench --fail-if` was met: exit code 4.
    Threshold(String),
    /// The admin interface does not respond: exit code 5.
    Unreachable(String),
    /// A running Weir refused its new configuration and keeps the present one: exit code 3.
    RejectedThere(String),
    /// A file is refused as a whole or in part; nothing was started: exit code 3.
    NotConverted(String),
    /// The configuration is invalid; nothing was started: exit code 3.
    Rejected {
        /// The name of the configuration.
        name: String,
        /// The errors and warnings.
        diagnostics: Diagnostics,
    },
}

impl CommandFailure {
    /// Returns the message as it is reported for a rejected reload or a failed upgrade.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Exit(_) => String::new(),
            Self::RunTime(sentence)
            | Self::Usage(sentence)
            | Self::Threshold(sentence)
            | Self::Unreachable(sentence)
            | Self::NotConverted(sentence)
            | Self::RejectedThere(sentence) => sentence.clone(),
            Self::Rejected { name, diagnostics } => {
                let errors = count_errors(diagnostics);
                format!("{}\n\n{name}: {errors}", diagnostics.render(colour()))
            }
        }
    }

    /// Returns the message as standard error shows it.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Exit(_) => String::new(),
            Self::RunTime(sentence)
            | Self::Usage(sentence)
            | Self::Threshold(sentence)
            | Self::Unreachable(sentence)
            | Self::NotConverted(sentence) => format!("weir: {sentence}\n"),
            Self::RejectedThere(sentence) => {
                format!("{sentence}\n\nweir: rejected; the previous configuration stays in use\n")
            }
            Self::Rejected { name, diagnostics } => {
                let errors = count_errors(diagnostics);
                format!("{}\n\nweir: {name}: {errors}\n", diagnostics.render(colour()))
            }
        }
    }

    /// Returns the exit code.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code())
    }

    /// Returns the number of the exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Exit(code) => *code,
            Self::RunTime(_) => 1,
            Self::Usage(_) => 2,
            Self::Rejected { .. } | Self::NotConverted(_) | Self::RejectedThere(_) => 3,
            Self::Threshold(_) => 4,
            Self::Unreachable(_) => 5,
        }
    }
}

/// Returns true if standard error is a terminal and `NO_COLOR` is not set.
pub(crate) fn colour() -> bool {
    std::io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn count_errors(diagnostics: &Diagnostics) -> String {
    let is_error = |severity| matches!(severity, DiagnosticSeverity::Error);
    let number = diagnostics.iter().filter(|entry| is_error(entry.severity)).count();
    format!("{number} error{}", if number == 1 { "" } else { "s" })
}
