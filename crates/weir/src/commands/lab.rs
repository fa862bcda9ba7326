//! `weir lab`: experiments that compare proxies. This is the command line; the laboratory is in
//! `weir-lab`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use weir_lab::bundle::{self, LabResults};
use weir_lab::experiment::{self, Experiment};
use weir_lab::findings::remaining_steps;
use weir_lab::lab::directory::sweep;
use weir_lab::lab::guard::{GuardSpec, guard};
use weir_lab::lab::{self, LabFailure, LabRequest, RunStore};

use crate::failure::CommandFailure;
use crate::terminal::{self, say};

const NOTES: &str = "\
An experiment is a file with candidates, their printed configurations, loads and rules; those of the
repository are in experiments/. The folder of results has report.html, charts, figures as CSV and
JSON, histograms, the raw runs, configurations, and rerun.sh.

Examples:
  weir lab run experiments/tail-at-saturation.lab --quick
  weir lab run experiments/nginx-haproxy-2021.lab --out results
  weir lab compare results results-again";

/// Compare proxies by experiment files: run, report, compare results
#[derive(Args, Debug)]
#[command(after_help = NOTES, disable_help_subcommand = true)]
pub(crate) struct LabArguments {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    Run(ExperimentArguments),
    Check(LabCheck),
    Report(LabReport),
    Compare(LabCompare),
    #[command(hide = true)]
    Guard(LabGuard),
    #[command(hide = true)]
    Sweep(LabSweep),
}

/// Run an experiment, or go on with an interrupted one
#[derive(Args, Debug)]
struct ExperimentArguments {
    /// Experiment file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Run the short form of the experiment
    #[arg(long)]
    quick: bool,
    /// Folder of the results; an interrupted experiment goes on in its folder [default: the name of
    /// the experiment with `-results`]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Folder for the small results as well: figures as Markdown, charts as SVG
    #[arg(long, value_name = "DIR")]
    publish: Option<PathBuf>,
}

