//! Reads the few facts of a certificate that the configuration needs: names, validity, issuer,
//! public key. It is a bounded DER reader and verifies nothing; webpki verifies the certificates of
//! peers.

use std::fmt::Write as _;

/// The facts of one certificate.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CertificateFacts<'a> {
    /// The serial number, big-endian.
    pub serial: &'a [u8],
    /// The issuer's name, DER.
    pub issuer: &'a [u8],
    /// The subject's name, DER.
    pub subject: &'a [u8],
    /// The beginning of its validity, Unix time.
    pub not_before: i64,
    /// The last second of its validity, Unix time.
    pub not_after: i64,
    /// The bits of the public key, without the algorithm.
    pub public_key: &'a [u8],
    /// The DNS names of the subject alternative name, in lower case; the common name if there are
    /// none.
    pub names: Vec<String>,
}

impl<'a> CertificateFacts<'a> {
    /// Reads a DER certificate (RFC 5280 section 4.1); `None` when it is malformed.
    pub(super) fn read(der: &'a [u8]) -> Option<Self> {
        let mut certificate = Der(Der(der).take(SEQUENCE)?);
        let mut body = Der(certificate.take(SEQUENCE)?);
        if body.peek() == Some(CONTEXT_0) {
            body.next()?;
        }
        let serial = body.take(INTEGER)?;
        body.take(SEQUENCE)?;
        let issuer = body.take(SEQUENCE)?;
        let mut validity = Der(body.take(SEQUENCE)?);
        let (not_before, not_after) = (validity.time()?, validity.time()?);
        let subject = body.take(SEQUENCE)?;
        let public_key = public_key_bits(body.take(SEQUENCE)?)?;
        let mut names = Vec::new();
        while let Some((tag, value)) = body.next() {
            if tag == CONTEXT_3 {
                alternative_names(value, &mut names)?;
            }
        }
        if names.is_empty() {
            names.extend(common_name(subject));
        }
        Some(Self { serial, issuer, subject, not_before, not_after, public_key, names })
    }

    /// The serial number as OpenSSL writes it: in hexadecimal digits, two for each byte.
    pub(super) fn serial_text(&self) -> String {
        let digits = match self.serial {
            [0, rest @ ..] if !rest.is_empty() => rest,
            whole => whole,
        };
        digits.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02X}");
            text
        })
    }

    /// The subject's name in the form of RFC 2253; empty if it is malformed.
    pub(super) fn subject_text(&self) -> String {
        name_text(self.subject).unwrap_or_default()
    }

    /// The subject's name in one line, as OpenSSL's `X509_NAME_oneline` writes it.
    pub(super) fn subject_line(&self) -> String {
        name_line(self.subject).unwrap_or_default()
    }

    /// The issuer's name in the same form.
    pub(super) fn issuer_line(&self) -> String {
        name_line(self.issuer).unwrap_or_default()
    }

    /// The issuer's name in the form of RFC 2253; empty if it is malformed.
    pub(super) fn issuer_text(&self) -> String {
        name_text(self.issuer).unwrap_or_default()
    }
}

/// The names of a DER certificate in lower case: the DNS names of its subject alternative name, or
/// the common name if there are none. Empty when it is malformed.
pub fn certificate_names(der: &[u8]) -> Vec<String> {
    CertificateFacts::read(der).map(|facts| facts.names).unwrap_or_default()
}

/// The short names of attributes (RFC 4519, and OpenSSL's), by the DER of their identifiers.
const ATTRIBUTES: &[(&[u8], &str)] = &[
    (COMMON_NAME, "CN"),
    (&[0x55, 0x04, 0x04], "SN"),
    (&[0x55, 0x04, 0x05], "serialNumber"),
    (&[0x55, 0x04, 0x06], "C"),
    (&[0x55, 0x04, 0x07], "L"),
    (&[0x55, 0x04, 0x08], "ST"),
    (&[0x55, 0x04, 0x09], "street"),
    (&[0x55, 0x04, 0x0a], "O"),
    (&[0x55, 0x04, 0x0b], "OU"),
    (&[0x55, 0x04, 0x0c], "title"),
    (&[0x55, 0x04, 0x11], "postalCode"),
    (&[0x55, 0x04, 0x2a], "GN"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x01], "emailAddress"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 0x01], "UID"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 0x19], "DC"),
];

