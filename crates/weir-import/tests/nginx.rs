//! The nginx front end from outside: the report, the precedence of locations against a model of
//! nginx's, the native form, and bad input.

use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use weir_config::Config;
use weir_config::model::{
    Action, Http2Mode, PassiveCause, Pool, Protocol, Route, RouteSize, Rule, SendProxy,
    UpstreamHttp,
};
use weir_import::{Coverage, CoverageTotals, Imported, Language, nginx_file, nginx_text};

fn shop() -> Imported {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nginx");
    nginx_file(&folder.join("shop.conf")).unwrap()
}

fn server(contents: &str) -> Imported {
    let text = format!("events {{}}\nhttp {{ server {{ listen 127.0.0.1:1; {contents} }} }}");
    nginx_text("/etc/nginx/nginx.conf", &text).unwrap()
}

fn config(imported: Imported) -> Config {
    imported.check().unwrap_or_else(|errors| panic!("{}", errors.render(false))).config
}

/// Returns the word and the reason for the first directive that begins with this text.
fn outcome<'c>(coverage: &'c Coverage, directive: &str) -> (&'static str, &'c str) {
    let entry = coverage.entries.iter().find(|entry| entry.directive.starts_with(directive));
    let entry = entry.unwrap_or_else(|| panic!("no {directive} in\n{}", coverage.text()));
    (entry.outcome.word(), entry.outcome.reason())
}

#[test]
fn every_directive_of_a_file_has_an_outcome_and_a_line() {
    let coverage = shop().coverage;
    let totals = coverage.totals();
    assert_eq!(
        totals,
        CoverageTotals { honoured: 41, differently: 8, ignored: 2, refused: 0 },
        "{}",
        coverage.text()
    );
    let check = |directive: &str, word: &str, reason: &str| {
        let found = outcome(&coverage, directive);
        assert!(found.0 == word && found.1.contains(reason), "{directive}: {found:?}");
    };
    check("worker_cpu_affinity", "differently", "a worker for each mask");
    check("worker_connections", "differently", "connections to servers");
    check("listen 8443", "honoured", "");
    check("proxy_set_header Connection  ", "honoured", "");
    check("proxy_set_header X-Forwarded-For", "honoured", "");
    check("server shop.internal", "differently", "again and again");
    check("upstream spare", "ignored", "uses it");
    check("proxy_pass http://127.0.0.1:3000/", "honoured", "");
    check("rewrite", "honoured", "");
    check("types", "honoured", "");
    let rewrite = coverage.entries.iter().find(|entry| entry.directive.starts_with("rewrite"));
    assert!(rewrite.is_some_and(|entry| entry.file.ends_with("shop.conf") && entry.line == 49));
    assert!(coverage.text().ends_with("8 honoured differently, 2 ignored, 0 refused\n"));
    assert!(coverage.json().contains("\"refused\": 0"));
}

#[test]
fn a_block_that_is_never_closed_has_a_repair() {
    let check = |text: &str, expected: &[&str]| {
        let errors = nginx_text("/etc/nginx/nginx.conf", text).unwrap_err();
        let said = errors.render(false);
        assert_eq!(errors.count(), expected.len(), "{said}");
        for help in expected {
            assert!(said.contains(&format!("help: {help}")), "{help}:\n{said}");
        }
    };
    let end = "write `}` at the end of the file";
    // The damaged files of the printed seeds.
    check(
        "events {\n worker_connections 1;\nhttp {\n server {\n  listen 80;\n }\n}\n",
        &["`http` of line 3 cannot stand inside: write `}` before it"],
    );
    let upstream = "`upstream` of line 7 cannot stand inside: write `}` before it";
    check(
        "events {\n\nhttp {\n server {\n  location / {\n   proxy_pass http://b;\n upstream b {\n  server b:80;\n",
        &[
            "`http` of line 3 cannot stand inside: write `}` before it",
            end,
            upstream,
            upstream,
            end,
        ],
    );
    check("events {}\nhttp {\n server {\n  listen 80;\n }\n", &[end]);
    check(
        "events {}\nhttp {\n server {\n  rewrite ^/(\\d{4})/(.*)$ /$1 last;\n }\n}\n",
        &["line 4 has a regex with `{`: write it in quotes"],
    );
}

#[test]
fn both_families_of_a_port_have_one_socket() {
    let servers = |first: &str, second: &str| {
        let text = format!(
            "events {{}}\nhttp {{ server {{ {first} server_name a.test; return 201; }} server {{ {second} server_name b.test; return 202; }} }}"
        );
        nginx_text("/etc/nginx/nginx.conf", &text).unwrap()
    };
    let check = |first: &str, second: &str, expected: &str| {
        let imported = servers(first, second);
        let (word, reason) = outcome(&imported.coverage, "listen [::]:80");
        assert_eq!(word, expected, "{first} {second}: {reason}");
        let config = config(imported);
        assert_eq!(config.listeners.len(), 1);
        let hosts = config.listeners[0].sites.iter().map(|site| site.hosts.len()).sum::<usize>();
        (format!("{:?}", config.listeners[0].addresses[0]).contains("[::]:80"), hosts)
    };
    let both = true;
    let usual = "listen 80; listen [::]:80;";
    assert_eq!(check(usual, usual, "honoured"), (both, 2));
    // As certificate programs write it.
    assert_eq!(check(usual, "listen 80;", "honoured"), (both, 2));
    let one = servers(usual, "listen 80; listen 127.0.0.1:81;");
    let listens = one.coverage.entries.iter().filter(|entry| entry.directive == "listen 80");
    let words: Vec<&str> = listens.map(|entry| entry.outcome.word()).collect();
    assert_eq!(words, ["honoured", "differently"]);
    assert_eq!(check("listen 80;", "listen [::]:80;", "differently"), (both, 2));
    let default = "listen 80 default_server; listen [::]:80 default_server;";
    assert_eq!(check(default, "listen 80;", "honoured"), (both, 2));
    let (two, four) = ("listen 80 default_server;", "listen [::]:80 default_server;");
    assert_eq!(check(two, four, "refused").1, 0);
}

