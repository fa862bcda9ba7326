//! One header line, and the names the product looks at, recognised once while parsing so that nobody compares text again.

use crate::span::Span;

/// A header line of a parsed head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The name, as written.
    pub name: Span,
    /// The value, without the white space around it. Visible ASCII, space, tab and bytes from 0x80 on; nothing else.
    pub value: Span,
    /// The name, if it is one we know.
    pub known: Known,
}

/// Header names that framing, routing, static files and logs look at.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "each variant is the header name it spells")]
pub enum Known {
    #[default]
    Other,
    Accept,
    AcceptEncoding,
    Authorization,
    CacheControl,
    Connection,
    ContentEncoding,
    ContentLength,
    ContentRange,
    ContentType,
    Cookie,
    Date,
    Etag,
    Expect,
    Forwarded,
    Host,
    IfMatch,
    IfModifiedSince,
    IfNoneMatch,
    IfRange,
    IfUnmodifiedSince,
    KeepAlive,
    LastModified,
    Location,
    Origin,
    ProxyAuthenticate,
    ProxyAuthorization,
    ProxyConnection,
    Range,
    Referer,
    RetryAfter,
    Server,
    SetCookie,
    Te,
    Trailer,
    TransferEncoding,
    Upgrade,
    UserAgent,
    Vary,
    XForwardedFor,
    XForwardedHost,
    XForwardedPort,
    XForwardedProto,
    XRealIp,
    XRequestId,
}

impl Known {
    /// The known name that `name` spells, in any case.
    #[inline]
    pub fn of(name: &[u8]) -> Self {
        let Some(first) = name.first() else { return Self::Other };
        let (text, known) = Self::candidate(name.len(), first | 0x20, name);
        if spells(name, text) { known } else { Self::Other }
    }

    /// The one known name that has this length and this first letter; a third byte decides where there are two.
    #[inline]
    fn candidate(length: usize, first: u8, name: &[u8]) -> (&'static [u8], Self) {
        match (length, first) {
            (2, b't') => (b"te", Self::Te),
            (4, b'h') => (b"host", Self::Host),
            (4, b'd') => (b"date", Self::Date),
            (4, b'e') => (b"etag", Self::Etag),
            (4, b'v') => (b"vary", Self::Vary),
            (5, b'r') => (b"range", Self::Range),
            (6, b'a') => (b"accept", Self::Accept),
            (6, b'c') => (b"cookie", Self::Cookie),
            (6, b'e') => (b"expect", Self::Expect),
            (6, b'o') => (b"origin", Self::Origin),
            (6, b's') => (b"server", Self::Server),
            (7, b't') => (b"trailer", Self::Trailer),
            (7, b'u') => (b"upgrade", Self::Upgrade),
            (7, b'r') => (b"referer", Self::Referer),
            (8, b'l') => (b"location", Self::Location),
            (8, b'i') if byte(name, 3) == b'm' => (b"if-match", Self::IfMatch),
            (8, b'i') => (b"if-range", Self::IfRange),
            (9, b'f') => (b"forwarded", Self::Forwarded),
            (9, b'x') => (b"x-real-ip", Self::XRealIp),
            (10, b'c') => (b"connection", Self::Connection),
            (10, b'k') => (b"keep-alive", Self::KeepAlive),
            (10, b's') => (b"set-cookie", Self::SetCookie),
            (10, b'u') => (b"user-agent", Self::UserAgent),
            (11, b'r') => (b"retry-after", Self::RetryAfter),
            (12, b'c') => (b"content-type", Self::ContentType),
            (12, b'x') => (b"x-request-id", Self::XRequestId),
            (13, _) => Self::candidate_of_13(first, name),
            (14, b'c') => (b"content-length", Self::ContentLength),
            (15, b'a') => (b"accept-encoding", Self::AcceptEncoding),
            (15, b'x') => (b"x-forwarded-for", Self::XForwardedFor),
            (16, b'c') => (b"content-encoding", Self::ContentEncoding),
            (16, b'p') => (b"proxy-connection", Self::ProxyConnection),
            (16, b'x') if byte(name, 12) == b'h' => (b"x-forwarded-host", Self::XForwardedHost),
            (16, b'x') => (b"x-forwarded-port", Self::XForwardedPort),
            (17, b't') => (b"transfer-encoding", Self::TransferEncoding),
            (17, b'x') => (b"x-forwarded-proto", Self::XForwardedProto),
            (17, b'i') => (b"if-modified-since", Self::IfModifiedSince),
            (18, b'p') => (b"proxy-authenticate", Self::ProxyAuthenticate),
            (19, b'p') => (b"proxy-authorization", Self::ProxyAuthorization),
            (19, b'i') => (b"if-unmodified-since", Self::IfUnmodifiedSince),
            _ => (b"", Self::Other),
        }
    }

