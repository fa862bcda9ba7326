//! Options of servers: agents, servers that follow others, and statuses of checks that drain.

use weir_config::model::{AgentCheck, Check, EndpointCheck};

use super::{config, outcome, proxies, text};

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
