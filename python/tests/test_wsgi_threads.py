"""WSGI on threads: how many there are, and what they wait for."""

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
def thread_name(environ, start_response):
    return reply(start_response, threading.current_thread().name.encode())


@app.part
def echo(environ, start_response):
    return reply(start_response, environ["wsgi.input"].read())


@app.part
def waits_for_file(environ, start_response):
    """Waits for the file; returns whether it appeared."""
    note("waits")
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if os.path.exists(environ["QUERY_STRING"]):
            return reply(start_response, b"it came")
        time.sleep(0.001)
    return reply(start_response, b"it did not come")


@app.part
def meets(environ, start_response):
    """Blocks until the number of requests in the query have arrived."""
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


def test_one_thread_runs_all_requests_with_threads_1(alone):
    clients = [alone.connect() for _ in range(8)]
    for client in clients:
        client.send(request("GET", "/thread_name") * 5)
    names = {client.response().body for client in clients for _ in range(5)}
    assert names == {b"MainThread"}
    for client in clients:
        client.close()


def test_blocking_requests_get_more_threads(start_server):
    """All requests must run at the same time, otherwise none completes."""
    server = start_server("test_wsgi_threads:app", "wsgi", threads=6)
    clients = [server.connect() for _ in range(6)]
    for client in clients:
        client.send(request("GET", "/meets?6"))
    names = [client.response().body for client in clients]
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
        assert slow.response().body == body


@app.part
def quick_told(environ, start_response):
    note("quick")
    return reply(start_response, b"quick")


def test_a_response_does_not_wait_for_a_slow_call(alone, tmp_path):
    """Either of two requests that arrive together may run first; the test needs the quick one
    first."""
    for number in range(50):
        gate = tmp_path / f"gate{number}"
        with alone.connect() as first, alone.connect() as second:
            first.send(request("GET", "/quick_told"))
            second.send(request("GET", f"/waits_for_file?{gate}"))
            alone.note("waits")
            was_first = bool(alone.notes("quick"))
            if was_first:
                assert first.response().body == b"quick"
            gate.touch()
            if not was_first:
                assert first.response().body == b"quick"
                alone.note("quick")
            assert second.response().body == b"it came"
        if was_first:
            return
    raise AssertionError("the quick one was never the first")


def test_a_request_for_websocket_is_a_request(server):
    headers = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13",
               "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="}
    response = server.get("/quick", headers)
    assert (response.status, response.body) == (200, b"quick")


def test_start_response_of_a_request_that_has_ended_does_nothing(alone):
    assert alone.get("/keeps").body == b"kept"
    response = alone.get("/calls_kept")
    assert response.body == b"AssertionError"
    assert response.header("x-late") is None
    assert alone.get("/quick").body == b"quick"


def test_running_requests_finish_when_the_server_stops(start_server, tmp_path):
    server = start_server("test_wsgi_threads:app", "wsgi", threads=2)
    gate = tmp_path / "gate"
    with server.connect() as client:
        client.send(request("GET", f"/waits_for_file?{gate}"))
        server.note("waits")
        server.signal(signal.SIGTERM)
        gate.touch()
        assert client.response().body == b"it came"
    assert server.wait() == 0
