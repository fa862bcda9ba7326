//! The memory budget: the limit on the process's memory, the current usage, and the measures near
//! the limit. The usage is the allocator's figure (`weir-memory`), so that it includes everything:
//! buffers, TLS sessions, held bodies, log batches, statistics.
//!
//! ```text
//!  used / max   80 %             90 %            95 %
//!  None ──▶ CloseIdle ──▶ PauseReads ──▶ Refuse         back: 5 % lower each (hysteresis)
//! ```
//! *CloseIdle:* idle client connections are closed, oldest first, and spare buffers are freed.
//! *PauseReads:* bodies that are buffered whole are not read further. *Refuse:* no request is read
//! on an idle connection, new connections are closed, and the requests that hold the most memory
//! are ended; these are also ended once reads have been paused for a second. A request fails for
//! lack of memory only if it would have failed without these measures, too.
//!
//! The fast path is one comparison. A thread that finds a mark crossed changes the level, and each
//! worker's `memory_relief::attend` acts on it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use tokio::sync::watch;

use crate::limits::{
    LARGE_BUFFER, RESPONSE_HEAD_BYTES, SMALL_BUFFER, TLS_STATE_BYTES, TLS_UNSENT_BYTES,
};
use crate::net::input::Input;
use crate::snapshot::CompiledListener;
use crate::upstream::UpstreamPool;

/// The measures against a shortage of memory. Each level includes those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Pressure {
    /// No measure.
    #[default]
    None,
    /// Idle client connections are closed.
    CloseIdle,
    /// Bodies that are buffered whole are not read further.
    PauseReads,
    /// New connections are closed, new requests not read, and the requests that hold the most
    /// memory ended.
    Refuse,
}

impl Pressure {
    /// Every level, in order.
    pub const ALL: [Self; 4] = [Self::None, Self::CloseIdle, Self::PauseReads, Self::Refuse];

    /// Its name in status and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::CloseIdle => "close_idle",
            Self::PauseReads => "pause_reads",
            Self::Refuse => "refuse",
        }
    }

    /// The percentages of the budget at which the level begins, and below which it ends.
    fn marks(self) -> (usize, usize) {
        match self {
            Self::None => (0, 0),
            Self::CloseIdle => (80, 75),
            Self::PauseReads => (90, 85),
            Self::Refuse => (95, 90),
        }
    }

    fn of(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or_default()
    }

    fn next(self) -> Option<Self> {
        Self::ALL.get(self as usize + 1).copied()
    }

    fn before(self) -> Self {
        Self::of((self as u8).saturating_sub(1))
    }
}

/// The process's memory budget.
#[derive(Debug)]
pub struct MemoryBudget {
    max: AtomicUsize,
    /// The usage in bytes below which there is no shortage.
    first_mark: AtomicUsize,
    level: AtomicU8,
    /// Notifies workers of a new level.
    pub(crate) told: watch::Sender<Pressure>,
    /// The source of the usage; the allocator if it is not set.
    pub(crate) source: OnceLock<fn() -> usize>,
    refused: AtomicU64,
    paused: AtomicU64,
    pub(crate) given_up: AtomicU64,
}

/// The budget's state for operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryFigures {
    /// The bytes allocated.
    pub used: usize,
    /// The limit in bytes; `None` if there is none.
    pub max: Option<usize>,
    /// The current level.
    pub pressure: Pressure,
    /// The number of new connections that were closed.
    pub refused: u64,
    /// The number of requests whose bodies were not read for a while.
    pub paused: u64,
    /// The number of requests that were ended because they held the most memory.
    pub given_up: u64,
}

impl Default for MemoryBudget {
    fn default() -> Self {
        Self {
            max: AtomicUsize::new(usize::MAX),
            first_mark: AtomicUsize::new(usize::MAX),
            level: AtomicU8::new(0),
            told: watch::Sender::new(Pressure::None),
            source: OnceLock::new(),
            refused: AtomicU64::new(0),
            paused: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
        }
    }
}

/// The given percentage of a budget.
fn share(max: usize, percent: usize) -> usize {
    if max == usize::MAX { max } else { max / 100 * percent }
}

impl MemoryBudget {
    /// Changes the budget; `None` removes the limit.
    pub fn set_max(&self, max: Option<usize>) {
        let max = max.unwrap_or(usize::MAX);
        self.max.store(max, Ordering::Relaxed);
        let first = share(max, Pressure::CloseIdle.marks().0);
        self.first_mark.store(first, Ordering::Relaxed);
        self.look();
    }

    /// Replaces the source of the usage, for simulations of several processes in one. It can be set
    /// once.
    pub fn measure_by(&self, source: fn() -> usize) {
        let _ = self.source.set(source);
    }

    fn used(&self) -> usize {
        self.source.get().map_or_else(weir_memory::allocated, |source| source())
    }

