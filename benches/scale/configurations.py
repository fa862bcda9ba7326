"""The configurations that are compared: few and many routes, servers and certificates."""

import base64
import dataclasses
import re
import subprocess

import candidates

HEAD = """workers 1;
max_connections 15000;
log access { to ${DIR}/${NAME}.access.log; format main; }
"""
POOL = "pool origin { server 127.0.0.1:${ORIGIN}; keepalive idle=100 max_requests=1000000000; }\n"
LISTEN = "listen 127.0.0.1:${PORT} { log access; timeout keepalive=120s;\n"
ORIGIN = """worker_processes 1;
daemon off;
pid ${DIR}/origin.pid;
error_log ${DIR}/origin.error.log crit;
events { worker_connections ${CONNECTIONS}; }
http {
    access_log off;
    keepalive_timeout 600s;
    keepalive_requests 1000000000;
    client_body_temp_path ${DIR}/origin.body;
    proxy_temp_path ${DIR}/origin.proxy;
    fastcgi_temp_path ${DIR}/origin.fastcgi;
    uwsgi_temp_path ${DIR}/origin.uwsgi;
    scgi_temp_path ${DIR}/origin.scgi;
    server { listen 0.0.0.0:${ORIGIN} backlog=4096; location / { return 200 "${BODY}"; } }
}
"""
POLICIES = [
    "round_robin",
    "least_conn",
    "fair",
    "random",
    "random2",
    "first",
    "hash $remote_port",
    "ring_hash $remote_port",
    "maglev $remote_port",
    "ring_hash $remote_port balance_factor=125%",
]


@dataclasses.dataclass(frozen=True)
class Case:
    """A request to one configuration. Cases with the same `configuration` share a proxy."""

    name: str
    configuration: str
    text: str = dataclasses.field(repr=False)
    base: str | None
    target: float = 1.1
    path: str = "/1k"
    host: str | None = None
    tls: bool = False
    warm_requests: int = 0


def prepare(bench):
    """Starts the origin, on all loopback addresses."""
    bench.directory.chmod(0o755)
    bench.origin_port = candidates.free_ports(1)[0]
    bench.values.update(ORIGIN=bench.origin_port, BODY="w" * 1024)
    text = ORIGIN
    for key, value in bench.values.items():
        text = text.replace("${" + key + "}", str(value))
    path = bench.directory / "origin.conf"
    path.write_text(text)
    origin = bench.start(bench.load_core, ["nginx", "-e", "stderr", "-c", str(path)], "origin")
    origin.wait_for([bench.origin_port])


def routes(_directory, many):
    """One route, and the first and the last of many, by path, prefix, host and wildcard."""

    def listener(lines):
        return HEAD + POOL + LISTEN + "\n".join(lines) + "\n}\n"

    kinds = {
        "path": (lambda i: f"route path /p{i} -> origin;", lambda i: {"path": f"/p{i}"}),
        "prefix": (lambda i: f"route path /p{i}/* -> origin;", lambda i: {"path": f"/p{i}/x"}),
        "host": (lambda i: f"host h{i}.test {{ route -> origin; }}", lambda i: {"host": f"h{i}.test"}),
        "wildcard host": (lambda i: f"host *.h{i}.test {{ route -> origin; }}", lambda i: {"host": f"www.h{i}.test"}),
    }
    cases = []
    for kind, (line, request) in kinds.items():
        one, all_of_them = listener([line(0)]), listener(line(i) for i in range(many))
        base = f"one {kind}"
        cases.append(Case(base, base, one, None, **request(0)))
        for place, number in (("first", 0), ("last", many - 1)):
            name = f"the {place} of {many:,} ({kind})"
            cases.append(Case(name, f"{many:,} of {kind}", all_of_them, base, **request(number)))
    return cases


def servers(_directory, many):
    """Ten servers and many, for each policy."""

    def pool(policy, count):
        lines = [f"    server 127.{i // 62500 + 1}.{i // 250 % 250}.{i % 250 + 1}:${{ORIGIN}} name=s{i};" for i in range(count)]
        settings = f"balance {policy}; keepalive idle={2 * many} max_requests=1000000000 timeout=600s;"
        return HEAD + f"pool origin {{ {settings}\n" + "\n".join(lines) + "\n}\n" + LISTEN + "route -> origin;\n}\n"

    cases = []
    for policy in POLICIES:
        base = f"`{policy}`, 10"
        cases.append(Case(base, base, pool(policy, 10), None))
        name = f"`{policy}`, {many:,}"
        spreads = "remote_port" not in policy and policy != "first"
        warm_requests = 12 * many if spreads else 0
        cases.append(Case(name, name, pool(policy, many), base, 1.15, warm_requests=warm_requests))
    return cases


def certificates(directory, many):
    """One certificate and many, chosen by server name; and wildcards."""
    files = directory / "certificates"
    files.mkdir()
    key = files / "site.key"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 "
        f"-subj /CN=site -addext subjectAltName=DNS:h00000.test,DNS:*.w00000.test -keyout {key}"
    )
    done = subprocess.run(command.split(), check=True, capture_output=True, text=True)
    der = base64.b64decode(re.sub("-----[A-Z ]+-----|\\s", "", done.stdout))
    for number in range(many):
        # The signature no longer fits, which only a client would find out.
        own = der.replace(b"00000.test", b"%05d.test" % number)
        text = base64.encodebytes(own).decode()
        pem = f"-----BEGIN CERTIFICATE-----\n{text}-----END CERTIFICATE-----\n"
        (files / f"{number}.pem").write_text(pem)

    def listener(count):
        lines = [f"    certificate {files}/{number}.pem key={key};" for number in range(count)]
        tls = "    tls min=1.3 max=1.3;\n    log access;\n    route -> origin;\n"
        return HEAD + POOL + "listen 127.0.0.1:${PORT} tls {\n" + "\n".join(lines) + "\n" + tls + "}\n"

    one, all_of_them = "one certificate", f"{many:,} certificates"
    cases = [Case(one, one, listener(1), None, host="h00000.test", tls=True)]
    names = {"first": "h00000.test", "last": f"h{many - 1:05d}.test", "last wildcard": f"www.w{many - 1:05d}.test"}
    for place, host in names.items():
        shown = host if "wildcard" not in place else host
        cases.append(Case(f"the {place} of {many:,}", all_of_them, listener(many), one, 1.15, host=shown, tls=True))
    return cases


GROUPS = {"routes": routes, "servers": servers, "certificates": certificates}
