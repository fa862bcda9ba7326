//! The routes of locations: nesting, values, conditions, and precedence against a model of nginx's.

use proptest::prelude::*;
use weir_config::model::{Action, Route, Rule};
use weir_import::{Language, nginx_text};

use super::bad_input::import_anything;
use super::{config, outcome, repeated, routes, server};

#[test]
fn nested_locations_are_tried_inside_the_one_around_them() {
    let text = "location /a/ {
            location /a/b/ { return 411; }
            location ~ x$ { return 412; }
            location = /a/c { return 413; }
            return 410;
        }
        location ^~ /a/b/f/ { location /a/b/f/g { return 415; } return 414; }
        location ~ ^/(.)/y { location ~ z$ { return 416; } return 421; }
        location / { return 429; }";
    let config = config(server(text));
    let routes = &config.listeners[0].default;
    let check =
        |path: &str, expected| assert_eq!(weir_picks(routes, path), Some(expected), "{path}");
    check("/a/", 410);
    check("/a/b/", 411);
    check("/a/b/x", 412);
    check("/a/y", 421);
    check("/a/yz", 416);
    check("/a/c", 413);
    check("/a/cx", 412);
    // The longer prefix beside `/a/` takes what is below it.
    check("/a/b/f/x", 414);
    check("/a/b/f/gx", 415);
    check("/b", 429);
}

#[test]
fn values_of_set_stand_where_variables_are_used() {
    let text = "set $a blue; location / { set $b $a-$host; proxy_set_header X $b; proxy_pass http://127.0.0.1:2; }";
    assert!(routes(text).contains("header set X blue-${host}"), "{}", routes(text));
    let text = "set $m 0; if ($http_user_agent ~* phone) { set $m 1; } if ($m = 1) { return 403; } location / { return 204; }";
    let found = routes(text);
    assert!(found.contains("route variable ${http_user_agent}=~*phone -> respond 403"), "{found}");
    assert!(!found.contains("map"), "no text uses it: {found}");
    // The last one that holds counts.
    let text = "set $m 0; if (-f /on) { set $m 1; } if ($remote_addr = 10.0.0.1) { set $m 0; } if ($m) { return 503; } location / { return 204; }";
    let found = routes(text);
    assert!(
        found.contains("route ( not ( client 10.0.0.1 ) and file /on ) -> respond 503"),
        "{found}"
    );
    let text = "set $m a; if ($http_x) { set $m b; } location / { proxy_set_header X $m; proxy_pass http://127.0.0.1:2; }";
    let found = routes(text);
    assert!(found.contains("map ${http_x} $set_m_1"), "{found}");
    assert!(found.contains("header set X ${set_m_1}"), "{found}");
    let text = "location / { if ($host ~ ^www\\.(.+)$) { set $bare $1; return 301 http://$bare/; } return 204; }";
    assert!(routes(text).contains("redirect 301 http://${set_bare_1}/"), "{}", routes(text));
    let text = "location ~ ^/(?<kind>[a-z]+)/$ { return 200 $kind; } location / { return 204; }";
    assert!(routes(text).contains("respond 200 \\${1}"), "{}", routes(text));
}

#[test]
fn variables_of_the_file_keep_their_names() {
    let names = ["add_header_statuses", "add_header_statuses_", "set_a_1"];
    let map = |name: &&str| format!("map $uri ${name} {{ default 1; }}\n");
    let maps: String = names.iter().map(map).collect();
    let location = "location / { set $a 1; if ($arg_x) { set $a 2; } add_header A $a$set_a_1; \
                    add_header B $add_header_statuses; proxy_pass http://127.0.0.1:2; }";
    let text =
        format!("events {{}}\nhttp {{ {maps} server {{ listen 127.0.0.1:1; {location} }} }}");
    let imported = nginx_text("/etc/nginx/nginx.conf", &text).unwrap();
    let native = imported.native().replace('"', "");
    assert!(native.contains("map $status $add_header_statuses__ "), "{native}");
    assert!(native.contains(" $set_a_1_ "), "{native}");
    config(imported);
}

#[test]
fn break_ends_the_directives_of_its_block() {
    let text = "if ($http_x) { break; } return 403; location / { return 204; }";
    let found = routes(text);
    assert!(found.contains("route not ( variable ${http_x} )"), "{found}");
    assert!(found.contains("-> respond 204"), "{found}");
    let coverage = server("location / { break; return 403; }").coverage;
    assert_eq!(outcome(&coverage, "return 403").0, "ignored");
}

