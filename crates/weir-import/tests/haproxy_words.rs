//! Every word of HAProxy's manual, in a line of its own with arguments that it takes: each has an
//! outcome. `haproxy/words.report` has the outcomes as they are; `WEIR_BLESS=1` writes it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use weir_import::{HaproxyVersion, haproxy_bytes};

/// The arguments of words, by the place where they stand. Other words stand alone.
const ARGUMENTS: &[(&str, &[(&str, &str)])] = &[
    (
        "section",
        &[
            ("frontend", "x\n bind 127.0.0.1:3"),
            ("backend", "x\n server s 127.0.0.1:4"),
            ("listen", "x\n bind 127.0.0.1:3\n server s 127.0.0.1:4"),
            ("peers", "x"),
            ("cache", "x"),
            ("resolvers", "x\n nameserver a 127.0.0.1:53"),
            ("userlist", "x"),
            ("ring", "x"),
            ("program", "x"),
            ("mailers", "x"),
            ("http-errors", "x"),
            ("log-forward", "x"),
            ("log-profile", "x"),
            ("fcgi-app", "x"),
        ],
    ),
    (
        "bind",
        &[
            ("alpn", "http/1.1"),
            ("backlog", "100"),
            ("ciphers", "ECDHE+AESGCM"),
            ("ciphersuites", "TLS_AES_128_GCM_SHA256"),
            ("curves", "X25519:P-256"),
            ("ecdhe", "secp384r1"),
            ("crt", "/etc/site.pem"),
            ("gid", "1"),
            ("group", "www"),
            ("guid-prefix", "x"),
            ("id", "7"),
            ("interface", "lo"),
            ("level", "user"),
            ("maxconn", "10"),
            ("mode", "600"),
            ("name", "x"),
            ("nice", "1"),
            ("proto", "h1"),
            ("ssl-max-ver", "TLSv1.3"),
            ("ssl-min-ver", "TLSv1.2"),
            ("tcp-ut", "1s"),
            ("thread", "1"),
            ("uid", "1"),
            ("user", "www"),
            ("verify", "none"),
        ],
    ),
    (
        "server",
        &[
            ("addr", "127.0.0.3"),
            ("alpn", "http/1.1"),
            ("check-alpn", "http/1.1"),
            ("ciphers", "ECDHE+AESGCM"),
            ("ciphersuites", "TLS_AES_128_GCM_SHA256"),
            ("curves", "X25519:P-256"),
            ("check-proto", "h1"),
            ("cookie", "a"),
            ("downinter", "1s"),
            ("error-limit", "3"),
            ("fall", "3"),
            ("fastinter", "1s"),
            ("id", "3"),
            ("init-addr", "last,libc"),
            ("inter", "1s"),
            ("max-reuse", "10"),
            ("maxconn", "10"),
            ("maxqueue", "10"),
            ("minconn", "5"),
            ("observe", "layer4"),
            ("on-error", "mark-down"),
            ("pool-low-conn", "1"),
            ("pool-max-conn", "10"),
            ("pool-purge-delay", "5s"),
            ("port", "81"),
            ("proto", "h1"),
            ("resolvers", "x"),
            ("rise", "2"),
            ("slowstart", "5s"),
            ("sni", "str(a.test)"),
            ("verify", "none"),
            ("weight", "10"),
            ("ws", "auto"),
        ],
    ),
    (
        "defaults",
        &[
            ("http-after-response", "set-header X a"),
            ("http-request", "set-header X a"),
            ("http-response", "set-header X a"),
            ("http-reuse", "safe"),
            ("balance", "leastconn"),
            ("cookie", "SRV insert indirect nocache"),
            ("email-alert", "level info"),
            ("errorfile", "503 /etc/503.http"),
            ("fullconn", "100"),
            ("hash-type", "consistent"),
            ("http-error", "status 503"),
            ("id", "7"),
            ("log", "127.0.0.1:514 local0"),
            ("log-format", "%ci"),
            ("maxconn", "10"),
            ("mode", "http"),
            ("retries", "2"),
            ("retry-on", "conn-failure"),
            ("unique-id-format", "%[uuid()]"),
            ("unique-id-header", "X-Id"),
        ],
    ),
    (
        "frontend",
        &[
            ("acl", "a path /a"),
            ("bind", "127.0.0.1:5"),
            ("monitor-uri", "/up"),
            ("redirect", "location /a"),
            ("use_backend", "f if TRUE"),
        ],
    ),
    (
        "backend",
        &[
            ("server", "b 127.0.0.1:6"),
            ("server-template", "b 3 a.test:80"),
            ("use-server", "a if TRUE"),
        ],
    ),
    (
        "global",
        &[
            ("chroot", "/var/empty"),
            ("cpu-map", "auto:1/1-2 0-1"),
            ("gid", "1"),
            ("group", "www"),
            ("hard-stop-after", "30s"),
            ("log", "127.0.0.1:514 local0"),
            ("maxconn", "1000"),
            ("nbproc", "1"),
            ("nbthread", "2"),
            ("pidfile", "/run/h.pid"),
            ("spread-checks", "5"),
            ("ssl-default-bind-ciphers", "ECDHE+AESGCM"),
            ("ssl-default-bind-ciphersuites", "TLS_AES_128_GCM_SHA256"),
            ("ssl-default-bind-curves", "X25519"),
            ("ssl-default-server-ciphers", "ECDHE+AESGCM"),
            ("ssl-default-server-ciphersuites", "TLS_AES_128_GCM_SHA256"),
            ("ssl-default-server-curves", "X25519"),
            ("set-var", "proc.a str(b)"),
            ("user", "www"),
        ],
    ),
    ("capture *", &[("cookie", "SID len 10")]),
    ("persist *", &[("rdp-cookie", "(msts)")]),
    ("rate-limit *", &[("sessions", "10")]),
    ("declare *", &[("capture", "request len 10")]),
    (
        "tcp-request *",
        &[
            ("connection", "accept"),
            ("content", "accept"),
            ("inspect-delay", "1s"),
            ("session", "accept"),
        ],
    ),
    ("tcp-response *", &[("content", "accept"), ("inspect-delay", "1s")]),
    (
        "converter",
        &[
            ("add", "(1)"),
            ("and", "(1)"),
            ("bytes", "(1)"),
            ("concat", "(a)"),
            ("digest", "(sha256)"),
            ("div", "(2)"),
            ("field", "(1,/)"),
            ("hmac", "(sha256,YWJj)"),
            ("iif", "(a,b)"),
            ("ipmask", "(24)"),
            ("ltrim", "(a)"),
            ("mod", "(2)"),
            ("mul", "(2)"),
            ("or", "(1)"),
            ("regsub", "(a,b)"),
            ("rtrim", "(a)"),
            ("sub", "(1)"),
            ("word", "(1,/)"),
            ("xor", "(1)"),
        ],
    ),
    ("option *", &[("httpchk", "GET /up"), ("pgsql-check", "user x"), ("smtpchk", "EHLO a.test")]),
    (
        "timeout *",
        &[
            ("check", "1s"),
            ("client", "1s"),
            ("client-fin", "1s"),
            ("client-hs", "1s"),
            ("connect", "1s"),
            ("http-keep-alive", "1s"),
            ("http-request", "1s"),
            ("queue", "1s"),
            ("server", "1s"),
            ("server-fin", "1s"),
            ("tarpit", "1s"),
            ("tunnel", "1s"),
        ],
    ),
    (
        "http-request",
        &[
            ("add-header", "X a"),
            ("set-header", "X a"),
            ("del-header", "X"),
            ("replace-header", "X a b"),
            ("replace-value", "X a b"),
            ("replace-path", "/a /b"),
            ("replace-pathq", "/a /b"),
            ("replace-uri", "/a /b"),
            ("set-path", "/a"),
            ("set-pathq", "/a?b"),
            ("set-query", "a=b"),
            ("set-uri", "/a"),
            ("set-method", "GET"),
            ("redirect", "location /a"),
            ("return", "status 200"),
            ("set-var", "(txn.a) path"),
            ("capture", "req.hdr(x) len 10"),
            ("set-timeout", "server 5s"),
            ("set-var-fmt", "(txn.a) %ci"),
            ("unset-var", "(txn.a)"),
            ("set-src", "req.hdr(x)"),
        ],
    ),
    (
        "http-response",
        &[
            ("add-header", "X a"),
            ("set-header", "X a"),
            ("del-header", "X"),
            ("replace-header", "X a b"),
            ("replace-value", "X a b"),
            ("set-status", "404"),
            ("redirect", "location /a"),
            ("return", "status 200"),
            ("capture", "res.hdr(x) len 10"),
            ("set-var", "(txn.a) status"),
            ("set-var-fmt", "(txn.a) %ci"),
            ("unset-var", "(txn.a)"),
        ],
    ),
];

