//! The client connections of a worker, one compact entry each for as long as the connection lives:
//! the waker of its task, its client, its place among the idle connections (`idle_list.rs` links
//! them) and the deadline of its wait. An entry is made once, not for each request. Connections of
//! a client that holds too many are found here (`crowding.rs` ends them): those with a request, and
//! those that neither have a request nor are idle (a TLS handshake, a lingering close).

use std::cell::{Cell, RefCell, RefMut};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep_until;
use weir_stats::metrics::GivenUpIdle;

use crate::limiting::admission::Gate;
use crate::limiting::client_shares::ClientBucket;
use crate::time::instant::Instant;
use crate::upstream::idle::Owner;

/// The client connections of a worker.
pub(crate) struct Residents {
    table: RefCell<ResidentTable>,
    /// The number of connections that were given up between requests and have not ended yet.
    leaving: Cell<usize>,
    /// Notified when a deadline is set that is earlier than all others.
    earlier: Notify,
    /// The beginning of the worker's life.
    origin: Instant,
}

/// The entries of connections, and the chains of those that wait for a deadline.
#[derive(Default)]
pub(crate) struct ResidentTable {
    pub(crate) all: Entries,
    vacant: Vec<ResidentKey>,
    /// The connections to wake, by the millisecond of the worker's life at whose beginning they are
    /// woken.
    due: BTreeMap<u64, Chain>,
}

/// The farthest deadline, milliseconds: a connection that waits longer is woken in between.
const FARTHEST_MS: u64 = 1 << 31;
/// Nanoseconds in a millisecond.
const MILLI_NS: u64 = 1_000_000;

/// Entries, some of them vacant.
#[derive(Default)]
pub(crate) struct Entries(Vec<Resident>);

/// A connection.
pub(crate) struct Resident {
    /// The waker of the connection's task; `None` before its first turn.
    waker: Option<Waker>,
    /// `None` in a vacant entry.
    gate: Option<Arc<Gate>>,
    pub(crate) phase: ResidentPhase,
    idle: Links,
    deadline: Links,
    /// The lower half of its key in [`ResidentTable::due`]; `None` if it is not there.
    due: Option<NonZeroU32>,
    /// `None` if the client is not counted.
    client: Option<ClientBucket>,
}

/// The state of a connection, as far as other tasks need it.
#[derive(Clone, Copy)]
pub(crate) enum ResidentPhase {
    /// It has a request, or waits for one and is not listed.
    Other,
    /// It neither has a request nor waits for one since this time.
    Between(Instant),
    /// It has streams of HTTP/2, and did something last at this time.
    Streaming(Instant),
    /// It had streams, and has to end them.
    ToldToEnd,
    /// It was given up while it had no request.
    Leaving,
    /// Listed as idle in this line, with this rank.
    Listed { line: u16, rank: u64 },
    /// Removed from its line, and woken to close.
    GivenUp { line: u16, why: GivenUpIdle },
}

/// The index of a connection in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResidentKey(Owner);

/// The neighbours in a chain.
#[derive(Clone, Copy, Default)]
struct Links {
    before: Option<ResidentKey>,
    after: Option<ResidentKey>,
}

/// The ends of a chain of connections.
#[derive(Clone, Copy, Default)]
pub(crate) struct Chain {
    pub(crate) first: Option<ResidentKey>,
    last: Option<ResidentKey>,
}

/// The two chains that a connection can be in.
#[derive(Clone, Copy)]
pub(crate) enum ChainKind {
    Idle,
    Deadline,
}

impl ResidentKey {
    fn of_index(index: usize) -> Self {
        Self(NonZeroU32::MIN.saturating_add(index as u32))
    }

    /// The connection as the owner of connections to endpoints.
    pub(crate) fn owner(self) -> Owner {
        self.0
    }

    pub(crate) fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl Resident {
    pub(crate) fn gate(&self) -> Option<Arc<Gate>> {
        self.gate.clone()
    }

    fn links(&mut self, kind: ChainKind) -> &mut Links {
        match kind {
            ChainKind::Idle => &mut self.idle,
            ChainKind::Deadline => &mut self.deadline,
        }
    }
}

impl Entries {
    pub(crate) fn get(&self, key: ResidentKey) -> Option<&Resident> {
        self.0.get(key.index())
    }

    pub(crate) fn get_mut(&mut self, key: ResidentKey) -> Option<&mut Resident> {
        self.0.get_mut(key.index())
    }

