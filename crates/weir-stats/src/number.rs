//! Numbers and addresses as text, appended without allocating.

use std::io::Write as _;
use std::net::IpAddr;

/// Appends a decimal number.
pub(crate) fn append(number: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends `number` with at least three digits, as nginx writes `$status` and milliseconds.
pub(crate) fn append_three(number: u64, out: &mut Vec<u8>) {
    if number < 100 {
        out.extend_from_slice(if number < 10 { b"00" } else { b"0" });
    }
    append(number, out);
}

/// Appends milliseconds as seconds: `1.250`.
pub(crate) fn append_seconds(milliseconds: u64, out: &mut Vec<u8>) {
    append(milliseconds / 1000, out);
    out.push(b'.');
    append_three(milliseconds % 1000, out);
}

/// Appends a byte as two upper-case hexadecimal digits.
pub(crate) fn append_hex(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

/// Appends an address; an IPv4 client of a dual-stack socket is written as IPv4.
pub fn append_address(address: IpAddr, out: &mut Vec<u8>) {
    match address.to_canonical() {
        IpAddr::V4(address) => append_ipv4(address.octets(), out),
        // Writing to a `Vec` cannot fail.
        IpAddr::V6(address) => drop(write!(out, "{address}")),
    }
}

/// Put together aside and copied once: every request has it twice, in its log line and in `X-Forwarded-For`.
fn append_ipv4(octets: [u8; 4], out: &mut Vec<u8>) {
    let mut text = [b'.'; 16];
    let mut end = 0;
    for octet in octets {
        let digits = [octet / 100, octet / 10 % 10, octet % 10].map(|digit| b'0' + digit);
        let leading = usize::from(octet < 100) + usize::from(octet < 10);
        for digit in &digits[leading..] {
            text[end] = *digit;
            end += 1;
        }
        // The dot is there already.
        end += 1;
    }
    out.extend_from_slice(&text[..end - 1]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_addresses_read_as_usual() {
        let text = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(&|out| append_seconds(1250, out)), "1.250");
        assert_eq!(text(&|out| append_seconds(7, out)), "0.007");
        assert_eq!(text(&|out| append_three(0, out)), "000");
        assert_eq!(text(&|out| append_three(42, out)), "042");
        for address in ["10.1.2.255", "0.9.99.100", "255.255.255.255", "::1", "2001:db8::7"] {
            assert_eq!(text(&|out| append_address(address.parse().unwrap(), out)), address);
        }
        assert_eq!(
            text(&|out| append_address("::ffff:10.0.0.1".parse().unwrap(), out)),
            "10.0.0.1"
        );
    }
}
