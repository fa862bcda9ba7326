//! Checks `check …` of a pool and, for both syntaxes, the health check itself: above all that it
//! can pass. It sends no probe.

use std::time::Duration;

use super::arguments::{Arguments, Value};
use super::{Checker, values};
use crate::defaults;
use crate::diagnostic::Diagnostic;
use crate::model::{
    Check, EndpointAddress, EndpointCheck, HeaderExpectation, HttpProbe, Pool, Probe, TcpProbe,
};
use crate::pattern::TextPattern;
use crate::units::percent;

/// The shortest interval; more frequent probes would be a load in themselves.
const LEAST_INTERVAL: Duration = Duration::from_millis(10);

/// Options that only these kinds of checks have.
const OWN_OPTIONS: [(&str, &[&str]); 6] = [
    ("expect", &["http", "tcp"]),
    ("host", &["http"]),
    ("header", &["http"]),
    ("body", &["http"]),
    ("tls", &["http"]),
    ("send", &["tcp"]),
];

/// A reason why a check is invalid.
pub(super) struct Objection {
    /// The path in the JSON form, below the check.
    pub(super) path: &'static str,
    /// The options of the native form that may be at fault, the most likely first.
    options: &'static [&'static str],
    pub(super) message: String,
    help: &'static str,
}

impl<'a> Checker<'a> {
    pub(super) fn check(&mut self, line: &Arguments<'a>, kind: Value<'a>) -> Option<Check> {
        let probe = match kind.text() {
            "http" => Probe::Http(self.http_probe(line)),
            "tcp" => Probe::Tcp(self.tcp_probe(line)),
            "tls" => Probe::Tls,
            other => {
                let message = format!("there is no check `{other}`");
                let error = Diagnostic::error(kind.span(), message);
                let error = error.suggest(other, ["http", "tcp", "tls"]);
                self.report(error.help("there is `http`, `tcp` and `tls`"));
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
            method_of_probe(text).map(|()| text.to_owned())
        });
        self.set_word(path, &mut probe.path, |text| path_of_probe(text).map(|()| text.to_owned()));
        self.set(line, "expect", &mut probe.expect, str::parse);
        probe.host = self.setting(line, "host", |text| host(text).map(|()| text.to_owned()));
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
        word: Option<Value<'a>>,
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
        for objection in objections(check, pool) {
            let place = objection.options.iter().find_map(|option| line.option(option));
            let place = place.map_or_else(|| line.span(), |value| value.word.span);
            let error = Diagnostic::error(place, objection.message);
            self.report(if objection.help.is_empty() { error } else { error.help(objection.help) });
        }
        let unprobed = pool.endpoints.iter().all(|server| server.check == EndpointCheck::Off);
        if unprobed && !pool.endpoints.is_empty() {
            let message = "this check probes nothing: every server says `check=off`";
            self.report(Diagnostic::warning(line.span(), message));
        }
    }
}

