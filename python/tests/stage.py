"""What the applications of the tests stand on.

A file of tests holds its applications beside its tests: the server under test imports that very
file and serves its `app`, which calls a function by the first segment of the path. What an
application saw is told by its answer or, where that is not possible, by a note in the log.
"""

import asyncio
import json
import os


def note(key, value=None):
    """Tell the test something: `server.note(key)` waits for it. One write is one line."""
    os.write(2, f"@note {key} {json.dumps(value)}\n".encode())


class Stage:
    """An ASGI application out of coroutines, one for a path. It takes part in lifespan."""

    def __init__(self):
        self.parts = {}

    def part(self, function):
        self.parts[function.__name__] = function
        return function

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            return await self.live(receive, send)
        name = scope["path"].split("/")[1]
        await self.parts[name](scope, receive, send)

    async def live(self, receive, send):
        assert (await receive())["type"] == "lifespan.startup"
        await send({"type": "lifespan.startup.complete"})
        assert (await receive())["type"] == "lifespan.shutdown"
        await send({"type": "lifespan.shutdown.complete"})


class WsgiStage:
    """A WSGI application out of functions, one for a path."""

    def __init__(self):
        self.parts = {}

    def part(self, function):
        self.parts[function.__name__] = function
        return function

    def __call__(self, environ, start_response):
        name = environ["PATH_INFO"].split("/")[1]
        return self.parts[name](environ, start_response)


async def start(send, status=200, headers=()):
    fields = [(b"content-type", b"text/plain"), *headers]
    await send({"type": "http.response.start", "status": status, "headers": fields})


async def more(send, body, more_body=True):
    await send({"type": "http.response.body", "body": body, "more_body": more_body})


async def reply(send, body, status=200, headers=()):
    """A whole answer. What is not bytes is told as JSON."""
    if not isinstance(body, bytes):
        body = json.dumps(body, default=lambda value: value.decode("latin-1")).encode()
    length = (b"content-length", str(len(body)).encode())
    await start(send, status, [length, *headers])
    await more(send, body, False)


async def events(receive):
    """The messages of the request up to its end."""
    while True:
        message = await receive()
        yield message
        if message["type"] != "http.request" or not message.get("more_body", False):
            return


async def whole_body(receive):
    parts = [message.get("body", b"") async for message in events(receive)]
    return b"".join(parts)


async def outcome(awaitable):
    """The name of what it raises, or what it gives: for notes."""
    try:
        return await awaitable
    except asyncio.CancelledError:
        raise
    except Exception as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        return {"raised": kinds, "text": str(error)}
