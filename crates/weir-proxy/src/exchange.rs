//! One exchange: reads a request head, finds its route, has it answered and records it.
//! `attempt.rs` and `response.rs` do the work with a pool, `local.rs` writes Weir's own responses.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use memchr::memmem;
use smallvec::SmallVec;
use tokio::io::AsyncRead;
use tokio::task::yield_now;
use weir_balance::{Decision, Slot};
use weir_config::model::RequestTimeout;
use weir_stats::{Cause, Delays, Setback, Times};
use weir_wire::{HeadLimits, Located, Method, RequestHead, ResponseHead, Scan, Version};

use crate::affinity::Claim;
use crate::alarm::{Alarm, Elapsed, before};
use crate::attempt;
use crate::buffers::{Buffers, poll_read_into};
use crate::capture::Malformed;
use crate::client_address::{PeerTrust, allowed, client_address};
use crate::connection::{Connection, Scope};
use crate::explain::Wait;
use crate::files;
use crate::instant::Instant;
use crate::limiting::Told;
use crate::limiting::rate;
use crate::limiting::table::OpenPlace;
use crate::limits::{LONG_HEAD, SMALL_BUFFER};
use crate::local;
use crate::moving::Waiting;
use crate::net::Net;
use crate::path;
use crate::record;
use crate::request_id::RequestId;
use crate::route::{CompiledAction, CompiledRoute, RequestView};
use crate::sessions::{Begun, SessionKey};
use crate::trailers::TrailerRules;
use crate::work_time::WorkTime;

/// The fate of the connection after an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The connection stays open for the next request.
    KeepAlive,
    /// The connection ends, and no byte is unread.
    Close,
    /// The connection ends, but the client may still be sending.
    Linger,
    /// Another process is to serve the request that was begun.
    Part,
}

/// Bytes from the client, starting with the head being served; later requests may follow it.
///
/// Its size is bounded: reads stop at the limit of a head or one small buffer, whichever is more,
/// and a body pump returns at most [`SMALL_BUFFER`] bytes that it read beyond its body. Consumed
/// bytes make room before the buffer grows.
pub(crate) struct Input {
    bytes: Vec<u8>,
    start: usize,
    /// The maximum of unconsumed bytes up to which reads fill it.
    read_limit: usize,
    /// Bytes of the request being served, from `start` on.
    own: usize,
}

impl Default for Input {
    fn default() -> Self {
        Self::of(Vec::new())
    }
}

