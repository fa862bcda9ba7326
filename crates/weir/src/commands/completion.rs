//! `weir completion`: prints the completion script of a shell, generated from the definitions of
//! the flags.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::failure::CommandFailure;
use crate::terminal;

/// Print the completion script for a shell
#[derive(Args, Debug)]
pub(crate) struct CompletionArguments {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(
    arguments: &CompletionArguments,
    command: &mut Command,
) -> Result<(), CommandFailure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, command, "weir", &mut script);
    terminal::print(&String::from_utf8_lossy(&script))
}
