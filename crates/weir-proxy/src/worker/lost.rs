//! Exchanges that end with their worker, or by a panic in their task. The thread that removes the
//! worker counts them with their cause and writes them to the access logs, as far as `sessions.rs`
//! knows them. Sizes, headers and the time split are not known.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use weir_stats::metrics::{Asked, Done, Outcome, TransferredBytes};
use weir_stats::{
    AffinityOutcome, Cause, Clock, Concurrency, Entry, LogBatch, Micros, Slashes, Times,
};

use crate::routing::route::CompiledRoute;
use crate::snapshot::generation::Generation;
use crate::snapshot::{CompiledAccessLog, CompiledListener, Snapshot};
use crate::time::instant::Instant;
use crate::worker::process::Process;

/// Records exchanges of one worker that cannot record them any more.
pub(crate) struct LostRecorder<'a> {
    process: &'a Process,
    worker: usize,
    now: Instant,
    wall: SystemTime,
    clock: Clock,
    /// Each batch with the snapshot and the number of its log.
    batches: Vec<(Arc<Snapshot>, usize, LogBatch)>,
}

impl<'a> LostRecorder<'a> {
    pub(crate) fn new(process: &'a Process, worker: usize) -> Self {
        let (now, wall) = (Instant::now(), SystemTime::now());
        Self { process, worker, now, wall, clock: Clock::new(), batches: Vec::new() }
    }

    /// Counts an exchange and writes its log lines.
    pub(crate) fn record(&mut self, lost: &LostExchange<'_>, cause: Cause) {
        let generation = lost.generation;
        let Some(listener) = generation.snapshot.listeners.get(lost.listener) else { return };
        let age = self.now.saturating_duration_since(lost.began);
        let head = lost.head_end.map(|end| end.saturating_duration_since(lost.began));
        let times = Times {
            request: head.map_or(Micros::NEVER, Micros::from),
            total: Micros::from(age),
            ..Times::default()
        };
        self.count(lost, &times, cause);
        self.write(lost, listener, age, times, cause);
    }

    fn count(&self, lost: &LostExchange<'_>, times: &Times, cause: Cause) {
        let generation = lost.generation;
        let Some(counts) = generation.series.listener(lost.listener) else { return };
        let route = lost.route_of(&generation.snapshot);
        let endpoint = lost.pool.zip(lost.endpoint);
        let endpoint = endpoint.and_then(|(pool, at)| generation.endpoint_series(pool, at));
        let outcome = Outcome {
            status: lost.status,
            cause,
            bytes_received: 0,
            bytes_sent: 0,
            attempts: u32::from(endpoint.is_some()),
            reused: false,
            queue_position: 0,
        };
        let client = lost.client();
        let asked = Asked { client, request: lost.line, line_bytes: lost.line.len() };
        let ended_us = self.process.balance_clock(self.now);
        let counted = TransferredBytes::default();
        let done = Done { request_id: &[], asked, ended_us, times, outcome, counted };
        let _ = self.process.numbers.record(self.worker, counts.route(route), endpoint, &done);
    }

