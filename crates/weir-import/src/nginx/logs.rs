//! `log_format` and `access_log` become native logs: the listener's are those of the default
//! server, and routes whose logs are others name them.

use std::net::IpAddr;

use weir_config::source::SourceSpan;
use weir_config::syntax::tree::{Block, Directive, End};

use super::place_variables::{MOST_BY_PLACE, has_mark};
use super::scope::InheritanceScope;
use super::state::{ConvertedFormat, ConvertedLog, Converter};
use super::statements::StatementId;
use super::text_parts::{self, TextPart};
use super::values::{self, OF_STREAM, ProxyHeaders, line_template, template};
use crate::native::NativeLine;

/// Variables that never have a value in Weir: it compresses nothing, has no cache and takes no
/// early data; those of the PROXY protocol only where no listener expects its header.
const WITHOUT_VALUE: [&str; 7] = [
    "gzip_ratio",
    "upstream_cache_status",
    "ssl_early_data",
    "proxy_protocol_addr",
    "proxy_protocol_port",
    "proxy_protocol_server_addr",
    "proxy_protocol_server_port",
];

/// Variables under other names in Weir.
const OTHER_NAMES: [(&str, &str); 3] = [
    ("document_uri", "${uri}"),
    ("upstream_bytes_received", "${bytes_sent}"),
    ("upstream_bytes_sent", "${request_length}"),
];

/// Variables that only lines of logs have.
const OF_LINES: [&str; 3] = ["request_body", "request_completion", "connection_time"];

/// Returns the character that stands for a variable whose value belongs to a server or a location.
type FindMark<'a> = &'a dyn Fn(&str) -> Option<char>;

/// Returns the names of the variables of a format.
fn names_in(text: &str) -> Vec<&str> {
    let names = text.split('$').skip(1).map(|piece| {
        let piece = piece.strip_prefix('{').unwrap_or(piece);
        let end = piece.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        &piece[..end.unwrap_or(piece.len())]
    });
    names.collect()
}

/// Returns the differences of the variables of a format, if they have any.
fn log_difference(text: &str, marks: FindMark<'_>) -> Option<String> {
    let names = names_in(text);
    let has = |name: &str| names.contains(&name);
    let begins = |start: &str| names.iter().any(|name| name.starts_with(start));
    let known = [
        (
            has("uri") || has("document_uri") || has("request_filename"),
            "`$uri` in lines is the path of the request also where a file of another one answers",
        ),
        (
            begins("upstream_"),
            "variables of `$upstream_…` are those of the last attempt; nginx lists all attempts",
        ),
        (begins("sent_http_"), "headers of Weir's own responses are not in lines"),
        (
            names.iter().any(|name| marks(name).is_some()),
            "lines of several servers or locations in one file may change places",
        ),
        (
            has("request_body"),
            "bodies that are not read whole before they are sent on, and those of more than 20k, have no value",
        ),
        (has("connection"), "connections to servers have no numbers"),
        (
            has("document_root") || has("request_filename"),
            "where no `root` holds, it is the folder of nginx as Debian packages it",
        ),
    ];
    let found: Vec<&str> =
        known.into_iter().filter_map(|(holds, how)| holds.then_some(how)).collect();
    (!found.is_empty()).then(|| found.join("; "))
}

/// The variables that have no value, and the text of a line for one.
#[derive(Clone, Copy)]
struct Missing<'a> {
    names: &'a [&'a str],
    text: &'a str,
}

/// Returns the text of a format with the variables that have other names or no value in lines.
fn log_text(text: &str, marks: Option<FindMark<'_>>, without: Missing<'_>) -> String {
    let of_stream = marks.is_none();
    let mut out = String::with_capacity(text.len());
    let (first, parts) = text_parts::split(text);
    out.push_str(first);
    for TextPart { name, rest, written } in parts {
        let of_stream_only = OF_STREAM.iter().filter(|_| of_stream);
        let known = of_stream_only.chain(&OTHER_NAMES);
        if without.names.contains(&name) {
            out.push_str(without.text);
            out.push_str(rest);
        } else if let Some((_, value)) = known.into_iter().find(|(known, _)| *known == name) {
            out.push_str(value);
            out.push_str(rest);
        } else if let Some(mark) = marks.and_then(|marks| marks(name)) {
            out.push(mark);
            out.push_str(rest);
        } else {
            out.push('$');
            out.push_str(written);
        }
    }
    out
}

/// The default facility of nginx in syslog.
const FACILITY: &str = "local7";

