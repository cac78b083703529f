"""Files that the kernel sends: a view decides, and no byte passes through Python.

    tidegate run files:app --app-dir examples/python       # ASGI
    tidegate run files:wsgi --app-dir examples/python      # WSGI
    curl http://127.0.0.1:8000/ | head

Behind `tidegate up` the gateway gets the open file, and sends it itself.
"""

from pathlib import Path

FILE = Path(__file__).resolve()


async def app(scope, receive, send):
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200,
                "headers": [(b"content-type", b"text/x-python")]})
    await send({"type": "http.response.pathsend", "path": str(FILE)})


def wsgi(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/x-python")])
    return environ["wsgi.file_wrapper"](FILE.open("rb"))
