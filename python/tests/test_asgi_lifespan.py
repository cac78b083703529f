"""ASGI lifespan 2.0: startup, shutdown, their failures, and the state they leave to requests."""

import asyncio
import json
import signal

import pytest

from hosting import IS_BEHIND_GATEWAY, KIND
from stage import note, outcome, reply


async def complete(scope, receive, send):
    """Takes part properly, and tells every step."""
    if scope["type"] != "lifespan":
        return await state_of(scope, receive, send)
    note("scope", {"asgi": scope["asgi"], "state": scope.get("state")})
    message = await receive()
    note("first", message)
    scope["state"]["shared"] = []
    scope["state"]["name"] = "from startup"
    note("gave", await send({"type": "lifespan.startup.complete"}))
    note("second", await receive())
    await send({"type": "lifespan.shutdown.complete"})
    note("returned")


async def state_of(scope, receive, send):
    """A request: appends to what is shared, and writes to its own copy."""
    state = scope["state"]
    state["shared"].append(len(state["shared"]))
    seen = dict(state)
    state["own"] = state["name"] = scope["path"]
    await reply(send, seen)


@pytest.mark.fails_on("granian", "gunicorn", "hypercorn")
def test_from_startup_to_shutdown(start_server):
    server = start_server("test_asgi_lifespan:complete")
    scope = server.note("scope")
    assert scope["state"] == {}
    assert scope["asgi"]["version"] == "3.0"
    assert scope["asgi"].get("spec_version", "1.0") == "2.0"
    assert server.note("first") == {"type": "lifespan.startup"}
    assert server.note("gave") is None
    assert server.notes("second") == [], "not before the end"
    server.signal(signal.SIGTERM)
    assert server.note("second") == {"type": "lifespan.shutdown"}
    server.note("returned")
    assert server.wait() == (0 if KIND == "tidegate" else server.process.returncode)


@pytest.mark.fails_on("granian", "gunicorn", "hypercorn")
def test_each_request_has_a_shallow_copy_of_the_state(start_server):
    server = start_server("test_asgi_lifespan:complete")
    for count in range(1, 4):
        seen = json.loads(server.get(f"/{count}").body)
        assert seen == {"shared": list(range(count)), "name": "from startup"}


async def slow_startup(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        note("starting")
        await asyncio.sleep(0.3)
        note("started")
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
    else:
        note("requested")
        await reply(send, b"ok")


def test_nothing_is_served_before_startup_is_complete(start_server):
    """It says that it listens only when it does, and requests come after the startup."""
    server = start_server("test_asgi_lifespan:slow_startup")
    server.note("starting")
    server.note("started")
    assert server.get("/").body == b"ok"


async def unsupported(scope, receive, send):
    assert scope["type"] == "http", f"no {scope['type']} here"
    await reply(send, b"served all the same")


async def raises_on_startup(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        raise KeyError("startup is unknown here")
    await reply(send, b"served all the same")


async def returns_at_once(scope, receive, send):
    if scope["type"] == "http":
        await reply(send, b"served all the same")


@pytest.mark.parametrize("name", ["unsupported", "raises_on_startup", pytest.param(
    "returns_at_once", marks=pytest.mark.fails_on("granian"))])
def test_an_application_without_lifespan_is_served(start_server, name):
    server = start_server(f"test_asgi_lifespan:{name}")
    for _ in range(2):
        assert server.get("/").body == b"served all the same"
    server.signal(signal.SIGTERM)
    server.wait()


async def startup_fails(scope, receive, send):
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "the database is on holiday"})


@pytest.mark.skipif(IS_BEHIND_GATEWAY, reason="a gateway does not end with an application")
@pytest.mark.fails_on("granian", "gunicorn")
def test_a_startup_that_failed_ends_the_server_with_its_message(start_server):
    server = start_server("test_asgi_lifespan:startup_fails", ready=False)
    assert server.wait() != 0
    assert "the database is on holiday" in server.log()


async def shutdown_fails(scope, receive, send):
    if scope["type"] == "http":
        return await reply(send, b"ok")
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.failed", "message": "the keys are lost"})


@pytest.mark.fails_on("granian", "gunicorn", "hypercorn")
def test_a_shutdown_that_failed_is_told_and_the_server_ends(start_server):
    server = start_server("test_asgi_lifespan:shutdown_fails")
    assert server.get("/").body == b"ok"
    server.signal(signal.SIGTERM)
    server.wait()
    assert "the keys are lost" in server.log()


async def raises_on_shutdown(scope, receive, send):
    if scope["type"] == "http":
        return await reply(send, b"ok")
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    raise ValueError("no way to end")


@pytest.mark.fails_on("uvicorn", "granian", "gunicorn", "hypercorn")
def test_raising_on_shutdown_is_told_and_the_server_ends(start_server):
    server = start_server("test_asgi_lifespan:raises_on_shutdown")
    assert server.get("/").body == b"ok"
    server.signal(signal.SIGTERM)
    server.wait()
    assert "no way to end" in server.log()


