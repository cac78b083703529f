"""`--threads gevent`: WSGI in greenlets."""

import json
import os
import resource
import signal
import time
from pathlib import Path

import pytest

from client import request
from hosting import KIND

if KIND != "tidegate":
    pytest.skip("the option is ours", allow_module_level=True)
pytest.importorskip("gevent")

#: The clients of one worker: `make test` has a tenth of them, TIDEGATE_CLIENTS=all has all.
SHARE = 1 if os.environ.get("TIDEGATE_CLIENTS") == "all" else 10


@pytest.fixture(scope="module")
def server():
    from hosting import serve

    with serve("gevent_app:app", "wsgi", threads="gevent") as running:
        yield running.ready()


def test_requests_run_in_greenlets_of_a_patched_process(server):
    kind, module, multithread, wrapper, count, _ = json.loads(server.get("/facts").body)
    assert kind == "Greenlet" and module.startswith("gevent")
    assert (multithread, wrapper, count) == (True, "FileWrapper", 1)


def test_bodies_of_requests_and_responses(server):
    assert server.get("/hello?you").body == b"hello you"
    for length in (0, 5, 300_000, 3_000_000):
        body = b"z" * length
        assert server.ask("POST", "/echo", body=body).body == body
    assert server.get("/writes").body == b"y" * 65536 * 64 + b"end"
    assert server.get("/a_file").body == Path(__file__).with_name("gevent_app.py").read_bytes()
    assert server.ask("HEAD", "/hello").body == b""


def test_requests_that_wait_do_not_hold_up_others(server):
    clients = [server.connect() for _ in range(200)]
    for client in clients:
        client.send(request("GET", "/sleeps?0.5"))
    assert server.get("/hello?a").body == b"hello a"
    for client in clients:
        assert client.response().body == b"slept"
        client.close()
    assert int(server.get("/most_asleep").body) > 1


def test_long_polls_wait_in_the_shared_store(server):
    clients = [server.connect() for _ in range(100)]
    for client in clients:
        client.send(request("GET", "/polls"))
    for _ in clients:
        server.note("polls")
    assert server.get("/times_out").body == b"None"
    assert server.get("/publishes").body == b"ok"
    for client in clients:
        assert client.response().body == b"the news"
        client.close()


def test_server_sent_events(server):
    clients = [server.connect() for _ in range(50)]
    for client in clients:
        client.send(request("GET", "/events"))
    for _ in clients:
        server.note("subscribed")
    server.get("/sends_event?first")
    for client in clients:
        client.until(b"data: hello\n\n")
        client.until(b"data: first\n\n")
        client.close()


