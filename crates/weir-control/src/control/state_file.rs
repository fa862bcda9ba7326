//! The file that keeps runtime changes across restarts. A crash leaves either the old or the new
//! contents (`atomic_write.rs`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use weir_config::Config;
use weir_config::model::Overrides;

use crate::files::atomic_write::{Outlasts, replace};

/// The version of the file's format.
const VERSION: u32 = 1;

/// The state file.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    /// The contents of the file, once they are known.
    kept: Mutex<Option<Overrides>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    overrides: Overrides,
}

impl StateFile {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), kept: Mutex::new(None) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file; the result is empty if the file does not exist.
    ///
    /// # Errors
    /// One sentence with the reason that it cannot be used.
    pub(crate) fn read(&self) -> Result<Overrides, String> {
        let path = self.path.display();
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Overrides::default());
            }
            Err(error) => return Err(format!("cannot read the state file {path}: {error}")),
        };
        let content: Content = serde_json::from_str(&text)
            .map_err(|error| format!("the state file {path} is invalid: {error}"))?;
        if content.version != VERSION {
            return Err(format!(
                "the state file {path} is of version {}, this Weir knows {VERSION}",
                content.version
            ));
        }
        *self.kept() = Some(content.overrides.clone());
        Ok(content.overrides)
    }

    /// Writes these changes, unless the file holds them already.
    ///
    /// # Errors
    /// As [`StateFile::write`]; the next call tries again.
    pub(crate) fn keep(&self, overrides: &Overrides) -> Result<(), String> {
        let mut kept = self.kept();
        let same = match &*kept {
            Some(kept) => kept == overrides,
            // There is no file, and none is needed.
            None => overrides.is_empty(),
        };
        if same {
            return Ok(());
        }
        *kept = None;
        self.write(overrides)?;
        *kept = Some(overrides.clone());
        Ok(())
    }

    fn kept(&self) -> MutexGuard<'_, Option<Overrides>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the file's contents.
    ///
    /// # Errors
    /// One clause with the reason that it cannot be written. The old contents are kept.
    fn write(&self, overrides: &Overrides) -> Result<(), String> {
        self.put(overrides).map_err(|error| {
            format!("the state file {} cannot be written: {error}", self.path.display())
        })
    }

    fn put(&self, overrides: &Overrides) -> io::Result<()> {
        let content = Content { version: VERSION, overrides: overrides.clone() };
        let mut text = serde_json::to_string_pretty(&content)?;
        text.push('\n');
        replace(&self.path, &text, 0o600, Outlasts::Machine).map(drop)
    }

    /// Renames an invalid file, so that the next change does not overwrite it.
    pub(crate) fn set_aside(&self) -> Option<PathBuf> {
        let mut aside = self.path.clone().into_os_string();
        aside.push(".broken");
        let aside = PathBuf::from(aside);
        fs::rename(&self.path, &aside).ok().map(|()| aside)
    }
}

/// Reads the runtime changes made before the restart. An invalid state file does not stop the
/// start: it is renamed and reported.
pub(crate) fn restore(file: Option<&StateFile>, config: &Config, say: fn(&str)) -> Overrides {
    let Some(file) = file else { return Overrides::default() };
    let mut overrides = match file.read() {
        Ok(overrides) => overrides,
        Err(error) => {
            say(&format!("warning: {error}: starting without the changes made at run time"));
            if let Some(aside) = file.set_aside() {
                say(&format!("warning: the state file is now {}", aside.display()));
            }
            return Overrides::default();
        }
    };
    for gone in overrides.prune(config) {
        say(&format!(
            "changes made at run time to {gone} are dropped: it is no longer in the configuration"
        ));
    }
    for one in overrides.differences(config) {
        let text = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
        let place: Vec<String> = [one.pool, one.name].into_iter().flatten().collect();
        say(&format!(
            "as changed at run time: {} {} is {} (in the file: {})",
            place.join("/"),
            one.field,
            text(one.now),
            text(one.file)
        ));
    }
    overrides
}

#[cfg(test)]
mod tests {
    use weir_config::model::ListenerOverride;

    use super::*;

    fn some() -> Overrides {
        let mut overrides = Overrides::default();
        overrides.listeners.insert(":80".to_owned(), ListenerOverride { max_connections: 7 });
        overrides
    }

    #[test]
    fn what_is_written_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let file = StateFile::new(&directory.path().join("state.json"));
        assert_eq!(file.read(), Ok(Overrides::default()), "there is none yet");
        file.write(&some()).unwrap();
        assert_eq!(file.read(), Ok(some()));
        file.write(&Overrides::default()).unwrap();
        assert_eq!(file.read(), Ok(Overrides::default()));
        let left: Vec<_> = fs::read_dir(directory.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "a file was left beside: {left:?}");
    }

    #[test]
    fn it_is_written_only_when_something_is_different() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.json");
        let file = StateFile::new(&path);
        file.keep(&Overrides::default()).unwrap();
        assert!(!path.exists(), "nothing was changed");
        file.keep(&some()).unwrap();
        fs::remove_file(&path).unwrap();
        file.keep(&some()).unwrap();
        assert!(!path.exists(), "it was kept already");
        file.keep(&Overrides::default()).unwrap();
        assert_eq!(file.read(), Ok(Overrides::default()));
    }

    #[test]
    fn a_write_that_fails_leaves_what_was_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.json");
        let file = StateFile::new(&path);
        file.write(&some()).unwrap();
        // No user, including root, can open a directory for writing.
        fs::create_dir(directory.path().join("state.json.new")).unwrap();
        let error = file.write(&Overrides::default()).unwrap_err();
        assert!(error.contains("state.json cannot be written"), "{error}");
        assert_eq!(file.read(), Ok(some()));
    }

    #[test]
    fn a_file_that_makes_no_sense_is_said_and_set_aside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.json");
        let file = StateFile::new(&path);
        for (text, reason) in [
            ("{\"version\": 1", "is invalid: EOF"),
            ("{\"version\": 1, \"overrides\": {\"pool\": {}}}", "unknown field `pool`"),
            ("{\"version\": 9, \"overrides\": {}}", "is of version 9, this Weir knows 1"),
        ] {
            fs::write(&path, text).unwrap();
            let error = file.read().unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        let aside = file.set_aside().unwrap();
        assert!(aside.ends_with("state.json.broken") && aside.exists() && !path.exists());
    }
}
