//! Fields of HTTP/2 as lines of HTTP/1, and the other way round, for both sides. `h2` has already
//! refused what RFC 9113 section 8 calls malformed; what lines could say otherwise is refused here.

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use weir_wire::{ChunkedDecoder, Step};

/// Appends a field as a line.
///
/// # Errors
/// The rule that the value breaks.
pub(crate) fn write_line(name: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
    checked(value)?;
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Refuses values that RFC 9113 section 8.2.1 forbids.
pub(crate) fn checked(value: &[u8]) -> Result<(), &'static str> {
    let is_blank = |byte: Option<&u8>| byte.is_some_and(|byte| matches!(byte, b' ' | b'\t'));
    if is_blank(value.first()) || is_blank(value.last()) {
        return Err("white space around a value");
    }
    if value.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')) {
        return Err("a line end or NUL in a value");
    }
    Ok(())
}

/// Returns true for headers that belong to an HTTP/1 connection (RFC 9113 section 8.2.2).
pub(crate) fn is_of_connection(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "upgrade"
    )
}

/// The lines of a head or of trailers, without their ends and the empty one.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = text.split(|byte| *byte == b'\n');
    lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line)).filter(|line| !line.is_empty())
}

/// Adds the field of a line; one that HTTP/2 cannot have is left out.
pub(crate) fn append_field(line: &[u8], fields: &mut HeaderMap) {
    let Some(colon) = memchr::memchr(b':', line) else { return };
    let (name, value) = line.split_at(colon);
    let value = value.get(1..).unwrap_or_default().trim_ascii();
    let name = HeaderName::from_bytes(name).ok().filter(|name| !is_of_connection(name));
    if let (Some(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
        // Fails for a number of fields that no head has.
        let _ = fields.try_append(name, value);
    }
}

/// The trailers of these lines.
pub(crate) fn trailer_fields(text: &[u8]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    lines(text).for_each(|line| append_field(line, &mut fields));
    fields
}

/// The lines of trailers, without those that may be no trailers; `None` if one is malformed or they
/// are too long.
pub(crate) fn trailer_lines(fields: &HeaderMap) -> Option<Vec<u8>> {
    let mut text = b"0\r\n".to_vec();
    for (name, value) in fields {
        write_line(name.as_str().as_bytes(), value.as_bytes(), &mut text).ok()?;
    }
    text.extend_from_slice(b"\r\n");
    let mut decoder = ChunkedDecoder::new();
    match decoder.step(&text) {
        Ok((_, Step::End)) => Some(decoder.trailers().to_vec()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_pass_both_ways_without_those_that_may_be_none() {
        let fields = trailer_fields(b"X-Sum: 5\r\nTransfer-Encoding: chunked\r\nX-B: c\r\n");
        assert_eq!(fields.len(), 2);
        let mut fields = HeaderMap::new();
        fields.append("x-sum", HeaderValue::from_static("5"));
        fields.append("content-length", HeaderValue::from_static("7"));
        fields.append("host", HeaderValue::from_static("other"));
        assert_eq!(trailer_lines(&fields).as_deref(), Some(&b"x-sum: 5\r\n"[..]));
        fields.append("x-blank", HeaderValue::from_static(" 1"));
        assert_eq!(trailer_lines(&fields), None);
        fields = HeaderMap::new();
        fields.append("x-long", HeaderValue::from_str(&"v".repeat(1 << 20)).unwrap());
        assert_eq!(trailer_lines(&fields), None);
    }
}
