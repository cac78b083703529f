"""What tidegate.tasks promises of a store outside of the server, for the tests of each of them."""

import asyncio
import json
import signal
import socket
import time
from urllib.parse import quote

import pytest

from tidegate import _task_queue, tasks

CALLS = []


@tasks.task(name="stored.record", keep_result=60)
def record(*args, **kwargs):
    CALLS.append((args, kwargs))
    return len(CALLS)


@tasks.task(name="stored.arecord", keep_result=60)
async def arecord(value):
    return value, tasks.current().attempt


@tasks.task(name="stored.flaky", retries=2, backoff=0.001, keep_result=60)
def flaky():
    if tasks.current().attempt < 3:
        raise LookupError("nothing there")
    return tasks.current().attempt


def enqueue(server, name, *arguments):
    return json.loads(server.get(f"/enqueue/{name}?{quote(json.dumps(arguments))}").body)


def ask(server, action, name, id):
    return json.loads(server.get(f"/{action}/{name}-{id}").body)


class StoredTasks:
    """The tests of one store. Its module has the fixtures ``url``, a queue of its own for each
    test; ``lapse``, a function that ends the visibility of a running job, as time does; and
    ``again``, a server that is killed and started with what it has stored.
    """

    @pytest.fixture
    def here(self, url, monkeypatch):
        """Jobs of this process."""
        CALLS.clear()
        monkeypatch.setattr(_task_queue, "_queue", None)
        tasks.connect(url)

    def test_a_job_runs_with_its_arguments_and_stores_its_result(self, here):
        job = record.enqueue(1, b"x", named=["y"])
        assert job.state() == "waiting"
        assert tasks.run_waiting() == 1
        assert CALLS == [((1, b"x"), {"named": ["y"]})]
        assert (job.state(), job.result(timeout=60)) == ("ended", 1)

    def test_coroutines_are_awaited_and_can_enqueue(self, here):
        async def enqueue():
            job = await arecord.aenqueue("v")
            assert await job.astate() == "waiting"
            assert await asyncio.to_thread(tasks.run_waiting) == 1
            return await job.aresult(timeout=60)

        assert asyncio.run(enqueue()) == ("v", 1)

    def test_failed_attempts_are_repeated(self, here):
        job = flaky.enqueue()
        deadline = time.monotonic() + 30
        while job.state() != "ended" and time.monotonic() < deadline:
            tasks.run_waiting()
        assert job.result(timeout=60) == 3

    def test_options_of_a_job(self, here):
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

    def test_a_waiting_job_is_cancelled(self, here):
        job = record.enqueue()
        assert job.cancel() and not job.cancel()
        assert tasks.run_waiting() == 0

    def test_what_a_store_would_not_store_is_an_error(self, here):
        with pytest.raises(ValueError, match="at most 1048576 bytes"):
            record.enqueue(b"x" * (1 << 20))
        with pytest.raises(ValueError, match="at most 30 days"):
            record.options(delay=31 * 86400).enqueue()
        with pytest.raises(ValueError, match="at most 100 retries"):
            record.options(retries=101).enqueue()
        with pytest.raises(ValueError, match="a key has 1 to 1024 bytes"):
            record.options(key="k" * 1025).enqueue()

    @pytest.mark.parametrize("target", ["app", "wsgi"])
    def test_jobs_run_in_the_workers_of_any_server(self, start_server, url, target):
        interface = "asgi" if target == "app" else "wsgi"
        web = start_server(f"tasks_app:{target}", interface, task_store=url, task_threads=0)
        enqueue(web, "say", "hello")
        runner = start_server(f"tasks_app:{target}", interface, task_store=url, workers=2)
        word, _, attempt, thread = runner.note("said")
        assert (word, attempt) == ("hello", 1) and thread.startswith("task-")
        # The store announces the result too.
        assert ask(web, "result", "add", enqueue(web, "add", 2, 3)) == 5
        assert ask(web, "result", "flaky", enqueue(web, "flaky")) == "third"

    def test_jobs_outlive_the_server(self, start_server, url):
        first = start_server("tasks_app:app", task_store=url, task_threads=0)
        job = enqueue(first, "add", 2, 3)
        first.stop()
        second = start_server("tasks_app:app", task_store=url)
        assert ask(second, "result", "add", job) == 5

    def test_a_job_that_does_not_end_in_time_continues_in_the_next_server(
            self, start_server, url, tmp_path):
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

    def test_a_job_whose_worker_is_killed_runs_again_after_the_visibility(
            self, start_server, url, tmp_path):
        server = start_server("tasks_app:app", task_store=url.replace("=60&", "=3&"), workers=2)
        path = tmp_path / "allowed"
        enqueue(server, "dies", str(path))
        assert server.note("dies") == 1
        path.write_text("")
        assert server.note("dies") == 2

    def test_a_running_job_is_cancelled_from_another_server(self, start_server, url):
        web = start_server("tasks_app:app", task_store=url, task_threads=0)
        runner = start_server("tasks_app:app", task_store=url)
        for name in ("waits", "awaits"):
            job = enqueue(web, name)
            runner.note(name)
            assert ask(web, "state", name, job) == "running"
            assert ask(web, "cancel", name, job) is True
            assert ask(web, "result", name, job) == "failed: it was cancelled"

    def test_a_job_that_is_not_reported_is_given_to_another_process(self, here, url, lapse):
        queue = _task_queue.queue()
        other = type(queue)(url, "main")
        job = flaky.enqueue()
        take, = queue.call(queue.take(tasks._tasks))
        assert take[:2] == [job.id, b"stored.flaky"] and job.state() == "running"
        assert other.call(other.command("DONE", job.id)) == [0]
        lapse(other, job)
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

    def test_a_store_is_started_again(self, start_server, again):
        server = start_server("tasks_app:app", task_store=again.url)
        assert ask(server, "result", "add", enqueue(server, "add", 1, 1)) == 2
        delayed = enqueue(server, "later")
        again.kill()
        server.line("jobs cannot be taken from the store, trying again")
        again.start()
        server.line("jobs are taken from the store again")
        assert ask(server, "result", "add", enqueue(server, "add", 2, 3)) == 5
        assert ask(server, "state", "later", delayed) == "waiting"

    def test_greenlets_take_jobs(self, start_server, url):
        server = start_server("tasks_app:wsgi", "wsgi", task_store=url, threads="gevent")
        assert ask(server, "result", "add", enqueue(server, "add", 2, 3)) == 5

    def test_workers_that_are_forked_have_connections_of_their_own(self, start_server, url):
        server = start_server("tasks_app:app", task_store=url, preload=True, workers=2)
        assert ask(server, "result", "add", enqueue(server, "add", 2, 3)) == 5

    def test_the_metrics_have_the_numbers_of_the_store(self, start_server, url, tmp_path):
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
