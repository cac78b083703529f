"""What an application logs and prints: once, with time and process, in the server's format."""

import asyncio
import ctypes
import json
import logging
import logging.config
import os
import re
import sys
import time

import pytest

from client import request
from hosting import KIND
from stage import Stage, WsgiStage, note, reply

pytestmark = pytest.mark.skipif(KIND != "tidegate", reason="the format of our logs")
app = Stage()
wsgi = WsgiStage()
STAMP = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@app.part
async def logs(scope, receive, send):
    logging.getLogger("shop").info("from a logger")
    logging.warning("from the module")
    print("from print")
    print("with", "several", sep=" ", end=" ")
    print("parts")
    print(json.dumps({"from": "a JSON logger"}))
    try:
        raise ValueError("a reason")
    except ValueError:
        logging.getLogger("shop").exception("first line\nsecond line")
    await reply(send, b"logged")


def once(server, pattern):
    """The one line that the pattern matches."""
    found = server.line(pattern)
    lines = [line for line in server.log().splitlines() if re.search(pattern, line)]
    assert len(lines) == 1, lines
    return found


def test_lines_are_in_the_text_of_the_server(start_server):
    server = start_server("test_logs:app")
    assert server.get("/logs").status == 200
    process = r"app=main worker=0 process=\d+"
    once(server, rf"{STAMP} INFO from a logger {process} logger=shop$")
    once(server, rf"{STAMP} WARN from the module {process} logger=root$")
    once(server, rf"{STAMP} INFO from print {process} stream=stdout$")
    once(server, rf"{STAMP} INFO with several parts {process} stream=stdout$")
    once(server, r'^{"from": "a JSON logger"}$')
    once(server, rf"{STAMP} ERROR first line {process} logger=shop$")
    once(server, r"^  second line$")
    once(server, r"^  ValueError: a reason$")


def test_lines_are_in_the_json_of_the_server(start_server):
    server = start_server("test_logs:app", log_format="json")
    assert server.get("/logs").status == 200
    server.line("ValueError: a reason")
    events = [json.loads(line) for line in server.log().splitlines() if line.startswith("{")]
    named = {event["message"]: event for event in events if event.get("app") == "main"}
    for message, level in [("from a logger", "info"), ("from the module", "warn"),
                           ("from print", "info"), ("first line\nsecond line", "error")]:
        event = named[message]
        assert event["level"] == level
        assert re.match(STAMP, event["time"])
        assert event["process"] > 0
        assert len([one for one in events if one.get("message") == message]) == 1
    assert "ValueError: a reason" in named["first line\nsecond line"]["exception"]


