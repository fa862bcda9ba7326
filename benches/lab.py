#!/usr/bin/env python3
"""The cost of a request in the laboratory's own programs: `weir origin` beside Debian's nginx, which serves
the same 1 KB from memory, and `weir bench` beside Debian's wrk, which requests it. Measured in one run,
interleaved, medians of the rounds, processor time from the kernel's accounting.

Each program has one worker or one thread; server and load have a core each, and everything is on loopback.
This prints a table, writes benches/lab.md and asserts nothing about speed. `make bench-lab` builds Weir and
calls this."""

import argparse
import datetime
import json
import pathlib
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "core"), str(HERE / "lab")]

import candidates  # noqa: E402
import lateness  # noqa: E402
import load  # noqa: E402
import machine  # noqa: E402

CASE = load.Case("origin-1k", "plain", 1024, "/1k", "wrk", 0.95)
ORIGINS = {
    "weir": "weir origin",
    "nginx-return": "nginx, `return` of a text",
    "nginx-file": "nginx, file in memory",
}
GENERATORS = {
    "wrk": "wrk, closed loop",
    "weir-closed": "weir bench -n, closed loop",
    "weir-open": "weir bench -R, open loop at 90 % of wrk's rate",
}
GENERATOR_TARGETS = {"plain": 1.2, "tls": 1.0}
METHOD = """\
Each origin has one worker on one core; wrk requests 1,024 bytes from the other core, over {connections}
keep-alive connections. In each of {rounds} rounds the origins take turns, and the first one changes from
round to round. A point is 1 s of warm-up and {seconds} s of measurement. The cost is the user and system
time of all threads of a program (`/proc/PID/stat`), divided by the requests that wrk counted. nginx
serves the body from its configuration (`return 200 "…"`) and, from another process, from a file that is
open and in the kernel's cache; it logs nothing. `weir origin` numbers and logs every request, as it
always does. A point with an error or a wrong response is invalid.

The generators request from nginx (`return`, one worker) with {connections} connections and one thread.
They take turns, wrk first: the open loop is given 90 % of the rate that wrk reached a moment before. The
cost is the user and system time of the generator's process from start to end (`getrusage`), divided by
the responses that it counted. The server's core is the bottleneck, so that the closed loops reach the
same rate. TLS is 1.3 with TLS_AES_256_GCM_SHA384; no certificate is verified, as wrk verifies none.

The target compares like with like: closed loops at the same rate. An open loop wakes for every start and
again for its response; the responses of a closed loop come in bursts that share a wake-up, which is most
of the difference. If other programs use a core meanwhile, the rate is low and the lateness high."""

LATENESS = """\
The delay between the intended start of a request, or the moment a connection was free, and the moment
the open loop really sends it: one thread on a core of its own, against nginx. The last rate takes about
half of the core. The first and the last line are the lateness of a program that only sleeps on that
core: no generator can be more punctual than that."""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", type=pathlib.Path, required=True, help="the binary to measure")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=3, help="length of one measurement")
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--only", default="origin,generator,lateness", help="the parts, separated by commas")
    parser.add_argument("--quick", action="store_true", help="one round of 2 s, no file written")
    options = parser.parse_args()
    if not options.weir.is_file():
        parser.error("--weir must name the binary (make bench-lab builds it)")
    if options.quick:
        options.rounds, options.seconds = 1, 2
    return options


class Lab(candidates.Bench):
    """The origins, each in a process of its own on the first core."""

    @property
    def weir(self):
        """The only binary."""
        return self.binaries

    def prepare(self):
        files = self.directory / "www"
        files.mkdir()
        self.directory.chmod(0o755)
        (files / "1k").write_bytes(b"w" * 1024)
        self.values["BODY"] = "w" * 1024
        candidates.certificate(self.directory)

    def fill(self, template):
        text = (HERE / "lab" / template).read_text()
        for name, value in self.values.items():
            text = text.replace("${" + name + "}", str(value))
        path = self.directory / template
        path.write_text(text)
        return path

    def origin(self, name):
        port, other, tls = candidates.free_ports(3)
        if name == "weir":
            command = [str(self.weir), "origin", "--workers", "1", "--listen", f"127.0.0.1:{port}"]
        else:
            ports = (port, other) if name == "nginx-return" else (other, port)
            self.values["RETURN"], self.values["FILE"] = ports
            self.values["TLS"] = tls
            command = ["nginx", "-e", "stderr", "-c", str(self.fill("nginx.conf"))]
        child = self.start(self.proxy_core, command, name)
        child.plain, child.tls = port, tls
        child.wait_for([port])
        return child


