//! Converters that write a text in another form.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use regex::bytes::{Captures, Regex};

use super::address;

/// Returns the end of a host that a port may follow; an IPv6 literal has brackets.
pub(super) fn host_end(value: &[u8]) -> usize {
    let after = match value.first() {
        Some(b'[') => value.iter().position(|byte| *byte == b']').unwrap_or(0),
        _ => 0,
    };
    let colon = value.iter().skip(after).position(|byte| *byte == b':');
    colon.map_or(value.len(), |at| after + at)
}

/// Replaces what a regex matches; `\1` in the text is a group.
pub(super) fn replace(regex: &Regex, text: &[u8], all: bool, value: &mut Vec<u8>) {
    let expand = |groups: &Captures<'_>| expanded(text, groups);
    let limit = usize::from(!all);
    let replaced = regex.replacen(value, limit, expand).into_owned();
    *value = replaced;
}

fn expanded(text: &[u8], groups: &Captures<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        match (byte, after.split_first()) {
            (b'\\', Some((digit @ b'0'..=b'9', after))) => {
                let group = groups.get(usize::from(digit - b'0'));
                out.extend_from_slice(group.map(|group| group.as_bytes()).unwrap_or_default());
                rest = after;
            }
            (b'\\', Some((escaped, after))) => {
                out.push(*escaped);
                rest = after;
            }
            _ => {
                out.push(byte);
                rest = after;
            }
        }
    }
    out
}

/// Decodes `%XX`, and `+` after a `?` or everywhere. An invalid escape has no result.
pub(super) fn url_decode(mut form: bool, value: &mut Vec<u8>) -> bool {
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value.as_slice();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'%' => {
                let Some((pair, after)) = rest.split_first_chunk::<2>() else { return false };
                let digits = pair.map(|digit| char::from(digit).to_digit(16));
                let [Some(high), Some(low)] = digits else { return false };
                out.push((high << 4 | low) as u8);
                rest = after;
            }
            b'+' if form => out.push(b' '),
            b'?' => {
                form = true;
                out.push(b'?');
            }
            other => out.push(other),
        }
    }
    *value = out;
    true
}

/// Percent-encodes all but letters, digits and `-._~`.
pub(super) fn url_encode(value: &mut Vec<u8>) {
    let mut out = Vec::with_capacity(value.len());
    for &byte in value.iter() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte);
        } else {
            out.push(b'%');
            push_hex(byte, &mut out);
        }
    }
    *value = out;
}

pub(super) fn hex(value: &mut Vec<u8>) {
    let mut out = Vec::with_capacity(value.len() * 2);
    for &byte in value.iter() {
        push_hex(byte, &mut out);
    }
    *value = out;
}

/// Writes the bytes of an address, as HAProxy does in fields with `+X`.
pub(super) fn hex_address(address: IpAddr, value: &mut Vec<u8>) {
    value.clear();
    match address {
        IpAddr::V4(address) => address.octets().iter().for_each(|byte| push_hex(*byte, value)),
        IpAddr::V6(address) => address.octets().iter().for_each(|byte| push_hex(*byte, value)),
    }
}

fn push_hex(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.extend([byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]));
}

pub(super) fn base64(url_safe: bool, value: &mut Vec<u8>) {
    let engine = if url_safe { &URL_SAFE_NO_PAD } else { &STANDARD };
    *value = engine.encode(&*value).into_bytes();
}

pub(super) fn from_base64(url_safe: bool, value: &mut Vec<u8>) -> bool {
    let decoded = if url_safe {
        URL_SAFE_NO_PAD.decode(&*value)
    } else {
        STANDARD.decode(&*value).or_else(|_| STANDARD_NO_PAD.decode(&*value))
    };
    let Ok(decoded) = decoded else { return false };
    *value = decoded;
    true
}

/// Writes the contents of a JSON string as HAProxy does, which escapes `/` and everything outside
/// ASCII. Bytes are characters of their own, or UTF-8, of which invalid ones are left out or have
/// no result.
pub(super) fn json(utf8: bool, lenient: bool, value: &mut Vec<u8>) -> bool {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(value.len());
    let mut push = |code: u32| match char::from_u32(code) {
        Some('"') => out.push_str("\\\""),
        Some('\\') => out.push_str("\\\\"),
        Some('/') => out.push_str("\\/"),
        Some('\u{8}') => out.push_str("\\b"),
        Some('\u{c}') => out.push_str("\\f"),
        Some('\n') => out.push_str("\\n"),
        Some('\r') => out.push_str("\\r"),
        Some('\t') => out.push_str("\\t"),
        Some(plain @ ' '..='~') => out.push(plain),
        _ => {
            let _ = write!(out, "\\u{code:04x}");
        }
    };
    if utf8 {
        for chunk in value.utf8_chunks() {
            if !chunk.invalid().is_empty() && !lenient {
                return false;
            }
            let mut units = [0; 2];
            for character in chunk.valid().chars() {
                for unit in character.encode_utf16(&mut units) {
                    push(u32::from(*unit));
                }
            }
        }
    } else {
        for byte in value.iter() {
            push(u32::from(*byte));
        }
    }
    *value = out.into_bytes();
    true
}

/// Clears the bits of an address after a prefix.
pub(super) fn mask(four: u8, six: u8, value: &mut Vec<u8>) -> bool {
    let Some(address) = address(value) else { return false };
    let bits = if address.is_ipv4() { four } else { six };
    let Ok(network) = ipnet::IpNet::new(address, bits) else { return false };
    let masked: IpAddr = network.network();
    *value = masked.to_string().into_bytes();
    true
}
