#!/usr/bin/env python3
"""Throughput and CPU per request with more and more workers, of Weir, Debian's nginx and haproxy.

Half of the machine's cores are the proxies', a quarter the origin's and a quarter the load's; each program
gets as many workers as cores, 1, 2, 4 and so on. The programs take turns. This prints a table, writes
benches/workers.md and asserts nothing about speed. `make bench-workers` builds Weir and calls this."""

import argparse
import datetime
import os
import pathlib
import shlex
import statistics
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "core"))

import candidates  # noqa: E402
import load  # noqa: E402
import machine  # noqa: E402
import report  # noqa: E402

PROGRAMS = ["weir", "nginx", "haproxy"]
CONNECTIONS_OF_A_WORKER = 64


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", type=pathlib.Path, required=True, help="the binary to measure")
    parser.add_argument("--only", default="plain,tls-1k,tcp", help="cases of benches/core.py that wrk measures")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3, help="length of one measurement")
    parser.add_argument("--output", type=pathlib.Path, default=HERE / "workers.md")
    return parser.parse_args()


def shared_out():
    """Cores of the proxies, the origin and the load, as ranges."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 4 or allowed != list(range(allowed[0], allowed[-1] + 1)):
        raise SystemExit("the benchmark needs four cores or more, with numbers in a row")
    first, quarter = allowed[0], len(allowed) // 4
    ends = [first, first + 2 * quarter, first + 3 * quarter, first + 4 * quarter]
    return [span(begin, end) for begin, end in zip(ends, ends[1:])]


def span(begin, end):
    return f"{begin}-{end - 1}"


def powers_of_two(most):
    """1, 2, 4 and so on, and the most."""
    found = [1 << power for power in range(most.bit_length())]
    return sorted(set(found) | {most})


def measured(options, cases, count, cores):
    """{case: {program: [Point of each round]}} with this many workers."""
    proxies, origin, of_load = cores
    first = machine.core_numbers(proxies)[0]
    points = {case.name: {name: [] for name in PROGRAMS} for case in cases}
    with tempfile.TemporaryDirectory(prefix="weir-workers-", dir="/dev/shm") as directory:
        bench = candidates.Bench(directory, {"weir": options.weir.resolve()}, "")
        bench.proxy_core, bench.origin_core, bench.load_core = span(first, first + count), origin, of_load
        bench.load_threads = len(machine.core_numbers(of_load))
        connections = CONNECTIONS_OF_A_WORKER * count
        workers_of_origin = len(machine.core_numbers(origin))
        bench.values |= {"WORKERS": count, "ORIGIN_WORKERS": workers_of_origin, "KEPT": 2 * connections}
        try:
            bench.prepare()
            running = {name: bench.candidate(name) for name in PROGRAMS}
            for turn in range(options.rounds):
                for case in cases:
                    for name in PROGRAMS[turn % 3 :] + PROGRAMS[: turn % 3]:
                        point = load.measure(bench, running[name], case, 1, options.seconds, connections)
                        points[case.name][name].append(point)
                        print(f"{count} workers ", end="")
                        report.progress(turn, case.name, name, point)
        finally:
            bench.stop_all()
    return points


def row(count, of_count, of_one):
    cells = [str(count)]
    for name in PROGRAMS:
        points = of_count[name]
        if any(point.faults for point in points):
            cells += ["invalid", "", "", ""]
            continue
        rate = statistics.median(point.rate for point in points)
        alone = statistics.median(point.rate for point in of_one[name])
        cost = statistics.median(point.cpu_us for point in points)
        busy = statistics.median(point.proxy_busy for point in points)
        cells += [f"{rate:,.0f}", f"{rate / alone:.2f}", f"{cost:.1f}", f"{busy:.0%}"]
    return "| " + " | ".join(cells) + " |"


def table(case, results):
    titles = [f"{name} {what}" for name in PROGRAMS for what in ("requests/s", "of one", "CPU µs", "busy")]
    lines = [f"## {load.TITLES[case.name]}", "", "| workers | " + " | ".join(titles) + " |"]
    lines.append("| ---: |" + " ---: |" * len(titles))
    one = results[min(results)][case.name]
    return lines + [row(count, found[case.name], one) for count, found in results.items()] + [""]


def main():
    options = arguments()
    began = datetime.datetime.now(datetime.timezone.utc)
    cores = shared_out()
    cases = [case for case in load.CASES if case.name in options.only.split(",")]
    counts = powers_of_two(len(machine.core_numbers(cores[0])))
    results = {count: measured(options, cases, count, cores) for count in counts}
    facts = [
        ("date", f"{began:%Y-%m-%d %H:%M} UTC"),
        ("command", "benches/workers.py " + shlex.join(sys.argv[1:])),
        *machine.describe(),
        ("cores", f"proxies on {cores[0]}, origin on {cores[1]}, load on {cores[2]}"),
        ("nginx", machine.version(["nginx", "-v"])),
        ("haproxy", machine.version(["haproxy", "-v"])),
    ]
    lines = ["# Throughput with more workers, beside nginx and HAProxy", ""]
    lines += ["Written by `make bench-workers`; not edited by hand.", "", "| | |", "| --- | --- |"]
    lines += [f"| {name} | {value} |" for name, value in facts] + [""]
    for case in cases:
        lines += table(case, results)
    lines += [
        "Medians of the rounds. *of one*: the rate as a multiple of that with one worker; *CPU µs*: user and system",
        "time of the program for a request; *busy*: the share of the proxies' cores that were busy. Where it is far from",
        "100 %, load or origin were the limit. There are "
        f"{CONNECTIONS_OF_A_WORKER} connections for each worker. The rest is as in [core.md](core.md).",
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    options.output.write_text(text)


if __name__ == "__main__":
    main()
