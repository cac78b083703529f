"""PEP 3333, "environ Variables": the environment that describes a request."""

import json
import shutil
import subprocess

import pytest

from client import chunk, request
from hosting import KIND
from stage import WsgiStage

app = WsgiStage()
INTERFACE = "wsgi"
REQUIRED = ("REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING", "SERVER_NAME",
            "SERVER_PORT", "SERVER_PROTOCOL")


def response(start_response, value):
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    start_response("200 OK", [("content-type", "text/plain"), ("content-length", str(len(body)))])
    return [body]


@app.part
def environ(environ, start_response):
    fields = {key: value for key, value in environ.items() if isinstance(value, (str, bool, int))}
    fields["types"] = {key: type(value).__name__ for key, value in environ.items()}
    fields["dict"] = type(environ) is dict
    fields["wsgi.version"] = list(environ["wsgi.version"])
    fields["methods"] = {
        "input": [name for name in ("read", "readline", "readlines", "__iter__")
                  if hasattr(environ["wsgi.input"], name)],
        "errors": [name for name in ("flush", "write", "writelines")
                   if hasattr(environ["wsgi.errors"], name)],
    }
    return response(start_response, fields)


def seen(server, target="/environ", headers=(), method="GET", body=None, version="1.1"):
    with server.connect() as client:
        client.send(request(method, target, headers, body, version))
        found = client.response(method)
    assert found.status == 200, found
    return json.loads(found.body)


def test_it_is_a_builtin_dict(server):
    assert seen(server)["dict"]


def test_the_required_variables_are_strings(server):
    found = seen(server)
    for name in REQUIRED:
        assert found["types"].get(name, "str") == "str", name
    for name in ("REQUEST_METHOD", "SERVER_NAME", "SERVER_PORT"):
        assert found[name], "must not be empty"


def test_every_cgi_variable_is_a_native_string_of_latin1(server):
    found = seen(server, "/environ/caf%C3%A9?caf%C3%A9", {"x-a": "caf\xe9", "content-type": "x"})
    for name, kind in found["types"].items():
        if name.isupper():
            assert kind == "str", name
            found[name].encode("latin-1")


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS", "PROPFIND"])
def test_request_method(server, method):
    assert seen(server, method=method)["REQUEST_METHOD"] == method


@pytest.mark.parametrize(("target", "raw"), [
    ("/environ/a%20b", b"/environ/a b"),
    ("/environ/caf%C3%A9", "/environ/café".encode()),
    ("/environ/%E2%82%AC", "/environ/€".encode()),
    ("/environ/%ff%fe", b"/environ/\xff\xfe"),
    ("/environ/a%2Fb", b"/environ/a/b"),
    ("/environ/a+b%2525", b"/environ/a+b%25"),
    # The normalised path that was routed.
    ("/environ/a//b/", b"/environ/a/b/"),
    ("/environ/x//%2e%2e/../a", b"/environ/a"),
    ("/private/../environ/./a", b"/environ/a"),
])
def test_path_info_is_bytes_decoded_as_latin1(server, target, raw):
    """"Unicode Issues": encoding as Latin-1 returns the bytes."""
    found = seen(server, target)
    assert (found.get("SCRIPT_NAME", "") + found["PATH_INFO"]).encode("latin-1") == raw


@pytest.mark.parametrize("query", ["", "a=b&c=d", "a=%C3%A9+%20", "a?b?c", "&&="])
def test_query_string_is_raw(server, query):
    assert seen(server, f"/environ?{query}").get("QUERY_STRING", "") == query


def test_without_a_query_it_is_empty_or_absent(server):
    assert seen(server).get("QUERY_STRING", "") == ""


def test_content_type_and_length_have_no_http_prefix(server):
    found = seen(server, headers={"content-type": "text/x; a=b"}, method="POST", body=b"12345")
    assert found["CONTENT_TYPE"] == "text/x; a=b"
    assert found["CONTENT_LENGTH"] == "5"
    assert "HTTP_CONTENT_TYPE" not in found
    assert "HTTP_CONTENT_LENGTH" not in found


def test_without_a_body_they_are_empty_or_absent(server):
    found = seen(server)
    assert found.get("CONTENT_TYPE", "") == ""
    assert found.get("CONTENT_LENGTH", "") in ("", "0")


def test_server_port_is_the_port_and_a_string(server):
    found = seen(server)
    assert found["SERVER_PORT"] == str(server.port)
    assert found["SERVER_NAME"]


@pytest.mark.fails_on("granian")
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_server_protocol_is_that_of_the_request(server, version):
    assert seen(server, version=version)["SERVER_PROTOCOL"] == f"HTTP/{version}"


def test_remote_addr(server):
    assert seen(server)["REMOTE_ADDR"] == "127.0.0.1"


def test_headers_are_variables_of_http(server):
    found = seen(server, headers={"X-Some-Thing": "Value, other", "accept": "*/*"})
    assert found["HTTP_X_SOME_THING"] == "Value, other"
    assert found["HTTP_ACCEPT"] == "*/*"
    assert found["HTTP_HOST"] == "test"


def test_an_absent_header_has_no_variable(server):
    """A variable is present if its header is."""
    found = seen(server)
    assert "HTTP_ACCEPT" not in found
    assert "HTTP_COOKIE" not in found


def test_a_repeated_header_is_joined_with_commas(server):
    # RFC 9110 section 5.3.
    found = seen(server, headers=[("x-a", "1"), ("x-b", "3"), ("X-A", "2")])
    assert found["HTTP_X_A"].replace(", ", ",") == "1,2"


