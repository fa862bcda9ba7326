use std::pin::Pin;
use std::task::Waker;

use tokio::io::{AsyncRead, AsyncWrite};

use super::*;
use crate::http::grpc_web::WebForm;
use crate::limits::{BULK_BUFFER, BULK_BUFFERS, TURN_BYTES};

/// A source of endless one-byte chunks, all written in the same way.
struct TinyChunks {
    chunk: &'static [u8],
    /// The bytes that it has given.
    given: u64,
}

impl AsyncRead for TinyChunks {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while buffer.remaining() >= self.chunk.len() {
            buffer.put_slice(self.chunk);
            self.given += self.chunk.len() as u64;
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
        let (mut source, mut sink) = (TinyChunks { chunk, given: 0 }, tokio::io::sink());
        let buffers = Buffers::default();
        let (framing, encoder) = (Framing::Chunked, Encoder::Chunked);
        let bounds = Bounds::default();
        let mut pump = Pump::new(Vec::new(), framing, encoder, Vec::new(), 0, bounds);
        for turn in 1..=3 {
            assert!(pump.poll(context, &mut source, &mut sink, &buffers).is_pending());
            assert_eq!(pump.waiting, Waiting::Turn);
            // The last read of a turn may exceed its limit.
            let most = turn * (TURN_BYTES as u64 / TURN_FRAMING_COST + 2 * SMALL_BUFFER as u64);
            assert!(source.given <= most, "{} bytes read in {turn} turns", source.given);
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
            let moved = pump.received() + pump.written;
            let most = turn * (TURN_BYTES + 3 * SMALL_BUFFER) as u64;
            assert!((most / 2..=most).contains(&moved), "{moved} bytes in {turn} turns");
        }
    }
}

/// A sink that takes some bytes and then none, in turns.
struct Lagging {
    takes: bool,
    taken: usize,
}

