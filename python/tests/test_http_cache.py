"""tidegate.http_cache: what views say about the gateway's cache, and what the cache does then."""

import asyncio
import http.client
import json
import sys
from datetime import timedelta

import pytest
from django.http import HttpResponse
from flask import Flask
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from hosting import HERE, KIND, Server

if KIND != "tidegate":
    pytest.skip("only ours has a gateway", allow_module_level=True)

from tidegate import http_cache

# Applications behind the gateway

flask_app = Flask(__name__)
flask_app.wsgi_app = http_cache.middleware(flask_app.wsgi_app)
counts = {}


def count(name):
    counts[name] = counts.get(name, 0) + 1
    return str(counts[name])


@flask_app.get("/wsgi/product/<int:number>")
@http_cache.stored(ttl=60, tags=lambda number: [f"product-{number}", "catalog"])
def product(number):
    return count(f"product {number}")


@flask_app.get("/wsgi/plain")
def plain():
    return count("plain")


@flask_app.get("/wsgi/missing")
@http_cache.stored(ttl=60)
def missing():
    return count("missing"), 404


@flask_app.get("/wsgi/personal")
@http_cache.stored(ttl=60)
def personal():
    http_cache.not_stored()
    return count("personal"), {"Cache-Control": "max-age=60"}


# Runs in a thread of the pool, as Starlette has it.
def listing(request):
    http_cache.store(ttl=60, groups=["catalog"])
    return PlainTextResponse(count("listing"))


async def change(request):
    http_cache.invalidate("catalog")
    return PlainTextResponse("changed")


starlette_app = Starlette(routes=[
    Route("/asgi/listing", listing), Route("/asgi/listing/change", change, methods=["POST"]),
])
starlette_app.add_middleware(http_cache.middleware)


def configuration():
    def of(name):
        return {"python": f"test_http_cache:{name}", "dir": str(HERE), "venv": sys.prefix}

    routes = [
        {"match": {"path": f"/{name}/{{*rest}}"}, "filters": [{"cache": {"store": "pages"}}],
         "handler": {"app": name}}
        for name in ("wsgi", "asgi")
    ]
    return json.dumps({
        "listeners": {"web": {"bind": "127.0.0.1:0"}},
        "admin": {"bind": "127.0.0.1:0", "token": "secret-of-the-test"},
        "caches": {"pages": {"memory": "16MiB"}}, "routes": routes,
        "apps": {"wsgi": of("flask_app"), "asgi": of("starlette_app")},
    })


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    directory = tmp_path_factory.mktemp("http_cache")
    file = directory / "tidegate.yaml"
    file.write_text(configuration())
    here = {"XDG_RUNTIME_DIR": str(directory)}
    with Server([sys.executable, "-m", "tidegate", "up", str(file)], here) as running:
        running.port = int(running.line(r"name=web address=127\.0\.0\.1:(\d+)")[1])
        running.admin = int(running.line(r"name=admin address=127\.0\.0\.1:(\d+)")[1])
        running.serves("wsgi", "asgi")
        yield running


def purge(gateway, **what):
    connection = http.client.HTTPConnection("127.0.0.1", gateway.admin, timeout=30)
    body = json.dumps(what)
    headers = {"Content-Type": "application/json", "Authorization": "Bearer secret-of-the-test"}
    connection.request("POST", "/v1/caches/pages/purge", body, headers)
    response = connection.getresponse()
    assert response.status == 200, response.read()
    connection.close()


def test_a_stored_response_is_purged_by_its_tags(gateway):
    assert [gateway.get("/wsgi/product/7").body for _ in range(3)] == [b"1"] * 3
    assert gateway.get("/wsgi/product/8").body == b"1"
    purge(gateway, tags=["product-7"])
    assert [gateway.get("/wsgi/product/7").body for _ in range(2)] == [b"2"] * 2
    assert gateway.get("/wsgi/product/8").body == b"1"
    purge(gateway, tags=["catalog"])
    assert gateway.get("/wsgi/product/8").body == b"2"


def test_tags_are_for_the_gateway_and_not_for_clients(gateway):
    response = gateway.get("/wsgi/product/9")
    for name in ("cache-tag", "cache-control", "tidegate-cache-control"):
        assert response.header(name) is None, response


@pytest.mark.parametrize("path", ["/wsgi/plain", "/wsgi/missing", "/wsgi/personal"])
def test_what_is_not_to_be_stored_is_not(gateway, path):
    assert [gateway.get(path).body for _ in range(3)] == [b"1", b"2", b"3"]


def test_a_view_invalidates_a_group(gateway):
    assert [gateway.get("/asgi/listing").body for _ in range(2)] == [b"1"] * 2
    assert gateway.ask("POST", "/asgi/listing/change").body == b"changed"
    assert [gateway.get("/asgi/listing").body for _ in range(2)] == [b"2"] * 2


