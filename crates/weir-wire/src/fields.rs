//! The combined meaning of a head's header lines: the framing of the body, the persistence of the
//! connection, and the names that are not passed on. The rules are those of RFC 9112 section 6,
//! except that each ambiguity is refused.

use smallvec::SmallVec;

use crate::fault::{FieldFault, Located};
use crate::header::{Header, trim};
use crate::known::Known;
use crate::limits::{MAX_CONNECTION_NAMES, MAX_CONNECTION_OPTIONS, MAX_LENGTH};
use crate::method::Version;
use crate::span::Span;

/// The way a body is delimited.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Framing {
    /// No body, and no header line about one.
    #[default]
    None,
    /// A body of this many bytes, which may be 0.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// All bytes until the sender closes the connection; responses only.
    UntilClose,
}

/// Facts gathered line by line with [`Fields::take`].
#[derive(Default, Debug)]
pub(crate) struct Fields {
    pub(crate) length: Option<u64>,
    pub(crate) chunked: bool,
    pub(crate) close: bool,
    pub(crate) keep_alive: bool,
    pub(crate) upgrade: Upgrade,
    pub(crate) keep_alive_limits: KeepAliveLimits,
    /// Number of elements in all `Connection` lines so far, empty ones included.
    options: u8,
}

/// The parameters of `Keep-Alive` (RFC 2068 section 19.7.1.1, in the form that Apache and Node.js
/// use).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepAliveLimits {
    /// `timeout=`: seconds after which the sender closes the idle connection.
    pub timeout_s: Option<u32>,
    /// `max=`: number of messages that may still follow on the connection.
    pub max: Option<u32>,
}

impl KeepAliveLimits {
    /// Takes the parameters of one line. A value that is no number is ignored; of two values the
    /// smaller one is kept.
    #[cold]
    fn take(&mut self, text: &[u8]) {
        for parameter in text.split(|byte| matches!(byte, b',' | b';')).map(trim) {
            let Some(at) = parameter.iter().position(|byte| *byte == b'=') else { continue };
            let (name, value) = parameter.split_at(at);
            let value = decimal(trim(value.get(1..).unwrap_or_default()));
            let Some(value) = value.map(|value| u32::try_from(value).unwrap_or(u32::MAX)) else {
                continue;
            };
            let own = if trim(name).eq_ignore_ascii_case(b"timeout") {
                &mut self.timeout_s
            } else if trim(name).eq_ignore_ascii_case(b"max") {
                &mut self.max
            } else {
                continue;
            };
            *own = Some(own.map_or(value, |before| before.min(value)));
        }
    }
}

/// Names that `Connection` lists, without the options that HTTP defines for it.
pub(crate) type ListedNames = SmallVec<[Span; 4]>;

/// The two header lines that together offer an upgrade.
#[derive(Default, Clone, Copy, Debug)]
pub(crate) struct Upgrade {
    listed: bool,
    protocol: bool,
}

impl Upgrade {
    /// Tells whether both lines are present.
    pub(crate) fn is_offered(self) -> bool {
        self.listed && self.protocol
    }
}

