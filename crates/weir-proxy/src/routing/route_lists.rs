//! The lists of routes of a listener, compiled one after the other or beside each other.

use std::panic::resume_unwind;
use std::thread;

use weir_config::model::{Action, Files, Listener, Route};

use super::route::{RouteList, compile_route};

/// Smallest number of lists for which a thread is worth its start.
const LISTS_OF_A_THREAD: usize = 64;

/// Compiled lists of routes, and the directories of files that these serve.
#[derive(Default)]
pub(super) struct RouteLists {
    pub(super) lists: Vec<RouteList>,
    pub(super) files: Vec<Files>,
}

/// The numbers of the first route and of the first directory of files of some lists.
#[derive(Clone, Copy, Default)]
struct FirstNumbers {
    route: usize,
    files: usize,
}

impl RouteLists {
    /// Compiles lists of routes, in at most `threads` threads; routes and directories of files have
    /// their numbers from 0 in the order of the lists.
    ///
    /// # Errors
    /// A sentence about the first route that is invalid.
    pub(super) fn compile(
        listener: &Listener,
        lists: &[&[Route]],
        threads: usize,
    ) -> Result<Self, String> {
        Self::from(listener, lists, FirstNumbers::default(), threads)
    }

    fn from(
        listener: &Listener,
        lists: &[&[Route]],
        first: FirstNumbers,
        threads: usize,
    ) -> Result<Self, String> {
        if threads < 2 || lists.len() < 2 * LISTS_OF_A_THREAD {
            return Self::in_turn(listener, lists, first);
        }
        let (former, latter) = lists.split_at(lists.len() / 2);
        let routes = || former.iter().flat_map(|list| list.iter());
        let middle = FirstNumbers {
            route: first.route + routes().count(),
            files: first.files + routes().filter(|route| serves_files(route)).count(),
        };
        let beside = || Self::from(listener, latter, middle, threads / 2);
        let (own, other) = thread::scope(|scope| {
            match thread::Builder::new().spawn_scoped(scope, beside) {
                Ok(other) => {
                    let own = Self::from(listener, former, first, threads - threads / 2);
                    (own, other.join().unwrap_or_else(|panic| resume_unwind(panic)))
                }
                // The system gives no thread.
                Err(_) => (Self::from(listener, former, first, 1), beside()),
            }
        });
        let (mut all, other) = (own?, other?);
        all.lists.extend(other.lists);
        all.files.extend(other.files);
        Ok(all)
    }

    fn in_turn(
        listener: &Listener,
        lists: &[&[Route]],
        first: FirstNumbers,
    ) -> Result<Self, String> {
        let mut all = Self::default();
        let mut numbers = first.route..;
        for routes in lists {
            let compiled = routes.iter().zip(numbers.by_ref()).map(|(route, number)| {
                let number_of_files = first.files + all.files.len();
                if let Action::Files(files) = &route.action {
                    all.files.push(files.clone());
                }
                compile_route(listener, route, number, number_of_files)
            });
            let routes = compiled.collect::<Result<_, _>>()?;
            all.lists.push(RouteList::new(routes));
        }
        Ok(all)
    }
}

fn serves_files(route: &Route) -> bool {
    matches!(route.action, Action::Files(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_the_same_whatever_the_number_of_threads() {
        let site = |number: usize| {
            let routes: Vec<String> = (0..number % 4)
                .map(|route| format!("route path /{route} -> files /srv/{number}-{route};"))
                .collect();
            format!("host h{number}.example {{ {} route -> 127.0.0.1:1; }}\n", routes.concat())
        };
        let sites = (0..300).map(site).collect::<Vec<_>>().concat();
        let text = format!("listen :80 {{ {sites} default -> 127.0.0.1:1; }}");
        let config = weir_config::parse_str("test", &text).unwrap().config;
        let listener = &config.listeners[0];
        let sites = listener.sites.iter().map(|site| site.routes.as_slice());
        let lists: Vec<&[Route]> = sites.chain([listener.default.as_slice()]).collect();
        assert_eq!(lists.len(), 301);
        let compiled = |threads| {
            let all = RouteLists::compile(listener, &lists, threads).unwrap();
            (format!("{:?}", all.lists), all.files)
        };
        let expected = compiled(1);
        assert_eq!(expected.1.len(), 450);
        for threads in [0, 2, 3, 8] {
            assert!(compiled(threads) == expected, "{threads}");
        }
    }
}
