//! The state that a pool of many endpoints keeps in addition to the loads of each tier: the numbers
//! of endpoints by state, the exchanges in flight, and the next end of an ejection. It picks
//! nothing.

use std::collections::HashMap;
use std::sync::Arc;

use crate::state::endpoint::EndpointState;
use crate::state::member::Member;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The number of endpoints up to which they are looked at one by one.
pub(crate) const MANY: usize = 64;

/// The number of endpoints whose exchanges in flight are summed up at each change.
const BLOCK: usize = 64;

/// The state of a pool of many endpoints.
#[derive(Debug)]
pub(crate) struct Crowd {
    /// The endpoints' numbers by the addresses of their states.
    numbers: HashMap<usize, u32>,
    /// The exchanges in flight at each endpoint that are part of `sums`.
    counted: Box<[AtomicU32]>,
    /// The exchanges in flight at each [`BLOCK`] of endpoints.
    sums: Box<[AtomicU64]>,
    /// Ejections that ended by then are over for the trees of loads, µs.
    pub(crate) as_of_us: AtomicU64,
    /// The end of the first ejection after that, or earlier, µs.
    pub(crate) due_us: AtomicU64,
}

impl Crowd {
    /// The state for these endpoints, without their loads; `None` if they are few.
    pub(crate) fn new(members: &[Member]) -> Option<Self> {
        if members.len() <= MANY {
            return None;
        }
        let mut numbers = HashMap::with_capacity(members.len());
        for (number, member) in (0..).zip(members) {
            numbers.entry(address(&member.state)).or_insert(number);
        }
        let sums = members.len().div_ceil(BLOCK);
        Some(Self {
            numbers,
            counted: members.iter().map(|_| AtomicU32::new(0)).collect(),
            sums: (0..sums).map(|_| AtomicU64::new(0)).collect(),
            as_of_us: AtomicU64::new(0),
            due_us: AtomicU64::new(0),
        })
    }

    /// The position of the endpoint that has this state.
    pub(crate) fn position(&self, state: &Arc<EndpointState>) -> Option<usize> {
        self.numbers.get(&address(state)).map(|number| *number as usize)
    }

    /// Exchanges in flight over all endpoints.
    pub(crate) fn in_flight(&self) -> u64 {
        let sums = self.sums.iter().map(|sum| sum.load(Ordering::Relaxed));
        sums.fold(0, u64::wrapping_add)
    }

    /// Takes a change of the number in flight into the sums.
    pub(crate) fn count(&self, index: usize, state: &EndpointState) {
        let (Some(counted), Some(sum)) = (self.counted.get(index), self.sums.get(index / BLOCK))
        else {
            return;
        };
        loop {
            let now = state.in_flight();
            // The thread that swaps last has seen all changes that were counted before.
            let before = counted.swap(now, Ordering::AcqRel);
            if now != before {
                sum.fetch_add(u64::from(now).wrapping_sub(u64::from(before)), Ordering::Relaxed);
            }
            if state.in_flight() == now {
                return;
            }
        }
    }
}

fn address(state: &Arc<EndpointState>) -> usize {
    Arc::as_ptr(state).addr()
}
