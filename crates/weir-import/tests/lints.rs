//! The lints about files of other programs, and the page of all lints.

use std::path::Path;

use weir_config::lint;
use weir_import::{
    HaproxyVersion, Imported, Language, foreign_words, haproxy_bytes, haproxy_lints, lints_page,
    nginx_lints, nginx_text,
};

/// Returns the code, the line and the message of each lint.
fn found(text: &str) -> Vec<(&'static str, usize, String)> {
    found_in(nginx_text("/etc/nginx/nginx.conf", text).unwrap_or_else(|error| panic!("{error}")))
        .into_iter()
        .map(|(code, line, message, _)| (code, line, message))
        .collect()
}

fn haproxy(text: &str) -> Vec<(&'static str, usize, String, String)> {
    let name = "/etc/haproxy/haproxy.cfg";
    let imported = haproxy_bytes(name, text.as_bytes(), HaproxyVersion::LATEST);
    found_in(imported.unwrap_or_else(|error| panic!("{error}")))
}

/// Returns the code, the line, the message and the proposal of each lint.
fn found_in(imported: Imported) -> Vec<(&'static str, usize, String, String)> {
    let text = imported.native();
    let checked = imported.check().unwrap_or_else(|error| panic!("{error}\n{text}"));
    let found = lint(&checked);
    let line = |lint: &weir_config::Diagnostic| {
        let line = found.sources().position(lint.span.unwrap()).line;
        lint.code.map(|code| (code, line, lint.message.clone(), lint.help.join(" ")))
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

#[test]
fn each_lint_of_haproxy_finds_its_example_and_not_the_better_one() {
    for lint in haproxy_lints() {
        let codes = |text: &str| -> Vec<&str> {
            haproxy(text).into_iter().map(|(code, ..)| code).collect()
        };
        assert!(
            codes(lint.example).contains(&lint.code),
            "{}: {:?}",
            lint.code,
            codes(lint.example)
        );
        assert!(
            !codes(lint.better).contains(&lint.code),
            "{}: {:?}",
            lint.code,
            codes(lint.better)
        );
    }
}

#[test]
fn headers_of_a_connection_in_rules_are_found() {
    let check = |rule: &str, expected: Option<&str>| {
        let text =
            format!("listen web\n mode http\n bind 127.0.0.1:80\n {rule}\n server a 127.0.0.1:1\n");
        let lints = haproxy(&text);
        let found = lints.iter().find(|(code, ..)| *code == "hop-by-hop-header");
        match (found, expected) {
            (Some((.., help)), Some(words)) => assert!(help.contains(words), "{rule}: {help}"),
            (found, expected) => assert_eq!(found.is_some(), expected.is_some(), "{rule}"),
        }
    };
    check("http-request set-header Connection close", Some("http-server-close"));
    check("http-response set-header Connection close", Some("option httpclose"));
    check("http-after-response add-header connection close", Some("option httpclose"));
    check("http-request set-header TE trailers", Some("remove"));
    check("http-request del-header Connection", None);
    check("http-request set-header X-Connection close", None);
}

#[test]
fn proposals_name_the_options_of_the_program_that_the_file_is_for() {
    let text = "listen web\n mode http\n bind 127.0.0.1:80\n option httpclose\n retry-on response-timeout 503\n\
         timeout connect 5s\n server a 127.0.0.1:1\n server b 127.0.0.1:2\n";
    let lints = haproxy(text);
    let help = |code: &str| {
        let lint = lints.iter().find(|(found, ..)| *found == code);
        lint.map_or_else(|| panic!("{code}: {lints:?}"), |(.., help)| help.as_str())
    };
    assert!(help("retry-without-budget").contains("retry-on"));
    assert!(help("retry-repeats-effects").contains("disable-l7-retry"));
    assert!(help("no-health-check").contains("`check` behind each `server`"));
    assert!(help("no-keepalive").contains("option httpclose"));
    assert!(help("missing-timeout").contains("`timeout server`"));
    for (code, _, message, help) in &lints {
        for native in ["budget=", "passive", "keepalive", "response=", "non_idempotent", "limits"] {
            assert!(
                !message.contains(native) && !help.contains(native),
                "{code}: {message}: {help}"
            );
        }
    }
    let text = "events {}\nhttp {\nserver { listen 127.0.0.1:80; keepalive_requests 5; location / { proxy_pass http://127.0.0.1:1; proxy_read_timeout 2h; } }\n}\n";
    let lints = found_in(nginx_text("/etc/nginx/nginx.conf", text).unwrap());
    let few = lints.iter().find(|(code, ..)| *code == "few-requests-per-connection").unwrap();
    assert_eq!(few.3, "raise `keepalive_requests`");
    let slow = lints.iter().find(|(code, ..)| *code == "missing-timeout").unwrap();
    assert!(slow.2.contains("`proxy_read_timeout`"), "{slow:?}");
}

#[test]
fn each_lint_has_words_for_other_programs_unless_their_files_cannot_lead_to_it() {
    /// Lints about what no file of another program becomes.
    const NATIVE_ONLY: [&str; 4] =
        ["unused-definition", "unreachable-host", "forwarded-by-hand", "named-route-too-late"];
    const NOT_OF_HAPROXY: [&str; 4] =
        ["trusts-everyone", "allow-without-deny", "unreachable-access-rule", "forgeable-key"];
    for (language, without) in [(Language::Nginx, &[][..]), (Language::Haproxy, &NOT_OF_HAPROXY)] {
        let words = foreign_words(language);
        for lint in weir_config::lints::LINTS {
            let has = words.iter().any(|row| row.code == lint.code);
            let native = NATIVE_ONLY.contains(&lint.code) || without.contains(&lint.code);
            assert_eq!(has, !native, "{language:?}: {}", lint.code);
        }
    }
}

#[test]
fn broken_tls_in_a_file_of_haproxy_is_found() {
    let text = "global\n ssl-default-bind-options ssl-min-ver TLSv1.0\n ssl-default-bind-ciphers ECDHE-RSA-AES128-GCM-SHA256:RC4-SHA:!MD5\nlisten web\n mode http\n bind 127.0.0.1:80\n server a 127.0.0.1:1\n";
    let lines: Vec<usize> = haproxy(text)
        .into_iter()
        .filter(|(code, ..)| *code == "weak-tls")
        .map(|(_, line, ..)| line)
        .collect();
    assert_eq!(lines, [2, 3]);
}
