"""The applications of examples/python: each alone, and all behind one gateway.

Real frameworks, in the versions of examples/python/requirements.txt.
"""

import hashlib
import http.cookies
import json
import os
import re
import shutil
import sys
import time
import urllib.parse
from pathlib import Path

import pytest

from client import request
from hosting import EXAMPLES, KIND, Server
from websocket_frames import Session

pytestmark = pytest.mark.skipif(KIND != "tidegate", reason="the examples are for Tidegate")
for name in ("flask", "django", "fastapi", "starlette"):
    pytest.importorskip(name)

WHERE = {"shop": ("flask_shop", "shop:app", "wsgi"),
         "site": ("django_site", "pages:application", "wsgi"),
         "asgi-site": ("django_site", "pages:asgi", "asgi"),
         "api": ("fastapi_api", "api:app", "asgi"),
         "chat": ("starlette_chat", "chat:app", "asgi")}
BEHIND_THE_GATEWAY = ("shop", "site", "api", "chat")


class Example:
    """An application of the examples: its server and the path where it is mounted."""

    def __init__(self, server, mount=""):
        self.server = server
        self.mount = mount

    def ask(self, method, target, headers=(), body=None):
        return self.server.ask(method, self.mount + target, headers, body)

    def get(self, target, headers=()):
        return self.ask("GET", target, headers)

    def websocket(self, target, **more):
        return Session(self.server.port, self.mount + target, **more).opened()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    """`tidegate up` with the configuration of the examples, on a free port."""
    directory = tmp_path_factory.mktemp("examples") / "python"
    shutil.copytree(EXAMPLES, directory, ignore=shutil.ignore_patterns("__pycache__", ".venv"))
    file = directory / "tidegate.yaml"
    text = file.read_text()
    assert "127.0.0.1:8080" in text
    file.write_text(text.replace("127.0.0.1:8080", "127.0.0.1:0"))
    here = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "XDG_RUNTIME_DIR": str(directory.parent)}
    with Server([sys.executable, "-m", "tidegate", "up", str(file)], here) as running:
        running.port = int(running.line(r"name=web address=127\.0\.0\.1:(\d+)")[1])
        running.serves(*BEHIND_THE_GATEWAY)
        yield running


@pytest.fixture(params=["alone", "behind the gateway"])
def example(request):
    """Returns an application of the examples by name, alone or behind the gateway."""
    def find(name):
        if request.param != "alone":
            if name not in BEHIND_THE_GATEWAY:
                pytest.skip("not behind the gateway")
            return Example(request.getfixturevalue("gateway"), f"/{name}")
        directory, target, interface = WHERE[name]
        start = request.getfixturevalue("start_server")
        return Example(start(target, interface, app_dir=EXAMPLES / directory))
    return find


def multipart(**fields):
    """A form as a browser sends it: (name, content) is a file."""
    parts = []
    for field, value in fields.items():
        disposition = f'form-data; name="{field}"'
        content = value
        if isinstance(value, tuple):
            disposition += f'; filename="{value[0]}"\r\ncontent-type: application/octet-stream'
            content = value[1]
        head = f"--border\r\ncontent-disposition: {disposition}\r\n\r\n".encode()
        parts.append(head + content + b"\r\n")
    headers = {"content-type": "multipart/form-data; boundary=border"}
    return headers, b"".join(parts) + b"--border--\r\n"


def cookies(response):
    """The Cookie field that a browser would send back."""
    jar = http.cookies.SimpleCookie()
    for value in response.all("set-cookie"):
        jar.load(value)
    return {"cookie": "; ".join(f"{name}={item.value}" for name, item in jar.items())}


FORM = {"content-type": "application/x-www-form-urlencoded"}


def test_flask_routes_and_links(example):
    shop = example("shop")
    response = shop.get("/")
    assert response.status == 200
    assert f'href="{shop.mount}/products/2"'.encode() in response.body
    assert json.loads(shop.get("/products/2").body)["name"] == "a chair"
    assert shop.get("/products/99").status == 404
    assert shop.ask("DELETE", "/products/2").status == 405


def test_flask_sessions_and_forms(example):
    shop = example("shop")
    headers = dict(FORM)
    for count, total in ((1, 120), (2, 360)):
        response = shop.ask("POST", "/basket", headers, f"product=2&count={count}".encode())
        assert (response.status, json.loads(response.body)["total"]) == (201, total)
        headers = {**FORM, **cookies(response)}
    assert json.loads(shop.get("/basket", headers).body)["items"] == {"2": 3}
    assert json.loads(shop.get("/basket").body)["items"] == {}
    assert shop.ask("POST", "/basket", FORM, b"product=99").status == 400
    receipt = shop.get("/receipt", headers)
    assert receipt.body == b"3 x a chair\ntotal 360\n"
    assert "receipt.txt" in receipt.header("content-disposition")


def test_flask_orders_are_confirmed_by_a_background_job(example):
    shop = example("shop")
    basket = shop.ask("POST", "/basket", FORM, b"product=2&count=3")
    order = shop.ask("POST", "/orders", {**FORM, **cookies(basket)}, b"")
    assert order.status == 202
    confirmation = shop.get(f"/orders/{json.loads(order.body)['order']}")
    assert json.loads(confirmation.body) == {"confirmed": ["3 x a chair"]}
    assert shop.ask("POST", "/orders", FORM, b"").status == 400


def test_flask_streams(example):
    response = example("shop").get("/catalogue.csv")
    assert (response.complete, response.body.count(b"\n")) == (True, 4)


