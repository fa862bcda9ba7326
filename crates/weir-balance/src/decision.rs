//! Why an exchange got its endpoint: what was looked at when it was picked, as far as that costs nothing to remember (row NEW-03). It is
//! kept in the slot and never looked at here again.

/// How an endpoint came to be the one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Basis {
    /// It was the last that was left, or the first that had room after the policy's choices had filled up.
    #[default]
    Left,
    /// Affinity names it.
    Bound,
    /// The exchange had waited, and it was the endpoint that had a free place next.
    Freed,
    /// The policy found it better than the others.
    Better,
    /// The policy found none better, and it was its turn.
    Turn,
    /// The policy drew it by weight.
    Drawn,
    /// The key leads to it.
    Key,
    /// It was the first in the configuration's order that had a place.
    First,
}

/// The one that came second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunnerUp {
    /// Its number in the pool.
    pub index: u32,
    /// What it had in flight, and waiting for it alone; `None`: nobody looked.
    pub load: Option<u32>,
}

/// What a pick rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// How it came to be.
    pub basis: Basis,
    /// In flight at the endpoint, this exchange not counted.
    pub load: u32,
    rival: u32,
    rival_load: u32,
}

/// Nobody, and not looked at. A rival of endpoint 0 is written as 1, so that nothing at all is nobody.
const UNSEEN: u32 = u32::MAX;

impl Decision {
    pub(crate) fn new(basis: Basis) -> Self {
        Self { basis, load: 0, rival: 0, rival_load: UNSEEN }
    }

    /// With what was in flight there when the place was taken.
    #[must_use]
    pub(crate) fn at_load(self, load: u32) -> Self {
        Self { load, ..self }
    }

    /// The other one that was looked at, with its load.
    #[must_use]
    pub(crate) fn over(self, rival: Option<(usize, u64)>) -> Self {
        let Some((index, load)) = rival else { return self };
        Self { rival: index as u32 + 1, rival_load: load.min(u64::from(UNSEEN) - 1) as u32, ..self }
    }

    /// The one whose turn is next; its load was not looked at.
    #[must_use]
    pub(crate) fn before(self, next: Option<usize>) -> Self {
        Self { rival: next.map_or(0, |index| index as u32 + 1), rival_load: UNSEEN, ..self }
    }

    /// Who came second, where the policy knew it.
    pub fn runner_up(&self) -> Option<RunnerUp> {
        let index = self.rival.checked_sub(1)?;
        Some(RunnerUp { index, load: (self.rival_load != UNSEEN).then_some(self.rival_load) })
    }

    /// The same where endpoints have other numbers.
    #[must_use]
    pub(crate) fn renumbered(self, index: impl FnOnce(usize) -> Option<usize>) -> Self {
        let rival = self.rival.checked_sub(1).and_then(|rival| index(rival as usize));
        Self { rival: rival.map_or(0, |index| index as u32 + 1), ..self }
    }
}
