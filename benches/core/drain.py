"""A syslog datagram sink that only drains: `drain.py SOCKET`. Prints how many lines came when told to
end (SIGTERM)."""

import os
import signal
import socket
import sys


def main():
    path = sys.argv[1]
    sink = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sink.bind(path)
    os.chmod(path, 0o666)
    lines = 0

    def stop(*_):
        print(lines, flush=True)
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    print("ready", flush=True)
    buffer = bytearray(2048)
    while True:
        sink.recv_into(buffer)
        lines += 1


if __name__ == "__main__":
    main()
