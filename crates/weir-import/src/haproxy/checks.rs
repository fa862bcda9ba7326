//! Health checks of a backend, and its affinity by a cookie.

use std::fmt::Write as _;

use weir_config::model::check::HexBytes;
use weir_config::pattern::{ContentPattern, TextPattern};
use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::convert::HaproxyConverter;
use super::sections::{LineId, SectionId};
use super::servers::{CheckTimes, PLAIN_SERVER};
use super::values;
use crate::native::NativeLine;

/// The most steps of a check of Weir.
const MOST_STEPS: usize = 64;
/// The reason for a connection without a request.
const NO_REQUEST: &str = "no request follows: a connection of its own is not checked";

/// The options that choose the kind of a check; the last one in a section holds.
const KINDS: [&str; 9] = [
    "option httpchk",
    "option tcp-check",
    "option ssl-hello-chk",
    "option redis-check",
    "option mysql-check",
    "option pgsql-check",
    "option smtpchk",
    "option ldap-check",
    "option external-check",
];

/// The additions of `http-check` and `tcp-check` lines to a check.
#[derive(Default)]
struct CheckDetails {
    method: String,
    path: String,
    host: Option<String>,
    expect: Option<String>,
    body: Option<String>,
    header: Option<String>,
    send: Option<String>,
    port: Option<String>,
    tls: bool,
    /// The steps of a conversation.
    steps: Vec<Directive>,
}

impl CheckDetails {
    /// Returns the line of a further request.
    fn line(&self, times: &CheckTimes, span: SourceSpan) -> Directive {
        let line = NativeLine::new("request", span);
        let mut line = line.keyword(&self.method).value(&self.path);
        if self.tls != times.server_tls {
            line = line.option("tls", if self.tls { "on" } else { "off" });
        }
        for (name, value) in self.options() {
            if let Some(value) = value {
                line = line.option(name, value);
            }
        }
        line.end()
    }

    /// The options of the line, in the order of the reference.
    fn options(&self) -> [(&'static str, Option<&String>); 6] {
        [
            ("port", self.port.as_ref()),
            ("expect", self.expect.as_ref()),
            ("body", self.body.as_ref()),
            ("header", self.header.as_ref()),
            ("host", self.host.as_ref()),
            ("send", self.send.as_ref()),
        ]
    }
}

impl HaproxyConverter<'_> {
    /// Converts the checks of a backend, if one of its servers is checked.
    pub(super) fn check(
        &mut self,
        id: SectionId,
        times: Option<CheckTimes>,
        span: SourceSpan,
    ) -> Option<Directive> {
        let lines = self.sections.every_of(id, &KINDS);
        let mut kind = None;
        for line in lines {
            if self.sections.is_negated(line) {
                self.outcomes.honour(line);
            } else if let Some(earlier) = kind.replace(line) {
                self.outcomes.ignore(earlier, "a later line names another kind of check");
            }
        }
        let Some(times) = times else {
            for line in kind.into_iter().chain(self.check_lines(id)) {
                self.outcomes.ignore(line, "no server of the section has `check`");
            }
            return None;
        };
        let mut details = CheckDetails { tls: times.tls, ..CheckDetails::default() };
        let keyword = kind.map_or("", |line| self.sections.keyword(line));
        let span = kind.map_or(span, |line| self.sections.span(line));
        if let Some(line) = kind {
            self.outcomes.honour(line);
        }
        let mut native = NativeLine::new("check", span);
        match keyword {
            "option httpchk" => {
                self.http_check(id, kind, &times, &mut details);
                native = native.keyword("http").keyword(&details.method).value(&details.path);
                if details.tls != times.server_tls {
                    native = native.option("tls", if details.tls { "on" } else { "off" });
                }
            }
            "option ssl-hello-chk" if times.server_tls => native = native.keyword("tls"),
            "option ssl-hello-chk" => {
                if let Some(line) = kind {
                    self.outcomes.refuse(line, PLAIN_SERVER);
                }
                native = native.keyword("tcp");
            }
            "option redis-check" => {
                let (send, expect) = ("*1\r\n$4\r\nPING\r\n", "+PONG");
                native = native.keyword("tcp");
                if details.tls {
                    let line = |name| NativeLine::new(name, span);
                    details.steps.push(line("connect").option("tls", "on").end());
                    details.steps.push(line("send").value(send).end());
                    details.steps.push(line("expect").value(expect).end());
                } else {
                    details.send = Some(send.to_owned());
                    details.expect = Some(expect.to_owned());
                }
            }
            "" | "option tcp-check" => {
                self.tcp_check(id, &times, &mut details);
                let is_handshake = details.tls && details.steps.is_empty();
                native = native.keyword(if is_handshake { "tls" } else { "tcp" });
            }
            _ => return None,
        }
        Some(self.check_options(id, native, &times, details))
    }