impl AsyncWrite for Lagging {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.takes = !self.takes;
        if self.takes {
            return Poll::Pending;
        }
        let count = bytes.len().min(20_000);
        self.taken += count;
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl BodySink for Lagging {}

#[test]
fn a_converted_body_holds_little_however_far_its_reader_lags() {
    let context = &mut Context::from_waker(Waker::noop());
    for encoder in [Encoder::Plain, Encoder::Chunked] {
        let (mut source, mut sink) = (tokio::io::repeat(b'x'), Lagging { takes: true, taken: 0 });
        let buffers = Buffers::default();
        let (framing, bounds) = (Framing::UntilClose, Bounds::default());
        let mut pump = Pump::new(Vec::new(), framing, encoder, Vec::new(), 0, bounds);
        pump.convert_to_web(WebForm::Text);
        let mut most = 0;
        while sink.taken < 10_000_000 {
            assert!(pump.poll(context, &mut source, &mut sink, &buffers).is_pending());
            if pump.waiting == Waiting::Write {
                pump.read_ahead(context, &mut source);
            }
            most = most.max(pump.held());
        }
        assert!(most < 4 * LARGE_BUFFER, "{most} bytes");
    }
}

/// A sink that takes this many bytes, and then none.
struct Reader(usize);

impl AsyncWrite for Reader {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        if taken == 0 { Poll::Pending } else { Poll::Ready(Ok(taken)) }
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl BodySink for Reader {}

/// Returns a pump of a tunnel whose reader has stopped after this many bytes.
fn stopped(buffers: &Buffers, taken: usize) -> Pump {
    let context = &mut Context::from_waker(Waker::noop());
    let (framing, bounds) = (Framing::UntilClose, Bounds { bulk: true, ..Bounds::default() });
    let mut pump = Pump::new(Vec::new(), framing, Encoder::Plain, Vec::new(), 0, bounds);
    let (mut source, mut sink) = (tokio::io::repeat(b'x'), Reader(taken));
    while pump.waiting != Waiting::Write || pump.written == 0 {
        assert!(pump.poll(context, &mut source, &mut sink, buffers).is_pending());
    }
    assert_eq!(pump.written, taken as u64);
    pump
}

#[test]
fn few_readers_that_stop_hold_a_bulk_buffer() {
    let buffers = Buffers::default();
    let stopped_ones = |count: usize, taken: usize| -> Vec<Pump> {
        (0..count).map(|_| stopped(&buffers, taken)).collect()
    };
    let held = |pumps: &[Pump]| pumps.iter().map(|pump| pump.held() / SMALL_BUFFER).sum::<usize>();
    // A tunnel with few bytes has none.
    assert_eq!(held(&stopped_ones(3, SMALL_BUFFER / 2)), 3);
    let many = stopped_ones(3 * BULK_BUFFERS, 4 << 20);
    let bulk = BULK_BUFFER / SMALL_BUFFER;
    assert_eq!(held(&many), BULK_BUFFERS * bulk + 2 * BULK_BUFFERS);
    // The end of a tunnel makes room for another one.
    drop(many);
    assert_eq!(held(&stopped_ones(1, 4 << 20)), bulk);
}

#[test]
fn a_tunnel_that_waits_for_its_source_holds_no_bulk_buffer() {
    let context = &mut Context::from_waker(Waker::noop());
    let buffers = Buffers::default();
    let (framing, bounds) = (Framing::UntilClose, Bounds { bulk: true, ..Bounds::default() });
    let mut pump = Pump::new(Vec::new(), framing, Encoder::Plain, Vec::new(), 0, bounds);
    let mut source = Bursts(vec![100, 3 * SMALL_BUFFER, BULK_BUFFER]);
    for burst in [BULK_BUFFER, 3 * SMALL_BUFFER, 100] {
        let before = pump.written;
        while pump.waiting != Waiting::Read || pump.written == before {
            assert!(pump.poll(context, &mut source, &mut tokio::io::sink(), &buffers).is_pending());
        }
        assert_eq!(pump.written - before, burst as u64);
        assert!(pump.held() < SMALL_BUFFER, "{} bytes", pump.held());
    }
    assert_eq!(buffers.bulk_in_use(), 0);
}

/// A source that has bursts of bytes, the last one first.
struct Bursts(Vec<usize>);

impl AsyncRead for Bursts {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.0.last_mut() {
            Some(0) | None => {
                self.0.pop();
                Poll::Pending
            }
            Some(left) => {
                let taken = buffer.remaining().min(*left);
                *left -= taken;
                buffer.put_slice(&vec![b'x'; taken]);
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl BodySource for Bursts {}

#[test]
fn a_bulk_buffer_is_given_back_at_the_end_of_a_turn_and_of_the_bytes() {
    let context = &mut Context::from_waker(Waker::noop());
    let buffers = Buffers::default();
    let (framing, bounds) = (Framing::UntilClose, Bounds { bulk: true, ..Bounds::default() });
    let mut pump = Pump::new(Vec::new(), framing, Encoder::Plain, Vec::new(), 0, bounds);
    let mut source = tokio::io::AsyncReadExt::take(tokio::io::repeat(b'x'), 8 << 20);
    let (mut turns, mut sink) = (0, tokio::io::sink());
    while pump.poll(context, &mut source, &mut sink, &buffers).is_pending() {
        assert_eq!((pump.waiting, buffers.bulk_in_use()), (Waiting::Turn, 0));
        turns += 1;
        let most = turns * (TURN_BYTES + 2 * SMALL_BUFFER) as u64;
        assert!(pump.received() + pump.written <= most, "{} bytes in {turns} turns", pump.written);
    }
    assert!(pump.is_finished() && turns >= 16, "{turns} turns");
    assert_eq!(buffers.bulk_in_use(), 0);
}

impl BodySource for tokio::io::Take<tokio::io::Repeat> {}
