"""`gunicorn -k tidegate.Worker`: gunicorn's processes with Tidegate's connections."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from client import request
from hosting import HERE, IS_BEHIND_GATEWAY, KIND, Server
from load import Load
from stage import Stage, WsgiStage, note, reply, start

pytest.importorskip("gunicorn")
pytestmark = [
    pytest.mark.skipif(KIND != "tidegate", reason="the worker class is Tidegate's"),
    pytest.mark.skipif(IS_BEHIND_GATEWAY, reason="gunicorn is the server"),
]

app = Stage()
wsgi = WsgiStage()
_release = threading.Event()


@app.part
async def pid(scope, receive, send):
    await reply(send, os.getpid())


@app.part
async def held(scope, receive, send):
    """Responds once the process is told to end."""
    note("begun")
    while not _release.is_set():
        await asyncio.sleep(0.01)
    await reply(send, "finished")


@app.part
async def blocked(scope, receive, send):
    note("begun", os.getpid())
    threading.Event().wait()


async def broken(scope, receive, send):
    """Its start-up fails."""
    assert scope["type"] == "lifespan"
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "no database"})


async def plain(scope, receive, send):
    """Without lifespan."""
    assert scope["type"] == "http"
    await start(send)
    await send({"type": "http.response.body", "body": b"plain"})


def responds(function):
    def part(environ, start_response):
        body = json.dumps(function(environ)).encode()
        start_response("200 OK", [("content-length", str(len(body)))])
        return [body]

    return wsgi.part(_named(part, function.__name__))


def _named(function, name):
    function.__name__ = name
    return function


@responds
def process(environ):
    return [os.getpid(), environ["wsgi.multithread"], environ["wsgi.multiprocess"],
            threading.current_thread() is threading.main_thread()]


@responds
def waits(environ):
    note("begun")
    assert _release.wait(60)
    return "finished"


@responds
def stays(environ):
    note("begun")
    threading.Event().wait()


def release(worker):
    _release.set()


#: The hook that lets requests in flight finish only once the worker has been told to end.
RELEASE = """
import signal
def post_worker_init(worker):
    import test_gunicorn_worker
    end = worker.handle_exit
    def handle(number, frame):
        end(number, frame)
        test_gunicorn_worker.release(worker)
    signal.signal(signal.SIGTERM, handle)
