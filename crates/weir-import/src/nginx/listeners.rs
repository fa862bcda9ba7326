//! Servers become listeners, one for each address, with a host block for each server.

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;

use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::body_bounds::common_bound;
use super::client_certificates::ClientDemand;
use super::logs::log_line;
use super::real_ip::OpeningHeader;
use super::route_parts::RoutePlace;
use super::scope::InheritanceScope;
use super::state::Converter;
use super::statements::StatementId;
use super::values;
use crate::native::{NativeLine, with_option};

/// The settings of a listener that nginx takes from the server of the request.
const SERVER_SETTINGS: [&str; 6] = [
    "client_body_timeout",
    "keepalive_timeout",
    "keepalive_requests",
    "keepalive_time",
    "send_timeout",
    "merge_slashes",
];

/// Those that hold before the server is known: nginx takes them from the default server.
const EARLY_SETTINGS: [&str; 9] = [
    "client_header_timeout",
    "large_client_header_buffers",
    "max_headers",
    "ignore_invalid_headers",
    "underscores_in_headers",
    "ssl_protocols",
    "ssl_ciphers",
    "ssl_ecdh_curve",
    "ssl_prefer_server_ciphers",
];

/// The number of headers where nginx has no bound of its own.
const UNBOUNDED_HEADERS: &str = "10000";

/// Those whose difference changes no response.
const HARMLESS_SETTINGS: [&str; 10] = [
    "client_body_timeout",
    "client_header_timeout",
    "keepalive_timeout",
    "keepalive_requests",
    "keepalive_time",
    "send_timeout",
    "ssl_protocols",
    "ssl_ciphers",
    "ssl_ecdh_curve",
    "ssl_prefer_server_ciphers",
];

const ONE_SETTING: &str =
    "Weir has one setting for an address, that of the default server: write it there, or in `http`";

/// The directives that pass on headers which nginx does not pass on otherwise.
const PASSED: [&str; 2] = ["proxy_pass_header", "grpc_pass_header"];

/// Headers of a server's response that nginx does not pass on.
const HIDDEN: [&str; 7] = [
    "Server",
    "X-Pad",
    "X-Accel-Expires",
    "X-Accel-Redirect",
    "X-Accel-Limit-Rate",
    "X-Accel-Buffering",
    "X-Accel-Charset",
];

/// An address, in nginx's meaning: `*:80` is IPv4 only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ListenKey {
    Socket(SocketAddr),
    Unix(String),
}

/// The options of a `listen` that belong to the socket: nginx takes them from one `listen` of an
/// address.
const SOCKET_OPTIONS: [&str; 11] = [
    "accept_filter",
    "backlog",
    "bind",
    "deferred",
    "fastopen",
    "ipv6only",
    "rcvbuf",
    "reuseport",
    "setfib",
    "sndbuf",
    "so_keepalive",
];

/// The servers of one address.
#[derive(Clone, Default)]
struct AddressServers {
    /// The servers in the order of the file, with their `listen`.
    servers: Vec<(StatementId, StatementId)>,
    /// The first server with `default_server`.
    default: Option<StatementId>,
    /// A `listen` with options of the socket.
    socket: Option<StatementId>,
    tls: bool,
    /// A `listen` of the address with `http2`.
    http2: Option<StatementId>,
    reuseport: bool,
    proxy_header: OpeningHeader,
    /// Set if IPv4 and IPv6 clients connect to the address.
    dual: bool,
}

impl AddressServers {
    /// Returns the reason why nginx does not start with a further `listen` of the address.
    fn conflict(&self, server: StatementId, further: &Self) -> Option<&'static str> {
        if self.servers.iter().any(|(known, _)| *known == server) {
            return Some("nginx reports a duplicate listen: write an address once in a server");
        }
        if self.socket.is_some() && further.socket.is_some() {
            return Some(
                "nginx reports duplicate listen options: write those of the socket at one `listen` of the address",
            );
        }
        if self.default.is_some() && further.default.is_some() {
            return Some(
                "nginx reports a duplicate default server: write `default_server` at one `listen` of the address",
            );
        }
        None
    }
}

