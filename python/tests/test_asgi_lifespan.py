"""ASGI lifespan 2.0: startup, shutdown, their failures, and the state that requests receive."""

import asyncio
import json
import os
import signal
import socket

import pytest

from hosting import IS_BEHIND_GATEWAY, KIND, LISTENING
from stage import note, outcome, reply, whole_body


async def complete(scope, receive, send):
    """Follows the protocol and reports every step."""
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
    """A request: appends to the shared list, and changes its own copy."""
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
    assert server.notes("second") == [], "shutdown before the signal"
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
        # The test closes the connection to let the startup complete.
        reader, writer = await asyncio.open_connection("127.0.0.1", os.environ["TEST_PORT"])
        await reader.read()
        writer.close()
        note("started")
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
    else:
        await reply(send, b"ok")


def test_nothing_is_served_before_startup_is_complete(start_server):
    """The server announces its address after the startup."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        environment = {"TEST_PORT": str(listener.getsockname()[1])}
        server = start_server(
            "test_asgi_lifespan:slow_startup", ready=False, environment=environment)
        starting, _ = listener.accept()
        assert not LISTENING.search(server.log())
        starting.close()
    server.note("started")
    server.ready()
    assert server.get("/").body == b"ok"


async def unsupported(scope, receive, send):
    assert scope["type"] == "http", f"no {scope['type']} here"
    await reply(send, b"served nevertheless")


async def raises_on_startup(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        raise KeyError("startup is unknown here")
    await reply(send, b"served nevertheless")


async def returns_at_once(scope, receive, send):
    if scope["type"] == "http":
        await reply(send, b"served nevertheless")


@pytest.mark.parametrize("name", ["unsupported", "raises_on_startup", pytest.param(
    "returns_at_once", marks=pytest.mark.fails_on("granian"))])
def test_an_application_without_lifespan_is_served(start_server, name):
    server = start_server(f"test_asgi_lifespan:{name}")
    for _ in range(2):
        assert server.get("/").body == b"served nevertheless"
    server.signal(signal.SIGTERM)
    server.wait()


async def startup_fails(scope, receive, send):
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "the database is on holiday"})


@pytest.mark.skipif(IS_BEHIND_GATEWAY, reason="a gateway does not end with an application")
@pytest.mark.fails_on("granian", "gunicorn")
def test_a_failed_startup_ends_the_server_with_its_message(start_server):
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
def test_a_failed_shutdown_is_logged_and_the_server_exits(start_server):
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
def test_raising_on_shutdown_is_logged_and_the_server_exits(start_server):
    server = start_server("test_asgi_lifespan:raises_on_shutdown")
    assert server.get("/").body == b"ok"
    server.signal(signal.SIGTERM)
    server.wait()
    assert "no way to end" in server.log()


async def same_loop(scope, receive, send):
    """Requests use a future that startup created for the same loop."""
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
        assert client.response().body == b"set by another request"


async def in_flight(scope, receive, send):
    """Responds when the body is complete."""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        note("order", "shutdown")
        return await send({"type": "lifespan.shutdown.complete"})
    note("in-flight")
    body = await whole_body(receive)
    note("order", "request")
    await reply(send, body)


def test_shutdown_comes_after_the_last_request(start_server):
    server = start_server("test_asgi_lifespan:in_flight")
    with server.connect() as client:
        client.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\na")
        server.note("in-flight")
        server.signal(signal.SIGTERM)
        if KIND == "tidegate":
            server.line(r"\bdraining\b")
        client.send(b"b")
        response = client.response()
        assert (response.status, response.body) == (200, b"ab")
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
    assert server.get("/").body == b"served nevertheless"
    assert "startup is unknown here" not in server.log()


@pytest.mark.skipif(IS_BEHIND_GATEWAY, reason="a gateway does not end with an application")
@pytest.mark.fails_on("granian", "gunicorn", "hypercorn")
def test_lifespan_can_be_demanded(start_server):
    server = start_server("test_asgi_lifespan:raises_on_startup", ready=False, lifespan="on")
    assert server.wait() != 0
    assert "startup is unknown here" in server.log()


async def state_later(scope, receive, send):
    """Adds a key to the state after startup."""
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
    """Ends the tasks that it has started, in its shutdown."""
    if scope["type"] != "lifespan":
        task = asyncio.ensure_future(wait_for(scope["state"]["shutdown"], "of-a-request"))
        app_state.append(task)
        return await reply(send, b"ok")
    await receive()
    shutdown = scope["state"]["shutdown"] = asyncio.Event()
    own = asyncio.ensure_future(wait_for(asyncio.Event(), "of-startup"))
    await send({"type": "lifespan.startup.complete"})
    await receive()
    shutdown.set()
    own.cancel()
    note("own", [await outcome_of(own)] + [await outcome_of(task) for task in app_state])
    await send({"type": "lifespan.shutdown.complete"})


async def wait_for(event, name):
    await event.wait()
    return name


async def outcome_of(task):
    try:
        return await task
    except asyncio.CancelledError:
        return "cancelled"


@pytest.mark.fails_on("granian", "gunicorn", "hypercorn")
def test_tasks_of_the_application_live_until_its_shutdown_is_complete(start_server):
    server = start_server("test_asgi_lifespan:with_a_task")
    assert server.get("/").body == b"ok"
    server.signal(signal.SIGTERM)
    assert server.note("own") == ["cancelled", "of-a-request"]