impl Input {
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Self { bytes, start: 0, read_limit: SMALL_BUFFER, own: 0 }
    }

    /// The most bytes that it holds for a listener whose heads may have `head_bytes`, apart from
    /// bytes that came from another process.
    pub(crate) fn limit(head_bytes: usize) -> usize {
        (head_bytes + 1).max(SMALL_BUFFER) + SMALL_BUFFER
    }

    /// The bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        self.bytes.capacity()
    }

    /// Sets the maximum size of a head.
    pub(crate) fn set_head_limit(&mut self, head_bytes: usize) {
        self.read_limit = (head_bytes + 1).max(SMALL_BUFFER);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.start = 0;
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..).unwrap_or_default()
    }

    /// Marks bytes as consumed.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.bytes.len());
        self.own = 0;
        if self.is_empty() {
            self.clear();
        }
    }

    /// Appends the bytes that a body pump read beyond its body: at most [`SMALL_BUFFER`] bytes, a
    /// limit that pumps keep ([`crate::pump::Bounds::surplus`]).
    pub(crate) fn append(&mut self, surplus: &[u8]) {
        if surplus.is_empty() {
            return;
        }
        debug_assert!(surplus.len() <= SMALL_BUFFER, "{} bytes beyond a body", surplus.len());
        if self.bytes.capacity() - self.bytes.len() < surplus.len() {
            self.compact();
            self.bytes.reserve_exact(surplus.len());
        }
        self.bytes.extend_from_slice(surplus);
    }

    /// Moves the unconsumed bytes to the front of the buffer.
    fn compact(&mut self) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }

    /// Replaces `count` bytes from offset `at` on by other bytes.
    pub(crate) fn replace(&mut self, at: usize, count: usize, by: &[u8]) {
        let start = (self.start + at).min(self.bytes.len());
        let end = (start + count).min(self.bytes.len());
        self.bytes.splice(start..end, by.iter().copied());
    }

    /// Returns true if a read has room without growing the buffer, and within its limit.
    pub(crate) fn has_room(&self) -> bool {
        self.bytes.capacity() == 0 || self.room() > 0
    }

    /// The number of bytes that a read may add.
    fn room(&self) -> usize {
        let unused = self.bytes.len() - self.start;
        let spare = self.bytes.capacity() - self.bytes.len();
        spare.min(self.read_limit.saturating_sub(unused))
    }

    /// Sets how many of the bytes belong to the request being served.
    pub(crate) fn set_own(&mut self, own: usize) {
        self.own = own;
    }

    /// Returns true if more may be read while a request is served: not once two more requests are
    /// buffered.
    pub(crate) fn takes_more(&self) -> bool {
        self.has_room() && !self.has_two_waiting()
    }

    /// Tells whether two heads end after the request being served. The end of a chunked body looks
    /// like one.
    fn has_two_waiting(&self) -> bool {
        let behind = self.bytes().get(self.own..).unwrap_or_default();
        !behind.is_empty() && memmem::find_iter(behind, b"\r\n\r\n").nth(1).is_some()
    }

    /// Makes room for a head of up to `limit` bytes.
    fn make_room(&mut self, limit: usize) {
        self.compact();
        if self.bytes.len() == self.bytes.capacity() && self.bytes.len() <= limit {
            self.bytes.reserve_exact(limit + 1 - self.bytes.len());
        }
    }

    /// Reads once. The caller makes sure that there is room.
    pub(crate) fn poll_fill<R: AsyncRead + Unpin>(
        &mut self,
        source: &mut R,
        context: &mut Context<'_>,
        buffers: &Buffers,
    ) -> Poll<io::Result<usize>> {
        if self.bytes.capacity() == 0 {
            self.bytes = buffers.small();
        }
        let room = self.room();
        let outcome = poll_read_into(source, context, &mut self.bytes, room);
        if outcome.is_pending() && self.bytes.is_empty() {
            self.start = 0;
            buffers.give_back(std::mem::take(&mut self.bytes));
        }
        outcome
    }
}

/// Buffers and parsed heads that are reused from one exchange to the next.
#[derive(Default)]
pub(crate) struct Workspace {
    pub(crate) input: Input,
    pub(crate) request: RequestHead,
    pub(crate) response: ResponseHead,
    /// The request head as it is sent upstream.
    pub(crate) request_out: Vec<u8>,
    /// The response head as it is sent downstream.
    pub(crate) response_out: Vec<u8>,
    /// The response head as received, if a log needs it.
    pub(crate) response_bytes: Vec<u8>,
    /// The text of the key that the pool's policy hashes.
    pub(crate) key: Vec<u8>,
    /// The request line as received, if the path was normalised; else empty.
    pub(crate) original_line: Vec<u8>,
}

impl Workspace {
    /// The request line as received.
    pub(crate) fn request_line(&self) -> &[u8] {
        match self.original_line.as_slice() {
            b"" => self.request.request_line.of(self.input.bytes()),
            line => line,
        }
    }

    /// The request target as received.
    pub(crate) fn target(&self) -> &[u8] {
        match self.original_line.as_slice() {
            b"" => self.request.target.of(self.input.bytes()),
            // The target lies between method and version, with a space on either side.
            line => line
                .get(self.request.method_span.len() + 1..line.len().saturating_sub(9))
                .unwrap_or_default(),
        }
    }

    /// The bytes of memory that the running exchange holds in it.
    pub(crate) fn held(&self) -> usize {
        self.input.held() + self.request_out.capacity() + self.response_out.capacity()
    }

