//! An endpoint of a pool, as the configuration gives it and with its live state, and sets of
//! endpoints. Policies and the queue know endpoints by their position in the pool.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::state::endpoint::EndpointState;
use crate::state::passive::EjectionRule;

/// An endpoint as the configuration gives it, with its live state.
#[derive(Clone, Debug)]
pub struct Member {
    /// The endpoint's identity for policies that hash: the hash of its name ([`crate::hash_key`]),
    /// so that neither its place in the file nor its address counts.
    pub identity: u64,
    /// The endpoint's weight, from 1.
    pub weight: u32,
    /// The largest number of exchanges in flight at once, over all workers. 0 admits none.
    pub max_conn: Option<u32>,
    /// The endpoint's priority: endpoints with a higher number take part only if no endpoint with a
    /// lower one may be picked.
    pub tier: u8,
    /// The endpoint's own rule for ejections; `None` for the pool's.
    pub ejection: Option<EjectionRule>,
    /// The time in which the endpoint's share grows from a hundredth to the whole after it was
    /// unavailable, µs; 0 gives it the whole share at once.
    pub slow_start_us: u64,
    /// The endpoint's live state; kept over reloads.
    pub state: Arc<EndpointState>,
}

/// The endpoints that an exchange was already sent to.
#[derive(Clone, Debug, Default)]
pub struct Tried(SmallVec<[usize; 4]>);

impl Tried {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an endpoint; later picks skip it.
    pub fn insert(&mut self, index: usize) {
        self.0.push(index);
    }

    /// Removes all endpoints.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns true if the endpoint was already tried.
    pub fn contains(&self, index: usize) -> bool {
        self.0.contains(&index)
    }

    /// Returns true if no endpoint was tried.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn indexes(&self) -> impl Iterator<Item = usize> {
        self.0.iter().copied()
    }

    /// The endpoint that was tried last.
    pub(crate) fn last(&self) -> Option<usize> {
        self.0.last().copied()
    }
}
