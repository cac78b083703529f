"""tidegate.tasks: background jobs in this process, and in the workers of a server."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time

import pytest

from admin import Admin
from hosting import KIND

if KIND != "tidegate":
    pytest.skip("only ours has background jobs", allow_module_level=True)

from tidegate import _store, tasks

CALLS = []


@pytest.fixture(autouse=True)
def empty():
    CALLS.clear()
    _store.call(("TASK", "CLEAR"))


@tasks.task(keep_result=60)
def record(*args, **kwargs):
    CALLS.append((args, kwargs))
    return len(CALLS)


@tasks.task(keep_result=60)
async def arecord(value):
    await asyncio.sleep(0)
    return value, tasks.current().attempt


@tasks.task(keep_result=60)
def fails():
    raise LookupError("nothing there")


def test_a_job_runs_with_its_arguments_and_stores_its_result():
    job = record.enqueue(1, b"x", named=["y"])
    assert (job.state(), CALLS) == ("waiting", [])
    assert tasks.run_waiting() == 1
    assert CALLS == [((1, b"x"), {"named": ["y"]})]
    assert (job.state(), job.result(timeout=60)) == ("ended", 1)
    assert tasks.current() is None


def test_a_call_runs_at_once():
    assert record(1) == 1 and tasks.run_waiting() == 0


def test_coroutines_are_awaited_and_can_enqueue():
    async def enqueue():
        job = await arecord.aenqueue("v")
        assert await job.astate() == "waiting"
        assert await asyncio.to_thread(tasks.run_waiting) == 1
        return await job.aresult(timeout=60)

    assert asyncio.run(enqueue()) == ("v", 1)


def test_what_a_job_raises_is_reported():
    job = fails.enqueue()
    assert tasks.run_waiting() == 1
    with pytest.raises(tasks.JobFailed, match="LookupError: nothing there"):
        job.result(timeout=60)


@tasks.task(keep_result=60)
async def ends(error):
    raise error


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_a_coroutine_that_would_end_its_event_loop_fails_alone(error):
    job = ends.enqueue(error)
    assert tasks.run_waiting() == 1
    with pytest.raises(tasks.JobFailed, match=type(error).__name__):
        job.result(timeout=60)


def test_a_job_runs_where_django_is_imported_without_settings():
    pytest.importorskip("django")
    program = """
