"""tidegate.tasks stored in Redis: jobs outlive servers, and several servers share them."""

import asyncio
import json
import signal
import socket
import time
from urllib.parse import quote

import pytest

from hosting import IS_BEHIND_GATEWAY, KIND
from redis_server import PROGRAM, RedisServer

if KIND != "tidegate" or IS_BEHIND_GATEWAY:
    pytest.skip("only ours has background jobs", allow_module_level=True)
if PROGRAM is None:
    pytest.skip("redis-server is not installed", allow_module_level=True)

from tidegate import _task_queue, tasks
from tidegate.broadcast import StoreError

CALLS = []


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    with RedisServer(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
def url(redis, request):
    """A queue of its own for each test."""
    return f"{redis.url}?visibility=60&prefix={quote(request.node.name, safe='')}"


@pytest.fixture
def here(url, monkeypatch):
    """Jobs of this process."""
    CALLS.clear()
    monkeypatch.setattr(_task_queue, "_queue", None)
    tasks.connect(url)


@tasks.task(name="redis.record", keep_result=60)
def record(*args, **kwargs):
    CALLS.append((args, kwargs))
    return len(CALLS)


@tasks.task(name="redis.arecord", keep_result=60)
async def arecord(value):
    return value, tasks.current().attempt


@tasks.task(name="redis.flaky", retries=2, backoff=0.001, keep_result=60)
def flaky():
    if tasks.current().attempt < 3:
        raise LookupError("nothing there")
    return tasks.current().attempt


def test_a_job_runs_with_its_arguments_and_stores_its_result(here):
    job = record.enqueue(1, b"x", named=["y"])
    assert job.state() == "waiting"
    assert tasks.run_waiting() == 1
    assert CALLS == [((1, b"x"), {"named": ["y"]})]
    assert (job.state(), job.result(timeout=60)) == ("ended", 1)


def test_coroutines_are_awaited_and_can_enqueue(here):
    async def enqueue():
        job = await arecord.aenqueue("v")
        assert await job.astate() == "waiting"
        assert await asyncio.to_thread(tasks.run_waiting) == 1
        return await job.aresult(timeout=60)

    assert asyncio.run(enqueue()) == ("v", 1)


def test_failed_attempts_are_repeated(here):
    job = flaky.enqueue()
    deadline = time.monotonic() + 30
    while job.state() != "ended" and time.monotonic() < deadline:
        tasks.run_waiting()
    assert job.result(timeout=60) == 3


def test_options_of_a_job(here):
    assert record.options(delay=3600).enqueue() is not None
    assert tasks.run_waiting() == 0
    first = record.options(key="k").enqueue()
    assert record.options(key="k").enqueue() is None
    assert tasks.run_waiting() == 1
    assert first.result() == 1
    job = record.options(key="k", expires=0.001).enqueue()
    deadline = time.monotonic() + 10
    while job.state() != "ended" and time.monotonic() < deadline:
        pass
    assert tasks.run_waiting() == 0 and len(CALLS) == 1


def test_a_waiting_job_is_cancelled(here):
    job = record.enqueue()
    assert job.cancel() and not job.cancel()
    assert tasks.run_waiting() == 0


def test_what_redis_would_not_store_is_an_error(here):
    with pytest.raises(ValueError, match="at most 1048576 bytes"):
        record.enqueue(b"x" * (1 << 20))
    with pytest.raises(ValueError, match="at most 30 days"):
        record.options(delay=31 * 86400).enqueue()
    with pytest.raises(ValueError, match="at most 100 retries"):
        record.options(retries=101).enqueue()
    with pytest.raises(ValueError, match="a key has 1 to 1024 bytes"):
        record.options(key="k" * 1025).enqueue()


def test_a_full_queue_rejects_jobs(here):
    large = b"x" * ((1 << 20) - 1000)
    with pytest.raises(tasks.QueueFull, match="too many jobs are waiting"):
        for _ in range(100):
            record.enqueue(large)


def test_a_script_that_redis_has_forgotten_is_sent_again(here):
    record.enqueue()
    _task_queue.queue().connection.call(("SCRIPT", "FLUSH"))
    record.enqueue()
    assert tasks.run_waiting() == 2


def test_a_server_that_cannot_be_reached_is_named_without_its_password(monkeypatch, tmp_path):
    monkeypatch.setattr(_task_queue, "_queue", None)
    tasks.connect(f"unix://ann:hunter2@{tmp_path}/none.sock")
    with pytest.raises(StoreError, match="none.sock.* cannot be reached") as raised:
        record.enqueue()
    assert "hunter2" not in str(raised.value)
    with pytest.raises(ValueError, match="this URL does not name a Redis server"):
        tasks.connect("localhost:6379")


def test_a_wrong_password_is_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(_task_queue, "_queue", None)
    with RedisServer(tmp_path, "--requirepass", "right") as redis:
        path = redis.socket
        tasks.connect(f"unix://:right@{path}?prefix=p")
        record.enqueue()
        assert tasks.run_waiting() == 1
        for login in (":wrong@", ""):
            tasks.connect(f"unix://{login}{path}?prefix=p")
            with pytest.raises(StoreError, match="rejects the client|NOAUTH"):
                record.enqueue()


def enqueue(server, name, *arguments):
    return json.loads(server.get(f"/enqueue/{name}?{quote(json.dumps(arguments))}").body)


def ask(server, action, name, id):
    return json.loads(server.get(f"/{action}/{name}-{id}").body)


@pytest.mark.parametrize("target", ["app", "wsgi"])
def test_jobs_run_in_the_workers_of_any_server(start_server, url, target):
    interface = "asgi" if target == "app" else "wsgi"
    web = start_server(f"tasks_app:{target}", interface, task_store=url, task_threads=0)
    enqueue(web, "say", "hello")
    runner = start_server(f"tasks_app:{target}", interface, task_store=url, workers=2)
    word, _, attempt, thread = runner.note("said")
    assert (word, attempt) == ("hello", 1) and thread.startswith("task-")
    # A result is stored in Redis, and announced there.
    assert ask(web, "result", "add", enqueue(web, "add", 2, 3)) == 5
    assert ask(web, "result", "flaky", enqueue(web, "flaky")) == "third"


def test_jobs_outlive_the_server(start_server, url):
    first = start_server("tasks_app:app", task_store=url, task_threads=0)
    job = enqueue(first, "add", 2, 3)
    first.stop()
    second = start_server("tasks_app:app", task_store=url)
    assert ask(second, "result", "add", job) == 5


def test_a_job_that_does_not_end_in_time_continues_in_the_next_server(start_server, url, tmp_path):
    first = start_server("tasks_app:app", task_store=url, graceful_timeout=1)
    path = tmp_path / "allowed"
    enqueue(first, "until_allowed", str(path))
    process, _ = first.note("began")
    first.signal(signal.SIGTERM)
    first.line("did not end in time and is put back into the queue")
    assert first.wait() == 0
    second = start_server("tasks_app:app", task_store=url)
    other, attempt = second.note("began")
    assert other != process and attempt == 1
    path.write_text("")
    second.note("ended")


def test_a_job_whose_worker_is_killed_runs_again_after_the_visibility(start_server, url, tmp_path):
    server = start_server("tasks_app:app", task_store=url.replace("=60&", "=3&"), workers=2)
    path = tmp_path / "allowed"
    enqueue(server, "dies", str(path))
    assert server.note("dies") == 1
    path.write_text("")
    assert server.note("dies") == 2


def test_a_running_job_is_reported_and_stays_with_its_process(start_server, url, tmp_path):
    queue = _task_queue.RedisQueue(url, "main")
    server = start_server("tasks_app:app", task_store=url.replace("=60&", "=9&"))
    job = enqueue(server, "until_allowed", str(tmp_path / "allowed"))
    server.note("began")

    def until():
        script = "return redis.call('ZSCORE', KEYS[1], ARGV[1])"
        [found] = queue.connection.call(("EVAL", script, 1, f"{queue._app}:running", job))
        return float(found)

    first, deadline = until(), time.monotonic() + 60
    while until() == first:
        assert time.monotonic() < deadline
    (tmp_path / "allowed").write_text("")
    server.note("ended")


def test_a_job_that_is_not_reported_is_given_to_another_process(here, url):
    other = _task_queue.RedisQueue(url, "main")
    job = flaky.enqueue()
    queue = _task_queue.queue()
    take, = queue.call(queue.take(tasks._tasks))
    assert take[:2] == [job.id, b"redis.flaky"] and job.state() == "running"
    assert other.call(other.command("DONE", job.id)) == [0]
    # As if the time had passed.
    other.connection.call(("ZADD", f"{other._app}:running", 1, job.id))
    assert job.state() == "waiting"
    deadline = time.monotonic() + 30
    while not isinstance(taken := other.call(other.take(tasks._tasks))[0], list):
        assert time.monotonic() < deadline
    assert taken[0] == job.id and taken[3] == 2
    # The first process has it no more.
    assert queue.call(queue.command("DONE", job.id)) == [0]
    assert queue.call(queue.command("RENEW", job.id)) == [[]]
    assert other.call(other.command("DONE", job.id)) == [1]
    assert other.call(other.command("STATS"))[0] == [0, 0, 1, 0, 1, 1, 0, 0, 0]


def test_a_running_job_is_cancelled_from_another_server(start_server, url):
    web = start_server("tasks_app:app", task_store=url, task_threads=0)
    runner = start_server("tasks_app:app", task_store=url)
    for name in ("waits", "awaits"):
        job = enqueue(web, name)
        runner.note(name)
        assert ask(web, "state", name, job) == "running"
        assert ask(web, "cancel", name, job) is True
        assert ask(web, "result", name, job) == "failed: it was cancelled"


def test_a_periodic_task_runs_in_one_server_at_a_time(start_server, url):
    queue = _task_queue.RedisQueue(url, "main")
    seconds, microseconds = map(int, queue.connection.call(("TIME",))[0])
    begin = seconds * 1000 + microseconds // 1000
    environment = {"TASKS_FLAG": "periodic", "TIDEGATE_TASK_STORE": url}
    servers = [start_server("tasks_app:app", environment=environment) for _ in range(2)]
    runs, deadline = 0, time.monotonic() + 60
    while runs < 5 and time.monotonic() < deadline:
        runs += sum(len(server.notes("tick")) for server in servers)
    for server in servers:
        server.stop()
    [stored] = queue.connection.call(("HGET", f"{queue._app}:schedules", "tasks_app.ticks"))
    runs += sum(len(server.notes("tick")) for server in servers)
    assert runs >= 5
    # Each run moves the schedule by a period at least, from one period after the start.
    assert runs <= (int(stored.split()[0]) - begin) / 200 - 1
    assert queue.connection.call(("HEXISTS", f"{queue._app}:periodic", "tasks_app.ticks")) == [0]


def test_a_cron_expression_is_one_for_redis_too(here, url, monkeypatch):
    queue = _task_queue.queue()
    # Not so often that it may become due within the test.
    yearly = tasks.periodic(cron="0 0 1 1 *", name="redis.yearly")(lambda: CALLS.append("ran"))
    monkeypatch.setattr(tasks, "_tasks", {yearly.name: yearly})
    queue.call(queue.schedule(yearly))
    assert 0 < queue.call(queue.take(tasks._tasks))[0] <= 60_000
    # As if the time had come.
    key = (f"{queue._app}:schedules", yearly.name)
    [stored] = queue.connection.call(("HGET", *key))
    due, _, period = stored.decode().partition(" ")
    assert int(due) % 60_000 == 0 and period == "cron 0 0 1 1 *"
    queue.connection.call(("HSET", *key, f"{int(due) - 366 * 86_400_000} {period}"))
    assert tasks.run_waiting() == 1 and CALLS == ["ran"]
    [stored] = queue.connection.call(("HGET", *key))
    assert int(stored.split()[0]) >= int(due)
    # A changed expression takes effect.
    queue.call(queue.schedule(tasks.Task(lambda: None, name="redis.yearly.2", cron="@yearly")))
    yearly.cron = "@yearly"
    queue.call(queue.schedule(yearly))
    [stored] = queue.connection.call(("HGET", *key))
    assert stored.endswith(b" cron @yearly")


def test_redis_is_started_again(start_server, tmp_path):
    with RedisServer(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as redis:
        server = start_server("tasks_app:app", task_store=redis.url)
        assert ask(server, "result", "add", enqueue(server, "add", 1, 1)) == 2
        delayed = enqueue(server, "later")
        redis.kill()
        server.line("jobs cannot be taken from the store, trying again")
        redis.start()
        server.line("jobs are taken from the store again")
        assert ask(server, "result", "add", enqueue(server, "add", 2, 3)) == 5
        assert ask(server, "state", "later", delayed) == "waiting"


def test_the_metrics_have_the_numbers_of_redis(start_server, url, tmp_path):
    server = start_server("tasks_app:app", task_store=url.replace("=60&", "=3&"),
                          environment={"XDG_RUNTIME_DIR": str(tmp_path)})
    assert ask(server, "result", "add", enqueue(server, "add", 1, 1)) == 2
    path = tmp_path / "tidegate" / f"{server.process.pid}.sock"

    def metrics():
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            client.sendall(b"GET /metrics HTTP/1.0\r\nhost: admin\r\n\r\n")
            return b"".join(iter(lambda: client.recv(65536), b"")).decode()

    deadline = time.monotonic() + 30
    while 'tidegate_store_tasks_total{app="main",result="done"} 1' not in metrics():
        assert time.monotonic() < deadline


def test_a_url_that_is_none_ends_the_command(start_server):
    server = start_server("tasks_app:app", task_store="redis://u:hunter2@h/x", ready=False)
    assert server.wait() == 2
    assert "--task-store: this URL needs the number of a database" in server.log()
    assert "hunter2" not in server.log()


def test_the_printed_settings_have_no_password(start_server):
    url = "redis://u:hunter2@h/3"
    server = start_server("tasks_app:app", task_store=url, print_config=True, ready=False)
    assert server.wait() == 0
    assert "redis://h:6379/3" in server.log() and "hunter2" not in server.log()


def test_cron_expressions_are_checked_where_they_are_written():
    tasks.periodic(cron="0 3 * * mon-fri", name="redis.cron")(lambda: None)
    with pytest.raises(ValueError, match="0 25 .*is not a cron expression: .25. is not a value"):
        tasks.periodic(cron="0 25 * * *", name="redis.wrong")(lambda: None)
    for options in ({}, {"every": 1, "cron": "@daily"}):
        with pytest.raises(ValueError, match="either every=SECONDS or cron=EXPRESSION"):
            tasks.periodic(**options)
