//! The life of an HTTP/2 connection (RFC 9113), on `h2`: its frames, its bounds and its end. Each
//! stream is an exchange in a task of its own, over `client.rs`.
//!
//! ```text
//!  preface ─▶ Open ──stop, reload, age, idle──▶ Leaving ──no streams──▶ closed
//!               │   GOAWAY(2^31-1), PING, GOAWAY(last)
//!               └──────────── a budget is exceeded ───▶ Ending ──────▶ closed
//!                              GOAWAY(ENHANCE_YOUR_CALM)
//! ```

mod client;
mod first_frames;
mod head;
mod metered_io;
mod shared;
mod stream;
mod stream_turns;

use std::cell::{Cell, RefCell};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::Request;
use tokio::io::AsyncWrite;
use weir_config::model::Http2Mode;
use weir_stats::metrics::Http2Excess;

use crate::connection::client_connection::Connection;
use crate::connection::http2::client::Http2Client;
use crate::connection::http2::metered_io::{MeteredIo, ReadTurn, SharedTransport};
use crate::connection::http2::shared::SharedState;
use crate::connection::http2::stream_turns::StreamPlace;
use crate::connection::lingering::Lingering;
use crate::connection::opening::Spoken;
use crate::connection::{Busy, Cold, Hot, http_seat, note_given_up, take_turn};
use crate::exchange;
use crate::exchange::client_side::ConnectionFacts;
use crate::exchange::scope::{Scope, ScopeParts};
use crate::limiting::admission::Gate;
use crate::limiting::http2_meter::{Meter, PREFACE};
use crate::limiting::http2_windows::{OpenStreams, Pings, Windows, connection_window};
use crate::limiting::idle_board::Idle;
use crate::limits::{
    HTTP2_GOAWAY_PATIENCE, HTTP2_LAST_WORDS, HTTP2_LINGERING_BYTES, HTTP2_PROVOKED_RESETS,
    HTTP2_RESET_MEMORY, HTTP2_RESETS_REMEMBERED, HTTP2_SEND_BUFFER, HTTP2_STREAMS_IN_ALL,
    HTTP2_TURN_STREAMS, HTTP2_UNREAD_FRAMES, HTTP2_UNSEEN_RESETS, LINGERING_BYTES, LINGERING_CLOSE,
    SILENT_GRACE,
};
use crate::net::Net;
use crate::net::buffers::poll_read_into;
use crate::snapshot::CompiledListener;
use crate::snapshot::generation::{Leaving, Seat};
use crate::time::deadline_timer::before;
use crate::time::instant::Instant;
use crate::time::turns::end_turn;
use crate::worker::Worker;
use crate::worker::idle_clients::IdlePlace;
use crate::worker::overload::Pressure;
use crate::worker::residents::ResidentKey;

/// Waits for the first bytes of a connection that may be HTTP/2, and serves it. Returns it if it is
/// not, or if no byte came, with the state that it is in then.
pub(super) async fn serve<N: Net>(
    mut connection: Connection<N>,
    worker: &Rc<Worker<N>>,
    gate: &Arc<Gate>,
    spoken: Spoken,
) -> Option<(Connection<N>, Hot)> {
    let deadline = connection.deadline(worker, gate)?;
    // Another process could not tell that the first bytes are still to come.
    let may_part = std::mem::take(&mut connection.facts.may_part);
    let (mut bytes, first_byte) = match connection.wait_cold(worker, gate, deadline).await {
        Cold::Woken(bytes, first_byte) => (bytes, first_byte),
        Cold::GivenUp(why) => {
            note_given_up(worker, gate, why);
            return Some((connection, Hot::Ended));
        }
        Cold::Ended | Cold::Parting => return Some((connection, Hot::Ended)),
    };
    let resident = connection.facts.resident;
    worker.residents.set_between(resident, Some(first_byte));
    if spoken == Spoken::Either {
        let timeouts = &worker.seat(gate)?.listener.timeouts;
        let until = first_byte + timeouts.head;
        if !read_preface(&mut connection, &mut bytes, until).await {
            connection.facts.may_part = may_part;
            worker.residents.set_between(resident, None);
            let hot = Box::pin(connection.serve_hot(worker, gate, bytes, first_byte)).await;
            return Some((connection, hot));
        }
    }
    // The buffer is larger than what came first.
    let early = bytes.clone();
    worker.buffers.give_back(bytes);
    serve_streams(connection, worker, gate, early).await;
    None
}

