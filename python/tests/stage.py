"""Building blocks of the test applications.

A test file contains both its tests and its applications: the server under test imports the same
file and serves its `app`, which calls a function by the first segment of the path. An application
reports what it saw in its response or, where that is not possible, in a note in the log.
"""

import asyncio
import json
import os
import types


def note(key, value=None):
    """Reports a value to the test; `server.note(key)` waits for it. One write is one line."""
    os.write(2, f"@note {key} {json.dumps(value)}\n".encode())


class Stage:
    """An ASGI application made of coroutines, one per path. It supports lifespan."""

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
    """A WSGI application made of functions, one per path, which is their name without `wsgi_`."""

    def __init__(self):
        self.parts = {}

    def part(self, function):
        self.parts[function.__name__.removeprefix("wsgi_")] = function
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
    """Sends a complete response. A body that is not bytes is sent as JSON."""
    if not isinstance(body, bytes):
        body = json.dumps(body, default=lambda value: value.decode("latin-1")).encode()
    length = (b"content-length", str(len(body)).encode())
    await start(send, status, [length, *headers])
    await more(send, body, False)


async def events(receive):
    """Yields the messages of the request up to its end."""
    while True:
        message = await receive()
        yield message
        if message["type"] != "http.request" or not message.get("more_body", False):
            return


async def whole_body(receive):
    parts = [message.get("body", b"") async for message in events(receive)]
    return b"".join(parts)


@types.coroutine
def noting_suspension(awaitable, key):
    """Awaits `awaitable` and takes a note when it suspends for the first time."""
    steps = awaitable.__await__()
    try:
        yielded = next(steps)
    except StopIteration as end:
        return end.value
    note(key)
    yield yielded
    return (yield from steps)


async def outcome(awaitable):
    """Returns the result of the awaitable, or its exception in a form for notes."""
    try:
        return await awaitable
    except asyncio.CancelledError:
        raise
    except Exception as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        return {"raised": kinds, "text": str(error)}
