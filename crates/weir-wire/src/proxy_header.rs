//! The header of the PROXY protocol, with which a proxy in front tells the addresses of a
//! connection: versions 1 and 2 (HAProxy's `proxy-protocol.txt`). Bytes in, addresses out, and the
//! other way round. It does not decide which peers may send one, and reads no socket.
//!
//! A header that two programs could read differently is a fault: version 1 must be written as the
//! specification writes it, and in version 2 the parts must fill its length.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The largest header that is accepted, bytes: as in nginx.
pub const PROXY_HEADER_BYTES: usize = 4096;

/// The longest header of version 1, with its line end.
const LINE_BYTES: usize = 107;
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const LINE_START: &[u8; 6] = b"PROXY ";
/// The fixed part of version 2.
const FIXED_BYTES: usize = 16;
/// The types of values (TLVs) of version 2.
const TYPE_ALPN: u8 = 1;
const TYPE_AUTHORITY: u8 = 2;
const TYPE_CRC32C: u8 = 3;
const TYPE_UNIQUE_ID: u8 = 5;
const TYPE_SSL: u8 = 0x20;
/// The types of values within that about TLS.
const TYPE_SSL_VERSION: u8 = 0x21;
const TYPE_SSL_CIPHER: u8 = 0x23;
/// The client connected over TLS.
const CLIENT_SSL: u8 = 1;
/// The longest unique id.
const UNIQUE_ID_BYTES: usize = 128;

/// The addresses of a connection as the sender saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxiedAddresses {
    /// The client.
    pub source: SocketAddr,
    /// The address that the client connected to.
    pub destination: SocketAddr,
}

/// A complete header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// Its length in bytes.
    pub length: usize,
    /// The addresses; `None` if it tells none: the sender speaks for itself, or the connection is
    /// not TCP.
    pub addresses: Option<ProxiedAddresses>,
}

/// The state of a header of which some bytes were received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyProgress {
    /// At least this many more bytes belong to it: a reader that takes no more than that never
    /// takes a byte of what follows the header.
    Partial(usize),
    /// It is complete.
    Whole(ProxyHeader),
}

/// The fault of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyFault {
    /// The bytes do not begin a header.
    NoHeader,
    /// It begins as one and breaks the rules of its version.
    Malformed,
    /// It is longer than [`PROXY_HEADER_BYTES`].
    TooLong,
    /// Its checksum does not fit.
    Checksum,
}

impl ProxyFault {
    /// The fault as a phrase for logs.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NoHeader => "no PROXY header",
            Self::Malformed => "a malformed PROXY header",
            Self::TooLong => "a PROXY header that is too long",
            Self::Checksum => "a PROXY header with a wrong checksum",
        }
    }
}

/// Parses the header at the beginning of these bytes.
///
/// # Errors
/// If the bytes cannot become an acceptable header, however they go on.
pub fn parse_proxy_header(bytes: &[u8]) -> Result<ProxyProgress, ProxyFault> {
    if bytes.is_empty() {
        // Both versions are longer.
        return Ok(ProxyProgress::Partial(SIGNATURE.len()));
    }
    if begins(bytes, SIGNATURE) {
        parse_binary(bytes)
    } else if begins(bytes, LINE_START) {
        parse_line(bytes)
    } else {
        Err(ProxyFault::NoHeader)
    }
}

/// Returns true if one is the beginning of the other.
fn begins(bytes: &[u8], start: &[u8]) -> bool {
    bytes.iter().zip(start).all(|(one, other)| one == other)
}

