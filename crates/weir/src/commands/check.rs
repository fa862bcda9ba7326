//! `weir check`: reports the errors of a configuration that `weir run` would report, and of another
//! program's file what becomes of each directive. It opens no sockets.

use std::path::{Path, PathBuf};

use clap::Args;
use weir_config::Config;

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
    #[command(flatten)]
    language: LanguageArguments,
}

impl CheckArguments {
    /// Returns the arguments of a check of this file.
    pub(crate) fn of(file: Option<PathBuf>) -> Self {
        let language = LanguageArguments::default();
        Self { file, config: None, json: false, show_secrets: false, language }
    }
}

pub(crate) fn run(arguments: &CheckArguments) -> Result<(), CommandFailure> {
    let named = arguments.file.as_deref().or(arguments.config.as_deref());
    let path = named.unwrap_or(Path::new(CONFIGURATION_FILE));
    let config = match config_file::open(path, arguments.language)? {
        ConfigFile::Native => config_file::native(path)?,
        ConfigFile::Imported(imported) => {
            let coverage = &imported.coverage;
            terminal::print(&if arguments.json { coverage.json() } else { coverage.text() })?;
            config_file::accept(&imported, path, arguments.language)?;
            dry_run(&config_file::checked(*imported, path)?)?;
            return Ok(());
        }
    };
    dry_run(&config)?;
    if arguments.json {
        let shown = if arguments.show_secrets { config } else { config.without_secrets() };
        return terminal::print(&format!("{}\n", weir_config::to_json(&shown).trim_end()));
    }
    terminal::print(&format!("{}: ok\n", path.display()))
}

fn dry_run(config: &Config) -> Result<(), CommandFailure> {
    for warning in weir_control::dry_run(config).map_err(CommandFailure::RunTime)? {
        terminal::say(&format!("weir: warning: {warning}\n"));
    }
    Ok(())
}
