"""The exceptions that requests raise: in the log, and for the admin API of the supervisor."""

import sys
import traceback
from typing import TYPE_CHECKING

from tidegate._log import logger

if TYPE_CHECKING:
    from tidegate import _tidegate

#: Bytes that the supervisor stores of the request, of the message and of the traceback.
_REQUEST_BYTES = 1024
_MESSAGE_BYTES = 1024
_TRACEBACK_BYTES = 16 * 1024
#: The innermost frames of an exception that its traceback has.
_FRAMES = 100
#: Tracebacks that are stored, because an exception is often repeated.
_TRACEBACKS = 32


def log(interface: str, error: BaseException) -> None:
    """Logs what an application raised."""
    logger.error("Exception in %s application", interface, exc_info=error)


class Reporter:
    """Logs the exceptions of an application, and records those of its requests."""

    def __init__(self, worker: "_tidegate.Worker", interface: str) -> None:
        self._worker = worker
        self._interface = interface
        self._tracebacks: dict[tuple, str] = {}
        self._watch_frameworks()

    def __call__(self, error: BaseException, request: dict | None) -> None:
        """Reports an exception. ``request`` is the scope or the environ of its request."""
        log(self._interface, error)
        if request is not None:
            self._record(error, request)

    def _watch_frameworks(self) -> None:
        """Records the exceptions that Django and Flask respond to themselves: the server does not
        see them."""
        if signals := sys.modules.get("django.core.signals"):
            signals.got_request_exception.connect(self._caught, weak=False)
        if flask := sys.modules.get("flask"):
            flask.got_request_exception.connect(self._caught, weak=False)

    def _caught(self, sender, request=None, **details) -> None:
        """A receiver of their signals."""
        if error := sys.exc_info()[1]:
            self._record(error, request)

    def _record(self, error: BaseException, request) -> None:
        if not self._worker.is_supervised:
            return
        try:
            message, trace = self._texts(error)
            self._worker.record_error(request_line(request), message, trace)
        except Exception:
            # The application may have put anything into its scope and its exceptions.
            logger.exception("the exception of a request is only in the log")

    def _texts(self, error: BaseException) -> tuple[str, str]:
        """The type and message of an exception, and its traceback without them."""
        message = "".join(traceback.format_exception_only(error))
        shown = beginning(message, _MESSAGE_BYTES)
        frames = traceback.walk_tb(error.__traceback__)
        key = (shown, *((frame.f_code.co_filename, line) for frame, line in frames))
        if (trace := self._tracebacks.get(key)) is None:
            lines = traceback.format_exception(error, limit=-_FRAMES)
            trace = end("".join(lines).removesuffix(message), _TRACEBACK_BYTES)
            if len(self._tracebacks) >= _TRACEBACKS:
                self._tracebacks.clear()
            self._tracebacks[key] = trace
        return shown.strip(), trace


def request_line(request) -> str:
    """The method and the path of a request, without its query: of a scope, of an environ, or of a
    request of Django, or of the current one of Flask."""
    if request is None:
        request = sys.modules["flask"].request
    if not isinstance(request, dict):
        request = getattr(request, "scope", None) or request.environ
    if "REQUEST_METHOD" in request:
        method, path = request["REQUEST_METHOD"], request["RAW_URI"].partition("?")[0]
    else:
        method = request.get("method", "WEBSOCKET")
        path = request["raw_path"].decode("latin-1")
    return beginning(f"{method} {path}", _REQUEST_BYTES)


def beginning(text: str, most: int) -> str:
    """At most so many bytes of a text, which may have surrogates."""
    data = text[:most].encode("utf-8", "backslashreplace")
    return data[:most].decode("utf-8", "ignore")


def end(text: str, most: int) -> str:
    """The last lines of a text, which may have surrogates, in at most so many bytes: the innermost
    calls are last."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) > most:
        last = data[-most:]
        data = last.partition(b"\n")[2] or last
    return data.decode("utf-8", "ignore")