# The fields


def fields_of(view, status=200, headers=()):
    """The fields of a response of a WSGI application that calls the view."""
    seen = []

    def application(environ, start_response):
        view()
        start_response(f"{status} X", list(headers))
        return [b""]

    wrapped = http_cache.middleware(application)
    wrapped({}, lambda status, headers, exception=None: seen.extend(headers))
    return seen


def test_all_that_can_be_said():
    def view():
        http_cache.store(
            timedelta(minutes=1), stale_while_revalidate=10, stale_if_error=3600,
            tags=["a", "b"], groups=['say "hi"'],
        )

    assert fields_of(view, headers=[("X", "y"), ("cache-tag", "old")]) == [
        ("X", "y"),
        ("Tidegate-Cache-Control", "max-age=60, stale-while-revalidate=10, stale-if-error=3600"),
        ("Cache-Tag", "a, b"),
        ("Cache-Groups", '"say \\"hi\\""'),
    ]


def test_an_error_is_not_stored_and_the_last_word_holds():
    def both():
        http_cache.store(60, tags=["a"])
        http_cache.not_stored()

    assert fields_of(lambda: http_cache.store(60, tags=["a"]), status=500) == []
    assert fields_of(both) == [("Tidegate-Cache-Control", "no-store")]
    assert fields_of(both, status=500) == [("Tidegate-Cache-Control", "no-store")]
    assert fields_of(lambda: None, headers=[("Cache-Tag", "own")]) == [("Cache-Tag", "own")]


@pytest.mark.parametrize("arguments, error", [
    ({"ttl": 60, "tags": ["a b"]}, ValueError),
    ({"ttl": 60, "tags": ["a,b"]}, ValueError),
    ({"ttl": 60, "tags": ["a\r\nX: y"]}, ValueError),
    ({"ttl": 60, "tags": "ab"}, TypeError),
    ({"ttl": 60, "groups": ["a\n"]}, ValueError),
    ({"ttl": 60, "groups": ["ä"]}, ValueError),
    ({"ttl": -1}, ValueError),
    ({"ttl": float("nan")}, ValueError),
    ({"ttl": None}, ValueError),
    ({"ttl": 60, "stale_if_error": -1}, ValueError),
])
def test_what_cannot_be_a_field_is_an_error(arguments, error):
    with pytest.raises(error):
        fields_of(lambda: http_cache.store(**arguments))


def test_the_decorator_needs_its_parentheses():
    with pytest.raises(TypeError, match="ttl=60"):
        http_cache.stored(lambda: None)


def test_views_of_other_frameworks_return_responses_with_headers():
    @http_cache.stored(ttl=60, tags=["a"])
    def view(request, status):
        return HttpResponse("x", "text/plain; charset=utf-8", status=status)

    assert view(None, 200).headers["Tidegate-Cache-Control"] == "max-age=60"
    assert "Cache-Tag" not in view(None, 500).headers


def test_without_the_middleware_there_is_an_error_that_names_it():
    with pytest.raises(RuntimeError, match="http_cache.middleware"):
        http_cache.store(60)
    with pytest.raises(RuntimeError, match="http_cache.middleware"):
        http_cache.stored(ttl=60)(lambda: "text")()


def test_a_response_that_has_begun_does_not_change():
    async def application(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        with pytest.raises(RuntimeError, match="begun"):
            http_cache.store(60)
        await send({"type": "http.response.body"})

    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(http_cache.middleware(application)({"type": "http"}, None, send))
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert sent[0]["headers"] == []


def test_an_application_may_be_a_generator():
    @http_cache.middleware
    def application(environ, start_response):
        try:
            http_cache.store(60)
            start_response("200 OK", [])
            yield b"body"
        finally:
            with pytest.raises(RuntimeError, match="begun"):
                http_cache.store(60)

    sent = []
    body = application({}, lambda status, headers: sent.append((status, headers)))
    assert next(iter(body)) == b"body"
    body.close()
    assert sent == [("200 OK", [("Tidegate-Cache-Control", "max-age=60")])]
    with pytest.raises(RuntimeError, match="http_cache.middleware"):
        http_cache.store(60)


def test_coroutines_and_tasks_of_a_request_share_its_response():
    @http_cache.stored(ttl=5, groups=lambda: ["g"])
    async def view():
        await asyncio.sleep(0)

    async def application(scope, receive, send):
        await asyncio.create_task(view())
        await send({"type": "http.response.start", "status": 200, "headers": [(b"A", b"b")]})

    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(http_cache.middleware(application)({"type": "http"}, None, send))
    assert sent[0]["headers"] == [
        (b"A", b"b"), (b"tidegate-cache-control", b"max-age=5"), (b"cache-groups", b'"g"'),
    ]
