//! HAProxy's command line on the admin socket, with the programs that use it: socat, hatop and
//! Prometheus' exporter.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::{Managed, asked};
use crate::support::client::Client;
use crate::support::origin::Origin;
use crate::support::process::{Process, command, finish};
use crate::support::weir::Weir;
use crate::support::{Directory, eventually};

/// Sends a command with socat and returns the response.
pub(crate) fn socat(socket: &Path, input: &str) -> String {
    let address = format!("UNIX-CONNECT:{}", socket.display());
    let mut socat = command("socat");
    // `-t` is the timeout of the response after the end of the input.
    let done = finish(socat.args(["-t", "20", "-", &address]), input.as_bytes());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// Returns a field of a row of `show stat`.
pub(super) fn field(csv: &str, service: &str, name: &str) -> String {
    let header = csv.lines().next().unwrap().trim_start_matches("# ");
    let index = header.split(',').position(|column| column == name).unwrap();
    let row = csv.lines().find(|line| line.split(',').nth(1) == Some(service)).unwrap();
    row.split(',').nth(index).unwrap().to_owned()
}

#[test]
fn scripts_with_socat_see_haproxy_s_format() {
    let managed = Managed::start("", 0);
    managed.answers(8);
    let check = |line: &str, expected: &str| {
        assert_eq!(socat(&managed.socket, &format!("{line}\n")), expected, "{line}");
    };
    let info = socat(&managed.socket, "show info\n");
    assert!(info.starts_with("Name: Weir\nVersion: "), "{info}");
    assert!(info.contains("\nNbthread: 2\n") && info.ends_with("\n\n"), "{info}");
    let stat = socat(&managed.socket, "show stat\n");
    let first = "# pxname,svname,qcur,qmax,scur,smax,slim,stot,bin,bout,dreq,dresp,ereq,econ,eresp,wretr,wredis,status,weight,";
    assert!(stat.starts_with(first), "{stat}");
    assert_eq!(field(&stat, "FRONTEND", "pxname"), "front");
    assert_eq!(field(&stat, "two", "stot"), "6");
    assert_eq!(field(&stat, "two", "weight"), "3");
    assert_eq!(field(&stat, "BACKEND", "act"), "2");
    let fields = stat.lines().next().unwrap().split(',').count();
    for line in stat.lines().filter(|line| !line.is_empty()) {
        assert_eq!(line.split(',').count(), fields, "{line}");
    }
    check("show backend", "# name\napp\n\n");
    check("show cli level", "admin\n\n");
    check("set server app/one state drain", "\n");
    let stat = socat(&managed.socket, "show stat app 4 -1\n");
    assert_eq!(field(&stat, "one", "status"), "DRAIN");
    assert_eq!(managed.answers(4), ["two"]);
    check("set server app/one state ready; set maxconn server app/one 7", "\n\n");
    assert_eq!(managed.json("/v1/pools/app/endpoints/one")["max_conn"], 7);
    check("disable server app/one", "\n");
    assert_eq!(managed.json("/v1/pools/app/endpoints/one")["state"], "maintenance");
    check("enable server app/one", "\n");
    check("get weight app/two", "3 (initial 3)\n\n");
    // A line without a line end, as `printf` sends it.
    assert_eq!(socat(&managed.socket, "show backend"), "# name\napp\n\n");
}

#[test]
fn mistakes_are_told_in_haproxys_words() {
    let managed = Managed::start("", 0);
    let check = |line: &str, expected: &str| {
        assert_eq!(socat(&managed.socket, &format!("{line}\n")), expected, "{line}");
    };
    check("set server app/nine state drain", "No such server.\n\n");
    check("set server nine/one state drain", "No such backend.\n\n");
    check(
        "set server app/one state foo",
        "'set server <srv> state' expects 'ready', 'drain' and 'maint'.\n\n",
    );
    check("set server", "Require 'backend/server'.\n\n");
    check("set weight app/one", "Require <weight> or <weight%>.\n\n");
    check("get weight", "Require 'backend/server'.\n\n");
    check("set maxconn server app/one", "Require <maxconn>.\n\n");
    check("show servers state nine", "Can't find backend.\n\n");
    check("show stat nine 4 -1", "No such proxy.\n\n");
    let unknown = socat(&managed.socket, "bogus\n");
    assert!(unknown.starts_with("Unknown command. Please enter one of"), "{unknown}");
    let near = socat(&managed.socket, "show bogus\n");
    assert!(near.starts_with("Unknown command, but maybe one of the following"), "{near}");
    let help = socat(&managed.socket, "help\n");
    assert!(help.starts_with("The following commands are valid at this level:\n"), "{help}");
}

#[test]
fn a_prompt_stays_until_quit() {
    let managed = Managed::start("", 0);
    let said =
        socat(&managed.socket, "prompt\nshow backend; get weight app/one\n\nquit\nshow info\n");
    let expected = "\n> # name\napp\n\n> 1 (initial 1)\n\n> ";
    assert!(said.starts_with(expected), "{said}");
    assert!(!said.contains("Name: Weir"), "{said}");
}

#[test]
fn the_typed_and_the_json_forms_say_the_same() {
    let managed = Managed::start("", 0);
    let typed = socat(&managed.socket, "show stat typed\n");
    assert!(typed.contains("S.3.2.18.weight.1:MaP:u32:3\n"), "{typed}");
    assert!(typed.contains("F.2.0.1.svname.1:KNS:str:FRONTEND\n"), "{typed}");
    let json = socat(&managed.socket, "show stat json\n");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let weight = json.as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap());
    let weight = weight.filter(|field| field["field"]["name"] == "weight" && field["id"] == 2);
    let weight: Vec<_> = weight.collect();
    assert_eq!(weight[0]["value"], serde_json::json!({"type": "u32", "value": 3}));
    assert_eq!(weight[0]["tags"]["nature"], "Avg");
    let info = socat(&managed.socket, "show info typed\n");
    assert!(info.contains("3.Nbthread.1:CGS:u32:2\n"), "{info}");
    let info: serde_json::Value =
        serde_json::from_str(&socat(&managed.socket, "show info json\n")).unwrap();
    assert_eq!(info[0]["value"]["value"], "Weir");
}

