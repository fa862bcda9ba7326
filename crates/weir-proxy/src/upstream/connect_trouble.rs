//! Collects the failed connects to an endpoint until the control plane reports them to the
//! operator: a flood of failures becomes one line per second with their number, and no worker waits
//! for it.

use std::fmt;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;

use crate::net::PeerAddress;

/// The reason why no connection was established.
#[derive(Debug)]
pub enum ConnectFailure {
    /// The connection was refused or reset, or the endpoint is unreachable.
    Socket(io::Error),
    /// This process or machine is short of descriptors, ports or memory: the endpoint was not
    /// contacted.
    Shortage(io::Error),
    /// The TLS handshake failed.
    Tls(io::Error),
    /// Neither the connect nor the handshake finished within this time.
    Timeout(Duration),
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(error) => write!(formatter, "{error}"),
            Self::Shortage(error) => {
                write!(formatter, "Weir lacks a local resource: {error}; it tries again")
            }
            Self::Tls(error) => write!(formatter, "TLS: {error}"),
            Self::Timeout(time) => write!(formatter, "not within {time:?}"),
        }
    }
}

impl ConnectFailure {
    /// Classifies the failure of opening a socket to this address.
    pub(crate) fn socket(error: io::Error, address: &PeerAddress) -> Self {
        if is_own_shortage(&error, address) { Self::Shortage(error) } else { Self::Socket(error) }
    }

    /// The same failure, for another exchange that waited for the same connection.
    pub(crate) fn same(&self) -> Self {
        let same = |error: &io::Error| match error.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(error.kind(), error.to_string()),
        };
        match self {
            Self::Socket(error) => Self::Socket(same(error)),
            Self::Shortage(error) => Self::Shortage(same(error)),
            Self::Tls(error) => Self::Tls(same(error)),
            Self::Timeout(time) => Self::Timeout(*time),
        }
    }

    /// The failure of a connection that has no place under the cap on both sides.
    pub(crate) fn at_cap() -> Self {
        let words = "`worker_connections` allows no further connection";
        Self::Shortage(io::Error::new(io::ErrorKind::QuotaExceeded, words))
    }

    /// Returns true if the connection had no place under the cap on both sides.
    pub(crate) fn is_at_cap(&self) -> bool {
        matches!(self, Self::Shortage(error) if error.kind() == io::ErrorKind::QuotaExceeded)
    }

    /// Returns true if closing another connection frees the missing resource. A port is no such
    /// resource: it stays taken for a while after a close (TIME_WAIT).
    pub(crate) fn is_mended_by_closing(&self) -> bool {
        let Self::Shortage(error) = self else { return false };
        !matches!(Errno::from_io_error(error), Some(Errno::ADDRNOTAVAIL | Errno::AGAIN))
    }
}

/// Returns true if a connect failed for lack of descriptors, ports or memory on this machine, which
/// says nothing about the endpoint.
pub fn is_own_shortage(error: &io::Error, address: &PeerAddress) -> bool {
    let Some(errno) = Errno::from_io_error(error) else { return false };
    match errno {
        Errno::MFILE
        | Errno::NFILE
        | Errno::ADDRNOTAVAIL
        | Errno::NOBUFS
        | Errno::NOMEM
        // The limit of watched descriptors is reached (epoll_ctl(2)).
        | Errno::NOSPC => true,
        // For TCP, no local port is left; for a Unix socket, the endpoint's backlog is full
        // (connect(2)).
        Errno::AGAIN => matches!(address, PeerAddress::Socket(_)),
        _ => false,
    }
}

/// The failed connects to one endpoint that were not reported to the operator yet. The lock is held
/// for a few instructions, and only after a failed connect.
///
/// ```text
///  quiet ──note: announced──▶ collecting (take, take, …) ──is_over: nothing new──▶ quiet
/// ```
#[derive(Debug, Default)]
pub struct ConnectTrouble(Mutex<TroubleState>);

#[derive(Debug, Default)]
struct TroubleState {
    first: Option<ConnectFailure>,
    count: u64,
    /// Set if the reporter was notified to collect these failures.
    announced: bool,
}

/// Tells whether the reporter has to be notified of the failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announce {
    /// No reporter is collecting from here: notify it.
    Yes,
    /// A reporter is collecting already.
    No,
}

impl ConnectTrouble {
    /// Records a failure.
    pub(crate) fn note(&self, failure: ConnectFailure) -> Announce {
        let mut state = self.state();
        state.first.get_or_insert(failure);
        state.count += 1;
        if std::mem::replace(&mut state.announced, true) { Announce::No } else { Announce::Yes }
    }

    /// Withdraws an announcement that could not be delivered: the next failure is announced.
    pub(crate) fn was_not_announced(&self) {
        self.state().announced = false;
    }

    /// The first failure since the last call, and the number of failures.
    pub fn take(&self) -> Option<(ConnectFailure, u64)> {
        let mut state = self.state();
        let first = state.first.take()?;
        Some((first, std::mem::take(&mut state.count)))
    }

    /// Returns true if the reporter may stop: no failure is left to collect, and the next failure
    /// is announced again.
    pub fn is_over(&self) -> bool {
        let mut state = self.state();
        if state.first.is_some() {
            return false;
        }
        state.announced = false;
        true
    }

    fn state(&self) -> MutexGuard<'_, TroubleState> {
        // A panic under the lock leaves only a count that is slightly wrong.
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
    fn many_failures_are_announced_once_and_taken_as_a_count() {
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
    fn the_first_failure_after_a_quiet_time_is_announced_again() {
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
    fn the_message_of_a_failure_has_its_kind_and_its_detail() {
        let tls = ConnectFailure::Tls(io::Error::other("invalid peer certificate"));
        assert_eq!(tls.to_string(), "TLS: invalid peer certificate");
        assert_eq!(
            ConnectFailure::Timeout(Duration::from_millis(1500)).to_string(),
            "not within 1.5s"
        );
    }

    #[test]
    fn shortages_of_this_machine_are_distinguished_from_failures_of_the_endpoint() {
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
    fn no_failure_is_lost_between_threads() {
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
