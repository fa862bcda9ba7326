//! The types of a checked experiment.

use super::level::{LoadLevel, RateShare};
use crate::bench::report::LATENESS_PERCENT;

/// The percentile whose drift is judged over a long run.
pub const SOAK_PERCENTILE: f64 = 99.0;

/// The name of the runs without a proxy.
pub const DIRECT: &str = "direct";

/// An experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// The title of the report.
    pub title: String,
    /// The question that it answers.
    pub question: String,
    /// The source that it repeats or examines.
    pub source: String,
    /// Runs of each candidate at each level.
    pub repeats: u32,
    /// The order of the runs.
    pub order: RunOrder,
    /// The seed of the generator.
    pub seed: u64,
    /// The rule after which no higher level is measured.
    pub stops: Vec<StopRule>,
    /// The budget of the knee.
    pub budget: Option<LatencyBudget>,
    /// Bisections near the knee.
    pub refine: u32,
    /// The figures that are judged.
    pub judged: Vec<JudgedFigure>,
    /// Set if there are runs without a proxy.
    pub direct: bool,
    /// The bandwidth of the network that the experiment assumes, in bits per second.
    pub network_bits: Option<f64>,
    /// The link between the client and the proxy, if it is not the machine's loopback interface.
    pub link: Option<ClientLink>,
    /// The rules of the proxy's machine if it has processor credits.
    pub credits: Option<CreditRules>,
    /// The cores of the generator.
    pub client: RoleCores,
    /// The cores of the proxy.
    pub proxy: RoleCores,
    /// The servers, at least one.
    pub origins: Vec<LabRole>,
    /// Programs beside the load.
    pub beside: Vec<LabRole>,
    /// The programs to compare, at least one.
    pub candidates: Vec<LabCandidate>,
    /// The loads, at least one.
    pub workloads: Vec<Workload>,
    /// Set if it is the quick form.
    pub is_quick: bool,
    /// The changes by `--quick`.
    pub quick: QuickExperiment,
}

/// The changes of a whole experiment by `--quick`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuickExperiment {
    pub(super) repeats: Option<u32>,
    pub(super) refine: Option<u32>,
    pub(super) credits: Option<CreditRules>,
}

/// The link between the client and the proxy; each figure holds in each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClientLink {
    /// The delay, in nanoseconds.
    pub delay_ns: u64,
    /// The variation of the delay to either side, in nanoseconds.
    pub jitter_ns: u64,
    /// The share of packets that are lost.
    pub loss: f64,
    /// The bandwidth, in bits per second; `None` for that of the machine.
    pub rate_bits: Option<f64>,
}

impl ClientLink {
    /// Returns true if it needs the kernel's netem.
    pub(crate) fn has_netem(&self) -> bool {
        self.delay_ns > 0 || self.loss > 0.0
    }
}

/// A machine with processor credits: one credit of the clouds is a minute of one core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CreditRules {
    /// The cores that it earns, and is held to without credits.
    pub baseline: f64,
    /// The credits at its start, in µs of one core.
    pub start_us: f64,
    /// The largest number of credits.
    pub max_us: f64,
}

/// The order of the runs at a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOrder {
    /// The candidates take turns.
    Interleaved,
    /// All runs of a candidate follow each other.
    Consecutive,
}

/// A condition after which no higher level is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StopRule {
    /// The condition.
    pub limit: StopLimit,
    /// Set if it stops only the candidate that meets it.
    pub each: bool,
}

/// The condition of a stop rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StopLimit {
    /// The share of its cores that the proxy uses, at least.
    ProxyCpu(f64),
    /// A percentile above a time in nanoseconds.
    Percentile(f64, u64),
}

/// The latency budget of the knee.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyBudget {
    /// The percentile.
    pub percentile: f64,
    /// The longest allowed time, in nanoseconds.
    pub time_ns: u64,
}

/// A figure by which candidates are judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum JudgedFigure {
    /// A percentile of response time.
    Percentile(f64),
    /// The mean response time.
    Mean,
    /// The proxy's CPU time per request.
    Cpu,
}

/// The cores of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleCores {
    /// The first half of the allowed ones, at least one.
    Half,
    /// The others; all if there is only one.
    Rest,
    /// All allowed ones.
    All,
    /// These.
    List(Vec<usize>),
}

