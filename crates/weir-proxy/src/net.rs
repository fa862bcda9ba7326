//! The I/O seam: what the data plane needs of a network, and nothing more. Everything above it is generic over
//! [`Net`] and takes time from tokio's clock, so that the simulation runs the real proxy. It does no protocol.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};
use weir_config::model::TcpKeepalive;
use weir_files::Stretch;

/// A connection's socket.
pub trait Socket: AsyncRead + AsyncWrite + Unpin + 'static {
    /// Ready once the peer has ended its side of the connection (FIN) or reset it, even while bytes that it sent before lie unread.
    /// Unlike a read it takes none of them. The task is woken by then; bytes that come meanwhile may wake it, too.
    fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// Tells whether the connection was reset or has failed, as far as that was reported.
    fn is_reset(&self) -> bool;

    /// Has the close discard bytes that were written and not sent yet, and reset the connection. A Unix socket has no such
    /// close: its peer reads what was written, and then the end.
    fn reset_on_close(&self);
}

/// Where an attempt connects to, resolved.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PeerAddress {
    /// TCP.
    Socket(SocketAddr),
    /// A Unix stream socket; the path is empty for a client that bound none.
    Unix(PathBuf),
}

/// A network: TCP and Unix sockets in production, a seeded simulation in tests.
pub trait Net: Clone + 'static {
    /// A connection on the worker that runs it.
    type Stream: Socket;
    /// A connection on its way from the accepting worker to the one that will run it.
    type Accepted: Send + 'static;
    /// A listening socket, on the worker that accepts.
    type Listener: 'static;

    /// Waits for the next connection and says who it is.
    ///
    /// # Errors
    /// What `accept(2)` reports; running out of file descriptors is one.
    fn accept(
        &self,
        listener: &Self::Listener,
    ) -> impl Future<Output = io::Result<(Self::Accepted, PeerAddress)>>;

    /// Makes an accepted connection usable on this worker.
    ///
    /// # Errors
    /// When it cannot be registered with this worker's reactor.
    fn adopt(&self, accepted: Self::Accepted) -> io::Result<Self::Stream>;

    /// Closes a connection that no worker is to have.
    fn close(&self, accepted: Self::Accepted) {
        drop(accepted);
    }

    /// Takes a connection from this worker, with what has come and was not read: the inverse of [`Net::adopt`].
    ///
    /// # Errors
    /// When the worker's reactor does not let it go; the connection is lost then.
    fn detach(&self, stream: Self::Stream) -> io::Result<Self::Accepted>;

    /// Opens a connection to an endpoint.
    ///
    /// # Errors
    /// What `connect(2)` reports.
    fn connect(&self, address: &PeerAddress) -> impl Future<Output = io::Result<Self::Stream>>;

    /// The address clients reached us at.
    fn local_address(&self, stream: &Self::Stream) -> Option<SocketAddr>;

    /// Whether nothing has come that was not read, neither bytes nor an end: a look at the socket itself.
    fn is_silent(&self, _stream: &Self::Stream) -> bool {
        true
    }

    /// Has the network find out when the other end of a connection of ours is gone without a word.
    fn keep_alive(&self, _stream: &Self::Stream, _probes: &TcpKeepalive) {}

    /// Bytes written that the other end has not acknowledged: what a reader has not taken yet, as far as the network knows.
    fn unacknowledged(&self, _stream: &Self::Stream) -> u64 {
        0
    }

    /// Sends bytes of a file without reading them into this process, and says how many; 0 means that the file ends before them.
    /// `None` when this stretch has to be read and written instead: the network cannot, or it might wait for a disk.
    fn poll_send_file(
        &self,
        _stream: &Self::Stream,
        _context: &mut Context<'_>,
        _stretch: Stretch<'_>,
    ) -> Option<Poll<io::Result<usize>>> {
        None
    }
}
