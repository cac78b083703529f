"""The settings of a gunicorn.conf.py become options of `tidegate run`."""

import os
import re
import subprocess
import sys

import pytest

from hosting import KIND
from tidegate import _gunicorn, _gunicorn_settings

pytestmark = pytest.mark.skipif(KIND != "tidegate", reason="the words of our command line")

#: The shapes of files in public projects.
FILES = {
    "constants": (
        "bind = '0.0.0.0:8000'\nworkers = 3\ntimeout = 120\nkeepalive = 5\nloglevel = 'info'\n"
        "accesslog = '-'\nerrorlog = '-'\n",
        ["--bind=0.0.0.0:8000", "--workers=3", "--timeout=120", "--keep-alive=5",
         "--log-level=info", "--access-log=-", "--error-logfile=-"],
        [],
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
        ["--pid=a.pid", "--name=shop", "--env=A=1", "--env=B=2",
         "--max-requests=1000", "--threads=4", "--max-requests-jitter=50", "--proxy-protocol",
         "--forwarded-allow-ips=*", "--ssl-certfile=a.pem", "--ssl-keyfile=a.key", "--umask=07",
         "--preload"],
        [],
    ),
    "a service of root": (
        "user = 'www-data'\ngroup = 'www-data'\npythonpath = '/srv/lib,/srv/more'\n"
        "accesslog = '/var/log/shop/access.log'\n"
        "access_log_format = '%(h)s \"%(r)s\" %(s)s %(D)s'\nlogconfig_dict = {'version': 1}\n"
        "errorlog = '/var/log/shop/error.log'\ncapture_output = True\n"
        "statsd_host = 'localhost:8125'\nstatsd_prefix = 'shop'\ndogstatsd_tags = 'env:prod'\n",
        ["--user=www-data", "--group=www-data", "--access-log=/var/log/shop/access.log",
         "--access-log-format=%(h)s \"%(r)s\" %(s)s %(D)s",
         "--env=PYTHONPATH=/srv/lib:/srv/more", "--error-logfile=/var/log/shop/error.log",
         "--capture-output", "--statsd-host=localhost:8125", "--statsd-prefix=shop",
         "--dogstatsd-tags=env:prod"],
        [],
    ),
    "a container": (
        "import os\nbind = f\"127.0.0.1:{os.getenv('SHOP_PORT', '0')}\"\n"
        "workers = os.getenv('SHOP_WORKERS', '2')\nloglevel = os.getenv('SHOP_LEVEL', 'INFO')\n"
        "threads = 2\nworker_class = 'gthread'\nworker_connections = 1000\nkeepalive = 0\n"
        "max_requests_jitter = 50\nmax_worker_memory = 150\n"
        "forwarded_allow_ips = proxy_allow_ips = '*'\n"
        "reload = os.getenv('SHOP_RELOAD', 'false')\npreload_app = 'true'\n"
        "limit_request_line = 0\nlimit_request_fields = 32768\nlimit_request_field_size = 8190\n"
        "secure_scheme_headers = {'X-FORWARDED-PROTO': 'https'}\nstatsd_prefix = 'shop'\n",
        ["--bind=127.0.0.1:0", "--workers=2", "--log-level=info", "--threads=2",
         "--worker-class=gthread", "--worker-connections=1000", "--keep-alive=1",
         "--forwarded-allow-ips=*", "--preload", "--limit-request-line=65536",
         "--limit-request-fields=256"],
        ["keepalive", "limit_request_line", "limit_request_fields", "limit_request_field_size",
         "secure_scheme_headers"],
    ),
    "helpers of its own": (
        "import json\n_port = 9\ncores = 4\ndef helper(): pass\nuser = None\n", [], [],
    ),
}


@pytest.mark.parametrize("text, words, without", FILES.values(), ids=FILES.keys())
def test_settings_become_options(write, text, words, without):
    found, notes = _gunicorn.Configuration(write(text)).options([])
    assert sorted(found) == sorted(words)
    assert [note.split(" has ")[1].split(":")[0] for note in notes] == without


def test_what_a_setting_needs_may_be_an_option(write, monkeypatch):
    configuration = _gunicorn.Configuration(write(
        "reload_extra_files = ['a.html']\nmax_requests_jitter = 5\nproxy_allow_ips = '*'\n"))
    assert configuration.options(["run", "a:b"])[0] == []
    assert configuration.options(["run", "--reload", "a:b"])[0] == [
        "--reload", "--reload-extra-file=a.html"]
    monkeypatch.setenv("GUNICORN_CMD_ARGS", "--max-requests 9 --proxy-protocol=v2")
    assert configuration.options(["run", "a:b"])[0] == [
        "--max-requests=9", "--max-requests-jitter=5", "--proxy-protocol=v2",
        "--proxy-allow-from=*"]


def test_a_file_of_the_settings_is_watched_with_the_option(start_server, write, tmp_path):
    template = tmp_path / "page.html"
    template.write_text("old")
    path = write(f"reload_extra_files = [{str(template)!r}]\n")
    server = start_server("test_gunicorn:app", "wsgi", config=path, reload=True)
    template.write_text("another")
    server.line("a worker process is ready", 2)


def test_the_settings_of_a_container_are_served(start_server, write):
    path = write(FILES["a container"][0])
    server = start_server("test_gunicorn:app", None, config=path, host=None, port=None,
                          workers=None)
    assert server.get("/").body == b"unset"
    server.line(r"note: .* has limit_request_fields: it is 256 here")


