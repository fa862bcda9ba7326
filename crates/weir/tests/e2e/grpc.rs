//! gRPC between real programs: a client and servers of Debian's python3-grpcio, or with tonic in
//! `grpc/tonic`, and Weir between them. All four kinds of calls, failures, deadlines, reloads, a
//! server that drains, and a browser that calls by gRPC-Web.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Lines, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::browser::Browser;
use crate::support::needs::not_run;
use crate::support::programs::Certificate;
use crate::support::weir::{Weir, weir_command};
use crate::support::{Directory, eventually};

/// A program of this test: a script in Debian's Python, whose packages have gRPC, or one with
/// tonic.
pub(crate) struct Script {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Script {
    fn start(name: &str, arguments: &[&str]) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/grpc");
        Self::run(Command::new("/usr/bin/python3").arg(folder.join(name)).args(arguments))
    }

    fn run(command: &mut Command) -> Self {
        let mut child = command
            // A proxy of this machine's environment is none for loopback.
            .env("no_proxy", "*")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, input, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("the script goes on").unwrap()
    }

    /// Sends a command to the client; returns its outcome.
    pub(crate) fn ask(&mut self, command: &str) -> String {
        writeln!(self.input, "{command}").unwrap();
        self.line()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server with this name; returns its address too.
pub(crate) fn server(name: &str) -> (Script, String) {
    listening(Script::start("server.py", &[name]))
}

/// A server that prints its port, and its address.
fn listening(mut script: Script) -> (Script, String) {
    let port = script.line();
    (script, format!("127.0.0.1:{port}"))
}

pub(crate) fn client(address: SocketAddr) -> Script {
    Script::start("client.py", &[&address.to_string()])
}

/// Returns true if the programs are there.
pub(crate) fn is_there() -> bool {
    let mut command = Command::new("/usr/bin/python3");
    let found = command.args(["-c", "import grpc"]).stderr(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        not_run("WEIR_GRPC", "Debian's python3 has no grpc: scripts/packages grpc");
    }
    found
}

/// The text of a configuration with this pool, and a log of calls.
fn config(directory: &Directory, pool: &str, listener: &str) -> String {
    let log = directory.text("calls.log");
    format!(
        "workers 2;
         log calls {{ to {log}; format '$grpc_service $grpc_method $grpc_status $endpoint $cause'; }}
         pool app {{ http_version 2; {pool} }}
         listen 127.0.0.1:0 {listener} {{ http2 on; log calls; default -> app; }}"
    )
}

/// Waits for the line of a call.
fn expect_logged(directory: &Directory, line: &str) {
    eventually(line, || {
        let log = std::fs::read_to_string(directory.text("calls.log")).unwrap_or_default();
        log.lines().any(|own| own == line).then_some(())
    });
}

/// The path of the program with tonic; `None` if it was not built.
fn tonic() -> Option<OsString> {
    let path = std::env::var_os("WEIR_TONIC_PATH").filter(|path| !path.is_empty());
    if path.is_none() {
        not_run(
            "WEIR_TONIC",
            "WEIR_TONIC_PATH does not name the program that scripts/tonic builds",
        );
    }
    path
}

#[test]
fn all_four_kinds_of_calls_pass() {
    if is_there() {
        check_calls(server("one"), client);
    }
}

#[test]
fn calls_of_tonic_and_of_python_pass_to_either() {
    let Some(path) = tonic().filter(|_| is_there()) else { return };
    let tonic_server = || listening(Script::run(Command::new(&path).args(["server", "one"])));
    let tonic_client = |address: SocketAddr| {
        Script::run(Command::new(&path).arg("client").arg(address.to_string()))
    };
    check_calls(tonic_server(), tonic_client);
    check_calls(server("one"), tonic_client);
    check_calls(tonic_server(), client);
}

/// Checks all kinds of calls from such a client to a server with the name `one`.
fn check_calls((_one, address): (Script, String), client: impl Fn(SocketAddr) -> Script) {
    let directory = Directory::new();
    let pool = format!("server {address} name=one;");
    let weir = Weir::start(&directory, &config(&directory, &pool, ""));
    let mut client = client(weir.address());
    assert_eq!(client.ask("unary hello"), "hello from one");
    assert_eq!(client.ask("large 3000000"), "3000000");
    assert_eq!(client.ask("stream 4"), "0 1 2 3");
    assert_eq!(client.ask("collect a b c"), "a+b+c");
    // Each message is answered before the next is sent.
    assert_eq!(client.ask("open"), "opened");
    assert_eq!(client.ask("say first"), "heard first");
    assert_eq!(client.ask("say second"), "heard second");
    assert_eq!(client.ask("close"), "[]");
    expect_logged(&directory, "weir.test.Echo Unary 0 one complete");
    expect_logged(&directory, "weir.test.Echo Talk 0 one complete");
    // The status and the message of a failed call are the server's.
    assert_eq!(client.ask("fail 5"), "NOT_FOUND one says no");
    expect_logged(&directory, "weir.test.Echo Fail 5 one complete");
    assert_eq!(client.ask("other /weir.test.Echo/None"), "UNIMPLEMENTED Method not found!");
}

#[test]
fn calls_over_tls_on_both_sides_of_the_listener_pass() {
    if !is_there() {
        return;
    }
    let directory = Directory::new();
    let (_one, address) = server("one");
    let certificate = Certificate::localhost(&directory);
    let text = config(&directory, &format!("server {address} name=one;"), "tls");
    let text = text.replace("http2 on;", &format!("{} http2 on;", certificate.directive()));
    let weir = Weir::start(&directory, &text);
    let address = format!("localhost:{}", weir.address().port());
    let authority = certificate.chain.display().to_string();
    let mut client = Script::start("client.py", &[&address, &authority]);
    assert_eq!(client.ask("unary hello"), "hello from one");
    assert_eq!(client.ask("stream 3"), "0 1 2");
}

#[test]
fn a_client_reads_failures_of_our_own_and_its_deadline_holds() {
    if !is_there() {
        return;
    }
    let directory = Directory::new();
    let (one, address) = server("one");
    let pool = format!("server {address} name=one; retry off;");
    let weir = Weir::start(&directory, &config(&directory, &pool, ""));
    let mut client = client(weir.address());
    assert_eq!(client.ask("slow 0.3"), "DEADLINE_EXCEEDED Deadline Exceeded");
    drop(one);
    assert_eq!(client.ask("unary hello"), "UNAVAILABLE Bad Gateway");
}

#[test]
fn a_call_that_a_server_did_not_begin_is_answered_by_another() {
    if !is_there() {
        return;
    }
    let directory = Directory::new();
    let ((_one, first), (_two, second)) = (server("one"), server("two"));
    let pool = format!(
        "server {first} name=one; server {second} name=two; balance first;
         retry 1 on=connect,grpc-unavailable budget=off;"
    );
    let weir = Weir::start(&directory, &config(&directory, &pool, ""));
    let mut client = client(weir.address());
    assert_eq!(client.ask("unary hello"), "hello from one");
    assert_eq!(client.ask("fail 14"), "UNAVAILABLE two says no");
    assert_eq!(client.ask("fail 13"), "INTERNAL one says no");
}

#[test]
fn calls_go_on_over_reloads_and_when_their_server_drains() {
    if !is_there() {
        return;
    }
    let directory = Directory::new();
    let ((_one, first), (_two, second)) = (server("one"), server("two"));
    let pool = |servers: &str| config(&directory, servers, "");
    let (first, second) =
        (format!("server {first} name=one;"), format!("server {second} name=two;"));
    let file = directory.file("weir.conf", pool(&first));
    let weir = Weir::run(weir_command().args(["run", "-c"]).arg(&file), 1);
    let mut client = client(weir.address());
    assert_eq!(client.ask("open"), "opened");
    assert_eq!(client.ask("say a"), "heard a");
    assert_eq!(client.ask("unary x"), "x from one");
    std::fs::write(&file, pool(&second)).unwrap();
    weir.process.signal(Signal::HUP);
    eventually("new calls go to the other server", || {
        (client.ask("unary x") == "x from two").then_some(())
    });
    assert_eq!(client.ask("say b"), "heard b");
    assert_eq!(client.ask("close"), "[]");
}

#[test]
fn a_server_that_says_that_it_is_not_serving_gets_no_calls() {
    if !is_there() {
        return;
    }
    let directory = Directory::new();
    let ((_one, first), (_two, second)) = (server("one"), server("two"));
    let pool = |service: &str| {
        let pool = format!(
            "server {first} name=one; server {second} name=two;
             check grpc service={service} interval=50ms timeout=40ms fall=1 rise=1;"
        );
        config(&directory, &pool, "")
    };
    let file = directory.file("weir.conf", pool("weir.test.Echo"));
    let weir = Weir::run(weir_command().args(["run", "-c"]).arg(&file), 1);
    let mut client = client(weir.address());
    assert!(client.ask("unary hello").starts_with("hello from "));
    let reload = |service: &str| {
        std::fs::write(&file, pool(service)).unwrap();
        weir.process.signal(Signal::HUP);
    };
    for (service, reason) in [("sick", "NOT_SERVING"), ("unknown", "no such service")] {
        reload(service);
        weir.process.says(reason);
        eventually("no server is left", || {
            client.ask("unary hello").starts_with("UNAVAILABLE").then_some(())
        });
        reload("weir.test.Echo");
        eventually("the servers are back", || {
            client.ask("unary hello").starts_with("hello").then_some(())
        });
    }
}

/// The function that a page calls: it sends a message to a method, in binary or in text, and
/// returns the status of HTTP with the frames of the response, each with its first byte.
const WEB_CALL: &str = r#"
window.call = async (url, method, message, form) => {
    const bytes = new TextEncoder().encode(message);
    const frame = new Uint8Array([0, 0, 0, 0, bytes.length, ...bytes]);
    const isText = form === "-text";
    const body = isText ? btoa(String.fromCharCode(...frame)) : frame;
    const kind = "application/grpc-web" + form + "+proto";
    const response = await fetch(url + "weir.test.Echo/" + method, {
        method: "POST", body, headers: {"Content-Type": kind, "X-Grpc-Web": "1", "Accept": kind},
    });
    const status = response.headers.get("grpc-status");
    let received = new Uint8Array(await response.arrayBuffer());
    if (isText) {
        const groups = new TextDecoder().decode(received).match(/.{4}/g) || [];
        received = Uint8Array.from(groups.map(atob).join(""), (c) => c.charCodeAt(0));
    }
    const said = [response.status, response.headers.get("content-type"), status];
    for (let at = 0; at < received.length;) {
        const length = new DataView(received.buffer).getUint32(at + 1);
        const text = new TextDecoder().decode(received.slice(at + 5, at + 5 + length));
        said.push(received[at] + ":" + text.trim());
        at += 5 + length;
    }
    return said.join(" | ");
};"#;

#[test]
fn a_browser_calls_by_grpc_web() {
    if !is_there() {
        return;
    }
    let directory = Directory::new();
    let Some(mut browser) = Browser::start(&directory) else { return };
    let (_one, address) = server("one");
    let cors = "grpc web;
         response_header set Access-Control-Allow-Origin *;
         response_header set Access-Control-Allow-Headers content-type,x-grpc-web;
         response_header set Access-Control-Expose-Headers grpc-status,grpc-message;
         route method OPTIONS -> respond 204;";
    let pool = format!("server {address} name=one;");
    let text = config(&directory, &pool, "").replace("log calls; ", &format!("log calls; {cors} "));
    let text = format!("{text}\nlisten 127.0.0.1:0 {{ default -> respond 200 page; }}");
    let weir = Weir::start(&directory, &text);
    browser.open(&weir.url(1, "/"));
    browser.until("document.readyState === 'complete'");
    browser.value(WEB_CALL);
    let url = weir.url(0, "/");
    let mut call = |method: &str, message: &str, form: &str| {
        let said = browser.value(&format!("call('{url}', '{method}', '{message}', '{form}')"));
        said.as_str().unwrap_or_else(|| panic!("{method}: {said}")).to_owned()
    };
    for form in ["", "-text"] {
        let kind = format!("200 | application/grpc-web{form} |  | ");
        let unary = call("Unary", "hello", form);
        assert!(unary.starts_with(&format!("{kind}0:hello | 128:")), "{unary}");
        assert!(unary.contains("grpc-status: 0") && unary.contains("x-server: one"), "{unary}");
        let stream = call("Stream", "3", form);
        assert!(stream.starts_with(&format!("{kind}0:0 | 0:1 | 0:2 | 128:")), "{stream}");
        // A failure without a message is only a head.
        let failed = call("Fail", "5", form);
        assert_eq!(failed, format!("200 | application/grpc-web{form} | 5"));
    }
    expect_logged(&directory, "weir.test.Echo Unary 0 one complete");
    expect_logged(&directory, "weir.test.Echo Fail 5 one complete");
    assert_eq!(browser.complaints(), Vec::<Value>::new());
}
