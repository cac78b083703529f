"""Runs Channels' own tests against Tidegate: a server is between their communicators and the
application. It is a plugin of pytest.

    git clone --branch 4.3.2 https://github.com/django/channels
    cd channels && PYTHONPATH=.../python/tests python -m pytest -p channels_suite tests

Tests without a communicator are left out: they would run no server.
"""

import asyncio
import inspect

import asgiref.testing
import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

import tidegate
from listed import expect_failures

#: Tests of what the communicators do by themselves, or of what a server on a socket cannot show.
OTHERWISE = {
}

#: Fields that a client or the server adds.
OWN = {b"connection", b"date", b"sec-websocket-accept", b"sec-websocket-protocol", b"server",
       b"transfer-encoding", b"upgrade"}


class Observed:
    """An application that is served, with what the communicator has in its scope."""

    def __init__(self, application, scope):
        self._application = application
        self._scope = scope
        self.ended = asyncio.get_running_loop().create_future()

    async def __call__(self, scope, receive, send):
        try:
            await self._application({**self._scope, **scope}, receive, send)
        except Exception as error:
            self.ended.set_exception(error)
            raise
        self.ended.set_result(None)


def served(application):
    """An application that passes what it receives to `application` over a socket."""

    async def client(scope, receive, send):
        observed = Observed(application, scope)
        serving = tidegate.serving(observed, port=0, lifespan="off", report=lambda error: None)
        async with serving as server:
            speak = speak_websocket if scope["type"] == "websocket" else speak_http
            speaking = asyncio.ensure_future(speak(server, scope, receive, send))
            try:
                await asyncio.wait(
                    [speaking, observed.ended], return_when=asyncio.FIRST_EXCEPTION)
                if speaking.done():
                    speaking.result()
            finally:
                speaking.cancel()
                await asyncio.wait([speaking])
            observed.ended.result()

    return client


async def speak_http(server, scope, receive, send):
    body, is_more = b"", True
    while is_more:
        message = await receive()
        body += message.get("body", b"")
        is_more = message.get("more_body", False)
    query = scope["query_string"].decode()
    url = f"{server.url}{scope['path']}" + (f"?{query}" if query else "")
    async with httpx.AsyncClient(timeout=None) as client:
        asked = client.stream(scope["method"], url, headers=scope["headers"], content=body)
        async with asked as response:
            fields = [pair for pair in response.headers.raw if pair[0].lower() not in OWN]
            await send({"type": "http.response.start", "status": response.status_code,
                        "headers": fields})
            async for piece in response.aiter_raw():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


async def speak_websocket(server, scope, receive, send):
    assert (await receive())["type"] == "websocket.connect"
    query = scope["query_string"].decode()
    uri = f"ws{server.url.removeprefix('http')}{scope['path']}" + (f"?{query}" if query else "")
    fields = [(name.decode(), value.decode()) for name, value in scope["headers"]]
    try:
        session = await connect(uri, additional_headers=fields, proxy=None,
                                subprotocols=scope["subprotocols"] or None)
    except InvalidStatus as denied:
        assert denied.response.status_code == 403
        return await send({"type": "websocket.close", "code": 1000})
    await send({"type": "websocket.accept", "subprotocol": session.subprotocol,
                "headers": [(name.lower().encode(), value.encode())
                            for name, value in session.response.headers.raw_items()
                            if name.lower().encode() not in OWN]})
    writing = asyncio.ensure_future(write_websocket(session, receive))
    try:
        await read_websocket(session, send)
    finally:
        writing.cancel()
        await asyncio.wait([writing])
        await session.close()


async def write_websocket(session, receive):
    while (message := await receive())["type"] == "websocket.receive":
        text = message.get("text")
        await session.send(message["bytes"] if text is None else text)
    await session.close(message.get("code", 1000), message.get("reason") or "")


async def read_websocket(session, send):
    try:
        while True:
            data = await session.recv()
            kind = "text" if isinstance(data, str) else "bytes"
            await send({"type": "websocket.send", kind: data})
    except ConnectionClosed as closed:
        if closed.rcvd is not None and not closed.rcvd_then_sent:
            return
        end = closed.rcvd
        await send({"type": "websocket.close", "code": end.code if end else 1006,
                    "reason": end.reason if end else ""})


class LiveCommunicator(asgiref.testing.ApplicationCommunicator):
    """A communicator with a server between it and the application."""

    def __init__(self, application, scope):
        super().__init__(served(application), scope)


# Before the communicators of Channels extend it.
asgiref.testing.ApplicationCommunicator = LiveCommunicator


def pytest_collection_modifyitems(config, items):
    live, others = [], []
    for item in items:
        uses_server = "Communicator(" in inspect.getsource(item.function)
        (live if uses_server else others).append(item)
    expect_failures(config, live, OTHERWISE)
    config.hook.pytest_deselected(items=others)
    items[:] = live
