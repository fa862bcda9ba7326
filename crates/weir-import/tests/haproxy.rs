//! The HAProxy front end from outside: the report, the sections and their inheritance, the printed
//! files whole and damaged, the native form, and bad input.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use weir_config::Config;
use weir_config::model::{
    Action, Http2Mode, Protocol, ProxyTlv, Route, Rule, SendProxy, ServedNames,
};
use weir_config::source::Mappings;
use weir_import::{
    Coverage, CoverageTotals, HaproxyVersion, Imported, Language, haproxy_bytes, haproxy_file,
};

#[path = "haproxy/bounds.rs"]
mod bounds;
#[path = "haproxy/checks.rs"]
mod checks;
#[path = "haproxy/client_certificates.rs"]
mod client_certificates;
#[path = "haproxy/meaning.rs"]
mod meaning;
#[path = "haproxy/responses.rs"]
mod responses;
#[path = "haproxy/servers.rs"]
mod servers;
#[path = "haproxy/statistics.rs"]
mod statistics;
#[path = "haproxy/values.rs"]
mod values;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/haproxy").join(name)
}

fn read(name: &str) -> Imported {
    haproxy_file(&file(name), HaproxyVersion::LATEST, Mappings::default())
        .unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

/// A `listen` with these lines, whose servers use TLS.
fn listen(lines: &str) -> Imported {
    text(&format!("listen l\n mode http\n bind 127.0.0.1:1\n timeout server 1s\n{lines}\n"))
}

fn text(text: &str) -> Imported {
    of_version(text, HaproxyVersion::LATEST)
}

fn of_version(text: &str, version: HaproxyVersion) -> Imported {
    haproxy_bytes("/etc/haproxy/haproxy.cfg", text.as_bytes(), version)
        .unwrap_or_else(|errors| panic!("{}\n{text}", errors.render(false)))
}

/// A frontend with these lines, and a backend with those.
fn proxies(frontend: &str, backend: &str) -> Imported {
    text(&format!(
        "defaults\n mode http\n timeout client 1s\n timeout connect 1s\n timeout server 1s\n\
         frontend f\n bind 127.0.0.1:1\n default_backend b\n{frontend}\n\
         backend b\n server s 127.0.0.1:2\n{backend}\n"
    ))
}

fn config(imported: Imported) -> Config {
    imported.check().unwrap_or_else(|errors| panic!("{}", errors.render(false))).config
}

/// Returns the word and the reason for the first line that begins with this text.
/// The statuses of the responses that a configuration's first listener gives itself, in order.
fn statuses(config: &Config) -> Vec<u16> {
    let status = |route: &Route| match &route.action {
        Action::Respond(respond) => Some(respond.status),
        _ => None,
    };
    config.listeners[0].default.iter().filter_map(status).collect()
}

fn outcome<'c>(coverage: &'c Coverage, directive: &str) -> (&'static str, &'c str) {
    let entry = coverage.entries.iter().find(|entry| entry.directive.starts_with(directive));
    let entry = entry.unwrap_or_else(|| panic!("no {directive} in\n{}", coverage.text()));
    (entry.outcome.word(), entry.outcome.reason())
}

#[test]
fn every_line_of_a_file_has_an_outcome_and_a_number() {
    let coverage = read("shop.cfg").coverage;
    let totals = coverage.totals();
    assert_eq!(
        totals,
        CoverageTotals { honoured: 51, differently: 5, ignored: 6, refused: 0 },
        "{}",
        coverage.text()
    );
    let check = |directive: &str, word: &str, reason: &str| {
        let found = outcome(&coverage, directive);
        assert!(found.0 == word && found.1.contains(reason), "{directive}: {found:?}");
    };
    check("stats socket", "differently", "HAProxy's commands");
    check("tune.ssl", "ignored", "tunes");
    check("bind *:443", "honoured", "");
    check("cookie SRV", "honoured", "");
    check("server a1", "differently", "again and again");
    check("backend old", "ignored", "uses it");
    check("timeout queue", "ignored", "nothing");
    check("listen database", "honoured", "");
    let mut entries = coverage.entries.iter();
    let entry = entries.find(|entry| entry.directive.starts_with("server d1"));
    assert_eq!(entry.unwrap().line, 70);
}

