//! The name that TLS asks a server for where the request decides it: the text of the pool, filled
//! in. A text that is no name leaves the server's own.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use rustls::pki_types::ServerName;

use crate::exchange::client_side::ClientSide;
use crate::exchange::request_key;
use crate::exchange::state::Exchange;
use crate::upstream::UpstreamPool;

/// The name that a request decides.
#[derive(Clone)]
pub(crate) struct RequestedName {
    pub(crate) name: ServerName<'static>,
    /// A number, not 0, that stands for the name among idle connections. It cannot be foreseen, so
    /// that no client makes its name share connections with another one.
    pub(crate) number: u64,
}

impl RequestedName {
    /// Returns the name for a request, if its pool has one for each; on the heap, as it is rare.
    pub(crate) fn of<C: ClientSide>(
        exchange: &Exchange<'_, C>,
        pool: &UpstreamPool,
    ) -> Option<Box<Self>> {
        static KEY: OnceLock<RandomState> = OnceLock::new();
        let mut text = Vec::new();
        request_key::fill(exchange, pool.request_name.as_ref()?, &mut text);
        let name = named(&text)?;
        let number = KEY.get_or_init(RandomState::new).hash_one(&name) | 1;
        Some(Box::new(Self { name, number }))
    }
}

/// Returns a text as the name of a server, without the port that a `Host` may have.
fn named(text: &[u8]) -> Option<ServerName<'static>> {
    let text = std::str::from_utf8(text).ok()?;
    let host = match text.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => text,
    };
    match ServerName::try_from(host).ok()? {
        name @ ServerName::DnsName(_) => Some(name.to_owned()),
        // An address is no name to ask for.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_without_its_port() {
        let check = |text: &str, expected: Option<&str>| {
            let found = named(text.as_bytes());
            assert_eq!(found.as_ref().map(|name| name.to_str()).as_deref(), expected, "{text}");
        };
        check("a.test", Some("a.test"));
        check("a.test:8443", Some("a.test"));
        for none in
            ["", ":80", "10.0.0.1", "10.0.0.1:80", "[::1]:80", "::1", "a b", "-", "a..b", "\u{e9}"]
        {
            check(none, None);
        }
        assert_eq!(named(b"\xff"), None);
    }
}
