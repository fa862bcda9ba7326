//! Finds the route of a request: first the host block, then the first of its routes that matches,
//! from top to bottom. Routes are compiled once per snapshot. It does not carry out a route's
//! action.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weir_config::model::{
    AccessRule, Action, ErrorTarget, Expires, Files, ImposedMethod, Listener, NO_RESPONSE, Pool,
    Redirect, RequestTimeout, Respond, Rewrite, Route, ServerPreference, internal_parts,
};
use weir_stats::{Entry, Escape, Template, Variable};

pub use crate::http::captures::Captures;
use crate::http::edits::{EditedMessage, Edits, uses_captures, uses_local_address};
use crate::http::expires::CompiledExpires;
use crate::http::local_reply::ErrorPages;
use crate::http::path::percent::{PathBuffer, PathForm};
use crate::http::request_view::RequestView;
use crate::http::rewrites::Rewrites;
use crate::http::trailers::TrailerRules;
use crate::http::upgrade::Protocols;
use crate::limiting::Limiter;
use crate::limiting::bandwidth::BandwidthLimiter;
use crate::limiting::key_limits::KeyLimits;
use crate::routing::choice::{CompiledChoice, CompiledSplit};
pub use crate::routing::condition::FillText;
use crate::routing::condition::{Condition, RequestTexts, RoutedRequest};
use crate::routing::error_target::ErrorTargets;
use crate::routing::file_switch::FileSwitch;
use crate::routing::files_below::FilesBelow;
use crate::routing::hosts::Hosts;
use crate::routing::index::RouteIndex;
use crate::routing::pool_count::PoolCount;
use crate::routing::response_rules::CompiledResponseRules;
use crate::routing::route_lists::RouteLists;
use crate::routing::trace::ConditionTrace;
use crate::upstream::UpstreamPool;
use crate::upstream::rules::UpstreamRules;

/// A compiled route.
#[derive(Clone, Debug)]
pub struct CompiledRoute {
    /// Its number among the listener's routes.
    pub(crate) number: usize,
    /// Its name in logs.
    pub name: Arc<str>,
    /// Its action.
    pub action: CompiledAction,
    /// Its setting for the total time of an exchange.
    pub(crate) request_timeout: RequestTimeout,
    /// Its rules for requests to its pool, if it has settings of its own.
    pub(crate) rules: Option<Box<UpstreamRules>>,
    /// The rules to allow and deny clients; the first match wins.
    pub access: Vec<AccessRule>,
    /// Its logs, instead of the listener's: indices into the snapshot's.
    pub(crate) logs: Option<Box<[usize]>>,
    /// The limits on its requests by key.
    pub key_limits: KeyLimits,
    /// The limit on the rate of bodies.
    pub bandwidth: Option<Arc<BandwidthLimiter>>,
    /// The changes of the target that the endpoint gets; `None` if there are none.
    pub(crate) rewrites: Option<Rewrites>,
    /// The target of its internal redirect: its action, or what follows if there is no file.
    pub(crate) internal: Option<Box<InternalTarget>>,
    /// The needs of its requests for files besides a directory; `None` if they have none.
    pub(crate) file_options: Option<Box<FileOptions>>,
    /// The targets of its requests that would get an error response; `None` if there are none.
    pub(crate) error_targets: Option<ErrorTargets>,
    /// The most bytes that the body of its requests may have.
    pub(crate) body_bytes: u64,
    /// The time for which clients may keep its responses.
    pub(crate) expires: Option<CompiledExpires>,
    /// Its rules for responses of endpoints; `None` if there are none.
    pub(crate) responses: Option<Box<CompiledResponseRules>>,
    /// The edits of the request, the listener's before its own.
    pub request_edits: Edits,
    /// The edits of the response, the listener's before its own.
    pub response_edits: Edits,
    /// The protocols that connections may switch to.
    pub(crate) protocols: Protocols,
    /// The rules for trailers of requests and of responses.
    pub(crate) trailers: (Arc<TrailerRules>, Arc<TrailerRules>),
    /// Set if one of its own texts uses a group of its path regex, so that
    /// [`CompiledRoute::captures`] is needed.
    pub uses_captures: bool,
    /// Set if one of its own texts contains the reasons for the request's handling (`$why`).
    pub tells_why: bool,
    /// Set if one of its texts contains the local address of the client connection.
    uses_local_address: bool,
    condition: Condition,
    path_form: PathForm,
}