    /// Returns the lines that belong to checks.
    fn check_lines(&self, id: SectionId) -> Vec<LineId> {
        let keywords = [
            "http-check expect",
            "http-check send",
            "http-check connect",
            "tcp-check connect",
            "tcp-check send",
            "tcp-check expect",
            "tcp-check send-binary",
            "timeout check",
            "http-check disable-on-404",
        ];
        self.sections.every_of(id, &keywords)
    }

    fn check_options(
        &mut self,
        id: SectionId,
        native: NativeLine,
        times: &CheckTimes,
        mut details: CheckDetails,
    ) -> Directive {
        let spread = self.process.spread_checks;
        let timeout = self.time(id, "timeout check").unwrap_or(times.interval);
        // A probe of Weir ends before the next one begins.
        let shortest = times.fast.unwrap_or(u64::MAX).min(times.down.unwrap_or(u64::MAX));
        let shortest = times.interval.min(shortest) / 100 * (100 - spread.min(50));
        let timeout = timeout.min(shortest.saturating_sub(1_000).max(1_000));
        let mut native = native
            .option("interval", &values::time(times.interval))
            .option("timeout", &values::time(timeout))
            .option("rise", &times.rise.to_string())
            .option("fall", &times.fall.to_string())
            .option("spread", &format!("{spread}%"));
        for (name, time) in [("fast", times.fast), ("down", times.down)] {
            if let Some(time) = time {
                native = native.option(name, &values::time(time));
            }
        }
        details.port = details.port.or(times.port.map(|port| port.to_string()));
        for (name, value) in details.options() {
            if let Some(value) = value {
                native = native.option(name, value);
            }
        }
        if details.steps.is_empty() { native.end() } else { native.block(details.steps) }
    }

    fn http_check(
        &mut self,
        id: SectionId,
        kind: Option<LineId>,
        times: &CheckTimes,
        details: &mut CheckDetails,
    ) {
        let Some(line) = kind else { return };
        let words: Vec<&str> =
            self.sections.words(line).iter().map(|word| word.text.as_str()).collect();
        let (method, path, version) = match words.as_slice() {
            [] => ("OPTIONS", "/", ""),
            [path] => ("OPTIONS", *path, ""),
            [method, path] => (*method, *path, ""),
            [method, path, rest @ ..] => (*method, *path, rest[0]),
        };
        method.clone_into(&mut details.method);
        path.clone_into(&mut details.path);
        // The old way to write headers.
        for part in version.split("\r\n").skip(1).filter(|part| !part.is_empty()) {
            self.check_header(line, part, details);
        }
        let lines = self
            .sections
            .every_of(id, &["http-check send", "http-check expect", "http-check connect"]);
        // The requests after the first one.
        let mut more: Vec<CheckDetails> = Vec::new();
        let (mut sends, mut connect) = (0, None);
        for line in lines {
            self.outcomes.honour(line);
            let last = more.last_mut().unwrap_or(details);
            match self.sections.keyword(line) {
                "http-check expect" => self.check_expect(line, last),
                "http-check connect" if sends == 0 => self.check_connect(line, times, last),
                "http-check connect" => {
                    let mut next = CheckDetails::default();
                    self.check_connect(line, times, &mut next);
                    if let Some((earlier, _)) = connect.replace((line, next)) {
                        self.outcomes.refuse(earlier, NO_REQUEST);
                    }
                }
                _ => {
                    sends += 1;
                    if sends > 1 {
                        let (port, tls) = (last.port.clone(), last.tls);
                        let own = || CheckDetails { port, tls, ..CheckDetails::default() };
                        let mut next = connect.take().map_or_else(own, |(_, next)| next);
                        (next.method, next.path) = ("OPTIONS".to_owned(), "/".to_owned());
                        more.push(next);
                        self.outcomes
                            .differs(line, "a further request, on a connection of its own");
                    }
                    self.check_send(line, more.last_mut().unwrap_or(details));
                }
            }
        }
        if let Some((line, _)) = connect {
            self.outcomes.refuse(line, NO_REQUEST);
        }
        let span = self.sections.span(line);
        details.steps.extend(more.iter().map(|request| request.line(times, span)));
        self.default("option httpchk", "probes are HTTP/1.1 with a `Host`, where HAProxy sends HTTP/1.0 without one unless told otherwise");
    }

