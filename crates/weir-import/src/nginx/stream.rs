//! `stream` becomes listeners that pass on bytes, one for each `server`. `stream_targets` has their
//! pools.

use std::collections::HashSet;
use std::rc::Rc;

use weir_config::source::SourceSpan;
use weir_config::syntax::lexer::Word;
use weir_config::syntax::tree::Directive;

use super::conditions::without_variables;
use super::limits::LEAST_RATE;
use super::listeners::ListenKey;
use super::real_ip::network;
use super::scope::InheritanceScope;
use super::state::{Converter, ZoneKind};
use super::statements::{FilePart, StatementId};
use super::text_parts;
use super::values::{self, KnownVariables, SetValue, text_template};
use crate::native::NativeLine;

/// Directives of a server of `stream` that have no conversion there, with what to do.
const WITHOUT_CONVERSION: [(&str, &str); 2] = [
    (
        "pass",
        "write `proxy_pass` with the address of that server, and `proxy_protocol on` so that it knows the client",
    ),
    (
        "server_name",
        "write a `map` of `$ssl_preread_server_name` to upstreams, or of `$ssl_server_name` where TLS ends here",
    ),
];

/// The reason for which a rule has no conversion where the client's address may be anyone's claim.
const FROM_HEADER: &str = "with `proxy_protocol` Weir takes the client's address from the header: write `set_real_ip_from` for the load balancers that send it, or leave the rule to them";

