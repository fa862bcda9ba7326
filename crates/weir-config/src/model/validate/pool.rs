//! The checks of pools and their servers.

use std::fmt::Display;

use super::{Validator, agents, probe, sticky};
use crate::defaults;
use crate::model::{
    Budget, Endpoint, EndpointAddress, EndpointCheck, KeyHash, MOST_RETRIES, Policy, Pool, Queue,
    Retry, TlsProtocol, UpstreamTimeouts, values,
};

impl<'a> Validator<'a> {
    pub(super) fn upstream_side(&mut self, path: &dyn Display, waits: &UpstreamTimeouts) {
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

    pub(super) fn pool(&mut self, path: &dyn Display, pool: &'a Pool) {
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

    pub(super) fn pool_http(&mut self, path: &dyn Display, pool: &Pool) {
        if let Some(message) = pool.http_objection(pool.http) {
            self.problem(format_args!("{path}.http"), message);
        }
        for (index, endpoint) in pool.endpoints.iter().enumerate() {
            if let Some(message) = endpoint.http.and_then(|own| pool.http_objection(own)) {
                self.problem(format_args!("{path}.endpoints[{index}].http"), message);
            }
        }
    }

    pub(super) fn pool_health(&mut self, path: &dyn Display, pool: &Pool) {
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

    pub(super) fn pool_tls(&mut self, path: &dyn Display, pool: &Pool) {
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

    pub(super) fn queue(&mut self, path: &dyn Display, queue: &Queue) {
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

    pub(super) fn retry(&mut self, path: &dyn Display, retry: &Retry) {
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

    pub(super) fn endpoint(&mut self, path: &dyn Display, endpoint: &Endpoint) {
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

    pub(super) fn address(&mut self, path: &dyn Display, address: &EndpointAddress) {
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

    pub(super) fn protocol(&mut self, path: &dyn Display, protocol: &TlsProtocol) {
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
}
