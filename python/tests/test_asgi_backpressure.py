"""ASGI: back-pressure in both directions. Who does not read must not fill our memory."""

import asyncio
import json
import socket

import pytest

from client import Client, chunk, request
from stage import Stage, events, more, note, reply, start

app = Stage()
PIECE = b"x" * 65_536
PIECES = 1_600  # a hundred megabytes: more than all buffers between the two together
BUFFERED_MAX = 32 << 20


def resident(pid="self"):
    """Resident memory in bytes."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


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
    """How much the other one has sent once it stands still."""
    last = -1
    while app.sent != last:
        last = app.sent
        await asyncio.sleep(0.2)
    await reply(send, [last, resident()])


def test_send_waits_for_a_client_that_does_not_read(server):
    client = Client(server.port, receive_buffer=65_536)
    client.send(request("GET", "/streams"))
    client.head()
    taken, _ = json.loads(server.get("/sent").body)
    assert taken < BUFFERED_MAX, "send() did not wait"
    size = 0
    while piece := client.chunk():
        size += len(piece)
    assert size == PIECES * len(PIECE)
    client.close()
    server.note("streamed")


@pytest.mark.fails_on("uvicorn", "granian", "hypercorn", "gunicorn")
@pytest.mark.parametrize("farewell", ["close", "vanish"])
def test_a_send_that_waits_ends_when_the_client_goes(server, farewell):
    client = Client(server.port, receive_buffer=65_536)
    client.send(request("GET", "/streams_until_gone"))
    client.head()
    server.note("full")
    getattr(client, farewell)()
    assert "OSError" in server.note("ended")


@app.part
async def streams_until_gone(scope, receive, send):
    await start(send)
    try:
        while True:
            sending = asyncio.ensure_future(more(send, PIECE))
            done, _ = await asyncio.wait([sending], timeout=0.3)
            if not done:
                note("full")
            await sending
    except Exception as error:
        note("ended", [kind.__name__ for kind in type(error).__mro__])
        raise


def test_the_error_of_a_client_that_went_is_no_error_of_ours(server):
    """"Servers must be prepared to catch this exception ... and should not log it"."""
    client = server.connect()
    client.send(request("GET", "/raises_on_gone"))
    client.head()
    client.vanish()
    server.note("raised")
    assert server.get("/fine").status == 200
    assert "Traceback" not in server.log()


@app.part
async def raises_on_gone(scope, receive, send):
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
    """Reads nothing until it is told to, then everything."""
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
    await reply(send, resident())


@pytest.mark.fails_on("granian")
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_an_upload_waits_for_an_application_that_does_not_receive(server, framing):
    total = 40 << 20
    field = {"length": ("content-length", str(total)), "chunked": ("transfer-encoding", "chunked")}
    piece = PIECE if framing == "length" else chunk(PIECE)
    with server.connect() as client:
        client.send(request("POST", "/slow_reader", [field[framing]]))
        server.note("not-reading")
        client.socket.settimeout(0.5)
        taken = 0
        for at in range(total // len(PIECE)):
            try:
                client.socket.sendall(piece)
            except socket.timeout:
                taken = at
                break
        assert taken and taken * len(PIECE) < BUFFERED_MAX, "the server takes whatever comes"
    server.get("/go")


@app.part
async def counts(scope, receive, send):
    size = 0
    largest = 0
    async for message in events(receive):
        size += len(message.get("body", b""))
        largest = max(largest, len(message.get("body", b"")))
        await asyncio.sleep(0)
    await reply(send, [size, largest])


def test_a_large_upload_comes_in_pieces(server):
    """Sixty megabytes, of which the application holds one piece at a time."""
    total = 60 << 20
    with server.connect() as client:
        client.send(request("POST", "/counts", {"content-length": str(total)}))
        for _ in range(total // len(PIECE)):
            client.send(PIECE)
        size, largest = json.loads(client.answer().body)
    assert size == total
    assert largest <= 1 << 20
