//! Options of servers: agents, servers that follow others, statuses of checks that drain, addresses
//! that connections come from, and the names that servers are asked for.

use weir_config::model::{AgentCheck, Check, EndpointCheck, OnDown, OnUp};

use super::{config, of_version, outcome, proxies, text};

#[test]
fn agents_are_asked_by_the_pool() {
    let agents = |servers: &str| {
        let imported = proxies("", servers);
        let (word, reason) = outcome(&imported.coverage, "server t");
        assert_ne!(word, "refused", "{servers}: {reason}");
        let pool = config(imported).pools.remove(0);
        let own: Vec<EndpointCheck> =
            pool.endpoints.into_iter().map(|server| server.agent).collect();
        (pool.agent_check, own)
    };
    let at = |text: &str| EndpointCheck::At(weir_config::endpoint_address(text).unwrap());
    let (check, own) = agents(
        "timeout check 500ms\n server t 127.0.0.1:3 agent-check agent-port 99 agent-inter 3s agent-send \"t\\n\"",
    );
    let check = check.unwrap();
    let expected = AgentCheck {
        port: Some(99),
        interval: std::time::Duration::from_secs(3),
        timeout: std::time::Duration::from_millis(500),
        send: Some("t\n".to_owned()),
    };
    assert_eq!(check, expected);
    assert_eq!(own, [EndpointCheck::Off, EndpointCheck::Own]);
    let (check, own) = agents(
        "default-server agent-check agent-port 7\n server t 10.0.0.1:80\n server u 10.0.0.2:80 agent-port 8\n server v 10.0.0.3:80 agent-addr ::1\n server w 10.0.0.4:80 no-agent-check",
    );
    assert_eq!(check.unwrap().port, Some(7));
    assert_eq!(own[1..], [EndpointCheck::Own, at("10.0.0.2:8"), at("[::1]:7"), EndpointCheck::Off]);
    assert_eq!(agents("server t 10.0.0.1:80 agent-port 7").0, None);
    let refused = |server: &str, expected: &str| {
        let imported = proxies("", &format!("server t 127.0.0.1:3 {server}"));
        let (word, reason) = outcome(&imported.coverage, "server t");
        assert!(word == "refused" && reason.contains(expected), "{server}: {word} {reason}");
        config(imported);
    };
    refused("agent-check", "`agent-port`");
    refused("agent-check agent-port 0", "another value");
    refused("agent-check agent-port 7 agent-addr agent.test", "IP address");
}

#[test]
fn revoked_certificates_of_servers_are_those_of_the_list() {
    let tls = |options: &str| {
        let imported = text(&format!(
            "listen l\n mode http\n bind 127.0.0.1:1\n server t 127.0.0.1:3 ssl ca-file /ca.pem {options}\n"
        ));
        config(imported).pools.remove(0).tls.unwrap()
    };
    assert_eq!(tls("verify required crl-file /crl.pem").crl, Some("/crl.pem".into()));
    assert_eq!(tls("verify none crl-file /crl.pem").crl, None);
}

