"""tidegate.cache and tidegate.broadcast behind Django, Flask-Caching, aiocache and Channels."""

import asyncio
import json
import os

import django
import pytest
from channels.consumer import AsyncConsumer
from channels.exceptions import ChannelFull, MessageTooLarge
from channels.layers import channel_layers
from django.conf import settings

from hosting import KIND
from stage import Stage, reply
from workers import ask, both

if KIND != "tidegate":
    pytest.skip("only ours has a store", allow_module_level=True)

from tidegate import cache

if not settings.configured:
    settings.configure(
        CACHES={"default": {"BACKEND": "tidegate.integrations.django.Cache", "KEY_PREFIX": "dj"}},
        CHANNEL_LAYERS={"default": {
            "BACKEND": "tidegate.integrations.channels.ChannelLayer",
            "CONFIG": {"capacity": 3, "channel_capacity": {"small*": 1}},
        }},
    )
    django.setup()

from aiocache import cached as aiocached  # noqa: E402
from aiocache.lock import OptimisticLock, OptimisticLockError, RedLock  # noqa: E402
from django.core.cache import cache as django_cache  # noqa: E402
from flask import Flask  # noqa: E402
from flask_caching import Cache as FlaskCache  # noqa: E402

from tidegate.integrations import aiocache as ours  # noqa: E402
from tidegate.integrations.channels import ChannelLayer  # noqa: E402

app = Stage()
OPTIONS = {"workers": 2}


@pytest.fixture(autouse=True)
def empty():
    cache.clear()


# Decorators


def test_a_result_is_stored_until_it_is_forgotten():
    calls = []

    @cache.cached(ttl=60)
    def report(year, *, kind="short"):
        calls.append(year)
        return {"year": year, "kind": kind}

    assert report(2026) == report(2026) == {"year": 2026, "kind": "short"}
    assert report(2026, kind="long")["kind"] == "long"
    assert calls == [2026, 2026]
    assert report.forget(2026) and not report.forget(2026)
    report(2026)
    assert len(calls) == 3


def test_results_of_coroutines_are_stored_and_none_is_a_result():
    calls = []

    @cache.cached(key=lambda user: user["id"])
    async def name(user):
        calls.append(user)
        return None

    async def run():
        assert await name({"id": "7"}) is None
        assert await name({"id": "7", "more": set()}) is None
        assert await name.forget({"id": "7"})

    asyncio.run(run())
    assert len(calls) == 1


def test_a_function_that_raises_stores_nothing():
    @cache.cached
    def fails():
        raise KeyError("no")

    for _ in range(2):
        with pytest.raises(KeyError):
            fails()
    assert not fails.forget()


def test_a_lock_is_released_only_by_its_holder():
    cache.add("lock", "mine", ttl=60)
    assert not cache.delete_if("lock", "other")
    assert cache.delete_if("lock", "mine")
    assert not asyncio.run(cache.adelete_if("lock", "mine"))


def test_keys_are_cleared_by_prefix():
    cache.set_many({f"a:{number}": number for number in range(2500)})
    cache.set("b", 1)
    cache.clear("a:")
    assert cache.get_many([f"a:{number}" for number in range(2500)]) == {}
    assert cache.get("b") == 1
    asyncio.run(cache.aclear("b"))
    assert cache.get("b") is None


# Django


def test_the_cache_of_django():
    django_cache.set("a", {"list": [1, 2.5, None]}, 60)
    assert django_cache.get("a") == {"list": [1, 2.5, None]}
    assert "a" in django_cache and django_cache.get("b", 7) == 7
    assert django_cache.get("a", version=2) is None
    assert not django_cache.add("a", 1) and django_cache.add("n", 40)
    assert django_cache.incr("n", 2) == 42 and django_cache.decr("n") == 41
    with pytest.raises(ValueError, match="not found"):
        django_cache.incr("none")
    assert django_cache.get("n") == 41 and cache.get("dj:1:n") == 41
    assert django_cache.set_many({"x": "1", "y": True}) == []
    assert django_cache.get_many(["x", "y", "z"]) == {"x": "1", "y": True}
    assert django_cache.get_or_set("z", lambda: "made") == "made"
    assert django_cache.touch("x", 10) and not django_cache.touch("none")
    assert django_cache.delete("x") and not django_cache.delete("x")
    django_cache.delete_many(["y", "z"])
    assert django_cache.incr_version("n") == 2 and django_cache.get("n", version=2) == 41
    cache.set("other", 1)
    django_cache.clear()
    assert django_cache.get("n", version=2) is None and cache.get("other") == 1


