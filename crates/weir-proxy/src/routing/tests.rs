//! Compares the router with its definition (host blocks in order, then routes in order; the first
//! match wins) on random tables and requests. They are drawn from small alphabets, so that matches,
//! nested prefixes and wildcards are frequent.

use std::io;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use weir_config::model::{Listener, MatchedPath, PathRules, Route, Rule, Site};

use crate::http::path::percent::{PathBuffer, PathForm};
use crate::http::sample::{SampleRequest, listener, route};
use crate::routing::condition::{Condition, RequestTexts, RoutedRequest};
use crate::routing::route::Router;
use crate::routing::trace::ConditionTrace;

const SEGMENTS: [&str; 4] = ["a", "b", "ab", "A"];

fn path_pattern() -> impl Strategy<Value = String> {
    let segments = vec(select(&SEGMENTS), 0..4).prop_map(|segments| segments.join("/"));
    let form = select(&["/P", "/P/", "/P/*", "/P*", "/P/*/b", "*P", "/P/*/*", "~^/P", "~*P$", "*"]);
    (segments, form).prop_map(|(segments, form)| form.replace('P', &segments).replace("//", "/"))
}

fn path_rule() -> impl Strategy<Value = Rule> {
    let parsed = |texts: Vec<String>| {
        Rule::Path(texts.iter().filter_map(|text| text.parse().ok()).collect())
    };
    vec(path_pattern(), 1..3).prop_map(parsed)
}

fn rule() -> impl Strategy<Value = Rule> {
    let value = select(&["1", "2"]);
    let leaf = prop_oneof![
        6 => path_rule(),
        1 => Just(Rule::Method(vec!["GET".into()])),
        1 => value.prop_map(|value| Rule::Header("X".into(), Some(value.parse().unwrap()))),
        1 => Just(Rule::Query("q".into(), None)),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Rule::All),
            vec(inner.clone(), 0..3).prop_map(Rule::Any),
            inner.prop_map(|rule| Rule::Not(Box::new(rule))),
        ]
    })
}

fn routes(name: &'static str) -> impl Strategy<Value = Vec<Route>> {
    let numbered = move |rules: Vec<Rule>| {
        let named = |(number, rule)| route(&format!("{name}{number}"), rule);
        rules.into_iter().enumerate().map(named).collect()
    };
    prop_oneof![vec(path_rule(), 0..30).prop_map(numbered), vec(rule(), 0..30).prop_map(numbered)]
}

fn host_pattern() -> impl Strategy<Value = &'static str> {
    select(&[
        "a", "a.b", "A.b", "b.a.b", "*.b", "*.a.b", "*.B", "*.a", "*.b.a", "*.c", "*.a.c", "*.b.c",
        "*.b.a.b", "~^a", "~b$", "*", "[::1]",
    ])
}

fn site() -> impl Strategy<Value = Site> {
    let hosts = vec(host_pattern(), 1..4);
    (hosts, routes("s")).prop_map(|(hosts, routes)| Site {
        hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
        routes,
    })
}

fn table() -> impl Strategy<Value = Listener> {
    let matched = select(&[MatchedPath::Resolved, MatchedPath::Received]);
    let form = (any::<bool>(), matched, any::<bool>());
    (vec(site(), 0..8), routes("d"), form).prop_map(|(sites, default, form)| {
        let (normalize, matched, merge_slashes) = form;
        let sites = sites.into_iter().enumerate().map(|(number, mut site)| {
            for route in &mut site.routes {
                route.name = format!("{number}{}", route.name);
            }
            site
        });
        let path = PathRules { normalize, matched, merge_slashes, ..PathRules::default() };
        Listener { sites: sites.collect(), default, path, ..listener() }
    })
}

/// The text of a request.
fn request() -> impl Strategy<Value = String> {
    let host = select(&[
        "a",
        "A",
        "a.b",
        "A.B:80",
        "a.b.",
        "b.a.b",
        "x.b",
        "x.a.b",
        "X.B.A.B:1",
        "b",
        "c.a",
        "x.y.c",
        "x.a.c.",
        "[::1]:80",
        "",
    ]);
    let segment = select(&["a", "b", "ab", "A", "%61", "%2F", "..", ".", "", "x"]);
    let target = (vec(segment, 0..5), select(&["", "/", "?q=1", "/?q"]));
    let lines = select(&["", "X: 1\r\n", "X: 2\r\n"]);
    (select(&["GET", "POST"]), host, target, lines).prop_map(
        |(method, host, (segments, end), lines)| {
            let path = segments.join("/");
            let version = match host {
                "" => "1.0".to_owned(),
                host => format!("1.1\r\nHost: {host}"),
            };
            format!("{method} /{path}{end} HTTP/{version}\r\n{lines}\r\n")
        },
    )
}

