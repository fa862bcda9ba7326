//! Writes lines of heads and chunk framing, appended to the caller's buffer. A head is a first
//! line, header lines, and [`HEAD_END`]. Guarantees that a parsed head already gives are not
//! checked again.

use crate::header::{Header, is_value_byte};
use crate::method::Version;
use crate::response::ResponseHead;
use crate::status::reason_phrase;

/// The empty line that ends a head or a trailer section.
pub const HEAD_END: &[u8] = b"\r\n";
/// The line end after the data of a chunk.
pub const CHUNK_END: &[u8] = b"\r\n";
/// The chunk of size zero. Trailer lines follow it, then [`HEAD_END`].
pub const LAST_CHUNK: &[u8] = b"0\r\n";

/// Writes `method target HTTP/1.1`. Both must be free of spaces and control bytes, as parsed ones
/// are.
pub fn request_line(out: &mut Vec<u8>, method: &[u8], target: &[u8]) {
    debug_assert!(target.iter().all(u8::is_ascii_graphic), "a target would break the request line");
    out.extend_from_slice(method);
    out.push(b' ');
    out.extend_from_slice(target);
    out.extend_from_slice(b" HTTP/1.1\r\n");
}

/// Writes `HTTP/1.1 status reason` with the registered reason phrase.
pub fn status_line(out: &mut Vec<u8>, status: u16) {
    status_line_as(out, Version::Http11, status, reason_phrase(status).as_bytes());
}

/// Writes a status line with the given version and reason. Control bytes in the reason become
/// spaces.
pub fn status_line_as(out: &mut Vec<u8>, version: Version, status: u16, reason: &[u8]) {
    status_start(out, version, status);
    text(out, reason);
    out.extend_from_slice(b"\r\n");
}

/// Writes `HTTP/1.1 status reason` of a parsed response: with its own reason phrase, or with the
/// registered one if that is empty.
pub fn parsed_status_line(out: &mut Vec<u8>, bytes: &[u8], head: &ResponseHead) {
    match (head.version, head.reason.of(bytes)) {
        (_, b"") => status_line(out, head.status),
        (Version::Http11, _) => {
            // The line as received; the parser has refused control bytes in it.
            out.extend_from_slice(bytes.get(..head.reason.end as usize).unwrap_or_default());
            out.extend_from_slice(b"\r\n");
        }
        (Version::Http10, reason) => status_line_as(out, Version::Http11, head.status, reason),
    }
}

/// Writes `HTTP/1.1 status `. A status has three digits.
#[inline]
fn status_start(out: &mut Vec<u8>, version: Version, status: u16) {
    debug_assert!((100..1000).contains(&status), "a status has three digits");
    let mut start = *match version {
        Version::Http10 => b"HTTP/1.0 000 ",
        Version::Http11 => b"HTTP/1.1 000 ",
    };
    let [.., hundreds, tens, ones, _] = &mut start;
    for (digit, value) in [(hundreds, status / 100), (tens, status / 10), (ones, status)] {
        *digit += (value % 10) as u8;
    }
    out.extend_from_slice(&start);
}

/// Writes `name: value` for a value from any source: control bytes in it become spaces, so that no
/// value can start another line. The name must be a token.
pub fn header(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    text(out, value);
    out.extend_from_slice(b"\r\n");
}

/// Writes a line of a parsed head as received.
#[inline]
pub fn parsed_header(out: &mut Vec<u8>, bytes: &[u8], header: &Header) {
    out.extend_from_slice(header.name.of(bytes));
    out.extend_from_slice(b": ");
    out.extend_from_slice(header.value.of(bytes));
    out.extend_from_slice(b"\r\n");
}

/// Writes `Content-Length: length`.
pub fn content_length(out: &mut Vec<u8>, length: u64) {
    out.extend_from_slice(b"Content-Length: ");
    decimal(out, length);
    out.extend_from_slice(b"\r\n");
}

