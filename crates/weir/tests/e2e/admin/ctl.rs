//! `weir ctl`, `weir stop`: their output, their changes and their exit codes.

use std::process::Output;

use super::{Managed, named};
use crate::support::client::Client;
use crate::support::process::finish;
use crate::support::weir::{Weir, weir_command};
use crate::support::{Directory, eventually};

fn weir(managed: &Managed, arguments: &[&str]) -> Output {
    let mut weir = weir_command();
    weir.args(arguments).arg("-c").arg(managed.directory.path().join("weir.conf"));
    finish(&mut weir, b"")
}

/// Returns the output of a command that succeeds.
fn ctl(managed: &Managed, arguments: &[&str]) -> String {
    let done = weir(managed, &[&["ctl"], arguments].concat());
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{arguments:?}: {said}");
    String::from_utf8(done.stdout).unwrap()
}

/// Returns the exit code and the message of a command that fails.
fn failed(managed: &Managed, arguments: &[&str]) -> (Option<i32>, String) {
    let done = weir(managed, &[&["ctl"], arguments].concat());
    (done.status.code(), String::from_utf8(done.stderr).unwrap())
}

/// Returns the words of the line that begins with these.
fn row(text: &str, begins: &[&str]) -> Vec<String> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let begins_so = |row: &Vec<String>| row.iter().zip(begins).all(|(word, wanted)| word == wanted);
    let mut rows = text.lines().map(words).filter(|row| row.len() >= begins.len());
    rows.find(begins_so).unwrap_or_else(|| panic!("no line {begins:?} in:\n{text}"))
}

#[test]
fn ctl_shows_the_running_process() {
    let managed = Managed::start("", 0);
    managed.answers(8);
    let pools = ctl(&managed, &["pools"]);
    assert_eq!(row(&pools, &["app", "two"])[2], "up");
    assert_eq!(row(&pools, &["app", "(round_robin)"])[2], "up");
    let status = ctl(&managed, &["status"]);
    assert!(status.starts_with("Weir ") && status.contains("generation 1"), "{status}");
    assert_eq!(row(&status, &["front"])[3], "8", "{status}");
    let pool = ctl(&managed, &["show", "app"]);
    assert!(pool.contains("8 dispatched, 0 of them queued"), "{pool}");
    assert_eq!(row(&pool, &["total"])[1], "8", "{pool}");
    let server = ctl(&managed, &["show", "app/two"]);
    assert_eq!(row(&server, &["max_conn"])[1], "60", "{server}");
    assert_eq!(row(&server, &["picked"])[1], "6", "{server}");
    let set = ctl(&managed, &["set", "app", "keepalive_idle=9"]);
    assert!(set.contains("app keepalive_idle: 100 -> 9"), "{set}");
    let pool = ctl(&managed, &["show", "app"]);
    assert!(pool.contains("idle connections to servers, at most 9 to each"), "{pool}");
    assert!(failed(&managed, &["set", "app", "weight=9"]).1.contains("no field `weight`"));
    assert_eq!(ctl(&managed, &["queue"]), "no request is waiting\n");
    let slow = ctl(&managed, &["slow", "--limit", "1"]);
    let id = slow.split_whitespace().next().unwrap();
    assert!(slow.contains(" GET /\n"), "{slow}");
    assert!(ctl(&managed, &["why", id]).starts_with(id));
    let json: serde_json::Value =
        serde_json::from_str(&ctl(&managed, &["--json", "pools"])).unwrap();
    assert_eq!(json["pools"][0]["traffic"]["statuses"]["2xx"], 8);
    let times = ctl(&managed, &["percentiles", "--pool", "app"]);
    assert!(times.starts_with("8 requests, mean ") && times.contains("\np99.9999 "), "{times}");
    ctl(&managed, &["clear-counters"]);
    let pool = managed.json("/v1/pools/app");
    assert_eq!(pool["traffic"]["requests"], 0, "{pool}");
}

