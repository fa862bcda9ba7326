//! The pieces of a streamed body. Their timing is in `connection.rs`.

use weir_wire::encode;

use super::answer::{BLOCK_BYTES, block};
use super::plan::BodyPieces;

/// A streamed body to be sent.
pub(super) struct StreamedBody<'a> {
    pub(super) pieces: &'a BodyPieces,
    /// Number of pieces to send.
    pub(super) count: u64,
    pub(super) is_events: bool,
    pub(super) is_chunked: bool,
    /// Set if the body is terminated after the last piece.
    pub(super) is_whole: bool,
}

impl StreamedBody<'_> {
    pub(super) fn write_piece(&self, out: &mut Vec<u8>, number: u64) {
        if self.is_events {
            let event = format!("id: {number}\ndata: event {number}\n\n");
            self.write_chunk(out, event.len(), |out| out.extend_from_slice(event.as_bytes()));
            return;
        }
        let length = self.pieces.size as usize;
        self.write_chunk(out, length, |out| {
            for at in (0..length).step_by(BLOCK_BYTES) {
                out.extend_from_slice(block((length - at).min(BLOCK_BYTES)));
            }
        });
    }

    fn write_chunk(&self, out: &mut Vec<u8>, length: usize, write: impl FnOnce(&mut Vec<u8>)) {
        if self.is_chunked {
            encode::chunk_header(length, out);
        }
        write(out);
        if self.is_chunked {
            out.extend_from_slice(encode::CHUNK_END);
        }
    }

    pub(super) fn write_end(&self, out: &mut Vec<u8>) {
        if self.is_chunked && self.is_whole {
            out.extend_from_slice(encode::LAST_CHUNK);
            out.extend_from_slice(encode::HEAD_END);
        }
    }
}
