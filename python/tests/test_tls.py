"""https of `tidegate run`: uvicorn's options, the scheme, and the ASGI TLS extension 0.2."""

import json
import shutil
import socket
import ssl
import subprocess

import pytest

from hosting import IS_BEHIND_GATEWAY, serve
from stage import Stage, note, reply

app = Stage()
pytestmark = [
    pytest.mark.fails_on("uvicorn", "granian", "hypercorn", "gunicorn"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed"),
    pytest.mark.skipif(IS_BEHIND_GATEWAY, reason="the gateway terminates TLS"),
]


@app.part
async def scope(scope, receive, send):
    extension = scope["extensions"].get("tls")
    await reply(send, {"scheme": scope["scheme"], "tls": extension})


@app.part
async def denied(scope, receive, send):
    note("denied", [scope["scheme"], sorted(scope["extensions"]["tls"])])
    await receive()
    await send({"type": "websocket.close"})


def wsgi(environ, start_response):
    body = json.dumps([environ["wsgi.url_scheme"], environ["HTTPS"]]).encode()
    start_response("200 OK", [("content-length", str(len(body)))])
    return [body]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """An authority, a server's certificate with its key in one file, and a client's."""
    directory = tmp_path_factory.mktemp("tls")

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *key, "-days", "2", "-subj", "/CN=authority", "-addext",
            "keyUsage=critical,keyCertSign", "-keyout", "ca.key", "-out", "ca.pem")
    for name in ("localhost", "alice"):
        openssl("req", *key, "-subj", f"/O=test/CN={name}", "-keyout", f"{name}.key",
                "-out", f"{name}.csr")
        (directory / "names").write_text(
            f"subjectAltName=DNS:{name}\nauthorityKeyIdentifier=keyid\n")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", f"{name}.pem")
        both = (directory / f"{name}.pem").read_text() + (directory / f"{name}.key").read_text()
        (directory / f"{name}.both").write_text(both)
    return directory


def ask(server, files, client=None, request="GET /scope HTTP/1.1", version=None,
        name="localhost"):
    """The response to one request: its head and its body."""
    context = ssl.create_default_context(cafile=files / "ca.pem")
    if client is not None:
        context.load_cert_chain(files / f"{client}.both")
    if version is not None:
        context.maximum_version = version
    with socket.create_connection(("127.0.0.1", server.port), 30) as plain, \
            context.wrap_socket(plain, server_hostname=name) as connection:
        connection.sendall(f"{request}\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
        received = b""
        while piece := connection.recv(65536):
            received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    return head, body


def der(text):
    return ssl.PEM_cert_to_DER_cert(text)


def test_the_scope_has_the_connection_and_the_client(files):
    options = {"ssl_certfile": files / "localhost.pem", "ssl_keyfile": files / "localhost.key",
               "ssl_ca_certs": files / "ca.pem", "ssl_cert_reqs": 1}
    with serve("test_tls:app", **options).ready() as server:
        for version, number in [(ssl.TLSVersion.TLSv1_2, 0x0303), (None, 0x0304)]:
            head, body = ask(server, files, version=version)
            assert head.startswith(b"HTTP/1.1 200"), head
            told = json.loads(body)
            tls = told["tls"]
            assert (told["scheme"], tls["tls_version"]) == ("https", number)
            assert tls["cipher_suite"] in (0x1301, 0x1302, 0x1303, 0xC02B, 0xC02C, 0xCCA9)
            assert der(tls["server_cert"]) == der((files / "localhost.pem").read_text())
            absent = (tls["client_cert_chain"], tls["client_cert_name"], tls["client_cert_error"])
            assert absent == ([], None, None)
        tls = json.loads(ask(server, files, client="alice")[1])["tls"]
        assert tls["client_cert_name"] == "CN=alice,O=test"
        # The client may send its issuers too.
        assert der(tls["client_cert_chain"][0]) == der((files / "alice.pem").read_text())
        upgrade = ("GET /denied HTTP/1.1\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
                   "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==")
        ask(server, files, request=upgrade)
        assert server.note("denied") == ["wss", [
            "cipher_suite", "client_cert_chain", "client_cert_error", "client_cert_name",
            "server_cert", "tls_version"]]


def test_gunicorns_names_a_combined_file_and_a_required_certificate(files):
    options = {"certfile": files / "localhost.both", "ca_certs": files / "ca.pem", "cert_reqs": 2}
    with serve("test_tls:wsgi", "wsgi", **options).ready() as server:
        assert json.loads(ask(server, files, client="alice")[1]) == ["https", "on"]
        with pytest.raises(OSError):
            ask(server, files)


def test_a_certificate_for_development(tmp_path):
    environment = {"STATE_DIRECTORY": str(tmp_path)}
    with serve("test_tls:app", environment=environment, dev_tls="shop.test").ready() as server:
        authority = tmp_path / "dev-tls"
        server.line("valid for clients that trust " + str(authority / "ca.pem"))
        for name in ("localhost", "shop.test"):
            told = json.loads(ask(server, authority, name=name)[1])
            assert told["scheme"] == "https"
    both = {"dev_tls": "shop.test", "ssl_certfile": tmp_path / "site.pem"}
    with serve("test_tls:app", environment=environment, **both) as server:
        assert server.wait() == 2
        server.line("cannot be used with")


def test_plain_http_has_no_extension(server):
    assert json.loads(server.get("/scope").body) == {"scheme": "http", "tls": None}


def test_what_cannot_be_served_is_said_before_anything_starts(files):
    for options, said in [
        ({"ssl_certfile": files / "localhost.pem", "ssl_keyfile": files / "alice.key"},
         "the private key does not belong to the certificate"),
        ({"ssl_certfile": files / "none.pem"}, "there is no file"),
        ({"ssl_keyfile": files / "alice.key"}, "--ssl-certfile"),
        ({"ssl_certfile": files / "localhost.both", "ssl_cert_reqs": 2}, "--ssl-ca-certs"),
        ({"ssl_certfile": files / "localhost.both", "ssl_keyfile_password": "x"},
         "encrypted keys are not supported"),
    ]:
        with serve("test_tls:app", **options) as server:
            assert server.wait() == 2
            server.line(said)
