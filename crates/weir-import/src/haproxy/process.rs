//! The `global` section: the settings of the process.

use weir_config::model::WorkerCores;
use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::convert::HaproxyConverter;
use super::logs::LogTargetLine;
use super::sections::{LineId, SectionId};
use super::tls_protocol::{TLS_LISTS, TlsVersions};
use super::values;
use crate::native::NativeLine;

/// The settings in `global` for other sections.
#[derive(Default)]
pub(super) struct ProcessSettings {
    /// The variables of the environment that lines of `global` set or remove.
    pub(super) environment: std::collections::HashMap<String, Option<String>>,
    /// The folders of certificates and authorities.
    pub(super) crt_base: Option<String>,
    pub(super) ca_base: Option<String>,
    /// The versions of TLS for clients and for servers.
    pub(super) bind_tls: TlsVersions,
    /// Set if `bind` lines have `strict-sni` unless they say otherwise.
    pub(super) strict_sni: bool,
    pub(super) server_tls: TlsVersions,
    /// Set by `ssl-server-verify none`.
    pub(super) servers_unverified: bool,
    /// The deviation of the intervals of checks, in percent.
    pub(super) spread_checks: u64,
    /// The size of a head, by `tune.bufsize` and `tune.maxrewrite`.
    pub(super) head_bytes: Option<u64>,
    /// The most lines of a head, by `tune.http.maxhdr`.
    pub(super) headers: Option<u64>,
    pub(super) max_connections: Option<u64>,
    /// The cores of the workers.
    cores: Option<WorkerCores>,
}

