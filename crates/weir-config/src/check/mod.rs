//! From directives to the checked model: names resolved, values typed, defaults filled in. Every mistake is collected;
//! one that is reported does not stop the rest.

mod admin;
mod arguments;
mod balance;
mod credits;
mod expression;
mod limit;
mod limits;
mod listen;
mod log;
pub(crate) mod model;
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
mod values;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use weir_stats::{Template, Variable};

use crate::defaults;
use crate::diagnostic::{Diagnostic, Severity};
use crate::model::{AccessLog, Config, ListenAddress, Listener, Pool};
use crate::source::{Sources, Span};
use crate::table::Context;
use crate::tree::Directive;
use crate::units;
use arguments::{Arguments, Value};
use expression::NamedRule;
pub use values::endpoint_address;

/// Checks a whole file, of which `read` was reported already. The configuration is only to be used when no error is among the diagnostics.
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
    // What the model itself forbids is caught above with its place; this makes sure that nothing slips past.
    if diagnostics.iter().all(|diagnostic| diagnostic.severity == Severity::Warning) {
        let problems = model::validate(&config);
        let general = |problem: model::Problem| {
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
    /// Index and place of every named pool.
    pool_names: HashMap<&'a str, (usize, Span)>,
    /// Pools made for addresses in routes, by their name.
    anonymous: HashMap<String, usize>,
    used_pools: HashSet<usize>,
    logs: Vec<AccessLog>,
    log_names: HashMap<&'a str, Span>,
    used_logs: HashSet<&'a str>,
    rules: HashMap<&'a str, NamedRule<'a>>,
    /// Rules that are being read, each named by the one before.
    rule_depth: usize,
    /// Where every address is listened on.
    addresses: HashMap<ListenAddress, Span>,
    trusted: Vec<ipnet::IpNet>,
    /// Most client connections, and where that is said.
    max_connections: Option<(u32, Span)>,
    /// Headers of edits that are marked `secret`, in lower case.
    hidden_headers: BTreeSet<String>,
    /// The places where names of rate limits are given.
    limit_names: HashMap<String, Span>,
}

impl<'a> Checker<'a> {
    fn config(&mut self, directives: &'a [Directive]) -> Config {
        let mut config = Config::default();
        let top = self.block(directives, Context::Top);
        // Names first: they may be used before they are defined.
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
                let bytes = self.value(value, limit::table_bytes);
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

    /// Warns of what is defined and has no effect.
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

    /// Whether an error was reported: what follows from it is better not reported too.
    fn is_wrong(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Reads a value, or says what is wrong with it at its place.
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

    /// Reads an option, if it is there and right.
    fn setting<T>(
        &mut self,
        arguments: &Arguments<'_>,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        arguments.option(name).and_then(|value| self.value(value, parse))
    }

    /// Reads an option into `slot`.
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

    /// A file's path, which counts from the file that names it.
    fn path(&self, value: Value<'_>) -> PathBuf {
        let base = Path::new(&self.sources.file(value.word.span.file).name);
        base.parent().unwrap_or(Path::new("")).join(value.text())
    }

    /// A path that is not empty.
    fn file(&mut self, value: Value<'a>) -> Option<PathBuf> {
        let path = self.path(value);
        let filled =
            |text: &str| if text.is_empty() { Err("this path is empty".into()) } else { Ok(()) };
        self.value(value, filled).map(|()| path)
    }

    /// A text with `$variables`.
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