@pytest.mark.parametrize("timeout", [0, -1])
def test_a_time_out_that_is_over_deletes(timeout):
    django_cache.set("a", 1)
    django_cache.set("a", 2, timeout)
    assert django_cache.get("a") is None
    assert django_cache.add("a", 1, timeout) and django_cache.get("a") is None
    django_cache.set_many({"a": 1}, timeout)
    assert django_cache.get("a") is None
    django_cache.set("a", 1)
    assert django_cache.touch("a", timeout) and django_cache.get("a") is None


def test_no_time_out_and_the_default_of_django():
    django_cache.set("default", 1)
    django_cache.set("none", 1, None)
    [default, none] = cache._store.call(("TTL", "dj:1:default"), ("TTL", "dj:1:none"))
    assert 290 <= default <= 300 and none == -1


def test_the_asynchronous_cache_of_django():
    async def run():
        await django_cache.aset("a", (1, 2))
        assert await django_cache.aget("a") == (1, 2) and await django_cache.ahas_key("a")
        assert not await django_cache.aadd("a", 1) and await django_cache.aadd("n", 1)
        assert await django_cache.aincr("n") == 2
        with pytest.raises(ValueError, match="not found"):
            await django_cache.aincr("none")
        await django_cache.aset_many({"x": 1, "y": 2})
        assert await django_cache.aget_many(["x", "y"]) == {"x": 1, "y": 2}
        assert await django_cache.atouch("x", 5) and await django_cache.adelete("x")
        await django_cache.adelete_many(["y"])
        await django_cache.aset("a", 1, 0)
        assert await django_cache.aget("a", 7) == 7
        await django_cache.aclear()
        assert await django_cache.aget("n") is None

    asyncio.run(run())


# Flask-Caching


@pytest.fixture
def flask_cache():
    flask = Flask(__name__)
    flask.config.update(CACHE_TYPE="tidegate.integrations.flask_caching.Cache",
                        CACHE_KEY_PREFIX="fl:", CACHE_DEFAULT_TIMEOUT=60)
    made = FlaskCache(flask)
    with flask.app_context():
        yield made


def test_the_cache_of_flask_caching(flask_cache):
    assert flask_cache.set("a", {"b": None}) and flask_cache.get("a") == {"b": None}
    assert flask_cache.has("a") and not flask_cache.add("a", 1) and flask_cache.add("c", [1])
    flask_cache.set_many({"x": 1, "y": "2"}, timeout=0)
    assert flask_cache.get_many("x", "none", "y") == [1, None, "2"]
    [set_ttl, without] = cache._store.call(("TTL", "fl:a"), ("TTL", "fl:x"))
    assert 50 <= set_ttl <= 60 and without == -1
    assert flask_cache.cache.inc("x", 2) == 3 and flask_cache.cache.dec("x") == 2
    assert flask_cache.delete("a") and not flask_cache.delete("a")
    assert flask_cache.delete_many("x", "none") == ["x"]
    cache.set("other", 1)
    flask_cache.clear()
    assert flask_cache.get("c") is None and cache.get("other") == 1


def test_flask_caching_memoizes(flask_cache):
    calls = []

    @flask_cache.memoize()
    def double(number):
        calls.append(number)
        return number * 2

    assert [double(2), double(2), double(3)] == [4, 4, 6]
    flask_cache.delete_memoized(double, 2)
    assert double(2) == 4 and calls == [2, 3, 2]


# aiocache


