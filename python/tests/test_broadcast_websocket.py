"""One message to many WebSocket clients: each gets it once, in order, and memory stays bounded."""

import os
import re
import resource
from pathlib import Path

import pytest

from client import request
from hosting import IS_BEHIND_GATEWAY, KIND
from stage import Stage, note, reply, whole_body
from websocket_frames import Session

if KIND != "tidegate":
    pytest.skip("only ours has a broadcast", allow_module_level=True)

from tidegate import broadcast

app = Stage()
#: TIDEGATE_CLIENTS=all has all 5000 clients.
CLIENTS = 5000 if os.environ.get("TIDEGATE_CLIENTS") == "all" else 300
MIB = 1024 * 1024


@app.part
async def room(scope, receive, send):
    assert (await receive())["type"] == "websocket.connect"
    try:
        async with broadcast.subscribe("room") as messages:
            await send({"type": "websocket.accept"})
            async for message in messages:
                await send({"type": "websocket.send", "text": message})
    except (broadcast.SlowSubscriber, OSError) as error:
        note("left", type(error).__name__)


@app.part
async def say(scope, receive, send):
    await broadcast.apublish("room", (await whole_body(receive)).decode())
    await reply(send, b"")


@app.part
async def pid(scope, receive, send):
    await reply(send, os.getpid())


def memory(process):
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024


class Server:
    """The server of a test, and a connection on which messages are posted."""

    def __init__(self, server):
        self.server = server
        self.speaker = server.connect()

    def say(self, message):
        self.speaker.send(request("POST", "/say", body=message.encode()))
        assert self.speaker.response().status == 200

    def clients(self, number):
        sessions = [Session(self.server.port, "/room").opened() for _ in range(number)]
        assert all(session.response.status == 101 for session in sessions)
        return sessions


@pytest.fixture
def running(start_server):
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
    yield Server(start_server("test_broadcast_websocket:app"))
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)


def test_each_client_gets_each_message_once_and_in_order(running):
    sessions = running.clients(CLIENTS)
    messages = [f"message {number} " + "x" * (100 * number) for number in range(20)]
    for message in messages:
        running.say(message)
    running.say("end")
    for session in sessions:
        received = []
        while (message := session.message()) != "end":
            received.append(message)
        assert received == messages
        session.client.close()


@pytest.mark.skipif(IS_BEHIND_GATEWAY, reason="the memory of one process is measured")
def test_clients_that_do_not_read_hold_up_no_other_and_memory_is_bounded(running):
    process = int(running.server.get("/pid").body)
    silent, (reader,) = running.clients(40), running.clients(1)
    before = memory(process)
    piece = "y" * (256 * 1024)
    for number in range(100):
        running.say(f"{number}{piece}")
        assert reader.message() == f"{number}{piece}"
    # Unbounded they would have a gigabyte: a subscriber has at most 4 MiB waiting, and its
    # connection less than 1 MiB.
    assert memory(process) - before < 40 * 6 * MIB
    for session in silent:
        session.client.vanish()
    for _ in silent:
        running.server.note("left")
    running.say("end")
    assert reader.message() == "end"
