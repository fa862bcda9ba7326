//! Valid configurations and their models as JSON; conversion in both directions; files and
//! environment variables.

use std::fs;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use weir_config::model::{Action, EndpointAddress, Http2Mode, ListenAddress, Rule};
use weir_config::{Config, directives, from_json, load, parse_str, reference, to_json};

fn good(name: &str) -> Config {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/good").join(name);
    config(&fs::read_to_string(path).unwrap())
}

fn config(text: &str) -> Config {
    let checked = parse_str("weir.conf", text).unwrap_or_else(|error| panic!("{error}"));
    assert!(checked.warnings.is_empty(), "{}", checked.warnings);
    checked.config
}

#[test]
fn smallest_file() {
    insta::assert_snapshot!(to_json(&good("smallest.conf")));
}

#[test]
fn shop() {
    insta::assert_snapshot!(to_json(&good("shop.conf")));
}

#[test]
fn defaults_written_out_are_the_defaults() {
    let written = good("defaults.conf");
    assert_eq!(written, config("pool app { server 10.0.0.1:80; } listen :80 { route -> app; }"));
}

#[test]
fn defaults_of_a_check_written_out_are_the_defaults() {
    let pool = |check: &str| {
        let text = format!("pool app {{ server 10.0.0.1:80; check {check}; }} listen :80 -> app;");
        config(&text).pools[0].check.clone()
    };
    let rest = "interval=2s timeout=1s rise=2 fall=3 spread=10% panic=off";
    assert_eq!(pool(&format!("http GET / expect=200-399 {rest}")), pool("http"));
    assert_eq!(pool("http /up"), pool("http GET /up"));
    assert_eq!(pool(&format!("tcp {rest}")), pool("tcp"));
    // A short interval shortens the default timeout.
    assert_eq!(pool("tcp interval=1s timeout=500ms"), pool("tcp interval=1s"));
}

#[test]
fn json_goes_there_and_back() {
    for name in ["smallest.conf", "shop.conf", "defaults.conf", "variables.conf"] {
        let config = good(name);
        assert_eq!(from_json(&to_json(&config)).unwrap_or_else(|error| panic!("{error}")), config);
    }
}

#[test]
fn entries_of_a_map_come_from_a_file_too() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let conf = write(
        "weir.conf",
        "map $host $zone file=zones.map { own.test own; }\n\
         listen :80 -> respond 200 $zone;",
    );
    let read = || load(&conf, &|_| None).map(|checked| checked.config);
    write("zones.map", "# zones\n\na.test  first zone\n~^b second\n");
    let first = read().unwrap();
    assert_eq!(from_json(&to_json(&first)).unwrap(), first);
    // The same text is another configuration if the file differs.
    write("zones.map", "a.test other\n");
    assert_ne!(read().unwrap(), first);
    for (lines, message) in [
        ("a.test\n", "zones.map:1: a line is a key and its value"),
        ("a b\na c\n", "zones.map:2: there is an entry `a` already"),
        ("a b\n~( c\n", "zones.map:2: this regex is invalid: unclosed group"),
        ("own.test b\n", "there is an entry `own.test` already"),
    ] {
        write("zones.map", lines);
        let error = read().unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_shown_configuration_hides_the_keys_of_a_map_of_secrets() {
    let text = "map $http_authorization $user { hunter2 alice; }
        map $http_x_color $shade { red dark; }
        listen :80 -> respond 200 $user$shade;";
    let shown = to_json(&config(text).without_secrets());
    assert!(!shown.contains("hunter2") && shown.contains("red"), "{shown}");
}

#[test]
fn json_may_leave_defaults_out() {
    let json = r#"{"pools": [{"name": "127.0.0.1:3000", "endpoints": [{"name": "127.0.0.1:3000",
        "address": {"socket": "127.0.0.1:3000"}}]}],
        "listeners": [{"name": ":8080", "addresses": [{"socket": "[::]:8080"}],
        "default": [{"name": ":8080/default/1", "action": {"pool": 0}}]}]}"#;
    assert_eq!(from_json(json).unwrap(), good("smallest.conf"));
    assert_eq!(parse_str("x", &format!("\n {json}")).unwrap().config, good("smallest.conf"));
}