#[test]
fn options_of_one_address_conflict_as_in_nginx() {
    let check = |first: &str, second: &str, directive: &str, expected: &str| {
        let text = format!(
            "events {{}}\nhttp {{ server {{ {first} server_name a.test; return 201; }} server {{ {second} server_name b.test; return 202; }} }}"
        );
        let imported = nginx_text("/etc/nginx/nginx.conf", &text).unwrap();
        let found = imported.coverage.entries.iter().rfind(|entry| entry.directive == directive);
        let found = found.unwrap_or_else(|| panic!("{}", imported.coverage.text()));
        let said = format!("{} {}", found.outcome.word(), found.outcome.reason());
        assert!(said.contains(expected), "{first} {second}: {said}");
        config(imported).listeners.len()
    };
    let plain = "listen 81";
    // The options of the socket hold for the address, wherever they are written.
    let first = "listen 81 reuseport backlog=9;";
    assert_eq!(check(first, "listen 81;", plain, "honoured"), 1);
    let second = "listen *:81 reuseport";
    assert_eq!(check("listen 81;", "listen *:81 reuseport;", second, "honoured"), 1);
    check(first, "listen *:81 rcvbuf=9;", "listen *:81 rcvbuf=9", "duplicate listen options");
    check("listen 81 bind;", "listen *:81 bind;", "listen *:81 bind", "duplicate listen options");
    let default = "listen 81 default_server";
    check(&format!("{default};"), &format!("{default};"), default, "duplicate default server");
    check(&format!("{default};"), "listen 81;", plain, "honoured");
    check("listen 81; listen *:81;", "listen 82;", "listen *:81", "a duplicate listen");
    // TLS and the PROXY protocol are of the address too.
    let tls = "listen 81 ssl; ssl_certificate /c.pem; ssl_certificate_key /k.pem;";
    check(tls, "listen 81;", plain, "honoured");
    check("listen localhost:81;", "listen 82;", "listen localhost:81", "differently");
    check("listen localhosts:81;", "listen 82;", "listen localhosts:81", "refused");
}

#[test]
fn handshakes_are_rejected_where_the_default_server_says_so() {
    let check = |default: &str, other: &str, expected: &str| {
        let text = format!(
            "events {{}}\nhttp {{ server {{ listen 443 ssl; {default} }} server {{ listen 443 ssl; server_name a.test; {other} return 204; }} }}"
        );
        let imported = nginx_text("/etc/nginx/nginx.conf", &text).unwrap();
        let (word, reason) = outcome(&imported.coverage, "ssl_reject_handshake");
        assert!(
            format!("{word} {reason}").contains(expected),
            "{default} {other}: {word} {reason}"
        );
        imported.native().contains("names=host")
    };
    let (on, certificate) =
        ("ssl_reject_handshake on;", "ssl_certificate /c.pem; ssl_certificate_key /k.pem;");
    assert!(check(on, certificate, "honoured"));
    assert!(check(&format!("server_name _; {on}"), certificate, "honoured"));
    assert!(!check("ssl_reject_handshake off;", certificate, "honoured"));
    assert!(!check(on, "", "refused no server of the address has a certificate"));
    assert!(!check("", &format!("{certificate} {on}"), "refused write it in the default server"));
    assert!(!check(&format!("server_name b.test; {on}"), certificate, "refused write it in"));
}

#[test]
fn names_of_files_are_texts_where_a_root_holds() {
    let check = |contents: &str, directive: &str, expected: &str| {
        let imported = server(contents);
        let (word, reason) = outcome(&imported.coverage, directive);
        assert!(format!("{word} {reason}").contains(expected), "{contents}: {word} {reason}");
        format!("{:?}", config(imported).listeners[0])
    };
    let header = "add_header X-File $request_filename";
    let place =
        |inside: &str| format!("location /a/ {{ {inside} {header}; return 200 $document_root; }}");
    let shown = check(&place("root /srv/$host/;"), header, "differently");
    assert!(shown.contains("/srv/${host}${decoded_uri}"), "{shown}");
    check(&place("alias /srv/;"), header, "refused `$request_filename` has no conversion where");
    check(&place("alias /srv/;"), "return", "honoured");
    check(&place(""), "return", "refused no `root` holds here");
    check(&format!("location /a/ {{ {header}; return 204; }}"), header, "refused no `root` holds");
    check(&place("root html;"), "return", "refused `$document_root` of a relative path");
    let of_file = "root /srv; if ($request_filename ~ \\.pdf$) { return 403; }";
    let shown = check(&format!("location / {{ {of_file} }}"), "if", "honoured");
    assert!(shown.contains("/srv${decoded_uri}"), "{shown}");
}

#[test]
fn defaults_of_nginx_are_set_and_listed() {
    let imported = server("location / { proxy_pass http://127.0.0.1:2; }");
    let listed: Vec<&str> =
        imported.coverage.defaults.iter().map(|default| default.directive).collect();
    for name in
        ["user", "proxy_read_timeout", "keepalive_timeout", "client_max_body_size", "location /"]
    {
        assert_eq!(listed.contains(&name), name != "location /", "{name}");
    }
    let config = config(imported);
    let pool = &config.pools[0];
    assert_eq!(pool.timeouts.response.as_secs(), 60);
    assert_eq!(pool.buffer_request, Some(1 << 20));
    assert_eq!(pool.stall.factor, 0);
    let listener = &config.listeners[0];
    assert_eq!(listener.timeouts.keepalive.as_secs(), 75);
    assert_eq!(listener.limits.body_bytes, Some(1 << 20));
    assert_eq!(listener.limits.requests, 1000);
    assert!(!listener.path.normalize && !listener.forwarded.x_forwarded);
}

#[test]
fn the_native_form_checks_and_is_the_same_configuration() {
    let imported = shop();
    let native = imported.native();
    let parsed = weir_config::parse_str("/native.conf", &native);
    let parsed = parsed.unwrap_or_else(|errors| panic!("{}\n{native}", errors.render(false)));
    assert_eq!(weir_config::to_json(&parsed.config), weir_config::to_json(&config(imported)));
}

#[test]
fn errors_of_values_name_the_line_of_nginx() {
    let text = "events {}\nhttp {\n server {\n listen 127.0.0.1:1;\n location / {\n\
                proxy_pass http://a;\n add_header X \"a\\nb\" always;\n}}}";
    let errors = nginx_text("/n.conf", text).unwrap().check().unwrap_err();
    assert!(errors.render(false).contains("/n.conf:7"), "{}", errors.render(false));
}