"""


@pytest.fixture
def start_gunicorn(tmp_path):
    started = []

    def start(target, *words, settings="", ready=True):
        file = tmp_path / "gunicorn.conf.py"
        file.write_text(settings)
        command = [sys.executable, "-m", "gunicorn", "-k", "tidegate.Worker", "-c", str(file),
                   "--no-control-socket", "-b", "127.0.0.1:0", *words,
                   f"test_gunicorn_worker:{target}"]
        server = Server(command, {"TMPDIR": str(tmp_path)}, None)
        started.append(server)
        if ready:
            port = server.line(r"Listening at: (?:https?://127\.0\.0\.1:(\d+))?")[1]
            server.port = port and int(port)
        return server

    start.started = started
    yield start
    for server in started:
        server.stop()


def test_an_asgi_application_is_served(start_gunicorn):
    server = start_gunicorn("app")
    response = server.get("/pid")
    assert json.loads(response.body) != server.process.pid
    assert start_gunicorn("plain").get("/").body == b"plain"


def test_a_wsgi_application_runs_in_one_thread_at_a_time_unless_there_are_more(start_gunicorn):
    for words, threads in (((), False), (("--threads=4",), True)):
        found = json.loads(start_gunicorn("wsgi", "-w2", *words).get("/process").body)
        assert found[1:] == [threads, True, False]


def test_a_socket_of_the_file_system_is_served(start_gunicorn, tmp_path):
    path = tmp_path / "g.sock"
    server = start_gunicorn("app", "-b", f"unix:{path}")
    assert server.get("/pid").status == 200
    made = subprocess.run(["curl", "-s", "--unix-socket", path, "http://shop/pid"],
                          capture_output=True, check=True)
    assert json.loads(made.stdout) != server.process.pid


@pytest.mark.parametrize("target, path", [("app", "/held"), ("wsgi", "/waits")])
def test_requests_in_flight_finish_after_sigterm(start_gunicorn, target, path):
    server = start_gunicorn(target, settings=RELEASE)
    with server.connect() as client:
        client.send(request("GET", path))
        server.note("begun")
        server.signal(signal.SIGTERM)
        assert json.loads(client.response("GET").body) == "finished"
    assert server.wait() == 0
    assert "Shutting down: Master" in server.log()


@pytest.mark.parametrize("target, path", [("app", "/held"), ("wsgi", "/stays")])
def test_requests_in_flight_are_given_up_after_sigquit(start_gunicorn, target, path):
    settings = "def worker_int(worker): print('worker_int', flush=True)\n"
    server = start_gunicorn(target, settings=settings)
    with server.connect() as client:
        client.send(request("GET", path))
        server.note("begun")
        server.signal(signal.SIGQUIT)
        assert server.wait() == 0
    assert "worker_int" in server.log()
    assert "Worker exiting" in server.log()


def test_a_wsgi_request_that_does_not_end_is_given_up_in_time(start_gunicorn):
    server = start_gunicorn("wsgi", "--graceful-timeout=1")
    with server.connect() as client:
        client.send(request("GET", "/stays"))
        server.note("begun")
        server.signal(signal.SIGTERM)
        assert server.wait() == 0


def test_sighup_replaces_workers_without_losing_a_request(start_gunicorn):
    server = start_gunicorn("app", "-w2")
    with Load(server, connections=4) as load:
        load.more(50)
        server.signal(signal.SIGHUP)
        server.line("Booting worker with pid", count=4)
        server.line("Worker exiting", count=2)
        load.more(50)
    assert load.failures == []


def test_max_requests_replaces_a_worker(start_gunicorn):
    server = start_gunicorn("app", "--max-requests=20")
    with Load(server, connections=2) as load:
        server.line("Autorestarting worker")
        server.line("Booting worker with pid", count=2)
        load.more(5)
    assert load.failures == []


def test_a_blocked_event_loop_is_killed(start_gunicorn):
    # A worker reports once a second that it lives; one that starts slowly is killed as well.
    server = start_gunicorn("app", "--timeout=4")
    with server.connect() as client:
        client.send(request("GET", "/blocked"))
        blocked = server.note("begun")
        server.line(rf"WORKER TIMEOUT \(pid:{blocked}\)")
        begun = re.findall(r"Booting worker with pid: (\d+)", server.log())
        server.line("Booting worker with pid", count=begun.index(str(blocked)) + 2)
    assert server.get("/pid").status == 200


def test_settings_of_requests_are_tidegates(start_gunicorn, tmp_path):
    log = tmp_path / "access.log"
    server = start_gunicorn(
        "app", "--limit-request-line=300", f"--access-logfile={log}",
        "--forwarded-allow-ips=10.0.0.0/8,127.0.0.1")
    assert server.get("/pid?" + "a" * 400).status == 414
    assert server.get("/pid", {"x-forwarded-for": "192.0.2.7"}).status == 200
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["status"] for line in lines] == [414, 200]
    assert "192.0.2.7" in json.dumps(lines[1])


@pytest.mark.parametrize("target", ["app", "wsgi"])
def test_the_access_log_is_opened_again_after_a_rotation(start_gunicorn, tmp_path, target):
    log = tmp_path / "access.log"
    server = start_gunicorn(target, f"--access-logfile={log}")
    path = {"app": "/pid", "wsgi": "/process"}[target]
    assert server.get(path).status == 200
    log.rename(tmp_path / "rotated.log")
    server.signal(signal.SIGUSR1)
    end = time.monotonic() + 60
    while not (log.exists() and log.stat().st_size) and time.monotonic() < end:
        assert server.get(path).status == 200
    server.stop()
    assert json.loads(log.read_text().splitlines()[0])["status"] == 200


def test_https(start_gunicorn, tmp_path):
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", "a.key", "-out", "a.pem"],
        cwd=tmp_path, check=True, capture_output=True)
    server = start_gunicorn(
        "app", f"--certfile={tmp_path}/a.pem", f"--keyfile={tmp_path}/a.key")
    made = subprocess.run(
        ["curl", "-s", "--http2", "--cacert", tmp_path / "a.pem", "-w", " %{http_version}",
         f"https://localhost:{server.port}/pid"], capture_output=True, check=True, text=True)
    assert re.fullmatch(r"\d+ 2", made.stdout)


def test_hooks_of_requests_are_called(start_gunicorn):
    server = start_gunicorn("wsgi", settings="""
def pre_request(worker, req): worker.log.info("pre %s %s", req.method, req.uri)
def post_request(worker, req, environ, resp): worker.log.info("post %s", resp.status)
def worker_exit(server, worker): worker.log.info("exit of %s", worker.nr)
""")
    assert server.get("/process?a").status == 200
    server.line(r"pre GET /process\?a")
    server.line("post 200 OK")
    server.stop()
    assert "exit of 1" in server.log()


def test_only_gunicorn_reads_its_file(start_gunicorn, tmp_path):
    """Also one in the working directory, whose settings may not be those in use."""
    settings = "print('read')\nworker_class = 'tidegate.Worker'\nlimit_request_line = 300\n"
    (tmp_path / "gunicorn.conf.py").write_text(settings)
    server = start_gunicorn("app", f"--chdir={tmp_path}", f"--pythonpath={HERE}",
                            "--limit-request-line=4094")
    assert server.get("/pid?" + "a" * 400).status == 200


def test_a_limit_beyond_the_bounds_is_named(start_gunicorn):
    server = start_gunicorn("app", "--limit-request-line=100")
    server.line("limit_request_line: it is 256 here")
    assert server.get("/pid").status == 200


@pytest.mark.parametrize("target, words, said", [
    ("broken", (), "no database"),
    ("app", ("--access-logfile=-", "--access-logformat=%({a}o)s"), "%({a}o)s is not supported"),
    ("nothing", (), "nothing"),
])
def test_what_prevents_the_start_is_reported(start_gunicorn, target, words, said):
    server = start_gunicorn(target, *words, ready=False)
    assert server.wait() != 0
    assert said in server.log()


def test_gunicorn_is_imported_only_by_its_worker_class():
    program = "import sys, tidegate; print('gunicorn' in sys.modules, hasattr(tidegate, 'None'))"
    made = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, check=True, text=True, cwd=HERE)
    assert made.stdout.split() == ["False", "False"]