/// Parses version 1: `PROXY TCP4 192.0.2.1 192.0.2.9 56324 443` and a line end.
fn parse_line(bytes: &[u8]) -> Result<ProxyProgress, ProxyFault> {
    let window = bytes.get(..LINE_BYTES).unwrap_or(bytes);
    let sound = |text: &[u8]| text.iter().all(|byte| (b' '..=b'~').contains(byte));
    let Some(end) = window.windows(2).position(|pair| pair == b"\r\n") else {
        if bytes.len() >= LINE_BYTES {
            return Err(ProxyFault::TooLong);
        }
        let text = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        return if sound(text) {
            Ok(ProxyProgress::Partial(missing_of_line(bytes)))
        } else {
            Err(ProxyFault::Malformed)
        };
    };
    let text = bytes.get(..end).unwrap_or_default();
    // The rest of an `UNKNOWN` line is free, but it is text as well.
    let text = std::str::from_utf8(text).ok().filter(|text| sound(text.as_bytes()));
    let text = text.ok_or(ProxyFault::Malformed)?;
    let addresses = addresses_of_line(text)?;
    Ok(ProxyProgress::Whole(ProxyHeader { length: end + 2, addresses }))
}

/// The least number of bytes that a line of version 1 lacks.
fn missing_of_line(bytes: &[u8]) -> usize {
    if bytes.ends_with(b"\r") {
        return 1;
    }
    let text = bytes.get(LINE_START.len()..).unwrap_or_default();
    let protocol = text.split(|byte| *byte == b' ').next().unwrap_or_default();
    if protocol.len() < 4 || protocol.first() == Some(&b'U') {
        // Of `UNKNOWN` the rest of the line is free.
        return (LINE_START.len() + 6).saturating_sub(bytes.len()).max(2);
    }
    // Each field that is still to come has a space and at least one character.
    let spaces = text.split(|byte| *byte == b' ').count() - 1;
    let begun = usize::from(text.last() == Some(&b' '));
    2 + begun + 2 * 4_usize.saturating_sub(spaces)
}

/// The addresses of a line without its end.
fn addresses_of_line(line: &str) -> Result<Option<ProxiedAddresses>, ProxyFault> {
    let mut fields = line.split(' ').skip(1);
    match fields.next() {
        Some("UNKNOWN") => Ok(None),
        Some(protocol) => {
            let addresses = addresses_of_fields(protocol, fields);
            addresses.map(Some).ok_or(ProxyFault::Malformed)
        }
        None => Err(ProxyFault::Malformed),
    }
}

/// The addresses of the fields behind the protocol; `None` if they are malformed.
fn addresses_of_fields<'a>(
    protocol: &str,
    mut fields: impl Iterator<Item = &'a str>,
) -> Option<ProxiedAddresses> {
    let [source, destination, source_port, destination_port] =
        [fields.next()?, fields.next()?, fields.next()?, fields.next()?];
    let address = |text: &str| -> Option<IpAddr> {
        match protocol {
            "TCP4" => text.parse().ok().map(IpAddr::V4),
            "TCP6" => text.parse().ok().map(IpAddr::V6),
            _ => None,
        }
    };
    let port = |text: &str| -> Option<u16> {
        let number: u16 = text.parse().ok()?;
        // One number has one form.
        (number.to_string() == text).then_some(number)
    };
    let addresses = ProxiedAddresses {
        source: SocketAddr::new(address(source)?, port(source_port)?),
        destination: SocketAddr::new(address(destination)?, port(destination_port)?),
    };
    fields.next().is_none().then_some(addresses)
}

/// Parses version 2.
fn parse_binary(bytes: &[u8]) -> Result<ProxyProgress, ProxyFault> {
    let Some(fixed) = bytes.first_chunk::<FIXED_BYTES>() else {
        return Ok(ProxyProgress::Partial(FIXED_BYTES - bytes.len()));
    };
    let [.., command, family, high, low] = *fixed;
    let length = FIXED_BYTES + usize::from(u16::from_be_bytes([high, low]));
    if !matches!(command, 0x20 | 0x21) || family >> 4 > 3 || family & 0x0f > 2 {
        return Err(ProxyFault::Malformed);
    }
    if length > PROXY_HEADER_BYTES {
        return Err(ProxyFault::TooLong);
    }
    let Some(header) = bytes.get(..length) else {
        return Ok(ProxyProgress::Partial(length - bytes.len()));
    };
    let content = header.get(FIXED_BYTES..).unwrap_or_default();
    let mut addresses = None;
    // A local connection of the sender: addresses are to be ignored.
    if command == 0x21 {
        let block = address_bytes(family).ok_or(ProxyFault::Malformed)?;
        let (block, values) = content.split_at_checked(block).ok_or(ProxyFault::Malformed)?;
        addresses = addresses_of_block(family, block);
        check_values(header, values)?;
    }
    Ok(ProxyProgress::Whole(ProxyHeader { length, addresses }))
}

