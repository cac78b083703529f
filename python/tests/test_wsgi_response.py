"""PEP 3333, "The start_response() Callable", "Buffering and Streaming", "Content-Length"."""

import json
import threading

import pytest

from client import request
from stage import WsgiStage, note

app = WsgiStage()
INTERFACE = "wsgi"
PLAIN = [("content-type", "text/plain")]
GO = threading.Event()


@app.part
def hello(environ, start_response):
    start_response("200 OK", [*PLAIN, ("content-length", "5")])
    return [b"hello"]


@pytest.mark.fails_on("granian")
@pytest.mark.parametrize("status", ["200 OK", "404 Not Found", "418 I am a teapot", "299 Odd: 1",
                                    "503 Gone fishing", "200 caf\xe9"])
def test_status_and_reason_are_sent_unchanged(server, status):
    response = server.get("/status", {"x-status": status})
    assert f"{response.status} {response.reason}" == status


@app.part
def status(environ, start_response):
    start_response(environ["HTTP_X_STATUS"], list(PLAIN))
    return [b"body"]


@app.part
def fields(environ, start_response):
    start_response("200 OK", [("B", "1"), ("a", "2"), ("set-cookie", "x=1, 2"), ("b", "3"),
                              ("set-cookie", "y=2"), ("latin", "caf\xe9"), ("empty", "")])
    return [b""]


@pytest.mark.fails_on("granian")
def test_headers_keep_their_order_and_repeats(server):
    response = server.get("/fields")
    found = [(n.lower(), v) for n, v in response.fields if n.lower() in ("a", "b")]
    assert found == [("b", "1"), ("a", "2"), ("b", "3")]
    assert response.all("set-cookie") == ["x=1, 2", "y=2"]
    assert (response.header("latin"), response.header("empty")) == ("caf\xe9", "")


def body_of(kind):
    """The same body in every kind of iterable."""
    parts = [b"one,", b"", b"two,", b"three"]

    class Items:
        def __getitem__(self, at):
            return parts[at]

    class Iterator:
        def __init__(self):
            self.left = list(parts)

        def __iter__(self):
            return self

        def __next__(self):
            if not self.left:
                raise StopIteration
            return self.left.pop(0)
    return {"list": parts, "tuple": tuple(parts), "generator": (p for p in parts),
            "map": map(bytes, parts), "items": Items(), "iterator": Iterator()}[kind]


@app.part
def iterable(environ, start_response):
    start_response("200 OK", list(PLAIN))
    return body_of(environ["QUERY_STRING"])


@pytest.mark.parametrize("kind", ["list", "tuple", "generator", "map", "items", "iterator"])
def test_any_iterable_of_bytestrings_is_a_body(server, kind):
    with server.connect() as client:
        for _ in range(2):
            client.send(request("GET", f"/iterable?{kind}"))
            response = client.response()
            assert (response.body, response.complete) == (b"one,two,three", True)


@app.part
def class_application(environ, start_response):
    return AsClass(environ, start_response)


class AsClass:
    def __init__(self, environ, start_response):
        self.start = start_response

    def __iter__(self):
        self.start("200 OK", list(PLAIN))
        yield b"from a class"


@pytest.mark.fails_on("granian")
def test_an_application_may_be_a_class(server):
    assert server.get("/class_application").body == b"from a class"


@app.part
def lazy(environ, start_response):
    note("lazy")
    start_response("201 Created", [*PLAIN, ("x-lazy", "yes")])
    yield b"started in "
    yield b"the first step"


@pytest.mark.fails_on("granian")
def test_start_response_may_be_called_in_the_first_step(server):
    response = server.get("/lazy")
    assert (response.status, response.header("x-lazy")) == (201, "yes")
    assert response.body == b"started in the first step"


@app.part
def lazy_after_nothing(environ, start_response):
    yield b""
    yield b""
    start_response("202 Accepted", list(PLAIN))
    yield b"late"


