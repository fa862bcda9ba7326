//! Signals that end the process. They take effect after the terminal is restored, because the shell
//! continues in it.

use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use nix::Result;
use nix::sys::signal::{SigSet, Signal, raise};
use rustix::termios::Termios;

use super::message::TopMessage;
use super::terminal;

/// The time that the drawing thread has to restore the terminal. A terminal that is stopped with ^S
/// blocks that thread.
const PATIENCE: Duration = Duration::from_secs(1);

/// The blocked signals, to be waited for.
pub(super) struct EndSignals(SigSet);

fn all() -> SigSet {
    [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT].into_iter().collect()
}

impl EndSignals {
    /// Blocks the signals. This must precede the start of any thread, because threads inherit the
    /// mask.
    pub(super) fn take() -> Result<Self> {
        let signals = all();
        signals.thread_block()?;
        Ok(Self(signals))
    }

    /// Waits for a signal and sends it to the drawing thread; ends the process itself if that does
    /// not.
    pub(super) fn wait(&self, told: &Sender<TopMessage>, before: &Termios) {
        let Ok(signal) = self.0.wait() else { return };
        let _ = told.send(TopMessage::Told(signal));
        thread::sleep(PATIENCE);
        terminal::put_back(before);
        end_by(signal);
    }
}

/// Ends the process by the signal, so that its parent sees the signal as the cause.
pub(super) fn end_by(signal: Signal) {
    let _ = all().thread_unblock();
    let _ = raise(signal);
    // The signal was ignored when the process was started.
    std::process::exit(128 + signal as i32);
}
