//! `grpc_pass`: its address, and the version of HTTP in which servers are asked, for which
//! `proxy_http_version` asks too.

use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::pass_url::{PassUrl, has_port};
use super::pools::UpstreamScheme;
use super::scope::InheritanceScope;
use super::state::Converter;
use super::upstream_protocol::UpstreamProtocol;
use crate::native::NativeLine;

impl<'u> PassUrl<'u> {
    /// Splits the address of a `grpc_pass`, which may lack a scheme and has no path.
    pub(crate) fn of_grpc(url: &'u str) -> Result<Self, String> {
        let (scheme, host) = match url.strip_prefix("grpcs://") {
            Some(address) => (UpstreamScheme::Https, address),
            None => (UpstreamScheme::Http, url.strip_prefix("grpc://").unwrap_or(url)),
        };
        if host.starts_with("unix:") && host.len() > "unix:".len() {
            return Ok(Self { scheme, host, uri: "", by_variable: false });
        }
        if host.contains("://") {
            return Err("write `grpc://ADDRESS` or `grpcs://ADDRESS`".to_owned());
        }
        if matches!(host, "" | "unix:") || host.contains(['/', '?']) {
            return Err("nginx allows an address without a path here".to_owned());
        }
        Ok(Self { scheme, host, uri: "", by_variable: host.contains('$') })
    }
}

impl<'t> Converter<'_, 't> {
    /// Splits the address of a `grpc_pass`, which names an upstream or has a port.
    pub(crate) fn grpc_url<'u>(&self, url: &'u str) -> Result<PassUrl<'u>, String> {
        let parts = PassUrl::of_grpc(url)?;
        if parts.by_variable || self.pools.is_upstream(parts.host) || has_port(parts.host) {
            return Ok(parts);
        }
        Err("nginx refuses an address without a port here".to_owned())
    }

    /// Returns the `http_version` of the pool for the servers of a block, if they are asked in
    /// HTTP/2.
    pub(crate) fn upstream_version(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        span: SourceSpan,
    ) -> Option<Directive> {
        let is_asked = match scope.protocol() {
            UpstreamProtocol::Grpc => true,
            UpstreamProtocol::Http => self
                .single(scope, "proxy_http_version")
                .is_some_and(|id| self.statements.word(id, 0) == "2"),
        };
        is_asked.then(|| NativeLine::new("http_version", span).value("2").end())
    }

    /// Notes the version of HTTP in which servers are asked.
    pub(crate) fn note_version(&mut self, scope: &InheritanceScope<'_, 't>) {
        if scope.protocol() == UpstreamProtocol::Grpc {
            let errors = "an error of Weir's own is a response of gRPC (200 with `grpc-status`) for calls of gRPC; nginx sends a page with the status of HTTP";
            self.default("grpc_pass", errors);
            return;
        }
        match self.single(scope, "proxy_http_version") {
            Some(id) => match self.statements.word(id, 0) {
                "1.1" => self.outcomes.honour(id),
                "2" => self.outcomes.differs(
                    id,
                    "requests of all clients share connections, each as a stream; nginx has one request at a time on each",
                ),
                "1.0" => self.outcomes.differs(id, "Weir speaks HTTP/1.1 to servers"),
                _ => self.outcomes.refuse(id, "write `1.0`, `1.1` or `2`"),
            },
            None if self.version.keeps_connections() => {}
            None => self.default(
                "proxy_http_version",
                "1.0 with a connection for each request (before nginx 1.29.7); Weir speaks HTTP/1.1",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_grpc_have_no_path() {
        for (url, scheme, host) in [
            ("grpc://app:50051", UpstreamScheme::Http, "app:50051"),
            ("grpcs://app", UpstreamScheme::Https, "app"),
            ("10.0.0.1:9000", UpstreamScheme::Http, "10.0.0.1:9000"),
            ("unix:/run/app.sock", UpstreamScheme::Http, "unix:/run/app.sock"),
        ] {
            let parts = PassUrl::of_grpc(url).unwrap();
            assert_eq!((parts.scheme, parts.host, parts.by_variable), (scheme, host, false));
        }
        assert!(PassUrl::of_grpc("grpc://$pool").unwrap().by_variable);
        assert!(PassUrl::of_grpc("app$x:1").unwrap().by_variable);
        for url in ["grpc://", "http://app", "grpc://app/x", "unix:"] {
            assert!(PassUrl::of_grpc(url).is_err(), "{url}");
        }
    }
}
