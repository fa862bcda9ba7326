//! A real browser: Debian's headless Chromium, controlled over its pipe (the DevTools protocol:
//! JSON messages separated by a zero byte). Without Chromium these tests pass with a message;
//! `make test` sets `WEIR_CHROMIUM=required`.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use super::needs::not_run;
use super::process::{Process, command, finish};
use super::{Directory, PATIENCE, eventually};

/// A browser with one page.
pub(crate) struct Browser {
    _process: Process,
    commands: File,
    replies: Receiver<Value>,
    number: u64,
    session: Option<String>,
    /// The errors that the page reported: console, exceptions, network.
    complaints: Vec<Value>,
}

impl Browser {
    /// Starts the browser; `None` if it is not installed and not required.
    pub(crate) fn start(directory: &Directory) -> Option<Self> {
        if !is_there() {
            not_run("WEIR_CHROMIUM", "no chromium on this machine: scripts/packages chromium");
            return None;
        }
        let [to, from] = ["chromium-in", "chromium-out"].map(|name| directory.text(name));
        assert!(finish(command("mkfifo").args([&to, &from]), b"").status.success());
        let script = "exec chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-extensions \
                      --disable-background-networking --remote-debugging-pipe --user-data-dir=\"$2\" about:blank \
                      3<\"$0\" 4>\"$1\"";
        let mut shell = command("sh");
        shell.args(["-c", script, &to, &from, &directory.text("profile")]);
        let process = Process::start(shell.stdin(Stdio::null()).stdout(Stdio::null()));
        // Opening either end of a pipe waits for the other, so the order matters.
        let commands = File::options().write(true).open(&to).unwrap();
        let mut stream = BufReader::new(File::open(&from).unwrap());
        let (sender, replies) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while stream.read_until(0, &mut message).is_ok_and(|count| count > 0) {
                message.pop();
                if sender.send(serde_json::from_slice(&message).unwrap()).is_err() {
                    break;
                }
                message.clear();
            }
        });
        let mut browser = Self {
            _process: process,
            commands,
            replies,
            number: 0,
            session: None,
            complaints: Vec::new(),
        };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attached = browser.call(
            "Target.attachToTarget",
            &json!({"targetId": target["targetId"], "flatten": true}),
        );
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Log", "Runtime", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        Some(browser)
    }

    /// Sends a command and waits for its result.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        self.number += 1;
        let mut message = json!({"id": self.number, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.commands.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let reply = self.replies.recv_timeout(PATIENCE);
            let mut reply = reply.unwrap_or_else(|error| panic!("{method}: {error}"));
            if reply["id"] == self.number {
                assert!(reply["error"].is_null(), "{method}: {reply}");
                return reply["result"].take();
            }
            self.note(reply);
        }
    }

    fn note(&mut self, event: Value) {
        let of = |kind: &str| {
            event["params"]["entry"]["level"] == kind || event["params"]["type"] == kind
        };
        let complaint = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Log.entryAdded" | "Runtime.consoleAPICalled") => of("error") || of("warning"),
            _ => false,
        };
        if complaint {
            self.complaints.push(event);
        }
    }

    /// Sends these credentials with every request.
    pub(crate) fn bring(&mut self, authorization: &str) {
        self.call(
            "Network.setExtraHTTPHeaders",
            &json!({"headers": {"Authorization": authorization}}),
        );
    }

    /// Opens a page.
    pub(crate) fn open(&mut self, url: &str) {
        let opened = self.call("Page.navigate", &json!({"url": url}));
        assert!(opened["errorText"].is_null(), "{url}: {opened}");
    }

    /// Returns the value of an expression in the page; `null` while there is no page yet.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut result = self.call("Runtime.evaluate", &params);
        result["result"]["value"].take()
    }

    /// Waits until an expression is true.
    pub(crate) fn until(&mut self, expression: &str) {
        eventually(expression, || (self.value(expression) == true).then_some(()));
    }

    /// Returns the errors that the page has reported so far.
    pub(crate) fn complaints(&mut self) -> Vec<Value> {
        // All messages before this response have been recorded when it arrives.
        self.value("1");
        std::mem::take(&mut self.complaints)
    }
}

fn is_there() -> bool {
    finish(command("sh").args(["-c", "command -v chromium"]), b"").status.success()
}
