"""Two workers of one server, each with a connection of its own."""

import json
import os
import signal
from contextlib import contextmanager


@contextmanager
def paused(pid):
    """Meanwhile that worker stands still, and another takes what comes."""
    os.kill(pid, signal.SIGSTOP)
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