#[test]
fn every_example_of_the_table_is_right() {
    let shells = [
        (directives::Context::Top, "", ""),
        (directives::Context::Log, "log l { to stdout; ", " }"),
        (directives::Context::Pool, "pool p { server 10.9.9.9:1; ", " }"),
        (
            directives::Context::Listen,
            "listen :1 tls { certificate c.pem; host own { route -> app; } ",
            " }",
        ),
        (directives::Context::Host, "listen :1 { host h { ", " } }"),
        (directives::Context::Route, "listen :1 { route -> app { ", " } }"),
        (directives::Context::Condition, "listen :1 { route ", " -> app; }"),
        (directives::Context::Target, "listen :1 { ", " }"),
    ];
    let names = "pool app { server 10.0.0.1:80; } ";
    for (context, before, after) in shells {
        for spec in directives::of_context(context).filter(|spec| spec.name != "include") {
            let example = spec.example;
            assert!(!example.is_empty(), "`{}` has no example", spec.name);
            let rule = if example == "rule staff" { "rule staff { path /x } " } else { "" };
            let map = if spec.name == "$NAME" { "split $host $variant { * app; } " } else { "" };
            let log = if example == "log access;" { "log access { to stdout; } " } else { "" };
            let pool = if example.starts_with("pool app") { "" } else { names };
            let before = match spec.name {
                "to" => "log l { ",
                "sni" => "listen tcp :1 { ",
                _ => before,
            };
            let text =
                format!("{rule}{map}{log}{pool}{before}{example}{after} listen :2 -> 10.9.9.9:1;");
            if let Err(error) = parse_str("example", &text) {
                panic!("{}: {text}\n{error}", spec.name);
            }
        }
    }
}

#[test]
fn the_configurations_of_the_documentation_are_right() {
    // The text that a reader would put around a block.
    let shells = [
        ("", ""),
        ("", "\nlisten :2 -> 10.9.9.9:1;"),
        ("pool app { server 10.0.0.1:80; }\n", ""),
        ("listen :1 {\n", "\ndefault -> 10.9.9.9:1; }"),
    ];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = docs.filter(|path| path.extension().is_some_and(|kind| kind == "md"));
    let pages = pages.filter(|path| !path.ends_with("configuration.md"));
    let mut count = 0;
    for path in pages.chain([root.join("README.md")]) {
        let page = fs::read_to_string(&path).unwrap();
        for block in page.split("\n```nginx\n").skip(1) {
            let block = block.split("\n```").next().unwrap();
            let parse = |(before, after)| parse_str("example", &format!("{before}{block}{after}"));
            let first = shells.map(parse).into_iter().reduce(Result::or);
            if let Some(Err(error)) = first {
                panic!("{}: {block}\n{error}", path.display());
            }
            count += 1;
        }
    }
    assert!(count > 5, "{count} configurations found");
}

#[test]
fn reference_page_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = reference();
    if std::env::var_os("WEIR_BLESS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &page).unwrap();
    }
    let current = fs::read_to_string(&path).unwrap();
    assert!(current == page, "docs/configuration.md is not current: run with WEIR_BLESS=1");
}

#[test]
fn completion_words_are_those_of_the_language() {
    let words = directives::words();
    for word in ["listen", "pool", "max_conn", "x_forwarded", "route"] {
        assert!(words.contains(&word), "{word}");
    }
    assert!(!words.contains(&"POOL"));
}

