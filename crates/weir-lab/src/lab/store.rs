//! The folder of an experiment: its file, its configurations, and one file for each run, written as
//! soon as the run is made and put in place as a whole. An interrupted experiment goes on from it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::findings::LabRun;

/// What an experiment is: it goes on only if this is the same.
#[derive(Clone, Debug)]
pub struct LabRecord {
    /// Everything that the report says about the experiment as a whole.
    pub value: Value,
}

/// The folder.
#[derive(Clone, Debug)]
pub struct RunStore {
    directory: PathBuf,
}

/// The parts of the record that must be the same when an experiment goes on.
const IDENTITY: [&str; 5] = ["experiment", "quick", "machine", "cores", "versions"];

impl RunStore {
    /// A folder, new or with an experiment in it.
    pub fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Creates the folder for this experiment, or makes sure that it is of the same one. Returns
    /// true if there are runs to go on from.
    ///
    /// # Errors
    /// One sentence if it is the folder of something else, or cannot be written to.
    pub fn open(&self, record: &LabRecord, files: &[(String, String)]) -> Result<bool, String> {
        let place = self.path("lab.json");
        if place.exists() {
            let before = self.record()?;
            for part in IDENTITY {
                if before.value[part] != record.value[part] {
                    let name = self.directory.display();
                    return Err(format!(
                        "{name} has runs of another {part}; name a new folder with --out"
                    ));
                }
            }
            return Ok(!self.runs()?.is_empty());
        }
        let occupied =
            fs::read_dir(&self.directory).is_ok_and(|mut entries| entries.next().is_some());
        if occupied {
            let name = self.directory.display();
            return Err(format!(
                "{name} is not empty and has no experiment; name a new folder with --out"
            ));
        }
        fs::create_dir_all(self.path("runs")).map_err(|error| self.failed("runs", &error))?;
        for (name, text) in files {
            self.write(name, text.as_bytes())?;
        }
        self.write("lab.json", format!("{:#}\n", record.value).as_bytes())?;
        Ok(false)
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
            let text = fs::read_to_string(&path).map_err(|error| failed(&error))?;
            let mut raw: Value = serde_json::from_str(&text).map_err(|error| failed(&error))?;
            if let Some(csv) = raw["csv"].as_str() {
                raw["csv_path"] = self.path(csv).display().to_string().into();
            }
            found.push(LabRun::of(raw).map_err(|error| failed(&error))?);
        }
        found.sort_by_key(|run| run.number);
        Ok(found)
    }
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
        assert!(!store.open(&record(false), &files).unwrap());
        store.keep(&raw(2)).unwrap();
        store.keep(&raw(1)).unwrap();
        assert!(store.open(&record(false), &files).unwrap());
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
