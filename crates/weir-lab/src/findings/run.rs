//! One run of an experiment as it was stored: the step, the results of `weir bench --json`, and
//! what happened around it.

use hdrhistogram::Histogram;
use serde_json::Value;

use crate::bench::encoded::decode;
use crate::bench::record::empty_histogram;
use crate::experiment::{JudgedFigure, LoadLevel, is_part_name};

/// More CPU time of programs that do not take part, as a share of the machine, is a disturbance.
const OTHERS: f64 = 0.1;
/// A saturated generator uses more of its cores.
const GENERATOR_BUSY: f64 = 0.9;

/// A stored run.
#[derive(Clone, Debug)]
pub struct LabRun {
    /// The number of the run in the order of measurement.
    pub number: u64,
    /// The workload's name.
    pub workload: String,
    /// The candidate's name, or `direct`.
    pub candidate: String,
    /// The level.
    pub level: LoadLevel,
    /// The number of the repetition, from 0.
    pub repeat: u32,
    /// The reason why nothing was measured.
    pub failure: Option<String>,
    /// The moment of its start.
    pub began: String,
    /// Response times in nanoseconds.
    pub response: Histogram<u64>,
    /// Requests answered per second.
    pub achieved: f64,
    /// Requests that should have been sent.
    pub intended: u64,
    /// Requests answered.
    pub answered: u64,
    /// Requests sent, those of the warm-up included.
    pub sent: u64,
    /// Requests that failed, or had an error status.
    pub faults: u64,
    /// Length in seconds.
    pub seconds: f64,
    /// The proxy's processes together; `None` of a direct run.
    pub proxy: Option<RoleUsage>,
    /// The origins together.
    pub origin: Option<RoleUsage>,
    /// The generator.
    pub client: Option<RoleUsage>,
    /// The share of the machine's CPU time that all programs used together.
    pub busy: Option<f64>,
    /// The share that programs used that do not take part.
    pub others: Option<f64>,
    /// The share that the host took.
    pub steal: Option<f64>,
    /// The share that the kernel used for interrupts.
    pub interrupts: Option<f64>,
    /// Bytes sent per second over all interfaces, the loopback included.
    pub network: Option<f64>,
    /// The share of a network's speed that was used: of an interface of this machine, or of the
    /// network that the experiment names.
    pub network_share: Option<f64>,
    /// The reasons to doubt the run; empty for a valid one.
    pub disturbances: Vec<String>,
    /// The faults of the target: saturated, failures. The run is valid.
    pub outcomes: Vec<String>,
    /// The stored object.
    pub raw: Value,
}

/// The resources that a role used in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RoleUsage {
    /// User time in µs.
    pub user_us: f64,
    /// System time in µs.
    pub system_us: f64,
    /// The share of the role's cores.
    pub share: f64,
    /// Resident memory at the end, in bytes.
    pub resident_bytes: u64,
    /// Context switches.
    pub switches: u64,
}

impl RoleUsage {
    /// User and system time, in µs.
    pub fn total_us(self) -> f64 {
        self.user_us + self.system_us
    }
}

impl LabRun {
    /// Reads a stored run.
    ///
    /// # Errors
    /// One sentence about the mistake.
    pub fn of(raw: Value) -> Result<Self, String> {
        let text = |name: &str| {
            raw[name].as_str().map(str::to_owned).ok_or_else(|| format!("a run has no `{name}`"))
        };
        // They are part of the names of files, and the run may come from elsewhere.
        let name = |part: &str| {
            text(part).and_then(|name| {
                if is_part_name(&name) {
                    Ok(name)
                } else {
                    Err(format!("`{name}` is no name of a {part}"))
                }
            })
        };
        let level = text("level")?;
        let bench = &raw["bench"];
        let mut found = Self {
            number: raw["number"].as_u64().unwrap_or(0),
            workload: name("workload")?,
            candidate: name("candidate")?,
            level: LoadLevel::of_word(&level).ok_or_else(|| format!("`{level}` is no level"))?,
            repeat: raw["repeat"].as_u64().unwrap_or(0) as u32,
            failure: raw["failure"].as_str().map(str::to_owned),
            began: bench["began"].as_str().or(raw["began"].as_str()).unwrap_or_default().to_owned(),
            response: empty_histogram(),
            achieved: bench["achieved"].as_f64().unwrap_or(0.0),
            intended: bench["requests"]["intended"].as_u64().unwrap_or(0),
            answered: bench["requests"]["answered"].as_u64().unwrap_or(0),
            sent: 0,
            faults: bench["requests"]["failed"].as_u64().unwrap_or(0),
            seconds: bench["elapsed_us"].as_f64().unwrap_or(0.0) / 1e6,
            proxy: None,
            origin: None,
            client: None,
            busy: bench["machine"]["busy"].as_f64(),
            others: None,
            steal: bench["machine"]["steal"].as_f64(),
            interrupts: bench["machine"]["interrupts"].as_f64(),
            network: None,
            network_share: bench["machine"]["network_share"].as_f64(),
            disturbances: Vec::new(),
            outcomes: Vec::new(),
            raw: Value::Null,
        };
        for class in ["4xx", "5xx"] {
            found.faults += bench["statuses"][class].as_u64().unwrap_or(0);
        }
        let count = |name: &str| bench["requests"][name].as_u64().unwrap_or(0);
        found.sent = count("sent") + count("warm_up");
        if let Some(hdr) = bench["response"]["hdr"].as_str() {
            found.response = decode(hdr)?;
        }
        found.read_usage(&raw);
        found.read_objections(&raw);
        found.raw = raw;
        Ok(found)
    }

