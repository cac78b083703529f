"""tidegate.cache and tidegate.broadcast in a real Redis, which several servers share."""

import asyncio
import json
import threading
from urllib.parse import quote

import pytest

import redis_server
import test_broadcast
import test_cache
from hosting import KIND
from redis_server import RedisServer

if KIND != "tidegate":
    pytest.skip("only ours has a store", allow_module_level=True)
if redis_server.PROGRAM is None:
    pytest.skip("there is no redis-server", allow_module_level=True)

from tidegate import _redis_state, _store, broadcast, cache
from tidegate._tidegate import LostMessages, StoreError


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    with RedisServer(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
def url(redis, request):
    """Keys of their own for each test."""
    return f"{redis.url}?prefix={quote(request.node.name, safe='')}"


@pytest.fixture
def here(url, monkeypatch):
    """The keys of this process are in Redis."""
    state = _redis_state.RedisState(url, "main")
    monkeypatch.setattr(_store, "state", state)
    return state


@pytest.mark.parametrize("check", [
    test_cache.test_values_keep_their_types,
    test_cache.test_invalid_entries_are_rejected,
    test_cache.test_add_stores_only_a_new_key,
    test_cache.test_keys_are_deleted,
    test_cache.test_many_keys_at_once,
    test_cache.test_counting,
    test_cache.test_keys_expire,
    test_cache.test_a_missing_value_is_computed_once,
    test_cache.test_every_call_has_its_coroutine,
    test_broadcast.test_messages_are_received_in_order,
    test_broadcast.test_a_subscriber_waits_without_blocking_the_loop,
    test_broadcast.test_a_cancelled_wait_loses_no_message,
], ids=lambda check: check.__name__)
def test_calls_mean_the_same_as_in_memory(here, check):
    check()


def test_keys_of_other_applications_are_not_touched(here, redis):
    other = _redis_state.RedisState(f"{redis.url}?prefix=other%2A", "main")
    other.call(("SET", "a", "theirs", "TEXT"))
    cache.set_many({"a": "ours", "a*b": 1, "axb": 2})
    cache.clear("a*")
    assert cache.get_many(["a", "a*b", "axb"]) == {"a": "ours", "axb": 2}
    cache.clear()
    assert cache.get_many(["a", "a*b", "axb"]) == {}
    assert other.call(("GET", "a")) == ["theirs"]
    asyncio.run(cache.aclear())


def test_a_lock_is_released_by_its_holder_only(here):
    cache.set("lock", "mine", ttl=60)
    assert not cache.delete_if("lock", "yours")
    assert not cache.delete_if("lock", b"mine"), "bytes are not text"
    assert cache.delete_if("lock", "mine")
    [done] = _store.call(("SET", "n", 5, "INT", "PX", 60000, "IFEQ", 4))
    assert done is None
    cache.set("n", 4)
    [done] = _store.call(("SET", "n", 5, "INT", "PX", 60000, "IFEQ", 4))
    assert done is not None and cache.get("n") == 5
    with pytest.raises(StoreError, match="SORT is not available"):
        _store.call(("SORT", "n"))


def test_a_counter_is_exact_above_what_scripts_compute_with(here):
    cache.set("count", 2**53)
    assert cache.incr("count") == 2**53 + 1
    assert cache.incr("new", 2**53 + 1, ttl=60) == 2**53 + 1


def test_what_another_program_has_written_is_bytes(here):
    keys = here._keys
    _store.Connection.call(here, ("SET", keys + b"a", b"\xffplain"))
    assert cache.get("a") == b"\xffplain"


def test_a_function_is_computed_once_for_all(here):
    calls = []

    @cache.cached(ttl=60)
    def double(number):
        calls.append(number)
        return {"double": number * 2}

    assert double(4) == double(4) == {"double": 8}
    assert calls == [4] and double.forget(4)


def test_a_thread_listens_to_channels(here):
    with broadcast.listen("room", "other") as messages:
        threading.Thread(target=broadcast.publish, args=("room", "hello")).start()
        assert messages.get(60) == "hello"
        broadcast.publish("other", b"\x00")
        assert next(messages.named()) == ("other", b"\x00")
    with pytest.raises(ValueError, match="at most 1048576 bytes"):
        broadcast.publish("room", b"x" * (1024 * 1024 + 1))


def test_without_redis_calls_fail_and_subscriptions_end(tmp_path, monkeypatch):
    with RedisServer(tmp_path) as redis:
        monkeypatch.setattr(_store, "state", _redis_state.RedisState(redis.url, "main"))
        cache.set("key", "before")
        messages = broadcast.listen("room")
        redis.kill()
        with pytest.raises(LostMessages):
            messages.get(60)
        with pytest.raises(StoreError):
            cache.get("key")
        redis.start()
        # A connection is tried again after a moment.
        for _ in range(600):
            try:
                assert cache.get("key") is None, "it was in memory"
                break
            except StoreError:
                threading.Event().wait(0.1)
        else:
            raise AssertionError("Redis is not used again")


def test_two_servers_share_keys_and_channels(start_server, url):
    first, second = (start_server("test_cache:app", shared_store=url) for _ in range(2))
    assert first.get("/put").status == 200
    assert json.loads(second.get("/look").body) == ["hello", 41, "hello", 42]
    assert json.loads(first.get("/look").body) == ["hello", 43, "hello", 44]


def test_what_an_application_writes_when_it_is_preloaded_is_shared(
    start_server, here, url, tmp_path
):
    (tmp_path / "writes.py").write_text(
        "from stage import Stage\n"
        "from tidegate import cache\n"
        "cache.set('imported', 7)\n"
        "app = Stage()\n"
    )
    start_server("writes:app", shared_store=url, preload=True, app_dir=tmp_path)
    assert cache.get("imported") == 7


def test_jobs_stay_in_the_memory_of_their_server(start_server, url):
    server = start_server("tasks_app:app", shared_store=url)
    job = json.loads(server.get(f"/enqueue/add?{quote(json.dumps([2, 3]))}").body)
    assert json.loads(server.get(f"/result/add-{job}").body) == 5


def test_a_wrong_url_ends_the_start(start_server):
    server = start_server("test_cache:app", shared_store="redis://u:hunter2@h/x", ready=False)
    assert server.wait() == 2
    assert "--shared-store: this URL needs the number of a database" in server.log()
    assert "hunter2" not in server.log()
