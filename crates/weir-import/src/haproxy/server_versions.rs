//! `proto`, `alpn`, `check-proto`, `check-alpn` and `ws` of servers become their version of HTTP.

use super::convert::HaproxyConverter;
use super::sections::LineId;

/// The options of a server about versions of HTTP.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerVersions {
    /// `proto`: one version, whatever the handshake says.
    multiplexer: Option<ServerVersion>,
    /// The protocols that are offered in the TLS handshake.
    offered: Option<String>,
    check_multiplexer: Option<ServerVersion>,
    check_offered: Option<String>,
    websockets: Option<String>,
}

/// A version of HTTP that a server is asked in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerVersion {
    Http1,
    Http2,
    /// The one that the server chooses.
    Chosen,
}

/// The surroundings of a server that its version depends on.
#[derive(Clone, Copy)]
pub(super) struct VersionPlace {
    pub(super) tls: bool,
    /// Set if its section passes on bytes.
    pub(super) passes_bytes: bool,
    pub(super) probes: RequestProbes,
}

/// The probes of a server that are requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestProbes {
    None,
    /// They go to the address of requests.
    AtServer,
    Elsewhere,
}

impl ServerVersion {
    /// Returns the value of `http=`.
    fn word(self) -> &'static str {
        match self {
            Self::Http1 => "1",
            Self::Http2 => "2",
            Self::Chosen => "auto",
        }
    }

    fn of_multiplexer(word: &str, name: &str) -> Result<Self, String> {
        match name {
            "h1" => Ok(Self::Http1),
            "h2" => Ok(Self::Http2),
            "fcgi" => Err(format!(
                "`{word} fcgi`: Weir does not speak FastCGI: put a web server in front of the application"
            )),
            "quic" => {
                Err(format!("`{word} quic`: Weir does not speak HTTP/3 to servers: write `h2`"))
            }
            "spop" => Err(format!(
                "`{word} spop`: Weir has no agents that look at requests: leave the backend out"
            )),
            "none" => Err(format!("`{word} none`: write the server in a section of `mode tcp`")),
            _ => Err(format!("`{word} {name}` is not known: write `h1` or `h2`")),
        }
    }

    /// Returns the version for the protocols of a TLS handshake.
    fn of_offer(offered: &str) -> Self {
        let has = |protocol: &str| offered.split(',').any(|one| one.trim() == protocol);
        match (has("h2"), has("http/1.1") || has("http/1.0")) {
            (true, true) => Self::Chosen,
            (true, false) => Self::Http2,
            (false, _) => Self::Http1,
        }
    }
}

impl ServerVersions {
    /// Takes an option; returns false if it is none of these.
    pub(super) fn take(&mut self, word: &str, value: &str) -> Result<bool, String> {
        match word {
            "proto" => self.multiplexer = Some(ServerVersion::of_multiplexer(word, value)?),
            "check-proto" => {
                self.check_multiplexer = Some(ServerVersion::of_multiplexer(word, value)?);
            }
            "alpn" if !value.is_empty() => self.offered = Some(value.to_owned()),
            "check-alpn" if !value.is_empty() => self.check_offered = Some(value.to_owned()),
            "ws" if matches!(value, "auto" | "h1" | "h2") => {
                self.websockets = Some(value.to_owned());
            }
            "alpn" | "check-alpn" | "ws" => {
                return Err(format!("`{word}` needs another value than `{value}`"));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the version of requests.
    pub(super) fn of_requests(&self, tls: bool) -> ServerVersion {
        let offered = self.offered.as_deref().filter(|_| tls).map(ServerVersion::of_offer);
        self.multiplexer.or(offered).unwrap_or(ServerVersion::Http1)
    }

    /// Returns the version of probes.
    fn of_probes(&self, tls: bool) -> ServerVersion {
        let offered = self.check_offered.as_deref().or(self.offered.as_deref());
        let offered = offered.filter(|_| tls).map(ServerVersion::of_offer);
        let multiplexer = self.check_multiplexer.or(self.multiplexer);
        multiplexer.or(offered).unwrap_or(ServerVersion::Http1)
    }
}

impl HaproxyConverter<'_> {
    /// Returns the `http=` of a server, and notes what differs.
    pub(super) fn version_of(
        &mut self,
        versions: &ServerVersions,
        line: LineId,
        place: VersionPlace,
    ) -> Option<&'static str> {
        if place.passes_bytes {
            if versions.offered.is_some() {
                let how = "`alpn`: bytes are passed on, and no protocol is offered in the handshake with the server";
                self.outcomes.differs(line, how);
            }
            return None;
        }
        let version = versions.of_requests(place.tls);
        if version == ServerVersion::Http2 && place.tls {
            self.outcomes.differs(line, "the server has to choose HTTP/2 in the TLS handshake; HAProxy goes on without that");
        }
        if place.probes != RequestProbes::None && versions.of_probes(place.tls) != version {
            self.outcomes.refuse(line, "probes are requests of the same version as others: write `proto` or `alpn` alike for both, or a check of the connection without `option httpchk`");
        } else if place.probes == RequestProbes::Elsewhere && version != ServerVersion::Http1 {
            self.outcomes.differs(
                line,
                "probes at another port or address than that of requests are in HTTP/1.1",
            );
        }
        let upgrades = versions.websockets.as_deref().unwrap_or("auto");
        match (upgrades, version) {
            ("h2", ServerVersion::Http1) => {
                self.outcomes.differs(line, "`ws h2`: WebSockets are HTTP/1.1 to this server");
            }
            ("h1", ServerVersion::Http2 | ServerVersion::Chosen) => self.outcomes.differs(
                line,
                "`ws h1`: WebSockets are HTTP/2 to a server that permits it (RFC 8441)",
            ),
            _ => {}
        }
        (version != ServerVersion::Http1).then(|| version.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_follow_the_options() {
        use ServerVersion::{Chosen, Http1, Http2};
        let check = |options: &[(&str, &str)], tls, requests, probes| {
            let mut versions = ServerVersions::default();
            for (word, value) in options {
                assert!(versions.take(word, value).unwrap(), "{word}");
            }
            let found = (versions.of_requests(tls), versions.of_probes(tls));
            assert_eq!(found, (requests, probes), "{options:?}");
        };
        check(&[], true, Http1, Http1);
        check(&[("proto", "h2")], false, Http2, Http2);
        check(&[("alpn", "h2,http/1.1")], true, Chosen, Chosen);
        check(&[("alpn", "h2,http/1.1")], false, Http1, Http1);
        check(&[("alpn", "h2")], true, Http2, Http2);
        check(&[("alpn", "http/1.1"), ("check-alpn", "h2")], true, Http1, Http2);
        check(&[("proto", "h2"), ("check-proto", "h1"), ("alpn", "h2")], true, Http2, Http1);
        let mut versions = ServerVersions::default();
        assert!(!versions.take("weight", "1").unwrap());
        for (word, value) in [("proto", "fcgi"), ("proto", "x"), ("ws", "x"), ("alpn", "")] {
            assert!(versions.take(word, value).is_err(), "{word} {value}");
        }
    }
}
