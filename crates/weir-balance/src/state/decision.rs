//! The outcome of a pick: the slot that was taken, with the reason for the choice of its endpoint,
//! or the reason why there is none. The reason for a choice is the part of the pick's input that
//! costs nothing to remember; it is kept in the slot for display, and no decision depends on it.

use serde::{Deserialize, Serialize};

/// The reason for the choice of the endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChosenBy {
    /// No endpoint was chosen, or the reason is not known.
    #[default]
    Nothing,
    /// The endpoint was the last one left, or the first with room after the policy's choices had
    /// filled up.
    Left,
    /// Affinity names the endpoint.
    Sticky,
    /// The exchange had waited, and a slot became free at the endpoint.
    Freed,
    /// The endpoint was the best by the policy's comparison.
    Better,
    /// The endpoint was next in turn, among equals.
    Turn,
    /// The endpoint was drawn by weight.
    Drawn,
    /// The key leads to the endpoint.
    Key,
    /// The endpoint was the first in file order with a free slot.
    First,
}

impl ChosenBy {
    /// The reason as one word; empty if there is none.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Left => "left",
            Self::Sticky => "sticky",
            Self::Freed => "freed",
            Self::Better => "better",
            Self::Turn => "turn",
            Self::Drawn => "drawn",
            Self::Key => "key",
            Self::First => "first",
        }
    }
}

/// The second-best endpoint of a pick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunnerUp {
    /// The endpoint's number in the pool.
    pub index: u32,
    /// The exchanges in flight at the endpoint and waiting for it alone; `None` if the load was not
    /// looked at.
    pub load: Option<u32>,
}

/// The explanation of a pick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The reason for the choice.
    pub chosen_by: ChosenBy,
    /// Exchanges in flight at the endpoint, not counting this one.
    pub load: u32,
    rival: u32,
    rival_load: u32,
}

/// The load of a runner-up that was not looked at. `rival` is an endpoint's number plus 1, so that
/// 0 means no runner-up.
const UNSEEN: u32 = u32::MAX;

impl Decision {
    pub(crate) fn new(chosen_by: ChosenBy) -> Self {
        Self { chosen_by, load: 0, rival: 0, rival_load: UNSEEN }
    }

    /// Sets the number in flight at the endpoint when the slot was taken.
    #[must_use]
    pub(crate) fn at_load(self, load: u32) -> Self {
        Self { load, ..self }
    }

    /// Sets the runner-up and its load.
    #[must_use]
    pub(crate) fn over(self, rival: Option<(usize, u64)>) -> Self {
        let Some((index, load)) = rival else { return self };
        Self { rival: index as u32 + 1, rival_load: load.min(u64::from(UNSEEN) - 1) as u32, ..self }
    }

    /// Sets the runner-up to the next endpoint in turn, whose load was not looked at.
    #[must_use]
    pub(crate) fn before(self, next: Option<usize>) -> Self {
        Self { rival: next.map_or(0, |index| index as u32 + 1), rival_load: UNSEEN, ..self }
    }

    /// The runner-up, if the policy knew one.
    pub fn runner_up(&self) -> Option<RunnerUp> {
        let index = self.rival.checked_sub(1)?;
        Some(RunnerUp { index, load: (self.rival_load != UNSEEN).then_some(self.rival_load) })
    }

    /// The same decision with the endpoint numbers of another balancer.
    #[must_use]
    pub(crate) fn renumbered(self, index: impl FnOnce(usize) -> Option<usize>) -> Self {
        let rival = self.rival.checked_sub(1).and_then(|rival| index(rival as usize));
        Self { rival: rival.map_or(0, |index| index as u32 + 1), ..self }
    }
}

/// A slot that was counted in at an endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// The endpoint's number in the pool.
    pub(crate) index: usize,
    /// The regret meter's class of the choice.
    pub(crate) choice: Choice,
    /// Set if the slot was taken under the pool's lock, and so is counted in its books.
    pub(crate) booked: bool,
    /// The reason for the choice of this endpoint.
    pub(crate) decision: Decision,
}

/// The regret meter's class of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The endpoint was idle.
    Idle,
    /// The endpoint was busy, and so were all others that could be picked.
    Busy,
    /// The endpoint was busy, and another one was idle.
    Inversion,
}

/// The reason why an exchange gets no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// All endpoints are unavailable, unhealthy, ejected, out of service by admin state, or
    /// tried.
    Unavailable,
    /// The queue has reached its maximum.
    QueueFull,
    /// All endpoints that may be picked are at their limit, and there is no queue.
    Full,
}
