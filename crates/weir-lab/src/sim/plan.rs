//! The plan of a simulation: the endpoints and their outages, the scenarios (load and service
//! times) and the candidates (policy, limit, queue). Every candidate runs in every scenario.
//! Nothing is run here.

use std::fmt::{self, Write};
use std::sync::Arc;

use weir_balance::{
    AdminState, EjectionRule, FairSettings, PassiveSettings, PolicyKind, StallSettings, WeightMode,
};
use weir_config::model::{self, Passive, Retry, StallDetection, UpstreamTimeouts};

use super::calendar::PeriodicPause;
use super::configured::{passive, queue_limits, retries, stall};
use super::credits::SimCredits;
use super::service::ServiceSource;
use super::state::{MAX_WORKERS, Spread, StateSharing};
use super::time;
use super::trace::RequestTrace;

/// Largest number of requests of one run; each takes about 60 bytes while its candidate runs.
pub const MAX_REQUESTS: u64 = 10_000_000;
/// Largest number of endpoints of a pool.
pub const MAX_ENDPOINTS: usize = 1_000;
/// Largest number of requests that a server with a limit may work on at once.
const MAX_AT_ONCE: u32 = 10_000;
/// Largest number of candidates times scenarios.
const MAX_ROWS: usize = 1_000;
/// Largest number of clients of a closed loop.
const MAX_CLIENTS: u32 = 1_000_000;

/// A comparison.
#[derive(Clone, Debug)]
pub struct SimPlan {
    /// Text above the tables, before the text of [`SimPlan::describe`]; may be empty.
    pub title: String,
    /// Requests in each run; with a trace, the number of its requests.
    pub requests: u64,
    /// Seed of all random numbers.
    pub seed: u64,
    /// The servers.
    pub endpoints: Vec<SimEndpoint>,
    /// Pauses of every server; each server has its own phase.
    pub pauses: Vec<PeriodicPause>,
    /// Outages.
    pub outages: Vec<Outage>,
    /// One-way latency between the proxy and a server, ns.
    pub latency: u64,
    /// Time from a response to the client's next request in a closed loop, ns.
    pub think: u64,
    /// Number of different clients, whose keys the hashing policies use.
    pub keys: u64,
    /// Share of requests that are bound to an endpoint, 0 to 1.
    pub sticky: f64,
    /// Long-lived streams among the requests; `None`: there are none.
    pub streams: Option<LongStreams>,
    /// Bounds of the queue, for candidates with one.
    pub queue: QueueLimits,
    /// Rules for ejecting an endpoint after failed connects.
    pub passive: PassiveSettings,
    /// Rules for dispatching nothing more to an endpoint that does not answer; `None`: off.
    pub stall: Option<StallSettings>,
    /// Number of further attempts after a failed connect.
    pub retries: u16,
    /// Number of workers of the instance. It matters only where each has its own balancer.
    pub workers: u32,
    /// Assignment of requests to workers.
    pub spread: Spread,
    /// The recorded arrivals, if there are any.
    pub trace: Option<Arc<RequestTrace>>,
    /// The scenarios.
    pub scenarios: Vec<Scenario>,
    /// The candidates to compare.
    pub candidates: Vec<SimCandidate>,
}

/// Requests that are long-lived streams (calls of gRPC, server-sent events, WebSockets): after the
/// first response the server works on other requests, and the stream keeps its slot for a time.
#[derive(Clone, Debug, PartialEq)]
pub struct LongStreams {
    /// Their share of the requests, 0 to 1.
    pub share: f64,
    /// The time from the first response to the end of the stream.
    pub held: ServiceSource,
}

/// One server.
#[derive(Clone, Debug)]
pub struct SimEndpoint {
    /// Name in the pool, which hashing policies use; if empty, `app1`, `app2` and so on.
    pub name: String,
    /// Speed; a server of speed 1 takes the drawn service time.
    pub speed: f64,
    /// Weight in the pool.
    pub weight: u32,
    /// Priority: endpoints of a higher tier take part only if none of a lower one is available.
    pub tier: u8,
    /// The operator's admin state (ready, draining, maintenance).
    pub order: AdminState,
    /// The rule by which failures eject it, if it is not that of the plan.
    pub ejection: Option<EjectionRule>,
    /// The time in which its share grows to the whole after it was unavailable, µs; 0 for none.
    pub slow_start_us: u64,
    /// Number of requests that it works on at once; the others wait in its own queue. `None`: no
    /// limit.
    pub at_once: Option<u32>,
    /// Largest length of its own queue; it refuses further requests. `None`: no limit.
    pub backlog: Option<u32>,
    /// Its processor credits; `None`: it always works at its speed.
    pub credits: Option<SimCredits>,
}

