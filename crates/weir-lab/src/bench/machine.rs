//! What the machine says of a run: processor time of the generator and of the target, time that was stolen, throttling. From `/proc` and
//! the control group; what cannot be read is left out.

use std::fs;

use crate::timer::now_ns;

/// Readings at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// The monotonic clock, in nanoseconds.
    pub at_ns: u64,
    /// Of this process.
    pub own: Option<Cpu>,
    /// Of the target with all its children.
    pub target: Option<Cpu>,
    /// Of the whole machine.
    pub machine: Option<Machine>,
    /// How often this process was held back by its control group, and for how long.
    pub throttled: Option<Throttled>,
}

/// Processor time of a process, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cpu {
    /// In its own code.
    pub user_us: f64,
    /// In the kernel.
    pub system_us: f64,
}

/// The machine's counters, in ticks of all cores together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Machine {
    /// All time.
    pub total: u64,
    /// Time that the host gave to others.
    pub steal: u64,
    /// Time that nobody wanted.
    pub idle: u64,
}

/// A control group's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Throttled {
    /// Periods in which it was held back.
    pub periods: u64,
    /// In microseconds.
    pub time_us: u64,
}

impl Cpu {
    /// Both kinds.
    pub fn total_us(self) -> f64 {
        self.user_us + self.system_us
    }

    fn since(self, before: Self) -> Self {
        Self {
            user_us: (self.user_us - before.user_us).max(0.0),
            system_us: (self.system_us - before.system_us).max(0.0),
        }
    }
}

/// What lay between two readings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// In microseconds.
    pub wall_us: f64,
    /// Of the generator.
    pub own: Option<Cpu>,
    /// Of the target.
    pub target: Option<Cpu>,
    /// Share of the machine's time that was stolen.
    pub steal: Option<f64>,
    /// Share of the machine's time that was used.
    pub busy: Option<f64>,
    /// How the control group held it back.
    pub throttled: Option<Throttled>,
}

impl Reading {
    /// Now; the target is the process of that number.
    pub fn now(target: Option<u32>) -> Self {
        Self {
            at_ns: now_ns(),
            own: cpu_of(std::process::id()),
            target: target.and_then(cpu_of_tree),
            machine: machine(),
            throttled: throttled(),
        }
    }

    /// What was used since `before`.
    pub fn since(&self, before: &Self) -> Usage {
        let both = |now: Option<Cpu>, then: Option<Cpu>| Some(now?.since(then?));
        let shares = self.machine.zip(before.machine).map(|(now, then)| {
            let total = now.total.saturating_sub(then.total).max(1) as f64;
            let steal = now.steal.saturating_sub(then.steal) as f64 / total;
            (steal, 1.0 - now.idle.saturating_sub(then.idle) as f64 / total)
        });
        Usage {
            wall_us: self.at_ns.saturating_sub(before.at_ns) as f64 / 1e3,
            own: both(self.own, before.own),
            target: both(self.target, before.target),
            steal: shares.map(|(steal, _)| steal),
            busy: shares.map(|(_, busy)| busy),
            throttled: self.throttled.zip(before.throttled).map(|(now, then)| Throttled {
                periods: now.periods.saturating_sub(then.periods),
                time_us: now.time_us.saturating_sub(then.time_us),
            }),
        }
    }
}

/// Length of a tick of `/proc`, in microseconds: the kernel shows 100 a second to all programs.
const TICK_US: f64 = 10_000.0;
/// A family of processes is not followed further.
const MAX_PROCESSES: usize = 4096;

fn cpu_of(pid: u32) -> Option<Cpu> {
    cpu_from_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn cpu_from_stat(text: &str) -> Option<Cpu> {
    // The name in parentheses may have spaces and parentheses in it.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some(Cpu { user_us: ticks()? * TICK_US, system_us: ticks()? * TICK_US })
}

/// Of a process and all that descend from it.
fn cpu_of_tree(pid: u32) -> Option<Cpu> {
    let mut sum = cpu_of(pid)?;
    let mut waiting = vec![pid];
    let mut seen = 0;
    while let Some(pid) = waiting.pop() {
        seen += 1;
        if seen > MAX_PROCESSES {
            break;
        }
        for child in children(pid) {
            if let Some(cpu) = cpu_of(child) {
                sum.user_us += cpu.user_us;
                sum.system_us += cpu.system_us;
                waiting.push(child);
            }
        }
    }
    Some(sum)
}

fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists =
        tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}

fn machine() -> Option<Machine> {
    machine_from_stat(&fs::read_to_string("/proc/stat").ok()?)
}

