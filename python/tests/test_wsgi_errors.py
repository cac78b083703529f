"""PEP 3333, "Error Handling" and close(): errors of an application, and where they are reported."""

import sys

import pytest

from client import Client, request
from stage import WsgiStage, note

app = WsgiStage()
INTERFACE = "wsgi"
PLAIN = [("content-type", "text/plain")]


@app.part
def fine(environ, start_response):
    start_response("200 OK", [*PLAIN, ("content-length", "4")])
    return [b"fine"]


@app.part
def raises(environ, start_response):
    raise ValueError("a reason only the log may tell")


def test_raising_is_a_500_with_a_traceback_in_the_log(server):
    response = server.get("/raises")
    assert response.status == 500
    assert b"a reason" not in response.body
    server.line("ValueError: a reason only the log may tell")
    server.line("Traceback")


@app.part
def raises_after_start(environ, start_response):
    start_response("200 OK", list(PLAIN))
    raise ValueError("after start_response")


def test_raising_after_start_response_is_a_500(server):
    assert server.get("/raises_after_start").status == 500
    server.line("ValueError: after start_response")


@app.part
def raises_in_first_step(environ, start_response):
    start_response("200 OK", list(PLAIN))
    raise ValueError("in the first step")
    yield b""


@pytest.mark.fails_on("granian")
def test_raising_before_the_first_block_is_a_500(server):
    assert server.get("/raises_in_first_step").status == 500


@app.part
def raises_in_body(environ, start_response):
    length = [("content-length", "100")] if environ["QUERY_STRING"] == "length" else []
    start_response("200 OK", PLAIN + length)
    yield b"half"
    raise ValueError("in the middle")


@pytest.mark.fails_on("granian")
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_raising_in_the_body_truncates_the_response(server, framing):
    with server.connect() as client:
        client.send(request("GET", f"/raises_in_body?{framing}"))
        response = client.response()
        assert (response.status, response.complete) == (200, False)
        assert b"half".startswith(response.body)
    server.line("ValueError: in the middle")


@app.part
def never_starts(environ, start_response):
    return [b"body without a head"]


@pytest.mark.fails_on("granian")
def test_a_body_without_start_response_is_a_500(server):
    assert server.get("/never_starts").status == 500


@app.part
def starts_twice(environ, start_response):
    start_response("200 OK", list(PLAIN))
    try:
        start_response("201 Created", list(PLAIN))
    except Exception as error:
        note("twice", type(error).__name__)
        raise
    note("twice")
    return [b""]


@pytest.mark.fails_on("granian")
def test_starting_twice_without_exc_info_is_a_fatal_error(server):
    assert server.get("/starts_twice").status == 500
    assert server.note("twice") is not None


@app.part
def exc_info_before(environ, start_response):
    start_response("200 OK", [("x-first", "1")])
    try:
        raise ValueError("trapped")
    except ValueError:
        start_response("503 Second thoughts", [("x-second", "1")], sys.exc_info())
    return [b"sorry"]


@pytest.mark.fails_on("granian", "gunicorn")
def test_exc_info_replaces_what_was_not_sent(server):
    response = server.get("/exc_info_before")
    assert (response.status, response.reason, response.body) == (503, "Second thoughts", b"sorry")
    assert (response.header("x-first"), response.header("x-second")) == (None, "1")


@app.part
def exc_info_after(environ, start_response):
    start_response("200 OK", list(PLAIN))
    yield b"already sent"
    try:
        raise KeyError("the original")
    except KeyError:
        try:
            start_response("500 Too late", list(PLAIN), sys.exc_info())
        except KeyError as error:
            note("reraised", str(error))
            raise
    yield b"never"


@pytest.mark.fails_on("granian")
def test_exc_info_after_the_headers_raises_the_original(server):
    response = server.get("/exc_info_after")
    assert (response.status, response.complete) == (200, False)
    assert server.note("reraised") == "'the original'"


WRONG = {
    "status without a number": ("OK", PLAIN),
    "status without a reason": ("", PLAIN),
    "status with a line": ("200 OK\r\nx: y", PLAIN),
    "status too long": ("2000 OK", PLAIN),
    "status of bytes": (b"200 OK", PLAIN),
    "headers are not a list": ("200 OK", {"a": "b"}),
    "a header of one": ("200 OK", [("a",)]),
    "value is a number": ("200 OK", [("a", 1)]),
    "value is bytes": ("200 OK", [("a", b"b")]),
    "value beyond latin1": ("200 OK", [("a", "\u20ac")]),
    "name with colon": ("200 OK", [("set-cookie: evil=1; a", "b")]),
    "name with space": ("200 OK", [("a b", "c")]),
    "name empty": ("200 OK", [("", "c")]),
    "value with cr lf": ("200 OK", [("a", "b\r\nset-cookie: evil=1")]),
    "value with lf": ("200 OK", [("a", "b\nset-cookie: evil=1")]),
    "value with nul": ("200 OK", [("a", "b\0c")]),
}
HOP_BY_HOP = ("connection", "Keep-Alive", "proxy-authenticate", "proxy-authorization", "te",
              "trailers", "Transfer-Encoding", "upgrade")
