//! Metrics of the process's use of the machine, and of the time that the host and the control group
//! withheld from it.

use serde::{Deserialize, Serialize};

use super::family::{Family, MetricKind, MetricValue};
use super::writer::Exposition;
use crate::procfs::{Cpu, InterfaceTraffic, NetworkInterface, TcpCounters, network_share};

/// A reading of the machine. `None` and empty if the machine does not provide the figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineFigures {
    /// The processor time of the process.
    pub cpu: Option<Cpu>,
    /// The processor time of each worker's thread.
    pub workers: Vec<Option<Cpu>>,
    /// The time of all cores, µs.
    pub machine_us: Option<u64>,
    /// The part of it that the host gave to others, µs.
    pub steal_us: Option<u64>,
    /// The part of it in which the cores were idle, µs.
    pub idle_us: Option<u64>,
    /// Periods in which the control group throttled the process.
    pub throttled_periods: Option<u64>,
    /// The time in which the process was throttled, µs.
    pub throttled_us: Option<u64>,
    /// The processor limit of the control group, and its savings.
    #[serde(default)]
    pub group: CpuGroup,
    /// Open files.
    pub open_files: Option<u64>,
    /// The limit of open files.
    pub open_files_limit: Option<u64>,
    /// Memory in use, bytes.
    pub resident_bytes: Option<u64>,
    /// The network interfaces that the process sees.
    #[serde(default)]
    pub network: Vec<NetworkInterface>,
    /// TCP's counters, of all processes that see the same network.
    #[serde(default)]
    pub tcp: Option<TcpCounters>,
    /// The time of the reading on the monotonic clock, µs.
    #[serde(default)]
    pub read_us: Option<u64>,
}

/// The processor limit of the process's control group: a bucket of its own, which the kernel fills
/// at the rate `limit_cores` and which holds up to `burst_us` beyond that. `None` if there is none,
/// or if an older kernel does not report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuGroup {
    /// The number of cores that the group may use in the long run.
    pub limit_cores: Option<f64>,
    /// The maximum of time saved up from periods with lower use, µs.
    pub burst_us: Option<u64>,
    /// Periods that have ended.
    pub periods: Option<u64>,
    /// Periods in which the group used more than the limit, from its savings.
    pub bursts: Option<u64>,
    /// The time used beyond the limit, µs.
    pub bursts_us: Option<u64>,
}

/// The usage between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// The processor time per request in own code, µs; `None` without requests.
    pub user_us_per_request: Option<f64>,
    /// The processor time per request in the kernel, µs; `None` without requests.
    pub system_us_per_request: Option<f64>,
    /// The share of the machine's time that was stolen, 0 to 1.
    pub steal: Option<f64>,
    /// The share of the machine's time that was used, stolen time included.
    pub busy: Option<f64>,
    /// Periods in which the control group throttled the process.
    pub throttled_periods: u64,
    /// The busiest worker's processor time divided by the mean of all; 1 is even; `None` below 1 %
    /// of a core.
    pub imbalance: Option<f64>,
    /// The largest share of its speed that a network interface used in one direction; `None` if no
    /// interface has a speed.
    pub network: Option<f64>,
    /// The share of TCP's segments that were retransmitted; `None` if none was sent.
    pub retransmitted_segments: Option<f64>,
}

/// The processor time per worker below which no imbalance is computed, µs.
const WORTH_COMPARING_US: u64 = 10_000;

impl MachineFigures {
    /// The usage since `earlier`, in which `requests` requests ended.
    pub fn since(&self, earlier: &Self, requests: u64) -> Usage {
        let cpu = self.cpu.zip(earlier.cpu).map(|(now, then)| now.since(then));
        let per_request = |us: u64| (requests > 0).then(|| us as f64 / requests as f64);
        let difference = |now: Option<u64>, then: Option<u64>| {
            now.zip(then).map(|(now, then)| now.saturating_sub(then))
        };
        let total = difference(self.machine_us, earlier.machine_us).filter(|total| *total > 0);
        let share = |part: Option<u64>| Some(part? as f64 / total? as f64);
        let idle = share(difference(self.idle_us, earlier.idle_us));
        let workers = self.workers.iter().zip(&earlier.workers);
        let workers: Option<Vec<u64>> = workers
            .map(|(now, then)| now.zip(*then).map(|(now, then)| now.since(then).total_us()))
            .collect();
        Usage {
            user_us_per_request: cpu.and_then(|cpu| per_request(cpu.user_us)),
            system_us_per_request: cpu.and_then(|cpu| per_request(cpu.system_us)),
            steal: share(difference(self.steal_us, earlier.steal_us)),
            busy: idle.map(|idle| 1.0 - idle),
            throttled_periods: difference(self.throttled_periods, earlier.throttled_periods)
                .unwrap_or(0),
            imbalance: workers.and_then(|workers| imbalance(&workers)),
            network: difference(self.read_us, earlier.read_us)
                .and_then(|us| network_share(&earlier.network, &self.network, us as f64)),
            retransmitted_segments: self
                .tcp
                .zip(earlier.tcp)
                .and_then(|(now, then)| now.retransmitted_share(then)),
        }
    }
}

