//! Handshakes share no lock: a thread that is stopped in the middle of one delays no other
//! thread's.
//!
//! Four threads run handshakes with one server configuration. A signal stops one of them again and
//! again, somewhere in a handshake, and the others have to complete further ones meanwhile. If the
//! stopped thread held a lock that handshakes share, they could not. A lock that is held for 4 % of
//! a handshake is found with a probability of 96 % in 80 stops.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::*;

const THREADS: usize = 4;
const STOPS: usize = 80;

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

/// Runs handshakes in four threads, each with an argument of its own, and stops the first of them
/// [`STOPS`] times. Returns true if the others always went on within `limit`.
fn others_go_on<T: Send>(
    arguments: [T; THREADS],
    limit: Duration,
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
        let further = |before: [u64; THREADS], threads: std::ops::Range<usize>| {
            until(limit, || threads.clone().all(|idx| counts()[idx] >= before[idx] + 2))
        };
        let mut random = fastrand::Rng::with_seed(18);
        let mut gone_on = further(counts(), 0..THREADS);
        for _ in 0..STOPS {
            let moment = Instant::now() + Duration::from_micros(random.u64(..3_000));
            until(limit, || Instant::now() >= moment);
            STOP.store(true, SeqCst);
            // SAFETY: the thread runs until `ended` is set, below.
            assert_eq!(unsafe { libc::pthread_kill(victim, signal()) }, 0);
            assert!(until(Duration::from_secs(20), || STOPPED.load(SeqCst)));
            // The first of the two may have been almost complete; the second began later.
            gone_on &= further(counts(), 1..THREADS);
            STOP.store(false, SeqCst);
            assert!(until(Duration::from_secs(20), || !STOPPED.load(SeqCst)));
            if !gone_on {
                break;
            }
        }
        ended.store(true, SeqCst);
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
        let limit = Duration::from_secs(20);
        let fresh = |client: &Arc<ClientConfig>| {
            let mut client = (**client).clone();
            client.resumption = rustls::client::Resumption::disabled();
            shake(&Arc::new(client), &server);
        };
        assert!(others_go_on(clients.clone(), limit, fresh), "{max:?}");
        assert!(others_go_on(clients, limit, |client| shake(client, &server)), "{max:?}, resumed");
    }
}

#[test]
fn a_lock_that_handshakes_share_would_be_found() {
    let (server, clients) = parties(ProtocolSettings::default());
    let lock = Mutex::new(());
    let locked = |client: &Arc<ClientConfig>| {
        let _held = lock.lock().unwrap();
        shake(client, &server);
    };
    assert!(!others_go_on(clients, Duration::from_secs(1), locked));
}
