//! Signals that end programs. Here they do so after the terminal is as it was: the shell goes on in it.

use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use nix::Result;
pub(super) use nix::sys::signal::Signal;
use nix::sys::signal::{SigSet, raise};
use rustix::termios::Termios;

use super::{Heard, terminal};

/// For the drawing thread to put the terminal back. One that takes nothing any more, after ^S, holds that thread up.
const PATIENCE: Duration = Duration::from_secs(1);

/// They end nothing by themselves from now on.
pub(super) struct EndSignals(SigSet);

fn all() -> SigSet {
    [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT].into_iter().collect()
}

impl EndSignals {
    /// Before any thread is started: each inherits it.
    pub(super) fn take() -> Result<Self> {
        let signals = all();
        signals.thread_block()?;
        Ok(Self(signals))
    }

    /// Waits for one and tells it; ends the process itself when that comes to nothing.
    pub(super) fn wait(&self, told: &Sender<Heard>, before: &Termios) {
        let Ok(signal) = self.0.wait() else { return };
        let _ = told.send(Heard::Told(signal));
        thread::sleep(PATIENCE);
        terminal::put_back(before);
        end_by(signal);
    }
}

/// Ends as whoever sent the signal expects it, and as shells tell it.
pub(super) fn end_by(signal: Signal) {
    let _ = all().thread_unblock();
    let _ = raise(signal);
    // It was ignored from the start, and yet it came.
    std::process::exit(128 + signal as i32);
}
