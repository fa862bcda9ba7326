//! The file that names the process (`pid_file`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A file with the number of this process. Dropping it removes the file, unless another process's number is in it by then.
pub(crate) struct PidFile(PathBuf);

impl PidFile {
    /// Writes it, whole: whoever reads it finds a number.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn write(path: &Path) -> io::Result<Self> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        fs::write(&beside, own())?;
        fs::rename(&beside, path)?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if fs::read_to_string(&self.0).is_ok_and(|text| text == own()) {
            let _ = fs::remove_file(&self.0);
        }
    }
}

fn own() -> String {
    format!("{}\n", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_with_its_process_and_not_with_the_one_before() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("weir.pid");
        let file = PidFile::write(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), own());
        drop(file);
        assert!(!path.exists());
        let file = PidFile::write(&path).unwrap();
        fs::write(&path, "1\n").unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");
    }
}
