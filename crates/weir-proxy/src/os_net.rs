//! [`Net`] on the operating system's sockets: TCP and Unix streams through tokio.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::net::{SocketFlags, acceptfrom_with};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::net::{Net, PeerAddress};

/// The real network.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsNet;

/// A listening socket on the worker that accepts from it.
pub struct OsListener {
    socket: AsyncFd<OwnedFd>,
    unix: bool,
}

impl OsListener {
    /// Registers a bound, listening, non-blocking socket with this thread's runtime.
    ///
    /// # Errors
    /// When the reactor refuses it.
    pub fn new(socket: OwnedFd, unix: bool) -> io::Result<Self> {
        // SAFETY: an `OwnedFd` names the same open descriptor until it is dropped, and `AsyncFd` deregisters before that.
        let socket = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) };
        Ok(Self { socket: socket.map_err(io::Error::from)?, unix })
    }
}

/// An accepted socket, not yet registered with any reactor.
pub struct OsAccepted {
    socket: OwnedFd,
    unix: bool,
}

/// A TCP or Unix stream.
pub enum OsStream {
    /// TCP.
    Tcp(TcpStream),
    /// Unix.
    Unix(UnixStream),
}

impl Net for OsNet {
    type Stream = OsStream;
    type Accepted = OsAccepted;
    type Listener = OsListener;

    async fn accept(&self, listener: &OsListener) -> io::Result<(OsAccepted, PeerAddress)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let accept = |socket: &OwnedFd| Ok(acceptfrom_with(socket.as_fd(), flags)?);
        let (socket, peer) = listener.socket.async_io(Interest::READABLE, accept).await?;
        let peer = match peer.and_then(|address| SocketAddr::try_from(address).ok()) {
            Some(address) => PeerAddress::Socket(canonical(address)),
            None => PeerAddress::Unix(PathBuf::new()),
        };
        Ok((OsAccepted { socket, unix: listener.unix }, peer))
    }

    fn adopt(&self, accepted: OsAccepted) -> io::Result<OsStream> {
        if accepted.unix {
            return UnixStream::from_std(accepted.socket.into()).map(OsStream::Unix);
        }
        TcpStream::from_std(accepted.socket.into()).map(OsStream::Tcp)
    }

    async fn connect(&self, address: &PeerAddress) -> io::Result<OsStream> {
        match address {
            PeerAddress::Socket(address) => {
                let stream = TcpStream::connect(*address).await?;
                stream.set_nodelay(true)?;
                Ok(OsStream::Tcp(stream))
            }
            PeerAddress::Unix(path) => UnixStream::connect(path).await.map(OsStream::Unix),
        }
    }

    fn local_address(&self, stream: &OsStream) -> Option<SocketAddr> {
        match stream {
            OsStream::Tcp(stream) => stream.local_addr().ok().map(canonical),
            OsStream::Unix(_) => None,
        }
    }
}

/// An IPv4 client of a dual-stack socket is an IPv4 client, in rules and logs.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

macro_rules! each {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            OsStream::Tcp($stream) => $call,
            OsStream::Unix($stream) => $call,
        }
    };
}

impl AsyncRead for OsStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for OsStream {
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

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
