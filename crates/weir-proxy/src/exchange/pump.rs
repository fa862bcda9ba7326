//! Moves one body from a source to a sink: decodes its framing, encodes it anew, holds at most one
//! buffer, and never waits to fill it. The caller sets deadlines and interprets failures.

mod conversion;
mod passing;
mod replay;
mod sending;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use smallvec::SmallVec;
use weir_wire::{ChunkedDecoder, Framing, Step, encode};

use crate::exchange::body_stream::{BodySink, BodySource};
use crate::exchange::pump::conversion::WebConversion;
use crate::exchange::pump::replay::Replay;
use crate::http::trailers::TrailerRules;
use crate::limiting::bandwidth::Throttle;
use crate::limits::{DECODE_FRAMING, LARGE_BUFFER, SMALL_BUFFER, TURN_FRAMING_COST};
use crate::net::buffers::{Buffers, BulkLease, poll_read_into};
use crate::time::turns::{ByteTurn, end_turn};

/// Bodies up to this size are copied behind the head, so that one plain write sends both.
pub(crate) const COALESCE_BYTES: usize = 4096;

/// The source's framing of the body.
enum Decoder {
    /// No byte is left to read.
    Done,
    /// This many bytes are left to read.
    Length(u64),
    Chunked(ChunkedDecoder),
    UntilClose,
}

/// The framing of the body towards the sink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Encoder {
    /// By a length or by closing: the bytes are not changed.
    Plain,
    /// By chunks.
    Chunked,
    /// By the sink, which also sends the trailers.
    Sink,
}

/// The event that a pending pump waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waiting {
    /// Bytes from the source.
    Read,
    /// Room in the sink.
    Write,
    /// The task's next turn: both sides could continue.
    Turn,
}

/// The reason why a body was not transferred completely.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PumpFailure {
    /// The source ended before its body did.
    Truncated,
    /// The source failed.
    Read,
    /// The source ended without saying so, as TLS does with `close_notify`: bytes may be missing.
    Unannounced,
    /// The sink failed.
    Write,
    /// The source's framing is invalid.
    Malformed,
    /// The body exceeds its limit.
    TooLarge,
}

/// A body in transfer.
///
/// ```text
///  source ─▶ raw[at..] ─decode─▶ out ++ raw[direct] ++ tail ─▶ sink
/// ```
pub(crate) struct Pump {
    decoder: Decoder,
    encoder: Encoder,
    /// The bytes read; those before `at` are decoded.
    raw: Vec<u8>,
    at: usize,
    /// The bytes to send first (a head, a chunk header), from `out_at`.
    out: Vec<u8>,
    out_at: usize,
    /// The range of `raw` with the body bytes to send next.
    direct: std::ops::Range<usize>,
    /// The bytes to send after `direct`; with [`Encoder::Sink`], the trailers for the sink, which
    /// are not counted as bytes to send (`tail_at` is at the end).
    tail: SmallVec<[u8; 16]>,
    tail_at: usize,
    /// The rules for trailers; `None` drops trailers.
    trailers: Option<Arc<TrailerRules>>,
    /// The maximum number of body bytes.
    limit: u64,
    /// The throttle that limits the rate, if there is one.
    throttle: Option<Box<Throttle>>,
    /// The body so far, if it may have to be sent again.
    replay: Option<Box<Replay>>,
    /// The number of body bytes decoded so far.
    pub(crate) body_bytes: u64,
    /// The number of bytes handed to the sink so far, including framing.
    pub(crate) written: u64,
    /// The work of reading and decoding so far, in bytes copied.
    taken: u64,
    /// Set once it has read from the source, so that its bytes cannot be obtained again.
    pub(crate) has_read: bool,
    /// The event that a pending poll waits for.
    pub(crate) waiting: Waiting,
    finished: bool,
    /// Set if the source has ended before its last bytes were sent.
    ended: Option<Box<EndedSource>>,
    /// The conversion between gRPC-Web and gRPC, if the body is converted.
    conversion: Option<Box<WebConversion>>,
    /// Set if the body was read and decoded before this pump was made.
    pub(crate) is_whole: bool,
    surplus: Surplus,
    bulk: BulkReads,
    /// Set while the buffer is a bulk buffer.
    lease: Option<BulkLease>,
}

/// The use of bulk buffers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BulkReads {
    /// The body never has one.
    Never,
    /// The source has had less than a small buffer at a time.
    Small,
    /// The last read filled its buffer: the next one gets a bulk buffer if one is free.
    Eligible,
}

