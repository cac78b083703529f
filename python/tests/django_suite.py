"""Runs Django's own tests of live servers against Tidegate, in place of its development server.

    pip download --no-deps --no-binary :all: django && tar xzf django-*.tar.gz
    python django_suite.py django-5.2.19 servers staticfiles_tests.test_liveserver

Labels are those of Django's `runtests.py`.
"""

import asyncio
import os
import runpy
import sys
import threading
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import tidegate

#: For requests that do not end with their test.
GRACEFUL_S = 0.5

#: Tests of what only Django's development server is or does: they fail. One that passes fails the
#: run.
OTHERWISE = {
    "LiveServerThreadTest.test_server_class": "it is about the class of the development server",
    "SingleThreadLiveServerViews.test_closes_connection_with_content_length":
        "it is about a server of one thread",
    "LiveServerViews.test_closes_connection_without_content_length":
        "a response without a length is sent in chunks, and its connection stays open",
    "LiveServerViews.test_keep_alive_on_connection_with_content_length":
        "a response to `Connection: close` says that it closes (RFC 9112 9.6)",
    "LiveServerViews.test_keep_alive_connection_clears_previous_request_data": "as above",
}


def connect_once(application, connections_override):
    """The application in a thread that has the database connections of the test."""
    from django.db import connections

    ready = threading.local()

    def connected(environ, start_response):
        if not hasattr(ready, "done"):
            for alias, connection in (connections_override or {}).items():
                connections[alias] = connection
            ready.done = True
        return application(environ, start_response)

    return connected


def replace_the_server():
    from asgiref.sync import sync_to_async
    from asgiref.wsgi import WsgiToAsgi, WsgiToAsgiInstance
    from django.core.handlers.wsgi import WSGIHandler
    from django.db import connections
    from django.test import testcases

    class Thread(testcases.LiveServerThread):
        """Django's thread of a live server, with Tidegate in it."""

        def run(self):
            # Those that the thread has are closed at its end.
            for alias, connection in (self.connections_override or {}).items():
                connections[alias] = connection
            try:
                server = self._create_server(connections_override=self.connections_override)
                if not isinstance(server, AbstractAsyncContextManager):
                    # The development server of a test.
                    server.server_close()
                    server = Thread._create_server(self, self.connections_override)
                asyncio.run(self._serve(server))
            except Exception as error:
                self.error = error
                self.is_ready.set()
            finally:
                connections.close_all()

        def _create_server(self, connections_override=None):
            handler = self.static_handler(testcases._MediaFilesHandler(WSGIHandler()))
            return tidegate.serving(
                WsgiToAsgi(connect_once(handler, connections_override)), host=self.host,
                port=self.port, lifespan="off", graceful_timeout=GRACEFUL_S)

        async def _serve(self, serving):
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
            async with serving as server:
                self.port = int(server.url.rpartition(":")[2])
                self.is_ready.set()
                await self._stop.wait()

        def terminate(self):
            if hasattr(self, "_stop"):
                self._loop.call_soon_threadsafe(self._stop.set)
            self.join()

    # A view that asks the server itself needs a second thread.
    run = WsgiToAsgiInstance.__dict__["run_wsgi_app"].func
    WsgiToAsgiInstance.run_wsgi_app = sync_to_async(run, thread_sensitive=False)
    testcases.LiveServerThread = Thread
    testcases.LiveServerTestCase.server_thread_class = Thread


def expect_failures():
    """Marks the tests of what is otherwise here."""
    from django.test.runner import DiscoverRunner

    build = DiscoverRunner.build_suite

    def built(self, *arguments, **named):
        suite = build(self, *arguments, **named)
        unknown = set(OTHERWISE)
        for test in suite:
            if (name := ".".join(test.id().split(".")[-2:])) in OTHERWISE:
                unknown.discard(name)
                # unittest's own mark, for this test and not for the classes that inherit it.
                test.__unittest_expecting_failure__ = True
        if unknown:
            sys.exit(f"no test has these names: {', '.join(sorted(unknown))}")
        return suite

    DiscoverRunner.build_suite = built


if __name__ == "__main__":
    tests = Path(sys.argv[1], "tests").resolve()
    os.chdir(tests)
    sys.path[:0] = [str(tests), str(tests.parent)]
    replace_the_server()
    expect_failures()
    sys.argv = ["runtests.py", "--parallel=1", *sys.argv[2:]]
    runpy.run_path(str(tests / "runtests.py"), run_name="__main__")
