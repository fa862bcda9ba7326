//! Opens a log file for appending such that only root and this process's own user decide which file
//! that is. It writes nothing, and it does not replace the kernel's permission check: it narrows
//! what the path may lead to.
//!
//! The path is walked one component at a time (path_resolution(7)). A symbolic link is followed
//! only where no other user can have created it, and a file that another user can have created must
//! be a regular one, with one name and an expected owner.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, fstat, fstatfs, open, openat, readlinkat,
};
use rustix::io::Errno;

/// The largest number of symbolic links followed in one path, the kernel's `MAXSYMLINKS`.
const MOST_LINKS: usize = 40;

/// Opens a file for appending, without waiting for the reader of a pipe, and creates it with mode
/// 0640 if it is missing. `user` is the user that this process is about to become; its files are
/// trusted like the process's own.
///
/// # Errors
/// The kernel's error, or a sentence that says what may not be followed or written.
pub(crate) fn append(path: &Path, user: Option<u32>) -> io::Result<File> {
    let place = Walk::to(path, user)?;
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let flags = flags | OFlags::NOCTTY | OFlags::CREATE;
    let flags = if place.is_followed { flags } else { flags | OFlags::NOFOLLOW };
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP;
    let file = openat(&place.directory, &place.name, flags, mode)?;
    // Another file may have been put under the name since it was checked.
    place.standing.permits(&fstat(&file)?, user).map_err(|why| refused(&why))?;
    Ok(File::from(file))
}

/// Checks what [`append`] would open, and opens it only if it exists and is not a pipe.
///
/// # Returns
/// The kind of file, or `None` if it does not exist.
///
/// # Errors
/// As for [`append`].
pub(crate) fn look(path: &Path, user: Option<u32>) -> io::Result<Option<FileType>> {
    let place = Walk::to(path, user)?;
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NOCTTY;
    match place.kind {
        None | Some(FileType::Fifo) => return Ok(place.kind),
        Some(FileType::Symlink) => {
            // A descriptor of this process below `/proc`. Opening it for writing may block.
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let file = openat(&place.directory, &place.name, flags, Mode::empty())?;
            return Ok(Some(FileType::from_raw_mode(fstat(&file)?.st_mode)));
        }
        Some(_) => {}
    }
    openat(&place.directory, &place.name, flags | OFlags::NOFOLLOW, Mode::empty())?;
    Ok(place.kind)
}

fn refused(why: &impl fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why.to_string())
}

/// The users that may change a directory's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DirectoryStanding {
    /// Root and this process's user.
    Ours,
    /// All users may add entries and remove only their own, as in `/tmp`.
    Sticky,
    /// Other users, among them the directory's owner.
    Others { owner: u32 },
}

impl DirectoryStanding {
    fn of(directory: &Stat) -> Self {
        let mode = directory.st_mode;
        let group_is_ours = directory.st_gid == 0 || directory.st_gid == own_group();
        let is_shared = mode & 0o002 != 0 || (mode & 0o020 != 0 && !group_is_ours);
        match (is_ours(directory.st_uid), is_shared) {
            (true, false) => Self::Ours,
            (true, true) if mode & 0o1000 != 0 => Self::Sticky,
            _ => Self::Others { owner: directory.st_uid },
        }
    }

    /// The standing of a directory that is inside this one.
    fn below(self, directory: &Stat) -> Self {
        match self {
            Self::Ours => Self::of(directory),
            Self::Sticky if is_ours(directory.st_uid) => Self::of(directory),
            // A user that may change the outer directory can replace the inner one.
            Self::Sticky | Self::Others { .. } => Self::Others { owner: directory.st_uid },
        }
    }

    /// Returns true if only root or this process's user can have created the symbolic link.
    fn trusts_link(self, link: &Stat) -> bool {
        match self {
            Self::Ours => true,
            Self::Sticky => is_ours(link.st_uid) && link.st_nlink == 1,
            Self::Others { .. } => false,
        }
    }

    /// # Errors
    /// A clause that says why the file may not be written.
    fn permits(self, file: &Stat, user: Option<u32>) -> Result<(), String> {
        let owner = match self {
            Self::Ours => return Ok(()),
            Self::Sticky => None,
            Self::Others { owner } => Some(owner),
        };
        let kind = FileType::from_raw_mode(file.st_mode);
        if !matches!(kind, FileType::RegularFile | FileType::Fifo) {
            return Err(
                "it is neither a file nor a pipe, in a directory that other users may change"
                    .to_owned(),
            );
        }
        if file.st_nlink > 1 {
            return Err("it has a second name, in a directory that other users may change; \
                        remove it, or give the directory to root"
                .to_owned());
        }
        if is_ours(file.st_uid) || Some(file.st_uid) == user || Some(file.st_uid) == owner {
            return Ok(());
        }
        let uid = file.st_uid;
        Err(format!(
            "it belongs to uid {uid}, in a directory that other users may change; \
             remove it, or give it to the user that Weir runs as"
        ))
    }
}

