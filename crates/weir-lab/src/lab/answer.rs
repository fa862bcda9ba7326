//! One request before the measurement, and its answer byte for byte: a proxy that answers with an
//! error page or with other bytes is not measured.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use weir_wire::{ChunkedDecoder, Framing, HeadLimits, Method, ResponseHead, Scan, Step};

use crate::bench::target::{Form, Url};
use crate::bench::tls::{TlsSettings, server_name};

/// The largest answer.
const MOST_BYTES: u64 = 256 * 1024 * 1024;
/// The longest time for it.
const PATIENCE: Duration = Duration::from_secs(10);

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CheckedAnswer {
    /// The status.
    pub(super) status: u16,
    /// The body, without its framing.
    pub(super) body: Vec<u8>,
}

/// Requests a URL at an address.
///
/// # Errors
/// One sentence if there is no complete answer.
pub(super) async fn fetch(
    url: &Url,
    address: SocketAddr,
    tls: &TlsSettings,
) -> Result<CheckedAnswer, String> {
    let request = Form { close: true, ..Form::default() }.request(url)?;
    let exchange = async {
        let stream = TcpStream::connect(address)
            .await
            .map_err(|error| format!("cannot connect: {error}"))?;
        if !url.tls {
            return exchange(stream, &request.bytes).await;
        }
        let connector = TlsConnector::from(tls.config()?);
        let stream = connector.connect(server_name(&url.host)?, stream).await;
        exchange(
            stream.map_err(|error| format!("the TLS handshake failed: {error}"))?,
            &request.bytes,
        )
        .await
    };
    let bytes = timeout(PATIENCE, exchange)
        .await
        .map_err(|_| format!("no answer within {PATIENCE:?}"))??;
    parse(&bytes)
}

async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    request: &[u8],
) -> Result<Vec<u8>, String> {
    stream.write_all(request).await.map_err(|error| format!("cannot send: {error}"))?;
    let mut bytes = Vec::new();
    // Some servers end TLS without its closing message; what is missing shows in the framing.
    let _ = stream.take(MOST_BYTES).read_to_end(&mut bytes).await;
    Ok(bytes)
}

fn parse(bytes: &[u8]) -> Result<CheckedAnswer, String> {
    let mut head = ResponseHead::default();
    let end = head
        .parse(bytes, &mut Scan::default(), &HeadLimits::default(), Method::Get)
        .map_err(|error| format!("the answer is not HTTP: {error:?}"))?
        .ok_or("the answer ends within its head")?;
    let rest = bytes.get(end..).unwrap_or_default();
    let body = match head.framing {
        Framing::Chunked => unchunked(rest)?,
        Framing::None => Vec::new(),
        _ => {
            if head.content_length.is_some_and(|length| length != rest.len() as u64) {
                return Err(format!(
                    "the answer has {} bytes of {:?}",
                    rest.len(),
                    head.content_length
                ));
            }
            rest.to_vec()
        }
    };
    Ok(CheckedAnswer { status: head.status, body })
}

fn unchunked(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut decoder = ChunkedDecoder::default();
    let (mut at, mut body) = (0, Vec::new());
    loop {
        let input = bytes.get(at..).unwrap_or_default();
        let (used, step) = decoder
            .step(input)
            .map_err(|fault| format!("the answer's chunks are invalid: {fault:?}"))?;
        at += used;
        match step {
            Step::Data(range) => body.extend_from_slice(input.get(range).unwrap_or_default()),
            Step::End => return Ok(body),
            Step::More => return Err("the answer ends within its body".to_owned()),
        }
    }
}

/// A sentence if an answer differs from the origin's own.
pub(super) fn difference(found: &CheckedAnswer, expected: &CheckedAnswer) -> Option<String> {
    if found.status != expected.status {
        return Some(format!(
            "it answers with status {} instead of {}",
            found.status, expected.status
        ));
    }
    if found.body == expected.body {
        return None;
    }
    let place = found.body.iter().zip(&expected.body).position(|(one, other)| one != other);
    Some(match place {
        Some(place) => format!("it answers wrong bytes, from byte {place} on"),
        None => format!("it answers {} bytes instead of {}", found.body.len(), expected.body.len()),
    })
}

#[cfg(test)]
mod tests {
    use super::{CheckedAnswer, difference, parse};

    #[test]
    fn answers_are_read_in_every_framing() {
        let check = |text: &str, body: &str| {
            let expected = CheckedAnswer { status: 200, body: body.as_bytes().to_vec() };
            assert_eq!(parse(text.as_bytes()).unwrap(), expected, "{text}");
        };
        check("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc", "abc");
        check(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
            "abc",
        );
        check("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nabc", "abc");
        for text in [
            "",
            "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\na",
            "garbage\r\n\r\n",
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_wrong_answer_is_told_from_a_right_one() {
        let answer = |status, body: &str| CheckedAnswer { status, body: body.as_bytes().to_vec() };
        let check = |found: CheckedAnswer, expected: Option<&str>| {
            assert_eq!(difference(&found, &answer(200, "abc")).as_deref(), expected);
        };
        check(answer(200, "abc"), None);
        check(answer(502, "abc"), Some("it answers with status 502 instead of 200"));
        check(answer(200, "abd"), Some("it answers wrong bytes, from byte 2 on"));
        check(answer(200, "ab"), Some("it answers 2 bytes instead of 3"));
    }
}
