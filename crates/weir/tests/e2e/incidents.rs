//! Weir when a part of it fails: a worker that hangs or panics, a process that dies, under load. Only the
//! exchanges of that part are lost, and nothing that it had is lost for good.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::support::client::Client;
use crate::support::origin::Origin;
use crate::support::process::{command, finish};
use crate::support::programs::curl_command;
use crate::support::weir::{Weir, weir_command};
use crate::support::{Directory, PATIENCE, eventually};

/// Clients that ask one request after the other, over connections that they keep.
struct Load {
    stop: Arc<AtomicBool>,
    counts: Arc<Counts>,
    clients: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Counts {
    answered: AtomicUsize,
    /// Sent, and not answered.
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

    /// Waits until so many more were answered.
    fn go_on(&self, more: usize) {
        let until = self.answered() + more;
        eventually("requests are answered", || (self.answered() >= until).then_some(()));
    }

    /// Ends it: answered, lost, refused.
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

/// One request; the whole answer ends with the body `ok`.
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

/// A Weir of two workers that breaks when told to, in front of one server of a few places with a queue.
struct Breakable {
    weir: Weir,
    directory: Directory,
    orders: PathBuf,
    _origin: Origin,
}

impl Breakable {
    fn start(arguments: &[&str]) -> Self {
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
        run.env("WEIR_FAULTS", &orders).arg("run").args(arguments).arg("-c").arg(path);
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

    fn said(&self, text: &str) {
        eventually(text, || self.weir.process.said().contains(text).then_some(()));
    }

    /// Nothing is held by what is gone, and every place of the server can be had.
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
    let breakable = Breakable::start(&[]);
    let load = Load::start(breakable.weir.address(), 16);
    load.go_on(500);
    breakable.order("hang 0");
    breakable.said("worker 0 has not answered for a second");
    // Others are served meanwhile, and whoever comes anew.
    load.go_on(200);
    breakable.said("worker 0 was replaced");
    load.go_on(500);
    let lost_connections = breakable.figure("weir_worker_lost_connections_total").unwrap();
    let (answered, lost, refused) = load.end();
    eprintln!(
        "hang: {answered} answered, {lost} lost, {lost_connections} connections of the worker"
    );
    assert!(lost as f64 <= lost_connections && lost > 0, "{lost} of {lost_connections}");
    assert_eq!(refused, 0);
    assert_eq!(breakable.figure("weir_workers_replaced_total"), Some(1.0));
    assert!(breakable.weir.process.said().contains("inject"), "{}", breakable.weir.process.said());
    breakable.has_lost_nothing_for_good();
}

#[test]
fn a_worker_that_panics_under_load_starts_again_and_only_its_requests_are_lost() {
    let breakable = Breakable::start(&[]);
    let load = Load::start(breakable.weir.address(), 16);
    load.go_on(500);
    breakable.order("panic 1");
    breakable.said("weir-worker-1 ended by a bug: told to; it starts again");
    load.go_on(500);
    let lost_connections = breakable.figure("weir_worker_lost_connections_total").unwrap();
    let (answered, lost, refused) = load.end();
    eprintln!("panic: {answered} answered, {lost} lost, {lost_connections} connections");
    assert!(lost as f64 <= lost_connections, "{lost} of {lost_connections}");
    assert_eq!(refused, 0);
    breakable.has_lost_nothing_for_good();
}

#[test]
fn a_panic_within_a_task_costs_nobody_else_anything() {
    let breakable = Breakable::start(&[]);
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
