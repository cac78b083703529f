"""ASGI: errors of an application never become a wrong response."""

import asyncio

import pytest

from client import request
from hosting import KIND, serve, serve_behind_gateway, serve_embedded
from stage import Stage, events, more, note, outcome, reply, start

app = Stage()


@app.part
async def fine(scope, receive, send):
    await reply(send, b"fine")


@app.part
async def raises_before(scope, receive, send):
    raise ValueError("a reason only the log may tell")


def test_raising_before_the_response_is_a_500_with_a_traceback_in_the_log(server):
    response = server.get("/raises_before")
    assert response.status == 500
    assert b"a reason" not in response.body, "the client must not see the reason"
    server.line("ValueError: a reason only the log may tell")
    server.line("Traceback")


@app.part
async def raises_between(scope, receive, send):
    await start(send)
    raise ValueError("between start and body")


@pytest.mark.fails_on("uvicorn", "granian", "hypercorn", "gunicorn")
def test_raising_between_start_and_body_is_a_500(server):
    assert server.get("/raises_between").status == 500
    server.line("ValueError: between start and body")


@app.part
async def raises_in_body(scope, receive, send):
    length = scope["query_string"] == b"length"
    await start(send, headers=[(b"content-length", b"10")] if length else [])
    await more(send, b"half")
    await outcome(asyncio.sleep(0))
    raise ValueError("in the middle")


@pytest.mark.fails_on("granian", "hypercorn")
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_raising_in_the_body_truncates_the_response(server, framing):
    with server.connect() as client:
        client.send(request("GET", f"/raises_in_body?{framing}"))
        response = client.response()
        assert response.status == 200
        assert b"half".startswith(response.body)
        assert not response.complete
    server.line("ValueError: in the middle")


@app.part
async def raises_after(scope, receive, send):
    await reply(send, b"whole")
    raise ValueError("after everything")


@pytest.mark.fails_on("uvicorn")
def test_raising_after_the_response_does_not_change_it(server):
    with server.connect() as client:
        for _ in range(2):
            client.send(request("GET", "/raises_after"))
            response = client.response()
            assert (response.status, response.body, response.complete) == (200, b"whole", True)
    server.line("ValueError: after everything")


@app.part
async def says_nothing(scope, receive, send):
    return None


def test_returning_without_a_response_is_a_500(server):
    assert server.get("/says_nothing").status == 500


@app.part
async def starts_only(scope, receive, send):
    await start(send)


@pytest.mark.fails_on("uvicorn", "granian", "hypercorn", "gunicorn")
def test_returning_after_the_start_alone_is_a_500(server):
    assert server.get("/starts_only").status == 500


@app.part
async def stops_midway(scope, receive, send):
    await start(send)
    await more(send, b"half")


@pytest.mark.fails_on("granian", "hypercorn", "gunicorn")
def test_returning_in_the_middle_truncates_the_response(server):
    response = server.get("/stops_midway")
    assert (response.status, response.complete) == (200, False)


WRONG = {
    "body first": [{"type": "http.response.body", "body": b"x"}],
    "unknown": [{"type": "http.response.nothing"}],
    "no type": [{"status": 200}],
    "websocket": [{"type": "websocket.accept"}],
    "no status": [{"type": "http.response.start"}],
    "status is text": [{"type": "http.response.start", "status": "200 OK"}],
    "not a dict": [["http.response.start"]],
    "body is text": [{"type": "http.response.start", "status": 200},
                     {"type": "http.response.body", "body": "text"}],
    "two starts": [{"type": "http.response.start", "status": 200},
                   {"type": "http.response.start", "status": 200}],
    "header is text": [{"type": "http.response.start", "status": 200,
                        "headers": [("name", "value")]}],
    "header of one": [{"type": "http.response.start", "status": 200, "headers": [(b"name",)]}],
    "status 99": [{"type": "http.response.start", "status": 99}],
    "status 1000": [{"type": "http.response.start", "status": 1000}],
    "status 101": [{"type": "http.response.start", "status": 101}],
}


@app.part
async def sends_wrong(scope, receive, send):
    case = scope["query_string"].decode().replace("+", " ")
    for message in WRONG[case]:
        raised = await outcome(send(message))
    note("raised", raised)
    if isinstance(raised, dict):
        # The traceback is the same as without the handler.
        raise RuntimeError(case)
    await more(send, b"", False)


@pytest.mark.fails_on("uvicorn", "granian", "hypercorn", "gunicorn")
@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_message_raises_in_the_application(server, case):
    """In the call, or for errors of the whole head with the body; the response is a 500."""
    response = server.get(f"/sends_wrong?{case.replace(' ', '+')}")
    assert response.status == 500
    assert server.note("raised") is not None or case.startswith(("status", "header"))


INJECTIONS = {
    "value cr lf": (b"x", b"a\r\nset-cookie: evil=1"),
    "value lf": (b"x", b"a\nset-cookie: evil=1"),
    "value cr": (b"x", b"a\rb"),
    "value nul": (b"x", b"a\0b"),
    "name lf": (b"x\nset-cookie", b"evil=1"),
    "name colon": (b"set-cookie: evil=1; x", b"1"),
    "name space": (b"a b", b"1"),
    "name empty": (b"", b"1"),
}