def test_the_cache_of_aiocache():
    async def run():
        made = ours.Cache(namespace="ai:")
        assert await made.set("a", {"b": [1]}, ttl=60) and await made.get("a") == {"b": [1]}
        assert await made.exists("a") and not await made.exists("b")
        with pytest.raises(ValueError, match="already exists"):
            await made.add("a", 1)
        await made.multi_set([("x", 1), ("y", "two")])
        assert await made.multi_get(["x", "none", "y"]) == [1, None, "two"]
        assert await made.increment("n", 4) == 4 and await made.get("n") == 4
        with pytest.raises(TypeError):
            await made.increment("y")
        assert await made.expire("x", 10) and not await made.expire("none", 10)
        assert await made.delete("x") == 1 and await made.delete("x") == 0
        cache.set("other", 1)
        await made.clear(namespace="ai:")
        assert await made.get("a") is None and cache.get("other") == 1

    asyncio.run(run())


def test_the_locks_of_aiocache():
    async def run():
        made = ours.Cache()
        await made.set("a", 1)
        async with OptimisticLock(made, "a") as lock:
            await lock.cas(2)
        with pytest.raises(OptimisticLockError):
            async with OptimisticLock(made, "a") as lock:
                await made.set("a", 3)
                await lock.cas(4)
        assert await made.get("a") == 3
        async with RedLock(made, "a", lease=60):
            assert cache.get("a-lock") is not None
        assert cache.get("a-lock") is None

    asyncio.run(run())


def test_the_decorator_of_aiocache():
    calls = []

    @aiocached(ttl=60, cache=ours.Cache, namespace="ai:")
    async def double(number):
        calls.append(number)
        return number * 2

    async def run():
        return [await double(2), await double(2)]

    assert asyncio.run(run()) == [4, 4] and calls == [2]


# Channels


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def layer_test(function):
    def run():
        clock = Clock()
        layer = ChannelLayer(
            capacity=3, channel_capacity={"small*": 1}, expiry=60, group_expiry=600, clock=clock)

        async def bounded():
            async with asyncio.timeout(60):
                await function(layer, clock)
                await layer.close()

        asyncio.run(bounded())

    run.__name__ = function.__name__
    return run


async def is_empty(layer, channel):
    """True if nothing arrives before a message that is sent now."""
    await layer.send(channel, {"type": "last"})
    return await layer.receive(channel) == {"type": "last"}


@layer_test
async def test_messages_arrive_in_order_with_their_types(layer, clock):
    channel = await layer.new_channel()
    for value in (1, b"\xff", {"a": [None, True, "\U0001f980"]}):
        await layer.send(channel, {"type": "t", "value": value})
    found = [await layer.receive(channel) for _ in range(3)]
    assert [one["value"] for one in found] == [1, b"\xff", {"a": [None, True, "\U0001f980"]}]


@layer_test
async def test_a_full_channel_is_reported(layer, clock):
    channel, small = await layer.new_channel(), await layer.new_channel("small")
    for _ in range(3):
        await layer.send(channel, {"type": "t"})
    with pytest.raises(ChannelFull):
        await layer.send(channel, {"type": "t"})
    await layer.send(small, {"type": "t"})
    with pytest.raises(ChannelFull):
        await layer.send(small, {"type": "t"})


@layer_test
async def test_messages_expire(layer, clock):
    channel = await layer.new_channel()
    await layer.send(channel, {"type": "old"})
    clock.now += 61
    assert await is_empty(layer, channel)


@layer_test
async def test_groups(layer, clock):
    one, two, three = [await layer.new_channel() for _ in range(3)]
    for channel in (one, two, three):
        await layer.group_add("room", channel)
    await layer.group_discard("room", three)
    await layer.group_discard("room", three)
    message = {"type": "hello", "list": [1]}
    await layer.group_send("room", message)
    first = await layer.receive(one)
    first["list"].append(2)
    assert await layer.receive(two) == message
    assert await is_empty(layer, three)
    await layer.group_send("empty", message)
    await layer.flush()
    await layer.group_send("room", message)
    assert await is_empty(layer, one)


@layer_test
async def test_channels_without_a_consumer_are_removed(layer, clock):
    kept, unused = await layer.new_channel(), await layer.new_channel()
    await layer.group_add("room", kept)
    receiver = await layer._receiver()
    clock.now += 100
    await layer.new_channel()
    assert kept in receiver._channels and unused not in receiver._channels
    clock.now += 600
    await layer.new_channel()
    assert receiver._groups == {} and kept not in receiver._channels


