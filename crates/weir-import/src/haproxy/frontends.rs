//! A frontend becomes a native listener for each group of its addresses that are treated alike: its
//! routes are in `rules`.

use std::collections::{HashMap, HashSet};

use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::backends::{ConnectionMode, LONG, ProxyMode};
use super::client_certificates::BindClients;
use super::client_source::ProxiesInFront;
use super::conditions::{AclTest, ListenPlace};
use super::convert::{HaproxyConverter, TOO_LARGE};
use super::keywords::{self, KeywordHandling};
use super::patterns;
use super::rules::RuleEdit;
use super::scope::{CHANGED, ChangedRequest, RuleScope};
use super::sections::{LineId, SectionId};
use super::tls_protocol::TlsVersions;
use super::values::{self, BindAddress};
use super::version::HaproxyVersion;
use crate::native::NativeLine;

/// The size of a head that HAProxy takes by default.
const HEAD_BYTES: u64 = 15 << 10;

/// Returns the text of a header that listeners may set, if it is one: no received line is left of
/// it then.
pub(super) fn set_by_listeners(name: &str) -> Option<&'static str> {
    name.eq_ignore_ascii_case("X-Forwarded-For").then_some("$http_x_forwarded_for")
}

/// A header with an address that an option adds.
#[derive(Clone, Debug)]
pub(super) struct ForwardedHeader {
    option: &'static str,
    line: LineId,
    name: String,
    /// The conditions under which it is added.
    tests: Vec<AclTest>,
}

impl ForwardedHeader {
    /// Returns the line for requests in which no rule changes the header.
    fn replaced(&self, span: SourceSpan) -> Directive {
        let value = match self.address() {
            "$remote_addr" if self.name.eq_ignore_ascii_case("X-Forwarded-For") => {
                "$proxy_add_x_forwarded_for"
            }
            address => address,
        };
        let native = NativeLine::new("header", span).keyword("set");
        native.value(&self.name).value(value).end()
    }

    /// Returns the line that adds the address after those of rules.
    fn added(&self, span: SourceSpan) -> Directive {
        let native = NativeLine::new("header", span).keyword("add");
        native.value(&self.name).value(self.address()).end()
    }

    /// Returns the line after which the header is as the client sent it.
    fn as_received(&self, span: SourceSpan) -> Directive {
        let variable = self.name.to_ascii_lowercase().replace('-', "_");
        let native = NativeLine::new("header", span).keyword("set");
        native.value(&self.name).value(&format!("${{http_{variable}}}")).end()
    }

    fn address(&self) -> &'static str {
        if self.option == "option originalto" { "$server_addr" } else { "$remote_addr" }
    }
}

/// The lines of such headers in a route.
#[derive(Default)]
pub(super) struct ForwardEdits {
    /// Those before the changes of rules.
    pub(super) before: Vec<RuleEdit>,
    /// Those after them.
    pub(super) after: Vec<RuleEdit>,
}

/// Addresses with the same options.
struct BindGroup {
    line: LineId,
    span: SourceSpan,
    addresses: Vec<BindAddress>,
    options: BindOptions,
}

impl BindGroup {
    /// Returns the lines about proxies in front of it.
    fn proxies(&self, of_rules: &ProxiesInFront) -> Vec<Directive> {
        let mut lines = if self.options.proxy_header {
            vec![NativeLine::new("proxy_protocol", self.span).keyword("all").end()]
        } else {
            of_rules.announcing.clone()
        };
        lines.extend(of_rules.naming.clone());
        lines
    }

    /// Returns the line about HTTP/2, if it is not what Weir does by default: with TLS it offers
    /// it, as HAProxy does in newer versions.
    fn http2(&self, version: HaproxyVersion) -> Option<Directive> {
        let is_off = self.options.tls && !version.offers_http2();
        let word = self.options.http2.or(is_off.then_some("off"))?;
        Some(NativeLine::new("http2", self.span).keyword(word).end())
    }
}

const NO_ALPN: &str = "Weir offers no protocol by ALPN where it passes bytes on";

/// The options of `bind` that addresses of one native listener share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct BindOptions {
    tls: bool,
    certificates: Vec<String>,
    versions: TlsVersions,
    max_connections: Option<u64>,
    mode: Option<String>,
    /// Set if clients send a PROXY header.
    proxy_header: bool,
    /// Set if only clients that ask for a name of a certificate get a handshake.
    strict_sni: bool,
    /// The word of `http2`, if it is not the default.
    http2: Option<&'static str>,
    clients: BindClients,
}