/// Writes `Transfer-Encoding: chunked`.
pub fn transfer_chunked(out: &mut Vec<u8>) {
    out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
}

/// Writes the size line of a chunk of `length` bytes. A length of 0 would end the body; only
/// [`LAST_CHUNK`] may do that.
pub fn chunk_header(length: usize, out: &mut Vec<u8>) {
    debug_assert!(length > 0, "an empty chunk ends the body");
    let digits = (usize::BITS - length.leading_zeros()).div_ceil(4).max(1);
    for place in (0..digits).rev() {
        out.extend(
            char::from_digit((length >> (4 * place)) as u32 & 15, 16).map(|digit| digit as u8),
        );
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes the number in decimal.
pub fn decimal(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[inline]
fn text(out: &mut Vec<u8>, value: &[u8]) {
    let start = out.len();
    out.extend_from_slice(value);
    for byte in out.get_mut(start..).unwrap_or_default() {
        if !is_value_byte(*byte) {
            *byte = b' ';
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{chunk_header, decimal, header, parsed_status_line, status_line, status_line_as};
    use crate::limits::HeadLimits;
    use crate::lines::Scan;
    use crate::method::{Method, Version};
    use crate::response::ResponseHead;

    fn check(write: impl FnOnce(&mut Vec<u8>), expected: &str) {
        let mut out = b"before ".to_vec();
        write(&mut out);
        assert_eq!(String::from_utf8_lossy(&out), format!("before {expected}"));
    }

    #[test]
    fn writes_numbers_of_every_width() {
        check(|out| decimal(out, 0), "0");
        check(|out| decimal(out, 90), "90");
        check(|out| decimal(out, u64::MAX), "18446744073709551615");
        check(|out| chunk_header(1, out), "1\r\n");
        check(|out| chunk_header(15, out), "f\r\n");
        check(|out| chunk_header(16, out), "10\r\n");
        check(|out| chunk_header(0x1_0000, out), "10000\r\n");
        check(|out| chunk_header(usize::MAX, out), "ffffffffffffffff\r\n");
    }

    #[test]
    fn writes_status_lines() {
        check(|out| status_line(out, 502), "HTTP/1.1 502 Bad Gateway\r\n");
        check(|out| status_line(out, 799), "HTTP/1.1 799 Unknown\r\n");
        check(|out| status_line(out, 100), "HTTP/1.1 100 Continue\r\n");
        check(
            |out| status_line_as(out, Version::Http10, 200, b"Fine\r\nX: 1"),
            "HTTP/1.0 200 Fine  X: 1\r\n",
        );
    }

    #[test]
    fn passes_the_status_line_of_a_response_on() {
        for (received, expected) in [
            ("HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\n"),
            ("HTTP/1.1 200  a\tb \r\nX: y\r\n\r\n", "HTTP/1.1 200  a\tb \r\n"),
            ("HTTP/1.1 404 Nicht da: \u{fc}\r\n\r\n", "HTTP/1.1 404 Nicht da: \u{fc}\r\n"),
            ("HTTP/1.0 200 Fine\r\n\r\n", "HTTP/1.1 200 Fine\r\n"),
            ("HTTP/1.1 404 \r\n\r\n", "HTTP/1.1 404 Not Found\r\n"),
            ("HTTP/1.0 503\r\n\r\n", "HTTP/1.1 503 Service Unavailable\r\n"),
        ] {
            let mut head = ResponseHead::default();
            let bytes = received.as_bytes();
            let parsed =
                head.parse(bytes, &mut Scan::default(), &HeadLimits::default(), Method::Get);
            assert_eq!(parsed, Ok(Some(bytes.len())));
            check(|out| parsed_status_line(out, bytes, &head), expected);
        }
    }

    #[test]
    fn lets_no_value_start_another_line() {
        check(
            |out| header(out, b"X", b"a\r\nSet-Cookie: b\0\x7f\tc"),
            "X: a  Set-Cookie: b  \tc\r\n",
        );
    }
}
