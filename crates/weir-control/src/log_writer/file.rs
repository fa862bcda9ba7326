//! A log file: appended to, and opened anew when it was moved away.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

pub(super) struct LogFile {
    path: PathBuf,
    file: File,
}

impl LogFile {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), file: append_to(path)? })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// On an error the old file stays in use.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        self.file = append_to(&self.path)?;
        Ok(())
    }

    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.file.write_all(lines)
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    let opened = OpenOptions::new().append(true).create(true).mode(0o640).open(path);
    opened.map_err(|error| {
        io::Error::new(error.kind(), format!("cannot open log file {}: {error}", path.display()))
    })
}
