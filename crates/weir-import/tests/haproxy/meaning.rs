//! The meaning of lines in HAProxy where the differential suite cannot see it.

use std::collections::HashSet;

use weir_config::model::{AdminAccess, Policy, Probe, Role};
use weir_import::{HaproxyVersion, haproxy_bytes};

use super::{config, outcome, proxies, statuses, text};

/// A `listen` with these lines, whose servers use TLS.
fn listen(lines: &str) -> weir_import::Imported {
    text(&format!("listen l\n mode http\n bind 127.0.0.1:1\n timeout server 1s\n{lines}\n"))
}

#[test]
fn probes_use_tls_where_those_of_haproxy_do() {
    let check = |lines: &str, http_tls: Option<bool>, kind: &str| {
        let probe = config(listen(lines)).pools[0].check.clone().unwrap().probe;
        let (found, tls) = match &probe {
            Probe::Http(probe) => ("http", probe.tls),
            Probe::Tcp(_) => ("tcp", None),
            Probe::Tls => ("tls", None),
            Probe::Grpc(_) => ("grpc", None),
        };
        assert_eq!((found, tls), (kind, http_tls), "{lines}");
    };
    let server = "server s 127.0.0.1:2 ssl verify none check";
    check(server, None, "tls");
    check(&format!("{server} port 8080"), None, "tcp");
    check(&format!("{server} addr 127.0.0.2"), None, "tcp");
    check(&format!("{server} port 8080 check-ssl"), None, "tls");
    check("server s 127.0.0.1:2 check", None, "tcp");
    check(&format!("option httpchk\n{server}"), None, "http");
    check(&format!("option httpchk\n{server} port 8080"), Some(false), "http");
    check(&format!("option httpchk\n{server} port 8080 check-ssl"), None, "http");
    check(&format!("option httpchk\nhttp-check connect port 81\n{server}"), Some(false), "http");
    check(&format!("option httpchk\nhttp-check connect ssl port 81\n{server}"), None, "http");
    check(&format!("option httpchk\nhttp-check connect default\n{server}"), None, "http");
    check(&format!("option ssl-hello-chk\n{server} port 8080"), None, "tls");
}

#[test]
fn servers_without_tls_are_probed_with_it_where_the_file_says_so() {
    let check = |lines: &str, expected: Option<(bool, Option<&str>, bool)>| {
        let pools = config(listen(lines)).pools;
        assert!(pools[0].tls.is_none(), "{lines}");
        let found = pools[0].check_tls.as_ref();
        let found = found.map(|tls| (tls.verify, tls.server_name.as_deref(), tls.sni));
        assert_eq!(found, expected, "{lines}");
    };
    let plain = "server s 127.0.0.1:2 check";
    let unverified = Some((false, None, false));
    check(plain, None);
    check(&format!("{plain} verify none"), None);
    check(&format!("{plain} check-ssl verify none"), unverified);
    check(&format!("option tcp-check\n{plain} check-ssl verify none"), unverified);
    let connect = "option httpchk\nhttp-check connect ssl";
    check(&format!("{connect}\n{plain} verify none"), unverified);
    let connect = "option tcp-check\ntcp-check connect ssl";
    check(&format!("{connect}\n{plain} verify none"), unverified);
    let named = "check-ssl verify none check-sni a.test";
    check(&format!("{plain} {named}"), Some((false, Some("a.test"), true)));
    let imported = listen(&format!("{plain} check-ssl verify none\n server t 127.0.0.1:3 check"));
    let (word, reason) = outcome(&imported.coverage, "server t");
    assert!(word == "refused" && reason.contains("with TLS, or none"), "{word} {reason}");
}

#[test]
fn probes_with_tls_that_weir_lacks_are_refused() {
    let check = |lines: &str, directive: &str, expected: &str| {
        let imported = listen(lines);
        let (word, reason) = outcome(&imported.coverage, directive);
        assert!(word == "refused" && reason.contains(expected), "{lines}: {word} {reason}");
        config(imported);
    };
    let tls = "server s 127.0.0.1:2 ssl verify none check";
    check(
        &format!("{tls}\n server t 127.0.0.1:3 ssl verify none check addr 127.0.0.4"),
        "server t",
        "all servers",
    );
}

