//! Origins that record what they get. They answer with a line about the request, or as a script of
//! the case says.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use super::case::unescape;
use super::support::origin::{Accepted, Origin, Received};

/// Requests for it are health checks, which come at any time and are not recorded.
const CHECKED_PATH: &str = "/check";

/// One origin of a case.
pub(crate) struct RecordingOrigin {
    pub(crate) origin: Origin,
    state: Arc<Recorded>,
}

/// A request as an origin received it.
#[derive(Clone, Debug)]
pub(crate) struct SeenRequest {
    pub(crate) origin: String,
    /// Method and target.
    pub(crate) line: String,
    pub(crate) version: String,
    /// Sorted; names are in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// The requests at all origins of a case, in the order of arrival.
pub(crate) type SeenList = Arc<Mutex<Vec<SeenRequest>>>;

struct Recorded {
    seen: SeenList,
    /// Replies by path, each for one request; the last one is repeated.
    script: Mutex<HashMap<String, Vec<Reply>>>,
    /// The number of requests by path.
    counts: Mutex<HashMap<String, usize>>,
    /// The number of connections with a request.
    connections: Mutex<usize>,
}

/// An entry of a script.
#[derive(Clone, Debug, PartialEq)]
enum Reply {
    Bytes(Vec<u8>),
    /// The bytes, and then the end of the connection.
    BytesAndClose(Vec<u8>),
    /// No answer; the connection stays open.
    Silence,
    /// The number of connections with a request so far.
    Number,
}

impl RecordingOrigin {
    pub(crate) fn start(name: &str, seen: SeenList) -> Self {
        let state = Arc::new(Recorded {
            seen,
            script: Mutex::default(),
            counts: Mutex::default(),
            connections: Mutex::default(),
        });
        let (own, name) = (state.clone(), name.to_owned());
        let origin = Origin::start(move |connection| serve(&name, &own, connection));
        Self { origin, state }
    }

    /// Sets the script, in which placeholders have been filled.
    pub(crate) fn set_script(&self, text: &str) {
        *self.state.script.lock().unwrap() = read_script(text);
    }

    /// Begins the script again, for another program.
    pub(crate) fn reset(&self) {
        self.state.counts.lock().unwrap().clear();
        *self.state.connections.lock().unwrap() = 0;
    }
}

fn serve(name: &str, state: &Recorded, connection: &mut Accepted) {
    let mut is_first = true;
    while let Some(request) = connection.request() {
        *state.connections.lock().unwrap() += usize::from(is_first);
        is_first = false;
        let seen = seen_request(name, request);
        let (method, target) = seen.line.split_once(' ').unwrap_or(("", ""));
        let path = target.split('?').next().unwrap_or_default();
        let reply = state.reply(path);
        let own = own_reply(name, method, &seen.line);
        if path != CHECKED_PATH {
            state.seen.lock().unwrap().push(seen.clone());
        }
        match reply {
            None => connection.send(own),
            Some(Reply::Bytes(bytes)) => connection.send(bytes),
            Some(Reply::BytesAndClose(bytes)) => {
                connection.send(bytes);
                return;
            }
            Some(Reply::Number) => {
                let number = *state.connections.lock().unwrap();
                connection.send(own_reply(name, method, &format!("{number} connections")));
            }
            Some(Reply::Silence) => {
                connection.until_closed();
                return;
            }
        }
    }
}

impl Recorded {
    fn reply(&self, path: &str) -> Option<Reply> {
        let script = self.script.lock().unwrap();
        let (key, replies) = match script.get(path) {
            Some(replies) => (path, replies),
            None => ("*", script.get("*")?),
        };
        let mut counts = self.counts.lock().unwrap();
        let count = counts.entry(key.to_owned()).or_default();
        let index = (*count).min(replies.len() - 1);
        *count += 1;
        Some(replies[index].clone())
    }
}

fn own_reply(name: &str, method: &str, line: &str) -> Vec<u8> {
    let body = format!("{name}: {line}\n");
    let mut text = format!(
        "HTTP/1.1 200 OK\r\nServer: origin\r\nDate: Sun, 05 May 2024 12:00:00 GMT\r\n\
         Content-Type: text/plain\r\nX-Origin: {name}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    if method != "HEAD" {
        let _ = write!(text, "{body}");
    }
    text.into_bytes()
}

fn seen_request(name: &str, request: Received) -> SeenRequest {
    let mut lines = request.head.trim_end_matches("\r\n").split("\r\n");
    let first = lines.next().unwrap_or_default();
    let (line, version) = first.rsplit_once(' ').unwrap_or((first, ""));
    let mut headers: Vec<(String, String)> = lines
        .map(|line| line.split_once(':').unwrap_or((line, "")))
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .map(|(name, value)| {
            // Of a blank `Connection` the blanks are compared.
            let is_blank = name == "connection" && value.trim().is_empty();
            let value = if is_blank { value } else { value.trim() };
            (name, value.to_owned())
        })
        .collect();
    // The order within one name matters.
    headers.sort_by(|left, right| left.0.cmp(&right.0));
    SeenRequest {
        origin: name.to_owned(),
        line: line.to_owned(),
        version: version.to_owned(),
        headers,
        body: request.body,
    }
}

/// Reads a script: a path with a colon, then the lines of its reply.
fn read_script(text: &str) -> HashMap<String, Vec<Reply>> {
    let mut script: HashMap<String, Vec<Reply>> = HashMap::new();
    let mut path = "";
    let mut reply: Option<Reply> = None;
    let mut finish = |path: &str, reply: Option<Reply>| {
        if let Some(reply) = reply {
            script.entry(path.to_owned()).or_default().push(reply);
        }
    };
    for line in text.lines().filter(|line| !line.is_empty()) {
        let more = if let Some(text) = line.strip_prefix(">> ") {
            unescape(text)
        } else if let Some(text) = line.strip_prefix('>') {
            [&unescape(text.strip_prefix(' ').unwrap_or(text)), &b"\r\n"[..]].concat()
        } else {
            match (line, reply.take()) {
                ("!close", Some(Reply::Bytes(bytes))) => reply = Some(Reply::BytesAndClose(bytes)),
                ("!close", _) => reply = Some(Reply::BytesAndClose(Vec::new())),
                ("!silent", _) => reply = Some(Reply::Silence),
                ("!number", _) => reply = Some(Reply::Number),
                (_, before) => {
                    finish(path, before);
                    path = line.strip_suffix(':').unwrap_or_else(|| panic!("{line}"));
                }
            }
            continue;
        };
        match &mut reply {
            Some(Reply::Bytes(bytes)) => bytes.extend(more),
            _ => reply = Some(Reply::Bytes(more)),
        }
    }
    finish(path, reply);
    script
}

#[test]
fn scripts_have_replies_by_path_in_turn() {
    let script = read_script("/a:\n> HTTP/1.1 204 No\n>\n/a:\n>> x\\x00\n!close\n*:\n!silent\n");
    let bytes = |text: &str| text.as_bytes().to_vec();
    let expected =
        vec![Reply::Bytes(bytes("HTTP/1.1 204 No\r\n\r\n")), Reply::BytesAndClose(bytes("x\0"))];
    assert_eq!(script["/a"], expected);
    assert_eq!(script["*"], [Reply::Silence]);
}
