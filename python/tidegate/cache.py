"""Keys and values with expiry, shared by all worker processes of an application.

    from tidegate import cache

    cache.set("greeting", "hello", ttl=60)
    cache.get("greeting")                      # "hello", in every worker
    await cache.aget("greeting")               # in a coroutine, without blocking the event loop

A value is ``bytes``, ``str`` or ``int`` (64 bits) and keeps its type; serialise anything else.
``ttl`` is in seconds; without one a key stays until it is deleted, or evicted because memory is
full. Nothing is written to disk: it is a cache.

Outside a server, in a test for example, the store is in the process itself.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from typing import TypeVar

from tidegate import _store
from tidegate._tidegate import StoreError

__all__ = [
    "StoreError", "get", "set", "add", "delete", "incr", "decr", "touch", "get_many", "set_many",
    "delete_many", "get_or_set", "clear", "aget", "aset", "aadd", "adelete", "aincr", "adecr",
    "atouch", "aget_many", "aset_many", "adelete_many", "aget_or_set", "aclear",
]

Value = bytes | str | int
Ttl = float | timedelta | None
Default = TypeVar("Default")

# Keys in one command; the store accepts commands of 1024 arguments.
_BATCH = 1000


def _batches(keys: Iterable[str]) -> list[list[str]]:
    keys = list(keys)
    return [keys[at:at + _BATCH] for at in range(0, len(keys), _BATCH)]


def _set(key: str, value: Value, ttl: Ttl) -> tuple:
    return ("SET", key, *_store.value_arguments(value), *_store.ttl_arguments(ttl))


def _incr(key: str, delta: int, ttl: Ttl) -> tuple:
    return ("INCRBY", key, delta, *_store.ttl_arguments(ttl))


def _touch(key: str, ttl: Ttl) -> tuple:
    return ("PEXPIRE", key, _store.ttl_arguments(ttl)[1]) if ttl is not None else ("PERSIST", key)


def _found(parts: list[list[str]], replies: list) -> dict[str, Value]:
    pairs = ((key, value) for part, values in zip(parts, replies, strict=True)
             for key, value in zip(part, values, strict=True))
    return {key: value for key, value in pairs if value is not None}


def get(key: str, default: Default = None) -> Value | Default:
    """The value of a key, or ``default``."""
    [value] = _store.call(("GET", key))
    return default if value is None else value


async def aget(key: str, default: Default = None) -> Value | Default:
    """As ``get``."""
    [value] = await _store.acall(("GET", key))
    return default if value is None else value


def set(key: str, value: Value, ttl: Ttl = None) -> None:
    """Stores a value, replacing the previous one."""
    _store.call(_set(key, value, ttl))


async def aset(key: str, value: Value, ttl: Ttl = None) -> None:
    """As ``set``."""
    await _store.acall(_set(key, value, ttl))


def add(key: str, value: Value, ttl: Ttl = None) -> bool:
    """Stores a value if the key has none, and returns whether it did: one caller gets True."""
    [done] = _store.call((*_set(key, value, ttl), "NX"))
    return done is not None


async def aadd(key: str, value: Value, ttl: Ttl = None) -> bool:
    """As ``add``."""
    [done] = await _store.acall((*_set(key, value, ttl), "NX"))
    return done is not None


def delete(key: str) -> bool:
    """Deletes a key, and returns whether it existed."""
    [count] = _store.call(("DEL", key))
    return count > 0


async def adelete(key: str) -> bool:
    """As ``delete``."""
    [count] = await _store.acall(("DEL", key))
    return count > 0


def incr(key: str, delta: int = 1, ttl: Ttl = None) -> int:
    """Adds ``delta`` atomically and returns the sum. A key without a value counts from 0 and
    expires after ``ttl``; the expiry of an existing key does not change."""
    [sum] = _store.call(_incr(key, delta, ttl))
    return sum


async def aincr(key: str, delta: int = 1, ttl: Ttl = None) -> int:
    """As ``incr``."""
    [sum] = await _store.acall(_incr(key, delta, ttl))
    return sum


def decr(key: str, delta: int = 1, ttl: Ttl = None) -> int:
    """Subtracts ``delta``; otherwise as ``incr``."""
    return incr(key, -delta, ttl)


async def adecr(key: str, delta: int = 1, ttl: Ttl = None) -> int:
    """As ``decr``."""
    return await aincr(key, -delta, ttl)


def touch(key: str, ttl: Ttl = None) -> bool:
    """Sets the expiry of a key, counted from now, and returns whether the key exists."""
    [found] = _store.call(_touch(key, ttl))
    return found > 0


async def atouch(key: str, ttl: Ttl = None) -> bool:
    """As ``touch``."""
    [found] = await _store.acall(_touch(key, ttl))
    return found > 0


def get_many(keys: Iterable[str]) -> dict[str, Value]:
    """The values of those keys that have one."""
    parts = _batches(keys)
    return _found(parts, _store.call(*[("MGET", *part) for part in parts]))


async def aget_many(keys: Iterable[str]) -> dict[str, Value]:
    """As ``get_many``."""
    parts = _batches(keys)
    return _found(parts, await _store.acall(*[("MGET", *part) for part in parts]))


def set_many(values: Mapping[str, Value], ttl: Ttl = None) -> None:
    """Stores many values in one round trip."""
    _store.call(*[_set(key, value, ttl) for key, value in values.items()])


async def aset_many(values: Mapping[str, Value], ttl: Ttl = None) -> None:
    """As ``set_many``."""
    await _store.acall(*[_set(key, value, ttl) for key, value in values.items()])


def delete_many(keys: Iterable[str]) -> int:
    """Deletes many keys, and returns how many existed."""
    return sum(_store.call(*[("DEL", *part) for part in _batches(keys)]))


async def adelete_many(keys: Iterable[str]) -> int:
    """As ``delete_many``."""
    return sum(await _store.acall(*[("DEL", *part) for part in _batches(keys)]))


def get_or_set(key: str, default: Value | Callable[[], Value], ttl: Ttl = None) -> Value:
    """The value of a key. If there is none, stores ``default``, or its result if it is a function.
    When several callers do so at the same time, all get the first value."""
    value = get(key)
    if value is None:
        new = default() if callable(default) else default
        value = new if add(key, new, ttl) else get(key, new)
    return value


async def aget_or_set(
    key: str, default: Value | Callable[[], Value | Awaitable[Value]], ttl: Ttl = None
) -> Value:
    """As ``get_or_set``; ``default`` may be a coroutine function."""
    value = await aget(key)
    if value is None:
        new = default() if callable(default) else default
        if inspect.isawaitable(new):
            new = await new
        value = new if await aadd(key, new, ttl) else await aget(key, new)
    return value


def clear() -> None:
    """Deletes every key of the application."""
    _store.call(("FLUSHALL",))


async def aclear() -> None:
    """As ``clear``."""
    await _store.acall(("FLUSHALL",))
