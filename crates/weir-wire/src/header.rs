//! A parsed header line, and the bytes that are allowed in tokens and values.

use crate::known::Known;
use crate::span::Span;

/// A header line of a parsed head.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Header {
    /// The name as received.
    pub name: Span,
    /// The value, without surrounding white space. It contains visible ASCII, spaces, tabs and
    /// bytes from 0x80 on, and nothing else.
    pub value: Span,
    /// The name's variant, [`Known::Other`] if it has none.
    pub known: Known,
}

/// Replaces `headers` by the lines that the tokeniser found in `bytes`.
pub(crate) fn collect(headers: &mut Vec<Header>, bytes: &[u8], found: &[httparse::Header<'_>]) {
    headers.clear();
    headers.extend(found.iter().map(|found| Header {
        name: Span::within(bytes, found.name.as_bytes()),
        value: Span::within(bytes, found.value),
        known: Known::of(found.name.as_bytes()),
    }));
}

/// Tells whether a token may contain this byte (RFC 9110 section 5.6.2).
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

/// Tells whether a header value may contain this byte. The tab is the only control byte allowed.
pub(crate) fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// `text` without leading and trailing spaces and tabs.
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
