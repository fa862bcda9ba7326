//! The memory budget, `memory max=`, of a real process: its resident memory stays below it,
//! whatever clients send.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::admin::{asked, named};
use crate::support::weir::Weir;
use crate::support::{Directory, eventually};

const BUDGET: usize = 64 << 20;
const ATTACKERS: usize = 60;
/// The most bytes of each attacker's body, which never ends.
const SENT: usize = 6 << 20;

/// Returns the resident memory of a process without the pages of its program, in bytes.
fn resident(process: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() * 1024
}

/// Sends a body in chunks until the other side accepts no more for a while.
fn pour(address: std::net::SocketAddr) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(3))).unwrap();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk = [b"3e8\r\n".as_slice(), &[b'x'; 1_000], b"\r\n"].concat();
    let mut sent = stream.write_all(head.as_bytes());
    for _ in 0..SENT / chunk.len() {
        sent = sent.and_then(|()| stream.write_all(&chunk));
    }
}

/// The buffered bodies of all requests together exceed five times the budget, and none of them is
/// complete.
#[test]
fn the_resident_memory_of_the_process_stays_below_its_budget() {
    let directory = Directory::new();
    let origin = named("one");
    let socket = directory.path().join("admin.sock");
    let config = format!(
        "workers 2;
         memory max=64m;
         admin unix:{};
         pool app {{ server {}; buffer_request 8m; }}
         listen 127.0.0.1:0 {{ limits body=16m; default -> app; }}",
        socket.display(),
        origin.address,
    );
    let weir = Weir::start(&directory, &config);
    let (process, address) = (weir.process.id(), weir.address());
    let over = AtomicBool::new(false);
    let most = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = 0;
            while !over.load(Ordering::Relaxed) {
                most = most.max(resident(process));
            }
            most
        });
        let attackers: Vec<_> = (0..ATTACKERS).map(|_| scope.spawn(|| pour(address))).collect();
        for attacker in attackers {
            attacker.join().unwrap();
        }
        over.store(true, Ordering::Relaxed);
        watch.join().unwrap()
    });
    assert!(most <= BUDGET, "{} MB", most >> 20);
    assert!(most >= BUDGET / 2, "{} MB: too little to tell anything", most >> 20);
    let socket = socket.display().to_string();
    let (_, metrics) = asked(&["--unix-socket", &socket, "http://weir/metrics"]);
    let counted = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim().parse::<u64>().unwrap_or_else(|_| panic!("no {name}: {metrics}"))
    };
    let relieved =
        counted("weir_memory_reads_paused_total") + counted("weir_memory_requests_given_up_total");
    assert!(relieved > 0, "{metrics}");
    // Weir may refuse requests until it has noticed that all attackers are gone.
    eventually("a client is served", || {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").ok()?;
        let mut response = Vec::new();
        stream.read_to_end(&mut response).ok()?;
        response.starts_with(b"HTTP/1.1 200 ").then_some(())
    });
}
