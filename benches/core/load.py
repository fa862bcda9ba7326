"""Puts load on a proxy and says what one request cost it, and what an idle connection costs."""

import dataclasses
import json
import pathlib
import re
import subprocess
import time

import machine

HERE = pathlib.Path(__file__).parent


@dataclasses.dataclass(frozen=True)
class Case:
    """One kind of request, at the port of that kind. `target` is the ratio to the better peer that the project
    wants to reach.

    wrk resumes its TLS session when it connects again, so full handshakes come from ab, which does not. A request
    of `curl` is one download of a large file."""

    name: str
    kind: str
    body: int
    path: str
    program: str
    target: float | None


CASES = [
    Case("plain", "plain", 1024, "/1k.bin", "wrk", 0.92),
    Case("tls-1k", "tls", 1024, "/1k.bin", "wrk", 0.85),
    Case("tls-100k", "tls", 102400, "/100k.bin", "wrk", 0.55),
    Case("handshake", "tls", 1024, "/1k.bin", "ab", 0.70),
    Case("resumption", "tls", 1024, "/1k.bin", "wrk-close", None),
    Case("http2-1k", "tls", 1024, "/1k.bin", "h2load", 0.95),
    Case("http2-100k", "tls", 102400, "/100k.bin", "h2load", 0.60),
    Case("http2-new", "tls", 1024, "/1k.bin", "h2load-new", 0.65),
    Case("grpc", "tls", 100, "/bench.Echo/Unary", "h2load-call", None),
    Case("tcp", "tcp", 1024, "/1k.bin", "wrk", 0.95),
    Case("tcp-bulk", "tcp", 1 << 30, "/1g.bin", "curl", 0.95),
    Case("passthrough-bulk", "passthrough", 1 << 30, "/1g.bin", "curl", 0.95),
]
# Of the HTTP/2 cases: that many streams on each of that many connections.
HTTP2_CONNECTIONS, HTTP2_STREAMS = 10, 10
# New connections of HTTP/2 per second.
NEW_CONNECTIONS = 500
TITLES = {
    "plain": "HTTP/1.1, 1 KB",
    "tls-1k": "TLS 1.3, 1 KB",
    "tls-100k": "TLS 1.3, 100 KB",
    "handshake": "new TLS 1.3 connection per request, 1 KB",
    "resumption": "the same with the session resumed",
    "http2-1k": "HTTP/2, TLS 1.3, 1 KB",
    "http2-100k": "HTTP/2, TLS 1.3, 100 KB",
    "http2-new": "new HTTP/2 connection per request, TLS 1.3, 1 KB",
    "grpc": "gRPC, a call with one message each way, TLS 1.3",
    "tcp": "TCP relay, 1 KB round trips",
    "tcp-bulk": "TCP relay, 1 GB at once",
    "passthrough-bulk": "TLS passed through by server name, 1 GB at once",
    "idle-plain": "idle connection, plain",
    "idle-tls": "idle connection, TLS",
    "idle-http2": "idle connection, HTTP/2 and TLS",
    "busy-plain": "connection whose request waits for its endpoint, plain",
}
MEMORY_CASES = ["idle-plain", "idle-tls", "idle-http2", "busy-plain"]
MEMORY_TARGET_BYTES = {
    "idle-plain": 1.2 * 1024,
    "idle-tls": 8.5 * 1024,
    "idle-http2": 15 * 1024,
    "busy-plain": 4 * 1024,
}


@dataclasses.dataclass
class Point:
    """What one measurement found. It counts only without `faults`."""

    cpu_us: float = 0.0
    rate: float = 0.0
    proxy_busy: float = 0.0
    steal: float = 0.0
    faults: str = ""


def put(bench, child, case, seconds, connections):
    """Puts the case's load on the proxy, from the load's core; returns what the load program counted."""
    if case.program == "curl":
        return download(bench, child, case, seconds)
    scheme = "https" if case.kind == "tls" else "http"
    url = f"{scheme}://localhost:{child.ports[case.kind]}{case.path}"
    command = ["taskset", "-c", str(bench.load_core), *load_command(bench, case, seconds, connections), url]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + 60)
    summary = {"ab": ab_summary, "h2load": h2load_summary}.get(case.program.split("-")[0], wrk_summary)(done.stdout)
    if summary is None:
        raise SystemExit(f"the load failed: {' '.join(command)}\n{done.stdout}{done.stderr}")
    return summary