/// Returns a name in the form of RFC 2253: the last part first, with OpenSSL's escapes.
fn name_text(name: &[u8]) -> Option<String> {
    let mut parts = Vec::new();
    let mut sets = Der(name);
    while !sets.0.is_empty() {
        let mut set = Der(sets.take(SET)?);
        let mut values = Vec::new();
        while !set.0.is_empty() {
            values.push(attribute_text(set.take(SEQUENCE)?)?);
        }
        parts.push(values.join("+"));
    }
    parts.reverse();
    Some(parts.join(","))
}

/// Returns a name as `/C=DE/CN=value`: the first part first, other characters than printable ASCII
/// as `\\xC3`.
fn name_line(name: &[u8]) -> Option<String> {
    let mut line = String::new();
    let mut sets = Der(name);
    while !sets.0.is_empty() {
        let mut set = Der(sets.take(SET)?);
        let mut before = '/';
        while !set.0.is_empty() {
            let mut attribute = Der(set.take(SEQUENCE)?);
            let identifier = attribute.take(OBJECT)?;
            let (_, value) = attribute.next()?;
            let _ = write!(line, "{before}{}=", short_name(identifier));
            for &byte in value {
                match byte {
                    b' '..=b'~' => line.push(char::from(byte)),
                    _ => {
                        let _ = write!(line, "\\x{byte:02X}");
                    }
                }
            }
            before = '+';
        }
    }
    Some(line)
}

/// Returns the short name of an attribute, or else the numbers of its identifier.
fn short_name(identifier: &[u8]) -> String {
    let known = ATTRIBUTES.iter().find(|(der, _)| *der == identifier);
    known.map_or_else(|| dotted(identifier), |(_, name)| (*name).to_owned())
}

/// Returns `CN=value`.
fn attribute_text(attribute: &[u8]) -> Option<String> {
    let mut attribute = Der(attribute);
    let identifier = attribute.take(OBJECT)?;
    let whole = attribute.0;
    let (tag, value) = attribute.next()?;
    let is_known = ATTRIBUTES.iter().any(|(der, _)| *der == identifier);
    let name = short_name(identifier);
    let text = match tag {
        _ if !is_known => None,
        UTF8_STRING | PRINTABLE_STRING | IA5_STRING => Some(value.to_vec()),
        TELETEX_STRING => {
            let text: String = value.iter().map(|byte| char::from(*byte)).collect();
            Some(text.into_bytes())
        }
        BMP_STRING => {
            let units = value
                .chunks(2)
                .map(|pair| pair.iter().fold(0, |unit: u16, byte| unit << 8 | u16::from(*byte)));
            let text = char::decode_utf16(units).collect::<Result<String, _>>().ok()?;
            Some(text.into_bytes())
        }
        _ => None,
    };
    Some(match text {
        Some(text) => format!("{name}={}", escaped(&text)),
        None => whole.iter().fold(format!("{name}=#"), |mut text, byte| {
            let _ = write!(text, "{byte:02X}");
            text
        }),
    })
}

/// Returns a value with the escapes of RFC 2253 section 2.4, bytes outside ASCII as `\\C3`.
fn escaped(value: &[u8]) -> String {
    let mut out = String::with_capacity(value.len());
    for (index, &byte) in value.iter().enumerate() {
        let is_edge = (index == 0 && matches!(byte, b' ' | b'#'))
            || (index + 1 == value.len() && byte == b' ');
        match byte {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            _ if is_edge => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b' '..=b'~' => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\{byte:02X}");
            }
        }
    }
    out
}

