//! The client connections of a worker by client, so that those of a client that holds too many can
//! be ended in favour of other clients: its requests, the longest running first, and phases that
//! are neither a request nor idle (a TLS handshake, a lingering close). `idle_clients.rs` handles
//! idle connections. A connection is entered once, not for each request.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::task::Waker;

use crate::limiting::admission::Gate;
use crate::limiting::client_shares::ClientBucket;
use crate::time::instant::Instant;

/// The connections of a worker whose clients are counted.
#[derive(Default)]
pub(crate) struct Residents {
    table: RefCell<Table>,
    /// The number of connections ended between requests that have not terminated yet.
    leaving: Cell<usize>,
}

#[derive(Default)]
struct Table {
    all: Vec<Option<Resident>>,
    vacant: Vec<usize>,
}

struct Resident {
    client: ClientBucket,
    gate: Arc<Gate>,
    /// The waker of the connection's task; `None` before its first turn.
    waker: Option<Waker>,
    /// The time since which it neither has a request nor waits for one.
    between: Option<Instant>,
    given_up: bool,
}

/// The index of a connection in the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResidentKey(usize);

/// A connection's entry in the table, removed when this is dropped.
pub(crate) struct ResidentPlace<'a> {
    of: &'a Residents,
    pub(crate) key: ResidentKey,
}

impl Residents {
    /// Adds a connection of this client and gate.
    pub(crate) fn enter(&self, client: ClientBucket, gate: &Arc<Gate>) -> ResidentPlace<'_> {
        let gate = Arc::clone(gate);
        let resident = Resident { client, gate, waker: None, between: None, given_up: false };
        let Table { all, vacant } = &mut *self.table.borrow_mut();
        let key = vacant.pop().unwrap_or_else(|| {
            all.push(None);
            all.len() - 1
        });
        if let Some(own) = all.get_mut(key) {
            *own = Some(resident);
        }
        ResidentPlace { of: self, key: ResidentKey(key) }
    }

    fn change(&self, ResidentKey(key): ResidentKey, change: impl FnOnce(&mut Resident)) {
        if let Some(Some(resident)) = self.table.borrow_mut().all.get_mut(key) {
            change(resident);
        }
    }

    /// Sets the task that is woken when the connection has to end.
    pub(crate) fn set_waker(&self, key: ResidentKey, waker: &Waker) {
        self.change(key, |resident| resident.waker = Some(waker.clone()));
    }

    /// Sets the time since which the connection neither has a request nor waits for one; `None` if
    /// it has one or waits.
    pub(crate) fn set_between(&self, key: ResidentKey, since: Option<Instant>) {
        self.change(key, |resident| resident.between = since);
    }

    /// Returns true if the connection has to end at once although it has no request that was ended.
    pub(crate) fn is_given_up(&self, ResidentKey(key): ResidentKey) -> bool {
        self.leaving.get() > 0
            && matches!(self.table.borrow().all.get(key), Some(Some(own)) if own.given_up)
    }

    pub(crate) fn client(&self, ResidentKey(key): ResidentKey) -> Option<ClientBucket> {
        Some(self.table.borrow().all.get(key)?.as_ref()?.client)
    }

    /// Tells whether the connection belongs to this client, and to this listener if one is given.
    pub(crate) fn belongs(
        &self,
        ResidentKey(key): ResidentKey,
        client: ClientBucket,
        gate: Option<&Arc<Gate>>,
    ) -> bool {
        let table = self.table.borrow();
        let Some(Some(resident)) = table.all.get(key) else { return false };
        resident.client == client && gate.is_none_or(|gate| Arc::ptr_eq(&resident.gate, gate))
    }

    /// The connections that neither have a request nor wait for one.
    pub(crate) fn between(&self) -> Vec<(Instant, ResidentKey)> {
        let table = self.table.borrow();
        let all = table.all.iter().enumerate();
        all.filter_map(|(key, resident)| {
            let resident = resident.as_ref().filter(|resident| !resident.given_up)?;
            Some((resident.between?, ResidentKey(key)))
        })
        .collect()
    }

    pub(crate) fn give_up(&self, key: ResidentKey) {
        self.change(key, |resident| resident.given_up = true);
        self.leaving.set(self.leaving.get() + 1);
    }

    pub(crate) fn wake(&self, ResidentKey(key): ResidentKey) {
        let table = self.table.borrow();
        let waker = table.all.get(key).and_then(|own| own.as_ref()?.waker.clone());
        drop(table);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Drop for ResidentPlace<'_> {
    fn drop(&mut self) {
        let ResidentKey(key) = self.key;
        let mut table = self.of.table.borrow_mut();
        let Some(resident) = table.all.get_mut(key).and_then(Option::take) else { return };
        table.vacant.push(key);
        if table.vacant.len() == table.all.len() {
            // A burst of connections leaves no memory behind.
            *table = Table::default();
        }
        drop(table);
        self.of.leaving.set(self.of.leaving.get() - usize::from(resident.given_up));
    }
}
