"""`environ["wsgi.early_hints"]`: 103 responses before the response, as gunicorn 25 has them."""

import json
import shutil
import subprocess
import threading

import pytest

from client import request
from hosting import IS_BEHIND_GATEWAY
from stage import WsgiStage, note

app = WsgiStage()
INTERFACE = "wsgi"
pytestmark = pytest.mark.fails_on("granian", "uvicorn", "hypercorn")
STYLE = ("Link", "</style.css>; rel=preload; as=style")
SCRIPT = ("Link", "</app.js>; rel=preload; as=script")


def hinted(environ, fields):
    """What the function returns, or the exception that it raises."""
    try:
        return environ["wsgi.early_hints"](fields)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@app.part
def hints(environ, start_response):
    hinted(environ, [STYLE])
    write = start_response("200 OK", [("content-type", "text/plain")])
    # The response has not begun before its first piece.
    hinted(environ, (pair for pair in (STYLE, SCRIPT)))
    if environ["QUERY_STRING"] == "write":
        write(b"body")
        return []
    return [b"body"]


@pytest.mark.parametrize("query", ["", "write"])
def test_hints_come_before_the_response(server, query):
    with server.connect() as client:
        for _ in range(2):
            client.send(request("GET", f"/hints?{query}"))
            response = client.response()
            assert (response.status, response.body) == (200, b"body")
            assert [hint.status for hint in response.interim] == [103, 103]
            assert response.interim[0].all("link") == [STYLE[1]]
            links = ", ".join(response.interim[1].all("link"))
            assert STYLE[1] in links and SCRIPT[1] in links
            assert response.header("link") is None


def test_http10_gets_no_hints(server):
    # RFC 9110 section 15.2.
    with server.connect() as client:
        client.send(request("GET", "/hints", version="1.0"))
        response = client.response()
        assert (response.status, response.body, response.interim) == (200, b"body", [])


def test_http2_gets_hints(server):
    curl = shutil.which("curl")
    if curl is None or b"HTTP2" not in subprocess.check_output([curl, "--version"]):
        pytest.skip("there is no curl with HTTP/2")
    url = f"http://127.0.0.1:{server.port}/hints"
    done = subprocess.run([curl, "--silent", "--include", "--http2-prior-knowledge", url],
                          capture_output=True, check=True, timeout=60)
    heads = done.stdout.decode().split("\r\n\r\n")
    assert [head.split()[1] for head in heads[:3]] == ["103", "103", "200"]
    assert f"link: {STYLE[1]}" in heads[0].lower()
    assert heads[3] == "body"


#: Set by the path /tell, on another thread.
TOLD = threading.Event()


@app.part
def works(environ, start_response):
    environ["wsgi.early_hints"]([STYLE])
    assert TOLD.wait(60)
    start_response("200 OK", [])
    return [b"body"]


@app.part
def tell(environ, start_response):
    TOLD.set()
    start_response("200 OK", [])
    return [b"told"]


def test_a_hint_is_sent_while_the_application_works(start_server):
    server = start_server("test_wsgi_early_hints:app", "wsgi", threads=2)
    with server.connect() as client:
        client.send(request("GET", "/works"))
        assert client.head().status == 103
        assert server.get("/tell").body == b"told"
        assert client.response().body == b"body"


@app.part
def late(environ, start_response):
    start_response("200 OK", [])
    yield b"first"
    note("late", hinted(environ, [STYLE]))
    yield b", second"


def test_a_hint_after_the_head_is_ignored(server):
    response = server.get("/late")
    assert (response.body, response.complete, response.interim) == (b"first, second", True, [])
    assert server.note("late") is None


@app.part
def stored(environ, start_response):
    """The function of an earlier request does nothing to a later one."""
    if environ["QUERY_STRING"] == "store":
        stored.function = environ["wsgi.early_hints"]
    else:
        stored.function([STYLE])
    start_response("200 OK", [])
    return [b"body"]


def test_the_function_of_an_earlier_request_has_no_effect(start_server):
    server = start_server("test_wsgi_early_hints:app", "wsgi", threads=1)
    with server.connect() as client:
        for query in ("store", "use"):
            client.send(request("GET", f"/stored?{query}"))
            response = client.response()
            assert (response.body, response.interim) == (b"body", [])


WRONG = {
    "line break": [("Link", "</a>\r\nset-cookie: evil=1")],
    "name": [("a b", "c")],
    "bytes": [(b"Link", b"</a>")],
    "hop-by-hop": [("Connection", "close")],
    "length": [("Content-Length", "3")],
    "no pairs": ["Link"],
    "none": None,
    "too long": [("Link", "</" + "a" * 17_000 + ">")],
}


@app.part
def wrong(environ, start_response):
    raised = {name: hinted(environ, fields) for name, fields in WRONG.items()}
    start_response("200 OK", [])
    return [json.dumps(raised).encode()]


def test_wrong_fields_raise_and_send_nothing(server):
    response = server.get("/wrong")
    raised = json.loads(response.body)
    for name in WRONG:
        assert raised[name].startswith(("ValueError: ", "TypeError: ")), (name, raised[name])
    assert "16384" in raised["too long"]
    assert response.interim == []


@app.part
def many(environ, start_response):
    for number in range(40):
        environ["wsgi.early_hints"]([("Link", f"</{number}>; rel=preload")])
    start_response("200 OK", [])
    return [b"body"]


def test_a_request_has_at_most_sixteen_hints(server):
    response = server.get("/many")
    assert response.body == b"body"
    assert [hint.header("link") for hint in response.interim] == [
        f"</{number}>; rel=preload" for number in range(16)]


@pytest.mark.skipif(IS_BEHIND_GATEWAY, reason="the option is one of run")
def test_greenlets_send_hints(start_server):
    pytest.importorskip("gevent")
    server = start_server("test_wsgi_early_hints:app", "wsgi", threads="gevent")
    response = server.get("/hints")
    assert [hint.status for hint in response.interim] == [103, 103]
    assert response.body == b"body"
