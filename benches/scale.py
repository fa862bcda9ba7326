#!/usr/bin/env python3
"""The cost of one request as a configuration grows: processor time of Weir per request with one route and with
the first and the last of 10,000, with ten servers and with 10,000 for each policy, and per new TLS connection
with one certificate and with 10,000. Configurations that are compared run at the same time and are measured in
turn, several rounds. Each proxy has one worker, pinned to one core; load and origin run on the other.

This prints a table, writes benches/scale.md and asserts nothing about speed. `make bench-scale` builds Weir and
calls this."""

import argparse
import datetime
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "core"), str(HERE / "scale")]

import candidates  # noqa: E402
import configurations  # noqa: E402
import load  # noqa: E402
import machine  # noqa: E402


def arguments():
    groups = list(configurations.GROUPS)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", type=pathlib.Path, required=True, help="the binary to measure")
    parser.add_argument("--before", type=pathlib.Path, help="an older binary, measured beside it")
    parser.add_argument("--build", default="as given with --weir", help="the build of the binary, for the report")
    parser.add_argument("--only", default=",".join(groups), help=f"the groups, separated by commas, of {','.join(groups)}")
    parser.add_argument("--many", type=int, default=10000, help="the number of routes, servers and certificates")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3, help="length of one measurement")
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--output", type=pathlib.Path, help="the file for the report (default benches/scale.md for all groups)")
    options = parser.parse_args()
    options.only = options.only.split(",")
    unknown = set(options.only) - set(groups)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    options.binaries = {"weir": options.weir.resolve()}
    if options.before:
        options.binaries["before"] = options.before.resolve()
    if options.output is None and options.only == groups:
        options.output = HERE / "scale.md"
    return options


def wrk(bench, child, case, seconds, connections):
    """Requests by wrk; returns their number."""
    command = ["taskset", "-c", str(bench.load_core), "wrk", "-t1", f"-c{connections}", f"-d{seconds}s"]
    command += ["-s", str(HERE / "core" / "summary.lua")]
    if case.host:
        command += ["-H", f"Host: {case.host}"]
    command.append(f"http://127.0.0.1:{child.port}{case.path}")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + 60)
    summary = load.wrk_summary(done.stdout)
    if summary is None or summary["status"] or summary["requests"] < 100:
        raise SystemExit(f"the load failed: {' '.join(command)}\n{done.stdout}{done.stderr}")
    return summary["requests"]


def handshakes(bench, child, case, seconds, _connections):
    """New TLS connections with this server name; returns their number."""
    command = ["taskset", "-c", str(bench.load_core), "python3", str(HERE / "scale" / "handshakes.py")]
    command += [str(child.port), case.host, str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + 60)
    if done.returncode != 0:
        raise SystemExit(f"the load failed: {' '.join(command)}\n{done.stdout}{done.stderr}")
    return int(done.stdout)


def measure(bench, child, case, options):
    """Processor time per request, µs."""
    put = handshakes if case.tls else wrk
    warm = put(bench, child, case, 1, options.connections)
    if not child.warm:
        # Until every server has its connection, drawn ones too.
        while warm < case.warm_requests:
            warm += put(bench, child, case, 1, options.connections)
        child.warm = True
    bench.empty_logs()
    before = machine.cpu_us(child.pid)
    requests = put(bench, child, case, options.seconds, options.connections)
    return (machine.cpu_us(child.pid) - before) / requests


def start(bench, binary, text):
    """Starts a proxy; returns it with its port and the seconds until it listened."""
    port = candidates.free_ports(1)[0]
    name = f"weir-{port}"
    values = {"PORT": port, "ORIGIN": bench.origin_port, "DIR": bench.directory, "NAME": name}
    for key, value in values.items():
        text = text.replace("${" + key + "}", str(value))
    path = bench.directory / f"{name}.conf"
    path.write_text(text)
    began = time.monotonic()
    child = bench.start(bench.proxy_core, [str(binary), "run", "-c", str(path)], name)
    child.wait_for([port])
    child.started_s = time.monotonic() - began
    child.port, child.warm = port, False
    return child


def run_group(bench, group, options):
    """The costs of each case and binary: {(case, binary): [µs]}, and the seconds that each start took."""
    cases = configurations.GROUPS[group](bench.directory, options.many)
    costs, starts = {}, {}
    for base in [case for case in cases if case.base is None]:
        run_together(bench, [case for case in cases if base.name in (case.name, case.base)], options, costs, starts)
    return cases, costs, starts


