"""The cache of Flask-Caching in the store that all workers share.

    CACHE_TYPE = "tidegate.integrations.flask_caching.Cache"

``CACHE_DEFAULT_TIMEOUT`` and ``CACHE_KEY_PREFIX`` are Flask-Caching's.
"""

from flask_caching.backends.base import BaseCache

from tidegate import _store, cache


class Cache(BaseCache):
    """A cache of Flask-Caching, and of cachelib. A time-out of 0 is none."""

    def __init__(self, default_timeout=300, key_prefix="", **options) -> None:
        super().__init__(default_timeout=default_timeout, **options)
        self.key_prefix = key_prefix

    @classmethod
    def factory(cls, app, config, args, kwargs):
        return cls(*args, **{"key_prefix": config["CACHE_KEY_PREFIX"], **kwargs})

    def _key(self, key: str) -> str:
        return f"{self.key_prefix}{key}"

    def _ttl(self, timeout) -> float | None:
        return (self.default_timeout if timeout is None else self._to_seconds(timeout)) or None

    def get(self, key):
        found = cache.get(self._key(key))
        return None if found is None else _store.load(found)

    def get_many(self, *keys):
        found = cache.get_many(map(self._key, keys))
        values = [found.get(self._key(key)) for key in keys]
        return [None if value is None else _store.load(value) for value in values]

    def set(self, key, value, timeout=None):
        cache.set(self._key(key), _store.dump(value), self._ttl(timeout))
        return True

    def set_many(self, mapping, timeout=None):
        dumped = {self._key(key): _store.dump(value) for key, value in mapping.items()}
        cache.set_many(dumped, self._ttl(timeout))
        return list(mapping)

    def add(self, key, value, timeout=None):
        return cache.add(self._key(key), _store.dump(value), self._ttl(timeout))

    def delete(self, key):
        return cache.delete(self._key(key))

    def delete_many(self, *keys):
        return [key for key in keys if self.delete(key)]

    def has(self, key):
        return cache.get(self._key(key)) is not None

    def inc(self, key, delta=1):
        return cache.incr(self._key(key), delta, self._ttl(None))

    def dec(self, key, delta=1):
        return cache.decr(self._key(key), delta, self._ttl(None))

    def clear(self):
        cache.clear(self.key_prefix)
        return True
