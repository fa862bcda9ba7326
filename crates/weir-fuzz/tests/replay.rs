//! Replays the corpora and every finding in `findings/`: each input must pass its target.

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use weir_fuzz::{FuzzTarget, TARGETS};

/// Counts allocations, so that the connection target can compare them with its budget.
#[global_allocator]
static ALLOCATOR: weir_memory::Counting = weir_memory::Counting;

fn inputs(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn replay(target: &FuzzTarget, folder: &str) -> usize {
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
fn every_finding_passes() {
    for target in TARGETS {
        replay(target, "findings");
    }
}

/// A generator from a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)) % end.max(1) as u64) as usize
    }
}

/// An input of the corpus with a few bytes changed, or two inputs joined.
fn changed(inputs: &[Vec<u8>], random: &mut Random, most: usize) -> Vec<u8> {
    let mut input = inputs[random.below(inputs.len())].clone();
    if random.below(3) == 0 {
        let other = &inputs[random.below(inputs.len())];
        let cut = random.below(input.len() + 1);
        input.truncate(cut);
        input.extend_from_slice(&other[random.below(other.len() + 1)..]);
    }
    for _ in 0..random.below(5) {
        let at = random.below(input.len());
        match random.below(4) {
            0 if !input.is_empty() => drop(input.remove(at)),
            1 if !input.is_empty() => input[at] = random.below(256) as u8,
            2 if !input.is_empty() => input[at] ^= 1 << random.below(8),
            _ => input.insert(at, random.below(256) as u8),
        }
    }
    input.truncate(most);
    input
}

/// Runs random changes of the corpora without libFuzzer, the same ones each time. `WEIR_FUZZ_CASES`
/// sets their number per target, and `WEIR_FUZZ_TARGET` restricts the run to one target.
#[test]
fn changed_inputs_of_the_corpora_pass() {
    let cases = std::env::var("WEIR_FUZZ_CASES").ok().and_then(|text| text.parse().ok());
    let only = std::env::var("WEIR_FUZZ_TARGET").ok();
    for target in
        TARGETS.iter().filter(|target| only.as_ref().is_none_or(|only| only == target.name))
    {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
        let read = |path: &PathBuf| fs::read(path).unwrap();
        let known: Vec<Vec<u8>> = inputs(&folder).iter().map(read).collect();
        let mut random = Random(7);
        for number in 0..cases.unwrap_or(300) {
            let input = changed(&known, &mut random, target.max_bytes);
            let run = target.run;
            if catch_unwind(|| run(&input)).is_err() {
                let name = format!("{}-{number}", target.name);
                let path = std::env::temp_dir().join(name);
                fs::write(&path, &input).unwrap();
                panic!("{} fails for {}", target.name, path.display());
            }
        }
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
