//! The texts of `/proc` and of control groups, of versions 1 and 2, that several programs read. It
//! parses them and opens no file.

mod network;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use network::{InterfaceTraffic, NetworkInterface, TcpCounters, network_share};

/// The length of a tick of `/proc`, µs: the kernel reports 100 ticks a second to all programs.
const TICK_US: u64 = 10_000;
/// The root of the control groups.
const GROUPS: &str = "/sys/fs/cgroup";

/// Processor time, µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// Time in the process's own code.
    pub user_us: u64,
    /// Time in the kernel.
    pub system_us: u64,
}

impl Cpu {
    /// Parses the `stat` file of a process or thread.
    pub fn of_stat(stat: &str) -> Option<Self> {
        // The name in parentheses may contain spaces and parentheses.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let mut us = || Some(fields.next()?.parse::<u64>().ok()? * TICK_US);
        Some(Self { user_us: us()?, system_us: us()? })
    }

    /// The same with the time of children that have ended and were waited for.
    pub fn of_stat_with_ended_children(stat: &str) -> Option<Self> {
        let own = Self::of_stat(stat)?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(13);
        let mut us = || Some(fields.next()?.parse::<u64>().ok()? * TICK_US);
        Some(Self { user_us: own.user_us + us()?, system_us: own.system_us + us()? })
    }

    /// The sum of both.
    pub fn total_us(self) -> u64 {
        self.user_us + self.system_us
    }

    /// The difference to `earlier`, a former reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user_us: self.user_us.saturating_sub(earlier.user_us),
            system_us: self.system_us.saturating_sub(earlier.system_us),
        }
    }
}

/// Times summed over all cores since the machine started, µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreTimes {
    /// The time of all cores.
    pub total_us: u64,
    /// The part of it that the host gave to others.
    pub steal_us: u64,
    /// The part of it in which the cores were idle.
    pub idle_us: u64,
    /// The part of it that the kernel used for interrupts, those of the network among them.
    pub interrupts_us: u64,
}

impl CoreTimes {
    /// Parses `/proc/stat`. Guest time is already part of user time.
    pub fn of_stat(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> =
            line.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
        let [_, _, _, idle, waiting, hard, soft, steal] = ticks[..] else { return None };
        Some(Self {
            total_us: ticks.iter().sum::<u64>() * TICK_US,
            steal_us: steal * TICK_US,
            idle_us: (idle + waiting) * TICK_US,
            interrupts_us: (hard + soft) * TICK_US,
        })
    }
}

/// The throttling of a control group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttled {
    /// The number of periods in which the group was throttled.
    pub periods: u64,
    /// The time in which it was throttled, µs.
    pub time_us: u64,
}

impl Throttled {
    /// Parses a group's `cpu.stat`.
    pub fn of_stat(stat: &str) -> Option<Self> {
        let time_us = value_of(stat, "throttled_usec")
            .or_else(|| Some(value_of(stat, "throttled_time")? / 1_000))?;
        Some(Self { periods: value_of(stat, "nr_throttled")?, time_us })
    }
}

/// The number after a name and a blank, on a line of its own.
pub fn value_of(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(key, _)| *key == name)?.1.trim().parse().ok()
}

/// A control group of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlGroup<'a> {
    /// The directory of its hierarchy. Inside a container it is the group's own.
    pub root: PathBuf,
    /// Its path below that directory.
    pub path: &'a Path,
    /// Set for version 2, where one hierarchy has all controllers.
    pub is_unified: bool,
}

impl<'a> ControlGroup<'a> {
    /// The groups with a controller, such as `cpu`, by the text of `/proc/self/cgroup`.
    pub fn all(text: &'a str, controller: &str) -> impl Iterator<Item = Self> {
        text.lines().filter_map(move |line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (names, path) = (parts.next()?, parts.next()?);
            let is_unified = names.is_empty();
            let below = if is_unified { "" } else { controller };
            let has_it = is_unified || names.split(',').any(|name| name == controller);
            let path = Path::new(path.trim_start_matches('/'));
            has_it.then(|| Self { root: Path::new(GROUPS).join(below), path, is_unified })
        })
    }

    /// The directories of the group and of its ancestors, its own first.
    pub fn directories(&self) -> impl Iterator<Item = PathBuf> {
        self.path.ancestors().map(|group| self.root.join(group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formats_of_the_kernel_are_read() {
        let stat = "77 (a b) (c)) S 1 2 3 4 5 6 7 8 9 10 250 40 0 0 20 0 3 0 100";
        assert_eq!(Cpu::of_stat(stat), Some(Cpu { user_us: 2_500_000, system_us: 400_000 }));
        let stat = "77 (a) S 1 2 3 4 5 6 7 8 9 10 250 40 10 5 20 0 3 0 100";
        let expected = Some(Cpu { user_us: 2_600_000, system_us: 450_000 });
        assert_eq!(Cpu::of_stat_with_ended_children(stat), expected);
        assert_eq!(Cpu::of_stat("nonsense"), None);
        let expected = CoreTimes {
            total_us: 1_500_000,
            steal_us: 90_000,
            idle_us: 1_050_000,
            interrupts_us: 50_000,
        };
        let times = CoreTimes::of_stat("cpu  10 1 20 100 5 2 3 9 7 0\ncpu0 1 1 1\n");
        assert_eq!(times, Some(expected));
        let expected = Some(Throttled { periods: 3, time_us: 1_200 });
        let second = "usage_usec 5\nnr_periods 9\nnr_throttled 3\nthrottled_usec 1200\n";
        assert_eq!(Throttled::of_stat(second), expected);
        let first = "nr_periods 9\nnr_throttled 3\nthrottled_time 1200000\n";
        assert_eq!(Throttled::of_stat(first), expected);
        assert_eq!(Throttled::of_stat("usage_usec 5\n"), None);
    }

    #[test]
    fn control_groups_are_found_in_both_versions_with_their_ancestors() {
        let text = "3:cpuset:/x\n4:cpu,cpuacct:/a/b\n0::/user.slice/run\n";
        let groups: Vec<ControlGroup<'_>> = ControlGroup::all(text, "cpu").collect();
        let directories: Vec<PathBuf> = groups.iter().flat_map(ControlGroup::directories).collect();
        let expected = ["cpu/a/b", "cpu/a", "cpu", "user.slice/run", "user.slice", ""];
        assert_eq!(directories, expected.map(|path| Path::new(GROUPS).join(path)));
        assert_eq!(groups.iter().map(|group| group.is_unified).collect::<Vec<_>>(), [false, true]);
        assert_eq!(ControlGroup::all("0::/\n", "memory").count(), 1);
        assert_eq!(ControlGroup::all("2:cpu:/\n", "memory").count(), 0);
    }
}
