"""The last exceptions of requests: in the admin API of the supervisor, in each mode."""

import json

import pytest

from admin import Admin
from client import request
from hosting import KIND
from stage import Stage, WsgiStage, more, reply, start

if KIND != "tidegate":
    pytest.skip("only ours has an admin API", allow_module_level=True)

from tidegate import _errors

TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = [("traceparent", f"00-{TRACE}-b7ad6b7169203331-01")]

#: More than a traceback may have.
DEEP = 300

app, wsgi = Stage(), WsgiStage()


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("it cannot be shown")


def fail(kind):
    """What an application may raise, by name."""
    if kind == "surrogates":
        raise ValueError("\ud800 \udcff")
    if kind == "unprintable":
        raise Unprintable
    if kind == "long":
        raise ValueError("é" * 100_000)
    if kind == "deep":
        return descend(DEEP)
    if kind == "exit":
        raise SystemExit(3)
    if kind.startswith("hidden"):
        raise_from(kind, "no cause")
    try:
        raise KeyError("shop")
    except KeyError as error:
        raise LookupError(f"no {kind}") from error


def raise_from(cause, message):
    """Raises the same exception at the same place, whatever its cause."""
    try:
        raise KeyError(cause)
    except KeyError as error:
        raise LookupError(message) from error


def descend(left):
    if left == 0:
        raise ValueError("at the bottom")
    # Each call in a line of its own, so that none is left out as repeated.
    exec(compile("\n" * left + "function(left)", "shop/" + "é" * 80, "exec"),
         {"function": descend, "left": left - 1})


@app.part
async def fine(scope, receive, send):
    await reply(send, b"fine")


@app.part
async def fails(scope, receive, send):
    fail(scope["query_string"].decode())


@app.part
async def fails_late(scope, receive, send):
    """After it has waited, and after its response has begun."""
    await receive()
    while (await receive())["type"] != "http.disconnect":
        pass
    fail("late")


@app.part
async def changes(scope, receive, send):
    """Removes what the report needs."""
    scope.clear()
    raise ValueError("without a scope")


@app.part
async def fails_in_body(scope, receive, send):
    await start(send)
    await more(send, b"half")
    fail("body")


