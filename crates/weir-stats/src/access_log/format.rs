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

/// Built in a local array and copied once: every request needs it twice, in its log line and in
/// `X-Forwarded-For`.
fn append_ipv4(octets: [u8; 4], out: &mut Vec<u8>) {
    // Room for four times three digits and a dot; the last dot is dropped.
    let mut text = [b'.'; 16];
    let mut end = 0;
    for octet in octets {
        let (digits, count) = DECIMALS[usize::from(octet)];
        text[end..end + 3].copy_from_slice(&digits);
        end += count;
        text[end] = b'.';
        end += 1;
    }
    out.extend_from_slice(&text[..end - 1]);
}

/// The digits of each byte value, and their number.
static DECIMALS: [([u8; 3], usize); 256] = {
    let mut all = [([b'0'; 3], 1); 256];
    let mut byte = 0;
    while byte < 256 {
        let [hundreds, tens, ones] = [byte / 100, byte / 10 % 10, byte % 10];
        all[byte] = match (hundreds, tens) {
            (0, 0) => ([b'0' + ones as u8, b'0', b'0'], 1),
            (0, _) => ([b'0' + tens as u8, b'0' + ones as u8, b'0'], 2),
            _ => ([b'0' + hundreds as u8, b'0' + tens as u8, b'0' + ones as u8], 3),
        };
        byte += 1;
    }
    all
};

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
        for octet in 0..=255 {
            let address = IpAddr::from([octet; 4]);
            assert_eq!(text(&|out| append_address(address, out)), address.to_string());
        }
        for address in ["10.1.2.255", "0.9.99.100", "255.255.255.255", "::1", "2001:db8::7"] {
            assert_eq!(text(&|out| append_address(address.parse().unwrap(), out)), address);
        }
        assert_eq!(
            text(&|out| append_address("::ffff:10.0.0.1".parse().unwrap(), out)),
            "10.0.0.1"
        );
    }
}
