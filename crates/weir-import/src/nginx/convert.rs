//! The order of the conversion, and the settings of the process. What belongs to listeners,
//! locations, pools and logs is in the modules beside it.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use weir_config::source::{FileId, SourceSpan, Sources};
use weir_config::syntax::tree::Directive;

use super::logs::LogKind;
use super::scope::InheritanceScope;
use super::state::Converter;
use super::statements::{StatementId, Statements};
use super::values;
use super::version::NginxVersion;
use crate::coverage::Coverage;
use crate::native::NativeLine;

/// Converts a whole file.
pub(crate) fn convert(
    sources: &Sources,
    file: FileId,
    statements: &Statements<'_>,
    version: NginxVersion,
) -> (Vec<Directive>, Coverage) {
    let mut converter = Converter::new(statements, Path::new(&sources.file(file).name), version);
    let start = SourceSpan { file, start: 0, end: 0 };
    let directives = converter.file(start);
    let entries = converter.outcomes.entries(statements, sources);
    (directives, Coverage { entries, defaults: converter.defaults })
}

impl Converter<'_, '_> {
    fn file(&mut self, start: SourceSpan) -> Vec<Directive> {
        let mut top = self.process(start);
        let https = self.statements.named(None, "http");
        for other in https.iter().skip(1) {
            self.outcomes.refuse(*other, "there is a second `http`");
        }
        let mut listeners = https.first().map_or_else(Vec::new, |http| self.http(*http));
        let streams = self.statements.named(None, "stream");
        for other in streams.iter().skip(1) {
            self.outcomes.refuse(*other, "there is a second `stream`");
        }
        listeners.extend(streams.first().into_iter().flat_map(|stream| self.stream(*stream)));
        self.unused_upstreams();
        top.extend(self.resolver());
        top.append(&mut self.logs.directives);
        top.append(&mut self.types.directives);
        top.append(&mut self.pools.directives);
        top.extend(listeners);
        top
    }

    /// Converts the settings of the process.
    fn process(&mut self, start: SourceSpan) -> Vec<Directive> {
        let mut lines = Vec::new();
        let mut error_log = false;
        let (mut workers, mut limited) = (false, false);
        for &id in self.statements.top() {
            let span = self.statements.span(id);
            let word = self.statements.word(id, 0);
            match self.statements.name(id) {
                "events" => {
                    self.outcomes.honour(id);
                    let limit = self.worker_connections(id);
                    limited |= limit.is_some();
                    lines.extend(limit);
                }
                "worker_processes" => {
                    let count = word.parse::<u16>().is_ok_and(|count| count > 0);
                    if word == "auto" || count {
                        workers = true;
                        lines.push(self.workers(word, span));
                        self.outcomes.honour(id);
                    } else {
                        self.outcomes.refuse(id, "write `auto` or a number");
                    }
                }
                "user" if !word.is_empty() => {
                    let words = self.statements.words(id);
                    let line = NativeLine::new("user", span);
                    let line = words.iter().fold(line, |line, word| line.value(&word.text));
                    lines.push(line.end());
                    self.outcomes.honour(id);
                }
                "pid" if !word.is_empty() => {
                    let path = self.path(word);
                    lines.push(NativeLine::new("pid_file", span).value(&path).end());
                    self.outcomes.honour(id);
                }
                "error_log" => {
                    lines.extend(self.error_log(id));
                    error_log = true;
                }
                _ => {}
            }
        }
        if self.statements.named(None, "user").is_empty() {
            self.default("user", "if it is started as root, nginx serves as `nobody`, and Weir as root: write `user nobody`");
        }
        if !workers {
            lines.push(self.workers("1", start));
            self.default("worker_processes", "1, as in nginx");
        }
        if !limited {
            self.default("worker_connections", "512 for each worker in nginx; Weir accepts as many as its limit of open files allows");
        }
        if !error_log {
            self.default("error_log", "messages go to standard error, not to nginx's own file");
        }
        lines
    }

