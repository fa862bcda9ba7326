//! A response head from an endpoint. Parsing is as strict as for requests: a misread response would
//! be passed on as a different one. This module forwards nothing.

use std::mem::MaybeUninit;

use crate::fault::{FieldFault, Located, ResponseFault};
use crate::fields::{self, Fields, Framing, KeepAliveLimits, ListedNames};
use crate::header::{self, Header};
use crate::limits::HeadLimits;
use crate::lines::{self, Scan};
use crate::method::{Method, Version};
use crate::quick;
use crate::scan;
use crate::slots::with_slots;
use crate::span::Span;
use crate::work;

/// A response head. All spans refer to the buffer given to [`ResponseHead::parse`]; the fields are
/// valid after it returned a length.
#[derive(Default, Debug)]
pub struct ResponseHead {
    /// The version.
    pub version: Version,
    /// The status, 100 to 599.
    pub status: u16,
    /// The reason phrase; often empty.
    pub reason: Span,
    /// All header lines, in the order received.
    pub headers: Vec<Header>,
    /// The framing of the body that follows on this connection; [`Framing::None`] for 1xx, 204 and
    /// 304, for responses to HEAD and for 2xx responses to CONNECT, whatever the header lines
    /// declare.
    pub framing: Framing,
    /// `Content-Length` as received, also where no body follows: a response to HEAD or a 304
    /// declares a length that is passed on.
    pub content_length: Option<u64>,
    /// Set if the endpoint will accept another request on this connection.
    pub keep_alive: bool,
    /// The endpoint's limits for keeping the connection open, from `Keep-Alive`.
    pub keep_alive_limits: KeepAliveLimits,
    /// Set if the connection is a tunnel after this head: 101, or 2xx to CONNECT.
    pub upgrade: bool,
    /// Length of the head, the blank line included.
    pub head_bytes: usize,
    listed: ListedNames,
}

impl ResponseHead {
    /// Parses a head at the start of `bytes`. Returns its length, or `None` if more bytes are
    /// needed. `scan` is as for [`RequestHead::parse`](crate::RequestHead::parse); `request_method`
    /// is the method of the request. An interim response (1xx) is a head like any other; the caller
    /// parses the next one after it.
    ///
    /// A status line without the space before an empty reason is accepted, as by other programs; it
    /// has no second interpretation.
    ///
    /// # Errors
    /// The first rule of RFC 9112 that the head breaks.
    pub fn parse(
        &mut self,
        bytes: &[u8],
        scan: &mut Scan,
        limits: &HeadLimits,
        request_method: Method,
    ) -> Result<Option<usize>, Located<ResponseFault>> {
        let bytes = bytes.get(..limits.window()).unwrap_or(bytes);
        if scan.is_new()
            && let Some(end) = self.parse_whole(bytes, limits)
        {
            self.interpret(bytes, end, request_method)?;
            return Ok(Some(end));
        }
        self.parse_slowly(bytes, scan, limits, request_method)
    }

    /// Continues the search for the end, and determines the fault of a malformed head.
    #[inline(never)]
    fn parse_slowly(
        &mut self,
        bytes: &[u8],
        scan: &mut Scan,
        limits: &HeadLimits,
        request_method: Method,
    ) -> Result<Option<usize>, Located<ResponseFault>> {
        check_start(bytes)?;
        let Some(end) = scan.head_end(bytes, limits.headers, check_version)? else {
            return if bytes.len() < limits.window() {
                Ok(None)
            } else {
                Err(Located::new(FieldFault::HeadTooLarge.into(), bytes.len()))
            };
        };
        let head = bytes.get(..end).unwrap_or_default();
        match self.tokenise(head, limits) {
            Ok(Some(found)) if found == end => self.interpret(bytes, end, request_method)?,
            Ok(_) => return Err(lines::field_fault(head).widen()),
            Err(error) => return Err(token_fault(head, error)),
        }
        Ok(Some(end))
    }

