//! The test plays systemd: it passes sockets by number and receives notifications on a datagram
//! socket.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use super::Line;
use crate::support::client::Client;
use crate::support::needs::not_run;
use crate::support::process::{Process, command, finish};
use crate::support::programs::curl;
use crate::support::weir::{Weir, weir_command};
use crate::support::{Directory, PATIENCE, eventually};

/// Returns a command that gets this socket as descriptor 3, with the environment variables that
/// systemd sets.
fn activated(socket: OwnedFd, path: &str) -> Command {
    let weir = weir_command();
    let script = "LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=front exec \"$@\" 3<&0 </dev/null";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(weir.get_program()).args(["run", "-c", path]);
    command.stdin(socket).stdout(std::process::Stdio::null());
    command
}

#[test]
fn sockets_that_systemd_opened_are_served() {
    let directory = Directory::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // A client connects before Weir runs.
    let mut early = Client::connect(address);
    early.get("/");
    let config = format!("workers 1;\nlisten {address} -> respond 200 activated;");
    let path = directory.file("weir.conf", config).display().to_string();
    let weir = Weir::run(&mut activated(listener.into(), &path), 1);
    assert_eq!(weir.address(), address);
    assert_eq!(early.response().text(), "activated");
    assert_eq!(Client::connect(address).ask("/").text(), "activated");
}

