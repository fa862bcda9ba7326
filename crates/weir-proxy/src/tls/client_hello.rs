//! The first message of a TLS client as its bytes come: joins the records that carry it into one and
//! bounds what it may cost, before rustls parses it in one piece and with an allocation for each item
//! of most lists. It reads no socket, and decides nothing about a message that is within the bounds:
//! what is wrong with it is rustls's to find and to answer.

use crate::limits::{
    HELLO_BYTES, HELLO_CODES, HELLO_EXTENSIONS, HELLO_KEYS, HELLO_NAMES, HELLO_RAW_BYTES,
    HELLO_SUITES,
};

/// Type, version and length of a record.
const RECORD_HEADER: usize = 5;
/// Type and length of a handshake message.
const MESSAGE_HEADER: usize = 4;
/// Record type of handshake messages (RFC 8446 section 5.1).
const HANDSHAKE: u8 = 22;
/// Handshake type of the message.
const CLIENT_HELLO: u8 = 1;
/// Payload of a record at most (RFC 8446 section 5.1).
const RECORD_BYTES: usize = 1 << 14;
/// Bytes of an alert's record, and as many as show rustls that a peer speaks something else.
const ALERT_RECORD: usize = 7;
/// The record that a client may send in front of its second `ClientHello` (RFC 8446 appendix D.4).
const CHANGE_CIPHER_SPEC: [u8; 6] = [20, 3, 3, 0, 1, 1];

/// A `ClientHello` of which a part has come.
///
/// ```text
///  bytes: │ header │ message so far │ gap │ records not joined yet │
///                                 joined   next
/// ```
/// The gap is what was the headers of the records after the first.
#[derive(Debug, Default)]
pub(super) struct ClientHello {
    bytes: Vec<u8>,
    /// End of the part of the message that is in one piece; 0 before the first record is whole.
    joined: usize,
    /// Start of the first record that is not joined.
    next: usize,
    /// Set where a change of the cipher may precede it.
    may_change_cipher: bool,
}

/// State of a `ClientHello` after some of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// More bytes have to come.
    Partial,
    /// It is whole and within the bounds.
    Whole,
    /// It is no `ClientHello`, or its records are malformed.
    Foreign,
    /// It is over a bound.
    Excessive,
}

impl ClientHello {
    /// The one that answers a `HelloRetryRequest`.
    pub(super) fn after_retry() -> Self {
        Self { may_change_cipher: true, ..Self::default() }
    }

    /// Bytes that it may still take.
    pub(super) fn room(&self) -> usize {
        HELLO_RAW_BYTES.saturating_sub(self.bytes.len())
    }

    /// Takes bytes that came. The work is proportional to the bytes and the records that they end.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Progress {
        self.bytes.extend_from_slice(bytes);
        let progress = self.advance().unwrap_or(Progress::Partial);
        let is_full = progress == Progress::Partial && self.room() == 0;
        if is_full { Progress::Excessive } else { progress }
    }

    /// Joins the records that are whole. `None` when the next one is not.
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

    /// Judges the part in one piece, as soon as it is the whole message or shows that it is too long.
    fn judge(&mut self) -> Option<Progress> {
        let message = self.bytes.get(RECORD_HEADER..self.joined)?;
        let [_, length @ ..] = *message.first_chunk::<MESSAGE_HEADER>()?;
        let [high, middle, low] = length.map(usize::from);
        let length = MESSAGE_HEADER + ((high << 16) | (middle << 8) | low);
        if length > HELLO_BYTES {
            return Some(Progress::Excessive);
        }
        // No message may follow it in its own record (RFC 8446 section 5.1).
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

    /// The message, in one record. To be called when it is whole.
    pub(super) fn record(&self) -> &[u8] {
        self.bytes.get(..self.joined).unwrap_or_default()
    }

    /// Bytes that came behind it.
    pub(super) fn behind(&self) -> &[u8] {
        self.bytes.get(self.next..).unwrap_or_default()
    }

    /// Of what is no `ClientHello`, the bytes that rustls needs to choose its alert: few enough that no
    /// message costs anything. Empty when the fault is behind a first record that was good.
    pub(super) fn foreign(&self) -> &[u8] {
        let most = if self.joined == 0 { ALERT_RECORD } else { 0 };
        self.bytes.get(..most).unwrap_or(&self.bytes)
    }
}

/// Tells whether a list in the body of a `ClientHello` has more items than its bound. `None` when the
/// body is malformed; rustls stops at the same place. A malformed list is counted up to its fault.
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

/// Tells the same of an extension.
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

/// Bytes that are parsed from the front. Every method is `None` when too few are left.
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

    /// Bytes with a length of one byte in front.
    fn short_block(&mut self) -> Option<Self> {
        let length = *self.take(1)?.first()?;
        self.take(usize::from(length)).map(Self)
    }

    /// Bytes with a length of two bytes in front.
    fn block(&mut self) -> Option<Self> {
        let length = self.number()?;
        self.take(usize::from(length)).map(Self)
    }

    /// Items in these bytes up to the first that is malformed; no more than one over `most` are counted.
    fn count<T>(mut self, most: usize, mut item: impl FnMut(&mut Self) -> Option<T>) -> usize {
        let mut count = 0;
        while count <= most && !self.0.is_empty() && item(&mut self).is_some() {
            count += 1;
        }
        count
    }
}
