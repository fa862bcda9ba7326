//! Rules of responses: what they deny, change and see of each other.

use super::{config, outcome, proxies, text};

#[test]
fn denials_of_responses_under_too_many_conditions_let_nothing_pass() {
    let deny = |n| format!("http-response deny if {{ src 10.0.0.{n} }}\n");
    let imported = proxies(&(1..8).map(deny).collect::<String>(), "");
    let (word, reason) = outcome(&imported.coverage, "default_backend");
    assert!(word == "refused" && reason.ends_with("they get 503"), "{word} {reason}");
    let native = imported.native().replace('"', "");
    assert!(!native.contains("-> b"), "{native}");
    // Changes of headers alone refuse no request.
    let set = |n| format!("http-response set-header X-A {n} if {{ src 10.0.0.{n} }}\n");
    let imported = proxies(&(1..8).map(set).collect::<String>(), "");
    let (word, reason) = outcome(&imported.coverage, "default_backend");
    assert!(word == "refused" && !reason.contains("503"), "{word} {reason}");
}

#[test]
fn rules_of_responses_do_not_read_what_rules_before_them_changed() {
    let check = |lines: &str, backend: &str, rule: &str, expected: &str| {
        let imported = proxies(lines, backend);
        let (word, reason) = outcome(&imported.coverage, rule);
        assert_eq!(word, expected, "{lines}\n{backend}: {reason}");
        imported.native().replace('"', "")
    };
    let deny = "http-response deny if { res.hdr(x-leak) -m found }";
    let replaced = format!("http-response replace-header X-Leak a b\n{deny}");
    let closed = check(&replaced, "", deny, "refused");
    assert!(closed.contains("intercept -> internal @response-1;"), "{closed}");
    let kept = format!("http-response del-header X-Other\n{deny}");
    assert!(check(&kept, "", deny, "honoured").contains("intercept if="));
    let copy = "http-response set-header X-Copy %[res.hdr(x-class)]";
    check(&format!("http-response add-header X-Class a\n{copy}"), "", copy, "refused");
    check(&format!("http-response del-header X-Cl -m beg\n{copy}"), "", copy, "refused");
    // A known value is read as it was set.
    let set = format!("http-response set-header X-Class a\n{copy}");
    assert!(check(&set, "", copy, "honoured").contains("set X-Copy a;"));
    let removed = format!("http-response del-header X-Leak\n{deny}");
    assert!(!check(&removed, "", deny, "honoured").contains("intercept"));
    // Responses of the proxy itself have no header of `http-response`.
    let later = copy.replace("http-response", "http-after-response");
    check(&format!("http-response set-header X-Class a\n{later}"), "", &later, "refused");
    // The rules of the backend come first.
    let gone = check(deny, "http-response del-header X-Leak", deny, "honoured");
    assert!(!gone.contains("intercept"), "{gone}");
    let set = check(deny, "http-response set-header X-Leak a", deny, "honoured");
    assert!(set.contains("intercept if=") && set.contains("convert a $v_is"), "{set}");
    check(deny, "http-response add-header X-Leak a", deny, "refused");
    check(deny, "http-after-response del-header X-Leak", deny, "honoured");
    let after = "http-after-response set-header X-B 1 if { res.hdr(x-leak) -m found }";
    check(after, "http-after-response del-header X-Leak", after, "refused");
    let status = "http-response deny if { status 404 }";
    let other = check(status, "http-response set-status 404", status, "honoured");
    assert!(other.contains("intercept if=") && other.contains("convert 404 $v_is"), "{other}");
    check(status, "", status, "honoured");
    let variable = "http-response deny if { var(txn.secret) -m bool }";
    for set in ["http-response", "http-request"] {
        let set = format!("{set} set-var(txn.secret) bool(true)");
        let denied = check(variable, &set, variable, "honoured");
        let known = "convert 1 $v_is_var_txn_secret";
        assert!(denied.contains("intercept if=") && denied.contains(known), "{denied}");
    }
    check(variable, "http-response set-var(txn.other) bool(true)", variable, "honoured");
}