    fn candidate_of_13(first: u8, name: &[u8]) -> (&'static [u8], Self) {
        match first {
            b'a' => (b"authorization", Self::Authorization),
            b'i' => (b"if-none-match", Self::IfNoneMatch),
            b'l' => (b"last-modified", Self::LastModified),
            b'c' if byte(name, 1) == b'a' => (b"cache-control", Self::CacheControl),
            b'c' => (b"content-range", Self::ContentRange),
            _ => (b"", Self::Other),
        }
    }

    /// Whether a line of this name is never passed on as it came, in either direction.
    ///
    /// - hop-by-hop (RFC 9110 section 7.6.1): `Connection`, `Keep-Alive`, `Proxy-Connection`, `TE`, `Transfer-Encoding`, `Upgrade`;
    /// - `Proxy-Authenticate`, `Proxy-Authorization`: between a client and *its* proxy (RFC 2616 section 13.5.1), which we are not;
    /// - `Content-Length`: framing, which the sender writes anew from `framing` or `content_length`;
    /// - `Host`: the sender writes it anew from `host`, because an absolute-form target overrides the line;
    /// - `Expect`: we answer `100-continue` ourselves, and other expectations are refused.
    ///
    /// `Trailer` is passed on: trailers themselves are, and it is not hop-by-hop since RFC 9110.
    #[inline]
    pub fn stays_here(self) -> bool {
        matches!(
            self,
            Self::Connection
                | Self::KeepAlive
                | Self::ProxyConnection
                | Self::Te
                | Self::TransferEncoding
                | Self::Upgrade
                | Self::ProxyAuthenticate
                | Self::ProxyAuthorization
                | Self::ContentLength
                | Self::Host
                | Self::Expect
        )
    }
}

/// Replaces `headers` by what the tokeniser found in `bytes`.
#[inline]
pub(crate) fn collect(headers: &mut Vec<Header>, bytes: &[u8], found: &[httparse::Header<'_>]) {
    headers.clear();
    headers.extend(found.iter().map(|header| Header {
        name: Span::within(bytes, header.name.as_bytes()),
        value: Span::within(bytes, header.value),
        known: Known::of(header.name.as_bytes()),
    }));
}

/// Whether `name` is `text` in any case: letters and hyphens, lower case, up to [`LONGEST`] of them. Names are tokens, of which only a
/// letter becomes a letter, and only a hyphen a hyphen, when the bit that tells the cases apart is set.
#[inline]
fn spells(name: &[u8], text: &[u8]) -> bool {
    if name.len() != text.len() {
        return false;
    }
    debug_assert!(text.len() <= LONGEST, "the middle of a longer name would not be looked at");
    match (eights(name), eights(text)) {
        (Some([first, middle, last]), Some(text)) => {
            const LOWER: u64 = 0x2020_2020_2020_2020;
            [first | LOWER, middle | LOWER, last | LOWER] == text
        }
        _ => text.eq_ignore_ascii_case(name),
    }
}

/// The longest name that three words of eight bytes cover.
const LONGEST: usize = 24;

/// The first eight bytes, the eight after them as far as there are (else the last again), and the last eight; `None` of a shorter name.
#[inline]
fn eights(name: &[u8]) -> Option<[u64; 3]> {
    let (first, last) = (name.first_chunk::<8>()?, name.last_chunk::<8>()?);
    let middle = name.get(8..).and_then(<[u8]>::first_chunk::<8>).unwrap_or(last);
    Some([first, middle, last].map(|bytes| u64::from_le_bytes(*bytes)))
}

/// The byte there in lower case, 0 past the end.
fn byte(name: &[u8], at: usize) -> u8 {
    name.get(at).map_or(0, |byte| byte | 0x20)
}

/// Whether this byte may stand in a token (RFC 9110 section 5.6.2).
pub(crate) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether this byte may stand in a header value: no control byte but the tab.
pub(crate) fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// `text` without spaces and tabs around it.
#[inline]
pub(crate) fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::Known;

    #[test]
    fn knows_its_names_in_any_case_and_nothing_like_them() {
        for (name, known) in [
            ("Host", Known::Host),
            ("IF-MATCH", Known::IfMatch),
            ("If-Range", Known::IfRange),
            ("cache-control", Known::CacheControl),
            ("Content-Range", Known::ContentRange),
            ("X-Forwarded-Host", Known::XForwardedHost),
            ("x-forwarded-port", Known::XForwardedPort),
            ("TRANSFER-ENCODING", Known::TransferEncoding),
            ("content-length", Known::ContentLength),
            ("Hos7", Known::Other),
            ("content_length", Known::Other),
            ("tE", Known::Te),
            ("\x54\x45", Known::Te),
            ("", Known::Other),
            ("transfer-encodin\x07", Known::Other),
            ("HOST ", Known::Other),
        ] {
            assert_eq!(Known::of(name.as_bytes()), known, "{name:?}");
        }
    }
}