/// The length of the addresses of a family and protocol; `None` for a combination that does not
/// exist.
fn address_bytes(family: u8) -> Option<usize> {
    match family {
        0x00 => Some(0),
        0x11 | 0x12 => Some(12),
        0x21 | 0x22 => Some(36),
        0x31 | 0x32 => Some(216),
        _ => None,
    }
}

/// The addresses of a TCP connection.
fn addresses_of_block(family: u8, block: &[u8]) -> Option<ProxiedAddresses> {
    let (source, rest): (IpAddr, &[u8]) = match family {
        0x11 => {
            let (source, rest) = block.split_first_chunk::<4>()?;
            (Ipv4Addr::from(*source).into(), rest)
        }
        0x21 => {
            let (source, rest) = block.split_first_chunk::<16>()?;
            (Ipv6Addr::from(*source).into(), rest)
        }
        _ => return None,
    };
    let (destination, rest): (IpAddr, &[u8]) = if source.is_ipv4() {
        let (destination, rest) = rest.split_first_chunk::<4>()?;
        (Ipv4Addr::from(*destination).into(), rest)
    } else {
        let (destination, rest) = rest.split_first_chunk::<16>()?;
        (Ipv6Addr::from(*destination).into(), rest)
    };
    let (source_port, rest) = rest.split_first_chunk::<2>()?;
    let destination_port = rest.first_chunk::<2>()?;
    Some(ProxiedAddresses {
        source: SocketAddr::new(source, u16::from_be_bytes(*source_port)),
        destination: SocketAddr::new(destination, u16::from_be_bytes(*destination_port)),
    })
}

/// Checks that the values behind the addresses fill the header, and the checksum if there is one.
fn check_values(header: &[u8], values: &[u8]) -> Result<(), ProxyFault> {
    let mut rest = values;
    let mut verified = false;
    while !rest.is_empty() {
        let (start, behind) = rest.split_first_chunk::<3>().ok_or(ProxyFault::Malformed)?;
        let [kind, high, low] = *start;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let (value, behind) = behind.split_at_checked(length).ok_or(ProxyFault::Malformed)?;
        if kind == TYPE_CRC32C {
            // Each sum takes a pass over the whole header.
            if verified {
                return Err(ProxyFault::Malformed);
            }
            verified = true;
            let sum = value.first_chunk::<4>().filter(|_| value.len() == 4);
            let sum = u32::from_be_bytes(*sum.ok_or(ProxyFault::Malformed)?);
            // The sum is that of the header with zeros in its place.
            let at = header.len() - behind.len() - 4;
            let zeroed = header.iter().enumerate();
            let zeroed =
                zeroed.map(|(own, byte)| if (at..at + 4).contains(&own) { 0 } else { *byte });
            if crc32c(zeroed) != sum {
                return Err(ProxyFault::Checksum);
            }
        }
        rest = behind;
    }
    Ok(())
}

/// CRC-32C (RFC 4960 appendix B).
fn crc32c(bytes: impl Iterator<Item = u8>) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(byte), step))
}

/// A version of the header, for sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyVersion {
    /// The line of text.
    V1,
    /// The binary form.
    V2,
}

