"""103 Early Hints: the browser loads the style sheet while the page is still made.

    tidegate run early_hints:app --app-dir examples/python --dev-tls        # ASGI
    tidegate run early_hints:wsgi --app-dir examples/python --dev-tls       # WSGI
"""

LINK = "</style.css>; rel=preload; as=style"
PAGE = b"<!doctype html><link rel=stylesheet href=/style.css><h1>Tides</h1>"


async def app(scope, receive, send):
    assert scope["type"] == "http"
    if "http.response.early_hint" in scope["extensions"]:
        await send({"type": "http.response.early_hint", "links": [LINK.encode()]})
    await send({"type": "http.response.start", "status": 200,
                "headers": [(b"content-type", b"text/html"), (b"link", LINK.encode())]})
    await send({"type": "http.response.body", "body": PAGE})


def wsgi(environ, start_response):
    if "wsgi.early_hints" in environ:
        environ["wsgi.early_hints"]([("Link", LINK)])
    start_response("200 OK", [("Content-Type", "text/html"), ("Link", LINK)])
    return [PAGE]
