//! Start, refusal to start, and graceful stop.

use std::net::TcpListener;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use rustix::process::Signal;

use crate::support::client::{Client, End};
use crate::support::origin::Origin;
use crate::support::process::{command, finish};
use crate::support::programs::Certificate;
use crate::support::weir::{Weir, weir_command};
use crate::support::{Directory, PATIENCE, eventually};

/// Runs a configuration that must not start and returns the exit status and the messages.
fn refused(directory: &Directory, config: &str) -> (Option<i32>, String) {
    let path = directory.file("refused.conf", config);
    let done = finish(weir_command().args(["run", "-c"]).arg(path), b"");
    (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn check_reports_every_error_at_once_and_exits_3() {
    let directory = Directory::new();
    let config = "pool app { balence least_conn; server 127.0.0.1; }\nlisten 127.0.0.1:0 -> ap;\n";
    let path = directory.file("bad.conf", config);
    let done = finish(weir_command().arg("check").arg(&path), b"");
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    assert_eq!(done.status.code(), Some(3), "{said}");
    for expected in ["bad.conf:1:12", "bad.conf:1:", "bad.conf:2:", "balence", "balance", "app"] {
        assert!(said.contains(expected), "{expected} is not in {said}");
    }
    let (code, said) = refused(&directory, config);
    assert_eq!(code, Some(3), "{said}");
    assert!(!said.contains("listening on"), "{said}");
}

#[test]
fn a_port_in_use_is_reported_in_one_sentence_and_exits_1() {
    let directory = Directory::new();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap();
    let (code, said) = refused(&directory, &format!("listen {address} -> 127.0.0.1:9;"));
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(said.lines().filter(|line| !line.contains("warning")).count(), 1, "{said}");
    assert!(said.contains(&address.to_string()), "{said}");
}

#[test]
fn a_key_that_is_absent_or_belongs_elsewhere_exits_1() {
    let directory = Directory::new();
    let ours = Certificate::localhost(&directory);
    let p256 = "ec -pkeyopt ec_paramgen_curve:P-256";
    let other = Certificate::self_signed(&directory, "other", p256, &["other.example"]);
    for key in [other.key.display().to_string(), directory.text("absent.key")] {
        let config = format!(
            "listen 127.0.0.1:0 tls -> 127.0.0.1:9 {{ certificate {} key={key}; }}",
            ours.chain.display()
        );
        let (code, said) = refused(&directory, &config);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(".key") || said.contains(".pem"), "{said}");
        assert!(!said.contains("listening on"), "{said}");
    }
}

/// Starts an origin that answers when the test releases it.
pub(crate) fn slow_origin() -> (Origin, mpsc::Sender<()>) {
    let (release, wait) = mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    let origin = Origin::start(move |connection| {
        while let Some(request) = connection.request() {
            if request.head.starts_with("GET /slow") {
                let _ = wait.lock().unwrap().recv_timeout(PATIENCE);
            }
            connection.answer(b"done");
        }
    });
    (origin, release)
}

#[test]
fn a_stop_finishes_what_runs_and_answers_idle_connections_once_more() {
    for signal in [Signal::TERM, Signal::QUIT] {
        let directory = Directory::new();
        let (origin, release) = slow_origin();
        let mut weir =
            Weir::start(&directory, &format!("listen 127.0.0.1:0 -> {};", origin.address));
        let mut idle = Client::connect(weir.address());
        assert_eq!(idle.ask("/").text(), "done");
        let mut running = Client::connect(weir.address());
        running.get("/slow");
        origin.wait_for("GET /slow");
        weir.process.signal(signal);
        eventually("nothing new is taken", || {
            std::net::TcpStream::connect(weir.address()).is_err().then_some(())
        });

        let last = idle.ask("/");
        assert_eq!((last.text().as_str(), last.closes()), ("done", true));
        assert_eq!(idle.rest(), (Vec::new(), End::Closed));
        assert!(running.is_silent());
        release.send(()).unwrap();
        let finished = running.response();
        assert_eq!((finished.text().as_str(), finished.closes()), ("done", true));
        assert_eq!(weir.process.wait().code(), Some(0));
    }
}

#[test]
fn no_client_is_told_to_come_back_before_the_sockets_are_closed() {
    let origin = Origin::echo();
    for round in 0..8 {
        let directory = Directory::new();
        let signal = if round % 2 == 0 { Signal::TERM } else { Signal::QUIT };
        let config = format!("workers 4;\nlisten 127.0.0.1:0 -> {};", origin.address);
        let mut weir = Weir::start(&directory, &config);
        let address = weir.address();
        let (ready, begun) = mpsc::channel();
        let clients: Vec<_> = (0..8)
            .map(|_| {
                let ready = ready.clone();
                std::thread::spawn(move || {
                    let mut client = Client::connect(address);
                    assert_eq!(client.ask("/").status, 200);
                    ready.send(()).unwrap();
                    while !client.ask("/").closes() {}
                    // A client that gets `Connection: close` opens another connection.
                    std::net::TcpStream::connect(address).map(drop).map_err(|error| error.kind())
                })
            })
            .collect();
        for _ in &clients {
            begun.recv_timeout(PATIENCE).unwrap();
        }
        weir.process.signal(signal);
        for client in clients {
            let connected = client.join().unwrap();
            assert_eq!(connected, Err(std::io::ErrorKind::ConnectionRefused));
        }
        assert_eq!(weir.process.wait().code(), Some(0));
    }
}

#[test]
fn a_second_term_stops_at_once() {
    let directory = Directory::new();
    let (origin, _release) = slow_origin();
    let mut weir = Weir::start(&directory, &format!("listen 127.0.0.1:0 -> {};", origin.address));
    let mut running = Client::connect(weir.address());
    running.get("/slow");
    origin.wait_for("GET /slow");
    weir.process.signal(Signal::TERM);
    eventually("nothing new is taken", || {
        std::net::TcpStream::connect(weir.address()).is_err().then_some(())
    });
    assert!(weir.process.ended().is_none());
    weir.process.signal(Signal::TERM);
    weir.process.wait();
    let answer = running.response();
    assert_eq!(answer.status, 503);
    assert!(answer.closes());
}

#[test]
fn the_deadline_of_a_stop_holds() {
    let directory = Directory::new();
    let (origin, _release) = slow_origin();
    let config = format!("shutdown_timeout 300ms;\nlisten 127.0.0.1:0 -> {};", origin.address);
    let mut weir = Weir::start(&directory, &config);
    let mut running = Client::connect(weir.address());
    running.get("/slow");
    origin.wait_for("GET /slow");
    weir.process.signal(Signal::TERM);
    weir.process.wait();
    let answer = running.response();
    assert_eq!(answer.status, 503);
    assert!(answer.closes());
}

#[test]
fn usr1_reopens_the_log_after_a_rotation() {
    let directory = Directory::new();
    let origin = Origin::echo();
    let log = directory.text("access.log");
    let config = format!(
        "log access {{ to {log}; format \"$request_uri\"; }}
         listen 127.0.0.1:0 {{ log access; route -> {}; }}",
        origin.address
    );
    let weir = Weir::start(&directory, &config);
    let mut client = Client::connect(weir.address());
    let has = |file: &str, line: &str| {
        eventually(&format!("{file} has {line}"), || {
            std::fs::read_to_string(file).ok()?.lines().any(|own| own == line).then_some(())
        });
    };
    client.ask("/before");
    has(&log, "/before");
    let rotated = format!("{log}.1");
    std::fs::rename(&log, &rotated).unwrap();
    weir.process.signal(Signal::USR1);
    eventually("the log is there again", || std::fs::metadata(&log).is_ok().then_some(()));
    client.ask("/after");
    has(&log, "/after");
    assert_eq!(std::fs::read_to_string(&rotated).unwrap(), "/before\n");
}

#[test]
fn sockets_in_the_file_system_serve_on_both_sides() {
    let directory = Directory::new();
    let origin = Origin::echo();
    let (inner, outer) = (directory.text("inner.sock"), directory.text("outer.sock"));
    let config = format!(
        "listen unix:{inner} -> {};
         listen unix:{outer} -> unix:{inner};
         listen 127.0.0.1:0 -> unix:{outer};",
        origin.address
    );
    let weir = Weir::start_with_addresses(&directory, &config, 1);
    assert_eq!(Client::connect(weir.address()).ask("/").text(), "ok");
    let over_socket = ["--unix-socket", &outer, "http://localhost/"];
    assert_eq!(crate::support::programs::curl(over_socket), b"ok");
}

/// An environment variable of an upgrade that is outdated or forged is refused with a message, and
/// no descriptor gets two owners.
#[test]
fn a_forged_handover_is_refused_with_a_sentence() {
    let directory = Directory::new();
    let config = "workers 1; listen 127.0.0.1:0 -> respond 204;";
    let path = directory.file("weir.conf", config).display().to_string();
    let check = |variables: &str, expected: &str| {
        // Descriptor 3 is a pipe, 4 a file; no other is open.
        let script =
            format!("exec 4</dev/null; {variables} exec \"$0\" run -c \"$1\" 3>&1 >/dev/null");
        let mut shell = command("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_weir"), &path]).env("NO_COLOR", "1");
        let done = finish(&mut shell, b"");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(1), "{variables}: {said}");
        assert!(said.contains(expected), "{variables}: {said}");
    };
    let upgrade = |text: &str| format!("WEIR_UPGRADE='{text}'");
    check(&upgrade("nonsense"), "WEIR_UPGRADE: expected ");
    check(
        &upgrade(r#"{"ready":3,"sockets":[[3,{"socket":"127.0.0.1:1"}]]}"#),
        "WEIR_UPGRADE: descriptor 3 is named twice; only a Weir that is upgraded",
    );
    check(
        &upgrade(r#"{"ready":3,"passing":3,"sockets":[]}"#),
        "WEIR_UPGRADE: descriptor 3 is named twice",
    );
    check(
        &upgrade(r#"{"ready":77,"sockets":[]}"#),
        "WEIR_UPGRADE: descriptor 77: nothing was handed over there",
    );
    check(&upgrade(r#"{"ready":4,"sockets":[]}"#), "WEIR_UPGRADE: descriptor 4: it is no pipe");
    check(&upgrade(r#"{"ready":3,"passing":4,"sockets":[]}"#), "WEIR_UPGRADE: descriptor 4: ");
    check(
        &upgrade(r#"{"ready":3,"sockets":[[4,{"socket":"127.0.0.1:1"}]]}"#),
        "WEIR_UPGRADE: descriptor 4: ",
    );
    check("LISTEN_FDS=1 LISTEN_PID=$$", "handed over by systemd");
}

/// Returns the cores that each worker of a process may run on, in the kernel's form, by the
/// worker's number.
fn cores_of_workers(process: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let mut workers: Vec<(usize, String)> = tasks
        .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).ok())
        .filter_map(|status| {
            let number = status.strip_prefix("Name:\tweir-worker-")?.lines().next()?.parse();
            Some((number.unwrap(), allowed_cores(&status)))
        })
        .collect();
    workers.sort();
    workers.into_iter().map(|(_, cores)| cores).collect()
}

fn allowed_cores(status: &str) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.unwrap().trim().to_owned()
}

/// A core that this machine has, and one that no machine of ours has.
#[test]
fn workers_are_pinned_to_the_cores_of_the_file_and_others_are_warned_of() {
    let own = allowed_cores(&std::fs::read_to_string("/proc/self/status").unwrap());
    let last = own.rsplit([',', '-']).next().unwrap().to_owned();
    let directory = Directory::new();
    let text = format!("workers 3 cpus={last},1023; listen 127.0.0.1:0 -> respond 204;");
    let path = directory.file("weir.conf", &text);
    let done = finish(weir_command().arg("check").arg(&path), b"");
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    assert!(done.status.success(), "{said}");
    assert!(said.contains("may not use the cores 1023; its workers use the other ones"), "{said}");
    let mut run = weir_command();
    run.args(["run", "-c"]).arg(path);
    let weir = Weir::run(run.env("WEIR_SUPERVISOR", "off"), 1);
    assert_eq!(cores_of_workers(weir.process.id()), vec![last; 3]);
}

#[test]
fn each_worker_is_pinned_to_a_core_of_its_own_within_the_allowed_set() {
    let own = allowed_cores(&std::fs::read_to_string("/proc/self/status").unwrap());
    let whole: Vec<String> = own
        .split(',')
        .flat_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            first.parse::<usize>().unwrap()..=last.parse().unwrap()
        })
        .map(|core| core.to_string())
        .collect();
    let last = whole.last().unwrap().clone();
    for (set, expected) in [(own.clone(), whole), (last.clone(), vec![last])] {
        let directory = Directory::new();
        let path = directory.file("weir.conf", "listen 127.0.0.1:0 -> respond 204;");
        let mut limited = command("taskset");
        limited.args(["-c", &set, env!("CARGO_BIN_EXE_weir"), "run", "-c"]).arg(path);
        let weir = Weir::run(limited.env("WEIR_SUPERVISOR", "off"), 1);
        assert_eq!(cores_of_workers(weir.process.id()), expected, "within {set}");
    }
}
