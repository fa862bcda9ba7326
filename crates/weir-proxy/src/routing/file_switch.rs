//! Conditions on the existence of files. The control plane looks at the files once a second, so
//! that no request waits for a disk; a request sees what was found last.

use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_config::model::FileTest;

/// A test of a file with its latest outcome.
#[derive(Debug)]
pub struct FileSwitch {
    test: FileTest,
    path: Box<Path>,
    holds: AtomicBool,
}

impl FileSwitch {
    /// Creates a switch that does not hold before the first look.
    pub(crate) fn new(test: FileTest, path: &Path) -> Self {
        Self { test, path: path.into(), holds: AtomicBool::new(false) }
    }

    /// Returns true if the test held at the last look.
    pub(crate) fn holds(&self) -> bool {
        self.holds.load(Ordering::Relaxed)
    }

    pub(crate) fn test(&self) -> FileTest {
        self.test
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks at the file, below `root` if the process is going to change its root directory. A file
    /// that cannot be looked at does not exist. It may block.
    pub fn look(&self, root: Option<&Path>) {
        let inner = self.path.strip_prefix("/").unwrap_or(&self.path);
        let found = match root {
            None => std::fs::metadata(&self.path),
            Some(root) => std::fs::metadata(root.join(inner)),
        };
        self.note(found.ok().as_ref());
    }

    /// Notes what was found.
    pub fn note(&self, found: Option<&Metadata>) {
        let holds = found.is_some_and(|found| match self.test {
            FileTest::File => found.is_file(),
            FileTest::Directory => found.is_dir(),
            FileTest::Exists => true,
            // The owner may execute it, as nginx's `-x` has it.
            FileTest::Executable => found.permissions().mode() & 0o100 != 0,
        });
        self.holds.store(holds, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_holds_what_the_last_look_found() {
        let folder = std::env::temp_dir().join(format!("weir-switch-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("on");
        let tests = [FileTest::File, FileTest::Directory, FileTest::Exists, FileTest::Executable];
        let check = |path: &Path, expected: [bool; 4]| {
            for (test, expected) in tests.into_iter().zip(expected) {
                let switch = FileSwitch::new(test, path);
                assert!(!switch.holds());
                switch.look(None);
                assert_eq!(switch.holds(), expected, "{test:?} {}", path.display());
            }
        };
        check(&file, [false; 4]);
        std::fs::write(&file, "").unwrap();
        let switch = FileSwitch::new(FileTest::File, &file);
        switch.look(None);
        assert!(switch.holds());
        check(&file, [true, false, true, false]);
        check(&folder, [false, true, true, true]);
        let within = FileSwitch::new(FileTest::File, Path::new("/on"));
        within.look(Some(&folder));
        assert!(within.holds());
        std::fs::remove_file(&file).unwrap();
        assert!(switch.holds());
        switch.look(None);
        assert!(!switch.holds());
        std::fs::remove_dir(&folder).unwrap();
    }
}
