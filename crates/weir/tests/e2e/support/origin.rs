//! An origin that runs a script of its test, byte by byte, with a thread for each connection.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

use super::{PATIENCE, eventually};

/// A scripted origin. It stops accepting connections when it is dropped.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    stopped: AtomicBool,
    connections: AtomicUsize,
    received: Mutex<Vec<u8>>,
}

/// A connection that the origin accepted.
pub(crate) struct Accepted {
    stream: TcpStream,
    buffer: Vec<u8>,
    state: Arc<State>,
}

impl Origin {
    /// Runs the script on each connection; its end closes the connection.
    pub(crate) fn start(script: impl Fn(&mut Accepted) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let (own, script) = (state.clone(), Arc::new(script));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { break };
                if own.stopped.load(Ordering::SeqCst) {
                    break;
                }
                own.connections.fetch_add(1, Ordering::SeqCst);
                let (state, script) = (own.clone(), script.clone());
                std::thread::spawn(move || {
                    stream.set_read_timeout(Some(PATIENCE)).unwrap();
                    stream.set_nodelay(true).unwrap();
                    script(&mut Accepted { stream, buffer: Vec::new(), state });
                });
            }
        });
        Self { address, state }
    }

    /// Starts an origin that answers every request with its own body, or `ok` when it has none.
    pub(crate) fn echo() -> Self {
        Self::start(|connection| {
            while let Some(request) = connection.request() {
                let body = if request.body.is_empty() { b"ok".to_vec() } else { request.body };
                connection.answer(&body);
            }
        })
    }

    /// Waits until this text has arrived.
    pub(crate) fn wait_for(&self, text: &str) {
        let arrived = || String::from_utf8_lossy(&self.received()).contains(text).then_some(());
        eventually(&format!("`{text}` is at the origin"), arrived);
    }

    /// Returns every byte received over all connections.
    pub(crate) fn received(&self) -> Vec<u8> {
        self.state.received.lock().unwrap().clone()
    }

    /// Returns the number of connections.
    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::SeqCst);
        // The accepting thread checks the flag when a connection arrives.
        let _ = TcpStream::connect(self.address);
    }
}

/// A request as the origin received it.
pub(crate) struct Received {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Received {
    /// Returns the value of the first header line with this name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head
            .split("\r\n")
            .skip(1)
            .filter_map(|line| line.split_once(':'))
            .find(|(own, _)| own.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
    }
}

impl Accepted {
    /// Returns the address of the other end.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.stream.peer_addr().unwrap()
    }

    /// Reads the next request with its body; `None` when the connection ends.
    pub(crate) fn request(&mut self) -> Option<Received> {
        let head = self.head()?;
        let mut received = Received { head, body: Vec::new() };
        if received.header("transfer-encoding").is_some() {
            loop {
                let line = self.until(b"\r\n")?;
                let digits = String::from_utf8_lossy(&line).trim().to_owned();
                let length = usize::from_str_radix(&digits, 16).ok()?;
                let chunk = self.exactly(length + 2)?;
                if length == 0 {
                    break;
                }
                received.body.extend_from_slice(&chunk[..length]);
            }
        } else if let Some(length) = received.header("content-length") {
            received.body = self.exactly(length.parse().ok()?)?;
        }
        Some(received)
    }

    /// Reads the next request's head and leaves its body unread.
    pub(crate) fn head(&mut self) -> Option<String> {
        self.until(b"\r\n\r\n").map(|head| String::from_utf8_lossy(&head).into_owned())
    }

    /// Answers 200 with this body.
    pub(crate) fn answer(&mut self, body: &[u8]) {
        let mut response =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
        response.extend_from_slice(body);
        self.send(response);
    }

    /// Sends bytes as they are. A closed connection is no failure here.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// Ends its side of the connection.
    pub(crate) fn finish_sending(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Makes the end of the script close the connection with a reset.
    pub(crate) fn reset_at_end(&self) {
        set_socket_linger(&self.stream, Some(Duration::ZERO)).unwrap();
    }

    /// Returns all bytes up to the end of the client's side.
    pub(crate) fn all(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.buffer);
        while self.more().is_some() {
            bytes.append(&mut self.buffer);
        }
        bytes
    }

    /// Waits for more bytes and returns all that are available; `None` at the end.
    pub(crate) fn some(&mut self) -> Option<Vec<u8>> {
        if self.buffer.is_empty() {
            self.more()?;
        }
        Some(std::mem::take(&mut self.buffer))
    }

    /// Reads to the end and returns true if that was a reset.
    pub(crate) fn ends_with_a_reset(&mut self) -> bool {
        let mut piece = [0; 16384];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
            }
        }
    }

    /// Waits for the other side to close.
    pub(crate) fn until_closed(&mut self) {
        while self.more().is_some() {
            self.buffer.clear();
        }
    }

    fn until(&mut self, mark: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(place) = self.buffer.windows(mark.len()).position(|window| window == mark) {
                return Some(self.buffer.drain(..place + mark.len()).collect());
            }
            self.more()?;
        }
    }

    fn exactly(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.buffer.len() < length {
            self.more()?;
        }
        Some(self.buffer.drain(..length).collect())
    }

    fn more(&mut self) -> Option<()> {
        let mut piece = [0; 16384];
        let count = self.stream.read(&mut piece).ok().filter(|&count| count > 0)?;
        self.state.received.lock().unwrap().extend_from_slice(&piece[..count]);
        self.buffer.extend_from_slice(&piece[..count]);
        Some(())
    }
}
