//! A connection, plain or inside TLS, on either side. It transfers bytes and knows no HTTP.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::{client, server};

use crate::limits::{TLS_STATE_BYTES, TLS_UNSENT_BYTES};
use crate::net::Socket;

/// A plain or TLS connection; the TLS state has an allocation of its own, so that plain connections
/// stay small.
pub(crate) enum Transport<S> {
    Plain(S),
    /// We are the TLS server.
    Server(Box<server::TlsStream<S>>),
    /// We are the TLS client.
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

    /// The bytes of memory that TLS holds for the connection at most: its state, and what the peer
    /// has not taken yet.
    pub(crate) fn held(&self) -> usize {
        let has_unsent = match self {
            Self::Plain(_) => return 0,
            Self::Server(stream) => stream.get_ref().1.wants_write(),
            Self::Client(stream) => stream.get_ref().1.wants_write(),
        };
        TLS_STATE_BYTES + if has_unsent { TLS_UNSENT_BYTES } else { 0 }
    }
}

impl<S: Socket> Transport<S> {
    /// Does the same as [`Socket::poll_closed`], for the connection below TLS.
    pub(crate) fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Plain(stream) => stream.poll_closed(context),
            Self::Server(stream) => stream.get_mut().0.poll_closed(context),
            Self::Client(stream) => stream.get_mut().0.poll_closed(context),
        }
    }
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