#[test]
fn a_removal_of_headers_by_name_changes_those_that_it_matches() {
    let check = |frontend: &str, backend: &str, rule: &str, expected: &str| {
        let imported = proxies(frontend, backend);
        let (word, reason) = outcome(&imported.coverage, rule);
        assert_eq!(word, expected, "{frontend}\n{backend}: {reason}");
    };
    let deny = "http-response deny unless { res.hdr(x-leak) -m found }";
    for removal in ["x-le -m beg", "-leak -m end", "^x-[kl] -m reg", "A -m sub"] {
        let removal = format!("http-response del-header {removal}");
        check(&format!("{removal}\n{deny}"), "", deny, "refused");
        check(deny, &removal, deny, "refused");
    }
    // A whole name is known to be gone.
    let removal = "http-response del-header x-leak -m str";
    check(&format!("{removal}\n{deny}"), "", deny, "honoured");
    check(deny, removal, deny, "honoured");
    for removal in ["x-m -m beg", "^x-[KM] -m reg", "x- -m end"] {
        let removal = format!("http-response del-header {removal}");
        check(&format!("{removal}\n{deny}"), "", deny, "honoured");
        check(deny, &removal, deny, "honoured");
    }
    // HAProxy does not know `dom` here, and the line changes nothing.
    let removal = "http-response del-header x- -m dom";
    check(deny, removal, deny, "honoured");
    check(deny, removal, removal, "refused");
    // The first line of a careful frontend leaves all other headers alone.
    let removal = "http-request del-header x-internal- -m beg";
    let check = |rule: &str, expected: &str| {
        check(&format!("{removal}\n{rule}"), "", rule, expected);
    };
    check("use_backend b if { hdr(host) -i api.test }", "honoured");
    check("http-request deny if { req.hdr(user-agent) -m sub bot }", "honoured");
    check("http-request deny if { req.hdr(x-internal-user) -m found }", "refused");
    check("http-request set-header X-Copy %[req.hdr(x-internal-user)]", "refused");
    // A request keeps its `Host`, whatever matches.
    let rules = "http-request del-header h -m beg\nuse_backend b if { hdr(host) -i api.test }";
    let imported = proxies(rules, "");
    assert_eq!(outcome(&imported.coverage, "use_backend").0, "honoured");
}

#[test]
fn a_known_header_is_known_until_a_removal_by_name_matches_it() {
    let check = |kind: &str, expected: &str| {
        let rules = format!(
            "http-request set-header X-A 1\nhttp-request del-header {kind}\n\
             http-request set-header X-B %[req.hdr(x-a)]"
        );
        let imported = proxies(&rules, "");
        let (word, reason) = outcome(&imported.coverage, "http-request set-header X-B");
        assert_eq!(word, expected, "{kind}: {reason}");
    };
    check("x-b -m beg", "honoured");
    check("x- -m beg", "refused");
}

#[test]
fn many_removals_by_name_count_as_one_of_every_header() {
    let rules = |count: usize| {
        let removal = |n: usize| format!("http-request del-header x-{n}- -m beg\n");
        let removals: String = (0..count).map(removal).collect();
        proxies(&format!("{removals}http-request deny if {{ req.hdr(x-a) -m found }}"), "")
    };
    assert_eq!(outcome(&rules(64).coverage, "http-request deny").0, "honoured");
    assert_eq!(outcome(&rules(65).coverage, "http-request deny").0, "refused");
}

#[test]
fn removals_by_name_say_where_they_find_something_else_than_in_haproxy() {
    let check = |rule: &str, expected: (&str, &str)| {
        let imported = proxies(rule, "");
        let (word, reason) = outcome(&imported.coverage, rule);
        assert!(word == expected.0 && reason.contains(expected.1), "{rule}: {word} {reason}");
        config(imported);
    };
    check("http-request del-header ^X-Up -m reg", ("differently", "small letters"));
    check("http-request del-header ^x-[A-F] -m reg", ("differently", "small letters"));
    check(r"http-request del-header ^\D-up -m reg", ("honoured", ""));
    check("http-request del-header (?i)^X-Up -m reg", ("honoured", ""));
    check("http-request del-header X-Up -m beg", ("honoured", ""));
    check("http-request del-header ho -m beg", ("differently", "keeps or writes `host`"));
    check("http-response del-header ho -m beg", ("honoured", ""));
    check("http-request del-header grade -m end", ("differently", "keeps or writes `upgrade`"));
    check("http-request del-header connection -m str", ("differently", "by the proxy itself"));
    check("http-request del-header host -m str", ("refused", "exactly one `Host`"));
    check("http-request del-header x-a -m str", ("honoured", ""));
}

