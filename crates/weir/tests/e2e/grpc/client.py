"""A client of gRPC with Debian's python3-grpcio: `client.py ADDRESS [CA]`, with TLS if there is the
file of an authority. It reads commands, one on each line, and prints one line for each."""

import queue
import sys

import grpc

PATIENCE = 20


def connect(address, authority):
    if authority is None:
        return grpc.insecure_channel(address)
    with open(authority, "rb") as file:
        credentials = grpc.ssl_channel_credentials(file.read())
    return grpc.secure_channel(address, credentials)


channel = connect(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
said = queue.Queue()
answers = None


def unary(path, message, timeout=PATIENCE):
    return channel.unary_unary(path).with_call(message, timeout=timeout)


def run(command, *words):
    global answers
    if command == "unary":
        message, call = unary("/weir.test.Echo/Unary", " ".join(words).encode())
        metadata = dict(call.initial_metadata()) | dict(call.trailing_metadata())
        return f"{message.decode()} from {metadata['x-server']}"
    if command == "large":
        message, _ = unary("/weir.test.Echo/Unary", b"x" * int(words[0]))
        return str(len(message))
    if command == "stream":
        found = channel.unary_stream("/weir.test.Echo/Stream")(words[0].encode(), timeout=PATIENCE)
        return " ".join(message.decode() for message in found)
    if command == "collect":
        messages = (word.encode() for word in words)
        return channel.stream_unary("/weir.test.Echo/Collect")(messages, timeout=PATIENCE).decode()
    if command == "open":
        answers = channel.stream_stream("/weir.test.Echo/Talk")(iter(said.get, None))
        return "opened"
    if command == "say":
        said.put(" ".join(words).encode())
        return next(answers).decode()
    if command == "close":
        said.put(None)
        return str(list(answers))
    if command == "fail":
        return str(unary("/weir.test.Echo/Fail", words[0].encode()))
    if command == "slow":
        return str(unary("/weir.test.Echo/Slow", b"", timeout=float(words[0])))
    if command == "other":
        return str(unary(words[0], b""))
    raise ValueError(command)


for line in sys.stdin:
    try:
        print(run(*line.split()), flush=True)
    except grpc.RpcError as error:
        print(error.code().name, error.details(), flush=True)
