//! `log NAME { to …; format …; }`.

use std::net::SocketAddr;

use super::arguments::{Arguments, Value};
use super::{Checker, values};
use crate::defaults;
use crate::diagnostic::Diagnostic;
use crate::model::{AccessLog, LogFormat, LogTarget};
use crate::table::Context;

/// The formats that have a name.
pub(super) const FORMATS: [(&str, LogFormat); 4] = [
    ("combined", LogFormat::Combined),
    ("main", LogFormat::Main),
    ("haproxy", LogFormat::Haproxy),
    ("json", LogFormat::Json),
];

impl<'a> Checker<'a> {
    pub(super) fn log(&mut self, arguments: &Arguments<'a>) {
        let Some(name) = arguments.word(0) else { return };
        let first = self.log_names.get(name.text()).copied();
        if self.first_of("log", name, first) {
            self.log_names.insert(name.text(), name.span());
        }
        self.value(name, values::name);
        let mut to = None;
        let mut format = LogFormat::Combined;
        for line in self.block(arguments.block(), Context::Log) {
            match (line.name(), line.word(0)) {
                ("to", Some(value)) => to = Some(self.log_target(value)),
                ("format", Some(value)) => {
                    format = self.log_format(value).unwrap_or(LogFormat::Combined);
                }
                _ => {}
            }
        }
        match to {
            Some(Some(to)) => {
                self.logs.push(AccessLog { name: name.text().to_owned(), to, format });
            }
            None if arguments.directive.block.is_some() => {
                let error = Diagnostic::error(
                    name.span(),
                    format!("the log `{}` goes nowhere", name.text()),
                );
                self.report(error.help(
                    "say where in its block: `to FILE;`, `to stdout;` or `to syslog:/dev/log;`",
                ));
            }
            Some(None) | None => {}
        }
    }

    fn log_target(&mut self, value: Value<'a>) -> Option<LogTarget> {
        if value.text() == "stdout" {
            return Some(LogTarget::Stdout);
        }
        let Some(rest) = value.text().strip_prefix("syslog:") else {
            let path = self.path(value);
            let filled = |text: &str| {
                (!text.is_empty()).then_some(()).ok_or_else(|| "this path is empty".into())
            };
            return self.value(value, filled).map(|()| LogTarget::File(path));
        };
        let (place, options) = rest.split_once(',').unwrap_or((rest, ""));
        let facility = match options.strip_prefix("facility=") {
            Some(name) => self.value(value, |_| values::facility(name))?,
            None if options.is_empty() => defaults::SYSLOG_FACILITY,
            None => {
                let error = Diagnostic::error(
                    value.span(),
                    format!("`{options}` is not an option of syslog"),
                );
                self.report(error.help("write `syslog:/dev/log,facility=local0`"));
                return None;
            }
        };
        match place.strip_prefix("udp:") {
            Some(address) => self
                .value(value, |_| udp(address))
                .map(|address| LogTarget::SyslogUdp { address, facility }),
            None => self
                .value(value, |_| {
                    if place.starts_with('/') { Ok(()) } else { Err(syslog_place(place)) }
                })
                .map(|()| LogTarget::SyslogUnix { path: place.into(), facility }),
        }
    }

    fn log_format(&mut self, value: Value<'a>) -> Option<LogFormat> {
        let text = value.text();
        if let Some((_, format)) = FORMATS.iter().find(|(name, _)| *name == text) {
            return Some(format.clone());
        }
        if !text.contains('$') {
            let names = FORMATS.iter().map(|(name, _)| *name);
            let error = Diagnostic::error(value.span(), format!("`{text}` is not a log format"));
            let error = error.suggest(text, names);
            self.report(
                error.help("`combined`, `main`, `haproxy`, `json`, or a text with `$variables`"),
            );
            return None;
        }
        self.template(value).map(LogFormat::Text)
    }
}

fn udp(text: &str) -> Result<SocketAddr, String> {
    let unfit = || format!("`{text}` is not an IP address and port, such as `127.0.0.1:514`");
    text.parse().map_err(|_| unfit())
}

fn syslog_place(text: &str) -> String {
    format!("`{text}` is neither the path of a socket, as in `syslog:/dev/log`, nor `udp:ADDRESS`")
}
