"""Two workers of one server, each with its own connection."""

import json
import os
import signal
import time
from contextlib import contextmanager
from pathlib import Path


def is_stopped(pid):
    """True if all its threads have stopped: another one could still accept a connection."""
    def state(stat):
        return stat.read_text().rpartition(")")[2].split()[0]

    try:
        return all(state(stat) == "T" for stat in Path(f"/proc/{pid}/task").glob("*/stat"))
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def paused(pid):
    """Stops a worker within the block, so that the other one accepts all connections."""
    os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + 60
    while not is_stopped(pid):
        assert time.monotonic() < end
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def ask(client, target):
    """Returns the JSON of a response on a persistent connection."""
    client.send(f"GET {target} HTTP/1.1\r\nhost: test\r\n\r\n")
    response = client.response()
    assert response.status == 200, response
    return json.loads(response.body) if response.body else None


def both(server):
    """A connection to each of two workers; the application returns its process id under /pid."""
    one = server.connect()
    pid = ask(one, "/pid")
    with paused(pid):
        other = server.connect()
        assert ask(other, "/pid") != pid
    return one, other