WRONG.update({f"hop {name}": ("200 OK", [(name, "close")]) for name in HOP_BY_HOP})


@app.part
def starts_wrong(environ, start_response):
    case = environ["QUERY_STRING"].replace("+", " ")
    try:
        start_response(*WRONG[case])
    except Exception as error:
        note("wrong", type(error).__name__)
        raise
    note("wrong")
    return [b"body"]


@pytest.mark.fails_on("granian", "gunicorn", "hypercorn", "uvicorn")
@pytest.mark.parametrize("case", WRONG)
def test_errors_are_found_when_start_response_is_called(server, case):
    """"so that an error can be raised while the application is still running"."""
    response = server.get(f"/starts_wrong?{case.replace(' ', '+')}")
    assert response.status == 500
    assert response.header("set-cookie") is None
    assert server.note("wrong") is not None


@app.part
def yields_wrong(environ, start_response):
    start_response("200 OK", list(PLAIN))
    return {"text": ["text"], "none": [None], "number": [1], "no-iterable": 5,
            "nothing": None}[environ["QUERY_STRING"]]


@pytest.mark.fails_on("granian", "gunicorn")
@pytest.mark.parametrize("case", ["text", "none", "number", "no-iterable", "nothing"])
def test_a_body_of_something_else_is_a_500(server, case):
    assert server.get(f"/yields_wrong?{case}").status == 500
    assert server.get("/fine").body == b"fine"


class Closing:
    """An iterable that reports its use and its close()."""

    def __init__(self, steps, key):
        self.steps = iter(steps)
        self.key = key

    def __iter__(self):
        return self

    def __next__(self):
        step = next(self.steps)
        if isinstance(step, Exception):
            raise step
        return step

    def close(self):
        note(self.key, "closed")


@app.part
def closes(environ, start_response):
    case = environ["QUERY_STRING"]
    length = {"longer": [("content-length", "3")], "shorter": [("content-length", "30")]}
    if case != "unstarted":
        start_response("204 No Content" if case == "204" else "200 OK",
                       PLAIN + length.get(case, []))
    steps = {"raises": [b"a", ValueError("while iterating")], "raises-first": [ValueError("x")],
             "wrong": [b"a", "text"], "empty": []}
    return Closing(steps.get(case, [b"abc", b"def"]), case)


@pytest.mark.fails_on("granian")
@pytest.mark.parametrize("case", ["normal", "empty", "raises", "raises-first", "longer", "shorter",
                                  "unstarted", "204", pytest.param(
                                      "wrong", marks=pytest.mark.fails_on("gunicorn"))])
def test_close_is_always_called_once(server, case):
    server.get(f"/closes?{case}")
    assert server.note(case) == "closed"
    server.get("/fine")
    assert server.notes(case) == []


@pytest.mark.fails_on("granian")
def test_close_is_called_for_head_too(server):
    server.ask("HEAD", "/closes?head")
    assert server.note("head") == "closed"


@app.part
def endless(environ, start_response):
    start_response("200 OK", list(PLAIN))

    def pieces():
        while True:
            yield b"x" * 65_536
    return Closing(pieces(), "endless")


@pytest.mark.fails_on("granian")
@pytest.mark.parametrize("farewell", ["close", "vanish"])
def test_close_is_called_when_the_client_disconnects(server, farewell):
    """"an early disconnect of the browser": also while a full buffer makes the thread wait."""
    client = Client(server.port, receive_buffer=65_536)
    client.send(request("GET", "/endless"))
    client.head()
    getattr(client, farewell)()
    assert server.note("endless") == "closed"


@app.part
def raises_in_close(environ, start_response):
    start_response("200 OK", [*PLAIN, ("content-length", "5")])

    class Body(list):
        def close(self):
            raise ValueError("while closing")
    return Body([b"whole"])


@pytest.mark.fails_on("granian")
def test_raising_in_close_does_not_harm_the_response(server):
    with server.connect() as client:
        client.send(request("GET", "/raises_in_close"))
        assert client.response().body == b"whole"
    server.line("ValueError: while closing")
    assert server.get("/fine").body == b"fine"


@app.part
def exits(environ, start_response):
    raise {"system": SystemExit, "keyboard": KeyboardInterrupt}[environ["QUERY_STRING"]]("stop")


@pytest.mark.fails_on("granian", "gunicorn", "hypercorn", "uvicorn")
@pytest.mark.parametrize("kind", ["system", "keyboard"])
def test_a_request_cannot_end_the_server(server, kind):
    assert server.get(f"/exits?{kind}").status == 500
    assert server.get("/fine").body == b"fine"


@pytest.mark.fails_on("granian")
def test_an_error_does_not_affect_other_requests(server):
    with server.connect() as other:
        for _ in range(20):
            assert server.get("/raises").status == 500
            other.send(request("GET", "/fine"))
            assert other.response().body == b"fine"
