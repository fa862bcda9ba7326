//! Fetches, log fields and ids in texts and rules.

use std::collections::HashSet;

use weir_config::model::Policy;

use super::{config, listen, outcome, proxies};

/// Weir puts a `/` before a path without one.
#[test]
fn rules_read_a_changed_path_as_it_is_sent() {
    let deny = "http-request deny if { path_beg /admin }";
    for (change, adds) in [
        (r"replace-pathq ^/v1/(.*) \1", true),
        ("set-pathq %[req.hdr(x)]", true),
        ("set-path %[req.hdr(x)]", true),
        (r"replace-path ^/v1/(.*) \1", true),
        ("set-path /fixed", false),
    ] {
        let imported = proxies(&format!("http-request {change}\n{deny}"), "");
        assert_eq!(outcome(&imported.coverage, deny).0, "honoured", "{change}");
        let native = imported.native();
        assert_eq!(native.contains("regsub \"^/?\" /;"), adds, "{change}: {native}");
        config(imported);
    }
}

#[test]
fn fetches_of_a_changed_query_keep_their_arguments() {
    let check = |fetch: &str, expected: &str| {
        let deny = format!("http-request deny if {{ {fetch} -m str bad }}");
        let imported = proxies(&format!("http-request set-query %[query]\n{deny}"), "");
        let (word, reason) = outcome(&imported.coverage, &deny);
        assert_eq!(word, expected, "{fetch}: {reason}");
    };
    check("url_param(tok)", "honoured");
    check("url_param(tok,;)", "refused");
    check("url_param(tok,,i)", "refused");
    check("query(with_qm)", "refused");
}

#[test]
fn logs_do_not_read_variables_that_backends_set() {
    let check = |frontend: &str, backend: &str, expected: &str| {
        let log = "log-format %[var(txn.a)]";
        let imported = proxies(&format!("log /dev/log local0\n{log}\n{frontend}"), backend);
        let (word, reason) = outcome(&imported.coverage, log);
        assert_eq!(word, expected, "{frontend}\n{backend}: {reason}\n{}", imported.native());
    };
    check("http-request set-var(txn.a) str(x)", "", "honoured");
    check("http-request set-var(txn.a) str(x)", "http-request set-var(txn.a) str(y)", "refused");
    check(
        "http-response set-var(txn.a) var(txn.b)",
        "http-request set-var(txn.b) str(y)",
        "refused",
    );
    check("http-response set-var(txn.a) var(txn.b)", "", "honoured");
}

#[test]
fn a_beginning_of_the_path_is_hashed() {
    let key = |words: &str| {
        let imported = proxies("", &format!("balance uri {words}"));
        assert_eq!(outcome(&imported.coverage, "balance").0, "differently", "{words}");
        let native = imported.native();
        let Policy::Hash(hash) = config(imported).pools.remove(0).policy else { panic!("{words}") };
        (hash.key.as_str().to_owned(), native)
    };
    assert_eq!(key("").0, "$uri");
    assert_eq!(key("path-only").0, "$uri");
    assert_eq!(key("whole").0, "$request_uri");
    let (name, native) = key("depth 2 len 30");
    assert_eq!(name, "${v_balance_uri}");
    assert!(native.contains("bytes 0 30;"), "{native}");
    for words in ["depth", "depth 0", "depth 1000", "len 0", "len x", "other"] {
        let imported = proxies("", &format!("balance uri {words}"));
        assert_eq!(outcome(&imported.coverage, "balance").0, "refused", "{words}");
    }
}

#[test]
fn the_size_of_a_body_is_the_one_that_its_request_tells() {
    let imported = proxies("http-request deny if { req.body_size gt 1000 }", "");
    assert_eq!(outcome(&imported.coverage, "http-request deny").0, "honoured");
    let native = imported.native();
    assert!(
        native.contains("${http_content_length}") && native.contains("range 1001.."),
        "{native}"
    );
    config(imported);
    for fetch in ["req.body_len gt 1", "req.body -m found"] {
        let imported = proxies(&format!("http-request deny if {{ {fetch} }}"), "");
        let (word, reason) = outcome(&imported.coverage, "http-request deny");
        assert!(word == "refused" && reason.contains("no body"), "{fetch}: {word} {reason}");
    }
}

