"""`tidegate run -c gunicorn.conf.py`: settings, notes and hooks."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from hosting import HERE, KIND

pytestmark = pytest.mark.skipif(KIND != "tidegate", reason="the words of our command line")

@pytest.mark.parametrize("text, said", [
    ("workers = ", "cannot be executed: SyntaxError"),
    ("import no_such_module", "cannot be executed: ModuleNotFoundError"),
    ("workers = 'many'\n", "invalid value 'many'"),
    (None, "there is no file"),
])
def test_what_is_wrong_is_reported(start_server, write, tmp_path, text, said):
    path = str(tmp_path / "none.py") if text is None else write(text)
    server = start_server("test_gunicorn:app", "wsgi", ready=False, config=path)
    assert server.wait() == 2
    assert said in server.log()


def nobody_can_run_python():
    """True if this interpreter, its environment and these tests can be read by another user."""
    if os.geteuid() != 0:
        return False
    command = [sys.executable, "-c", "import tidegate, os; os.stat('test_gunicorn.py')"]
    done = subprocess.run(command, cwd=HERE, user=65534, group=65534, extra_groups=[],
                          capture_output=True, check=False)
    return done.returncode == 0


def identity(environ, start_response):
    from tidegate import cache

    cache.set("user", os.getuid())
    start_response("200 OK", [("content-type", "text/plain")])
    return [f"{cache.get('user')} {os.getgid()} {os.getgroups()}".encode()]


def test_workers_run_as_another_user(start_server, write, tmp_path):
    try:
        usable = nobody_can_run_python()
    except PermissionError:
        usable = False
    if not usable:
        pytest.skip("needs root, and an interpreter that another user can execute")
    log = tmp_path / "access.log"
    socket = f"/tmp/tidegate-test-{os.getpid()}.sock"
    path = write(f"user = 65534\ngroup = 65534\naccesslog = {str(log)!r}\n"
                 f"bind = ['127.0.0.1:0', 'unix:{socket}']\n")
    for directory in (tmp_path, *tmp_path.parents):
        if directory.stat().st_mode & 0o1 == 0:
            directory.chmod(0o711)
    os.chmod(path, 0o644)
    server = start_server("test_gunicorn:identity", "wsgi", config=path, uds_permissions="660",
                          host=None, port=None)
    assert server.get("/").body == b"65534 65534 []"
    assert os.stat(socket).st_uid == 65534
    assert os.stat(socket).st_mode & 0o777 == 0o660
    server.stop()
    assert log.stat().st_uid == 65534
    assert '"path":"/"' in log.read_text()


def test_a_user_who_cannot_be_chosen_is_an_error(start_server, write):
    path = write("user = 'no-such-user'\n")
    server = start_server("test_gunicorn:app", "wsgi", ready=False, config=path)
    assert server.wait() == 2
    assert 'there is no user "no-such-user"' in server.log()


def test_the_format_of_the_access_log(start_server, write):
    path = write("accesslog = '-'\naccess_log_format = "
                 "'%(h)s %(l)s %(u)s \"%(r)s\" %(s)s %(b)s \"%({x-shop}i)s\" %(p)s'\n")
    server = start_server("test_gunicorn:app", "wsgi", config=path)
    server.get("/shop?a=1&token=secret", [("x-shop", 'a"b')])
    line = r'^127\.0\.0\.1 - - "GET /shop\?a=1&token=\*\*\* HTTP/1\.1" 200 5 "a\\"b" <\d+>$'
    server.line(line)


def test_logging_is_configured_by_the_file(start_server, write):
    path = write("""
logconfig_dict = {
    "formatters": {"own": {"format": "own %(levelname)s %(message)s"}},
    "handlers": {"own": {"class": "logging.StreamHandler", "formatter": "own"}},
    "root": {"handlers": ["own"], "level": "INFO"},
}
def post_worker_init(worker):
    import logging
    logging.getLogger("shop").info("configured")
