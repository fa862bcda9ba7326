//! Checks `check …` of a pool. The checks that the JSON form passes too are in
//! `model/validate/probe.rs`.

use super::arguments::{ArgumentValue, Arguments};
use super::checker::Checker;
use crate::defaults;
use crate::diagnostic::Diagnostic;
use crate::model::validate::probe::{self, MOST_RESULTS};
use crate::model::{
    Check, EndpointCheck, HeaderExpectation, HttpProbe, Pool, Probe, TcpProbe, values,
};
use crate::pattern::TextPattern;
use crate::units::percent;

/// Options that only these kinds of checks have.
const OWN_OPTIONS: [(&str, &[&str]); 6] = [
    ("expect", &["http", "tcp"]),
    ("host", &["http"]),
    ("header", &["http"]),
    ("body", &["http"]),
    ("tls", &["http"]),
    ("send", &["tcp"]),
];

impl<'a> Checker<'a> {
    pub(super) fn check(&mut self, line: &Arguments<'a>, kind: ArgumentValue<'a>) -> Option<Check> {
        let probe = match kind.text() {
            "http" => Probe::Http(self.http_probe(line)),
            "tcp" => Probe::Tcp(self.tcp_probe(line)),
            "tls" => Probe::Tls,
            other => {
                let message = format!("there is no check `{other}`");
                let error = Diagnostic::error(kind.span(), message);
                let error = error.suggest(other, ["http", "tcp", "tls"]);
                self.report(error.help("the checks are `http`, `tcp` and `tls`"));
                return None;
            }
        };
        if let (Some(extra), Probe::Tcp(_) | Probe::Tls) = (line.word(1), &probe) {
            let message = format!("`check {}` takes options only", kind.text());
            self.report(Diagnostic::error(extra.span(), message));
        }
        for (option, kinds) in OWN_OPTIONS {
            if let Some(value) = line.option(option).filter(|_| !kinds.contains(&kind.text())) {
                let message = format!("`check {}` has no `{option}=`", kind.text());
                let error = Diagnostic::error(value.word.span, message);
                self.report(error.help(format!("it belongs to `check {}`", kinds.join("` and `"))));
            }
        }
        let mut check = Check { probe, ..Check::default() };
        self.check_times(line, &mut check);
        self.set(line, "rise", &mut check.rise, count);
        self.set(line, "fall", &mut check.fall, count);
        self.set(line, "spread", &mut check.spread_percent, percent::parse);
        self.set(line, "panic", &mut check.panic_percent, panic_percent);
        check.port = self.setting(line, "port", port);
        Some(check)
    }

    fn check_times(&mut self, line: &Arguments<'a>, check: &mut Check) {
        self.set(line, "interval", &mut check.interval, values::wait);
        check.timeout = defaults::CHECK_TIMEOUT.min(check.interval / 2);
        self.set(line, "timeout", &mut check.timeout, values::wait);
        check.fast = self.setting(line, "fast", values::wait);
        check.down = self.setting(line, "down", values::wait);
    }

    fn http_probe(&mut self, line: &Arguments<'a>) -> HttpProbe {
        let mut probe = HttpProbe::default();
        let (method, path) = match (line.word(1), line.word(2)) {
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
        probe.tls = self.setting(line, "tls", values::on_off);
        probe
    }

    fn tcp_probe(&mut self, line: &Arguments<'a>) -> TcpProbe {
        TcpProbe {
            send: line.option("send").map(|value| value.text().to_owned()),
            expect: self.setting(line, "expect", str::parse),
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

fn header(text: &str) -> Result<HeaderExpectation, String> {
    let (name, value) = match text.split_once('=') {
        None => (text, None),
        Some((name, value)) => (name, Some(value.parse::<TextPattern>()?)),
    };
    values::token(name, "a header")?;
    Ok(HeaderExpectation { name: name.to_owned(), value })
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