#[test]
fn of_several_modes_of_connections_the_last_one_holds() {
    let closes = |frontend: &str, backend: &str| {
        let config = config(proxies(frontend, backend));
        (config.listeners[0].limits.requests == 1, config.pools[0].keepalive.idle == 0)
    };
    assert_eq!(closes("", ""), (false, false));
    assert_eq!(closes("option httpclose", "option httpclose"), (true, true));
    assert_eq!(closes("", "option http-server-close"), (false, true));
    let replaced = "option http-server-close\n option http-keep-alive";
    assert_eq!(closes("", replaced), (false, false));
    let back = "option httpclose\n no option httpclose";
    assert_eq!(closes(back, back), (false, false));
    let other = "option httpclose\n no option http-server-close";
    assert_eq!(closes(other, other), (true, true));
}

#[test]
fn a_frontend_that_closes_connections_to_servers_says_that_they_stay_open() {
    let imported = proxies("option http-server-close", "");
    let (word, reason) = outcome(&imported.coverage, "option http-server-close");
    assert!(word == "differently" && reason.contains("of `b` stay open"), "{word} {reason}");
    let imported = proxies("option http-server-close", "option httpclose");
    assert_eq!(outcome(&imported.coverage, "option http-server-close").0, "honoured");
}

#[test]
fn a_rejected_client_does_not_get_the_page_of_the_monitor() {
    let lines = "monitor-uri /alive\n tcp-request connection reject if { src 10.0.0.0/8 }";
    let config = config(proxies(lines, ""));
    assert_eq!(statuses(&config)[..2], [444, 200]);
}

#[test]
fn a_text_of_a_header_is_the_last_value_of_its_lines() {
    let native = |text: &str| {
        let imported = proxies(&format!("http-request set-header X-A {text}"), "");
        assert_eq!(outcome(&imported.coverage, "http-request set-header").0, "honoured", "{text}");
        imported.native()
    };
    let own = native("%[hdr(X-Own)]");
    assert!(own.contains("${headers_x_own}"), "{own}");
    assert!(native("%[hdr(Via)]").contains("list_item -1;"));
    let line = native("%[req.fhdr(Via)]");
    assert!(line.contains("${header_lines_via}") && line.contains("field -1"), "{line}");
    assert!(native("%[hdr(host)]").contains("${http_host}"));
}

#[test]
fn a_text_that_reads_a_changed_cookie_is_refused() {
    let lines = "http-request replace-header Cookie a b\n http-request return status 200 content-type text/plain lf-string %[cook(a)]";
    let imported = proxies(lines, "");
    assert_eq!(outcome(&imported.coverage, "http-request return").0, "refused");
}

#[test]
fn what_harms_without_its_effect_is_not_ignored() {
    let check = |frontend: &str, backend: &str, directive: &str, expected: &str| {
        let imported = proxies(frontend, backend);
        assert_eq!(outcome(&imported.coverage, directive).0, expected, "{directive}");
    };
    check("", "server t 127.0.0.1:3 namespace blue", "server t", "refused");
    check("", "server t 127.0.0.1:3 init-state down", "server t", "differently");
    check("http-request set-mark 1", "", "http-request set-mark", "differently");
    check("http-request set-tos 1", "", "http-request set-tos", "differently");
    let imported = text(
        "global\n harden.reject-privileged-ports.tcp on\n uid 7\n key-base /k\nlisten l\n mode http\n bind 127.0.0.1:1\n server s 127.0.0.1:2\n",
    );
    assert_eq!(outcome(&imported.coverage, "harden").0, "differently");
    assert_eq!(outcome(&imported.coverage, "uid").0, "honoured");
    assert_eq!(outcome(&imported.coverage, "key-base").0, "refused");
}

#[test]
fn a_fetch_without_a_condition_has_the_reason_of_the_table() {
    let imported = proxies("use_backend b if { connslots(b) lt 100 }", "");
    let (_, reason) = outcome(&imported.coverage, "use_backend");
    assert!(reason.contains("write `be_conn(NAME)`"), "{reason}");
    let page = weir_import::haproxy_reference();
    assert!(page.contains("| `path_beg` | condition | converted |"), "{page}");
    assert!(!page.contains("|  |"), "a keyword without a context");
}