#[test]
fn the_printed_files_run_with_nothing_refused() {
    let imported = read("threads.cfg");
    let totals = imported.coverage.totals();
    assert_eq!((totals.refused, totals.ignored), (0, 0), "{}", imported.coverage.text());
    // HAProxy warns that the redirect of a frontend in mode `tcp` is ignored, and yet redirects.
    let (word, reason) = outcome(&imported.coverage, "frontend Local_Server");
    assert!(word == "differently" && reason.contains("makes HTTP"), "{reason}");
    assert_eq!(outcome(&imported.coverage, "redirect scheme").0, "honoured");
    let config = config(imported);
    let [plain, tls] = config.listeners.as_slice() else { panic!("{:?}", config.listeners.len()) };
    assert!(
        matches!(&plain.default[0].action, Action::Redirect(redirect) if redirect.status == 301)
    );
    assert!(matches!(&tls.default[0].action, Action::Pool(_)));
    assert_eq!(config.max_connections, Some(4096));
}

#[test]
fn the_damaged_file_has_an_error_for_each_line_and_a_repair() {
    let errors = haproxy_file(&file("damaged.cfg"), HaproxyVersion::LATEST, Mappings::default())
        .unwrap_err();
    let said = errors.render(false);
    assert_eq!(errors.count(), 12, "{said}");
    for expected in [
        "damaged.cfg:2:5",
        "damaged.cfg:16:5",
        "damaged.cfg:20:10",
        "help: write `global` on a line of its own before it",
        "help: write `defaults` on a line of its own before it",
        "this `bind` has no address",
        "help: write `bind *:443 ssl crt /etc/ssl/certs/bundle-hapee.pem`",
    ] {
        assert!(said.contains(expected), "{expected}:\n{said}");
    }
    let text = std::fs::read_to_string(file("damaged.cfg")).unwrap();
    assert_eq!(Language::of(&text), Language::Haproxy);
}

#[test]
fn the_native_form_checks_and_is_the_same_configuration() {
    for name in ["shop.cfg", "threads.cfg"] {
        let imported = read(name);
        let native = imported.native();
        let parsed = weir_config::parse_str("/native.conf", &native);
        let parsed = parsed.unwrap_or_else(|errors| panic!("{}\n{native}", errors.render(false)));
        assert_eq!(weir_config::to_json(&parsed.config), weir_config::to_json(&config(imported)));
    }
}

#[test]
fn defaults_of_haproxy_are_set_and_listed() {
    let imported = proxies("", "");
    let listed: Vec<&str> =
        imported.coverage.defaults.iter().map(|default| default.directive).collect();
    for name in ["balance", "retries", "tune.bufsize", "option redispatch"] {
        assert!(listed.contains(&name), "{name} in {listed:?}");
    }
    let config = config(imported);
    let pool = &config.pools[0];
    assert_eq!(pool.timeouts.response.as_secs(), 1);
    assert_eq!(pool.stall.factor, 0);
    let listener = &config.listeners[0];
    assert!(!listener.path.normalize && !listener.forwarded.x_forwarded);
    assert_eq!(listener.timeouts.body.as_secs(), 1);
}

#[test]
fn the_default_policy_is_that_of_the_assumed_version() {
    let policy = |version: &str| {
        let version = HaproxyVersion::parse(version).unwrap();
        let text = "listen l\n mode http\n bind 127.0.0.1:1\n server s 127.0.0.1:2\n";
        let imported = haproxy_bytes("/h.cfg", text.as_bytes(), version).unwrap();
        format!("{:?}", config(imported).pools[0].policy)
    };
    assert!(policy("3.2").contains("RoundRobin"), "{}", policy("3.2"));
    assert!(policy("3.3").contains("Random"), "{}", policy("3.3"));
}

#[test]
fn sections_inherit_the_defaults_that_they_name_or_the_last_before_them() {
    let imported = text(
        "defaults slow\n mode http\n timeout server 9s\n retries 0\n\
         defaults quick from slow\n timeout server 1s\n\
         listen a from slow\n bind 127.0.0.1:1\n server s 127.0.0.1:2\n\
         listen b\n bind 127.0.0.1:3\n server s 127.0.0.1:2\n\
         defaults\n mode http\n\
         listen c\n bind 127.0.0.1:4\n timeout server 2s\n timeout server 3s\n server s 127.0.0.1:2\n",
    );
    assert_eq!(outcome(&imported.coverage, "timeout server 2s").0, "ignored");
    let config = config(imported);
    let times: Vec<u64> =
        config.pools.iter().map(|pool| pool.timeouts.response.as_secs()).collect();
    assert_eq!(times, [9, 1, 3]);
    let retries: Vec<u32> = config.pools.iter().map(|pool| pool.retry.attempts).collect();
    assert_eq!(retries, [0, 0, 3]);
}

