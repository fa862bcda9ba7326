//! Passes bytes on that have no framing, those of tunnels above all: each read's bytes go to the
//! sink at once, without the steps that other bodies need.

use std::pin::Pin;
use std::task::{Context, Poll};

use crate::exchange::body_stream::{BodySink, BodySource};
use crate::exchange::pump::{Decoder, Encoder, Pump, PumpFailure, Surplus, Waiting};
use crate::net::buffers::Buffers;
use crate::time::turns::{ByteTurn, end_turn};

impl Pump {
    /// Returns true if the next bytes of the source go to the sink as they are, and no others
    /// before them.
    #[inline]
    pub(super) fn passes(&self) -> bool {
        matches!(self.decoder, Decoder::UntilClose)
            && self.encoder != Encoder::Chunked
            && self.surplus == Surplus::Any
            && self.at == self.raw.len()
            && self.direct.is_empty()
            && self.out.is_empty()
            && self.ended.is_none()
            && self.throttle.is_none()
            && self.replay.is_none()
            && self.conversion.is_none()
    }

    /// Passes bytes on until neither side can continue. Returns `None` when the steps of other
    /// bodies have to go on: the source has ended, or the sink did not take all bytes.
    #[inline]
    pub(super) fn poll_pass<R, W>(
        &mut self,
        context: &mut Context<'_>,
        source: &mut R,
        sink: &mut W,
        buffers: &Buffers,
        turn: &mut ByteTurn,
    ) -> Option<Poll<Result<(), PumpFailure>>>
    where
        R: BodySource,
        W: BodySink,
    {
        loop {
            self.raw.clear();
            self.at = 0;
            self.waiting = Waiting::Read;
            let read = match self.poll_read(context, source, buffers, usize::MAX) {
                Poll::Ready(Ok(0)) => {
                    return self
                        .source_ended(source)
                        .err()
                        .map(|failure| Poll::Ready(Err(failure)));
                }
                Poll::Ready(Ok(read)) => read,
                Poll::Ready(Err(failure)) => return Some(Poll::Ready(Err(failure))),
                Poll::Pending => return Some(flush(context, sink)),
            };
            self.at = read;
            self.body_bytes += read as u64;
            if self.body_bytes > self.limit {
                return Some(Poll::Ready(Err(PumpFailure::TooLarge)));
            }
            self.waiting = Waiting::Write;
            let sent = match Pin::new(&mut *sink).poll_write(context, &self.raw) {
                Poll::Ready(Ok(sent)) => sent.min(read),
                Poll::Ready(Err(_)) => return Some(Poll::Ready(Err(PumpFailure::Write))),
                Poll::Pending => 0,
            };
            self.written += sent as u64;
            if sent < read {
                self.direct = sent..read;
                return None;
            }
            if turn.is_over_after(read + sent) {
                self.waiting = Waiting::Turn;
                self.give_bulk_back(buffers);
                end_turn(context);
                return Some(Poll::Pending);
            }
        }
    }
}

/// Sends what the sink has buffered, before a wait for the source.
#[inline]
pub(super) fn flush<W: BodySink>(
    context: &mut Context<'_>,
    sink: &mut W,
) -> Poll<Result<(), PumpFailure>> {
    match Pin::new(sink).poll_flush(context) {
        Poll::Ready(Err(_)) => Poll::Ready(Err(PumpFailure::Write)),
        Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
    }
}
