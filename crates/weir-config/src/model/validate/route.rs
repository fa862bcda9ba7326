//! The checks of routes: conditions, targets and changes of messages.

use std::fmt::Display;

use super::{MAX_RULE_DEPTH, Validator};
use crate::model::{
    Action, Budget, CountRange, Expires, Files, HIDDEN, HeaderEdit, PoolChoice, PoolSplit,
    Redirect, RequestTimeout, Respond, Route, RouteTimeouts, Rule, below_fault, counted_parts,
    internal_fault, internal_fault_after_response, values,
};

impl Validator<'_> {
    pub(super) fn routes(&mut self, path: &dyn Display, routes: &[Route]) {
        for (index, route) in routes.iter().enumerate() {
            let path = format_args!("{path}[{index}]");
            self.held(format_args!("{path}.name"), values::sound_name(&route.name));
            self.rule(&format_args!("{path}.when"), &route.when, 0);
            if let RequestTimeout::After(wait) = route.request_timeout {
                self.held(format_args!("{path}.request_timeout"), values::not_zero(wait));
            }
            self.action(&format_args!("{path}.action"), &route.action);
            self.upgrade(
                &format_args!("{path}.upgrade"),
                route.upgrade.as_deref().unwrap_or_default(),
            );
            self.log_names(&path, route.logs.as_deref().unwrap_or_default());
            self.rate_limits(&path, &route.rate_limits);
            self.in_flight_limits(&path, &route.in_flight_limits);
            self.bandwidth(&path, route.bandwidth.as_ref());
            self.rewrites(&format_args!("{path}.rewrite"), route);
            self.expires(&format_args!("{path}.expires"), route);
            self.error_targets(&path, &route.error_targets);
            self.responses(&format_args!("{path}.responses"), route);
            self.route_upstream(&format_args!("{path}.upstream"), route);
            self.request_edits(&format_args!("{path}.request_headers"), &route.request_headers);
            self.edits(&format_args!("{path}.response_headers"), &route.response_headers);
        }
    }

    pub(super) fn route_upstream(&mut self, path: &dyn Display, route: &Route) {
        let upstream = &route.upstream;
        if !upstream.is_inherited() && !matches!(route.action, Action::Pool(_)) {
            self.problem(
                path,
                "this route does not lead to one pool, whose settings it could replace",
            );
        }
        let RouteTimeouts { connect, send, response, read, tunnel } = upstream.timeouts;
        let waits = [
            ("connect", connect),
            ("send", send),
            ("response", response),
            ("read", read),
            ("tunnel", tunnel),
        ];
        self.optional_waits(&format_args!("{path}.timeouts"), &waits);
        if let Some(retry) = &upstream.retry {
            self.retry(&format_args!("{path}.retry"), retry);
            if retry.budget != Budget::Auto {
                self.problem(
                    format_args!("{path}.retry.budget"),
                    "the budget is a setting of the pool",
                );
            }
        }
        for (index, one) in upstream.methods.iter().enumerate() {
            let fault = one.fault().map_or(Ok(()), Err);
            self.held(format_args!("{path}.methods[{index}].method"), fault);
        }
        let Action::Pool(number) = route.action else { return };
        let Some(pool) = self.config.pools.get(number) else { return };
        for (index, server) in upstream.servers.iter().enumerate() {
            let fault = server.fault(pool).map_or(Ok(()), Err);
            self.held(format_args!("{path}.servers[{index}].name"), fault);
        }
    }

    pub(super) fn responses(&mut self, path: &dyn Display, route: &Route) {
        if route.responses.needs_pool() && route.action.pools().is_empty() {
            self.problem(path, "only requests to a pool have responses of endpoints");
        }
        for (index, one) in route.responses.intercept.iter().enumerate() {
            let fault = internal_fault_after_response(&one.to).map_or(Ok(()), Err);
            self.held(format_args!("{path}.intercept[{index}].to"), fault);
            for name in &one.keep {
                let kept = values::kept_header(name).map(|_| ());
                self.held(format_args!("{path}.intercept[{index}].keep"), kept);
            }
        }
        for (index, one) in route.responses.status.iter().enumerate() {
            let status = values::imposed_status(&one.status.to_string());
            self.held(format_args!("{path}.status[{index}].status"), status);
        }
    }

    pub(super) fn expires(&mut self, path: &dyn Display, route: &Route) {
        if let Some(by) = route.expires.as_ref().and_then(Expires::template) {
            self.held(format_args!("{path}.by"), values::expires_values(by));
        }
        if let Some(Expires::Until(time)) = route.expires {
            self.held(format!("{path}.until"), Expires::time_of_day(time));
        }
    }

    pub(super) fn rewrites(&mut self, path: &dyn Display, route: &Route) {
        if !route.rewrite.is_empty() && !route.action.takes_rewrites() {
            self.problem(path, "only a request to a pool or for a file is rewritten");
        }
        for (index, rewrite) in route.rewrite.iter().enumerate() {
            self.held(format_args!("{path}[{index}]"), rewrite.fault().map_or(Ok(()), Err));
        }
    }

    pub(super) fn upgrade(&mut self, path: &dyn Display, protocols: &[String]) {
        for (index, protocol) in protocols.iter().enumerate() {
            self.held(format_args!("{path}[{index}]"), values::protocol(protocol));
        }
    }

    pub(super) fn rule(&mut self, path: &dyn Display, rule: &Rule, depth: usize) {
        if depth > MAX_RULE_DEPTH {
            self.problem(path, format!("rules are nested deeper than {MAX_RULE_DEPTH}"));
            return;
        }
        match rule {
            Rule::All(rules) => {
                for (index, rule) in rules.iter().enumerate() {
                    self.rule(&format_args!("{path}.all[{index}]"), rule, depth + 1);
                }
            }
            Rule::Any(rules) => {
                for (index, rule) in rules.iter().enumerate() {
                    self.rule(&format_args!("{path}.any[{index}]"), rule, depth + 1);
                }
            }
            Rule::Not(rule) => self.rule(&format_args!("{path}.not"), rule, depth + 1),
            Rule::Header(name, _) => {
                self.held(format_args!("{path}.header"), values::token(name, "a header"));
            }
            Rule::Cookie(name, _) => {
                self.held(format_args!("{path}.cookie"), values::token(name, "a cookie"));
            }
            Rule::Method(methods) => {
                for (index, method) in methods.iter().enumerate() {
                    self.held(
                        format_args!("{path}.method[{index}]"),
                        values::token(method, "a method"),
                    );
                }
            }
            Rule::Variable(text, _) => {
                self.held(format_args!("{path}.variable[0]"), values::known_before_route(text));
            }
            Rule::Internal(Some(name)) => {
                self.held(format_args!("{path}.internal"), values::sound_name(name));
            }
            Rule::Servers(counted, range) => {
                self.count(&format_args!("{path}.servers"), counted, *range);
            }
            Rule::Load(_, counted, range) => {
                self.count(&format_args!("{path}.load"), counted, *range);
            }
            Rule::File(_, file) if !file.is_absolute() => {
                self.problem(format_args!("{path}.file[1]"), "the path of a file begins with `/`");
            }
            Rule::Path(_)
            | Rule::Query(..)
            | Rule::Client(_)
            | Rule::File(..)
            | Rule::Internal(None) => {}
        }
    }

    /// A count of a pool's servers or of its load: `POOL` or `POOL/SERVER`, and a range.
    pub(super) fn count(&mut self, path: &dyn Display, counted: &str, range: CountRange) {
        let (name, server) = counted_parts(counted);
        let pool = self.config.pools.iter().find(|one| one.name == name);
        match (pool, server) {
            (None, _) => self.problem(path, format!("there is no pool `{name}`")),
            (Some(pool), Some(server)) if pool.endpoints.iter().all(|one| one.name != server) => {
                self.problem(path, format!("the pool `{name}` has no server `{server}`"));
            }
            _ => {}
        }
        self.held(path, CountRange::parse(&range.to_string()).map(|_| ()));
    }

    pub(super) fn action(&mut self, path: &dyn Display, action: &Action) {
        match action {
            Action::Pool(index) => self.pool_index(format_args!("{path}.pool"), *index),
            Action::PoolBy(choice) => self.pool_choice(&format_args!("{path}.pool_by"), choice),
            Action::Split(split) => self.pool_split(&format_args!("{path}.split"), split),
            Action::Respond(respond) => self.respond(&format_args!("{path}.respond"), respond),
            Action::Redirect(Redirect { status, to }) => {
                let path = format_args!("{path}.redirect");
                self.held(
                    format_args!("{path}.status"),
                    values::redirect_status(&status.to_string()),
                );
                self.held(format_args!("{path}.to"), values::location(to.as_str()));
            }
            Action::Internal(to) => {
                self.held(format_args!("{path}.internal"), internal_fault(to).map_or(Ok(()), Err));
            }
            Action::Files(files) => {
                let Files { strip, prefix, index, types, fallback, found, below, .. } = files;
                let path = format_args!("{path}.files");
                if strip.as_ref().is_some_and(|prefix| !prefix.starts_with('/')) {
                    self.problem(
                        format_args!("{path}.strip"),
                        "a prefix of a path starts with `/`",
                    );
                }
                if let Some(prefix) = prefix {
                    let is_alone = strip.is_none();
                    let held = values::file_prefix(prefix);
                    let alone = "it has nothing to stand for without `strip`".to_owned();
                    let held = held.and(if is_alone { Err(alone) } else { Ok(()) });
                    self.held(format_args!("{path}.prefix"), held);
                }
                if index.iter().any(|name| name.is_empty() || name.contains('/')) {
                    self.problem(format_args!("{path}.index"), "an index is the name of a file");
                }
                let is_table =
                    |name: &&String| self.config.types.iter().any(|table| table.name == **name);
                if let Some(name) = types.as_ref().filter(|name| !is_table(name)) {
                    let message = format!("there is no table of types `{name}`");
                    self.problem(format_args!("{path}.types"), message);
                }
                let fault = fallback.as_ref().and_then(internal_fault);
                self.held(format_args!("{path}.fallback"), fault.map_or(Ok(()), Err));
                let fault = found.as_ref().and_then(internal_fault);
                self.held(format_args!("{path}.found"), fault.map_or(Ok(()), Err));
                let fault = below.as_ref().and_then(below_fault);
                self.held(format_args!("{path}.below"), fault.map_or(Ok(()), Err));
            }
        }
    }

    pub(super) fn pool_index(&mut self, path: impl Display, index: usize) {
        let count = self.config.pools.len();
        if index >= count {
            let message = format!("there is no pool with index {index}: there are {count} pools");
            self.problem(path, message);
        }
    }

    pub(super) fn pool_choice(&mut self, path: &dyn Display, choice: &PoolChoice) {
        for (number, (_, pool)) in choice.pools.iter().enumerate() {
            self.pool_index(format_args!("{path}.pools[{number}][1]"), *pool);
        }
        let is_known = |value: &str| choice.pools.iter().any(|(known, _)| known == value);
        let held = values::pool_values(&choice.by).and_then(|values| {
            match values.iter().find(|value| !is_known(value)) {
                Some(value) => Err(format!("the value `{value}` has no pool")),
                None => Ok(()),
            }
        });
        self.held(format_args!("{path}.by"), held);
    }

    pub(super) fn pool_split(&mut self, path: &dyn Display, split: &PoolSplit) {
        for (number, share) in split.shares.iter().enumerate() {
            self.pool_index(format_args!("{path}.shares[{number}].pool"), share.pool);
        }
        self.held(format_args!("{path}.shares"), values::whole_shares(&split.shares));
        if let Some(key) = &split.key {
            self.held(format_args!("{path}.key"), values::sound_key(key));
        }
    }

    pub(super) fn respond(&mut self, path: &dyn Display, respond: &Respond) {
        self.held(format_args!("{path}.status"), values::status(&respond.status.to_string()));
        self.held(format_args!("{path}.content_type"), values::line_text(&respond.content_type));
        if let Some(delay) = respond.delay {
            self.held(format_args!("{path}.delay"), values::response_delay(delay));
        }
        if respond.body.is_some() && matches!(respond.status, 204 | 304) {
            self.problem(
                format_args!("{path}.body"),
                format!("a response with status {} has no body", respond.status),
            );
        }
    }

    pub(super) fn request_edits(&mut self, path: &dyn Display, edits: &[HeaderEdit]) {
        for (index, edit) in edits.iter().enumerate() {
            let path = format_args!("{path}[{index}]");
            if !edit.is_blank_connection() {
                self.edited_name(&path, edit);
            }
            self.edit(&path, edit);
        }
    }

    pub(super) fn edits(&mut self, path: &dyn Display, edits: &[HeaderEdit]) {
        for (index, edit) in edits.iter().enumerate() {
            let path = format_args!("{path}[{index}]");
            self.edited_name(&path, edit);
            self.edit(&path, edit);
        }
    }

    pub(super) fn edited_name(&mut self, path: &dyn Display, edit: &HeaderEdit) {
        match edit.plain() {
            HeaderEdit::RemoveMatching(names) if names.as_str().starts_with('~') => {}
            HeaderEdit::RemoveMatching(_) => {
                self.problem(path, "a pattern of names is a regex, which starts with `~`");
            }
            _ => self.held(path, values::header_name(edit.name())),
        }
    }

    pub(super) fn edit(&mut self, path: &dyn Display, edit: &HeaderEdit) {
        let mut inner = edit;
        if let HeaderEdit::When(_, edit) = inner {
            inner = edit;
        }
        if let HeaderEdit::SendEmpty(edit) = inner {
            inner = edit;
            if inner.value().is_none() {
                self.problem(path, "`send_empty` has no effect without a value");
            }
        }
        if matches!(inner, HeaderEdit::When(..) | HeaderEdit::SendEmpty(_)) {
            self.problem(path, "a change has one condition, and one `send_empty` inside it");
        }
        let Some(value) = edit.value() else { return };
        self.held(path, values::line_text(value.as_str()));
        if value.as_str() == HIDDEN {
            self.problem(path, "this is the placeholder of a hidden value; `weir check --json --show-secrets` prints such values");
        }
    }
}
