"""Trailers: a checksum that is known only after the last byte.

    tidegate run trailers:app --app-dir examples/python
    curl -v -H 'TE: trailers' http://127.0.0.1:8000/
"""

import hashlib


async def app(scope, receive, send):
    assert scope["type"] == "http"
    checksum = hashlib.sha256()
    await send({"type": "http.response.start", "status": 200, "trailers": True,
                "headers": [(b"content-type", b"text/plain"), (b"trailer", b"content-digest")]})
    for number in range(1000):
        line = b"line %d\n" % number
        checksum.update(line)
        await send({"type": "http.response.body", "body": line, "more_body": number < 999})
    # Sent to clients with `TE: trailers`.
    await send({"type": "http.response.trailers",
                "headers": [(b"content-digest", b"sha-256=" + checksum.hexdigest().encode())]})
