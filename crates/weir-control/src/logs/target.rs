//! An open target of log lines. It does not format them.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use weir_config::model::LogTarget;

use super::file::{Appender, LogFile};
use super::outcome::WriteOutcome;
use super::syslog::SyslogSender;

pub(crate) enum LogOutput {
    File(LogFile),
    /// Standard output or error, with its name for messages.
    Stream(Appender, &'static str),
    Syslog(SyslogSender),
}

impl LogOutput {
    /// Opens the target for the log named `log`.
    pub(crate) fn open(target: &LogTarget, log: &str) -> io::Result<Self> {
        Ok(match target {
            LogTarget::File(path) => Self::File(LogFile::open(path)?),
            LogTarget::Stdout => Self::Stream(stream(io::stdout())?, "standard output"),
            LogTarget::Stderr => Self::Stream(stream(io::stderr())?, "standard error"),
            LogTarget::Syslog(syslog) => Self::Syslog(SyslogSender::new(syslog, log)),
        })
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::File(file) => file.path().display().to_string(),
            Self::Stream(_, name) => (*name).to_owned(),
            Self::Syslog(syslog) => syslog.name(),
        }
    }

    /// Reopens a file after it was renamed or removed; on an error the old one stays in use.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.reopen(),
            Self::Stream(..) | Self::Syslog(_) => Ok(()),
        }
    }

    /// Writes lines, each of which ends with a line feed.
    pub(crate) fn write(&mut self, lines: &[u8]) -> WriteOutcome {
        match self {
            Self::File(file) => file.write(lines),
            Self::Stream(stream, _) => stream.write(lines),
            Self::Syslog(syslog) => syslog.write(lines),
        }
    }
}

/// A separate handle: the standard library's handle buffers text that it could not write and writes
/// it later.
fn stream(stream: impl AsFd) -> io::Result<Appender> {
    Ok(Appender::new(File::from(stream.as_fd().try_clone_to_owned()?)))
}