def load_command(bench, case, seconds, connections):
    """The load program with all words but the URL."""
    streams = ["-c", str(HTTP2_CONNECTIONS), "-m", str(HTTP2_STREAMS), "-D", str(seconds)]
    count = str(NEW_CONNECTIONS * seconds)
    call = ["-d", str(bench.directory / "call.bin"), "-H", "content-type: application/grpc", "-H", "te: trailers"]
    wrk = ["wrk", f"-t{bench.load_threads}", f"-c{connections}", f"-d{seconds}s", "-s", str(HERE / "summary.lua")]
    return {
        "ab": ["ab", "-q", "-r", "-f", "TLS1.3", "-c", str(connections), "-t", str(seconds)],
        "h2load": ["h2load", "-t", "1", *streams],
        "h2load-call": ["h2load", "-t", "1", *streams, *call],
        # Each client is one connection with one request.
        "h2load-new": ["h2load", "-t", "1", "-n", count, "-c", count, "-r", str(NEW_CONNECTIONS)],
        "wrk": wrk,
        "wrk-close": [*wrk, "-H", "Connection: close"],
    }[case.program]


def download(bench, child, case, seconds):
    """Downloads the file once for each second, one after the other; an incomplete one is an error."""
    scheme = "https" if case.kind == "passthrough" else "http"
    url = f"{scheme}://localhost:{child.ports[case.kind]}{case.path}"
    command = ["taskset", "-c", str(bench.load_core), "curl", "-sS", "--http1.1", "-o", "/dev/null", "--max-time", "60"]
    command += ["--cacert", str(bench.directory / "site.pem"), "-w", "%{http_code} %{size_download}", url]
    summary = dict.fromkeys(["connect", "read", "write", "status", "timeout", "bytes", "requests"], 0)
    began = time.monotonic()
    for _ in range(seconds):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        code, _, size = done.stdout.partition(" ")
        summary["requests"] += 1
        summary["bytes"] += int(size or 0)
        summary["read"] += done.returncode != 0
        summary["status"] += code != "200"
    return summary | {"microseconds": (time.monotonic() - began) * 1e6}


def wrk_summary(output):
    for line in output.splitlines():
        if line.startswith("SUMMARY "):
            return json.loads(line[8:])
    return None


def ab_summary(output):
    """ab's report in the words of wrk's."""
    numbers = {name.strip(): float(value) for name, value in re.findall(r"^([A-Z][^:\n]*):\s+([0-9.]+)", output, re.M)}
    if "Complete requests" not in numbers:
        return None
    return {
        "microseconds": numbers["Time taken for tests"] * 1e6,
        "requests": int(numbers["Complete requests"]),
        "bytes": numbers["Total transferred"],
        "connect": 0,
        "read": int(numbers.get("Failed requests", 0)),
        "write": int(numbers.get("Write errors", 0)),
        "status": int(numbers.get("Non-2xx responses", 0)),
        "timeout": 0,
    }


def h2load_summary(output):
    """h2load's report in the words of wrk's. Streams that are open at the end of its time are no errors."""
    time_taken = re.search(r"^finished in ([0-9.]+)(s|ms),", output, re.M)
    counts = re.search(r"^requests: .* (\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", output, re.M)
    codes = re.search(r"^status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", output, re.M)
    data = re.search(r"\(\d+\) headers .*\((\d+)\) data", output)
    protocol = re.search(r"^Application protocol: h2$", output, re.M)
    if not (time_taken and counts and codes and data and protocol):
        return None
    _, succeeded, failed, errored, timeout = map(int, counts.groups())
    return {
        "microseconds": float(time_taken[1]) * (1e6 if time_taken[2] == "s" else 1e3),
        "requests": succeeded,
        "bytes": int(data[1]),
        "connect": 0,
        "read": failed - timeout,
        "write": errored,
        "status": int(codes[3]) + int(codes[4]),
        "timeout": timeout,
    }


def faults(summary, case):
    """Why the point does not count, or nothing."""
    found = [f"{summary[kind]} {kind} errors" for kind in ("connect", "read", "write", "timeout") if summary[kind]]
    if summary["status"]:
        found.append(f"{summary['status']} answers other than 2xx or 3xx")
    if summary["requests"] < (1 if case.program == "curl" else 100):
        found.append(f"only {summary['requests']} requests")
    elif summary["bytes"] / summary["requests"] < case.body:
        found.append("bodies are too short")
    return ", ".join(found)


def measure(bench, child, case, warm_s, measure_s, connections):
    """One point: warm up, then load with the processor time read before and after."""
    put(bench, child, case, warm_s, connections)
    bench.empty_logs()
    cores = [bench.proxy_core, bench.load_core]
    times_before = [machine.core_times(core) for core in cores]
    cpu_before = machine.cpu_us(child.pid)
    summary = put(bench, child, case, measure_s, connections)
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


def connection_bytes(bench, child, case, count):
    """Resident memory per connection: idle after one request, or with a request that gets no response."""
    state, kind = case.split("-")
    port = child.ports["busy" if state == "busy" else "plain" if kind == "plain" else "tls"]
    path = "/1k.bin" if state == "idle" else "-"
    command = ["python3", str(HERE / "idle.py"), str(port), str(count), kind, path]
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