#[test]
fn a_server_that_tracks_another_has_its_check() {
    let pools = |server: &str| {
        text(&format!(
            "defaults\n mode http\n timeout client 1s\n timeout connect 1s\n timeout server 1s\n\
             frontend f\n bind 127.0.0.1:1\n use_backend b if {{ path /b }}\n default_backend a\n\
             backend a\n option httpchk GET /alive\n server x 10.0.0.1:80 check inter 7s\n server plain 10.0.0.3:80\n server named host.test:80 check\n server moved host.test:80 check addr 10.0.0.9\n\
             backend b\n option httpchk GET /own\n server y 10.0.0.2:81 {server}\n"
        ))
    };
    let imported = pools("track a/x");
    assert_eq!(outcome(&imported.coverage, "server y").0, "differently");
    assert_eq!(outcome(&imported.coverage, "option httpchk GET /own").0, "ignored");
    let mut pools_of = config(imported).pools;
    pools_of.sort_by(|one, other| one.name.cmp(&other.name));
    let (a, b) = (&pools_of[0], &pools_of[1]);
    // The port is in the address of the server.
    let without_port = |check: &Option<Check>| Check { port: None, ..check.clone().unwrap() };
    assert_eq!(without_port(&a.check), without_port(&b.check));
    let at = weir_config::endpoint_address("10.0.0.1:80").unwrap();
    assert_eq!(b.endpoints[0].check, EndpointCheck::At(at));
    // Of a server with a name and an address for probes alone, the port is that of its traffic.
    let imported = pools("track a/moved");
    assert_eq!(outcome(&imported.coverage, "server y").0, "differently");
    let check = config(imported).pools.into_iter().find(|pool| pool.name == "b").unwrap();
    let at = weir_config::endpoint_address("10.0.0.9:80").unwrap();
    assert_eq!(check.endpoints[0].check, EndpointCheck::At(at));
    for (server, expected) in [
        ("track a/plain", "no `check`"),
        ("track a/none", "no server `a/none`"),
        ("track none/x", "no backend `none`"),
        ("track a/named", "has a name"),
        ("track a/x check", "exclude each other"),
    ] {
        let imported = pools(server);
        let (word, reason) = outcome(&imported.coverage, "server y");
        assert!(word == "refused" && reason.contains(expected), "{server}: {word} {reason}");
    }
}

#[test]
fn a_status_of_a_probe_drains_a_server() {
    let drains = |lines: &str| {
        let imported = proxies("", &format!("{lines}\n server t 127.0.0.1:3 check"));
        let word = outcome(&imported.coverage, "http-check disable-on-404").0;
        let check = config(imported).pools.remove(0).check.unwrap();
        (word, check.drain_on.map(|statuses| statuses.to_string()))
    };
    let line = "http-check disable-on-404";
    assert_eq!(drains(&format!("option httpchk\n {line}")), ("honoured", Some("404".to_owned())));
    assert_eq!(drains(line), ("ignored", None));
}

