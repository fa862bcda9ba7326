//! Idle client connections: lists them, oldest first, and chooses those that are closed when
//! connections or memory run short, so that no request is refused or delayed because of a
//! connection that carries none. It closes nothing itself: it wakes the connection's own task,
//! which does.
//!
//! ```text
//!  acceptor ─ order ─▶ IdleBoard (process, listener) ─ call ─▶ IdleClients of the
//!                                     worker with the first candidate ─ wake ─▶ task
//! ```
//! Only a worker lists its own connections; other threads see just the rank of its first candidate,
//! an atomic. A connection is listed when it has waited without a buffer for its next request, so a
//! busy keep-alive connection never touches any of this.

use std::rc::Weak;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_stats::metrics::GivenUpIdle;

use crate::limiting::admission::Gate;
use crate::limiting::idle_board::{CrowdOrder, IdleBoard, NONE};
use crate::limiting::room::Room;
use crate::net::Net;
use crate::worker::Worker;
use crate::worker::idle_list::IdleLines;
use crate::worker::process::Process;
use crate::worker::residents::{Entries, ResidentKey, ResidentPhase};

/// A connection's place among the idle ones, until this is dropped.
pub(crate) struct IdlePlace<'a, N: Net> {
    worker: &'a Worker<N>,
    key: ResidentKey,
}

impl<N: Net> Worker<N> {
    /// Lists a connection of this gate as idle. It is closed soon if another thread needs room.
    pub(crate) fn list_idle(
        &self,
        key: ResidentKey,
        gate: &Arc<Gate>,
        rank: u64,
    ) -> IdlePlace<'_, N> {
        self.change_list(|lines, all| lines.enter(all, key, gate, rank));
        let place = IdlePlace { worker: self, key };
        self.note_idle(gate);
        let signals = &self.process.idle_clients;
        for board in [&signals.all, &gate.idle_clients] {
            if board.waiting.load(Ordering::SeqCst) > 0 {
                board.appeared.notify_waiters();
            }
            if board.wants(rank) {
                signals.call(board);
            }
        }
        place
    }

    /// Carries out the orders of other threads.
    fn answer_call(&self) {
        let process = &self.process;
        let signals = &process.idle_clients;
        while signals.all.take_order(&process.connections, self.lowest_rank(None)) {
            if !self.give_up_idle(None, GivenUpIdle::MaxConnections) {
                signals.order(&signals.all, 1);
                break;
            }
        }
        while process.server_connections.take_order() {
            let pools = &self.current().snapshot.pools;
            if !self.idle.close_one(pools) && !self.http2.close_idle() {
                // Left to another worker that has idle connections to endpoints.
                process.server_connections.order();
                break;
            }
        }
        self.give_up_crowd(&signals.all, &process.connections, None);
        for listener in &self.current().snapshot.listeners {
            let gate = &listener.gate;
            self.give_up_crowd(&gate.idle_clients, &gate.room, Some(gate));
        }
        let mut number = 0;
        while let Some(gate) = self.gate_of_line(number) {
            number += 1;
            while gate.idle_clients.take_order(&gate.room, self.lowest_rank(Some(&gate))) {
                if !self.give_up_idle(Some(&gate), GivenUpIdle::ListenerMaxConnections) {
                    signals.order(&gate.idle_clients, 1);
                    break;
                }
            }
        }
        let less = |wanted: usize| wanted.checked_sub(1);
        let order = || signals.for_memory.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        while order().is_ok() {
            if !self.give_up_idle(None, GivenUpIdle::Memory) {
                // The rest is left to another worker that has idle connections.
                signals.for_memory.fetch_add(1, Ordering::SeqCst);
                signals.call(&signals.all);
                break;
            }
        }
    }

    /// Ends requests of a client as ordered. The rest of the order is left to other workers.
    fn give_up_crowd(&self, board: &IdleBoard, room: &Room, gate: Option<&Arc<Gate>>) {
        let Some(CrowdOrder { crowded, count }) = board.take_crowd_order(room) else { return };
        let given_up = self.give_up_of_client(crowded, room, gate, count as usize);
        self.process.given_up_at_cap.fetch_add(given_up as u64, Ordering::Relaxed);
        let count = count.saturating_sub(given_up as u32);
        board.order_of_client(CrowdOrder { crowded, count });
    }

    fn gate_of_line(&self, number: usize) -> Option<Arc<Gate>> {
        self.idle_clients.0.borrow().0.get(number).map(|line| Arc::clone(&line.gate))
    }

    /// Chooses the first idle connection to close, of one listener or of all, and wakes its task;
    /// returns false if there is none.
    fn give_up_idle(&self, gate: Option<&Arc<Gate>>, why: GivenUpIdle) -> bool {
        let taken = self.change_list(|lines, all| lines.give_up(all, gate, why));
        let Some((gate, waker)) = taken else { return false };
        self.note_idle(&gate);
        waker.wake();
        true
    }

    /// The rank of the first idle connection to close, of one listener or of all.
    fn lowest_rank(&self, gate: Option<&Arc<Gate>>) -> u64 {
        self.change_list(|lines, all| lines.first(all, gate)).map_or(NONE, |(_, rank)| rank)
    }

    fn change_list<R>(&self, change: impl FnOnce(&mut IdleLines, &mut Entries) -> R) -> R {
        change(&mut self.idle_clients.0.borrow_mut(), &mut self.residents.table().all)
    }

    /// Publishes the lowest ranks for other threads.
    fn note_idle(&self, gate: &Arc<Gate>) {
        let (number, workers) = (self.number, self.process.loads.len());
        gate.idle_clients.note_lowest(number, workers, self.lowest_rank(Some(gate)));
        self.process.idle_clients.all.note_lowest(number, workers, self.lowest_rank(None));
    }
}

impl<N: Net> IdlePlace<'_, N> {
    /// The reason why the connection must be closed. `None` if it need not be; its task is then
    /// woken when it is chosen.
    pub(crate) fn given_up(&self) -> Option<GivenUpIdle> {
        match self.worker.residents.table().all.get(self.key)?.phase {
            ResidentPhase::GivenUp { why, .. } => Some(why),
            _ => None,
        }
    }

    /// Removes the connection from the list because a request came. If it was chosen to be closed,
    /// another one is chosen instead.
    pub(crate) fn stay(self) {
        let Some(why) = self.given_up() else { return };
        let signals = &self.worker.process.idle_clients;
        match why {
            GivenUpIdle::MaxConnections => signals.order(&signals.all, 1),
            GivenUpIdle::ListenerMaxConnections => {
                if let Some(gate) = self.gate() {
                    signals.order(&gate.idle_clients, 1);
                }
            }
            GivenUpIdle::Memory => signals.give_up_for_memory(1),
        }
    }

    fn gate(&self) -> Option<Arc<Gate>> {
        self.worker.residents.table().all.get(self.key)?.gate()
    }
}

impl<N: Net> Drop for IdlePlace<'_, N> {
    fn drop(&mut self) {
        let gate = self.worker.change_list(|lines, all| lines.leave(all, self.key));
        if let Some(gate) = gate {
            self.worker.note_idle(&gate);
        }
    }
}

/// Closes idle connections of a worker, those to endpoints included, and ends requests, whenever
/// another thread orders it.
pub(crate) async fn attend<N: Net>(worker: Weak<Worker<N>>, process: Arc<Process>, number: usize) {
    while let Some(called) = process.idle_clients.is_called(number) {
        called.await;
        let Some(worker) = worker.upgrade() else { return };
        worker.answer_call();
    }
}
