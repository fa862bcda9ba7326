//! The account of a request's way: what `weir explain` prints, as text and as JSON. Each decision
//! has its place in the file that the user wrote.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;
use weir_config::model::{
    Action, EndpointAddress, Files, HeaderEdit, Listener, Pool, Route, RouteTimeouts, Secret,
};
use weir_config::{Checked, Config};
use weir_control::trace::{
    AccessTrace, ChosenBy, ConditionTrace, PickTrace, PoolTrace, RequestTrace, TraceEnd,
    TracedRequest, TriedRoute,
};

use super::ask::shown;

/// The account of a request's way.
#[derive(Debug, Serialize)]
pub(super) struct Account {
    client: Option<String>,
    listener: AccountLine,
    hosts: Vec<AccountLine>,
    routes: Vec<RouteLine>,
    access: Vec<AccountLine>,
    path: PathForms,
    rewrites: Vec<AccountLine>,
    limits: Vec<AccountLine>,
    request_headers: Vec<AccountLine>,
    response_headers: Vec<AccountLine>,
    outcome: Outcome,
    /// What is not known before the request is served.
    depends: Vec<String>,
}

/// A statement with its place, as `file:line`.
#[derive(Debug, Serialize)]
struct AccountLine {
    place: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    matches: Option<bool>,
    text: String,
}

/// A route that was tried.
#[derive(Debug, Serialize)]
struct RouteLine {
    place: Option<String>,
    name: String,
    matches: bool,
    condition: ConditionLine,
}

/// The outcome of a condition.
#[derive(Debug, Serialize)]
struct ConditionLine {
    what: String,
    seen: String,
    matches: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<ConditionLine>,
}

/// The path in its forms.
#[derive(Debug, Serialize)]
struct PathForms {
    received: String,
    matched: String,
    sent: String,
}

/// The end of the way.
#[derive(Debug, Serialize)]
struct Outcome {
    kind: &'static str,
    place: Option<String>,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<AccountLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    runner_up: Option<String>,
    /// The request head as the server gets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<String>,
}

impl Account {
    pub(super) fn new(
        checked: &Checked,
        request: &TracedRequest<'_>,
        trace: &RequestTrace,
        note: Option<String>,
    ) -> Self {
        let writer = AccountWriter { checked, request, trace };
        let mut depends = writer.depends();
        depends.extend(note);
        Self {
            client: trace.client.map(|client| client.to_string()),
            listener: writer.listener(),
            hosts: writer.hosts(),
            routes: writer.routes(),
            access: writer.access(),
            path: PathForms {
                received: trace.path.received.clone(),
                matched: trace.path.matched.clone(),
                sent: trace.path.sent.clone(),
            },
            rewrites: writer.rewrites(),
            limits: writer.limits(),
            request_headers: writer.edits(true),
            response_headers: writer.edits(false),
            outcome: writer.outcome(),
            depends,
        }
    }

    pub(super) fn json(&self) -> String {
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        format!("{text}\n")
    }

    pub(super) fn text(&self, asked: &str) -> String {
        let client = self.client.as_deref().unwrap_or("a Unix socket");
        let mut out = format!("{asked} from {client}\n");
        section(&mut out, "Listener", std::slice::from_ref(&self.listener));
        section(&mut out, "Access", &self.access);
        section(&mut out, "Hosts", &self.hosts);
        let routes: Vec<AccountLine> = self.routes.iter().map(RouteLine::line).collect();
        section(&mut out, "Routes", &routes);
        let PathForms { received, matched, sent } = &self.path;
        let path_sent = sent.split('?').next().unwrap_or_default();
        if [received, matched].iter().any(|form| *form != path_sent) && !matched.is_empty() {
            let _ = write!(
                out,
                "\nPath\n  received as {received}\n  matched as {matched}\n  sent as {sent}\n"
            );
        }
        section(&mut out, "Rewrites", &self.rewrites);
        section(&mut out, "Changes to request headers", &self.request_headers);
        let outcome = AccountLine {
            place: self.outcome.place.clone(),
            matches: None,
            text: self.outcome.text.clone(),
        };
        section(&mut out, "Outcome", &[outcome]);
        for line in &self.outcome.details {
            line.write(&mut out);
        }
        section(&mut out, "Limits", &self.limits);
        section(&mut out, "Changes to response headers", &self.response_headers);
        if let Some(head) = &self.outcome.head {
            out.push_str("\nThe server gets\n");
            for line in head.trim_end().lines() {
                let _ = writeln!(out, "  {line}");
            }
        }
        if !self.depends.is_empty() {
            out.push_str("\nNot known beforehand\n");
            for line in &self.depends {
                let _ = writeln!(out, "  {line}");
            }
        }
        out
    }
}

fn section(out: &mut String, title: &str, lines: &[AccountLine]) {
    if lines.is_empty() {
        return;
    }
    let _ = write!(out, "\n{title}\n");
    for line in lines {
        line.write(out);
    }
}

