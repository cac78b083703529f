"""Writes what an application logs and prints in the format of the server's own events.

An application that configures logging itself (handlers, ``basicConfig``, ``--log-config``) keeps
its configuration: each line appears once, written by its own handlers.
"""

import io
import json
import logging
import os
import sys
import threading
import time


class ErrorLogger(logging.Logger):
    """A logger that ``disable_existing_loggers`` of ``dictConfig`` does not disable: errors of the
    application stay visible. Levels, handlers and filters work as usual."""

    disabled = property(lambda self: False, lambda self, value: None)


logger = logging.getLogger("tidegate.error")
logger.__class__ = ErrorLogger

#: The format of this process, if ``configure`` was called.
_lines: "Lines | None" = None

LEVELS = {"WARNING": "warn", "CRITICAL": "error"}

#: What Flask's own handler writes unless the application changes it.
_FLASK_FORMAT = "[%(asctime)s] %(levelname)s in %(module)s: %(message)s"


class Lines:
    """Formats events like the server: in text or JSON, with time, level and process."""

    def __init__(self, style: str, app: str | None, slot: int | None) -> None:
        self._is_json = style == "json"
        self._app = app
        self.use(slot)

    def use(self, slot: int | None) -> None:
        """Sets the worker of this process; a preloader has none, a supervisor no application."""
        fields = {"app": self._app, "worker": slot, "process": os.getpid()}
        self._fields = {name: value for name, value in fields.items() if value is not None}

    def line(self, seconds: float, level: str, message: str, trace: str = "", **fields) -> str:
        """One event. In text, the lines after the first are indented."""
        whole, milliseconds = divmod(int(seconds * 1000), 1000)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
        stamp = f"{stamp}.{milliseconds:03}Z"
        fields = {**self._fields, **fields}
        if self._is_json:
            event = {"time": stamp, "level": level, "message": message, **fields}
            if trace:
                event["exception"] = trace
            return json.dumps(event)
        first, *rest = message.split("\n")
        pairs = " ".join(f"{key}={value}" for key, value in fields.items())
        rest = [*rest, *trace.split("\n")] if trace else rest
        return "\n  ".join([f"{stamp} {level.upper()} {first} {pairs}", *rest])


class Formatter(logging.Formatter):
    """Formats a record of Python's logging as an event of the server."""

    def __init__(self, lines: Lines) -> None:
        super().__init__()
        self._lines = lines

    def format(self, record: logging.LogRecord) -> str:
        level = LEVELS.get(record.levelname, record.levelname.lower())
        trace = "" if not record.exc_info else self.formatException(record.exc_info)
        if record.stack_info:
            trace = "\n".join(filter(None, [trace, self.formatStack(record.stack_info)]))
        message = record.getMessage()
        fields = {"logger": record.name, **_position(record)}
        return self._lines.line(record.created, level, message, trace, **fields)


def _position(record: logging.LogRecord) -> dict[str, str]:
    """The trace that a line belongs to: that of the current span, if the application uses
    OpenTelemetry, or of the request that the server logs something about."""
    if api := sys.modules.get("opentelemetry.trace"):
        context = api.get_current_span().get_span_context()
        if context.is_valid:
            return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}
    trace = getattr(record, "tidegate_trace_id", None)
    return {} if trace is None else {"trace_id": trace}


class StdoutEvents(io.TextIOBase):
    """Standard output: lines of ``print`` become events of the server.

    Lines of logging handlers and lines that are JSON are written unchanged.
    """

    def __init__(self, stream: io.TextIOBase, lines: Lines) -> None:
        self._stream = stream
        self._lines = lines
        self._partial = threading.local()

    def __getattr__(self, name: str):
        return getattr(self._stream, name)

    @property
    def encoding(self) -> str:
        return self._stream.encoding

    @property
    def errors(self) -> str | None:
        return self._stream.errors

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def write(self, text: str) -> int:
        if sys._getframe(1).f_globals.get("__name__") == "logging":
            self._stream.write(text)
            return len(text)
        *lines, rest = (getattr(self._partial, "text", "") + text).split("\n")
        # An incomplete line is written when it ends.
        self._partial.text = rest
        for line in lines:
            self._write_line(line)
        return len(text)

    def _write_line(self, line: str) -> None:
        if not (line.startswith("{") and line.endswith("}")):
            line = self._lines.line(time.time(), "info", line, stream="stdout")
        self._stream.write(line + "\n")
        self._stream.flush()

    def flush(self) -> None:
        self._stream.flush()

    def finish(self) -> None:
        """Writes this thread's incomplete line."""
        rest = getattr(self._partial, "text", "")
        if rest:
            self._partial.text = ""
            self._write_line(rest)


def configure(style: str, app: str, slot: int | None) -> None:
    """Writes records without a handler of their own in the format of the server's events."""
    global _lines
    _lines = lines = Lines(style, app, slot)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Formatter(lines))
    # Only used for records without a handler, so none is written twice.
    logging.lastResort = handler
    logging.root.setLevel(logging.INFO)
    configured = logging.basicConfig

    def basic_config(**options) -> None:
        # Without options it is called by ``logging.info()`` and the like if there is no handler.
        if options:
            configured(**options)

    logging.basicConfig = basic_config
    logging.captureWarnings(True)
    sys.stdout = StdoutEvents(sys.stdout, lines)


def adopt_flask() -> None:
    """Lets the handler that Flask adds where an application has none write in the format of the
    server. To `wsgi.errors`, its lines would all be errors, and each line of a traceback one."""
    handler = getattr(sys.modules.get("flask.logging"), "default_handler", None)
    if _lines is None or handler is None:
        return
    formatter = handler.formatter
    if type(formatter) is logging.Formatter and formatter._fmt == _FLASK_FORMAT:
        handler.setStream(sys.stderr)
        handler.setFormatter(Formatter(_lines))


def configure_supervisor(style: str) -> None:
    """Writes what hooks of the supervisor log in the format of the server's events."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Formatter(Lines(style, None, None)))
    logging.lastResort = handler
    logger.setLevel(logging.INFO)


def forked(slot: int) -> None:
    """Names the worker that this process has become."""
    if _lines is not None:
        _lines.use(slot)


def finish() -> None:
    """Writes printed text that has no line end."""
    if isinstance(sys.stdout, StdoutEvents):
        sys.stdout.finish()