/// Check an experiment file, and say how many runs it has and how long they take
#[derive(Args, Debug)]
struct LabCheck {
    /// Experiment files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// Write the report of a folder of results again, as far as it was measured
#[derive(Args, Debug)]
struct LabReport {
    /// Folder of results
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Folder for the small results as well
    #[arg(long, value_name = "DIR")]
    publish: Option<PathBuf>,
}

/// Put two folders of results side by side
#[derive(Args, Debug)]
struct LabCompare {
    /// Folder of results
    #[arg(value_name = "A")]
    first: PathBuf,
    /// The other one
    #[arg(value_name = "B")]
    second: PathBuf,
    /// Write the comparison as a page as well
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// The parent of a program of an experiment
#[derive(Args, Debug)]
struct LabGuard {
    /// Cores that the program may use
    #[arg(long, value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Control group that it enters
    #[arg(long)]
    group: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Remove a directory of the laboratory at the end of standard input
#[derive(Args, Debug)]
struct LabSweep {
    /// The directory
    directory: PathBuf,
}

pub(crate) fn run(arguments: &LabArguments) -> Result<(), CommandFailure> {
    match &arguments.command {
        LabCommand::Run(arguments) => run_experiment(arguments),
        LabCommand::Check(arguments) => arguments.files.iter().try_for_each(|file| check(file)),
        LabCommand::Report(arguments) => {
            let text = report(&arguments.folder, arguments.publish.as_deref())?;
            terminal::print(&text)
        }
        LabCommand::Compare(arguments) => compare(arguments),
        LabCommand::Sweep(arguments) => {
            sweep(&arguments.directory).map_err(CommandFailure::RunTime)
        }
        LabCommand::Guard(arguments) => {
            let spec = GuardSpec {
                cores: arguments.cpus.clone(),
                group: arguments.group.clone(),
                command: arguments.command.clone(),
            };
            match guard(&spec).map_err(CommandFailure::RunTime)? {
                0 => Ok(()),
                code => Err(CommandFailure::Exit(code)),
            }
        }
    }
}

fn read(file: &Path, quick: bool) -> Result<Experiment, CommandFailure> {
    let environment = |name: &str| std::env::var(name).ok();
    let found = experiment::read(file, &environment).map_err(|diagnostics| {
        CommandFailure::Rejected { name: file.display().to_string(), diagnostics }
    })?;
    Ok(if quick { found.into_quick() } else { found })
}

fn check(file: &Path) -> Result<(), CommandFailure> {
    for quick in [false, true] {
        let experiment = read(file, quick)?;
        let names: Vec<String> =
            experiment.candidates.iter().map(|one| one.role.name.clone()).collect();
        let steps = remaining_steps(&experiment, &names, &[]);
        let minutes = steps.iter().sum::<u64>() as f64 / 60e9;
        let form = if quick { ", quick form" } else { "" };
        let line = format!(
            "{}{form}: at most {} runs, {minutes:.1} minutes of load\n",
            file.display(),
            steps.len()
        );
        terminal::print(&line)?;
    }
    Ok(())
}

fn run_experiment(arguments: &ExperimentArguments) -> Result<(), CommandFailure> {
    let experiment = read(&arguments.file, arguments.quick)?;
    let cannot = |what: &str, error: &std::io::Error| {
        CommandFailure::RunTime(format!("cannot {what}: {error}"))
    };
    let name = arguments
        .file
        .file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or("experiment")
        .to_owned();
    let text = fs::read_to_string(&arguments.file)
        .map_err(|error| cannot("read the experiment", &error))?;
    let mut files = vec![(format!("experiment/{name}.lab"), text)];
    for config in experiment.candidates.iter().flat_map(|candidate| &candidate.configs) {
        let file = (format!("experiment/{}", config.path), config.text.clone());
        if !files.contains(&file) {
            files.push(file);
        }
    }
    let out = arguments.out.clone().unwrap_or_else(|| PathBuf::from(format!("{name}-results")));
    let out =
        std::path::absolute(&out).map_err(|error| cannot("find the folder of results", &error))?;
    let weir = std::env::current_exe().map_err(|error| cannot("find this program", &error))?;
    let request = LabRequest { experiment, name, files, weir, out: out.clone() };
    let ended = lab::run(&request, &mut |line| say(line));
    // What was measured is reported, whatever ended the experiment.
    let reported = match &ended {
        Ok(_) => report(&out, arguments.publish.as_deref()).map(Some),
        Err(_) if RunStore::at(&out).runs().is_ok_and(|runs| !runs.is_empty()) => {
            report(&out, None).map(|_| None)
        }
        Err(_) => Ok(None),
    };
    match ended {
        Ok(_) => {
            terminal::print(&reported?.unwrap_or_default())?;
            say(&format!("the report is {}\n", out.join("report.html").display()));
            Ok(())
        }
        Err(LabFailure::Interrupted) => {
            let command = format!("stopped; the same command with --out {} goes on", out.display());
            Err(CommandFailure::RunTime(command))
        }
        Err(LabFailure::Sentence(sentence)) => Err(CommandFailure::RunTime(sentence)),
    }
}

/// A folder of results with its experiment.
struct Bundle {
    store: RunStore,
    experiment: Experiment,
    record: lab::LabRecord,
    runs: Vec<weir_lab::findings::LabRun>,
}

impl Bundle {
    fn open(folder: &Path) -> Result<Self, CommandFailure> {
        let store = RunStore::at(folder);
        let record = store.record().map_err(CommandFailure::RunTime)?;
        let name = record.name();
        let file = store.path(&format!("experiment/{name}.lab"));
        let experiment = read(&file, record.value["quick"].as_bool().unwrap_or(false))?;
        let runs = store.runs().map_err(CommandFailure::RunTime)?;
        Ok(Self { store, experiment, record, runs })
    }

    fn results(&self) -> LabResults<'_> {
        LabResults { experiment: &self.experiment, record: &self.record, runs: &self.runs }
    }
}

fn report(folder: &Path, publish: Option<&Path>) -> Result<String, CommandFailure> {
    let bundle = Bundle::open(folder)?;
    bundle::write(bundle.results(), &bundle.store).map_err(CommandFailure::RunTime)?;
    if let Some(directory) = publish {
        bundle::publish(bundle.results(), directory).map_err(CommandFailure::RunTime)?;
    }
    Ok(bundle::summary(bundle.results()))
}

fn compare(arguments: &LabCompare) -> Result<(), CommandFailure> {
    let (one, other) = (Bundle::open(&arguments.first)?, Bundle::open(&arguments.second)?);
    let names = [&arguments.first, &arguments.second].map(|path| path.display().to_string());
    let (text, page) = bundle::compare([&names[0], &names[1]], [one.results(), other.results()]);
    if let Some(path) = &arguments.html {
        fs::write(path, page).map_err(|error| {
            CommandFailure::RunTime(format!("cannot write {}: {error}", path.display()))
        })?;
    }
    terminal::print(&text)
}