    /// Prepares it for another connection.
    pub(crate) fn reset(&mut self, buffers: &Buffers) {
        buffers.give_back(std::mem::take(&mut self.input.bytes));
        self.input.start = 0;
        self.request_out.clear();
        self.response_out.clear();
        self.response_bytes.clear();
        self.original_line.clear();
    }
}

/// The data of an exchange, as far as it is known.
pub(crate) struct Facts {
    pub(crate) first_byte: Instant,
    /// The same on the wall clock.
    pub(crate) started: SystemTime,
    /// End of the request head.
    pub(crate) head_end: Instant,
    /// The time at which the response was sent completely, once that is known.
    pub(crate) ended: Option<Instant>,
    pub(crate) times: Times,
    pub(crate) cause: Cause,
    /// The status sent to the client; 0 before that.
    pub(crate) status: u16,
    /// Set if `Workspace::request` holds this exchange's head.
    pub(crate) has_head: bool,
    pub(crate) client: Option<IpAddr>,
    /// Tells whether the peer's forwarding headers are trusted.
    pub(crate) trust: PeerTrust,
    pub(crate) request_id: RequestId,
    /// The exchange's places in the counts of its client's exchanges in flight.
    pub(crate) places: Vec<OpenPlace>,
    /// The exchange's place in the pool's count of exchanges in flight, and the one in its count of
    /// retries.
    pub(crate) pool_place: Option<OpenPlace>,
    pub(crate) retry_place: Option<OpenPlace>,
    /// The limit headers of its response.
    pub(crate) told: Option<Box<Told>>,
    /// The queue position that it had in another process.
    pub(crate) waiting: Option<Box<Waiting>>,
    /// The session under which the worker lists it as running.
    pub(crate) session: Option<SessionKey>,
    /// The rules for trailers of the request; `None` if there are none.
    pub(crate) trailers: Option<Arc<TrailerRules>>,
    /// The index of the pool.
    pub(crate) pool: Option<usize>,
    /// The result of evaluating the client's sticky cookie.
    pub(crate) claim: Claim,
    pub(crate) slot: Option<Slot>,
    /// The time at which the slot was obtained.
    pub(crate) slot_since: Instant,
    /// The position in the queue at the first arrival there, from 1; 0 if it did not have to wait.
    pub(crate) queue_position: u32,
    /// The state of the queue at that arrival; `None` without one.
    pub(crate) wait: Option<Box<Wait>>,
    /// The basis of the latest choice of an endpoint.
    pub(crate) decision: Decision,
    /// The hashed key of that choice.
    pub(crate) key: u64,
    /// Waits inside the phases.
    pub(crate) delays: Delays,
    pub(crate) endpoint: Option<usize>,
    pub(crate) attempts: u32,
    /// Failed attempts that were followed by another one: the endpoint and the reason.
    pub(crate) failed: SmallVec<[(usize, Setback); 2]>,
    pub(crate) reused: bool,
    /// Bytes of `Workspace::input` behind the head that belong to this request's body.
    pub(crate) body_in_input: usize,
    /// Set once the body was read completely, so that the bytes after it in the input are the next
    /// request.
    pub(crate) body_read: bool,
    pub(crate) bytes_received: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) body_bytes_sent: u64,
}

impl Facts {
    fn new(first_byte: Instant, started: SystemTime) -> Self {
        Self {
            first_byte,
            started,
            head_end: first_byte,
            ended: None,
            times: Times::default(),
            cause: Cause::Complete,
            status: 0,
            has_head: false,
            client: None,
            trust: PeerTrust::Untrusted,
            request_id: RequestId::default(),
            places: Vec::new(),
            pool_place: None,
            retry_place: None,
            told: None,
            waiting: None,
            session: None,
            trailers: None,
            pool: None,
            claim: Claim::None,
            slot: None,
            slot_since: first_byte,
            queue_position: 0,
            wait: None,
            decision: Decision::default(),
            key: 0,
            delays: Delays::default(),
            endpoint: None,
            attempts: 0,
            failed: SmallVec::new(),
            reused: false,
            body_in_input: 0,
            body_read: false,
            bytes_received: 0,
            bytes_sent: 0,
            body_bytes_sent: 0,
        }
    }
}

