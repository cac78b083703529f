# Applications of ASGI 3: https://asgi.readthedocs.io/en/latest/specs/www.html
import asyncio
import os

TEXT = (b"content-type", b"text/plain")
PONG = {"type": "http.response.body", "body": b"pong"}


async def hello(scope, receive, send):
    assert scope["type"] == "http"
    headers = [TEXT, (b"content-length", b"4")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send(PONG)


async def sleep(scope, receive, send):
    assert scope["type"] == "http"
    await asyncio.sleep(0.01)
    await hello(scope, receive, send)


async def echo(scope, receive, send):
    assert scope["type"] == "http"
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return
        body += message.get("body", b"")
        more = message.get("more_body", False)
    headers = [TEXT, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def websocket(scope, receive, send):
    assert scope["type"] == "websocket"
    await receive()
    await send({"type": "websocket.accept"})
    while True:
        message = await receive()
        if message["type"] != "websocket.receive":
            return
        await send({"type": "websocket.send", "text": message["text"]})


# Stored by the server in front.
async def document(scope, receive, send):
    assert scope["type"] == "http"
    with open(os.environ["BENCH_DOCUMENT"], "rb") as file:
        body = file.read()
    headers = [
        (b"content-type", b"application/json"),
        (b"cache-control", b"max-age=86400"),
        (b"content-length", b"%d" % len(body)),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
