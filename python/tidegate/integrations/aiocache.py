"""The cache of aiocache in the store that all workers share.

    cache = tidegate.integrations.aiocache.Cache(namespace="shop")

    @aiocache.cached(ttl=60, cache=tidegate.integrations.aiocache.Cache)
    async def report(): ...

Serializers, plugins, ``RedLock`` and ``OptimisticLock`` are aiocache's.
"""

from aiocache.base import BaseCache
from aiocache.serializers import JsonSerializer

from tidegate import _store, cache


class Cache(BaseCache):
    """A cache of aiocache."""

    NAME = "tidegate"

    def __init__(self, serializer=None, **options) -> None:
        super().__init__(serializer=serializer or JsonSerializer(), **options)

    async def _get(self, key, encoding="utf-8", _conn=None):
        return _shown(await cache.aget(key), encoding)

    async def _gets(self, key, encoding="utf-8", _conn=None):
        return await self._get(key, encoding)

    async def _multi_get(self, keys, encoding="utf-8", _conn=None):
        found = await cache.aget_many(keys)
        return [_shown(found.get(key), encoding) for key in keys]

    async def _set(self, key, value, ttl=None, _cas_token=None, _conn=None):
        if _cas_token is None:
            await cache.aset(key, value, ttl or None)
            return True
        [done] = await _store.acall((
            "SET", key, *_store.value_arguments(value), *_store.ttl_arguments(ttl or None),
            "IFEQ", _cas_token,
        ))
        return done is not None

    async def _multi_set(self, pairs, ttl=None, _conn=None):
        await cache.aset_many(dict(pairs), ttl or None)
        return True

    async def _add(self, key, value, ttl=None, _conn=None):
        if not await cache.aadd(key, value, ttl or None):
            raise ValueError(f"Key {key} already exists, use .set to update the value")
        return True

    async def _exists(self, key, _conn=None):
        return await cache.aget(key) is not None

    async def _increment(self, key, delta, _conn=None):
        try:
            return await cache.aincr(key, delta)
        except ValueError as error:
            raise TypeError("Value is not an integer") from error

    async def _expire(self, key, ttl, _conn=None):
        return await cache.atouch(key, ttl or None)

    async def _delete(self, key, _conn=None):
        return int(await cache.adelete(key))

    async def _clear(self, namespace=None, _conn=None):
        await cache.aclear(namespace or "")
        return True

    async def _raw(self, command, *args, encoding="utf-8", _conn=None, **kwargs):
        [reply] = await _store.acall((command, *args))
        return _shown(reply, encoding)

    async def _redlock_release(self, key, value):
        return int(await cache.adelete_if(key, value))


def _shown(value, encoding):
    """A value as serializers expect it: text if they have an encoding, else bytes."""
    if isinstance(value, int):
        return str(value) if encoding else value
    if isinstance(value, bytes) and encoding is not None:
        return value.decode(encoding)
    return value
