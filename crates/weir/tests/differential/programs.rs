//! The three programs, each on the same file and the same sockets, one after the other.

use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use super::stage::Stage;
use super::support::process::{Process, command, finish};
use super::support::weir::{Weir, weir_command};
use super::support::{PATIENCE, eventually};

/// The program that a case is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    Nginx,
    Haproxy,
}

/// A refused directive of the report of `weir check`.
#[derive(Debug)]
pub(crate) struct RefusedDirective {
    pub(crate) directive: String,
    pub(crate) reason: String,
}

impl Reference {
    /// The folder of its cases, and the word for `--from`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
        }
    }

    /// Returns the whole file for the configuration of a case.
    pub(crate) fn file(self, kind: &str, text: &str) -> String {
        match (self, kind) {
            (_, "main") => text.to_owned(),
            (Self::Nginx, "http") => nginx_file(text),
            (Self::Nginx, "server") => {
                nginx_file(&format!("server {{\nlisten {{listen}};\n{text}}}\n"))
            }
            (Self::Haproxy, "sections") => format!("{HAPROXY_DEFAULTS}\n{text}"),
            _ => panic!("a section `{kind}` is not known"),
        }
    }

    /// Fails with the program's message if it does not take the file.
    pub(crate) fn check(self, path: &Path) -> Result<(), String> {
        let mut command = command(self.name());
        match self {
            Self::Nginx => command.args(["-e", "stderr", "-q", "-t", "-g", &globals(path), "-c"]),
            Self::Haproxy => command.args(["-c", "-q", "-f"]),
        };
        let done = finish(command.arg(path), b"");
        if done.status.success() {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&done.stderr).into_owned())
    }

    /// The arguments with which Weir reads its files, with the defaults of the installed version.
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Nginx => &["--from", "nginx"],
            Self::Haproxy => &["--from", "haproxy", "--assume", "haproxy=2.6"],
        }
    }

    /// The signal that ends it once its requests are done. With `TERM` nginx drops the log lines of
    /// requests whose clients have their response already and whose connection lingers.
    pub(crate) fn stop_signal(self) -> Signal {
        match self {
            Self::Nginx => Signal::QUIT,
            Self::Haproxy => Signal::USR1,
        }
    }

    /// Starts the program on a file that it takes.
    pub(crate) fn start(self, stage: &Stage, path: &Path) -> Process {
        match self {
            Self::Nginx => {
                stage.listen();
                let mut numbers = String::new();
                for number in (3..).take(stage.listeners.len()) {
                    let _ = write!(numbers, "{number};");
                }
                let globals = globals(path);
                let path = path.to_str().unwrap();
                let mut nginx =
                    inheriting(stage, "nginx", &["-e", "stderr", "-g", &globals, "-c", path]);
                // nginx inherits the listening sockets that this variable names.
                Process::start(nginx.env("NGINX", numbers))
            }
            Self::Haproxy => {
                let output = File::create(stage.directory.path().join("stdout.log")).unwrap();
                let mut haproxy = command("haproxy");
                haproxy.args(["-db", "-f"]).arg(path).stdin(Stdio::null()).stdout(output);
                let mut process = Process::start(&mut haproxy);
                eventually("haproxy listens", || {
                    assert!(process.ended().is_none(), "haproxy ended: {}", process.said());
                    let ports = stage.listeners.iter().map(|(_, address, _)| address.port());
                    ports.into_iter().all(is_listened_to).then_some(())
                });
                process
            }
        }
    }
}

const HAPROXY_DEFAULTS: &str = "\
defaults
    mode http
    timeout connect 5s
    timeout client 5s
    timeout server 5s
";

/// Returns a file of nginx with this text in its `http` block.
fn nginx_file(text: &str) -> String {
    let access_log = if text.contains("access_log") { "" } else { "access_log off;" };
    format!(
        "events {{ worker_connections 1024; }}
http {{
    {access_log}
    client_body_temp_path {{dir}}/body; proxy_temp_path {{dir}}/proxy;
    fastcgi_temp_path {{dir}}/fastcgi; uwsgi_temp_path {{dir}}/uwsgi; scgi_temp_path {{dir}}/scgi;
{text}}}
"
    )
}