def run_origins(bench, options):
    """CPU per request: {origin: [Point of each round]}."""
    results = {name: [] for name in ORIGINS}
    running = {name: bench.origin(name) for name in ORIGINS}
    names = list(ORIGINS)
    for turn in range(options.rounds):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            point = load.measure(bench, running[name], CASE, 1, options.seconds, options.connections)
            results[name].append(point)
            print(
                f"round {turn + 1} {name:13} {point.cpu_us:7.2f} us/request {point.rate:9.0f}/s"
                f"  core {point.proxy_busy:4.0%}, steal {point.steal:5.1%}  {point.faults}",
                flush=True,
            )
    for child in running.values():
        bench.stop(child)
    return results


def generate(bench, server, name, kind, seconds, connections, rate):
    """One run of a generator: what it cost and how fast it was."""
    scheme, port = ("http", server.plain) if kind == "plain" else ("https", server.tls)
    url = f"{scheme}://localhost:{port}/1k"
    if name == "wrk":
        summary = str(HERE / "core" / "summary.lua")
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", summary, url]
    else:
        closed, opened = [f"-n{int(rate * seconds)}"], [f"-R{rate * 0.9:.0f}", f"-d{seconds}s"]
        load_flags = {"weir-closed": closed, "weir-open": opened}[name]
        command = [str(bench.weir), "bench", "-t1", f"-c{connections}", *load_flags, "-k", "--json", "-", url]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = ["taskset", "-c", str(bench.load_core), *command]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + 60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_us = 1e6 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    if name == "wrk":
        summary = load.wrk_summary(done.stdout)
        requests, reached = summary["requests"], summary["requests"] * 1e6 / summary["microseconds"]
        faults, lateness = load.faults(summary, CASE), None
    else:
        report = json.loads(done.stdout)
        requests, reached = report["requests"]["answered"], report["achieved"]
        faults = "" if report["requests"]["failed"] == 0 else f"{report['requests']['failed']} failures"
        lateness = report["lateness"]["p99.9"] if name == "weir-open" else None
    point = load.Point(cpu_us=cpu_us / max(requests, 1), rate=reached, faults=faults)
    point.lateness_us = lateness
    return point


def run_generators(bench, options):
    """CPU per request: {kind: {generator: [Point of each round]}}."""
    results = {kind: {name: [] for name in GENERATORS} for kind in GENERATOR_TARGETS}
    server = bench.origin("nginx-return")
    for turn in range(options.rounds):
        for kind in GENERATOR_TARGETS:
            # wrk goes first, because the others are to reach the rate that it reached a moment ago.
            rate = 0
            for name in ["wrk", *(["weir-closed", "weir-open"] if turn % 2 else ["weir-open", "weir-closed"])]:
                point = generate(bench, server, name, kind, options.seconds, options.connections, rate)
                rate = rate or point.rate
                results[kind][name].append(point)
                late = "" if point.lateness_us is None else f"  late {point.lateness_us:.0f} us at p99.9"
                print(
                    f"round {turn + 1} {kind:5} {name:11} {point.cpu_us:7.2f} us/request {point.rate:9.0f}/s{late}  {point.faults}",
                    flush=True,
                )
    bench.stop(server)
    return results


