//! The process's use of the machine, and the processor time that the machine withholds from it,
//! from `/proc` and the control group. Values that cannot be read are left out.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};
use weir_stats::exposition::{CpuGroup, MachineFigures};
use weir_stats::procfs::{
    ControlGroup, CoreTimes, Cpu, NetworkInterface, TcpCounters, Throttled, value_of,
};

use crate::migration::machine_clock;

/// The name of worker threads, before their number.
const WORKER: &str = "weir-worker-";
/// Reads the current figures, with one entry for each of `workers` threads.
pub fn read(workers: usize) -> MachineFigures {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let machine = CoreTimes::of_stat(&text("/proc/stat"));
    let directory = group_directory(&text("/proc/self/cgroup"));
    let in_group = |name: &str| {
        let file = directory.as_ref().map(|directory| directory.join(name));
        file.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default()
    };
    let stat = in_group("cpu.stat");
    let throttled = Throttled::of_stat(&stat);
    MachineFigures {
        cpu: Cpu::of_stat(&text("/proc/self/stat")),
        workers: workers_of(Path::new("/proc/self/task"), workers),
        machine_us: machine.map(|machine| machine.total_us),
        steal_us: machine.map(|machine| machine.steal_us),
        idle_us: machine.map(|machine| machine.idle_us),
        throttled_periods: throttled.map(|throttled| throttled.periods),
        throttled_us: throttled.map(|throttled| throttled.time_us),
        group: group_of(&stat, in_group),
        open_files: open_files(),
        open_files_limit: getrlimit(Resource::Nofile).current,
        resident_bytes: resident_of(&text("/proc/self/status")),
        network: NetworkInterface::all_of_dev(&text("/proc/self/net/dev"), |name| {
            fs::read_to_string(format!("/sys/class/net/{name}/speed")).ok()
        })
        .unwrap_or_default(),
        tcp: TcpCounters::of(&text("/proc/self/net/snmp"), &text("/proc/self/net/netstat")),
        read_us: Some(machine_clock::now_us()),
    }
}

/// The processor time of each worker's thread, found by the thread's name.
fn workers_of(tasks: &Path, workers: usize) -> Vec<Option<Cpu>> {
    let mut found = vec![None; workers];
    let Ok(tasks) = fs::read_dir(tasks) else { return found };
    for task in tasks.flatten() {
        let Ok(name) = fs::read_to_string(task.path().join("comm")) else { continue };
        let Some(Ok(number)) = name.trim().strip_prefix(WORKER).map(str::parse::<usize>) else {
            continue;
        };
        if let Some(place) = found.get_mut(number) {
            *place = fs::read_to_string(task.path().join("stat"))
                .ok()
                .and_then(|stat| Cpu::of_stat(&stat));
        }
    }
    found
}

/// The processor time that all programs have used on all cores since the machine started, µs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) busy_us: u64,
    /// The time that they were ready to run in and that the host gave to other machines.
    pub(crate) steal_us: u64,
    pub(crate) cores: u64,
    /// The time since the machine started.
    pub(crate) uptime_us: u64,
}

/// Reads the current figures; `None` if the machine does not report them.
pub(crate) fn used() -> Option<Used> {
    let text = |path: &str| fs::read_to_string(path).ok();
    used_of(&text("/proc/stat")?, &text("/proc/uptime")?)
}

