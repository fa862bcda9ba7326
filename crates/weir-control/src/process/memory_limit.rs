//! The memory limit of the process: the limit of its control group or the machine's memory, and the
//! configured share of it. It enforces nothing.

use std::fs;
use std::path::{Path, PathBuf};

use weir_config::Config;
use weir_stats::procfs::ControlGroup;

/// The memory budget of the process under this configuration, in bytes; `None` if it is unbounded.
pub(crate) fn budget(config: &Config) -> Option<usize> {
    let text = |path: &Path| fs::read_to_string(path).ok();
    let groups = text(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let available = available(&text(Path::new("/proc/meminfo")).unwrap_or_default(), &groups, text);
    config.memory.bytes(available).map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// The smallest of the machine's memory and the limits of the control group and its ancestors;
/// `file` reads one of their files.
fn available(meminfo: &str, groups: &str, file: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let limits = limit_files(groups);
    let limits = limits.iter().filter_map(|path| file(path)?.trim().parse::<u64>().ok());
    limits.chain(total(meminfo)).min()
}

fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1_024)
}

/// The files that may hold a limit, for either version of control groups: those of the group and
/// all its ancestors.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for group in ControlGroup::all(groups, "memory") {
        let name = if group.is_unified { "memory.max" } else { "memory.limit_in_bytes" };
        files.extend(group.directories().map(|directory| directory.join(name)));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_machine_and_control_groups_counts() {
        let meminfo = "MemTotal:        4096 kB\nMemFree:  17 kB\n";
        let check = |groups: &str, files: &[(&str, &str)], expected: Option<u64>| {
            let file = |path: &Path| {
                let found = files.iter().find(|(own, _)| Path::new(own) == path);
                found.map(|(_, text)| (*text).to_owned())
            };
            assert_eq!(available(meminfo, groups, file), expected, "{groups} {files:?}");
        };
        check("", &[], Some(4096 << 10));
        check("0::/a/b\n", &[("/sys/fs/cgroup/a/b/memory.max", "max\n")], Some(4096 << 10));
        check("0::/a/b\n", &[("/sys/fs/cgroup/a/memory.max", "1000000\n")], Some(1_000_000));
        check("0::/gone\n", &[("/sys/fs/cgroup/memory.max", "77\n")], Some(77));
        let first = "5:memory:/x\n4:cpu:/y\n";
        let file = "/sys/fs/cgroup/memory/x/memory.limit_in_bytes";
        check(first, &[(file, "9223372036854771712\n")], Some(4096 << 10));
        check(first, &[(file, "2000\n")], Some(2_000));
        assert_eq!(available("", "", |_| None), None);
    }

    #[test]
    fn this_machine_tells_its_memory() {
        assert!(budget(&Config::default()).is_some_and(|bytes| bytes >= 32 << 20));
    }
}
