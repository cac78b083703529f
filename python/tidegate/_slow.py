"""The log of slow requests: ``--slow-request``, ``apps.NAME.timeouts.slow``.

A request is slow if its response has not begun in time. One line says where it is at that moment.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable

from tidegate import _errors, _running

logger = logging.getLogger("tidegate.slow")

#: Lines of one check; the rest is counted.
_LINES = 10


class _Body:
    """The body of a WSGI response that has not begun: its steps belong to the request."""

    def __init__(self, request: _running.Request, body, end: Callable) -> None:
        self._request = request
        self._body = body
        self._end = end
        self._steps = None

    def __iter__(self) -> "_Body":
        return self

    def __next__(self):
        if self._steps is None:
            self._steps = self._request.call(iter, self._body)
        return self._request.call(next, self._steps)

    def close(self) -> None:
        self._end(self._request)
        if hasattr(self._body, "close"):
            self._body.close()


class SlowRequests:
    """Watches requests for those whose response does not begin in time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._running: dict[_running.Request, None] = {}
        self._changed = threading.Event()
        threading.Thread(target=self._watch, daemon=True, name="tidegate-slow").start()

    def asgi(self, application: Callable) -> Callable:
        """An ASGI application around another one."""

        async def observed(scope, receive, send):
            if scope["type"] != "http":
                await application(scope, receive, send)
                return
            request = _running.Request(scope, asyncio.get_running_loop())

            async def sends(message):
                if message["type"] == "http.response.start":
                    self._end(request)
                await send(message)

            self._begin(request)
            try:
                await request.wait_for(application, scope, receive, sends)
            finally:
                self._end(request)

        return observed

    def wsgi(self, application: Callable) -> Callable:
        """A WSGI application around another one."""

        def observed(environ, start_response):
            request = _running.Request(environ, None)

            def starts(*arguments):
                self._end(request)
                return start_response(*arguments)

            self._begin(request)
            try:
                body = request.call(application, environ, starts)
            except BaseException:
                self._end(request)
                raise
            if request not in self._running:
                return body
            # A generator calls `start_response` in its first step.
            return _Body(request, body, self._end)

        return observed

    def _begin(self, request: _running.Request) -> None:
        self._running[request] = None
        if not self._changed.is_set():
            self._changed.set()

    def _end(self, request: _running.Request) -> None:
        self._running.pop(request, None)

    def _watch(self) -> None:
        while True:
            self._changed.wait()
            self._changed.clear()
            while self._running:
                time.sleep(self._check())

    def _check(self) -> float:
        """Logs the requests that are late; returns when the next one may be."""
        late, left = [], self._seconds
        now = time.monotonic()
        # A copy, because other threads change it.
        for request in list(self._running):
            spent = now - request.began
            if spent < self._seconds:
                # They are in the order of their beginning.
                left = self._seconds - spent
                break
            late.append(request)
            self._end(request)
        for request in late[:_LINES]:
            stack, runs = request.stack()
            logger.warning(
                "the response of a slow request has not begun: %s %r after=%.3fs %s=%s",
                request.method, request.path, now - request.began,
                "runs_in" if runs else "waits_in", _running.line(stack),
                extra=_errors.of_trace(_errors.trace_id(request.given)))
        if len(late) > _LINES:
            logger.warning("%d more slow requests", len(late) - _LINES)
        return left
