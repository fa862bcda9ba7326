"""Starts the programs under measurement, the origin and the log sink, each on its core, with
configurations filled in from the templates beside this file."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import machine

# What is measured is the process that serves.
os.environ["WEIR_SUPERVISOR"] = "off"

HERE = pathlib.Path(__file__).parent
SUITE = "TLS_AES_256_GCM_SHA384"


def end_on_signal():
    """SIGTERM ends this program as an error does, so that its children are stopped."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


class Child:
    """A process of ours that ends with us, and only it, by its id."""

    def __init__(self, core, command, directory, name, **streams):
        log = open(directory / f"{name}.output", "wb")
        streams.setdefault("stdout", log)
        self.name = name
        self.output = directory / f"{name}.output"
        self.process = subprocess.Popen(["taskset", "-c", str(core), *command], stderr=log, cwd=directory, **streams)
        log.close()

    @property
    def pid(self):
        return self.process.pid

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def wait_for(self, ports):
        """Waits until the ports take connections."""
        deadline = time.monotonic() + 15
        for port in ports:
            while True:
                if self.process.poll() is not None:
                    raise SystemExit(f"{self.name} ended:\n{self.output.read_text()}")
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        raise SystemExit(f"{self.name} does not listen:\n{self.output.read_text()}") from None
                    time.sleep(0.02)


class Bench:
    """One run's directory, ports and children."""

    def __init__(self, directory, binaries, nginx_log_options):
        end_on_signal()
        self.directory = pathlib.Path(directory)
        self.binaries = binaries
        self.proxy_core, self.load_core = machine.cores()
        self.origin_core = self.load_core
        self.load_threads = 1
        self.open_files = machine.raise_open_files()
        self.children = []
        self.values = {
            "DIR": str(self.directory),
            "CONNECTIONS": self.open_files,
            "HAPROXY_CONNECTIONS": (self.open_files - 200) // 2,
            "NGINX_LOG_OPTIONS": nginx_log_options,
            "WORKERS": 1,
            "ORIGIN_WORKERS": 1,
        }

    def prepare(self):
        """Bodies, certificate, origin and log sink."""
        files = self.directory / "www"
        files.mkdir()
        self.directory.chmod(0o755)
        (files / "1k.bin").write_bytes(b"w" * 1024)
        (files / "100k.bin").write_bytes(b"w" * 102400)
        # A file without contents on the disk: its bytes are zeros.
        with open(files / "1g.bin", "wb") as large:
            large.truncate(1 << 30)
        # A message of gRPC: not compressed, its length, and that many bytes.
        (files / "message.bin").write_bytes(b"\0" + (100).to_bytes(4, "big") + b"w" * 100)
        (self.directory / "call.bin").write_bytes((files / "message.bin").read_bytes())
        certificate(self.directory)
        self.values |= dict(zip(["ORIGIN", "ORIGIN_CALLS", "ORIGIN_TLS"], free_ports(3)))
        config = self.fill("origin.conf")
        origin = self.start(self.origin_core, ["nginx", "-e", "stderr", "-c", str(config)], "origin")
        origin.wait_for([self.values[name] for name in ["ORIGIN", "ORIGIN_CALLS", "ORIGIN_TLS"]])
        self.values["SILENT"] = free_ports(1)[0]
        command = ["python3", str(HERE / "silent.py"), str(self.values["SILENT"])]
        silent = self.start(self.load_core, command, "silent", stdout=subprocess.PIPE)
        silent.process.stdout.readline()
        self.sink = self.start(
            self.load_core,
            ["python3", str(HERE / "drain.py"), str(self.directory / "syslog.sock")],
            "drain",
            stdout=subprocess.PIPE,
        )
        self.sink.process.stdout.readline()

    def start(self, core, command, name, **streams):
        child = Child(core, command, self.directory, name, **streams)
        self.children.append(child)
        return child

    def stop(self, child):
        child.stop()
        self.children.remove(child)

    def stop_all(self):
        for child in reversed(self.children):
            child.stop()

    def fill(self, template, name=None):
        """Writes the template, filled in, to the run's directory, under its own or another name."""
        text = (HERE / template).read_text()
        for key, value in self.values.items():
            text = text.replace("${" + key + "}", str(value))
        path = self.directory / (name or template)
        path.write_text(text)
        return path

    def candidate(self, name):
        """Starts a fresh proxy on the proxies' core; it has `ports`, by kind. Requests to `busy` get no response
        from the origin; `tcp` and `passthrough` pass bytes on."""
        kinds = ["plain", "tls", "busy", "tcp", "passthrough"]
        ports = dict(zip(kinds, free_ports(len(kinds))))
        self.values |= {kind.upper(): port for kind, port in ports.items()}
        if name in self.binaries:
            config = self.fill("weir.conf", f"{name}.conf")
            command = [str(self.binaries[name]), "run", "-c", str(config)]
        else:
            config = self.fill(f"{name}.conf")
            command = {
                "nginx": ["nginx", "-e", "stderr", "-c", str(config)],
                "haproxy": ["haproxy", "-db", "-f", str(config)],
            }[name]
        child = self.start(self.proxy_core, command, name)
        child.ports = ports
        child.wait_for(ports.values())
        check_tls(ports["tls"])
        return child

    def empty_logs(self):
        """Access logs lie in memory: a point's lines go before the next one."""
        for log in self.directory.glob("*.access.log"):
            os.truncate(log, 0)


def free_ports(count):
    """Ports that nobody has now. Held together until all are found, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def certificate(directory):
    """A self-signed P-256 certificate."""
    key, site = directory / "site.key", directory / "site.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 "
        f"-subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout {key} -out {site}"
    )
    subprocess.run(command.split(), check=True, capture_output=True)
    (directory / "site.bundle.pem").write_text(site.read_text() + key.read_text())


def check_tls(port):
    """All three must have the same protocol, suite and key exchange, or nothing is compared."""
    command = f"openssl s_client -connect 127.0.0.1:{port} -servername localhost -groups X25519"
    done = subprocess.run(command.split(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if f"TLSv1.3, Cipher is {SUITE}" not in done.stdout:
        raise SystemExit(f"port {port} does not speak TLS 1.3 with {SUITE}:\n{done.stdout}{done.stderr}")
