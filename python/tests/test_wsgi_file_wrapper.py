"""PEP 3333, "Optional Platform-Specific File Handling": wsgi.file_wrapper."""

import io
import os
import tempfile

import pytest

from client import request
from stage import WsgiStage, note

app = WsgiStage()
INTERFACE = "wsgi"
CONTENT = bytes(i * 11 % 251 for i in range(400_000))
pytestmark = pytest.mark.fails_on("granian", "uvicorn", "hypercorn")


class Told:
    """A file object without a descriptor that reports its close()."""

    def __init__(self, content):
        self.content = io.BytesIO(content)

    def read(self, size=-1):
        return self.content.read(size)

    def close(self):
        note("file", "closed")


def real_file():
    file = tempfile.TemporaryFile()
    file.write(CONTENT)
    file.flush()
    file.seek(0)
    return file


def make(kind):
    if kind == "real":
        return real_file()
    if kind == "offset":
        file = real_file()
        file.seek(1000)
        return file
    if kind == "buffered":
        # A buffered reader is behind the position of its descriptor.
        file = real_file()
        file.read(10)
        return file
    if kind == "unclosable":
        return io.BytesIO(CONTENT)
    return Told(CONTENT)


EXPECTED = {"real": CONTENT, "offset": CONTENT[1000:], "buffered": CONTENT[10:],
            "unclosable": CONTENT, "object": CONTENT}


@app.part
def wrapped(environ, start_response):
    kind, _, options = environ["QUERY_STRING"].partition(",")
    headers = [("content-type", "application/octet-stream")]
    if options == "length":
        headers.append(("content-length", str(len(EXPECTED[kind]))))
    if options == "part":
        headers.append(("content-length", "100"))
    start_response("200 OK", headers)
    return environ["wsgi.file_wrapper"](make(kind), 8192)


@pytest.mark.parametrize("kind", [
    "real", "offset", "unclosable", "object",
    pytest.param("buffered", marks=pytest.mark.fails_on("gunicorn"))])
@pytest.mark.parametrize("options", ["", "length"])
def test_a_file_is_sent_from_its_position(server, kind, options):
    with server.connect() as client:
        for _ in range(2):
            client.send(request("GET", f"/wrapped?{kind},{options}"))
            response = client.response()
            assert (response.status, response.complete) == (200, True)
            assert response.body == EXPECTED[kind]


@pytest.mark.parametrize("kind", [
    "real", "offset", "unclosable", "object",
    pytest.param("buffered", marks=pytest.mark.fails_on("gunicorn"))])
def test_no_more_than_the_content_length_is_sent(server, kind):
    with server.connect() as client:
        for _ in range(2):
            client.send(request("GET", f"/wrapped?{kind},part"))
            assert client.response().body == EXPECTED[kind][:100]


def test_head_sends_no_part_of_it(server):
    with server.connect() as client:
        client.send(request("HEAD", "/wrapped?real,length") + request("GET", "/wrapped?real,part"))
        assert client.response("HEAD").header("content-length") == str(len(CONTENT))
        assert client.response().body == CONTENT[:100]


def test_the_file_is_closed_after_the_response(server):
    server.notes("file")
    server.get("/wrapped?object")
    assert server.note("file") == "closed"


@app.part
def iterated(environ, start_response):
    """Middleware may iterate over it as over any other body."""
    start_response("200 OK", [])
    wrapper = environ["wsgi.file_wrapper"](make(environ["QUERY_STRING"]), 1000)
    blocks = list(iter(wrapper))
    largest = max(len(block) for block in blocks)
    if hasattr(wrapper, "close"):
        wrapper.close()
    return [b"%d," % largest, b"".join(blocks)]


@pytest.mark.parametrize("kind", ["real", "object"])
def test_it_can_be_iterated(server, kind):
    largest, _, content = server.get(f"/iterated?{kind}").body.partition(b",")
    assert content == CONTENT
    assert int(largest) <= 1000


@app.part
def positional(environ, start_response):
    """The size of a block is optional."""
    start_response("200 OK", [])
    return environ["wsgi.file_wrapper"](make("real"))


def test_the_size_of_a_block_may_be_missing(server):
    assert server.get("/positional").body == CONTENT


@app.part
def after_write(environ, start_response):
    write = start_response("200 OK", [])
    write(b"written first,")
    return environ["wsgi.file_wrapper"](make("real"))


def test_what_was_written_comes_first(server):
    assert server.get("/after_write").body == b"written first," + CONTENT


@app.part
def pipe(environ, start_response):
    """A descriptor that cannot be sent as a file."""
    reading, writing = os.pipe()
    os.write(writing, b"through a pipe")
    os.close(writing)
    start_response("200 OK", [])
    return environ["wsgi.file_wrapper"](os.fdopen(reading, "rb"))


def test_a_pipe_is_read(server):
    assert server.get("/pipe").body == b"through a pipe"


@app.part
def never_started(environ, start_response):
    return environ["wsgi.file_wrapper"](Told(CONTENT))


def test_an_error_closes_it_too(server):
    server.notes("file")
    assert server.get("/never_started").status == 500
    assert server.note("file") == "closed"