    /// The level that applies now. Callers ask for it before they take memory for a client.
    #[inline]
    pub fn look(&self) -> Pressure {
        let used = self.used();
        if used < self.first_mark.load(Ordering::Relaxed)
            && self.level.load(Ordering::Relaxed) == Pressure::None as u8
        {
            return Pressure::None;
        }
        self.weigh(used)
    }

    #[cold]
    fn weigh(&self, used: usize) -> Pressure {
        let max = self.max.load(Ordering::Relaxed);
        let before = self.level.load(Ordering::Relaxed);
        let mut level = Pressure::of(before);
        while let Some(next) = level.next().filter(|next| used >= share(max, next.marks().0)) {
            level = next;
        }
        while level > Pressure::None && used < share(max, level.marks().1) {
            level = level.before();
        }
        let now = level as u8;
        let changed =
            self.level.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed);
        if now != before && changed.is_ok() {
            self.told.send_replace(level);
        }
        level
    }

    /// The number of bytes to free until the level ends.
    pub(crate) fn surplus(&self) -> usize {
        let level = Pressure::of(self.level.load(Ordering::Relaxed));
        self.used().saturating_sub(share(self.max.load(Ordering::Relaxed), level.marks().1))
    }

    /// The current state.
    pub fn figures(&self) -> MemoryFigures {
        let max = self.max.load(Ordering::Relaxed);
        MemoryFigures {
            used: self.used(),
            max: (max != usize::MAX).then_some(max),
            pressure: Pressure::of(self.level.load(Ordering::Relaxed)),
            refused: self.refused.load(Ordering::Relaxed),
            paused: self.paused.load(Ordering::Relaxed),
            given_up: self.given_up.load(Ordering::Relaxed),
        }
    }

    /// Returns true if a new connection has to be closed, and counts it then.
    pub(crate) fn refuses(&self) -> bool {
        let refuses = self.look() == Pressure::Refuse;
        if refuses {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        refuses
    }

    /// Counts a request whose body is not read for a while.
    pub(crate) fn note_paused(&self) {
        self.paused.fetch_add(1, Ordering::Relaxed);
    }
}

/// The largest number of bytes that one connection of a listener may hold in buffers for requests
/// to these pools, which the simulation checks (law 12 of `weir-simnet`). The lines that header
/// edits add are not included.
pub fn connection_limit<'a>(
    listener: &CompiledListener,
    pools: impl Iterator<Item = &'a UpstreamPool>,
) -> usize {
    let head = listener.limits.head_bytes;
    let input = Input::limit(head);
    // A growing vector may have twice the capacity that it needs.
    let body = pools.filter_map(|pool| pool.rules.buffer_request);
    let own = listener.router.routes().filter_map(|route| route.rules.as_deref());
    let body = body.chain(own.filter_map(|rules| rules.buffer_request)).max().unwrap_or(0);
    let body = usize::try_from(body).unwrap_or(usize::MAX).saturating_mul(2);
    let upload = body.saturating_add(input.max(LARGE_BUFFER));
    let download = LARGE_BUFFER + 2 * RESPONSE_HEAD_BYTES;
    let tls = 2 * (TLS_STATE_BYTES + TLS_UNSENT_BYTES);
    (input + 2 * head + download + 4 * SMALL_BUFFER + tls).saturating_add(upload)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static USED: Cell<usize> = const { Cell::new(0) };
    }

    fn budget() -> MemoryBudget {
        let budget = MemoryBudget::default();
        budget.measure_by(|| USED.with(Cell::get));
        budget
    }

    fn at(budget: &MemoryBudget, used: usize) -> Pressure {
        USED.with(|own| own.set(used));
        budget.look()
    }

    #[test]
    fn each_level_begins_at_one_mark_and_ends_below_a_lower_one() {
        let budget = budget();
        budget.set_max(Some(1_000));
        let check = |used, expected| assert_eq!(at(&budget, used), expected, "{used}");
        check(799, Pressure::None);
        check(800, Pressure::CloseIdle);
        check(750, Pressure::CloseIdle);
        check(749, Pressure::None);
        check(900, Pressure::PauseReads);
        check(850, Pressure::PauseReads);
        check(949, Pressure::PauseReads);
        check(950, Pressure::Refuse);
        check(900, Pressure::Refuse);
        check(899, Pressure::PauseReads);
        check(849, Pressure::CloseIdle);
        check(2_000, Pressure::Refuse);
        check(0, Pressure::None);
    }

    #[test]
    fn without_a_budget_there_is_no_pressure() {
        let budget = budget();
        assert_eq!(at(&budget, usize::MAX - 1), Pressure::None);
        budget.set_max(Some(100));
        assert_eq!(budget.look(), Pressure::Refuse);
        assert!(budget.refuses());
        budget.set_max(None);
        assert_eq!(budget.look(), Pressure::None);
        assert_eq!((budget.figures().max, budget.figures().refused), (None, 1));
    }
}
