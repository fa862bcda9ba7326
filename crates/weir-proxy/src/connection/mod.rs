//! The life of one client connection: TLS handshake, waiting for requests, one exchange after the
//! other, the end. `exchange/` handles the requests, over `http1_client.rs`.
//!
//! ```text
//!  handshake ─▶ cold ──first byte──▶ hot: exchange ─▶ wait ─▶ exchange …
//!                ▲                        │ nothing for HOT_LINGER
//!                └────────────────────────┘
//! ```
//! A cold connection holds a task, a socket and no buffer; the hot part has an allocation of its
//! own. A connection of a `tcp` listener is one exchange (`exchange/tcp.rs`) after the handshake.

mod client_connection;
mod http1_client;
mod http2;
mod lingering;
mod migration;
mod opening;
mod tcp_client;

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio::task::yield_now;
use weir_config::model::Protocol;
use weir_stats::metrics::{GivenUpIdle, Yield};

use crate::connection::client_connection::Connection;
use crate::connection::http1_client::Http1Client;
use crate::connection::lingering::Lingering;
use crate::connection::opening::{NewClient, Spoken, open};
use crate::connection::tcp_client::TcpClient;
use crate::exchange;
use crate::exchange::outcome::Next;
use crate::exchange::scope::{Scope, ScopeParts};
use crate::limiting::admission::Gate;
use crate::limiting::idle_board::Idle;
use crate::limits::{HOT_LINGER, LINGERING_BYTES, LINGERING_CLOSE, SILENT_GRACE};
use crate::net::Net;
use crate::net::buffers::poll_read_into;
use crate::net::input::Input;
use crate::net::transport::Transport;
use crate::snapshot::generation::Seat;
use crate::time::deadline_timer::DeadlineTimer;
use crate::time::instant::Instant;
use crate::time::work_time::Share;
use crate::worker::Worker;
use crate::worker::handoff::Handoff;
use crate::worker::idle_clients::IdlePlace;
use crate::worker::load::{Kept, WorkerLoad};
use crate::worker::migration::Begun;
use crate::worker::overload::Pressure;
use crate::worker::residents::ResidentKey;
use crate::worker::workspace::Workspace;

/// Starts serving a connection on this worker.
pub(crate) fn spawn<N: Net>(worker: &Rc<Worker<N>>, handoff: Handoff<N>) {
    tokio::task::spawn_local(serve(worker.clone(), Box::new(handoff)));
}

/// Serves a connection as a task. The handoff has an allocation of its own, because an async
/// function's future reserves room for its arguments twice, for as long as it lives.
async fn serve<N: Net>(worker: Rc<Worker<N>>, handoff: Box<Handoff<N>>) {
    let key = worker.residents.enter(handoff.place.client, &handoff.place.gate);
    let _stay = ClientStay { worker: &worker, key };
    let begin = {
        // Freed here, once its contents have moved on.
        let handoff = handoff;
        Box::pin(begin(&worker, *handoff, key))
    };
    let mut life = std::pin::pin!(live(&worker, begin));
    let (worker, mut has_waker) = (&worker, false);
    std::future::poll_fn(move |context| {
        if !std::mem::replace(&mut has_waker, true) {
            worker.residents.set_waker(key, context.waker());
        } else if worker.residents.is_given_up(key) {
            return Poll::Ready(());
        }
        worker.turn.begin_task();
        take_turn(life.as_mut(), context)
    })
    .await;
}

/// The place of a client connection among the worker's. However the connection ends, those to
/// endpoints that are kept for it are closed before another one gets its place.
struct ClientStay<'a, N: Net> {
    worker: &'a Worker<N>,
    key: ResidentKey,
}

impl<N: Net> Drop for ClientStay<'_, N> {
    fn drop(&mut self) {
        self.worker.idle.close_of(self.key.owner());
        self.worker.residents.leave(self.key);
    }
}

/// Polls a connection's future once. It is a function by itself, so that its instructions can be
/// counted by its name (`weir-simnet/tests/longest_poll`).
#[inline(never)]
fn take_turn<F: Future>(life: Pin<&mut F>, context: &mut Context<'_>) -> Poll<F::Output> {
    life.poll(context)
}