/// hatop needs a terminal: `script` provides one, and the drawn screen is checked.
#[test]
fn hatop_draws_the_pools() {
    let managed = Managed::start("", 0);
    let hatop = format!("stty rows 40 cols 150; exec hatop -s {}", managed.socket.display());
    let screen = managed.directory.path().join("screen");
    let mut script = command("script");
    script.env("TERM", "xterm").args(["--quiet", "--flush", "--command", &hatop]).arg(&screen);
    let _running = Process::start(script.stdin(Stdio::piped()).stdout(Stdio::null()));
    let drawn = eventually("hatop draws", || {
        let drawn = std::fs::read(&screen).unwrap_or_default();
        let drawn = String::from_utf8_lossy(&drawn).into_owned();
        (drawn.contains("BACKEND") && drawn.contains("two")).then_some(drawn)
    });
    assert!(drawn.contains("FRONTEND") && drawn.contains("Weir"), "{drawn}");
}

/// Prometheus' HAProxy exporter reads `show info` and `show stat` over the socket.
#[test]
fn the_exporter_of_prometheus_reads_it() {
    let managed = Managed::start("", 0);
    managed.answers(8);
    let mut exporter = command("prometheus-haproxy-exporter");
    exporter.arg("--web.listen-address=127.0.0.1:0");
    exporter.arg(format!("--haproxy.scrape-uri=unix:{}", managed.socket.display()));
    let running = Process::start(exporter.stdout(Stdio::null()));
    let address = eventually("the exporter says where it listens", || {
        let said = running.said();
        let (_, rest) = said.split_once("msg=\"Listening on\" address=")?;
        Some(rest.split_once('\n')?.0.to_owned())
    });
    let url = format!("http://{address}/metrics");
    let metrics = eventually("the exporter has read it", || {
        let (_, body) = asked(&[&url]);
        body.contains("haproxy_up 1").then_some(body)
    });
    let line = "haproxy_server_sessions_total{backend=\"app\",server=\"two\"} 6";
    assert!(metrics.contains(line), "{metrics}");
    assert!(metrics.contains("haproxy_exporter_csv_parse_failures_total 0"), "{metrics}");
    assert!(metrics.contains("haproxy_backend_up{backend=\"app\"} 1"), "{metrics}");
}

/// Starts a Weir in front of an origin that answers by path: `/bad` with bytes that are no HTTP,
/// `/reset` with nothing, `/slow` after the client has left.
fn particular() -> (Weir, Directory, PathBuf, Vec<Origin>) {
    let directory = Directory::new();
    let origin = Origin::start(|connection| {
        while let Some(request) = connection.request() {
            match request.head.split(' ').nth(1).unwrap_or_default() {
                "/bad" => connection.send("HTTP/1.1 200 OK\r\nBad Name\x01: x\r\n\r\nok"),
                "/reset" => return,
                "/slow" => connection.until_closed(),
                _ => connection.answer(b"one"),
            }
        }
    });
    let other = super::named("two");
    let socket = directory.path().join("admin.sock");
    let config = format!(
        "workers 2; admin unix:{};
         pool app {{
             server {} name=one max_conn=1; server {} name=two backup;
             passive off; queue timeout=30s; retry 1 on=reset;
         }}
         listen 127.0.0.1:0 name=front {{ route path /own -> respond 204; route -> app; }}",
        socket.display(),
        origin.address,
        other.address,
    );
    let weir = Weir::start(&directory, &config);
    (weir, directory, socket, vec![origin, other])
}