impl<'t> Converter<'_, 't> {
    /// Returns the listeners of the servers of `http`.
    pub(crate) fn listeners(
        &mut self,
        http: &InheritanceScope<'_, 't>,
        servers: &[StatementId],
    ) -> Vec<Directive> {
        let mut addresses: BTreeMap<ListenKey, AddressServers> = BTreeMap::new();
        let mut order: Vec<ListenKey> = Vec::new();
        for &server in servers {
            self.outcomes.honour(server);
            let listens = self.statements.named(Some(server), "listen");
            if listens.is_empty() {
                let any = ListenKey::Socket(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 80)));
                self.default("listen", "*:80, as in nginx");
                order.push(any.clone());
                addresses.entry(any).or_default().servers.push((server, server));
            }
            let has_tls = self.ssl_of_server(&http.inner(server));
            for listen in listens {
                if let Some(key) = self.listen(server, *listen, &mut addresses) {
                    if let Some(group) = addresses.get_mut(&key).filter(|_| has_tls) {
                        group.tls = true;
                    }
                    order.push(key);
                }
            }
        }
        self.both_families(&mut addresses);
        self.conflicts(&mut addresses);
        let mut listeners = Vec::new();
        for key in order {
            if let Some(group) = addresses.remove(&key) {
                listeners.push(self.listener(http, &key, &group));
            }
        }
        listeners
    }

    /// Returns true if `ssl on` gives every `listen` of a server TLS.
    fn ssl_of_server(&mut self, scope: &InheritanceScope<'_, 't>) -> bool {
        let Some(id) = self.single(scope, "ssl") else { return false };
        if !self.version.has_ssl_directive() {
            self.outcomes.refuse(id, "nginx has removed it in 1.25.1: write `listen … ssl`");
            return false;
        }
        self.switch(scope, "ssl", false)
    }

    /// Adds a server to the address of its `listen`.
    fn listen(
        &mut self,
        server: StatementId,
        id: StatementId,
        addresses: &mut BTreeMap<ListenKey, AddressServers>,
    ) -> Option<ListenKey> {
        let Some(key) = listen_key(self.statements.word(id, 0)) else {
            self.outcomes.refuse(id, "write a port, an IP address with a port, or `unix:/path`");
            return None;
        };
        self.outcomes.honour(id);
        if self.statements.word(id, 0).starts_with("localhost") {
            self.outcomes.differs(
                id,
                "`localhost` is 127.0.0.1 alone, where nginx takes each address of the name",
            );
        }
        let mut group = AddressServers::default();
        for word in self.statements.words(id).iter().skip(1) {
            let name = word.text.split('=').next().unwrap_or_default();
            if SOCKET_OPTIONS.contains(&name) {
                group.socket = Some(id);
            }
            match word.text.as_str() {
                "default_server" | "default" => group.default = Some(server),
                "ssl" => group.tls = true,
                "ipv6only=off" => group.dual = true,
                "ipv6only=on" | "bind" => {}
                "http2" => group.http2 = Some(id),
                "spdy" | "quic" => {
                    self.outcomes
                        .differs(id, "Weir offers HTTP/2 and HTTP/1.1; clients fall back to them");
                }
                "reuseport" => group.reuseport = true,
                "proxy_protocol" => group.proxy_header = OpeningHeader::Expected,
                _ if SOCKET_OPTIONS.contains(&name) => {
                    self.outcomes
                        .differs(id, format!("`{}` is not set; Weir has its own", word.text));
                }
                _ => self.outcomes.refuse(id, format!("`{}` has no conversion", word.text)),
            }
        }
        let known = addresses.entry(key.clone()).or_default();
        if let Some(conflict) = known.conflict(server, &group) {
            self.outcomes.refuse(id, conflict);
            return None;
        }
        known.socket = known.socket.or(group.socket);
        known.tls |= group.tls;
        known.reuseport |= group.reuseport;
        known.http2 = known.http2.or(group.http2);
        if group.proxy_header == OpeningHeader::Expected {
            known.proxy_header = OpeningHeader::Expected;
        }
        known.dual |= group.dual;
        known.default = known.default.or(group.default);
        known.servers.push((server, id));
        Some(key)
    }

    /// Joins `*:80` and `[::]:80` if they have the same servers: Weir's socket for `[::]` accepts
    /// IPv4 too.
    fn both_families(&mut self, addresses: &mut BTreeMap<ListenKey, AddressServers>) {
        let wildcards: Vec<ListenKey> =
            addresses.keys().filter(|key| is_any(key, true)).cloned().collect();
        for key in wildcards {
            let ListenKey::Socket(address) = &key else { continue };
            let four = ListenKey::Socket(SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())));
            let Some(group) = addresses.get(&key).cloned() else { continue };
            let servers = |group: &AddressServers| -> Vec<StatementId> {
                group.servers.iter().map(|(server, _)| *server).collect()
            };
            match addresses.get_mut(&four) {
                Some(other)
                    if servers(other) == servers(&group)
                        && other.default == group.default
                        && other.tls == group.tls
                        && other.proxy_header == group.proxy_header =>
                {
                    other.dual = true;
                    other.reuseport |= group.reuseport;
                    other.http2 = other.http2.or(group.http2);
                    addresses.remove(&key);
                }
                Some(other) => {
                    self.join_families(other, &group);
                    addresses.remove(&key);
                }
                None if !group.dual => {
                    for (_, listen) in &group.servers {
                        self.outcomes.differs(*listen, "IPv4 clients are accepted too");
                    }
                }
                None => {}
            }
        }
    }

    /// Adds the servers of `[::]` to those of `*` of the same port, which are others.
    fn join_families(&mut self, four: &mut AddressServers, six: &AddressServers) {
        let other_default =
            four.default.is_some() && six.default.is_some() && four.default != six.default;
        if other_default || four.tls != six.tls || four.proxy_header != six.proxy_header {
            for (_, listen) in &six.servers {
                self.outcomes.refuse(*listen, "Weir has one socket for `*` and `[::]` of a port: give both the same default server, and `ssl` and `proxy_protocol` both or neither");
            }
            return;
        }
        for (_, listen) in four.servers.iter().chain(&six.servers) {
            let alone = |group: &AddressServers, server: StatementId| {
                !group.servers.iter().any(|(other, _)| *other == server)
            };
            let server = self.statements.parent(*listen).unwrap_or(*listen);
            if alone(four, server) || alone(six, server) {
                self.outcomes.differs(
                    *listen,
                    "Weir has one socket for IPv4 and IPv6: the server answers the clients of both",
                );
            }
        }
        let first = |group: &AddressServers| group.servers.first().map(|(server, _)| *server);
        // The default server of IPv4 where none is named.
        four.default = four.default.or(six.default).or(first(four));
        for added in &six.servers {
            if !four.servers.iter().any(|(server, _)| *server == added.0) {
                four.servers.push(*added);
            }
        }
        four.servers.sort_unstable_by_key(|(server, _)| *server);
        four.dual = true;
        four.reuseport |= six.reuseport;
        four.http2 = four.http2.or(six.http2);
    }

    /// Refuses addresses beside a wildcard of the same port.
    fn conflicts(&mut self, addresses: &mut BTreeMap<ListenKey, AddressServers>) {
        let ports: HashSet<u16> = addresses
            .keys()
            .filter(|key| is_any(key, false) || is_any(key, true))
            .filter_map(port)
            .collect();
        addresses.retain(|key, group| {
            let any = is_any(key, false) || is_any(key, true);
            let kept = any || port(key).is_none_or(|port| !ports.contains(&port));
            for (_, listen) in group.servers.iter().filter(|_| !kept) {
                self.outcomes.refuse(
                    *listen,
                    "Weir cannot listen on one address and on all of the same port",
                );
            }
            kept
        });
    }

    fn listener(
        &mut self,
        http: &InheritanceScope<'_, 't>,
        key: &ListenKey,
        group: &AddressServers,
    ) -> Directive {
        let first = group.servers.first().map(|(server, listen)| (*server, *listen));
        let default = group.default.or(first.map(|(server, _)| server));
        let span = first.map_or_else(
            || SourceSpan { start: 0, end: 0, ..self.statements.span(self.statements.top()[0]) },
            |(_, listen)| self.statements.span(listen),
        );
        let address = match key {
            ListenKey::Socket(address) if group.dual && address.ip().is_unspecified() => {
                format!(":{}", address.port())
            }
            ListenKey::Socket(address) => address.to_string(),
            ListenKey::Unix(path) => format!("unix:{path}"),
        };
        let mut head = NativeLine::new("listen", span).value(&address);
        if group.tls {
            head = head.keyword("tls");
        }
        if group.reuseport && matches!(key, ListenKey::Socket(_)) {
            head = head.keyword("reuseport");
        }
        if matches!(key, ListenKey::Unix(_)) {
            head = head.option("mode", "0666");
        }
        self.listener_logs =
            default.map(|default| self.access_logs(&http.inner(default))).unwrap_or_default();
        let (mut hosts, mut routes) = self.hosts(http, key, group, default);
        let mut block = match default {
            Some(default) => {
                let body = common_bound(&mut routes, &mut hosts);
                self.settings(http, default, &body, group, span)
            }
            None => Vec::new(),
        };
        block.append(&mut hosts);
        block.append(&mut routes);
        head.block(block)
    }

    /// Returns the host blocks of an address in nginx's order of precedence, and the routes of its
    /// default server.
    fn hosts(
        &mut self,
        http: &InheritanceScope<'_, 't>,
        key: &ListenKey,
        group: &AddressServers,
        default: Option<StatementId>,
    ) -> (Vec<Directive>, Vec<Directive>) {
        self.client_authority = None;
        let mut routes = Vec::new();
        let mut exact = Vec::new();
        let mut patterns: [Vec<(String, Directive)>; 3] = Default::default();
        let mut claimed = HashSet::new();
        for (server, _) in &group.servers {
            let scope = http.inner(*server);
            let names = self.unclaimed_names(*server, &mut claimed);
            let place = RoutePlace { port: port(key), tls: group.tls, server_name: &names.first };
            self.server_logs = self.access_logs(&scope);
            let own = self.routes(*server, &scope, place);
            let demand = if group.tls { self.client_demand(&scope) } else { ClientDemand::Off };
            let mut own = if demand == ClientDemand::Closed { self.closed(*server) } else { own };
            let mut first = self.client_checks(demand, *server, &scope, place);
            if group.tls {
                first.splice(0..0, self.plain_requests(*server, &scope, place));
            }
            own.splice(0..0, first);
            if self.server_logs != self.listener_logs {
                Self::give_logs(&self.server_logs, &mut own);
            }
            let blocks = names.blocks();
            if !self.room_for(*server, own.len().saturating_mul(blocks) + names.exact.len())
                || !self.room_for_copies(*server, &own, blocks - 1)
            {
                continue;
            }
            let span = self.statements.span(*server);
            let block = |hosts: &[String]| {
                let line = NativeLine::new("host", span);
                hosts.iter().fold(line, |line, name| line.value(name)).block(own.clone())
            };
            if group.servers.len() > 1 {
                if !names.exact.is_empty() {
                    exact.push(block(&names.exact));
                }
                let kinds = [&names.leading, &names.trailing, &names.regexes];
                for (list, kind) in patterns.iter_mut().zip(kinds) {
                    let one = |name: &String| (name.clone(), block(std::slice::from_ref(name)));
                    list.extend(kind.iter().map(one));
                }
            }
            if Some(*server) == default {
                routes = own;
            }
        }
        for list in patterns.iter_mut().take(2) {
            list.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        }
        exact.extend(patterns.into_iter().flatten().map(|(_, host)| host));
        (exact, routes)
    }

    /// Returns the lines of the listener: the settings of the default server.
    fn settings(
        &mut self,
        http: &InheritanceScope<'_, 't>,
        default: StatementId,
        body: &str,
        group: &AddressServers,
        span: SourceSpan,
    ) -> Vec<Directive> {
        let scope = http.inner(default);
        let mut lines = vec![self.client_timeouts(&scope, span), self.limits(&scope, body, span)];
        let path = NativeLine::new("path", span).option("normalize", "off");
        let path = if self.switch(&scope, "merge_slashes", true) {
            path
        } else {
            path.option("merge_slashes", "off")
        };
        lines.push(path.option("invalid", "refuse").end());
        lines.push(self.header_names(&scope, span));
        let forwarded = NativeLine::new("forwarded", span).option("x_forwarded", "off");
        lines.push(forwarded.option("received", "keep").end());
        lines.push(NativeLine::new("request_id", span).keyword("off").end());
        lines.push(NativeLine::new("upgrade", span).keyword("off").end());
        let passed = self.passed_headers();
        for name in HIDDEN.iter().filter(|name| !passed.contains(name)) {
            let line = NativeLine::new("response_header", span).keyword("remove");
            lines.push(line.value(name).end());
        }
        self.fixed_defaults();
        let expected = self.proxy_header(&scope, group);
        lines.extend(self.trusted_proxies(&scope, span, expected));
        if !self.listener_logs.is_empty() {
            lines.push(log_line(&self.listener_logs, span));
        }
        lines.extend(self.http2(http, &scope, group, span));
        if group.tls {
            lines.extend(self.certificates(http, default, group));
            lines.extend(self.client_authority.take().map(|authority| authority.line));
            let tls = self.protocols(&scope, span);
            lines.extend(if self.rejects_names(http, default, group) {
                let tls = tls.unwrap_or_else(|| NativeLine::new("tls", span).end());
                Some(with_option(tls, "names", "host"))
            } else {
                tls
            });
        }
        for (server, _) in group.servers.iter().filter(|(server, _)| *server != default) {
            self.other_server(http, *server, &scope, expected);
        }
        lines
    }

    /// Returns the line about HTTP/2, if nginx does not do what Weir does by default.
    fn http2(
        &mut self,
        http: &InheritanceScope<'_, 't>,
        default: &InheritanceScope<'_, 't>,
        group: &AddressServers,
        span: SourceSpan,
    ) -> Option<Directive> {
        let mut is_on = group.http2.is_some();
        for (server, _) in &group.servers {
            is_on |= self.switch(&http.inner(*server), "http2", false);
        }
        let streams = self.single(default, "http2_max_concurrent_streams");
        let word = match (is_on, group.tls) {
            (true, _) => "on",
            (false, true) => "off",
            (false, false) => return None,
        };
        let mut line = NativeLine::new("http2", span).keyword(word);
        if let Some(id) = streams {
            match self.statements.word(id, 0) {
                number if matches!(number.parse(), Ok(1..=1000_u32)) => {
                    self.outcomes.honour(id);
                    line = line.option_at("streams", number, self.statements.span(id));
                }
                _ => self.outcomes.refuse(id, "write a number from 1 to 1000"),
            }
        }
        Some(line.end())
    }

    /// Notes the differences that no directive removes.
    fn fixed_defaults(&mut self) {
        self.default("proxy_set_header X-Forwarded-For", "nginx passes `X-Forwarded-*` and `X-Real-IP` of clients on; Weir drops them unless they are set here");
        self.default("server_tokens", "nginx sends `Server: nginx`; Weir sends no `Server`");
        self.default(
            "X-Accel-Redirect",
            "followed in servers with an `internal` location if it has a value; elsewhere Weir removes it and sends the response on. Other `X-Accel-…` of servers are removed and have no effect",
        );
        self.default("error_page", "the pages of error responses are Weir's own");
    }

    /// Returns whether connections to an address begin with a header of the PROXY protocol, which
    /// Weir takes the client's address from.
    fn proxy_header(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        group: &AddressServers,
    ) -> OpeningHeader {
        if group.proxy_header == OpeningHeader::None {
            return OpeningHeader::None;
        }
        let header = scope.all("real_ip_header").first();
        let is_taken = header.is_some_and(|id| self.statements.word(*id, 0) == "proxy_protocol");
        if !is_taken || scope.all("set_real_ip_from").is_empty() {
            for (_, listen) in &group.servers {
                self.outcomes.refuse(*listen, "with `proxy_protocol` Weir takes the client's address from the header: write `set_real_ip_from` for the load balancers that send it, and `real_ip_header proxy_protocol`");
            }
        }
        OpeningHeader::Expected
    }

    /// Returns the usually hidden headers that a `proxy_pass_header` of the file names.
    fn passed_headers(&mut self) -> Rc<[&'static str]> {
        let statements = self.statements;
        let made = self.passed_headers.get_or_insert_with(|| {
            let all = statements.all().filter(|id| PASSED.contains(&statements.name(*id)));
            let named: HashSet<String> =
                all.map(|id| statements.word(id, 0).to_ascii_lowercase()).collect();
            HIDDEN.into_iter().filter(|name| named.contains(&name.to_ascii_lowercase())).collect()
        });
        Rc::clone(made)
    }

    /// Returns the removals of headers that other locations pass on and this one does not.
    pub(crate) fn usually_hidden(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        span: SourceSpan,
    ) -> Vec<Directive> {
        let elsewhere = self.passed_headers();
        let mut here = Vec::new();
        for &id in self.lines_of(scope, "proxy_pass_header") {
            let name = self.statements.word(id, 0);
            if name.eq_ignore_ascii_case("date") {
                self.outcomes.differs(id, "responses have a `Date` of Weir's own");
            } else {
                self.outcomes.honour(id);
            }
            here.push(name);
        }
        let line = |name: &&str| {
            NativeLine::new("response_header", span).keyword("remove").value(name).end()
        };
        elsewhere.iter().filter(|name| !is_named(&here, name)).map(line).collect()
    }

    /// Returns which headers of requests are removed for their names.
    fn header_names(&mut self, scope: &InheritanceScope<'_, 't>, span: SourceSpan) -> Directive {
        let removes = self.switch(scope, "ignore_invalid_headers", true);
        let underscores = self.switch(scope, "underscores_in_headers", false);
        if scope.all("underscores_in_headers").is_empty() && removes {
            self.default(
                "underscores_in_headers",
                "off, as in nginx: headers with `_` in the name are removed",
            );
        }
        let treatment = |kept: bool| if kept { "keep" } else { "remove" };
        NativeLine::new("header_names", span)
            .option("underscores", treatment(underscores || !removes))
            .option("unusual", treatment(!removes))
            .end()
    }

    fn client_timeouts(&mut self, scope: &InheritanceScope<'_, 't>, span: SourceSpan) -> Directive {
        let head = self.time(scope, "client_header_timeout", "1m");
        let body = self.time(scope, "client_body_timeout", "1m");
        let send = self.time(scope, "send_timeout", "1m");
        let age = if self.version.has_longest_age() || !scope.all("keepalive_time").is_empty() {
            self.time(scope, "keepalive_time", "1h")
        } else {
            "off".to_owned()
        };
        let mut line = NativeLine::new("timeout", span)
            .option("handshake", &head)
            .option("head", &head)
            .option("body", &body)
            .option("send", &send)
            .option("age", &age)
            .option("slot_min_rate", "off");
        match self.single(scope, "keepalive_timeout") {
            None => {
                self.default("keepalive_timeout", "75s, as in nginx");
                line = line.option("keepalive", "75s");
            }
            Some(id) => match values::milliseconds(self.statements.word(id, 0)) {
                Some(0) => self.outcomes.honour(id),
                Some(_) => {
                    if self.statements.words(id).len() == 1 {
                        self.outcomes.honour(id);
                    } else {
                        self.outcomes.differs(id, "Weir sends no `Keep-Alive` header");
                    }
                    let time = values::time(self.statements.word(id, 0)).unwrap_or_default();
                    line = line.option("keepalive", &time);
                }
                None => self.outcomes.refuse(id, "this is not a time of nginx"),
            },
        }
        line.end()
    }

    fn limits(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        body: &str,
        span: SourceSpan,
    ) -> Directive {
        let (mut number, mut size) = (4, 8 << 10);
        if let Some(id) = self.single(scope, "large_client_header_buffers") {
            let words = (self.statements.word(id, 0), self.statements.word(id, 1));
            match (words.0.parse::<u64>(), values::bytes(words.1)) {
                (Ok(count @ 1..=1024), Some(bytes @ 256..=65_536)) => {
                    (number, size) = (count, bytes);
                    self.outcomes.differs(id, "the buffers together bound a head, and one of them its first line; longer heads get 431");
                }
                _ => self.outcomes.refuse(id, "Weir takes 1 to 1024 buffers of 256 bytes to 64k"),
            }
        } else {
            self.default("large_client_header_buffers", "heads up to 32k and first lines up to 8k, as in nginx; longer heads get 431, not 400");
        }
        let closes = self
            .single(scope, "keepalive_timeout")
            .is_some_and(|id| values::milliseconds(self.statements.word(id, 0)) == Some(0));
        let requests = self.requests(scope);
        let headers = self.header_count(scope);
        NativeLine::new("limits", span)
            .option("head", &values::size((number * size).clamp(256, 16 << 20)))
            .option("request_line", &values::size(size))
            .option("headers", &headers)
            .option("body", body)
            .option("requests", if closes { "1" } else { &requests })
            .option("hops", "off")
            .end()
    }

    /// Returns the most headers of a request.
    fn header_count(&mut self, scope: &InheritanceScope<'_, 't>) -> String {
        let usual = self.version.headers();
        let Some(id) = self.single(scope, "max_headers") else {
            if let Some(number) = usual {
                self.default(
                    "max_headers",
                    &format!("{number}, as in nginx; more get 431, not 400"),
                );
            }
            return usual.unwrap_or(UNBOUNDED_HEADERS).to_owned();
        };
        let word = self.statements.word(id, 0);
        if word.parse::<u32>().is_ok_and(|number| (1..=10_000).contains(&number)) {
            self.outcomes.differs(id, "requests with more headers get 431, not 400");
            return word.to_owned();
        }
        self.outcomes.refuse(id, "write a number from 1 to 10000");
        UNBOUNDED_HEADERS.to_owned()
    }

    /// Returns the certificates of all servers of an address, those of the default server first.
    fn certificates(
        &mut self,
        http: &InheritanceScope<'_, 't>,
        default: StatementId,
        group: &AddressServers,
    ) -> Vec<Directive> {
        let mut lines: Vec<Directive> = Vec::new();
        let (mut known, mut lists) = (HashSet::new(), HashSet::new());
        let others = group.servers.iter().map(|(server, _)| *server).filter(|id| *id != default);
        for server in std::iter::once(default).chain(others) {
            let scope = http.inner(server);
            let (chains, keys) = (scope.all("ssl_certificate"), scope.all("ssl_certificate_key"));
            // Servers that inherit the same ones have nothing new.
            if !lists.insert((chains.first(), keys.first())) {
                continue;
            }
            for (at, chain) in chains.iter().enumerate() {
                let file = self.statements.word(*chain, 0);
                let Some(key) = keys.get(at) else {
                    self.outcomes.refuse(*chain, "it has no `ssl_certificate_key`");
                    continue;
                };
                let key_file = self.statements.word(*key, 0);
                if file.contains('$') || key_file.contains('$') || key_file.contains(':') {
                    self.outcomes.refuse(*chain, "write the name of a file");
                    continue;
                }
                self.outcomes.honour(*chain);
                self.outcomes.honour(*key);
                let line = NativeLine::new("certificate", self.statements.span(*chain));
                let line = line.value(&self.path(file));
                let line =
                    line.option_at("key", &self.path(key_file), self.statements.span(*key)).end();
                if known.insert((file, key_file)) {
                    lines.push(line);
                }
            }
        }
        if group.servers.len() > 1 {
            self.default(
                "ssl_certificate",
                "the certificate with the requested name is sent, whichever server has it",
            );
        }
        lines
    }

    /// Returns true if clients get a handshake for the names of servers only.
    fn rejects_names(
        &mut self,
        http: &InheritanceScope<'_, 't>,
        default: StatementId,
        group: &AddressServers,
    ) -> bool {
        let mut rejects = false;
        for (server, _) in &group.servers {
            let scope = http.inner(*server);
            if !self.switch(&scope, "ssl_reject_handshake", false) {
                continue;
            }
            let Some(id) = self.single(&scope, "ssl_reject_handshake") else { continue };
            let names = self.host_names(*server);
            let is_named = names.exact.iter().any(|name| name.contains('.'))
                || names.leading.len() + names.trailing.len() + names.regexes.len() > 0;
            let has_certificate = group
                .servers
                .iter()
                .any(|(server, _)| !http.inner(*server).all("ssl_certificate").is_empty());
            if *server != default || is_named {
                self.outcomes.refuse(id, "write it in the default server of the address, without names: handshakes are rejected for names that no server has");
            } else if !has_certificate {
                self.outcomes.refuse(id, "no server of the address has a certificate, so that no handshake succeeds: leave the `listen` out");
            } else {
                rejects = true;
            }
        }
        rejects
    }

    /// Compares the settings of another server of an address with those of the default server.
    fn other_server(
        &mut self,
        http: &InheritanceScope<'_, 't>,
        server: StatementId,
        default: &InheritanceScope<'_, 't>,
        expected: OpeningHeader,
    ) {
        let scope = http.inner(server);
        let statements = self.statements;
        let words = |id: StatementId| statements.words(id).iter().map(|word| &word.text);
        for name in SERVER_SETTINGS.into_iter().chain(EARLY_SETTINGS) {
            let [ours, theirs] = [&scope, default].map(|scope| scope.all(name).first().copied());
            let same = match (ours, theirs) {
                (Some(ours), Some(theirs)) => words(ours).eq(words(theirs)),
                (None, None) => true,
                _ => false,
            };
            if same {
                if let Some(id) = ours {
                    self.outcomes.honour(id);
                }
                continue;
            }
            let of_default = scope.own(name).is_empty() && SERVER_SETTINGS.contains(&name);
            for &id in if of_default { default.own(name) } else { scope.own(name) } {
                if HARMLESS_SETTINGS.contains(&name) {
                    self.outcomes.differs(id, ONE_SETTING);
                } else {
                    self.outcomes.refuse(id, ONE_SETTING);
                }
            }
        }
        self.same_trusted_proxies(&scope, default, self.statements.span(server), expected);
    }
}

