//! Lines that wait to be written in one piece. It writes nothing itself.

use std::time::{Duration, Instant};

use weir_config::model::LogBuffer;

/// The lines of one target that wait.
pub(super) struct HeldLines {
    lines: Vec<u8>,
    most: usize,
    flush: Option<Duration>,
    /// The time at which the first of them came.
    since: Option<Instant>,
}

impl HeldLines {
    pub(super) fn new(buffer: LogBuffer) -> Self {
        Self { lines: Vec::new(), most: buffer.bytes, flush: buffer.flush, since: None }
    }

    pub(super) fn has_room(&self, lines: &[u8]) -> bool {
        self.lines.len() + lines.len() <= self.most
    }

    pub(super) fn add(&mut self, lines: &[u8]) {
        self.since.get_or_insert_with(Instant::now);
        self.lines.extend_from_slice(lines);
    }

    /// The time at which they are to be written, if there are any and their wait is bounded.
    pub(super) fn due(&self) -> Option<Instant> {
        self.since?.checked_add(self.flush?)
    }

    /// Takes all lines.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.since = None;
        std::mem::take(&mut self.lines)
    }

    /// Gives the allocation back for further lines.
    pub(super) fn give_back(&mut self, mut lines: Vec<u8>) {
        lines.clear();
        self.lines = lines;
    }
}