#[test]
fn lines_for_checks_of_another_kind_have_no_effect() {
    let server = "server s 127.0.0.1:2 check";
    let check = |lines: &str, directive: &str, expected: &str| {
        let imported = listen(&format!("{lines}\n{server}"));
        assert_eq!(outcome(&imported.coverage, directive).0, expected, "{lines}");
        config(imported);
    };
    check("http-check expect status 200", "http-check", "ignored");
    check("option httpchk\nhttp-check expect status 200", "http-check", "honoured");
    check("option httpchk\ntcp-check send A", "tcp-check", "ignored");
    check("option tcp-check\nhttp-check send meth GET", "http-check", "ignored");
}

#[test]
fn removed_keywords_name_what_replaced_them() {
    let check = |line: &str, expected: &str| {
        let imported = proxies(line, "");
        let (word, reason) = outcome(&imported.coverage, line.split(' ').next().unwrap());
        assert!(word == "refused" && reason.contains(expected), "{line}: {word} {reason}");
    };
    check("reqadd X-A:\\ 1", "`http-request add-header NAME VALUE`");
    check("rspidel ^Server", "`http-response del-header NAME`");
    check("clitimeout 5000", "`timeout client`");
    check("http-request lua.auth", "runs no Lua");
    let old = b"listen l 127.0.0.1:1\n mode http\n server s 127.0.0.1:2\n";
    let errors = haproxy_bytes("haproxy.cfg", old, HaproxyVersion::LATEST).unwrap_err();
    let errors = errors.render(false);
    assert!(errors.contains("write `bind 127.0.0.1:1`"), "{errors}");
}

#[test]
fn conditions_count_the_servers_of_a_backend() {
    let check = |test: &str, expected: &str| {
        let native = config_text(&proxies(&format!("http-request deny if {{ {test} }}"), ""));
        assert!(native.contains(expected), "{test}: {native}");
    };
    check("nbsrv(b) lt 1", "route servers b=0 -> respond 403");
    check("nbsrv(b) eq 0", "route servers b=0 -> respond 403");
    check("nbsrv(b) le 2", "route servers b=0..2 -> respond 403");
    check("nbsrv(b) gt 1", "route servers b=2.. -> respond 403");
    check("nbsrv(b) 1:2 5", "route servers b=1..2 or servers b=5 -> respond 403");
    check("nbsrv(b)", "route servers b=1.. -> respond 403");
    check("be_conn(b) gt 100", "route load b=101.. -> respond 403");
    check("queue(b) ge 5", "route queued b=5.. -> respond 403");
    check("avg_queue(b) lt 10", "route queued_per_server b=0..9 -> respond 403");
    check("srv_conn(b/s) gt 3", "route in_flight b/s=4.. -> respond 403");
    check("srv_queue(b/s) gt 3", "route queued b/s=4.. -> respond 403");
    check("srv_is_up(b/s)", "route servers b/s=1.. -> respond 403");
    check("srv_is_up(b/s) false", "route servers b/s=0 -> respond 403");
    check("fe_conn gt 3", "range 4..");
    let own = config_text(&proxies("", "http-request deny if { be_conn gt 100 }"));
    assert!(own.contains("load b=100.."), "the request itself counts: {own}");
    let reason = |test: &str| {
        let imported = proxies(&format!("http-request deny if {{ {test} }}"), "");
        outcome(&imported.coverage, "http-request deny").1.to_owned()
    };
    assert!(reason("srv_is_up(b)").contains("write `srv_is_up(BACKEND/SERVER)`"));
    assert!(reason("srv_is_up(b/none)").contains("no server `none`"));
    assert!(reason("be_conn gt 1").contains("with the name of the backend"));
    let native = config_text(&proxies("http-response set-header X-A 1 if { nbsrv(b) lt 1 }", ""));
    assert!(native.contains("route servers b=0 -> b"), "{native}");
}

#[test]
fn a_list_of_certificates_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list");
    let bind = |names: &str| {
        std::fs::write(&list, names).unwrap();
        text(&format!(
            "listen l\n mode http\n bind 127.0.0.1:1 ssl crt-list {}\n server s 127.0.0.1:2\n",
            list.display()
        ))
    };
    let imported =
        bind("# ours\n/a.pem [alpn h2] a.test *.b.test !c.test\n/b.pem\n\n/a.pem d.test\n");
    assert_eq!(outcome(&imported.coverage, "bind").0, "differently");
    let native = config_text(&imported);
    assert_eq!(native.matches("certificate /").count(), 2, "{native}");
    assert!(native.contains("certificate /a.pem;") && native.contains("certificate /b.pem;"));
    assert_eq!(outcome(&bind("/b.pem\n").coverage, "bind").0, "honoured");
    assert_eq!(outcome(&bind("# none\n").coverage, "bind").0, "refused");
}

