//! Files that are replaced atomically: written under another name and renamed, so that a reader
//! finds the old or the new contents, even after a crash. The contents are defined in
//! `pid_file.rs`, `control/state_file.rs` and `credits/kept.rs`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The event that a file has to survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outlasts {
    /// The end of this process.
    Process,
    /// A crash of the machine.
    Machine,
}

/// Replaces the file at `path` with this text and mode (less the process's mask). The directory may
/// belong to a less privileged user: a file under the temporary name is removed and never written
/// to, since it could be a link to another file.
///
/// # Errors
/// The file is unchanged then.
pub(crate) fn replace(path: &Path, text: &str, mode: u32, outlasts: Outlasts) -> io::Result<File> {
    let beside = beside(path);
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options.read(true).write(true).create_new(true).mode(mode).open(&beside)?;
    let put = file.write_all(text.as_bytes()).and_then(|()| match outlasts {
        Outlasts::Process => Ok(()),
        Outlasts::Machine => file.sync_all(),
    });
    if let Err(error) = put.and_then(|()| fs::rename(&beside, path)) {
        let _ = fs::remove_file(&beside);
        return Err(error);
    }
    if outlasts == Outlasts::Machine {
        // Only then is the new name on the disk too. A file system that does not support this goes
        // without.
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let _ = File::open(directory.unwrap_or(Path::new("."))).and_then(|file| file.sync_all());
    }
    Ok(file)
}

fn beside(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    beside.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn put(path: &Path, text: &str) -> io::Result<File> {
        replace(path, text, 0o600, Outlasts::Machine)
    }

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for text in ["first, and long", "second"] {
            put(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn nothing_is_written_through_a_name_that_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("file"), folder.path().join("other"));
        fs::write(&other, "precious").unwrap();
        symlink(&other, beside(&path)).unwrap();
        put(&path, "first").unwrap();
        fs::hard_link(&other, beside(&path)).unwrap();
        put(&path, "second").unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
    }

    #[test]
    fn what_cannot_be_replaced_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        put(&path, "first").unwrap();
        // No user, including root, can open a directory for writing.
        fs::create_dir(beside(&path)).unwrap();
        assert!(put(&path, "second").is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        assert!(put(&folder.path().join("missing/file"), "x").is_err());
    }
}