@pytest.mark.fails_on("granian", "gunicorn", "hypercorn")
def test_repeated_cookies_are_joined_as_cookies_are(server):
    # RFC 6265 section 5.4.
    found = seen(server, headers=[("cookie", "a=b"), ("cookie", "c=d")])
    assert found["HTTP_COOKIE"] == "a=b; c=d"


@pytest.mark.fails_on("granian", "hypercorn")
def test_an_underscore_is_not_a_hyphen(server):
    """Otherwise a client could forge headers that a proxy in front has checked."""
    found = seen(server, headers=[("x-user", "checked"), ("x_user", "forged")])
    assert found["HTTP_X_USER"] == "checked"


@pytest.mark.fails_on("granian")
def test_the_environment_of_the_process_is_not_mixed_in(server):
    """PEP 3333 allows it, but it would copy many strings, among them secrets, for each request."""
    if KIND == "tidegate":
        assert "PYTHONUNBUFFERED" not in seen(server)


def test_wsgi_variables(server):
    found = seen(server)
    assert found["wsgi.version"] == [1, 0]
    assert found["types"]["wsgi.version"] == "tuple"
    assert found["wsgi.url_scheme"] == "http"
    assert found["wsgi.run_once"] is False
    assert not found["wsgi.multiprocess"], "there is one worker"
    assert found["methods"]["input"] == ["read", "readline", "readlines", "__iter__"]
    assert found["methods"]["errors"] == ["flush", "write", "writelines"]


def test_input_is_terminated(server):
    """An extension that Werkzeug and others rely on: the input ends with the body."""
    if KIND in ("tidegate", "gunicorn"):
        assert seen(server)["wsgi.input_terminated"] is True


@pytest.mark.fails_on("granian", "gunicorn", "uvicorn", "hypercorn")
def test_a_chunked_request_has_no_transfer_encoding_left(server):
    """The server removes hop-by-hop headers that it has handled."""
    with server.connect() as client:
        client.send(request("POST", "/environ", {"transfer-encoding": "chunked"}))
        client.send(chunk(b"body") + chunk(b""))
        found = json.loads(client.response().body)
    assert "HTTP_TRANSFER_ENCODING" not in found


@pytest.mark.fails_on("granian", "gunicorn", "uvicorn", "hypercorn")
@pytest.mark.parametrize("pieces", [[b"body"], [b"bo", b"dy"]])
@pytest.mark.parametrize("at_once", [True, False])
def test_the_length_of_a_chunked_body_is_known(server, pieces, at_once):
    """Django and others read no body without it."""
    head = request("POST", "/environ", {"transfer-encoding": "chunked"})
    body = b"".join(map(chunk, pieces)) + chunk(b"")
    with server.connect() as client:
        if at_once:
            client.send(head + body)
        else:
            client.send(head)
            client.send(body)
        assert json.loads(client.response().body)["CONTENT_LENGTH"] == "4"


@pytest.mark.skipif(KIND != "tidegate", reason="not every server has HTTP/2 in the clear")
def test_the_length_of_a_body_is_known_without_a_field_of_http2(server):
    curl = shutil.which("curl")
    if curl is None or b"HTTP2" not in subprocess.check_output([curl, "--version"]):
        pytest.skip("there is no curl with HTTP/2")
    url = f"http://127.0.0.1:{server.port}/environ"
    command = [curl, "--silent", "--http2-prior-knowledge", "--upload-file", "-", url]
    done = subprocess.run(command, input=b"body", capture_output=True, check=True, timeout=60)
    assert json.loads(done.stdout)["CONTENT_LENGTH"] == "4"


@app.part
def scribbles(environ, start_response):
    seen = environ.get("scribbled", "fresh")
    environ["scribbled"] = "stale"
    environ["PATH_INFO"] = environ["wsgi.url_scheme"] = "scribbled"
    del environ["wsgi.input"]
    return response(start_response, seen.encode())


def test_the_application_may_change_it_in_any_way(server):
    with server.connect() as client:
        for _ in range(3):
            client.send(request("GET", "/scribbles"))
            assert client.response().body == b"fresh"
    assert seen(server)["wsgi.url_scheme"] == "http"


@app.part
def errors(environ, start_response):
    stream = environ["wsgi.errors"]
    stream.write("a line of text: caf\xe9 \u20ac\n")
    stream.writelines(["two ", "parts\n"])
    stream.flush()
    return response(start_response, b"")


def test_errors_accepts_any_text(server):
    server.get("/errors")
    server.line("a line of text: caf")
    server.line("two parts")


def test_multiprocess_is_true_with_two_workers(start_server):
    server = start_server("test_wsgi_environ:app", "wsgi", workers=2)
    if KIND == "tidegate":
        assert seen(server)["wsgi.multiprocess"] is True


def test_multithread_is_false_with_one_thread(start_server):
    server = start_server("test_wsgi_environ:app", "wsgi", threads=1)
    if KIND == "tidegate":
        assert seen(server)["wsgi.multithread"] is False


def test_multithread_is_true_with_more(start_server):
    server = start_server("test_wsgi_environ:app", "wsgi", threads=4)
    if KIND == "tidegate":
        assert seen(server)["wsgi.multithread"] is True


def test_a_root_path_is_split_into_script_name_and_path_info(start_server):
    """SCRIPT_NAME and PATH_INFO joined are the path that the client requested."""
    server = start_server("test_wsgi_environ:whole", "wsgi", root_path="/mounted")
    if KIND == "tidegate":
        found = seen(server, "/a%20b?c")
        assert (found["SCRIPT_NAME"], found["PATH_INFO"]) == ("/mounted", "/a b")
        found = seen(server, "/mounted/a")
        assert found["SCRIPT_NAME"] == "/mounted"


def whole(environ, start_response):
    return response(start_response, {k: v for k, v in environ.items() if isinstance(v, str)})
