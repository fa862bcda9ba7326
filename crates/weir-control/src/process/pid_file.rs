//! The file that holds the process id while the process runs (`pid_file`), for operators and
//! scripts that send signals. It locks nothing and does not prevent a second start.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::files::atomic_write::{Outlasts, replace};
use crate::process::supervisor_client;

/// The pid file. Dropping it removes the file unless another process has written it meanwhile. If
/// the process has given up the right to remove the file, it truncates it.
#[derive(Debug)]
pub(crate) struct PidFile {
    path: PathBuf,
    text: String,
    file: File,
}

impl PidFile {
    /// Writes the file. A reader finds the old or the new contents, never a part; unless only the
    /// file itself is writable and not its directory.
    ///
    /// # Errors
    /// One sentence for the operator.
    pub(crate) fn write(path: &Path) -> Result<Self, String> {
        let text = format!("{}\n", supervisor_client::main_process());
        let written = match replace(path, &text, 0o666, Outlasts::Process) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => rewrite(path, &text),
            other => other,
        };
        match written {
            Ok(file) => Ok(Self { path: path.to_owned(), text, file }),
            Err(error) => Err(format!("cannot write the pid file {}: {error}", path.display())),
        }
    }

    /// Returns true if the file that was written still holds this process's number.
    fn is_ours(&self) -> bool {
        let mut text = vec![0; self.text.len() + 1];
        let read = self.file.read_at(&mut text, 0);
        read.is_ok_and(|count| text.get(..count) == Some(self.text.as_bytes()))
    }
}

/// Writes the file in place, for a directory that is not writable.
fn rewrite(path: &Path, text: &str) -> io::Result<File> {
    let no_link = OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    let mut file =
        options.read(true).write(true).truncate(true).custom_flags(no_link).open(path)?;
    file.write_all(text.as_bytes())?;
    Ok(file)
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let inode = |data: fs::Metadata| (data.dev(), data.ino());
        let named = fs::metadata(&self.path).map(inode).ok();
        let is_there = named.is_some() && named == self.file.metadata().map(inode).ok();
        // If the file was replaced or removed meanwhile, it has no name any more, and truncating it
        // does no harm.
        if self.is_ours() && (!is_there || fs::remove_file(&self.path).is_err()) {
            let _ = self.file.set_len(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_the_number_of_the_process_until_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weir.pid");
        fs::write(&path, "left behind by a crash").unwrap();
        let file = PidFile::write(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        drop(file);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn another_process_that_took_it_over_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weir.pid");
        let file = PidFile::write(&path).unwrap();
        fs::write(&path, "1\n").unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");
    }

    #[test]
    fn one_that_cannot_be_removed_is_emptied() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weir.pid");
        let file = PidFile::write(&path).unwrap();
        // As after a `chroot`: the same file, but its path leads nowhere.
        let moved = folder.path().join("outside.pid");
        fs::rename(&path, &moved).unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&moved).unwrap(), "");
        let file = PidFile::write(&path).unwrap();
        fs::write(&path, "1\n").unwrap();
        fs::rename(&path, &moved).unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&moved).unwrap(), "1\n", "another process has it");
    }

    #[test]
    fn a_place_where_none_can_be_is_named() {
        let error = PidFile::write(Path::new("/nowhere/weir.pid")).unwrap_err();
        assert!(error.starts_with("cannot write the pid file /nowhere/weir.pid: "), "{error}");
    }
}