def test_a_worker_class_of_its_own_is_the_one_that_it_extends(write, tmp_path):
    pytest.importorskip("gunicorn")
    text = "from gunicorn.workers.gthread import ThreadWorker\nclass Own(ThreadWorker): pass\n"
    (tmp_path / "own_worker.py").write_text(text)
    word = "--worker-class=gunicorn.workers.gthread.ThreadWorker"
    found, _ = _gunicorn.Configuration(write(text + "worker_class = Own\n")).options([])
    assert found == [word]
    path = write(f"chdir = {str(tmp_path)!r}\nworker_class = 'own_worker.Own'\n")
    assert word in _gunicorn.Configuration(path).options([])[0]
    text = "import tidegate\nclass Own(tidegate.Worker): pass\n"
    for kind in ("'tidegate.Worker'", "tidegate.Worker", "Own"):
        path = write(f"{text}worker_class = {kind}\n")
        assert _gunicorn.Configuration(path).options([])[0] == ["--worker-class=tidegate.Worker"]
    path = write("worker_class = 'nowhere.Own'\n")
    assert _gunicorn.Configuration(path).options([])[0] == ["--worker-class=nowhere.Own"]


def test_every_setting_of_gunicorn_is_known():
    settings = pytest.importorskip("gunicorn.config").KNOWN_SETTINGS
    ours = _gunicorn_settings
    known = {*ours.OPTIONS, *ours.REPEATED, *ours.FLAGS, *ours.BOUNDED, *ours.CONVERTED,
             *ours.WITHOUT_COUNTERPART, *ours.OF_WORKERS, *_gunicorn.HOOKS,
             *_gunicorn.HOOKS_OF_WORKERS}
    assert {setting.name for setting in settings} - known == {"config"}


def test_the_option_is_taken_from_the_command_line(write):
    path = write("wsgi_app = 'shop:app'\n")
    for words in (["-c", path], [f"-c{path}"], ["--config", path], [f"--config={path}"]):
        arguments, configuration = _gunicorn.take(["run", *words, "-w", "2"])
        assert arguments == ["run", "-w", "2", "shop:app"]
        assert configuration.path == path
    assert _gunicorn.take(["run", "-c", path, "a:b"])[0] == ["run", "a:b"]
    for words in (["-w4", "a:b"], ["--reload", "a:b"], ["--", "a:b"], ["-b", "unix:x", "a:b"]):
        assert _gunicorn.take(["run", "-c", path, *words])[0] == ["run", *words]
    for words in (["--header", "a:b"], ["-b", "unix:shop.sock"], ["--bind", "unix:shop.sock"]):
        assert _gunicorn.take(["run", "-c", path, *words])[0] == ["run", *words, "shop:app"]
    assert _gunicorn.take(["run", "x.lua", "-c", "x"]) == (["run", "x.lua", "-c", "x"], None)
    assert _gunicorn.take(["up", "-c", "x"]) == (["up", "-c", "x"], None)


def test_what_gunicorn_completes_is_completed(write):
    path = write("wsgi_app = 'shop.wsgi'\n"
                 "bind = ['0.0.0.0', '[::1]', 'tcp://a:1', '8001', 'unix:a', 'fd://3']\n")
    arguments, configuration = _gunicorn.take(["run", "-c", path])
    assert arguments == ["run", "shop.wsgi:application"]
    assert configuration.options([])[0] == [
        "--bind=0.0.0.0:8000", "--bind=[::1]:8000", "--bind=a:1", "--bind=8001", "--bind=unix:a",
        "--bind=fd://3"]


def test_the_options_without_a_value_are_known():
    command = [sys.executable, "-P", "-m", "tidegate", "run", "--help"]
    text = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    found = re.findall(r"^ {2,6}(?:-\w, )?(--[a-z-]+)(?! <)(?: |\[|$)", text, re.MULTILINE)
    assert {*found} - _gunicorn.WITHOUT_VALUE == {"--help", "--interactive"}


def test_the_option_is_taken_from_the_variable(write, monkeypatch):
    path = write("wsgi_app = 'shop:app'\n")
    monkeypatch.setenv("GUNICORN_CMD_ARGS", f"-w 3 -c {path} -e 'A=b c'")
    arguments, configuration = _gunicorn.take(["run"])
    assert arguments == ["run", "shop:app"]
    assert configuration.path == path
    assert os.environ["GUNICORN_CMD_ARGS"] == "-w 3 -e 'A=b c'"
    monkeypatch.setenv("GUNICORN_CMD_ARGS", "-c 'x")
    assert _gunicorn.take(["run", "a:b"]) == (["run", "a:b"], None)


def test_the_file_of_the_working_directory_is_read_without_an_option(
    write, monkeypatch, tmp_path, capsys,
):
    assert _gunicorn.take(["run", "a:b"]) == (["run", "a:b"], None)
    path = write("wsgi_app = 'shop:app'\n")
    monkeypatch.chdir(tmp_path)
    arguments, configuration = _gunicorn.take(["run"])
    assert arguments == ["run", "shop:app"] and configuration.path == path
    assert capsys.readouterr().err == "note: ./gunicorn.conf.py is read; -c /dev/null reads none\n"
    arguments, configuration = _gunicorn.take(["run", "a:b", "-c", "/dev/null"])
    assert arguments == ["run", "a:b"] and configuration.options([]) == ([], [])
    for words in (["run", "--help"], ["run", "-i"], ["run", "x.lua"], ["up"]):
        assert _gunicorn.take(words) == (words, None)


def test_a_module_is_a_file_as_well(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "")
    found, _ = _gunicorn.Configuration("python:gunicorn_settings").options([])
    assert found == ["--threads=3"]
    with pytest.raises(_gunicorn.ConfigurationError, match="cannot be executed"):
        _gunicorn.Configuration("python:no_such_module")
