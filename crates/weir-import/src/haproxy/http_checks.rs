//! The requests of `option httpchk`, and what their responses have to be.

use weir_config::pattern::{ContentPattern, TextPattern};
use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::check_steps::literal;
use super::convert::HaproxyConverter;
use super::sections::{LineId, SectionId};
use super::servers::CheckTimes;
use crate::native::NativeLine;

/// The statuses that a check can expect.
const ALL_STATUSES: std::ops::RangeInclusive<u16> = 200..=599;

/// The reason for a text that HAProxy composes for each check.
const SAME_BYTES: &str = "a check sends the same bytes each time: write them as they are";

/// The reason for a connection without a request.
const NO_REQUEST: &str = "no request follows: a connection of its own is not checked";

/// The additions of `http-check` and `tcp-check` lines to a check.
#[derive(Default)]
pub(super) struct CheckDetails {
    pub(super) request: CheckRequest,
    /// Set if a line says what a response has to be.
    pub(super) expects: bool,
    pub(super) expect: Option<String>,
    pub(super) send: Option<String>,
    pub(super) port: Option<String>,
    pub(super) tls: bool,
    /// Set if requests are sent.
    pub(super) is_http: bool,
    /// The lines in the block.
    pub(super) steps: Vec<Directive>,
}

impl CheckDetails {
    /// Returns the line of a further request.
    pub(super) fn line(&self, times: &CheckTimes, expects: bool, span: SourceSpan) -> Directive {
        let CheckDetails { request, tls, port, .. } = self;
        let mut line = NativeLine::new("request", span);
        line = line.keyword(&request.method).value(&request.path);
        if *tls != times.server_tls {
            line = line.option("tls", if *tls { "on" } else { "off" });
        }
        if let Some(port) = port {
            line = line.option("port", port);
        }
        request.write(line, expects).end()
    }
}

/// A request of a check.
#[derive(Default)]
pub(super) struct CheckRequest {
    pub(super) method: String,
    pub(super) path: String,
    is_http_1_1: bool,
    host: Option<String>,
    headers: Vec<(String, String)>,
    payload: Option<String>,
    /// The statuses that pass, if a line names any.
    statuses: Option<Vec<u16>>,
    body: Option<String>,
    not_body: Option<String>,
    header: Option<String>,
    not_header: Option<String>,
}

impl CheckRequest {
    /// Adds the options of the line of the request.
    pub(super) fn write(&self, mut line: NativeLine, expects: bool) -> NativeLine {
        let statuses = self.statuses.as_ref().map(|list| ranges(list));
        let any = expects.then(|| ranges(&ALL_STATUSES.collect::<Vec<_>>()));
        if !self.is_http_1_1 {
            line = line.option("version", "1.0");
        }
        line = line.keyword("bare");
        let options = [
            ("expect", statuses.or(any).as_ref()),
            ("body", self.body.as_ref()),
            ("not_body", self.not_body.as_ref()),
            ("header", self.header.as_ref()),
            ("not_header", self.not_header.as_ref()),
            ("host", self.host.as_ref()),
        ]
        .map(|(name, value)| (name, value.cloned()));
        for (name, value) in options {
            if let Some(value) = value {
                line = line.option(name, &value);
            }
        }
        line
    }

    /// Returns the lines behind that of the request.
    pub(super) fn parts(&self, span: SourceSpan) -> Vec<Directive> {
        let headers = self
            .headers
            .iter()
            .map(|(name, value)| NativeLine::new("header", span).value(name).value(value).end());
        let payload = self.payload.iter();
        headers.chain(payload.map(|text| NativeLine::new("send", span).value(text).end())).collect()
    }
}

