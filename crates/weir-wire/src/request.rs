//! A request head: parsed once, then read by spans. This module writes no response and forwards
//! nothing.

use std::mem::MaybeUninit;

use crate::authority;
use crate::fault::{FieldFault, Located, RequestFault};
use crate::fields::{self, Fields, Framing, ListedNames};
use crate::header::{self, Header, is_token_byte, trim};
use crate::known::Known;
use crate::limits::HeadLimits;
use crate::lines::{self, Scan};
use crate::method::{Method, Version};
use crate::quick;
use crate::scan;
use crate::slots::with_slots;
use crate::span::Span;
use crate::target::{self, TargetForm};
use crate::work;

/// A request head. All spans refer to the buffer given to [`RequestHead::parse`]; the fields are
/// valid after it returned a length.
#[derive(Clone, Default, Debug)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// The method as received.
    pub method_span: Span,
    /// The target as received.
    pub target: Span,
    /// The form of the target.
    pub form: TargetForm,
    /// The path as received; empty in authority form, and in absolute form without a path. See
    /// [`RequestHead::path_text`].
    pub path: Span,
    /// The query without its `?`.
    pub query: Option<Span>,
    /// The requested host and port: the authority of the target if it has one, else the value of
    /// `Host`. Empty for an HTTP/1.0 request without either.
    pub host: Span,
    /// The version.
    pub version: Version,
    /// All header lines, in the order received.
    pub headers: Vec<Header>,
    /// The way the body is delimited; never [`Framing::UntilClose`].
    pub framing: Framing,
    /// Set if the client wants to send another request on this connection.
    pub keep_alive: bool,
    /// Set if the client waits for `100 Continue` before it sends its body. Never set for HTTP/1.0
    /// or for a request without a body.
    pub expect_continue: bool,
    /// Set if the client offers to change protocols (`Connection: upgrade` and `Upgrade`,
    /// HTTP/1.1).
    pub upgrade: bool,
    /// The number of Weir instances that the request has passed, from `Weir-Hops`; `u16::MAX` if
    /// that is not a number in range.
    pub hops: u16,
    /// The request line without its line end.
    pub request_line: Span,
    /// Length of the head, the blank line and an empty line before the request line included.
    pub head_bytes: usize,
    listed: ListedNames,
    latest_host: authority::Latest,
}

/// Facts from header lines that only requests have.
#[derive(Default)]
struct RequestFields {
    host: Option<Span>,
    expect_continue: bool,
    hops: u16,
}

impl RequestHead {
    /// Parses a head at the start of `bytes`. Returns its length, or `None` if more bytes are
    /// needed. The bytes after it are the body or the next request.
    ///
    /// `scan` keeps the progress of the search for the head's end between calls, so that each byte
    /// is scanned once even if bytes arrive one by one. Use a new one for a new request, and pass
    /// the same bytes with more appended to each later call. The result does not depend on how the
    /// bytes were split.
    ///
    /// # Errors
    /// The first rule of RFC 9112 that the head breaks. Faults of line ends, sizes and the request
    /// line are returned as soon as they are known.
    pub fn parse(
        &mut self,
        bytes: &[u8],
        scan: &mut Scan,
        limits: &HeadLimits,
    ) -> Result<Option<usize>, Located<RequestFault>> {
        let bytes = bytes.get(..limits.window()).unwrap_or(bytes);
        if scan.is_new()
            && let Some(end) = self.parse_whole(bytes, limits)
        {
            self.interpret(bytes, end)?;
            return Ok(Some(end));
        }
        self.parse_slowly(bytes, scan, limits)
    }

    /// Continues the search for the end, and determines the fault of a malformed head.
    #[inline(never)]
    fn parse_slowly(
        &mut self,
        bytes: &[u8],
        scan: &mut Scan,
        limits: &HeadLimits,
    ) -> Result<Option<usize>, Located<RequestFault>> {
        let start = start(bytes)?;
        if !scan.has_line() && line_is_too_long(bytes, start, limits) {
            return Err(Located::new(RequestFault::RequestLineTooLong, start));
        }
        let Some(end) = scan.head_end(bytes, limits.headers, check_line)? else {
            if bytes.len() < limits.window() {
                return Ok(None);
            }
            return Err(if scan.has_line() {
                Located::new(FieldFault::HeadTooLarge.into(), bytes.len())
            } else {
                Located::new(RequestFault::RequestLineTooLong, start)
            });
        };
        if end <= 4 {
            return Err(Located::new(RequestFault::EmptyLines, 0));
        }
        let head = bytes.get(..end).unwrap_or_default();
        match self.tokenise(head, limits) {
            Ok(Some(found)) if found == end => self.interpret(bytes, end)?,
            Err(httparse::Error::TooManyHeaders) => {
                return Err(Located::new(FieldFault::TooManyHeaders.into(), end));
            }
            // The request line is valid. If the two searches should disagree about the head's end,
            // the head is refused.
            Ok(_) | Err(_) => return Err(lines::field_fault(head).widen()),
        }
        Ok(Some(end))
    }

