"""WebSocket sessions over the network, with the client library `websockets`."""

import asyncio
import json
import signal

import pytest

from stage import Stage, note
from websocket_client import dial, ended, refused

app = Stage()


async def accept(receive, send, **more):
    assert (await receive()) == {"type": "websocket.connect"}
    await send({"type": "websocket.accept", **more})


async def say(send, value):
    await send({"type": "websocket.send", "text": json.dumps(value)})


def raised(error):
    return [type(error).__name__, isinstance(error, OSError), str(error)]


@app.part
async def echo(scope, receive, send):
    await accept(receive, send)
    while (message := await receive())["type"] == "websocket.receive":
        key = "text" if message.get("text") is not None else "bytes"
        await send({"type": "websocket.send", key: message[key]})
    if name := scope["query_string"].decode():
        note(name, [message, await receive()])


@app.part
async def scope(scope, receive, send):
    await accept(receive, send)
    state = scope.get("state")
    plain = {key: value for key, value in scope.items() if key != "state"}
    kinds = sorted({type(part).__name__ for pair in scope["headers"] for part in pair})
    shown = json.loads(json.dumps(plain, default=lambda value: value.decode("latin-1")))
    await say(send, [shown, kinds, state is None or isinstance(state, dict)])


@app.part
async def chosen(scope, receive, send):
    headers = [(b"x-own", b"1"), (b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")]
    await accept(receive, send, subprotocol=scope["subprotocols"][1], headers=headers)
    await say(send, scope["subprotocols"])


@app.part
async def wrong_accepts(scope, receive, send):
    errors = []
    assert (await receive())["type"] == "websocket.connect"
    for wrong in (
        {"type": "websocket.send", "text": "early"},
        {"type": "websocket.accept", "subprotocol": "never.offered"},
        {"type": "websocket.accept", "headers": [(b"sec-websocket-protocol", b"a")]},
        {"type": "websocket.accept", "headers": [(b"x y", b"a")]},
        {"type": "http.response.start", "status": 200},
        {"type": "websocket.nonsense"},
        {"text": "no type"},
    ):
        try:
            await send(wrong)
            errors.append(wrong)
        except Exception as error:
            errors.append(type(error).__name__)
    await send({"type": "websocket.accept"})
    for wrong in (
        {"type": "websocket.accept"},
        {"type": "websocket.send"},
        {"type": "websocket.send", "text": "both", "bytes": b"both"},
        {"type": "websocket.send", "text": b"bytes"},
        {"type": "websocket.send", "bytes": "text"},
        {"type": "websocket.send", "text": "\ud800"},
        {"type": "websocket.http.response.start", "status": 200},
    ):
        try:
            await send(wrong)
            errors.append(repr(wrong))
        except Exception as error:
            errors.append(type(error).__name__)
    await say(send, errors)


@app.part
async def denies(scope, receive, send):
    assert (await receive())["type"] == "websocket.connect"
    how = scope["query_string"]
    if how == b"close":
        await send({"type": "websocket.close", "code": 3000})
    elif how == b"whole":
        headers = [(b"x-own", b"1"), (b"content-length", b"5")]
        await send({"type": "websocket.http.response.start", "status": 401, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": b"whole"})
    elif how == b"streamed":
        await send({"type": "websocket.http.response.start", "status": 418})
        for piece in (b"stre", b"am", b"ed"):
            more = {"body": piece, "more_body": piece != b"ed"}
            await send({"type": "websocket.http.response.body", **more})
    elif how == b"raise":
        raise RuntimeError("on purpose")
    elif how == b"return":
        return
    note("denied", await receive())
    try:
        await send({"type": "websocket.accept"})
    except Exception as error:
        note("too-late", raised(error))


@app.part
async def closes(scope, receive, send):
    await accept(receive, send)
    await say(send, "last")
    how = scope["query_string"]
    if how == b"raise":
        raise RuntimeError("on purpose")
    if how == b"exit":
        raise SystemExit(3)
    if how == b"return":
        return
    await send({"type": "websocket.close", **json.loads(scope["query_string"].replace(b"'", b'"'))})
    after = [await receive()]
    for message in ({"type": "websocket.send", "text": "x"}, {"type": "websocket.close"}):
        try:
            await send(message)
        except Exception as error:
            after.append(raised(error))
    note("after", after)


@app.part
async def sends_late(scope, receive, send):
    await accept(receive, send)
    assert (await receive())["type"] == "websocket.disconnect"
    try:
        await send({"type": "websocket.send", "text": "x"})
    except Exception as error:
        note("late", raised(error))


@app.part
async def flood(scope, receive, send):
    """Many Tasks send in one session and wait for room in its send buffer."""
    await accept(receive, send)
    waited = [0]

    async def many(number):
        for _ in range(50):
            sent = asyncio.ensure_future(
                send({"type": "websocket.send", "bytes": bytes([number]) * 65536}))
            await asyncio.sleep(0)
            waited[0] += not sent.done()
            if waited[0] == 1:
                waited[0] += 1
                note("waits")
            await sent

    await asyncio.gather(*(many(number) for number in range(8)))
    note("flooded", waited[0] > 1)


@app.part
async def unawaited(scope, receive, send):
    """One Task waits in `receive`, one in `send`, whose message is larger than all buffers; then
    both functions are called, and not awaited."""
    await accept(receive, send)
    large = {"type": "websocket.send", "bytes": bytes(32 << 20)}
    await send(large)
    waiting = [asyncio.ensure_future(it) for it in (receive(), send(large))]
    await asyncio.sleep(0)
    calls = receive(), send({"type": "websocket.send", "text": "last"})
    note("called")
    received, _ = await asyncio.gather(*waiting)
    note("resumed", received["text"])
    del calls


@app.part
async def impatient(scope, receive, send):
    """A receive that is cancelled loses nothing."""
    await accept(receive, send)
    for _ in range(3):
        try:
            await asyncio.wait_for(receive(), 0.01)
        except TimeoutError:
            pass
    reading = asyncio.ensure_future(receive())
    await asyncio.sleep(0)
    reading.cancel()
    await say(send, "now")
    await say(send, (await receive())["text"])


@app.part
async def tasks(scope, receive, send):
    """Reads and writes concurrently, in Tasks of the session."""
    await accept(receive, send)
    queue = asyncio.Queue()

    async def read():
        while (message := await receive())["type"] == "websocket.receive":
            await queue.put(message["text"])
        await queue.put(None)

    reading = asyncio.create_task(read())
    while (text := await queue.get()) is not None:
        await send({"type": "websocket.send", "text": text.upper()})
    await reading
    note("task", asyncio.current_task() is not None)


@app.part
async def lingers(scope, receive, send):
    await accept(receive, send)
    await say(send, "here")
    note("told", await receive())


def test_messages_are_echoed_unchanged(server):
    with dial(server, "/echo") as session:
        texts = ("", "text", "größer \U0001f40d", "x" * 1_000_000)
        for message in (*texts, b"", b"\x00\xff", bytes(70_000)):
            session.send(message)
            assert session.recv() == message
        session.send(["in ", "pieces ", "of ", "text"])
        assert session.recv() == "in pieces of text"
        session.ping().wait(60)


def test_many_messages_are_echoed_in_order(server):
    with dial(server, "/echo") as session:
        for number in range(3000):
            session.send(str(number))
            if number >= 20:
                assert session.recv() == str(number - 20)
        for number in range(2980, 3000):
            assert session.recv() == str(number)


def test_the_application_receives_the_code_and_the_reason(server):
    for code, reason in ((1000, ""), (1001, "going"), (4999, "größer")):
        dial(server, "/echo?closed").close(code, reason)
        disconnect, again = server.note("closed")
        assert disconnect == {"type": "websocket.disconnect", "code": code, "reason": reason}
        assert again == disconnect


def test_a_close_without_a_code_is_1005(server):
    session = dial(server, "/echo?codeless")
    session.socket.sendall(bytes([0x88, 0x80, 0, 0, 0, 0]))
    assert ended(session)[1] == 1005
    assert server.note("codeless")[0]["code"] == 1005


def test_a_client_that_vanishes_is_1006(server):
    session = dial(server, "/echo?vanished")
    session.socket.shutdown(2)
    assert server.note("vanished")[0]["code"] == 1006


def test_a_protocol_violation_closes_both_ends(server):
    session = dial(server, "/echo?broken")
    session.socket.sendall(bytes([0x83, 0x80, 0, 0, 0, 0]))
    assert ended(session)[1] == 1002
    assert server.note("broken")[0]["code"] == 1002


def test_the_scope(server):
    headers = {"X-Own": "größer".encode().decode("latin-1"), "X-Many": "1"}
    subprotocols = ["chat.v1", "chat.v2"]
    with dial(server, "/scope/a%20b/%C3%BC?q=%20", additional_headers=headers,
              subprotocols=subprotocols) as session:
        scope, kinds, state = json.loads(session.recv())
    assert (scope["type"], scope["scheme"], scope["http_version"]) == ("websocket", "ws", "1.1")
    assert scope["asgi"]["version"] == "3.0"
    assert scope["asgi"]["spec_version"] in ("2.3", "2.4", "2.5")
    assert (scope["path"], scope["raw_path"]) == ("/scope/a b/ü", "/scope/a%20b/%C3%BC")
    assert (scope["query_string"], scope["root_path"]) == ("q=%20", "")
    assert scope["subprotocols"] == subprotocols
    assert ["x-own", headers["X-Own"]] in scope["headers"]
    assert ["upgrade", "websocket"] in scope["headers"]
    assert all(name == name.lower() for name, _ in scope["headers"]) and kinds == ["bytes"]
    assert scope["client"][0] == "127.0.0.1"
    assert scope["server"] == ["127.0.0.1", server.port]
    assert "websocket.http.response" in scope["extensions"] and state


def test_the_response_has_subprotocol_and_headers(server):
    with dial(server, "/chosen", subprotocols=["chat.v1", "chat.v2"]) as session:
        assert session.subprotocol == "chat.v2"
        assert session.response.headers["x-own"] == "1"
        assert session.response.headers.get_all("set-cookie") == ["a=1", "b=2"]
        assert json.loads(session.recv()) == ["chat.v1", "chat.v2"]


def test_messages_that_are_not_allowed_raise(server):
    with dial(server, "/wrong_accepts", subprotocols=["a"]) as session:
        assert json.loads(session.recv()) == [
            "RuntimeError", "ValueError", "RuntimeError", "ValueError", "RuntimeError",
            "RuntimeError", "KeyError",
            "RuntimeError", "ValueError", "ValueError", "TypeError", "TypeError",
            "UnicodeEncodeError", "RuntimeError",
        ]


def test_a_close_before_accept_is_403(server):
    assert refused(server, "/denies?close").status_code == 403
    assert server.note("denied") == {"type": "websocket.disconnect", "code": 1006, "reason": ""}
    name, is_os_error, _ = server.note("too-late")
    assert (name, is_os_error) == ("RuntimeError", False)


def test_a_denial_is_a_response(server):
    whole = refused(server, "/denies?whole")
    assert (whole.status_code, whole.headers["x-own"], whole.body) == (401, "1", b"whole")
    streamed = refused(server, "/denies?streamed")
    assert (streamed.status_code, streamed.body) == (418, b"streamed")


@pytest.mark.parametrize("how", ["raise", "return"])
def test_an_application_that_does_not_decide_is_500(server, how):
    assert refused(server, f"/denies?{how}").status_code == 500
    if how == "raise":
        server.line("RuntimeError: on purpose")


def test_the_application_closes_with_code_and_reason(server):
    for sent, code, reason in (
        ("{}", 1000, ""),
        ("{'code':3001,'reason':'enough'}", 3001, "enough"),
        ("{'code':1000,'reason':null}", 1000, ""),
    ):
        with dial(server, f"/closes?{sent}") as session:
            assert ended(session) == (['"last"'], code, reason)
        disconnect, late_send, late_close = server.note("after")
        assert disconnect == {"type": "websocket.disconnect", "code": code, "reason": reason}
        assert [late_send[:2], late_close[:2]] == [["RuntimeError", False]] * 2


def test_a_session_is_closed_when_the_application_ends(server):
    with dial(server, "/echo") as witness:
        for how, code in (("return", 1000), ("raise", 1011), ("exit", 1011)):
            with dial(server, f"/closes?{how}") as session:
                assert ended(session) == (['"last"'], code, "")
        witness.send("other sessions are not affected")
        assert witness.recv() == "other sessions are not affected"


def test_sending_after_a_disconnect_is_an_os_error(server):
    dial(server, "/sends_late").close()
    _, is_os_error, _ = server.note("late")
    assert is_os_error


def test_all_tasks_that_wait_in_send_are_resumed(server):
    # The client reads nothing until a send waits.
    with dial(server, "/flood", max_queue=1) as session:
        server.note("waits")
        counts = [0] * 8
        for _ in range(400):
            message = session.recv(timeout=60)
            assert len(message) == 65536
            counts[message[0]] += 1
        assert counts == [50] * 8
        assert server.note("flooded")


def test_a_call_that_is_not_awaited_keeps_no_task_waiting(server):
    with dial(server, "/unawaited", max_queue=1) as session:
        server.note("called")
        assert [len(session.recv(timeout=60)) for _ in range(2)] == [32 << 20] * 2
        assert session.recv(timeout=60) == "last"
        session.send("first")
        assert server.note("resumed") == "first"


def test_a_receive_that_is_cancelled_loses_nothing(server):
    with dial(server, "/impatient") as session:
        assert session.recv() == '"now"'
        session.send("kept")
        assert session.recv() == '"kept"'


def test_tasks_read_and_write_at_the_same_time(server):
    with dial(server, "/tasks") as session:
        for text in ("one", "two", "three"):
            session.send(text)
            assert session.recv() == text.upper()
    assert server.note("task")


def test_many_sessions_at_a_time(server):
    sessions = [dial(server, "/echo") for _ in range(100)]
    for round in range(3):
        for number, session in enumerate(sessions):
            session.send(f"{round} {number}")
        for number, session in enumerate(sessions):
            assert session.recv() == f"{round} {number}"
    for session in sessions:
        session.close()


def test_a_drain_is_1012(start_server):
    server = start_server("test_websocket:app")
    with dial(server, "/lingers") as session:
        assert session.recv() == '"here"'
        server.signal(signal.SIGTERM)
        assert ended(session)[:2] == ([], 1012)
    assert server.note("told")["code"] == 1012
    assert server.wait() == 0


def test_messages_are_bounded(start_server):
    server = start_server("test_websocket:app", ws_max_size="1KiB")
    session = dial(server, "/echo?bounded")
    session.send("x" * 1024)
    assert session.recv() == "x" * 1024
    session.send("x" * 1025)
    assert ended(session)[1] == 1009
    assert server.note("bounded")[0]["code"] == 1009


def test_messages_are_not_compressed_where_that_is_off(start_server):
    server = start_server("test_websocket:app", ws_per_message_deflate="false")
    with dial(server, "/echo", compression="deflate") as session:
        assert "sec-websocket-extensions" not in session.response.headers


def test_messages_are_compressed_if_both_ends_support_it(server):
    with dial(server, "/echo", compression="deflate") as session:
        agreed = session.response.headers["sec-websocket-extensions"]
        assert agreed.startswith("permessage-deflate")
        for message in ("x", "again and " * 1000, "again and " * 100_000, b"\x00" * 50_000):
            session.send(message)
            assert session.recv() == message
