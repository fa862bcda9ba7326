//! The server names for which handshakes are made: a client that asks for another one, or for none,
//! gets an alert instead of a certificate.

use std::collections::HashSet;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use weir_config::pattern::HostPattern;

/// The names of a listener.
#[derive(Debug, Default)]
pub(crate) struct KnownNames {
    /// In lower case.
    exact: HashSet<Box<str>>,
    /// The names of which any one label may be in front, as in certificates (RFC 6125 section
    /// 6.4.3).
    parents: HashSet<Box<str>>,
    /// Wildcards and regexes of host blocks.
    patterns: Vec<HostPattern>,
}

impl KnownNames {
    /// The names of host blocks.
    pub(crate) fn of_hosts<'h>(hosts: impl IntoIterator<Item = &'h HostPattern>) -> Self {
        let mut known = Self::default();
        for host in hosts {
            let text = host.as_str();
            if text.starts_with(['*', '~']) {
                known.patterns.push(host.clone());
            } else {
                known.exact.insert(text.trim_end_matches('.').to_ascii_lowercase().into());
            }
        }
        known
    }

    /// The names in certificates.
    pub(crate) fn of_certificates(names: &[String]) -> Self {
        let mut known = Self::default();
        for name in names {
            let name = name.to_ascii_lowercase();
            match name.strip_prefix("*.") {
                Some(parent) => known.parents.insert(parent.into()),
                None => known.exact.insert(name.into()),
            };
        }
        known
    }

    /// Returns true if a handshake is made for a name as rustls has it, in lower case.
    fn has(&self, name: &str) -> bool {
        let parent = || name.split_once('.').map(|(_, parent)| parent);
        self.exact.contains(name)
            || parent().is_some_and(|parent| self.parents.contains(parent))
            || self.patterns.iter().any(|pattern| pattern.matches(name))
    }
}

/// Finds certificates for these names only.
#[derive(Debug)]
pub(crate) struct NamedOnly {
    pub(crate) names: KnownNames,
    pub(crate) certificates: Arc<dyn ResolvesServerCert>,
}

impl ResolvesServerCert for NamedOnly {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_known = hello.server_name().is_some_and(|name| self.names.has(name));
        if is_known { self.certificates.resolve(hello) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_hosts_are_those_of_their_blocks() {
        let hosts =
            ["A.test", "b.test.", "*.c.test", "~^d[0-9]+\\."].map(|text| text.parse().unwrap());
        let known = KnownNames::of_hosts(&hosts);
        for name in ["a.test", "b.test", "x.c.test", "x.y.c.test", "d1.test"] {
            assert!(known.has(name), "{name}");
        }
        for name in ["c.test", "x.a.test", "d.test", "test", ""] {
            assert!(!known.has(name), "{name}");
        }
    }

    #[test]
    fn a_wildcard_of_a_certificate_is_one_label() {
        let known = KnownNames::of_certificates(&["a.test".to_owned(), "*.B.test".to_owned()]);
        assert!(known.has("a.test") && known.has("x.b.test"));
        assert!(!known.has("b.test") && !known.has("x.y.b.test") && !known.has("x.a.test"));
    }
}
