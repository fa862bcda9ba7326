//! Upgrades with real programs: a new process takes over the sockets without a visible effect on
//! clients. Also systemd's socket activation and notifications.

mod calls;
mod connections;
mod systemd;

use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{ExitStatus, Output};

use rustix::process::{Pid, Signal, kill_process};

use crate::reload::Load;
use crate::support::client::Client;
use crate::support::origin::Origin;
use crate::support::process::finish;
use crate::support::weir::{Weir, weir_command};
use crate::support::{Directory, eventually};

/// A Weir and its successors. The last ones are not children of the test.
struct Line {
    weir: Weir,
    directory: Directory,
    successors: Vec<u32>,
}

impl Line {
    /// Starts it. `more` is the configuration besides the admin socket; `DIRECTORY` in it stands
    /// for a directory for files.
    fn start(more: &str) -> Self {
        let directory = Directory::new();
        let config = Self::configuration(&directory, more);
        let weir = Weir::start(&directory, &config);
        Self { weir, directory, successors: Vec::new() }
    }

    fn configuration(directory: &Directory, more: &str) -> String {
        let (admin, pid) = (directory.text("admin.sock"), directory.text("weir.pid"));
        let more = more.replace("DIRECTORY", &directory.path().display().to_string());
        format!("workers 2; admin unix:{admin}; pid_file {pid};\n{more}")
    }

    /// Runs `weir upgrade` with these arguments.
    fn upgrade(&mut self, arguments: &[&str]) -> Output {
        let socket = self.directory.text("admin.sock");
        let mut command = weir_command();
        let done = finish(command.args(["upgrade", "--socket", &socket]).args(arguments), b"");
        let said = String::from_utf8_lossy(&done.stdout);
        let process = said.strip_prefix("process ").and_then(|rest| rest.strip_suffix(" serves\n"));
        self.successors.extend(process.map(|number| number.parse::<u32>().unwrap()));
        done
    }

    /// Runs `weir upgrade`, which must succeed, and returns the id of the process that serves then.
    fn upgraded(&mut self) -> u32 {
        let done = self.upgrade(&[]);
        assert!(done.status.success(), "{done:?}\n{}", self.weir.process.said());
        *self.successors.last().unwrap()
    }

    /// Runs `weir upgrade`, which must fail, and returns the exit status and the messages.
    fn not_upgraded(&mut self, arguments: &[&str]) -> (Option<i32>, String) {
        let done = self.upgrade(arguments);
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    }

    fn address(&self) -> SocketAddr {
        self.weir.address()
    }

    /// Returns the contents of the pid file.
    fn pid(&self) -> Option<u32> {
        let text = std::fs::read_to_string(self.directory.path().join("weir.pid")).ok()?;
        text.trim_end().parse().ok()
    }

    /// Writes an executable shell script and returns its path.
    fn script(&self, name: &str, text: &str) -> String {
        let path: PathBuf = self.directory.file(name, format!("#!/bin/sh\n{text}\n"));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
        path.display().to_string()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        for number in self.successors.drain(..) {
            end(number, Signal::KILL);
        }
    }
}

/// Ends a process that is not a child of the test, and waits for its end.
pub(crate) fn end(number: u32, signal: Signal) {
    let process = Pid::from_raw(number.cast_signed()).unwrap();
    let _ = kill_process(process, signal);
    eventually("a successor ends", || (!is_running(number)).then_some(()));
}

