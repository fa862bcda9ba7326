//! The record of an exchange: its [`Entry`], used by header templates while it runs and by the
//! access logs when it ends. It formats no log line.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use weir_stats::metrics::{Asked, Done, Keep, Onward, Outcome, TransferredBytes};
use weir_stats::{
    Concurrency, Entry, Escape, ExchangeRecord, FailedAttempt, Headers, Template, TlsParameters,
};
use weir_wire::{ResponseHead, Span};

use crate::exchange::client_side::ClientSide;
use crate::exchange::facts::{Placement, SpokenProtocol};
use crate::exchange::grpc;
use crate::exchange::reasons::{Depth, with_reasons};
use crate::exchange::scope::Scope;
use crate::exchange::state::Exchange;
use crate::http::path::percent::slashes_of;
use crate::http::request_view::bare_host;
use crate::net::Net;
use crate::routing::route::Captures;
use crate::snapshot::{LogCounts, LogReasons};
use crate::time::instant::Instant;
use crate::upstream::UpstreamPool;

/// The response headers for `$sent_http_…`, as the endpoint sent them.
pub(crate) struct ResponseView<'a> {
    pub(crate) head: &'a ResponseHead,
    pub(crate) bytes: &'a [u8],
}

impl Headers for ResponseView<'_> {
    fn value(&self, name: &str) -> Option<&[u8]> {
        self.head.header(self.bytes, name)
    }

    fn each(&self, name: &str, then: &mut dyn FnMut(&[u8])) {
        for header in &self.head.headers {
            if header.name.of(self.bytes).eq_ignore_ascii_case(name.as_bytes()) {
                then(header.value.of(self.bytes));
            }
        }
    }
}

/// Keeps the response head at the beginning of `raw`, if a text may show one of its headers.
pub(crate) fn keep_response_head<C: ClientSide>(exchange: &mut Exchange<'_, C>, raw: &[u8]) {
    if exchange.scope.listener.keeps_response_head {
        let heads = &mut *exchange.heads;
        let head = raw.get(..heads.response.head_bytes).unwrap_or_default();
        heads.response_bytes.clear();
        heads.response_bytes.extend_from_slice(head);
    }
}

