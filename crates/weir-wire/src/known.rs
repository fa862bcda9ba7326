//! The header names that Weir interprets, recognised once while parsing so that no later stage
//! compares text again.

/// Header names that framing, routing, static files and logs use. Those of [`Known::rules`] come
/// first.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "each variant is the header name it spells")]
pub enum Known {
    Connection,
    ContentLength,
    Expect,
    Host,
    KeepAlive,
    TransferEncoding,
    Upgrade,
    WeirHops,
    #[default]
    Other,
    Accept,
    AcceptEncoding,
    Authorization,
    CacheControl,
    ContentEncoding,
    ContentRange,
    ContentType,
    Cookie,
    Date,
    Etag,
    Forwarded,
    Http2Settings,
    IfMatch,
    IfModifiedSince,
    IfNoneMatch,
    IfRange,
    IfUnmodifiedSince,
    LastModified,
    Location,
    Origin,
    Proxy,
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
    /// The variant for `name`, a token in any case.
    #[inline]
    pub fn of(name: &[u8]) -> Self {
        let Some((first, last)) = ends(name) else { return Self::of_short(name) };
        match TABLE.get(slot(first, last)) {
            // Both words in one branch.
            Some(entry)
                if usize::from(entry.length) == name.len()
                    && (entry.first ^ first) | (entry.last ^ last) == 0
                    && (name.len() <= 16 || entry.middle == middle(name)) =>
            {
                entry.known
            }
            _ => Self::Other,
        }
    }

    /// Handles names that are too short for the table.
    fn of_short(name: &[u8]) -> Self {
        if name.eq_ignore_ascii_case(b"te") { Self::Te } else { Self::Other }
    }

    /// Tells whether a line of this name can change the interpretation of the message: its framing,
    /// its connection, its host, its hop count.
    #[inline]
    pub(crate) fn rules(self) -> bool {
        (self as u8) < Self::Other as u8
    }

    /// Tells whether a line of this name is never passed on as received, in either direction.
    ///
    /// - hop-by-hop (RFC 9110 section 7.6.1): `Connection`, `Keep-Alive`, `Proxy-Connection`, `TE`,
    ///   `Transfer-Encoding`, `Upgrade`;
    /// - `Proxy-Authenticate`, `Proxy-Authorization`: between a client and its own forward proxy
    ///   (RFC 2616 section 13.5.1), which Weir is not;
    /// - `Content-Length`: framing, which the sender writes anew from `framing` or
    ///   `content_length`;
    /// - `Host`: the sender writes it anew from `host`, because an absolute-form target overrides
    ///   the line;
    /// - `Expect`: Weir answers `100-continue` itself and refuses other expectations;
    /// - `HTTP2-Settings`: part of an upgrade to HTTP/2 (RFC 7540 section 3.2.1), which is not
    ///   passed on;
    /// - `Proxy`: not an HTTP header, but CGI programs see it as the variable `HTTP_PROXY`
    ///   (CVE-2016-5385, "httpoxy");
    /// - `Weir-Hops`: the number of Weir instances that the request has passed; each writes it
    ///   anew.
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
                | Self::Http2Settings
                | Self::Proxy
                | Self::WeirHops
        )
    }
}

/// All names of [`Known`] except `te`.
const NAMES: [(&[u8], Known); 46] = [
    (b"accept", Known::Accept),
    (b"accept-encoding", Known::AcceptEncoding),
    (b"authorization", Known::Authorization),
    (b"cache-control", Known::CacheControl),
    (b"connection", Known::Connection),
    (b"content-encoding", Known::ContentEncoding),
    (b"content-length", Known::ContentLength),
    (b"content-range", Known::ContentRange),
    (b"content-type", Known::ContentType),
    (b"cookie", Known::Cookie),
    (b"date", Known::Date),
    (b"etag", Known::Etag),
    (b"expect", Known::Expect),
    (b"forwarded", Known::Forwarded),
    (b"host", Known::Host),
    (b"http2-settings", Known::Http2Settings),
    (b"if-match", Known::IfMatch),
    (b"if-modified-since", Known::IfModifiedSince),
    (b"if-none-match", Known::IfNoneMatch),
    (b"if-range", Known::IfRange),
    (b"if-unmodified-since", Known::IfUnmodifiedSince),
    (b"keep-alive", Known::KeepAlive),
    (b"last-modified", Known::LastModified),
    (b"location", Known::Location),
    (b"origin", Known::Origin),
    (b"proxy", Known::Proxy),
    (b"proxy-authenticate", Known::ProxyAuthenticate),
    (b"proxy-authorization", Known::ProxyAuthorization),
    (b"proxy-connection", Known::ProxyConnection),
    (b"range", Known::Range),
    (b"referer", Known::Referer),
    (b"retry-after", Known::RetryAfter),
    (b"server", Known::Server),
    (b"set-cookie", Known::SetCookie),
    (b"trailer", Known::Trailer),
    (b"transfer-encoding", Known::TransferEncoding),
    (b"upgrade", Known::Upgrade),
    (b"user-agent", Known::UserAgent),
    (b"vary", Known::Vary),
    (b"weir-hops", Known::WeirHops),
    (b"x-forwarded-for", Known::XForwardedFor),
    (b"x-forwarded-host", Known::XForwardedHost),
    (b"x-forwarded-port", Known::XForwardedPort),
    (b"x-forwarded-proto", Known::XForwardedProto),
    (b"x-real-ip", Known::XRealIp),
    (b"x-request-id", Known::XRequestId),
];

/// An entry of [`TABLE`]. An empty entry has the length 0.
#[derive(Clone, Copy)]
struct KnownEntry {
    first: u64,
    /// The bytes between the two others in a name longer than 16 bytes, else 0.
    middle: u64,
    last: u64,
    length: u8,
    known: Known,
}