/// Returns a file with the word, and the beginning of its line.
fn file(place: &str, word: &str) -> (String, String) {
    let arguments = ARGUMENTS.iter().find(|(own, _)| *own == place).map(|(_, list)| *list);
    let arguments = arguments.unwrap_or_default().iter().find(|(own, _)| *own == word);
    let arguments = arguments.map_or("", |(_, text)| *text);
    // The arguments in brackets follow at once.
    let space = if arguments.starts_with('(') { "" } else { " " };
    let words = format!("{word}{space}{arguments}");
    let defaults =
        "defaults\n mode http\n timeout client 1s\n timeout connect 1s\n timeout server 1s\n";
    let listen = |bind: &str, server: &str, line: &str| {
        format!("listen f\n bind 127.0.0.1:1 {bind}\n{line}\n server a 127.0.0.1:2 {server}\n")
    };
    let plain = listen("", "", "");
    let whole = |text: String| format!("{defaults}{text}");
    match place {
        "section" => (format!("{}{words}\n", whole(plain)), word.to_owned()),
        "global" => (format!("global\n {words}\n{}", whole(plain)), word.to_owned()),
        "defaults" => (format!("{defaults} {words}\n{plain}"), word.to_owned()),
        "bind" => (whole(listen(&words, "", "")), "bind".to_owned()),
        "server" => (whole(listen("", &words, "")), "server".to_owned()),
        "converter" => {
            let line = format!(" http-request set-header X %[path,{word}{arguments}]");
            (whole(listen("", "", &line)), "http-request".to_owned())
        }
        "frontend" | "backend" => (whole(listen("", "", &format!(" {words}"))), word.to_owned()),
        place => {
            let first = place.trim_end_matches(" *");
            let line = format!(" {first} {words}");
            (whole(listen("", "", &line)), format!("{first} {word}"))
        }
    }
}