    fn read_usage(&mut self, raw: &Value) {
        let bench = &raw["bench"];
        let wall_us = bench["machine"]["wall_us"].as_f64().unwrap_or(0.0).max(1.0);
        let cores = |role: &str| raw["cores"][role].as_array().map_or(1, Vec::len).max(1) as f64;
        let usage = |role: &str| {
            let roles = raw["watched"].as_array().into_iter().flatten();
            let targets = bench["targets"].as_array().into_iter().flatten();
            let own = roles
                .zip(targets)
                .filter(|(name, _)| name.as_str() == Some(role))
                .map(|(_, target)| &target["used"]);
            let mut sum: Option<RoleUsage> = None;
            for used in own {
                let part = sum.get_or_insert_default();
                let user_us = used["user_us"].as_f64()?;
                part.user_us += user_us;
                part.system_us += used["system_us"].as_f64()?;
                part.resident_bytes += used["resident_bytes"].as_u64().unwrap_or(0);
                part.switches += used["switches"].as_u64().unwrap_or(0);
            }
            sum.map(|used| RoleUsage { share: used.total_us() / wall_us / cores(role), ..used })
        };
        self.proxy = usage("proxy");
        self.origin = usage("origin");
        let cpu = &bench["generator_cpu"];
        if let (Some(user_us), Some(system_us)) =
            (cpu["user_us"].as_f64(), cpu["system_us"].as_f64())
        {
            let threads = bench["threads"].as_f64().unwrap_or(1.0);
            let share = (user_us + system_us) / wall_us / cores("client").min(threads.max(1.0));
            self.client = Some(RoleUsage { user_us, system_us, share, ..RoleUsage::default() });
        }
        let bits = bench["bytes"].as_f64().map(|bytes| bytes * 8.0 / self.seconds.max(1e-9));
        let named = bits.zip(raw["network_bits"].as_f64()).map(|(bits, most)| bits / most);
        self.network_share =
            [self.network_share, named].into_iter().flatten().max_by(f64::total_cmp);
        self.network = bench["machine"]["sent_bytes"].as_f64().map(|bytes| bytes * 1e6 / wall_us);
        let all = raw["machine_cores"].as_f64().unwrap_or(1.0).max(1.0);
        let beside = usage("beside").unwrap_or_default();
        let own = [self.proxy, self.origin, self.client, Some(beside)];
        let own_us: f64 = own.into_iter().flatten().map(RoleUsage::total_us).sum();
        // Interrupts run in the time of any program, so they are the load of none.
        let interrupts = self.interrupts.unwrap_or(0.0);
        self.others = self.busy.map(|busy| (busy - own_us / wall_us / all - interrupts).max(0.0));
    }

    /// Separates what the target did from what makes the run doubtful.
    fn read_objections(&mut self, raw: &Value) {
        let texts = |value: &Value| -> Vec<String> {
            value
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|one| Some(one.as_str()?.to_owned()))
                .collect()
        };
        self.disturbances = texts(&raw["notes"]);
        for objection in texts(&raw["bench"]["objections"]) {
            let is_outcome = objection.starts_with("saturated")
                || objection.starts_with("no request got")
                || objection.contains("requests failed")
                || objection.contains("had a status of 400");
            if is_outcome {
                self.outcomes.push(objection);
            } else if self.level != LoadLevel::Saturation {
                self.disturbances.push(objection);
            }
        }
        if let Some(others) = self.others
            && others > OTHERS
        {
            self.disturbances.push(format!(
                "other programs used {:.0} % of the machine's CPU time",
                others * 100.0
            ));
        }
    }

    /// Set if the run can be believed.
    pub fn is_valid(&self) -> bool {
        self.failure.is_none() && self.disturbances.is_empty()
    }

    /// Set if a figure of the run can be believed. A late generator makes times doubtful, not the
    /// proxy's CPU time per request, which it spends on another core.
    pub fn is_valid_for(&self, figure: JudgedFigure) -> bool {
        let is_late = |text: &String| text.starts_with("the generator was late");
        self.is_valid()
            || (figure == JudgedFigure::Cpu
                && self.failure.is_none()
                && !self.shares_cores()
                && self.disturbances.iter().all(is_late))
    }

    /// Set if the generator runs on the proxy's cores.
    fn shares_cores(&self) -> bool {
        let cores = |role: &str| self.raw["cores"][role].as_array().cloned().unwrap_or_default();
        let own = cores("proxy");
        cores("client").iter().any(|core| own.contains(core))
    }

    /// Set if fewer requests were answered than offered, by more than a hundredth.
    pub fn is_saturated(&self) -> bool {
        match self.level {
            LoadLevel::Rate(_) => {
                self.intended == 0 || (self.answered as f64) < 0.99 * self.intended as f64
            }
            _ => false,
        }
    }

    /// A percentile in µs; `None` without samples.
    pub fn percentile_us(&self, percent: f64) -> Option<f64> {
        (!self.response.is_empty()).then(|| self.response.value_at_percentile(percent) as f64 / 1e3)
    }

    /// The proxy's CPU time per request, in µs.
    pub fn cpu_per_request_us(&self) -> Option<f64> {
        (self.sent > 0).then_some(self.proxy?.total_us() / self.sent as f64)
    }

    /// Set if the generator was the limit.
    pub fn is_generator_busy(&self) -> bool {
        self.client.is_some_and(|client| client.share > GENERATOR_BUSY)
    }
}
