//! Gathers the account of a request's way from its trace and the configuration: what each step is
//! called in the file, and its place there.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;
use weir_config::model::{
    Action, EndpointAddress, Files, HeaderEdit, Listener, Pool, Protocol, Route, RouteTimeouts,
    Secret,
};
use weir_config::source::FileId;
use weir_config::{Checked, Config};
use weir_control::trace::{
    AccessTrace, ChosenBy, PickTrace, PoolTrace, RequestTrace, TraceEnd, TracedRequest, TriedRoute,
};
use weir_stats::Template;

use super::account::{Account, AccountLine, ConditionLine, Outcome, PathForms, RouteLine};
use super::ask::shown;

/// The sources of an account.
pub(super) struct AccountWriter<'a> {
    checked: &'a Checked,
    request: &'a TracedRequest<'a>,
    trace: &'a RequestTrace,
    /// The ends of the lines of each file, so that a long file is read once.
    line_ends: RefCell<HashMap<FileId, Vec<usize>>>,
}

impl<'a> AccountWriter<'a> {
    pub(super) fn new(
        checked: &'a Checked,
        request: &'a TracedRequest<'a>,
        trace: &'a RequestTrace,
    ) -> Self {
        Self { checked, request, trace, line_ends: RefCell::default() }
    }

    /// Returns the account; `note` is a remark about the listener.
    pub(super) fn account(&self, note: Option<String>) -> Account {
        let trace = self.trace;
        let mut depends = self.depends();
        depends.extend(note);
        Account {
            client: trace.client.map(|client| client.to_string()),
            listener: self.listener(),
            hosts: self.hosts(),
            routes: self.routes(),
            access: self.access(),
            path: PathForms {
                received: trace.path.received.clone(),
                matched: trace.path.matched.clone(),
                sent: trace.path.sent.clone(),
            },
            rewrites: self.rewrites(),
            limits: self.limits(),
            request_headers: self.edits(true),
            response_headers: self.edits(false),
            response_rules: self.response_rules(),
            outcome: self.outcome(),
            depends,
        }
    }

