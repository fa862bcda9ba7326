//! Steady keep-alive traffic allocates nothing per request: heads, buffers, log lines, the sticky
//! cookie and the exchange itself reuse the memory of earlier requests. Every allocation is stored
//! with its backtrace, so that allocations that depend on the machine's current speed can be
//! distinguished from those of a request; one of the latter makes the test fail.

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use weir_proxy::bind::{BoundAddress, bind};
use weir_proxy::compile::{Surroundings, compile};
use weir_proxy::inherited::Inherited;
use weir_proxy::process::Process;
use weir_proxy::start::start;
use weir_stats::{Message, log_channel};

/// Set while allocations are recorded.
static LOOKING: AtomicBool = AtomicBool::new(false);
/// The backtraces of the allocations.
static MADE: Mutex<Vec<Backtrace>> = Mutex::new(Vec::new());
thread_local! {
    /// Set while one is recorded, because that allocates, too.
    static KEEPING: Cell<bool> = const { Cell::new(false) };
}

struct Watching;

fn keep() {
    if !LOOKING.load(Ordering::Relaxed) || KEEPING.replace(true) {
        return;
    }
    let made = Backtrace::force_capture();
    MADE.lock().unwrap_or_else(PoisonError::into_inner).push(made);
    KEEPING.set(false);
}

// SAFETY: every call is passed to the system allocator with unchanged arguments.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        keep();
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        keep();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static WATCHING: Watching = Watching;

const REQUEST: &[u8] =
    b"GET /a/page?x=1 HTTP/1.1\r\nHost: shop.example.com\r\nUser-Agent: test\r\nAccept: */*\r\n\
    Cookie: a=b; c=unknown-0123456789abcd\r\n\r\n";
const RESPONSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello";
const WARM_UP: u64 = 1_000;
const WATCHED: u64 = 2_000;

/// Files that allocate because time passes, or because a request took longer than earlier ones.
/// Their own tests check when they do.
const BY_THE_CLOCK: [&str; 5] = [
    // The slowest requests are kept with all their data.
    "weir-stats/src/exchange/explain.rs",
    "weir-stats/src/metrics/slow.rs",
    // The first time of a new magnitude takes a page of counts.
    "weir-stats/src/metrics/histogram.rs",
    // Lines go to the writer when a timer fires, which a first line starts, or when a buffer is
    // full; the writer returns the buffer.
    "./src/snapshot/generation.rs",
    "weir-stats/src/access_log/batch.rs",
];

/// Starts an origin that answers every request on every connection from fixed buffers.
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

/// Starts Weir with this route to the origin, in a pool with these directives.
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
    let running = start(&process, Vec::new()).unwrap();
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

/// Tests run one at a time: all allocations of this process are recorded.
static ALONE: Mutex<()> = Mutex::new(());

/// The line of Weir's own code that made this allocation, found by its file, because inlined
/// functions have no full names.
fn place(made: &str) -> &str {
    let lines = made.lines().filter_map(|line| line.trim_start().strip_prefix("at "));
    let own = |line: &&str| line.starts_with("./src/") || line.contains("/crates/weir-");
    lines.filter(|line| !line.starts_with("./tests/")).find(own).unwrap_or_default()
}

/// The allocations of Weir's threads during `traffic`, without those that the clock causes, of
/// which there must be fewer than one for each of the [`WATCHED`] requests.
fn allocations(traffic: impl FnOnce()) -> Vec<String> {
    LOOKING.store(true, Ordering::Relaxed);
    traffic();
    LOOKING.store(false, Ordering::Relaxed);
    let made = std::mem::take(&mut *MADE.lock().unwrap_or_else(PoisonError::into_inner));
    let made = made.iter().map(ToString::to_string);
    let by_the_clock = |made: &String| BY_THE_CLOCK.iter().any(|file| place(made).contains(file));
    let (timed, made): (Vec<String>, Vec<String>) =
        made.filter(|made| made.contains("weir_proxy::")).partition(by_the_clock);
    assert!((timed.len() as u64) < WATCHED, "{} such as\n{}", timed.len(), timed[0]);
    made
}

/// Checks that steady traffic over this route to such a pool allocates nothing.
fn check(route: &str, pool: &str) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (address, running) = proxy(origin(), (route, pool));
    let mut client = TcpStream::connect(address).unwrap();
    let mut buffer = [0; 4096];
    for _ in 0..WARM_UP {
        exchange(&mut client, &mut buffer);
    }
    let made = allocations(|| (0..WATCHED).for_each(|_| exchange(&mut client, &mut buffer)));
    drop(running);
    let some = made.first().map_or("", String::as_str);
    assert!(made.is_empty(), "{pool} {} in {WATCHED} requests, such as\n{some}", made.len());
}

#[test]
fn what_a_connection_allocates_is_seen() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (address, running) = proxy(origin(), ("path /a/*", ""));
    let mut buffer = [0; 4096];
    let made = allocations(|| {
        let mut client = TcpStream::connect(address).unwrap();
        exchange(&mut client, &mut buffer);
    });
    drop(running);
    let of_its_task = made.iter().any(|made| place(made).starts_with("./src/connection/mod.rs"));
    assert!(of_its_task, "{} allocations were seen", made.len());
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