/// The action of a route.
#[derive(Clone, Debug)]
pub enum CompiledAction {
    /// A pool, by index in the configuration.
    Pool(usize),
    /// The pool that a variable names.
    PoolBy(Arc<CompiledChoice>),
    /// One of several pools by shares.
    Split(Arc<CompiledSplit>),
    /// A fixed response.
    Respond(CompiledRespond),
    /// A redirect.
    Redirect(CompiledRedirect),
    /// Static files, by index in [`Router::files`].
    Files(usize),
    /// An internal redirect to [`CompiledRoute::internal`].
    Internal,
}

/// The needs of requests for files.
#[derive(Clone, Debug)]
pub(crate) struct FileOptions {
    /// The directory below that of the route.
    pub(crate) below: Option<FilesBelow>,
    /// The target of requests for which there is a file.
    pub(crate) found: Option<InternalTarget>,
    /// The paths with variables, in the places of their candidates; none if there are none.
    pub(crate) texts: Box<[Option<Rewrites>]>,
}

impl FileOptions {
    fn compile(action: &Action, listener: &Listener) -> Result<Option<Box<Self>>, String> {
        let Action::Files(Files { below, found, candidates, .. }) = action else {
            return Ok(None);
        };
        let texts = candidates.iter().map(|candidate| {
            let text = candidate.text.as_ref().map(|text| Rewrite::Path(text.clone()));
            Rewrites::compile(text.as_slice(), &listener.path)
        });
        let mut texts: Box<[Option<Rewrites>]> = texts.collect::<Result<_, _>>()?;
        if texts.iter().all(Option::is_none) {
            texts = Box::default();
        }
        if below.is_none() && found.is_none() && texts.is_empty() {
            return Ok(None);
        }
        let below = below.as_ref().map(FilesBelow::compile).transpose()?;
        let found = found.as_ref().map(|to| InternalTarget::compile(to, listener)).transpose()?;
        let found = found.map(|to| InternalTarget { is_step: to.name.is_some(), ..to });
        Ok(Some(Box::new(Self { below, found, texts })))
    }
}

/// The target of an internal redirect: a name, a path or both.
#[derive(Clone, Debug)]
pub(crate) struct InternalTarget {
    /// Set for a step of one phase: a change of the path under a name, or a test of a file.
    pub(crate) is_step: bool,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) path: Option<Rewrites>,
}

impl InternalTarget {
    /// Compiles the target of an action; `None` if it has none.
    fn of(action: &Action, listener: &Listener) -> Result<Option<Self>, String> {
        let (to, tests) = match action {
            Action::Internal(to) => (to, false),
            Action::Files(Files { fallback: Some(to), found, .. }) => (to, found.is_some()),
            _ => return Ok(None),
        };
        let target = Self::compile(to, listener)?;
        let changes = matches!(action, Action::Internal(_)) && target.path.is_some();
        let is_step = target.name.is_some() && (tests || changes);
        Ok(Some(Self { is_step, ..target }))
    }

    /// Compiles a target.
    pub(crate) fn compile(to: &Template, listener: &Listener) -> Result<Self, String> {
        let (name, path) = internal_parts(to)?;
        let path = path.map(|path| Rewrites::compile(&[Rewrite::Path(path)], &listener.path));
        let name = name.map(Arc::from);
        Ok(Self { is_step: false, name, path: path.transpose()?.flatten() })
    }
}

impl CompiledAction {
    /// Returns the text by which a pool is chosen.
    fn key(&self) -> Option<&Template> {
        let key = match self {
            Self::PoolBy(choice) => Some(&choice.by),
            Self::Split(split) => split.key.as_ref(),
            Self::Pool(_)
            | Self::Respond(_)
            | Self::Redirect(_)
            | Self::Files(_)
            | Self::Internal => None,
        };
        key.map(|key| &key.template)
    }

    /// Returns the pool for the text of its variable or key.
    pub(crate) fn pool_for(&self, text: &[u8]) -> Option<usize> {
        match self {
            Self::Pool(pool) => Some(*pool),
            Self::PoolBy(choice) => choice.pool(text),
            Self::Split(split) => split.pool(text),
            Self::Respond(_) | Self::Redirect(_) | Self::Files(_) | Self::Internal => None,
        }
    }
}

/// A fixed response.
#[derive(Clone, Debug)]
pub struct CompiledRespond {
    /// Its status.
    pub status: u16,
    /// Its `Content-Type`.
    pub content_type: Box<str>,
    /// Set if it refuses the request.
    pub(crate) denied: bool,
    /// The time for which it is held back.
    pub(crate) delay: Option<Duration>,
    body: Option<Template>,
}

