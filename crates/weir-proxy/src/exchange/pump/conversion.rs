//! Converts a body between gRPC-Web and gRPC on its way through a pump.

use smallvec::SmallVec;
use weir_wire::encode;

use crate::exchange::pump::{Encoder, Pump, PumpFailure, end_body};
use crate::http::grpc_web::{NotBase64, TextDecoder, WebForm, write_text, write_trailers};

/// A conversion in progress.
pub(super) struct WebConversion {
    direction: WebDirection,
    /// The memory of the latest piece.
    scratch: Vec<u8>,
    /// The trailers as received, once the body has ended.
    trailers: Vec<u8>,
}

enum WebDirection {
    /// A request in base64, for an endpoint.
    FromText(TextDecoder),
    /// A response for a client of gRPC-Web.
    ToWeb(WebForm),
}

impl WebConversion {
    fn new(direction: WebDirection) -> Self {
        Self { direction, scratch: Vec::new(), trailers: Vec::new() }
    }

    /// The trailers of the source, once the body has ended.
    pub(super) fn trailers(&self) -> &[u8] {
        &self.trailers
    }

    /// The bytes of memory that it holds.
    pub(super) fn held(&self) -> usize {
        self.scratch.capacity() + self.trailers.capacity()
    }
}

impl Pump {
    /// Decodes the body from base64; nothing of it may have been decoded yet.
    pub(crate) fn convert_from_text(&mut self) {
        self.conversion =
            Some(Box::new(WebConversion::new(WebDirection::FromText(TextDecoder::default()))));
    }

    /// Makes the body one of gRPC-Web, in this form, that ends with a frame of its trailers;
    /// nothing of it may have been decoded yet. The encoder is not [`Encoder::Sink`].
    pub(crate) fn convert_to_web(&mut self, form: WebForm) {
        debug_assert!(self.encoder != Encoder::Sink, "the trailers are a part of the body");
        self.conversion = Some(Box::new(WebConversion::new(WebDirection::ToWeb(form))));
    }

    /// Converts the bytes that were just decoded.
    #[cold]
    pub(super) fn convert(&mut self) -> Result<(), PumpFailure> {
        let Some(conversion) = &mut self.conversion else { return Ok(()) };
        let piece = self.raw.get(self.direct.clone()).unwrap_or_default();
        let out = &mut conversion.scratch;
        out.clear();
        match &mut conversion.direction {
            WebDirection::ToWeb(WebForm::Binary) => return Ok(()),
            WebDirection::ToWeb(WebForm::Text) => write_text(piece, out),
            WebDirection::FromText(decoder) => {
                decoder.decode(piece, out).map_err(|NotBase64| PumpFailure::Malformed)?;
            }
        }
        let received = self.direct.len();
        let length = out.len();
        self.raw.reserve_exact(length.saturating_sub(received));
        self.raw.splice(self.direct.clone(), out.drain(..));
        self.at = (self.at + length).saturating_sub(received);
        if let WebDirection::ToWeb(_) = conversion.direction {
            self.body_bytes += length.saturating_sub(received) as u64;
        }
        self.direct.end = self.direct.start + length;
        Ok(())
    }

    /// Checks that a body in base64 has ended with a whole group.
    pub(super) fn check_converted(&self) -> Result<(), PumpFailure> {
        match self.conversion.as_ref().map(|conversion| &conversion.direction) {
            Some(WebDirection::FromText(decoder)) if !decoder.is_complete() => {
                Err(PumpFailure::Malformed)
            }
            _ => Ok(()),
        }
    }

    /// Writes the end of a body that becomes one of gRPC-Web. Returns false for any other body.
    pub(super) fn end_converted(&mut self, trailers: &[u8]) -> bool {
        let Some(conversion) = &mut self.conversion else { return false };
        let WebDirection::ToWeb(form) = conversion.direction else { return false };
        let mut lines = SmallVec::<[u8; 16]>::new();
        if let Some(rules) = &self.trailers {
            rules.append(trailers, &mut lines);
        }
        lines.split_mut(|byte| *byte == b'\n').for_each(lower_name);
        conversion.trailers = trailers.to_vec();
        if !lines.is_empty() {
            let mut frame = Vec::new();
            write_trailers(&lines, form, &mut frame);
            self.body_bytes += frame.len() as u64;
            let mut size = Vec::new();
            if self.encoder == Encoder::Chunked {
                encode::chunk_header(frame.len(), &mut size);
            }
            self.tail.extend_from_slice(&size);
            self.tail.extend_from_slice(&frame);
            if self.encoder == Encoder::Chunked {
                self.tail.extend_from_slice(encode::CHUNK_END);
            }
        }
        end_body(self.encoder, None, &mut self.tail);
        true
    }
}

/// Writes the name of a trailer in lower case, as gRPC-Web has it.
fn lower_name(line: &mut [u8]) {
    let colon = memchr::memchr(b':', line).unwrap_or_default();
    line.iter_mut().take(colon).for_each(u8::make_ascii_lowercase);
}
