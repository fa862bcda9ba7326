//! `weir check`: reports the errors of a configuration that `weir run` would report, what its lints
//! find, and of another program's file what becomes of each directive. It opens no sockets.

use std::path::{Path, PathBuf};

use clap::Args;
use weir_config::{Checked, lint};

use crate::config_file::{self, CONFIGURATION_FILE, ConfigFile, LanguageArguments};
use crate::failure::CommandFailure;
use crate::terminal;

/// Check a configuration, its certificates and the files that it names
#[derive(Args, Debug)]
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
    #[command(flatten)]
    language: LanguageArguments,
}

impl CheckArguments {
    /// Returns the arguments of a check of this file.
    pub(crate) fn of(file: Option<PathBuf>) -> Self {
        let language = LanguageArguments::default();
        let (config, json, show_secrets, deny_warnings) = (None, false, false, false);
        Self { file, config, json, show_secrets, deny_warnings, language }
    }
}

pub(crate) fn run(arguments: &CheckArguments) -> Result<(), CommandFailure> {
    let named = arguments.file.as_deref().or(arguments.config.as_deref());
    let path = named.unwrap_or(Path::new(CONFIGURATION_FILE));
    let checked = match config_file::open(path, &arguments.language)? {
        ConfigFile::Native => config_file::checked_file(path, &arguments.language)?,
        ConfigFile::Imported(imported) => {
            let coverage = &imported.coverage;
            terminal::print(&if arguments.json { coverage.json() } else { coverage.text() })?;
            config_file::accept(&imported, path, &arguments.language)?;
            let checked = config_file::checked(*imported, path)?;
            return verdict(arguments, path, warn(&checked)?);
        }
    };
    let warnings = warn(&checked)?;
    if warnings > 0 && arguments.deny_warnings {
        return verdict(arguments, path, warnings);
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
    terminal::print(&format!("{}: ok{count}\n", path.display()))
}

/// Writes what the lints and a start's checks find; returns the number of all warnings, those that
/// were written when the file was read included.
fn warn(checked: &Checked) -> Result<usize, CommandFailure> {
    let found = lint(checked);
    terminal::warn(&found);
    let of_start = weir_control::dry_run(&checked.config).map_err(CommandFailure::RunTime)?;
    for warning in &of_start {
        terminal::say(&format!("weir: warning: {warning}\n"));
    }
    Ok(checked.warnings.count() + found.count() + of_start.len())
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
