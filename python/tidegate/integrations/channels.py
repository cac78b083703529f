"""The channel layer of Django Channels over ``tidegate.broadcast``.

    CHANNEL_LAYERS = {"default": {"BACKEND": "tidegate.integrations.channels.ChannelLayer"}}

Every worker receives every message of the layer once and gives it to its own members of the group;
a worker without members drops it. ``runworker`` is not a worker of the server and receives nothing.
``capacity``, ``channel_capacity``, ``expiry`` and ``group_expiry`` (seconds) are those of Channels'
other layers. Messages are packed with msgpack; ``MessageTooLarge`` is raised for one of more than
1 MiB.
"""

import asyncio
import time
import uuid
from collections import deque

import msgpack
from channels.exceptions import ChannelFull, MessageTooLarge
from channels.layers import BaseChannelLayer

from tidegate import broadcast, cache

# Bytes of a packed message: those of a message of `tidegate.broadcast` without what is around it.
_MESSAGE_BYTES = (1 << 20) - 256
# How often unused channels are looked for, in seconds.
_SWEEP = 10.0
# The pause before a subscription is tried again, in seconds.
_RETRY = 1.0


class ChannelLayer(BaseChannelLayer):
    """Groups and channels of all workers of an application."""

    extensions = ["groups", "flush"]

    def __init__(
        self,
        expiry=60,
        group_expiry=86400,
        capacity=100,
        channel_capacity=None,
        prefix="channels",
        clock=time.monotonic,
    ) -> None:
        super().__init__(expiry=expiry, capacity=capacity)
        self.channel_capacity = self.compile_capacities(channel_capacity or {})
        self.group_expiry = group_expiry
        self.topic = prefix
        self.clock = clock
        # Channels of this process have it in their names.
        self.mark = f".{uuid.uuid4().hex[:12]}!"
        self._receivers: dict[asyncio.AbstractEventLoop, _Receiver] = {}

    async def _receiver(self) -> "_Receiver":
        """The receiver of the running event loop, once it is subscribed."""
        loop = asyncio.get_running_loop()
        # Tests, for example, run one event loop after another.
        for other in [other for other in self._receivers if other.is_closed()]:
            del self._receivers[other]
        receiver = self._receivers.get(loop)
        if receiver is None:
            receiver = self._receivers[loop] = _Receiver(self)
        try:
            await asyncio.shield(receiver.subscribed)
        except broadcast.StoreError:
            self._receivers.pop(loop, None)
            raise
        return receiver

    async def new_channel(self, prefix="specific"):
        receiver = await self._receiver()
        name = f"{prefix}{self.mark}{uuid.uuid4().hex}"
        receiver.channel(name)
        return name

    async def send(self, channel, message):
        packed = _pack_message(message)
        self.require_valid_channel_name(channel)
        receiver = self._receivers.get(asyncio.get_running_loop())
        if receiver is None or not receiver.has(channel):
            await self._publish("send", channel, packed)
        elif not receiver.put(channel, packed):
            raise ChannelFull(channel)

    async def receive(self, channel):
        self.require_valid_channel_name(channel)
        receiver = await self._receiver()
        return await receiver.take(channel)

    async def group_add(self, group, channel):
        await self._change("group_add", group, channel)

    async def group_discard(self, group, channel):
        await self._change("group_discard", group, channel)

    async def _change(self, change, group, channel):
        self.require_valid_group_name(group)
        self.require_valid_channel_name(channel)
        receiver = self._receivers.get(asyncio.get_running_loop())
        if receiver is not None and receiver.has(channel):
            getattr(receiver, change)(group, channel)
        else:
            await self._publish(change, group, channel)

    async def group_send(self, group, message):
        packed = _pack_message(message)
        self.require_valid_group_name(group)
        await self._publish("group_send", group, packed)

    async def flush(self):
        for receiver in self._receivers.values():
            receiver.flush()
        await self._publish("flush", "", b"")

    async def close(self):
        receiver = self._receivers.pop(asyncio.get_running_loop(), None)
        if receiver is not None:
            await receiver.close()

    async def _publish(self, kind, target, content):
        number = uuid.uuid4().bytes
        await broadcast.apublish(self.topic, msgpack.packb([kind, target, content, number]))


