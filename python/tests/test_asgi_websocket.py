"""ASGI 2.5, "WebSocket": the handshake, messages, and every way to end a session."""

import asyncio
import json
import os
import signal

import pytest

from client import request
from stage import Stage, note, outcome, reply
from websocket_frames import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, Session, frame

app = Stage()


def talk(server, target, **more):
    return Session(server.port, target, **more).opened()


async def accept(receive, send, **more):
    message = await receive()
    await send({"type": "websocket.accept", **more})
    return message


@app.part
async def echo(scope, receive, send):
    await accept(receive, send)
    while (message := await receive())["type"] == "websocket.receive":
        kept = {key: message[key] for key in ("text", "bytes") if message.get(key) is not None}
        await send({"type": "websocket.send", **kept})
    # Each session that a test queries has its own name.
    note(f"disconnect-{scope['query_string'].decode()}", {**message})


@app.part
async def scope_of(scope, receive, send):
    assert scope["type"] == "websocket"
    kinds = {key: type(value).__name__ for key, value in scope.items()}
    first = await accept(receive, send)
    reported = {**scope, "state": None, "kinds": kinds, "first": first}
    text = json.dumps(reported, default=lambda value: value.decode("latin-1"))
    await send({"type": "websocket.send", "text": text})
    await send({"type": "websocket.close"})


@pytest.mark.fails_on("granian", "uvicorn", "hypercorn", "gunicorn")
def test_the_scope(server):
    target = "/scope_of/caf%C3%A9?a=%20b"
    with talk(server, target, headers=[("x-a", "1"), ("X-A", "2")],
              subprotocols=["first", "second"]) as session:
        reported = json.loads(session.message())
        peer = list(session.client.socket.getsockname()[:2])
    assert reported["type"] == "websocket"
    assert reported["asgi"] == {"version": "3.0", "spec_version": "2.5"}
    assert (reported["scheme"], reported["http_version"]) == ("ws", "1.1")
    assert (reported["path"], reported["raw_path"]) == ("/scope_of/café", "/scope_of/caf%C3%A9")
    assert (reported["query_string"], reported.get("root_path", "")) == ("a=%20b", "")
    assert [v for n, v in reported["headers"] if n == "x-a"] == ["1", "2"]
    assert reported["client"] == peer
    assert reported["server"] == ["127.0.0.1", server.port]
    assert reported["subprotocols"] == ["first", "second"]
    assert reported["extensions"]["websocket.http.response"] == {}
    assert (reported["kinds"]["raw_path"], reported["kinds"]["query_string"]) == ("bytes", "bytes")


def test_the_first_message_is_connect(server):
    with talk(server, "/scope_of") as session:
        assert json.loads(session.message())["first"] == {"type": "websocket.connect"}


def test_without_subprotocols_the_list_is_empty(server):
    with talk(server, "/scope_of") as session:
        assert json.loads(session.message()).get("subprotocols", []) == []


@app.part
async def waits_before_accept(scope, receive, send):
    await receive()
    note("connecting")
    await app.go.wait()
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.close"})


@app.part
async def prepare(scope, receive, send):
    app.go = asyncio.Event()
    await reply(send, b"")


@app.part
async def go(scope, receive, send):
    app.go.set()
    await reply(send, b"")


def test_the_handshake_waits_for_the_application(server):
    server.get("/prepare")
    with Session(server.port, "/waits_before_accept") as session:
        server.note("connecting")
        session.client.socket.settimeout(0.1)
        with pytest.raises(TimeoutError):
            session.client.socket.recv(1)
        session.client.socket.settimeout(60)
        server.get("/go")
        assert session.opened().response.status == 101


@app.part
async def accepts_with(scope, receive, send):
    await accept(receive, send, subprotocol="second",
                 headers=[(b"x-a", b"1"), (b"set-cookie", b"c=1"), (b"set-cookie", b"d=2")])
    await send({"type": "websocket.close"})


@pytest.mark.fails_on("granian")
def test_accept_has_a_subprotocol_and_headers(server):
    with talk(server, "/accepts_with", subprotocols=["first", "second"]) as session:
        assert session.response.status == 101
        assert session.response.header("sec-websocket-protocol") == "second"
        assert session.response.header("x-a") == "1"
        assert session.response.all("set-cookie") == ["c=1", "d=2"]


def test_accept_without_a_subprotocol_chooses_none(server):
    with talk(server, "/echo", subprotocols=["first"]) as session:
        assert session.response.header("sec-websocket-protocol") is None


@app.part
async def denies(scope, receive, send):
    await receive()
    await send({"type": "websocket.close", "code": 4000, "reason": "unheard"})


def test_close_before_accept_is_a_403(server):
    with talk(server, "/denies") as session:
        assert session.response.status == 403


