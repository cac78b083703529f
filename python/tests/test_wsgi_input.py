"""PEP 3333, "Input and Error Streams": every way to read a request's body."""

import itertools
import json

import pytest

from client import chunk, request
from hosting import KIND
from stage import WsgiStage, note

app = WsgiStage()
INTERFACE = "wsgi"
LINES = b"first line\nsecond\n\nfourth is longer than the others\r\nwithout an end"
ALL_LINES = LINES.splitlines(keepends=True)


def reply(start_response, body):
    start_response("200 OK", [("content-length", str(len(body)))])
    return [body]


@app.part
def calls(environ, start_response):
    """Calls the methods of the query, a list of [method, arguments]; returns their results."""
    stream = environ["wsgi.input"]
    wanted = json.loads(environ["HTTP_X_CALLS"])
    given = []
    for method, *arguments in wanted:
        if method == "iter":
            given.append(list(stream))
        elif method == "next":
            given.append(next(iter(stream), None))
        else:
            given.append(getattr(stream, method)(*arguments))
    lines = [[v.decode("latin-1") for v in value] if isinstance(value, list)
            else value if value is None else value.decode("latin-1") for value in given]
    bytes_only = all(type(v) is bytes for value in given if value is not None
                     for v in (value if isinstance(value, list) else [value]))
    return reply(start_response, json.dumps([lines, bytes_only]).encode())


def given(server, *wanted, body=LINES, framing="length"):
    headers = {"x-calls": json.dumps(wanted)}
    with server.connect() as client:
        if framing == "length":
            client.send(request("POST", "/calls", headers, body))
        else:
            client.send(request("POST", "/calls", {**headers, "transfer-encoding": "chunked"}))
            for at in range(0, len(body), 7):
                client.send(chunk(body[at:at + 7]))
            client.send(chunk(b""))
        response = client.response()
    assert response.status == 200, response
    lines, bytes_only = json.loads(response.body)
    assert bytes_only
    return [[v.encode("latin-1") for v in value] if isinstance(value, list)
            else value if value is None else value.encode("latin-1") for value in lines]


both = pytest.mark.parametrize("framing", ["length", "chunked"])


@both
def test_read_without_a_size_gives_everything(server, framing):
    assert given(server, ["read"], ["read"], framing=framing) == [LINES, b""]


@pytest.mark.fails_on("granian")
@both
@pytest.mark.parametrize("size", [-1, None])
def test_read_with_no_limit_gives_everything(server, size, framing):
    assert given(server, ["read", size], ["read", size], framing=framing) == [LINES, b""]


@both
def test_read_of_sizes(server, framing):
    found = given(server, ["read", 5], ["read", 0], ["read", 1], ["read", 1000], ["read", 1],
                  framing=framing)
    assert found == [LINES[:5], b"", LINES[5:6], LINES[6:], b""]


@pytest.mark.fails_on("granian")
@both
def test_readline_keeps_the_ends_of_lines(server, framing):
    found = given(server, *[["readline"]] * (len(ALL_LINES) + 1), framing=framing)
    assert found == [*ALL_LINES, b""]


@pytest.mark.fails_on("granian")
@both
def test_readline_with_a_size_gives_no_more(server, framing):
    found = given(server, ["readline", 4], ["readline", 100], ["readline", 6], ["readline", 0],
                  ["readline", 1], ["readline", -1], framing=framing)
    assert found == [b"firs", b"t line\n", b"second", b"", b"\n", b"\n"]


@pytest.mark.fails_on("granian")
@both
def test_readlines_gives_all_lines(server, framing):
    assert given(server, ["readlines"], ["readlines"], framing=framing) == [ALL_LINES, []]


@pytest.mark.fails_on("granian")
@both
def test_readlines_with_a_hint_gives_whole_lines(server, framing):
    """The hint may be ignored; otherwise lines stay whole and none is lost."""
    first, rest = given(server, ["readlines", 12], ["readlines"], framing=framing)
    assert first in (ALL_LINES[:2], ALL_LINES)
    assert first + rest == ALL_LINES


@pytest.mark.fails_on("granian")
@both
def test_iteration_gives_lines(server, framing):
    assert given(server, ["iter"], ["iter"], framing=framing) == [ALL_LINES, []]


@pytest.mark.fails_on("granian")
@both
def test_the_methods_can_be_mixed(server, framing):
    """Nothing is lost between a readline and a read."""
    found = given(server, ["readline"], ["read", 3], ["next"], ["readlines", 1], ["read"],
                  ["readline"], ["next"], framing=framing)
    assert b"".join(itertools.chain.from_iterable(
        [v] if isinstance(v, bytes) else v for v in found if v is not None)) == LINES
    assert found[:2] == [b"first line\n", b"sec"]
    assert found[-2:] == [b"", None]


