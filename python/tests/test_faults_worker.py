"""The failure of a worker process affects only its own requests, in each mode."""

import asyncio
import os
import signal
import socket
import time

import pytest

from client import chunk, request
from hosting import IS_BEHIND_GATEWAY, KIND
from load import Load
from stage import Stage, WsgiStage, more, note, reply, start, whole_body

pytestmark = pytest.mark.skipif(KIND != "tidegate", reason="processes and options of ours")
app = Stage()
wsgi = WsgiStage()


def process():
    return [(b"x-process", str(os.getpid()).encode())]


@app.part
async def pid(scope, receive, send):
    await reply(send, b"ok", headers=process())


@wsgi.part
def wsgi_pid(environ, start_response):
    start_response("200 OK", [("content-length", "2"), ("x-process", str(os.getpid()))])
    return [b"ok"]


def block():
    """Blocks the thread for ever, and with it all of its greenlets."""
    note("blocked", os.getpid())
    os.read(os.pipe()[0], 1)


@app.part
async def blocks_for_ever(scope, receive, send):
    block()


@wsgi.part
def wsgi_blocks_for_ever(environ, start_response):
    block()


def test_only_the_stuck_worker_is_killed_and_its_stack_is_logged(start_mode, mode):
    server = start_mode(workers=2, timeout=2)
    others = set()
    with server.connect() as client:
        client.send(request("GET", "/blocks_for_ever"))
        stuck = server.note("blocked")
        # The responses in this time are from other workers.
        with Load(server, 2, "/pid", is_fresh=True) as load:
            server.line(r"blocks_for_ever")
            load.more(1)
            others = load.processes
        try:
            response = client.response()
            assert response.status >= 500
        except ConnectionError:
            pass
    # Other threads of the worker respond.
    assert mode == "threads" or str(stuck) not in others
    assert "test_faults_worker.py" in server.log()
    wait_for_workers(server, 2, gone=stuck)


@app.part
async def blocks_later(scope, receive, send):
    """Blocks the loop in another step than the one in which the request was taken."""
    await asyncio.sleep(0)
    block()


def test_a_worker_is_killed_that_one_request_blocks_while_no_other_waits(start_server):
    server = start_server("test_faults_worker:app", workers=1, timeout=2)
    with server.connect() as client:
        client.send(request("GET", "/blocks_later"))
        stuck = server.note("blocked")
        server.line(rf"does not respond and is killed .*process={stuck} reason=stuck")
    server.line("a worker process is ready", 2)
    assert server.get("/pid").header("x-process") != str(stuck)


def wait_for_workers(server, count, gone=None):
    """Waits until `count` processes respond, none of which is `gone`."""
    with Load(server, 8, is_fresh=True) as load:
        load.until(lambda load: len(load.processes - {str(gone)}) >= count)
    with Load(server, 4, is_fresh=True) as load:
        load.more(20)
    assert str(gone) not in load.processes
    assert not load.failures


def test_a_worker_killed_under_load_fails_only_its_own_requests(start_mode):
    server = start_mode(workers=2)
    with Load(server, 8) as load:
        load.more(200)
        victim = load.processes.copy().pop()
        before = len(load.failures)
        os.kill(int(victim), signal.SIGKILL)
        load.more(500)
        assert before == 0
        # Connections to other workers have no failure; each connection to the killed worker has
        # at most one.
        assert all(process in (victim, None) for process, _ in load.failures), load.failures
        assert len(load.failures) + load.repeated <= 8
        load.until(lambda load: len(load.processes) >= 2)
    wait_for_workers(server, 2, gone=victim)


@app.part
async def crashes(scope, receive, send):
    os.abort()


@wsgi.part
def wsgi_crashes(environ, start_response):
    os.abort()


def test_a_worker_that_crashes_is_replaced(start_mode):
    server = start_mode(workers=1)
    first = server.get("/pid").header("x-process")
    with server.connect() as client:
        client.send(request("GET", "/crashes"))
        try:
            assert client.response().status >= 500
        except ConnectionError:
            pass
    # The listener outlives its worker: new connections wait for the next worker.
    assert server.get("/pid").header("x-process") != first


