#!/usr/bin/env python3
"""What a plain request costs a program that parses nothing (core/relay.c), beside Weir and nginx: the floor under
every proxy on this machine. Interleaved, medians of the rounds, with the sleeps of each program, which the cost
depends on. This prints a table, writes benches/floor.md and asserts nothing. `make bench-floor` builds Weir and
calls this."""

import argparse
import datetime
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "core"))

import candidates  # noqa: E402
import load  # noqa: E402
import machine  # noqa: E402

WARM = 1
RELAYS = {"relay": 0, "relay-spin": 10}
METHOD = """\
Load, origin, cores and configurations are those of [core.md](core.md): 50 keep-alive connections, 1 KB, access logs
on, one worker each. *relay* passes bytes on between each client and a connection of its own to the origin, and
looks at none of them: no head, no choice, no log. *relay-spin* is the same program, which looks for events for
10 µs before it sleeps. A sleep costs processor time as well: the fewer events a program finds at each look, the
more it sleeps, and a program that is faster sleeps more often. So the relay is not cheaper than a proxy by all that
the proxy does."""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", type=pathlib.Path, required=True, help="the binary to measure")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=2, help="length of one measurement")
    parser.add_argument("--output", type=pathlib.Path, default=HERE / "floor.md")
    return parser.parse_args()


def start(bench, name, folder):
    """Starts a program; it has `plain`, its port."""
    if name not in RELAYS:
        return bench.candidate(name)
    port = candidates.free_ports(1)[0]
    command = [str(folder / "relay"), str(port), str(bench.values["ORIGIN"]), str(RELAYS[name])]
    child = bench.start(bench.proxy_core, command, name)
    child.plain = port
    child.wait_for([port])
    return child


def sleeps(pid):
    """How often the tree's threads have waited for events so far."""
    total = 0
    for process in machine.tree(pid):
        for status in pathlib.Path(f"/proc/{process}/task").glob("*/status"):
            for line in status.read_text(encoding="ascii").splitlines():
                if line.startswith("voluntary_ctxt_switches:"):
                    total += int(line.split()[1])
    return total


def run(options, folder):
    """The points of each program: {name: [(CPU µs, requests/s, sleeps per request)]}."""
    subprocess.run(["cc", "-O2", "-o", str(folder / "relay"), str(HERE / "core" / "relay.c")], check=True)
    bench = candidates.Bench(folder, {"weir": options.weir.resolve()}, "")
    bench.values["KEPT"] = 100
    case = next(case for case in load.CASES if case.name == "plain")
    names = [*RELAYS, "weir", "nginx"]
    points = {name: [] for name in names}
    try:
        bench.prepare()
        children = {name: start(bench, name, folder) for name in names}
        for turn in range(options.rounds):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                before = sleeps(children[name].pid)
                point = load.measure(bench, children[name], case, WARM, options.seconds, 50)
                if point.faults:
                    raise SystemExit(f"{name}: {point.faults}")
                slept = (sleeps(children[name].pid) - before) / (point.rate * (WARM + options.seconds))
                points[name].append((point.cpu_us, point.rate, slept))
                print(f"round {turn + 1} {name}: {point.cpu_us:.2f} µs, {point.rate:.0f}/s", flush=True)
    finally:
        bench.stop_all()
    return points


def table(points):
    peer = statistics.median(cpu for cpu, _, _ in points["nginx"])
    lines = [
        "| program | CPU µs per request, median (range) | ratio to nginx | requests/s | sleeps per request |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, own in points.items():
        cpu = [point[0] for point in own]
        rate, slept = (statistics.median(point[at] for point in own) for at in (1, 2))
        middle = statistics.median(cpu)
        lines.append(
            f"| {name} | {middle:.2f} ({min(cpu):.1f}-{max(cpu):.1f}) | {middle / peer:.2f} | {rate:,.0f} | {slept:.2f} |"
        )
    return "\n".join(lines)


def main():
    options = arguments()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        text = table(run(options, pathlib.Path(folder)))
    print(text)
    facts = [("date", f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC"), *machine.describe()] + [
        ("command", f"benches/floor.py --rounds {options.rounds} --seconds {options.seconds}"),
        ("nginx", machine.version(["nginx", "-v"])),
        ("weir", machine.version([str(options.weir), "--version"])),
    ]
    about = "\n".join(f"| {name} | {value} |" for name, value in facts)
    options.output.write_text(
        "# The floor: a relay that parses nothing\n\nWritten by `make bench-floor`; not edited by hand.\n\n"
        f"| | |\n| --- | --- |\n{about}\n\n{text}\n\n{METHOD}\n"
    )


if __name__ == "__main__":
    main()