#[test]
fn an_id_of_requests_has_the_form_that_the_file_names() {
    let format = "unique-id-format %{+X}o\\ %ci:%cp_%fi:%fp_%Ts_%rt:%pid\n unique-id-header X-Id\n";
    let native = proxies(format, "").native();
    assert!(native.contains("request_id off;"), "{native}");
    for step in ["hex_address", "hex_number 4"] {
        assert!(native.contains(step), "{step}: {native}");
    }
    for variable in ["remote_addr", "remote_port", "haproxy_Ts", "request_number", "pid"] {
        assert!(native.contains(&format!("${{{variable}}}")), "{variable}: {native}");
    }
    assert_eq!(native.matches("header add \"X-Id\"").count(), 1, "{native}");
    let check = |lines: &str, directive: &str, expected: &str, reason: &str| {
        let imported = proxies(lines, "");
        let (word, found) = outcome(&imported.coverage, directive);
        assert!(word == expected && found.contains(reason), "{lines}: {word} {found}");
        config(imported);
    };
    let reads = "http-request set-header X-A %[unique-id]";
    check(reads, "http-request set-header", "refused", "`unique-id-format`");
    check(&format!("{format}{reads}"), "http-request set-header", "honoured", "");
    let early = "http-request set-header X-A %ID";
    check(&format!("{format}{early}"), "http-request set-header", "refused", "`%[unique-id]`");
    let late = "http-response set-header X-A %ID";
    check(&format!("{format}{late}"), "http-response set-header", "honoured", "");
    // HAProxy makes the id for each request that it passes on, without a header too.
    let alone = "unique-id-format %[uuid()]\n http-response set-header X-A %ID";
    check(alone, "http-response set-header", "honoured", "");
    let own = "unique-id-format %[uuid()]\n http-after-response set-header X-A %{+Q}ID";
    check(own, "http-after-response", "differently", "empty `%ID`");
    check("unique-id-header X-Id", "unique-id-header", "ignored", "");
    check("unique-id-format %[frob]", "unique-id-format", "refused", "`frob`");
    let changed =
        "unique-id-format %[path]\n unique-id-header X-Id\n http-request replace-pathq a /%[src]";
    check(changed, "unique-id-header", "refused", "changes");
    let logged = format!("log 127.0.0.1:514 local0\n log-format %ID\n {format}");
    let native = proxies(&logged, "").native();
    let line = native.lines().find(|line| line.trim().starts_with("format")).unwrap();
    assert!(line.contains('_') && !line.contains("request_id"), "{line}");
}

#[test]
fn each_use_of_a_uuid_has_a_value_of_its_own() {
    let lines = "http-request set-header X-A %[uuid()]\n http-request set-var(txn.b) uuid()\n \
                 http-request set-header X-B %[var(txn.b)]/%[var(txn.b)]\n \
                 http-request set-header X-C %[uuid()]/%[uuid()]\n \
                 http-request return status 200 hdr X-D %[uuid()] hdr X-E %[uuid()] if { path /r }";
    let imported = proxies(lines, "");
    let native = imported.native();
    let value = |name: &str| {
        let line = native.lines().find(|line| line.contains(&format!("\"{name}\""))).unwrap();
        line.split('"').nth(3).unwrap().to_owned()
    };
    let halves = |name: &str| {
        let value = value(name);
        let (one, other) = value.split_once('/').unwrap();
        [one.to_owned(), other.to_owned()]
    };
    // A variable keeps the value that it was set to.
    let [b, same] = halves("X-B");
    assert_eq!(b, same, "{native}");
    let all = [value("X-A"), b, value("X-D"), value("X-E")];
    let all: HashSet<String> = all.into_iter().chain(halves("X-C")).collect();
    assert_eq!(all.len(), 6, "{native}");
    config(imported);
}

#[test]
fn fields_of_logs_have_a_value_in_rules_or_a_reason() {
    let check = |field: &str, expected: &str, reason: &str| {
        let rule = format!("http-request set-header X-A {field}");
        let imported = proxies(&rule, "");
        let (word, found) = outcome(&imported.coverage, "http-request set-header");
        assert!(word == expected && found.contains(reason), "{field}: {word} {found}");
    };
    for field in ["%Ts", "%ms", "%T", "%t", "%tr", "%trg", "%trl", "%Tl", "%rt", "%pid", "%ci"] {
        check(field, "honoured", "");
    }
    for field in ["%HM", "%HP", "%HQ", "%HU", "%HV", "%hr", "%hrl", "%b", "%f", "%ft", "%Th", "%Ti"]
    {
        check(field, "honoured", "");
    }
    for field in ["%s", "%si", "%sp"] {
        check(field, "refused", "before a server is picked");
    }
    for field in ["%Tr", "%Tw", "%Ta", "%Tt", "%TR"] {
        check(field, "refused", "at the end of a request");
    }
    check("%ST", "refused", "-1");
    check("%B", "refused", "bytes");
    check("%ac", "refused", "line of a log");
    check("%tsc", "refused", "ended");
    check("%hs", "refused", "no response yet");
    check("%CC", "refused", "req.cook");
    check("%bi", "refused", "own end");
    check("%lc", "refused", "%rt");
    check("%nosuch", "refused", "no field `%nosuch`");
    // HAProxy's backend is the frontend itself until one is picked.
    let native = proxies("http-request set-header X-A %b/%[fe_name]", "").native();
    assert!(native.contains("header set \"X-A\" \"f/${listener}\""), "{native}");
    check("%[be_name]", "refused", "no backend is picked yet");
    let native = listen("http-request set-header X-A %b/%[be_name]\nserver s 127.0.0.1:2").native();
    assert!(native.contains("header set \"X-A\" l/l;"), "{native}");
    let native = proxies("", "http-request set-header X-A %b/%[be_name]").native();
    assert!(native.contains("header set \"X-A\" \"${pool}/${pool}\""), "{native}");
}
