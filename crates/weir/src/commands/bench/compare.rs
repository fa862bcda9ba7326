//! `weir bench compare`: the comparison of recorded runs. The statistics are in `weir-lab`.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use weir_lab::compare::{ComparedVariant, RecordedRun, RunComparison};

use crate::failure::CommandFailure;
use crate::terminal;

/// Largest size of a file of results, which has no samples of requests in it.
const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// Compare recorded runs: differences with 95 % intervals, and what follows from them in words
#[derive(Args, Clone, Debug)]
pub(super) struct CompareArguments {
    /// The runs of a variant: a file of `weir bench --json`, or a directory of them. The others are
    /// compared with the first
    #[arg(value_name = "[NAME=]RUNS", required = true, num_args = 2..)]
    runs: Vec<String>,
    /// Write the comparison as JSON to this file, or with `-` to standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(super) fn run(arguments: &CompareArguments) -> Result<(), CommandFailure> {
    let variants: Result<Vec<_>, _> = arguments.runs.iter().map(|runs| variant(runs)).collect();
    let comparison = RunComparison::of(variants?).map_err(CommandFailure::Usage)?;
    present(&comparison, arguments.json.as_deref())
}

/// Prints a comparison, and writes it as JSON if requested.
pub(super) fn present(
    comparison: &RunComparison,
    json: Option<&Path>,
) -> Result<(), CommandFailure> {
    let text = format!("{:#}\n", comparison.json());
    match json {
        Some(path) if path == Path::new("-") => return terminal::print(&text),
        Some(path) => fs::write(path, text).map_err(|error| cannot("write", path, &error))?,
        None => {}
    }
    terminal::print(&comparison.text())
}

/// Reads `[NAME=]PATH`.
fn variant(argument: &str) -> Result<ComparedVariant, CommandFailure> {
    let (name, path) = match argument.split_once('=') {
        Some((name, path)) if !name.is_empty() && !Path::new(argument).exists() => (name, path),
        _ => {
            let stem = Path::new(argument).file_stem().and_then(|stem| stem.to_str());
            (stem.unwrap_or(argument), argument)
        }
    };
    let path = Path::new(path);
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        let entries = fs::read_dir(path).map_err(|error| cannot("read", path, &error))?;
        files = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    }
    let runs: Result<Vec<_>, _> = files.iter().map(|file| read(file)).collect();
    Ok(ComparedVariant { name: name.to_owned(), runs: runs? })
}

fn read(path: &Path) -> Result<RecordedRun, CommandFailure> {
    let failed = |error| cannot("read", path, &error);
    let mut text = String::new();
    let file = fs::File::open(path).map_err(failed)?;
    file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MOST_BYTES {
        let sentence = format!("{}: it is too large for the results of a run", path.display());
        return Err(CommandFailure::RunTime(sentence));
    }
    RecordedRun::read(&text)
        .map_err(|error| CommandFailure::RunTime(format!("{}: {error}", path.display())))
}

pub(super) fn cannot(what: &str, path: &Path, error: &std::io::Error) -> CommandFailure {
    CommandFailure::RunTime(format!("cannot {what} {}: {error}", path.display()))
}