def run_together(bench, cases, options, costs, starts):
    """Measures a case and those that are compared with it, round by round."""
    running = {}
    for binary, path in options.binaries.items():
        for case in cases:
            key = (case.configuration, binary)
            if key not in running:
                running[key] = start(bench, path, case.text)
                starts[key] = running[key].started_s
    for turn in range(options.rounds):
        for case in cases:
            for binary in options.binaries:
                cost = measure(bench, running[case.configuration, binary], case, options)
                costs.setdefault((case, binary), []).append(cost)
                print(f"round {turn + 1} {case.name:40} {binary:7} {cost:8.2f} us", flush=True)
    for child in running.values():
        bench.stop(child)


def table(cases, costs, options):
    binaries = list(options.binaries)
    titles = [title for binary in binaries for title in (f"{binary}, median (range)", "ratio")]
    lines = ["| CPU µs | " + " | ".join(titles) + " | target |"]
    lines.append("| --- |" + " ---: |" * (len(titles) + 1))
    for case in cases:
        cells = []
        for binary in binaries:
            found = costs[case, binary]
            cells.append(f"{statistics.median(found):.1f} ({min(found):.1f}-{max(found):.1f})")
            base = next((other for other in cases if other.name == case.base), None)
            if base is None:
                cells.append("")
                continue
            # Cases that are measured one after the other are compared, round by round.
            ratios = [own / other for own, other in zip(found, costs[base, binary])]
            cells.append(f"{statistics.median(ratios):.2f}")
        target = f"{case.target:.2f}" if case.base else ""
        lines.append(f"| {case.name} | " + " | ".join(cells) + f" | {target} |")
    return lines


def start_line(starts):
    took = [f"{name} {seconds:.2f} s" + ("" if binary == "weir" else f" ({binary})") for (name, binary), seconds in starts.items()]
    return "Start until the port is open: " + ", ".join(took) + "."


METHOD = """
## How

Proxies that are compared run at the same time, each with one worker on the same core, and are measured in turn:
a second to warm up, then processor time of the process (user and system) divided by the number of requests. A
ratio is the median of the ratios of the rounds. wrk keeps its connections open; for certificates, each request is
a new TLS 1.3 connection without resumption that names the server. The servers are addresses of one nginx on
loopback, which serves the same 1 KB for every path. With 10,000 servers each has its own idle connection, of which
each is used again after some thousand requests, so that the kernel and the processor's caches have more to do as
well: `cargo run --release -p weir-balance --example instructions` counts the instructions of the picks alone.
"""


def main():
    options = arguments()
    began = datetime.datetime.now(datetime.timezone.utc)
    shared = pathlib.Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="weir-scale-", dir=str(shared) if shared.is_dir() else None) as directory:
        bench = candidates.Bench(directory, options.binaries, "")
        parts = []
        try:
            configurations.prepare(bench)
            for group in options.only:
                cases, costs, starts = run_group(bench, group, options)
                parts += ["", f"## {group.capitalize()}", "", *table(cases, costs, options), "", start_line(starts)]
        finally:
            bench.stop_all()
    shown = [pathlib.Path(word).name if word.startswith("/") else word for word in sys.argv[1:]]
    facts = [
        ("date", f"{began:%Y-%m-%d %H:%M} UTC"),
        ("command", "benches/scale.py " + shlex.join(shown)),
        *machine.describe(),
        ("load average at the end", f"{os.getloadavg()[0]:.1f}"),
        ("weir", machine.version([str(options.weir), "--version"])),
        ("build", options.build),
        *([("before", f"an older Weir: {options.before.name}")] if options.before else []),
        ("origin", machine.version(["nginx", "-v"])),
        ("load", f"{machine.version(['wrk', '-v'])}; {options.connections} connections, {options.seconds} s a point, {options.rounds} rounds"),
    ]
    lines = ["# What a request costs in a large configuration", ""]
    lines += ["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in facts), *parts]
    text = "\n".join(lines) + "\n" + METHOD
    print(text.split("## How", 1)[0])
    if options.output:
        options.output.write_text(text)
        print(f"written: {options.output}")


if __name__ == "__main__":
    main()
