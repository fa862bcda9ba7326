//! Watches the machine during a run: once a second it reads the counters of the generator, of the
//! targets on this machine and of the machine itself, all on the run's clock. Counters that cannot
//! be read are left out.

use weir_stats::procfs::{CoreTimes, NetworkInterface, Throttled, network_share};

use super::machine::{
    NetworkCounters, ProcessCpu, ProcessUsage, interfaces, machine, name_of, network_of, own_cpu,
    throttled,
};
use crate::timer::now_ns;

/// Largest number of readings that are kept: four hours by the second. In a longer run every second
/// one is dropped, and from then on they are taken half as often.
const MAX_READINGS: usize = 14_400;
/// A larger share of stolen time in one second is a disturbance.
const STEAL_OF_A_SECOND: f64 = 0.05;

/// A watched process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedProcess {
    /// Its process id.
    pub pid: u32,
    /// The kernel's name for it.
    pub name: String,
}

/// The readings at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
struct MonitorReading {
    at_ns: u64,
    own: Option<ProcessCpu>,
    /// In the order of the targets.
    targets: Vec<Option<ProcessUsage>>,
    machine: Option<CoreTimes>,
    throttled: Option<Throttled>,
    interfaces: Option<Vec<NetworkInterface>>,
}

/// Takes and keeps the readings.
#[derive(Debug)]
pub struct Monitor {
    targets: Vec<WatchedProcess>,
    first: MonitorReading,
    readings: Vec<MonitorReading>,
    /// Calls of [`Monitor::look`] so far, and how many of them make a reading.
    looks: usize,
    looks_per_reading: usize,
}

/// The resources used between two readings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slice {
    /// Start in seconds since the measurement began; negative before it.
    pub from_s: f64,
    /// Length in microseconds.
    pub wall_us: f64,
    /// Processor time of the generator.
    pub own: Option<ProcessCpu>,
    /// Resources of the targets, in their order.
    pub targets: Vec<Option<ProcessUsage>>,
    /// Share of the machine's time that was stolen.
    pub steal: Option<f64>,
    /// Share of the machine's time that was used.
    pub busy: Option<f64>,
    /// Share of the machine's time that the kernel used for interrupts.
    pub interrupts: Option<f64>,
    /// Throttling of the generator by control groups.
    pub throttled: Option<Throttled>,
    /// Network traffic of the whole machine.
    pub network: Option<NetworkCounters>,
    /// The largest share of a network interface's speed that was used in one direction.
    pub network_share: Option<f64>,
}

/// The resources that a run used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunUsage {
    /// The processes that were watched.
    pub targets: Vec<WatchedProcess>,
    /// From before the first connection to after the last response.
    pub whole: Slice,
    /// The same, per second.
    pub slices: Vec<Slice>,
}

impl WatchedProcess {
    /// The process with this id.
    pub fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, name: name_of(pid)? })
    }
}

impl Monitor {
    /// Takes the first reading.
    pub fn start(targets: Vec<WatchedProcess>) -> Self {
        let first = MonitorReading::now(&targets);
        Self { readings: vec![first.clone()], first, targets, looks: 0, looks_per_reading: 1 }
    }

    /// Takes another reading; call it about once a second.
    pub fn look(&mut self) {
        self.looks += 1;
        if self.looks.is_multiple_of(self.looks_per_reading) {
            self.keep(MonitorReading::now(&self.targets), MAX_READINGS);
        }
    }

    fn keep(&mut self, reading: MonitorReading, most: usize) {
        self.readings.push(reading);
        if self.readings.len() > most {
            let mut number = 0;
            // The first one stays: slices lie side by side from the beginning to the end.
            self.readings.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.looks_per_reading *= 2;
        }
    }

    /// Takes the last reading. `began_ns` is the start of the measurement on the monotonic clock.
    pub fn finish(mut self, began_ns: u64) -> RunUsage {
        let last = MonitorReading::now(&self.targets);
        let whole = last.since(&self.first, began_ns);
        self.readings.push(last);
        let slices = self.readings.windows(2).filter_map(|pair| match pair {
            [before, after] => Some(after.since(before, began_ns)),
            _ => None,
        });
        RunUsage { slices: slices.collect(), whole, targets: self.targets }
    }
}

impl RunUsage {
    /// The first time at which a control group throttled the generator, in seconds since the
    /// measurement began.
    pub fn throttled_from_s(&self) -> Option<f64> {
        let is_throttled =
            |slice: &&Slice| slice.throttled.is_some_and(|throttled| throttled.periods > 0);
        self.slices.iter().find(is_throttled).map(|slice| slice.from_s)
    }

    /// The first second in which a large share of the machine's time was stolen, and that share.
    pub fn stolen_from_s(&self) -> Option<(f64, f64)> {
        self.slices.iter().find_map(|slice| {
            slice
                .steal
                .filter(|steal| *steal > STEAL_OF_A_SECOND)
                .map(|steal| (slice.from_s, steal))
        })
    }
}

impl MonitorReading {
    fn now(targets: &[WatchedProcess]) -> Self {
        Self {
            at_ns: now_ns(),
            own: own_cpu(),
            targets: targets.iter().map(|target| ProcessUsage::now(target.pid)).collect(),
            machine: machine(),
            throttled: throttled(),
            interfaces: interfaces(),
        }
    }

