//! The state of an upgrade in this process: while an upgrade runs and after it, the configuration
//! must not change. It starts no successor itself.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The error for changes while the process stops.
pub(crate) const STOPPING: &str = "this process is stopping";

/// The stage of an upgrade, or the end of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandoverState {
    Ours,
    UnderWay,
    Done {
        successor: u32,
    },
    /// This process ends without a successor.
    Stopping,
}

/// The progress of handing over to a successor.
#[derive(Debug)]
pub(crate) struct Handover {
    state: Mutex<HandoverState>,
    done: Notify,
    /// Notified once, when this process stops accepting.
    left: Notify,
}

/// An upgrade in progress. If it is dropped before [`UpgradeAttempt::done`], the upgrade has not
/// taken place.
#[derive(Debug)]
pub(crate) struct UpgradeAttempt<'a>(&'a Handover);

impl Handover {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(HandoverState::Ours), done: Notify::new(), left: Notify::new() }
    }

    /// Begins an upgrade.
    ///
    /// # Errors
    /// As [`Handover::check`].
    pub(crate) fn begin(&self) -> Result<UpgradeAttempt<'_>, String> {
        self.check()?;
        *self.state() = HandoverState::UnderWay;
        Ok(UpgradeAttempt(self))
    }

    /// Checks that this process may still be changed.
    ///
    /// # Errors
    /// One sentence with the reason against it.
    pub(crate) fn check(&self) -> Result<(), String> {
        match *self.state() {
            HandoverState::Ours => Ok(()),
            HandoverState::UnderWay => {
                Err("an upgrade is in progress: try again when it is done".to_owned())
            }
            HandoverState::Stopping => Err(STOPPING.to_owned()),
            HandoverState::Done { successor } => {
                Err(format!("process {successor} has taken over: try again to reach it"))
            }
        }
    }

    /// Records that this process ends without a successor.
    pub(crate) fn stop(&self) {
        let mut state = self.state();
        if !matches!(*state, HandoverState::Done { .. }) {
            *state = HandoverState::Stopping;
        }
    }

    /// Returns true if this process ends without a successor.
    pub(crate) fn is_stopping(&self) -> bool {
        *self.state() == HandoverState::Stopping
    }

    /// The process id of the successor that has taken over.
    pub(crate) fn successor(&self) -> Option<u32> {
        match *self.state() {
            HandoverState::Done { successor } => Some(successor),
            HandoverState::Ours | HandoverState::UnderWay | HandoverState::Stopping => None,
        }
    }

    /// Waits until a successor has taken over.
    pub(crate) async fn done(&self) -> u32 {
        loop {
            let notified = self.done.notified();
            if let Some(successor) = self.successor() {
                return successor;
            }
            notified.await;
        }
    }

    /// Signals that this process has stopped accepting and closes each connection after its next
    /// response.
    pub(crate) fn leave(&self) {
        self.left.notify_one();
    }

    /// Waits for [`Handover::leave`].
    pub(crate) async fn left(&self) {
        self.left.notified().await;
    }

    fn state(&self) -> MutexGuard<'_, HandoverState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UpgradeAttempt<'_> {
    /// Records that the successor serves.
    pub(crate) fn done(self, successor: u32) {
        *self.0.state() = HandoverState::Done { successor };
        self.0.done.notify_waiters();
    }
}

impl Drop for UpgradeAttempt<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if *state == HandoverState::UnderWay {
            *state = HandoverState::Ours;
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
        assert!(handover.check().unwrap_err().contains("in progress"));
        assert!(handover.begin().is_err(), "two at once");
        drop(attempt);
        assert_eq!(handover.check(), Ok(()));
        handover.begin().unwrap().done(77);
        assert_eq!(handover.done().await, 77);
        assert!(handover.check().unwrap_err().contains("process 77 has taken over"));
    }
}
