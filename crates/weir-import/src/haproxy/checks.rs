//! Health checks of a backend, and its affinity by a cookie.

use weir_config::pattern::TextPattern;
use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::convert::HaproxyConverter;
use super::sections::{LineId, SectionId};
use super::servers::{CheckTimes, PLAIN_SERVER};
use super::values;
use crate::native::NativeLine;

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

/// The reason for a conversation in a check with TLS.
const HANDSHAKE_ONLY: &str = "a check of Weir that uses TLS is the handshake alone";

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
                details.send = Some("*1\r\n$4\r\nPING\r\n".to_owned());
                details.expect = Some("+PONG".to_owned());
                native = native.keyword("tcp");
                if let Some(line) = kind.filter(|_| details.tls) {
                    self.outcomes.refuse(line, HANDSHAKE_ONLY);
                }
            }
            "" | "option tcp-check" => {
                self.tcp_check(id, &times, &mut details);
                native = native.keyword(if details.tls { "tls" } else { "tcp" });
            }
            _ => return None,
        }
        Some(self.check_options(id, native, &times, &details))
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
        details: &CheckDetails,
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
        let port = times.port.map(|port| port.to_string());
        let options = [
            ("port", details.port.as_ref().or(port.as_ref())),
            ("expect", details.expect.as_ref()),
            ("body", details.body.as_ref()),
            ("header", details.header.as_ref()),
            ("host", details.host.as_ref()),
            ("send", details.send.as_ref()),
        ];
        for (name, value) in options {
            if let Some(value) = value {
                native = native.option(name, value);
            }
        }
        native.end()
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
        let mut sends = 0;
        for line in self
            .sections
            .every_of(id, &["http-check send", "http-check expect", "http-check connect"])
        {
            self.outcomes.honour(line);
            match self.sections.keyword(line) {
                "http-check send" => {
                    sends += 1;
                    self.check_send(line, details);
                }
                "http-check expect" => self.check_expect(line, details),
                _ => self.check_connect(line, times, details),
            }
            if sends > 1 {
                self.outcomes.refuse(line, "a check of Weir is one request");
            }
        }
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
                    details.expect.get_or_insert_with(|| "100-599".to_owned());
                }
                "rstring" => {
                    details.body = Some(format!("~{value}"));
                    details.expect.get_or_insert_with(|| "100-599".to_owned());
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
        let mut steps = 0;
        for line in self.sections.every_of(id, &keywords) {
            self.outcomes.honour(line);
            let words = self.sections.words(line);
            let first = words.first().map_or("", |word| word.text.as_str());
            let second = words.get(1).map_or("", |word| word.text.as_str());
            match (self.sections.keyword(line), first) {
                ("tcp-check connect", _) => self.check_connect(line, times, details),
                ("tcp-check send", text) if details.expect.is_none() => {
                    details.send.get_or_insert_default().push_str(text);
                }
                ("tcp-check expect", "string") => {
                    steps += 1;
                    details.expect = Some(second.to_owned());
                }
                ("tcp-check expect", "rstring") => {
                    steps += 1;
                    details.expect = Some(format!("~{second}"));
                }
                _ => self.outcomes.refuse(line, "a check of Weir sends one text and expects one"),
            }
            if steps > 1 {
                self.outcomes.refuse(line, "a check of Weir sends one text and expects one");
            }
            if details.tls && (details.send.is_some() || details.expect.is_some()) {
                self.outcomes.refuse(line, HANDSHAKE_ONLY);
                (details.send, details.expect) = (None, None);
            }
        }
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
