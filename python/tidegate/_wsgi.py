"""What a WSGI application is given that is Python's: ``wsgi.errors``, and the log of its errors."""

import logging
import threading

logger = logging.getLogger("tidegate.error")


class Errors:
    """``wsgi.errors``: text that ends up in the log, line by line.

    Every thread has its own line, so that those of two requests are not mixed.
    """

    encoding = "utf-8"

    def __init__(self) -> None:
        self._begun = threading.local()

    def write(self, text: str) -> int:
        *lines, rest = (getattr(self._begun, "text", "") + text).split("\n")
        self._begun.text = rest
        for line in lines:
            logger.error("%s", line)
        return len(text)

    def writelines(self, texts) -> None:
        for text in texts:
            self.write(text)

    def flush(self) -> None:
        rest = getattr(self._begun, "text", "")
        if rest:
            self._begun.text = ""
            logger.error("%s", rest)

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True


def report(error: BaseException) -> None:
    """Logs what an application raised."""
    logger.error("Exception in WSGI application", exc_info=error)


def complain(what: str) -> None:
    """Logs what an application did wrong without raising."""
    logger.error("WSGI application: %s", what)
