//! A small strict HTTP/1 parser and writer for the simulation, so that a bug in the product's
//! parser cannot hide in its tests. It accepts what RFC 9112 lets a sender send, and nothing that a
//! recipient may merely tolerate.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::sleep;

/// The reason why reading a message ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The peer finished in the middle of the message.
    Ended,
    /// The connection broke.
    Reset(io::ErrorKind),
    /// The bytes are not HTTP as it must be sent.
    Malformed(String),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Reset(error.kind())
    }
}

fn malformed<T>(what: impl Into<String>) -> Result<T, Broken> {
    Err(Broken::Malformed(what.into()))
}

/// The framing of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageEnd {
    Empty,
    Length(u64),
    Chunked,
    UntilClose,
}

/// The pace at which a side reads or writes: a number of bytes, then a pause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerPace {
    pub(crate) bytes: usize,
    pub(crate) pause_ms: u64,
}

/// Counts bytes until the next pause is due.
#[derive(Default)]
struct Stride(usize);

impl PeerPace {
    pub(crate) const FULL: Self = Self { bytes: 65_536, pause_ms: 0 };
}

impl Stride {
    async fn step(&mut self, bytes: usize, pace: PeerPace) {
        self.0 += bytes;
        if self.0 >= pace.bytes {
            self.0 = 0;
            if pace.pause_ms > 0 {
                sleep(Duration::from_millis(pace.pause_ms)).await;
            }
        }
    }
}

/// A start line and header lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    pub(crate) first: String,
    pub(crate) headers: Vec<(String, String)>,
}

impl Head {
    /// Returns the values of a header, in order.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let same = move |(known, _): &&(String, String)| known.eq_ignore_ascii_case(name);
        self.headers.iter().filter(same).map(|(_, value)| value.as_str())
    }

    /// Returns the first value of a header.
    pub(crate) fn value<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.all(name).next()
    }

    /// Returns true if `Connection` lists this option.
    pub(crate) fn connection_has(&self, option: &str) -> bool {
        self.all("connection")
            .flat_map(|value| value.split(','))
            .any(|item| item.trim().eq_ignore_ascii_case(option))
    }

    /// Returns the length or coding that the headers declare; `None` if there is neither.
    fn declared(&self) -> Result<Option<MessageEnd>, Broken> {
        let lengths: Vec<&str> = self.all("content-length").collect();
        let codings: Vec<&str> = self.all("transfer-encoding").collect();
        match (lengths.as_slice(), codings.as_slice()) {
            ([], []) => Ok(None),
            ([length], [])
                if !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                length
                    .parse()
                    .map(|length| Some(MessageEnd::Length(length)))
                    .or(malformed("huge Content-Length"))
            }
            ([], [coding]) if coding.eq_ignore_ascii_case("chunked") => {
                Ok(Some(MessageEnd::Chunked))
            }
            _ => malformed(format!("framing headers: length {lengths:?}, coding {codings:?}")),
        }
    }

    /// Returns the framing of a request's body.
    pub(crate) fn request_framing(&self) -> Result<MessageEnd, Broken> {
        let framing = self.declared()?.unwrap_or(MessageEnd::Empty);
        if framing == MessageEnd::Chunked && !self.first.ends_with("HTTP/1.1") {
            return malformed("chunked in an HTTP/1.0 request");
        }
        Ok(framing)
    }

    /// Returns the framing of a response's body.
    pub(crate) fn response_framing(&self, method: &str, status: u16) -> Result<MessageEnd, Broken> {
        let declared = self.declared()?;
        if status < 200 || status == 204 {
            return if declared.is_some() {
                malformed(format!("framing header on {status}"))
            } else {
                Ok(MessageEnd::Empty)
            };
        }
        if method == "HEAD" || status == 304 {
            return Ok(MessageEnd::Empty);
        }
        Ok(declared.unwrap_or(MessageEnd::UntilClose))
    }

    /// Returns the status: 200 for `HTTP/1.1 200 OK`.
    pub(crate) fn status(&self) -> Result<u16, Broken> {
        let status = self.first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
        let spaced = self.first.as_bytes().get(12) == Some(&b' ');
        match status.and_then(|digits| digits.parse().ok()) {
            Some(status) if spaced && (100..600).contains(&status) => Ok(status),
            _ => malformed(format!("status line {:?}", self.first)),
        }
    }
}