impl Facts {
    /// Assigns the exchange to a pool.
    pub(crate) fn lead_to<N: Net>(&mut self, scope: Scope<'_, N>, pool: usize) {
        self.pool = Some(pool);
        self.session.inspect(|session| scope.worker.sessions.leads_to(*session, pool));
    }

    /// Assigns the exchange to an endpoint of its pool.
    pub(crate) fn be_at<N: Net>(&mut self, scope: Scope<'_, N>, endpoint: usize) {
        self.endpoint = Some(endpoint);
        self.session.inspect(|session| scope.worker.sessions.is_at(*session, Some(endpoint)));
    }

    /// Records the status of the response that is sent to the client.
    pub(crate) fn respond_with<N: Net>(&mut self, scope: Scope<'_, N>, status: u16) {
        self.status = status;
        self.session.inspect(|session| scope.worker.sessions.responds(*session, status));
    }

    /// Gives the slot back, because the endpoint has done its part. The time that it took is
    /// reported to the regret meter.
    pub(crate) fn finish_slot(&mut self, now: Instant) {
        (self.pool_place, self.retry_place) = (None, None);
        if let Some(slot) = self.slot.take() {
            slot.finish(now.micros_since(self.slot_since));
        }
    }
}

/// An exchange that ends with a response of Weir's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    pub(crate) cause: Cause,
    pub(crate) status: u16,
}

impl From<Cause> for Refusal {
    fn from(cause: Cause) -> Self {
        Self { cause, status: cause.status().unwrap_or(500) }
    }
}

/// The reason why an exchange did not complete normally.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ended {
    /// No byte was sent to the client yet: it gets this response.
    Refused(Refusal),
    /// The connection cannot be used any more: it is closed without a response.
    Broken(Cause),
    /// The client closed an idle connection without sending a request.
    Silent,
    /// Another process is to serve the exchange.
    Parted,
}

impl From<Cause> for Ended {
    fn from(cause: Cause) -> Self {
        Self::Refused(cause.into())
    }
}

/// Serves the request whose first bytes are in `work.input`.
pub(crate) async fn run<N: Net>(
    scope: Scope<'_, N>,
    connection: &mut Connection<N>,
    work: &mut Workspace,
    first_byte: Instant,
) -> Next {
    let mut facts = Facts::new(first_byte, scope.worker.wall(first_byte));
    work.original_line.clear();
    work.input.set_head_limit(scope.listener.limits.head_bytes);
    let session = scope.worker.sessions.begin(&Begun {
        at: first_byte,
        peer: connection.peer,
        resident: connection.resident,
        exchanges: connection.served,
        generation: scope.generation,
        listener: scope.number,
    });
    (facts.session, connection.session) = (Some(session.key), Some(session.key));
    facts.times.handshake = connection.handshake;
    facts.times.idle = first_byte.span_since(connection.since);
    let mut own = WorkTime::begun(scope.worker.turn.work_begins(first_byte));
    if let Some(waiting) = connection.waiting.take() {
        // Work that another process did for the exchange is not counted as ours.
        own = WorkTime::begun(Instant::now());
        facts.queue_position = waiting.queue_position;
        facts.waiting = Some(waiting);
    }
    let mut route = None;
    let served = {
        // Pinned in place: it is large, and moving it would copy it for every request.
        let mut serving = std::pin::pin!(serve(scope, connection, work, &mut facts, &mut route));
        let mut total = Alarm::default();
        std::future::poll_fn(|context| {
            if let Some(cause) = scope.ends_now(session.key) {
                return Poll::Ready(Err(cause));
            }
            if let Poll::Ready(outcome) = own.poll(&scope.worker.turn, serving.as_mut(), context) {
                return Poll::Ready(Ok(outcome));
            }
            poll_deadline(scope, context, &mut total).map(|()| Err(Cause::TotalTimeout))
        })
        .await
    };
    let outcome = served.unwrap_or_else(|cause| Err(cut_short(cause, &facts)));
    let next = match outcome {
        Ok(next) => next,
        Err(Ended::Refused(refusal)) => {
            let about = (&mut facts, &mut own);
            refuse_in_time(scope, connection, work, about, (refusal, route)).await
        }
        Err(Ended::Broken(cause)) => {
            facts.cause = cause;
            if cause == Cause::ClientGone && facts.status == 0 {
                facts.status = 499;
            }
            after_break(work.request.version, cause)
        }
        Err(Ended::Silent) => return Next::Close,
        Err(Ended::Parted) => {
            let Workspace { input, request, original_line, .. } = work;
            path::restore(request, input.bytes_mut(), original_line);
            original_line.clear();
            return Next::Part;
        }
    };
    drop(session);
    let now = facts.ended.unwrap_or_else(Instant::now);
    facts.times.own = own.until(now);
    record::write(scope, connection, work, &mut facts, (route, now));
    connection.since = now;
    if facts.has_head {
        work.input.consume(work.request.head_bytes + facts.body_in_input);
    }
    next
}

