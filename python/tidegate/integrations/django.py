"""The cache of Django in the store that all workers share.

    CACHES = {"default": {"BACKEND": "tidegate.integrations.django.Cache"}}

``TIMEOUT``, ``KEY_PREFIX``, ``VERSION`` and ``KEY_FUNCTION`` are Django's; memory is limited by the
server (``--store``). Integers are stored as such and counted atomically, other values are pickled.
"""

from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache, default_key_func

from tidegate import _store, cache


class Cache(BaseCache):
    """A cache backend whose asynchronous methods do not block the event loop."""

    def __init__(self, _location: str, params: dict) -> None:
        super().__init__(params)

    def _ttl(self, timeout) -> float | None:
        """The time to live in seconds; 0 if the entry has expired already."""
        if timeout == DEFAULT_TIMEOUT:
            timeout = self.default_timeout
        return None if timeout is None else max(0, timeout)

    def add(self, key, value, timeout=DEFAULT_TIMEOUT, version=None):
        at, ttl = self.make_and_validate_key(key, version), self._ttl(timeout)
        if ttl == 0:
            return cache.get(at) is None
        return cache.add(at, _store.dump(value), ttl)

    async def aadd(self, key, value, timeout=DEFAULT_TIMEOUT, version=None):
        at, ttl = self.make_and_validate_key(key, version), self._ttl(timeout)
        if ttl == 0:
            return await cache.aget(at) is None
        return await cache.aadd(at, _store.dump(value), ttl)

    def get(self, key, default=None, version=None):
        found = cache.get(self.make_and_validate_key(key, version))
        return default if found is None else _store.load(found)

    async def aget(self, key, default=None, version=None):
        found = await cache.aget(self.make_and_validate_key(key, version))
        return default if found is None else _store.load(found)

    def set(self, key, value, timeout=DEFAULT_TIMEOUT, version=None):
        at, ttl = self.make_and_validate_key(key, version), self._ttl(timeout)
        if ttl == 0:
            cache.delete(at)
        else:
            cache.set(at, _store.dump(value), ttl)

    async def aset(self, key, value, timeout=DEFAULT_TIMEOUT, version=None):
        at, ttl = self.make_and_validate_key(key, version), self._ttl(timeout)
        if ttl == 0:
            await cache.adelete(at)
        else:
            await cache.aset(at, _store.dump(value), ttl)

    def touch(self, key, timeout=DEFAULT_TIMEOUT, version=None):
        at, ttl = self.make_and_validate_key(key, version), self._ttl(timeout)
        return cache.delete(at) if ttl == 0 else cache.touch(at, ttl)

    async def atouch(self, key, timeout=DEFAULT_TIMEOUT, version=None):
        at, ttl = self.make_and_validate_key(key, version), self._ttl(timeout)
        return await (cache.adelete(at) if ttl == 0 else cache.atouch(at, ttl))

    def delete(self, key, version=None):
        return cache.delete(self.make_and_validate_key(key, version))

    async def adelete(self, key, version=None):
        return await cache.adelete(self.make_and_validate_key(key, version))

    def has_key(self, key, version=None):
        return cache.get(self.make_and_validate_key(key, version)) is not None

    async def ahas_key(self, key, version=None):
        return await cache.aget(self.make_and_validate_key(key, version)) is not None

    def incr(self, key, delta=1, version=None):
        at = self.make_and_validate_key(key, version)
        if cache.get(at) is None:
            raise ValueError(f"Key '{key}' not found")
        return cache.incr(at, delta)

    async def aincr(self, key, delta=1, version=None):
        at = self.make_and_validate_key(key, version)
        if await cache.aget(at) is None:
            raise ValueError(f"Key '{key}' not found")
        return await cache.aincr(at, delta)

    def get_many(self, keys, version=None):
        names = {self.make_and_validate_key(key, version): key for key in keys}
        return {names[at]: _store.load(value) for at, value in cache.get_many(names).items()}

    async def aget_many(self, keys, version=None):
        names = {self.make_and_validate_key(key, version): key for key in keys}
        found = await cache.aget_many(names)
        return {names[at]: _store.load(value) for at, value in found.items()}

    def set_many(self, data, timeout=DEFAULT_TIMEOUT, version=None):
        ttl = self._ttl(timeout)
        if ttl == 0:
            self.delete_many(data, version)
        else:
            cache.set_many(self._dumped(data, version), ttl)
        return []

    async def aset_many(self, data, timeout=DEFAULT_TIMEOUT, version=None):
        ttl = self._ttl(timeout)
        if ttl == 0:
            await self.adelete_many(data, version)
        else:
            await cache.aset_many(self._dumped(data, version), ttl)
        return []

    def _dumped(self, data, version):
        return {self.make_and_validate_key(key, version): _store.dump(value)
                for key, value in data.items()}

    def delete_many(self, keys, version=None):
        cache.delete_many([self.make_and_validate_key(key, version) for key in keys])

    async def adelete_many(self, keys, version=None):
        await cache.adelete_many([self.make_and_validate_key(key, version) for key in keys])

    def clear(self):
        cache.clear(self._prefix())
        return True

    async def aclear(self):
        await cache.aclear(self._prefix())
        return True

    def _prefix(self) -> str:
        """What the keys of all versions begin with: other users of the store keep theirs."""
        return f"{self.key_prefix}:" if self.key_func is default_key_func else ""
