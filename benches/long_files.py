#!/usr/bin/env python3
"""The time and memory of `weir check` on configurations of 100,000 lines, beside `nginx -t` and `haproxy -c` on the
same files. The programs are run in turn, several rounds.

This prints a table, writes benches/long-files.md and asserts nothing about speed. `make bench-long-files` builds Weir
and calls this."""

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
sys.path.insert(0, str(HERE / "core"))

import machine  # noqa: E402

LINES = 100_000
# What takes longer, in s, is run once.
LONG = 30


def lines(count, line):
    return "".join(line(number) + "\n" for number in range(count))


def weir_routes():
    pools = lines(LINES // 4, lambda n: f"pool p{n} {{\n    server 127.0.0.1:{1024 + n};\n}}")
    routes = lines(LINES // 4, lambda n: f"    route path /p{n}/* -> p{n};")
    return f"{pools}listen 127.0.0.1:8080 {{\n{routes}}}\n"


def nginx(http):
    return f"events {{}}\nhttp {{\n{http}}}\n"


def nginx_servers():
    return nginx("server_names_hash_max_size 65536;\n" + lines(LINES // 13, lambda n: f"""server {{
    listen 127.0.0.1:8080;
    server_name h{n}.example.com;
    location / {{
        proxy_pass http://127.0.0.1:9000;
    }}
    location /api/ {{
        proxy_set_header X-Site {n};
        proxy_pass http://127.0.0.1:9001/v1/;
    }}
    location = /health {{ return 200; }}
    location /static/ {{ root /var/www/h{n}; }}
}}"""))


def nginx_upstreams():
    upstreams = lines(LINES // 7, lambda n: f"""upstream u{n} {{
    server 127.0.0.1:{1024 + n};
    server 127.0.0.2:{1024 + n};
}}""")
    locations = lines(LINES // 7, lambda n: f"    location /p{n}/ {{\n        proxy_pass http://u{n};\n    }}")
    return nginx(f"{upstreams}server {{\n    listen 127.0.0.1:8080;\n{locations}}}\n")


def nginx_map():
    entries = lines(LINES, lambda n: f"    /old/{n} /new/{n};")
    return nginx(f"map_hash_max_size 262144;\nmap $uri $new {{\n{entries}}}\nserver {{\n"
                 "    listen 127.0.0.1:8080;\n    return 301 $new;\n}\n")


DEFAULTS = """defaults
    mode http
    timeout client 30s
    timeout server 30s
    timeout connect 5s
"""


def haproxy_hosts():
    count = LINES // 5
    rules = lines(count, lambda n: f"    acl h{n} hdr(host) -i h{n}.example.com\n    use_backend b{n} if h{n}")
    backends = lines(count, lambda n: f"""backend b{n}
    server s1 127.0.0.1:{1024 + n} check
    server s2 127.0.0.2:{1024 + n} check""")
    return f"{DEFAULTS}frontend f\n    bind 127.0.0.1:8080\n{rules}{backends}"


def haproxy_servers():
    servers = lines(LINES, lambda n: f"    server s{n} 127.0.{n // 60000}.1:{1024 + n % 60000} check")
    return f"{DEFAULTS}frontend f\n    bind 127.0.0.1:8080\n    default_backend b\nbackend b\n{servers}"


# Each file with the command of the program that it is written for.
FILES = {
    "25,000 pools and routes": ("weir.conf", weir_routes, None),
    "7,692 `server` with four `location`": ("nginx.conf", nginx_servers, "nginx"),
    "14,285 `upstream` and `location`": ("nginx.conf", nginx_upstreams, "nginx"),
    "a `map` of 100,000": ("nginx.conf", nginx_map, "nginx"),
    "20,000 hosts and backends": ("haproxy.cfg", haproxy_hosts, "haproxy"),
    "100,000 servers": ("haproxy.cfg", haproxy_servers, "haproxy"),
}


def run(command):
    """Returns the wall-clock time and the processor time in s, and the peak of the memory in MB."""
    begin = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    errors = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"{shlex.join(command)} failed:\n{errors.decode(errors='replace')[-2000:]}")
    wall = time.monotonic() - begin
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def cell(runs):
    middle = [statistics.median(one) for one in zip(*runs)]
    return f"{middle[0]:.2f} s, {middle[1]:.2f} s, {middle[2]:.0f} MB"


def measure(options, folder):
    rows = []
    for name, (file, text, program) in FILES.items():
        path = folder / file
        path.write_text(text())
        commands = [[str(options.weir), "check", str(path)]]
        if program == "nginx":
            commands.append(["nginx", "-t", "-q", "-e", str(folder / "error.log"), "-c", str(path),
                             "-g", f"pid {folder}/nginx.pid;"])
        elif program == "haproxy":
            commands.append(["haproxy", "-c", "-q", "-f", str(path)])
        runs = [[] for _ in commands]
        for _ in range(options.rounds):
            for command, done in zip(commands, runs):
                if not done or done[-1][0] < LONG:
                    done.append(run(command))
        cells = [cell(done) for done in runs] + [""]
        rows.append(f"| {name} | {len(path.read_text().splitlines()):,} | {cells[0]} | {cells[1]} | {program or ''} |")
        print(rows[-1], flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", type=pathlib.Path, required=True, help="the binary to measure")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(options, pathlib.Path(folder))
    load = os.getloadavg()[0]
    described = "\n".join(f"| {name} | {value} |" for name, value in machine.describe())
    report = f"""# Reading a configuration of 100,000 lines

| | |
| --- | --- |
| date | {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC |
| command | `make bench-long-files`, {options.rounds} rounds |
{described}
| beside it | load average {load:.1f} at the end |
| beside Weir | {machine.version(["nginx", "-v"])}; {machine.version(["haproxy", "-v"])} |

`weir check` reads and converts the file, checks it, runs the lints, compiles it as for a start and prints the outcome
of each line; `nginx -t` and `haproxy -c` report errors only. Each cell: wall-clock time, processor time, peak memory;
medians.

| file | lines | weir check | the program of the file | |
| --- | ---: | ---: | ---: | --- |
"""
    report += "\n".join(rows) + "\n"
    (HERE / "long-files.md").write_text(report)


if __name__ == "__main__":
    main()
