#!/usr/bin/env python3
"""One process with several workers beside as many processes with one worker each at the same address
(`reuseport`), as HAProxy's `nbproc` ran: what becomes of a limit, a rate, a probe, a count and the response
times. This prints a table, writes benches/state.md and asserts nothing. `make bench-state` builds Weir and calls
this."""

import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "core"), str(HERE / "compare")]

import candidates  # noqa: E402
import stage  # noqa: E402

LIMIT = 10
RATE = 100
PROBED = 5
SERVERS = 4
CONFIG = """\
workers {workers};
admin unix:{directory}/{name}.sock;

pool limited {{ server 127.0.0.1:{origin} max_conn={limit}; queue timeout=60s max=10000; }}
pool probed {{ server 127.0.0.1:{probed}; check http GET /1k interval=1s; }}
pool single {{
    balance least_conn;
{servers}
    queue timeout=60s max=10000;
}}

listen 127.0.0.1:{port} reuseport {{
    route path /rated -> respond 204 {{ limit rate $remote_addr rate={rate}/s burst={rate}; }};
    route path /bytes/* -> limited;
    route path /probed -> probed;
    route -> single;
}}
"""
METHOD = """\
Every instance has the same configuration but for the number of workers; the separate processes share an
address with `SO_REUSEPORT`, and the kernel spreads connections over them. The proxies run on one core, load and
origins on the other.

- *Limit*: a server with `max_conn={limit}` that takes 20 ms for a request (exponentially distributed), and
  {connections} connections that ask for it in a closed loop. The origin counts how many requests it has at once.
- *Rate*: `limit rate $remote_addr rate={rate}/s burst={rate}` and 1,000 requests a second for 5 s; what is
  admitted is what got no 429. The limit allows {allowed} in that time.
- *Probes*: a server that only gets probes, one each second; those that arrive in {probed} s.
- *Counts*: `weir_worker_requests_total` of the processes for the requests of the limit.
- *Response times*: {servers} servers that work on one request at a time (10 ms, exponentially distributed) with
  `max_conn=1`, at 70 % of what they can do, in turns with [intervals](../docs/measuring.md#comparing-two-variants).
  A process that does not know of the requests of the others sends its own to a busy server while another idles.
  Those are counted by the origin, and are in the table."""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", type=pathlib.Path, required=True, help="the binary to measure")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=5, help="length of one run")
    parser.add_argument("--beside", default="nothing", help="what else the machine does, for the page")
    return parser.parse_args()


class Instance:
    """One process or several, with origins of their own."""

    def __init__(self, setting, title, processes, workers):
        self.setting, self.title = setting, title
        (self.origin,) = setting.origin("--service-time", "exp:20ms", "--log", "0")
        (self.probed,) = setting.origin("--log", "0")
        self.single = setting.origin("--service-time", "exp:10ms", "--concurrency", "1", "--log", "0", ports=SERVERS)
        (self.port,) = candidates.free_ports(1)
        servers = "\n".join(f"    server 127.0.0.1:{port} max_conn=1;" for port in self.single)
        self.sockets, self.pids = [], []
        for number in range(processes):
            name = f"{title}-{number}"
            text = CONFIG.format(
                workers=workers, directory=setting.directory, name=name, origin=self.origin, probed=self.probed,
                servers=servers, port=self.port, limit=LIMIT, rate=RATE,
            )
            self.pids.append(setting.proxy(name, [self.port], text).pid)
            self.sockets.append(setting.directory / f"{name}.sock")

    def url(self, path):
        return f"http://127.0.0.1:{self.port}{path}"

    def variant(self):
        """This instance as a variant of the load, with the CPU time of all its processes."""
        return f"{self.title}={self.url('/1k')} " + " ".join(f"--pid {pid}" for pid in self.pids)

    def requests(self):
        """Requests by process."""
        found = []
        for socket in self.sockets:
            command = ["curl", "-s", "--unix-socket", str(socket), "http://weir/metrics"]
            text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            samples = [line for line in text.splitlines() if line.startswith("weir_worker_requests_total{")]
            found.append(sum(int(float(line.rsplit(" ", 1)[1])) for line in samples))
        return found

    def measure(self, options):
        setting, before = self.setting, self.requests()
        stage.origin_stats(self.origin, reset=True)
        setting.bench("-t1", f"-c{options.connections}", "-n10000", "-T30s", self.url("/bytes/100"))
        at_once = stage.origin_stats(self.origin)["max_in_flight"]
        counts = [after - first for after, first in zip(self.requests(), before)]
        printed = setting.bench("-t1", f"-c{options.connections}", "-R1000", "-d5s", "--json", "-", self.url("/rated"))
        admitted = json.loads(printed)["statuses"]["2xx"]
        stage.origin_stats(self.probed, reset=True)
        time.sleep(PROBED)
        probes = stage.origin_stats(self.probed)["requests"]
        return {"at once": at_once, "admitted": admitted, "probes": probes, "counts": counts}


