//! An HTTP/2 client that writes and reads frames by hand, with heads that are not compressed. It
//! shares no code with Weir and its libraries.

use crate::peer::{End, Peer};
use crate::world::{FRONT, World, app};

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

pub(crate) const PROTOCOL_ERROR: u32 = 1;
pub(crate) const INTERNAL_ERROR: u32 = 2;
pub(crate) const CANCEL: u32 = 8;
pub(crate) const ENHANCE_YOUR_CALM: u32 = 11;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The pseudo-headers of a usual request.
pub(crate) const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")];
/// The same for a request with a body.
pub(crate) const POST: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")];

/// A pool with one server.
pub(crate) const ONE: &str = "server 10.0.1.1:80;";

/// A configuration with one pool and a listener with HTTP/2 that leads to it.
pub(crate) fn http2(listener: &str) -> String {
    app(ONE, &format!("http2 on; {listener}"))
}

/// A received frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// The code of RST_STREAM or GOAWAY.
    pub(crate) fn code(&self) -> u32 {
        let bytes = match self.kind {
            RST_STREAM => &self.payload[..4],
            GOAWAY => &self.payload[4..8],
            _ => panic!("no code in {self:?}"),
        };
        u32::from_be_bytes(bytes.try_into().unwrap())
    }

    /// The last stream that a GOAWAY names.
    pub(crate) fn last_stream(&self) -> u32 {
        u32::from_be_bytes(self.payload[..4].try_into().unwrap())
    }

    /// The status in a response's head, which is its first field: an entry of the static table, or
    /// digits in the code of RFC 7541 appendix B.
    pub(crate) fn status(&self) -> u16 {
        assert_eq!(self.kind, HEADERS, "{self:?}");
        // The first head begins with a change of the table's size.
        let block = self.payload.strip_prefix(&[0x20]).unwrap_or(&self.payload);
        match block[0] {
            first @ 0x88..=0x8e => [200, 204, 206, 304, 400, 404, 500][usize::from(first - 0x88)],
            0x48 | 0x18 | 0x08 => {
                let length = usize::from(block[1] & 0x7f);
                let text = &block[2..2 + length];
                if block[1] & 0x80 == 0 {
                    return std::str::from_utf8(text).unwrap().parse().unwrap();
                }
                digits(text)
            }
            first => panic!("{first:x} is no status"),
        }
    }

    pub(crate) fn ends_stream(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0
    }
}

/// Decodes three digits: 0 to 2 have five bits, 3 to 9 have six.
fn digits(text: &[u8]) -> u16 {
    let bits: Vec<u16> = text
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |at| u16::from(byte >> at & 1)))
        .collect();
    let mut at = 0;
    (0..3).fold(0, |number, _| {
        let five = bits[at..at + 5].iter().fold(0, |code, bit| code * 2 + bit);
        let digit = if five < 3 {
            at += 5;
            five
        } else {
            at += 6;
            five * 2 + bits[at - 1] - 0b01_1001 + 3
        };
        number * 10 + digit
    })
}

/// A frame as bytes.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}

/// Fields as literals that are not indexed (RFC 7541 section 6.2.2).
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    fields.iter().flat_map(|(name, value)| literal(name.as_bytes(), value.as_bytes())).collect()
}

pub(crate) fn literal(name: &[u8], value: &[u8]) -> Vec<u8> {
    [vec![0], string(name), string(value)].concat()
}

fn string(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    if text.len() < 127 {
        bytes.push(text.len() as u8);
    } else {
        bytes.push(127);
        let mut rest = text.len() - 127;
        while rest >= 128 {
            bytes.push((rest % 128 + 128) as u8);
            rest /= 128;
        }
        bytes.push(rest as u8);
    }
    bytes.extend_from_slice(text);
    bytes
}

/// A client that has begun an HTTP/2 connection.
pub(crate) struct Http2Peer {
    pub(crate) peer: Peer,
    /// The windows that [`Http2Peer::upload`] keeps.
    pub(crate) windows: SendWindows,
}

/// The bytes of DATA that a client may still send.
#[derive(Debug)]
pub(crate) struct SendWindows {
    pub(crate) connection: i64,
    /// The first window of a stream, as the server told last.
    pub(crate) first: i64,
    /// Of the stream that is sent now.
    stream: i64,
}

impl Http2Peer {
    /// Connects with prior knowledge, these settings and the usual preface.
    pub(crate) async fn with(world: &World, settings: &[(u16, u32)]) -> Self {
        Self::begin(world.client_from("192.0.2.1", FRONT).await, settings).await
    }

    /// Begins HTTP/2 on a new connection.
    pub(crate) async fn begin(mut peer: Peer, settings: &[(u16, u32)]) -> Self {
        // Without a dynamic table, heads can be read without the ones before.
        let settings: Vec<u8> = [(1, 0)]
            .iter()
            .chain(settings)
            .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        peer.send([PREFACE, &frame(SETTINGS, 0, 0, &settings)].concat()).await;
        Self::of(peer)
    }

