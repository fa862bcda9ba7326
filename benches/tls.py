#!/usr/bin/env python3
"""TLS 1.2 beside TLS 1.3 in front of the same origin, in turns, with confidence intervals: over kept
connections and with a new connection for each request. This prints the reports, writes benches/tls.md and
asserts nothing about speed. `make bench-tls` builds Weir and calls this."""

import argparse
import datetime
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "core"), str(HERE / "compare")]

import candidates  # noqa: E402
import stage  # noqa: E402

CONFIG = """\
workers 1;
listen 127.0.0.1:{newer} tls -> 127.0.0.1:{origin} {{
    certificate {directory}/site.pem key={directory}/site.key;
    tls min=1.3 ciphers=TLS_AES_256_GCM_SHA384;
}}
listen 127.0.0.1:{older} tls -> 127.0.0.1:{origin} {{
    certificate {directory}/site.pem key={directory}/site.key;
    tls max=1.2 ciphers=ECDHE-ECDSA-AES256-GCM-SHA384;
}}
"""
CASES = {
    "1 KB over kept connections": ("/1k", ["-c50", "-R{rate}"], 1),
    "100 KB over kept connections": ("/100k", ["-c50", "-R{rate}"], 0.1),
    "1 KB, a connection with a full handshake for each request": ("/1k", ["-c50", "-R{rate}", "--no-keepalive", "--no-resumption"], 0.1),
}
METHOD = """\
A listener for each version, in the same process: P-256 certificate, `TLS_AES_256_GCM_SHA384` with TLS 1.3 and
`ECDHE-ECDSA-AES256-GCM-SHA384` with TLS 1.2, the cipher suites of the published comparison. The proxy has
one worker on one core; load and origin (`weir origin`) share the other. The load is open-loop, so response
times run from the intended start. In each of {rounds} rounds both versions run for {seconds} s, and the order is
turned round from round to round. [How the intervals are computed](../docs/measuring.md#comparing-two-variants).
The published comparison called the results "so similar" and left them out."""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", type=pathlib.Path, required=True, help="the binary to measure")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=3, help="length of one run")
    parser.add_argument("--rate", type=int, default=3000, help="requests per second of 1 KB; a tenth of it otherwise")
    parser.add_argument("--beside", default="nothing", help="what else the machine does, for the page")
    parser.add_argument("--quick", action="store_true", help="three rounds of 1 s, no file written")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 3, 1
    return options


def main():
    options = arguments()
    began = datetime.datetime.now(datetime.timezone.utc)
    shared = pathlib.Path("/dev/shm")
    sections = []
    with tempfile.TemporaryDirectory(prefix="weir-bench-", dir=shared if shared.is_dir() else None) as directory:
        setting = stage.Stage(directory, options.weir.resolve())
        try:
            candidates.certificate(setting.directory)
            (origin,) = setting.origin("--log", "0")
            newer, older = candidates.free_ports(2)
            values = {"newer": newer, "older": older, "origin": origin, "directory": setting.directory}
            setting.proxy("weir", [newer, older], CONFIG.format(**values))
            for title, (path, flags, share) in CASES.items():
                flags = [flag.format(rate=int(options.rate * share)) for flag in flags]
                text, comparison = setting.compare(
                    "-t1", *flags, f"-d{options.seconds}s", "--warmup", "500ms", "-k", "--repeat", str(options.rounds),
                    "--variant", f"tls-1.3=https://localhost:{newer}{path}",
                    "--variant", f"tls-1.2=https://localhost:{older}{path}",
                )
                sections.append((title, " ".join(flags), text, comparison))
        finally:
            setting.stop()
    if options.quick:
        return
    head = stage.facts(began, "tls.py", options.weir)
    head += [("beside it", options.beside), ("cores", f"proxy on {setting.proxy_core}, load and origin on {setting.load_core}")]
    lines = ["# TLS 1.2 beside TLS 1.3", "", "Written by `make bench-tls`; not edited by hand.", ""]
    lines += stage.fact_table(head)
    for title, flags, _, comparison in sections:
        lines += [f"## {title}", "", f"`{flags}`", "", *stage.figure_table(comparison), ""]
        lines += [f"- {sentence}" for sentence in comparison["sentences"]] + [""]
    lines += ["## How it was measured", "", METHOD.format(rounds=options.rounds, seconds=options.seconds), ""]
    lines += ["## Every run", ""]
    for title, _, text, _ in sections:
        lines += [f"### {title}", "", *stage.report(text)]
    (HERE / "tls.md").write_text("\n".join(lines).rstrip() + "\n")
    print(f"written: {HERE / 'tls.md'}")


if __name__ == "__main__":
    main()