async def same_loop(scope, receive, send):
    """What startup made for its loop is used by requests in the same loop."""
    if scope["type"] == "lifespan":
        await receive()
        scope["state"]["loop"] = asyncio.get_running_loop()
        scope["state"]["future"] = asyncio.get_running_loop().create_future()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        return await send({"type": "lifespan.shutdown.complete"})
    state = scope["state"]
    if scope["path"] == "/set":
        state["future"].set_result("set by another request")
        return await reply(send, b"")
    assert state["loop"] is asyncio.get_running_loop()
    note("waiting")
    await reply(send, (await state["future"]).encode())


@pytest.mark.fails_on("granian", "gunicorn", "hypercorn")
def test_startup_and_requests_share_their_loop(start_server):
    server = start_server("test_asgi_lifespan:same_loop")
    with server.connect() as client:
        client.send(b"GET /wait HTTP/1.1\r\nhost: a\r\n\r\n")
        server.note("waiting")
        server.get("/set")
        assert client.answer().body == b"set by another request"


async def in_flight(scope, receive, send):
    """The last request ends before the shutdown begins."""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        note("order", "shutdown")
        return await send({"type": "lifespan.shutdown.complete"})
    note("in-flight")
    await receive()
    await asyncio.sleep(0.3)
    await reply(send, b"ended in peace")
    note("order", "request")


def test_shutdown_comes_after_the_last_request(start_server):
    server = start_server("test_asgi_lifespan:in_flight")
    with server.connect() as client:
        client.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        server.note("in-flight")
        server.signal(signal.SIGTERM)
        answer = client.answer()
        assert (answer.status, answer.body) == (200, b"ended in peace")
    server.wait()
    assert server.notes("order") == ["request", "shutdown"]


async def wrong_message(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        note("wrong", await outcome(send({"type": "lifespan.nothing"})))
        await send({"type": "lifespan.startup.complete"})
        await receive()
        return await send({"type": "lifespan.shutdown.complete"})
    await reply(send, b"ok")


@pytest.mark.fails_on("granian", "gunicorn", "hypercorn")
def test_a_wrong_message_raises(start_server):
    server = start_server("test_asgi_lifespan:wrong_message")
    assert "raised" in server.note("wrong")
    assert server.get("/").body == b"ok"


@pytest.mark.fails_on("granian", "gunicorn", "hypercorn")
def test_lifespan_can_be_off(start_server):
    server = start_server("test_asgi_lifespan:raises_on_startup", lifespan="off")
    assert server.get("/").body == b"served all the same"
    assert "startup is unknown here" not in server.log()


@pytest.mark.skipif(IS_BEHIND_GATEWAY, reason="a gateway does not end with an application")
@pytest.mark.fails_on("granian", "gunicorn", "hypercorn")
def test_lifespan_can_be_demanded(start_server):
    server = start_server("test_asgi_lifespan:raises_on_startup", ready=False, lifespan="on")
    assert server.wait() != 0
    assert "startup is unknown here" in server.log()


async def state_later(scope, receive, send):
    """Puts into the state while it runs what was not there at startup."""
    if scope["type"] == "lifespan":
        await receive()
        app_state.append(scope["state"])
        await send({"type": "lifespan.startup.complete"})
        await receive()
        return await send({"type": "lifespan.shutdown.complete"})
    if scope["path"] == "/later":
        app_state[0]["later"] = True
    await reply(send, dict(scope["state"]))


app_state = []


@pytest.mark.fails_on("granian", "gunicorn", "hypercorn")
def test_the_state_may_be_filled_later(start_server):
    server = start_server("test_asgi_lifespan:state_later")
    assert json.loads(server.get("/").body) == {}
    server.get("/later")
    assert json.loads(server.get("/").body) == {"later": True}


async def with_a_task(scope, receive, send):
    """Ends what it has begun by itself, in its shutdown."""
    if scope["type"] != "lifespan":
        app_state.append(asyncio.ensure_future(work("of-a-request", 0.5)))
        return await reply(send, b"ok")
    await receive()
    own = asyncio.ensure_future(work("of-startup", 3600))
    await send({"type": "lifespan.startup.complete"})
    await receive()
    own.cancel()
    note("own", [await outcome_of(own)] + [await outcome_of(task) for task in app_state])
    await send({"type": "lifespan.shutdown.complete"})


async def work(name, seconds):
    await asyncio.sleep(seconds)
    return name


async def outcome_of(task):
    try:
        return await task
    except asyncio.CancelledError:
        return "cancelled"


@pytest.mark.fails_on("granian", "gunicorn", "hypercorn")
def test_tasks_of_the_application_live_until_its_shutdown_is_over(start_server):
    server = start_server("test_asgi_lifespan:with_a_task")
    assert server.get("/").body == b"ok"
    server.signal(signal.SIGTERM)
    assert server.note("own") == ["cancelled", "of-a-request"]