#[test]
fn conditional_blocks_are_resolved_before_sections() {
    let imported = text(
        "global\n.if version_atleast(2.4) && !streq(a,b)\n maxconn 7\n.else\n nonsense 'open\n.endif\n\
         .if defined(NOT_SET)\n maxconn 8\n.elif (0 || 1)\n tune.x 1\n.else\n maxconn 9\n.endif\n\
         listen l\n mode http\n bind 127.0.0.1:1\n server s 127.0.0.1:2\n",
    );
    assert_eq!(config(imported).max_connections, Some(7));
}

#[test]
fn errors_of_syntax_name_their_place() {
    let check = |text: &str, expected: &[&str]| {
        let errors = haproxy_bytes("/h.cfg", text.as_bytes(), HaproxyVersion::LATEST).unwrap_err();
        let said = errors.render(false);
        for expected in expected {
            assert!(said.contains(expected), "{expected} in\n{said}");
        }
    };
    check("global\n.if 1\n", &["/h.cfg:2:1", "no `.endif`"]);
    check("global\n.endif\n", &["/h.cfg:2:1", "no `.if`"]);
    check("global\n.if nonsense(1)\n.endif\n", &["not a predicate", "defined(NAME)", "strstr("]);
    check("global\n.if define(A)\n.endif\n", &["`define` is not", "did you mean `defined`"]);
    check("global\n.iff 1\n", &["`.iff` is not known", "did you mean `.if`"]);
    check("global\n user 'a\n", &["/h.cfg:2:7", "never closed"]);
    check("frontend\n", &["has no name"]);
    check("backend b from x\n", &["no `defaults x`"]);
    check("backend b\nlisten b\n", &["second backend `b`", "first here"]);
    check("backend b\n bind\n", &["no address", "bind *:80"]);
    check("global\n.alert \"not here\"\n", &["the file says: not here"]);
}

#[test]
fn sections_in_mode_tcp_become_listeners_that_pass_on_bytes() {
    let imported = text(
        "defaults\n mode tcp\n timeout connect 1s\n timeout client 2m\n timeout server 5m\n\
         timeout client-fin 7s\n timeout server-fin 9s\n\
         frontend f\n bind 127.0.0.1:1 accept-proxy\n option tcplog\n \
         tcp-request inspect-delay 3s\n tcp-request content accept if { req_ssl_hello_type 1 }\n \
         tcp-request connection reject if { src 10.9.0.0/16 }\n \
         use_backend b if { req.ssl_sni -i a.test } { src 10.0.0.0/8 }\n default_backend c\n\
         backend b\n server s 10.0.0.1:1 send-proxy-v2 check\n\
         backend c\n timeout tunnel 1h\n server s 10.0.0.2:1 maxconn 5\n",
    );
    assert_eq!(imported.coverage.totals().refused, 0, "{}", imported.coverage.text());
    let config = config(imported);
    let listener = &config.listeners[0];
    assert_eq!((listener.protocol, listener.proxy_protocol.len()), (Protocol::Tcp, 2));
    assert_eq!(listener.timeouts.handshake.as_secs(), 3);
    let half_closed = [listener.timeouts.half_closed, config.pools[0].timeouts.half_closed];
    assert_eq!(half_closed.map(|wait| wait.map(|wait| wait.as_secs())), [Some(7), Some(9)]);
    let [rejected, named, rest] = &listener.default[..] else { panic!("{:?}", listener.default) };
    assert_eq!((rejected.access.len(), named.access.len()), (1, 0));
    let tunnel = |route: &Route| route.upstream.timeouts.tunnel.map(|wait| wait.as_secs());
    assert_eq!([tunnel(named), tunnel(rest)], [Some(120), None]);
    let Rule::All(tests) = &named.when else { panic!("{:?}", named.when) };
    assert!(matches!(&tests[..], [Rule::Variable(..), Rule::Client(_)]), "{tests:?}");
    let pools: Vec<_> = config.pools.iter().map(|pool| (&*pool.name, pool.send_proxy)).collect();
    assert_eq!(pools, [("b", Some(SendProxy::V2)), ("c", None)]);
    assert_eq!(config.pools[0].proxy_tlvs, [ProxyTlv::Alpn]);
    assert_eq!(config.pools[1].timeouts.tunnel.as_secs(), 3600);
}

