//! Files of cases. `cases/README.md` describes the format.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A configuration with the requests that both programs get.
#[derive(Clone, Debug, Default)]
pub(crate) struct Case {
    /// Its subject and name, such as `locations/exact-first`.
    pub(crate) name: String,
    /// The file, for messages and for `WEIR_BLESS`.
    pub(crate) file: PathBuf,
    /// The number of the line of its name, from 0.
    pub(crate) line: usize,
    /// The directives that Weir refuses, as the beginnings of their texts.
    pub(crate) refused: Vec<String>,
    /// The reason for which the lines of logs differ.
    pub(crate) log_differs: Option<String>,
    /// The reason for which what health checks send differs.
    pub(crate) checks_differ: Option<String>,
    /// The real program cannot read the file as it is installed.
    pub(crate) unchecked: bool,
    /// Headers that are not compared, in lower case.
    pub(crate) ignored_headers: Vec<String>,
    /// Headers of the requests that origins get, which are not compared.
    pub(crate) ignored_origin_headers: Vec<String>,
    /// The kind and the text of the configuration.
    pub(crate) configuration: (String, String),
    /// Names and contents of the files in its directory.
    pub(crate) files: Vec<(String, String)>,
    /// Names and scripts of origins that do not just answer.
    pub(crate) origins: Vec<(String, String)>,
    /// Names and scripts of servers that only health checks talk to.
    pub(crate) checked: Vec<(String, String)>,
    pub(crate) requests: Vec<Request>,
}

/// The steps of a client on one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    /// The line as written, for messages.
    pub(crate) label: String,
    /// The reason for which the programs answer differently.
    pub(crate) differs: Option<String>,
    /// The client's address, whose third byte `*` counts up.
    pub(crate) from: Option<String>,
    pub(crate) tls: Option<Tls>,
    /// The certificate of the client.
    pub(crate) client: Option<String>,
    /// The placeholder of the listener, if it is not the first.
    pub(crate) to: Option<String>,
    pub(crate) times: Option<Times>,
    pub(crate) sending: Sending,
    pub(crate) steps: Vec<Step>,
}

/// The end of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sending {
    /// Its response is read.
    #[default]
    Answered,
    /// It is at an origin that does not answer, until `release`.
    Held,
    /// It waits in the program for such a one, until `release`.
    Queued,
    /// It is sent again until its response has this status.
    Until(u16),
    /// None is sent: the clients of those that are held go.
    Release,
}

/// The handshake of a client.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    /// The server name; none is sent if it is `-`.
    pub(crate) name: String,
    pub(crate) only_1_2: bool,
}

/// A request that is sent repeatedly; the numbers of responses by origin are compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) count: usize,
    /// The allowed difference of each number.
    pub(crate) within: usize,
    /// The largest numbers are compared with each other, whichever origins they belong to.
    pub(crate) sorted: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Text with escapes and placeholders.
    Send(String),
    /// Reads a final response and the interim ones before it.
    ReadFinal {
        head: bool,
    },
    /// Reads one response.
    ReadOne {
        head: bool,
    },
    ReadToEnd,
    FinishSending,
}

/// Reads all files of a folder, in the order of their names.
pub(crate) fn read_folder(folder: &str) -> Vec<Case> {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential/cases").join(folder);
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "case"));
    files.sort();
    files.iter().flat_map(|file| read_file(file)).collect()
}

fn read_file(file: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(file).unwrap();
    let subject = file.file_stem().unwrap().to_str().unwrap();
    let mut cases: Vec<Case> = Vec::new();
    let mut section: Option<(String, Vec<&str>)> = None;
    for (number, line) in text.lines().enumerate() {
        let place = || format!("{}:{}", file.display(), number + 1);
        if let Some(name) = line.strip_prefix("=== ") {
            finish_section(&mut cases, section.take(), &place());
            let name = format!("{subject}/{}", name.trim());
            assert!(cases.iter().all(|case| case.name != name), "{}: a second {name}", place());
            cases.push(Case { name, file: file.to_owned(), line: number, ..Case::default() });
        } else if let Some(name) = line.strip_prefix("--- ") {
            finish_section(&mut cases, section.take(), &place());
            section = Some((name.trim().to_owned(), Vec::new()));
        } else if let Some((_, lines)) = &mut section {
            lines.push(line);
        } else if !line.is_empty() && !line.starts_with('#') {
            let case = cases.last_mut().unwrap_or_else(|| panic!("{}: no case", place()));
            let (key, value) = line.split_once(": ").unwrap_or_else(|| panic!("{}", place()));
            let reason = || assert!(value.contains(": "), "{}: write the reason", place());
            let word = value.split(':').next().unwrap_or_default().to_ascii_lowercase();
            match key {
                "refused" => case.refused.push(value.to_owned()),
                "unchecked" => case.unchecked = true,
                "differs-checks" => case.checks_differ = Some(value.to_owned()),
                "differs-log" => case.log_differs = Some(value.to_owned()),
                "ignore" => {
                    reason();
                    case.ignored_headers.push(word);
                }
                "ignore-origin" => {
                    reason();
                    case.ignored_origin_headers.push(word);
                }
                _ => panic!("{}: `{key}` is not known", place()),
            }
        }
    }
    finish_section(&mut cases, section, &format!("{}: end", file.display()));
    for case in &cases {
        assert!(!case.configuration.1.is_empty(), "{} has no configuration", case.name);
        assert!(!case.requests.is_empty(), "{} has no requests", case.name);
    }
    cases
}

