//! Checks what a route sets of the upstream side: `timeout`, `retry`, `buffer_request`,
//! `use_server` and `request_method` in its block.

use super::arguments::Arguments;
use super::checker::Checker;
use super::pool::size_or_off;
use crate::diagnostic::Diagnostic;
use crate::model::{
    Action, ImposedMethod, Retry, Route, RouteSize, RouteUpstream, ServerPreference, values,
};

impl<'a> Checker<'a> {
    /// Adds the settings of these lines to the route.
    pub(super) fn route_upstream(&mut self, lines: &[Arguments<'a>], route: &mut Route) {
        for line in lines {
            match line.name() {
                "retry" => self.route_retry(line, &mut route.upstream),
                "buffer_request" => {
                    let size = line.word(0).and_then(|word| self.value(word, route_size));
                    route.upstream.buffer_request = size.unwrap_or_default();
                }
                "use_server" => {
                    let server = self.preferred_server(line, &route.action);
                    route.upstream.servers.extend(server);
                }
                "request_method" => route.upstream.methods.extend(self.imposed_method(line)),
                _ => self.route_timeouts(line, &mut route.upstream),
            }
            let sets = !route.upstream.is_inherited();
            if sets && !matches!(route.action, Action::Pool(_)) {
                let error = format!("`{}` for servers has no effect here", line.name());
                let error = Diagnostic::error(line.directive.name.span, error);
                let several = !route.action.pools().is_empty();
                self.report(error.help(if several {
                    "this route leads to several pools: write it in each of them"
                } else {
                    "this route leads to no server"
                }));
                route.upstream = RouteUpstream::default();
            }
        }
    }

    fn route_timeouts(&mut self, line: &Arguments<'a>, upstream: &mut RouteUpstream) {
        let timeouts = &mut upstream.timeouts;
        for (name, wait) in [
            ("connect", &mut timeouts.connect),
            ("send", &mut timeouts.send),
            ("response", &mut timeouts.response),
            ("read", &mut timeouts.read),
            ("tunnel", &mut timeouts.tunnel),
        ] {
            *wait = self.setting(line, name, values::wait);
        }
    }

    fn preferred_server(
        &mut self,
        line: &Arguments<'a>,
        action: &Action,
    ) -> Option<ServerPreference> {
        let name = line.word(0)?;
        let when = match line.option("if") {
            Some(text) => Some(self.template(text)?),
            None => None,
        };
        let server = ServerPreference { when, name: self.template(name)? };
        let Action::Pool(number) = action else { return Some(server) };
        let pool = self.pools.get(*number)?;
        let Some(fault) = server.fault(pool) else { return Some(server) };
        let mut error = Diagnostic::error(name.span(), fault);
        let mut names = pool.endpoints.iter().map(|endpoint| endpoint.name.as_str());
        if let Some(name) = server.constant_name()
            && names.all(|known| known != name)
        {
            let names = pool.endpoints.iter().map(|endpoint| endpoint.name.as_str());
            error = error.suggest(name, names);
        }
        self.report(error);
        None
    }

    fn imposed_method(&mut self, line: &Arguments<'a>) -> Option<ImposedMethod> {
        let method = line.word(0)?;
        let when = match line.option("if") {
            Some(text) => Some(self.template(text)?),
            None => None,
        };
        let imposed = ImposedMethod { when, method: self.template(method)? };
        let Some(fault) = imposed.fault() else { return Some(imposed) };
        self.report(Diagnostic::error(method.span(), fault));
        None
    }

    fn route_retry(&mut self, line: &Arguments<'a>, upstream: &mut RouteUpstream) {
        if let Some(option) = line.option("budget") {
            let error = Diagnostic::error(option.word.span, "`budget=` is a setting of the pool");
            self.report(error.help("the budget counts the retries of all routes to it"));
        }
        let mut retry = Retry::default();
        self.retry(line, line.word(0), &mut retry);
        if let Some(count) = line.word(0) {
            self.note_option("upstream.retry", "attempts", count.word.span);
        }
        upstream.retry = Some(retry);
    }
}

pub(super) fn route_size(text: &str) -> Result<RouteSize, String> {
    let size = size_or_off(text)?;
    let up_to = |size| usize::try_from(size).map(RouteSize::UpTo);
    size.map_or(Ok(RouteSize::Off), up_to).map_err(|_| format!("`{text}` is too large"))
}