fn is_running(number: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    // A process that has ended may be a zombie until its new parent reaps it.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Upgrades `number` times while clients keep connections and open new ones; every request must be
/// answered.
fn upgrades_under_load(number: usize) {
    let origin = Origin::echo();
    let mut line = Line::start(&format!(
        "pool app {{ server {} max_conn=20; queue max=100 timeout=20s; }}
         listen 127.0.0.1:0 -> app;",
        origin.address
    ));
    let load = Load::start(line.address());
    let mut asked = 0;
    let mut before = line.weir.process.id();
    let mut first: Option<ExitStatus> = None;
    for _ in 0..number {
        asked += 50;
        eventually("requests are answered", || (load.answered() >= asked).then_some(()));
        let next = line.upgraded();
        assert_ne!(next, before);
        eventually("the process file names the new one", || {
            (line.pid() == Some(next)).then_some(())
        });
        first = first.or_else(|| Some(line.weir.process.wait()));
        eventually("the one before has ended", || (!is_running(before)).then_some(()));
        before = next;
    }
    let at_last = load.answered();
    eventually("requests are answered", || (load.answered() >= at_last + 50).then_some(()));
    let answered = load.stop();
    println!("{answered} requests, {number} upgrades");
    assert_eq!(first.unwrap().code(), Some(0), "{}", line.weir.process.said());
    end(before, Signal::TERM);
    assert_eq!(line.pid(), None, "the file goes with the last one");
}

#[test]
fn three_upgrades_under_load_fail_no_request() {
    upgrades_under_load(3);
}

#[test]
#[ignore = "the long set"]
fn ten_upgrades_under_load_fail_no_request() {
    upgrades_under_load(10);
}

/// Returns the number of worker threads of a process.
fn workers(number: u32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{number}/task")).unwrap();
    let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")));
    names.filter(|name| name.as_ref().is_ok_and(|name| name.starts_with("weir-worker"))).count()
}

#[test]
fn another_number_of_workers_comes_with_an_upgrade() {
    let served = "listen 127.0.0.1:0 -> respond 200;";
    let mut line = Line::start(served);
    assert_eq!(workers(line.weir.process.id()), 2);
    let text = Line::configuration(&line.directory, served).replace("workers 2", "workers 3");
    line.directory.file("weir.conf", text);
    let socket = line.directory.text("admin.sock");
    let done = finish(weir_command().args(["reload", "--socket", &socket]), b"");
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    assert!(said.contains("the change of `workers` needs `weir upgrade`"), "{said}");
    assert_eq!(workers(line.weir.process.id()), 2);
    let process = line.upgraded();
    assert_eq!(workers(process), 3);
    assert_eq!(Client::connect(line.address()).ask("/").status, 200);
}

#[test]
fn what_runs_ends_where_it_began_and_idle_connections_go_on_in_the_new_process() {
    let origin = Origin::start(|connection| {
        while let Some(request) = connection.request() {
            if request.head.starts_with("GET /upgrade") {
                connection.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
                while let Some(bytes) = connection.some() {
                    connection.send(bytes);
                }
                return;
            }
            connection.answer(b"ok");
        }
    });
    let mut line = Line::start(&format!(
        "shutdown_timeout 20s;\nlisten 127.0.0.1:0 {{ route -> {}; }}",
        origin.address
    ));
    let mut idle = Client::connect(line.address());
    assert!(!idle.ask("/").closes());
    let mut socket = Client::connect(line.address());
    socket.send(
        b"GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    );
    assert_eq!(socket.head().status, 101);
    let successor = line.upgraded();

    let mut fresh = Client::connect(line.address());
    assert!(!fresh.ask("/").closes(), "the new process keeps connections");
    let next = idle.ask("/");
    assert_eq!((next.text().as_str(), next.closes()), ("ok", false));
    socket.send(b"frame");
    assert_eq!(socket.exactly(5), b"frame");
    assert!(line.weir.process.ended().is_none(), "it stays for its tunnel");
    drop(socket);
    assert_eq!(line.weir.process.wait().code(), Some(0));
    assert!(is_running(successor));
    assert!(!fresh.ask("/").closes());
    assert!(!idle.ask("/").closes());
}

#[test]
fn a_program_that_fails_or_hangs_leaves_the_old_process_serving() {
    let mut line = Line::start("listen 127.0.0.1:0 -> respond 204;");
    let mut client = Client::connect(line.address());
    let own = line.pid();
    let fails = line.script("fails", "exit 1");
    let marker = line.directory.text("helper");
    let hangs = line.script("hangs", &format!("sleep 600 & echo $! > {marker}\nwait"));
    let absent = line.directory.text("absent");
    for (program, expected) in [
        (&fails, "ended before it was ready, with exit status: 1"),
        (&hangs, "was not ready within 1 s, and was ended"),
        (&absent, "cannot start"),
    ] {
        let (code, said) = line.not_upgraded(&[program, "--timeout", "1"]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(expected), "{said}");
        let answer = client.ask("/");
        assert_eq!((answer.status, answer.closes()), (204, false));
        assert_eq!(Client::connect(line.address()).ask("/").status, 204);
    }
    let helper = std::fs::read_to_string(&marker).unwrap().trim().parse().unwrap();
    eventually("what it started is ended too", || (!is_running(helper)).then_some(()));
    assert_eq!(line.pid(), own);
    // Then an upgrade succeeds.
    line.upgraded();
    assert!(!client.ask("/").closes());
}

#[test]
fn a_rejected_configuration_and_an_address_in_use_are_reported_to_the_caller() {
    let mut line = Line::start("listen 127.0.0.1:0 -> respond 204;");
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap();
    let front = "listen 127.0.0.1:0 -> respond 204;";
    for (more, code, expected) in [
        (format!("listen {taken} -> respond 204;\n{front}"), 1, taken.to_string()),
        (format!("lissen 127.0.0.1:0;\n{front}"), 3, "lissen".to_owned()),
    ] {
        let config = Line::configuration(&line.directory, &more);
        line.directory.file("weir.conf", config);
        let (found, said) = line.not_upgraded(&[]);
        assert_eq!(found, Some(code), "{said}");
        assert!(said.contains(&expected), "{said}");
        assert_eq!(Client::connect(line.address()).ask("/").status, 204);
    }
}

#[test]
fn runtime_changes_go_with_the_state_file() {
    let origin = Origin::echo();
    let directory = Directory::new();
    let state = directory.text("state.json");
    let mut line = Line::start(&format!(
        "state_file {state};
         pool app {{ server {} name=one max_conn=5; server 127.0.0.1:9 name=two; }}
         listen 127.0.0.1:0 -> app;",
        origin.address
    ));
    let socket = line.directory.text("admin.sock");
    let drained = |arguments: &[&str]| {
        let done = finish(weir_command().args(["ctl", "--socket", &socket]).args(arguments), b"");
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    drained(&["drain", "app/two"]);
    line.upgraded();
    let shown = drained(&["show", "app/two"]);
    assert!(shown.contains("draining"), "{shown}");
}

#[test]
fn a_slow_start_continues_in_the_new_process() {
    let [one, slow] = ["one", "slow"].map(|name| {
        Origin::start(move |connection| {
            while connection.request().is_some() {
                connection.answer(name.as_bytes());
            }
        })
    });
    let mut line = Line::start(&format!(
        "pool app {{ server {} name=one; server {} name=slow slow_start=10h; }}
         listen 127.0.0.1:0 -> app;",
        one.address, slow.address
    ));
    let socket = line.directory.text("admin.sock");
    for order in ["maintenance", "ready"] {
        let command = ["ctl", "--socket", &socket, order, "app/slow"];
        let done = finish(weir_command().args(command), b"");
        assert!(done.status.success(), "{done:?}");
    }
    for _ in 0..2 {
        let mut client = Client::connect(line.address());
        let answers: Vec<_> = (0..10).map(|_| client.ask("/").body).collect();
        assert!(answers.iter().all(|body| body == b"one"), "{answers:?}");
        line.upgraded();
    }
}

#[test]
fn an_agent_goes_over_to_the_new_process() {
    let mut line = Line::start("agent 127.0.0.1:0;\nlisten 127.0.0.1:0 -> respond 204;");
    let agent: SocketAddr = eventually("the agent listens", || {
        let said = line.weir.process.said();
        let own = said.lines().find_map(|line| line.strip_suffix(" (agent)"))?;
        own.rsplit(' ').next()?.parse().ok()
    });
    let told = || {
        let mut text = String::new();
        std::net::TcpStream::connect(agent).unwrap().read_to_string(&mut text).unwrap();
        text
    };
    assert_eq!(told(), "100%\n");
    line.upgraded();
    line.weir.process.wait();
    assert_eq!(told(), "100%\n");
}

#[test]
fn a_signal_upgrades_too() {
    let mut line = Line::start("listen 127.0.0.1:0 -> respond 204;");
    let own = line.weir.process.id();
    let done = finish(
        std::process::Command::new("sh").args(["-c", &format!("kill -s RTMIN+1 {own}")]),
        b"",
    );
    assert!(done.status.success(), "{done:?}");
    assert_eq!(line.weir.process.wait().code(), Some(0), "{}", line.weir.process.said());
    let successor = eventually("the new one names itself", || line.pid());
    line.successors.push(successor);
    assert_ne!(successor, own);
    assert_eq!(Client::connect(line.address()).ask("/").status, 204);
}
