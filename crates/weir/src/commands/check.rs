//! `weir check`: reports the errors of a configuration that `weir run` would report, what its lints
//! find, and of another program's file what becomes of each directive. It opens no sockets.

use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;
use weir_config::{Checked, Origins, SourcedValue, ValueSource, lint, lint_at, sourced};
use weir_import::Coverage;

use crate::admin_client::AdminPlace;
use crate::config_file::{self, CONFIGURATION_FILE, ConfigFile, LanguageArguments};
use crate::failure::CommandFailure;
use crate::terminal;

/// Check a configuration, its certificates and the files that it names
#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct CheckArguments {
    /// Configuration file [default: /etc/weir/weir.conf]
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
    /// Configuration file, as an option
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the configuration in its canonical JSON form, or of another program's file the report
    #[arg(long)]
    json: bool,
    /// Include secrets in the JSON form
    #[arg(long, requires = "json")]
    show_secrets: bool,
    /// Exit with 3 if there are warnings
    #[arg(long)]
    deny_warnings: bool,
    /// Print each value of the configuration with the line that it comes from, or `default`
    #[arg(long, conflicts_with = "json")]
    sources: bool,
    /// State what limits cost at this number of requests per second, or with `observed` at those
    /// of the busiest second of the running Weir [default: 1000]
    #[arg(long, value_name = "NUMBER|observed", value_parser = rate)]
    rate: Option<LintRate>,
    /// Admin address of the running Weir [default: as this file configures it]
    #[arg(long, value_name = "ADDRESS", requires = "rate")]
    admin: Option<String>,
    #[command(flatten)]
    language: LanguageArguments,
}

/// The rate of requests for which the lints state costs.
#[derive(Clone, Copy, Debug)]
enum LintRate {
    PerSecond(u64),
    /// That of the running Weir.
    Observed,
}

fn rate(text: &str) -> Result<LintRate, String> {
    match (text, text.parse()) {
        ("observed", _) => Ok(LintRate::Observed),
        (_, Ok(number)) if number > 0 => Ok(LintRate::PerSecond(number)),
        _ => Err("write a number of requests per second from 1 on, or `observed`".to_owned()),
    }
}

impl CheckArguments {
    /// Returns the arguments of a check of this file.
    pub(crate) fn of(file: Option<PathBuf>) -> Self {
        let language = LanguageArguments::default();
        let (config, json, show_secrets, deny_warnings) = (None, false, false, false);
        let (rate, admin, sources) = (None, None, false);
        Self { file, config, json, show_secrets, deny_warnings, sources, rate, admin, language }
    }

    /// Returns the rate for which costs are stated, if one is given.
    fn rate(&self, path: &Path) -> Result<Option<u64>, CommandFailure> {
        match self.rate {
            None => Ok(None),
            Some(LintRate::PerSecond(rate)) => Ok(Some(rate)),
            Some(LintRate::Observed) => observed(&AdminPlace::of(self.admin.clone(), path)),
        }
    }
}

pub(crate) fn run(arguments: &CheckArguments) -> Result<(), CommandFailure> {
    weir_memory::begin_short_lived();
    let _batching = weir_memory::batch_here();
    let named = arguments.file.as_deref().or(arguments.config.as_deref());
    let path = named.unwrap_or(Path::new(CONFIGURATION_FILE));
    let checked = match config_file::open(path, &arguments.language)? {
        ConfigFile::Native => config_file::checked_file(path, &arguments.language)?,
        ConfigFile::Imported(imported) => {
            let accepted = config_file::accept(&imported, path, &arguments.language);
            let report = if arguments.json { Coverage::json } else { Coverage::text };
            if let Err(refused) = accepted {
                if !arguments.sources {
                    terminal::print(&report(&imported.coverage))?;
                }
                return Err(refused);
            }
            let checked = if arguments.sources {
                let checked = config_file::checked(*imported, path)?;
                terminal::print(&sources(&checked))?;
                checked
            } else {
                config_file::checked_with_report(*imported, path, report)?
            };
            let rate = arguments.rate(path)?;
            let warnings = warn(&checked, rate)?;
            leave(checked);
            return verdict(arguments, path, warnings);
        }
    };
    let warnings = warn(&checked, arguments.rate(path)?)?;
    if warnings > 0 && arguments.deny_warnings {
        return verdict(arguments, path, warnings);
    }
    if arguments.sources {
        return terminal::print(&sources(&checked));
    }
    if arguments.json {
        let config = checked.config;
        let shown = if arguments.show_secrets { config } else { config.without_secrets() };
        return terminal::print(&format!("{}\n", weir_config::to_json(&shown).trim_end()));
    }
    let count = match warnings {
        0 => String::new(),
        1 => ", 1 warning".to_owned(),
        more => format!(", {more} warnings"),
    };
    leave(checked);
    terminal::print(&format!("{}: ok{count}\n", path.display()))
}

