//! The memory of the load generator, measured by a counting allocator: it does not grow with the
//! number of requests. The test has its own file, since a program has one global allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

use weir_lab::bench::load::{LoadSpec, SendPace, StartOrder};
use weir_lab::bench::run::RunningBench;
use weir_lab::bench::target::{Form, Requests, Url};
use weir_lab::bench::wrk2::CALIBRATION_NS;
use weir_lab::origin::{BoundOrigin, OriginSettings, addresses};

/// An allocator that counts the bytes in use.
struct Counting;

static LIVE: AtomicIsize = AtomicIsize::new(0);
static MOST: AtomicIsize = AtomicIsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged; only counters are updated.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(bytes: isize) {
    let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(live, Ordering::Relaxed);
}

/// Largest number of bytes that a run of so many requests has in use, beyond those before it.
fn most_bytes(load: &LoadSpec, requests: u64, samples: bool) -> isize {
    let load = LoadSpec { pace: SendPace::Closed { requests }, samples, ..load.clone() };
    let before = LIVE.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let outcome = RunningBench::start(load).unwrap().finish(|_| {}).unwrap();
    assert_eq!(outcome.record.answered, requests);
    MOST.load(Ordering::Relaxed) - before
}

#[test]
fn memory_does_not_grow_with_the_number_of_requests() {
    let settings = OriginSettings {
        listen: addresses("127.0.0.1:0").unwrap(),
        log_entries: 0,
        ..OriginSettings::default()
    };
    let bound = BoundOrigin::new(settings).unwrap();
    let address = bound.listening().next().unwrap().0;
    let _origin = bound.start().unwrap();
    let url = Url::parse(&format!("http://{address}/bytes/10")).unwrap();
    let load = LoadSpec {
        requests: Requests::new(vec![(1.0, Form::default().request(&url).unwrap())]),
        address,
        source: None,
        tls: None,
        pace: SendPace::Closed { requests: 0 },
        order: StartOrder::Shared,
        calibration_ns: CALIBRATION_NS,
        warmup_ns: 0,
        threads: 1,
        connections: 4,
        streams: None,
        timeout_ns: 20_000_000_000,
        seed: 0,
        cores: Vec::new(),
        samples: false,
    };
    most_bytes(&load, 1_000, false);
    let few = most_bytes(&load, 1_000, false);
    let many = most_bytes(&load, 40_000, false);
    // A longer run has more seconds, and buffers vary; four bytes per request would be detected.
    assert!(many < few + 131_072, "{few} bytes at 1,000 requests, {many} at 40,000");
    // The test detects a difference: with a sample per request the memory grows.
    let kept = most_bytes(&load, 40_000, true);
    assert!(kept > many + 40_000 * 40, "{many} bytes, and with every request {kept}");
}