fn finish_section(cases: &mut [Case], section: Option<(String, Vec<&str>)>, place: &str) {
    let Some((name, mut lines)) = section else { return };
    while lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    let case = cases.last_mut().unwrap_or_else(|| panic!("{place}: no case"));
    let text = lines.iter().flat_map(|line| [line, "\n"]).collect::<String>();
    match name.split_once(' ') {
        Some(("file", path)) => case.files.push((path.to_owned(), text)),
        Some(("origin", origin)) => case.origins.push((origin.to_owned(), text)),
        Some(("checked", server)) => case.checked.push((server.to_owned(), text)),
        None if name == "requests" => case.requests = read_requests(&lines, place),
        None => case.configuration = (name, text),
        _ => panic!("{place}: section `{name}` above is not known"),
    }
}

fn read_requests(lines: &[&str], place: &str) -> Vec<Request> {
    let mut requests: Vec<Request> = Vec::new();
    let mut differs = None;
    for line in lines {
        let last = requests.last_mut();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(reason) = line.strip_prefix("differs: ") {
            differs = Some(reason.to_owned());
        } else if line.starts_with(['>', '<', '!']) {
            raw_line(last.unwrap_or_else(|| panic!("{place}: `raw` is missing")), line);
        } else if *line == "release" {
            let label = (*line).to_owned();
            requests.push(Request { label, sending: Sending::Release, ..Request::default() });
        } else {
            let mut request = read_request(line).unwrap_or_else(|| panic!("{place}: {line}"));
            request.differs = differs.take();
            requests.push(request);
        }
    }
    for request in &mut requests {
        let reads = |step: &Step| !matches!(step, Step::Send(_) | Step::FinishSending);
        if matches!(request.sending, Sending::Held | Sending::Queued) {
            request.steps.retain(|step| !reads(step));
            continue;
        }
        if request.sending == Sending::Release {
            continue;
        }
        if !request.steps.iter().any(reads) {
            request.steps.push(Step::ReadOne { head: false });
        }
    }
    requests
}

/// Adds a line behind `raw` to the steps of a connection.
fn raw_line(request: &mut Request, line: &str) {
    let send = if let Some(text) = line.strip_prefix(">> ") {
        text.to_owned()
    } else if let Some(text) = line.strip_prefix('>') {
        let text = format!("{}\\r\\n", text.strip_prefix(' ').unwrap_or(text));
        if request.label.ends_with("raw") {
            request.label = format!("{} {line}", request.label);
        }
        text
    } else {
        request.steps.push(match line {
            "<<" => Step::ReadToEnd,
            "!" => Step::FinishSending,
            _ => Step::ReadOne { head: line == "< HEAD" },
        });
        return;
    };
    match request.steps.last_mut() {
        Some(Step::Send(text)) => text.push_str(&send),
        _ => request.steps.push(Step::Send(send)),
    }
}

