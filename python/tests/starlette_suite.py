"""Runs Starlette's own tests against Tidegate: a server is between its test client and the
application. It is a plugin of pytest.

    pip download --no-deps --no-binary :all: starlette && tar xzf starlette-*.tar.gz
    cd starlette-1.10.0 && PYTHONPATH=.../python/tests python -m pytest -p starlette_suite tests

Tests without a test client are left out, and so is trio: they would run no server.
"""

import asyncio
import contextvars
import os
import queue
import socket
import threading
from urllib.parse import urlsplit

import pytest
from starlette import testclient
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

import tidegate
from listed import expect_failures

httpx = testclient.httpx
#: For what takes milliseconds.
PATIENCE_S = 5
#: For requests that do not end with their test.
GRACEFUL_S = 0.5

#: Tests of what the test client does by itself, or of what a server on a socket cannot show.
OTHERWISE = {
    "the template of a response, its context and what it has for debugging are objects": [
        "test_templates.py::test_calls_context_processors",
        "test_templates.py::test_template_with_middleware",
        "test_templates.py::test_templates",
        "test_templates.py::test_templates_with_directories",
        "test_templates.py::test_templates_with_environment",
        "test_testclient.py::test_debug_info_in_response_extensions",
        "test_testclient.py::test_debug_info_in_response_extensions_with_template",
    ],
    "the client on the socket does not show trailers": [
        "test_gzip.py::test_gzip_excluded_content_type_trailers",
        "test_gzip.py::test_gzip_trailers",
        "test_testclient.py::test_capture_trailers",
        "test_testclient.py::test_closing_completed_trailers_waits_for_application",
        "test_testclient.py::test_incomplete_trailers",
    ],
    "assertions of the test client": [
        "test_testclient.py::test_invalid_trailer_sequence",
    ],
    "a response that is cut off is an error, also if the application has begun it": [
        "test_testclient.py::test_trailer_error_respects_raise_server_exceptions[asyncio-False]",
    ],
    "the test client streams without a buffer, and cancels an application that it leaves": [
        "test_testclient.py::test_closing_client_cancels_unclosed_response",
        "test_testclient.py::test_closing_unfinished_response_cancels_application",
        "test_testclient.py::test_streaming_response_applies_backpressure",
        "test_testclient.py::test_streaming_response_copies_mutable_chunks",
        "test_testclient.py::test_streaming_response_is_available_before_first_chunk",
        "test_testclient.py::test_streaming_response_skips_empty_and_head_bodies[asyncio-GET-]",
        "test_testclient.py::test_streaming_response_skips_empty_and_head_bodies"
        "[asyncio-HEAD-chunk]",
    ],
    "a session whose client has gone is not cancelled: it is told by `receive` and `send`": [
        "test_testclient.py::test_websocket_not_block_on_close",
    ],
    "each request outside of a `with` has an event loop of its own": [
        "test_testclient.py::test_use_testclient_as_contextmanager",
    ],
    "the addresses of client and server are those of the socket": [
        "test_opentelemetry.py::test_http_span_uses_route_and_semantic_attributes",
        "test_testclient.py::test_client",
        "test_testclient.py::test_client_custom_client",
        "test_testclient.py::test_ipv6_base_url",
    ],
    "the client's own fields of the handshake": [
        "test_websockets.py::test_websocket_headers",
    ],
    "an event that no client can cause": [
        "test_websockets.py::test_receive_before_accept",
        "test_websockets.py::test_receive_wrong_message_type",
    ],
    "a close before the session is accepted is a 403, which has no code (ASGI)": [
        "test_websockets.py::test_rejected_connection",
    ],
    "the server's response to an exception has a body": [
        "test_exceptions.py::test_force_500_response",
    ],
    "the client on the socket sends neither a wrong length nor a value with spaces around it": [
        "test_body_limit.py::test_received_bytes_are_counted_with_unreliable_content_length",
        "test_requests.py::test_cookies_invalid[asyncio-  =  b  ;  ;  =  ;   c  =  ;  -expected4]",
        r"test_staticfiles.py::test_staticfiles_304_with_if_none_match_wildcard"
        r"[asyncio- \t* \t-GET]",
        r"test_staticfiles.py::test_staticfiles_304_with_if_none_match_wildcard"
        r"[asyncio- \t* \t-HEAD]",
    ],
    "400 from the server: a Host that is malformed, of IPvFuture, or with a port of more than five "
    "digits or above 65535 (wire/src/authority.rs)": [
        "test_https_redirect.py::test_https_redirect_middleware",
        "test_https_redirect.py::test_https_redirect_middleware_without_server"
        "[asyncio-[:::]]",
        "test_https_redirect.py::test_https_redirect_middleware_without_server"
        "[asyncio-testserver:65536]",
        "test_routing.py::test_host_routing_ignores_port[asyncio-api.example.org:000080]",
        "test_routing.py::test_host_routing_ignores_port[asyncio-api.example.org:100000]",
        "test_routing.py::test_host_routing_ignores_port[asyncio-api.example.org:65536]",
        "test_routing.py::test_host_routing_ip_literals",
        "test_routing.py::test_host_routing_rejects_invalid_hosts[asyncio-[:::]]",
        "test_routing.py::test_host_routing_rejects_invalid_hosts[asyncio-api.example.org:evil]",
        "test_trusted_host.py::test_trusted_host_middleware_ipv6[asyncio-[v1.foo]-200]",
        "test_trusted_host.py::test_trusted_host_middleware_ipv6[asyncio-api_service:000080-200]",
        "test_trusted_host.py::test_trusted_host_middleware_ipv6[asyncio-api_service:100000-200]",
        "test_trusted_host.py::test_trusted_host_middleware_ipv6[asyncio-api_service:65536-200]",
    ],
    "400 from the server: a path with %2F or a null byte (docs/design/paths.md)": [
        "test_requests.py::test_request_raw_path",
        "test_staticfiles.py::test_staticfiles_null_byte_in_path",
    ],
    "the server has no push, which browsers have removed": [
        "test_requests.py::test_request_send_push_promise",
    ],
    "123 is not the status of a final response (RFC 9110 15.2)": [
        "test_responses.py::test_response_phrase",
    ],
}
if os.geteuid() == 0:
    OTHERWISE["root may read every file"] = [
        "test_staticfiles.py::test_staticfiles_with_invalid_dir_permissions_returns_401",
    ]

