//! Lints about listeners: access, trust, limits on clients, headers and connections.

use std::time::Duration;

use super::Linter;
use crate::model::{
    AccessRule, ClientTimeouts, HeaderEdit, InFlightLimit, Listener, RateLimit, Route, TlsVersion,
    Verdict,
};

/// Headers that concern one connection, or that only Weir may write, and that the checks let pass.
const HOP_BY_HOP: [&str; 6] = [
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-authentication-info",
    "http2-settings",
    "weir-hops",
    "alt-used",
];
/// Variables that every client can set to anything.
const FORGEABLE: [&str; 5] =
    ["http_x_forwarded_for", "http_x_real_ip", "http_forwarded", "http_user_agent", "http_referer"];
/// An idle connection that is closed sooner costs a page a second handshake.
const SHORT_KEEPALIVE: Duration = Duration::from_secs(2);
/// A longer wait for a silent client is as good as none.
const LONG_WAIT: Duration = Duration::from_mins(10);

impl Linter<'_> {
    pub(super) fn listeners(&mut self) {
        let config = self.config;
        for (number, listener) in config.listeners.iter().enumerate() {
            let part = format!("listeners[{number}]");
            self.access(&part, &listener.access);
            self.trust(&part, listener);
            self.edits(&part, &listener.request_headers, &listener.response_headers);
            self.connections(&part, listener);
            self.waits(&part, &listener.timeouts);
            let limits = (&*listener.rate_limits, &*listener.in_flight_limits);
            self.keys(&part, limits);
            self.forwarded(&part, listener, &listener.request_headers);
            for (site, block) in listener.sites.iter().enumerate() {
                self.each_route(&format!("{part}.sites[{site}].routes"), &block.routes, listener);
            }
            self.each_route(&format!("{part}.default"), &listener.default, listener);
        }
    }

    fn each_route(&mut self, list: &str, routes: &[Route], listener: &Listener) {
        for (number, route) in routes.iter().enumerate() {
            let part = format!("{list}[{number}]");
            self.access(&part, &route.access);
            self.edits(&part, &route.request_headers, &route.response_headers);
            self.keys(&part, (&route.rate_limits, &route.in_flight_limits));
            self.forwarded(&part, listener, &route.request_headers);
        }
    }

    fn access(&mut self, part: &str, rules: &[AccessRule]) {
        let denies = rules.iter().any(|rule| rule.verdict == Verdict::Deny);
        if let (Some(_), false) = (rules.first(), denies) {
            self.report(
                "allow-without-deny",
                &format!("{part}.access[0]"),
                "this allows what is allowed anyway: no rule denies the other clients",
                "add `deny all;` after it",
            );
        }
        let all = rules.iter().position(|rule| rule.clients.is_empty());
        if let Some(all) = all.filter(|all| all + 1 < rules.len()) {
            self.report(
                "unreachable-access-rule",
                &format!("{part}.access[{}]", all + 1),
                "this rule is never reached: one for all clients stands before it",
                "put the rule for `all` last",
            );
        }
    }

    fn trust(&mut self, part: &str, listener: &Listener) {
        if listener.forwarded.trusted.iter().any(|network| network.prefix_len() == 0) {
            self.report(
                "trusts-everyone",
                &format!("{part}.forwarded"),
                "every client is a trusted proxy, and can claim any address",
                "name the networks of your own proxies",
            );
        }
    }

    fn edits(&mut self, part: &str, request: &[HeaderEdit], response: &[HeaderEdit]) {
        for (field, edits) in [("request_headers", request), ("response_headers", response)] {
            for (number, edit) in edits.iter().enumerate() {
                let edit = edit.plain();
                let (HeaderEdit::Set(name, _) | HeaderEdit::Add(name, _)) = edit else { continue };
                if HOP_BY_HOP.iter().any(|own| name.eq_ignore_ascii_case(own)) {
                    self.report(
                        "hop-by-hop-header",
                        &format!("{part}.{field}[{number}]"),
                        format!("`{name}` belongs to a single connection (RFC 9110 section 7.6.1)"),
                        "remove the line, or use a header of your own",
                    );
                }
            }
        }
    }

    /// Finds headers about the client that are written by hand although Weir sends them.
    fn forwarded(&mut self, part: &str, listener: &Listener, edits: &[HeaderEdit]) {
        if !listener.forwarded.x_forwarded {
            return;
        }
        for (number, edit) in edits.iter().enumerate() {
            let HeaderEdit::Set(name, value) = edit else { continue };
            let name = name.to_ascii_lowercase();
            let usual = match name.as_str() {
                "x-forwarded-for" => ["$proxy_add_x_forwarded_for", "$remote_addr"].as_slice(),
                "x-forwarded-proto" => &["$scheme"],
                "x-forwarded-host" => &["$host", "$http_host"],
                _ => continue,
            };
            if usual.contains(&value.as_str()) {
                self.report(
                    "forwarded-by-hand",
                    &format!("{part}.request_headers[{number}]"),
                    "Weir sends this header already, and keeps what a trusted proxy says in it",
                    "remove the line, or switch Weir's off: `forwarded x_forwarded=off;`",
                );
            }
        }
    }

    fn connections(&mut self, part: &str, listener: &Listener) {
        let requests = listener.limits.requests;
        if let Some(new) = self.new_connections(requests) {
            let rate = self.rate;
            let what = if listener.tls.is_some() { "TLS handshakes" } else { "connections" };
            self.report(
                "few-requests-per-connection",
                &format!("{part}.limits"),
                format!(
                    "a connection carries at most {requests} requests: at {rate} requests per second that makes {new} or more new {what} per second"
                ),
                "remove `requests=`, or raise it",
            );
        }
        if listener.timeouts.keepalive < SHORT_KEEPALIVE {
            self.report(
                "short-keepalive",
                &format!("{part}.timeouts"),
                "idle connections are closed so soon that a browser connects again for each page",
                "raise `keepalive=`; the default is 75s",
            );
        }
        let protocol = listener.tls.as_ref().map(|tls| &tls.protocol);
        if protocol.is_some_and(|protocol| protocol.max == TlsVersion::Tls12) {
            self.report(
                "weak-tls",
                &format!("{part}.tls"),
                "TLS 1.3 is switched off: handshakes take longer, and their certificates are readable",
                "remove `max=1.2`",
            );
        }
    }

    fn waits(&mut self, part: &str, timeouts: &ClientTimeouts) {
        let ClientTimeouts { handshake, head, body, send, .. } = timeouts;
        let waits = [("handshake", handshake), ("head", head), ("body", body), ("send", send)];
        let long = waits.iter().find(|(_, wait)| **wait > LONG_WAIT);
        if let Some((name, _)) = long {
            self.report(
                "missing-timeout",
                &format!("{part}.timeouts"),
                format!("`{name}=` is so long that a silent client holds its connection for ever"),
                "the defaults are 10s for `handshake` and `head`, 30s for `body`, 1m for `send`",
            );
        }
    }

    fn keys(&mut self, part: &str, (rates, in_flight): (&[RateLimit], &[InFlightLimit])) {
        let rates = rates.iter().map(|limit| &limit.key).enumerate();
        let rates = rates.map(|(number, key)| (format!("rate_limits[{number}]"), key));
        let in_flight = in_flight.iter().map(|limit| &limit.key).enumerate();
        let in_flight = in_flight.map(|(number, key)| (format!("in_flight_limits[{number}]"), key));
        for (name, key) in rates.chain(in_flight) {
            let variables: Vec<String> =
                key.variables().map(|one| one.to_string().to_ascii_lowercase()).collect();
            let forged = |name: &String| {
                FORGEABLE.contains(&name.trim_start_matches('$').trim_matches(['{', '}']))
            };
            if !variables.is_empty() && variables.iter().all(forged) {
                self.report(
                    "forgeable-key",
                    &format!("{part}.{name}"),
                    "each client chooses this key, and evades the limit with another value",
                    "use `$remote_addr`, which follows trusted proxies",
                );
            }
        }
    }
}
