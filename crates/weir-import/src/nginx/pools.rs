//! `upstream` and the settings of `proxy_pass` become pools, one for each group of servers. A pool
//! has the settings of the first location that leads to it; the routes of others set what differs.

use std::slice;

use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::affinity::StickyLines;
use super::body_bounds::USUAL;
use super::scope::InheritanceScope;
use super::state::{ConvertedPools, Converter, MadePool, ServerFailures, Upstream};
use super::statements::StatementId;
use super::upstream_protocol::UpstreamProtocol;
use super::values;
use crate::native::{NativeLine, identity};

/// The largest body that is read before a server is picked. nginx writes larger ones to a file.
const MOST_BUFFERED: u64 = 16 << 20;

impl ServerFailures {
    fn usual() -> Self {
        Self { most: 1, within: "10s".to_owned() }
    }

    /// Writes them as options.
    fn options(&self, line: NativeLine) -> NativeLine {
        if self.most == 0 {
            return line.option("errors", "off");
        }
        line.option("errors", &self.most.to_string())
            .option("window", &self.within)
            .option("eject", &self.within)
    }
}

/// The failures after which nginx leaves a server out, whatever `proxy_next_upstream` says.
const FAILURES: &str = "connect,reset,timeout,invalid";

/// The statuses that count as failures if `proxy_next_upstream` has them.
const FAILED_STATUSES: [&str; 5] = ["http_500", "http_502", "http_503", "http_504", "http_429"];

/// The scheme of a `proxy_pass`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpstreamScheme {
    Http,
    Https,
}