impl CompiledRespond {
    /// Returns true if the connection is closed without a response.
    pub(crate) fn closes(&self) -> bool {
        self.status == NO_RESPONSE
    }

    /// Returns true if it has a body of its own.
    pub(crate) fn has_body(&self) -> bool {
        self.body.is_some()
    }

    /// Its body, built in `scratch` if it has variables; `None` stands for the built-in page of the
    /// status.
    pub fn body<'a>(&'a self, entry: &Entry<'_>, scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        let template = self.body.as_ref()?;
        Some(template.constant().unwrap_or_else(|| {
            scratch.clear();
            template.append(entry, Escape::None, scratch);
            scratch
        }))
    }
}

/// A redirect.
#[derive(Clone, Debug)]
pub struct CompiledRedirect {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    to: Template,
}

impl CompiledRedirect {
    /// Compiles a redirect.
    pub(crate) fn of(redirect: &Redirect) -> Self {
        Self { status: redirect.status, to: redirect.to.clone() }
    }

    /// Its `Location`, built in `scratch`; `None` if that is a URL without a host, for example
    /// `https://$host/` for a request without a host (RFC 9110 section 4.2.2 has recipients reject
    /// it).
    pub fn location<'a>(&self, entry: &Entry<'_>, scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        scratch.clear();
        self.to.append(entry, Escape::Header, scratch);
        let location = &*scratch;
        (!lacks_host(location)).then_some(location)
    }
}

/// Returns true for an `http` or `https` URL with an empty host.
fn lacks_host(location: &[u8]) -> bool {
    let after = |scheme: &[u8]| {
        let (start, rest) = location.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    };
    let rest = after(b"https://").or_else(|| after(b"http://"));
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'/' | b'?' | b'#' | b':')))
}

/// The way to the route of one request.
#[derive(Debug)]
pub struct RouteTrace<'a> {
    /// The number of the host block; `None` for the routes outside host blocks.
    pub site: Option<usize>,
    /// The path as conditions see it.
    pub path: Vec<u8>,
    /// The conditions of the routes of the block, in order, up to the one that matched.
    pub tried: Vec<ConditionTrace>,
    /// The route that the request takes.
    pub route: Option<&'a CompiledRoute>,
    /// Its position in its block.
    pub position: Option<usize>,
}

/// A listener's routes.
#[derive(Debug)]
pub struct Router {
    /// The routes of each host block, in order.
    sites: Box<[RouteList]>,
    default: RouteList,
    hosts: Hosts,
    files: Vec<Files>,
    pages: ErrorPages,
    error_targets: Option<ErrorTargets>,
    file_switches: Box<[Arc<FileSwitch>]>,
    pool_counts: Box<[Arc<PoolCount>]>,
    response_edits: Edits,
    needs_path: bool,
    needs_server_name: bool,
    /// Set if a text of an action or a rule for responses uses a header of an endpoint's response.
    reads_responses: bool,
    path_form: PathForm,
}

/// Routes in the order in which they are tried.
#[derive(Debug, Default)]
pub(super) struct RouteList {
    routes: Box<[CompiledRoute]>,
    /// The index of the routes, if there are many.
    index: Option<RouteIndex>,
}

impl RouteList {
    pub(super) fn new(routes: Box<[CompiledRoute]>) -> Self {
        let index = RouteIndex::new(routes.iter().map(|route| &route.condition));
        Self { routes, index }
    }

    fn needs_path(&self) -> bool {
        self.routes.iter().any(|route| route.condition.needs_path())
    }

    fn needs_server_name(&self) -> bool {
        self.routes.iter().any(|route| {
            route.condition.has_text(&uses_server_name)
                || route.action.key().is_some_and(uses_server_name)
        })
    }

    /// The first route that matches.
    fn find<'s, 'a>(&'s self, subject: RoutedRequest<'a>) -> Option<&'s CompiledRoute>
    where
        's: 'a,
    {
        let matches = |route: &&'s CompiledRoute| route.condition.holds(subject);
        match &self.index {
            None => self.routes.iter().find(matches),
            Some(index) => index
                .candidates(subject.path)
                .filter_map(|number| self.routes.get(number as usize))
                .find(matches),
        }
    }
}

