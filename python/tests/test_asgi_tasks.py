"""What an application may expect of asyncio: its task, its context, the lifetime of its tasks.

A server may run a coroutine without a new asyncio task as long as no application can tell.
"""

import asyncio
import contextvars
import json
import sys
import time
import weakref

import pytest

from client import request
from stage import Stage, more, note, outcome, reply, start, whole_body


class Living(Stage):
    async def live(self, receive, send):
        await receive()
        VARIABLE.set("from startup")
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})


app = Living()
VARIABLE = contextvars.ContextVar("variable", default="unset")


@app.part
async def context(scope, receive, send):
    before = VARIABLE.get()
    VARIABLE.set(scope["query_string"].decode())
    await receive()
    await asyncio.sleep(0)
    await reply(send, [before, VARIABLE.get()])


def test_each_request_has_its_own_context(server):
    with server.connect() as client:
        for number in range(5):
            client.send(request("GET", f"/context?{number}"))
            before, after = json.loads(client.response().body)
            assert before in ("unset", "from startup")
            assert after == str(number)


def test_concurrent_requests_do_not_see_each_others_context(server):
    clients = [server.connect() for _ in range(20)]
    for number, client in enumerate(clients):
        client.send(request("GET", f"/context?{number}"))
    for number, client in enumerate(clients):
        before, after = json.loads(client.response().body)
        assert (before in ("unset", "from startup"), after) == (True, str(number))
        client.close()


@app.part
async def never_suspends(scope, receive, send):
    before = VARIABLE.get()
    VARIABLE.set("never suspends")
    await reply(send, before.encode())


def test_a_coroutine_that_never_suspends_has_its_context_too(server):
    with server.connect() as client:
        for _ in range(3):
            client.send(request("GET", "/never_suspends"))
            assert client.response().body in (b"unset", b"from startup")


@app.part
async def task(scope, receive, send):
    def found():
        current = asyncio.current_task()
        return [isinstance(current, asyncio.Task), current in asyncio.all_tasks(), id(current)]
    first = found()
    await receive()
    second = found()
    await asyncio.sleep(0)
    third = found()
    await asyncio.sleep(0.001)
    await reply(send, [first, second, third, found()])


def test_there_is_a_current_task_and_it_stays_the_same(server):
    """Also in the first step, which could run without one."""
    seen = json.loads(server.get("/task").body)
    assert [s[:2] for s in seen] == [[True, True]] * 4
    assert len({s[2] for s in seen}) == 1


@app.part
async def one_of_several_tasks(scope, receive, send):
    note("my-task", id(asyncio.current_task()))
    await receive()
    await whole_body(receive)
    await reply(send, b"")


def test_concurrent_requests_have_their_own_tasks(server):
    clients = [server.connect() for _ in range(3)]
    for client in clients:
        client.send(request("POST", "/one_of_several_tasks", {"content-length": "2"}) + b"x")
    assert len({server.note("my-task") for _ in clients}) == 3
    for client in clients:
        client.send(b"x")
        assert client.response().status == 200
        client.close()


@app.part
async def timeouts(scope, receive, send):
    """asyncio.timeout and wait_for cancel the current task, and undo the cancellation."""
    async def forever():
        await asyncio.get_running_loop().create_future()

    async def within_timeout():
        async with asyncio.timeout(0.01):
            await forever()
    results = [await outcome(within_timeout()), await outcome(asyncio.wait_for(forever(), 0.01))]
    results.append(asyncio.current_task().cancelling())
    await reply(send, results)


def test_time_outs_work_in_the_first_step(server):
    first, second, cancelling = json.loads(server.get("/timeouts").body)
    assert "TimeoutError" in first["raised"]
    assert "TimeoutError" in second["raised"]
    assert cancelling == 0


@app.part
async def receive_with_timeout(scope, receive, send):
    await whole_body(receive)
    await reply(send, await outcome(asyncio.wait_for(receive(), 0.01)))


def test_a_wait_for_the_disconnect_can_time_out(server):
    assert "TimeoutError" in json.loads(server.get("/receive_with_timeout").body)["raised"]


@app.part
async def group(scope, receive, send):
    async def child(number):
        await asyncio.sleep(0.001 * number)
        return number * VARIABLE.get()
    VARIABLE.set(2)
    async with asyncio.TaskGroup() as tasks:
        children = [tasks.create_task(child(number)) for number in range(5)]
    await reply(send, [child.result() for child in children])


def test_a_task_group_works_and_its_tasks_have_the_context(server):
    assert json.loads(server.get("/group").body) == [0, 2, 4, 6, 8]


@app.part
async def spawns(scope, receive, send):
    async def afterwards():
        for _ in range(3):
            await asyncio.sleep(0.001)
        note("afterwards", VARIABLE.get())
    VARIABLE.set("spawned")
    app.kept = asyncio.ensure_future(afterwards())
    await reply(send, b"gone ahead")


