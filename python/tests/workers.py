"""Two workers of one server, each with a connection of its own."""

import json
import os
import signal
import time
from contextlib import contextmanager
from pathlib import Path


def stands_still(pid):
    """Whether all its threads have stopped: one that has not yet may still take a connection."""
    def state(stat):
        return stat.read_text().rpartition(")")[2].split()[0]

    try:
        return all(state(stat) == "T" for stat in Path(f"/proc/{pid}/task").glob("*/stat"))
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def paused(pid):
    """Meanwhile that worker stands still, and another takes what comes."""
    os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + 60
    while not stands_still(pid):
        assert time.monotonic() < end
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def ask(client, target):
    """What is answered, which is JSON, on a connection that is kept."""
    client.send(f"GET {target} HTTP/1.1\r\nhost: test\r\n\r\n")
    answer = client.answer()
    assert answer.status == 200, answer
    return json.loads(answer.body) if answer.body else None


def both(server):
    """A connection to each of two workers; the application says which it is under /pid."""
    one = server.connect()
    pid = ask(one, "/pid")
    with paused(pid):
        other = server.connect()
        assert ask(other, "/pid") != pid
    return one, other