@app.part
async def injects(scope, receive, send):
    header = INJECTIONS[scope["query_string"].decode().replace("+", " ")]
    await reply(send, b"body", headers=[header])


@pytest.mark.fails_on("uvicorn", "granian", "hypercorn", "gunicorn")
@pytest.mark.parametrize("case", INJECTIONS)
def test_no_field_can_be_injected(server, case):
    # RFC 9110 section 5.5, RFC 9112 section 11.1.
    response = server.get(f"/injects?{case.replace(' ', '+')}")
    assert response.status == 500
    assert response.header("set-cookie") is None


@app.part
async def cancels_itself(scope, receive, send):
    asyncio.current_task().cancel()
    await asyncio.sleep(0)


def test_an_application_that_cancels_itself_is_a_500(server):
    assert server.get("/cancels_itself").status == 500
    assert server.get("/fine").body == b"fine"


@app.part
async def exits(scope, receive, send):
    raise {b"system": SystemExit, b"keyboard": KeyboardInterrupt}[scope["query_string"]]("stop")


@pytest.mark.fails_on("uvicorn", "granian", "hypercorn", "gunicorn")
@pytest.mark.parametrize("kind", ["system", "keyboard"])
def test_a_request_cannot_end_the_server(server, kind):
    assert server.get(f"/exits?{kind}").status == 500
    assert server.get("/fine").body == b"fine"


@app.part
async def reads_then_raises(scope, receive, send):
    async for _ in events(receive):
        raise ValueError("in the upload")


def test_raising_in_an_upload_is_a_500(server):
    with server.connect() as client:
        client.send(request("POST", "/reads_then_raises", {"content-length": "100000"}))
        client.send(b"x" * 1000)
        assert client.response().status == 500


def test_an_error_does_not_affect_other_requests(server):
    """Neither on the same connection, if it stays open, nor on others."""
    with server.connect() as other:
        for _ in range(20):
            assert server.get("/raises_before").status == 500
            other.send(request("GET", "/fine"))
            assert other.response().body == b"fine"


class ClientDisconnect(Exception):
    """As Starlette's."""


@app.part
async def upload(scope, receive, send):
    """Like frameworks: raises on http.disconnect, and middleware turns that into a 500."""
    async def inside():
        async for message in events(receive):
            if message["type"] == "http.disconnect":
                raise ClientDisconnect()
        await reply(send, b"received")

    query = scope["query_string"]
    if query == b"streams":
        await start(send)
        await more(send, b"begun")
        return await inside()
    if query == b"returns":
        return [message async for message in events(receive)]
    try:
        await inside()
    except Exception:
        if query == b"responds":
            await reply(send, b"Internal Server Error", status=500)
        note("raises", query.decode())
        raise


BODIES = {
    "malformed": (400, b"no length\r\n"),
    "malformed_later": (400, b"5\r\nabcdeXX"),
    "oversized": (413, b"20000\r\n" + b"x" * 0x20000 + b"\r\n"),
    "late": (408, b"5\r\nabc"),
}


STRICT = {"limits": {"body": "64KiB"}, "timeouts": {"body": "300ms"}}


@pytest.fixture(scope="module", params=["run", "embedded", "gateway"])
def strict_server(request):
    if KIND != "tidegate" and request.param != "run":
        pytest.skip("there is no such thing")
    target = "test_asgi_errors:app"
    if request.param == "gateway":
        running = serve_behind_gateway(target, configuration=STRICT)
    elif request.param == "embedded":
        running = serve_embedded(target, configuration=STRICT)
    else:
        running = serve(target, limit_body="64KiB", body_timeout="300ms")
    with running:
        running.kind = request.param
        yield running.ready()


@pytest.mark.fails_on("uvicorn", "granian", "hypercorn", "gunicorn")
@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("then", ["raises", "responds", "returns"])
def test_a_request_whose_body_fails_gets_the_status_of_the_fault(strict_server, kind, then):
    status, body = BODIES[kind]
    head = request("POST", f"/upload?{then}", {"transfer-encoding": "chunked"})
    with strict_server.connect() as client:
        # In one piece: a pause between two would be a slow body.
        client.send(head + body)
        assert client.response().status == status
    if then == "raises":
        strict_server.note("raises")
        if strict_server.kind != "embedded":  # which logs warnings only
            strict_server.line(rf"INFO the body of a request failed .*status={status} .*Disconnect")
    log = strict_server.log()
    assert "Traceback" not in log and "Exception in ASGI" not in log
    assert "ERROR" not in log


def test_a_body_that_fails_while_the_response_streams_logs_no_traceback(strict_server):
    with strict_server.connect() as client:
        client.send(request("POST", "/upload?streams", {"transfer-encoding": "chunked"}))
        assert client.head().status == 200
        assert client.chunk() == b"begun"
        client.send(b"no length\r\n")
        assert client.chunk() is None, "the response must be truncated"
    log = strict_server.log()
    assert "Traceback" not in log and "Exception in ASGI" not in log
