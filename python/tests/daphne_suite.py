"""Runs the tests of Daphne, the server of the Channels project, against Tidegate. It is a plugin of
pytest.

    pip download --no-deps --no-binary :all: daphne && tar xzf daphne-*.tar.gz
    cd daphne-4.2.3 && PYTHONPATH=.../python/tests:.:tests python -m pytest -p daphne_suite tests

Left out are the tests of its command line, its packaging and its use of Twisted, which is not
needed: `daphne.testing` starts Tidegate instead.
"""

import asyncio
import http.client
import queue
import threading
from types import SimpleNamespace

import daphne.testing
import http_strategies
from hypothesis import Phase, settings

import tidegate
from listed import expect_failures

#: The files of its tests that start a server.
LIVE = {"test_http_request.py", "test_http_response.py", "test_websocket.py"}
#: For requests that do not end with their test.
GRACEFUL_S = 0.1

#: Tests of what only Daphne does, or does otherwise.
OTHERWISE = {
    "the client of this suite sends Host": [
        "test_http_request.py::test_headers_are_lowercased_and_stripped",
    ],
    "400 from the server: a path with %2F (docs/design/paths.md)": [
        "test_http_request.py::test_raw_path",
        "test_websocket.py::test_raw_path",
    ],
    "the server decides into which pieces a body is cut": [
        "test_http_request.py::test_request_body_chunking",
    ],
    "the field Daphne-Root-Path": [
        "test_http_request.py::test_root_path_header",
        "test_websocket.py::test_root_path",
    ],
    "fields that name another client are removed unless their sender is trusted": [
        "test_http_request.py::test_x_forwarded_for_ignored",
    ],
    "X-Forwarded-Port is not the client's port": [
        "test_http_request.py::test_x_forwarded_for_parsed",
        "test_websocket.py::test_xff",
    ],
    "a response has Date and Content-Length": [
        "test_http_response.py::test_headers",
    ],
    "the version in a response is the server's (RFC 9112 2.3)": [
        "test_http_response.py::test_headers_type_raw",
    ],
    "exceptions of other types with other words": [
        "test_http_response.py::test_headers_type",
        "test_http_response.py::test_status_code_required",
    ],
    "the limits are options that this suite does not set; a message may have 1 KiB at least": [
        "test_websocket.py::test_websocket_max_frame_size",
        "test_websocket.py::test_websocket_max_message_size",
    ],
    "the reactor of Twisted": [
        "test_websocket.py::test_application_checker_handles_asyncio_cancellederror",
    ],
}


class Connection(http.client.HTTPConnection):
    """A client that sends Host, without which a request of HTTP/1.1 is malformed (RFC 9112 3.2)."""

    has_host = False

    def putheader(self, header, *values):
        self.has_host |= header in ("Host", b"Host")
        super().putheader(header, *values)

    def endheaders(self, *arguments, **named):
        if not self.has_host:
            self.putheader("Host", self.host)
        super().endheaders(*arguments, **named)


class TidegateProcess:
    """A server with the methods of Daphne's process, in a thread of this one."""

    def __init__(self, host, get_application, kwargs=None, setup=None, teardown=None):
        self._host = host
        self._application = get_application()
        self._options = kwargs or {}
        self._teardown = teardown
        self.port = SimpleNamespace(value=0)
        self.ready = threading.Event()
        self.errors = queue.Queue()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self._thread.start()

    def _run(self):
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self.errors.put((error, ""))

    async def _serve(self):
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        configuration = {}
        if "proxy_forwarded_address_header" in self._options:
            configuration["trusted_proxies"] = ["127.0.0.1"]
        serving = tidegate.serving(
            self._served, host=self._host, port=0, lifespan="off", graceful_timeout=GRACEFUL_S,
            configuration=configuration, report=lambda error: None)
        async with serving as server:
            self.port.value = int(server.url.rpartition(":")[2])
            self.ready.set()
            await self._stop.wait()

    async def _served(self, scope, receive, send):
        """The application, without the optional keys of a scope that Daphne does not have, and with
        its lists in the place of tuples."""
        optional = {"extensions", "state"}
        if scope["type"] == "websocket":
            optional.add("http_version")
        known = {name: value for name, value in scope.items() if name not in optional}
        is_over = False

        async def receive_once():
            """After a disconnect the application of the tests receives for ever."""
            nonlocal is_over
            if is_over:
                await asyncio.Event().wait()
            message = await receive()
            is_over = message["type"].endswith(".disconnect")
            return message

        await self._application({**known, "client": list(scope["client"])}, receive_once, send)

    def terminate(self):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


daphne.testing.DaphneProcess = TidegateProcess
http.client.HTTPConnection = Connection
# Before the tests take their settings: the same inputs in each run, and no search for smaller ones.
settings.register_profile(
    "suite", derandomize=True, database=None, phases=[Phase.explicit, Phase.generate])
settings.load_profile("suite")
# CONNECT is not for an application.
methods = http_strategies.http_method
http_strategies.http_method = lambda: methods().filter(lambda method: method != "CONNECT")


def pytest_ignore_collect(collection_path):
    if collection_path.name.startswith("test_") and collection_path.name not in LIVE:
        return True


def pytest_collection_modifyitems(config, items):
    for item in items:
        if hasattr(item.cls, "INVALID_BYTES"):
            # 0x85 is allowed in values (RFC 9110 5.5, `obs-text`).
            item.cls.INVALID_BYTES = item.cls.INVALID_BYTES[:-1]
    expect_failures(config, items, OTHERWISE)
