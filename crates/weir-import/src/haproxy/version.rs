//! The version of HAProxy whose defaults hold, as `--assume haproxy=X.Y` names it.

/// A version such as 2.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HaproxyVersion {
    major: u16,
    minor: u16,
}

impl HaproxyVersion {
    /// The version whose defaults hold if none is named.
    pub const LATEST: Self = Self::new(3, 4);

    const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }

    /// Parses `2.6`, `2.6.12` or `2.4-dev19`.
    pub fn parse(text: &str) -> Option<Self> {
        let plain = text.split('-').next()?;
        let mut parts = plain.split('.').map(|part| part.parse::<u16>().ok());
        let major = parts.next()??;
        let minor = parts.next().unwrap_or(Some(0))?;
        parts.all(|part| part.is_some()).then_some(Self::new(major, minor))
    }

    /// Returns true if `balance` is `random` where a file does not say, and not `roundrobin`.
    pub(super) fn balances_at_random(self) -> bool {
        self >= Self::new(3, 3)
    }

    /// Returns true if a `bind` with TLS and without `alpn` offers HTTP/2.
    pub(super) fn offers_http2(self) -> bool {
        self >= Self::new(2, 8)
    }

    /// Returns true if servers with TLS are asked for the host of the request where a file does not
    /// say (`sni-auto`).
    pub(super) fn names_servers_by_host(self) -> bool {
        self >= Self::new(3, 3)
    }
}

impl std::fmt::Display for HaproxyVersion {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        let version = |text: &str| HaproxyVersion::parse(text).unwrap();
        assert!(version("2.10") > version("2.6.12") && version("3") == version("3.0"));
        assert!(version("2.4-dev19") == version("2.4"));
        assert!(HaproxyVersion::parse("x").is_none() && HaproxyVersion::parse("2.x").is_none());
        assert_eq!(version("2.6.12").to_string(), "2.6");
    }
}