@app.part
async def exits(scope, receive, send):
    os._exit(3)


def test_a_crash_loop_does_not_end_the_server(start_server):
    server = start_server("test_faults_worker:app", workers=2)
    for _ in range(6):
        with server.connect() as client:
            client.send(request("GET", "/exits"))
            try:
                assert client.response().status >= 500
            except ConnectionError:
                pass
    assert server.get("/pid").status == 200
    assert server.process.poll() is None


def leak():
    """Leaks five megabytes, until there are many more than are allowed: its size is looked at once
    a second, and it is not to take all memory until then."""
    kept = app.__dict__.setdefault("kept", [])
    if len(kept) < 100:
        kept.append(bytearray(os.urandom(1024)) * 5120)


@app.part
async def leaks(scope, receive, send):
    leak()
    await pid(scope, receive, send)


@wsgi.part
def wsgi_leaks(environ, start_response):
    leak()
    return wsgi_pid(environ, start_response)


def test_a_worker_that_grows_too_large_is_replaced_without_a_loss(start_mode):
    server = start_mode(workers=1, max_rss="200MiB")
    with Load(server, 2, "/leaks") as load:
        load.until(lambda load: len(load.processes) >= 2)
    assert not load.failures


def test_workers_are_replaced_after_max_requests_without_a_loss(start_mode):
    server = start_mode(workers=2, max_requests=200, max_requests_jitter=20)
    with Load(server, 4) as load:
        load.until(lambda load: len(load.processes) >= 5)
    assert not load.failures


@pytest.mark.parametrize("is_fresh", [False, True])
def test_a_rolling_reload_under_load_loses_nothing(start_mode, is_fresh):
    server = start_mode(workers=2)
    with Load(server, 8, is_fresh=is_fresh) as load:
        load.more(100)
        for reloads in range(1, 4):
            seen = load.processes.copy()
            server.signal(signal.SIGHUP)
            server.line("a worker process is ready", count=2 + 2 * reloads)
            # At least one: connections that stay open may all be with the process that came first.
            load.until(lambda load, seen=seen: load.processes - seen)
            load.more(100)
    assert not load.failures
    assert server.process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_stream_is_finished_by_the_worker_that_began_it(start_server, number):
    server = start_server("test_faults_worker:app", workers=1)
    with server.connect() as client, server.connect() as idle:
        idle.send(request("GET", "/pid"))
        assert idle.response().status == 200
        begin_upload(client)
        server.signal(number)
        assert idle.ended(), "an idle connection must not keep a worker running"
        client.send(chunk(b""))
        assert client.chunk() == b"ended"
        assert client.chunk() == b""
    if number == signal.SIGTERM:
        assert server.wait() == 0
    else:
        assert server.get("/pid").status == 200


def begin_upload(client):
    """A request in flight until its body is complete."""
    client.send(request("POST", "/waits_for_data", {"transfer-encoding": "chunked"}))
    assert client.head().status == 200
    assert client.chunk() == b"begun,"


