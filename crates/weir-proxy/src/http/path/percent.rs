//! Percent-encoding (RFC 3986 section 2) and the form of a path that rules are matched against.
//!
//! Where paths are normalised (`path/mod.rs`), rules match the path that is sent, decoded once, in
//! which only an escaped slash stays escaped. Where they are not, rules match the path as received
//! if the configuration says so (`match=received`), as in HAProxy, and otherwise the path decoded
//! once, with empty, `.` and `..` segments resolved, as in nginx: `/static/%2e%2e/admin` and
//! `//admin` are `/admin`; `%2F` is decoded too, a path that climbs above the root stays at the
//! root, and an invalid escape stays unchanged. Nothing here changes the path that is sent.

use std::ops::Range;

use smallvec::SmallVec;
use weir_config::model::{MatchedPath, PathRules};
use weir_stats::{Slashes, resolve_path};

/// A buffer that holds a usual decoded path on the stack.
pub(crate) type PathBuffer = SmallVec<[u8; 128]>;

/// The form of a request's path before rules see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathForm {
    /// The path was normalised.
    Normal,
    /// The path is as received, and matched decoded once with its segments resolved.
    Resolved,
    /// The same with empty segments kept.
    Unmerged,
    /// The path is as received, and matched so.
    Received,
}

impl PathForm {
    pub(crate) fn of(rules: &PathRules) -> Self {
        match (rules.normalize, rules.matched) {
            (true, _) => Self::Normal,
            (false, MatchedPath::Resolved) if rules.merge_slashes => Self::Resolved,
            (false, MatchedPath::Resolved) => Self::Unmerged,
            (false, MatchedPath::Received) => Self::Received,
        }
    }

    /// The path that rules are matched against; `buffer` is used only if it differs from `path`.
    #[inline]
    pub(crate) fn seen<'a>(self, path: &'a [u8], buffer: &'a mut PathBuffer) -> &'a [u8] {
        match self {
            Self::Resolved => normal_path(path, Slashes::Merged, buffer),
            Self::Unmerged => normal_path(path, Slashes::Kept, buffer),
            Self::Received => path,
            Self::Normal if memchr::memchr(b'%', path).is_none() => path,
            Self::Normal => {
                decode_but_slashes(path, buffer);
                buffer
            }
        }
    }
}

/// Decodes a path in its normal form once, all escapes but `%2F`.
fn decode_but_slashes(path: &[u8], out: &mut PathBuffer) {
    out.clear();
    let mut rest = path;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        let escape = if byte == b'%' { escaped(tail) } else { None };
        match escape {
            Some((b'/', after)) => {
                out.extend_from_slice(b"%2F");
                rest = after;
            }
            Some((value, after)) => {
                out.push(value);
                rest = after;
            }
            None => out.push(byte),
        }
    }
}

/// The byte that two hexadecimal digits stand for, and the text after them.
fn escaped(text: &[u8]) -> Option<(u8, &[u8])> {
    let [high, low, after @ ..] = text else { return None };
    Some((digit(*high)? << 4 | digit(*low)?, after))
}

/// The treatment of repeated slashes by `$decoded_uri`.
pub(crate) fn slashes_of(rules: &PathRules) -> Slashes {
    if rules.merge_slashes { Slashes::Merged } else { Slashes::Kept }
}

/// The path decoded once, with its segments resolved.
fn normal_path<'a>(path: &'a [u8], slashes: Slashes, buffer: &'a mut PathBuffer) -> &'a [u8] {
    if is_normal(path) {
        return path;
    }
    buffer.clear();
    resolve_path(path, slashes, buffer);
    buffer
}

/// Returns true only if the path is in its normal form. `/.well-known` is normal too, but takes the
/// slow path.
fn is_normal(path: &[u8]) -> bool {
    let mut before = 0;
    for &byte in path {
        if byte == b'%' || (before == b'/' && matches!(byte, b'/' | b'.')) {
            return false;
        }
        before = byte;
    }
    true
}