/// The name of the route by definition: all host blocks and routes are tried in order.
fn first_match(listener: &Listener, request: &SampleRequest) -> String {
    let view = request.view();
    let host = view.head.host.of(view.bytes);
    let serves = |site: &&Site| site.hosts.iter().any(|pattern| pattern.matches(host));
    let routes = listener.sites.iter().find(serves).map_or(&listener.default, |site| &site.routes);
    let form = PathForm::of(&listener.path);
    let mut buffer = PathBuffer::new();
    let path = form.seen(view.head.path_text(view.bytes), &mut buffer);
    let matches = |route: &&Route| {
        let texts = &RequestTexts::new(&|_, _| {});
        Condition::compile(&route.when).holds(RoutedRequest { view: &view, path, texts })
    };
    routes.iter().find(matches).map_or(String::new(), |route| route.name.clone())
}

/// Checks that the outcome of a condition follows from those of its parts.
fn check_parts(trace: &ConditionTrace, rule: &Rule, request: &SampleRequest, path: &[u8]) {
    let view = request.view();
    let condition = Condition::compile(rule);
    let texts = &RequestTexts::new(&|_, _| {});
    let subject = RoutedRequest { view: &view, path, texts };
    assert_eq!(trace.holds, condition.holds(subject), "{rule:?}");
    let parts: Vec<bool> = trace.parts.iter().map(|part| part.holds).collect();
    match &condition {
        Condition::All(_) => assert_eq!(trace.holds, parts.iter().all(|holds| *holds)),
        Condition::Any(_) => assert_eq!(trace.holds, parts.iter().any(|holds| *holds)),
        Condition::Not(_) => assert_eq!(parts, [!trace.holds]),
        _ => assert!(parts.is_empty() && !trace.seen.is_empty()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Each case is a table and twenty requests.
    #[test]
    fn the_router_finds_the_first_match_of_the_configuration(table in table(), requests in vec(request(), 20)) {
        let router = Router::compile(&table, &|_: &Path| Err(io::ErrorKind::NotFound.into()), 1);
        let router = router.unwrap();
        for text in requests {
            let request = SampleRequest::new(&text);
            let request = if table.path.normalize { request.normalised() } else { request };
            let found = router.route(&request.view(), &|_, _| {}).map_or("", |route| &*route.name);
            prop_assert_eq!(found, first_match(&table, &request), "{}", text);
        }
    }

    /// `weir explain` shows the route that a request takes: the last condition that it lists, and
    /// the only one that matches.
    #[test]
    fn a_trace_ends_at_the_route_that_the_request_takes(table in table(), requests in vec(request(), 20)) {
        let router = Router::compile(&table, &|_: &Path| Err(io::ErrorKind::NotFound.into()), 1);
        let router = router.unwrap();
        for text in requests {
            let request = SampleRequest::new(&text);
            let request = if table.path.normalize { request.normalised() } else { request };
            let view = request.view();
            let taken = router.route(&view, &|_, _| {});
            let trace = router.trace(&view, &|_, _| {});
            prop_assert_eq!(trace.route.map(|route| &route.name), taken.map(|route| &route.name));
            let holds: Vec<bool> = trace.tried.iter().map(|one| one.holds).collect();
            let (last, others) = match (&holds[..], taken) {
                ([others @ .., last], Some(_)) => (*last, others),
                (all, _) => (taken.is_some(), all),
            };
            prop_assert_eq!(last, taken.is_some(), "{}", text);
            prop_assert!(!others.contains(&true), "{}: {:?}", text, trace.tried);
            prop_assert_eq!(trace.position, taken.map(|_| holds.len() - 1));
            let routes = trace.site.map_or(&table.default, |site| &table.sites[site].routes);
            for (condition, route) in trace.tried.iter().zip(routes) {
                check_parts(condition, &route.when, &request, &trace.path);
            }
        }
    }
}
