//! Checks `check …` of a pool. The checks that the JSON form passes too are in
//! `model/validate/probe.rs`.

use super::arguments::{ArgumentValue, Arguments};
use super::checker::Checker;
use crate::defaults;
use crate::diagnostic::Diagnostic;
use crate::directives::Context;
use crate::model::validate::agents;
use crate::model::validate::probe::{self, MOST_RESULTS};
use crate::model::{
    AgentCheck, Check, EndpointCheck, GrpcProbe, HeaderExpectation, HttpProbe, Pool, Probe,
    ProbeConnect, ProbeHeader, ProbeStep, ProbeVersion, ReplyExpectation, TcpProbe, values,
};
use crate::pattern::{REPLY_BYTES, TextPattern};
use crate::units::percent;

/// Options that only these kinds of checks have.
const OWN_OPTIONS: [(&str, &[&str]); 12] = [
    ("service", &["grpc"]),
    ("drain_on", &["http"]),
    ("expect", &["http", "tcp"]),
    ("host", &["http"]),
    ("header", &["http"]),
    ("body", &["http"]),
    ("version", &["http"]),
    ("bare", &["http"]),
    ("not_header", &["http"]),
    ("not_body", &["http"]),
    ("tls", &["http"]),
    ("send", &["tcp"]),
];

impl<'a> Checker<'a> {
    pub(super) fn check(&mut self, line: &Arguments<'a>, kind: ArgumentValue<'a>) -> Option<Check> {
        let probe = match kind.text() {
            "http" => Probe::Http(Box::new(self.http_check(line))),
            "tcp" => Probe::Tcp(self.tcp_probe(line)),
            "tls" => Probe::Tls,
            "grpc" => Probe::Grpc(GrpcProbe {
                service: self.setting(line, "service", |text| {
                    probe::service(text).map(|()| text.to_owned())
                }),
            }),
            other => {
                let message = format!("there is no check `{other}`");
                let error = Diagnostic::error(kind.span(), message);
                let error = error.suggest(other, ["http", "tcp", "tls", "grpc"]);
                self.report(error.help("the checks are `http`, `tcp`, `tls` and `grpc`"));
                return None;
            }
        };
        if let (Some(extra), Probe::Tcp(_) | Probe::Tls | Probe::Grpc(_)) = (line.word(1), &probe) {
            let message = format!("`check {}` takes options only", kind.text());
            self.report(Diagnostic::error(extra.span(), message));
        }
        for (option, kinds) in OWN_OPTIONS {
            if let Some(value) = line.option(option).filter(|_| !kinds.contains(&kind.text())) {
                let message = format!("`check {}` has no `{option}`", kind.text());
                let error = Diagnostic::error(value.word.span, message);
                self.report(error.help(format!("it belongs to `check {}`", kinds.join("` and `"))));
            }
        }
        if let (Probe::Tls | Probe::Grpc(_), Some(block)) = (&probe, &line.directive.block) {
            let message = format!("`check {}` has no steps", kind.text());
            self.report(Diagnostic::error(block.open, message));
        }
        let mut check = Check { probe, ..Check::default() };
        self.check_times(line, &mut check);
        self.set(line, "rise", &mut check.rise, count);
        self.set(line, "fall", &mut check.fall, count);
        self.set(line, "spread", &mut check.spread_percent, percent::parse);
        self.set(line, "panic", &mut check.panic_percent, panic_percent);
        check.port = self.setting(line, "port", port);
        // Of other kinds it is reported as an option of another one.
        if matches!(check.probe, Probe::Http(_)) {
            check.drain_on = self.setting(line, "drain_on", str::parse);
        }
        Some(check)
    }

    fn check_times(&mut self, line: &Arguments<'a>, check: &mut Check) {
        self.set(line, "interval", &mut check.interval, values::wait);
        check.timeout = defaults::CHECK_TIMEOUT.min(check.interval / 2);
        self.set(line, "timeout", &mut check.timeout, values::wait);
        check.fast = self.setting(line, "fast", values::wait);
        check.down = self.setting(line, "down", values::wait);
    }

