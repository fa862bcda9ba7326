//! The handshake with a TLS client, like that of [`tokio_rustls::TlsAcceptor`], but with limits:
//! rustls gets a `ClientHello` only when it is complete and within its limits (`client_hello.rs`),
//! also the one that answers a `HelloRetryRequest`, and then no more than [`HANDSHAKE_BYTES`]
//! before the handshake ends. It keeps no time; the caller does. It limits nothing after the
//! handshake: rustls parses a `ClientHello` in an established connection before it refuses it.

use std::future::poll_fn;
use std::io::{self, ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::{HandshakeKind, IoState, ServerConfig, ServerConnection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::client_hello::{ClientHello, Progress};
use crate::limits::{HANDSHAKE_BYTES, HANDSHAKE_READ};
use crate::net::Socket;

/// Fatal alerts as unencrypted records (RFC 8446 section 6).
const UNEXPECTED_MESSAGE: [u8; 7] = [21, 3, 3, 0, 2, 2, 10];
const ILLEGAL_PARAMETER: [u8; 7] = [21, 3, 3, 0, 2, 2, 47];

/// The connection of a client that was to begin TLS.
pub(crate) enum TlsStart<S> {
    Tls(Box<TlsStream<S>>),
    /// It begins with text, such as a request of HTTP/1, of which these bytes have come.
    Text(S, Vec<u8>),
}

/// Completes the handshake with a client.
///
/// # Errors
/// Those of the stream and of rustls; `InvalidData` for a message over its limits. A fatal alert
/// was then written, if the stream took it at once.
pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
    config: &Arc<ServerConfig>,
    mut stream: S,
) -> io::Result<TlsStream<S>> {
    let mut hello = ClientHello::default();
    let progress = read_hello(&mut stream, &mut hello, &[]).await?;
    answer(config, stream, hello, progress, |_| {}).await
}

/// Does the same, but a client that begins with text gets no alert, and the ticket of one whose
/// first request came with the end of its handshake waits for what it gets next.
///
/// # Errors
/// As [`accept`].
pub(crate) async fn accept_or_text<S: Socket>(
    config: &Arc<ServerConfig>,
    mut stream: S,
) -> io::Result<TlsStart<S>> {
    let mut hello = ClientHello::default();
    let progress = read_hello(&mut stream, &mut hello, &[]).await?;
    if progress == Progress::Foreign && hello.is_text() {
        return Ok(TlsStart::Text(stream, hello.into_bytes()));
    }
    let tls = answer(config, stream, hello, progress, S::expect_more).await?;
    Ok(TlsStart::Tls(Box::new(tls)))
}

/// Completes the handshake of a client whose first message was read. `follows` is called before the
/// last write if bytes of the client wait that will be answered.
async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
    config: &Arc<ServerConfig>,
    mut stream: S,
    mut hello: ClientHello,
    mut progress: Progress,
    follows: impl Fn(&mut S),
) -> io::Result<TlsStream<S>> {
    // The connection is large and has an allocation of its own, so that a slow client does not have
    // one yet.
    let new = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
    let mut tls = Box::new(new);
    take_hello(&mut stream, &mut tls, &hello, progress).await?;
    if tls.handshake_kind() == Some(HandshakeKind::FullWithHelloRetryRequest) {
        poll_fn(|context| poll_write(&mut stream, &mut tls, context)).await?;
        let first = std::mem::replace(&mut hello, ClientHello::after_retry());
        progress = read_hello(&mut stream, &mut hello, first.behind()).await?;
        take_hello(&mut stream, &mut tls, &hello, progress).await?;
    }
    let left = HANDSHAKE_BYTES.checked_sub(hello.behind().len()).ok_or_else(too_much)?;
    feed(&mut stream, &mut tls, hello.behind()).await?;
    drop(hello);
    finish(&mut stream, &mut tls, left, follows).await?;
    // tokio-rustls begins a connection of its own; the finished one replaces it.
    let acceptor = TlsAcceptor::from(Arc::clone(config));
    Box::pin(acceptor.accept_with(stream, |place| *place = *tls)).await
}

fn too_much() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the handshake is longer than its bound")
}

/// Reads a `ClientHello` of which the bytes `came` were received before.
async fn read_hello<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    hello: &mut ClientHello,
    came: &[u8],
) -> io::Result<Progress> {
    let mut progress = hello.push(came);
    while progress == Progress::Partial {
        progress = poll_fn(|context| poll_hello(stream, hello, context)).await?;
    }
    if progress == Progress::Excessive {
        write_alert(stream, &ILLEGAL_PARAMETER).await;
        return Err(too_much());
    }
    Ok(progress)
}

