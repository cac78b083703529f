"""ASGI: back-pressure in both directions. A peer that does not read must not fill the memory."""

import asyncio
import json

import pytest

from client import Client, chunk, request
from stage import Stage, events, more, note, noting_suspension, reply, start

app = Stage()
PIECE = b"x" * 65_536
PIECES = 1_600  # 100 MiB: more than all buffers between application and client together
BUFFERED_MAX = 32 << 20


@app.part
async def streams(scope, receive, send):
    await start(send)
    app.sent = 0
    for _ in range(PIECES):
        await more(send, PIECE)
        app.sent += len(PIECE)
    await more(send, b"", False)
    note("streamed")


@app.part
async def sent(scope, receive, send):
    """The number of bytes that `streams` has sent."""
    await reply(send, app.sent)


def test_send_waits_for_a_client_that_does_not_read(server):
    client = Client(server.port, receive_buffer=65_536)
    client.send(request("GET", "/streams"))
    client.head()
    size = 0
    for _ in range(50):
        assert json.loads(server.get("/sent").body) < BUFFERED_MAX, "send() did not wait"
    for at in range(PIECES):
        size += len(client.chunk())
        if at % 100 == 0:
            sent = json.loads(server.get("/sent").body)
            assert sent - size < BUFFERED_MAX, "send() did not wait"
    while piece := client.chunk():
        size += len(piece)
    assert size == PIECES * len(PIECE)
    client.close()
    server.note("streamed")


@pytest.mark.fails_on("uvicorn", "granian", "hypercorn", "gunicorn")
@pytest.mark.parametrize("farewell", ["close", "vanish"])
def test_a_send_that_waits_ends_when_the_client_disconnects(server, farewell):
    client = Client(server.port, receive_buffer=65_536)
    client.send(request("GET", "/sends_until_disconnect"))
    client.head()
    server.note("waiting")
    getattr(client, farewell)()
    assert "OSError" in server.note("ended")


@app.part
async def sends_until_disconnect(scope, receive, send):
    """Sends pieces larger than all buffers: while the server writes the first one, the second one
    waits."""
    await start(send)
    try:
        await more(send, bytes(BUFFERED_MAX))
        await noting_suspension(more(send, bytes(BUFFERED_MAX)), "waiting")
    except Exception as error:
        note("ended", [kind.__name__ for kind in type(error).__mro__])
        raise


@app.part
async def calls_without_await(scope, receive, send):
    """A Task waits in `send`; then it is called again, and not awaited."""
    await start(send)
    await more(send, bytes(BUFFERED_MAX))
    waiting = asyncio.ensure_future(more(send, bytes(BUFFERED_MAX)))
    await asyncio.sleep(0)
    call = send({"type": "http.response.body", "body": b"last", "more_body": True})
    note("called")
    await waiting
    del call
    await more(send, b"", False)


@pytest.mark.fails_on("uvicorn", "granian", "hypercorn", "gunicorn")
def test_a_call_that_is_not_awaited_keeps_no_task_waiting(server):
    with server.connect() as client:
        client.send(request("GET", "/calls_without_await"))
        client.head()
        server.note("called")
        size = 0
        while piece := client.chunk():
            size += len(piece)
        assert size == 2 * BUFFERED_MAX + len(b"last")


def test_a_disconnect_is_not_logged_as_an_error(server):
    """"Servers must be prepared to catch this exception ... and should not log it"."""
    client = server.connect()
    client.send(request("GET", "/raises_on_disconnect"))
    client.head()
    client.vanish()
    server.note("raised")
    assert server.get("/fine").status == 200
    assert "Traceback" not in server.log()


@app.part
async def raises_on_disconnect(scope, receive, send):
    await start(send)
    await more(send, b"begin")
    while (await receive())["type"] != "http.disconnect":
        pass
    try:
        for _ in range(100):
            await more(send, PIECE)
    finally:
        note("raised")


@app.part
async def fine(scope, receive, send):
    await reply(send, b"fine")


@app.part
async def slow_reader(scope, receive, send):
    """Reads nothing until a request for `/go`, then everything."""
    app.go = asyncio.Event()
    note("not-reading")
    await app.go.wait()
    size = 0
    async for message in events(receive):
        size += len(message.get("body", b""))
    await reply(send, size)


@app.part
async def go(scope, receive, send):
    app.go.set()
    await reply(send, b"")


@pytest.mark.fails_on("granian")
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_an_upload_waits_for_an_application_that_does_not_receive(server, framing):
    total = 40 << 20
    field = {"length": ("content-length", str(total)), "chunked": ("transfer-encoding", "chunked")}
    piece = PIECE if framing == "length" else chunk(PIECE)
    with server.connect() as client:
        client.send(request("POST", "/slow_reader", [field[framing]]))
        server.note("not-reading")
        sent = send_until_blocked(client, piece * (total // len(PIECE)), server)
        assert 0 < sent < BUFFERED_MAX, "the server reads although the application does not"
    server.get("/go")


def send_until_blocked(client, data, server):
    """Sends until the server takes no more, or everything; returns the number of bytes sent.

    A server that answers 20 other requests without reading from this connection does not read."""
    view, sent, unread = memoryview(data), 0, 0
    client.socket.setblocking(False)
    while sent < len(data) and unread < 20:
        try:
            sent += client.socket.send(view[sent:])
            unread = 0
        except BlockingIOError:
            unread += 1
            assert server.get("/fine").status == 200
    return sent


@app.part
async def counts(scope, receive, send):
    size = 0
    largest = 0
    async for message in events(receive):
        size += len(message.get("body", b""))
        largest = max(largest, len(message.get("body", b"")))
        await asyncio.sleep(0)
    await reply(send, [size, largest])


def test_a_large_upload_arrives_in_pieces(server):
    """60 MiB, of which the application has one piece at a time."""
    total = 60 << 20
    with server.connect() as client:
        client.send(request("POST", "/counts", {"content-length": str(total)}))
        for _ in range(total // len(PIECE)):
            client.send(PIECE)
        size, largest = json.loads(client.response().body)
    assert size == total
    assert largest <= 1 << 20
