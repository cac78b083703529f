"""The applications of examples/python: each alone, and all of them behind one gateway.

Real frameworks, in the versions of examples/python/requirements.txt.
"""

import hashlib
import http.cookies
import json
import os
import re
import shutil
import sys
import urllib.parse
from pathlib import Path

import pytest

from client import request
from hosting import HERE, KIND, Server
from talk import Talk

pytestmark = pytest.mark.skipif(KIND != "tidegate", reason="they are examples of ours")
for name in ("flask", "django", "fastapi", "starlette"):
    pytest.importorskip(name)

EXAMPLES = Path(os.environ.get("TIDEGATE_EXAMPLES", HERE.parent.parent / "examples" / "python"))
WHERE = {"shop": ("flask_shop", "shop:app", "wsgi"),
         "site": ("django_site", "pages:application", "wsgi"),
         "asgi-site": ("django_site", "pages:asgi", "asgi"),
         "api": ("fastapi_api", "api:app", "asgi"),
         "chat": ("starlette_chat", "chat:app", "asgi")}


class Door:
    """A server, and the path below which an application is reached there."""

    def __init__(self, server, below=""):
        self.server = server
        self.below = below

    def ask(self, method, target, headers=(), body=None):
        return self.server.ask(method, self.below + target, headers, body)

    def get(self, target, headers=()):
        return self.ask("GET", target, headers)

    def talk(self, target, **more):
        return Talk(self.server.port, self.below + target, **more).opened()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    """`tidegate up` with the configuration of the examples, on a free port."""
    folder = tmp_path_factory.mktemp("examples") / "python"
    shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns("__pycache__", ".venv"))
    file = folder / "tidegate.yaml"
    text = file.read_text()
    assert "127.0.0.1:8080" in text
    file.write_text(text.replace("127.0.0.1:8080", "127.0.0.1:0"))
    here = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "XDG_RUNTIME_DIR": str(folder.parent)}
    with Server([sys.executable, "-m", "tidegate", "up", str(file)], here) as running:
        running.port = int(running.line(r"name=web address=127\.0\.0\.1:(\d+)")[1])
        yield running


@pytest.fixture(params=["alone", "behind the gateway"])
def door(request):
    """Makes the way to an application of the examples, alone and behind the gateway."""
    def open_door(name):
        if request.param != "alone":
            if name not in ("shop", "site", "api", "chat"):
                pytest.skip("the gateway has the other one")
            return Door(request.getfixturevalue("gateway"), f"/{name}")
        folder, target, interface = WHERE[name]
        start = request.getfixturevalue("start_server")
        return Door(start(target, interface, app_dir=EXAMPLES / folder))
    return open_door


def multipart(**fields):
    """A form as a browser sends it: (name, content) is a file."""
    parts = []
    for field, value in fields.items():
        said = f'form-data; name="{field}"'
        content = value
        if isinstance(value, tuple):
            said += f'; filename="{value[0]}"\r\ncontent-type: application/octet-stream'
            content = value[1]
        head = f"--border\r\ncontent-disposition: {said}\r\n\r\n".encode()
        parts.append(head + content + b"\r\n")
    headers = {"content-type": "multipart/form-data; boundary=border"}
    return headers, b"".join(parts) + b"--border--\r\n"


def cookies(answer):
    """The Cookie field that a browser would send back."""
    jar = http.cookies.SimpleCookie()
    for value in answer.all("set-cookie"):
        jar.load(value)
    return {"cookie": "; ".join(f"{name}={item.value}" for name, item in jar.items())}


FORM = {"content-type": "application/x-www-form-urlencoded"}


def test_flask_routes_and_links(door):
    shop = door("shop")
    answer = shop.get("/")
    assert answer.status == 200
    assert f'href="{shop.below}/products/2"'.encode() in answer.body
    assert json.loads(shop.get("/products/2").body)["name"] == "a chair"
    assert shop.get("/products/99").status == 404
    assert shop.ask("DELETE", "/products/2").status == 405


def test_flask_sessions_and_forms(door):
    shop = door("shop")
    headers = dict(FORM)
    for count, total in ((1, 120), (2, 360)):
        answer = shop.ask("POST", "/basket", headers, f"product=2&count={count}".encode())
        assert (answer.status, json.loads(answer.body)["total"]) == (201, total)
        headers = {**FORM, **cookies(answer)}
    assert json.loads(shop.get("/basket", headers).body)["items"] == {"2": 3}
    assert json.loads(shop.get("/basket").body)["items"] == {}
    assert shop.ask("POST", "/basket", FORM, b"product=99").status == 400
    receipt = shop.get("/receipt", headers)
    assert receipt.body == b"3 x a chair\ntotal 360\n"
    assert "receipt.txt" in receipt.header("content-disposition")


def test_flask_streams(door):
    answer = door("shop").get("/catalogue.csv")
    assert (answer.complete, answer.body.count(b"\n")) == (True, 4)