/// Reads on while the bytes may be the beginning of the preface; returns true if they are.
async fn read_preface<N: Net>(
    connection: &mut Connection<N>,
    bytes: &mut Vec<u8>,
    until: Instant,
) -> bool {
    while bytes.len() < PREFACE.len() && PREFACE.starts_with(bytes) {
        let Connection { client, timer, .. } = &mut *connection;
        let read =
            std::future::poll_fn(|context| poll_read_into(client, context, bytes, PREFACE.len()));
        if !matches!(before(timer, until, read).await, Ok(Ok(1..))) {
            return false;
        }
    }
    bytes.starts_with(PREFACE)
}

/// Serves a connection of which `early` bytes were read.
async fn serve_streams<N: Net>(
    connection: Connection<N>,
    worker: &Rc<Worker<N>>,
    gate: &Arc<Gate>,
    early: Vec<u8>,
) -> Option<()> {
    let seat = http_seat(worker, gate)?;
    seat.counts()?.listener.http2_began(worker.number);
    let Connection { client, facts, mut timer, .. } = connection;
    let now = Instant::now();
    let shared = Rc::new(SharedState {
        worker: Rc::clone(worker),
        gate: Arc::clone(gate),
        server_name: client.server_name().map(str::to_owned),
        local: worker.net.local_address(client.socket()),
        meter: RefCell::new(Meter::of_client(now)),
        reads: Rc::default(),
        turns: Rc::default(),
        running: RefCell::default(),
        open: Cell::new(0),
        served: Cell::new(0),
        since: Cell::new(facts.since),
        connection: facts,
    });
    let transport: SharedTransport<N> = Rc::new(RefCell::new(client));
    let turn = Rc::new(ReadTurn::new(now));
    let io = MeteredIo::new(Rc::clone(&transport), Rc::clone(&shared), Rc::clone(&turn), early);
    let handshake = settings(&seat.listener).handshake(io);
    let begun = before(&mut timer, now + seat.listener.timeouts.head, handshake).await;
    worker.residents.set_between(shared.connection.resident, None);
    let (growth, own) = (Arc::clone(&worker.process.window_growth), seat.listener.http2);
    let windows = Windows::new(growth, own.window, own.streams);
    drop((timer, seat));
    let end = match begun {
        Ok(Ok(http2)) => {
            let shared = &shared;
            let mut served = Http2Connection {
                seat: None,
                http2,
                transport: Rc::clone(&transport),
                has_unsent: false,
                shared,
                turn,
                windows,
                pings: Pings::default(),
                phase: ConnectionPhase::Open,
                busy: None,
                idle: None,
            };
            let end = std::future::poll_fn(|context| served.poll(context)).await;
            let busy = served.busy.take();
            drop(served);
            // Streams notice that their connection is gone, and are logged.
            std::future::poll_fn(|_| match shared.open.get() {
                0 => Poll::Ready(()),
                _ => Poll::Pending,
            })
            .await;
            drop(busy);
            end
        }
        Ok(Err(_)) | Err(_) => ConnectionEnd::Closed,
    };
    if end == ConnectionEnd::Closed {
        let excess = shared.meter.borrow().excess();
        let most = excess.map_or(LINGERING_BYTES, |_| HTTP2_LINGERING_BYTES);
        linger(worker, shared.connection.resident, &transport, most).await;
    }
    Some(())
}