impl<'t> Converter<'_, 't> {
    pub(crate) fn log_format(&mut self, id: StatementId) {
        let words = self.statements.words(id);
        let Some((name, words)) = words.split_first() else { return };
        let escaped = words.first().and_then(|word| word.text.strip_prefix("escape="));
        let parts = if escaped.is_some() { &words[1..] } else { words };
        let text: String = parts.iter().map(|word| word.text.as_str()).collect();
        let escape = match escaped {
            None | Some("default") => Ok("default"),
            Some("json") => Ok("json"),
            Some("none") => Ok("none"),
            Some(_) => Err("write `escape=default`, `json` or `none`".to_owned()),
        };
        let of_stream =
            self.statements.parent(id).is_some_and(|id| self.statements.name(id) == "stream");
        let marks = |name: &str| self.place_mark(name);
        let marks = Some(&marks as FindMark<'_>).filter(|_| !of_stream);
        let difference = marks.and_then(|marks| log_difference(&text, marks));
        let text = if has_mark(&text) {
            Err("the format has a character without a meaning".to_owned())
        } else {
            let names = if self.known().proxy_headers == ProxyHeaders::None {
                &WITHOUT_VALUE[..]
            } else {
                &WITHOUT_VALUE[..3]
            };
            let missing = if escape == Ok("default") { "-" } else { "" };
            Ok(log_text(&text, marks, Missing { names, text: missing }))
        };
        let format = escape.and_then(|escape| {
            let text = line_template(&text?, &self.known(), &OF_LINES)?;
            Ok(ConvertedFormat { text, escape })
        });
        match &format {
            Ok(format) if format.escape == "json" => {
                self.outcomes.differs(id, "bytes that are not UTF-8 become U+FFFD");
            }
            Ok(_) => match difference {
                Some(how) => self.outcomes.differs(id, how),
                None => self.outcomes.honour(id),
            },
            Err(reason) => self.outcomes.refuse(id, reason.clone()),
        }
        self.logs.formats.insert(name.text.clone(), format.ok());
    }

    /// Returns the names of the native logs that hold in a block.
    pub(crate) fn access_logs(&mut self, scope: &InheritanceScope<'_, 't>) -> Vec<String> {
        let all = scope.all("access_log");
        if all.is_empty() {
            self.default(
                "access_log",
                "nginx writes its own file; Weir writes none that is not named",
            );
        }
        let mut names = Vec::new();
        for &id in all {
            let words = self.statements.words(id);
            if self.statements.word(id, 0) == "off" && words.len() == 1 {
                self.outcomes.honour(id);
                // nginx ignores the others of the block.
                names.clear();
                break;
            }
            match self.access_log(id, scope) {
                Ok(name) => {
                    self.outcomes.honour(id);
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
                Err(reason) => self.outcomes.refuse(id, reason),
            }
        }
        names
    }

    /// Gives the routes of a block its logs, unless they have logs already.
    pub(crate) fn give_logs(logs: &[String], routes: &mut [Directive]) {
        for route in routes {
            let span = route.name.span;
            let lines = route.block.iter().flat_map(|block| &block.directives);
            if lines.into_iter().any(|line| line.name.text == "log") {
                continue;
            }
            let block = route.block.get_or_insert(Block { directives: Vec::new(), open: span });
            block.directives.push(log_line(logs, span));
            route.end = End::Block;
        }
    }

    fn access_log(
        &mut self,
        id: StatementId,
        scope: &InheritanceScope<'_, 't>,
    ) -> Result<String, String> {
        let words = self.statements.words(id);
        let target = self.log_place(self.statements.word(id, 0), LogKind::Access)?;
        let mut format = ConvertedFormat { text: "combined".to_owned(), escape: "default" };
        let mut condition = None;
        let (mut buffer, mut flush) = (None, None);
        for (index, word) in words.iter().enumerate().skip(1) {
            match word.text.split_once('=') {
                None if index == 1 && word.text != "gzip" => format = self.format_of(&word.text)?,
                Some(("buffer", size)) => buffer = Some(buffer_size(size)?),
                Some(("flush", time)) => flush = Some(flush_time(time)?),
                _ if word.text == "gzip" || word.text.starts_with("gzip=") => {
                    return Err(
                        "Weir writes no compressed log: compress the file when it is rotated"
                            .to_owned(),
                    );
                }
                Some(("if", text)) => condition = Some(template(text, &self.known(), false)?),
                _ => return Err(format!("`{}` has no conversion", word.text)),
            }
        }
        if flush.is_some() && buffer.is_none() {
            return Err("`flush=` needs `buffer=`".to_owned());
        }
        if buffer.is_some() && target.starts_with("syslog:") {
            return Err("lines to syslog are not buffered".to_owned());
        }
        let buffer = buffer.map(|size| (size, flush));
        let by_place = self.place_values(&mut format, scope)?;
        let log = ConvertedLog { target, format, condition, buffer };
        if let Some(name) = self.logs.made.get(&log) {
            return Ok(name.clone());
        }
        self.logs.by_place += usize::from(by_place);
        if by_place && self.logs.by_place > MOST_BY_PLACE {
            return Err(format!(
                "its format has a variable such as `$server_name`, of which more than {MOST_BY_PLACE} servers or locations write another value: write `$host` there"
            ));
        }
        let span = self.statements.span(id);
        let name = format!("access{}", self.logs.made.len() + 1);
        let line = |name: &str, value: &str| NativeLine::new(name, span).value(value);
        let format = line("format", &log.format.text);
        let format = match log.format.escape {
            "default" => format,
            escape => format.option("escape", escape),
        };
        let mut lines = vec![line("to", &log.target).end(), format.end()];
        if let Some((size, flush)) = &log.buffer {
            let line = line("buffer", size);
            lines.push(match flush {
                Some(time) => line.option("flush", time).end(),
                None => line.end(),
            });
        }
        lines.extend(log.condition.as_ref().map(|text| line("when", text).end()));
        self.logs.directives.push(NativeLine::new("log", span).value(&name).block(lines));
        self.logs.made.insert(log, name.clone());
        Ok(name)
    }

    /// Returns the target of a log in Weir's form.
    pub(crate) fn log_place(&self, target: &str, kind: LogKind) -> Result<String, String> {
        Ok(match target {
            "/dev/stdout" => "stdout".to_owned(),
            "stderr" if kind == LogKind::Error => "stderr".to_owned(),
            "/dev/stderr" => "stderr".to_owned(),
            "" => return Err("it names no file".to_owned()),
            _ if target.starts_with("memory:") && kind == LogKind::Error => {
                return Err("Weir keeps no log in memory: write a file".to_owned());
            }
            _ => {
                match target.strip_prefix("syslog:") {
                    Some(options) => syslog(options, kind)?,
                    None if target.contains('$') && kind == LogKind::Access => {
                        return Err("the file of a log has no variables: write a log with `if=` for each value".to_owned());
                    }
                    None => self.path(target),
                }
            }
        })
    }

    /// Returns the format of that name.
    fn format_of(&self, name: &str) -> Result<ConvertedFormat, String> {
        if name == "combined" {
            return Ok(ConvertedFormat { text: name.to_owned(), escape: "default" });
        }
        match self.logs.formats.get(name) {
            Some(Some(format)) => Ok(format.clone()),
            Some(None) => Err(format!("its format `{name}` is refused")),
            None => Err(format!("there is no `log_format {name}`")),
        }
    }
}

/// The least and the most bytes of a buffer.
const BUFFER: (u64, u64) = (1 << 10, 64 << 20);

/// Returns the size of a buffer in Weir's form; very small ones have no use.
fn buffer_size(text: &str) -> Result<String, String> {
    let bytes = values::bytes(text).filter(|bytes| (1..=BUFFER.1).contains(bytes));
    let bytes = bytes.ok_or_else(|| format!("`buffer={text}`: write a size up to 64m"))?;
    Ok(values::size(bytes.max(BUFFER.0)))
}

/// Returns the time after which a buffer is written.
fn flush_time(text: &str) -> Result<String, String> {
    let is_positive = values::milliseconds(text).is_some_and(|time| time > 0);
    let time = values::time(text).filter(|_| is_positive);
    time.ok_or_else(|| format!("`flush={text}` is not a time"))
}

/// The kind of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogKind {
    Access,
    Error,
}

