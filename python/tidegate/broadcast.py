"""Messages to all worker processes of an application: chat rooms, live pages, "forget that".

    from tidegate import broadcast

    await broadcast.apublish("room", "hello")

    async with broadcast.subscribe("room") as messages:
        async for message in messages:
            ...

In a thread: ``broadcast.publish``, and ``with broadcast.listen("room") as messages: for message in
messages``. A message is ``bytes`` or ``str``, of at most 1 MiB. Whoever listens gets what is
published from then on, in order; nothing is kept for later. A subscriber for which more than 4 MiB
wait is dropped and told so (``SlowSubscriber``): nobody else waits for it.

Outside of a server, in a test for example, messages stay in the process itself.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator

from tidegate import _store
from tidegate._tidegate import LostMessages, SlowSubscriber, StoreError

__all__ = [
    "LostMessages", "Messages", "SlowSubscriber", "StoreError", "Subscription", "apublish",
    "listen", "publish", "subscribe",
]


def _publish(channel: str, message: str | bytes) -> tuple:
    if isinstance(message, str):
        return ("PUBLISH", channel, message, "TEXT")
    if isinstance(message, bytes):
        return ("PUBLISH", channel, message)
    kind = type(message).__name__
    raise TypeError(
        f"a message is bytes or str, not {kind}: serialise it first, with json.dumps for example"
    )


def publish(channel: str, message: str | bytes) -> None:
    """Sends a message to everyone who listens to a channel."""
    _store.call(_publish(channel, message))


async def apublish(channel: str, message: str | bytes) -> None:
    """As ``publish``."""
    await _store.acall(_publish(channel, message))


class Subscription:
    """What ``subscribe`` gives: an asynchronous context manager and iterator of messages."""

    def __init__(self, channels: tuple[str, ...]) -> None:
        self._channels = list(channels)
        self._listening = None

    async def __aenter__(self) -> "Subscription":
        loop = asyncio.get_running_loop()
        self._calls = _store.calls(loop)
        begun = loop.create_future()
        self._listening = self._calls.subscribe(self._channels, begun)
        try:
            await begun
        except BaseException:
            self._listening.close()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._listening.close()

    def __aiter__(self) -> "Subscription":
        return self

    async def __anext__(self) -> str | bytes:
        return (await self._next())[1]

    async def named(self) -> AsyncIterator[tuple[str, str | bytes]]:
        """The messages, each with its channel."""
        while True:
            try:
                yield await self._next()
            except StopAsyncIteration:
                return

    async def _next(self) -> tuple[str, str | bytes]:
        if self._listening is None:
            raise RuntimeError("a subscription begins with 'async with'")
        loop = asyncio.get_running_loop()
        message = self._listening.take()
        while message is None:
            changed = loop.create_future()
            message = self._listening.take_or_wait(self._calls, changed)
            if message is None:
                if self._listening.is_closed:
                    raise StopAsyncIteration
                await changed
        return message


def subscribe(*channels: str) -> Subscription:
    """Listens to channels, in a coroutine. It has begun when the ``async with`` is entered."""
    return Subscription(channels)


class Messages:
    """What ``listen`` gives: a context manager and iterator of messages, for a thread."""

    def __init__(self, channels: tuple[str, ...]) -> None:
        self._listening = _store.store().listen(list(channels))

    def __enter__(self) -> "Messages":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Listens no more; whoever waits for a message stops. Any thread may call it."""
        self._listening.close()

    def __iter__(self) -> "Messages":
        return self

    def __next__(self) -> str | bytes:
        message = self._listening.next()
        if message is None:
            raise StopIteration
        return message[1]

    def named(self) -> Iterator[tuple[str, str | bytes]]:
        """The messages, each with its channel."""
        while (message := self._listening.next()) is not None:
            yield message

    def get(self, timeout: float | None = None) -> str | bytes | None:
        """The next message; None if there was none for so many seconds, or after ``close``."""
        message = self._listening.next(timeout)
        return None if message is None else message[1]


def listen(*channels: str) -> Messages:
    """Listens to channels, in a thread. It has begun when this returns."""
    return Messages(channels)
