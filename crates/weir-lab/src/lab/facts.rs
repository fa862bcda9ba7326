//! The machine that an experiment ran on, and the versions of its programs.

use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::system::uname;
use serde_json::{Value, json};

use super::process::path_of;
use crate::bench::machine::{allowed_cores, host_name};

/// The largest output that is read for a version.
const MOST_VERSION_BYTES: u64 = 64 * 1024;
/// The longest time that a program may take to print it.
const MOST_WAITING: Duration = Duration::from_secs(10);

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineFacts {
    /// Its name.
    pub host: String,
    /// The kind of machine or instance, as its firmware names it; empty if it does not.
    pub kind: String,
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
            kind: kind_of(
                &read("/sys/class/dmi/id/sys_vendor"),
                &read("/sys/class/dmi/id/product_name"),
            ),
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
            "host": self.host, "kind": self.kind, "processor": self.processor, "cores": self.cores, "allowed": self.allowed,
            "memory_bytes": self.memory_bytes, "kernel": self.kernel, "system": self.system,
        })
    }

    /// In one line.
    pub fn line(facts: &Value) -> String {
        let text = |name: &str| facts[name].as_str().unwrap_or("?").to_owned();
        let memory = facts["memory_bytes"].as_f64().unwrap_or(0.0) / 1_073_741_824.0;
        let kind = match facts["kind"].as_str() {
            None | Some("") => String::new(),
            Some(kind) => format!("{kind}, "),
        };
        format!(
            "{kind}{}, {} cores, {memory:.0} GB, {}, {}",
            text("processor"),
            facts["cores"],
            text("kernel"),
            text("system")
        )
    }
}

/// The kind of instance by the names in the firmware: clouds write it there (`Amazon EC2`,
/// `t2.medium`).
fn kind_of(vendor: &str, product: &str) -> String {
    let words: Vec<&str> =
        [vendor.trim(), product.trim()].into_iter().filter(|one| !one.is_empty()).collect();
    words.join(" ")
}

/// The version that a program prints, in its first line.
///
/// # Errors
/// One sentence if it cannot be run, or does not end.
pub(super) fn version_of(weir: &Path, command: &[String], path: &Path) -> Result<String, String> {
    let Some((program, arguments)) = command.split_first() else { return Ok(String::new()) };
    let is_same = path.file_name().is_some_and(|name| name.to_str() == program.rsplit('/').next());
    let program = if is_same { path.display().to_string() } else { program.clone() };
    if path_of(&program).is_none() {
        return Err(format!("cannot run {program}: there is no such program"));
    }
    let failed = |error: io::Error| format!("cannot run {program}: {error}");
    // Under a guard, which ends it with its descendants, and in no group of the terminal's.
    let mut command = Command::new(weir);
    command.args(["lab", "guard", "--"]).arg(&program).args(arguments).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut guard = command.spawn().map_err(failed)?;
    let (sender, texts) = channel();
    read_beside(0, guard.stdout.take(), sender.clone());
    read_beside(1, guard.stderr.take(), sender);
    let deadline = Instant::now() + MOST_WAITING;
    let mut found = [String::new(), String::new()];
    let mut missing = found.len();
    while missing > 0
        && let Ok((place, text)) =
            texts.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    {
        found[usize::from(place == 1)] = text;
        missing -= 1;
    }
    drop(guard.stdin.take());
    guard.wait().map_err(failed)?;
    if missing > 0 {
        return Err(format!("{program} does not tell its version within {MOST_WAITING:?}"));
    }
    let text = found.concat();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    Ok(lines.next().unwrap_or_default().to_owned())
}

/// Reads the beginning of an output on a thread.
fn read_beside(
    place: usize,
    output: Option<impl Read + Send + 'static>,
    sender: Sender<(usize, String)>,
) {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(output) = output {
            let _ = output.take(MOST_VERSION_BYTES).read_to_end(&mut bytes);
        }
        let _ = sender.send((place, String::from_utf8_lossy(&bytes).into_owned()));
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{MachineFacts, kind_of};

    #[test]
    fn the_kind_of_instance_is_part_of_the_machine_if_the_firmware_names_it() {
        assert_eq!(kind_of("Amazon EC2\n", "t2.medium\n"), "Amazon EC2 t2.medium");
        assert_eq!(kind_of("", ""), "");
        let facts = json!({"kind": "Amazon EC2 t2.medium", "processor": "P", "cores": 2, "kernel": "L", "system": "D"});
        assert!(MachineFacts::line(&facts).starts_with("Amazon EC2 t2.medium, P, 2 cores"));
        assert!(MachineFacts::line(&json!({"processor": "P"})).starts_with("P, "));
        assert!(MachineFacts::now().json()["kind"].is_string());
    }
}
