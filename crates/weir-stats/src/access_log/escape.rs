//! Escaping of values for their context: logs, headers and JSON.

use crate::access_log::format;

/// The context that a value is escaped for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    /// Written unchanged; an absent value is empty. For bodies.
    None,
    /// A header value: control bytes become spaces, so that a decoded `%0d%0a` or a user name in
    /// base64 cannot start a header of its own; an absent value is empty.
    Header,
    /// nginx's log escape: `"`, `\`, control bytes and bytes from 0x7f up as `\xXX`; an absent
    /// value is `-`.
    Log,
    /// The contents of a JSON string: RFC 8259 section 7; bytes that are not UTF-8 become U+FFFD.
    Json,
    /// The path of a new target: decoded paths are percent-encoded, other values unchanged.
    Path,
}

/// Appends `value`, escaped for its context.
pub(crate) fn append(value: &[u8], escape: Escape, out: &mut Vec<u8>) {
    match escape {
        Escape::None | Escape::Path => out.extend_from_slice(value),
        Escape::Header => {
            out.extend(value.iter().map(|&byte| if byte.is_ascii_control() { b' ' } else { byte }));
        }
        Escape::Log => append_log(value, out),
        Escape::Json => append_json(value, out),
    }
}

fn append_log(mut value: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = first_special(value) {
        let byte = value[at];
        out.extend_from_slice(&value[..at]);
        out.extend_from_slice(b"\\x");
        format::append_hex(byte, out);
        value = &value[at + 1..];
    }
    out.extend_from_slice(value);
}

/// The position of the first byte that [`Escape::Log`] changes. Checks eight bytes at a time,
/// because every byte of every line passes here.
fn first_special(value: &[u8]) -> Option<usize> {
    let special = |byte: &u8| !matches!(byte, b' '..=b'~') || matches!(byte, b'"' | b'\\');
    let (eights, rest) = value.as_chunks::<8>();
    let plain = eights.iter().take_while(|eight| is_plain(u64::from_le_bytes(**eight))).count();
    // The last eight bytes overlap with those before, which were plain.
    let last = value.last_chunk::<8>().filter(|_| plain == eights.len());
    if rest.is_empty() && plain == eights.len()
        || last.is_some_and(|last| is_plain(u64::from_le_bytes(*last)))
    {
        return None;
    }
    let start = plain * 8;
    Some(start + value[start..].iter().position(special)?)
}

/// Returns true if all eight bytes are from space to `~`, and neither `"` nor `\`.
fn is_plain(eight: u64) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    // The high bit of a byte is set if the byte is 0 (and, above such a byte, possibly if it is 1).
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    let of = |byte: u8| zero(eight ^ (ONES * u64::from(byte)));
    let control = eight.wrapping_sub(ONES * 0x20) & !eight & HIGH;
    (eight & HIGH) | control | of(0x7f) | of(b'"') | of(b'\\') == 0
}

fn append_json(value: &[u8], out: &mut Vec<u8>) {
    if first_special(value).is_none() {
        out.extend_from_slice(value);
        return;
    }
    for chunk in value.utf8_chunks() {
        for byte in chunk.valid().bytes() {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                b'\t' => out.extend_from_slice(b"\\t"),
                0..=0x1f | 0x7f => {
                    out.extend_from_slice(b"\\u00");
                    format::append_hex(byte, out);
                }
                _ => out.push(byte),
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(value: &[u8], escape: Escape, expected: &str) {
        let mut out = Vec::new();
        append(value, escape, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }

    #[test]
    fn values_are_escaped_as_the_place_needs() {
        check(b"a\"b\\c\x01\x7f\xc3\xa9~", Escape::Log, r"a\x22b\x5Cc\x01\x7F\xC3\xA9~");
        check(b"a b", Escape::Log, "a b");
        check(b"", Escape::Log, "");
        check(
            "a\"b\\c\n\r\t\u{1}\u{e9}".as_bytes(),
            Escape::Json,
            "a\\\"b\\\\c\\n\\r\\t\\u0001\u{e9}",
        );
        check(b"x\xffy", Escape::Json, "x\u{fffd}y");
        check(b"a\"\n", Escape::None, "a\"\n");
        check("a\"\r\n\0\t\u{e9}".as_bytes(), Escape::Header, "a\"    \u{e9}");
    }

    proptest! {
        #[test]
        fn the_first_special_byte_is_found(mut value in proptest::collection::vec(b' '..=b'~', 0..40), at in 0_usize..40, byte: u8) {
            if let Some(place) = value.get_mut(at) {
                *place = byte;
            }
            let special = |byte: &u8| !(b' '..=b'~').contains(byte) || b"\"\\".contains(byte);
            prop_assert_eq!(first_special(&value), value.iter().position(special));
        }

        #[test]
        fn a_value_never_ends_its_field_or_its_line(value in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut log = Vec::new();
            append(&value, Escape::Log, &mut log);
            prop_assert!(log.iter().all(|byte| matches!(byte, b' '..=b'~') && *byte != b'"'));
            let mut json = Vec::new();
            append(&value, Escape::Json, &mut json);
            let text = String::from_utf8(json).unwrap();
            prop_assert!(!text.replace("\\\\", "").replace("\\\"", "").contains(['"', '\n', '\r', '\0']));
        }
    }
}