/// Sends a refusal within the rest of the exchange's total time, or the send timeout if that is
/// longer.
async fn refuse_in_time<N: Net>(
    scope: Scope<'_, N>,
    connection: &mut Connection<N>,
    work: &mut Workspace,
    (facts, own): (&mut Facts, &mut WorkTime),
    refusal: (Refusal, Option<&CompiledRoute>),
) -> Next {
    // An endpoint's slot is not held while the client reads our response.
    facts.slot = None;
    let least = scope.listener.timeouts.send;
    scope.set_deadline(scope.deadline().map(|end| end.max(Instant::now() + least)));
    let scarce = matches!(refusal.0.cause, Cause::Memory | Cause::ConnectionCap);
    let mut refusing = std::pin::pin!(local::refuse(scope, connection, work, facts, refusal));
    let mut total = Alarm::default();
    std::future::poll_fn(|context| {
        let refused = own.poll(&scope.worker.turn, refusing.as_mut(), context);
        if refused.is_ready() {
            return refused;
        }
        if scarce {
            // Other exchanges need its memory or its place: the client gets the response only if
            // its socket takes it at once.
            return Poll::Ready(Next::Close);
        }
        poll_deadline(scope, context, &mut total).map(|()| Next::Close)
    })
    .await
}

/// Ready when the exchange has reached its total time limit.
fn poll_deadline<N: Net>(
    scope: Scope<'_, N>,
    context: &mut Context<'_>,
    alarm: &mut Alarm,
) -> Poll<()> {
    scope.deadline().map_or(Poll::Pending, |deadline| alarm.poll(context, deadline))
}

/// The end of an exchange that was ended from outside: if no byte was sent to the client, it still
/// gets a response.
fn cut_short(cause: Cause, facts: &Facts) -> Ended {
    match cause {
        Cause::TotalTimeout if !facts.has_head => Cause::RequestTimeout.into(),
        _ if facts.status == 0 => cause.into(),
        _ => Ended::Broken(cause),
    }
}

/// Decides how to close after an exchange that broke off. If bytes of the client are unread,
/// closing at once resets the connection and would lose earlier responses still on their way. The
/// framing tells an HTTP/1.1 client that this response is incomplete.
fn after_break(version: Version, cause: Cause) -> Next {
    match (version, cause) {
        (
            _,
            Cause::ClientGone
            | Cause::ClientSendTimeout
            | Cause::ClientTooSlow
            | Cause::Shutdown
            | Cause::Memory
            | Cause::ConnectionCap
            | Cause::RateLimited
            | Cause::InFlightLimited,
        )
        | (Version::Http10, _) => Next::Close,
        (Version::Http11, _) => Next::Linger,
    }
}