fn imbalance(workers_us: &[u64]) -> Option<f64> {
    let sum: u64 = workers_us.iter().sum();
    let count = workers_us.len() as u64;
    let enough = count > 0 && sum >= count * WORTH_COMPARING_US;
    let most = workers_us.iter().max()?;
    enough.then(|| *most as f64 * count as f64 / sum as f64)
}

/// Writes the metrics of the process's use of the machine.
pub fn write_machine(machine: &MachineFigures, usage: &Usage, text: &mut Exposition) {
    if let Some(cpu) = machine.cpu {
        // Standard names that Prometheus expects of every process.
        let help = "Processor time of the process.";
        text.counter("process_cpu_seconds", help, MetricValue::Seconds(cpu.total_us()));
        text.family(Family { name: "weir_cpu_seconds", kind: MetricKind::Counter, help });
        text.sample(&[("mode", "user")], MetricValue::Seconds(cpu.user_us));
        text.sample(&[("mode", "system")], MetricValue::Seconds(cpu.system_us));
    }
    write_workers(machine, text);
    let mut gauge = |name, help, value: Option<u64>| {
        if let Some(value) = value {
            text.gauge(name, help, MetricValue::Count(value));
        }
    };
    gauge("process_resident_memory_bytes", "Memory in use.", machine.resident_bytes);
    gauge("process_open_fds", "Open files.", machine.open_files);
    gauge("process_max_fds", "Most files open at once.", machine.open_files_limit);
    let mut counter = |name, help, us: Option<u64>| {
        if let Some(us) = us {
            text.counter(name, help, MetricValue::Seconds(us));
        }
    };
    counter("weir_machine_cpu_seconds", "Time of all cores of the machine.", machine.machine_us);
    counter("weir_machine_idle_seconds", "Of that, idle time.", machine.idle_us);
    let stolen = "Of that, time that the host gave to other machines.";
    counter("weir_machine_steal_seconds", stolen, machine.steal_us);
    let held = "Time in which the control group throttled the process.";
    counter("weir_throttled_seconds", held, machine.throttled_us);
    if let Some(periods) = machine.throttled_periods {
        let help = "Periods in which the control group throttled the process.";
        text.counter("weir_throttled_periods", help, MetricValue::Count(periods));
    }
    write_group(machine.group, text);
    write_network(machine, text);
    write_usage(usage, text);
}

fn write_group(group: CpuGroup, text: &mut Exposition) {
    if let Some(limit) = group.limit_cores {
        let help = "Limit of the control group, in cores.";
        text.gauge("weir_cpu_limit_cores", help, MetricValue::Number(limit));
    }
    if let Some(us) = group.burst_us {
        let help = "Largest burst of processor time that the control group allows.";
        text.gauge("weir_burst_max_seconds", help, MetricValue::Seconds(us));
    }
    if let Some(us) = group.bursts_us {
        let help = "Processor time used as burst beyond the control group's limit.";
        text.counter("weir_burst_seconds", help, MetricValue::Seconds(us));
    }
    for (name, help, count) in [
        ("weir_cpu_periods", "Periods of the control group's limit.", group.periods),
        ("weir_burst_periods", "Periods of the control group with a burst.", group.bursts),
    ] {
        if let Some(count) = count {
            text.counter(name, help, MetricValue::Count(count));
        }
    }
}

/// A counter of the traffic through an interface.
struct TrafficCounter {
    name: &'static str,
    help: &'static str,
    figure: fn(InterfaceTraffic) -> u64,
}

const TRAFFIC: [TrafficCounter; 4] = [
    TrafficCounter {
        name: "weir_network_bytes",
        help: "Bytes through a network interface.",
        figure: |traffic| traffic.bytes,
    },
    TrafficCounter {
        name: "weir_network_packets",
        help: "Packets through a network interface.",
        figure: |traffic| traffic.packets,
    },
    TrafficCounter {
        name: "weir_network_errors",
        help: "Packets with errors.",
        figure: |traffic| traffic.errors,
    },
    TrafficCounter {
        name: "weir_network_dropped",
        help: "Packets that an interface dropped.",
        figure: |traffic| traffic.dropped,
    },
];

