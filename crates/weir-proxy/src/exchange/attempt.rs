//! One attempt's communication with an endpoint over one connection: sends the request while it
//! waits for the response head, and watches for the client closing its connection. It does not
//! decide about retries (`proxy_request.rs`), and sends the client nothing but interim responses.

use std::task::{Context, Poll};
use std::time::Duration;

use weir_stats::{Cause, Micros};
use weir_wire::{Framing, HeadLimits, Method, ResponseHead, Scan, Version};

use crate::exchange::body_stream::BodyStream;
use crate::exchange::client_side::ClientSide;
use crate::exchange::local_reply::{ResponsePiece, Taking, write_paced};
use crate::exchange::outcome::Ended;
use crate::exchange::pump::{Pump, PumpFailure, Waiting};
use crate::exchange::record;
use crate::exchange::scope::Scope;
use crate::exchange::state::Exchange;
use crate::exchange::upload::body_failure;
use crate::http::edits::Edits;
use crate::http::head_writer;
use crate::limits::{INTERIM_RESPONSES, RESPONSE_HEAD_BYTES, RESPONSE_HEADERS};
use crate::net::buffers::{Buffers, poll_read_into};
use crate::net::{Net, Socket};
use crate::time::deadline_timer::{self, DeadlineTimer};
use crate::time::instant::Instant;
use crate::time::pace::{Pace, TooSlow};
use crate::time::work_time::Turn;
use crate::upstream::EndpointRef;
use crate::upstream::http2::stream::StreamLoss;
use crate::upstream::idle::UpstreamConnection;
use crate::upstream::retry::{RetryRules, Trouble};
use crate::worker::workspace::Heads;

/// The reason why no response head was received.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Failure {
    /// The connection ended before the first byte of a response.
    Silent,
    /// The connection ended inside the response head, or the endpoint reset the stream.
    Cut,
    /// The endpoint has said that it did nothing for the request, which may be sent again whatever
    /// it is (RFC 9113 section 8.7).
    Unprocessed,
    /// The response is not valid HTTP, or breaks one of our limits.
    BadResponse,
    /// The client's body failed.
    Body(PumpFailure),
    /// The client's body did not arrive in time.
    BodyTimeout,
    /// The client's body arrived too slowly.
    BodyTooSlow,
    /// The endpoint did not take the request in time.
    SendTimeout,
    /// No response head arrived in time.
    ResponseTimeout,
    /// The attempt as a whole took too long.
    TryTimeout,
    /// The client closed its connection.
    ClientGone,
}

impl Failure {
    /// The end of the exchange that the failure leads to.
    pub(crate) fn ended(self) -> Ended {
        match self {
            Self::Body(failure) => body_failure(failure),
            Self::BodyTimeout => Cause::BodyTimeout.into(),
            Self::BodyTooSlow => Cause::BodyTooSlow.into(),
            Self::Silent
            | Self::Cut
            | Self::Unprocessed
            | Self::BadResponse
            | Self::SendTimeout
            | Self::ResponseTimeout
            | Self::TryTimeout
            | Self::ClientGone => match self.trouble() {
                Some(trouble) => trouble.cause().into(),
                None => Ended::Broken(Cause::ClientGone),
            },
        }
    }

    /// The failure as the pool's retry policy sees it; `None` when the client is at fault.
    pub(crate) fn trouble(self) -> Option<Trouble> {
        Some(Trouble::Cause(match self {
            Self::Unprocessed => return Some(Trouble::Unprocessed),
            Self::Silent | Self::Cut => Cause::UpstreamReset,
            Self::BadResponse => Cause::BadResponse,
            Self::SendTimeout => Cause::UpstreamSendTimeout,
            Self::ResponseTimeout => Cause::ResponseTimeout,
            Self::TryTimeout => Cause::TryTimeout,
            Self::Body(_) | Self::BodyTimeout | Self::BodyTooSlow | Self::ClientGone => {
                return None;
            }
        }))
    }
}

