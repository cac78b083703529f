"""`tidegate run`: options implemented in Python, and start-up errors."""

import json
import logging
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hosting import KIND

pytestmark = pytest.mark.skipif(KIND != "tidegate", reason="the words of our command line")

DICT_CONFIG = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"ours": {"format": "OURS %(name)s %(message)s"}},
    "handlers": {"out": {"class": "logging.StreamHandler", "formatter": "ours"}},
    "root": {"level": "DEBUG", "handlers": ["out"]},
}
INI = """
[loggers]
keys=root
[handlers]
keys=out
[formatters]
keys=ours
[logger_root]
level=DEBUG
handlers=out
[handler_out]
class=StreamHandler
formatter=ours
[formatter_ours]
format=OURS %(name)s %(message)s
"""


async def app(scope, receive, send):
    if scope["type"] != "http":
        raise RuntimeError("only http")
    logging.getLogger("shop").debug("asked for %s", scope["path"])
    body = os.environ.get(scope["path"][1:], "unset").encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


@pytest.mark.parametrize("name, text", [("log.json", json.dumps(DICT_CONFIG)), ("log.ini", INI)])
def test_logging_is_configured_from_a_file(start_server, tmp_path, name, text):
    file = tmp_path / name
    file.write_text(text)
    server = start_server("test_run:app", log_config=file)
    server.get("/hello")
    server.line(r"OURS shop asked for /hello")


@pytest.mark.parametrize("name, text, logged", [
    ("log.json", "{", "log.json is invalid"),
    ("log.json", '{"version": 2}', "log.json is invalid"),
    ("log.ini", "[loggers]\n", "log.ini is invalid"),
])
def test_a_wrong_log_configuration_is_reported(start_server, tmp_path, name, text, logged):
    file = tmp_path / name
    file.write_text(text)
    server = start_server("test_run:app", ready=False, log_config=file)
    assert server.wait() == 1
    assert logged in server.log()


def test_an_environment_file_sets_what_is_not_set(start_server, tmp_path):
    file = tmp_path / ".env"
    file.write_text("# ours\nSHOP_COLOUR='deep blue'\nexport SHOP_SIZE=\"1\\n2\"\nSHOP_SET=file\n")
    server = start_server("test_run:app", env_file=file, environment={"SHOP_SET": "outside"})
    assert server.get("/SHOP_COLOUR").body == b"deep blue"
    assert server.get("/SHOP_SIZE").body == b"1\n2"
    assert server.get("/SHOP_SET").body == b"outside"
    assert server.get("/TIDEGATE_WORKER").body == b"unset"


def test_a_directory_is_served_before_the_application(start_server, tmp_path):
    (tmp_path / "a.txt").write_text("a file")
    server = start_server("test_run:app", static=f"/static={tmp_path}")
    assert server.get("/static/a.txt").body == b"a file"
    assert server.get("/static/b.txt").status == 404
    assert server.get("/elsewhere").body == b"unset"


