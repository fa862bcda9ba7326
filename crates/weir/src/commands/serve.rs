//! `weir serve`: static files from a directory. It writes a configuration from the flags and runs
//! it.

use std::path::PathBuf;

use clap::Args;

use crate::config_text::{self, quote, quote_path};
use crate::failure::CommandFailure;
use crate::serving::{self, WorkerCount};

/// Serve the files of a directory
#[derive(Args, Debug)]
pub(crate) struct ServeArguments {
    /// The directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Address to listen on
    #[arg(long, value_name = "ADDR", default_value = ":8000")]
    listen: String,
    #[command(flatten)]
    workers: WorkerCount,
}

pub(crate) fn run(arguments: &ServeArguments) -> Result<(), CommandFailure> {
    let (listen, directory) = (quote(&arguments.listen), quote_path(&arguments.directory)?);
    let mut config = config_text::check(&format!("listen {listen} -> files {directory};"))?;
    arguments.workers.apply(&mut config);
    serving::serve_until_stopped(&config)
}