    fn config(&self) -> &'a Config {
        &self.checked.config
    }

    fn model(&self) -> Option<&'a Listener> {
        self.config().listeners.get(self.request.listener)
    }

    /// Returns the part of the configuration, and the model, of the route that the request takes.
    fn route(&self) -> Option<(&'a str, &'a Route)> {
        let last = self.trace.routes.last().filter(|route| route.condition.holds)?;
        let listener = self.model()?;
        let index = last.part.rsplit_once('[')?.1.trim_end_matches(']').parse::<usize>().ok()?;
        let site = self.trace.hosts.iter().position(|host| host.matching.is_some());
        let routes = match site {
            Some(site) => &listener.sites.get(site)?.routes,
            None => &listener.default,
        };
        Some((&last.part, routes.get(index)?))
    }

    fn place(&self, part: &str) -> Option<String> {
        let span = self.checked.places.find(part)?;
        let source = self.checked.sources.file(span.file);
        let mut line_ends = self.line_ends.borrow_mut();
        let ends = line_ends
            .entry(span.file)
            .or_insert_with(|| source.text.match_indices('\n').map(|(at, _)| at).collect());
        let line = ends.partition_point(|end| *end < span.start) + 1;
        Some(format!("{}:{line}", source.name))
    }

    fn at(&self, part: &str, text: impl Into<String>) -> AccountLine {
        AccountLine { place: self.place(part), matches: None, text: text.into() }
    }

    fn listener(&self) -> AccountLine {
        let part = format!("listeners[{}]", self.request.listener);
        let addresses: Vec<String> =
            self.model().map_or(&[][..], |one| &one.addresses).iter().map(shown).collect();
        let tls = if self.request.tls { ", over TLS" } else { "" };
        let name = self.model().map_or("", |one| &one.name);
        let mut text = format!("{name} ({}){tls}", addresses.join(" "));
        if self.trace.peer_is_trusted {
            text.push_str("; the peer is a trusted proxy, and its headers tell the client");
        }
        self.at(&part, text)
    }

    fn hosts(&self) -> Vec<AccountLine> {
        let mut lines: Vec<AccountLine> = Vec::new();
        for host in &self.trace.hosts {
            let mut text = host.patterns.join(" ");
            if let Some(matching) = host.matching.as_ref().filter(|_| host.patterns.len() > 1) {
                let _ = write!(text, ": {matching} matches");
            }
            let matches = Some(host.matching.is_some());
            lines.push(AccountLine { matches, ..self.at(&host.part, text) });
        }
        if lines.last().is_some_and(|last| last.matches == Some(false)) {
            let part = format!("listeners[{}]", self.request.listener);
            lines.push(self.at(&part, "no host block: the routes outside them are tried"));
        }
        lines
    }

    fn routes(&self) -> Vec<RouteLine> {
        let line = |route: &TriedRoute| RouteLine {
            place: self.place(&route.part),
            name: route.name.clone(),
            matches: route.condition.holds,
            condition: ConditionLine::of(&route.condition),
        };
        self.trace.routes.iter().map(line).collect()
    }

    fn access(&self) -> Vec<AccountLine> {
        let line = |access: &AccessTrace| {
            let text = match (access.decided, access.allowed) {
                (false, _) => "no access rule matches: the client is allowed",
                (true, true) => "allows the client",
                (true, false) => "denies the client",
            };
            self.at(&access.part, text)
        };
        self.trace.access.iter().map(line).collect()
    }

    fn rewrites(&self) -> Vec<AccountLine> {
        let Some((part, route)) = self.route() else { return Vec::new() };
        let lines = route.rewrite.iter().enumerate().map(|(index, change)| {
            let text = match value(change) {
                Value::Object(fields) => {
                    let mut fields = fields.iter();
                    let first = fields.next();
                    first.map_or(String::new(), |(kind, value)| format!("{kind} {}", words(value)))
                }
                other => plain(&other),
            };
            self.at(&format!("{part}.rewrite[{index}]"), text)
        });
        lines.collect()
    }

    fn response_rules(&self) -> Vec<AccountLine> {
        let Some((part, route)) = self.route() else { return Vec::new() };
        let line = |rule: String, when: Option<&Template>, effect: String| {
            let when = when.map_or(String::new(), |when| format!(" if `{}`", when.as_str()));
            self.at(&format!("{part}.responses.{rule}"), format!("{effect}{when}"))
        };
        let intercepts = route.responses.intercept.iter().enumerate().map(|(index, rule)| {
            let effect = format!("discarded for {}", rule.to.as_str());
            line(format!("intercept[{index}]"), rule.when.as_ref(), effect)
        });
        let statuses = route.responses.status.iter().enumerate().map(|(index, rule)| {
            let effect = format!("sent with status {}", rule.status);
            line(format!("status[{index}]"), rule.when.as_ref(), effect)
        });
        intercepts.chain(statuses).collect()
    }

    fn edits(&self, request: bool) -> Vec<AccountLine> {
        let field = if request { "request_headers" } else { "response_headers" };
        let mut lines = Vec::new();
        let mut add = |part: &str, edits: &[HeaderEdit]| {
            for (index, edit) in edits.iter().enumerate() {
                let mut text = match edit.plain() {
                    HeaderEdit::Set(name, value) => format!("set {name} `{}`", value.as_str()),
                    HeaderEdit::Add(name, value) => format!("add {name} `{}`", value.as_str()),
                    HeaderEdit::Remove(name) => format!("remove {name}"),
                    HeaderEdit::RemoveMatching(names) => format!("remove {}", names.as_str()),
                    HeaderEdit::Replace(name, pattern, value) => {
                        format!("replace {name} `{pattern}` `{}`", value.as_str())
                    }
                    HeaderEdit::ReplaceItem(name, pattern, value) => {
                        format!("replace_item {name} `{pattern}` `{}`", value.as_str())
                    }
                    HeaderEdit::ReplaceAttribute(name, attribute, pattern, value) => {
                        let value = value.as_str();
                        format!("replace_attribute {name} {attribute} `{pattern}` `{value}`")
                    }
                    HeaderEdit::ReplacePrefix(name, from, to) => {
                        format!("replace_prefix {name} `{}` `{}`", from.as_str(), to.as_str())
                    }
                    // A plain change is none.
                    HeaderEdit::When(..) | HeaderEdit::SendEmpty(_) => String::new(),
                };
                if edit.sends_empty() {
                    text.push_str(" empty=send");
                }
                if let Some(condition) = edit.condition() {
                    let _ = write!(text, " if `{}`", condition.as_str());
                }
                lines.push(self.at(&format!("{part}.{field}[{index}]"), text));
            }
        };
        let Some((part, route)) = self.route() else { return lines };
        let (of_listener, of_route): (&[_], &[_]) = match (self.model(), request) {
            (Some(one), true) => (&one.request_headers, &route.request_headers),
            (Some(one), false) => (&one.response_headers, &route.response_headers),
            (None, _) => (&[], &[]),
        };
        // Request headers go to a pool only.
        if request && !matches!(self.trace.end, TraceEnd::Pool(_)) {
            return lines;
        }
        add(&format!("listeners[{}]", self.request.listener), of_listener);
        add(part, of_route);
        lines
    }

    fn outcome(&self) -> Outcome {
        let route_place = self.route().and_then(|(part, _)| self.place(part));
        let end = |kind, status, text: String| Outcome {
            kind,
            place: route_place.clone(),
            text,
            status,
            details: Vec::new(),
            server: None,
            runner_up: None,
            head: None,
        };
        if let Some(files) = self.missing_directory() {
            let root = files.root.display();
            let text = format!("a file from {root}, a directory that is not on this machine");
            return end("files", None, text);
        }
        match &self.trace.end {
            TraceEnd::Refused { status, reason } => {
                end("refused", Some(*status), format!("refused with {status}: {reason}"))
            }
            // The trace goes on after it.
            TraceEnd::Internal | TraceEnd::NoRoute => {
                let part = format!("listeners[{}]", self.request.listener);
                let text = match self.model().map(|one| one.protocol) {
                    Some(Protocol::Tcp) => "no route matches: the connection ends",
                    _ => "404: no route matches",
                };
                let end = end("no_route", Some(404), text.to_owned());
                Outcome { place: self.place(&part), ..end }
            }
            TraceEnd::Pool(pool) => self.pool(pool),
            TraceEnd::Respond { status, content_type, body } => {
                let body = match body {
                    Some(body) => format!("{content_type}: {body}"),
                    None => "with the page of the status".to_owned(),
                };
                end("respond", Some(*status), format!("responds {status}, {body}"))
            }
            TraceEnd::Redirect { status, location: Some(location) } => {
                end("redirect", Some(*status), format!("redirects with {status} to {location}"))
            }
            TraceEnd::Redirect { location: None, .. } => {
                let text = "400: the redirect would have no host".to_owned();
                end("refused", Some(400), text)
            }
            TraceEnd::Files { root, status, header } => {
                let header = header.as_ref().map(|(name, value)| format!(", {name}: {value}"));
                let header = header.unwrap_or_default();
                end("files", Some(*status), format!("{status} from {root}{header}"))
            }
        }
    }

    /// Returns the directory that a route serves, if it is not on this machine.
    fn missing_directory(&self) -> Option<&'a Files> {
        match (&self.trace.end, &self.route()?.1.action) {
            (TraceEnd::Respond { .. }, Action::Files(files)) => Some(files),
            _ => None,
        }
    }

    fn pool(&self, trace: &PoolTrace) -> Outcome {
        let part = format!("pools[{}]", trace.number);
        let pool = self.config().pools.get(trace.number);
        let name = pool.map_or("", |pool| &pool.name);
        let mut details =
            vec![self.at(&format!("{part}.policy"), format!("policy {}", trace.policy))];
        if let Some(key) = &trace.key {
            let text = if trace.key_is_random {
                "its key is empty: such a request goes to any server".to_owned()
            } else {
                format!("its key is `{key}`")
            };
            details.push(self.at(&format!("{part}.policy"), text));
        }
        if let Some(sticky) = trace.sticky {
            details.push(self.at(&format!("{part}.sticky"), sticky));
        }
        let server = |index: usize| server(pool, index);
        let line = |index, text| self.at(&format!("{part}.endpoints[{index}]"), text);
        let (mut chosen, mut runner_up) = (None, None);
        match &trace.pick {
            Ok(pick) => {
                let alone = pool.is_some_and(|pool| pool.endpoints.len() == 1);
                let why = if alone { "the only one" } else { reason(pick) };
                let text = format!("server {}: {why}", server(pick.endpoint));
                details.push(line(pick.endpoint, text));
                chosen = Some(server(pick.endpoint));
                if let Some(second) = pick.runner_up {
                    details.push(line(second, format!("runner-up {}", server(second))));
                    runner_up = Some(server(second));
                }
            }
            Err(why) => details.push(self.at(&part, format!("no server: {why}"))),
        }
        Outcome {
            kind: "pool",
            place: self.place(&part),
            text: format!("pool {name}"),
            status: None,
            details,
            server: chosen,
            runner_up,
            head: (trace.pick.is_ok() && !trace.head.is_empty()).then(|| trace.head.clone()),
        }
    }

    fn limits(&self) -> Vec<AccountLine> {
        let mut lines = Vec::new();
        let Some(listener) = self.model() else { return lines };
        let part = format!("listeners[{}]", self.request.listener);
        let mut add = |part: &str, what: &str, value: Value| {
            let settings = settings(&value);
            if !settings.is_empty() {
                lines.push(self.at(part, format!("{what} {settings}")));
            }
        };
        add("client_limit", "limit client", value(&self.config().client_limit));
        add(&format!("{part}.client_limit"), "limit client", value(&listener.client_limit));
        if listener.protocol == Protocol::Http {
            add(&format!("{part}.limits"), "limits", value(&listener.limits));
        }
        let Some((own, route)) = self.route() else { return lines };
        for key in &self.trace.limit_keys {
            let of_route = key.part.starts_with(own);
            let (name, index) = key.part.rsplit_once('[').unwrap_or_default();
            let index: usize = index.trim_end_matches(']').parse().unwrap_or_default();
            let rates = if of_route { &route.rate_limits } else { &listener.rate_limits };
            let in_flight =
                if of_route { &route.in_flight_limits } else { &listener.in_flight_limits };
            let (kind, limit) = if name.ends_with("in_flight_limits") {
                ("in_flight", value(&in_flight.get(index)))
            } else {
                ("rate", value(&rates.get(index)))
            };
            let shown = match key.key.as_str() {
                "" => "an empty key, so the limit does not count it".to_owned(),
                key => format!("key `{key}`"),
            };
            add(&key.part, &format!("limit {kind}, {shown}:"), limit);
        }
        match &route.bandwidth {
            Some(limit) => add(&format!("{own}.bandwidth"), "limit bandwidth", value(limit)),
            None => {
                add(&format!("{part}.bandwidth"), "limit bandwidth", value(&listener.bandwidth));
            }
        }
        let waits = waits_for_client(listener);
        add(&format!("{part}.timeouts"), "client timeouts", waits);
        let TraceEnd::Pool(trace) = &self.trace.end else { return lines };
        let Some(pool) = self.config().pools.get(trace.number) else { return lines };
        let part = format!("pools[{}]", trace.number);
        if let Ok(pick) = &trace.pick
            && let Some(most) = pool.endpoints.get(pick.endpoint).and_then(|one| one.max_conn)
        {
            let endpoint = format!("{part}.endpoints[{}]", pick.endpoint);
            add(&endpoint, "server", serde_json::json!({ "max_conn": most }));
        }
        add(&format!("{part}.limits"), "limits of the pool", value(&pool.limits));
        add(&format!("{part}.queue"), "queue", value(&pool.queue));
        let own_or = |is_own: bool, of_pool: &str| {
            if is_own { own.to_owned() } else { format!("{part}.{of_pool}") }
        };
        let upstream = &route.upstream;
        let place = own_or(upstream.timeouts != RouteTimeouts::default(), "timeouts");
        let mut waits = value(&upstream.timeouts(pool));
        if let (Protocol::Tcp, Value::Object(waits)) = (listener.protocol, &mut waits) {
            waits.retain(|name, _| matches!(name.as_str(), "connect" | "tunnel"));
        }
        add(&place, "server timeouts", waits);
        let place = own_or(upstream.retry.is_some(), "retry");
        add(&place, "retry", value(upstream.retry(pool)));
        lines
    }

    /// Returns what depends on the state of a running process.
    fn depends(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.trace.limit_keys.is_empty() || self.config().client_limit.is_some() {
            lines.push("a limit refuses the request if its bound has been reached".to_owned());
        }
        let TraceEnd::Pool(trace) = &self.trace.end else { return lines };
        let pool = self.config().pools.get(trace.number);
        let secret = pool.and_then(|pool| pool.sticky.as_ref()?.secret.as_ref());
        if let Some(Secret::File(path)) = secret.filter(|_| trace.sticky.is_some())
            && !path.is_file()
        {
            let path = path.display();
            lines.push(format!("the sticky cookie: its secret {path} is not on this machine"));
        }
        lines.push(match trace.policy {
            "hash" | "ring_hash" | "maglev" if trace.key_is_random => {
                "the server: a request without a key goes to any".to_owned()
            }
            "hash" | "ring_hash" | "maglev" => {
                "whether the server is up: the next one for the key takes its place".to_owned()
            }
            "random" | "random2" => "the server: it is drawn for each request".to_owned(),
            _ => "the server: this is the first request after a start, with all servers up and \
                  idle"
                .to_owned(),
        });
        lines
    }
}