impl Default for SimEndpoint {
    fn default() -> Self {
        Self {
            name: String::new(),
            speed: 1.0,
            weight: 1,
            tier: 0,
            order: AdminState::Ready,
            ejection: None,
            slow_start_us: 0,
            at_once: Some(1),
            backlog: None,
            credits: None,
        }
    }
}

impl SimEndpoint {
    /// Its name, or the default for its index.
    pub(crate) fn name_at(&self, index: usize) -> String {
        if self.name.is_empty() { format!("app{}", index + 1) } else { self.name.clone() }
    }
}

/// A time in which an endpoint does not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Index of the endpoint, from 0.
    pub endpoint: usize,
    /// The kind of the outage.
    pub kind: OutageKind,
    /// Start in ns.
    pub from: u64,
    /// End in ns.
    pub until: u64,
}

/// The kinds of outages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutageKind {
    /// The server refuses connections, and its requests are lost.
    Down,
    /// The server accepts requests and does nothing, as after SIGSTOP.
    Frozen,
}

/// The bounds of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Largest number of waiting requests.
    pub max: u32,
    /// Largest number of requests that wait for one endpoint because they are bound to it; further
    /// ones wait for any endpoint.
    pub max_per_endpoint: Option<u32>,
    /// Longest wait, ns; `None`: no timeout.
    pub timeout: Option<u64>,
}

impl Default for QueueLimits {
    fn default() -> Self {
        queue_limits(&model::Queue::default(), &UpstreamTimeouts::default())
    }
}

/// A load and a kind of service times.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Arrival of requests.
    pub load: SimLoad,
    /// Service times.
    pub service: ServiceSource,
}

/// The arrival of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SimLoad {
    /// This many clients, each with one request at a time: `ab -c N`.
    Closed(u32),
    /// This many requests per second, at equal intervals.
    Constant(f64),
    /// This many requests per second, independent of each other.
    Poisson(f64),
    /// As recorded, with the speed multiplied by this factor.
    Trace(f64),
}

/// A configuration to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimCandidate {
    /// The policy of the pool.
    pub policy: PolicyKind,
    /// Largest number of requests in flight at an endpoint: one value for all, or one for each.
    pub max_conn: MaxConn,
    /// Behaviour when all endpoints are at their limit.
    pub queue: SimQueue,
    /// Shared or separate state of the workers.
    pub state: StateSharing,
}

/// Largest number of requests in flight at an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaxConn(pub Vec<Option<u32>>);

impl MaxConn {
    /// One limit for each endpoint; a single one if all are equal.
    pub fn new(mut limits: Vec<Option<u32>>) -> Self {
        if limits.windows(2).all(|pair| pair[0] == pair[1]) {
            limits.truncate(1);
        }
        Self(limits)
    }

    /// The limit of an endpoint.
    pub fn of(&self, endpoint: usize) -> Option<u32> {
        self.0.get(endpoint).or(self.0.first()).copied().flatten()
    }

    /// Returns true if no endpoint has a limit.
    pub fn is_none(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

/// Behaviour when all endpoints are at their limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimQueue {
    /// Requests wait.
    On,
    /// Requests are refused.
    Off,
    /// Requests wait, and a freed slot is not passed to them: the bug of HAProxy before 1.3.15.2.
    Buggy,
}

impl SimCandidate {
    /// Returns true if requests may wait in the balancer: a limit is set, or the policy has its
    /// own.
    pub fn may_wait(&self) -> bool {
        let peak = matches!(
            self.policy,
            PolicyKind::Fair(FairSettings { weight_mode: WeightMode::Peak, .. })
        );
        peak || !self.max_conn.is_none()
    }