/// Appends `text` with its escapes decoded once.
pub(crate) fn decode(text: &[u8], out: &mut PathBuffer) {
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        let escape = if byte == b'%' { escaped(tail) } else { None };
        match escape {
            Some((value, after)) => {
                out.push(value);
                rest = after;
            }
            None => out.push(byte),
        }
    }
}

/// Appends part of a query, decoded: `+` is a space there.
pub(crate) fn decode_query(text: &[u8], out: &mut PathBuffer) {
    let mut spaced = PathBuffer::from_slice(text);
    for byte in &mut spaced {
        if *byte == b'+' {
            *byte = b' ';
        }
    }
    decode(&spaced, out);
}

/// Appends bytes of a decoded path percent-encoded, so that they keep their meaning in a
/// `Location`, a header or a page.
pub(crate) fn encode(text: &[u8], out: &mut PathBuffer) {
    encode_but(text, stays, out);
}

/// Appends text of a URL. Escapes stay as they are; any other `%`, and each byte that `stays` does
/// not allow, is percent-encoded.
pub(crate) fn encode_but_escapes(text: &[u8], stays: fn(u8) -> bool, out: &mut PathBuffer) {
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if stays(byte) || byte == b'%' && escaped(tail).is_some() {
            out.push(byte);
        } else {
            push_escape(byte, out);
        }
    }
}

/// Appends text of a decoded path, with the bytes encoded that `stays` does not allow.
pub(crate) fn encode_but(text: &[u8], stays: fn(u8) -> bool, out: &mut PathBuffer) {
    for &byte in text {
        if stays(byte) {
            out.push(byte);
        } else {
            push_escape(byte, out);
        }
    }
}

/// The part of a path in its normal form that [`PathForm::Normal`] shows as `range`.
pub(crate) fn part_as_sent(path: &[u8], range: Range<usize>) -> &[u8] {
    let (mut at, mut seen) = (0, 0);
    let mut start = None;
    while at < path.len() && seen < range.end {
        if seen >= range.start {
            start.get_or_insert(at);
        }
        let rest = path.get(at..).unwrap_or_default();
        at += match rest {
            // An escaped slash stays escaped.
            [b'%', tail @ ..] => match escaped(tail) {
                Some((value, _)) if value != b'/' => 3,
                _ => 1,
            },
            _ => 1,
        };
        seen += 1;
    }
    path.get(start.unwrap_or(at)..at).unwrap_or_default()
}

/// Appends the escape of a byte in the form of RFC 3986 section 2.1, with capitals.
pub(crate) fn push_escape(byte: u8, out: &mut PathBuffer) {
    out.extend_from_slice(&[b'%', hex(byte >> 4), hex(byte & 15)]);
}

/// Tells whether [`encode`] leaves a byte unchanged.
pub(crate) fn stays(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'$' | b'&' | b'('..=b'/' | b':' | b';' | b'=' | b'@' | b'_' | b'~'
        )
}

pub(crate) fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|value| value as u8)
}