import django.db
from tidegate import tasks
job = tasks.task(lambda number: 2 * number, name="doubles", keep_result=60).enqueue(2)
assert tasks.run_waiting() == 1
print(job.result())
"""
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True,
                          check=False)
    assert done.stdout == "4\n", done.stderr


def test_options_of_a_job():
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


def test_a_waiting_job_is_cancelled():
    job = record.enqueue()
    assert job.cancel() and not job.cancel()
    assert tasks.run_waiting() == 0


def test_a_result_is_awaited_for_a_time():
    job = record.enqueue()
    with pytest.raises(TimeoutError):
        job.result(timeout=0.01)
    with pytest.raises(TimeoutError):
        asyncio.run(job.aresult(timeout=0.01))


def test_a_job_that_ends_without_a_result_is_not_awaited_for_ever():
    job = record.enqueue()
    job.cancel()
    with pytest.raises(tasks.JobFailed, match="without a result"):
        job.result()
    with pytest.raises(tasks.JobFailed, match="without a result"):
        asyncio.run(job.aresult())


def test_what_cannot_work_is_an_error():
    with pytest.raises(ValueError, match="two tasks"):
        tasks.task(name=record.name)(lambda: None)
    for options in ({"retries": -1}, {"timeout": 0}, {"backoff": float("inf")}):
        with pytest.raises(ValueError):
            tasks.task(lambda: None, name="wrong", **options)
    # There is no attempt after a failed one: the next run is that of the next period.
    with pytest.raises(TypeError, match="retries"):
        tasks.periodic(every=60, retries=1)
    with pytest.raises(ValueError, match="stores no results"):
        tasks.task(lambda: None, name="without a result").enqueue().result()
    with pytest.raises(ValueError, match="at most 1048576 bytes"):
        record.enqueue(b"x" * (1 << 20))
    with pytest.raises(Exception, match="pickle|local object"):
        record.enqueue(lambda: None)


def test_a_full_queue_rejects_jobs():
    large = b"x" * ((1 << 20) - 1000)
    with pytest.raises(tasks.QueueFull):
        for _ in range(100):
            record.enqueue(large)
    _store.call(("TASK", "CLEAR"))
    record.enqueue()


@pytest.fixture(params=["asgi", "wsgi"])
def running(request, start_server):
    target = "app" if request.param == "asgi" else "wsgi"
    return start_server(f"tasks_app:{target}", request.param, workers=2, threads=8)


def enqueue(server, name, *arguments):
    from urllib.parse import quote

    return json.loads(server.get(f"/enqueue/{name}?{quote(json.dumps(arguments))}").body)


def ask(server, action, name, id):
    return json.loads(server.get(f"/{action}/{name}-{id}").body)


def test_threads_that_call_first_at_the_same_time_share_a_connection():
    """A job belongs to the connection over which it was taken."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(50):
            connection, together, stores = _store.Connection(), threading.Barrier(8), []

            def call(connection=connection, together=together, stores=stores):
                together.wait(60)
                stores.append(connection.store())

            threads = [threading.Thread(target=call) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(stores) == 8 and len(set(map(id, stores))) == 1
    finally:
        sys.setswitchinterval(interval)


def test_jobs_run_in_the_workers(running):
    enqueue(running, "say", "hello")
    word, _, attempt, thread = running.note("said")
    assert (word, attempt) == ("hello", 1) and thread.startswith("task-")
    assert ask(running, "result", "add", enqueue(running, "add", 2, 3)) == 5
    failed = ask(running, "result", "fails", enqueue(running, "fails"))
    assert failed == "failed: LookupError: nothing there"
    running.line(r"ERROR the job \d+ of tasks_app.fails failed: LookupError: nothing there")


def test_failed_attempts_are_repeated(running):
    assert ask(running, "result", "flaky", enqueue(running, "flaky")) == "third"
    assert [running.note("attempt") for _ in range(3)] == [1, 2, 3]
    running.line(r"WARN attempt 1 of the job \d+ of tasks_app.flaky failed, the next one is in")


@pytest.mark.parametrize("name", ["loops", "sleeps"])
def test_a_job_that_runs_for_too_long_is_ended(running, name):
    failed = ask(running, "result", name, enqueue(running, name))
    assert failed == "failed: it ran for longer than its timeout"
    assert ask(running, "result", "add", enqueue(running, "add", 1, 1)) == 2


def test_a_coroutine_that_exits_ends_neither_its_worker_nor_other_jobs(running):
    before = running.workers()
    for _ in range(5):
        failed = ask(running, "result", "exits", enqueue(running, "exits"))
        assert failed == "failed: SystemExit: 3"
    assert str(ask(running, "result", "process", enqueue(running, "process"))) in before
    assert running.workers() == before


@pytest.mark.parametrize("name", ["waits", "awaits"])
def test_a_running_job_is_cancelled(running, name):
    job = enqueue(running, name)
    running.note(name)
    assert ask(running, "state", name, job) == "running"
    assert ask(running, "cancel", name, job) is True
    assert ask(running, "result", name, job) == "failed: it was cancelled"
    assert ask(running, "cancel", name, job) is False


def test_a_job_whose_worker_ends_runs_again_in_another(running, tmp_path):
    path = tmp_path / "allowed"
    enqueue(running, "dies", str(path))
    assert running.note("dies") == 1
    path.write_text("")
    assert running.note("dies") == 2


def test_jobs_survive_a_reload(running, tmp_path):
    path = tmp_path / "allowed"
    enqueue(running, "until_allowed", str(path))
    process, attempt = running.note("began")
    running.signal(signal.SIGHUP)
    # The old worker ends its job before it leaves.
    running.line(r"a worker process is ready", 4)
    path.write_text("")
    assert running.note("ended") == [process, attempt]


def test_a_job_that_does_not_end_in_time_is_put_back(start_server, tmp_path):
    server = start_server("tasks_app:app", graceful_timeout=1)
    path = tmp_path / "allowed"
    enqueue(server, "until_allowed", str(path))
    process, _ = server.note("began")
    server.signal(signal.SIGHUP)
    server.line(r"did not end in time and is put back into the queue")
    other, attempt = server.note("began")
    assert other != process and attempt == 1
    path.write_text("")
    server.note("ended")


def test_a_periodic_task_runs_in_one_worker_at_a_time(start_server):
    begin = time.monotonic()
    server = start_server("tasks_app:app", workers=2, environment={"TASKS_FLAG": "periodic"})
    for _ in range(5):
        server.note("tick")
    # The first one is a period after the start, so five take five periods at least.
    assert time.monotonic() - begin >= 1.0


def test_without_threads_nothing_is_run(start_server):
    server = start_server("tasks_app:app", task_threads=0)
    job = enqueue(server, "say", "hello")
    assert ask(server, "state", "say", job) == "waiting"


def test_the_metrics_and_the_admin_api_count_jobs(start_server, tmp_path):
    server = start_server(
        "tasks_app:wsgi", "wsgi", environment={"XDG_RUNTIME_DIR": str(tmp_path)})
    assert ask(server, "result", "add", enqueue(server, "add", 1, 1)) == 2
    admin = Admin(server, tmp_path)
    deadline = time.monotonic() + 30
    wanted = 'tidegate_store_tasks_total{app="main",result="done"} 1'
    while wanted not in admin.get("/metrics"):
        assert time.monotonic() < deadline
    jobs = admin.app()["tasks"]
    assert jobs == {"waiting": 0, "running": 0, "done": 1, "failed": 0, "retried": 0}


@pytest.mark.parametrize(("target", "interface", "options"), [
    ("app", "asgi", {}), ("wsgi", "wsgi", {}), ("wsgi", "wsgi", {"threads": "gevent"}),
], ids=["asgi", "threads", "gevent"])
def test_what_jobs_raise_is_among_the_last_errors(
    start_server, tmp_path, target, interface, options,
):
    if options:
        pytest.importorskip("gevent")
    server = start_server(f"tasks_app:{target}", interface,
                          environment={"XDG_RUNTIME_DIR": str(tmp_path)}, **options)
    admin = Admin(server, tmp_path)
    assert ask(server, "result", "flaky", enqueue(server, "flaky")) == "third"
    assert ask(server, "result", "sleeps", enqueue(server, "sleeps")).startswith("failed: it ran")
    for _ in range(2):
        assert ask(server, "result", "fails", enqueue(server, "fails")).startswith("failed: Look")
    error = admin.wait_for("LookupError: nothing there", times=2)
    assert (error["request"], error["trace_id"]) == ("JOB tasks_app.fails", None)
    assert 'raise LookupError("nothing there")' in error["traceback"]
    # Those of attempts that were repeated too; a job that ran for too long has raised nothing.
    messages = {one["message"] for one in admin.errors()}
    attempts = {f"ValueError: attempt {number}" for number in (1, 2)}
    assert messages == {"LookupError: nothing there", *attempts}
