//! The signals by which the operator gives a running process orders. It does not act on them.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The order that a signal stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalOrder {
    /// TERM, QUIT, INT: finish running exchanges; a second one ends them at once.
    Stop,
    /// USR1: reopen the log files.
    ReopenLogs,
    /// HUP, USR2: reload the configuration.
    Reload,
    /// RTMIN+1: let a new process of the same program take over. nginx uses WINCH for a part of
    /// this, but terminals send WINCH as well.
    Upgrade,
}

/// An order and its source, as events name it. The sending process is not known: the kernel reports
/// it only to a signal handler, and Weir has none of its own.
pub(crate) type GivenOrder = (SignalOrder, &'static str);

/// The signal streams, which replace the signals' default actions. They are created inside a tokio
/// runtime.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    quit: Signal,
    interrupt: Signal,
    hangup: Signal,
    first_user: Signal,
    second_user: Signal,
    real_time: Signal,
}

impl Signals {
    /// Registers the signals; from now on they are [`SignalOrder`]s.
    pub(crate) fn take() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            first_user: signal(SignalKind::user_defined1())?,
            second_user: signal(SignalKind::user_defined2())?,
            real_time: signal(SignalKind::from_raw(libc::SIGRTMIN() + 1))?,
        })
    }

    /// Waits for the next order. Cancelling it loses no order.
    pub(crate) async fn next(&mut self) -> GivenOrder {
        tokio::select! {
            _ = self.terminate.recv() => (SignalOrder::Stop, "signal TERM"),
            _ = self.quit.recv() => (SignalOrder::Stop, "signal QUIT"),
            _ = self.interrupt.recv() => (SignalOrder::Stop, "signal INT"),
            _ = self.hangup.recv() => (SignalOrder::Reload, "signal HUP"),
            _ = self.first_user.recv() => (SignalOrder::ReopenLogs, "signal USR1"),
            _ = self.second_user.recv() => (SignalOrder::Reload, "signal USR2"),
            _ = self.real_time.recv() => (SignalOrder::Upgrade, "signal RTMIN+1"),
        }
    }
}
