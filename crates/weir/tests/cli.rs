//! The commands as a shell runs them: usage, exit codes, output, and signals. Traffic is tested in
//! `e2e`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// The longest time that a command may take; one that takes longer is killed, and the test fails.
const PATIENCE: Duration = Duration::from_mins(1);

fn weir(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments).env("NO_COLOR", "1").env("COLUMNS", "100");
    command.env("WEIR_SUPERVISOR", "off");
    command
}

/// A running command. It is killed when the test ends or takes too long.
struct Running {
    child: Child,
    lines: BufReader<ChildStderr>,
    seen: Vec<String>,
    done: Sender<()>,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap());
        let pid = Pid::from_child(&child);
        let (done, watch) = channel::<()>();
        thread::spawn(move || {
            if watch.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                let _ = kill_process(pid, Signal::KILL);
            }
        });
        Self { child, lines, seen: Vec::new(), done }
    }

    /// Returns the first line on standard error that contains `part`, and waits for it if needed.
    fn line_with(&mut self, part: &str) -> String {
        loop {
            if let Some(line) = self.seen.iter().find(|line| line.contains(part)) {
                return line.clone();
            }
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).unwrap();
            assert!(read > 0, "no line with {part:?} in {:#?}", self.seen);
            self.seen.push(line.trim_end().to_owned());
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end and returns the exit code, standard output and the remaining standard
    /// error.
    fn end(mut self) -> (Option<i32>, String, String) {
        let mut errors = String::new();
        let mut output = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        self.lines.read_to_string(&mut errors).unwrap();
        let status = self.child.wait().unwrap();
        (status.code(), output, errors)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.done.send(());
    }
}

#[track_caller]
fn check_failure(output: &Output, code: i32, parts: &[&str]) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    for part in parts {
        assert!(errors.contains(part), "no {part:?} in:\n{errors}");
    }
}

/// Checks that the error is one sentence that begins with the program's name.
#[track_caller]
fn check_sentence(output: &Output, code: i32, parts: &[&str]) {
    check_failure(output, code, parts);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.starts_with("weir: ") && errors.lines().count() == 1, "{errors}");
}

