//! Servers added and removed at run time, weights and reloads: changes that need a new
//! configuration, made from the file and the runtime changes.

use std::sync::{Arc, Barrier};

use rustix::process::Signal;
use serde_json::Value;

use super::{Managed, asked, named};
use crate::support::client::Client;
use crate::support::origin::Origin;
use crate::support::process::finish;
use crate::support::weir::{Weir, weir_command};
use crate::support::{Directory, eventually};

const SERVERS: &str = "/v1/pools/app/endpoints";

fn ctl(managed: &Managed, arguments: &[&str]) -> String {
    let mut weir = weir_command();
    weir.arg("ctl").args(arguments).arg("--socket").arg(&managed.socket);
    let done = finish(&mut weir, b"");
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn reload(managed: &Managed) -> std::process::Output {
    finish(weir_command().arg("reload").arg("--socket").arg(&managed.socket), b"")
}

fn rewrite(managed: &Managed, change: impl FnOnce(String) -> String) {
    let path = managed.directory.path().join("weir.conf");
    let text = change(std::fs::read_to_string(&path).unwrap());
    std::fs::write(&path, text).unwrap();
}

#[test]
fn a_server_is_added_and_taken_out_without_a_lost_request() {
    let managed = Managed::start("state_file DIRECTORY/state.json;", 0);
    let three = named("three");
    let body = format!(r#"{{"address": "{}", "name": "three", "max_conn": 9}}"#, three.address);
    let (status, said) = managed.change("POST", SERVERS, &body);
    assert_eq!(status, 200, "{said}");
    assert_eq!(said["endpoint"]["overridden"], serde_json::json!(["added"]));
    assert_eq!(managed.answers(15), ["one", "three", "two"]);
    let (status, said) = managed.change("POST", SERVERS, &body);
    assert_eq!((status, &said["error"]["field"]), (409, &"name".into()));
    let check = |body: &str, field: &str| {
        let (status, said) = managed.change("POST", SERVERS, body);
        assert_eq!((status, &said["error"]["field"]), (422, &field.into()), "{body}: {said}");
    };
    check("{}", "address");
    check(r#"{"address": "10.0.0.1"}"#, "address");
    check(r#"{"address": "10.0.0.1:80", "wieght": 1}"#, "wieght");
    check(r#"{"address": "10.0.0.1:80", "weight": 0}"#, "weight");
    check(r#"{"address": "10.0.0.1:80", "name": "a b"}"#, "name");
    let (status, said) = managed.change("DELETE", &format!("{SERVERS}/one"), "");
    assert_eq!(status, 200, "{said}");
    assert_eq!(managed.answers(15), ["three", "two"]);
    // Runtime changes persist over a reload and a restart.
    assert!(reload(&managed).status.success());
    assert_eq!(managed.answers(15), ["three", "two"]);
    let Managed { mut weir, directory, socket, .. } = managed;
    weir.process.signal(Signal::TERM);
    weir.process.wait();
    let config = std::fs::read_to_string(directory.path().join("weir.conf")).unwrap();
    let weir = Weir::start(&directory, &config);
    let managed = Managed { weir, socket, directory, _origins: Vec::<Origin>::new() };
    let names = managed.json("/v1/pools/app")["endpoints"].clone();
    let names: Vec<_> = names.as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["two", "three"]);
    ctl(&managed, &["revert"]);
    let names = managed.json("/v1/pools/app")["endpoints"].as_array().unwrap().len();
    assert_eq!(names, 2);
    assert_eq!(ctl(&managed, &["diff"]), "no differences from the configuration file\n");
}

#[test]
fn a_server_that_is_added_is_in_its_state_since_then() {
    let managed = Managed::start("", 0);
    let now = || u64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
    let mut added = Vec::new();
    // The second one has the name of the first and none of its state.
    for order in ["draining", "ready"] {
        let before = now();
        let body = format!(r#"{{"address": "127.0.0.1:1", "name": "three", "order": "{order}"}}"#);
        let (status, said) = managed.change("POST", SERVERS, &body);
        assert_eq!(status, 200, "{said}");
        added.push((before, managed.json(&format!("{SERVERS}/three"))["since_ms"].clone()));
        assert_eq!(managed.change("DELETE", &format!("{SERVERS}/three"), "").0, 200);
    }
    for (before, since) in &added {
        assert!(since.as_u64().unwrap() >= *before, "{added:?}");
    }
}

#[test]
fn a_weight_takes_effect_before_its_response() {
    let managed = Managed::start("", 0);
    let said = ctl(&managed, &["set", "app/one", "weight=3"]);
    assert!(said.starts_with("app/one weight: 1 -> 3\n"), "{said}");
    managed.answers(12);
    let one = managed.json(&format!("{SERVERS}/one"));
    assert_eq!((&one["weight"], &one["picks"]), (&3.into(), &6.into()), "{one}");
    assert_eq!(one["overridden"], serde_json::json!(["weight"]));
    assert_eq!(managed.json("/v1/info")["generation"], 2);
}

#[test]
fn a_change_that_the_file_contains_is_no_runtime_change() {
    let managed = Managed::start("state_file DIRECTORY/state.json;", 0);
    ctl(&managed, &["set", "app/one", "max_conn=9", "weight=2"]);
    ctl(&managed, &["drain", "app/two"]);
    rewrite(&managed, |text| text.replace("name=one max_conn=50", "name=one max_conn=9 weight=2"));
    let done = reload(&managed);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(said.contains("serving generation "), "{said}");
    let differences = managed.json("/v1/overrides")["differences"].clone();
    let differences = differences.as_array().unwrap();
    assert_eq!(differences.len(), 1, "{differences:?}");
    assert_eq!(differences[0]["now"], "draining");
    assert_eq!(managed.json(&format!("{SERVERS}/two"))["state"], "draining");
    // The file now has another value, so the runtime change is dropped and does not come back at
    // the next start.
    rewrite(&managed, |text| text.replace("max_conn=9 weight=2", "max_conn=30"));
    managed.weir.process.signal(Signal::HUP);
    eventually("the file holds", || {
        (managed.json(&format!("{SERVERS}/one"))["max_conn"] == 30).then_some(())
    });
    let state = std::fs::read_to_string(managed.directory.path().join("state.json")).unwrap();
    assert!(state.contains("draining") && !state.contains("max_conn"), "{state}");
}

#[test]
fn a_rejected_reload_says_why_and_changes_nothing() {
    let managed = Managed::start("", 0);
    rewrite(&managed, |text| text.replace("max_conn=50", "max_con=50"));
    let done = reload(&managed);
    assert_eq!(done.status.code(), Some(3));
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(said.contains("unknown option `max_con`") && said.contains("did you mean"), "{said}");
    assert_eq!(managed.json("/v1/info")["generation"], 1);
    assert_eq!(managed.answers(8), ["one", "two"]);
    let events = managed.json("/v1/events");
    let last = events["events"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&last["kind"], &last["what"]),
        (&"reload".into(), &"rejected, still serving generation 1".into())
    );
}

#[test]
fn haproxys_commands_add_and_remove_servers() {
    let managed = Managed::start("", 0);
    let three = named("three");
    let line = |text: &str| super::haproxy::socat(&managed.socket, &format!("{text}\n"));
    let add = format!("add server app/three {} weight 2 maxconn 4", three.address);
    assert_eq!(line(&add), "New server registered.\n\n");
    assert_eq!(line(&add), "Already exists a server with the same name in backend.\n\n");
    assert_eq!(managed.json(&format!("{SERVERS}/three"))["state"], "maintenance");
    assert_eq!(managed.answers(15), ["one", "two"]);
    assert_eq!(line("enable server app/three"), "\n");
    assert_eq!(managed.answers(18), ["one", "three", "two"]);
    assert_eq!(line("set weight app/three 50%"), "\n");
    assert_eq!(
        line("del server app/three"),
        "Only servers in maintenance mode can be deleted.\n\n"
    );
    assert_eq!(line("disable server app/three;del server app/three"), "\nServer deleted.\n\n");
    assert_eq!(line("del server app/three"), "No such server.\n\n");
    assert_eq!(line("set weight app/one 4"), "\n");
    assert_eq!(line("get weight app/one"), "4 (initial 1)\n\n");
    assert_eq!(line("set weight app/one 100%"), "\n");
    assert_eq!(line("get weight app/one"), "1 (initial 1)\n\n");
    assert_eq!(line("set maxconn frontend front 7"), "\n");
    assert_eq!(managed.json("/v1/listeners")["listeners"][0]["max_connections"], 7);
    assert_eq!(line("set maxconn global 77"), "\n");
    assert_eq!(managed.json("/v1/info")["max_connections"], 77);
    assert_eq!(managed.answers(8), ["one", "two"]);
    assert_eq!(line("clear counters all"), "\n");
}

#[test]
fn the_reason_for_a_down_server_is_shown_with_its_reply() {
    let directory = crate::support::Directory::new();
    let broken = Origin::start(|connection| {
        while connection.request().is_some() {
            connection
                .send("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 11\r\n\r\nno database");
        }
    });
    let config = format!(
        "admin unix:{0}/admin.sock;
         pool app {{ server {1} name=one; check http GET /up interval=100ms fall=1; }}
         listen 127.0.0.1:0 name=front -> app;",
        directory.path().display(),
        broken.address
    );
    let weir = Weir::start(&directory, &config);
    let socket = directory.path().join("admin.sock");
    let managed = Managed { weir, socket, directory, _origins: vec![broken] };
    let one = eventually("it is down", || {
        let one = managed.json(&format!("{SERVERS}/one"));
        (one["state"] == "down").then_some(one)
    });
    assert_eq!(one["probe"]["passed"], false);
    assert!(one["probe"]["excerpt"].as_str().unwrap().contains("no database"), "{one}");
    let shown = ctl(&managed, &["show", "app/one"]);
    assert!(shown.contains("status 503") && shown.contains("no database"), "{shown}");
    let stat = super::haproxy::socat(&managed.socket, "show stat\n");
    assert_eq!(super::haproxy::field(&stat, "one", "check_status"), "L7STS");
    assert_eq!(super::haproxy::field(&stat, "one", "check_code"), "503");
    assert_eq!(super::haproxy::field(&stat, "one", "status"), "DOWN");
}

/// Sends a request on each connection before any is answered, and reads the answers.
fn all_at_once(clients: &mut [Client]) {
    for client in clients.iter_mut() {
        client.get("/");
    }
    for client in clients {
        assert_eq!(client.response().text(), "one");
    }
}

#[test]
fn the_cap_on_idle_connections_is_changed_live_and_no_connection_is_dropped_for_it() {
    let directory = Directory::new();
    let together = Arc::new(Barrier::new(6));
    // It answers when six requests are there, so that each needs a connection of its own.
    let origin = Origin::start(move |connection| {
        while connection.request().is_some() {
            together.wait();
            connection.answer(b"one");
        }
    });
    let (socket, state) = (directory.text("admin.sock"), directory.text("state.json"));
    let config = format!(
        "workers 1;
         admin unix:{socket};
         state_file {state};
         pool app {{ server {} name=one; keepalive idle=6 timeout=1h; }}
         listen 127.0.0.1:0 -> app;",
        origin.address
    );
    let weir = Weir::start(&directory, &config);
    let ask = |arguments: &[&str], path: &str| {
        let url = format!("http://weir{path}");
        let (status, body) = asked(&[&["--unix-socket", &socket], arguments, &[&url]].concat());
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str::<Value>(&body).unwrap()
    };
    let set = |number: u32| {
        let body = format!("{{\"keepalive_idle\": {number}}}");
        ask(&["-X", "PATCH", "--data", &body], "/v1/pools/app")
    };
    let idle = |pool: &Value| pool["endpoints"][0]["idle_connections"].as_u64().unwrap();
    let become_idle = |number: u64| {
        eventually("that many connections are idle", || {
            (idle(&ask(&[], "/v1/pools/app")) == number).then_some(())
        });
    };
    let mut clients: Vec<Client> = (0..6).map(|_| Client::connect(weir.address())).collect();
    all_at_once(&mut clients);
    become_idle(6);
    let raised = set(20);
    assert_eq!(raised["changed"][0]["field"], "keepalive_idle", "{raised}");
    assert_eq!((&raised["pool"]["keepalive_idle"], idle(&raised["pool"])), (&20.into(), 6));
    all_at_once(&mut clients);
    become_idle(6);
    // Idle connections stay until they are used; those that become idle beyond the cap are closed.
    assert_eq!(idle(&set(2)["pool"]), 6);
    all_at_once(&mut clients);
    become_idle(2);
    assert_eq!(origin.connections(), 6, "no connection was lost to a change");
    assert!(std::fs::read_to_string(&state).unwrap().contains("\"keepalive_idle\": 2"));
    let overrides = ask(&[], "/v1/overrides");
    assert_eq!(overrides["differences"][0]["file"], "6", "{overrides}");
    assert_eq!(overrides["lines"][0]["instead_of"], "keepalive idle=6 timeout=1h;");
    assert_eq!(overrides["lines"][0]["write"], "keepalive idle=2 timeout=1h;");
    ask(&["-X", "POST"], "/v1/reload");
    assert_eq!(ask(&[], "/v1/pools/app")["keepalive_idle"], 2, "a reload keeps it");
    ask(&["-X", "POST", "--data", "{\"pool\": \"app\"}"], "/v1/overrides/revert");
    assert_eq!(ask(&[], "/v1/pools/app")["keepalive_idle"], 6);
    weir.process.says("change: app keepalive_idle 20 -> 2, by ");
}
