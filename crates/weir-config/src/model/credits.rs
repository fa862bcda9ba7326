//! Processor credits: the processor time beyond its baseline that a burstable cloud machine may
//! use, saved up while it uses less. One credit is one core at full use for one minute, as Amazon
//! and Azure define it. The accounting itself is not here.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::defaults;
use crate::units::{duration, percent};

/// An upper bound of any number of credits.
const MOST: f64 = 1e6;

/// The bucket of credits of the machine that Weir runs on, and the reaction when it runs out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuCredits {
    /// The credits earned in an hour; sixty equal one core.
    pub earn: f64,
    /// The largest number of credits that are saved up.
    pub max: f64,
    /// The credits that the machine has when it is started.
    #[serde(default)]
    pub launch: f64,
    /// The credits that the machine has when Weir starts; `None` to estimate them from the
    /// processor time used since the machine was started.
    #[serde(default)]
    pub balance: Option<f64>,
    /// The file that keeps the account over restarts of Weir.
    #[serde(default)]
    pub file: Option<PathBuf>,
    /// A warning is written when the credits will last no longer than this; `None` for never.
    #[serde(default = "defaults::credits_warn", with = "duration::option")]
    pub warn: Option<Duration>,
    /// The values that are lowered so that the credits last; empty for none.
    #[serde(default)]
    pub shed: Vec<Shed>,
    /// They are lowered when the credits would last no longer than this.
    #[serde(default = "defaults::credits_within", with = "duration")]
    pub within: Duration,
    /// They are never lowered below this percentage.
    #[serde(rename = "floor", default = "defaults::credits_floor", with = "percent")]
    pub floor_percent: u8,
}

/// A value that is lowered so that credits last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shed {
    /// The weight that balancers in front read.
    Weight,
    /// The limit of open client connections.
    Connections,
}

impl CpuCredits {
    /// Returns the bucket of a machine type.
    pub fn of(kind: &CreditMachine) -> Self {
        Self {
            earn: kind.earn,
            max: kind.max,
            launch: kind.launch,
            balance: None,
            file: None,
            warn: defaults::credits_warn(),
            shed: Vec::new(),
            within: defaults::credits_within(),
            floor_percent: defaults::credits_floor(),
        }
    }

    /// Returns every invalid field with the reason.
    pub(crate) fn objections(&self) -> Vec<(&'static str, String)> {
        let mut list = Vec::new();
        let mut object = |wrong: bool, field, why: &str| {
            if wrong {
                list.push((field, why.to_owned()));
            }
        };
        let fits = |value: f64| value > 0.0 && value <= MOST;
        object(!fits(self.earn), "earn", "it must be above 0 and at most 1000000");
        object(!fits(self.max), "max", "it must be above 0 and at most 1000000");
        let launch = (0.0..=MOST).contains(&self.launch);
        object(!launch, "launch", "it must be from 0 to 1000000");
        let balance = self.balance.unwrap_or(0.0);
        object(balance < 0.0 || balance.is_nan(), "balance", "it cannot be less than 0");
        let most = format!("the machine never has more than {} credits", self.max);
        object(balance > self.max, "balance", &most);
        let never = self.warn.is_some_and(|warn| warn.is_zero());
        object(never, "warn", "a time of 0 would never warn: write `off` for that");
        let late = "with a time of 0 the load would be lowered only after the credits have run out";
        object(self.within.is_zero(), "within", late);
        let floor = (1..=100).contains(&self.floor_percent);
        object(!floor, "floor", "it must be from `1%` to `100%`");
        list
    }
}

/// A machine type that has credits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CreditMachine {
    /// The credits earned in an hour.
    pub earn: f64,
    /// The largest number of credits that are saved up.
    pub max: f64,
    /// The credits that the machine is started with.
    pub launch: f64,
}

/// The credits earned in an hour, the most saved up, and those at the start, by size.
type Sizes = &'static [(&'static str, f64, f64, f64)];

/// Amazon's types, from the EC2 user guide ("Key concepts for burstable performance instances"):
/// the maximum is the amount earned in a day; T2 machines start with 30 credits for each core.
const T2: Sizes = &[
    ("nano", 3.0, 72.0, 30.0),
    ("micro", 6.0, 144.0, 30.0),
    ("small", 12.0, 288.0, 30.0),
    ("medium", 24.0, 576.0, 60.0),
    ("large", 36.0, 864.0, 60.0),
    ("xlarge", 54.0, 1296.0, 120.0),
    ("2xlarge", 81.6, 1958.4, 240.0),
];

const T3: Sizes = &[
    ("nano", 6.0, 144.0, 0.0),
    ("micro", 12.0, 288.0, 0.0),
    ("small", 24.0, 576.0, 0.0),
    ("medium", 24.0, 576.0, 0.0),
    ("large", 36.0, 864.0, 0.0),
    ("xlarge", 96.0, 2304.0, 0.0),
    ("2xlarge", 192.0, 4608.0, 0.0),
];

/// Azure's first B series, from its page "B-series burstable virtual machine sizes".
const AZURE_B: Sizes = &[
    ("b1ls", 3.0, 72.0, 30.0),
    ("b1s", 6.0, 144.0, 30.0),
    ("b1ms", 12.0, 288.0, 30.0),
    ("b2s", 24.0, 576.0, 60.0),
    ("b2ms", 36.0, 864.0, 60.0),
    ("b4ms", 54.0, 1296.0, 120.0),
    ("b8ms", 81.0, 1944.0, 240.0),
    ("b12ms", 121.0, 2909.0, 360.0),
    ("b16ms", 162.0, 3888.0, 480.0),
    ("b20ms", 203.0, 4860.0, 600.0),
];

/// The prefixes of the size.
const FAMILIES: &[(&str, Sizes)] =
    &[("t2.", T2), ("t3.", T3), ("t3a.", T3), ("t4g.", T3), ("standard_", AZURE_B)];

/// Returns the machine type with this name, in upper or lower case.
pub fn machine(name: &str) -> Option<CreditMachine> {
    let name = name.to_ascii_lowercase();
    FAMILIES.iter().find_map(|(family, sizes)| {
        let size = name.strip_prefix(family)?;
        let (_, earn, max, launch) = *sizes.iter().find(|(own, ..)| *own == size)?;
        Some(CreditMachine { earn, max, launch })
    })
}

/// Returns the names of all known machine types.
pub(crate) fn machines() -> impl Iterator<Item = String> {
    FAMILIES
        .iter()
        .flat_map(|(family, sizes)| sizes.iter().map(move |(size, ..)| format!("{family}{size}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_known_by_the_names_of_their_clouds() {
        // A `t2.medium` earns 24 credits an hour, 40 % of a core.
        let medium = machine("t2.medium").unwrap();
        assert_eq!(medium, CreditMachine { earn: 24.0, max: 576.0, launch: 60.0 });
        let nano = CreditMachine { earn: 6.0, max: 144.0, launch: 0.0 };
        assert_eq!(machine("T4g.Nano"), Some(nano));
        assert_eq!(machine("Standard_B2s"), Some(medium));
        assert_eq!((machine("t2"), machine("t2.huge"), machine("c5n.2xlarge")), (None, None, None));
        assert_eq!(machines().count(), 7 * 4 + 10);
    }

    #[test]
    fn the_most_that_amazon_saves_up_is_what_a_day_earns() {
        for name in machines().filter(|name| name.starts_with('t')) {
            let own = machine(&name).unwrap();
            assert!((own.earn * 24.0 - own.max).abs() < 1e-9, "{name}");
        }
    }
}
