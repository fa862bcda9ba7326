//! Reloads that change admin addresses, tokens, and the paths of the pid file and the state file.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::process::Output;

use rustix::process::Signal;

use super::asked;
use crate::support::process::finish;
use crate::support::weir::{Weir, weir_command};
use crate::support::{Directory, PATIENCE, eventually};

const ONE: &str = "/v1/pools/app/endpoints/one";

/// A Weir whose admin lines change.
struct Moving {
    weir: Weir,
    directory: Directory,
}

impl Moving {
    /// Starts it. `DIR` in the configuration stands for the directory; `tcp` of the admin addresses
    /// are TCP.
    fn start(top: &str, tcp: usize) -> Self {
        let directory = Directory::new();
        let config = Self::config(&directory, top);
        let weir = Weir::start_with_addresses(&directory, &config, 1 + tcp);
        Self { weir, directory }
    }

    fn config(directory: &Directory, top: &str) -> String {
        let top = top.replace("DIR", &directory.path().display().to_string());
        format!(
            "workers 1; {top}
             pool app {{ server 127.0.0.1:1 name=one max_conn=5; }}
             listen 127.0.0.1:0 -> app;"
        )
    }

    /// Writes another configuration and reloads it over this socket.
    fn reload(&self, top: &str, socket: &str) -> Output {
        self.directory.file("weir.conf", Self::config(&self.directory, top));
        let socket = self.directory.text(socket);
        finish(weir_command().args(["reload", "--socket", &socket]), b"")
    }

    /// Writes another configuration, reloads it by a signal and returns the messages about it.
    fn hang_up(&self, top: &str) -> String {
        self.directory.file("weir.conf", Self::config(&self.directory, top));
        let before = self.weir.process.said().len();
        self.weir.process.signal(Signal::HUP);
        eventually("the reload is done", || {
            let said = self.weir.process.said().split_off(before);
            let verdict = said.rfind("weir: reload")?;
            said[verdict..].ends_with('\n').then_some(said)
        })
    }

    fn ask(&self, socket: &str, arguments: &[&str], path: &str) -> (u16, String) {
        let (socket, url) = (self.directory.text(socket), format!("http://weir{path}"));
        asked(&[&["--unix-socket", &socket], arguments, &[&url]].concat())
    }

    fn exists(&self, name: &str) -> bool {
        self.directory.path().join(name).exists()
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(name)).unwrap_or_default()
    }
}

/// Returns the admin address that was opened last.
fn opened(said: &str) -> SocketAddr {
    let line =
        said.lines().rfind(|line| line.contains("listening on 127.") && line.ends_with("(admin)"));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    line.split_whitespace().rev().nth(1).unwrap().parse().unwrap()
}

