//! Active health checks, beside the data plane: one task per endpoint on the control runtime, so
//! that an endpoint is probed once per interval however many workers there are. It makes the
//! connections and requests; rise, fall and timing are decided in `weir-balance`.

mod connect;
mod grpc;
mod http;
mod http2;
mod reply;
mod steps;
mod tcp;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::http::uri::Scheme;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout};
use weir_balance::{
    EndpointState, Health, ProbeHistory, ProbeOutcome, ProbeSettings, ProbeTurn, ProbeVerdict,
};
use weir_config::model::{
    Check, Config, Endpoint, EndpointAddress, EndpointCheck, HttpProbe, Pool, Probe, SendProxy,
    Statuses, UpstreamHttp,
};
use weir_config::units;
use weir_proxy::net::PeerAddress;
use weir_proxy::process::Process;
use weir_proxy::tls::{self, ClientTls};
use weir_proxy::upstream::UpstreamPool;

use self::connect::{Negotiated, ProbeStart, ProbeTls, connect, negotiate};
use self::grpc::GrpcQuestion;
use self::http::HttpQuestion;
use self::reply::{Blame, Heard, ProbeFailure};
use self::steps::Conversation;
use crate::health::agent_check::{self, AgentTarget};
use crate::health::health_log::{EndpointName, HealthChange, HealthLog, HealthState, Panic};

/// The probes of the configuration in effect, one task per endpoint.
#[derive(Default)]
pub(crate) struct Probes {
    tasks: HashMap<EndpointName, Probing>,
    agents: watch::Sender<Vec<AgentTarget>>,
}

/// A probe that continues across reloads as long as its own parameters do not change.
struct Probing {
    asks: Asks,
    task: AbortHandle,
}

/// The parameters of a probe.
#[derive(PartialEq)]
struct Asks {
    check: Check,
    own: EndpointCheck,
    address: EndpointAddress,
    host: Option<String>,
    /// The endpoint's server name and the address of the pool whose TLS settings the probe uses: a
    /// new pool may have been made from other files.
    tls: Option<(String, usize)>,
    send_proxy: Option<SendProxy>,
    source: Option<SocketAddr>,
    http: UpstreamHttp,
}

impl Drop for Probing {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Probes {
    /// Returns none yet, and the endpoints whose agents are asked.
    pub(crate) fn new() -> (Self, watch::Receiver<Vec<AgentTarget>>) {
        let (agents, asked) = watch::channel(Vec::new());
        (Self { tasks: HashMap::new(), agents }, asked)
    }

    /// Probes every endpoint for which the configuration has a check, and no other; returns their
    /// number. An endpoint that is no longer probed counts as healthy.
    pub(crate) fn follow(
        &mut self,
        config: &Config,
        process: &Arc<Process>,
        log: &Arc<HealthLog>,
        runtime: &Handle,
    ) -> usize {
        self.agents.send_replace(agent_check::targets(config));
        let snapshot = process.snapshot();
        let mut before = std::mem::take(&mut self.tasks);
        let mut targets = Vec::new();
        for (settings, pool) in config.pools.iter().zip(&snapshot.pools) {
            let checks = pool.check_tls.as_ref();
            let tls = checks.map(|checks| &checks.tls).or(pool.tls.as_ref());
            let tls = tls.map(ClientTls::for_probes);
            for (index, (own, endpoint)) in
                settings.endpoints.iter().zip(&pool.endpoints).enumerate()
            {
                let name = checks.and_then(|checks| checks.names.get(index).cloned());
                let name = name.or_else(|| endpoint.server_name.clone());
                let tls = tls.clone().zip(name).map(|(config, name)| ProbeTls { config, name });
                let asks = settings.check.as_ref().map(|check| Asks {
                    check: check.clone(),
                    own: own.check.clone(),
                    address: own.address.clone(),
                    host: own.host.clone(),
                    tls: tls
                        .as_ref()
                        .map(|tls| (format!("{:?}", tls.name), Arc::as_ptr(pool) as usize)),
                    send_proxy: settings.send_proxy,
                    source: settings.source_of(own),
                    http: settings.http_of(own),
                });
                let target = settings.check.as_ref();
                let target = target.and_then(|check| ProbeTarget::new(check, settings, own, tls));
                let Some((target, asks)) = target.zip(asks) else {
                    unprobed(process, pool, index);
                    continue;
                };
                targets.push((target, asks));
            }
        }
        let count = targets.len();
        for (position, (target, asks)) in targets.into_iter().enumerate() {
            let of = target.of.clone();
            let kept = before.remove(&of).filter(|probing| probing.asks == asks);
            let probing = kept.unwrap_or_else(|| {
                let turn = ProbeTurn { position: position as u64, count: count as u64 };
                let task = runtime.spawn(watch(target, turn, process.clone(), log.clone()));
                Probing { asks, task: task.abort_handle() }
            });
            self.tasks.insert(of, probing);
        }
        count
    }
}

/// Sets an endpoint that is not probed to healthy, since earlier results no longer apply.
fn unprobed(process: &Process, pool: &UpstreamPool, endpoint: usize) {
    let health = pool.balancer.endpoint(endpoint).map(EndpointState::probed_health);
    if health == Some(Health::Unhealthy) {
        let now_us = process.balance_clock(Instant::now());
        pool.balancer.set_health(endpoint, Health::Healthy, now_us);
    }
    if pool.balancer.endpoint(endpoint).is_some_and(EndpointState::is_probe_draining) {
        pool.balancer.set_probe_draining(endpoint, false, process.balance_clock(Instant::now()));
    }
}

/// A probed endpoint.
#[derive(Debug)]
struct ProbeTarget {
    of: EndpointName,
    place: ProbePlace,
    question: ProbeQuestion,
    /// The TLS parameters of the pool, if it has any.
    tls: Option<ProbeTls>,
    /// The version of the PROXY header that the probe begins with. The port of a check alone need
    /// not understand one.
    send_proxy: Option<SendProxy>,
    /// The address of this machine that probes come from.
    source: Option<SocketAddr>,
    timeout: Duration,
    settings: ProbeSettings,
    /// The statuses for which an endpoint that is up drains.
    drain_on: Option<Statuses>,
}

/// The address at which an endpoint is probed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ProbePlace {
    /// The address of its traffic, with this port if one is given.
    Own(Option<u16>),
    /// Another address.
    Fixed(PeerAddress),
}