/// Returns an object identifier with dots.
fn dotted(identifier: &[u8]) -> String {
    let mut text = String::new();
    let mut number: u64 = 0;
    let mut is_first = true;
    for byte in identifier {
        number = number.wrapping_shl(7) | u64::from(byte & 0x7f);
        if byte & 0x80 != 0 {
            continue;
        }
        if is_first {
            let first = (number / 40).min(2);
            let _ = write!(text, "{first}.{}", number - first * 40);
            is_first = false;
        } else {
            let _ = write!(text, ".{number}");
        }
        number = 0;
    }
    text
}

/// The bits of a public key, from the content of a `SubjectPublicKeyInfo`.
pub(super) fn public_key_bits(content: &[u8]) -> Option<&[u8]> {
    let mut info = Der(content);
    info.take(SEQUENCE)?;
    info.take(BIT_STRING)
}

/// The content of a DER sequence.
pub(super) fn sequence(der: &[u8]) -> Option<&[u8]> {
    Der(der).take(SEQUENCE)
}

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OBJECT: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const TELETEX_STRING: u8 = 0x14;
const IA5_STRING: u8 = 0x16;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const BMP_STRING: u8 = 0x1e;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const CONTEXT_0: u8 = 0xa0;
const CONTEXT_3: u8 = 0xa3;
const DNS_NAME: u8 = 0x82;
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const SUBJECT_ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];

/// The unread rest of a sequence of DER values.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// The next value: its tag and its content.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (len, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (bytes.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((tag, content))
    }

    fn take(&mut self, wanted: u8) -> Option<&'a [u8]> {
        self.next().and_then(|(tag, content)| (tag == wanted).then_some(content))
    }

    /// Reads a `Time`, as seconds since 1970.
    fn time(&mut self) -> Option<i64> {
        let (tag, text) = self.next()?;
        let digits = text.strip_suffix(b"Z")?;
        let mut pairs = Vec::with_capacity(7);
        for pair in digits.chunks(2) {
            let [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] = *pair else { return None };
            pairs.push(i64::from(tens - b'0') * 10 + i64::from(ones - b'0'));
        }
        let (year, rest) = match (tag, pairs.as_slice()) {
            (UTC_TIME, [year, rest @ ..]) => {
                (if *year < 50 { 2000 + year } else { 1900 + year }, rest)
            }
            (GENERALIZED_TIME, [century, year, rest @ ..]) => (century * 100 + year, rest),
            _ => return None,
        };
        let [month @ 1..=12, day @ 1..=31, hour, minute, second] = *rest else { return None };
        Some(((days_since_1970(year, month, day) * 24 + hour) * 60 + minute) * 60 + second)
    }
}

/// The days since 1970-01-01 in the Gregorian calendar; years start in March, so that leap days
/// come last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1 - 719_468
}

/// Adds the DNS names of the certificate's extensions.
fn alternative_names(extensions: &[u8], names: &mut Vec<String>) -> Option<()> {
    let mut extensions = Der(sequence(extensions)?);
    while let Some((_, extension)) = extensions.next() {
        let mut extension = Der(extension);
        if extension.take(OBJECT)? != SUBJECT_ALTERNATIVE_NAME {
            continue;
        }
        let mut value = extension.next()?;
        if value.0 != OCTET_STRING {
            value = extension.next()?;
        }
        let mut general = Der(sequence(value.1)?);
        while let Some((tag, name)) = general.next() {
            if tag == DNS_NAME {
                names.extend(host_name(name));
            }
        }
    }
    Some(())
}

/// The last common name of a subject, if it could be a host name.
fn common_name(subject: &[u8]) -> Option<String> {
    let mut found = None;
    let mut sets = Der(subject);
    while let Some(set) = sets.take(SET) {
        let mut attribute = Der(sequence(set)?);
        if attribute.take(OBJECT)? == COMMON_NAME {
            found = host_name(attribute.next()?.1);
        }
    }
    found
}

