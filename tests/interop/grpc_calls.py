"""A gRPC service and its client, with messages that are plain bytes.

grpc_calls.py serve [PORT]    serves shop.v1.Orders and grpc.health.v1; prints "port N"
grpc_calls.py call PORT KIND  makes calls through a gateway; prints "done"
"""

import concurrent.futures
import functools
import sys
import threading

import grpc

SERVICE = "shop.v1.Orders"
LARGE = 3 * 1024 * 1024
OPTIONS = [("grpc.max_receive_message_length", 8 * 1024 * 1024)]
# Of every call that is expected to end.
PATIENCE_S = 30

cancelled, begun = threading.Event(), threading.Event()


def wait_for_cancellation(context):
    # A call that is over already calls nothing back.
    if not context.add_callback(cancelled.set):
        cancelled.set()
    cancelled.wait(PATIENCE_S)


def get(request, context):
    """Responds with the request, or fails as it says."""
    if request == b"fail":
        context.set_trailing_metadata((("x-reason", "asked"), ("x-bytes-bin", b"\x00\xff")))
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "zwölf % nicht")
    if request == b"was it cancelled?":
        return b"yes" if cancelled.wait(PATIENCE_S) else b"no"
    if request == b"remaining":
        return b"%d" % (context.time_remaining() * 1000)
    if request == b"has it begun?":
        return b"yes" if begun.is_set() else b"no"
    if request == b"wait":
        begun.set()
        wait_for_cancellation(context)
    context.set_trailing_metadata((("x-length", str(len(request))),))
    return request


def watch(request, context):
    """A stream of ten messages; "forever" lasts until it is cancelled."""
    for number in range(10):
        yield request + b" %d" % number
    if request == b"forever":
        wait_for_cancellation(context)
    if request == b"fail":
        context.abort(grpc.StatusCode.DATA_LOSS, "after ten")


def total(requests, context):
    return b"%d" % sum(len(request) for request in requests)


def chat(requests, context):
    for request in requests:
        yield request


def check(request, context):
    """grpc.health.v1: SERVING for the service, which is field 1 of the request."""
    if request not in (b"", b"\x0a" + bytes([len(SERVICE)]) + SERVICE.encode()):
        context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
    return b"\x08\x01"


def serve(port):
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(16), options=OPTIONS)
    orders = {
        "Get": grpc.unary_unary_rpc_method_handler(get),
        "Watch": grpc.unary_stream_rpc_method_handler(watch),
        "Import": grpc.stream_unary_rpc_method_handler(total),
        "Chat": grpc.stream_stream_rpc_method_handler(chat),
    }
    health = {"Check": grpc.unary_unary_rpc_method_handler(check)}
    server.add_generic_rpc_handlers((
        grpc.method_handlers_generic_handler(SERVICE, orders),
        grpc.method_handlers_generic_handler("grpc.health.v1.Health", health),
    ))
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    print("port", port, file=sys.stderr, flush=True)
    server.wait_for_termination()


def expect(actual, expected, what):
    assert actual == expected, f"{what}: {actual!r}, expected {expected!r}"


def failed(call, code, what):
    """The error of a call that must fail with this code."""
    try:
        call()
    except grpc.RpcError as error:
        expect(error.code(), code, what)
        return error
    raise AssertionError(f"{what}: no error")


class Calls:
    def __init__(self, port):
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS)
        path = lambda name: f"/{SERVICE}/{name}"
        self.get = self.channel.unary_unary(path("Get"))
        self.watch = self.channel.unary_stream(path("Watch"))
        self.total = self.channel.stream_unary(path("Import"))
        self.chat = self.channel.stream_stream(path("Chat"))

    def kinds(self):
        response, call = self.get.with_call(b"one", timeout=PATIENCE_S)
        expect((response, call.code()), (b"one", grpc.StatusCode.OK), "unary")
        expect(dict(call.trailing_metadata())["x-length"], "3", "trailing metadata")
        messages = list(self.watch(b"w", timeout=PATIENCE_S))
        expect(messages, [b"w %d" % number for number in range(10)], "server streaming")
        response = self.total((b"x" * 1000 for _ in range(100)), timeout=PATIENCE_S)
        expect(response, b"100000", "client streaming")
        self.converse()

    def converse(self):
        """Sends each message after the response to the one before has arrived."""
        turn = threading.Semaphore(1)

        def requests():
            for number in range(5):
                turn.acquire()
                yield b"%d" % number

        for number, response in enumerate(self.chat(requests(), timeout=PATIENCE_S)):
            expect(response, b"%d" % number, "bidirectional streaming")
            turn.release()

    def large(self):
        message = bytes(LARGE)
        expect(self.get(message, timeout=PATIENCE_S) == message, True, "a large message")
        sent = (bytes(LARGE) for _ in range(4))
        expect(self.total(sent, timeout=PATIENCE_S), b"%d" % (4 * LARGE), "large messages")

    def errors(self):
        error = failed(
            lambda: self.get(b"fail", timeout=PATIENCE_S),
            grpc.StatusCode.FAILED_PRECONDITION, "a failed call",
        )
        expect(error.details(), "zwölf % nicht", "details")
        metadata = dict(error.trailing_metadata())
        expect(metadata["x-reason"], "asked", "metadata of an error")
        expect(metadata["x-bytes-bin"], b"\x00\xff", "binary metadata")
        messages = []
        failed(
            lambda: messages.extend(self.watch(b"fail", timeout=PATIENCE_S)),
            grpc.StatusCode.DATA_LOSS, "a failed stream",
        )
        unknown = self.channel.unary_unary(f"/{SERVICE}/None")
        failed(lambda: unknown(b"", timeout=PATIENCE_S), grpc.StatusCode.UNIMPLEMENTED, "unknown")

    def cancellation(self):
        stream = self.watch(b"forever", timeout=PATIENCE_S)
        for _ in range(10):
            next(stream)
        stream.cancel()
        expect(self.get(b"was it cancelled?", timeout=PATIENCE_S), b"yes", "cancellation")

    def deadline(self):
        left = int(self.get(b"remaining", timeout=20))
        assert 0 < left <= 20_000, f"the server was given {left} ms"
        # A short deadline may be over before the server has begun.
        seconds = 1
        while seconds == 1 or self.get(b"has it begun?", timeout=PATIENCE_S) == b"no":
            wait = functools.partial(self.get, b"wait", timeout=seconds)
            failed(wait, grpc.StatusCode.DEADLINE_EXCEEDED, "a deadline")
            seconds *= 2
        expect(self.get(b"was it cancelled?", timeout=PATIENCE_S), b"yes", "after a deadline")

    def unavailable(self):
        """Calls while the server is killed: the one in flight and those after it."""
        stream = self.watch(b"forever", timeout=PATIENCE_S)
        for _ in range(10):
            next(stream)
        print("in flight", file=sys.stderr, flush=True)
        failed(lambda: next(stream), grpc.StatusCode.UNAVAILABLE, "a killed server")
        failed(
            lambda: self.get(b"one", timeout=PATIENCE_S), grpc.StatusCode.UNAVAILABLE, "no server"
        )


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2] if len(sys.argv) > 2 else 0)
    else:
        getattr(Calls(sys.argv[2]), sys.argv[3])()
        print("done")
