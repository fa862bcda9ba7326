//! Turns directives into the checked model: names resolved, values typed, defaults filled in. All
//! errors are collected; an error does not stop the checks of the rest.

mod admin;
mod arguments;
mod balance;
mod block;
mod checker;
mod credits;
mod error_target;
mod expression;
mod limit;
mod listen;
mod log;
mod names;
mod pool;
mod privileges;
mod probe;
mod queue;
mod resolver;
mod response_rules;
mod retry;
mod rewrite;
mod route;
mod route_upstream;
mod sticky;
mod target;
mod tcp;
mod types;
mod variable;
mod warnings;

use crate::defaults;
use crate::diagnostic::{Diagnostic, DiagnosticSeverity};
use crate::directives::Context;
use crate::model::validate::{Problem, validate};
use crate::model::{Config, Forwarded, Listener, values};
use crate::source::{ModelPlaces, SourceSpan, Sources};
use crate::syntax::tree::Directive;
use crate::units;
use arguments::Arguments;
use checker::Checker;

/// Checks a whole file. `read` holds the diagnostics of parsing. The configuration is valid only if
/// there is no error among the diagnostics.
pub(crate) fn check(
    sources: &Sources,
    directives: &[Directive],
    read: Vec<Diagnostic>,
) -> (Config, Vec<Diagnostic>, ModelPlaces) {
    let mut checker = Checker::new(sources, read);
    let config = checker.config(directives);
    let mut diagnostics = std::mem::take(&mut checker.diagnostics);
    // Errors of the model were reported above with their places; this makes sure that none is
    // missed.
    if diagnostics.iter().all(|diagnostic| diagnostic.severity == DiagnosticSeverity::Warning) {
        let problems = validate(&config);
        let general = |problem: Problem| {
            Diagnostic::general(format!("{}: {}", problem.path, problem.message))
        };
        diagnostics.extend(problems.into_iter().map(general));
    }
    (config, diagnostics, checker.places)
}

impl<'a> Checker<'a> {
    fn config(&mut self, directives: &'a [Directive]) -> Config {
        let mut config = Config::default();
        let top = self.block(directives, Context::Top);
        // Texts of all other directives may use the variables.
        config.variables = self.variables(&top);
        config.types = self.type_tables(&top);
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
        self.privileges(&top, &mut config);
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
        self.note_setting(arguments);
        if arguments.name() == "memory" {
            self.set(arguments, "max", &mut config.memory, str::parse);
        }
        let Some(value) = arguments.word(0) else { return };
        match arguments.name() {
            "workers" => {
                config.workers = self.value(value, values::workers).unwrap_or(config.workers);
                config.worker_cores = self.setting(arguments, "cpus", str::parse);
            }
            "worker_connections" => {
                let most: Option<u32> = self.count(value, 1);
                config.worker_connections = most.map(|most| most as usize);
                config.count_server_connections = arguments.flag("servers");
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
            "trusted_proxies" => {
                let mut forwarded = Forwarded::default();
                self.trusted_proxies(arguments, &mut forwarded);
                self.forwarded = forwarded;
            }
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
            let error = Diagnostic::general("there is no `listen`, so nothing would be served");
            self.report(error.help("the smallest file is `listen :8080 -> 127.0.0.1:3000;`"));
        }
        let mut listeners = Vec::new();
        for arguments in all {
            self.begin_part(format!("listeners[{}]", listeners.len()), arguments.span());
            listeners.push(self.listen(arguments));
        }
        listeners
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
        let variables =
            self.variable_names.iter().filter(|(name, _)| !self.used_variables.contains(*name));
        let mut warnings: Vec<Diagnostic> = Vec::new();
        let mut unused = |what: &str, name: &str, span: SourceSpan| {
            let warning = Diagnostic::warning(span, format!("the {what} `{name}` is not used"));
            warnings.push(warning.code("unused-definition"));
        };
        pools.for_each(|(name, (_, span))| unused("pool", name, *span));
        let types = self.type_names.iter().filter(|(name, _)| !self.used_types.contains(*name));
        types.for_each(|(name, span)| unused("table of types", name, *span));
        logs.for_each(|(name, span)| unused("log", name, *span));
        rules.for_each(|(name, rule)| unused("rule", name, rule.span));
        variables.for_each(|(name, span)| unused("variable", &format!("${name}"), *span));
        self.diagnostics.extend(warnings);
    }
}
