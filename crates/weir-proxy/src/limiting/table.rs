//! The table of limited clients and keys: one for the process, shared by all workers, of fixed
//! size.
//!
//! It is set-associative: a hash of limit and key selects a bucket of eight slots. The hash is
//! keyed with a secret of the process, so that an attacker cannot aim at a bucket. The mutex of the
//! bucket's shard is held for one look at these slots. A slot holds the number of items that are
//! open now and the time at which the allowance is full again (the *theoretical arrival time* of
//! the generic cell rate algorithm, ITU-T I.371), so that nothing needs to be refilled. A slot with
//! nothing open and a full allowance carries no information and is free. When a bucket is full, the
//! slot nearest to a full allowance is evicted, and its key starts again with a new allowance: a
//! flood of addresses can clear the debts of others, but never limit a client that asked for
//! little. Open items are never forgotten: if all eight slots have open items, the newcomer is let
//! through and counted as untracked.
//!
//! Items that are open for an exchange are also counted by worker, under the same mutex, so that
//! another thread can give them back when that worker is lost.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The number of slots of a bucket.
const WAYS: usize = 8;
/// The number of mutexes, a power of two.
const SHARDS: usize = 64;

/// The hash of a limit and one of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableKey(u64);

impl TableKey {
    /// A short form that distinguishes keys for the operator.
    pub(crate) fn short(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// A rate in the table's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The cost of one event, ns of the rate.
    pub interval_ns: u64,
    /// The time by which events may be ahead of the rate, ns.
    pub burst_ns: u64,
}

impl Rate {
    /// A rate of `count` events in `per_ns`, with `burst` more at once.
    pub fn new(count: u32, per_ns: u64, burst: u32) -> Self {
        let interval_ns = (per_ns / u64::from(count.max(1))).max(1);
        Self { interval_ns, burst_ns: interval_ns.saturating_mul(burst.into()) }
    }

    /// The number of events that may come at once.
    pub fn at_once(self) -> u64 {
        self.burst_ns / self.interval_ns + 1
    }

    /// The time in which a used-up allowance becomes full again.
    pub fn window_ns(self) -> u64 {
        self.burst_ns.saturating_add(self.interval_ns)
    }
}

/// The table's decision about an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitVerdict {
    /// It was let through and counted.
    Yes {
        /// The time by which it is ahead of the rate, ns.
        ahead_ns: u64,
        /// The number of further events that may come at once now.
        left: u64,
    },
    /// It is over the limit and was not counted.
    No {
        /// The time until an event is permitted again, ns.
        again_ns: u64,
    },
}

/// The usage of limited clients and keys.
#[derive(Debug)]
pub struct LimitTable {
    hasher: RandomState,
    shards: Box<[Shard]>,
    evicted: AtomicU64,
    untracked: AtomicU64,
}

/// A shard on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard(Mutex<Slots>);

#[derive(Debug, Default)]
struct Slots {
    /// The size of `all`, which is allocated when the first slot is needed.
    wanted: usize,
    /// The slots; their number is a multiple of [`WAYS`].
    all: Vec<TableSlot>,
    /// The number of open items by key and worker.
    held: HashMap<(u64, u16), u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct TableSlot {
    /// 0 if the slot was never used.
    key: u64,
    /// The time at which the allowance is full again, ns.
    whole_at_ns: u64,
    /// The number of open items.
    open: u32,
}

impl TableSlot {
    fn says_nothing(&self, now_ns: u64) -> bool {
        self.key == 0 || (self.open == 0 && self.whole_at_ns <= now_ns)
    }
}

/// An open item, counted until this is dropped.
#[derive(Debug)]
pub struct OpenPlace {
    table: Arc<LimitTable>,
    key: TableKey,
    /// The worker for which it is given back if that worker is lost.
    worker: Option<u16>,
}

impl Drop for OpenPlace {
    fn drop(&mut self) {
        self.table.leave(self.key, self.worker);
    }
}

/// The table's decision about an item to be opened.
#[derive(Debug)]
pub enum Entered {
    /// It is counted as open.
    Yes(OpenPlace),
    /// No slot is free to count it in, and it is let through.
    Untracked,
    /// The limit of open items is reached.
    Full,
}

impl LimitTable {
    /// Creates a table of `bytes`, which are allocated when they are needed.
    pub fn new(bytes: usize) -> Arc<Self> {
        let table = Self {
            hasher: RandomState::new(),
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            evicted: AtomicU64::new(0),
            untracked: AtomicU64::new(0),
        };
        table.resize(bytes);
        Arc::new(table)
    }