impl BindOptions {
    /// Takes an option about TLS; returns the number of its words, or 0 if it is none.
    fn take(&mut self, word: &str, value: &str) -> Result<usize, String> {
        match word {
            "strict-sni" => self.strict_sni = true,
            "no-strict-sni" => self.strict_sni = false,
            _ if self.clients.take(word, value)? => return Ok(2),
            _ => return self.versions.take(word, value),
        }
        Ok(1)
    }
}

/// Returns the word of `http2` for the protocols of an `alpn`.
fn offered(protocols: &str) -> &'static str {
    let has = |wanted: &str| protocols.split(',').any(|name| name.trim() == wanted);
    match (has("h2"), has("http/1.1") || has("http/1.0")) {
        (true, true) => "on",
        (true, false) => "only",
        (false, _) => "off",
    }
}

impl HaproxyConverter<'_> {
    /// Converts a frontend, or a `listen`.
    pub(super) fn frontend(&mut self, id: SectionId) -> Vec<Directive> {
        let sections = self.sections;
        let section = sections.get(id);
        let span = sections.span(section.head);
        if self.is_disabled(id) {
            self.leave_out(id, "it is `disabled`");
            return Vec::new();
        }
        let is_tcp = self.is_of_connections(id);
        self.outcomes.honour(section.head);
        if !is_tcp && self.is_statistics(id) {
            return self.statistics(id);
        }
        let groups = self.bind_groups(id);
        if groups.is_empty() {
            self.without_address(id);
            return Vec::new();
        }
        let rules = ["http-request", "http-response", "redirect", "acl", "use_backend"];
        self.copies = groups.len();
        if !self.room_for_routes(sections.count_of(id, &rules)) || !self.room_for_inherited(id) {
            return self.too_large(id);
        }
        let rules = if is_tcp { self.routes_of_connections(id) } else { self.rules(id) };
        let proxies = std::mem::take(&mut self.proxies_in_front);
        let settings = if is_tcp {
            self.without_statistics(id);
            self.connection_settings(id, span)
        } else {
            let mut lines = self.listener_settings(id, span, &rules.scope);
            lines.extend(rules.pages.iter().cloned());
            lines
        };
        // Every further listener has them too.
        if !self.room_for(settings.len().saturating_mul(groups.len() - 1)) {
            return self.too_large(id);
        }
        let several = groups.len() > 1;
        let mut listeners = Vec::new();
        for (index, group) in groups.into_iter().enumerate() {
            let place = ListenPlace { tls: group.options.tls, port: one_port(&group.addresses) };
            let mut lines = settings.clone();
            lines.extend(self.tls_lines(&group));
            lines.extend(rules.at(place));
            if !is_tcp {
                lines.extend(group.http2(self.version));
            } else if group.options.http2.is_some() {
                self.outcomes.differs(group.line, NO_ALPN);
            }
            lines.extend(group.proxies(&proxies));
            let mut native = NativeLine::new("listen", group.span);
            if is_tcp {
                native = native.keyword("tcp");
            }
            for address in &group.addresses {
                native = native.value(&address.text);
            }
            if group.options.tls {
                native = native.keyword("tls");
            }
            native = named(native, &section.name, index);
            native = self.connection_limit(id, native, &group.options, several);
            if let Some(mode) = &group.options.mode {
                native = native.option("mode", mode);
            }
            listeners.push(native.block(lines));
        }
        listeners
    }

    /// Notes why a section without addresses becomes no listener.
    fn without_address(&mut self, id: SectionId) {
        let section = self.sections.get(id);
        let is_frontend = section.kind == "frontend";
        if is_frontend || section.kind == "listen" && !self.sections.own(id, "bind").is_empty() {
            self.outcomes.refuse(section.head, "it has no address that Weir can use");
        } else {
            self.leave_out(id, "it has no address; a `use_backend` may name it");
        }
    }

    /// Refuses a section for its size.
    fn too_large(&mut self, id: SectionId) -> Vec<Directive> {
        let head = self.sections.get(id).head;
        self.outcomes.refuse(head, TOO_LARGE);
        Vec::new()
    }

    /// Returns true if a frontend passes bytes on instead of requests.
    pub(super) fn is_of_connections(&mut self, id: SectionId) -> bool {
        self.mode(id) == ProxyMode::Tcp && !self.becomes_http(id)
    }

    /// Returns true if HAProxy makes HTTP of the connections of a frontend in mode `tcp`: it does
    /// when the backend that it picks is in mode `http`.
    fn becomes_http(&mut self, id: SectionId) -> bool {
        let sections = self.sections;
        if sections.get(id).kind != "frontend" {
            return false;
        }
        let lines = sections.every_of(id, &["default_backend", "use_backend"]);
        let names: Vec<&str> = lines.iter().map(|line| sections.word(*line, 0)).collect();
        let http = |name: &&str| {
            self.backends.get(name).is_some_and(|backend| {
                sections.last(*backend, "mode").is_some_and(|line| sections.word(line, 0) == "http")
            })
        };
        let upgraded = !names.is_empty() && names.iter().all(http);
        if upgraded {
            let head = sections.get(id).head;
            self.outcomes.differs(head, "it is in `mode tcp` with backends in `mode http`, for which HAProxy makes HTTP of its connections; Weir does from the start: its rules hold for each request");
            if let Some(line) = sections.last(id, "mode") {
                self.outcomes.honour(line);
            }
        }
        upgraded
    }

    /// Reads the `bind` lines of a section.
    fn bind_groups(&mut self, id: SectionId) -> Vec<BindGroup> {
        let sections = self.sections;
        let mut groups: Vec<BindGroup> = Vec::new();
        let mut known: HashMap<(BindOptions, Option<u16>), usize> = HashMap::new();
        for &line in sections.own(id, "bind") {
            let Some((options, dual)) = self.bind_options(line) else { continue };
            let mut addresses = Vec::new();
            for part in sections.word(line, 0).split(',') {
                match values::bind_address(part, dual) {
                    Ok(found) => addresses.extend(found),
                    Err(reason) => self.outcomes.refuse(line, reason),
                }
            }
            if addresses.is_empty() || self.outcomes.is_refused(line) {
                continue;
            }
            self.outcomes.honour(line);
            let group = (options, one_port(&addresses));
            if let Some(known) = known.get(&group).and_then(|number| groups.get_mut(*number)) {
                known.addresses.extend(addresses);
            } else {
                known.insert(group.clone(), groups.len());
                let (span, options) = (sections.span(line), group.0);
                groups.push(BindGroup { line, span, addresses, options });
            }
        }
        groups
    }

    fn bind_options(&mut self, line: LineId) -> Option<(BindOptions, bool)> {
        let words = self.sections.words(line);
        let mut options = BindOptions {
            versions: self.process.bind_tls.clone(),
            strict_sni: self.process.strict_sni,
            ..BindOptions::default()
        };
        let mut dual = true;
        let mut at = 1;
        while let Some(word) = words.get(at) {
            let value = words.get(at + 1).map_or("", |word| word.text.as_str());
            let mut taken = 2;
            match word.text.as_str() {
                "ssl" => (options.tls, taken) = (true, 1),
                "accept-proxy" => (options.proxy_header, taken) = (true, 1),
                "alpn" => options.http2 = Some(offered(value)),
                "no-alpn" => (options.http2, taken) = (Some("off"), 1),
                "proto" if value == "h2" => options.http2 = Some("only"),
                "proto" if value == "h1" => options.http2 = Some("off"),
                "v4v6" => (dual, taken) = (true, 1),
                "v6only" => (dual, taken) = (false, 1),
                "crt" | "default-crt" if !value.is_empty() => {
                    options.certificates.push(value.to_owned());
                }
                "crt-list" if !value.is_empty() => match self.certificate_list(line, value) {
                    Ok(files) => options.certificates.extend(files),
                    Err(reason) => self.outcomes.refuse(line, reason),
                },
                "maxconn" if values::number(value).is_some_and(|most| most > 0) => {
                    options.max_connections = values::number(value);
                }
                "mode" => options.mode = Some(value.to_owned()),
                "name" => {}
                other => match options.take(other, value) {
                    Ok(0) => taken = self.other_bind_option(line, other),
                    Ok(count) => taken = count,
                    Err(reason) => self.outcomes.refuse(line, reason),
                },
            }
            at += taken;
        }
        if options.tls && options.certificates.is_empty() {
            self.outcomes.refuse(line, "`ssl` needs a certificate: write `crt FILE`");
        }
        if options.tls {
            let of_clients = options.clients.objection().map(str::to_owned);
            for reason in of_clients.into_iter().chain(options.versions.objection()) {
                self.outcomes.refuse(line, reason);
            }
            for remark in options.versions.remarks(&self.process.bind_tls) {
                self.outcomes.differs(line, remark);
            }
        }
        (!self.outcomes.is_refused(line)).then_some((options, dual))
    }

    /// Returns the certificates of a `crt-list`.
    fn certificate_list(&mut self, line: LineId, name: &str) -> Result<Vec<String>, String> {
        let lines = self.pattern_file(name)?;
        if !self.room_for(lines.len()) {
            return Err(TOO_LARGE.to_owned());
        }
        let (mut files, mut known, mut has_more) = (Vec::new(), HashSet::new(), false);
        let asks = |entry: &String| {
            let mut words =
                entry.split(|letter: char| letter.is_whitespace() || "[]".contains(letter));
            words.any(|word| matches!(word, "verify" | "ca-file" | "crl-file"))
        };
        if lines.iter().any(asks) {
            return Err(format!(
                "`{name}` asks the clients of some names for certificates: write a `bind` with an address of its own for those names"
            ));
        }
        for entry in lines.iter() {
            let (file, rest) = entry.split_once([' ', '\t', '[']).unwrap_or((entry, ""));
            has_more |= !rest.trim().is_empty();
            if known.insert(file) {
                files.push(file.to_owned());
            }
        }
        if files.is_empty() {
            return Err(format!("`{name}` names no certificate"));
        }
        if has_more {
            self.outcomes.differs(line, "of the list the certificates are taken: the names in them decide, not its filters, and its options are those of the `bind`");
        }
        Ok(files)
    }

    /// Notes an option without a field; returns the number of its words.
    fn other_bind_option(&mut self, line: LineId, word: &str) -> usize {
        const LONE: [&str; 13] = [
            "allow-0rtt",
            "defer-accept",
            "force-sslv3",
            "generate-certificates",
            "no-ca-names",
            "no-tls-tickets",
            "tls-tickets",
            "quic-force-retry",
            "tfo",
            "transparent",
            "tcp-md5sig",
            "ktls",
            "ca-sign-use-chain",
        ];
        match keywords::find(word, "bind") {
            Some(row) => match row.handling {
                KeywordHandling::Ignored => {}
                KeywordHandling::Differently => {
                    self.outcomes.differs(line, format!("`{word}`: {}", row.note));
                }
                _ => self.outcomes.refuse(line, format!("`{word}`: {}", row.note)),
            },
            None => {
                self.outcomes
                    .refuse(line, format!("`{word}`: {}", keywords::unknown(word, "bind")));
            }
        }
        if LONE.contains(&word) { 1 } else { 2 }
    }

    fn tls_lines(&mut self, group: &BindGroup) -> Vec<Directive> {
        if !group.options.tls {
            return Vec::new();
        }
        let base = self.process.crt_base.clone();
        let mut lines: Vec<Directive> = Vec::new();
        for file in &group.options.certificates {
            let path = self.path(file, base.as_deref());
            for file in certificate_files(&self.mapped(&path), &path) {
                let mut native = NativeLine::new("certificate", group.span).value(&file);
                let key = format!("{file}.key");
                if std::path::Path::new(&self.mapped(&key)).is_file() {
                    native = native.option("key", &key);
                }
                lines.push(native.end());
            }
        }
        let mut tls = group.options.versions.options(NativeLine::new("tls", group.span));
        if group.options.strict_sni {
            tls = tls.option("names", "certificate");
        }
        lines.push(tls.end());
        lines.extend(self.client_authorities(&group.options.clients, group.span));
        lines
    }

    /// Adds the limit on connections of a section.
    fn connection_limit(
        &mut self,
        id: SectionId,
        native: NativeLine,
        options: &BindOptions,
        several: bool,
    ) -> NativeLine {
        let own = self.number(id, "maxconn").filter(|(most, _)| *most > 0);
        if let (Some((_, line)), true) = (own, several) {
            self.outcomes.differs(
                line,
                "it holds for each group of addresses with the same options by itself",
            );
        }
        let limits = [own.map(|(most, _)| most), options.max_connections];
        match limits.into_iter().flatten().min() {
            Some(most) => {
                native.option("max_connections", &most.min(u64::from(u32::MAX)).to_string())
            }
            None => native,
        }
    }

    /// Returns the lines that every address of a section has.
    fn listener_settings(
        &mut self,
        id: SectionId,
        span: SourceSpan,
        scope: &RuleScope,
    ) -> Vec<Directive> {
        let sections = self.sections;
        let mut lines = vec![self.client_timeouts(id, span), self.client_limits(id, span)];
        let path = NativeLine::new("path", span).option("normalize", "off");
        lines.push(path.option("match", "received").option("invalid", "keep").end());
        let forwarded = NativeLine::new("forwarded", span).option("x_forwarded", "off");
        lines.push(forwarded.option("received", "keep").end());
        lines.push(NativeLine::new("request_id", span).keyword("off").end());
        lines.push(NativeLine::new("upgrade", span).value("websocket").end());
        self.default(
            "http-upgrade",
            "WebSocket is passed on; HAProxy passes any protocol of `Upgrade` on",
        );
        lines.push(self.tcp_keepalive(id, "cli", span));
        let headers = self.forwarded_headers(id);
        let always = headers.iter().filter(|header| header.tests.is_empty());
        lines.extend(always.map(|header| header.replaced(sections.span(header.line))));
        if let Some(log) = self.access_log(id, scope) {
            lines.push(NativeLine::new("log", span).value(&log).end());
        }
        self.other_lines(id);
        for line in self.sections.every(id, "tcp-request inspect-delay") {
            self.outcomes.ignore(line, "Weir reads the head of a request before it applies rules");
        }
        lines
    }

    fn client_timeouts(&mut self, id: SectionId, span: SourceSpan) -> Directive {
        let client = self.time(id, "timeout client");
        let head = self.time(id, "timeout http-request");
        let keep = self.time(id, "timeout http-keep-alive");
        if client.is_none() {
            self.default("timeout client", "not set: HAProxy waits for ever; Weir waits for a day");
        }
        let shown = |time: Option<u64>| time.map_or_else(|| LONG.to_owned(), values::time);
        let handshake = self.time(id, "timeout client-hs");
        let line = NativeLine::new("timeout", span)
            .option("handshake", &shown(handshake.or(head).or(client)))
            .option("head", &shown(head.or(client)))
            .option("body", &shown(client))
            .option("keepalive", &shown(keep.or(head).or(client)))
            .option("send", &shown(client))
            .option("age", "off")
            .option("slot_min_rate", "off");
        self.half_closed(id, line).end()
    }

    /// Adds the time for clients that have not ended a tunnel which the server has ended.
    pub(super) fn half_closed(&mut self, id: SectionId, line: NativeLine) -> NativeLine {
        match self.time(id, "timeout client-fin") {
            Some(time) => line.option("half_closed", &values::time(time)),
            None => line,
        }
    }

    fn client_limits(&mut self, id: SectionId, span: SourceSpan) -> Directive {
        self.default(
            "tune.bufsize",
            "heads up to 15k, as in HAProxy; longer ones get 431 or 414, not 400",
        );
        let head = self.process.head_bytes.unwrap_or(HEAD_BYTES).to_string() + "b";
        let headers = self.process.headers.unwrap_or(101).to_string();
        let closes = self.connection_mode(id).0 == ConnectionMode::Close;
        NativeLine::new("limits", span)
            .option("head", &head)
            .option("request_line", &head)
            .option("headers", &headers)
            .option("requests", if closes { "1" } else { "off" })
            .option("hops", "off")
            .end()
    }

    /// Reads `option forwardfor` and `originalto` of a section.
    pub(super) fn forwarded_headers(&mut self, id: SectionId) -> Vec<ForwardedHeader> {
        let mut found = Vec::new();
        for (option, usual) in
            [("option forwardfor", "X-Forwarded-For"), ("option originalto", "X-Original-To")]
        {
            let Some(line) = self.option_line(id, option) else { continue };
            let (name, tests) = self.forward_options(line, usual);
            found.push(ForwardedHeader { option, line, name, tests });
        }
        found
    }

    /// Returns the lines of routes for such headers of a frontend, those that every request gets
    /// excepted, which are in the listener, and of a backend.
    pub(super) fn forward_edits(
        &mut self,
        frontend: &[ForwardedHeader],
        backend: &[ForwardedHeader],
        changed: &ChangedRequest,
    ) -> ForwardEdits {
        let mut edits = ForwardEdits::default();
        let mut added = Vec::new();
        let backend = backend.iter().map(|header| (header, false));
        for (header, in_listener) in backend.chain(frontend.iter().map(|header| (header, true))) {
            let span = self.sections.span(header.line);
            let in_listener = in_listener && header.tests.is_empty();
            let when = AclTest::all(header.tests.clone());
            if when.reads(changed) {
                self.outcomes.refuse(header.line, CHANGED);
            } else if !changed.has_header(&header.name) {
                if !in_listener {
                    edits.after.push(RuleEdit { when, line: header.replaced(span) });
                }
            } else {
                // HAProxy adds a line after all rules, and only one.
                if in_listener {
                    let line = header.as_received(span);
                    edits.before.push(RuleEdit { when: AclTest::Always(true), line });
                }
                if !added.contains(&header.option) {
                    added.push(header.option);
                    edits.after.push(RuleEdit { when, line: header.added(span) });
                }
            }
        }
        edits
    }

    /// Reads the options of such a line: the name of the header, and when it is added.
    fn forward_options(&mut self, line: LineId, usual: &str) -> (String, Vec<AclTest>) {
        let words = self.sections.words(line);
        let (mut name, mut tests, mut absent) = (usual.to_owned(), Vec::new(), false);
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let value = words.get(at + 1).map_or("", |word| word.text.as_str());
            match (word.text.as_str(), patterns::network(value)) {
                ("header", _) if !value.is_empty() => value.clone_into(&mut name),
                ("except", Ok(network)) => tests.push(AclTest::native("client", network).not()),
                ("except", Err(reason)) => self.outcomes.refuse(line, reason),
                ("if-none", _) => {
                    absent = true;
                    at += 1;
                    continue;
                }
                (other, _) => self.outcomes.refuse(line, format!("`{other}` is not known")),
            }
            at += 2;
        }
        if absent {
            tests.push(AclTest::native("header", name.clone()).not());
        }
        (name, tests)
    }

    /// Takes lines without a line of their own in the result.
    pub(super) fn other_lines(&mut self, id: SectionId) {
        for name in [
            "option dontlognull",
            "option redispatch",
            "option abortonclose",
            "option log-health-checks",
            "option persist",
            "option allbackups",
            "enabled",
        ] {
            for line in self.sections.own(id, name) {
                self.outcomes.honour(*line);
            }
        }
        {
            let keyword = "option dontlognull";
            self.option(id, keyword);
        }
    }
}