@pytest.mark.fails_on("granian", "gunicorn")
def test_empty_bytestrings_before_start_response_are_nothing(server):
    """"before the iterable yields its first body bytestring": an empty one does not count."""
    response = server.get("/lazy_after_nothing")
    assert (response.status, response.body) == (202, b"late")


@app.part
def empty(environ, start_response):
    start_response("200 OK", list(PLAIN))
    return {"list": [], "empties": [b"", b""], "generator": (x for x in ())}[
        environ["QUERY_STRING"]]


@pytest.mark.parametrize("kind", ["list", "empties", "generator"])
def test_an_empty_body_is_a_response(server, kind):
    with server.connect() as client:
        for _ in range(2):
            client.send(request("GET", f"/empty?{kind}"))
            response = client.response()
            assert (response.status, response.body, response.complete) == (200, b"", True)


@app.part
def one_part(environ, start_response):
    start_response("200 OK", list(PLAIN))
    return [b"its length is known"]


@pytest.mark.fails_on("gunicorn")
def test_a_sequence_of_one_has_its_length_counted(server):
    """"the server can automatically determine Content-Length"."""
    assert server.get("/one_part").header("content-length") == "19"


@app.part
def writes(environ, start_response):
    write = start_response("200 OK", list(PLAIN))
    given = [write(b"written,"), write(b""), write(b"again,")]
    return [b"then returned", b"" if given == [None] * 3 else b"!"]


@pytest.mark.fails_on("granian")
def test_written_data_precedes_the_returned_body(server):
    response = server.get("/writes")
    assert (response.body, response.complete) == (b"written,again,then returned", True)


@app.part
def writes_only(environ, start_response):
    write = start_response("200 OK", [*PLAIN, ("content-length", "6")])
    write(b"abc")
    write(b"def")
    return []


@pytest.mark.fails_on("granian")
def test_write_alone_is_enough(server):
    response = server.get("/writes_only")
    assert (response.body, response.header("content-length")) == (b"abcdef", "6")


@app.part
def streams(environ, start_response):
    GO.clear()
    start_response("200 OK", list(PLAIN))
    yield b"first"
    GO.wait(30)
    yield b"second"


@app.part
def streams_by_write(environ, start_response):
    GO.clear()
    write = start_response("200 OK", list(PLAIN))
    write(b"first")
    GO.wait(30)
    return [b"second"]


@app.part
def go(environ, start_response):
    GO.set()
    return hello(environ, start_response)


@pytest.mark.parametrize("way", ["streams", pytest.param(
    "streams_by_write", marks=pytest.mark.fails_on("granian"))])
def test_a_block_is_not_delayed_until_there_is_another(server, way):
    """"must not delay the transmission of any block"; other threads respond while it is sent."""
    with server.connect() as client:
        client.send(request("GET", f"/{way}"))
        client.head()
        assert client.chunk() == b"first"
        assert server.get("/go").status == 200
        assert client.chunk() == b"second"
        assert client.chunk() == b""


@app.part
def headers_wait(environ, start_response):
    GO.clear()
    start_response("200 OK", list(PLAIN))
    note("started")
    GO.wait(30)
    start_response("500 Changed its mind", list(PLAIN), error())
    return [b"an error page"]


def error():
    import sys
    try:
        raise ValueError("for exc_info")
    except ValueError:
        return sys.exc_info()


@pytest.mark.fails_on("granian")
def test_headers_are_not_sent_before_there_is_a_body(server):
    """Until then the application may replace them, with exc_info."""
    with server.connect() as client:
        client.send(request("GET", "/headers_wait"))
        server.note("started")
        server.get("/go")
        response = client.response()
        assert (response.status, response.reason) == (500, "Changed its mind")
        assert response.body == b"an error page"


@app.part
def longer(environ, start_response):
    """More than its Content-Length, in several ways."""
    write = start_response("200 OK", [*PLAIN, ("content-length", "5")])
    if environ["QUERY_STRING"] == "write":
        try:
            write(b"hello, and more")
        except Exception as problem:
            note("raised", type(problem).__name__)
            raise
        return []
    if environ["QUERY_STRING"] == "one":
        return [b"hello, and more"]
    return iter([b"hel", b"lo, ", b"and", b" more"])


