//! The meaning of a request: its page, its service time and its fault. It sends no response.

use weir_wire::{Framing, Known, Method, RequestHead, TargetForm, Version};

use super::fault::OriginFault;
use super::limits::{BODY_BYTES, DELAY_NS, ID_BYTES, PIECE_BYTES, PIECES, TARGET_BYTES};
use super::text::Text;
use crate::units::{size_bytes, time_ns};

/// Sizes of the prepared pages in bytes, by their number.
pub(super) const READY: [usize; 3] = [1024, 10 * 1024, 100 * 1024];

/// The requested page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RequestedPage {
    /// The page of [`READY`] with this number.
    Ready(usize),
    /// A body of this many bytes.
    Bytes(u64),
    /// This status, with its name as the body.
    Status(u16),
    /// The request's head and body.
    Echo,
    /// A word, after the requested time.
    Delay,
    /// A body in chunks.
    Stream(BodyPieces),
    /// `text/event-stream`.
    Events(BodyPieces),
    /// The list of pages.
    Index,
    /// The counters. Requests for them are not counted.
    Stats {
        /// Set if the counters are reset.
        reset: bool,
        /// Number of the last log entries to show.
        log: usize,
    },
    /// An invalid request: this status and sentence.
    Refused(u16, String),
}

/// A body that is sent in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BodyPieces {
    pub(super) count: u64,
    /// Size of a piece in bytes.
    pub(super) size: u64,
    /// Interval between the starts of two pieces, in nanoseconds.
    pub(super) every_ns: u64,
}

/// All facts about a request, once its head is read. It borrows nothing, since the buffer is reused
/// for the body.
#[derive(Debug)]
pub(super) struct ResponsePlan {
    pub(super) page: RequestedPage,
    pub(super) fault: Option<OriginFault>,
    /// Service time in nanoseconds that replaces the one drawn.
    pub(super) work_ns: Option<u64>,
    pub(super) method: Method,
    pub(super) version: Version,
    pub(super) framing: Framing,
    pub(super) keep_alive: bool,
    pub(super) expect_continue: bool,
    /// The part of the target that the log keeps.
    pub(super) target: Text<TARGET_BYTES>,
    /// From `X-Request-Id` or `?id=`; empty if there is neither.
    pub(super) id: Text<ID_BYTES>,
}

impl ResponsePlan {
    /// Reads the plan from a parsed head.
    pub(super) fn of(head: &RequestHead, bytes: &[u8]) -> Self {
        let mut plan = Self {
            page: RequestedPage::Index,
            fault: None,
            work_ns: None,
            method: head.method,
            version: head.version,
            framing: head.framing,
            keep_alive: head.keep_alive,
            expect_continue: head.expect_continue,
            target: Text::of(head.target.of(bytes)),
            id: Text::default(),
        };
        if let Err((status, sentence)) = plan.read(head, bytes) {
            plan.page = RequestedPage::Refused(status, sentence);
        }
        plan
    }

    /// The number of the prepared page if the request is the usual one: a prepared page, and a
    /// persistent connection.
    pub(super) fn ready_page(&self) -> Option<usize> {
        match self.page {
            RequestedPage::Ready(page)
                if self.method != Method::Head
                    && self.keep_alive
                    && self.version == Version::Http11
                    && self.fault.is_none()
                    && self.id.is_empty() =>
            {
                Some(page)
            }
            _ => None,
        }
    }

    fn read(&mut self, head: &RequestHead, bytes: &[u8]) -> Result<(), (u16, String)> {
        // Headers are read first, so that `?id=` and `?fault=` override headers that a proxy added.
        for header in &head.headers {
            match header.known {
                Known::XRequestId => self.id = Text::of(header.value.of(bytes)),
                Known::Other if header.name.of(bytes).eq_ignore_ascii_case(b"x-fault") => {
                    self.fault = Some(read(header.value.of(bytes), OriginFault::parse)?);
                }
                _ => {}
            }
        }
        let path = head.path_text(bytes);
        let query = head.query.map_or(&[][..], |query| query.of(bytes));
        self.page = match path {
            b"/1k" => RequestedPage::Ready(0),
            b"/10k" => RequestedPage::Ready(1),
            b"/100k" => RequestedPage::Ready(2),
            _ if head.form == TargetForm::Authority => {
                return Err((405, "tunnels are not supported".to_owned()));
            }
            b"/" | b"*" => RequestedPage::Index,
            b"/echo" => RequestedPage::Echo,
            b"/-/stats" => RequestedPage::Stats { reset: false, log: usize::MAX },
            _ => self.page_with_argument(path)?,
        };
        self.read_query(query)
    }