/// The most variables of which the value of one is made.
const MOST_SOURCES: usize = 64;

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
        self.part = FilePart::Stream;
        self.set = Rc::default();
        self.variables(stream);
        self.limit_zones(&scope);
        for &id in scope.own("log_format") {
            self.log_format(id);
        }
        for &id in scope.own("upstream") {
            self.upstream(id);
        }
        let servers = scope.own("server");
        let listeners =
            servers.iter().filter_map(|server| self.stream_server(&scope, *server)).collect();
        self.unused_zones();
        listeners
    }

    fn stream_server(
        &mut self,
        stream: &InheritanceScope<'_, 't>,
        server: StatementId,
    ) -> Option<Directive> {
        self.outcomes.honour(server);
        for (name, reason) in WITHOUT_CONVERSION {
            for &id in self.statements.named(Some(server), name) {
                self.outcomes.refuse(id, reason);
            }
        }
        let scope = stream.inner(server);
        self.stream_variables(server);
        let listens = self.stream_listens(server);
        let span = listens.addresses.first()?.1;
        let wait = if listens.tls {
            self.time(&scope, "ssl_handshake_timeout", "1m")
        } else {
            self.time(&scope, "preread_timeout", "30s")
        };
        let mut lines = vec![NativeLine::new("timeout", span).option("handshake", &wait).end()];
        if listens.proxy_header {
            lines.push(self.stream_proxy_header(&scope, span));
        }
        if listens.tls {
            lines.extend(self.stream_certificates(&scope));
            lines.extend(self.protocols(&scope, span));
            lines.extend(self.stream_clients(&scope).ok()?);
        }
        lines.extend(self.access(&scope, false));
        lines.extend(self.stream_limits(&scope, span));
        let logs = self.access_logs(&scope);
        if !logs.is_empty() {
            let line = NativeLine::new("log", span);
            lines.push(logs.iter().fold(line, |line, name| line.value(name)).end());
        }
        lines.extend(match self.stream_text(server) {
            Some(line) => vec![line],
            None => self.stream_targets(stream, &scope, server, listens.tls)?,
        });
        let mut head = NativeLine::new("listen", span).keyword("tcp");
        for (address, place) in &listens.addresses {
            head = head.value_at(address, *place);
        }
        if listens.tls {
            head = head.keyword("tls");
        }
        Some(head.block(lines))
    }

    /// Reads the `set` of a server.
    fn stream_variables(&mut self, server: StatementId) {
        self.set = Rc::default();
        let statements = self.statements;
        for &id in statements.named(Some(server), "set") {
            let name = statements.word(id, 0).strip_prefix('$').unwrap_or_default();
            let text = match statements.words(id) {
                [_, value] if !name.is_empty() && !KnownVariables::is_built_in(name) => {
                    text_template(&value.text, &self.known(), false)
                }
                _ => Err("write a variable of your own and its value".to_owned()),
            };
            match &text {
                Ok(_) => self.outcomes.honour(id),
                Err(reason) => self.outcomes.refuse(id, reason.clone()),
            }
            let constant = text.as_ref().ok().and_then(|text| without_variables(text));
            let value = SetValue {
                possible: constant.map(|value| vec![value]),
                text,
                cases: None,
                has_groups: false,
            };
            Rc::make_mut(&mut self.set).insert(name.to_owned(), value);
        }
    }

    /// Converts `return`: a text that each client gets.
    fn stream_text(&mut self, server: StatementId) -> Option<Directive> {
        let statements = self.statements;
        let &id = statements.named(Some(server), "return").first()?;
        if !statements.named(Some(server), "proxy_pass").is_empty() {
            let reason = "the server has a `proxy_pass` too, and nginx takes the last of both: remove one of them";
            self.outcomes.refuse(id, reason);
            return None;
        }
        let text = match statements.words(id) {
            [text] => text_template(&text.text, &self.known(), false),
            _ => Err("write one text".to_owned()),
        };
        match text {
            Ok(text) => {
                self.outcomes.honour(id);
                let line = NativeLine::new("default", statements.span(id));
                Some(line.keyword("->").keyword("respond").value("200").value(&text).end())
            }
            Err(reason) => {
                self.outcomes.refuse(id, reason);
                None
            }
        }
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

    /// Returns the peers whose connections begin with a header of the PROXY protocol. Weir takes
    /// the client's address from it.
    fn stream_proxy_header(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        span: SourceSpan,
    ) -> Directive {
        let line = NativeLine::new("proxy_protocol", span);
        let trusted = scope.all("set_real_ip_from");
        if trusted.is_empty() {
            let guards = scope.both(["allow", "deny"]).concat();
            let limits = scope.all("limit_conn").iter();
            let told = scope.all("proxy_protocol").iter();
            let told = told.filter(|id| self.statements.word(**id, 0) == "on");
            let passes = scope.own("proxy_pass").iter();
            let passes = passes.filter(|id| self.is_picked_by_address(**id));
            let rules = guards.iter().chain(limits).chain(told).chain(passes).copied();
            for id in rules.collect::<Vec<_>>() {
                self.outcomes.refuse(id, FROM_HEADER);
            }
            let has_header = |id: &&StatementId| {
                self.statements.words(**id).iter().any(|word| word.is("proxy_protocol"))
            };
            for listen in scope.own("listen").iter().filter(has_header) {
                self.outcomes.differs(*listen, "any peer may write the header, whose address is that of the client in logs and hashes, where nginx keeps that of the peer");
            }
            return line.keyword("all").end();
        }
        let mut line = line;
        for &id in trusted {
            let Some(network) = network(self.statements.word(id, 0)) else {
                self.outcomes.refuse(id, "write an IP address or a network");
                continue;
            };
            self.outcomes.differs(
                id,
                "connections of other peers than these have no header of the PROXY protocol",
            );
            line = line.value_at(&network, self.statements.span(id));
        }
        line.end()
    }

    /// Returns true if the servers of a `proxy_pass` depend on the client's address.
    fn is_picked_by_address(&self, pass: StatementId) -> bool {
        let statements = self.statements;
        let server = statements.parent(pass);
        let stream = server.and_then(|server| statements.parent(server));
        let mut texts = vec![statements.word(pass, 0)];
        let mut seen = HashSet::new();
        while let Some(text) = texts.pop() {
            for part in text_parts::split(text).1 {
                if !seen.insert(part.name) {
                    continue;
                }
                let is_address = ["remote_addr", "binary_remote_addr", "remote_port"];
                if is_address.contains(&part.name) || seen.len() > MOST_SOURCES {
                    return true;
                }
                let named = |word: &str| {
                    word.strip_prefix('$').map(|name| name.trim_matches(['{', '}']))
                        == Some(part.name)
                };
                let sets = statements.named(server, "set").iter();
                let sets = sets.filter(|id| named(statements.word(**id, 0)));
                texts.extend(sets.map(|id| statements.word(*id, 1)));
                for &id in ["map", "geo", "split_clients"]
                    .iter()
                    .flat_map(|kind| statements.named(stream, kind))
                {
                    match statements.words(id) {
                        [name] if named(&name.text) => return true,
                        [source, name] if named(&name.text) => texts.push(&source.text),
                        _ => continue,
                    }
                    let block = statements.get(id).directive.block.as_ref();
                    let lines = block.iter().flat_map(|block| &block.directives);
                    texts.extend(lines.flat_map(|line| &line.words).map(|word| &*word.text));
                }
            }
        }
        false
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

    /// Returns the authorities of the clients of a server with TLS: nginx ends a connection whose
    /// client has no valid certificate.
    fn stream_clients(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
    ) -> Result<Option<Directive>, ()> {
        let Some(id) = self.single(scope, "ssl_verify_client") else { return Ok(None) };
        let verify = match self.statements.word(id, 0) {
            "off" => {
                self.outcomes.honour(id);
                return Ok(None);
            }
            "on" => "required",
            "optional" => "optional",
            _ => {
                let reason = "write `on`, `off` or `optional`: connections have no routes that look at the certificate";
                self.outcomes.refuse(id, reason);
                return Err(());
            }
        };
        self.client_authority = None;
        match self.client_authorities(scope) {
            Ok(()) => {
                self.outcomes.honour(id);
                let line = self.client_authority.take().map(|known| known.line);
                Ok(line.map(|line| with_verification(line, verify)))
            }
            Err((refused, reason)) => {
                self.outcomes.refuse(refused.unwrap_or(id), reason);
                self.outcomes.refuse(id, "its authorities have no conversion");
                Err(())
            }
        }
    }

    /// Returns the limits of a server.
    fn stream_limits(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        span: SourceSpan,
    ) -> Vec<Directive> {
        let mut lines = Vec::new();
        let known = &self.known();
        for &id in scope.all("limit_conn") {
            match self.limit(ZoneKind::Connections, id, scope, known) {
                Ok(line) => lines.extend(line),
                Err(reason) => self.outcomes.refuse(id, reason),
            }
        }
        let mut rates = NativeLine::new("limit", span).keyword("bandwidth");
        let mut is_limited = false;
        for (name, option) in [("proxy_download_rate", "down"), ("proxy_upload_rate", "up")] {
            let Some(id) = self.single(scope, name) else { continue };
            match values::bytes(self.statements.word(id, 0)) {
                Some(0) => self.outcomes.honour(id),
                Some(rate) if rate >= LEAST_RATE => {
                    self.outcomes.honour(id);
                    rates = rates.option(option, &values::size(rate));
                    is_limited = true;
                }
                Some(_) => self.outcomes.refuse(id, "the least rate is 1k"),
                None => self.outcomes.refuse(id, "this is not a size of nginx"),
            }
        }
        lines.extend(is_limited.then(|| rates.end()));
        lines
    }
}

/// Returns the line with the clients that get a connection.
fn with_verification(mut line: Directive, verify: &str) -> Directive {
    let is_it = |word: &Word| word.text.starts_with("verify=");
    if let Some(word) = line.words.iter_mut().find(|word| is_it(word)) {
        word.text = format!("verify={verify}");
    }
    line
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
