//! The files that a running process writes about itself, `pid_file` and `state_file`: a reload may
//! name others. Their contents are defined in `pid_file.rs` and `state_file.rs`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_config::Config;
use weir_config::model::Overrides;

use super::state_file::StateFile;
use crate::process::pid_file::PidFile;

/// The files in use now.
#[derive(Debug, Default)]
pub(crate) struct OwnFiles {
    pid: Mutex<Option<PidFile>>,
    state: Mutex<Option<Arc<StateFile>>>,
}

/// The files of another configuration, already written. Dropping it removes a new pid file.
#[derive(Debug)]
pub(crate) struct PreparedFiles {
    pid: FileAfter<PidFile>,
    state: FileAfter<Arc<StateFile>>,
}

/// The effect of a new configuration on a file.
#[derive(Debug)]
enum FileAfter<T> {
    AsBefore,
    Another(T),
    None,
}

impl<T> FileAfter<T> {
    fn of<E>(
        paths: (&Option<PathBuf>, &Option<PathBuf>),
        write: impl FnOnce(&Path) -> Result<T, E>,
    ) -> Result<Self, E> {
        match paths {
            (before, after) if before == after => Ok(Self::AsBefore),
            (_, Some(path)) => write(path).map(Self::Another),
            (_, None) => Ok(Self::None),
        }
    }

    fn put_into(self, place: &Mutex<Option<T>>) {
        match self {
            Self::AsBefore => {}
            Self::Another(file) => *locked(place) = Some(file),
            Self::None => *locked(place) = None,
        }
    }
}

impl PreparedFiles {
    /// Writes the files that `after` names and `before` does not. An existing state file has to be
    /// valid, because it is replaced and could be another program's file.
    ///
    /// # Errors
    /// One sentence; nothing has changed then, except that a new state file may hold the runtime
    /// changes.
    pub(crate) fn write(
        before: &Config,
        after: &Config,
        overrides: &Overrides,
    ) -> Result<Self, String> {
        let state = |path: &Path| {
            let file = StateFile::new(path);
            file.read()?;
            file.keep(overrides)?;
            Ok::<_, String>(Arc::new(file))
        };
        Ok(Self {
            state: FileAfter::of((&before.state_file, &after.state_file), state)?,
            pid: FileAfter::of((&before.pid_file, &after.pid_file), PidFile::write)?,
        })
    }
}

/// Removes the pid file when the server ends, however it ends.
#[derive(Debug)]
pub(crate) struct UntilTheEnd(pub(crate) Arc<OwnFiles>);

impl Drop for UntilTheEnd {
    fn drop(&mut self) {
        drop(locked(&self.0.pid).take());
    }
}

impl OwnFiles {
    pub(crate) fn new(state: Option<StateFile>) -> Self {
        Self { pid: Mutex::default(), state: Mutex::new(state.map(Arc::new)) }
    }

    /// Sets the pid file.
    pub(crate) fn set_pid(&self, file: Option<PidFile>) {
        *locked(&self.pid) = file;
    }

    /// Switches to the prepared files. A pid file that is no longer configured is removed; a state
    /// file stays and is not written any more.
    pub(crate) fn commit(&self, prepared: PreparedFiles) {
        prepared.pid.put_into(&self.pid);
        prepared.state.put_into(&self.state);
    }

    /// The path of the state file, which keeps runtime changes.
    pub(crate) fn state_path(&self) -> Option<PathBuf> {
        locked(&self.state).as_ref().map(|file| file.path().to_owned())
    }

    /// Writes runtime changes to the state file, if there is one and it does not hold them already.
    ///
    /// # Errors
    /// One clause with the reason that it cannot be written.
    pub(crate) fn keep(&self, overrides: &Overrides) -> Result<(), String> {
        // Writing may be slow, so the lock is not held meanwhile.
        let file = locked(&self.state).clone();
        file.map_or(Ok(()), |file| file.keep(overrides))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
