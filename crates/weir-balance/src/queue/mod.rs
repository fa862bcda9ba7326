//! The waiting exchanges in order of arrival: one line for the pool and one for each endpoint, in a
//! slab that keeps its memory. Limits and endpoints' states are unknown here; `dispatcher` decides
//! which exchange stands in which line.

pub(crate) mod waiter_info;

use core::task::Waker;
use std::collections::BTreeSet;

use smallvec::SmallVec;

use crate::policy::looks;
use crate::queue::waiter_info::{AHEAD, Ahead, WaiterInfo};
use crate::state::decision::{Rejection, Taken};
use crate::state::held::Holder;
use crate::state::member::Tried;

/// A waiter's place in the slab, reserved until its ticket is dropped.
pub(crate) type Id = u32;

/// The absence of a waiter.
const NOBODY: Id = Id::MAX;

/// An exchange that waits, or one that waited and has not taken its outcome yet.
#[derive(Debug)]
pub(crate) struct Waiter<S> {
    /// The number in the order of arrival: from 0, or below 0 if the exchange waited in another
    /// process before.
    pub(crate) seq: i64,
    /// The request parameters.
    pub(crate) wish: Wish,
    /// The waiter's state.
    pub(crate) standing: Standing,
    /// The waker of the task that waits for a change of `standing`.
    pub(crate) waker: Option<Waker>,
    /// The balancer that serves the waiter, if it is a successor of the one at which it arrived.
    pub(crate) server: Option<S>,
    /// The balancer that handed over a slot, by its number (`Balancer::identity`).
    pub(crate) made_by: usize,
    /// The line in which the waiter stands.
    pub(crate) home: Option<usize>,
    previous: Id,
    next: Id,
}

/// The parameters of a waiting exchange: a request that outlives its call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish {
    pub(crate) tag: u64,
    pub(crate) holder: Option<Holder>,
    pub(crate) since_us: u64,
    pub(crate) random: u64,
    pub(crate) key: u64,
    pub(crate) bound: Option<usize>,
    /// Set if the endpoint's line was full on arrival: the exchange waits for any endpoint from
    /// then on.
    pub(crate) overflowed: bool,
    pub(crate) tried: Tried,
    pub(crate) about: WaiterInfo,
    /// The names of the exchanges ahead on arrival.
    pub(crate) ahead: Ahead,
}

/// The state of a waiter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Standing {
    /// The waiter is in a line.
    Waiting,
    /// A slot was counted in for the waiter; its ticket turns it into a [`Slot`](crate::Slot).
    Handed(Taken),
    /// No endpoint may serve the waiter any more.
    Rejected(Rejection),
    /// The place in the slab is free.
    Vacant,
}

/// A waiter that left its line.
#[derive(Debug)]
pub(crate) struct Left {
    /// The waker to wake, if a task registered one.
    pub(crate) waker: Option<Waker>,
    /// The line that the waiter left.
    pub(crate) home: Option<usize>,
}

/// The final state of a waiter whose place in the slab was freed.
#[derive(Debug)]
pub(crate) struct EndedWaiter<S> {
    pub(crate) standing: Standing,
    /// As in [`Waiter::server`].
    pub(crate) server: Option<S>,
    /// As in [`Waiter::made_by`].
    pub(crate) made_by: usize,
}

#[derive(Clone, Copy, Debug)]
struct WaitingLine {
    first: Id,
    last: Id,
    len: u32,
}

const EMPTY: WaitingLine = WaitingLine { first: NOBODY, last: NOBODY, len: 0 };

/// The lines. A home of `None` is the pool's line, `Some(index)` that of an endpoint. `S` is the
/// dispatcher's reference to a balancer, of which the queue knows nothing.
#[derive(Debug)]
pub(crate) struct WaiterQueue<S> {
    waiters: Vec<Waiter<S>>,
    vacant: Vec<Id>,
    lines: Box<[WaitingLine]>,
    /// The waiters in the lines of endpoints, by their numbers.
    bound: BTreeSet<(i64, Id)>,
    waiting: u32,
    next_seq: i64,
}