    fn check_header(&mut self, line: LineId, text: &str, details: &mut CheckDetails) {
        match text.split_once(':') {
            Some((name, value)) if name.trim().eq_ignore_ascii_case("host") => {
                details.host = Some(value.trim().to_owned());
            }
            Some((name, _))
                if matches!(
                    name.trim().to_ascii_lowercase().as_str(),
                    "connection" | "user-agent" | "accept"
                ) => {}
            _ => self
                .outcomes
                .refuse(line, format!("a probe of Weir has no header `{text}`: only `Host`")),
        }
    }

    fn check_send(&mut self, line: LineId, details: &mut CheckDetails) {
        let words: Vec<&str> =
            self.sections.words(line).iter().map(|word| word.text.as_str()).collect();
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let value = words.get(at + 1).copied().unwrap_or_default();
            match *word {
                "meth" => value.clone_into(&mut details.method),
                "uri" => value.clone_into(&mut details.path),
                "ver" | "comment" => {}
                "hdr" => {
                    let content = words.get(at + 2).copied().unwrap_or_default();
                    self.check_header(line, &format!("{value}: {content}"), details);
                    at += 1;
                }
                other => {
                    self.outcomes.refuse(
                        line,
                        format!(
                            "`{other}` has no conversion: a probe has a method, a path and a `Host`"
                        ),
                    );
                    return;
                }
            }
            at += 2;
        }
    }

    fn check_expect(&mut self, line: LineId, details: &mut CheckDetails) {
        let words: Vec<&str> =
            self.sections.words(line).iter().map(|word| word.text.as_str()).collect();
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let value = words.get(at + 1).copied().unwrap_or_default();
            match *word {
                "comment" | "min-recv" | "ok-status" | "error-status" | "tout-status"
                | "on-success" | "on-error" | "status-code" => {}
                "status" => details.expect = Some(value.to_owned()),
                "rstatus" => match statuses(value) {
                    Some(list) => details.expect = Some(list),
                    None => self
                        .outcomes
                        .refuse(line, "write the statuses: `http-check expect status 200-299`"),
                },
                "string" => {
                    details.body = Some(value.to_owned());
                    details.expect.get_or_insert_with(|| "200-599".to_owned());
                }
                "rstring" => {
                    details.body = Some(format!("~{value}"));
                    details.expect.get_or_insert_with(|| "200-599".to_owned());
                }
                other => {
                    self.outcomes.refuse(line, format!("`{other}` has no conversion: Weir expects statuses, and a text in the body"));
                    return;
                }
            }
            at += 2;
        }
    }

    fn check_connect(&mut self, line: LineId, times: &CheckTimes, details: &mut CheckDetails) {
        let words: Vec<&str> =
            self.sections.words(line).iter().map(|word| word.text.as_str()).collect();
        // Without `default` it has its own options only.
        details.tls = false;
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let value = words.get(at + 1).copied().unwrap_or_default();
            match *word {
                "port" if value.parse::<u16>().is_ok() => details.port = Some(value.to_owned()),
                "comment" | "sni" | "alpn" | "proto" => {}
                "send-proxy" if self.sections.keyword(line) == "tcp-check connect" => {
                    at += 1;
                    continue;
                }
                "ssl" | "default" | "linger" => {
                    details.tls |= *word == "ssl" || *word == "default" && times.tls;
                    at += 1;
                    continue;
                }
                other => {
                    self.outcomes.refuse(line, format!("`{other}` has no conversion"));
                    return;
                }
            }
            at += 2;
        }
        if details.tls && !times.server_tls {
            self.outcomes.refuse(line, PLAIN_SERVER);
            details.tls = false;
        }
    }

    fn tcp_check(&mut self, id: SectionId, times: &CheckTimes, details: &mut CheckDetails) {
        let keywords =
            ["tcp-check connect", "tcp-check send", "tcp-check expect", "tcp-check send-binary"];
        let mut steps = Vec::new();
        for line in self.sections.every_of(id, &keywords) {
            self.outcomes.honour(line);
            match self.check_step(line, times) {
                Ok(step) => steps.push((line, step)),
                Err(reason) => self.outcomes.refuse(line, reason),
            }
        }
        let connects = steps.iter().take_while(|(_, step)| matches!(step, CheckStep::Connect(_)));
        let rest = steps.get(connects.count().min(1)..).unwrap_or_default();
        let first = match steps.first() {
            Some((_, CheckStep::Connect(connect))) => connect.clone(),
            _ => CheckConnect { tls: times.tls, ..CheckConnect::default() },
        };
        let is_simple = match rest {
            [] => true,
            [(_, CheckStep::Send(_) | CheckStep::Expect(_, false))]
            | [(_, CheckStep::Send(_)), (_, CheckStep::Expect(_, false))] => !first.tls,
            _ => false,
        };
        details.tls = first.tls;
        if is_simple && !first.send_proxy {
            details.port.clone_from(&first.port);
            for (_, step) in rest {
                match step {
                    CheckStep::Send(text) => details.send = Some(text.clone()),
                    CheckStep::Expect(text, _) => details.expect = Some(text.clone()),
                    CheckStep::SendBinary(_) | CheckStep::Connect(_) => {}
                }
            }
            return;
        }
        if steps.len() >= MOST_STEPS {
            for (line, _) in steps {
                self.outcomes.refuse(line, "a check of Weir has at most 64 steps");
            }
            return;
        }
        let begins = matches!(steps.first(), Some((_, CheckStep::Connect(_))));
        if let (false, Some((line, _))) = (begins, steps.first()) {
            let span = self.sections.span(*line);
            details.steps.push(CheckStep::Connect(first).native(span));
        }
        let natives = steps.iter().map(|(line, step)| step.native(self.sections.span(*line)));
        details.steps.extend(natives);
    }

    /// Reads a line of a conversation.
    fn check_step(&mut self, line: LineId, times: &CheckTimes) -> Result<CheckStep, String> {
        let sections = self.sections;
        let words: Vec<&str> = sections.words(line).iter().map(|word| word.text.as_str()).collect();
        let text = words.first().copied().unwrap_or_default();
        let is_commented = words.len() == 1 || words.len() == 3 && words.get(1) == Some(&"comment");
        match sections.keyword(line) {
            "tcp-check connect" => Ok(self.step_connect(line, &words, times)),
            "tcp-check expect" => expectation(&words),
            _ if !is_commented || text.is_empty() => Err("write one text".to_owned()),
            "tcp-check send" => Ok(CheckStep::Send(text.to_owned())),
            _ => match text.parse::<HexBytes>() {
                Ok(bytes) => Ok(CheckStep::SendBinary(bytes)),
                Err(reason) => Err(reason),
            },
        }
    }

    fn step_connect(&mut self, line: LineId, words: &[&str], times: &CheckTimes) -> CheckStep {
        let proxied = words.contains(&"send-proxy");
        let mut details = CheckDetails::default();
        self.check_connect(line, times, &mut details);
        let CheckDetails { port, tls, .. } = details;
        CheckStep::Connect(CheckConnect { port, tls, send_proxy: proxied })
    }

    /// Converts `cookie`.
    pub(super) fn cookie(&mut self, id: SectionId, servers: bool) -> Option<Directive> {
        let line = self.sections.last(id, "cookie")?;
        if self.sections.is_negated(line) {
            self.outcomes.honour(line);
            return None;
        }
        let words: Vec<&str> =
            self.sections.words(line).iter().map(|word| word.text.as_str()).collect();
        let name = words.first().copied().unwrap_or_default();
        if !servers {
            self.outcomes.ignore(line, "no server of the section has a `cookie`");
            return None;
        }
        let native = NativeLine::new("sticky", self.sections.span(line));
        let mut native = native.keyword("cookie").value(name).keyword("insert");
        let mut inserts = false;
        let mut at = 1;
        while let Some(word) = words.get(at) {
            let value = words.get(at + 1).copied().unwrap_or_default();
            match *word {
                "insert" => inserts = true,
                "indirect" | "nocache" | "postonly" | "dynamic" => {}
                "httponly" | "secure" => native = native.keyword(word),
                "domain" => {
                    native = native.option("domain", value.trim_start_matches('.'));
                    at += 1;
                }
                "maxidle" | "maxlife" => {
                    self.outcomes.differs(
                        line,
                        format!("`{word}`: a cookie is valid as long as the client keeps it"),
                    );
                    at += 1;
                }
                "attr" => {
                    match value.to_ascii_lowercase().strip_prefix("samesite=") {
                        Some(site @ ("lax" | "strict" | "none")) => {
                            native = native.option("samesite", site);
                        }
                        _ => self
                            .outcomes
                            .refuse(line, format!("the attribute `{value}` has no conversion")),
                    }
                    at += 1;
                }
                other => {
                    let reason = match other {
                        "rewrite" | "prefix" | "preserve" => format!(
                            "`{other}` needs the cookie of the server; Weir sets one of its own: write `cookie {name} insert indirect nocache`"
                        ),
                        _ => format!("`{other}` has no conversion"),
                    };
                    self.outcomes.refuse(line, reason);
                    return None;
                }
            }
            at += 1;
        }
        if !inserts {
            self.outcomes.refuse(line, format!("without `insert` the server has to set the cookie: write `cookie {name} insert indirect nocache`"));
            return None;
        }
        self.outcomes.differs(line, "the value is opaque: a client with a cookie of HAProxy gets a new one; servers never see it");
        Some(native.end())
    }
}