#[test]
fn headers_that_no_rule_can_change_do_not_stop_the_file() {
    let check = |rule: &str, expected: (&str, &str)| {
        let imported = proxies(rule, "");
        let (word, reason) = outcome(&imported.coverage, rule);
        assert!(word == expected.0 && reason.contains(expected.1), "{rule}: {word} {reason}");
        config(imported);
    };
    check("http-request replace-header Connection a b", ("differently", "by the proxy itself"));
    check("http-response replace-value TE a b", ("differently", "by the proxy itself"));
    check("http-request set-header a/b c", ("refused", "not a header name"));
    check("http-response replace-header a/b c d", ("refused", "not a header name"));
}

#[test]
fn replacements_see_replacements_and_no_lines_that_rules_set() {
    let check = |frontend: &str, backend: &str, rule: &str, expected: &str| {
        let imported = proxies(frontend, backend);
        let (word, reason) = outcome(&imported.coverage, rule);
        assert_eq!(word, expected, "{frontend}\n{backend}: {reason}");
    };
    for message in ["http-request", "http-response"] {
        let rule = format!("{message} replace-value X-Class ^internal$ public");
        for before in ["set-header x-class internal", "add-header x-class internal"] {
            check(&format!("{message} {before}\n{rule}"), "", &rule, "refused");
        }
        check(&format!("{message} del-header x- -m beg\n{rule}"), "", &rule, "refused");
        check(&format!("{message} set-header x-other internal\n{rule}"), "", &rule, "honoured");
        let other = format!("{message} replace-header x-class ^(.*)$ i\\1");
        check(&format!("{other}\n{rule}"), "", &rule, "honoured");
        check(&format!("{other}\n{message} add-header x-class a\n{rule}"), "", &rule, "refused");
    }
    let rule = "http-response replace-header X-Class ^internal$ public";
    check(rule, "http-response set-header x-class internal", rule, "refused");
    check(rule, "http-response replace-value x-class ^a$ internal", rule, "honoured");
    let deny = "http-response deny if { res.hdr(x-class) -m str secret }";
    check(deny, "http-response replace-value X-Class ^internal$ secret", deny, "refused");
    check(&format!("{rule}\n{deny}"), "", deny, "refused");
}

#[test]
fn a_status_under_a_condition_is_known_after_one_that_a_rule_set() {
    let rules = "http-response set-status 500\nhttp-response set-status 404 if { src 10.0.0.1 }\n\
                 http-response set-header X-S %[status]";
    let native = proxies(rules, "http-response set-status 418").native().replace('"', "");
    let line = native.lines().find(|line| line.contains("X-S")).unwrap_or_default();
    assert!(line.contains("${v_"), "{line}\n{native}");
    // Without one it is the status that the backend has set.
    let rules = rules.split_once('\n').map_or("", |(_, rest)| rest);
    let imported = proxies(rules, "http-response set-status 418");
    assert_eq!(outcome(&imported.coverage, "http-response set-header").0, "honoured");
    let native = imported.native().replace('"', "");
    let rest = native.split("X-S ${").nth(1).unwrap_or_default();
    let name = rest.split('}').next().unwrap_or_default();
    let variable = native.split(&format!("${name} {{")).nth(1).unwrap_or_default();
    let entries = variable.split('}').next().unwrap_or_default();
    assert!(entries.contains("418") && entries.contains("404"), "{native}");
}

#[test]
fn rules_of_a_backend_for_all_responses_follow_those_of_the_frontend() {
    let check = |frontend: &str, rule: &str, expected: &str| {
        let imported = proxies(frontend, rule);
        let (word, reason) = outcome(&imported.coverage, rule);
        assert_eq!(word, expected, "{frontend}\n{rule}: {reason}");
    };
    let rule = "http-after-response set-header X-B 1 if { res.hdr(x-gone) -m found }";
    check("http-response del-header x-gone", rule, "refused");
    check("http-response del-header x-g -m beg", rule, "refused");
    check("http-response replace-value x-gone a b", rule, "refused");
    check("http-response del-header x-other", rule, "honoured");
    check("http-request del-header x-gone", rule, "honoured");
    let rule = "http-after-response set-header X-B %[status]";
    check("http-response set-status 404", rule, "refused");
    check("http-response allow", rule, "honoured");
    let rule = "http-after-response set-header X-B %[var(txn.a)]";
    check("http-response set-var(txn.a) str(x)", rule, "refused");
    check("http-request set-var(txn.a) str(x)", rule, "honoured");
    // Rules for responses come before those of the frontend.
    let rule = "http-response set-header X-B 1 if { res.hdr(x-gone) -m found }";
    check("http-response del-header x-gone", rule, "honoured");
}

