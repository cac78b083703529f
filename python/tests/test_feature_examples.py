"""The examples of single features, examples/python/*.py: each is run as its first lines say."""

import hashlib
import json
import os
import re
import shutil
import socket
import sys
import time

import pytest

from client import request
from hosting import EXAMPLES, IS_BEHIND_GATEWAY, KIND, Server
from websocket_client import dial, ended

if KIND != "tidegate" or IS_BEHIND_GATEWAY:
    pytest.skip("the examples start the servers that they need", allow_module_level=True)

#: What each example needs besides the package.
NEEDS = {
    "aiocache_weather": "aiocache starlette", "background_jobs": "flask",
    "cached_reports": "starlette", "channels_chat": "channels msgpack",
    "compressed_websocket": "starlette", "django_cache": "django", "early_hints": "",
    "files": "", "flask_caching_prices": "flask_caching", "greenlets": "gevent flask",
    "own_metrics": "prometheus_client flask", "preloaded": "", "slow_page": "starlette",
    "tagged_pages": "flask", "traced": "opentelemetry.sdk starlette", "trailers": "",
}
TOKEN = "0123456789abcdef"


@pytest.fixture
def example(start_server):
    def start(name, interface="asgi", target="app", **options):
        for module in NEEDS[name].split():
            pytest.importorskip(module)
        return start_server(f"{name}:{target}", interface, app_dir=EXAMPLES, **options)
    return start


def test_each_example_has_a_test():
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == set(NEEDS)
    tests = "".join(name for name in globals() if name.startswith("test_"))
    assert not [name for name in names if name not in tests]


def results(server, path, count=6):
    """The bodies of several responses, which workers of the server make."""
    return [json.loads(server.get(path).body) for _ in range(count)]


def test_greenlets(example):
    server = example("greenlets", "wsgi", threads="gevent")
    with server.connect() as client:
        client.send(request("GET", "/events"))
        assert client.head().header("content-type").startswith("text/event-stream")
        assert client.chunk() == b": listening\n\n"
        assert server.ask("POST", "/events", body=b"low tide").status == 204
        assert client.chunk() == b"data: low tide\n\n"


def test_background_jobs(example):
    server = example("background_jobs", "wsgi", workers=2)
    accepted = server.ask("POST", "/mails", body=b"ann@example.com")
    assert accepted.status == 202
    result = server.get(f"/mails/{json.loads(accepted.body)['job']}")
    assert json.loads(result.body) == {"result": "sent to ann@example.com, attempt 2"}
    deadline = time.monotonic() + 60
    while json.loads(server.get("/periods").body) == 0:
        assert time.monotonic() < deadline


def test_channels_chat(example):
    server = example("channels_chat", workers=2)
    with dial(server, "/rooms/harbour") as ann, dial(server, "/rooms/harbour") as bob:
        with dial(server, "/rooms/pier") as eve:
            bob.send("ahoy")
            assert (ann.recv(timeout=60), bob.recv(timeout=60)) == ("ahoy", "ahoy")
            eve.send("only here")
            assert eve.recv(timeout=60) == "only here"


def test_django_cache(example):
    server = example("django_cache", "wsgi", workers=2)
    assert results(server, "/reports/2026") == [{"year": 2026, "reports": 1}] * 6


def test_flask_caching_prices(example):
    server = example("flask_caching_prices", "wsgi", workers=2)
    assert results(server, "/prices/chair") == [{"item": "chair", "lookup": 1}] * 6
    assert server.ask("DELETE", "/prices/chair").status == 204
    assert results(server, "/prices/chair") == [{"item": "chair", "lookup": 2}] * 6


def test_aiocache_weather(example):
    server = example("aiocache_weather", workers=2)
    assert results(server, "/weather/Brest") == [{"station": "Brest", "measurement": 1}] * 6


def test_cached_reports(example):
    server = example("cached_reports", workers=2)
    assert results(server, "/reports/2026", 3) == [{"year": 2026, "number": 1}] * 3
    assert server.ask("DELETE", "/reports/2026").status == 204
    assert results(server, "/reports/2026", 2) == [{"year": 2026, "number": 2}] * 2
    assert server.get("/reports/2026").status == 429


def test_tagged_pages(tmp_path):
    for module in NEEDS["tagged_pages"].split():
        pytest.importorskip(module)
    for name in ("tagged_pages.py", "tagged_pages.yaml"):
        shutil.copy(EXAMPLES / name, tmp_path)
    file = tmp_path / "tagged_pages.yaml"
    text = file.read_text()
    assert "127.0.0.1:8080" in text
    file.write_text(text.replace("127.0.0.1:8080", "127.0.0.1:0"))
    here = {"PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]),
            "XDG_RUNTIME_DIR": str(tmp_path)}
    with Server([sys.executable, "-m", "tidegate", "up", str(file)], here) as server:
        server.ready().serves("pages")
        assert results(server, "/products/7", 3) == [{"number": 7, "made": 1}] * 3
        assert server.ask("POST", "/products/7", body=b"").status == 204
        assert results(server, "/products/7", 3) == [{"number": 7, "made": 2}] * 3


