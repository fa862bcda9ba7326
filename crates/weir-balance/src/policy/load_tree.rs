//! The loads of many endpoints as a tree of minima, which all workers share: it finds the least
//! loaded endpoint, and the next one in turn that is loaded as little, without looking at the
//! others. It does not decide which endpoints are eligible: its user opens and closes them.
//!
//! A change of one endpoint's load changes the nodes above it as far as their minimum changes,
//! which is rarely far. Nodes are changed without a lock. A thread that changes a node looks at
//! what is below it again afterwards, so the last one to change it has seen all earlier changes,
//! and no minimum stays wrong.

use std::sync::atomic::{AtomicU64, Ordering};

/// A load in the order of loads relative to weights.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadKey(u64);

impl LoadKey {
    /// The key of an endpoint that takes nothing now; above all others.
    pub(crate) const CLOSED: Self = Self(u64::MAX);

    /// The key of a load at a weight, from 1. The key of no load is the same for all weights.
    pub(crate) fn new(load: u64, weight: u32) -> Self {
        let weight = if load == 0 { 1 } else { weight.max(1) };
        Self(load.min(u64::from(u32::MAX - 1)) << 32 | u64::from(weight))
    }

    pub(crate) fn is_closed(self) -> bool {
        self.0 == Self::CLOSED.0
    }

    fn load(self) -> u64 {
        self.0 >> 32
    }

    fn weight(self) -> u64 {
        self.0 & u64::from(u32::MAX)
    }

    fn is_below(self, other: Self) -> bool {
        if self.is_closed() || other.is_closed() {
            return self.0 < other.0;
        }
        self.load() * other.weight() < other.load() * self.weight()
    }
}

/// The loads that a search looks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WantedLoad {
    /// Any open endpoint.
    Open,
    /// Open endpoints loaded no more than this.
    AtMost(LoadKey),
}

impl WantedLoad {
    pub(crate) fn has(self, key: LoadKey) -> bool {
        match self {
            _ if key.is_closed() => false,
            Self::Open => true,
            Self::AtMost(most) => !most.is_below(key),
        }
    }
}

/// The loads of endpoints by their numbers.
#[derive(Debug)]
pub(crate) struct LoadTree {
    /// Node 1 is the root, the nodes below node `i` are `2i` and `2i + 1`; the endpoints are the
    /// last `leaves` nodes.
    nodes: Box<[AtomicU64]>,
    /// A power of two.
    leaves: usize,
}

impl LoadTree {
    /// A tree in which all endpoints are closed.
    pub(crate) fn new(endpoints: usize) -> Self {
        let leaves = endpoints.next_power_of_two().max(2);
        let closed = || AtomicU64::new(LoadKey::CLOSED.0);
        Self { nodes: std::iter::repeat_with(closed).take(2 * leaves).collect(), leaves }
    }

    /// Sets the load of an endpoint to the value of `key`, which is called again after each change.
    pub(crate) fn set(&self, index: usize, key: impl Fn() -> LoadKey) {
        let mut node = self.leaves + index;
        let Some(leaf) = self.nodes.get(node) else { return };
        loop {
            let now = key();
            leaf.swap(now.0, Ordering::SeqCst);
            if key().0 == now.0 {
                break;
            }
        }
        while node > 1 {
            node /= 2;
            if !self.renew(node) {
                return;
            }
        }
    }

    /// Sets a node to the minimum of those below it; returns true if that changed it.
    fn renew(&self, node: usize) -> bool {
        let Some(own) = self.nodes.get(node) else { return false };
        let mut changed = false;
        loop {
            let (left, right) = (self.at(2 * node), self.at(2 * node + 1));
            let least = if right.is_below(left) { right } else { left };
            if own.load(Ordering::SeqCst) == least.0 {
                return changed;
            }
            own.swap(least.0, Ordering::SeqCst);
            changed = true;
        }
    }

    fn at(&self, node: usize) -> LoadKey {
        super::looks::count();
        self.nodes.get(node).map_or(LoadKey::CLOSED, |key| LoadKey(key.load(Ordering::SeqCst)))
    }

    /// The lowest load.
    pub(crate) fn least(&self) -> LoadKey {
        self.at(1)
    }

    /// The first endpoint from `index` on that has a wanted load.
    pub(crate) fn next(&self, index: usize, wanted: WantedLoad) -> Option<usize> {
        if index >= self.leaves {
            return None;
        }
        let mut node = self.leaves + index;
        loop {
            if wanted.has(self.at(node)) {
                if node >= self.leaves {
                    return Some(node - self.leaves);
                }
                // The left one is looked at next; if both have changed meanwhile, the search goes
                // on behind them.
                node *= 2;
                continue;
            }
            while node % 2 == 1 {
                node /= 2;
                if node <= 1 {
                    return None;
                }
            }
            node += 1;
        }
    }

