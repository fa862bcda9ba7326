//! Failures of a part of Weir under load: a worker that hangs or panics, a process that dies. Only
//! the exchanges of that part are lost, and its slots and connections are given back.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::client::Client;
use crate::support::origin::Origin;
use crate::support::process::{command, finish};
use crate::support::programs::curl_command;
use crate::support::weir::{Weir, weir_command};
use crate::support::{Directory, PATIENCE, eventually};

/// Clients that send one request after the other over connections that they keep.
struct Load {
    stop: Arc<AtomicBool>,
    counts: Arc<Counts>,
    clients: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Counts {
    answered: AtomicUsize,
    /// Requests that were sent and not answered.
    lost: AtomicUsize,
    /// Connections that were refused.
    refused: AtomicUsize,
}

impl Load {
    fn start(address: SocketAddr, clients: usize) -> Self {
        let (stop, counts) = (Arc::new(AtomicBool::new(false)), Arc::<Counts>::default());
        let client = |_| {
            let (stop, counts) = (stop.clone(), counts.clone());
            std::thread::spawn(move || {
                let mut connection = None;
                while !stop.load(Ordering::Relaxed) {
                    let Some(mut stream) = connection.take().or_else(|| connect(address)) else {
                        counts.refused.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(Duration::from_millis(1));
                        continue;
                    };
                    if ask(&mut stream).is_some() {
                        counts.answered.fetch_add(1, Ordering::Relaxed);
                        connection = Some(stream);
                    } else {
                        counts.lost.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        };
        let clients = (0..clients).map(client).collect();
        Self { stop, counts, clients }
    }

    fn answered(&self) -> usize {
        self.counts.answered.load(Ordering::Relaxed)
    }

    /// Waits until `more` further requests are answered.
    fn go_on(&self, more: usize) {
        let until = self.answered() + more;
        eventually("requests are answered", || (self.answered() >= until).then_some(()));
    }

    /// Ends the load and returns the numbers of answered, lost and refused requests.
    fn end(self) -> (usize, usize, usize) {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.into_iter().for_each(|client| client.join().unwrap());
        let read = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        (read(&self.counts.answered), read(&self.counts.lost), read(&self.counts.refused))
    }
}

fn connect(address: SocketAddr) -> Option<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_nodelay(true).ok()?;
    Some(stream)
}

/// Sends one request; the complete response ends with the body `ok`.
fn ask(stream: &mut TcpStream) -> Option<()> {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").ok()?;
    let mut response = Vec::new();
    let mut piece = [0; 4096];
    while !response.ends_with(b"\r\n\r\nok") {
        match stream.read(&mut piece) {
            Ok(count @ 1..) => response.extend_from_slice(&piece[..count]),
            _ => return None,
        }
    }
    response.starts_with(b"HTTP/1.1 200 ").then_some(())
}

/// A Weir of two workers that fails on command, in front of one server with a few slots and a
/// queue.
struct Breakable {
    weir: Weir,
    directory: Directory,
    orders: PathBuf,
    _origin: Origin,
}

/// The use of a supervisor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Supervised {
    Yes,
    No,
}

impl Breakable {
    fn start(supervised: Supervised) -> Self {
        let (directory, origin) = (Directory::new(), Origin::echo());
        let orders = directory.path().join("faults");
        assert!(finish(command("mkfifo").arg(&orders), b"").status.success());
        let config = format!(
            "workers 2;
             watchdog 2s;
             admin unix:{}/admin.sock;
             pool app {{
                 server {} name=one max_conn=4;
                 queue max=100 timeout=20s;
             }}
             listen 127.0.0.1:0 -> app;",
            directory.path().display(),
            origin.address,
        );
        let path = directory.file("weir.conf", config);
        let mut run = weir_command();
        run.env("WEIR_FAULTS", &orders).args(["run", "-c"]).arg(path);
        if supervised == Supervised::Yes {
            run.env_remove("WEIR_SUPERVISOR");
        }
        let weir = Weir::run(run.stdin(Stdio::null()), 1);
        Self { weir, directory, orders, _origin: origin }
    }

    fn order(&self, fault: &str) {
        std::fs::write(&self.orders, format!("{fault}\n")).unwrap();
    }

    fn figure(&self, name: &str) -> Option<f64> {
        let socket = self.directory.text("admin.sock");
        let mut curl = curl_command();
        curl.args(["-s", "--max-time", "5", "--unix-socket", &socket, "http://weir/metrics"]);
        let text = String::from_utf8(finish(&mut curl, b"").stdout).unwrap();
        let line = text.lines().find(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']))
        })?;
        line.rsplit(' ').next()?.parse().ok()
    }

    /// Returns a count of incidents from the admin interface.
    fn incident(&self, name: &str) -> u64 {
        let socket = self.directory.text("admin.sock");
        let mut curl = curl_command();
        curl.args(["-s", "--max-time", "5", "--unix-socket", &socket, "http://weir/v1/status"]);
        let status: serde_json::Value =
            serde_json::from_slice(&finish(&mut curl, b"").stdout).unwrap();
        status["info"]["incidents"][name].as_u64().unwrap()
    }

    /// Checks that no slot is held by a lost worker and that every slot of the server is available.
    fn has_lost_nothing_for_good(&self) {
        eventually("nothing is in flight", || {
            (self.figure("weir_pool_in_flight")? == 0.0).then_some(())
        });
        assert_eq!(self.figure("weir_pool_queue"), Some(0.0));
        assert_eq!(self.figure("weir_pool_law_violations_total"), Some(0.0));
        let mut client = Client::connect(self.weir.address());
        for _ in 0..20 {
            assert_eq!(client.ask("/").status, 200);
        }
    }
}

#[test]
fn a_worker_that_hangs_under_load_is_replaced_and_only_its_requests_are_lost() {
    let breakable = Breakable::start(Supervised::No);
    let load = Load::start(breakable.weir.address(), 16);
    load.go_on(500);
    breakable.order("hang 0");
    breakable.weir.process.says("worker 0 has not answered for a second");
    // Other connections are served meanwhile, and new ones too.
    load.go_on(200);
    breakable.weir.process.says("worker 0 was replaced");
    load.go_on(500);
    let lost_connections = breakable.figure("weir_worker_lost_connections_total").unwrap();
    let (answered, lost, refused) = load.end();
    eprintln!(
        "hang: {answered} answered, {lost} lost, {lost_connections} connections of the worker"
    );
    assert!(lost as f64 <= lost_connections && lost > 0, "{lost} of {lost_connections}");
    assert_eq!(refused, 0);
    assert_eq!(breakable.figure("weir_workers_replaced_total"), Some(1.0));
    assert_eq!((breakable.incident("hangs"), breakable.incident("replaced")), (1, 1));
    assert!(breakable.incident("lost_requests") > 0);
    breakable.weir.process.says("(start.rs:");
    breakable.has_lost_nothing_for_good();
}

#[test]
fn a_worker_that_panics_under_load_starts_again_and_only_its_requests_are_lost() {
    let breakable = Breakable::start(Supervised::No);
    let load = Load::start(breakable.weir.address(), 16);
    load.go_on(500);
    breakable.order("panic 1");
    breakable.weir.process.says("weir-worker-1 ended by a bug: told to; it starts again");
    load.go_on(500);
    let lost_connections = breakable.figure("weir_worker_lost_connections_total").unwrap();
    let (answered, lost, refused) = load.end();
    eprintln!("panic: {answered} answered, {lost} lost, {lost_connections} connections");
    assert!(lost as f64 <= lost_connections, "{lost} of {lost_connections}");
    assert_eq!(refused, 0);
    breakable.has_lost_nothing_for_good();
}

#[test]
fn a_panic_within_a_task_affects_no_other_request() {
    let breakable = Breakable::start(Supervised::No);
    let load = Load::start(breakable.weir.address(), 8);
    load.go_on(200);
    for worker in 0..2 {
        breakable.order(&format!("task {worker}"));
    }
    load.go_on(500);
    let (_, lost, refused) = load.end();
    assert_eq!((lost, refused), (0, 0));
    assert_eq!(breakable.figure("weir_worker_panics_total"), Some(0.0));
    breakable.has_lost_nothing_for_good();
}

#[test]
fn a_worker_that_hangs_with_a_lock_ends_the_process_which_is_started_again() {
    let breakable = Breakable::start(Supervised::Yes);
    let load = Load::start(breakable.weir.address(), 8);
    load.go_on(200);
    let first = serving(&breakable.weir).unwrap();
    breakable.order("lock 0");
    breakable.weir.process.says("hung with a lock that others need: the process ends");
    breakable
        .weir
        .process
        .says(&format!("process {first} was killed by signal 6 (SIGABRT): started again"));
    load.go_on(500);
    let (_, lost, refused) = load.end();
    assert!(lost <= 8, "{lost}");
    assert_eq!(refused, 0);
    assert_eq!(breakable.figure("weir_restarts_total"), Some(1.0));
    breakable.has_lost_nothing_for_good();
}

/// Returns the serving process of a supervisor.
fn serving(weir: &Weir) -> Option<u32> {
    let children = format!("/proc/{0}/task/{0}/children", weir.process.id());
    std::fs::read_to_string(children).ok()?.split_whitespace().next()?.parse().ok()
}

fn kill(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process as i32).unwrap(), signal).unwrap();
}