async fn serve<'a, N: Net>(
    scope: Scope<'a, N>,
    connection: &mut Connection<N>,
    work: &mut Workspace,
    facts: &mut Facts,
    route: &mut Option<&'a CompiledRoute>,
) -> Result<Next, Ended> {
    let total = scope.listener.timeouts.request;
    scope.set_deadline(total.map(|wait| facts.first_byte + wait));
    read_head(scope, connection, work, facts).await?;
    let is_long = work.request.head_bytes > LONG_HEAD;
    if is_long {
        yield_now().await;
    }
    normalise_path(scope, connection, work, facts).map_err(Ended::Refused)?;
    if is_long {
        yield_now().await;
    }
    let found = find_route(scope, connection, work, facts)?;
    *route = Some(found);
    if is_long {
        yield_now().await;
    }
    bound(scope, facts, found);
    if rate::is_limited(scope, found) {
        // In an allocation of its own, so that exchanges without limits do not reserve space for
        // it.
        Box::pin(rate::admit(scope, connection, work, facts, found)).await?;
    }
    answer(scope, connection, work, facts, found).await
}

/// Reads until the head is complete and valid.
async fn read_head<N: Net>(
    scope: Scope<'_, N>,
    connection: &mut Connection<N>,
    work: &mut Workspace,
    facts: &mut Facts,
) -> Result<(), Ended> {
    let limits = HeadLimits {
        head_bytes: scope.listener.limits.head_bytes,
        request_line_bytes: scope.listener.limits.request_line_bytes,
        headers: scope.listener.limits.headers,
    };
    let deadline = facts.first_byte + scope.listener.timeouts.head;
    let mut scan = Scan::default();
    loop {
        match work.request.parse(work.input.bytes(), &mut scan, &limits) {
            Ok(Some(_)) => break,
            Ok(None) => {}
            Err(Located { fault, at }) => {
                let bytes = work.input.bytes();
                facts.bytes_received = bytes.len() as u64;
                let captures = &scope.worker.process.captures;
                captures.keep(&Malformed {
                    listener: &scope.listener.name,
                    endpoint: None,
                    peer: connection.peer,
                    at: scope.worker.wall(facts.head_end),
                    reason: fault.reason(),
                    position: at,
                    bytes,
                });
                rate::admit_client(scope, facts, connection.peer_ip())?;
                return Err(Ended::Refused(Refusal {
                    cause: Cause::BadRequest,
                    status: fault.status(),
                }));
            }
        }
        work.input.make_room(limits.head_bytes);
        scope.holds(connection, work.held());
        let Connection { client, alarm, .. } = connection;
        let input = &mut work.input;
        let fill = std::future::poll_fn(|context| {
            match input.poll_fill(client, context, &scope.worker.buffers) {
                Poll::Pending if scope.is_parting() => Poll::Ready(None),
                filled => filled.map(Some),
            }
        });
        match before(alarm, deadline, fill).await {
            Ok(None) => return Err(Ended::Parted),
            Ok(Some(Ok(read))) if read > 0 => facts.head_end = Instant::now(),
            // A lone line end before the close is no request.
            Ok(_) if work.input.bytes().iter().all(u8::is_ascii_whitespace) => {
                return Err(Ended::Silent);
            }
            Ok(_) => return Err(Ended::Broken(Cause::ClientGone)),
            Err(Elapsed) => return Err(Cause::RequestTimeout.into()),
        }
    }
    if let Some(waiting) = &facts.waiting {
        facts.head_end = waiting.head_end;
        // The client was told to continue (100) before the request began to wait.
        work.request.expect_continue = false;
    }
    facts.has_head = true;
    facts.bytes_received = work.request.head_bytes as u64;
    facts.times.request = facts.head_end.span_since(facts.first_byte);
    if let Some(session) = facts.session {
        let line = work.request.request_line.of(work.input.bytes());
        scope.worker.sessions.asks(session, facts.head_end, line);
    }
    Ok(())
}