fn machine_from_stat(text: &str) -> Option<Machine> {
    let line = text.lines().find(|line| line.starts_with("cpu "))?;
    // user, nice, system, idle, iowait, irq, softirq, steal; guests are in user already.
    let ticks: Vec<u64> =
        line.split_whitespace().skip(1).take(8).filter_map(|field| field.parse().ok()).collect();
    Some(Machine {
        total: ticks.iter().sum(),
        idle: ticks.get(3)? + ticks.get(4)?,
        steal: *ticks.get(7)?,
    })
}

fn throttled() -> Option<Throttled> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let path = format!("/sys/fs/cgroup{}/cpu.stat", path.trim_end_matches('/'));
    throttled_from_stat(&fs::read_to_string(path).ok()?)
}

fn throttled_from_stat(text: &str) -> Option<Throttled> {
    let value = |name: &str| {
        let line = text.lines().find(|line| line.split(' ').next() == Some(name))?;
        line.split(' ').nth(1)?.parse().ok()
    };
    Some(Throttled { periods: value("nr_throttled")?, time_us: value("throttled_usec")? })
}

/// The process that listens on a port of this machine.
///
/// # Errors
/// One sentence, when there is none or it cannot be seen.
pub fn listener_on(port: u16) -> Result<u32, String> {
    let mut inodes = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = fs::read_to_string(table).unwrap_or_default();
        inodes.extend(text.lines().skip(1).filter_map(|line| listening_inode(line, port)));
    }
    if inodes.is_empty() {
        return Err(format!("nobody listens on port {port} of this machine"));
    }
    let wanted: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let processes = fs::read_dir("/proc").map_err(|error| format!("cannot read /proc: {error}"))?;
    let pids =
        processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // A server's first process has the lowest number, and the others descend from it.
    let found = pids.filter(|pid| has_file(*pid, &wanted)).min();
    found.ok_or_else(|| {
        format!("the process that listens on port {port} cannot be seen; name it with --pid")
    })
}

fn listening_inode(line: &str, port: u16) -> Option<u64> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let own = u16::from_str_radix(fields.get(1)?.rsplit(':').next()?, 16).ok()?;
    // State 0A is LISTEN.
    if own != port || *fields.get(3)? != "0A" {
        return None;
    }
    fields.get(9)?.parse().ok()
}

fn has_file(pid: u32, wanted: &[String]) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    files.flatten().any(|file| {
        fs::read_link(file.path()).is_ok_and(|target| {
            target.to_str().is_some_and(|target| wanted.iter().any(|one| one == target))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::{
        Cpu, Machine, Reading, Throttled, cpu_from_stat, listener_on, machine_from_stat,
        throttled_from_stat,
    };

    #[test]
    fn the_kernels_files_are_read() {
        let line = "42 (we (i) r) S 1 42 42 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 3 0 100 1 1";
        assert_eq!(cpu_from_stat(line), Some(Cpu { user_us: 2_500_000.0, system_us: 500_000.0 }));
        assert_eq!(cpu_from_stat("nonsense"), None);
        let machine = machine_from_stat("cpu  10 1 20 100 5 2 3 9 7 0\ncpu0 1 1 1\n");
        assert_eq!(machine, Some(Machine { total: 150, steal: 9, idle: 105 }));
        let stat = "usage_usec 5\nnr_periods 9\nnr_throttled 3\nthrottled_usec 1200\n";
        assert_eq!(throttled_from_stat(stat), Some(Throttled { periods: 3, time_us: 1200 }));
        assert_eq!(throttled_from_stat("usage_usec 5\n"), None);
    }

    #[test]
    fn usage_is_what_lies_between() {
        let cpu = |user_us, system_us| Some(Cpu { user_us, system_us });
        let machine = |total, steal, idle| Some(Machine { total, steal, idle });
        let before = Reading {
            at_ns: 1000,
            own: cpu(1.0, 2.0),
            machine: machine(100, 0, 50),
            ..Reading::default()
        };
        let after = Reading {
            at_ns: 3_001_000,
            own: cpu(4.0, 6.0),
            machine: machine(200, 10, 100),
            target: cpu(1.0, 1.0),
            throttled: None,
        };
        let usage = after.since(&before);
        assert_eq!((usage.wall_us, usage.own, usage.target), (3000.0, cpu(3.0, 4.0), None));
        assert!(
            (usage.steal.unwrap() - 0.1).abs() < 1e-9 && (usage.busy.unwrap() - 0.5).abs() < 1e-9
        );
    }

    #[test]
    fn a_listener_is_found_by_its_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(listener_on(port), Ok(std::process::id()));
        drop(listener);
        assert!(Reading::now(Some(std::process::id())).target.is_some());
    }
}
