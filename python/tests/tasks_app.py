"""Applications with background jobs, for test_tasks: ASGI `app` and WSGI `wsgi`."""

import asyncio
import json
import os
import sys
import threading
import time

from stage import note
from tidegate import tasks

FLAG = os.environ.get("TASKS_FLAG", "")


@tasks.task
def say(word):
    note("said", [word, os.getpid(), tasks.current().attempt, threading.current_thread().name])


@tasks.task(keep_result=60)
async def add(a, b):
    await asyncio.sleep(0)
    return a + b


@tasks.task(retries=2, backoff=0.01, keep_result=60)
def flaky():
    attempt = tasks.current().attempt
    note("attempt", attempt)
    if attempt < 3:
        raise ValueError(f"attempt {attempt}")
    return "third"


@tasks.task(keep_result=60)
async def process():
    return os.getpid()


@tasks.task(keep_result=60)
async def exits():
    sys.exit(3)


@tasks.task(keep_result=60)
def fails():
    raise LookupError("nothing there")


@tasks.task(timeout=0.2, keep_result=60)
def loops():
    while True:
        time.sleep(0.01)


@tasks.task(timeout=0.2, keep_result=60)
async def sleeps():
    await asyncio.sleep(3600)


@tasks.task(keep_result=60)
def waits():
    note("waits", os.getpid())
    while True:
        time.sleep(0.01)


@tasks.task(keep_result=60)
async def awaits():
    note("awaits", os.getpid())
    await asyncio.sleep(3600)


@tasks.task(retries=1)
def dies(path):
    """Ends its worker in the first attempt, once a file is there."""
    note("dies", tasks.current().attempt)
    if tasks.current().attempt == 1:
        while not os.path.exists(path):
            time.sleep(0.01)
        os._exit(9)


@tasks.task
def until_allowed(path):
    """Runs until a file is there."""
    note("began", [os.getpid(), tasks.current().attempt])
    while not os.path.exists(path):
        time.sleep(0.01)
    note("ended", [os.getpid(), tasks.current().attempt])


if FLAG == "periodic":
    @tasks.periodic(every=0.2)
    def ticks():
        note("tick", os.getpid())


@tasks.task
def _later():
    pass


later = _later.options(delay=3600)


_jobs = {}


def handle(path, query):
    """`/enqueue/NAME?ARGUMENTS`, `/result/ID`, `/cancel/ID`, `/state/ID`."""
    _, action, what = path.split("/")
    if action == "enqueue":
        job = globals()[what].enqueue(*json.loads(query or "[]"))
        return job.id
    task_name, _, id = what.partition("-")
    job = tasks.Job(int(id), globals()[task_name])
    if action == "result":
        try:
            return job.result(timeout=30)
        except tasks.JobFailed as error:
            return f"failed: {error}"
    return getattr(job, action)()


async def app(scope, receive, send):
    if scope["type"] != "http":
        raise RuntimeError("no lifespan")
    from urllib.parse import unquote

    query = unquote(scope["query_string"].decode())
    value = await asyncio.to_thread(handle, scope["path"], query)
    body = json.dumps(value).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def wsgi(environ, start_response):
    from urllib.parse import unquote

    value = handle(environ["PATH_INFO"], unquote(environ["QUERY_STRING"]))
    start_response("200 OK", [("content-type", "application/json")])
    return [json.dumps(value).encode()]
