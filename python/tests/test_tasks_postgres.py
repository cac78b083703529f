"""tidegate.tasks stored in PostgreSQL: jobs outlive servers, and several servers share them."""

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

from stored_tasks import CALLS, StoredTasks, record
from tidegate import _postgres_tasks, _task_queue, tasks
from tidegate.broadcast import StoreError


@tasks.task(name="stored.unready", retries=1, backoff=3600)
def unready():
    raise LookupError("not yet")


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
def lapse():
    def give_up(queue, job):
        with queue._connect() as connection:
            connection.execute(
                "UPDATE tidegate.jobs SET given_up = now() WHERE id = %s", (job.id,))

    return give_up


@pytest.fixture
def again(tmp_path_factory):
    with PostgresServer(tmp_path_factory.mktemp("again")) as server:
        server.url += "&visibility=3"
        yield server


class TestPostgres(StoredTasks):
    def test_the_next_job_is_found_without_sorting_the_queue(self, here, postgres):
        psycopg = pytest.importorskip("psycopg")
        record.enqueue()
        names = ["stored.record", "stored.arecord", "stored.flaky"]
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

    def test_a_job_that_has_begun_does_not_expire(self, here, postgres):
        psycopg = pytest.importorskip("psycopg")
        job = unready.options(expires=60).enqueue()
        assert tasks.run_waiting() == 1
        with psycopg.connect(postgres.address) as connection:
            connection.execute("UPDATE tidegate.jobs SET expires = expires - interval '1 hour' "
                               "WHERE id = %s", (job.id,))
        assert job.state() == "waiting"

    def test_a_full_queue_rejects_jobs(self, here, monkeypatch):
        monkeypatch.setattr(_postgres_tasks, "JOBS_MAX", 3)
        for _ in range(3):
            record.enqueue()
        with pytest.raises(tasks.QueueFull, match="too many jobs are waiting"):
            record.enqueue()
        queue = _task_queue.queue()
        assert queue.call(queue.command("STATS"))[0] == [3, 0, 0, 0, 0, 0, 0, 0, 1]

    def test_threads_of_many_processes_take_each_job_once(self, here, url):
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

    def test_a_server_that_cannot_be_reached_is_named_without_its_password(
            self, monkeypatch, tmp_path):
        monkeypatch.setattr(_task_queue, "_queue", None)
        tasks.connect(f"postgresql://ann:hunter2@/x?host={tmp_path}")
        with pytest.raises(StoreError, match="PostgreSQL: connection .* failed") as raised:
            record.enqueue()
        assert "hunter2" not in str(raised.value)

    @pytest.mark.parametrize("query, said", [
        ("visibility=0", "a visibility from 1 to 86400 seconds"),
        ("prefix=", "a prefix of 1 to 128")])
    def test_a_url_that_is_none_ends_the_command(self, start_server, query, said):
        server = start_server(
            "tasks_app:app", task_store=f"postgresql://u:hunter2@h/x?{query}", ready=False)
        assert server.wait() == 1
        assert said in server.log() and "hunter2" not in server.log()

    @pytest.mark.parametrize("password", ["s3%zzcret", "s3@cret"])
    def test_a_password_with_reserved_characters_is_not_in_the_error(self, password):
        with pytest.raises(ValueError, match="%XX") as error:
            _postgres_tasks.PostgresQueue(f"postgresql://shop:{password}@localhost/shop", "app")
        assert "cret" not in str(error.value)

    def test_the_printed_settings_have_no_password(self, start_server):
        url = "postgresql://u:hunter2@h/x?password=hunter2"
        server = start_server("tasks_app:app", task_store=url, print_config=True, ready=False)
        assert server.wait() == 0
        assert "postgresql://h/x" in server.log() and "hunter2" not in server.log()

    def test_a_cron_expression_is_due(self, here, monkeypatch):
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

    def test_a_periodic_task_runs_in_one_server_at_a_time(self, start_server, url):
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
