"""An application that cannot be started: an error message and an exit code."""

import pytest

from hosting import KIND
from stage import reply

pytestmark = pytest.mark.skipif(KIND != "tidegate", reason="sentences of ours")


async def app(scope, receive, send):
    await reply(send, b"ok")


def makes():
    return app


def makes_nothing():
    return None


def raises():
    raise ValueError("no factory today")


NUMBER = 5


@pytest.mark.parametrize(("target", "logged"), [
    ("test_no_such_module:app", "test_no_such_module"),
    ("test_faults_start:nothing", "nothing"),
    ("test_faults_start:NUMBER", "int"),
])
def test_a_target_that_cannot_be_found_is_named(start_server, target, logged):
    server = start_server(target, ready=False)
    assert server.wait() == 1
    assert logged in server.log()


@pytest.mark.parametrize(("content", "logged"), [
    ("import no_such_dependency\n", "no_such_dependency"),
    ("raise RuntimeError('the settings are missing')\n", "the settings are missing"),
    ("def app(:\n", "SyntaxError"),
    ("import sys; sys.exit(7)\n", "broken"),
])
def test_a_module_that_cannot_be_imported_is_reported(start_server, tmp_path, content, logged):
    (tmp_path / "broken.py").write_text(content)
    server = start_server("broken:app", ready=False, app_dir=tmp_path)
    assert server.wait() == 1
    assert logged in server.log()


def test_a_factory_makes_the_application(start_server):
    server = start_server("test_faults_start:makes", factory=True)
    assert server.get("/").body == b"ok"


@pytest.mark.parametrize(("name", "logged"), [("raises", "no factory today"),
                                            ("makes_nothing", "makes_nothing")])
def test_a_factory_that_fails_is_reported(start_server, name, logged):
    server = start_server(f"test_faults_start:{name}", ready=False, factory=True)
    assert server.wait() == 1
    assert logged in server.log()


def test_two_servers_on_one_port_is_an_error(start_server):
    first = start_server("test_faults_start:app")
    second = start_server("test_faults_start:app", ready=False, port=first.port)
    assert second.wait() != 0
    assert str(first.port) in second.log()
    assert first.get("/").body == b"ok"