@app.part
async def has_handlers(scope, receive, send):
    """A logger with its own handler, and one that uses the root logger."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("OWN %(message)s"))
    logging.getLogger("own").addHandler(handler)
    logging.getLogger("own").info("by its handler")
    logging.getLogger("other").info("by the default one")
    logging.basicConfig(format="BASIC %(message)s", level=logging.DEBUG)
    logging.getLogger("other").debug("by the root's")
    await reply(send, b"logged")


def test_handlers_of_the_application_are_not_changed(start_server):
    server = start_server("test_logs:app")
    assert server.get("/has_handlers").status == 200
    once(server, "by the root's")
    once(server, r"^OWN by its handler$")
    once(server, rf"{STAMP} INFO by the default one .* logger=other$")
    once(server, r"^BASIC by the root's$")


DISABLES = {
    "version": 1,
    "disable_existing_loggers": True,
    "formatters": {"own": {"format": "DICT %(message)s"}},
    "handlers": {"own": {"class": "logging.StreamHandler", "formatter": "own"}},
    "root": {"level": "INFO", "handlers": ["own"]},
}


@app.part
async def disables(scope, receive, send):
    logging.config.dictConfig(DISABLES)
    logging.getLogger("new").info("after dictConfig")
    raise RuntimeError("on purpose")


def test_errors_stay_in_the_log_though_dict_config_disables_loggers(start_server):
    server = start_server("test_logs:app")
    assert server.get("/disables").status == 500
    once(server, r"^DICT after dictConfig$")
    once(server, r"RuntimeError: on purpose$")


STALL = r"WARN a call in the application blocks and holds up requests .*"


def call_that(function, *arguments):
    """A frame between the loop and the blocking call."""
    return function(*arguments)


# Each blocks the loop until there is a file.
def compute(file):
    while not os.path.exists(file):
        pass


def sleep(file):
    while not os.path.exists(file):
        time.sleep(0.2)


def hold(file):
    """Keeps the GIL, for which the server waits half a second."""
    while not os.path.exists(file):
        ctypes.PyDLL(None).usleep(2_000_000)


@app.part
async def blocks(scope, receive, send):
    note("blocks")
    how, _, file = scope["query_string"].decode().partition(",")
    call_that({"compute": compute, "sleep": sleep, "hold": hold}[how], file)
    await reply(send, b"")


@pytest.mark.parametrize("how", ["compute", "sleep", "hold"])
def test_a_call_that_blocks_is_logged_with_a_readable_stack(start_server, tmp_path, how):
    server = start_server("test_logs:app")
    with server.connect() as client, server.connect() as other:
        client.send(request("GET", f"/blocks?{how},{tmp_path}/logged"))
        server.note("blocks")
        other.send(request("GET", "/logs"))
        stack = server.line(STALL + r'stack="(.*)"')[1]
        (tmp_path / "logged").touch()
        assert client.response().status == 200
        assert other.response().status == 200
    frames = rf"{how} \(\S*test_logs.py:\d+\) < call_that \(\S*test_logs.py:\d+\) < blocks \("
    assert re.search(frames, stack), stack
    assert "_worker.py" not in stack and "\\n" not in stack


@app.part
async def is_busy(scope, receive, send):
    """Many short callbacks, which delay the polling of sockets."""
    def short():
        time.sleep(0.001)

    note("busy")
    for _ in range(700):
        asyncio.get_running_loop().call_soon(short)
    await asyncio.sleep(0)
    await reply(send, b"")


def test_a_busy_loop_is_not_a_blocking_call(start_server):
    server = start_server("test_logs:app")
    with server.connect() as client, server.connect() as other:
        client.send(request("GET", "/is_busy"))
        server.note("busy")
        other.send(request("GET", "/logs"))
        assert client.response().status == 200
        assert other.response().status == 200
    server.line("ValueError: a reason")
    assert not re.search(r"WARN .* stack=", server.log())


def flask_app():
    import flask

    site = flask.Flask("shop")

    @site.get("/")
    def logs_and_fails():
        site.logger.info("from the view")
        raise LookupError("no such product")

    return site


def flask_with_a_format():
    from flask.logging import default_handler

    default_handler.setFormatter(logging.Formatter("OWN %(message)s"))
    return flask_app()


@pytest.mark.parametrize("options", [{}, {"preload": True}])
def test_the_logger_of_flask_has_the_levels_and_the_format_of_the_server(start_server, options):
    pytest.importorskip("flask")
    server = start_server("test_logs:flask_app", "wsgi", factory=True, **options)
    assert server.get("/").status == 500
    process = r"app=main worker=0 process=\d+"
    once(server, rf"{STAMP} INFO from the view {process} logger=shop$")
    once(server, rf"{STAMP} ERROR Exception on / \[GET\] {process} logger=shop$")
    once(server, r"^  LookupError: no such product$")


def test_a_format_of_the_application_for_flask_is_not_changed(start_server):
    pytest.importorskip("flask")
    server = start_server("test_logs:flask_with_a_format", "wsgi", factory=True)
    assert server.get("/").status == 500
    once(server, rf"{STAMP} ERROR OWN from the view .*logger=tidegate.error$")


@wsgi.part
def wsgi_logs(environ, start_response):
    print("from a thread")
    logging.getLogger("shop").info("from a logger")
    environ["wsgi.errors"].write("from wsgi.errors\n")
    start_response("200 OK", [("content-length", "0")])
    return []


def test_lines_of_wsgi_are_in_the_text_of_the_server(start_server):
    server = start_server("test_logs:wsgi", interface="wsgi")
    assert server.get("/logs").status == 200
    once(server, rf"{STAMP} INFO from a thread .*process=\d+ stream=stdout$")
    once(server, rf"{STAMP} INFO from a logger .*process=\d+ logger=shop$")
    once(server, rf"{STAMP} ERROR from wsgi.errors .*process=\d+ logger=tidegate.error$")
