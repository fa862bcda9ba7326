//! The order of the conversion, and the settings of the process. What belongs to listeners,
//! locations, pools and logs is in the modules beside it.

use std::path::Path;

use weir_config::source::{FileId, SourceSpan, Sources};
use weir_config::syntax::tree::Directive;

use super::logs::LogKind;
use super::scope::InheritanceScope;
use super::state::Converter;
use super::statements::{StatementId, Statements};
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
        let mut workers = false;
        for &id in self.statements.top() {
            let span = self.statements.span(id);
            let word = self.statements.word(id, 0);
            match self.statements.name(id) {
                "events" => self.outcomes.honour(id),
                "worker_processes" => {
                    let count = word.parse::<u16>().is_ok_and(|count| count > 0);
                    if word == "auto" || count {
                        workers = true;
                        lines.push(NativeLine::new("workers", span).value(word).end());
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
            lines.push(NativeLine::new("workers", start).value("1").end());
            self.default("worker_processes", "1, as in nginx");
        }
        if !error_log {
            self.default("error_log", "messages go to standard error, not to nginx's own file");
        }
        lines
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