fn is_ours(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

fn own_group() -> u32 {
    rustix::process::getegid().as_raw()
}

/// The directory that a path ends in, with the file's name in it.
struct Walk {
    directory: OwnedFd,
    name: OsString,
    standing: DirectoryStanding,
    /// `None` if the name does not exist.
    kind: Option<FileType>,
    /// Set if the kernel is to follow the name: a link to an open file, below `/proc`.
    is_followed: bool,
}

impl Walk {
    fn to(path: &Path, user: Option<u32>) -> io::Result<Self> {
        let start = if path.is_absolute() { "/" } else { "." };
        let mut directory = open(start, searched(), Mode::empty())?;
        let mut standing = standing_of_start(path, &directory)?;
        let mut rest: Vec<OsString> = Vec::new();
        push(&mut rest, path);
        let mut links = 0;
        while let Some(step) = rest.pop() {
            if step == ".." {
                directory = openat(&directory, "..", searched(), Mode::empty())?;
                standing = standing.below(&fstat(&directory)?);
                continue;
            }
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let found = match openat(&directory, &step, flags, Mode::empty()) {
                Err(Errno::NOENT) if rest.is_empty() => None,
                other => Some(other?),
            };
            let Some(found) = found else {
                let is_followed = false;
                return Ok(Self { directory, name: step, standing, kind: None, is_followed });
            };
            let stat = fstat(&found)?;
            let kind = FileType::from_raw_mode(stat.st_mode);
            if kind == FileType::Symlink {
                if !standing.trusts_link(&stat) {
                    return Err(refused(&Untrusted { link: &step, standing }));
                }
                if is_proc(&directory)? && rest.is_empty() {
                    let (kind, is_followed) = (Some(kind), true);
                    return Ok(Self { directory, name: step, standing, kind, is_followed });
                }
                links += 1;
                if links > MOST_LINKS {
                    return Err(Errno::LOOP.into());
                }
                let target = link_target(&directory, &step)?;
                if target.is_absolute() {
                    directory = open("/", searched(), Mode::empty())?;
                    standing = DirectoryStanding::Ours;
                }
                push(&mut rest, &target);
                continue;
            }
            if rest.is_empty() {
                standing.permits(&stat, user).map_err(|why| refused(&why))?;
                let is_followed = false;
                return Ok(Self { directory, name: step, standing, kind: Some(kind), is_followed });
            }
            if kind != FileType::Directory {
                return Err(Errno::NOTDIR.into());
            }
            standing = standing.below(&stat);
            directory = found;
        }
        Err(Errno::ISDIR.into())
    }
}

/// An absolute path starts at the root directory, which counts as root's even where a user
/// namespace shows another owner.
fn standing_of_start(path: &Path, directory: &OwnedFd) -> io::Result<DirectoryStanding> {
    Ok(if path.is_absolute() {
        DirectoryStanding::Ours
    } else {
        DirectoryStanding::of(&fstat(directory)?)
    })
}

fn searched() -> OFlags {
    OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC
}

/// Adds the components of a path, so that its first component is the last element.
fn push(rest: &mut Vec<OsString>, path: &Path) {
    let steps = path.components().rev().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    rest.extend(steps);
}

fn link_target(directory: &OwnedFd, name: &OsStr) -> io::Result<PathBuf> {
    let target = readlinkat(directory, name, Vec::new())?;
    Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
}

fn is_proc(directory: &OwnedFd) -> io::Result<bool> {
    Ok(fstatfs(directory)?.f_type == PROC_SUPER_MAGIC)
}

/// A link that is not followed, shown as the reason.
struct Untrusted<'a> {
    link: &'a OsStr,
    standing: DirectoryStanding,
}