/// Parses the messages of a connection.
pub(crate) struct Incoming<R> {
    reader: R,
    buffer: Vec<u8>,
    start: usize,
    pub(crate) pace: PeerPace,
    stride: Stride,
    /// The number of bytes read so far.
    pub(crate) total: u64,
    /// The trailers of the latest chunked body.
    pub(crate) trailers: Vec<(String, String)>,
}

impl<R: AsyncRead + Unpin> Incoming<R> {
    pub(crate) fn new(reader: R, pace: PeerPace) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
            start: 0,
            pace,
            stride: Stride::default(),
            total: 0,
            trailers: Vec::new(),
        }
    }

    /// Returns true if bytes were read that are not part of a message yet.
    pub(crate) fn has_unclaimed(&self) -> bool {
        self.start < self.buffer.len()
    }

    /// Reads once; `false` at the end of the stream.
    pub(crate) async fn fill(&mut self) -> Result<bool, Broken> {
        if self.start > 65_536 || self.start == self.buffer.len() {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        let mut piece = vec![0; self.pace.bytes.clamp(1, 65_536)];
        let count = self.reader.read(&mut piece).await?;
        self.buffer.extend_from_slice(&piece[..count]);
        self.total += count as u64;
        if count > 0 {
            self.stride.step(count, self.pace).await;
        }
        Ok(count > 0)
    }

    /// Reads a line and returns it without CRLF; `None` at the end of the stream before its first
    /// byte.
    async fn line(&mut self) -> Result<Option<String>, Broken> {
        let mut scanned = 0;
        loop {
            let pending = &self.buffer[self.start..];
            if let Some(found) = pending[scanned..].iter().position(|byte| *byte == b'\n') {
                let text = clean_line(&pending[..scanned + found])?;
                self.start += scanned + found + 1;
                return Ok(Some(text));
            }
            scanned = pending.len();
            if scanned > 65_536 {
                return malformed("line longer than 64 KiB");
            }
            // `fill` may move the pending bytes to the front, but never drops any.
            match self.fill().await? {
                true => {}
                false if self.has_unclaimed() => return Err(Broken::Ended),
                false => return Ok(None),
            }
        }
    }

    async fn header_lines(&mut self) -> Result<Vec<(String, String)>, Broken> {
        let mut headers = Vec::new();
        loop {
            let line = self.line().await?.ok_or(Broken::Ended)?;
            if line.is_empty() {
                return Ok(headers);
            }
            let Some((name, value)) = line.split_once(':') else {
                return malformed(format!("no colon: {line:?}"));
            };
            if name.is_empty()
                || !name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
            {
                return malformed(format!("header name {name:?}"));
            }
            headers.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
        }
    }

    /// Reads a head; `None` when the stream ends before its first byte.
    pub(crate) async fn head(&mut self) -> Result<Option<Head>, Broken> {
        let Some(first) = self.line().await? else { return Ok(None) };
        let headers = self.header_lines().await?;
        Ok(Some(Head { first, headers }))
    }

    /// Reads a whole body and passes its bytes to `sink` as they arrive.
    pub(crate) async fn body(
        &mut self,
        framing: MessageEnd,
        sink: &mut impl FnMut(&[u8]),
    ) -> Result<(), Broken> {
        match framing {
            MessageEnd::Empty => Ok(()),
            MessageEnd::Length(length) => self.exactly(length, sink).await,
            MessageEnd::Chunked => self.chunks(sink).await,
            MessageEnd::UntilClose => loop {
                sink(&self.buffer[self.start..]);
                self.start = self.buffer.len();
                if !self.fill().await? {
                    return Ok(());
                }
            },
        }
    }

    async fn exactly(&mut self, length: u64, sink: &mut impl FnMut(&[u8])) -> Result<(), Broken> {
        let mut left = length;
        while left > 0 {
            let pending = &self.buffer[self.start..];
            let count = (pending.len() as u64).min(left) as usize;
            sink(&pending[..count]);
            self.start += count;
            left -= count as u64;
            if left > 0 && !self.fill().await? {
                return Err(Broken::Ended);
            }
        }
        Ok(())
    }

    async fn chunks(&mut self, sink: &mut impl FnMut(&[u8])) -> Result<(), Broken> {
        loop {
            let line = self.line().await?.ok_or(Broken::Ended)?;
            let digits = line.split(';').next().unwrap_or_default();
            let valid = !digits.is_empty()
                && digits.len() <= 8
                && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let Some(size) = u64::from_str_radix(digits, 16).ok().filter(|_| valid) else {
                return malformed(format!("chunk size {line:?}"));
            };
            if size == 0 {
                self.trailers = self.header_lines().await?;
                return Ok(());
            }
            self.exactly(size, sink).await?;
            match self.line().await?.as_deref() {
                Some("") => {}
                Some(_) => return malformed("no CRLF after chunk data"),
                None => return Err(Broken::Ended),
            }
        }
    }
}

