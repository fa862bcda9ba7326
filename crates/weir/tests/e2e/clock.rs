//! The machine's clock jumps forwards and backwards while Weir runs: deadlines are not affected. A
//! preloaded library gives Weir a wall clock that jumps by hours many times a second; the monotonic
//! clock is unchanged.

use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;

use crate::support::client::Client;
use crate::support::process::finish;
use crate::support::weir::{Weir, weir_command};
use crate::support::{Directory, eventually};

/// The wall clock is always wrong: one hour fast, two hours slow, or one day fast, each for 20 ms.
const LIBRARY: &str = r"
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long offset(void) {
    static const long seconds[] = { 3600, -7200, 86400 };
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return seconds[(now.tv_sec * 50 + now.tv_nsec / 20000000) % 3];
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        time->tv_sec += offset();
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return result;
}

time_t time(time_t *into) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into) *into = now.tv_sec;
    return now.tv_sec;
}
";

/// Starts Weir with that clock.
fn weir_with_a_jumping_clock(directory: &Directory, config: &str) -> Weir {
    let source = directory.file("clock.c", LIBRARY);
    let library = directory.text("clock.so");
    let mut cc = Command::new("cc");
    let built = finish(cc.args(["-shared", "-fPIC", "-o", &library]).arg(source), b"");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let path = directory.file("weir.conf", config);
    Weir::run(weir_command().env("LD_PRELOAD", library).args(["run", "-c"]).arg(path), 1)
}

/// Starts a server that works on one request at a time, and a Weir whose queue has a timeout of
/// half a second. Probes go to another port, so that none has to wait.
fn start(directory: &Directory) -> (Weir, Weir) {
    let listen = ["--listen", "127.0.0.1:0"];
    let origin = Weir::origin(&[["--concurrency", "1"], listen, listen].concat(), 2);
    let config = format!(
        "workers 2;\nshutdown_timeout 20s;\nlog access {{ to {}; format \"$msec $cause\"; }}\n\
         pool app {{ server {} max_conn=1 check={}; queue timeout=500ms; check http GET /1k interval=100ms; }}\n\
         listen 127.0.0.1:0 {{ log access; route -> app; }}\n",
        directory.text("access.log"),
        origin.addresses[0],
        origin.addresses[1],
    );
    let weir = weir_with_a_jumping_clock(directory, &config);
    (origin, weir)
}

#[test]
fn a_wall_clock_that_jumps_ends_nothing_early_and_prolongs_nothing() {
    let directory = Directory::new();
    let (_origin, mut weir) = start(&directory);
    let address = weir.address();
    // Many waits, each well within its timeout, over many jumps.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = Client::connect(address);
                for _ in 0..20 {
                    assert_eq!(client.ask("/delay/15ms").status, 200);
                }
            });
        }
    });
    // A wait that is too long ends at its timeout: not earlier, and not when the request before it
    // ends.
    let mut slow = Client::connect(address);
    slow.get("/delay/4s");
    eventually("the server is taken", || {
        let began = Instant::now();
        let refused = Client::connect(address).ask("/1k").status == 503;
        let took = began.elapsed();
        assert!(!refused || took >= Duration::from_millis(500), "too early: {took:?}");
        refused.then_some(())
    });
    weir.process.signal(Signal::TERM);
    assert_eq!(slow.response().status, 200, "a deadline of the slow one came too early");
    assert!(weir.process.wait().success(), "{}", weir.process.said());

    let log = std::fs::read_to_string(directory.text("access.log")).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    for line in log.lines() {
        let (time, _) = line.split_once(' ').unwrap();
        let off = (time.parse::<f64>().unwrap() - now).abs();
        assert!(off > 1_800.0, "the clock that Weir sees is right: {line}");
    }
    assert_eq!(log.lines().filter(|line| line.ends_with("queue_timeout")).count(), 1, "{log}");
    assert!(!weir.process.said().contains("-> down"), "{}", weir.process.said());
}
