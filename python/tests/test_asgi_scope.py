"""ASGI 2.5, "HTTP Connection Scope": the scope that describes a request.

The application returns the whole scope as JSON, with the Python type of every value.
"""

import json
import re

import pytest

from client import request
from hosting import KIND
from stage import Stage, reply

app = Stage()


def described(value):
    """A value as JSON, with its type."""
    kind = type(value).__name__
    if isinstance(value, bytes):
        return [kind, value.decode("latin-1")]
    if isinstance(value, dict):
        return [kind, {key: described(item) for key, item in value.items()}]
    if isinstance(value, (list, tuple)):
        return ["sequence", [described(item) for item in value]]
    return [kind, value]


@app.part
async def scope(scope, receive, send):
    await reply(send, {key: described(value) for key, value in scope.items()})


def plain(described_value):
    kind, value = described_value
    if kind == "dict":
        return {key: plain(item) for key, item in value.items()}
    if kind == "sequence":
        return [plain(item) for item in value]
    return value.encode("latin-1") if kind == "bytes" else value


def scope_of(server, target="/scope", headers=(), method="GET", version="1.1"):
    with server.connect() as client:
        client.send(request(method, target, headers, version=version))
        response = client.response(method)
    assert response.status == 200, response
    return json.loads(response.body)


def headers_of(scope):
    return [(plain(name), plain(value)) for name, value in (p[1] for p in scope["headers"][1])]


def test_the_type_is_http(server):
    assert scope_of(server)["type"] == ["str", "http"]


@pytest.mark.fails_on("uvicorn", "granian", "hypercorn", "gunicorn")
def test_the_versions_are_those_of_the_specification(server):
    asgi = plain(scope_of(server)["asgi"])
    assert asgi["version"] == "3.0"
    assert asgi["spec_version"] == "2.5"


@pytest.mark.fails_on("granian")
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_the_http_version_is_that_of_the_request(server, version):
    assert scope_of(server, version=version)["http_version"] == ["str", version]


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS", "PATCH", "PROPFIND"])
def test_the_method_is_a_string_in_upper_case(server, method):
    assert scope_of(server, method=method)["method"] == ["str", method]


def test_the_scheme_is_http(server):
    assert scope_of(server)["scheme"] == ["str", "http"]


@pytest.mark.parametrize(("target", "path"), [
    ("/scope/plain", "/scope/plain"),
    ("/scope/caf%C3%A9", "/scope/café"),
    ("/scope/%E2%82%AC%20a", "/scope/€ a"),
    ("/scope/a%2Fb", "/scope/a/b"),
    ("/scope/a+b", "/scope/a+b"),
    ("/scope/%3Fno-query", "/scope/?no-query"),
    ("/scope/%2525", "/scope/%25"),
])
def test_the_path_is_decoded_once(server, target, path):
    assert scope_of(server, target)["path"] == ["str", path]


@pytest.mark.fails_on("granian")
@pytest.mark.parametrize("target", [
    "/scope/caf%C3%A9", "/scope/caf%c3%a9", "/scope/a%2Fb", "/scope/a%20b", "/scope/%ff",
])
def test_the_raw_path_is_the_one_that_was_routed_without_the_query(server, target):
    """Tidegate normalises percent-encoding for routing; other servers pass the target unchanged."""
    raw = re.sub("%..", lambda match: match[0].upper(), target) if KIND == "tidegate" else target
    assert scope_of(server, target + "?a=%20")["raw_path"] == ["bytes", raw]


def test_a_path_that_is_not_utf8_is_a_string(server):
    assert scope_of(server, "/scope/%ff%fe")["path"][0] == "str"


@pytest.mark.parametrize("query", ["", "a=b", "a=%C3%A9&b=c+d", "a?b", "a=/%2F", "=&=&&"])
def test_the_query_string_is_the_raw_bytes(server, query):
    assert scope_of(server, f"/scope?{query}")["query_string"] == ["bytes", query]


def test_without_a_query_it_is_empty(server):
    assert scope_of(server)["query_string"] == ["bytes", ""]


def test_the_root_path_is_empty_by_default(server):
    assert scope_of(server).get("root_path", ["str", ""]) == ["str", ""]


def test_names_of_headers_are_lower_case_bytes(server):
    names = [name for name, _ in headers_of(scope_of(server, headers={"X-Some-Thing": "Value"}))]
    assert b"x-some-thing" in names
    assert all(name == name.lower() for name in names)


def test_headers_are_two_item_iterables_of_bytes(server):
    for pair in scope_of(server, headers={"a": "b"})["headers"][1]:
        assert pair[0] == "sequence"
        assert [kind for kind, _ in pair[1]] == ["bytes", "bytes"]