#[test]
fn values_of_a_proxy_header_are_those_of_the_server() {
    use ProxyTlv::{Alpn, Authority, Crc32c, Tls, UniqueId};
    let sent = |options: &str| {
        let (frontend, times) = ("frontend f\n bind 127.0.0.1:1\n default_backend b\n", "1s");
        text(&format!(
            "defaults\n mode tcp\n timeout client {times}\n timeout connect {times}\n \
             timeout server {times}\n{frontend}backend b\n server s 10.0.0.1:1 {options}\n"
        ))
    };
    let tlvs = |options: &str| {
        let imported = sent(options);
        let report = imported.coverage.text();
        assert_eq!(imported.coverage.totals().refused, 0, "{options}: {report}");
        let pool = &config(imported).pools[0];
        (pool.send_proxy, pool.proxy_tlvs.clone())
    };
    let v2 = Some(SendProxy::V2);
    assert_eq!(tlvs("send-proxy-v2-ssl"), (v2, vec![Alpn, Tls]));
    let options = "send-proxy-v2 proxy-v2-options ssl,ssl-cipher,crc32c,unique-id,authority";
    assert_eq!(tlvs(options), (v2, vec![Alpn, Tls, Crc32c, UniqueId, Authority]));
    let imported = sent(options);
    let (word, reason) = outcome(&imported.coverage, "server s");
    assert!(word == "differently" && reason.contains("`unique-id-format`"), "{word} {reason}");
    assert_eq!(tlvs("send-proxy proxy-v2-options ssl"), (Some(SendProxy::V1), vec![]));
    assert_eq!(tlvs("send-proxy-v2-ssl no-send-proxy-v2-ssl"), (None, vec![]));
    let cn = sent("send-proxy-v2 proxy-v2-options cert-cn");
    assert!(cn.coverage.text().contains("tells no certificate"), "{}", cn.coverage.text());
}

#[test]
fn what_is_not_converted_is_refused_by_name() {
    let check = |frontend: &str, backend: &str, directive: &str, reason: &str| {
        let imported = proxies(frontend, backend);
        let (word, found) = outcome(&imported.coverage, directive);
        assert_eq!(word, "refused", "{frontend}{backend}");
        assert!(found.contains(reason), "{frontend}{backend}: {found}");
    };
    check("frobnicate on", "", "frobnicate", "not known");
    check("option httplgo", "", "option httplgo", "did you mean `option httplog`");
    check("nbthread 2", "", "nbthread", "belong");
    check("use_backend none if TRUE", "", "use_backend", "no backend `none`");
    check("use_backend b if { nbsrv(none) lt 1 }", "", "use_backend", "no backend `none`");
    check("use_backend b if { nbsrv lt 1 }", "", "use_backend", "nbsrv(NAME)");
    check("use_backend b if made_up", "", "use_backend", "no ACL `made_up`");
    check("use_backend none-%[hdr(host)]", "", "use_backend", "no backend has a name");
    check("http-request set-var(proc.a) src", "", "http-request set-var", "`global` only");
    check("http-request set-var(a) src", "", "http-request set-var", "scopes");
    check("http-request set-header X-A %[src,frob]", "", "http-request set-header", "`frob`");
    check("http-request set-header X-A %[path,map(/none)]", "", "http-request", "cannot read");
    check("http-request track-sc0 src", "", "http-request track-sc0", "limit");
    check("http-request auth frob", "", "http-request auth", "realm");
    check("bind 127.0.0.1:3 ssl", "", "bind 127.0.0.1:3", "certificate");
    check("", "server t 127.0.0.1:3 send-proxy", "server t", "PROXY protocol to all servers");
    check("", "server t 127.0.0.1:3 frob 1", "server t", "not known");
    check("", "balance rdp-cookie", "balance", "passed on unread");
    let cookie = |words: &str| format!("cookie A {words}\n server t 127.0.0.1:3 cookie t");
    check("", &cookie("prefix indirect"), "cookie A", "leave it out");
    check("", &cookie("insert attr Partitioned"), "cookie A", "`Partitioned`");
    check("", &cookie("insert domain a.test domain b.test"), "cookie A", "one `domain`");
    check("", "cookie A insert\n server t 127.0.0.1:3 cookie a~b", "server t", "letters");
    check("", "stick-table type ip size 1m", "stick-table", "cookie");
    check("", "mode tcp", "backend b", "requests lead to it");
}

