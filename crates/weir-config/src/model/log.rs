//! Logs as configured: destinations, formats and severities. It writes no log.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_stats::Template;

use crate::defaults;
use crate::units::{duration, size};
use crate::words;

/// An access log: its destinations and its format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessLog {
    /// The name that `log NAME;` refers to.
    pub name: String,
    /// The destinations; each line goes to all of them.
    pub to: Vec<LogTarget>,
    /// The format of a line.
    pub format: LogFormat,
    /// The escaping of values in a format of text.
    #[serde(default)]
    pub escape: LogEscape,
    /// The text on which a line depends: one that is empty or `0` leaves it out.
    #[serde(default, with = "words::template::option")]
    pub when: Option<Template>,
    /// The buffer of lines for each destination; `None` writes lines as they come from the workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<LogBuffer>,
}

/// The lines that are collected before they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogBuffer {
    /// The most bytes of lines that wait.
    #[serde(with = "size")]
    pub bytes: usize,
    /// The longest wait of a line; `None` for no bound.
    #[serde(default, with = "duration::option")]
    pub flush: Option<Duration>,
}

/// The escaping of values in a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogEscape {
    /// `"`, `\`, control bytes and bytes from 0x7f up as `\xXX`, as nginx does.
    #[default]
    Default,
    /// As in strings of JSON.
    Json,
    /// None.
    None,
}

/// A destination of Weir's own messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorLog {
    /// The destination.
    pub to: LogTarget,
    /// The lowest severity that is written.
    #[serde(default = "Severity::of_error_log")]
    pub level: Severity,
}

/// The destination of log lines.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogTarget {
    /// A file that lines are appended to; it is reopened on USR1.
    File(PathBuf),
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A syslog receiver.
    Syslog(Syslog),
}

/// A syslog receiver and the form of its messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Syslog {
    /// The receiver's address.
    pub to: SyslogReceiver,
    /// Facility number 0..=23 (`local0` is 16).
    #[serde(default = "defaults::syslog_facility")]
    pub facility: u8,
    /// The severity of an access log's lines. Weir's own messages have their own.
    #[serde(default = "Severity::of_access_log")]
    pub severity: Severity,
    /// The message format.
    #[serde(default)]
    pub format: SyslogFormat,
}

/// The address of a syslog receiver.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyslogReceiver {
    /// A Unix socket such as `/dev/log`, datagram or stream.
    Unix(PathBuf),
    /// Datagrams over UDP.
    Udp(SocketAddr),
}

/// The format of a syslog message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyslogFormat {
    /// RFC 3164, which every receiver reads.
    #[default]
    Rfc3164,
    /// RFC 5424, with year, time zone, microseconds and the log's name.
    Rfc5424,
}

impl SyslogFormat {
    /// Every format with its word.
    pub const ALL: [(&str, Self); 2] = [("rfc3164", Self::Rfc3164), ("rfc5424", Self::Rfc5424)];
}

/// The severity of a message, numbered as in syslog: a more severe one has a lower number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// 0.
    Emerg,
    /// 1.
    Alert,
    /// 2.
    Crit,
    /// 3.
    Error,
    /// 4.
    Warning,
    /// 5: normal but significant; no action is needed.
    Notice,
    /// 6.
    Info,
    /// 7.
    Debug,
}

impl Severity {
    /// Every severity, the highest first, with the words of nginx, HAProxy and syslog for it; the
    /// first word is the one written.
    const WORDS: [(Self, &[&str]); 8] = [
        (Self::Emerg, &["emerg"]),
        (Self::Alert, &["alert"]),
        (Self::Crit, &["crit"]),
        (Self::Error, &["error", "err"]),
        (Self::Warning, &["warning", "warn"]),
        (Self::Notice, &["notice"]),
        (Self::Info, &["info"]),
        (Self::Debug, &["debug"]),
    ];

    /// Returns the lowest severity that the error log writes, unless it names another.
    pub(crate) fn of_error_log() -> Self {
        Self::Notice
    }

    /// Returns the severity of an access log's lines in syslog, unless the log names another.
    pub(crate) fn of_access_log() -> Self {
        Self::Info
    }

    /// Returns the number in syslog, 0..=7.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Returns the word.
    pub fn as_str(self) -> &'static str {
        Self::WORDS[self as usize].1[0]
    }

    /// Returns the severity with this word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, words)| words.contains(&text)).map(|(severity, _)| *severity)
    }
}

/// The format of an access log line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// The `combined` format of nginx and Apache.
    Combined,
    /// The `main` format of nginx's default configuration: `combined` plus
    /// `"$http_x_forwarded_for"`.
    Main,
    /// HAProxy's `option httplog`.
    Haproxy,
    /// One JSON object per line, times in microseconds.
    Json,
    /// A custom text with `$variables`.
    Text(#[serde(with = "words::template")] Template),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severities_are_syslogs_numbers_and_have_the_words_of_nginx_and_haproxy() {
        for (number, (severity, words)) in Severity::WORDS.into_iter().enumerate() {
            assert_eq!(usize::from(severity.number()), number);
            assert!(words.iter().all(|word| Severity::parse(word) == Some(severity)));
            assert_eq!(Severity::parse(severity.as_str()), Some(severity));
        }
        assert!(Severity::Error < Severity::Notice);
        assert_eq!(Severity::parse("loud"), None);
    }
}
