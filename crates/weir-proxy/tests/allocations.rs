//! Steady keep-alive traffic allocates nothing per request: heads, buffers, log lines, the sticky cookie and the exchange itself reuse
//! what the requests before them left. Everything else in this process, client and origin included, is written to allocate nothing while
//! the counting goes on.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use weir_proxy::bind::bind;
use weir_proxy::compile::{Surroundings, compile};
use weir_proxy::inherited::Inherited;
use weir_proxy::shared::{BoundAddress, Process};
use weir_proxy::start::start;
use weir_stats::{Message, log_channel};

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: every call goes to the system allocator with the arguments it came with.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const REQUEST: &[u8] =
    b"GET /a/page?x=1 HTTP/1.1\r\nHost: shop.example.com\r\nUser-Agent: test\r\nAccept: */*\r\n\
    Cookie: a=b; c=unknown-0123456789abcd\r\n\r\n";
const RESPONSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello";
/// So many that the slowest of them are slower than almost all that come: the slowest are kept whole.
const WARM_UP: u64 = 4_000;
const COUNTED: u64 = 2_000;

/// Answers every request on every connection, from fixed buffers.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                while stream.read(&mut buffer).is_ok_and(|read| read > 0) {
                    stream.write_all(RESPONSE).unwrap();
                }
            });
        }
    });
    address
}

/// Weir with this route to the origin, in a pool that says this.
fn proxy(
    origin: SocketAddr,
    (route, pool): (&str, &str),
) -> (SocketAddr, weir_proxy::start::Running) {
    let text = format!(
        "log access {{ to stdout; format main; }}
         pool app {{ server {origin}; {pool} }}
         listen 127.0.0.1:0 {{ log access; host shop.example.com {{ route {route} -> app; route -> respond 404; }} }}"
    );
    let config = weir_config::parse_str("test", &text).unwrap().config;
    let (sinks, receiver) = log_channel(1, 64);
    thread::spawn(move || {
        while let Ok(message) = receiver.receive() {
            if let Message::Lines(batch) = message {
                drop(batch);
            }
        }
    });
    let surroundings = Surroundings { read: &|path| std::fs::read(path), sinks, root: None };
    let snapshot = compile(&config, surroundings, None).unwrap().snapshot;
    let listener = snapshot.listeners[0].clone();
    let (process, _) = Process::new(snapshot, 1, 100);
    let socket = bind(&config.listeners[0].addresses[0], &mut Inherited::default()).unwrap();
    let BoundAddress::Socket(address) = socket.address.clone() else { panic!("a TCP address") };
    let running = start(&process).unwrap();
    drop(running.plane().open(socket, &listener.name, &listener.gate));
    (address, running)
}

fn exchange(client: &mut TcpStream, buffer: &mut [u8]) {
    client.write_all(REQUEST).unwrap();
    let mut filled = 0;
    while !buffer[..filled].ends_with(b"hello") {
        let read = client.read(&mut buffer[filled..]).unwrap();
        assert!(read > 0, "the connection ended");
        filled += read;
    }
}

/// One at a time: everything in this process is counted.
static ALONE: Mutex<()> = Mutex::new(());

/// Steady traffic over this route to such a pool allocates nothing.
fn check(route: &str, pool: &str) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (address, running) = proxy(origin(), (route, pool));
    let mut client = TcpStream::connect(address).unwrap();
    let mut buffer = [0; 4096];
    for _ in 0..WARM_UP {
        exchange(&mut client, &mut buffer);
    }
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for _ in 0..COUNTED {
        exchange(&mut client, &mut buffer);
    }
    let made = ALLOCATIONS.load(Ordering::Relaxed) - before;
    drop(running);
    // Timers that flush the log and sweep idle connections allocate by the clock, not by the request.
    assert!(made < COUNTED / 10, "{pool} {made} allocations in {COUNTED} requests");
}

#[test]
fn steady_keep_alive_traffic_allocates_nothing_per_request() {
    check("path /a/*", "sticky cookie c insert;");
}

#[test]
fn groups_of_a_path_regex_that_nobody_shows_cost_nothing() {
    check("path ~^/(a)/(.*)$", "");
}

#[test]
fn a_key_that_is_hashed_allocates_nothing() {
    check("path /a/*", "balance hash $request_uri$remote_addr balance_factor=125%;");
    check("path /a/*", "balance fair;");
}
