"""The Python part of the WSGI server: ``wsgi.errors`` and the log of violations of WSGI."""

import threading

from tidegate._log import logger


class Errors:
    """``wsgi.errors``: writes text to the log, line by line.

    Every thread has its own line, so that lines of two requests are not mixed.
    """

    encoding = "utf-8"

    def __init__(self) -> None:
        self._partial = threading.local()

    def write(self, text: str) -> int:
        *lines, rest = (getattr(self._partial, "text", "") + text).split("\n")
        self._partial.text = rest
        for line in lines:
            logger.error("%s", line)
        return len(text)

    def writelines(self, texts) -> None:
        for text in texts:
            self.write(text)

    def flush(self) -> None:
        rest = getattr(self._partial, "text", "")
        if rest:
            self._partial.text = ""
            logger.error("%s", rest)

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True


class Steps:
    """The body of a response whose steps are made by a function: within a context, for example."""

    def __init__(self, body, call) -> None:
        self._body = body
        self._call = call
        self._steps = None

    def __iter__(self) -> "Steps":
        return self

    def __next__(self) -> bytes:
        if self._steps is None:
            self._steps = self._call(iter, self._body)
        return self._call(next, self._steps)

    def close(self) -> None:
        if hasattr(self._body, "close"):
            self._call(self._body.close)


def complain(problem: str) -> None:
    """Logs a violation of WSGI that raised no exception."""
    logger.error("WSGI application: %s", problem)
