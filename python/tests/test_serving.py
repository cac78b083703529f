"""`tidegate.serving`: a server within a program."""

import asyncio
import os
import socket
import ssl
import subprocess

import pytest

from client import request
from hosting import IS_BEHIND_GATEWAY, KIND

if KIND != "tidegate" or IS_BEHIND_GATEWAY:
    pytest.skip("only ours serves within a program", allow_module_level=True)

import tidegate


class Application:
    """Responds with its state; has the types of the lifespan events that it got."""

    def __init__(self):
        self.events = []

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"served"})
        while scope["type"] == "lifespan" and self.events[-1:] != ["lifespan.shutdown"]:
            self.events.append((await receive())["type"])
            await send({"type": f"{self.events[-1]}.complete"})


BOTH = ["lifespan.startup", "lifespan.shutdown"]


def run(main):
    asyncio.run(asyncio.wait_for(main, 60))


async def get(context=None, **address):
    if "path" in address:
        reader, writer = await asyncio.open_unix_connection(**address)
    else:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", **address, ssl=context,
            server_hostname=None if context is None else "localhost")
    writer.write(request("GET", "/", {"host": "localhost", "connection": "close"}))
    response = await reader.read()
    writer.close()
    return response


async def failing(application, **options):
    async with tidegate.serving(application, **options):
        raise AssertionError("it must not serve")


def test_an_address_in_use_ends_the_application_in_order():
    application = Application()
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(OSError, match="in use"):
        run(failing(application, port=other.getsockname()[1]))
    assert application.events == BOTH


def test_a_wrong_configuration_leaves_nothing_open():
    application = Application()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(RuntimeError, match='unknown key "nonsense"'):
        run(failing(application, port=port, configuration={"nonsense": 1}))
    assert application.events == BOTH
    socket.create_server(("127.0.0.1", port)).close()


@pytest.mark.parametrize("configuration, said", [
    ({"listeners": {"web": {"bind": "127.0.0.1:1"}}}, "listeners.web.bind"),
    ({"listeners": {"other": {"bind": "127.0.0.1:1"}}}, "listeners.other"),
    ({"apps": {"main": {"python": "a:b"}}}, "apps.main.python"),
    ({"apps": {"shop": {"python": "a:b"}}}, "apps.shop"),
])
def test_what_the_arguments_set_is_not_configured(configuration, said):
    application = Application()
    with pytest.raises(ValueError, match=f"configuration has {said}"):
        run(failing(application, port=0, configuration=configuration))
    assert application.events == []


def test_settings_of_the_listener_and_of_the_application_are_used(tmp_path):
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", "a.key", "-out", "a.pem"],
        cwd=tmp_path, check=True, capture_output=True)
    certificate = {"cert": f"{tmp_path}/a.pem", "key": f"{tmp_path}/a.key"}
    configuration = {
        "listeners": {"web": {"tls": {"certificates": [certificate]}}},
        "apps": {"main": {"limits": {"in_flight": 1}}},
    }
    waits = asyncio.Event()

    async def application(scope, receive, send):
        waits.set()
        await receive()
        await asyncio.sleep(3600)

    async def main():
        context = ssl.create_default_context(cafile=f"{tmp_path}/a.pem")
        async with tidegate.serving(
                application, port=0, lifespan="off", configuration=configuration,
                graceful_timeout=0.1) as server:
            assert server.url.startswith("https://127.0.0.1:")
            port = int(server.url.rpartition(":")[2])
            first = asyncio.create_task(get(context, port=port))
            await waits.wait()
            assert b" 503 " in await get(context, port=port)
            first.cancel()

    run(main())


def test_the_file_of_a_socket_that_nothing_serves_is_replaced(tmp_path):
    path = str(tmp_path / "a.sock")
    with socket.socket(socket.AF_UNIX) as crashed:
        crashed.bind(path)

    async def main(application):
        async with tidegate.serving(application, uds=path):
            assert b"served" in await get(path=path)
            # Another server does not take it.
            with pytest.raises(OSError, match="in use"):
                await failing(Application(), uds=path)
            assert b"served" in await get(path=path)
            # As a program that cleans up does.
            os.unlink(path)

    application = Application()
    run(main(application))
    assert application.events == BOTH