/// The settings of `h2` for a listener's connections.
fn settings(listener: &CompiledListener) -> h2::server::Builder {
    let limits = &listener.limits;
    let (streams, window) = (listener.http2.streams, listener.http2.window as u32);
    // Heads are limited by our own parser, which logs them; `h2` refuses those that are far larger,
    // and counts 32 bytes more for each line.
    let head_bytes = 2 * limits.head_bytes + 32 * limits.headers;
    let all = connection_window(listener.http2.window, streams);
    let mut builder = h2::server::Builder::new();
    builder
        .enable_connect_protocol()
        .max_concurrent_streams(streams)
        .initial_window_size(window)
        .initial_connection_window_size(all as u32)
        .max_header_list_size(u32::try_from(head_bytes).unwrap_or(u32::MAX))
        .max_send_buffer_size(HTTP2_SEND_BUFFER)
        // In small windows `h2` would take a hundred small frames that are not read.
        .data_frame_budget((all / 2).max(HTTP2_UNREAD_FRAMES))
        .max_local_error_reset_streams(Some(HTTP2_PROVOKED_RESETS))
        .max_concurrent_reset_streams(HTTP2_RESETS_REMEMBERED)
        .reset_stream_duration(HTTP2_RESET_MEMORY)
        .max_pending_accept_reset_streams(HTTP2_UNSEEN_RESETS);
    builder
}

/// An HTTP/2 connection after its preface.
struct Http2Connection<'a, N: Net> {
    /// Its listener, while it has streams; `None` if the listener is gone, too.
    seat: Option<Seat>,
    http2: h2::server::Connection<MeteredIo<N>, Bytes>,
    transport: SharedTransport<N>,
    /// Set while frames of the turns before wait for room in the socket.
    has_unsent: bool,
    shared: &'a Rc<SharedState<N>>,
    turn: Rc<ReadTurn>,
    windows: Windows,
    pings: Pings,
    phase: ConnectionPhase,
    /// Set while it has streams.
    busy: Option<Busy<'a>>,
    /// Set while it has none.
    idle: Option<IdlePlace<'a, N>>,
}

/// The phase of a connection.
#[derive(Clone, Copy)]
enum ConnectionPhase {
    Open,
    /// The client was told at this time to open no more streams.
    Leaving(Instant),
    /// The last frames are sent until this time at the latest.
    Ending(Instant),
}

/// The end of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ConnectionEnd {
    /// The client may still be sending.
    Closed,
    /// Its place is needed.
    AtOnce,
}

