# An ASGI application; the gateway starts, watches and replaces its process.
import os, platform


async def app(scope, receive, send):
    assert scope["type"] == "http"
    text = f"Hello from Python {platform.python_version()}, process {os.getpid()}\n"
    headers = [(b"content-type", b"text/plain"), (b"x-python", platform.python_version().encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