fn used_of(stat: &str, uptime: &str) -> Option<Used> {
    let CoreTimes { total_us, steal_us, idle_us, .. } = CoreTimes::of_stat(stat)?;
    let own = |line: &&str| {
        let number = line.strip_prefix("cpu").and_then(|rest| rest.split(' ').next());
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let seconds: f64 = uptime.split(' ').next()?.parse().ok()?;
    Some(Used {
        busy_us: total_us.saturating_sub(idle_us).saturating_sub(steal_us),
        steal_us,
        cores: stat.lines().filter(own).count() as u64,
        uptime_us: (seconds * 1e6) as u64,
    })
}

/// The directory of this process's control group: of version 2, or the processor group of version
/// 1.
fn group_directory(groups: &str) -> Option<PathBuf> {
    let group = ControlGroup::all(groups, "cpu").next()?;
    let own = group.directories().next().filter(|own| own.join("cpu.stat").exists());
    // Inside a container the group's own directory is the root of the visible tree.
    Some(own.unwrap_or(group.root))
}

/// The processor limit of a group and its bursts, of either version; `file` reads one of the
/// group's files, which may be missing.
fn group_of(stat: &str, file: impl Fn(&str) -> String) -> CpuGroup {
    let number = |name: &str| file(name).trim().parse::<u64>().ok();
    let both = file("cpu.max");
    let limit = match both.trim().split_once(' ') {
        Some((quota, period)) => quota.parse().ok().zip(period.parse().ok()),
        None => number("cpu.cfs_quota_us").zip(number("cpu.cfs_period_us")),
    };
    let Some((quota, period)) = limit.filter(|(_, period): &(u64, u64)| *period > 0) else {
        return CpuGroup::default();
    };
    let us = value_of(stat, "burst_usec");
    CpuGroup {
        limit_cores: Some(quota as f64 / period as f64),
        burst_us: number("cpu.max.burst").or_else(|| number("cpu.cfs_burst_us")),
        periods: value_of(stat, "nr_periods"),
        bursts: value_of(stat, "nr_bursts"),
        bursts_us: us.or_else(|| Some(value_of(stat, "burst_time")? / 1_000)),
    }
}

/// The number of open files. Newer kernels report it as the directory's size; otherwise the entries
/// are counted.
fn open_files() -> Option<u64> {
    let told = fs::metadata("/proc/self/fd").ok()?.len();
    if told > 0 {
        return Some(told);
    }
    let counted = fs::read_dir("/proc/self/fd").ok()?.count() as u64;
    // Reading the directory opens one more file.
    Some(counted.saturating_sub(1))
}

fn resident_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_in_use_is_read() {
        assert_eq!(resident_of("Name:\tweir\nVmRSS:\t    1536 kB\n"), Some(1_572_864));
    }

    #[test]
    fn what_all_programs_used_is_read() {
        let stat = "cpu  10 1 20 100 5 2 3 9 7 0\ncpu0 1 1 1\ncpu1 1 1\nctxt 5\n";
        let expected =
            Used { busy_us: 360_000, steal_us: 90_000, cores: 2, uptime_us: 86_400_250_000 };
        assert_eq!(used_of(stat, "86400.25 1000.00\n"), Some(expected));
        assert_eq!(used_of(stat, "nonsense"), None);
        assert!(used().is_some_and(|used| used.cores > 0 && used.busy_us > 0));
    }

    #[test]
    fn the_burst_of_a_control_group_is_read_in_either_version() {
        let group = |stat: &str, files: &'static [(&str, &str)]| {
            group_of(stat, |name| {
                let found = files.iter().find(|(own, _)| *own == name);
                found.map(|(_, text)| (*text).to_owned()).unwrap_or_default()
            })
        };
        let expected = CpuGroup {
            limit_cores: Some(1.5),
            burst_us: Some(50_000),
            periods: Some(90),
            bursts: Some(7),
            bursts_us: Some(210),
        };
        let stat = "usage_usec 5\nnr_periods 90\nnr_throttled 3\nthrottled_usec 1200\nnr_bursts 7\nburst_usec 210\n";
        let second = group(stat, &[("cpu.max", "150000 100000\n"), ("cpu.max.burst", "50000\n")]);
        assert_eq!(second, expected);
        let stat = "nr_periods 90\nnr_throttled 3\nthrottled_time 1200000\nnr_bursts 7\nburst_time 210999\n";
        let first = &[
            ("cpu.cfs_quota_us", "150000\n"),
            ("cpu.cfs_period_us", "100000\n"),
            ("cpu.cfs_burst_us", "50000\n"),
        ];
        assert_eq!(group(stat, first), expected);
        assert_eq!(group(stat, &[("cpu.max", "max 100000\n")]), CpuGroup::default());
        let unlimited = &[("cpu.cfs_quota_us", "-1\n"), ("cpu.cfs_period_us", "100000\n")];
        assert_eq!(group(stat, unlimited), CpuGroup::default());
        let old = group("nr_periods 90\nnr_throttled 3\n", &[("cpu.max", "50000 100000\n")]);
        assert_eq!((old.limit_cores, old.periods, old.bursts), (Some(0.5), Some(90), None));
    }

    #[test]
    fn the_control_group_is_found_in_either_version() {
        let root = |below: &str| Some(Path::new("/sys/fs/cgroup").join(below));
        assert_eq!(group_directory("0::/no/such/group\n"), root(""));
        assert_eq!(group_directory("3:memory:/a\n2:cpu,cpuacct:/no/such\n"), root("cpu"));
        assert_eq!(group_directory("3:memory:/a\n"), None);
    }

    #[test]
    fn this_process_is_read() {
        let (stop, stopping) = std::sync::mpsc::channel::<()>();
        let (begin, begun) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name(format!("{WORKER}1")).spawn(move || {
            let _ = begin.send(());
            let _ = stopping.recv();
        });
        begun.recv().unwrap();
        let figures = read(2);
        assert!(figures.cpu.is_some() && figures.machine_us > figures.idle_us);
        assert!(figures.open_files.is_some_and(|files| files > 2));
        assert!(figures.open_files <= figures.open_files_limit);
        assert!(figures.resident_bytes.is_some_and(|bytes| bytes > 1 << 20));
        assert!(figures.network.iter().any(|interface| interface.name == "lo"));
        assert!(figures.tcp.is_some() && figures.read_us.is_some());
        // Another test in this program may run a server with workers of its own.
        assert!(figures.workers[1].is_some());
        drop(stop);
        thread.unwrap().join().unwrap();
    }
}
