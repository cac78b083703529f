"""tidegate.cache: its calls, in this process and over two workers."""

import asyncio
import json
import os
import time

import pytest

from hosting import KIND
from stage import Stage, reply
from workers import ask, both

if KIND != "tidegate":
    pytest.skip("only ours has a store", allow_module_level=True)

from tidegate import cache

app = Stage()
OPTIONS = {"workers": 2}


@pytest.fixture(autouse=True)
def empty():
    cache.clear()


def test_values_keep_their_types():
    texts = ("text", "", "gr\u00fc\u00df \U0001f980")
    for value in (*texts, b"bytes", b"", b"\xff\x00", 0, -5, 2**63 - 1):
        cache.set("key", value)
        found = cache.get("key")
        assert (found, type(found)) == (value, type(value))
    assert cache.get("none") is None
    assert cache.get("none", 7) == 7


@pytest.mark.parametrize("value", [None, True, 1.5, ["a"], {"a": 1}, bytearray(b"a")])
def test_other_types_are_rejected(value):
    with pytest.raises(TypeError, match="serialise it first"):
        cache.set("key", value)
    with pytest.raises(TypeError, match=type(value).__name__):
        cache.add("key", value)
    assert cache.get("key") is None


def test_invalid_entries_are_rejected():
    with pytest.raises(OverflowError):
        cache.set("key", 2**63)
    with pytest.raises(ValueError, match="1 to 1024 bytes"):
        cache.set("k" * 1025, "x")
    with pytest.raises(ValueError, match="1 to 1024 bytes"):
        cache.get("")
    with pytest.raises(ValueError, match="8388608 bytes"):
        cache.set("key", b"x" * (8 * 1024 * 1024 + 1))
    for ttl in (0, -1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="ttl"):
            cache.set("key", "x", ttl=ttl)
    with pytest.raises(UnicodeEncodeError):
        cache.set("key", "\ud800")
    assert cache.get("key") is None


def test_add_stores_only_a_new_key():
    assert cache.add("key", 1)
    assert not cache.add("key", 2)
    assert cache.get("key") == 1


def test_keys_are_deleted():
    cache.set_many({"a": 1, "b": 2, "c": 3})
    assert cache.delete("a")
    assert not cache.delete("a")
    assert cache.delete_many(["a", "b", "none"]) == 1
    assert cache.get_many(["a", "b", "c"]) == {"c": 3}
    cache.clear()
    assert cache.get_many(["c"]) == {}


def test_a_prefix_is_no_pattern():
    keys = ["a*b", "a?b", "a[1]b", "a\\b", "axb"]
    for key in keys[:4]:
        cache.set_many(dict.fromkeys(keys, 1))
        cache.clear(key[:2])
        assert set(cache.get_many(keys)) == {*keys} - {key}
        asyncio.run(cache.aclear(key[:1] + "x"))
        assert set(cache.get_many(keys)) == {*keys} - {key, "axb"}


def test_many_keys_at_once():
    values = {f"key{number}": number for number in range(2500)}
    cache.set_many(values)
    assert cache.get_many([*values, "none"]) == values
    assert cache.delete_many(values) == 2500
    assert cache.get_many([]) == {}


def test_counting():
    assert cache.incr("count") == 1
    assert cache.incr("count", 10) == 11
    assert cache.decr("count", 4) == 7
    cache.set("text", "many")
    with pytest.raises(ValueError, match="integer"):
        cache.incr("text")
    cache.set("count", 2**63 - 1)
    with pytest.raises(ValueError, match="overflow"):
        cache.incr("count")


def gone(key):
    end = time.monotonic() + 60
    while cache.get(key) is not None:
        assert time.monotonic() < end
    return True


def test_keys_expire():
    cache.set("key", "x", ttl=0.01)
    assert gone("key")
    cache.set("key", "x", ttl=1000)
    assert cache.touch("key", 0.01)
    assert gone("key")
    assert not cache.touch("key", 5)
    cache.set("key", "x", ttl=1000)
    assert cache.touch("key")
    cache.incr("count", ttl=0.01)
    assert gone("count")
    cache.incr("count", ttl=1000)
    cache.incr("count", ttl=0.001)
    # Longer than the second time, which must have no effect.
    time.sleep(0.01)
    assert cache.get("count") == 2, "the time of a counter is set when it begins"


def test_a_missing_value_is_computed_once():
    made = []

    def make():
        made.append(1)
        return "made"

    assert cache.get_or_set("key", make) == "made"
    assert cache.get_or_set("key", make) == "made"
    assert cache.get_or_set("other", "value", ttl=5) == "value"
    assert made == [1]
    assert cache.get_or_set("key3", lambda: cache.set("key3", "first") or "second") == "first"


def test_every_call_has_its_coroutine():
    async def all_of_them():
        await cache.aclear()
        await cache.aset("a", 1)
        assert await cache.aget("a") == 1
        assert await cache.aadd("a", 2) is False
        assert await cache.aincr("a", 4) == 5
        assert await cache.adecr("a") == 4
        assert await cache.atouch("a", 100) is True
        await cache.aset_many({"b": "2", "c": b"3"})
        assert await cache.aget_many(["a", "b", "c", "d"]) == {"a": 4, "b": "2", "c": b"3"}
        assert await cache.adelete("b") is True
        assert await cache.adelete_many(["a", "b", "c"]) == 2

        async def make():
            return "made"

        assert await cache.aget_or_set("d", make) == "made"
        assert await cache.aget_or_set("e", lambda: "plain") == "plain"
        assert await cache.aget_or_set("d", "other") == "made"

    asyncio.run(all_of_them())


# ---------------------------------------------------------------------------- over two workers


@app.part
async def pid(scope, receive, send):
    await reply(send, os.getpid())


@app.part
async def put(scope, receive, send):
    await cache.aset("greeting", "hello", ttl=1000)
    cache.set("count", 40)
    await reply(send, b"")


@app.part
async def look(scope, receive, send):
    found = await asyncio.gather(cache.aget("greeting"), cache.aincr("count"))
    await reply(send, [*found, cache.get("greeting"), cache.incr("count")])


@app.part
async def blocks(scope, receive, send):
    """The loop runs while a coroutine waits for the store."""
    turns = 0

    async def turn():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    turning = asyncio.create_task(turn())
    for number in range(50):
        await cache.aset(f"key{number}", "x" * 10_000)
    turning.cancel()
    await reply(send, turns)


def test_workers_see_the_same(server):
    one, other = both(server)
    ask(one, "/put")
    assert ask(other, "/look") == ["hello", 41, "hello", 42]
    assert ask(one, "/look") == ["hello", 43, "hello", 44]


@app.part
async def fill(scope, receive, send):
    values = {f"key{number}": b"x" * 100_000 for number in range(20)}
    for key, value in values.items():
        await cache.aset(key, value)
    await reply(send, [key for key in await cache.aget_many(values)])


def test_the_memory_limit_is_the_configured_one(start_server):
    server = start_server("test_cache:app", store="1MiB")
    assert json.loads(server.get("/fill").body) == [f"key{number}" for number in range(10, 20)]
    assert len(json.loads(start_server("test_cache:app").get("/fill").body)) == 20


def test_the_loop_runs_while_the_store_is_queried(server):
    assert json.loads(server.get("/blocks").body) >= 50
