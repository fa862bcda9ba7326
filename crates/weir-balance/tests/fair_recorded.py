#!/usr/bin/env python3
"""Records decisions of nginx-upstream-fair, the C module, in nginx: writes `fair_recorded.txt`.

    crates/weir-balance/tests/fair_recorded.py [MODULE]

Debian has both (`nginx`, `libnginx-mod-http-upstream-fair`). Without MODULE, the path of
`ngx_http_upstream_fair_module.so`, the script downloads the package and unpacks it into a temporary
directory; nothing is installed.

nginx runs with one worker process in front of servers that hold every request until the script
lets it go. Requests arrive one at a time, so each decision has one cause. The steps are drawn from
a fixed seed; the output has the format of `fair.txt`.
"""

import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time

SEED = 2008
STEPS = 80
MOST_IN_FLIGHT = 12
# The module sorts servers by weight, heaviest first; Weir keeps their order.
WEIGHTS = [[1, 1], [1, 1, 1], [3, 1], [3, 2, 1], [5, 2, 1, 1]]
OPTIONS = [
    ("default", ""),
    ("default no_rr", "no_rr"),
    ("peak", "weight_mode=peak"),
    ("peak no_rr", "weight_mode=peak no_rr"),
    ("idle", "weight_mode=idle"),
    ("idle no_rr", "weight_mode=idle no_rr"),
]
# The module counts failures even with `max_fails=0`, and forgets all when no server is left, as in
# mode `peak`: attempts fail only in pools of the other modes, with a limit that is not reached.
MAX_FAILS = 1000
FAILING = [options for options in OPTIONS if "peak" not in options[0]]
OUTPUT = pathlib.Path(__file__).with_suffix(".txt")
RESPONSE = b"HTTP/1.0 204 No Content\r\nConnection: close\r\n\r\n"


def package(name):
    text = subprocess.check_output(["dpkg-query", "-W", "-f", "${Package} ${Version}", name], text=True)
    return text.strip()


def downloaded_module(directory):
    """The path and the version of the module from Debian's archive."""
    name = "libnginx-mod-http-upstream-fair"
    subprocess.run(["apt-get", "-q", "download", name], cwd=directory, check=True, capture_output=True)
    archive = next(directory.glob("*.deb"))
    subprocess.run(["dpkg-deb", "-x", archive, directory / "module"], check=True)
    version = subprocess.check_output(["dpkg-deb", "-f", archive, "Version"], text=True).strip()
    path = next((directory / "module").rglob("ngx_http_upstream_fair_module.so"))
    return path, f"{name} {version}"


def listening():
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(10)
    return listener


def connected(path):
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(10)
    client.connect(path)
    return client


class Pool:
    """A pool of nginx with its servers, and the requests that the servers hold."""

    def __init__(self, options, weights, max_fails, path):
        self.name, self.directive = options
        self.max_fails = max_fails
        self.weights = weights
        self.path = str(path)
        self.servers = [listening() for _ in weights]
        self.held = []  # (endpoint, server's connection, client's connection, retried)

    def config(self, number):
        servers = "".join(
            f"server 127.0.0.1:{server.getsockname()[1]} weight={weight} max_fails={self.max_fails} fail_timeout=1h;\n"
            for server, weight in zip(self.servers, self.weights)
        )
        return (
            f"upstream pool{number} {{ {servers} fair {self.directive}; }}\n"
            f"server {{ listen unix:{self.path}; location / {{ proxy_pass http://pool{number}; }} }}\n"
        )

    def arrive(self):
        client = connected(self.path)
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return self.decision(client, False)

    def decision(self, client, retried):
        """The endpoint that gets the request, or `-` if the client gets an error."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            for endpoint, server in enumerate(self.servers):
                server.setblocking(False)
                try:
                    connection, _ = server.accept()
                except BlockingIOError:
                    continue
                connection.settimeout(10)
                assert connection.recv(4096).startswith(b"GET / ")
                self.held.append((endpoint, connection, client, retried))
                return str(endpoint)
            client.setblocking(False)
            try:
                status = client.recv(4096).split(b" ")[1]
            except BlockingIOError:
                time.sleep(0.0005)
                continue
            assert status == b"502", status
            client.close()
            return "-"
        raise TimeoutError("no server and no response")

    def leave(self, position):
        endpoint, connection, client, _ = self.held.pop(position)
        connection.sendall(RESPONSE)
        connection.close()
        client.settimeout(10)
        while client.recv(4096):
            pass
        client.close()
        return endpoint

    def retry(self, position):
        """Ends a request's attempt without a response, so that nginx makes a further one."""
        endpoint, connection, client, _ = self.held.pop(position)
        connection.close()
        return endpoint, self.decision(client, True)

    def lines(self, draw):
        yield f"pool {self.name} errors={self.max_fails}: {' '.join(map(str, self.weights))}"
        for _ in range(STEPS):
            kind = draw.random()
            first_attempts = [at for at, held in enumerate(self.held) if not held[3]]
            if self.held and (kind < 0.4 or len(self.held) >= MOST_IN_FLIGHT):
                yield f"leave {self.leave(draw.randrange(len(self.held)))}"
            elif self.max_fails and first_attempts and kind < 0.45:
                failed, chosen = self.retry(draw.choice(first_attempts))
                yield f"leave {failed}"
                yield f"fail {failed}"
                yield f"retry {failed} {chosen}"
            else:
                yield f"arrive {self.arrive()}"
        while self.held:
            self.leave(0)


def main():
    draw = random.Random(SEED)
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        if len(sys.argv) > 1:
            module, version = pathlib.Path(sys.argv[1]).resolve(), sys.argv[1]
        else:
            module, version = downloaded_module(directory)
        kinds = [(options, 0) for options in OPTIONS] + [(options, MAX_FAILS) for options in FAILING]
        pools = []
        for options, max_fails in kinds:
            for weights in WEIGHTS:
                pools.append(Pool(options, weights, max_fails, directory / f"pool{len(pools)}"))
        config = directory / "nginx.conf"
        config.write_text(
            f"load_module {module};\ndaemon off; worker_processes 1; pid {directory}/pid;\n"
            f"error_log {directory}/error.log;\nevents {{}}\nhttp {{ access_log off;\n"
            f"client_body_temp_path {directory}/a; proxy_temp_path {directory}/b;\n"
            f"fastcgi_temp_path {directory}/c; uwsgi_temp_path {directory}/d; scgi_temp_path {directory}/e;\n"
            + "".join(pool.config(number) for number, pool in enumerate(pools))
            + "}\n"
        )
        nginx = subprocess.Popen(["nginx", "-p", directory, "-c", config])
        try:
            wait_for(pools[-1].path)
            lines = [line for pool in pools for line in [*pool.lines(draw), ""]]
        finally:
            nginx.terminate()
            nginx.wait()
    head = [
        "# Decisions of nginx-upstream-fair in nginx, recorded by fair_recorded.py; format as in fair.txt.",
        f"# {package('nginx')}; {version}; seed {SEED}.",
        "",
    ]
    OUTPUT.write_text("\n".join(head + lines[:-1]) + "\n")


def wait_for(path):
    for _ in range(1000):
        try:
            connected(path).close()
            return
        except (ConnectionRefusedError, FileNotFoundError):
            time.sleep(0.01)
    raise TimeoutError("nginx does not listen")


if __name__ == "__main__":
    main()
