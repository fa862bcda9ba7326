//! Opens files below a directory and nowhere else, and determines the response for each. It writes
//! no response.
//!
//! The directory is looked up again for each request, so that replacing a symbolic link deploys a
//! new site at once, as with nginx. The kernel resolves paths below it: `..` and symbolic links are
//! followed as long as they stay inside.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2};
use rustix::io::Errno;

use crate::answer::{self, Answer, OpenFile};
use crate::body::Patience;
use crate::conditions::Validators;
use crate::path::{BadPath, RelativePath};
use crate::request::FileRequest;
use crate::types::FileTypes;

/// A directory from which files are served.
#[derive(Clone, Debug)]
pub struct Root {
    directory: PathBuf,
    /// The directory below it that is served instead.
    below: Option<Arc<[u8]>>,
    index: Arc<[String]>,
    types: Option<Arc<FileTypes>>,
}

/// The kind of file that a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A FIFO, a socket or a device.
    Other,
}

const FILE: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOCTTY)
    // Opening a FIFO without a writer would block the thread for ever.
    .union(OFlags::NONBLOCK);
const ANY: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Root {
    /// Serves `directory`. `index` lists the file names to try, in order, for a path that ends in
    /// `/`.
    ///
    /// # Errors
    /// The directory does not exist, is not a directory, or may not be searched.
    pub fn open(directory: &Path, index: Vec<String>) -> io::Result<Self> {
        let directory = std::path::absolute(directory)?;
        openat(CWD, &directory, DIRECTORY, Mode::empty())?;
        Ok(Self::new(directory, index))
    }

    /// Works like [`Root::open`] for a directory that need not exist yet: requests get 404 until it
    /// does.
    ///
    /// # Errors
    /// The path is relative and there is no current directory.
    pub fn optional(directory: &Path, index: Vec<String>) -> io::Result<Self> {
        Ok(Self::new(std::path::absolute(directory)?, index))
    }

    /// Works like [`Root::open`] for a process that will make `outer` its root directory before it
    /// serves a request.
    ///
    /// # Errors
    /// As [`Root::open`].
    pub fn open_within(outer: &Path, directory: &Path, index: Vec<String>) -> io::Result<Self> {
        let directory = Path::new("/").join(directory);
        let root = openat(CWD, outer, DIRECTORY, Mode::empty())?;
        openat2(root, &directory, DIRECTORY, Mode::empty(), ResolveFlags::IN_ROOT)?;
        Ok(Self::new(directory, index))
    }

    fn new(directory: PathBuf, index: Vec<String>) -> Self {
        Self { directory, below: None, index: index.into(), types: None }
    }

    /// Serves the directory with this relative path below this one, which need not exist. The
    /// caller makes sure that no segment of it is empty, `.` or `..`. Symbolic links on the way are
    /// followed as long as they stay inside this directory; nothing is outside `/`.
    #[must_use]
    pub fn below(&self, path: &[u8]) -> Self {
        if self.directory == Path::new("/") {
            let directory = self.directory.join(OsStr::from_bytes(path));
            return Self { directory, ..self.clone() };
        }
        Self { below: Some(path.into()), ..self.clone() }
    }

    /// Gives files the types of this table instead of Weir's own.
    #[must_use]
    pub fn with_types(self, types: Option<Arc<FileTypes>>) -> Self {
        Self { types, ..self }
    }

    /// Handles a GET or HEAD, waiting for the disk where necessary. Bodies up to 64 KiB are read at
    /// once.
    ///
    /// # Errors
    /// Local failures only (no file descriptor left, a broken disk), to be answered with 500 and
    /// logged.
    pub fn answer(&self, request: &FileRequest<'_>) -> io::Result<Answer> {
        self.answer_with(request, Patience::MayBlock)
    }

    /// Works like [`answer`](Self::answer), but uses the kernel's caches only.
    ///
    /// # Errors
    /// Also `WouldBlock`: call [`answer`](Self::answer) on a thread that may wait.
    pub fn answer_cached(&self, request: &FileRequest<'_>) -> io::Result<Answer> {
        self.answer_with(request, Patience::CachedOnly)
    }

    /// Looks for what a path names, without opening it, waiting for the disk where necessary.
    /// `None` without such a file; one that may not be looked at or lies outside is none either.
    ///
    /// # Errors
    /// Local failures only.
    pub fn kind(&self, path: &[u8]) -> io::Result<Option<FileKind>> {
        self.kind_with(path, Patience::MayBlock)
    }

    /// Works like [`kind`](Self::kind), but uses the kernel's caches only.
    ///
    /// # Errors
    /// Also `WouldBlock`: call [`kind`](Self::kind) on a thread that may wait.
    pub fn kind_cached(&self, path: &[u8]) -> io::Result<Option<FileKind>> {
        self.kind_with(path, Patience::CachedOnly)
    }

    fn kind_with(&self, path: &[u8], patience: Patience) -> io::Result<Option<FileKind>> {
        let Ok(path) = RelativePath::parse(path) else { return Ok(None) };
        let found = self
            .directory(patience)
            .and_then(|root| fstat(open_confined(root.as_fd(), &path.bytes, ANY, patience)?));
        let kind = match found {
            Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => FileKind::File,
                FileType::Directory => FileKind::Directory,
                _ => FileKind::Other,
            },
            Err(errno) => return refusal(errno).map(|_| None),
        };
        // A slash stands behind names of directories only.
        Ok(Some(kind).filter(|kind| !path.names_directory || *kind == FileKind::Directory))
    }

    fn answer_with(&self, request: &FileRequest<'_>, patience: Patience) -> io::Result<Answer> {
        let path = match RelativePath::parse(request.path) {
            Ok(path) => path,
            Err(BadPath::Malformed) => return Ok(Answer::status(400)),
            Err(BadPath::Impossible) => return Ok(Answer::status(404)),
        };
        let found =
            self.directory(patience).and_then(|root| self.find(root.as_fd(), &path, patience));
        match found {
            Ok(OpenedPath::File { file, stat, name }) => {
                let (Ok(size), modified) = (u64::try_from(stat.st_size), stat.st_mtime) else {
                    return Ok(Answer::status(404));
                };
                let types = self.types.as_deref();
                let validators = Validators::new(modified, size, SystemTime::now());
                answer::for_file(
                    OpenFile { file, size, name, types, validators },
                    request,
                    patience,
                )
            }
            Ok(OpenedPath::DirectoryWithoutSlash) => Ok(answer::redirect(request.target)),
            Ok(OpenedPath::NotServable) => Ok(Answer::status(403)),
            Ok(OpenedPath::Nothing) => Ok(Answer::status(404)),
            Err(errno) => refusal(errno),
        }
    }

    fn directory(&self, patience: Patience) -> Result<OwnedFd, Errno> {
        let root = match patience {
            Patience::MayBlock => openat(CWD, &self.directory, DIRECTORY, Mode::empty()),
            Patience::CachedOnly => {
                openat2(CWD, &self.directory, DIRECTORY, Mode::empty(), ResolveFlags::CACHED)
                    .map_err(as_would_block)
            }
        }?;
        match &self.below {
            Some(below) => open_confined(root.as_fd(), below, DIRECTORY, patience),
            None => Ok(root),
        }
    }

    fn find(
        &self,
        root: BorrowedFd<'_>,
        path: &RelativePath,
        patience: Patience,
    ) -> Result<OpenedPath, Errno> {
        let (file, stat) = open(root, &path.bytes, patience)?;
        match (FileType::from_raw_mode(stat.st_mode), path.names_directory) {
            (FileType::RegularFile, false) => {
                Ok(OpenedPath::File { file, stat, name: path.bytes.clone() })
            }
            (FileType::RegularFile, true) => Ok(OpenedPath::Nothing),
            (FileType::Directory, false) => Ok(OpenedPath::DirectoryWithoutSlash),
            (FileType::Directory, true) => self.find_index(root, path, patience),
            _ => Ok(OpenedPath::NotServable),
        }
    }

    fn find_index(
        &self,
        root: BorrowedFd<'_>,
        path: &RelativePath,
        patience: Patience,
    ) -> Result<OpenedPath, Errno> {
        for index in self.index.iter() {
            let name = path.join(index);
            match open(root, &name, patience) {
                Ok((file, stat))
                    if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile =>
                {
                    return Ok(OpenedPath::File { file, stat, name });
                }
                Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(OpenedPath::NotServable)
    }
}

enum OpenedPath {
    File {
        file: OwnedFd,
        stat: Stat,
        name: Vec<u8>,
    },
    DirectoryWithoutSlash,
    /// A directory without an index file, a FIFO, or a device.
    NotServable,
    Nothing,
}

/// Separates errors of the client and of the operator from local failures.
fn refusal(errno: Errno) -> io::Result<Answer> {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL => Ok(Answer::status(404)),
        // A symbolic link that leaves the root is an error of the operator and is never followed. A
        // socket, or a device without a driver, cannot be opened.
        Errno::ACCESS | Errno::PERM | Errno::XDEV | Errno::LOOP | Errno::NXIO | Errno::NODEV => {
            Ok(Answer::status(403))
        }
        errno => Err(errno.into()),
    }
}

