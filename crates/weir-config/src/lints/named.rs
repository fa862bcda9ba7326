//! The lint about routes of a name that stand too late: routes are tried from the top after an
//! internal redirect, too, and one to a name keeps the path.

use foldhash::{HashMap, HashMapExt};

use weir_stats::Template;

use super::Linter;
use crate::model::{Action, ErrorDestination, ErrorTarget, Listener, Route, Rule, internal_parts};

impl Linter<'_> {
    /// Finds routes that lead to a name whose route stands behind them, so that they take the
    /// request again.
    pub(super) fn named_routes(&mut self, list: &str, routes: &[Route], listener: &Listener) {
        let mut named: HashMap<&str, usize> = HashMap::new();
        for (number, route) in routes.iter().enumerate() {
            if let Some(name) = name_of(&route.when) {
                named.entry(name).or_insert(number);
            }
        }
        if named.is_empty() {
            return;
        }
        for (number, route) in routes.iter().enumerate() {
            if looks_inside(&route.when) {
                continue;
            }
            let late = targets_of(route, listener).find_map(|to| match internal_parts(to) {
                Ok((Some(name), None)) => named.get(name).filter(|at| **at > number),
                _ => None,
            });
            let Some(late) = late else { continue };
            let known = self.found.len();
            self.report(
                "named-route-too-late",
                &format!("{list}[{number}]"),
                "requests that this leads to a name take this route again, which stands first",
                "put the route of the name before it",
            );
            let place = self.place(&format!("{list}[{late}]"));
            if let (Some(lint), Some(place)) = (self.found.get_mut(known), place) {
                lint.related = Some((place, "this is the route of the name".to_owned()));
            }
        }
    }
}

/// The targets to which a route may lead.
fn targets_of<'a>(route: &'a Route, listener: &'a Listener) -> impl Iterator<Item = &'a Template> {
    let errors =
        if route.error_targets.is_empty() { &listener.error_targets } else { &route.error_targets };
    let of_error = |target: &'a ErrorTarget| match &target.to {
        ErrorDestination::Internal(to) => Some(to),
        ErrorDestination::Redirect(_) => None,
    };
    let of_action = match &route.action {
        Action::Internal(to) => [Some(to), None],
        Action::Files(files) => [files.fallback.as_ref(), files.found.as_ref()],
        _ => [None, None],
    };
    let of_responses = route.responses.intercept.iter().map(|one| &one.to);
    errors.iter().filter_map(of_error).chain(of_action.into_iter().flatten()).chain(of_responses)
}

/// Returns the name that every request with the condition has.
fn name_of(rule: &Rule) -> Option<&str> {
    match rule {
        Rule::Internal(Some(name)) => Some(name),
        Rule::All(rules) => rules.iter().find_map(name_of),
        _ => None,
    }
}

/// Returns true if the condition looks at internal redirects.
fn looks_inside(rule: &Rule) -> bool {
    match rule {
        Rule::Internal(_) => true,
        Rule::All(rules) | Rule::Any(rules) => rules.iter().any(looks_inside),
        Rule::Not(rule) => looks_inside(rule),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    fn found(routes: &str) -> usize {
        let text = format!("listen :80 {{ {routes} }}");
        let checked = crate::parse_str("weir.conf", &text).unwrap();
        let lints = crate::lints::lint(&checked);
        lints.iter().filter(|lint| lint.code == Some("named-route-too-late")).count()
    }

    #[test]
    fn a_route_of_a_name_behind_one_that_leads_there_is_found() {
        let late = "route internal @a -> respond 204;";
        for early in [
            "route path /x -> respond 404 { error_page 404 -> internal @a; }",
            "error_page 404 -> internal @a; route path /x -> respond 404;",
            "route path /x -> files /srv fallback=@a;",
            "route path /x -> files /srv found=@a;",
            "route path /x -> internal @a;",
            "route path /x -> 127.0.0.1:1 { intercept -> internal @a; }",
        ] {
            assert_eq!(found(&format!("{early} {late}")), 1, "{early}");
            assert_eq!(found(&format!("{late} {early}")), 0, "{early}");
        }
        for early in [
            "route path /x -> internal @a /y;",
            "route path /x -> internal /y;",
            "route path /x and not internal @a -> internal @a;",
            "route path /x -> respond 404 { error_page 404 -> redirect 302 /y; }",
        ] {
            assert_eq!(found(&format!("{early} {late}")), 0, "{early}");
        }
    }
}