    /// Returns the DNS servers of the file, which Weir has once for all names.
    fn resolver(&mut self) -> Option<Directive> {
        if !self.statements.has("resolver") {
            return None;
        }
        let statements = self.statements;
        let named = |name| statements.all().filter(move |id| statements.name(*id) == name);
        let all: Vec<StatementId> = named("resolver").collect();
        let timeouts: Vec<StatementId> = named("resolver_timeout").collect();
        let (&first, others) = all.split_first()?;
        let text = |id: StatementId| {
            let words = statements.words(id).iter().map(|word| word.text.as_str());
            words.collect::<Vec<_>>()
        };
        let (expected, same) = (text(first), |id: &StatementId| text(*id) == text(first));
        let others: Vec<(StatementId, bool)> = others.iter().map(|id| (*id, same(id))).collect();
        for (other, same) in others {
            if same {
                self.outcomes.honour(other);
            } else {
                self.outcomes.differs(
                    other,
                    "Weir has one list of DNS servers, that of the first `resolver`",
                );
            }
        }
        let mut line = NativeLine::new("resolver", self.statements.span(first));
        for word in expected {
            line = match word.split_once('=') {
                None if is_dns_server(word) => line.value(word),
                None => {
                    self.outcomes.refuse(first, "write the IP addresses of DNS servers, or leave it out: names are resolved repeatedly in any case");
                    return None;
                }
                Some(("valid", time))
                    if values::milliseconds(time).is_some_and(|time| time > 0) =>
                {
                    line.option("valid", &values::time(time).unwrap_or_default())
                }
                Some((key @ ("ipv4" | "ipv6"), on @ ("on" | "off"))) => line.option(key, on),
                Some(("status_zone", _)) => line,
                Some(_) => {
                    self.outcomes.refuse(first, format!("`{word}` has no conversion"));
                    return None;
                }
            };
        }
        self.outcomes.honour(first);
        let time = timeouts.first().map(|id| self.statements.word(*id, 0));
        let time = time.filter(|time| values::milliseconds(time).is_some_and(|time| time > 0));
        for id in &timeouts {
            self.outcomes.honour(*id);
        }
        match time.and_then(values::time) {
            Some(time) => Some(line.option("timeout", &time).end()),
            None => Some(line.option("timeout", "30s").end()),
        }
    }

    /// The line with the number of workers and their cores.
    fn workers(&mut self, count: &str, span: SourceSpan) -> Directive {
        let line = NativeLine::new("workers", span).value(count);
        match self.worker_cores(count) {
            Some(cores) => line.option("cpus", &cores.to_string()).end(),
            None => line.end(),
        }
    }

    /// Converts the bound on the connections of a worker.
    fn worker_connections(&mut self, events: StatementId) -> Option<Directive> {
        let lines = self.statements.named(Some(events), "worker_connections");
        let &id = lines.first()?;
        for other in lines.iter().skip(1) {
            self.outcomes.refuse(*other, "there is a second `worker_connections`");
        }
        let word = self.statements.word(id, 0);
        if !word.parse::<u32>().is_ok_and(|number| number > 0) {
            self.outcomes.refuse(id, "write a number above 0");
            return None;
        }
        self.outcomes.differs(
            id,
            "as many for each worker, over all workers together, so that one may have more; connections to servers count, as in nginx",
        );
        let line = NativeLine::new("worker_connections", self.statements.span(id));
        Some(line.value(word).keyword("servers").end())
    }

    fn error_log(&mut self, id: StatementId) -> Option<Directive> {
        let (word, level) = (self.statements.word(id, 0), self.statements.word(id, 1));
        let target = match self.log_place(word, LogKind::Error) {
            Ok(target) => target,
            Err(reason) => {
                self.outcomes.refuse(id, reason);
                return None;
            }
        };
        let level = if level.is_empty() { "error" } else { level };
        if weir_config::model::Severity::parse(level).is_none() {
            self.outcomes.refuse(id, "this level is not known");
            return None;
        }
        self.outcomes.honour(id);
        let line = NativeLine::new("error_log", self.statements.span(id));
        Some(line.value(&target).keyword(level).end())
    }

    fn http(&mut self, http: StatementId) -> Vec<Directive> {
        self.outcomes.honour(http);
        let scope = InheritanceScope::new(self.statements, http);
        for &id in scope.own("error_log") {
            self.outcomes.differs(id, "Weir has one log for the process, that of the main context");
        }
        self.variables(http);
        for &id in scope.own("log_format") {
            self.log_format(id);
        }
        for &id in scope.own("upstream") {
            self.upstream(id);
        }
        self.limit_zones(&scope);
        let listeners = self.listeners(&scope, scope.own("server"));
        self.unused_zones();
        listeners
    }
}

/// Returns true for the address of a DNS server, perhaps with a port; nginx's names have no form
/// in Weir.
fn is_dns_server(word: &str) -> bool {
    let bare = word.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<IpAddr>().is_ok() || word.parse::<SocketAddr>().is_ok()
}
