//! Reads the live state into the values of `status.rs`. It changes nothing and holds no lock for
//! longer than the balancer's own counters do.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;
use weir_balance::{EndpointState, Health, QueuedExchange};
use weir_config::model::names::{Question, is_place_of};
use weir_config::model::overrides::address_text as endpoint_address_text;
use weir_config::model::{
    self, Addressed, EndpointCheck, EndpointOverride, ListenAddress, Probe, Protocol,
};
use weir_control::admin_port::{milliseconds, open_files_limit, restart_us, restarts};
use weir_control::health::health_log::{EndpointName, HealthEvent, HealthState, Outages};
use weir_proxy::incidents::Incidents;
use weir_proxy::net::PeerAddress;
use weir_proxy::process::Process;
use weir_proxy::snapshot::{CompiledAccessLog, CompiledListener};
use weir_proxy::upstream::stream_counts::StreamCounters;
use weir_proxy::upstream::{UpstreamEndpoint, UpstreamPool};
use weir_proxy::worker::WorkerLoad;
use weir_stats::ExchangeRecord;
use weir_stats::metrics::RouteFigures;

use super::traffic::{CountedTraffic, Of, per_second, phase_times};
use crate::access::seats::SeatCounts;
use crate::status::limits;
use crate::status::live;
use crate::status::read_model::ReadModel;
use crate::status::sampler::Marked;
use crate::status::sources::StatusSources;
use crate::status::{
    AdminStatus, EndpointStatus, IncidentStatus, Info, LimitsStatus, ListenerStatus, LogStatus,
    MemoryStatus, OperationalState, PoolStatus, ProbeStatus, QueueStatus, RouteStatus, Status,
    StreamFigures, StreamStatus, WaitingStatus, WorkerStatus,
};

/// The whole status at this moment.
pub(crate) fn status(sources: &StatusSources) -> Status {
    ReadModel::new(sources).status()
}