    /// The path; `/` where a target in absolute form has none.
    pub fn path_text<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        if self.path.is_empty() && self.form == TargetForm::Absolute {
            b"/"
        } else {
            self.path.of(bytes)
        }
    }

    /// The value of the first line of that name, compared without case.
    pub fn header<'a>(&self, bytes: &'a [u8], name: &str) -> Option<&'a [u8]> {
        fields::find(bytes, &self.headers, name)
    }

    /// The protocols that the client's `Upgrade` lines name, in order. They are an offer only if
    /// [`RequestHead::upgrade`] is set.
    pub fn protocols<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        fields::protocols(bytes, &self.headers)
    }

    /// Returns true if the client accepts trailers (`TE: trailers`, RFC 9110 section 10.1.4).
    pub fn takes_trailers(&self, bytes: &[u8]) -> bool {
        let lines = self.headers.iter().filter(|header| header.known == Known::Te);
        let mut codings = lines.flat_map(|line| line.value.of(bytes).split(|byte| *byte == b','));
        codings.any(|coding| trim(coding).eq_ignore_ascii_case(b"trailers"))
    }

    /// The names that `Connection` lists, without the options that HTTP defines for it.
    pub fn listed<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.listed.iter().map(move |name| name.of(bytes))
    }

    /// The header lines to pass on: all but those of [`Known::stays_here`] and those that
    /// `Connection` lists. The sender writes `Host`, framing, `Connection` and `Upgrade` itself.
    pub fn forwarded<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = &'a Header> {
        self.headers.iter().filter(move |header| fields::passes(bytes, header, &self.listed))
    }

    /// Parses the usual case in one pass: a complete, well-formed head within the limits. Returns
    /// `None` for anything else; the slower, incremental parser gives the same result for heads
    /// that this one accepts.
    #[inline]
    fn parse_whole(&mut self, bytes: &[u8], limits: &HeadLimits) -> Option<usize> {
        let method = if bytes.starts_with(b"GET ") { 3 } else { quick::token_bytes(bytes) };
        let target_at = method + 1;
        let target = scan::graphic_bytes(bytes.get(target_at..)?);
        let (version, start) = (bytes.get(target_at + target..)?, target_at + target + 11);
        self.version = match version.first_chunk::<11>()? {
            b" HTTP/1.1\r\n" => Version::Http11,
            b" HTTP/1.0\r\n" => Version::Http10,
            _ => return None,
        };
        let line = start - 2;
        if method == 0
            || target == 0
            || bytes.get(method) != Some(&b' ')
            || line > limits.request_line_bytes
        {
            return None;
        }
        self.method = Method::of(bytes.get(..method)?);
        self.method_span = Span::new(0, method);
        self.target = Span::new(target_at, target_at + target);
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
        let mut request = httparse::Request::new(&mut []);
        let httparse::Status::Complete(end) = request.parse_with_uninit_headers(bytes, slots)?
        else {
            return Ok(None);
        };
        let (Some(method), Some(target)) = (request.method, request.path) else { return Ok(None) };
        self.version = if request.version == Some(0) { Version::Http10 } else { Version::Http11 };
        self.method = Method::of(method.as_bytes());
        self.method_span = Span::within(bytes, method.as_bytes());
        self.target = Span::within(bytes, target.as_bytes());
        header::collect(&mut self.headers, bytes, request.headers);
        Ok(Some(end))
    }

    /// Interprets the tokens.
    fn interpret(&mut self, bytes: &[u8], end: usize) -> Result<(), Located<RequestFault>> {
        self.head_bytes = end;
        // The target and the line end are separated by one space and eight bytes of version.
        self.request_line = Span { start: self.method_span.start, end: self.target.end + 9 };
        let line_start = self.method_span.start as usize;
        let target = target::read(bytes, self.target, self.method)
            .map_err(|fault| Located::new(fault, line_start))?;
        self.form = target.form;
        self.path = target.path;
        self.query = target.query;
        let mut fields = Fields::default();
        let mut own = RequestFields::default();
        self.listed.clear();
        for header in self.headers.iter().filter(|header| header.known.rules()) {
            let taken = match header.known {
                Known::Host => own.take_host(bytes, header, &mut self.latest_host),
                Known::Expect => own.take_expect(bytes, header, self.version),
                Known::WeirHops => {
                    own.take_hops(header.value.of(bytes));
                    Ok(())
                }
                _ => fields.take(bytes, header, &mut self.listed).map_err(RequestFault::from),
            };
            taken.map_err(|fault| Located::new(fault, header.name.start as usize))?;
        }
        fields.check(self.version).map_err(|fault| fields::locate(fault, &self.headers).widen())?;
        if own.host.is_none() && self.version == Version::Http11 {
            return Err(Located::new(RequestFault::MissingHost, end));
        }
        self.framing = fields.framing();
        let has_body = !matches!(self.framing, Framing::None | Framing::Length(0));
        if has_body && self.method == Method::Connect {
            return Err(Located::new(RequestFault::ConnectWithBody, line_start));
        }
        self.host = target.host.or(own.host).unwrap_or(Span::EMPTY);
        self.keep_alive = fields.persists(self.version);
        self.expect_continue = own.expect_continue && has_body;
        self.hops = own.hops;
        self.upgrade = fields.upgrade.is_offered() && self.version == Version::Http11;
        Ok(())
    }
}

