"""Messages to all worker processes of an application: chat rooms, live pages, invalidation.

    from tidegate import broadcast

    await broadcast.apublish("room", "hello")

    async with broadcast.subscribe("room") as messages:
        async for message in messages:
            ...

In a thread: ``broadcast.publish``, and ``with broadcast.listen("room") as messages: for message in
messages``. A message is ``bytes`` or ``str``, of at most 1 MiB. A subscriber gets the messages
published after it has subscribed, in order; messages are not stored. A subscriber with more than
4 MiB of unread messages is dropped (``SlowSubscriber``) and delays nothing else.

Outside a server, in a test for example, messages stay in the process itself.
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
    """Sends a message to all subscribers of a channel."""
    _store.call(_publish(channel, message))


async def apublish(channel: str, message: str | bytes) -> None:
    """As ``publish``."""
    await _store.acall(_publish(channel, message))


class Subscription:
    """An asynchronous context manager and iterator of messages."""

    def __init__(
        self,
        channels: tuple[str, ...],
        connection: _store.Connection | None = None,
    ) -> None:
        self._connection = connection or _store.state
        self._channels = self._connection.channels(list(channels))
        self._subscription = None

    async def __aenter__(self) -> "Subscription":
        loop = asyncio.get_running_loop()
        self._calls = self._connection.calls(loop)
        active = loop.create_future()
        self._subscription = self._calls.subscribe(self._channels, active)
        try:
            await active
        except BaseException:
            self._subscription.close()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._subscription.close()

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
        if self._subscription is None:
            raise RuntimeError("a subscription begins with 'async with'")
        loop = asyncio.get_running_loop()
        message = self._subscription.take()
        while message is None:
            changed = loop.create_future()
            message = self._subscription.take_or_wait(self._calls, changed)
            if message is None:
                if self._subscription.is_closed:
                    raise StopAsyncIteration
                await changed
        return self._connection.message(message)


def subscribe(*channels: str) -> Subscription:
    """Subscribes to channels in a coroutine. Active once the ``async with`` is entered."""
    return Subscription(channels)


class Messages:
    """A context manager and iterator of messages, for a thread."""

    def __init__(
        self,
        channels: tuple[str, ...],
        connection: _store.Connection | None = None,
    ) -> None:
        self._connection = connection or _store.state
        self._subscription = self._connection.subscribe(list(channels))

    def __enter__(self) -> "Messages":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Unsubscribes and ends a waiting iteration. Can be called from any thread."""
        self._subscription.close()

    def __iter__(self) -> "Messages":
        return self

    def __next__(self) -> str | bytes:
        message = self._connection.next_message(self._subscription)
        if message is None:
            raise StopIteration
        return message[1]

    def named(self) -> Iterator[tuple[str, str | bytes]]:
        """The messages, each with its channel."""
        while (message := self._connection.next_message(self._subscription)) is not None:
            yield message

    def get(self, timeout: float | None = None) -> str | bytes | None:
        """The next message; None if none arrives within ``timeout`` seconds, or after ``close``."""
        message = self._connection.next_message(self._subscription, timeout)
        return None if message is None else message[1]


def listen(*channels: str) -> Messages:
    """Subscribes to channels in a thread. Active when this returns."""
    return Messages(channels)