    fn write(
        &mut self,
        lost: &LostExchange<'_>,
        listener: &CompiledListener,
        age: Duration,
        times: Times,
        cause: Cause,
    ) {
        let (generation, snapshot) = (lost.generation, &lost.generation.snapshot);
        let pool = lost.pool.and_then(|pool| generation.pool(pool));
        let endpoint = pool.zip(lost.endpoint).and_then(|(pool, at)| pool.endpoints.get(at));
        let route = lost.route_of(snapshot);
        let (method, target, protocol) = parts(lost.line);
        let entry = Entry {
            started: self.wall.checked_sub(age).unwrap_or(self.wall),
            times,
            cause,
            status: lost.status,
            peer: lost.peer,
            client: lost.client(),
            local: None,
            request_line: lost.line,
            method,
            target,
            internal_target: &[],
            path: &[],
            slashes: Slashes::default(),
            upstream_target: &[],
            protocol,
            host: &[],
            request_headers: &(),
            response_headers: &(),
            bytes_received: 0,
            bytes_sent: 0,
            body_bytes_sent: 0,
            listener: &listener.log_name,
            route: route.map_or("", |route| &route.name),
            pool: pool.map_or("", |pool| &pool.name),
            endpoint: endpoint.map_or("", |endpoint| &endpoint.name),
            endpoint_address: endpoint.map_or("", |endpoint| &endpoint.address_text),
            upstream_protocol: "",
            attempts: u32::from(endpoint.is_some()),
            failed_attempts: &[],
            reused: false,
            grpc_status: None,
            affinity: AffinityOutcome::default(),
            queue_position: 0,
            reasons: None,
            request_id: &[],
            tls: None,
            preread: weir_stats::Preread::default(),
            concurrency: Concurrency::default(),
            worker: self.worker,
            connection: 0,
            connection_age: Micros::ZERO,
            connection_requests: lost.exchanges,
            request_number: 0,
            request_body: &[],
            process: &(),
            captures: &[],
        };
        for &number in listener.logs_of(route) {
            let log = snapshot.logs.get(number);
            let Some(log) = log.filter(|log| log.takes(&entry, &mut self.clock)) else { continue };
            let at = batch_of(&mut self.batches, snapshot, number, log);
            if let Some((_, _, batch)) = self.batches.get_mut(at) {
                batch.push(|out| log.line.write_line(&entry, &mut self.clock, out));
            }
        }
    }
}

/// The position of a log's batch; creates the batch if there is none.
fn batch_of(
    batches: &mut Vec<(Arc<Snapshot>, usize, LogBatch)>,
    snapshot: &Arc<Snapshot>,
    number: usize,
    log: &CompiledAccessLog,
) -> usize {
    let is_its =
        |one: &(Arc<Snapshot>, usize, LogBatch)| one.1 == number && Arc::ptr_eq(&one.0, snapshot);
    batches.iter().position(is_its).unwrap_or_else(|| {
        batches.push((Arc::clone(snapshot), number, log.sink.batch()));
        batches.len() - 1
    })
}

/// Splits a request line, which may have been truncated, into method, target and protocol.
fn parts(line: &[u8]) -> (&[u8], &[u8], &'static str) {
    let (method, rest) = split(line);
    let (target, version) = split(rest);
    (method, target, if version == b"HTTP/1.0" { "HTTP/1.0" } else { "HTTP/1.1" })
}

fn split(text: &[u8]) -> (&[u8], &[u8]) {
    let space = memchr::memchr(b' ', text).unwrap_or(text.len());
    (text.get(..space).unwrap_or(text), text.get(space + 1..).unwrap_or_default())
}

/// An exchange that ended with its worker, as far as its data is known.
pub(crate) struct LostExchange<'a> {
    pub(crate) began: Instant,
    pub(crate) head_end: Option<Instant>,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) client: Option<IpAddr>,
    pub(crate) exchanges: u64,
    pub(crate) generation: &'a Generation,
    /// The listener's number in the generation.
    pub(crate) listener: usize,
    pub(crate) route: Option<usize>,
    pub(crate) pool: Option<usize>,
    pub(crate) endpoint: Option<usize>,
    pub(crate) status: u16,
    /// The beginning of the request line; empty without a head.
    pub(crate) line: &'a [u8],
}

impl LostExchange<'_> {
    pub(crate) fn client(&self) -> Option<IpAddr> {
        self.client.or_else(|| self.peer.map(|peer| peer.ip()))
    }

    pub(crate) fn route_of<'s>(&self, snapshot: &'s Snapshot) -> Option<&'s CompiledRoute> {
        let mut routes = snapshot.listeners.get(self.listener)?.router.routes();
        routes.find(|route| Some(route.number) == self.route)
    }
}