@pytest.mark.fails_on("granian")
def test_an_exhausted_stream_gives_empty_bytestrings(server):
    found = given(server, ["read"], ["read", 1], ["readline"], ["readlines"], ["read"])
    assert found == [LINES, b"", b"", [], b""]


def test_without_a_body_it_is_at_its_end(server):
    with server.connect() as client:
        wanted = json.dumps([["read"], ["readline"], ["read", 10]])
        client.send(request("GET", "/calls", {"x-calls": wanted}))
        assert json.loads(client.response().body) == [["", "", ""], True]


def test_reading_past_the_end_does_not_reach_the_next_request(server):
    with server.connect() as client:
        wanted = json.dumps([["read", 1000]])
        client.send(request("POST", "/calls", {"x-calls": wanted}, b"first")
                    + request("POST", "/calls", {"x-calls": wanted}, b"second"))
        assert json.loads(client.response().body)[0] == ["first"]
        assert json.loads(client.response().body)[0] == ["second"]


@app.part
def echo(environ, start_response):
    return reply(start_response, environ["wsgi.input"].read())


@both
@pytest.mark.parametrize("length", [0, 1, 65_536, 1_000_000, 5_000_000])
def test_bodies_of_all_sizes_come_back(server, length, framing):
    body = bytes(i * 7 % 251 for i in range(length))
    with server.connect() as client:
        if framing == "length":
            client.send(request("POST", "/echo", body=body))
        else:
            client.send(request("POST", "/echo", {"transfer-encoding": "chunked"}))
            for at in range(0, length, 100_000):
                client.send(chunk(body[at:at + 100_000]))
            client.send(chunk(b""))
        assert client.response().body == body


@app.part
def long_lines(environ, start_response):
    sizes = [len(line) for line in environ["wsgi.input"]]
    return reply(start_response, json.dumps(sizes).encode())


@pytest.mark.fails_on("granian")
def test_lines_may_be_as_long_as_the_body(server):
    body = b"a" * 300_000 + b"\n" + b"b" * 200_000 + b"\n" + b"c"
    assert json.loads(server.ask("POST", "/long_lines", body=body).body) == [300_001, 200_001, 1]


@app.part
def ignores(environ, start_response):
    return reply(start_response, b"not read")


@pytest.mark.parametrize("length", [10, 100_000])
def test_a_body_that_is_not_read_is_not_the_next_request(server, length):
    with server.connect() as client:
        body = (b"GET /evil HTTP/1.1\r\nhost: a\r\n\r\n" * (length // 30 + 1))[:length]
        client.send(request("POST", "/ignores", body=body))
        response = client.response()
        assert (response.status, response.body) == (200, b"not read")
        rest = client.rest() if response.header("connection") == "close" else b""
        assert b"HTTP/1.1" not in rest


def test_expect_100_continue(server):
    with server.connect() as client:
        client.send(request("POST", "/echo", {"expect": "100-continue", "content-length": "4"}))
        assert client.head().status == 100
        client.send(b"body")
        assert client.response().body == b"body"


@app.part
def vanishing(environ, start_response):
    note("reading")
    try:
        note("read", len(environ["wsgi.input"].read()))
    except Exception as error:
        note("read", [kind.__name__ for kind in type(error).__mro__])
        raise
    return reply(start_response, b"")


@pytest.mark.parametrize("farewell", ["close", "vanish"])
@both
def test_an_aborted_upload_is_never_a_complete_body(server, framing, farewell):
    """Either the application is not called at all, or reading raises."""
    field = ("content-length", "1000") if framing == "length" else ("transfer-encoding", "chunked")
    client = server.connect()
    client.send(request("POST", "/vanishing", [field]))
    client.send(b"x" * 100 if framing == "length" else chunk(b"x" * 100))
    getattr(client, farewell)()
    assert server.ask("POST", "/echo", body=b"others live").body == b"others live"
    for lines in server.notes("read"):
        assert isinstance(lines, list) and "OSError" in lines or KIND != "tidegate"


@pytest.mark.skipif(KIND != "tidegate", reason="elsewhere the application may be asked first")
@pytest.mark.parametrize("before", [b"", chunk(b"x" * 100)])
def test_a_malformed_chunk_does_not_end_the_body(server, before):
    with server.connect() as client:
        head = request("POST", "/echo", {"transfer-encoding": "chunked"})
        # In one piece, so that the fault is known before a thread takes the request.
        client.send(head + before + b"no length\r\n")
        assert client.response().status == 400
