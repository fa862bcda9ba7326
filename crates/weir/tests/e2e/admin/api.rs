//! The HTTP API: the values it returns, the changes it makes, and its error messages.

use rustix::process::Signal;

use super::{Managed, asked};
use crate::support::weir::Weir;

const ONE: &str = "/v1/pools/app/endpoints/one";

#[test]
fn it_tells_of_the_process_and_its_pools() {
    let managed = Managed::start("", 0);
    managed.answers(8);
    let info = managed.json("/v1/info");
    assert_eq!(info["name"], "Weir");
    assert_eq!((&info["workers"], &info["generation"]), (&2.into(), &1.into()));
    assert_eq!((&info["state"], &info["overrides"]), (&"running".into(), &0.into()));
    let pool = managed.json("/v1/pools/app");
    assert_eq!((&pool["state"], &pool["usable"]), (&"up".into(), &2.into()));
    assert_eq!(pool["counters"]["dispatched"], 8);
    assert_eq!(pool["queue"]["max"], 1024);
    let two = &pool["endpoints"][1];
    assert_eq!(
        (&two["name"], &two["weight"], &two["max_conn"]),
        (&"two".into(), &3.into(), &60.into())
    );
    assert_eq!((&two["state"], &two["health"]), (&"up".into(), &"unchecked".into()));
    assert_eq!(two["picks"], 6, "three of four, by weight");
    assert_eq!(managed.json("/v1/pools")["pools"][0], managed.json("/v1/pools/app"));
    assert_eq!(managed.json("/v1/listeners")["listeners"][0]["name"], "front");
    assert_eq!(managed.json("/v1/workers")["workers"].as_array().unwrap().len(), 2);
    assert_eq!(managed.json("/v1/config")["pools"][0]["endpoints"][0]["max_conn"], 50);
    assert_eq!(managed.json("/v1/pools/app/queue")["waiting"], serde_json::json!([]));
    assert_eq!(managed.json("/openapi.json")["openapi"], "3.1.0");
    assert_eq!(managed.json("/v1/status")["pools"][0]["name"], "app");
}