@app.part
async def raises_before_accept(scope, receive, send):
    await receive()
    raise ValueError("before accept")


def test_raising_before_accept_is_a_500(server):
    with talk(server, "/raises_before_accept") as session:
        assert session.response.status == 500
    server.line("ValueError: before accept")


@app.part
async def returns_before_accept(scope, receive, send):
    await receive()


def test_returning_before_accept_is_a_500(server):
    with talk(server, "/returns_before_accept") as session:
        assert session.response.status in (403, 500)


@app.part
async def denial_response(scope, receive, send):
    await receive()
    await send({"type": "websocket.http.response.start", "status": 401,
                "headers": [(b"www-authenticate", b"Basic"), (b"content-type", b"text/plain")]})
    await send({"type": "websocket.http.response.body", "body": b"please ", "more_body": True})
    await send({"type": "websocket.http.response.body", "body": b"log in"})


def test_a_denial_may_be_a_whole_response(server):
    with talk(server, "/denial_response") as session:
        response = session.response
        assert (response.status, response.body, response.complete) == (401, b"please log in", True)
        assert response.header("www-authenticate") == "Basic"


@pytest.mark.parametrize("message", ["text", "", "é€😀", b"binary", b"", b"\x00\xff"])
def test_messages_are_received_unchanged(server, message):
    with talk(server, "/echo") as session:
        session.send(message)
        assert session.message() == message
        assert type(message) in (str, bytes)


@app.part
async def shapes(scope, receive, send):
    await accept(receive, send)
    while (message := await receive())["type"] == "websocket.receive":
        others = [message.get("bytes"), message.get("text")]
        assert others.count(None) == 1, "exactly one of them must be None"
        await send({"type": "websocket.send", "bytes": None,
                    "text": "text" if message.get("text") is not None else "bytes"})


def test_exactly_one_of_text_and_bytes_is_set(server):
    with talk(server, "/shapes") as session:
        for message, kind in (("", "text"), ("a", "text"), (b"", "bytes"), (b"a", "bytes")):
            session.send(message)
            assert session.message() == kind


@pytest.mark.parametrize("length", [125, 126, 65_535, 65_536, 1_000_000])
def test_messages_of_all_sizes(server, length):
    message = bytes(i * 7 % 251 for i in range(length))
    with talk(server, "/echo") as session:
        session.send(message)
        assert session.frame() == (BINARY, message)


def test_fragments_are_joined(server):
    # RFC 6455 section 5.4; a ping may come between them.
    with talk(server, "/echo") as session:
        session.client.send(frame(TEXT, "caf".encode(), False) + frame(CONTINUATION, b"\xc3", False)
                            + frame(PING, b"between") + frame(CONTINUATION, b"\xa9"))
        seen = [session.frame(), session.frame()]
        assert (PONG, b"between") in seen
        assert (TEXT, "café".encode()) in seen


def test_the_server_replies_to_pings(server):
    with talk(server, "/echo") as session:
        session.client.send(frame(PING, b"are you there"))
        assert session.frame() == (PONG, b"are you there")
        session.send("and on")
        assert session.message() == "and on"


def test_many_messages_keep_their_order(server):
    with talk(server, "/echo") as session:
        for number in range(500):
            session.send(str(number))
        assert [session.message() for _ in range(500)] == [str(n) for n in range(500)]


@pytest.mark.parametrize(("code", "reason", "reported"), [
    (1000, "", (1000, "")), (1001, "away", (1001, "away")), (4321, "é", (4321, "é")),
    (None, "", (1005, "")),
])
def test_a_close_of_the_client_is_a_disconnect_with_its_code_and_reason(
        server, code, reason, reported):
    with talk(server, f"/echo?{code}") as session:
        session.send_close(code, reason)
        answered = session.message()
        assert answered[0] == code or code is None
        found = server.note(f"disconnect-{code}")
        assert found["type"] == "websocket.disconnect"
        assert (found["code"], found.get("reason") or "") == reported


@pytest.mark.fails_on("granian", "uvicorn")
@pytest.mark.parametrize("farewell", ["close", "vanish"])
def test_a_lost_client_is_1006(server, farewell):
    session = talk(server, f"/echo?{farewell}")
    getattr(session.client, farewell)()
    assert server.note(f"disconnect-{farewell}")["code"] == 1006


@app.part
async def closes(scope, receive, send):
    await accept(receive, send)
    fields = json.loads(os.fsdecode(bytes.fromhex(scope["query_string"].decode())))
    await send({"type": "websocket.close", **fields})
    note("after-close", await outcome(send({"type": "websocket.send", "text": "late"})))
    note("then", {**await receive()})