#[test]
fn every_word_has_the_recorded_outcome() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/haproxy");
    let list = std::fs::read_to_string(folder.join("words.txt")).unwrap();
    let mut by_outcome: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    let mut unknown: Vec<String> = Vec::new();
    let mut totals: BTreeMap<&str, usize> = BTreeMap::new();
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let Some((place, words)) = line.split_once(": ") else { continue };
        for word in words.split_whitespace() {
            let (text, directive) = file(place, word);
            let imported = haproxy_bytes("h.cfg", text.as_bytes(), HaproxyVersion::LATEST);
            let imported = imported
                .unwrap_or_else(|errors| panic!("{place} {word}: {}", errors.render(false)));
            let entries = &imported.coverage.entries;
            let entry = entries.iter().find(|entry| entry.directive.starts_with(&directive));
            let entry = entry.unwrap_or_else(|| panic!("no `{directive}` in\n{text}"));
            let (outcome, reason) = (entry.outcome.word(), entry.outcome.reason());
            if reason.contains("not known") {
                unknown.push(format!("{place} {word}: {reason}"));
            }
            assert!(outcome == "honoured" || !reason.is_empty(), "{place} {directive}");
            by_outcome.entry((place, outcome)).or_default().push(word);
            *totals.entry(outcome).or_default() += 1;
        }
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
    let mut report = String::new();
    for (outcome, count) in &totals {
        let _ = writeln!(report, "{outcome}: {count}");
    }
    for ((place, outcome), words) in &by_outcome {
        let _ = write!(report, "\n{place}, {outcome}:\n");
        for word in words {
            let _ = writeln!(report, "    {word}");
        }
    }
    let path = folder.join("words.report");
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, &report).unwrap();
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(recorded == report, "WEIR_BLESS=1 writes it:\n{report}");
}