impl AccountLine {
    fn write(&self, out: &mut String) {
        out.push_str("  ");
        if let Some(place) = &self.place {
            let _ = write!(out, "{place}: ");
        }
        out.push_str(match self.matches {
            Some(true) => "yes: ",
            Some(false) => "no: ",
            None => "",
        });
        let _ = writeln!(out, "{}", self.text);
    }
}

impl RouteLine {
    fn line(&self) -> AccountLine {
        let ConditionLine { what, .. } = &self.condition;
        let why = self.condition.why();
        let text = if why.is_empty() { what.clone() } else { format!("{what}: {why}") };
        AccountLine { place: self.place.clone(), matches: Some(self.matches), text }
    }
}

impl ConditionLine {
    fn of(trace: &ConditionTrace) -> Self {
        Self {
            what: trace.what.clone(),
            seen: trace.seen.clone(),
            matches: trace.holds,
            parts: trace.parts.iter().map(Self::of).collect(),
        }
    }

    /// Returns what the parts that decided looked at.
    fn why(&self) -> String {
        let mut seen: Vec<&str> = Vec::new();
        self.collect(&mut seen);
        seen.join(", ")
    }

    fn collect<'a>(&'a self, seen: &mut Vec<&'a str>) {
        if !self.seen.is_empty() && !seen.contains(&self.seen.as_str()) {
            seen.push(&self.seen);
        }
        // Of several parts only those with the outcome of the whole decided, except below `not`.
        let decided = |part: &&Self| self.parts.len() == 1 || part.matches == self.matches;
        for part in self.parts.iter().filter(decided) {
            part.collect(seen);
        }
    }
}

/// The sources of an account.
struct AccountWriter<'a> {
    checked: &'a Checked,
    request: &'a TracedRequest<'a>,
    trace: &'a RequestTrace,
}

impl<'a> AccountWriter<'a> {
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
        let sources = &self.checked.sources;
        Some(format!("{}:{}", sources.file(span.file).name, sources.position(span).line))
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

    fn edits(&self, request: bool) -> Vec<AccountLine> {
        let field = if request { "request_headers" } else { "response_headers" };
        let mut lines = Vec::new();
        let mut add = |part: &str, edits: &[HeaderEdit]| {
            for (index, edit) in edits.iter().enumerate() {
                let text = match edit {
                    HeaderEdit::Set(name, value) => format!("set {name} `{}`", value.as_str()),
                    HeaderEdit::Add(name, value) => format!("add {name} `{}`", value.as_str()),
                    HeaderEdit::Remove(name) => format!("remove {name}"),
                    HeaderEdit::Replace(name, pattern, value) => {
                        format!("replace {name} `{pattern}` `{}`", value.as_str())
                    }
                };
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
            TraceEnd::NoRoute => {
                let part = format!("listeners[{}]", self.request.listener);
                let text = "404: no route matches".to_owned();
                Outcome { place: self.place(&part), ..end("no_route", Some(404), text) }
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
            head: trace.pick.is_ok().then(|| trace.head.clone()),
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
        add(&format!("{part}.limits"), "limits", value(&listener.limits));
        let Some((own, route)) = self.route() else { return lines };
        for key in &self.trace.rate_keys {
            let of =
                if key.part.starts_with(own) { &route.rate_limits } else { &listener.rate_limits };
            let index = key.part.rsplit_once('[').map_or("", |(_, rest)| rest);
            let limit = index.trim_end_matches(']').parse().ok().and_then(|at: usize| of.get(at));
            let shown = match key.key.as_str() {
                "" => "an empty key, so the limit does not count it".to_owned(),
                key => format!("key `{key}`"),
            };
            add(&key.part, &format!("limit rate, {shown}:"), value(&limit));
        }
        match &route.bandwidth {
            Some(limit) => add(&format!("{own}.bandwidth"), "limit bandwidth", value(limit)),
            None => {
                add(&format!("{part}.bandwidth"), "limit bandwidth", value(&listener.bandwidth));
            }
        }
        add(&format!("{part}.timeouts"), "client timeouts", value(&listener.timeouts));
        let TraceEnd::Pool(trace) = &self.trace.end else { return lines };
        let Some(pool) = self.config().pools.get(trace.number) else { return lines };
        let part = format!("pools[{}]", trace.number);
        add(&format!("{part}.limits"), "limits of the pool", value(&pool.limits));
        add(&format!("{part}.queue"), "queue", value(&pool.queue));
        let own_or = |is_own: bool, of_pool: &str| {
            if is_own { own.to_owned() } else { format!("{part}.{of_pool}") }
        };
        let upstream = &route.upstream;
        let place = own_or(upstream.timeouts != RouteTimeouts::default(), "timeouts");
        add(&place, "server timeouts", value(&upstream.timeouts(pool)));
        let place = own_or(upstream.retry.is_some(), "retry");
        add(&place, "retry", value(upstream.retry(pool)));
        lines
    }

    /// Returns what depends on the state of a running process.
    fn depends(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.trace.rate_keys.is_empty() || self.config().client_limit.is_some() {
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
