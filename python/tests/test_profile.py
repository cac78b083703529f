"""Flame graphs of single requests, and the log of slow ones."""

import asyncio
import json
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

if KIND != "tidegate" or IS_BEHIND_GATEWAY:
    pytest.skip("only ours has these options", allow_module_level=True)

TOKEN = "0123456789abcdef"


def computes():
    end = time.perf_counter() + 0.1
    while time.perf_counter() < end:
        sum(range(1000))


def blocks():
    time.sleep(0.1)


async def waits():
    await asyncio.sleep(0.1)


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
    elif path == "/slow":
        await asyncio.sleep(0.5)
    elif path == "/slow_thread":
        await asyncio.to_thread(time.sleep, 0.5)
    return b"hello"


async def app(scope, receive, send):
    if scope["type"] != "http":
        raise RuntimeError("no lifespan")
    body = await view(scope["path"], scope)
    await send({"type": "http.response.start", "status": 203, "headers": []})
    if scope["path"] == "/streams":
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await asyncio.sleep(3600)
    await send({"type": "http.response.body", "body": body})


def steps(start_response):
    """The steps of a generator: the response begins in the first."""
    time.sleep(0.5)
    start_response("203 Whatever", [])
    yield b"hello"


def wsgi(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/fails":
        computes()
        raise LookupError("no such thing")
    if path == "/slow":
        time.sleep(0.5)
    if path == "/slow_steps":
        return steps(start_response)
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


@KINDS
def test_a_slow_request_is_logged_with_its_stack(start_server, target, options):
    server = start(start_server, target, options, slow_request="100ms")
    server.get("/all?token=secret")
    assert server.get("/slow").status == 203
    server.line(r"a slow request has not begun: GET '/slow' after=.*test_profile.py:\d+\)")
    log = server.log()
    assert "secret" not in log
    if target == "app":
        assert re.search(r"waits_in=sleep \(.* < view \(.*test_profile.py:\d+\) < app \(", log), log


def test_a_slow_call_in_a_thread_is_logged_with_its_caller(start_server):
    server = start(start_server, "app", {}, slow_request="100ms")
    server.get("/slow_thread")
    server.line(r"slow request has not begun: GET '/slow_thread' .* < view \(")


@KINDS
def test_a_generator_that_begins_late_is_slow(start_server, target, options):
    if target == "app":
        return
    server = start(start_server, target, options, slow_request="100ms")
    response = server.get("/slow_steps")
    assert (response.status, response.body) == (203, b"hello")
    server.line(r"request has not begun: GET '/slow_steps' .*steps \(\S*test_profile.py:\d")


def test_a_response_that_streams_is_not_slow(start_server):
    server = start(start_server, "app", {}, slow_request="1s")
    with server.connect() as client:
        client.send(request("GET", "/streams"))
        assert client.until(b"hello") is not None
        # It is checked after the stream, which began earlier.
        with server.connect() as other:
            other.send(request("GET", "/never"))
            server.line("a slow request has not begun: GET '/never'")
    assert "'/streams'" not in server.log()


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
        for name in ("main", "shop"):
            server.line(f"a worker process is ready app={name}")
        assert within(folded(profile(server, "/all")), "computes (") >= 50
        assert server.get("/slow").status == 203
        server.line("a slow request has not begun: GET '/slow'")
        assert server.get("/orders").status == 200
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "tidegate" / f"{server.process.pid}.sock"))
            client.sendall(b"GET /metrics HTTP/1.0\r\nhost: admin\r\n\r\n")
            text = b"".join(iter(lambda: client.recv(65536), b"")).decode()
        assert 'shop_orders_total{app="shop",worker="0",kind="a \\"b\\""} 1.0\n' in text


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
