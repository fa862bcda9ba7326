//! Counts of the slots that each holder has. A holder is a worker of the caller; if its thread is
//! lost, another thread gives back its slots and its places in the queue. Only the holder writes
//! its counts, so that an exchange costs a few plain stores and no cache line moves between cores.

use std::sync::OnceLock;

use crate::state::decision::Taken;
use crate::sync::{AtomicU32, Ordering};

/// A worker of the caller, whose slots and tickets can be given back for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The worker's number, from 0.
    pub number: u16,
    /// The number of holders; the same in all calls.
    pub of: u16,
}

/// Slots at one endpoint of one holder. Only the holder changes the counts.
#[derive(Debug, Default)]
struct Counts {
    booked: AtomicU32,
    unbooked: AtomicU32,
    /// The slots of both kinds whose exchanges wait for an answer.
    sent: AtomicU32,
}

/// Slots of a balancer by holder and endpoint.
#[derive(Debug)]
pub(crate) struct Held {
    endpoints: usize,
    /// The counts of each holder, endpoint by endpoint. Made when the first slot has a holder.
    counts: OnceLock<Box<[Counts]>>,
}

/// The slots of a lost holder at one endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LostSlots {
    /// The endpoint's number in the pool.
    pub(crate) index: usize,
    pub(crate) booked: u32,
    pub(crate) unbooked: u32,
    /// The slots of both kinds whose exchanges wait for an answer.
    pub(crate) sent: u32,
}

/// A change of a count.
#[derive(Clone, Copy)]
pub(crate) enum CountChange {
    Up,
    Down,
}

impl CountChange {
    fn make(self, count: &AtomicU32) {
        let before = count.load(Ordering::Relaxed);
        let after = match self {
            Self::Up => before.wrapping_add(1),
            Self::Down => before.saturating_sub(1),
        };
        count.store(after, Ordering::Relaxed);
    }
}

impl Held {
    /// Creates the counts of a pool with that many endpoints.
    pub(crate) fn new(endpoints: usize) -> Self {
        Self { endpoints, counts: OnceLock::new() }
    }

    fn counts(&self, holder: Holder, index: usize) -> Option<&Counts> {
        let all = self.counts.get_or_init(|| {
            let counts = usize::from(holder.of) * self.endpoints;
            (0..counts).map(|_| Counts::default()).collect()
        });
        all.get(usize::from(holder.number) * self.endpoints + index)
    }

    /// Counts one slot more or one less of a holder.
    pub(crate) fn note_slot(&self, holder: Option<Holder>, taken: &Taken, change: CountChange) {
        let Some(counts) = holder.and_then(|holder| self.counts(holder, taken.index)) else {
            return;
        };
        change.make(if taken.booked { &counts.booked } else { &counts.unbooked });
    }

    /// Counts one more or one less of a holder's slots that wait for an answer.
    pub(crate) fn note_sent(&self, holder: Option<Holder>, index: usize, change: CountChange) {
        if let Some(counts) = holder.and_then(|holder| self.counts(holder, index)) {
            change.make(&counts.sent);
        }
    }

    /// Clears the counts of a holder and returns them, endpoint by endpoint.
    pub(crate) fn take(&self, number: u16) -> impl Iterator<Item = LostSlots> {
        let all = self.counts.get().into_iter().flatten();
        let own = all.skip(usize::from(number) * self.endpoints).take(self.endpoints);
        own.enumerate().map(|(index, counts)| LostSlots {
            index,
            booked: counts.booked.swap(0, Ordering::AcqRel),
            unbooked: counts.unbooked.swap(0, Ordering::AcqRel),
            sent: counts.sent.swap(0, Ordering::AcqRel),
        })
    }
}