impl ReadModel<'_> {
    /// The whole status.
    pub(crate) fn status(&self) -> Status {
        Status {
            at_ms: milliseconds(self.wall),
            info: self.info(),
            listeners: self.listeners(),
            pools: self.pools(),
            workers: self.workers(),
            machine: self.recent_usage(),
            credits: self.sources.operations.credits().report(),
            streams: self.streams(),
            limits: self.limits(),
            logs: self.logs(),
            admin: self.admin(),
        }
    }

    fn counted(&self) -> CountedTraffic<'_> {
        CountedTraffic::of(self.look())
    }

    pub(crate) fn info(&self) -> Info {
        let process = self.process();
        let stopping = process.stopping.load(Ordering::Relaxed);
        let path = |path: &std::path::Path| path.display().to_string();
        let busy = process.loads.iter().map(|load| load.busy.load(Ordering::Relaxed));
        let started = self.sources.operations.started();
        Info {
            name: "Weir".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            host: host_name(),
            started_ms: milliseconds(started),
            uptime_s: self.wall.duration_since(started).unwrap_or_default().as_secs(),
            generation: self.snapshot().generation,
            state: if stopping { "stopping" } else { "running" }.to_owned(),
            workers: process.loads.len(),
            connections: process.open_connections(),
            max_connections: process.connections.cap(),
            requests_running: busy.sum(),
            configuration: self.sources.operations.configuration_file().map(path),
            state_file: self.sources.operations.state_file().as_deref().map(path),
            overrides: self.overrides.differences(&self.served.file).len(),
            open_files_limit: open_files_limit(),
            memory: memory(process),
            incidents: incidents(&process.incidents),
            started_us: started.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64,
            shortages: process.shortages.load(Ordering::Relaxed),
            refused_at_cap: process.refused_at_cap.load(Ordering::Relaxed),
            given_up_at_cap: process.given_up_at_cap.load(Ordering::Relaxed),
        }
    }

    /// The limits on clients and keys; `None` if there are none.
    pub(crate) fn limits(&self) -> Option<LimitsStatus> {
        limits::limits(self.snapshot(), self.process().limit_clock(self.now))
    }

    fn admin(&self) -> AdminStatus {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let SeatCounts { closed, late, refused } = &*self.sources.seats;
        AdminStatus { closed: read(closed), late: read(late), refused: read(refused) }
    }

    fn logs(&self) -> Vec<LogStatus> {
        let logs = self.served.live.logs.iter().zip(&self.snapshot().logs);
        let one = |(log, own): (&model::AccessLog, &CompiledAccessLog)| LogStatus {
            name: log.name.clone(),
            dropped: own.sink.dropped(),
        };
        logs.map(one).collect()
    }

    pub(crate) fn workers(&self) -> Vec<WorkerStatus> {
        let figures = &self.look().now.workers;
        let loads = self.process().loads.iter().enumerate();
        let worker = |(number, load): (usize, &Arc<WorkerLoad>)| {
            let counted = figures.get(number).cloned().unwrap_or_default();
            WorkerStatus {
                number,
                connections: load.open.load(Ordering::Relaxed),
                requests_running: load.busy.load(Ordering::Relaxed),
                held: load.held.load(Ordering::Relaxed),
                requests: counted.exchanges,
                own_us: counted.own_us,
                lag: phase_times("lag", &counted.lag),
            }
        };
        loads.map(worker).collect()
    }

    pub(crate) fn listeners(&self) -> Vec<ListenerStatus> {
        let (look, counted) = (self.look(), self.counted());
        let listeners = self.snapshot().listeners.iter();
        let one = |listener: &Arc<CompiledListener>| {
            let own = self.served.config.listeners.iter().find(|own| own.name == *listener.name);
            let figures = look.now.listeners.iter().find(|own| own.listener == *listener.name);
            let figures = figures.cloned().unwrap_or_default();
            let moment = look.moment.figures.listeners.iter();
            let mut moment = moment.filter(|own| own.listener == *listener.name);
            let accepted = moment.next().map_or(0, |own| own.accepted);
            let mark = look.marks.of(&Marked::Listener(listener.name.to_string()));
            ListenerStatus {
                name: listener.name.to_string(),
                addresses: listener.addresses.iter().map(address_text).collect(),
                protocol: match listener.protocol {
                    Protocol::Http => "http".to_owned(),
                    Protocol::Tcp => "tcp".to_owned(),
                },
                tls: listener.tls.is_some(),
                connections: listener.gate.open.load(Ordering::Relaxed),
                max_connections: own.and_then(|own| own.max_connections),
                most_connections: listener.gate.most_open.load(Ordering::Relaxed),
                accepted: figures.accepted,
                accepted_per_second: per_second(accepted, look.moment.length_us),
                accepted_per_second_max: mark.accepted,
                idle_closed: figures.given_up_idle.iter().sum(),
                handshakes: [
                    figures.handshakes_full,
                    figures.handshakes_resumed,
                    figures.handshakes_failed,
                ],
                traffic: counted.traffic(Of::Listener(&listener.name)),
            }
        };
        listeners.map(one).collect()
    }

    /// The routes that had a request.
    pub(crate) fn routes(&self) -> Vec<RouteStatus> {
        let counted = self.counted();
        let routes = self.look().now.routes.iter();
        let one = |figures: &RouteFigures| RouteStatus {
            listener: figures.listener.clone(),
            route: figures.route.clone(),
            pool: figures.pool.clone(),
            traffic: counted
                .traffic(Of::Route { listener: &figures.listener, route: &figures.route }),
        };
        routes.map(one).filter(|route| route.traffic.requests > 0).collect()
    }

    /// The routes that had a stream.
    fn streams(&self) -> Vec<StreamStatus> {
        let look = self.look();
        let one = |figures: &RouteFigures| {
            let mut recent = look.recent.figures.routes.iter();
            let recent = recent.find(|own| own.is_of(figures));
            let recent = recent.map(|own| own.streams.clone()).unwrap_or_default();
            StreamStatus {
                listener: figures.listener.clone(),
                route: figures.route.clone(),
                pool: figures.pool.clone(),
                first: phase_times("first", &figures.streams.first),
                gap: phase_times("gap", &figures.streams.gaps),
                recent_first: phase_times("first", &recent.first),
                recent_gap: phase_times("gap", &recent.gaps),
            }
        };
        let streamed = look.now.routes.iter().filter(|figures| !figures.streams.is_empty());
        streamed.map(one).collect()
    }

    /// The slowest requests of the last 15 minutes, of one route or of all, slowest first.
    pub(crate) fn slowest(&self, route: Option<&str>, most: usize) -> Vec<Arc<ExchangeRecord>> {
        let now_us = self.process().balance_clock(self.now);
        let mut slow = self.process().numbers.slowest(route, now_us);
        slow.truncate(most);
        slow
    }

    /// The record of the request with this id.
    pub(crate) fn why(&self, request_id: &str) -> Option<ExchangeRecord> {
        let now_us = self.process().balance_clock(self.now);
        self.process().numbers.why(request_id, now_us)
    }

    pub(crate) fn pools(&self) -> Vec<PoolStatus> {
        let counted = self.counted();
        let pools = self.snapshot().pools.iter();
        pools.filter_map(|pool| self.pool(pool, &counted)).collect()
    }

    /// One pool, by its name.
    pub(crate) fn pool_named(&self, name: &str) -> Option<PoolStatus> {
        self.pool(self.snapshot().pool(name)?, &self.counted())
    }

    /// One endpoint, by names.
    pub(crate) fn endpoint_named(&self, pool: &str, name: &str) -> Option<EndpointStatus> {
        let of = self.served.addressed(pool, name);
        let place = of.and_then(|_| self.served.endpoint(pool, name)).map(|own| own.name.clone());
        let name = place.as_deref().unwrap_or(name);
        let (pool, index) = self.snapshot().endpoint(pool, name)?;
        self.endpoint(index, pool, self.live(pool)?, &self.counted())
    }

    /// A pool's configuration, with servers in place of names.
    fn live(&self, pool: &UpstreamPool) -> Option<&model::Pool> {
        self.served.live.pools.iter().find(|config| config.name == *pool.name)
    }

    fn pool(&self, pool: &UpstreamPool, counted: &CountedTraffic<'_>) -> Option<PoolStatus> {
        let config = self.live(pool)?;
        let length = pool.balancer.queue_length();
        let given_up = counted.given_up(&pool.name, None);
        let mark = self.look().marks.of(&Marked::Pool(pool.name.to_string()));
        let endpoints: Vec<EndpointStatus> = (0..pool.endpoints.len())
            .filter_map(|endpoint| self.endpoint(endpoint, pool, config, counted))
            .collect();
        let usable =
            endpoints.iter().filter(|endpoint| live::is_usable(pool, endpoint.state)).count();
        Some(PoolStatus {
            name: pool.name.to_string(),
            policy: pool.balancer.policy().as_str().to_owned(),
            state: if usable > 0 { "up" } else { "down" }.to_owned(),
            panicking: pool.balancer.is_panicking(),
            usable,
            keepalive_idle: pool.keepalive.idle,
            in_flight: pool.balancer.in_flight(),
            most_in_flight: endpoints
                .iter()
                .map(|one| u64::from(one.most_in_flight))
                .chain([mark.in_flight, pool.balancer.in_flight()])
                .max()
                .unwrap_or_default(),
            queue: config.queue.as_ref().zip(pool.queue.as_ref()).map(|(queue, live)| {
                QueueStatus {
                    now: length.now,
                    max: u64::from(queue.max),
                    longest: length.longest,
                    timeout_ms: live.timeout.as_millis() as u64,
                }
            }),
            counters: live::counters(pool),
            repeated: given_up.repeated,
            redispatched: given_up.redispatched,
            traffic: counted.traffic(Of::Pool(&pool.name)),
            endpoints,
        })
    }

    fn endpoint(
        &self,
        index: usize,
        pool: &UpstreamPool,
        config: &model::Pool,
        counted: &CountedTraffic<'_>,
    ) -> Option<EndpointStatus> {
        let live = pool.endpoints.get(index)?;
        let own = named(&config.endpoints, &live.name, index)?;
        let written = self.written(&config.name, own, index);
        let counts = pool.balancer.endpoint(index)?;
        let now_us = self.process().balance_clock(self.now);
        let state = live::state(counts, now_us);
        let (since, event) = self.standing(pool, live, &names_of(written, own), state);
        let checked = config.check.is_some() && own.check != EndpointCheck::Off;
        let given_up = counted.given_up(&pool.name, Some(&live.name));
        let outages = self.outages(pool, live);
        let (reason, excerpt) =
            event.map(|event| (event.reason, event.excerpt)).unwrap_or_default();
        Some(EndpointStatus {
            pool: pool.name.to_string(),
            name: live.name.to_string(),
            address: written.map_or_else(
                || live.address_text.to_string(),
                |written| endpoint_address_text(&written.address),
            ),
            resolved: written.and_then(|written| resolved(live, written)),
            state,
            since_ms: milliseconds(since),
            order: counts.admin_state().as_str().to_owned(),
            health: match counts.health() {
                Health::Unhealthy => "down",
                Health::Healthy if checked => "up",
                Health::Healthy => "unchecked",
            }
            .to_owned(),
            reason,
            excerpt,
            probe: self.probe(&pool.name, &live.name, config),
            ejected_until_ms: self.ejected_until_ms(counts, now_us),
            in_flight: counts.in_flight(),
            most_in_flight: counts.most_in_flight(),
            max_conn: own.max_conn,
            max_conn_now: counts.max_conn(),
            queued: counts.queued(),
            most_queued: counts.most_queued(),
            weight: own.weight,
            tier: config.tier(own),
            backup: own.backup,
            idle_connections: live.idle.now(),
            connections_opened: live.opened.load(Ordering::Relaxed),
            connections_reused: live.reused.load(Ordering::Relaxed),
            idle_taken_over: live.taken_over.load(Ordering::Relaxed),
            idle_elsewhere: live.idle_elsewhere.load(Ordering::Relaxed),
            streams: streams(&live.streams),
            picks: counts.picks(),
            passive_failures: counts.failures(),
            ejections: counts.ejections(),
            ejections_refused: counts.ejections_refused(),
            stalls: counts.stalls(),
            outages: outages.count,
            out_s: outages.lasted.as_secs(),
            max_idle: config.keepalive.idle,
            traffic: counted.traffic(Of::Endpoint(&pool.name, &live.name)),
            failed_attempts: given_up.attempts,
            repeated: given_up.repeated,
            redispatched: given_up.redispatched,
            overridden: self.overridden(&config.name, written, own),
        })
    }

    /// The outages of an endpoint so far.
    fn outages(&self, pool: &UpstreamPool, live: &UpstreamEndpoint) -> Outages {
        let of = EndpointName { pool: pool.name.clone(), endpoint: live.name.clone() };
        self.sources.operations.health().outages(&of)
    }

    /// The end of an endpoint's ejection, milliseconds since 1970; `None` if it is not ejected.
    fn ejected_until_ms(&self, live: &EndpointState, now_us: u64) -> Option<u64> {
        let left = live.ejected_until().saturating_sub(now_us);
        live.is_ejected(now_us).then(|| milliseconds(self.wall + Duration::from_micros(left)))
    }

    fn probe(
        &self,
        pool: &Arc<str>,
        endpoint: &Arc<str>,
        config: &model::Pool,
    ) -> Option<ProbeStatus> {
        let of = EndpointName { pool: pool.clone(), endpoint: endpoint.clone() };
        let last = self.sources.operations.health().last_probe(&of)?;
        let check = config.check.as_ref()?;
        let kind = match check.probe {
            Probe::Http(_) => "http",
            Probe::Tcp(_) => "tcp",
            Probe::Tls => "tls",
            Probe::Grpc(_) => "grpc",
        };
        let passed = last.failure.is_none();
        let (reason, excerpt) = last.failure.unwrap_or_default();
        Some(ProbeStatus {
            kind: kind.to_owned(),
            at_ms: milliseconds(last.at),
            took_us: last.took.as_micros() as u64,
            passed,
            reason,
            excerpt,
            probes: last.probes,
            failures: last.failures,
            rise: check.rise,
            fall: check.fall,
        })
    }

    /// The time since which an endpoint is in its state, and the health event that caused it, if
    /// one did.
    fn standing(
        &self,
        pool: &UpstreamPool,
        endpoint: &UpstreamEndpoint,
        names: &[String],
        state: OperationalState,
    ) -> (SystemTime, Option<HealthEvent>) {
        let of = EndpointName { pool: pool.name.clone(), endpoint: endpoint.name.clone() };
        let (noted, lasted) = self.sources.operations.health().standing(&of);
        let observed = match state {
            OperationalState::Draining | OperationalState::Maintenance => {
                return (self.sources.operations.ordered_at(&pool.name, names), None);
            }
            OperationalState::Unresolved => return (self.sources.operations.started(), None),
            OperationalState::Up => HealthState::Up,
            OperationalState::Down => HealthState::Down,
            OperationalState::Ejected => HealthState::Ejected,
            OperationalState::Stalled => HealthState::Stalled,
        };
        // A change is recorded a moment after it takes effect.
        let since = if noted == observed { self.wall - lasted } else { self.wall };
        let ordered = self.sources.operations.ordered_at(&pool.name, names);
        let since = if state == OperationalState::Up { since.max(ordered) } else { since };
        (since, self.sources.operations.health().latest_of(&pool.name, &endpoint.name))
    }

    /// The configured endpoint, perhaps a name, from which this server was made.
    fn written(&self, pool: &str, own: &model::Endpoint, index: usize) -> Option<&model::Endpoint> {
        let pool = self.served.config.pools.iter().find(|known| known.name == *pool)?;
        named(&pool.endpoints, &own.name, index)
            .or_else(|| pool.endpoints.iter().find(|written| is_place_of(&own.name, &written.name)))
    }

    fn overridden(
        &self,
        pool: &str,
        written: Option<&model::Endpoint>,
        own: &model::Endpoint,
    ) -> Vec<String> {
        let Some(changed) = self.overrides.pools.get(pool) else { return Vec::new() };
        let name = &written.unwrap_or(own).name;
        let mut fields = Vec::new();
        if changed.added.iter().any(|added| added.name == *name) {
            fields.push("added".to_owned());
        }
        let of = written.and_then(|written| Addressed::of(written, own));
        let of_address = of.and_then(|of| self.overrides.of_address(pool, &of));
        let all = [changed.endpoints.get(name), of_address];
        let is = |has: fn(&EndpointOverride) -> bool| all.into_iter().flatten().any(has);
        let changed = [
            ("order", is(|own| own.order.is_some())),
            ("weight", is(|own| own.weight.is_some())),
            ("max_conn", is(|own| own.max_conn.is_some())),
        ];
        let changed = changed.into_iter().filter(|(_, changed)| *changed);
        fields.extend(changed.map(|(field, _)| field.to_owned()));
        fields
    }

    /// Returns true if there is a pool of that name.
    pub(crate) fn has_pool(&self, name: &str) -> bool {
        self.snapshot().pool(name).is_some()
    }

    /// The waiting exchanges of every pool, by its name.
    pub(crate) fn queues(&self) -> impl Iterator<Item = (&str, Vec<WaitingStatus>)> {
        let pools = self.snapshot().pools.iter();
        pools.map(|pool| (&*pool.name, self.queue(&pool.name).unwrap_or_default()))
    }

    /// The exchanges that wait in a pool, oldest first.
    pub(crate) fn queue(&self, pool: &str) -> Option<Vec<WaitingStatus>> {
        let live = self.snapshot().pool(pool)?;
        let now_us = self.process().balance_clock(Instant::now());
        let patience = live.queue.as_ref().map_or(0, |queue| queue.timeout.as_micros() as u64);
        let one = |waiting| self.waiting(live, waiting, now_us, patience);
        Some(live.balancer.waiting().into_iter().map(one).collect())
    }

    fn waiting(
        &self,
        pool: &UpstreamPool,
        waiting: QueuedExchange,
        now_us: u64,
        patience_us: u64,
    ) -> WaitingStatus {
        let waited_us = now_us.saturating_sub(waiting.since_us);
        let endpoint = waiting.bound.and_then(|index| pool.endpoints.get(index));
        let about = waiting.about;
        let wish = String::from_utf8_lossy(&about.wish);
        let (method, target) = wish.split_once(' ').unwrap_or_default();
        WaitingStatus {
            position: waiting.position,
            since_ms: milliseconds(self.wall - Duration::from_micros(waited_us)),
            waited_us,
            left_us: patience_us.saturating_sub(waited_us),
            request_id: String::from_utf8_lossy(&about.name).into_owned(),
            client: client_text(&about.client),
            method: method.to_owned(),
            target: if about.cut { format!("{target}…") } else { target.to_owned() },
            pool: pool.name.to_string(),
            endpoint: endpoint.map(|endpoint| endpoint.name.to_string()),
        }
    }
}

