#!/usr/bin/env python3
"""The cost of one request in Weir, Debian's nginx and haproxy: processor time per request and memory per
idle connection, measured in one run, interleaved, medians of the rounds.

Each program has one worker, pinned to one core; load (wrk) and origin (nginx) run on the other. The access
log is on for all three, and everything is on loopback. This prints a table, writes benches/core.md and
asserts nothing about speed. `make bench-core` builds Weir and calls this."""

import argparse
import datetime
import pathlib
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "core"))

import candidates  # noqa: E402
import load  # noqa: E402
import machine  # noqa: E402
import report  # noqa: E402


def arguments():
    names = [case.name for case in load.CASES] + load.MEMORY_CASES
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", type=pathlib.Path, help="the binary to measure")
    parser.add_argument("--before", type=pathlib.Path, help="an older binary of Weir, measured beside it")
    parser.add_argument("--build", default="as given with --weir", help="the build of the binary, for the report")
    parser.add_argument("--candidates", default="weir,nginx,haproxy", help="the programs, separated by commas")
    parser.add_argument("--only", default=",".join(names), help=f"the cases, separated by commas, of {','.join(names)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5, help="length of one measurement")
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--idle", type=int, default=10000, help="the number of idle connections for the memory cases")
    parser.add_argument("--quick", action="store_true", help="one round of 2 s, 1,000 idle connections, no file written")
    parser.add_argument("--nginx-log-buffer", help="give nginx's access log a buffer of this size, such as 64k")
    parser.add_argument("--output", type=pathlib.Path, help="the file for the report (default benches/core.md)")
    parser.add_argument("--perf", type=pathlib.Path, help="also record Weir with perf, into this folder")
    options = parser.parse_args()
    options.only = options.only.split(",")
    options.candidates = options.candidates.split(",")
    unknown = set(options.only) - set(names) | set(options.candidates) - {"weir", "nginx", "haproxy"}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if "weir" in options.candidates and not (options.weir and options.weir.is_file()):
        parser.error("--weir must name the binary (make bench-core builds it)")
    options.binaries = {"weir": options.weir.resolve()} if options.weir else {}
    if options.before:
        if not options.before.is_file():
            parser.error("--before must name a binary")
        options.binaries["before"] = options.before.resolve()
        options.candidates.insert(1, "before")
    if options.quick:
        options.rounds, options.seconds, options.idle = 1, 2, min(options.idle, 1000)
    elif options.output is None and set(options.only) == set(names) and len(options.candidates) >= 3:
        options.output = HERE / "core.md"
    return options


def run_cases(bench, options):
    """CPU per request: {case: {candidate: [Point of each round]}}."""
    cases = [case for case in load.CASES if case.name in options.only]
    results = {case.name: {name: [] for name in options.candidates} for case in cases}
    if not cases:
        return results
    running = {name: bench.candidate(name) for name in options.candidates}
    for turn in range(options.rounds):
        for case in cases:
            shift = turn % len(options.candidates)
            for name in options.candidates[shift:] + options.candidates[:shift]:
                point = load.measure(bench, running[name], case, 1, options.seconds, options.connections)
                results[case.name][name].append(point)
                report.progress(turn, case.name, name, point)
    if options.perf and "weir" in running:
        record(bench, running["weir"], cases, options)
    for child in running.values():
        bench.stop(child)
    return results


def run_memory(bench, options):
    """Memory per connection: {case: {candidate: (bytes, faults)}}, each in a fresh process."""
    results = {}
    for case in load.MEMORY_CASES:
        if case not in options.only:
            continue
        count = options.idle if case.startswith("idle") else min(options.idle, 2000)
        results[case] = {}
        for name in options.candidates:
            child = bench.candidate(name)
            results[case][name] = load.connection_bytes(bench, child, case, count)
            bench.stop(child)
            found, faults = results[case][name]
            print(f"        {case:15} {name:8} {found:9.0f} bytes  {faults}", flush=True)
    return results


def record(bench, child, cases, options):
    """Where Weir's time goes, by symbol, one file per case."""
    options.perf.mkdir(parents=True, exist_ok=True)
    for case in cases:
        data = bench.directory / "perf.data"
        command = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "1999", "-g", "-o", str(data), "-p", str(child.pid)]
        perf = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        load.put(bench, child, case, 3, options.connections)
        perf.send_signal(2)
        perf.wait()
        command = ["perf", "report", "-i", str(data), "--stdio", "--no-children", "-g", "none", "--percent-limit", "0.4"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        (options.perf / f"{case.name}.txt").write_text(done.stdout)
        print(f"perf: {options.perf / f'{case.name}.txt'}", flush=True)


def main():
    options = arguments()
    began = datetime.datetime.now(datetime.timezone.utc)
    log_options = f" buffer={options.nginx_log_buffer} flush=1s" if options.nginx_log_buffer else ""
    with tempfile.TemporaryDirectory(prefix="weir-bench-", dir=memory_directory()) as directory:
        bench = candidates.Bench(directory, options.binaries, log_options)
        # Every program wants two files for a client; without the right to raise the limit there are fewer clients.
        options.idle = min(options.idle, bench.open_files // 2 - 300)
        bench.values["KEPT"] = report.kept(options)
        try:
            bench.prepare()
            points = run_cases(bench, options)
            memory = run_memory(bench, options)
        finally:
            bench.stop_all()
        lines_logged = int(bench.sink.process.stdout.read() or 0)
    facts = [
        ("date", f"{began:%Y-%m-%d %H:%M} UTC"),
        ("command", "benches/core.py " + shlex.join(visible_arguments(sys.argv[1:]))),
        *machine.describe(),
        ("weir", machine.version([str(options.weir), "--version"]) if options.weir else "not measured"),
        ("build", f"weir: {options.build}; nginx and haproxy: the packages"),
        *([("before", f"an older Weir: {options.before.name}")] if options.before else []),
        ("nginx", machine.version(["nginx", "-v"])),
        ("haproxy", machine.version(["haproxy", "-v"])),
        ("load", f"{machine.version(['wrk', '-v'])}; {machine.version(['ab', '-V'])}; {options.connections} connections, {options.seconds} s a point"),
        ("cores", f"proxy on {bench.proxy_core}, load and origin on {bench.load_core}"),
        ("haproxy's log", f"{lines_logged} lines reached the syslog sink"),
    ]
    text = report.render(facts, points, memory, options, HERE / "core")
    print(text.split("## How", 1)[0])
    if options.output:
        options.output.write_text(text)
        print(f"written: {options.output}")


def memory_directory():
    """Files, logs and sockets of the run lie in memory where the system has such a place."""
    shared = pathlib.Path("/dev/shm")
    return str(shared) if shared.is_dir() else None


def visible_arguments(words):
    """The command line without this machine's paths."""
    return [pathlib.Path(word).name if word.startswith("/") else word for word in words]


if __name__ == "__main__":
    main()