/// Returns true if the name is one of these, whatever the case of its letters.
fn is_named(names: &[&str], name: &str) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Reads the address of a `listen`. The name of the machine itself is its address for IPv4.
pub(crate) fn listen_key(text: &str) -> Option<ListenKey> {
    if let Some(port) = text.strip_prefix("localhost") {
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().ok()?,
            None if port.is_empty() => 80,
            None => return None,
        };
        return Some(ListenKey::Socket(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
    }
    if let Some(path) = text.strip_prefix("unix:") {
        return path.starts_with('/').then(|| ListenKey::Unix(path.to_owned()));
    }
    let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let address = if let Ok(port) = text.parse::<u16>() {
        SocketAddr::new(any, port)
    } else if let Some(port) = text.strip_prefix("*:") {
        SocketAddr::new(any, port.parse().ok()?)
    } else if let Ok(address) = text.parse::<SocketAddr>() {
        address
    } else if let Some(name) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        SocketAddr::new(IpAddr::V6(name.parse::<Ipv6Addr>().ok()?), 80)
    } else {
        SocketAddr::new(if text == "*" { any } else { text.parse().ok()? }, 80)
    };
    Some(ListenKey::Socket(address))
}

/// Returns true for the wildcard of IPv4, or of IPv6.
fn is_any(key: &ListenKey, six: bool) -> bool {
    matches!(key, ListenKey::Socket(address) if address.ip().is_unspecified() && address.is_ipv6() == six)
}

fn port(key: &ListenKey) -> Option<u16> {
    match key {
        ListenKey::Socket(address) => Some(address.port()),
        ListenKey::Unix(_) => None,
    }
}
