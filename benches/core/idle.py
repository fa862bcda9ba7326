"""Opens COUNT keep-alive connections, does one request on each and holds them:
`idle.py PORT COUNT plain|tls|http2 PATH`, the last with TLS. Prints `ready`, waits for a line, prints how many are still open.
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


def frame(kind, flags, stream, payload):
    """A frame of HTTP/2."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def http2_request(path):
    """The preface and a request on stream 1, with fields from the static table of HPACK."""
    head = b"\x82\x87\x04" + bytes([len(path)]) + path.encode() + b"\x01\x09localhost"
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(1, 5, 1, head)


def read_http2_response(connection):
    """Reads frames up to the end of stream 1, and acknowledges the server's settings."""
    data, body = b"", 0
    while True:
        while len(data) < 9 or len(data) < 9 + int.from_bytes(data[:3], "big"):
            data = more(connection, data)
        length, kind, flags = int.from_bytes(data[:3], "big"), data[3], data[4]
        data = data[9 + length :]
        if kind == 4 and not flags & 1:
            connection.sendall(frame(4, 1, 0, b""))
        if kind in (3, 7):
            raise OSError("the stream or the connection was ended")
        body += length if kind == 0 else 0
        if kind in (0, 1) and flags & 1:
            if not body:
                raise OSError("the response has no body")
            return


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
    if kind == "http2":
        context.set_alpn_protocols(["h2"])
        request = http2_request(path)
    held = []
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", port), timeout=30)
        if kind != "plain":
            connection = context.wrap_socket(connection, server_hostname="localhost")
        connection.sendall(request)
        if waits and kind == "http2":
            read_http2_response(connection)
        elif waits:
            read_response(connection)
        held.append(connection)
    print("ready", flush=True)
    sys.stdin.readline()
    print(still_open(held), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
