//! Checks `host[:port]` as found in `Host` and in targets in absolute or authority form. It
//! resolves no name.

use std::net::Ipv6Addr;

/// A valid authority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Authority {
    /// Length in bytes, without a final colon that no port follows.
    pub(crate) length: usize,
    /// Set if a port is given.
    pub(crate) has_port: bool,
}

/// The latest authority of at most [`REMEMBERED`] bytes that was read: most requests on a worker
/// name the same host, and a comparison takes a tenth of the instructions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latest {
    text: [u8; REMEMBERED],
    length: usize,
    authority: Authority,
}

const REMEMBERED: usize = 32;

impl Default for Latest {
    fn default() -> Self {
        // No authority is empty.
        let authority = Authority { length: 0, has_port: false };
        Self { text: [0; REMEMBERED], length: 0, authority }
    }
}

impl Latest {
    /// Does the same as [`read`].
    #[inline]
    pub(crate) fn read(&mut self, text: &[u8]) -> Option<Authority> {
        if !text.is_empty() && self.text.get(..self.length) == Some(text) {
            return Some(self.authority);
        }
        let authority = read(text)?;
        if let Some(place) = self.text.get_mut(..text.len()) {
            place.copy_from_slice(text);
            (self.length, self.authority) = (text.len(), authority);
        }
        Some(authority)
    }
}

/// Reads `host[:port]`. A host is an IPv6 address in brackets, or letters, digits and `-._~`
/// without an empty label. RFC 3986 also allows percent-encoding and sub-delimiters, but no DNS
/// name needs them and the next program might read them differently. A port is 1 to 65535.
pub(crate) fn read(text: &[u8]) -> Option<Authority> {
    let host_length = if text.first() == Some(&b'[') { bracketed(text)? } else { named(text)? };
    match text.get(host_length..)? {
        [] => Some(Authority { length: text.len(), has_port: false }),
        [b':'] => Some(Authority { length: host_length, has_port: false }),
        [b':', port @ ..] => {
            is_port(port).then_some(Authority { length: text.len(), has_port: true })
        }
        _ => None,
    }
}

#[cold]
fn bracketed(text: &[u8]) -> Option<usize> {
    let close = memchr::memchr(b']', text)?;
    let address = std::str::from_utf8(text.get(1..close)?).ok()?;
    address.parse::<Ipv6Addr>().ok()?;
    Some(close + 1)
}

#[inline]
fn named(text: &[u8]) -> Option<usize> {
    let (mut at, mut label_start) = (0, 0);
    while let Some(&byte) = text.get(at) {
        if !is_in_label(byte) {
            match byte {
                b'.' if at > label_start => label_start = at + 1,
                b':' if at > 0 => return Some(at),
                _ => return None,
            }
        }
        at += 1;
    }
    (at > 0).then_some(at)
}

/// Tells whether a label of a host name may contain this byte.
#[inline]
fn is_in_label(byte: u8) -> bool {
    #[expect(clippy::indexing_slicing, reason = "done while compiling")]
    static TABLE: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < table.len() {
            table[byte] =
                matches!(byte as u8, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~');
            byte += 1;
        }
        table
    };
    TABLE.get(usize::from(byte)).is_some_and(|inside| *inside)
}

#[inline]
fn is_port(mut text: &[u8]) -> bool {
    while let [b'0', rest @ ..] = text {
        text = rest;
    }
    if text.len() > 5 {
        return false;
    }
    let mut port = 0_u32;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return false;
        }
        port = port * 10 + u32::from(digit);
    }
    (1..=65535).contains(&port)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::{Index, select};

    use super::{Authority, Latest, is_port, named, read};

    fn check(text: &str, expected: Option<(usize, bool)>) {
        let expected = expected.map(|(length, has_port)| Authority { length, has_port });
        assert_eq!(read(text.as_bytes()), expected, "{text:?}");
    }

    /// The simple implementation that [`named`] is tested against: one byte after the other, by
    /// ranges.
    fn plainly_named(text: &[u8]) -> Option<usize> {
        let mut previous = b'.';
        for (at, &byte) in text.iter().enumerate() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => {}
                b'.' if previous != b'.' => {}
                b':' if at > 0 => return Some(at),
                _ => return None,
            }
            previous = byte;
        }
        (!text.is_empty()).then_some(text.len())
    }

    fn plainly_a_port(text: &[u8]) -> bool {
        let all_digits = text.iter().all(u8::is_ascii_digit);
        let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<u128>().ok());
        all_digits && number.is_some_and(|port| (1..=65535).contains(&port))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_table_says_what_the_ranges_say(
            text in vec(prop_oneof![8 => select(b"aZ09-_~..:".as_slice()), 1 => any::<u8>()], 0..30),
        ) {
            prop_assert_eq!(named(&text), plainly_named(&text));
        }

        #[test]
        fn what_is_remembered_changes_no_result(
            texts in vec(prop_oneof![
                3 => select(["a", "a:80", "a:81", "b:80", "a.example", "", ":", "a..b", "127.0.0.1:8080"].as_slice()).prop_map(String::from),
                1 => "[a-c.:]{0,40}",
            ], 0..20),
        ) {
            let mut latest = Latest::default();
            for text in texts {
                prop_assert_eq!(latest.read(text.as_bytes()), read(text.as_bytes()), "{}", text);
            }
        }

        #[test]
        fn a_port_is_a_number_from_1_to_65535(
            zeros in 0..12_usize, number in prop_oneof![any::<u16>().prop_map(u32::from), 0..200_000_u32],
            odd in proptest::option::of((any::<Index>(), any::<u8>())),
        ) {
            let mut text = format!("{}{number}", "0".repeat(zeros)).into_bytes();
            if let Some((at, byte)) = odd {
                let at = at.index(text.len());
                text[at] = byte;
            }
            prop_assert_eq!(is_port(&text), plainly_a_port(&text), "{}", String::from_utf8_lossy(&text));
        }
    }

    #[test]
    fn takes_names_and_addresses_with_and_without_port() {
        check("a", Some((1, false)));
        check("a.example.", Some((10, false)));
        check("a_b-c~d:80", Some((10, true)));
        check("a:", Some((1, false)));
        check("127.0.0.1:65535", Some((15, true)));
        check("[::1]", Some((5, false)));
        check("[::1]:8080", Some((10, true)));
        check("[::ffff:1.2.3.4]:", Some((16, false)));
    }

    #[test]
    fn refuses_everything_else() {
        for text in [
            "",
            ":",
            ":80",
            ".a",
            "a..b",
            ".",
            "a:0",
            "a:65536",
            "a:99999999999",
            "a:8o",
            "a:-1",
            "a:1:2",
            "a b",
            "a,b",
            "a@b",
            "a%41",
            "a/b",
            "[::1",
            "::1",
            "[]",
            "[::1%eth0]",
            "[v1.a]",
            "[::1]x",
            "[::1]80",
            "[a]",
            "a]",
            "a\u{e9}",
            "a\0",
        ] {
            check(text, None);
        }
    }
}
