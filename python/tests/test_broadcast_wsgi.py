"""tidegate.cache and tidegate.broadcast in threads, over two workers that speak WSGI."""

import os

import pytest

from hosting import KIND
from stage import WsgiStage
from workers import ask, both

if KIND != "tidegate":
    pytest.skip("only ours has a broadcast", allow_module_level=True)

from tidegate import broadcast, cache

app = WsgiStage()
INTERFACE = "wsgi"
OPTIONS = {"workers": 2}


def response(start_response, body):
    start_response("200 OK", [("content-type", "text/plain"), ("content-length", str(len(body)))])
    return [body]


@app.part
def pid(environ, start_response):
    return response(start_response, b"%d" % os.getpid())


@app.part
def count(environ, start_response):
    return response(start_response, b"%d" % cache.incr("count"))


@app.part
def events(environ, start_response):
    messages = broadcast.listen("room")
    start_response("200 OK", [("content-type", "text/event-stream")])

    def written():
        with messages:
            yield b"data: welcome\n\n"
            for message in messages:
                yield b"data: " + message.encode() + b"\n\n"
                if message == "closed":
                    return

    return written()


@app.part
def say(environ, start_response):
    broadcast.publish("room", environ["QUERY_STRING"])
    return response(start_response, b"")


def test_no_count_is_lost(server):
    one, other = both(server)
    counts = [ask(client, "/count") for _ in range(20) for client in (one, other)]
    assert counts == list(range(1, 41))


def test_server_sent_events_come_from_every_worker(server):
    listeners = both(server)
    for listener in listeners:
        listener.send("GET /events HTTP/1.1\r\nhost: test\r\n\r\n")
        assert listener.head().status == 200
        assert listener.chunk() == b"data: welcome\n\n"
    for word in ("hello", "you", "closed"):
        assert server.get(f"/say?{word}").status == 200
    for listener in listeners:
        chunks = [listener.chunk() for _ in range(4)]
        assert chunks == [b"data: hello\n\n", b"data: you\n\n", b"data: closed\n\n", b""]