    /// Every policy with every limit and every queue. Without a limit no request waits, so such a
    /// candidate occurs once.
    pub fn product(policies: &[PolicyKind], limits: &[MaxConn], queues: &[SimQueue]) -> Vec<Self> {
        let mut candidates = Vec::new();
        for &policy in policies {
            for max_conn in limits {
                let queues =
                    if max_conn.is_none() { &queues[..queues.len().min(1)] } else { queues };
                candidates.extend(queues.iter().map(|&queue| Self {
                    policy,
                    max_conn: max_conn.clone(),
                    queue,
                    state: StateSharing::Shared,
                }));
            }
        }
        candidates
    }
}

impl Scenario {
    /// Every load with every kind of service times.
    pub fn product(loads: &[SimLoad], services: &[ServiceSource]) -> Vec<Self> {
        let with = |service: &ServiceSource| {
            let service = service.clone();
            loads.iter().map(move |&load| Self { load, service: service.clone() })
        };
        services.iter().flat_map(with).collect()
    }
}

impl Default for SimPlan {
    /// Three servers that work on one request at a time, and no candidates.
    fn default() -> Self {
        Self {
            title: String::new(),
            requests: 10_000,
            seed: 1,
            endpoints: vec![SimEndpoint::default(); 3],
            pauses: Vec::new(),
            outages: Vec::new(),
            latency: 0,
            think: 0,
            keys: 1_000,
            sticky: 0.0,
            streams: None,
            queue: QueueLimits::default(),
            passive: passive(&Passive::default()),
            stall: stall(&StallDetection::default()),
            retries: retries(&Retry::default()),
            workers: 4,
            spread: Spread::default(),
            trace: None,
            scenarios: Vec::new(),
            candidates: Vec::new(),
        }
    }
}

impl SimPlan {
    /// Checks that the plan can be run. The error says how to correct it.
    pub fn check(&self) -> Result<(), String> {
        self.check_endpoints()?;
        self.check_outages()?;
        if !(1..=MAX_WORKERS).contains(&self.workers) {
            return Err(format!("{} workers: use 1 to {MAX_WORKERS}", self.workers));
        }
        if !(1..=MAX_REQUESTS).contains(&self.requests) {
            return Err(format!("{} requests: use 1 to {MAX_REQUESTS}", self.requests));
        }
        if self.keys == 0 {
            return Err("0 keys: use 1 or more (--keys 1)".to_owned());
        }
        if !(0.0..=1.0).contains(&self.sticky) {
            return Err("the share of bound requests must be from 0% to 100%".to_owned());
        }
        if let Some(streams) = &self.streams {
            if !(0.0..=1.0).contains(&streams.share) {
                return Err("the share of streams must be from 0% to 100%".to_owned());
            }
            if streams.held == ServiceSource::Trace {
                return Err("a trace does not tell how long streams last: give --stream-time a \
                    distribution, as in exp:30s"
                    .to_owned());
            }
        }
        if self.scenarios.is_empty() || self.candidates.is_empty() {
            return Err("nothing to compare: give a load and a policy".to_owned());
        }
        let rows = self.scenarios.len() * self.candidates.len();
        if rows > MAX_ROWS {
            return Err(format!(
                "{rows} combinations: at most {MAX_ROWS} are possible; give fewer values"
            ));
        }
        self.scenarios.iter().try_for_each(|scenario| self.check_scenario(scenario))?;
        self.candidates.iter().try_for_each(|candidate| self.check_candidate(candidate))
    }

