//! `weir check`: reports the errors of a configuration that `weir run` would report. It opens no
//! sockets.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::config_file::{self, CONFIGURATION_FILE};
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
    /// Print the configuration in its canonical JSON form
    #[arg(long)]
    json: bool,
    /// Include secrets in the JSON form
    #[arg(long, requires = "json")]
    show_secrets: bool,
}

impl CheckArguments {
    /// Returns the arguments of a check of this file.
    pub(crate) fn of(file: Option<PathBuf>) -> Self {
        Self { file, config: None, json: false, show_secrets: false }
    }
}

pub(crate) fn run(arguments: &CheckArguments) -> Result<(), CommandFailure> {
    let named = arguments.file.as_deref().or(arguments.config.as_deref());
    let path = named.unwrap_or(Path::new(CONFIGURATION_FILE));
    let config = config_file::load(path)?;
    for warning in weir_control::dry_run(&config).map_err(CommandFailure::RunTime)? {
        terminal::say(&format!("weir: warning: {warning}\n"));
    }
    if arguments.json {
        let shown = if arguments.show_secrets { config } else { config.without_secrets() };
        return terminal::print(&format!("{}\n", weir_config::to_json(&shown).trim_end()));
    }
    terminal::print(&format!("{}: ok\n", path.display()))
}
