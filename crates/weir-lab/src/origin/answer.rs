//! The bytes of responses: heads, bodies, and responses that are prepared in advance. Nothing is
//! sent from here.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use weir_wire::{Method, Version, encode, reason_phrase};

use super::fault::OriginFault;
use super::plan::{BodyPieces, READY, RequestedPage, ResponsePlan};
use crate::timer::now_ns;

/// Size in bytes of the block that bodies are made of; longer bodies repeat it.
pub(super) const BLOCK_BYTES: usize = 65_536;
/// Offset of the date in a prepared response.
const DATE_AT: usize = "HTTP/1.1 200 OK\r\nDate: ".len();
const TEXT: &str = "text/plain; charset=utf-8";

/// Lines of 64 bytes, each with its offset, so that missing or duplicated parts are visible.
static BLOCK: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut text = String::with_capacity(BLOCK_BYTES);
    for line in 0..BLOCK_BYTES / 64 {
        let _ = writeln!(text, "{:05} {}", line * 64, "weir".repeat(14) + "!");
    }
    text.into_bytes()
});

/// The first bytes of every body; at most [`BLOCK_BYTES`].
pub(super) fn block(length: usize) -> &'static [u8] {
    BLOCK.get(..length).unwrap_or(&BLOCK)
}

/// A response before it is encoded.
pub(super) struct OriginResponse {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    pub(super) body: OriginBody,
}

/// The body of a response.
pub(super) enum OriginBody {
    /// A text.
    Text(Vec<u8>),
    /// The block repeated up to this many bytes.
    Blocks(u64),
    /// Pieces sent at intervals.
    Pieces(BodyPieces),
    /// Numbered events sent at intervals.
    Events(BodyPieces),
}

impl OriginResponse {
    /// The response for a page. `request` is the received request, which `/echo` returns.
    pub(super) fn to(page: &RequestedPage, request: Vec<u8>) -> Self {
        let text = |status, content_type, text: Vec<u8>| Self {
            status,
            content_type,
            body: OriginBody::Text(text),
        };
        match *page {
            RequestedPage::Ready(page) => {
                let length = READY.get(page).copied().unwrap_or_default();
                Self::to(&RequestedPage::Bytes(length as u64), request)
            }
            RequestedPage::Bytes(length) => {
                Self { status: 200, content_type: "text/plain", body: OriginBody::Blocks(length) }
            }
            RequestedPage::Status(status @ (204 | 304)) => text(status, TEXT, Vec::new()),
            RequestedPage::Status(status) => {
                text(status, TEXT, format!("{status} {}\n", reason_phrase(status)).into_bytes())
            }
            RequestedPage::Echo => text(200, "message/http", request),
            RequestedPage::Delay => text(200, TEXT, b"late\n".to_vec()),
            RequestedPage::Stream(pieces) => {
                Self { status: 200, content_type: "text/plain", body: OriginBody::Pieces(pieces) }
            }
            RequestedPage::Events(pieces) => Self {
                status: 200,
                content_type: "text/event-stream",
                body: OriginBody::Events(pieces),
            },
            RequestedPage::Index => text(200, TEXT, index().into_bytes()),
            RequestedPage::Refused(status, ref sentence) => {
                text(status, TEXT, format!("{sentence}\n").into_bytes())
            }
            // Handled where the counters are.
            RequestedPage::Stats { .. } => text(200, TEXT, Vec::new()),
        }
    }

    /// Returns true if a body may follow the head.
    pub(super) fn has_body(&self, method: Method) -> bool {
        method != Method::Head && !matches!(self.status, 204 | 304)
    }

    /// Number of bytes of the body, if it is known in advance.
    fn length(&self) -> Option<u64> {
        match &self.body {
            OriginBody::Text(text) => Some(text.len() as u64),
            OriginBody::Blocks(length) => Some(*length),
            OriginBody::Pieces(_) | OriginBody::Events(_) => None,
        }
    }

    /// Returns true if the body is sent in chunks. Otherwise a body of unknown length ends with the
    /// connection.
    pub(super) fn is_chunked(&self, version: Version) -> bool {
        self.length().is_none() && version == Version::Http11
    }

    /// Returns true if another request may follow on the connection.
    pub(super) fn keeps_alive(&self, plan: &ResponsePlan) -> bool {
        plan.keep_alive && (self.length().is_some() || plan.version == Version::Http11)
    }

    /// Writes the head.
    pub(super) fn write_head(
        &self,
        out: &mut Vec<u8>,
        plan: &ResponsePlan,
        origin: SocketAddr,
        date: &[u8],
    ) {
        encode::status_line(out, self.status);
        encode::header(out, b"Date", date);
        encode::header(out, b"X-Origin", origin.to_string().as_bytes());
        if !plan.id.is_empty() {
            encode::header(out, b"X-Request-Id", plan.id.as_bytes());
        }
        if (300..400).contains(&self.status) && self.status != 304 {
            encode::header(out, b"Location", b"/");
        }
        if self.status != 204 && self.status != 304 {
            encode::header(out, b"Content-Type", self.content_type.as_bytes());
            match self.length() {
                Some(length) => encode::content_length(out, length),
                None if plan.version == Version::Http11 => encode::transfer_chunked(out),
                None => {}
            }
        }
        if !self.keeps_alive(plan) {
            encode::header(out, b"Connection", b"close");
        } else if plan.version == Version::Http10 {
            encode::header(out, b"Connection", b"keep-alive");
        }
        out.extend_from_slice(encode::HEAD_END);
    }
}

