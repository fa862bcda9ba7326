//! Frames of HTTP/2 (RFC 9113 section 4) as bytes, for the simulation. It shares no code with the
//! product.

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

pub(crate) const NO_ERROR: u32 = 0;
pub(crate) const PROTOCOL_ERROR: u32 = 1;
pub(crate) const INTERNAL_ERROR: u32 = 2;
pub(crate) const REFUSED_STREAM: u32 = 7;
pub(crate) const CANCEL: u32 = 8;

pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;
pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The largest payload that a peer may send that was not allowed more.
pub(crate) const MOST_PAYLOAD: usize = 16_384;

/// A received frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WireFrame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl WireFrame {
    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns the 32-bit number at an offset of the payload; 0 if it is shorter.
    pub(crate) fn number(&self, at: usize) -> u32 {
        let bytes = self.payload.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u32::from_be_bytes)
    }

    /// Returns the settings of a SETTINGS frame.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (u16, u32)> {
        self.payload.chunks_exact(6).map(|one| {
            let id = u16::from_be_bytes([one[0], one[1]]);
            (id, u32::from_be_bytes([one[2], one[3], one[4], one[5]]))
        })
    }
}

/// Returns a frame as bytes.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Returns a SETTINGS frame.
pub(crate) fn settings(settings: &[(u16, u32)]) -> Vec<u8> {
    let one = |(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
    frame(SETTINGS, 0, 0, &settings.iter().flat_map(one).collect::<Vec<u8>>())
}

/// Takes the first whole frame from a buffer.
pub(crate) fn take(buffer: &mut Vec<u8>) -> Option<WireFrame> {
    let (frame, length) = first(buffer)?;
    buffer.drain(..length);
    Some(frame)
}

/// Returns the first whole frame of a buffer and its length as bytes.
fn first(buffer: &[u8]) -> Option<(WireFrame, usize)> {
    let head = buffer.get(..9)?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
    let payload = buffer.get(9..9 + length)?.to_vec();
    Some((WireFrame { kind: head[3], flags: head[4], stream, payload }, 9 + length))
}

/// The frames that a client wrote to a connection.
pub(crate) struct WrittenFrames {
    pub(crate) frames: Vec<WireFrame>,
    /// Set if the bytes end within a frame.
    pub(crate) cut: bool,
}

/// Returns the frames that a client wrote; `None` if this is no connection of HTTP/2.
pub(crate) fn written(bytes: &[u8]) -> Option<WrittenFrames> {
    let mut rest = bytes.strip_prefix(PREFACE)?;
    let mut frames = Vec::new();
    while let Some((frame, length)) = first(rest) {
        frames.push(frame);
        rest = &rest[length..];
    }
    Some(WrittenFrames { frames, cut: !rest.is_empty() })
}