    fn page_with_argument(&mut self, path: &[u8]) -> Result<RequestedPage, (u16, String)> {
        let text = String::from_utf8_lossy(path);
        let nowhere = || (404, format!("there is no page {text}; / lists the pages"));
        let (kind, argument) =
            text.strip_prefix('/').and_then(|text| text.split_once('/')).ok_or_else(nowhere)?;
        let argument = argument.as_bytes();
        match kind {
            "bytes" => Ok(RequestedPage::Bytes(read(argument, |text| {
                bounded(size_bytes(text)?, BODY_BYTES)
            })?)),
            "status" => Ok(RequestedPage::Status(read(argument, status)?)),
            "delay" => {
                self.work_ns = Some(read(argument, delay)?);
                Ok(RequestedPage::Delay)
            }
            "stream" => {
                let count = read(argument, |text| bounded(number(text)?, PIECES))?;
                Ok(RequestedPage::Stream(BodyPieces { count, size: 1024, every_ns: 0 }))
            }
            "events" => {
                let count = read(argument, |text| bounded(number(text)?, PIECES))?;
                Ok(RequestedPage::Events(BodyPieces { count, size: 0, every_ns: 1_000_000_000 }))
            }
            "fault" => {
                self.fault = Some(read(argument, OriginFault::parse)?);
                Ok(RequestedPage::Ready(0))
            }
            _ => Err(nowhere()),
        }
    }