/// A request of a probe.
#[derive(Debug)]
struct HttpStep {
    question: HttpQuestion,
    port: Option<u16>,
    tls: Option<ProbeTls>,
    /// The version of HTTP: that of the endpoint's traffic at the same address, else HTTP/1.
    http: UpstreamHttp,
}

impl HttpStep {
    /// Makes the request.
    async fn ask(&self, start: ProbeStart<'_>, heard: &mut Heard) -> Result<(), ProbeFailure> {
        let Negotiated { mut stream, protocol } =
            negotiate(start, self.tls.as_ref(), heard).await?;
        let is_http2 = match (&self.tls, self.http) {
            (None, UpstreamHttp::Http2) => true,
            _ => protocol.as_deref() == Some(tls::H2),
        };
        if is_http2 {
            let scheme = if self.tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP };
            return Box::pin(http2::ask(&self.question, stream, &scheme, heard)).await;
        }
        self.question.ask(&mut stream, heard).await
    }
}

/// The TLS parameters of a probe in this version of HTTP.
fn offering(tls: ProbeTls, version: UpstreamHttp) -> ProbeTls {
    ProbeTls { config: tls::offering(&tls.config, version), ..tls }
}

/// The exchange that follows the connection.
#[derive(Debug)]
enum ProbeQuestion {
    /// Requests with their ports and TLS parameters.
    Http(Vec<HttpStep>),
    Tcp(weir_config::model::TcpProbe),
    /// The handshake alone is the probe.
    Tls,
    /// A call, and the TLS parameters.
    Grpc(GrpcQuestion, Option<ProbeTls>),
}

impl ProbeTarget {
    fn new(check: &Check, settings: &Pool, own: &Endpoint, tls: Option<ProbeTls>) -> Option<Self> {
        let place = match &own.check {
            EndpointCheck::Own => ProbePlace::Own(check.port),
            EndpointCheck::At(EndpointAddress::Socket(address)) => {
                ProbePlace::Fixed(PeerAddress::Socket(*address))
            }
            EndpointCheck::At(EndpointAddress::Unix(path)) => {
                ProbePlace::Fixed(PeerAddress::Unix(path.clone()))
            }
            // A name is refused when the configuration is checked.
            EndpointCheck::Off
            | EndpointCheck::At(EndpointAddress::Name(..) | EndpointAddress::Service(_)) => {
                return None;
            }
        };
        let request = |probe: &HttpProbe| {
            let encrypted = probe.tls.unwrap_or(settings.tls.is_some());
            // Other ports are often those of a server for probes alone.
            let is_own = matches!(place, ProbePlace::Own(None))
                && probe.port.is_none()
                && encrypted == settings.tls.is_some();
            let http = if is_own { settings.http_of(own) } else { UpstreamHttp::Http1 };
            HttpStep {
                question: HttpQuestion::new(probe, &host(own, encrypted)),
                port: probe.port,
                tls: tls.clone().filter(|_| encrypted).map(|tls| offering(tls, http)),
                http,
            }
        };
        let question = match &check.probe {
            Probe::Http(probe) => {
                let all = std::iter::once(&**probe).chain(&probe.then);
                ProbeQuestion::Http(all.map(request).collect())
            }
            Probe::Tcp(probe) => ProbeQuestion::Tcp(probe.clone()),
            Probe::Tls => ProbeQuestion::Tls,
            Probe::Grpc(probe) => {
                let encrypted = settings.tls.is_some();
                let question = GrpcQuestion::new(probe, &host(own, encrypted), encrypted)?;
                let tls = tls.clone().filter(|_| encrypted);
                ProbeQuestion::Grpc(question, tls.map(|tls| offering(tls, UpstreamHttp::Http2)))
            }
        };
        let micros = |duration: Duration| duration.as_micros() as u64;
        let send_proxy = settings.send_proxy.filter(|_| matches!(place, ProbePlace::Own(None)));
        let (pool, endpoint) = (settings.name.as_str().into(), own.name.as_str().into());
        Some(Self {
            of: EndpointName { pool, endpoint },
            place,
            question,
            tls,
            send_proxy,
            source: settings.source_of(own),
            drain_on: check.drain_on.clone(),
            timeout: check.timeout,
            settings: ProbeSettings {
                rise: check.rise,
                fall: check.fall,
                interval_us: micros(check.interval),
                fast_us: micros(check.fast.unwrap_or(check.interval)),
                down_us: micros(check.down.unwrap_or(check.interval)),
                spread_percent: check.spread_percent,
            },
        })
    }

