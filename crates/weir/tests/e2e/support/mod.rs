//! Support of the end-to-end tests: a directory, processes that end with their test, origins,
//! clients. Nothing here knows Weir's internals, and responses are read by independent parsers.

pub(crate) mod browser;
pub(crate) mod client;
pub(crate) mod needs;
pub(crate) mod origin;
pub(crate) mod process;
pub(crate) mod programs;
pub(crate) mod weir;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The longest wait before a test fails. It is generous because test machines are busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Calls `ask` repeatedly until it returns a value; fails the test after [`PATIENCE`].
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A directory that is removed with its test.
pub(crate) struct Directory(tempfile::TempDir);

impl Directory {
    pub(crate) fn new() -> Self {
        Self(tempfile::Builder::new().prefix("weir-e2e-").tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file and returns its path.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).unwrap();
        }
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Returns the path of a file in it, as text for a configuration.
    pub(crate) fn text(&self, name: &str) -> String {
        self.path().join(name).display().to_string()
    }
}

/// Returns bytes that differ from place to place, so that a lost or repeated piece is detected.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|position| (position % 251) as u8 ^ (position / 251 % 256) as u8).collect()
}