#[test]
fn the_page_of_a_backend_without_servers_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("503.http");
    std::fs::write(&path, "HTTP/1.0 200 OK\r\n\r\nlater").unwrap();
    let imported = text(&format!(
        "defaults\n mode http\n timeout client 1s\n timeout connect 1s\n timeout server 1s\n\
         frontend f\n bind 127.0.0.1:1\n default_backend closed\n\
         backend closed\n errorfile 503 {}\n http-after-response set-header X-A a\n",
        path.display()
    ));
    assert_eq!(outcome(&imported.coverage, "errorfile 503").0, "honoured");
    let (word, reason) = outcome(&imported.coverage, "http-after-response");
    assert!(word == "differently" && reason.contains("in the frontend"), "{word} {reason}");
    let config = config(imported);
    assert_eq!(statuses(&config), [200, 503]);
    assert_eq!(config.listeners[0].default[1].error_targets.len(), 1);
}

#[test]
fn pages_and_name_servers_are_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let page = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let sorry = page("503.http", "HTTP/1.0 503 Sorry\r\n\r\nsorry");
    let (empty, plain) = (page("empty", ""), page("plain", "<html>"));
    let imported = text(&format!(
        "resolvers dns\n nameserver a 127.0.0.1:53\n hold valid 10s\n\
         http-errors site\n errorfile 503 {sorry}\n\
         listen l\n mode http\n bind 127.0.0.1:1\n server s 127.0.0.1:2\n errorfiles site\n\
         errorfile 500 {sorry}\n errorfile 403 {empty}\n errorfile 404 {plain}\n"
    ));
    let coverage = &imported.coverage;
    assert_eq!(outcome(coverage, "nameserver").0, "honoured");
    assert_eq!(outcome(coverage, "errorfile 503").0, "honoured");
    assert_eq!(outcome(coverage, "errorfile 500").0, "honoured");
    assert!(outcome(coverage, "errorfile 403").1.contains("empty file"));
    assert!(outcome(coverage, "errorfile 404").1.contains("status line"));
    let config = config(imported);
    let statuses: Vec<&[u16]> =
        config.listeners[0].error_pages.iter().map(|page| page.statuses.as_slice()).collect();
    assert_eq!(statuses, [&[503]]);
    // The page of 500 has another status, and is a route of its own.
    assert_eq!(config.listeners[0].error_targets.len(), 1);
    // HAProxy answers so if a server cannot be reached.
    assert_eq!(config.pools[0].connect_status, Some(503));
}

#[test]
fn the_headers_of_a_file_are_sent_but_for_those_of_a_connection() {
    let folder = tempfile::tempdir().unwrap();
    let import = |headers: &str, place: &str| {
        let path = folder.path().join("page.http");
        std::fs::write(&path, format!("HTTP/1.1 200 OK\r\n{headers}\r\n\r\nbody")).unwrap();
        proxies(&place.replace("FILE", &path.display().to_string()), "")
    };
    for place in [
        "errorfile 503 FILE",
        "http-error status 503 errorfile FILE",
        "http-request return status 200 errorfile FILE",
    ] {
        let directive = place.split(" status").next().unwrap().trim_end_matches(" FILE");
        let imported = import("Set-Cookie: a=1\r\nset-cookie: b=2", place);
        assert_eq!(outcome(&imported.coverage, directive).0, "honoured");
        let native = imported.native();
        for line in ["set \"Set-Cookie\" \"a=1\"", "add \"set-cookie\" \"b=2\""] {
            assert!(native.contains(&format!("response_header {line}")), "{line}: {native}");
        }
        config(imported);
        for name in ["Keep-Alive", "Upgrade", "TE", "Trailer", "Proxy-Connection"] {
            let imported = import(&format!("X-A: a\r\n{name}: 1"), place);
            let (word, reason) = outcome(&imported.coverage, directive);
            assert!(word == "differently" && reason.contains(name), "{place}: {word} {reason}");
            assert!(imported.native().contains("\"X-A\""), "{place}");
            config(imported);
        }
        for line in ["X-Bad Name: 1", "no-colon"] {
            let imported = import(line, place);
            let (word, reason) = outcome(&imported.coverage, directive);
            assert!(word == "refused" && reason.contains("no header"), "{place}: {word} {reason}");
        }
    }
}

#[test]
fn changes_under_conditions_are_routes_for_each_set_of_them_up_to_a_bound() {
    let rules = |count: usize| {
        (0..count)
            .map(|n| format!("http-request set-header X-{n} 1 if {{ hdr(a{n}) 1 }}\n"))
            .collect::<Vec<_>>()
            .concat()
    };
    assert_eq!(config(proxies(&rules(3), "")).listeners[0].default.len(), 8);
    let both =
        "http-request set-header X-A 1 if METH_POST\nhttp-request set-header X-A 2 if !METH_POST";
    assert_eq!(config(proxies(both, "")).listeners[0].default.len(), 2);
    let imported = proxies(&rules(7), "");
    assert!(outcome(&imported.coverage, "default_backend").1.contains("more than 6 changes"));
}

