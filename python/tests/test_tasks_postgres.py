"""tidegate.tasks stored in PostgreSQL: jobs outlive servers, and several servers share them."""

import asyncio
import json
import signal
import socket
import threading
import time
from urllib.parse import quote

import pytest

from hosting import IS_BEHIND_GATEWAY, KIND
from postgres_server import PROGRAMS, PostgresServer

if KIND != "tidegate" or IS_BEHIND_GATEWAY:
    pytest.skip("only ours has background jobs", allow_module_level=True)
if PROGRAMS is None:
    pytest.skip("PostgreSQL is not installed", allow_module_level=True)

from tidegate import _postgres_tasks, _task_queue, tasks
from tidegate.broadcast import StoreError

CALLS = []


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    with PostgresServer(tmp_path_factory.mktemp("postgres")) as running:
        yield running


@pytest.fixture
def url(postgres, request):
    """A queue of its own for each test."""
    prefix = quote(request.node.name, safe="")
    return f"{postgres.url}&visibility=60&prefix={prefix}"


@pytest.fixture
def here(url, monkeypatch):
    """Jobs of this process."""
    CALLS.clear()
    monkeypatch.setattr(_task_queue, "_queue", None)
    tasks.connect(url)


@tasks.task(name="postgres.record", keep_result=60)
def record(*args, **kwargs):
    CALLS.append((args, kwargs))
    return len(CALLS)


@tasks.task(name="postgres.arecord", keep_result=60)
async def arecord(value):
    return value, tasks.current().attempt


@tasks.task(name="postgres.flaky", retries=2, backoff=0.001, keep_result=60)
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


def test_the_next_job_is_found_without_sorting_the_queue(here, postgres):
    psycopg = pytest.importorskip("psycopg")
    record.enqueue()
    names = ["postgres.record", "postgres.arecord", "postgres.flaky"]
    with psycopg.connect(postgres.address, client_encoding="utf8") as connection:
        # A short table is read as a whole, or sorted, otherwise.
        for step in ("seqscan", "bitmapscan", "sort"):
            connection.execute(f"SET enable_{step} = off")
        for statement, values in (
                (_postgres_tasks._TAKE, ("process", 1000, "app", names)),
                (_postgres_tasks._NEXT, ("app", names, "app"))):
            steps = connection.execute(f"EXPLAIN {statement}", values).fetchall()
            plan = "\n".join(step for step, in steps)
            assert "jobs_due" in plan and "Sort" not in plan, plan


def test_what_postgresql_would_not_store_is_an_error(here):
    with pytest.raises(ValueError, match="at most 1048576 bytes"):
        record.enqueue(b"x" * (1 << 20))
    with pytest.raises(ValueError, match="at most 30 days"):
        record.options(delay=31 * 86400).enqueue()
    with pytest.raises(ValueError, match="at most 100 retries"):
        record.options(retries=101).enqueue()
    with pytest.raises(ValueError, match="a key has 1 to 1024 bytes"):
        record.options(key="k" * 1025).enqueue()


def test_a_full_queue_rejects_jobs(here, monkeypatch):
    monkeypatch.setattr(_postgres_tasks, "JOBS_MAX", 3)
    for _ in range(3):
        record.enqueue()
    with pytest.raises(tasks.QueueFull, match="too many jobs are waiting"):
        record.enqueue()
    queue = _task_queue.queue()
    assert queue.call(queue.command("STATS"))[0] == [3, 0, 0, 0, 0, 0, 0, 0, 1]


def test_threads_of_many_processes_take_each_job_once(here, url):
    queues = [_postgres_tasks.PostgresQueue(url, "main") for _ in range(4)]
    ids = [record.enqueue().id for _ in range(200)]
    taken = []

    def take(queue):
        while isinstance(found := queue.call(queue.take(tasks._tasks))[0], list):
            taken.append(found[0])
            assert queue.call(queue.command("DONE", found[0])) == [1]

    threads = [threading.Thread(target=take, args=(queue,)) for queue in queues]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == ids


def test_a_server_that_cannot_be_reached_is_named_without_its_password(monkeypatch, tmp_path):
    monkeypatch.setattr(_task_queue, "_queue", None)
    tasks.connect(f"postgresql://ann:hunter2@/x?host={tmp_path}")
    with pytest.raises(StoreError, match="PostgreSQL: connection .* failed") as raised:
        record.enqueue()
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("query, said", [
    ("visibility=0", "a visibility from 1 to 86400 seconds"), ("prefix=", "a prefix of 1 to 128")])
def test_a_url_that_is_none_ends_the_command(start_server, query, said):
    server = start_server(
        "tasks_app:app", task_store=f"postgresql://u:hunter2@h/x?{query}", ready=False)
    assert server.wait() == 1
    assert said in server.log() and "hunter2" not in server.log()


