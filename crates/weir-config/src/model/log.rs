//! Logs as configured: where lines go, how they look, how much is said. It writes nothing.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_stats::Template;

use crate::defaults;
use crate::words;

/// An access log: where its lines go and how they look.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessLog {
    /// The name `log NAME;` refers to.
    pub name: String,
    /// Where lines go: to each of these.
    pub to: Vec<LogTarget>,
    /// How a line looks.
    pub format: LogFormat,
}

/// A place for what Weir itself has to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorLog {
    /// Where lines go.
    pub to: LogTarget,
    /// The least grave that is written there.
    #[serde(default = "defaults::error_log_level")]
    pub level: Severity,
}

/// Where log lines go.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogTarget {
    /// Appended to this file, reopened on USR1.
    File(PathBuf),
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A syslog receiver.
    Syslog(Syslog),
}

/// A syslog receiver, and how it is talked to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Syslog {
    /// Where it is.
    pub to: SyslogReceiver,
    /// Facility number 0..=23 (`local0` is 16).
    #[serde(default = "defaults::syslog_facility")]
    pub facility: u8,
    /// The severity of an access log's lines; what Weir itself says has its own.
    #[serde(default = "defaults::syslog_severity")]
    pub severity: Severity,
    /// How a message looks.
    #[serde(default)]
    pub format: SyslogFormat,
}

/// Where a syslog receiver is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyslogReceiver {
    /// A Unix socket such as `/dev/log`, of datagrams or a stream.
    Unix(PathBuf),
    /// Datagrams over UDP.
    Udp(SocketAddr),
}

/// How a syslog message looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyslogFormat {
    /// The old one, which every receiver reads.
    #[default]
    Rfc3164,
    /// With year, zone, microseconds and the log's name.
    Rfc5424,
}

impl SyslogFormat {
    /// Every one with its word.
    pub const ALL: [(&str, Self); 2] = [("rfc3164", Self::Rfc3164), ("rfc5424", Self::Rfc5424)];
}

/// How grave a message is, as syslog counts: what is graver is less.
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
    /// 5: worth knowing, nothing to do.
    Notice,
    /// 6.
    Info,
    /// 7.
    Debug,
}

impl Severity {
    /// Every one, the gravest first, by the words that nginx, HAProxy and syslog have; the first of each is written.
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

    /// Its number in syslog, 0..=7.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Its word.
    pub fn as_str(self) -> &'static str {
        Self::WORDS[self as usize].1[0]
    }

    /// The one with this word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, words)| words.contains(&text)).map(|(severity, _)| *severity)
    }
}

/// How a log line looks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// nginx's and Apache's `combined`.
    Combined,
    /// `combined` plus `"$http_x_forwarded_for"`, as the seeds' nginx configuration prints it.
    Main,
    /// HAProxy's `option httplog`.
    Haproxy,
    /// One JSON object a line, times in microseconds.
    Json,
    /// Custom text with `$variables`.
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