fn refuses(contents: &str, directive: &str, reason: &str) {
    let imported = server(contents);
    let (word, found) = outcome(&imported.coverage, directive);
    assert_eq!(word, "refused", "{contents}");
    assert!(found.contains(reason), "{contents}: {found}");
}

#[test]
fn directories_and_tests_of_files_are_refused_by_name() {
    let check = refuses;
    check("location / { root $host; }", "root", "constant path");
    check("location / { root /srv/$host/../x; }", "root", "leave `..` out");
    check("location / { root /srv/$request_uri; }", "root", "leave `$request_uri` out");
    check("location / { root /srv/$made_up; }", "root", "`$made_up`");
    check("location / { if (-f $arg_file) { return 403; } return 200; }", "if", "begins with `/`");
    check("if (-f $request_filename) { return 403; }", "if", "`root`");
    check(
        "root /srv; if (-f $request_filename) { set $a 1; } location / { return 204; }",
        "set",
        "before the tests",
    );
    check(
        "root /srv; if (-f $request_filename) { expires 1d; } location / { return 204; }",
        "if",
        "of a server",
    );
}

#[test]
fn what_is_not_converted_is_refused_by_name() {
    let check = refuses;
    check("location ~ /b { proxy_pass http://a/b; }", "proxy_pass", "location with a regex");
    check("location / { proxy_pass http://a/b?c; }", "proxy_pass", "query");
    check("location / { proxy_pass http://a; proxy_redirect ~(?=x) /; }", "proxy_redirect", "");
    check("location / { if (-f $uri) { return 503; } return 200; }", "if", "begins with `/`");
    check("location / { if (-f x) { return 503; } return 200; }", "if", "constant path");
    check("location / { if (-z /x) { return 503; } return 200; }", "if", "not a test");
    check("set $uri /x;", "set", "`$uri`");
    check("set $a $made_up;", "set", "`$made_up`");
    check("set a b;", "set", "begins with `$`");
    check(
        "if (-f /x) { set $a 1; } location / { return 200 $a; }",
        "return 200",
        "depends on a file",
    );
    check("location / { if ($http_x) { break; } set $a 1; return 200; }", "set", "before");
    check("error_page 404 page.html; location / { return 404; }", "error_page", "a path");
    check("error_page /x.html; location / { return 404; }", "error_page", "STATUS");
    check("error_page 301 /x; location / { return 404; }", "error_page", "redirects");
    check("error_page 404 =x /x; location / { return 404; }", "error_page", "`=STATUS`");
    check("location / { if ($made_up) { return 503; } return 200; }", "if", "`$made_up`");
    check("location / { if ($http_cookie ~ x*) { return 503; } return 200; }", "if", "empty text");
    check(
        "location / { if ($status = 200) { return 503; } return 200; }",
        "if",
        "not known before",
    );
    check(
        "location / { set $a $args; rewrite ^/a /b; set $b 1; return 200 $a; }",
        "return",
        "not kept",
    );
    check("location ~ /(.) { rewrite ^/a /b; return 200 $1; }", "return", "`$1`");
    check("location /a/ { alias /srv/a; }", "alias", "at the end");
    check("location / { root /srv; try_files $arg_x =404; }", "try_files", "begins with `/`");
    check("location / { root /srv; try_files $uri =200; }", "try_files", "last word");
    check("location / { root /srv; autoindex on; }", "autoindex", "no directories");
    check("location @a { proxy_pass http://127.0.0.1:2/b; }", "proxy_pass", "named location");
    check("location / { rewrite ^/a /b break; return 200; }", "rewrite", "only a request");
    check("location / { proxy_pass http://$host; }", "proxy_pass", "map $host $server");
    check("location / { proxy_pass ftp://a; }", "proxy_pass", "https://ADDRESS");
    check("location ~ (?=a) { return 200; }", "location", "regex");
    check("location /a { return 301 $made_up; }", "return", "`$made_up`");
    check("location /a { keepalive_timeout 5; return 200; }", "keepalive_timeout", "not converted");
    check("location /a { access_log memory:1k x; return 200; }", "access_log", "log_format x");
    check("location /a { location /b { return 200; } return 200; }", "location /b", "`/a`");
    check("location = /a { location /a/b { return 200; } }", "location /a/b", "one path");
    check("location /a { location @b { return 200; } return 200; }", "location @b", "server");
    check("frobnicate on;", "frobnicate", "not known");
    check("worker_processes 2;", "worker_processes", "main");
    check("if ($hostage) { return 200; }", "return 200", "refused block");
    check("client_max_body_size lots; location / { proxy_pass http://a; }", "client_max", "size");
}

