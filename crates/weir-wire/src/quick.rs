//! Parses header lines in their usual form (complete, with strict line ends and without tabs) in
//! one pass. Every other head is left to the tokeniser. Lines that both accept have the same
//! result.

use crate::header::{Header, is_token_byte};
use crate::known::Known;
use crate::scan::{colon_after, control_after, is_plain_name};
use crate::span::Span;
use crate::work;

static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < table.len() {
        #[expect(clippy::indexing_slicing, reason = "at compile time, and within the table")]
        {
            table[byte] = is_token_byte(byte as u8);
        }
        byte += 1;
    }
    table
};

/// Reads header lines from `start` to the blank line and returns the offset after it. Returns
/// `None` for a head that is incomplete, has more than `most` lines, or is not in the usual form;
/// the contents of `headers` are then unspecified.
#[inline]
pub(crate) fn header_lines(
    bytes: &[u8],
    start: usize,
    most: usize,
    headers: &mut Vec<Header>,
) -> Option<usize> {
    let (mut at, mut count) = (start, 0);
    let end = loop {
        let colon = colon_after(bytes, at);
        if bytes.get(colon) != Some(&b':') {
            let is_blank = colon == at && chunk_at(bytes, at) == Some(b"\r\n");
            break is_blank.then_some(at + 2)?;
        }
        let name = bytes.get(at..colon)?;
        let known = Known::of(name);
        // A known name is a token: no byte outside of tokens folds into a byte of a known name.
        let is_token = known != Known::Other
            || !name.is_empty()
                && (is_plain_name(bytes, at, name) || token_bytes(name) == name.len());
        if !is_token {
            return None;
        }
        let value_at = match chunk_at(bytes, colon + 1) {
            Some([b' ', byte]) if *byte != b' ' => colon + 2,
            _ => skip_spaces(bytes, colon + 1),
        };
        let line_end = control_after(bytes, value_at);
        if count == most || chunk_at(bytes, line_end) != Some(b"\r\n") {
            return None;
        }
        let value_end = match bytes.get(line_end - 1) {
            Some(b' ') => drop_spaces(bytes, value_at, line_end),
            _ => line_end,
        };
        let (name, value) = (Span::new(at, colon), Span::new(value_at, value_end));
        let header = Header { name, value, known };
        // Overwrites the headers of the previous head, which usually had as many.
        match headers.get_mut(count) {
            Some(place) => *place = header,
            None => headers.push(header),
        }
        count += 1;
        at = line_end + 2;
    };
    work::count(end - start);
    headers.truncate(count);
    Some(end)
}

/// The two bytes at a position.
#[inline]
fn chunk_at(bytes: &[u8], at: usize) -> Option<&[u8; 2]> {
    bytes.get(at..)?.first_chunk()
}

/// The position of the first byte from `at` on that is no space.
#[inline(never)]
fn skip_spaces(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| **byte == b' ').count()
}

/// The end of a value without the spaces before its line end.
#[inline(never)]
fn drop_spaces(bytes: &[u8], value_at: usize, line_end: usize) -> usize {
    let value = bytes.get(value_at..line_end).unwrap_or_default();
    line_end - value.iter().rev().take_while(|byte| **byte == b' ').count()
}

/// Number of leading bytes that are allowed in tokens.
#[inline]
pub(crate) fn token_bytes(text: &[u8]) -> usize {
    let is_token = |byte: &u8| TOKEN.get(usize::from(*byte)) == Some(&true);
    text.iter().position(|byte| !is_token(byte)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

        /// The quick parser accepts only heads that the tokeniser accepts with the same result, and
        /// nothing that a strict reader would refuse. The input is assembled from parts of heads,
        /// with one byte changed.
        #[test]
        fn what_is_taken_is_what_the_tokeniser_takes(
            lines in vec((
                select(["Host", "a", "ETag", "Content-Length", "Content\rLength", "h\u{54}tp2-settings", "http\u{12}-settings", "x|~", "x(", "", "a b", "Date "].as_slice()),
                select([":", ": ", ":  ", ":\t", " :", ""].as_slice()),
                select(["", "v", " v ", "0123456789abcdef", "v\u{e9} w", "a\tb", "  ", " v   "].as_slice()),
                select(["\r\n", "\r\n", "\r\n", "\r\n", "\n", "\r", "\r\n "].as_slice()),
            ), 0..6),
            spoilt in proptest::option::of((any::<proptest::sample::Index>(), any::<u8>())),
            rest in select(["", "\r\n", "body"].as_slice()),
            most in 0..7_usize, left_over in 0..9_usize,
        ) {
            let mut text = String::new();
            for (name, colon, value, end) in &lines {
                text.extend([*name, colon, value, end]);
            }
            let mut bytes = [text.as_bytes(), b"\r\n", rest.as_bytes()].concat();
            if let Some((place, byte)) = spoilt {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            let mut headers = vec![Header::default(); left_over];
            let Some(end) = header_lines(&bytes, 0, most, &mut headers) else { return Ok(()) };

            let mut slots = [httparse::EMPTY_HEADER; 8];
            let parsed = httparse::parse_headers(&bytes, &mut slots);
            let Ok(httparse::Status::Complete((length, found))) = parsed else {
                return Err(TestCaseError::fail("the tokeniser refuses it"));
            };
            prop_assert_eq!(end, length);
            prop_assert!(found.len() <= most);
            prop_assert_eq!(headers.len(), found.len());
            prop_assert_eq!(bytes[..end].split(|byte| *byte == b'\n').count(), found.len() + 2);
            for (header, found) in headers.iter().zip(found) {
                prop_assert_eq!(header.name.of(&bytes), found.name.as_bytes());
                prop_assert_eq!(header.value.of(&bytes), found.value);
                prop_assert_eq!(header.known, Known::of(found.name.as_bytes()));
            }
        }
    }

    #[test]
    fn a_usual_head_is_taken() {
        let text = b"GET / HTTP/1.1\r\nHost: a\r\nX-Empty:\r\nX-Wide:  b c \r\n\r\nnext";
        let mut headers = Vec::new();
        assert_eq!(header_lines(text, 16, 3, &mut headers), Some(text.len() - 4));
        let values: Vec<&[u8]> = headers.iter().map(|header| header.value.of(text)).collect();
        assert_eq!(values, [b"a".as_slice(), b"", b"b c"]);
        assert_eq!(headers[0].known, Known::Host);
        assert_eq!(header_lines(text, 16, 2, &mut headers), None);
        assert_eq!(header_lines(&text[..text.len() - 5], 16, 3, &mut headers), None);
    }
}
