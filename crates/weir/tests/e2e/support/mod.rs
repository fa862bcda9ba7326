//! What every end-to-end test needs: a directory, processes that end with their test, origins, clients.
//! Nothing here knows how Weir works inside; the answers are read by parsers of their own.

pub(crate) mod browser;
pub(crate) mod client;
pub(crate) mod origin;
pub(crate) mod process;
pub(crate) mod programs;
pub(crate) mod weir;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long anything may take before the test fails. Generous: machines that run tests are busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Asks again and again until there is an answer; fails the test after [`PATIENCE`].
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

/// A directory that goes with its test.
pub(crate) struct Directory(tempfile::TempDir);

impl Directory {
    pub(crate) fn new() -> Self {
        Self(tempfile::Builder::new().prefix("weir-e2e-").tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file and returns where it is.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).unwrap();
        }
        std::fs::write(&path, content).unwrap();
        path
    }

    /// The path of a file in it, as text for a configuration.
    pub(crate) fn text(&self, name: &str) -> String {
        self.path().join(name).display().to_string()
    }
}

/// Bytes that differ from place to place, so that a lost or doubled piece shows.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|position| (position % 251) as u8 ^ (position / 251 % 256) as u8).collect()
}