#[test]
fn a_process_that_is_killed_under_load_is_started_again_with_its_sockets() {
    let breakable = Breakable::start(Supervised::Yes);
    let clients = 16;
    let load = Load::start(breakable.weir.address(), clients);
    load.go_on(500);
    let first = serving(&breakable.weir).unwrap();
    kill(first, Signal::KILL);
    // The first restart has no delay.
    breakable.weir.process.says(&format!(
        "process {first} was killed by signal 9 (SIGKILL): started again (restart 1)\n"
    ));
    breakable.weir.process.says(" ms after the one before it died\n");
    load.go_on(500);
    assert!(breakable.figure("weir_restart_seconds").is_some_and(|time| time > 0.0));
    breakable.order("segv");
    breakable.weir.process.says("was killed by signal 11 (SIGSEGV): started again");
    load.go_on(500);
    let (answered, lost, refused) = load.end();
    eprintln!("killed twice: {answered} answered, {lost} lost, {refused} refused");
    assert!(lost <= 2 * clients, "{lost}");
    assert_eq!(refused, 0, "the sockets were closed");
    assert_eq!(breakable.figure("weir_restarts_total"), Some(2.0));
    breakable.has_lost_nothing_for_good();
}

#[test]
fn nothing_is_left_of_a_supervisor_that_is_told_to_stop_or_killed() {
    for signal in [Signal::TERM, Signal::KILL] {
        let mut breakable = Breakable::start(Supervised::Yes);
        let address = breakable.weir.address();
        let child = serving(&breakable.weir).unwrap();
        kill(breakable.weir.process.id(), signal);
        let ended = breakable.weir.process.wait();
        assert_eq!(ended.code(), (signal == Signal::TERM).then_some(0), "{signal:?}");
        eventually("the process that serves ends", || {
            (!std::path::Path::new(&format!("/proc/{child}")).exists()).then_some(())
        });
        TcpStream::connect(address).unwrap_err();
    }
}

