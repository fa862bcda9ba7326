//! Checks `pool NAME { … }` and its servers.

use std::str::FromStr;

use foldhash::{HashMap, HashMapExt};
use weir_stats::Template;

use super::arguments::{ArgumentValue, Arguments};
use super::checker::Checker;
use crate::defaults;
use crate::diagnostic::Diagnostic;
use crate::directives::Context;
use crate::model::validate::{agents, sticky};
use crate::model::{
    Certificate, Endpoint, EndpointAddress, EndpointPassive, Keepalive, OnDown, OnUp, Passive,
    Pool, ReuseLevel, SendProxy, StallDetection, TlsClient, TlsProtocol, values,
};
use crate::source::SourceSpan;
use crate::units::{percent, size};

/// Words that begin a target, so that no pool can have these names.
const TARGETS: [&str; 3] = ["respond", "redirect", "files"];

impl<'a> Checker<'a> {
    pub(super) fn pool(&mut self, arguments: &Arguments<'a>) {
        let Some(name) = arguments.word(0) else { return };
        self.value(name, pool_name);
        let first = self.pool_names.get(name.text()).map(|(_, span)| *span);
        if self.first_of("pool", name, first) {
            self.pool_names.insert(name.text(), (self.pools.len(), name.span()));
        }
        let outer = self.begin_part(format!("pools[{}]", self.pools.len()), arguments.span());
        let mut pool = Pool::new(name.text(), Vec::new());
        let mut servers: HashMap<String, SourceSpan> = HashMap::new();
        let lines = self.block(arguments.block(), Context::Pool);
        for line in &lines {
            self.note_setting(line);
            match line.name() {
                "server" => {
                    self.server(line, &mut pool, &mut servers);
                    self.note_last_with_options("endpoints", pool.endpoints.len(), line);
                }
                "timeout" => self.upstream_timeouts(line, &mut pool),
                "tcp_keepalive" => self.tcp_keepalive(line, &mut pool.tcp_keepalive),
                _ => self.pool_line(line, &mut pool),
            }
        }
        self.orders_fit(name.span(), &lines, &pool);
        self.check_fits(&lines, &pool);
        self.agents_fit(&lines, &pool);
        self.versions_fit(&lines, &pool);
        self.sources_fit(&lines, &pool);
        self.queue_fits(&lines, &pool);
        self.limits_fit(&lines, &pool);
        self.retry_fits(&lines, &pool);
        let written = arguments.block().iter().any(|line| line.name.text == "server");
        if arguments.directive.block.is_some() && !written {
            let error = Diagnostic::error(
                name.span(),
                format!("the pool `{}` has no servers", name.text()),
            );
            self.report(error.help("add one: `server 10.0.0.1:8080;`"));
        }
        self.pools.push(pool);
        self.part = outer;
    }

    fn pool_line(&mut self, line: &Arguments<'a>, pool: &mut Pool) {
        match (line.name(), line.word(0)) {
            ("balance", Some(word)) => {
                pool.policy = self.policy(line, word).unwrap_or_default();
            }
            ("keepalive", off) => self.keepalive(line, off, &mut pool.keepalive),
            ("check", Some(kind)) => pool.check = self.check(line, kind),
            ("agent_check", _) => pool.agent_check = Some(self.agent_check(line)),
            ("passive", off) => self.passive(line, off, &mut pool.passive),
            ("on_down", Some(word)) => {
                let fate = self.value(word, |text| match text {
                    "keep" => Ok(OnDown::Keep),
                    "close" => Ok(OnDown::Close),
                    other => Err(format!("`{other}` is neither `keep` nor `close`")),
                });
                pool.on_down = fate.unwrap_or_default();
            }
            ("on_up", Some(word)) => {
                let fate = self.value(word, |text| match text {
                    "keep" => Ok(OnUp::Keep),
                    "close_backups" => Ok(OnUp::CloseBackups),
                    other => Err(format!("`{other}` is neither `keep` nor `close_backups`")),
                });
                pool.on_up = fate.unwrap_or_default();
            }
            ("stall", off) => self.stall(line, off, &mut pool.stall),
            ("queue", off) => pool.queue = self.queue(line, off),
            ("retry", count) => {
                self.retry(line, count, &mut pool.retry);
                if let Some(count) = count {
                    self.note_option("retry", "attempts", count.word.span);
                }
            }
            ("connect_status", Some(value)) => {
                pool.connect_status = self.value(value, values::error_status);
            }
            ("buffer_request", Some(value)) => {
                pool.buffer_request = self.value(value, size_or_off).flatten();
            }
            ("limits", _) => {
                pool.limits.max_in_flight =
                    self.setting(line, "max_in_flight", super::limit::bound);
                pool.limits.max_retries = self.setting(line, "max_retries", super::limit::bound);
            }
            ("send_proxy", Some(value)) => {
                pool.send_proxy = self.value(value, |text| match text {
                    "v1" => Ok(SendProxy::V1),
                    "v2" => Ok(SendProxy::V2),
                    _ => Err(format!("`{text}` is not a version of the PROXY protocol: v1 or v2")),
                });
                self.set(line, "tlv", &mut pool.proxy_tlvs, distinct);
                if let Some(tlv) = line.option("tlv").filter(|_| value.text() == "v1") {
                    let message = "version 1 of the PROXY protocol has no values: `send_proxy v2`";
                    self.report(Diagnostic::error(tlv.span(), message));
                }
            }
            ("http_version", Some(value)) => {
                pool.http = self.value(value, str::parse).unwrap_or_default();
            }
            ("source", Some(value)) => pool.source = self.value(value, values::source),
            ("sticky", _) => pool.sticky = self.sticky(line),
            ("tls", _) => pool.tls = Some(self.client_tls(line)),
            ("check_tls", _) => pool.check_tls = Some(self.client_tls(line)),
            _ => {}
        }
    }