/// The values (TLVs) that a header of version 2 tells beside the addresses. Absent ones are left
/// out; a header without addresses has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyTlvs<'a> {
    /// The protocol that the client's TLS negotiated.
    pub alpn: Option<&'a [u8]>,
    /// The name that the client's TLS asked for.
    pub authority: Option<&'a [u8]>,
    /// The id of the connection or request, of which 128 bytes are sent at most.
    pub unique_id: Option<&'a [u8]>,
    /// The client's TLS, if it has any.
    pub tls: Option<ProxiedTls<'a>>,
    /// Set if a checksum of the whole header ends it.
    pub checksum: bool,
}

/// The TLS of a client without a certificate, in the names of OpenSSL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxiedTls<'a> {
    /// Its version, such as `TLSv1.3`.
    pub version: &'a str,
    /// Its cipher suite.
    pub suite: &'a str,
}

/// Appends a header; without addresses, one that says that the connection is the sender's own.
/// Version 1 has no values.
pub fn write_proxy_header(
    version: ProxyVersion,
    addresses: Option<ProxiedAddresses>,
    tlvs: &ProxyTlvs<'_>,
    out: &mut Vec<u8>,
) {
    let addresses = addresses.map(of_one_family);
    match (version, addresses) {
        (ProxyVersion::V1, None) => out.extend_from_slice(b"PROXY UNKNOWN\r\n"),
        (ProxyVersion::V1, Some(ProxiedAddresses { source, destination })) => {
            let (from, to) = (source.ip(), destination.ip());
            let family = if from.is_ipv4() { 4 } else { 6 };
            let (from_port, to_port) = (source.port(), destination.port());
            let _ = write!(out, "PROXY TCP{family} {from} {to} {from_port} {to_port}\r\n");
        }
        (ProxyVersion::V2, None) => {
            out.extend_from_slice(SIGNATURE);
            out.extend_from_slice(&[0x20, 0, 0, 0]);
        }
        (ProxyVersion::V2, Some(addresses)) => write_binary(addresses, tlvs, out),
    }
}

/// Appends a header of version 2.
fn write_binary(addresses: ProxiedAddresses, tlvs: &ProxyTlvs<'_>, out: &mut Vec<u8>) {
    let ProxiedAddresses { source, destination } = addresses;
    let start = out.len();
    out.extend_from_slice(SIGNATURE);
    out.extend_from_slice(&[0x21, if source.is_ipv4() { 0x11 } else { 0x21 }, 0, 0]);
    for address in [source.ip(), destination.ip()] {
        match address {
            IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
            IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
        }
    }
    out.extend_from_slice(&source.port().to_be_bytes());
    out.extend_from_slice(&destination.port().to_be_bytes());
    write_tlvs(tlvs, out);
    if tlvs.checksum {
        write_tlv(TYPE_CRC32C, &[0; 4], out);
    }
    let length = out.len().saturating_sub(start + FIXED_BYTES);
    let length = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
    if let Some(own) = out.get_mut(start + FIXED_BYTES - 2..start + FIXED_BYTES) {
        own.copy_from_slice(&length);
    }
    if tlvs.checksum {
        // The sum is that of the header with zeros in its place.
        let sum = crc32c(out.iter().skip(start).copied()).to_be_bytes();
        if let Some(own) = out.last_chunk_mut() {
            *own = sum;
        }
    }
}

/// Appends the values but for the checksum. The longest are a protocol of 255 bytes and a name of
/// as many, so that the header stays far below [`PROXY_HEADER_BYTES`].
fn write_tlvs(tlvs: &ProxyTlvs<'_>, out: &mut Vec<u8>) {
    let ProxyTlvs { alpn, authority, unique_id, tls, checksum: _ } = *tlvs;
    let id = unique_id.map(|id| id.get(..UNIQUE_ID_BYTES).unwrap_or(id));
    for (kind, value) in [(TYPE_ALPN, alpn), (TYPE_AUTHORITY, authority), (TYPE_UNIQUE_ID, id)] {
        if let Some(value) = value {
            write_tlv(kind, value.get(..usize::from(u8::MAX)).unwrap_or(value), out);
        }
    }
    if let Some(ProxiedTls { version, suite }) = tls {
        // The certificate was not verified, because there is none.
        let mut content = vec![CLIENT_SSL, 0, 0, 0, 1];
        write_tlv(TYPE_SSL_VERSION, version.as_bytes(), &mut content);
        write_tlv(TYPE_SSL_CIPHER, suite.as_bytes(), &mut content);
        write_tlv(TYPE_SSL, &content, out);
    }
}

