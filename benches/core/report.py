"""The report: figures, ratios to the better of the two peers, targets, and the method."""

import statistics

import load


def progress(turn, case, name, point):
    """One line while it runs."""
    print(
        f"round {turn + 1} {case:11} {name:8} {point.cpu_us:8.2f} us/request {point.rate:9.0f}/s"
        f"  proxy core {point.proxy_busy:4.0%}, steal {point.steal:5.1%}  {point.faults}",
        flush=True,
    )


def median(points):
    """The median cost, or nothing when a point does not count."""
    if not points or any(point.faults for point in points):
        return None
    return statistics.median(point.cpu_us for point in points)


def better(values):
    """The lower figure of the two peers; nothing unless both count."""
    peers = [values.get("nginx"), values.get("haproxy")]
    return min(peers) if all(peer is not None for peer in peers) else None


def ratio(values):
    """Weir's figure in units of the better peer, when both sides count."""
    peer = better(values)
    return values["weir"] / peer if peer and values.get("weir") is not None else None


def since(values):
    """Weir's figure in units of the older binary's, when both count."""
    weir, before = values.get("weir"), values.get("before")
    return f"{weir / before:.2f}" if weir is not None and before else "no ratio"


def verdict(found, target):
    if found is None:
        return "no ratio"
    if target is None:
        return f"{found:.2f}"
    return f"**{found:.2f}**" if found <= target else f"{found:.2f} (missed)"


def figure(points):
    """Median and range of a candidate's rounds."""
    middle = median(points)
    if middle is None:
        return "invalid"
    costs = [point.cpu_us for point in points]
    return f"{middle:.1f} ({min(costs):.1f}-{max(costs):.1f})"


def cost_table(points, names):
    titles = [*names, "ratio to the better peer", "target"]
    if "before" in names:
        titles.append("ratio to before")
    lines = ["| CPU µs per request, median (range) | " + " | ".join(titles) + " |"]
    lines.append("| --- |" + " ---: |" * len(titles))
    for case in load.CASES:
        if case.name not in points:
            continue
        found = points[case.name]
        values = {name: median(found[name]) for name in names}
        cells = [figure(found[name]) for name in names]
        cells += [verdict(ratio(values), case.target), "-" if case.target is None else f"{case.target:.2f}"]
        if "before" in names:
            cells.append(since(values))
        lines.append(f"| {load.TITLES[case.name]} | " + " | ".join(cells) + " |")
    return lines


def rate_table(points, names):
    lines = ["| requests/s, median (busy share of the proxy's core) | " + " | ".join(names) + " |"]
    lines.append("| --- |" + " ---: |" * len(names))
    for case in load.CASES:
        if case.name not in points:
            continue
        cells = []
        for name in names:
            rate = statistics.median(point.rate for point in points[case.name][name])
            busy = statistics.median(point.proxy_busy for point in points[case.name][name])
            cells.append(f"{rate:,.0f} ({busy:.0%})")
        lines.append(f"| {load.TITLES[case.name]} | " + " | ".join(cells) + " |")
    return lines


def memory_table(memory, names, count):
    lines = [f"| KB per connection, {count:,} idle or at most 2,000 busy | " + " | ".join(names) + " | ratio to the better peer | target |"]
    lines.append("| --- |" + " ---: |" * (len(names) + 2))
    for case, found in memory.items():
        values = {name: None if found[name][1] else found[name][0] for name in names}
        cells = ["invalid" if values[name] is None else f"{values[name] / 1024:.2f}" for name in names]
        target = load.MEMORY_TARGET_BYTES[case]
        missed = "" if values.get("weir") is None or values["weir"] <= target else " (missed)"
        share = ratio(values)
        cells += ["no ratio" if share is None else f"{share:.2f}", f"<= {target / 1024:.1f} KB{missed}"]
        lines.append(f"| {load.TITLES[case]} | " + " | ".join(cells) + " |")
    return lines


def all_points(points, names):
    """Every round by itself, so that a reader can judge the medians."""
    lines = ["| case | program | round | CPU µs per request | requests/s | proxy core busy | steal | faults |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |")
    for case, found in points.items():
        for name in names:
            for turn, point in enumerate(found[name], 1):
                lines.append(
                    f"| {case} | {name} | {turn} | {point.cpu_us:.2f} | {point.rate:,.0f} "
                    f"| {point.proxy_busy:.0%} | {point.steal:.1%} | {point.faults or '-'} |"
                )
    return lines


METHOD = """\
Each program has one worker, pinned to one core; wrk and the origin (nginx, one worker, files in memory)
run on the other. There are {connections} keep-alive connections to the proxy, and at most {kept} are
kept to the origin. In each of {rounds} rounds the programs take turns case by case, and the first one changes
from round to round. A point is 1 s of warm-up and {seconds} s of measurement.

The cost is the user and system time of all threads of a program (`/proc/PID/stat`), divided by the
requests that the load program counted. The load program is wrk, ab for the new TLS connections,
because wrk resumes its session when it reconnects, and h2load for HTTP/2, with {http2_connections} connections of
{http2_streams} streams each, or with {new_connections} new connections of one request a second. A request of the TCP relay is one of
HTTP that the origin answers; one of 1 GB is a download by curl, with TLS between curl and the origin where it is
passed through. A call of gRPC has a message of 100 bytes each way, and goes to the origin over HTTP/2 without TLS.
The access log is on for all: nginx and Weir write
the same `main` lines to a file in memory, haproxy its `httplog` to a datagram socket that is drained on
the other core. All three add X-Forwarded-For and -Proto. TLS is 1.3 with TLS_AES_256_GCM_SHA384 and a
P-256 certificate. A point with an error, or with a response that is not a success, is invalid and gives
no ratio.

Memory is the growth of resident memory (without the kernel's socket buffers) in a fresh process, after
a warm-up of 50 connections, with one request made on every connection and all connections open. A busy
connection has sent a request to an origin that never answers."""


def kept(options):
    """Idle connections to the origin that each program may keep: enough that no request has to open one."""
    return max(100, options.connections)


def render(facts, points, memory, options, folder):
    """The whole report as Markdown."""
    names = options.candidates
    lines = ["# Weir beside nginx and haproxy", "", "Written by `make bench-core`; not edited by hand.", ""]
    lines += ["| | |", "| --- | --- |"] + [f"| {name} | {value} |" for name, value in facts] + [""]
    if points:
        lines += cost_table(points, names) + [""] + rate_table(points, names) + [""]
    if memory:
        lines += memory_table(memory, names, options.idle) + [""]
    words = {"connections": options.connections, "kept": kept(options), "rounds": options.rounds, "seconds": options.seconds}
    words |= {"http2_connections": load.HTTP2_CONNECTIONS, "http2_streams": load.HTTP2_STREAMS}
    words |= {"new_connections": load.NEW_CONNECTIONS}
    lines += ["## How it was measured", "", METHOD.format(**words), ""]
    if points:
        lines += ["## Every point", ""] + all_points(points, names) + [""]
    lines += ["## Configurations", ""]
    for name in ["origin", *(name for name in names if name != "before")]:
        lines += [f"`benches/core/{name}.conf`:", "", "```", (folder / f"{name}.conf").read_text().rstrip(), "```", ""]
    return "\n".join(lines)