/// A program that takes part.
#[derive(Clone, Debug, PartialEq)]
pub struct LabRole {
    /// Its name.
    pub name: String,
    /// Its cores.
    pub cores: RoleCores,
    /// The program that has to be there.
    pub program: String,
    /// The package that brings it.
    pub package: String,
    /// The command that prints its version.
    pub version: Vec<String>,
    /// The command that starts it.
    pub command: Vec<String>,
    /// The placeholders of the ports that have to accept connections.
    pub ready: Vec<String>,
}

/// A program to compare.
#[derive(Clone, Debug, PartialEq)]
pub struct LabCandidate {
    /// The program; its cores are those of the proxy.
    pub role: LabRole,
    /// Its configuration files.
    pub configs: Vec<PrintedConfig>,
    /// The number of processes; `None` for one on each core.
    pub instances: Option<u32>,
    /// Remarks for the report.
    pub notes: Vec<String>,
}

/// A configuration as printed, with its replacements.
#[derive(Clone, Debug, PartialEq)]
pub struct PrintedConfig {
    /// Its path beside the experiment file.
    pub path: String,
    /// The name under which it is written.
    pub name: String,
    /// The text as printed.
    pub text: String,
    /// The replacements: the text, what stands for it, and the reason.
    pub maps: Vec<[String; 3]>,
}

/// A load.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Path and query.
    pub path: String,
    /// The TLS version, with a suite or an empty text; `None` for plain requests.
    pub tls: Option<(String, String)>,
    /// Requests at once on each connection over HTTP/2; `None` for HTTP/1.1.
    pub streams: Option<u32>,
    /// Connections of an open loop.
    pub connections: u32,
    /// Threads of the generator.
    pub threads: u32,
    /// Length of a run, in nanoseconds.
    pub duration_ns: u64,
    /// Length of the warm-up, in nanoseconds.
    pub warmup_ns: u64,
    /// Longest wait for a response, in nanoseconds.
    pub timeout_ns: u64,
    /// Set if arrivals are those of a Poisson process.
    pub is_poisson: bool,
    /// The levels.
    pub pace: LoadPace,
    /// Requests of a closed loop.
    pub requests: u64,
    /// Set if every request has a connection of its own.
    pub is_fresh: bool,
    /// The limits of growth if it is a long run that looks for leaks and drift.
    pub soak: Option<SoakLimits>,
    /// The events of each run.
    pub events: Vec<LoadEvent>,
    /// The changes by `--quick`.
    pub quick: QuickWorkload,
}

/// The growth over a long run up to which a figure counts as steady.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SoakLimits {
    /// Memory, as a share of that at the beginning.
    pub memory: f64,
    /// Open files.
    pub files: f64,
    /// Threads.
    pub threads: f64,
    /// The p99 of response times, as a share of that at the beginning.
    pub latency: f64,
}

impl Default for SoakLimits {
    fn default() -> Self {
        Self { memory: 0.02, files: 5.0, threads: 1.0, latency: 0.1 }
    }
}

/// The levels of a load.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadPace {
    /// These levels, ascending.
    Levels(Vec<LoadLevel>),
    /// Shares of the smallest saturation rate of these candidates.
    Shares(Vec<RateShare>, Vec<String>),
}

/// The changes of a workload by `--quick`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuickWorkload {
    pub(super) connections: Option<u32>,
    pub(super) duration_ns: Option<u64>,
    pub(super) warmup_ns: Option<u64>,
    pub(super) pace: Option<LoadPace>,
    pub(super) requests: Option<u64>,
}

/// Something that happens during a run.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadEvent {
    /// The time since the generator started, in nanoseconds.
    pub at_ns: u64,
    /// The interval and the end of its repetition, in nanoseconds.
    pub every_ns: Option<(u64, u64)>,
    /// The action.
    pub action: LoadEventAction,
}

/// The action of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadEventAction {
    /// A signal to a role, by its name.
    Signal(String, String),
    /// A command.
    Run(Vec<String>),
}