impl Router {
    /// Compiles a listener's routes in at most `threads` threads; `read` returns the contents of an
    /// error page.
    ///
    /// # Errors
    /// A sentence for the operator: an error page cannot be read, or a header edit is invalid.
    pub fn compile(
        listener: &Listener,
        read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
        threads: usize,
    ) -> Result<Self, String> {
        let sites = listener.sites.iter().map(|site| site.routes.as_slice());
        let routes: Vec<_> = [listener.default.as_slice()].into_iter().chain(sites).collect();
        let RouteLists { lists, files } = RouteLists::compile(listener, &routes, threads)?;
        let mut lists = lists.into_iter();
        let default = lists.next().unwrap_or_default();
        let sites: Box<[_]> = lists.collect();
        let (mut switches, mut counts) = (Vec::new(), Vec::new());
        for route in sites.iter().chain([&default]).flat_map(|list| &list.routes) {
            route.condition.file_switches(&mut switches);
            route.condition.pool_counts(&mut counts);
        }
        let file_switches = switches.into_iter().cloned().collect();
        let pool_counts = counts.into_iter().cloned().collect();
        let lists = || sites.iter().chain([&default]);
        let needs_path = lists().any(RouteList::needs_path);
        let needs_server_name = !sites.is_empty()
            || lists().any(RouteList::needs_server_name)
            || listener.all_routes().any(names_servers_by_server_name);
        Ok(Self {
            sites,
            default,
            hosts: Hosts::new(&listener.sites),
            files,
            pages: ErrorPages::load(&listener.error_pages, read)?,
            error_targets: ErrorTargets::compile(&listener.error_targets, listener)?,
            file_switches,
            pool_counts,
            response_edits: Edits::compile(EditedMessage::Response, &listener.response_headers)?,
            needs_path,
            needs_server_name,
            reads_responses: listener.all_routes().any(reads_responses),
            path_form: PathForm::of(&listener.path),
        })
    }

    /// The route that the request takes; `None` means 404. `fill` gives the texts with variables
    /// that conditions look at.
    pub fn route<'a>(
        &'a self,
        view: &RequestView<'_>,
        fill: FillText<'_>,
    ) -> Option<&'a CompiledRoute> {
        let list = self.routes_for(view.head.host.of(view.bytes));
        match &*list.routes {
            [first, ..] if first.condition.is_always() => return Some(first),
            [] => return None,
            _ => {}
        }
        let mut buffer = PathBuffer::new();
        let path =
            if self.needs_path { self.path_form.seen(view.path(), &mut buffer) } else { b"/" };
        let texts = RequestTexts::new(fill);
        list.find(RoutedRequest { view, path, texts: &texts })
    }

    /// Returns true if the name that a TLS client asks for decides about the route of a connection.
    pub(crate) fn needs_server_name(&self) -> bool {
        self.needs_server_name
    }

    /// Finds the route of a request like [`Router::route`], and reports what was tried before it.
    pub fn trace<'a>(&'a self, view: &RequestView<'_>, fill: FillText<'_>) -> RouteTrace<'a> {
        let site = self.hosts.find(view.head.host.of(view.bytes));
        let list = self.routes_for(view.head.host.of(view.bytes));
        let route = self.route(view, fill);
        let mut buffer = PathBuffer::new();
        let path = self.path_form.seen(view.path(), &mut buffer);
        let texts = &RequestTexts::new(fill);
        let subject = RoutedRequest { view, path, texts };
        let mut tried = Vec::new();
        let mut position = None;
        for (number, one) in list.routes.iter().enumerate() {
            tried.push(one.condition.trace(subject));
            if route.is_some_and(|route| std::ptr::eq(route, one)) {
                position = Some(number);
                break;
            }
        }
        RouteTrace { site, path: path.to_vec(), tried, route, position }
    }

    /// Sets the rate and bandwidth limits of the routes.
    pub(crate) fn limit(&mut self, listener: &Listener, limiter: &Arc<Limiter>) {
        for (route, model) in self.routes_mut().zip(listener.all_routes()) {
            route.key_limits =
                KeyLimits::compile(&model.rate_limits, &model.in_flight_limits, limiter);
            route.bandwidth = BandwidthLimiter::compile(model.bandwidth.as_ref(), limiter);
        }
    }

    /// Sets the logs of the routes that have their own.
    pub(crate) fn set_logs(
        &mut self,
        listener: &Listener,
        indices: impl Fn(&[String]) -> Vec<usize>,
    ) {
        for (route, model) in self.routes_mut().zip(listener.all_routes()) {
            route.logs = model.logs.as_deref().map(|names| indices(names).into());
        }
    }

    /// Sets the rules of the routes that have settings of their own for requests to their pools.
    pub(crate) fn set_rules(&mut self, listener: &Listener, pools: &[Pool]) {
        for (route, model) in self.routes_mut().zip(listener.all_routes()) {
            let Action::Pool(number) = &model.action else { continue };
            let pool = pools.get(*number).filter(|_| !model.upstream.is_inherited());
            route.rules = pool.map(|pool| Box::new(UpstreamRules::of_route(&model.upstream, pool)));
        }
    }

    /// All routes, in the order of the model's.
    fn routes_mut(&mut self) -> impl Iterator<Item = &mut CompiledRoute> {
        std::iter::once(&mut self.default).chain(&mut self.sites).flat_map(|list| &mut list.routes)
    }

    /// All routes, in the order of their numbers.
    pub(crate) fn routes(&self) -> impl Iterator<Item = &CompiledRoute> {
        // The order in which they are compiled.
        std::iter::once(&self.default).chain(&self.sites).flat_map(|list| &list.routes)
    }

    /// The directories that its `files` routes serve, by the index of [`CompiledAction::Files`].
    pub fn files(&self) -> &[Files] {
        &self.files
    }

    /// The configured pages for statuses.
    pub fn pages(&self) -> &ErrorPages {
        &self.pages
    }

    /// The listener's targets for errors, for requests without a route.
    pub(crate) fn error_targets(&self) -> Option<&ErrorTargets> {
        self.error_targets.as_ref()
    }

    /// The listener's edits of responses, for requests without a route.
    pub fn response_edits(&self) -> &Edits {
        &self.response_edits
    }

    /// The files that conditions ask for.
    pub(crate) fn file_switches(&self) -> &[Arc<FileSwitch>] {
        &self.file_switches
    }

    /// The counts of servers that conditions ask for.
    pub(crate) fn pool_counts(&self) -> &[Arc<PoolCount>] {
        &self.pool_counts
    }

    /// Returns true if a text of some route uses a header of the endpoint's response.
    pub(crate) fn uses_response_headers(&self) -> bool {
        self.reads_responses
            || self.routes().any(|route| {
                route.response_edits.uses_response_headers()
                    || route.expires.as_ref().is_some_and(CompiledExpires::needs_entry)
            })
    }

    /// Returns true if a header of some route shows the body of the request.
    pub(crate) fn uses_request_body(&self) -> bool {
        self.routes().any(|route| {
            route.request_edits.uses_request_body() || route.response_edits.uses_request_body()
        })
    }

    /// Returns true if a text of some route contains the local address of the client connection.
    pub(crate) fn uses_local_address(&self) -> bool {
        self.routes().any(|route| route.uses_local_address)
            || self.pages.texts().any(uses_local_address)
    }

    /// The routes of the first host block that serves `host`, else the default routes.
    fn routes_for(&self, host: &[u8]) -> &RouteList {
        if self.sites.is_empty() {
            return &self.default;
        }
        let site = self.hosts.find(host).and_then(|number| self.sites.get(number));
        site.unwrap_or(&self.default)
    }
}