def test_values_are_unchanged(server):
    value = 'quoted "a, b"; c=d  two  spaces'
    assert (b"x", value.encode()) in headers_of(scope_of(server, headers={"x": value}))


@pytest.mark.fails_on("uvicorn")
def test_whitespace_around_a_value_is_not_part_of_it(server):
    # RFC 9112 section 5.
    assert (b"x", b"value") in headers_of(scope_of(server, headers={"x": "  value \t"}))


def test_bytes_above_ascii_in_a_value_are_unchanged(server):
    assert (b"x", b"caf\xe9") in headers_of(scope_of(server, headers={"x": "caf\xe9"}))


def test_repeated_headers_keep_their_order(server):
    sent = [("b", "1"), ("a", "2"), ("B", "3"), ("a", "4"), ("b", "1")]
    found = [(n, v) for n, v in headers_of(scope_of(server, headers=sent)) if n in (b"a", b"b")]
    assert [value for name, value in found if name == b"b"] == [b"1", b"3", b"1"]
    assert [value for name, value in found if name == b"a"] == [b"2", b"4"]


def test_headers_keep_their_order(server):
    sent = [("host", "h"), ("zz", "1"), ("accept", "*/*"), ("aa", "2"), ("user-agent", "t")]
    assert headers_of(scope_of(server, headers=sent)) == [(n.encode(), v.encode()) for n, v in sent]


def test_an_empty_value_is_a_header(server):
    assert (b"x-empty", b"") in headers_of(scope_of(server, headers={"x-empty": ""}))


@pytest.mark.fails_on("granian", "hypercorn", "gunicorn")
def test_two_cookie_fields_are_not_joined(server):
    sent = [("cookie", "a=b"), ("cookie", "c=d")]
    found = [v for n, v in headers_of(scope_of(server, headers=sent)) if n == b"cookie"]
    assert found == [b"a=b", b"c=d"]


@pytest.mark.fails_on("granian")
def test_the_client_is_an_address_and_an_integer(server):
    with server.connect() as client:
        client.send(request("GET", "/scope"))
        scope = json.loads(client.response().body)
        expected = list(client.socket.getsockname()[:2])
    kind, (host, port) = scope["client"]
    assert kind == "sequence"
    assert [host, port] == [["str", expected[0]], ["int", expected[1]]]


@pytest.mark.fails_on("granian")
def test_the_server_is_an_address_and_an_integer(server):
    kind, (host, port) = scope_of(server)["server"]
    assert kind == "sequence"
    assert [host, port] == [["str", "127.0.0.1"], ["int", server.port]]


@pytest.mark.fails_on("granian")
def test_the_host_header_does_not_change_the_server(server):
    _, (host, port) = scope_of(server, headers={"host": "example.org:1"})["server"]
    assert [host, port] == [["str", "127.0.0.1"], ["int", server.port]]


def test_each_request_has_its_own_scope(server):
    """The changes of one request do not appear in the scope of another."""
    with server.connect() as client:
        for _ in range(3):
            client.send(request("GET", "/scribble"))
            assert client.response().body == b'["fresh", "dict"]'


@app.part
async def scribble(scope, receive, send):
    fresh = "stale" if "scribbled" in scope else "fresh"
    scope["scribbled"] = scope["path"] = "/scribbled"
    scope["asgi"]["scribbled"] = scope.get("extensions", {})["scribbled"] = True
    if isinstance(scope["headers"], list):
        scope["headers"].append((b"scribbled", b"1"))
    await reply(send, [fresh, type(scope).__name__])


def test_nested_objects_of_a_scope_are_not_shared(server):
    assert server.get("/scribble").status == 200
    scope = scope_of(server)
    assert all(name != b"scribbled" for name, _ in headers_of(scope))
    assert "scribbled" not in plain(scope["asgi"])
    assert "scribbled" not in plain(scope.get("extensions", ["dict", {}]))


def test_the_path_of_an_absolute_target_is_used(server):
    scope = scope_of(server, "http://example.org/scope/x?y=z", headers={"host": "example.org"})
    assert scope["path"] == ["str", "/scope/x"]
    assert scope["query_string"] == ["bytes", "y=z"]


@pytest.mark.fails_on("uvicorn", "granian", "gunicorn", "hypercorn")
def test_the_scope_lists_the_extensions(server):
    extensions = plain(scope_of(server)["extensions"])
    for name in ("trailers", "early_hint", "pathsend"):
        assert extensions[f"http.response.{name}"] == {}, name
