"""ASGI extensions: HTTP trailers, early hints, path send."""

import os
import tempfile

import pytest

from client import request
from stage import Stage, more, note, outcome, reply, start

app = Stage()
pytestmark = pytest.mark.fails_on("uvicorn", "granian", "hypercorn", "gunicorn")
TE = {"te": "trailers", "connection": "te"}


@app.part
async def trailing(scope, receive, send):
    headers = [(b"trailer", b"checksum, signature")]
    await send({"type": "http.response.start", "status": 200, "headers": headers,
                "trailers": True})
    await more(send, b"first,")
    await more(send, b"last", False)
    note("before-trailers")
    await send({"type": "http.response.trailers", "headers": [(b"checksum", b"1")],
                "more_trailers": True})
    await send({"type": "http.response.trailers", "headers": [(b"signature", b"2")]})


def test_trailers_follow_the_body(server):
    with server.connect() as client:
        for _ in range(2):
            client.send(request("GET", "/trailing", TE))
            response = client.response()
            assert (response.body, response.complete) == (b"first,last", True)
            assert response.header("trailer") == "checksum, signature"
            assert response.trailers == [("checksum", "1"), ("signature", "2")]


def test_a_client_without_te_trailers_gets_none(server):
    with server.connect() as client:
        for _ in range(2):
            client.send(request("GET", "/trailing"))
            response = client.response()
            assert (response.body, response.trailers) == (b"first,last", [])
            assert response.complete


@app.part
async def trailers_never_come(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [], "trailers": True})
    await more(send, b"body", False)
    assert (await receive())["type"] == "http.request"
    raise ValueError("no trailers")


def test_the_response_is_not_complete_without_its_trailers(server):
    with server.connect() as client:
        client.send(request("POST", "/trailers_never_come", {**TE, "content-length": "1"}))
        client.send(b"x")
        assert not client.response().complete
    server.line("ValueError: no trailers")


@app.part
async def framing_trailers(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [], "trailers": True})
    await more(send, b"body", False)
    for name in (b"content-length", b"transfer-encoding"):
        fields = [(name, b"1")]
        note(name.decode(), await outcome(
            send({"type": "http.response.trailers", "headers": fields, "more_trailers": True})))
    await send({"type": "http.response.trailers", "headers": []})


def test_a_field_that_frames_a_message_is_no_trailer(server):
    # RFC 9110 section 6.5.1.
    with server.connect() as client:
        client.send(request("GET", "/framing_trailers", TE))
        response = client.response()
        assert (response.body, response.trailers, response.complete) == (b"body", [], True)
    for name in ("content-length", "transfer-encoding"):
        assert "ValueError" in str(server.note(name))


@app.part
async def unannounced_trailers(scope, receive, send):
    await start(send)
    await more(send, b"body")
    raised = await outcome(send({"type": "http.response.trailers", "headers": []}))
    note("unannounced", raised)
    await more(send, b"", False)


def test_trailers_that_were_not_announced_are_an_error(server):
    assert server.get("/unannounced_trailers").body == b"body"
    assert "raised" in server.note("unannounced")


@app.part
async def hints(scope, receive, send):
    links = [b"</style.css>; rel=preload; as=style", b"</app.js>; rel=preload; as=script"]
    await start(send)
    await send({"type": "http.response.early_hint", "links": links[:1]})
    await send({"type": "http.response.early_hint", "links": links})
    await more(send, b"body", False)


def test_early_hints_come_before_the_response(server):
    with server.connect() as client:
        for _ in range(2):
            client.send(request("GET", "/hints"))
            response = client.response()
            assert (response.status, response.body) == (200, b"body")
            assert [hint.status for hint in response.interim] == [103, 103]
            assert response.interim[0].all("link") == ["</style.css>; rel=preload; as=style"]
            links = ", ".join(response.interim[1].all("link"))
            assert "</style.css>" in links and "</app.js>" in links


def test_http10_gets_no_hints(server):
    # RFC 9110 section 15.2.
    with server.connect() as client:
        client.send(request("GET", "/hints", version="1.0"))
        response = client.response()
        assert (response.status, response.interim) == (200, [])


@app.part
async def hint_too_late(scope, receive, send):
    await start(send)
    await more(send, b"body")
    message = {"type": "http.response.early_hint", "links": [b"</a>; rel=preload"]}
    await outcome(send(message))
    await more(send, b" and more", False)


def test_a_hint_after_the_head_is_ignored(server):
    response = server.get("/hint_too_late")
    assert (response.body, response.complete) == (b"body and more", True)


@app.part
async def hint_injection(scope, receive, send):
    message = {"type": "http.response.early_hint", "links": [b"</a>\r\nset-cookie: evil=1"]}
    await outcome(send(message))
    await reply(send, b"body")


def test_no_field_can_be_injected_by_a_hint(server):
    response = server.get("/hint_injection")
    assert all(hint.header("set-cookie") is None for hint in response.interim)


@app.part
async def informational(scope, receive, send):
    """The message of gunicorn 25."""
    message = {"type": "http.response.informational", "status": 103,
               "headers": [(b"link", b"</style.css>; rel=preload"), (b"x-first", b"1")]}
    await send(message)
    raised = [await outcome(send({**message, **wrong})) for wrong in (
        {"status": 102}, {"headers": [(b"link", b"</a>\r\nset-cookie: evil=1")]},
        {"headers": [(b"content-length", b"3")]}, {"headers": [(b"link", b"a" * 17_000)]},
        {"headers": [(b"transfer-encoding", b"chunked")]})]
    await reply(send, [bool(one) for one in raised])


def test_hints_in_the_form_of_gunicorn(server):
    response = server.get("/informational")
    assert response.body == b"[true, true, true, true, true]"
    assert [hint.status for hint in response.interim] == [103]
    assert response.interim[0].header("link") == "</style.css>; rel=preload"
    assert response.interim[0].header("x-first") == "1"


CONTENT = bytes(i % 251 for i in range(300_000))


@app.part
async def path(scope, receive, send):
    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(CONTENT)
    headers = [(b"content-type", b"application/octet-stream")]
    if scope["query_string"] == b"length":
        headers.append((b"content-length", str(len(CONTENT)).encode()))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.pathsend", "path": file.name})
    while (await receive())["type"] != "http.disconnect":
        pass
    os.unlink(file.name)
    note("sent")


@pytest.mark.parametrize("query", ["", "length"])
def test_a_path_is_sent_as_the_body(server, query):
    with server.connect() as client:
        for _ in range(2):
            client.send(request("GET", f"/path?{query}"))
            response = client.response()
            assert (response.status, response.complete) == (200, True)
            assert response.body == CONTENT
            assert response.header("content-type") == "application/octet-stream"
            server.note("sent")


def test_a_path_for_head_has_no_body(server):
    with server.connect() as client:
        client.send(request("HEAD", "/path?length"))
        response = client.response("HEAD")
        assert response.header("content-length") == str(len(CONTENT))
        client.send(request("GET", "/path"))
        assert client.response().body == CONTENT


@app.part
async def path_missing(scope, receive, send):
    name = {b"missing": "/nonexistent/file", b"relative": "stage.py",
            b"directory": tempfile.gettempdir()}
    await start(send)
    await send({"type": "http.response.pathsend", "path": name[scope["query_string"]]})


@pytest.mark.parametrize("case", ["missing", "relative", "directory"])
def test_a_path_that_is_not_a_file_is_a_500(server, case):
    """The path must be absolute."""
    assert server.get(f"/path_missing?{case}").status == 500