#: What the server sends for a close before the session is accepted.
FORBIDDEN = b"403 Forbidden\n"
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
        self.sockets = httpx.HTTPTransport()
        self.root_path = root_path
        serve = self._serve(root_path, lifespan)
        # Applications see the context variables of the test.
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(asyncio.run, serve), daemon=True)
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
                graceful_timeout=GRACEFUL_S, report=lambda error: None,
                # For the scheme of a request.
                configuration={"trusted_proxies": ["127.0.0.1"]})
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
            is_idle = self._idle.wait_for(lambda: self._active == 0, PATIENCE_S)
        assert is_idle, "the application does not end"

    def raise_error(self):
        if self.errors:
            raise self.errors.pop(0)

    def stop(self):
        if self in _running:
            _running.remove(self)
            # A server that ends waits a moment for the next request of an idle connection.
            self.sockets.close()
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(PATIENCE_S)


class LiveTransport(httpx.BaseTransport):
    """Sends requests to the server of a client."""

    def __init__(self, client, raises):
        self._client = client
        self.raises = raises

    def handle_request(self, request):
        server = self._client.live()
        if request.url.scheme in ("ws", "wss"):
            raise testclient._Upgrade(LiveSession(server, request, self.raises))
        url = public_url(request, server).copy_with(
            scheme="http", host="127.0.0.1", port=server.port)
        fields = [*request.headers.raw, *scheme_field(request)]
        sent = httpx.Request(request.method, url, headers=fields, content=request.read())
        try:
            received = server.sockets.handle_request(sent)
            body = b"".join(received.stream)
            received.close()
        except httpx.TransportError:
            # The application has raised after the begin of its response.
            server.wait_until_idle()
            if self.raises:
                server.raise_error()
            raise
        server.wait_until_idle()
        if self.raises:
            server.raise_error()
        # Framing of the connection, which the test client does not have.
        headers = [(name, value) for name, value in received.headers.multi_items()
                   if name not in ("transfer-encoding", "date", "server", "connection")]
        return httpx.Response(received.status_code, headers=headers, request=request,
                              stream=httpx.ByteStream(body))


def public_url(request, server):
    """The URL as the server gets it: a proxy has removed the root path."""
    path = request.url.raw_path.removeprefix(server.root_path.rstrip("/").encode())
    return request.url.copy_with(raw_path=path if path.startswith(b"/") else b"/" + path)


def scheme_field(request):
    """The field in which a proxy names the scheme: the server has no certificates."""
    return [(b"x-forwarded-proto", b"https")] if request.url.scheme in ("https", "wss") else []


class LiveSession:
    """A WebSocket with the methods of Starlette's session for tests."""

    def __init__(self, server, request, raises):
        self._server = server
        self._raises = raises
        self._uri = str(public_url(request, server).copy_with(scheme="ws"))
        offered = request.headers.get("sec-websocket-protocol", "")
        self._offered = [word.strip() for word in offered.split(",") if word.strip()]
        own = ("host", "connection", "upgrade", "sec-websocket-key", "sec-websocket-version",
               "sec-websocket-protocol", "accept-encoding")
        self._headers = [(name, value) for name, value in request.headers.multi_items()
                         if name not in own]
        self._headers += [(name.decode(), value.decode()) for name, value in scheme_field(request)]

    def __enter__(self):
        try:
            self._socket = connect(
                self._uri, sock=socket.create_connection(("127.0.0.1", self._server.port)),
                additional_headers=self._headers, subprotocols=self._offered or None,
                compression=None, ping_interval=None, open_timeout=PATIENCE_S,
                user_agent_header=None, max_size=None)
        except InvalidStatus as denied:
            self._server.wait_until_idle()
            if self._raises:
                self._server.raise_error()
            response = denied.response
            body = bytes(response.body or b"")
            if response.status_code == 403 and body == FORBIDDEN:
                raise WebSocketDisconnect(code=1000, reason="") from None
            raise WebSocketDenialResponse(
                status_code=response.status_code, headers=list(response.headers.raw_items()),
                content=body) from None
        self.accepted_subprotocol = self._socket.subprotocol
        own = ("upgrade", "connection", "sec-websocket-accept", "sec-websocket-protocol", "date",
               "server")
        self.extra_headers = [
            (name.encode(), value.encode())
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
    expect_failures(config, live, OTHERWISE)
    config.hook.pytest_deselected(items=others)
    items[:] = live


@pytest.fixture(autouse=True)
def servers():
    """Ends the servers of a test."""
    yield
    for server in list(_running):
        server.stop()