/// A step of a conversation.
enum CheckStep {
    Connect(CheckConnect),
    Send(String),
    SendBinary(HexBytes),
    /// A pattern of Weir's, and true if it is not to come.
    Expect(String, bool),
}

#[derive(Clone, Default)]
struct CheckConnect {
    port: Option<String>,
    tls: bool,
    send_proxy: bool,
}

impl CheckStep {
    fn native(&self, span: SourceSpan) -> Directive {
        match self {
            Self::Connect(CheckConnect { port, tls, send_proxy }) => {
                let mut line = NativeLine::new("connect", span);
                if let Some(port) = port {
                    line = line.option("port", port);
                }
                if *tls {
                    line = line.option("tls", "on");
                }
                if *send_proxy { line.keyword("send_proxy").end() } else { line.end() }
            }
            Self::Send(text) => NativeLine::new("send", span).value(text).end(),
            Self::SendBinary(bytes) => {
                NativeLine::new("send", span).option("hex", &bytes.to_string()).end()
            }
            Self::Expect(text, absent) => {
                let line = NativeLine::new("expect", span).value(text);
                if *absent { line.keyword("absent").end() } else { line.end() }
            }
        }
    }
}

/// Reads the words of `tcp-check expect`.
fn expectation(words: &[&str]) -> Result<CheckStep, String> {
    let mut words = words;
    // What the log says is Weir's own.
    while let [
        "comment" | "ok-status" | "error-status" | "tout-status" | "on-success" | "on-error"
        | "status-code",
        _,
        rest @ ..,
    ] = words
    {
        words = rest;
    }
    let (absent, words) = match words {
        ["!", rest @ ..] => (true, rest),
        _ => (false, words),
    };
    let pattern = match words {
        ["string", text, ..] => literal(text),
        ["rstring", text, ..] => format!("~{}", crate::pcre::native(text)?),
        ["binary", digits, ..] => {
            let bytes: HexBytes = digits.parse()?;
            let mut escaped = String::new();
            for byte in bytes.bytes() {
                let _ = write!(escaped, "\\x{byte:02x}");
            }
            format!("~(?-u:{escaped})")
        }
        [other, ..] => {
            return Err(format!(
                "`{other}` has no conversion: `string`, `rstring` and `binary` have one"
            ));
        }
        [] => return Err("write what is expected".to_owned()),
    };
    let fault = pattern.parse::<ContentPattern>().err();
    match (words.len(), fault) {
        (_, Some(reason)) => Err(reason),
        (2, None) => Ok(CheckStep::Expect(pattern, absent)),
        _ => Err("write the options before what is expected".to_owned()),
    }
}

/// Returns a pattern for a text, which may begin like a regex of Weir's.
fn literal(text: &str) -> String {
    if !text.starts_with('~') {
        return text.to_owned();
    }
    let mut pattern = String::from("~");
    for c in text.chars() {
        if c.is_ascii_punctuation() {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

/// Returns the statuses that a regex such as `^2[0-9][0-9]` or `2..` means.
fn statuses(regex: &str) -> Option<String> {
    let pattern = format!("~{}", crate::pcre::native(regex).ok()?).parse::<TextPattern>().ok()?;
    let mut parts: Vec<String> = Vec::new();
    let mut first = None;
    for status in 100..=600_u16 {
        let matches = status < 600 && pattern.matches(&status.to_string());
        match (matches, first) {
            (true, None) => first = Some(status),
            (false, Some(from)) => {
                let last = status - 1;
                parts.push(if from == last { from.to_string() } else { format!("{from}-{last}") });
                first = None;
            }
            _ => {}
        }
    }
    (!parts.is_empty()).then(|| parts.join(","))
}
