//! Those who wait, in the order in which they came: one line for the pool and one for each endpoint, in a slab that keeps its
//! memory. It knows nothing of limits and endpoints' states; `floor.rs` says who stands in which line.

use core::task::Waker;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::held::Holder;
use crate::slot::Taken;
use crate::{AHEAD, Ahead, Balancer, Described, Rejection, Tried};

/// A waiter's place in the slab, his until his ticket is gone.
pub(crate) type Id = u32;

/// No waiter.
const NOBODY: Id = Id::MAX;

/// One who waits, or who waited and was not told yet.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// His number in the order of arrival: from 0 on, or below 0 when he waited in another process before.
    pub(crate) seq: i64,
    /// What he asks with.
    pub(crate) wish: Wish,
    /// How he stands.
    pub(crate) standing: Standing,
    /// Whom to wake when that changes.
    pub(crate) waker: Option<Waker>,
    /// Who serves him, if that is not the balancer at which he arrived but its successor.
    pub(crate) server: Option<Arc<Balancer>>,
    /// The balancer that handed a place over, by [`Balancer::identity`].
    pub(crate) made_by: usize,
    /// Which line that is.
    pub(crate) home: Option<usize>,
    previous: Id,
    next: Id,
}

/// What a waiter asks with: a request that outlives its call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish {
    pub(crate) tag: u64,
    pub(crate) holder: Option<Holder>,
    pub(crate) since_us: u64,
    pub(crate) random: u64,
    pub(crate) key: u64,
    pub(crate) bound: Option<usize>,
    /// His endpoint's line was full when he came: he waits for any endpoint from then on.
    pub(crate) overflowed: bool,
    pub(crate) tried: Tried,
    pub(crate) about: Described,
    /// Those ahead of him when he came.
    pub(crate) ahead: Ahead,
}

/// How a waiter stands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Standing {
    /// In a line.
    Waiting,
    /// A place was counted in for him; his ticket makes the slot of it.
    Handed(Taken),
    /// Nobody may serve him any more.
    Rejected(Rejection),
    /// Nobody has this place of the slab.
    Vacant,
}

/// Who left a line.
#[derive(Debug)]
pub(crate) struct Left {
    /// Whom to wake, if anybody asked.
    pub(crate) waker: Option<Waker>,
    /// The line.
    pub(crate) home: Option<usize>,
}

/// How somebody stood whose place in the slab is free again.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) standing: Standing,
    /// As in [`Waiter::server`].
    pub(crate) server: Option<Arc<Balancer>>,
    /// As in [`Waiter::made_by`].
    pub(crate) made_by: usize,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    first: Id,
    last: Id,
    len: u32,
}

const EMPTY: Line = Line { first: NOBODY, last: NOBODY, len: 0 };

/// The lines. A home of `None` is the pool's line, `Some(index)` that of an endpoint.
#[derive(Debug)]
pub(crate) struct Queue {
    waiters: Vec<Waiter>,
    vacant: Vec<Id>,
    lines: Box<[Line]>,
    waiting: u32,
    next_seq: i64,
}

impl Queue {
    pub(crate) fn new(endpoints: usize) -> Self {
        let lines = vec![EMPTY; endpoints + 1].into();
        Self { waiters: Vec::new(), vacant: Vec::new(), lines, waiting: 0, next_seq: 0 }
    }