#[test]
fn a_rule_that_weir_lacks_and_that_keeps_clients_away_closes_the_frontend() {
    let imported = proxies("http-request deny if { src_conn_rate gt 10 }", "");
    assert_eq!(outcome(&imported.coverage, "http-request deny").0, "refused");
    let config = config(imported);
    let action = &config.listeners[0].default[0].action;
    assert!(matches!(action, Action::Respond(respond) if respond.status == 403));
}

#[test]
fn what_a_rule_changed_is_read_changed_by_the_rules_after_it() {
    let check = |lines: &str, directive: &str, expected: &str| {
        let imported = proxies(lines, "");
        assert_eq!(outcome(&imported.coverage, directive).0, expected, "{lines}");
        imported.native()
    };
    let native = check(
        "http-request set-header X-A 1\n http-request deny if { hdr(x-a) 1 }",
        "http-request deny",
        "honoured",
    );
    assert!(!native.contains("header X-A=1") && !native.contains("$headers_x_a"), "{native}");
    check(
        "http-request deny if { hdr(x-a) 1 }\n http-request set-header X-A 1",
        "http-request deny",
        "honoured",
    );
    let native = check(
        "http-request set-path /b%[path]\n use_backend b if { path_beg /b }",
        "use_backend",
        "honoured",
    );
    assert!(native.contains("/b${uri}"), "{native}");
    // An added header has several values, which no text has.
    check(
        "http-request add-header X-A 1\n use_backend b if { hdr(x-a) 1 }",
        "use_backend",
        "refused",
    );
    let native = check(
        "http-request set-query a=%[src]\n http-request set-header X-B %[query]",
        "http-request set-header X-B",
        "honoured",
    );
    assert_eq!(native.matches("a=${remote_addr}").count(), 2, "{native}");
    check(
        "http-request replace-pathq ^/a(.*) /%[src]\n http-request set-header X-B %[query]",
        "http-request set-header X-B",
        "refused",
    );
}

#[test]
fn servers_with_tls_are_verified_unless_the_file_says_otherwise() {
    let verify = |global: &str, options: &str| {
        let imported = text(&format!(
            "global\n {global}\nlisten l\n mode http\n bind 127.0.0.1:1\n server s 127.0.0.1:2 {options}\n"
        ));
        config(imported).pools[0].tls.as_ref().map(|tls| tls.verify)
    };
    assert_eq!(verify("daemon", "ssl"), Some(true));
    assert_eq!(verify("ssl-server-verify none", "ssl"), Some(false));
    assert_eq!(verify("ssl-server-verify none", "ssl verify required"), Some(true));
    assert_eq!(verify("daemon", "ssl verify none"), Some(false));
    assert_eq!(verify("daemon", ""), None);
}

#[test]
fn the_first_available_backup_is_used_unless_the_file_wants_all() {
    let check = |option: &str, expected: &[(u8, bool)]| {
        let servers = "server t 127.0.0.1:3 backup\nserver u 127.0.0.1:4 backup";
        let config = config(proxies("", &format!("{option}\n{servers}")));
        let endpoints = config.pools[0].endpoints.iter();
        let tiers: Vec<_> = endpoints.map(|one| (one.priority, one.backup)).collect();
        assert_eq!(tiers, expected, "{option}");
    };
    check("", &[(0, false), (1, false), (2, false)]);
    check("option allbackups", &[(0, false), (0, true), (0, true)]);
}

#[test]
fn the_language_is_found_by_its_sections() {
    let check = |text: &str, expected: Language| assert_eq!(Language::of(text), expected, "{text}");
    check("global\n  daemon\n", Language::Haproxy);
    check("# c\r\ndefaults\r\n mode http\r\n", Language::Haproxy);
    check("frontend web\n bind :80\n", Language::Haproxy);
    check("backend b from base # c\n", Language::Haproxy);
    check("listen :80 -> 127.0.0.1:1;", Language::Native);
    check("worker_processes 1; events {}", Language::Nginx);
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        import_anything(&bytes);
    }

    #[test]
    fn any_words_are_read(tokens in prop::collection::vec(token(), 0..160)) {
        import_anything(tokens.join(" ").as_bytes());
    }

    #[test]
    fn any_lines_of_proxies_are_read(tokens in prop::collection::vec(token(), 0..80)) {
        let tokens = tokens.join(" ");
        let text = format!("defaults\n mode http\n{tokens}\nfrontend f\n bind 127.0.0.1:1\n{tokens}\n default_backend b\nbackend b\n server s 127.0.0.1:2\n{tokens}");
        import_anything(text.as_bytes());
    }
}