""")
    server = start_server("test_gunicorn:app", "wsgi", config=path)
    server.line(r"^own INFO configured$")
    path = write("logconfig_dict = {'root': {'handlers': ['none']}}\n")
    server = start_server("test_gunicorn:app", "wsgi", ready=False, config=path)
    assert server.wait() == 1
    assert "logconfig_dict is invalid" in server.log()


def app(environ, start_response):
    start_response("200 OK", [("content-type", "text/plain")])
    return [os.environ.get("SHOP", "unset").encode()]


def mounted(environ, start_response):
    start_response("200 OK", [("content-type", "text/plain")])
    return [f"{environ['SCRIPT_NAME']} {environ['PATH_INFO']}".encode()]


@pytest.mark.parametrize("options", [{}, {"preload": True}, {"threads": "gevent"}])
def test_the_mount_point_of_the_environment(start_server, write, options):
    if options.get("threads") == "gevent":
        pytest.importorskip("gevent")
    path = write("raw_env = ['SCRIPT_NAME=/shop']\n")
    server = start_server("test_gunicorn:mounted", "wsgi", config=path, **options)
    assert server.get("/shop/cart").body == b"/shop /cart"


def test_the_option_of_the_mount_point_wins(start_server):
    server = start_server(
        "test_gunicorn:mounted", "wsgi", env="SCRIPT_NAME=/shop", root_path="/other")
    assert server.get("/other/cart").body == b"/other /cart"


LAZY = """
def when_ready(server):
    from hooks_of_the_shop import said
    server.log.info("when_ready %s", said())

def post_fork(server, worker):
    from hooks_of_the_shop import said
    worker.log.warning("post_fork %s", said())
"""


@pytest.mark.parametrize("options", [{}, {"preload": True}, {"chdir": "/"}])
def test_hooks_import_modules_of_the_project_when_they_are_called(
    start_server, write, tmp_path, options,
):
    (tmp_path / "hooks_of_the_shop.py").write_text("def said():\n    return 'imported'\n")
    server = start_server("test_gunicorn:app", "wsgi", config=write(LAZY), **options)
    server.line("when_ready imported")
    server.line("post_fork imported")


def directory(environ, start_response):
    start_response("200 OK", [("content-type", "text/plain")])
    return [os.getcwd().encode()]


@pytest.mark.parametrize("source", ["file", "option", "variable"])
def test_the_directory_of_the_workers(start_server, write, tmp_path, source):
    """Relative paths of the application, and of other settings, are relative to it."""
    (tmp_path / "below").mkdir()
    settings = f"chdir = {str(tmp_path / 'below')!r}\n" if source == "file" else ""
    options = {"option": {"chdir": tmp_path / "below"}}.get(source, {})
    variables = {"GUNICORN_CMD_ARGS": f"--chdir {tmp_path}/below"} if source == "variable" else {}
    server = start_server(
        "test_gunicorn:directory", "wsgi", environment=variables,
        config=write(f"accesslog = 'access.log'\n{settings}"), **options)
    assert server.get("/").body == str(tmp_path / "below").encode()
    assert (tmp_path / "below" / "access.log").exists()


def test_a_directory_that_is_not_there_is_an_error(start_server, write):
    server = start_server("test_gunicorn:app", "wsgi", ready=False, chdir="nowhere")
    assert server.wait() == 2
    assert "error: --chdir: nowhere is not a directory" in server.log()


HOOKS = """
import os

def log(*words):
    print(*words, flush=True)

raw_env = ["SHOP=from the file"]
worker_tmp_dir = "/dev/shm"

def on_starting(server):
    log("on_starting", server.pid == os.getpid())

def when_ready(server):
    log("when_ready", server.pid == os.getpid())

def post_fork(server, worker):
    log("post_fork", worker.age, worker.pid == os.getpid(), server.cfg.worker_tmp_dir, server.cfg.x)

def post_worker_init(worker):
    log("post_worker_init", worker.age)

def pre_request(worker, req):
    worker.log.warning("pre_request %s %s", req.method, req.uri)

def post_request(worker, req, environ, resp):
    worker.log.warning("post_request %s %s %s %s", worker.nr, environ["PATH_INFO"], resp.status,
                       resp.status_code)

def worker_exit(server, worker):
    worker.log.warning("worker_exit %s", worker.age)

def pre_fork(server, worker):
    log("pre_fork", worker.age, worker.pid, server.pid == os.getpid())

def nworkers_changed(server, new_value, old_value):
    log("nworkers_changed", new_value, old_value)

def on_reload(server):
    log("on_reload", server.pid == os.getpid())

def worker_int(worker):
    worker.log.warning("worker_int %s", worker.age)

def child_exit(server, worker):
    log("child_exit", worker.age, worker.pid != os.getpid(), worker.ppid == server.pid)

def on_exit(server):
    log("on_exit", server.pid == os.getpid())
