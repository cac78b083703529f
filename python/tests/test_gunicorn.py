"""`tidegate run -c gunicorn.conf.py`: settings, notes and hooks."""

import os

import pytest

from hosting import KIND
from tidegate import _gunicorn

pytestmark = pytest.mark.skipif(KIND != "tidegate", reason="the words of our command line")

#: The shapes of files in public projects.
FILES = {
    "constants": (
        "bind = '0.0.0.0:8000'\nworkers = 3\ntimeout = 120\nkeepalive = 5\nloglevel = 'info'\n"
        "accesslog = '-'\nerrorlog = '-'\n",
        ["--bind=0.0.0.0:8000", "--workers=3", "--timeout=120", "--keep-alive=5",
         "--log-level=info", "--access-log=-"],
        ["errorlog"],
    ),
    "computed": (
        "import multiprocessing, os\nworkers = multiprocessing.cpu_count() * 2 + 1\n"
        "bind = ['127.0.0.1:' + os.environ.get('WEB_PORT', '8001'), 'unix:/run/shop.sock']\n"
        "worker_class = 'uvicorn.workers.UvicornWorker'\nworker_tmp_dir = '/dev/shm'\n",
        [f"--workers={2 * os.cpu_count() + 1}", "--bind=127.0.0.1:8001",
         "--bind=unix:/run/shop.sock", "--worker-class=uvicorn.workers.UvicornWorker"],
        ["worker_tmp_dir"],
    ),
    "a service": (
        "wsgi_app = 'shop.wsgi:application'\nchdir = '/srv/shop'\numask = 0o007\n"
        "pidfile = 'a.pid'\n"
        "proc_name = 'shop'\nraw_env = ['A=1', 'B=2']\nmax_requests = 1000\nthreads = 4\n"
        "max_requests_jitter = 50\npreload_app = True\nreload = False\nproxy_protocol = True\n"
        "forwarded_allow_ips = '*'\ncertfile = 'a.pem'\nkeyfile = 'a.key'\ndaemon = False\n",
        ["--app-dir=/srv/shop", "--pid=a.pid", "--name=shop", "--env=A=1", "--env=B=2",
         "--max-requests=1000", "--threads=4", "--max-requests-jitter=50", "--proxy-protocol",
         "--forwarded-allow-ips=*", "--ssl-certfile=a.pem", "--ssl-keyfile=a.key", "--umask=07"],
        ["preload_app"],
    ),
    "helpers of its own": (
        "import json\n_port = 9\ncores = 4\ndef helper(): pass\nuser = None\n", [], [],
    ),
}


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "gunicorn.conf.py"
        path.write_text(text)
        return str(path)

    return write


@pytest.mark.parametrize("text, words, without", FILES.values(), ids=FILES.keys())
def test_settings_become_options(write, text, words, without):
    found, notes = _gunicorn.Configuration(write(text)).options()
    assert sorted(found) == sorted(words)
    assert [note.split(" has ")[1].split(":")[0] for note in notes] == without


def test_every_setting_of_gunicorn_is_known():
    settings = pytest.importorskip("gunicorn.config").KNOWN_SETTINGS
    known = {*_gunicorn.OPTIONS, *_gunicorn.REPEATED, *_gunicorn.FLAGS, *_gunicorn.CONVERTED,
             *_gunicorn.HOOKS, *_gunicorn.HOOKS_OF_WORKERS, *_gunicorn.WITHOUT_COUNTERPART,
             *_gunicorn.REFUSED}
    assert {setting.name for setting in settings} - known == {"config"}


def test_the_option_is_taken_from_the_command_line(write):
    path = write("wsgi_app = 'shop:app'\n")
    for words in (["-c", path], [f"-c{path}"], ["--config", path], [f"--config={path}"]):
        arguments, configuration = _gunicorn.take(["run", *words, "-w", "2"])
        assert arguments == ["run", "-w", "2", "shop:app"]
        assert configuration.path == path
    assert _gunicorn.take(["run", "-c", path, "a:b"])[0] == ["run", "a:b"]
    assert _gunicorn.take(["run", "x.lua", "-c", "x"]) == (["run", "x.lua", "-c", "x"], None)
    assert _gunicorn.take(["up", "-c", "x"]) == (["up", "-c", "x"], None)


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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could change its user")
def test_a_user_is_not_ignored(start_server, write):
    path = write("user = 'www-data'\n")
    server = start_server("test_gunicorn:app", "wsgi", ready=False, config=path)
    assert server.wait() == 2
    assert "has user: the process does not change its user" in server.log()


def app(environ, start_response):
    start_response("200 OK", [("content-type", "text/plain")])
    return [os.environ.get("SHOP", "unset").encode()]


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
    worker.log.warning("post_request %s %s %s", worker.nr, environ["PATH_INFO"], resp.status)

def worker_exit(server, worker):
    worker.log.warning("worker_exit %s", worker.age)

def on_exit(server):
    log("on_exit", server.pid == os.getpid())
"""


def test_hooks_are_called(start_server, write):
    server = start_server("test_gunicorn:app", "wsgi", config=write(HOOKS))
    server.line(r"note: .*gunicorn.conf.py has worker_tmp_dir: workers have no heartbeat files")
    server.line(r"^on_starting True")
    server.line(r"post_fork 0 True /dev/shm None")
    server.line(r"post_worker_init 0")
    server.line(r"^when_ready True")
    assert server.get("/shop?a=1").body == b"from the file"
    server.line(r"pre_request GET /shop\?a=1")
    server.line(r"post_request 1 /shop 200 OK")
    server.stop()
    assert "worker_exit 0" in server.log()
    assert "on_exit True" in server.log()


def test_options_win_over_the_file(start_server, write):
    server = start_server(
        "test_gunicorn:app", "wsgi", config=write("raw_env = ['SHOP=file']\n"), env="SHOP=option")
    assert server.get("/").body == b"option"
