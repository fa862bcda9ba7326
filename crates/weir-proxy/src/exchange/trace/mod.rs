//! Follows one request through a compiled configuration without serving it, for `weir explain`. The
//! steps and their order are those of a served request (`exchange/mod.rs`), and each is done by the
//! code that serves: parsing, normalisation, matching, picking, writing the head. Nothing is sent,
//! and what depends on the state of a running process is as at its start.

mod pool;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use weir_config::Config;
use weir_config::model::{AccessRule, FileCandidate, Files, ListenAddress, Protocol, Verdict};
use weir_files::{Answer, Root};
use weir_stats::{
    AffinityOutcome, Cause, Concurrency, Entry, Escape, Micros, Preread, TCP, Template, Times,
    TlsParameters,
};
use weir_wire::{Framing, HeadLimits, Method, RequestHead, Scan, Span, Version};

use crate::exchange::files::{
    FileTarget, StrippedPrefix, candidates_before_index, candidates_by, index_candidates, is_there,
    looks_for_file, question, tested, with_slash,
};
use crate::http::client_address::{PeerTrust, allowed, client_address};
use crate::http::internal::InternalRedirects;
use crate::http::local_reply::PLAIN_HTTP;
use crate::http::path::percent::{PathBuffer, PathForm, slashes_of};
use crate::http::pool_key::PoolKey;
use crate::http::request_id::{RequestId, RequestIdSource};
use crate::http::request_view::{RequestView, bare_host};
use crate::http::rewrites::RewriteFault;
use crate::http::{header_names, path};
use crate::routing::error_target::CompiledErrorDestination;
use crate::routing::route::{CompiledAction, CompiledRedirect, CompiledRoute, InternalTarget};
use crate::routing::trace::text_of;
use crate::snapshot::{CompiledListener, Snapshot};
use crate::upstream::UpstreamPool;

pub use weir_balance::ChosenBy;

pub use crate::routing::route::RouteTrace;
pub use crate::routing::trace::ConditionTrace;
pub use pool::{PickTrace, PoolTrace};

/// A request to follow.
#[derive(Clone, Copy, Debug)]
pub struct TracedRequest<'a> {
    /// The number of the listener that it reaches.
    pub listener: usize,
    /// Its head, as the client sends it; empty for a connection of a `tcp` listener.
    pub head: &'a [u8],
    /// The name that a client of a `tcp` listener asks for in its TLS handshake; may be empty.
    pub server_name: &'a str,
    /// The peer of the connection; `None` on a Unix socket.
    pub peer: Option<IpAddr>,
    /// The application protocols that such a client offers, separated by commas; may be empty.
    pub alpn: &'a str,
    /// Set if the connection has TLS.
    pub tls: bool,
    /// Set if it has none and the listener expects it.
    pub lacks_tls: bool,
    /// The seed of everything that is drawn for a request.
    pub seed: u64,
}

/// The way of one request. Parts of the configuration are named by their paths in its JSON form.
#[derive(Debug, Default)]
pub struct RequestTrace {
    /// The client, behind trusted proxies.
    pub client: Option<IpAddr>,
    /// Set if the peer is a trusted proxy.
    pub peer_is_trusted: bool,
    /// The path as received, as conditions see it, and the target as it is sent on.
    pub path: PathTrace,
    /// The host blocks that were tried, up to the one that serves the host.
    pub hosts: Vec<HostTrace>,
    /// The routes of that block that were tried, up to the one that matched.
    pub routes: Vec<TriedRoute>,
    /// The access rules that decided.
    pub access: Vec<AccessTrace>,
    /// The rate limits with the keys of this request.
    pub limit_keys: Vec<LimitKeyTrace>,
    /// The end of the way.
    pub end: TraceEnd,
}

/// The forms of the path.
#[derive(Debug, Default)]
pub struct PathTrace {
    /// As received.
    pub received: String,
    /// As conditions see it.
    pub matched: String,
    /// As it is sent to an endpoint, with the query.
    pub sent: String,
}