/// Words of the language; `~` is the end of a line.
const TOKENS: &str = r#"
    ~ ~ ~ ~ ~ global defaults frontend backend listen f b from mode http tcp bind *:80 :81 ssl crt a.pem
    [::]:82 v6only server s2 t 127.0.0.1:3 app:80 check inter 2s fall 3 weight 10 maxconn 5 cookie A insert
    indirect nocache rewrite balance roundrobin leastconn hdr(x) uri whole hash-type consistent acl a c
    path_beg /x path_reg ^/(a|b)$ hdr(host) -i x.test { } !{ ssl_fc or || if unless ! src 10.0.0.0/8
    http-request deny redirect scheme https code 301 prefix location set-header X-A %[src] %ci add-header
    del-header return status 200 content-type text/plain string hello use_backend default_backend option
    httplog forwardfor httpchk GET /h http-check expect 200-299 timeout client connect server 5s 0 1d
    retries retry-on all-retryable-errors log global /dev/log local0 info log-format monitor-uri no
    .if 1 .else .endif streq(a,b) stats enable uri http-response tcp-request connection reject accept
    errorfile 503 observe layer7 on-error mark-down verify none sni str(x) allow tarpit default-server
    "q w" 'z' \  dst_port 443 method GET url_param(a) cook(b) nbthread 2 disabled http-after-response
"#;

fn token() -> impl Strategy<Value = String> {
    let words: Vec<String> = TOKENS
        .split_whitespace()
        .map(|word| if word == "~" { "\n".to_owned() } else { word.to_owned() })
        .collect();
    prop_oneof![12 => prop::sample::select(words), 1 => ".{0,6}"]
}

/// Imports bytes; what comes out has to be checkable and printable, whatever it is.
fn import_anything(bytes: &[u8]) {
    let _ = Language::of(&String::from_utf8_lossy(bytes));
    let Ok(imported) = haproxy_bytes("/nonexistent/h.cfg", bytes, HaproxyVersion::LATEST) else {
        return;
    };
    let _ = imported.coverage.text();
    let native = imported.native();
    let own = imported.check().map(|checked| weir_config::to_json(&checked.config));
    let printed = weir_config::parse_str("/nonexistent/native.conf", &native)
        .map(|checked| weir_config::to_json(&checked.config));
    let shown = String::from_utf8_lossy(bytes);
    match (own, printed) {
        (Ok(own), Ok(printed)) => assert_eq!(own, printed, "{shown}\n{native}"),
        (Err(_), Err(_)) => {}
        (Ok(_), Err(errors)) | (Err(errors), Ok(_)) => {
            panic!("{shown}\n{native}\n{}", errors.render(false))
        }
    }
}

#[test]
fn line_ends_and_other_encodings_are_read() {
    let bytes = b"global # caf\xe9\r\n maxconn 5\r\nlisten l # \xff\xfe\r\n mode http\r\n bind 127.0.0.1:1\r\n server s 127.0.0.1:2\r\n";
    let imported = haproxy_bytes("/h.cfg", bytes, HaproxyVersion::LATEST).unwrap();
    assert_eq!(config(imported).max_connections, Some(5));
    let errors =
        haproxy_bytes("/h.cfg", b"global\n user caf\xe9\n", HaproxyVersion::LATEST).unwrap_err();
    assert!(errors.render(false).contains("/h.cfg:2:10"), "{}", errors.render(false));
}

#[test]
fn large_and_deep_files_are_bounded() {
    let errors =
        haproxy_bytes("/h.cfg", ".if 1\n".repeat(1_000_000).as_bytes(), HaproxyVersion::LATEST);
    assert!(errors.unwrap_err().render(false).contains("deeper than"));
    let nested = format!("global\n.if {}1\n.endif\n", "(".repeat(100_000));
    let errors = haproxy_bytes("/h.cfg", nested.as_bytes(), HaproxyVersion::LATEST);
    assert!(errors.unwrap_err().render(false).contains("deeper than"));
    let mut many = String::from("frontend f\n mode http\n bind 127.0.0.1:1\n");
    for number in 0..50_000 {
        let _ = writeln!(many, " acl a{number} path_beg /a{number}");
        let _ = writeln!(many, " use_backend b if a{number}");
    }
    many.push_str("backend b\n mode http\n server s 127.0.0.1:2\n");
    let imported = text(&many);
    assert!(imported.coverage.entries.len() > 100_000);
    // Lines of `defaults` times sections have a bound of their own.
    let mut product = String::from("defaults\n mode http\n");
    for number in 0..2_000 {
        let _ = writeln!(product, " http-request set-header X-{number} 1");
    }
    for number in 0..2_000 {
        let _ = writeln!(
            product,
            "listen l{number}\n bind 127.0.0.1:{}\n server s 127.0.0.1:2",
            number + 1
        );
    }
    let imported = text(&product);
    assert!(imported.coverage.refused().any(|entry| entry.outcome.reason().contains("too large")));
}

#[test]
fn the_page_of_keywords_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/haproxy-keywords.md");
    let page = weir_import::haproxy_reference();
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let current = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(current == page, "docs/haproxy-keywords.md is not current: run with WEIR_BLESS=1");
}

