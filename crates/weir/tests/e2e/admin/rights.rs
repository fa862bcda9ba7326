//! Authentication, roles, and the bounds on what unauthenticated clients can occupy.

use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

use rustix::process::Signal;

use super::{Managed, asked};
use crate::support::eventually;
use crate::support::needs::is_root;
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
    if !is_root() {
        return;
    }
    // Another user, who may enter the directory.
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
        assert!(message.contains("your role is read-only"), "{message}");
    }
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.write_all(b"set server app/one state drain\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert_eq!(said, "Permission denied\n\n");
    assert_eq!(managed.json(ONE)["order"], "ready");
    // HAProxy's command line is not available over TCP.
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
    managed.weir.process.says("max_conn 50 -> 7, by the token from 127.0.0.1:");
    let said = managed.weir.process.said();
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
fn connections_without_credentials_keep_no_caller_out_and_delay_no_signal() {
    let mut managed = Managed::start("", 0);
    let begin = |number: usize| {
        let mut stream = UnixStream::connect(&managed.socket).unwrap();
        // Half of them stop in the middle of a request, half in the middle of a command.
        stream.write_all(if number.is_multiple_of(2) { b"GET /v1" } else { b"show in" }).unwrap();
        stream
    };
    let mut silent: Vec<UnixStream> = (0..200).map(begin).collect();
    for _ in 0..3 {
        assert_eq!(managed.ask(&["/v1/info"]).0, 200);
    }
    assert_eq!(managed.answers(4), ["one", "two"]);
    // The oldest connection was closed to make room; the latest can still send its command.
    let mut said = String::new();
    assert_eq!(silent[0].read_to_string(&mut said).unwrap_or(0), 0, "{said}");
    let mut last = silent.pop().unwrap();
    last.write_all(b"fo\n").unwrap();
    last.read_to_string(&mut said).unwrap();
    assert!(said.contains("Name: Weir"), "{said}");
    let metrics = managed.ask(&["/metrics"]).1;
    let closed = metrics
        .lines()
        .find_map(|line| {
            line.strip_prefix("weir_admin_connections_ended_total{reason=\"closed\"} ")
        })
        .unwrap_or_else(|| panic!("{metrics}"));
    assert!(closed.parse::<u64>().unwrap() >= 160, "{closed}");
    managed.weir.process.signal(Signal::TERM);
    assert!(managed.weir.process.wait().success());
}

#[test]
fn a_token_is_admitted_beside_callers_without_one() {
    let directory = crate::support::Directory::new();
    let file = directory.file("token", "correct-horse-battery-staple\n");
    let managed = Managed::start(&format!("admin 127.0.0.1:0 token_file={};", file.display()), 1);
    let address = managed.weir.addresses[1];
    let _silent: Vec<std::net::TcpStream> = (0..100)
        .map(|_| {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.write_all(b"G").unwrap();
            stream
        })
        .collect();
    let url = format!("http://{address}/v1/info");
    let bearer = "Authorization: Bearer correct-horse-battery-staple";
    for _ in 0..3 {
        assert_eq!(asked(&["-H", bearer, &url]).0, 200);
    }
    // Refused requests are logged, but not one line each.
    for _ in 0..20 {
        assert_eq!(asked(&[&url]).0, 401);
    }
    managed.weir.process.says("admin: refused");
    let said = managed.weir.process.said();
    let lines = said.lines().filter(|line| line.contains("admin: refused")).count();
    assert!((1..=3).contains(&lines), "{said}");
}

/// DNS rebinding: a browser that an attacker's DNS leads here gets no data.
#[test]
fn only_own_names_are_answered_to_without_a_token() {
    let managed = Managed::start("admin 127.0.0.1:0 read_only name=metrics.example.com;", 1);
    let address = managed.weir.addresses[1];
    let url = format!("http://{address}/v1/config");
    let check = |headers: &[&str], expected: u16| {
        let headers = headers.iter().flat_map(|header| ["-H", *header]);
        let arguments: Vec<&str> = headers.chain([url.as_str()]).collect();
        let (status, body) = asked(&arguments);
        assert_eq!(status, expected, "{arguments:?}: {body}");
        body
    };
    check(&[], 200);
    check(&["Host: localhost:9900"], 200);
    check(&["Host: metrics.example.com:9900"], 200);
    let said = check(&["Host: evil.example"], 421);
    assert!(said.contains("add `name=evil.example`"), "{said}");
    check(&["Origin: http://evil.example"], 421);
    let metrics = format!("http://{address}/metrics");
    assert_eq!(asked(&["-H", "Host: evil.example", &metrics]).0, 421);
    // A Unix socket is for programs of this machine, which may use any `Host`.
    assert_eq!(managed.ask(&["-H", "Host: evil.example", "/v1/info"]).0, 200);
}

#[test]
fn a_role_limits_what_its_holder_may_do() {
    let directory = crate::support::Directory::new();
    let tokens = ["look", "operate", "all"].map(|name| {
        let token = format!("{name}-{}", "x".repeat(20));
        directory.file(name, format!("{token}\n"));
        token
    });
    let managed = Managed::start(
        &format!(
            "admin 127.0.0.1:0 {{
                 role read token_file={0}/look;
                 role operate token_file={0}/operate;
                 role admin token_file={0}/all;
             }}",
            directory.path().display()
        ),
        1,
    );
    let base = format!("http://{}", managed.weir.addresses[1]);
    let ask = |token: usize, arguments: &[&str], path: &str| {
        let header = format!("Authorization: Bearer {}", tokens[token]);
        let url = format!("{base}{path}");
        asked(&[&["-H", &header], arguments, &[&url]].concat())
    };
    let patch = ["-X", "PATCH", "--data", r#"{"order": "draining"}"#];
    let add = ["-X", "POST", "--data", r#"{"address": "127.0.0.1:9"}"#];
    let expected = [[200, 403, 403, 403], [200, 200, 403, 403], [200, 200, 200, 200]];
    for (token, expected) in expected.into_iter().enumerate() {
        let statuses = [
            ask(token, &[], "/v1/status").0,
            ask(token, &patch, ONE).0,
            ask(token, &add, "/v1/pools/app/endpoints").0,
            ask(token, &["-X", "POST"], "/v1/reload").0,
        ];
        assert_eq!(statuses, expected, "{token}");
    }
    assert_eq!(asked(&[&format!("{base}/v1/status")]).0, 401);
    // Denied requests are in the list of events, with their authors.
    let events = managed.json("/v1/events").to_string();
    assert!(events.contains("PATCH /v1/pools/{pool}/endpoints/{endpoint} needs the role operate"));
    assert!(events.contains("POST /v1/reload needs the role admin"), "{events}");
    assert!(events.contains("\"kind\":\"denied\""), "{events}");
}

#[test]
fn the_audit_log_has_the_author_of_each_change_and_refusal() {
    let managed = Managed::start(
        "audit_log DIRECTORY/audit.log;
         admin unix:DIRECTORY/look.sock read_only;",
        0,
    );
    assert_eq!(managed.change("PATCH", ONE, r#"{"order": "draining"}"#).0, 200);
    let socket = managed.directory.text("look.sock");
    let url = format!("http://weir{ONE}");
    let patch = ["--unix-socket", &socket, "-X", "PATCH", "--data", r#"{"weight": 2}"#, &url];
    assert_eq!(asked(&patch).0, 403);
    managed.weir.process.signal(Signal::HUP);
    let lines = eventually("three lines are written", || {
        let text = std::fs::read_to_string(managed.directory.text("audit.log")).ok()?;
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (lines.len() >= 3).then_some(lines)
    });
    let check = |index: usize, kind: &str, who: &str, what: &str| {
        let line = &lines[index];
        let has = |field: &str, part: &str| line[field].as_str().unwrap().contains(part);
        assert!(has("kind", kind) && has("who", who) && has("what", what), "{line}");
        assert!(has("time", "T"), "{line}");
    };
    check(0, "change", "uid ", "order ready -> draining");
    check(1, "denied", "look.sock", "needs the role operate");
    check(2, "reload", "signal HUP", "serving generation 2");
}

#[test]
fn users_have_roles_over_a_unix_socket() {
    if !is_root() {
        return;
    }
    let managed = Managed::start(
        "admin unix:DIRECTORY/roles.sock mode=0666 { role operate user=65534; role read user=1; }",
        0,
    );
    let directory = managed.directory.path();
    std::fs::set_permissions(directory, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let socket = managed.directory.text("roles.sock");
    let ask = |uid: u32, arguments: &[&str]| {
        let mut curl = command("setpriv");
        curl.arg(format!("--reuid={uid}")).args(["--clear-groups", "curl", "--silent"]);
        curl.args(["--max-time", "20", "--unix-socket", &socket, "--write-out", "%{http_code}"]);
        curl.args(["--output", "/dev/null"]).args(arguments);
        let done = finish(&mut curl, b"");
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    let url = format!("http://weir{ONE}");
    let patch = ["-X", "PATCH", "--data", r#"{"order": "draining"}"#, &url];
    let stop = ["-X", "POST", "http://weir/v1/reload"];
    let check = |uid: u32, expected: [&str; 3]| {
        assert_eq!([ask(uid, &[&url]), ask(uid, &patch), ask(uid, &stop)], expected, "{uid}");
    };
    check(65534, ["200", "200", "403"]);
    check(1, ["200", "403", "403"]);
    check(2, ["403", "403", "403"]);
    check(0, ["200", "200", "200"]);
    let say = |uid: u32, line: &str| {
        let mut shell = command("setpriv");
        shell.arg(format!("--reuid={uid}")).args(["--clear-groups", "socat", "-", &socket]);
        String::from_utf8(finish(&mut shell, line.as_bytes()).stdout).unwrap()
    };
    assert_eq!(say(2, "show info\n"), "Permission denied\n\n");
    assert_eq!(say(1, "set server app/one state ready\n"), "Permission denied\n\n");
    assert_eq!(say(65534, "set server app/one state ready\n"), "\n");
    assert_eq!(say(65534, "add server app/new 127.0.0.1:9\n"), "Permission denied\n\n");
    assert_eq!(say(1, "show cli level\n"), "user\n\n");
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
fn a_reader_does_not_see_secrets() {
    let secret = "a-secret-of-24-characters";
    let more =
        format!("pool web {{ server 127.0.0.1:1; sticky cookie S insert secret={secret}; }}");
    let more = format!(
        "{more} listen 127.0.0.1:0 {{
             header set X-Api-Key {secret};
             header set X-Plain {secret} secret;
             default -> web;
         }}"
    );
    let managed = Managed::start(&more, 1);
    for path in ["/v1/config", "/v1/config?file=true"] {
        assert_eq!(managed.json(path)["pools"][0]["sticky"]["secret"]["text"], "(hidden)");
        assert!(!managed.ask(&[path]).1.contains(secret));
    }
}
