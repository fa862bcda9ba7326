//! Checks `listen ADDRESS… { … }`: addresses, TLS, limits, host blocks and routes. It opens no
//! socket.

use std::net::SocketAddr;
use std::path::PathBuf;

use foldhash::{HashMap, HashMapExt};

use super::arguments::{ArgumentValue, Arguments};
use super::checker::Checker;
use super::pool::size_or_off;
use super::route::{BlockRoutes, CommonLines};
use crate::defaults::UNLIMITED;
use crate::diagnostic::Diagnostic;
use crate::directives::Context;
use crate::model::{
    CauseHeader, Certificate, ClientAuthority, ClientTimeouts, ClientVerification, ErrorPage,
    ExplainHeader, ExplainWhen, Forwarded, Grpc, HeaderNames, Http2, ListenAddress, Listener,
    MessageLimits, PathRules, Protocol, ReceivedForwarded, RequestIdSettings, Rule, ServedNames,
    Site, TcpKeepalive, TlsProtocol, TlsServer, values,
};
use crate::pattern::HostPattern;
use crate::source::SourceSpan;
use crate::units::size;

impl<'a> Checker<'a> {
    pub(super) fn listen(&mut self, arguments: &Arguments<'a>) -> Listener {
        let mut listener = self.empty_listener(arguments);
        let lines = self.block(arguments.block(), Context::Listen);
        self.tls_of(arguments, &lines, &mut listener);
        let mut edits = CommonLines::default();
        for line in &lines {
            self.line(line, &mut edits);
            self.listener_line(line, &mut listener);
            self.note_setting(line);
            if line.name() == "limit" {
                self.listener_limit(line, &mut listener);
            }
        }
        listener.access = edits.access;
        listener.request_headers = edits.request_headers;
        listener.response_headers = edits.response_headers;
        listener.upgrade = edits.upgrade.unwrap_or(listener.upgrade);
        self.routes(arguments, &lines, &mut listener);
        if listener.protocol == Protocol::Tcp {
            self.tcp_listener(arguments, &listener);
        }
        listener
    }

    fn empty_listener(&mut self, arguments: &Arguments<'a>) -> Listener {
        let mode = self.setting(arguments, "mode", values::mode);
        let addresses = self.addresses(arguments, mode);
        let unix = |address: &ListenAddress| address.file().is_some();
        if let Some(value) = arguments.option("mode").filter(|_| !addresses.iter().any(unix)) {
            self.report(Diagnostic::error(
                value.word.span,
                "`mode=` applies to Unix sockets with a file only",
            ));
        }
        let name = self.setting(arguments, "name", values::name);
        let log_name = self.setting(arguments, "log_name", values::name);
        let first = arguments.word(0).map_or("", |value| value.text());
        Listener {
            name: name.unwrap_or_else(|| first.to_owned()),
            log_name,
            addresses,
            reuseport: arguments.flag("reuseport"),
            proxy_protocol: Vec::new(),
            protocol: if arguments.flag("tcp") { Protocol::Tcp } else { Protocol::Http },
            tls: None,
            http2: Http2::default(),
            grpc: Grpc::default(),
            max_connections: arguments
                .option("max_connections")
                .and_then(|value| self.count(value, 1)),
            timeouts: ClientTimeouts::default(),
            tcp_keepalive: TcpKeepalive::default(),
            limits: MessageLimits::default(),
            client_limit: None,
            rate_limits: Vec::new(),
            in_flight_limits: Vec::new(),
            bandwidth: None,
            logs: Vec::new(),
            forwarded: self.forwarded.clone(),
            request_id: RequestIdSettings::default(),
            cause_header: None,
            explain_header: None,
            path: PathRules::default(),
            header_names: HeaderNames::default(),
            upgrade: crate::defaults::upgrade(),
            access: Vec::new(),
            request_headers: Vec::new(),
            response_headers: Vec::new(),
            error_pages: Vec::new(),
            error_targets: Vec::new(),
            sites: Vec::new(),
            default: Vec::new(),
        }
    }

