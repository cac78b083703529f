"""Clients that are slow, many or disconnected must not consume resources."""

import asyncio
import json
import os
import resource
import time

import pytest

from client import Client, chunk, request
from hosting import KIND
from stage import Stage, WsgiStage, more, note, reply, start, whole_body

app = Stage()
app.inside = 0
wsgi = WsgiStage()
COUNT = 1000


@app.part
async def fine(scope, receive, send):
    await reply(send, b"fine")


@app.part
async def echo(scope, receive, send):
    app.inside += 1
    try:
        body = await whole_body(receive)
        await reply(send, body)
    finally:
        app.inside -= 1


@app.part
async def left(scope, receive, send):
    """The number of requests that are still in the application, after time to leave it."""
    end = time.monotonic() + 30
    while app.inside and time.monotonic() < end:
        await asyncio.sleep(0.01)
    await reply(send, app.inside)


@wsgi.part
def wsgi_fine(environ, start_response):
    start_response("200 OK", [("content-length", "4")])
    return [b"fine"]


@wsgi.part
def wsgi_echo(environ, start_response):
    body = environ["wsgi.input"].read()
    start_response("200 OK", [("content-length", str(len(body)))])
    return [body]


@pytest.fixture
def many_descriptors():
    """Allows a thousand connections on either side; child processes inherit the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = COUNT + 500
    assert hard == resource.RLIM_INFINITY or hard >= wanted, f"no more than {hard} descriptors"
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("interface", ["asgi", "wsgi"])
def test_a_thousand_slow_uploads_do_not_delay_other_requests(
        start_server, many_descriptors, interface):
    """A body is complete before a WSGI thread takes the request."""
    target = "wsgi" if interface == "wsgi" else "app"
    server = start_server(f"test_faults_clients:{target}", interface)
    clients = [Client(server.port) for _ in range(COUNT)]
    head = request("POST", "/echo", {"content-length": "4"})
    for client in clients:
        client.send(head + b"b")
    for byte in (b"o", b"d"):
        for client in clients:
            client.send(byte)
        assert server.get("/fine").body == b"fine"
    for client in clients:
        client.send(b"y")
    for client in clients:
        assert client.response().body == b"body"
        client.close()


@pytest.mark.fails_on("uvicorn", "granian")
@pytest.mark.parametrize("where", ["head", "body", "response"])
def test_vanished_clients_leave_nothing_behind(server, where):
    for _ in range(100):
        client = server.connect()
        if where == "head":
            client.send(b"POST /echo HTTP/1.1\r\nhost: a\r\n")
        elif where == "body":
            client.send(request("POST", "/echo", {"transfer-encoding": "chunked"}) + chunk(b"x"))
        else:
            client.send(request("GET", "/endless"))
            client.head()
        client.vanish()
    assert server.get("/left").body == b"0"


@app.part
async def endless(scope, receive, send):
    app.inside += 1
    try:
        await start(send)
        while True:
            await more(send, b"x" * 1000)
            await asyncio.sleep(0.01)
    finally:
        app.inside -= 1


@pytest.mark.fails_on("uvicorn", "granian")
def test_an_endless_response_ends_with_its_client(server):
    client = server.connect()
    client.send(request("GET", "/counts_down"))
    client.head()
    client.vanish()
    assert "OSError" in server.note("ended")


@app.part
async def counts_down(scope, receive, send):
    await start(send)
    try:
        while True:
            await more(send, b"tick\n")
            await asyncio.sleep(0.01)
    except Exception as error:
        note("ended", [kind.__name__ for kind in type(error).__mro__])
        raise


@app.part
async def listens(scope, receive, send):
    """Server-sent events: writes until the disconnect."""
    await start(send, headers=[(b"cache-control", b"no-cache")])
    watch = asyncio.ensure_future(until_disconnect(receive))
    try:
        while not watch.done():
            await more(send, b"data: tick\n\n")
            await asyncio.wait([watch], timeout=0.02)
    except OSError:
        # The event comes next: the disconnect was noticed between two of them.
        await watch
    note("listener-gone")


async def until_disconnect(receive):
    while (await receive())["type"] != "http.disconnect":
        pass


@pytest.mark.parametrize("farewell", ["close", "vanish"])
def test_the_disconnect_of_a_subscriber_is_noticed(server, farewell):
    client = server.connect()
    client.send(request("GET", "/listens"))
    client.head()
    assert client.chunk() == b"data: tick\n\n"
    getattr(client, farewell)()
    server.note("listener-gone")


def resident_of(server):
    """Resident memory of the serving process, in bytes."""
    return json.loads(server.get("/memory").body)


def measured():
    import gc
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


@app.part
async def memory(scope, receive, send):
    await reply(send, measured())


@wsgi.part
def wsgi_memory(environ, start_response):
    start_response("200 OK", [])
    return [str(measured()).encode()]


def many(server, total, batch=100):
    """Sends `count` pipelined requests of several kinds."""
    kinds = request("GET", "/fine") * (batch - 2) + request("POST", "/echo", body=b"x" * 1000)
    kinds += request("GET", "/misses/by/far")
    with server.connect() as client:
        for _ in range(total // batch):
            client.send(kinds)
            for _ in range(batch):
                client.response()


@app.part
async def misses(scope, receive, send):
    await reply(send, scope["path"].encode(), 404, [(b"x-a", b"y" * 100)])


@wsgi.part
def wsgi_misses(environ, start_response):
    start_response("404 Not Found", [("x-a", "y" * 100)])
    yield environ["PATH_INFO"].encode()


@pytest.mark.skipif(KIND != "tidegate", reason="ours is what has to be flat")
def test_memory_stays_what_it_is_over_many_requests(start_mode):
    """A leak grows in every round, and what is allocated once, after requests or seconds, in one.

    `make soak` sends a million in a round.
    """
    server = start_mode()
    total = int(os.environ.get("TIDEGATE_SOAK_REQUESTS", 8_000))
    # The smallest dict takes 64 bytes.
    limit = min(total * 48, 4 << 20)
    many(server, 2_000)
    grown = [limit]
    while grown[-1] >= limit and len(grown) <= 5:
        before, started = resident_of(server), time.monotonic()
        many(server, total)
        after, rate = resident_of(server), total / (time.monotonic() - started)
        grown.append(after - before)
        print(f"resident {before >> 10} KiB, then {after >> 10} KiB; {rate:.0f} requests a second")
    assert grown[-1] < limit, f"{grown[1:]} bytes in rounds of {total} requests"


@pytest.mark.skipif(KIND != "tidegate", reason="ours is what has to be flat")
def test_memory_is_given_back_after_large_uploads(server):
    def upload():
        with server.connect() as client:
            client.send(request("POST", "/counts", {"content-length": str(20 << 20)}))
            for _ in range(20):
                client.send(b"x" * (1 << 20))
            assert client.response().body == str(20 << 20).encode()
    upload()
    before = resident_of(server)
    for _ in range(20):
        upload()
    assert resident_of(server) < before * 1.2


@app.part
async def counts(scope, receive, send):
    size = 0
    while True:
        message = await receive()
        size += len(message["body"])
        if not message["more_body"]:
            return await reply(send, size)
