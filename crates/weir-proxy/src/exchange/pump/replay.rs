//! The beginning of a request's body, kept so that it can be sent again to another endpoint while
//! the rest still arrives.

use smallvec::SmallVec;
use weir_wire::encode;

use crate::exchange::pump::{Decoder, Encoder, Pump, Waiting, end_body};
use crate::limits::REPLAYED_BODY;

/// The decoded body so far.
#[derive(Default)]
pub(super) struct Replay {
    body: Vec<u8>,
    /// The trailers, once the body has ended.
    end: Option<Vec<u8>>,
    /// Set if the body is to be sent again with the next head.
    is_due: bool,
}

impl Pump {
    /// Keeps the body that it decodes from now on, unless it becomes long.
    pub(crate) fn keep_for_replay(&mut self) {
        self.replay.get_or_insert_default();
    }

    /// Keeps nothing any more, because the request is not sent again.
    pub(crate) fn forget_replay(&mut self) {
        self.replay = None;
    }

    /// Returns true if the body can be sent from its beginning: nothing of it was read, or all that
    /// was read is kept.
    pub(crate) fn can_begin_again(&self) -> bool {
        !self.has_read || self.replay.is_some()
    }

    /// The bytes of memory of what it keeps.
    pub(super) fn kept_bytes(&self) -> usize {
        self.replay.as_ref().map_or(0, |replay| replay.body.capacity())
    }

    /// Keeps the bytes that were just decoded.
    pub(super) fn note_decoded(&mut self) {
        let Some(replay) = &mut self.replay else { return };
        let decoded = self.raw.get(self.direct.clone()).unwrap_or_default();
        if replay.body.len() + decoded.len() > REPLAYED_BODY {
            self.replay = None;
        } else {
            replay.body.extend_from_slice(decoded);
        }
    }

    /// Keeps the end of the body.
    pub(super) fn note_end(&mut self, trailers: &[u8]) {
        if let Some(replay) = &mut self.replay {
            replay.end = Some(trailers.to_vec());
        }
    }

    /// Prepares to send the kept body after the next head. Returns false if it keeps none.
    pub(crate) fn begin_again(&mut self) -> bool {
        let Some(replay) = &mut self.replay else { return false };
        replay.is_due = true;
        if self.finished {
            // The bytes behind the body are the client's next request: they were put back.
            self.raw.clear();
            self.at = 0;
        }
        self.out.clear();
        self.tail.clear();
        (self.out_at, self.tail_at, self.direct) = (0, 0, 0..0);
        (self.written, self.finished, self.waiting) = (0, false, Waiting::Write);
        true
    }

    /// Writes the kept body behind the head, in the framing of this attempt.
    pub(super) fn write_replay(&mut self, out: &mut Vec<u8>) {
        let (encoder, rules) = (self.encoder, self.trailers.as_deref());
        let Some(replay) = self.replay.as_mut().filter(|replay| replay.is_due) else { return };
        replay.is_due = false;
        if !replay.body.is_empty() {
            if encoder == Encoder::Chunked {
                encode::chunk_header(replay.body.len(), out);
            }
            out.extend_from_slice(&replay.body);
            if encoder == Encoder::Chunked {
                out.extend_from_slice(encode::CHUNK_END);
            }
        }
        if let (Decoder::Done, Some(trailers)) = (&self.decoder, &replay.end) {
            let mut tail = SmallVec::new();
            end_body(encoder, rules.map(|rules| (rules, trailers.as_slice())), &mut tail);
            self.tail_at = if encoder == Encoder::Sink { tail.len() } else { 0 };
            self.tail = tail;
        }
    }
}