#[test]
fn a_section_for_statistics_is_an_admin_address() {
    let stats = |lines: &str| {
        text(&format!(
            "listen l\n mode http\n bind 127.0.0.1:1\n server s 127.0.0.1:2\nfrontend stats\n mode http\n bind 127.0.0.1:3\n{lines}\n"
        ))
    };
    let metrics = "http-request use-service prometheus-exporter if { path /metrics }";
    for lines in [format!("{metrics}\n stats enable\n stats refresh 10s"), metrics.to_owned()] {
        let imported = stats(&lines);
        assert_eq!(outcome(&imported.coverage, "http-request use-service").0, "differently");
        let native = config_text(&imported);
        assert!(native.contains("admin 127.0.0.1:3 read_only;"), "{native}");
    }
    let users = "stats enable\n stats auth ops:secret\n stats auth dev:other";
    let roles = |lines: &str| {
        let imported = stats(lines);
        assert_eq!(outcome(&imported.coverage, "stats auth").0, "honoured", "{lines}");
        let admin = config(imported).admin.remove(0);
        let roles = admin.roles.into_iter().map(|role| (role.role, role.password.unwrap()));
        (admin.access, roles.collect::<Vec<_>>())
    };
    let both = |role| vec![(role, "ops:secret".to_owned()), (role, "dev:other".to_owned())];
    assert_eq!(roles(users), (AdminAccess::ReadOnly, both(Role::Read)));
    let changing = format!("{users}\n stats admin if TRUE");
    assert_eq!(roles(&changing), (AdminAccess::Write, both(Role::Operate)));
    let conditional = format!("{users}\n stats admin if LOCALHOST");
    assert_eq!(roles(&conditional), (AdminAccess::ReadOnly, both(Role::Read)));
    let broken = stats("stats enable\n stats auth ops");
    assert_eq!(outcome(&broken.coverage, "stats auth").0, "refused");
    assert!(config(broken).admin.is_empty());
}

/// Returns the native form without quotes, which has to be a configuration.
fn config_text(imported: &weir_import::Imported) -> String {
    imported.native().replace('"', "")
}