fn open(root: BorrowedFd<'_>, path: &[u8], patience: Patience) -> Result<(OwnedFd, Stat), Errno> {
    let file = open_confined(root, path, FILE, patience)?;
    let stat = fstat(&file)?;
    Ok((file, stat))
}

/// Opens a path below a directory, and nothing outside of it.
fn open_confined(
    root: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    patience: Patience,
) -> Result<OwnedFd, Errno> {
    match open_beneath(root, path, flags, patience) {
        // The kernel has no `openat2`, a sandbox refuses it, or renames elsewhere keep interrupting
        // it.
        Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) if patience == Patience::MayBlock => {
            open_step_by_step(root, path, flags)
        }
        Err(errno) if patience == Patience::CachedOnly => Err(as_would_block(errno)),
        outcome => outcome,
    }
}

/// Without support for cached lookups, the lookup may have to wait.
fn as_would_block(errno: Errno) -> Errno {
    match errno {
        Errno::NOSYS | Errno::PERM | Errno::INVAL => Errno::AGAIN,
        errno => errno,
    }
}

fn open_beneath(
    root: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    patience: Patience,
) -> Result<OwnedFd, Errno> {
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut attempts = 4;
    if patience == Patience::CachedOnly {
        resolve |= ResolveFlags::CACHED;
        attempts = 1;
    }
    // The kernel gives up if a rename happens anywhere while it checks a `..`; this seldom repeats.
    let mut outcome = Err(Errno::AGAIN);
    while attempts > 0 && matches!(outcome, Err(Errno::AGAIN | Errno::INTR)) {
        outcome = openat2(root, path, flags, Mode::empty(), resolve);
        attempts -= 1;
    }
    outcome
}

