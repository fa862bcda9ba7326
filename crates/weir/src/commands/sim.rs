//! `weir sim`: compares policies, limits and queues in virtual time. This is the command line; the
//! simulation is in `weir_lab::sim`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use weir_balance::PolicyKind;
use weir_lab::sim::{
    self, ComparisonReport, LongStreams, MaxConn, Outage, POINTS_HEADER, PeriodicPause, Preset,
    QueueLimits, RequestTrace, Scenario, ServiceSource, SimCandidate, SimEndpoint, SimLoad,
    SimPlan, SimQueue, Spread, StateSharing, count_or, each, rate, share,
};
use weir_lab::units::time_ns;

use crate::config_file;
use crate::failure::CommandFailure;
use crate::terminal::print;

const EXAMPLES: &str = "\
The values of comma-separated lists are compared: every policy with every limit and queue, under every \
load. Slashes give each endpoint its own value.

Examples:
  weir sim 2008-mongrel
  weir sim --concurrency 10,30 --policy round_robin,least_conn --max-conn none,1,2
  weir sim --rate 100,140 --service lognormal:15ms,0.6 --pause every=5s,for=200ms
  weir sim --trace access.json --at-once 8 --max-conn none,4,8 --speed-up 1,1.5
  weir sim --rate 100 --service 10ms --fail frozen:2:5s..11s --policy least_conn
  weir sim --at-once any --concurrency 200 --max-conn 10 --state shared,per-process --workers 4
  weir sim -c weir.conf --pool app --at-once 1 --trace access.json --max-conn 1,2";

/// Compare policies, limits and queues in virtual time, with the code of the balancer
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SimArguments {
    /// Predefined comparison; flags change it
    #[arg(value_name = "PRESET", value_parser = presets())]
    preset: Option<String>,
    /// Configuration file to take the pool from: servers, weights, limits, policy and queue. It is
    /// compared with the values of the flags
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["preset", "endpoints", "weight"])]
    #[arg(requires = "at_once")]
    config: Option<PathBuf>,
    /// Pool, if the configuration or the access log has several
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    #[command(flatten)]
    load: LoadArguments,
    #[command(flatten)]
    servers: ServerArguments,
    #[command(flatten)]
    balancer: BalancerArguments,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Load")]