    /// The address to connect to now; `None` while the endpoint has no address.
    fn address(&self, process: &Process) -> Option<PeerAddress> {
        let port = match &self.place {
            ProbePlace::Fixed(address) => return Some(address.clone()),
            ProbePlace::Own(port) => *port,
        };
        let snapshot = process.snapshot();
        let (pool, endpoint) = snapshot.endpoint(&self.of.pool, &self.of.endpoint)?;
        let address = pool.endpoints.get(endpoint)?.address.load_full()?;
        Some(at_port(&address, port))
    }

    /// Returns true if the probes have marked the endpoint unhealthy.
    fn is_down(&self, process: &Process) -> bool {
        self.finds(process, EndpointState::probed_health)
    }

    /// Returns true if the endpoint's agent says that it is down.
    fn is_held_down(&self, process: &Process) -> bool {
        self.finds(process, EndpointState::agent_health)
    }

    /// Returns the status for which the endpoint drains, if it answered with one.
    fn drains_for(&self, answer: &Result<(), ProbeFailure>) -> Option<u16> {
        let status = answer.as_ref().err()?.status?;
        self.drain_on.as_ref()?.contains(status).then_some(status)
    }

    /// Records that the endpoint drains for its probes, or no longer.
    fn note_draining(&self, process: &Process, log: &HealthLog, status: Option<u16>) {
        let snapshot = process.snapshot();
        let Some((pool, endpoint)) = snapshot.endpoint(&self.of.pool, &self.of.endpoint) else {
            return;
        };
        let now_us = process.balance_clock(Instant::now());
        if pool.balancer.set_probe_draining(endpoint, status.is_some(), now_us) {
            log.drains(&self.of, status);
        }
    }

    /// Returns true if this verdict about the endpoint is that it is unhealthy.
    fn finds(&self, process: &Process, verdict: fn(&EndpointState) -> Health) -> bool {
        let snapshot = process.snapshot();
        let found = snapshot.endpoint(&self.of.pool, &self.of.endpoint);
        let state = found.and_then(|(pool, endpoint)| pool.balancer.endpoint(endpoint));
        state.is_some_and(|state| verdict(state) == Health::Unhealthy)
    }

    /// Makes one probe.
    async fn ask(&self, address: &PeerAddress) -> Result<(), ProbeFailure> {
        let mut heard = Heard::default();
        let start = ProbeStart { address, source: self.source, send_proxy: self.send_proxy };
        let asked = timeout(self.timeout, async {
            match &self.question {
                ProbeQuestion::Http(requests) => {
                    for (number, step) in requests.iter().enumerate() {
                        heard.begin_step(number, requests.len());
                        let start = ProbeStart { address: &at_port(address, step.port), ..start };
                        step.ask(start, &mut heard).await?;
                    }
                    Ok(())
                }
                ProbeQuestion::Tcp(probe) if probe.steps.is_empty() => {
                    let mut stream = connect(start, None, &mut heard).await?;
                    tcp::ask(probe, &mut stream, &mut heard).await
                }
                ProbeQuestion::Tcp(probe) => {
                    let tls = self.tls.as_ref();
                    let begin = Conversation { start, tls };
                    begin.hold(&probe.steps, &mut heard).await
                }
                ProbeQuestion::Tls => connect(start, self.tls.as_ref(), &mut heard).await.map(drop),
                ProbeQuestion::Grpc(question, tls) => {
                    let stream = connect(start, tls.as_ref(), &mut heard).await?;
                    Box::pin(question.ask(stream, &mut heard)).await
                }
            }
        });
        match asked.await {
            Ok(answer) => answer,
            Err(_) => Err(heard.timed_out(&units::duration::format(self.timeout))),
        }
    }
}