def test_events_and_long_polls_of_thousands_of_clients_on_one_worker(start_server):
    streams, polls = 5000 // SHARE, 2000 // SHARE
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = streams + polls + 500
    if most != resource.RLIM_INFINITY and most < needed:
        pytest.skip(f"it needs {needed} descriptors, of which {most} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, max(needed, 4096)), most))
    server = start_server(
        "gevent_app:app", "wsgi", threads="gevent", worker_connections=streams + polls + 10)
    events = [server.connect() for _ in range(streams)]
    for client in events:
        client.send(request("GET", "/events"))
    for _ in events:
        server.note("subscribed")
    waiting = [server.connect() for _ in range(polls)]
    for client in waiting:
        client.send(request("GET", "/polls"))
    for _ in waiting:
        server.note("polls")
    assert server.get("/hello?you").body == b"hello you"
    for word in ("first", "second"):
        assert server.get(f"/sends_event?{word}").body == b"ok"
        for client in events:
            assert client.until(f"data: {word}\n\n".encode()) is not None
    assert server.get("/publishes").body == b"ok"
    for client in waiting:
        assert client.response().body == b"the news"
    assert server.get("/hello?again").body == b"hello again"
    for client in (*events, *waiting):
        client.close()


def test_a_driver_of_a_database_switches(start_server, tmp_path_factory):
    psycopg = pytest.importorskip("psycopg")
    from postgres_server import PROGRAMS, PostgresServer

    if PROGRAMS is None:
        pytest.skip("PostgreSQL is not installed")
    with (
        PostgresServer(tmp_path_factory.mktemp("postgres")) as postgres,
        psycopg.connect(postgres.address, autocommit=True) as database,
    ):
        server = start_server("gevent_app:app", "wsgi", threads="gevent",
                              environment={"DATABASE": postgres.address})
        database.execute("select pg_advisory_lock(1)")
        clients = [server.connect() for _ in range(20)]
        for client in clients:
            client.send(request("GET", "/locks"))
        waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
        deadline = time.monotonic() + 60
        while database.execute(waiting).fetchone() != (20,):
            assert time.monotonic() < deadline
        # All of them wait in the driver.
        assert server.get("/hello?you").body == b"hello you"
        database.execute("select pg_advisory_unlock(1)")
        for client in clients:
            assert client.response().body == b"locked"
            client.close()


def test_a_client_that_does_not_read_holds_up_its_greenlet_only(server):
    with server.connect() as client:
        client.send(request("GET", "/endless"))
        server.note("streams")
        for _ in range(5):
            assert server.get("/hello?b").body == b"hello b"
    # Far less than it would produce without back-pressure.
    assert server.note("closed") < 4000


def test_errors(server):
    assert server.get("/raises").status == 500
    server.line("LookupError: nothing there")
    assert server.get("/forgets_start_response").status == 500
    with server.connect() as client:
        client.send(request("GET", "/raises_late"))
        client.until(b"begun")
    server.line("LookupError: too late")
    assert server.get("/cuts").body == b"abc"
    server.line("the body is longer than Content-Length says")
    assert server.get("/hello?c").body == b"hello c"


def test_libraries_that_know_nothing_of_greenlets(server):
    pytest.importorskip("requests")
    assert server.get("/fetches").body == b"hello again"


def test_background_jobs(server):
    assert server.get("/runs_job?ends").body == b"done"
    assert server.get("/runs_job?does_not_end").body == b"it ran for longer than its timeout"


def test_the_pool_is_bounded_and_others_wait(start_server):
    server = start_server("gevent_app:app", "wsgi", threads="gevent", worker_connections=2)
    first, second = server.connect(), server.connect()
    for client in (first, second):
        client.send(request("GET", "/waits"))
        server.note("waits")
    with server.connect() as third, server.connect() as fourth:
        third.send(request("GET", "/releases"))
        fourth.send(request("GET", "/hello?d"))
        # Both greenlets are taken; a client that leaves frees its place only when it ends.
        third.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            third.socket.recv(1)
    first.close()
    second.close()


def test_flask(start_server):
    server = start_server("gevent_app:shop", "wsgi", threads="gevent", factory=True)
    assert json.loads(server.get("/item/7?q=x").body) == {"number": 7, "query": "x"}
    assert server.get("/stream").body == b"0 /stream\n1 /stream\n2 /stream\n"


def test_requests_in_flight_are_finished(start_server):
    server = start_server("gevent_app:app", "wsgi", threads="gevent")
    with server.connect() as client:
        client.send(request("GET", "/waits"))
        server.note("waits")
        with server.connect() as other:
            other.send(request("GET", "/sleeps?0.3"))
            assert other.response().body == b"slept"
            other.send(request("GET", "/releases"))
            assert other.response().body == b"ok"
        server.signal(signal.SIGTERM)
        assert client.response().body == b"released"
    assert server.wait() == 0


def test_a_greenlet_that_is_cut_off_ends(start_server):
    server = start_server("gevent_app:app", "wsgi", threads="gevent", graceful_timeout=1)
    with server.connect() as client:
        client.send(request("GET", "/waits"))
        server.note("waits")
        server.signal(signal.SIGTERM)
        assert server.wait() == 0


def test_a_hub_that_is_blocked_is_killed(start_server):
    server = start_server("gevent_app:app", "wsgi", threads="gevent", timeout=2)
    with server.connect() as client:
        client.send(request("GET", "/spins"))
        server.line(r"does not respond and is killed.*spins")
    server.line(r"a worker process is ready", 2)
    assert server.get("/hello?e").body == b"hello e"


def test_an_asgi_application_is_rejected(start_server):
    server = start_server("tasks_app:app", "auto", ready=False, threads="gevent")
    assert server.wait() == 1
    assert "--threads gevent is for WSGI" in server.log()


def test_behind_a_gateway():
    from hosting import serve_behind_gateway

    with serve_behind_gateway("gevent_app:app", "wsgi", threads="gevent") as server:
        server.ready()
        assert json.loads(server.get("/facts").body)[0] == "Greenlet"
        assert server.ask("POST", "/echo", body=b"z" * 300_000).body == b"z" * 300_000


def test_the_name_that_gunicorn_has(start_server):
    server = start_server("gevent_app:app", None, worker_class="gevent", workers=2)
    processes = {json.loads(server.get("/facts").body)[-1] for _ in range(4)}
    assert processes
