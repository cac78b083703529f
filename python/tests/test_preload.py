"""The application is imported once, by a process from which the workers are forked."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hosting import COMMAND, HERE, IS_BEHIND_GATEWAY, KIND
from load import Load

pytestmark = pytest.mark.skipif(KIND != "tidegate" or sys.platform != "linux",
                                reason="an option of ours, on Linux")

#: Reports the process that imports it, and serves itself by both interfaces.
SHOP = """
import os, sys
from stage import note, reply

VERSION = 1
note("imported", os.getpid())

def wsgi(environ, start_response):
    if environ["PATH_INFO"] == "/exit":
        os._exit(3)
    fields = [("content-length", "1"), ("x-process", str(os.getpid()))]
    start_response("200 OK", fields)
    return [str(VERSION).encode()]

async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        raise RuntimeError("no lifespan")
    fields = [(b"x-process", str(os.getpid()).encode())]
    await reply(send, str(VERSION).encode(), headers=fields)
"""


@pytest.fixture
def shop(tmp_path):
    """The directory of an application that is changed by a test."""
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


def preload(start_server, directory, interface="wsgi", **options):
    return start_server(f"shop:{interface}", interface, preload=True, app_dir=directory, **options)


def preloader(server, count=1):
    return int(server.line(r"an application is preloaded .*process=(\d+)", count)[1])


def workers(server, count):
    """The processes of the first `count` workers that are ready."""
    server.line("a worker process is ready", count)
    found = [line.rpartition("process=")[2] for line in server.log().splitlines()
             if "a worker process is ready" in line]
    return [int(process) for process in found[:count]]


def stat(process):
    """The state and the parent of a process; None if it does not exist."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return fields[0], int(fields[1])


def is_gone(process):
    """True if a process has ended; one whose parent has been killed may stay a zombie."""
    found = stat(process)
    return found is None or found[0] == "Z"


def wait_until(holds, what):
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def until_gone(processes):
    wait_until(lambda: all(map(is_gone, processes)), f"some of {processes} are left")


@pytest.mark.parametrize("interface", ["wsgi", "asgi"])
def test_the_application_is_imported_once_for_all_workers(start_server, shop, interface):
    server = preload(start_server, shop, interface, workers=4)
    parent = preloader(server)
    forked = workers(server, 4)
    assert [stat(process)[1] for process in forked] == [parent] * 4
    assert server.note("imported") == parent
    with Load(server, 8, "/", is_fresh=True) as load:
        load.until(lambda load: len(load.processes) >= 2)
    assert not load.failures
    assert load.processes <= set(map(str, forked))
    assert server.notes("imported") == []
    server.stop()
    until_gone([parent, *forked])


def test_a_reload_brings_new_code_and_broken_code_keeps_the_old(start_server, shop):
    server = preload(start_server, shop, workers=2)
    first = preloader(server)
    before = workers(server, 2)
    assert server.get("/").body == b"1"
    with Load(server, 4, "/", is_fresh=True) as load:
        # The size of a source file is part of what Python compares with the compiled one.
        (shop / "shop.py").write_text(SHOP.replace("VERSION = 1", "VERSION = 22 - 20"))
        reload(server)
        second = preloader(server, 2)
        until_gone([first, *before])
        load.more(20)
    assert not load.failures
    assert server.get("/").body == b"2"
    (shop / "shop.py").write_text("import no_such_dependency\n")
    reload(server, loads=False)
    assert "no_such_dependency" in server.log()
    assert server.get("/").body == b"2"
    # A worker that crashes is forked from the preloader that has imported the old code.
    killed = int(server.get("/").header("x-process"))
    os.kill(killed, signal.SIGKILL)
    after = workers(server, 5)[4]
    assert stat(after)[1] == second


