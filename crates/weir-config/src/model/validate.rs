//! The checks of the model, whatever syntax it was written in. The JSON form passes only these; the
//! native syntax also has checks with messages of its own. Problems name the JSON path of the
//! value.

pub(crate) mod agents;
mod listener;
mod objection;
mod pool;
pub(crate) mod probe;
mod route;
pub(crate) mod sticky;
pub(crate) mod tcp;

use std::fmt::Display;
use std::time::Duration;

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};

use super::{
    AccessLog, Bandwidth, ClientLimit, Config, CpuCredits, InFlightLimit, ListenAddress, LogEscape,
    LogFormat, LogTarget, RateLimit, TcpKeepalive, Workers, types, values,
};

/// The deepest nesting of rules. JSON parsers stop at 128 levels, and each rule takes two.
pub(crate) const MAX_RULE_DEPTH: usize = 50;

/// An invalid value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The JSON path, such as `pools[0].endpoints[1].weight`.
    pub(crate) path: String,
    /// The reason.
    pub(crate) message: String,
}

/// Returns every problem of a configuration.
pub(crate) fn validate(config: &Config) -> Vec<Problem> {
    let mut validator = Validator { config, problems: Vec::new() };
    validator.all();
    validator.problems
}

struct Validator<'a> {
    config: &'a Config,
    problems: Vec<Problem>,
}

impl<'a> Validator<'a> {
    fn all(&mut self) {
        let config = self.config;
        if let Workers::Count(count) = config.workers {
            self.range("workers.count", count as u64, 1, values::MAX_WORKERS as u64);
        }
        if let Some(connections) = config.worker_connections {
            self.range("worker_connections", connections as u64, 1, u64::from(u32::MAX));
        }
        if config.count_server_connections && config.worker_connections.is_none() {
            self.problem(
                "count_server_connections",
                "there is no limit that they count under: set `worker_connections`",
            );
        }
        if let Some(connections) = config.max_connections {
            self.range("max_connections", connections as u64, 1, u64::from(u32::MAX));
        }
        if let Some(message) = config.memory.objection() {
            self.problem("memory", message);
        }
        self.unique(&"logs", config.logs.iter().map(|log| log.name.as_str()));
        for (index, log) in config.logs.iter().enumerate() {
            self.log(&format_args!("logs[{index}]"), log);
        }
        self.error_logs();
        if let Some((field, message)) = privileges(config) {
            self.problem(field, message);
        }
        if let Some((field, message)) = config.resolver.objection() {
            self.problem(format_args!("resolver.{field}"), message);
        }
        self.unique(&"types", config.types.iter().map(|table| table.name.as_str()));
        for (index, table) in config.types.iter().enumerate() {
            self.held(format_args!("types[{index}].name"), values::sound_name(&table.name));
            self.held(format_args!("types[{index}].default"), values::line_text(&table.default));
            for (extension, text) in &table.types {
                let fault = types::extension_fault(extension).map_or(Ok(()), Err);
                let path = format_args!("types[{index}].types.{extension}");
                self.held(path, fault.and_then(|()| values::line_text(text)));
            }
        }
        self.unique(&"pools", config.pools.iter().map(|pool| pool.name.as_str()));
        for (index, pool) in config.pools.iter().enumerate() {
            self.pool(&format_args!("pools[{index}]"), pool);
        }
        if config.listeners.is_empty() {
            self.problem("listeners", "there is no listener, so nothing would be served");
        }
        for (index, listener) in config.listeners.iter().enumerate() {
            self.listener(&format_args!("listeners[{index}]"), listener);
        }
        for (index, admin) in config.admin.iter().enumerate() {
            if let Some((field, message)) = admin.objection() {
                self.problem(format_args!("admin[{index}].{field}"), message);
            }
        }
        let objections = config.cpu_credits.iter().flat_map(CpuCredits::objections);
        for (field, message) in objections {
            self.problem(format_args!("cpu_credits.{field}"), message);
        }
        if let Some(limit) = &config.client_limit {
            self.client_limit(&"client_limit", limit);
        }
        let table = values::table_bytes(&format!("{}b", config.limit_table));
        self.held("limit_table", table.map(drop));
        self.limit_names();
        self.addresses();
    }

    fn client_limit(&mut self, path: &dyn Display, limit: &ClientLimit) {
        if let Some((field, message)) = limit.objection() {
            let dot = if field.is_empty() { "" } else { "." };
            self.problem(format_args!("{path}{dot}{field}"), message);
        }
        self.held(format_args!("{path}.status"), values::error_status(&limit.status.to_string()));
    }

