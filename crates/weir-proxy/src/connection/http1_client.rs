//! The client's side of an exchange over HTTP/1: the connection, and the bytes received on it,
//! which may contain further requests. It frames bodies and decides if the connection stays open.

use std::net::SocketAddr;
use std::task::{Context, Poll};

use weir_stats::Cause;
use weir_wire::{
    ChunkedDecoder, Framing, HeadLimits, Located, Method, RequestHead, Scan, Step, Version, encode,
};

use crate::connection::client_connection::Connection;
use crate::exchange::client_side::{
    ClientSide, ConnectionFacts, ReadBody, ReceivedBody, RelayedResponse, RequestBody,
    ResponseForm, ResponseStart,
};
use crate::exchange::malformed::keep_malformed;
use crate::exchange::outcome::{Ended, Next, Refusal};
use crate::exchange::pump::Encoder;
use crate::exchange::request_limits;
use crate::exchange::scope::Scope;
use crate::exchange::state::Exchange;
use crate::http::head_writer::{BodyFraming, ConnectionLine};
use crate::limits::{MOVED_BYTES, SMALL_BUFFER};
use crate::net::Net;
use crate::net::buffers::Buffers;
use crate::net::input::Input;
use crate::net::transport::Transport;
use crate::time::deadline_timer::{DeadlineTimer, Elapsed, before};
use crate::time::instant::Instant;
use crate::worker::migration::WaitingRequest;
use crate::worker::workspace::Heads;

/// An HTTP/1 connection during an exchange.
pub(crate) struct Http1Client<'a, N: Net> {
    connection: &'a mut Connection<N>,
    /// The bytes received, from the head of the request on.
    input: &'a mut Input,
}

impl<'a, N: Net> Http1Client<'a, N> {
    /// Begins a request whose first bytes are in `input`; its head may have `head_bytes`.
    pub(crate) fn new(
        connection: &'a mut Connection<N>,
        input: &'a mut Input,
        head_bytes: usize,
    ) -> Self {
        input.begin_request(head_bytes);
        Self { connection, input }
    }

    /// Skips the body of a request that no stage asked for, if it was received with the head;
    /// returns true if it was.
    fn skip_body(&mut self, request: &RequestHead) -> bool {
        let behind = self.input.bytes().len() - request.head_bytes;
        match request.framing {
            Framing::None => true,
            Framing::Length(length) if length <= behind as u64 => {
                self.input.set_own(request.head_bytes + length as usize);
                true
            }
            _ => false,
        }
    }
}

