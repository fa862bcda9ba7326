"""What the kernel says: processor time and memory of a process tree, stolen time, and what machine
this is. Reads /proc only."""

import os
import platform
import resource
import shutil
import subprocess

TICK_US = 1_000_000 / os.sysconf("SC_CLK_TCK")


def cores():
    """The core of the proxies and the core of load and origin."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise SystemExit("the benchmark needs two cores: one for the proxy, one for load and origin")
    return allowed[0], allowed[1]


def raise_open_files():
    """Raises the limit of open files as far as it goes (65,536 is enough) and returns it."""
    wanted = 65536
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
            return wanted
        except (ValueError, PermissionError):
            wanted = hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def tree(pid):
    """The process and all that descend from it."""
    found = [pid]
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as children:
            for child in children.read().split():
                found += tree(int(child))
    return found


def cpu_us(pid):
    """Processor time in microseconds (user and system, every thread) that the tree has used."""
    total = 0
    for process in tree(pid):
        with open(f"/proc/{process}/stat", encoding="ascii") as stat:
            fields = stat.read().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total * TICK_US


def resident_bytes(pid):
    """Resident memory of the tree."""
    total = 0
    for process in tree(pid):
        with open(f"/proc/{process}/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    total += int(line.split()[1]) * 1024
    return total


def core_numbers(cores):
    """The numbers of one core, or of a range such as `0-3`."""
    first, _, last = str(cores).partition("-")
    return range(int(first), int(last or first) + 1)


def core_times(cores):
    """The kernel's counters of some cores: user, nice, system, idle, iowait, irq, softirq, steal."""
    names = {f"cpu{number}" for number in core_numbers(cores)}
    with open("/proc/stat", encoding="ascii") as stat:
        found = [line.split()[1:9] for line in stat if line.split()[0] in names]
    if len(found) != len(names):
        raise RuntimeError(f"cores {cores} are not in /proc/stat")
    return [sum(int(field) for field in column) for column in zip(*found)]


def busy_and_steal(before, after):
    """Share of the time between two `core_times` that a core was busy, and that was stolen from it."""
    spent = [b - a for a, b in zip(before, after)]
    total = sum(spent) or 1
    return 1 - (spent[3] + spent[4]) / total, spent[7] / total


def version(command):
    """First line of what a program says about its version, or the word `missing`."""
    if not shutil.which(command[0]):
        return "missing"
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip().splitlines()[0]


def describe():
    """The machine, as lines of `name: value`."""
    model = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    allowed = len(os.sched_getaffinity(0))
    return [
        ("processor", f"{model}, {allowed} cores"),
        ("kernel", f"{platform.system()} {platform.release()} {platform.machine()}"),
    ]