/// The endpoint of this name, looked for at this index first: to scan a thousand endpoints for each
/// of them would be slow.
fn named<'a>(
    endpoints: &'a [model::Endpoint],
    name: &str,
    place: usize,
) -> Option<&'a model::Endpoint> {
    let here = endpoints.get(place).filter(|own| own.name == *name);
    here.or_else(|| endpoints.iter().find(|own| own.name == *name))
}

/// The names that orders for an endpoint may have used: as configured and, if it is one of a name's
/// addresses, with its address.
fn names_of(written: Option<&model::Endpoint>, own: &model::Endpoint) -> Vec<String> {
    let mut names = vec![written.unwrap_or(own).name.clone()];
    names.extend(written.and_then(|written| Addressed::of(written, own)).map(|of| of.to_string()));
    names
}

/// The client's address from the octets that the data plane gave the queue; empty without one.
fn client_text(octets: &[u8]) -> String {
    let v4 = || <[u8; 4]>::try_from(octets).ok().map(IpAddr::from);
    let v6 = || <[u8; 16]>::try_from(octets).ok().map(IpAddr::from);
    v4().or_else(v6).map(|address| address.to_string()).unwrap_or_default()
}

fn resolved(live: &UpstreamEndpoint, own: &model::Endpoint) -> Option<String> {
    Question::of(&own.address)?;
    match live.address.load_full().as_deref() {
        Some(PeerAddress::Socket(address)) => Some(address.to_string()),
        _ => None,
    }
}

