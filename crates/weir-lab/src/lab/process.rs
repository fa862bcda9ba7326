//! A program that takes part, started under a guard.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::guard::descendants;
use crate::bench::machine::listeners_on;

/// The longest time until a program accepts connections.
const MOST_STARTING: Duration = Duration::from_secs(20);
/// The interval between attempts to connect.
const READY_INTERVAL: Duration = Duration::from_millis(10);
/// The last bytes of a program's output that are quoted.
const QUOTED_BYTES: u64 = 600;

/// The command that starts a program with a real-time policy, before all ordinary programs of its
/// core. The kernel leaves those at least a twentieth of the time.
pub(super) const FIRST_IN_LINE: [&str; 3] = ["chrt", "--rr", "1"];

/// The command of a program, and its place.
#[derive(Clone, Debug)]
pub(super) struct ProcessSpec {
    /// This program, which is the guard too.
    pub(super) weir: PathBuf,
    /// The name of the role.
    pub(super) name: String,
    /// Its cores.
    pub(super) cores: Vec<usize>,
    /// The directory of its control group, if it has one of its own.
    pub(super) group: Option<PathBuf>,
    /// The command, filled in.
    pub(super) command: Vec<String>,
    /// The directory that it is started in.
    pub(super) directory: PathBuf,
    /// The file of its output.
    pub(super) log: PathBuf,
}

