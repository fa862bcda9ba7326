#!/usr/bin/env python3
"""Opens TLS connections to a port of this machine one after the other, with a server name and without
resumption, for some seconds; each sends one request. Prints their number."""

import socket
import ssl
import sys
import time


def main():
    port, name, seconds = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    request = f"GET /1k HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode()
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        with socket.create_connection(("127.0.0.1", port)) as plain:
            with context.wrap_socket(plain, server_hostname=name) as secure:
                if name.split(".")[-2].encode() not in secure.getpeercert(binary_form=True):
                    raise SystemExit(f"the certificate is not that of {name}")
                secure.sendall(request)
                if not secure.recv(64).startswith(b"HTTP/1.1 200"):
                    raise SystemExit("the answer is not 200")
                while secure.recv(65536):
                    pass
        count += 1
    print(count)


if __name__ == "__main__":
    main()