#[test]
fn waiting_requests_are_listed_with_id_client_and_target() {
    let managed = Managed::start("", 0);
    ctl(&managed, &["maintenance", "app/two"]);
    ctl(&managed, &["set", "app/one", "max_conn=1"]);
    let connect = || crate::support::client::Client::connect(managed.weir.address());
    let (mut first, mut second) = (connect(), connect());
    // It keeps the only slot until its body is complete.
    first.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n1");
    let running = || managed.json("/v1/pools/app")["in_flight"] == 1;
    eventually("the place is taken", || running().then_some(()));
    second.get(&format!("/cart?item=7&{}", "long".repeat(50)));
    let waiting = eventually("somebody waits", || {
        let queue = managed.json("/v1/pools/app/queue");
        queue["waiting"].as_array().unwrap().first().cloned()
    });
    let text = |name: &str| waiting[name].as_str().unwrap().to_owned();
    let id = text("request_id");
    assert_eq!((id.len(), &*text("client"), &*text("method")), (32, "127.0.0.1", "GET"));
    let target = text("target");
    assert!(target.starts_with("/cart?item=7&long") && target.ends_with('…'), "{target}");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let since = waiting["since_ms"].as_u64().unwrap();
    assert!(since > 0 && since <= now.as_millis() as u64, "{waiting}");
    let told = ctl(&managed, &["queue"]);
    let row = row(&told, &["app/any", "0"]);
    assert_eq!((&*row[4], &*row[5], &*row[6]), (&*id, "127.0.0.1", "GET"), "{told}");
    let mut top = weir_command();
    top.args(["top", "--once", "--socket"]).arg(&managed.socket).env("COLUMNS", "140");
    let frame = String::from_utf8(finish(&mut top, b"").stdout).unwrap();
    assert!(frame.contains("127.0.0.1        for app/any"), "{frame}");
    assert!(frame.contains(&format!("id {id}  GET /cart?item=7")), "{frame}");
    let (_, page) = managed.ask(&["/"]);
    assert!(page.contains("GET /cart?item=7&amp;long") && page.contains(&id), "{page}");
    first.send("2");
    assert_eq!((first.response().status, second.response().status), (200, 200));
    // A finished request is found by the same id.
    let why = ctl(&managed, &["why", &id]);
    assert!(why.contains("; the next free place was at one (0 in flight)."), "{why}");
}

#[test]
fn ctl_changes_servers_and_reports_how_long_a_change_lasts() {
    let managed = Managed::start("state_file DIRECTORY/state.json;", 0);
    let said = ctl(&managed, &["drain", "app/one"]);
    assert!(
        said.starts_with(
            "app/one order: ready -> draining\nfor all 2 workers; it survives reloads and restarts"
        ),
        "{said}"
    );
    assert_eq!(managed.answers(4), ["two"]);
    let said = ctl(&managed, &["--dry-run", "set", "app/one", "max_conn=none"]);
    assert_eq!(said, "would change: app/one max_conn: 50 -> none\n");
    ctl(&managed, &["set", "app/one", "max_conn=9"]);
    assert_eq!(
        ctl(&managed, &["ready", "app/two"]),
        "nothing changed: these are the present values\n"
    );
    let diff = ctl(&managed, &["diff"]);
    assert_eq!(row(&diff, &["app/one", "max_conn"])[2..], ["50", "9"], "{diff}");
    let adopt = ctl(&managed, &["adopt"]);
    assert!(adopt.starts_with("# pool app\n- server 127.0.0.1:"), "{adopt}");
    assert!(adopt.contains(" name=one max_conn=9 drain;\n"), "{adopt}");
    let events = ctl(&managed, &["events"]);
    assert!(events.contains("change: app/one max_conn 50 -> 9, by uid "), "{events}");
    ctl(&managed, &["revert", "app/one"]);
    assert_eq!(ctl(&managed, &["diff"]), "no differences from the configuration file\n");
    assert_eq!(managed.answers(8), ["one", "two"]);
}

#[test]
fn the_exit_code_tells_what_went_wrong() {
    let managed = Managed::start("", 0);
    let (code, said) = failed(&managed, &["set", "app/one", "weight=0"]);
    assert_eq!((code, said.as_str()), (Some(1), "weir: weight: 0 is too small: at least 1\n"));
    let (code, said) = failed(&managed, &["drain", "app/three"]);
    assert_eq!((code, said.as_str()), (Some(1), "weir: endpoint: there is no endpoint `three`\n"));
    let (code, said) = failed(&managed, &["drain", "app"]);
    assert_eq!((code, said.as_str()), (Some(2), "weir: `app` is not POOL/SERVER\n"));
    let nowhere = managed.directory.text("nowhere.sock");
    for command in [&["ctl", "status"][..], &["reload"], &["stop"]] {
        let done = finish(weir_command().args(command).args(["--socket", &nowhere]), b"");
        assert_eq!(done.status.code(), Some(5), "{command:?}");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(said.contains("the socket does not exist: is Weir running?"), "{said}");
    }
    let dead = managed.directory.path().join("dead.sock");
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    let done = finish(weir_command().args(["ctl", "status", "--socket"]).arg(&dead), b"");
    assert_eq!(done.status.code(), Some(5));
}

#[test]
fn over_tcp_it_brings_the_token() {
    let directory = crate::support::Directory::new();
    let file = directory.file("token", "correct-horse-battery-staple\n").display().to_string();
    let managed = Managed::start(&format!("admin 127.0.0.1:0 token_file={file};"), 1);
    let address = managed.weir.addresses[1].to_string();
    let ask = |more: &[&str]| {
        let mut weir = weir_command();
        finish(weir.args(["ctl", "drain", "app/one", "--socket", &address]).args(more), b"")
    };
    let done = ask(&[]);
    assert_eq!(done.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&done.stderr).contains("the token is missing or wrong"));
    assert!(ask(&["--token-file", &file]).status.success());
    assert_eq!(managed.json("/v1/pools/app/endpoints/one")["order"], "draining");
}

