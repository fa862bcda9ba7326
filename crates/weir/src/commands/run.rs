//! `weir run`: the proxy in the foreground, from a configuration file.

use std::path::PathBuf;

use clap::Args;
use weir_config::Config;
use weir_control::{ConfigSource, ProcessRole, SupervisorRights};

use crate::config_file::{self, CONFIGURATION_FILE, LanguageArguments};
use crate::failure::CommandFailure;
use crate::serving::{WorkerCount, serve};

/// Run the proxy in the foreground
#[derive(Args, Debug)]
pub(crate) struct RunArguments {
    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = CONFIGURATION_FILE)]
    config: PathBuf,
    /// Serve in this process, without a supervisor that restarts it
    #[arg(long)]
    no_supervisor: bool,
    #[command(flatten)]
    language: LanguageArguments,
    #[command(flatten)]
    workers: WorkerCount,
}

pub(crate) fn run(arguments: &RunArguments) -> Result<(), CommandFailure> {
    let (config, mut origins) = config_file::load(&arguments.config, &arguments.language)?;
    let mut config = if is_supervised(arguments, &config) {
        let rights = if config.sandbox { SupervisorRights::Needed } else { SupervisorRights::All };
        match weir_control::supervise(config, rights).map_err(CommandFailure::RunTime)? {
            ProcessRole::Ended(0) => return Ok(()),
            ProcessRole::Ended(code) => return Err(CommandFailure::Exit(code)),
            ProcessRole::Serves(Some(config)) => config,
            // The file may have changed since the first process was started.
            ProcessRole::Serves(None) => {
                let (config, now) = config_file::load(&arguments.config, &arguments.language)?;
                origins = now;
                config
            }
        }
    } else {
        config
    };
    arguments.workers.apply_over(&mut config, &mut origins);
    let (path, workers) = (arguments.config.clone(), arguments.workers);
    let language = arguments.language.clone();
    let read = move || {
        let read = config_file::load(&path, &language).map_err(|failure| failure.text())?;
        let (mut config, mut origins) = read;
        workers.apply_over(&mut config, &mut origins);
        Ok((config, origins))
    };
    let source = ConfigSource { path: arguments.config.clone(), origins, read: Box::new(read) };
    serve(&config, Some(source))
}

/// Returns true if a supervisor has to be started. A successor keeps the supervisor of its
/// predecessor.
fn is_supervised(arguments: &RunArguments, config: &Config) -> bool {
    let off = std::env::var_os("WEIR_SUPERVISOR").is_some_and(|value| value == "off");
    config.supervisor && !arguments.no_supervisor && !off && !weir_control::is_successor()
}
