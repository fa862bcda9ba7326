//! Who is let in, what he may do, and how little he can hold up.

use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::process::Signal;

use super::{Managed, asked};
use crate::support::eventually;
use crate::support::process::{command, finish};

const ONE: &str = "/v1/pools/app/endpoints/one";

fn mode(managed: &Managed, name: &str) -> u32 {
    let path = managed.directory.path().join(name);
    std::fs::metadata(path).unwrap().mode() & 0o777
}

#[test]
fn a_socket_is_for_its_owner_and_group() {
    let managed = Managed::start(
        "admin unix:DIRECTORY/own.sock mode=0600;
         admin unix:DIRECTORY/all.sock mode=0666 read_only group=0;",
        0,
    );
    assert_eq!(mode(&managed, "admin.sock"), 0o660);
    assert_eq!(mode(&managed, "own.sock"), 0o600);
    assert_eq!(mode(&managed, "all.sock"), 0o666);
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // Somebody else, let into the directory.
    let directory = managed.directory.path();
    std::fs::set_permissions(directory, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let as_nobody = |socket: &str| {
        let path = directory.join(socket).display().to_string();
        let mut curl = command("setpriv");
        curl.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "curl",
            "--silent",
            "--show-error",
        ]);
        curl.args(["--max-time", "20", "--unix-socket", &path, "http://weir/v1/info"]);
        finish(&mut curl, b"")
    };
    for socket in ["admin.sock", "own.sock"] {
        let done = as_nobody(socket);
        assert_eq!(done.status.code(), Some(7), "{socket}: {done:?}");
    }
    let done = as_nobody("all.sock");
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn nothing_can_be_changed_where_one_may_only_look() {
    let managed = Managed::start(
        "admin unix:DIRECTORY/look.sock read_only;
         admin 127.0.0.1:0 read_only;",
        1,
    );
    let socket = managed.directory.text("look.sock");
    let tcp = format!("http://{}{ONE}", managed.weir.addresses[1]);
    let unix = format!("http://weir{ONE}");
    for place in [vec!["--unix-socket", &socket, &unix], vec![&tcp]] {
        assert_eq!(asked(&place).0, 200);
        let (status, body) = asked(
            &[&["-X", "PATCH", "--data", r#"{"order": "draining"}"#], place.as_slice()].concat(),
        );
        assert_eq!(status, 403, "{body}");
        let said: serde_json::Value = serde_json::from_str(&body).unwrap();
        let message = said["error"]["message"].as_str().unwrap();
        assert!(message.contains("it is read_only"), "{message}");
    }
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.write_all(b"set server app/one state drain\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert_eq!(said, "Permission denied\n\n");
    assert_eq!(managed.json(ONE)["order"], "ready");
    // Over TCP there is no command line.
    let mut stream = std::net::TcpStream::connect(managed.weir.addresses[1]).unwrap();
    stream.write_all(b"show info\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 400 "), "{said}");
}

#[test]
fn over_tcp_the_token_decides() {
    let directory = crate::support::Directory::new();
    let token = "correct-horse-battery-staple";
    let file = directory.file("token", format!("{token}\n"));
    let managed = Managed::start(&format!("admin 127.0.0.1:0 token_file={};", file.display()), 1);
    let url = format!("http://{}{ONE}", managed.weir.addresses[1]);
    let check = |header: &str, expected: u16| {
        let patch = ["-X", "PATCH", "--data", r#"{"max_conn": 7}"#, "-H", header, &url];
        assert_eq!(asked(&patch).0, expected, "{header}");
        assert_eq!(asked(&["-H", header, &url]).0, expected, "{header}");
    };
    check("X-Nothing: x", 401);
    check("Authorization: Bearer correct-horse-battery-stapl", 401);
    check("Authorization: Bearer correct-horse-battery-staplee", 401);
    check(&format!("Authorization: Basic {token}"), 401);
    assert_eq!(managed.json(ONE)["max_conn"], 50);
    check(&format!("Authorization: Bearer {token}"), 200);
    assert_eq!(managed.json(ONE)["max_conn"], 7);
    let said = managed.weir.process.said();
    assert!(said.contains("max_conn 50 -> 7, by the token from 127.0.0.1:"), "{said}");
    assert!(!said.contains(token), "{said}");
}

#[test]
fn what_is_sent_is_bounded() {
    let managed = Managed::start("", 0);
    let large = managed.directory.file("large", "x".repeat(65 * 1024));
    let body = format!("@{}", large.display());
    let (status, said) =
        managed.ask(&["-X", "PATCH", "-H", "Expect:", "--data-binary", &body, ONE]);
    assert_eq!(status, 413, "{said}");
    let chunked = [
        "-X",
        "PATCH",
        "-H",
        "Expect:",
        "-H",
        "Transfer-Encoding: chunked",
        "--data-binary",
        &body,
        ONE,
    ];
    assert_eq!(managed.ask(&chunked).0, 413);
    let header = format!("X-Large: {}", "x".repeat(20 * 1024));
    assert_eq!(managed.ask(&["-H", &header, "/v1/info"]).0, 431);
    let mut stream = UnixStream::connect(&managed.socket).unwrap();
    stream.write_all(&vec![b'x'; 20 * 1024]).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert_eq!(said, "This command line is too long.\n\n");
}

#[test]
fn whoever_holds_connections_shuts_nobody_out_for_long_and_holds_up_no_signal() {
    let mut managed = Managed::start("admin unix:DIRECTORY/other.sock;", 0);
    let silent: Vec<UnixStream> = (0..64)
        .map(|number| {
            let mut stream = UnixStream::connect(&managed.socket).unwrap();
            // Half of them in the middle of a request, half in that of a command.
            stream.write_all(if number % 2 == 0 { b"GET /v1" } else { b"show in" }).unwrap();
            stream
        })
        .collect();
    let said = eventually("the next one is told that there is no room", || {
        let mut stream = UnixStream::connect(&managed.socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).ok().map(|_| said)
    });
    assert!(said.starts_with("HTTP/1.1 503 "), "{said}");
    assert!(said.contains("too many admin connections"), "{said}");
    // Whoever comes over another address is let in.
    let other = managed.directory.text("other.sock");
    assert_eq!(asked(&["--unix-socket", &other, "http://weir/v1/info"]).0, 200);
    assert_eq!(managed.answers(4), ["one", "two"]);
    drop(silent);
    eventually("there is room again", || (managed.ask(&["/v1/info"]).0 == 200).then_some(()));
    let _silent = UnixStream::connect(&managed.socket).unwrap();
    managed.weir.process.signal(Signal::TERM);
    assert!(managed.weir.process.wait().success());
}

#[test]
fn a_dead_socket_is_taken_over_and_a_live_one_is_not() {
    let mut managed = Managed::start("", 0);
    let config = std::fs::read_to_string(managed.directory.path().join("weir.conf")).unwrap();
    let second = managed.directory.file("second.conf", &config);
    let mut weir = crate::support::weir::weir_command();
    let done = finish(weir.args(["run", "-c"]).arg(&second), b"");
    assert_eq!(done.status.code(), Some(1));
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(said.contains("admin.sock: another program is listening there already"), "{said}");
    managed.weir.process.signal(Signal::KILL);
    managed.weir.process.wait();
    assert!(managed.socket.exists(), "it was killed");
    managed.weir = crate::support::weir::Weir::start(&managed.directory, &config);
    assert_eq!(managed.json("/v1/info")["name"], "Weir");
}

#[test]
fn who_may_look_does_not_see_secrets() {
    let secret = "a-secret-of-24-characters";
    let more =
        format!("pool web {{ server 127.0.0.1:1; sticky cookie S insert secret={secret}; }}");
    let managed = Managed::start(&more, 0);
    for path in ["/v1/config", "/v1/config?file=true"] {
        assert_eq!(managed.json(path)["pools"][0]["sticky"]["secret"]["text"], "(hidden)");
        assert!(!managed.ask(&[path]).1.contains(secret));
    }
}