#[test]
fn the_admin_socket_may_be_systemd_s_too() {
    let directory = Directory::new();
    let socket = directory.text("admin.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let config = format!("workers 1; admin unix:{socket};\nlisten 127.0.0.1:0 -> respond 204;");
    let path = directory.file("weir.conf", config).display().to_string();
    let _weir = Weir::run(&mut activated(listener.into(), &path), 1);
    let said = curl(["--unix-socket", &socket, "http://weir/v1/info"]);
    assert!(said.starts_with(b"{"), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn a_socket_that_the_configuration_does_not_name_is_closed_with_a_warning() {
    let directory = Directory::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = listener.local_addr().unwrap();
    let path = directory.file("weir.conf", "workers 1;\nlisten 127.0.0.1:0 -> respond 204;");
    let weir = Weir::run(&mut activated(listener.into(), &path.display().to_string()), 1);
    weir.process.says("closed an inherited socket");
    weir.process.says(&other.to_string());
    // Processes that other tests fork at this moment hold a copy of it until they exec.
    eventually("nobody listens there", || {
        std::net::TcpStream::connect(other).is_err().then_some(())
    });
}

/// `systemd-analyze`, if it is installed, accepts the units with this program in them.
#[test]
fn the_units_are_what_systemd_understands() {
    if finish(command("sh").args(["-c", "command -v systemd-analyze"]), b"").stdout.is_empty() {
        not_run("WEIR_SYSTEMD", "systemd-analyze is not installed");
        return;
    }
    let directory = Directory::new();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/systemd");
    let program = env!("CARGO_BIN_EXE_weir");
    let units = ["weir.service", "weir.socket"].map(|name| {
        let text = std::fs::read_to_string(format!("{folder}/{name}")).unwrap();
        directory.file(name, text.replace("/usr/bin/weir", program))
    });
    let mut verify = command("systemd-analyze");
    let done = finish(verify.args(["verify", "--man=no"]).args(&units), b"");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && !said.contains("weir."), "{said}");
}

/// The receiving end of notifications to systemd.
struct Told(UnixDatagram);

impl Told {
    fn at(directory: &Directory) -> Self {
        let socket = UnixDatagram::bind(directory.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(socket)
    }

    /// Returns the next message that has a line with this beginning; others are dropped.
    fn next(&self, wanted: &str) -> String {
        let mut text = [0; 4096];
        loop {
            let count = self.0.recv(&mut text).unwrap_or_else(|error| panic!("{wanted}: {error}"));
            let text = String::from_utf8_lossy(&text[..count]).into_owned();
            if text.lines().any(|line| line.starts_with(wanted)) {
                return text;
            }
        }
    }

    fn command(directory: &Directory, config: &str) -> Command {
        let path = directory.file("weir.conf", config);
        let mut command = weir_command();
        command.args(["run", "-c"]).arg(path);
        command.env("NOTIFY_SOCKET", directory.path().join("notify"));
        command
    }
}

#[test]
fn systemd_is_notified_of_start_reload_and_stop() {
    let directory = Directory::new();
    let told = Told::at(&directory);
    let config = "workers 1;\nlisten 127.0.0.1:0 -> respond 204;";
    let mut process = Process::start(&mut Told::command(&directory, config));
    let ready = told.next("READY=1");
    assert!(ready.contains(&format!("\nMAINPID={}", process.id())), "{ready}");
    assert!(ready.contains("\nSTATUS=serving generation 1"), "{ready}");
    process.signal(Signal::HUP);
    let reloading = told.next("RELOADING=1");
    let at = reloading.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC=")).unwrap();
    assert!(at.parse::<u64>().unwrap() > 0);
    assert!(told.next("READY=1").contains("\nSTATUS=serving generation 2"));
    // A rejected reload ends with a message too.
    directory.file("weir.conf", "nonsense");
    process.signal(Signal::HUP);
    told.next("RELOADING=1");
    assert!(told.next("READY=1").contains("\nSTATUS=serving generation 2"));
    process.signal(Signal::TERM);
    told.next("STOPPING=1");
    assert_eq!(process.wait().code(), Some(0));
}

#[test]
fn systemd_s_watchdog_is_notified_twice_within_its_time() {
    let directory = Directory::new();
    let told = Told::at(&directory);
    let config = "workers 2;\nlisten 127.0.0.1:0 -> respond 204;";
    let mut command = Told::command(&directory, config);
    let _process = Process::start(command.env("WATCHDOG_USEC", "200000"));
    let mut at = Vec::new();
    for _ in 0..4 {
        told.next("WATCHDOG=1");
        at.push(std::time::Instant::now());
    }
    assert!(at[3] - at[0] >= Duration::from_millis(200), "it floods: {at:?}");
}

#[test]
fn the_watchdog_hears_nothing_from_one_that_was_not_asked() {
    let directory = Directory::new();
    let told = Told::at(&directory);
    let config = "workers 1;\nlisten 127.0.0.1:0 -> respond 204;";
    let mut command = Told::command(&directory, config);
    command.env("WATCHDOG_USEC", "1000").env("WATCHDOG_PID", "1");
    let process = Process::start(&mut command);
    told.next("READY=1");
    process.signal(Signal::TERM);
    // All messages in between are read.
    let mut text = [0; 4096];
    loop {
        let count = told.0.recv(&mut text).unwrap();
        let text = String::from_utf8_lossy(&text[..count]).into_owned();
        assert!(!text.contains("WATCHDOG"), "{text}");
        if text.contains("STOPPING=1") {
            break;
        }
    }
}

#[test]
fn systemd_learns_which_process_has_taken_over_and_of_no_stop() {
    let outside = Directory::new();
    let told = Told::at(&outside);
    let directory = Directory::new();
    let config = Line::configuration(&directory, "listen 127.0.0.1:0 -> respond 204;");
    let path = directory.file("weir.conf", config);
    let mut command = weir_command();
    command.args(["run", "-c"]).arg(path);
    let weir = Weir::run(command.env("NOTIFY_SOCKET", outside.path().join("notify")), 1);
    let mut line = Line { weir, directory, successors: Vec::new() };
    told.next("READY=1");
    let successor = line.upgraded();
    let own = line.weir.process.id();
    let replaced = told.next(&format!("MAINPID={successor}"));
    assert!(replaced.contains("READY=1"), "{replaced}");
    assert_eq!(line.weir.process.wait().code(), Some(0));
    super::end(successor, Signal::TERM);
    // Only the successor reports stopping: the process before it reported nothing.
    told.next("STOPPING=1");
    told.0.set_nonblocking(true).unwrap();
    let mut text = [0; 4096];
    assert!(told.0.recv(&mut text).is_err(), "{own} stopped too");
    eventually("the file is gone", || line.pid().is_none().then_some(()));
}