    pub(crate) fn waker(&self, key: ResidentKey) -> Option<Waker> {
        self.get(key)?.waker.clone()
    }
}

impl Chain {
    /// Appends a connection.
    pub(crate) fn push(&mut self, all: &mut Entries, kind: ChainKind, key: ResidentKey) {
        let before = self.last.replace(key);
        if let Some(own) = all.get_mut(key) {
            *own.links(kind) = Links { before, after: None };
        }
        match before.and_then(|before| all.get_mut(before)) {
            Some(before) => before.links(kind).after = Some(key),
            None => self.first = Some(key),
        }
    }

    /// Removes one of its connections.
    pub(crate) fn remove(&mut self, all: &mut Entries, kind: ChainKind, key: ResidentKey) {
        let Some(own) = all.get_mut(key) else { return };
        let Links { before, after } = std::mem::take(own.links(kind));
        match before.and_then(|before| all.get_mut(before)) {
            Some(before) => before.links(kind).after = after,
            None => self.first = after,
        }
        match after.and_then(|after| all.get_mut(after)) {
            Some(after) => after.links(kind).before = before,
            None => self.last = before,
        }
    }
}

impl ResidentTable {
    /// Sets the millisecond at which the connection is woken, unless it is woken earlier anyway;
    /// returns true if that is earlier than for all others.
    fn wake_at(&mut self, key: ResidentKey, at_ms: u64) -> bool {
        // The lower half of a key is not 0.
        let (at_ms, low) = match NonZeroU32::new(at_ms as u32) {
            Some(low) => (at_ms, low),
            None => (at_ms + 1, NonZeroU32::MIN),
        };
        if self.due_at(key).is_some_and(|due| due <= at_ms) {
            return false;
        }
        self.forget_deadline(key);
        let is_earliest = self.due.first_key_value().is_none_or(|(first, _)| at_ms < *first);
        self.due.entry(at_ms).or_default().push(&mut self.all, ChainKind::Deadline, key);
        if let Some(own) = self.all.get_mut(key) {
            own.due = Some(low);
        }
        is_earliest
    }

    /// The millisecond at which the connection is woken. All keys are within [`FARTHEST_MS`] of the
    /// first one.
    fn due_at(&self, key: ResidentKey) -> Option<u64> {
        let low = self.all.get(key)?.due?.get();
        let first = *self.due.first_key_value()?.0;
        Some(first + u64::from(low.wrapping_sub(first as u32)))
    }

    fn forget_deadline(&mut self, key: ResidentKey) {
        let Some(at_ms) = self.due_at(key) else { return };
        if let Some(own) = self.all.get_mut(key) {
            own.due = None;
        }
        let Some(chain) = self.due.get_mut(&at_ms) else { return };
        chain.remove(&mut self.all, ChainKind::Deadline, key);
        if chain.first.is_none() {
            self.due.remove(&at_ms);
        }
    }

    /// Removes one connection that is to be woken by now, and returns its waker.
    fn take_due(&mut self, now_ms: u64) -> Option<Waker> {
        while let Some((_, chain)) = self.due.first_key_value().filter(|(due, _)| **due <= now_ms) {
            let key = chain.first?;
            self.forget_deadline(key);
            if let Some(waker) = self.all.waker(key) {
                return Some(waker);
            }
        }
        None
    }
}

impl Residents {
    pub(crate) fn new(origin: Instant) -> Self {
        let (table, leaving) = (RefCell::default(), Cell::default());
        Self { table, leaving, earlier: Notify::new(), origin }
    }

    pub(crate) fn table(&self) -> RefMut<'_, ResidentTable> {
        self.table.borrow_mut()
    }

    /// Adds a connection of this gate, and of this client if it is counted. It has its place until
    /// [`Residents::leave`].
    pub(crate) fn enter(&self, client: Option<ClientBucket>, gate: &Arc<Gate>) -> ResidentKey {
        let resident = Resident {
            waker: None,
            gate: Some(Arc::clone(gate)),
            phase: ResidentPhase::Other,
            idle: Links::default(),
            deadline: Links::default(),
            due: None,
            client,
        };
        let mut table = self.table();
        if let Some(key) = table.vacant.pop() {
            if let Some(own) = table.all.get_mut(key) {
                *own = resident;
            }
            key
        } else {
            table.all.0.push(resident);
            ResidentKey::of_index(table.all.0.len() - 1)
        }
    }

    /// Sets the waker of the connection's task.
    pub(crate) fn set_waker(&self, key: ResidentKey, waker: &Waker) {
        if let Some(own) = self.table().all.get_mut(key) {
            own.waker = Some(waker.clone());
        }
    }

