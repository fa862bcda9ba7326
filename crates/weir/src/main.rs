//! The command `weir`: dispatches to the subcommands, each of which has its own file. All report
//! failures in the same way.

// These macros panic when the reader of the output has closed it; `terminal.rs` does not.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod admin_client;
mod cli;
mod commands;
mod config_file;
mod config_text;
mod failure;
mod serving;
mod terminal;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::cli::{Cli, Command};
use crate::commands::{
    bench, check, completion, ctl, demo, explain, fmt, import, lab, origin, proxy, run, serve, sim,
    top,
};
use crate::failure::CommandFailure;

/// The allocator whose count `memory max=` limits. It also marks threads that are inside it, for
/// the watchdog.
#[global_allocator]
static ALLOCATOR: weir_memory::Counting = weir_memory::Counting;

fn main() -> ExitCode {
    weir_memory::return_large_blocks();
    // clap ends the process here on wrong usage, with exit code 2.
    match command(Cli::parse_from(cli::arguments(std::env::args_os()))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            weir_control::tell_failed(&failure.text());
            terminal::say(&failure.message());
            failure.exit_code()
        }
    }
}

fn command(cli: Cli) -> Result<(), CommandFailure> {
    match cli.command {
        Some(Command::Run(arguments)) => run::run(&arguments),
        Some(Command::Proxy(arguments)) => proxy::run(&arguments),
        Some(Command::Serve(arguments)) => serve::run(&arguments),
        Some(Command::Check(arguments)) => check::run(&arguments),
        Some(Command::Explain(arguments)) => explain::run(&arguments),
        Some(Command::Fmt(arguments)) => fmt::run(&arguments),
        Some(Command::Import(arguments)) => import::run(&arguments),
        Some(Command::Ctl(arguments)) => ctl::run(&arguments),
        Some(Command::Top(arguments)) => top::run(&arguments),
        Some(Command::Reload(arguments)) => ctl::reload(&arguments),
        Some(Command::Stop(arguments)) => ctl::stop(&arguments),
        Some(Command::Upgrade(arguments)) => ctl::upgrade(&arguments),
        Some(Command::Bench(arguments)) => bench::run(&arguments),
        Some(Command::Origin(arguments)) => origin::run(arguments),
        Some(Command::Demo(arguments)) => demo::run(&arguments),
        Some(Command::Sim(arguments)) => sim::run(&arguments),
        Some(Command::Lab(arguments)) => lab::run(&arguments),
        Some(Command::Completion(arguments)) => completion::run(&arguments, &mut Cli::command()),
        None => check::run(&cli.into_nginx_test()?),
    }
}
