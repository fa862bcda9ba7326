//! `host[:port]`, as `Host` and the targets of absolute and authority form carry it.

use std::net::Ipv6Addr;

/// A valid authority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Authority {
    /// Bytes that count: all, less a final colon with no port after it.
    pub(crate) length: usize,
    /// Whether a port is given.
    pub(crate) has_port: bool,
}

/// Reads `host[:port]`. A host is an IPv6 address in brackets, or letters, digits and `-._~` without an empty label; RFC 3986 would
/// also take percent-encoding and sub-delimiters, but no DNS name needs them and they are a way to be read differently by the next
/// program. A port is 1 to 65535.
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

fn bracketed(text: &[u8]) -> Option<usize> {
    let close = memchr::memchr(b']', text)?;
    let address = std::str::from_utf8(text.get(1..close)?).ok()?;
    address.parse::<Ipv6Addr>().ok()?;
    Some(close + 1)
}

fn named(text: &[u8]) -> Option<usize> {
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

fn is_port(text: &[u8]) -> bool {
    let mut port = 0_u32;
    for byte in text {
        if !byte.is_ascii_digit() || port > 65535 {
            return false;
        }
        port = port * 10 + u32::from(byte - b'0');
    }
    (1..=65535).contains(&port)
}

#[cfg(test)]
mod tests {
    use super::{Authority, read};

    fn check(text: &str, expected: Option<(usize, bool)>) {
        let expected = expected.map(|(length, has_port)| Authority { length, has_port });
        assert_eq!(read(text.as_bytes()), expected, "{text:?}");
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