/// An attempt in progress.
pub(crate) struct Attempt<'a, S: Socket> {
    pub(crate) upstream: Box<UpstreamConnection<S>>,
    /// The request on its way to the endpoint.
    pub(crate) upload: &'a mut Pump,
    /// Set once the endpoint stopped reading the request; it may have answered all the same.
    pub(crate) upload_failed: bool,
    /// Set if a read from the endpoint was pending in this same turn, so that bytes wake the task
    /// and another read would gain nothing.
    is_awaited: bool,
    /// Bytes from the endpoint, the response head first.
    pub(crate) raw: Vec<u8>,
    scan: Scan,
    /// The fault of a refused response, and its offset.
    pub(crate) wrong: Option<(&'static str, usize)>,
    interim: u32,
    /// The time at which the request was sent completely, or last made progress, in the turns
    /// before this one.
    progressed: Instant,
    progress: u64,
    /// Set if it made progress in this turn.
    moved: bool,
    /// The time at which the response head was complete.
    pub(crate) heard: Instant,
    /// The time at which the attempt began, or continued after waiting for the client's body;
    /// `None` during such a wait.
    since: Option<Instant>,
    /// The rate of the client's body.
    pub(crate) pace: Pace,
}

impl<'a, S: Socket> Attempt<'a, S> {
    /// Creates an attempt: `began` is the time at which the slot was obtained, `now` the time at
    /// which the connection was established.
    pub(crate) fn new(
        upstream: Box<UpstreamConnection<S>>,
        upload: &'a mut Pump,
        began: Instant,
        now: Instant,
    ) -> Self {
        Self {
            is_awaited: upstream.reused && !upstream.transport.is_shared(),
            upstream,
            upload,
            upload_failed: false,
            raw: Vec::new(),
            scan: Scan::default(),
            wrong: None,
            interim: 0,
            progressed: now,
            progress: 0,
            moved: false,
            heard: now,
            since: Some(began),
            pace: Pace::default(),
        }
    }

    /// The bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        self.upload.held() + self.raw.capacity() + self.upstream.transport.held()
    }

    /// The time from the sent request to the response head.
    pub(crate) fn response_time(&self) -> Micros {
        self.heard.span_since(self.progressed)
    }

    /// Tells whether the same request may be sent again after this trouble (law 7 of the
    /// simulation's checkers). All of it must still be available, and a request of which bytes went
    /// upstream is not sent twice if it may have had an effect, unless the configuration allows
    /// that. It had none if its endpoint says so. Calls of gRPC are all POST: their statuses in
    /// `retry` are such a permission.
    pub(crate) fn may_repeat(
        &self,
        method: Method,
        rules: &RetryRules,
        trouble: Option<Trouble>,
    ) -> bool {
        let permits = matches!(trouble, Some(Trouble::Grpc(_) | Trouble::Unprocessed));
        self.upload.can_begin_again()
            && (self.upload.written == 0 || permits || rules.may_resend(method))
    }

    /// Returns true if the response with the head `response` was received completely, with no byte
    /// after it.
    pub(crate) fn is_whole(&self, response: &ResponseHead) -> bool {
        let Some(body) = self.raw.len().checked_sub(response.head_bytes) else { return false };
        if !self.upstream.transport.is_over() {
            return false;
        }
        match response.framing {
            Framing::None => body == 0,
            Framing::Length(length) => body as u64 == length,
            Framing::Chunked | Framing::UntilClose => false,
        }
    }

    /// Returns true if the exchange with the endpoint is over in both directions, so that the
    /// connection can be reused.
    pub(crate) fn is_over(&self, response: &ResponseHead) -> bool {
        self.is_whole(response) && response.keep_alive && self.upload.is_finished()
    }
}