def test_a_task_that_was_spawned_outlives_its_request(server):
    assert server.get("/spawns").body == b"gone ahead"
    assert server.note("afterwards") == "spawned"


@app.part
async def background(scope, receive, send):
    await reply(send, b"response")
    note("answered")
    # Work after the response; nothing waits for its length.
    await asyncio.sleep(0.05)
    note("worked", VARIABLE.get())


def test_the_client_has_the_response_while_the_application_continues(server):
    with server.connect() as client:
        client.send(request("GET", "/background") + request("GET", "/never_suspends"))
        assert client.response().body == b"response"
        assert client.response().status == 200
        server.note("worked")


@app.part
async def other_task_sends(scope, receive, send):
    """send and receive may be called by any task of the loop."""
    async def writer():
        await start(send)
        await more(send, b"from another task", False)
    await asyncio.create_task(whole_body(receive))
    await asyncio.create_task(writer())


def test_send_and_receive_work_in_other_tasks(server):
    with server.connect() as client:
        for _ in range(2):
            client.send(request("POST", "/other_task_sends", body=b"x"))
            assert client.response().body == b"from another task"


@app.part
async def from_thread(scope, receive, send):
    loop = asyncio.get_running_loop()
    VARIABLE.set("seen in the thread")

    def work():
        asyncio.run_coroutine_threadsafe(start(send), loop).result()
        asyncio.run_coroutine_threadsafe(more(send, VARIABLE.get().encode()), loop).result()
        return b", done"
    await more(send, await asyncio.to_thread(work), False)


def test_a_thread_can_send_through_the_loop(server):
    assert server.get("/from_thread").body == b"seen in the thread, done"


@app.part
async def unsuspended_loop(scope, receive, send):
    """Streams without a pause, until the send buffer is full."""
    await start(send)
    for _ in range(200):
        await more(send, b"x" * 10_000)
    await more(send, b"", False)


def test_an_endless_stream_does_not_block_other_requests(server):
    """send() suspends while the client does not read, so that other tasks run."""
    with server.connect() as stuck, server.connect() as other:
        stuck.send(request("GET", "/unsuspended_loop"))
        stuck.head()
        for _ in range(5):
            other.send(request("GET", "/never_suspends"))
            assert other.response().status == 200
        size = 0
        while piece := stuck.chunk():
            size += len(piece)
        assert size == 2_000_000


@app.part
async def thrown_into(scope, receive, send):
    """A task that is cancelled by another one, while it waits for receive()."""
    await whole_body(receive)
    mine = asyncio.current_task()
    asyncio.get_running_loop().call_later(0.01, mine.cancel)
    try:
        await receive()
    except asyncio.CancelledError:
        mine.uncancel()
        return await reply(send, b"cancelled")
    await reply(send, b"not cancelled")


def test_a_request_can_be_cancelled_in_receive(server):
    with server.connect() as client:
        client.send(request("GET", "/thrown_into"))
        assert client.response().body == b"cancelled"
        client.send(request("GET", "/never_suspends"))
        assert client.response().status == 200


@app.part
async def loop_of(scope, receive, send):
    await reply(send, [asyncio.get_running_loop() is asyncio.get_event_loop(),
                       asyncio.get_running_loop().is_running()])


def test_the_loop_runs(server):
    assert json.loads(server.get("/loop_of").body) == [True, True]


@app.part
async def exception_group(scope, receive, send):
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(outcome(asyncio.sleep(0)))
        tasks.create_task(fails())


async def fails():
    raise ValueError("in a group")


def test_a_group_of_exceptions_is_a_500(server):
    assert server.get("/exception_group").status == 500
    server.line("ValueError: in a group")


