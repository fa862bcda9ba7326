//! Collects the first message of a TLS client: joins the records that carry it into one and limits
//! its cost, before rustls parses it as a whole, with an allocation for each item of most lists. It
//! reads no socket, and decides nothing about a message within the limits: rustls finds its faults
//! and answers them.

use crate::limits::{
    HELLO_BYTES, HELLO_CODES, HELLO_EXTENSIONS, HELLO_KEYS, HELLO_NAME_BYTES, HELLO_NAMES,
    HELLO_RAW_BYTES, HELLO_SUITES,
};

/// The size of a record's header: type, version and length.
const RECORD_HEADER: usize = 5;
/// The size of a handshake message's header: type and length.
const MESSAGE_HEADER: usize = 4;
/// The record type of handshake messages (RFC 8446 section 5.1).
const HANDSHAKE: u8 = 22;
/// The handshake type of a `ClientHello`.
const CLIENT_HELLO: u8 = 1;
/// The maximum payload of a record (RFC 8446 section 5.1).
const RECORD_BYTES: usize = 1 << 14;
/// The extension with the server name, and the type of a name in it.
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
/// The extensions with the application protocols and with the versions of TLS.
const ALPN: u16 = 16;
const SUPPORTED_VERSIONS: u16 = 43;
/// The size of an alert's record, which is also enough for rustls to recognise another protocol.
const ALERT_RECORD: usize = 7;
/// The record that a client may send before its second `ClientHello` (RFC 8446 appendix D.4).
const CHANGE_CIPHER_SPEC: [u8; 6] = [20, 3, 3, 0, 1, 1];

/// A `ClientHello` that is partly received.
///
/// ```text
///  bytes: │ header │ message so far │ gap │ records not joined yet │
///                                 joined   next
/// ```
/// The gap results from the headers of the records after the first.
#[derive(Debug, Default)]
pub(super) struct ClientHello {
    bytes: Vec<u8>,
    /// The end of the contiguous part of the message; 0 before the first record is complete.
    joined: usize,
    /// The start of the first record that is not joined yet.
    next: usize,
    /// Set if a `change_cipher_spec` record may precede it.
    may_change_cipher: bool,
}

/// The state of a `ClientHello` after some of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// More bytes are needed.
    Partial,
    /// It is complete and within the limits.
    Whole,
    /// It is no `ClientHello`, or its records are malformed.
    Foreign,
    /// It exceeds a limit.
    Excessive,
}

impl ClientHello {
    /// Creates the state for the message that answers a `HelloRetryRequest`.
    pub(super) fn after_retry() -> Self {
        Self { may_change_cipher: true, ..Self::default() }
    }

    /// The number of bytes that it may still take.
    pub(super) fn room(&self) -> usize {
        HELLO_RAW_BYTES.saturating_sub(self.bytes.len())
    }