#[test]
fn conditions_of_responses_find_nothing_of_the_request() {
    for criterion in ["hdr(x-a) -m found", "hdr_cnt(x-a) gt 0", "req.body -m found", "req.ver 1.1"]
    {
        let rule = format!("http-response set-header X-B 1 if {{ {criterion} }}");
        let native = proxies(&rule, "").native().replace('"', "");
        assert!(!native.contains("X-B"), "{criterion}: {native}");
        let native = proxies(&rule.replace(" if ", " unless "), "").native().replace('"', "");
        assert!(native.contains("response_header set X-B 1;"), "{criterion}: {native}");
    }
    let native = proxies("http-response set-header X-B 1 if { res.hdr(x-a) -m found }", "")
        .native()
        .replace('"', "");
    assert!(native.contains("response_header set X-B 1 if="), "{native}");
}

#[test]
fn responses_of_a_backend_have_its_changes_of_all_responses() {
    let own = "http-response return status 403\n http-request deny if { path /no }\n \
               http-after-response set-header X-After 1";
    let native = proxies("", own).native().replace('"', "");
    let routes: Vec<&str> = native.split("route ").skip(1).collect();
    let with = |start: &str| {
        let found = routes.iter().find(|route| route.starts_with(start));
        found.unwrap_or_else(|| panic!("no {start} in {native}")).contains("X-After")
    };
    assert!(with("internal @response-1") && with("path /no"), "{native}");
}

#[test]
fn what_replaces_a_response_has_not_got_its_headers() {
    let lines = "capture response header X-Kept len 9\n http-response deny if { status 500 }\n \
                 http-after-response set-header X-Copy %[res.hdr(x-a)]\n \
                 http-after-response set-header X-If 1 if { res.hdr(x-a) -m found }\n \
                 http-after-response set-header X-Held %[capture.res.hdr(0)]";
    let native = proxies(lines, "").native().replace('"', "");
    let routes: Vec<&str> = native.split("route ").collect();
    let denial = routes.iter().find(|route| route.starts_with("internal @response-1"));
    let denial = denial.unwrap_or_else(|| panic!("{native}"));
    assert!(denial.contains("X-Held"), "{native}");
    assert!(!denial.contains("X-Copy") && !denial.contains("X-If"), "{native}");
    assert!(native.contains("X-Copy") && native.contains("X-If"), "{native}");
}

#[test]
fn the_status_that_rules_set_is_not_that_of_other_responses() {
    let lines = "http-response set-status +503\n http-after-response set-header X-S %[status]";
    let imported = proxies(lines, "");
    assert_eq!(outcome(&imported.coverage, "http-after-response").0, "refused");
    assert!(imported.native().contains("response_status 503;"));
    let imported = proxies("http-after-response set-header X-S %[status]", "");
    assert_eq!(outcome(&imported.coverage, "http-after-response").0, "honoured");
}

#[test]
fn actions_of_responses_that_haproxy_lacks_are_refused() {
    let imported = proxies("http-response reject", "");
    assert_eq!(outcome(&imported.coverage, "http-response reject").0, "refused");
    let imported = proxies("http-after-response deny", "");
    let (word, reason) = outcome(&imported.coverage, "http-after-response");
    assert!(word == "refused" && reason.ends_with("write it in `http-response`"), "{reason}");
}

#[test]
fn a_removal_by_pattern_leaves_what_was_set_after_the_one_before() {
    let imported = text(
        "frontend f
 mode http
 bind 127.0.0.1:1
 http-request del-header x-int -m beg
 http-request set-header x-int-user a
 http-request del-header y- -m beg
 http-request deny if { req.hdr(x-int-user) -m str a }
 default_backend b
backend b
 mode http
 server s 127.0.0.1:2
",
    );
    let refused: Vec<_> = imported.coverage.refused().collect();
    assert!(refused.is_empty(), "{refused:?}");
}

#[test]
fn the_status_in_a_text_is_that_of_the_rules_before() {
    let read = "http-response set-header X-S %ST";
    let check = |before: &str, expected: &str, text: &str| {
        let imported = proxies(&format!("{before}\n{read}"), "");
        let (word, reason) = outcome(&imported.coverage, read);
        assert_eq!(word, expected, "{before}: {reason}");
        let native = imported.native().replace('"', "");
        assert!(native.contains(text), "{native}");
    };
    check("", "honoured", "X-S ${status};");
    check("http-response set-status 503", "honoured", "X-S 503;");
}
