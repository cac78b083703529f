"""What requests share without an application noticing: their functions, and Tasks that wait."""

import asyncio
import contextvars
import json

import pytest

from client import request
from stage import Stage, more, note, reply, start, whole_body
from websocket_frames import Session

app = Stage()
VARIABLE = contextvars.ContextVar("variable", default="unset")
KEPT = {}


@app.part
async def keeps(scope, receive, send):
    KEPT.update(send=send, receive=receive)
    if scope["query_string"] == b"waits":
        await asyncio.sleep(0)
    await reply(send, b"kept")


@app.part
async def uses(scope, receive, send):
    """Uses the functions of another request before its own."""
    other = await KEPT["receive"]()
    await start(KEPT["send"], 404)
    await more(KEPT["send"], b"of another request", False)
    assert KEPT["send"] is not send and KEPT["receive"] is not receive
    await reply(send, [other, (await whole_body(receive)).decode()])


@pytest.mark.parametrize("how", ["", "waits"])
def test_functions_that_an_application_has_stored_reach_no_other_request(server, how):
    with server.connect() as client:
        for _ in range(5):
            client.send(request("GET", f"/keeps?{how}"))
            assert client.response().body == b"kept"
            client.send(request("POST", "/uses", body=b"own"))
            response = client.response()
            assert response.status == 200
            assert json.loads(response.body) == [{"type": "http.disconnect"}, "own"]


@app.part
async def changes_scope(scope, receive, send):
    """Returns what it finds in its scope, and changes all of it."""
    found = [sorted(scope), sorted(scope["asgi"]), sorted(scope["extensions"]),
             [pair for pair in scope["headers"] if pair[0] == b"accept"], scope["method"]]
    for name in ("asgi", "extensions"):
        scope[name].clear()
    scope["headers"].clear()
    scope["method"] = "changed"
    scope["added"] = True
    del scope["path"]
    await reply(send, found)


def test_a_scope_may_be_changed(server):
    with server.connect() as client:
        found = []
        for value in ("a", "a", "b"):
            client.send(request("GET", "/changes_scope", {"accept": value}))
            found.append(json.loads(client.response().body))
    first, second, third = found
    assert first == second
    assert first[3] == [["accept", "a"]] and third[3] == [["accept", "b"]]
    assert first[:3] == third[:3] and first[4] == "GET"


def test_each_client_has_its_own_address(server):
    """More connections than the server stores addresses of."""
    clients = [server.connect() for _ in range(300)]
    for _ in range(2):
        for client in clients:
            client.send(request("GET", "/address"))
            assert json.loads(client.response().body) == list(client.socket.getsockname())
    for client in clients:
        client.close()


@app.part
async def address(scope, receive, send):
    await reply(send, scope["client"])


@app.part
async def context_of_a_wait(scope, receive, send):
    async def reads():
        VARIABLE.set("of the task")
        note("reads")
        await receive()
        note("reads")
        await receive()
        return VARIABLE.get()

    VARIABLE.set("of the request")
    await reply(send, [await asyncio.create_task(reads()), VARIABLE.get()])


def test_a_task_that_waits_in_receive_keeps_its_context(server):
    with server.connect() as client:
        client.send(request("POST", "/context_of_a_wait", {"content-length": "2"}))
        for _ in range(2):
            server.note("reads")
            client.send(b"x")
        assert json.loads(client.response().body) == ["of the task", "of the request"]


@app.part
async def counts(scope, receive, send):
    """A session with a count in a variable of its context."""
    VARIABLE.set(0)
    await receive()
    await send({"type": "websocket.accept"})
    while (await receive())["type"] == "websocket.receive":
        VARIABLE.set(VARIABLE.get() + 1)
        await send({"type": "websocket.send", "text": str(VARIABLE.get())})


def test_sessions_that_wait_keep_their_contexts(server):
    sessions = [Session(server.port, "/counts").opened() for _ in range(3)]
    for number in range(1, 4):
        for session in sessions:
            session.send(b"count")
        for session in sessions:
            assert session.message() == str(number)
    for session in sessions:
        session.client.close()


@app.part
async def cancelled_with_a_reason(scope, receive, send):
    await whole_body(receive)
    waiting = asyncio.create_task(receive())
    await asyncio.sleep(0)
    assert waiting.cancel("the reason")
    try:
        await waiting
    except asyncio.CancelledError as error:
        await reply(send, [waiting.cancelled(), *error.args])


def test_a_wait_is_cancelled_with_its_message(server):
    assert json.loads(server.get("/cancelled_with_a_reason").body) == [True, "the reason"]