impl Experiment {
    /// The percentile at which a late generator makes a run not valid: the highest one that decides
    /// anything, by a verdict, the knee or a stop rule. A mean has all requests in it.
    pub fn lateness_percent(&self) -> f64 {
        let judged = self.judged.iter().filter_map(|figure| match figure {
            JudgedFigure::Percentile(percent) => Some(*percent),
            JudgedFigure::Mean => Some(LATENESS_PERCENT),
            JudgedFigure::Cpu => None,
        });
        let stops = self.stops.iter().filter_map(|rule| match rule.limit {
            StopLimit::Percentile(percent, _) => Some(percent),
            StopLimit::ProxyCpu(_) => None,
        });
        let knee = self.budget.map(|budget| budget.percentile);
        let soaks = self.workloads.iter().filter(|workload| workload.soak.is_some());
        let drift = soaks.map(|_| SOAK_PERCENTILE);
        let highest = judged.chain(stops).chain(knee).chain(drift).reduce(f64::max);
        highest.unwrap_or(LATENESS_PERCENT).min(LATENESS_PERCENT)
    }

    /// The quick form: shorter runs, fewer levels and repeats.
    #[must_use]
    pub fn into_quick(mut self) -> Self {
        self.is_quick = true;
        self.repeats = self.quick.repeats.unwrap_or(self.repeats);
        self.refine = self.quick.refine.unwrap_or(self.refine);
        self.credits = self.quick.credits.or(self.credits);
        for workload in &mut self.workloads {
            let quick = workload.quick.clone();
            workload.connections = quick.connections.unwrap_or(workload.connections);
            workload.duration_ns = quick.duration_ns.unwrap_or(workload.duration_ns);
            workload.warmup_ns = quick.warmup_ns.unwrap_or(workload.warmup_ns);
            workload.requests = quick.requests.unwrap_or(workload.requests);
            if let Some(pace) = quick.pace {
                workload.pace = pace;
            }
        }
        self
    }
}

impl RoleCores {
    /// The cores out of those that are allowed.
    ///
    /// # Errors
    /// One sentence if a core of a list is not allowed.
    pub fn of(&self, allowed: &[usize]) -> Result<Vec<usize>, String> {
        let (first, rest) = allowed.split_at((allowed.len() / 2).max(1).min(allowed.len()));
        match self {
            Self::All => Ok(allowed.to_vec()),
            Self::Half => Ok(first.to_vec()),
            Self::Rest if rest.is_empty() => Ok(allowed.to_vec()),
            Self::Rest => Ok(rest.to_vec()),
            Self::List(cores) => match cores.iter().find(|core| !allowed.contains(core)) {
                Some(core) => Err(format!("core {core} is not available to this process")),
                None => Ok(cores.clone()),
            },
        }
    }
}

impl JudgedFigure {
    /// Its name.
    pub fn name(self) -> String {
        match self {
            Self::Percentile(percent) => {
                format!("p{}", crate::bench::report::percent_text(percent))
            }
            Self::Mean => "mean".to_owned(),
            Self::Cpu => "CPU per request".to_owned(),
        }
    }
}

impl Workload {
    /// Set if it is a closed loop: each connection waits for a response before it sends the next
    /// request.
    pub fn is_closed(&self) -> bool {
        matches!(&self.pace, LoadPace::Levels(levels) if matches!(levels.first(), Some(LoadLevel::Concurrency(_))))
    }

    /// The scheme of its URLs.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

#[cfg(test)]
mod tests {
    use super::RoleCores;

    #[test]
    fn roles_share_cores_only_where_there_is_one() {
        let check = |cores: &RoleCores, allowed: &[usize], expected: &[usize]| {
            assert_eq!(cores.of(allowed).unwrap(), expected, "{cores:?} of {allowed:?}");
        };
        check(&RoleCores::Half, &[0, 1, 2, 3], &[0, 1]);
        check(&RoleCores::Rest, &[0, 1, 2, 3], &[2, 3]);
        check(&RoleCores::Half, &[4, 6, 7], &[4]);
        check(&RoleCores::Rest, &[4, 6, 7], &[6, 7]);
        check(&RoleCores::Half, &[5], &[5]);
        check(&RoleCores::Rest, &[5], &[5]);
        check(&RoleCores::List(vec![1]), &[0, 1], &[1]);
        assert!(RoleCores::List(vec![3]).of(&[0, 1]).unwrap_err().contains("core 3"));
    }
}