@pytest.mark.parametrize("name", ["site", "asgi-site"])
def test_django_forms_are_protected(door, name):
    site = door(name)
    page = site.get("/")
    assert page.status == 200, page
    token = re.search(rb'name="csrfmiddlewaretoken" value="(\w+)"', page.body)[1].decode()
    assert f'action="{site.below}/greet"'.encode() in page.body
    form = urllib.parse.urlencode({"csrfmiddlewaretoken": token, "name": "Zoë <b>"}).encode()
    answer = site.ask("POST", "/greet", {**FORM, **cookies(page)}, form)
    assert (answer.status, answer.body) == (200, "Hello, Zoë &lt;b&gt;!".encode())
    assert site.ask("POST", "/greet", FORM, b"name=x").status == 403


@pytest.mark.parametrize("name", ["site", "asgi-site"])
def test_django_uploads(door, name):
    small, large = b"small", os.urandom(3 << 20)
    headers, body = multipart(one=("a.txt", small), two=("b é.bin", large), other=b"no file")
    told = json.loads(door(name).ask("POST", "/upload", headers, body).body)
    assert told["one"] == {"name": "a.txt", "size": 5, "sha256": hashlib.sha256(small).hexdigest()}
    assert told["two"]["sha256"] == hashlib.sha256(large).hexdigest()


@pytest.mark.parametrize("name", ["site", "asgi-site"])
def test_django_streams_and_answers_conditions(door, name):
    site = door(name)
    assert site.get("/export?lines=20000").body.endswith(b"line 19999\n")
    first = site.get("/news")
    assert "max-age=30" in first.header("cache-control")
    again = site.get("/news", {"if-none-match": first.header("etag")})
    assert (again.status, again.body) == (304, b"")


def test_fastapi_checks_what_it_is_told(door):
    api = door("api")
    assert json.loads(api.get("/").body) == {"name": "Tides", "started": True}
    headers = {"content-type": "application/json"}
    answer = api.ask("POST", "/levels", headers, b'{"station": "Brest", "metres": 4.2}')
    assert answer.status == 201, answer
    assert json.loads(api.get("/levels/Brest").body) == {"station": "Brest", "metres": 4.2}
    wrong = api.ask("POST", "/levels", headers, b'{"station": "Brest", "metres": 400}')
    assert wrong.status == 422
    assert json.loads(wrong.body)["detail"][0]["loc"] == ["body", "metres"]
    assert api.get("/levels/nowhere").status == 404
    assert b"openapi" in api.get("/docs").body


def test_fastapi_takes_uploads(door):
    content = os.urandom(5 << 20)
    headers, body = multipart(file=("chart.png", content))
    told = json.loads(door("api").ask("POST", "/charts", headers, body).body)
    assert told == {"name": "chart.png", "size": len(content),
                    "sha256": hashlib.sha256(content).hexdigest()}


def test_fastapi_sends_events_as_they_happen(door):
    """Server-sent events, measured by another client and, behind the gateway, in another worker."""
    api = door("api")
    with api.server.connect() as client:
        client.send(request("GET", f"{api.below}/levels/live?most=2"))
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


def said(guest):
    return json.loads(guest.message())["said"]


def test_starlette_chats(door):
    chat = door("chat")
    assert b"new WebSocket" in chat.get("/").body
    with chat.talk("/rooms/harbour?name=ann", subprotocols=["chat"]) as ann:
        assert ann.answer.header("sec-websocket-protocol") == "chat"
        assert said(ann) == "ann is here"
        with chat.talk("/rooms/harbour?name=bob") as bob, chat.talk("/rooms/pier?name=eve") as eve:
            assert (said(ann), said(bob)) == ("bob is here", "bob is here")
            assert said(eve) == "eve is here"
            bob.send("ahoy ⚓")
            assert (said(ann), said(bob)) == ("ahoy ⚓", "ahoy ⚓")
            bob.say_close()
            assert bob.message()[0] == 1000
            assert said(ann) == "bob left"
            eve.send("only here")
            assert said(eve) == "only here"
    assert int(chat.get("/rooms/harbour/count").body) == 2


def test_starlette_refuses_a_guest_without_a_name(door):
    with door("chat").talk("/rooms/harbour?name=") as nobody:
        assert nobody.answer.status == 403


def test_the_cache_in_front_of_flask_and_django(gateway):
    """What may be kept is made once; what may not is made each time."""
    for target in ("/shop/products/3", "/site/news"):
        first, second = gateway.get(target), gateway.get(target)
        assert (first.status, second.status) == (200, 200)
        assert first.body == second.body
        assert "hit" in second.header("cache-status"), second
    for _ in range(2):
        assert "hit" not in gateway.get("/shop/basket").header("cache-status")


def test_the_gateway_compresses_what_applications_say(gateway):
    answer = gateway.get("/site/export?lines=5000", {"accept-encoding": "gzip"})
    assert answer.header("content-encoding") == "gzip"
