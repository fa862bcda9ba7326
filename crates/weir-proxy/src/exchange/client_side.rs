//! The client's side of an exchange, as its stages see it: they do not know how the request
//! arrived. An HTTP/1 connection implements it (`connection/http1_client.rs`).
//!
//! Heads are in the form of HTTP/1 text with spans, whatever the protocol is: an implementation for
//! another protocol writes the request's head in that form, and encodes the response's head from
//! it.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll};

use weir_stats::{Cause, Micros, Preread};
use weir_wire::{Framing, RequestHead, Version};

use crate::exchange::body_stream::BodyStream;
use crate::exchange::outcome::{Ended, Next};
use crate::exchange::pump::{Encoder, Pump};
use crate::exchange::scope::Scope;
use crate::exchange::state::Exchange;
use crate::http::head_writer::{BodyFraming, ConnectionLine};
use crate::net::Net;
use crate::net::buffers::Buffers;
use crate::net::tls::TlsFacts;
use crate::time::deadline_timer::{DeadlineTimer, Elapsed};
use crate::time::instant::Instant;
use crate::worker::migration::WaitingRequest;
use crate::worker::residents::ResidentKey;
use crate::worker::workspace::Heads;

/// The client's side of one exchange. The provided methods are for abilities that a protocol may
/// lack.
pub(crate) trait ClientSide: Sized {
    type Net: Net;
    /// The stream of both bodies.
    type Stream: BodyStream;

    /// Set if its exchanges may use a connection to an endpoint that served others before.
    const SHARES_CONNECTIONS: bool = true;

    /// Set if requests may be calls of gRPC, which needs the trailers of HTTP/2.
    const SPEAKS_GRPC: bool = false;

    /// The data of the client's connection.
    fn facts(&self) -> &ConnectionFacts;

    /// The stream of both bodies.
    fn stream(&mut self) -> &mut Self::Stream;

    /// The timer of all waits for this client.
    fn timer(&mut self) -> &mut DeadlineTimer;

    /// The bytes of memory that it holds, buffers and TLS.
    fn held(&self) -> usize;

    /// Receives the request's head and parses it into `heads.request`, whose spans then refer to
    /// [`ClientSide::head`]. It sets the times and the bytes received of `exchange.arrival`.
    fn read_head(exchange: &mut Exchange<'_, Self>) -> impl Future<Output = Result<(), Ended>>;

    /// The bytes that the spans of the request's head refer to; others may follow the head.
    fn head(&self) -> &[u8];

    /// The bytes of [`ClientSide::head`], to be changed in place.
    fn head_mut(&mut self) -> &mut [u8];

    /// The beginning of the request's body, as far as it was received, and its framing in the
    /// stream. Until the stream is read, further calls return the same.
    fn begin_body(&mut self, request: &RequestHead, buffers: &Buffers) -> ReceivedBody;

    /// Ready when the client has gone away. Further requests that it sends meanwhile are kept
    /// within limits.
    fn poll_gone(&mut self, context: &mut Context<'_>, buffers: &Buffers) -> Poll<()>;

    /// Decides how the body of a response is framed, and what follows the response.
    fn response_form(
        &mut self,
        scope: Scope<'_, Self::Net>,
        heads: &Heads,
        start: &ResponseStart,
    ) -> ResponseForm;

    /// Begins a response, also an interim one, with the head at the beginning of `out`. A client
    /// that gets heads in another form removes the head from `out` and returns the number of bytes
    /// that it sends for it; otherwise the caller writes `out` to the stream.
    fn begin_response(&mut self, out: &mut Vec<u8>) -> u64;

    /// Ends the exchange, whose response was complete, or broke off, at `now`.
    fn end(&mut self, now: Instant);

    /// Decides what happens to the connection after an exchange that broke off.
    fn after_break(&self, _request: &RequestHead, _cause: Cause) -> Next {
        Next::BreakOff
    }

    /// The name of the protocol, for logs.
    fn protocol(&self, version: Version) -> &'static str {
        match version {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
        }
    }

    /// The name that the client asked for in its TLS handshake.
    fn server_name(&self) -> Option<&str> {
        None
    }

    /// The protocol that the client's TLS handshake negotiated (ALPN).
    fn alpn(&self) -> Option<&[u8]> {
        None
    }

    /// The first message of a client whose TLS is passed on.
    fn preread(&self) -> Preread<'_> {
        Preread::default()
    }

