//! The file that holds the number of the process while it runs (`pid_file`), for those who send signals by hand.

use std::fs;
use std::path::{Path, PathBuf};

/// The file, which is removed with this unless another process has taken it over.
#[derive(Debug)]
pub(crate) struct PidFile {
    path: PathBuf,
    text: String,
}

impl PidFile {
    /// Writes it. A reader finds the old one or the new one, never half of it.
    ///
    /// # Errors
    /// One sentence for the operator.
    pub(crate) fn write(path: &Path) -> Result<Self, String> {
        let text = format!("{}\n", std::process::id());
        let mut fresh = path.as_os_str().to_owned();
        fresh.push(".new");
        let fresh = PathBuf::from(fresh);
        let written = fs::write(&fresh, &text).and_then(|()| fs::rename(&fresh, path));
        match written {
            Ok(()) => Ok(Self { path: path.to_owned(), text }),
            Err(error) => {
                // It may not even be there.
                let _ = fs::remove_file(&fresh);
                Err(format!("cannot write the pid file {}: {error}", path.display()))
            }
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if fs::read_to_string(&self.path).is_ok_and(|text| text == self.text) {
            // Whoever removed it meanwhile did what was to be done.
            let _ = fs::remove_file(&self.path);
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
    fn a_place_where_none_can_be_is_named() {
        let error = PidFile::write(Path::new("/nowhere/weir.pid")).unwrap_err();
        assert!(error.starts_with("cannot write the pid file /nowhere/weir.pid: "), "{error}");
    }
}