    fn server(
        &mut self,
        line: &Arguments<'a>,
        pool: &mut Pool,
        names: &mut HashMap<String, SourceSpan>,
    ) {
        let Some(value) = line.word(0) else { return };
        if let Some(later) = line.words.get(1) {
            self.report(Diagnostic::error(later.span(), "a server has one address"));
        }
        let text = self.address_text(value);
        let address = self.value(value, |_| values::endpoint_address(&text));
        let name = self.setting(line, "name", values::name);
        let named = line.option("name").unwrap_or(value);
        if self.first_of("server", named, names.get(named.text()).copied()) {
            names.insert(named.text().to_owned(), named.span());
        }
        let weight = line.option("weight").and_then(|value| self.weight(value));
        let max_conn = line.option("max_conn").and_then(|value| self.max_conn(value));
        let cookie =
            self.setting(line, "cookie", |text| sticky::value(text).map(|()| text.to_owned()));
        let slow_start = self.setting(line, "slow_start", values::wait);
        let source = self.setting(line, "source", values::source);
        let http = self.setting(line, "http", str::parse);
        let priority = self.priority(line);
        let order = self.order(line);
        let host =
            self.setting(line, "host", |text| values::host_name(text).map(|()| text.to_owned()));
        if let Some(EndpointAddress::Service(_)) = &address {
            for field in ["weight", "priority"] {
                if let Some(value) = line.option(field) {
                    self.report(Diagnostic::error(value.word.span, values::said_by_records(field)));
                }
            }
        }
        let check = self.setting(line, "check", values::endpoint_check).unwrap_or_default();
        let agent = self.setting(line, "agent", values::endpoint_check).unwrap_or_default();
        let passive = EndpointPassive {
            errors: self.setting(line, "errors", errors_or_off),
            window: self.setting(line, "window", values::wait),
            eject: self.setting(line, "eject", values::wait),
        };
        if let Some(address) = address {
            pool.endpoints.push(Endpoint {
                name: name.unwrap_or_else(|| value.text().to_owned()),
                address,
                host,
                domain: None,
                weight: weight.unwrap_or(defaults::WEIGHT),
                max_conn,
                slow_start,
                priority,
                backup: line.flag("backup"),
                order,
                check,
                agent,
                passive,
                cookie,
                source,
                http,
            });
        }
    }

