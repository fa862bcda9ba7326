//! The folder of an experiment: its file, its configurations, and one file for each run, written as
//! soon as the run is made and put in place as a whole. An interrupted experiment goes on from it.

use std::ffi::OsString;
use std::fs::{self, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::findings::LabRun;

/// The facts of an experiment: it goes on only if they are the same.
#[derive(Clone, Debug)]
pub struct LabRecord {
    /// Everything that the report says about the experiment as a whole.
    pub value: Value,
}

impl LabRecord {
    /// The name of the experiment, which is that of its file without `.lab`. A record from
    /// elsewhere names no file outside of its folder.
    pub fn name(&self) -> &str {
        let name = self.value["name"].as_str().unwrap_or_default();
        if name.contains('/') || name.contains('\0') { "experiment" } else { name }
    }
}

/// The folder.
#[derive(Clone, Debug)]
pub struct RunStore {
    directory: PathBuf,
}

/// A folder to which runs can be added.
#[derive(Debug)]
pub struct OpenedStore {
    /// Set if there are runs to go on from.
    pub goes_on: bool,
    /// Keeps other laboratories away as long as it is open.
    pub held: fs::File,
}

/// The largest file of a run: that of a day has 20 MB.
const MOST_RUN_BYTES: u64 = 256 * 1024 * 1024;
/// The names in a folder whose first file could not be written, as with a full disk.
const BEGINNINGS: [&str; 5] = ["runs", "experiment", "configurations", "lab.json.part", "lab.lock"];

/// The parts of the record that must be the same when an experiment goes on.
const IDENTITY: [&str; 6] =
    ["experiment", "quick", "machine", "cores", "versions", "generator_first"];

impl RunStore {
    /// A folder, new or with an experiment in it.
    pub fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Creates the folder for this experiment, or makes sure that it is of the same one.
    ///
    /// # Errors
    /// One sentence if it is the folder of something else, cannot be written to, or is in use.
    pub fn open(
        &self,
        record: &LabRecord,
        files: &[(String, String)],
    ) -> Result<OpenedStore, String> {
        let place = self.path("lab.json");
        if place.exists() {
            let held = self.lock()?;
            let before = self.record()?;
            for part in IDENTITY {
                if before.value[part] != record.value[part] {
                    let name = self.directory.display();
                    return Err(format!(
                        "{name} has runs of another {part}; name a new folder with --out"
                    ));
                }
            }
            return Ok(OpenedStore { goes_on: !self.runs()?.is_empty(), held });
        }
        if !self.is_new() {
            let name = self.directory.display();
            return Err(format!(
                "{name} is not empty and has no experiment; name a new folder with --out"
            ));
        }
        let held = self.lock()?;
        fs::create_dir_all(self.path("runs")).map_err(|error| self.failed("runs", &error))?;
        for (name, text) in files {
            self.write(name, text.as_bytes())?;
        }
        self.write("lab.json", format!("{:#}\n", record.value).as_bytes())?;
        Ok(OpenedStore { goes_on: false, held })
    }

    /// Returns true if there is nothing in the folder but what was written before its record.
    fn is_new(&self) -> bool {
        let names = |directory: &Path| -> Vec<OsString> {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name()).collect()
        };
        names(&self.directory).iter().all(|name| BEGINNINGS.iter().any(|own| name == own))
            && names(&self.path("runs")).is_empty()
    }

    /// Keeps others from adding runs as long as the returned file is open.
    fn lock(&self) -> Result<fs::File, String> {
        let held = |error: TryLockError| match error {
            TryLockError::WouldBlock => format!(
                "another `weir lab run` adds runs to {} now; name a new folder with --out",
                self.directory.display()
            ),
            TryLockError::Error(error) => self.failed("lab.lock", &error),
        };
        fs::create_dir_all(&self.directory).map_err(|error| self.failed("lab.lock", &error))?;
        let file = fs::File::create(self.path("lab.lock"));
        let file = file.map_err(|error| self.failed("lab.lock", &error))?;
        file.try_lock().map_err(held)?;
        Ok(file)
    }

    /// Writes a file as a whole, or not at all.
    ///
    /// # Errors
    /// One sentence.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        let (path, part) = (self.path(name), self.path(&format!("{name}.part")));
        let put = || {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            let mut file = fs::File::create(&part)?;
            file.write_all(bytes)?;
            file.sync_data()?;
            drop(file);
            fs::rename(&part, &path)
        };
        put().map_err(|error| {
            let _ = fs::remove_file(&part);
            self.failed(name, &error)
        })
    }

    fn failed(&self, name: &str, error: &std::io::Error) -> String {
        let words = if error.kind() == std::io::ErrorKind::StorageFull {
            "; make room, and run the same command again to go on"
        } else {
            ""
        };
        format!("cannot write {}: {error}{words}", self.path(name).display())
    }

    /// Keeps a run.
    ///
    /// # Errors
    /// One sentence.
    pub fn keep(&self, raw: &Value) -> Result<(), String> {
        let text = |name: &str| raw[name].as_str().unwrap_or("x").to_owned();
        let name = format!(
            "runs/{:04}-{}-{}-{}-{}.json",
            raw["number"].as_u64().unwrap_or(0),
            text("workload"),
            text("candidate"),
            text("level"),
            raw["repeat"]
        );
        self.write(&name, format!("{raw}\n").as_bytes())
    }

    /// The record of the experiment.
    ///
    /// # Errors
    /// One sentence.
    pub fn record(&self) -> Result<LabRecord, String> {
        let path = self.path("lab.json");
        let failed = |error: &dyn std::fmt::Display| {
            format!("{} is no bundle of `weir lab`: {error}", self.directory.display())
        };
        let text = fs::read_to_string(&path).map_err(|error| failed(&error))?;
        Ok(LabRecord { value: serde_json::from_str(&text).map_err(|error| failed(&error))? })
    }

    /// All runs in the order of their measurement.
    ///
    /// # Errors
    /// One sentence.
    pub fn runs(&self) -> Result<Vec<LabRun>, String> {
        let directory = self.path("runs");
        let entries = fs::read_dir(&directory)
            .map_err(|error| format!("cannot read {}: {error}", directory.display()))?;
        let mut found = Vec::new();
        for entry in entries.flatten() {
            let path = entry.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let failed =
                |error: &dyn std::fmt::Display| format!("cannot read {}: {error}", path.display());
            let text = read_bounded(&path).map_err(|error| failed(&error))?;
            let mut raw: Value = serde_json::from_str(&text).map_err(|error| failed(&error))?;
            // Only a file beside the run: the folder may come from elsewhere.
            let csv = raw["csv"].as_str().and_then(|csv| csv.strip_prefix("runs/"));
            if let Some(csv) = csv.filter(|csv| !csv.contains('/')) {
                raw["csv_path"] = directory.join(csv).display().to_string().into();
            }
            found.push(LabRun::of(raw).map_err(|error| failed(&error))?);
        }
        found.sort_by_key(|run| run.number);
        Ok(found)
    }
}

fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = fs::File::open(path)?.take(MOST_RUN_BYTES + 1).read_to_string(&mut text)?;
    if read as u64 > MOST_RUN_BYTES {
        return Err(io::Error::other("it is too large for a run"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use serde_json::{Value, json};

    use super::{LabRecord, RunStore};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("weir-store-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn record(quick: bool) -> LabRecord {
        LabRecord {
            value: json!({"experiment": "x", "quick": quick, "machine": {}, "cores": {}, "versions": {}}),
        }
    }

    fn raw(number: u64) -> Value {
        json!({
            "number": number, "workload": "main", "candidate": "a", "level": "r100", "repeat": number,
            "failure": "it answers wrong bytes", "notes": [], "bench": null,
        })
    }

    #[test]
    fn runs_are_kept_one_by_one_and_found_again() {
        let folder = Folder::new("kept");
        let store = RunStore::at(&folder.0);
        let files = [("experiment/x.lab".to_owned(), "title x;".to_owned())];
        assert!(!store.open(&record(false), &files).unwrap().goes_on);
        store.keep(&raw(2)).unwrap();
        store.keep(&raw(1)).unwrap();
        assert!(store.open(&record(false), &files).unwrap().goes_on);
        let runs = store.runs().unwrap();
        assert_eq!(runs.iter().map(|run| run.number).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(runs[0].failure.as_deref(), Some("it answers wrong bytes"));
        assert_eq!(fs::read_to_string(store.path("experiment/x.lab")).unwrap(), "title x;");
    }

    #[test]
    fn a_folder_of_something_else_is_refused() {
        let folder = Folder::new("other");
        let store = RunStore::at(&folder.0);
        store.open(&record(false), &[]).unwrap();
        let error = store.open(&record(true), &[]).unwrap_err();
        assert!(error.contains("has runs of another quick"), "{error}");
        let occupied = Folder::new("occupied");
        fs::create_dir_all(&occupied.0).unwrap();
        fs::write(occupied.0.join("letter"), "dear").unwrap();
        let error = RunStore::at(&occupied.0).open(&record(false), &[]).unwrap_err();
        assert!(error.contains("is not empty"), "{error}");
        assert!(RunStore::at(&occupied.0).record().unwrap_err().contains("is no bundle"));
    }

    #[test]
    fn a_folder_that_could_not_be_begun_is_begun_again() {
        let folder = Folder::new("begun");
        fs::create_dir_all(&folder.0).unwrap();
        std::os::unix::fs::symlink("/dev/full", folder.0.join("lab.json.part")).unwrap();
        let store = RunStore::at(&folder.0);
        let error = store.open(&record(false), &[]).unwrap_err();
        assert!(error.contains("run the same command again"), "{error}");
        assert!(!store.open(&record(false), &[]).unwrap().goes_on);
        // Runs without a record belong to something else.
        store.keep(&raw(1)).unwrap();
        fs::remove_file(store.path("lab.json")).unwrap();
        assert!(store.open(&record(false), &[]).unwrap_err().contains("is not empty"));
    }

    #[test]
    fn only_one_laboratory_at_a_time_adds_runs() {
        let folder = Folder::new("locked");
        let store = RunStore::at(&folder.0);
        let opened = store.open(&record(false), &[]).unwrap();
        let error = store.open(&record(false), &[]).unwrap_err();
        assert!(error.contains("another `weir lab run`"), "{error}");
        drop(opened);
        store.open(&record(false), &[]).unwrap();
    }

    #[test]
    fn a_folder_from_elsewhere_names_no_file_outside_of_it() {
        let folder = Folder::new("foreign");
        let store = RunStore::at(&folder.0);
        store.open(&record(false), &[]).unwrap();
        let mut run = raw(1);
        for (csv, is_read) in
            [("runs/0001-a.csv", true), ("/dev/zero", false), ("runs/../../x", false)]
        {
            run["csv"] = csv.into();
            store.keep(&run).unwrap();
            assert_eq!(store.runs().unwrap()[0].raw["csv_path"].is_string(), is_read, "{csv}");
        }
        for part in ["workload", "candidate"] {
            let mut run = raw(1);
            run[part] = "../../outside".into();
            fs::write(store.path("runs/bad.json"), run.to_string()).unwrap();
            let error = store.runs().unwrap_err();
            assert!(error.contains("`../../outside` is no name"), "{error}");
        }
        let name = |name: &str| LabRecord { value: json!({"name": name}) }.name().to_owned();
        assert_eq!((name("../x"), name("a b")), ("experiment".to_owned(), "a b".to_owned()));
    }

    /// `/dev/full` fails as a full disk does.
    #[test]
    fn a_full_disk_is_one_sentence_and_loses_no_earlier_run() {
        let folder = Folder::new("full");
        let store = RunStore::at(&folder.0);
        store.open(&record(false), &[]).unwrap();
        store.keep(&raw(1)).unwrap();
        std::os::unix::fs::symlink("/dev/full", folder.0.join("runs/0002-main-a-r100-2.json.part"))
            .unwrap();
        let error = store.keep(&raw(2)).unwrap_err();
        assert!(
            error.contains("No space left") && error.contains("run the same command again"),
            "{error}"
        );
        assert_eq!(store.runs().unwrap().len(), 1);
        store.keep(&raw(2)).unwrap();
        assert_eq!(store.runs().unwrap().len(), 2);
    }
}
