"""What an application logs and prints, line by line in the format of the server's own events.

An application that sets up logging itself (handlers, ``basicConfig``, ``--log-config``) is left
alone: each line appears once, where and as its own handlers write it.
"""

import io
import json
import logging
import os
import sys
import threading
import time

LEVELS = {"WARNING": "warn", "CRITICAL": "error"}


class Lines:
    """Makes lines like those of the server: in text or JSON, with time, level and process."""

    def __init__(self, style: str, app: str, slot: int) -> None:
        self._is_json = style == "json"
        self._fields = {"app": app, "worker": slot, "process": os.getpid()}

    def line(self, seconds: float, level: str, message: str, trace: str = "", **fields) -> str:
        """One event. In text, what follows its first line is indented, as no other line is."""
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
        words = " ".join(f"{key}={value}" for key, value in fields.items())
        rest = [*rest, *trace.split("\n")] if trace else rest
        return "\n  ".join([f"{stamp} {level.upper()} {first} {words}", *rest])


class Formatter(logging.Formatter):
    """A record of Python's logging as a line of the server's."""

    def __init__(self, lines: Lines) -> None:
        super().__init__()
        self._lines = lines

    def format(self, record: logging.LogRecord) -> str:
        level = LEVELS.get(record.levelname, record.levelname.lower())
        trace = "" if not record.exc_info else self.formatException(record.exc_info)
        if record.stack_info:
            trace = "\n".join(filter(None, [trace, self.formatStack(record.stack_info)]))
        message = record.getMessage()
        return self._lines.line(record.created, level, message, trace, logger=record.name)


class Printed(io.TextIOBase):
    """Standard output: what ``print`` writes becomes lines of the server's.

    Left as they are: lines of logging handlers, which have a format, and lines that are JSON.
    """

    def __init__(self, stream: io.TextIOBase, lines: Lines) -> None:
        self._stream = stream
        self._lines = lines
        self._begun = threading.local()

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
        *lines, rest = (getattr(self._begun, "text", "") + text).split("\n")
        # What has no end yet waits for it: it belongs to the same line.
        self._begun.text = rest
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
        """Writes what this thread has begun and not ended."""
        rest = getattr(self._begun, "text", "")
        if rest:
            self._begun.text = ""
            self._write_line(rest)


def configure(style: str, app: str, slot: int) -> None:
    """Has what nobody else handles written as the server writes its events."""
    lines = Lines(style, app, slot)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Formatter(lines))
    # Used for records that no handler of the application takes, so none is written twice.
    logging.lastResort = handler
    logging.root.setLevel(logging.INFO)
    configured = logging.basicConfig

    def basic_config(**options) -> None:
        # Without options it is the call of ``logging.info()`` and the like, for want of a handler.
        if options:
            configured(**options)

    logging.basicConfig = basic_config
    logging.captureWarnings(True)
    sys.stdout = Printed(sys.stdout, lines)


def finish() -> None:
    """Writes what was printed without the end of its line."""
    if isinstance(sys.stdout, Printed):
        sys.stdout.finish()
