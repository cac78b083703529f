"""Django Channels on a live server: its consumers, routers and middleware, and groups over two
workers. The applications are in channels_app."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from client import chunk, request
from hosting import KIND, PATIENCE_S, SERVED, serve
from websocket_client import dial, ended, refused
from workers import paused

if KIND != "tidegate":
    pytest.skip("the layer is ours", allow_module_level=True)
pytest.importorskip("channels")
pytest.importorskip("msgpack")

HERE = Path(__file__).parent
ORIGIN = [("origin", "http://shop.example")]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The database of the application."""
    variables = {"CHANNELS_DATABASE": str(tmp_path_factory.mktemp("channels") / "site.sqlite3")}
    path = os.pathsep.join([str(HERE), str(SERVED)])
    subprocess.run([sys.executable, "-P", str(HERE / "channels_app.py")], check=True,
                   env={**os.environ, **variables, "PYTHONPATH": path})
    return variables


@pytest.fixture(scope="module")
def server(environment):
    with serve("channels_app:app", environment=environment, workers=2) as running:
        yield running.ready()


def join(server, path):
    """A session of the application: with an allowed origin, as browsers send it."""
    return dial(server, path, additional_headers=ORIGIN)


def member(server, path):
    """A member of a group, with its process and its channel."""
    session = join(server, path)
    return session, *json.loads(session.recv(timeout=PATIENCE_S))


def members(server, path):
    """Members of a group in two workers."""
    one, process, _ = member(server, path)
    with paused(process):
        other, second, _ = member(server, path)
    assert process != second
    return one, other


def heard(*sessions):
    """The next message of each session."""
    return [session.recv(timeout=PATIENCE_S) for session in sessions]


@pytest.mark.parametrize("path", ["/echo", "/sync_echo"])
def test_text_and_bytes(server, path):
    with join(server, path) as session:
        for message in ("hello \U0001f980", b"\xff\x00", "", "x" * 100_000):
            session.send(message)
            assert heard(session) == [message]


@pytest.mark.parametrize("path", ["/json", "/sync_json"])
def test_json(server, path):
    with join(server, path) as session:
        session.send('{"a": [1, null, "é"]}')
        assert json.loads(*heard(session)) == {"got": {"a": [1, None, "é"]}}


def test_the_subprotocol_and_fields_of_accept(server):
    with dial(server, "/echo", additional_headers=ORIGIN, subprotocols=["v1", "v2"]) as session:
        assert session.subprotocol == "v2"
        assert session.response.headers["x-consumer"] == "echo"


@pytest.mark.parametrize("path", ["/denies", "/closes_first"])
def test_a_session_is_denied(server, path):
    assert refused(server, path, additional_headers=ORIGIN).status_code == 403


@pytest.mark.parametrize("headers", [[], [("origin", "http://other.example")]])
def test_origins_of_other_sites_are_denied(server, headers):
    assert refused(server, "/echo", additional_headers=headers).status_code == 403


def test_a_path_without_a_consumer_is_an_error(server):
    assert refused(server, "/nothing", additional_headers=ORIGIN).status_code == 500
    server.line("No route found for path 'nothing'")


def test_a_consumer_closes_with_a_code_and_a_reason(server):
    with join(server, "/closes") as session:
        session.send("anything")
        assert ended(session) == ([], 4002, "enough")
    with join(server, "/closes") as session:
        session.send("last")
        assert ended(session) == (["the last"], 4003, "")


@pytest.mark.parametrize(("path", "error"), [
    ("/raises", "LookupError: no such room"), ("/sync_raises", "LookupError: no such hall")])
def test_what_a_consumer_raises_ends_its_session_and_is_logged(server, path, error):
    with join(server, path) as session:
        session.send("anything")
        assert ended(session)[1] == 1011
    server.line(error)


def test_a_consumer_that_stops_closes_its_session(server):
    with join(server, "/stops") as session:
        session.send("anything")
        assert ended(session)[1] == 1000


def test_the_scope_has_the_route_the_session_and_the_user(server):
    path = "/shops/harbour/items/7?q=%20x"
    route = {"args": [], "kwargs": {"shop": "harbour", "item": "7"}}
    with join(server, path) as session:
        assert json.loads(*heard(session)) == ["", None, route, "q=%20x", 1]
    cookie = server.get("/signs_in").header("set-cookie").partition(";")[0]
    fields = [*ORIGIN, ("cookie", cookie)]
    # The session is shared by the workers.
    with dial(server, path, additional_headers=fields) as session:
        assert json.loads(*heard(session)) == ["ann", 3, route, "q=%20x", 1]


@pytest.mark.parametrize("path", ["/rooms/harbour", "/hall"])
def test_a_group_has_members_in_all_workers(server, path):
    one, other = members(server, path)
    with one, other:
        for speaker, text in ((one, "hello"), (other, "hello \U0001f980"), (one, "bye")):
            speaker.send(text)
            assert heard(one, other) == [text, text]


