"""The application's prometheus_client registry in /metrics, of all workers, and what the server
measures of the interpreter."""

import os
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client import REGISTRY, Counter, Gauge, Histogram

from hosting import IS_BEHIND_GATEWAY, KIND
from stage import note

if KIND != "tidegate" or IS_BEHIND_GATEWAY:
    pytest.skip("only ours has an admin API", allow_module_level=True)

ORDERS = Counter("shop_orders", "Orders.", ["kind"])
STOCK = Gauge("shop_stock", "Things.")
TIMES = Histogram("shop_seconds", "Times.", buckets=(1, 10))
# Families of the server keep their meaning.
Counter("tidegate_requests", "Of the application.").inc(777)
#: Set by the path /continues: the collector of /waits waits for it.
CONTINUES = threading.Event()


def handle(path):
    if path == "/orders":
        ORDERS.labels('a "b"').inc()
        TIMES.observe(2)
        STOCK.set(os.getpid())
    if path == "/breaks":
        class Broken:
            def describe(self):
                return []

            def collect(self):
                raise LookupError("a broken collector")

        REGISTRY.register(Broken())
    if path == "/waits":
        CONTINUES.clear()

        class Waiting:
            def describe(self):
                return []

            def collect(self):
                note("collecting")
                CONTINUES.wait(60)
                REGISTRY.unregister(self)
                return []

        REGISTRY.register(Waiting())
    if path == "/continues":
        CONTINUES.set()
    if path == "/blocks":
        note("blocks")
        os.read(os.pipe()[0], 1)
    if path == "/computes":
        threading.Thread(target=compute, daemon=True).start()
    return str(os.getpid()).encode()


def compute():
    while True:
        pass


async def app(scope, receive, send):
    if scope["type"] == "http":
        body = handle(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})


def wsgi(environ, start_response):
    body = handle(environ["PATH_INFO"])
    start_response("200 OK", [])
    return [body]


def scrape(path):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(b"GET /metrics HTTP/1.0\r\nhost: admin\r\n\r\n")
        return b"".join(iter(lambda: client.recv(65536), b"")).decode()


def scrape_of_workers(path, number):
    """A scrape with all workers: one that is too slow for a scrape is left out of it."""
    deadline = time.monotonic() + 60
    while True:
        text = scrape(path)
        if len(re.findall(r"^shop_stock\{worker=", text, re.M)) == number:
            return text
        assert time.monotonic() < deadline, text


@pytest.mark.parametrize("target, options", [
    ("app", {}), ("wsgi", {}), ("wsgi", {"threads": "gevent"}), ("app", {"preload": True}),
], ids=["asgi", "wsgi", "gevent", "preload"])
def test_the_registry_of_each_worker_is_in_metrics(start_server, tmp_path, target, options):
    interface = "asgi" if target == "app" else "wsgi"
    server = start_server(f"test_own_metrics:{target}", interface, workers=2, **options,
                          environment={"XDG_RUNTIME_DIR": str(tmp_path)})
    served = {}
    deadline = time.monotonic() + 60
    while len(served) < 2:
        assert time.monotonic() < deadline
        process = server.get("/orders").body.decode()
        served[process] = served.get(process, 0) + 1
    text = scrape_of_workers(tmp_path / "tidegate" / f"{server.process.pid}.sock", 2)
    orders = dict(re.findall(
        r'^shop_orders_total\{worker="(\d)",kind="a \\"b\\""\} (\d+)\.0$', text, re.M))
    assert sorted(map(int, orders.values())) == sorted(served.values())
    processes = re.findall(r'^shop_stock\{worker="\d"\} (\S+)$', text, re.M)
    assert {str(int(float(process))) for process in processes} == set(served)
    for worker, number in orders.items():
        assert f'shop_seconds_bucket{{worker="{worker}",le="10.0"}} {number}.0\n' in text
    assert text.count("# TYPE shop_orders_total counter\n") == 1
    assert "tidegate_requests_total{" in text
    assert not re.search(r"^tidegate_requests_total(\{.*\})? 777\.0$", text, re.M)
    # Each line is one of the format.
    for line in text.partition("\r\n\r\n")[2].splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) \S+ .*|[a-zA-Z_:]\w*(\{.*\})? \S+", line), line


