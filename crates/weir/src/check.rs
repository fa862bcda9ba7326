//! `weir check`: reports the errors of a configuration that `weir run` would report. It opens no
//! sockets.

use std::path::{Path, PathBuf};

use clap::Args;
use weir_config::Config;

use crate::cli::CONFIGURATION_FILE;
use crate::failure::{self, Failure};
use crate::terminal;

/// Check a configuration: what it says, its certificates, and the files it names
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Configuration file [default: /etc/weir/weir.conf]
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
    /// The same, for those used to it
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the configuration in its canonical JSON form
    #[arg(long)]
    json: bool,
    /// Print secrets in that form too
    #[arg(long, requires = "json")]
    show_secrets: bool,
}

impl Arguments {
    /// Returns the arguments of a check of this file.
    pub(crate) fn of(file: Option<PathBuf>) -> Self {
        Self { file, config: None, json: false, show_secrets: false }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let named = arguments.file.as_deref().or(arguments.config.as_deref());
    let path = named.unwrap_or(Path::new(CONFIGURATION_FILE));
    let config = load(path)?;
    for warning in weir_control::dry_run(&config).map_err(Failure::RunTime)? {
        terminal::say(&format!("weir: warning: {warning}\n"));
    }
    if arguments.json {
        let shown = if arguments.show_secrets { config } else { config.without_secrets() };
        return terminal::print(&format!("{}\n", weir_config::to_json(&shown).trim_end()));
    }
    terminal::print(&format!("{}: ok\n", path.display()))
}

/// Reads and checks a file. Warnings go to standard error.
pub(crate) fn load(path: &Path) -> Result<Config, Failure> {
    let environment = |name: &str| std::env::var(name).ok();
    match weir_config::load(path, &environment) {
        Ok(checked) => {
            failure::warn(&checked.warnings);
            Ok(checked.config)
        }
        Err(diagnostics) => {
            Err(Failure::Rejected { name: path.display().to_string(), diagnostics })
        }
    }
}
