//! The I/O abstraction: the operations that the data plane needs of a network, and no more. All
//! code above it is generic over [`Net`] and takes time from tokio's clock, so that the simulation
//! runs the real proxy. It implements no protocol.

pub mod bind;
pub(crate) mod buffers;
pub(crate) mod descriptors;
pub(crate) mod http2_body;
pub mod inherited;
pub(crate) mod input;
pub mod os_net;
pub(crate) mod page_cache;
pub mod proxy_header;
pub mod tcp_keepalive;
pub mod tls;
pub(crate) mod transport;

use std::borrow::Cow;
use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};
use weir_config::model::TcpKeepalive;
use weir_files::Stretch;

/// A connection's socket.
pub trait Socket: AsyncRead + AsyncWrite + Unpin + 'static {
    /// Ready once the peer has ended its side of the connection (FIN) or reset it, even while bytes
    /// that it sent before are unread. Unlike a read it consumes no bytes. The task is woken when
    /// that happens; bytes that arrive meanwhile may wake it, too.
    fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// Returns true if the connection was reset or has failed, as far as that has been reported.
    fn is_reset(&self) -> bool;

    /// Makes the close discard written bytes that were not sent yet, and reset the connection. A
    /// Unix socket has no such close: its peer reads the written bytes, and then the end.
    fn reset_on_close(&self);

    /// Announces that another write follows the next one at once, so that the bytes of both may
    /// leave in one packet. If none follows, the bytes are late by a fraction of a second.
    fn expect_more(&mut self) {}
}

/// The resolved address that an attempt connects to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PeerAddress {
    /// TCP.
    Socket(SocketAddr),
    /// A Unix stream socket; the path is empty for a client that bound none.
    Unix(PathBuf),
}

impl PeerAddress {
    /// The address, if it is one of TCP.
    pub(crate) fn socket(&self) -> Option<SocketAddr> {
        match self {
            Self::Socket(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

/// Converts an IPv4 address that is written as one of IPv6, as those of clients of a dual-stack
/// socket are, to IPv4, for rules and logs.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Returns the name by which the kernel knows a Unix socket: one that begins with `@` has no file,
/// and begins with a zero byte there.
pub fn socket_name(path: &Path) -> Cow<'_, Path> {
    match path.as_os_str().as_bytes().strip_prefix(b"@") {
        Some(name) => Cow::Owned(OsString::from_vec([b"\0", name].concat()).into()),
        None => Cow::Borrowed(path),
    }
}

/// A network: TCP and Unix sockets in production, a seeded simulation in tests.
pub trait Net: Clone + 'static {
    /// A connection on the worker that runs it.
    type Stream: Socket;
    /// A connection on its way from the accepting worker to the one that will run it.
    type Accepted: Send + 'static;
    /// A listening socket, on the worker that accepts.
    type Listener: 'static;

    /// Waits for the next connection and returns it with its peer's address.
    ///
    /// # Errors
    /// The errors of `accept(2)`; running out of file descriptors is one.
    fn accept(
        &self,
        listener: &Self::Listener,
    ) -> impl Future<Output = io::Result<(Self::Accepted, PeerAddress)>>;

    /// Makes an accepted connection usable on this worker.
    ///
    /// # Errors
    /// If it cannot be registered with this worker's reactor.
    fn adopt(&self, accepted: Self::Accepted) -> io::Result<Self::Stream>;

    /// Closes a connection that is not given to any worker.
    fn close(&self, accepted: Self::Accepted) {
        drop(accepted);
    }

    /// Takes a connection from this worker, with the bytes that arrived and were not read: the
    /// inverse of [`Net::adopt`].
    ///
    /// # Errors
    /// If the worker's reactor does not release it; the connection is then lost.
    fn detach(&self, stream: Self::Stream) -> io::Result<Self::Accepted>;

    /// Opens a connection to an endpoint.
    ///
    /// # Errors
    /// The errors of `connect(2)`.
    fn connect(&self, address: &PeerAddress) -> impl Future<Output = io::Result<Self::Stream>>;

    /// Opens a connection to an endpoint from this address of the machine; with port 0 the kernel
    /// chooses one. A simulated network has one address only.
    ///
    /// # Errors
    /// The errors of `bind(2)` and `connect(2)`.
    fn connect_from(
        &self,
        address: &PeerAddress,
        _from: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::Stream>> {
        self.connect(address)
    }

    /// The local address of a client connection.
    fn local_address(&self, stream: &Self::Stream) -> Option<SocketAddr>;

    /// Returns true if nothing arrived that was not read, neither bytes nor an end; it checks the
    /// socket itself.
    fn is_silent(&self, _stream: &Self::Stream) -> bool {
        true
    }

    /// Does the same as [`Net::is_silent`], for a connection that is on no worker.
    fn is_quiet(&self, _detached: &Self::Accepted) -> bool {
        true
    }

    /// Enables probes that detect that the peer has disappeared silently.
    fn keep_alive(&self, _stream: &Self::Stream, _probes: &TcpKeepalive) {}

    /// The number of written bytes that the peer has not acknowledged: those that a reader has not
    /// received yet, as far as the network knows.
    fn unacknowledged(&self, _stream: &Self::Stream) -> u64 {
        0
    }

    /// Sends bytes of a file without reading them into this process, and returns their number; 0
    /// means that the file ends before the stretch. `None` when the stretch has to be read and
    /// written instead: the network does not support this, or it might wait for a disk.
    fn poll_send_file(
        &self,
        _stream: &Self::Stream,
        _context: &mut Context<'_>,
        _stretch: Stretch<'_>,
    ) -> Option<Poll<io::Result<usize>>> {
        None
    }
}