    /// The endpoints with room.
    pub(crate) fn open(&self) -> impl Iterator<Item = usize> {
        let next = |from| self.next(from, WantedLoad::Open);
        std::iter::successors(next(0), move |found| next(found + 1))
    }

    /// The lowest load among all endpoints but one.
    pub(crate) fn least_but(&self, index: usize) -> LoadKey {
        let mut node = self.leaves + index;
        let mut least = LoadKey::CLOSED;
        while node > 1 {
            let beside = self.at(node ^ 1);
            if beside.is_below(least) {
                least = beside;
            }
            node /= 2;
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use proptest::prelude::*;

    use super::*;

    fn tree(loads: &[Option<u64>]) -> LoadTree {
        let tree = LoadTree::new(loads.len());
        for (index, load) in loads.iter().enumerate() {
            tree.set(index, || key(*load));
        }
        tree
    }

    fn key(load: Option<u64>) -> LoadKey {
        load.map_or(LoadKey::CLOSED, |load| LoadKey::new(load, 1))
    }

    #[test]
    fn loads_count_relative_to_weights() {
        assert!(LoadKey::new(3, 2).is_below(LoadKey::new(2, 1)));
        assert!(!LoadKey::new(4, 2).is_below(LoadKey::new(2, 1)));
        assert!(!LoadKey::new(0, 1).is_below(LoadKey::new(0, 9)));
        assert!(LoadKey::new(u64::MAX, 1).is_below(LoadKey::CLOSED));
    }

    proptest! {
        #[test]
        fn searches_find_what_a_scan_finds(
            loads in proptest::collection::vec(proptest::option::of(0_u64..4), 1..70),
            changes in proptest::collection::vec((0_usize..70, proptest::option::of(0_u64..4)), 0..40),
            from in 0_usize..80,
            most in 0_u64..4,
        ) {
            let mut loads = loads;
            let tree = tree(&loads);
            for (index, load) in changes {
                if let Some(own) = loads.get_mut(index) {
                    *own = load;
                    tree.set(index, || key(load));
                }
            }
            let least = loads.iter().flatten().min().copied();
            prop_assert_eq!((!tree.least().is_closed()).then(|| tree.least().load()), least);
            let scan = |fits: &dyn Fn(u64) -> bool| {
                (from..loads.len()).find(|index| loads[*index].is_some_and(fits))
            };
            prop_assert_eq!(tree.next(from, WantedLoad::Open), scan(&|_| true));
            let wanted = WantedLoad::AtMost(LoadKey::new(most, 1));
            prop_assert_eq!(tree.next(from, wanted), scan(&|load| load <= most));
            let others = (0..loads.len()).filter(|index| *index != from);
            let other = others.filter_map(|index| loads[index]).min();
            if from < loads.len() {
                let found = tree.least_but(from);
                prop_assert_eq!((!found.is_closed()).then(|| found.load()), other);
            }
        }
    }

    /// Threads that change neighbours at once leave no wrong minimum behind.
    #[test]
    fn no_minimum_stays_wrong() {
        let loads: Vec<AtomicU32> = (0..64).map(|_| AtomicU32::new(0)).collect();
        let tree = LoadTree::new(loads.len());
        let read = |index: usize| LoadKey::new(u64::from(loads[index].load(Ordering::Acquire)), 1);
        (0..loads.len()).for_each(|index| tree.set(index, || read(index)));
        let work = |thread: usize| {
            for turn in 0..200 {
                let index = (turn * 7 + thread) % loads.len();
                loads[index].fetch_add(1, Ordering::AcqRel);
                tree.set(index, || read(index));
                if turn % 3 > 0 {
                    loads[index].fetch_sub(1, Ordering::AcqRel);
                    tree.set(index, || read(index));
                }
            }
        };
        for _ in 0..50 {
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let work = &work;
                    scope.spawn(move || work(thread));
                }
            });
            let least = (0..loads.len()).map(|index| read(index).load()).min().unwrap();
            assert_eq!(tree.least().load(), least);
            for node in 1..tree.leaves {
                let below = tree.at(2 * node).0.min(tree.at(2 * node + 1).0);
                assert_eq!(tree.at(node).0, below, "node {node}");
            }
        }
    }
}