impl UpstreamScheme {
    /// Splits the scheme from the rest of a URL.
    pub(crate) fn of(url: &str) -> Option<(Self, &str)> {
        match url.strip_prefix("https://") {
            Some(address) => Some((Self::Https, address)),
            None => url.strip_prefix("http://").map(|address| (Self::Http, address)),
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// The pool of a `proxy_pass`.
pub(crate) struct PassTarget {
    pub(crate) pool: String,
    /// The settings of the location that are not the pool's.
    pub(crate) route_lines: Vec<Directive>,
}

impl<'t> Converter<'_, 't> {
    /// Reads an `upstream`.
    pub(crate) fn upstream(&mut self, id: StatementId) {
        let name = self.statements.word(id, 0);
        if name.is_empty() || self.pools.upstreams.contains_key(name) {
            self.outcomes.refuse(id, "an upstream needs a name of its own");
            return;
        }
        let children = self.statements.children(id);
        let mut lines: Vec<Directive> =
            children.iter().filter_map(|child| self.policy(*child)).collect();
        if lines.len() > 1 {
            self.outcomes.refuse(id, "it has several policies; the first is used");
            lines.truncate(1);
        }
        let servers = self.statements.named(Some(id), "server");
        let read: Vec<_> = servers.iter().filter_map(|server| self.server(*server)).collect();
        let mut rules = read.iter().map(|(_, own)| own).filter(|own| own.most > 0);
        // nginx asks the only server of an upstream, however often it failed.
        let failures = if servers.len() > 1 { rules.next().cloned() } else { None };
        let mut limited = false;
        let mut tried = 0;
        for (line, own) in read {
            let as_others = failures.as_ref().is_none_or(|rule| *rule == own);
            let line = if as_others { line } else { own.options(line) };
            let line = line.end();
            limited |= line.words.iter().any(|word| word.text.starts_with("max_conn="));
            tried += usize::from(!line.words.iter().any(|word| word.is("down")));
            lines.push(line);
        }
        if lines.iter().all(|line| line.name.text != "server") {
            self.outcomes.refuse(id, "it has no server that Weir can use");
            return;
        }
        lines.push(self.keepalive(id));
        lines.extend(self.queue(id, limited));
        let StickyLines { line, route_lines } = self.sticky(id);
        lines.extend(line);
        let upstream = Upstream { id, used: false, lines, route_lines, failures, servers: tried };
        self.pools.upstreams.insert(name, upstream);
    }

    fn policy(&mut self, id: StatementId) -> Option<Directive> {
        let line = NativeLine::new("balance", self.statements.span(id));
        let (first, second) = (self.statements.word(id, 0), self.statements.word(id, 1));
        match self.statements.name(id) {
            "least_conn" => {
                self.outcomes.honour(id);
                Some(line.keyword("least_conn").end())
            }
            "ip_hash" => {
                self.outcomes.differs(
                    id,
                    "clients of one network (the first three octets of an IPv4 address) stay at one server, but at another one than nginx's",
                );
                let line = line.keyword("hash").value("$remote_addr");
                Some(line.option("ipv4", "24").option("ipv6", "128").end())
            }
            "hash" => {
                let key = values::text_template(first, &self.known(), false);
                match (key, second) {
                    (Ok(key), "" | "consistent") => {
                        self.outcomes
                            .differs(id, "keys stay at their servers, but at others than nginx's");
                        let kind = if second.is_empty() { "hash" } else { "ring_hash" };
                        Some(line.keyword(kind).value(&key).end())
                    }
                    (Err(reason), _) => {
                        self.outcomes.refuse(id, reason);
                        None
                    }
                    _ => None,
                }
            }
            "least_time" => self.least_time(id, line),
            "fair" => self.fair(id, line),
            "random" if first.is_empty() => {
                self.outcomes.honour(id);
                Some(line.keyword("random").end())
            }
            "random" if first == "two" && matches!(second, "" | "least_conn") => {
                self.outcomes.honour(id);
                Some(line.keyword("random2").end())
            }
            "random" if first == "two" => self.random_by_time(id, line),
            "zone" => {
                self.outcomes.ignore(id, "all workers of Weir share the state of servers");
                None
            }
            _ => None,
        }
    }

    /// Converts the policy of nginx-upstream-fair.
    fn fair(&mut self, id: StatementId, line: NativeLine) -> Option<Directive> {
        let mut line = line.keyword("fair");
        for word in self.statements.words(id) {
            line = match word.text.as_str() {
                "no_rr" => line.keyword("no_rr"),
                "weight_mode=idle" => line.option("weight_mode", "idle"),
                "weight_mode=peak" => line.option("weight_mode", "peak"),
                other => {
                    self.outcomes.refuse(id, format!("`{other}` has no conversion"));
                    return None;
                }
            };
        }
        self.outcomes.honour(id);
        Some(line.end())
    }

    /// Converts `random two least_time=…`.
    fn random_by_time(&mut self, id: StatementId, line: NativeLine) -> Option<Directive> {
        let method = self.statements.word(id, 1);
        let measured = method.strip_prefix("least_time=");
        let Some(measured @ ("header" | "last_byte")) = measured else {
            let reason = "write `random two`, perhaps with `least_conn`, `least_time=header` or `least_time=last_byte`";
            self.outcomes.refuse(id, reason);
            return None;
        };
        let how =
            "the best of all servers by time and requests in flight, not of two that are drawn";
        self.outcomes.differs(id, how);
        Some(line.keyword("least_time").keyword(measured).end())
    }

    fn least_time(&mut self, id: StatementId, line: NativeLine) -> Option<Directive> {
        let (measured, option) = (self.statements.word(id, 0), self.statements.word(id, 1));
        if !matches!(measured, "header" | "last_byte") {
            let reason = "Weir averages times of HTTP responses: write `header` or `last_byte`, or `least_conn` for TCP";
            self.outcomes.refuse(id, reason);
            return None;
        }
        match option {
            "" => self.outcomes.honour(id),
            "inflight" => self.outcomes.differs(
                id,
                "requests in flight count by their number, not by the time that they have taken",
            ),
            _ => {
                self.outcomes.refuse(id, format!("`{option}` has no conversion"));
                return None;
            }
        }
        Some(line.keyword("least_time").keyword(measured).end())
    }

    /// Converts a server of an upstream.
    fn server(&mut self, id: StatementId) -> Option<(NativeLine, ServerFailures)> {
        let address = with_port(self.statements.word(id, 0), UpstreamScheme::Http.port());
        if let Err(message) = weir_config::endpoint_address(&address) {
            self.outcomes.refuse(id, message);
            return None;
        }
        let mut line = NativeLine::new("server", self.statements.span(id)).value(&address);
        let mut own = ServerFailures::usual();
        for word in self.statements.words(id).iter().skip(1) {
            let (key, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
            let number = value.parse::<u32>().ok();
            line = match (key, number) {
                ("backup" | "down" | "drain", _) if value.is_empty() => line.keyword(key),
                ("route", _) if !value.is_empty() => line.option("name", value),
                ("weight", Some(1..=65535)) => line.option("weight", value),
                ("max_conns", Some(0)) | ("resolve", _) => line,
                ("max_conns", Some(_)) => line.option("max_conn", value),
                ("slow_start", _) => match values::milliseconds(value) {
                    Some(0) => line,
                    Some(_) => line.option("slow_start", &values::time(value).unwrap_or_default()),
                    None => {
                        self.outcomes.refuse(id, format!("`{}` is not a time", word.text));
                        line
                    }
                },
                ("max_fails", Some(most)) => {
                    own.most = most;
                    line
                }
                ("fail_timeout", _) if values::milliseconds(value) == Some(0) => {
                    own.most = 0;
                    self.outcomes.differs(
                        id,
                        "no failure takes it out; nginx leaves it out for the rest of a second",
                    );
                    line
                }
                ("fail_timeout", _) if values::milliseconds(value).is_some_and(|time| time > 0) => {
                    own.within = values::time(value).unwrap_or_default();
                    line
                }
                _ => {
                    self.outcomes.refuse(id, format!("`{}` has no conversion", word.text));
                    line
                }
            };
        }
        match weir_config::endpoint_address(&address) {
            Ok(weir_config::model::EndpointAddress::Name(..)) => {
                self.outcomes.differs(id, "the name is resolved again and again, not only once");
            }
            _ => self.outcomes.honour(id),
        }
        Some((line, own))
    }

    /// Converts the idle connections of an upstream.
    fn keepalive(&mut self, upstream: StatementId) -> Directive {
        let scope = InheritanceScope::new(self.statements, upstream);
        let line = NativeLine::new("keepalive", self.statements.span(upstream));
        let of_stream =
            self.statements.parent(upstream).is_some_and(|id| self.statements.name(id) == "stream");
        let word = match self.single(&scope, "keepalive") {
            Some(id) => {
                let word = self.statements.word(id, 0);
                match word.parse::<u32>() {
                    Ok(0) => self.outcomes.honour(id),
                    Ok(_) => self.outcomes.differs(id, "that many idle connections for each server over all workers; nginx keeps them for each worker over all servers"),
                    Err(_) => self.outcomes.refuse(id, "write the number of idle connections"),
                }
                word
            }
            None if self.version.keeps_connections() && !of_stream => {
                self.default("keepalive (upstream without it)", "32 idle connections for each server over all workers; nginx keeps 32 for each worker, and lets each location use its own");
                "32"
            }
            None => "0",
        };
        if !word.parse::<u32>().is_ok_and(|idle| idle > 0) {
            return line.keyword("off").end();
        }
        self.default("keepalive (upstream)", "idle for 60s, 1000 requests, 1h, as in nginx");
        let timeout = self.time_or(&scope, "keepalive_timeout", "1m");
        let age = self.time_or(&scope, "keepalive_time", "1h");
        let requests = self.requests(&scope);
        line.option("idle", word)
            .option("timeout", &timeout)
            .option("max_requests", &requests)
            .option("max_age", &age)
            .end()
    }

    /// Returns `keepalive_requests`, of an upstream or of a server.
    pub(crate) fn requests(&mut self, scope: &InheritanceScope<'_, 't>) -> String {
        let usual = self.version.requests();
        let Some(id) = self.single(scope, "keepalive_requests") else {
            return usual.to_owned();
        };
        let word = self.statements.word(id, 0);
        if word.parse::<u32>().is_ok_and(|number| number > 0) {
            self.outcomes.honour(id);
            return word.to_owned();
        }
        self.outcomes.refuse(id, "write a number above 0");
        usual.to_owned()
    }

    /// Returns the pool for the servers of a `proxy_pass` with the settings of its location, or the
    /// reason why there is none.
    pub(crate) fn pool(
        &mut self,
        (scheme, host): (UpstreamScheme, &str),
        pass: StatementId,
        scope: &InheritanceScope<'_, 't>,
    ) -> Result<PassTarget, String> {
        let span = self.statements.span(pass);
        let address = with_port(host, scheme.port());
        let (servers, mut route_lines) = if let Some(upstream) = self.pools.upstreams.get_mut(host)
        {
            upstream.used = true;
            (upstream.servers, upstream.route_lines.clone())
        } else {
            weir_config::endpoint_address(&address)?;
            (1, Vec::new())
        };
        let retry = self.retry(scope, servers, span);
        let others = [self.timeouts(scope, span), self.buffer(scope, span)];
        let retry_line = retry.clone().end();
        let printed =
            [&retry_line, &others[0], &others[1]].map(|line| identity(slice::from_ref(line)));
        let failures = self.failures(scope);
        let tls = match scheme {
            UpstreamScheme::Https => Some(self.upstream_tls(host, scope, span)),
            UpstreamScheme::Http => {
                self.no_upstream_tls(scope);
                None
            }
        };
        // Routes cannot have these of their own.
        let version = self.upstream_version(scope, span);
        let connection: Vec<Directive> =
            self.source_address(scope).into_iter().chain(version).chain(tls).collect();
        let printed_connection = identity(&connection);
        let of_host = self.pools.made.get(host);
        if let Some(made) = of_host.and_then(|pools| pools.get(&printed_connection)) {
            let before = &made.settings;
            let lines = [retry_line].into_iter().chain(others).zip(printed.iter().zip(before));
            let own = lines.filter(|(_, (here, before))| here != before);
            route_lines.extend(own.map(|(line, _)| line));
            let target = PassTarget { pool: made.pool.clone(), route_lines };
            if made.failures != failures
                && let Some(id) = self.single(scope, "proxy_next_upstream")
            {
                self.outcomes.differs(id, "the statuses after which a server is left out are those of the first location that leads to it");
            }
            return Ok(target);
        }
        let mut lines = self.servers_of(host, &address, &failures, span);
        lines.push(NativeLine::new("stall", span).keyword("off").end());
        // Routes that retry more than this one have no budget either.
        lines.push(retry.option("budget", "off").end());
        lines.extend(others);
        lines.extend(connection);
        if self.pools.is_upstream(host) && self.pools.made.contains_key(host) {
            self.outcomes.differs(pass, "Weir has a pool for each version of HTTP, each setting of TLS and each `proxy_bind`: limits and failures of its servers are counted apart from those of other locations");
        }
        let pool = self.pools.free_name(host);
        let made = MadePool { pool: pool.clone(), settings: printed, failures };
        self.pools.made.entry(host.to_owned()).or_default().insert(printed_connection, made);
        self.pools.directives.push(NativeLine::new("pool", span).value(&pool).block(lines));
        Ok(PassTarget { pool, route_lines })
    }

    /// Returns the servers of a pool, with the policy and what concerns their connections.
    pub(crate) fn servers_of(
        &self,
        host: &str,
        address: &str,
        failures: &str,
        span: SourceSpan,
    ) -> Vec<Directive> {
        let Some(upstream) = self.pools.upstreams.get(host) else {
            return vec![
                NativeLine::new("server", span).value(address).end(),
                NativeLine::new("keepalive", span).keyword("off").end(),
                NativeLine::new("passive", span).keyword("off").end(),
            ];
        };
        let mut lines = upstream.lines.clone();
        let line = NativeLine::new("passive", span);
        lines.push(match &upstream.failures {
            Some(rule) => {
                rule.options(line).option("on", failures).option("max_ejected", "100%").end()
            }
            None => line.keyword("off").end(),
        });
        lines
    }

    /// Returns the failures after which a server is left out.
    fn failures(&mut self, scope: &InheritanceScope<'_, 't>) -> String {
        let mut failures = FAILURES.to_owned();
        let words = self.single(scope, "proxy_next_upstream").map(|id| self.statements.words(id));
        for word in words.unwrap_or_default() {
            if let Some(known) = FAILED_STATUSES.iter().find(|known| **known == word.text) {
                failures.push(',');
                failures.push_str(known.trim_start_matches("http_"));
            }
        }
        failures
    }

    /// Returns the settings of a location that pools have, as text.
    pub(crate) fn pass_settings(
        &mut self,
        scheme: UpstreamScheme,
        scope: &InheritanceScope<'_, 't>,
        span: SourceSpan,
    ) -> String {
        let retry = self.retry(scope, usize::MAX, span).end();
        let mut lines = vec![retry, self.timeouts(scope, span), self.buffer(scope, span)];
        lines.extend(self.source_address(scope));
        lines.extend(self.upstream_version(scope, span));
        if scheme == UpstreamScheme::Https {
            lines.push(self.upstream_tls("", scope, span));
        }
        identity(&lines)
    }

    fn timeouts(&mut self, scope: &InheritanceScope<'_, 't>, span: SourceSpan) -> Directive {
        let connect = self.time(scope, "proxy_connect_timeout", "1m");
        let send = self.time(scope, "proxy_send_timeout", "1m");
        let read = self.time(scope, "proxy_read_timeout", "1m");
        NativeLine::new("timeout", span)
            .option("connect", &connect)
            .option("send", &send)
            .option("response", &read)
            .option("read", &read)
            .option("tunnel", &read)
            .end()
    }

    /// Converts the retries: nginx tries each server once.
    fn retry(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        servers: usize,
        span: SourceSpan,
    ) -> NativeLine {
        let line = NativeLine::new("retry", span);
        let mut on: Vec<&str> = vec!["connect", "reset", "timeout"];
        let mut others = false;
        if let Some(id) = self.single(scope, "proxy_next_upstream") {
            self.outcomes.honour(id);
            on.clear();
            for word in self.statements.words(id) {
                match word.text.as_str() {
                    "error" => on.extend(["connect", "reset"]),
                    "timeout" => on.push("timeout"),
                    "invalid_header" => on.push("invalid"),
                    "non_idempotent" => others = true,
                    "off" => {}
                    text => match text.strip_prefix("http_") {
                        Some(code @ ("500" | "502" | "503" | "504" | "403" | "404" | "429")) => {
                            on.push(code);
                        }
                        _ => self.outcomes.refuse(id, format!("`{text}` has no conversion")),
                    },
                }
            }
        }
        let mut tries = servers;
        if let Some(id) = self.single(scope, "proxy_next_upstream_tries")
            && let Ok(most) = self.statements.word(id, 0).parse::<usize>()
        {
            self.outcomes.honour(id);
            tries = if most == 0 { tries } else { tries.min(most) };
        }
        let within = match self.single(scope, "proxy_next_upstream_timeout") {
            Some(id) => {
                let time = self.statements.word(id, 0);
                let time =
                    values::milliseconds(time).filter(|time| *time > 0).and(values::time(time));
                self.outcomes.honour(id);
                time
            }
            None => None,
        };
        if tries < 2 || on.is_empty() {
            return line.keyword("off");
        }
        let mut line = line.value(&(tries - 1).min(100).to_string()).option("on", &on.join(","));
        if let Some(within) = within {
            line = line.option("within", &within);
        }
        if others { line.keyword("non_idempotent") } else { line }
    }

    /// Converts the bound on request bodies, which nginx reads whole before it picks a server.
    fn buffer(&mut self, scope: &InheritanceScope<'_, 't>, span: SourceSpan) -> Directive {
        let line = NativeLine::new("buffer_request", span);
        let most = self.bytes(scope, "client_max_body_size", USUAL);
        // Messages of gRPC go on as they come.
        let usual = scope.protocol() == UpstreamProtocol::Http;
        let whole = self.switch(scope, "proxy_request_buffering", usual);
        if whole && (1..=MOST_BUFFERED).contains(&most) {
            return line.value(&values::size(most)).end();
        }
        if whole && let Some(id) = self.single(scope, "client_max_body_size") {
            let streams = "bodies stream to the server as they arrive, because they may be too large to be kept in memory; nginx reads them whole first";
            self.outcomes.differs(id, streams);
        }
        line.keyword("off").end()
    }

    /// Notes the upstreams that no location uses.
    pub(crate) fn unused_upstreams(&mut self) {
        for upstream in self.pools.upstreams.values() {
            if upstream.used {
                self.outcomes.honour(upstream.id);
            } else {
                self.outcomes.ignore(upstream.id, "no `proxy_pass` that is converted uses it");
            }
        }
    }
}

impl ConvertedPools<'_> {
    /// Returns true if there is an upstream of this name.
    pub(crate) fn is_upstream(&self, name: &str) -> bool {
        self.upstreams.contains_key(name)
    }

    /// Returns a name that no pool has, made of this text.
    pub(crate) fn free_name(&mut self, text: &str) -> String {
        let usable =
            |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
        let base = text.replace(|character| !usable(character), "-");
        // A name with a dot could be taken for an address that lacks a port.
        let base = if base.starts_with(|c: char| c.is_ascii_alphabetic()) {
            base
        } else {
            format!("proxy-{base}")
        };
        let mut name = base.clone();
        while !self.names.insert(name.clone()) {
            let number = self.numbers.entry(base.clone()).or_insert(1);
            *number += 1;
            name = format!("{base}-{number}");
        }
        name
    }
}

/// Returns the address of a server with nginx's default port.
pub(crate) fn with_port(address: &str, usual: u16) -> String {
    if let Some(path) = address.strip_prefix("unix:") {
        return format!("unix:{}", path.trim_end_matches(':'));
    }
    let after_brackets = address.rfind(']').map_or(address, |end| &address[end..]);
    if after_brackets.contains(':') { address.to_owned() } else { format!("{address}:{usual}") }
}