#[test]
fn files_environment_and_includes() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("pools.d")).unwrap();
    fs::write(
        folder.path().join("pools.d/app.conf"),
        "pool app { server ${APP_HOST:-localhost}:${APP_PORT}; }",
    )
    .unwrap();
    let main = "include pools.d/*.conf; listen :80 { error_page 502 sorry.html; route -> app; }";
    let path = folder.path().join("weir.conf");
    fs::write(&path, main).unwrap();
    let environment = |name: &str| (name == "APP_PORT").then(|| "3000".to_owned());
    let checked = load(&path, &environment).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        checked.config.pools[0].endpoints[0].address,
        EndpointAddress::Name("localhost".into(), 3000)
    );
    assert_eq!(checked.config.listeners[0].error_pages[0].page, folder.path().join("sorry.html"));
    assert_eq!(checked.sources.files().len(), 2);

    let error = load(&path, &|_| None).unwrap_err();
    assert!(error.to_string().contains("app.conf:1:42"), "{error}");
    let error = load(&folder.path().join("gone.conf"), &environment).unwrap_err();
    assert!(error.to_string().contains("cannot read"), "{error}");
    fs::write(&path, b"listen :80 -> \xff;").unwrap();
    assert!(
        load(&path, &environment)
            .unwrap_err()
            .to_string()
            .contains("weir.conf:1: this file is not UTF-8")
    );
    fs::write(&path, to_json(&good("smallest.conf"))).unwrap();
    assert_eq!(load(&path, &environment).unwrap().config, good("smallest.conf"));
}

#[test]
fn second_place_in_another_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.conf"), "pool app { server 10.0.0.1:80; }").unwrap();
    let path = folder.path().join("weir.conf");
    fs::write(&path, "include a.conf;\npool app { server 10.0.0.1:80; }\nlisten :80 -> app;")
        .unwrap();
    let report = load(&path, &|_| None).unwrap_err().to_string();
    assert!(report.contains("weir.conf:2:6") && report.contains("a.conf:1:6"), "{report}");
}

#[test]
fn colon_alone_is_both_families() {
    let config = config("listen :80 127.0.0.1:81 [::1]:82 -> 127.0.0.1:1;");
    let ListenAddress::Socket(address) = config.listeners[0].addresses[0] else {
        panic!("not a socket")
    };
    assert_eq!(address.to_string(), "[::]:80");
    assert_eq!(config.listeners[0].name, ":80");
}

#[test]
fn addresses_in_routes_make_one_pool_each() {
    let config = config(
        "listen :80 { route path /a -> 10.0.0.1:80; route path /b -> 10.0.0.1:80; route -> 10.0.0.2:80 10.0.0.3:80; }",
    );
    let names: Vec<&str> = config.pools.iter().map(|pool| pool.name.as_str()).collect();
    assert_eq!(names, ["10.0.0.1:80", "10.0.0.2:80,10.0.0.3:80"]);
    assert_eq!(config.listeners[0].default[1].action, Action::Pool(0));
}

#[test]
fn or_binds_less_than_what_stands_side_by_side() {
    let config = config(
        "listen :80 { route path /a method GET or not path /b and method PUT -> 10.0.0.1:80; }",
    );
    let Rule::Any(parts) = &config.listeners[0].default[0].when else { panic!("not `or`") };
    assert!(
        matches!(&parts[0], Rule::All(rules) if matches!(rules[..], [Rule::Path(_), Rule::Method(_)]))
    );
    assert!(
        matches!(&parts[1], Rule::All(rules) if matches!(rules[..], [Rule::Not(_), Rule::Method(_)]))
    );
}

#[test]
fn rules_that_grow_without_bound_are_refused() {
    let rule = |number: usize| format!("rule r{number} {{ rule r{0} or rule r{0} }}\n", number - 1);
    let rules: String = (1..40).map(rule).collect();
    let text =
        format!("rule r0 {{ path /x }}\n{rules}listen :80 {{ route rule r39 -> 10.0.0.1:80; }}");
    let error = parse_str("x", &text).unwrap_err();
    assert!(error.to_string().contains("more than 10000 conditions"), "{error}");
}