impl CompiledRoute {
    /// Returns true if its condition has a path regex with groups.
    pub fn has_captures(&self) -> bool {
        self.condition.has_groups()
    }

    /// The rules for its requests to this pool.
    pub(crate) fn rules_for<'p>(&'p self, pool: &'p UpstreamPool) -> &'p UpstreamRules {
        self.rules.as_deref().unwrap_or(&pool.rules)
    }

    /// The groups `$1`…`$9` of its path regex for a request that took it; `None` if it has none.
    pub fn captures(&self, view: &RequestView<'_>, fill: FillText<'_>) -> Option<Captures> {
        if !self.has_captures() {
            return None;
        }
        let mut buffer = PathBuffer::new();
        let path = self.path_form.seen(view.path(), &mut buffer);
        let texts = &RequestTexts::new(fill);
        let groups = self.condition.groups(RoutedRequest { view, path, texts })?;
        Some(Captures::of(&groups, self.path_form))
    }
}

pub(super) fn compile_route(
    listener: &Listener,
    route: &Route,
    number: usize,
    number_of_files: usize,
) -> Result<CompiledRoute, String> {
    let explain = |error| format!("route {}: {error}", route.name);
    let condition = Condition::compile(&route.when);
    let request_edits = listener.request_headers.iter().chain(&route.request_headers);
    let response_edits = listener.response_headers.iter().chain(&route.response_headers);
    let request_edits = Edits::compile(EditedMessage::Request, request_edits).map_err(explain)?;
    let response_edits =
        Edits::compile(EditedMessage::Response, response_edits).map_err(explain)?;
    let id = listener.request_id.header.as_deref();
    let of_request = TrailerRules::new(&request_edits, id).with_names(listener.header_names);
    let of_response = TrailerRules::new(&response_edits, id);
    let trailers = (Arc::new(of_request), Arc::new(of_response));
    let internal = InternalTarget::of(&route.action, listener).map_err(explain)?;
    let errors =
        if route.error_targets.is_empty() { &listener.error_targets } else { &route.error_targets };
    let pages = || listener.error_pages.iter().filter_map(|page| page.text.as_ref());
    let errors_of = || errors.iter().map(ErrorTarget::template).chain(pages());
    let of_upstream = || {
        let methods = route.upstream.methods.iter().flat_map(ImposedMethod::templates);
        route.upstream.servers.iter().flat_map(ServerPreference::templates).chain(methods)
    };
    let expires = || route.expires.as_ref().and_then(Expires::template);
    let rules = || route.responses.templates().chain(of_upstream()).chain(expires());
    let texts = || texts_of(&route.action).chain(errors_of()).chain(rules());
    let text_has = |test: fn(&Template) -> bool| texts().any(test);
    let rewrites = Rewrites::compile(&route.rewrite, &listener.path).map_err(explain)?;
    let rewrite_has =
        |test: fn(&Template) -> bool| route.rewrite.iter().filter_map(Rewrite::template).any(test);
    Ok(CompiledRoute {
        number,
        name: route.name.as_str().into(),
        action: compile_action(&route.action, number_of_files),
        access: route.access.clone(),
        trailers,
        protocols: Protocols::new(route.upgrade.as_ref().unwrap_or(&listener.upgrade)),
        logs: None,
        key_limits: KeyLimits::default(),
        bandwidth: None,
        request_timeout: route.request_timeout,
        rules: None,
        tells_why: text_has(Template::tells_why)
            || request_edits.tells_why()
            || response_edits.tells_why(),
        uses_captures: text_has(uses_captures)
            || rewrites.as_ref().is_some_and(Rewrites::uses_captures)
            || request_edits.uses_captures()
            || response_edits.uses_captures(),
        uses_local_address: text_has(uses_local_address)
            || rewrite_has(uses_local_address)
            || condition.has_text(&uses_local_address)
            || request_edits.uses_local_address()
            || response_edits.uses_local_address(),
        rewrites,
        internal: internal.map(Box::new),
        file_options: FileOptions::compile(&route.action, listener).map_err(explain)?,
        body_bytes: route.body.or(listener.limits.body_bytes).unwrap_or(u64::MAX),
        expires: route.expires.as_ref().map(CompiledExpires::compile),
        error_targets: ErrorTargets::compile(errors, listener).map_err(explain)?,
        responses: CompiledResponseRules::compile(&route.responses, listener).map_err(explain)?,
        request_edits,
        response_edits,
        condition,
        path_form: PathForm::of(&listener.path),
    })
}

