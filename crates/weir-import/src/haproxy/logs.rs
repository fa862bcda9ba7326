//! `log` lines become native logs, with a target for each line, and destinations of Weir's own log.

use std::collections::HashMap;

use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::convert::HaproxyConverter;
use super::scope::RuleScope;
use super::sections::{LineId, SectionId};
use crate::native::{NativeLine, print};

/// A `log` line: where to, and from which severity.
#[derive(Clone, Debug)]
pub(super) struct LogTargetLine {
    /// The target in Weir's form.
    target: String,
    /// Set if lines of requests, whose severity is `info`, are written there.
    requests: bool,
    span: SourceSpan,
}

impl LogTargetLine {
    pub(super) fn is_stderr(&self) -> bool {
        self.target == "stderr"
    }
}

/// The format that a section names.
enum NamedFormat {
    Usual,
    Line(Directive),
    Refused,
}

/// The logs made so far.
#[derive(Default)]
pub(super) struct ConvertedFileLogs {
    made: HashMap<String, String>,
    pub(super) directives: Vec<Directive>,
}

/// The name of the variable that is 1 for a request without a line.
pub(super) const SILENT: &str = "log silent";

pub(super) const LEVELS: [&str; 8] =
    ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

impl HaproxyConverter<'_> {
    /// Converts a `log` of `global`: Weir's own messages go there, and what `log global` refers to.
    pub(super) fn global_log(&mut self, line: LineId) -> Option<Directive> {
        let target = self.log_target(line)?;
        let level = self.log_level(line).unwrap_or("info");
        let level = if level == "err" { "error" } else { level };
        let native = NativeLine::new("error_log", target.span).value(&target.target);
        self.global_logs.push(target);
        // Messages for developers have no counterpart.
        Some(native.keyword(if level == "debug" { "info" } else { level }).end())
    }

    /// Returns the level of a `log`, if it has one.
    fn log_level(&self, line: LineId) -> Option<&'static str> {
        let words = self.sections.words(line);
        let facility = words.iter().skip(1).position(|word| is_facility(&word.text))? + 1;
        let level = words.get(facility + 1)?;
        LEVELS.into_iter().find(|name| *name == level.text)
    }

    fn log_target(&mut self, line: LineId) -> Option<LogTargetLine> {
        let sections = self.sections;
        let words = sections.words(line);
        let address = sections.word(line, 0);
        let (mut format, mut facility) = ("", "");
        let mut at = 1;
        while let Some(word) = words.get(at) {
            let value = words.get(at + 1).map_or("", |word| word.text.as_str());
            match word.text.as_str() {
                "len" => at += 1,
                "format" => {
                    format = value;
                    at += 1;
                }
                "sample" | "profile" => {
                    let reason =
                        format!("Weir logs every request: `{}` has no conversion", word.text);
                    self.outcomes.refuse(line, reason);
                    return None;
                }
                text if is_facility(text) => facility = text,
                _ => {}
            }
            at += 1;
        }
        if facility.is_empty() {
            self.outcomes.refuse(line, "write a facility, such as `local0`");
            return None;
        }
        let place = match address {
            "stdout" | "stderr" => Ok(address.to_owned()),
            _ if address.starts_with('/') => Ok(format!("syslog:{address}")),
            _ => syslog_address(address),
        };
        let mut target = match place {
            Ok(target) => target,
            Err(reason) => {
                self.outcomes.refuse(line, reason);
                return None;
            }
        };
        if target.starts_with("syslog:") {
            target.push_str(",facility=");
            target.push_str(facility);
        }
        match format {
            "" | "rfc3164" | "raw" | "local" | "short" | "timed" | "iso" | "priority" => {}
            "rfc5424" if target.starts_with("syslog:") => target.push_str(",format=rfc5424"),
            other => {
                self.outcomes.refuse(line, format!("the format `{other}` has no conversion"));
                return None;
            }
        }
        if matches!(format, "short" | "raw" | "timed" | "iso" | "priority" | "local")
            && target.starts_with("syslog:")
        {
            self.outcomes.differs(line, "messages to syslog have the form of RFC 3164");
        }
        let level = self.log_level(line);
        let requests = level.is_none_or(|level| matches!(level, "info" | "debug"));
        self.outcomes.honour(line);
        Some(LogTargetLine { target, requests, span: sections.span(line) })
    }

    /// Returns the name of the native log of a frontend; `None` if it has none.
    pub(super) fn access_log(&mut self, id: SectionId, scope: &RuleScope) -> Option<String> {
        let sections = self.sections;
        let mut targets: Vec<LogTargetLine> = Vec::new();
        for line in sections.every(id, "log") {
            if sections.is_negated(line) {
                targets.clear();
                self.outcomes.honour(line);
            } else if sections.word(line, 0) == "global" {
                targets.extend(self.global_logs.iter().cloned());
                self.outcomes.honour(line);
            } else {
                targets.extend(self.log_target(line));
            }
        }
        targets.retain(|target| target.requests);
        let format = self.log_format(id, scope);
        let first = targets.first()?.span;
        let mut lines: Vec<Directive> = targets
            .iter()
            .map(|target| NativeLine::new("to", target.span).value(&target.target).end())
            .collect();
        lines.push(match format {
            NamedFormat::Refused => return None,
            NamedFormat::Line(line) => line,
            NamedFormat::Usual => {
                self.default("log-format", "without `option httplog` HAProxy writes one short line for a connection; Weir writes the line of `option httplog`");
                NativeLine::new("format", first).keyword("haproxy").end()
            }
        });
        let failures = self.option(id, "option dontlog-normal").then(|| {
            // Neither an error nor a further attempt.
            let normal = [("~^--[^:]*:(?:-|000|[1-4][0-9][0-9]):[01]$", "0")];
            let text = "${haproxy_tsc}:${status}:${attempts}";
            self.looked_up(text, &normal, "1", "log failures", first)
        });
        let written = match scope.variable(SILENT) {
            None | Some("") => None,
            Some("1") => return None,
            Some(silent) => Some(self.looked_up(silent, &[("1", "0")], "1", "log written", first)),
        };
        let when = match (failures, written) {
            (Some(failures), Some(written)) => {
                let both = format!("{failures}{written}");
                Some(self.looked_up(&both, &[("11", "1")], "0", "log both", first))
            }
            (one, other) => one.or(other),
        };
        lines.extend(when.map(|text| NativeLine::new("when", first).value(&text).end()));
        let key = print(&lines);
        if let Some(name) = self.logs.made.get(&key) {
            return Some(name.clone());
        }
        let name = format!("access{}", self.logs.made.len() + 1);
        self.logs.made.insert(key, name.clone());
        self.logs.directives.push(NativeLine::new("log", first).value(&name).block(lines));
        Some(name)
    }

    /// Returns the line of the format, if the file names one.
    fn log_format(&mut self, id: SectionId, scope: &RuleScope) -> NamedFormat {
        let keywords = ["log-format", "option httplog", "option httpslog", "option tcplog"];
        let sections = self.sections;
        let lines = sections.every_of(id, &keywords);
        let mut last = None;
        for line in lines {
            if sections.is_negated(line) {
                last = None;
                self.outcomes.honour(line);
            } else {
                // A section's own format replaces the inherited one.
                if let Some(earlier) = last.replace(line) {
                    self.outcomes.ignore(earlier, "a later line names another format");
                }
            }
        }
        let Some(line) = last else { return NamedFormat::Usual };
        let native = NativeLine::new("format", sections.span(line));
        match sections.keyword(line) {
            "option httplog" if sections.word(line, 0) == "clf" => {
                self.outcomes.differs(
                    line,
                    "nginx's `combined`, with user agent and referer in place of HAProxy's fields",
                );
                NamedFormat::Line(native.keyword("combined").end())
            }
            "log-format" => match self.template(sections.word(line, 0), scope, sections.span(line))
            {
                Ok(text) => {
                    self.outcomes.honour(line);
                    NamedFormat::Line(native.value(&text).end())
                }
                Err(reason) => {
                    self.outcomes.refuse(line, reason);
                    NamedFormat::Refused
                }
            },
            // Such a line of a connection is that of `option tcplog`.
            "option tcplog" if self.is_of_connections(id) => {
                self.outcomes.honour(line);
                NamedFormat::Line(native.keyword("haproxy").end())
            }
            "option tcplog" => {
                self.outcomes
                    .differs(line, "requests are logged with the line of `option httplog`");
                NamedFormat::Line(native.keyword("haproxy").end())
            }
            "option httpslog" => {
                self.outcomes
                    .differs(line, "the line of `option httplog`, without the fields of TLS");
                NamedFormat::Line(native.keyword("haproxy").end())
            }
            _ => {
                self.outcomes.honour(line);
                let captures =
                    scope.cookies.is_some() || (0..2).any(|side| !scope.captures(side).is_empty());
                match self.template(HTTP_LOG, scope, sections.span(line)) {
                    Ok(text) if captures => NamedFormat::Line(native.value(&text).end()),
                    _ => NamedFormat::Line(native.keyword("haproxy").end()),
                }
            }
        }
    }
}