impl RequestFields {
    #[inline]
    fn take_host(
        &mut self,
        bytes: &[u8],
        header: &Header,
        latest: &mut authority::Latest,
    ) -> Result<(), RequestFault> {
        if self.host.is_some() {
            return Err(RequestFault::DuplicateHost);
        }
        let authority = latest.read(header.value.of(bytes)).ok_or(RequestFault::BadHost)?;
        let start = header.value.start as usize;
        self.host = Some(Span::new(start, start + authority.length));
        Ok(())
    }

    /// The largest of several lines counts.
    #[inline(never)]
    fn take_hops(&mut self, text: &[u8]) {
        let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        self.hops = self.hops.max(number.unwrap_or(u16::MAX));
    }

    /// HTTP/1.0 requests have no expectations, even with the line (RFC 9110 section 10.1.1).
    fn take_expect(
        &mut self,
        bytes: &[u8],
        header: &Header,
        version: Version,
    ) -> Result<(), RequestFault> {
        if version == Version::Http10 {
            return Ok(());
        }
        if !header.value.of(bytes).eq_ignore_ascii_case(b"100-continue") {
            return Err(RequestFault::UnknownExpectation);
        }
        self.expect_continue = true;
        Ok(())
    }
}

/// The start of the request line: one empty line before it is tolerated (RFC 9112 section 2.2). A
/// first byte that starts no method is refused at once, so that a client of another protocol does
/// not wait for a timeout.
fn start(bytes: &[u8]) -> Result<usize, Located<RequestFault>> {
    let start = if bytes.starts_with(b"\r\n") { 2 } else { 0 };
    match bytes.get(start) {
        None | Some(b'\r' | b'\n') => Ok(start),
        Some(byte) if is_token_byte(*byte) => Ok(start),
        Some(_) => Err(Located::new(RequestFault::BadMethod, start)),
    }
}

/// Tells whether the request line at `start` is already longer than allowed, complete or not.
fn line_is_too_long(bytes: &[u8], start: usize, limits: &HeadLimits) -> bool {
    let window = bytes.get(start..).and_then(|rest| rest.get(..=limits.request_line_bytes));
    window.is_some_and(|window| memchr::memchr2(b'\r', b'\n', window).is_none())
}

/// Returns true if all bytes are visible ASCII. The inner loop has no early exit, so that the
/// compiler can vectorise it.
fn is_graphic(text: &[u8]) -> bool {
    let sound = |sound: bool, byte: &u8| sound & byte.is_ascii_graphic();
    text.chunks(64).all(|piece| piece.iter().fold(true, sound))
}

/// The text before the first space, and the text after it if there is a space.
fn before_space(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    let Some(at) = memchr::memchr(b' ', text) else { return (text, None) };
    (text.get(..at).unwrap_or_default(), text.get(at + 1..))
}

/// Determines the rule that a request line breaks. It is called as soon as the line is complete, so
/// that a line without a version (HTTP/0.9) is refused before header lines that will never arrive.
fn check_line(line: &[u8]) -> Result<(), RequestFault> {
    let (method, rest) = before_space(line);
    let (target, version) = rest.map(before_space).unzip();
    if method.is_empty() || !method.iter().copied().all(is_token_byte) {
        return Err(RequestFault::BadMethod);
    }
    if !target.is_some_and(|target| !target.is_empty() && is_graphic(target)) {
        return Err(RequestFault::BadTarget);
    }
    match version.flatten() {
        Some(b"HTTP/1.0" | b"HTTP/1.1") => Ok(()),
        Some(version) if lines::is_version(version) => Err(RequestFault::UnsupportedVersion),
        _ => Err(RequestFault::BadVersion),
    }
}
