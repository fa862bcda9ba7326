//! The origin behind the proxies of the hostile suite: it answers by path, and misbehaves on the
//! paths below `/hostile/`. A thread serves each connection. It reads requests naively, as a
//! careless server would, and shares no code with Weir.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::proxies::stand_back;
use crate::support::PATIENCE;

/// Request heads that contain this word are kept for inspection.
pub(crate) const MARK: &str = "probe";
const MAX_HEADS: usize = 10_000;
/// The most bytes of one request head.
const MAX_HEAD_BYTES: usize = 4 << 20;
const LARGE_BODY: usize = 100 * 1024;
/// The most connections that wait to be accepted.
const BACKLOG: i32 = 4096;

/// A running origin. It accepts no further connection once dropped.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    stopped: AtomicBool,
    /// Set when requests for `/hold` may be answered.
    released: AtomicBool,
    heads: Mutex<Vec<String>>,
    requests: Mutex<HashMap<String, usize>>,
    /// The number of connections that serve `/never`, `/noread`, `/hold` or a tunnel at the moment.
    held: AtomicUsize,
    /// The address that requests for `/loop` are forwarded to.
    loop_to: Mutex<Option<SocketAddr>>,
}

impl Origin {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // The default of 128 drops the honest client's connection among thousands of an attack;
        // the second SYN is sent a second later.
        rustix::net::listen(&listener, BACKLOG).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let own = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { break };
                if own.stopped.load(Ordering::SeqCst) {
                    break;
                }
                let state = own.clone();
                std::thread::spawn(move || {
                    let _ = stream.set_read_timeout(Some(PATIENCE));
                    let _ = stream.set_write_timeout(Some(PATIENCE));
                    let _ = stream.set_nodelay(true);
                    let mut connection = Connection { stream, buffer: Vec::new(), state };
                    while connection.exchange().is_some() {}
                });
            }
        });
        Self { address, state }
    }

    /// Returns the heads that contain [`MARK`] and this text.
    pub(crate) fn heads_with(&self, text: &str) -> Vec<String> {
        let heads = self.state.heads.lock().unwrap();
        heads.iter().filter(|head| head.contains(text)).cloned().collect()
    }

    /// Drops the heads kept so far.
    pub(crate) fn forget(&self) {
        self.state.heads.lock().unwrap().clear();
    }

    /// Returns the number of requests for this path, without the query.
    pub(crate) fn requests(&self, path: &str) -> usize {
        self.state.requests.lock().unwrap().get(path).copied().unwrap_or(0)
    }

    /// Returns the number of connections that are held at the moment.
    pub(crate) fn held(&self) -> usize {
        self.state.held.load(Ordering::SeqCst)
    }

    /// Answers the requests for `/hold`, now and from now on.
    pub(crate) fn release(&self) {
        self.state.released.store(true, Ordering::SeqCst);
    }

    /// Sends requests for `/loop` to this address.
    pub(crate) fn loop_to(&self, address: SocketAddr) {
        *self.state.loop_to.lock().unwrap() = Some(address);
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::SeqCst);
        self.release();
        // The accepting thread checks the flag when a connection arrives.
        let _ = TcpStream::connect(self.address);
    }
}

struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    state: Arc<State>,
}

/// Counts a held connection for as long as it lives.
struct Held<'a>(&'a State);

