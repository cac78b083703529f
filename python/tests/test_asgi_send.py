"""ASGI 2.5, "Response Start" and "Response Body": what send() sends."""

import asyncio
import http
import json

import pytest

from client import request
from stage import Stage, more, note, outcome, reply, start

app = Stage()


@app.part
async def minimal(scope, receive, send):
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body"})


@pytest.mark.fails_on("granian")
def test_everything_optional_may_be_missing(server):
    with server.connect() as client:
        for _ in range(2):
            client.send(request("GET", "/minimal"))
            response = client.response()
            assert (response.status, response.body, response.complete) == (200, b"", True)


@app.part
async def status(scope, receive, send):
    wanted = int(scope["query_string"])
    await reply(send, b"body", wanted)


@pytest.mark.parametrize(("code", "reason"), [
    (200, "OK"), (201, "Created"), (404, "Not Found"), (418, None), (500, "Internal Server Error"),
    (503, "Service Unavailable"), (599, None), (299, None),
])
def test_the_status_is_sent_unchanged(server, code, reason):
    response = server.get(f"/status?{code}")
    assert response.status == code
    assert response.body == b"body"
    if reason:
        assert response.reason == reason


@app.part
async def status_of_enum(scope, receive, send):
    await reply(send, b"body", http.HTTPStatus.ACCEPTED)


def test_the_status_may_be_a_kind_of_integer(server):
    assert server.get("/status_of_enum").status == 202


@app.part
async def fields(scope, receive, send):
    headers = [(b"b", b"1"), (b"a", b"2"), (b"set-cookie", b"x=1, 2"), (b"b", b"3"),
               (b"set-cookie", b"y=2"), (b"latin", b"caf\xe9"), (b"empty", b"")]
    shapes = {b"tuples": headers, b"lists": [list(pair) for pair in headers],
              b"generator": (pair for pair in headers), b"tuple": tuple(headers)}
    await send({"type": "http.response.start", "status": 200,
                "headers": shapes[scope["query_string"]]})
    await more(send, b"", False)


@pytest.mark.fails_on("granian")
@pytest.mark.parametrize("shape", ["tuples", "lists", "tuple", "generator"])
def test_headers_keep_their_order_and_repeats(server, shape):
    """They are an iterable of two-item iterables."""
    response = server.get(f"/fields?{shape}")
    fields = [field for field in response.fields if field[0] in ("a", "b")]
    assert fields == [("b", "1"), ("a", "2"), ("b", "3")]
    assert response.all("set-cookie") == ["x=1, 2", "y=2"]
    assert response.header("latin") == "caf\xe9"
    assert response.header("empty") == ""


@app.part
async def bodies(scope, receive, send):
    """Without a length, in the requested number of pieces."""
    await start(send)
    pieces = int(scope["query_string"])
    for number in range(pieces):
        await more(send, b"piece %d." % number)
    await more(send, b"end", False)


@pytest.mark.parametrize("pieces", [0, 1, 2, 100])
def test_pieces_are_joined(server, pieces):
    expected = b"".join(b"piece %d." % number for number in range(pieces)) + b"end"
    with server.connect() as client:
        for _ in range(2):
            client.send(request("GET", f"/bodies?{pieces}"))
            response = client.response()
            assert (response.body, response.complete) == (expected, True)


@pytest.mark.fails_on("uvicorn")
def test_http10_without_a_length_ends_with_the_connection(server):
    with server.connect() as client:
        client.send(request("GET", "/bodies?3", version="1.0"))
        response = client.response()
        assert response.header("transfer-encoding") is None
        assert response.body == b"piece 0.piece 1.piece 2.end"
        assert client.ended()


@app.part
async def bytes_like(scope, receive, send):
    await start(send)
    await more(send, bytearray(b"bytearray,"))
    await more(send, memoryview(b"-memoryview-")[1:-1], False)


@pytest.mark.fails_on("granian")
def test_bytes_like_objects_are_accepted(server):
    assert server.get("/bytes_like").body == b"bytearray,memoryview"


