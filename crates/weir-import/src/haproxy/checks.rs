//! Health checks of a backend.

use weir_config::model::check::HexBytes;
use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::check_steps::{self, CheckConnect, CheckStep, expectation};
use super::convert::HaproxyConverter;
use super::http_checks::{CheckDetails, CheckRequest};
use super::sections::{LineId, SectionId};
use super::servers::CheckTimes;
use super::values;
use crate::native::NativeLine;

/// The most steps of a check of Weir.
const MOST_STEPS: usize = 64;
/// The reason for checks by other programs and protocols.
const OTHER_PROBES: &str =
    "Weir probes with HTTP, TCP or TLS: use `option httpchk` or `option tcp-check`";

/// The options that choose the kind of a check; the last one in a section holds.
const KINDS: [&str; 10] = [
    "option httpchk",
    "option tcp-check",
    "option ssl-hello-chk",
    "option redis-check",
    "option mysql-check",
    "option pgsql-check",
    "option smtpchk",
    "option ldap-check",
    "option external-check",
    "option spop-check",
];

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
        self.other_checks(id, kind);
        let mut details = CheckDetails { tls: times.tls, ..CheckDetails::default() };
        let keyword = kind.map_or("", |line| self.sections.keyword(line));
        let span = kind.map_or(span, |line| self.sections.span(line));
        let mut native = NativeLine::new("check", span);
        if let Some(line) = kind {
            self.outcomes.honour(line);
        }
        match (keyword, kind) {
            ("option httpchk", _) => {
                details.is_http = true;
                self.http_check(id, kind, &times, &mut details);
                let CheckRequest { method, path, .. } = &details.request;
                native = native.keyword("http").keyword(method).value(path);
                if details.tls != times.server_tls {
                    native = native.option("tls", if details.tls { "on" } else { "off" });
                }
                native = details.request.write(native, details.expects);
            }
            ("" | "option tcp-check", _) => {
                self.tcp_check(id, &times, &mut details);
                let is_handshake = details.tls && details.steps.is_empty();
                native = native.keyword(if is_handshake { "tls" } else { "tcp" });
            }
            ("option ssl-hello-chk", _) if times.server_tls => native = native.keyword("tls"),
            ("option external-check" | "option spop-check", Some(line)) => {
                self.outcomes.refuse(line, OTHER_PROBES);
                return None;
            }
            (option, Some(line)) => {
                native = native.keyword("tcp");
                match self.protocol_steps(option, line, &times) {
                    Ok(steps) => details.steps = steps,
                    Err(reason) => self.outcomes.refuse(line, reason),
                }
            }
            _ => return None,
        }
        Some(self.check_options(id, native, &times, details))
    }

    /// Notes lines of a kind of check that the section does not have.
    fn other_checks(&mut self, id: SectionId, kind: Option<LineId>) {
        let kind = kind.map_or("", |line| self.sections.keyword(line)).to_owned();
        for (keyword, option, kinds) in [
            ("http-check", "option httpchk", &["option httpchk"][..]),
            ("tcp-check", "option tcp-check", &["option tcp-check", ""][..]),
        ] {
            if kinds.contains(&kind.as_str()) {
                continue;
            }
            let names = ["connect", "send", "send-binary", "expect"];
            let names = names.map(|name| format!("{keyword} {name}"));
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            for line in self.sections.every_of(id, &names) {
                let reason = format!("without `{option}` it has no effect, as in HAProxy");
                self.outcomes.ignore(line, reason);
            }
        }
    }

    /// Returns the conversation of an option for a protocol.
    fn protocol_steps(
        &mut self,
        option: &str,
        line: LineId,
        times: &CheckTimes,
    ) -> Result<Vec<Directive>, String> {
        let words: Vec<&str> =
            self.sections.words(line).iter().map(|word| word.text.as_str()).collect();
        if option == "option ssl-hello-chk" {
            self.outcomes.differs(line, "the `ClientHello` of SSLv3 has a time of 0");
        }
        let first = CheckConnect { tls: times.tls, ..CheckConnect::default() };
        let steps = check_steps::of_protocol(option, &words, first)?;
        let span = self.sections.span(line);
        Ok(steps.iter().map(|step| step.native(span)).collect())
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
        if let Some(line) = self.sections.last(id, "http-check disable-on-404") {
            if details.is_http {
                self.outcomes.honour(line);
                native = native.option("drain_on", "404");
            } else {
                self.outcomes
                    .ignore(line, "without `option httpchk` it has no effect, as in HAProxy");
            }
        }
        details.port = details.port.or(times.port.map(|port| port.to_string()));
        let CheckDetails { port, send, expect, .. } = &details;
        for (name, value) in [("port", port), ("send", send), ("expect", expect)] {
            if let Some(value) = value {
                native = native.option(name, value);
            }
        }
        if details.steps.is_empty() { native.end() } else { native.block(details.steps) }
    }

    pub(super) fn check_connect(
        &mut self,
        line: LineId,
        times: &CheckTimes,
        details: &mut CheckDetails,
    ) {
        let words: Vec<&str> =
            self.sections.words(line).iter().map(|word| word.text.as_str()).collect();
        // Without `default` it has its own options only.
        details.tls = false;
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let value = words.get(at + 1).copied().unwrap_or_default();
            match *word {
                "port" if value.parse::<u16>().is_ok() => details.port = Some(value.to_owned()),
                "comment" => {}
                "sni" | "alpn" | "proto" => self.outcomes.differs(
                    line,
                    format!("`{word}`: the name and the protocol are those of requests"),
                ),
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
            [(_, CheckStep::Send(_))] => !first.tls,
            [(_, CheckStep::Expect(expected))]
            | [(_, CheckStep::Send(_)), (_, CheckStep::Expect(expected))] => {
                !first.tls && expected.is_simple()
            }
            _ => false,
        };
        details.tls = first.tls;
        if is_simple && !first.send_proxy {
            details.port.clone_from(&first.port);
            for (_, step) in rest {
                match step {
                    CheckStep::Send(text) => details.send = Some(text.clone()),
                    CheckStep::Expect(expected) => details.expect = Some(expected.pattern.clone()),
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
}
