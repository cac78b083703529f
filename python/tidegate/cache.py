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

import functools
import hashlib
import inspect
import pickle
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from typing import TypeVar

from tidegate import _store
from tidegate._tidegate import StoreError

__all__ = [
    "StoreError", "get", "set", "add", "delete", "delete_if", "incr", "decr", "touch", "get_many",
    "set_many", "delete_many", "get_or_set", "clear", "aget", "aset", "aadd", "adelete",
    "adelete_if", "aincr", "adecr", "atouch", "aget_many", "aset_many", "adelete_many",
    "aget_or_set", "aclear", "cached",
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


def delete_if(key: str, value: Value) -> bool:
    """Deletes a key if it has this value, and returns whether it did: a lock is released only by
    its holder."""
    [count] = _store.call(("DELEX", key, "IFEQ", _store.value_arguments(value)[0]))
    return count > 0


async def adelete_if(key: str, value: Value) -> bool:
    """As ``delete_if``."""
    [count] = await _store.acall(("DELEX", key, "IFEQ", _store.value_arguments(value)[0]))
    return count > 0


def clear(prefix: str = "") -> None:
    """Deletes every key of the application, or those that begin with a prefix."""
    if not prefix and _store.state.clears_at_once:
        _store.call(("FLUSHALL",))
        return
    cursor = None
    while cursor != b"0":
        [[cursor, keys]] = _store.call(_scan(cursor or b"0", prefix))
        if keys := _beginning(keys, prefix):
            _store.call(("DEL", *keys))


async def aclear(prefix: str = "") -> None:
    """As ``clear``."""
    if not prefix and _store.state.clears_at_once:
        await _store.acall(("FLUSHALL",))
        return
    cursor = None
    while cursor != b"0":
        [[cursor, keys]] = await _store.acall(_scan(cursor or b"0", prefix))
        if keys := _beginning(keys, prefix):
            await _store.acall(("DEL", *keys))


def _scan(cursor: bytes, prefix: str) -> tuple:
    # The store looks for what stands before the first letter that means something in a pattern.
    literal = re.split(r"[*?[\\]", prefix, maxsplit=1)[0]
    return ("SCAN", cursor, "MATCH", literal + "*", "COUNT", _BATCH)


def _beginning(keys: list[bytes], prefix: str) -> list[bytes]:
    encoded = prefix.encode()
    return [key for key in keys if key.startswith(encoded)]


def cached(
    function: Callable | None = None, *, ttl: Ttl = None, key: Callable[..., str] | None = None
) -> Callable:
    """Decorates a function or coroutine function: its result is stored, for all workers.

        @cache.cached(ttl=60)
        def report(year): ...

        report(2026)                # calls the function at most once a minute
        report.forget(2026)         # the next call does so again

    ``key`` makes the key from the arguments; without it the key has the function's name and a hash
    of the pickled arguments. Results are pickled.
    """
    if function is None:
        return functools.partial(cached, ttl=ttl, key=key)
    name = f"{function.__module__}.{function.__qualname__}"

    def key_of(*arguments, **named) -> str:
        if key is not None:
            return f"{name}:{key(*arguments, **named)}"
        pickled = pickle.dumps((arguments, sorted(named.items())), protocol=5)
        return f"{name}:{hashlib.sha256(pickled).hexdigest()}"

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wrapper(*arguments, **named):
            at = key_of(*arguments, **named)
            found = await aget(at)
            if found is None:
                found = _store.dump(await function(*arguments, **named))
                await aset(at, found, ttl)
            return _store.load(found)

        async def forget(*arguments, **named) -> bool:
            return await adelete(key_of(*arguments, **named))

    else:

        @functools.wraps(function)
        def wrapper(*arguments, **named):
            at = key_of(*arguments, **named)
            found = get(at)
            if found is None:
                found = _store.dump(function(*arguments, **named))
                set(at, found, ttl)
            return _store.load(found)

        def forget(*arguments, **named) -> bool:
            return delete(key_of(*arguments, **named))

    wrapper.forget = forget
    return wrapper