impl<S> WaiterQueue<S> {
    pub(crate) fn new(endpoints: usize) -> Self {
        let lines = vec![EMPTY; endpoints + 1].into();
        let (waiters, vacant, bound) = (Vec::new(), Vec::new(), BTreeSet::new());
        Self { waiters, vacant, lines, bound, waiting: 0, next_seq: 0 }
    }

    /// The number of waiters in all lines.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting
    }

    /// The number of waiters in one line.
    pub(crate) fn len(&self, home: Option<usize>) -> u32 {
        self.lines.get(line(home)).map_or(0, |line| line.len)
    }

    pub(crate) fn get(&self, id: Id) -> Option<&Waiter<S>> {
        self.waiters.get(id as usize)
    }

    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut Waiter<S>> {
        self.waiters.get_mut(id as usize)
    }

    /// The waiter with this id, if it is in a line.
    pub(crate) fn waiter(&self, id: Id) -> Option<&Waiter<S>> {
        self.get(id).filter(|waiter| matches!(waiter.standing, Standing::Waiting))
    }

    /// The waiters of a line, the oldest first.
    pub(crate) fn line(&self, home: Option<usize>) -> impl Iterator<Item = (Id, &Waiter<S>)> {
        looks::count();
        let first = self.lines.get(line(home)).map_or(NOBODY, |line| line.first);
        let at = |id: Id| self.get(id).map(|waiter| (id, waiter));
        std::iter::successors(at(first), move |(_, waiter)| at(waiter.next))
    }

    /// The names of the first waiters before one that joins this line now, or that has this number.
    /// An endpoint's line counts the waiters of that line and of the pool's line; the pool's line
    /// counts all.
    pub(crate) fn ahead(&self, home: Option<usize>, number: Option<i64>) -> Ahead {
        let mut first: SmallVec<[(i64, Id); 2 * AHEAD]> = SmallVec::new();
        let is_before = |seq: &(i64, Id)| number.is_none_or(|number| seq.0 < number);
        let line = |home| self.line(home).map(|(id, waiter)| (waiter.seq, id));
        first.extend(line(None).take_while(is_before).take(AHEAD));
        match home {
            Some(_) => first.extend(line(home).take_while(is_before).take(AHEAD)),
            None => first.extend(self.bound.iter().copied().take_while(is_before).take(AHEAD)),
        }
        first.sort_unstable();
        let waiters = first.into_iter().take(AHEAD).filter_map(|(_, id)| self.get(id));
        waiters.map(|waiter| waiter.wish.about.name.clone()).collect()
    }

    /// Adds a waiter at the end of a line with the next number, or, if it already has a number, at
    /// its place in the order.
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

    /// Takes a waiter out of its line. It keeps its place in the slab, with its new state. Returns
    /// `None` if it was in no line.
    pub(crate) fn leave(&mut self, id: Id, standing: Standing) -> Option<Left> {
        let home = self.waiter(id)?.home;
        self.unlink(id);
        self.waiting -= 1;
        let waiter = self.get_mut(id)?;
        waiter.standing = standing;
        Some(Left { waker: waiter.waker.take(), home })
    }

    /// Frees a place in the slab; its waiter must be in no line.
    pub(crate) fn vacate(&mut self, id: Id) -> Option<EndedWaiter<S>> {
        debug_assert!(self.waiter(id).is_none(), "somebody was thrown out while he waited");
        let waiter = self.get_mut(id)?;
        let standing = std::mem::replace(&mut waiter.standing, Standing::Vacant);
        let server = waiter.server.take();
        let made_by = waiter.made_by;
        waiter.wish.tried = Tried::new();
        self.vacant.push(id);
        Some(EndedWaiter { standing, server, made_by })
    }

    /// The places of the slab that belong to a holder, in a line or with an outcome not yet told.
    pub(crate) fn held_by(&self, number: u16) -> Vec<Id> {
        let is_held = |waiter: &Waiter<S>| {
            let holder = waiter.wish.holder;
            !matches!(waiter.standing, Standing::Vacant)
                && holder.is_some_and(|holder| holder.number == number)
        };
        let waiters = (0..).zip(&self.waiters);
        waiters.filter(|(_, waiter)| is_held(waiter)).map(|(id, _)| id).collect()
    }

    /// The waiters in all lines, line by line.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Waiter<S>> {
        self.all_with_ids().map(|(_, waiter)| waiter)
    }

    fn all_with_ids(&self) -> impl Iterator<Item = (Id, &Waiter<S>)> {
        (0..self.lines.len()).flat_map(|number| self.line(number.checked_sub(1)))
    }

    /// The waiters in all lines, the oldest first.
    pub(crate) fn order(&self) -> Vec<Id> {
        let mut ids: Vec<(i64, Id)> =
            self.all_with_ids().map(|(id, waiter)| (waiter.seq, id)).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(_, id)| id).collect()
    }

    /// Forms all lines anew, the oldest waiter first. `home` chooses the line of each, given the
    /// lengths of the lines so far.
    pub(crate) fn form(&mut self, mut home: impl FnMut(&mut Waiter<S>, &[u32]) -> Option<usize>) {
        let order = self.order();
        self.lines.fill(EMPTY);
        self.bound.clear();
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

    /// Replaces the lines by those of a pool with `endpoints` other endpoints. All waiters stand in
    /// the pool's line until [`WaiterQueue::form`]. `change` is called for each of them.
    pub(crate) fn begin_anew(&mut self, endpoints: usize, mut change: impl FnMut(&mut Waiter<S>)) {
        let order = self.order();
        self.lines = vec![EMPTY; endpoints + 1].into();
        self.bound.clear();
        for id in order {
            let Some(waiter) = self.get_mut(id) else { continue };
            waiter.home = None;
            change(waiter);
            self.append(id, None);
        }
    }

    /// Returns true if lines, lengths and the count of waiters agree, and each line is in order of
    /// arrival.
    pub(crate) fn is_sound(&self) -> bool {
        let (mut total, mut bound) = (0, 0);
        let sound = (0..self.lines.len()).all(|number| {
            let home = number.checked_sub(1);
            let len = self.line(home).count();
            total += len;
            if home.is_some() {
                let listed = |(id, one): &(Id, &Waiter<S>)| self.bound.contains(&(one.seq, *id));
                bound += self.line(home).filter(listed).count();
            }
            self.line(home).is_sorted_by_key(|(_, waiter)| waiter.seq)
                && len == self.len(home) as usize
        });
        sound
            && total == self.waiting as usize
            && bound == self.bound.len()
            && self.bound.len() + self.len(None) as usize == total
    }

    /// Inserts a waiter into a line behind all earlier ones. The search starts at the end, where
    /// nearly every waiter belongs.
    fn insert(&mut self, id: Id, home: Option<usize>) {
        let seq = self.get(id).map_or(0, |waiter| waiter.seq);
        let mut behind = NOBODY;
        let mut ahead = self.lines.get(line(home)).map_or(NOBODY, |line| line.last);
        while let Some(other) = self.get(ahead).filter(|other| other.seq > seq) {
            (behind, ahead) = (ahead, other.previous);
        }
        self.link(id, home, ahead, behind);
    }

    fn append(&mut self, id: Id, home: Option<usize>) {
        let last = self.lines.get(line(home)).map_or(NOBODY, |line| line.last);
        self.link(id, home, last, NOBODY);
    }

    /// Links a waiter into a line between two neighbours; `NOBODY` stands for the neighbour ahead
    /// of the first and behind the last.
    fn link(&mut self, id: Id, home: Option<usize>, ahead: Id, behind: Id) {
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
            let seq = waiter.seq;
            if home.is_some() {
                self.bound.insert((seq, id));
            }
        }
    }

    fn unlink(&mut self, id: Id) {
        let Some(waiter) = self.get(id) else { return };
        let (previous, next, home) = (waiter.previous, waiter.next, waiter.home);
        if home.is_some() {
            let seq = waiter.seq;
            self.bound.remove(&(seq, id));
        }
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
        /// A waiter with a number of its own.
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
            let mut queue = WaiterQueue::<()>::new(3);
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