/// Opens a file without `openat2`: one directory after the other, and no symbolic link at all.
fn open_step_by_step(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut directory: Option<OwnedFd> = None;
    let mut segments = path.split(|byte| *byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        if segment == b".." {
            return Err(Errno::XDEV);
        }
        let at = directory.as_ref().map_or(root, AsFd::as_fd);
        let kind = if segments.peek().is_some() { DIRECTORY } else { flags };
        let opened = rustix::io::retry_on_intr(|| {
            openat(at, segment, kind | OFlags::NOFOLLOW, Mode::empty())
        })?;
        directory = Some(opened);
    }
    directory.ok_or(Errno::NOENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn without_openat2_files_open_and_links_do_not() {
        let place = tempfile::tempdir().unwrap();
        let site = place.path().join("site");
        std::fs::create_dir_all(site.join("a/b")).unwrap();
        std::fs::write(site.join("a/b/file"), "x").unwrap();
        std::fs::write(place.path().join("canary"), "secret").unwrap();
        symlink("../canary", site.join("out")).unwrap();
        symlink("a", site.join("link")).unwrap();
        let root = openat(CWD, &site, DIRECTORY, Mode::empty()).unwrap();
        let check = |path: &str| open_step_by_step(root.as_fd(), path.as_bytes(), FILE).map(|_| ());
        assert_eq!(check("a/b/file"), Ok(()));
        assert_eq!(check("./a/b/file"), Ok(()));
        assert_eq!(check("."), Ok(()));
        assert_eq!(check("out"), Err(Errno::LOOP));
        assert_eq!(check("link/b/file"), Err(Errno::NOTDIR));
        assert_eq!(check("a/../../canary"), Err(Errno::XDEV));
        assert_eq!(check("a/none"), Err(Errno::NOENT));
    }

    #[test]
    fn a_directory_below_is_not_left_by_links() {
        let place = tempfile::tempdir().unwrap();
        let sites = place.path().join("sites");
        for site in ["a", "b", "other"] {
            std::fs::create_dir_all(sites.join(site)).unwrap();
        }
        std::fs::create_dir(sites.join("a/public")).unwrap();
        std::fs::write(sites.join("a/public/file"), "x").unwrap();
        symlink("../a/public", sites.join("b/public")).unwrap();
        symlink("/", sites.join("other/public")).unwrap();
        symlink(place.path(), sites.join("out")).unwrap();
        std::fs::write(place.path().join("file"), "secret").unwrap();
        let root = Root::open(&sites, Vec::new()).unwrap();
        let kind = |below: &str, path: &str| root.below(below.as_bytes()).kind(path.as_bytes());
        assert_eq!(kind("a/public", "/file").unwrap(), Some(FileKind::File));
        assert_eq!(kind("b/public", "/file").unwrap(), Some(FileKind::File));
        assert_eq!(kind("other/public", "/etc/passwd").unwrap(), None);
        assert_eq!(kind("out", "/file").unwrap(), None);
        assert_eq!(kind("none", "/file").unwrap(), None);
        let all = Root::open(Path::new("/"), Vec::new()).unwrap();
        let path = sites.join("a/public");
        let below = path.strip_prefix("/").unwrap().as_os_str().as_bytes();
        assert_eq!(all.below(below).kind(b"/file").unwrap(), Some(FileKind::File));
    }

    #[test]
    fn a_file_that_may_not_be_read_is_one() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("folder")).unwrap();
        std::fs::write(place.path().join("file"), "x").unwrap();
        let fifo = place.path().join("fifo");
        rustix::fs::mkfifoat(CWD, &fifo, Mode::empty()).unwrap();
        symlink("/etc", place.path().join("out")).unwrap();
        let root = Root::open(place.path(), vec!["file".to_owned()]).unwrap();
        for (path, expected) in [
            ("/file", Some(FileKind::File)),
            ("/file/", None),
            ("/folder", Some(FileKind::Directory)),
            ("/folder/", Some(FileKind::Directory)),
            ("/fifo", Some(FileKind::Other)),
            ("/out/passwd", None),
            ("/none", None),
            ("/..", None),
        ] {
            assert_eq!(root.kind(path.as_bytes()).unwrap(), expected, "{path}");
        }
    }
}
