//! Parses the cookies of requests and responses into pairs as in RFC 6265, and writes a `Cookie`
//! line without one of them. It does not interpret a cookie's value.

use memchr::{memchr, memmem};
use weir_wire::{Known, RequestHead};

/// The names and values of all cookies of a request, in order, values as sent.
#[cfg(test)]
fn pairs<'a>(head: &'a RequestHead, bytes: &'a [u8]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    lines(head, bytes).flat_map(pieces).map(split_pair)
}

/// The values, as sent, of the cookies of that name, in order.
pub(crate) fn values<'a>(
    head: &'a RequestHead,
    bytes: &'a [u8],
    name: &'a [u8],
) -> impl Iterator<Item = &'a [u8]> {
    // Lines that do not contain the name anywhere are not parsed.
    let lines = lines(head, bytes).filter(move |line| memmem::find(line, name).is_some());
    let named = lines.flat_map(pieces).filter(move |piece| is_named(piece, name));
    named.map(|piece| split_pair(piece).1)
}

fn lines<'a>(head: &'a RequestHead, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let lines = head.headers.iter().filter(|header| header.known == Known::Cookie);
    lines.map(|header| header.value.of(bytes))
}

/// Returns a value without its quotes, if it has any (RFC 6265 section 4.1.1).
pub(crate) fn bare(value: &[u8]) -> &[u8] {
    let inside = value.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\""));
    inside.unwrap_or(value)
}

/// The name of the cookie that a `Set-Cookie` sets. One without a `=` has none (RFC 6265bis section
/// 5.6).
pub(crate) fn set_name(value: &[u8]) -> &[u8] {
    let pair = pieces(value).next().filter(|piece| piece.contains(&b'='));
    pair.map_or(&[], |pair| split_pair(pair).0)
}

/// Tells whether a `Cookie` line has a cookie of that name.
pub(crate) fn has(line: &[u8], name: &[u8]) -> bool {
    memmem::find(line, name).is_some() && pieces(line).any(|piece| is_named(piece, name))
}

/// Appends a `Cookie` line as the endpoint gets it; appends nothing when no cookie is left.
pub(crate) fn write_changed(line: &[u8], cookie: RequestCookie<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(b"Cookie: ");
    let empty = out.len();
    append_changed(line, cookie, out);
    if out.len() == empty {
        out.truncate(start);
    } else {
        out.extend_from_slice(b"\r\n");
    }
}

/// Returns the value of a `Cookie` line as the endpoint gets it.
pub(crate) fn changed(line: &[u8], cookie: RequestCookie<'_>) -> Vec<u8> {
    let mut value = Vec::new();
    append_changed(line, cookie, &mut value);
    value
}

fn append_changed(line: &[u8], cookie: RequestCookie<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    for piece in pieces(line).filter(|piece| !piece.is_empty()) {
        let is_sticky = is_named(piece, cookie.name);
        if is_sticky && !cookie.is_prefixed {
            continue;
        }
        if out.len() > start {
            out.extend_from_slice(b"; ");
        }
        match split_pair(piece) {
            (name, value) if is_sticky => {
                out.extend_from_slice(name);
                out.push(b'=');
                out.extend_from_slice(behind_prefix(value));
            }
            _ => out.extend_from_slice(piece),
        }
    }
}

/// Returns a value without the endpoint's value and the `~` before it.
fn behind_prefix(value: &[u8]) -> &[u8] {
    memchr(PREFIX_END, value).and_then(|at| value.get(at + 1..)).unwrap_or(value)
}

/// Returns a `Set-Cookie` value with another value of the cookie, and with `~` and the former one
/// behind it if it is a prefix.
pub(crate) fn with_value(line: &[u8], value: &[u8], is_prefix: bool) -> Vec<u8> {
    let end = memchr(b';', line).unwrap_or(line.len());
    let (pair, attributes) = line.split_at(end);
    let (name, former) = split_pair(pair.trim_ascii());
    let mut changed = [name, b"=", value].concat();
    if is_prefix {
        changed.push(PREFIX_END);
        changed.extend_from_slice(former);
    }
    changed.extend_from_slice(attributes);
    changed
}

/// Tells whether a piece is a cookie of that name; the name contains no `=` and no space.
fn is_named(piece: &[u8], name: &[u8]) -> bool {
    // This check rejects most pieces without a call.
    if piece.first() != name.first() {
        return false;
    }
    let rest = piece.strip_prefix(name).map(<[u8]>::trim_ascii_start);
    matches!(rest, Some([] | [b'=', ..]))
}

fn pieces(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b';').map(<[u8]>::trim_ascii)
}

/// Splits a pair into the text before the first `=` and the text after it.
pub(crate) fn split_pair(pair: &[u8]) -> (&[u8], &[u8]) {
    let at = memchr(b'=', pair).unwrap_or(pair.len());
    (
        pair.get(..at).unwrap_or(pair).trim_ascii_end(),
        pair.get(at + 1..).unwrap_or_default().trim_ascii_start(),
    )
}