fn host_name(name: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(name).ok()?;
    let fits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    fits.then(|| text.trim_end_matches('.').to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType, date_time_ymd};

    fn params(names: &[&str]) -> CertificateParams {
        CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
            .unwrap()
    }

    #[test]
    fn names_validity_and_public_key_are_read() {
        let key = KeyPair::generate().unwrap();
        let mut params = params(&["Shop.Example.com", "*.example.com", "192.0.2.1"]);
        params.not_before = date_time_ymd(1999, 12, 31);
        params.not_after = date_time_ymd(2096, 2, 29);
        let certificate = params.self_signed(&key).unwrap();
        let facts = CertificateFacts::read(certificate.der()).unwrap();
        assert_eq!(facts.names, ["shop.example.com", "*.example.com"]);
        assert_eq!(facts.not_before, 946_598_400);
        assert_eq!(facts.not_after, 3_981_312_000);
        assert_eq!(facts.issuer, facts.subject);
        assert!(facts.public_key.ends_with(key.public_key_raw()));
    }

    #[test]
    fn the_common_name_is_used_only_without_dns_names() {
        let key = KeyPair::generate().unwrap();
        let mut by_common_name = params(&[]);
        by_common_name.distinguished_name.push(DnType::CommonName, "Old.example");
        let old = by_common_name.clone().self_signed(&key).unwrap();
        assert_eq!(CertificateFacts::read(old.der()).unwrap().names, ["old.example"]);
        by_common_name.subject_alt_names.push(SanType::DnsName("new.example".try_into().unwrap()));
        let new = by_common_name.self_signed(&key).unwrap();
        assert_eq!(CertificateFacts::read(new.der()).unwrap().names, ["new.example"]);
    }

    #[test]
    fn names_are_written_in_the_form_of_rfc_2253() {
        let key = KeyPair::generate().unwrap();
        let mut of = params(&[]);
        of.distinguished_name = rcgen::DistinguishedName::new();
        of.serial_number = Some(vec![0x80, 0x0a].into());
        of.distinguished_name.push(DnType::CountryName, "DE");
        of.distinguished_name.push(DnType::OrganizationName, "A, B+C");
        of.distinguished_name.push(DnType::CommonName, " Käse#");
        let other = DnType::CustomDnType(vec![1, 2, 840, 5]);
        of.distinguished_name.push(other, "x");
        let certificate = of.self_signed(&key).unwrap();
        let facts = CertificateFacts::read(certificate.der()).unwrap();
        let expected = r"1.2.840.5=#0C0178,CN=\ K\C3\A4se#,O=A\, B\+C,C=DE";
        assert_eq!(facts.subject_text(), expected);
        assert_eq!(facts.issuer_text(), expected);
        let expected = r"/C=DE/O=A, B+C/CN= K\xC3\xA4se#/1.2.840.5=x";
        assert_eq!(
            (facts.subject_line().as_str(), facts.issuer_line().as_str()),
            (expected, expected)
        );
        assert_eq!(facts.serial_text(), "800A");
    }

    #[test]
    fn every_truncation_is_refused() {
        let certificate =
            params(&["a.example"]).self_signed(&KeyPair::generate().unwrap()).unwrap();
        for len in 0..certificate.der().len() {
            assert_eq!(CertificateFacts::read(&certificate.der()[..len]), None, "cut at {len}");
        }
    }

    proptest! {
        #[test]
        fn reading_any_bytes_does_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = CertificateFacts::read(&bytes);
        }

        #[test]
        fn reading_a_damaged_certificate_does_not_panic(at in 0_usize..500, with: u8) {
            let certificate = params(&["a.example"]).self_signed(&KeyPair::generate().unwrap()).unwrap();
            let mut der = certificate.der().to_vec();
            let at = at % der.len();
            der[at] = with;
            let _ = CertificateFacts::read(&der);
        }
    }
}