#[test]
fn denials_of_responses_under_too_many_conditions_let_nothing_pass() {
    let deny = |n| format!("http-response deny if {{ src 10.0.0.{n} }}\n");
    let imported = proxies(&(1..8).map(deny).collect::<String>(), "");
    let (word, reason) = outcome(&imported.coverage, "default_backend");
    assert!(word == "refused" && reason.ends_with("they get 503"), "{word} {reason}");
    let native = imported.native().replace('"', "");
    assert!(!native.contains("-> b"), "{native}");
    // Changes of headers alone keep nobody away.
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
fn workers_have_the_cores_of_their_threads_or_processes() {
    let check = |lines: &str, workers: &str, expected: &str, word: &str| {
        let imported = text(&format!(
            "global\n{lines}\nfrontend f\n mode http\n timeout client 1s\n bind 127.0.0.1:1\n"
        ));
        let (found, reason) = outcome(&imported.coverage, "cpu-map");
        assert_eq!(found, word, "{lines}: {reason}");
        let config = config(imported);
        let cores = config.worker_cores.as_ref().map(ToString::to_string);
        let found = (format!("{:?}", config.workers), cores.unwrap_or_default());
        assert_eq!(found, (workers.to_owned(), expected.to_owned()), "{lines}");
    };
    let four = "Count(4)";
    check("nbproc 1\nnbthread 4\ncpu-map auto:1/1-4 0-3", four, "0-3", "honoured");
    let each = "cpu-map 1 0\ncpu-map 2 1\ncpu-map 3 2\ncpu-map 4 3";
    check(&format!("nbproc 4\n{each}"), four, "0-3", "honoured");
    check("nbproc 4\ncpu-map auto:1-4 4-7", four, "4-7", "honoured");
    check("nbthread 4\ncpu-map 1 0-3", four, "0+1+2+3", "honoured");
    check("nbthread 4\ncpu-map 1/all 0 2", four, "0+2", "honoured");
    check("nbthread 4\ncpu-map 1/odd 0\ncpu-map 1/even 1", four, "0-1,0-1", "honoured");
    check("nbthread 4\ncpu-map 1/1-2 3,5", four, "3+5,3+5", "differently");
    check("nbthread 2\ncpu-map auto:1/1-4 3-0", "Count(2)", "0-1", "honoured");
    check("cpu-map auto:1/1-4 0-3", "Auto", "0-3", "differently");
    check("cpu-map 1 0-3", "Auto", "0-3", "differently");
    check("nbthread 4\ncpu-map 2 0", four, "", "ignored");
    check("nbthread 4\ncpu-map 1/5-8 0", four, "", "ignored");
    for wrong in ["1", "1 x", "1 0-", "0 1", "x 1", "1/0 1", "auto:1/1-3 0-3", "1 1024"] {
        check(&format!("nbthread 4\ncpu-map {wrong}"), four, "", "refused");
    }
    check(
        &format!("nbthread 1\n{}cpu-map 1 2", "cpu-map 1 1\n".repeat(300)),
        "Count(1)",
        "1",
        "honoured",
    );
}

#[test]
fn conversations_of_checks_are_those_of_the_file() {
    let native = |lines: &str| {
        let imported = listen(lines);
        let refused: Vec<_> = imported.coverage.refused().collect();
        assert!(refused.is_empty(), "{lines}: {refused:?}");
        let text = imported.native();
        config(imported);
        let check = text.lines().skip_while(|line| !line.trim().starts_with("check "));
        let mut check: Vec<&str> = check.map(str::trim).collect();
        let end = check.iter().position(|line| line.ends_with(';') || *line == "}").unwrap();
        let is_block = check[0].ends_with('{');
        let end = if is_block { check.iter().position(|line| *line == "}").unwrap() } else { end };
        check.truncate(end + 1);
        check.split_off(usize::from(is_block)).join(" ")
    };
    let plain = "server s 127.0.0.1:2 check";
    let redis = native(&format!(
        "option tcp-check\n tcp-check send PING\\r\\n\n tcp-check expect string +PONG\n \
         tcp-check send info\\ replication\\r\\n comment role\n tcp-check expect string role:master\n \
         tcp-check send-binary 515549540d0a\n tcp-check expect ! rstring ^-ERR\n {plain}"
    ));
    assert_eq!(
        redis,
        "connect; send \"PING\\r\\n\"; expect +PONG; send \"info replication\\r\\n\"; \
         expect role:master; send hex=515549540d0a; expect \"~^-ERR\" absent; }"
    );
    let binary = native(&format!(
        "option tcp-check\n tcp-check connect port 110 send-proxy\n tcp-check expect binary 2b4f4b\n \
         tcp-check connect port 143\n tcp-check expect comment x string ~OK\n {plain}"
    ));
    assert!(binary.starts_with("connect port=110 send_proxy; expect "), "{binary}");
    assert!(binary.ends_with("connect port=143; expect \"~\\\\~OK\"; }"), "{binary}");
    let tls = "server s 127.0.0.1:2 ssl verify none check";
    let begins = native(&format!("option redis-check\n {tls}"));
    assert!(begins.starts_with("connect tls=on; send "), "{begins}");
    let begins = native(&format!("option tcp-check\n tcp-check expect string x\n {tls}"));
    assert_eq!(begins, "connect tls=on; expect \"x\"; }");
    let requests = native(&format!(
        "option httpchk GET /live\n http-check send meth GET uri /live\n http-check expect status 200\n \
         http-check connect port 81\n http-check send meth HEAD uri /ready hdr Host a.test\n \
         http-check expect status 204\n {plain}"
    ));
    assert_eq!(requests, "request HEAD /ready port=81 version=1.0 bare expect=204 host=a.test; }");
}

#[test]
fn steps_of_checks_without_conversion_are_refused() {
    let check = |lines: &str, directive: &str, expected: &str| {
        let imported = listen(&format!("{lines}\n server s 127.0.0.1:2 check"));
        let (word, reason) = outcome(&imported.coverage, directive);
        assert!(word == "refused" && reason.contains(expected), "{lines}: {word} {reason}");
        config(imported);
    };
    let tcp = |line: &str| format!("option tcp-check\n {line}");
    check(&tcp("tcp-check send-lf x"), "tcp-check send-lf", "the same bytes");
    check(&tcp("tcp-check send-binary 0dx"), "tcp-check send-binary", "hexadecimal");
    check(&tcp("tcp-check expect rbinary 0d"), "tcp-check expect", "no conversion");
    check(&tcp("tcp-check expect string"), "tcp-check expect", "a value behind");
    check(&tcp("tcp-check expect min-recv x string y"), "tcp-check expect", "number of bytes");
    check(&tcp("tcp-check expect string x string y"), "tcp-check expect", "one text");
    let http = |line: &str| format!("option httpchk\n {line}");
    check(&http("http-check send hdr X %[srv_name]"), "http-check send", "the same bytes");
    check(&http("http-check send hdr Connection x"), "http-check send", "leave it out");
    check(&http("http-check expect status 100"), "http-check expect", "never pass");
    check(&http("http-check expect hdr name -m beg x"), "http-check expect", "name of the header");
    let twice = "http-check expect string x\n http-check expect string y";
    check(&http(twice), "http-check expect string y", "one text");
    check("option external-check", "option external-check", "HTTP, TCP or TLS");
    check("option pgsql-check user a b", "option pgsql-check", "user NAME");
    check("option mysql-check user a post-90", "option mysql-check", "post-41");
    let long = "tcp-check send x\n tcp-check expect string x\n".repeat(40);
    check(&tcp(&long), "tcp-check send", "at most 64 steps");
    let alone = "option httpchk\n http-check send uri /a\n http-check connect port 81";
    check(alone, "http-check connect", "no request follows");
}

#[test]
fn a_server_that_rules_name_is_one_of_the_backend() {
    let check = |frontend: &str, backend: &str, expected: &str, reason: &str| {
        let imported = proxies(frontend, backend);
        let (word, found) = outcome(&imported.coverage, "use-server");
        assert!(word == expected && found.contains(reason), "{backend}: {word} {found}");
        imported.native().replace('"', "")
    };
    let own = "server here 127.0.0.1:3\n server s-2 127.0.0.1:4\n";
    let native = check("", &format!("use-server here if {{ path /a }}\n {own}"), "honoured", "");
    assert!(native.contains("use_server here if="), "{native}");
    let native = check("", &format!("use-server s-%[hdr(x)] if TRUE\n {own}"), "honoured", "");
    assert!(native.contains("use_server s-${"), "{native}");
    check("", &format!("use-server there if TRUE\n {own}"), "refused", "no server `there`");
    check("", &format!("use-server here if {{ nbsrv(b) gt 1 }}\n {own}"), "refused", "`servers`");
    check("", &format!("use-server here there\n {own}"), "refused", "write `use-server NAME");
    let template = "server-template t 3 a.test:80\n use-server t2 if TRUE";
    check("", template, "refused", "`server-template`");
    // Headers are looked at as the rules before have left them.
    let changed = "http-request add-header X-A 1";
    let reads = format!("use-server here if {{ hdr(x-a) 1 }}\n {own}");
    check(changed, &reads, "refused", "reads what a rule before it changes");
}

#[test]
fn actions_of_other_rules_are_refused_by_name_with_what_to_do() {
    let check = |line: &str, expected: &str| {
        let imported = proxies(line, "");
        let (word, reason) = outcome(&imported.coverage, line);
        assert!(word == "refused" && reason.contains(expected), "{line}: {word} {reason}");
    };
    check("http-request set-method HEAD", "write another one");
    check("http-request set-uri http://b.test/x", "set-header Host");
    check("http-request replace-uri ^(.*)$ b.test", "set-header Host");
    check("tcp-request content switch-mode http", "write `mode http`");
    check("tcp-request connection expect-proxy layer7", "layer4");
    check("tcp-request connection expect-proxy layer4 if { path /a }", "src NETWORK");
    check("http-request set-src path", "set-src req.hdr(NAME)");
    check("http-request set-src hdr(x) if { path /a }", "src NETWORK");
    check("http-request use-service lua.x", "prometheus-exporter");
    check("tcp-request session attach-srv srv", "opens connections to servers itself");
    check("tcp-request connection track-sc3 src", "limit client");
    check("http-request set-headers-bin req.hdrs_bin", "`set-header`");
}

#[test]
fn every_word_of_the_manual_is_in_the_table() {
    let page = weir_import::haproxy_reference();
    let rows: Vec<(&str, Vec<&str>)> = page
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.splitn(3, " | ");
            let name = cells.next()?.trim_end_matches('`');
            Some((name, cells.next()?.split(", ").collect()))
        })
        .collect();
    let lines = include_str!("words.txt").lines().filter(|line| !line.starts_with('#'));
    let mut missing = Vec::new();
    for line in lines {
        let (place, words) = line.split_once(": ").unwrap();
        for word in words.split(' ') {
            let found = rows.iter().any(|(name, places)| {
                if let Some(start) = place.strip_suffix(" *") {
                    return *name == format!("{start} {word}");
                }
                let is_tuning = *name == "tune.*" && word.starts_with("tune.");
                (*name == word || is_tuning) && places.contains(&place)
            });
            if !found {
                missing.push(format!("{place} {word}"));
            }
        }
    }
    assert_eq!(missing, [""; 0]);
}

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
fn users_with_plain_passwords_are_tests_of_a_digest() {
    let check = |list: &str, rule: &str| {
        let imported = text(&format!(
            "userlist people\n{list}\n\
             defaults\n mode http\n timeout client 1s\n timeout connect 1s\n timeout server 1s\n\
             listen l\n bind 127.0.0.1:1\n http-request auth realm r unless {{ {rule} }}\n server s 127.0.0.1:2\n"
        ));
        let (word, reason) = outcome(&imported.coverage, "http-request auth");
        let (word, reason) = (word, reason.to_owned());
        (word, reason, imported)
    };
    let plain = " user a insecure-password secret\n user b insecure-password other groups g";
    let (word, reason, imported) = check(plain, "http_auth(people)");
    assert_eq!(word, "honoured", "{reason}");
    let native = imported.native();
    // The passwords are not shown.
    assert!(!native.contains("secret") && !native.contains("YTpzZWNyZXQ"), "{native}");
    assert_eq!(statuses(&config(imported)), [401]);
    for (list, rule, expected) in [
        (" user a password $5$abc$def", "http_auth(people)", "line 2"),
        (" user a insecure-password x\n user b password $1$", "http_auth(people)", "line 3"),
        (" user a insecure-password x frob y", "http_auth(people)", "line 2"),
        (" user a", "http_auth(people)", "line 2"),
        (plain, "http_auth(others)", "no `userlist others`"),
        (plain, "http_auth", "http_auth(LIST)"),
        (plain, "http_auth_group(people)", "no pattern"),
        (plain, "http_auth(people),lower", "no conversion"),
    ] {
        let (word, reason, imported) = check(list, rule);
        assert!(word == "refused" && reason.contains(expected), "{rule}: {word} {reason}");
        // Passwords that cannot be verified let no request pass.
        assert_eq!(statuses(&config(imported)), [403], "{list} {rule}");
    }
    // Neither does a group without users.
    let (word, _, imported) = check(plain, "http_auth_group(people) none");
    assert_eq!((word, statuses(&config(imported))), ("honoured", vec![401]));
}

