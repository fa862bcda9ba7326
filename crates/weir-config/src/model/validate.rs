//! The checks of the model, whatever syntax it was written in. The JSON form passes only these; the
//! native syntax also has checks with messages of its own. Problems name the JSON path of the
//! value.

pub(crate) mod agents;
mod objection;
pub(crate) mod probe;
pub(crate) mod sticky;
pub(crate) mod tcp;

use std::fmt::Display;
use std::time::Duration;

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};

use super::{
    AccessLog, Action, Bandwidth, Budget, CauseHeader, ClientLimit, Config, CountRange, CpuCredits,
    Endpoint, EndpointAddress, EndpointCheck, ErrorDestination, ErrorPage, ErrorTarget,
    ErrorTargetStatus, Expires, ExplainHeader, Files, HIDDEN, HeaderEdit, InFlightLimit, KeyHash,
    ListenAddress, Listener, LogEscape, LogFormat, LogTarget, MOST_RETRIES, Policy, Pool,
    PoolChoice, PoolSplit, Queue, RateLimit, Redirect, RequestTimeout, Respond, Retry, Route,
    RouteTimeouts, Rule, TcpKeepalive, TlsProtocol, UpstreamTimeouts, Workers, below_fault,
    counted_parts, internal_fault, internal_fault_after_response, types, values,
};
use crate::defaults;

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

    fn upstream_side(&mut self, path: &dyn Display, waits: &UpstreamTimeouts) {
        self.waits(
            path,
            &[
                ("connect", waits.connect),
                ("send", waits.send),
                ("response", waits.response),
                ("read", waits.read),
                ("tunnel", waits.tunnel),
                ("after", waits.after),
            ],
        );
        let optional = [
            ("half_closed", waits.half_closed),
            ("request", waits.request),
            ("try", waits.attempt),
        ];
        self.optional_waits(path, &optional);
        self.rates(path, &[("min_rate", waits.min_rate)]);
    }

    fn pool(&mut self, path: &dyn Display, pool: &'a Pool) {
        if pool.endpoints.is_empty() {
            self.problem(path, "a pool needs an endpoint");
        }
        if let Some(key) = pool.policy.key() {
            let path = format_args!("{path}.policy.{}.key", pool.policy.kind());
            self.held(path, values::sound_key(key));
        }
        if let Policy::PeakEwma(settings) = &pool.policy {
            self.waits(&format_args!("{path}.policy.peak_ewma"), &[("decay", settings.decay)]);
        }
        if let Some(message) = pool.policy.hash().and_then(KeyHash::objection) {
            self.problem(format_args!("{path}.policy.{}.prefix", pool.policy.kind()), message);
        }
        let endpoints = format_args!("{path}.endpoints");
        self.unique(&endpoints, pool.endpoints.iter().map(|endpoint| endpoint.name.as_str()));
        for (index, endpoint) in pool.endpoints.iter().enumerate() {
            self.endpoint(&format_args!("{endpoints}[{index}]"), endpoint);
            self.held(
                format_args!("{endpoints}[{index}].source"),
                agents::source_fits(pool, endpoint),
            );
        }
        self.pool_http(path, pool);
        if let Some(status) = pool.connect_status {
            self.range(format_args!("{path}.connect_status"), u64::from(status), 400, 599);
        }
        let keepalive = &pool.keepalive;
        self.waits(
            &format_args!("{path}.keepalive"),
            &[("timeout", keepalive.timeout), ("max_age", keepalive.max_age)],
        );
        self.range(
            format_args!("{path}.keepalive.max_requests"),
            keepalive.max_requests,
            1,
            u64::MAX,
        );
        self.pool_health(path, pool);
        let limits = [
            ("max_in_flight", pool.limits.max_in_flight),
            ("max_retries", pool.limits.max_retries),
        ];
        for (name, most) in limits.iter().filter_map(|(name, most)| Some((*name, (*most)?))) {
            let most = u64::from(most);
            self.range(format_args!("{path}.limits.{name}"), most, 1, u64::from(u32::MAX));
        }
        if let Some(queue) = &pool.queue {
            self.queue(&format_args!("{path}.queue"), queue);
        }
        self.retry(&format_args!("{path}.retry"), &pool.retry);
        self.upstream_side(&format_args!("{path}.timeouts"), &pool.timeouts);
        self.tcp_keepalive(&format_args!("{path}.tcp_keepalive"), &pool.tcp_keepalive);
        for objection in pool.sticky.iter().flat_map(sticky::objections) {
            self.problem(format_args!("{path}.sticky{}", objection.path), objection.message);
        }
        self.pool_tls(path, pool);
    }

    fn pool_http(&mut self, path: &dyn Display, pool: &Pool) {
        if let Some(message) = pool.http_objection(pool.http) {
            self.problem(format_args!("{path}.http"), message);
        }
        for (index, endpoint) in pool.endpoints.iter().enumerate() {
            if let Some(message) = endpoint.http.and_then(|own| pool.http_objection(own)) {
                self.problem(format_args!("{path}.endpoints[{index}].http"), message);
            }
        }
    }

    fn pool_health(&mut self, path: &dyn Display, pool: &Pool) {
        for objection in pool.check.iter().flat_map(|check| probe::objections(check, pool)) {
            self.problem(format_args!("{path}.check{}", objection.path), objection.message);
        }
        if let Some((field, message)) =
            pool.agent_check.as_ref().and_then(|check| agents::objection(check, pool))
        {
            self.problem(format_args!("{path}.agent_check.{field}"), message);
        }
        let passive = &pool.passive;
        self.waits(
            &format_args!("{path}.passive"),
            &[("window", passive.window), ("eject", passive.eject)],
        );
        self.range(
            format_args!("{path}.passive.max_ejected"),
            u64::from(passive.max_ejected_percent),
            0,
            100,
        );
        let factor = u64::from(pool.stall.factor);
        self.range(format_args!("{path}.stall.factor"), factor, 0, values::MAX_STALL_FACTOR);
        self.waits(&format_args!("{path}.stall"), &[("floor", pool.stall.floor)]);
    }

    fn pool_tls(&mut self, path: &dyn Display, pool: &Pool) {
        for (field, tls) in [("tls", &pool.tls), ("check_tls", &pool.check_tls)] {
            let Some(tls) = tls else { continue };
            self.protocol(&format_args!("{path}.{field}.protocol"), &tls.protocol);
            if let Some(name) = &tls.server_name {
                self.held(format_args!("{path}.{field}.server_name"), values::server_name(name));
            }
            if let Some(name) = &tls.request_name {
                self.held(
                    format_args!("{path}.{field}.request_name"),
                    values::sound_request_name(name),
                );
            }
        }
        if pool.check_tls.as_ref().is_some_and(|tls| tls.request_name.is_some()) {
            let message = "a check belongs to no request: write a fixed name";
            self.problem(format_args!("{path}.check_tls.request_name"), message);
        }
        if pool.tls.is_some() && pool.check_tls.is_some() {
            let message = "`check_tls` has no effect beside `tls`, with which checks are made";
            self.problem(format_args!("{path}.check_tls"), message);
        }
    }

    fn queue(&mut self, path: &dyn Display, queue: &Queue) {
        let waits = [("timeout", queue.timeout), ("retry_after", queue.retry_after)];
        let waits = waits.iter().filter_map(|(name, wait)| Some((*name, (*wait)?)));
        self.waits(path, &waits.collect::<Vec<_>>());
        if let Some(wait) = queue.retry_after {
            self.held(format_args!("{path}.retry_after"), values::whole_seconds(wait));
        }
        self.range(format_args!("{path}.max"), u64::from(queue.max), 1, u64::from(u32::MAX));
        if let Some(most) = queue.per_client {
            self.range(format_args!("{path}.per_client"), u64::from(most), 1, u64::from(u32::MAX));
        }
        if let Some(most) = queue.per_endpoint {
            self.range(
                format_args!("{path}.per_endpoint"),
                u64::from(most),
                1,
                u64::from(u32::MAX),
            );
        }
        self.held(format_args!("{path}.status"), values::error_status(&queue.status.to_string()));
        if let Some(content_type) = &queue.content_type {
            self.held(format_args!("{path}.type"), values::line_text(content_type));
        }
    }

    fn retry(&mut self, path: &dyn Display, retry: &Retry) {
        let attempts = u64::from(retry.attempts);
        self.range(format_args!("{path}.attempts"), attempts, 0, u64::from(MOST_RETRIES));
        for (index, on) in retry.on.iter().enumerate() {
            if retry.on.iter().take(index).any(|earlier| earlier == on) {
                self.problem(format_args!("{path}.on[{index}]"), format!("`{on}` is given twice"));
            }
        }
        if retry.on.is_empty() && retry.attempts > 0 {
            self.problem(
                format_args!("{path}.on"),
                "the list is empty: to disable retries write `\"attempts\": 0`",
            );
        }
        if let Budget::Percent(percent) = retry.budget {
            self.range(format_args!("{path}.budget"), u64::from(percent), 0, 100);
        }
        let waits = [("backoff", retry.backoff), ("within", retry.within)];
        let waits = waits.iter().filter_map(|(name, wait)| Some((*name, (*wait)?)));
        self.waits(path, &waits.collect::<Vec<_>>());
    }

    fn endpoint(&mut self, path: &dyn Display, endpoint: &Endpoint) {
        self.range(
            format_args!("{path}.weight"),
            u64::from(endpoint.weight),
            1,
            u64::from(defaults::MAX_WEIGHT),
        );
        if let Some(limit) = endpoint.max_conn {
            self.range(format_args!("{path}.max_conn"), u64::from(limit), 1, u64::from(u32::MAX));
        }
        self.optional_waits(path, &[("slow_start", endpoint.slow_start)]);
        self.range(
            format_args!("{path}.priority"),
            u64::from(endpoint.priority),
            0,
            u64::from(defaults::MAX_PRIORITY),
        );
        if endpoint.backup && endpoint.priority != 0 {
            self.problem(format_args!("{path}.priority"), "a backup cannot have a `priority`");
        }
        self.address(&format_args!("{path}.address"), &endpoint.address);
        if let EndpointAddress::Service(_) = &endpoint.address {
            if endpoint.weight != defaults::WEIGHT {
                self.problem(format_args!("{path}.weight"), values::said_by_records("weight"));
            }
            if endpoint.priority != 0 {
                self.problem(format_args!("{path}.priority"), values::said_by_records("priority"));
            }
        }
        if let Some(host) = &endpoint.host {
            self.held(format_args!("{path}.host"), values::host_name(host));
        }
        let passive = &endpoint.passive;
        let waits = [("window", passive.window), ("eject", passive.eject)];
        self.optional_waits(&format_args!("{path}.passive"), &waits);
        for (field, check) in [("check", &endpoint.check), ("agent", &endpoint.agent)] {
            if let EndpointCheck::At(address) = check {
                self.address(&format_args!("{path}.{field}.at"), address);
                self.held(format_args!("{path}.{field}.at"), values::probed_address(address));
            }
        }
    }

    fn address(&mut self, path: &dyn Display, address: &EndpointAddress) {
        match address {
            EndpointAddress::Socket(address) => {
                self.held(path, values::port(address.port()));
            }
            EndpointAddress::Name(name, port) => {
                self.held(path, values::host_name(name));
                self.held(path, values::port(*port));
            }
            EndpointAddress::Service(name) => self.held(path, values::service_name(name)),
            EndpointAddress::Unix(socket) => {
                self.held(path, values::endpoint_address(&format!("unix:{}", socket.display())));
            }
        }
    }

    fn protocol(&mut self, path: &dyn Display, protocol: &TlsProtocol) {
        if protocol.min > protocol.max {
            self.problem(
                format_args!("{path}.min"),
                "`min` is above `max`, which allows no version",
            );
        }
        if protocol.ciphers.iter().chain(&protocol.curves).any(String::is_empty) {
            self.problem(path, "there is an empty name in a list");
        }
    }

    fn listener(&mut self, path: &dyn Display, listener: &'a Listener) {
        if listener.addresses.is_empty() {
            self.problem(format_args!("{path}.addresses"), "a listener needs an address");
        }
        self.held(format_args!("{path}.name"), values::sound_name(&listener.name));
        if let Some(name) = &listener.log_name {
            self.held(format_args!("{path}.log_name"), values::sound_name(name));
        }
        if let Some(tls) = &listener.tls {
            if tls.certificates.is_empty() {
                self.problem(format_args!("{path}.tls"), "a `tls` listener needs a certificate");
            }
            self.protocol(&format_args!("{path}.tls.protocol"), &tls.protocol);
        }
        if let Some(connections) = listener.max_connections {
            self.range(
                format_args!("{path}.max_connections"),
                connections as u64,
                1,
                u64::from(u32::MAX),
            );
        }
        self.client_side(path, listener);
        if let Some(limit) = &listener.client_limit {
            self.client_limit(&format_args!("{path}.client_limit"), limit);
        }
        self.rate_limits(path, &listener.rate_limits);
        self.in_flight_limits(path, &listener.in_flight_limits);
        self.bandwidth(path, listener.bandwidth.as_ref());
        self.log_names(path, &listener.logs);
        self.request_edits(&format_args!("{path}.request_headers"), &listener.request_headers);
        self.edits(&format_args!("{path}.response_headers"), &listener.response_headers);
        for (index, page) in listener.error_pages.iter().enumerate() {
            self.error_page(&format_args!("{path}.error_pages[{index}]"), page);
        }
        self.error_targets(path, &listener.error_targets);
        for (index, site) in listener.sites.iter().enumerate() {
            if site.hosts.is_empty() {
                self.problem(
                    format_args!("{path}.sites[{index}].hosts"),
                    "a host block needs a host",
                );
            }
            self.routes(&format_args!("{path}.sites[{index}].routes"), &site.routes);
        }
        self.routes(&format_args!("{path}.default"), &listener.default);
        for Problem { path: field, message } in tcp::problems(listener, &self.config.pools) {
            self.problem(format_args!("{path}.{field}"), message);
        }
    }

    fn client_side(&mut self, path: &dyn Display, listener: &Listener) {
        let waits = &listener.timeouts;
        self.waits(
            &format_args!("{path}.timeouts"),
            &[
                ("handshake", waits.handshake),
                ("head", waits.head),
                ("body", waits.body),
                ("keepalive", waits.keepalive),
                ("send", waits.send),
                ("after", waits.after),
            ],
        );
        let optional =
            [("request", waits.request), ("age", waits.age), ("half_closed", waits.half_closed)];
        self.optional_waits(&format_args!("{path}.timeouts"), &optional);
        let rates = [("min_rate", waits.min_rate), ("slot_min_rate", waits.slot_min_rate)];
        self.rates(&format_args!("{path}.timeouts"), &rates);
        self.tcp_keepalive(&format_args!("{path}.tcp_keepalive"), &listener.tcp_keepalive);
        let limits = &listener.limits;
        self.held(format_args!("{path}.limits.head"), values::head_bytes(limits.head_bytes as u64));
        let line = values::request_line_bytes(limits.request_line_bytes as u64);
        self.held(format_args!("{path}.limits.request_line"), line);
        self.range(
            format_args!("{path}.limits.headers"),
            limits.headers as u64,
            1,
            values::MAX_HEADERS,
        );
        self.range(format_args!("{path}.limits.requests"), limits.requests, 1, u64::MAX);
        if let Some(hops) = limits.hops {
            self.range(format_args!("{path}.limits.hops"), u64::from(hops), 1, values::MAX_HOPS);
        }
        let http2 = &listener.http2;
        let streams = u64::from(http2.streams);
        self.range(format_args!("{path}.http2.streams"), streams, 1, values::MAX_HTTP2_STREAMS);
        self.held(format_args!("{path}.http2.window"), values::http2_window(http2.window as u64));
        self.upgrade(&format_args!("{path}.upgrade"), &listener.upgrade);
        if let Some(CauseHeader { header, .. }) = &listener.cause_header {
            self.held(format_args!("{path}.cause_header.header"), values::header_name(header));
        }
        if let Some(explain) = &listener.explain_header {
            self.explain_header(&format_args!("{path}.explain_header"), explain);
        }
        match &listener.request_id.header {
            Some(header) => {
                self.held(format_args!("{path}.request_id.header"), values::header_name(header));
            }
            None if listener.request_id.respond => {
                self.problem(format_args!("{path}.request_id.respond"), "`respond` needs a header");
            }
            None => {}
        }
    }

    fn explain_header(&mut self, path: &dyn Display, explain: &ExplainHeader) {
        self.held(format_args!("{path}.header"), values::header_name(&explain.header));
        match &explain.when {
            Some(when) => {
                self.held(format_args!("{path}.when.header"), values::request_header(&when.header));
                let value = when.value.as_deref().map_or(Ok(()), values::explain_value);
                self.held(format_args!("{path}.when.value"), value);
            }
            None if !explain.trusted => self.problem(path.to_owned(), values::EXPLAINED_TO_ALL),
            None => {}
        }
    }

    fn error_page(&mut self, path: &dyn Display, page: &ErrorPage) {
        for (index, status) in page.statuses.iter().enumerate() {
            self.held(
                format_args!("{path}.statuses[{index}]"),
                values::error_status(&status.to_string()),
            );
        }
    }

    fn error_targets(&mut self, path: &dyn Display, targets: &[ErrorTarget]) {
        for (index, target) in targets.iter().enumerate() {
            let path = format_args!("{path}.error_targets[{index}]");
            for status in &target.statuses {
                self.held(
                    format_args!("{path}.statuses"),
                    values::error_status(&status.to_string()),
                );
            }
            if let ErrorTargetStatus::Fixed(status) = target.status {
                self.held(format_args!("{path}.status"), values::status(&status.to_string()));
            }
            let action = match &target.to {
                ErrorDestination::Internal(to) => Action::Internal(to.clone()),
                ErrorDestination::Redirect(redirect) => Action::Redirect(redirect.clone()),
            };
            self.action(&format_args!("{path}.to"), &action);
        }
    }

    fn routes(&mut self, path: &dyn Display, routes: &[Route]) {
        for (index, route) in routes.iter().enumerate() {
            let path = format_args!("{path}[{index}]");
            self.held(format_args!("{path}.name"), values::sound_name(&route.name));
            self.rule(&format_args!("{path}.when"), &route.when, 0);
            if let RequestTimeout::After(wait) = route.request_timeout {
                self.held(format_args!("{path}.request_timeout"), values::not_zero(wait));
            }
            self.action(&format_args!("{path}.action"), &route.action);
            self.upgrade(
                &format_args!("{path}.upgrade"),
                route.upgrade.as_deref().unwrap_or_default(),
            );
            self.log_names(&path, route.logs.as_deref().unwrap_or_default());
            self.rate_limits(&path, &route.rate_limits);
            self.in_flight_limits(&path, &route.in_flight_limits);
            self.bandwidth(&path, route.bandwidth.as_ref());
            self.rewrites(&format_args!("{path}.rewrite"), route);
            self.expires(&format_args!("{path}.expires"), route);
            self.error_targets(&path, &route.error_targets);
            self.responses(&format_args!("{path}.responses"), route);
            self.route_upstream(&format_args!("{path}.upstream"), route);
            self.request_edits(&format_args!("{path}.request_headers"), &route.request_headers);
            self.edits(&format_args!("{path}.response_headers"), &route.response_headers);
        }
    }

    fn route_upstream(&mut self, path: &dyn Display, route: &Route) {
        let upstream = &route.upstream;
        if !upstream.is_inherited() && !matches!(route.action, Action::Pool(_)) {
            self.problem(
                path,
                "this route does not lead to one pool, whose settings it could replace",
            );
        }
        let RouteTimeouts { connect, send, response, read, tunnel } = upstream.timeouts;
        let waits = [
            ("connect", connect),
            ("send", send),
            ("response", response),
            ("read", read),
            ("tunnel", tunnel),
        ];
        self.optional_waits(&format_args!("{path}.timeouts"), &waits);
        if let Some(retry) = &upstream.retry {
            self.retry(&format_args!("{path}.retry"), retry);
            if retry.budget != Budget::Auto {
                self.problem(
                    format_args!("{path}.retry.budget"),
                    "the budget is a setting of the pool",
                );
            }
        }
        for (index, one) in upstream.methods.iter().enumerate() {
            let fault = one.fault().map_or(Ok(()), Err);
            self.held(format_args!("{path}.methods[{index}].method"), fault);
        }
        let Action::Pool(number) = route.action else { return };
        let Some(pool) = self.config.pools.get(number) else { return };
        for (index, server) in upstream.servers.iter().enumerate() {
            let fault = server.fault(pool).map_or(Ok(()), Err);
            self.held(format_args!("{path}.servers[{index}].name"), fault);
        }
    }

    fn responses(&mut self, path: &dyn Display, route: &Route) {
        if route.responses.needs_pool() && route.action.pools().is_empty() {
            self.problem(path, "only requests to a pool have responses of endpoints");
        }
        for (index, one) in route.responses.intercept.iter().enumerate() {
            let fault = internal_fault_after_response(&one.to).map_or(Ok(()), Err);
            self.held(format_args!("{path}.intercept[{index}].to"), fault);
            for name in &one.keep {
                let kept = values::kept_header(name).map(|_| ());
                self.held(format_args!("{path}.intercept[{index}].keep"), kept);
            }
        }
        for (index, one) in route.responses.status.iter().enumerate() {
            let status = values::imposed_status(&one.status.to_string());
            self.held(format_args!("{path}.status[{index}].status"), status);
        }
    }

    fn expires(&mut self, path: &dyn Display, route: &Route) {
        if let Some(by) = route.expires.as_ref().and_then(Expires::template) {
            self.held(format_args!("{path}.by"), values::expires_values(by));
        }
        if let Some(Expires::Until(time)) = route.expires {
            self.held(format!("{path}.until"), Expires::time_of_day(time));
        }
    }

    fn rewrites(&mut self, path: &dyn Display, route: &Route) {
        if !route.rewrite.is_empty() && !route.action.takes_rewrites() {
            self.problem(path, "only a request to a pool or for a file is rewritten");
        }
        for (index, rewrite) in route.rewrite.iter().enumerate() {
            self.held(format_args!("{path}[{index}]"), rewrite.fault().map_or(Ok(()), Err));
        }
    }

    fn upgrade(&mut self, path: &dyn Display, protocols: &[String]) {
        for (index, protocol) in protocols.iter().enumerate() {
            self.held(format_args!("{path}[{index}]"), values::protocol(protocol));
        }
    }

    fn rule(&mut self, path: &dyn Display, rule: &Rule, depth: usize) {
        if depth > MAX_RULE_DEPTH {
            self.problem(path, format!("rules are nested deeper than {MAX_RULE_DEPTH}"));
            return;
        }
        match rule {
            Rule::All(rules) => {
                for (index, rule) in rules.iter().enumerate() {
                    self.rule(&format_args!("{path}.all[{index}]"), rule, depth + 1);
                }
            }
            Rule::Any(rules) => {
                for (index, rule) in rules.iter().enumerate() {
                    self.rule(&format_args!("{path}.any[{index}]"), rule, depth + 1);
                }
            }
            Rule::Not(rule) => self.rule(&format_args!("{path}.not"), rule, depth + 1),
            Rule::Header(name, _) => {
                self.held(format_args!("{path}.header"), values::token(name, "a header"));
            }
            Rule::Cookie(name, _) => {
                self.held(format_args!("{path}.cookie"), values::token(name, "a cookie"));
            }
            Rule::Method(methods) => {
                for (index, method) in methods.iter().enumerate() {
                    self.held(
                        format_args!("{path}.method[{index}]"),
                        values::token(method, "a method"),
                    );
                }
            }
            Rule::Variable(text, _) => {
                self.held(format_args!("{path}.variable[0]"), values::known_before_route(text));
            }
            Rule::Internal(Some(name)) => {
                self.held(format_args!("{path}.internal"), values::sound_name(name));
            }
            Rule::Servers(counted, range) => {
                self.count(&format_args!("{path}.servers"), counted, *range);
            }
            Rule::Load(_, counted, range) => {
                self.count(&format_args!("{path}.load"), counted, *range);
            }
            Rule::File(_, file) if !file.is_absolute() => {
                self.problem(format_args!("{path}.file[1]"), "the path of a file begins with `/`");
            }
            Rule::Path(_)
            | Rule::Query(..)
            | Rule::Client(_)
            | Rule::File(..)
            | Rule::Internal(None) => {}
        }
    }

    /// A count of a pool's servers or of its load: `POOL` or `POOL/SERVER`, and a range.
    fn count(&mut self, path: &dyn Display, counted: &str, range: CountRange) {
        let (name, server) = counted_parts(counted);
        let pool = self.config.pools.iter().find(|one| one.name == name);
        match (pool, server) {
            (None, _) => self.problem(path, format!("there is no pool `{name}`")),
            (Some(pool), Some(server)) if pool.endpoints.iter().all(|one| one.name != server) => {
                self.problem(path, format!("the pool `{name}` has no server `{server}`"));
            }
            _ => {}
        }
        self.held(path, CountRange::parse(&range.to_string()).map(|_| ()));
    }

    fn action(&mut self, path: &dyn Display, action: &Action) {
        match action {
            Action::Pool(index) => self.pool_index(format_args!("{path}.pool"), *index),
            Action::PoolBy(choice) => self.pool_choice(&format_args!("{path}.pool_by"), choice),
            Action::Split(split) => self.pool_split(&format_args!("{path}.split"), split),
            Action::Respond(respond) => self.respond(&format_args!("{path}.respond"), respond),
            Action::Redirect(Redirect { status, to }) => {
                let path = format_args!("{path}.redirect");
                self.held(
                    format_args!("{path}.status"),
                    values::redirect_status(&status.to_string()),
                );
                self.held(format_args!("{path}.to"), values::location(to.as_str()));
            }
            Action::Internal(to) => {
                self.held(format_args!("{path}.internal"), internal_fault(to).map_or(Ok(()), Err));
            }
            Action::Files(files) => {
                let Files { strip, prefix, index, types, fallback, found, below, .. } = files;
                let path = format_args!("{path}.files");
                if strip.as_ref().is_some_and(|prefix| !prefix.starts_with('/')) {
                    self.problem(
                        format_args!("{path}.strip"),
                        "a prefix of a path starts with `/`",
                    );
                }
                if let Some(prefix) = prefix {
                    let is_alone = strip.is_none();
                    let held = values::file_prefix(prefix);
                    let alone = "it has nothing to stand for without `strip`".to_owned();
                    let held = held.and(if is_alone { Err(alone) } else { Ok(()) });
                    self.held(format_args!("{path}.prefix"), held);
                }
                if index.iter().any(|name| name.is_empty() || name.contains('/')) {
                    self.problem(format_args!("{path}.index"), "an index is the name of a file");
                }
                let is_table =
                    |name: &&String| self.config.types.iter().any(|table| table.name == **name);
                if let Some(name) = types.as_ref().filter(|name| !is_table(name)) {
                    let message = format!("there is no table of types `{name}`");
                    self.problem(format_args!("{path}.types"), message);
                }
                let fault = fallback.as_ref().and_then(internal_fault);
                self.held(format_args!("{path}.fallback"), fault.map_or(Ok(()), Err));
                let fault = found.as_ref().and_then(internal_fault);
                self.held(format_args!("{path}.found"), fault.map_or(Ok(()), Err));
                let fault = below.as_ref().and_then(below_fault);
                self.held(format_args!("{path}.below"), fault.map_or(Ok(()), Err));
            }
        }
    }

    fn pool_index(&mut self, path: impl Display, index: usize) {
        let count = self.config.pools.len();
        if index >= count {
            let message = format!("there is no pool with index {index}: there are {count} pools");
            self.problem(path, message);
        }
    }

    fn pool_choice(&mut self, path: &dyn Display, choice: &PoolChoice) {
        for (number, (_, pool)) in choice.pools.iter().enumerate() {
            self.pool_index(format_args!("{path}.pools[{number}][1]"), *pool);
        }
        let is_known = |value: &str| choice.pools.iter().any(|(known, _)| known == value);
        let held = values::pool_values(&choice.by).and_then(|values| {
            match values.iter().find(|value| !is_known(value)) {
                Some(value) => Err(format!("the value `{value}` has no pool")),
                None => Ok(()),
            }
        });
        self.held(format_args!("{path}.by"), held);
    }

    fn pool_split(&mut self, path: &dyn Display, split: &PoolSplit) {
        for (number, share) in split.shares.iter().enumerate() {
            self.pool_index(format_args!("{path}.shares[{number}].pool"), share.pool);
        }
        self.held(format_args!("{path}.shares"), values::whole_shares(&split.shares));
        if let Some(key) = &split.key {
            self.held(format_args!("{path}.key"), values::sound_key(key));
        }
    }

    fn respond(&mut self, path: &dyn Display, respond: &Respond) {
        self.held(format_args!("{path}.status"), values::status(&respond.status.to_string()));
        self.held(format_args!("{path}.content_type"), values::line_text(&respond.content_type));
        if let Some(delay) = respond.delay {
            self.held(format_args!("{path}.delay"), values::response_delay(delay));
        }
        if respond.body.is_some() && matches!(respond.status, 204 | 304) {
            self.problem(
                format_args!("{path}.body"),
                format!("a response with status {} has no body", respond.status),
            );
        }
    }

    fn request_edits(&mut self, path: &dyn Display, edits: &[HeaderEdit]) {
        for (index, edit) in edits.iter().enumerate() {
            let path = format_args!("{path}[{index}]");
            if !edit.is_blank_connection() {
                self.edited_name(&path, edit);
            }
            self.edit(&path, edit);
        }
    }

    fn edits(&mut self, path: &dyn Display, edits: &[HeaderEdit]) {
        for (index, edit) in edits.iter().enumerate() {
            let path = format_args!("{path}[{index}]");
            self.edited_name(&path, edit);
            self.edit(&path, edit);
        }
    }

    fn edited_name(&mut self, path: &dyn Display, edit: &HeaderEdit) {
        match edit.plain() {
            HeaderEdit::RemoveMatching(names) if names.as_str().starts_with('~') => {}
            HeaderEdit::RemoveMatching(_) => {
                self.problem(path, "a pattern of names is a regex, which starts with `~`");
            }
            _ => self.held(path, values::header_name(edit.name())),
        }
    }

    fn edit(&mut self, path: &dyn Display, edit: &HeaderEdit) {
        let mut inner = edit;
        if let HeaderEdit::When(_, edit) = inner {
            inner = edit;
        }
        if let HeaderEdit::SendEmpty(edit) = inner {
            inner = edit;
            if inner.value().is_none() {
                self.problem(path, "`send_empty` has no effect without a value");
            }
        }
        if matches!(inner, HeaderEdit::When(..) | HeaderEdit::SendEmpty(_)) {
            self.problem(path, "a change has one condition, and one `send_empty` inside it");
        }
        let Some(value) = edit.value() else { return };
        self.held(path, values::line_text(value.as_str()));
        if value.as_str() == HIDDEN {
            self.problem(path, "this is the placeholder of a hidden value; `weir check --json --show-secrets` prints such values");
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