fn read_request(line: &str) -> Option<Request> {
    let mut request = Request { label: line.to_owned(), ..Request::default() };
    let mut rest = line;
    loop {
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        if word.starts_with(|first: char| first.is_ascii_uppercase()) {
            break;
        }
        if word == "raw" {
            return Some(request);
        }
        if matches!(word, "held" | "queued") {
            request.sending = if word == "held" { Sending::Held } else { Sending::Queued };
            rest = after;
            continue;
        }
        let (value, after) = after.split_once(' ')?;
        match word {
            "until" => request.sending = Sending::Until(value.parse().ok()?),
            "from" => request.from = Some(value.to_owned()),
            "to" => request.to = Some(value.to_owned()),
            "as" => request.client = Some(value.to_owned()),
            "tls" | "tls12" => {
                request.tls = Some(Tls { name: value.to_owned(), only_1_2: word == "tls12" });
            }
            "times" => {
                let count = value.parse().ok()?;
                request.times = Some(Times { count, within: 0, sorted: false });
            }
            "within" => request.times.as_mut()?.within = value.parse().ok()?,
            "sorted" => {
                let times = request.times.as_mut()?;
                (times.within, times.sorted) = (value.parse().ok()?, true);
            }
            _ => return None,
        }
        rest = after;
    }
    let mut parts = rest.split(" | ");
    let mut words = parts.next()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let version = words.next().unwrap_or("HTTP/1.1");
    request.steps = short_form(method, target, version, parts);
    Some(request)
}

/// Returns the steps of a request of one line.
fn short_form<'l>(
    method: &str,
    target: &str,
    version: &str,
    parts: impl Iterator<Item = &'l str>,
) -> Vec<Step> {
    let mut head = format!("{method} {target} {version}\\r\\n");
    let mut host = version == "HTTP/1.0";
    let mut body = None;
    for part in parts {
        if let Some(text) = part.strip_prefix("= ") {
            body = Some(text.to_owned());
        } else if let Some(length) = part.strip_prefix('=') {
            body = Some("x".repeat(length.parse().unwrap()));
        } else if let Some(text) = part.strip_prefix("chunked ") {
            let length = unescape(text).len();
            head += "Transfer-Encoding: chunked\\r\\n";
            let chunks = format!("{length:x}\\r\\n{text}\\r\\n0\\r\\n\\r\\n");
            let host = if host { "" } else { "Host: a.test\\r\\n" };
            let text = format!("{head}{host}\\r\\n{chunks}");
            return vec![Step::Send(text), Step::ReadFinal { head: false }];
        } else if part == "-Host" {
            host = true;
        } else {
            host |= part.to_ascii_lowercase().starts_with("host:");
            head += part;
            head += "\\r\\n";
        }
    }
    if !host {
        head += "Host: a.test\\r\\n";
    }
    if let Some(body) = &body {
        let _ = write!(head, "Content-Length: {}\\r\\n", unescape(body).len());
    }
    let text = format!("{head}\\r\\n{}", body.unwrap_or_default());
    vec![Step::Send(text), Step::ReadFinal { head: method == "HEAD" }]
}

/// Returns the bytes of a text with `\r`, `\n`, `\t`, `\\` and `\xNN`.
pub(crate) fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let (byte, after) = match (first, after) {
            (b'\\', [b'r', after @ ..]) => (b'\r', after),
            (b'\\', [b'n', after @ ..]) => (b'\n', after),
            (b'\\', [b't', after @ ..]) => (b'\t', after),
            (b'\\', [b'\\', after @ ..]) => (b'\\', after),
            (b'\\', [b'x', high, low, after @ ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).unwrap();
                (u8::from_str_radix(digits, 16).unwrap(), after)
            }
            _ => (first, after),
        };
        bytes.push(byte);
        rest = after;
    }
    bytes
}

#[test]
fn requests_in_short_and_raw_form() {
    let lines = [
        "# a comment",
        "from 127.0.3.1 tls b.test GET /a?b HTTP/1.0 | X: y",
        "differs: a reason",
        "POST /c | Host: c | = a\\x41",
        "times 1000 sorted 3 GET /",
        "raw",
        "> HEAD / HTTP/1.1",
        ">> x",
        "< HEAD",
    ];
    let requests = read_requests(&lines, "here");
    let text = |request: &Request| match &request.steps[0] {
        Step::Send(text) => String::from_utf8(unescape(text)).unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(text(&requests[0]), "GET /a?b HTTP/1.0\r\nX: y\r\n\r\n");
    assert_eq!(requests[0].from.as_deref(), Some("127.0.3.1"));
    assert_eq!(requests[0].tls.as_ref().unwrap().name, "b.test");
    assert_eq!(text(&requests[1]), "POST /c HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\n\r\naA");
    assert_eq!(requests[1].differs.as_deref(), Some("a reason"));
    let times = requests[2].times.unwrap();
    assert_eq!((times.count, times.within, times.sorted), (1000, 3, true));
    assert_eq!(text(&requests[3]), "HEAD / HTTP/1.1\r\nx");
    assert_eq!(requests[3].steps[1], Step::ReadOne { head: true });
}