impl<'a> Held<'a> {
    fn new(state: &'a State) -> Self {
        state.held.fetch_add(1, Ordering::SeqCst);
        Self(state)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Connection {
    /// Serves one request. `None` ends the connection.
    fn exchange(&mut self) -> Option<()> {
        let head = self.head()?;
        let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let path = target.split('?').next().unwrap_or_default();
        self.note(&head, path);
        let behaviour = path.rsplit('/').next().unwrap_or_default();
        if behaviour == "noread" {
            return self.hold_unread();
        }
        self.skip_body(&head)?;
        match behaviour {
            "100k" => self.answer(&b"x".repeat(LARGE_BODY)),
            "never" => self.hold(),
            "hold" => self.hold_until_released(),
            "wait" => {
                std::thread::sleep(Duration::from_millis(50));
                self.answer(b"ok")
            }
            "upgrade" => self.upgrade(&head),
            "loop" => self.send_round(&head),
            "respond" => {
                // The query is the percent-encoded response.
                let raw = target.split_once('?').map_or("", |(_, query)| query).to_owned();
                self.send(&decoded(&raw))?;
                self.until_closed();
                None
            }
            "unsolicited" => self.send(
                b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\
                  HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison",
            ),
            "endless-headers" => self.repeat(b"HTTP/1.1 200 OK\r\n", b"X-Padding: 0123456789\r\n"),
            "endless-1xx" => self.repeat(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
            "endless-body" => self.repeat(
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                &[b"1000\r\n".as_slice(), &[b'x'; 0x1000], b"\r\n"].concat(),
            ),
            "tiny-chunks" => {
                stand_back();
                let chunks = b"1\r\nx\r\n".repeat(4096);
                self.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
                self.send(&chunks)?;
                self.send(b"0\r\n\r\n")
            }
            _ => self.answer(b"ok"),
        }
    }

    fn note(&self, head: &str, path: &str) {
        if head.contains(MARK) {
            let mut heads = self.state.heads.lock().unwrap();
            if heads.len() < MAX_HEADS {
                heads.push(head.to_owned());
            }
        }
        let mut requests = self.state.requests.lock().unwrap();
        if let Some(count) = requests.get_mut(path) {
            *count += 1;
        } else if requests.len() < MAX_HEADS {
            requests.insert(path.to_owned(), 1);
        }
    }

    fn skip_body(&mut self, head: &str) -> Option<()> {
        let header = |name: &str| {
            head.lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(own, _)| own.trim().eq_ignore_ascii_case(name))
                .map(|(_, value)| value.trim().to_owned())
        };
        if header("transfer-encoding").is_some() {
            loop {
                let line = self.until(b"\r\n")?;
                let line = String::from_utf8_lossy(&line).into_owned();
                let digits = line.split(';').next().unwrap_or_default().trim();
                let length = usize::from_str_radix(digits, 16).ok()?;
                if length == 0 {
                    return self.trailers();
                }
                self.skip(length + 2)?;
            }
        } else if let Some(length) = header("content-length") {
            self.skip(length.parse().ok()?)?;
        }
        Some(())
    }

    fn trailers(&mut self) -> Option<()> {
        loop {
            let line = self.until(b"\r\n")?;
            if line == b"\r\n" {
                return Some(());
            }
            let line = String::from_utf8_lossy(&line).into_owned();
            self.note(&format!("trailer {line}"), "trailer");
        }
    }

    fn answer(&mut self, body: &[u8]) -> Option<()> {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        self.send(&[head.as_bytes(), body].concat())
    }

    fn hold(&mut self) -> Option<()> {
        let state = self.state.clone();
        let _held = Held::new(&state);
        self.until_closed();
        None
    }

    /// Reads nothing more and ends when the other side closes.
    fn hold_unread(&mut self) -> Option<()> {
        let _held = Held::new(&self.state);
        let began = Instant::now();
        let tick = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        while began.elapsed() < PATIENCE && !self.state.stopped.load(Ordering::SeqCst) {
            let mut waits = [PollFd::new(&self.stream, PollFlags::RDHUP)];
            if poll(&mut waits, Some(&tick)).is_ok_and(|ready| ready > 0) {
                return None;
            }
        }
        None
    }

    fn hold_until_released(&mut self) -> Option<()> {
        let state = self.state.clone();
        let held = Held::new(&state);
        let began = Instant::now();
        while !state.released.load(Ordering::SeqCst) && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(2));
        }
        drop(held);
        self.answer(b"ok")
    }

    /// Switches to the requested protocol and records the bytes of the tunnel.
    fn upgrade(&mut self, head: &str) -> Option<()> {
        let asked = head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.eq_ignore_ascii_case("upgrade"));
        let Some((_, protocol)) = asked else { return self.answer(b"ok") };
        let response = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade:{protocol}\r\n\r\n"
        );
        self.send(response.as_bytes())?;
        let state = self.state.clone();
        let _held = Held::new(&state);
        while self.more().is_some() {
            let said = String::from_utf8_lossy(&self.buffer).into_owned();
            self.note(&format!("tunnelled {said}"), "tunnelled");
            self.buffer.clear();
        }
        None
    }

    /// Sends the request to the proxy again, as a second proxy that leads back to it would.
    fn send_round(&mut self, head: &str) -> Option<()> {
        let address = (*self.state.loop_to.lock().unwrap())?;
        let mut onward = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
        onward.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
        onward.write_all(head.as_bytes()).ok()?;
        let mut piece = [0; 4096];
        let count = onward.read(&mut piece).ok()?;
        self.send(piece.get(..count)?)?;
        None
    }

    /// Sends a beginning and then the same piece repeatedly, until the other side closes.
    fn repeat(&mut self, beginning: &[u8], piece: &[u8]) -> Option<()> {
        stand_back();
        self.send(beginning)?;
        let many = piece.repeat(64);
        while !self.state.stopped.load(Ordering::SeqCst) {
            self.send(&many)?;
        }
        None
    }

    fn send(&mut self, bytes: &[u8]) -> Option<()> {
        self.stream.write_all(bytes).ok()
    }

    fn until_closed(&mut self) {
        while self.more().is_some() {
            self.buffer.clear();
        }
    }

    /// Reads the next head, up to and including its empty line.
    fn head(&mut self) -> Option<String> {
        self.until(b"\r\n\r\n").map(|head| String::from_utf8_lossy(&head).into_owned())
    }

    fn until(&mut self, mark: &[u8]) -> Option<Vec<u8>> {
        let mut looked_at = 0;
        loop {
            let from = usize::saturating_sub(looked_at, mark.len());
            let rest = self.buffer.get(from..)?;
            if let Some(place) = rest.windows(mark.len()).position(|window| window == mark) {
                return Some(self.buffer.drain(..from + place + mark.len()).collect());
            }
            looked_at = self.buffer.len();
            if looked_at > MAX_HEAD_BYTES {
                return None;
            }
            self.more()?;
        }
    }

    fn skip(&mut self, length: usize) -> Option<()> {
        let mut left = length;
        loop {
            let count = left.min(self.buffer.len());
            self.buffer.drain(..count);
            left -= count;
            if left == 0 {
                return Some(());
            }
            self.more()?;
        }
    }

    fn more(&mut self) -> Option<()> {
        let mut piece = [0; 16384];
        let count = self.stream.read(&mut piece).ok().filter(|&count| count > 0)?;
        self.buffer.extend_from_slice(&piece[..count]);
        Some(())
    }
}

/// Decodes percent-encoding.
pub(crate) fn decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            out.push(byte);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    out
}

/// Percent-encodes every byte, so that a response can be sent as the query of a target.
pub(crate) fn encoded(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("%{byte:02x}"))
}
