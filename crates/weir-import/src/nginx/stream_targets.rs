//! `proxy_pass` of `stream`: the pool of a group of servers, one for each name of a `map` of the
//! names that clients ask for, or one for each value of another variable.

use std::collections::HashMap;

use weir_config::pattern::HostPattern;
use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::pools::with_port;
use super::scope::InheritanceScope;
use super::state::Converter;
use super::statements::StatementId;
use super::values::{self, text_template};
use super::varying_servers::NamedServers;
use crate::native::NativeLine;

/// The variables with the name that a client asks for, by who ends its TLS.
const NAME_PASSED_ON: &str = "$ssl_preread_server_name";
const NAME_HERE: &str = "$ssl_server_name";

/// A `proxy_pass` in its server.
#[derive(Clone, Copy)]
struct StreamPass<'a, 's, 't> {
    id: StatementId,
    scope: &'a InheritanceScope<'s, 't>,
    span: SourceSpan,
}

impl<'t> Converter<'_, 't> {
    /// Returns the targets of a server; `None` if it has none.
    pub(crate) fn stream_targets(
        &mut self,
        stream: &InheritanceScope<'_, 't>,
        scope: &InheritanceScope<'_, 't>,
        server: StatementId,
        ends_tls: bool,
    ) -> Option<Vec<Directive>> {
        let Some(&id) = self.statements.named(Some(server), "proxy_pass").first() else {
            self.outcomes.refuse(server, "it has neither `proxy_pass` nor `return`");
            return None;
        };
        let pass = StreamPass { id, scope, span: self.statements.span(id) };
        let preread = self.switch(scope, "ssl_preread", false);
        let constant = self.with_constants(self.statements.word(id, 0));
        let target = constant.as_deref().unwrap_or(self.statements.word(id, 0));
        if !target.contains('$') {
            let pool = self.stream_pool(target, pass)?;
            self.outcomes.honour(id);
            return Some(vec![default_line(&pool, pass.span)]);
        }
        let variable = target.strip_prefix('$').map_or("", |name| name.trim_matches(['{', '}']));
        let is_it = |map: &&StatementId| {
            let own = self.statements.word(**map, 1).strip_prefix('$');
            own.map(|name| name.trim_matches(['{', '}'])) == Some(variable)
        };
        let map = stream.own("map").iter().find(is_it).copied();
        let source = map.map_or("", |map| self.statements.word(map, 0));
        if source.contains("$ssl_preread") && !preread {
            self.outcomes.refuse(id, "its variable depends on the beginning of TLS, which nginx reads with `ssl_preread on` only");
            return None;
        }
        let is_name = source == NAME_PASSED_ON || source == NAME_HERE && ends_tls;
        if let Some(map) = map.filter(|_| is_name)
            && let Some(entries) = self.named_entries(map)
        {
            let lines = self.named_targets(entries, pass)?;
            self.outcomes.honour(map);
            self.outcomes.honour(id);
            return Some(lines);
        }
        match self.targets_by_value(target, pass) {
            Ok(lines) => {
                self.outcomes.honour(id);
                Some(lines)
            }
            Err(reason) => {
                self.outcomes.refuse(id, reason);
                None
            }
        }
    }

    /// Returns the targets of a map by the patterns of names, in the order in which nginx looks
    /// names up; `None` if a key is none that an `sni` line can have.
    fn named_entries(&self, map: StatementId) -> Option<NamedEntries<'t>> {
        let block = self.statements.get(map).directive.block.as_ref()?;
        let mut hostnames = false;
        let mut entries = NamedEntries::default();
        for entry in &block.directives {
            let (name, words) = (entry.name.text.as_str(), entry.words.as_slice());
            let value = match (name, words) {
                ("hostnames", []) => {
                    hostnames = true;
                    continue;
                }
                ("default", [value]) => {
                    entries.default = Some(&value.text);
                    continue;
                }
                (_, [value]) => &value.text,
                _ => return None,
            };
            // Other keys with a mask are texts.
            let is_mask = hostnames || name.starts_with('~') || !name.contains('*');
            let patterns = match name.strip_prefix('.').filter(|_| hostnames) {
                Some(rest) => vec![rest.to_owned(), format!("*.{rest}")],
                None => vec![name.to_owned()],
            };
            let is_sound = |pattern: &String| pattern.parse::<HostPattern>().is_ok();
            if !is_mask || name.ends_with('*') || !patterns.iter().all(is_sound) {
                return None;
            }
            for pattern in patterns {
                let list = match pattern.chars().next() {
                    Some('~') => &mut entries.regexes,
                    Some('*') => &mut entries.wild,
                    _ => &mut entries.exact,
                };
                list.push((pattern, value));
            }
        }
        entries.wild.sort_by_key(|(pattern, _)| std::cmp::Reverse(pattern.len()));
        Some(entries)
    }

    /// Returns a line for each name.
    fn named_targets(
        &mut self,
        entries: NamedEntries<'t>,
        pass: StreamPass<'_, '_, 't>,
    ) -> Option<Vec<Directive>> {
        let NamedEntries { exact, wild, regexes, default } = entries;
        let mut lines = Vec::new();
        let mut pools: HashMap<&str, String> = HashMap::new();
        for (pattern, value) in exact.into_iter().chain(wild).chain(regexes) {
            let pool = match pools.get(value) {
                Some(pool) => pool.clone(),
                None => self.stream_pool(value, pass)?,
            };
            pools.insert(value, pool.clone());
            let line = NativeLine::new("sni", pass.span).value(&pattern);
            lines.push(line.keyword("->").value(&pool).end());
        }
        if let Some(value) = default.filter(|value| !value.is_empty()) {
            let pool = match pools.remove(value) {
                Some(pool) => pool,
                None => self.stream_pool(value, pass)?,
            };
            lines.push(default_line(&pool, pass.span));
        }
        Some(lines)
    }

    /// Returns the route to the pool that a variable names. nginx closes connections for which it
    /// is empty.
    fn targets_by_value(
        &mut self,
        target: &str,
        pass: StreamPass<'_, '_, 't>,
    ) -> Result<Vec<Directive>, String> {
        let NamedServers { names, may_be_none } = self.servers_named(target)?;
        let source = text_template(target, &self.known(), false)?;
        let span = pass.span;
        let mut lines = Vec::new();
        for server in &names {
            let pool = self.stream_pool(server, pass).ok_or("a value is no server")?;
            lines.push(NativeLine::entry(server, span).value(&pool).end());
        }
        let first = lines.first().and_then(|line| line.words.first());
        let first = first.ok_or("it names no server: give its variables values in a `map`")?;
        lines.push(NativeLine::new("default", span).value(&first.text.clone()).end());
        self.pool_maps += 1;
        let by = self.free_variable(format!("pool_of_stream_{}", self.pool_maps));
        let map = NativeLine::new("map", span).value(&source);
        self.logs.directives.push(map.value(&format!("${by}")).block(lines));
        let mut route = NativeLine::new("route", span);
        if may_be_none {
            route = route.keyword("variable").option(&source, "~.");
        }
        Ok(vec![route.keyword("->").value(&format!("${by}")).end()])
    }

    /// Returns the pool of a group of servers, or refuses the `proxy_pass`.
    fn stream_pool(&mut self, host: &str, pass: StreamPass<'_, '_, 't>) -> Option<String> {
        let StreamPass { id, scope, span } = pass;
        let address = with_port(host, 80);
        let servers = if let Some(upstream) = self.pools.upstreams.get_mut(host) {
            upstream.used = true;
            upstream.servers
        } else {
            if let Err(message) = weir_config::endpoint_address(&address) {
                self.outcomes.refuse(id, message);
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
        if self.switch(scope, "proxy_ssl", false) {
            lines.push(self.upstream_tls(host, scope, span));
        } else {
            self.no_upstream_tls(scope);
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

/// The targets of a map of names.
#[derive(Default)]
struct NamedEntries<'t> {
    exact: Vec<(String, &'t str)>,
    wild: Vec<(String, &'t str)>,
    regexes: Vec<(String, &'t str)>,
    default: Option<&'t str>,
}

fn default_line(pool: &str, span: SourceSpan) -> Directive {
    NativeLine::new("default", span).keyword("->").value(pool).end()
}