#[test]
fn error_pages_are_lines_of_the_routes() {
    let text =
        "error_page 502 504 =200 /sorry.html; error_page 404 @app; error_page 403 http://b.test/;
        location / { proxy_intercept_errors on; proxy_pass http://127.0.0.1:2; }
        location /own { error_page 410 = /gone?x; return 410; }
        location @app { return 204; }";
    let found = routes(text);
    let has = |line: &str| assert!(found.contains(line), "{line} in\n{found}");
    has("error_page 502 504 status=200 intercept -> internal /sorry.html?;");
    has("error_page 404 intercept -> internal @app;");
    has("error_page 403 intercept -> redirect 302 http://b.test/;");
    has("error_page 410 status=own -> internal /gone?x?;");
}

#[test]
fn conditions_that_double_are_bounded() {
    let sets = repeated(40, |number| {
        format!(
            "if ($http_x{number} = 1) {{ set $a {number}; }} if ($a = {number}) {{ set $b $a; }} if ($b) {{ set $a x; }}\n"
        )
    });
    let imported = server(&format!(
        "set $a 0; set $b 0; {sets} if ($a = 7) {{ return 403; }} location / {{ return 204; }}"
    ));
    assert!(imported.native().len() < 1 << 20);
    import_anything(&format!("http {{ server {{ set $a 0; set $b 0; {sets} }} }}"));
}

#[test]
fn shares_are_those_of_split_clients_only() {
    // nginx answers 500 where the variable names no server.
    let check = |definition: &str, may_be_empty: bool| {
        let text = format!(
            "http {{ {definition} server {{ location / {{ proxy_pass http://$pool; }} }} }}"
        );
        let imported = nginx_text("/etc/nginx/nginx.conf", &text).unwrap();
        let (word, found) = outcome(&imported.coverage, "proxy_pass");
        assert_ne!(word, "refused", "{definition}: {found}");
        let native = imported.native();
        assert_eq!(native.contains("-> respond 500"), may_be_empty, "{definition}: {native}");
    };
    check("map $arg_p $pool { 100% a; }", true);
    check("map $arg_p $pool { * a; }", true);
    check("map $arg_p $pool { default a; }", false);
    check("split_clients $arg_p $pool { 50% a; 50% b; }", false);
    check("split_clients $arg_p $pool { 50% a; * b; }", false);
    check("split_clients $arg_p $pool { 50% a; 49.99% b; }", true);
    check("split_clients $arg_p $pool { 42949672.95% a; 42949672.95% b; }", false);
}

#[test]
fn paths_in_maps_are_decoded_however_the_variable_is_written() {
    for source in ["$uri", "${uri}", "a${document_uri}b"] {
        let text = format!("http {{ map \"{source}\" $x {{ default a; }} }}");
        let imported = nginx_text("/etc/nginx/nginx.conf", &text).unwrap();
        assert_eq!(outcome(&imported.coverage, "map").0, "honoured", "{source}");
        assert!(imported.native().contains("${decoded_uri}"), "{source}");
    }
}

/// nginx counts `max_conns` and failures of a server over all locations.
#[test]
fn locations_with_settings_of_their_own_share_the_pool() {
    let text = "upstream app { server 10.0.0.1; server 10.0.0.2; }
        server { listen 127.0.0.1:80;
            location = /a { proxy_pass http://app; proxy_read_timeout 5s; }
            location = /b { proxy_pass http://app; }
            location = /c { proxy_pass http://app; proxy_read_timeout 5; proxy_next_upstream off; }
            location = /d { proxy_pass http://app; proxy_request_buffering off; }
        }";
    let text = format!("events {{}}\nhttp {{ {text} }}");
    let config = config(nginx_text("/etc/nginx/nginx.conf", &text).unwrap());
    let [pool] = &config.pools[..] else { panic!("{:?}", config.pools) };
    let route = |path: &str| {
        let routes = config.listeners[0].all_routes();
        let mut routes = routes.filter(|route| format!("{:?}", route.when).contains(path));
        let upstream = &routes.next().unwrap().upstream;
        let wait = upstream.timeouts(pool).response.as_secs();
        (wait, upstream.retry(pool).attempts, upstream.buffer_request(pool))
    };
    assert_eq!(route("/a"), (5, 1, Some(1 << 20)));
    assert_eq!(route("/b"), (60, 1, Some(1 << 20)));
    assert_eq!(route("/c"), (5, 0, Some(1 << 20)));
    assert_eq!(route("/d"), (60, 1, None));
    assert_eq!(pool.retry.budget_percent(), None);
}

#[test]
fn the_language_is_found_by_blocks() {
    let check = |text: &str, expected: Language| assert_eq!(Language::of(text), expected, "{text}");
    check("worker_processes 1; events {}", Language::Nginx);
    check("# a\nhttp { server { listen 80; } }", Language::Nginx);
    check("server { listen 80; }", Language::Nginx);
    check("listen :80 -> 127.0.0.1:1;", Language::Native);
    check("pool a { server b:1; } listen :80 -> a;", Language::Native);
    check("{ \"listeners\": [] }", Language::Native);
    check("", Language::Native);
}

/// One location of a generated server.
#[derive(Clone, Debug)]
struct Place {
    modifier: &'static str,
    pattern: String,
}

fn places() -> impl Strategy<Value = Vec<Place>> {
    let prefix = prop::sample::select(vec!["", "^~", "="]);
    let path = "/([ab]{0,2}/?){0,3}";
    let prefixed = (prefix, path).prop_map(|(modifier, pattern)| Place { modifier, pattern });
    let regex = prop::sample::select(vec!["a$", "^/a/", "b/a", "^/b[^/]*$", "^/(a|ab)/b", "aa|bb"]);
    let regex = (prop::sample::select(vec!["~", "~*"]), regex)
        .prop_map(|(modifier, pattern)| Place { modifier, pattern: pattern.to_owned() });
    prop::collection::vec(prop_oneof![3 => prefixed, 1 => regex], 0..8)
}

/// Returns the number of the location that nginx uses for a path.
fn nginx_picks(places: &[Place], path: &str, matches: impl Fn(&Place) -> bool) -> Option<usize> {
    let found = |modifier: &str| {
        let named = places.iter().enumerate().filter(move |(_, place)| place.modifier == modifier);
        named.collect::<Vec<_>>()
    };
    if let Some((at, _)) = found("=").into_iter().find(|(_, place)| place.pattern == path) {
        return Some(at);
    }
    let prefixes = [found(""), found("^~")].concat();
    let longest = prefixes
        .into_iter()
        .filter(|(_, place)| path.starts_with(&place.pattern))
        .max_by_key(|(_, place)| place.pattern.len());
    if let Some((at, place)) = longest
        && place.modifier == "^~"
    {
        return Some(at);
    }
    let regex = places.iter().position(|place| place.modifier.starts_with('~') && matches(place));
    regex.or(longest.map(|(at, _)| at))
}

fn holds(rule: &Rule, path: &str) -> bool {
    match rule {
        Rule::All(rules) => rules.iter().all(|rule| holds(rule, path)),
        Rule::Path(patterns) => patterns.iter().any(|pattern| pattern.matches(path)),
        other => panic!("{other:?}"),
    }
}

fn weir_picks(routes: &[Route], path: &str) -> Option<u16> {
    let route = routes.iter().find(|route| holds(&route.when, path))?;
    match &route.action {
        Action::Respond(respond) => Some(respond.status).filter(|status| *status != 404),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn the_location_that_nginx_picks_is_picked(
        places in places(),
        paths in prop::collection::vec("/([ab]{0,2}/?){0,4}", 1..12),
    ) {
        let mut kept: Vec<Place> = Vec::new();
        for place in places {
            let regex = place.modifier.starts_with('~');
            let same = |other: &Place| {
                other.pattern == place.pattern && (other.modifier == "=") == (place.modifier == "=")
            };
            if regex || !kept.iter().any(same) {
                kept.push(place);
            }
        }
        let text = repeated(kept.len(), |at| {
            let Place { modifier, pattern } = &kept[at];
            format!("location {modifier} {pattern} {{ return {}; }}\n", 410 + at)
        });
        let config = config(server(&text));
        for path in paths {
            let regex = |place: &Place| {
                let pattern = format!("{}{}", place.modifier, place.pattern);
                pattern.parse::<weir_config::pattern::PathPattern>().unwrap().matches(&path)
            };
            let expected = nginx_picks(&kept, &path, regex).map(|at| 410 + at as u16);
            let routes = &config.listeners[0].default;
            prop_assert_eq!(weir_picks(routes, &path), expected, "{} in\n{}", path, text);
        }
    }
}

#[test]
fn a_map_of_pools_is_made_once_for_locations_with_the_same_settings() {
    let entries = repeated(70_000, |number| format!("{number} a{};\n", number % 7));
    let locations =
        repeated(30_000, |number| format!("location /{number} {{ proxy_pass http://$target; }}\n"));
    let text = format!(
        "http {{ map $arg_p $target {{ default a0; {entries} }} server {{ {locations} }} }}"
    );
    let imported = nginx_text("/nonexistent/nginx.conf", &text).unwrap();
    assert_eq!(imported.coverage.refused().count(), 0);
    assert_eq!(imported.native().matches("map \"${target}\" ").count(), 1);
}

#[test]
fn a_named_location_may_say_that_it_is_internal() {
    let imported = server(
        "location / { return 404; error_page 404 @gone; } location @gone { internal; return 410; }",
    );
    assert_eq!(imported.coverage.refused().count(), 0, "{}", imported.coverage.text());
}