impl<S: Socket> Attempt<'_, S> {
    /// Sends the request and waits for the final response head, which `heads.response` then holds.
    pub(crate) async fn hear<C: ClientSide<Net: Net<Stream = S>>>(
        &mut self,
        exchange: &mut Exchange<'_, C>,
        at: EndpointRef<'_>,
    ) -> Result<(), Failure> {
        let scope = exchange.scope;
        loop {
            let session = exchange.session;
            let others = exchange.heads.held();
            let client = &mut exchange.client;
            let Heads { request, response, .. } = &mut *exchange.heads;
            let method = request.method;
            std::future::poll_fn(|context| {
                let (turn, buffers) = (&scope.worker.turn, &scope.worker.buffers);
                let heard = self.poll_head(context, client, buffers, response, method);
                if heard.is_pending() && scope.worker.sessions.must_shrink(session) {
                    client.shrink(buffers);
                    self.upload.shrink();
                }
                scope.holds(session, client.held() + self.held() + others);
                if heard.is_ready() {
                    self.note_heard(turn);
                    return heard;
                }
                if std::mem::take(&mut self.moved) {
                    self.progressed = turn.look_at_end();
                }
                let late = self.poll_deadline(scope, context, client.timer(), at);
                if late.is_ready() {
                    turn.goes_on();
                }
                late
            })
            .await?;
            if !is_interim(&exchange.heads.response) {
                return Ok(());
            }
            let mut taking = Taking::new(scope.client_rate(at.has_limit()));
            Box::pin(self.pass_interim(exchange, &mut taking)).await?;
        }
    }

    /// Notes when the response head arrived: at the beginning of this turn, or now if the request
    /// still made progress in this turn.
    fn note_heard(&mut self, turn: &Turn) {
        if std::mem::take(&mut self.moved) {
            self.progressed = Instant::now();
            self.heard = self.progressed;
        } else {
            self.heard = turn.began().max(self.progressed);
        }
    }

    fn poll_head<C: ClientSide>(
        &mut self,
        context: &mut Context<'_>,
        client: &mut C,
        buffers: &Buffers,
        response: &mut ResponseHead,
        method: Method,
    ) -> Poll<Result<(), Failure>> {
        if let Err(failure) = self.poll_upload(context, client, buffers) {
            return Poll::Ready(Err(Failure::Body(failure)));
        }
        if !std::mem::take(&mut self.is_awaited)
            && let Poll::Ready(heard) = self.poll_response(context, buffers, response, method)
        {
            return Poll::Ready(heard);
        }
        self.poll_client_gone(context, client, buffers).map(|()| Err(Failure::ClientGone))
    }

    /// Ready when the client has closed its connection. It checks only while the upload would not
    /// notice a close, because the body was sent or the endpoint does not read it.
    pub(crate) fn poll_client_gone<C: ClientSide>(
        &self,
        context: &mut Context<'_>,
        client: &mut C,
        buffers: &Buffers,
    ) -> Poll<()> {
        if self.upload.is_finished() {
            return client.poll_gone(context, buffers);
        }
        if self.upload_failed || self.upload.waiting == Waiting::Write {
            return client.stream().poll_closed(context);
        }
        Poll::Pending
    }

    /// Returns true while the rest of the request is awaited from the client.
    pub(crate) fn awaits_client(&self) -> bool {
        !self.upload.is_finished() && !self.upload_failed && self.upload.waiting == Waiting::Read
    }

    /// Sends more of the request, if any is left and the endpoint reads it. Fails when the client's
    /// body is at fault.
    pub(crate) fn poll_upload<C: ClientSide>(
        &mut self,
        context: &mut Context<'_>,
        client: &mut C,
        buffers: &Buffers,
    ) -> Result<(), PumpFailure> {
        if self.upload.is_finished() || self.upload_failed {
            return Ok(());
        }
        match self.upload.poll(context, client.stream(), &mut self.upstream.transport, buffers) {
            Poll::Ready(Ok(())) => {
                self.moved = true;
                client.unread(self.upload.surplus());
            }
            Poll::Ready(Err(PumpFailure::Write)) => self.upload_failed = true,
            Poll::Ready(Err(failure)) => return Err(failure),
            Poll::Pending if self.progress != self.upload.progress() => {
                self.progress = self.upload.progress();
                self.moved = true;
            }
            Poll::Pending => {}
        }
        self.upstream.sends = !self.upload.is_finished();
        Ok(())
    }

    fn poll_response(
        &mut self,
        context: &mut Context<'_>,
        buffers: &Buffers,
        response: &mut ResponseHead,
        method: Method,
    ) -> Poll<Result<(), Failure>> {
        let limits = HeadLimits {
            head_bytes: RESPONSE_HEAD_BYTES,
            headers: RESPONSE_HEADERS,
            ..HeadLimits::default()
        };
        loop {
            if !self.raw.is_empty() {
                match response.parse(&self.raw, &mut self.scan, &limits, method) {
                    Ok(Some(_)) => return Poll::Ready(Ok(())),
                    Ok(None) => {}
                    Err(found) => {
                        self.wrong = Some((found.fault.reason(), found.at));
                        return Poll::Ready(Err(Failure::BadResponse));
                    }
                }
            }
            if self.raw.capacity() == 0 {
                self.raw = buffers.large();
            }
            match poll_read_into(&mut self.upstream.transport, context, &mut self.raw, usize::MAX) {
                Poll::Ready(Ok(read)) if read > 0 => {}
                Poll::Ready(_) => return Poll::Ready(Err(self.broke_off())),
                Poll::Pending => {
                    if self.raw.is_empty() {
                        buffers.give_back(std::mem::take(&mut self.raw));
                    }
                    return Poll::Pending;
                }
            }
        }
    }

    /// The failure of a connection, or of a stream, that ended before the response's head did.
    #[cold]
    fn broke_off(&mut self) -> Failure {
        let is_silent = self.raw.is_empty();
        match self.upstream.transport.loss() {
            Some(StreamLoss::Unprocessed) if is_silent && self.interim == 0 => Failure::Unprocessed,
            Some(StreamLoss::Malformed) => {
                self.wrong = Some(("a malformed HTTP/2 response", 0));
                Failure::BadResponse
            }
            Some(StreamLoss::Connection) | None if is_silent => Failure::Silent,
            _ => Failure::Cut,
        }
    }

    fn poll_deadline<N: Net<Stream = S>>(
        &mut self,
        scope: Scope<'_, N>,
        context: &mut Context<'_>,
        timer: &mut DeadlineTimer,
        at: EndpointRef<'_>,
    ) -> Poll<Result<(), Failure>> {
        let is_sent = self.upload.is_finished() || self.upload_failed;
        let is_awaited = !is_sent && self.upload.waiting == Waiting::Read;
        let (patience, mut failure) = if is_sent {
            (at.rules.timeouts.response, Failure::ResponseTimeout)
        } else if is_awaited {
            (scope.listener.timeouts.body, Failure::BodyTimeout)
        } else {
            (at.rules.timeouts.send, Failure::SendTimeout)
        };
        let mut deadline = self.progressed + patience;
        if let Some(end) =
            at.rules.timeouts.attempt.and_then(|wait| self.attempt_ends(is_awaited, wait))
            && end < deadline
        {
            (deadline, failure) = (end, Failure::TryTimeout);
        }
        let mut look = None;
        if is_awaited || self.pace.is_waiting() {
            let limited = at.has_limit();
            let began = scope.worker.turn.began();
            let from = is_awaited.then(|| self.progressed.max(began));
            let moved = || self.upload.body_bytes;
            let looked =
                scope.client_rate(limited).map(|rate| self.pace.look(rate, began, from, moved));
            match looked.transpose() {
                Ok(at) => look = at.flatten(),
                Err(TooSlow) => return Poll::Ready(Err(Failure::BodyTooSlow)),
            }
        }
        deadline_timer::poll_either(timer, context, deadline, look).map(|()| Err(failure))
    }

    /// The deadline of the attempt; none while the client's body is awaited.
    fn attempt_ends(&mut self, is_awaited: bool, wait: Duration) -> Option<Instant> {
        if is_awaited {
            self.since = None;
            return None;
        }
        Some(*self.since.get_or_insert(self.progressed) + wait)
    }

    /// Passes an interim response such as 103 on to the client; a 100 is dropped, because Weir has
    /// sent its own.
    async fn pass_interim<C: ClientSide<Net: Net<Stream = S>>>(
        &mut self,
        exchange: &mut Exchange<'_, C>,
        taking: &mut Taking,
    ) -> Result<(), Failure> {
        self.interim += 1;
        if self.interim > INTERIM_RESPONSES {
            self.wrong = Some(("more interim responses than the limit", 0));
            return Err(Failure::BadResponse);
        }
        let is_passed = exchange.heads.response.status != 100
            && exchange.heads.request.version == Version::Http11;
        if is_passed {
            put_interim(exchange, &self.raw);
        }
        let Exchange { scope, client, heads, .. } = exchange;
        if is_passed {
            client.begin_response(&mut heads.response_out);
            let sent =
                write_paced(*scope, client, &heads.response_out, ResponsePiece::Part, taking).await;
            heads.response_out.clear();
            sent.map_err(|_| Failure::ClientGone)?;
        }
        self.raw.drain(..heads.response.head_bytes.min(self.raw.len()));
        self.scan = Scan::default();
        Ok(())
    }
}

/// Puts the head of an interim response, which is at the beginning of `raw`, in the room for heads
/// to the client, without the lines that the route removes.
fn put_interim<C: ClientSide>(exchange: &mut Exchange<'_, C>, raw: &[u8]) {
    let mut out = std::mem::take(&mut exchange.heads.response_out);
    out.clear();
    let response = &exchange.heads.response;
    record::with_entry(exchange, |entry| {
        let edits = exchange.route.map(|route| route.response_edits.resolve(Some(entry)));
        head_writer::write_interim_head(
            response,
            raw,
            edits.unwrap_or(&Edits::default()),
            &mut out,
        );
    });
    exchange.heads.response_out = out;
}

fn is_interim(response: &ResponseHead) -> bool {
    (100..200).contains(&response.status) && response.status != 101
}
