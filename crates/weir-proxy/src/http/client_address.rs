//! Finds the client behind trusted hops, and applies the access rules. It writes no headers.
//!
//! Addresses are compared in their canonical form: an IPv4 client of a dual-stack listener counts
//! as that IPv4 address.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use weir_config::model::{AccessRule, Forwarded, Verdict, contains};
use weir_wire::{Header, Known, RequestHead};

use crate::http::edits::same_name;
use crate::http::request_view::RequestView;
use crate::limits::FORWARDED_HOPS;

/// The trust in a peer's statements about other clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerTrust {
    /// A peer in one of the configured networks.
    Trusted,
    /// Any other peer; a peer on a Unix socket has no address and is never trusted.
    Untrusted,
}

impl PeerTrust {
    /// Checks a peer against the listener's trusted networks.
    pub fn of(peer: Option<IpAddr>, trusted: &[IpNet]) -> Self {
        match peer {
            Some(address) if !trusted.is_empty() && contains(trusted, address.to_canonical()) => {
                Self::Trusted
            }
            _ => Self::Untrusted,
        }
    }
}

/// The client's address: follows the configured header (`X-Forwarded-For` by default) from the
/// peer, right to left, as long as the hop that reports the next address is trusted. The walk ends
/// at the first address that is not trusted, at the first entry of the list, before an entry that
/// is no address, or after `FORWARDED_HOPS` entries; without `recursive`, after one.
pub fn client_address(
    peer: Option<IpAddr>,
    forwarded: &Forwarded,
    view: &RequestView<'_>,
) -> Option<IpAddr> {
    let trusted = &forwarded.trusted;
    if PeerTrust::of(peer, trusted) == PeerTrust::Untrusted {
        return peer;
    }
    let is_named = |header: &&Header| match &forwarded.header {
        None => header.known == Known::XForwardedFor,
        Some(name) => same_name(header.name.of(view.bytes), name.as_bytes()),
    };
    let lines = view.head.headers.iter().rev().filter(is_named);
    let hops = lines.flat_map(|header| header.value.of(view.bytes).rsplit(|&byte| byte == b','));
    let mut client = peer;
    for hop in hops.take(FORWARDED_HOPS) {
        let hop = hop.trim_ascii();
        if hop.is_empty() {
            continue;
        }
        let Some(address) = parse_hop(hop) else { break };
        client = Some(address);
        if !forwarded.recursive || !contains(trusted, address.to_canonical()) {
            break;
        }
    }
    client
}

/// Parses an address, bare or in brackets, with or without a port.
fn parse_hop(hop: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(hop).ok()?;
    let bare = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    text.parse()
        .ok()
        .or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
        .or_else(bare)
}

/// Tells whether the client's request is permitted: the first matching rule decides, and if none
/// matches the request is allowed. A client without an address (on a Unix socket) matches only
/// rules for all clients.
pub fn allowed(rules: &[AccessRule], client: Option<IpAddr>) -> bool {
    if rules.is_empty() {
        return true;
    }
    let client = client.map(|address| address.to_canonical());
    let matching = rules.iter().find(|rule| {
        rule.clients.is_empty() || client.is_some_and(|address| contains(&rule.clients, address))
    });
    matching.is_none_or(|rule| rule.verdict == Verdict::Allow)
}

