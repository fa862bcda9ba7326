//! The watchdog's settings and counts, and its channels to the operator. It only holds state and
//! watches nothing.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Settings and counts of the watchdog.
#[derive(Debug)]
pub struct Incidents {
    /// The time after which a worker that does not answer is replaced, ms; 0 means never.
    patience_ms: AtomicU64,
    /// The number of times that a worker did not answer for a second.
    pub hangs: AtomicU64,
    /// The number of workers that were replaced because they hung.
    pub replaced: AtomicU64,
    /// The number of times that a worker ended by a panic.
    pub panics: AtomicU64,
    /// The number of client connections that ended with a worker.
    pub lost_connections: AtomicU64,
    /// The number of exchanges that ended with a worker.
    pub lost_exchanges: AtomicU64,
    speaker: OnceLock<fn(&str)>,
    last_speaker: OnceLock<fn(&str)>,
}

impl Default for Incidents {
    fn default() -> Self {
        Self {
            patience_ms: AtomicU64::new(0),
            hangs: AtomicU64::new(0),
            replaced: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            lost_connections: AtomicU64::new(0),
            lost_exchanges: AtomicU64::new(0),
            speaker: OnceLock::new(),
            last_speaker: OnceLock::new(),
        }
    }
}

impl Incidents {
    /// Sets the time after which a worker that does not answer is replaced; `None` means never.
    pub fn set_patience(&self, patience: Option<Duration>) {
        let patience = patience.map_or(0, |patience| patience.as_millis().max(1) as u64);
        self.patience_ms.store(patience, Ordering::Relaxed);
    }

    pub(crate) fn patience(&self) -> Option<Duration> {
        let patience = self.patience_ms.load(Ordering::Relaxed);
        (patience > 0).then(|| Duration::from_millis(patience))
    }

    /// Sets the function that reports sentences to the operator. Only the first call has an effect.
    pub fn set_speaker(&self, say: fn(&str)) {
        let _ = self.speaker.set(say);
    }

    pub(crate) fn say(&self, sentence: &str) {
        if let Some(say) = self.speaker.get() {
            say(sentence);
        }
    }

    /// Sets the function that reports the last sentence before the process ends itself; it returns
    /// when the sentence is written, or after a bounded wait. Only the first call has an effect.
    pub fn set_last_speaker(&self, say: fn(&str)) {
        let _ = self.last_speaker.set(say);
    }

    pub(crate) fn say_and_abort(&self, sentence: &str) -> ! {
        match self.last_speaker.get() {
            Some(say) => say(sentence),
            None => self.say(sentence),
        }
        std::process::abort()
    }

    pub(crate) fn note_lost(&self, connections: usize, exchanges: usize) {
        self.lost_connections.fetch_add(connections as u64, Ordering::Relaxed);
        self.lost_exchanges.fetch_add(exchanges as u64, Ordering::Relaxed);
    }
}