impl<'a, N: Net> Http2Connection<'a, N> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<ConnectionEnd> {
        let now = Instant::now();
        self.turn.begin(now);
        let end = self.poll_turn(context, now);
        if !self.turn.end() && !self.has_unsent {
            return end;
        }
        let flushed = Pin::new(&mut *self.transport.borrow_mut()).poll_flush(context);
        self.has_unsent = flushed.is_pending();
        match (end, flushed) {
            (Poll::Pending, Poll::Ready(Err(_))) => Poll::Ready(ConnectionEnd::Closed),
            (end, _) => end,
        }
    }

    fn poll_turn(&mut self, context: &mut Context<'_>, now: Instant) -> Poll<ConnectionEnd> {
        self.find_seat();
        loop {
            if self.poll_streams(context, now).is_ready() {
                return Poll::Ready(ConnectionEnd::Closed);
            }
            self.note_streams(now);
            self.follow_uploads(context, now);
            match self.decide(now) {
                Some(NextStep::Again) => {}
                Some(NextStep::End(end)) => return Poll::Ready(end),
                None => {
                    self.wake_at_deadline(now);
                    if self.shared.open.get() == 0 {
                        self.seat = None;
                    }
                    return Poll::Pending;
                }
            }
        }
    }

    fn parts(&self) -> (&'a Rc<SharedState<N>>, &'a Rc<Worker<N>>) {
        (self.shared, &self.shared.worker)
    }

    /// Finds the place of its exchanges. The configuration is looked at only between exchanges.
    fn find_seat(&mut self) {
        let (_, worker) = self.parts();
        if self.seat.as_ref().is_none_or(|seat| seat.as_of != worker.generation()) {
            self.seat = http_seat(worker, &self.shared.gate);
        }
    }

    /// Receives and sends frames, and begins the streams that the client has opened.
    fn poll_streams(&mut self, context: &mut Context<'_>, now: Instant) -> Poll<()> {
        for _ in 0..HTTP2_TURN_STREAMS {
            match self.http2.poll_accept(context) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    self.begin_stream(request, respond, now);
                }
                Poll::Ready(Some(Err(error))) => {
                    if error.is_library() && error.reason() == Some(Reason::ENHANCE_YOUR_CALM) {
                        let meter = self.shared.meter.borrow();
                        let excess = meter.excess().unwrap_or(meter.excess_of_library());
                        self.note_excess(excess, now);
                    }
                    return Poll::Ready(());
                }
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
        end_turn(context);
        Poll::Pending
    }

    fn begin_stream(
        &mut self,
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
        now: Instant,
    ) {
        let (shared, worker) = self.parts();
        worker.process.memory.look();
        let is_refused = worker.pressure.get() == Pressure::Refuse || self.is_past_leaving(now);
        let seat = self.seat.as_ref().filter(|_| !is_refused);
        let Some(seat) = seat.cloned() else {
            // The client may repeat it anywhere.
            return respond.send_reset(Reason::REFUSED_STREAM);
        };
        let first_byte = shared.meter.borrow().head_began();
        let facts = shared.begin_stream(first_byte);
        let begun = BegunStream { first_byte, facts, seat, request, respond };
        tokio::task::spawn_local(serve_stream(Rc::clone(shared), Box::new(begun)));
    }

    /// Fits the windows to what the streams' readers take.
    fn follow_uploads(&mut self, context: &mut Context<'_>, now: Instant) {
        if !matches!(self.phase, ConnectionPhase::Open) {
            return;
        }
        let (reads, count) = (&*self.shared.reads, self.shared.open.get());
        let streams = OpenStreams { reads, count, now };
        let Self { http2, pings, windows, .. } = self;
        let is_answered = pings.is_answered(context);
        let sent = windows.follow(http2, pings, is_answered, streams);
        self.shared.meter.borrow_mut().expect_answers(sent);
    }

    /// Returns true if the client was told to open no more streams so long ago that it must know.
    fn is_past_leaving(&self, now: Instant) -> bool {
        matches!(self.phase, ConnectionPhase::Leaving(since) if now >= since + HTTP2_GOAWAY_PATIENCE)
    }

    /// Lists the connection as idle while it has no streams, and as busy while it has some.
    fn note_streams(&mut self, now: Instant) {
        let (shared, worker) = self.parts();
        let resident = shared.connection.resident;
        if worker.residents.is_told_to_end(resident) {
            return;
        }
        if shared.open.get() > 0 {
            self.idle.take().into_iter().for_each(IdlePlace::stay);
            self.busy.get_or_insert_with(|| Busy::new(&worker.load));
            worker.residents.set_streaming(resident, Some(now));
            return;
        }
        if self.busy.take().is_some() {
            worker.residents.set_streaming(resident, None);
        }
        if self.idle.is_none() && !matches!(self.phase, ConnectionPhase::Ending(_)) {
            let since_us = worker.balance_clock(shared.since.get());
            let excess = worker.excess(&shared.gate, resident, since_us);
            let served = shared.served.get();
            let grace = if served == 0 && excess == 0 { SILENT_GRACE } else { Duration::ZERO };
            let listed_from = shared.since.get() + grace;
            if now < listed_from {
                return worker.residents.wake_by(resident, now, listed_from);
            }
            let rank = Idle { since_us, served, excess }.rank();
            self.idle = Some(worker.list_idle(resident, &shared.gate, rank));
        }
    }

    /// Begins the next phase if it is due; `None` if nothing changes.
    fn decide(&mut self, now: Instant) -> Option<NextStep> {
        let (_, worker) = self.parts();
        if let ConnectionPhase::Ending(until) = self.phase {
            return (now >= until).then_some(NextStep::End(ConnectionEnd::Closed));
        }
        if let Some(excess) = self.excess(now) {
            self.note_excess(excess, now);
            return Some(self.shut_down(Reason::ENHANCE_YOUR_CALM, now));
        }
        if worker.residents.is_told_to_end(self.shared.connection.resident) {
            self.shared.give_up_streams();
            self.http2.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
            return Some(self.say_last_words());
        }
        if let Some(why) = self.idle.as_ref().and_then(IdlePlace::given_up) {
            note_given_up(worker, &self.shared.gate, why);
            self.http2.abrupt_shutdown(Reason::NO_ERROR);
            return Some(self.say_last_words());
        }
        let is_idle = self.shared.open.get() == 0;
        match self.phase {
            ConnectionPhase::Leaving(since) if is_idle => {
                let since = since.max(self.shared.since.get());
                let is_over = worker.is_cut() || now >= since + HTTP2_GOAWAY_PATIENCE;
                is_over.then(|| self.shut_down(Reason::NO_ERROR, now))
            }
            ConnectionPhase::Open if self.is_to_leave(now, is_idle) => {
                self.phase = ConnectionPhase::Leaving(now);
                self.http2.graceful_shutdown();
                Some(NextStep::Again)
            }
            _ => None,
        }
    }

    /// The budget that the client has exceeded.
    fn excess(&self, now: Instant) -> Option<Http2Excess> {
        let meter = self.shared.meter.borrow();
        let patience = self.seat.as_ref().map(|seat| seat.listener.timeouts.head);
        let is_late = |began: &Instant| patience.is_some_and(|wait| now >= *began + wait);
        let slow = meter.open_head().filter(is_late).map(|_| Http2Excess::SlowHead);
        meter.excess().or(slow)
    }

    /// Returns true if the client has to open its next streams on another connection.
    fn is_to_leave(&self, now: Instant, is_idle: bool) -> bool {
        let (shared, worker) = self.parts();
        let Some(seat) = self.seat.as_ref().filter(|_| !worker.is_stopping() && !worker.is_cut())
        else {
            return true;
        };
        let CompiledListener { timeouts, limits, http2, tls, .. } = &*seat.listener;
        let facts = &shared.connection;
        let is_gone = seat.leaving == Leaving::Yes
            || http2.mode == Http2Mode::Off
            || tls.is_some() != facts.tls.is_some();
        let is_full = shared.served.get() >= limits.requests.min(HTTP2_STREAMS_IN_ALL);
        let is_old = timeouts.age.is_some_and(|age| now >= facts.taken + age);
        if is_old && let Some(counts) = seat.counts() {
            counts.listener.aged(worker.number);
        }
        let is_silent = is_idle && now >= shared.since.get() + timeouts.keepalive;
        is_gone || is_full || is_old || is_silent
    }

    /// Ends the connection with this code.
    fn shut_down(&mut self, reason: Reason, now: Instant) -> NextStep {
        self.idle = None;
        self.phase = ConnectionPhase::Ending(now + HTTP2_LAST_WORDS);
        self.http2.abrupt_shutdown(reason);
        NextStep::Again
    }

    /// Sends what the socket takes at once.
    fn say_last_words(&mut self) -> NextStep {
        let mut context = Context::from_waker(std::task::Waker::noop());
        let _ = self.http2.poll_closed(&mut context);
        NextStep::End(ConnectionEnd::AtOnce)
    }

    /// Counts and reports a connection that is ended because of what its client did.
    fn note_excess(&self, excess: Http2Excess, now: Instant) {
        let (shared, worker) = self.parts();
        let Some(seat) = &self.seat else { return };
        if let Some(counts) = seat.counts() {
            counts.listener.http2_ended(worker.number, excess);
        }
        let peer =
            shared.connection.peer.map_or("a Unix socket".to_owned(), |peer| peer.to_string());
        let sentence = format!(
            "listener {}: ended the HTTP/2 connection of {peer} after {} streams: {}",
            seat.listener.name,
            shared.served.get(),
            excess.word()
        );
        worker.client_notices.say(&worker.process.incidents, now, &sentence);
    }

    /// Makes the task be woken when the next phase may be due.
    fn wake_at_deadline(&self, now: Instant) {
        let Self { shared, seat, phase, .. } = self;
        let timeouts = seat.as_ref().map(|seat| &seat.listener.timeouts);
        let is_idle = shared.open.get() == 0;
        let head = shared.meter.borrow().open_head().zip(timeouts);
        let head = head.map(|(began, timeouts)| began + timeouts.head);
        let of_phase = match *phase {
            ConnectionPhase::Ending(until) => Some(until),
            ConnectionPhase::Leaving(since) if is_idle => {
                Some(since.max(shared.since.get()) + HTTP2_GOAWAY_PATIENCE)
            }
            ConnectionPhase::Leaving(_) => None,
            ConnectionPhase::Open => timeouts.and_then(|timeouts| {
                let age = timeouts.age.map(|age| shared.connection.taken + age);
                let idle = is_idle.then(|| shared.since.get() + timeouts.keepalive);
                age.into_iter().chain(idle).min()
            }),
        };
        if let Some(deadline) = head.into_iter().chain(of_phase).min() {
            shared.worker.residents.wake_by(shared.connection.resident, now, deadline);
        }
    }
}

