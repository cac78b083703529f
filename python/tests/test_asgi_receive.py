"""ASGI 2.5, "Request" and "Disconnect": what receive() returns, and when it waits."""

import asyncio
import json

import pytest

from client import chunk, request
from stage import Stage, events, more, note, outcome, reply, start, whole_body

app = Stage()


@app.part
async def messages(scope, receive, send):
    received = [dict(message) async for message in events(receive)]
    kinds = [{key: type(value).__name__ for key, value in message.items()} for message in received]
    await reply(send, [received, kinds])


@app.part
async def echo(scope, receive, send):
    await reply(send, await whole_body(receive))


def messages_of(response):
    assert response.status == 200, response
    return json.loads(response.body)


def test_a_request_without_a_body_is_one_message(server):
    (message,), (kinds,) = messages_of(server.get("/messages"))
    assert message["type"] == "http.request"
    assert message.get("body", "") == ""
    assert message.get("more_body", False) is False
    assert kinds.get("body", "bytes") == "bytes"


def test_a_small_body_is_one_message(server):
    (message,), (kinds,) = messages_of(server.ask("POST", "/messages", body=b"all of it"))
    assert message["body"] == "all of it"
    assert message.get("more_body", False) is False
    assert kinds["body"] == "bytes"


def test_an_empty_body_with_a_length_is_complete(server):
    received, _ = messages_of(server.ask("POST", "/messages", body=b""))
    assert "".join(m.get("body", "") for m in received) == ""
    assert received[-1].get("more_body", False) is False


def test_only_the_last_message_has_no_more_body(server):
    received, kinds = messages_of(server.ask("POST", "/messages", body=b"0123456789" * 100_000))
    assert [m.get("more_body", False) for m in received] == [True] * (len(received) - 1) + [False]
    assert sum(len(m.get("body", "")) for m in received) == 1_000_000
    assert all(kind.get("more_body", "bool") == "bool" for kind in kinds)


@pytest.mark.parametrize("length", [1, 65_535, 65_536, 65_537, 262_144, 262_145, 3_000_000])
def test_a_body_is_received_unchanged(server, length):
    body = bytes(i * 7 % 251 for i in range(length))
    assert server.ask("POST", "/echo", body=body).body == body


def test_a_chunked_body_is_received_decoded(server):
    with server.connect() as client:
        client.send(request("POST", "/echo", {"transfer-encoding": "chunked"}))
        client.send(chunk(b"one,") + chunk(b"two,"))
        client.send(chunk(b"three") + chunk(b""))
        assert client.response().body == b"one,two,three"
        client.send(request("GET", "/echo"))
        assert client.response().body == b""


def test_extensions_and_trailers_of_chunks_are_not_body(server):
    with server.connect() as client:
        client.send(request("POST", "/echo", {"transfer-encoding": "chunked"}))
        client.send(b"4;name=value\r\nbody\r\n0\r\nx-trailer: 1\r\n\r\n")
        assert client.response().body == b"body"


@app.part
async def as_it_comes(scope, receive, send):
    await start(send)
    async for message in events(receive):
        if message["body"]:
            await more(send, b"<%b>" % message["body"])
    await more(send, b"", False)


def test_a_part_of_a_body_is_received_before_the_rest_arrives(server):
    with server.connect() as client:
        client.send(request("POST", "/as_it_comes", {"transfer-encoding": "chunked"}))
        client.send(chunk(b"first"))
        client.head()
        assert client.chunk() == b"<first>"
        client.send(chunk(b"second"))
        assert client.chunk() == b"<second>"
        client.send(chunk(b""))
        assert client.chunk() == b""


@app.part
async def waits_after_body(scope, receive, send):
    await whole_body(receive)
    pending = asyncio.ensure_future(receive())
    done, _ = await asyncio.wait([pending], timeout=0.05)
    early = bool(done)
    await reply(send, ["early" if early else "waits"])
    note("after-response", (await pending)["type"])


def test_receive_waits_after_the_body_until_the_response_is_complete(server):
    with server.connect() as client:
        client.send(request("POST", "/waits_after_body", body=b"x"))
        assert client.response().body == b'["waits"]'
        assert server.note("after-response") == "http.disconnect"


@app.part
async def receives_after_response(scope, receive, send):
    await reply(send, b"done")
    note("afterwards", [(await receive())["type"] for _ in range(3)])


@pytest.mark.fails_on("granian", "hypercorn")
@pytest.mark.parametrize("body", [None, b"never asked for"])
def test_after_the_response_receive_returns_disconnect_each_time(server, body):
    with server.connect() as client:
        client.send(request("POST", "/receives_after_response", body=body))
        assert client.response().body == b"done"
        assert server.note("afterwards") == ["http.disconnect"] * 3


@app.part
async def until_gone(scope, receive, send):
    await whole_body(receive)
    note("working")
    kinds = [(await receive())["type"] for _ in range(2)]
    raised = await outcome(reply(send, b"after the disconnect"))
    note("gone", [kinds, raised])


@pytest.mark.fails_on("granian")
@pytest.mark.parametrize("farewell", ["close", "vanish"])
def test_a_client_that_disconnects_is_a_disconnect(server, farewell):
    client = server.connect()
    client.send(request("GET", "/until_gone"))
    server.note("working")
    getattr(client, farewell)()
    kinds, _ = server.note("gone")
    assert kinds == ["http.disconnect"] * 2