/// The fields of `option httplog` with captured headers.
const HTTP_LOG: &str = "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc \
     %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r";

fn is_facility(text: &str) -> bool {
    const FACILITIES: [&str; 24] = [
        "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "auth2",
        "ftp", "ntp", "audit", "alert", "cron2", "local0", "local1", "local2", "local3", "local4",
        "local5", "local6", "local7",
    ];
    FACILITIES.contains(&text)
}

/// Returns a syslog server in Weir's form.
fn syslog_address(text: &str) -> Result<String, String> {
    let address = text.strip_prefix("ipv4@").or(text.strip_prefix("udp@")).unwrap_or(text);
    if address.contains('@') {
        return Err("this form of target has no conversion: log to a socket or over UDP".to_owned());
    }
    let (host, port) = match address.rsplit_once(':').filter(|(host, _)| !host.is_empty()) {
        Some((host, port)) => (host, port),
        None => (address.trim_end_matches(':'), "514"),
    };
    let host = if host == "localhost" { "127.0.0.1" } else { host };
    let port = port.parse::<u16>().map_err(|_| format!("`{port}` is not a port"))?;
    match host.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V6(address)) => Ok(format!("syslog:udp:[{address}]:{port}")),
        Ok(address) => Ok(format!("syslog:udp:{address}:{port}")),
        Err(_) => Err(format!("`{host}` is a name: write the IP address of the syslog server")),
    }
}
