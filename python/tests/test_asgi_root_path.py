"""ASGI 2.5: `root_path`, "the same as SCRIPT_NAME in WSGI", as uvicorn and Starlette have it.

A proxy in front has removed the root path; the server prepends it to the path again, so that
`path` begins with `root_path` and the application can take off what it is mounted at.
"""

import json

from stage import reply

OPTIONS = {"root_path": "/mounted"}


async def app(scope, receive, send):
    if scope["type"] == "http":
        fields = {key: scope[key] for key in ("root_path", "path", "raw_path", "query_string")}
        await reply(send, fields)


def test_the_path_begins_with_the_root_path(server):
    fields = json.loads(server.get("/caf%C3%A9?q").body)
    assert fields["root_path"] == "/mounted"
    assert fields["path"] == "/mounted/café"
    assert fields["raw_path"] == "/mounted/caf%C3%A9"
    assert fields["query_string"] == "q"