    /// Sets the time since which the connection neither has a request nor waits for one; `None` if
    /// it has one or waits.
    pub(crate) fn set_between(&self, key: ResidentKey, since: Option<Instant>) {
        let phase = since.map_or(ResidentPhase::Other, ResidentPhase::Between);
        if let Some(own) = self.table().all.get_mut(key)
            && !matches!(own.phase, ResidentPhase::Leaving)
        {
            own.phase = phase;
        }
    }

    /// Sets the time at which a connection with streams of HTTP/2 did something; `None` if it has
    /// none.
    pub(crate) fn set_streaming(&self, key: ResidentKey, since: Option<Instant>) {
        let phase = since.map_or(ResidentPhase::Other, ResidentPhase::Streaming);
        if let Some(own) = self.table().all.get_mut(key)
            && matches!(own.phase, ResidentPhase::Other | ResidentPhase::Streaming(_))
        {
            own.phase = phase;
        }
    }

    /// Returns true if the connection has to end its streams of HTTP/2.
    pub(crate) fn is_told_to_end(&self, key: ResidentKey) -> bool {
        let table = self.table();
        table.all.get(key).is_some_and(|own| matches!(own.phase, ResidentPhase::ToldToEnd))
    }

    /// Returns true if the connection was given up while it had no request: it must end at once.
    pub(crate) fn is_given_up(&self, key: ResidentKey) -> bool {
        self.leaving.get() > 0
            && self
                .table()
                .all
                .get(key)
                .is_some_and(|own| matches!(own.phase, ResidentPhase::Leaving))
    }

    pub(crate) fn client(&self, key: ResidentKey) -> Option<ClientBucket> {
        self.table().all.get(key)?.client
    }

    /// Sets the client of a connection whose client became known later.
    pub(crate) fn set_client(&self, key: ResidentKey, client: ClientBucket) {
        if let Some(own) = self.table().all.get_mut(key) {
            own.client = Some(client);
        }
    }

    /// Returns true if the connection belongs to this listener.
    pub(crate) fn is_at(&self, key: ResidentKey, gate: &Arc<Gate>) -> bool {
        let table = self.table();
        let own = table.all.get(key).and_then(|resident| resident.gate.as_ref());
        own.is_some_and(|own| Arc::ptr_eq(own, gate))
    }

    /// The connections that neither have a request nor wait for one, and those with streams of
    /// HTTP/2.
    pub(crate) fn without_request(&self) -> Vec<(Instant, ResidentKey)> {
        let table = self.table();
        let all = table.all.0.iter().enumerate();
        all.filter_map(|(index, resident)| match resident.phase {
            ResidentPhase::Between(since) | ResidentPhase::Streaming(since) => {
                Some((since, ResidentKey::of_index(index)))
            }
            _ => None,
        })
        .collect()
    }

    pub(crate) fn give_up(&self, key: ResidentKey) {
        let mut table = self.table();
        let Some(own) = table.all.get_mut(key) else { return };
        match own.phase {
            ResidentPhase::Leaving | ResidentPhase::ToldToEnd => {}
            ResidentPhase::Streaming(_) => own.phase = ResidentPhase::ToldToEnd,
            _ => {
                own.phase = ResidentPhase::Leaving;
                self.leaving.set(self.leaving.get() + 1);
            }
        }
    }

