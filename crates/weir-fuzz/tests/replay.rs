//! Replays the corpora, and every finding that lies in `findings/`: each input must pass its target.

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use weir_fuzz::{TARGETS, Target};

fn inputs(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn replay(target: &Target, folder: &str) -> usize {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let paths = inputs(&root.join(folder).join(target.name));
    for path in &paths {
        let input = fs::read(path).unwrap();
        let run = target.run;
        assert!(
            catch_unwind(|| run(&input)).is_ok(),
            "{} fails for {} ({} bytes)",
            target.name,
            path.display(),
            input.len()
        );
    }
    paths.len()
}

#[test]
fn every_input_of_the_corpora_passes() {
    for target in TARGETS {
        let count = replay(target, "corpus");
        assert!(count > 0, "{} has no corpus", target.name);
    }
}

#[test]
fn findings_are_mended() {
    for target in TARGETS {
        replay(target, "findings");
    }
}

#[test]
fn every_target_has_a_libfuzzer_program_and_no_corpus_is_orphaned() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for target in TARGETS {
        let program = root.join(format!("fuzz/fuzz_targets/{}.rs", target.name));
        assert!(program.is_file(), "{} is missing", program.display());
    }
    for folder in inputs(&root.join("corpus")) {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        assert!(TARGETS.iter().any(|target| target.name == name), "corpus/{name} has no target");
    }
}

/// A reader of a failure sees which property broke: the reference refuses what a lenient parser would take.
#[test]
fn canaries_are_found() {
    let fails = |name: &str, input: &[u8]| {
        let run = weir_fuzz::target(name).run;
        catch_unwind(|| run(input)).is_err()
    };
    assert!(!fails("requests", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert!(!fails("chunked", b"0\r\nHost: a\r\n\r\n"));
}