def reload(server, loads=True):
    """Replaces the workers of the application."""
    if IS_BEHIND_GATEWAY:
        command = [*COMMAND[:-1], "ctl", "reload", "--app", "main"]
        environment = {**os.environ, "XDG_RUNTIME_DIR": server.directory}
        done = subprocess.run(command, env=environment, capture_output=True, check=False)
        assert (done.returncode == 0) == loads, done
        return
    server.signal(signal.SIGHUP)
    if not loads:
        server.line("a worker process could not be replaced")


def test_development_reloads_when_a_file_changes(start_server, shop):
    server = preload(start_server, shop, reload=True)
    first = preloader(server)
    assert server.get("/").body == b"1"
    (shop / "shop.py").write_text(SHOP.replace("VERSION = 1", "VERSION = 22 - 20"))
    assert preloader(server, 2) != first
    old, _ = workers(server, 2)
    # It accepts connections until it has drained.
    until_gone([old])
    assert server.get("/").body == b"2"


@pytest.mark.parametrize("end", ["signal 9", "exit code 3"])
def test_a_worker_that_ends_is_forked_again(start_server, shop, end):
    server = preload(start_server, shop)
    parent, [first] = preloader(server), workers(server, 1)
    with server.connect() as client:
        if end == "signal 9":
            os.kill(first, signal.SIGKILL)
        else:
            # The client stays: a request of one that leaves may not be begun.
            client.send("GET /exit HTTP/1.1\r\nhost: a\r\n\r\n")
        assert end in server.line("a worker process has ended .*because=(.*)")[1]
    second = workers(server, 2)[1]
    assert stat(second)[1] == parent and is_gone(first)
    assert server.get("/").body == b"1"
    assert server.notes("imported") == [parent]


def test_a_killed_preloader_ends_no_worker_and_is_started_when_one_is_needed(start_server, shop):
    server = preload(start_server, shop)
    parent, [worker] = preloader(server), workers(server, 1)
    os.kill(parent, signal.SIGKILL)
    server.line("the preloader has ended")
    assert server.get("/").header("x-process") == str(worker)
    os.kill(worker, signal.SIGKILL)
    other = preloader(server, 2)
    second = workers(server, 2)[1]
    assert stat(second)[1] == other
    assert server.get("/").header("x-process") == str(second)


@pytest.mark.parametrize(("content", "logged"), [
    ("import no_such_dependency\n", "importing 'shop' failed: No module named 'no_such_dependen"),
    ("import sys; sys.exit(7)\n", "SystemExit: 7"),
    ("import os; os._exit(7)\n", "it ended with exit code 7"),
    ("other = 1\n", "'shop' has no attribute 'wsgi'"),
])
def test_an_application_that_cannot_be_imported_is_an_error(start_server, shop, content, logged):
    if IS_BEHIND_GATEWAY:
        pytest.skip("a gateway serves what else it has")
    (shop / "shop.py").write_text(content)
    server = preload(start_server, shop, ready=False, workers=4)
    assert server.wait() == 1
    assert logged in server.log()


def test_requests_in_flight_are_finished_at_the_end(start_server, tmp_path):
    (tmp_path / "shop.py").write_text("""
import os, time
from pathlib import Path
from stage import note

def wsgi(environ, start_response):
    note("begun", os.getpid())
    while not Path("go").exists():
        time.sleep(0.01)
    start_response("200 OK", [("content-length", "4")])
    return [b"done"]
""".replace('"go"', repr(str(tmp_path / "go"))))
    server = preload(start_server, tmp_path, workers=2)
    parent, forked = preloader(server), workers(server, 2)
    with server.connect() as client:
        client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        server.note("begun")
        server.signal(signal.SIGTERM)
        # As a service manager does it.
        os.kill(parent, signal.SIGTERM)
        server.line("draining")
        (tmp_path / "go").write_text("")
        assert client.response().body == b"done"
    assert server.wait() == 0
    until_gone([parent, *forked])


def test_a_killed_supervisor_leaves_no_process(start_server, shop):
    server = preload(start_server, shop, workers=2)
    parent, forked = preloader(server), workers(server, 2)
    server.signal(signal.SIGKILL)
    until_gone([parent, *forked])