/// Debian's module of nginx for `stream`.
const STREAM_MODULE: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";

/// Settings of the process that are no part of a case.
fn globals(path: &Path) -> String {
    let user = if rustix::process::geteuid().is_root() { "user root root;" } else { "" };
    let pid = path.with_extension("pid");
    let has_stream = std::fs::read_to_string(path).is_ok_and(|text| text.contains("stream {"));
    // Debian has `stream` as a package of its own.
    let module = if has_stream && Path::new(STREAM_MODULE).exists() {
        format!("load_module {STREAM_MODULE};")
    } else {
        String::new()
    };
    format!("{module} daemon off; {user} pid {};", pid.display())
}

/// Returns a command that gets the listeners as descriptors 3, 4, ….
fn inheriting(stage: &Stage, program: &str, arguments: &[&str]) -> Command {
    let mut bash = command("bash");
    let names = "LISTEN_PID=$$ LISTEN_FDS=$0";
    let output = stage.directory.path().join("stdout.log");
    let files = format!("</dev/null >{}", output.display());
    let script = format!("{names} exec \"$@\"{} {files}", stage.redirections());
    bash.args(["-c", &script, &stage.listeners.len().to_string(), program]).args(arguments);
    bash.stdin(Stdio::null()).stdout(Stdio::null());
    bash
}

/// Returns true if a socket listens on a TCP port. A connection would be seen by the program.
fn is_listened_to(port: u16) -> bool {
    let port = format!(":{port:04X}");
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| {
        let table = std::fs::read_to_string(table).unwrap_or_default();
        table.lines().skip(1).any(|line| {
            let mut words = line.split_whitespace().skip(1);
            let local = words.next().is_some_and(|local| local.ends_with(&port));
            local && words.nth(1) == Some("0A")
        })
    })
}

/// Starts Weir on the file of another program.
pub(crate) fn start_weir(stage: &Stage, reference: Reference, path: &Path) -> Process {
    stage.listen();
    let weir = weir_command();
    let program = weir.get_program().to_str().unwrap();
    let path = path.to_str().unwrap();
    let arguments = [&["run"], reference.arguments(), &["-c", path]].concat();
    let mut command = inheriting(stage, program, &arguments);
    command.env("NO_COLOR", "1").env("WEIR_SUPERVISOR", "off");
    let Weir { process, .. } = Weir::run(&mut command, stage.listeners.len());
    process
}

/// Returns the refused directives of a file, or the errors in it.
pub(crate) fn check_weir(
    reference: Reference,
    path: &Path,
) -> Result<Vec<RefusedDirective>, String> {
    let mut command = weir_command();
    command.arg("check").args(reference.arguments());
    command.args(["--accept-ignored", "--json"]).arg(path);
    let done = finish(&mut command, b"");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let report: serde_json::Value =
        serde_json::from_slice(&done.stdout).map_err(|_| said.clone())?;
    let text = |entry: &serde_json::Value, key: &str| entry[key].as_str().unwrap().to_owned();
    let refused = report["directives"].as_array().unwrap().iter();
    let refused: Vec<_> = refused
        .filter(|entry| entry["outcome"] == "refused")
        // One line of a case is enough for a block.
        .filter(|entry| !text(entry, "reason").starts_with("it stands in the refused block"))
        .map(|entry| RefusedDirective {
            directive: text(entry, "directive"),
            reason: text(entry, "reason"),
        })
        .collect();
    // Without the refused directives the rest may make no sense.
    if refused.is_empty() && !done.status.success() {
        return Err(said);
    }
    Ok(refused)
}

/// Ends a program in order, so that its logs are complete.
pub(crate) fn stop(mut process: Process, signal: Signal) {
    let pid = Pid::from_raw(process.id().cast_signed()).unwrap();
    // It may have ended by itself.
    let _ = kill_process(pid, signal);
    let deadline = Instant::now() + PATIENCE;
    while process.ended().is_none() {
        assert!(Instant::now() < deadline, "it does not end: {}", process.said());
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}