fn write_network(machine: &MachineFigures, text: &mut Exposition) {
    let interfaces = &machine.network;
    for TrafficCounter { name, help, figure } in TRAFFIC {
        if interfaces.is_empty() {
            break;
        }
        text.family(Family { name, kind: MetricKind::Counter, help });
        for NetworkInterface { name, received, sent, .. } in interfaces {
            for (direction, traffic) in [("receive", received), ("transmit", sent)] {
                let labels = [("interface", name.as_str()), ("direction", direction)];
                text.sample(&labels, MetricValue::Count(figure(*traffic)));
            }
        }
    }
    if interfaces.iter().any(|interface| interface.bytes_per_s.is_some()) {
        let name = "weir_network_speed_bytes";
        let help = "Speed of an interface in each direction, per second.";
        text.family(Family { name, kind: MetricKind::Gauge, help });
        for interface in interfaces {
            if let Some(speed) = interface.bytes_per_s {
                text.sample(&[("interface", &interface.name)], MetricValue::Number(speed));
            }
        }
    }
    let Some(tcp) = machine.tcp else { return };
    for (name, help, count) in [
        ("weir_tcp_segments", "TCP segments sent, retransmitted ones left out.", tcp.sent_segments),
        (
            "weir_tcp_retransmitted_segments",
            "TCP segments that were retransmitted.",
            tcp.retransmitted_segments,
        ),
        (
            "weir_tcp_backlog_overflows",
            "Connections that found the backlog of a listening socket full.",
            tcp.backlog_overflows,
        ),
    ] {
        text.counter(name, help, MetricValue::Count(count));
    }
}

fn write_workers(machine: &MachineFigures, text: &mut Exposition) {
    let help = "Processor time of a worker's thread.";
    text.family(Family { name: "weir_worker_cpu_seconds", kind: MetricKind::Counter, help });
    for (number, cpu) in machine.workers.iter().enumerate() {
        let Some(cpu) = cpu else { continue };
        let number = number.to_string();
        text.sample(&[("worker", &number), ("mode", "user")], MetricValue::Seconds(cpu.user_us));
        text.sample(
            &[("worker", &number), ("mode", "system")],
            MetricValue::Seconds(cpu.system_us),
        );
    }
}

fn write_usage(usage: &Usage, text: &mut Exposition) {
    let name = "weir_cpu_per_request_seconds";
    let help = "Processor time per request over the last ten seconds.";
    text.family(Family { name, kind: MetricKind::Gauge, help });
    for (mode, us) in [("user", usage.user_us_per_request), ("system", usage.system_us_per_request)]
    {
        if let Some(us) = us {
            text.sample(&[("mode", mode)], MetricValue::Number(us / 1e6));
        }
    }
    if let Some(steal) = usage.steal {
        let help = "Share of the machine's time that was stolen over the last ten seconds.";
        text.gauge("weir_machine_steal_ratio", help, MetricValue::Number(steal));
    }
    if let Some(share) = usage.network {
        let help = "Largest share of its speed that a network interface used in one direction over the last ten seconds.";
        text.gauge("weir_network_use_ratio", help, MetricValue::Number(share));
    }
    if let Some(share) = usage.retransmitted_segments {
        let help = "Share of TCP's segments that were retransmitted over the last ten seconds.";
        text.gauge("weir_tcp_retransmitted_ratio", help, MetricValue::Number(share));
    }
    if let Some(imbalance) = usage.imbalance {
        let help = "Processor time of the busiest worker over the mean of all, over the last ten seconds; 1 is even.";
        text.gauge("weir_worker_imbalance_ratio", help, MetricValue::Number(imbalance));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(turn: u64) -> MachineFigures {
        let cpu = |user_us, system_us| Some(Cpu { user_us, system_us });
        MachineFigures {
            cpu: cpu(turn * 200_000, turn * 600_000),
            workers: vec![cpu(turn * 300_000, 0), cpu(turn * 100_000, 0)],
            machine_us: Some(turn * 2_000_000),
            steal_us: Some(turn * 100_000),
            idle_us: Some(turn * 500_000),
            throttled_periods: Some(turn * 3),
            network: vec![NetworkInterface {
                name: "eth0".to_owned(),
                sent: InterfaceTraffic { bytes: turn * 1_000_000, ..InterfaceTraffic::default() },
                bytes_per_s: Some(1_250_000.0),
                ..NetworkInterface::default()
            }],
            tcp: Some(TcpCounters {
                sent_segments: turn * 990,
                retransmitted_segments: turn * 10,
                backlog_overflows: turn,
            }),
            read_us: Some(turn * 1_000_000),
            ..MachineFigures::default()
        }
    }

    #[test]
    fn usage_is_the_difference_of_two_readings() {
        let usage = reading(3).since(&reading(1), 20_000);
        let expected = Usage {
            user_us_per_request: Some(20.0),
            system_us_per_request: Some(60.0),
            steal: Some(0.05),
            busy: Some(0.75),
            throttled_periods: 6,
            imbalance: Some(1.5),
            network: Some(0.8),
            retransmitted_segments: Some(0.01),
        };
        assert_eq!(usage, expected);
        let nothing = MachineFigures::default().since(&reading(1), 0);
        assert_eq!(nothing, Usage::default());
        assert_eq!(reading(3).since(&reading(3), 0).imbalance, None, "an idle one is not uneven");
    }
}
