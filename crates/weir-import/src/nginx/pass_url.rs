//! The address of a `proxy_pass`, in its parts.

use super::pools::UpstreamScheme;

/// The parts of the address of a `proxy_pass`.
pub(crate) struct PassUrl<'u> {
    pub(crate) scheme: UpstreamScheme,
    pub(crate) host: &'u str,
    pub(crate) uri: &'u str,
    /// Set if a variable is the whole address.
    pub(crate) by_variable: bool,
}

impl<'u> PassUrl<'u> {
    pub(crate) fn of(url: &'u str) -> Result<Self, String> {
        let (scheme, address) =
            UpstreamScheme::of(url).ok_or("write `http://ADDRESS` or `https://ADDRESS`")?;
        let name = address.strip_suffix("$request_uri").unwrap_or(address);
        let by_variable = name.starts_with('$') && !name.contains(['/', '?']);
        let (host, uri) = if by_variable {
            address.split_at(name.len())
        } else if address.starts_with("unix:") {
            address.rsplit_once(':').filter(|(host, _)| *host != "unix").unwrap_or((address, ""))
        } else {
            address.split_at(address.find(['/', '$', '?']).unwrap_or(address.len()))
        };
        let path_follows = uri.is_empty()
            || uri.starts_with('/')
            || ["$request_uri", "$uri"].iter().any(|start| uri.starts_with(start));
        if host.is_empty() || !path_follows {
            return Err("a target with variables has no conversion: write a route for each".into());
        }
        Ok(Self { scheme, host, uri, by_variable })
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

/// Returns true if an address names its port, or is one of a socket without ports.
pub(crate) fn has_port(address: &str) -> bool {
    let behind = address.rfind(']').map_or(address, |end| &address[end..]);
    address.starts_with("unix:") || behind.contains(':')
}
