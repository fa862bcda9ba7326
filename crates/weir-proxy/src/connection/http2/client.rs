//! The client's side of an exchange that is a stream of an HTTP/2 connection.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::Reason;
use h2::RecvStream;
use h2::server::SendResponse;
use http::header::SEC_WEBSOCKET_ACCEPT;
use http::{Request, StatusCode};
use weir_stats::{Cause, HTTP2};
use weir_wire::{Framing, HeadLimits, Located, RequestHead, Scan, Version};

use crate::connection::http2::head::{self, AfterHead, HeadFault};
use crate::connection::http2::shared::SharedState;
use crate::connection::http2::stream::Http2Stream;
use crate::exchange::body_stream::BodyStream;
use crate::exchange::client_side::{
    ClientSide, ConnectionFacts, ReceivedBody, ResponseForm, ResponseStart,
};
use crate::exchange::malformed::keep_malformed;
use crate::exchange::outcome::{Ended, Next, Refusal};
use crate::exchange::pump::Encoder;
use crate::exchange::request_limits;
use crate::exchange::scope::Scope;
use crate::exchange::state::Exchange;
use crate::http::head_writer::{BodyFraming, ConnectionLine};
use crate::limiting::http2_windows::ReadCount;
use crate::net::Net;
use crate::net::buffers::Buffers;
use crate::time::deadline_timer::DeadlineTimer;
use crate::time::instant::Instant;
use crate::worker::workspace::Heads;

/// A stream during its exchange.
pub(crate) struct Http2Client<N: Net> {
    facts: ConnectionFacts,
    timer: DeadlineTimer,
    /// The request's head as HTTP/1 text.
    head: Vec<u8>,
    /// The reason why the request is refused without being parsed.
    fault: Option<HeadFault>,
    stream: Http2Stream,
    /// Set if the response is Weir's own.
    responds_itself: bool,
    /// Set if the request asks for a WebSocket.
    asks_for_websocket: bool,
    shared: Rc<SharedState<N>>,
}

impl<N: Net> Http2Client<N> {
    pub(crate) fn new(
        facts: ConnectionFacts,
        request: Request<RecvStream>,
        respond: SendResponse<Bytes>,
        shared: Rc<SharedState<N>>,
    ) -> Self {
        let (parts, body) = request.into_parts();
        let read = ReadCount::new(Rc::clone(&shared.reads));
        let stream = Http2Stream::new(body, respond, read);
        let end = if stream.is_without_body() { AfterHead::Nothing } else { AfterHead::Body };
        let mut head = Vec::with_capacity(256);
        let fault = head::write_request(&parts, end, &mut head).err();
        let timer = DeadlineTimer::default();
        let asks_for_websocket = head::is_websocket(&parts) == Ok(true);
        let responds_itself = false;
        Self { facts, timer, head, fault, stream, responds_itself, asks_for_websocket, shared }
    }

    /// Parses the head; returns the fault, its place and the status of the refusal.
    fn parse(
        &self,
        scope: Scope<'_, N>,
        request: &mut RequestHead,
    ) -> Result<(), (&'static str, usize, u16)> {
        if let Some(HeadFault { reason, status }) = self.fault {
            return Err((reason, 0, status));
        }
        let limits = HeadLimits {
            head_bytes: scope.listener.limits.head_bytes,
            request_line_bytes: scope.listener.limits.request_line_bytes,
            headers: scope.listener.limits.headers,
        };
        match request.parse(&self.head, &mut Scan::default(), &limits) {
            Ok(Some(_)) => Ok(()),
            // The text is a whole head.
            Ok(None) => Err(("an incomplete head", self.head.len(), 400)),
            Err(Located { fault, at }) => Err((fault.reason(), at, fault.status())),
        }
    }
}

impl<N: Net> ClientSide for Http2Client<N> {
    type Net = N;
    type Stream = Http2Stream;

    const SPEAKS_GRPC: bool = true;

    fn facts(&self) -> &ConnectionFacts {
        &self.facts
    }

    fn stream(&mut self) -> &mut Http2Stream {
        &mut self.stream
    }

    fn timer(&mut self) -> &mut DeadlineTimer {
        &mut self.timer
    }

    fn held(&self) -> usize {
        self.head.capacity() + self.stream.held()
    }

