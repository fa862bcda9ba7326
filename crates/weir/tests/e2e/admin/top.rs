//! `weir top`: one frame for pipes, and the interactive program in a terminal.

use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::channel;

use rustix::process::{Pid, Signal, kill_process};

use super::Managed;
use crate::support::process::{command, finish};
use crate::support::weir::weir_command;
use crate::support::{PATIENCE, eventually};

/// Runs `weir top --once` and returns the exit code, standard output and standard error.
fn once(socket: &Path, columns: &str) -> (Option<i32>, String, String) {
    let mut top = weir_command();
    top.args(["top", "--once", "--socket"]).arg(socket).env("COLUMNS", columns);
    let done = finish(&mut top, b"");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (done.status.code(), text(&done.stdout), text(&done.stderr))
}

#[test]
fn one_frame_is_plain_text_as_wide_as_it_may_be() {
    let managed = Managed::start("", 0);
    managed.answers(8);
    assert_eq!(
        managed.change("PATCH", "/v1/pools/app/endpoints/two", r#"{"order": "maintenance"}"#).0,
        200
    );
    let (code, frame, said) = once(&managed.socket, "80");
    assert_eq!(code, Some(0), "{said}");
    assert!(frame.lines().all(|line| line.chars().count() <= 80), "{frame}");
    assert!(frame.is_ascii() || !frame.contains('\u{1b}'), "{frame}");
    let line = |name: &str| {
        frame.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{frame}"))
    };
    assert!(line("1 of 2 usable").starts_with("app  1 of 2 usable"), "{frame}");
    assert!(line(" one ").contains("up ") && line(" one ").contains("0/50"), "{frame}");
    assert!(line("* two ").contains("maintenance "), "{frame}");
    assert!(line("order ready -> maintenance").contains("app/two"), "{frame}");
    let (_, wide, _) = once(&managed.socket, "140");
    assert!(wide.contains("weight") && !frame.contains("weight"), "{wide}");
}

#[test]
fn without_a_socket_or_a_terminal_it_says_so() {
    let directory = crate::support::Directory::new();
    let (code, _, said) = once(&directory.path().join("none.sock"), "80");
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("is Weir running?"), "{said}");
    let managed = Managed::start("", 0);
    let done = finish(weir_command().args(["top", "--socket"]).arg(&managed.socket), b"");
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("use --once to print one frame"));
}

#[test]
fn top_drains_a_server_after_confirmation_and_restores_the_terminal() {
    let managed = Managed::start("", 0);
    let weir = env!("CARGO_BIN_EXE_weir");
    let top = format!("{weir} top --socket {}", managed.socket.display());
    // Keys are sent after the first frame; before that, the terminal is not in raw mode.
    let typed = |keys: &[u8]| {
        let mut script = command("script");
        script.args(["-qec", &top, "/dev/null"]).env("NO_COLOR", "1");
        let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, pieces) = channel();
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = stdout.read(&mut piece) {
                let _ = sender.send(String::from_utf8_lossy(&piece[..count]).into_owned());
            }
        });
        let mut screen = String::new();
        while !screen.contains("q quit") {
            screen += &pieces.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{screen:?}"));
        }
        stdin.write_all(keys).unwrap();
        let status = eventually("it leaves", || child.try_wait().unwrap());
        assert!(status.success(), "{status}: {screen:?}");
        screen.extend(pieces);
        screen
    };
    // An order that is not confirmed is not sent.
    let screen = typed(b"jdnq");
    assert!(screen.contains("\x1b[?1049h") && screen.contains("q quit"), "{screen}");
    assert!(screen.trim_end().ends_with("\x1b[?25h\x1b[?1049l"), "{screen:?}");
    assert_eq!(managed.json("/v1/pools/app/endpoints/one")["order"], "ready");
    typed(b"jjdyq");
    assert_eq!(managed.json("/v1/pools/app/endpoints/two")["order"], "draining");
    // ^C leaves too.
    typed(b"\x1b[Bw\x03");
}

#[test]
fn a_signal_ends_it_with_the_terminal_as_it_was() {
    let managed = Managed::start("", 0);
    let weir = env!("CARGO_BIN_EXE_weir");
    for (signal, status) in [(Signal::TERM, "143"), (Signal::HUP, "129"), (Signal::INT, "130")] {
        let file = |name: &str| managed.directory.path().join(name);
        let _ = std::fs::remove_file(file("pid"));
        let shell = format!(
            "cd {}; stty -a > before; sh -c 'echo $$ > pid; exec {weir} top --socket admin.sock'; echo $? > status; stty -a > after",
            managed.directory.path().display()
        );
        let mut script = command("script");
        script.args(["-qec", &shell, "/dev/null"]).env("NO_COLOR", "1");
        let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (_stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut screen = Vec::new();
        let mut piece = [0; 4096];
        while !String::from_utf8_lossy(&screen).contains("q quit") {
            let count = stdout.read(&mut piece).unwrap();
            assert!(count > 0, "{}", String::from_utf8_lossy(&screen));
            screen.extend_from_slice(&piece[..count]);
        }
        let pid = std::fs::read_to_string(file("pid")).unwrap().trim().parse().unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
        // The rest of the output is read, so that the terminal's buffer does not fill up.
        let _ = stdout.read_to_end(&mut screen);
        eventually("it ends", || child.try_wait().unwrap());
        let text = |name: &str| std::fs::read_to_string(file(name)).unwrap();
        assert_eq!(text("status").trim(), status);
        assert_eq!(text("after"), text("before"), "{signal:?}");
        let screen = String::from_utf8_lossy(&screen).into_owned();
        assert!(screen.contains("\x1b[?25h\x1b[?1049l"), "{screen:?}");
    }
}