@app.part
async def talks(scope, receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    fail("socket")


@wsgi.part
def wsgi_fine(environ, start_response):
    start_response("200 OK", [("content-length", "4")])
    return [b"fine"]


@wsgi.part
def wsgi_fails(environ, start_response):
    fail(environ["QUERY_STRING"])


@wsgi.part
def wsgi_changes(environ, start_response):
    environ.clear()
    raise ValueError("without a scope")


@wsgi.part
def wsgi_fails_in_body(environ, start_response):
    start_response("200 OK", [])
    yield b"half"
    fail("body")


@wsgi.part
def wsgi_fails_to_close(environ, start_response):
    class Body(list):
        def close(self):
            fail("close")

    start_response("200 OK", [("content-length", "4")])
    return Body([b"fine"])


def test_an_exception_is_shown_with_its_request_and_its_traceback(administered):
    server, admin = administered
    assert server.get("/fine").status == 200
    assert admin.errors() == []
    for _ in range(3):
        assert server.get("/fails?secret", [("cookie", "s3cret")]).status == 500
    error = admin.wait_for("LookupError: no secret", times=3)
    assert error["request"] == "GET /fails"
    assert (error["worker"], error["first"] <= error["at"]) == (0, True)
    trace = error["traceback"]
    assert trace.startswith("Traceback (most recent call last):\n"), trace
    assert "KeyError: 'shop'\n\nThe above exception was the direct cause of" in trace
    assert 'raise LookupError(f"no {kind}") from error\n' in trace
    assert "s3cret" not in json.dumps(admin.errors())
    assert server.ask("POST", "/fails/%3Cimg%20src=x%3E?again").status == 500
    error = admin.wait_for("LookupError: no again")
    assert error["request"].lower() == "post /fails/%3cimg%20src=x%3e"
    assert error["trace_id"] is None


def test_an_exception_has_the_trace_of_its_request(administered):
    server, admin = administered
    assert server.get("/fails?traced", TRACEPARENT).status == 500
    assert admin.wait_for("LookupError: no traced")["trace_id"] == TRACE
    server.line(rf"Exception in \w+ application .*trace_id={TRACE}")


@pytest.mark.parametrize(("name", "value", "found"), [
    ("traceparent", f"00-{TRACE}-b7ad6b7169203331-01", TRACE),
    ("b3", f"{TRACE}-b7ad6b7169203331-1", TRACE),
    ("x-b3-traceid", TRACE, TRACE),
    ("traceparent", f"00-{'0' * 32}-b7ad6b7169203331-01", None),
    ("traceparent", f"00-{TRACE}0-b7ad6b7169203331-01", None),
    ("traceparent", TRACE.upper(), None),
    ("x-trace", TRACE, None),
])
def test_fields_that_name_a_trace(name, value, found):
    field = f"HTTP_{name.upper().replace('-', '_')}"
    assert _errors.trace_id({"REQUEST_METHOD": "GET", field: value}) == found
    headers = [(b"accept", b"*/*"), (name.encode(), value.encode())]
    assert _errors.trace_id({"type": "http", "headers": headers}) == found


@pytest.mark.parametrize("changed", [
    {}, {"headers": None}, {"headers": [("traceparent", "")]}, {"headers": [(b"traceparent", 5)]},
    {"REQUEST_METHOD": "GET", "HTTP_TRACEPARENT": 5},
])
def test_what_an_application_has_changed_names_no_trace(changed):
    assert _errors.trace_id(changed) is None


def test_exceptions_with_other_causes_have_tracebacks_of_their_own(administered):
    server, admin = administered
    causes = ("hidden1", "hidden2")
    for cause in causes:
        assert server.get(f"/fails?{cause}").status == 500
    for cause in causes:
        admin.wait_for("LookupError: no cause", traceback=f"KeyError: '{cause}'\n")


def test_what_cannot_be_shown_is_replaced_or_shortened(administered):
    server, admin = administered
    for kind in ("surrogates", "unprintable", "long", "deep", "exit"):
        assert server.get(f"/fails?{kind}").status == 500
    assert server.get("/changes").status == 500
    surrogates = admin.wait_for("ValueError: \\ud800 \\udcff")
    assert surrogates["request"] == "GET /fails"
    assert "fail(" in admin.wait_for("test_request_errors.Unprintable: <exception")["traceback"]
    long = admin.wait_for("ValueError: ééé")
    assert len(long["message"].encode()) <= 1024
    assert 'raise ValueError("é" * 100_000)\n' in long["traceback"]
    deep = admin.wait_for("ValueError: at the bottom")["traceback"]
    assert 8 * 1024 < len(deep.encode()) <= 16 * 1024
    assert 'raise ValueError("at the bottom")' in deep, "the innermost call is the last"
    assert deep.startswith("  "), "it begins with a line"
    admin.wait_for("SystemExit: 3")
    server.line("an exception is only in the log, not in the last errors")
    assert server.get("/fine").status == 200


def test_exceptions_after_the_response_has_begun(administered, mode):
    server, admin = administered
    with server.connect() as client:
        client.send(request("GET", "/fails_in_body"))
        assert client.response().body in (b"half", b"")
    assert admin.wait_for("LookupError: no body")["request"] == "GET /fails_in_body"
    if mode in ("threads", "gevent"):
        assert server.get("/fails_to_close").body == b"fine"
        assert admin.wait_for("LookupError: no close")["request"] == "GET /fails_to_close"


def test_the_list_is_limited(administered):
    server, admin = administered
    for number in range(40):
        assert server.get(f"/fails?{number}").status == 500
    admin.wait_for("LookupError: no 39")
    errors = admin.errors()
    assert len(errors) == 32
    assert errors[0]["message"] == "LookupError: no 39", "the latest first"


def test_requests_that_wait_and_sessions(start_server, tmp_path):
    from websocket_frames import Session

    server = start_server(
        "test_request_errors:app", environment={"XDG_RUNTIME_DIR": str(tmp_path)})
    admin = Admin(server, tmp_path)
    with server.connect() as client:
        client.send(request("GET", "/fails_late?q"))
    assert admin.wait_for("LookupError: no late")["request"] == "GET /fails_late"
    session = Session(server.port, "/talks?q").opened()
    assert session.message()[0] == 1011
    assert admin.wait_for("LookupError: no socket")["request"] == "WEBSOCKET /talks"


def test_a_replaced_worker_leaves_its_errors(start_server, tmp_path):
    server = start_server("test_request_errors:app", max_requests=1,
                          environment={"XDG_RUNTIME_DIR": str(tmp_path)})
    admin = Admin(server, tmp_path)
    assert server.get("/fails?x").status == 500
    server.line("a worker process is ready", count=2)
    admin.wait_for("LookupError: no x")


def flask_app():
    import flask

    site = flask.Flask(__name__)

    @site.get("/fails")
    def fails():
        raise LookupError("no flask")

    return site


def django_app(asgi=False):
    import django.conf
    import django.core.asgi
    import django.core.wsgi
    import django.urls

    def fails(request):
        raise LookupError("no django")

    settings = {"ALLOWED_HOSTS": ["*"], "ROOT_URLCONF": (django.urls.path("fails", fails),)}
    django.conf.settings.configure(**settings)
    return django.core.asgi.get_asgi_application() if asgi else \
        django.core.wsgi.get_wsgi_application()


def django_asgi():
    return django_app(asgi=True)


@pytest.mark.parametrize(("factory", "interface", "options"), [
    ("flask_app", "wsgi", {}),
    ("flask_app", "wsgi", {"threads": "gevent"}),
    ("django_app", "wsgi", {}),
    ("django_asgi", "asgi", {}),
])
def test_exceptions_that_a_framework_responds_to(
    start_server, tmp_path, factory, interface, options,
):
    pytest.importorskip(factory.partition("_")[0])
    if options:
        pytest.importorskip("gevent")
    server = start_server(f"test_request_errors:{factory}", interface, factory=True,
                          environment={"XDG_RUNTIME_DIR": str(tmp_path)}, **options)
    admin = Admin(server, tmp_path)
    assert server.get("/fails?s3cret", TRACEPARENT).status == 500
    error = admin.wait_for(f"LookupError: no {factory.partition('_')[0]}")
    assert (error["request"], error["trace_id"]) == ("GET /fails", TRACE)
    assert "raise LookupError(" in error["traceback"]
    assert "s3cret" not in json.dumps(error)
