//! Turns directives into the checked model: names resolved, values typed, defaults filled in. All
//! errors are collected; an error does not stop the checks of the rest.

mod admin;
mod arguments;
mod balance;
mod credits;
mod expression;
mod limit;
mod limits;
mod listen;
mod log;
mod place;
mod pool;
mod probe;
mod queue;
mod resolver;
mod retry;
mod rights;
mod route;
mod sticky;
mod target;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use weir_stats::{Template, Variable};

use crate::defaults;
use crate::diagnostic::{Diagnostic, Severity};
use crate::directives::Context;
use crate::model::validate::{Problem, validate};
use crate::model::{AccessLog, Config, ListenAddress, Listener, Pool, values};
use crate::source::{Sources, Span};
use crate::syntax::tree::Directive;
use crate::units;
use arguments::{Arguments, Value};
use expression::NamedRule;

/// Checks a whole file. `read` holds the diagnostics of parsing. The configuration is valid only if
/// there is no error among the diagnostics.
pub(crate) fn check(
    sources: &Sources,
    directives: &[Directive],
    read: Vec<Diagnostic>,
) -> (Config, Vec<Diagnostic>) {
    let mut checker = Checker {
        sources,
        diagnostics: read,
        pools: Vec::new(),
        pool_names: HashMap::new(),
        anonymous: HashMap::new(),
        used_pools: HashSet::new(),
        logs: Vec::new(),
        log_names: HashMap::new(),
        used_logs: HashSet::new(),
        rules: HashMap::new(),
        rule_depth: 0,
        addresses: HashMap::new(),
        trusted: Vec::new(),
        max_connections: None,
        hidden_headers: BTreeSet::new(),
        limit_names: HashMap::new(),
    };
    let config = checker.config(directives);
    let mut diagnostics = checker.diagnostics;
    // Errors of the model were reported above with their places; this makes sure that none is
    // missed.
    if diagnostics.iter().all(|diagnostic| diagnostic.severity == Severity::Warning) {
        let problems = validate(&config);
        let general = |problem: Problem| {
            Diagnostic::general(format!("{}: {}", problem.path, problem.message))
        };
        diagnostics.extend(problems.into_iter().map(general));
    }
    (config, diagnostics)
}

struct Checker<'a> {
    sources: &'a Sources,
    diagnostics: Vec<Diagnostic>,
    pools: Vec<Pool>,
    /// The index and place of every named pool.
    pool_names: HashMap<&'a str, (usize, Span)>,
    /// The pools made for addresses in routes, by their name.
    anonymous: HashMap<String, usize>,
    used_pools: HashSet<usize>,
    logs: Vec<AccessLog>,
    log_names: HashMap<&'a str, Span>,
    used_logs: HashSet<&'a str>,
    rules: HashMap<&'a str, NamedRule<'a>>,
    /// The depth of rules that are being parsed, each named by the one before.
    rule_depth: usize,
    /// The place at which every address is listened on.
    addresses: HashMap<ListenAddress, Span>,
    trusted: Vec<ipnet::IpNet>,
    /// The limit of client connections and its place.
    max_connections: Option<(u32, Span)>,
    /// The headers of edits that are marked `secret`, in lower case.
    hidden_headers: BTreeSet<String>,
    /// The places at which rate limits are named.
    limit_names: HashMap<String, Span>,
}

impl<'a> Checker<'a> {
    fn config(&mut self, directives: &'a [Directive]) -> Config {
        let mut config = Config::default();
        let top = self.block(directives, Context::Top);
        // Settings and names come first: names may be used before they are defined.
        for arguments in &top {
            self.settings(arguments, &mut config);
        }
        for arguments in &top {
            match arguments.name() {
                "log" => self.log(arguments),
                "pool" => self.pool(arguments),
                "rule" => self.declare_rule(arguments),
                _ => {}
            }
        }
        for arguments in top.iter().filter(|arguments| arguments.name() == "rule") {
            self.resolve_rule(arguments);
        }
        config.listeners = self.listeners(&top);
        self.admins(&top, &mut config);
        self.credits(&top, &mut config);
        self.rights(&top, &mut config);
        self.shared_cookies(&config.listeners);
        config.pools = std::mem::take(&mut self.pools);
        config.logs = std::mem::take(&mut self.logs);
        config.hidden_headers = std::mem::take(&mut self.hidden_headers).into_iter().collect();
        self.unused();
        config
    }

    fn settings(&mut self, arguments: &Arguments<'a>, config: &mut Config) {
        if arguments.name() == "resolver" {
            config.resolver = self.resolver(arguments);
        }
        if arguments.name() == "memory" {
            self.set(arguments, "max", &mut config.memory, str::parse);
        }
        let Some(value) = arguments.word(0) else { return };
        match arguments.name() {
            "workers" => {
                config.workers = self.value(value, values::workers).unwrap_or(config.workers);
            }
            "max_connections" => {
                let most: Option<u32> = self.count(value, 1);
                config.max_connections = most.map(|most| most as usize);
                self.max_connections = most.map(|most| (most, arguments.span()));
            }
            "shutdown_timeout" => {
                config.shutdown_timeout =
                    self.value(value, units::duration::parse).unwrap_or(defaults::SHUTDOWN_TIMEOUT);
            }
            "watchdog" => {
                config.watchdog = self.value(value, values::watchdog).unwrap_or(config.watchdog);
            }
            "sandbox" => {
                config.sandbox = self.value(value, values::on_off).unwrap_or(config.sandbox);
            }
            "supervisor" => {
                config.supervisor = self.value(value, values::on_off).unwrap_or(config.supervisor);
            }
            "limit" => self.top_limit(arguments, &mut config.client_limit),
            "limit_table" => {
                let bytes = self.value(value, values::table_bytes);
                config.limit_table = bytes.unwrap_or(config.limit_table);
            }
            "trusted_proxies" => self.trusted = self.networks(&arguments.words),
            "pid_file" => config.pid_file = self.file(value),
            "error_log" => self.error_log(arguments, value, config),
            "audit_log" => self.audit_log(value, config),
            _ => {}
        }
    }

