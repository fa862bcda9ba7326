//! The transport of a connection: TCP, with TLS or without.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::bench::load::RunShared;
use crate::bench::tls::{H2, HandshakeFacts};

/// The transport of a connection.
pub(super) enum BenchStream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Opens a connection to the target.
///
/// # Errors
/// Those of the connect and of the handshake.
pub(super) async fn open(shared: &RunShared) -> io::Result<BenchStream> {
    let stream = shared.load.connect().await?;
    stream.set_nodelay(true)?;
    let Some((config, name)) = &shared.load.tls else { return Ok(BenchStream::Plain(stream)) };
    let name: ServerName<'static> = name.clone();
    let stream = TlsConnector::from(config.clone()).connect(name, stream).await?;
    let session = stream.get_ref().1;
    if shared.load.streams.is_some() && session.alpn_protocol() != Some(H2) {
        return Err(io::Error::other("the server does not offer HTTP/2"));
    }
    shared.note_tls(|| HandshakeFacts::of(session));
    Ok(BenchStream::Tls(Box::new(stream)))
}

impl AsyncRead for BenchStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for BenchStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
