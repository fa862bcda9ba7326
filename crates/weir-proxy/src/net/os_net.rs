//! [`Net`] on the operating system's sockets: TCP and Unix streams through tokio. It implements no
//! protocol.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use rustix::fs::sendfile;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, SocketFlags, acceptfrom_with, recv, send};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio::task::coop::cooperative;
use weir_config::model::TcpKeepalive;
use weir_files::Stretch;

use crate::net::descriptors::Listed;
use crate::net::page_cache;
use crate::net::tcp_keepalive;
use crate::net::{Net, PeerAddress, Socket, canonical, socket_name};

/// The real network.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsNet;

/// A listening socket on the worker that accepts from it.
pub struct OsListener {
    socket: AsyncFd<Arc<OwnedFd>>,
    unix: bool,
}

impl OsListener {
    /// Registers a bound, listening, non-blocking socket with this thread's runtime.
    ///
    /// # Errors
    /// If the reactor refuses it.
    pub fn new(socket: Arc<OwnedFd>, unix: bool) -> io::Result<Self> {
        // SAFETY: an `OwnedFd`, shared or not, names the same open descriptor until it is dropped,
        // and `AsyncFd` deregisters before that.
        let socket = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) };
        Ok(Self { socket: socket.map_err(io::Error::from)?, unix })
    }
}

/// An accepted socket, not yet registered with any reactor.
pub struct OsAccepted {
    socket: OwnedFd,
    unix: bool,
}

impl OsAccepted {
    /// Wraps a connected non-blocking stream socket, TCP or Unix.
    pub fn new(socket: OwnedFd, unix: bool) -> Self {
        Self { socket, unix }
    }

    /// Its socket.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A TCP or Unix stream.
pub struct OsStream {
    /// Dropped before the socket.
    listed: Listed,
    socket: Kind,
    /// Set if the last write was partial, so that the reactor is asked before the next write.
    full: bool,
    /// Set if the socket has unread bytes although the reactor was told that there are none, so
    /// that it reports a close by the peer ([`Socket::poll_closed`]): the next read does not ask
    /// the reactor.
    unread: bool,
    /// Set if another write follows the next one at once.
    more: bool,
}

enum Kind {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl From<TcpStream> for OsStream {
    fn from(stream: TcpStream) -> Self {
        let listed = Listed::new(&stream);
        Self { listed, socket: Kind::Tcp(stream), full: false, unread: false, more: false }
    }
}

impl From<UnixStream> for OsStream {
    fn from(stream: UnixStream) -> Self {
        let listed = Listed::new(&stream);
        Self { listed, socket: Kind::Unix(stream), full: false, unread: false, more: false }
    }
}

impl Net for OsNet {
    type Stream = OsStream;
    type Accepted = OsAccepted;
    type Listener = OsListener;

    async fn accept(&self, listener: &OsListener) -> io::Result<(OsAccepted, PeerAddress)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let accept = |socket: &Arc<OwnedFd>| Ok(acceptfrom_with(socket.as_fd(), flags)?);
        let (socket, peer) = listener.socket.async_io(Interest::READABLE, accept).await?;
        let peer = match peer.and_then(|address| SocketAddr::try_from(address).ok()) {
            Some(address) => PeerAddress::Socket(canonical(address)),
            None => PeerAddress::Unix(PathBuf::new()),
        };
        Ok((OsAccepted { socket, unix: listener.unix }, peer))
    }

    fn adopt(&self, accepted: OsAccepted) -> io::Result<OsStream> {
        if accepted.unix {
            return UnixStream::from_std(accepted.socket.into()).map(OsStream::from);
        }
        TcpStream::from_std(accepted.socket.into()).map(OsStream::from)
    }

    fn detach(&self, stream: OsStream) -> io::Result<OsAccepted> {
        let OsStream { listed, socket, .. } = stream;
        drop(listed);
        Ok(match socket {
            Kind::Tcp(stream) => OsAccepted::new(stream.into_std()?.into(), false),
            Kind::Unix(stream) => OsAccepted::new(stream.into_std()?.into(), true),
        })
    }