/// Returns a server's name and address.
fn server(pool: Option<&Pool>, index: usize) -> String {
    let Some(one) = pool.and_then(|pool| pool.endpoints.get(index)) else {
        return String::new();
    };
    let address = match &one.address {
        EndpointAddress::Socket(address) => address.to_string(),
        EndpointAddress::Name(name, port) => format!("{name}:{port}"),
        EndpointAddress::Service(name) => format!("srv:{name}"),
        EndpointAddress::Unix(path) => format!("unix:{}", path.display()),
    };
    if address == one.name { address } else { format!("{} ({address})", one.name) }
}

/// Returns the reason for a choice.
fn reason(pick: &PickTrace) -> &'static str {
    match pick.chosen_by {
        ChosenBy::Nothing | ChosenBy::Left => "the only one that may be picked",
        ChosenBy::Sticky => "the sticky cookie names it",
        ChosenBy::Freed => "the next with a free slot",
        ChosenBy::Better => "better than the others by the policy",
        ChosenBy::Turn => "none is better, and it is its turn",
        ChosenBy::Drawn => "drawn by weight",
        ChosenBy::Key => "the key leads to it",
        ChosenBy::First => "the first with a free slot",
    }
}

fn value(part: &impl Serialize) -> Value {
    serde_json::to_value(part).unwrap_or_default()
}

