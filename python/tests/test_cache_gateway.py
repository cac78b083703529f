"""tidegate.cache behind `tidegate up`: a store for each application, which outlives processes."""

import json
import re
import sys
import time

import pytest

from hosting import HERE, KIND, PATIENCE_S, Client, Server
from stage import Stage, reply

if KIND != "tidegate":
    pytest.skip("only ours has a store", allow_module_level=True)

from tidegate import cache

app = Stage()


@app.part
async def count(scope, receive, send):
    await reply(send, await cache.aincr("count"))


def configuration(memory):
    routes = [{"match": {"path": f"/{name}/{{*rest}}"},
               "filters": [{"rewrite": {"strip_prefix": f"/{name}"}}],
               "handler": {"app": name}} for name in ("one", "two")]
    one = {"python": "test_cache_gateway:app", "dir": str(HERE), "venv": sys.prefix}
    apps = {"one": {**one, "workers": 2, "limits": {"store": memory}}, "two": one}
    return json.dumps({"listeners": {"web": {"bind": "127.0.0.1:0"}},
                       "admin": {"bind": "127.0.0.1:0"}, "apps": apps, "routes": routes})


@pytest.fixture
def gateway(tmp_path):
    file = tmp_path / "tidegate.yaml"
    file.write_text(configuration("2MiB"))
    here = {"XDG_RUNTIME_DIR": str(tmp_path)}
    with Server([sys.executable, "-m", "tidegate", "up", str(file)], here) as running:
        running.port = int(running.line(r"name=web address=127\.0\.0\.1:(\d+)")[1])
        running.admin = int(running.line(r"name=admin address=127\.0\.0\.1:(\d+)")[1])
        running.file = file
        running.serves("one", "two")
        yield running


def counted(gateway, name):
    response = gateway.get(f"/{name}/count")
    assert response.status == 200, response
    return json.loads(response.body)


def memory_limit(gateway, name):
    with Client(gateway.admin) as client:
        client.send("GET /metrics HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n")
        text = client.response().body.decode()
    found = re.search(f'^tidegate_store_memory_limit_bytes{{app="{name}"}} (.*)$', text, re.M)
    return int(found[1])


def test_each_application_has_its_own_persistent_store(gateway):
    assert [counted(gateway, "one") for _ in range(6)] == [1, 2, 3, 4, 5, 6]
    assert [counted(gateway, "two") for _ in range(2)] == [1, 2]
    assert memory_limit(gateway, "one") == 2 << 20
    assert memory_limit(gateway, "two") == 64 << 20
    gateway.file.write_text(configuration("4MiB"))
    end = time.monotonic() + PATIENCE_S
    while memory_limit(gateway, "one") != 4 << 20:
        assert time.monotonic() < end, gateway.log()
        time.sleep(0.01)
    assert (counted(gateway, "one"), counted(gateway, "two")) == (7, 3)
