//! Files that are large, deep, long or nonsense: bounds, and the work that they take.

use proptest::prelude::*;
use weir_import::{Language, nginx_file, nginx_text};

use super::{outcome, repeated, server};

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        import_anything(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_directives_are_read(tokens in prop::collection::vec(token(), 0..120)) {
        import_anything(&tokens.join(" "));
    }

    #[test]
    fn any_directives_in_a_server_are_read(tokens in prop::collection::vec(token(), 0..80)) {
        let tokens = tokens.join(" ");
        import_anything(&format!("http {{ upstream u {{ {tokens} }} server {{ {tokens} }} }}"));
    }
}

/// Words of the language, separated by blanks.
const TOKENS: &str = r#"
    http server upstream location events map { { } } ; ; ; listen 80 ssl server_name *.a .b
    c.* ~^d proxy_pass http://u http://1.2.3.4:5 return 200 301 /x$1 proxy_set_header Host
    $host add_header = ^~ ~ ~* / /a/ ( keepalive 8 hash least_conn max_fails=3 weight=2
    backup access_log off /tmp/l log_format '$request' client_max_body_size 0 1m
    proxy_read_timeout 5s allow deny all ssl_certificate ssl_certificate_key include u
    keepalive_timeout large_client_header_buffers [::]:80 unix:/s default_server
    worker_processes auto user pid error_log warn internal ${
    \.php$ " { set $a b $a if ($a = b) ($http_x ~ (.)) (-f /x) break rewrite ^/(.*)$ last
    error_page 404 =200 = /e @n location @n proxy_intercept_errors on
"#;

fn token() -> impl Strategy<Value = String> {
    let words: Vec<&str> = TOKENS.split_whitespace().chain(["\u{0}"]).collect();
    prop_oneof![9 => prop::sample::select(words).prop_map(str::to_owned), 1 => ".{0,6}"]
}

/// Imports a text; what comes out has to be checkable and printable, whatever it is.
pub(crate) fn import_anything(text: &str) {
    let _ = Language::of(text);
    let Ok(imported) = nginx_text("/nonexistent/nginx.conf", text) else { return };
    let _ = imported.coverage.text();
    let native = imported.native();
    let own = imported.check().map(|checked| weir_config::to_json(&checked.config));
    let printed = weir_config::parse_str("/nonexistent/native.conf", &native)
        .map(|checked| weir_config::to_json(&checked.config));
    match (own, printed) {
        (Ok(own), Ok(printed)) => assert_eq!(own, printed, "{text}\n{native}"),
        (Err(_), Err(_)) => {}
        (Ok(_), Err(errors)) | (Err(errors), Ok(_)) => {
            panic!("{text}\n{native}\n{}", errors.render(false))
        }
    }
}

#[test]
fn includes_are_relative_to_the_main_file_and_loops_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    };
    let main = write("nginx.conf", "http { include sites/*.conf; }");
    write("sites/a.conf", "server { listen 127.0.0.1:1; include common.inc; }");
    write("common.inc", "location / { return 204; }");
    let imported = nginx_file(&main).unwrap();
    assert_eq!(outcome(&imported.coverage, "include sites").0, "honoured");
    let entry = imported.coverage.entries.iter().find(|entry| entry.directive == "return 204");
    assert!(entry.unwrap().file.ends_with("common.inc"));
    write("common.inc", "include sites/a.conf;");
    let errors = nginx_file(&main).unwrap_err().render(false);
    assert!(errors.contains("includes itself"), "{errors}");
    write("common.inc", "include gone.inc;");
    assert!(nginx_file(&main).unwrap_err().render(false).contains("cannot read"));
    std::fs::write(&main, b"http { \xff }").unwrap();
    assert!(nginx_file(&main).unwrap_err().render(false).contains("not UTF-8"));
}