/// A source that has ended.
struct EndedSource {
    trailers: Vec<u8>,
}

/// The bytes that may be read beyond a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Surplus {
    /// Any number.
    #[default]
    Any,
    /// As many as are put back to the source: [`SMALL_BUFFER`].
    PutBack,
}

/// The limits of a body, and the rules for its trailers.
pub(crate) struct Bounds {
    /// The maximum number of body bytes.
    pub(crate) bytes: u64,
    /// The bytes that may be read beyond the body.
    pub(crate) surplus: Surplus,
    /// The throttle that limits the rate, if there is one.
    pub(crate) throttle: Option<Box<Throttle>>,
    /// The rules for trailers; `None` drops trailers.
    pub(crate) trailers: Option<Arc<TrailerRules>>,
    /// Set if a bulk buffer may be used once many bytes come.
    pub(crate) bulk: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { bytes: u64::MAX, surplus: Surplus::Any, throttle: None, trailers: None, bulk: false }
    }
}

impl Pump {
    /// Creates a pump that sends `head`, then the body that `framing` describes, of which
    /// `raw[at..]` was already read.
    pub(crate) fn new(
        head: Vec<u8>,
        framing: Framing,
        encoder: Encoder,
        raw: Vec<u8>,
        at: usize,
        bounds: Bounds,
    ) -> Self {
        let decoder = match framing {
            Framing::None | Framing::Length(0) => Decoder::Done,
            Framing::Length(length) => Decoder::Length(length),
            Framing::Chunked => Decoder::Chunked(ChunkedDecoder::new()),
            Framing::UntilClose => Decoder::UntilClose,
        };
        let mut tail = SmallVec::new();
        if matches!(decoder, Decoder::Done) {
            end_body(encoder, None, &mut tail);
        }
        Self {
            decoder,
            encoder,
            raw,
            at,
            out: head,
            out_at: 0,
            direct: 0..0,
            tail,
            tail_at: 0,
            trailers: bounds.trailers,
            limit: bounds.bytes,
            throttle: bounds.throttle,
            replay: None,
            body_bytes: 0,
            written: 0,
            taken: 0,
            has_read: false,
            waiting: Waiting::Write,
            finished: false,
            ended: None,
            conversion: None,
            is_whole: false,
            surplus: bounds.surplus,
            bulk: if bounds.bulk { BulkReads::Small } else { BulkReads::Never },
            lease: None,
        }
    }

    /// Creates a pump for a body that was completely read and decoded, with the throttle of the
    /// pump that read it.
    pub(crate) fn whole(body: Vec<u8>, throttle: Option<Box<Throttle>>) -> Self {
        let length = body.len();
        let bounds = Bounds { throttle, ..Bounds::default() };
        let pump = Self::new(Vec::new(), Framing::None, Encoder::Plain, body, length, bounds);
        Self { direct: 0..length, body_bytes: length as u64, is_whole: true, ..pump }
    }

    /// Creates a pump for the rest of a message of which `sent` bytes were sent; `message` ends
    /// with its whole body of `body` bytes.
    pub(crate) fn rest(message: Vec<u8>, sent: usize, body: usize) -> Self {
        let bounds = Bounds::default();
        let pump = Self::new(message, Framing::None, Encoder::Plain, Vec::new(), 0, bounds);
        Self { out_at: sent, written: sent as u64, body_bytes: body as u64, ..pump }
    }

    /// The number of body bytes received from the source, without decoded framing.
    pub(crate) fn received(&self) -> u64 {
        let waiting = (self.raw.len() - self.at) as u64;
        let undecoded = match &self.decoder {
            Decoder::Done => 0,
            Decoder::Length(left) => waiting.min(*left),
            Decoder::Chunked(_) | Decoder::UntilClose => waiting,
        };
        self.body_bytes + undecoded
    }

    /// The number of bytes in the buffer, decoded or not.
    pub(crate) fn raw_bytes(&self) -> usize {
        self.raw.len()
    }