@layer_test
async def test_a_cancelled_receiver_loses_no_message(layer, clock):
    channel = await layer.new_channel()
    first = asyncio.create_task(layer.receive(channel))
    second = asyncio.create_task(layer.receive(channel))
    await asyncio.sleep(0)
    await layer.send(channel, {"type": "one"})
    first.cancel()
    assert await second == {"type": "one"}


@layer_test
async def test_a_channel_of_no_process_has_one_receiver(layer, clock):
    other = ChannelLayer(clock=clock)
    ours = asyncio.create_task(layer.receive("thumbnails"))
    theirs = asyncio.create_task(other.receive("thumbnails"))
    await asyncio.sleep(0)
    await asyncio.gather(layer._receiver(), other._receiver())
    for number in range(2):
        await layer.send("thumbnails", {"type": "make", "number": number})
    found = await asyncio.gather(ours, theirs)
    assert sorted(one["number"] for one in found) == [0, 1]
    await other.close()


@layer_test
async def test_a_group_is_changed_from_another_process(layer, clock):
    other = ChannelLayer(clock=clock)
    channel = await layer.new_channel()
    await other.group_add("room", channel)
    await other.group_send("room", {"type": "hello"})
    assert await layer.receive(channel) == {"type": "hello"}
    await other.send(channel, {"type": "direct"})
    assert await layer.receive(channel) == {"type": "direct"}


@layer_test
async def test_what_is_not_a_message_or_name_is_rejected(layer, clock):
    channel = await layer.new_channel()
    for call in (layer.send(channel, "text"), layer.group_send("g", ["a"]),
                 layer.send("a b", {}), layer.group_add("a!b", channel)):
        with pytest.raises(TypeError):
            await call


@layer_test
async def test_a_message_may_have_a_megabyte(layer, clock):
    channel = await layer.new_channel("x" * 40)
    await layer.group_add("g" * 99, channel)
    for send, target in ((layer.send, channel), (layer.group_send, "g" * 99)):
        # The least that a layer has to take, in JSON.
        await send(target, {"type": "t", "text": "x" * 1_000_000})
        assert len((await layer.receive(channel))["text"]) == 1_000_000
        most = (1 << 20) - 256 - len(b"\x82\xa4type\xa1t\xa4text\xdb0000")
        await send(target, {"type": "t", "text": "x" * most})
        assert len((await layer.receive(channel))["text"]) == most
        with pytest.raises(MessageTooLarge):
            await send(target, {"type": "t", "text": "x" * (most + 1)})


class Consumer(AsyncConsumer):
    """Adds itself to the group `room`, and shows what it was sent."""

    async def http_request(self, message):
        self.layer = channel_layers["default"]
        await self.layer.group_add("room", self.channel_name)
        _joined.set()

    async def chat_message(self, message):
        _messages.append(message["text"])
        _received.set()


_messages = []
_joined, _received = asyncio.Event(), asyncio.Event()


@app.part
async def pid(scope, receive, send):
    await reply(send, os.getpid())


@app.part
async def join(scope, receive, send):
    async def ignore(message):
        pass

    task = asyncio.create_task(Consumer()(scope, _once({"type": "http.request"}), ignore))
    scope["state"]["consumer"] = task
    _keep.append(task)
    await _joined.wait()
    await reply(send, "joined")


_keep = []


def _once(message):
    sent = []

    async def receive():
        if sent:
            await asyncio.Event().wait()
        sent.append(message)
        return message

    return receive


@app.part
async def say(scope, receive, send):
    layer = channel_layers["default"]
    await layer.group_send("room", {"type": "chat.message", "text": "hello"})
    await django_cache.aset("said", ["hello"])
    await reply(send, "said")


@app.part
async def heard(scope, receive, send):
    await _received.wait()
    await reply(send, [_messages, await django_cache.aget("said")])


def test_workers_share_groups_and_the_cache(server):
    one, other = both(server)
    assert ask(one, "/join") == "joined"
    assert ask(other, "/say") == "said"
    assert ask(one, "/heard") == [["hello"], ["hello"]]
    assert json.dumps(_messages) == "[]"
