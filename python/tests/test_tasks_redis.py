"""tidegate.tasks stored in Redis: jobs outlive servers, and several servers share them."""

import time
from urllib.parse import quote

import pytest

from hosting import IS_BEHIND_GATEWAY, KIND
from redis_server import PROGRAM, RedisServer

if KIND != "tidegate" or IS_BEHIND_GATEWAY:
    pytest.skip("only ours has background jobs", allow_module_level=True)
if PROGRAM is None:
    pytest.skip("redis-server is not installed", allow_module_level=True)

from stored_tasks import CALLS, StoredTasks, enqueue, record
from tidegate import _task_queue, tasks
from tidegate.broadcast import StoreError


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    with RedisServer(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
def url(redis, request):
    """A queue of its own for each test."""
    return f"{redis.url}?visibility=60&prefix={quote(request.node.name, safe='')}"


@pytest.fixture
def lapse():
    def give_up(queue, job):
        queue.connection.call(("ZADD", f"{queue._app}:running", 1, job.id))

    return give_up


@pytest.fixture
def again(tmp_path):
    with RedisServer(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


class TestRedis(StoredTasks):
    def test_a_full_queue_rejects_jobs(self, here):
        large = b"x" * ((1 << 20) - 1000)
        with pytest.raises(tasks.QueueFull, match="too many jobs are waiting"):
            for _ in range(100):
                record.enqueue(large)

    def test_a_script_that_redis_has_forgotten_is_sent_again(self, here):
        record.enqueue()
        _task_queue.queue().connection.call(("SCRIPT", "FLUSH"))
        record.enqueue()
        assert tasks.run_waiting() == 2

    def test_a_server_that_cannot_be_reached_is_named_without_its_password(
            self, monkeypatch, tmp_path):
        monkeypatch.setattr(_task_queue, "_queue", None)
        tasks.connect(f"unix://ann:hunter2@{tmp_path}/none.sock")
        with pytest.raises(StoreError, match="none.sock.* cannot be reached") as raised:
            record.enqueue()
        assert "hunter2" not in str(raised.value)
        with pytest.raises(ValueError, match="this URL does not name a Redis server"):
            tasks.connect("localhost:6379")

    def test_a_wrong_password_is_reported(self, monkeypatch, tmp_path):
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

    def test_a_running_job_is_reported_and_stays_with_its_process(
            self, start_server, url, tmp_path):
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

    def test_a_periodic_task_runs_in_one_server_at_a_time(self, start_server, url):
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
        periodic = ("HEXISTS", f"{queue._app}:periodic", "tasks_app.ticks")
        assert queue.connection.call(periodic) == [0]

    def test_a_cron_expression_is_one_for_redis_too(self, here, url, monkeypatch):
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

    def test_a_url_that_is_none_ends_the_command(self, start_server):
        server = start_server("tasks_app:app", task_store="redis://u:hunter2@h/x", ready=False)
        assert server.wait() == 2
        assert "--task-store: this URL needs the number of a database" in server.log()
        assert "hunter2" not in server.log()

    def test_the_printed_settings_have_no_password(self, start_server):
        url = "redis://u:hunter2@h/3"
        server = start_server("tasks_app:app", task_store=url, print_config=True, ready=False)
        assert server.wait() == 0
        assert "redis://h:6379/3" in server.log() and "hunter2" not in server.log()

    def test_cron_expressions_are_checked_where_they_are_written(self):
        tasks.periodic(cron="0 3 * * mon-fri", name="redis.cron")(lambda: None)
        with pytest.raises(ValueError, match="0 25 .*is not a cron expression: .25. is not "):
            tasks.periodic(cron="0 25 * * *", name="redis.wrong")(lambda: None)
        for options in ({}, {"every": 1, "cron": "@daily"}):
            with pytest.raises(ValueError, match="either every=SECONDS or cron=EXPRESSION"):
                tasks.periodic(**options)