/// Serves a connection from its beginning to its end. Parts that are not needed all the time have
/// allocations of their own: there are many idle connections, and each one keeps this future.
async fn live<N: Net>(
    worker: &Rc<Worker<N>>,
    begin: Pin<Box<impl Future<Output = Option<(Connection<N>, Kept, Hot)>>>>,
) {
    let Some((mut connection, place, mut hot)) = begin.await else { return };
    loop {
        while let Hot::Idle = hot {
            // Without a deadline the listener is gone, and the connection ends.
            let Some(deadline) = connection.deadline(worker, &place.gate) else { break };
            hot = match connection.wait_cold(worker, &place.gate, deadline).await {
                Cold::Woken(bytes, first_byte) => {
                    Box::pin(connection.serve_hot(worker, &place.gate, bytes, first_byte)).await
                }
                Cold::Ended => Hot::Ended,
                Cold::GivenUp(why) => {
                    note_given_up(worker, &place.gate, why);
                    Hot::Ended
                }
                Cold::Parting => Hot::Parting(None),
            };
        }
        match hot {
            Hot::Parting(begun) => {
                if let Some(place) = place.take()
                    && let Some(stays) = connection.part(worker, place, begun)
                {
                    spawn(worker, stays);
                }
            }
            Hot::Idle | Hot::Ended => connection.say_goodbye(),
            Hot::BrokenOff => {}
            Hot::Http2(spoken) => {
                let served = Box::pin(http2::serve(connection, worker, &place.gate, spoken)).await;
                let Some(http1) = served else { return };
                (connection, hot) = http1;
                continue;
            }
        }
        return;
    }
}

/// Counts an idle connection that was closed in favour of others.
fn note_given_up<N: Net>(worker: &Worker<N>, gate: &Arc<Gate>, why: GivenUpIdle) {
    if let Some(seat) = worker.seat(gate)
        && let Some(counts) = seat.counts()
    {
        counts.listener.given_up_idle(worker.number, why);
    }
}

/// Opens a connection, or continues the exchange that another process began on it.
async fn begin<N: Net>(
    worker: &Rc<Worker<N>>,
    handoff: Handoff<N>,
    resident: ResidentKey,
) -> Option<(Connection<N>, Kept, Hot)> {
    let Handoff { accepted, peer, place, moved } = handoff;
    let place = Kept::new(place);
    let stream = worker.net.adopt(accepted).ok()?;
    let (mut connection, begun) = if let Some(moved) = moved {
        let number = worker.process.next_connection();
        Connection::of_moved(stream, *moved, resident, number)
    } else {
        let opened = open(worker, &place, stream, peer, resident).await?;
        let NewClient { mut connection, spoken, text } = opened;
        match spoken {
            Spoken::Http1 => {
                let first_byte = connection.facts.since;
                let begun = text.map(|bytes| Begun { bytes, first_byte, waiting: None });
                (connection, begun.map(Box::new))
            }
            Spoken::Http2 | Spoken::Either => {
                return Some((connection, place, Hot::Http2(spoken)));
            }
            Spoken::Tcp => {
                let hot = Box::pin(connection.serve_tcp(worker, &place.gate)).await;
                return Some((connection, place, hot));
            }
        }
    };
    let hot = match begun {
        Some(begun) => Box::pin(connection.go_on(worker, &place.gate, *begun)).await,
        None => Hot::Idle,
    };
    Some((connection, place, hot))
}

/// The seat for the next request of a connection; `None` if the listener was removed, or a reload
/// has made it one without requests.
fn http_seat<N: Net>(worker: &Worker<N>, gate: &Arc<Gate>) -> Option<Seat> {
    worker.seat(gate).filter(|seat| seat.listener.protocol == Protocol::Http)
}

/// Counts an exchange as running; the count is also corrected when the exchange ends by a panic or
/// with its worker. Only its own worker writes the number, so no atomic read-modify-write is
/// needed.
struct Busy<'a>(&'a WorkerLoad);