def test_members_of_other_groups_hear_nothing(server):
    one, _, _ = member(server, "/rooms/pier")
    other, _, _ = member(server, "/rooms/quay")
    with one, other:
        for session, text in ((one, "to the pier"), (other, "to the quay")):
            session.send(text)
            assert heard(session) == [text]


@pytest.mark.parametrize(("view", "texts"), [
    ("says", ["news"]),
    ("says_from_a_coroutine", ["news"]),
    ("says_from_a_thread", ["news 0", "news 1", "news 2"]),
])
def test_a_view_sends_to_a_group(server, view, texts):
    one, other = members(server, "/rooms/views")
    with one, other:
        assert server.get(f"/{view}/views?text=news").status == 200
        for text in texts:
            assert heard(one, other) == [text, text]


def test_a_message_to_one_channel_of_any_worker(server):
    one, process, first = member(server, "/rooms/single")
    with paused(process):
        other, _, second = member(server, "/rooms/single")
    with one, other:
        for session, channel in ((one, first), (other, second)):
            # From whichever worker has the view.
            for _ in range(4):
                assert server.get(f"/tells?channel={channel}&text=psst").status == 200
                assert heard(session) == ["psst"]
        assert server.get("/says/single?text=all").status == 200
        assert heard(one, other) == ["all", "all"]


def test_a_member_that_has_left_hears_nothing(server):
    one, other = members(server, "/rooms/leaving?leaver")
    with one, other:
        one.send("leave")
        assert heard(one) == ["alone"]
        other.send("hello")
        assert heard(other) == ["hello"]
        one.send("from outside")
        assert heard(other) == ["from outside"]
        one.close(4000)
        assert server.note("left-leaver") == 4000
    assert server.note("left-leaver") == 1000


@pytest.mark.parametrize("path", ["/rooms/gone?gone", "/hall?gone-from-the-hall"])
def test_a_client_that_vanishes_leaves_its_group(server, path):
    one, other = members(server, path)
    with other:
        one.socket.shutdown(2)
        assert server.note(f"left-{path.partition('?')[2]}") == 1006
        other.send("still here")
        assert heard(other) == ["still here"]


def test_an_http_consumer_gets_the_whole_body(server):
    response = server.ask("POST", "/upload", body=b"x" * 300_000)
    assert (response.status, response.body) == (200, b"300000 bytes")
    assert response.header("x-consumer") == "upload"
    with server.connect() as client:
        client.send(request("POST", "/upload", {"transfer-encoding": "chunked"}))
        client.send(chunk(b"abc") + chunk(b"de") + chunk(b""))
        assert client.response().body == b"5 bytes"


def test_server_sent_events_and_long_polls_of_a_group(server):
    with server.connect() as stays, server.connect() as leaves, server.connect() as polls:
        for client, name in ((stays, "stays"), (leaves, "leaves")):
            client.send(request("GET", f"/events?{name}"))
            assert client.head().header("content-type") == "text/event-stream"
            assert client.chunk() == b"data: welcome\n\n"
        polls.send(request("GET", "/poll"))
        server.note("polls")
        assert server.get("/says/news?text=first").status == 200
        assert [client.chunk() for client in (stays, leaves)] == [b"data: first\n\n"] * 2
        assert polls.response().body == b"first"
        leaves.close()
        server.note("left-leaves")
        assert server.get("/says/news?text=closed").status == 200
        assert [stays.chunk(), stays.chunk()] == [b"data: closed\n\n", b""]


def test_a_reload_ends_sessions_and_later_ones_hear_each_other(start_server, environment):
    server = start_server("channels_app:app", environment=environment, workers=2)
    old = members(server, "/rooms/reload?old")
    server.signal(signal.SIGHUP)
    for session in old:
        assert ended(session)[1] == 1012
    assert [server.note("left-old") for _ in old] == [1012, 1012]
    server.line("a worker process is ready", 4)
    one, other = members(server, "/rooms/reload")
    with one, other:
        one.send("again")
        assert heard(one, other) == ["again", "again"]


def test_members_of_a_killed_worker_are_not_missed(start_server, environment):
    server = start_server("channels_app:app", environment=environment, workers=2)
    one, process, _ = member(server, "/rooms/killed")
    with paused(process):
        other, _, _ = member(server, "/rooms/killed")
    os.kill(process, signal.SIGKILL)
    with other:
        assert ended(one)[1] == 1006
        other.send("alone")
        assert heard(other) == ["alone"]
        server.line("a worker process is ready", 3)
        third, _, _ = member(server, "/rooms/killed")
        with third:
            other.send("together")
            assert heard(other, third) == ["together", "together"]
