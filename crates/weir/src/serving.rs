//! Serving in the foreground: the part that all commands with a proxy share.

use clap::Args;
use weir_config::model::Workers;
use weir_config::{Config, Origins};
use weir_control::{ConfigSource, Server};

use crate::failure::CommandFailure;

/// The number of worker threads, for every command that serves.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct WorkerCount {
    /// Worker threads [default: as configured, otherwise one per allowed core]
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

    /// Does the same, and notes that the value does not come from the file.
    pub(crate) fn apply_over(self, config: &mut Config, origins: &mut Origins) {
        self.apply(config);
        if self.workers.is_some() {
            origins.replace("workers");
        }
    }
}

/// Starts the proxy, prints its addresses and serves until a signal ends it.
pub(crate) fn serve_until_stopped(config: &Config) -> Result<(), CommandFailure> {
    serve(config, None)
}

/// Does the same; `source` reads the configuration again for a reload.
pub(crate) fn serve(config: &Config, source: Option<ConfigSource>) -> Result<(), CommandFailure> {
    let server =
        Server::start(config, source, weir_admin::start).map_err(CommandFailure::RunTime)?;
    server.announce();
    server.run().map_err(CommandFailure::RunTime)
}
