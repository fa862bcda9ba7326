//! The directory of the programs of an experiment: made by this process alone, and removed at its
//! end, also when the laboratory is killed.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::credits::sweep_group;

/// The beginning of the directories' names; [`sweep`] removes no other.
const PREFIX: &str = "weir-lab-";
/// The largest number of names that are tried.
const MOST_NAMES: u32 = 100;
/// The longest time for which removal is tried: programs that are being ended may still write.
const MOST_SWEEPING: Duration = Duration::from_secs(30);
/// The interval between the attempts.
const SWEEP_INTERVAL: Duration = Duration::from_millis(50);

/// A directory of its own. A process beside the laboratory removes it when this value is gone,
/// whatever ended the laboratory.
#[derive(Debug)]
pub(super) struct LabDirectory {
    path: PathBuf,
    sweeper: Child,
}

impl LabDirectory {
    /// Creates it below `place`, which others may write to: a directory that is already there is
    /// never used.
    pub(super) fn create(place: &Path, weir: &Path) -> Result<Self, String> {
        let path = create(place).map_err(|error| {
            format!("cannot create a directory in {}: {error}", place.display())
        })?;
        let mut command = Command::new(weir);
        command.args(["lab", "sweep"]).arg(&path);
        // A group of its own: Ctrl-C ends the laboratory first.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        match command.spawn() {
            Ok(sweeper) => Ok(Self { path, sweeper }),
            Err(error) => {
                let _ = fs::remove_dir_all(&path);
                Err(format!("cannot start {}: {error}", weir.display()))
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LabDirectory {
    fn drop(&mut self) {
        drop(self.sweeper.stdin.take());
        let _ = self.sweeper.wait();
    }
}

/// Creates a directory that was not there before.
fn create(place: &Path) -> io::Result<PathBuf> {
    let mut builder = DirBuilder::new();
    // Workers of a candidate that give up root's rights read in it; only its owner writes.
    builder.mode(0o755);
    let mut last = io::Error::from(ErrorKind::AlreadyExists);
    for number in 1..=MOST_NAMES {
        let path = place.join(format!("{PREFIX}{}-{number}", std::process::id()));
        match builder.create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// `weir lab sweep`: waits for the end of standard input, then removes a directory of the
/// laboratory with everything in it.
///
/// # Errors
/// One sentence if it is none, or cannot be removed.
pub fn sweep(directory: &Path) -> Result<(), String> {
    let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !name.starts_with(PREFIX) {
        return Err(format!("{} is no directory of the laboratory", directory.display()));
    }
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    let removed = remove(directory);
    let pid = name.trim_start_matches(PREFIX).split('-').next().unwrap_or_default();
    remove_group(pid);
    removed
}

/// Removes the control group of a laboratory that was killed, once its programs have ended.
fn remove_group(pid: &str) {
    let deadline = Instant::now() + MOST_SWEEPING;
    while !sweep_group(pid) && Instant::now() < deadline {
        thread::sleep(SWEEP_INTERVAL);
    }
}

fn remove(directory: &Path) -> Result<(), String> {
    let deadline = Instant::now() + MOST_SWEEPING;
    loop {
        match fs::remove_dir_all(directory) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) if Instant::now() > deadline => {
                return Err(format!("cannot remove {}: {error}", directory.display()));
            }
            Err(_) => thread::sleep(SWEEP_INTERVAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{create, remove, sweep};

    #[test]
    fn a_directory_that_another_user_put_there_is_not_used() {
        let place = std::env::temp_dir().join(format!("weir-place-{}", std::process::id()));
        let _ = fs::remove_dir_all(&place);
        fs::create_dir(&place).unwrap();
        let first = create(&place).unwrap();
        fs::write(first.join("letter"), "dear").unwrap();
        // A link to elsewhere under the next name.
        let next = place.join(format!("weir-lab-{}-2", std::process::id()));
        std::os::unix::fs::symlink(&first, &next).unwrap();
        let other = create(&place).unwrap();
        assert!(other != first && other != next);
        assert_eq!(fs::read_dir(&other).unwrap().count(), 0);
        remove(&other).unwrap();
        remove(&other).unwrap();
        assert!(!other.exists() && first.join("letter").exists());
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn nothing_but_a_directory_of_the_laboratory_is_removed() {
        let error = sweep(&std::env::temp_dir()).unwrap_err();
        assert!(error.contains("no directory of the laboratory"), "{error}");
    }
}
