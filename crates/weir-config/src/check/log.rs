//! Checks `log NAME { to …; format …; }` and `error_log PLACE [LEVEL];`. It opens no log.

use std::net::SocketAddr;

use super::arguments::{ArgumentValue, Arguments};
use super::checker::Checker;
use crate::defaults;
use crate::diagnostic::Diagnostic;
use crate::directives::Context;
use crate::model::{
    AccessLog, Config, ErrorLog, LogBuffer, LogEscape, LogFormat, LogTarget, Severity, Syslog,
    SyslogFormat, SyslogReceiver, values,
};
use crate::units::size;

/// The named formats.
pub(super) const FORMATS: [(&str, LogFormat); 4] = [
    ("combined", LogFormat::Combined),
    ("main", LogFormat::Main),
    ("haproxy", LogFormat::Haproxy),
    ("json", LogFormat::Json),
];

/// The kind of messages that a log target takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TargetKind {
    /// Access log lines; all have the same severity.
    Access,
    /// Weir's own messages; each has its own severity.
    Error,
}

impl<'a> Checker<'a> {
    pub(super) fn log(&mut self, arguments: &Arguments<'a>) {
        let Some(name) = arguments.word(0) else { return };
        let first = self.log_names.get(name.text()).copied();
        if self.first_of("log", name, first) {
            self.log_names.insert(name.text(), name.span());
        }
        self.value(name, values::name);
        let mut to = Vec::new();
        let mut said = false;
        let mut format = LogFormat::Combined;
        let mut escape = LogEscape::Default;
        let (mut when, mut buffer) = (None, None);
        for line in self.block(arguments.block(), Context::Log) {
            match (line.name(), line.word(0)) {
                ("to", Some(value)) => {
                    said = true;
                    let Some(target) = self.log_target(value, TargetKind::Access) else { continue };
                    if to.contains(&target) {
                        let error =
                            Diagnostic::error(value.span(), "this log is written there already");
                        self.report(error);
                    }
                    to.push(target);
                }
                ("format", Some(value)) => {
                    format = self.log_format(value).unwrap_or(LogFormat::Combined);
                    self.set(&line, "escape", &mut escape, log_escape);
                    if let (Some(option), false) =
                        (line.option("escape"), matches!(format, LogFormat::Text(_)))
                    {
                        let message = "`escape=` belongs to texts: this format has its own";
                        self.report(Diagnostic::error(option.word.span, message));
                    }
                }
                ("when", Some(value)) => when = self.template(value),
                ("buffer", Some(value)) => {
                    buffer = self.log_buffer(&line, value).map(|buffer| (buffer, value.span()));
                }
                _ => {}
            }
        }
        if !said && arguments.directive.block.is_some() {
            let error = Diagnostic::error(
                name.span(),
                format!("the log `{}` has no destination", name.text()),
            );
            self.report(
                error.help(
                    "add one to its block: `to FILE;`, `to stdout;` or `to syslog:/dev/log;`",
                ),
            );
        }
        if let Some((_, place)) = buffer
            && to.iter().any(|target| matches!(target, LogTarget::Syslog(_)))
        {
            self.report(Diagnostic::error(place, values::NO_SYSLOG_BUFFER));
        }
        if !to.is_empty() {
            let buffer = buffer.map(|(buffer, _)| buffer);
            let name = name.text().to_owned();
            self.logs.push(AccessLog { name, to, format, escape, when, buffer });
        }
    }

    fn log_buffer(&mut self, line: &Arguments<'a>, value: ArgumentValue<'a>) -> Option<LogBuffer> {
        let flush = self.setting(line, "flush", values::wait);
        let bytes = self.value(value, |text| {
            let bytes = size::parse(text)?;
            values::in_range(bytes, values::LOG_BUFFER.0, values::LOG_BUFFER.1)?;
            usize::try_from(bytes).map_err(|_| format!("`{text}` is too large"))
        })?;
        Some(LogBuffer { bytes, flush })
    }