@pytest.mark.fails_on("granian", "uvicorn", "gunicorn", "hypercorn")
def test_after_a_disconnect_send_raises_a_kind_of_oserror(server):
    client = server.connect()
    client.send(request("GET", "/until_gone"))
    server.note("working")
    client.close()
    _, raised = server.note("gone")
    assert raised and "OSError" in raised["raised"], raised


@app.part
async def upload(scope, receive, send):
    kinds = []
    size = 0
    note("uploading")
    while True:
        message = await receive()
        kinds.append(message["type"])
        size += len(message.get("body", b""))
        if message["type"] == "http.disconnect" or not message.get("more_body"):
            break
    note("uploaded", [kinds[-1], size])
    await outcome(reply(send, b"thanks"))


@pytest.mark.fails_on("granian", "gunicorn")
@pytest.mark.parametrize("farewell", ["close", "vanish"])
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_client_that_disconnects_in_its_upload_is_a_disconnect(server, farewell, framing):
    field = ("content-length", "1000") if framing == "length" else ("transfer-encoding", "chunked")
    client = server.connect()
    client.send(request("POST", "/upload", [field]))
    client.send(b"x" * 100 if framing == "length" else chunk(b"x" * 100))
    server.note("uploading")
    getattr(client, farewell)()
    kind, size = server.note("uploaded")
    assert kind == "http.disconnect", "the body must not look complete"
    assert size <= 100


@pytest.mark.parametrize("after", [b"no length\r\n", b"5\r\nabcdeXX"])
def test_a_malformed_chunk_does_not_end_the_body(server, after):
    with server.connect() as client:
        head = request("POST", "/upload", {"transfer-encoding": "chunked"})
        # In one piece, so that the fault is known before the application reads the data before it.
        client.send(head + chunk(b"x" * 100) + after)
        kind, _ = server.note("uploaded")
        assert kind == "http.disconnect", "the body must not look complete"


@app.part
async def slowly(scope, receive, send):
    note("slow")
    first = (await receive())["type"]
    gone = asyncio.ensure_future(receive())
    await asyncio.wait([gone], timeout=0.1)
    second = gone.done()
    gone.cancel()
    await reply(send, [first, second])


def test_a_pipelined_request_is_not_a_disconnect(server):
    """Pipelining (RFC 9112 section 9.3.2): the client is still connected."""
    with server.connect() as client:
        client.send(request("GET", "/slowly") + request("GET", "/echo"))
        assert json.loads(client.response().body) == ["http.request", False]
        assert client.response().status == 200


@app.part
async def ignores_body(scope, receive, send):
    await reply(send, b"not read")


@pytest.mark.parametrize("length", [10, 100_000, 2_000_000])
def test_an_unread_body_is_discarded(server, length):
    """The response is complete, and the unread body is not parsed as a request."""
    with server.connect() as client:
        client.send(request("POST", "/ignores_body", body=None, headers={
            "content-length": str(length)}))
        client.send(b"GET /x HTTP/1.1\r\n"[:10].ljust(10, b"x"))
        response = client.response()
        assert (response.status, response.body, response.complete) == (200, b"not read", True)


@app.part
async def cancels_receive(scope, receive, send):
    """A receive() that is cancelled while it waits loses no data."""
    parts = []
    while True:
        waiting = asyncio.ensure_future(receive())
        await asyncio.sleep(0)
        if not waiting.done():
            waiting.cancel()
            await asyncio.wait([waiting])
            note("cancelled")
            waiting = asyncio.ensure_future(receive())
        message = await waiting
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            break
    await reply(send, b"".join(parts))


@pytest.mark.fails_on("granian")
def test_a_cancelled_receive_loses_nothing(server):
    with server.connect() as client:
        client.send(request("POST", "/cancels_receive", {"transfer-encoding": "chunked"}))
        for number in range(3):
            server.note("cancelled")
            client.send(chunk(b"part %d " % number))
        server.note("cancelled")
        client.send(chunk(b""))
        assert client.response().body == b"part 0 part 1 part 2 "


def test_expect_100_continue_is_sent_when_the_application_reads(server):
    with server.connect() as client:
        head = {"expect": "100-continue", "content-length": "4"}
        client.send(request("POST", "/echo", head))
        assert client.head().status == 100
        client.send(b"body")
        response = client.response()
        assert (response.status, response.body) == (200, b"body")


@pytest.mark.fails_on("granian", "hypercorn", "gunicorn")
def test_no_100_continue_for_an_application_that_does_not_read(server):
    with server.connect() as client:
        head = {"expect": "100-continue", "content-length": "4"}
        client.send(request("POST", "/ignores_body", head))
        response = client.response()
        assert (response.status, response.interim) == (200, [])


def test_requests_of_one_connection_are_separate(server):
    with server.connect() as client:
        for number in range(50):
            body = b"%d" % number * (number * 100 + 1)
            client.send(request("POST", "/echo", body=body))
            assert client.response().body == body


def test_pipelined_responses_keep_their_order(server):
    with server.connect() as client:
        client.send(b"".join(request("POST", "/echo", body=b"%d" % n) for n in range(20)))
        assert [client.response().body for _ in range(20)] == [b"%d" % n for n in range(20)]