impl<N: Net> ClientSide for Http1Client<'_, N> {
    type Net = N;
    type Stream = Transport<N::Stream>;

    fn facts(&self) -> &ConnectionFacts {
        &self.connection.facts
    }

    fn stream(&mut self) -> &mut Transport<N::Stream> {
        &mut self.connection.client
    }

    fn timer(&mut self) -> &mut DeadlineTimer {
        &mut self.connection.timer
    }

    fn held(&self) -> usize {
        self.input.held() + self.connection.client.held()
    }

    async fn read_head(exchange: &mut Exchange<'_, Self>) -> Result<(), Ended> {
        let scope = exchange.scope;
        let limits = HeadLimits {
            head_bytes: scope.listener.limits.head_bytes,
            request_line_bytes: scope.listener.limits.request_line_bytes,
            headers: scope.listener.limits.headers,
        };
        let deadline = exchange.arrival.first_byte + scope.listener.timeouts.head;
        let mut scan = Scan::default();
        loop {
            let input = &mut *exchange.client.input;
            match exchange.heads.request.parse(input.bytes(), &mut scan, &limits) {
                Ok(Some(head_bytes)) => {
                    input.set_own(head_bytes);
                    exchange.arrival.bytes_received = head_bytes as u64;
                    return Ok(());
                }
                Ok(None) => {}
                Err(Located { fault, at }) => {
                    exchange.arrival.bytes_received = input.bytes().len() as u64;
                    keep_malformed(exchange, fault.reason(), at);
                    let peer = exchange.client.facts().peer_ip();
                    request_limits::admit_client(exchange, peer)?;
                    return Err(Ended::Refused(Refusal {
                        cause: Cause::BadRequest,
                        status: fault.status(),
                    }));
                }
            }
            input.make_room(limits.head_bytes);
            exchange.holds(0);
            let Http1Client { connection, input } = &mut exchange.client;
            let Connection { client, timer, .. } = &mut **connection;
            let fill = std::future::poll_fn(|context| {
                match input.poll_fill(client, context, &scope.worker.buffers) {
                    Poll::Pending if scope.is_parting() => Poll::Ready(None),
                    filled => filled.map(Some),
                }
            });
            match before(timer, deadline, fill).await {
                Ok(None) => return Err(Ended::Parted),
                Ok(Some(Ok(read))) if read > 0 => exchange.arrival.head_end = Instant::now(),
                // White space before the close is no request.
                Ok(_) if exchange.client.input.bytes().iter().all(u8::is_ascii_whitespace) => {
                    return Err(Ended::Silent);
                }
                Ok(_) => return Err(Ended::Broken(Cause::ClientGone)),
                Err(Elapsed) => return Err(Cause::RequestTimeout.into()),
            }
        }
    }

    fn head(&self) -> &[u8] {
        self.input.bytes()
    }

    fn head_mut(&mut self) -> &mut [u8] {
        self.input.bytes_mut()
    }

    /// Takes a copy of the bytes of the body, and leaves the requests after it in the input.
    fn begin_body(&mut self, request: &RequestHead, buffers: &Buffers) -> ReceivedBody {
        let available = self.input.bytes().get(request.head_bytes..).unwrap_or_default();
        let take = match request.framing {
            Framing::None | Framing::UntilClose => 0,
            Framing::Length(length) => {
                available.len().min(usize::try_from(length).unwrap_or(usize::MAX))
            }
            Framing::Chunked => chunked_bytes(available),
        };
        let mut raw = Vec::new();
        if take > 0 {
            let is_whole = request.framing == Framing::Length(take as u64);
            raw = if is_whole || take > SMALL_BUFFER {
                Vec::with_capacity(take)
            } else {
                buffers.small()
            };
            raw.extend_from_slice(available.get(..take).unwrap_or_default());
        }
        self.input.set_own(request.head_bytes + take);
        ReceivedBody { framing: request.framing, raw }
    }

    /// Keeps the bytes that the client sends meanwhile, its next requests, until there are two
    /// requests or there is no room; from then on the socket is watched but not read.
    fn poll_gone(&mut self, context: &mut Context<'_>, buffers: &Buffers) -> Poll<()> {
        let stream = &mut self.connection.client;
        while self.input.takes_more() {
            match self.input.poll_fill(stream, context, buffers) {
                Poll::Ready(Ok(read)) if read > 0 => {}
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
        stream.poll_closed(context)
    }

    fn response_form(
        &mut self,
        scope: Scope<'_, N>,
        heads: &Heads,
        start: &ResponseStart,
    ) -> ResponseForm {
        let request = &heads.request;
        let received = match start.body {
            RequestBody::Received => true,
            RequestBody::Arriving | RequestBody::Abandoned => false,
            RequestBody::Untouched => self.skip_body(request),
        };
        let mut stays =
            received && request.keep_alive && self.connection.facts.may_stay(scope, start.at);
        let (framing, encoder) = match start.relayed {
            None => (BodyFraming::None, Encoder::Plain),
            Some(response) => framing_downstream(request, response),
        };
        stays &= framing != BodyFraming::Close;
        let next = match start.body {
            _ if stays => Next::KeepAlive,
            // A client that asked for the close sends nothing more; any other may have sent its
            // next request already.
            RequestBody::Received | RequestBody::Arriving if !request.keep_alive => Next::Close,
            RequestBody::Untouched if received && !request.keep_alive => Next::Close,
            _ => Next::Linger,
        };
        let connection = match start.relayed {
            Some(response) if response.status == 101 => ConnectionLine::Upgrade,
            _ if !stays => ConnectionLine::Close,
            _ if request.version == Version::Http10 => ConnectionLine::KeepAlive,
            _ => ConnectionLine::None,
        };
        ResponseForm { framing, encoder, connection, next }
    }

    /// Lets an HTTP/1.1 connection linger, because a close with unread bytes of the client would
    /// reset it and could lose earlier responses on their way. The framing tells the client that
    /// this response is incomplete.
    fn after_break(&self, request: &RequestHead, cause: Cause) -> Next {
        match (request.version, cause) {
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
            | (Version::Http10, _) => Next::BreakOff,
            (Version::Http11, _) => Next::Linger,
        }
    }

    fn begin_response(&mut self, _out: &mut Vec<u8>) -> u64 {
        0
    }

    fn end(&mut self, now: Instant) {
        self.connection.facts.since = now;
        self.input.consume_own();
    }

    fn server_name(&self) -> Option<&str> {
        self.connection.client.server_name()
    }

    fn alpn(&self) -> Option<&[u8]> {
        self.connection.client.alpn()
    }

    fn local_address(&self, net: &N) -> Option<SocketAddr> {
        net.local_address(self.connection.client.socket())
    }

    fn unacknowledged(&self, net: &N) -> u64 {
        net.unacknowledged(self.connection.client.socket())
    }

    fn bare_socket(&self) -> Option<&N::Stream> {
        match &self.connection.client {
            Transport::Plain(stream) => Some(stream),
            Transport::Server(_) | Transport::Client(_) => None,
        }
    }

    fn shrink(&mut self, buffers: &Buffers) {
        self.input.shrink(buffers);
    }

    fn unread(&mut self, surplus: &[u8]) {
        self.input.append(surplus);
    }

    fn take_early_bytes(&mut self) -> Vec<u8> {
        let early = self.input.behind_own().to_vec();
        self.input.set_own(self.input.bytes().len());
        early
    }

    fn take_waiting(&mut self) -> Option<Box<WaitingRequest>> {
        self.connection.waiting.take()
    }

    fn may_leave(&self, raw: usize) -> bool {
        self.input.bytes().len() + raw <= MOVED_BYTES
    }

    /// Puts the part of the body that was read behind its head again, as received or in an
    /// equivalent form.
    fn leave(&mut self, waiting: Box<WaitingRequest>, request: &RequestHead, body: &ReadBody<'_>) {
        self.connection.waiting = Some(waiting);
        let (head, raw) = (request.head_bytes, body.raw);
        let in_input = self.input.own() - head;
        match request.framing {
            Framing::None | Framing::UntilClose => {}
            Framing::Chunked if body.is_whole => {
                let mut chunks = Vec::new();
                if !raw.is_empty() {
                    encode::chunk_header(raw.len(), &mut chunks);
                    chunks.extend_from_slice(raw);
                    chunks.extend_from_slice(encode::CHUNK_END);
                }
                chunks.extend_from_slice(encode::LAST_CHUNK);
                chunks.extend_from_slice(b"\r\n");
                self.input.replace(head, in_input, &chunks);
            }
            Framing::Length(_) => self.input.replace(head, in_input, raw),
            // The bytes that came with the head are still there.
            Framing::Chunked => {
                let later = raw.get(in_input..).unwrap_or_default();
                self.input.replace(head + in_input, 0, later);
            }
        }
    }
}

/// The framing of a relayed response.
fn framing_downstream(request: &RequestHead, response: RelayedResponse) -> (BodyFraming, Encoder) {
    match response.framing {
        Framing::None if request.method == Method::Head || response.status == 304 => {
            (BodyFraming::AsReceived, Encoder::Plain)
        }
        Framing::None => (BodyFraming::None, Encoder::Plain),
        Framing::Length(length) => (BodyFraming::Length(length), Encoder::Plain),
        Framing::Chunked | Framing::UntilClose if request.version == Version::Http11 => {
            (BodyFraming::Chunked, Encoder::Chunked)
        }
        Framing::Chunked | Framing::UntilClose => (BodyFraming::Close, Encoder::Plain),
    }
}

/// The number of these bytes, which follow a head, that belong to its chunked body: all of them if
/// it does not end there.
fn chunked_bytes(bytes: &[u8]) -> usize {
    let mut decoder = ChunkedDecoder::new();
    let mut at = 0;
    loop {
        match decoder.step(bytes.get(at..).unwrap_or_default()) {
            Ok((used, Step::Data(_))) => at += used,
            Ok((used, Step::End)) => return at + used,
            // A fault is found again, and refused, when the body is decoded.
            Ok((_, Step::More)) | Err(_) => return bytes.len(),
        }
    }
}