#[test]
fn reports_show_no_passwords() {
    let imported = text(
        "userlist people\n user joe insecure-password hidden groups adm\n user ann password hidden\n\
         frontend f\n mode http\n bind 127.0.0.1:1\n stats auth joe:hidden\n",
    );
    for report in [imported.coverage.text(), imported.coverage.json()] {
        assert!(report.contains("user joe insecure-password … groups adm"), "{report}");
        assert!(report.contains("stats auth …") && !report.contains("hidden"), "{report}");
    }
}

#[test]
fn strict_names_hold_from_the_global_section_or_the_bind_line() {
    for (global, options, names) in [
        ("", "", ServedNames::Any),
        ("", "strict-sni", ServedNames::Certificate),
        ("global\n    ssl-default-bind-options strict-sni\n", "", ServedNames::Certificate),
        ("global\n    ssl-default-bind-options strict-sni\n", "no-strict-sni", ServedNames::Any),
    ] {
        let config = config(text(&format!(
            "{global}frontend f\n mode http\n bind 127.0.0.1:1 ssl crt /c.pem {options}\n default_backend b\n\
             backend b\n mode http\n server s 127.0.0.1:2\n"
        )));
        let found = config.listeners.last().unwrap().tls.as_ref().unwrap().names;
        assert_eq!(found, names, "{global}{options}");
    }
}

#[test]
fn http2_is_offered_where_haproxy_offers_it() {
    for (options, mode) in [
        ("", Http2Mode::Off),
        ("ssl crt /c.pem", Http2Mode::On),
        ("ssl crt /c.pem alpn h2,http/1.1", Http2Mode::On),
        ("ssl crt /c.pem alpn http/1.1", Http2Mode::Off),
        ("ssl crt /c.pem alpn h2", Http2Mode::Only),
        ("ssl crt /c.pem no-alpn", Http2Mode::Off),
        ("proto h2", Http2Mode::Only),
    ] {
        let frontend = format!("bind 127.0.0.1:3 {options}");
        let config = config(proxies(&frontend, ""));
        let listener = config.listeners.last().unwrap();
        assert_eq!(listener.http2_mode(), mode, "{options}");
    }
}

#[test]
fn predefined_acls_are_those_of_haproxy() {
    let tested = |condition: &str| {
        let frontend = format!("http-request deny if {condition}");
        let imported = proxies(&frontend, "server s 127.0.0.1:1");
        let (word, reason) = outcome(&imported.coverage, "http-request deny");
        (word.to_owned(), reason.to_owned(), imported.native())
    };
    let (word, _, of_acl) = tested("HTTP_2.0");
    let (_, _, of_version) = tested("{ req.ver 2.0 }");
    assert_eq!((word.as_str(), of_acl), ("honoured", of_version));
    for bytes in ["REQ_CONTENT", "RDP_COOKIE"] {
        let (word, reason, _) = tested(bytes);
        assert!(word == "refused" && reason.contains("passed on unread"), "{bytes}: {reason}");
    }
}

#[test]
fn a_parameter_in_a_body_is_no_key() {
    let imported = proxies("", "balance url_param id check_post 64\n    server s 127.0.0.1:1");
    let (word, reason) = outcome(&imported.coverage, "balance url_param");
    assert!(word == "differently" && reason.contains("bodies are not looked at"), "{reason}");
}
