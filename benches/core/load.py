"""Puts load on a proxy and says what one request cost it, and what an idle connection costs."""

import dataclasses
import json
import pathlib
import subprocess
import time

import machine

HERE = pathlib.Path(__file__).parent


@dataclasses.dataclass(frozen=True)
class Case:
    """One kind of request. `target` is the ratio to the better peer that the project wants to reach."""

    name: str
    kind: str
    body: int
    path: str
    close: bool
    target: float


CASES = [
    Case("plain", "plain", 1024, "/1k.bin", False, 0.92),
    Case("tls-1k", "tls", 1024, "/1k.bin", False, 0.85),
    Case("tls-100k", "tls", 102400, "/100k.bin", False, 0.55),
    Case("handshake", "tls", 1024, "/1k.bin", True, 0.70),
]
TITLES = {
    "plain": "HTTP/1.1, 1 KB",
    "tls-1k": "TLS 1.3, 1 KB",
    "tls-100k": "TLS 1.3, 100 KB",
    "handshake": "new TLS 1.3 connection per request, 1 KB",
    "idle-plain": "idle connection, plain",
    "idle-tls": "idle connection, TLS",
}
IDLE_TARGET_BYTES = {"plain": 3 * 1024, "tls": 20 * 1024}


@dataclasses.dataclass
class Point:
    """What one measurement found. It counts only without `faults`."""

    cpu_us: float = 0.0
    rate: float = 0.0
    proxy_busy: float = 0.0
    steal: float = 0.0
    faults: str = ""


def wrk(bench, child, case, seconds, connections):
    """Runs wrk on the load's core; returns its summary."""
    scheme, port = ("http", child.plain) if case.kind == "plain" else ("https", child.tls)
    command = ["taskset", "-c", str(bench.load_core), "wrk", "-t1", f"-c{connections}", f"-d{seconds}s"]
    command += ["-s", str(HERE / "summary.lua")]
    if case.close:
        command += ["-H", "Connection: close"]
    command += [f"{scheme}://localhost:{port}{case.path}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + 60)
    for line in done.stdout.splitlines():
        if line.startswith("SUMMARY "):
            return json.loads(line[8:])
    raise SystemExit(f"wrk failed: {' '.join(command)}\n{done.stdout}{done.stderr}")


def faults(summary, case):
    """Why the point does not count, or nothing."""
    found = [f"{summary[kind]} {kind} errors" for kind in ("connect", "read", "write", "timeout") if summary[kind]]
    if summary["status"]:
        found.append(f"{summary['status']} answers other than 2xx or 3xx")
    if summary["requests"] < 100:
        found.append(f"only {summary['requests']} requests")
    elif summary["bytes"] / summary["requests"] < case.body:
        found.append("bodies are too short")
    return ", ".join(found)


def measure(bench, child, case, warm_s, measure_s, connections):
    """One point: warm up, then load with the processor time read before and after."""
    wrk(bench, child, case, warm_s, connections)
    bench.empty_logs()
    cores = [bench.proxy_core, bench.load_core]
    times_before = [machine.core_times(core) for core in cores]
    cpu_before = machine.cpu_us(child.pid)
    summary = wrk(bench, child, case, measure_s, connections)
    cpu_after = machine.cpu_us(child.pid)
    shares = [machine.busy_and_steal(t, machine.core_times(c)) for t, c in zip(times_before, cores)]
    requests = max(summary["requests"], 1)
    return Point(
        cpu_us=(cpu_after - cpu_before) / requests,
        rate=requests * 1e6 / summary["microseconds"],
        proxy_busy=shares[0][0],
        steal=max(share[1] for share in shares),
        faults=faults(summary, case),
    )


def idle_bytes(bench, child, kind, count):
    """Resident memory per idle keep-alive connection, each having done one request."""
    port = child.plain if kind == "plain" else child.tls
    command = ["python3", str(HERE / "idle.py"), str(port), str(count), kind, "/1k.bin"]
    warm = idle_client(bench, command[:3] + ["50"] + command[4:])
    release(warm)
    before = machine.resident_bytes(child.pid)
    holder = idle_client(bench, command)
    time.sleep(1.0)
    growth = machine.resident_bytes(child.pid) - before
    held = release(holder)
    found = "" if held == count else f"{count - held} of {count} connections were closed"
    return growth / count, found


def idle_client(bench, command):
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    child = bench.start(bench.load_core, command, "idle", **streams)
    if child.process.stdout.readline() != b"ready\n":
        child.process.wait()
        raise SystemExit(f"the idle client ended:\n{child.output.read_text()}")
    return child


def release(child):
    """Has the client count what is still open, then lets it go."""
    stdin, stdout = child.process.stdin, child.process.stdout
    stdin.write(b"\n")
    stdin.flush()
    held = int(stdout.readline())
    stdin.close()
    child.process.wait()
    return held