    pub(super) fn error_log(
        &mut self,
        line: &Arguments<'a>,
        place: ArgumentValue<'a>,
        config: &mut Config,
    ) {
        let level = match line.word(1) {
            Some(word) => self.value(word, values::severity),
            None => Some(Severity::of_error_log()),
        };
        let Some(to) = self.log_target(place, TargetKind::Error) else { return };
        if config.error_logs.iter().any(|known| known.to == to) {
            self.report(Diagnostic::error(
                place.span(),
                "there is an `error_log` for this destination already",
            ));
        }
        config.error_logs.extend(level.map(|level| ErrorLog { to, level }));
    }

    pub(super) fn audit_log(&mut self, place: ArgumentValue<'a>, config: &mut Config) {
        let Some(to) = self.log_target(place, TargetKind::Error) else { return };
        if config.audit_logs.contains(&to) {
            self.report(Diagnostic::error(
                place.span(),
                "there is an `audit_log` for this destination already",
            ));
        }
        config.audit_logs.push(to);
    }

    fn log_target(&mut self, value: ArgumentValue<'a>, kind: TargetKind) -> Option<LogTarget> {
        match value.text() {
            "stdout" => return Some(LogTarget::Stdout),
            "stderr" => return Some(LogTarget::Stderr),
            _ => {}
        }
        let Some(rest) = value.text().strip_prefix("syslog:") else {
            return self.file(value).map(LogTarget::File);
        };
        let mut parts = rest.split(',');
        let place = parts.next().unwrap_or_default();
        let mut facility = defaults::SYSLOG_FACILITY;
        let mut severity = Severity::of_access_log();
        let mut format = SyslogFormat::default();
        for part in parts {
            let Some((name, text)) = part.split_once('=') else {
                return self.no_syslog_option(value, part);
            };
            match name {
                "facility" => facility = self.value(value, |_| values::facility(text))?,
                "severity" if kind == TargetKind::Access => {
                    severity = self.value(value, |_| values::severity(text))?;
                }
                "severity" => {
                    let error = Diagnostic::error(
                        value.span(),
                        "each message of the error log has its own severity",
                    );
                    let write = format!("write `error_log syslog:{place} {text};`");
                    self.report(
                        error.help(format!("to set the lowest severity that is sent, {write}")),
                    );
                    return None;
                }
                "format" => format = self.value(value, |_| values::syslog_format(text))?,
                _ => return self.no_syslog_option(value, part),
            }
        }
        let to = match place.strip_prefix("udp:") {
            Some(address) => self.value(value, |_| udp(address)).map(SyslogReceiver::Udp),
            None => self
                .value(value, |_| {
                    if place.starts_with('/') { Ok(()) } else { Err(syslog_place(place)) }
                })
                .map(|()| SyslogReceiver::Unix(place.into())),
        };
        Some(LogTarget::Syslog(Syslog { to: to?, facility, severity, format }))
    }

    fn no_syslog_option(&mut self, value: ArgumentValue<'a>, part: &str) -> Option<LogTarget> {
        let error = Diagnostic::error(value.span(), format!("`{part}` is not an option of syslog"));
        self.report(error.help("write `syslog:/dev/log,facility=local0`; the options are `facility=`, `severity=` and `format=`"));
        None
    }

    fn log_format(&mut self, value: ArgumentValue<'a>) -> Option<LogFormat> {
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

fn log_escape(text: &str) -> Result<LogEscape, String> {
    match text {
        "default" => Ok(LogEscape::Default),
        "json" => Ok(LogEscape::Json),
        "none" => Ok(LogEscape::None),
        _ => Err(format!("`{text}` is neither `default`, `json` nor `none`")),
    }
}

fn udp(text: &str) -> Result<SocketAddr, String> {
    let unfit = || format!("`{text}` is not an IP address and port, such as `127.0.0.1:514`");
    text.parse().map_err(|_| unfit())
}

fn syslog_place(text: &str) -> String {
    format!("`{text}` is neither the path of a socket, as in `syslog:/dev/log`, nor `udp:ADDRESS`")
}
