//! The machine's processor credits as Weir's books have them (row NEW-14), and what is lowered for their sake.

use serde::{Deserialize, Serialize};

use super::family::{Exposition, Family, Kind, Value};

/// What the books say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CreditsReport {
    /// In one word.
    pub state: CreditsState,
    /// Credits saved up: minutes of one core.
    pub balance: f64,
    /// Most that are saved up.
    pub max: f64,
    /// Whether the balance rests on an estimate: Weir was started after the machine, and nobody said what it had.
    pub estimated: bool,
    /// Cores that the machine earns, its baseline.
    pub earned_cores: f64,
    /// Cores that were used over the last minute, by all programs; `None` in the first seconds.
    pub used_cores: Option<f64>,
    /// Cores that were wanted beside them and that the host gave to others.
    pub stolen_cores: Option<f64>,
    /// When credits are used up at this rate, seconds; `None`: not at this rate.
    pub exhausted_in_s: Option<u64>,
    /// Whether the operator was told that they will be used up soon, or are.
    pub is_near: bool,
    /// What balancers in front are told, percent.
    pub weight_percent: u8,
    /// Most client connections for the sake of credits; `None`: nothing is lowered.
    pub max_connections: Option<u64>,
}

/// How it stands with credits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CreditsState {
    /// Too little was seen to say.
    #[default]
    Unknown,
    /// At this rate they are not used up.
    Lasting,
    /// At this rate they will be used up.
    RunningOut,
    /// There are none.
    Empty,
    /// The machine uses more than the books say it can: they are wrong, or it has no such bound.
    Refuted,
}

impl CreditsState {
    /// Every state, in order of declaration.
    pub const ALL: [Self; 5] =
        [Self::Unknown, Self::Lasting, Self::RunningOut, Self::Empty, Self::Refuted];

    /// Its word.
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

pub(super) fn write(credits: &CreditsReport, text: &mut Exposition) {
    let mut gauge = |name, help, value| text.gauge(name, help, Value::Number(value));
    let help = "Processor credits saved up, by Weir's books: minutes of one core.";
    gauge("weir_cpu_credits_balance", help, credits.balance);
    gauge("weir_cpu_credits_max", "Most processor credits that are saved up.", credits.max);
    let help = "Cores that the machine earns credits for: its baseline.";
    gauge("weir_cpu_credits_earned_cores", help, credits.earned_cores);
    if let Some(used) = credits.used_cores {
        let help = "Cores that all programs of the machine used over the last minute.";
        gauge("weir_cpu_credits_used_cores", help, used);
    }
    let help = "Time until processor credits are used up at the rate of the last minute; infinite where they last.";
    let seconds = credits.exhausted_in_s.map_or(f64::INFINITY, |seconds| seconds as f64);
    gauge("weir_cpu_credits_exhausted_in_seconds", help, seconds);
    let help = "Share of its weight that balancers in front are told, 0 to 1.";
    gauge("weir_advertised_weight_ratio", help, f64::from(credits.weight_percent) / 100.0);
    let help = "1 for how it stands with processor credits.";
    text.family(Family { name: "weir_cpu_credits_state", kind: Kind::Gauge, help });
    for state in CreditsState::ALL {
        let value = Value::Count(u64::from(credits.state == state));
        text.sample(&[("state", state.as_str())], value);
    }
}
