//! The machine's counters during a run: processor time of the generator and of the target, stolen
//! time, throttling. They are read from `/proc` and the control group; counters that cannot be read
//! are left out.

use std::fs;

use rustix::thread::{CpuSet, sched_getaffinity};
use rustix::time::{ClockId, clock_gettime};
use weir_stats::procfs::{ControlGroup, CoreTimes, Cpu, NetworkInterface, Throttled, value_of};

/// Processor time of a process, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessCpu {
    /// Time in user mode.
    pub user_us: f64,
    /// Time in the kernel.
    pub system_us: f64,
}

/// The resources used by a process and all its children.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessUsage {
    /// Processor time, counted in ticks of 10 ms.
    pub cpu: ProcessCpu,
    /// Bytes read from a disk.
    pub read_bytes: u64,
    /// Bytes to be written to a disk.
    pub written_bytes: u64,
    /// Context switches of all threads, voluntary or not.
    pub switches: u64,
    /// Resident memory now, in bytes. It is no difference.
    pub resident_bytes: u64,
    /// Open files now. It is no difference.
    pub open_files: u64,
    /// Threads now. It is no difference.
    pub threads: u64,
}

/// Bytes over all network interfaces, loopback included.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NetworkCounters {
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
}

impl ProcessCpu {
    /// User and system time together.
    pub fn total_us(self) -> f64 {
        self.user_us + self.system_us
    }

    /// The difference to an earlier reading.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            user_us: (self.user_us - before.user_us).max(0.0),
            system_us: (self.system_us - before.system_us).max(0.0),
        }
    }
}

impl ProcessUsage {
    /// The current counters of a process.
    pub fn now(pid: u32) -> Option<Self> {
        let mut sum = Self { cpu: cpu_of(pid)?, ..Self::default() };
        sum.add_counters(pid);
        let mut waiting = vec![pid];
        let mut seen = 0;
        while let Some(pid) = waiting.pop() {
            seen += 1;
            if seen > MAX_PROCESSES {
                break;
            }
            for child in children(pid) {
                if let Some(cpu) = cpu_of(child) {
                    sum.cpu.user_us += cpu.user_us;
                    sum.cpu.system_us += cpu.system_us;
                    sum.add_counters(child);
                    waiting.push(child);
                }
            }
        }
        Some(sum)
    }

    fn add_counters(&mut self, pid: u32) {
        let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        self.read_bytes += value_of(&text, "read_bytes:").unwrap_or(0);
        self.written_bytes += value_of(&text, "write_bytes:").unwrap_or(0);
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let text = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            self.switches += switches_of(&text);
            self.threads += 1;
        }
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
        self.open_files += files.count() as u64;
        let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        self.resident_bytes += resident_of(&text);
    }

    /// The difference to an earlier reading.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            cpu: self.cpu.since(before.cpu),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            switches: self.switches.saturating_sub(before.switches),
            resident_bytes: self.resident_bytes,
            open_files: self.open_files,
            threads: self.threads,
        }
    }
}

/// The context switches of a thread, by its `status`.
fn switches_of(status: &str) -> u64 {
    let lines = status.lines().filter(|line| line.contains("ctxt_switches:"));
    lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum()
}

/// The resident memory of a process in bytes, by its `status`.
fn resident_of(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// Largest number of descendants that are followed.
const MAX_PROCESSES: usize = 4096;

/// The processor time of this process: the sum is exact to the nanosecond, its split into user and
/// system follows the kernel's ticks.
pub(super) fn own_cpu() -> Option<ProcessCpu> {
    let ticks = cpu_of(std::process::id())?;
    let precise = clock_gettime(ClockId::ProcessCPUTime);
    let total_us = precise.tv_sec as f64 * 1e6 + precise.tv_nsec as f64 / 1e3;
    let user_share = if ticks.total_us() > 0.0 { ticks.user_us / ticks.total_us() } else { 1.0 };
    Some(ProcessCpu { user_us: total_us * user_share, system_us: total_us * (1.0 - user_share) })
}

/// The kernel's name of a process.
pub(super) fn name_of(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned())
}

/// The name of this machine.
pub(crate) fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim_end().to_owned()
}

/// The cores that this process may use.
pub fn allowed_cores() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

fn cpu_of(pid: u32) -> Option<ProcessCpu> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Workers that a reload replaces end within the measurement.
    let Cpu { user_us, system_us } = Cpu::of_stat_with_ended_children(&stat)?;
    Some(ProcessCpu { user_us: user_us as f64, system_us: system_us as f64 })
}

/// The children of a process.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists =
        tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}

pub(super) fn machine() -> Option<CoreTimes> {
    CoreTimes::of_stat(&fs::read_to_string("/proc/stat").ok()?)
}

/// The counters of this process's control group and all its ancestors, for both versions of control
/// groups.
pub(super) fn throttled() -> Option<Throttled> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mut sum = None;
    for group in ControlGroup::all(&groups, "cpu") {
        for directory in group.directories() {
            let stat = fs::read_to_string(directory.join("cpu.stat")).unwrap_or_default();
            let Some(found) = Throttled::of_stat(&stat) else { continue };
            let before = sum.unwrap_or(Throttled::default());
            sum = Some(Throttled {
                periods: before.periods + found.periods,
                time_us: before.time_us + found.time_us,
            });
        }
    }
    sum
}

