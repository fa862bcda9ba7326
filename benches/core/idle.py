"""Opens COUNT keep-alive connections, does one request on each and holds them:
`idle.py PORT COUNT plain|tls PATH`. Prints `ready`, waits for a line, prints how many are still open.
With `-` as the path it sends a request on each and waits for no response."""

import select
import socket
import ssl
import sys


def read_response(connection):
    """Reads one response with a Content-Length, to its last byte."""
    data = b""
    while b"\r\n\r\n" not in data:
        data = more(connection, data)
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    if " 200 " not in lines[0] + " ":
        raise OSError(f"unexpected answer: {lines[0]}")
    length = next(int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length:"))
    while len(body) < length:
        body = more(connection, body)


def more(connection, data):
    piece = connection.recv(65536)
    if not piece:
        raise OSError("the connection ended within a response")
    return data + piece


def still_open(raw_sockets):
    poll = select.poll()
    for raw in raw_sockets:
        poll.register(raw, select.POLLIN | select.POLLRDHUP)
    return len(raw_sockets) - len(poll.poll(0))


def main():
    port, count, kind, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    waits = path != "-"
    path = path if waits else "/"
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: idle\r\n\r\n".encode()
    held = []
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", port), timeout=30)
        if kind == "tls":
            connection = context.wrap_socket(connection, server_hostname="localhost")
        connection.sendall(request)
        if waits:
            read_response(connection)
        held.append(connection)
    print("ready", flush=True)
    sys.stdin.readline()
    print(still_open(held), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
