//! `weir import`: prints the native form of another program's configuration.

use std::path::PathBuf;

use clap::Args;

use crate::config_file::{self, ConfigFile, LanguageArguments};
use crate::failure::CommandFailure;
use crate::terminal;

/// Print the native form of a configuration of another program
#[derive(Args, Debug)]
pub(crate) struct ImportArguments {
    /// Configuration file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    language: LanguageArguments,
}

pub(crate) fn run(arguments: &ImportArguments) -> Result<(), CommandFailure> {
    match config_file::open(&arguments.file, &arguments.language)? {
        ConfigFile::Native => Err(CommandFailure::Usage(format!(
            "{}: this is not a file of another program, or say so with --from",
            arguments.file.display()
        ))),
        ConfigFile::Imported(imported) => {
            config_file::accept(&imported, &arguments.file, &arguments.language)?;
            let text = imported.native();
            config_file::all_match(imported.mappings(), &arguments.file)?;
            terminal::print(&text)
        }
    }
}
