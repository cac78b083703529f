"""Runs Starlette's own tests against Tidegate: a server is between its test client and the
application. It is a plugin of pytest.

    pip download --no-deps --no-binary :all: starlette && tar xzf starlette-*.tar.gz
    cd starlette-1.10.0 && PYTHONPATH=.../python/tests python -m pytest -p starlette_suite tests

Tests without a test client are left out, and so is trio: they would run no server.
"""

import asyncio
import queue
import threading
from urllib.parse import urlsplit

import pytest
from starlette import testclient
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

import tidegate

httpx = testclient.httpx
PATIENCE_S = 60

#: Tests of what the test client does by itself, or of what a server on a socket cannot show.
OTHERWISE = {
}

#: The servers of the running test.
_running = []


class LiveServer:
    """An application behind Tidegate, on an event loop of its own."""

    def __init__(self, app, root_path, lifespan):
        self._app = app
        self.errors = []
        self._active = 0
        self._idle = threading.Condition()
        self._started = queue.SimpleQueue()
        serve = self._serve(root_path, lifespan)
        self._thread = threading.Thread(target=asyncio.run, args=(serve,), daemon=True)
        self._thread.start()
        url = self._started.get(timeout=PATIENCE_S)
        if isinstance(url, BaseException):
            raise self.errors[0] if self.errors else url
        self.port = urlsplit(url).port
        _running.append(self)

    async def _serve(self, root_path, lifespan):
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            serving = tidegate.serving(
                self._observed, port=0, root_path=root_path, lifespan=lifespan,
                report=lambda error: None)
            async with serving as server:
                self._started.put(server.url)
                await self._stop.wait()
        except BaseException as error:
            self._started.put(error)

    async def _observed(self, scope, receive, send):
        is_request = scope["type"] != "lifespan"
        with self._idle:
            self._active += is_request
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            self.errors.append(error)
            raise
        finally:
            with self._idle:
                self._active -= is_request
                self._idle.notify_all()

    def wait_until_idle(self):
        """A test expects that background tasks have run; so it waits for the application's end."""
        with self._idle:
            assert self._idle.wait_for(lambda: self._active == 0, PATIENCE_S)

    def raise_error(self):
        if self.errors:
            raise self.errors.pop(0)

    def stop(self):
        if self in _running:
            _running.remove(self)
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(PATIENCE_S)


class LiveTransport(httpx.BaseTransport):
    """Sends requests to the server of a client."""

    def __init__(self, client, raises):
        self._client = client
        self.raises = raises
        self._sockets = httpx.HTTPTransport()

    def handle_request(self, request):
        server = self._client.live()
        if request.url.scheme in ("ws", "wss"):
            raise testclient._Upgrade(LiveSession(server, request, self.raises))
        url = request.url.copy_with(scheme="http", host="127.0.0.1", port=server.port)
        sent = httpx.Request(request.method, url, headers=request.headers, content=request.read())
        received = self._sockets.handle_request(sent)
        body = b"".join(received.stream)
        received.close()
        server.wait_until_idle()
        if self.raises:
            server.raise_error()
        # Framing of the connection, which the test client does not have.
        headers = [(name, value) for name, value in received.headers.multi_items()
                   if name not in ("transfer-encoding", "date", "server", "connection")]
        return httpx.Response(received.status_code, headers=headers, request=request,
                              stream=httpx.ByteStream(body))

    def close(self):
        self._sockets.close()


class LiveSession:
    """A WebSocket with the methods of Starlette's session for tests."""

    def __init__(self, server, request, raises):
        self._server = server
        self._raises = raises
        path = request.url.raw_path.decode()
        self._uri = f"ws://127.0.0.1:{server.port}{path}"
        offered = request.headers.get("sec-websocket-protocol", "")
        self._offered = [word.strip() for word in offered.split(",") if word.strip()]
        own = ("host", "connection", "upgrade", "sec-websocket-key", "sec-websocket-version",
               "sec-websocket-protocol", "accept-encoding")
        self._headers = [(name, value) for name, value in request.headers.multi_items()
                         if name not in own]

    def __enter__(self):
        try:
            self._socket = connect(
                self._uri, additional_headers=self._headers, subprotocols=self._offered or None,
                compression=None, ping_interval=None, open_timeout=PATIENCE_S,
                user_agent_header=None, max_size=None)
        except InvalidStatus as denied:
            self._server.wait_until_idle()
            if self._raises:
                self._server.raise_error()
            response = denied.response
            if response.status_code == 403 and not response.body:
                raise WebSocketDisconnect(code=1000, reason="") from None
            raise WebSocketDenialResponse(
                status_code=response.status_code, headers=list(response.headers.raw_items()),
                content=response.body) from None
        self.accepted_subprotocol = self._socket.subprotocol
        own = ("upgrade", "connection", "sec-websocket-accept", "sec-websocket-protocol", "date",
               "server")
        self.extra_headers = [
            (name.lower().encode(), value.encode())
            for name, value in self._socket.response.headers.raw_items()
            if name.lower() not in own]
        return self

    def __exit__(self, *exception):
        self.close(1000)
        self._server.wait_until_idle()
        if self._raises and exception[0] is None:
            self._server.raise_error()

    def send(self, message):
        try:
            text = message.get("text")
            self._socket.send(message["bytes"] if text is None else text)
        except ConnectionClosed:
            pass

    def close(self, code=1000, reason=None):
        self._socket.close(code, reason or "")

    def receive(self):
        try:
            data = self._socket.recv(timeout=PATIENCE_S)
        except ConnectionClosed as closed:
            self._server.wait_until_idle()
            if self._raises:
                self._server.raise_error()
            end = closed.rcvd
            return {"type": "websocket.close", "code": end.code if end else 1006,
                    "reason": end.reason if end else ""}
        kind = "text" if isinstance(data, str) else "bytes"
        return {"type": "websocket.send", kind: data}

    # They use `send` and `receive`.
    _raise_on_close = testclient.WebSocketTestSession._raise_on_close
    send_text = testclient.WebSocketTestSession.send_text
    send_bytes = testclient.WebSocketTestSession.send_bytes
    send_json = testclient.WebSocketTestSession.send_json
    receive_text = testclient.WebSocketTestSession.receive_text
    receive_bytes = testclient.WebSocketTestSession.receive_bytes
    receive_json = testclient.WebSocketTestSession.receive_json


class LiveClient(TestClient):
    """Starlette's test client, with a server between it and the application."""

    def __init__(self, app, *arguments, raise_server_exceptions=True, root_path="", **named):
        super().__init__(app, *arguments, root_path=root_path, **named)
        self._root_path = root_path
        self._server = None
        self._transport = LiveTransport(self, raise_server_exceptions)

    def live(self):
        if self._server is None:
            self._server = LiveServer(self.app, self._root_path, "off")
        return self._server

    def __enter__(self):
        self._server = LiveServer(self.app, self._root_path, "on")
        return self

    def __exit__(self, *exception):
        server, self._server = self._server, None
        server.stop()
        server.raise_error()


# Before Starlette's tests import it.
testclient.TestClient = LiveClient


def pytest_collection_modifyitems(config, items):
    live, others = [], []
    for item in items:
        uses_server = "test_client_factory" in item.fixturenames and "trio" not in item.name
        (live if uses_server else others).append(item)
        for name, reason in OTHERWISE.items():
            if name in item.nodeid:
                item.add_marker(pytest.mark.skip(reason=reason))
    config.hook.pytest_deselected(items=others)
    items[:] = live


@pytest.fixture(autouse=True)
def servers():
    """Ends the servers of a test."""
    yield
    for server in list(_running):
        server.stop()
