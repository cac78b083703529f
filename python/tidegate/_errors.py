"""The exceptions of requests and background jobs: in the log, and for the admin API of the
supervisor."""

import re
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
#: The fields by which a trace continues, and how each of them begins: with the identity of the
#: trace, of `traceparent` after a version.
_TRACE_FIELDS = ("traceparent", "b3", "x-b3-traceid")
_TRACE = re.compile("(?:[0-9a-f]{2}-)?(?!0{32})([0-9a-f]{32})(?![0-9a-f])")


def log(interface: str, error: BaseException, trace: str | None = None) -> None:
    """Logs what an application raised. ``trace`` is the trace of its request."""
    logger.error("Exception in %s application", interface, exc_info=error, extra=of_trace(trace))


def of_trace(trace: str | None) -> dict | None:
    """The attributes of a record of ``logging`` about a request with this trace."""
    return None if trace is None else {"tidegate_trace_id": trace}


class Reporter:
    """Logs the exceptions of an application, and records those of its requests and jobs."""

    def __init__(self, worker: "_tidegate.Worker", interface: str) -> None:
        self._worker = worker
        self._interface = interface
        self._tracebacks: dict[tuple, str] = {}
        self._watch_frameworks()

    def __call__(self, error: BaseException, request: dict | None) -> None:
        """Reports an exception. ``request`` is the scope or the environ of its request."""
        log(self._interface, error, trace_id(request))
        if request is not None:
            self.record(error, request)

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
            # Flask sends no request: it has a current one.
            self.record(error, sys.modules["flask"].request if request is None else request)

    def record(self, error: BaseException, source) -> None:
        """Records an exception for the admin API. ``source`` is what raised it: the scope or the
        environ of a request, a request of a framework, or the name of a job."""
        if not self._worker.is_supervised:
            return
        try:
            message, shown = self._texts(error)
            is_job = isinstance(source, str)
            line = f"JOB {source}" if is_job else request_line(source)
            trace = None if is_job else trace_id(source)
            self._worker.record_error(beginning(line, _REQUEST_BYTES), message, shown, trace)
        except Exception:
            # The application may have put anything into its scope and its exceptions.
            logger.exception("an exception is only in the log, not in the last errors")

    def _texts(self, error: BaseException) -> tuple[str, str]:
        """The type and message of an exception, and its traceback without them."""
        message = "".join(traceback.format_exception_only(error))
        key = _identity(error)
        if (trace := self._tracebacks.get(key)) is None:
            lines = traceback.format_exception(error, limit=-_FRAMES)
            trace = end("".join(lines).removesuffix(message), _TRACEBACK_BYTES)
            if len(self._tracebacks) >= _TRACEBACKS:
                self._tracebacks.clear()
            self._tracebacks[key] = trace
        return beginning(message, _MESSAGE_BYTES).strip(), trace


def _identity(error: BaseException) -> tuple:
    """All that the traceback of an exception is made of: the messages and the instructions of the
    exception, of its causes and contexts, and of the members of groups."""
    chain, known, parts = [error], {id(error)}, []
    for one in chain:
        # Messages may be long.
        parts.append((hash("".join(traceback.format_exception_only(one))),
                      one.__suppress_context__))
        place = one.__traceback__
        while place is not None:
            parts.append((place.tb_frame.f_code.co_filename, place.tb_lineno, place.tb_lasti))
            place = place.tb_next
        others = [one.__cause__, None if one.__suppress_context__ else one.__context__]
        if isinstance(one, BaseExceptionGroup):
            others += one.exceptions
        for other in others:
            if other is not None and id(other) not in known:
                known.add(id(other))
                chain.append(other)
    return tuple(parts)


def _given(request) -> dict:
    """The scope or the environ of a request, which may be one of Django or Flask."""
    if isinstance(request, dict):
        return request
    return getattr(request, "scope", None) or request.environ


def request_line(request) -> str:
    """The method and the path of a request, without its query."""
    given = _given(request)
    if "REQUEST_METHOD" in given:
        return f"{given['REQUEST_METHOD']} {given['RAW_URI'].partition('?')[0]}"
    return f"{given.get('method', 'WEBSOCKET')} {given['raw_path'].decode('latin-1')}"


def trace_id(request) -> str | None:
    """The identity of the trace of a request, if its fields have one."""
    try:
        given = _given(request)
        if "REQUEST_METHOD" in given:
            fields = {name: given.get(f"HTTP_{name.upper().replace('-', '_')}", "")
                      for name in _TRACE_FIELDS}
        else:
            fields = {name.decode("latin-1"): value.decode("latin-1")
                      for name, value in given["headers"]}
        found = (_TRACE.match(fields.get(name, "")) for name in _TRACE_FIELDS)
        return next((one[1] for one in found if one), None)
    except Exception:
        # The application may have changed what it was given.
        return None


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