/// Normalises the path into the form that rules and endpoints see.
fn normalise_path<N: Net>(
    scope: Scope<'_, N>,
    connection: &Connection<N>,
    work: &mut Workspace,
    facts: &Facts,
) -> Result<(), Refusal> {
    let Workspace { input, request, original_line, .. } = work;
    let rules = &scope.listener.path;
    path::normalise(request, input.bytes_mut(), rules, original_line).map_err(|fault| {
        scope.worker.process.captures.keep(&Malformed {
            listener: &scope.listener.name,
            endpoint: None,
            peer: connection.peer,
            at: scope.worker.wall(facts.head_end),
            reason: fault.reason(),
            position: request.request_line.start as usize,
            bytes: input.bytes(),
        });
        Cause::BadRequest.into()
    })
}

/// Applies the limits on clients and the access rules, and finds the route.
fn find_route<'a, N: Net>(
    scope: Scope<'a, N>,
    connection: &Connection<N>,
    work: &Workspace,
    facts: &mut Facts,
) -> Result<&'a CompiledRoute, Ended> {
    let listener = scope.listener;
    let peer = connection.peer_ip();
    let mut view = RequestView { head: &work.request, bytes: work.input.bytes(), client: peer };
    view.client = client_address(peer, &listener.forwarded.trusted, &view);
    facts.client = view.client;
    facts.trust = PeerTrust::of(peer, &listener.forwarded.trusted);
    let header = listener.request_id.header.as_deref();
    facts.request_id = match &facts.waiting {
        Some(waiting) => waiting.request_id.clone(),
        None => scope.worker.request_ids.borrow_mut().id_of(facts.trust, header, &view),
    };
    rate::admit_client(scope, facts, view.client)?;
    if listener.limits.hops.is_some_and(|most| work.request.hops > most) {
        return Err(Cause::LoopDetected.into());
    }
    if !allowed(&listener.access, view.client) {
        return Err(Cause::Denied.into());
    }
    let route = listener.router.route(&view).ok_or(Cause::NoRoute)?;
    if !allowed(&route.access, view.client) {
        return Err(Cause::Denied.into());
    }
    Ok(route)
}

/// Sets the exchange's total time limit: the route's, else the shorter one of the listener's and
/// the pool's.
fn bound<N: Net>(scope: Scope<'_, N>, facts: &Facts, route: &CompiledRoute) {
    let wait = match (route.request_timeout, &route.action) {
        (RequestTimeout::After(wait), _) => Some(wait),
        (RequestTimeout::Off, _) => None,
        (RequestTimeout::Inherited, CompiledAction::Pool(pool)) => {
            let of_pool = scope.generation.pool(*pool).and_then(|pool| pool.timeouts.request);
            let Some(of_pool) = of_pool else { return };
            let of_listener = scope.listener.timeouts.request;
            Some(of_listener.map_or(of_pool, |own| own.min(of_pool)))
        }
        (RequestTimeout::Inherited, _) => return,
    };
    scope.set_deadline(wait.map(|wait| facts.first_byte + wait));
}

async fn answer<N: Net>(
    scope: Scope<'_, N>,
    connection: &mut Connection<N>,
    work: &mut Workspace,
    facts: &mut Facts,
    route: &CompiledRoute,
) -> Result<Next, Ended> {
    if work.request.method == Method::Connect {
        // A gateway does not open tunnels to arbitrary hosts, and a 2xx from any action would tell
        // the client that one is open.
        return Err(Ended::Refused(Refusal { cause: Cause::BadRequest, status: 405 }));
    }
    if let Some(session) = facts.session {
        scope.worker.sessions.takes(session, route.number, facts.client);
    }
    match &route.action {
        CompiledAction::Pool(pool) => {
            attempt::proxy(scope, connection, work, facts, (route, *pool)).await
        }
        CompiledAction::Respond(respond) => {
            local::respond(scope, connection, work, facts, (route, respond)).await
        }
        CompiledAction::Redirect(redirect) => {
            local::redirect(scope, connection, work, facts, (route, redirect)).await
        }
        CompiledAction::Files(root) => {
            files::serve(scope, connection, work, facts, (route, *root)).await
        }
    }
}
