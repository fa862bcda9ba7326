//! Connects to an endpoint that failed, gathered until the control plane says so to the operator: a flood of failures is one line a
//! second with their number, and no worker waits for it.

use std::fmt;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;

use crate::net::PeerAddress;

/// Why no connection came about.
#[derive(Debug)]
pub enum ConnectFailure {
    /// Refused, unreachable, reset.
    Socket(io::Error),
    /// This process or machine is short of descriptors, ports or memory: the endpoint was not asked.
    Shortage(io::Error),
    /// The TLS handshake failed.
    Tls(io::Error),
    /// Neither came to an end in this time.
    Timeout(Duration),
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(error) => write!(formatter, "{error}"),
            Self::Shortage(error) => {
                write!(formatter, "Weir itself is short of something: {error}; it tries again")
            }
            Self::Tls(error) => write!(formatter, "TLS: {error}"),
            Self::Timeout(time) => write!(formatter, "not within {time:?}"),
        }
    }
}

impl ConnectFailure {
    /// The failure of opening a socket to this address.
    pub(crate) fn socket(error: io::Error, address: &PeerAddress) -> Self {
        if is_own_shortage(&error, address) { Self::Shortage(error) } else { Self::Socket(error) }
    }

    /// Whether a connection that is closed gives back what was missing. A port stays taken for a while (TIME_WAIT), and the more so.
    pub(crate) fn is_mended_by_closing(&self) -> bool {
        let Self::Shortage(error) = self else { return false };
        !matches!(Errno::from_io_error(error), Some(Errno::ADDRNOTAVAIL | Errno::AGAIN))
    }
}

/// Whether a connect failed for want of descriptors, ports or memory on this machine, which says nothing about the endpoint.
pub fn is_own_shortage(error: &io::Error, address: &PeerAddress) -> bool {
    let Some(errno) = Errno::from_io_error(error) else { return false };
    match errno {
        Errno::MFILE
        | Errno::NFILE
        | Errno::ADDRNOTAVAIL
        | Errno::NOBUFS
        | Errno::NOMEM
        // Too many descriptors are watched (epoll_ctl(2)).
        | Errno::NOSPC => true,
        // For TCP no port is left; for a Unix socket the endpoint's backlog is full (connect(2)).
        Errno::AGAIN => matches!(address, PeerAddress::Socket(_)),
        _ => false,
    }
}

/// The failed connects to one endpoint that the operator was not told of yet. Its lock is held for a few instructions, and only where a
/// connect has failed.
///
/// ```text
///  quiet ──note: announced──▶ loud ──take, take, …──▶ is_over ──nothing new──▶ quiet
/// ```
#[derive(Debug, Default)]
pub struct ConnectTrouble(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    first: Option<ConnectFailure>,
    count: u64,
    /// Whether somebody was told to look here.
    announced: bool,
}

/// Whether somebody has to be told that there is trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announce {
    /// Nobody looks here.
    Yes,
    /// Somebody does.
    No,
}

impl ConnectTrouble {
    /// Another one.
    pub(crate) fn note(&self, failure: ConnectFailure) -> Announce {
        let mut state = self.state();
        state.first.get_or_insert(failure);
        state.count += 1;
        if std::mem::replace(&mut state.announced, true) { Announce::No } else { Announce::Yes }
    }

    /// Nobody could be told.
    pub(crate) fn was_not_announced(&self) {
        self.state().announced = false;
    }

    /// The first failure since the last call, and how many there were.
    pub fn take(&self) -> Option<(ConnectFailure, u64)> {
        let mut state = self.state();
        let first = state.first.take()?;
        Some((first, std::mem::take(&mut state.count)))
    }

    /// Whether whoever was told may go: nothing is left to be taken, and the next failure is announced anew.
    pub fn is_over(&self) -> bool {
        let mut state = self.state();
        if state.first.is_some() {
            return false;
        }
        state.announced = false;
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whoever panicked under it left a count that is a little wrong.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn refused() -> ConnectFailure {
        ConnectFailure::Socket(io::Error::from_raw_os_error(111))
    }

    #[test]
    fn a_flood_is_announced_once_and_taken_as_a_number() {
        let trouble = ConnectTrouble::default();
        assert!(trouble.take().is_none());
        assert_eq!(trouble.note(refused()), Announce::Yes);
        for _ in 0..99 {
            assert_eq!(trouble.note(ConnectFailure::Timeout(Duration::from_secs(5))), Announce::No);
        }
        let (first, count) = trouble.take().unwrap();
        assert_eq!((first.to_string().as_str(), count), ("Connection refused (os error 111)", 100));
        assert!(trouble.take().is_none());
    }

    #[test]
    fn after_a_quiet_time_the_next_is_announced_anew() {
        let trouble = ConnectTrouble::default();
        assert_eq!(trouble.note(refused()), Announce::Yes);
        assert!(!trouble.is_over(), "it was not taken");
        trouble.take();
        assert!(trouble.is_over());
        assert_eq!(trouble.note(refused()), Announce::Yes);
        trouble.was_not_announced();
        assert_eq!(trouble.note(refused()), Announce::Yes);
    }

    #[test]
    fn failures_say_what_happened() {
        let tls = ConnectFailure::Tls(io::Error::other("invalid peer certificate"));
        assert_eq!(tls.to_string(), "TLS: invalid peer certificate");
        assert_eq!(
            ConnectFailure::Timeout(Duration::from_millis(1500)).to_string(),
            "not within 1.5s"
        );
    }

    #[test]
    fn what_this_machine_lacks_is_told_from_what_the_endpoint_does() {
        let tcp = PeerAddress::Socket(([127, 0, 0, 1], 80).into());
        let unix = PeerAddress::Unix("/run/app.sock".into());
        let check = |errno: Errno, expected: [bool; 2]| {
            let error = io::Error::from(errno);
            assert_eq!([&tcp, &unix].map(|to| is_own_shortage(&error, to)), expected, "{error}");
        };
        for errno in [
            Errno::MFILE,
            Errno::NFILE,
            Errno::ADDRNOTAVAIL,
            Errno::NOBUFS,
            Errno::NOMEM,
            Errno::NOSPC,
        ] {
            check(errno, [true, true]);
        }
        check(Errno::AGAIN, [true, false]);
        for errno in [Errno::CONNREFUSED, Errno::HOSTUNREACH, Errno::NETUNREACH, Errno::TIMEDOUT] {
            check(errno, [false, false]);
        }
        assert!(!is_own_shortage(&io::Error::other("a word"), &tcp));
    }

    #[test]
    fn none_is_lost_between_threads() {
        let trouble = Arc::new(ConnectTrouble::default());
        let (tell, told) = std::sync::mpsc::channel();
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let (trouble, tell) = (trouble.clone(), tell.clone());
                std::thread::spawn(move || {
                    for _ in 0..2_000 {
                        if trouble.note(refused()) == Announce::Yes {
                            tell.send(()).unwrap();
                        }
                    }
                })
            })
            .collect();
        drop(tell);
        let mut seen = 0;
        while told.recv().is_ok() {
            loop {
                seen += trouble.take().map_or(0, |(_, count)| count);
                if trouble.is_over() {
                    break;
                }
            }
        }
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(seen, 8_000);
    }
}