/// The byte behind the endpoint's value in a cookie of the mode `prefix`, as HAProxy writes it.
pub(crate) const PREFIX_END: u8 = b'~';

/// The sticky cookie of a request that is changed for the endpoint.
#[derive(Clone, Copy)]
pub struct RequestCookie<'a> {
    /// The cookie's name.
    pub name: &'a [u8],
    /// Set to remove the part up to `~` of its value, instead of the cookie.
    pub is_prefixed: bool,
}

/// The treatment of a cookie of the sticky cookie's name that the endpoint sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointCookie<'a> {
    /// It is left out.
    Removed,
    /// It is passed on, in place of Weir's.
    Kept,
    /// It gets this value.
    Replaced(&'a [u8]),
    /// It gets this value and `~` before its own.
    Prefixed(&'a [u8]),
}

/// The sticky cookie as the response handles it.
#[derive(Clone, Copy)]
pub struct ResponseCookie<'a> {
    /// The cookie's name.
    pub name: &'a [u8],
    /// The treatment of a cookie of that name that the endpoint sets.
    pub of_endpoint: EndpointCookie<'a>,
    /// The `Set-Cookie` line with its line end; `None` if the client already has the right cookie.
    pub line: Option<&'a [u8]>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::sample::SampleRequest;

    #[test]
    fn pairs_come_from_every_line_in_order() {
        let request = SampleRequest::new(
            "GET / HTTP/1.1\r\nHost: a\r\nCookie: a=1; b=\"2\" ;c\r\nX: d=4\r\ncookie: a = 5=6;\r\n\r\n",
        );
        let found: Vec<_> = pairs(&request.head, &request.bytes).collect();
        let expected: [(&[u8], &[u8]); 5] =
            [(b"a", b"1"), (b"b", b"\"2\""), (b"c", b""), (b"a", b"5=6"), (b"", b"")];
        assert_eq!(found, expected);
        assert_eq!(bare(b"\"2\""), b"2");
        assert_eq!(bare(b"\"2"), b"\"2");
    }

    #[test]
    fn a_cookie_line_is_written_without_the_cookie() {
        let check = |line: &str, expected: &str| {
            let mut out = b"before\r\n".to_vec();
            assert!(has(line.as_bytes(), b"SRV"), "{line}");
            let cookie = RequestCookie { name: b"SRV", is_prefixed: false };
            write_changed(line.as_bytes(), cookie, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), format!("before\r\n{expected}"), "{line}");
            let line_of_rest = match changed(line.as_bytes(), cookie) {
                rest if rest.is_empty() => String::new(),
                rest => format!("Cookie: {}\r\n", String::from_utf8(rest).unwrap()),
            };
            assert_eq!(line_of_rest, expected, "{line}");
        };
        check("SRV=x", "");
        check("SRV", "");
        check("; SRV=x;", "");
        check("a=1; SRV=x; b=\"2\"", "Cookie: a=1; b=\"2\"\r\n");
        check("SRV=x;a=1;SRV=y", "Cookie: a=1\r\n");
        check("SRV =x; srv=z; SRVX=1; a=SRV=1", "Cookie: srv=z; SRVX=1; a=SRV=1\r\n");
        for line in ["srv=x", "SRVX=1", "a=SRV=1", ""] {
            assert!(!has(line.as_bytes(), b"SRV"), "{line}");
        }
    }

    #[test]
    fn a_prefix_is_removed_and_added() {
        let check = |line: &str, expected: &str| {
            let cookie = RequestCookie { name: b"ID", is_prefixed: true };
            let found = changed(line.as_bytes(), cookie);
            assert_eq!(String::from_utf8(found).unwrap(), expected, "{line}");
        };
        check("a=1; ID=one~abc; b=2~3", "a=1; ID=abc; b=2~3");
        check("ID=abc; ID=one~two~three", "ID=abc; ID=two~three");
        check("ID=one~", "ID=");
        let set = |line: &str, is_prefix, expected: &str| {
            let found = with_value(line.as_bytes(), b"one", is_prefix);
            assert_eq!(String::from_utf8(found).unwrap(), expected, "{line}");
        };
        set("ID=abc; Path=/", true, "ID=one~abc; Path=/");
        set("ID=abc; Path=/", false, "ID=one; Path=/");
        set("ID", false, "ID=one");
    }

    #[test]
    fn the_name_of_a_set_cookie_value_is_found() {
        assert_eq!(set_name(b"SRV=x; Path=/; a=b"), b"SRV");
        assert_eq!(set_name(b" SRV = x"), b"SRV");
        assert_eq!(set_name(b"=x"), b"");
        assert_eq!(set_name(b"SRV; a=b"), b"");
        assert_eq!(set_name(b""), b"");
    }
}