    /// Takes the bytes out of a pump that has sent nothing and is not used any more.
    pub(crate) fn take_raw(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.raw)
    }

    /// The maximum number of body bytes.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// The trailers that a sink gets which frames bodies itself, or a client of gRPC-Web, once the
    /// body has ended.
    pub(crate) fn sink_trailers(&self) -> &[u8] {
        match (&self.ended, &self.conversion) {
            (Some(source), _) => &source.trailers,
            (None, Some(conversion)) => conversion.trailers(),
            (None, None) if self.encoder == Encoder::Sink => &self.tail,
            (None, None) => &[],
        }
    }

    /// Frames the body in another way; nothing may have been sent yet.
    #[inline]
    pub(crate) fn encode_as(&mut self, encoder: Encoder) {
        if self.encoder != encoder {
            self.change_encoder(encoder);
        }
    }

    #[cold]
    fn change_encoder(&mut self, encoder: Encoder) {
        let trailers = self.trailers_to_send();
        self.encoder = encoder;
        self.out.clear();
        self.tail.clear();
        self.tail_at = 0;
        if encoder == Encoder::Chunked && !self.direct.is_empty() {
            encode::chunk_header(self.direct.len(), &mut self.out);
            self.tail.extend_from_slice(encode::CHUNK_END);
        }
        if matches!(self.decoder, Decoder::Done) {
            if encoder == Encoder::Chunked {
                self.tail.extend_from_slice(encode::LAST_CHUNK);
            }
            if encoder != Encoder::Plain {
                self.tail.extend_from_slice(&trailers);
            }
            if encoder == Encoder::Chunked {
                self.tail.extend_from_slice(b"\r\n");
            }
        }
        if encoder == Encoder::Sink {
            self.tail_at = self.tail.len();
        }
    }

    /// The trailers that the tail has.
    fn trailers_to_send(&self) -> SmallVec<[u8; 16]> {
        let mut tail = self.tail.as_slice();
        if self.encoder == Encoder::Chunked {
            if !self.direct.is_empty() {
                tail = tail.strip_prefix(encode::CHUNK_END).unwrap_or_default();
            }
            tail = tail.strip_prefix(encode::LAST_CHUNK).unwrap_or_default();
            tail = tail.strip_suffix(b"\r\n").unwrap_or_default();
        }
        tail.into()
    }

    /// Puts a head in front of the bytes to send; nothing may have been sent yet.
    pub(crate) fn prepend(&mut self, mut head: Vec<u8>) {
        if !self.out.is_empty() {
            head.extend_from_slice(&self.out);
        }
        self.write_replay(&mut head);
        self.out = head;
    }

    /// Takes the throttle, for a pump that replaces this one.
    pub(crate) fn take_throttle(&mut self) -> Option<Box<Throttle>> {
        self.throttle.take()
    }

    /// The bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        let converted = self.conversion.as_ref().map_or(0, |conversion| conversion.held());
        let buffers = self.raw.capacity() + self.out.capacity() + self.tail.capacity();
        buffers + self.kept_bytes() + converted
    }

    /// The maximum that a read may take now: the known rest of the body, and the permitted surplus,
    /// as far as the buffer of a body that is converted has not grown.
    fn readable(&self) -> usize {
        let undecoded = self.raw.len().saturating_sub(self.at);
        let left = match self.decoder {
            Decoder::Length(left) => usize::try_from(left).unwrap_or(usize::MAX),
            _ => 0,
        };
        let beyond = match self.surplus {
            Surplus::Any => usize::MAX,
            Surplus::PutBack => SMALL_BUFFER,
        };
        let most = match &self.conversion {
            Some(_) => LARGE_BUFFER.saturating_sub(self.raw.len()),
            None => usize::MAX,
        };
        left.saturating_add(beyond).saturating_sub(undecoded).min(most)
    }

    /// Returns true if everything was read, sent and flushed.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// The work done so far, in bytes copied: decoding of framing costs more per byte.
    fn work(&self) -> u64 {
        self.written + self.taken
    }

    /// A number that grows whenever a byte of the body is decoded or a byte is sent.
    pub(crate) fn progress(&self) -> u64 {
        self.written + self.body_bytes
    }

    /// Bytes read beyond the end of the body.
    pub(crate) fn surplus(&self) -> &[u8] {
        match self.decoder {
            Decoder::Done => self.raw.get(self.at..).unwrap_or_default(),
            Decoder::Length(left) => {
                let own = usize::try_from(left).unwrap_or(usize::MAX);
                self.raw.get(self.at.saturating_add(own)..).unwrap_or_default()
            }
            Decoder::Chunked(_) | Decoder::UntilClose => &[],
        }
    }

    /// Returns true if no more bytes of the body have to be read from the source.
    pub(crate) fn is_read(&self) -> bool {
        match self.decoder {
            Decoder::Done => true,
            Decoder::Length(left) => self.raw.len().saturating_sub(self.at) as u64 >= left,
            Decoder::Chunked(_) => false,
            Decoder::UntilClose => self.ended.is_some(),
        }
    }

    /// Reads on while the sink takes nothing, as far as the buffer has room, so that the source can
    /// finish before the sink does. An end or a failure of the source is found again by the next
    /// regular read.
    pub(crate) fn read_ahead<R: BodySource>(&mut self, context: &mut Context<'_>, source: &mut R) {
        while self.raw.len() < self.raw.capacity() && !self.is_read() {
            // The buffer of a body that is converted grows, but is not read into any further then.
            let most = if self.conversion.is_some() { self.readable() } else { usize::MAX };
            if most == 0 {
                return;
            }
            match poll_read_into(source, context, &mut self.raw, most) {
                Poll::Ready(Ok(read)) if read > 0 => self.has_read = true,
                Poll::Ready(Ok(_)) if matches!(self.decoder, Decoder::UntilClose) => {
                    let trailers = source.take_trailers();
                    self.ended = Some(Box::new(EndedSource { trailers }));
                }
                _ => return,
            }
        }
    }

    /// Frees the memory of the bytes to send, if all were sent.
    pub(crate) fn shrink(&mut self) {
        if self.finished {
            self.out = Vec::new();
        }
    }

    /// Takes its head buffer and its body buffer.
    pub(crate) fn take_buffers(&mut self) -> (Vec<u8>, Vec<u8>) {
        (std::mem::take(&mut self.out), std::mem::take(&mut self.raw))
    }

    /// Transfers bytes until the body is complete, or neither side can continue.
    pub(crate) fn poll<R, W>(
        &mut self,
        context: &mut Context<'_>,
        source: &mut R,
        sink: &mut W,
        buffers: &Buffers,
    ) -> Poll<Result<(), PumpFailure>>
    where
        R: BodySource,
        W: BodySink,
    {
        if self.finished {
            return Poll::Ready(Ok(()));
        }
        let mut turn = ByteTurn::new();
        if self.passes()
            && let Some(passed) = self.poll_pass(context, source, sink, buffers, &mut turn)
        {
            return passed;
        }
        let has_body = !matches!(self.decoder, Decoder::Done) || !self.direct.is_empty();
        if !has_body && self.tail.is_empty() {
            return self.poll_bare_head(context, sink).map_err(|_| PumpFailure::Write);
        }
        let mut before = self.work();
        loop {
            // Body bytes that came with the head are sent with it.
            if self.direct.is_empty() && self.tail.is_empty() {
                self.decode()?;
            }
            self.waiting = Waiting::Write;
            match self.poll_write_pending(context, sink) {
                Poll::Ready(written) => written.map_err(|_| PumpFailure::Write)?,
                Poll::Pending => {
                    source.collect(context);
                    return Poll::Pending;
                }
            }
            if matches!(self.decoder, Decoder::Done) {
                let ended = ready!(sink.poll_end(context, &self.tail));
                ended.map_err(|_| PumpFailure::Write)?;
                self.finished = true;
                return Poll::Ready(Ok(()));
            }
            let moved = usize::try_from(self.work() - before).unwrap_or(usize::MAX);
            if turn.is_over_after(moved) {
                self.waiting = Waiting::Turn;
                self.give_bulk_back(buffers);
                end_turn(context);
                return Poll::Pending;
            }
            before = self.work();
            if !self.has_undecoded() {
                self.waiting = Waiting::Read;
                match self.poll_fill(context, source, buffers) {
                    Poll::Ready(outcome) => outcome?,
                    Poll::Pending => return passing::flush(context, sink),
                }
            }
        }
    }

    /// Decodes the buffered part of the body without sending anything, so that malformed framing is
    /// found before an endpoint is involved.
    pub(crate) fn decode_ahead(&mut self) -> Result<(), PumpFailure> {
        if self.has_data() {
            return Ok(());
        }
        self.decode()
    }

    /// Returns true if buffered bytes have to be decoded before more are read.
    pub(crate) fn has_undecoded(&self) -> bool {
        self.at < self.raw.len()
    }

    /// Returns true if decoded bytes wait to be sent.
    pub(crate) fn has_data(&self) -> bool {
        !self.direct.is_empty()
    }

    /// Returns true if the whole body was decoded.
    pub(crate) fn is_decoded(&self) -> bool {
        matches!(self.decoder, Decoder::Done)
    }

    /// Returns true if the framing at the beginning of the body is known to be valid.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_data() || !matches!(self.decoder, Decoder::Chunked(_))
    }

    /// Returns true if there is no buffer yet, or the buffer has room for a read.
    pub(crate) fn has_room(&self) -> bool {
        let has_space =
            self.raw.capacity() == 0 || self.raw.len() < self.raw.capacity() && self.readable() > 0;
        // After the end of the body nothing of it is read any more.
        has_space && self.ended.is_none() && !matches!(self.decoder, Decoder::Done)
    }

    /// Appends the decoded bytes to `body` instead of sending them.
    pub(crate) fn take_decoded(&mut self, body: &mut Vec<u8>) {
        body.extend_from_slice(self.raw.get(self.direct.clone()).unwrap_or_default());
        self.direct = 0..0;
        self.out.clear();
        self.tail.clear();
    }

    /// Reads more from the source without sending anything.
    pub(crate) fn poll_fill<R: BodySource>(
        &mut self,
        context: &mut Context<'_>,
        source: &mut R,
        buffers: &Buffers,
    ) -> Poll<Result<(), PumpFailure>> {
        // The read may take more than the rest of the body: a read that does not fill its buffer
        // tells the reactor that the socket is empty, and bytes beyond the body are kept as
        // surplus.
        let expected = match self.decoder {
            Decoder::Length(left) => usize::try_from(left).unwrap_or(usize::MAX),
            _ => 0,
        };
        if !self.has_undecoded()
            && self.direct.is_empty()
            && let Some(source) = self.ended.take()
        {
            self.check_converted()?;
            self.end(&source.trailers);
            return Poll::Ready(Ok(()));
        }
        if self.at == self.raw.len() && self.direct.is_empty() {
            self.raw.clear();
            self.at = 0;
        }
        if self.raw.capacity() == 0 && expected > SMALL_BUFFER {
            self.raw = buffers.large();
        }
        let readable = self.readable();
        match ready!(self.poll_read(context, source, buffers, readable))? {
            0 => Poll::Ready(self.source_ended(source)),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Reads once, at most `most` bytes, behind those in the buffer; 0 is the end of the source.
    #[inline]
    fn poll_read<R: BodySource>(
        &mut self,
        context: &mut Context<'_>,
        source: &mut R,
        buffers: &Buffers,
        most: usize,
    ) -> Poll<Result<usize, PumpFailure>> {
        if self.bulk == BulkReads::Eligible && self.lease.is_none() && self.raw.is_empty() {
            self.take_bulk(buffers);
        }
        if self.raw.capacity() == 0 {
            self.raw = buffers.small();
        } else if self.raw.len() == self.raw.capacity() {
            // Reached only if a first chunk line fills a whole buffer.
            return Poll::Ready(Err(PumpFailure::Malformed));
        }
        let read = match poll_read_into(source, context, &mut self.raw, most) {
            Poll::Pending => {
                if self.raw.is_empty() {
                    self.give_bulk_back(buffers);
                    buffers.give_back(std::mem::take(&mut self.raw));
                }
                return Poll::Pending;
            }
            Poll::Ready(read) => {
                if !matches!(read, Ok(1..)) {
                    self.give_bulk_back(buffers);
                }
                read.map_err(|error| match error.kind() {
                    io::ErrorKind::UnexpectedEof => PumpFailure::Unannounced,
                    _ => PumpFailure::Read,
                })?
            }
        };
        self.has_read = true;
        self.taken += read as u64;
        if self.lease.is_some() {
            let is_needed = read >= SMALL_BUFFER;
            self.bulk = if is_needed { BulkReads::Eligible } else { BulkReads::Small };
        } else if self.bulk == BulkReads::Small && self.raw.len() == self.raw.capacity() {
            self.bulk = BulkReads::Eligible;
        }
        Poll::Ready(Ok(read))
    }

    /// Replaces an empty buffer by a bulk buffer, if one is free.
    fn take_bulk(&mut self, buffers: &Buffers) {
        if let Some((buffer, lease)) = buffers.bulk() {
            buffers.give_back(std::mem::replace(&mut self.raw, buffer));
            self.lease = Some(lease);
        }
    }

    /// Gives a bulk buffer back whose bytes were sent.
    fn give_bulk_back(&mut self, buffers: &Buffers) {
        if self.lease.is_some() && self.at == self.raw.len() && self.direct.is_empty() {
            buffers.give_back(std::mem::take(&mut self.raw));
            self.at = 0;
            self.lease = None;
        }
    }

    /// Ends the body with the bytes that were read, after [`PumpFailure::Unannounced`].
    pub(crate) fn end_here(&mut self) {
        self.end(&[]);
    }

    fn source_ended<R: BodySource>(&mut self, source: &mut R) -> Result<(), PumpFailure> {
        if !matches!(self.decoder, Decoder::UntilClose) {
            return Err(PumpFailure::Truncated);
        }
        let trailers = source.take_trailers();
        if self.has_undecoded() || !self.direct.is_empty() {
            // The bytes that were read go first.
            self.ended = Some(Box::new(EndedSource { trailers }));
        } else {
            self.check_converted()?;
            self.end(&trailers);
        }
        Ok(())
    }

    /// Writes the end of the body, with the trailers that may pass.
    fn end(&mut self, trailers: &[u8]) {
        self.decoder = Decoder::Done;
        self.note_end(trailers);
        if self.end_converted(trailers) {
            return;
        }
        let rules = self.trailers.as_deref();
        end_body(self.encoder, rules.map(|rules| (rules, trailers)), &mut self.tail);
        if self.encoder == Encoder::Sink {
            self.tail_at = self.tail.len();
        }
    }

    /// Decodes the bytes read into `out`, `direct` and `tail`.
    fn decode(&mut self) -> Result<(), PumpFailure> {
        let start = self.at;
        let available = self.raw.len() - start;
        if available == 0 {
            return Ok(());
        }
        let mut end = start;
        let mut trailers = None;
        match &mut self.decoder {
            Decoder::Done => return Ok(()),
            Decoder::UntilClose => {
                end = self.raw.len();
                self.at = end;
            }
            Decoder::Length(left) => {
                let take = usize::try_from(*left).unwrap_or(usize::MAX).min(available);
                *left -= take as u64;
                end += take;
                self.at = end;
                if *left == 0 {
                    trailers = Some(Vec::new());
                }
            }
            Decoder::Chunked(decoder) => {
                (end, self.at, trailers) = decode_chunks(decoder, &mut self.raw, start)?;
                self.taken += (self.at - end) as u64 * TURN_FRAMING_COST;
            }
        }
        self.body_bytes += (end - start) as u64;
        if self.body_bytes > self.limit {
            return Err(PumpFailure::TooLarge);
        }
        self.direct = start..end;
        if self.conversion.is_some() {
            self.convert()?;
            if trailers.is_some() {
                self.check_converted()?;
            }
        }
        self.note_decoded();
        self.encode(trailers);
        Ok(())
    }

    /// Writes the framing of `direct`; `trailers` is set when the body ends with it.
    fn encode(&mut self, trailers: Option<Vec<u8>>) {
        if self.encoder == Encoder::Chunked && !self.direct.is_empty() {
            encode::chunk_header(self.direct.len(), &mut self.out);
            self.tail.extend_from_slice(encode::CHUNK_END);
        }
        if let Some(trailers) = trailers {
            self.end(&trailers);
        }
    }
}

/// Ends a body in its framing, with the trailers that the rules permit.
fn end_body(
    encoder: Encoder,
    trailers: Option<(&TrailerRules, &[u8])>,
    tail: &mut SmallVec<[u8; 16]>,
) {
    if encoder == Encoder::Plain {
        return;
    }
    if encoder == Encoder::Chunked {
        tail.extend_from_slice(encode::LAST_CHUNK);
    }
    if let Some((rules, lines)) = trailers {
        rules.append(lines, tail);
    }
    if encoder == Encoder::Chunked {
        tail.extend_from_slice(b"\r\n");
    }
}

/// The result of [`decode_chunks`]: the end of the data, the position at which decoding stopped,
/// and the trailers if the body ended.
type Decoded = (usize, usize, Option<Vec<u8>>);

/// Decodes the buffered chunks, up to a limit on their framing, and moves the data together at
/// `start`.
fn decode_chunks(
    decoder: &mut ChunkedDecoder,
    raw: &mut [u8],
    start: usize,
) -> Result<Decoded, PumpFailure> {
    let mut read_at = start;
    let mut data_end = start;
    loop {
        let rest = raw.get(read_at..).unwrap_or_default();
        let (used, step) = decoder.step(rest).map_err(|_| PumpFailure::Malformed)?;
        match step {
            Step::Data(range) => {
                let length = range.len();
                raw.copy_within(read_at + range.start..read_at + range.end, data_end);
                data_end += length;
                read_at += used;
                if read_at - data_end > DECODE_FRAMING {
                    return Ok((data_end, read_at, None));
                }
            }
            Step::More => return Ok((data_end, read_at + used, None)),
            Step::End => return Ok((data_end, read_at + used, Some(decoder.trailers().to_vec()))),
        }
    }
}
