//! The path of a request as nginx has it in `$uri`: decoded once, with empty and dot segments
//! resolved, whatever form routes match and servers get.

use smallvec::{Array, SmallVec};

use crate::access_log::{escape, format};
use crate::{Escape, Slashes};

/// Appends the decoded form of a path as received. Control bytes stay percent-encoded where nothing
/// else escapes them, so that no path can end a header or a line.
pub(crate) fn append(path: &[u8], slashes: Slashes, how: Escape, out: &mut Vec<u8>) {
    if is_decoded(path) {
        return escape::append(path, how, out);
    }
    let mut decoded = SmallVec::<[u8; 128]>::new();
    resolve_path(path, slashes, &mut decoded);
    match how {
        Escape::Log | Escape::Json => escape::append(&decoded, how, out),
        Escape::None | Escape::Header => {
            encode_but(&decoded, |byte| !byte.is_ascii_control(), out);
        }
        Escape::Path => encode_but(&decoded, stays_in_path, out),
    }
}

/// Returns true only if a path is its own decoded form. `/.well-known` is too, but takes the slow
/// way.
fn is_decoded(path: &[u8]) -> bool {
    let mut before = 0;
    path.iter().all(|&byte| {
        let special = byte == b'%' || before == b'/' && matches!(byte, b'/' | b'.');
        before = byte;
        !special
    })
}

/// Appends a path decoded once, without dot segments, and without empty ones if slashes are merged.
/// A path that climbs above the root stays at the root; an invalid escape stays as it is.
pub fn resolve_path<A: Array<Item = u8>>(path: &[u8], slashes: Slashes, out: &mut SmallVec<A>) {
    let mut segment = out.len();
    let mut rest = path;
    while let Some((byte, after)) = next(rest) {
        rest = after;
        if byte != b'/' {
            out.push(byte);
            continue;
        }
        if ends_in_dots(out, segment) {
            remove_dots(out, segment);
        } else if slashes == Slashes::Kept || out.last() != Some(&b'/') {
            out.push(b'/');
        }
        segment = out.len();
    }
    if ends_in_dots(out, segment) {
        remove_dots(out, segment);
    }
}

/// Returns true if the last segment, which begins at `start`, is a dot segment. The text before the
/// first slash is no segment.
fn ends_in_dots(out: &[u8], start: usize) -> bool {
    start > 0 && matches!(out.get(start..), Some(b"." | b".."))
}

/// Removes the last segment, which is a dot segment, and the one before it for `..`.
fn remove_dots<A: Array<Item = u8>>(out: &mut SmallVec<A>, start: usize) {
    let is_parent = out.len() - start == 2;
    let before = &out[..start - 1];
    let parent = before.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
    out.truncate(if is_parent { parent + 1 } else { start });
}

/// The first byte of a text, decoded, and the text after it.
fn next(text: &[u8]) -> Option<(u8, &[u8])> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    if let [b'%', high, low, after @ ..] = text
        && let (Some(high), Some(low)) = (digit(*high), digit(*low))
    {
        return Some(((high << 4 | low) as u8, after));
    }
    text.split_first().map(|(byte, after)| (*byte, after))
}

/// Appends a text made from a decoded path to a target, in which `%` begins an escape.
pub(crate) fn append_to_target(text: &[u8], out: &mut Vec<u8>) {
    encode_but(text, |byte| byte != b'%', out);
}

fn encode_but(text: &[u8], stays: fn(u8) -> bool, out: &mut Vec<u8>) {
    for &byte in text {
        if stays(byte) {
            out.push(byte);
        } else {
            out.push(b'%');
            format::append_hex(byte, out);
        }
    }
}

/// Tells whether a byte may stand in a path. nginx encodes the same ones (`ngx_escape_uri`).
fn stays_in_path(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\"#%<>?\\^`{|}".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text_of(path: &str, slashes: Slashes, how: Escape) -> String {
        let mut out = b"=".to_vec();
        append(path.as_bytes(), slashes, how, &mut out);
        String::from_utf8(out[1..].to_vec()).unwrap()
    }

    #[test]
    fn paths_are_decoded_once_and_resolved() {
        let check = |path: &str, expected: &str| {
            assert_eq!(text_of(path, Slashes::Merged, Escape::Header), expected, "{path}");
        };
        check("/", "/");
        check("/a/b.html", "/a/b.html");
        check("/%61%20b", "/a b");
        check("//a///b//", "/a/b/");
        check("/a/./b/.", "/a/b/");
        check("/a/b/..", "/a/");
        check("/a/b/../c", "/a/c");
        check("/../../etc", "/etc");
        check("/..", "/");
        check("/a/%2e%2e%2Fb", "/b");
        check("/.well-known/x", "/.well-known/x");
        check("/%2561", "/%61");
        check("/a%zz%4", "/a%zz%4");
        check("/%c3%a9", "/\u{e9}");
        check("*", "*");
        check("..", "..");
    }

    #[test]
    fn empty_segments_stay_where_slashes_are_kept() {
        let check = |path: &str, expected: &str| {
            assert_eq!(text_of(path, Slashes::Kept, Escape::None), expected, "{path}");
        };
        check("//a///b//", "//a///b//");
        check("//a/../b", "//b");
        check("/a//../b", "/a/b");
        check("/a/.//b", "/a//b");
    }

    #[test]
    fn no_path_ends_a_header_or_a_line() {
        let check = |how: Escape, expected: &str| {
            assert_eq!(text_of("/a%0d%0AX:%20b%00%7f", Slashes::Merged, how), expected);
        };
        check(Escape::Header, "/a%0D%0AX: b%00%7F");
        check(Escape::None, "/a%0D%0AX: b%00%7F");
        check(Escape::Log, "/a\\x0D\\x0AX: b\\x00\\x7F");
        check(Escape::Json, "/a\\r\\nX: b\\u0000\\u007F");
        check(Escape::Path, "/a%0D%0AX:%20b%00%7F");
        assert_eq!(text_of("/%2541?", Slashes::Merged, Escape::Path), "/%2541%3F");
    }

    proptest! {
        #[test]
        fn a_decoded_path_has_no_dot_segment(path in "/([a.%/]|%2[efEF]|%25){0,24}") {
            for slashes in [Slashes::Merged, Slashes::Kept] {
                let mut out = SmallVec::<[u8; 32]>::new();
                resolve_path(path.as_bytes(), slashes, &mut out);
                prop_assert!(out.starts_with(b"/"));
                let mut segments = out.split(|&byte| byte == b'/').skip(1);
                prop_assert!(segments.all(|segment| !matches!(segment, b"." | b"..")));
                prop_assert!(slashes == Slashes::Kept || !out.windows(2).any(|two| two == b"//"));
            }
        }
    }
}
