//! Metrics of the machine's processor credits by Weir's books, and of the limits lowered to save
//! them.

use serde::{Deserialize, Serialize};

use super::family::{Family, MetricKind, MetricValue};
use super::writer::Exposition;

/// The state of the credits by Weir's books.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CreditsReport {
    /// The state.
    pub state: CreditsState,
    /// The credits saved up: minutes of one core.
    pub balance: f64,
    /// The maximum of credits that can be saved up.
    pub max: f64,
    /// Set if the balance rests on an estimate: Weir was started after the machine, and no initial
    /// balance was configured.
    pub estimated: bool,
    /// The number of cores for which the machine earns credits, its baseline.
    pub earned_cores: f64,
    /// The number of cores used over the last minute by all programs; `None` in the first seconds.
    pub used_cores: Option<f64>,
    /// The number of cores wanted in addition that the host gave to others.
    pub stolen_cores: Option<f64>,
    /// The time until the credits are used up at this rate, seconds; `None` if they last.
    pub exhausted_in_s: Option<u64>,
    /// Set if the operator was warned that the credits are used up or soon will be.
    pub is_near: bool,
    /// The weight that balancers in front are told, percent.
    pub weight_percent: u8,
    /// The limit of client connections that saves credits; `None` if it is not lowered.
    pub max_connections: Option<u64>,
}

/// The state of the processor credits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CreditsState {
    /// Too little was observed to decide.
    #[default]
    Unknown,
    /// The credits last at this rate.
    Lasting,
    /// The credits will be used up at this rate.
    RunningOut,
    /// There are no credits left.
    Empty,
    /// The machine uses more than the books allow: they are wrong, or the machine has no such
    /// limit.
    Refuted,
}

impl CreditsState {
    /// Every state, in order of declaration.
    pub const ALL: [Self; 5] =
        [Self::Unknown, Self::Lasting, Self::RunningOut, Self::Empty, Self::Refuted];

    /// The state as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Lasting => "lasting",
            Self::RunningOut => "running_out",
            Self::Empty => "empty",
            Self::Refuted => "refuted",
        }
    }
}

/// Writes the metrics of the processor credits.
pub fn write_credits(credits: &CreditsReport, text: &mut Exposition) {
    let mut gauge = |name, help, value| text.gauge(name, help, MetricValue::Number(value));
    let help = "Processor credits as Weir estimates them, in minutes of one core.";
    gauge("weir_cpu_credits_balance", help, credits.balance);
    gauge("weir_cpu_credits_max", "Maximum of the processor credits.", credits.max);
    let help = "Baseline of the machine in cores, for which it earns credits.";
    gauge("weir_cpu_credits_earned_cores", help, credits.earned_cores);
    if let Some(used) = credits.used_cores {
        let help = "Cores that all programs of the machine used over the last minute.";
        gauge("weir_cpu_credits_used_cores", help, used);
    }
    let help = "Time until processor credits are used up at the rate of the last minute; infinite if they last.";
    let seconds = credits.exhausted_in_s.map_or(f64::INFINITY, |seconds| seconds as f64);
    gauge("weir_cpu_credits_exhausted_in_seconds", help, seconds);
    let help = "Share of its weight that Weir reports to load balancers in front of it, 0 to 1.";
    gauge("weir_advertised_weight_ratio", help, f64::from(credits.weight_percent) / 100.0);
    let help = "1 for the current state of the processor credits.";
    text.family(Family { name: "weir_cpu_credits_state", kind: MetricKind::Gauge, help });
    for state in CreditsState::ALL {
        let value = MetricValue::Count(u64::from(credits.state == state));
        text.sample(&[("state", state.as_str())], value);
    }
}