impl HaproxyConverter<'_> {
    /// Reads `option httpchk` and the lines that belong to it.
    pub(super) fn http_check(
        &mut self,
        id: SectionId,
        kind: Option<LineId>,
        times: &CheckTimes,
        details: &mut CheckDetails,
    ) {
        let Some(line) = kind else { return };
        self.first_request(line, &mut details.request);
        let keywords = ["http-check send", "http-check expect", "http-check connect"];
        let lines = self.sections.every_of(id, &keywords);
        let expects = lines.iter().any(|line| self.sections.keyword(*line) == "http-check expect");
        // The requests after the first one.
        let mut more: Vec<CheckDetails> = Vec::new();
        let (mut sends, mut connect) = (0, None);
        for line in lines {
            self.outcomes.honour(line);
            let last = more.last_mut().unwrap_or(details);
            match self.sections.keyword(line) {
                "http-check expect" => {
                    if let Err(reason) = self.check_expect(line, &mut last.request) {
                        self.outcomes.refuse(line, reason);
                    }
                }
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
                        "OPTIONS".clone_into(&mut next.request.method);
                        "/".clone_into(&mut next.request.path);
                        more.push(next);
                        self.outcomes
                            .differs(line, "a further request, on a connection of its own");
                    }
                    let last = more.last_mut().unwrap_or(details);
                    if let Err(reason) = self.check_send(line, &mut last.request) {
                        self.outcomes.refuse(line, reason);
                    }
                }
            }
        }
        if let Some((line, _)) = connect {
            self.outcomes.refuse(line, NO_REQUEST);
        }
        let span = self.sections.span(line);
        details.expects = expects;
        details.steps.extend(details.request.parts(span));
        for request in &more {
            details.steps.push(request.line(times, expects, span));
            details.steps.extend(request.request.parts(span));
        }
    }

    /// Reads the words of `option httpchk`.
    fn first_request(&mut self, line: LineId, request: &mut CheckRequest) {
        let words: Vec<&str> =
            self.sections.words(line).iter().map(|word| word.text.as_str()).collect();
        let (method, path, version) = match words.as_slice() {
            [] => ("OPTIONS", "/", ""),
            [path] => ("OPTIONS", *path, ""),
            [method, path] => (*method, *path, ""),
            [method, path, rest @ ..] => (*method, *path, rest[0]),
        };
        method.clone_into(&mut request.method);
        path.clone_into(&mut request.path);
        // The old way to write headers.
        let mut parts = version.split("\r\n");
        request.is_http_1_1 = parts.next() == Some("HTTP/1.1");
        for part in parts.filter(|part| !part.is_empty()) {
            let read = match part.split_once(':') {
                Some((name, value)) => request_header(name, value, request),
                None => Err(format!("`{part}` is not a header: write `http-check send body TEXT`")),
            };
            if let Err(reason) = read {
                self.outcomes.refuse(line, reason);
            }
        }
    }

    fn check_send(&self, line: LineId, request: &mut CheckRequest) -> Result<(), String> {
        let words: Vec<&str> =
            self.sections.words(line).iter().map(|word| word.text.as_str()).collect();
        let mut rest = words.as_slice();
        while let [word, after @ ..] = rest {
            let (value, after) = after.split_first().unwrap_or((&"", &[]));
            rest = after;
            match *word {
                "meth" => (*value).clone_into(&mut request.method),
                "uri" => (*value).clone_into(&mut request.path),
                "ver" => request.is_http_1_1 = *value == "HTTP/1.1",
                "comment" => {}
                "hdr" => {
                    let (content, after) = after.split_first().unwrap_or((&"", &[]));
                    rest = after;
                    request_header(value, &constant(content)?, request)?;
                }
                "body" => request.payload = Some((*value).to_owned()),
                "uri-lf" | "body-lf" => return Err(SAME_BYTES.to_owned()),
                other => return Err(format!("`{other}` is not known")),
            }
        }
        Ok(())
    }

    fn check_expect(&self, line: LineId, request: &mut CheckRequest) -> Result<(), String> {
        let words: Vec<&str> =
            self.sections.words(line).iter().map(|word| word.text.as_str()).collect();
        let mut rest = words.as_slice();
        while let [word, after @ ..] = rest {
            let (inverted, kind, after) = match (*word, after) {
                ("!", [kind, after @ ..]) => (true, *kind, after),
                (word, after) => {
                    word.strip_prefix('!').map_or((false, word, after), |kind| (true, kind, after))
                }
            };
            if kind == "hdr" || kind == "fhdr" {
                return expect_header(after, kind == "fhdr", inverted, request);
            }
            let (value, after) = after.split_first().unwrap_or((&"", &[]));
            rest = after;
            match kind {
                "comment" | "min-recv" | "ok-status" | "error-status" | "tout-status"
                | "on-success" | "on-error" | "status-code" => {}
                "status" => expect_statuses(&listed(value)?, inverted, request)?,
                "rstatus" => {
                    let matching = matching_statuses(value).ok_or(
                        "write the statuses: `http-check expect status 200-299`".to_owned(),
                    )?;
                    expect_statuses(&matching, inverted, request)?;
                }
                "string" => expect_body(literal(value), inverted, request)?,
                "rstring" => {
                    let pattern = format!("~{}", crate::pcre::native(value)?);
                    expect_body(pattern, inverted, request)?;
                }
                "string-lf" => return Err("a check expects the same text each time".to_owned()),
                other => return Err(format!("`{other}` is not known")),
            }
        }
        Ok(())
    }
}

/// Returns a text that is the same for each check.
fn constant(text: &str) -> Result<String, String> {
    let plain = text.replace("%%", "");
    if plain.contains('%') { Err(SAME_BYTES.to_owned()) } else { Ok(text.replace("%%", "%")) }
}

/// Adds a header to a request.
fn request_header(name: &str, value: &str, request: &mut CheckRequest) -> Result<(), String> {
    let (name, value) = (name.trim(), value.trim());
    match name.to_ascii_lowercase().as_str() {
        "host" => request.host = Some(value.to_owned()),
        "connection" if value.eq_ignore_ascii_case("close") => {}
        "connection" | "content-length" | "transfer-encoding" => {
            return Err(format!("a probe writes `{name}` itself: leave it out"));
        }
        _ => request.headers.push((name.to_owned(), value.to_owned())),
    }
    Ok(())
}