    pub(crate) fn wake(&self, key: ResidentKey) {
        let waker = self.table().all.waker(key);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Wakes the tasks of all connections.
    pub(crate) fn wake_all(&self) {
        let all = self.table().all.0.len();
        (0..all).map(ResidentKey::of_index).for_each(|key| self.wake(key));
    }

    /// Makes the connection's task be woken once `deadline` has passed, to the millisecond; it may
    /// be woken earlier, too.
    pub(crate) fn wake_by(&self, key: ResidentKey, now: Instant, deadline: Instant) {
        let farthest = now.nanos_since(self.origin) / MILLI_NS + FARTHEST_MS;
        let at_ms = deadline.nanos_since(self.origin).div_ceil(MILLI_NS).min(farthest);
        if self.table().wake_at(key, at_ms) {
            self.earlier.notify_one();
        }
    }

    /// Wakes the connections whose deadlines have passed; returns the time of the next one.
    fn wake_due(&self, now: Instant) -> Option<Instant> {
        let now_ms = now.nanos_since(self.origin) / MILLI_NS;
        loop {
            let due = self.table().take_due(now_ms);
            let Some(waker) = due else { break };
            waker.wake();
        }
        let next_ms = *self.table().due.first_key_value()?.0;
        Some(self.origin + Duration::from_millis(next_ms))
    }

    pub(crate) fn leave(&self, key: ResidentKey) {
        let mut table = self.table();
        table.forget_deadline(key);
        let Some(own) = table.all.get_mut(key) else { return };
        let (waker, gate) = (own.waker.take(), own.gate.take());
        let phase = std::mem::replace(&mut own.phase, ResidentPhase::Other);
        table.vacant.push(key);
        if table.vacant.len() == table.all.0.len() {
            // Frees the memory of a worker without connections.
            *table = ResidentTable::default();
        }
        drop(table);
        // Dropped after the borrow: dropping a waker may run arbitrary code.
        drop((waker, gate));
        self.leaving.set(self.leaving.get() - usize::from(matches!(phase, ResidentPhase::Leaving)));
    }
}

/// Wakes connections at their deadlines.
pub(crate) async fn attend(residents: Rc<Residents>) {
    loop {
        let earlier = residents.earlier.notified();
        match residents.wake_due(Instant::now()) {
            None => earlier.await,
            Some(next) => tokio::select! {
                biased;
                () = earlier => {}
                () = sleep_until(next.into()) => {}
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Poll, Wake};

    use super::*;

    #[test]
    fn an_entry_takes_64_bytes() {
        assert!(size_of::<Resident>() <= 64, "{} bytes", size_of::<Resident>());
    }

    /// A task that counts its wake-ups.
    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn connections_are_woken_at_their_deadlines_unless_they_have_ended() {
        // The lower half of a key wraps around after 50 days.
        for days in [0, 49, 500] {
            let origin = Instant::now();
            let start = origin + millis(days * 86_400_000) + millis(61_367_000);
            let (residents, gate) = (Residents::new(origin), Arc::new(Gate::new(None)));
            let keys: Vec<_> = (0..6).map(|_| residents.enter(None, &gate)).collect();
            let tasks: Vec<Arc<Task>> = keys.iter().map(|_| Arc::default()).collect();
            for (key, task) in keys.iter().zip(&tasks) {
                residents.set_waker(*key, &Waker::from(Arc::clone(task)));
            }
            let woken =
                || tasks.iter().map(|one| one.0.load(Ordering::Relaxed)).collect::<Vec<_>>();
            let wake_by = |key, at| residents.wake_by(key, start, start + at);
            for (key, at_ms) in keys.iter().zip([100, 50, 100, 3000, 50, 1 << 40]) {
                wake_by(*key, millis(at_ms));
            }
            let (first, rest) = keys.split_first().unwrap();
            // A later deadline changes nothing; an earlier one replaces the one before.
            wake_by(*first, millis(9000));
            wake_by(rest[2], millis(500));
            assert_eq!(residents.wake_due(start + millis(49)), Some(start + millis(50)));
            assert_eq!(woken(), [0, 0, 0, 0, 0, 0]);
            residents.wake_due(start + millis(50));
            assert_eq!(woken(), [0, 1, 0, 0, 1, 0]);
            residents.leave(*first);
            residents.wake_due(start + millis(100));
            assert_eq!(woken(), [0, 1, 1, 0, 1, 0]);
            assert_eq!(residents.wake_due(start + millis(400)), Some(start + millis(500)));
            let next = residents.wake_due(start + millis(500)).unwrap();
            assert_eq!(woken(), [0, 1, 1, 1, 1, 0]);
            assert!(next - start <= millis(FARTHEST_MS + 1));
            assert_eq!(residents.wake_due(next), None);
            assert_eq!(woken(), [0, 1, 1, 1, 1, 1]);
            for key in rest {
                residents.leave(*key);
            }
            assert!(residents.table().all.0.is_empty());
        }
    }

    /// Waits to be woken by a deadline.
    async fn until_woken(residents: &Residents, key: ResidentKey, now: Instant, by: Instant) {
        let mut polled = 0;
        std::future::poll_fn(|context| {
            residents.set_waker(key, context.waker());
            residents.wake_by(key, now, by);
            polled += 1;
            if polled > 1 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_earlier_than_the_others_is_not_missed() {
        let origin = Instant::now();
        let (residents, gate) = (Rc::new(Residents::new(origin)), Arc::new(Gate::new(None)));
        let local = tokio::task::LocalSet::new();
        local.spawn_local(attend(Rc::clone(&residents)));
        let run = async {
            for seconds in [60, 1, 5] {
                let place = residents.enter(None, &gate);
                let other = residents.enter(None, &gate);
                let deadline = Instant::now() + Duration::from_secs(seconds);
                let (now, later) = (Instant::now(), deadline + Duration::from_mins(1));
                residents.wake_by(other, now, later);
                tokio::task::yield_now().await;
                until_woken(&residents, place, now, deadline).await;
                assert!(Instant::now() >= deadline);
                assert!(Instant::now() < deadline + millis(2));
                residents.leave(place);
                residents.leave(other);
            }
        };
        local.run_until(run).await;
    }
}