    /// A client on a connection on which nothing was sent.
    pub(crate) fn of(peer: Peer) -> Self {
        let windows = SendWindows { connection: 65_535, first: 65_535, stream: 0 };
        Self { peer, windows }
    }

    /// Sends a body of this length within the windows. The stream must be the only one.
    pub(crate) async fn upload(&mut self, stream: u32, bytes: usize) {
        let mut left = bytes;
        self.windows.stream = self.windows.first;
        while left > 0 {
            let room = self.windows.connection.min(self.windows.stream).min(16_384);
            if room <= 0 {
                self.follow().await;
                continue;
            }
            let piece = left.min(room as usize);
            left -= piece;
            self.windows.connection -= piece as i64;
            self.windows.stream -= piece as i64;
            let flags = if left == 0 { END_STREAM } else { 0 };
            self.send(DATA, flags, stream, &vec![7; piece]).await;
        }
    }

    /// Reads a frame about windows or settings, and answers it.
    pub(crate) async fn follow(&mut self) {
        let frame = self.any_frame().await;
        match (frame.kind, frame.flags) {
            (SETTINGS, 0) => {
                for setting in frame.payload.chunks(6).filter(|one| one[..2] == [0, 4]) {
                    let first = i64::from(u32::from_be_bytes(setting[2..].try_into().unwrap()));
                    self.windows.stream += first - self.windows.first;
                    self.windows.first = first;
                }
                self.send(SETTINGS, ACK, 0, &[]).await;
            }
            (PING, 0) => self.send(PING, ACK, 0, &frame.payload).await,
            (WINDOW_UPDATE, _) => {
                let more = i64::from(u32::from_be_bytes(frame.payload[..4].try_into().unwrap()));
                match frame.stream {
                    0 => self.windows.connection += more,
                    _ => self.windows.stream += more,
                }
            }
            (SETTINGS | PING, _) => {}
            _ => panic!("{frame:?}"),
        }
    }

    pub(crate) async fn connect(world: &World) -> Self {
        Self::with(world, &[]).await
    }

    pub(crate) async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.peer.send(frame(kind, flags, stream, payload)).await;
    }

    /// Sends a whole head.
    pub(crate) async fn request(&mut self, stream: u32, fields: &[(&str, &str)], flags: u8) {
        self.send(HEADERS, flags | END_HEADERS, stream, &block(fields)).await;
    }

    /// Sends a request without a body.
    pub(crate) async fn get(&mut self, stream: u32) {
        self.request(stream, &GET, END_STREAM).await;
    }

    /// Reads the next frame, whatever it is.
    pub(crate) async fn any_frame(&mut self) -> Frame {
        let head = self.peer.exactly(9).await;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let payload = self.peer.exactly(length as usize).await;
        Frame { kind: head[3], flags: head[4], stream, payload }
    }

    /// Reads the next frame about streams or the connection's end; acknowledges settings.
    pub(crate) async fn frame(&mut self) -> Frame {
        loop {
            let frame = self.any_frame().await;
            match frame.kind {
                SETTINGS if frame.flags & ACK == 0 => {
                    // The connection may have ended behind it.
                    let _ = self.peer.try_send(&self::frame(SETTINGS, ACK, 0, &[])).await;
                }
                SETTINGS | WINDOW_UPDATE | PING => {}
                _ => return frame,
            }
        }
    }

    /// Reads a whole response: its status and its body.
    pub(crate) async fn response(&mut self, stream: u32) -> (u16, String) {
        let head = self.frame().await;
        assert_eq!(head.stream, stream, "{head:?}");
        let (status, mut ended, mut body) = (head.status(), head.ends_stream(), Vec::new());
        while !ended {
            let frame = self.frame().await;
            assert_eq!((frame.stream, frame.kind), (stream, DATA), "{frame:?}");
            body.extend_from_slice(&frame.payload);
            ended = frame.ends_stream();
        }
        (status, String::from_utf8(body).unwrap())
    }

    /// Reads the server's settings.
    pub(crate) async fn frame_settings(&mut self) {
        let settings = self.any_frame().await;
        assert_eq!(settings.kind, SETTINGS, "{settings:?}");
    }

    /// Reads frames up to GOAWAY.
    pub(crate) async fn goaway(&mut self) -> Frame {
        loop {
            let frame = self.frame().await;
            if frame.kind == GOAWAY {
                return frame;
            }
        }
    }

    /// Checks that the connection ends without another frame of a stream.
    pub(crate) async fn expect_closed(&mut self) {
        let (rest, end) = self.peer.rest().await;
        assert_eq!((rest.as_slice(), end), (&[][..], End::Closed));
    }
}