/// What follows a decision.
enum NextStep {
    /// `h2` has frames to send.
    Again,
    End(ConnectionEnd),
}

/// A stream that the client has opened.
struct BegunStream {
    first_byte: Instant,
    facts: ConnectionFacts,
    seat: Seat,
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
}

/// Serves a stream as a task.
async fn serve_stream<N: Net>(shared: Rc<SharedState<N>>, begun: Box<BegunStream>) {
    // Its client is not counted: a connection has one place, however many streams it has.
    let key = shared.worker.residents.enter(None, &shared.gate);
    shared.running.borrow_mut().push(key);
    let stay = StreamStay { shared: &shared, key };
    let mut life = pin!(run(&shared, *begun, key));
    let mut has_waker = false;
    let place = Rc::<StreamPlace>::default();
    std::future::poll_fn(|context| {
        if !std::mem::replace(&mut has_waker, true) {
            shared.worker.residents.set_waker(key, context.waker());
        }
        let _turn = ready!(shared.turns.poll_turn(&place, context));
        shared.worker.turn.begin_task();
        take_turn(life.as_mut(), context)
    })
    .await;
    drop(stay);
}

async fn run<N: Net>(shared: &Rc<SharedState<N>>, begun: BegunStream, resident: ResidentKey) {
    let BegunStream { first_byte, facts, seat, request, respond } = begun;
    let facts = ConnectionFacts { resident, ..facts };
    let (worker, deadline) = (&shared.worker, Cell::new(None));
    let Some(parts) = ScopeParts::new(worker, &seat, &deadline, &facts) else { return };
    let mut work = worker.workspace();
    let client = Http2Client::new(facts, request, respond, Rc::clone(shared));
    let _ = exchange::run(Scope(&parts), client, &mut work.heads, first_byte).await;
    worker.give_back_workspace(work);
}

