//! A worker's list of its idle client connections, in the order in which they are closed.

use std::cell::RefCell;
use std::sync::Arc;
use std::task::Waker;

use weir_stats::metrics::GivenUpIdle;

use crate::limiting::admission::Gate;
use crate::limiting::idle_board::kind;
use crate::worker::residents::{Chain, ChainKind, Entries, ResidentKey, ResidentPhase};

/// The idle client connections of a worker.
#[derive(Default)]
pub(crate) struct IdleClients(pub(crate) RefCell<IdleLines>);

/// The idle connections, linked into a few lines for each listener, oldest first. Connections share
/// a line if their clients have the same excess and if both have carried a request or neither has.
#[derive(Default)]
pub(crate) struct IdleLines(pub(crate) Vec<IdleLine>);

pub(crate) struct IdleLine {
    pub(crate) gate: Arc<Gate>,
    /// The part of its ranks above the time.
    kind: u64,
    /// The number of its connections, including those that are being closed.
    connections: usize,
    chain: Chain,
}

impl IdleLines {
    /// Lists a connection of this gate.
    pub(crate) fn enter(
        &mut self,
        all: &mut Entries,
        key: ResidentKey,
        gate: &Arc<Gate>,
        rank: u64,
    ) {
        let number = self.line_of(gate, kind(rank));
        let Some(line) = self.0.get_mut(number) else { return };
        let Ok(number) = u16::try_from(number) else { return };
        line.chain.push(all, ChainKind::Idle, key);
        line.connections += 1;
        if let Some(own) = all.get_mut(key) {
            own.phase = ResidentPhase::Listed { line: number, rank };
        }
    }

    /// The number of the gate's line; a line without connections is reused.
    fn line_of(&mut self, gate: &Arc<Gate>, kind: u64) -> usize {
        let is_it = |line: &IdleLine| line.kind == kind && Arc::ptr_eq(&line.gate, gate);
        let own = self.0.iter().position(is_it);
        if let Some(own) = own {
            return own;
        }
        let gate = Arc::clone(gate);
        let line = IdleLine { gate, kind, connections: 0, chain: Chain::default() };
        let unused = self.0.iter().position(|line| line.connections == 0);
        if let Some((number, place)) =
            unused.and_then(|number| Some((number, self.0.get_mut(number)?)))
        {
            *place = line;
            return number;
        }
        self.0.push(line);
        self.0.len() - 1
    }

    /// The key and rank of the first connection to close.
    pub(crate) fn first(
        &self,
        all: &Entries,
        gate: Option<&Arc<Gate>>,
    ) -> Option<(ResidentKey, u64)> {
        let lines = self.0.iter();
        let lines = lines.filter(|line| gate.is_none_or(|gate| Arc::ptr_eq(&line.gate, gate)));
        let firsts = lines.filter_map(|line| {
            let key = line.chain.first?;
            match all.get(key)?.phase {
                ResidentPhase::Listed { rank, .. } => Some((key, rank)),
                _ => None,
            }
        });
        firsts.min_by_key(|(_, rank)| *rank)
    }

    /// Chooses the first connection to close.
    pub(crate) fn give_up(
        &mut self,
        all: &mut Entries,
        gate: Option<&Arc<Gate>>,
        why: GivenUpIdle,
    ) -> Option<(Arc<Gate>, Waker)> {
        let (key, _) = self.first(all, gate)?;
        let ResidentPhase::Listed { line: number, .. } = all.get(key)?.phase else { return None };
        let line = self.0.get_mut(usize::from(number))?;
        line.chain.remove(all, ChainKind::Idle, key);
        all.get_mut(key)?.phase = ResidentPhase::GivenUp { line: number, why };
        Some((Arc::clone(&line.gate), all.waker(key)?))
    }

    /// Removes a connection from the list; returns its gate if it was there.
    pub(crate) fn leave(&mut self, all: &mut Entries, key: ResidentKey) -> Option<Arc<Gate>> {
        let phase = std::mem::replace(&mut all.get_mut(key)?.phase, ResidentPhase::Other);
        let line = match phase {
            ResidentPhase::Listed { line, .. } => {
                let line = self.0.get_mut(usize::from(line))?;
                line.chain.remove(all, ChainKind::Idle, key);
                line
            }
            ResidentPhase::GivenUp { line, .. } => self.0.get_mut(usize::from(line))?,
            ResidentPhase::Other
            | ResidentPhase::Between(_)
            | ResidentPhase::Streaming(_)
            | ResidentPhase::ToldToEnd
            | ResidentPhase::Leaving => {
                return None;
            }
        };
        line.connections -= 1;
        let gate = Arc::clone(&line.gate);
        if self.0.iter().all(|line| line.connections == 0) {
            *self = Self::default();
        }
        Some(gate)
    }
}