fn hex(value: u8) -> u8 {
    if value < 10 { b'0' + value } else { b'A' + value - 10 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(path: &str, expected: &str) {
        let mut buffer = PathBuffer::new();
        let normal = normal_path(path.as_bytes(), Slashes::Merged, &mut buffer);
        assert_eq!(String::from_utf8_lossy(normal), expected, "{path}");
    }

    #[test]
    fn a_path_as_received_is_decoded_once_and_resolved() {
        check("/", "/");
        check("/a/b.html", "/a/b.html");
        check("/a/", "/a/");
        check("//a///b//", "/a/b/");
        check("/a/./b/.", "/a/b/");
        check("/a/../b", "/b");
        check("/a/b/..", "/a/");
        check("/a/b/../", "/a/");
        check("/../../etc", "/etc");
        check("/..", "/");
        check("/...", "/...");
        check("/.well-known/x", "/.well-known/x");
        check("/static/%2e%2e/admin", "/admin");
        check("/static/%2E./admin", "/admin");
        check("/static%2f..%2Fadmin", "/admin");
        check("/%61dmin", "/admin");
        check("/%2561dmin", "/%61dmin");
        check("/a%", "/a%");
        check("/a%4", "/a%4");
        check("/a%zz%41", "/a%zzA");
        check("/a%00b", "/a\0b");
        check("/a/%2e", "/a/");
        check("*", "*");
    }

    #[test]
    fn empty_segments_stay_where_slashes_are_not_merged() {
        let check = |path: &str, expected: &str| {
            let mut buffer = PathBuffer::new();
            let seen = PathForm::Unmerged.seen(path.as_bytes(), &mut buffer);
            assert_eq!(String::from_utf8_lossy(seen), expected, "{path}");
        };
        check("/a/b/", "/a/b/");
        check("//a///b//", "//a///b//");
        check("//a/../%62", "//b");
        check("/a//../b", "/a/b");
        check("/a/.//b", "/a//b");
        check("/a/..", "/");
        check("//", "//");
        check("/%2f", "//");
    }

    #[test]
    fn rules_match_the_normal_path_decoded_except_for_slashes() {
        let check = |path: &str, expected: &str| {
            let mut buffer = PathBuffer::new();
            let seen = PathForm::Normal.seen(path.as_bytes(), &mut buffer);
            assert_eq!(String::from_utf8_lossy(seen), expected, "{path}");
        };
        check("/a/b", "/a/b");
        check("/a%20b%C3%A9", "/a b\u{e9}");
        check("/a/..%2F..%2Fb%20", "/a/..%2F..%2Fb ");
        check("/a%252F%25", "/a%2F%");
        check("/a%5Cb", "/a\\b");
    }

    #[test]
    fn a_plus_in_a_query_is_decoded_to_a_space() {
        let mut out = PathBuffer::new();
        decode_query(b"a+b%2Bc%", &mut out);
        assert_eq!(out.as_slice(), b"a b+c%");
    }

    proptest! {
        #[test]
        fn a_resolved_path_has_no_dot_segment_and_no_empty_one(path in "/([a.%/]|%2[efEF]|%25){0,24}") {
            let mut buffer = PathBuffer::new();
            let normal = normal_path(path.as_bytes(), Slashes::Merged, &mut buffer);
            prop_assert!(normal.starts_with(b"/"));
            let inner: Vec<&[u8]> = normal.split(|&byte| byte == b'/').skip(1).collect();
            for (number, segment) in inner.iter().enumerate() {
                prop_assert!(!matches!(*segment, b"." | b".."));
                prop_assert!(!segment.is_empty() || number + 1 == inner.len());
            }
        }

        #[test]
        fn a_variable_has_the_path_that_rules_match(path in "/([a.%/]|%2[efEF]|%25|%20|%z){0,24}") {
            let forms = [(PathForm::Resolved, Slashes::Merged), (PathForm::Unmerged, Slashes::Kept)];
            for (form, slashes) in forms {
                let mut buffer = PathBuffer::new();
                let seen = form.seen(path.as_bytes(), &mut buffer);
                let entry = weir_stats::Entry {
                    path: path.as_bytes(),
                    slashes,
                    ..crate::http::sample::blank_entry()
                };
                let mut value = Vec::new();
                let text = weir_stats::Template::parse("$decoded_uri").unwrap();
                text.append(&entry, weir_stats::Escape::None, &mut value);
                prop_assert_eq!(seen, &value);
            }
        }

        #[test]
        fn encoding_is_undone_by_decoding(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let (mut encoded, mut decoded) = (PathBuffer::new(), PathBuffer::new());
            encode(&bytes, &mut encoded);
            decode(&encoded, &mut decoded);
            prop_assert_eq!(decoded.as_slice(), &bytes);
            prop_assert!(encoded.iter().all(|byte| byte.is_ascii_graphic() && !b"<>\"'".contains(byte)));
        }
    }
}
