//! The checks of a listener that passes on bytes: it has no requests, so that nothing which depends
//! on one can be set. It looks at no address and at no pool's own settings but its cookie.

use super::Problem;
use crate::defaults;
use crate::model::{
    Action, ClientTimeouts, Forwarded, Grpc, HeaderNames, Http2, Listener, MessageLimits,
    PathRules, Pool, Protocol, RequestIdSettings, RequestTimeout, Respond, Route, RouteSize, Rule,
};

/// Returns what a TCP listener cannot have, with paths below the listener.
pub(crate) fn problems(listener: &Listener, pools: &[Pool]) -> Vec<Problem> {
    if listener.protocol == Protocol::Http {
        return Vec::new();
    }
    let mut problems = Vec::new();
    let mut refuse = |path: &str, is_set: bool, what: &str| {
        if is_set {
            let message = format!("{what} of requests, which a `tcp` listener does not have");
            problems.push(Problem { path: path.to_owned(), message });
        }
    };
    let ClientTimeouts { handshake, half_closed, .. } = listener.timeouts;
    let usual = ClientTimeouts { handshake, half_closed, ..Default::default() };
    let forwarded = &listener.forwarded;
    let forwards = Forwarded { trusted: forwarded.trusted.clone(), ..Forwarded::default() };
    refuse(
        "timeouts",
        listener.timeouts != usual,
        "all but `handshake=` and `half_closed=` are time limits",
    );
    refuse("limits", listener.limits != MessageLimits::default(), "these are limits");
    refuse("forwarded", *forwarded != forwards, "these are headers");
    let has_id = listener.request_id != RequestIdSettings::default();
    refuse("request_id", has_id, "this is a header");
    refuse("cause_header", listener.cause_header.is_some(), "this is a header of the answers");
    refuse("explain_header", listener.explain_header.is_some(), "this is a header of the answers");
    refuse("path", listener.path != PathRules::default(), "these are the rules for paths");
    let names = listener.header_names;
    refuse("header_names", names != HeaderNames::default(), "these are the rules for names");
    refuse("http2", listener.http2 != Http2::default(), "this is a protocol");
    refuse("grpc", listener.grpc != Grpc::default(), "this is about calls");
    refuse("upgrade", listener.upgrade != defaults::upgrade(), "these are protocols");
    refuse("request_headers[0]", !listener.request_headers.is_empty(), "this is a header");
    refuse("response_headers[0]", !listener.response_headers.is_empty(), "this is a header");
    refuse("error_pages[0]", !listener.error_pages.is_empty(), "this answers errors");
    refuse("error_targets[0]", !listener.error_targets.is_empty(), "this answers errors");
    let sites = listener.sites.iter().enumerate();
    let sites = sites.map(|(number, site)| (format!("sites[{number}].routes"), &site.routes));
    for (path, routes) in sites.chain([("default".to_owned(), &listener.default)]) {
        for (number, route) in routes.iter().enumerate() {
            let path = format!("{path}[{number}]");
            let message = route_fault(route, pools);
            problems.extend(message.map(|message| Problem { path, message }));
        }
    }
    problems
}

/// Returns the reason why a route cannot be one of connections.
fn route_fault(route: &Route, pools: &[Pool]) -> Option<String> {
    let by_cookie = |pool: &usize| pools.get(*pool).is_some_and(|pool| pool.sticky.is_some());
    let in_http2 = |pool: &usize| {
        let pool = pools.get(*pool);
        pool.is_some_and(|pool| pool.endpoints.iter().any(|own| !pool.http_of(own).is_usual()))
    };
    let targets = route.action.pools();
    let timeouts = &route.upstream.timeouts;
    let waits = [timeouts.send, timeouts.response, timeouts.read];
    let of_requests = !route.rewrite.is_empty()
        || !route.request_headers.is_empty()
        || !route.response_headers.is_empty()
        || route.upgrade.is_some()
        || !route.error_targets.is_empty()
        || !route.responses.is_empty()
        || route.request_timeout != RequestTimeout::Inherited
        || !route.body.is_inherited()
        || route.expires.is_some()
        || waits.iter().any(Option::is_some)
        || route.upstream.buffer_request != RouteSize::Inherited
        || !route.upstream.methods.is_empty();
    let message = if let Some(message) = action_fault(&route.action) {
        message
    } else if let Some(what) = condition_fault(&route.when) {
        format!("{what} is a condition on requests, which a `tcp` listener does not have")
    } else if of_requests {
        "of its settings, a route of a `tcp` listener can have `timeout connect= tunnel=`, \
         `retry`, `use_server`, `limit`, `allow`, `deny` and `name`"
            .to_owned()
    } else if let Some(pool) = targets.iter().find(|pool| by_cookie(pool)) {
        let name = pools.get(*pool).map_or("", |pool| &pool.name);
        format!(
            "the pool `{name}` keeps clients at a server by a cookie, which connections of a \
             `tcp` listener do not have: use a pool with `balance hash $remote_addr`"
        )
    } else if let Some(pool) = targets.iter().find(|pool| in_http2(pool)) {
        let name = pools.get(*pool).map_or("", |pool| &pool.name);
        format!(
            "the servers of the pool `{name}` are asked in HTTP/2, and the bytes of a `tcp` \
             listener's connections are passed on as they are: use a pool without `http_version`"
        )
    } else {
        return None;
    };
    Some(message)
}

/// Returns the reason why connections cannot have this action.
fn action_fault(action: &Action) -> Option<String> {
    let what = match action {
        Action::Pool(_) | Action::PoolBy(_) | Action::Split(_) => return None,
        Action::Respond(Respond { status: 200, body: Some(_), content_type, denied, delay })
            if content_type == defaults::RESPOND_TYPE && !denied && delay.is_none() =>
        {
            return None;
        }
        Action::Respond(_) => "a `respond` with more than a text answers",
        Action::Redirect(_) => "`redirect` answers",
        Action::Files(_) => "`files` answers",
        Action::Internal(_) => "`internal` serves",
    };
    Some(format!(
        "{what} requests: a route of a `tcp` listener leads to a pool, or to `respond 200 TEXT`"
    ))
}

/// Returns the name of a condition that looks at a request, if there is one in the rule.
fn condition_fault(rule: &Rule) -> Option<&'static str> {
    match rule {
        Rule::All(rules) | Rule::Any(rules) => rules.iter().find_map(condition_fault),
        Rule::Not(rule) => condition_fault(rule),
        Rule::Client(_) | Rule::Variable(..) | Rule::Servers(..) | Rule::Load(..) => None,
        Rule::Path(_) => Some("`path`"),
        Rule::Method(_) => Some("`method`"),
        Rule::Header(..) => Some("`header`"),
        Rule::Cookie(..) => Some("`cookie`"),
        Rule::Query(..) => Some("`query`"),
        Rule::Internal(_) => Some("`internal`"),
        Rule::File(..) => Some("`file`"),
    }
}