impl HaproxyConverter<'_> {
    /// Converts all `global` sections.
    pub(super) fn process(&mut self, start: SourceSpan) -> Vec<Directive> {
        let mut lines = Vec::new();
        let sections = self.sections;
        let mut workers = false;
        self.process.cores = self.worker_cores();
        for (id, section) in sections.all() {
            if section.kind != "global" {
                continue;
            }
            self.outcomes.honour(section.head);
            for &line in &section.lines {
                workers |= matches!(sections.keyword(line), "nbthread" | "nbproc");
                lines.extend(self.process_line(id, line));
            }
        }
        if !workers {
            lines.push(self.workers("auto", start));
            self.default("nbthread", "a worker for each processor core, as in HAProxy");
        }
        if !self.global_logs.is_empty() && !self.global_logs.iter().any(LogTargetLine::is_stderr) {
            lines.push(
                NativeLine::new("error_log", start).keyword("stderr").keyword("notice").end(),
            );
        }
        lines
    }

    /// Converts `set-var proc.NAME EXPRESSION`, which holds for all requests.
    fn process_variable(&mut self, line: LineId) {
        let sections = self.sections;
        let (name, span) = (sections.word(line, 0), sections.span(line));
        if !name.starts_with("proc.") || sections.words(line).len() != 2 {
            self.outcomes.refuse(line, "write `set-var proc.NAME EXPRESSION`");
            return;
        }
        let text = sections.word(line, 1).to_owned();
        let scope = self.global_scope.clone();
        let text = if sections.keyword(line) == "set-var" {
            self.expression(&text, &scope, span)
        } else {
            self.template(&text, &scope, span)
        };
        match text {
            Ok(text) => {
                self.outcomes.honour(line);
                self.global_scope.set(name, text);
            }
            Err(reason) => self.outcomes.refuse(line, reason),
        }
    }

    fn process_line(&mut self, section: SectionId, line: LineId) -> Option<Directive> {
        let sections = self.sections;
        let span = sections.span(line);
        let word = sections.word(line, 0);
        let replaced = sections.last(section, sections.keyword(line)) != Some(line);
        match sections.keyword(line) {
            "log" => return self.global_log(line),
            "stats socket" => return self.stats_socket(line),
            "ssl-default-bind-options" | "ssl-default-server-options" => self.tls_options(line),
            name if TLS_LISTS.contains(&name) => self.tls_list(line),
            "set-var" | "set-var-fmt" => self.process_variable(line),
            "nbthread" | "nbproc" if replaced => {
                self.outcomes.ignore(line, "a later line replaces it");
            }
            "nbthread" if self.has_processes(section) => self
                .outcomes
                .refuse(line, "HAProxy has either several processes or several threads"),
            "nbproc" => return self.processes(section, line),
            "nbthread" => match word.parse::<u16>() {
                Ok(1..=1024) => {
                    self.outcomes.honour(line);
                    return Some(self.workers(word, span));
                }
                _ => self.outcomes.refuse(line, "write a number from 1 to 1024"),
            },
            "maxconn" => match values::number(word).filter(|number| *number > 0) {
                Some(number) => {
                    self.process.max_connections = Some(number);
                    self.outcomes.honour(line);
                    let line = NativeLine::new("max_connections", span);
                    return Some(line.value(&number.to_string()).end());
                }
                None => self.outcomes.refuse(line, "write a number above 0"),
            },
            "user" | "uid" => return self.user(section, line),
            "group" | "gid" => {
                let user =
                    ["user", "uid"].iter().any(|name| !sections.own(section, name).is_empty());
                if user {
                    self.outcomes.honour(line);
                } else {
                    self.outcomes.ignore(line, "without `user` the process keeps its rights");
                }
            }
            "chroot" => return Some(self.path_line(line, "chroot")),
            "pidfile" => return Some(self.path_line(line, "pid_file")),
            "hard-stop-after" => match values::microseconds(word).filter(|time| *time > 0) {
                Some(time) => {
                    self.outcomes.honour(line);
                    let line = NativeLine::new("shutdown_timeout", span);
                    return Some(line.value(&values::time(time)).end());
                }
                None => self.outcomes.refuse(line, "this is not a time of HAProxy"),
            },
            _ => self.process_value(line),
        }
        None
    }

    /// Takes a change of the environment, which the fetch `env` reads.
    fn environment_line(&mut self, keyword: &str, line: LineId) {
        let words = self.sections.words(line);
        let text = |at: usize| words.get(at).map_or("", |word| word.text.as_str()).to_owned();
        match keyword {
            "unsetenv" => {
                for word in words {
                    self.process.environment.insert(word.text.clone(), None);
                }
            }
            "presetenv" if self.environment(&text(0)).is_some() => {}
            _ => {
                self.process.environment.insert(text(0), Some(text(1)));
            }
        }
    }

    /// Returns a variable of the environment as the lines of `global` leave it.
    pub(super) fn environment(&self, name: &str) -> Option<String> {
        match self.process.environment.get(name) {
            Some(value) => value.clone(),
            None => std::env::var(name).ok(),
        }
    }

    /// Takes the lines that only other sections use.
    fn process_value(&mut self, line: LineId) {
        let word = self.sections.word(line, 0);
        let number = values::number(word);
        match self.sections.keyword(line) {
            "crt-base" => self.process.crt_base = Some(word.to_owned()),
            "ca-base" => self.process.ca_base = Some(word.to_owned()),
            keyword @ ("setenv" | "presetenv" | "unsetenv") => self.environment_line(keyword, line),
            "ssl-server-verify" if matches!(word, "none" | "required") => {
                self.process.servers_unverified = word == "none";
            }
            "spread-checks" if number.is_some_and(|percent| percent <= 50) => {
                self.process.spread_checks = number.unwrap_or_default();
            }
            "tune.bufsize" if number.is_some_and(|bytes| bytes >= 2048) => {
                let bytes = number.unwrap_or_default();
                self.process.head_bytes = Some(bytes.saturating_sub(1024).min(16 << 20));
            }
            "tune.http.maxhdr" if number.is_some_and(|lines| (1..=32767).contains(&lines)) => {
                self.process.headers = number;
            }
            "stats timeout" | "stats maxconn" => {
                self.outcomes.ignore(line, "the admin interface has bounds of its own");
                return;
            }
            _ => return,
        }
        self.outcomes.honour(line);
    }

    /// Returns true if a section asks for more than one process.
    fn has_processes(&self, section: SectionId) -> bool {
        let line = self.sections.last(section, "nbproc");
        let count = line.and_then(|line| self.sections.word(line, 0).parse::<u16>().ok());
        count.is_some_and(|count| count > 1)
    }

    fn processes(&mut self, section: SectionId, line: LineId) -> Option<Directive> {
        let count = self.sections.word(line, 0).parse::<u16>().ok();
        let Some(count) = count.filter(|count| *count > 0) else {
            self.outcomes.refuse(line, "write a number above 0");
            return None;
        };
        if count == 1 {
            self.outcomes.honour(line);
            let threads = !self.sections.own(section, "nbthread").is_empty();
            let span = self.sections.span(line);
            return (!threads).then(|| self.workers("auto", span));
        }
        self.outcomes.differs(line, "one process with as many workers: limits, checks, statistics and stickiness are shared, where each process of HAProxy had its own");
        Some(self.workers(&count.to_string(), self.sections.span(line)))
    }

    /// The line with the number of workers and their cores.
    fn workers(&self, count: &str, span: SourceSpan) -> Directive {
        let line = NativeLine::new("workers", span).keyword(count);
        match &self.process.cores {
            Some(cores) => line.option("cpus", &cores.to_string()).end(),
            None => line.end(),
        }
    }

    fn user(&mut self, section: SectionId, line: LineId) -> Option<Directive> {
        let word = self.sections.word(line, 0);
        if word.is_empty() {
            self.outcomes.refuse(line, "write the name of a user");
            return None;
        }
        self.outcomes.honour(line);
        let mut native = NativeLine::new("user", self.sections.span(line)).value(word);
        let group =
            ["group", "gid"].iter().find_map(|name| self.sections.own(section, name).last());
        if let Some(group) = group {
            let name = self.sections.word(*group, 0);
            native = native.value_at(name, self.sections.span(*group));
        }
        Some(native.end())
    }

    fn path_line(&mut self, line: LineId, native: &str) -> Directive {
        self.outcomes.honour(line);
        let path = self.path(self.sections.word(line, 0), None);
        NativeLine::new(native, self.sections.span(line)).value(&path).end()
    }

    /// Converts `stats socket`: an address of the admin interface.
    fn stats_socket(&mut self, line: LineId) -> Option<Directive> {
        let sections = self.sections;
        let words = sections.words(line);
        let address = sections.word(line, 0);
        let native = NativeLine::new("admin", sections.span(line));
        let mut native = if address.starts_with('/') || address.starts_with("unix@") {
            native.value(&format!("unix:{}", address.trim_start_matches("unix@")))
        } else {
            self.outcomes.refuse(line, "over TCP the admin interface needs a token: write `admin ADDRESS token_file=FILE` natively, or use a Unix socket");
            return None;
        };
        let mut at = 1;
        let mut level = "operator";
        while let Some(word) = words.get(at) {
            let value = words.get(at + 1).map_or("", |word| word.text.as_str());
            match word.text.as_str() {
                "mode" => native = native.option("mode", value),
                "user" | "uid" => native = native.option("owner", value),
                "group" | "gid" => native = native.option("group", value),
                "level" => level = value,
                "expose-fd" | "process" | "thread" | "name" | "severity-output" => {}
                other => {
                    self.outcomes.refuse(line, format!("`{other}` has no conversion"));
                    return None;
                }
            }
            at += 2;
        }
        if level == "admin" {
            self.outcomes.differs(line, "it takes HAProxy's commands of inspection and change and, on the same socket, Weir's HTTP interface");
        } else {
            native = native.keyword("read_only");
            self.outcomes.differs(line, "it takes HAProxy's commands of inspection and, on the same socket, Weir's HTTP interface for reading");
        }
        Some(native.end())
    }
}