def test_it_serves_on_a_unix_socket(start_server, tmp_path):
    path = tmp_path / "app.sock"
    server = start_server("test_run:app", ready=False, bind=f"unix:{path}")
    server.line(r"serving test_run:app on ")
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(b"GET /x HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        response = b""
        while piece := client.recv(65536):
            response += piece
    assert response.startswith(b"HTTP/1.1 200 ") and response.endswith(b"unset")


def wsgi(environ, start_response):
    start_response("200 OK", [("content-length", "4")])
    return [f"{environ['SERVER_PORT']:>4}".encode()]


def test_the_port_of_a_unix_socket_is_that_of_the_scheme_of_each_request(start_server, tmp_path):
    path = tmp_path / "app.sock"
    server = start_server("test_run:wsgi", "wsgi", ready=False, bind=f"unix:{path}")
    server.line(r"serving test_run:wsgi on ")
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        for scheme, port in (("http", b"  80"), ("https", b" 443"), ("http", b"  80")):
            head = f"GET / HTTP/1.1\r\nhost: a\r\nx-forwarded-proto: {scheme}\r\n\r\n"
            client.sendall(head.encode())
            response = b""
            while b"\r\n\r\n" not in response or len(response.partition(b"\r\n\r\n")[2]) < 4:
                response += client.recv(65536)
            assert response.endswith(port), response


def test_variables_and_fields_are_added(start_server):
    words = "-e SHOP_A=gunicorn --header x-a:1 --worker-tmp-dir /dev/shm"
    environment = {"GUNICORN_CMD_ARGS": words}
    server = start_server("test_run:app", environment=environment, header="x-b:{2}")
    response = server.get("/SHOP_A")
    # The command line has fields of its own, which replace those of the variable.
    assert response.body == b"gunicorn" and response.header("x-b") == "{2}"
    assert response.header("x-a") is None
    server.line(r"note: GUNICORN_CMD_ARGS has --worker-tmp-dir: leave it out")


def command_lines(server):
    """What ps shows of the supervisor and its workers."""
    processes = [server.process.pid, *server.workers()]
    lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in processes]
    return [line.rstrip(b"\0").decode() for line in lines]


def test_processes_have_a_name_a_file_and_a_mask(start_server, tmp_path):
    pid, path = tmp_path / "shop.pid", tmp_path / "app.sock"
    server = start_server(
        "test_run:app", ready=False, bind=f"unix:{path}", name="shop", pid=pid, umask="027")
    server.line(r"serving test_run:app on ")
    assert pid.read_text() == f"{server.process.pid}\n"
    assert command_lines(server) == ["tidegate: supervisor [shop]", "tidegate: worker [shop]"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    second = start_server("test_run:app", ready=False, pid=pid)
    assert second.wait() == 1
    assert "another process holds it" in second.log()
    server.stop()
    assert not pid.exists()


@pytest.mark.parametrize("target, code, said", [
    ("test_run:app", 0, "ok: test_run:app can be served"),
    ("test_run:nothing", 1, "error: 'test_run' has no attribute 'nothing'"),
])
def test_an_application_is_checked_without_serving(start_server, target, code, said):
    server = start_server(target, ready=False, check_config=True)
    assert server.wait() == code
    assert said in server.log()


@pytest.mark.parametrize("name, text, said", [
    ("log_config", "[bad", "the log configuration"),
    ("config", "logconfig_dict = {'handlers': 1}", "logconfig_dict is invalid"),
])
def test_a_check_finds_a_log_configuration_that_is_wrong(
    start_server, tmp_path, name, text, said,
):
    path = tmp_path / "wrong.py"
    path.write_text(text)
    server = start_server("test_run:app", ready=False, check_config=True, **{name: path})
    assert server.wait() == 1
    assert said in server.log()


def test_a_check_imports_with_the_patches_of_gevent(start_server, tmp_path):
    pytest.importorskip("gevent")
    # A name that is imported stays what it is.
    (tmp_path / "sleeper.py").write_text(
        "from time import sleep\n"
        "assert sleep.__module__.startswith('gevent'), 'not patched'\n"
        "def app(environ, start_response):\n"
        "    sleep(1)\n")
    server = start_server("sleeper:app", "wsgi", ready=False, check_config=True, threads="gevent",
                          app_dir=tmp_path)
    assert server.wait() == 0, server.log()


def test_a_check_finds_an_application_that_greenlets_cannot_run(start_server):
    pytest.importorskip("gevent")
    server = start_server(
        "test_run:app", "auto", ready=False, check_config=True, threads="gevent")
    assert server.wait() == 1
    assert "error: --threads gevent is for WSGI: this application is ASGI" in server.log()


def test_the_supervisor_imports_only_what_it_needs():
    program = ("import sys, tidegate.__main__, tidegate._gunicorn as g; g.take(['run', 'a:b']);"
               "print({'asyncio', 'logging.config', 'typing'} & sys.modules.keys())")
    ended = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True)
    assert ended.stdout == "set()\n", ended
