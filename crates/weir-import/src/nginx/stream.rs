//! `stream` becomes listeners that pass on bytes: one for each `server`, with the pool of its
//! `proxy_pass`, or with one for each name of a `map` of `$ssl_preread_server_name`.

use weir_config::pattern::HostPattern;
use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::listeners::ListenKey;
use super::pools::with_port;
use super::scope::InheritanceScope;
use super::state::Converter;
use super::statements::StatementId;
use super::values;
use crate::native::NativeLine;

/// The `listen` lines of a server together.
#[derive(Default)]
struct Listens {
    addresses: Vec<(String, SourceSpan)>,
    tls: bool,
    proxy_header: bool,
}

impl<'t> Converter<'_, 't> {
    /// Converts a `stream`.
    pub(crate) fn stream(&mut self, stream: StatementId) -> Vec<Directive> {
        self.outcomes.honour(stream);
        let scope = InheritanceScope::new(self.statements, stream);
        for &id in scope.own("log_format") {
            self.log_format(id);
        }
        for &id in scope.own("upstream") {
            self.upstream(id);
        }
        let servers = scope.own("server");
        servers.iter().filter_map(|server| self.stream_server(&scope, *server)).collect()
    }

    fn stream_server(
        &mut self,
        stream: &InheritanceScope<'_, 't>,
        server: StatementId,
    ) -> Option<Directive> {
        self.outcomes.honour(server);
        let scope = stream.inner(server);
        let listens = self.stream_listens(server);
        let span = listens.addresses.first()?.1;
        let wait = if listens.tls {
            self.time(&scope, "ssl_handshake_timeout", "1m")
        } else {
            self.time(&scope, "preread_timeout", "30s")
        };
        let mut lines = vec![NativeLine::new("timeout", span).option("handshake", &wait).end()];
        if listens.proxy_header {
            lines.push(NativeLine::new("proxy_protocol", span).keyword("all").end());
        }
        if listens.tls {
            lines.extend(self.stream_certificates(&scope));
            lines.extend(self.protocols(&scope, span));
        }
        lines.extend(self.access(&scope, false));
        let logs = self.access_logs(&scope);
        if !logs.is_empty() {
            let line = NativeLine::new("log", span);
            lines.push(logs.iter().fold(line, |line, name| line.value(name)).end());
        }
        lines.extend(self.stream_targets(stream, &scope, server)?);
        let mut head = NativeLine::new("listen", span).keyword("tcp");
        for (address, place) in &listens.addresses {
            head = head.value_at(address, *place);
        }
        if listens.tls {
            head = head.keyword("tls");
        }
        Some(head.block(lines))
    }

    /// Reads the `listen` lines of a server.
    fn stream_listens(&mut self, server: StatementId) -> Listens {
        let mut listens = Listens::default();
        for &id in self.statements.named(Some(server), "listen") {
            let word = self.statements.word(id, 0);
            let Some(key) = super::listeners::listen_key(word) else {
                self.outcomes
                    .refuse(id, "write a port, an IP address with a port, or `unix:/path`");
                continue;
            };
            self.outcomes.honour(id);
            let mut usable = true;
            for word in self.statements.words(id).iter().skip(1) {
                let name = word.text.split('=').next().unwrap_or_default();
                match word.text.as_str() {
                    "ssl" => listens.tls = true,
                    "proxy_protocol" => listens.proxy_header = true,
                    "udp" => {
                        self.outcomes.refuse(id, "Weir has no UDP proxy");
                        usable = false;
                    }
                    "bind" | "ipv6only=on" => {}
                    "reuseport" => self.outcomes.differs(
                        id,
                        "one socket; each connection goes to the worker with the fewest",
                    ),
                    _ if matches!(
                        name,
                        "backlog" | "rcvbuf" | "sndbuf" | "fastopen" | "so_keepalive"
                    ) =>
                    {
                        let how = format!("`{}` is not set; Weir has its own", word.text);
                        self.outcomes.differs(id, how);
                    }
                    _ => {
                        let reason = format!("`{}` has no conversion", word.text);
                        self.outcomes.refuse(id, reason);
                    }
                }
            }
            if usable {
                let text = match key {
                    ListenKey::Socket(address) => address.to_string(),
                    ListenKey::Unix(path) => format!("unix:{path}"),
                };
                // A socket for both families accepts IPv4 clients too.
                if let Some(other) = other_family(&text, &listens.addresses) {
                    listens.addresses[other].0 = format!(":{}", port_of(&text));
                } else {
                    listens.addresses.push((text, self.statements.span(id)));
                }
            }
        }
        listens
    }

    fn stream_certificates(&mut self, scope: &InheritanceScope<'_, 't>) -> Vec<Directive> {
        let (chains, keys) = (scope.all("ssl_certificate"), scope.all("ssl_certificate_key"));
        let mut lines = Vec::new();
        for (chain, key) in chains.iter().zip(keys) {
            self.outcomes.honour(*chain);
            self.outcomes.honour(*key);
            let files = [*chain, *key].map(|id| self.path(self.statements.word(id, 0)));
            let line = NativeLine::new("certificate", self.statements.span(*chain));
            let place = self.statements.span(*key);
            lines.push(line.value(&files[0]).option_at("key", &files[1], place).end());
        }
        lines
    }

    /// Returns the targets of a server; `None` if it has none.
    fn stream_targets(
        &mut self,
        stream: &InheritanceScope<'_, 't>,
        scope: &InheritanceScope<'_, 't>,
        server: StatementId,
    ) -> Option<Vec<Directive>> {
        let Some(&pass) = self.statements.named(Some(server), "proxy_pass").first() else {
            self.outcomes.refuse(server, "it has no `proxy_pass`");
            return None;
        };
        let preread = self.switch(scope, "ssl_preread", false);
        let target = self.statements.word(pass, 0);
        let Some(variable) = target.strip_prefix('$') else {
            let pool = self.stream_pool(target, pass, scope)?;
            self.outcomes.honour(pass);
            let line = NativeLine::new("default", self.statements.span(pass)).keyword("->");
            return Some(vec![line.value(&pool).end()]);
        };
        let is_it = |map: &&StatementId| {
            self.statements.word(**map, 1).strip_prefix('$') == Some(variable)
                && self.statements.word(**map, 0) == "$ssl_preread_server_name"
        };
        let Some(&map) = stream.own("map").iter().find(is_it).filter(|_| preread) else {
            self.outcomes.refuse(pass, "of targets with variables, only that of a `map $ssl_preread_server_name` with `ssl_preread on` is converted");
            return None;
        };
        let lines = self.named_targets(map, pass, scope)?;
        self.outcomes.honour(map);
        self.outcomes.honour(pass);
        Some(lines)
    }

    /// Converts a map of server names to pools.
    fn named_targets(
        &mut self,
        map: StatementId,
        pass: StatementId,
        scope: &InheritanceScope<'_, 't>,
    ) -> Option<Vec<Directive>> {
        let block = self.statements.get(map).directive.block.as_ref()?;
        let (span, mut hostnames) = (self.statements.span(map), false);
        // nginx looks names up in this order.
        let (mut exact, mut wild, mut regexes) = (Vec::new(), Vec::new(), Vec::new());
        let mut default = None;
        for entry in &block.directives {
            let name = entry.name.text.as_str();
            let Some(value) = entry.words.first() else {
                hostnames |= name == "hostnames";
                if name != "hostnames" {
                    let reason = format!("`{name}` has no conversion in a map of server names");
                    self.outcomes.refuse(map, reason);
                    return None;
                }
                continue;
            };
            let pool = self.stream_pool(&value.text, pass, scope)?;
            if name == "default" {
                default = Some(pool);
                continue;
            }
            let patterns = match name.strip_prefix('.').filter(|_| hostnames) {
                Some(rest) => vec![rest.to_owned(), format!("*.{rest}")],
                None => vec![name.to_owned()],
            };
            let is_sound = |pattern: &String| pattern.parse::<HostPattern>().is_ok();
            if !patterns.iter().all(is_sound) || name.ends_with('*') {
                let reason = format!("`{name}` is no name that Weir can match");
                self.outcomes.refuse(map, reason);
                return None;
            }
            for pattern in patterns {
                let list = match pattern.chars().next() {
                    Some('~') => &mut regexes,
                    Some('*') => &mut wild,
                    _ => &mut exact,
                };
                list.push((pattern, pool.clone()));
            }
        }
        wild.sort_by_key(|(pattern, _)| std::cmp::Reverse(pattern.len()));
        let named = exact.into_iter().chain(wild).chain(regexes);
        let line = |(pattern, pool): (String, String)| {
            NativeLine::new("sni", span).value(&pattern).keyword("->").value(&pool).end()
        };
        let mut lines: Vec<Directive> = named.map(line).collect();
        lines.extend(
            default.map(|pool| NativeLine::new("default", span).keyword("->").value(&pool).end()),
        );
        Some(lines)
    }

    /// Returns the pool of a group of servers, or refuses the `proxy_pass`.
    fn stream_pool(
        &mut self,
        host: &str,
        pass: StatementId,
        scope: &InheritanceScope<'_, 't>,
    ) -> Option<String> {
        let span = self.statements.span(pass);
        let address = with_port(host, 80);
        let servers = if let Some(upstream) = self.pools.upstreams.get_mut(host) {
            upstream.used = true;
            upstream.servers
        } else {
            if let Err(message) = weir_config::endpoint_address(&address) {
                self.outcomes.refuse(pass, message);
                return None;
            }
            1
        };
        // An error after the connect is no failure in nginx's `stream`, and a client could cause
        // it.
        let mut lines = self.servers_of(host, &address, "connect", span);
        lines.push(NativeLine::new("stall", span).keyword("off").end());
        lines.push(self.stream_retry(scope, servers, span));
        let connect = self.time(scope, "proxy_connect_timeout", "1m");
        let silence = self.time(scope, "proxy_timeout", "10m");
        let timeout = NativeLine::new("timeout", span).option("connect", &connect);
        lines.push(timeout.option("tunnel", &silence).end());
        lines.extend(self.source_address(scope));
        if self.switch(scope, "proxy_protocol", false) {
            lines.push(NativeLine::new("send_proxy", span).keyword("v1").end());
        }
        let pool = self.pools.free_name(host);
        self.pools.directives.push(NativeLine::new("pool", span).value(&pool).block(lines));
        Some(pool)
    }

    /// Converts the retries: nginx tries each server once.
    fn stream_retry(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        servers: usize,
        span: SourceSpan,
    ) -> Directive {
        let line = NativeLine::new("retry", span);
        let mut tries = if self.switch(scope, "proxy_next_upstream", true) { servers } else { 1 };
        if let Some(id) = self.single(scope, "proxy_next_upstream_tries")
            && let Ok(most) = self.statements.word(id, 0).parse::<usize>()
        {
            self.outcomes.honour(id);
            tries = if most == 0 { tries } else { tries.min(most) };
        }
        let mut line = match tries.saturating_sub(1) {
            0 => return line.keyword("off").end(),
            more => line.value(&more.min(100).to_string()).option("on", "connect"),
        };
        if let Some(id) = self.single(scope, "proxy_next_upstream_timeout")
            && let Some(time) = values::time(self.statements.word(id, 0))
        {
            self.outcomes.honour(id);
            line = line.option("within", &time);
        }
        line.option("budget", "off").end()
    }
}

/// Returns the number of the wildcard address of the other family with the same port.
fn other_family(text: &str, known: &[(String, SourceSpan)]) -> Option<usize> {
    let port = port_of(text);
    let pair = [format!("0.0.0.0:{port}"), format!("[::]:{port}")];
    let other =
        pair.iter().find(|address| *address != text).filter(|_| pair.contains(&text.to_owned()))?;
    known.iter().position(|(address, _)| address == other)
}

fn port_of(address: &str) -> &str {
    address.rsplit(':').next().unwrap_or_default()
}