/// Adds the names of a listener, which are one in logs.
fn named(native: NativeLine, section: &str, index: usize) -> NativeLine {
    let name = section.replace(weir_unfit, "-");
    if index == 0 {
        return native.option("name", &name);
    }
    native.option("name", &format!("{name}-{}", index + 1)).option("log_name", &name)
}

/// Returns the port that all addresses have.
fn one_port(addresses: &[BindAddress]) -> Option<u16> {
    let first = addresses.first()?.port;
    addresses.iter().all(|address| address.port == first).then_some(first).flatten()
}

/// Returns true for a character that a native name cannot have.
fn weir_unfit(character: char) -> bool {
    !(character.is_ascii_alphanumeric() || "-_.:".contains(character))
}

/// Returns the certificates that a `crt` names: a file, or those of a folder in their order. The
/// folder may be read elsewhere.
fn certificate_files(folder: &str, path: &str) -> Vec<String> {
    let Ok(folder) = std::fs::read_dir(folder) else { return vec![path.to_owned()] };
    let mut files: Vec<String> = folder
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .filter_map(|found| Some(format!("{path}/{}", found.file_name()?.to_string_lossy())))
        .filter(|name| {
            let extension = name.rsplit('.').next().unwrap_or_default();
            !matches!(extension, "key" | "ocsp" | "issuer" | "sctl") && !name.contains("/.")
        })
        .collect();
    files.sort();
    files
}
