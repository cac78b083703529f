"""The store shared by all worker processes of an application: its location, and calls to it.

A worker uses the supervisor's store; any other process (a test, a shell, a script) has its own,
with the same calls. A call from a coroutine never blocks its event loop.
"""

import asyncio
import math
import os
import pickle
import threading
import weakref
from datetime import timedelta
from typing import TYPE_CHECKING

from tidegate import _tidegate

if TYPE_CHECKING:
    from tidegate import _gevent

#: In a process with greenlets: ``_gevent.StoreCalls``.
switching: "_gevent.StoreCalls | None" = None
_connections: "weakref.WeakSet[Connection]" = weakref.WeakSet()


class Connection:
    """Calls to one store: at a path, in Redis, or in this process."""

    #: True if one command removes the keys of this application and nothing else.
    clears_at_once = True

    def __init__(self, path: str | None = None, redis: str | None = None) -> None:
        self._path = path
        self._redis = redis
        self.reset()
        _connections.add(self)

    def reset(self) -> None:
        self._store: "_tidegate.Store | None" = None
        #: Held while the store is opened: jobs belong to the connection that has taken them.
        self._opening = threading.Lock()
        self._calls: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _tidegate.Calls]" = (
            weakref.WeakKeyDictionary()
        )

    def connect(self, path: str | None) -> None:
        """Sets the location of the store: the socket at a path, or None for this process."""
        self._path = path
        self.reset()

    def store(self) -> "_tidegate.Store":
        if self._store is None:
            with self._opening:
                if self._store is None:
                    self._store = _tidegate.Store(self._path, self._redis)
        return self._store

    def calls(self, loop: asyncio.AbstractEventLoop) -> "_tidegate.Calls":
        """The calls of an event loop; the loop watches for their replies from the first use on."""
        found = self._calls.get(loop)
        if found is None:
            found = self._calls[loop] = self.store().calls()
            loop.add_reader(found.fileno(), found.drain)
        return found

    def _switches(self) -> bool:
        return switching is not None and not self.store().is_local and switching.can_switch()

    def call(self, *commands: tuple) -> list:
        if not commands:
            return []  # no reply would come
        if self._switches():
            return switching.call(self, commands)
        return self.store().call(commands)

    async def acall(self, *commands: tuple) -> list:
        if not commands:
            return []
        store = self.store()
        if store.is_local:
            return store.call(commands)
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self.calls(loop).begin(commands, future)
        return await future

    def channels(self, names: list[str]) -> list[str]:
        """The names of channels in the store."""
        return names

    def message(self, message: tuple[str, bytes] | None) -> tuple[str, str | bytes] | None:
        """A message as it was published."""
        return message

    def subscribe(self, channels: list[str]) -> "_tidegate.ChannelSubscription":
        """Subscribes to channels in a thread or a greenlet."""
        channels = self.channels(channels)
        if self._switches():
            return switching.subscribe(self, channels)
        return self.store().subscribe(channels)

    def next_message(
        self,
        subscription: "_tidegate.ChannelSubscription",
        timeout: float | None = None,
    ) -> tuple[str, str | bytes] | None:
        """Waits for the next message in a thread or a greenlet; None after the time, or the end."""
        if self._switches():
            return self.message(switching.next(self, subscription, timeout))
        return self.message(subscription.next(timeout))


def _reset() -> None:
    for connection in _connections:
        connection.reset()


# A forked process has neither the connections nor their threads.
os.register_at_fork(after_in_child=_reset)

#: The store of the application, which ends with its server.
shared = Connection()
connect = shared.connect
#: Where the keys of ``cache`` and the channels of ``broadcast`` are.
state = shared


def use_redis(url: str, app: str) -> None:
    """Lets this process keep keys and channels in Redis. Raises ``ValueError``; connects later."""
    global state
    from tidegate import _redis_state

    state = _redis_state.RedisState(url, app)


def call(*commands: tuple) -> list:
    """Executes commands on keys and channels; returns their replies."""
    return state.call(*commands)


async def acall(*commands: tuple) -> list:
    """As ``call``, in a coroutine."""
    return await state.acall(*commands)


def dump(value: object) -> bytes | int:
    """Any value as one of the store's: an integer stays one, so that it can be incremented."""
    if type(value) is int and -(2**63) <= value < 2**63:
        return value
    return pickle.dumps(value, protocol=5)


def load(value: bytes | str | int) -> object:
    """The value that ``dump`` was given. Only this application writes to its store."""
    return pickle.loads(value) if isinstance(value, bytes) else value


def value_arguments(value: object) -> tuple:
    """The arguments for a value and its type."""
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


def ttl_arguments(ttl: float | timedelta | None) -> tuple:
    """The arguments for the expiry of a key."""
    if ttl is None:
        return ()
    seconds = ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
    if not seconds > 0 or math.isinf(seconds):
        raise ValueError("ttl is a number of seconds above 0, or None for no expiry")
    return ("PX", math.ceil(seconds * 1000))