impl<'a> Busy<'a> {
    fn new(load: &'a WorkerLoad) -> Self {
        load.busy.store(load.busy.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        Self(load)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let busy = self.0.busy.load(Ordering::Relaxed);
        self.0.busy.store(busy.saturating_sub(1), Ordering::Relaxed);
    }
}

/// The reason for the end of the hot part of a connection's life.
enum Hot {
    /// No byte arrived for a while, or places are short and the client has more than its share of
    /// them.
    Idle,
    /// The connection ended.
    Ended,
    /// The connection ended before the client had all that was meant for it.
    BrokenOff,
    /// It is or may be an HTTP/2 connection, and no byte has come yet.
    Http2(Spoken),
    /// Another process is to continue the connection, with the bytes that were read of a request.
    Parting(Option<Box<Begun>>),
}

/// The event that ended a wait without a buffer.
enum Cold {
    /// A request begins.
    Woken(Vec<u8>, Instant),
    /// The client closed the connection or stayed silent too long, or the worker ends.
    Ended,
    /// The connection is closed to make room for others.
    GivenUp(GivenUpIdle),
    /// Another process is to continue the connection.
    Parting,
}

/// The result of waiting for bytes.
enum ReadOutcome {
    Bytes,
    Closed,
    Elapsed,
    Parting,
}

impl<N: Net> Connection<N> {
    /// The deadline for the beginning of the next request; `None` if the listener was removed.
    fn deadline(&self, worker: &Worker<N>, gate: &Arc<Gate>) -> Option<Instant> {
        let seat = worker.seat(gate)?;
        let timeouts = &seat.listener.timeouts;
        Some(
            self.facts.since
                + if self.facts.served == 0 { timeouts.head } else { timeouts.keepalive },
        )
    }

