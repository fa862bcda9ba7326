//! The address of a `proxy_pass`, in its parts.

use super::pools::UpstreamScheme;

/// The parts of the address of a `proxy_pass`.
pub(crate) struct PassUrl<'u> {
    pub(crate) scheme: UpstreamScheme,
    pub(crate) host: &'u str,
    pub(crate) uri: &'u str,
    /// Set if the address has variables.
    pub(crate) by_variable: bool,
}

impl<'u> PassUrl<'u> {
    pub(crate) fn of(url: &'u str) -> Result<Self, String> {
        let (scheme, address) =
            UpstreamScheme::of(url).ok_or("write `http://ADDRESS` or `https://ADDRESS`")?;
        let (host, uri) = if address.starts_with("unix:") {
            address.rsplit_once(':').filter(|(host, _)| *host != "unix").unwrap_or((address, ""))
        } else {
            address.split_at(end_of_host(address))
        };
        if host.is_empty() || uri.starts_with('?') {
            return Err("write the address of a server or the name of an `upstream`".to_owned());
        }
        Ok(Self { scheme, host, uri, by_variable: host.contains('$') })
    }

    /// Returns the `:authority` of a constant address of `grpc_pass`, and its port.
    pub(crate) fn authority(&self) -> (&'u str, &'u str) {
        match self.host.rsplit_once(':') {
            _ if self.host.starts_with("unix:") => ("localhost", ""),
            Some((_, port)) if has_port(self.host) => (self.host, port),
            _ => (self.host, ""),
        }
    }

    /// Returns the port of its scheme.
    pub(crate) fn usual_port(&self) -> &'static str {
        if self.scheme == UpstreamScheme::Http { "80" } else { "443" }
    }

    /// Returns `$proxy_host` and `$proxy_port` of a constant address: the usual port is no part of
    /// the host.
    pub(crate) fn host_and_port(&self) -> (&'u str, &'u str) {
        if self.host.starts_with("unix:") {
            return ("localhost", "");
        }
        let port = self
            .host
            .rsplit_once(':')
            .filter(|(_, port)| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
        match port {
            None => (self.host, self.usual_port()),
            Some((host, port)) if port == self.usual_port() => (host, port),
            Some((_, port)) => (self.host, port),
        }
    }
}

/// The variables with the path of a request, which end the name of a server before them.
const PATHS: [&str; 3] = ["request_uri", "uri", "document_uri"];

/// Returns the place at which the path begins.
fn end_of_host(address: &str) -> usize {
    let mut from = 0;
    while let Some(at) = address[from..].find(['/', '?', '$']).map(|at| from + at) {
        let Some(rest) = address[at..].strip_prefix('$') else { return at };
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        if PATHS.contains(&&rest[..end.unwrap_or(rest.len())]) {
            return at;
        }
        from = at + 1;
    }
    address.len()
}

/// Returns true if an address names its port, or is one of a socket without ports.
pub(crate) fn has_port(address: &str) -> bool {
    let behind = address.rfind(']').map_or(address, |end| &address[end..]);
    address.starts_with("unix:") || behind.contains(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_begins_behind_the_server() {
        for (url, host, uri) in [
            ("http://app:81/x?y", "app:81", "/x?y"),
            ("http://$app.internal:81", "$app.internal:81", ""),
            ("http://app-${color}/a$uri", "app-${color}", "/a$uri"),
            ("http://$app$request_uri", "$app", "$request_uri"),
            ("http://app${uri}$is_args$args", "app", "${uri}$is_args$args"),
            ("http://$uri_of_mine", "$uri_of_mine", ""),
            ("http://unix:/run/a.sock:/x", "unix:/run/a.sock", "/x"),
        ] {
            let parts = PassUrl::of(url).unwrap();
            assert_eq!((parts.host, parts.uri), (host, uri), "{url}");
            assert_eq!(parts.by_variable, host.contains('$'), "{url}");
        }
        for url in ["app", "http://", "http:///x", "http://app?x"] {
            assert!(PassUrl::of(url).is_err(), "{url}");
        }
    }
}
