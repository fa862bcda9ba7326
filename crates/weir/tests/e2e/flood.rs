//! Far more connections than the limit allows, and connections that never pause.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, socket_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::Directory;
use crate::support::client::Client;
use crate::support::origin::Origin;
use crate::support::weir::Weir;

const CAP: usize = 1000;
const SERVED: usize = 100;
const FLOOD: usize = 20_000;
/// The descriptors of this process that are not used for the flood.
const RESERVE: u64 = 700;

/// Returns the number of sockets to open: the wanted number, or as many as this process may have.
fn room() -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let room = maximum.unwrap_or(u64::MAX).saturating_sub(RESERVE);
    usize::try_from(room).unwrap_or(FLOOD).min(FLOOD)
}

#[test]
#[ignore = "takes 20,000 sockets: make test-long"]
fn twenty_thousand_connections_against_a_lower_cap_harm_no_served_client() {
    let directory = Directory::new();
    let origin = Origin::echo();
    let config =
        format!("workers 2;\nlisten 127.0.0.1:0 max_connections={CAP} -> {};", origin.address);
    let weir = Weir::start(&directory, &config);
    let mut served: Vec<_> = (0..SERVED).map(|_| Client::connect(weir.address())).collect();
    for client in &mut served {
        assert_eq!(client.ask("/").text(), "ok");
    }
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    // The flood comes from another client address: if one client holds all places, its own idle
    // connections are closed first.
    let flooder = SocketAddr::from(([127, 0, 0, 2], 0));
    let flood: Vec<OwnedFd> = (0..room())
        .map(|_| {
            let socket =
                socket_with(AddressFamily::INET, SocketType::STREAM, flags, Some(ipproto::TCP))
                    .unwrap();
            bind(&socket, &flooder).unwrap();
            let begun = connect(&socket, &weir.address());
            assert!(matches!(begun, Ok(()) | Err(Errno::INPROGRESS)), "{begun:?}");
            socket
        })
        .collect();
    assert!(flood.len() > 10 * CAP, "only {} sockets may be opened here", flood.len());
    for _ in 0..20 {
        for client in &mut served {
            assert_eq!(client.ask("/").text(), "ok");
        }
    }
    let resident = weir.process.resident_bytes();
    assert!(resident < 200 << 20, "{resident} bytes resident");
    drop(flood);
    drop(served);
    assert_eq!(Client::connect(weir.address()).ask("/").text(), "ok");
}

const FLOODERS: usize = 20;
const SAMPLES: usize = 300;
/// The requests that a flooding client sends in one write.
const BATCH: usize = 256;
/// The shortest latency that is used as the undisturbed one; below it, scheduling noise would
/// decide.
const SHORTEST: Duration = Duration::from_millis(2);

/// Returns the 99th percentile of the response times of an honest client.
fn honest_p99(client: &mut Client) -> Duration {
    let mut times: Vec<Duration> = (0..SAMPLES)
        .map(|_| {
            let began = Instant::now();
            assert_eq!(client.ask("/").text(), "ok");
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[SAMPLES * 99 / 100]
}

/// Sends requests that are refused at once, pipelined and without a pause, until `ends` is set.
fn flood(mut stream: TcpStream, ends: &AtomicBool) {
    let requests = "GET /no HTTP/1.1\r\nHost: a\r\n\r\n".repeat(BATCH);
    let mut reader = stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut buffer = vec![0; 256 * 1024];
            while matches!(reader.read(&mut buffer), Ok(1..)) {}
        });
        while !ends.load(Ordering::Relaxed) && stream.write_all(requests.as_bytes()).is_ok() {}
        let _ = stream.shutdown(Shutdown::Both);
    });
}

#[test]
#[ignore = "measures times: make test-long"]
fn alone_on_the_machine_flooding_connections_leave_an_honest_client_its_turn() {
    let directory = Directory::new();
    let origin = Origin::echo();
    let config = format!(
        "workers 1;\nlisten 127.0.0.1:0 {{ route path /no -> respond 403; default -> {}; }}",
        origin.address
    );
    let weir = Weir::start(&directory, &config);
    let mut client = Client::connect(weir.address());
    let alone = honest_p99(&mut client);
    let ends = AtomicBool::new(false);
    let among = std::thread::scope(|scope| {
        for _ in 0..FLOODERS {
            let stream = TcpStream::connect(weir.address()).unwrap();
            scope.spawn(|| flood(stream, &ends));
        }
        let among = honest_p99(&mut client);
        ends.store(true, Ordering::Relaxed);
        among
    });
    println!("p99 {alone:?} alone, {among:?} among {FLOODERS} connections that flood");
    assert!(among < 25 * alone.max(SHORTEST), "{alone:?} alone, {among:?} among floods");
}