@pytest.mark.parametrize(("fields", "closed"), [
    ({}, (1000, "")), ({"code": 4001}, (4001, "")), ({"code": 1001, "reason": "bye é"},
                                                      (1001, "bye é")),
    ({"reason": None}, (1000, "")),
])
def test_the_application_closes(server, fields, closed):
    with talk(server, f"/closes?{json.dumps(fields).encode().hex()}") as session:
        assert session.message() == closed
        session.send_close(closed[0])
        assert session.client.ended()
    assert "raised" in server.note("after-close"), "nothing can be sent after a close"
    assert server.note("then")["type"] == "websocket.disconnect"


@app.part
async def sends_after_loss(scope, receive, send):
    await accept(receive, send)
    while (await receive())["type"] != "websocket.disconnect":
        pass
    note("after-loss", await outcome(send({"type": "websocket.send", "text": "late"})))


@pytest.mark.fails_on("granian", "hypercorn", "gunicorn")
def test_sending_after_a_disconnect_raises_a_kind_of_oserror(server):
    session = talk(server, "/sends_after_loss")
    session.client.close()
    assert "OSError" in server.note("after-loss")["raised"]


@app.part
async def returns(scope, receive, send):
    await accept(receive, send)
    await send({"type": "websocket.send", "text": "last words"})


@pytest.mark.fails_on("uvicorn")
def test_an_application_that_returns_closes(server):
    """"if the application dies the socket should be closed"."""
    with talk(server, "/returns") as session:
        assert session.message() == "last words"
        assert session.message()[0] == 1000


@app.part
async def raises(scope, receive, send):
    await accept(receive, send)
    raise ValueError("in a session")


@pytest.mark.fails_on("granian", "uvicorn")
def test_an_application_that_raises_closes_with_1011(server):
    with talk(server, "/raises") as session:
        assert session.message()[0] == 1011
    server.line("ValueError: in a session")


WRONG = {
    "nothing": {"type": "websocket.send"},
    "both none": {"type": "websocket.send", "text": None, "bytes": None},
    "text is bytes": {"type": "websocket.send", "text": b"bytes"},
    "bytes is text": {"type": "websocket.send", "bytes": "text"},
    "second accept": {"type": "websocket.accept"},
    "http": {"type": "http.response.start", "status": 200, "headers": []},
    "unknown": {"type": "websocket.nothing"},
}


@app.part
async def sends_wrong(scope, receive, send):
    await accept(receive, send)
    case = scope["query_string"].decode().replace("+", " ")
    note("wrong", await outcome(send(WRONG[case])))
    await send({"type": "websocket.close"})


@pytest.mark.fails_on("granian", "uvicorn", "hypercorn", "gunicorn")
@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_message_raises_in_the_application(server, case):
    with talk(server, f"/sends_wrong?{case.replace(' ', '+')}") as session:
        assert session.message() == (1000, "")
        assert "raised" in server.note("wrong")


@pytest.mark.fails_on("granian", "hypercorn", "gunicorn")
@pytest.mark.parametrize(("sent", "code"), [
    (frame(TEXT, b"\xff\xfe"), 1007),
    (b"\x81\x03abc", 1002),
    (frame(0x3, b""), 1002),
    (frame(CONTINUATION, b"of nothing"), 1002),
    (frame(CLOSE, b"\x03"), 1002),
    (frame(PING, b"x" * 126), 1002),
], ids=["utf8", "unmasked", "opcode", "continuation", "close-of-one", "long-ping"])
def test_a_protocol_violation_closes_the_session(server, sent, code):
    # RFC 6455 sections 5.1, 5.5, 7.4.1, 8.1.
    name = f"against-{sent.hex()}"
    with talk(server, f"/echo?{name}") as session:
        session.client.send(sent)
        assert session.message()[0] == code
        assert server.note(f"disconnect-{name}")["type"] == "websocket.disconnect"


def test_a_request_without_upgrade_is_http(server):
    with server.connect() as client:
        client.send(request("GET", "/go_http"))
        assert client.response().body == b"http"


@app.part
async def go_http(scope, receive, send):
    assert scope["type"] == "http"
    await reply(send, b"http")


@pytest.mark.fails_on("granian", "hypercorn", "gunicorn", "uvicorn")
def test_sessions_are_closed_when_the_server_stops(start_server):
    """Close 1012, "service restart", and a disconnect in the application."""
    server = start_server("test_asgi_websocket:app")
    with talk(server, "/echo?end") as session:
        session.send("here")
        assert session.message() == "here"
        server.signal(signal.SIGTERM)
        assert session.message()[0] == 1012
        session.send_close(1012)
        assert server.note("disconnect-end")["type"] == "websocket.disconnect"
        assert server.wait() == 0
