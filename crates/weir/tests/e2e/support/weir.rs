//! Weir as a user runs it: a configuration file and `weir run`.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use super::process::Process;
use super::{Directory, eventually};

/// Returns the command under test.
pub(crate) fn weir_command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    // The started process serves itself, unless the test is about the supervisor.
    command.env("NO_COLOR", "1").env("WEIR_SUPERVISOR", "off").stdin(Stdio::null());
    command
}

/// A running Weir.
pub(crate) struct Weir {
    pub(crate) process: Process,
    /// The addresses of the listeners, in the configuration's order, with the ports that the kernel
    /// chose for port 0.
    pub(crate) addresses: Vec<SocketAddr>,
}

impl Weir {
    /// Runs this configuration and waits until Weir listens. Every listener must be at the
    /// beginning of a line.
    pub(crate) fn start(directory: &Directory, config: &str) -> Self {
        let expected =
            config.lines().filter(|line| line.trim_start().starts_with("listen ")).count();
        assert!(expected > 0, "no listener at the beginning of a line");
        Self::start_with_addresses(directory, config, expected)
    }

    /// The same, where only `expected` of the listeners have an IP address.
    pub(crate) fn start_with_addresses(
        directory: &Directory,
        config: &str,
        expected: usize,
    ) -> Self {
        let path = directory.file("weir.conf", config);
        Self::run(weir_command().args(["run", "-c"]).arg(path), expected)
    }

    /// Runs `weir origin` with these arguments, which name `expected` addresses.
    pub(crate) fn origin(arguments: &[&str], expected: usize) -> Self {
        Self::run(weir_command().arg("origin").args(arguments), expected)
    }

    /// Runs a command that prints its addresses, and waits for `expected` of them.
    pub(crate) fn run(command: &mut Command, expected: usize) -> Self {
        let mut process = Process::start(command.stdout(Stdio::null()));
        let addresses = eventually("weir listens", || {
            if let Some(status) = process.ended() {
                panic!("weir ended with {status}: {}", process.said());
            }
            let addresses = listening(&process.said());
            (addresses.len() >= expected).then_some(addresses)
        });
        Self { process, addresses }
    }

    /// Returns the address of the first listener.
    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Returns the URL of a path at a listener.
    pub(crate) fn url(&self, listener: usize, path: &str) -> String {
        format!("http://{}{path}", self.addresses[listener])
    }
}

/// Returns the addresses in complete lines such as `weir: listening on 127.0.0.1:41234 (http)`.
fn listening(said: &str) -> Vec<SocketAddr> {
    let whole = said.rfind('\n').map_or("", |end| &said[..end]);
    whole
        .lines()
        .filter_map(|line| line.split_once("listening on ")?.1.split(' ').next()?.parse().ok())
        .collect()
}