/// Returns true if the action or a rule for responses uses a header of an endpoint's response.
fn reads_responses(route: &Route) -> bool {
    let expires = route.expires.as_ref().and_then(Expires::template);
    let mut texts = texts_of(&route.action).chain(route.responses.templates()).chain(expires);
    texts.any(Template::needs_response_headers)
}

/// The texts with variables of an action.
fn texts_of(action: &Action) -> impl Iterator<Item = &Template> {
    let files = if let Action::Files(files) = action { Some(files) } else { None };
    let text = match action {
        Action::Respond(respond) => respond.body.as_ref(),
        Action::Redirect(redirect) => Some(&redirect.to),
        Action::PoolBy(choice) => Some(&choice.by),
        Action::Split(split) => split.key.as_ref(),
        Action::Internal(to) => Some(to),
        Action::Files(_) | Action::Pool(_) => None,
    };
    text.into_iter().chain(files.into_iter().flat_map(Files::templates))
}

/// Returns true if a server of the route's pool is chosen by the name that a TLS client asks for.
fn names_servers_by_server_name(route: &Route) -> bool {
    let mut texts = route.upstream.servers.iter().flat_map(ServerPreference::templates);
    texts.any(uses_server_name)
}

fn uses_server_name(template: &Template) -> bool {
    template.variables().any(Variable::is_of_client_hello)
}

fn compile_action(action: &Action, number_of_files: usize) -> CompiledAction {
    match action {
        Action::Pool(pool) => CompiledAction::Pool(*pool),
        Action::PoolBy(choice) => CompiledAction::PoolBy(Arc::new(CompiledChoice::new(choice))),
        Action::Split(split) => CompiledAction::Split(Arc::new(CompiledSplit::new(split))),
        Action::Respond(Respond { status, body, content_type, denied, delay }) => {
            CompiledAction::Respond(CompiledRespond {
                status: *status,
                content_type: content_type.as_str().into(),
                body: body.clone(),
                denied: *denied,
                delay: *delay,
            })
        }
        Action::Redirect(redirect) => CompiledAction::Redirect(CompiledRedirect::of(redirect)),
        Action::Files(_) => CompiledAction::Files(number_of_files),
        Action::Internal(_) => CompiledAction::Internal,
    }
}