@pytest.mark.parametrize("target, interface", [("app", "asgi"), ("wsgi", "wsgi")])
def test_early_hints(example, target, interface):
    response = example("early_hints", interface, target).get("/")
    assert [hint.status for hint in response.interim] == [103]
    assert response.interim[0].header("link") == response.header("link")
    assert (response.status, response.body[:9]) == (200, b"<!doctype")


def test_trailers(example):
    server = example("trailers")
    with server.connect() as client:
        client.send(request("GET", "/", {"te": "trailers", "connection": "te"}))
        response = client.response()
    digest = hashlib.sha256(response.body).hexdigest()
    assert response.body.endswith(b"line 999\n")
    assert response.trailers == [("content-digest", f"sha-256={digest}")]


@pytest.mark.parametrize("target, interface", [("app", "asgi"), ("wsgi", "wsgi")])
def test_files(example, target, interface):
    response = example("files", interface, target).get("/")
    assert response.body == (EXAMPLES / "files.py").read_bytes()


def test_compressed_websocket(example):
    server = example("compressed_websocket")
    with dial(server, "/prices", compression="deflate") as session:
        agreed = session.response.headers["sec-websocket-extensions"]
        assert agreed.startswith("permessage-deflate")
        session.send("100")
        messages, code, _ = ended(session)
    assert ([json.loads(message)["price"] for message in messages], code) == ([*range(100)], 1000)


@pytest.mark.skipif(sys.platform != "linux", reason="for Linux")
def test_preloaded(example):
    server = example("preloaded", "wsgi", workers=2, preload=True)
    body = server.get("/squares/8").body.decode()
    assert re.fullmatch(r"64 forked=True connection of process \d+\n", body), body


def test_traced(example):
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    response = example("traced").get("/", {"traceparent": f"00-{trace}-{parent}-01"})
    assert json.loads(response.body)["trace"] == trace


def test_own_metrics(example, tmp_path):
    server = example("own_metrics", "wsgi", environment={"XDG_RUNTIME_DIR": str(tmp_path)})
    assert server.ask("POST", "/orders", body=b"").status == 204
    deadline = time.monotonic() + 60
    while True:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "tidegate" / f"{server.process.pid}.sock"))
            client.sendall(b"GET /metrics HTTP/1.0\r\nhost: admin\r\n\r\n")
            text = b"".join(iter(lambda: client.recv(65536), b"")).decode()
        # A scrape that is too slow lacks them.
        if 'shop_orders_total{worker="0",kind="online"} 1.0\n' in text:
            break
        assert time.monotonic() < deadline, text


def test_slow_page(example):
    server = example("slow_page", slow_request="200ms", profile_token=TOKEN)
    fields = {"tidegate-profile": TOKEN, "accept": "text/plain"}
    deadline = time.monotonic() + 60
    # Samples are taken and slow requests are looked at by threads, which a busy machine delays.
    while not {"query_the_database", "count_the_stars"} <= set(re.findall(r"\w+", (
            stacks := server.get("/", fields).body.decode()))):
        assert time.monotonic() < deadline, stacks
    logged = re.compile(r"slow request has not begun: GET '/' .* < query_the_database \(")
    while not logged.search(server.log()):
        assert time.monotonic() < deadline, server.log()
        assert server.get("/").body == b"333332833333500000\n"


@pytest.mark.parametrize("command", ["run", "worker"])
def test_from_gunicorn(tmp_path, command):
    directory = tmp_path / "from_gunicorn"
    shutil.copytree(EXAMPLES / "from_gunicorn", directory,
                    ignore=shutil.ignore_patterns("__pycache__"))
    file = directory / "gunicorn.conf.py"
    text = file.read_text()
    assert "127.0.0.1:8000" in text
    file.write_text(text.replace("127.0.0.1:8000", "127.0.0.1:0"))
    if command == "worker":
        pytest.importorskip("gunicorn")
        words = ["gunicorn", "-k", "tidegate.Worker", "--no-control-socket"]
    else:
        words = ["tidegate", "run"]
    arguments = [sys.executable, "-m", *words, "-c", str(file), "shop:app"]
    if command == "run":
        arguments += ["--app-dir", str(directory)]
    else:
        arguments += ["--chdir", str(directory)]
    here = {"TMPDIR": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    with Server(arguments, here) as server:
        server.ready().line("the shop is open")
        server.line(r"worker \d+ begins", 2)
        assert server.get("/").body == b"Welcome to the shop\n"
