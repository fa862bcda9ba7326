//! `weir bench compare`: the comparison of recorded runs. The statistics are in `weir-lab`.

use std::fs;
use std::io::{Read, Write};
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
    let named: Vec<(Option<&str>, &Path)> =
        arguments.runs.iter().map(|runs| name_and_path(runs)).collect();
    let names = names(&named);
    let variants: Result<Vec<_>, _> =
        names.into_iter().zip(&named).map(|(name, (_, path))| variant(name, path)).collect();
    let comparison = RunComparison::of(variants?).map_err(CommandFailure::Usage)?;
    ComparisonOutput::open(arguments.json.as_deref())?.write(&comparison)
}

/// The place of a comparison. It is opened before the runs, so that a wrong path costs none.
pub(super) enum ComparisonOutput {
    /// The report, on standard output.
    Text,
    /// JSON on standard output.
    Json,
    /// The report on standard output, and JSON in a file.
    Both(PathBuf, fs::File),
}

impl ComparisonOutput {
    pub(super) fn open(json: Option<&Path>) -> Result<Self, CommandFailure> {
        match json {
            None => Ok(Self::Text),
            Some(path) if path == Path::new("-") => Ok(Self::Json),
            Some(path) => {
                let file = fs::File::create(path).map_err(|error| cannot("write", path, &error))?;
                Ok(Self::Both(path.to_owned(), file))
            }
        }
    }

    /// Prints the comparison first, so that a full disk does not lose it.
    pub(super) fn write(self, comparison: &RunComparison) -> Result<(), CommandFailure> {
        let json = || format!("{:#}\n", comparison.json());
        match self {
            Self::Text => terminal::print(&comparison.text()),
            Self::Json => terminal::print(&json()),
            Self::Both(path, mut file) => {
                terminal::print(&comparison.text())?;
                file.write_all(json().as_bytes()).map_err(|error| cannot("write", &path, &error))
            }
        }
    }
}

/// Splits `[NAME=]PATH`.
fn name_and_path(argument: &str) -> (Option<&str>, &Path) {
    match argument.split_once('=') {
        Some((name, path)) if !name.is_empty() && !Path::new(argument).exists() => {
            (Some(name), Path::new(path))
        }
        _ => (None, Path::new(argument)),
    }
}

/// The names of variants: those given, or else those of the directories or files. Where two have
/// the same, the directory above is part of them.
fn names(named: &[(Option<&str>, &Path)]) -> Vec<String> {
    let short: Vec<String> = named
        .iter()
        .map(|(name, path)| name.map_or_else(|| name_of(path), str::to_owned))
        .collect();
    let is_twice = |own: &String| short.iter().filter(|other| *other == own).count() > 1;
    let long = |((name, path), own): (&(Option<&str>, &Path), &String)| {
        let above = path.parent().and_then(Path::file_name);
        match above.filter(|_| name.is_none() && is_twice(own)) {
            Some(above) => format!("{}/{own}", above.display()),
            None => own.clone(),
        }
    };
    named.iter().zip(&short).map(long).collect()
}

/// The name of a directory, or of a file without `.json`.
fn name_of(path: &Path) -> String {
    let name = if path.is_dir() { path.file_name() } else { path.file_stem() };
    name.unwrap_or(path.as_os_str()).display().to_string()
}

/// Reads the runs of a variant.
fn variant(name: String, path: &Path) -> Result<ComparedVariant, CommandFailure> {
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        let entries = fs::read_dir(path).map_err(|error| cannot("read", path, &error))?;
        files = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    }
    let runs: Result<Vec<_>, _> = files.iter().map(|file| read(file)).collect();
    Ok(ComparedVariant { name, runs: runs? })
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