/// Returns true if this user may start programs by `FIRST_IN_LINE`: tried with one that ends at
/// once.
pub(super) fn may_go_first(weir: &Path) -> bool {
    let [program, arguments @ ..] = FIRST_IN_LINE;
    let mut command = Command::new(program);
    command.args(arguments).arg(weir).arg("--version");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// A running program. It ends with this value.
#[derive(Debug)]
pub(super) struct GuardedProcess {
    name: String,
    guard: Child,
    log: PathBuf,
}

impl GuardedProcess {
    pub(super) fn start(spec: &ProcessSpec) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("cannot start {}: {error}", spec.name);
        let log = File::create(&spec.log).map_err(failed)?;
        let cores: Vec<String> = spec.cores.iter().map(usize::to_string).collect();
        let mut command = Command::new(&spec.weir);
        command.args(["lab", "guard", "--cpus", &cores.join(",")]);
        if let Some(group) = &spec.group {
            command.arg("--group").arg(group);
        }
        command.arg("--").args(&spec.command);
        // What is measured is the process that serves.
        command.env("WEIR_SUPERVISOR", "off").env("NO_COLOR", "1").current_dir(&spec.directory);
        let log_too = log.try_clone().map_err(failed)?;
        // A group of its own: Ctrl-C ends the laboratory, and that ends the guard.
        command.stdin(Stdio::piped()).stdout(log).stderr(log_too).process_group(0);
        let guard = command.spawn().map_err(failed)?;
        Ok(Self { name: spec.name.clone(), guard, log: spec.log.clone() })
    }

    /// The guard's process id: the program is its child.
    pub(super) fn pid(&self) -> u32 {
        self.guard.id()
    }

    /// A sentence if the program has ended.
    pub(super) fn ended(&mut self) -> Option<String> {
        let status = self.guard.try_wait().ok().flatten()?;
        let said = self.last_words();
        Some(format!("{} ended ({status}): {said}", self.name))
    }

    /// The end of its output, in one line.
    pub(super) fn last_words(&self) -> String {
        let (mut text, mut skipped) = (Vec::new(), 0);
        if let Ok(mut file) = File::open(&self.log) {
            let length = file.metadata().map_or(0, |metadata| metadata.len());
            skipped = length.saturating_sub(QUOTED_BYTES);
            let _ = file.seek(SeekFrom::Start(skipped));
            let _ = file.take(QUOTED_BYTES).read_to_end(&mut text);
        }
        let text = String::from_utf8_lossy(&text);
        // The first line may be the end of one.
        let whole = match text.split_once('\n') {
            Some((_, rest)) if skipped > 0 && !rest.trim().is_empty() => rest,
            _ => &*text,
        };
        let lines: Vec<&str> =
            whole.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        if lines.is_empty() { "it says nothing".to_owned() } else { lines.join("; ") }
    }

    /// The program and all its descendants.
    pub(super) fn pids(&self) -> Vec<u32> {
        descendants(self.pid())
    }

    /// Waits until all ports accept connections.
    pub(super) fn wait_for(&mut self, ports: &[u16]) -> Result<(), String> {
        let deadline = Instant::now() + MOST_STARTING;
        for port in ports {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
            self.wait_until(deadline, *port, |_| accepts(address))?;
        }
        Ok(())
    }

    /// Waits until this program itself listens on all ports, which others may listen on too.
    pub(super) fn wait_for_own(&mut self, ports: &[u16]) -> Result<(), String> {
        let deadline = Instant::now() + MOST_STARTING;
        for port in ports {
            let is_own = |process: &Self| {
                let pids = process.pids();
                listeners_on(*port).is_ok_and(|found| found.iter().any(|pid| pids.contains(pid)))
            };
            self.wait_until(deadline, *port, is_own)?;
        }
        Ok(())
    }

    fn wait_until(
        &mut self,
        deadline: Instant,
        port: u16,
        is_ready: impl Fn(&Self) -> bool,
    ) -> Result<(), String> {
        while !is_ready(self) {
            if let Some(sentence) = self.ended() {
                return Err(sentence);
            }
            if Instant::now() > deadline {
                let said = self.last_words();
                return Err(format!("{} accepts no connections at port {port}: {said}", self.name));
            }
            std::thread::sleep(READY_INTERVAL);
        }
        Ok(())
    }

    /// Sends a signal to the program and all its descendants.
    pub(super) fn signal(&self, signal: Signal) {
        for pid in self.pids() {
            if let Some(pid) = Pid::from_raw(pid as i32) {
                let _ = kill_process(pid, signal);
            }
        }
    }

    /// Sends a signal to the program alone, as an operator does.
    pub(super) fn signal_main(&self, signal: Signal) {
        for pid in crate::bench::machine::children(self.pid()) {
            if let Some(pid) = Pid::from_raw(pid as i32) {
                let _ = kill_process(pid, signal);
            }
        }
    }

    /// Ends the program with all its descendants, and waits for that.
    pub(super) fn stop(&mut self) {
        // The guard does it when its standard input ends, within a bounded time.
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

impl Drop for GuardedProcess {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns true if a program accepts connections at an address of this machine.
fn accepts(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, Duration::from_secs(1))
        .is_ok_and(|stream| !is_to_itself(&stream))
}

/// Returns true if both ends of a connection are this socket: the kernel can choose the very port
/// that is asked for as the own one while no program listens on it.
fn is_to_itself(stream: &TcpStream) -> bool {
    stream.local_addr().ok() == stream.peer_addr().ok()
}

/// Returns true if a program ended because its port was taken meanwhile.
pub(super) fn is_port_taken(sentence: &str) -> bool {
    sentence.to_ascii_lowercase().contains("address already in use")
}

/// Ports that no program has now. They are held together until all are found, so that they differ.
pub(super) fn free_ports(count: usize) -> Result<Vec<u16>, String> {
    let failed = |error: std::io::Error| format!("no free port is found: {error}");
    let held: Result<Vec<TcpListener>, _> =
        (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect();
    let ports: Result<Vec<u16>, _> = held
        .map_err(failed)?
        .iter()
        .map(|one| one.local_addr().map(|address| address.port()))
        .collect();
    ports.map_err(failed)
}

/// A sentence if a port still has a listener among processes that should have ended. Any other
/// program may have got the port since.
pub(super) fn leaked(port: u16, stopped: &[u32]) -> Option<String> {
    let pids = listeners_on(port).ok()?;
    let pid = pids.iter().find(|pid| stopped.contains(pid))?;
    Some(format!("port {port} is still open after its program was stopped (process {pid})"))
}

/// The path of a program in PATH or in the directories of system programs.
pub(super) fn path_of(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return is_program(Path::new(program)).then(|| PathBuf::from(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    directories.extend(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from));
    directories.into_iter().map(|directory| directory.join(program)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use socket2::{Domain, Socket, Type};

    use super::{accepts, free_ports, is_port_taken, is_to_itself, leaked, path_of};

    #[test]
    fn a_connection_to_itself_is_no_program_that_accepts() {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let own = socket.local_addr().unwrap();
        socket.connect(&own).unwrap();
        assert!(is_to_itself(&TcpStream::from(socket)));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert!(accepts(address));
        drop(listener);
        assert!(!accepts(address));
        assert!(is_port_taken("nginx: bind() to 127.0.0.1:5 failed (98: Address already in use)"));
        assert!(!is_port_taken("no room"));
    }

    #[test]
    fn ports_differ_and_one_that_is_taken_is_noticed() {
        let ports = free_ports(3).unwrap();
        assert!(ports[0] != ports[1] && ports[1] != ports[2] && ports[0] != ports[2]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let own = [std::process::id()];
        assert!(leaked(port, &own).unwrap().contains(&format!("port {port} is still open")));
        assert_eq!(leaked(port, &[1]), None);
        drop(listener);
        assert_eq!(leaked(port, &own), None);
    }

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        assert!(path_of("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(path_of("there-is-no-such-program"), None);
        assert_eq!((path_of("/etc/passwd"), path_of("/")), (None, None));
    }
}
