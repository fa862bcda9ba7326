//! What the operator tells a running process by signal.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// TERM, QUIT, INT: finish what runs; a second one: end at once.
    Stop,
    /// USR1: open the log files anew.
    ReopenLogs,
    /// HUP, USR2: read the configuration anew.
    Reload,
    /// RTMIN+1: let a new process of the same program take over. WINCH, which nginx has for a part of that, comes from terminals too.
    Upgrade,
}

/// An order, and who gave it, as events name him. Which process sent a signal the kernel tells only to handlers that nobody wants.
pub(crate) type Given = (Order, &'static str);

/// The signals taken from their default effect. Made inside a tokio runtime.
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
    /// From now on these signals are [`Order`]s.
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

    /// Waits for the next order. Cancelling it loses none.
    pub(crate) async fn next(&mut self) -> Given {
        tokio::select! {
            _ = self.terminate.recv() => (Order::Stop, "signal TERM"),
            _ = self.quit.recv() => (Order::Stop, "signal QUIT"),
            _ = self.interrupt.recv() => (Order::Stop, "signal INT"),
            _ = self.hangup.recv() => (Order::Reload, "signal HUP"),
            _ = self.first_user.recv() => (Order::ReopenLogs, "signal USR1"),
            _ = self.second_user.recv() => (Order::Reload, "signal USR2"),
            _ = self.real_time.recv() => (Order::Upgrade, "signal RTMIN+1"),
        }
    }
}