#[test]
fn stop_ends_it_gracefully() {
    let mut managed = Managed::start("", 0);
    let done = weir(&managed, &["stop"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let said = String::from_utf8(done.stdout).unwrap();
    assert_eq!(said, "stopping; 0 requests are still running\n");
    assert!(managed.weir.process.wait().success());
    managed.weir.process.says("process: told to stop, by uid ");
}

#[test]
fn lints_state_costs_at_the_rate_that_the_running_process_has_seen() {
    let directory = Directory::new();
    let (origin, admin) = (named("one"), directory.text("admin.sock"));
    let config = format!(
        "admin unix:{admin};
         pool app {{ server {}; keepalive off; }}
         listen 127.0.0.1:0 -> app;",
        origin.address
    );
    let running = Weir::start(&directory, &config);
    let path = directory.text("weir.conf");
    let check = |more: &[&str]| {
        let done = finish(weir_command().args(["check", &path]).args(more), b"");
        (done.status.code(), String::from_utf8(done.stderr).unwrap())
    };
    let rate =
        |said: &str| -> Option<u64> { said.split_once(": at ")?.1.split(' ').next()?.parse().ok() };
    assert_eq!(rate(&check(&[]).1), Some(1_000));
    assert_eq!(rate(&check(&["--rate", "85000"]).1), Some(85_000));
    let (code, said) = check(&["--rate", "observed"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("has had no request yet"), "{said}");
    let mut client = Client::connect(running.address());
    (0..25).for_each(|_| assert_eq!(client.ask("/").text(), "one"));
    // The first seconds in which requests ended may have had fewer of them than a later one.
    let observed = eventually("the sampler has seen the requests", || {
        let (code, said) = check(&["--rate", "observed", "--admin", &admin]);
        (code == Some(0)).then_some(said)
    });
    assert!((1..=25).contains(&rate(&observed).unwrap()), "{observed}");
    assert!(observed.contains("requests per second, the sum of the busiest"), "{observed}");
}

#[test]
fn each_value_says_its_line_its_author_or_that_it_is_a_default() {
    let managed = Managed::start("", 0);
    let path = managed.directory.text("weir.conf");
    let sources = || ctl(&managed, &["config", "--sources"]);
    let line = |text: &str, ends: &str| {
        let found = text.lines().find(|line| line.ends_with(ends));
        found.unwrap_or_else(|| panic!("no {ends} in {text}")).to_owned()
    };
    let first = sources();
    let at = |number: usize| format!("{path}:{number}: ");
    assert!(line(&first, ": workers = {\"count\":2}").starts_with(&at(1)), "{first}");
    let weight = "pools[app].endpoints[two].weight = 3";
    assert!(line(&first, weight).starts_with(&at(6)), "{first}");
    assert!(line(&first, "endpoints[one].weight = 1").starts_with("default: "));
    assert!(line(&first, "pools[app].keepalive.idle = 100").starts_with("default: "));
    ctl(&managed, &["set", "app", "keepalive_idle=9"]);
    ctl(&managed, &["set", "app/two", "weight=4"]);
    let second = sources();
    let changed = line(&second, "pools[app].keepalive.idle = 9");
    assert!(changed.starts_with("run time (uid ") && changed.contains(" ago): "), "{changed}");
    assert!(line(&second, "endpoints[two].weight = 4").starts_with("run time ("), "{second}");
}

#[test]
fn values_of_an_imported_file_have_its_lines() {
    let directory = Directory::new();
    let check = |name: &str, text: &str, expected: &[&str]| {
        let path = directory.file(name, text);
        let mut command = weir_command();
        let done = finish(command.args(["check", "--sources"]).arg(&path), b"");
        let said = String::from_utf8(done.stdout).unwrap();
        for ends in expected {
            let line = format!("{}:{ends}", path.display());
            assert!(said.lines().any(|own| own == line), "no {line} in {said}");
        }
    };
    check(
        "nginx.conf",
        "events {}\nhttp {\n upstream app {\n  server 127.0.0.1:9000 max_conns=7;\n }\n\
         server {\n  listen 127.0.0.1:8080;\n  location / {\n   proxy_pass http://app;\n  }\n }\n}\n",
        &["4: pools[app].endpoints[127.0.0.1:9000].max_conn = 7"],
    );
    check(
        "haproxy.cfg",
        "defaults\n mode http\n timeout connect 3s\n timeout client 9s\n timeout server 9s\n\
         frontend web\n bind 127.0.0.1:8080\n default_backend app\n\
         backend app\n server one 127.0.0.1:9000 maxconn 7\n",
        // Inherited values are printed at the section.
        &["10: pools[app].endpoints[one].max_conn = 7", "9: pools[app].timeouts.connect = 3s"],
    );
}
