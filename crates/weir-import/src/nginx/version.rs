//! The version of nginx whose defaults hold, as `--assume nginx=X.Y.Z` names it.

/// A version such as 1.29.7.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NginxVersion {
    major: u16,
    minor: u16,
    patch: u16,
}

impl NginxVersion {
    /// The version whose defaults hold if none is named, that of Debian 12.
    pub const USUAL: Self = Self::new(1, 22, 1);

    const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self { major, minor, patch }
    }

    /// Parses `1.29.7`, or `1.29` for the last one of that branch.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.').map(|part| part.parse::<u16>().ok());
        let major = parts.next()??;
        let minor = parts.next()??;
        let patch = parts.next().unwrap_or(Some(u16::MAX))?;
        parts.next().is_none().then_some(Self::new(major, minor, patch))
    }

    /// Returns true if servers of an `upstream` are asked over HTTP/1.1 and 32 connections of each
    /// location are kept, where the file does not say.
    pub(super) fn keeps_connections(self) -> bool {
        self >= Self::new(1, 29, 7)
    }

    /// Returns true if there is the directive `ssl`.
    pub(super) fn has_ssl_directive(self) -> bool {
        self < Self::new(1, 25, 1)
    }

    /// Returns `keepalive_requests`.
    pub(super) fn requests(self) -> &'static str {
        if self >= Self::new(1, 19, 10) { "1000" } else { "100" }
    }

    /// Returns true if connections are closed after `keepalive_time`.
    pub(super) fn has_longest_age(self) -> bool {
        self >= Self::new(1, 19, 10)
    }

    /// Returns the most headers of a request, if there is such a bound.
    pub(super) fn headers(self) -> Option<&'static str> {
        (self >= Self::new(1, 29, 8)).then_some("1000")
    }

    /// Returns true if `$http_NAME` has the values of all lines of a header.
    pub(super) fn joins_lines(self) -> bool {
        self >= Self::new(1, 23, 0)
    }

    /// Returns the versions of TLS that are offered where the file does not say.
    pub(super) fn tls(self) -> &'static str {
        if self >= Self::new(1, 27, 3) {
            "1.2 and 1.3"
        } else if self >= Self::new(1, 23, 4) {
            "1.0 to 1.3"
        } else {
            "1.0 to 1.2"
        }
    }
}

impl std::fmt::Display for NginxVersion {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)?;
        if self.patch < u16::MAX { write!(formatter, ".{}", self.patch) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_stands_for_its_last_version() {
        let version = |text: &str| NginxVersion::parse(text).unwrap();
        assert!(version("1.29") > version("1.29.8") && version("1.30.0") > version("1.29"));
        assert!(version("1.9.15") < version("1.10.0"));
        assert_eq!(
            [version("1.29.7").to_string(), version("1.31").to_string()],
            ["1.29.7", "1.31"]
        );
        for wrong in ["x", "1", "1.x", "1.2.3.4", ""] {
            assert!(NginxVersion::parse(wrong).is_none(), "{wrong}");
        }
    }
}
