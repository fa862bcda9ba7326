//! The meaning of lines in HAProxy where the differential suite cannot see it.

use weir_config::model::{AdminAccess, Role};
use weir_import::{HaproxyVersion, haproxy_bytes};

use super::{config, outcome, proxies, statuses, text};

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