    fn http_check(&mut self, line: &Arguments<'a>) -> HttpProbe {
        let mut probe = self.http_probe(line, line.word(1), line.word(2));
        for step in self.steps(line, "http", &["request", "header", "send"]) {
            if step.name() == "request" {
                let mut request = self.http_probe(&step, step.word(0), step.word(1));
                request.port = self.setting(&step, "port", port);
                probe.then.push(request);
                continue;
            }
            let request = match probe.then.last_mut() {
                Some(request) => request,
                None => &mut probe,
            };
            self.part_of_request(&step, request);
        }
        probe
    }

    /// Adds a header or the body to a request.
    fn part_of_request(&mut self, step: &Arguments<'a>, request: &mut HttpProbe) {
        match (step.name(), step.word(0), step.word(1)) {
            ("header", Some(name), Some(value)) => {
                let name = self.value(name, |text| probe::header_name(text).map(|()| text.into()));
                let value =
                    self.value(value, |text| probe::header_value(text).map(|()| text.into()));
                if let (Some(name), Some(value)) = (name, value) {
                    request.headers.push(ProbeHeader { name, value });
                }
            }
            ("send", Some(text), _) if step.option("hex").is_none() && request.send.is_none() => {
                request.send = Some(text.text().to_owned());
            }
            _ => {
                let message = "a request has one `send` with a text, which is its body";
                self.report(Diagnostic::error(step.span(), message));
            }
        }
    }