/// Reads once. The buffer is on the stack, so that a client that sends nothing holds no memory for
/// it.
fn poll_hello<S: AsyncRead + Unpin>(
    stream: &mut S,
    hello: &mut ClientHello,
    context: &mut Context<'_>,
) -> Poll<io::Result<Progress>> {
    let mut room = [const { MaybeUninit::<u8>::uninit() }; HANDSHAKE_READ];
    let most = room.len().min(hello.room());
    let mut room = ReadBuf::uninit(room.get_mut(..most).unwrap_or_default());
    ready!(Pin::new(stream).poll_read(context, &mut room))?;
    if room.filled().is_empty() {
        return Poll::Ready(Err(ErrorKind::UnexpectedEof.into()));
    }
    Poll::Ready(Ok(hello.push(room.filled())))
}

/// Passes a `ClientHello` to rustls, or enough of other bytes for an alert.
async fn take_hello<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    tls: &mut ServerConnection,
    hello: &ClientHello,
    progress: Progress,
) -> io::Result<()> {
    if progress == Progress::Whole {
        return feed(stream, tls, hello.record()).await;
    }
    feed(stream, tls, hello.foreign()).await?;
    write_alert(stream, &UNEXPECTED_MESSAGE).await;
    Err(io::Error::new(ErrorKind::InvalidData, "no ClientHello"))
}

/// Makes rustls process bytes. If it finds a fault, its alert is written if the stream takes it at
/// once.
async fn feed<S: AsyncWrite + Unpin>(
    stream: &mut S,
    tls: &mut ServerConnection,
    mut bytes: &[u8],
) -> io::Result<()> {
    while !bytes.is_empty() {
        if tls.read_tls(&mut bytes)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        process(stream, tls).await?;
    }
    Ok(())
}

/// Makes rustls process the bytes that it has read. A fault is treated as in [`feed`].
async fn process<S: AsyncWrite + Unpin>(
    stream: &mut S,
    tls: &mut ServerConnection,
) -> io::Result<IoState> {
    let error = match tls.process_new_packets() {
        Ok(state) => return Ok(state),
        Err(error) => error,
    };
    poll_fn(|context| {
        let _ = poll_write(stream, tls, context);
        Poll::Ready(())
    })
    .await;
    Err(io::Error::new(ErrorKind::InvalidData, error))
}

/// Continues to the end of the handshake, for which the client may send `left` bytes.
async fn finish<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    tls: &mut ServerConnection,
    mut left: usize,
    follows: impl Fn(&mut S),
) -> io::Result<()> {
    loop {
        poll_fn(|context| poll_write(stream, tls, context)).await?;
        if !tls.is_handshaking() {
            return Ok(());
        }
        if left == 0 {
            return Err(too_much());
        }
        let read = poll_fn(|context| {
            let stream = &mut *stream;
            poll(tls.read_tls(&mut Bridge { stream, context }.take(left as u64)))
        });
        match read.await? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            read => left = left.saturating_sub(read),
        }
        let state = process(stream, tls).await?;
        if !tls.is_handshaking() && tls.wants_write() && state.plaintext_bytes_to_read() > 0 {
            follows(stream);
        }
    }
}

/// Writes all bytes that rustls has to send.
fn poll_write<S: AsyncWrite + Unpin>(
    stream: &mut S,
    tls: &mut ServerConnection,
    context: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    if !tls.wants_write() {
        return Poll::Ready(Ok(()));
    }
    while tls.wants_write() {
        if ready!(poll(tls.write_tls(&mut Bridge { stream, context })))? == 0 {
            return Poll::Ready(Err(ErrorKind::WriteZero.into()));
        }
    }
    Pin::new(stream).poll_flush(context)
}

/// Writes an alert if the stream takes it at once. The connection ends in any case.
async fn write_alert<S: AsyncWrite + Unpin>(stream: &mut S, alert: &[u8]) {
    poll_fn(|context| {
        let _ = Pin::new(&mut *stream).poll_write(context, alert);
        let _ = Pin::new(&mut *stream).poll_flush(context);
        Poll::Ready(())
    })
    .await;
}

/// A stream with the traits of `std::io`: pending becomes [`ErrorKind::WouldBlock`].
struct Bridge<'a, 'b, S> {
    stream: &'a mut S,
    context: &'a mut Context<'b>,
}

fn poll<T>(result: io::Result<T>) -> Poll<io::Result<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Poll::Pending,
        result => Poll::Ready(result),
    }
}

fn block<T>(polled: Poll<io::Result<T>>) -> io::Result<T> {
    match polled {
        Poll::Ready(result) => result,
        Poll::Pending => Err(ErrorKind::WouldBlock.into()),
    }
}

impl<S: AsyncRead + Unpin> Read for Bridge<'_, '_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut room = ReadBuf::new(buffer);
        block(Pin::new(&mut *self.stream).poll_read(self.context, &mut room))?;
        Ok(room.filled().len())
    }
}

impl<S: AsyncWrite + Unpin> Write for Bridge<'_, '_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        block(Pin::new(&mut *self.stream).poll_write(self.context, bytes))
    }

    fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        block(Pin::new(&mut *self.stream).poll_write_vectored(self.context, slices))
    }

    fn flush(&mut self) -> io::Result<()> {
        block(Pin::new(&mut *self.stream).poll_flush(self.context))
    }
}