#[test]
fn large_and_deep_files_are_bounded() {
    let errors = nginx_text("/n.conf", &"a { ".repeat(1_000_000)).unwrap_err();
    assert!(errors.render(false).contains("deeper than"));
    let lines =
        repeated(50_000, |number| format!("location /a{number} {{ proxy_pass http://u; }}\n"));
    let servers =
        repeated(50_000, |number| format!("server 10.{}.{}.1;\n", number / 256, number % 256));
    let text =
        format!("http {{ upstream u {{ {servers} }} server {{ listen 127.0.0.1:1; {lines} }} }}");
    let imported = nginx_text("/n.conf", &text).unwrap();
    assert!(imported.coverage.entries.len() > 150_000);
    // A product of addresses, names and locations has a bound of its own.
    let names = repeated(2_000, |number| format!("*.n{number}.test "));
    let locations = repeated(2_000, |number| format!("location /a{number} {{ return 204; }}\n"));
    let text = format!(
        "http {{ server {{ listen 1; server_name x; }} server {{ listen 1; server_name {names}; {locations} }} }}"
    );
    let imported = nginx_text("/n.conf", &text).unwrap();
    assert!(imported.coverage.refused().any(|entry| entry.outcome.reason().contains("routes")));
}

/// Returns the processor time of importing a text, in nanoseconds.
fn work(text: &str) -> u64 {
    let spent = || {
        let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        times.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    let before = spent();
    let _ = nginx_text("/nonexistent/nginx.conf", text);
    spent() - before
}

/// Fails if a file that is four times as long takes much more than four times the work. Where the
/// work grows with the square of the length, it takes sixteen times as much.
fn grows_with_the_file(name: &str, shape: impl Fn(usize) -> String) {
    let (short, long) = (shape(10_000), shape(40_000));
    assert!(long.lines().count() > 39_000, "{name}: {}", long.lines().count());
    let growth = || work(&long) as f64 / work(&short) as f64;
    let least = (0..4).map(|_| growth()).find(|growth| *growth < 8.0);
    assert!(least.is_some(), "{name} takes {:.1} times the work", growth());
}

#[test]
fn the_work_of_a_long_file_grows_with_its_length() {
    grows_with_the_file("a chain of maps", |lines| {
        let last = lines - 1;
        let map = |number: usize| format!("map $m{} $m{number} {{ default a; }}\n", number + 1);
        format!("http {{ {} map $none $m{last} {{ default a; }} }}", repeated(last, map))
    });
    grows_with_the_file("deleted networks", |lines| {
        let network = |number: usize| format!("10.{}.{}.0/24", number / 256, number % 256);
        let networks = repeated(lines / 2, |number| format!("{} a;\n", network(number)));
        let deletes = repeated(lines / 2, |number| format!("delete {};\n", network(number)));
        format!("http {{ geo $g {{ {networks} {deletes} }} }}")
    });
    grows_with_the_file("pools of one name", |lines| {
        let path = |number: usize| {
            let bits = (0..17).map(|bit| if number >> bit & 1 == 1 { '+' } else { '!' });
            bits.collect::<String>()
        };
        let location = |number: usize| {
            format!("location /{number} {{ proxy_pass http://unix:/{}; }}\n", path(number))
        };
        format!("http {{ server {{ {} }} }}", repeated(lines, location))
    });
    grows_with_the_file("inherited certificates", |lines| {
        let lines = lines / 3;
        let certificate =
            |number: usize| format!("ssl_certificate {number};\nssl_certificate_key {number};\n");
        let server = |number: usize| format!("server {{ listen 1 ssl; server_name a{number}; }}\n");
        format!("http {{ {} {} }}", repeated(lines, certificate), repeated(lines + 2, server))
    });
    grows_with_the_file("inherited doubles", |lines| {
        let location = |number: usize| format!("location /{number} {{ proxy_pass http://a; }}\n");
        let doubles = "proxy_read_timeout 5s;\n".repeat(lines / 2);
        format!("http {{ {doubles} server {{ {} }} }}", repeated(lines / 2, location))
    });
    grows_with_the_file("lost headers", |lines| {
        let location = |number: usize| format!("location /{number} {{ add_header A b; }}\n");
        format!("http {{ server {{ add_header C d; {} }} }}", repeated(lines, location))
    });
    grows_with_the_file("rewrites without a flag", |lines| {
        let rewrite = |number: usize| format!("rewrite ^/{number} /b;\n");
        format!("http {{ server {{ location / {{ {} }} }} }}", repeated(lines, rewrite))
    });
    grows_with_the_file("rules that locations inherit", |lines| {
        let location = |number: usize| format!("location /{number} {{ return 204; }}\n");
        let rules = "deny 192.0.2.1;\n".repeat(lines / 2);
        format!("http {{ {rules} server {{ {} }} }}", repeated(lines / 2, location))
    });
}

#[test]
fn lines_that_routes_inherit_have_a_bound() {
    let check = |outer: &str, location: &str| {
        let outer = outer.repeat(2_000);
        let locations = repeated(2_000, |number| format!("location /{number} {{ {location} }}\n"));
        let text = format!("http {{ {outer} server {{ {locations} }} }}");
        let imported = nginx_text("/nonexistent/nginx.conf", &text).unwrap();
        let mut refused = imported.coverage.refused();
        assert!(refused.any(|entry| entry.outcome.reason().contains("lines")), "{location}");
    };
    check("deny 192.0.2.1;\n", "proxy_pass http://127.0.0.1:2;");
    check("add_header A b;\n", "return 204;");
    check("proxy_set_header A b;\n", "proxy_pass http://127.0.0.1:2;");
    check("proxy_hide_header A;\n", "proxy_pass http://127.0.0.1:2;");
    check("proxy_cookie_path a b;\n", "proxy_pass http://127.0.0.1:2;");
    check("proxy_redirect a b;\n", "proxy_pass http://127.0.0.1:2;");
    check("index a;\n", "root /srv;");
    // Each wildcard name has a copy of the routes.
    let names = repeated(1_000, |number| format!("*.n{number}.test "));
    let headers = "add_header A b;\n".repeat(1_000);
    let text = format!(
        "http {{ server {{ listen 1; }} server {{ listen 1; server_name {names}; {headers} return 204; }} }}"
    );
    let imported = nginx_text("/nonexistent/nginx.conf", &text).unwrap();
    assert!(imported.coverage.refused().any(|entry| entry.outcome.reason().contains("lines")));
}

/// The part that a file which is too long leaves out opens nothing.
#[test]
fn routes_whose_rules_are_too_many_stay_closed() {
    let rules = "deny 192.0.2.1;\n".repeat(300_002);
    let text = format!("{rules} location / {{ proxy_pass http://127.0.0.1:2; }}");
    let native = server(&text).native();
    assert!(native.contains("deny all"), "{}", native.len());
}

#[test]
fn ranges_of_addresses_have_a_bound_and_are_of_ipv4() {
    let check = |ranges: &str, reason: &str| {
        let text = format!("http {{ geo $g {{ ranges; {ranges} }} }}");
        let coverage = nginx_text("/nonexistent/nginx.conf", &text).unwrap().coverage;
        let (word, found) = outcome(&coverage, "geo");
        assert_eq!(word == "refused", !reason.is_empty(), "{found}");
        assert!(found.contains(reason), "{found}");
    };
    check("127.0.0.1-127.0.0.9 a;", "");
    check("::1-::9 a;", "IPv4");
    let range = |number: usize| format!("{}.0.0.1-{}.255.255.254 a;\n", number + 1, number + 1);
    check(&repeated(200, range), "");
    let range = |number: usize| {
        format!(
            "1.{}.{}.1-1.{}.{}.254 a;\n",
            number / 256,
            number % 256,
            number / 256,
            number % 256
        )
    };
    check(&repeated(65_536, range), "networks");
}

#[test]
fn words_have_the_bound_of_nginx() {
    let text = |bytes: usize| format!("http {{ server {{ server_name {}; }} }}", "a".repeat(bytes));
    assert!(nginx_text("/n.conf", &text(4096)).is_ok());
    let errors = nginx_text("/n.conf", &text(4097)).unwrap_err();
    assert!(errors.render(false).contains("longer than 4096"), "{}", errors.render(false));
}

#[test]
fn other_bytes_than_utf_8_may_stand_in_comments() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nginx.conf");
    std::fs::write(&path, b"# gr\xfc\xdfe\nhttp { server { listen 127.0.0.1:1; } # \xe9\n}")
        .unwrap();
    nginx_file(&path).unwrap().check().unwrap();
    std::fs::write(&path, b"# \xfc\nhttp { server { listen 127.0.0.1:1;\nserver_name \xe9; } }")
        .unwrap();
    let errors = nginx_file(&path).unwrap_err().render(false);
    assert!(errors.contains("nginx.conf:3: this file is not UTF-8"), "{errors}");
}
