//! Lints about pools: what happens when a server is full, slow or down.

use std::time::Duration;

use foldhash::{HashSet, HashSetExt};

use super::Linter;
use crate::model::{Config, Endpoint, EndpointAddress, Pool, Retry, RetryOn, Route, Rule};

/// The longest connect that makes sense: a server on the same continent answers in less.
const LONG_CONNECT: Duration = Duration::from_mins(1);
/// A longer wait for a silent server is as good as none.
const LONG_WAIT: Duration = Duration::from_mins(30);

impl Linter<'_> {
    pub(super) fn pools(&mut self) {
        let config = self.config;
        let pools_of_streams = pools_of_streams(config);
        for (number, pool) in config.pools.iter().enumerate() {
            let part = format!("pools[{number}]");
            self.full(&part, pool);
            self.health(&part, pool);
            self.twice(&part, pool);
            self.keepalive(&part, pool);
            self.server_waits(&part, pool);
            self.retries(&part, &pool.retry);
            if pool.buffer_request.is_some() && pools_of_streams.contains(&number) {
                self.report(
                    "buffer-holds-streams",
                    &format!("{part}.buffer_request"),
                    "a stream from the client (gRPC) reaches the server only when it has ended",
                    "use a pool without `buffer_request` for the routes of streams",
                );
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
        let (rate, requests) = (self.rate, pool.keepalive.max_requests);
        if pool.keepalive.idle == 0 {
            self.report(
                "no-keepalive",
                &format!("{part}.keepalive"),
                format!("each request costs a new {what}: at {rate} requests per second, {rate} of them per second"),
                "keep idle connections: `keepalive idle=100;` (nginx: `keepalive 100;`)",
            );
        } else if let Some(new) = self.new_connections(requests) {
            self.report(
                "few-requests-per-connection",
                &format!("{part}.keepalive"),
                format!("a connection is used for {requests} requests: at {rate} requests per second that makes {new} new {what}s per second"),
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
}

/// The pools that routes for streams lead to. Routes are walked once for all pools.
fn pools_of_streams(config: &Config) -> HashSet<usize> {
    let of_streams = routes(config).filter(|route| is_for_streams(&route.when));
    of_streams.flat_map(|route| route.action.pools()).collect()
}

fn routes(config: &Config) -> impl Iterator<Item = &Route> {
    config.listeners.iter().flat_map(|listener| {
        listener.sites.iter().flat_map(|site| &site.routes).chain(&listener.default)
    })
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
