//! The stream of bytes between an exchange and its endpoint: a connection of its own, or a stream
//! of an HTTP/2 connection that others share. Both carry heads as HTTP/1 text.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::net::transport::{Detached, Transport};
use crate::net::{Net, Socket};
use crate::upstream::http2::stream::{EndpointStream, StreamLoss};

/// The stream of an exchange to its endpoint.
pub(crate) enum UpstreamStream<S> {
    /// A connection.
    Own(Transport<S>),
    /// A stream of HTTP/2.
    Shared(Box<EndpointStream>),
}

impl<S: Socket> UpstreamStream<S> {
    /// The socket, if it is a connection of its own.
    pub(crate) fn socket(&self) -> Option<&S> {
        match self {
            Self::Own(transport) => Some(transport.socket()),
            Self::Shared(_) => None,
        }
    }

    /// The bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        match self {
            Self::Own(transport) => transport.held(),
            Self::Shared(stream) => stream.held(),
        }
    }

    /// Returns true for a stream that frames bodies itself and has an end of its own.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    /// Returns true if the stream itself shows no more of a response than was read.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Own(_) => true,
            Self::Shared(stream) => stream.is_over(),
        }
    }

    /// The reason why a stream of HTTP/2 has failed.
    pub(crate) fn loss(&self) -> Option<StreamLoss> {
        match self {
            Self::Own(_) => None,
            Self::Shared(stream) => stream.loss(),
        }
    }

    /// Does the same as [`Transport::detach`]; no other worker can use a stream of HTTP/2.
    ///
    /// # Errors
    /// As there, and for such a stream.
    pub(crate) fn detach<N: Net<Stream = S>>(self, net: &N) -> io::Result<Detached<N::Accepted>> {
        match self {
            Self::Own(transport) => transport.detach(net),
            Self::Shared(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for UpstreamStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Own(transport) => Pin::new(transport).poll_read(context, buffer),
            Self::Shared(stream) => Pin::new(&mut **stream).poll_read(context, buffer),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for UpstreamStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Own(transport) => Pin::new(transport).poll_write(context, bytes),
            Self::Shared(stream) => Pin::new(&mut **stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Own(transport) => Pin::new(transport).poll_write_vectored(context, pieces),
            Self::Shared(stream) => Pin::new(&mut **stream).poll_write_vectored(context, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        !matches!(self, Self::Shared(_))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Own(transport) => Pin::new(transport).poll_flush(context),
            Self::Shared(stream) => Pin::new(&mut **stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Own(transport) => Pin::new(transport).poll_shutdown(context),
            Self::Shared(stream) => Pin::new(&mut **stream).poll_shutdown(context),
        }
    }
}
