//! Chunked bodies with trailers. The result does not depend on how the input is split; the data is
//! that of a slow reference of RFC 9112 section 7.1; and the trailers that are passed on were sent,
//! are in their order, and have no forbidden name.

use weir_wire::{ChunkedDecoder, Step};

use crate::pieces::splits;

/// Names of trailers that affect framing, routing, authentication or the connection.
const FORBIDDEN: &[&[u8]] = &[
    b"authorization",
    b"connection",
    b"content-encoding",
    b"content-length",
    b"content-range",
    b"content-type",
    b"cookie",
    b"expect",
    b"forwarded",
    b"host",
    b"keep-alive",
    b"proxy",
    b"proxy-authorization",
    b"proxy-connection",
    b"set-cookie",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
    b"via",
    b"x-forwarded-for",
    b"x-forwarded-host",
    b"x-forwarded-proto",
    b"x-real-ip",
];

pub(crate) fn target(data: &[u8]) {
    let whole = decode(data, &[data.len()]);
    for lengths in splits(data) {
        assert_eq!(decode(data, &lengths), whole, "a body split at {lengths:?}");
    }
    let reference = reference(data);
    assert_eq!(
        whole.ended_at.is_some(),
        reference.is_some(),
        "the decoder says {whole:?}, the reference {reference:?}"
    );
    let Some(reference) = reference else { return };
    assert_eq!(whole.data, reference.data);
    assert_eq!(whole.ended_at, Some(reference.used));
    check_trailers(&whole.trailers, &reference.trailers);
}

fn check_trailers(kept: &[u8], sent: &[&[u8]]) {
    let mut sent = sent.iter();
    let mut rest = kept;
    while let Some(at) = rest.windows(2).position(|window| window == b"\r\n") {
        let line = &rest[..at];
        assert!(sent.any(|sent| *sent == line), "a trailer that was not sent, or out of order");
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        let forbidden = FORBIDDEN.iter().find(|forbidden| forbidden.eq_ignore_ascii_case(name));
        assert_eq!(forbidden, None, "a forbidden trailer is passed on");
        rest = &rest[at + 2..];
    }
    assert!(rest.is_empty(), "trailers end in the middle of a line");
}

/// The result of decoding a body.
#[derive(Debug, PartialEq)]
struct DecodedBody {
    data: Vec<u8>,
    trailers: Vec<u8>,
    ended_at: Option<usize>,
    fault: Option<String>,
}

fn decode(bytes: &[u8], lengths: &[usize]) -> DecodedBody {
    let mut decoder = ChunkedDecoder::new();
    let mut decoded =
        DecodedBody { data: Vec::new(), trailers: Vec::new(), ended_at: None, fault: None };
    let mut at = 0;
    for &length in lengths {
        loop {
            let rest = &bytes[at..length];
            match decoder.step(rest) {
                Err(fault) => {
                    assert_eq!(decoder.step(b"0\r\n\r\n"), Err(fault), "a fault is final");
                    return DecodedBody { fault: Some(format!("{fault:?}")), ..decoded };
                }
                Ok((used, Step::Data(range))) => {
                    assert!(!range.is_empty() && range.end == used && used <= rest.len());
                    decoded.data.extend_from_slice(&rest[range]);
                    at += used;
                }
                Ok((used, Step::More)) => {
                    assert_eq!(used, rest.len(), "bytes were left although more are needed");
                    at = length;
                    break;
                }
                Ok((used, Step::End)) => {
                    assert!(decoder.is_at_end());
                    decoded.trailers = decoder.trailers().to_vec();
                    return DecodedBody { ended_at: Some(at + used), ..decoded };
                }
            }
        }
    }
    decoded
}

/// A complete body as the reference reads it.
#[derive(Debug)]
struct Reference<'a> {
    data: Vec<u8>,
    trailers: Vec<&'a [u8]>,
    used: usize,
}

/// Reads a whole body; `None` if it is incomplete or malformed.
fn reference(bytes: &[u8]) -> Option<Reference<'_>> {
    let mut data = Vec::new();
    let mut rest = bytes;
    loop {
        let line = line(&mut rest)?;
        let mut parts = line.splitn(2, |byte| *byte == b';');
        let (size, extension) = (parts.next()?, parts.next().unwrap_or_default());
        let size = str::from_utf8(size).ok().filter(|size| !size.starts_with('+'))?;
        let size = (size.len() <= 16).then(|| u64::from_str_radix(size, 16).ok())??;
        if extension.len() > 1024
            || !extension.iter().copied().all(is_text)
            || size > i64::MAX as u64
        {
            return None;
        }
        if size == 0 {
            break;
        }
        let size = usize::try_from(size).ok().filter(|size| *size <= rest.len())?;
        data.extend_from_slice(&rest[..size]);
        rest = rest[size..].strip_prefix(b"\r\n")?;
    }
    let (mut trailers, mut trailer_bytes) = (Vec::new(), 0);
    loop {
        let line = line(&mut rest)?;
        if line.is_empty() {
            return Some(Reference { data, trailers, used: bytes.len() - rest.len() });
        }
        trailer_bytes += line.len();
        let name = &line[..line.iter().position(|byte| *byte == b':')?];
        let token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
        if trailer_bytes > 8192
            || trailers.len() == 128
            || name.is_empty()
            || !name.iter().all(token)
            || !line.iter().copied().all(is_text)
        {
            return None;
        }
        trailer_bytes += 2;
        trailers.push(line);
    }
}

/// The data of a complete chunked body at the start of `bytes`, and its length including the
/// framing.
pub(crate) fn whole_body(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    reference(bytes).map(|body| (body.data, body.used))
}

fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// Removes a line from the start of `rest` and returns it without its CR LF.
fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let line = rest[..end].strip_suffix(b"\r")?;
    *rest = &rest[end + 1..];
    (!line.contains(&b'\r')).then_some(line)
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn a_decoder_that_passes_other_trailers_on_is_found() {
        let is_found = |kept: &'static [u8], sent: &'static [u8]| {
            catch_unwind(|| check_trailers(kept, &[sent])).is_err()
        };
        assert!(!is_found(b"X: 1\r\n", b"X: 1"));
        assert!(!is_found(b"", b"Host: a"));
        assert!(is_found(b"Host: a\r\n", b"Host: a"));
        assert!(is_found(b"X: 2\r\n", b"X: 1"));
        assert!(is_found(b"X: 1", b"X: 1"));
    }
}