#[test]
fn rules_that_let_tls_alone_pass_deny_nobody() {
    let check = |rules: &str, line: &str, expected: &str| {
        let imported = text(&format!(
            "defaults\n mode tcp\n timeout client 1s\n timeout connect 1s\n timeout server 1s\n\
             frontend f\n bind 127.0.0.1:1\n tcp-request inspect-delay 1s\n acl tls req.ssl_hello_type 1\n\
             {rules}\n default_backend b\nbackend b\n server s 127.0.0.1:2\nbackend c\n server s 127.0.0.1:3\n"
        ));
        let (word, reason) = outcome(&imported.coverage, line);
        assert_eq!(word, expected, "{rules}: {reason}");
        imported.native()
    };
    let reject = "tcp-request content reject";
    for rules in [
        format!("tcp-request content accept if {{ req.ssl_hello_type 1 }}\n {reject}"),
        format!("tcp-request content accept if tls\n {reject} if TRUE"),
        format!("{reject} if !tls"),
    ] {
        let native = check(&rules, reject, "differently");
        assert!(!native.contains("deny"), "{rules}: {native}");
    }
    let near = "tcp-request content accept if tls { src 10.0.0.0/8 }";
    let native = check(&format!("{near}\n {reject}"), reject, "honoured");
    assert!(native.contains("deny all"), "{native}");
    let by_name = "use_backend c if tls { req.ssl_sni a.test }";
    assert!(check(by_name, "use_backend", "honoured").contains("$ssl_server_name=a.test"));
    for unknown in ["tls", "!tls", "tls or { req.ssl_sni a.test }"] {
        check(&format!("use_backend c if {unknown}"), "use_backend", "refused");
    }
}

