//! The client's side of a TCP connection whose bytes are passed on: one exchange without a head,
//! whose body is all that the client sends.

use std::net::SocketAddr;
use std::task::{Context, Poll, ready};

use weir_stats::{Cause, Preread, TCP};
use weir_wire::{Framing, RequestHead, Span, Version};

use crate::connection::client_connection::Connection;
use crate::exchange::client_side::{
    ClientSide, ConnectionFacts, ReceivedBody, ResponseForm, ResponseStart,
};
use crate::exchange::outcome::{Ended, Next};
use crate::exchange::pump::Encoder;
use crate::exchange::scope::Scope;
use crate::exchange::state::Exchange;
use crate::http::head_writer::{BodyFraming, ConnectionLine};
use crate::limits::TUNNEL_LOOK;
use crate::net::buffers::Buffers;
use crate::net::tls::{Beginning, read_beginning};
use crate::net::transport::Transport;
use crate::net::{Net, Socket};
use crate::snapshot::ServerNames;
use crate::time::deadline_timer::{DeadlineTimer, Elapsed, before};
use crate::time::instant::Instant;
use crate::worker::sessions::SessionKey;
use crate::worker::workspace::Heads;

/// A TCP connection during its exchange.
pub(crate) struct TcpClient<'a, N: Net> {
    connection: &'a mut Connection<N>,
    /// The bytes that were received before the tunnel begins.
    early: Vec<u8>,
    /// The name that the client asks for in its TLS handshake, if routes depend on it.
    name: Vec<u8>,
    /// The application protocols that it offers there, separated by commas, and the highest version
    /// of TLS.
    alpn_protocols: Vec<u8>,
    tls_version: &'static str,
    /// The timer of the looks at a client that has ended its side and waits.
    look: DeadlineTimer,
}

impl<'a, N: Net> TcpClient<'a, N> {
    pub(crate) fn new(connection: &'a mut Connection<N>) -> Self {
        let look = DeadlineTimer::default();
        Self {
            connection,
            early: Vec::new(),
            name: Vec::new(),
            alpn_protocols: Vec::new(),
            tls_version: "",
            look,
        }
    }

    /// Reads the requests of the client in its TLS handshake. A client that sends no `ClientHello`
    /// in time is taken for one that asks for nothing.
    async fn read_hello(
        &mut self,
        scope: Scope<'_, N>,
        session: SessionKey,
        since: Instant,
    ) -> Result<(), Ended> {
        let Connection { client, timer, .. } = &mut *self.connection;
        if let Some(name) = client.server_name() {
            self.name = name.into();
            return Ok(());
        }
        if !matches!(client, Transport::Plain(_)) {
            return Ok(());
        }
        let deadline = since + scope.listener.timeouts.handshake;
        let holds = |bytes| scope.holds(session, bytes);
        match before(timer, deadline, read_beginning(client, &mut self.early, holds)).await {
            Ok(Ok(Beginning::Hello(hello))) => {
                self.name = hello.name.into_bytes();
                self.alpn_protocols = hello.alpn_protocols;
                self.tls_version = hello.protocol;
                Ok(())
            }
            Ok(Ok(Beginning::Other)) | Err(Elapsed) => Ok(()),
            Ok(Ok(Beginning::Excessive)) => Err(Cause::BadRequest.into()),
            Ok(Ok(Beginning::Empty) | Err(_)) => Err(Ended::Broken(Cause::ClientGone)),
        }
    }
}

impl<N: Net> ClientSide for TcpClient<'_, N> {
    type Net = N;
    type Stream = Transport<N::Stream>;

    const SHARES_CONNECTIONS: bool = false;

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
        self.early.capacity()
            + self.name.capacity()
            + self.alpn_protocols.capacity()
            + self.connection.client.held()
    }

    /// A connection has no head, but may have a name, which takes the place of the host.
    async fn read_head(exchange: &mut Exchange<'_, Self>) -> Result<(), Ended> {
        let Exchange { scope, session, client, heads, arrival, .. } = exchange;
        if scope.listener.server_names == ServerNames::Unread {
            return Ok(());
        }
        client.read_hello(*scope, *session, arrival.first_byte).await?;
        heads.request.host = Span { start: 0, end: client.name.len() as u32 };
        arrival.head_end = Instant::now();
        exchange.holds(0);
        Ok(())
    }

    fn head(&self) -> &[u8] {
        &self.name
    }

    fn head_mut(&mut self) -> &mut [u8] {
        &mut self.name
    }

    fn begin_body(&mut self, _request: &RequestHead, _buffers: &Buffers) -> ReceivedBody {
        ReceivedBody { framing: Framing::UntilClose, raw: self.early.clone() }
    }

    /// A client that has ended its side only may still be waiting for bytes: only a reset ends the
    /// connection. After that end nothing wakes the task for one, so it looks.
    fn poll_gone(&mut self, context: &mut Context<'_>, _buffers: &Buffers) -> Poll<()> {
        let stream = &mut self.connection.client;
        loop {
            ready!(stream.poll_closed(context));
            if stream.socket().is_reset() {
                return Poll::Ready(());
            }
            ready!(self.look.poll(context, Instant::now() + TUNNEL_LOOK));
        }
    }

    fn response_form(
        &mut self,
        _scope: Scope<'_, N>,
        _heads: &Heads,
        _start: &ResponseStart,
    ) -> ResponseForm {
        let (framing, encoder) = (BodyFraming::None, Encoder::Plain);
        ResponseForm { framing, encoder, connection: ConnectionLine::None, next: Next::Close }
    }

    fn begin_response(&mut self, _out: &mut Vec<u8>) -> u64 {
        0
    }

    fn end(&mut self, now: Instant) {
        self.connection.facts.since = now;
    }

    fn protocol(&self, _version: Version) -> &'static str {
        TCP
    }

    fn server_name(&self) -> Option<&str> {
        self.connection.client.server_name()
    }

    fn alpn(&self) -> Option<&[u8]> {
        self.connection.client.alpn()
    }

    fn preread(&self) -> Preread<'_> {
        Preread { protocol: self.tls_version, alpn_protocols: &self.alpn_protocols }
    }

    fn local_address(&self, net: &N) -> Option<SocketAddr> {
        net.local_address(self.connection.client.socket())
    }

    fn take_early_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.early)
    }
}