    async fn connect(&self, address: &PeerAddress) -> io::Result<OsStream> {
        match address {
            PeerAddress::Socket(address) => {
                let stream = TcpStream::connect(*address).await?;
                stream.set_nodelay(true)?;
                Ok(stream.into())
            }
            PeerAddress::Unix(path) => {
                UnixStream::connect(socket_name(path)).await.map(OsStream::from)
            }
        }
    }

    async fn connect_from(&self, address: &PeerAddress, from: SocketAddr) -> io::Result<OsStream> {
        match address {
            PeerAddress::Socket(address) => {
                let stream = connect_from(*address, from).await?;
                stream.set_nodelay(true)?;
                Ok(stream.into())
            }
            PeerAddress::Unix(_) => self.connect(address).await,
        }
    }

    fn local_address(&self, stream: &OsStream) -> Option<SocketAddr> {
        match &stream.socket {
            Kind::Tcp(stream) => stream.local_addr().ok().map(canonical),
            Kind::Unix(_) => None,
        }
    }

    fn is_silent(&self, stream: &OsStream) -> bool {
        match &stream.socket {
            Kind::Tcp(stream) => has_nothing(stream.as_fd()),
            Kind::Unix(stream) => has_nothing(stream.as_fd()),
        }
    }

    fn is_quiet(&self, detached: &OsAccepted) -> bool {
        has_nothing(detached.socket())
    }

    fn keep_alive(&self, stream: &OsStream, probes: &TcpKeepalive) {
        if let Kind::Tcp(stream) = &stream.socket {
            tcp_keepalive::set(stream.as_fd(), probes);
        }
    }

    fn unacknowledged(&self, stream: &OsStream) -> u64 {
        let Kind::Tcp(stream) = &stream.socket else { return 0 };
        let mut bytes: libc::c_int = 0;
        // SAFETY: `TIOCOUTQ` writes one `int` to the given address, and the descriptor is open as
        // long as the stream is.
        let outcome = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        if outcome == 0 { u64::try_from(bytes).unwrap_or(0) } else { 0 }
    }

    fn poll_send_file(
        &self,
        stream: &OsStream,
        context: &mut Context<'_>,
        stretch: Stretch<'_>,
    ) -> Option<Poll<io::Result<usize>>> {
        let Kind::Tcp(stream) = &stream.socket else { return None };
        let send = || {
            let mut offset = stretch.offset;
            let sent =
                retry_on_intr(|| sendfile(stream, stretch.file, Some(&mut offset), stretch.bytes));
            sent.map_err(io::Error::from)
        };
        loop {
            match stream.poll_write_ready(context) {
                Poll::Ready(Ok(())) => {}
                other => return Some(other.map_ok(|()| 0)),
            }
            // Checked again after each wait: pages that were in memory before it may have been
            // evicted.
            if !page_cache::holds(stretch) {
                return None;
            }
            match stream.try_io(Interest::WRITABLE, send) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if is_of_the_file(&error) => return None,
                outcome => return Some(Poll::Ready(outcome)),
            }
        }
    }
}

/// Opens a TCP connection from this address of the machine. With port 0 the kernel chooses one when
/// the other end is known, so that connections to several servers can share it.
///
/// # Errors
/// Those of `connect(2)`, and a sentence if the address cannot be used.
pub async fn connect_from(address: SocketAddr, from: SocketAddr) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if from.port() == 0 {
        let on: libc::c_int = 1;
        // SAFETY: the kernel reads one `int` at the given address, and the descriptor is open. An
        // error only means that ports run out sooner.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_IP,
                libc::IP_BIND_ADDRESS_NO_PORT,
                (&raw const on).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            );
        }
    } else {
        // The port may still belong to connections that have ended.
        socket.set_reuseaddr(true)?;
    }
    // Without the number: it is no shortage, which would be tried again.
    let unusable = |error| {
        let hint = match error {
            Errno::ACCESS => {
                "; the sandbox allows the ports of `source` at the start alone: upgrade the process"
            }
            _ => "",
        };
        io::Error::other(format!("cannot connect from {from} (`source`): {error}{hint}"))
    };
    socket.bind(from).map_err(|error| match Errno::from_io_error(&error) {
        Some(number) => unusable(number),
        None => error,
    })?;
    socket.connect(address).await
}