@app.part
async def empty_pieces(scope, receive, send):
    await start(send)
    for piece in (b"", b"a", b"", b"", b"b", b""):
        await more(send, piece)
    await more(send, b"", False)


def test_an_empty_piece_does_not_end_the_body(server):
    """An empty chunk would be the last one (RFC 9112 section 7.1)."""
    response = server.get("/empty_pieces")
    assert (response.body, response.complete) == (b"ab", True)


@app.part
async def step_by_step(scope, receive, send):
    await start(send)
    await more(send, b"first")
    while (await receive())["type"] != "http.request":
        pass
    await more(send, b"second")
    await receive()
    await more(send, b"", False)


def test_a_piece_is_sent_when_send_returns(server):
    """It is not buffered: the client receives it while the application waits."""
    with server.connect() as client:
        client.send(request("POST", "/step_by_step", {"transfer-encoding": "chunked"}))
        client.head()
        assert client.exactly(10) == b"5\r\nfirst\r\n"
        client.send(b"1\r\nx\r\n")
        assert client.exactly(11) == b"6\r\nsecond\r\n"
        client.send(b"0\r\n\r\n")
        assert client.exactly(5) == b"0\r\n\r\n"


@app.part
async def transfer_encoding(scope, receive, send):
    await start(send, headers=[(b"transfer-encoding", b"gzip"), (b"kept", b"1")])
    await more(send, b"plain", False)


@pytest.mark.fails_on("uvicorn", "granian", "hypercorn", "gunicorn")
def test_transfer_encoding_of_the_application_is_ignored(server):
    response = server.get("/transfer_encoding")
    assert "gzip" not in (response.header("transfer-encoding") or "")
    assert (response.body, response.header("kept")) == (b"plain", "1")


@app.part
async def connection_field(scope, receive, send):
    await reply(send, b"last", headers=[(b"connection", b"close")])


@pytest.mark.fails_on("granian", "hypercorn", "gunicorn")
def test_connection_close_of_the_application_closes(server):
    """Not in the specification; frameworks and users of uvicorn rely on it."""
    with server.connect() as client:
        client.send(request("GET", "/connection_field"))
        response = client.response()
        assert response.header("connection") == "close"
        assert client.ended()


def test_head_has_the_fields_and_no_body(server):
    with server.connect() as client:
        client.send(request("HEAD", "/status?200") + request("GET", "/status?200"))
        head, whole = client.response("HEAD"), client.response()
        assert (head.status, head.header("content-length")) == (200, "4")
        assert whole.body == b"body"


def test_head_of_a_streamed_body_has_no_body(server):
    with server.connect() as client:
        client.send(request("HEAD", "/bodies?3") + request("GET", "/status?200"))
        assert client.response("HEAD").status == 200
        assert client.response().body == b"body"


@app.part
async def bare(scope, receive, send):
    """A status that allows no content, with a body."""
    body = b"must not be seen" if b"body" in scope["query_string"] else b""
    code = int(scope["query_string"][:3])
    await send({"type": "http.response.start", "status": code, "headers": [(b"etag", b'"1"')]})
    await more(send, body, False)


@pytest.mark.fails_on("granian")
@pytest.mark.parametrize("code", [204, 304])
@pytest.mark.parametrize("body", [
    "", pytest.param("body", marks=pytest.mark.fails_on("uvicorn", "gunicorn", "hypercorn"))])
def test_204_and_304_have_no_body(server, code, body):
    # RFC 9112 section 6.3; RFC 9110 section 8.6 for the length of a 204.
    with server.connect() as client:
        client.send(request("GET", f"/bare?{code}{body}") + request("GET", "/status?200"))
        response = client.response()
        assert (response.status, response.header("etag")) == (code, '"1"')
        assert response.header("transfer-encoding") is None
        if code == 204:
            assert response.header("content-length") is None
        assert client.response().body == b"body"