@pytest.mark.parametrize("password", ["s3%zzcret", "s3@cret"])
def test_a_password_with_reserved_characters_is_not_in_the_error(password):
    with pytest.raises(ValueError, match="%XX") as error:
        _postgres_tasks.PostgresQueue(f"postgresql://shop:{password}@localhost/shop", "app")
    assert "cret" not in str(error.value)


def test_the_printed_settings_have_no_password(start_server):
    url = "postgresql://u:hunter2@h/x?password=hunter2"
    server = start_server("tasks_app:app", task_store=url, print_config=True, ready=False)
    assert server.wait() == 0
    assert "postgresql://h/x" in server.log() and "hunter2" not in server.log()


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
    # A result is stored in PostgreSQL, and announced there.
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


def test_a_running_job_is_cancelled_from_another_server(start_server, url):
    web = start_server("tasks_app:app", task_store=url, task_threads=0)
    runner = start_server("tasks_app:app", task_store=url)
    for name in ("waits", "awaits"):
        job = enqueue(web, name)
        runner.note(name)
        assert ask(web, "state", name, job) == "running"
        assert ask(web, "cancel", name, job) is True
        assert ask(web, "result", name, job) == "failed: it was cancelled"


def test_a_job_that_is_not_reported_is_given_to_another_process(here, url):
    other = _postgres_tasks.PostgresQueue(url, "main")
    job = flaky.enqueue()
    queue = _task_queue.queue()
    take, = queue.call(queue.take(tasks._tasks))
    assert take[:2] == [job.id, b"postgres.flaky"] and job.state() == "running"
    assert other.call(other.command("DONE", job.id)) == [0]
    # As if the time had passed.
    with other._connect() as connection:
        connection.execute("UPDATE tidegate.jobs SET given_up = now() WHERE id = %s", (job.id,))
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


def test_a_cron_expression_is_due(here, monkeypatch):
    queue = _task_queue.queue()
    # Not so often that it may become due within the test.
    yearly = tasks.periodic(cron="0 0 1 1 *", name="postgres.yearly")(
        lambda: CALLS.append("ran"))
    monkeypatch.setattr(tasks, "_tasks", {yearly.name: yearly})
    queue.call(queue.schedule(yearly))
    assert 0 < queue.call(queue.take(tasks._tasks))[0] <= 60_000
    with queue._connect() as connection:
        connection.execute("UPDATE tidegate.schedules SET due = now() WHERE app = %s",
                           (queue._app,))
    assert tasks.run_waiting() == 1 and CALLS == ["ran"]
    with queue._connect() as connection:
        due, period = connection.execute(
            "SELECT due > now(), period FROM tidegate.schedules WHERE app = %s",
            (queue._app,)).fetchone()
    assert due and period == "cron 0 0 1 1 *"


def test_a_periodic_task_runs_in_one_server_at_a_time(start_server, url):
    environment = {"TASKS_FLAG": "periodic", "TIDEGATE_TASK_STORE": url}
    began = time.time()
    servers = [start_server("tasks_app:app", environment=environment) for _ in range(2)]
    runs, deadline = 0, time.monotonic() + 60
    while runs < 3 and time.monotonic() < deadline:
        runs += sum(len(server.notes("tick")) for server in servers)
    for server in servers:
        server.stop()
    runs += sum(len(server.notes("tick")) for server in servers)
    assert runs >= 3
    # Each run moves the schedule by a period at least.
    assert runs <= (time.time() - began) / 0.2


def test_postgresql_is_started_again(start_server, tmp_path_factory):
    with PostgresServer(tmp_path_factory.mktemp("again")) as postgres:
        server = start_server("tasks_app:app", task_store=f"{postgres.url}&visibility=3")
        assert ask(server, "result", "add", enqueue(server, "add", 1, 1)) == 2
        delayed = enqueue(server, "later")
        postgres.kill()
        server.line("jobs cannot be taken from the store, trying again")
        postgres.start()
        server.line("jobs are taken from the store again")
        assert ask(server, "result", "add", enqueue(server, "add", 2, 3)) == 5
        assert ask(server, "state", "later", delayed) == "waiting"


def test_greenlets_take_jobs(start_server, url):
    server = start_server("tasks_app:wsgi", "wsgi", task_store=url, threads="gevent")
    assert ask(server, "result", "add", enqueue(server, "add", 2, 3)) == 5


def test_workers_that_are_forked_have_connections_of_their_own(start_server, url):
    server = start_server("tasks_app:app", task_store=url, preload=True, workers=2)
    assert ask(server, "result", "add", enqueue(server, "add", 2, 3)) == 5


def test_the_metrics_have_the_numbers_of_postgresql(start_server, url, tmp_path):
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