/// Returns the native routes of a server, without quotes.
fn routes(contents: &str) -> String {
    let imported = server(contents);
    let refused: Vec<_> = imported.coverage.refused().collect();
    assert!(refused.is_empty(), "{refused:?}");
    let native = imported.native();
    let kept = |line: &&str| {
        let line = line.trim_start();
        ["route", "error_page", "rewrite", "map", "default", "header", "~", "\""]
            .iter()
            .any(|start| line.starts_with(start))
    };
    let lines = native.lines().filter(kept).map(|line| line.trim().replace('"', ""));
    lines.collect::<Vec<_>>().join("\n")
}

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
fn files_have_the_types_of_the_file_and_a_time_to_be_kept() {
    let text = "default_type text/x; charset utf-8; types { text/html html HTM; image/png png; }
        location / { root /nowhere; expires 1h; autoindex off; }
        location /plain { types { } default_type \"\"; root /nowhere; expires -1; }
        location /text { types { } default_type text/plain; return 200 x; }";
    let native = server(text).native().replace('"', "");
    let has = |line: &str| assert!(native.contains(line), "{line} in\n{native}");
    has("types types_");
    has("htm text/html; charset=utf-8;");
    has("png image/png;");
    has("default text/x;");
    has("types=types_1 optional");
    has("expires 3600s;");
    has("expires -1s;");
    has("respond 200 x type=text/plain; charset=utf-8");
    let config = config(server(text));
    assert_eq!(config.types.len(), 2, "{:?}", config.types);
    assert!(config.types.iter().any(|table| table.types.is_empty() && table.default.is_empty()));
    for (expires, native) in [
        ("modified +1h", "expires 3600s modified;"),
        ("modified -1", "expires -1s modified;"),
        ("@15h30m", "expires \"@55800s\";"),
    ] {
        let imported = server(&format!("location / {{ root /srv; expires {expires}; }}"));
        assert_eq!(outcome(&imported.coverage, "expires"), ("honoured", ""));
        assert!(imported.native().contains(native), "{}", imported.native());
    }
    for expires in ["modified @1h", "modified max", "modified $x", "@25h", "1h 2h", "modified"] {
        let imported = server(&format!("location / {{ root /srv; expires {expires}; }}"));
        assert_eq!(outcome(&imported.coverage, "expires").0, "refused", "{expires}");
    }
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

/// Imports a file with this `stream`.
fn stream(contents: &str) -> Imported {
    let text = format!("events {{}}\nstream {{ {contents} }}");
    nginx_text("/etc/nginx/nginx.conf", &text).unwrap()
}

#[test]
fn streams_become_listeners_that_pass_on_bytes() {
    let imported = stream(
        "upstream db { least_conn; server 10.0.0.1:5432; server 10.0.0.2:5432 backup; }
         server { listen 127.0.0.1:5432; proxy_pass db; proxy_connect_timeout 1s; proxy_timeout 3m;
                  deny 10.9.0.0/16; allow all; }
         server { listen 127.0.0.1:25 proxy_protocol; proxy_pass 10.0.0.3:25; proxy_protocol on;
                  set_real_ip_from 0.0.0.0/0; set_real_ip_from ::/0; proxy_next_upstream off; }",
    );
    assert_eq!(imported.coverage.totals().refused, 0, "{}", imported.coverage.text());
    let config = config(imported);
    let [db, mail] = &config.listeners[..] else { panic!("{:?}", config.listeners) };
    assert_eq!([db.protocol, mail.protocol], [Protocol::Tcp; 2]);
    assert_eq!((db.access.len(), db.proxy_protocol.len()), (2, 0));
    assert_eq!(mail.proxy_protocol.len(), 2);
    let [db, mail] = &config.pools[..] else { panic!("{:?}", config.pools) };
    let seconds =
        |pool: &Pool| [pool.timeouts.connect, pool.timeouts.tunnel].map(|wait| wait.as_secs());
    assert_eq!((seconds(db), db.retry.attempts, db.send_proxy), ([1, 180], 1, None));
    // In nginx too, only a failed connect leaves a server out.
    assert_eq!(db.passive.on, [PassiveCause::Connect]);
    let sends = Some(SendProxy::V1);
    assert_eq!((seconds(mail), mail.retry.attempts, mail.send_proxy), ([60, 600], 0, sends));
}

#[test]
fn a_map_of_server_names_becomes_a_route_for_each_name_in_the_order_of_nginx() {
    let imported = stream(
        "map $ssl_preread_server_name $pool {
             hostnames; ~^api[0-9]+\\.test$ api; *.b.test wide; .a.b.test narrow; b.test one; default rest; }
         upstream api { server 10.0.0.1:443; } upstream wide { server 10.0.0.2:443; }
         upstream narrow { server 10.0.0.3:443; } upstream one { server 10.0.0.4:443; }
         upstream rest { server 10.0.0.5:443; }
         server { listen 127.0.0.1:443; ssl_preread on; preread_timeout 5s; proxy_pass $pool; }",
    );
    assert_eq!(imported.coverage.totals().refused, 0, "{}", imported.coverage.text());
    let config = config(imported);
    let listener = &config.listeners[0];
    assert_eq!(listener.timeouts.handshake.as_secs(), 5);
    let pool = |route: &Route| match route.action {
        Action::Pool(index) => config.pools[index].name.clone(),
        _ => panic!("{route:?}"),
    };
    let named =
        listener.sites.iter().map(|site| (site.hosts[0].to_string(), pool(&site.routes[0])));
    let named: Vec<String> = named.map(|(host, pool)| format!("{host} {pool}")).collect();
    let expected = [
        "a.b.test narrow",
        "b.test one",
        "*.a.b.test narrow",
        "*.b.test wide",
        "~^api[0-9]+\\.test$ api",
    ];
    assert_eq!(named, expected);
    assert_eq!(pool(&listener.default[0]), "rest");
}

#[test]
fn what_a_stream_of_weir_cannot_do_is_refused_by_name() {
    let check = |contents: &str, directive: &str, reason: &str| {
        let imported = stream(contents);
        let (word, found) = outcome(&imported.coverage, directive);
        assert_eq!(word, "refused", "{contents}");
        assert!(found.contains(reason), "{contents}: {found}");
    };
    check("server { listen 53 udp; proxy_pass 10.0.0.1:53; }", "listen 53", "UDP");
    check("server { listen 1; }", "server", "neither `proxy_pass` nor `return`");
    check("server { listen 1; return a; proxy_pass 10.0.0.1:1; }", "return", "the last of both");
    check("server { listen 1; return $no; }", "return", "$no");
    check("server { listen 1; set $remote_addr x; return a; }", "set", "your own");
    check("server { listen 1; pass 127.0.0.1:80; }", "pass", "proxy_protocol on");
    check("server { listen 1; proxy_pass $x; }", "proxy_pass", "map $x $server");
    check(
        "map $ssl_preread_protocol $x { default 10.0.0.1:1; } server { listen 1; proxy_pass $x; }",
        "proxy_pass",
        "ssl_preread on",
    );
    check(
        "server { listen 1 proxy_protocol; proxy_pass 10.0.0.1:1; deny all; }",
        "deny all",
        "set_real_ip_from",
    );
    check("server { listen 1; proxy_pass 10.0.0.1:1; js_filter a; }", "js_filter", "");
}

#[test]
fn a_stream_may_return_a_text() {
    let imported = stream(
        "server { listen 127.0.0.1:1; set $who \"$remote_addr $protocol\"; return \"bye $who\n\"; }
         server { listen 127.0.0.1:2; set $to 10.0.0.1:7; proxy_pass $to; }",
    );
    assert_eq!(imported.coverage.refused().count(), 0, "{}", imported.coverage.text());
    let native = imported.native();
    let line = "default -> respond 200 \"bye ${remote_addr} TCP\\n\";";
    assert!(native.contains(line) && native.contains("server 10.0.0.1:7"), "{native}");
    config(imported);
}

#[test]
fn directives_that_weir_lacks_say_what_to_do() {
    refuses(
        "location / { auth_request /auth; proxy_pass http://127.0.0.1:2; }",
        "auth_request",
        "forward authentication",
    );
    refuses(
        "location / { sub_filter a b; proxy_pass http://127.0.0.1:2; }",
        "sub_filter",
        "changes no bodies",
    );
    refuses("location / { mirror /m; proxy_pass http://127.0.0.1:2; }", "mirror", "sent twice");
    refuses(
        "location / { secure_link $arg_a; proxy_pass http://127.0.0.1:2; }",
        "secure_link",
        "signatures of links",
    );
    refuses("location / { dav_methods PUT; root /srv; }", "dav_methods", "`proxy_pass`");
    let refused = |contents: &str, directive: &str, expected: &str| {
        let imported = stream(&format!("server {{ listen 127.0.0.1:1; {contents} }}"));
        let (word, reason) = outcome(&imported.coverage, directive);
        assert!(word == "refused" && reason.contains(expected), "{contents}: {word} {reason}");
    };
    refused("pass 127.0.0.1:2;", "pass", "`proxy_pass` with the address");
    refused(
        "server_name a.test; proxy_pass 127.0.0.1:2;",
        "server_name",
        "`$ssl_preread_server_name`",
    );
    let keys = server("ssl_session_ticket_key /k; return 200;");
    assert_eq!(outcome(&keys.coverage, "ssl_session_ticket_key").0, "differently");
}

#[test]
fn a_server_with_ssl_on_has_tls_at_each_of_its_addresses() {
    let text = "ssl on; ssl_certificate /c; ssl_certificate_key /k; return 200;";
    let imported = server(text);
    assert_eq!(outcome(&imported.coverage, "ssl on").0, "honoured");
    assert!(config(imported).listeners.iter().all(|listener| listener.tls.is_some()));
    assert!(config(server("ssl off; return 200;")).listeners.iter().all(|one| one.tls.is_none()));
}

#[test]
fn servers_may_be_checked_against_lists_of_revoked_certificates() {
    let location = |more: &str| {
        server(&format!(
            "location / {{ proxy_pass https://127.0.0.1:2; proxy_ssl_trusted_certificate /ca; \
             proxy_ssl_crl /crl; {more} }}"
        ))
    };
    let tls = config(location("proxy_ssl_verify on;")).pools.remove(0).tls.unwrap();
    assert_eq!(tls.crl, Some("/crl".into()));
    let unverified = location("");
    assert_eq!(outcome(&unverified.coverage, "proxy_ssl_crl").0, "ignored");
    assert_eq!(config(unverified).pools.remove(0).tls.unwrap().crl, None);
}

#[test]
fn what_nginx_itself_refuses_is_refused() {
    let check = |contents: &str| {
        let imported = server(contents);
        let mut refused = imported.coverage.refused();
        assert!(refused.any(|entry| entry.outcome.reason().contains("second")), "{contents}");
    };
    check("location /a { return 200; } location /a { return 201; }");
    check("send_timeout 5s; send_timeout 6s;");
    check("location / { proxy_pass http://127.0.0.1:2; proxy_pass http://127.0.0.1:3; }");
}

#[test]
fn a_location_with_a_guard_that_weir_lacks_stays_closed() {
    for (guard, status) in [("auth_basic x;", 403), ("auth_request /x;", 403)] {
        let imported = server(&format!("location / {{ {guard} proxy_pass http://127.0.0.1:2; }}"));
        assert_eq!(outcome(&imported.coverage, "location").0, "refused", "{guard}");
        let config = config(imported);
        let action = &config.listeners[0].default[0].action;
        assert!(matches!(action, Action::Respond(respond) if respond.status == status), "{guard}");
    }
}

/// Returns the status of the first route of the only listener.
fn first_status(imported: Imported) -> Option<u16> {
    match &config(imported).listeners[0].default[0].action {
        Action::Respond(respond) => Some(respond.status),
        _ => None,
    }
}

#[test]
fn what_a_server_s_guard_protects_stays_closed() {
    let check = |contents: &str, refused: &str, status: u16| {
        let imported = server(contents);
        assert_eq!(outcome(&imported.coverage, refused).0, "refused", "{contents}");
        assert_eq!(first_status(imported), Some(status), "{contents}");
    };
    check("root /srv; auth_basic x;", "root", 403);
    check("root /srv; auth_request /check;", "root", 403);
    check("access_by_lua_file /x.lua; location / { proxy_pass http://127.0.0.1:2; }", "loc", 403);
    check("auth_ldap x; location / { proxy_pass http://127.0.0.1:2; }", "location", 403);
    check("location / { auth_ldap x; root /srv; }", "location", 403);
    // `return` answers before passwords are asked for.
    check("auth_ldap x; location / { return 204; }", "auth_ldap", 204);
    let kinds = repeated(40, |number| format!("auth_x{number} off; "));
    check(&format!("{kinds} location / {{ proxy_pass http://127.0.0.1:2; }}"), "location", 403);
}

#[test]
fn an_inner_block_opens_what_an_outer_one_guards() {
    let imported =
        server("auth_ldap x; auth_basic_user_file /x; location / { auth_ldap off; root /srv; }");
    assert_ne!(outcome(&imported.coverage, "location").0, "refused");
    assert_eq!(first_status(imported), None);
}

/// nginx checks the certificates of clients before `return`.
#[test]
fn a_server_that_wants_client_certificates_stays_closed() {
    let check = |listen: &str, guard: &str, expected: u16| {
        let text = format!(
            "http {{ server {{ listen {listen}; ssl_certificate a; ssl_certificate_key b; {guard} location / {{ return 204; }} }} }}"
        );
        let imported = nginx_text("/etc/nginx/nginx.conf", &text).unwrap();
        let route = format!("-> respond {expected}");
        assert!(imported.native().contains(&route), "{text}\n{}", imported.native());
    };
    check("127.0.0.1:1 ssl", "ssl_verify_client on;", 403);
    check("127.0.0.1:1 ssl", "ssl_verify_client optional;", 403);
    check("127.0.0.1:1 ssl", "ssl_verify_client off;", 204);
    check("127.0.0.1:1", "ssl_verify_client on;", 204);
}

#[test]
fn a_body_that_cannot_be_buffered_is_reported() {
    let check = |contents: &str, directive: &str, expected: &str| {
        let text = format!("location / {{ {contents} proxy_pass http://127.0.0.1:2; }}");
        let imported = server(&text);
        assert_eq!(outcome(&imported.coverage, directive).0, expected, "{contents}");
    };
    check("client_max_body_size 1k; proxy_request_buffering off;", "client_max", "honoured");
    check("proxy_request_buffering off;", "proxy_request_buffering", "honoured");
    check("client_max_body_size 1g;", "client_max", "differently");
}

#[test]
fn every_route_has_the_bound_on_bodies_of_its_location() {
    let imported = server(
        "client_max_body_size 8m; if ($host = x) { return 400; }
        location / { return 200 a; } location = /a { return 200 a; } location /a { return 200 a; } location /b { client_max_body_size 1g; return 200 b; }
        location /c { client_max_body_size 0; return 200 c; }",
    );
    let native = imported.native();
    let config = config(imported);
    let listener = &config.listeners[0];
    assert_eq!(listener.limits.body_bytes, Some(8 << 20));
    let bounds = listener.default.iter().map(|route| route.body);
    let own: Vec<RouteSize> = bounds.filter(|bound| !bound.is_inherited()).collect();
    let expected = [RouteSize::Off, RouteSize::UpTo(1 << 30), RouteSize::Off];
    assert_eq!((own.as_slice(), listener.default.len()), (&expected[..], 6), "{native}");
}

/// Returns the outcomes of a setting in the default server and in another one.
fn two_servers(first: &str, second: &str, name: &str) -> Vec<&'static str> {
    let text = format!(
        "http {{ send_timeout 30s; server {{ listen 127.0.0.1:1; server_name a; {first} return 204; }}
        server {{ listen 127.0.0.1:1; server_name b; {second} return 204; }} }}"
    );
    let coverage = nginx_text("/etc/nginx/nginx.conf", &text).unwrap().coverage;
    let found = coverage.entries.iter().filter(|entry| entry.directive.starts_with(name));
    found.map(|entry| entry.outcome.word()).collect()
}