class _Receiver:
    """The channels and groups of one event loop."""

    def __init__(self, layer: ChannelLayer) -> None:
        self._layer = layer
        self._clock = layer.clock
        self._channels: dict[str, _Channel] = {}
        self._groups: dict[str, set[str]] = {}
        self._swept = self._clock()
        loop = asyncio.get_running_loop()
        self.subscribed = loop.create_future()
        self._task = loop.create_task(self._run())

    async def _run(self) -> None:
        while True:
            try:
                async with broadcast.subscribe(self._layer.topic) as messages:
                    if not self.subscribed.done():
                        self.subscribed.set_result(None)
                    async for message in messages:
                        self._dispatch(*msgpack.unpackb(message))
                    return
            except broadcast.StoreError as error:
                if not self.subscribed.done():
                    self.subscribed.set_exception(error)
                    return
                # Messages may be lost, as the interface says; later ones are received again.
                await asyncio.sleep(_RETRY)

    def _dispatch(self, kind, target, content, number) -> None:
        if kind == "group_send":
            for channel in self._groups.get(target, ()):
                # A channel that is full misses the message, as the interface says.
                self.put(channel, content, number)
        elif kind == "flush":
            self.flush()
        elif kind == "send":
            if self._is_for_us(target):
                self.put(target, content, number)
        elif self._is_for_us(content):
            getattr(self, kind)(target, content)

    def _is_for_us(self, channel: str) -> bool:
        """True for a channel of this process, and for one of no process: one receiver gets it."""
        return self._layer.mark in channel or "!" not in channel

    def has(self, channel: str) -> bool:
        return self._layer.mark in channel and channel in self._channels

    def group_add(self, group: str, channel: str) -> None:
        self.channel(channel)
        self._groups.setdefault(group, set()).add(channel)

    def group_discard(self, group: str, channel: str) -> None:
        members = self._groups.get(group, set())
        members.discard(channel)
        if not members:
            self._groups.pop(group, None)

    def put(self, name: str, packed: bytes, number: bytes = b"") -> bool:
        """Stores a message; False if the channel is full."""
        channel = self.channel(name)
        now = self._clock()
        while channel.messages and channel.messages[0][0] <= now:
            channel.messages.popleft()
        if len(channel.messages) >= self._layer.get_capacity(name):
            return False
        channel.messages.append((now + self._layer.expiry, packed, number))
        channel.wake()
        return True

    async def take(self, name: str) -> dict:
        """Waits for the next message of a channel."""
        while True:
            channel = self.channel(name)
            while channel.messages:
                end, packed, number = channel.messages.popleft()
                channel.used = self._clock()
                if end > channel.used and await self._claim(name, number):
                    channel.wake()
                    return msgpack.unpackb(packed, strict_map_key=False)
            waiting = asyncio.get_running_loop().create_future()
            channel.waiting.append(waiting)
            try:
                await waiting
            except asyncio.CancelledError:
                # Another receiver gets the message.
                channel.wake()
                raise
            finally:
                channel.used = self._clock()
                if waiting in channel.waiting:
                    channel.waiting.remove(waiting)

    async def _claim(self, name: str, number: bytes) -> bool:
        """True if no other process has received the message of a channel of no process."""
        if "!" in name or not number:
            return True
        key = f"{self._layer.topic}:{number.hex()}:{name}"
        return await cache.aadd(key, 1, ttl=self._layer.expiry)

    def channel(self, name: str) -> "_Channel":
        now = self._clock()
        if now - self._swept > _SWEEP:
            self._swept = now
            self._sweep(now)
        found = self._channels.get(name)
        if found is None:
            found = self._channels[name] = _Channel(now)
        return found

    def _sweep(self, now: float) -> None:
        """Removes channels from which nothing was received for long: their consumers are gone."""
        members = set().union(*self._groups.values())
        layer = self._layer
        gone = {
            name for name, channel in self._channels.items()
            if not channel.waiting
            and now - channel.used > (layer.group_expiry if name in members else layer.expiry)
        }
        for name in gone:
            del self._channels[name]
        for group in [group for group, members in self._groups.items() if members & gone]:
            self._groups[group] -= gone
            if not self._groups[group]:
                del self._groups[group]

    def flush(self) -> None:
        self._groups.clear()
        for channel in self._channels.values():
            channel.messages.clear()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


class _Channel:
    """The messages of a channel that are not received yet, and what waits for them."""

    def __init__(self, now: float) -> None:
        #: When it expires, the packed message, the number by which it is claimed.
        self.messages: deque[tuple[float, bytes, bytes]] = deque()
        self.waiting: deque[asyncio.Future] = deque()
        self.used = now

    def wake(self) -> None:
        """Wakes a receiver if there is a message for it."""
        while self.messages and self.waiting:
            waiting = self.waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return


def _pack_message(message: dict) -> bytes:
    if not isinstance(message, dict):
        raise TypeError("a message is a dict")
    packed = msgpack.packb(message)
    if len(packed) > _MESSAGE_BYTES:
        raise MessageTooLarge(f"{len(packed)} bytes, at most {_MESSAGE_BYTES}")
    return packed
