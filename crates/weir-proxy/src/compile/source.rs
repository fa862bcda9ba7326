//! What a part of a snapshot was made of: its model, and what the files it names were then. A part whose source is still the same is
//! kept over a reload.

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::ReadFile;

/// A model with the files that were read for it.
#[derive(Debug)]
pub(crate) struct Source<M> {
    model: M,
    files: Vec<Seen>,
}

/// A file or directory as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    path: PathBuf,
    what: What,
}

/// How it is known again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// A hash of its contents. It guards against nobody: whoever writes the file decides what is in it.
    Contents(u64),
    /// Device and inode, as a directory is known.
    Directory(u64, u64),
}

impl<M: PartialEq> Source<M> {
    pub(crate) fn new(model: M, files: Vec<Seen>) -> Self {
        Self { model, files }
    }

    /// Whether any file was read for it.
    pub(crate) fn reads_files(&self) -> bool {
        !self.files.is_empty()
    }

    pub(crate) fn model(&self) -> &M {
        &self.model
    }

    /// Whether the model is this one and all files are as they were.
    pub(crate) fn is_still(&self, model: &M, read: ReadFile<'_>) -> bool {
        let unchanged = |seen: &Seen| match seen.what {
            What::Contents(hash) => {
                read(&seen.path).is_ok_and(|bytes| hash_of(&Zeroizing::new(bytes)) == hash)
            }
            What::Directory(..) => directory(&seen.path).as_ref() == Some(seen),
        };
        self.model == *model && self.files.iter().all(unchanged)
    }
}

/// Reads files and remembers which.
pub(crate) struct Reader<'a> {
    read: ReadFile<'a>,
    seen: RefCell<Vec<Seen>>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(read: ReadFile<'a>) -> Self {
        Self { read, seen: RefCell::default() }
    }

    /// Reads without remembering it.
    pub(crate) fn plain(&self) -> ReadFile<'a> {
        self.read
    }

    pub(crate) fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let bytes = (self.read)(path)?;
        let what = What::Contents(hash_of(&bytes));
        self.seen.borrow_mut().push(Seen { path: path.to_owned(), what });
        Ok(bytes)
    }

    /// Remembers a directory that was opened: `path` is its name in the configuration, `now` where it is found until the root directory is
    /// another.
    pub(crate) fn note_directory(&self, path: &Path, now: &Path) {
        let seen = directory(now).map(|seen| Seen { path: path.to_owned(), ..seen });
        self.seen.borrow_mut().extend(seen);
    }

    /// What was read since the last call.
    pub(crate) fn take(&self) -> Vec<Seen> {
        self.seen.take()
    }
}

fn directory(path: &Path) -> Option<Seen> {
    let metadata = std::fs::metadata(path).ok()?;
    let what = What::Directory(metadata.dev(), metadata.ino());
    Some(Seen { path: path.to_owned(), what })
}

fn hash_of(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}