    async fn read_head(exchange: &mut Exchange<'_, Self>) -> Result<(), Ended> {
        let Exchange { scope, client, heads, arrival, .. } = exchange;
        arrival.head_end = Instant::now();
        arrival.bytes_received = client.head.len() as u64;
        if let Err((reason, at, status)) = client.parse(*scope, &mut heads.request) {
            keep_malformed(exchange, reason, at);
            let peer = exchange.client.facts.peer_ip();
            request_limits::admit_client(exchange, peer)?;
            return Err(Ended::Refused(Refusal { cause: Cause::BadRequest, status }));
        }
        let line = heads.request.request_line;
        let line = client.head.get_mut(line.start as usize..line.end as usize);
        head::show_version(line.unwrap_or_default());
        // A stream that was reset while it waited for its turn costs no connection to an endpoint.
        let is_gone = poll_fn(|context| Poll::Ready(client.stream.poll_closed(context).is_ready()));
        if is_gone.await {
            return Err(Ended::Broken(Cause::ClientGone));
        }
        exchange.holds(0);
        Ok(())
    }

    fn head(&self) -> &[u8] {
        &self.head
    }

    fn head_mut(&mut self) -> &mut [u8] {
        &mut self.head
    }

    fn begin_body(&mut self, request: &RequestHead, _buffers: &Buffers) -> ReceivedBody {
        let framing = match request.framing {
            Framing::None => Framing::None,
            Framing::Length(_) | Framing::Chunked | Framing::UntilClose => Framing::UntilClose,
        };
        ReceivedBody { framing, raw: Vec::new() }
    }

    fn poll_gone(&mut self, context: &mut Context<'_>, _buffers: &Buffers) -> Poll<()> {
        self.stream.poll_closed(context)
    }

    fn response_form(
        &mut self,
        _scope: Scope<'_, N>,
        heads: &Heads,
        start: &ResponseStart,
    ) -> ResponseForm {
        self.responds_itself = start.relayed.is_none();
        let framing = match start.relayed.map(|response| (response.framing, response.status)) {
            Some((Framing::Length(length), _)) => BodyFraming::Length(length),
            Some((Framing::None, status))
                if heads.request.method == weir_wire::Method::Head || status == 304 =>
            {
                BodyFraming::AsReceived
            }
            _ => BodyFraming::None,
        };
        let (encoder, connection) = (Encoder::Sink, ConnectionLine::None);
        ResponseForm { framing, encoder, connection, next: Next::KeepAlive }
    }

    fn begin_response(&mut self, out: &mut Vec<u8>) -> u64 {
        let Some(mut head) = head::read_response(out) else { return 0 };
        if head.response.status() == StatusCode::SWITCHING_PROTOCOLS {
            // A WebSocket (RFC 8441 section 5); others are not offered to endpoints.
            *head.response.status_mut() = StatusCode::OK;
            head.response.headers_mut().remove(SEC_WEBSOCKET_ACCEPT);
            self.stream.becomes_tunnel();
        } else if self.asks_for_websocket && head.response.status().is_success() {
            // Over HTTP/2 any 2xx would open the WebSocket.
            *head.response.status_mut() = StatusCode::BAD_GATEWAY;
        }
        if self.responds_itself && head.response.status() == 408 {
            self.shared.note_stalled();
        }
        self.stream.begin_response(head.response);
        out.drain(..head.text_bytes);
        head.frame_bytes
    }

    fn end(&mut self, now: Instant) {
        self.shared.exchange_ended(now);
    }

    /// The client learns from the code of the reset that its response is incomplete.
    fn after_break(&self, _request: &RequestHead, cause: Cause) -> Next {
        if matches!(cause, Cause::ClientSendTimeout | Cause::ClientTooSlow | Cause::BodyTooSlow) {
            self.shared.note_stalled();
        }
        self.stream.reset.set(match cause {
            Cause::ClientGone
            | Cause::ClientSendTimeout
            | Cause::ClientTooSlow
            | Cause::BodyTooSlow
            | Cause::Shutdown => Reason::CANCEL,
            Cause::BadRequestBody => Reason::PROTOCOL_ERROR,
            Cause::Memory | Cause::ConnectionCap => Reason::ENHANCE_YOUR_CALM,
            _ => Reason::INTERNAL_ERROR,
        });
        Next::BreakOff
    }

    fn protocol(&self, _version: Version) -> &'static str {
        HTTP2
    }

    fn server_name(&self) -> Option<&str> {
        self.shared.server_name.as_deref()
    }

    fn local_address(&self, _net: &N) -> Option<SocketAddr> {
        self.shared.local
    }

    fn shrink(&mut self, _buffers: &Buffers) {
        self.head.shrink_to_fit();
    }
}
