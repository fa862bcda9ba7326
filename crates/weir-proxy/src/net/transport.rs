//! A connection, plain or inside TLS, on either side. It transfers bytes and knows no HTTP.

use std::io::{self, Write as _};
use std::pin::{Pin, pin};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::{TlsConnector, client, server};

use crate::limits::{TLS_STATE_BYTES, TLS_UNSENT_BYTES};
use crate::net::{Net, Socket};

/// A plain or TLS connection; the TLS state has an allocation of its own, so that plain connections
/// stay small.
pub(crate) enum Transport<S> {
    Plain(S),
    /// TLS with this process as the server.
    Server(Box<server::TlsStream<S>>),
    /// TLS with this process as the client.
    Client(Box<client::TlsStream<S>>),
}

impl<S> Transport<S> {
    /// The connection below TLS.
    pub(crate) fn socket(&self) -> &S {
        match self {
            Self::Plain(stream) => stream,
            Self::Server(stream) => stream.get_ref().0,
            Self::Client(stream) => stream.get_ref().0,
        }
    }

    /// The connection below TLS.
    pub(crate) fn socket_mut(&mut self) -> &mut S {
        match self {
            Self::Plain(stream) => stream,
            Self::Server(stream) => stream.get_mut().0,
            Self::Client(stream) => stream.get_mut().0,
        }
    }

    /// The name that a client asked for in its TLS handshake.
    pub(crate) fn server_name(&self) -> Option<&str> {
        match self {
            Self::Server(stream) => stream.get_ref().1.server_name(),
            Self::Plain(_) | Self::Client(_) => None,
        }
    }

    /// The protocol that a client's TLS handshake negotiated.
    pub(crate) fn alpn(&self) -> Option<&[u8]> {
        match self {
            Self::Server(stream) => stream.get_ref().1.alpn_protocol(),
            Self::Plain(_) | Self::Client(_) => None,
        }
    }

    /// The protocol that the handshake with an endpoint negotiated.
    pub(crate) fn upstream_alpn(&self) -> Option<&[u8]> {
        match self {
            Self::Client(stream) => stream.get_ref().1.alpn_protocol(),
            Self::Plain(_) | Self::Server(_) => None,
        }
    }

    /// Encrypts bytes for a client without sending the records, as far as there is room; a flush
    /// sends them. Returns the number of bytes; `None` without TLS.
    ///
    /// # Errors
    /// Those of TLS.
    pub(crate) fn enqueue(&mut self, pieces: &[io::IoSlice<'_>]) -> Option<io::Result<usize>> {
        let Self::Server(stream) = self else { return None };
        Some(stream.get_mut().1.writer().write_vectored(pieces))
    }

    /// The bytes of memory that TLS holds for the connection at most: its state, and the bytes that
    /// the peer has not taken yet.
    pub(crate) fn held(&self) -> usize {
        let has_unsent = match self {
            Self::Plain(_) => return 0,
            Self::Server(stream) => stream.get_ref().1.wants_write(),
            Self::Client(stream) => stream.get_ref().1.wants_write(),
        };
        TLS_STATE_BYTES + if has_unsent { TLS_UNSENT_BYTES } else { 0 }
    }
}

/// A connection to an endpoint, plain or inside TLS, that is registered with no worker's reactor.
pub(crate) struct Detached<A> {
    pub(crate) socket: A,
    session: Option<Box<ClientConnection>>,
}

impl<S: Socket> Transport<S> {
    /// Takes a connection to an endpoint from this worker.
    ///
    /// # Errors
    /// If bytes of it wait to be sent, or the reactor does not release it. The connection is then
    /// closed.
    pub(crate) fn detach<N: Net<Stream = S>>(self, net: &N) -> io::Result<Detached<N::Accepted>> {
        let (socket, session) = match self {
            Self::Plain(socket) => (socket, None),
            Self::Client(stream) => {
                let (socket, session) = stream.into_inner();
                (socket, Some(Box::new(session)))
            }
            Self::Server(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        if session.as_ref().is_some_and(|session| session.wants_write()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Detached { socket: net.detach(socket)?, session })
    }

    /// Makes a connection usable on this worker; `name` is the server name of its TLS.
    ///
    /// # Errors
    /// If it cannot be registered with this worker's reactor.
    pub(crate) fn attach<N: Net<Stream = S>>(
        detached: Detached<N::Accepted>,
        name: Option<&ServerName<'static>>,
        net: &N,
    ) -> io::Result<Self> {
        let Detached { socket, session } = detached;
        let socket = net.adopt(socket)?;
        let Some(session) = session else { return Ok(Self::Plain(socket)) };
        let (Some(name), Some(config)) = (name, placeholder()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        // tokio-rustls makes a stream only by connecting. The session that it begins is replaced
        // before a byte of it is sent; the handshake of the other one is complete, so that the
        // connect is ready at once.
        let connector = TlsConnector::from(config);
        let connect = connector.connect_with(name.clone(), socket, |begun| *begun = *session);
        match pin!(connect).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(stream) => Ok(Self::Client(Box::new(stream?))),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Does the same as [`Socket::poll_closed`], for the connection below TLS.
    pub(crate) fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.socket_mut().poll_closed(context)
    }
}

/// A configuration for sessions that are never used. Of TLS 1.2, because a session of TLS 1.3
/// computes a key at its beginning.
fn placeholder() -> Option<Arc<ClientConfig>> {
    static CONFIG: LazyLock<Option<Arc<ClientConfig>>> = LazyLock::new(|| {
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS12]).ok()?;
        let builder = builder.with_root_certificates(RootCertStore::empty());
        Some(Arc::new(builder.with_no_client_auth()))
    });
    CONFIG.clone()
}

macro_rules! each {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Transport::Plain($stream) => $call,
            Transport::Server($stream) => $call,
            Transport::Client($stream) => $call,
        }
    };
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Transport<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Transport<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