    /// How many are in lines.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting
    }

    /// How many are in one line.
    pub(crate) fn len(&self, home: Option<usize>) -> u32 {
        self.lines.get(line(home)).map_or(0, |line| line.len)
    }

    pub(crate) fn get(&self, id: Id) -> Option<&Waiter> {
        self.waiters.get(id as usize)
    }

    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut Waiter> {
        self.waiters.get_mut(id as usize)
    }

    /// Somebody, if he stands in a line.
    pub(crate) fn waiter(&self, id: Id) -> Option<&Waiter> {
        self.get(id).filter(|waiter| matches!(waiter.standing, Standing::Waiting))
    }

    /// Those of a line, the oldest first.
    pub(crate) fn line(&self, home: Option<usize>) -> impl Iterator<Item = (Id, &Waiter)> {
        let first = self.lines.get(line(home)).map_or(NOBODY, |line| line.first);
        let at = |id: Id| self.get(id).map(|waiter| (id, waiter));
        std::iter::successors(at(first), move |(_, waiter)| at(waiter.next))
    }

    /// The names of the first of those who are before somebody who comes to this line now, or who has this number: of his own line and
    /// the pool's, or of all, if he stands in the pool's.
    pub(crate) fn ahead(&self, home: Option<usize>, number: Option<i64>) -> Ahead {
        let mut first: SmallVec<[(i64, Id); 2 * AHEAD]> = SmallVec::new();
        let mut add = |home| {
            let before = |waiter: &Waiter| number.is_none_or(|number| waiter.seq < number);
            for (id, waiter) in self.line(home).take_while(|(_, waiter)| before(waiter)).take(AHEAD)
            {
                let place = first.partition_point(|(seq, _)| *seq < waiter.seq);
                first.insert(place, (waiter.seq, id));
                first.truncate(AHEAD);
            }
        };
        add(None);
        match home {
            Some(_) => add(home),
            None if self.len(None) == self.waiting => {}
            None => (0..self.lines.len() - 1).for_each(|index| add(Some(index))),
        }
        let waiters = first.into_iter().filter_map(|(_, id)| self.get(id));
        waiters.map(|waiter| waiter.wish.about.name.clone()).collect()
    }

    /// Puts somebody at the end of a line, with the next number; or, where he has one already, at his place in the order.
    pub(crate) fn push(&mut self, wish: Wish, home: Option<usize>, number: Option<i64>) -> Id {
        let waiter = Waiter {
            seq: number.unwrap_or(self.next_seq),
            wish,
            standing: Standing::Waiting,
            waker: None,
            server: None,
            made_by: 0,
            home,
            previous: NOBODY,
            next: NOBODY,
        };
        self.next_seq += i64::from(number.is_none());
        self.waiting += 1;
        let id = self.vacant.pop().unwrap_or(self.waiters.len() as Id);
        if let Some(place) = self.get_mut(id) {
            *place = waiter;
        } else {
            self.waiters.push(waiter);
        }
        self.insert(id, home);
        id
    }

    /// Takes somebody out of his line; he keeps his place in the slab, with his new standing. `None` when he stood in
    /// none.
    pub(crate) fn leave(&mut self, id: Id, standing: Standing) -> Option<Left> {
        let home = self.waiter(id)?.home;
        self.unlink(id);
        self.waiting -= 1;
        let waiter = self.get_mut(id)?;
        waiter.standing = standing;
        Some(Left { waker: waiter.waker.take(), home })
    }

    /// Frees a place in the slab; whoever has it must be in no line.
    pub(crate) fn vacate(&mut self, id: Id) -> Option<Ended> {
        debug_assert!(self.waiter(id).is_none(), "somebody was thrown out while he waited");
        let waiter = self.get_mut(id)?;
        let standing = std::mem::replace(&mut waiter.standing, Standing::Vacant);
        let server = waiter.server.take();
        let made_by = waiter.made_by;
        waiter.wish.tried = Tried::new();
        self.vacant.push(id);
        Some(Ended { standing, server, made_by })
    }

    /// The places of the slab that a holder has, whether they stand in a line or were told.
    pub(crate) fn held_by(&self, number: u16) -> Vec<Id> {
        let is_held = |waiter: &Waiter| {
            let holder = waiter.wish.holder;
            !matches!(waiter.standing, Standing::Vacant)
                && holder.is_some_and(|holder| holder.number == number)
        };
        let waiters = (0..).zip(&self.waiters);
        waiters.filter(|(_, waiter)| is_held(waiter)).map(|(id, _)| id).collect()
    }

    /// All in lines, line by line.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Waiter> {
        self.all_with_ids().map(|(_, waiter)| waiter)
    }

    fn all_with_ids(&self) -> impl Iterator<Item = (Id, &Waiter)> {
        (0..self.lines.len()).flat_map(|number| self.line(number.checked_sub(1)))
    }

    /// All in lines, the oldest first.
    pub(crate) fn order(&self) -> Vec<Id> {
        let mut ids: Vec<(i64, Id)> =
            self.all_with_ids().map(|(id, waiter)| (waiter.seq, id)).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(_, id)| id).collect()
    }

    /// Forms all lines anew, the oldest first; `home` says where each stands. It sees the lines as they grow.
    pub(crate) fn form(&mut self, mut home: impl FnMut(&mut Waiter, &[u32]) -> Option<usize>) {
        let order = self.order();
        self.lines.fill(EMPTY);
        let mut lens = vec![0; self.lines.len() - 1];
        for id in order {
            let Some(waiter) = self.get_mut(id) else { continue };
            let home = home(waiter, &lens);
            waiter.home = home;
            if let Some(len) = home.and_then(|home| lens.get_mut(home)) {
                *len += 1;
            }
            self.append(id, home);
        }
    }

    /// The lines of a pool of `endpoints` other endpoints; all stand in the pool's line until [`Queue::form`]. `change` sees everybody
    /// in a line.
    pub(crate) fn begin_anew(&mut self, endpoints: usize, mut change: impl FnMut(&mut Waiter)) {
        let order = self.order();
        self.lines = vec![EMPTY; endpoints + 1].into();
        for id in order {
            let Some(waiter) = self.get_mut(id) else { continue };
            waiter.home = None;
            change(waiter);
            self.append(id, None);
        }
    }

    /// Whether lines, lengths and the count of those who wait agree, and each line is in order of arrival.
    pub(crate) fn is_sound(&self) -> bool {
        let mut total = 0;
        let sound = (0..self.lines.len()).all(|number| {
            let home = number.checked_sub(1);
            let len = self.line(home).count();
            total += len;
            self.line(home).is_sorted_by_key(|(_, waiter)| waiter.seq)
                && len == self.len(home) as usize
        });
        sound && total == self.waiting as usize
    }

    /// Puts somebody into a line behind all who came before him. From the end: that is where nearly everybody belongs.
    fn insert(&mut self, id: Id, home: Option<usize>) {
        let seq = self.get(id).map_or(0, |waiter| waiter.seq);
        let mut behind = NOBODY;
        let mut ahead = self.lines.get(line(home)).map_or(NOBODY, |line| line.last);
        while let Some(other) = self.get(ahead).filter(|other| other.seq > seq) {
            (behind, ahead) = (ahead, other.previous);
        }
        self.link(id, home, (ahead, behind));
    }

    fn append(&mut self, id: Id, home: Option<usize>) {
        let last = self.lines.get(line(home)).map_or(NOBODY, |line| line.last);
        self.link(id, home, (last, NOBODY));
    }

    /// Puts somebody into a line between two who stand side by side there; nobody is ahead of the first or behind the last.
    fn link(&mut self, id: Id, home: Option<usize>, (ahead, behind): (Id, Id)) {
        let Some(line) = self.lines.get_mut(line(home)) else { return };
        line.len += 1;
        if ahead == NOBODY {
            line.first = id;
        }
        if behind == NOBODY {
            line.last = id;
        }
        if let Some(before) = self.get_mut(ahead) {
            before.next = id;
        }
        if let Some(after) = self.get_mut(behind) {
            after.previous = id;
        }
        if let Some(waiter) = self.get_mut(id) {
            (waiter.previous, waiter.next) = (ahead, behind);
        }
    }

    fn unlink(&mut self, id: Id) {
        let Some(waiter) = self.get(id) else { return };
        let (previous, next, home) = (waiter.previous, waiter.next, waiter.home);
        if let Some(before) = self.get_mut(previous) {
            before.next = next;
        }
        if let Some(after) = self.get_mut(next) {
            after.previous = previous;
        }
        let Some(line) = self.lines.get_mut(line(home)) else { return };
        line.len -= 1;
        if line.first == id {
            line.first = next;
        }
        if line.last == id {
            line.last = previous;
        }
    }
}