    fn rate_limits(&mut self, path: &dyn Display, limits: &[RateLimit]) {
        for (index, limit) in limits.iter().enumerate() {
            let path = format_args!("{path}.rate_limits[{index}]");
            self.held(format_args!("{path}.name"), values::sound_name(&limit.name));
            self.held(
                format_args!("{path}.status"),
                values::error_status(&limit.status.to_string()),
            );
            if let Some((field, message)) = limit.objection() {
                self.problem(format_args!("{path}.{field}"), message);
            }
        }
    }

    fn in_flight_limits(&mut self, path: &dyn Display, limits: &[InFlightLimit]) {
        for (index, limit) in limits.iter().enumerate() {
            let path = format_args!("{path}.in_flight_limits[{index}]");
            self.held(format_args!("{path}.name"), values::sound_name(&limit.name));
            self.held(
                format_args!("{path}.status"),
                values::error_status(&limit.status.to_string()),
            );
            if let Some((field, message)) = limit.objection() {
                self.problem(format_args!("{path}.{field}"), message);
            }
        }
    }

    fn bandwidth(&mut self, path: &dyn Display, limit: Option<&Bandwidth>) {
        let Some(limit) = limit else { return };
        self.held(format_args!("{path}.bandwidth.name"), values::sound_name(&limit.name));
        if let Some((field, message)) = limit.objection() {
            self.problem(format_args!("{path}.bandwidth.{field}"), message);
        }
    }

    /// Limits of one name count together, so that their keys and rates must be the same.
    fn limit_names(&mut self) {
        let mut names: HashMap<(&str, &str), String> = HashMap::new();
        let mut others = Vec::new();
        let mut note = |list: &'static str, name: &'a str, counted: String| {
            let known = names.entry((list, name)).or_insert_with(|| counted.clone());
            if *known != counted {
                others.push((list, format!("there is a limit `{name}` with another key or rate")));
            }
        };
        for listener in &self.config.listeners {
            let of_routes = listener.all_routes().flat_map(|route| &route.rate_limits);
            for limit in listener.rate_limits.iter().chain(of_routes) {
                note("rate_limits", &limit.name, format!("{} {}", limit.key.as_str(), limit.rate));
            }
            let of_routes = listener.all_routes().flat_map(|route| &route.in_flight_limits);
            for limit in listener.in_flight_limits.iter().chain(of_routes) {
                note("in_flight_limits", &limit.name, limit.key.as_str().to_owned());
            }
        }
        for (list, message) in others {
            self.problem(list, message);
        }
    }

    fn problem(&mut self, path: impl Display, message: impl Into<String>) {
        self.problems.push(Problem { path: path.to_string(), message: message.into() });
    }

    fn held<T>(&mut self, path: impl Display, result: Result<T, String>) {
        if let Err(message) = result {
            self.problem(path, message);
        }
    }

    fn range(&mut self, path: impl Display, value: u64, least: u64, most: u64) {
        self.held(path, values::in_range(value, least, most));
    }

    fn unique(&mut self, path: &dyn Display, names: impl Iterator<Item = &'a str>) {
        let mut seen = HashSet::new();
        for (index, name) in names.enumerate() {
            self.held(format_args!("{path}[{index}].name"), values::sound_name(name));
            if !seen.insert(name) {
                self.problem(
                    format_args!("{path}[{index}].name"),
                    format!("`{name}` is defined already"),
                );
            }
        }
    }

    fn log(&mut self, path: &dyn Display, log: &AccessLog) {
        if log.to.is_empty() {
            self.problem(format_args!("{path}.to"), "this log has no destination");
        }
        for (index, target) in log.to.iter().enumerate() {
            let path = format_args!("{path}.to[{index}]");
            if log.to.iter().take(index).any(|earlier| earlier == target) {
                self.problem(path, "this log is written there already");
            }
            self.log_target(&path, target);
        }
        if log.escape != LogEscape::Default && !matches!(log.format, LogFormat::Text(_)) {
            self.problem(format_args!("{path}.escape"), "only a format of text has an `escape`");
        }
        if let Some(buffer) = log.buffer {
            let (least, most) = values::LOG_BUFFER;
            self.range(format_args!("{path}.buffer.bytes"), buffer.bytes as u64, least, most);
            if buffer.flush.is_some_and(|time| time.is_zero()) {
                self.problem(format_args!("{path}.buffer.flush"), "a time of 0 is no wait");
            }
            if log.to.iter().any(|target| matches!(target, LogTarget::Syslog(_))) {
                self.problem(format_args!("{path}.buffer"), values::NO_SYSLOG_BUFFER);
            }
        }
    }

