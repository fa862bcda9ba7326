//! Handshakes share no lock: a thread that is stopped in the middle of one delays no other
//! thread's.
//!
//! Four threads run handshakes with one server configuration. A signal stops one of them again and
//! again, somewhere in a handshake, and the others have to complete further ones meanwhile. If the
//! stopped thread held a lock that handshakes share, they could not. A lock that is held for 4 % of
//! a handshake is found with a probability of 96 % in 80 stops. The counter-check leaves nothing to
//! chance: its thread stops itself while it holds the lock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::*;

const THREADS: usize = 4;
const STOPS: usize = 80;
/// The limit for all that has to happen whether or not there is such a lock.
const PATIENCE: Duration = Duration::from_secs(20);

/// One user of the signal at a time.
static TURN: Mutex<()> = Mutex::new(());
/// Set while the thread that gets the signal has to stand still.
static STOP: AtomicBool = AtomicBool::new(false);
/// Set while it stands still.
static STOPPED: AtomicBool = AtomicBool::new(false);

fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 7
}

extern "C" fn stand_still(_: libc::c_int) {
    STOPPED.store(true, SeqCst);
    while STOP.load(SeqCst) {
        rustix::thread::sched_yield();
    }
    STOPPED.store(false, SeqCst);
}

fn until(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !done() {
        if Instant::now() > deadline {
            return false;
        }
        thread::yield_now();
    }
    true
}

/// Returns a function that sends the signal to a thread at a random moment.
fn at_random() -> impl FnMut(libc::pthread_t) {
    let mut random = fastrand::Rng::with_seed(18);
    move |thread| {
        let moment = Instant::now() + Duration::from_micros(random.u64(..3_000));
        until(PATIENCE, || Instant::now() >= moment);
        // SAFETY: `others_go_on` calls it with a thread that runs until all stops are over.
        assert_eq!(unsafe { libc::pthread_kill(thread, signal()) }, 0);
    }
}

/// Runs handshakes in four threads, each with an argument of its own, and stops the first of them
/// [`STOPS`] times: `stop` makes it get the signal. Returns true if the others always went on
/// within `limit`.
fn others_go_on<T: Send>(
    arguments: [T; THREADS],
    limit: Duration,
    mut stop: impl FnMut(libc::pthread_t),
    handshake: impl Fn(&T) + Sync,
) -> bool {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // SAFETY: the handler reads and writes atomics and makes one system call.
    unsafe { libc::signal(signal(), stand_still as *const () as libc::sighandler_t) };
    let (ended, done) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; THREADS]);
    let (send, ids) = mpsc::channel();
    thread::scope(|scope| {
        for (idx, argument) in arguments.into_iter().enumerate() {
            let (send, handshake, ended, done) = (send.clone(), &handshake, &ended, &done);
            scope.spawn(move || {
                // SAFETY: `pthread_self` has no preconditions.
                send.send((idx, unsafe { libc::pthread_self() })).unwrap();
                while !ended.load(SeqCst) {
                    handshake(&argument);
                    done[idx].fetch_add(1, SeqCst);
                }
            });
        }
        let victim = ids.iter().take(THREADS).find(|(idx, _)| *idx == 0).unwrap().1;
        let counts = || done.each_ref().map(|count| count.load(SeqCst));
        let further = |limit, before: [u64; THREADS], threads: std::ops::Range<usize>| {
            until(limit, || threads.clone().all(|idx| counts()[idx] >= before[idx] + 2))
        };
        let started = further(PATIENCE, counts(), 0..THREADS);
        let (mut stops, mut gone_on) = (0, true);
        while started && gone_on && stops < STOPS {
            STOP.store(true, SeqCst);
            stop(victim);
            let stopped = until(PATIENCE, || STOPPED.load(SeqCst));
            // The first of the two may have been almost complete; the second began later.
            gone_on = further(limit, counts(), 1..THREADS);
            STOP.store(false, SeqCst);
            assert!(stopped && until(PATIENCE, || !STOPPED.load(SeqCst)));
            stops += 1;
        }
        ended.store(true, SeqCst);
        assert!(started);
        gone_on
    })
}

/// Returns a server's configuration and that of a client for each thread.
fn parties(protocol: ProtocolSettings<'_>) -> (Arc<ServerConfig>, [Arc<ClientConfig>; THREADS]) {
    let authority = Authority::new();
    let server = serve(&[authority.issue(&["app.internal"]).material()], &protocol);
    let settings = ClientSettings {
        ca: Some(pem("ca.pem", &authority.pem())),
        protocol,
        ..ClientSettings::default()
    };
    let client = ClientTls::new(&settings).unwrap();
    (server, [(); THREADS].map(|()| client.for_worker()))
}

fn shake(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) {
    Pair::shake(client, server, "app.internal").unwrap();
}

/// Full handshakes, and resumed ones, whose tickets are encrypted with keys that all threads share.
#[test]
fn a_thread_that_stops_in_a_handshake_delays_no_other() {
    for max in [TlsVersion::Tls12, TlsVersion::Tls13] {
        let (server, clients) = parties(ProtocolSettings { max, ..ProtocolSettings::default() });
        let fresh = |client: &Arc<ClientConfig>| {
            let mut client = (**client).clone();
            client.resumption = rustls::client::Resumption::disabled();
            shake(&Arc::new(client), &server);
        };
        assert!(others_go_on(clients.clone(), PATIENCE, at_random(), fresh), "{max:?}");
        let resumed = |client: &Arc<ClientConfig>| shake(client, &server);
        assert!(others_go_on(clients, PATIENCE, at_random(), resumed), "{max:?}, resumed");
    }
}

#[test]
fn a_lock_that_handshakes_share_would_be_found() {
    let (server, clients) = parties(ProtocolSettings::default());
    // A fair lock: the thread that has to stop gets it in its turn.
    let lock = tokio::sync::Mutex::new(());
    let asked = AtomicU64::new(0);
    let locked = |client: &Arc<ClientConfig>| {
        let _held = lock.blocking_lock();
        shake(client, &server);
        // SAFETY: `pthread_self` has no preconditions, and the handler is installed.
        unsafe {
            if asked.compare_exchange(libc::pthread_self(), 0, SeqCst, SeqCst).is_ok() {
                assert_eq!(libc::raise(signal()), 0);
            }
        }
    };
    let ask = |thread| asked.store(thread, SeqCst);
    assert!(!others_go_on(clients, Duration::from_secs(1), ask, locked));
}
