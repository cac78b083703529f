"""Keys and values with an end to their time, shared by all worker processes of an application.

    from tidegate import cache

    cache.set("greeting", "hello", ttl=60)
    cache.get("greeting")                      # "hello", in whichever worker
    await cache.aget("greeting")               # in a coroutine: the event loop goes on meanwhile

A value is ``bytes``, ``str`` or ``int`` (64 bits) and comes back as what it was; anything else is
to be serialised. ``ttl`` is in seconds; without one a key stays until it is deleted, or until
memory is full and others were used more lately. Nothing is written to disk: it is a cache.

Outside of a server, in a test for example, the store is in the process itself.
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

# Keys in one command; the store takes commands of 1024 words.
_AT_ONCE = 1000


def _parts(keys: Iterable[str]) -> list[list[str]]:
    keys = list(keys)
    return [keys[at:at + _AT_ONCE] for at in range(0, len(keys), _AT_ONCE)]


def _set(key: str, value: Value, ttl: Ttl) -> tuple:
    return ("SET", key, *_store.value_words(value), *_store.span_words(ttl))


def _incr(key: str, delta: int, ttl: Ttl) -> tuple:
    return ("INCRBY", key, delta, *_store.span_words(ttl))


def _touch(key: str, ttl: Ttl) -> tuple:
    return ("PEXPIRE", key, _store.span_words(ttl)[1]) if ttl is not None else ("PERSIST", key)


def _found(parts: list[list[str]], answers: list) -> dict[str, Value]:
    pairs = ((key, value) for part, values in zip(parts, answers, strict=True)
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
    """Stores a value, in the place of the one there was."""
    _store.call(_set(key, value, ttl))


async def aset(key: str, value: Value, ttl: Ttl = None) -> None:
    """As ``set``."""
    await _store.acall(_set(key, value, ttl))


def add(key: str, value: Value, ttl: Ttl = None) -> bool:
    """Stores a value if the key has none; whether it did. One caller of many gets True."""
    [done] = _store.call((*_set(key, value, ttl), "NX"))
    return done is not None


async def aadd(key: str, value: Value, ttl: Ttl = None) -> bool:
    """As ``add``."""
    [done] = await _store.acall((*_set(key, value, ttl), "NX"))
    return done is not None


def delete(key: str) -> bool:
    """Forgets a key; whether there was one."""
    [count] = _store.call(("DEL", key))
    return count > 0


async def adelete(key: str) -> bool:
    """As ``delete``."""
    [count] = await _store.acall(("DEL", key))
    return count > 0


def incr(key: str, delta: int = 1, ttl: Ttl = None) -> int:
    """Counts up and gives the sum; no count is lost. A key that has no value counts from 0, and
    its time ends after ``ttl``; that of one which has a value stays."""
    [sum] = _store.call(_incr(key, delta, ttl))
    return sum


async def aincr(key: str, delta: int = 1, ttl: Ttl = None) -> int:
    """As ``incr``."""
    [sum] = await _store.acall(_incr(key, delta, ttl))
    return sum


def decr(key: str, delta: int = 1, ttl: Ttl = None) -> int:
    """Counts down, as ``incr`` counts up."""
    return incr(key, -delta, ttl)


async def adecr(key: str, delta: int = 1, ttl: Ttl = None) -> int:
    """As ``decr``."""
    return await aincr(key, -delta, ttl)


def touch(key: str, ttl: Ttl = None) -> bool:
    """Sets when the time of a key ends, counted from now; whether there is such a key."""
    [found] = _store.call(_touch(key, ttl))
    return found > 0


async def atouch(key: str, ttl: Ttl = None) -> bool:
    """As ``touch``."""
    [found] = await _store.acall(_touch(key, ttl))
    return found > 0


def get_many(keys: Iterable[str]) -> dict[str, Value]:
    """The values of those keys that have one."""
    parts = _parts(keys)
    return _found(parts, _store.call(*[("MGET", *part) for part in parts]))


async def aget_many(keys: Iterable[str]) -> dict[str, Value]:
    """As ``get_many``."""
    parts = _parts(keys)
    return _found(parts, await _store.acall(*[("MGET", *part) for part in parts]))


def set_many(values: Mapping[str, Value], ttl: Ttl = None) -> None:
    """Stores many values on one way there and back."""
    _store.call(*[_set(key, value, ttl) for key, value in values.items()])


async def aset_many(values: Mapping[str, Value], ttl: Ttl = None) -> None:
    """As ``set_many``."""
    await _store.acall(*[_set(key, value, ttl) for key, value in values.items()])


def delete_many(keys: Iterable[str]) -> int:
    """Forgets many keys; how many there were."""
    return sum(_store.call(*[("DEL", *part) for part in _parts(keys)]))


async def adelete_many(keys: Iterable[str]) -> int:
    """As ``delete_many``."""
    return sum(await _store.acall(*[("DEL", *part) for part in _parts(keys)]))


def get_or_set(key: str, default: Value | Callable[[], Value], ttl: Ttl = None) -> Value:
    """The value of a key; where there is none it is made, by a call if ``default`` is a function,
    and stored. When several make one at the same time, all get the first."""
    value = get(key)
    if value is None:
        made = default() if callable(default) else default
        value = made if add(key, made, ttl) else get(key, made)
    return value


async def aget_or_set(
    key: str, default: Value | Callable[[], Value | Awaitable[Value]], ttl: Ttl = None
) -> Value:
    """As ``get_or_set``; ``default`` may be a coroutine function."""
    value = await aget(key)
    if value is None:
        made = default() if callable(default) else default
        if inspect.isawaitable(made):
            made = await made
        value = made if await aadd(key, made, ttl) else await aget(key, made)
    return value


def clear() -> None:
    """Forgets every key of the application."""
    _store.call(("FLUSHALL",))


async def aclear() -> None:
    """As ``clear``."""
    await _store.acall(("FLUSHALL",))