    fn addresses(&mut self, arguments: &Arguments<'a>, mode: Option<u32>) -> Vec<ListenAddress> {
        let mut list = Vec::new();
        for value in &arguments.words {
            if matches!(value.text(), "udp" | "ssl" | "http2" | "quic") && value.word.is_bare() {
                self.protocol_word(*value);
                continue;
            }
            let text = self.address_text(*value);
            let Some(address) = self.value(*value, |_| values::listen_address(&text, mode)) else {
                continue;
            };
            if let Some(first) = self.address_taken(&address) {
                self.report(listened_already(*value, &address, first));
            }
            self.addresses.insert(address.clone(), value.span());
            list.push(address);
        }
        list
    }

    fn protocol_word(&mut self, value: ArgumentValue<'a>) {
        if value.text() == "ssl" {
            self.report(
                Diagnostic::error(value.span(), "`ssl` is not an address")
                    .label("did you mean `tls`?"),
            );
        } else if value.text() == "http2" {
            let error = Diagnostic::error(value.span(), "`http2` is not an address");
            self.report(error.help("add `http2 on;` to its block"));
        } else {
            self.later(value.text(), value.span());
        }
    }

    /// Returns the place at which a conflicting address is used. Port 0 is a new port each time.
    /// Two Unix sockets with the same path conflict whatever their modes.
    pub(super) fn address_taken(&self, address: &ListenAddress) -> Option<SourceSpan> {
        let same = |other: &ListenAddress| match (address, other) {
            (ListenAddress::Socket(address), ListenAddress::Socket(other)) => {
                overlap(*address, *other)
            }
            (ListenAddress::Unix { path, .. }, ListenAddress::Unix { path: other, .. }) => {
                path == other
            }
            _ => false,
        };
        self.addresses.iter().find(|(other, _)| same(other)).map(|(_, span)| *span)
    }