@pytest.mark.fails_on("granian")
@pytest.mark.parametrize("way", ["one", "many", "write"])
def test_no_more_than_the_content_length_is_sent(server, way):
    with server.connect() as client:
        client.send(request("GET", f"/longer?{way}"))
        response = client.response()
        assert response.status == 500 or response.body in (b"hello", b"")
        if response.status == 200 and response.complete:
            left = client.rest() if response.header("connection") == "close" else b""
            assert b"more" not in left


@app.part
def shorter(environ, start_response):
    start_response("200 OK", [*PLAIN, ("content-length", "10")])
    return [b"half"] if environ["QUERY_STRING"] == "one" else iter([b"ha", b"lf"])


@pytest.mark.fails_on("granian")
@pytest.mark.parametrize("way", ["one", "many"])
def test_less_than_the_content_length_closes_the_connection(server, way):
    with server.connect() as client:
        client.send(request("GET", f"/shorter?{way}"))
        response = client.response()
        assert response.status >= 500 or not response.complete
        assert client.ended()


def test_head_has_no_body(server):
    with server.connect() as client:
        client.send(request("HEAD", "/hello") + request("GET", "/hello"))
        head = client.response("HEAD")
        assert (head.status, head.header("content-length")) == (200, "5")
        assert client.response().body == b"hello"


@app.part
def bare(environ, start_response):
    start_response({"204": "204 No Content", "304": "304 Not Modified"}[environ["QUERY_STRING"]],
                   [("etag", '"1"')])
    return [b""]


@pytest.mark.fails_on("granian")
@pytest.mark.parametrize("code", [204, 304])
def test_204_and_304_have_no_body(server, code):
    with server.connect() as client:
        client.send(request("GET", f"/bare?{code}") + request("GET", "/hello"))
        response = client.response()
        assert (response.status, response.header("etag")) == (code, '"1"')
        assert response.header("transfer-encoding") is None
        if code == 204:
            assert response.header("content-length") is None
        assert client.response().body == b"hello"


def test_http10_without_a_length_ends_with_the_connection(server):
    with server.connect() as client:
        client.send(request("GET", "/iterable?generator", version="1.0"))
        response = client.response()
        assert response.header("transfer-encoding") is None
        assert response.body == b"one,two,three"
        assert client.ended()


def test_the_server_adds_the_date(server):
    # "the server or gateway must add it".
    assert len(server.get("/hello").all("date")) == 1


@app.part
def checks_len(environ, start_response):
    """Allows len(), iteration and close(), but no other attribute."""
    class Body(list):
        def __getattribute__(self, name):
            if name not in ("close", "__class__", "__len__", "__iter__", "__getitem__"):
                note("touched", name)
            return list.__getattribute__(self, name)
    start_response("200 OK", list(PLAIN))
    return Body([b"untouched"])


def test_no_other_attribute_of_the_iterable_is_used(server):
    assert server.get("/checks_len").body == b"untouched"
    assert server.notes("touched") == []


@app.part
def large(environ, start_response):
    start_response("200 OK", list(PLAIN))
    return (b"0123456789abcdef" * 4096 for _ in range(256))


def test_sixteen_megabytes_in_pieces(server):
    response = server.get("/large")
    assert response.body == b"0123456789abcdef" * 4096 * 256


def test_pipelined_responses_keep_their_order(server):
    with server.connect() as client:
        client.send(b"".join(request("GET", "/status", {"x-status": f"{200 + n} N"})
                             for n in range(1, 4)) + request("GET", "/hello"))
        assert [client.response().status for _ in range(4)] == [201, 202, 203, 200]


@app.part
def returns_of_start(environ, start_response):
    write = start_response("200 OK", list(PLAIN))
    return [json.dumps(callable(write)).encode()]


@pytest.mark.fails_on("granian")
def test_start_response_returns_write(server):
    assert server.get("/returns_of_start").body == b"true"
