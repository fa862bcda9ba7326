//! Events of actions by signal: like those of actions by the API, they name the author and the
//! lines that differ.

use rustix::process::Signal;
use serde_json::Value;

use super::{Managed, asked};
use crate::support::eventually;
use crate::support::process::finish;
use crate::support::weir::weir_command;

impl Managed {
    fn events(&self) -> Vec<Value> {
        self.json("/v1/events")["events"].as_array().unwrap().clone()
    }

    /// Sends a signal and returns the event of this kind and origin.
    fn event_of(&self, signal: Signal, kind: &str, who: &str) -> Value {
        let before = self.events().len();
        self.weir.process.signal(signal);
        eventually("the event is there", || {
            let events = self.events();
            let mut new = events.into_iter().skip(before);
            new.find(|event| event["kind"] == kind && event["who"] == who)
        })
    }

    fn rewrite(&self, from: &str, to: &str) {
        let path = self.directory.path().join("weir.conf");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(&path, text.replace(from, to)).unwrap();
    }
}

fn details(event: &Value) -> String {
    let lines = event["details"].as_array().unwrap().iter();
    lines.map(|line| line.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_effect_of_a_signal_is_an_event_with_its_author_and_the_differences() {
    let managed = Managed::start("", 0);
    let started = managed.events().remove(0);
    assert_eq!(started["kind"], "process");
    let what = format!("started: process {}, serving generation 1", managed.weir.process.id());
    assert_eq!(started["what"].as_str().unwrap(), what);
    assert!(details(&started).contains("listening on 127.0.0.1:"), "{started}");
    managed.rewrite("max_conn=50", "max_conn=7");
    let reloaded = managed.event_of(Signal::HUP, "reload", "signal HUP");
    assert_eq!(reloaded["what"], "serving generation 2");
    assert_eq!(details(&reloaded), "pool app: server one.max_conn 50 -> 7");
    managed.rewrite("max_conn=7", "max_con=7");
    let rejected = managed.event_of(Signal::USR2, "reload", "signal USR2");
    assert_eq!(rejected["what"], "rejected, still serving generation 2");
    assert!(details(&rejected).contains("max_con"), "{rejected}");
    managed.rewrite("max_con=7", "max_conn=7");
    let reopened = managed.event_of(Signal::USR1, "process", "signal USR1");
    assert_eq!(reopened["what"], "log files reopened");
    // `weir ctl events` shows the same: the lines that differ are below their event.
    let config = managed.directory.path().join("weir.conf");
    let done = finish(weir_command().args(["ctl", "events", "-c"]).arg(config), b"");
    let told = String::from_utf8(done.stdout).unwrap();
    let at = told.find("reload: serving generation 2, by signal HUP\n").expect(&told);
    let next = told[at..].lines().nth(1).unwrap();
    assert!(next.starts_with("                      "), "{told}");
    let socket = managed.socket.display().to_string();
    let (_, page) = asked(&["--unix-socket", &socket, "http://localhost/"]);
    assert!(page.contains("serving generation 2 <small>by signal HUP</small>"), "{page}");
    assert!(page.contains("log files reopened <small>by signal USR1</small>"), "{page}");
}

#[test]
fn a_stop_by_signal_is_told_while_requests_still_run() {
    let mut managed = Managed::start("", 0);
    // This request is not answered: the origin never gets the complete request.
    let mut client = crate::support::client::Client::connect(managed.weir.address());
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n1");
    eventually("it runs", || (managed.json("/v1/info")["requests_running"] == 1).then_some(()));
    let stopping = managed.event_of(Signal::TERM, "process", "signal TERM");
    assert_eq!(stopping["what"], "told to stop; requests still running: 1");
    managed.weir.process.signal(Signal::INT);
    managed.weir.process.wait();
    managed.weir.process.says("process: told to stop at once, by signal INT");
}

#[test]
fn an_upgrade_by_signal_is_told_on_both_sides() {
    let mut managed = Managed::start("", 0);
    let old = managed.weir.process.id();
    // RTMIN+1, as `kill -s RTMIN+1` sends it.
    let mut kill = crate::support::process::command("kill");
    assert!(finish(kill.args(["-s", "RTMIN+1", &old.to_string()]), b"").status.success());
    managed.weir.process.wait();
    managed.weir.process.says(" serves, by signal RTMIN+1");
    let started = managed.events().remove(0);
    assert_eq!(started["who"], "upgrade", "{started}");
    let place = format!("started in place of process {old}, which finishes what runs: process ");
    assert!(started["what"].as_str().unwrap().starts_with(&place), "{started}");
    let stop = ["stop", "--socket", &managed.socket.display().to_string()];
    assert!(finish(weir_command().args(stop), b"").status.success());
    let gone = || std::os::unix::net::UnixStream::connect(&managed.socket).is_err().then_some(());
    eventually("the successor is gone", gone);
}