    /// A sentence about the servers, their pauses and outages.
    pub fn describe(&self) -> String {
        let count = self.endpoints.len();
        let mut text = if count == 1 { "1 server".to_owned() } else { format!("{count} servers") };
        let each = |value: &dyn Fn(&SimEndpoint) -> String| {
            let values: Vec<String> = self.endpoints.iter().map(value).collect();
            let alike = values.windows(2).all(|pair| pair[0] == pair[1]);
            if alike { values.into_iter().take(1).collect() } else { values.join("/") }
        };
        let or_any = |value: Option<u32>| value.map_or("any".to_owned(), |value| value.to_string());
        let at_once = each(&|endpoint| {
            endpoint.at_once.map_or("any number of".to_owned(), |most| most.to_string())
        });
        let requests = if at_once == "1" { "request" } else { "requests" };
        let _ = write!(text, ", each working on {at_once} {requests} at a time");
        let details = [
            ("speed", each(&|endpoint| endpoint.speed.to_string()), "1"),
            ("weight", each(&|endpoint| endpoint.weight.to_string()), "1"),
            ("priority", each(&|endpoint| endpoint.tier.to_string()), "0"),
            ("backlog", each(&|endpoint| or_any(endpoint.backlog)), "any"),
            ("latency", time::format(self.latency), "0s"),
            ("think time", time::format(self.think), "0s"),
            ("bound by affinity", format!("{} %", self.sticky * 100.0), "0 %"),
        ];
        for (name, value, usual) in details {
            if value != usual {
                let _ = write!(text, ", {name} {value}");
            }
        }
        if let Some(streams) = &self.streams {
            let _ = write!(text, ", {} % streams of {}", streams.share * 100.0, streams.held);
        }
        for pause in &self.pauses {
            let (length, every) = (time::format(pause.length), time::format(pause.every));
            let _ = write!(text, ", each paused for {length} every {every}");
        }
        for credits in self.endpoints.iter().filter_map(|endpoint| endpoint.credits) {
            let _ = write!(text, ", {credits}");
        }
        for outage in &self.outages {
            let kind = match outage.kind {
                OutageKind::Down => "down",
                OutageKind::Frozen => "frozen",
            };
            let _ =
                write!(text, ", {kind} {} from {}", outage.endpoint + 1, time::format(outage.from));
            if outage.until < time::NEVER {
                let _ = write!(text, " to {}", time::format(outage.until));
            }
        }
        if self.has_processes() {
            let each = match self.spread {
                Spread::Connection => "connection",
                Spread::Request => "request",
            };
            let _ = write!(text, "; {} workers, a random one for each {each}", self.workers);
        }
        if let Some(trace) = &self.trace {
            let _ = write!(text, "; requests as in {}", trace.name());
            match trace.skipped() {
                0 => {}
                1 => text.push_str(", 1 line of which is not about this pool"),
                lines => {
                    let _ = write!(text, ", {lines} lines of which are not about this pool");
                }
            }
        }
        text + "."
    }

    /// Returns true if workers have separate balancers in any candidate.
    fn has_processes(&self) -> bool {
        self.candidates.iter().any(|candidate| candidate.state == StateSharing::PerProcess)
    }

    /// Returns true if an endpoint takes part while all are available: it is ready, and no backup.
    pub(crate) fn is_regular(&self, endpoint: &SimEndpoint) -> bool {
        let ready = self.endpoints.iter().filter(|other| other.order == AdminState::Ready);
        let first = ready.map(|other| other.tier).min();
        endpoint.order == AdminState::Ready && Some(endpoint.tier) == first
    }

    fn check_endpoints(&self) -> Result<(), String> {
        if !(1..=MAX_ENDPOINTS).contains(&self.endpoints.len()) {
            return Err(format!("{} endpoints: use 1 to {MAX_ENDPOINTS}", self.endpoints.len()));
        }
        for endpoint in &self.endpoints {
            if !(0.001..=1000.0).contains(&endpoint.speed) {
                return Err(format!("a speed of {}: use 0.001 to 1000", endpoint.speed));
            }
            if !(1..=65_535).contains(&endpoint.weight) {
                return Err(format!("a weight of {}: use 1 to 65535", endpoint.weight));
            }
            if endpoint.at_once.is_some_and(|most| !(1..=MAX_AT_ONCE).contains(&most)) {
                return Err(format!(
                    "a server that works on {} requests at once: use 1 to {MAX_AT_ONCE}, or any",
                    endpoint.at_once.unwrap_or(0)
                ));
            }
        }
        for pause in &self.pauses {
            if pause.length == 0 || pause.length >= pause.every || pause.every < 1_000_000 {
                return Err(format!(
                    "a pause of {} every {}: the pause must be shorter than its interval, and the interval at \
                    least 1ms",
                    time::format(pause.length),
                    time::format(pause.every)
                ));
            }
        }
        Ok(())
    }