    /// The local address of the client's connection.
    fn local_address(&self, _net: &Self::Net) -> Option<SocketAddr> {
        None
    }

    /// The number of bytes written to the stream that the client has not received yet, as far as
    /// that is known.
    fn unacknowledged(&self, _net: &Self::Net) -> u64 {
        0
    }

    /// The socket, if a body's bytes may be sent to it as they are, past the stream.
    fn bare_socket(&self) -> Option<&<Self::Net as Net>::Stream> {
        None
    }

    /// Gives back the buffer space that it does not use, because the exchange waits for long. The
    /// bytes that [`ClientSide::head`] returns stay the same.
    fn shrink(&mut self, _buffers: &Buffers) {}

    /// Takes back bytes that were read from the stream beyond the request's body.
    fn unread(&mut self, surplus: &[u8]) {
        debug_assert!(surplus.is_empty(), "{} bytes beyond a body", surplus.len());
    }

    /// The bytes received behind the request, when its connection becomes a tunnel.
    fn take_early_bytes(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// The queue position of a request that another process has begun.
    fn take_waiting(&mut self) -> Option<Box<WaitingRequest>> {
        None
    }

    /// Tells whether a request of which `raw` bytes of the body were read is small enough to move
    /// to another process.
    fn may_leave(&self, _raw: usize) -> bool {
        false
    }

    /// Prepares the request for its move to another process, where it takes the place `waiting` in
    /// a queue.
    #[expect(clippy::boxed_local, reason = "implementations that can leave keep it")]
    fn leave(
        &mut self,
        _waiting: Box<WaitingRequest>,
        _request: &RequestHead,
        _body: &ReadBody<'_>,
    ) {
    }
}

/// The data of a client connection, as far as they do not depend on its protocol.
pub(crate) struct ConnectionFacts {
    /// The address of the peer; `None` on a Unix socket.
    pub(crate) peer: Option<SocketAddr>,
    /// The time at which the handshake or the previous response ended.
    pub(crate) since: Instant,
    /// The time of accepting, for the first exchange's total; later equal to `since`.
    pub(crate) began: Instant,
    /// The time at which this worker took the connection.
    pub(crate) taken: Instant,
    /// Its number in the process.
    pub(crate) number: u32,
    /// The number of exchanges begun on it.
    pub(crate) served: u64,
    /// The connection's entry among the worker's residents.
    pub(crate) resident: ResidentKey,
    /// The result of the handshake, looked up once and shared by connections with the same one;
    /// `None` without TLS.
    pub(crate) tls: Option<Rc<TlsFacts<'static>>>,
    /// Set if another process can continue the connection: not inside TLS, and not after it was
    /// offered to another process that did not take it.
    pub(crate) may_part: bool,
    /// Set if the listener has TLS, and the client began with a request instead: it gets an error.
    pub(crate) lacks_tls: bool,
}

impl ConnectionFacts {
    /// The data of a connection that was accepted at this time.
    pub(crate) fn begun(
        peer: Option<SocketAddr>,
        began: Instant,
        resident: ResidentKey,
        tls: Option<Rc<TlsFacts<'static>>>,
    ) -> Self {
        let may_part = tls.is_none();
        let (since, taken) = (began, began);
        Self {
            peer,
            since,
            began,
            taken,
            number: 0,
            served: 0,
            resident,
            tls,
            may_part,
            lacks_tls: false,
        }
    }

    /// Notes whether the client began with a request where TLS is expected.
    pub(crate) fn without_tls(self, lacks_tls: bool) -> Self {
        Self { lacks_tls, may_part: self.may_part && !lacks_tls, ..self }
    }

    /// The client's address, before any trusted hop is followed.
    pub(crate) fn peer_ip(&self) -> Option<IpAddr> {
        self.peer.map(|peer| peer.ip())
    }

