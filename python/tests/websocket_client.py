"""A WebSocket client: the library `websockets`, with the time-outs of the tests."""

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from hosting import PATIENCE_S


def dial(server, path, **options):
    """A session, or InvalidStatus. Messages are not compressed by default."""
    options.setdefault("compression", None)
    options.setdefault("max_size", 1 << 26)
    options.setdefault("ping_interval", None)
    uri = f"ws://127.0.0.1:{server.port}{path}"
    return connect(uri, open_timeout=PATIENCE_S, close_timeout=PATIENCE_S, legacy=True, **options)


def refused(server, path, **options):
    """Returns the response that denied the session."""
    try:
        dial(server, path, **options).close()
    except InvalidStatus as error:
        return error.response
    raise AssertionError("the session was accepted")


def ended(session):
    """Reads to the end; returns the messages, the code and the reason."""
    messages = []
    try:
        while True:
            messages.append(session.recv(timeout=PATIENCE_S))
    except ConnectionClosed as closed:
        code = closed.rcvd.code if closed.rcvd else 1006
        return messages, code, closed.rcvd.reason if closed.rcvd else ""