#[test]
fn the_forwarded_header_has_the_parts_of_the_option() {
    let check = |frontend: &str, backend: &str, expected: &str| {
        let imported = proxies(frontend, backend);
        let native = imported.native().replace('"', "");
        let line = native.lines().find(|line| line.contains("header add Forwarded"));
        let shown = line.map_or("", |line| line.trim());
        assert_eq!(shown, expected, "{frontend} {backend}");
        imported
    };
    check("", "", "");
    let usual = "header add Forwarded proto=${scheme};for=${v_forwarded_address};";
    let imported = check("option forwarded", "", usual);
    assert_eq!(outcome(&imported.coverage, "option forwarded").0, "honoured");
    config(imported);
    // That of the backend comes first, in HAProxy's order of the parts.
    let both = "header add Forwarded host=${v_forwarded_host};by=${v_forwarded_address};for=${v_forwarded_address_n2};";
    config(check("option forwarded", "option forwarded for for_port by host", both));
    let imported = check("option forwarded by-expr src", "", "");
    assert_eq!(outcome(&imported.coverage, "option forwarded").0, "refused");
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

#[test]
fn times_of_some_requests_are_those_of_routes() {
    let lines = "http-request set-timeout server 5s if { path_beg /a }\n http-request set-timeout tunnel 9s if { path_beg /a }";
    let imported = proxies("", lines);
    assert_eq!(outcome(&imported.coverage, "http-request set-timeout").0, "honoured");
    // One line has both times, because a route has only one.
    let native = imported.native();
    let line = native.lines().find(|line| line.contains("tunnel=9s")).unwrap();
    assert!(line.contains("response=5s") && line.contains("read=5s"), "{line}");
    assert_eq!(native.matches("tunnel=9s").count(), 1, "{native}");
    config(imported);
    let check = |words: &str, reason: &str| {
        let imported = proxies("", &format!("http-request set-timeout {words}"));
        let (word, found) = outcome(&imported.coverage, "http-request set-timeout");
        assert!(word == "refused" && found.contains(reason), "{words}: {word} {found}");
    };
    check("server hdr(x-time)", "`hdr(x-time)` is an expression");
    check("client 5s", "`timeout client`");
    check("server 0", "of 0");
    check("frob 5s", "neither");
    // A frontend has no times of servers, but may inherit those of its `defaults`.
    let rule = "http-request set-timeout server 5s";
    let imported = proxies(rule, "");
    let (word, reason) = outcome(&imported.coverage, "http-request set-timeout");
    assert!(word == "refused" && reason.contains("in the backends"), "{word} {reason}");
    let inherited = text(&format!(
        "defaults d\n mode http\n timeout client 1s\n timeout connect 1s\n timeout server 1s\n \
         {rule}\nfrontend f from d\n bind 127.0.0.1:1\n default_backend b\n\
         defaults e\n mode http\n timeout connect 1s\n timeout server 1s\n\
         backend b from e\n server s 127.0.0.1:2\n"
    ));
    assert_eq!(outcome(&inherited.coverage, "http-request set-timeout").0, "honoured");
    assert!(inherited.native().contains("read=5s"), "{}", inherited.native());
}

#[test]
fn rules_that_wait_say_that_they_do_not() {
    for words in ["WAIT_END", "{ wait_end }"] {
        let imported = proxies(&format!("tcp-request content accept if {words}"), "");
        let (word, reason) = outcome(&imported.coverage, "tcp-request content");
        assert!(word == "differently" && reason.contains("`inspect-delay`"), "{word} {reason}");
    }
}

#[test]
fn a_rule_that_closes_connections_of_clients_says_what_to_write() {
    let check = |rule: &str, reason: &str| {
        let imported = proxies(&format!("{rule} set-header Connection close"), "");
        let (word, found) = outcome(&imported.coverage, rule);
        assert!(word == "differently" && found.contains(reason), "{rule}: {word} {found}");
    };
    check("http-request", "`option http-server-close`");
    check("http-response", "stays open");
    check("http-after-response", "`option httpclose`");
}
