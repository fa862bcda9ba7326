use std::task::Waker;

use tokio::io::AsyncRead;

use super::*;
use crate::limits::TURN_BYTES;

/// A source of endless one-byte chunks, all written in the same way.
struct TinyChunks(&'static [u8]);

impl AsyncRead for TinyChunks {
    fn poll_read(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while buffer.remaining() >= self.0.len() {
            buffer.put_slice(self.0);
        }
        Poll::Ready(Ok(()))
    }
}

impl BodySource for TinyChunks {}
impl BodySource for tokio::io::Repeat {}
impl BodySink for tokio::io::Sink {}

#[test]
fn chunk_framing_uses_up_a_turn_sooner_than_data() {
    let context = &mut Context::from_waker(Waker::noop());
    for chunk in ["1\r\nx\r\n".as_bytes(), b"1;extension=of-some-length\r\nx\r\n"] {
        let (mut source, mut sink) = (TinyChunks(chunk), tokio::io::sink());
        let buffers = Buffers::default();
        let (framing, encoder) = (Framing::Chunked, Encoder::Chunked);
        let bounds = Bounds::default();
        let mut pump = Pump::new(Vec::new(), framing, encoder, Vec::new(), 0, bounds);
        for turn in 1..=3 {
            assert!(pump.poll(context, &mut source, &mut sink, &buffers).is_pending());
            assert_eq!(pump.waiting, Waiting::Turn);
            // The last read of a turn may exceed its limit.
            let most = turn * (TURN_BYTES as u64 / TURN_FRAMING_COST + 2 * SMALL_BUFFER as u64);
            assert!(pump.read <= most, "{} bytes read in {turn} turns", pump.read);
        }
    }
}

#[test]
fn a_body_whose_two_sides_are_always_ready_ends_its_turn() {
    let context = &mut Context::from_waker(Waker::noop());
    for encoder in [Encoder::Plain, Encoder::Chunked] {
        let (mut source, mut sink) = (tokio::io::repeat(b'x'), tokio::io::sink());
        let buffers = Buffers::default();
        let (framing, bounds) = (Framing::UntilClose, Bounds::default());
        let mut pump = Pump::new(Vec::new(), framing, encoder, Vec::new(), 0, bounds);
        for turn in 1..=3 {
            assert!(pump.poll(context, &mut source, &mut sink, &buffers).is_pending());
            assert_eq!(pump.waiting, Waiting::Turn);
            let moved = pump.read + pump.written;
            let most = turn * (TURN_BYTES + 3 * SMALL_BUFFER) as u64;
            assert!((most / 2..=most).contains(&moved), "{moved} bytes in {turn} turns");
        }
    }
}
