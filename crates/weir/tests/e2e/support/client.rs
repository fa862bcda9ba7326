//! A client on a bare socket, with a response parser that shares no code with Weir.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use super::PATIENCE;

/// One connection.
pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A response as received.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// Returns the value of a header that is present once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name));
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} is there twice: {self:?}");
        value
    }

    /// Returns true if the response announces the end of the connection.
    pub(crate) fn closes(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Closed with FIN.
    Closed,
    /// Reset.
    Reset,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::of(TcpStream::connect_timeout(&address, PATIENCE).unwrap())
    }

    /// Connects from this address of the loopback network, as another client.
    pub(crate) fn connect_from(client: [u8; 4], address: SocketAddr) -> Self {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::from((client, 0))).unwrap();
        connect(&socket, &address).unwrap();
        Self::of(socket.into())
    }

    fn of(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends a GET for this path.
    pub(crate) fn get(&mut self, path: &str) {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    }

    /// Closes the connection with a reset.
    pub(crate) fn reset(self) {
        set_socket_linger(&self.stream, Some(Duration::ZERO)).unwrap();
    }

    /// Shuts down the sending direction, unless the peer has closed the connection already.
    pub(crate) fn finish_sending(&self) {
        match self.stream.shutdown(Shutdown::Write) {
            Err(error) if error.kind() == ErrorKind::NotConnected => {}
            ended => ended.unwrap(),
        }
    }

    /// Sends a GET and reads its response.
    pub(crate) fn ask(&mut self, path: &str) -> Response {
        self.get(path);
        self.response()
    }

    /// Reads a whole response to a request other than HEAD.
    pub(crate) fn response(&mut self) -> Response {
        let mut response = self.head();
        if matches!(response.status, 100..=199 | 204 | 304) {
            return response;
        }
        if response.header("transfer-encoding").is_some() {
            response.body = self.chunked();
        } else if let Some(length) = response.header("content-length") {
            let length = length.parse().unwrap();
            response.body = self.exactly(length);
        } else {
            while self.more() == Ok(()) {}
            response.body = std::mem::take(&mut self.buffer);
        }
        response
    }

    /// Reads the head of a response.
    pub(crate) fn head(&mut self) -> Response {
        let text = self.until(b"\r\n\r\n");
        let text = String::from_utf8(text).unwrap();
        let mut lines = text.trim_end().split("\r\n");
        let mut words = lines.next().unwrap().split(' ');
        assert_eq!(words.next(), Some("HTTP/1.1"), "{text}");
        let status = words
            .next()
            .and_then(|word| word.parse().ok())
            .unwrap_or_else(|| panic!("no status: {text}"));
        let headers = lines
            .map(|line| line.split_once(':').unwrap_or_else(|| panic!("no colon: {line}")))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        Response { status, headers, body: Vec::new() }
    }

    /// Reads one chunk; an empty one is the last, and its trailer is read too.
    pub(crate) fn chunk(&mut self) -> Vec<u8> {
        let line = self.until(b"\r\n");
        let digits = std::str::from_utf8(&line).unwrap().trim_end();
        let length =
            usize::from_str_radix(digits, 16).unwrap_or_else(|_| panic!("no chunk size: {digits}"));
        if length == 0 {
            while self.until(b"\r\n") != b"\r\n" {}
            return Vec::new();
        }
        let chunk = self.exactly(length);
        assert_eq!(self.exactly(2), b"\r\n");
        chunk
    }

    fn chunked(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let chunk = self.chunk();
            if chunk.is_empty() {
                return body;
            }
            body.extend(chunk);
        }
    }

    /// Reads up to and including this mark.
    pub(crate) fn until(&mut self, mark: &[u8]) -> Vec<u8> {
        loop {
            if let Some(place) = self.buffer.windows(mark.len()).position(|window| window == mark) {
                return self.buffer.drain(..place + mark.len()).collect();
            }
            if let Err(end) = self.more() {
                panic!("{end:?} after {:?}", String::from_utf8_lossy(&self.buffer));
            }
        }
    }

    /// Reads this many bytes.
    pub(crate) fn exactly(&mut self, length: usize) -> Vec<u8> {
        while self.buffer.len() < length {
            if let Err(end) = self.more() {
                panic!("{end:?} after {} of {length} bytes", self.buffer.len());
            }
        }
        self.buffer.drain(..length).collect()
    }

    /// Reads to the end of the connection; returns the bytes and the kind of end.
    pub(crate) fn rest(&mut self) -> (Vec<u8>, End) {
        loop {
            if let Err(end) = self.more() {
                return (std::mem::take(&mut self.buffer), end);
            }
        }
    }

    /// Returns true if no byte and no end of the connection has arrived. It does not wait.
    pub(crate) fn is_silent(&mut self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let mut byte = [0; 1];
        let peeked = self.stream.peek(&mut byte);
        self.stream.set_nonblocking(false).unwrap();
        self.buffer.is_empty() && peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    fn more(&mut self) -> Result<(), End> {
        let mut piece = [0; 16384];
        match self.stream.read(&mut piece) {
            Ok(0) => Err(End::Closed),
            Ok(count) => {
                self.buffer.extend_from_slice(&piece[..count]);
                Ok(())
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) =>
            {
                Err(End::Reset)
            }
            Err(error) => panic!("nothing came within {PATIENCE:?}: {error}"),
        }
    }
}