    fn tls_of(
        &mut self,
        arguments: &Arguments<'a>,
        lines: &[Arguments<'a>],
        listener: &mut Listener,
    ) {
        let certificates: Vec<Certificate> = lines
            .iter()
            .filter(|line| line.name() == "certificate")
            .filter_map(|line| {
                let key = line.option("key").map(|value| self.path(value));
                line.word(0).map(|chain| Certificate { chain: self.path(chain), key })
            })
            .collect();
        let protocol = lines.iter().find(|line| line.name() == "tls");
        if let Some(tls) = arguments.option("tls") {
            if certificates.is_empty() {
                let error =
                    Diagnostic::error(tls.word.span, "a `tls` listener needs a certificate");
                self.report(error.help("add `certificate FILE key=FILE;` to its block"));
            }
            let names = protocol.and_then(|line| self.setting(line, "names", values::served_names));
            if let (Some(line), Some(ServedNames::Host)) = (protocol, names)
                && !lines.iter().any(|line| line.name() == "host")
            {
                let message = "no handshake is made here: `names=host` without a `host` block";
                self.report(Diagnostic::warning(line.directive.name.span, message));
            }
            let prefer =
                protocol.and_then(|line| self.setting(line, "prefer", values::cipher_preference));
            let protocol =
                protocol.map_or_else(TlsProtocol::default, |line| self.tls_protocol(line));
            let clients = lines.iter().find(|line| line.name() == "client_ca");
            let clients = clients.and_then(|line| self.client_authority(line));
            listener.tls = Some(TlsServer {
                certificates,
                protocol,
                clients,
                names: names.unwrap_or_default(),
                prefer,
            });
            return;
        }
        let stray =
            lines.iter().find(|line| matches!(line.name(), "certificate" | "tls" | "client_ca"));
        if let Some(line) = stray {
            let message = format!("`{}` has no effect: this listener is plain", line.name());
            let error = Diagnostic::error(line.directive.name.span, message);
            let place = arguments.word(0).map_or(arguments.span(), |value| value.span());
            self.report(error.related(place, "`tls` is missing here, after the addresses"));
        }
    }

    fn client_authority(&mut self, line: &Arguments<'a>) -> Option<ClientAuthority> {
        let ca = self.path(line.word(0)?);
        let trusted = line.option("trusted").map(|value| self.path(value));
        let crl = line.option("crl").map(|value| self.path(value));
        let verify = self.setting(line, "verify", |text| match text {
            "required" => Ok(ClientVerification::Required),
            "optional" => Ok(ClientVerification::Optional),
            "request" => Ok(ClientVerification::Request),
            _ => Err(format!("`{text}` is not `required`, `optional` or `request`")),
        });
        Some(ClientAuthority { ca, trusted, crl, verify: verify.unwrap_or_default() })
    }

    fn listener_line(&mut self, line: &Arguments<'a>, listener: &mut Listener) {
        match line.name() {
            "log" => listener.logs = self.use_logs(line),
            "timeout" => {
                let timeouts = &mut listener.timeouts;
                self.set(line, "handshake", &mut timeouts.handshake, values::wait);
                self.set(line, "head", &mut timeouts.head, values::wait);
                self.set(line, "body", &mut timeouts.body, values::wait);
                self.set(line, "keepalive", &mut timeouts.keepalive, values::wait);
                self.set(line, "send", &mut timeouts.send, values::wait);
                self.set(line, "request", &mut timeouts.request, values::wait_or_off);
                self.set(line, "age", &mut timeouts.age, values::wait_or_off);
                self.set(line, "min_rate", &mut timeouts.min_rate, values::rate_or_off);
                self.set(line, "slot_min_rate", &mut timeouts.slot_min_rate, values::rate_or_off);
                self.set(line, "after", &mut timeouts.after, values::wait);
                self.set(line, "half_closed", &mut timeouts.half_closed, values::wait_or_off);
            }
            "path" => self.path_rules(line, &mut listener.path),
            "header_names" => {
                let names = &mut listener.header_names;
                self.set(line, "underscores", &mut names.underscores, values::name_treatment);
                self.set(line, "unusual", &mut names.unusual, values::name_treatment);
            }
            "tcp_keepalive" => self.tcp_keepalive(line, &mut listener.tcp_keepalive),
            "limits" => self.limits(line, &mut listener.limits),
            "http2" => self.http2(line, &mut listener.http2),
            "grpc" => {
                listener.grpc = Grpc { metrics: line.flag("metrics"), web: line.flag("web") };
            }
            "proxy_protocol" => {
                listener.proxy_protocol = match line.words.as_slice() {
                    [only] if only.text() == "all" => values::all_networks(),
                    words => self.networks(words),
                };
            }
            "trusted_proxies" => self.trusted_proxies(line, &mut listener.forwarded),
            "forwarded" => {
                self.set(line, "x_forwarded", &mut listener.forwarded.x_forwarded, values::on_off);
                self.set(line, "forwarded", &mut listener.forwarded.forwarded, values::on_off);
                let received = &mut listener.forwarded.received;
                self.set(line, "received", received, |text| match text {
                    "keep" => Ok(ReceivedForwarded::Keep),
                    "drop" => Ok(ReceivedForwarded::Drop),
                    other => Err(format!("`{other}` is neither `drop` nor `keep`")),
                });
            }
            "request_id" => {
                let off = line.word(0).filter(|value| value.text() == "off");
                listener.request_id.respond = line.flag("respond");
                if off.is_some() {
                    listener.request_id.header = None;
                } else if let Some(value) = line.word(0) {
                    listener.request_id.header = self.value(value, values::header_name);
                }
                if let (Some(_), Some(respond)) = (off, line.option("respond")) {
                    self.report(Diagnostic::error(respond.word.span, "`respond` needs a header"));
                }
            }
            "cause_header" => listener.cause_header = self.cause_header(line),
            "explain_header" => listener.explain_header = self.explain_header(line),
            "error_page" if line.target.is_some() => {
                listener.error_targets.extend(self.error_target(line));
            }
            "error_page" => listener.error_pages.extend(self.error_page(line)),
            _ => {}
        }
    }

    pub(super) fn trusted_proxies(&mut self, line: &Arguments<'a>, forwarded: &mut Forwarded) {
        forwarded.trusted = self.networks(&line.words);
        forwarded.header = self.setting(line, "header", values::header_name);
        forwarded.recursive = true;
        self.set(line, "recursive", &mut forwarded.recursive, values::on_off);
    }

    pub(super) fn tcp_keepalive(&mut self, line: &Arguments<'a>, probes: &mut TcpKeepalive) {
        probes.on = !self.is_off(line, line.word(0));
        let seconds = |text: &str| {
            let wait = values::wait(text)?;
            values::probe_seconds(wait).map(|()| wait)
        };
        self.set(line, "idle", &mut probes.idle, seconds);
        self.set(line, "interval", &mut probes.interval, seconds);
        self.set(line, "probes", &mut probes.probes, |text| {
            values::whole(text, 1, values::MOST_PROBES).map(|number| number as u32)
        });
        self.set(line, "user_timeout", &mut probes.user_timeout, values::wait_or_off);
    }

    /// Returns the logs of a listener or a route.
    pub(super) fn use_logs(&mut self, line: &Arguments<'a>) -> Vec<String> {
        if let [only] = line.words.as_slice()
            && only.text() == "off"
            && !self.log_names.contains_key("off")
        {
            return Vec::new();
        }
        let mut logs = Vec::new();
        for value in &line.words {
            if self.log_names.contains_key(value.text()) {
                self.used_logs.insert(value.text());
                logs.push(value.text().to_owned());
            } else {
                let names = self.log_names.keys().copied().collect();
                self.unknown("log", *value, names);
            }
        }
        logs
    }

    fn limits(&mut self, line: &Arguments<'a>, limits: &mut MessageLimits) {
        self.set(line, "head", &mut limits.head_bytes, |text| {
            let bytes = size::parse(text)?;
            values::head_bytes(bytes).map(|()| bytes as usize)
        });
        self.set(line, "request_line", &mut limits.request_line_bytes, |text| {
            let bytes = size::parse(text)?;
            values::request_line_bytes(bytes).map(|()| bytes as usize)
        });
        self.set(line, "headers", &mut limits.headers, |text| {
            values::whole(text, 1, values::MAX_HEADERS).map(|number| number as usize)
        });
        self.set(line, "body", &mut limits.body_bytes, size_or_off);
        self.set(line, "requests", &mut limits.requests, |text| match text {
            "off" => Ok(UNLIMITED),
            _ => values::whole(text, 1, u64::MAX),
        });
        self.set(line, "hops", &mut limits.hops, |text| match text {
            "off" => Ok(None),
            _ => values::whole(text, 1, values::MAX_HOPS).map(|number| Some(number as u16)),
        });
    }

    fn http2(&mut self, line: &Arguments<'a>, http2: &mut Http2) {
        if let Some(mode) = line.word(0).and_then(|word| self.value(word, values::http2_mode)) {
            http2.mode = mode;
        }
        self.set(line, "streams", &mut http2.streams, |text| {
            values::whole(text, 1, values::MAX_HTTP2_STREAMS).map(|number| number as u32)
        });
        self.set(line, "window", &mut http2.window, |text| {
            let bytes = size::parse(text)?;
            values::http2_window(bytes).map(|()| bytes as usize)
        });
    }

    fn path_rules(&mut self, line: &Arguments<'a>, rules: &mut PathRules) {
        self.set(line, "normalize", &mut rules.normalize, values::on_off);
        self.set(line, "match", &mut rules.matched, values::matched_path);
        self.set(line, "merge_slashes", &mut rules.merge_slashes, values::on_off);
        self.set(line, "encoded_slash", &mut rules.encoded_slash, values::treatment);
        self.set(line, "backslash", &mut rules.backslash, values::treatment);
        self.set(line, "parameters", &mut rules.parameters, values::treatment);
        self.set(line, "nul", &mut rules.nul, values::treatment);
        self.set(line, "invalid", &mut rules.invalid, values::treatment);
        let others = ["encoded_slash", "backslash", "parameters", "nul"];
        let other = others.iter().find_map(|name| line.option(name));
        if let (false, Some(other)) = (rules.normalize, other) {
            let error = Diagnostic::error(
                other.word.span,
                "this has no effect with `normalize=off`, which keeps them",
            );
            self.report(error.help("remove one of the two"));
        }
        if let (true, Some(form)) = (rules.normalize, line.option("match")) {
            let error = Diagnostic::error(
                form.word.span,
                "this has no effect without `normalize=off`: routes match the path that is sent",
            );
            self.report(error.help("remove it"));
        }
    }

    fn cause_header(&mut self, line: &Arguments<'a>) -> Option<CauseHeader> {
        let trusted = line.flag("trusted");
        let header = match line.word(0) {
            None => CauseHeader::default().header,
            Some(value) => self.value(value, values::header_name)?,
        };
        Some(CauseHeader { header, trusted })
    }

    fn explain_header(&mut self, line: &Arguments<'a>) -> Option<ExplainHeader> {
        let trusted = line.flag("trusted");
        let header = match line.word(0) {
            None => ExplainHeader::default().header,
            Some(value) => self.value(value, values::header_name)?,
        };
        let when = match line.option("when") {
            None => None,
            Some(value) => Some(self.value(value, |text| {
                let (name, value) = text.split_once('=').unzip();
                let header = values::request_header(name.unwrap_or(text))?;
                let value = value.map(str::to_owned);
                value.as_deref().map_or(Ok(()), values::explain_value)?;
                Ok(ExplainWhen { header, value })
            })?),
        };
        if when.is_none() && !trusted {
            let error = Diagnostic::error(line.span(), values::EXPLAINED_TO_ALL);
            self.report(error.help(line.spec.example));
            return None;
        }
        Some(ExplainHeader { header, when, trusted })
    }

    fn error_page(&mut self, line: &Arguments<'a>) -> Option<ErrorPage> {
        let content_type =
            self.setting(line, "type", |text| values::line_text(text).map(|()| text.to_owned()));
        let content_type = content_type.unwrap_or_else(|| crate::defaults::RESPOND_TYPE.to_owned());
        if let Some(text) = line.option("text") {
            let statuses = line.words.iter();
            let statuses =
                statuses.filter_map(|value| self.value(*value, values::error_status)).collect();
            let text = Some(self.template(text)?);
            return Some(ErrorPage { statuses, page: PathBuf::new(), text, content_type });
        }
        let (file, statuses) = line.words.split_last()?;
        if file.text().parse::<u16>().is_ok() || statuses.is_empty() {
            let error =
                Diagnostic::error(file.span(), "`error_page` needs a file after the statuses");
            self.report(error.help(line.spec.example));
            return None;
        }
        if let Some((name, value)) = line.options.first() {
            let message = format!("`{name}` has no effect with a file");
            let error = Diagnostic::error(value.word.span, message);
            self.report(error.help("write `-> internal PATH` for a page that a route serves"));
        }
        let statuses =
            statuses.iter().filter_map(|value| self.value(*value, values::error_status)).collect();
        Some(ErrorPage::of_file(statuses, self.path(*file)))
    }

    fn routes(
        &mut self,
        arguments: &Arguments<'a>,
        lines: &[Arguments<'a>],
        listener: &mut Listener,
    ) {
        let listener_part = self.part.clone();
        let part = format!("{listener_part}.default");
        let mut list = BlockRoutes::new(&listener.name, "default", part);
        let mut catch_all: Option<SourceSpan> = None;
        let mut hosts = HashMap::new();
        for line in lines {
            match line.name() {
                "host" => {
                    self.unreachable(line.directive.name.span, "host block", catch_all);
                    let part = format!("{listener_part}.sites[{}]", listener.sites.len());
                    self.begin_part(part, line.span());
                    let site = self.site(line, &listener.name, &mut hosts);
                    self.part.clone_from(&listener_part);
                    let any = site.hosts.iter().any(HostPattern::is_any);
                    catch_all = catch_all.or(any.then(|| line.span()));
                    listener.sites.push(site);
                }
                "sni" => {
                    self.unreachable(line.directive.name.span, "line", catch_all);
                    let part = format!("{listener_part}.sites[{}]", listener.sites.len());
                    self.begin_part(part, line.span());
                    let site = self.sni(line, &listener.name, &mut hosts);
                    self.part.clone_from(&listener_part);
                    listener.sites.push(site);
                }
                "route" => {
                    self.unreachable(line.directive.name.span, "route", catch_all);
                    self.route(line, &mut list);
                }
                _ => {}
            }
        }
        self.names_fit(lines, listener.protocol);
        // The target for all other requests comes last, wherever it is written.
        let last =
            |line: &&Arguments<'_>| matches!(line.name(), "default" | "redirect" | "respond");
        let rest: Vec<&Arguments<'a>> = lines.iter().filter(last).collect();
        self.rest(arguments, &rest, &mut list, catch_all);
        listener.default = list.routes;
        if listener.sites.is_empty() && listener.default.is_empty() && !self.is_wrong() {
            let error = Diagnostic::error(
                arguments.span(),
                match listener.protocol {
                    Protocol::Http => "this listener has no routes: every request would get 404",
                    Protocol::Tcp => "this listener has no routes: every connection would end",
                },
            );
            self.report(error.help("add `-> TARGET`, or a block with `route -> TARGET;`"));
        }
    }

    /// Checks the target for all other requests. It is one of `-> TARGET` of the listener,
    /// `default`, `redirect` and `respond`.
    fn rest(
        &mut self,
        arguments: &Arguments<'a>,
        lines: &[&Arguments<'a>],
        list: &mut BlockRoutes,
        catch_all: Option<SourceSpan>,
    ) {
        let mut first = None;
        if arguments.target.is_some() {
            first = Some(arguments.span());
            if let Some(action) = self.target(arguments) {
                list.push(Rule::All(Vec::new()), action);
                self.places.note(&list.last_part(), arguments.span());
            }
        }
        for line in lines {
            let place = line.directive.name.span;
            if let Some(first) = first {
                let error = Diagnostic::error(place, "this listener has a default target already");
                self.report(error.related(first, "first here"));
            }
            first = first.or(Some(place));
            self.unreachable(place, "line", catch_all);
            if line.name() == "default" {
                self.route(line, list);
                continue;
            }
            let to_itself = line.name() == "redirect" && arguments.flag("tls");
            if to_itself && line.word(0).is_some_and(|value| value.text() == "https") {
                let warning =
                    Diagnostic::warning(place, "this redirects HTTPS to itself in a loop")
                        .code("redirect-loop");
                self.report(
                    warning
                        .help("it belongs in the plain listener, `listen :80 { redirect https; }`"),
                );
            }
            if let Some(action) = self.own_answer(line) {
                list.push(Rule::All(Vec::new()), action);
                self.places.note(&list.last_part(), line.span());
            }
        }
    }

    fn site(
        &mut self,
        line: &Arguments<'a>,
        listener: &str,
        earlier: &mut HashMap<String, SourceSpan>,
    ) -> Site {
        let hosts = self.host_patterns(line, "a host block", earlier);
        let first = hosts.first().map_or("", HostPattern::as_str);
        let part = format!("{}.routes", self.part);
        let mut list = BlockRoutes::new(listener, first, part);
        for route in self.block(line.block(), Context::Host) {
            self.route(&route, &mut list);
        }
        if line.directive.block.as_ref().is_some_and(|block| block.directives.is_empty()) {
            let error = Diagnostic::error(
                line.span(),
                "this host block has no routes: every request would get 404",
            );
            self.report(error.help("add `route -> TARGET;`"));
        }
        Site { hosts, routes: list.routes }
    }
}

impl<'a> Checker<'a> {
    /// Parses the names of a host block or an `sni` line; `what` is the one of both.
    pub(super) fn host_patterns(
        &mut self,
        line: &Arguments<'a>,
        what: &str,
        earlier: &mut HashMap<String, SourceSpan>,
    ) -> Vec<HostPattern> {
        let mut hosts: Vec<HostPattern> = Vec::new();
        for value in &line.words {
            let Some(host) = self.value(*value, str::parse::<HostPattern>) else { continue };
            let name = host.as_str().to_ascii_lowercase();
            if let Some(first) = earlier.get(&name).copied() {
                let error = Diagnostic::error(
                    value.span(),
                    format!("there is {what} for `{}` already", host.as_str()),
                );
                self.report(error.related(first, "first here"));
            } else {
                earlier.insert(name, value.span());
            }
            hosts.push(host);
        }
        hosts
    }
}

pub(super) fn listened_already(
    value: ArgumentValue<'_>,
    address: &ListenAddress,
    first: SourceSpan,
) -> Diagnostic {
    let error = Diagnostic::error(
        value.span(),
        format!("`{}` is already in use by another `listen`, `admin` or `agent`", value.text()),
    );
    let error = error.related(first, "first here");
    match address {
        ListenAddress::Socket(address) if address.ip().is_unspecified() => {
            error.help("`:80` and `[::]:80` accept IPv4 too")
        }
        _ => error,
    }
}

/// Returns true if both cannot be bound: the same address, or one that covers the other.
fn overlap(left: SocketAddr, right: SocketAddr) -> bool {
    let both = |address: SocketAddr| address.ip().is_unspecified() && address.is_ipv6();
    let wildcard =
        |address: SocketAddr, other: SocketAddr| both(address) && other.ip().is_unspecified();
    left.port() == right.port()
        && left.port() != 0
        && (left.ip() == right.ip() || wildcard(left, right) || wildcard(right, left))
}
