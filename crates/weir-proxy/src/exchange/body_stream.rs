//! The streams that bodies are read from and written to. A stream that frames bodies itself, as one
//! of HTTP/2 does, passes their trailers separately.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, Empty};

use crate::net::Socket;
use crate::net::transport::Transport;
use crate::upstream::upstream_stream::UpstreamStream;

/// A stream that bodies are read from.
pub(crate) trait BodySource: AsyncRead + Unpin {
    /// Takes the trailers, as lines, of the body that ended with the stream.
    fn take_trailers(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Takes what has come into memory of its own while the reader is not ready, if the stream
    /// shares a connection; its windows bound that.
    fn collect(&mut self, _context: &mut Context<'_>) {}
}

/// A stream that bodies are written to.
pub(crate) trait BodySink: AsyncWrite + Unpin {
    /// Sends the rest of a body that was written completely, and its end with these trailers, if
    /// the stream frames bodies itself.
    fn poll_end(&mut self, context: &mut Context<'_>, _trailers: &[u8]) -> Poll<io::Result<()>> {
        Pin::new(self).poll_flush(context)
    }

    /// Shuts the stream down, but without the end that TLS announces: its peer can tell that bytes
    /// may be missing.
    fn poll_break_off(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self).poll_shutdown(context)
    }
}

/// A stream both ways.
pub(crate) trait BodyStream: BodySource + BodySink {
    /// Does the same as [`Socket::poll_closed`].
    fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// Does the same as [`Socket::is_reset`].
    fn is_reset(&self) -> bool;

    /// Does the same as [`Socket::reset_on_close`]; a stream that is not a connection of its own
    /// has no such close.
    fn reset_on_close(&self) {}
}

impl<S: Socket> BodySource for Transport<S> {}

impl<S: Socket> BodySink for Transport<S> {
    fn poll_break_off(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.socket_mut()).poll_shutdown(context)
    }
}

impl<S: Socket> BodyStream for Transport<S> {
    fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        Self::poll_closed(self, context)
    }

    fn is_reset(&self) -> bool {
        self.socket().is_reset()
    }

    fn reset_on_close(&self) {
        self.socket().reset_on_close();
    }
}

impl<S: Socket> BodySource for UpstreamStream<S> {
    fn take_trailers(&mut self) -> Vec<u8> {
        match self {
            Self::Own(_) => Vec::new(),
            Self::Shared(stream) => stream.take_trailers(),
        }
    }

    fn collect(&mut self, context: &mut Context<'_>) {
        if let Self::Shared(stream) = self {
            stream.collect(context);
        }
    }
}

impl<S: Socket> BodySink for UpstreamStream<S> {
    fn poll_end(&mut self, context: &mut Context<'_>, trailers: &[u8]) -> Poll<io::Result<()>> {
        match self {
            Self::Own(transport) => transport.poll_end(context, trailers),
            Self::Shared(stream) => stream.poll_end(context, trailers),
        }
    }

    /// A stream of HTTP/2 has one end of a direction (RFC 8441 section 5), as TCP has; a reset
    /// would end the other direction too.
    fn poll_break_off(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Own(transport) => transport.poll_break_off(context),
            Self::Shared(stream) => Pin::new(&mut **stream).poll_shutdown(context),
        }
    }
}

impl<S: Socket> BodyStream for UpstreamStream<S> {
    fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Own(transport) => transport.poll_closed(context),
            Self::Shared(stream) => stream.poll_reset(context),
        }
    }

    fn is_reset(&self) -> bool {
        match self {
            Self::Own(transport) => transport.socket().is_reset(),
            Self::Shared(stream) => stream.loss().is_some(),
        }
    }

    fn reset_on_close(&self) {
        if let Self::Own(transport) = self {
            transport.socket().reset_on_close();
        }
    }
}

impl BodySource for Empty {}