def overlap(instance):
    return stage.origin_stats(instance.single[0])["overlapping"]


def main():
    options = arguments()
    began = datetime.datetime.now(datetime.timezone.utc)
    shared = pathlib.Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="weir-bench-", dir=shared if shared.is_dir() else None) as directory:
        setting = stage.Stage(directory, options.weir.resolve())
        try:
            one = Instance(setting, "one-process", 1, options.processes)
            several = Instance(setting, "processes", options.processes, 1)
            results = [instance.measure(options) for instance in (one, several)]
            print(results, flush=True)
            for instance in (one, several):
                stage.origin_stats(instance.single[0], reset=True)
            rate = int(SERVERS * 100 * 0.7)
            text, comparison = setting.compare(
                "-t1", "-c100", f"-R{rate}", f"-d{options.seconds}s", "--arrival", "poisson", "-T30s",
                "--repeat", str(options.rounds),
                "--variant", one.variant(), "--variant", several.variant(),
            )
            overlaps = [overlap(instance) for instance in (one, several)]
        finally:
            setting.stop()
    number = options.processes
    rows = [
        ("requests at once at a server with `max_conn=10`, at most", "at once"),
        (f"requests admitted in 5 s by a rate of {RATE}/s", "admitted"),
        (f"probes in {PROBED} s, one each second", "probes"),
        ("counts, by process", "counts"),
    ]
    lines = [
        "# Shared and separate state",
        "",
        "Written by `make bench-state`; not edited by hand.",
        "",
        *stage.fact_table(
            stage.facts(began, "state.py", options.weir)
            + [("beside it", options.beside), ("cores", f"proxies on {setting.proxy_core}, load and origins on {setting.load_core}")]
        ),
        f"| | one process, {number} workers | {number} processes, one worker each |",
        "| --- | ---: | ---: |",
    ]
    for title, key in rows:
        cells = [" + ".join(map(str, found[key])) if key == "counts" else f"{found[key]:,}" for found in results]
        lines.append(f"| {title} | {cells[0]} | {cells[1]} |")
    lines.append(f"| requests that reached a busy server | {overlaps[0]:,} | {overlaps[1]:,} |")
    lines += [
        "",
        "Each of the processes has limits, rates, probes and counts of its own: what the configuration says holds for each,",
        f"and {number} times as much for all of them. A change over one admin socket would reach one of them.",
        "",
        "## Response times",
        "",
        *stage.figure_table(comparison),
        "",
        *(f"- {sentence}" for sentence in comparison["sentences"]),
        "",
        "## How it was measured",
        "",
        METHOD.format(limit=LIMIT, connections=options.connections, rate=RATE, allowed=6 * RATE, probed=PROBED, servers=SERVERS),
        "",
        "## Every run",
        "",
        *stage.report(text),
        "## Configuration",
        "",
        "```nginx",
        CONFIG.replace("{{", "{").replace("}}", "}").rstrip(),
        "```",
    ]
    (HERE / "state.md").write_text("\n".join(lines).rstrip() + "\n")
    print(f"written: {HERE / 'state.md'}")


if __name__ == "__main__":
    main()