@app.part
async def wrong_length(scope, receive, send):
    claimed, length = map(int, scope["query_string"].split(b","))
    headers = [(b"content-length", b"%d" % claimed)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    note("length", await outcome(more(send, b"x" * length, False)))


@pytest.mark.fails_on("granian", "hypercorn", "gunicorn")
@pytest.mark.parametrize("short", [0, 5])
def test_less_than_the_content_length_truncates_the_response(server, short):
    with server.connect() as client:
        client.send(request("GET", f"/wrong_length?10,{short}"))
        response = client.response()
        assert response.status >= 500 or not response.complete, "it must not look complete"
        # An error response is complete, and its connection may be reused.
        assert response.status >= 500 or client.ended()


@pytest.mark.fails_on("granian", "hypercorn", "gunicorn")
def test_more_than_the_content_length_does_not_become_the_next_response(server):
    with server.connect() as client:
        client.send(request("GET", "/wrong_length?5,10"))
        response = client.response()
        assert response.status >= 500 or response.body in (b"xxxxx", b"")
        left = client.rest() if response.status == 200 else b""
        assert b"x" not in left


@app.part
async def late(scope, receive, send):
    await reply(send, b"whole")
    note("late-body", await outcome(more(send, b"late", False)))
    note("late-start", await outcome(start(send)))


@pytest.mark.fails_on("uvicorn", "granian", "gunicorn")
def test_messages_after_the_end_are_ignored(server):
    """"any further messages on the channel will be ignored"."""
    with server.connect() as client:
        for _ in range(2):
            client.send(request("GET", "/late"))
            assert client.response().body == b"whole"
            assert server.note("late-body") is None
            assert server.note("late-start") is None


@app.part
async def slow_start(scope, receive, send):
    await start(send)
    note("started")
    assert (await receive())["type"] == "http.request"
    raise ValueError("before the body")


@pytest.mark.fails_on("uvicorn", "granian", "hypercorn", "gunicorn")
def test_a_start_alone_is_not_sent(server):
    """An error replaces it."""
    with server.connect() as client:
        client.send(request("POST", "/slow_start", {"transfer-encoding": "chunked"}))
        server.note("started")
        client.send(b"0\r\n\r\n")
        assert client.response().status == 500


@app.part
async def many_sends(scope, receive, send):
    """send() from several concurrent tasks: no message is split."""
    await start(send)
    await asyncio.gather(*(more(send, b"%03d," % number * 100) for number in range(100)))
    await more(send, b"", False)


def test_sends_of_several_tasks_stay_whole(server):
    body = server.get("/many_sends").body
    pieces = [body[at:at + 400] for at in range(0, len(body), 400)]
    assert sorted(pieces) == [b"%03d," % number * 100 for number in range(100)]


@app.part
async def large(scope, receive, send):
    await reply(send, b"0123456789abcdef" * (1 << 20))


def test_a_body_of_sixteen_megabytes_in_one_message(server):
    response = server.get("/large")
    assert response.body == b"0123456789abcdef" * (1 << 20)


@app.part
async def with_extra_keys(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [], "unknown": object()})
    await send({"type": "http.response.body", "body": b"ok", "unknown": [1]})


def test_unknown_keys_are_ignored(server):
    assert server.get("/with_extra_keys").body == b"ok"


@app.part
async def date(scope, receive, send):
    await reply(send, b"", headers=[(b"date", b"Thu, 01 Jan 1970 00:00:00 GMT")])


@pytest.mark.fails_on("granian", "uvicorn", "gunicorn", "hypercorn")
def test_a_date_of_the_application_is_the_only_one(server):
    # RFC 9110 section 6.6.1.
    assert server.get("/date").all("date") == ["Thu, 01 Jan 1970 00:00:00 GMT"]
    assert len(server.get("/status?200").all("date")) == 1


@app.part
async def identity(scope, receive, send):
    """Returns the result of send()."""
    given = await send({"type": "http.response.start", "status": 200, "headers": []})
    given = [given, await send({"type": "http.response.body", "more_body": True})]
    await more(send, json.dumps(given).encode(), False)


def test_send_returns_none(server):
    assert server.get("/identity").body == b"[null, null]"