const CHANGE: &[&str] = &["-X", "PATCH", "--data", r#"{"max_conn": 7}"#];

#[test]
fn admin_addresses_are_added_changed_and_removed_by_a_reload() {
    let moving = Moving::start("admin unix:DIR/a.sock; admin unix:DIR/b.sock;", 0);
    // A client reads the event stream over an address that the reload removes.
    let mut stream = UnixStream::connect(moving.directory.path().join("b.sock")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /v1/stream HTTP/1.1\r\nHost: weir\r\n\r\n").unwrap();
    let mut piece = [0; 1024];
    let count = stream.read(&mut piece).unwrap();
    assert!(piece[..count].starts_with(b"HTTP/1.1 200 "));

    // The response arrives over the address that the reload removes.
    let other = "admin unix:DIR/a.sock mode=0600 read_only; admin 127.0.0.1:0 read_only;";
    let done = moving.reload(other, "b.sock");
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{done:?}");
    for expected in ["b.sock removed", "write -> read_only; mode 0660 -> 0600", "127.0.0.1:0 added"]
    {
        assert!(said.contains(expected), "{expected} is not in {said}");
    }
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(!moving.exists("b.sock"));
    let mode = std::fs::metadata(moving.directory.path().join("a.sock")).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(moving.ask("a.sock", CHANGE, ONE).0, 403);
    let tcp = opened(&moving.weir.process.said());
    assert_eq!(asked(&[&format!("http://{tcp}{ONE}")]).0, 200);

    // An address that is in use rejects the reload, and nothing changes.
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap();
    let said = moving.hang_up(&format!("admin unix:DIR/c.sock; admin {taken} read_only;"));
    assert!(said.contains("reload rejected") && said.contains(&taken.to_string()), "{said}");
    assert!(!moving.exists("c.sock"), "it was left behind");
    assert_eq!(moving.ask("a.sock", &[], ONE).0, 200);
    assert_eq!(asked(&[&format!("http://{tcp}{ONE}")]).0, 200);

    let said = moving.hang_up("admin unix:DIR/a.sock;");
    assert!(said.contains(&format!("not listening on {tcp} (admin)")), "{said}");
    assert_eq!(moving.ask("a.sock", CHANGE, ONE).0, 200);
    eventually("nobody listens there", || std::net::TcpStream::connect(tcp).is_err().then_some(()));
}

#[test]
fn the_first_admin_address_may_come_with_a_reload_and_the_last_may_go() {
    let moving = Moving::start("", 0);
    moving.hang_up("admin unix:DIR/a.sock;");
    let (status, body) = moving.ask("a.sock", &[], "/v1/info");
    assert_eq!(status, 200, "{body}");
    moving.hang_up("");
    assert!(!moving.exists("a.sock"));
}

#[test]
fn a_token_that_was_replaced_holds_after_a_reload() {
    let moving = Moving::start("", 0);
    let top = "admin 127.0.0.1:0 token_file=DIR/token;";
    moving.directory.file("token", "the-first-token-of-them\n");
    let tcp = opened(&moving.hang_up(top));
    let asked_with = |token: &str| {
        let header = format!("Authorization: Bearer {token}");
        asked(&["-H", &header, &format!("http://{tcp}{ONE}")]).0
    };
    assert_eq!(asked_with("the-first-token-of-them"), 200);
    moving.directory.file("token", "the-second-token-of-them\n");
    assert_eq!(asked_with("the-first-token-of-them"), 200, "nobody reloaded");
    let said = moving.hang_up(top);
    assert!(said.contains("token or owner") && !said.contains("the-second"), "{said}");
    assert_eq!(asked_with("the-second-token-of-them"), 200);
    assert_eq!(asked_with("the-first-token-of-them"), 401);
    std::fs::remove_file(moving.directory.path().join("token")).unwrap();
    assert!(moving.hang_up(top).contains("reload rejected"));
    assert_eq!(asked_with("the-second-token-of-them"), 200);
}

#[test]
fn pid_file_and_state_file_move_with_a_reload() {
    let admin = "admin unix:DIR/a.sock;";
    let at = |name: &str| format!("{admin} pid_file DIR/{name}.pid; state_file DIR/{name}.json;");
    let moving = Moving::start(&at("one"), 0);
    let number = format!("{}\n", moving.weir.process.id());
    eventually("the pid file is written", || (moving.text("one.pid") == number).then_some(()));
    assert_eq!(moving.ask("a.sock", CHANGE, ONE).0, 200);
    assert!(moving.text("one.json").contains('7'));

    let done = moving.reload(&at("two"), "a.sock");
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success() && said.contains("pid_file "), "{done:?}");
    assert_eq!(moving.text("two.pid"), number);
    assert!(!moving.exists("one.pid"));
    assert!(moving.text("two.json").contains('7'), "what was changed before goes along");
    let (_, body) = moving.ask("a.sock", &["-X", "PATCH", "--data", r#"{"max_conn": 8}"#], ONE);
    assert!(body.contains("two.json"), "{body}");
    assert!(moving.text("two.json").contains('8') && moving.text("one.json").contains('7'));

    // A file that Weir did not write is not overwritten, and nothing else is changed either.
    moving.directory.file("three.json", "precious");
    let done = moving.reload(&at("three"), "a.sock");
    assert_eq!(done.status.code(), Some(3), "{done:?}");
    assert_eq!(moving.text("three.json"), "precious");
    assert_eq!(moving.text("two.pid"), number);
    assert!(!moving.exists("three.pid"));

    // The same file under another name stays.
    let other = at("two").replace("DIR/two.pid", "DIR/../DIRNAME/two.pid");
    let name = moving.directory.path().file_name().unwrap().to_str().unwrap();
    assert!(moving.reload(&other.replace("DIRNAME", name), "a.sock").status.success());
    assert_eq!(moving.text("two.pid"), number);
    assert!(moving.reload(admin, "a.sock").status.success());
    assert!(!moving.exists("two.pid"));
}
