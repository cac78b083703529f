"""WSGI applications for greenlets, for test_gevent: `app`, and `shop` with Flask."""

import json
import os
import socket
import threading
import time

from stage import WsgiStage, note
from tidegate import broadcast, cache, tasks

app = WsgiStage()


def text(start_response, *pieces, status="200 OK"):
    start_response(status, [("content-type", "text/plain")])
    return list(pieces)


@app.part
def hello(environ, start_response):
    return text(start_response, b"hello ", environ["QUERY_STRING"].encode())


@app.part
def echo(environ, start_response):
    body = environ["wsgi.input"].read()
    start_response("200 OK", [("content-length", str(len(body)))])
    return [body]


@app.part
def facts(environ, start_response):
    import gevent

    return text(start_response, json.dumps([
        type(gevent.getcurrent()).__name__, socket.socket.__module__,
        environ["wsgi.multithread"], environ["wsgi.file_wrapper"].__name__,
        cache.incr("greenlets"), os.getpid()]).encode())


app.asleep = app.most_asleep = 0


@app.part
def sleeps(environ, start_response):
    app.asleep += 1
    app.most_asleep = max(app.asleep, app.most_asleep)
    time.sleep(float(environ["QUERY_STRING"]))
    app.asleep -= 1
    return text(start_response, b"slept")


@app.part
def most_asleep(environ, start_response):
    """How many requests have slept at the same time."""
    return text(start_response, str(app.most_asleep).encode())


_waiting = threading.Event()


@app.part
def waits(environ, start_response):
    note("waits")
    _waiting.wait()
    return text(start_response, b"released")


@app.part
def releases(environ, start_response):
    _waiting.set()
    return text(start_response, b"ok")


@app.part
def polls(environ, start_response):
    with broadcast.listen("news") as messages:
        note("polls")
        return text(start_response, messages.get(timeout=300).encode())


@app.part
def times_out(environ, start_response):
    with broadcast.listen("silence") as messages:
        return text(start_response, repr(messages.get(timeout=0.05)).encode())


@app.part
def publishes(environ, start_response):
    broadcast.publish("news", "the news")
    return text(start_response, b"ok")


@app.part
def events(environ, start_response):
    start_response("200 OK", [("content-type", "text/event-stream")])
    with broadcast.listen("events") as messages:
        note("subscribed")
        yield b"data: hello\n\n"
        for message in messages:
            yield b"data: " + message.encode() + b"\n\n"


@app.part
def sends_event(environ, start_response):
    broadcast.publish("events", environ["QUERY_STRING"])
    return text(start_response, b"ok")


@app.part
def locks(environ, start_response):
    """Waits for a lock in the database."""
    import psycopg

    with psycopg.connect(os.environ["DATABASE"]) as database:
        database.execute("select pg_advisory_xact_lock(1)")
    return text(start_response, b"locked")


@app.part
def endless(environ, start_response):
    start_response("200 OK", [])
    try:
        for number in range(1 << 30):
            if number == 4:
                note("streams")
            yield b"x" * 65536
    finally:
        note("closed", number)


@app.part
def writes(environ, start_response):
    write = start_response("200 OK", [])
    for _ in range(64):
        write(b"y" * 65536)
    return [b"end"]


@app.part
def a_file(environ, start_response):
    start_response("200 OK", [])
    return environ["wsgi.file_wrapper"](open(__file__, "rb"))


@app.part
def raises(environ, start_response):
    raise LookupError("nothing there")


@app.part
def raises_late(environ, start_response):
    start_response("200 OK", [])
    yield b"begun"
    raise LookupError("too late")


@app.part
def forgets_start_response(environ, start_response):
    return [b"x"]


@app.part
def cuts(environ, start_response):
    start_response("200 OK", [("content-length", "3")])
    yield b"abcdef"


@app.part
def spins(environ, start_response):
    while True:
        pass


@tasks.task(keep_result=60)
def ends():
    time.sleep(0.01)
    return "done"


@tasks.task(keep_result=60, timeout=0.3)
def does_not_end():
    time.sleep(3600)


@app.part
def runs_job(environ, start_response):
    queued = {"ends": ends, "does_not_end": does_not_end}[environ["QUERY_STRING"]].enqueue()
    try:
        return text(start_response, queued.result(timeout=30).encode())
    except tasks.JobFailed as error:
        return text(start_response, str(error).encode())


@app.part
def fetches(environ, start_response):
    """Requests another page of this server, with a library that knows nothing of greenlets."""
    import requests

    port = environ["SERVER_PORT"]
    response = requests.get(f"http://127.0.0.1:{port}/hello?again", timeout=30)
    return text(start_response, response.content)


def shop():
    from flask import Flask, Response, request, stream_with_context

    flask = Flask("shop")

    @flask.get("/item/<int:number>")
    def item(number):
        time.sleep(0.01)
        return {"number": number, "query": request.args.get("q")}

    @flask.get("/stream")
    def stream():
        @stream_with_context
        def pieces():
            for number in range(3):
                time.sleep(0.001)
                yield f"{number} {request.path}\n"
        return Response(pieces(), mimetype="text/plain")

    return flask