/// The text of the page `/`.
fn index() -> String {
    let faults: Vec<&str> = OriginFault::ALL.iter().map(|(name, _)| *name).collect();
    format!(
        "This is weir origin.\n\n\
        /1k /10k /100k    a body of 1,024, 10,240, 102,400 bytes\n\
        /bytes/N          a body of N bytes; also 5k, 3m\n\
        /status/N         a response with that status\n\
        /echo             the request, head and body\n\
        /delay/20ms       a response after that time\n\
        /stream/N         N chunks; ?size=1k for their size, ?every=10ms for the interval\n\
        /events/N         N server-sent events; ?every=1s for the interval\n\
        /fault/NAME       a fault: {}\n\
        /-/stats          the requests with their times; ?reset clears them, ?log=N shows the last N\n\n\
        With each of them: ?delay=20ms, ?fault=NAME (or X-Fault: NAME), ?id=TEXT (or X-Request-Id: TEXT).\n",
        faults.join(", ")
    )
}

/// The `Date` of responses, formatted once a second.
pub(super) struct Date {
    second: u64,
    text: [u8; 29],
    /// The wall-clock time at which the monotonic clock was zero.
    zero: SystemTime,
}

impl Date {
    pub(super) fn new() -> Self {
        let zero = SystemTime::now()
            .checked_sub(Duration::from_nanos(now_ns()))
            .unwrap_or(SystemTime::UNIX_EPOCH);
        Self { second: u64::MAX, text: [b' '; 29], zero }
    }

    /// The text for this time of the monotonic clock.
    #[inline]
    pub(super) fn at(&mut self, now_ns: u64) -> &[u8; 29] {
        let second = now_ns / 1_000_000_000;
        if second != self.second {
            self.second = second;
            let text = httpdate::fmt_http_date(self.zero + Duration::from_nanos(now_ns));
            if let Ok(text) = text.as_bytes().try_into() {
                self.text = text;
            }
        }
        &self.text
    }
}

/// The prepared responses of one port, head and body in one buffer.
pub(super) struct Ready {
    answers: [Vec<u8>; READY.len()],
    dates: [[u8; 29]; READY.len()],
}

impl Ready {
    pub(super) fn new(origin: SocketAddr) -> Self {
        let date = [b' '; 29];
        let answers = READY.map(|length| {
            let mut out = Vec::with_capacity(length + 256);
            encode::status_line(&mut out, 200);
            encode::header(&mut out, b"Date", &date);
            encode::header(&mut out, b"X-Origin", origin.to_string().as_bytes());
            encode::header(&mut out, b"Content-Type", b"text/plain");
            encode::content_length(&mut out, length as u64);
            out.extend_from_slice(encode::HEAD_END);
            let mut left = length;
            while left > 0 {
                let piece = block(left.min(BLOCK_BYTES));
                out.extend_from_slice(piece);
                left -= piece.len();
            }
            out
        });
        Self { answers, dates: [date; READY.len()] }
    }

    /// The prepared response, with this date.
    #[inline]
    pub(super) fn answer(&mut self, page: usize, date: &[u8; 29]) -> &[u8] {
        let (Some(answer), Some(written)) = (self.answers.get_mut(page), self.dates.get_mut(page))
        else {
            return &[];
        };
        if written != date
            && let Some(place) = answer.get_mut(DATE_AT..DATE_AT + date.len())
        {
            place.copy_from_slice(date);
            *written = *date;
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_BYTES, Date, Ready, block};

    #[test]
    fn the_block_has_a_place_on_every_line() {
        let text = std::str::from_utf8(block(BLOCK_BYTES)).unwrap();
        assert_eq!(text.len(), BLOCK_BYTES);
        for (number, line) in text.lines().enumerate() {
            assert_eq!((line.len(), line[..5].parse()), (63, Ok(number * 64)));
        }
    }

    #[test]
    fn a_ready_answer_carries_the_date_of_its_second() {
        let mut ready = Ready::new("127.0.0.1:1".parse().unwrap());
        let date = *b"Sun, 06 Nov 1994 08:49:37 GMT";
        let answer = std::str::from_utf8(ready.answer(0, &date)).unwrap().to_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(
            head,
            "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nX-Origin: 127.0.0.1:1\r\n\
            Content-Type: text/plain\r\nContent-Length: 1024"
        );
        assert_eq!(body.as_bytes(), block(1024));
        assert_eq!(ready.answer(2, &date).len() - ready.answer(1, &date).len(), 90 * 1024 + 1);
    }

    #[test]
    fn the_date_changes_with_the_second_only() {
        let mut date = Date::new();
        let first = *date.at(5_000_000_000);
        assert_eq!(*date.at(5_999_999_999), first);
        assert_ne!(*date.at(6_000_000_000), first);
        assert!(first.ends_with(b" GMT"));
    }
}
