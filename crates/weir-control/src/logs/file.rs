//! A log file: it is appended to, and reopened after it was renamed or removed. It may be a pipe
//! without a reader.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::outcome::WriteOutcome;
use crate::files::checked_open;
use crate::privileges;

pub(crate) struct LogFile {
    path: PathBuf,
    /// `None` while it is a pipe without a reader.
    file: Option<Appender>,
}

impl LogFile {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), file: append_to(path)? })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reopens the file by its path. On an error the old file stays in use.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        self.file = append_to(&self.path)?;
        Ok(())
    }

    pub(crate) fn write(&mut self, lines: &[u8]) -> WriteOutcome {
        if self.file.is_none() {
            match append_to(&self.path) {
                Ok(file) => self.file = file,
                Err(error) => return WriteOutcome::lost(lines, error),
            }
        }
        match &mut self.file {
            Some(file) => file.write(lines),
            None => WriteOutcome::lost(lines, io::Error::other("no process reads this pipe")),
        }
    }
}

/// A file that lines are appended to.
pub(crate) struct Appender {
    file: File,
    /// Set if the last line in it is incomplete.
    torn: bool,
}

impl Appender {
    pub(crate) fn new(file: File) -> Self {
        Self { file, torn: false }
    }

    /// Writes lines. If the disk fills up within a line, that line is ended before others follow
    /// it.
    pub(crate) fn write(&mut self, lines: &[u8]) -> WriteOutcome {
        if self.torn
            && let Err(error) = self.file.write_all(b"\n")
        {
            return WriteOutcome::lost(lines, error);
        }
        self.torn = false;
        let mut rest = lines;
        while !rest.is_empty() {
            let error = match self.file.write(rest) {
                Ok(0) => io::Error::from(io::ErrorKind::WriteZero),
                Ok(written) => {
                    rest = rest.get(written..).unwrap_or_default();
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            let written = lines.get(..lines.len() - rest.len()).unwrap_or_default();
            self.torn = written.last().is_some_and(|last| *last != b'\n');
            return WriteOutcome::lost(rest, error);
        }
        WriteOutcome::default()
    }
}

/// Opens the file for appending; `None` for a pipe without a reader, for which the writer does not
/// wait.
fn append_to(path: &Path) -> io::Result<Option<Appender>> {
    let opened = checked_open::append(path, privileges::serving_user());
    let cleared = opened.and_then(|file| {
        fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
        Ok(Some(Appender::new(file)))
    });
    match cleared {
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        other => other.map_err(|error| {
            let sentence = format!("cannot open log file {}: {error}", path.display());
            io::Error::new(error.kind(), sentence)
        }),
    }
}
