//! A request as rules, limits and header templates look at it. It parses nothing.

use std::net::IpAddr;

use weir_stats::Headers;
use weir_wire::{Header, RequestHead};

use crate::http::internal::InternalRedirects;

/// A request as routing and variables use it.
#[derive(Clone, Copy)]
pub struct RequestView<'a> {
    /// The parsed head.
    pub head: &'a RequestHead,
    /// The bytes that its spans refer to.
    pub bytes: &'a [u8],
    /// The client's address behind trusted hops; `None` on a Unix socket.
    pub client: Option<IpAddr>,
    /// The internal redirects; `None` before the first.
    pub(crate) internal: Option<&'a InternalRedirects>,
}

impl<'a> RequestView<'a> {
    /// The path as it is routed: the received one in its normal form, or that of the last internal
    /// redirect.
    pub(crate) fn path(&self) -> &'a [u8] {
        match self.internal.and_then(InternalRedirects::target) {
            Some((path, _)) => path,
            None => self.head.path_text(self.bytes),
        }
    }

    /// The method with which it is routed and sent on.
    pub(crate) fn method(&self) -> &'a [u8] {
        match self.internal {
            Some(internal) if internal.is_get() => b"GET",
            _ => self.head.method_span.of(self.bytes),
        }
    }

    /// The query that belongs to the path.
    pub(crate) fn query(&self) -> Option<&'a [u8]> {
        match self.internal.and_then(InternalRedirects::target) {
            Some((_, query)) => query,
            None => self.head.query.map(|query| query.of(self.bytes)),
        }
    }

    /// Appends the query with its `?`, if the request has one.
    pub(crate) fn append_query(&self, target: &mut Vec<u8>) {
        if let Some(query) = self.query() {
            target.push(b'?');
            target.extend_from_slice(query);
        }
    }
}

impl Headers for RequestView<'_> {
    fn value(&self, name: &str) -> Option<&[u8]> {
        self.head.header(self.bytes, name)
    }

    fn find<'h>(
        &'h self,
        name: &str,
        pick: &dyn Fn(&'h [u8]) -> Option<&'h [u8]>,
    ) -> Option<&'h [u8]> {
        let named =
            |header: &&Header| header.name.of(self.bytes).eq_ignore_ascii_case(name.as_bytes());
        let lines = self.head.headers.iter().filter(named);
        lines.map(|header| header.value.of(self.bytes)).find_map(pick)
    }

    fn each(&self, name: &str, then: &mut dyn FnMut(&[u8])) {
        for header in &self.head.headers {
            if header.name.of(self.bytes).eq_ignore_ascii_case(name.as_bytes()) {
                then(header.value.of(self.bytes));
            }
        }
    }
}

/// A host without its port and its trailing dot; an IPv6 literal keeps its brackets.
pub fn bare_host(host: &[u8]) -> &[u8] {
    let end = match host.first() {
        Some(b'[') => memchr::memchr(b']', host).map_or(host.len(), |at| at + 1),
        _ => memchr::memchr(b':', host).unwrap_or(host.len()),
    };
    let name = host.get(..end).unwrap_or(host);
    name.strip_suffix(b".").unwrap_or(name)
}