#[test]
fn a_socket_that_a_reload_gives_up_is_not_held_by_the_supervisor() {
    let (directory, origin) = (Directory::new(), Origin::echo());
    let config = |second: &str| {
        format!("workers 1;\nlisten 127.0.0.1:0 name=first -> {};\n{second}", origin.address)
    };
    let path =
        directory.file("weir.conf", config("listen 127.0.0.1:0 name=second -> respond 204;\n"));
    let mut run = weir_command();
    let weir = Weir::run(run.env_remove("WEIR_SUPERVISOR").args(["run", "-c"]).arg(&path), 2);
    directory.file("weir.conf", config(""));
    kill(weir.process.id(), Signal::HUP);
    weir.process.says("reloaded");
    TcpStream::connect(weir.addresses[1]).unwrap_err();
    assert_eq!(Client::connect(weir.addresses[0]).ask("/").status, 200);
}

#[test]
fn an_upgrade_leaves_the_supervisor_where_it_is() {
    let mut breakable = Breakable::start(Supervised::Yes);
    let load = Load::start(breakable.weir.address(), 8);
    load.go_on(200);
    let before = serving(&breakable.weir).unwrap();
    let socket = breakable.directory.text("admin.sock");
    let upgraded = weir_command().args(["upgrade", "--socket", &socket]).output().unwrap();
    assert!(upgraded.status.success(), "{upgraded:?}");
    load.go_on(200);
    let successor = eventually("the successor is the supervisor's child", || {
        serving(&breakable.weir).filter(|process| *process != before)
    });
    kill(successor, Signal::KILL);
    breakable.weir.process.says(&format!("process {successor} was killed by signal 9"));
    load.go_on(200);
    let (_, lost, refused) = load.end();
    assert!(lost <= 8, "{lost}");
    assert_eq!(refused, 0);
    kill(breakable.weir.process.id(), Signal::TERM);
    assert_eq!(breakable.weir.process.wait().code(), Some(0));
}

#[test]
fn a_configuration_that_is_wrong_ends_the_supervisor_with_its_exit_code() {
    let directory = Directory::new();
    let path = directory.file("weir.conf", "listen nowhere");
    let done =
        finish(weir_command().env_remove("WEIR_SUPERVISOR").args(["run", "-c"]).arg(&path), b"");
    assert_eq!(done.status.code(), Some(3));
    let (_taken, at) = crate::support::programs::listen();
    let path = directory.file("weir.conf", format!("listen {at} -> respond 204;"));
    let done =
        finish(weir_command().env_remove("WEIR_SUPERVISOR").args(["run", "-c"]).arg(&path), b"");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert_eq!(said.matches("another program is listening there already").count(), 1, "{said}");
}