    fn listeners(&mut self, top: &[Arguments<'a>]) -> Vec<Listener> {
        let all: Vec<&Arguments<'a>> =
            top.iter().filter(|arguments| arguments.name() == "listen").collect();
        if all.is_empty() && !self.is_wrong() {
            let error = Diagnostic::general("there is no `listen`: nothing would be served");
            self.report(error.help("the smallest file is `listen :8080 -> 127.0.0.1:3000;`"));
        }
        all.into_iter().map(|arguments| self.listen(arguments)).collect()
    }

    /// Warns of definitions that are not used.
    fn unused(&mut self) {
        if self.is_wrong() {
            return;
        }
        let pools =
            self.pool_names.iter().filter(|(_, (index, _))| !self.used_pools.contains(index));
        let logs = self.log_names.iter().filter(|(name, _)| !self.used_logs.contains(*name));
        let rules = self.rules.iter().filter(|(_, rule)| !rule.used);
        let mut warnings: Vec<Diagnostic> = Vec::new();
        let mut unused = |what: &str, name: &str, span: Span| {
            warnings.push(Diagnostic::warning(span, format!("the {what} `{name}` is not used")));
        };
        pools.for_each(|(name, (_, span))| unused("pool", name, *span));
        logs.for_each(|(name, span)| unused("log", name, *span));
        rules.for_each(|(name, rule)| unused("rule", name, rule.span));
        self.diagnostics.extend(warnings);
    }

    /// Returns true if an error was reported. Warnings that may be its consequences are then left
    /// out.
    fn is_wrong(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Parses a value, or reports the error at its place.
    fn value<T>(
        &mut self,
        value: Value<'_>,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        match parse(value.text()) {
            Ok(parsed) => Some(parsed),
            Err(_) if value.word.broken => None,
            Err(message) => {
                let mut error = Diagnostic::error(value.span(), message);
                if value.word.expanded {
                    let written = self.sources.text(value.word.span);
                    error =
                        error.help(format!("`{written}` stands for `{}` here", value.word.text));
                }
                self.report(error);
                None
            }
        }
    }

    /// Parses an option if it is present; `None` also after an error.
    fn setting<T>(
        &mut self,
        arguments: &Arguments<'_>,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        arguments.option(name).and_then(|value| self.value(value, parse))
    }

    /// Parses an option into `slot`.
    fn set<T>(
        &mut self,
        arguments: &Arguments<'_>,
        name: &str,
        slot: &mut T,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) {
        if let Some(value) = self.setting(arguments, name, parse) {
            *slot = value;
        }
    }

    fn count<T: TryFrom<u64>>(&mut self, value: Value<'_>, least: u64) -> Option<T> {
        self.value(value, |text| values::whole(text, least, u64::from(u32::MAX)))
            .and_then(|number| T::try_from(number).ok())
    }

    fn networks(&mut self, words: &[Value<'_>]) -> Vec<ipnet::IpNet> {
        words.iter().filter_map(|word| self.value(*word, values::network)).collect()
    }

    /// Returns a file's path, resolved against the directory of the file that names it.
    fn path(&self, value: Value<'_>) -> PathBuf {
        let base = Path::new(&self.sources.file(value.word.span.file).name);
        base.parent().unwrap_or(Path::new("")).join(value.text())
    }

    /// Parses a path, which must not be empty.
    fn file(&mut self, value: Value<'a>) -> Option<PathBuf> {
        let path = self.path(value);
        let filled =
            |text: &str| if text.is_empty() { Err("this path is empty".into()) } else { Ok(()) };
        self.value(value, filled).map(|()| path)
    }

    /// Parses a text with `$variables`.
    fn template(&mut self, value: Value<'_>) -> Option<Template> {
        match Template::parse(value.text()) {
            Ok(template) => Some(template),
            Err(error) => {
                let place = value.skip(error.offset).span();
                let rest = value.text().get(error.offset..).unwrap_or_default();
                let length =
                    rest.find(|c: char| !(c.is_ascii_alphanumeric() || "${}_".contains(c)));
                let end = place.start + length.unwrap_or(rest.len());
                let narrow = value.word.verbatim.is_some() && end <= place.end;
                let place =
                    if narrow { Span { end: end.max(place.start + 1), ..place } } else { place };
                let mut diagnostic = Diagnostic::error(place, error.message);
                if let Some(name) = error.unknown {
                    diagnostic = diagnostic.suggest(&name, Variable::names());
                }
                self.report(diagnostic.help("for a dollar sign write `$$`"));
                None
            }
        }
    }
}
