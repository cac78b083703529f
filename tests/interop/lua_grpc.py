"""gRPC as `net.grpc` of Lua programs meets it. Messages are encoded by hand: text 1, number 2.

lua_grpc.py serve       serves shop.Orders; writes "port N" to standard error
lua_grpc.py call PORT   calls a server; prints "done"
"""

import concurrent.futures
import sys
import threading

import grpc

PATIENCE_S = 30
begun = threading.Event()
cancelled = threading.Event()


def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def note(text="", number=0):
    data = text.encode()
    return (b"\x0a" + varint(len(data)) + data if data else b"") + (
        b"\x10" + varint(number) if number else b""
    )


def read_varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    text, number, at = "", 0, 0
    while at < len(data):
        tag, at = read_varint(data, at)
        value, at = read_varint(data, at)
        if tag == 10:
            text, at = data[at : at + value].decode(), at + value
        else:
            number = value
    return text, number


def get(request, context):
    text, number = fields(request)
    if text == "missing":
        context.abort(grpc.StatusCode.NOT_FOUND, "no such order: zwölf %")
    if text == "wait":
        begun.set()
        # A call that is over already calls nothing back.
        if not context.add_callback(cancelled.set):
            cancelled.set()
        cancelled.wait(PATIENCE_S)
    if text == "has it begun?":
        return note("yes" if begun.is_set() else "no")
    if text == "was it cancelled?":
        return note("yes" if cancelled.wait(PATIENCE_S) else "no")
    if text == "metadata":
        return note(dict(context.invocation_metadata())["x-a"])
    if text == "remaining":
        return note(number=int(context.time_remaining() * 1000))
    return note(text.upper(), number + 1)


def watch(request, context):
    text, number = fields(request)
    for index in range(number):
        yield note(text, index + 1)
    if text == "fail":
        context.abort(grpc.StatusCode.ABORTED, "after all")


def total(requests, context):
    return note(number=sum(fields(request)[1] for request in requests))


def chat(requests, context):
    for request in requests:
        yield note(fields(request)[0] + "!")


def serve():
    handlers = {
        "Get": grpc.unary_unary_rpc_method_handler(get),
        "Watch": grpc.unary_stream_rpc_method_handler(watch),
        "Total": grpc.stream_unary_rpc_method_handler(total),
        "Chat": grpc.stream_stream_rpc_method_handler(chat),
    }
    server = grpc.server(
        concurrent.futures.ThreadPoolExecutor(8), compression=grpc.Compression.Gzip
    )
    generic = grpc.method_handlers_generic_handler("shop.Orders", handlers)
    server.add_generic_rpc_handlers((generic,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print("port", port, file=sys.stderr, flush=True)
    server.wait_for_termination()


def same(got, expected):
    if got != expected:
        sys.exit(f"got {got}, expected {expected}")


def fails(call, code, details):
    try:
        call()
    except grpc.RpcError as error:
        same((error.code(), error.details()), (code, details))
    else:
        sys.exit(f"no {code}")


def call(port):
    channel = grpc.insecure_channel(f"127.0.0.1:{port}", compression=grpc.Compression.Gzip)
    get = channel.unary_unary("/shop.Orders/Get")
    watch = channel.unary_stream("/shop.Orders/Watch")
    total = channel.stream_unary("/shop.Orders/Total")
    chat = channel.stream_stream("/shop.Orders/Chat")
    code = grpc.StatusCode
    same(fields(get(note("tea", 1), timeout=PATIENCE_S)), ("TEA", 2))
    large = "x" * 3_000_000
    same(fields(get(note(large), timeout=PATIENCE_S))[0], large.upper())
    fails(lambda: get(note("missing")), code.NOT_FOUND, "no such order: zwölf %")
    fails(lambda: get(note("error")), code.INTERNAL, "the handler failed")
    fails(lambda: get(note("wait"), timeout=0.1), code.DEADLINE_EXCEEDED, "Deadline Exceeded")
    same(fields(get(note("metadata"), metadata=(("x-a", "b"),), timeout=PATIENCE_S))[0], "b")
    none = channel.unary_unary("/shop.Orders/None")
    fails(lambda: none(b""), code.UNIMPLEMENTED, "grpc: method not found")
    same([fields(data)[1] for data in watch(note(number=3))], [1, 2, 3])
    fails(lambda: list(watch(note("fail", 2))), code.ABORTED, "after all")
    same(fields(total(iter([note(number=5), note(number=6)])))[1], 11)
    replies = chat(note(text) for text in ["a", "b"])
    same([fields(data)[0] for data in replies], ["a!", "b!"])
    # A call that is cancelled ends for the server too.
    forever = watch(note("forever", 1))
    next(forever)
    forever.cancel()
    same(fields(get(note("was it cancelled?"), timeout=PATIENCE_S))[0], "yes")
    # Many calls at once over one connection.
    futures = [get.future(note(number=number), timeout=PATIENCE_S) for number in range(100)]
    same(sum(fields(future.result())[1] for future in futures), 5050)
    print("done", flush=True)


if sys.argv[1] == "serve":
    serve()
else:
    call(sys.argv[2])
