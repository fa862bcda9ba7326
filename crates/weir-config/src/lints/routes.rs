//! Lints about routes: those that no request reaches, and redirects to themselves.

use std::collections::HashMap;

use super::Linter;
use super::reach::{implies, is_impossible};
use crate::model::{Action, Listener, Route, Rule, Site};
use crate::pattern::HostPattern;
use crate::source::SourceSpan;

/// The largest number of host blocks of a listener that are compared.
const MOST_HOSTS: usize = 1_000;
/// Each route is compared with at most this many before it.
const MOST_COMPARED: usize = 1_000;
/// The largest number of comparisons in a list, so that a file of any length is checked soon.
const MOST_COMPARISONS: usize = 2_000_000;

/// The reason why a route takes no request.
enum Unreached {
    /// Its condition contradicts itself.
    Impossible,
    /// The route with this number takes all its requests.
    Behind(usize),
}

impl Linter<'_> {
    pub(super) fn routes(&mut self) {
        for (number, listener) in self.config.listeners.iter().enumerate() {
            let part = format!("listeners[{number}]");
            self.hosts(&part, listener);
            let mut lists: Vec<(String, &[Route])> = Vec::new();
            for (site, block) in listener.sites.iter().enumerate() {
                lists.push((format!("{part}.sites[{site}].routes"), &block.routes));
            }
            lists.push((format!("{part}.default"), &listener.default));
            for (list, routes) in lists {
                self.reach(&list, routes);
                if listener.tls.is_some() {
                    self.loops(&list, routes);
                }
            }
        }
    }

    /// Finds host blocks whose names all belong to blocks before them.
    fn hosts(&mut self, part: &str, listener: &Listener) {
        let is_name = |text: &str| !text.starts_with(['*', '~']);
        for (number, site) in listener.sites.iter().enumerate().take(MOST_HOSTS) {
            let taken =
                |before: &Site, name: &str| before.hosts.iter().any(|one| one.matches(name));
            let before = &listener.sites[..number];
            // Behind a block for all hosts nothing is reached, which the check reports.
            let open = !before.iter().any(|one| one.hosts.iter().any(HostPattern::is_any));
            let all_taken = site.hosts.iter().all(|host| {
                let name = host.as_str();
                is_name(name) && before.iter().any(|one| taken(one, name))
            });
            if open && all_taken && !site.hosts.is_empty() {
                self.report(
                    "unreachable-host",
                    &format!("{part}.sites[{number}]"),
                    "this host block is never reached: a block before it takes its hosts",
                    "put the block with the plain name first",
                );
            }
        }
    }

    fn reach(&mut self, list: &str, routes: &[Route]) {
        // What follows a route for all requests is reported by the check.
        let catch_all =
            routes.iter().position(|route| implies(&Rule::All(Vec::new()), &route.when));
        let routes = &routes[..catch_all.map_or(routes.len(), |at| at + 1)];
        // An importer makes several routes of one block, which is reached if one of them is.
        let mut by_place: HashMap<SourceSpan, (usize, usize)> = HashMap::new();
        let outcomes: Vec<Option<Unreached>> =
            (0..routes.len()).map(|number| unreached(routes, number)).collect();
        for (number, outcome) in outcomes.iter().enumerate() {
            if let Some(place) = self.place(&format!("{list}[{number}]")) {
                let (all, dead) = by_place.entry(place).or_default();
                *all += 1;
                *dead += usize::from(outcome.is_some());
            }
        }
        for (number, outcome) in outcomes.iter().enumerate() {
            let part = format!("{list}[{number}]");
            let (Some(outcome), Some(place)) = (outcome, self.place(&part)) else { continue };
            if by_place.get(&place).is_none_or(|(all, dead)| all != dead) {
                continue;
            }
            match outcome {
                Unreached::Impossible => self.report(
                    "impossible-condition",
                    &part,
                    "this route is never taken: no request can meet its condition",
                    "its parts exclude each other: use `or` between them, or remove one",
                ),
                Unreached::Behind(before) => {
                    let known = self.found.len();
                    self.report(
                        "unreachable-route",
                        &part,
                        "this route is never reached",
                        "put the narrower condition first, or remove it",
                    );
                    let before = self.place(&format!("{list}[{before}]"));
                    if let (Some(lint), Some(before)) = (self.found.get_mut(known), before) {
                        lint.related = Some((before, "this takes all its requests".to_owned()));
                    }
                }
            }
        }
    }

    fn loops(&mut self, list: &str, routes: &[Route]) {
        for (number, route) in routes.iter().enumerate() {
            let Action::Redirect(redirect) = &route.action else { continue };
            if redirect.to.as_str() == "https://$host$request_uri" && is_open(&route.when) {
                self.report(
                    "redirect-loop",
                    &format!("{list}[{number}]"),
                    "this redirects an HTTPS URL to itself",
                    "it belongs in the plain listener, `listen :80 { redirect https; }`",
                );
            }
        }
    }
}

/// Returns true if the redirect's own URL meets the condition again, because the condition looks at
/// nothing that the redirect could change.
fn is_open(rule: &Rule) -> bool {
    match rule {
        Rule::All(parts) | Rule::Any(parts) => parts.iter().all(is_open),
        Rule::Path(_) | Rule::Query(..) => true,
        _ => false,
    }
}

fn unreached(routes: &[Route], number: usize) -> Option<Unreached> {
    let rule = &routes.get(number)?.when;
    if is_impossible(rule) {
        return Some(Unreached::Impossible);
    }
    let compared = (MOST_COMPARISONS / routes.len().max(1)).min(MOST_COMPARED);
    let first = number.saturating_sub(compared);
    let mut before = routes.iter().enumerate().take(number).skip(first);
    let (behind, _) = before.find(|(_, earlier)| implies(rule, &earlier.when))?;
    Some(Unreached::Behind(behind))
}