/// Tells whether a trusted proxy reports that the client connected to it over TLS.
pub(crate) fn came_over_tls(trust: PeerTrust, head: &RequestHead, bytes: &[u8]) -> bool {
    let mut lines = head.headers.iter().filter(|header| header.known == Known::XForwardedProto);
    let proto = lines.next().map(|header| header.value.of(bytes)).unwrap_or_default();
    trust == PeerTrust::Trusted && proto.eq_ignore_ascii_case(b"https")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::sample::{SampleRequest, networks};

    #[test]
    fn no_more_than_the_maximum_of_hops_is_followed() {
        let hops = |count| format!("X-Forwarded-For: 1.1.1.1{}\r\n", ", 10.0.0.1".repeat(count));
        check("10.0.0.2", "10.0.0.0/8", &hops(FORWARDED_HOPS - 1), "1.1.1.1");
        check("10.0.0.2", "10.0.0.0/8", &hops(FORWARDED_HOPS), "10.0.0.1");
    }

    fn check(peer: &str, trusted: &str, lines: &str, expected: &str) {
        check_of(
            &Forwarded { trusted: networks(trusted), ..Forwarded::default() },
            peer,
            lines,
            expected,
        );
    }

    fn check_of(forwarded: &Forwarded, peer: &str, lines: &str, expected: &str) {
        let request = SampleRequest::new(&format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
        let peer = peer.parse().ok();
        let client = client_address(peer, forwarded, &request.view());
        assert_eq!(client, expected.parse().ok(), "{peer:?} {lines:?}");
    }

    #[test]
    fn another_header_names_the_client_and_one_hop_may_be_enough() {
        let usual = Forwarded { trusted: networks("10.0.0.0/8"), ..Forwarded::default() };
        let other = Forwarded { header: Some("X-Client".to_owned()), ..usual.clone() };
        let lines = "X-Forwarded-For: 1.1.1.1\r\nx-client: 2.2.2.2, 10.0.0.9\r\n";
        check_of(&other, "10.0.0.1", lines, "2.2.2.2");
        check_of(&other, "192.0.2.1", lines, "192.0.2.1");
        check_of(&other, "10.0.0.1", "X-Forwarded-For: 1.1.1.1\r\n", "10.0.0.1");
        let last = Forwarded { recursive: false, ..other };
        check_of(&last, "10.0.0.1", lines, "10.0.0.9");
        let last = Forwarded { recursive: false, ..usual };
        check_of(&last, "10.0.0.1", "X-Forwarded-For: 1.1.1.1, 10.0.0.3\r\n", "10.0.0.3");
    }

    #[test]
    fn the_client_is_the_last_address_that_is_not_trusted() {
        let hops = "10.0.0.0/8 192.168.1.1/32 fd00::/8";
        check("203.0.113.1", hops, "X-Forwarded-For: 1.1.1.1\r\n", "203.0.113.1");
        check("10.0.0.1", "", "X-Forwarded-For: 1.1.1.1\r\n", "10.0.0.1");
        check("10.0.0.1", hops, "", "10.0.0.1");
        check("10.0.0.1", hops, "X-Forwarded-For: 1.1.1.1\r\n", "1.1.1.1");
        check("10.0.0.1", hops, "x-forwarded-for: 6.6.6.6, 1.1.1.1 ,10.2.3.4\r\n", "1.1.1.1");
        check(
            "10.0.0.1",
            hops,
            "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 10.9.9.9\r\n",
            "1.1.1.1",
        );
        check("10.0.0.1", hops, "X-Forwarded-For: 10.0.0.3, 10.0.0.2\r\n", "10.0.0.3");
        check("10.0.0.1", hops, "X-Forwarded-For: 1.1.1.1, unknown, 10.0.0.2\r\n", "10.0.0.2");
        check("10.0.0.1", hops, "X-Forwarded-For: garbage\r\n", "10.0.0.1");
        check("10.0.0.1", hops, "X-Forwarded-For: 1.1.1.1,,\r\n", "1.1.1.1");
        check("10.0.0.1", hops, "X-Forwarded-For: 1.1.1.1:5555\r\n", "1.1.1.1");
        check("10.0.0.1", hops, "X-Forwarded-For: [2001:db8::1]:443\r\n", "2001:db8::1");
        check("10.0.0.1", hops, "X-Forwarded-For: [2001:db8::1]\r\n", "2001:db8::1");
        check("::ffff:10.0.0.1", hops, "X-Forwarded-For: 1.1.1.1\r\n", "1.1.1.1");
        check("fd00::1", hops, "X-Forwarded-For: ::ffff:10.0.0.7, 2001:db8::5\r\n", "2001:db8::5");
        check("unix", hops, "X-Forwarded-For: 1.1.1.1\r\n", "none");
    }

    fn check_access(rules: &[(Verdict, &str)], client: &str, expected: bool) {
        let rules: Vec<AccessRule> = rules
            .iter()
            .map(|(verdict, clients)| AccessRule { verdict: *verdict, clients: networks(clients) })
            .collect();
        assert_eq!(allowed(&rules, client.parse().ok()), expected, "{client}");
    }

    #[test]
    fn the_first_matching_rule_decides() {
        use Verdict::{Allow, Deny};
        check_access(&[], "1.1.1.1", true);
        check_access(&[], "unix", true);
        let office = [(Allow, "192.0.2.0/24 2001:db8::/32"), (Deny, "")];
        check_access(&office, "192.0.2.9", true);
        check_access(&office, "::ffff:192.0.2.9", true);
        check_access(&office, "2001:db8::9", true);
        check_access(&office, "192.0.3.9", false);
        check_access(&office, "unix", false);
        let list = [(Deny, "192.0.2.66/32"), (Allow, "192.0.2.0/24"), (Deny, "192.0.0.0/16")];
        check_access(&list, "192.0.2.66", false);
        check_access(&list, "192.0.2.67", true);
        check_access(&list, "192.0.9.9", false);
        check_access(&list, "8.8.8.8", true);
        check_access(&[(Deny, "0.0.0.0/0")], "unix", true);
    }

    #[test]
    fn tls_is_taken_only_from_a_trusted_proxy() {
        let says = |proto: &str, trust| {
            let text = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: {proto}\r\n\r\n");
            let request = SampleRequest::new(&text);
            came_over_tls(trust, &request.head, &request.bytes)
        };
        assert!(says("https", PeerTrust::Trusted) && says("HTTPS", PeerTrust::Trusted));
        assert!(!says("http", PeerTrust::Trusted) && !says("https", PeerTrust::Untrusted));
    }
}