def test_threads_at_the_import_are_named_in_a_warning(start_server, shop):
    (shop / "shop.py").write_text(
        "import threading\n"
        "ended = threading.Event()\n"
        "threading.Thread(target=ended.wait, name='saver', daemon=True).start()\n" + SHOP)
    server = preload(start_server, shop)
    server.line("threads that the application has started when it was imported .*threads=.?saver")
    assert server.get("/").body == b"1"


def test_the_store_may_be_used_at_the_import(start_server, shop):
    (shop / "shop.py").write_text(
        "from tidegate import cache\ncache.set('imported', 1)\n" + SHOP)
    server = preload(start_server, shop)
    assert server.get("/").body == b"1"
    assert "threads that the application has started" not in server.log()


#: Reports whether the import has patched functions and no hub, and waits in a greenlet.
GREENLETS = """
import os, threading, time
from gevent._hub_local import get_hub_if_exists
from stage import note

note("imported", [time.sleep.__module__, get_hub_if_exists() is None])
released = threading.Event()

def wsgi(environ, start_response):
    if environ["PATH_INFO"] == "/exit":
        os._exit(3)
    if environ["PATH_INFO"] == "/releases":
        released.set()
    note("waits")
    released.wait()
    start_response("200 OK", [("x-process", str(os.getpid()))])
    return [b"waited"]
"""

#: Does at its import what makes a hub, starts native threads and handles ends of processes.
BUSY_IMPORT = """
import json, os, socket, subprocess, threading, time
import gevent
from stage import note
from tidegate import cache

def run():
    return subprocess.run(["/bin/echo", "ran"], stdout=subprocess.PIPE).stdout.decode()

def resolve():
    return socket.getaddrinfo("localhost", 80)[0][4][1]

ticks = 0

def tick():
    global ticks
    while True:
        ticks += 1
        time.sleep(0.01)

threading.Thread(target=tick, daemon=True).start()
time.sleep(0.05)
assert run() == "ran\\n" and resolve() == 80
note("imported", [os.getpid(), ticks])

def wsgi(environ, start_response):
    before, end = ticks, time.monotonic() + 30
    while ticks < before + 3 and time.monotonic() < end:
        time.sleep(0.01)
    facts = [run(), resolve(), ticks > before, cache.incr("calls"),
             type(gevent.getcurrent()).__name__, os.getpid()]
    start_response("200 OK", [])
    return [json.dumps(facts).encode()]
"""


@pytest.mark.parametrize("end", ["signal 9", "exit code 3"])
def test_greenlets_run_in_workers_that_are_forked_before_there_is_a_hub(start_server, shop, end):
    pytest.importorskip("gevent")
    (shop / "shop.py").write_text(GREENLETS)
    server = preload(start_server, shop, threads="gevent")
    parent, [first] = preloader(server), workers(server, 1)
    module, without_hub = server.note("imported")
    assert module.startswith("gevent") and without_hub
    clients = [server.connect() for _ in range(100)]
    for client in clients:
        client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    # All of them wait at the same time.
    for _ in clients:
        server.note("waits")
    assert server.get("/releases").body == b"waited"
    assert {client.response().header("x-process") for client in clients} == {str(first)}
    for client in clients:
        client.close()
    if end == "signal 9":
        os.kill(first, signal.SIGKILL)
    else:
        with server.connect() as client:
            client.send("GET /exit HTTP/1.1\r\nhost: a\r\n\r\n")
            server.line("a worker process has ended")
    assert end in server.line("a worker process has ended .*because=(.*)")[1]
    second = workers(server, 2)[1]
    assert stat(second)[1] == parent and is_gone(first)
    assert server.get("/releases").body == b"waited"
    assert server.notes("imported") == []
    server.stop()
    until_gone([parent, second])


