//! Finds what a TLS client asks for without ending its TLS: reads the beginning of the connection
//! until the `ClientHello` is complete. All bytes are kept as received. It keeps no
//! time.

use std::future::poll_fn;
use std::io;

use tokio::io::AsyncRead;

use super::client_hello::{ClientHello, Progress};
use crate::limits::HANDSHAKE_READ;
use crate::net::buffers::poll_read_into;

/// The beginning of a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Beginning {
    /// A whole `ClientHello`.
    Hello(HelloFacts),
    /// It does not begin with a `ClientHello`.
    Other,
    /// A `ClientHello` over the limits.
    Excessive,
    /// The client has ended its side without a byte.
    Empty,
}

/// The requests of a client in its first message.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct HelloFacts {
    /// The name of the server; empty without one.
    pub name: String,
    /// The application protocols, separated by commas.
    pub alpn_protocols: Vec<u8>,
    /// The highest version of TLS, such as `TLSv1.3`.
    pub protocol: &'static str,
}

/// Reads the beginning of a connection and appends its bytes to `bytes`, which is empty at first.
/// `holds` is told the bytes of memory that this takes.
///
/// # Errors
/// Those of the stream.
pub async fn read_beginning<S: AsyncRead + Unpin>(
    stream: &mut S,
    bytes: &mut Vec<u8>,
    holds: impl Fn(usize),
) -> io::Result<Beginning> {
    let mut hello = ClientHello::default();
    loop {
        let (before, most) = (bytes.len(), HANDSHAKE_READ.min(hello.room()));
        bytes.reserve(most);
        let read = poll_fn(|context| poll_read_into(stream, context, bytes, most)).await?;
        if read == 0 {
            return Ok(if before == 0 { Beginning::Empty } else { Beginning::Other });
        }
        let progress = hello.push(bytes.get(before..).unwrap_or_default());
        holds(bytes.capacity() + hello.held());
        return Ok(match progress {
            Progress::Partial => continue,
            Progress::Foreign => Beginning::Other,
            Progress::Excessive => Beginning::Excessive,
            Progress::Whole => Beginning::Hello(HelloFacts {
                name: hello.server_name().unwrap_or_default().to_owned(),
                alpn_protocols: hello.alpn_protocols(),
                protocol: hello.highest_version(),
            }),
        });
    }
}