    /// Takes received bytes. The work is proportional to the bytes and the records that they
    /// complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Progress {
        self.bytes.extend_from_slice(bytes);
        let progress = self.advance().unwrap_or(Progress::Partial);
        let is_full = progress == Progress::Partial && self.room() == 0;
        if is_full { Progress::Excessive } else { progress }
    }

    /// Joins the complete records. `None` when the next one is incomplete.
    fn advance(&mut self) -> Option<Progress> {
        if self.may_change_cipher && self.bytes.first().is_some_and(|kind| *kind != HANDSHAKE) {
            let record = self.bytes.get(..CHANGE_CIPHER_SPEC.len())?;
            if record != CHANGE_CIPHER_SPEC {
                return Some(Progress::Foreign);
            }
            self.bytes.drain(..CHANGE_CIPHER_SPEC.len());
            self.may_change_cipher = false;
        }
        loop {
            if let Some(progress) = self.judge() {
                return Some(progress);
            }
            if *self.bytes.get(self.next)? != HANDSHAKE {
                return Some(Progress::Foreign);
            }
            let header = self.bytes.get(self.next..)?.first_chunk::<RECORD_HEADER>()?;
            let [_, version, _, high, low] = *header;
            let length = usize::from(u16::from_be_bytes([high, low]));
            if version != 3 || length == 0 || length > RECORD_BYTES {
                return Some(Progress::Foreign);
            }
            let start = self.next + RECORD_HEADER;
            if self.joined == 0 && *self.bytes.get(start)? != CLIENT_HELLO {
                return Some(Progress::Foreign);
            }
            self.bytes.get(start..start + length)?;
            if self.joined == 0 {
                self.joined = start;
            }
            self.bytes.copy_within(start..start + length, self.joined);
            self.joined += length;
            self.next = start + length;
        }
    }

    /// Checks the contiguous part, as soon as it is the whole message or shows that the message is
    /// too long.
    fn judge(&mut self) -> Option<Progress> {
        let message = self.bytes.get(RECORD_HEADER..self.joined)?;
        let [_, length @ ..] = *message.first_chunk::<MESSAGE_HEADER>()?;
        let [high, middle, low] = length.map(usize::from);
        let length = MESSAGE_HEADER + ((high << 16) | (middle << 8) | low);
        if length > HELLO_BYTES {
            return Some(Progress::Excessive);
        }
        // No other message may follow it in its own record (RFC 8446 section 5.1).
        if message.len() > length {
            return Some(Progress::Foreign);
        }
        let body = message.get(MESSAGE_HEADER..length)?;
        if is_excessive(body).unwrap_or(false) {
            return Some(Progress::Excessive);
        }
        if self.next > self.joined {
            let length = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
            self.bytes.get_mut(3..RECORD_HEADER)?.copy_from_slice(&length);
        }
        Some(Progress::Whole)
    }

    /// The message, in one record. It must be complete.
    pub(super) fn record(&self) -> &[u8] {
        self.bytes.get(..self.joined).unwrap_or_default()
    }

    /// The name that the client asks for (RFC 6066 section 3), if the message is complete and has
    /// one that a host can have.
    pub(super) fn server_name(&self) -> Option<&str> {
        let mut names = self.extension(SERVER_NAME)?.block()?;
        let (kind, name) = (names.take(1)?, names.block()?);
        let name = std::str::from_utf8(name.0).ok().filter(|_| kind == [HOST_NAME])?;
        let is_name = (1..=HELLO_NAME_BYTES).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_graphic());
        is_name.then_some(name)
    }

    /// The application protocols that the client offers (RFC 7301), separated by commas, up to the
    /// first malformed one.
    pub(super) fn alpn_protocols(&self) -> Vec<u8> {
        let mut list = Vec::new();
        let Some(mut names) = self.extension(ALPN).and_then(|mut content| content.block()) else {
            return list;
        };
        while let Some(name) = names.short_block() {
            if !list.is_empty() {
                list.push(b',');
            }
            list.extend_from_slice(name.0);
        }
        list
    }

    /// The highest version of TLS that the client offers, as OpenSSL spells it; empty for one that
    /// is not known.
    pub(super) fn highest_version(&self) -> &'static str {
        let legacy = self.body().and_then(|mut body| body.number());
        let mut offered = self
            .extension(SUPPORTED_VERSIONS)
            .and_then(|mut content| content.short_block())
            .unwrap_or(Reader(&[]));
        let offered = std::iter::from_fn(move || offered.number());
        // Others are reserved so that servers learn to ignore them (RFC 8701).
        let known = offered.chain(legacy).filter(|version| (0x300..=0x304).contains(version));
        match known.max() {
            Some(0x304) => "TLSv1.3",
            Some(0x303) => "TLSv1.2",
            Some(0x302) => "TLSv1.1",
            Some(0x301) => "TLSv1",
            Some(0x300) => "SSLv3",
            _ => "",
        }
    }

    /// The message behind its header.
    fn body(&self) -> Option<Reader<'_>> {
        self.record().get(RECORD_HEADER + MESSAGE_HEADER..).map(Reader)
    }

    /// The content of the first extension of this kind.
    fn extension(&self, wanted: u16) -> Option<Reader<'_>> {
        let mut body = self.body()?;
        let (_version_and_random, _session) = (body.take(2 + 32)?, body.short_block()?);
        let (_suites, _compression) = (body.block()?, body.short_block()?);
        let mut extensions = body.block()?;
        loop {
            let (kind, content) = (extensions.number()?, extensions.block()?);
            if kind == wanted {
                return Some(content);
            }
        }
    }

    /// Returns true if the connection begins with a letter, as requests of HTTP/1 do; no record of
    /// TLS does.
    pub(super) fn is_text(&self) -> bool {
        self.bytes.first().is_some_and(u8::is_ascii_alphabetic)
    }

    /// The bytes as received, if none of its records was complete.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The bytes of memory that it holds.
    pub(super) fn held(&self) -> usize {
        self.bytes.capacity()
    }

    /// The bytes received after it.
    pub(super) fn behind(&self) -> &[u8] {
        self.bytes.get(self.next..).unwrap_or_default()
    }

    /// The bytes that rustls needs to choose its alert for a message that is no `ClientHello`, so
    /// few that no message is expensive to process. Empty when the fault is after a valid first
    /// record.
    pub(super) fn foreign(&self) -> &[u8] {
        let most = if self.joined == 0 { ALERT_RECORD } else { 0 };
        self.bytes.get(..most).unwrap_or(&self.bytes)
    }
}