    /// Returns the lines of the block of a check that belong to its kind.
    fn steps(&mut self, line: &Arguments<'a>, kind: &str, names: &[&str]) -> Vec<Arguments<'a>> {
        let mut steps = self.block(line.block(), Context::Check);
        steps.retain(|step| {
            let is_own = names.contains(&step.name());
            if !is_own {
                let message = format!("`check {kind}` has no `{}`", step.name());
                let error = Diagnostic::error(step.span(), message);
                self.report(error.help(format!("its steps are `{}`", names.join("`, `"))));
            }
            is_own
        });
        steps
    }

    fn http_probe(
        &mut self,
        line: &Arguments<'a>,
        first: Option<ArgumentValue<'a>>,
        second: Option<ArgumentValue<'a>>,
    ) -> HttpProbe {
        let mut probe = HttpProbe::default();
        let (method, path) = match (first, second) {
            (Some(only), None) if only.text().starts_with('/') => (None, Some(only)),
            words => words,
        };
        self.set_word(method, &mut probe.method, |text| {
            probe::method(text).map(|()| text.to_owned())
        });
        self.set_word(path, &mut probe.path, |text| probe::path(text).map(|()| text.to_owned()));
        self.set(line, "expect", &mut probe.expect, str::parse);
        probe.host = self.setting(line, "host", |text| probe::host(text).map(|()| text.to_owned()));
        probe.header = self.setting(line, "header", header);
        probe.body = self.setting(line, "body", str::parse);
        probe.not_header = self.setting(line, "not_header", header);
        probe.not_body = self.setting(line, "not_body", str::parse);
        self.set(line, "version", &mut probe.version, version);
        probe.bare = line.flag("bare");
        probe.tls = self.setting(line, "tls", values::on_off);
        probe
    }

    fn tcp_probe(&mut self, line: &Arguments<'a>) -> TcpProbe {
        let mut steps = Vec::new();
        for step in self.steps(line, "tcp", &["connect", "send", "expect"]) {
            steps.extend(self.step(&step));
        }
        TcpProbe {
            send: line.option("send").map(|value| value.text().to_owned()),
            expect: self.setting(line, "expect", str::parse),
            steps,
        }
    }

    fn step(&mut self, step: &Arguments<'a>) -> Option<ProbeStep> {
        let hex = if step.name() == "send" { step.option("hex") } else { None };
        match (step.name(), step.word(0), hex) {
            ("connect", ..) => {
                let send_proxy = step.flag("send_proxy");
                let port = self.setting(step, "port", port);
                let mut connect = ProbeConnect { port, send_proxy, tls: false };
                self.set(step, "tls", &mut connect.tls, values::on_off);
                Some(ProbeStep::Connect(connect))
            }
            ("send", Some(text), None) => Some(ProbeStep::Send(text.text().to_owned())),
            ("send", None, Some(digits)) => self.value(digits, str::parse).map(ProbeStep::SendHex),
            ("send", ..) => {
                let message = "`send` takes either a text or `hex=`";
                self.report(Diagnostic::error(step.span(), message));
                None
            }
            (_, Some(text), _) => {
                let absent = step.flag("absent");
                let min_bytes = self.setting(step, "min_bytes", |text| {
                    values::whole(text, 1, REPLY_BYTES as u64).map(|number| number as u32)
                });
                let text = self.value(text, str::parse)?;
                Some(ProbeStep::Expect(ReplyExpectation { text, absent, min_bytes }))
            }
            _ => None,
        }
    }

    fn set_word<T>(
        &mut self,
        word: Option<ArgumentValue<'a>>,
        slot: &mut T,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) {
        if let Some(value) = word.and_then(|word| self.value(word, parse)) {
            *slot = value;
        }
    }

    /// Compares the check with the rest of its pool.
    pub(super) fn check_fits(&mut self, lines: &[Arguments<'a>], pool: &Pool) {
        let servers = || lines.iter().filter(|line| line.name() == "server");
        let Some(line) = lines.iter().find(|line| line.name() == "check") else {
            for value in servers().filter_map(|line| line.option("check")) {
                let message = "`check=` has no effect: the pool has no `check`";
                self.report(Diagnostic::error(value.word.span, message));
            }
            return;
        };
        let Some(check) = &pool.check else { return };
        for objection in probe::objections(check, pool) {
            let place = objection.options.iter().find_map(|option| line.option(option));
            let place = place.map_or_else(|| line.span(), |value| value.word.span);
            let error = Diagnostic::error(place, objection.message);
            self.report(if objection.help.is_empty() { error } else { error.help(objection.help) });
        }
        let unprobed = pool.endpoints.iter().all(|server| server.check == EndpointCheck::Off);
        if unprobed && !pool.endpoints.is_empty() {
            let message = "this check probes no server: all of them have `check=off`";
            self.report(Diagnostic::warning(line.span(), message));
        }
    }
}

impl<'a> Checker<'a> {
    /// Reads `agent_check`.
    pub(super) fn agent_check(&mut self, line: &Arguments<'a>) -> AgentCheck {
        let mut check =
            AgentCheck { port: self.setting(line, "port", port), ..AgentCheck::default() };
        self.set(line, "interval", &mut check.interval, values::wait);
        check.timeout = check.timeout.min(check.interval);
        self.set(line, "timeout", &mut check.timeout, values::wait);
        check.send = line.option("send").map(|value| value.text().to_owned());
        check
    }

    /// Reports agents that have no address, and addresses of agents that nothing asks.
    pub(super) fn agents_fit(&mut self, lines: &[Arguments<'a>], pool: &Pool) {
        let Some(line) = lines.iter().find(|line| line.name() == "agent_check") else {
            let servers = lines.iter().filter(|line| line.name() == "server");
            for value in servers.filter_map(|line| line.option("agent")) {
                let message = "`agent=` has no effect: the pool has no `agent_check`";
                self.report(Diagnostic::error(value.word.span, message));
            }
            return;
        };
        let objection = pool.agent_check.as_ref().and_then(|check| agents::objection(check, pool));
        let Some((field, message)) = objection else { return };
        let place = line.option(field).map_or_else(|| line.span(), |value| value.word.span);
        self.report(Diagnostic::error(place, message));
    }
}

fn header(text: &str) -> Result<HeaderExpectation, String> {
    let (name, value) = match text.split_once('=') {
        None => (text, None),
        Some((name, value)) => (name, Some(value.parse::<TextPattern>()?)),
    };
    values::token(name, "a header")?;
    Ok(HeaderExpectation { name: name.to_owned(), value })
}

fn version(text: &str) -> Result<ProbeVersion, String> {
    match text {
        "1.0" => Ok(ProbeVersion::Http10),
        "1.1" => Ok(ProbeVersion::Http11),
        _ => Err(format!("`{text}` is not a version of a probe: write `1.0` or `1.1`")),
    }
}

fn panic_percent(text: &str) -> Result<u8, String> {
    if text == "off" { Ok(0) } else { percent::parse(text) }
}

fn count(text: &str) -> Result<u32, String> {
    values::whole(text, 1, MOST_RESULTS).map(|number| number as u32)
}

fn port(text: &str) -> Result<u16, String> {
    values::whole(text, 1, 65_535)
        .map(|number| number as u16)
        .map_err(|_| format!("`{text}` is not a port: 1 to 65535"))
}