/// A host block that was tried.
#[derive(Debug)]
pub struct HostTrace {
    /// Its part of the configuration.
    pub part: String,
    /// Its patterns.
    pub patterns: Vec<String>,
    /// The pattern that matches.
    pub matching: Option<String>,
}

/// A route that was tried.
#[derive(Debug)]
pub struct TriedRoute {
    /// Its part of the configuration.
    pub part: String,
    /// Its name.
    pub name: String,
    /// The outcome of its condition.
    pub condition: ConditionTrace,
}

/// A list of access rules and the one that decided.
#[derive(Debug)]
pub struct AccessTrace {
    /// The deciding rule, or the list if none matched.
    pub part: String,
    /// Set if a rule matched; otherwise everything is allowed.
    pub decided: bool,
    /// Set if the client may pass.
    pub allowed: bool,
}

/// A rate limit and the key under which it counts this request.
#[derive(Debug)]
pub struct LimitKeyTrace {
    /// Its part of the configuration.
    pub part: String,
    /// The key; an empty one is not limited.
    pub key: String,
}

/// The end of a request's way.
#[derive(Debug, Default)]
pub enum TraceEnd {
    /// Weir refuses the request.
    Refused {
        /// The status.
        status: u16,
        /// The reason.
        reason: String,
    },
    /// No route matches: 404.
    #[default]
    NoRoute,
    /// It goes to a pool.
    Pool(Box<PoolTrace>),
    /// A fixed response.
    Respond {
        /// The status.
        status: u16,
        /// The type of the text.
        content_type: String,
        /// The text; `None` for the page of the status.
        body: Option<String>,
    },
    /// A redirect.
    Redirect {
        /// The status.
        status: u16,
        /// `Location`; `None` if the URL would have no host, which is answered with 400.
        location: Option<String>,
    },
    /// An internal redirect, which is followed by another end.
    Internal,
    /// A file, or the status instead of one.
    Files {
        /// The directory.
        root: String,
        /// The status.
        status: u16,
        /// `Content-Type`, or `Location`.
        header: Option<(&'static str, String)>,
    },
}

/// Follows a request.
///
/// # Errors
/// A sentence: the listener does not exist, or the head is not complete.
pub fn trace(
    snapshot: &Snapshot,
    config: &Config,
    request: &TracedRequest<'_>,
) -> Result<RequestTrace, String> {
    let missing = || "there is no such listener".to_owned();
    let listener = snapshot.listeners.get(request.listener).ok_or_else(missing)?;
    let model = config.listeners.get(request.listener).ok_or_else(missing)?;
    let is_tcp = listener.protocol == Protocol::Tcp;
    if is_tcp && !request.head.is_empty() {
        return Err(NO_REQUESTS.to_owned());
    }
    // The server name takes the place of the host.
    let mut bytes = if is_tcp { request.server_name.into() } else { request.head.to_vec() };
    let mut head = RequestHead::default();
    let limits = HeadLimits {
        head_bytes: listener.limits.head_bytes,
        request_line_bytes: listener.limits.request_line_bytes,
        headers: listener.limits.headers,
    };
    let mut trace = RequestTrace::default();
    if is_tcp {
        head.host = Span { start: 0, end: bytes.len() as u32 };
    } else {
        match head.parse(&bytes, &mut Scan::default(), &limits) {
            Ok(Some(_)) => {}
            Ok(None) => return Err("the head of the request is not complete".to_owned()),
            Err(located) => {
                trace.refuse(located.fault.status(), located.fault.reason());
                return Ok(trace);
            }
        }
    }
    let rules = listener.header_names;
    if rules.is_some_and(|rules| header_names::apply(rules, &mut head.headers, &bytes).is_err()) {
        trace.refuse(400, "the name of a header is refused (`header_names`)");
        return Ok(trace);
    }
    trace.path.received = text_of(head.path_text(&bytes));
    let line = head.request_line.of(&bytes).to_vec();
    if !is_tcp
        && let Err(fault) = path::normalise(&mut head, &mut bytes, &listener.path, &mut Vec::new())
    {
        trace.refuse(400, fault.reason());
        return Ok(trace);
    }
    let mut tracer = Tracer {
        snapshot,
        listener,
        model,
        head: &head,
        bytes: &bytes,
        line: &line,
        input: request,
        client: None,
        trust: PeerTrust::of(request.peer, &listener.forwarded.trusted),
        id: RequestId::default(),
        internal: InternalRedirects::default(),
        trace,
    };
    tracer.run();
    Ok(tracer.trace)
}

/// The error for a request to a listener that has none.
const NO_REQUESTS: &str =
    "this listener passes on bytes and reads no request: ask with tcp://HOST:PORT";

/// A request on its way.
struct Tracer<'a> {
    snapshot: &'a Snapshot,
    listener: &'a CompiledListener,
    model: &'a weir_config::model::Listener,
    head: &'a RequestHead,
    bytes: &'a [u8],
    /// The request line as received.
    line: &'a [u8],
    input: &'a TracedRequest<'a>,
    client: Option<IpAddr>,
    trust: PeerTrust,
    id: RequestId,
    internal: InternalRedirects,
    trace: RequestTrace,
}