/// Writes what the lints and a start's checks find; returns the number of all warnings, those that
/// were written when the file was read included.
fn warn(checked: &Checked, rate: Option<u64>) -> Result<usize, CommandFailure> {
    let (found, of_start) = std::thread::scope(|scope| {
        let lints = || {
            let _batching = weir_memory::batch_here();
            rate.map_or_else(|| lint(checked), |rate| lint_at(checked, rate))
        };
        let lints = scope.spawn(lints);
        let of_start = weir_control::dry_run(&checked.config);
        let found = lints.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (found, of_start)
    });
    terminal::warn(&found);
    let of_start = of_start.map_err(CommandFailure::RunTime)?;
    for warning in &of_start {
        terminal::say(&format!("weir: warning: {warning}\n"));
    }
    Ok(checked.warnings.count() + found.count() + of_start.len())
}

/// Leaves the memory of a configuration to the end of the process: of a long one it takes longer to
/// free than to read.
fn leave(checked: Checked) {
    let _ = ManuallyDrop::new(checked);
}

/// Lists the values of a configuration with their sources.
fn sources(checked: &Checked) -> String {
    let config = checked.config.without_secrets();
    let values = sourced(&config, &config, &Origins::of(checked));
    let line = |one: SourcedValue| {
        let source = match &one.source {
            ValueSource::Line { file, line } => format!("{file}:{line}"),
            _ => "default".to_owned(),
        };
        config_file::value_line(&source, &one.path, &one.value)
    };
    values.into_iter().map(line).collect()
}

/// Asks the running Weir for the requests of its listeners in the busiest second of each, in all.
fn observed(place: &AdminPlace) -> Result<Option<u64>, CommandFailure> {
    let told = place.ask("GET", "/v1/listeners", None)?;
    let told: Value = serde_json::from_str(&told.body)
        .map_err(|error| CommandFailure::RunTime(format!("the answer is not JSON: {error}")))?;
    let listeners = told["listeners"].as_array().map_or(&[][..], Vec::as_slice);
    let busiest = |one: &Value| one["traffic"]["per_second_max"].as_u64().unwrap_or_default();
    match listeners.iter().map(busiest).sum() {
        0 => Err(CommandFailure::RunTime(format!(
            "{} has had no request yet, so no rate is observed: give one with `--rate NUMBER`",
            place.name()?
        ))),
        rate => {
            terminal::say(&format!(
                "weir: costs are stated for {rate} requests per second, the sum of the busiest \
                 seconds of all listeners; none has more\n"
            ));
            Ok(Some(rate))
        }
    }
}

fn verdict(arguments: &CheckArguments, path: &Path, warnings: usize) -> Result<(), CommandFailure> {
    if warnings == 0 || !arguments.deny_warnings {
        return Ok(());
    }
    let plural = if warnings == 1 { "" } else { "s" };
    Err(CommandFailure::NotConverted(format!(
        "{}: {warnings} warning{plural}, which --deny-warnings does not accept",
        path.display()
    )))
}