    /// Reads the query. Unknown parameters are ignored, since they may belong to another program.
    fn read_query(&mut self, query: &[u8]) -> Result<(), (u16, String)> {
        for pair in query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
            let equals = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
            let (name, value) = pair.split_at(equals);
            let value = value.get(1..).unwrap_or_default();
            match (name, &mut self.page) {
                (b"fault", _) => self.fault = Some(read(value, OriginFault::parse)?),
                (b"id", _) => self.id = Text::of(value),
                (b"delay", _) => self.work_ns = Some(read(value, delay)?),
                (b"size", RequestedPage::Stream(pieces)) => {
                    let size = read(value, |text| bounded(size_bytes(text)?, PIECE_BYTES))?;
                    pieces.size = size.max(1);
                }
                (b"every", RequestedPage::Stream(pieces) | RequestedPage::Events(pieces)) => {
                    pieces.every_ns = read(value, delay)?;
                }
                (b"reset", RequestedPage::Stats { reset, .. }) => *reset = true,
                (b"log", RequestedPage::Stats { log, .. }) => *log = read(value, number)? as usize,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Parses text of the client; an error becomes a 400.
fn read<T>(
    bytes: &[u8],
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, (u16, String)> {
    parse(&String::from_utf8_lossy(bytes)).map_err(|sentence| (400, sentence))
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number"))
}

fn bounded(value: u64, most: u64) -> Result<u64, String> {
    if value > most { Err(format!("{value} is more than {most}")) } else { Ok(value) }
}

fn delay(text: &str) -> Result<u64, String> {
    let time = time_ns(text)?;
    if time > DELAY_NS { Err(format!("`{text}` is longer than an hour")) } else { Ok(time) }
}

fn status(text: &str) -> Result<u16, String> {
    match text.parse::<u16>() {
        Ok(status @ 200..=599) => Ok(status),
        _ => Err(format!("`{text}` is not a status from 200 to 599")),
    }
}

#[cfg(test)]
mod tests {
    use weir_wire::{HeadLimits, RequestHead, Scan};

    use super::{BodyPieces, OriginFault, RequestedPage, ResponsePlan};

    fn plan(target: &str, lines: &str) -> ResponsePlan {
        let bytes = format!("GET {target} HTTP/1.1\r\nHost: x\r\n{lines}\r\n").into_bytes();
        let mut head = RequestHead::default();
        assert!(
            head.parse(&bytes, &mut Scan::default(), &HeadLimits::default()).unwrap().is_some()
        );
        ResponsePlan::of(&head, &bytes)
    }

    #[test]
    fn targets_are_pages() {
        let check = |target, page| assert_eq!(plan(target, "").page, page, "{target}");
        check("/1k", RequestedPage::Ready(0));
        check("/10k?cache=1", RequestedPage::Ready(1));
        check("/100k", RequestedPage::Ready(2));
        check("http://other/1k", RequestedPage::Ready(0));
        check("/", RequestedPage::Index);
        check("http://other", RequestedPage::Index);
        check("/bytes/0", RequestedPage::Bytes(0));
        check("/bytes/1025", RequestedPage::Bytes(1025));
        check("/bytes/3m", RequestedPage::Bytes(3 << 20));
        check("/status/503", RequestedPage::Status(503));
        check("/echo", RequestedPage::Echo);
        check("/stream/3", RequestedPage::Stream(BodyPieces { count: 3, size: 1024, every_ns: 0 }));
        let pieces = BodyPieces { count: 3, size: 10, every_ns: 5_000_000 };
        check("/stream/3?size=10&every=5ms", RequestedPage::Stream(pieces));
        check(
            "/events/2?every=1ms",
            RequestedPage::Events(BodyPieces { count: 2, size: 0, every_ns: 1_000_000 }),
        );
        check("/-/stats", RequestedPage::Stats { reset: false, log: usize::MAX });
        check("/-/stats?reset", RequestedPage::Stats { reset: true, log: usize::MAX });
        check("/-/stats?log=5&reset=1", RequestedPage::Stats { reset: true, log: 5 });
    }

    #[test]
    fn what_is_not_there_is_404_and_what_makes_no_sense_400() {
        let check = |target: &str, lines, expected| match plan(target, lines).page {
            RequestedPage::Refused(status, sentence) => {
                assert_eq!(status, expected, "{target}: {sentence}");
            }
            page => panic!("{target}: {page:?}"),
        };
        for target in ["/2k", "/bytes", "/nothing/1", "//1k", "/1k/", "/-/nothing"] {
            check(target, "", 404);
        }
        for target in [
            "/bytes/",
            "/bytes/-1",
            "/bytes/2000g",
            "/bytes/1x",
            "/status/99",
            "/status/600",
            "/status/1e3",
            "/delay/20",
            "/delay/2h",
            "/stream/x",
            "/stream/1?size=2m",
            "/fault/fire",
            "/1k?fault=fire",
            "/1k?delay=x",
            "/-/stats?log=x",
            "/events/1?every=2h",
        ] {
            check(target, "", 400);
        }
        check("/1k", "X-Fault: fire\r\n", 400);
    }

    #[test]
    fn delay_fault_and_id_come_with_any_page() {
        let plain = plan("/1k", "");
        assert!(plain.ready_page() == Some(0) && plain.work_ns.is_none());
        let asked = plan(
            "/bytes/5?delay=20ms&fault=close-body&id=7",
            "X-Request-Id: 6\r\nX-Fault: hang\r\n",
        );
        assert_eq!(asked.page, RequestedPage::Bytes(5));
        assert_eq!((asked.work_ns, asked.fault), (Some(20_000_000), Some(OriginFault::CloseBody)));
        assert_eq!(asked.id.to_string(), "7");
        let by_header = plan("/1k", "x-fault: reset\r\nx-request-id: abc\r\n");
        assert_eq!(
            (by_header.fault, by_header.id.to_string().as_str()),
            (Some(OriginFault::Reset), "abc")
        );
        assert_eq!(by_header.ready_page(), None);
        assert_eq!(plan("/fault/garbage", "").fault, Some(OriginFault::Garbage));
        assert_eq!(plan("/delay/1.5ms", "").work_ns, Some(1_500_000));
        for (name, fault) in OriginFault::ALL {
            assert_eq!((OriginFault::parse(name), fault.name()), (Ok(fault), name));
        }
    }
}
