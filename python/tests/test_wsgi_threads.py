"""WSGI on threads: how many there are, what they wait for, and what they never wait for."""

import os
import signal
import threading
import time

import pytest

from client import request
from hosting import KIND
from stage import WsgiStage, note

app = WsgiStage()
INTERFACE = "wsgi"
PLAIN = [("content-type", "text/plain")]
KEPT = []

pytestmark = pytest.mark.skipif(KIND != "tidegate", reason="its own threads")


@pytest.fixture
def alone(start_server):
    """A server with one thread."""
    return start_server("test_wsgi_threads:app", "wsgi", threads=1)


def reply(start_response, body):
    start_response("200 OK", [*PLAIN, ("content-length", str(len(body)))])
    return [body]


@app.part
def quick(environ, start_response):
    return reply(start_response, b"quick")


@app.part
def who(environ, start_response):
    return reply(start_response, threading.current_thread().name.encode())


@app.part
def echo(environ, start_response):
    return reply(start_response, environ["wsgi.input"].read())


@app.part
def waits_for_file(environ, start_response):
    """Whether the file appeared while it was waited for."""
    note("waits")
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if os.path.exists(environ["QUERY_STRING"]):
            return reply(start_response, b"it came")
        time.sleep(0.001)
    return reply(start_response, b"it did not come")


@app.part
def meets(environ, start_response):
    """As many as the query says have to be here at the same time."""
    count = int(environ["QUERY_STRING"])
    with LOCK:
        barrier = BARRIERS.setdefault(count, threading.Barrier(count))
    barrier.wait(30)
    return reply(start_response, threading.current_thread().name.encode())


LOCK = threading.Lock()
BARRIERS = {}


@app.part
def keeps(environ, start_response):
    KEPT.append(start_response)
    return reply(start_response, b"kept")


@app.part
def calls_kept(environ, start_response):
    try:
        KEPT[-1]("200 OK", [("x-late", "1")])
    except Exception as error:
        return reply(start_response, type(error).__name__.encode())
    return reply(start_response, b"nothing was raised")


def test_one_thread_answers_everything_where_one_is_asked_for(alone):
    clients = [alone.connect() for _ in range(8)]
    for client in clients:
        client.send(request("GET", "/who") * 5)
    names = {client.answer().body for client in clients for _ in range(5)}
    assert names == {b"MainThread"}
    for client in clients:
        client.close()


def test_what_blocks_gets_more_threads(start_server):
    """All of them have to run at the same time, or none is answered."""
    server = start_server("test_wsgi_threads:app", "wsgi", threads=6)
    clients = [server.connect() for _ in range(6)]
    for client in clients:
        client.send(request("GET", "/meets?6"))
    names = [client.answer().body for client in clients]
    assert len(set(names)) == 6
    for client in clients:
        client.close()


@pytest.mark.parametrize("length", [100, 100_000, 3_000_000])
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_slow_upload_holds_no_thread(alone, length, framing):
    body = bytes(i * 7 % 251 for i in range(length))
    chunked = framing == "chunked"
    field = {"transfer-encoding": "chunked"} if chunked else {"content-length": str(length)}
    with alone.connect() as slow:
        slow.send(request("POST", "/echo", field))
        head = b"%x\r\n" % length if chunked else b""
        slow.send(head + body[:length // 2])
        for _ in range(3):
            assert alone.get("/quick").body == b"quick"
        slow.send(body[length // 2:] + (b"\r\n0\r\n\r\n" if chunked else b""))
        assert slow.answer().body == body


@app.part
def quick_told(environ, start_response):
    note("quick")
    return reply(start_response, b"quick")


def test_an_answer_does_not_wait_behind_a_slow_call(alone, tmp_path):
    """Of two that arrive together either may be the first; it is looked at when that is the quick
    one."""
    for number in range(50):
        gate = tmp_path / f"gate{number}"
        with alone.connect() as first, alone.connect() as second:
            first.send(request("GET", "/quick_told"))
            second.send(request("GET", f"/waits_for_file?{gate}"))
            alone.note("waits")
            was_first = bool(alone.notes("quick"))
            if was_first:
                assert first.answer().body == b"quick"
            gate.touch()
            if not was_first:
                assert first.answer().body == b"quick"
                alone.note("quick")
            assert second.answer().body == b"it came"
        if was_first:
            return
    raise AssertionError("the quick one was never the first")


def test_a_request_for_websocket_is_a_request(server):
    headers = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13",
               "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="}
    answer = server.get("/quick", headers)
    assert (answer.status, answer.body) == (200, b"quick")


def test_start_response_of_a_request_that_has_ended_does_nothing(alone):
    assert alone.get("/keeps").body == b"kept"
    answer = alone.get("/calls_kept")
    assert answer.body == b"AssertionError"
    assert answer.header("x-late") is None
    assert alone.get("/quick").body == b"quick"


def test_what_runs_is_finished_when_the_server_is_told_to_end(start_server, tmp_path):
    server = start_server("test_wsgi_threads:app", "wsgi", threads=2)
    gate = tmp_path / "gate"
    with server.connect() as client:
        client.send(request("GET", f"/waits_for_file?{gate}"))
        server.note("waits")
        server.signal(signal.SIGTERM)
        gate.touch()
        assert client.answer().body == b"it came"
    assert server.wait() == 0
