//! Whether this process is still the one to talk to: while an upgrade is under way nothing is changed, and after it nothing ever again.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Why nothing is changed at the end.
pub(crate) const STOPPING: &str = "this process is stopping";

/// Who serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ours,
    UnderWay,
    Done {
        successor: u32,
    },
    /// Nobody after us.
    Stopping,
}

/// How far the handing over of this process's place is.
#[derive(Debug)]
pub(crate) struct Handover {
    state: Mutex<State>,
    done: Notify,
    /// Permitted once when this process accepts nothing any more.
    left: Notify,
}

/// An upgrade. Dropped before it is done, it is none.
#[derive(Debug)]
pub(crate) struct Attempt<'a>(&'a Handover);

impl Handover {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State::Ours), done: Notify::new(), left: Notify::new() }
    }

    /// Begins an upgrade.
    ///
    /// # Errors
    /// As [`Handover::check`].
    pub(crate) fn begin(&self) -> Result<Attempt<'_>, String> {
        self.check()?;
        *self.state() = State::UnderWay;
        Ok(Attempt(self))
    }

    /// Whether this process may still be changed.
    ///
    /// # Errors
    /// One sentence: why not.
    pub(crate) fn check(&self) -> Result<(), String> {
        match *self.state() {
            State::Ours => Ok(()),
            State::UnderWay => Err("an upgrade is under way: ask again when it is done".to_owned()),
            State::Stopping => Err(STOPPING.to_owned()),
            State::Done { successor } => {
                Err(format!("process {successor} has taken over: ask again, and it answers"))
            }
        }
    }

    /// This process ends, and nobody takes over.
    pub(crate) fn stop(&self) {
        let mut state = self.state();
        if !matches!(*state, State::Done { .. }) {
            *state = State::Stopping;
        }
    }

    /// Whether it does.
    pub(crate) fn is_stopping(&self) -> bool {
        *self.state() == State::Stopping
    }

    /// Who has taken over.
    pub(crate) fn successor(&self) -> Option<u32> {
        match *self.state() {
            State::Done { successor } => Some(successor),
            State::Ours | State::UnderWay | State::Stopping => None,
        }
    }

    /// Waits until somebody has taken over.
    pub(crate) async fn done(&self) -> u32 {
        loop {
            let notified = self.done.notified();
            if let Some(successor) = self.successor() {
                return successor;
            }
            notified.await;
        }
    }

    /// This process accepts nothing any more, and answers each connection once more.
    pub(crate) fn leave(&self) {
        self.left.notify_one();
    }

    /// Waits for that.
    pub(crate) async fn left(&self) {
        self.left.notified().await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attempt<'_> {
    /// The successor serves.
    pub(crate) fn done(self, successor: u32) {
        *self.0.state() = State::Done { successor };
        self.0.done.notify_waiters();
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if *state == State::UnderWay {
            *state = State::Ours;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_upgrade_that_fails_leaves_everything_to_be_changed() {
        let handover = Handover::new();
        let attempt = handover.begin().unwrap();
        assert!(handover.check().unwrap_err().contains("under way"));
        assert!(handover.begin().is_err(), "two at once");
        drop(attempt);
        assert_eq!(handover.check(), Ok(()));
        handover.begin().unwrap().done(77);
        assert_eq!(handover.done().await, 77);
        assert!(handover.check().unwrap_err().contains("process 77 has taken over"));
    }
}