/// The route and pool of a request, for its entry.
#[derive(Clone, Copy, Default)]
struct Led<'a> {
    route: Option<&'a CompiledRoute>,
    pool: Option<&'a UpstreamPool>,
    endpoint: Option<usize>,
    /// The target that the endpoint gets.
    target: &'a [u8],
}

impl RequestTrace {
    fn refuse(&mut self, status: u16, reason: impl Into<String>) {
        self.end = TraceEnd::Refused { status, reason: reason.into() };
    }
}

impl<'a> Tracer<'a> {
    fn view(&self) -> RequestView<'_> {
        let internal = Some(&self.internal).filter(|internal| internal.is_any());
        RequestView { head: self.head, bytes: self.bytes, client: self.client, internal }
    }

    fn run(&mut self) {
        let listener = self.listener;
        self.client = self.input.peer;
        self.client = client_address(self.input.peer, &listener.forwarded, &self.view());
        self.trace.client = self.client;
        self.trace.peer_is_trusted = self.trust == PeerTrust::Trusted;
        let header = listener.request_id.header.as_deref();
        self.id = RequestIdSource::new(self.input.seed).id_of(self.trust, header, &self.view());
        if listener.protocol == Protocol::Http {
            let mut sent = Vec::new();
            crate::http::head_writer::write_target(self.head, self.bytes, &mut sent);
            self.trace.path.sent = text_of(&sent);
        }
        if listener.limits.hops.is_some_and(|most| self.head.hops > most) {
            self.trace.refuse(508, "it has passed through too many Weirs (`limits hops=`)");
        }
        let part = format!("listeners[{}]", self.input.listener);
        if !self.is_refused() && !self.passes(&listener.access, &part) {
            self.trace.refuse(403, "the access rules of the listener deny the client");
        }
        if let TraceEnd::Refused { status, .. } = self.trace.end
            && !self.follow_error(None, status)
        {
            return;
        }
        self.hosts(&part);
        while self.is_redirected(&part) {}
    }

    fn is_refused(&self) -> bool {
        matches!(self.trace.end, TraceEnd::Refused { .. })
    }

    /// The first message of a client with TLS, where it is passed on.
    fn preread(&self) -> Preread<'_> {
        let TracedRequest { server_name, alpn, .. } = *self.input;
        let begins =
            self.listener.protocol == Protocol::Tcp && !(server_name.is_empty() && alpn.is_empty());
        Preread {
            protocol: if begins { "TLSv1.3" } else { "" },
            alpn_protocols: if begins { alpn.as_bytes() } else { b"" },
        }
    }

    /// Finds the route and its end; returns true if that is an internal redirect, after which the
    /// next one is to be found.
    fn is_redirected(&mut self, part: &str) -> bool {
        let listener = self.listener;
        let found = listener.router.trace(&self.view(), &|text, out| self.fill(text, out));
        let list = match found.site {
            Some(site) => format!("{part}.sites[{site}].routes"),
            None => format!("{part}.default"),
        };
        if listener.protocol == Protocol::Http {
            self.trace.path.matched = text_of(&found.path);
        }
        self.tried(&list, &found);
        // A page for it may be served without TLS, everything else may not.
        if self.input.lacks_tls && !self.internal.is_any() {
            self.trace.refuse(400, "it comes without TLS to a listener with TLS");
            return self.follow_page(found.route, PLAIN_HTTP, 400);
        }
        let Some((route, position)) = found.route.zip(found.position) else {
            self.trace.end = TraceEnd::NoRoute;
            return self.follow_error(None, 404);
        };
        let own = format!("{list}[{position}]");
        let length = self.body_length().unwrap_or_default();
        if length > route.body_bytes && self.internal.error().is_none() {
            self.trace.refuse(413, "its body is larger than `limits body=`");
            return self.follow_error(Some(route), 413);
        }
        if !self.passes(&route.access, &own) {
            self.trace.refuse(403, "the access rules of the route deny the client");
            return self.follow_error(Some(route), 403);
        }
        self.limit_keys(route, part, &own);
        if self.head.method == Method::Connect {
            self.trace.refuse(405, "a gateway opens no tunnel for CONNECT");
            return false;
        }
        if let Some(path) = self.index_path(route) {
            return self.lead_to_path(path);
        }
        self.trace.end = self.action(route);
        let found = route.file_options.as_deref().and_then(|options| options.found.as_ref());
        if let (TraceEnd::Internal, Some(target)) = (&self.trace.end, found) {
            return self.follow(Some(route), target);
        }
        match (&self.trace.end, route.internal.as_deref()) {
            (TraceEnd::Internal | TraceEnd::Files { status: 404, .. }, Some(target)) => {
                self.follow(Some(route), target)
            }
            (
                TraceEnd::Respond { status, body: None, .. }
                | TraceEnd::Files { status, .. }
                | TraceEnd::Refused { status, .. },
                _,
            ) => self.follow_error(Some(route), *status),
            (TraceEnd::Pool(pool), _) => {
                self.trace.path.sent.clone_from(&pool.target);
                false
            }
            _ => false,
        }
    }

    /// Follows the target of a route, or of the listener, for an error; returns false if the
    /// request is not served again.
    fn follow_error(&mut self, route: Option<&'a CompiledRoute>, status: u16) -> bool {
        self.follow_page(route, status, status)
    }

    /// Does the same for the pages of one status and an error with another.
    fn follow_page(&mut self, route: Option<&'a CompiledRoute>, page: u16, status: u16) -> bool {
        let may_lead = self.internal.error_may_lead();
        let targets = match route {
            Some(route) => route.error_targets.as_ref(),
            None => self.listener.router.error_targets(),
        };
        let targets = targets.filter(|_| may_lead);
        let Some(target) = targets.and_then(|targets| targets.find(page)) else { return false };
        let error = target.redirect_of(Cause::Complete, status, self.head.method);
        let to = match &target.to {
            CompiledErrorDestination::Internal(to) => to,
            CompiledErrorDestination::Redirect(redirect) => {
                self.trace.end = self.redirect(route, redirect);
                return false;
            }
        };
        if let Some(status) = error.without_body() {
            let content_type = String::new();
            self.trace.end = TraceEnd::Respond { status, content_type, body: None };
            return false;
        }
        let is_led = self.follow(route, to);
        self.internal.set_error(error);
        if is_led {
            self.trace.end = TraceEnd::Internal;
        }
        is_led
    }

    /// Follows an internal redirect of a route; returns false if the request is refused instead.
    fn follow(&mut self, route: Option<&'a CompiledRoute>, target: &'a InternalTarget) -> bool {
        let mut text = Vec::new();
        if let Some(path) = &target.path {
            let (view, rules) = (self.view(), &self.listener.path);
            let (old, query) = (view.path(), view.query());
            let led = Led { route, ..Led::default() };
            let done =
                self.with_entry(led, |entry| path.apply(old, query, rules, Some(entry), &mut text));
            match done {
                Ok(()) => {}
                Err(RewriteFault::Path(fault)) => {
                    self.trace.refuse(400, fault.reason());
                    return false;
                }
                Err(RewriteFault::TooLong) => {
                    self.trace.refuse(414, "the path is too long after an internal redirect");
                    return false;
                }
            }
        }
        if self.internal.redirect(target.name.as_ref(), target.is_step).is_err() {
            self.trace.refuse(500, "there are more internal redirects than a request may have");
            return false;
        }
        if target.path.is_some() {
            self.internal.swap_target(&mut text);
        }
        true
    }

    /// The path of the index file that a request for a directory is served again with.
    fn index_path(&self, route: &'a CompiledRoute) -> Option<Vec<u8>> {
        let CompiledAction::Files(number) = route.action else { return None };
        let (files, root) =
            (self.listener.router.files().get(number)?, self.listener.roots.get(number)?);
        let (view, options) = (self.view(), route.file_options.as_deref());
        let is_asked = files.index_internal && looks_for_file(view.method());
        if !is_asked || !view.path().ends_with(b"/") {
            return None;
        }
        let led = Led { route: Some(route), ..Led::default() };
        let below = options.and_then(|options| options.below.as_ref());
        let below = below.map(|below| self.with_entry(led, |entry| below.path(entry)));
        let below = match below {
            Some(path) => Some(root.below(&path?)),
            None => None,
        };
        let root = below.as_ref().unwrap_or(root);
        let target = FileTarget::of(&view, StrippedPrefix::of(files));
        let candidates = self.with_paths(route, files);
        let before = candidates_before_index(&candidates)?;
        let is_there = |list: &[FileCandidate]| {
            tested(|path| root.kind(path), target, list).unwrap_or_default()
        };
        if !before.is_empty() && is_there(before) {
            return None;
        }
        let found = index_candidates(files).find(|one| is_there(std::slice::from_ref(one)))?;
        found.path(target.path())
    }

    /// The candidates of a request, those with variables as paths.
    fn with_paths<'f>(
        &self,
        route: &'a CompiledRoute,
        files: &'f Files,
    ) -> Cow<'f, [FileCandidate]> {
        let (view, rules) = (self.view(), &self.listener.path);
        let (old, query) = (view.path(), view.query());
        let led = Led { route: Some(route), ..Led::default() };
        candidates_by(&files.candidates, route.file_options.as_deref(), |rewrites, path| {
            self.with_entry(led, |entry| rewrites.apply(old, query, rules, Some(entry), path))
                .is_ok()
        })
    }

    /// Serves the request again with another path; returns false if it is refused instead.
    fn lead_to_path(&mut self, mut target: Vec<u8>) -> bool {
        self.view().append_query(&mut target);
        if self.internal.redirect(None, false).is_err() {
            self.trace.refuse(500, "there are more internal redirects than a request may have");
            return false;
        }
        self.internal.swap_target(&mut target);
        self.trace.end = TraceEnd::Internal;
        true
    }

    /// Applies access rules and notes the one that decides.
    fn passes(&mut self, rules: &[AccessRule], part: &str) -> bool {
        let allowed_here = allowed(rules, self.client);
        if rules.is_empty() {
            return allowed_here;
        }
        let only = |rule: &AccessRule| {
            // The rule decides if turning its verdict round turns the answer of the rule alone.
            let turned = match rule.verdict {
                Verdict::Allow => Verdict::Deny,
                Verdict::Deny => Verdict::Allow,
            };
            let turned = AccessRule { verdict: turned, clients: rule.clients.clone() };
            allowed(std::slice::from_ref(rule), self.client) != allowed(&[turned], self.client)
        };
        let deciding = rules.iter().position(only);
        let part = match deciding {
            Some(index) => format!("{part}.access[{index}]"),
            None => format!("{part}.access"),
        };
        let decided = deciding.is_some();
        self.trace.access.push(AccessTrace { part, decided, allowed: allowed_here });
        allowed_here
    }

    fn hosts(&mut self, part: &str) {
        let host = self.head.host.of(self.bytes);
        for (number, site) in self.model.sites.iter().enumerate() {
            let matching = site.hosts.iter().find(|pattern| pattern.matches(host));
            let matching = matching.map(|pattern| pattern.as_str().to_owned());
            let found = matching.is_some();
            self.trace.hosts.push(HostTrace {
                part: format!("{part}.sites[{number}]"),
                patterns: site.hosts.iter().map(ToString::to_string).collect(),
                matching,
            });
            if found {
                break;
            }
        }
    }

    fn tried(&mut self, list: &str, found: &RouteTrace<'_>) {
        let routes = match found.site {
            Some(site) => self.model.sites.get(site).map_or(&[][..], |site| &site.routes),
            None => &self.model.default,
        };
        for (number, (condition, route)) in found.tried.iter().zip(routes).enumerate() {
            self.trace.routes.push(TriedRoute {
                part: format!("{list}[{number}]"),
                name: route.name.clone(),
                condition: condition.clone(),
            });
        }
    }

    /// Notes the keys of the limits by key that count the request.
    fn limit_keys(&mut self, route: &'a CompiledRoute, listener: &str, own: &str) {
        for (part, limits) in [(listener, &self.listener.key_limits), (own, &route.key_limits)] {
            let rates = limits.rates.iter().map(|limit| &limit.keyed).enumerate();
            let rates = rates.map(|(index, limit)| (format!("rate_limits[{index}]"), limit));
            let in_flight = limits.in_flight.iter().map(|limit| &limit.keyed).enumerate();
            let in_flight =
                in_flight.map(|(index, limit)| (format!("in_flight_limits[{index}]"), limit));
            for (name, limit) in rates.chain(in_flight) {
                let led = Led { route: Some(route), ..Led::default() };
                let mut key = Vec::new();
                self.with_entry(led, |entry| {
                    limit.key.template.append(entry, Escape::None, &mut key);
                });
                let part = format!("{part}.{name}");
                if self.trace.limit_keys.iter().any(|known| known.part == part) {
                    // It counted the request before an internal redirect.
                    continue;
                }
                self.trace.limit_keys.push(LimitKeyTrace { part, key: text_of(&key) });
            }
        }
    }

    fn action(&self, route: &'a CompiledRoute) -> TraceEnd {
        let led = Led { route: Some(route), ..Led::default() };
        let mut scratch = Vec::new();
        match &route.action {
            CompiledAction::Pool(number) => self.pool(route, *number),
            CompiledAction::PoolBy(choice) => self.chosen(route, Some(&choice.by)),
            CompiledAction::Split(split) => self.chosen(route, split.key.as_ref()),
            CompiledAction::Respond(respond) => self.with_entry(led, |entry| {
                let body = respond.body(entry, &mut scratch).map(text_of);
                let imposed = self.internal.imposed_status().filter(|_| body.is_some());
                TraceEnd::Respond {
                    status: imposed.unwrap_or(respond.status),
                    content_type: respond.content_type.to_string(),
                    body,
                }
            }),
            CompiledAction::Redirect(redirect) => self.redirect(Some(route), redirect),
            CompiledAction::Files(number) => self.files(route, *number),
            CompiledAction::Internal => TraceEnd::Internal,
        }
    }

    fn redirect(&self, route: Option<&'a CompiledRoute>, redirect: &CompiledRedirect) -> TraceEnd {
        let led = Led { route, ..Led::default() };
        let mut scratch = Vec::new();
        self.with_entry(led, |entry| TraceEnd::Redirect {
            status: redirect.status,
            location: redirect.location(entry, &mut scratch).map(text_of),
        })
    }

    fn files(&self, route: &'a CompiledRoute, number: usize) -> TraceEnd {
        let router = &self.listener.router;
        let (Some(files), Some(root)) =
            (router.files().get(number), self.listener.roots.get(number))
        else {
            return TraceEnd::NoRoute;
        };
        let stripped = StrippedPrefix::of(files);
        let root_name = files.root.display().to_string();
        let end = |status, header| TraceEnd::Files { root: root_name, status, header };
        let readable = matches!(self.view().method(), b"GET" | b"HEAD");
        let asks = looks_for_file(self.view().method());
        let not_allowed = Some(("Allow", "GET, HEAD".to_owned()));
        let options = route.file_options.as_deref();
        let tests = options.is_some_and(|options| options.found.is_some());
        if !asks && route.internal.is_none() && !tests {
            return end(405, not_allowed);
        }
        let below = options.and_then(|options| options.below.as_ref());
        let led = Led { route: Some(route), ..Led::default() };
        let below = below.map(|below| self.with_entry(led, |entry| below.path(entry)));
        let below = match below {
            Some(None) => return end(404, None),
            below => below.flatten().map(|path| root.below(&path)),
        };
        let root = below.as_ref().unwrap_or(root);
        let form = PathForm::of(&self.listener.path);
        if asks
            && !tests
            && let Some(location) = with_slash(&self.view(), stripped, form)
        {
            return end(301, Some(("Location", text_of(&location))));
        }
        let changed = route.rewrites.as_ref().map(|_| self.rewritten(route)).transpose();
        let refused = |status, reason: &str| TraceEnd::Refused { status, reason: reason.into() };
        let changed = match changed {
            Ok(changed) => changed.unwrap_or_default(),
            Err(RewriteFault::Path(fault)) => return refused(400, fault.reason()),
            Err(RewriteFault::TooLong) => {
                return refused(414, "the path is too long once it is rewritten");
            }
        };
        let view = self.view();
        let mut spelt = PathBuffer::new();
        let target = FileTarget::of(&view, stripped).changed(&changed).spelt(form, &mut spelt);
        let found = if tests {
            let found = tested(|path| root.kind(path), target, &self.with_paths(route, files));
            found.map(|found| if found { None } else { Some(Answer::status(404)) })
        } else {
            self.found(root, target, &self.with_paths(route, files)).map(Some)
        };
        let found = match found {
            Ok(None) => return TraceEnd::Internal,
            Ok(Some(answer)) => Ok(answer),
            Err(error) => Err(error),
        };
        match found {
            Ok(Answer::Status(status)) if !asks && status.code != 404 => end(405, not_allowed),
            Ok(Answer::File(_)) if !readable => end(405, not_allowed),
            Ok(Answer::File(file)) => {
                let status = self.internal.imposed_status().unwrap_or(file.status);
                end(status, Some(("Content-Type", file.content_type.into_owned())))
            }
            Ok(Answer::Status(status)) => {
                let location = status.headers.into_iter().find(|(name, _)| *name == "Location");
                end(status.code, location)
            }
            Err(error) => TraceEnd::Refused { status: 500, reason: error.to_string() },
        }
    }

    /// Looks for each of the candidates, or for the path alone if there is none.
    fn found(
        &self,
        root: &Root,
        target: FileTarget<'_>,
        candidates: &[FileCandidate],
    ) -> std::io::Result<Answer> {
        if candidates.is_empty() {
            return root.answer(&question(self.head, self.bytes, target, &target.below()));
        }
        for candidate in candidates {
            let Some(path) = candidate.path(target.path()) else { continue };
            let at = target.at(&path);
            let answer = root.answer(&question(self.head, self.bytes, at, &at.below()))?;
            if is_there(candidate, &path, &answer) {
                return Ok(answer);
            }
        }
        Ok(Answer::status(404))
    }

    /// Follows the request to the pool that its key leads to. Without a key, it takes a turn among
    /// the shares.
    fn chosen(&self, route: &'a CompiledRoute, key: Option<&PoolKey>) -> TraceEnd {
        let led = Led { route: Some(route), ..Led::default() };
        let mut text = Vec::new();
        if let Some(key) = key {
            self.with_entry(led, |entry| key.template.append(entry, Escape::None, &mut text));
        }
        route.action.pool_for(&text).map_or(TraceEnd::NoRoute, |number| self.pool(route, number))
    }

    /// Appends a text with variables, as conditions see it.
    fn fill(&self, text: &Template, out: &mut Vec<u8>) {
        self.with_entry(Led::default(), |entry| text.append(entry, Escape::None, out));
    }

    /// Passes the entry of the request to `then`, as header values and keys see it.
    fn with_entry<R>(&self, led: Led<'_>, then: impl FnOnce(&Entry<'_>) -> R) -> R {
        let (head, bytes, view) = (self.head, self.bytes, self.view());
        let captures =
            led.route.and_then(|route| route.captures(&view, &|text, out| self.fill(text, out)));
        let captures = captures.unwrap_or_default();
        let host = bare_host(head.host.of(bytes));
        let server_name = String::from_utf8_lossy(host);
        let endpoint =
            led.pool.zip(led.endpoint).and_then(|(pool, index)| pool.endpoints.get(index));
        let entry = Entry {
            started: std::time::SystemTime::now(),
            times: Times::default(),
            cause: Cause::Complete,
            status: 0,
            peer: self.peer(),
            client: self.client,
            local: self.local(),
            request_line: self.line,
            method: view.method(),
            target: target_of(self.line),
            internal_target: self.internal.whole_target(),
            path: self.internal.target().map_or(head.path.of(bytes), |(path, _)| path),
            slashes: slashes_of(&self.listener.path),
            upstream_target: if led.endpoint.is_some() { led.target } else { b"" },
            protocol: match (self.listener.protocol, head.version) {
                (Protocol::Tcp, _) => TCP,
                (Protocol::Http, Version::Http10) => "HTTP/1.0",
                (Protocol::Http, Version::Http11) => "HTTP/1.1",
            },
            host,
            request_headers: &view,
            response_headers: &(),
            bytes_received: head.head_bytes as u64,
            bytes_sent: 0,
            body_bytes_sent: 0,
            listener: &self.listener.log_name,
            route: led.route.map_or("", |route| &route.name),
            pool: led.pool.map_or("", |pool| &pool.name),
            endpoint: endpoint.map_or("", |endpoint| &endpoint.name),
            endpoint_address: endpoint.map_or("", |endpoint| &endpoint.address_text),
            upstream_protocol: "",
            attempts: u32::from(endpoint.is_some()),
            failed_attempts: &[],
            reused: false,
            grpc_status: None,
            affinity: AffinityOutcome::None,
            queue_position: 0,
            reasons: None,
            request_id: self.id.as_bytes(),
            tls: self.input.tls.then(|| TlsParameters {
                protocol: "TLSv1.3",
                server_name: &server_name,
                ..TlsParameters::default()
            }),
            preread: self.preread(),
            concurrency: Concurrency::default(),
            worker: 0,
            connection: 1,
            connection_age: Micros::ZERO,
            connection_requests: 1,
            request_number: 0,
            request_body: b"",
            process: &(),
            captures: &captures.groups(),
        };
        then(&entry)
    }

    fn peer(&self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.input.peer?, PEER_PORT))
    }

    /// The first address of the listener, if a served request would know its own.
    fn local(&self) -> Option<SocketAddr> {
        if !self.listener.shows_local_address {
            return None;
        }
        self.listener.addresses.iter().find_map(|address| match address {
            ListenAddress::Socket(socket) => Some(*socket),
            ListenAddress::Unix { .. } => None,
        })
    }

    /// The length of the body, if it is known.
    fn body_length(&self) -> Option<u64> {
        match self.head.framing {
            Framing::None | Framing::UntilClose => Some(0),
            Framing::Length(length) => Some(length),
            Framing::Chunked => None,
        }
    }
}

/// The port of the client: the first of those that systems give to clients (RFC 6335).
const PEER_PORT: u16 = 49_152;

/// Returns the target of a request line.
fn target_of(line: &[u8]) -> &[u8] {
    line.split(|&byte| byte == b' ').nth(1).unwrap_or_default()
}