def wait_until_refused(port):
    """Connects until the listener is closed."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
        except ConnectionError:
            return
        time.sleep(0.01)
    raise AssertionError("it listens although it drains")


def test_a_draining_server_accepts_no_connection(start_server):
    """A connection in the backlog would hang, and be reset at the end."""
    server = start_server("test_faults_worker:app", workers=2, graceful_timeout=20)
    with server.connect() as client, server.connect() as idle:
        begin_upload(client)
        idle.send(request("GET", "/pid"))
        assert idle.response().status == 200
        server.signal(signal.SIGTERM)
        # The number is what the workers last reported, which may be a tenth of a second old.
        server.line(r"INFO draining connections=\d+ within=20s")
        wait_until_refused(server.port)
        assert server.process.poll() is None, "requests in flight must finish"
        client.send(chunk(b""))
        assert client.chunk() == b"ended"
        assert client.chunk() == b""
    assert server.wait() == 0
    assert int(server.line(r"INFO drained took_ms=(\d+)")[1]) < 20_000


def test_aborted_connections_are_counted(start_server):
    server = start_server("test_faults_worker:app", workers=2, graceful_timeout=1)
    clients = [server.connect() for _ in range(3)]
    for client in clients:
        begin_upload(client)
    server.signal(signal.SIGTERM)
    server.wait()
    match = server.line(r"WARN connections were cut off connections=(\d+) took_ms=(\d+)")
    assert match[1] == "3"
    assert int(match[2]) >= 1000
    assert "INFO drained" not in server.log()


@pytest.mark.skipif(IS_BEHIND_GATEWAY, reason="the processes of an application have no group")
def test_a_signal_to_all_processes_ends_the_server_without_errors(start_server):
    """As systemd sends it without KillMode=mixed."""
    server = start_server("test_faults_worker:app", workers=2)
    server.line("a worker process is ready", 2)
    os.killpg(server.process.pid, signal.SIGTERM)
    assert server.wait() == 0
    assert " ERROR " not in server.log()


def test_a_draining_embedded_server_accepts_no_connection():
    import tidegate

    async def main():
        go_on, begun = asyncio.Event(), asyncio.Event()

        async def waits(scope, receive, send):
            begun.set()
            await go_on.wait()
            await reply(send, b"waited")

        async def serves(started, leave):
            async with tidegate.serving(waits, port=0, lifespan="off") as server:
                started.set_result(server.url)
                await leave.wait()

        started, leave = asyncio.get_running_loop().create_future(), asyncio.Event()
        serving = asyncio.create_task(serves(started, leave))
        port = int((await started).rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request("GET", "/"))
        await begun.wait()
        leave.set()
        await asyncio.to_thread(wait_until_refused, port)
        assert not serving.done(), "requests in flight must finish"
        go_on.set()
        assert b"waited" in await reader.read()
        await serving

    asyncio.run(asyncio.wait_for(main(), 60))


@app.part
async def waits_for_data(scope, receive, send):
    """Ends when the client has sent more of its body."""
    await start(send)
    await more(send, b"begun,")
    await whole_body(receive)
    await more(send, b"ended", False)


@app.part
async def never_ends(scope, receive, send):
    note("never", os.getpid())
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        note("cancelled")
        raise


@wsgi.part
def wsgi_never_ends(environ, start_response):
    note("never", os.getpid())
    while True:
        time.sleep(1)


def test_after_the_graceful_time_out_requests_are_aborted(start_mode):
    server = start_mode(workers=1, graceful_timeout=1)
    with server.connect() as client:
        client.send(request("GET", "/never_ends"))
        server.note("never")
        server.signal(signal.SIGTERM)
        server.wait()
        try:
            assert client.response().status >= 500
        except ConnectionError:
            pass


def test_an_aborted_request_is_cancelled_first(start_server):
    """Its finally clauses run: asyncio.CancelledError is raised where it is suspended."""
    server = start_server("test_faults_worker:app", workers=1, graceful_timeout=1)
    with server.connect() as client:
        client.send(request("GET", "/never_ends"))
        server.note("never")
        server.signal(signal.SIGTERM)
        server.note("cancelled")
        server.wait()


def test_workers_do_not_outlive_their_supervisor(start_mode):
    server = start_mode(workers=2, graceful_timeout=1)
    wait_for_workers(server, 2)
    with server.connect() as client:
        client.send(request("GET", "/never_ends"))
        server.note("never")
        server.signal(signal.SIGKILL)
        # The pipe of the log is closed with its last writer.
        server.process.wait()
        server._reader.join(60)
        assert not server._reader.is_alive(), "a worker still runs"


def test_ttin_and_ttou_change_the_number_of_workers(start_server):
    server = start_server("test_faults_worker:app", workers=1)
    wait_for_workers(server, 1)
    server.signal(signal.SIGTTIN)
    wait_for_workers(server, 2)
    server.signal(signal.SIGTTOU)
    with Load(server, 4, is_fresh=True) as load:
        load.more(50)
    assert not load.failures