/// Returns the text of a line that ended before an LF, without the CR.
fn clean_line(line: &[u8]) -> Result<String, Broken> {
    let Some(line) = line.strip_suffix(b"\r") else { return malformed("line ends in a bare LF") };
    if line.iter().any(|byte| (*byte < 0x20 && *byte != b'\t') || *byte == 0x7f) {
        return malformed(format!("control byte in line {:?}", String::from_utf8_lossy(line)));
    }
    Ok(String::from_utf8_lossy(line).into_owned())
}

/// Writes messages to a connection at a given pace.
pub(crate) struct PacedWriter<W> {
    writer: W,
    pub(crate) pace: PeerPace,
    stride: Stride,
}

impl<W: AsyncWrite + Unpin> PacedWriter<W> {
    pub(crate) fn new(writer: W, pace: PeerPace) -> Self {
        Self { writer, pace, stride: Stride::default() }
    }

    /// Writes all bytes.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(self.pace.bytes.max(1)) {
            self.writer.write_all(piece).await?;
            self.stride.step(piece.len(), self.pace).await;
        }
        Ok(())
    }

    /// Shuts down the sending direction.
    pub(crate) async fn finish(&mut self) -> io::Result<()> {
        self.writer.shutdown().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &[u8]) -> Result<(Head, String), Broken> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut incoming = Incoming::new(input, PeerPace { bytes: 3, pause_ms: 0 });
            let head = incoming.head().await?.ok_or(Broken::Ended)?;
            let framing = head.response_framing("GET", head.status()?)?;
            let mut body = Vec::new();
            incoming.body(framing, &mut |bytes| body.extend_from_slice(bytes)).await?;
            Ok((head, String::from_utf8_lossy(&body).into_owned()))
        })
    }

    #[test]
    fn bodies_are_read_to_their_end_and_no_further() {
        for (input, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef", "abc"),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: v\r\n\r\nrest",
                "abcde",
            ),
            ("HTTP/1.1 200 OK\r\n\r\nuntil the end", "until the end"),
            ("HTTP/1.1 204 No Content\r\n\r\nnot this", ""),
        ] {
            assert_eq!(
                read(input.as_bytes()).map(|(_, body)| body),
                Ok(expected.to_owned()),
                "{input:?}"
            );
        }
    }

    #[test]
    fn a_short_or_ambiguous_message_is_an_error() {
        for input in [
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\na",
            "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n",
        ] {
            assert!(read(input.as_bytes()).is_err(), "{input:?}");
        }
    }
}