/// Returns an address with this port, if one is given.
pub(super) fn at_port(address: &PeerAddress, port: Option<u16>) -> PeerAddress {
    match (address, port) {
        (PeerAddress::Socket(address), Some(port)) => {
            PeerAddress::Socket(SocketAddr::new(address.ip(), port))
        }
        (address, _) => address.clone(),
    }
}

/// The `Host` of a request if the probe names none.
fn host(own: &Endpoint, encrypted: bool) -> String {
    let usual = if encrypted { 443 } else { 80 };
    if let (Some(host), EndpointAddress::Socket(address)) = (&own.host, &own.address) {
        let port = address.port();
        return if port == usual { host.clone() } else { format!("{host}:{port}") };
    }
    match &own.address {
        EndpointAddress::Socket(address) if address.port() != usual => address.to_string(),
        EndpointAddress::Socket(SocketAddr::V6(address)) => format!("[{}]", address.ip()),
        EndpointAddress::Socket(address) => address.ip().to_string(),
        EndpointAddress::Name(name, port) if *port != usual => format!("{name}:{port}"),
        EndpointAddress::Name(name, _) | EndpointAddress::Service(name) => name.clone(),
        EndpointAddress::Unix(_) => "localhost".to_owned(),
    }
}

/// Probes an endpoint until the task is aborted.
async fn watch(target: ProbeTarget, turn: ProbeTurn, process: Arc<Process>, log: Arc<HealthLog>) {
    let clock = || process.balance_clock(Instant::now());
    let mut history = ProbeHistory::new(target.settings, clock());
    if target.is_down(&process) {
        // The result of a probe under an earlier configuration.
        history = history.down();
    }
    let mut due_us = history.first_probe_us(clock(), turn, fastrand::u64(..));
    loop {
        sleep_until(process.instant(due_us).into()).await;
        let began_us = clock();
        // An endpoint without an address takes no requests anyway, and cannot be probed.
        if let Some(address) = target.address(&process) {
            let began = Instant::now();
            let answer = target.ask(&address).await;
            if let Err(ProbeFailure { blame: Blame::Shortage, reason, .. }) = &answer {
                // The probe says nothing about the endpoint.
                log.not_probed(&target.of, reason);
                due_us = history.next_probe_us(began_us, clock(), fastrand::u64(..));
                continue;
            }
            let drains = target.drains_for(&answer).filter(|_| !target.is_down(&process));
            // One that drains and then fails goes on draining until it is down.
            if drains.is_some() || answer.is_ok() {
                target.note_draining(&process, &log, drains);
            }
            let answer = if drains.is_some() { Ok(()) } else { answer };
            let failure = answer.as_ref().err();
            let failure = failure.map(|failure| (failure.reason.clone(), failure.excerpt.clone()));
            log.probed(&target.of, began.elapsed(), failure);
            let outcome = if answer.is_ok() { ProbeOutcome::Passed } else { ProbeOutcome::Failed };
            let verdict = history.take(outcome, clock());
            if let ProbeVerdict::Turned { to, .. } = verdict {
                turned(&target, &process, &log, to);
                if to == Health::Unhealthy || !target.is_held_down(&process) {
                    log.change(&process, change(&target, to, answer));
                }
            }
        }
        due_us = history.next_probe_us(began_us, clock(), fastrand::u64(..));
    }
}

fn turned(target: &ProbeTarget, process: &Process, log: &HealthLog, to: Health) {
    let EndpointName { pool, endpoint } = &target.of;
    let snapshot = process.snapshot();
    let Some((pool, endpoint)) = snapshot.endpoint(pool, endpoint) else { return };
    let before = pool.balancer.is_panicking();
    pool.balancer.set_health(endpoint, to, process.balance_clock(Instant::now()));
    if pool.balancer.is_panicking() != before {
        log.panic(&pool.name, if before { Panic::Ends } else { Panic::Begins });
    }
}

fn change(target: &ProbeTarget, to: Health, answer: Result<(), ProbeFailure>) -> HealthChange {
    let to = match to {
        Health::Healthy => HealthState::Up,
        Health::Unhealthy => HealthState::Down,
    };
    let passed = |()| match target.settings.rise {
        1 => "the probe passed".to_owned(),
        rise => format!("{rise} probes passed"),
    };
    let (reason, excerpt) = match answer.map(passed) {
        Ok(reason) => (reason, String::new()),
        Err(failure) => (failure.reason, failure.excerpt),
    };
    HealthChange { of: target.of.clone(), to, reason, excerpt }
}

#[cfg(test)]
mod tests;
