#!/usr/bin/env python3
"""The instructions that one plain keep-alive request takes in Weir, by stage, counted by callgrind: the same on
every run of one build, but for the number of requests that share a wake-up of the worker.

One worker, an access log, nginx as origin, wrk with 50 connections, 1 KB bodies, as in core.py. An instruction
counts for the crate and folder of Weir's innermost source line that it comes from, so what the compiler inlined from
the standard library counts for its caller. This prints a table, writes benches/instructions.md and asserts nothing.
`make bench-instructions` builds Weir and calls this."""

import argparse
import collections
import datetime
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "core"))

import candidates  # noqa: E402
import machine  # noqa: E402

# The first prefix that a path begins with decides; the paths are relative to crates/.
STAGES = [
    ("heads read", ["weir-wire/"]),
    ("heads written", ["weir-proxy/src/http/"]),
    ("limits, routes, balancing", ["weir-balance/", "weir-proxy/src/routing/", "weir-proxy/src/limiting/"]),
    ("endpoint connections", ["weir-proxy/src/upstream/"]),
    ("exchange", ["weir-proxy/src/exchange/"]),
    ("connection, worker", ["weir-proxy/src/connection/", "weir-proxy/src/worker/", "weir-proxy/src/runtime/"]),
    ("sockets, buffers", ["weir-proxy/src/net/", "weir-memory/"]),
    ("time", ["weir-proxy/src/time/"]),
    ("log line", ["weir-stats/src/access_log/", "weir-stats/src/exchange/"]),
    ("counters", ["weir-stats/"]),
    ("configuration at hand", ["weir-proxy/src/snapshot/", "weir-config/"]),
]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", type=pathlib.Path, required=True, help="the binary to measure, with debug information")
    parser.add_argument("--before", type=pathlib.Path, help="an older binary, measured the same way")
    parser.add_argument("--seconds", type=int, default=6, help="length of the load")
    parser.add_argument("--output", type=pathlib.Path, default=HERE / "instructions.md")
    return parser.parse_args()


def count(name, binary, seconds):
    """Returns the number of requests and the instructions by address: {(object, address): count}."""
    with tempfile.TemporaryDirectory() as directory:
        folder = pathlib.Path(directory)
        profile = folder / "callgrind.out"
        wrapper = folder / "weir"
        options = f"--tool=callgrind --dump-instr=yes --instr-atstart=no --callgrind-out-file={profile}"
        wrapper.write_text(f'#!/bin/sh\nexec valgrind {options} {binary} "$@"\n')
        wrapper.chmod(0o755)
        bench = candidates.Bench(folder, {name: wrapper}, "")
        bench.values["KEPT"] = 100
        try:
            bench.prepare()
            child = bench.candidate(name)
            load(bench, child.plain, 2)
            subprocess.run(["callgrind_control", "-i", "on", str(child.pid)], check=True, capture_output=True, timeout=60)
            requests = load(bench, child.plain, seconds)
            subprocess.run(["callgrind_control", "-i", "off", str(child.pid)], check=True, capture_output=True, timeout=60)
        finally:
            bench.stop_all()
        return requests, instructions(profile)


def load(bench, port, seconds):
    """Loads the port with wrk and returns the number of requests."""
    command = ["taskset", "-c", str(bench.load_core), "wrk", "-t1", "-c50", f"-d{seconds}s"]
    done = subprocess.run([*command, f"http://127.0.0.1:{port}/1k.bin"], capture_output=True, text=True, check=True)
    return int(re.search(r"(\d+) requests in", done.stdout).group(1))


def instructions(profile):
    """Reads the self cost of each address (callgrind's format, with positions relative to the last one)."""
    found, objects = collections.Counter(), {}
    place, at, is_call = None, 0, False
    for line in profile.read_text(errors="replace").splitlines():
        if line.startswith("ob=") or line.startswith("cob="):
            number, _, path = line.partition("=")[2].partition(" ")
            objects.setdefault(number, path)
            place = objects[number] if line.startswith("ob=") else place
        elif line.startswith("calls="):
            is_call = True
        elif line and line[0] in "0123456789+-*":
            fields = line.split()
            step = fields[0]
            at = int(step, 0) if step[0].isdigit() else at if step == "*" else at + int(step, 0)
            if not is_call:
                found[(place, at)] += int(fields[2])
            is_call = False
    return found


def by_stage(found, binary, requests):
    """Instructions per request by stage."""
    own = [at for place, at in found if place and os.path.samefile(place, binary)]
    tool = shutil.which("llvm-addr2line") or "addr2line"
    asked = "\n".join(hex(at) for at in own)
    done = subprocess.run([tool, "-e", str(binary), "-i", "-a"], input=asked, capture_output=True, text=True, check=True)
    stages, chain, at = {}, [], None
    for line in [*done.stdout.splitlines(), "0x0"]:
        if re.fullmatch(r"0x[0-9a-f]+", line):
            stages[at] = stage(chain)
            chain, at = [], int(line, 16)
        else:
            chain.append(line)
    costs = collections.Counter()
    for (place, at), cost in found.items():
        is_own = place and os.path.samefile(place, binary)
        costs[stages.get(at, "the rest") if is_own else "libc: copies, clock, calls into the kernel"] += cost
    return {name: cost / requests for name, cost in costs.items()}


def stage(chain):
    """The stage of an address with this chain of source lines, the innermost first."""
    for line in chain:
        _, found, path = line.partition("/crates/")
        if found and path.startswith("weir"):
            return next((name for name, roots in STAGES if path.startswith(tuple(roots))), "the rest")
    libraries = " ".join(chain)
    return "tokio, mio" if re.search(r"/(tokio|mio)-[0-9]", libraries) else "the rest"


def main():
    options = arguments()
    binaries = {"before": options.before} if options.before else {}
    binaries["weir"] = options.weir
    tables = {}
    for name, binary in binaries.items():
        requests, found = count(name, binary.resolve(), options.seconds)
        tables[name] = by_stage(found, binary.resolve(), requests)
        print(f"{name}: {requests} requests, {sum(tables[name].values()):.0f} instructions each", flush=True)
    names = [name for name, _ in STAGES] + ["tokio, mio", "libc: copies, clock, calls into the kernel", "the rest"]
    rows = ["| stage | " + " | ".join(tables) + " |", "| --- |" + " ---: |" * len(tables)]
    for name in names:
        rows.append(f"| {name} | " + " | ".join(f"{table.get(name, 0):,.0f}" for table in tables.values()) + " |")
    rows.append("| **all** | " + " | ".join(f"**{sum(table.values()):,.0f}**" for table in tables.values()) + " |")
    text = "\n".join(rows)
    print(text)
    facts = machine.describe() + [("valgrind", machine.version(["valgrind", "--version"]))]
    about = "\n".join(["", "| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in facts), ""])
    options.output.write_text(
        "# What a plain request takes in instructions\n\n"
        "`make bench-instructions` writes this page (`benches/instructions.py` says how it counts). One keep-alive\n"
        f"request for 1 KB with an access log, counted by callgrind on {datetime.date.today()}. For a binary that\n"
        f"was built in another folder, most instructions are under *the rest*.\n{about}\n{text}\n"
    )


if __name__ == "__main__":
    main()