#[cfg(test)]
mod tests {
    use weir_config::model::{ErrorPage, HeaderEdit, Rule, Site};

    use super::*;
    use crate::http::sample::{SampleRequest, listener, route};

    fn path(pattern: &str) -> Rule {
        Rule::Path(vec![pattern.parse().unwrap()])
    }

    fn always() -> Rule {
        Rule::All(Vec::new())
    }

    fn site(hosts: &str, routes: Vec<Route>) -> Site {
        Site { hosts: hosts.split(' ').map(|host| host.parse().unwrap()).collect(), routes }
    }

    fn compile(listener: &Listener) -> Router {
        Router::compile(listener, &|_: &Path| Err(io::ErrorKind::NotFound.into()), 1).unwrap()
    }

    fn check(router: &Router, host: &str, target: &str, expected: &str) {
        let request = SampleRequest::new(&match host {
            "" => format!("GET {target} HTTP/1.0\r\n\r\n"),
            host => format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        });
        let request = request.normalised();
        let name = router.route(&request.view(), &|_, _| {}).map_or("", |route| &*route.name);
        assert_eq!(name, expected, "{host} {target}");
    }

    #[test]
    fn a_catch_all_takes_everything() {
        let router = compile(&Listener { default: vec![route("all", always())], ..listener() });
        check(&router, "a", "/", "all");
        check(&router, "", "/x?y", "all");
        check(&compile(&listener()), "a", "/", "");
    }

    #[test]
    fn routes_are_tried_top_to_bottom() {
        let default = vec![
            route("admin", path("/admin/*")),
            route("never", path("/admin/x")),
            route("static", path("/static/*")),
        ];
        let router = compile(&Listener { default, ..listener() });
        check(&router, "a", "/admin/x", "admin");
        check(&router, "a", "/static/%2e%2e/admin/x", "admin");
        check(&router, "a", "/static/a%2fb", "static");
        check(&router, "a", "/other", "");
    }

    #[test]
    fn the_first_host_block_that_serves_the_host_decides() {
        let sites = vec![
            site("shop.example.com [2001:db8::1]", vec![route("shop", path("/only"))]),
            site("*.example.com", vec![route("below", always())]),
            site("www.example.com example.org", vec![route("late", always())]),
            site("~^img[0-9]+\\.", vec![route("regex", always())]),
            site("EXAMPLE.org img1.example.net", vec![route("later", always())]),
        ];
        let router =
            compile(&Listener { sites, default: vec![route("default", always())], ..listener() });
        check(&router, "shop.example.com", "/only", "shop");
        check(&router, "SHOP.example.com.:8443", "/only", "shop");
        check(&router, "[2001:DB8::1]:80", "/only", "shop");
        check(&router, "shop.example.com", "/other", "");
        check(&router, "www.example.com", "/", "below");
        check(&router, "example.org", "/", "late");
        check(&router, "img1.example.net", "/", "regex");
        check(&router, "imgx.example.net", "/", "default");
        check(&router, "example.com", "/", "default");
        check(&router, "", "/", "default");
        check(&router, &format!("{}.org", "a".repeat(300)), "/", "default");
        check(&router, "ignored", "http://example.org:80/", "late");
    }

    #[test]
    fn groups_are_percent_encoded() {
        let rules = vec![Rule::Method(vec!["GET".into()]), path("~^/u/([^/]*)/(x)?(.*)$")];
        let router =
            compile(&Listener { default: vec![route("user", Rule::All(rules))], ..listener() });
        let request =
            SampleRequest::new("GET /u/%3Cb%3E%0d%0a/caf%C3%A9 HTTP/1.1\r\nHost: a\r\n\r\n");
        let found = router.route(&request.view(), &|_, _| {}).unwrap();
        assert!(found.has_captures() && !found.uses_captures);
        let captures = found.captures(&request.view(), &|_, _| {}).unwrap();
        let groups = captures.groups();
        assert_eq!(groups[..4], [&b"%3Cb%3E%0D%0A"[..], b"", b"caf%C3%A9", b""]);
        assert_eq!(groups.len(), 9);
    }