/// Returns every reason why a check is invalid or can never pass.
pub(super) fn objections(check: &Check, pool: &Pool) -> Vec<Objection> {
    let mut list = Objections(Vec::new());
    if check.timeout >= check.interval {
        let options: &[&str] = &["timeout", "interval"];
        let message = "`timeout` has to be shorter than `interval`: the next probe would be due before this one is over";
        list.add(".timeout", options, message);
        list.help("left out, `timeout` is half of `interval`, at most 1s");
    }
    if check.timeout.is_zero() {
        list.add(".timeout", &["timeout"], "a probe that may take no time could never pass");
        list.help("left out, `timeout` is half of `interval`, at most 1s");
    }
    let intervals = [
        (".interval", &["interval"] as &[&str], Some(check.interval)),
        (".fast", &["fast"], check.fast),
        (".down", &["down"], check.down),
    ];
    for (path, options, interval) in intervals {
        if interval.is_some_and(|interval| interval < LEAST_INTERVAL) {
            list.add(path, options, "probes more often than every `10ms` are a load, not a check");
            list.help("`interval=2s` is usual; for a server that is down, `fast=500ms`");
        }
    }
    list.hold(".rise", &["rise"], values::in_range(u64::from(check.rise), 1, MOST_RESULTS));
    list.hold(".fall", &["fall"], values::in_range(u64::from(check.fall), 1, MOST_RESULTS));
    if check.spread_percent > 50 {
        list.add(".spread", &["spread"], "`spread` is at most `50%`");
        list.help("`spread=50%` draws each wait between half and one and a half of `interval`");
    }
    list.hold(".panic", &["panic"], values::in_range(u64::from(check.panic_percent), 0, 100));
    if let Some(number) = check.port {
        list.hold(".port", &["port"], values::port(number));
        let unix = |server: &&crate::model::Endpoint| {
            matches!(server.address, EndpointAddress::Unix(_)) && server.check == EndpointCheck::Own
        };
        if let Some(server) = pool.endpoints.iter().find(unix) {
            let message = format!(
                "the server `{}` is a Unix socket, which has no ports: say `check=ADDRESS` there",
                server.name
            );
            list.add(".port", &["port"], message);
            list.help("or leave `port=` out");
        }
    }
    match &check.probe {
        Probe::Http(probe) => http_objections(probe, pool, &mut list),
        Probe::Tls if pool.tls.is_none() => {
            let message = "`check tls` needs the pool's `tls`, which says what is verified";
            list.add(".probe", &[], message);
            list.help("add `tls;` to the pool");
        }
        Probe::Tcp(_) | Probe::Tls => {}
    }
    list.0
}

/// The largest number of results in a row; a larger one is taken for a typing mistake.
const MOST_RESULTS: u64 = 1000;

struct Objections(Vec<Objection>);

impl Objections {
    fn add(
        &mut self,
        path: &'static str,
        options: &'static [&'static str],
        message: impl Into<String>,
    ) {
        self.0.push(Objection { path, options, message: message.into(), help: "" });
    }

    /// Adds a help text to the latest objection.
    fn help(&mut self, help: &'static str) {
        if let Some(latest) = self.0.last_mut() {
            latest.help = help;
        }
    }

    fn hold(
        &mut self,
        path: &'static str,
        options: &'static [&'static str],
        result: Result<(), String>,
    ) {
        if let Err(message) = result {
            self.add(path, options, message);
        }
    }
}

fn http_objections(probe: &HttpProbe, pool: &Pool, list: &mut Objections) {
    list.hold(".probe.http.method", &[], method_of_probe(&probe.method));
    list.hold(".probe.http.path", &[], path_of_probe(&probe.path));
    if let Some(name) = &probe.host {
        list.hold(".probe.http.host", &["host"], host(name));
    }
    if let Some(expected) = &probe.header {
        list.hold(".probe.http.header", &["header"], values::token(&expected.name, "a header"));
    }
    if probe.body.is_some() && probe.method == "HEAD" {
        let message =
            "this check could never pass: a response to HEAD has no body; probe with `GET`";
        list.add(".probe.http.body", &["body"], message);
        list.help("write `check http GET PATH body=TEXT`");
    } else if probe.body.is_some() && probe.expect.are_bodiless() {
        let message = format!(
            "this check could never pass: a response with status {} has no body",
            probe.expect
        );
        list.add(".probe.http.body", &["body"], message);
        list.help("expect a status that has a body, such as `expect=200`");
    }
    if probe.tls == Some(true) && pool.tls.is_none() {
        let message = "`tls=on` needs the pool's `tls`, which says what is verified";
        list.add(".probe.http.tls", &["tls"], message);
        list.help("add `tls;` to the pool");
    }
}

fn method_of_probe(text: &str) -> Result<(), String> {
    values::method(text)?;
    if text == "CONNECT" {
        return Err("a probe cannot be a CONNECT: it asks for a tunnel".into());
    }
    Ok(())
}

fn path_of_probe(text: &str) -> Result<(), String> {
    if !text.starts_with('/') {
        return Err(format!("a path starts with `/`: did you mean `/{text}`?"));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains('#') {
        return Err(format!("`{text}` cannot be asked for: encode what is special, as in `%20`"));
    }
    Ok(())
}

fn host(text: &str) -> Result<(), String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains('/') {
        return Err(format!("`{text}` is not a host: write `shop.example.com`"));
    }
    Ok(())
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