"""


def test_hooks_are_called(start_server, write):
    server = start_server("test_gunicorn:app", "wsgi", config=write(HOOKS))
    server.line(r"note: .*gunicorn.conf.py has worker_tmp_dir: workers have no heartbeat files")
    server.line(r"^on_starting True")
    server.line(r"^nworkers_changed 1 None")
    server.line(r"^pre_fork 0 \[booting\] True")
    server.line(r"post_fork 0 True /dev/shm None")
    server.line(r"post_worker_init 0")
    server.line(r"^when_ready True")
    assert server.get("/shop?a=1").body == b"from the file"
    server.line(r"pre_request GET /shop\?a=1")
    server.line(r"post_request 1 /shop 200 OK 200")
    server.stop()
    assert "worker_exit 0" in server.log()
    assert "worker_int" not in server.log()
    assert "child_exit 0 True True" in server.log()
    assert "on_exit True" in server.log()


def test_hooks_of_reloads_and_of_the_number_of_workers(start_server, write):
    server = start_server("test_gunicorn:app", "wsgi", config=write(HOOKS))
    server.signal(signal.SIGHUP)
    server.line(r"^on_reload True")
    server.line(r"^pre_fork 0", 2)
    server.line(r"^child_exit 0 True True")
    server.signal(signal.SIGTTIN)
    server.line(r"^nworkers_changed 2 1")
    server.line(r"^pre_fork 1")
    server.line(r"post_worker_init 1")
    server.signal(signal.SIGTTOU)
    server.line(r"^nworkers_changed 1 2")
    server.line(r"^child_exit 1 True True")


def test_the_hook_of_an_interrupt(start_server, write):
    server = start_server("test_gunicorn:app", "wsgi", config=write(HOOKS))
    server.line(r"^when_ready True")
    server.signal(signal.SIGINT)
    assert server.wait() == 0
    log = server.log()
    assert 0 < log.index("worker_int 0") < log.index("worker_exit 0")


ENDS = """
def post_request(worker, req):
    worker.alive = False

def worker_int(worker):
    worker.log.warning("worker_int")

def worker_exit(server, worker):
    worker.log.warning("worker_exit %s %s", worker.alive, worker.nr)
"""


@pytest.mark.parametrize("options", [{}, {"preload": True}])
def test_a_hook_ends_its_worker(start_server, write, options):
    server = start_server("test_gunicorn:app", "wsgi", config=write(ENDS), **options)
    for count in (1, 2):
        assert server.get("/").status == 200
        server.line("worker_exit False 1", count)
        server.line("a worker process is ready", count + 1)
    assert "worker_int" not in server.log()
    assert "a worker process has ended" not in server.log()


#: What hooks of public projects read.
READERS = """
def when_ready(server):
    server.log.info("at %s %s %s", server.address, server.num_workers, server.cfg.timeout)

def post_request(worker, reqMORE):
    worker.log.warning("served %s %s %s", req.path, req.uri, dict(req.headers)["CONTENT-LENGTH"])
"""


@pytest.mark.parametrize("more", ["", ", environ", ", environ, resp"])
def test_hooks_read_what_gunicorn_has_and_have_fewer_parameters(start_server, write, more):
    path = write(READERS.replace("MORE", more))
    server = start_server("test_gunicorn:app", "wsgi", config=path)
    server.line(r"at \[\('127.0.0.1', 8000\)\] 1 30")
    server.ask("POST", "/a%20shop?b", body=b"12")
    server.line(r"served /a%20shop /a%20shop\?b 2")


def raises(environ, start_response):
    raise ValueError("no response")


def test_a_request_whose_application_raises_has_ended_for_hooks(start_server, write):
    path = write("""
def post_request(worker, req, environ, resp):
    worker.log.warning("ended %s %s", req.path, resp.status)
    raise LookupError("in the hook")
""")
    server = start_server("test_gunicorn:raises", "wsgi", config=path)
    assert server.get("/shop").status == 500
    server.line("ended /shop None")
    server.line("LookupError: in the hook")
    server.line("ValueError: no response")


def test_the_number_of_workers_is_the_current_one(start_server, write):
    path = write("""
def when_ready(server):
    server.log.info("ready with %s", server.num_workers)

def nworkers_changed(server, new_value, old_value):
    server.log.info("changed to %s", server.num_workers)
""")
    server = start_server("test_gunicorn:app", "wsgi", config=path, workers=2)
    server.line("ready with 2")
    server.signal(signal.SIGTTIN)
    server.line("changed to 3")


ABORT = """
import os

def worker_abort(worker):
    os.write(2, f"worker_abort {worker.age} {worker.pid == os.getpid()}\\n".encode())

def child_exit(server, worker):
    print("child_exit", worker.age, flush=True)