/// Returns true if nothing arrived on a socket that was not read, neither bytes nor an end.
fn has_nothing(socket: BorrowedFd<'_>) -> bool {
    let peeked = recv(socket, &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    matches!(peeked, Err(Errno::AGAIN))
}

/// Returns true if a read failed only because no bytes are there yet, or a signal came first.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Returns true if `sendfile` failed because of the file; a normal read then works or reports the
/// file's error.
fn is_of_the_file(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|errno| {
        matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::IO)
    })
}

macro_rules! each {
    ($self:ident, $stream:ident => $call:expr) => {
        match &mut $self.socket {
            Kind::Tcp($stream) => $call,
            Kind::Unix($stream) => $call,
        }
    };
}

impl OsStream {
    /// Sends without asking the reactor, because the socket usually takes all bytes at once. `None`
    /// if the write must go through the reactor.
    fn send_at_once(&mut self, bytes: &[u8]) -> Option<io::Result<usize>> {
        let mut flags = SendFlags::NOSIGNAL;
        if std::mem::take(&mut self.more) {
            flags |= SendFlags::MORE;
        }
        if self.full {
            return None;
        }
        let sent = each!(self, stream => send(&*stream, bytes, flags));
        match sent {
            Ok(sent) => {
                if sent < bytes.len() {
                    self.note_full();
                }
                Some(Ok(sent))
            }
            Err(Errno::AGAIN) => {
                self.note_full();
                None
            }
            Err(Errno::INTR) => None,
            Err(error) => Some(Err(error.into())),
        }
    }

    /// Reads without asking the reactor. `None` when no bytes were there, which the reactor knows
    /// already.
    #[cold]
    fn read_at_once(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Option<Poll<io::Result<()>>> {
        // Uses the task's budget, as a read through the reactor does.
        let proceeds = std::pin::pin!(cooperative(std::future::ready(()))).poll(context);
        if proceeds.is_pending() {
            return Some(Poll::Pending);
        }
        // SAFETY: only the kernel writes to the memory, so no byte of it becomes uninitialised.
        let room = unsafe { buffer.unfilled_mut() };
        let most = room.len();
        let read = each!(self, stream => recv(&*stream, room, RecvFlags::empty()));
        match read.map(|((filled, _), _)| filled.len()) {
            Ok(read) => {
                self.unread = read == most;
                // SAFETY: the kernel has written this many bytes.
                unsafe { buffer.assume_init(read) };
                buffer.advance(read);
                Some(Poll::Ready(Ok(())))
            }
            Err(Errno::AGAIN | Errno::INTR) => {
                self.unread = false;
                None
            }
            Err(error) => Some(Poll::Ready(Err(error.into()))),
        }
    }

    /// Reads from a socket of which the reactor knows that it is readable. `None` if that was not
    /// so. A read that does not fill the buffer tells the reactor that the socket is empty, as one
    /// through tokio does; unlike that it is no point of cancellation for libc.
    #[inline]
    fn receive(&mut self, buffer: &mut ReadBuf<'_>) -> Option<io::Result<()>> {
        // SAFETY: only the kernel writes to the memory, so no byte of it becomes uninitialised.
        let room = unsafe { buffer.unfilled_mut() };
        let (most, mut received) = (room.len(), None);
        let outcome = each!(self, stream => stream.try_io(Interest::READABLE, || {
            let ((filled, _), _) = recv(&*stream, &mut *room, RecvFlags::empty())?;
            let read = filled.len();
            received = Some(read);
            if (1..most).contains(&read) { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        }));
        if let Some(read) = received {
            // SAFETY: the kernel has written this many bytes.
            unsafe { buffer.assume_init(read) };
            buffer.advance(read);
            return Some(Ok(()));
        }
        match outcome {
            Err(error) if is_passing(&error) => None,
            outcome => Some(outcome),
        }
    }

    /// Asks the reactor to report when there is room again.
    fn note_full(&mut self) {
        self.full = true;
        let full = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        let _ = each!(self, stream => stream.try_io(Interest::WRITABLE, full));
    }
}

impl Socket for OsStream {
    fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            // Pending means that there are no bytes, and that the task will be woken.
            if ready!(each!(self, stream => stream.poll_read_ready(context))).is_err() {
                return Poll::Ready(());
            }
            // Ready at once, because the socket is readable.
            let readiness = each!(self, stream => {
                let ready = std::pin::pin!(stream.ready(Interest::READABLE));
                ready.poll(&mut Context::from_waker(Waker::noop()))
            });
            match readiness {
                Poll::Ready(Ok(ready)) if !ready.is_read_closed() => {}
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => continue,
            }
            // There are bytes but no end yet. The reactor reports the end only to a task that waits
            // for something to read.
            self.unread = true;
            let unread = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
            let _ = each!(self, stream => stream.try_io(Interest::READABLE, unread));
        }
    }

