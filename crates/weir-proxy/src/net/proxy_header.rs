//! Reads the header of the PROXY protocol from the beginning of a connection, and not a byte more,
//! and writes it. `weir-wire` parses it. It keeps no time and trusts every peer; the caller decides
//! which peers send one.

use std::future::poll_fn;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use weir_config::model::SendProxy;
use weir_stats::metrics::ProxyHeaderRefusal;
use weir_wire::{
    ProxiedAddresses, ProxyFault, ProxyProgress, ProxyTlvs, ProxyVersion, parse_proxy_header,
    write_proxy_header,
};

use crate::net::buffers::poll_read_into;

/// Reads the header; `None` if it tells no addresses.
///
/// # Errors
/// If the connection ends before the header does, or begins with something else.
pub(crate) async fn read<S: AsyncRead + Unpin>(
    stream: &mut S,
) -> Result<Option<ProxiedAddresses>, ProxyHeaderRefusal> {
    let mut bytes = Vec::new();
    loop {
        let more = match parse_proxy_header(&bytes).map_err(refusal)? {
            ProxyProgress::Whole(header) => return Ok(header.addresses),
            ProxyProgress::Partial(more) => more,
        };
        bytes.reserve_exact(more);
        let read = poll_fn(|context| poll_read_into(stream, context, &mut bytes, more));
        if !matches!(read.await, Ok(1..)) {
            return Err(ProxyHeaderRefusal::Closed);
        }
    }
}

fn refusal(fault: ProxyFault) -> ProxyHeaderRefusal {
    match fault {
        ProxyFault::NoHeader => ProxyHeaderRefusal::Missing,
        ProxyFault::Malformed => ProxyHeaderRefusal::Malformed,
        ProxyFault::TooLong => ProxyHeaderRefusal::TooLong,
        ProxyFault::Checksum => ProxyHeaderRefusal::Checksum,
    }
}

/// The bytes of a header; without addresses, it says that the connection is Weir's own.
pub fn header(
    version: SendProxy,
    addresses: Option<ProxiedAddresses>,
    tlvs: &ProxyTlvs<'_>,
) -> Vec<u8> {
    let version = match version {
        SendProxy::V1 => ProxyVersion::V1,
        SendProxy::V2 => ProxyVersion::V2,
    };
    let mut header = Vec::new();
    write_proxy_header(version, addresses, tlvs, &mut header);
    header
}

/// Sends a header.
///
/// # Errors
/// Those of the stream.
pub async fn send<S: AsyncWrite + Unpin>(header: Vec<u8>, stream: &mut S) -> io::Result<()> {
    stream.write_all(&header).await?;
    stream.flush().await
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt, duplex};

    use super::*;

    fn addresses() -> ProxiedAddresses {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        ProxiedAddresses {
            source: address("192.0.2.1:56324"),
            destination: address("198.51.100.9:443"),
        }
    }

    #[tokio::test]
    async fn what_follows_the_header_stays_in_the_stream() {
        for version in [SendProxy::V1, SendProxy::V2] {
            for told in [Some(addresses()), None] {
                let (mut near, mut far) = duplex(1024);
                let header = header(version, told, &ProxyTlvs::default());
                send(header, &mut far).await.unwrap();
                far.write_all(b"\r\nrest").await.unwrap();
                drop(far);
                assert_eq!(read(&mut near).await, Ok(told));
                let mut rest = String::new();
                near.read_to_string(&mut rest).await.unwrap();
                assert_eq!(rest, "\r\nrest", "{version:?} {told:?}");
            }
        }
    }

    #[tokio::test]
    async fn bytes_that_are_no_header_are_refused_with_their_reason() {
        let check = async |bytes: &[u8], expected: ProxyHeaderRefusal| {
            let (mut near, mut far) = duplex(1024);
            far.write_all(bytes).await.unwrap();
            drop(far);
            assert_eq!(read(&mut near).await, Err(expected), "{}", bytes.escape_ascii());
        };
        check(b"GET / HTTP/1.1\r\n\r\n", ProxyHeaderRefusal::Missing).await;
        check(b"PROXY TCP4 1.2.3.4\r\n", ProxyHeaderRefusal::Malformed).await;
        check(b"PROXY TCP4 1.2.3.4", ProxyHeaderRefusal::Closed).await;
        check(b"", ProxyHeaderRefusal::Closed).await;
    }
}
