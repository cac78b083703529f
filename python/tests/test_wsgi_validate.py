"""wsgiref.validate between the server and the application: it asserts on both of them."""

import json
import wsgiref.validate

import pytest

from client import chunk, request

INTERFACE = "wsgi"
METHODS = ("GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH")


def application(environ, start_response):
    stream = environ["wsgi.input"]
    way = environ["QUERY_STRING"]
    if way == "lines":
        body = b"".join(line for line in stream)
    elif way == "readline":
        body = b"".join(iter(stream.readline, b""))
    elif way == "readlines":
        body = b"".join(stream.readlines())
    else:
        body = b"".join(iter(lambda: stream.read(1000), b""))
    environ["wsgi.errors"].write("validated\n")
    environ["wsgi.errors"].flush()
    write = start_response("200 OK", [("Content-Type", "text/plain")])
    if way == "write":
        write(body)
        return [b""]
    if environ["REQUEST_METHOD"] == "HEAD":
        return [b""]
    if way == "generator":
        return (bytes([byte]) for byte in body)
    return [body or json.dumps(environ["REQUEST_METHOD"]).encode()]


app = wsgiref.validate.validator(application)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_valid(server, method):
    response = server.ask(method, "/some/path%20here", {"content-type": "text/plain"},
                        b"body" if method in ("POST", "PUT", "PATCH") else None)
    assert response.status == 200, server.log()


@pytest.mark.fails_on("granian")
@pytest.mark.parametrize("way", ["read", "lines", "readline", "readlines", "write", "generator"])
def test_every_way_is_valid(server, way):
    body = b"one\ntwo\nthree" * 500
    with server.connect() as client:
        client.send(request("POST", f"/?{way}", body=body))
        assert client.response().body == body, server.log()
        client.send(request("POST", f"/?{way}", {"transfer-encoding": "chunked"}))
        client.send(chunk(body) + chunk(b""))
        assert client.response().body == body, server.log()