/// Returns the settings of a value as `name=value`; those without a value are left out.
fn settings(value: &Value) -> String {
    let Value::Object(fields) = value else { return String::new() };
    let set = fields.iter().filter(|(_, value)| !is_off(value));
    let shown: Vec<String> = set.map(|(name, value)| format!("{name}={}", plain(value))).collect();
    shown.join(" ")
}

fn is_off(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        // The number that stands for no bound.
        Value::Number(number) => number.as_u64() == Some(u64::MAX),
        _ => false,
    }
}

/// Returns the parts of a list, separated by spaces.
fn words(value: &Value) -> String {
    match value {
        Value::Array(list) => list.iter().map(plain).collect::<Vec<_>>().join(" "),
        other => plain(other),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(plain).collect::<Vec<_>>().join(","),
        Value::Object(fields) => {
            let one = |(name, value): (&String, &Value)| format!("{name}:{}", plain(value));
            fields.iter().map(one).collect::<Vec<_>>().join(",")
        }
        other => other.to_string(),
    }
}

/// The waits for a client of this listener: of those for requests a TCP listener has none.
fn waits_for_client(listener: &Listener) -> Value {
    let waits = value(&listener.timeouts);
    match listener.protocol {
        Protocol::Http => waits,
        Protocol::Tcp if listener.tls.is_some() => {
            serde_json::json!({ "handshake": &waits["handshake"] })
        }
        Protocol::Tcp => Value::Null,
    }
}