@app.part
async def unusual_awaitables(scope, receive, send):
    """A generator-based step, a future, a gather, a shield, an event: all suspend and resume."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.call_soon(future.set_result, 1)
    event = asyncio.Event()
    loop.call_soon(event.set)
    values = [await future, await asyncio.gather(asyncio.sleep(0, 2), asyncio.sleep(0, 3)),
              await asyncio.shield(asyncio.sleep(0.001, 4)), await event.wait()]
    await reply(send, values)


def test_all_kinds_of_awaitables_work(server):
    assert json.loads(server.get("/unusual_awaitables").body) == [1, [2, 3], 4, True]


@pytest.mark.parametrize("count", [300])
def test_many_requests_on_many_connections_do_not_mix(server, count):
    clients = [server.connect() for _ in range(10)]
    for at in range(count // 10):
        for number, client in enumerate(clients):
            client.send(request("GET", f"/context?{at}.{number}"))
        for number, client in enumerate(clients):
            assert json.loads(client.response().body)[1] == f"{at}.{number}"
    for client in clients:
        client.close()


@app.part
async def cancels_itself(scope, receive, send):
    """Cancels its own task, and ends before the exception is raised."""
    await reply(send, b"cancelled")
    asyncio.current_task().cancel()


@app.part
async def cancels_itself_and_takes_it_back(scope, receive, send):
    asyncio.current_task().cancel()
    asyncio.current_task().uncancel()
    await reply(send, b"taken back")


@app.part
async def suspends(scope, receive, send):
    cancelling = asyncio.current_task().cancelling()
    await asyncio.sleep(0)
    await reply(send, [cancelling])


@app.part
async def blocks_the_loop(scope, receive, send):
    """Keeps the loop busy while other requests arrive, which the server then begins together."""
    note("blocks")
    time.sleep(0.05)
    await reply(send, b"")


@pytest.mark.parametrize("before", ["cancels_itself", "cancels_itself_and_takes_it_back"])
def test_a_cancellation_reaches_no_other_request(server, before):
    clients = [server.connect() for _ in range(10)]
    with server.connect() as blocking:
        for _ in range(60):
            blocking.send(request("GET", "/blocks_the_loop"))
            server.note("blocks")
            for at, client in enumerate(clients):
                client.send(request("GET", "/suspends" if at % 2 else f"/{before}"))
            for at, client in enumerate(clients):
                response = client.response()
                assert response.status == 200, at
                assert at % 2 == 0 or response.body == b"[0]"
            assert blocking.response().status == 200
    for client in clients:
        client.close()


TASKS = weakref.WeakKeyDictionary()
NAMES = {}


def leave_name(current):
    current.set_name("another request")


def leave_name_in_a_dictionary(current):
    NAMES[current.get_name()] = True


def leave_attribute(current):
    current.user = "another request"


def leave_weak_key(current):
    TASKS[current] = "another request"


def leave_weak_reference(current):
    NAMES["weak"] = weakref.ref(current)


def leave_callback(current):
    current.add_done_callback(lambda task: NAMES.update(done=task is current))


def leave_reference(current):
    NAMES["task"] = current


def leave_context(current):
    if sys.version_info >= (3, 12):
        current.get_context().run(VARIABLE.set, "another request")


LEAVES = {name: function for name, function in globals().items() if name.startswith("leave_")}


@app.part
async def leaves(scope, receive, send):
    current = asyncio.current_task()
    try:
        LEAVES[scope["query_string"].decode()](current)
    except RuntimeError:
        pass  # Runs in its own task and context.
    await reply(send, b"")


@app.part
async def finds(scope, receive, send):
    """Returns the traces of another request."""
    current = asyncio.current_task()
    found = []
    if not current.get_name().startswith("Task-"):
        found.append("name")
    if NAMES.get(current.get_name()):
        found.append("name in a dictionary")
    if hasattr(current, "user"):
        found.append("attribute")
    if current in TASKS:
        found.append("weak key")
    if "weak" in NAMES and NAMES["weak"]() is current:
        found.append("weak reference")
    if NAMES.get("task") is current:
        found.append("reference")
    if sys.version_info >= (3, 12) and current.get_context().get(VARIABLE) == "another request":
        found.append("context")
    NAMES.clear()
    await reply(send, found)


def leave_and_look(server, trace, before):
    with server.connect() as client:
        for _ in range(8):
            for path in [*before, f"/leaves?{trace}"]:
                client.send(request("GET", path))
                assert client.response().status == 200
            client.send(request("GET", "/finds"))
            assert json.loads(client.response().body) == []


@pytest.mark.parametrize("trace", LEAVES)
def test_a_request_finds_nothing_of_the_one_before_it_in_its_task(server, trace):
    leave_and_look(server, trace, ["/task_name"] * 3)


@pytest.mark.parametrize("trace", ["leave_weak_key", "leave_name"])
def test_a_request_finds_nothing_of_the_first_one_of_its_task(start_server, trace):
    """A new server has tasks that have not run any request."""
    leave_and_look(start_server("test_asgi_tasks:app"), trace, [])


@app.part
async def done_callback_ran(scope, receive, send):
    await reply(send, NAMES.pop("done", False))


def test_a_done_callback_runs_when_the_request_has_ended(server):
    with server.connect() as client:
        client.send(request("GET", "/leaves?leave_callback"))
        assert client.response().status == 200
        client.send(request("GET", "/done_callback_ran"))
        assert json.loads(client.response().body) is True


@app.part
async def task_name(scope, receive, send):
    await reply(send, asyncio.current_task().get_name())


@pytest.mark.fails_on("uvicorn", "granian", "hypercorn", "gunicorn")
def test_requests_that_leave_no_trace_share_tasks(server):
    """Sharing makes requests cheap: the checks above must not reject every task."""
    with server.connect() as client:
        names = set()
        for _ in range(40):
            client.send(request("GET", "/task_name"))
            names.add(client.response().body)
    assert len(names) <= 8
