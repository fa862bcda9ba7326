//! What the process takes of the machine and what the machine takes from it (rows O-17, O-19, NEW-14), from `/proc` and the control
//! group. What cannot be read is left out.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};
use weir_stats::exposition::{Cpu, MachineFigures};

/// Length of a tick of `/proc`, µs: the kernel shows a hundred a second to all programs.
const TICK_US: u64 = 10_000;
/// How the threads of workers are called, before their number.
const WORKER: &str = "weir-worker-";
/// Where control groups are.
const GROUPS: &str = "/sys/fs/cgroup";

/// A reading of now, for so many workers.
pub(crate) fn read(workers: usize) -> MachineFigures {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let machine = machine_of(&text("/proc/stat"));
    let throttled = group_directory(&text("/proc/self/cgroup"))
        .and_then(|directory| throttled_of(&fs::read_to_string(directory.join("cpu.stat")).ok()?));
    MachineFigures {
        cpu: cpu_of(&text("/proc/self/stat")),
        workers: workers_of(Path::new("/proc/self/task"), workers),
        machine_us: machine.map(|machine| machine.total),
        steal_us: machine.map(|machine| machine.steal),
        idle_us: machine.map(|machine| machine.idle),
        throttled_periods: throttled.map(|(periods, _)| periods),
        throttled_us: throttled.map(|(_, us)| us),
        open_files: open_files(),
        open_files_limit: getrlimit(Resource::Nofile).current,
        resident_bytes: resident_of(&text("/proc/self/status")),
    }
}

/// Of a process's or thread's `stat`.
fn cpu_of(stat: &str) -> Option<Cpu> {
    // The name in parentheses may have spaces and parentheses in it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut us = || Some(fields.next()?.parse::<u64>().ok()? * TICK_US);
    Some(Cpu { user_us: us()?, system_us: us()? })
}

/// Of each worker's thread, found by its name.
fn workers_of(tasks: &Path, workers: usize) -> Vec<Option<Cpu>> {
    let mut found = vec![None; workers];
    let Ok(tasks) = fs::read_dir(tasks) else { return found };
    for task in tasks.flatten() {
        let Ok(name) = fs::read_to_string(task.path().join("comm")) else { continue };
        let Some(Ok(number)) = name.trim().strip_prefix(WORKER).map(str::parse::<usize>) else {
            continue;
        };
        if let Some(place) = found.get_mut(number) {
            *place =
                fs::read_to_string(task.path().join("stat")).ok().and_then(|stat| cpu_of(&stat));
        }
    }
    found
}

/// Times of all cores, µs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Machine {
    total: u64,
    steal: u64,
    idle: u64,
}

/// Of `/proc/stat`: time of guests is in that of users already.
fn machine_of(stat: &str) -> Option<Machine> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> =
        line.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    let [_, _, _, idle, waiting, _, _, steal] = ticks[..] else { return None };
    Some(Machine {
        total: ticks.iter().sum::<u64>() * TICK_US,
        steal: steal * TICK_US,
        idle: (idle + waiting) * TICK_US,
    })
}

/// Where the files of this process's control group are: version 2, or the first version's processor group.
fn group_directory(groups: &str) -> Option<PathBuf> {
    let mut lines = groups.lines().map(|line| line.splitn(3, ':').collect::<Vec<_>>());
    let (below, path) = lines.find_map(|line| match line[..] {
        ["0", "", path] => Some(("", path)),
        [_, names, path] if names.split(',').any(|name| name == "cpu") => Some(("cpu", path)),
        _ => None,
    })?;
    let root = Path::new(GROUPS).join(below);
    let own = root.join(path.trim_start_matches('/'));
    // Within a container the group's own directory is the root of what is seen.
    if own.join("cpu.stat").exists() { Some(own) } else { Some(root) }
}

/// Periods and µs of a group's `cpu.stat`, of either version.
fn throttled_of(stat: &str) -> Option<(u64, u64)> {
    let value = |name: &str| {
        let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(key, _)| *key == name)?.1.parse::<u64>().ok()
    };
    let us = value("throttled_usec").or_else(|| Some(value("throttled_time")? / 1_000))?;
    Some((value("nr_throttled")?, us))
}

/// Newer kernels tell the number as the directory's size; else it is counted.
fn open_files() -> Option<u64> {
    let told = fs::metadata("/proc/self/fd").ok()?.len();
    if told > 0 {
        return Some(told);
    }
    let counted = fs::read_dir("/proc/self/fd").ok()?.count() as u64;
    // The directory that is being read is one of them.
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
    fn what_the_kernel_writes_is_read() {
        let stat = "77 (a b) (c)) S 1 2 3 4 5 6 7 8 9 10 250 40 0 0 20 0 3 0 100";
        assert_eq!(cpu_of(stat), Some(Cpu { user_us: 2_500_000, system_us: 400_000 }));
        assert_eq!(cpu_of("nonsense"), None);
        let machine = machine_of("cpu  10 1 20 100 5 2 3 9 7 0\ncpu0 1 1 1\n");
        let expected = Machine { total: 1_500_000, steal: 90_000, idle: 1_050_000 };
        assert_eq!(machine, Some(expected));
        let second = "usage_usec 5\nnr_periods 9\nnr_throttled 3\nthrottled_usec 1200\n";
        assert_eq!(throttled_of(second), Some((3, 1_200)));
        let first = "nr_periods 9\nnr_throttled 3\nthrottled_time 1200000\n";
        assert_eq!(throttled_of(first), Some((3, 1_200)));
        assert_eq!(throttled_of("usage_usec 5\n"), None);
        assert_eq!(resident_of("Name:\tweir\nVmRSS:\t    1536 kB\n"), Some(1_572_864));
    }

    #[test]
    fn the_control_group_is_found_in_either_version() {
        let root = |below: &str| Some(Path::new(GROUPS).join(below));
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
        // Another test of this program may run a server with workers of its own.
        assert!(figures.workers[1].is_some());
        drop(stop);
        thread.unwrap().join().unwrap();
    }
}