def test_what_the_import_has_done_in_the_hub_continues_in_each_worker(start_server, shop):
    pytest.importorskip("gevent")
    (shop / "shop.py").write_text(BUSY_IMPORT)
    server = preload(start_server, shop, threads="gevent", workers=2)
    parent, forked = preloader(server), workers(server, 2)
    imported, ticks = server.note("imported")
    assert imported == parent and ticks > 1
    with Load(server, 4, "/", is_fresh=True) as load:
        load.more(20)
    assert not load.failures
    for number in range(2):
        *facts, calls, kind, process = json.loads(server.get("/").body)
        assert facts == ["ran\n", 80, True] and calls > 20 + number
        assert kind == "Greenlet" and process in forked
    # The threads that resolve names have ended before; threads of the application are greenlets.
    assert "do not exist in its workers" not in server.log()
    assert "Exception ignored" not in server.log()
    server.stop()
    until_gone([parent, *forked])


def test_hooks_are_called_in_the_order_of_gunicorn(start_server, shop):
    path = shop / "gunicorn.conf.py"
    path.write_text("""
import os
preload_app = True
SUPERVISOR = os.getppid()

def log(*words):
    os.write(2, (" ".join(map(str, words)) + "\\n").encode())

def pre_fork(server, worker):
    log("hook pre_fork")

def post_fork(server, worker):
    log("hook post_fork", worker.pid == os.getpid(), worker.ppid == server.pid == SUPERVISOR)

def post_worker_init(worker):
    log("hook post_worker_init")

def worker_exit(server, worker):
    log("hook worker_exit")

def child_exit(server, worker):
    log("hook child_exit")
""")
    if IS_BEHIND_GATEWAY:
        pytest.skip("a file for run")
    with (shop / "shop.py").open("a") as file:
        file.write("os.write(2, b'hook imports\\n')\n")
    server = start_server("shop:wsgi", "wsgi", config=path, app_dir=shop)
    assert server.get("/").body == b"1"
    server.stop()
    lines = [line for line in server.log().splitlines() if line.startswith("hook ")]
    assert lines == ["hook imports", "hook pre_fork", "hook post_fork True True",
                     "hook post_worker_init", "hook worker_exit", "hook child_exit"]


def test_the_error_log_is_opened_again_by_workers_after_a_rotation(start_server, shop, tmp_path):
    if IS_BEHIND_GATEWAY:
        pytest.skip("an option of run")
    log, rotated = tmp_path / "error.log", tmp_path / "error.log.1"
    (shop / "shop.py").write_text(SHOP + """
import sys
def noisy(environ, start_response):
    print("noise of", os.getpid(), file=sys.stderr, flush=True)
    return wsgi(environ, start_response)
""")
    server = start_server("shop:noisy", "wsgi", preload=True, app_dir=shop, error_logfile=log)
    process = int(server.get("/").header("x-process"))
    log.rename(rotated)
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: log.exists(), "the next worker opens the log")
    process = server.get("/").header("x-process")
    wait_until(lambda: f"noise of {process}" in log.read_text(), "the worker logs")


def pss(processes):
    """The sum of the proportional set sizes: a shared page counts once."""
    total = 0
    for process in processes:
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024


def test_workers_share_the_memory_of_django(start_server):
    if IS_BEHIND_GATEWAY:
        pytest.skip("measured once")
    pytest.importorskip("django")
    directory = HERE.parent.parent / "examples" / "python" / "django_site"
    taken = {}
    for is_preloaded in (False, True):
        options = {"preload": True} if is_preloaded else {}
        server = start_server("pages:application", "wsgi", app_dir=directory, workers=4, **options)
        processes = workers(server, 4)
        if is_preloaded:
            processes.append(preloader(server))
        with Load(server, 8, "/", is_fresh=True) as load:
            load.more(400)
        taken[is_preloaded] = pss(processes)
        server.stop()
    print(json.dumps({"PSS MiB": {"without": taken[False], "with": taken[True]}}))
    assert taken[True] < 0.8 * taken[False], taken
