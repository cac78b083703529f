"""The store that all worker processes of an application share: which one, and calls to it.

In a worker it is the supervisor's; anywhere else (a test, a shell, a script) it is one in this
process, with the same calls. A call from a coroutine never blocks its event loop.
"""

import asyncio
import math
import os
import weakref
from datetime import timedelta

from tidegate import _tidegate

_place: str | None = None
_store: "_tidegate.Store | None" = None
_calls: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _tidegate.Calls]" = (
    weakref.WeakKeyDictionary()
)


def connect(path: str | None) -> None:
    """Says where the store is: the socket at a path, or this process."""
    global _place
    _place = path
    _forget()


def _forget() -> None:
    global _store, _calls
    _store, _calls = None, weakref.WeakKeyDictionary()


# A connection and its thread do not come along into a forked process.
os.register_at_fork(after_in_child=_forget)


def store() -> "_tidegate.Store":
    global _store
    if _store is None:
        _store = _tidegate.Store(_place)
    return _store


def calls(loop: asyncio.AbstractEventLoop) -> "_tidegate.Calls":
    """The calls of an event loop, which hears of their answers from now on."""
    found = _calls.get(loop)
    if found is None:
        found = _calls[loop] = store().calls()
        loop.add_reader(found.fileno(), found.drain)
    return found


def call(*commands: tuple) -> list:
    return store().call(commands)


async def acall(*commands: tuple) -> list:
    shared = store()
    if shared.is_local:
        return shared.call(commands)
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    calls(loop).begin(commands, future)
    return await future


def value_words(value: object) -> tuple:
    """A value and what it is, as the store is told."""
    if isinstance(value, str):
        return (value, "TEXT")
    if isinstance(value, bytes):
        return (value,)
    if isinstance(value, int) and not isinstance(value, bool):
        return (value, "INT")
    kind = type(value).__name__
    raise TypeError(
        f"a value is bytes, str or int, not {kind}: serialise it first, with json.dumps for example"
    )


def span_words(ttl: float | timedelta | None) -> tuple:
    """When the time of a key ends, as the store is told."""
    if ttl is None:
        return ()
    seconds = ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
    if not seconds > 0 or math.isinf(seconds):
        raise ValueError("ttl is a number of seconds above 0, or None for no end")
    return ("PX", math.ceil(seconds * 1000))
