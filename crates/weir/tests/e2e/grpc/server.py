"""A server of gRPC with Debian's python3-grpcio and no generated code: messages are bytes.

`server.py NAME` prints its port. All methods are of the service `weir.test.Echo`."""

import sys
import time
from concurrent import futures

import grpc

NAME = sys.argv[1]


def unary(request, context):
    context.set_trailing_metadata((("x-server", NAME),))
    return request


def stream(request, context):
    for number in range(int(request)):
        yield b"%d" % number


def collect(requests, context):
    return b"+".join(requests)


def talk(requests, context):
    for request in requests:
        yield b"heard " + request


def fail(request, context):
    code = next(code for code in grpc.StatusCode if code.value[0] == int(request))
    context.abort(code, f"{NAME} says no")


def slow(request, context):
    while context.is_active():
        time.sleep(0.01)
    return b"late"


def health(request, context):
    """grpc.health.v1.Health/Check: the name in the request, a status in the response."""
    name = request[2:].decode()
    if name == "unknown":
        context.abort(grpc.StatusCode.NOT_FOUND, "no such service")
    return b"\x08\x02" if name == "sick" else b"\x08\x01"


class Methods(grpc.GenericRpcHandler):
    """The methods by their path."""

    METHODS = {
        "/weir.test.Echo/Unary": grpc.unary_unary_rpc_method_handler(unary),
        "/weir.test.Echo/Stream": grpc.unary_stream_rpc_method_handler(stream),
        "/weir.test.Echo/Collect": grpc.stream_unary_rpc_method_handler(collect),
        "/weir.test.Echo/Talk": grpc.stream_stream_rpc_method_handler(talk),
        "/weir.test.Echo/Fail": grpc.unary_unary_rpc_method_handler(fail),
        "/weir.test.Echo/Slow": grpc.unary_unary_rpc_method_handler(slow),
        "/grpc.health.v1.Health/Check": grpc.unary_unary_rpc_method_handler(health),
    }

    def service(self, details):
        return self.METHODS.get(details.method)


server = grpc.server(futures.ThreadPoolExecutor(max_workers=16))
server.add_generic_rpc_handlers((Methods(),))
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
server.wait_for_termination()
