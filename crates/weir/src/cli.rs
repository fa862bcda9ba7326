//! The command line as a whole: the subcommands, and the flags before them. The flags of a
//! subcommand are defined in its file; help and completion are generated from these definitions.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

use crate::commands::{
    bench, check, completion, ctl, demo, explain, fmt, import, lab, origin, proxy, run, serve, sim,
    top,
};
use crate::failure::CommandFailure;

const LONG_VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\nTLS: rustls with aws-lc-rs");

/// Load balancer and reverse proxy for HTTP/1.1 and TLS.
#[derive(Debug, Parser)]
#[command(name = "weir", version, long_version = LONG_VERSION, arg_required_else_help = true)]
#[command(args_conflicts_with_subcommands = true)]
#[command(
    after_help = "Exit codes: 0 ok, 1 run-time failure, 2 usage, 3 configuration rejected, 4 a bench threshold failed, 5 the admin socket does not answer."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Check the configuration, like `weir check`
    #[arg(short = 't')]
    test: bool,
    /// Configuration file that -t checks
    #[arg(short = 'c', value_name = "FILE", requires = "test")]
    config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::RunArguments),
    Proxy(proxy::ProxyArguments),
    Serve(serve::ServeArguments),
    Check(check::CheckArguments),
    Explain(explain::ExplainArguments),
    Fmt(fmt::FmtArguments),
    Import(import::ImportArguments),
    Ctl(ctl::CtlArguments),
    Top(top::TopArguments),
    Reload(ctl::Reload),
    Stop(ctl::Stop),
    Upgrade(ctl::UpgradeArguments),
    Bench(Box<bench::BenchArguments>),
    Origin(origin::OriginArguments),
    Sim(Box<sim::SimArguments>),
    Lab(lab::LabArguments),
    Demo(demo::DemoArguments),
    Completion(completion::CompletionArguments),
}

/// Returns the command line as clap parses it: a link with the name `wrk` or `wrk2` is
/// `weir bench`, so that scripts for these programs work.
pub(crate) fn arguments(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = given.collect();
    let name = arguments.first().and_then(|name| Path::new(name).file_name());
    if name.is_some_and(|name| name == "wrk" || name == "wrk2") {
        arguments.insert(1, "bench".into());
    }
    arguments
}

impl Cli {
    /// Converts `weir -t -c FILE`, nginx's syntax, into the arguments of `weir check`.
    pub(crate) fn into_nginx_test(self) -> Result<check::CheckArguments, CommandFailure> {
        if !self.test {
            return Err(CommandFailure::Usage(
                "no command is given; `weir --help` lists the commands".to_owned(),
            ));
        }
        Ok(check::CheckArguments::of(self.config))
    }
}

#[cfg(test)]
mod tests {
    use super::arguments;

    #[test]
    fn a_link_of_the_name_of_wrk_is_bench() {
        let check = |given: &[&str], expected: &[&str]| {
            assert_eq!(arguments(given.iter().map(Into::into)), expected);
        };
        check(
            &["/usr/bin/wrk2", "-t1", "http://a"],
            &["/usr/bin/wrk2", "bench", "-t1", "http://a"],
        );
        check(&["wrk"], &["wrk", "bench"]);
        check(&["weir", "run"], &["weir", "run"]);
        check(&["/opt/wrk/weir", "check"], &["/opt/wrk/weir", "check"]);
        check(&[], &[]);
    }
}