    fn log_names(&mut self, path: &dyn Display, names: &[String]) {
        for (index, log) in names.iter().enumerate() {
            if !self.config.logs.iter().any(|known| known.name == *log) {
                self.problem(
                    format_args!("{path}.logs[{index}]"),
                    format!("there is no log `{log}`"),
                );
            }
        }
    }

    fn log_target(&mut self, path: &dyn Display, target: &LogTarget) {
        match target {
            LogTarget::Syslog(syslog) => {
                self.range(
                    format_args!("{path}.syslog.facility"),
                    u64::from(syslog.facility),
                    0,
                    23,
                );
            }
            LogTarget::File(file) if file.as_os_str().is_empty() => {
                self.problem(format_args!("{path}.file"), "this path is empty");
            }
            LogTarget::File(_) | LogTarget::Stdout | LogTarget::Stderr => {}
        }
    }

    fn error_logs(&mut self) {
        let logs = &self.config.error_logs;
        for (index, log) in logs.iter().enumerate() {
            let path = format_args!("error_logs[{index}].to");
            if logs.iter().take(index).any(|earlier| earlier.to == log.to) {
                self.problem(path, "there is an `error_log` for this destination already");
            }
            self.log_target(&path, &log.to);
        }
    }

    fn waits(&mut self, path: &dyn Display, waits: &[(&str, Duration)]) {
        for (name, wait) in waits {
            self.held(format_args!("{path}.{name}"), values::not_zero(*wait));
        }
    }

    fn tcp_keepalive(&mut self, path: &dyn Display, probes: &TcpKeepalive) {
        self.held(format_args!("{path}.idle"), values::probe_seconds(probes.idle));
        self.held(format_args!("{path}.interval"), values::probe_seconds(probes.interval));
        self.range(format_args!("{path}.probes"), probes.probes.into(), 1, values::MOST_PROBES);
        self.optional_waits(path, &[("user_timeout", probes.user_timeout)]);
    }

    fn optional_waits(&mut self, path: &dyn Display, waits: &[(&str, Option<Duration>)]) {
        for (name, wait) in waits {
            self.waits(path, wait.map(|wait| (*name, wait)).as_slice());
        }
    }

    fn rates(&mut self, path: &dyn Display, rates: &[(&str, Option<u64>)]) {
        for (name, rate) in rates {
            self.held(format_args!("{path}.{name}"), rate.map_or(Ok(()), values::rate));
        }
    }

    /// No address may be used twice over all listeners, admin interfaces and agents.
    fn addresses(&mut self) {
        let mut seen = HashSet::new();
        let config = self.config;
        let numbered = config.listeners.iter().enumerate().flat_map(|(index, listener)| {
            let addresses = listener.addresses.iter().enumerate();
            addresses.map(move |(number, address)| (index, number, address))
        });
        for (index, number, address) in numbered {
            let fresh = matches!(address, ListenAddress::Socket(address) if address.port() == 0);
            if !fresh && !seen.insert(address) {
                let path = format_args!("listeners[{index}].addresses[{number}]");
                self.problem(
                    path,
                    "this address is already in use by another listener, admin interface or agent",
                );
            }
        }
        let admin = config.admin.iter().enumerate();
        let admin = admin.map(|(index, own)| (format!("admin[{index}].address"), &own.address));
        let agent = config.agent.iter().enumerate();
        let agent = agent.map(|(index, address)| (format!("agent[{index}]"), address));
        for (path, address) in admin.chain(agent) {
            let fresh = matches!(address, ListenAddress::Socket(address) if address.port() == 0);
            if !fresh && !seen.insert(address) {
                self.problem(
                    path,
                    "this address is already in use by another listener, admin interface or agent",
                );
            }
        }
    }
}

/// Returns the one of `user`, `group` and `chroot` that is invalid and the reason, if there is one.
fn privileges(config: &Config) -> Option<(&'static str, String)> {
    let wrong = |name: &Option<String>| values::sound_name(name.as_deref()?).err();
    let empty = config.chroot.as_ref().is_some_and(|path| path.as_os_str().is_empty());
    let user = wrong(&config.user).map(|why| ("user", why));
    let group = || wrong(&config.group).map(|why| ("group", why));
    user.or_else(group).or_else(|| empty.then(|| ("chroot", "this path is empty".to_owned())))
}
