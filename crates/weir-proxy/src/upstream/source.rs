//! The source of a part of a snapshot: its model, and the contents of the files that it names. A
//! part whose source is unchanged is kept over a reload.

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

/// A model with the files that were read for it.
#[derive(Debug)]
pub(crate) struct FilesSource<M> {
    model: M,
    files: Vec<Seen>,
}

/// A file or directory in the state in which it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    path: PathBuf,
    what: SourceMark,
}

/// The property by which a change is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SourceMark {
    /// A hash of the contents. It needs no protection against deliberate collisions: the author of
    /// the file decides its contents anyway.
    Contents(u64),
    /// Device and inode, which identify a directory.
    Directory(u64, u64),
}

impl<M: PartialEq> FilesSource<M> {
    pub(crate) fn new(model: M, files: Vec<Seen>) -> Self {
        Self { model, files }
    }

    /// Returns true if a file was read or a directory opened for it.
    pub(crate) fn reads_files(&self) -> bool {
        !self.files.is_empty()
    }

    pub(crate) fn model(&self) -> &M {
        &self.model
    }

    /// Returns true if the model equals this one and no file has changed.
    pub(crate) fn is_still(&self, model: &M, read: ReadFile<'_>) -> bool {
        let unchanged = |seen: &Seen| match seen.what {
            SourceMark::Contents(hash) => {
                read(&seen.path).is_ok_and(|bytes| hash_of(&Zeroizing::new(bytes)) == hash)
            }
            SourceMark::Directory(..) => directory(&seen.path).as_ref() == Some(seen),
        };
        self.model == *model && self.files.iter().all(unchanged)
    }
}

/// Reads files and remembers them.
pub(crate) struct FileReader<'a> {
    read: ReadFile<'a>,
    seen: RefCell<Vec<Seen>>,
}

impl<'a> FileReader<'a> {
    pub(crate) fn new(read: ReadFile<'a>) -> Self {
        Self { read, seen: RefCell::default() }
    }

    /// The function that reads without remembering.
    pub(crate) fn plain(&self) -> ReadFile<'a> {
        self.read
    }

    pub(crate) fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let bytes = (self.read)(path)?;
        let what = SourceMark::Contents(hash_of(&bytes));
        self.seen.borrow_mut().push(Seen { path: path.to_owned(), what });
        Ok(bytes)
    }

    /// Remembers a directory that was opened: `path` is its name in the configuration, `now` its
    /// path until the root directory changes.
    pub(crate) fn note_directory(&self, path: &Path, now: &Path) {
        let seen = directory(now).map(|seen| Seen { path: path.to_owned(), ..seen });
        self.seen.borrow_mut().extend(seen);
    }

    /// Returns the files that were read since the last call.
    pub(crate) fn take(&self) -> Vec<Seen> {
        self.seen.take()
    }
}

fn directory(path: &Path) -> Option<Seen> {
    let metadata = std::fs::metadata(path).ok()?;
    let what = SourceMark::Directory(metadata.dev(), metadata.ino());
    Some(Seen { path: path.to_owned(), what })
}

fn hash_of(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// A function that reads a file that the configuration names.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<u8>>;
