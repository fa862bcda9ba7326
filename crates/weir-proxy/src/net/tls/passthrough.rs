//! Finds the name that a TLS client asks for without ending its TLS: reads the beginning of the
//! connection until the `ClientHello` is complete. All bytes are kept as received. It keeps no
//! time.

use std::future::poll_fn;
use std::io;

use tokio::io::AsyncRead;

use super::client_hello::{ClientHello, Progress};
use crate::limits::HANDSHAKE_READ;
use crate::net::buffers::poll_read_into;

/// The beginning of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// The client asks for this name.
    Name(String),
    /// It asks for no name, or the connection does not begin with a `ClientHello`.
    Nameless,
    /// A `ClientHello` over the limits.
    Excessive,
    /// The client has ended its side without a byte.
    Empty,
}

/// Reads the beginning of a connection and appends its bytes to `bytes`, which is empty at first.
/// `holds` is told the bytes of memory that this takes.
///
/// # Errors
/// Those of the stream.
pub(crate) async fn read_beginning<S: AsyncRead + Unpin>(
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
            return Ok(if before == 0 { Beginning::Empty } else { Beginning::Nameless });
        }
        let progress = hello.push(bytes.get(before..).unwrap_or_default());
        holds(bytes.capacity() + hello.held());
        return Ok(match progress {
            Progress::Partial => continue,
            Progress::Foreign => Beginning::Nameless,
            Progress::Excessive => Beginning::Excessive,
            Progress::Whole => match hello.server_name() {
                Some(name) => Beginning::Name(name.to_owned()),
                None => Beginning::Nameless,
            },
        });
    }
}
