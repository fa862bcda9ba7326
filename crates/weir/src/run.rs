//! `weir run`: the proxy in the foreground, from a configuration file. The other commands that
//! serve also call [`serve_until_stopped`].

use std::path::PathBuf;

use clap::Args;
use weir_config::Config;
use weir_config::model::Workers;
use weir_control::{Role, Server, Source, SupervisorRights};

use crate::check;
use crate::cli::CONFIGURATION_FILE;
use crate::failure::Failure;

/// Run the proxy in the foreground
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = CONFIGURATION_FILE)]
    config: PathBuf,
    /// Serve in this process; nothing starts it again when it dies
    #[arg(long)]
    no_supervisor: bool,
    #[command(flatten)]
    workers: WorkerCount,
}

/// The number of worker threads, for every command that serves.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct WorkerCount {
    /// Worker threads [default: as configured, else one per allowed core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
}

impl WorkerCount {
    /// Overrides the number of workers of the configuration.
    pub(crate) fn apply(self, config: &mut Config) {
        if let Some(count) = self.workers {
            config.workers = Workers::Count(usize::from(count));
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let config = check::load(&arguments.config)?;
    let mut config = if is_supervised(arguments, &config) {
        let rights = if config.sandbox { SupervisorRights::Needed } else { SupervisorRights::All };
        match weir_control::supervise(config, rights).map_err(Failure::RunTime)? {
            Role::Ended(0) => return Ok(()),
            Role::Ended(code) => return Err(Failure::Exit(code)),
            Role::Serves(Some(config)) => config,
            // The file may have changed since the first process was started.
            Role::Serves(None) => check::load(&arguments.config)?,
        }
    } else {
        config
    };
    arguments.workers.apply(&mut config);
    let (path, workers) = (arguments.config.clone(), arguments.workers);
    let read = move || {
        let mut config = check::load(&path).map_err(|failure| failure.text())?;
        workers.apply(&mut config);
        Ok(config)
    };
    let source = Source { path: arguments.config.clone(), read: Box::new(read) };
    serve(&config, Some(source))
}

/// Returns true if a supervisor has to be started. A successor keeps the supervisor of its
/// predecessor.
fn is_supervised(arguments: &Arguments, config: &Config) -> bool {
    let off = std::env::var_os("WEIR_SUPERVISOR").is_some_and(|value| value == "off");
    config.supervisor && !arguments.no_supervisor && !off && !weir_control::is_successor()
}

/// Starts the proxy, prints its addresses and serves until a signal ends it.
pub(crate) fn serve_until_stopped(config: &Config) -> Result<(), Failure> {
    serve(config, None)
}

fn serve(config: &Config, source: Option<Source>) -> Result<(), Failure> {
    let server = Server::start(config, source, weir_admin::start).map_err(Failure::RunTime)?;
    server.announce();
    server.run().map_err(Failure::RunTime)
}
