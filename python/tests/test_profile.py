"""Flame graphs of single requests, and the log of slow ones."""

import asyncio
import collections
import contextlib
import json
import logging
import os
import re
import socket
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from client import request
from hosting import COMMAND, IS_BEHIND_GATEWAY, KIND, Server
from stage import note

if KIND != "tidegate" or IS_BEHIND_GATEWAY:
    pytest.skip("only ours has these options", allow_module_level=True)

from tidegate import _profile

TOKEN = "0123456789abcdef"
TRACE = "0af7651916cd43dd8448eb211c80319c"


class CountedProfile(_profile.Profile):
    """A profile that knows the time in each function so far. On a busy machine the thread that
    takes the samples may have no processor for long, so functions run until they are in it."""

    running = None

    def start(self):
        self.seconds = collections.Counter()
        CountedProfile.running = self
        super().start()

    def end(self):
        super().end()
        CountedProfile.running = None

    def _add(self, stack, runs, seconds):
        super()._add(stack, runs, seconds)
        self.seconds.update(dict.fromkeys((name for _, _, name in stack), seconds))


_profile.Profile = CountedProfile


def is_sampled(name):
    """True if the request has no profile, or one in which this function has 60 ms."""
    profile = CountedProfile.running
    return profile is None or profile.seconds[name] >= 0.06


def computes():
    end = time.perf_counter() + 0.1
    while time.perf_counter() < end or not is_sampled("computes"):
        sum(range(1000))


def blocks():
    time.sleep(0.1)
    while not is_sampled("blocks"):
        time.sleep(0.01)


async def waits():
    await asyncio.sleep(0.1)
    while not is_sampled("waits"):
        await asyncio.sleep(0.01)


class Logged(logging.Filter):
    """Knows the paths that are in the log of slow requests."""

    def __init__(self):
        super().__init__()
        self.paths = set()

    def filter(self, record):
        self.paths.update(record.args[1:2])
        return True


LOGGED = Logged()
logging.getLogger("tidegate.slow").addFilter(LOGGED)


async def is_slow(path):
    while path not in LOGGED.paths:
        await asyncio.sleep(0.2)


def blocks_until_logged(path):
    while path not in LOGGED.paths:
        time.sleep(0.01)


async def inner():
    computes()
    await waits()


async def in_a_task():
    await asyncio.create_task(inner())


async def view(path, scope):
    if path == "/headers":
        return repr(scope["headers"]).encode()
    if path == "/fails":
        computes()
        raise LookupError("no such thing")
    if path == "/thread":
        await asyncio.to_thread(blocks)
    elif path == "/task":
        await in_a_task()
    elif path == "/all":
        computes()
        await waits()
    elif path == "/never":
        await asyncio.sleep(3600)
    elif path.startswith("/slow/"):
        await is_slow(path)
    elif path.startswith("/slow_thread/"):
        await asyncio.to_thread(blocks_until_logged, path)
    return b"hello"


async def app(scope, receive, send):
    if scope["type"] != "http":
        raise RuntimeError("no lifespan")
    body = await view(scope["path"], scope)
    await send({"type": "http.response.start", "status": 203, "headers": []})
    if scope["path"].startswith("/streams/"):
        note("began", time.monotonic() - float(scope["query_string"]))
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await asyncio.sleep(3600)
    await send({"type": "http.response.body", "body": body})


def steps(path, start_response):
    """The steps of a generator: the response begins in the first."""
    blocks_until_logged(path)
    start_response("203 Whatever", [])
    yield b"hello"