#[test]
fn copies_of_long_rules_are_bounded() {
    let text = |routes: usize| {
        let network = |n: usize| format!(" 10.{}.{}.0/24", n / 250, n % 250);
        let networks: String = (0..20_000).map(network).collect();
        let route = |n: usize| format!("route rule office path /p{n} -> 10.0.0.1:80;\n");
        let routes: String = (0..routes).map(route).collect();
        format!("rule office {{ client{networks} }}\nlisten :80 {{\n{routes}}}\n")
    };
    config(&text(20));
    let error = parse_str("x", &text(2_000)).unwrap_err().to_string();
    assert!(error.contains("more than 1000000 values"), "{error}");
    assert_eq!(error.matches("more than 1000000 values").count(), 1, "{error}");
}

#[test]
fn rules_that_name_rules_without_end_are_refused() {
    let rule = |number: usize| format!("rule r{number} {{ not rule r{} }}\n", number + 1);
    let chain = |length: usize| {
        let rules: String = (0..length).map(rule).collect();
        format!(
            "{rules}rule r{length} {{ path /x }}\nlisten :80 {{ route rule r0 -> 10.0.0.1:80; }}"
        )
    };
    let deep = config(&chain(49));
    assert_eq!(from_json(&to_json(&deep)).unwrap(), deep);
    let error = parse_str("x", &chain(20_000)).unwrap_err();
    assert!(error.to_string().contains("deeper than 50"), "{error}");
}

