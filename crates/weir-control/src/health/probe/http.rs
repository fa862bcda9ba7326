//! The HTTP probe: one request on a connection of its own. Its response is read by the same strict
//! parser as traffic.

use std::fmt::Write as _;

use tokio::io::AsyncWriteExt;
use weir_config::model::check::REPLY_BYTES;
use weir_config::model::{HeaderExpectation, HttpProbe, ProbeHeader, ProbeVersion};
use weir_wire::{ChunkedDecoder, Framing, HeadLimits, Method, ResponseHead, Scan, Step};

use super::connect::ProbeStream;
use super::reply::{Heard, ProbeFailure, ReplyPhase};

const LIMITS: HeadLimits =
    HeadLimits { head_bytes: 32 * 1024, request_line_bytes: 0, headers: 200 };
/// The bytes of a body that are read for display when the probe has already failed.
const SHOWN_BYTES: usize = 1024;

/// A request, the same for each probe, and the expected response.
#[derive(Debug)]
pub(super) struct HttpQuestion {
    request: Vec<u8>,
    method: Method,
    probe: HttpProbe,
}

impl HttpQuestion {
    /// Makes the request for an endpoint; `host` is used if the probe names no other.
    pub(super) fn new(probe: &HttpProbe, host: &str) -> Self {
        Self {
            request: request(probe, host).into_bytes(),
            method: Method::of(probe.method.as_bytes()),
            probe: probe.clone(),
        }
    }

    /// Sends the request, and compares the response with what is expected.
    pub(super) async fn ask(
        &self,
        stream: &mut ProbeStream,
        heard: &mut Heard,
    ) -> Result<(), ProbeFailure> {
        heard.phase = ReplyPhase::Sending;
        stream.write_all(&self.request).await.map_err(|error| heard.broken(&error))?;
        stream.flush().await.map_err(|error| heard.broken(&error))?;
        heard.phase = ReplyPhase::Reading;
        let head = self.head(stream, heard).await?;
        let Err(reason) = self.judge_head(&head, &heard.bytes) else {
            return self.judge_body(&head, stream, heard).await;
        };
        heard.failed = Some(reason.clone());
        let body = heard.bytes.len().min(head.head_bytes);
        let mut end = BodyEnd::new(&head);
        while head.framing != Framing::None && heard.bytes.len() < body + SHOWN_BYTES {
            if end.is_in(&heard.bytes) || heard.read(stream).await.unwrap_or(0) == 0 {
                break;
            }
        }
        Err(heard.failure(reason))
    }

    /// Reads to the end of the final response's head; interim responses are removed.
    async fn head(
        &self,
        stream: &mut ProbeStream,
        heard: &mut Heard,
    ) -> Result<ResponseHead, ProbeFailure> {
        let mut head = ResponseHead::default();
        let mut scan = Scan::default();
        loop {
            let parsed = head.parse(&heard.bytes, &mut scan, &LIMITS, self.method);
            match parsed.map_err(|_| heard.failure("the reply is not HTTP/1"))? {
                Some(length) if head.status < 200 && !head.upgrade => {
                    heard.bytes.drain(..length);
                    scan = Scan::default();
                    continue;
                }
                Some(length) => {
                    heard.body = Some(length);
                    heard.status = Some(head.status);
                    return Ok(head);
                }
                None => {}
            }
            if heard.read(stream).await.map_err(|error| heard.broken(&error))? == 0 {
                let reason = if heard.bytes.is_empty() {
                    "connection closed without a reply"
                } else {
                    "the reply's head never ended"
                };
                return Err(heard.failure(reason));
            }
        }
    }

    fn judge_head(&self, head: &ResponseHead, bytes: &[u8]) -> Result<(), String> {
        let HttpProbe { expect, header, not_header, .. } = &self.probe;
        if !expect.contains(head.status) {
            return Err(format!("status {}, expected {expect}", head.status));
        }
        if let Some(expected) = header {
            judge_header(expected, head, bytes)?;
        }
        match not_header {
            Some(unwanted) if judge_header(unwanted, head, bytes).is_ok() => {
                Err(match &unwanted.value {
                    Some(pattern) => format!("header {} is `{pattern}`", unwanted.name),
                    None => format!("a header {}", unwanted.name),
                })
            }
            _ => Ok(()),
        }
    }

    async fn judge_body(
        &self,
        head: &ResponseHead,
        stream: &mut ProbeStream,
        heard: &mut Heard,
    ) -> Result<(), ProbeFailure> {
        let HttpProbe { body: wanted, not_body: unwanted, .. } = &self.probe;
        if wanted.is_none() && unwanted.is_none() {
            return Ok(());
        }
        let mut end = BodyEnd::new(head);
        while !end.is_in(&heard.bytes) {
            match heard.read(stream).await {
                Ok(0) if head.framing != Framing::UntilClose && heard.bytes.len() < REPLY_BYTES => {
                    return Err(heard.failure("connection closed inside the body"));
                }
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => return Err(heard.broken(&error)),
            }
        }
        let body = decoded(head, &heard.bytes).map_err(|reason| heard.failure(reason))?;
        if let Some(wanted) = wanted.as_ref().filter(|wanted| !wanted.is_in(&body)) {
            return Err(heard.failure(format!("the body does not contain `{wanted}`")));
        }
        match unwanted.as_ref().filter(|unwanted| unwanted.is_in(&body)) {
            Some(unwanted) => Err(heard.failure(format!("the body contains `{unwanted}`"))),
            None => Ok(()),
        }
    }
}