"""


@pytest.mark.parametrize("target, interface", [("stuck", "wsgi"), ("astuck", "asgi")])
def test_the_hook_of_a_worker_that_is_stuck(start_server, write, target, interface):
    server = start_server(f"test_gunicorn:{target}", interface, config=write(ABORT), timeout=1)
    with server.connect() as client:
        client.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        server.line(r"a worker process does not respond and is killed")
        server.line(r"^worker_abort 0 True$")
        server.line(r"^child_exit 0")
    # The next worker has the signal too.
    with server.connect() as client:
        client.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        server.line(r"^worker_abort 0 True$", 2)


def stuck(environ, start_response):
    threading.Event().wait()


async def astuck(scope, receive, send):
    if scope["type"] == "http":
        threading.Event().wait()


def prints(environ, start_response):
    print("printed to output", flush=True)
    print("printed to error", file=sys.stderr, flush=True)
    start_response("200 OK", [])
    return [b""]


@pytest.mark.parametrize("captures", [False, True])
def test_the_error_log_is_a_file_that_is_opened_again(start_server, tmp_path, captures):
    path = tmp_path / "error.log"
    options = {"capture_output": True} if captures else {}
    server = start_server("test_gunicorn:prints", "wsgi", error_logfile=path, ready=False,
                          workers=2, bind="unix:" + str(tmp_path / "s.sock"), **options)

    def text(file, wanted):
        deadline = time.monotonic() + 60
        while wanted not in (found := file.read_text() if file.exists() else ""):
            assert time.monotonic() < deadline, found
        return found

    def ask():
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "s.sock"))
            client.sendall(b"GET / HTTP/1.0\r\nhost: a\r\n\r\n")
            reply = b"".join(iter(lambda: client.recv(100), b""))
            assert reply.startswith(b"HTTP/1.1 200 "), reply

    if captures:
        text(path, "serving test_gunicorn:prints")
    else:
        server.line("serving test_gunicorn:prints")
    ask()
    text(path, "printed to error")
    if captures:
        text(path, "printed to output")
        assert server.log() == ""
    else:
        server.line("printed to output")
        assert "printed to output" not in path.read_text()
    old = tmp_path / "error.log.1"
    path.rename(old)
    server.signal(signal.SIGUSR1)
    deadline = time.monotonic() + 60
    while "printed to error" not in (path.read_text() if path.exists() else ""):
        assert time.monotonic() < deadline
        ask()
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert "drained" in path.read_text() and "drained" not in old.read_text()


def test_an_error_log_that_cannot_be_opened_is_an_error(start_server, tmp_path):
    server = start_server("test_gunicorn:prints", "wsgi", error_logfile=tmp_path, ready=False)
    assert server.wait() == 1
    assert f"--error-logfile {tmp_path}: Is a directory" in server.log()


class StatsdServer:
    """Receives the metrics of a server."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(60)
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"

    def lines(self, count):
        lines = []
        while len(lines) < count:
            lines += self.socket.recv(65536).decode().split("\n")
        return lines


@pytest.mark.parametrize("log", [{}, {"access_log": "-"}])
def test_statsd_gets_the_metrics_that_gunicorn_sends(start_server, log):
    statsd = StatsdServer()
    server = start_server("test_gunicorn:app", "wsgi", workers=2, statsd_host=statsd.address,
                          statsd_prefix="shop.", dogstatsd_tags="env:test", **log)
    assert statsd.lines(1) == ["shop.gunicorn.workers:2|g|#env:test"]
    assert server.get("/").status == 200
    duration, *others = statsd.lines(3)
    assert re.fullmatch(r"shop\.gunicorn\.request\.duration:\d+\.\d{3}\|ms\|#env:test", duration)
    assert others == ["shop.gunicorn.requests:1|c|@1.0|#env:test",
                      "shop.gunicorn.request.status.200:1|c|@1.0|#env:test"]
    server.signal(signal.SIGTTOU)
    assert statsd.lines(1) == ["shop.gunicorn.workers:1|g|#env:test"]


def test_statsd_that_cannot_be_reached_does_not_end_the_server(start_server, tmp_path):
    server = start_server("test_gunicorn:app", "wsgi", statsd_host=f"unix://{tmp_path}/none")
    server.line("no metrics are sent, StatsD cannot be reached")
    assert server.get("/").status == 200


def test_options_win_over_the_file(start_server, write):
    server = start_server(
        "test_gunicorn:app", "wsgi", config=write("raw_env = ['SHOP=file']\n"), env="SHOP=option")
    assert server.get("/").body == b"option"