#[test]
fn a_change_of_state_holds_for_every_worker_before_its_response() {
    let managed = Managed::start("", 0);
    assert_eq!(managed.answers(8), ["one", "two"]);
    let (status, said) = managed.change("PATCH", ONE, r#"{"order": "draining"}"#);
    assert_eq!(status, 200, "{said}");
    assert_eq!(said["workers"], 2);
    assert_eq!(said["lasts"]["restart"], false);
    assert_eq!(said["changed"][0]["before"], "ready");
    assert_eq!(said["changed"][0]["after"], "draining");
    assert_eq!(said["endpoint"]["state"], "draining");
    assert_eq!(said["endpoint"]["overridden"], serde_json::json!(["order"]));
    // Connections are spread over the workers.
    for _ in 0..8 {
        assert_eq!(managed.answers(4), ["two"]);
    }
    let (status, _) = managed.change("PATCH", ONE, r#"{"order": "ready", "max_conn": null}"#);
    assert_eq!(status, 200);
    assert_eq!(managed.answers(8), ["one", "two"]);
    assert_eq!(managed.json(ONE)["max_conn"], serde_json::Value::Null);
    let events = managed.json("/v1/events");
    let last = events["events"].as_array().unwrap().last().unwrap();
    assert_eq!(last["kind"], "change");
    assert_eq!(last["what"], "app/one max_conn 50 -> none");
    assert!(last["who"].as_str().unwrap().starts_with("uid "), "{last}");
    managed.weir.process.says("change: app/one order ready -> draining, by uid ");
}

#[test]
fn a_mistake_is_reported_with_its_field_and_changes_nothing() {
    let managed = Managed::start("", 0);
    let before = managed.json("/v1/config");
    let check = |method: &str, path: &str, body: &str, expected: (u16, &str, &str)| {
        let (status, said) = managed.change(method, path, body);
        let (field, message) =
            (&said["error"]["field"], said["error"]["message"].as_str().unwrap());
        assert_eq!((status, field), (expected.0, &expected.1.into()), "{body}: {message}");
        assert!(message.contains(expected.2), "{body}: {message}");
    };
    check("PATCH", ONE, "{", (400, "body", "not valid JSON"));
    check("PATCH", ONE, "[]", (400, "body", "has to be a JSON object"));
    check("PATCH", ONE, "{}", (422, "body", "the change is empty"));
    check(
        "PATCH",
        ONE,
        r#"{"wieght": 2}"#,
        (422, "wieght", "known are order, weight and max_conn"),
    );
    check("PATCH", ONE, r#"{"weight": 0}"#, (422, "weight", "0 is too small"));
    check("PATCH", ONE, r#"{"weight": 65536}"#, (422, "weight", "65536 is too large"));
    check("PATCH", ONE, r#"{"weight": "2"}"#, (422, "weight", "not a whole number"));
    check("PATCH", ONE, r#"{"max_conn": -1}"#, (422, "max_conn", "not a whole number"));
    check("PATCH", ONE, r#"{"max_conn": 0}"#, (422, "max_conn", "0 is too small"));
    check("PATCH", ONE, r#"{"max_conn": 1e99}"#, (422, "max_conn", "not a whole number"));
    check(
        "PATCH",
        ONE,
        r#"{"order": "off"}"#,
        (422, "order", "`ready`, `draining` or `maintenance`"),
    );
    let yes = format!("{ONE}?dry_run=perhaps");
    check("PATCH", &yes, r#"{"order": "ready"}"#, (422, "dry_run", "neither `true` nor `false`"));
    let nobody = "/v1/pools/app/endpoints/three";
    check("PATCH", nobody, r#"{"weight": 2}"#, (404, "endpoint", "no endpoint `three`"));
    let nowhere = "/v1/pools/api/endpoints/one";
    check("PATCH", nowhere, r#"{"weight": 2}"#, (404, "pool", "no pool `api`"));
    assert_eq!(managed.ask(&["-X", "PUT", ONE]).0, 405);
    assert_eq!(managed.ask(&["/v2/info"]).0, 404);
    assert_eq!(managed.ask(&["/v1/events?after=x"]).0, 422);
    assert_eq!(managed.json("/v1/config"), before);
}

#[test]
fn a_dry_run_says_what_would_change_and_changes_nothing() {
    let managed = Managed::start("", 0);
    let dry = format!("{ONE}?dry_run=true");
    let (status, said) = managed.change("PATCH", &dry, r#"{"max_conn": 9}"#);
    assert_eq!((status, &said["dry_run"]), (200, &true.into()));
    assert_eq!(
        (&said["changed"][0]["before"], &said["changed"][0]["after"]),
        (&"50".into(), &"9".into())
    );
    assert_eq!(managed.json(ONE)["max_conn"], 50);
    assert_eq!(managed.change("PATCH", &dry, r#"{"max_conn": 0}"#).0, 422);
}

#[test]
fn a_change_of_a_value_that_changed_meanwhile_is_refused() {
    let managed = Managed::start("", 0);
    let tag = || {
        let (_, head) = managed.ask(&["--head", ONE]);
        let line = head.lines().find(|line| line.starts_with("etag: ")).unwrap();
        line.trim_start_matches("etag: ").trim().to_owned()
    };
    let change = |tag: &str, body: &str| {
        managed.ask(&["-X", "PATCH", "-H", &format!("If-Match: {tag}"), "--data", body, ONE]).0
    };
    let first = tag();
    assert_eq!(change(&first, r#"{"max_conn": 7}"#), 200);
    assert_eq!(change(&first, r#"{"max_conn": 8}"#), 412);
    assert_eq!(managed.json(ONE)["max_conn"], 7);
    assert_eq!(change(&tag(), r#"{"max_conn": 8}"#), 200);
    assert_eq!(change("*", r#"{"max_conn": 9}"#), 200);
}

#[test]
fn the_tag_of_an_endpoint_does_not_change_while_a_slow_start_reduces_its_limit() {
    let pool = "pool slow { server 127.0.0.1:9 name=one max_conn=50 slow_start=10h; queue; }";
    let managed = Managed::start(&format!("{pool} listen 127.0.0.1:0 -> slow;"), 1);
    let path = "/v1/pools/slow/endpoints/one";
    for order in ["maintenance", "ready"] {
        let body = format!(r#"{{"order": "{order}"}}"#);
        assert_eq!(managed.change("PATCH", path, &body).0, 200);
    }
    let shown = managed.json(path);
    assert_eq!((&shown["max_conn"], &shown["max_conn_now"]), (&50.into(), &1.into()));
    let (_, head) = managed.ask(&["--head", path]);
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().trim();
    let header = format!("If-Match: {tag}");
    let change = ["-X", "PATCH", "-H", &header, "--data", r#"{"weight": 2}"#, path];
    assert_eq!(managed.ask(&change).0, 200);
}

#[test]
fn changes_are_kept_over_a_restart_and_shown_as_such() {
    let mut managed = Managed::start("state_file DIRECTORY/state.json;", 0);
    let (status, said) = managed.change("PATCH", ONE, r#"{"order": "maintenance", "max_conn": 5}"#);
    assert_eq!((status, &said["lasts"]["restart"]), (200, &true.into()), "{said}");
    managed.weir.process.signal(Signal::TERM);
    assert!(managed.weir.process.wait().success());
    let config = std::fs::read_to_string(managed.directory.path().join("weir.conf")).unwrap();
    managed.weir = Weir::start(&managed.directory, &config);
    let one = managed.json(ONE);
    assert_eq!((&one["state"], &one["max_conn"]), (&"maintenance".into(), &5.into()));
    assert_eq!(one["overridden"], serde_json::json!(["order", "max_conn"]));
    assert_eq!(managed.answers(8), ["two"]);
    let overrides = managed.json("/v1/overrides");
    let differences = overrides["differences"].as_array().unwrap();
    assert_eq!(differences.len(), 2, "{overrides}");
    assert_eq!((&differences[1]["file"], &differences[1]["now"]), (&"50".into(), &"5".into()));
    let line = overrides["lines"][0]["write"].as_str().unwrap();
    assert!(line.ends_with(" name=one max_conn=5 down;"), "{line}");
    managed.weir.process.says("as changed at run time: app/one order is maintenance");
}

#[test]
fn a_state_file_that_makes_no_sense_stops_no_start() {
    let managed = Managed::start("state_file DIRECTORY/state.json;", 0);
    let Managed { mut weir, directory, .. } = managed;
    weir.process.signal(Signal::TERM);
    weir.process.wait();
    directory.file("state.json", "{\"version\"");
    let config = std::fs::read_to_string(directory.path().join("weir.conf")).unwrap();
    let weir = Weir::start(&directory, &config);
    weir.process.says("state.json is invalid");
    weir.process.says("the state file is now");
    assert!(directory.path().join("state.json.broken").exists());
}

#[test]
fn a_stream_tells_again_and_again() {
    let managed = Managed::start("", 0);
    let socket = managed.socket.display().to_string();
    let mut curl = crate::support::programs::curl_command();
    // curl ends by its time limit, or is killed here after enough lines.
    curl.args(["--no-buffer", "--unix-socket", &socket, "http://weir/v1/stream"]);
    let mut child = curl.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    for _ in 0..2 {
        assert_eq!(lines.next().unwrap().unwrap(), "event: status");
        let data = lines.next().unwrap().unwrap();
        let status: serde_json::Value =
            serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(status["pools"][0]["endpoints"][1]["name"], "two");
        assert_eq!(lines.next().unwrap().unwrap(), "");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // The interface serves other clients all the time.
    let url = "http://weir/v1/info";
    assert_eq!(asked(&["--unix-socket", &socket, url]).0, 200);
}