/// Writes the request; `host` is used if the probe names no other.
fn request(probe: &HttpProbe, host: &str) -> String {
    let HttpProbe { method, path, bare, .. } = probe;
    let (version, connection) = match probe.version {
        ProbeVersion::Http10 => ("1.0", ""),
        ProbeVersion::Http11 => ("1.1", "Connection: close\r\n"),
    };
    let mut request = format!("{method} {path} HTTP/{version}\r\n");
    let mut add = |name: &str, value: &str| {
        let _ = write!(request, "{name}: {value}\r\n");
    };
    match &probe.host {
        Some(host) => add("Host", host),
        None if *bare => {}
        None => add("Host", host),
    }
    let agent = concat!("weir-check/", env!("CARGO_PKG_VERSION"));
    for (name, value) in [("User-Agent", agent), ("Accept", "*/*")] {
        let is_given = probe.headers.iter().any(|header| header.name.eq_ignore_ascii_case(name));
        if !bare && !is_given {
            add(name, value);
        }
    }
    for ProbeHeader { name, value } in &probe.headers {
        add(name, value);
    }
    let body = probe.send.as_deref().unwrap_or_default();
    if !body.is_empty() || !matches!(method.as_str(), "OPTIONS" | "GET" | "HEAD" | "DELETE") {
        add("Content-Length", &body.len().to_string());
    }
    format!("{request}{connection}\r\n{body}")
}

/// Fails if the response does not have the header.
fn judge_header(
    expected: &HeaderExpectation,
    head: &ResponseHead,
    bytes: &[u8],
) -> Result<(), String> {
    let named = |header: &&weir_wire::Header| {
        header.name.of(bytes).eq_ignore_ascii_case(expected.name.as_bytes())
    };
    let mut values = head.headers.iter().filter(named).map(|header| header.value.of(bytes));
    match &expected.value {
        None => values.next().map(|_| ()).ok_or_else(|| format!("no header {}", expected.name)),
        Some(pattern) => {
            let mut values = values.peekable();
            if values.peek().is_none() {
                return Err(format!("no header {}", expected.name));
            }
            let held = values.any(|value| pattern.matches(value));
            held.then_some(()).ok_or_else(|| format!("header {} is not `{pattern}`", expected.name))
        }
    }
}

/// An incremental search for the end of a body. It continues where it stopped, so that each byte is
/// examined once, however many reads the body takes.
struct BodyEnd<'a> {
    head: &'a ResponseHead,
    decoder: ChunkedDecoder,
    /// The number of bytes of the reply whose framing has been decoded.
    at: usize,
}

impl<'a> BodyEnd<'a> {
    fn new(head: &'a ResponseHead) -> Self {
        Self { head, decoder: ChunkedDecoder::new(), at: head.head_bytes }
    }

    /// Returns true if `bytes`, a reply to which bytes are only appended, contain the whole body.
    /// Malformed framing ends the body too; decoding the body reports it.
    fn is_in(&mut self, bytes: &[u8]) -> bool {
        match self.head.framing {
            Framing::None => true,
            Framing::Length(length) => {
                bytes.len().saturating_sub(self.head.head_bytes) as u64 >= length
            }
            Framing::UntilClose => false,
            Framing::Chunked => loop {
                match self.decoder.step(bytes.get(self.at..).unwrap_or_default()) {
                    Ok((used, step)) => {
                        self.at += used;
                        match step {
                            Step::Data(_) => {}
                            Step::More => return false,
                            Step::End => return true,
                        }
                    }
                    Err(_) => return true,
                }
            },
        }
    }
}

/// The received part of the body, without its framing.
fn decoded(head: &ResponseHead, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let raw = bytes.get(head.head_bytes..).unwrap_or_default();
    let length = match head.framing {
        Framing::None => 0,
        Framing::Length(length) => usize::try_from(length).unwrap_or(usize::MAX).min(raw.len()),
        Framing::UntilClose => raw.len(),
        Framing::Chunked => return dechunked(raw),
    };
    Ok(raw.get(..length).unwrap_or_default().to_vec())
}

fn dechunked(raw: &[u8]) -> Result<Vec<u8>, String> {
    let mut decoder = ChunkedDecoder::new();
    let (mut body, mut rest) = (Vec::new(), raw);
    loop {
        let (used, step) = decoder
            .step(rest)
            .map_err(|fault| format!("the body's chunks are wrong: {}", fault.reason()))?;
        if let Step::Data(range) = &step {
            body.extend_from_slice(rest.get(range.clone()).unwrap_or_default());
        }
        match step {
            Step::Data(_) => rest = rest.get(used..).unwrap_or_default(),
            Step::More | Step::End => return Ok(body),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

    fn head() -> ResponseHead {
        let mut head = ResponseHead::default();
        head.parse(HEAD, &mut Scan::default(), &LIMITS, Method::Get).unwrap().unwrap();
        head
    }

    #[test]
    fn the_end_of_a_body_that_comes_byte_by_byte_is_found_without_looking_back() {
        let head = head();
        let body = b"4\r\nall \r\n4;x=y\r\nfine\r\n0\r\nA: b\r\n\r\n";
        let mut end = BodyEnd::new(&head);
        let mut bytes = HEAD.to_vec();
        for (count, byte) in body.iter().enumerate() {
            assert!(!end.is_in(&bytes), "after {count} bytes");
            // A byte that was examined twice would now be malformed framing, which ends the body.
            bytes.fill(0);
            bytes.push(*byte);
        }
        assert!(end.is_in(&bytes));
    }

    #[test]
    fn malformed_framing_ends_a_body() {
        let head = head();
        assert!(BodyEnd::new(&head).is_in(&[HEAD, b"no size"].concat()));
    }
}