/// An address as a configuration writes it.
pub(crate) fn address_text(address: &ListenAddress) -> String {
    match address {
        ListenAddress::Socket(address) => address.to_string(),
        ListenAddress::Unix { path, .. } => format!("unix:{}", path.display()),
    }
}

/// The machine's name.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The incidents of workers and of earlier serving processes.
fn incidents(incidents: &Incidents) -> IncidentStatus {
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    IncidentStatus {
        restarts: restarts(),
        restart_us: restart_us(),
        hangs: read(&incidents.hangs),
        replaced: read(&incidents.replaced),
        panics: read(&incidents.panics),
        lost_connections: read(&incidents.lost_connections),
        lost_requests: read(&incidents.lost_exchanges),
    }
}

/// The state of the memory budget.
fn memory(process: &Process) -> MemoryStatus {
    let figures = process.memory.figures();
    MemoryStatus {
        used: figures.used,
        max: figures.max,
        pressure: figures.pressure.as_str().to_owned(),
        connections_refused: figures.refused,
        reads_paused: figures.paused,
        requests_given_up: figures.given_up,
    }
}

/// The figures of [`EndpointStatus::streams`].
fn streams(counts: &StreamCounters) -> StreamFigures {
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    StreamFigures {
        open: counts.open(),
        opened: of(&counts.opened),
        reset: of(&counts.reset),
        connections_ended: of(&counts.connections_ended),
    }
}