#[test]
fn policies_by_response_time_go_to_json_and_back() {
    for (words, json) in [
        ("least_time", r#"{"least_time":"header"}"#),
        ("least_time last_byte", r#"{"least_time":"last_byte"}"#),
        ("peak_ewma", r#"{"peak_ewma":{"decay":"10s"}}"#),
        ("peak_ewma decay=1500ms", r#"{"peak_ewma":{"decay":"1500ms"}}"#),
    ] {
        let text = format!("pool a {{ balance {words}; server 10.0.0.1:80 slow_start=30s; }}");
        let config = config(&format!("{text} listen :80 -> a;"));
        assert_eq!(serde_json::to_string(&config.pools[0].policy).unwrap(), json);
        assert_eq!(from_json(&to_json(&config)).unwrap(), config);
    }
}

#[test]
fn ten_thousand_routes_are_read() {
    let route = |number: usize| format!("route path /p{number}/* header X-A=b -> app;\n");
    let routes: String = (0..10_000).map(route).collect();
    let text = format!("pool app {{ server 10.0.0.1:80; }}\nlisten :80 {{\n{routes}}}");
    assert_eq!(config(&text).listeners[0].default.len(), 10_000);
}

fn duration() -> impl Strategy<Value = Duration> {
    (1u64..100_000_000).prop_map(Duration::from_millis)
}

proptest! {
    #[test]
    fn any_model_survives_json(
        connect in duration(), head in duration(), stop in duration(),
        weight in 1u32..=65_535, limit in proptest::option::of(1u32..), bytes in proptest::option::of(any::<u64>()),
        head_bytes in 256usize..16_000_000, share in 0u8..=100, name in "[a-z0-9_.-]{1,20}", path in "/[ -~]{0,20}",
    ) {
        let mut config = good("shop.conf");
        config.shutdown_timeout = stop;
        let pool = &mut config.pools[0];
        pool.timeouts.connect = connect;
        pool.endpoints[0].weight = weight;
        pool.endpoints[0].max_conn = limit;
        pool.endpoints[0].name = format!("own-{name}");
        pool.buffer_request = bytes;
        pool.passive.max_ejected_percent = share;
        let listener = &mut config.listeners[2];
        listener.name = name;
        listener.timeouts.head = head;
        listener.limits.head_bytes = head_bytes;
        if let Ok(pattern) = path.parse() {
            listener.default[0].when = Rule::Path(vec![pattern]);
        }
        let json = to_json(&config);
        prop_assert_eq!(&from_json(&json).map_err(|error| TestCaseError::fail(error.to_string()))?, &config);
    }

    #[test]
    fn any_text_gets_a_verdict(text in "[a-z0-9_ :/~*.=\"'${}();#\n>-]{0,200}") {
        if let Err(error) = parse_str("x", &text) {
            prop_assert!(!error.is_empty() && !error.render(true).is_empty());
        }
    }

    #[test]
    fn any_words_of_the_language_get_a_verdict(picks in proptest::collection::vec(any::<prop::sample::Index>(), 0..40)) {
        let mut words = directives::words();
        words.extend(["{", "}", ";", "->", "(", ")", "and", "or", "not", ":80", "10.0.0.1:80", "x", "5s", "=", "name=", "path", "/a", "off", "all"]);
        let text: Vec<&str> = picks.iter().map(|pick| *pick.get(&words)).collect();
        if let Err(error) = parse_str("x", &text.join(" ")) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn damaged_json_gets_a_verdict(cut in 0usize..9000, byte in any::<u8>()) {
        let mut bytes = to_json(&good("shop.conf")).into_bytes();
        let at = cut % bytes.len();
        bytes[at] = byte;
        let text = String::from_utf8_lossy(&bytes);
        if let Err(error) = from_json(&text) {
            prop_assert!(!error.to_string().is_empty());
        }
        prop_assert!(from_json(&text[..text.floor_char_boundary(at.min(text.len()))]).is_err());
    }
}

#[test]
fn credits_are_those_of_the_kind_of_machine_or_as_written() {
    let credits = |text: &str| {
        config(&format!("{text} agent :9777; listen :80 -> 127.0.0.1:3000;")).cpu_credits.unwrap()
    };
    let medium = credits("cpu_credits t2.medium;");
    assert_eq!((medium.earn, medium.max, medium.launch), (24.0, 576.0, 60.0));
    assert_eq!(medium, credits("cpu_credits earn=24 max=576 launch=60 warn=30m;"));
    let own = credits(
        "cpu_credits T3.Small earn=81.6 balance=12.5 warn=off shed=weight,connections within=5m floor=25%;",
    );
    assert_eq!((own.earn, own.max, own.balance, own.warn), (81.6, 576.0, Some(12.5), None));
    assert_eq!((own.shed.len(), own.within, own.floor_percent), (2, Duration::from_mins(5), 25));
    let whole = config(
        "cpu_credits t3.nano shed=weight; agent :9777; agent unix:/run/weir/agent.sock mode=0666; listen :80 -> 127.0.0.1:3000;",
    );
    assert_eq!(whole.agent.len(), 2);
    assert_eq!(from_json(&to_json(&whole)).unwrap(), whole);
}

#[test]
fn credits_of_the_json_form_are_held_against_the_same_bounds() {
    let text = to_json(&config(
        "cpu_credits t3.nano; agent 127.0.0.1:9777; listen :80 -> 127.0.0.1:3000;",
    ));
    for (what, other, expected) in [
        ("\"earn\": 6.0", "\"earn\": -6.0", "cpu_credits.earn"),
        ("\"floor\": \"10%\"", "\"floor\": \"0%\"", "cpu_credits.floor"),
        ("\"balance\": null", "\"balance\": 1000.0", "cpu_credits.balance"),
        ("127.0.0.1:9777", "[::]:80", "agent[0]"),
    ] {
        assert!(text.contains(what), "{what}: {text}");
        let error = from_json(&text.replace(what, other)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn http2_is_offered_with_tls_unless_bytes_are_passed_on() {
    let certificate = "certificate /c.pem key=/k.pem;";
    for (listener, mode) in [
        (format!("listen :1 tls {{ {certificate} default -> app; }}"), Http2Mode::On),
        (format!("listen :1 tls {{ {certificate} http2 off; default -> app; }}"), Http2Mode::Off),
        ("listen :1 { default -> app; }".to_owned(), Http2Mode::Off),
        (format!("listen tcp :1 tls -> app {{ {certificate} }}"), Http2Mode::Off),
    ] {
        let config = config(&format!("pool app {{ server 127.0.0.1:2; }} {listener}"));
        assert_eq!(config.listeners[0].http2_mode(), mode, "{listener}");
    }
}