    fn since(&self, before: &Self, began_ns: u64) -> Slice {
        let wall_us = self.at_ns.saturating_sub(before.at_ns) as f64 / 1e3;
        let interfaces = self.interfaces.as_deref().zip(before.interfaces.as_deref());
        let network = |(now, then): (&[NetworkInterface], &[NetworkInterface])| {
            let (now, then) = (network_of(now), network_of(then));
            NetworkCounters {
                received_bytes: now.received_bytes.saturating_sub(then.received_bytes),
                sent_bytes: now.sent_bytes.saturating_sub(then.sent_bytes),
            }
        };
        let shares = self.machine.zip(before.machine).map(|(now, then)| {
            let total = now.total_us.saturating_sub(then.total_us).max(1) as f64;
            let steal = now.steal_us.saturating_sub(then.steal_us) as f64 / total;
            let interrupts = now.interrupts_us.saturating_sub(then.interrupts_us) as f64 / total;
            let idle = now.idle_us.saturating_sub(then.idle_us) as f64 / total;
            [steal, (1.0 - idle).max(0.0), interrupts]
        });
        let targets = self.targets.iter().zip(&before.targets);
        Slice {
            from_s: (before.at_ns as f64 - began_ns as f64) / 1e9,
            wall_us,
            own: self.own.zip(before.own).map(|(now, then)| now.since(then)),
            targets: targets.map(|(now, then)| Some((*now)?.since((*then)?))).collect(),
            steal: shares.map(|[steal, ..]| steal),
            busy: shares.map(|[_, busy, _]| busy),
            interrupts: shares.map(|[.., interrupts]| interrupts),
            throttled: self.throttled.zip(before.throttled).map(|(now, then)| Throttled {
                periods: now.periods.saturating_sub(then.periods),
                time_us: now.time_us.saturating_sub(then.time_us),
            }),
            network: interfaces.map(network),
            network_share: interfaces.and_then(|(now, then)| network_share(then, now, wall_us)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        CoreTimes, Monitor, MonitorReading, ProcessCpu, ProcessUsage, RunUsage, Slice, Throttled,
        WatchedProcess,
    };

    #[test]
    fn usage_is_the_difference_of_two_readings() {
        let cpu = |user_us, system_us| Some(ProcessCpu { user_us, system_us });
        let machine = |total_us, steal_us, idle_us| {
            Some(CoreTimes { total_us, steal_us, idle_us, interrupts_us: steal_us / 2 })
        };
        let process = |read_bytes| Some(ProcessUsage { read_bytes, ..ProcessUsage::default() });
        let before = MonitorReading {
            at_ns: 1000,
            own: cpu(1.0, 2.0),
            machine: machine(100, 0, 50),
            targets: vec![process(10), process(10), None],
            ..MonitorReading::default()
        };
        let after = MonitorReading {
            at_ns: 3_001_000,
            own: cpu(4.0, 6.0),
            machine: machine(200, 10, 100),
            targets: vec![process(15), None, process(1)],
            ..MonitorReading::default()
        };
        let usage = after.since(&before, 2_000_001_000);
        assert_eq!((usage.wall_us, usage.own), (3000.0, cpu(3.0, 4.0)));
        assert_eq!(usage.targets, [process(5), None, None]);
        assert!((usage.from_s + 2.0).abs() < 1e-9);
        assert!(
            (usage.steal.unwrap() - 0.1).abs() < 1e-9 && (usage.busy.unwrap() - 0.5).abs() < 1e-9
        );
        assert!((usage.interrupts.unwrap() - 0.05).abs() < 1e-9);
    }

    #[test]
    fn a_long_run_has_fewer_readings_from_its_beginning_to_its_end() {
        let mut monitor = Monitor::start(Vec::new());
        monitor.readings[0].at_ns = 0;
        for n in 1..=1000_u64 {
            monitor.looks += 1;
            if monitor.looks.is_multiple_of(monitor.looks_per_reading) {
                monitor.keep(MonitorReading { at_ns: n, ..MonitorReading::default() }, 100);
            }
        }
        let times: Vec<u64> = monitor.readings.iter().map(|reading| reading.at_ns).collect();
        assert!((50..=101).contains(&times.len()), "{}", times.len());
        assert_eq!((times[0], times[1], monitor.looks_per_reading), (0, 16, 16));
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 16), "{times:?}");
    }

    #[test]
    fn the_second_in_which_a_disturbance_began_is_known() {
        let slice = |from_s, periods, steal| Slice {
            from_s,
            throttled: Some(Throttled { periods, time_us: 0 }),
            steal: Some(steal),
            ..Slice::default()
        };
        let quiet = RunUsage { slices: vec![slice(-1.0, 0, 0.0)], ..RunUsage::default() };
        assert_eq!((quiet.throttled_from_s(), quiet.stolen_from_s()), (None, None));
        let slices = vec![slice(0.0, 0, 0.01), slice(1.0, 2, 0.0), slice(2.0, 1, 0.2)];
        let usage = RunUsage { slices, ..RunUsage::default() };
        assert_eq!(
            (usage.throttled_from_s(), usage.stolen_from_s()),
            (Some(1.0), Some((2.0, 0.2)))
        );
    }

    #[test]
    fn slices_lie_side_by_side_and_make_the_whole() {
        let target = WatchedProcess::of(std::process::id()).unwrap();
        let mut monitor = Monitor::start(vec![target]);
        monitor.look();
        monitor.look();
        let usage = monitor.finish(0);
        assert_eq!((usage.slices.len(), usage.targets.len()), (3, 1));
        let sum: f64 = usage.slices.iter().map(|slice| slice.wall_us).sum();
        assert!((sum - usage.whole.wall_us).abs() < 1.0);
        assert!(usage.slices.iter().all(|slice| slice.targets[0].is_some() && slice.own.is_some()));
    }
}
