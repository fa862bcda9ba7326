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

/// Replaces `headers` by what the tokeniser found in `bytes`. Says whether each line begins after a CR LF: the tokeniser takes a bare line
/// feed for a line end, too.
#[inline]
pub(crate) fn collect(
    headers: &mut Vec<Header>,
    bytes: &[u8],
    found: &[httparse::Header<'_>],
) -> bool {
    let mut all_strict = true;
    // Headers of the head before are written over; mostly there are as many of them.
    headers.resize(found.len(), Header::default());
    for (header, found) in headers.iter_mut().zip(found) {
        let name = Span::within(bytes, found.name.as_bytes());
        // No line begins at 0 or 1, where this looks past the end.
        let before = bytes.get((name.start as usize).wrapping_sub(2));
        all_strict &= before == Some(&b'\r');
        let known = Known::of(found.name.as_bytes());
        *header = Header { name, value: Span::within(bytes, found.value), known };
    }
    all_strict
}

/// Whether this byte may stand in a token (RFC 9110 section 5.6.2).
pub(crate) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
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

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::{Header, collect};
    use crate::known::Known;
    use crate::span::Span;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn one_pass_finds_what_three_would(
            lines in vec((select(["Host", "x", "ETag", "Content-Length", "X-Q-Y"].as_slice()), 0..4_usize, any::<bool>()), 0..9),
            first_strict in any::<bool>(), left_over in 0..12_usize,
        ) {
            let end = |strict: bool| if strict { "\r\n" } else { "\n" };
            let mut text = format!("GET / HTTP/1.1{}", end(first_strict));
            for (name, value, strict) in &lines {
                text.extend([name, ": ", &"v".repeat(*value), end(*strict)]);
            }
            text.push_str("\r\n");
            let bytes = text.as_bytes();
            let mut slots = [httparse::EMPTY_HEADER; 9];
            let mut request = httparse::Request::new(&mut slots);
            prop_assert!(request.parse(bytes).is_ok_and(|status| status.is_complete()));
            let mut headers = vec![Header::default(); left_over];
            let strict = collect(&mut headers, bytes, request.headers);

            let spans = |header: &httparse::Header<'_>| Header {
                name: Span::within(bytes, header.name.as_bytes()),
                value: Span::within(bytes, header.value),
                known: Known::of(header.name.as_bytes()),
            };
            let expected: Vec<Header> = request.headers.iter().map(spans).collect();
            prop_assert_eq!(headers, expected);
            // The end of the last line is the caller's to look at.
            let ends: Vec<bool> = [first_strict].into_iter().chain(lines.iter().map(|line| line.2)).collect();
            prop_assert_eq!(strict, ends[..lines.len()].iter().all(|strict| *strict));
        }
    }
}