    /// Changes the size. Slots in use are kept as far as there is room.
    pub fn resize(&self, bytes: usize) {
        let wanted = (bytes / SHARDS / size_of::<TableSlot>() / WAYS).max(1) * WAYS;
        for shard in &self.shards {
            let mut slots = shard.0.lock().unwrap_or_else(PoisonError::into_inner);
            if slots.wanted == wanted {
                continue;
            }
            slots.wanted = wanted;
            let mut before = std::mem::take(&mut slots.all);
            // If a bucket has too many slots, the later ones replace the earlier ones, which have
            // the least debts.
            before.sort_unstable_by_key(|slot| (slot.open > 0, slot.whole_at_ns));
            for slot in before.into_iter().filter(|slot| slot.key != 0) {
                // The time only decides whether an eviction is reported, which is ignored here.
                if let Some(place) = slots.place(slot.key, 0).0 {
                    *place = slot;
                }
            }
        }
    }

    /// The table key of `bytes` under the limit of this number.
    pub fn key(&self, limit: u64, bytes: &[u8]) -> TableKey {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u64(limit);
        hasher.write(bytes);
        TableKey(hasher.finish().max(1))
    }

    /// The number of a limit, the same in all configurations.
    pub fn limit_number(&self, name: &str) -> u64 {
        self.hasher.hash_one(name)
    }

    /// Lets an event through if the rate allows it now, and counts it. It costs `cost` intervals.
    pub fn take(&self, key: TableKey, rate: Rate, cost: u64, now_ns: u64) -> LimitVerdict {
        let free = LimitVerdict::Yes { ahead_ns: 0, left: rate.at_once().saturating_sub(cost) };
        self.with(key, now_ns, |slot| {
            let Some(slot) = slot else { return free };
            let from = slot.whole_at_ns.max(now_ns);
            let ahead_ns = from - now_ns;
            if ahead_ns > rate.burst_ns {
                return LimitVerdict::No { again_ns: ahead_ns - rate.burst_ns };
            }
            slot.whole_at_ns = from.saturating_add(rate.interval_ns.saturating_mul(cost));
            let used_ns = slot.whole_at_ns - now_ns;
            let left = rate.window_ns().saturating_sub(used_ns) / rate.interval_ns;
            LimitVerdict::Yes { ahead_ns, left }
        })
    }

    /// Counts an event of this cost regardless of the rate; returns the time by which it is ahead
    /// of the rate, ns.
    pub(crate) fn spend(&self, key: TableKey, cost_ns: u64, now_ns: u64) -> u64 {
        self.with(key, now_ns, |slot| {
            let Some(slot) = slot else { return 0 };
            let from = slot.whole_at_ns.max(now_ns);
            slot.whole_at_ns = from.saturating_add(cost_ns);
            from - now_ns
        })
    }

    /// Counts an item as open if fewer than `most` are open. Only the holder of the place gives it
    /// back.
    pub fn enter(self: &Arc<Self>, key: TableKey, most: u32, now_ns: u64) -> Entered {
        self.open_one(key, most, None, now_ns)
    }

    /// Does the same as [`LimitTable::enter`] for an exchange of this worker, so that
    /// [`LimitTable::abandon`] can give it back too.
    pub fn enter_on(
        self: &Arc<Self>,
        worker: usize,
        key: TableKey,
        most: u32,
        now_ns: u64,
    ) -> Entered {
        self.open_one(key, most, u16::try_from(worker).ok(), now_ns)
    }

    fn open_one(
        self: &Arc<Self>,
        key: TableKey,
        most: u32,
        worker: Option<u16>,
        now_ns: u64,
    ) -> Entered {
        let Some(mut slots) = self.slots(key) else { return Entered::Untracked };
        let entered = match self.place_in(&mut slots, key, now_ns) {
            None => return Entered::Untracked,
            Some(slot) if slot.open >= most => return Entered::Full,
            Some(slot) => {
                slot.open += 1;
                Entered::Yes(OpenPlace { table: Arc::clone(self), key, worker })
            }
        };
        if let Some(worker) = worker {
            *slots.held.entry((key.0, worker)).or_insert(0) += 1;
        }
        entered
    }

