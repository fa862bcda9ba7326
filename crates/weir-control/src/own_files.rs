//! The files that a running process writes of itself, `pid_file` and `state_file`: a reload may name others. What stands in them is
//! `pid_file.rs`'s and `admin/state_file.rs`'s.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_config::Config;
use weir_config::model::Overrides;

use crate::admin::StateFile;
use crate::pid_file::PidFile;

/// Those that are written now.
#[derive(Debug, Default)]
pub(crate) struct OwnFiles {
    pid: Mutex<Option<PidFile>>,
    state: Mutex<Option<Arc<StateFile>>>,
}

/// Others, written already. Dropped, a pid file is removed.
#[derive(Debug)]
pub(crate) struct PreparedFiles {
    pid: After<PidFile>,
    state: After<Arc<StateFile>>,
}

/// What becomes of a file.
#[derive(Debug)]
enum After<T> {
    AsBefore,
    Another(T),
    None,
}

impl<T> After<T> {
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
    /// Writes what another configuration names and this one does not. A state file that is there has to make sense: it is replaced, and
    /// might be somebody else's.
    ///
    /// # Errors
    /// One sentence; nothing has changed then, unless that a new state file holds what was changed at run time.
    pub(crate) fn write(
        (before, after): (&Config, &Config),
        overrides: &Overrides,
    ) -> Result<Self, String> {
        let state = |path: &Path| {
            let file = StateFile::new(path);
            file.read()?;
            file.keep(overrides)?;
            Ok::<_, String>(Arc::new(file))
        };
        Ok(Self {
            state: After::of((&before.state_file, &after.state_file), state)?,
            pid: After::of((&before.pid_file, &after.pid_file), PidFile::write)?,
        })
    }
}

/// Removes the pid file when the server ends, in whatever way.
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

    /// The pid file is this one from now on.
    pub(crate) fn set_pid(&self, file: Option<PidFile>) {
        *locked(&self.pid) = file;
    }

    /// These are the files from now on. A pid file that is none any more is removed; a state file stays, and is written no more.
    pub(crate) fn commit(&self, prepared: PreparedFiles) {
        prepared.pid.put_into(&self.pid);
        prepared.state.put_into(&self.state);
    }

    /// Where runtime changes are kept.
    pub(crate) fn state_path(&self) -> Option<PathBuf> {
        locked(&self.state).as_ref().map(|file| file.path().to_owned())
    }

    /// Writes what was changed at run time where it survives a restart, if there is such a place and that is not there already.
    ///
    /// # Errors
    /// One clause: why it cannot be written.
    pub(crate) fn keep(&self, overrides: &Overrides) -> Result<(), String> {
        // It may be slow: others shall not wait to learn where it is.
        let file = locked(&self.state).clone();
        file.map_or(Ok(()), |file| file.keep(overrides))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
