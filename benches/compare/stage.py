"""Starts Weir and its test origin for the comparisons, each on its core, and runs `weir bench`. What is
started here ends with `Stage.stop`, by its id."""

import json
import pathlib
import shlex
import subprocess
import sys
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "core")]

import candidates  # noqa: E402
import machine  # noqa: E402


class Stage:
    """A directory with the programs that run there."""

    def __init__(self, directory, weir):
        candidates.end_on_signal()
        self.directory = pathlib.Path(directory)
        self.directory.chmod(0o755)
        self.weir = str(weir)
        self.proxy_core, self.load_core = machine.cores()
        self.children = []
        machine.raise_open_files()

    def start(self, core, name, ports, *arguments):
        child = candidates.Child(core, [self.weir, *arguments], self.directory, name)
        self.children.append(child)
        child.wait_for(ports)
        return child

    def origin(self, *arguments, ports=1):
        """Starts an origin; returns its ports."""
        found = candidates.free_ports(ports)
        listen = [word for port in found for word in ("--listen", f"127.0.0.1:{port}")]
        self.start(self.load_core, f"origin-{found[0]}", found, "origin", "--workers", "1", *listen, *arguments)
        return found

    def proxy(self, name, ports, text):
        """Starts a Weir with this configuration."""
        path = self.directory / f"{name}.conf"
        path.write_text(text)
        return self.start(self.proxy_core, name, ports, "run", "-c", str(path))

    def stop(self):
        for child in reversed(self.children):
            child.stop()
        self.children = []

    def bench(self, *arguments):
        """Runs the load generator and returns what it printed."""
        command = ["taskset", "-c", str(self.load_core), self.weir, "bench", *arguments]
        print(shlex.join(["weir", "bench", *arguments]), flush=True)
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.directory)
        if done.returncode != 0:
            raise SystemExit(f"weir bench ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def compare(self, *arguments):
        """Runs variants; returns the report as text and as JSON."""
        path = self.directory / "comparison.json"
        text = self.bench(*arguments, "--json", str(path))
        print(text, flush=True)
        return text, json.loads(path.read_text())


def origin_stats(port, reset=False):
    """The counters of an origin."""
    query = "?reset" if reset else "?log=0"
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/stats{query}", timeout=10) as answer:
        return json.load(answer)


def cpu():
    """The processor, and whether it has the vector AES that TLS gains from."""
    name, text = machine.describe()[0]
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        flags = next((line for line in info if line.startswith("flags")), "").split()
    kinds = [kind for kind in ("aes", "vaes", "avx512f") if kind in flags]
    return name, f"{text}; of the extensions for AES: {', '.join(kinds) or 'none'}"


def facts(began, script, weir):
    """The head of a page."""
    words = [pathlib.Path(word).name if word.startswith("/") else word for word in sys.argv[1:]]
    return [
        ("date", f"{began:%Y-%m-%d %H:%M} UTC"),
        ("command", f"benches/{script} " + shlex.join(words)),
        cpu(),
        *machine.describe()[1:],
        ("weir", machine.version([str(weir), "--version"])),
    ]


def fact_table(rows):
    return ["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows), ""]


def value_text(value, unit):
    if unit == "1/s":
        return f"{value:,.0f}/s"
    return f"{value / 1000:,.2f} ms" if value >= 1000 else f"{value:,.1f} µs"


def figure_table(comparison):
    """The figures of the first two variants."""
    first, other = (variant["name"] for variant in comparison["variants"])
    lines = [
        f"| figure | {first} | {other} | change | 95 % interval | |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    words = {"higher": "higher", "lower": "lower", "not_seen": "no difference seen"}
    for figure in comparison["figures"]:
        found, unit = figure["differences"][0], figure["unit"]
        low, high = found["ratio_interval"]
        lines.append(
            f"| {figure['name']} | {value_text(figure['values'][first], unit)} "
            f"| {value_text(figure['values'][other], unit)} | {100 * (found['ratio'] - 1):+.1f} % "
            f"| {100 * (low - 1):+.1f} % to {100 * (high - 1):+.1f} % | {words[found['outcome']]}"
            f"{', jointly' if found['holds_together'] else ''} |"
        )
    return lines


def report(text):
    return ["```text", *text.rstrip().splitlines(), "```", ""]