    /// Gives back the items that a worker holds open, and returns their number. The worker's places
    /// must never be dropped: its thread is stopped for good.
    pub fn abandon(&self, worker: usize) -> u64 {
        let Ok(worker) = u16::try_from(worker) else { return 0 };
        let mut given_back = 0;
        for shard in &self.shards {
            let mut slots = shard.0.lock().unwrap_or_else(PoisonError::into_inner);
            let own = slots.held.extract_if(|(_, holder), _| *holder == worker);
            let own: Vec<((u64, u16), u32)> = own.collect();
            for ((key, _), count) in own {
                slots.close(key, count);
                given_back += u64::from(count);
            }
        }
        given_back
    }

    /// The number of open items under a key.
    pub fn open(&self, key: TableKey) -> u32 {
        let Some(slots) = self.slots(key) else { return 0 };
        let found = slots.all.get(slots.bucket(key.0)).unwrap_or_default();
        found.iter().find(|slot| slot.key == key.0).map_or(0, |slot| slot.open)
    }

    fn leave(&self, key: TableKey, worker: Option<u16>) {
        let Some(mut slots) = self.slots(key) else { return };
        slots.close(key.0, 1);
        if let Some(worker) = worker
            && let Entry::Occupied(mut held) = slots.held.entry((key.0, worker))
        {
            *held.get_mut() -= 1;
            if *held.get() == 0 {
                held.remove();
            }
        }
    }

    /// The number of keys that were evicted before their allowance was full, and of events for
    /// which there was no slot.
    pub fn forgotten(&self) -> (u64, u64) {
        (self.evicted.load(Ordering::Relaxed), self.untracked.load(Ordering::Relaxed))
    }

    /// The number of slots in use, the number of all slots, and the bytes of the slots allocated so
    /// far. It scans the whole table.
    pub fn fill(&self, now_ns: u64) -> (usize, usize, usize) {
        let (mut used, mut all, mut bytes) = (0, 0, 0);
        for shard in &self.shards {
            let slots = shard.0.lock().unwrap_or_else(PoisonError::into_inner);
            used += slots.all.iter().filter(|slot| !slot.says_nothing(now_ns)).count();
            all += slots.wanted;
            bytes += slots.all.len() * size_of::<TableSlot>();
        }
        (used, all, bytes)
    }

    fn slots(&self, key: TableKey) -> Option<MutexGuard<'_, Slots>> {
        let shard = self.shards.get(key.0 as usize & (SHARDS - 1))?;
        Some(shard.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn with<R>(
        &self,
        key: TableKey,
        now_ns: u64,
        then: impl FnOnce(Option<&mut TableSlot>) -> R,
    ) -> R {
        let Some(mut slots) = self.slots(key) else { return then(None) };
        then(self.place_in(&mut slots, key, now_ns))
    }

    /// The key's slot; counts an eviction, or a key without a slot.
    fn place_in<'a>(
        &self,
        slots: &'a mut Slots,
        key: TableKey,
        now_ns: u64,
    ) -> Option<&'a mut TableSlot> {
        let (slot, evicted) = slots.place(key.0, now_ns);
        if evicted {
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
        if slot.is_none() {
            self.untracked.fetch_add(1, Ordering::Relaxed);
        }
        slot
    }
}

impl Slots {
    /// Subtracts `count` from the open items of a key.
    fn close(&mut self, key: u64, count: u32) {
        let bucket = self.bucket(key);
        let found = self.all.get_mut(bucket).unwrap_or_default();
        if let Some(slot) = found.iter_mut().find(|slot| slot.key == key) {
            slot.open = slot.open.saturating_sub(count);
        }
    }

    /// The bucket of a key.
    fn bucket(&self, key: u64) -> std::ops::Range<usize> {
        let buckets = (self.all.len() / WAYS).max(1) as u64;
        // The upper bits select the bucket; the lower bits select the shard.
        let number = ((u128::from(key) * u128::from(buckets)) >> 64) as usize;
        number * WAYS..(number + 1) * WAYS
    }