    /// The value of the first line of that name, compared without case.
    pub fn header<'a>(&self, bytes: &'a [u8], name: &str) -> Option<&'a [u8]> {
        fields::find(bytes, &self.headers, name)
    }

    /// The protocols that the endpoint's `Upgrade` lines name; for a 101, those that it switches
    /// to.
    pub fn protocols<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        fields::protocols(bytes, &self.headers)
    }

    /// The names that `Connection` lists, without the options that HTTP defines for it.
    pub fn listed<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.listed.iter().map(move |name| name.of(bytes))
    }

    /// The header lines to pass on: all but those of
    /// [`Known::stays_here`](crate::Known::stays_here) and those that `Connection` lists. The
    /// sender writes framing, `Connection` and `Upgrade` itself.
    pub fn forwarded<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = &'a Header> {
        self.headers.iter().filter(move |header| fields::passes(bytes, header, &self.listed))
    }

    /// Parses the usual case in one pass, as for requests.
    #[inline]
    fn parse_whole(&mut self, bytes: &[u8], limits: &HeadLimits) -> Option<usize> {
        let (version, rest) = bytes.split_first_chunk::<9>()?;
        self.version = match version {
            b"HTTP/1.1 " => Version::Http11,
            b"HTTP/1.0 " => Version::Http10,
            _ => return None,
        };
        let (status, text) = rest.split_first_chunk::<4>()?;
        let [hundreds @ b'0'..=b'9', tens @ b'0'..=b'9', ones @ b'0'..=b'9', b' '] = *status else {
            return None;
        };
        let digit = |byte: u8| u16::from(byte - b'0');
        let length = scan::graphic_or_space_bytes(text);
        if length == 0 || !text.get(length..)?.starts_with(b"\r\n") {
            return None;
        }
        self.status = digit(hundreds) * 100 + digit(tens) * 10 + digit(ones);
        self.reason = Span::new(REASON_START, REASON_START + length);
        let start = REASON_START + length + 2;
        work::count(start);
        quick::header_lines(bytes, start, limits.headers, &mut self.headers)
    }

    /// Runs the tokeniser and returns the end of the head as it determines it.
    fn tokenise(
        &mut self,
        bytes: &[u8],
        limits: &HeadLimits,
    ) -> Result<Option<usize>, httparse::Error> {
        with_slots(bytes, limits.headers, |slots| self.tokenise_into(bytes, slots))
    }

    fn tokenise_into<'b>(
        &mut self,
        bytes: &'b [u8],
        slots: &mut [MaybeUninit<httparse::Header<'b>>],
    ) -> Result<Option<usize>, httparse::Error> {
        work::count(bytes.len());
        let mut response = httparse::Response::new(&mut []);
        let config = httparse::ParserConfig::default();
        let status = config.parse_response_with_uninit_headers(&mut response, bytes, slots)?;
        let httparse::Status::Complete(end) = status else { return Ok(None) };
        self.version = if response.version == Some(0) { Version::Http10 } else { Version::Http11 };
        self.status = response.code.unwrap_or(0);
        self.reason = match response.reason {
            None | Some("") => reason(bytes),
            Some(text) => Span::within(bytes, text.as_bytes()),
        };
        header::collect(&mut self.headers, bytes, response.headers);
        Ok(Some(end))
    }

    fn interpret(
        &mut self,
        bytes: &[u8],
        end: usize,
        request_method: Method,
    ) -> Result<(), Located<ResponseFault>> {
        // RFC 9110 section 15 defines classes up to 5xx only; programs may disagree about other
        // statuses.
        if !(100..600).contains(&self.status) {
            return Err(Located::new(ResponseFault::BadStatusLine, 0));
        }
        self.head_bytes = end;
        let mut fields = Fields::default();
        self.listed.clear();
        for header in self.headers.iter().filter(|header| header.known.rules()) {
            fields
                .take(bytes, header, &mut self.listed)
                .map_err(|fault| Located::new(fault.into(), header.name.start as usize))?;
        }
        fields.check(self.version).map_err(|fault| fields::locate(fault, &self.headers).widen())?;
        let tunnel = self.status == 101
            || (request_method == Method::Connect && (200..300).contains(&self.status));
        let bodiless =
            tunnel || request_method == Method::Head || matches!(self.status, 100..200 | 204 | 304);
        self.framing = match fields.framing() {
            _ if bodiless => Framing::None,
            Framing::None => Framing::UntilClose,
            framing => framing,
        };
        self.content_length = fields.length;
        self.keep_alive =
            fields.persists(self.version) && self.framing != Framing::UntilClose && !tunnel;
        self.keep_alive_limits = fields.keep_alive_limits;
        self.upgrade = tunnel;
        Ok(())
    }
}

const START: &[u8] = b"HTTP/";
/// Position of the reason phrase.
const REASON_START: usize = "HTTP/1.1 200 ".len();

/// Refuses an endpoint that speaks another protocol by its first bytes.
fn check_start(bytes: &[u8]) -> Result<(), Located<ResponseFault>> {
    let seen = bytes.get(..START.len()).unwrap_or(bytes);
    if START.starts_with(seen) {
        Ok(())
    } else {
        Err(Located::new(ResponseFault::BadStatusLine, 0))
    }
}

/// Checks the version of a status line. The tokeniser checks the rest of the line.
fn check_version(line: &[u8]) -> Result<(), ResponseFault> {
    match line.get(..8) {
        Some(b"HTTP/1.0" | b"HTTP/1.1") => Ok(()),
        Some(version) if lines::is_version(version) => Err(ResponseFault::UnsupportedVersion),
        _ => Err(ResponseFault::BadStatusLine),
    }
}

/// The reason phrase: the text after `HTTP/1.1 200 `. The tokeniser does not return one that
/// contains bytes from 0x80 on.
#[cold]
fn reason(bytes: &[u8]) -> Span {
    const STATUS_END: usize = "HTTP/1.1 200".len();
    let rest = bytes.get(STATUS_END..).unwrap_or_default();
    let length = memchr::memchr2(b'\r', b'\n', rest).unwrap_or(0);
    Span::new(STATUS_END + usize::from(length > 0), STATUS_END + length)
}

fn token_fault(head: &[u8], error: httparse::Error) -> Located<ResponseFault> {
    match error {
        httparse::Error::TooManyHeaders => {
            Located::new(FieldFault::TooManyHeaders.into(), head.len())
        }
        httparse::Error::HeaderName | httparse::Error::HeaderValue | httparse::Error::NewLine => {
            lines::field_fault(head).widen()
        }
        _ => Located::new(ResponseFault::BadStatusLine, 0),
    }
}