    /// Reports versions of HTTP that do not fit the pool's connections.
    fn versions_fit(&mut self, lines: &[Arguments<'a>], pool: &Pool) {
        for line in lines {
            let (value, version) = match line.name() {
                "http_version" => (line.word(0), pool.http),
                "server" => {
                    let value = line.option("http");
                    (value, value.and_then(|value| value.text().parse().ok()).unwrap_or_default())
                }
                _ => continue,
            };
            if let (Some(value), Some(message)) = (value, pool.http_objection(version)) {
                self.report(Diagnostic::error(value.word.span, message));
            }
        }
    }

    /// Reports servers that cannot be reached from the address that their connections come from.
    fn sources_fit(&mut self, lines: &[Arguments<'a>], pool: &Pool) {
        let wrong = pool
            .endpoints
            .iter()
            .find_map(|server| Some((server, agents::source_fits(pool, server).err()?)));
        let Some((server, message)) = wrong else { return };
        let is_its = |line: &&Arguments<'a>| {
            let named = line.option("name").or(line.word(0));
            line.name() == "server" && named.is_some_and(|value| value.text() == server.name)
        };
        let own = lines.iter().find(is_its);
        let of_pool = lines.iter().find(|line| line.name() == "source");
        let place = own.and_then(|line| line.option("source")).map(|value| value.word.span);
        let place = place.or(of_pool.map(Arguments::span));
        if let Some(place) = place {
            self.report(Diagnostic::error(place, message));
        }
    }

    /// Returns true if the word is `off`, which must stand alone.
    pub(super) fn is_off(&mut self, line: &Arguments<'a>, word: Option<ArgumentValue<'a>>) -> bool {
        let Some(word) = word else { return false };
        if word.text() != "off" {
            let error =
                Diagnostic::error(word.span(), format!("`{}` takes options or `off`", line.name()));
            let options: Vec<String> =
                line.spec.options.iter().map(|option| format!("{}=", option.name)).collect();
            self.report(error.help(format!("its options are {}", options.join(" "))));
            return false;
        }
        true
    }

    fn keepalive(
        &mut self,
        line: &Arguments<'a>,
        off: Option<ArgumentValue<'a>>,
        keepalive: &mut Keepalive,
    ) {
        if self.is_off(line, off) {
            keepalive.idle = 0;
        }
        self.set(line, "idle", &mut keepalive.idle, |text| number(text, 0));
        self.set(line, "timeout", &mut keepalive.timeout, values::wait);
        self.set(line, "max_requests", &mut keepalive.max_requests, |text| {
            values::whole(text, 1, u64::MAX)
        });
        self.set(line, "max_age", &mut keepalive.max_age, values::wait);
        self.set(line, "reuse", &mut keepalive.reuse, ReuseLevel::parse);
    }

    fn passive(
        &mut self,
        line: &Arguments<'a>,
        off: Option<ArgumentValue<'a>>,
        passive: &mut Passive,
    ) {
        if self.is_off(line, off) {
            passive.errors = 0;
        }
        self.set(line, "errors", &mut passive.errors, |text| number(text, 1));
        self.set(line, "on", &mut passive.on, distinct);
        self.set(line, "window", &mut passive.window, values::wait);
        self.set(line, "eject", &mut passive.eject, values::wait);
        self.set(line, "max_ejected", &mut passive.max_ejected_percent, percent::parse);
    }

    fn stall(
        &mut self,
        line: &Arguments<'a>,
        off: Option<ArgumentValue<'a>>,
        stall: &mut StallDetection,
    ) {
        if self.is_off(line, off) {
            stall.factor = 0;
        }
        self.set(line, "factor", &mut stall.factor, |text| {
            values::whole(text, 1, values::MAX_STALL_FACTOR).map(|factor| factor as u32)
        });
        self.set(line, "floor", &mut stall.floor, values::wait);
    }

    fn upstream_timeouts(&mut self, line: &Arguments<'a>, pool: &mut Pool) {
        let timeouts = &mut pool.timeouts;
        self.set(line, "connect", &mut timeouts.connect, values::wait);
        self.set(line, "send", &mut timeouts.send, values::wait);
        self.set(line, "response", &mut timeouts.response, values::wait);
        self.set(line, "read", &mut timeouts.read, values::wait);
        self.set(line, "tunnel", &mut timeouts.tunnel, values::wait);
        self.set(line, "half_closed", &mut timeouts.half_closed, values::wait_or_off);
        self.set(line, "request", &mut timeouts.request, values::wait_or_off);
        self.set(line, "try", &mut timeouts.attempt, values::wait_or_off);
        self.set(line, "min_rate", &mut timeouts.min_rate, values::rate_or_off);
        self.set(line, "after", &mut timeouts.after, values::wait);
    }

    fn client_tls(&mut self, line: &Arguments<'a>) -> TlsClient {
        let mut tls = TlsClient { protocol: self.tls_protocol(line), ..TlsClient::default() };
        self.set(line, "verify", &mut tls.verify, values::on_off);
        if !tls.verify
            && let Some(option) = line.option("verify")
        {
            let warning = Diagnostic::warning(
                option.word.span,
                "the servers are not verified: an attacker on the network path can read and change everything",
            )
            .code("unverified-server");
            self.report(
                warning.help("to trust your own certificate authority, write `ca=FILE` instead"),
            );
        }
        match line.option("name") {
            Some(value) if value.text().contains('$') => tls.request_name = self.name_of(value),
            _ => {
                tls.server_name = self.setting(line, "name", |text| {
                    values::server_name(text).map(|()| text.to_owned())
                });
            }
        }
        self.set(line, "sni", &mut tls.sni, values::on_off);
        self.set(line, "srv_name", &mut tls.srv_name, values::srv_name);
        tls.ca = line.option("ca").map(|value| self.path(value));
        tls.crl = line.option("crl").map(|value| self.path(value));
        if let Some(option) = line.option("crl").filter(|_| !tls.verify) {
            let message = "`crl=` without `verify=on` has no effect";
            self.report(Diagnostic::error(option.word.span, message));
        }
        let key = line.option("key").map(|value| self.path(value));
        match (line.option("certificate"), line.option("key")) {
            (Some(chain), _) => {
                tls.certificate = Some(Certificate { chain: self.path(chain), key });
            }
            (None, Some(key)) => {
                self.report(Diagnostic::error(
                    key.word.span,
                    "`key=` without `certificate=` has no effect",
                ));
            }
            (None, None) => {}
        }
        tls
    }

    /// Parses a name that each request decides.
    fn name_of(&mut self, value: ArgumentValue<'a>) -> Option<Template> {
        let name = self.template(value)?;
        if let Err(message) = values::sound_request_name(&name) {
            self.report(Diagnostic::error(value.span(), message));
        }
        Some(name)
    }

    /// Parses the options that `tls` in a pool and in a listener have in common.
    pub(super) fn tls_protocol(&mut self, line: &Arguments<'a>) -> TlsProtocol {
        let mut protocol = TlsProtocol::default();
        self.set(line, "min", &mut protocol.min, values::tls_version);
        self.set(line, "max", &mut protocol.max, values::tls_version);
        self.set(line, "ciphers", &mut protocol.ciphers, names);
        self.set(line, "curves", &mut protocol.curves, names);
        if protocol.min > protocol.max {
            let place = line
                .option("min")
                .or(line.option("max"))
                .map_or(line.span(), |value| value.word.span);
            self.report(Diagnostic::error(
                place,
                "`min=` is above `max=`, which allows no version",
            ));
        }
        protocol
    }
}

fn pool_name(text: &str) -> Result<(), String> {
    values::name(text)?;
    if text.contains([':', '/', '[']) {
        return Err(format!(
            "`{text}` looks like an address: a pool's name has no `:`, `/` or `[`"
        ));
    }
    if TARGETS.contains(&text) {
        return Err(format!("a pool cannot be called `{text}`, which is the name of a target"));
    }
    Ok(())
}

/// Parses words separated by commas, each at most once.
fn distinct<T: FromStr<Err = String> + PartialEq>(text: &str) -> Result<Vec<T>, String> {
    let mut all = Vec::new();
    for word in text.split(',') {
        let one = word.parse()?;
        if all.contains(&one) {
            return Err(format!("`{word}` is given twice"));
        }
        all.push(one);
    }
    Ok(all)
}

fn errors_or_off(text: &str) -> Result<u32, String> {
    if text == "off" { Ok(0) } else { number(text, 1) }
}

fn number(text: &str, least: u64) -> Result<u32, String> {
    values::whole(text, least, u64::from(u32::MAX)).map(|number| number as u32)
}

pub(super) fn size_or_off(text: &str) -> Result<Option<u64>, String> {
    if text == "off" { Ok(None) } else { size::parse(text).map(Some) }
}

/// Parses names separated by colons, as OpenSSL writes lists, or by commas.
fn names(text: &str) -> Result<Vec<String>, String> {
    let list: Vec<String> = text.split([':', ',']).map(str::to_owned).collect();
    if list.iter().any(String::is_empty) {
        return Err("there is an empty name in this list".into());
    }
    Ok(list)
}