    fn check_outages(&self) -> Result<(), String> {
        for outage in &self.outages {
            if outage.endpoint >= self.endpoints.len() {
                return Err(format!(
                    "there is no endpoint {} that could fail: endpoints are numbered 1 to {}",
                    outage.endpoint + 1,
                    self.endpoints.len()
                ));
            }
            if outage.from >= outage.until {
                return Err(format!(
                    "a failure from {} to {}: it must end after its start",
                    time::format(outage.from),
                    time::format(outage.until)
                ));
            }
            if outage.kind == OutageKind::Frozen && outage.until >= time::NEVER {
                return Err("a server that is frozen for ever never answers: give the end, as in \
                    frozen:1:5s..11s"
                    .to_owned());
            }
        }
        Ok(())
    }

    fn check_scenario(&self, scenario: &Scenario) -> Result<(), String> {
        match scenario.load {
            SimLoad::Closed(0) => {
                return Err("0 clients: use --concurrency 1 or more".to_owned());
            }
            SimLoad::Closed(clients) if clients > MAX_CLIENTS => {
                return Err(format!("{clients} clients: at most {MAX_CLIENTS}"));
            }
            SimLoad::Closed(clients) if u64::from(clients) > self.requests => {
                return Err(format!(
                    "{clients} clients need at least as many requests, not {}: raise --requests or lower --concurrency",
                    self.requests
                ));
            }
            SimLoad::Constant(rate) | SimLoad::Poisson(rate) if !(0.001..=1e7).contains(&rate) => {
                return Err(format!("{rate} requests per second: use 0.001 to 10000000"));
            }
            SimLoad::Trace(factor) if !(0.001..=1000.0).contains(&factor) => {
                return Err(format!("a trace {factor} times as fast: use 0.001 to 1000"));
            }
            SimLoad::Trace(_)
                if self.trace.as_ref().is_some_and(|trace| trace.len() < self.requests) =>
            {
                return Err(format!(
                    "the trace has fewer than {} requests: lower --requests or omit it",
                    self.requests
                ));
            }
            SimLoad::Trace(_) if self.trace.is_none() => {
                return Err("no trace is given: use --trace FILE".to_owned());
            }
            _ => {}
        }
        match (&scenario.service, &self.trace) {
            (ServiceSource::Trace, None) => {
                Err("--service trace takes the times from a trace: give one with --trace FILE"
                    .to_owned())
            }
            (ServiceSource::Trace, Some(trace)) if !trace.is_timed() => Err(format!(
                "{} does not have the duration of every request: use a --service other than trace",
                trace.name()
            )),
            (ServiceSource::Trace, Some(trace)) if trace.len() < self.requests => Err(format!(
                "{} has times for {} requests, not for {}: lower --requests",
                trace.name(),
                trace.len(),
                self.requests
            )),
            _ => Ok(()),
        }
    }

    fn check_candidate(&self, candidate: &SimCandidate) -> Result<(), String> {
        let limits = &candidate.max_conn.0;
        if limits.contains(&Some(0)) {
            return Err("max_conn 0 admits no requests: use 1 or more, or none".to_owned());
        }
        if limits.len() != 1 && limits.len() != self.endpoints.len() {
            return Err(format!(
                "{} limits for {} endpoints: give one limit, or one per endpoint",
                limits.len(),
                self.endpoints.len()
            ));
        }
        Ok(())
    }
}

impl fmt::Display for SimLoad {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(1) => formatter.write_str("1 client"),
            Self::Closed(clients) => write!(formatter, "{clients} clients"),
            Self::Constant(rate) => write!(formatter, "{rate}/s evenly spaced"),
            Self::Poisson(rate) => write!(formatter, "{rate}/s at random"),
            Self::Trace(factor) if (factor - 1.0).abs() < f64::EPSILON => {
                formatter.write_str("as recorded")
            }
            Self::Trace(factor) => write!(formatter, "as recorded, {factor} times as fast"),
        }
    }
}

impl fmt::Display for MaxConn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, limit) in self.0.iter().enumerate() {
            if index > 0 {
                formatter.write_str("/")?;
            }
            match limit {
                Some(limit) => write!(formatter, "{limit}")?,
                None => formatter.write_str("none")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for SimQueue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::On => "on",
            Self::Off => "off",
            Self::Buggy => "buggy",
        })
    }
}
