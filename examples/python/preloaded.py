"""An application that is imported once; its workers are forked and share its memory.

    tidegate run preloaded:app --app-dir examples/python --workers 4 --preload
    curl http://127.0.0.1:8000/squares/8
"""

import functools
import os

#: Made before the fork: all workers read the same memory.
SQUARES = {number: number * number for number in range(200_000)}
IMPORTED_BY = os.getpid()


@functools.cache
def connection():
    """What must not be shared is opened at the first request, in the worker."""
    return f"connection of process {os.getpid()}"


def app(environ, start_response):
    number = int(environ["PATH_INFO"].rpartition("/")[2])
    is_forked = IMPORTED_BY != os.getpid()
    body = f"{SQUARES[number]} forked={is_forked} {connection()}\n".encode()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [body]