/// The counters of all network interfaces.
pub(super) fn interfaces() -> Option<Vec<NetworkInterface>> {
    let dev = fs::read_to_string("/proc/self/net/dev").ok()?;
    NetworkInterface::all_of_dev(&dev, |name| {
        fs::read_to_string(format!("/sys/class/net/{name}/speed")).ok()
    })
}

/// All interfaces together.
pub(super) fn network_of(interfaces: &[NetworkInterface]) -> NetworkCounters {
    NetworkCounters {
        received_bytes: interfaces.iter().map(|one| one.received.bytes).sum(),
        sent_bytes: interfaces.iter().map(|one| one.sent.bytes).sum(),
    }
}

/// The processes that listen on a port of this machine, without those that descend from another one
/// of them, whose usage includes theirs.
///
/// # Errors
/// One sentence if there is none, or it is not visible to this user.
pub fn listeners_on(port: u16) -> Result<Vec<u32>, String> {
    let mut inodes = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = fs::read_to_string(table).unwrap_or_default();
        inodes.extend(text.lines().skip(1).filter_map(|line| listening_inode(line, port)));
    }
    if inodes.is_empty() {
        return Err(format!("no process listens on port {port} of this machine"));
    }
    let wanted: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let processes = fs::read_dir("/proc").map_err(|error| format!("cannot read /proc: {error}"))?;
    let pids =
        processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let found: Vec<u32> = pids.filter(|pid| has_file(*pid, &wanted)).collect();
    let mut first: Vec<u32> = found.iter().copied().filter(|pid| !descends(*pid, &found)).collect();
    if first.is_empty() {
        let sentence =
            format!("the process that listens on port {port} is not visible; give it with --pid");
        return Err(sentence);
    }
    first.sort_unstable();
    Ok(first)
}

/// Returns true if one of a process's ancestors is among these.
fn descends(pid: u32, others: &[u32]) -> bool {
    let parent = |pid: u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let mut ancestors = std::iter::successors(parent(pid), |pid| parent(*pid)).take(MAX_PROCESSES);
    ancestors.any(|ancestor| others.contains(&ancestor))
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
    use std::fs;
    use std::os::fd::OwnedFd;
    use std::process::Command;

    use super::{
        NetworkCounters, NetworkInterface, ProcessUsage, allowed_cores, host_name, listeners_on,
        name_of, network_of, own_cpu, resident_of, switches_of,
    };
    use weir_stats::procfs::InterfaceTraffic;

    #[test]
    fn bytes_of_all_interfaces_are_summed() {
        let interface = |received, sent| NetworkInterface {
            received: InterfaceTraffic { bytes: received, ..InterfaceTraffic::default() },
            sent: InterfaceTraffic { bytes: sent, ..InterfaceTraffic::default() },
            ..NetworkInterface::default()
        };
        let expected = NetworkCounters { received_bytes: 110, sent_bytes: 220 };
        assert_eq!(network_of(&[interface(10, 20), interface(100, 200)]), expected);
    }

    #[test]
    fn switches_and_memory_are_read() {
        let status = "Name:\tx\nVmRSS:\t    2048 kB\nvoluntary_ctxt_switches:\t30\nnonvoluntary_ctxt_switches:\t12\n";
        assert_eq!((switches_of(status), resident_of(status)), (42, 2048 * 1024));
        assert_eq!((switches_of(""), resident_of("")), (0, 0));
        let own = ProcessUsage::now(std::process::id()).unwrap();
        assert!(own.resident_bytes > 100_000 && own.switches > 0 && own.threads >= 2);
        let files: Vec<fs::File> = (0..100).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        let with_files = ProcessUsage::now(std::process::id()).unwrap();
        drop(files);
        assert!(with_files.since(own).open_files >= 100);
    }

    #[test]
    fn this_process_is_seen_as_it_is() {
        let before = own_cpu().unwrap();
        let mut sum = 0_u64;
        while own_cpu().unwrap().since(before).total_us() < 1000.0 {
            sum = std::hint::black_box(sum + 1);
        }
        let pid = std::process::id();
        assert!(
            ProcessUsage::now(pid).is_some() && name_of(pid).is_some_and(|name| !name.is_empty())
        );
        assert_eq!((ProcessUsage::now(u32::MAX), name_of(u32::MAX)), (None, None));
        assert!(!allowed_cores().is_empty() && !host_name().is_empty());
    }

    #[test]
    fn a_listener_is_found_by_its_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(listeners_on(port), Ok(vec![std::process::id()]));
        // Children with the same socket belong to their parent; without it they are all that
        // listen.
        let mut children = [(); 2].map(|()| {
            let socket = OwnedFd::from(listener.try_clone().unwrap());
            Command::new("sleep").arg("600").stdin(socket).spawn().unwrap()
        });
        assert_eq!(listeners_on(port), Ok(vec![std::process::id()]));
        drop(listener);
        let mut expected = children.each_ref().map(std::process::Child::id);
        expected.sort_unstable();
        let found = listeners_on(port);
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(found, Ok(expected.to_vec()));
        assert!(listeners_on(port).is_err());
    }
}