    #[test]
    fn a_route_without_groups_has_no_captures() {
        let router =
            compile(&Listener { default: vec![route("all", path("~^/u/.*"))], ..listener() });
        let request = SampleRequest::new("GET /u/x HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(
            router
                .route(&request.view(), &|_, _| {})
                .unwrap()
                .captures(&request.view(), &|_, _| {})
                .is_none()
        );
    }

    #[test]
    fn redirects_and_fixed_responses_contain_variables() {
        let parse = |text: &str| Template::parse(text).unwrap();
        let to = |text| Action::Redirect(Redirect { status: 308, to: parse(text) });
        let body = |text| {
            Action::Respond(Respond {
                status: 200,
                body: Some(parse(text)),
                content_type: "text/plain".into(),
                denied: false,
                delay: None,
            })
        };
        let default = vec![
            Route { action: to("https://$host$request_uri"), ..route("redirect", path("/r")) },
            Route { action: body("hello $host"), ..route("varying", path("/v")) },
            Route { action: body("fixed"), ..route("fixed", path("/f")) },
            Route { action: to("/new/$1"), ..route("group", path("~^/old/(.*)")) },
        ];
        let router = compile(&Listener { default, ..listener() });
        let text = |target: &str| {
            let request =
                SampleRequest::new(&format!("GET {target} HTTP/1.1\r\nHost: Shop:80\r\n\r\n"));
            let request = request.normalised();
            let view = request.view();
            let found = router.route(&view, &|_, _| {}).unwrap();
            let captures = found.captures(&view, &|_, _| {}).unwrap_or_default();
            let groups = captures.groups();
            let entry = Entry { captures: &groups, ..request.entry(&view, &()) };
            let mut scratch = b"used before".to_vec();
            let text = match &found.action {
                CompiledAction::Redirect(redirect) => {
                    redirect.location(&entry, &mut scratch).unwrap()
                }
                CompiledAction::Respond(respond) => respond.body(&entry, &mut scratch).unwrap(),
                other => panic!("{other:?}"),
            };
            (String::from_utf8_lossy(text).into_owned(), found.uses_captures)
        };
        assert_eq!(text("/r?a=b"), ("https://shop/r?a=b".into(), false));
        assert_eq!(text("/v"), ("hello shop".into(), false));
        assert_eq!(text("/f"), ("fixed".into(), false));
        assert_eq!(
            text("/old/a%0d%0aSet-Cookie:%20x"),
            ("/new/a%0D%0ASet-Cookie:%20x".into(), true)
        );
        assert_eq!(text("//old//evil"), ("/new/evil".into(), true));
    }

    #[test]
    fn a_redirect_to_a_url_without_host_is_none() {
        let check = |to: &str, head: &str, expected: Option<&str>| {
            let to = Template::parse(to).unwrap();
            let redirect = CompiledRedirect { status: 301, to };
            let request = SampleRequest::new(head);
            let view = request.view();
            let mut scratch = Vec::new();
            let location = redirect.location(&request.entry(&view, &()), &mut scratch);
            assert_eq!(location, expected.map(str::as_bytes), "{head:?}");
        };
        let (with, without) = ("GET /x HTTP/1.0\r\nHost: a\r\n\r\n", "GET /x HTTP/1.0\r\n\r\n");
        check("https://$host$request_uri", with, Some("https://a/x"));
        for to in
            ["https://$host$request_uri", "HTTP://$host:8443/", "http://$host", "https://$host?"]
        {
            check(to, without, None);
        }
        check("https://a/$host", without, Some("https://a/"));
        check("$request_uri", without, Some("/x"));
        check("/go?to=https://$host", without, Some("/go?to=https://"));
    }

    #[test]
    fn a_compile_error_names_the_route_or_the_error_page() {
        let error = |listener: &Listener| {
            Router::compile(listener, &|_: &Path| Err(io::ErrorKind::NotFound.into()), 1)
                .unwrap_err()
        };
        let edit = HeaderEdit::Remove("Content-Length".into());
        let bad = Route { response_headers: vec![edit.clone()], ..route("r1", always()) };
        let message = error(&Listener { default: vec![bad], ..listener() });
        assert!(message.starts_with("route r1: header `Content-Length` determines"), "{message}");
        let message = error(&Listener { response_headers: vec![edit], ..listener() });
        assert!(message.starts_with("header `Content-Length` determines"), "{message}");
        let page = ErrorPage::of_file(vec![502], "/nowhere/sorry.html".into());
        let message = error(&Listener { error_pages: vec![page], ..listener() });
        assert!(message.starts_with("error page /nowhere/sorry.html: "), "{message}");
    }
}
