//! The versions, cipher suites and groups of TLS: options of `bind` and `server`.

use crate::native::NativeLine;
use crate::tls_lists::{TlsListKind, TlsLists};

/// The lists of `global` for all `bind` lines, or for all servers.
pub(super) const TLS_LISTS: [&str; 6] = [
    "ssl-default-bind-ciphers",
    "ssl-default-bind-ciphersuites",
    "ssl-default-bind-curves",
    "ssl-default-server-ciphers",
    "ssl-default-server-ciphersuites",
    "ssl-default-server-curves",
];

/// The versions of TLS that are allowed, and their lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct TlsVersions {
    min: Option<u8>,
    max: Option<u8>,
    no_12: bool,
    no_13: bool,
    pub(super) lists: TlsLists,
}

/// Returns the list that an option sets.
pub(super) fn list_of(option: &str) -> Option<TlsListKind> {
    match option {
        "ciphers" => Some(TlsListKind::OldSuites),
        "ciphersuites" => Some(TlsListKind::NewSuites),
        "curves" | "ecdhe" => Some(TlsListKind::Groups),
        _ => None,
    }
}

impl TlsVersions {
    /// Takes an option such as `ssl-min-ver TLSv1.2`, `no-tlsv13` or `ciphers LIST`; returns the
    /// number of words, 0 if it is none, or the reason why it is refused.
    pub(super) fn take(&mut self, word: &str, value: &str) -> Result<usize, String> {
        let version = |text: &str| match text {
            "TLSv1.2" => Ok(2),
            "TLSv1.3" => Ok(3),
            "SSLv3" | "TLSv1.0" | "TLSv1.1" => Ok(0),
            _ => Err(format!("`{text}` is not a version of TLS")),
        };
        if let Some(kind) = list_of(word) {
            self.lists.take(kind, value)?;
            return Ok(2);
        }
        match word {
            "ssl-min-ver" => self.min = Some(version(value)?),
            "ssl-max-ver" => match version(value)? {
                0 => return Err("Weir offers TLS 1.2 and 1.3 only".to_owned()),
                version => self.max = Some(version),
            },
            "force-tlsv12" => (self.min, self.max) = (Some(2), Some(2)),
            "force-tlsv13" => (self.min, self.max) = (Some(3), Some(3)),
            "no-tlsv12" => self.no_12 = true,
            "no-tlsv13" => self.no_13 = true,
            "no-sslv3" | "no-tlsv10" | "no-tlsv11" => {}
            "prefer-client-ciphers" => self.lists.client_prefers = true,
            "force-sslv3" | "force-tlsv10" | "force-tlsv11" => {
                return Err("Weir offers TLS 1.2 and 1.3 only".to_owned());
            }
            _ => return Ok(0),
        }
        Ok(if word.starts_with("ssl-") { 2 } else { 1 })
    }

    /// Returns the words of a native `tls` line.
    pub(super) fn options(&self, line: NativeLine) -> NativeLine {
        self.lists.options(self.range(), line)
    }

    /// Returns the reason why no version is left.
    pub(super) fn objection(&self) -> Option<String> {
        self.lists.versions(self.range()).err()
    }

    /// Returns the remarks on lists that are not those of `global`.
    pub(super) fn remarks(&self, global: &Self) -> Vec<String> {
        if self.lists == global.lists { Vec::new() } else { self.lists.remarks() }
    }

    fn range(&self) -> (&'static str, &'static str) {
        let from_13 = self.min == Some(3) || self.no_12;
        let to_12 = self.max == Some(2) || self.no_13;
        (if from_13 { "1.3" } else { "1.2" }, if to_12 && !from_13 { "1.2" } else { "1.3" })
    }
}
