"""Keys and channels of an application in Redis or Valkey, which several servers share.

The commands of the store (``cache``, ``broadcast``) become commands of Redis, and their replies
those of the store. Every key and channel has a prefix, so that applications do not meet. Values
keep their type: an integer is its digits, so that Redis can add to it; text begins with ``t`` and
bytes with ``b``.
"""

from collections.abc import Callable

from tidegate import _store, _tidegate
from tidegate._tidegate import StoreError

# The limits of the store, so that an application meets the same ones in both.
_KEY_BYTES = 1024
_VALUE_BYTES = 8 * 1024 * 1024
_MESSAGE_BYTES = 1024 * 1024

# Each is one step, so that no other process sees a part of it. A sum is returned as text: a number
# of Lua is not exact above 2**53.
_INCR = """\
local is_new = redis.call('EXISTS', KEYS[1]) == 0
redis.call('INCRBY', KEYS[1], ARGV[1])
if is_new then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return redis.call('GET', KEYS[1])"""
_DELETE_IF = """\
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])"""
_SET_IF = """\
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return false end
if ARGV[3] then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
else
  redis.call('SET', KEYS[1], ARGV[2])
end
return 1"""
_PERSIST = """\
redis.call('PERSIST', KEYS[1])
return redis.call('EXISTS', KEYS[1])"""


def _encoded(value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise OverflowError("an integer of the store has 64 bits")
        return b"%d" % value
    encoded = b"t" + value.encode() if isinstance(value, str) else b"b" + bytes(value)
    if len(encoded) > _VALUE_BYTES + 1:
        raise ValueError(f"a value has at most {_VALUE_BYTES} bytes")
    return encoded


def _decoded(value: bytes | None) -> bytes | str | int | None:
    if value is None:
        return None
    kind = value[:1]
    if kind == b"t":
        return value[1:].decode()
    if kind == b"b":
        return value[1:]
    try:
        return int(value)
    except ValueError:
        # Another program has written it.
        return value


def _same(reply: object) -> object:
    return reply


class RedisState(_store.Connection):
    """Calls to the keys and channels of one application."""

    #: Other applications may have keys in the database.
    clears_at_once = False

    def __init__(self, url: str, app: str) -> None:
        super().__init__(redis=url)
        prefix, _ = _tidegate.redis_options(url)
        self._keys = f"{prefix or f'tidegate:{app}'}:cache:".encode()
        self._channels = f"{prefix or f'tidegate:{app}'}:broadcast:"

    def call(self, *commands: tuple) -> list:
        translated = [self._translated(command) for command in commands]
        try:
            replies = super().call(*[command for command, _ in translated])
        except ValueError as error:
            raise _refused(error) from None
        return _answers(translated, replies)

    async def acall(self, *commands: tuple) -> list:
        translated = [self._translated(command) for command in commands]
        try:
            replies = await super().acall(*[command for command, _ in translated])
        except ValueError as error:
            raise _refused(error) from None
        return _answers(translated, replies)

    def channels(self, names: list[str]) -> list[str]:
        return [self._channels + name for name in names]

    def message(self, message: tuple[str, bytes] | None) -> tuple[str, str | bytes] | None:
        if message is None:
            return None
        channel, payload = message
        return channel.removeprefix(self._channels), _decoded(payload)

    def _translated(self, command: tuple) -> tuple[tuple, Callable]:
        """A command of Redis, and what makes the reply of the store from its reply."""
        word, *arguments = command
        translate = _COMMANDS.get(word)
        if translate is None:
            raise StoreError(f"{word} is not available while keys are in Redis")
        return translate(self, *arguments)

    def _key(self, key: str | bytes) -> bytes:
        encoded = key.encode() if isinstance(key, str) else key
        if not 1 <= len(encoded) <= _KEY_BYTES:
            raise ValueError(f"a key has 1 to {_KEY_BYTES} bytes")
        return self._keys + encoded

    def _get(self, key: str) -> tuple[tuple, Callable]:
        return ("GET", self._key(key)), _decoded

    def _mget(self, *keys: str) -> tuple[tuple, Callable]:
        command = ("MGET", *[self._key(key) for key in keys])
        return command, lambda values: [_decoded(value) for value in values]

    def _set(self, key: str, value: bytes | str | int, *options: object) -> tuple[tuple, Callable]:
        # The type is in the value.
        options = [option for option in options if option not in ("TEXT", "INT")]
        key, value = self._key(key), _encoded(value)
        if "IFEQ" in options:
            at = options.index("IFEQ")
            ttl = options[options.index("PX") + 1:][:1] if "PX" in options else []
            expected = _encoded(options[at + 1])
            return ("EVAL", _SET_IF, 1, key, expected, value, *ttl), _same
        return ("SET", key, value, *options), _same

    def _del(self, *keys: str | bytes) -> tuple[tuple, Callable]:
        return ("DEL", *[self._key(key) for key in keys]), _same

    def _delex(self, key: str, _: str, value: bytes | str | int) -> tuple[tuple, Callable]:
        return ("EVAL", _DELETE_IF, 1, self._key(key), _encoded(value)), _same

    def _incrby(self, key: str, delta: int, *ttl: object) -> tuple[tuple, Callable]:
        if ttl:
            return ("EVAL", _INCR, 1, self._key(key), delta, ttl[1]), int
        return ("INCRBY", self._key(key), delta), _same

    def _pexpire(self, key: str, ttl_ms: int) -> tuple[tuple, Callable]:
        return ("PEXPIRE", self._key(key), ttl_ms), _same

    def _persist(self, key: str) -> tuple[tuple, Callable]:
        return ("EVAL", _PERSIST, 1, self._key(key)), _same

    def _scan(
        self, cursor: bytes, _match: str, pattern: str, _count: str, count: int
    ) -> tuple[tuple, Callable]:
        prefix = self._keys + pattern[:-1].encode()
        # Letters that mean something in a pattern of Redis, which one of the store has not.
        literal = b"".join(b"\\%c" % byte if byte in b"*?[]^-\\" else b"%c" % byte
                           for byte in prefix)
        start = len(self._keys)
        command = ("SCAN", cursor, "MATCH", literal + b"*", "COUNT", count)
        return command, lambda reply: [reply[0], [key[start:] for key in reply[1]]]

    def _publish(self, channel: str, message: str | bytes, *_kind: str) -> tuple[tuple, Callable]:
        payload = _encoded(message)
        if len(payload) > _MESSAGE_BYTES + 1:
            raise ValueError(f"a message has at most {_MESSAGE_BYTES} bytes")
        return ("PUBLISH", self._channels + channel, payload), _same


_COMMANDS = {
    "GET": RedisState._get,
    "MGET": RedisState._mget,
    "SET": RedisState._set,
    "DEL": RedisState._del,
    "DELEX": RedisState._delex,
    "INCRBY": RedisState._incrby,
    "PEXPIRE": RedisState._pexpire,
    "PERSIST": RedisState._persist,
    "SCAN": RedisState._scan,
    "PUBLISH": RedisState._publish,
}


def _answers(translated: list[tuple[tuple, Callable]], replies: list) -> list:
    return [answer(reply) for (_, answer), reply in zip(translated, replies, strict=True)]


def _refused(error: ValueError) -> Exception:
    """An error reply as an exception. ``ERR`` is about the call, any other code about Redis."""
    text = str(error)
    code = text.partition(" ")[0]
    is_state = code.isupper() and len(code) > 2 and code != "ERR"
    return StoreError(f"Redis: {text}") if is_state else error