#[test]
fn settings_of_a_listener_are_those_of_all_its_servers() {
    let check = |first: &str, second: &str, name: &str, expected: &[&str]| {
        assert_eq!(two_servers(first, second, name), expected, "{first} {second}");
    };
    check("keepalive_timeout 5s;", "keepalive_timeout 5s;", "keepalive", &["honoured"; 2]);
    check("keepalive_timeout 5s;", "", "keepalive", &["differently"]);
    check("", "keepalive_timeout 5s;", "keepalive", &["differently"]);
    check("client_body_timeout 5s;", "", "client_body", &["differently"]);
    check("send_timeout 30s;", "", "send_timeout", &["honoured"; 2]);
    check("send_timeout 5s;", "", "send_timeout", &["ignored", "differently"]);
    check("", "send_timeout 5s;", "send_timeout", &["honoured", "differently"]);
    // They hold before nginx knows the server.
    check("client_header_timeout 5s;", "", "client_header", &["honoured"]);
    check("", "client_header_timeout 5s;", "client_header", &["differently"]);
    check("", "underscores_in_headers on;", "underscores", &["refused"]);
}

#[test]
fn what_has_no_effect_is_no_silent_difference() {
    let check = |contents: &str, expected: &str| {
        let text = format!("{contents}; location / {{ return 204; }}");
        let imported = server(&text);
        assert_eq!(outcome(&imported.coverage, contents).0, expected, "{contents}");
    };
    check("ssl_conf_command Options KTLS", "ignored");
    check("ssl_conf_command Options -SessionTicket", "differently");
    check("ssl_conf_command Options KTLS,PrioritizeChaCha", "differently");
    check("proxy_ssl_conf_command Options PrioritizeChaCha", "ignored");
    check("ssl_conf_command MinProtocol TLSv1.3", "refused");
    check("ssl_session_tickets off", "differently");
    check("ssl_session_tickets on", "ignored");
    check("ssl_session_cache none", "differently");
    check("ssl_session_cache shared:SSL:10m", "ignored");
    check("etag off", "differently");
    check("if_modified_since before", "differently");
    check("if_modified_since exact", "ignored");
    let check = |contents: &str, expected: &str| {
        let text = format!("{contents}; location / {{ proxy_pass http://127.0.0.1:2; }}");
        let imported = server(&text);
        assert_eq!(outcome(&imported.coverage, contents).0, expected, "{contents}");
    };
    check("charset utf-8", "differently");
    check("charset off", "honoured");
    let upstream = "http { upstream a { server b; check interval=3000; } }";
    let coverage = nginx_text("/etc/nginx/nginx.conf", upstream).unwrap().coverage;
    assert_eq!(outcome(&coverage, "check interval").0, "refused");
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
fn import_anything(text: &str) {
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

/// Returns the texts for these numbers, one after the other.
fn repeated(count: usize, text: impl Fn(usize) -> String) -> String {
    (0..count).map(text).collect::<Vec<_>>().concat()
}

#[test]
fn the_page_of_directives_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/nginx-directives.md");
    let page = weir_import::reference();
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let current = std::fs::read_to_string(&path).unwrap();
    assert!(current == page, "docs/nginx-directives.md is not current: run with WEIR_BLESS=1");
}

#[test]
fn workers_have_the_cores_of_the_masks() {
    let check = |lines: &str, expected: &str, word: &str| {
        let text = format!(
            "{lines}\nevents {{ worker_connections 700; }}\nhttp {{ server {{ listen 127.0.0.1:1; }} }}"
        );
        let imported = nginx_text("/etc/nginx/nginx.conf", &text).unwrap();
        let (found, reason) = outcome(&imported.coverage, "worker_cpu_affinity");
        assert_eq!(found, word, "{lines}: {reason}");
        let config = config(imported);
        let cores = config.worker_cores.as_ref().map(ToString::to_string);
        assert_eq!(cores.unwrap_or_default(), expected, "{lines}");
        assert_eq!((config.worker_connections, config.count_server_connections), (Some(700), true));
    };
    check("worker_processes auto; worker_cpu_affinity auto;", "", "honoured");
    check("worker_processes auto; worker_cpu_affinity auto 1111;", "0-3", "differently");
    check("worker_processes 8; worker_cpu_affinity auto 10110;", "1-2,4", "honoured");
    check("worker_processes 2; worker_cpu_affinity 0001 0010 0100 1000;", "0-1", "honoured");
    check("worker_cpu_affinity 0101 1010;", "0+2", "honoured");
    check("worker_processes 4; worker_cpu_affinity 01 10;", "0-1,1,1", "honoured");
    for wrong in ["0", "auto 00", "2", "auto 1 1", "01 xx"] {
        check(&format!("worker_cpu_affinity {wrong};"), "", "refused");
    }
    check(&format!("worker_cpu_affinity auto {};", "1".repeat(1025)), "", "refused");
}

#[test]
fn buffers_of_logs_are_those_of_the_file() {
    let buffer = |line: &str| {
        let imported = server(line);
        let reason = outcome(&imported.coverage, "access_log");
        let found = format!("{} {}", reason.0, reason.1);
        let log = config(imported).logs.first().and_then(|log| log.buffer);
        let log = log.map(|log| (log.bytes, log.flush.map(|time| time.as_millis())));
        (log, found)
    };
    let check = |line: &str, expected| assert_eq!(buffer(line).0, expected, "{line}");
    check("access_log /l combined;", None);
    check("access_log /l combined buffer=32k flush=5s;", Some((32 << 10, Some(5000))));
    check("access_log /l combined flush=1m buffer=1m;", Some((1 << 20, Some(60_000))));
    check("access_log /l combined buffer=100;", Some((1024, None)));
    let refused = |line: &str, expected: &str| {
        let found = buffer(line).1;
        assert!(found.starts_with("refused") && found.contains(expected), "{line}: {found}");
    };
    refused("access_log /l combined gzip;", "compress the file");
    refused("access_log /l combined gzip=4 flush=5m;", "compress the file");
    refused("access_log /l combined flush=5s;", "needs `buffer=`");
    refused("access_log /l combined buffer=1g;", "up to 64m");
    refused("access_log /l combined buffer=4k flush=0;", "not a time");
    refused("access_log syslog:server=127.0.0.1 combined buffer=4k;", "not buffered");
}

/// `nginx/documented.txt` has the names of nginx's own index of directives.
#[test]
fn every_documented_directive_is_known() {
    let names = include_str!("nginx/documented.txt");
    assert!(names.lines().count() > 597);
    // A file that `include` names must exist.
    for name in names.lines().filter(|name| *name != "include") {
        let imported = server(&format!("{name} x;"));
        let (_, reason) = outcome(&imported.coverage, &format!("{name} x"));
        assert!(!reason.contains("not known"), "{name}");
        // It says why, and what to do.
        assert!(!reason.contains("it has no counterpart:"), "{name}: {reason}");
    }
    let (word, _) = outcome(&server("fastcgi_buffers 8 16k;").coverage, "fastcgi_buffers");
    assert_eq!(word, "ignored");
    let used = server("location / { fastcgi_pass 127.0.0.1:9; fastcgi_cache x; }");
    assert_eq!(outcome(&used.coverage, "fastcgi_cache").0, "refused");
    assert_eq!(outcome(&server("made_up x;").coverage, "made_up").0, "refused");
    assert_eq!(outcome(&server("ssl_ocsp_responder x;").coverage, "ssl_ocsp").0, "refused");
}

#[test]
fn every_documented_variable_is_known() {
    let list = include_str!("nginx/documented_variables.txt");
    assert!(list.lines().count() > 230);
    let page = weir_import::reference();
    for line in list.lines() {
        let (part, name) = line.split_once(": ").unwrap();
        let (text, log) = match part {
            "http" => (
                server(&format!(
                    "location / {{ root /x; add_header X-A \"a${{{name}}}\"; }}
                     location /p {{ proxy_pass http://127.0.0.1:2; add_header X-A \"b${{{name}}}\"; }}"
                )),
                nginx_text(
                    "/etc/nginx/nginx.conf",
                    &format!(
                        "events {{}} http {{ log_format x \"$msec ${{{name}}}\"; access_log /x x;
                         server {{ listen 127.0.0.1:1; location / {{ root /x; }} }} }}"
                    ),
                )
                .unwrap(),
            ),
            _ => (
                stream(&format!("server {{ listen 127.0.0.1:1; return \"a${{{name}}}\"; }}")),
                stream(&format!(
                    "log_format x \"$msec ${{{name}}}\"; access_log /x x;
                     server {{ listen 127.0.0.1:1; proxy_pass 127.0.0.1:2; }}"
                )),
            ),
        };
        let directive = if part == "http" { "add_header" } else { "return" };
        let in_texts = outcome(&text.coverage, directive);
        let in_lines = outcome(&log.coverage, "log_format");
        // The effect is the one that the page says.
        let row = |name: &str| page.lines().find(|row| row.starts_with(&format!("| `${name}` |")));
        let starts = (0..name.len()).rev().filter(|end| name[..*end].ends_with('_'));
        let mut rows = starts.map(|end| format!("{}NAME", &name[..end]));
        let own = row(name).or_else(|| rows.find_map(|name| row(&name)));
        let own = own.unwrap_or_else(|| panic!("{name} is not in the page"));
        let is_in = |(word, reason): (&str, &str)| {
            let shown = if word == "refused" { "refused" } else { "taken" };
            assert!(shown == "taken" || reason.contains(name), "{line}: {reason}");
            assert!(!reason.contains("Weir has no variable"), "{line}: {reason}");
            shown == "taken"
        };
        let found = (is_in(in_texts), is_in(in_lines));
        // These have a value where a listener expects no header of the PROXY protocol.
        let is_empty = name.starts_with("proxy_protocol_") && !name.contains("tlv");
        let expected = match () {
            () if own.contains("| converted |") || is_empty => (true, true),
            // In `stream` they are known as the connection goes on.
            () if own.contains("| in logs |") => (part == "stream", true),
            () => (false, false),
        };
        assert_eq!(found, expected, "{line}: {in_texts:?} {in_lines:?}");
    }
    let made_up = server("location / { return 200 $made_up; }");
    let (word, reason) = outcome(&made_up.coverage, "return");
    assert!(word == "refused" && reason.contains("Weir has no variable `$made_up`"));
}

#[test]
fn the_version_of_a_client_is_a_map_of_its_protocol() {
    let imported = server("location / { return 200 \"$http2\"; }");
    let native = imported.native();
    for line in ["map \"${server_protocol} ${scheme}\" $nginx_http2", "\"HTTP/2.0 https\" h2;"] {
        assert!(native.contains(line), "{line} in\n{native}");
    }
    config(imported);
}

#[test]
fn http2_is_spoken_where_nginx_speaks_it() {
    let tls = "ssl_certificate /c.pem; ssl_certificate_key /k.pem;";
    for (listen, mode, streams) in [
        ("listen 127.0.0.1:1;", Http2Mode::Off, 128),
        ("listen 127.0.0.1:1 ssl;", Http2Mode::Off, 128),
        ("listen 127.0.0.1:1 ssl http2;", Http2Mode::On, 128),
        ("listen 127.0.0.1:1 ssl; http2 on;", Http2Mode::On, 128),
        ("listen 127.0.0.1:1; http2 on; http2_max_concurrent_streams 30;", Http2Mode::On, 30),
    ] {
        let text = format!(
            "events {{}}\nhttp {{ server {{ {listen} {tls} location / {{ return 204; }} }} }}"
        );
        let config = config(nginx_text("/etc/nginx/nginx.conf", &text).unwrap());
        let listener = &config.listeners[0];
        assert_eq!((listener.http2_mode(), listener.http2.streams), (mode, streams), "{listen}");
    }
}

#[test]
fn servers_of_grpc_are_asked_in_http2() {
    let imported = server(
        "grpc_read_timeout 7s; grpc_ssl_verify off;
         location / { grpc_pass grpc://127.0.0.1:2; grpc_set_header X-A b; grpc_buffer_size 8k; }
         location /tls { grpc_pass grpcs://127.0.0.1:2; grpc_bind 127.0.0.2; }
         location /http { proxy_pass http://127.0.0.1:2; }",
    );
    assert_eq!(imported.coverage.refused().count(), 0, "{}", imported.coverage.text());
    let config = config(imported);
    let mut pools: Vec<_> =
        config.pools.iter().map(|pool| (pool.http, pool.tls.is_some())).collect();
    pools.sort_by_key(|(http, tls)| (http.as_str(), *tls));
    let expected =
        [(UpstreamHttp::Http1, false), (UpstreamHttp::Http2, false), (UpstreamHttp::Http2, true)];
    assert_eq!(pools, expected);
    // Settings of `proxy_pass` do not hold for servers of gRPC, nor the other way round.
    let of_grpc = config.pools.iter().filter(|pool| pool.http == UpstreamHttp::Http2);
    assert!(of_grpc.clone().all(|pool| pool.timeouts.read == Duration::from_secs(7)));
    assert!(of_grpc.clone().all(|pool| pool.buffer_request.is_none()));
    let other = server(
        "proxy_read_timeout 7s; location / { grpc_pass grpc://127.0.0.1:2; grpc_ssl_name x; }",
    );
    assert_eq!(outcome(&other.coverage, "proxy_read_timeout").0, "ignored");
    assert_eq!(outcome(&other.coverage, "grpc_ssl_name").0, "ignored");
    for (contents, directive, reason) in [
        ("location / { grpc_pass grpc://app; }", "grpc_pass", "without a port"),
        ("location / { grpc_pass grpc://a:1/x; }", "grpc_pass", "without a path"),
        (
            "location / { proxy_pass http://a:1; grpc_pass grpc://a:1; }",
            "grpc_pass",
            "one protocol",
        ),
        ("location / { grpc_pass a:1; grpc_ssl_key_log /x; }", "grpc_ssl_key_log", "keys"),
    ] {
        let imported = server(contents);
        let (word, found) = outcome(&imported.coverage, directive);
        assert!(word == "refused" && found.contains(reason), "{contents}: {word} {found}");
    }
}

#[test]
fn proxy_http_version_2_is_that_of_the_pool() {
    for (version, http, word) in [
        ("1.0", UpstreamHttp::Http1, "differently"),
        ("1.1", UpstreamHttp::Http1, "honoured"),
        ("2", UpstreamHttp::Http2, "differently"),
        ("3", UpstreamHttp::Http1, "refused"),
    ] {
        let imported = server(&format!(
            "location / {{ proxy_http_version {version}; proxy_pass http://127.0.0.1:2; }}"
        ));
        assert_eq!(outcome(&imported.coverage, "proxy_http_version").0, word, "{version}");
        if word != "refused" {
            assert_eq!(config(imported).pools[0].http, http, "{version}");
        }
    }
}

#[test]
fn a_named_location_may_say_that_it_is_internal() {
    let imported = server(
        "location / { return 404; error_page 404 @gone; } location @gone { internal; return 410; }",
    );
    assert_eq!(imported.coverage.refused().count(), 0, "{}", imported.coverage.text());
}

#[test]
fn a_name_that_another_server_has_stays_with_the_first() {
    let text = "http { server { listen 127.0.0.1:1; server_name a.test b.test; return 200 one; }
        server { listen 127.0.0.1:1; server_name A.test c.test; return 200 two; }
        server { listen 127.0.0.1:1; server_name _; return 200 three; }
        server { listen 127.0.0.1:1; server_name _; return 200 four; } }";
    let imported = nginx_text("/n.conf", text).unwrap();
    let (kind, reason) = outcome(&imported.coverage, "server_name A.test");
    assert_eq!(kind, "differently");
    assert!(reason.contains("a server before it has `A.test`"), "{reason}");
    let native = imported.native();
    imported.check().unwrap();
    assert_eq!(
        native.matches("host \"a.test\"").count() + native.matches("host a.test").count(),
        1
    );
    assert!(native.contains("c.test"), "{native}");
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

#[test]
fn a_rate_that_is_set_is_refused() {
    for text in ["set $limit_rate 10k;", "if ($arg_slow) { set $limit_rate 10k; }"] {
        let text = format!(
            "http {{ server {{ listen 127.0.0.1:1; location / {{ {text} return 200; }} }} }}"
        );
        let imported = nginx_text("/n.conf", &text).unwrap();
        let (kind, reason) = outcome(&imported.coverage, "set $limit_rate");
        assert_eq!(kind, "refused");
        assert!(reason.contains("write `limit_rate`"), "{reason}");
    }
}