    /// Waits without holding a buffer, a timer or a configuration. While it waits, the connection
    /// may be closed to make room for others; one that has not carried a request yet only after a
    /// grace period, unless its client has more than its share of connections.
    fn wait_cold<'a>(
        &'a mut self,
        worker: &'a Worker<N>,
        gate: &'a Arc<Gate>,
        deadline: Instant,
    ) -> impl Future<Output = Cold> + use<'a, N> {
        self.timer = DeadlineTimer::default();
        let since_us = worker.balance_clock(self.facts.since);
        let excess = worker.excess(gate, self.facts.resident, since_us);
        let rank = Idle { since_us, served: self.facts.served, excess }.rank();
        let has_grace = self.facts.served == 0 && excess == 0;
        let grace = if has_grace { SILENT_GRACE } else { Duration::ZERO };
        let unlisted_until = deadline.min(self.facts.since + grace);
        let mut idle = None;
        std::future::poll_fn(move |context| {
            if let Some(end) = self.poll_cold(worker, context) {
                if matches!(end, Cold::Woken(..)) {
                    idle.take().into_iter().for_each(IdlePlace::stay);
                }
                return Poll::Ready(end);
            }
            let now = Instant::now();
            if idle.is_none() && now < unlisted_until {
                worker.residents.wake_by(self.facts.resident, now, unlisted_until);
                return Poll::Pending;
            }
            let idle =
                idle.get_or_insert_with(|| worker.list_idle(self.facts.resident, gate, rank));
            if let Some(why) = idle.given_up() {
                return Poll::Ready(Cold::GivenUp(why));
            }
            if now >= deadline {
                return Poll::Ready(Cold::Ended);
            }
            worker.residents.wake_by(self.facts.resident, now, deadline);
            Poll::Pending
        })
    }

    /// Checks the socket, and the worker's orders to all its connections; `None` if the wait goes
    /// on.
    fn poll_cold(&mut self, worker: &Worker<N>, context: &mut Context<'_>) -> Option<Cold> {
        let mut buffer = worker.buffers.small();
        let read = if worker.pressure.get() == Pressure::Refuse {
            self.client.poll_closed(context).map(|()| Ok(0))
        } else {
            poll_read_into(&mut self.client, context, &mut buffer, usize::MAX)
        };
        if let Poll::Ready(Ok(1..)) = read {
            return Some(Cold::Woken(buffer, Instant::now()));
        }
        worker.buffers.give_back(buffer);
        if read.is_ready() || worker.is_cut() {
            return Some(Cold::Ended);
        }
        (worker.is_parting() && self.facts.may_part).then_some(Cold::Parting)
    }

    /// Serves a request that was begun in another process, and those after it.
    async fn go_on(&mut self, worker: &Rc<Worker<N>>, gate: &Arc<Gate>, begun: Begun) -> Hot {
        let Begun { bytes, first_byte, waiting } = begun;
        self.waiting = waiting;
        let bytes = migration::buffer_of(worker, &bytes);
        self.serve_hot(worker, gate, bytes, first_byte).await
    }

    /// Serves the connection of a `tcp` listener until it ends.
    async fn serve_tcp(&mut self, worker: &Rc<Worker<N>>, gate: &Arc<Gate>) -> Hot {
        let is_tcp = |seat: &Seat| seat.listener.protocol == Protocol::Tcp;
        let Some(seat) = worker.seat(gate).filter(is_tcp) else { return Hot::Ended };
        let deadline = Cell::new(None);
        self.facts.served = 1;
        self.facts.may_part = false;
        let parts = ScopeParts::new(worker, &seat, &deadline, &self.facts);
        let Some(parts) = parts else { return Hot::Ended };
        let scope = Scope(&parts);
        let busy = Busy::new(&worker.load);
        worker.process.memory.look();
        let next = exchange::tcp::run(scope, TcpClient::new(self)).await;
        drop(busy);
        match next {
            Next::Linger => {
                let mut work = worker.workspace();
                self.linger(scope, &mut work).await;
                worker.give_back_workspace(work);
                Hot::Ended
            }
            Next::BreakOff => Hot::BrokenOff,
            Next::Close | Next::KeepAlive | Next::Part => Hot::Ended,
        }
    }

    /// Serves requests until none comes for a while.
    async fn serve_hot(
        &mut self,
        worker: &Rc<Worker<N>>,
        gate: &Arc<Gate>,
        bytes: Vec<u8>,
        first_byte: Instant,
    ) -> Hot {
        let mut own = worker.workspace();
        own.input = Input::of(bytes);
        let mut own = Some(own);
        let hot = self.serve_requests(worker, gate, &mut own, first_byte).await;
        if let Some(work) = own {
            worker.give_back_workspace(work);
        }
        hot.unwrap_or(Hot::Ended)
    }

    /// Serves requests until the connection is idle or over; `None` when the listener was removed.
    /// The connection has no workspace of its own while it waits for a request.
    async fn serve_requests(
        &mut self,
        worker: &Rc<Worker<N>>,
        gate: &Arc<Gate>,
        own: &mut Option<Box<Workspace>>,
        mut first_byte: Instant,
    ) -> Option<Hot> {
        let mut seat = http_seat(worker, gate)?;
        let deadline = Cell::new(None);
        let mut share = Share::Left;
        loop {
            if share == Share::UsedUp {
                worker.note_yield(Yield::Requests);
                yield_now().await;
                worker.turn.resume_task(Instant::now());
            }
            // The configuration is looked at only between exchanges.
            if seat.as_of != worker.generation() {
                seat = http_seat(worker, gate)?;
            }
            let parts = ScopeParts::new(worker, &seat, &deadline, &self.facts)?;
            let scope = Scope(&parts);
            let work = own.get_or_insert_with(|| worker.workspace());
            self.facts.served += 1;
            let busy = Busy::new(&scope.worker.load);
            worker.process.memory.look();
            let Workspace { input, heads } = &mut **work;
            let client = Http1Client::new(self, input, scope.listener.limits.head_bytes);
            let next = exchange::run(scope, client, heads, first_byte).await;
            drop(busy);
            match next {
                Next::KeepAlive => {}
                Next::Close => return Some(Hot::Ended),
                Next::BreakOff => return Some(Hot::BrokenOff),
                Next::Linger => {
                    self.linger(scope, work).await;
                    return Some(Hot::Ended);
                }
                Next::Part => {
                    self.facts.served -= 1;
                    return Some(Hot::Parting(Some(Box::new(self.begun(work, first_byte)))));
                }
            }
            share = worker.turn.end_exchange(self.facts.since);
            self.facts.began = self.facts.since;
            if scope.is_parting() {
                let begun = (!work.input.is_empty()).then(|| self.begun(work, self.facts.since));
                let begun = begun.map(Box::new);
                return Some(Hot::Parting(begun));
            }
            if !work.input.is_empty() {
                first_byte = self.facts.since;
                continue;
            }
            let deadline = self.facts.since + HOT_LINGER.min(scope.listener.timeouts.keepalive);
            match self.read_more(scope, gate, own, &mut share, deadline).await {
                ReadOutcome::Bytes => first_byte = Instant::now(),
                ReadOutcome::Closed => return Some(Hot::Ended),
                ReadOutcome::Elapsed => return Some(Hot::Idle),
                ReadOutcome::Parting => return Some(Hot::Parting(None)),
            }
        }
    }

    async fn read_more(
        &mut self,
        scope: Scope<'_, N>,
        gate: &Arc<Gate>,
        own: &mut Option<Box<Workspace>>,
        share: &mut Share,
        deadline: Instant,
    ) -> ReadOutcome {
        std::future::poll_fn(|context| {
            let mut work = own.take().unwrap_or_else(|| scope.worker.workspace());
            let read = work.input.poll_fill(&mut self.client, context, &scope.worker.buffers);
            if let Poll::Ready(Ok(1..)) = read {
                *own = Some(work);
                return Poll::Ready(ReadOutcome::Bytes);
            }
            scope.worker.give_back_workspace(work);
            match read {
                Poll::Ready(_) => Poll::Ready(ReadOutcome::Closed),
                Poll::Pending if scope.worker.is_cut() => Poll::Ready(ReadOutcome::Closed),
                Poll::Pending if scope.is_parting() => Poll::Ready(ReadOutcome::Parting),
                Poll::Pending if scope.worker.is_crowded_by(gate, self.facts.resident) => {
                    Poll::Ready(ReadOutcome::Elapsed)
                }
                Poll::Pending => {
                    *share = Share::Left;
                    self.timer.poll(context, deadline).map(|()| ReadOutcome::Elapsed)
                }
            }
        })
        .await
    }

    /// Closes our side, then discards what the client still sends, for a bounded time.
    async fn linger(&mut self, scope: Scope<'_, N>, work: &mut Workspace) {
        let now = Instant::now();
        scope.worker.residents.set_between(self.facts.resident, Some(now));
        work.input.clear();
        let mut lingering = Lingering::up_to(LINGERING_BYTES);
        std::future::poll_fn(|context| {
            match lingering.poll(&mut self.client, context, &scope.worker.buffers) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => self.timer.poll(context, now + LINGERING_CLOSE),
            }
        })
        .await;
    }

    /// Sends a TLS client the close alert, if its socket takes it at once.
    fn say_goodbye(&mut self) {
        if matches!(self.client, Transport::Server(_)) {
            let mut context = Context::from_waker(Waker::noop());
            let _ = Pin::new(&mut self.client).poll_shutdown(&mut context);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::os_net::OsNet;

    /// The size of the future that an asynchronous function returns, in bytes.
    fn future_bytes<A, B, F>(_function: impl Fn(A, B) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_running_exchange_keeps_no_more_than_2216_bytes() {
        fn future_bytes<A, B, C, D, E, F>(_function: impl Fn(A, B, C, D, E) -> F) -> usize {
            size_of::<F>()
        }
        let bytes = future_bytes(Connection::<OsNet>::serve_hot);
        assert!(bytes <= 2_216, "{bytes} bytes: does the future hold what few exchanges need?");
    }

    #[test]
    fn an_idle_connection_keeps_no_more_than_408_bytes() {
        let bytes = future_bytes(serve::<OsNet>);
        // With tokio's 104 bytes for a task that is 512, the multiple of 128 that it gets.
        assert!(
            bytes <= 408,
            "{bytes} bytes: does the future hold what only a handshake or a request needs?"
        );
    }
}