/// A stream's place among the worker's residents, and among its connection's streams.
struct StreamStay<'a, N: Net> {
    shared: &'a SharedState<N>,
    key: ResidentKey,
}

impl<N: Net> Drop for StreamStay<'_, N> {
    fn drop(&mut self) {
        let Self { shared, key } = self;
        shared.worker.idle.close_of(key.owner());
        shared.worker.residents.leave(*key);
        shared.running.borrow_mut().retain(|other| other != key);
        shared.open.set(shared.open.get().saturating_sub(1));
        shared.worker.residents.wake(shared.connection.resident);
    }
}

/// Closes our side, then discards what the client still sends, for a bounded time and up to `most`
/// bytes.
async fn linger<N: Net>(
    worker: &Rc<Worker<N>>,
    resident: ResidentKey,
    transport: &SharedTransport<N>,
    most: usize,
) {
    let now = Instant::now();
    worker.residents.set_between(resident, Some(now));
    let (mut lingering, deadline) = (Lingering::up_to(most), now + LINGERING_CLOSE);
    std::future::poll_fn(|context| {
        let mut transport = transport.borrow_mut();
        let lingered = lingering.poll(&mut *transport, context, &worker.buffers);
        if lingered.is_ready() || worker.is_cut() || Instant::now() >= deadline {
            return Poll::Ready(());
        }
        worker.residents.wake_by(resident, now, deadline);
        Poll::Pending
    })
    .await;
}