/// Returns `log` of a listener or a route with these logs.
pub(crate) fn log_line(logs: &[String], span: SourceSpan) -> Directive {
    let line = NativeLine::new("log", span);
    if logs.is_empty() {
        return line.keyword("off").end();
    }
    logs.iter().fold(line, |line, name| line.value(name)).end()
}

/// Returns the target for the parameters of nginx's `syslog:`.
fn syslog(options: &str, kind: LogKind) -> Result<String, String> {
    let mut place = None;
    let mut facility = FACILITY;
    let mut severity = None;
    for option in options.split(',') {
        match option.split_once('=') {
            Some(("server", server)) => {
                place = Some(match server.strip_prefix("unix:") {
                    Some(path) => path.to_owned(),
                    None => format!("udp:{}", syslog_address(server)?),
                });
            }
            Some(("facility", name)) => facility = name,
            Some(("severity", name)) if kind == LogKind::Access => severity = Some(name),
            // Weir's messages have the tag `weir` and the host's name.
            Some(("tag", _)) => {}
            None if option == "nohostname" => {}
            _ => return Err(format!("`{option}` has no conversion")),
        }
    }
    let place = place.ok_or("it names no `server=`")?;
    let severity = severity.map(|name| format!(",severity={name}")).unwrap_or_default();
    Ok(format!("syslog:{place},facility={facility}{severity}"))
}

/// Returns an address with the port of syslog.
fn syslog_address(server: &str) -> Result<String, String> {
    if server.parse::<std::net::SocketAddr>().is_ok() {
        return Ok(server.to_owned());
    }
    let bare = server.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(server);
    match bare.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => Ok(format!("[{address}]:514")),
        Ok(IpAddr::V4(address)) => Ok(format!("{address}:514")),
        Err(_) => Err(format!("write the IP address of `{server}`")),
    }
}