    fn is_reset(&self) -> bool {
        let reported = match &self.socket {
            Kind::Tcp(stream) => poll_once(stream.ready(Interest::ERROR)),
            Kind::Unix(stream) => poll_once(stream.ready(Interest::ERROR)),
        };
        matches!(reported, Poll::Ready(Err(_)))
            || matches!(reported, Poll::Ready(Ok(ready)) if ready.is_error())
    }

    fn reset_on_close(&self) {
        if let Kind::Tcp(stream) = &self.socket {
            // It fails for a connection that has ended, where nothing is left to discard.
            let _ =
                rustix::net::sockopt::set_socket_linger(stream, Some(std::time::Duration::ZERO));
        }
    }

    fn expect_more(&mut self) {
        self.more = true;
    }
}

/// Polls a future once, without a waker.
fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

impl AsyncRead for OsStream {
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.unread
            && let Some(read) = self.read_at_once(cx, buffer)
        {
            return read;
        }
        loop {
            ready!(each!(self, stream => stream.poll_read_ready(cx)))?;
            if let Some(read) = self.receive(buffer) {
                return Poll::Ready(read);
            }
        }
    }
}

impl AsyncWrite for OsStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(sent) = self.send_at_once(bytes) {
            return Poll::Ready(sent);
        }
        let sent = ready!(each!(self, stream => Pin::new(stream).poll_write(cx, bytes)))?;
        // After a partial write the reactor knows already that the socket is full.
        self.full = sent < bytes.len();
        Poll::Ready(Ok(sent))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // Records of TLS come alone as a rule.
        if let [bytes] = slices {
            return self.poll_write(cx, bytes);
        }
        // Only a single record is announced to the kernel as one that others follow.
        self.more = false;
        each!(self, stream => Pin::new(stream).poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.more = false;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::net::page_cache::tests::fresh_file;

    /// A connected stream and its peer.
    async fn connected() -> (OsStream, std::net::TcpStream) {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (stream.into(), listener.accept().unwrap().0)
    }

    /// Calls [`Net::poll_send_file`] until it has sent bytes, or returns `None` as it does.
    async fn send_file(stream: &OsStream, stretch: Stretch<'_>) -> Option<usize> {
        let sent =
            std::future::poll_fn(|context| match OsNet.poll_send_file(stream, context, stretch) {
                None => Poll::Ready(None),
                Some(sent) => sent.map(Some),
            });
        sent.await.map(Result::unwrap)
    }

    #[tokio::test]
    async fn sendfile_sends_only_a_stretch_that_is_in_memory() {
        let (stream, mut client) = connected().await;
        let content: Vec<u8> = (0..100_000_u32).map(|number| (number % 251) as u8).collect();
        let (file, tells) = fresh_file(&content, 300_000);
        let stretch = |offset, bytes| Stretch { file: file.as_fd(), offset, bytes };
        assert_eq!(send_file(&stream, stretch(90_000, 100_000)).await, None);
        let sent = send_file(&stream, stretch(5, 20_000)).await;
        assert_eq!(sent.is_some(), tells);
        let sent = sent.unwrap_or_default();
        assert!(!tells || (1..=20_000).contains(&sent), "{sent}");
        let mut arrived = vec![0; sent];
        client.read_exact(&mut arrived).unwrap();
        assert_eq!(arrived, content[5..5 + sent]);
    }

    #[tokio::test]
    async fn writes_to_a_full_socket_wait_and_lose_no_byte() {
        let (mut stream, mut client) = connected().await;
        let sent: Vec<u8> = (0..8_000_000_u32).map(|number| (number % 251) as u8).collect();
        let mut at = 0;
        while let Some(taken) = now_or_never(Pin::new(&mut stream).write(&sent[at..])) {
            at += taken.unwrap();
        }
        assert!(stream.full && at < sent.len(), "{at}");
        let reader = std::thread::spawn(move || {
            let mut arrived = Vec::new();
            client.read_to_end(&mut arrived).unwrap();
            arrived
        });
        stream.write_all(&sent[at..]).await.unwrap();
        stream.shutdown().await.unwrap();
        assert_eq!(reader.join().unwrap(), sent);
    }

    #[tokio::test]
    async fn a_write_that_another_one_follows_waits_for_it() {
        let (mut stream, mut client) = connected().await;
        client.set_nonblocking(true).unwrap();
        // The kernel waits for a fraction of a second, in which a test may be interrupted.
        for _ in 0..20 {
            stream.expect_more();
            stream.write_all(b"first ").await.unwrap();
            let came_alone = client.read(&mut [0; 20]).is_ok();
            stream.write_all(b"second").await.unwrap();
            client.set_nonblocking(false).unwrap();
            let mut came = [0; 20];
            let count = client.read(&mut came).unwrap();
            if !came_alone {
                assert_eq!(&came[..count], b"first second");
                return;
            }
            client.set_nonblocking(true).unwrap();
        }
        panic!("the first bytes never waited");
    }

    #[tokio::test]
    async fn an_announced_write_is_the_next_one_only() {
        let (mut stream, _client) = connected().await;
        stream.expect_more();
        let slices = [io::IoSlice::new(b"one"), io::IoSlice::new(b"two")];
        assert_eq!(stream.write_vectored(&slices).await.unwrap(), 6);
        assert!(!stream.more, "several slices");
        stream.expect_more();
        stream.flush().await.unwrap();
        assert!(!stream.more, "a flush");
    }

    #[tokio::test]
    async fn a_write_to_a_client_that_has_closed_fails() {
        let (mut stream, client) = connected().await;
        drop(client);
        while stream.write(b"nobody reads this").await.is_ok() {
            tokio::task::yield_now().await;
        }
    }

    /// Waits until the reactor has reported the close, for at most `millis`.
    async fn closed_within(stream: &mut OsStream, millis: u64) -> bool {
        let closed = std::future::poll_fn(|context| stream.poll_closed(context));
        tokio::time::timeout(std::time::Duration::from_millis(millis), closed).await.is_ok()
    }

    #[tokio::test]
    async fn a_close_is_reported_while_bytes_before_it_are_unread() {
        use std::io::Write;
        for sends in [0, 10, 100_000] {
            for resets in [false, true] {
                let (mut stream, mut client) = connected().await;
                let sent = vec![b'x'; sends];
                client.write_all(&sent).unwrap();
                if sends > 10 {
                    // Some of the bytes are read, as many as there is room for.
                    stream.read_exact(&mut [0; 1000]).await.unwrap();
                }
                assert!(!closed_within(&mut stream, 20).await);
                if resets {
                    socket2::SockRef::from(&client)
                        .set_linger(Some(std::time::Duration::ZERO))
                        .unwrap();
                    drop(client);
                } else {
                    client.shutdown(std::net::Shutdown::Write).unwrap();
                }
                assert!(closed_within(&mut stream, 20_000).await, "{sends} {resets}");
            }
        }
    }

    #[tokio::test]
    async fn bytes_left_unread_while_waiting_for_a_close_are_read_afterwards() {
        use std::io::Write;
        let (mut stream, mut client) = connected().await;
        let sent: Vec<u8> = (0..100_000_u32).map(|number| (number % 251) as u8).collect();
        client.write_all(&sent).unwrap();
        assert!(!closed_within(&mut stream, 20).await);
        let mut came = vec![0; 90_000];
        stream.read_exact(&mut came[..50_000]).await.unwrap();
        assert!(!closed_within(&mut stream, 20).await);
        stream.read_exact(&mut came[50_000..]).await.unwrap();
        assert_eq!(came, sent[..90_000]);
        let mut rest = vec![0; 10_010];
        let later = std::thread::spawn(move || {
            client.write_all(b"some later").unwrap();
            client
        });
        stream.read_exact(&mut rest).await.unwrap();
        assert_eq!((&rest[..10_000], &rest[10_000..]), (&sent[90_000..], &b"some later"[..]));
        let mut client = later.join().unwrap();
        // No bytes are left: the reactor is asked again.
        assert!(now_or_never(stream.read(&mut came)).is_none());
        client.write_all(b"more").unwrap();
        assert_eq!(stream.read(&mut came).await.unwrap(), 4);
        drop(client);
        assert_eq!(stream.read(&mut came).await.unwrap(), 0);
    }

    fn now_or_never<T>(future: impl Future<Output = T>) -> Option<T> {
        let mut context = Context::from_waker(std::task::Waker::noop());
        match std::pin::pin!(future).poll(&mut context) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    #[tokio::test]
    async fn sendfile_waits_for_a_client_that_does_not_read() {
        let (stream, mut client) = connected().await;
        let (file, tells) = fresh_file(&vec![7; 1 << 20], 1 << 20);
        let stretch = Stretch { file: file.as_fd(), offset: 0, bytes: 1 << 20 };
        let fill = |context: &mut Context<'_>| {
            let mut sent = 0;
            while let Some(Poll::Ready(count)) = OsNet.poll_send_file(&stream, context, stretch) {
                sent += count.unwrap();
            }
            Poll::Ready(sent)
        };
        let sent: usize = std::future::poll_fn(fill).await;
        assert_eq!(sent > 0, tells);
        let mut arrived = vec![0; sent];
        client.read_exact(&mut arrived).unwrap();
        assert!(arrived.iter().all(|byte| *byte == 7));
        assert_eq!(send_file(&stream, stretch).await.is_some(), tells);
    }

    #[tokio::test]
    async fn a_connection_comes_from_the_address_that_it_is_bound_to() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let from = SocketAddr::from(([127, 0, 0, 9], 0));
        let _stream = OsNet.connect_from(&PeerAddress::Socket(at), from).await.unwrap();
        assert_eq!(listener.accept().unwrap().1.ip(), from.ip());
        let other = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 0));
        assert!(OsNet.connect_from(&PeerAddress::Socket(at), other).await.is_err());
        // One that the machine does not have is a mistake, and no shortage to wait for.
        let foreign = SocketAddr::from(([192, 0, 2, 7], 0));
        let address = PeerAddress::Socket(at);
        let error = OsNet.connect_from(&address, foreign).await.err().unwrap();
        assert_eq!(Errno::from_io_error(&error), None);
        assert!(error.to_string().contains("192.0.2.7"), "{error}");
    }
}