/// Builds the entry of the exchange in its current state and passes it to `then`.
pub(crate) fn with_entry<C: ClientSide, R>(
    exchange: &Exchange<'_, C>,
    then: impl FnOnce(&Entry<'_>) -> R,
) -> R {
    let captures = captures(exchange, exchange.route.is_some_and(|route| route.uses_captures));
    let told = exchange.route.is_some_and(|route| route.tells_why);
    with_captures(exchange, captures.as_ref(), Concurrency::default(), |entry| {
        if !told {
            return then(entry);
        }
        with_reasons(exchange, Depth::Remembered, |reasons| {
            then(&Entry { reasons: Some(reasons), ..*entry })
        })
    })
}

/// The groups of the route's path regex. Only texts that use them ask for them: they cost more than
/// the rest of an entry.
pub(crate) fn captures<C: ClientSide>(
    exchange: &Exchange<'_, C>,
    wanted: bool,
) -> Option<Captures> {
    let Exchange { arrival, route, .. } = exchange;
    let route = route.filter(|route| wanted && arrival.has_head && route.has_captures())?;
    route.captures(&exchange.request_view(), &|text, out| fill(exchange, text, None, out))
}

/// Appends a text with variables.
pub(crate) fn fill<C: ClientSide>(
    exchange: &Exchange<'_, C>,
    text: &Template,
    captures: Option<&Captures>,
    out: &mut Vec<u8>,
) {
    with_captures(exchange, captures, Concurrency::default(), |entry| {
        let clock = &mut *exchange.scope.worker.clock.borrow_mut();
        text.append_at(entry, clock, Escape::None, out);
    });
}

pub(crate) fn with_captures<C: ClientSide, R>(
    exchange: &Exchange<'_, C>,
    captures: Option<&Captures>,
    concurrency: Concurrency,
    then: impl FnOnce(&Entry<'_>) -> R,
) -> R {
    let Exchange { scope, client, heads, arrival, placement, outcome, route, .. } = exchange;
    let bytes = client.head();
    let request = exchange.request_view();
    let response = ResponseView { head: &heads.response, bytes: &heads.response_bytes };
    let part = |span: weir_wire::Span| if arrival.has_head { span.of(bytes) } else { &[] };
    let pool = placement.pool();
    let endpoint = pool.zip(placement.endpoint).and_then(|(pool, index)| pool.endpoints.get(index));
    let failed = failed_attempts(placement, pool);
    let captures = captures.map(Captures::groups).unwrap_or_default();
    let entry = Entry {
        started: arrival.started(),
        times: outcome.times,
        cause: outcome.cause,
        status: status_so_far(exchange),
        grpc_status: outcome.grpc_status,
        peer: client.facts().peer,
        client: arrival.client.or_else(|| client.facts().peer_ip()),
        local: local_address(*scope, client),
        request_line: if arrival.has_head { heads.request_line(bytes) } else { &[] },
        method: if arrival.has_head { request.method() } else { &[] },
        target: if arrival.has_head { heads.target(bytes) } else { &[] },
        internal_target: heads.internal.whole_target(),
        path: match heads.internal.target() {
            Some((path, _)) => path,
            None if heads.request.path.is_empty() => &[],
            None => part(heads.request.path),
        },
        slashes: slashes_of(&scope.listener.path),
        upstream_target: endpoint.map_or(&[], |_| heads.upstream_target(bytes)),
        protocol: client.protocol(heads.request.version),
        host: bare_host(part(heads.request.host)),
        request_headers: if arrival.has_head { &request } else { &() },
        response_headers: if heads.response_bytes.is_empty() { &() } else { &response },
        bytes_received: arrival.bytes_received,
        bytes_sent: outcome.bytes_sent,
        body_bytes_sent: outcome.body_bytes_sent,
        listener: &scope.listener.log_name,
        route: route.map_or("", |route| &route.name),
        pool: pool.map_or("", |pool| &pool.name),
        endpoint: endpoint.map_or("", |endpoint| &endpoint.name),
        endpoint_address: endpoint.map_or("", |endpoint| &endpoint.address_text),
        upstream_protocol: placement.spoken.map_or("", SpokenProtocol::name),
        attempts: placement.attempts,
        failed_attempts: &failed,
        reused: placement.reused,
        affinity: placement.claim.outcome(placement.endpoint),
        queue_position: placement.queue_position,
        reasons: None,
        request_id: arrival.request_id.as_bytes(),
        tls: tls_facts(client),
        preread: client.preread(),
        concurrency,
        worker: scope.worker.number,
        connection: client.facts().number.into(),
        connection_age: client.facts().age_at_begin(),
        connection_requests: client.facts().served,
        request_number: arrival.number,
        request_body: &heads.request_body,
        process: &*scope.worker.process,
        captures: &captures,
    };
    then(&entry)
}

/// The status of the response; on the way to a page, that of the error.
fn status_so_far<C: ClientSide>(exchange: &Exchange<'_, C>) -> u16 {
    match exchange.outcome.status {
        0 => exchange.heads.internal.imposed_status().unwrap_or(0),
        status => status,
    }
}

/// The attempts that were abandoned for another one.
fn failed_attempts<'p>(
    placement: &Placement<'_>,
    pool: Option<&'p Arc<UpstreamPool>>,
) -> SmallVec<[FailedAttempt<'p>; 2]> {
    let name =
        |index: usize| pool.and_then(|pool| pool.endpoints.get(index)).map_or("", |one| &*one.name);
    let failed = placement.failed.iter();
    failed.map(|(index, why)| FailedAttempt { endpoint: name(*index), why: *why }).collect()
}

/// Counts an exchange that has ended, writes its access-log lines, and keeps its full record if it
/// is among the slowest.
pub(crate) fn write<C: ClientSide>(exchange: &mut Exchange<'_, C>, now: Instant) {
    let Exchange { scope, client, placement, outcome, .. } = exchange;
    outcome.times.total = now.span_since(client.facts().began);
    if placement.pool.is_none() {
        outcome.cause = outcome.cause.of_our_own();
    }
    let (scope, exchange) = (*scope, &*exchange);
    let ended_us = scope.worker.balance_clock(now);
    let keep = count(exchange, ended_us);
    grpc::count_call(exchange);
    let logs = scope.listener.logs_of(exchange.route);
    if logs.is_empty() && keep == Keep::Counted {
        return;
    }
    let captures = captures(exchange, scope.listener.logs_captures);
    let counted = keep == Keep::Whole || scope.listener.concurrency == LogCounts::Shown;
    let concurrency = if counted { concurrency(exchange) } else { Concurrency::default() };
    with_captures(exchange, captures.as_ref(), concurrency, |entry| {
        let depth = match keep {
            Keep::Whole => Depth::LookedUp,
            Keep::Counted if scope.listener.reasons == LogReasons::Told => Depth::Remembered,
            Keep::Counted => return write_lines(scope, logs, entry),
        };
        with_reasons(exchange, depth, |reasons| {
            let entry = Entry { reasons: Some(reasons), ..*entry };
            write_lines(scope, logs, &entry);
            if keep == Keep::Whole {
                let record = ExchangeRecord::of(&entry, ended_us);
                scope.counts.route(exchange.route).keep(scope.worker.number, record);
            }
        });
    });
}

fn write_lines<N: Net>(scope: Scope<'_, N>, logs: &[usize], entry: &Entry<'_>) {
    for &number in logs {
        let Some(log) = scope.generation.snapshot.logs.get(number) else { continue };
        let clock = &mut *scope.worker.clock.borrow_mut();
        if !log.takes(entry, clock) {
            continue;
        }
        scope.generation.log(number, |out| log.line.write_line(entry, clock, out));
    }
}

/// Counts the failed attempts of an exchange at a pool that it leaves for another.
pub(crate) fn count_left<C: ClientSide>(exchange: &Exchange<'_, C>) {
    count_failed(exchange);
    let Exchange { scope, placement, .. } = exchange;
    let Some((pool, endpoint)) = placement.pool.zip(placement.endpoint) else { return };
    if placement.attempts as usize > placement.failed.len()
        && let Some(series) = scope.generation.endpoint_series(pool.number, endpoint)
    {
        series.attempt_failed(scope.worker.number, Onward::Elsewhere);
    }
}

/// Counts the attempts that were followed by another one.
fn count_failed<C: ClientSide>(exchange: &Exchange<'_, C>) {
    let Exchange { scope, placement, .. } = exchange;
    for (turn, (index, _)) in placement.failed.iter().enumerate() {
        let next = placement.failed.get(turn + 1).map(|(next, _)| *next).or(placement.endpoint);
        let onward = match next {
            // The last one may have been abandoned for an attempt that never began.
            _ if turn + 1 >= placement.attempts as usize => Onward::Nowhere,
            Some(next) if next == *index => Onward::Again,
            _ => Onward::Elsewhere,
        };
        let pool = placement.pool.map(|pool| pool.number);
        let series = pool.and_then(|pool| scope.generation.endpoint_series(pool, *index));
        if let Some(endpoint) = series {
            endpoint.attempt_failed(scope.worker.number, onward);
        }
    }
}

/// Counts an exchange for its route, its endpoint and its worker.
fn count<C: ClientSide>(exchange: &Exchange<'_, C>, ended_us: u64) -> Keep {
    let Exchange { scope, client, heads, arrival, placement, outcome, route, .. } = exchange;
    let worker = &scope.worker;
    let series = |index: usize| scope.generation.endpoint_series(placement.pool?.number, index);
    count_failed(exchange);
    let summary = Outcome {
        status: outcome.status,
        cause: outcome.cause,
        bytes_received: arrival.bytes_received,
        bytes_sent: outcome.bytes_sent,
        attempts: placement.attempts,
        reused: placement.reused,
        queue_position: placement.queue_position,
    };
    let request_id = arrival.request_id.as_bytes();
    let line = if arrival.has_head { heads.request.request_line } else { Span::default() };
    let request = match heads.original_line.as_slice() {
        b"" => client.head().get(line.start as usize..).unwrap_or_default(),
        original => original,
    };
    let asked = Asked {
        client: arrival.client.or_else(|| client.facts().peer_ip()),
        request,
        line_bytes: line.len(),
    };
    let bytes = TransferredBytes { received: arrival.bytes_received, sent: outcome.bytes_sent };
    let counted = if outcome.is_counted { bytes } else { TransferredBytes::default() };
    let times = &outcome.times;
    let done = Done { request_id, asked, ended_us, times, outcome: summary, counted };
    let (route, endpoint) = (scope.counts.route(*route), placement.endpoint.and_then(series));
    worker.process.numbers.record(worker.number, route, endpoint, &done)
}

/// The numbers of concurrent exchanges besides this one; those of a pool are summed over its
/// endpoints.
fn concurrency<C: ClientSide>(exchange: &Exchange<'_, C>) -> Concurrency {
    let Exchange { scope, placement, .. } = exchange;
    let balancer = placement.pool().map(|pool| &pool.balancer);
    let endpoint =
        balancer.zip(placement.endpoint).and_then(|(balancer, index)| balancer.endpoint(index));
    // The exchange itself is left out, as in HAProxy, which has already released its place when it
    // counts.
    let own = u32::from(placement.slot.is_some());
    Concurrency {
        process: scope.worker.process.open_connections() as u32,
        listener: scope.listener.gate.open.load(Ordering::Relaxed) as u32,
        pool: balancer.map_or(0, |balancer| (balancer.in_flight() as u32).saturating_sub(own)),
        endpoint: endpoint.map_or(0, |endpoint| endpoint.in_flight().saturating_sub(own)),
    }
}

/// The local address of the connection; the kernel is asked only if the listener needs it.
fn local_address<C: ClientSide>(
    scope: Scope<'_, C::Net>,
    client: &C,
) -> Option<std::net::SocketAddr> {
    let wanted = scope.listener.shows_local_address;
    wanted.then(|| client.local_address(&scope.worker.net)).flatten()
}

fn tls_facts<C: ClientSide>(client: &C) -> Option<TlsParameters<'_>> {
    let facts = client.facts().tls.as_deref()?;
    Some(TlsParameters {
        protocol: facts.version.unwrap_or_default(),
        cipher: facts.suite.unwrap_or_default(),
        group: facts.group.unwrap_or_default(),
        server_name: client.server_name().unwrap_or_default(),
        resumed: facts.resumed,
        client: facts.client.as_deref(),
    })
}