def test_scrapes_at_the_same_time_share_the_metrics(start_server, tmp_path):
    """One that takes a second has given up; one that lacks them earlier was not served."""
    server = start_server("test_own_metrics:app", environment={"XDG_RUNTIME_DIR": str(tmp_path)})
    path = tmp_path / "tidegate" / f"{server.process.pid}.sock"
    server.get("/orders")

    def timed():
        began = time.monotonic()
        return "shop_orders_total{" in scrape(path), time.monotonic() - began

    deadline = time.monotonic() + 60
    with ThreadPoolExecutor(3) as pool:
        while True:
            server.get("/waits")
            first = pool.submit(timed)
            server.note("collecting")
            others = [pool.submit(timed) for _ in range(2)]
            server.get("/continues")
            results = [scraped.result() for scraped in (first, *others)]
            if all(has_metrics for has_metrics, _ in results):
                return
            assert all(has_metrics or took >= 1 for has_metrics, took in results), results
            assert time.monotonic() < deadline, results


def test_a_registry_that_fails_is_logged_and_hides_nothing_else(start_server, tmp_path):
    server = start_server("test_own_metrics:app", environment={"XDG_RUNTIME_DIR": str(tmp_path)})
    server.get("/breaks")
    text = scrape(tmp_path / "tidegate" / f"{server.process.pid}.sock")
    assert "tidegate_app_requests_total{" in text and "shop_orders" not in text
    server.line("the application's own metrics cannot be read")
    server.line("a broken collector")


@pytest.mark.parametrize("interface", ["asgi", "wsgi"])
def test_waits_for_the_gil_are_measured(start_server, tmp_path, interface):
    target = "app" if interface == "asgi" else "wsgi"
    server = start_server(f"test_own_metrics:{target}", interface,
                          environment={"XDG_RUNTIME_DIR": str(tmp_path)})
    path = tmp_path / "tidegate" / f"{server.process.pid}.sock"
    server.get("/computes")
    deadline = time.monotonic() + 60
    # A thread that computes releases the GIL after 5 ms.
    while gil_wait(scrape(path)) < 0.004:
        assert time.monotonic() < deadline
        server.get("/")


@pytest.mark.parametrize(("interface", "options"), [
    ("asgi", {"loop": "asyncio"}), ("asgi", {"loop": "uvloop"}),
    ("wsgi", {"threads": 1}), ("wsgi", {"threads": "gevent"}),
], ids=["asyncio", "uvloop", "thread", "gevent"])
def test_the_lag_of_a_loop_that_is_blocked_grows(start_server, tmp_path, interface, options):
    pytest.importorskip("gevent")
    target = "app" if interface == "asgi" else "wsgi"
    server = start_server(f"test_own_metrics:{target}", interface, timeout=0, graceful_timeout=0,
                          environment={"XDG_RUNTIME_DIR": str(tmp_path)}, **options)
    path = tmp_path / "tidegate" / f"{server.process.pid}.sock"
    lag = re.compile(r'^tidegate_app_loop_lag_seconds\{app="main",worker="0"\} (\S+)$', re.M)
    server.get("/")
    assert float(lag.search(scrape(path))[1]) == 0
    with server.connect() as client:
        client.send("GET /blocks HTTP/1.1\r\nhost: a\r\n\r\n")
        server.note("blocks")
        deadline = time.monotonic() + 60
        while float(lag.search(scrape(path))[1]) < 1.5:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def gil_wait(metrics):
    """All waits for the GIL together, in seconds."""
    return sum(map(float, re.findall(
        r"^tidegate_app_gil_wait_seconds_sum\{.*\} (\S+)$", metrics, re.M)))
