//! Finds the end of a request's body. It stores no body.

use weir_wire::{ChunkFault, ChunkedDecoder, Framing, Step};

/// The reader of a request's body.
pub(super) enum BodyReader {
    /// Number of bytes that remain.
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
}

/// The bytes of the input that were read.
pub(super) struct ConsumedBytes {
    pub(super) used: usize,
    /// Start of the body's data in the input; it reaches to the end of the bytes used.
    data_start: usize,
}

impl ConsumedBytes {
    pub(super) fn data<'a>(&self, input: &'a [u8]) -> &'a [u8] {
        input.get(self.data_start..self.used).unwrap_or_default()
    }
}

impl BodyReader {
    /// A reader at the start of a body with this framing.
    pub(super) fn of(framing: Framing) -> Self {
        match framing {
            Framing::Length(length) => Self::Length(length),
            Framing::Chunked => Self::Chunked(Box::default()),
            Framing::None | Framing::UntilClose => Self::Length(0),
        }
    }

    /// Takes the bytes of the body from the start of `input`.
    ///
    /// # Errors
    /// The rule that the body breaks.
    pub(super) fn take(&mut self, input: &[u8]) -> Result<ConsumedBytes, &'static str> {
        match self {
            Self::Length(left) => {
                let used = input.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= used as u64;
                Ok(ConsumedBytes { used, data_start: 0 })
            }
            Self::Chunked(decoder) => {
                let (used, step) = decoder.step(input).map_err(ChunkFault::reason)?;
                let data_start = if let Step::Data(range) = step { range.start } else { used };
                Ok(ConsumedBytes { used, data_start })
            }
        }
    }

    pub(super) fn is_at_end(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(decoder) => decoder.is_at_end(),
        }
    }
}