def wsgi(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/fails":
        computes()
        raise LookupError("no such thing")
    if path.startswith("/slow/"):
        blocks_until_logged(path)
    if path.startswith("/slow_steps/"):
        return steps(path, start_response)
    if path == "/all":
        computes()
        blocks()
    start_response("203 Whatever", [])
    return [repr("HTTP_TIDEGATE_PROFILE" in environ).encode()]


KINDS = pytest.mark.parametrize("target, options", [
    ("app", {"loop": "asyncio"}), ("app", {"loop": "uvloop"}),
    ("wsgi", {}), ("wsgi", {"threads": "gevent"}),
], ids=["asyncio", "uvloop", "wsgi", "gevent"])


def start(start_server, target, options, **more):
    interface = "asgi" if target == "app" else "wsgi"
    return start_server(f"test_profile:{target}", interface, **options, **more)


def profile(server, path, accept="text/plain", token=TOKEN):
    with server.connect() as client:
        client.send(request("GET", path, [("tidegate-profile", token), ("accept", accept)]))
        return client.response()


def folded(response):
    """The microseconds of each stack."""
    lines = [line.rsplit(" ", 1) for line in response.body.decode().splitlines()]
    return {stack: int(microseconds) for stack, microseconds in lines}


def within(stacks, *names):
    """The milliseconds of stacks in which these follow one another."""
    pattern = re.compile(".*".join(map(re.escape, names)))
    return sum(us for stack, us in stacks.items() if pattern.search(stack)) / 1000


@KINDS
def test_a_flame_graph_has_what_a_request_runs_and_waits_in(start_server, target, options):
    server = start(start_server, target, options, profile_token=TOKEN)
    response = profile(server, "/all")
    assert response.status == 200 and response.header("cache-control") == "no-store"
    assert response.header("tidegate-profile-status") == "203"
    stacks = folded(response)
    # A busy machine makes it longer.
    assert within(stacks, "computes (", ) >= 50, stacks
    waiting = "waits (" if target == "app" else "blocks ("
    assert within(stacks, waiting) >= 50, stacks
    picture = profile(server, "/all", "image/svg+xml, */*")
    assert picture.header("content-type") == "image/svg+xml; charset=utf-8"
    titles = [one.text for one in ElementTree.fromstring(picture.body).iter()
              if one.tag.endswith("title")]
    assert any("computes (" in title for title in titles), titles
    # The next one is served as ever.
    assert server.get("/all").status == 203


@KINDS
def test_without_the_token_the_response_is_the_applications(start_server, target, options):
    server = start(start_server, target, options, profile_token=TOKEN)
    for token in ("", "0123456789abcde", TOKEN + "0", "\xe4"):
        response = profile(server, "/headers", token=token)
        assert response.status == 203
        assert b"tidegate-profile" not in response.body and b"True" not in response.body
    assert profile(server, "/all").status == 200


@pytest.mark.parametrize("more", [{}, {"slow_request": "30s"}], ids=["alone", "watched"])
def test_tasks_and_threads_of_a_request_belong_to_it(start_server, more):
    server = start(start_server, "app", {}, profile_token=TOKEN, **more)
    assert within(folded(profile(server, "/thread")), "app (", "view (", "blocks (") >= 50
    if sys.version_info < (3, 12):
        return  # a Task does not show its context
    stacks = folded(profile(server, "/task"))
    assert within(stacks, "app (", "in_a_task (", "inner (", "waits (") >= 50
    assert within(stacks, "app (", "in_a_task (", "inner (", "computes (") >= 50


@KINDS
def test_a_request_that_raises_has_a_profile(start_server, target, options):
    server = start(start_server, target, options, profile_token=TOKEN)
    response = profile(server, "/fails")
    assert response.header("tidegate-profile-status") == "500"
    assert within(folded(response), "computes (") >= 50
    server.line("LookupError: no such thing")


def test_a_short_token_is_an_error(start_server):
    server = start_server("test_profile:app", profile_token="guess", ready=False)
    assert server.wait() == 2
    assert "--profile-token: a token of fewer than 16 characters" in server.log()


def test_the_printed_settings_have_no_token(start_server):
    server = start_server("test_profile:app", print_config=True, ready=False,
                          environment={"TIDEGATE_PROFILE_TOKEN": TOKEN})
    assert server.wait() == 0
    assert "(not shown)" in server.log() and TOKEN not in server.log()


def get_slow(server, path, stack, headers=()):
    """A response that does not begin before the log has its request with such a stack. On a busy
    machine a request may be late before it is there; then another one follows."""
    for number in range(100):
        response = server.get(f"{path}/{number}", headers)
        assert response.status == 203
        line = server.line(rf"a slow request has not begun: GET '{path}/{number}' after=.*")[0]
        if re.search(stack, line):
            return response
    raise AssertionError(server.log())


@KINDS
def test_a_slow_request_is_logged_with_its_stack(start_server, target, options):
    server = start(start_server, target, options, slow_request="100ms")
    server.get("/all?token=secret")
    stack = r"test_profile.py:\d+\)"
    if target == "app":
        stack = r"waits_in=sleep \(.* < view \(.*test_profile.py:\d+\) < app \("
    traced = [("traceparent", f"00-{TRACE}-b7ad6b7169203331-01")]
    get_slow(server, "/slow", f"{stack}.* trace_id={TRACE}", traced)
    assert "secret" not in server.log()


def test_a_slow_call_in_a_thread_is_logged_with_its_caller(start_server):
    server = start(start_server, "app", {}, slow_request="100ms")
    get_slow(server, "/slow_thread", r"blocks_until_logged \(.* < view \(")


@KINDS
def test_a_generator_that_begins_late_is_slow(start_server, target, options):
    if target == "app":
        return
    server = start(start_server, target, options, slow_request="100ms")
    assert get_slow(server, "/slow_steps", r"steps \(\S*test_profile.py:\d").body == b"hello"


def test_a_response_that_streams_is_not_slow(start_server):
    server = start(start_server, "app", {}, slow_request="1s")
    with contextlib.ExitStack() as clients:
        for number in range(100):
            client = clients.enter_context(server.connect())
            client.send(request("GET", f"/streams/{number}?{time.monotonic()}"))
            assert client.until(b"hello") is not None
            if server.note("began") < 1:
                break
        # It is checked after the stream, which began earlier, and in time.
        other = clients.enter_context(server.connect())
        other.send(request("GET", "/never"))
        server.line("a slow request has not begun: GET '/never'")
    assert f"'/streams/{number}'" not in server.log()


def test_behind_a_gateway(tmp_path):
    app = {"python": "test_profile:app", "dir": str(Path(__file__).parent), "workers": 2,
           "profile_token": TOKEN, "timeouts": {"slow": "100ms"}}
    other = {**app, "python": "test_own_metrics:app", "workers": 1}
    file = tmp_path / "tidegate.yaml"
    file.write_text(json.dumps({
        "listeners": {"web": {"bind": "127.0.0.1:0"}},
        "apps": {"main": app, "shop": other},
        "routes": [
            {"name": "orders", "match": {"path": "/orders"}, "handler": {"app": "shop"}},
            {"name": "all", "match": {"path": "/{*rest}"}, "handler": {"app": "main"}}],
    }))
    runtime = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    with Server([*COMMAND[:-1], "up", str(file)], runtime).ready() as server:
        server.serves("main", "shop")
        assert within(folded(profile(server, "/all")), "computes (") >= 50
        get_slow(server, "/slow", "view")
        assert server.get("/orders").status == 200
        wanted = 'shop_orders_total{app="shop",worker="0",kind="a \\"b\\""} 1.0\n'
        deadline = time.monotonic() + 60
        # A scrape that is too slow lacks them.
        while wanted not in (text := scrape(tmp_path / "tidegate" / f"{server.process.pid}.sock")):
            assert time.monotonic() < deadline, text


def scrape(path):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(b"GET /metrics HTTP/1.0\r\nhost: admin\r\n\r\n")
        return b"".join(iter(lambda: client.recv(65536), b"")).decode()


def test_a_lazy_value_of_the_application_is_not_evaluated():
    from tidegate import _running

    class Lazy:
        @property
        def __class__(self):
            raise RuntimeError("evaluated")

    assert _running._context(Lazy()) is None


def test_gevent_without_its_patches_has_no_greenlet_of_a_request(monkeypatch):
    from tidegate import _running

    monkeypatch.setitem(sys.modules, "gevent", object())
    monkeypatch.delitem(sys.modules, "gevent.monkey", raising=False)
    assert _running._greenlet() is None