    /// The age of the connection when the first exchange, or the wait for the present one, began.
    pub(crate) fn age_at_begin(&self) -> Micros {
        self.began.span_since(self.taken)
    }

    /// The duration of the handshake, which the first exchange reports.
    pub(crate) fn handshake(&self) -> Micros {
        let is_first = self.served <= 1 && self.tls.is_some();
        if is_first { self.since.span_since(self.began) } else { Micros::ZERO }
    }

    /// Tells whether the listener's limits permit another request after one that is answered at
    /// `now`.
    pub(crate) fn may_stay<N: Net>(&self, scope: Scope<'_, N>, now: Instant) -> bool {
        let is_last = self.served >= scope.listener.limits.requests || scope.is_last();
        if is_last || self.lacks_tls {
            return false;
        }
        let too_old = scope.listener.timeouts.age.is_some_and(|age| now >= self.taken + age);
        if too_old {
            scope.counts.listener.aged(scope.worker.number);
        }
        !too_old
    }
}

/// The beginning of a request's body.
pub(crate) struct ReceivedBody {
    /// Its framing in the stream; a stream that has an end of its own is read until that
    /// ([`Framing::UntilClose`]), also if the head announces the length.
    pub(crate) framing: Framing,
    /// The bytes that were received, framing included.
    pub(crate) raw: Vec<u8>,
}

/// The bytes of a request's body that its exchange has read.
pub(crate) struct ReadBody<'a> {
    /// The bytes, from the beginning of the body.
    pub(crate) raw: &'a [u8],
    /// Set if they are the whole body, decoded.
    pub(crate) is_whole: bool,
}

/// The progress of a request's body when its response begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RequestBody {
    /// It was received completely, or the request has none.
    Received,
    /// It is still being sent to the endpoint.
    Arriving,
    /// No stage has asked for it.
    Untouched,
    /// It is not read any further, or its head was not received.
    Abandoned,
}

/// The data of an endpoint's response that decide on its form.
#[derive(Clone, Copy)]
pub(crate) struct RelayedResponse {
    pub(crate) status: u16,
    /// The framing of the body that the client gets: without a length if it is converted.
    pub(crate) framing: Framing,
}

/// A response that begins.
pub(crate) struct ResponseStart {
    /// The response of an endpoint; `None` for one of Weir's own, which all have a length.
    pub(crate) relayed: Option<RelayedResponse>,
    /// The progress of the request's body.
    pub(crate) body: RequestBody,
    /// The time at which the response begins.
    pub(crate) at: Instant,
}

/// The form of a response, and what follows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ResponseForm {
    /// The framing that the head announces.
    pub(crate) framing: BodyFraming,
    /// The framing of the body in the stream.
    pub(crate) encoder: Encoder,
    pub(crate) connection: ConnectionLine,
    pub(crate) next: Next,
}

/// Does the same as [`ClientSide::poll_gone`] while an incomplete body waits to be sent: bytes that
/// arrive are kept with the body, as far as there is room.
pub(crate) fn poll_sender_gone<C: ClientSide>(
    client: &mut C,
    context: &mut Context<'_>,
    buffers: &Buffers,
    upload: &mut Pump,
) -> Poll<()> {
    while upload.has_room() {
        match upload.poll_fill(context, client.stream(), buffers) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(_)) => return Poll::Ready(()),
            Poll::Pending => return Poll::Pending,
        }
    }
    client.stream().poll_closed(context)
}

/// Polls `wait` with the client until it is ready or `deadline` has passed.
pub(crate) async fn wait_with<C: ClientSide, T>(
    client: &mut C,
    deadline: Instant,
    mut wait: impl FnMut(&mut C, &mut Context<'_>) -> Poll<T>,
) -> Result<T, Elapsed> {
    std::future::poll_fn(|context| {
        if let Poll::Ready(done) = wait(client, context) {
            return Poll::Ready(Ok(done));
        }
        client.timer().poll(context, deadline).map(|()| Err(Elapsed))
    })
    .await
}