fn line(home: Option<usize>) -> usize {
    home.map_or(0, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Push(Option<usize>),
        /// With a number of his own.
        Elder(Option<usize>, i64),
        Leave(usize),
        Form(Vec<Option<usize>>),
    }

    fn step() -> impl Strategy<Value = Step> {
        let home = || proptest::option::of(0_usize..3);
        prop_oneof![
            4 => home().prop_map(Step::Push),
            2 => (home(), -5_i64..0).prop_map(|(home, seq)| Step::Elder(home, seq)),
            3 => any::<usize>().prop_map(Step::Leave),
            1 => proptest::collection::vec(home(), 8).prop_map(Step::Form),
        ]
    }

    proptest! {
        #[test]
        fn the_lines_are_those_of_sorted_lists(steps in proptest::collection::vec(step(), 1..120)) {
            let mut queue = Queue::new(3);
            let mut model: BTreeMap<i64, (Id, Option<usize>)> = BTreeMap::new();
            let (mut seq, mut turn) = (0, 0);
            for step in steps {
                turn += 1;
                match step {
                    Step::Push(home) => {
                        model.insert(seq, (queue.push(Wish::default(), home, None), home));
                        seq += 1;
                    }
                    Step::Elder(home, group) => {
                        let seq = group * 1000 + turn;
                        model.insert(seq, (queue.push(Wish::default(), home, Some(seq)), home));
                    }
                    Step::Leave(at) if !model.is_empty() => {
                        let key = *model.keys().nth(at % model.len()).unwrap();
                        let (id, home) = model.remove(&key).unwrap();
                        let left = queue.leave(id, Standing::Rejected(Rejection::Full)).unwrap();
                        prop_assert_eq!(left.home, home);
                        prop_assert!(queue.leave(id, Standing::Vacant).is_none());
                        queue.vacate(id);
                    }
                    Step::Leave(_) => {}
                    Step::Form(homes) => {
                        let home = |seq: i64| homes[seq.unsigned_abs() as usize % homes.len()];
                        queue.form(|waiter, _| home(waiter.seq));
                        for (seq, (_, place)) in &mut model {
                            *place = home(*seq);
                        }
                    }
                }
                prop_assert!(queue.is_sound());
                prop_assert_eq!(queue.waiting() as usize, model.len());
                for home in [None, Some(0), Some(1), Some(2)] {
                    let own = model.values().filter(|(_, place)| *place == home).map(|(id, _)| *id);
                    let line: Vec<Id> = queue.line(home).map(|(id, _)| id).collect();
                    prop_assert_eq!(line, own.collect::<Vec<_>>());
                }
                prop_assert_eq!(queue.order(), model.values().map(|(id, _)| *id).collect::<Vec<_>>());
            }
        }
    }
}