impl Fields {
    /// Takes one line; the names that `Connection` lists in it are added to `listed`. Lines whose
    /// name is not one of [`Known::rules`] are ignored.
    #[expect(clippy::inline_always, reason = "two callers, both on every message's way")]
    #[inline(always)]
    pub(crate) fn take(
        &mut self,
        bytes: &[u8],
        header: &Header,
        listed: &mut ListedNames,
    ) -> Result<(), FieldFault> {
        match header.known {
            Known::ContentLength => self.take_length(header.value.of(bytes)),
            Known::TransferEncoding => self.take_encoding(header.value.of(bytes)),
            Known::Connection => self.take_connection(bytes, header.value.of(bytes), listed),
            Known::KeepAlive => {
                self.keep_alive_limits.take(header.value.of(bytes));
                Ok(())
            }
            Known::Upgrade => {
                self.upgrade.protocol |= !header.value.is_empty();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    #[inline]
    fn take_length(&mut self, text: &[u8]) -> Result<(), FieldFault> {
        if self.length.is_some() {
            return Err(FieldFault::DuplicateContentLength);
        }
        self.length = Some(decimal(text).ok_or(FieldFault::BadContentLength)?);
        Ok(())
    }

    /// Takes a `Transfer-Encoding` line, of which one with `chunked` alone is allowed. Another
    /// coding before a final `chunked` leaves the framing known but the coding unknown (501, RFC
    /// 9112 section 6.1); anything else leaves the length unknown (400, section 6.3).
    #[inline(never)]
    fn take_encoding(&mut self, text: &[u8]) -> Result<(), FieldFault> {
        if self.chunked {
            return Err(FieldFault::BadTransferEncoding);
        }
        if text.eq_ignore_ascii_case(b"chunked") {
            self.chunked = true;
            return Ok(());
        }
        let mut codings = text.split(|byte| *byte == b',').map(trim);
        let last_is_chunked =
            codings.next_back().is_some_and(|coding| coding.eq_ignore_ascii_case(b"chunked"));
        let others_are_other =
            codings.all(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"chunked"));
        if last_is_chunked && others_are_other {
            return Err(FieldFault::UnknownTransferCoding);
        }
        Err(FieldFault::BadTransferEncoding)
    }

    #[inline]
    fn take_connection(
        &mut self,
        bytes: &[u8],
        text: &[u8],
        listed: &mut ListedNames,
    ) -> Result<(), FieldFault> {
        // The usual spellings. A `match` would compare byte by byte.
        let is_usual = text == b"keep-alive" || text == b"Keep-Alive";
        if is_usual && self.options < MAX_CONNECTION_OPTIONS {
            self.options += 1;
            self.keep_alive = true;
            return Ok(());
        }
        self.take_options(bytes, text, listed)
    }

    /// Not inlined, because of its length.
    #[inline(never)]
    fn take_options(
        &mut self,
        bytes: &[u8],
        text: &[u8],
        listed: &mut ListedNames,
    ) -> Result<(), FieldFault> {
        for option in text.split(|byte| *byte == b',').map(trim) {
            if self.options == MAX_CONNECTION_OPTIONS {
                return Err(FieldFault::TooManyConnectionNames);
            }
            self.options += 1;
            if option.eq_ignore_ascii_case(b"keep-alive") {
                self.keep_alive = true;
            } else if option.eq_ignore_ascii_case(b"close") {
                self.close = true;
            } else if option.eq_ignore_ascii_case(b"upgrade") {
                self.upgrade.listed = true;
            } else if !option.is_empty() {
                if listed.len() == MAX_CONNECTION_NAMES {
                    return Err(FieldFault::TooManyConnectionNames);
                }
                listed.push(Span::within(bytes, option));
            }
        }
        Ok(())
    }

    /// Refuses contradicting lines. Call it once, after the last line.
    pub(crate) fn check(&self, version: Version) -> Result<(), FieldFault> {
        match (self.chunked, self.length, version) {
            (true, Some(_), _) => Err(FieldFault::LengthAndEncoding),
            (true, None, Version::Http10) => Err(FieldFault::EncodingInHttp10),
            _ => Ok(()),
        }
    }

    /// The framing that the lines declare; [`Framing::None`] if there is no such line.
    pub(crate) fn framing(&self) -> Framing {
        match (self.chunked, self.length) {
            (true, _) => Framing::Chunked,
            (false, Some(length)) => Framing::Length(length),
            (false, None) => Framing::None,
        }
    }

    /// Tells whether the connection may carry another message (RFC 9112 section 9.3). `close`
    /// overrides `keep-alive`.
    pub(crate) fn persists(&self, version: Version) -> bool {
        !self.close && (version == Version::Http11 || self.keep_alive)
    }
}

/// The protocols of all `Upgrade` lines, in order (RFC 9110 section 7.8).
pub(crate) fn protocols<'a>(
    bytes: &'a [u8],
    headers: &'a [Header],
) -> impl Iterator<Item = &'a [u8]> {
    let lines = headers.iter().filter(|header| header.known == Known::Upgrade);
    let names = lines.flat_map(|header| header.value.of(bytes).split(|byte| *byte == b','));
    names.map(trim).filter(|name| !name.is_empty())
}

/// Tells whether this line is passed on.
#[inline]
pub(crate) fn passes(bytes: &[u8], header: &Header, listed: &ListedNames) -> bool {
    !header.known.stays_here()
        && (listed.is_empty()
            || !listed
                .iter()
                .any(|name| name.of(bytes).eq_ignore_ascii_case(header.name.of(bytes))))
}

/// The value of the first line of that name.
pub(crate) fn find<'a>(bytes: &'a [u8], headers: &[Header], name: &str) -> Option<&'a [u8]> {
    let found = headers
        .iter()
        .find(|header| header.name.of(bytes).eq_ignore_ascii_case(name.as_bytes()))?;
    Some(found.value.of(bytes))
}

/// The position of a combination that [`Fields::check`] refuses: the last line about framing.
#[cold]
pub(crate) fn locate(fault: FieldFault, headers: &[Header]) -> Located<FieldFault> {
    let frames = |known| matches!(known, Known::ContentLength | Known::TransferEncoding);
    let last = headers.iter().rev().find(|header| frames(header.known));
    Located::new(fault, last.map_or(0, |header| header.name.start as usize))
}

/// Reads a number that consists of digits only and is at most [`MAX_LENGTH`].
#[inline]
fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 19 {
        return None;
    }
    let mut number = 0_u64;
    for byte in text {
        if !byte.is_ascii_digit() {
            return None;
        }
        // Nineteen digits fit in 64 bits.
        number = number * 10 + u64::from(byte - b'0');
    }
    (number <= MAX_LENGTH).then_some(number)
}
