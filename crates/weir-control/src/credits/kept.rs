//! The file that keeps the account of credits across restarts and upgrades of Weir. It is based on
//! the processor time used since the machine started, which the kernel counts, so nothing is lost
//! between two processes; after a restart of the machine it is not used.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use weir_config::model::Severity;

use super::books::{CreditBucket, MINUTE_US, Trust};
use crate::files::atomic_write::{Outlasts, replace};
use crate::logs::program_log;
use crate::process::machine::Used;

/// The state of the books at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct KeptBooks {
    /// The kernel's identifier of this start of the machine.
    boot: String,
    /// The time since the start, µs.
    uptime_us: u64,
    /// The processor time that all programs had used on all cores by then, µs.
    busy_us: u64,
    balance: f64,
    trust: KeptTrust,
}

/// [`Trust`] as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KeptTrust {
    Estimated,
    Known,
    Refuted,
}

impl KeptBooks {
    pub(super) fn new(balance: f64, trust: Trust, used: Used) -> Self {
        let trust = match trust {
            Trust::Estimated => KeptTrust::Estimated,
            Trust::Known => KeptTrust::Known,
            Trust::Refuted => KeptTrust::Refuted,
        };
        let Used { uptime_us, busy_us, .. } = used;
        Self { boot: boot().unwrap_or_default(), uptime_us, busy_us, balance, trust }
    }

    /// The balance now, with the credits earned and used since.
    pub(super) fn now(&self, bucket: CreditBucket, used: Used) -> (f64, Trust) {
        let minutes = used.uptime_us.saturating_sub(self.uptime_us) as f64 / MINUTE_US;
        let spent = used.busy_us.saturating_sub(self.busy_us) as f64 / MINUTE_US;
        let balance = self.balance + minutes * bucket.earned_cores - spent;
        let trust = match self.trust {
            KeptTrust::Known => Trust::Known,
            KeptTrust::Estimated => Trust::Estimated,
            KeptTrust::Refuted => Trust::Refuted,
        };
        (balance.clamp(0.0, bucket.max), trust)
    }
}

/// The stored books, if they are of this start of the machine.
pub(super) fn read(file: &Path) -> Option<KeptBooks> {
    let kept: KeptBooks = serde_json::from_str(&fs::read_to_string(file).ok()?).ok()?;
    let sound = kept.balance.is_finite() && boot().is_some_and(|boot| boot == kept.boot);
    sound.then_some(kept)
}

/// Writes the file, one write at a time, and reports only the first of a series of failures.
#[derive(Clone, Debug, Default)]
pub(super) struct CreditsFile(Arc<FileState>);

#[derive(Debug, Default)]
struct FileState {
    is_writing: AtomicBool,
    failed: AtomicBool,
}

impl CreditsFile {
    /// Saves the books on a thread that may block. While a write is in progress, further ones are
    /// skipped.
    pub(super) fn write(&self, file: PathBuf, books: KeptBooks) {
        if self.0.is_writing.swap(true, Ordering::AcqRel) {
            return;
        }
        let own = self.clone();
        tokio::task::spawn_blocking(move || {
            if let Err(why) = own.write_now(&file, &books) {
                program_log::say(Severity::Warning, &format!("warning: {why}"));
            }
            own.0.is_writing.store(false, Ordering::Release);
        });
    }

    /// Writes the file without flushing it: after a crash of the machine the account would be
    /// useless anyway.
    ///
    /// # Errors
    /// One sentence for the first failure of a series.
    fn write_now(&self, file: &Path, books: &KeptBooks) -> Result<(), String> {
        let result = put(file, books);
        let before = self.0.failed.swap(result.is_err(), Ordering::Relaxed);
        match result {
            Err(error) if !before => Err(format!(
                "the account of cpu credits cannot be written to {}: {error}",
                file.display()
            )),
            _ => Ok(()),
        }
    }
}

fn put(file: &Path, books: &KeptBooks) -> io::Result<()> {
    let text = serde_json::to_string(books)? + "\n";
    replace(file, &text, 0o666, Outlasts::Process).map(drop)
}

/// The kernel's identifier of this start of the machine.
fn boot() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUCKET: CreditBucket = CreditBucket { earned_cores: 0.4, max: 576.0, cores: 2 };
    const MINUTE: u64 = 60_000_000;

    fn used(minutes: u64, core_minutes: u64) -> Used {
        let (uptime_us, busy_us) = (minutes * MINUTE, core_minutes * MINUTE);
        Used { busy_us, steal_us: 0, cores: 2, uptime_us }
    }

    #[test]
    fn what_was_earned_and_used_between_two_processes_counts() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("credits.json");
        assert_eq!(read(&file), None);
        let books = KeptBooks::new(50.0, Trust::Known, used(1_000, 300));
        CreditsFile::default().write_now(&file, &books).unwrap();
        assert_eq!(read(&file), Some(books.clone()));
        let (balance, trust) = books.now(BUCKET, used(1_010, 310));
        assert!((balance - 44.0).abs() < 1e-9 && trust == Trust::Known, "{balance}");
        let full = books.now(BUCKET, used(9_000, 300)).0;
        let none = books.now(BUCKET, used(1_001, 400)).0;
        assert!((full - 576.0).abs() < 1e-9 && none.abs() < 1e-9, "{full}, {none}");
    }

    #[test]
    fn books_of_another_start_of_the_machine_and_nonsense_mean_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("credits.json");
        let mut books = KeptBooks::new(50.0, Trust::Known, used(1, 1));
        "another".clone_into(&mut books.boot);
        CreditsFile::default().write_now(&file, &books).unwrap();
        assert_eq!(read(&file), None);
        fs::write(&file, "{\"balance\": 7").unwrap();
        assert_eq!(read(&file), None);
    }

    #[test]
    fn a_place_that_cannot_be_written_is_told_once() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("missing/credits.json");
        let books = KeptBooks::new(50.0, Trust::Estimated, used(1, 1));
        let kept = CreditsFile::default();
        assert!(kept.write_now(&file, &books).unwrap_err().contains("missing/credits.json"));
        assert_eq!(kept.write_now(&file, &books), Ok(()));
        fs::create_dir(directory.path().join("missing")).unwrap();
        assert_eq!(kept.write_now(&file, &books), Ok(()));
        assert!(file.exists());
    }
}
