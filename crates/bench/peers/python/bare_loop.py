# Calls the application of bench_fastapi over and over, as a server does for a GET, and says how
# often it did in which CPU time: the lower bound of every server of it.
import asyncio
import sys
import time

import uvloop

from bench_fastapi import app

BODY = sys.argv[2].encode()
PATH = sys.argv[3]
REST = {"type": "http.disconnect"}
ROUND = 100


def scope():
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.5"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": PATH,
        "raw_path": PATH.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1:8080")],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8080),
        "state": {},
    }


async def call():
    said = []
    asked = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive():
        return asked.pop() if asked else REST

    async def send(message):
        said.append(message)

    await app(scope(), receive, send)
    return said


async def main(seconds):
    start, *rest = await call()
    body = b"".join(message.get("body", b"") for message in rest)
    if start["status"] != 200 or body != BODY:
        sys.exit(f"the application says {start} {body}")
    count, begun = 0, time.process_time()
    while (used := time.process_time() - begun) < seconds or count == 0:
        for _ in range(ROUND):
            await call()
        count += ROUND
    print(f"RESULT {count} {used:.6f}")


if __name__ == "__main__":
    uvloop.run(main(float(sys.argv[1])))
