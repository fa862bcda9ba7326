//! One header line, as it is taken over from the tokeniser, and the bytes that may stand in one.

use crate::known::Known;
use crate::span::Span;

/// A header line of a parsed head.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Header {
    /// The name, as written.
    pub name: Span,
    /// The value, without the white space around it. Visible ASCII, space, tab and bytes from 0x80 on; nothing else.
    pub value: Span,
    /// The name, if it is one we know.
    pub known: Known,
}

/// Replaces `headers` by what the tokeniser found in `bytes`.
pub(crate) fn collect(headers: &mut Vec<Header>, bytes: &[u8], found: &[httparse::Header<'_>]) {
    headers.clear();
    headers.extend(found.iter().map(|found| Header {
        name: Span::within(bytes, found.name.as_bytes()),
        value: Span::within(bytes, found.value),
        known: Known::of(found.name.as_bytes()),
    }));
}

/// Whether this byte may stand in a token (RFC 9110 section 5.6.2).
pub(crate) const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

/// Whether this byte may stand in a header value: no control byte but the tab.
pub(crate) fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// `text` without spaces and tabs around it.
#[inline]
pub(crate) fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}
