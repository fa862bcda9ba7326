//! The lints about files of other programs, and the page of all lints.

use std::path::Path;

use weir_config::lint;
use weir_import::{lints_page, nginx_lints, nginx_text};

/// Returns the code, the line and the message of each lint.
fn found(text: &str) -> Vec<(&'static str, usize, String)> {
    let imported =
        nginx_text("/etc/nginx/nginx.conf", text).unwrap_or_else(|error| panic!("{error}"));
    let checked = imported.check().unwrap_or_else(|error| panic!("{error}\n{text}"));
    let found = lint(&checked);
    let line = |lint: &weir_config::Diagnostic| {
        let line = found.sources().position(lint.span.unwrap()).line;
        lint.code.map(|code| (code, line, lint.message.clone()))
    };
    found.iter().filter_map(line).collect()
}

fn codes(text: &str) -> Vec<&'static str> {
    found(text).into_iter().map(|(code, ..)| code).collect()
}

#[test]
fn each_lint_finds_its_example_and_not_the_better_one() {
    for lint in nginx_lints() {
        assert!(
            codes(lint.example).contains(&lint.code),
            "{}: {:?}",
            lint.code,
            found(lint.example)
        );
        assert!(
            !codes(lint.better).contains(&lint.code),
            "{}: {:?}",
            lint.code,
            found(lint.better)
        );
    }
}

fn server(contents: &str) -> String {
    format!("events {{}}\nhttp {{\nserver {{\nlisten 127.0.0.1:80;\n{contents}\n}}\n}}\n")
}

#[test]
fn lints_name_the_place_in_the_nginx_file() {
    let text = server("location /a { proxy_pass http://127.0.0.1:1/b/; }");
    let lint =
        found(&text).into_iter().find(|(code, ..)| *code == "proxy-pass-drops-path").unwrap();
    assert_eq!((lint.1, lint.2.as_str()), (5, "`/a/users` is sent as `/b//users`"));
    let text = server(
        "location /api/ { proxy_pass http://127.0.0.1:1; }\nlocation /api/ad { deny all; allow 10.0.0.0/8; proxy_pass http://127.0.0.1:1; }",
    );
    let lint =
        found(&text).into_iter().find(|(code, ..)| *code == "unreachable-access-rule").unwrap();
    assert_eq!(lint.1, 6, "a lint of the conversion has the place of the directive");
}

#[test]
fn lints_of_nginx_files_are_silenced_by_comments() {
    let text = server(
        "location /a {\n# weir: allow proxy-pass-drops-path\nproxy_pass http://127.0.0.1:1/b/; }",
    );
    assert!(!codes(&text).contains(&"proxy-pass-drops-path"), "{:?}", found(&text));
}

#[test]
fn broken_ciphers_and_headers_of_a_connection_are_found() {
    let check = |line: &str, code: &str, expected: bool| {
        let text = server(&format!("{line}\nlocation / {{ proxy_pass http://127.0.0.1:1; }}"));
        assert_eq!(codes(&text).contains(&code), expected, "{line}: {:?}", found(&text));
    };
    check("ssl_protocols TLSv1 TLSv1.2;", "weak-tls", true);
    check("ssl_protocols TLSv1.2 TLSv1.3;", "weak-tls", false);
    check("ssl_ciphers HIGH:ECDHE-RSA-RC4-SHA;", "weak-tls", true);
    check("ssl_ciphers HIGH:!aNULL:!MD5;", "weak-tls", false);
    check("proxy_set_header Connection upgrade;", "hop-by-hop-header", true);
    check("proxy_set_header Connection \"\";", "hop-by-hop-header", false);
    check("proxy_set_header TE trailers;", "hop-by-hop-header", true);
}

/// nginx's own order of precedence makes no route that another one hides.
#[test]
fn locations_in_any_order_hide_nothing() {
    let text = server(
        "location / { return 200 a; }\nlocation /a { return 200 b; }\nlocation /a/b/ { return 200 c; }\nlocation = /a { return 200 d; }\nlocation ~ \\.php$ { return 200 e; }\nlocation ^~ /s/ { return 200 f; }\nlocation /s/t { return 200 g; }",
    );
    assert!(!codes(&text).contains(&"unreachable-route"), "{:?}", found(&text));
}

#[test]
fn the_page_of_lints_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lints.md");
    let page = lints_page();
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), page, "WEIR_BLESS=1 writes it anew");
}