fn write_tlv(kind: u8, value: &[u8], out: &mut Vec<u8>) {
    let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
    let value = value.get(..usize::from(length)).unwrap_or(value);
    out.push(kind);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(value);
}

/// The same addresses, both IPv6 if one of them is.
fn of_one_family(addresses: ProxiedAddresses) -> ProxiedAddresses {
    let ProxiedAddresses { source, destination } = addresses;
    if source.is_ipv4() == destination.is_ipv4() {
        return addresses;
    }
    let widened = |address: SocketAddr| match address.ip() {
        IpAddr::V4(own) => SocketAddr::new(own.to_ipv6_mapped().into(), address.port()),
        IpAddr::V6(_) => address,
    };
    ProxiedAddresses { source: widened(source), destination: widened(destination) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(source: &str, destination: &str) -> ProxiedAddresses {
        ProxiedAddresses {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
        }
    }

    fn whole(length: usize, addresses: Option<ProxiedAddresses>) -> ProxyProgress {
        ProxyProgress::Whole(ProxyHeader { length, addresses })
    }

    /// A header of version 2 with this command, family and content.
    fn binary(command: u8, family: u8, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, content].concat()
    }

    #[test]
    fn what_is_written_is_read_as_written_and_nothing_behind_it() {
        let pairs = [
            Some(addresses("192.0.2.1:56324", "198.51.100.9:443")),
            Some(addresses("[2001:db8::1]:1", "[2001:db8::2]:65535")),
            Some(addresses("0.0.0.0:0", "255.255.255.255:0")),
            None,
        ];
        for version in [ProxyVersion::V1, ProxyVersion::V2] {
            for pair in pairs {
                let mut bytes = Vec::new();
                write_proxy_header(version, pair, &ProxyTlvs::default(), &mut bytes);
                let length = bytes.len();
                bytes.extend_from_slice(b"\r\nPROXY GET");
                assert_eq!(parse_proxy_header(&bytes), Ok(whole(length, pair)), "{bytes:?}");
                // Cut anywhere, it asks for no byte behind its end, and gets on.
                let mut had = 0;
                while had < length {
                    match parse_proxy_header(&bytes[..had]) {
                        Ok(ProxyProgress::Partial(more)) if more > 0 => had += more,
                        other => panic!("{other:?} after {had} of {bytes:?}"),
                    }
                }
                assert_eq!(had, length, "{bytes:?}");
                for had in 0..length {
                    let progress = parse_proxy_header(&bytes[..had]);
                    let Ok(ProxyProgress::Partial(more)) = progress else {
                        panic!("{progress:?} after {had} of {bytes:?}");
                    };
                    assert!((1..=length - had).contains(&more), "{more} after {had} of {bytes:?}");
                }
            }
        }
    }

    #[test]
    fn mixed_families_are_sent_as_ipv6() {
        let mut bytes = Vec::new();
        let mixed = addresses("192.0.2.1:1", "[2001:db8::1]:2");
        write_proxy_header(ProxyVersion::V1, Some(mixed), &ProxyTlvs::default(), &mut bytes);
        assert_eq!(bytes, b"PROXY TCP6 ::ffff:192.0.2.1 2001:db8::1 1 2\r\n");
    }

    #[test]
    fn lines_that_the_specification_does_not_write_are_faults() {
        let check = |line: &str, expected: ProxyFault| {
            assert_eq!(parse_proxy_header(line.as_bytes()), Err(expected), "{line:?}");
        };
        for line in [
            "PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n",
            "PROXY TCP4 192.0.2.1  192.0.2.2 1 2\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 65536 2\r\n",
            "PROXY TCP4 192.0.2.256 192.0.2.2 1 2\r\n",
            "PROXY TCP4 2001:db8::1 192.0.2.2 1 2\r\n",
            "PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY tcp4 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY \r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n",
            "PROXY TCP4 192.0.2.1\0",
        ] {
            check(line, ProxyFault::Malformed);
        }
        check("PROXY UNKNOWN a\u{1}b\r\n", ProxyFault::Malformed);
        check("PROXY UNKNOWN a\rb\r\n", ProxyFault::Malformed);
        check(&format!("PROXY UNKNOWN {}", "x".repeat(100)), ProxyFault::TooLong);
        for line in ["GET / HTTP/1.1\r\n", "proxy TCP4", "P ", "\r\n\r\n\0\r\nQUIX", "\x16\x03\x01"]
        {
            check(line, ProxyFault::NoHeader);
        }
        let free = "PROXY UNKNOWN any thing\r\n";
        assert_eq!(parse_proxy_header(free.as_bytes()), Ok(whole(free.len(), None)));
    }

    #[test]
    fn binary_headers_with_parts_that_do_not_fit_are_faults() {
        let check = |header: &[u8], expected: Result<Option<ProxiedAddresses>, ProxyFault>| {
            let expected = expected.map(|addresses| whole(header.len(), addresses));
            assert_eq!(parse_proxy_header(header), expected, "{header:?}");
        };
        let block = [192, 0, 2, 1, 192, 0, 2, 2, 0, 7, 1, 187];
        let known = Some(addresses("192.0.2.1:7", "192.0.2.2:443"));
        check(&binary(0x21, 0x11, &block), Ok(known));
        check(&binary(0x21, 0x11, &[&block[..], &[4, 0, 2, 9, 9]].concat()), Ok(known));
        check(&binary(0x21, 0x31, &[0; 216]), Ok(None));
        check(&binary(0x21, 0x12, &block), Ok(None));
        check(&binary(0x21, 0x00, b""), Ok(None));
        check(&binary(0x20, 0x11, b"anything"), Ok(None));
        for (command, family, content) in [
            (0x21, 0x11, &block[..11]),
            (0x21, 0x21, &block[..]),
            (0x11, 0x11, &block[..]),
            (0x22, 0x11, &block[..]),
            (0x21, 0x41, &block[..]),
            (0x21, 0x13, &block[..]),
            (0x21, 0x10, &block[..]),
        ] {
            check(&binary(command, family, content), Err(ProxyFault::Malformed));
        }
        for values in [&[4_u8][..], &[4, 0], &[4, 0, 2, 9], &[3, 0, 3, 1, 2, 3]] {
            let content = [&block[..], values].concat();
            check(&binary(0x21, 0x11, &content), Err(ProxyFault::Malformed));
        }
        let long = [&SIGNATURE[..], &[0x21, 0x11, 0xff, 0xff]].concat();
        assert_eq!(parse_proxy_header(&long), Err(ProxyFault::TooLong));
    }

    #[test]
    fn a_checksum_is_verified() {
        assert_eq!(crc32c(b"123456789".iter().copied()), 0xe306_9283);
        let block = [192, 0, 2, 1, 192, 0, 2, 2, 0, 7, 1, 187];
        let mut header = binary(0x21, 0x11, &[&block[..], &[3, 0, 4, 0, 0, 0, 0]].concat());
        let sum = crc32c(header.iter().copied()).to_be_bytes();
        let at = header.len() - 4;
        header[at..].copy_from_slice(&sum);
        let known = Some(addresses("192.0.2.1:7", "192.0.2.2:443"));
        assert_eq!(parse_proxy_header(&header), Ok(whole(header.len(), known)));
        header[at] ^= 1;
        assert_eq!(parse_proxy_header(&header), Err(ProxyFault::Checksum));
    }

    #[test]
    fn a_second_checksum_is_a_fault() {
        let block = [192, 0, 2, 1, 192, 0, 2, 2, 0, 7, 1, 187];
        let two = [3, 0, 4, 0, 0, 0, 0, 3, 0, 4, 0, 0, 0, 0];
        let mut header = binary(0x21, 0x11, &[&block[..], &two].concat());
        let first = header.len() - 11;
        let sum = crc32c(header.iter().copied()).to_be_bytes();
        header[first..first + 4].copy_from_slice(&sum);
        assert_eq!(parse_proxy_header(&header), Err(ProxyFault::Malformed));
    }

    #[test]
    fn values_are_written_in_the_form_of_the_specification() {
        let pair = addresses("192.0.2.1:7", "192.0.2.2:443");
        let tls = ProxiedTls { version: "TLSv1.3", suite: "TLS_AES_128_GCM_SHA256" };
        let tlvs = ProxyTlvs {
            alpn: Some(b"h2"),
            authority: Some(b"db.example.com"),
            unique_id: Some(b"id-1"),
            tls: Some(tls),
            checksum: true,
        };
        let mut written = b"before".to_vec();
        write_proxy_header(ProxyVersion::V2, Some(pair), &tlvs, &mut written);
        let header = &written[6..];
        let block = [192, 0, 2, 1, 192, 0, 2, 2, 0, 7, 1, 187];
        let expected = [
            &block[..],
            b"\x01\0\x02h2",
            b"\x02\0\x0edb.example.com",
            b"\x05\0\x04id-1",
            b"\x20\0\x28\x01\0\0\0\x01\x21\0\x07TLSv1.3\x23\0\x16TLS_AES_128_GCM_SHA256",
            b"\x03\0\x04",
        ]
        .concat();
        let length = u16::try_from(expected.len() + 4).unwrap().to_be_bytes();
        let fixed = [&SIGNATURE[..], &[0x21, 0x11], &length].concat();
        let sum_at = header.len() - 4;
        assert_eq!(header[..sum_at].escape_ascii().to_string(), {
            [fixed, expected].concat().escape_ascii().to_string()
        });
        assert_eq!(parse_proxy_header(header), Ok(whole(header.len(), Some(pair))));
        let mut changed = header.to_vec();
        changed[20] ^= 1;
        assert_eq!(parse_proxy_header(&changed), Err(ProxyFault::Checksum));
    }

    #[test]
    fn the_longest_values_are_cut_and_fit() {
        let long = [b'x'; 5_000];
        let long = Some(&long[..]);
        let tlvs = ProxyTlvs { alpn: long, authority: long, unique_id: long, ..Default::default() };
        let pair = addresses("[2001:db8::1]:1", "[2001:db8::2]:65535");
        let mut header = Vec::new();
        write_proxy_header(ProxyVersion::V2, Some(pair), &tlvs, &mut header);
        assert_eq!(header.len(), 16 + 36 + 3 + 255 + 3 + 255 + 3 + 128);
        assert_eq!(parse_proxy_header(&header), Ok(whole(header.len(), Some(pair))));
    }

    #[test]
    fn version_1_and_headers_without_addresses_have_no_values() {
        let tlvs = ProxyTlvs { alpn: Some(b"h2"), checksum: true, ..Default::default() };
        for (version, pair) in [
            (ProxyVersion::V1, Some(addresses("192.0.2.1:7", "192.0.2.2:443"))),
            (ProxyVersion::V2, None),
        ] {
            let (mut with, mut without) = (Vec::new(), Vec::new());
            write_proxy_header(version, pair, &tlvs, &mut with);
            write_proxy_header(version, pair, &ProxyTlvs::default(), &mut without);
            assert_eq!(with, without);
        }
    }
}