struct LoadArguments {
    /// Number of requests of each run [default: 10000, or those of the trace]
    #[arg(long, value_name = "N")]
    requests: Option<u64>,
    /// Number of clients, each with one request at a time, as `ab -c N` [default: 10]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    concurrency: Vec<u32>,
    /// Requests per second, independent of the responses (open loop)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = rate)]
    #[arg(conflicts_with = "concurrency")]
    rate: Vec<f64>,
    /// Distribution of the arrivals of --rate: independent or evenly spaced
    #[arg(long, value_enum, default_value_t = Spacing::Poisson, requires = "rate")]
    arrivals: Spacing,
    /// Recorded requests: Weir's `json` access log, or CSV with the columns arrival_ms, service_ms,
    /// key
    #[arg(long, value_name = "FILE", conflicts_with_all = ["concurrency", "rate"])]
    trace: Option<PathBuf>,
    /// Factor by which the trace is replayed faster than recorded
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "trace")]
    speed_up: Vec<f64>,
    /// Service time of a request: constant:20ms, exp:20ms, lognormal:MEDIAN,SIGMA,
    /// mix:98%10ms+2%500ms, list:FILE or trace; several are compared [default: exp:20ms, or trace]
    #[arg(long, value_name = "TIMES", value_parser = ServiceSource::from_str)]
    service: Vec<ServiceSource>,
    /// Time from a response to the client's next request
    #[arg(long, value_name = "TIME", value_parser = time_ns)]
    think: Option<u64>,
    /// Number of different keys, for hashing policies [default: 1000]
    #[arg(long, value_name = "N")]
    keys: Option<u64>,
    /// Share of requests that are bound to an endpoint by affinity, such as 20%
    #[arg(long, value_name = "SHARE", value_parser = share)]
    sticky: Option<f64>,
    /// Share of requests that are long-lived streams, such as 5%: the server answers them as the
    /// others, and they keep their slot for --stream-time behind that
    #[arg(long, value_name = "SHARE", value_parser = share)]
    streams: Option<f64>,
    /// Time for which a stream keeps its slot, a distribution as for --service [default: exp:30s]
    #[arg(long, value_name = "TIMES", value_parser = ServiceSource::from_str, requires = "streams")]
    stream_time: Option<ServiceSource>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Spacing {
    Poisson,
    Constant,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Servers")]
struct ServerArguments {
    /// Number of servers [default: 3]
    #[arg(long, value_name = "N")]
    endpoints: Option<usize>,
    /// Requests that a server processes at once, or `any`; `1/1/8` gives each server its own value,
    /// here and below [default: 1]
    #[arg(long, value_name = "N", value_parser = PerEndpoint::at_once)]
    at_once: Option<PerEndpoint<Option<u32>>>,
    /// Speed: a server with 2 needs half of the service time
    #[arg(long, value_name = "FACTOR", value_parser = PerEndpoint::<f64>::read)]
    speed: Option<PerEndpoint<f64>>,
    /// Weight in the pool
    #[arg(long, value_name = "N", value_parser = PerEndpoint::<u32>::read)]
    weight: Option<PerEndpoint<u32>>,
    /// Requests that may wait at a server, or `any`; it refuses more [default: any]
    #[arg(long, value_name = "N", value_parser = PerEndpoint::at_once)]
    backlog: Option<PerEndpoint<Option<u32>>>,
    /// Repeated pause of every server, such as every=5s,for=200ms
    #[arg(long, value_name = "PAUSE", value_parser = PeriodicPause::from_str)]
    pause: Vec<PeriodicPause>,
    /// Failure: down:ENDPOINT:FROM..UNTIL or frozen:ENDPOINT:FROM..UNTIL; may be repeated
    #[arg(long, value_name = "FAILURE", value_parser = Outage::from_str)]
    fail: Vec<Outage>,
    /// Network latency from the proxy to a server, and the same back
    #[arg(long, value_name = "TIME", value_parser = time_ns)]
    latency: Option<u64>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Balancer")]
struct BalancerArguments {
    /// Load balancing policies [default: round_robin,least_conn]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = policies())]
    policy: Vec<String>,
    /// Largest number of requests in flight at each endpoint, or `none` [default: none,1]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = MaxConn::from_str)]
    max_conn: Vec<MaxConn>,
    /// Queue while all endpoints are at their limit: on (requests wait), off (requests are
    /// refused), buggy (waiting requests are forgotten, as with HAProxy before 1.3.15.2) [default:
    /// on]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = SimQueue::from_str)]
    queue: Vec<SimQueue>,
    /// Largest number of waiting requests [default: as configured, otherwise 1024]
    #[arg(long, value_name = "N")]
    queue_max: Option<u32>,
    /// Longest wait, or `none` [default: as configured, otherwise 5s]
    #[arg(long, value_name = "TIME", value_parser = timeout)]
    queue_timeout: Option<Timeout>,
    /// Detection of stalled servers, which do not answer while others do [default: as configured,
    /// otherwise on]
    #[arg(long, value_enum, value_name = "SWITCH")]
    stall: Option<Switch>,
    /// State of limits, queue and policy: shared by all workers (as in Weir), or per-process (each
    /// worker has its own, as with HAProxy's `nbproc`) [default: shared]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = StateSharing::from_str)]
    state: Vec<StateSharing>,
    /// Number of workers with state per process [default: 4]
    #[arg(long, value_name = "N", requires = "state")]
    workers: Option<u32>,
    /// Unit that is assigned to a random worker with state per process: a connection with all its
    /// requests, or each request [default: connection]
    #[arg(long, value_enum, value_name = "WHAT", requires = "state")]
    spread: Option<SpreadName>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SpreadName {
    Connection,
    Request,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Output")]
struct OutputArguments {
    /// Seed of the random numbers: the same seed gives the same output [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write all results as JSON; with `-` to standard output instead of the tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a CSV line for each request of each run
    #[arg(long, value_name = "FILE")]
    points: Option<PathBuf>,
}

/// One value for all endpoints, or one for each.
#[derive(Clone, Debug)]
struct PerEndpoint<T>(Vec<T>);

impl<T: FromStr> PerEndpoint<T> {
    fn read(text: &str) -> Result<Self, String> {
        let number = |part: &str| part.parse().map_err(|_| format!("`{part}` is not a number"));
        each(text, number).map(Self)
    }
}

impl PerEndpoint<Option<u32>> {
    fn at_once(text: &str) -> Result<Self, String> {
        each(text, |part| count_or(part, "any")).map(Self)
    }
}

impl<T: Copy> PerEndpoint<T> {
    /// Sets the value of each endpoint.
    fn set(
        &self,
        flag: &str,
        endpoints: &mut [SimEndpoint],
        assign: impl Fn(&mut SimEndpoint, T),
    ) -> Result<(), CommandFailure> {
        if self.0.len() != 1 && self.0.len() != endpoints.len() {
            return Err(CommandFailure::Usage(format!(
                "{flag} has {} values for {} endpoints: give one value, or one per endpoint",
                self.0.len(),
                endpoints.len()
            )));
        }
        for (endpoint, value) in endpoints.iter_mut().zip(self.0.iter().cycle()) {
            assign(endpoint, *value);
        }
        Ok(())
    }
}

/// A timeout that may be `none`. It is a type of its own because clap reads an `Option` as an
/// optional flag.
#[derive(Clone, Copy, Debug)]
struct Timeout(Option<u64>);

fn timeout(text: &str) -> Result<Timeout, String> {
    if text == "none" { Ok(Timeout(None)) } else { time_ns(text).map(Some).map(Timeout) }
}

fn presets() -> PossibleValuesParser {
    Preset::all().iter().map(|(name, _)| *name).into()
}

fn policies() -> PossibleValuesParser {
    PolicyKind::all().iter().map(|policy| policy.as_str()).into()
}

pub(crate) fn run(arguments: &SimArguments) -> Result<(), CommandFailure> {
    let plan = arguments.plan()?;
    plan.check().map_err(CommandFailure::Usage)?;
    let report = match &arguments.output.points {
        Some(path) => run_with_points(&plan, path)?,
        None => sim::run(&plan, |_, _, _| Ok(())).map_err(CommandFailure::RunTime)?,
    };
    match &arguments.output.json {
        Some(path) if path.as_os_str() == "-" => print(&report.to_json()),
        Some(path) => {
            std::fs::write(path, report.to_json()).map_err(|error| cannot_write(path, &error))?;
            print(&report.to_text())
        }
        None => print(&report.to_text()),
    }
}

fn run_with_points(plan: &SimPlan, path: &Path) -> Result<ComparisonReport, CommandFailure> {
    let mut file = BufWriter::new(File::create(path).map_err(|error| cannot_write(path, &error))?);
    file.write_all(POINTS_HEADER.as_bytes()).map_err(|error| cannot_write(path, &error))?;
    let report = sim::run(plan, |scenario, candidate, outcomes| {
        sim::write_points(&mut file, scenario, candidate, outcomes)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))
    })
    .map_err(CommandFailure::RunTime)?;
    file.flush().map_err(|error| cannot_write(path, &error))?;
    Ok(report)
}

fn cannot_write(path: &Path, error: &std::io::Error) -> CommandFailure {
    CommandFailure::RunTime(format!("cannot write {}: {error}", path.display()))
}

impl SimArguments {
    fn plan(&self) -> Result<SimPlan, CommandFailure> {
        let mut plan = match &self.preset {
            Some(name) => {
                let found = Preset::all().iter().find(|(own, _)| own == name);
                let (_, preset) = found
                    .ok_or_else(|| CommandFailure::Usage(format!("there is no preset {name}")))?;
                preset.plan().map_err(CommandFailure::Usage)?
            }
            None => SimPlan::default(),
        };
        if let Some(seed) = self.output.seed {
            plan.seed = seed;
        }
        let configured = self.configured(&mut plan)?;
        self.servers.apply(&mut plan)?;
        self.load.apply(&mut plan, self.pool.as_deref())?;
        self.balancer.apply(&mut plan, configured)?;
        self.balancer.apply_state(&mut plan)?;
        Ok(plan)
    }
}

impl SimArguments {
    /// Returns the pool of the configuration, if one is named.
    fn configured(&self, plan: &mut SimPlan) -> Result<Option<SimCandidate>, CommandFailure> {
        let Some(path) = &self.config else { return Ok(None) };
        let config = config_file::native(path)?.config;
        let names = || config.pools.iter().map(|pool| pool.name.as_str()).collect::<Vec<_>>();
        let found = match (&self.pool, config.pools.as_slice()) {
            (Some(name), pools) => pools.iter().find(|pool| pool.name == *name),
            (None, [only]) => Some(only),
            (None, _) => None,
        };
        let Some(pool) = found else {
            return Err(CommandFailure::Usage(format!(
                "{} has the pools {}: select one with --pool",
                path.display(),
                names().join(", ")
            )));
        };
        plan.title = format!("Pool {} of {}", pool.name, path.display());
        Ok(Some(plan.take_pool(pool)))
    }
}

impl ServerArguments {
    fn apply(&self, plan: &mut SimPlan) -> Result<(), CommandFailure> {
        if let Some(count) = self.endpoints {
            // The plan's check refuses more endpoints, so no more are built.
            plan.endpoints = vec![SimEndpoint::default(); count.min(sim::MAX_ENDPOINTS + 1)];
        }
        let endpoints = &mut plan.endpoints;
        if let Some(values) = &self.at_once {
            values.set("--at-once", endpoints, |endpoint, value| endpoint.at_once = value)?;
        }
        if let Some(values) = &self.speed {
            values.set("--speed", endpoints, |endpoint, value| endpoint.speed = value)?;
        }
        if let Some(values) = &self.weight {
            values.set("--weight", endpoints, |endpoint, value| endpoint.weight = value)?;
        }
        if let Some(values) = &self.backlog {
            values.set("--backlog", endpoints, |endpoint, value| endpoint.backlog = value)?;
        }
        plan.pauses.extend(&self.pause);
        plan.outages.extend(&self.fail);
        plan.latency = self.latency.unwrap_or(plan.latency);
        Ok(())
    }
}

impl LoadArguments {
    fn apply(&self, plan: &mut SimPlan, pool: Option<&str>) -> Result<(), CommandFailure> {
        plan.think = self.think.unwrap_or(plan.think);
        plan.keys = self.keys.unwrap_or(plan.keys);
        plan.sticky = self.sticky.unwrap_or(plan.sticky);
        if let Some(share) = self.streams {
            let usual = || ServiceSource::from_str("exp:30s").map_err(CommandFailure::Usage);
            let held = self.stream_time.clone().map_or_else(usual, Ok)?;
            plan.streams = Some(LongStreams { share, held });
        }
        if let Some(path) = &self.trace {
            let trace = RequestTrace::read(path, pool).map_err(CommandFailure::RunTime)?;
            plan.requests = trace.len();
            plan.trace = Some(Arc::new(trace));
        }
        plan.requests = self.requests.unwrap_or(plan.requests);
        let loads = self.loads();
        let loads = match (loads.is_empty(), plan.scenarios.is_empty()) {
            (false, _) => loads,
            (true, true) => vec![SimLoad::Closed(10)],
            (true, false) => distinct(plan.scenarios.iter().map(|scenario| scenario.load)),
        };
        let services = match (self.service.is_empty(), plan.scenarios.is_empty()) {
            (false, _) => self.service.clone(),
            (true, true) if self.trace.is_some() => vec![ServiceSource::Trace],
            (true, true) => {
                vec![ServiceSource::from_str("exp:20ms").map_err(CommandFailure::Usage)?]
            }
            (true, false) => {
                distinct(plan.scenarios.iter().map(|scenario| scenario.service.clone()))
            }
        };
        plan.scenarios = Scenario::product(&loads, &services);
        Ok(())
    }

    fn loads(&self) -> Vec<SimLoad> {
        if self.trace.is_some() {
            let as_recorded = [1.0];
            let factors: &[f64] =
                if self.speed_up.is_empty() { &as_recorded } else { &self.speed_up };
            return factors.iter().map(|factor| SimLoad::Trace(*factor)).collect();
        }
        let open = |rate: &f64| match self.arrivals {
            Spacing::Poisson => SimLoad::Poisson(*rate),
            Spacing::Constant => SimLoad::Constant(*rate),
        };
        let closed = self.concurrency.iter().map(|clients| SimLoad::Closed(*clients));
        closed.chain(self.rate.iter().map(open)).collect()
    }
}

impl BalancerArguments {
    /// Sets the candidates. `configured` is compared with those of the flags.
    fn apply(
        &self,
        plan: &mut SimPlan,
        configured: Option<SimCandidate>,
    ) -> Result<(), CommandFailure> {
        plan.queue = QueueLimits {
            max: self.queue_max.unwrap_or(plan.queue.max),
            max_per_endpoint: plan.queue.max_per_endpoint,
            timeout: self.queue_timeout.map_or(plan.queue.timeout, |timeout| timeout.0),
        };
        match self.stall {
            Some(Switch::Off) => plan.stall = None,
            Some(Switch::On) => plan.stall = plan.stall.or(SimPlan::default().stall),
            None => {}
        }
        let named = !(self.policy.is_empty() && self.max_conn.is_empty() && self.queue.is_empty());
        plan.candidates.extend(configured.clone());
        if !plan.candidates.is_empty() && !named {
            return Ok(());
        }
        let policies = self.policies(configured.as_ref())?;
        let limits = match (&configured, self.max_conn.is_empty()) {
            (_, false) => self.max_conn.clone(),
            (Some(configured), true) => vec![configured.max_conn.clone()],
            (None, true) => vec![MaxConn(vec![None]), MaxConn(vec![Some(1)])],
        };
        let queues = match (&configured, self.queue.is_empty()) {
            (_, false) => self.queue.clone(),
            (Some(configured), true) => vec![configured.queue],
            (None, true) => vec![SimQueue::On],
        };
        if !self.queue.is_empty() && limits.iter().all(MaxConn::is_none) {
            return Err(CommandFailure::Usage(
                "--queue has no effect without a limit: add --max-conn 1".to_owned(),
            ));
        }
        // The flags replace the candidates of a preset.
        plan.candidates = configured.into_iter().collect();
        plan.candidates.extend(SimCandidate::product(&policies, &limits, &queues));
        plan.candidates = distinct(plan.candidates.drain(..));
        Ok(())
    }

    /// Combines every candidate with every state.
    fn apply_state(&self, plan: &mut SimPlan) -> Result<(), CommandFailure> {
        if self.state.is_empty() {
            return Ok(());
        }
        let own = self.state.contains(&StateSharing::PerProcess);
        if !own && (self.workers.is_some() || self.spread.is_some()) {
            return Err(CommandFailure::Usage(
                "--workers and --spread have no effect with shared state: add --state per-process"
                    .to_owned(),
            ));
        }
        plan.workers = self.workers.unwrap_or(plan.workers);
        plan.spread = match self.spread {
            Some(SpreadName::Connection) => Spread::Connection,
            Some(SpreadName::Request) => Spread::Request,
            None => plan.spread,
        };
        let each = |candidate: SimCandidate| {
            let states = self.state.iter();
            states.map(move |&state| SimCandidate { state, ..candidate.clone() })
        };
        plan.candidates = distinct(std::mem::take(&mut plan.candidates).into_iter().flat_map(each));
        Ok(())
    }

    fn policies(
        &self,
        configured: Option<&SimCandidate>,
    ) -> Result<Vec<PolicyKind>, CommandFailure> {
        let parse = |name: &String| {
            name.parse::<PolicyKind>().map_err(|error| CommandFailure::Usage(error.to_string()))
        };
        match configured {
            _ if !self.policy.is_empty() => self.policy.iter().map(parse).collect(),
            Some(configured) => Ok(vec![configured.policy]),
            None => Ok(vec![PolicyKind::RoundRobin, PolicyKind::LeastConn]),
        }
    }
}

fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}
