//! Lints about pools: what happens when a server is full, slow or down.

use std::collections::HashSet;
use std::time::Duration;

use super::Linter;
use crate::model::{Config, Endpoint, EndpointAddress, Pool, Retry, RetryOn, Route, Rule};

/// An idle connection that is used for fewer requests costs a handshake too often.
const FEW_REQUESTS: u64 = 100;
/// The rate of requests for which costs are stated.
const STATED_RATE: u64 = 1_000;
/// The longest connect that makes sense: a server on the same continent answers in less.
const LONG_CONNECT: Duration = Duration::from_mins(1);
/// A longer wait for a silent server is as good as none.
const LONG_WAIT: Duration = Duration::from_mins(30);

impl Linter<'_> {
    pub(super) fn pools(&mut self) {
        let config = self.config;
        for (number, pool) in config.pools.iter().enumerate() {
            let part = format!("pools[{number}]");
            self.full(&part, pool);
            self.health(&part, pool);
            self.twice(&part, pool);
            self.keepalive(&part, pool);
            self.server_waits(&part, pool);
            self.retries(&part, &pool.retry);
            if pool.buffer_request.is_some() {
                self.streams(&part, number);
            }
        }
    }

    fn full(&mut self, part: &str, pool: &Pool) {
        let limited = pool.endpoints.iter().any(|server| server.max_conn.is_some());
        if limited && pool.queue.is_none() {
            self.report(
                "max-conn-without-queue",
                &format!("{part}.queue"),
                "requests beyond `max_conn=` get 503 at once, also in a burst of a few milliseconds",
                "let them wait: `queue timeout=5s;`",
            );
        }
    }

    fn health(&mut self, part: &str, pool: &Pool) {
        let stays = |endpoint: &Endpoint| pool.ejection(endpoint).errors == 0;
        if pool.endpoints.len() > 1 && pool.check.is_none() && pool.endpoints.iter().all(stays) {
            self.report(
                "no-health-check",
                part,
                "a server that is down stays in use: there is no check, and failures eject none",
                "add `check http GET /healthz;`, or remove `passive off;`",
            );
        }
    }

    fn twice(&mut self, part: &str, pool: &Pool) {
        let mut seen: HashSet<&EndpointAddress> = HashSet::new();
        for (number, server) in pool.endpoints.iter().enumerate() {
            if !seen.insert(&server.address) {
                self.report(
                    "same-server-twice",
                    &format!("{part}.endpoints[{number}]"),
                    "this address is in the pool already: its limits, checks and failures are counted apart",
                    "give the first one a `weight=` instead",
                );
            }
        }
    }

    fn keepalive(&mut self, part: &str, pool: &Pool) {
        let what = if pool.tls.is_some() { "TLS handshake" } else { "connection" };
        if pool.keepalive.idle == 0 {
            self.report(
                "no-keepalive",
                &format!("{part}.keepalive"),
                format!("each request costs a new {what}: at {STATED_RATE} requests per second, {STATED_RATE} of them per second"),
                "keep idle connections: `keepalive idle=100;` (nginx: `keepalive 100;`)",
            );
        } else if pool.keepalive.max_requests < FEW_REQUESTS {
            let requests = pool.keepalive.max_requests;
            let rate = STATED_RATE / requests.max(1);
            self.report(
                "few-requests-per-connection",
                &format!("{part}.keepalive"),
                format!("a connection is used for {requests} requests: at {STATED_RATE} requests per second that makes {rate} new {what}s per second"),
                "raise `max_requests=`",
            );
        }
    }

    fn server_waits(&mut self, part: &str, pool: &Pool) {
        let timeouts = &pool.timeouts;
        let bounded = timeouts.request.is_some() || timeouts.attempt.is_some();
        let name = if timeouts.connect > LONG_CONNECT {
            "connect"
        } else if timeouts.response > LONG_WAIT && !bounded {
            "response"
        } else if timeouts.send > LONG_WAIT && timeouts.request.is_none() {
            "send"
        } else {
            return;
        };
        self.report(
            "missing-timeout",
            &format!("{part}.timeouts"),
            format!("`{name}=` is so long that a silent server holds its requests, and their clients, for ever"),
            "the defaults are 5s for `connect`, 1m for `send` and `response`",
        );
    }

    fn retries(&mut self, part: &str, retry: &Retry) {
        if retry.attempts == 0 {
            return;
        }
        let safe = |on: &RetryOn| matches!(on, RetryOn::Connect | RetryOn::Refused);
        if retry.non_idempotent && !retry.on.iter().all(safe) {
            self.report(
                "retry-repeats-effects",
                &format!("{part}.retry"),
                "a POST that reached a server may be sent to another one: an order is placed twice",
                "remove `non_idempotent`, unless each server recognises a repeated request",
            );
        }
        if retry.budget_percent().is_none() && !retry.on.iter().all(safe) {
            self.report(
                "retry-without-budget",
                &format!("{part}.retry"),
                format!(
                    "while all servers are slow, retries multiply their load by up to {}",
                    retry.attempts + 1
                ),
                "remove `budget=off`",
            );
        }
    }

    /// Finds routes for streams whose pool reads request bodies whole.
    fn streams(&mut self, part: &str, pool: usize) {
        if routes(self.config).any(|route| leads_to(route, pool) && is_for_streams(&route.when)) {
            self.report(
                "buffer-holds-streams",
                &format!("{part}.buffer_request"),
                "a stream from the client (gRPC) reaches the server only when it has ended",
                "use a pool without `buffer_request` for the routes of streams",
            );
        }
    }
}

fn routes(config: &Config) -> impl Iterator<Item = &Route> {
    config.listeners.iter().flat_map(|listener| {
        listener.sites.iter().flat_map(|site| &site.routes).chain(&listener.default)
    })
}

fn leads_to(route: &Route, pool: usize) -> bool {
    route.action.pools().contains(&pool)
}

/// Returns true if a condition asks for the type of a stream.
fn is_for_streams(rule: &Rule) -> bool {
    match rule {
        Rule::All(parts) | Rule::Any(parts) => parts.iter().any(is_for_streams),
        Rule::Header(name, Some(value)) => {
            name.eq_ignore_ascii_case("content-type") && value.matches("application/grpc")
        }
        _ => false,
    }
}
