//! The files that a configuration was made of, as they were read. Changes without a reload
//! (resolved addresses, runtime changes) use these copies: they concern other things, and a process
//! that gave up root's rights may be unable to read a key again.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use zeroize::Zeroizing;

/// File contents by path. Keys are among them, so memory is overwritten before it is freed.
#[derive(Default)]
pub(crate) struct FilesRead(Mutex<HashMap<PathBuf, Zeroizing<Vec<u8>>>>);

impl std::fmt::Debug for FilesRead {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("FilesRead").field(&self.paths()).finish()
    }
}

impl FilesRead {
    /// Reads a file, unless `known` has its contents, and stores it.
    ///
    /// # Errors
    /// As [`std::fs::read`].
    pub(crate) fn read(&self, path: &Path, known: Option<&Self>) -> io::Result<Vec<u8>> {
        let bytes = known.and_then(|known| known.files().get(path).map(|bytes| bytes.to_vec()));
        let bytes = bytes.map_or_else(|| std::fs::read(path), Ok)?;
        self.files().insert(path.to_owned(), bytes.clone().into());
        Ok(bytes)
    }

    /// The paths of the files, sorted.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = self.files().keys().cloned().collect();
        paths.sort_unstable();
        paths
    }

    fn files(&self) -> MutexGuard<'_, HashMap<PathBuf, Zeroizing<Vec<u8>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "first").unwrap();
        let known = FilesRead::default();
        known.read(&path, None).unwrap();
        std::fs::write(&path, "second").unwrap();
        let next = FilesRead::default();
        assert_eq!(next.read(&path, Some(&known)).unwrap(), b"first");
        std::fs::remove_file(&path).unwrap();
        // A set read from known files serves as the known files of the next one.
        assert_eq!(FilesRead::default().read(&path, Some(&next)).unwrap(), b"first");
        assert!(FilesRead::default().read(&path, None).is_err());
        assert_eq!(next.paths(), [path]);
    }
}