impl fmt::Display for Untrusted<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let link = self.link.display();
        write!(formatter, "`{link}` is a symbolic link in a directory that ")?;
        match self.standing {
            DirectoryStanding::Others { owner } if !is_ours(owner) => {
                write!(formatter, "uid {owner}")?;
            }
            _ => formatter.write_str("other users")?,
        }
        formatter.write_str(
            " may change, and is not followed; name the file itself, or give the directory to root",
        )
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    /// A directory of root's; `None` if the test does not run as root.
    fn folder() -> Option<tempfile::TempDir> {
        let root = crate::files::runs_as_root("only root can make directories of other users");
        root.then(|| tempfile::tempdir().unwrap())
    }

    fn directory(path: &Path, owner: u32, mode: u32) {
        fs::create_dir(path).unwrap();
        chown(path, Some(owner), Some(owner)).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn write(path: &Path) -> io::Result<()> {
        use std::io::Write as _;
        append(path, Some(77))?.write_all(b"line\n")
    }

    #[test]
    fn a_link_is_followed_only_where_no_other_user_can_have_put_it() {
        let Some(folder) = folder() else { return };
        let check = |owner: u32, mode: u32, link_owner: u32, expected: bool| {
            let place = tempfile::tempdir_in(folder.path()).unwrap();
            let (precious, logs) = (place.path().join("precious"), place.path().join("logs"));
            fs::write(&precious, "").unwrap();
            directory(&logs, owner, mode);
            let link = logs.join("access.log");
            symlink("../precious", &link).unwrap();
            rustix::fs::chownat(
                rustix::fs::CWD,
                &link,
                Some(rustix::fs::Uid::from_raw(link_owner)),
                None,
                rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
            )
            .unwrap();
            let done = write(&link);
            assert_eq!(done.is_ok(), expected, "{owner} {mode:o} {link_owner}: {done:?}");
            assert_eq!(look(&link, None).is_ok(), expected);
            assert_eq!(fs::read(&precious).unwrap().len(), if expected { 5 } else { 0 });
            // A link to a directory in the path is checked as well.
            symlink(&place, logs.join("way")).unwrap();
            let trusted = (owner, mode) == (0, 0o755) || (owner == 0 && mode == 0o1777);
            assert_eq!(write(&logs.join("way/precious")).is_ok(), trusted, "{owner} {mode:o}");
        };
        check(0, 0o755, 0, true);
        check(0, 0o755, 77, true);
        check(0, 0o1777, 0, true);
        check(0, 0o1777, 77, false);
        check(0, 0o777, 0, false);
        check(77, 0o755, 77, false);
        check(77, 0o755, 0, false);
        check(0, 0o755, 0, true);
    }

    #[test]
    fn what_lies_below_a_directory_of_another_user_stays_untrusted() {
        let Some(folder) = folder() else { return };
        let outer = folder.path().join("outer");
        directory(&outer, 77, 0o755);
        directory(&outer.join("inner"), 0, 0o755);
        fs::write(folder.path().join("precious"), "").unwrap();
        symlink("../../precious", outer.join("inner/log")).unwrap();
        assert!(write(&outer.join("inner/log")).is_err());
        symlink("../precious", outer.join("log")).unwrap();
        assert!(write(&outer.join("inner/../log")).is_err());
        assert_eq!(fs::read(folder.path().join("precious")).unwrap(), b"");
    }

    #[test]
    fn a_file_in_the_users_directory_has_one_name_and_a_known_owner() {
        let Some(folder) = folder() else { return };
        let logs = folder.path().join("logs");
        directory(&logs, 77, 0o755);
        let log = logs.join("log");
        write(&log).unwrap();
        for (owner, expected) in [(0, true), (77, true), (78, false)] {
            chown(&log, Some(owner), None).unwrap();
            assert_eq!(write(&log).is_ok(), expected, "{owner}");
        }
        chown(&log, Some(0), None).unwrap();
        fs::hard_link(&log, folder.path().join("second")).unwrap();
        let error = write(&log).unwrap_err().to_string();
        assert!(error.contains("has a second name"), "{error}");
    }

    #[test]
    fn links_of_the_system_lead_where_they_always_did() {
        let folder = tempfile::tempdir().unwrap();
        let (data, link) = (folder.path().join("data"), folder.path().join("log"));
        fs::create_dir(&data).unwrap();
        symlink(&data, &link).unwrap();
        write(&link.join("access.log")).unwrap();
        assert_eq!(fs::read(data.join("access.log")).unwrap(), b"line\n");
        // A link to a file that is not there yet.
        symlink("data/new.log", folder.path().join("dangling")).unwrap();
        write(&folder.path().join("dangling")).unwrap();
        assert_eq!(fs::read(data.join("new.log")).unwrap(), b"line\n");
        symlink("loop", folder.path().join("loop")).unwrap();
        assert!(write(&folder.path().join("loop")).is_err());
        write(Path::new("/dev/null")).unwrap();
        let file = File::create(folder.path().join("open")).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&file);
        for path in [format!("/proc/self/fd/{number}"), format!("/dev/fd/{number}")] {
            write(Path::new(&path)).unwrap();
            assert!(look(Path::new(&path), None).unwrap().is_some());
        }
        assert_eq!(fs::read(folder.path().join("open")).unwrap(), b"line\nline\n");
    }

    #[test]
    fn what_cannot_be_had_is_the_kernels_error() {
        for path in ["/nowhere/log", "/dev/null/log", "/"] {
            assert!(write(Path::new(path)).is_err(), "{path}");
        }
        assert_eq!(look(Path::new("/no-such-file"), None).unwrap(), None);
    }
}