/// Returns true if a list in the body of a `ClientHello` has more items than its limit. `None` when
/// the body is malformed; rustls stops at the same place. A malformed list is counted up to its
/// fault.
fn is_excessive(body: &[u8]) -> Option<bool> {
    let mut body = Reader(body);
    let (_version_and_random, _session) = (body.take(2 + 32)?, body.short_block()?);
    if body.block()?.0.len() > 2 * HELLO_SUITES {
        return Some(true);
    }
    let _compression = body.short_block()?;
    let mut extensions = body.block()?;
    for _ in 0..HELLO_EXTENSIONS {
        if extensions.0.is_empty() {
            return Some(false);
        }
        let kind = extensions.number()?;
        let content = extensions.block()?;
        if has_many_items(kind, content).unwrap_or(false) {
            return Some(true);
        }
    }
    Some(!extensions.0.is_empty())
}

/// Returns true if a list in an extension has more items than its limit, with the same treatment of
/// malformed bytes.
fn has_many_items(kind: u16, mut content: Reader<'_>) -> Option<bool> {
    Some(match kind {
        // status_request: identities of OCSP responders.
        5 => {
            let is_ocsp = content.take(1)? == [1];
            is_ocsp && content.block()?.count(HELLO_NAMES, Reader::block) > HELLO_NAMES
        }
        // supported_groups, signature_algorithms.
        10 | 13 => content.block()?.0.len() > 2 * HELLO_CODES,
        // application_layer_protocol_negotiation.
        16 => content.block()?.count(HELLO_NAMES, Reader::short_block) > HELLO_NAMES,
        // pre_shared_key: identities and binders.
        41 => {
            let identity = |list: &mut Reader<'_>| list.block().and(list.take(4)).map(drop);
            content.block()?.count(HELLO_KEYS, identity) > HELLO_KEYS
                || content.block()?.count(HELLO_KEYS, Reader::short_block) > HELLO_KEYS
        }
        // certificate_authorities.
        47 => content.block()?.count(HELLO_NAMES, Reader::block) > HELLO_NAMES,
        // key_share.
        51 => {
            let share = |list: &mut Reader<'_>| list.take(2).and(list.block()).map(drop);
            content.block()?.count(HELLO_KEYS, share) > HELLO_KEYS
        }
        _ => false,
    })
}

/// Bytes that are parsed from the front. Every method returns `None` when too few bytes are left.
#[derive(Clone, Copy)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u16> {
        self.take(2)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
    }

    /// Takes bytes with a length prefix of one byte.
    fn short_block(&mut self) -> Option<Self> {
        let length = *self.take(1)?.first()?;
        self.take(usize::from(length)).map(Self)
    }

    /// Takes bytes with a length prefix of two bytes.
    fn block(&mut self) -> Option<Self> {
        let length = self.number()?;
        self.take(usize::from(length)).map(Self)
    }

    /// The number of items in these bytes up to the first malformed one; at most one more than
    /// `most` is counted.
    fn count<T>(mut self, most: usize, mut item: impl FnMut(&mut Self) -> Option<T>) -> usize {
        let mut count = 0;
        while count <= most && !self.0.is_empty() && item(&mut self).is_some() {
            count += 1;
        }
        count
    }
}
