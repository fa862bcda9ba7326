//! Every sample fetch, converter, field of log lines and action of HAProxy's manual: each is
//! converted somewhere, or refused with a reason of its own. `haproxy/samples.report` has the
//! outcomes of fetches as they are; `WEIR_BLESS=1` writes it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use weir_import::{HaproxyVersion, haproxy_bytes};

/// The arguments of the fetches that need them.
const ARGUMENTS: [(&str, &str); 36] = [
    ("avg_queue", "f"),
    ("be_conn", "f"),
    ("be_id", "f"),
    ("capture.req.hdr", "0"),
    ("capture.res.hdr", "0"),
    ("env", "HOME"),
    ("fe_conn", "f"),
    ("hdr", "x"),
    ("hdr_cnt", "x"),
    ("hdr_ip", "x"),
    ("hdr_val", "x"),
    ("http_auth", "users"),
    ("http_auth_group", "users"),
    ("nbsrv", "f"),
    ("queue", "f"),
    ("rand", "100"),
    ("req.cook", "x"),
    ("req.cook_cnt", "x"),
    ("req.cook_val", "x"),
    ("cook", "x"),
    ("cook_cnt", "x"),
    ("cook_val", "x"),
    ("req.fhdr", "x"),
    ("req.hdr", "x"),
    ("req.hdr_cnt", "x"),
    ("req.hdr_ip", "x"),
    ("req.hdr_val", "x"),
    ("res.fhdr", "x"),
    ("res.hdr", "x"),
    ("res.hdr_cnt", "x"),
    ("res.hdr_val", "x"),
    ("srv_conn", "f/a"),
    ("srv_is_up", "f/a"),
    ("str", "a"),
    ("url_param", "x"),
    ("urlp", "x"),
];

const DEFAULTS: &str = " timeout client 1s\n timeout connect 1s\n timeout server 1s\n";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/haproxy")
}

/// Returns the words of a place of the list.
fn words(wanted: &str) -> Vec<String> {
    let list = std::fs::read_to_string(folder().join("samples.txt")).unwrap();
    let lines = list.lines().filter_map(|line| line.split_once(": "));
    let words = lines.filter(|(place, _)| *place == wanted);
    words.flat_map(|(_, words)| words.split(' ')).map(str::to_owned).collect()
}

/// Returns the outcome and the reason of the first line that begins with a text.
fn outcome(text: &str, start: &str) -> (&'static str, String) {
    let imported = haproxy_bytes("h.cfg", text.as_bytes(), HaproxyVersion::LATEST).unwrap();
    let mut entries = imported.coverage.entries.iter();
    let entry = entries.find(|entry| entry.directive.starts_with(start));
    let entry = entry.unwrap_or_else(|| panic!("no `{start}` in\n{text}"));
    (entry.outcome.word(), entry.outcome.reason().to_owned())
}

/// Returns a file with a line in its only section.
fn file(mode: &str, line: &str) -> String {
    format!(
        "userlist users\n user a insecure-password b\ndefaults\n mode {mode}\n{DEFAULTS}\
         listen f\n bind 127.0.0.1:1\n{line}\n server a 127.0.0.1:2\n"
    )
}

#[test]
fn every_documented_fetch_is_converted_or_has_a_reason() {
    let fetches = words("fetch");
    assert!(fetches.len() > 500, "{}", fetches.len());
    let mut by_outcome: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in &fetches {
        let argument = ARGUMENTS.iter().find(|(own, _)| own == name).map(|(_, text)| *text);
        let call = argument.map_or(name.clone(), |argument| format!("{name}({argument})"));
        let places = [
            ("http", format!(" http-request set-header X %[{call}]"), "http-request"),
            ("http", format!(" http-response set-header X %[{call}]"), "http-response"),
            ("http", format!(" log-format \"%ci %[{call}]\""), "log-format"),
            ("http", format!(" http-request deny if {{ {call} 1 }}"), "http-request"),
            ("http", format!(" http-request deny if {{ {call} }}"), "http-request"),
            ("tcp", format!(" tcp-request content reject if {{ {call} 1 }}"), "tcp-request"),
        ];
        let outcomes: Vec<(&str, String)> =
            places.iter().map(|(mode, line, start)| outcome(&file(mode, line), start)).collect();
        let is_taken = outcomes.iter().any(|(word, _)| *word != "refused");
        by_outcome.entry(if is_taken { "converted" } else { "refused" }).or_default().push(name);
        let (_, reason) = &outcomes[0];
        let bare = format!("Weir has no value for `{name}`");
        assert!(is_taken || (reason.len() > bare.len() + 2 && *reason != bare), "{name}: {reason}");
        assert!(is_taken || !reason.contains("not known"), "{name}: {reason}");
    }
    let mut report = String::new();
    for (outcome, names) in &by_outcome {
        let _ = writeln!(report, "{outcome}: {}", names.len());
    }
    for (outcome, names) in &by_outcome {
        let _ = write!(report, "\n{outcome}:\n");
        for name in names {
            let _ = writeln!(report, "    {name}");
        }
    }
    let path = folder().join("samples.report");
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, &report).unwrap();
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(recorded == report, "WEIR_BLESS=1 writes it:\n{report}");
}

#[test]
fn every_documented_converter_is_known() {
    let converters = words("converter");
    assert!(converters.len() > 150, "{}", converters.len());
    for name in converters {
        let line = format!(" http-request set-header X %[path,{name}]");
        let (word, reason) = outcome(&file("http", &line), "http-request");
        assert!(word == "honoured" || !reason.contains("not known"), "{name}: {reason}");
    }
}

#[test]
fn every_field_of_log_lines_is_written_or_has_a_reason() {
    let fields = words("alias");
    assert!(fields.len() > 60, "{}", fields.len());
    for name in fields {
        let line = format!(" log 127.0.0.1:514 local0\n log-format \"%{name} x\"");
        let (word, reason) = outcome(&file("http", &line), "log-format");
        // The one of flags stands alone.
        let is_written = word != "refused" || reason.contains(": ") || name == "o";
        assert!(is_written, "{name}: {reason}");
    }
}

#[test]
fn every_action_of_each_ruleset_is_known() {
    let rulesets = [
        ("http-request", "http", 60),
        ("http-response", "http", 40),
        ("http-after-response", "http", 20),
        ("tcp-request connection", "tcp", 20),
        ("tcp-request session", "tcp", 20),
        ("tcp-request content", "tcp", 30),
        ("tcp-response content", "tcp", 20),
        ("quic-initial", "http", 4),
    ];
    for (ruleset, mode, least) in rulesets {
        let actions = words(ruleset);
        assert!(actions.len() > least, "{ruleset}: {}", actions.len());
        for action in actions {
            let line = format!(" {ruleset} {action}");
            let (word, reason) = outcome(&file(mode, &line), &format!("{ruleset} {action}"));
            let is_known = !reason.contains("not known") && !reason.contains("does not belong");
            assert!(word == "honoured" || is_known && !reason.is_empty(), "{line}: {reason}");
        }
    }
}