const SLOT_BITS: u32 = 7;

/// Each name at its [`slot`], so that a lookup compares with one entry only.
#[expect(clippy::indexing_slicing, reason = "done while compiling")]
static TABLE: [KnownEntry; 1 << SLOT_BITS] = {
    let empty = KnownEntry { first: 0, middle: 0, last: 0, length: 0, known: Known::Other };
    let mut table = [empty; 1 << SLOT_BITS];
    let mut at = 0;
    while at < NAMES.len() {
        let (name, known) = NAMES[at];
        assert!(name.len() <= LONGEST, "three words do not cover the name");
        let Some((first, last)) = ends(name) else { panic!("the name is too short for the table") };
        let middle = if name.len() > 16 { middle(name) } else { 0 };
        let entry = &mut table[slot(first, last)];
        assert!(entry.length == 0, "two names in one slot: try another SPREAD, any odd number");
        *entry = KnownEntry { first, middle, last, length: name.len() as u8, known };
        at += 1;
    }
    table
};

/// The longest name that three words of eight bytes cover.
const LONGEST: usize = 24;

/// Multiplier that sends each name to a slot of its own. Found by trial.
const SPREAD: u64 = 0x6e00_694a_1d22_d453;

/// The table index of a known name with these ends.
#[inline]
const fn slot(first: u64, last: u64) -> usize {
    (first.wrapping_add(last).wrapping_mul(SPREAD) >> (u64::BITS - SLOT_BITS)) as usize
}

/// OR-ing a byte with this bit maps both cases of a letter to one value. Names are tokens: no other
/// token byte becomes a letter or a hyphen this way.
const LOWER: u64 = 0x2020_2020_2020_2020;

/// The first and the last eight bytes of a name, in lower case. For a shorter name both words hold
/// its first four and last four bytes. Together with the length they determine a name of up to 16
/// bytes. `None` for names below four bytes.
#[inline]
const fn ends(name: &[u8]) -> Option<(u64, u64)> {
    if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        return Some((u64::from_le_bytes(*first) | LOWER, u64::from_le_bytes(*last) | LOWER));
    }
    let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) else { return None };
    let word = (u32::from_le_bytes(*first) as u64) | ((u32::from_le_bytes(*last) as u64) << 32);
    Some((word | LOWER, word | LOWER))
}

/// The eight bytes after the first eight, in lower case; 0 for a shorter name.
#[inline]
const fn middle(name: &[u8]) -> u64 {
    match name.split_first_chunk::<8>() {
        Some((_, rest)) => match rest.first_chunk() {
            Some(eight) => u64::from_le_bytes(*eight) | LOWER,
            None => 0,
        },
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::{Index, select};

    use super::{Known, NAMES};

    /// The meaning of `Known::of`: a comparison that ignores case.
    fn plainly(name: &[u8]) -> Known {
        let found = NAMES.iter().find(|(text, _)| text.eq_ignore_ascii_case(name));
        let known = found.map_or(Known::Other, |(_, known)| *known);
        if name.eq_ignore_ascii_case(b"te") { Known::Te } else { known }
    }

    fn token_byte() -> impl Strategy<Value = u8> {
        let bytes: Vec<u8> = (0..=255).filter(|byte| crate::header::is_token_byte(*byte)).collect();
        select(bytes)
    }

    /// A known name in mixed case, with up to two bytes changed, added or removed.
    fn name_or_nearly() -> impl Strategy<Value = Vec<u8>> {
        let change = (any::<Index>(), token_byte(), 0..4_u8);
        let changes = proptest::collection::vec(change, 0..3);
        let names: Vec<&[u8]> =
            NAMES.iter().map(|(name, _)| *name).chain([b"te".as_slice()]).collect();
        (select(names), any::<u32>(), changes).prop_map(|(name, upper, changes)| {
            let cased = |(at, byte): (usize, &u8)| match upper >> at & 1 {
                0 => *byte,
                _ => byte.to_ascii_uppercase(),
            };
            let mut name: Vec<u8> = name.iter().enumerate().map(cased).collect();
            for (at, byte, kind) in changes {
                let at = at.index(name.len().max(1));
                match kind {
                    0 => name.insert(at, byte),
                    1 if at < name.len() => drop(name.remove(at)),
                    // The bit that a comparison without case ignores.
                    2 if at < name.len() && crate::header::is_token_byte(name[at] ^ 0x20) => {
                        name[at] ^= 0x20;
                    }
                    _ if at < name.len() => name[at] = byte,
                    _ => {}
                }
            }
            name
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_table_says_what_plain_comparison_says(
            name in name_or_nearly(), other in proptest::collection::vec(token_byte(), 0..30),
        ) {
            prop_assert_eq!(Known::of(&name), plainly(&name), "{}", String::from_utf8_lossy(&name));
            prop_assert_eq!(Known::of(&other), plainly(&other), "{}", String::from_utf8_lossy(&other));
        }
    }

    #[test]
    fn what_rules_are_the_names_that_parsing_looks_at() {
        let ruling: Vec<Known> =
            NAMES.iter().map(|(_, known)| *known).filter(|known| known.rules()).collect();
        assert_eq!(
            ruling,
            [
                Known::Connection,
                Known::ContentLength,
                Known::Expect,
                Known::Host,
                Known::KeepAlive,
                Known::TransferEncoding,
                Known::Upgrade,
                Known::WeirHops
            ]
        );
        assert!(!Known::Other.rules() && !Known::Te.rules());
    }

    #[test]
    fn knows_every_name_of_the_table() {
        for (name, known) in NAMES {
            assert_eq!(Known::of(name), known);
            assert_eq!(Known::of(&name.to_ascii_uppercase()), known);
        }
    }

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
