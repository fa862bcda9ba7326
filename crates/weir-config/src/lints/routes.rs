//! Lints about routes: those that no request reaches, and redirects to themselves.

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};

use super::Linter;
use super::reach::{Effort, implies, is_impossible};
use crate::model::{Action, ListenAddress, Listener, Route, Rule};
use crate::pattern::HostPattern;
use crate::source::SourceSpan;

/// The steps of comparisons in a whole configuration.
const MOST_STEPS: usize = 5_000_000;

/// The reason why a route takes no request.
enum Unreached {
    /// Its condition contradicts itself.
    Impossible,
    /// The route with this number takes all its requests.
    Behind(usize),
}

impl Linter<'_> {
    pub(super) fn routes(&mut self) {
        let effort = Effort::new(MOST_STEPS);
        for (number, listener) in self.config.listeners.iter().enumerate() {
            let part = format!("listeners[{number}]");
            self.hosts(&part, listener, &effort);
            let mut lists: Vec<(String, &[Route])> = Vec::new();
            for (site, block) in listener.sites.iter().enumerate() {
                lists.push((format!("{part}.sites[{site}].routes"), &block.routes));
            }
            lists.push((format!("{part}.default"), &listener.default));
            for (list, routes) in lists {
                self.reach(&list, routes, &effort);
                self.named_routes(&list, routes, listener);
                if listener.tls.is_some() && listener.addresses.iter().any(is_of_https) {
                    self.loops(&list, routes);
                }
            }
        }
    }

    /// Finds host blocks whose names all belong to blocks before them.
    fn hosts(&mut self, part: &str, listener: &Listener, effort: &Effort) {
        let is_name = |host: &HostPattern| !host.as_str().starts_with(['*', '~']);
        let plain = |host: &HostPattern| {
            let name = host.as_str();
            name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
        };
        // The hosts of the blocks before.
        let (mut names, mut patterns) = (HashSet::new(), Vec::<&HostPattern>::new());
        let mut open = true;
        for (number, site) in listener.sites.iter().enumerate() {
            let is_wider = |one: &&HostPattern, host: &HostPattern| {
                effort.spend(1) && one.matches(host.as_str())
            };
            let all_taken = site.hosts.iter().all(|host| {
                is_name(host)
                    && (names.contains(&plain(host))
                        || patterns.iter().any(|one| is_wider(one, host)))
            });
            for host in &site.hosts {
                if is_name(host) {
                    names.insert(plain(host));
                } else {
                    patterns.push(host);
                }
            }
            // Behind a block for all hosts nothing is reached, which the check reports.
            let reported = !open;
            open &= !site.hosts.iter().any(HostPattern::is_any);
            if !reported && all_taken && !site.hosts.is_empty() {
                self.report(
                    "unreachable-host",
                    &format!("{part}.sites[{number}]"),
                    "this host block is never reached: a block before it takes its hosts",
                    "put the block with the plain name first",
                );
            }
        }
    }

    fn reach(&mut self, list: &str, routes: &[Route], effort: &Effort) {
        // The check reports the routes after one for all requests.
        let catch_all =
            routes.iter().position(|route| implies(&Rule::All(Vec::new()), &route.when, effort));
        let routes = &routes[..catch_all.map_or(routes.len(), |at| at + 1)];
        // An importer makes several routes of one block, which is reached if one of them is.
        let mut by_place: HashMap<SourceSpan, (usize, usize)> = HashMap::new();
        let outcomes: Vec<Option<Unreached>> = (0..routes.len())
            .map(|number| {
                // The effort for one route is not missing for the others.
                let share = effort.share(effort.left() / (routes.len() - number));
                let outcome = unreached(routes, number, &share);
                effort.give_back(&share);
                outcome
            })
            .collect();
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

/// Compares a route with those before it, the nearest first.
fn unreached(routes: &[Route], number: usize, effort: &Effort) -> Option<Unreached> {
    let rule = &routes.get(number)?.when;
    if is_impossible(rule, effort) {
        return Some(Unreached::Impossible);
    }
    let before = routes.iter().enumerate().take(number).rev();
    let mut before = before.take_while(|_| effort.left() > 0);
    let (behind, _) = before.find(|(_, earlier)| implies(rule, &earlier.when, effort))?;
    Some(Unreached::Behind(behind))
}

/// Returns true for an address that a URL with `https` and without a port leads to.
fn is_of_https(address: &ListenAddress) -> bool {
    matches!(address, ListenAddress::Socket(address) if address.port() == 443)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::{lint, parse_str};

    /// The steps that all routes of a configuration take.
    fn steps(text: &str) -> usize {
        let checked = parse_str("weir.conf", text).unwrap_or_else(|error| panic!("{error}"));
        let effort = Effort::new(usize::MAX);
        let routes = &checked.config.listeners[0].default;
        for number in 0..routes.len() {
            let share = effort.share(MOST_STEPS / routes.len());
            unreached(routes, number, &share);
            effort.give_back(&share);
        }
        usize::MAX - effort.left()
    }

    fn listener(routes: &str) -> String {
        format!("listen :80 {{\n{routes}default -> respond 204;\n}}\n")
    }

    #[test]
    fn long_lists_of_paths_and_many_routes_are_compared_in_a_bounded_number_of_steps() {
        let paths = |first: usize| {
            (first..first + 50_000).fold(String::new(), |mut out, number| {
                let _ = write!(out, " /p{number}");
                out
            })
        };
        let two = format!(
            "route path{} -> respond 200;\nroute path{} -> respond 201;\n",
            paths(0),
            paths(1)
        );
        assert!(steps(&listener(&two)) <= 2 * MOST_STEPS);
        let many = (0..20_000).fold(String::new(), |mut out, number| {
            let _ = writeln!(out, "route path /p{number} method GET -> respond 200;");
            out
        });
        assert!(steps(&listener(&many)) <= 2 * MOST_STEPS);
    }

    #[test]
    fn a_host_behind_a_wildcard_and_thousands_of_others_is_found() {
        let mut text = "listen :80 {\nhost *.last.test { route -> respond 200; }\n".to_owned();
        for number in 0..8_000 {
            let _ = writeln!(text, "host h{number}.test {{ route -> respond 201; }}");
        }
        text += "host x.last.test { route -> respond 202; }\n}\n";
        let found = lint(&parse_str("weir.conf", &text).unwrap());
        let hosts = found.iter().filter(|lint| lint.code == Some("unreachable-host"));
        assert_eq!(hosts.count(), 1);
    }

    #[test]
    fn the_same_long_list_is_found_in_few_steps() {
        let list = (0..50_000).fold(String::new(), |mut out, number| {
            let _ = write!(out, " /p{number}");
            out
        });
        let route = format!("route path{list} -> respond 200;\n");
        let text = listener(&route.repeat(2));
        assert!(steps(&text) < 200_000, "{}", steps(&text));
        let found = lint(&parse_str("weir.conf", &text).unwrap());
        assert!(found.iter().any(|lint| lint.code == Some("unreachable-route")));
    }

    #[test]
    fn a_redirect_to_the_usual_port_is_no_loop_at_another_one() {
        let loops = |address: &str| {
            let text = format!(
                "listen {address} tls {{ certificate site.pem; default -> redirect 301 https://$host$request_uri; }}"
            );
            let found = lint(&parse_str("weir.conf", &text).unwrap());
            found.iter().any(|lint| lint.code == Some("redirect-loop"))
        };
        assert!(loops(":443"));
        assert!(loops(":8443 :443"));
        assert!(!loops(":8443"));
    }
}