@pytest.mark.parametrize("name", ["site", "asgi-site"])
def test_django_forms_are_protected(example, name):
    site = example(name)
    page = site.get("/")
    assert page.status == 200, page
    token = re.search(rb'name="csrfmiddlewaretoken" value="(\w+)"', page.body)[1].decode()
    assert f'action="{site.mount}/greet"'.encode() in page.body
    form = urllib.parse.urlencode({"csrfmiddlewaretoken": token, "name": "Zoë <b>"}).encode()
    response = site.ask("POST", "/greet", {**FORM, **cookies(page)}, form)
    assert (response.status, response.body) == (200, "Hello, Zoë &lt;b&gt;!".encode())
    assert site.ask("POST", "/greet", FORM, b"name=x").status == 403


@pytest.mark.parametrize("name", ["site", "asgi-site"])
def test_django_uploads(example, name):
    small, large = b"small", os.urandom(3 << 20)
    headers, body = multipart(one=("a.txt", small), two=("b é.bin", large), other=b"no file")
    received = json.loads(example(name).ask("POST", "/upload", headers, body).body)
    digest = hashlib.sha256(small).hexdigest()
    assert received["one"] == {"name": "a.txt", "size": 5, "sha256": digest}
    assert received["two"]["sha256"] == hashlib.sha256(large).hexdigest()


@pytest.mark.parametrize("name", ["site", "asgi-site"])
def test_django_streams_and_answers_conditions(example, name):
    site = example(name)
    assert site.get("/export?lines=20000").body.endswith(b"line 19999\n")
    first = site.get("/news")
    assert "max-age=30" in first.header("cache-control")
    again = site.get("/news", {"if-none-match": first.header("etag")})
    assert (again.status, again.body) == (304, b"")


def test_fastapi_validates_input(example):
    api = example("api")
    assert json.loads(api.get("/").body) == {"name": "Tides", "started": True}
    headers = {"content-type": "application/json"}
    response = api.ask("POST", "/levels", headers, b'{"station": "Brest", "metres": 4.2}')
    assert response.status == 201, response
    assert json.loads(api.get("/levels/Brest").body) == {"station": "Brest", "metres": 4.2}
    wrong = api.ask("POST", "/levels", headers, b'{"station": "Brest", "metres": 400}')
    assert wrong.status == 422
    assert json.loads(wrong.body)["detail"][0]["loc"] == ["body", "metres"]
    assert api.get("/levels/nowhere").status == 404
    assert b"openapi" in api.get("/docs").body


def test_fastapi_accepts_uploads(example):
    content = os.urandom(5 << 20)
    headers, body = multipart(file=("chart.png", content))
    received = json.loads(example("api").ask("POST", "/charts", headers, body).body)
    assert received == {"name": "chart.png", "size": len(content),
                    "sha256": hashlib.sha256(content).hexdigest()}


def test_fastapi_sends_events_as_they_happen(example):
    """Server-sent events, posted by another client and, behind the gateway, to another worker."""
    api = example("api")
    with api.server.connect() as client:
        client.send(request("GET", f"{api.mount}/levels/live?most=2"))
        head = client.head()
        assert head.header("content-type").startswith("text/event-stream")
        assert client.chunk() == b": listening\n\n"
        for metres in (1.5, 2.5):
            body = json.dumps({"station": "Dover", "metres": metres}).encode()
            api.ask("POST", "/levels", {"content-type": "application/json"}, body)
            event = client.chunk().decode()
            assert event.startswith("event: level\ndata: ")
            assert json.loads(event.split("data: ")[1]) == {"station": "Dover", "metres": metres}
        assert client.chunk() == b""


def message_to(guest):
    return json.loads(guest.message())["said"]


def test_starlette_chats(example):
    chat = example("chat")
    assert b"new WebSocket" in chat.get("/").body
    with chat.websocket("/rooms/harbour?name=ann", subprotocols=["chat"]) as ann:
        assert ann.response.header("sec-websocket-protocol") == "chat"
        assert message_to(ann) == "ann is here"
        with (chat.websocket("/rooms/harbour?name=bob") as bob,
              chat.websocket("/rooms/pier?name=eve") as eve):
            assert (message_to(ann), message_to(bob)) == ("bob is here", "bob is here")
            assert message_to(eve) == "eve is here"
            bob.send("ahoy ⚓")
            assert (message_to(ann), message_to(bob)) == ("ahoy ⚓", "ahoy ⚓")
            bob.send_close()
            assert bob.message()[0] == 1000
            assert message_to(ann) == "bob left"
            eve.send("only here")
            assert message_to(eve) == "only here"
    assert int(chat.get("/rooms/harbour/count").body) == 2


def test_starlette_refuses_a_guest_without_a_name(example):
    with example("chat").websocket("/rooms/harbour?name=") as session:
        assert session.response.status == 403


def test_the_cache_in_front_of_flask_and_django(gateway):
    """A cacheable response is generated once, another one each time."""
    for target in ("/shop/products/3", "/site/news"):
        first, second = gateway.get(target), gateway.get(target)
        # A client may have all of a response a moment before it is stored: until then a request
        # shares the fetch.
        deadline = time.monotonic() + 60
        while "collapsed" in second.header("cache-status") and time.monotonic() < deadline:
            second = gateway.get(target)
        assert (first.status, second.status) == (200, 200)
        assert first.body == second.body
        assert "hit" in second.header("cache-status"), second
    for _ in range(2):
        assert "hit" not in gateway.get("/shop/basket").header("cache-status")


def test_the_gateway_compresses_responses(gateway):
    response = gateway.get("/site/export?lines=5000", {"accept-encoding": "gzip"})
    assert response.header("content-encoding") == "gzip"