#[test]
fn connections_come_from_the_address_of_the_file() {
    let sources = |backend: &str| {
        let imported = proxies("", backend);
        let pool = config(imported).pools.remove(0);
        let own: Vec<_> = pool.endpoints.iter().map(|server| pool.source_of(server)).collect();
        own.into_iter().map(|source| source.map(|at| at.to_string())).collect::<Vec<_>>()
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(sources(""), [None]);
    assert_eq!(sources("source 127.0.0.9"), [some("127.0.0.9:0")]);
    assert_eq!(
        sources("source ipv4@127.0.0.9:7000\n server t 127.0.0.1:3 source 127.0.0.8"),
        [some("127.0.0.9:7000"), some("127.0.0.8:0")]
    );
    // The kernel chooses the address of one server, whatever holds for the others.
    for any in ["*", "0.0.0.0"] {
        let lines = format!("source 127.0.0.9\n server t 127.0.0.1:3 source {any}");
        assert_eq!(sources(&lines), [some("127.0.0.9:0"), None]);
    }
    for (line, expected) in [
        ("source 127.0.0.9 usesrc clientip", "`usesrc`"),
        ("source 127.0.0.9 interface eth0", "`interface`"),
        ("source 127.0.0.9:1000-2000", "no ports"),
        ("source host.test", "no address"),
        ("source", "write `source ADDRESS`"),
    ] {
        let imported = proxies("", line);
        let (word, reason) = outcome(&imported.coverage, "source");
        assert!(word == "refused" && reason.contains(expected), "{line}: {word} {reason}");
    }
}

/// Returns the outcome of a server in a file for a version, and the names that it is asked for:
/// that of each request, and its own.
fn names(version: &str, options: &str) -> (&'static str, String, [Option<String>; 2]) {
    let line = format!("server t 127.0.0.1:3 ssl verify none {options}");
    let file = format!(
        "defaults\n timeout client 1s\n timeout connect 1s\n timeout server 1s\nlisten l\n mode http\n bind 127.0.0.1:1\n {line}\n"
    );
    let version = weir_import::HaproxyVersion::parse(version).unwrap();
    let imported = of_version(&file, version);
    let (word, reason) = outcome(&imported.coverage, "server t");
    let reason = reason.to_owned();
    let mut pool = config(imported).pools.remove(0);
    let name = pool.tls.unwrap().request_name.map(|name| name.as_str().to_owned());
    (word, reason, [name, pool.endpoints.remove(0).host])
}

#[test]
fn a_request_may_decide_the_name_that_its_server_is_asked_for() {
    let check = |options: &str, by_request: Option<&str>, own: Option<&str>| {
        let (word, reason, found) = names("2.6", options);
        assert_eq!((word, found[0].as_deref()), ("honoured", by_request), "{options}: {reason}");
        assert_eq!(found[1].as_deref(), own, "{options}");
    };
    check("", None, None);
    check("sni req.hdr(host)", Some("${http_host}"), None);
    check("sni ssl_fc_sni", Some("${ssl_server_name}"), None);
    check("sni str(a.test)", None, Some("a.test"));
    check("sni str(a.test) verifyhost a.test", None, Some("a.test"));
    // The last one holds.
    check("sni req.hdr(host) sni str(a.test)", None, Some("a.test"));
    check("sni str(a.test) sni req.hdr(host)", Some("${http_host}"), None);
    check("check check-sni b.test sni req.hdr(host)", Some("${http_host}"), Some("b.test"));
    for (options, expected) in [
        ("sni frob", "`frob`"),
        ("sni req.hdr(host) verifyhost a.test", "`verifyhost`"),
        ("sni str(b.test) verifyhost a.test", "verifies the name that it asks for"),
        ("sni int(1)", "the same for all"),
    ] {
        let (word, reason, _) = names("2.6", options);
        assert!(word == "refused" && reason.contains(expected), "{options}: {word} {reason}");
    }
}

#[test]
fn servers_are_asked_for_the_host_of_the_request_from_3_3_on() {
    let check = |version: &str, options: &str, expected: (&str, Option<&str>, Option<&str>)| {
        let (word, reason, [by_request, own]) = names(version, options);
        let found = (word, by_request.as_deref(), own.as_deref());
        assert_eq!(found, expected, "{version} {options}: {reason}");
    };
    let by_host = Some("${http_host}");
    check("3.2", "", ("honoured", None, None));
    check("3.3", "", ("honoured", by_host, None));
    check("3.4", "no-sni-auto", ("honoured", None, None));
    check("3.2", "sni-auto", ("honoured", by_host, None));
    check("3.4", "sni str(a.test)", ("honoured", None, Some("a.test")));
    check("3.4", "sni ssl_fc_sni", ("honoured", Some("${ssl_server_name}"), None));
    check("3.4", "verifyhost a.test", ("differently", None, Some("a.test")));
}

#[test]
fn sessions_at_backups_end_when_a_server_is_back_where_the_file_says_so() {
    let option = "on-marked-up shutdown-backup-sessions";
    let on_up = |lines: &str| {
        let imported = proxies("", lines);
        (outcome(&imported.coverage, "server t").0, config(imported).pools.remove(0).on_up)
    };
    assert_eq!(on_up("server t 127.0.0.1:3").1, OnUp::Keep);
    let lines = format!("server t 127.0.0.1:3 {option}\n server u 127.0.0.1:4 backup");
    assert_eq!(on_up(&lines), ("honoured", OnUp::CloseBackups));
    // A backup that comes up ends nothing.
    assert_eq!(on_up(&format!("server t 127.0.0.1:3 backup {option}")).1, OnUp::Keep);
    let imported = proxies("", "server t 127.0.0.1:3 on-marked-up frob");
    assert_eq!(outcome(&imported.coverage, "server t").0, "refused");
}

#[test]
fn sessions_of_servers_that_go_down_end_where_the_file_says_so() {
    let check = |options: [&str; 2], expected: OnDown, words: [&str; 2]| {
        let [one, two] = options;
        let servers = format!("server t 127.0.0.1:3 {one}\n server u 127.0.0.1:4 {two}");
        let imported = proxies("", &servers);
        let found = ["server t", "server u"].map(|line| outcome(&imported.coverage, line).0);
        assert_eq!(found, words, "{servers}");
        assert_eq!(config(imported).pools.remove(0).on_down, expected, "{servers}");
    };
    let option = "on-marked-down shutdown-sessions";
    check(["", ""], OnDown::Keep, ["honoured"; 2]);
    check([option, option], OnDown::Close, ["honoured"; 2]);
    check(["", option], OnDown::Close, ["differently", "honoured"]);
    let imported = proxies("", "server t 127.0.0.1:3 on-marked-down frob");
    assert_eq!(outcome(&imported.coverage, "server t").0, "refused");
}

#[test]
fn servers_have_the_version_of_their_protocol() {
    use weir_config::model::UpstreamHttp::{Auto, Http1, Http2};
    let check = |options: &str, expected, word: &str, part: &str| {
        let imported = text(&format!(
            "listen l\n mode http\n bind 127.0.0.1:1\n server t 127.0.0.1:3 {options}\n"
        ));
        let (found, reason) = outcome(&imported.coverage, "server t");
        assert!(found == word && reason.contains(part), "{options}: {found} {reason}");
        let pool = config(imported).pools.remove(0);
        assert_eq!(pool.http_of(&pool.endpoints[0]), expected, "{options}");
    };
    check("proto h2", Http2, "honoured", "");
    check("proto h1", Http1, "honoured", "");
    check("ssl verify none alpn h2,http/1.1 no-sni-auto", Auto, "honoured", "");
    check("ssl verify none alpn h2 no-sni-auto", Http2, "differently", "has to choose HTTP/2");
    check("alpn h2,http/1.1", Http1, "honoured", "");
    check("proto h2 ws h1", Http2, "differently", "`ws h1`");
    check("ws h2", Http1, "differently", "`ws h2`");
    let refused = |lines: &str, directive: &str, part: &str| {
        let imported = text(&format!("listen l\n mode http\n bind 127.0.0.1:1\n {lines}\n"));
        let (word, reason) = outcome(&imported.coverage, directive);
        assert!(word == "refused" && reason.contains(part), "{lines}: {word} {reason}");
    };
    refused("server t 127.0.0.1:3 proto fcgi", "server t", "FastCGI");
    refused("http-reuse never\n server t 127.0.0.1:3 proto h2", "http-reuse", "share");
    refused("server t 127.0.0.1:3 proto h2 send-proxy", "server t", "PROXY protocol");
    let probes = "option httpchk\n server t 127.0.0.1:3 proto h2 check check-proto h1";
    refused(probes, "server t", "same version");
}

#[test]
fn a_limit_that_grows_with_the_load_is_the_highest_at_any() {
    let check = |options: &str, limit: Option<u32>, server: &str, full: &str| {
        let imported = proxies("", &format!("fullconn 50\n server t 127.0.0.1:3 {options}"));
        assert_eq!(outcome(&imported.coverage, "server t").0, server, "{options}");
        assert_eq!(outcome(&imported.coverage, "fullconn").0, full, "{options}");
        let config = config(imported);
        let servers = &config.pools[0].endpoints;
        let found = servers.iter().find(|server| server.name == "t").unwrap();
        assert_eq!(found.max_conn, limit, "{options}");
    };
    check("minconn 5", Some(5), "honoured", "ignored");
    check("minconn 9 maxconn 9", Some(9), "honoured", "ignored");
    check("minconn 9 maxconn 5", Some(9), "honoured", "ignored");
    check("maxconn 9", Some(9), "honoured", "ignored");
    check("minconn 5 maxconn 9", Some(9), "differently", "differently");
    check("", None, "honoured", "ignored");
}