    /// The key's slot, taken over from another key if necessary; the flag is set if that key still
    /// had debts.
    fn place(&mut self, key: u64, now_ns: u64) -> (Option<&mut TableSlot>, bool) {
        if self.all.is_empty() {
            self.all = vec![TableSlot::default(); self.wanted];
        }
        let bucket = self.bucket(key);
        let bucket = self.all.get_mut(bucket).unwrap_or_default();
        if let Some(at) = bucket.iter().position(|slot| slot.key == key) {
            return (bucket.get_mut(at), false);
        }
        let victim = bucket.iter_mut().filter(|slot| slot.key == 0 || slot.open == 0);
        // An unused slot has time 0.
        let Some(victim) = victim.min_by_key(|slot| slot.whole_at_ns) else { return (None, false) };
        let evicted = !victim.says_nothing(now_ns);
        *victim = TableSlot { key, whole_at_ns: 0, open: 0 };
        (Some(victim), evicted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn through(table: &LimitTable, key: TableKey, rate: Rate, now_ns: u64, events: usize) -> usize {
        let taken = (0..events).map(|_| table.take(key, rate, 1, now_ns));
        taken.filter(|taken| matches!(taken, LimitVerdict::Yes { .. })).count()
    }

    #[test]
    fn a_table_that_shrinks_keeps_the_most_indebted_keys() {
        let table = LimitTable::new(1 << 20);
        let rate = Rate::new(1, SECOND, 100_000);
        let count = 40 * SHARDS as u64;
        let keys: Vec<TableKey> =
            (0..count).map(|number| table.key(1, &number.to_ne_bytes())).collect();
        // Each key has more debts than the one before it.
        for (debts, &key) in (1..).zip(&keys) {
            table.take(key, rate, debts, 0);
        }
        table.resize(1);
        let all = table.shards.iter().flat_map(|shard| shard.0.lock().unwrap().all.clone());
        let kept: Vec<u64> = all.filter(|slot| slot.key != 0).map(|slot| slot.key).collect();
        assert_eq!(kept.len(), WAYS * SHARDS);
        for shard in 0..SHARDS as u64 {
            let of_shard: Vec<u64> =
                keys.iter().map(|key| key.0).filter(|key| key % SHARDS as u64 == shard).collect();
            let (lost, last) = of_shard.split_at(of_shard.len() - WAYS);
            assert!(last.iter().all(|key| kept.contains(key)), "the most indebted of {shard}");
            assert!(!lost.iter().any(|key| kept.contains(key)));
        }
    }

    #[test]
    fn an_allowance_refills_at_the_rate_and_never_holds_more_than_the_burst() {
        let table = LimitTable::new(1 << 20);
        let key = table.key(1, b"a");
        let rate = Rate::new(10, SECOND, 4);
        assert_eq!(through(&table, key, rate, 0, 100), 5);
        assert_eq!(table.take(key, rate, 1, 0), LimitVerdict::No { again_ns: SECOND / 10 });
        assert_eq!(through(&table, key, rate, SECOND / 10 - 1, 100), 0);
        assert_eq!(through(&table, key, rate, SECOND / 10, 100), 1);
        assert_eq!(through(&table, key, rate, SECOND / 2, 100), 4);
        assert_eq!(through(&table, key, rate, 100 * SECOND, 100), 5);
        // In the long run exactly the rate passes, regardless of demand.
        let all: usize = (0..1000)
            .map(|step| through(&table, key, rate, 200 * SECOND + step * SECOND / 100, 3))
            .sum();
        assert_eq!(all, 4 + 100);
    }

    #[test]
    fn a_verdict_has_the_events_left_and_the_time_ahead_of_the_rate() {
        let table = LimitTable::new(1 << 20);
        let key = table.key(1, b"a");
        let rate = Rate::new(1, SECOND, 2);
        for (ahead, left) in [(0, 2), (1, 1), (2, 0)] {
            let ahead_ns = ahead * SECOND;
            assert_eq!(table.take(key, rate, 1, 7), LimitVerdict::Yes { ahead_ns, left });
        }
        assert_eq!(table.take(key, rate, 1, 7), LimitVerdict::No { again_ns: SECOND });
        // A refused event costs nothing.
        assert_eq!(
            table.take(key, rate, 1, SECOND / 2 + 7),
            LimitVerdict::No { again_ns: SECOND / 2 }
        );
    }

    #[test]
    fn each_key_of_each_limit_has_an_allowance_of_its_own() {
        let table = LimitTable::new(1 << 20);
        let rate = Rate::new(1, SECOND, 0);
        for key in [table.key(1, b"a"), table.key(1, b"b"), table.key(2, b"a")] {
            assert_eq!(through(&table, key, rate, 0, 5), 1);
        }
    }

    #[test]
    fn open_items_are_counted_exactly_over_threads() {
        let table = LimitTable::new(1 << 20);
        let key = table.key(1, b"a");
        let most_seen = AtomicU64::new(0);
        let open = AtomicU64::new(0);
        let look = || {
            let Entered::Yes(place) = table.enter(key, 3, 0) else { return };
            let now = open.fetch_add(1, Ordering::SeqCst) + 1;
            most_seen.fetch_max(now, Ordering::SeqCst);
            open.fetch_sub(1, Ordering::SeqCst);
            drop(place);
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..10_000).for_each(|_| look()));
            }
        });
        assert!(most_seen.load(Ordering::SeqCst) <= 3);
        assert_eq!(table.open(key), 0);
    }

    #[test]
    fn open_items_of_a_lost_worker_are_given_back_once() {
        let table = LimitTable::new(1 << 20);
        let keys = [table.key(1, b"a"), table.key(1, b"b")];
        let enter = |worker: usize, key| match table.enter_on(worker, key, 9, 0) {
            Entered::Yes(place) => place,
            Entered::Untracked | Entered::Full => panic!("there is room"),
        };
        let lost = [enter(0, keys[0]), enter(0, keys[0]), enter(0, keys[1])];
        let (other, gone) = (enter(1, keys[0]), enter(0, keys[0]));
        let Entered::Yes(connection) = table.enter(keys[0], 9, 0) else { panic!("there is room") };
        drop(gone);
        assert_eq!(table.abandon(0), 3);
        std::mem::forget(lost);
        assert_eq!(keys.map(|key| table.open(key)), [2, 0]);
        assert_eq!(table.abandon(0), 0);
        drop((other, connection));
        assert_eq!((table.open(keys[0]), table.abandon(1)), (0, 0));
    }

    #[test]
    fn events_are_counted_exactly_over_threads() {
        let table = LimitTable::new(1 << 20);
        let (key, rate) = (table.key(1, b"a"), Rate::new(1, 3600 * SECOND, 999));
        let passed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    passed.fetch_add(through(&table, key, rate, 1, 5000) as u64, Ordering::SeqCst)
                });
            }
        });
        assert_eq!(passed.load(Ordering::SeqCst), 1000);
    }

    #[test]
    fn a_flood_of_addresses_neither_clears_a_deep_debt_nor_limits_other_clients() {
        // The smallest possible table: 512 slots.
        let table = LimitTable::new(0);
        let rate = Rate::new(1, SECOND, 100);
        let greedy = table.key(1, b"greedy");
        assert_eq!(through(&table, greedy, rate, 0, 1000), 101);
        for address in 0..100_000_u32 {
            let key = table.key(1, &address.to_be_bytes());
            assert_eq!(through(&table, key, rate, 0, 1), 1, "a newcomer is limited");
        }
        assert_eq!(through(&table, greedy, rate, 0, 1000), 0, "its debt was forgotten");
        assert!(table.forgotten().0 > 90_000);
    }

    #[test]
    fn open_items_are_never_forgotten_and_items_without_a_slot_are_let_through() {
        let table = LimitTable::new(0);
        let mut places = Vec::new();
        let mut untracked = 0_u64;
        for address in 0..2000_u32 {
            match table.enter(table.key(1, &address.to_be_bytes()), 1, 0) {
                Entered::Yes(place) => places.push((address, place)),
                Entered::Untracked => untracked += 1,
                Entered::Full => panic!("two addresses share a slot"),
            }
        }
        assert_eq!((places.len() as u64 + untracked, table.forgotten()), (2000, (0, untracked)));
        for (address, _) in &places {
            let again = table.enter(table.key(1, &address.to_be_bytes()), 1, 0);
            assert!(matches!(again, Entered::Full));
        }
        let keys: Vec<u32> = places.iter().map(|(address, _)| *address).collect();
        drop(places);
        assert!(keys.iter().all(|address| table.open(table.key(1, &address.to_be_bytes())) == 0));
    }

    #[test]
    fn a_resized_table_keeps_open_items_and_debts() {
        let table = LimitTable::new(1 << 20);
        let rate = Rate::new(1, SECOND, 9);
        let keys: Vec<TableKey> =
            (0..500_u32).map(|number| table.key(1, &number.to_be_bytes())).collect();
        let places: Vec<Entered> = keys.iter().map(|key| table.enter(*key, 5, 0)).collect();
        for key in &keys {
            assert_eq!(through(&table, *key, rate, 0, 99), 10);
        }
        for bytes in [8 << 20, 256 << 10, 1 << 20] {
            table.resize(bytes);
            for key in &keys {
                assert_eq!((table.open(*key), through(&table, *key, rate, 0, 99)), (1, 0));
            }
        }
        drop(places);
        assert!(keys.iter().all(|key| table.open(*key) == 0));
        assert_eq!(table.fill(20 * SECOND).0, 0, "a slot is in use after its item was closed");
    }
}