def generator_table(results):
    lines = [
        "| generator, 1 KB | kind | CPU µs per request, median (range) | requests/s, median | ratio to wrk | target |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for kind, by_name in results.items():
        base = median(by_name["wrk"])
        for name, title in GENERATORS.items():
            points = by_name[name]
            middle = median(points)
            costs = [point.cpu_us for point in points]
            cost = "invalid" if middle is None else f"{middle:.2f} ({min(costs):.2f}-{max(costs):.2f})"
            rate = statistics.median(point.rate for point in points)
            ratio = f"{middle / base:.2f}" if middle and base and name != "wrk" else "-"
            target = f"{GENERATOR_TARGETS[kind]:.1f}" if name == "weir-closed" else "-"
            lines.append(f"| {title} | {kind} | {cost} | {rate:,.0f} | {ratio} | {target} |")
    late = {kind: statistics.median(point.lateness_us for point in by_name["weir-open"]) for kind, by_name in results.items()}
    words = ", ".join(f"{value:.0f} µs ({kind})" for kind, value in late.items())
    return lines + ["", f"Lateness of the open loop at p99.9, median of the rounds: {words}."]


def run_lateness(bench, options):
    server = bench.origin("nginx-return")
    found = lateness.run(bench, server.plain, max(options.seconds, 5), options.connections)
    bench.stop(server)
    return found


def median(points):
    """The median cost, or nothing when a point does not count."""
    if not points or any(point.faults for point in points):
        return None
    return statistics.median(point.cpu_us for point in points)


def origin_table(results):
    lines = [
        "| origin, 1 KB over HTTP/1.1 | CPU µs per request, median (range) | requests/s, median | core busy |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name, title in ORIGINS.items():
        points = results[name]
        costs = [point.cpu_us for point in points]
        middle = median(points)
        cost = "invalid" if middle is None else f"{middle:.2f} ({min(costs):.2f}-{max(costs):.2f})"
        rate = statistics.median(point.rate for point in points)
        busy = statistics.median(point.proxy_busy for point in points)
        lines.append(f"| {title} | {cost} | {rate:,.0f} | {busy:.0%} |")
    own = median(results["weir"])
    peers = [median(results[name]) for name in ORIGINS if name != "weir"]
    if own is None or None in peers:
        return lines + ["", "No ratio: a point does not count."]
    found = own / min(peers)
    verdict = "met" if found <= CASE.target else "missed"
    return lines + ["", f"Ratio to the better nginx: **{found:.2f}** (target {CASE.target}: {verdict})."]


def all_points(results):
    lines = [
        "| origin | round | CPU µs per request | requests/s | core busy | steal | faults |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for name, points in results.items():
        for turn, point in enumerate(points):
            lines.append(
                f"| {name} | {turn + 1} | {point.cpu_us:.2f} | {point.rate:,.0f} | {point.proxy_busy:.0%} "
                f"| {point.steal:.1%} | {point.faults or '-'} |"
            )
    return lines


def render(facts, results, generators, late, options):
    lines = ["# What the laboratory's programs cost", "", "Written by `make bench-lab`; not edited by hand.", ""]
    lines += ["| | |", "| --- | --- |"] + [f"| {name} | {value} |" for name, value in facts] + [""]
    if results:
        lines += ["## Origin", ""] + origin_table(results) + [""]
    if generators:
        lines += ["## Generator", ""] + generator_table(generators) + [""]
    if late:
        lines += ["## Lateness", "", LATENESS, ""] + lateness.table(late) + [""]
    words = {"connections": options.connections, "rounds": options.rounds, "seconds": options.seconds}
    lines += ["## How it was measured", "", METHOD.format(**words), ""]
    if results:
        lines += ["## Every point of the origins", ""] + all_points(results)
    config = (HERE / "lab" / "nginx.conf").read_text().rstrip()
    lines += ["", "## Configuration", "", "`benches/lab/nginx.conf`:", "", "```", config, "```", ""]
    return "\n".join(lines)


def main():
    options = arguments()
    began = datetime.datetime.now(datetime.timezone.utc)
    shared = pathlib.Path("/dev/shm")
    parent = str(shared) if shared.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="weir-bench-", dir=parent) as directory:
        bench = Lab(directory, options.weir.resolve(), "")
        try:
            bench.prepare()
            results = run_origins(bench, options) if "origin" in options.only else {}
            generators = run_generators(bench, options) if "generator" in options.only else {}
            late = run_lateness(bench, options) if "lateness" in options.only else []
        finally:
            bench.stop_all()
    words = [pathlib.Path(word).name if word.startswith("/") else word for word in sys.argv[1:]]
    facts = [
        ("date", f"{began:%Y-%m-%d %H:%M} UTC"),
        ("command", "benches/lab.py " + shlex.join(words)),
        *machine.describe(),
        ("weir", machine.version([str(options.weir), "--version"])),
        ("nginx", machine.version(["nginx", "-v"])),
        ("load", f"{machine.version(['wrk', '-v'])}; {options.connections} connections, {options.seconds} s a point"),
        ("cores", f"servers on {bench.proxy_core}, load on {bench.load_core}"),
    ]
    text = render(facts, results, generators, late, options)
    print(text.split("## How", 1)[0])
    if not options.quick and results and generators and late:
        (HERE / "lab.md").write_text(text)
        print(f"written: {HERE / 'lab.md'}")


if __name__ == "__main__":
    main()
