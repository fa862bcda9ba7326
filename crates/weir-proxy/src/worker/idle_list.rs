//! A worker's list of its idle client connections, in the order in which they are closed.

use std::cell::RefCell;
use std::sync::Arc;
use std::task::Waker;

use weir_stats::metrics::GivenUpIdle;

use crate::limiting::admission::Gate;
use crate::limiting::idle_board::kind;

/// The idle client connections of a worker.
#[derive(Default)]
pub(crate) struct IdleClients(pub(crate) RefCell<Lines>);

/// The idle connections in one slab, linked into a few lines for each listener, oldest first: one
/// line per excess of the client and per whether the connection carried a request.
#[derive(Default)]
pub(crate) struct Lines {
    pub(crate) entries: Vec<Entry>,
    free: Vec<usize>,
    pub(crate) all: Vec<Line>,
}

pub(crate) struct Line {
    pub(crate) gate: Arc<Gate>,
    /// The part of its ranks above the time.
    kind: u64,
    /// The number of entries of its connections, including those that are being closed.
    entries: usize,
    first: Option<usize>,
    last: Option<usize>,
}

pub(crate) struct Entry {
    rank: u64,
    pub(crate) line: usize,
    before: Option<usize>,
    after: Option<usize>,
    pub(crate) waker: Waker,
    pub(crate) state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Listed,
    /// Off its line, and woken to close.
    GivenUp(GivenUpIdle),
    Free,
}

impl Lines {
    pub(crate) fn enter(&mut self, gate: &Arc<Gate>, rank: u64, waker: &Waker) -> usize {
        let line = self.line_of(gate, kind(rank));
        let before = self.all.get(line).and_then(|line| line.last);
        let (waker, state) = (waker.clone(), State::Listed);
        let entry = Entry { rank, line, before, after: None, waker, state };
        let key = self.free.pop().unwrap_or(self.entries.len());
        match self.entries.get_mut(key) {
            Some(place) => *place = entry,
            None => self.entries.push(entry),
        }
        if let Some(before) = before.and_then(|before| self.entries.get_mut(before)) {
            before.after = Some(key);
        }
        if let Some(line) = self.all.get_mut(line) {
            line.first = line.first.or(Some(key));
            line.last = Some(key);
            line.entries += 1;
        }
        key
    }

    /// The number of the gate's line; a line without connections is reused.
    fn line_of(&mut self, gate: &Arc<Gate>, kind: u64) -> usize {
        let is_it = |line: &Line| line.kind == kind && Arc::ptr_eq(&line.gate, gate);
        let own = self.all.iter().position(is_it);
        if let Some(own) = own {
            return own;
        }
        let gate = Arc::clone(gate);
        let line = Line { gate, kind, entries: 0, first: None, last: None };
        let unused = self.all.iter().position(|line| line.entries == 0);
        if let Some((number, place)) =
            unused.and_then(|number| Some((number, self.all.get_mut(number)?)))
        {
            *place = line;
            return number;
        }
        self.all.push(line);
        self.all.len() - 1
    }

    /// The key and rank of the first connection to close.
    pub(crate) fn first(&self, gate: Option<&Arc<Gate>>) -> Option<(usize, u64)> {
        let lines = self.all.iter();
        let lines = lines.filter(|line| gate.is_none_or(|gate| Arc::ptr_eq(&line.gate, gate)));
        let firsts = lines.filter_map(|line| {
            let key = line.first?;
            Some((key, self.entries.get(key)?.rank))
        });
        firsts.min_by_key(|(_, rank)| *rank)
    }

    pub(crate) fn give_up(
        &mut self,
        gate: Option<&Arc<Gate>>,
        why: GivenUpIdle,
    ) -> Option<(Arc<Gate>, Waker)> {
        let (key, _) = self.first(gate)?;
        self.unlink(key);
        let entry = self.entries.get_mut(key)?;
        entry.state = State::GivenUp(why);
        let waker = std::mem::replace(&mut entry.waker, Waker::noop().clone());
        Some((Arc::clone(&self.all.get(entry.line)?.gate), waker))
    }

    pub(crate) fn leave(&mut self, key: usize) -> Option<Waker> {
        if self.entries.get(key)?.state == State::Listed {
            self.unlink(key);
        }
        let entry = self.entries.get_mut(key)?;
        entry.state = State::Free;
        let line = entry.line;
        let waker = std::mem::replace(&mut entry.waker, Waker::noop().clone());
        self.free.push(key);
        if let Some(line) = self.all.get_mut(line) {
            line.entries -= 1;
        }
        if self.free.len() == self.entries.len() {
            // No connection is idle: a burst of connections leaves no memory behind.
            *self = Self::default();
        }
        Some(waker)
    }

    fn unlink(&mut self, key: usize) {
        let Some(&Entry { line, before, after, .. }) = self.entries.get(key) else { return };
        if let Some(before) = before.and_then(|before| self.entries.get_mut(before)) {
            before.after = after;
        }
        if let Some(after) = after.and_then(|after| self.entries.get_mut(after)) {
            after.before = before;
        }
        if let Some(line) = self.all.get_mut(line) {
            if line.first == Some(key) {
                line.first = after;
            }
            if line.last == Some(key) {
                line.last = before;
            }
        }
    }
}