#[test]
fn sessions_are_listed_with_where_they_are() {
    let (weir, _directory, socket, _origins) = particular();
    let mut running = Client::connect(weir.address());
    running.get("/slow");
    let list = |lines: usize| {
        eventually("the sessions are listed", || {
            let said = socat(&socket, "show sess\n");
            (said.lines().filter(|line| line.contains(" fe=front ")).count() == lines)
                .then_some(said)
        })
    };
    let said = list(1);
    let line = said.lines().next().unwrap();
    assert!(line.starts_with("0x") && line.contains(": proto=tcpv4 src=127.0.0.1:"), "{said}");
    let at_one = eventually("it has its server", || {
        let said = list(1);
        said.contains(" be=app srv=one ts=0").then_some(said)
    });
    assert!(at_one.contains(" calls=1 "), "{at_one}");
    let mut waiting = Client::connect(weir.address());
    waiting.get("/slow");
    let said = list(2);
    assert!(said.lines().nth(1).unwrap().contains(" be=app srv=<none> "), "{said}");
    assert!(said.contains(" fe=GLOBAL be=<NONE> srv=<none> "), "who asks is there too: {said}");
    drop((running, waiting));
    list(0);
}

#[test]
fn errors_are_shown_with_their_bytes() {
    let (weir, _directory, socket, _origins) = particular();
    let none = socat(&socket, "show errors\n");
    assert!(none.starts_with("Total events captured on [") && none.contains("] : 0\n"), "{none}");
    let mut client = Client::connect(weir.address());
    client.send("GET / HTTP/1.1\r\nHost: a\r\nBad Name: x\r\n\r\n");
    assert_eq!(client.response().status, 400);
    assert_eq!(Client::connect(weir.address()).ask("/bad").status, 502);
    let said = socat(&socket, "show errors\n");
    let response = "] backend app (#3): invalid response\n  frontend front (#2), server one (#1), event #1, src 127.0.0.1:";
    assert!(said.contains("] : 2\n") && said.contains(response), "{said}");
    assert!(said.contains("  00017  Bad Name\\x01: x\\r\\n\n"), "{said}");
    let request = socat(&socket, "show errors front request\n");
    let expected = "] frontend front (#2): invalid request\n  backend <NONE> (#-1), server <NONE> (#-1), event #0, src 127.0.0.1:";
    assert!(request.contains(expected) && !request.contains("backend app"), "{request}");
    assert!(request.contains("error at position 25\n"), "{request}");
    assert!(
        request.contains("a malformed header name") || request.contains("white space"),
        "{request}"
    );
    assert!(request.contains("  00025  Bad Name: x\\r\\n\n"), "{request}");
}

#[test]
fn columns_say_what_weir_counts() {
    let (weir, _directory, socket, _origins) = particular();
    let mut client = Client::connect(weir.address());
    assert_eq!(client.ask("/own").status, 204);
    assert_eq!(client.ask("/reset").text(), "two", "another server after the reset");
    assert_eq!(client.ask("/").text(), "one");
    let stat = socat(&socket, "show stat\n");
    let check = |service: &str, fields: &[(&str, &str)]| {
        for (name, expected) in fields {
            assert_eq!(field(&stat, service, name), *expected, "{service} {name}");
        }
    };
    check("FRONTEND", &[("intercepted", "1"), ("req_tot", "3"), ("conn_tot", "1"), ("smax", "1")]);
    check("FRONTEND", &[("wretr", ""), ("ssl_sess", "0"), ("h1_total_streams", "3")]);
    check(
        "one",
        &[("wredis", "1"), ("wretr", "0"), ("smax", "1"), ("qmax", "0"), ("hanafail", "0")],
    );
    check("two", &[("wredis", "0"), ("bck", "1"), ("lastsess", "0"), ("src_ilim", "100")]);
    check("BACKEND", &[("wredis", "1"), ("smax", "1"), ("connect", "3"), ("cli_abrt", "0")]);
    let header = stat.lines().next().unwrap();
    assert!(header.contains(",agg_check_status,-,ssl_sess,"), "{header}");
    let json = socat(&socket, "show stat json\n");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let cells = json.as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap());
    let mut redispatched = cells.filter(|cell| cell["field"]["name"] == "wredis");
    assert!(redispatched.any(|cell| cell["value"]["value"] == 1), "{json}");
}