/// Reads a list such as `200,301-303`.
fn listed(text: &str) -> Result<Vec<u16>, String> {
    let mut statuses = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.trim().parse::<u16>(), last.trim().parse::<u16>()) {
            (Ok(first), Ok(last)) => {
                statuses.extend(ALL_STATUSES.filter(|status| (first..=last).contains(status)));
            }
            _ => return Err(format!("`{part}` is not a status")),
        }
    }
    Ok(statuses)
}

/// Returns the statuses that a regex such as `^2[0-9][0-9]` or `2..` means.
fn matching_statuses(regex: &str) -> Option<Vec<u16>> {
    let pattern = format!("~{}", crate::pcre::native(regex).ok()?).parse::<TextPattern>().ok()?;
    Some(ALL_STATUSES.filter(|status| pattern.matches(&status.to_string())).collect())
}

/// Notes statuses, which have to pass what lines before have noted too.
fn expect_statuses(
    named: &[u16],
    inverted: bool,
    request: &mut CheckRequest,
) -> Result<(), String> {
    let mut passing: Vec<u16> =
        ALL_STATUSES.filter(|status| named.contains(status) != inverted).collect();
    if let Some(before) = &request.statuses {
        passing.retain(|status| before.contains(status));
    }
    if passing.is_empty() {
        return Err("no final response has such a status: the check could never pass".to_owned());
    }
    request.statuses = Some(passing);
    Ok(())
}

fn expect_body(pattern: String, inverted: bool, request: &mut CheckRequest) -> Result<(), String> {
    pattern.parse::<ContentPattern>()?;
    let slot = if inverted { &mut request.not_body } else { &mut request.body };
    if slot.replace(pattern).is_some() {
        return Err("a probe looks for one text in the body: write one regex".to_owned());
    }
    Ok(())
}

/// Reads `[name] [-m METHOD] NAME [value [-m METHOD] VALUE]`.
fn expect_header(
    words: &[&str],
    whole: bool,
    inverted: bool,
    request: &mut CheckRequest,
) -> Result<(), String> {
    let (name, rest) = match words {
        ["name", "-m", "str", name, rest @ ..] | ["name", name, rest @ ..] if *name != "-m" => {
            (*name, rest)
        }
        _ => return Err("write the name of the header: `hdr name NAME`".to_owned()),
    };
    let (method, value, rest) = match rest {
        ["value", "-m", method, value, rest @ ..] => (*method, Some(*value), rest),
        ["value", value, rest @ ..] => ("str", Some(*value), rest),
        rest => ("str", None, rest),
    };
    let whole = whole || rest.first() == Some(&"full");
    let text = match value {
        None => name.to_owned(),
        Some(value) => format!("{name}={}", header_pattern(method, value, whole)?),
    };
    let slot = if inverted { &mut request.not_header } else { &mut request.header };
    if slot.replace(text).is_some() {
        return Err("a probe looks for one header: leave one of them".to_owned());
    }
    Ok(())
}

/// Returns a pattern for a value of a header; HAProxy looks at each of a list by itself.
fn header_pattern(method: &str, value: &str, whole: bool) -> Result<String, String> {
    let escaped = value.chars().fold(String::new(), |mut text, c| {
        if c.is_ascii_punctuation() {
            text.push('\\');
        }
        text.push(c);
        text
    });
    let (begin, end) = if whole { ("^", "$") } else { ("(?:^|,)\\s*", "\\s*(?:,|$)") };
    let pattern = match method {
        "str" => format!("~{begin}{escaped}{end}"),
        "beg" => format!("~{begin}{escaped}"),
        "end" => format!("~{escaped}{end}"),
        "sub" => format!("~{escaped}"),
        "reg" if whole || !value.contains(['^', '$']) => {
            format!("~{}", crate::pcre::native(value)?)
        }
        "reg" => {
            return Err(
                "write `full` behind the regex, whose ends are then those of the whole value"
                    .to_owned(),
            );
        }
        other => return Err(format!("`-m {other}` has no conversion")),
    };
    pattern.parse::<TextPattern>()?;
    Ok(pattern)
}

/// Writes a sorted list of statuses.
fn ranges(statuses: &[u16]) -> String {
    let mut parts: Vec<(u16, u16)> = Vec::new();
    for status in statuses {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *status => *last = *status,
            _ => parts.push((*status, *status)),
        }
    }
    let texts: Vec<String> = parts
        .into_iter()
        .map(
            |(first, last)| {
                if first == last { first.to_string() } else { format!("{first}-{last}") }
            },
        )
        .collect();
    texts.join(",")
}
