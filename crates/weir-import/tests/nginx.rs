//! The nginx front end from outside: the report, directives and their refusals, the native form.

use std::path::Path;

use weir_config::Config;
use weir_import::{Coverage, CoverageTotals, Imported, nginx_file, nginx_text};

#[path = "nginx/bad_input.rs"]
mod bad_input;
#[path = "nginx/documented.rs"]
mod documented;
#[path = "nginx/guards.rs"]
mod guards;
#[path = "nginx/locations.rs"]
mod locations;
#[path = "nginx/protocols.rs"]
mod protocols;
#[path = "nginx/streams.rs"]
mod streams;

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

/// Imports a file with this `stream`.
fn stream(contents: &str) -> Imported {
    let text = format!("events {{}}\nstream {{ {contents} }}");
    nginx_text("/etc/nginx/nginx.conf", &text).unwrap()
}

/// Returns the texts for these numbers, one after the other.
fn repeated(count: usize, text: impl Fn(usize) -> String) -> String {
    (0..count).map(text).collect::<Vec<_>>().concat()
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
