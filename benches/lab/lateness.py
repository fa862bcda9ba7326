"""How late the generator sends, beside how late this machine wakes a program that does nothing but sleep."""

import ctypes
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import time

PR_SET_TIMERSLACK = 29
TARGET_US = 200


@dataclasses.dataclass
class Lateness:
    """Of one run, in microseconds; `busy` is the share of its core that the program used."""

    title: str
    p50: float
    p99: float
    p999: float
    most: float
    busy: float | None = None
    steal: float | None = None


def quantile(ordered, share):
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def sleep_on(core, seconds, interval_us):
    """Sleeps until times at equal distances, on one core, and prints how late it woke (run as a program of its own)."""
    os.sched_setaffinity(0, {core})
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    late = []
    due = time.monotonic_ns() + 1_000_000
    for _ in range(int(seconds * 1e6 / interval_us)):
        left = due - time.monotonic_ns()
        if left > 0:
            time.sleep(left / 1e9)
        late.append((time.monotonic_ns() - due) / 1e3)
        due += int(interval_us * 1000)
    late.sort()
    print(json.dumps([quantile(late, 0.5), quantile(late, 0.99), quantile(late, 0.999), late[-1]]))


def sleeper(core, seconds):
    """What the machine gives a program that only sleeps, on the generator's core."""
    command = [sys.executable, __file__, str(core), str(seconds), "200"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=seconds + 30)
    return Lateness("a program that only sleeps, 5,000 times a second", *json.loads(done.stdout))


def generator(bench, port, rate, seconds, connections):
    """The generator at a rate, one thread on its core."""
    url = f"http://127.0.0.1:{port}/1k"
    command = [str(bench.weir), "bench", "-t1", f"-c{connections}", f"-d{seconds}s", f"-R{rate:.0f}", "--warmup", "1s"]
    command = ["taskset", "-c", str(bench.load_core), *command, "--json", "-", url]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=seconds + 60)
    report = json.loads(done.stdout)
    whole = report["machine"]
    used = whole["generator_cpu"]
    busy = (used["user_us"] + used["system_us"]) / whole["wall_us"]
    late = report["lateness"]
    title = f"weir bench -R{rate:.0f}"
    return Lateness(title, late["p50"], late["p99"], late["p99.9"], late["max"], busy, whole["steal"])


def run(bench, port, seconds, connections):
    """Runs in turns: the sleeper, then rates up to the one that takes half a core."""
    found = [sleeper(bench.load_core, seconds)]
    probe = generator(bench, port, 10_000, seconds, connections)
    half = 10_000 * 0.5 / max(probe.busy, 0.01)
    found.append(generator(bench, port, 1000, seconds, connections))
    found.append(probe)
    # What a request costs falls as more of them share a wake-up, so the second look is nearer to one half.
    near = generator(bench, port, half, seconds, connections)
    found.append(generator(bench, port, half * 0.5 / max(near.busy, 0.01), seconds, connections))
    found.append(sleeper(bench.load_core, seconds))
    for one in found:
        busy = "" if one.busy is None else f", core {one.busy:.0%}"
        print(f"late {one.title:50} p50 {one.p50:6.0f} p99 {one.p99:6.0f} p99.9 {one.p999:7.0f} max {one.most:7.0f} us{busy}", flush=True)
    return found


def table(found):
    lines = [
        "| | p50 µs | p99 µs | p99.9 µs | longest µs | of its core | steal |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for one in found:
        busy = "-" if one.busy is None else f"{one.busy:.0%}"
        steal = "-" if one.steal is None else f"{one.steal:.1%}"
        lines.append(f"| {one.title} | {one.p50:.0f} | {one.p99:.0f} | {one.p999:.0f} | {one.most:.0f} | {busy} | {steal} |")
    floor = statistics.median([one.p999 for one in found if one.busy is None])
    last = [one for one in found if one.busy is not None][-1]
    verdict = "met" if last.p999 <= TARGET_US else f"missed; the machine itself is {floor:.0f} µs late for a program that only sleeps"
    return lines + ["", f"At {last.busy:.0%} of a core: **{last.p999:.0f} µs** at p99.9 (target {TARGET_US}: {verdict})."]


if __name__ == "__main__":
    sleep_on(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
