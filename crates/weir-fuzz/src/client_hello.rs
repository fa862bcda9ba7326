//! The first message of TLS clients, where connections are passed on. It is the same however its
//! bytes arrive, they are kept as received, and it tells the server name and the protocols that
//! rustls reads in it.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use rustls::server::Acceptor;
use tokio::io::{AsyncRead, ReadBuf};
use weir_proxy::tls::{Beginning, HelloFacts, read_beginning};

use crate::pieces::splits;

pub(crate) fn target(data: &[u8]) {
    let found = read(data, &[data.len()]);
    for lengths in splits(data) {
        assert_eq!(read(data, &lengths), found, "in pieces that end at {lengths:?}");
    }
    match (&found, reference(data)) {
        (Beginning::Hello(facts), Some(reference)) => {
            assert_eq!(facts.alpn_protocols, reference.alpn_protocols);
            // A name that is none of DNS is no name for rustls.
            if !reference.name.is_empty() {
                assert!(facts.name.eq_ignore_ascii_case(&reference.name), "{facts:?}");
            }
        }
        // It refuses messages that cost much before rustls reads them.
        (Beginning::Excessive | Beginning::Hello(_), _) | (_, None) => {}
        (found, Some(_)) => panic!("rustls reads a `ClientHello` where Weir finds {found:?}"),
    }
}

/// Reads the beginning of a connection whose bytes arrive in pieces.
fn read(data: &[u8], ends: &[usize]) -> Beginning {
    let (mut stream, mut bytes) = (ArrivingBytes { data, at: 0, ends: ends.to_vec() }, Vec::new());
    let beginning = {
        let mut reading = pin!(read_beginning(&mut stream, &mut bytes, |_| {}));
        let polled = reading.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(read) = polled else { panic!("it waits beside bytes that are there") };
        read.expect("the stream has no errors")
    };
    assert_eq!(bytes, data[..bytes.len()]);
    beginning
}

/// The connection: each read ends at the end of a piece at the latest.
struct ArrivingBytes<'a> {
    data: &'a [u8],
    at: usize,
    ends: Vec<usize>,
}

impl AsyncRead for ArrivingBytes<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let ends = self.ends.iter().copied();
        let end = ends.filter(|end| *end > self.at).min().unwrap_or(self.data.len());
        let end = end.min(self.at + buffer.remaining());
        buffer.put_slice(&self.data[self.at..end]);
        self.at = end;
        Poll::Ready(Ok(()))
    }
}

/// Returns what rustls reads, if it accepts the message.
fn reference(data: &[u8]) -> Option<HelloFacts> {
    let (mut acceptor, mut rest) = (Acceptor::default(), data);
    while !rest.is_empty() {
        if acceptor.read_tls(&mut rest).ok()? == 0 {
            return None;
        }
        if let Some(accepted) = acceptor.accept().ok()? {
            let hello = accepted.client_hello();
            let protocols: Vec<&[u8]> = hello.alpn().into_iter().flatten().collect();
            return Some(HelloFacts {
                name: hello.server_name().unwrap_or_default().to_owned(),
                alpn_protocols: protocols.join(&b','),
                protocol: "",
            });
        }
    }
    None
}
