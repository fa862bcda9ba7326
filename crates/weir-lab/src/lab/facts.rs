//! The machine that an experiment ran on, and the versions of its programs.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::system::uname;
use serde_json::{Value, json};

use crate::bench::machine::{allowed_cores, host_name};

/// The first lines of a version that are kept.
const VERSION_LINES: usize = 1;

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineFacts {
    /// Its name.
    pub host: String,
    /// The processor's model.
    pub processor: String,
    /// All cores.
    pub cores: usize,
    /// The cores that this process may use.
    pub allowed: Vec<usize>,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The kernel's name and release.
    pub kernel: String,
    /// The distribution.
    pub system: String,
}

impl MachineFacts {
    /// Those of this machine.
    pub fn now() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let after = |text: &str, name: &str, separator: char| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(separator))
                .map_or(String::new(), |(_, value)| value.trim().trim_matches('"').to_owned())
        };
        let stat = read("/proc/stat");
        let is_core = |line: &&str| {
            line.strip_prefix("cpu")
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        let memory = after(&read("/proc/meminfo"), "MemTotal", ':');
        let kilobytes =
            memory.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
        let name = uname();
        Self {
            host: host_name(),
            processor: after(&read("/proc/cpuinfo"), "model name", ':'),
            cores: stat.lines().filter(is_core).count().max(1),
            allowed: allowed_cores(),
            memory_bytes: kilobytes.unwrap_or(0) * 1024,
            kernel: format!(
                "{} {}",
                name.sysname().to_string_lossy(),
                name.release().to_string_lossy()
            ),
            system: after(&read("/etc/os-release"), "PRETTY_NAME", '='),
        }
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        json!({
            "host": self.host, "processor": self.processor, "cores": self.cores, "allowed": self.allowed,
            "memory_bytes": self.memory_bytes, "kernel": self.kernel, "system": self.system,
        })
    }

    /// In one line.
    pub fn line(facts: &Value) -> String {
        let text = |name: &str| facts[name].as_str().unwrap_or("?").to_owned();
        let memory = facts["memory_bytes"].as_f64().unwrap_or(0.0) / 1_073_741_824.0;
        format!(
            "{}, {} cores, {memory:.0} GB, {}, {}",
            text("processor"),
            facts["cores"],
            text("kernel"),
            text("system")
        )
    }
}

/// The version that a program prints.
///
/// # Errors
/// One sentence if it cannot be run.
pub(super) fn version_of(command: &[String], path: &Path) -> Result<String, String> {
    let Some((program, arguments)) = command.split_first() else { return Ok(String::new()) };
    let is_same = path.file_name().is_some_and(|name| name.to_str() == program.rsplit('/').next());
    let program = if is_same { path.display().to_string() } else { program.clone() };
    let output = Command::new(&program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run {program}: {error}"))?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines: Vec<&str> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).take(VERSION_LINES).collect();
    Ok(lines.join("; "))
}