fn file(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

/// Returns the address in `weir: listening on ADDRESS (http)`.
fn address(line: &str) -> String {
    line.split(' ').nth(3).unwrap().to_owned()
}

#[test]
fn wrong_usage_is_exit_code_2() {
    let check = |arguments: &[&str], parts: &[&str]| {
        check_failure(&weir(arguments).output().unwrap(), 2, parts);
    };
    check(&[], &["Usage: weir"]);
    check(&["fly"], &["unrecognized subcommand 'fly'"]);
    check(&["run", "--wokers", "2"], &["'--wokers'", "'--workers'"]);
    check(&["run", "--workers", "0"], &["0 is not in 1..=1024"]);
    check(&["-c", "weir.conf"], &["-t"]);
    check(&["check", "a.conf", "-c", "b.conf"], &["cannot be used with"]);
    check(&["proxy", "--to", "127.0.0.1:3000"], &["--listen"]);
    check(&["proxy", "--listen", ":0", "--to", "127.0.0.1:1", "--key", "k.pem"], &["--cert"]);
    check(
        &["proxy", "--listen", ":0", "--to", "127.0.0.1:1", "--balance", "lest_conn"],
        &["least_conn"],
    );
    check(&["proxy", "--listen", ":0", "--to", "127.0.0.1:1", "--tls-min", "1.1"], &["1.2"]);
    check(&["check", "a.conf", "--rate", "0"], &["a number of requests per second", "`observed`"]);
    check(&["check", "a.conf", "--admin", "/run/weir/admin.sock"], &["--rate"]);
    check(&["completion", "cmd"], &["bash"]);
    check(&["origin", "--pause", "5s"], &["every=5s,for=200ms"]);
    check(&["origin", "--concurrency", "0"], &["0 is not in 1.."]);
    check(&["origin", "--cert", "a.pem"], &["--listen-tls"]);
}

#[test]
fn flags_that_make_no_configuration_are_said_in_a_sentence() {
    let check = |arguments: &[&str], parts: &[&str]| {
        check_sentence(&weir(arguments).output().unwrap(), 2, parts);
    };
    check(&["proxy", "--listen", "127.0.0.1:0", "--to", "127.0.0.1"], &["127.0.0.1", "port"]);
    check(&["proxy", "--listen", "127.0.0.1:99999", "--to", "127.0.0.1:1"], &["99999"]);
    check(&["serve", ".", "--listen", "nonsense;"], &["nonsense;"]);
    check(&["origin", "--listen", "nonsense"], &["nonsense", "127.0.0.1:9001-9004"]);
    check(&["origin", "--service-time", "exp:20"], &["`20ms`"]);
    check(&["origin", "--service-time", "list:/nowhere"], &["/nowhere"]);
    let format = ["--access-log", "-", "--log-format", "combind"];
    let proxy = ["proxy", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:1"];
    check(&[&proxy[..], &format].concat(), &["combind"]);
}

#[test]
fn help_is_as_recorded() {
    for command in [
        "",
        "run",
        "proxy",
        "serve",
        "check",
        "explain",
        "fmt",
        "import",
        "top",
        "bench",
        "origin",
        "sim",
        "lab",
        "demo",
        "completion",
        "ctl",
        "reload",
        "stop",
        "upgrade",
    ] {
        let arguments = [command, "--help"];
        let arguments =
            arguments.iter().filter(|word| !word.is_empty()).copied().collect::<Vec<_>>();
        let output = weir(&arguments).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty());
        let name = if command.is_empty() { "weir" } else { command };
        let path = format!("{}/tests/help/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        let shown = String::from_utf8(output.stdout).unwrap();
        if std::env::var_os("WEIR_BLESS").is_some() {
            std::fs::write(&path, &shown).unwrap();
        }
        assert_eq!(
            shown,
            std::fs::read_to_string(&path).unwrap(),
            "WEIR_BLESS=1 records it anew: {path}"
        );
    }
}

#[test]
fn the_version_names_the_program() {
    let output = weir(&["-V"]).output().unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        format!("weir {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn completion_knows_commands_and_flags() {
    for shell in ["bash", "zsh", "fish"] {
        let output = weir(&["completion", shell]).output().unwrap();
        assert!(output.status.success());
        let script = String::from_utf8(output.stdout).unwrap();
        for word in
            ["proxy", "check", "listen-tls", "log-format", "least_conn", "origin", "service-time"]
        {
            assert!(script.contains(word), "{shell}: no {word}");
        }
    }
}

#[test]
fn check_says_ok_in_every_spelling() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("access.log");
    let text = format!(
        "log access {{ to {}; }}\nlisten 127.0.0.1:8080 {{ log access; route -> 127.0.0.1:3000; }}\n",
        log.display()
    );
    let path = file(directory.path(), "good.conf", &text);
    let path = path.to_str().unwrap();
    for arguments in [
        &["check", path][..],
        &["check", "-c", path],
        &["check", "--config", path],
        &["-t", "-c", path],
    ] {
        let output = weir(arguments).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{path}: ok\n"));
        assert_eq!(output.status.code(), Some(0));
    }
    assert!(!log.exists(), "a check made the log");
}

#[test]
fn defaults_of_another_program_are_those_of_the_assumed_version() {
    let directory = tempfile::tempdir().unwrap();
    let text = "events {}\nhttp { upstream a { server 127.0.0.1:2; }
        server { listen 127.0.0.1:1; location / { proxy_pass http://a; } } }\n";
    let path = file(directory.path(), "nginx.conf", text);
    let path = path.to_str().unwrap();
    let import = |assume: &[&str]| weir(&[&["import", path], assume].concat()).output().unwrap();
    let printed = |assume: &[&str]| String::from_utf8(import(assume).stdout).unwrap();
    assert!(printed(&[]).contains("keepalive off;"));
    assert!(printed(&["--assume", "nginx=1.22.1"]).contains("keepalive off;"));
    assert!(printed(&["--assume", "nginx=1.31"]).contains("keepalive idle=32"));
    check_sentence(&import(&["--assume", "haproxy=2.6"]), 2, &["nginx.conf", "file of nginx"]);
    check_failure(&import(&["--assume", "nginx=new"]), 2, &["`nginx=1.31`"]);
    let explain = ["explain", "-c", path, "--assume", "nginx=1.31", "GET http://a.test:1/"];
    let account = weir(&explain).output().unwrap();
    assert_eq!(account.status.code(), Some(0), "{}", String::from_utf8_lossy(&account.stderr));
}

#[test]
fn check_writes_json_that_reads_as_the_same_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let text = "pool app { server 127.0.0.1:3000 weight=2; balance least_conn; }\nlisten 127.0.0.1:8080 -> app;\n";
    let path = file(directory.path(), "good.conf", text);
    let first = weir(&["check", "--json", path.to_str().unwrap()]).output().unwrap();
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    let json = String::from_utf8(first.stdout).unwrap();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["pools"][0]["policy"], "least_conn");
    let path = file(directory.path(), "good.json", &json);
    let second = weir(&["check", "--json", path.to_str().unwrap()]).output().unwrap();
    assert_eq!(String::from_utf8(second.stdout).unwrap(), json);
}

#[test]
fn secrets_are_shown_only_when_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let text = "pool app { server 127.0.0.1:3000; sticky cookie SRV insert secret=a-secret-of-24-characters; }\nlisten 127.0.0.1:8080 { explain_header when=X-Explain=a-secret-of-24-characters; default -> app; }\n";
    let path = file(directory.path(), "good.conf", text);
    let json = |arguments: &[&str]| {
        let output = weir(arguments).arg(&path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let shown = json(&["check", "--json", "--show-secrets"]);
    assert!(shown.contains("a-secret-of-24-characters"), "{shown}");
    let hidden = json(&["check", "--json"]);
    assert_eq!(hidden, shown.replace("a-secret-of-24-characters", "(hidden)"));
    // The placeholder of a hidden secret is not accepted as a secret.
    let hidden = file(directory.path(), "hidden.json", &hidden);
    let parts =
        ["pools[0].sticky.secret", "listeners[0].explain_header.when.value", "--show-secrets"];
    check_failure(&weir(&["check", hidden.to_str().unwrap()]).output().unwrap(), 3, &parts);
    check_failure(&weir(&["check", "--show-secrets"]).output().unwrap(), 2, &["--json"]);
}

#[test]
fn a_warning_stops_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let text = "pool unused { server 127.0.0.1:1; }\nlisten 127.0.0.1:8080 -> respond 204;\n";
    let path = file(directory.path(), "weir.conf", text);
    let output = weir(&["check", path.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains("warning") && errors.contains("unused") && errors.contains(":1:"),
        "{errors}"
    );
}

#[test]
fn fmt_rewrites_files_and_names_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(directory.path(), "a.conf", "listen :80 ->  x; # y\n");
    let good = file(directory.path(), "good.conf", "workers 1;\n");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let link = directory.path().join("link.conf");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let (path, good, link) =
        (path.to_str().unwrap(), good.to_str().unwrap(), link.to_str().unwrap());
    let output = weir(&["fmt", "--check", link, good]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{link}\n"));
    assert_eq!(std::fs::read_to_string(path).unwrap(), "listen :80 ->  x; # y\n");
    let output = weir(&["fmt", link, good]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{link}\n"));
    assert_eq!(std::fs::read_to_string(path).unwrap(), "listen :80 -> x;  # y\n");
    assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(std::fs::symlink_metadata(link).unwrap().is_symlink());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 3, "a file was left behind");
    let output = weir(&["fmt", "--check", path, good]).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty());
}

#[test]
fn fmt_of_standard_input_goes_to_standard_output() {
    let run = |arguments: &[&str], text: &str| {
        let mut command = weir(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(run(&["fmt", "-"], "a {b;\n}"), (0, "a {\n    b;\n}\n".into()));
    assert_eq!(run(&["fmt", "--check", "-"], "a;\n"), (0, String::new()));
    assert_eq!(run(&["fmt", "--check", "-"], "a ;\n"), (1, "<stdin>\n".into()));
}

#[test]
fn fmt_leaves_what_it_cannot_read_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let check = |text: &str, code: i32, parts: &[&str]| {
        let path = file(directory.path(), "x.conf", text);
        let output = weir(&["fmt", path.to_str().unwrap()]).output().unwrap();
        check_failure(&output, code, parts);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    };
    check("listen :80 {  a;\n", 3, &["x.conf:1:12", "never closed", "1 error"]);
    check("events { }\nhttp { }\n", 2, &["x.conf", "another program", "weir import"]);
    check("{ }", 2, &["x.conf", "JSON"]);
    let missing = directory.path().join("missing.conf");
    check_sentence(
        &weir(&["fmt", missing.to_str().unwrap()]).output().unwrap(),
        1,
        &["missing.conf"],
    );
}

#[test]
fn a_file_that_was_taken_for_another_program_s_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let say = |text: &str, more: &[&str]| {
        let path = file(directory.path(), "x.conf", text);
        let mut arguments = vec!["check", path.to_str().unwrap()];
        arguments.extend(more);
        let output = weir(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let nginx = "x.conf, read as a file of nginx (--from weir reads it as one of Weir): 3 directives are refused";
    let unknown = "workers 1;\nserver { listen :80; }\n";
    let text = say(unknown, &[]);
    assert!(text.contains(nginx), "{text}");
    let haproxy =
        "x.conf, read as a file of HAProxy (--from weir reads it as one of Weir): 1 error";
    let text = say("workers 1\nfrontend a\n    bind :8080\n", &[]);
    assert!(text.contains(haproxy), "{text}");
    // It is known where the language was named, or a part of the file was read.
    for (text, more) in [
        (unknown, &["--from", "nginx"][..]),
        ("worker_processes 1;\nevents { }\nhttp { perl_modules a; }\n", &[]),
    ] {
        let text = say(text, more);
        assert!(!text.contains("read as"), "{text}");
    }
}

#[test]
fn lints_are_warnings_unless_they_are_denied() {
    let directory = tempfile::tempdir().unwrap();
    let text = "pool app {\n    server 127.0.0.1:1 max_conn=1;\n    queue off;\n}\nlisten 127.0.0.1:8080 -> app;\n";
    let path = file(directory.path(), "weir.conf", text);
    let path = path.to_str().unwrap();
    let output = weir(&["check", path]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{path}: ok, 1 warning\n"));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("warning[max-conn-without-queue]: "), "{errors}");
    assert!(errors.contains("weir.conf:3:5"), "{errors}");
    let output = weir(&["check", "--deny-warnings", path]).output().unwrap();
    check_failure(&output, 3, &["max-conn-without-queue", "1 warning", "--deny-warnings"]);
    let silenced = text.replace("queue off;", "queue off;  # weir: allow max-conn-without-queue");
    let path = file(directory.path(), "weir.conf", &silenced);
    let output = weir(&["check", "--deny-warnings", path.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
    let nginx = "events {}\nhttp {\n    server {\n        listen 127.0.0.1:80;\n        location /a {\n            proxy_pass http://127.0.0.1:1/;\n        }\n    }\n}\n";
    let path = file(directory.path(), "nginx.conf", nginx);
    let output = weir(&["check", "--accept-ignored", path.to_str().unwrap()]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{errors}");
    assert!(
        errors.contains("proxy-pass-drops-path") && errors.contains("nginx.conf:6:"),
        "{errors}"
    );
}

#[test]
fn no_lint_finds_anything_in_the_examples() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut checked = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // Files of other programs are in a folder of their own.
        if path.extension().is_none_or(|ending| ending != "conf") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let configuration = weir_config::parse_str(path.to_str().unwrap(), &text).unwrap();
        let found = weir_config::lint(&configuration);
        assert!(found.is_empty(), "{found}");
        assert!(configuration.warnings.is_empty(), "{}", configuration.warnings);
        checked += 1;
    }
    assert!(checked > 10, "{checked} examples");
}

#[test]
fn addresses_and_paths_of_another_machine_are_mapped() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path().to_str().unwrap();
    file(
        directory.path(),
        "more.conf",
        "pool app { server 10.0.0.11:8000 name=one; server unix:/run/app.sock; }\n",
    );
    let text = "include /etc/weir/more.conf;\n\
        pid_file /run/weir.pid;\n\
        listen 172.31.12.25:443 -> app;\n\
        listen :80 { route path /etc/weir/* -> 10.0.0.12:9; default -> app; }\n";
    let path = file(directory.path(), "weir.conf", text);
    let path = path.to_str().unwrap();
    let (etc, run) = (format!("/etc/weir={here}"), format!("/run={here}"));
    let mapped = [
        "--map-addr",
        "172.31.12.25:443=127.0.0.1:8443",
        "--map-addr",
        "10.0.0.11=127.0.0.2",
        "--map-addr",
        "10.0.0.12:9=127.0.0.1:9999",
        "--map-addr",
        ":80=127.0.0.1:8080",
        "--map-path",
        &etc,
        "--map-path",
        &run,
    ];
    let output = weir(&["check", "--json", path]).args(mapped).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let config = weir_config::from_json(&String::from_utf8(output.stdout).unwrap()).unwrap();
    let shown = weir_config::to_json(&config);
    for part in ["127.0.0.1:8443", "127.0.0.2:8000", "127.0.0.1:9999", "127.0.0.1:8080"] {
        assert!(shown.contains(part), "no {part} in {shown}");
    }
    assert!(
        shown.contains(&format!("{here}/app.sock")) && shown.contains("/etc/weir/*"),
        "{shown}"
    );
    assert_eq!(config.pid_file, Some(directory.path().join("weir.pid")));
    let output = weir(&["check", path, "--map-addr", "1.2.3.4:5=1.2.3.5:5"]).args(mapped).output();
    let parts = ["nothing in the file matches --map-addr 1.2.3.4:5=1.2.3.5:5"];
    check_failure(&output.unwrap(), 2, &parts);
    check_failure(&weir(&["check", path, "--map-path", "x"]).output().unwrap(), 2, &["FROM=TO"]);
    let explained = weir(&["explain", "-c", path, "http://127.0.0.1:8080/etc/weir/x"])
        .args(mapped)
        .output()
        .unwrap();
    let explained = String::from_utf8(explained.stdout).unwrap();
    assert!(explained.contains("127.0.0.1:9999"), "{explained}");
}

#[test]
fn an_import_prints_mapped_addresses_and_paths() {
    let directory = tempfile::tempdir().unwrap();
    let text = "error_log /var/log/nginx/error.log;\nevents {}\nhttp {\n    server {\n        listen 172.31.12.25:80;\n        location / {\n            proxy_pass http://10.0.0.11:8000;\n        }\n    }\n}\n";
    let path = file(directory.path(), "nginx.conf", text);
    let output = weir(&["import", path.to_str().unwrap()])
        .args(["--map-addr", "172.31.12.25:80=127.0.0.1:8080", "--map-addr", "10.0.0.11=127.0.0.1"])
        .args(["--map-path", "/var/log/nginx=/tmp/x"])
        .output()
        .unwrap();
    let native = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for part in ["listen 127.0.0.1:8080", "server 127.0.0.1:8000", "error_log /tmp/x/error.log"] {
        assert!(native.contains(part), "no {part} in {native}");
    }
    assert!(!native.contains("172.31.12.25:80;") && !native.contains("/var/log"), "{native}");
    assert_eq!(weir_config::formatted("x.conf", &native).unwrap(), native);
}

#[test]
fn every_error_is_shown_and_the_exit_code_is_3() {
    let directory = tempfile::tempdir().unwrap();
    let text = "pool app { blance least_conn; server 127.0.0.1:3000; }\nlisten 127.0.0.1:8080 -> ap;\nworkers many;\n";
    let path = file(directory.path(), "bad.conf", text);
    let path = path.to_str().unwrap();
    let places = [":1:12", "did you mean `balance`", ":2:26", "`ap`", ":3:9", "3 errors"];
    for arguments in [&["check", path][..], &["run", "-c", path], &["-t", "-c", path]] {
        check_failure(&weir(arguments).output().unwrap(), 3, &places);
    }
    let missing = directory.path().join("missing.conf");
    check_failure(
        &weir(&["run", "-c", missing.to_str().unwrap()]).output().unwrap(),
        3,
        &["missing.conf"],
    );
}

#[test]
fn a_missing_file_is_reported_in_one_sentence_and_exits_1() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("nowhere");
    let missing = missing.to_str().unwrap();
    let garbage = file(directory.path(), "garbage.pem", "no certificate");
    let garbage = garbage.to_str().unwrap();
    let check = |text: &str, parts: &[&str]| {
        let path = file(directory.path(), "weir.conf", text);
        let path = path.to_str().unwrap();
        check_sentence(&weir(&["check", path]).output().unwrap(), 1, parts);
        check_sentence(&weir(&["run", "-c", path]).output().unwrap(), 1, parts);
    };
    let tls = |certificate| {
        format!("listen 127.0.0.1:0 tls {{ certificate {certificate}; route -> respond 204; }}")
    };
    check(&tls(missing), &[missing]);
    check(&tls(garbage), &[garbage]);
    check(&format!("listen 127.0.0.1:0 -> files {missing};"), &[missing]);
    let log = format!(
        "log a {{ to {missing}/access.log; }} listen 127.0.0.1:0 {{ log a; route -> respond 204; }}"
    );
    check(&log, &[missing, "access.log"]);
    let sticky = |secret| {
        format!(
            "pool app {{ server 127.0.0.1:1; sticky cookie SRV insert secret_file={secret}; }} listen 127.0.0.1:0 -> app;"
        )
    };
    check(&sticky(missing), &[missing]);
    check(&sticky(garbage), &[garbage, "14 bytes", "openssl rand"]);
}

#[test]
fn a_port_in_use_is_one_sentence_and_exit_code_1() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let check = |arguments: &[&str]| {
        check_sentence(
            &weir(arguments).output().unwrap(),
            1,
            &[&address, "listening there already"],
        );
    };
    check(&["proxy", "--listen", &address, "--to", "127.0.0.1:1"]);
    check(&["serve", ".", "--listen", &address]);
    check(&["origin", "--listen", &address]);
    check(&["demo", "--once", "--listen", &address, "--listen-tls", "127.0.0.1:0"]);
}

#[test]
fn serve_serves_a_directory_until_term() {
    let directory = tempfile::tempdir().unwrap();
    let odd = directory.path().join("odd; \"name\" ${HOME}");
    std::fs::create_dir(&odd).unwrap();
    file(&odd, "hello.txt", "hello\n");
    let mut server = Running::start(&mut weir(&[
        "serve",
        odd.to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
        "--workers",
        "1",
    ]));
    let address = address(&server.line_with("listening on"));
    let response = get(&address, "/hello.txt");
    assert!(
        response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with("\r\n\r\nhello\n"),
        "{response}"
    );
    server.signal(Signal::TERM);
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn proxy_reaches_its_endpoint_and_writes_the_log_to_standard_output() {
    let directory = tempfile::tempdir().unwrap();
    file(directory.path(), "a.txt", "from the origin\n");
    let path = directory.path().to_str().unwrap();
    let mut origin =
        Running::start(&mut weir(&["serve", path, "--listen", "127.0.0.1:0", "--workers", "1"]));
    let to = address(&origin.line_with("listening on"));
    let log = ["--access-log", "-", "--log-format", "$request_method $uri $status $pool"];
    let proxy =
        ["proxy", "--listen", "127.0.0.1:0", "--to", &to, "--balance", "hash", "--max-conn", "5"];
    let mut proxy = Running::start(&mut weir(&[&proxy[..], &log].concat()));
    let address = address(&proxy.line_with("listening on"));
    assert!(get(&address, "/a.txt").ends_with("\r\n\r\nfrom the origin\n"));
    proxy.signal(Signal::INT);
    let (code, output, _) = proxy.end();
    assert_eq!((code, output.as_str()), (Some(0), "GET /a.txt 200 endpoints\n"));
}

#[test]
fn a_reload_is_said_and_service_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(
        directory.path(),
        "weir.conf",
        "workers 1;\nlisten 127.0.0.1:0 -> respond 200 \"still here\";\n",
    );
    let mut server = Running::start(&mut weir(&["run", "-c", path.to_str().unwrap()]));
    let address = address(&server.line_with("listening on"));
    for (signal, generation) in [(Signal::HUP, 2), (Signal::USR2, 3)] {
        server.signal(signal);
        let line = format!("reloaded: serving generation {generation}; nothing changed");
        server.line_with(&line);
        server.seen.clear();
        assert!(get(&address, "/").ends_with("still here"));
    }
    server.signal(Signal::TERM);
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn a_name_that_does_not_resolve_is_said_and_its_endpoint_is_not_there() {
    let directory = tempfile::tempdir().unwrap();
    let text = "workers 1;\nlisten 127.0.0.1:0 -> nowhere.invalid:80;\n";
    let path = file(directory.path(), "weir.conf", text);
    let mut command = weir(&["run", "-c", path.to_str().unwrap()]);
    let mut server = Running::start(command.env("RES_OPTIONS", "attempts:1 timeout:1"));
    server.line_with("nowhere.invalid does not resolve");
    let address = address(&server.line_with("listening on"));
    assert!(get(&address, "/").starts_with("HTTP/1.1 503 "));
    server.signal(Signal::TERM);
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn a_name_that_resolves_is_there_from_the_first_request_on() {
    let directory = tempfile::tempdir().unwrap();
    file(directory.path(), "a.txt", "by name\n");
    let path = directory.path().to_str().unwrap();
    let mut origin =
        Running::start(&mut weir(&["serve", path, "--listen", "127.0.0.1:0", "--workers", "1"]));
    let port = address(&origin.line_with("listening on")).rsplit(':').next().unwrap().to_owned();
    let to = format!("localhost:{port}");
    let mut proxy = Running::start(&mut weir(&["proxy", "--listen", "127.0.0.1:0", "--to", &to]));
    let address = address(&proxy.line_with("listening on"));
    assert!(get(&address, "/a.txt").ends_with("by name\n"));
}

#[test]
fn a_second_term_ends_what_the_first_one_waits_for() {
    let directory = tempfile::tempdir().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = silent.local_addr().unwrap();
    let text = format!("workers 1;\nshutdown_timeout 1d;\nlisten 127.0.0.1:0 -> {to};\n");
    let path = file(directory.path(), "weir.conf", &text);
    let mut server = Running::start(&mut weir(&["run", "-c", path.to_str().unwrap()]));
    let mut client = TcpStream::connect(address(&server.line_with("listening on"))).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let _connection = silent.accept().unwrap();
    server.signal(Signal::TERM);
    server.line_with("stopping: 1 request is still running");
    server.signal(Signal::TERM);
    server.line_with("1 request was cut off");
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn the_readme_shows_configurations_that_are_right() {
    let directory = tempfile::tempdir().unwrap();
    let readme =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    let blocks: Vec<&str> =
        readme.split("```nginx\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        let path = file(directory.path(), "weir.conf", block);
        let output = weir(&["check", path.to_str().unwrap()]).output().unwrap();
        // The files that it names are not on this machine. That is reported only after the
        // configuration is found valid.
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(
            matches!(output.status.code(), Some(0 | 1)) && !errors.contains("warning"),
            "{errors}"
        );
    }
}

#[test]
fn the_demonstration_shows_where_time_went_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let mut command =
        weir(&["demo", "--once", "--listen", "127.0.0.1:0", "--listen-tls", "127.0.0.1:0"]);
    let (code, output, errors) = Running::start(command.env("TMPDIR", directory.path())).end();
    assert_eq!(code, Some(0), "{errors}");
    let rows: Vec<Vec<&str>> = output
        .lines()
        .filter(|line| line.starts_with("http"))
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows.len(), 12, "{output}");
    for (protocol, rows) in ["http", "https"].iter().zip(rows.chunks(6)) {
        assert!(rows.iter().all(|row| row[0] == *protocol), "{output}");
        let status: Vec<&str> = rows.iter().map(|row| row[2]).collect();
        assert_eq!(status, ["200", "200", "200", "200", "200", "404"], "{output}");
        // The fourth request waits at its origin; the last reaches none.
        assert!(rows[3][9].parse::<u64>().unwrap() >= 30_000, "{output}");
        assert_eq!(rows[5][3..=3], ["-"], "{output}");
    }
    assert_eq!(
        std::fs::read_dir(directory.path()).unwrap().count(),
        0,
        "something was left behind"
    );
}

#[test]
fn the_demonstration_stays_up_until_it_is_interrupted() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = weir(&["demo", "--listen", "127.0.0.1:0", "--listen-tls", "127.0.0.1:0"]);
    let mut demo = Running::start(command.env("TMPDIR", directory.path()));
    let address = address(&demo.line_with("(http)"));
    assert!(get(&address, "/again").contains("GET /again HTTP/1.1"));
    demo.signal(Signal::INT);
    let (code, output, _) = demo.end();
    assert_eq!(code, Some(0));
    assert!(output.contains(&format!("curl http://{address}/")), "{output}");
    assert_eq!(
        std::fs::read_dir(directory.path()).unwrap().count(),
        0,
        "something was left behind"
    );
}

/// Runs a command whose standard output or error is closed at the reading end.
fn unheard(arguments: &[&str], which: fn(&mut Command, std::io::PipeWriter)) -> Output {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    which(&mut command, writer);
    command.output().unwrap()
}

#[test]
fn a_missing_reader_is_no_reason_to_panic() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let good =
        file("good.conf", "pool none { server 127.0.0.1:1; } listen 127.0.0.1:0 -> respond 204;");
    let bad = file("bad.conf", "listen nowhere;");
    let error = |command: &mut Command, writer| _ = command.stderr::<std::io::PipeWriter>(writer);
    let output = |command: &mut Command, writer| _ = command.stdout::<std::io::PipeWriter>(writer);
    // The warning about an unused pool is lost; the exit code stays the same.
    for (arguments, code) in [
        (["check", good.as_str(), "--json"].as_slice(), 0),
        (&["check", &bad], 3),
        (&["run", "-c", &bad], 3),
        (&["ctl", "status", "--socket", "/nowhere"], 5),
        (&["bench"], 2),
        (&["--help"], 0),
    ] {
        let done = unheard(arguments, error);
        assert_eq!(done.status.code(), Some(code), "{arguments:?}");
        let done = unheard(arguments, output);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
        assert_eq!(done.status.code(), Some(code), "{arguments:?}: {said}");
    }
}
