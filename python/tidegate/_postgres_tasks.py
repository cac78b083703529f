"""Background jobs in PostgreSQL: they outlive the server, and several servers share them.

The steps of a job are those of ``_redis_tasks.lua``, each in one transaction, with the clock of the
database. Announcements are notifications of PostgreSQL, which one thread of the process passes on
to its subscribers. The tables are in the schema ``tidegate``; applications share them.
"""

import asyncio
import hashlib
import os
import threading
import time
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote

from tidegate import _store, _task_queue, _tidegate
from tidegate._tidegate import StoreError

if TYPE_CHECKING:
    from tidegate.tasks import Task

JOBS_MAX = 100_000
SCHEDULES_MAX = 512
PAYLOAD_BYTES = 1 << 20
NAME_BYTES, KEY_BYTES = 512, 1024
RETRIES_MAX = 100
TIME_MS, BACKOFF_MS = 30 * 86_400_000, 3_600_000
PERIOD_CHECK_MS, CHECK_MS = 1000, 60_000
VISIBILITY_S = range(1, 86_401)
#: Jobs of ended processes that one step gives up.
_LOST = 16
#: Seconds for a connection, for a statement, and between two attempts.
_CONNECT, _STATEMENT, _AGAIN = 5, 10, 1.0
#: Seconds between two polls for messages of other threads, in a process with greenlets.
_LOOK = 0.05

_TABLES = """\
CREATE SCHEMA IF NOT EXISTS tidegate;
CREATE TABLE IF NOT EXISTS tidegate.jobs (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  app text NOT NULL,
  name text NOT NULL,
  payload bytea NOT NULL,
  key text,
  due timestamptz NOT NULL,
  expires timestamptz,
  attempts integer NOT NULL DEFAULT 0,
  retries integer NOT NULL,
  backoff_ms bigint NOT NULL,
  process text,
  given_up timestamptz,
  cancelled boolean NOT NULL DEFAULT false,
  periodic boolean NOT NULL DEFAULT false);
CREATE UNIQUE INDEX IF NOT EXISTS jobs_key ON tidegate.jobs (app, key);
CREATE UNIQUE INDEX IF NOT EXISTS jobs_periodic ON tidegate.jobs (app, name) WHERE periodic;
CREATE INDEX IF NOT EXISTS jobs_due ON tidegate.jobs (app, due, id) WHERE process IS NULL;
CREATE INDEX IF NOT EXISTS jobs_running ON tidegate.jobs (app, given_up)
  WHERE process IS NOT NULL;
CREATE INDEX IF NOT EXISTS jobs_expiring ON tidegate.jobs (app, expires)
  WHERE process IS NULL AND expires IS NOT NULL;
CREATE TABLE IF NOT EXISTS tidegate.schedules (
  app text, name text, period text NOT NULL, due timestamptz NOT NULL, PRIMARY KEY (app, name));
CREATE TABLE IF NOT EXISTS tidegate.results (
  key text PRIMARY KEY, value bytea NOT NULL, expires timestamptz NOT NULL);
CREATE INDEX IF NOT EXISTS results_expiring ON tidegate.results (expires);
CREATE TABLE IF NOT EXISTS tidegate.counts (
  app text, what text, number bigint NOT NULL, PRIMARY KEY (app, what));
"""

_COUNTS = ("done", "failed", "retried", "lost", "expired", "cancelled", "rejected")
_NOW = "clock_timestamp()"
_IN_MS = "clock_timestamp() + %s * interval '1 millisecond'"
_UNTIL_MS = "greatest(0, ceil(extract(epoch FROM {} - clock_timestamp()) * 1000))::bigint"

# A worker takes the oldest due job of all its tasks: `jobs_due` is in that order, without the name,
# or PostgreSQL would sort all due jobs of those names for each job that is taken. A job that has
# begun does not expire, also while it waits for its next attempt.
_INSERT = f"""\
INSERT INTO tidegate.jobs (app, name, payload, key, due, expires, retries, backoff_ms, periodic)
VALUES (%s, %s, %s, %s, {_IN_MS}, {_IN_MS}, %s, %s, %s) ON CONFLICT DO NOTHING RETURNING id"""
_TAKE = f"""\
UPDATE tidegate.jobs
SET process = %s, given_up = {_IN_MS}, attempts = attempts + 1, expires = NULL
WHERE id = (SELECT id FROM tidegate.jobs
  WHERE app = %s AND name = ANY(%s) AND process IS NULL AND due <= {_NOW}
  ORDER BY due, id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING id, name, payload, attempts"""
_NEXT = f"""\
SELECT min({_UNTIL_MS.format('due')}) FROM (
  (SELECT due FROM tidegate.jobs WHERE app = %s AND name = ANY(%s) AND process IS NULL
    ORDER BY due LIMIT 1)
  UNION ALL
  (SELECT given_up FROM tidegate.jobs WHERE app = %s AND process IS NOT NULL
    ORDER BY given_up LIMIT 1)) AS times (due)"""


def options(url: str) -> tuple[str, str | None, int]:
    """The URL for the driver, the prefix and the visibility in seconds of a URL of PostgreSQL."""
    server, _, query = url.partition("?")
    prefix, visibility, others = None, 60, []
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name == "prefix":
            if not 1 <= len(value.encode()) <= 128 or not value.isprintable():
                raise ValueError("this URL needs a prefix of 1 to 128 bytes")
            prefix = value
        elif name == "visibility":
            if not value.isdecimal() or int(value) not in VISIBILITY_S:
                raise ValueError("this URL needs a visibility from 1 to 86400 seconds")
            visibility = int(value)
        else:
            others.append(f"{quote(name)}={quote(value, safe='')}")
    return "?".join([server, *(["&".join(others)] if others else [])]), prefix, visibility


class _Notifications(_store.Connection):
    """Passes notifications of other processes to the subscribers of this one."""

    def __init__(self, connect, channel: str, wake: str) -> None:
        self._connect, self._channel, self._wake = connect, channel, wake
        super().__init__()

    def reset(self) -> None:
        # A forked process has no thread that listens.
        super().reset()
        self._listens: threading.Event | None = None

    def subscribe(self, channels: list[str]):
        self._listen()
        return super().subscribe(channels)

    def calls(self, loop):
        # On the event loop, which waits for nothing.
        self._listen(0)
        return super().calls(loop)

    def next_message(self, subscription, timeout: float | None = None):
        if _store.switching is None:
            return super().next_message(subscription, timeout)
        end = None if timeout is None else time.monotonic() + timeout
        while (message := subscription.take()) is None and not subscription.is_closed:
            if end is not None and time.monotonic() >= end:
                break
            time.sleep(_LOOK)
        return message

    def _listen(self, seconds: float = _CONNECT) -> None:
        with self._opening:
            if self._listens is None:
                self._listens = threading.Event()
                threading.Thread(target=self._run, args=(self._listens,), daemon=True,
                                 name="task-notifications").start()
        self._listens.wait(seconds)

    def _run(self, listens: threading.Event) -> None:
        import psycopg

        while listens is self._listens:
            try:
                with self._connect() as connection:
                    connection.execute(f'LISTEN "{self._channel}"')
                    listens.set()
                    # Announcements before LISTEN were missed: subscribers look again.
                    self.store().call((("PUBLISH", self._wake, b""),))
                    for notice in connection.notifies():
                        channel, _, message = notice.payload.partition("\n")
                        self.store().call((("PUBLISH", channel, message.encode()),))
            except (psycopg.Error, StoreError):
                # The next call reports it.
                time.sleep(_AGAIN)


class PostgresQueue(_task_queue.SharedQueue):
    """Jobs in PostgreSQL."""

    def __init__(self, url: str, app: str) -> None:
        try:
            import psycopg
        except ImportError:
            raise ValueError(
                "jobs in PostgreSQL need psycopg: pip install 'tidegate[postgres]'") from None
        self._psycopg = psycopg
        self._url, prefix, visibility = options(url)
        self._check_url()
        super().__init__(prefix or f"tidegate:{app}", visibility)
        digest = hashlib.sha256(self._app.encode()).hexdigest()[:24]
        self._channel = f"tidegate_{digest}"
        self._open: tuple[int, object] | None = None
        self._turn = threading.Lock()
        self.connection = _Notifications(self._connect, self._channel, self.wake)

    def _check_url(self) -> None:
        """Rejects a URL of which libpq would take a part of the password for something else.

        Its errors repeat that part.
        """
        try:
            host = self._psycopg.conninfo.conninfo_to_dict(self._url).get("host") or ""
        except self._psycopg.Error:
            host = "@"
        if "@" in host:
            raise ValueError("the URL of the task store cannot be read: write reserved "
                             "characters of the user and the password as %XX")

    def take(self, tasks: dict[str, "Task"]) -> tuple:
        return self.command("TAKE", tasks)

    def schedule(self, task: "Task") -> tuple:
        return self.command("EVERY", task)

    def call(self, *commands: tuple) -> list:
        with self._turn:
            try:
                return [self._execute(*command) for command in commands]
            except _task_queue.QueueFull:
                self._count(self._connected(), "rejected")
                raise
            except self._psycopg.OperationalError as error:
                self._close()
                raise StoreError(f"PostgreSQL: {_reason(error)}") from None
            except self._psycopg.Error as error:
                raise StoreError(f"PostgreSQL: {_reason(error)}") from None

    async def acall(self, *commands: tuple) -> list:
        return await asyncio.to_thread(self.call, *commands)

    # Connections.

    def _connect(self):
        connection = self._psycopg.connect(
            self._url, autocommit=True, connect_timeout=_CONNECT, client_encoding="utf8",
            application_name="tidegate",
            # A host that has vanished ends no statement.
            tcp_user_timeout=_STATEMENT * 1000, keepalives_idle=5, keepalives_interval=5,
            keepalives_count=2)
        connection.execute(f"SET statement_timeout = '{_STATEMENT}s'")
        return connection

    def _close(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _connected(self):
        # A forked process has the descriptor of another one's connection.
        if self._open is None or self._open[0] != os.getpid() or self._open[1].closed:
            connection = self._connect()
            if connection.execute("SELECT to_regclass('tidegate.counts')").fetchone()[0] is None:
                with connection.transaction():
                    connection.execute("SELECT pg_advisory_xact_lock(hashtext('tidegate'))")
                    connection.execute(_TABLES)
            self._open = (os.getpid(), connection)
        return self._open[1]

    def _execute(self, word: str, *arguments):
        connection = self._connected()
        with connection.transaction():
            step = getattr(self, f"_{word.lower()}")
            return step(connection, *arguments)

    def _task(self, connection, word: str, *arguments):
        if word in ("ADD", "FIND", "STATS", "TAKE"):
            self._clean(connection)
        return getattr(self, f"_task_{word.lower()}")(connection, *arguments)

    # Results and announcements.

    def _get(self, connection, key: str) -> bytes | None:
        found = connection.execute(
            f"SELECT value FROM tidegate.results WHERE key = %s AND expires > {_NOW}", (key,))
        return next((bytes(value) for value, in found), None)

    def _set(self, connection, key: str, value: bytes, _px: str, ms: int) -> None:
        connection.execute(
            f"INSERT INTO tidegate.results VALUES (%s, %s, {_IN_MS}) ON CONFLICT (key) DO UPDATE "
            "SET value = excluded.value, expires = excluded.expires", (key, value, ms))

    def _publish(self, connection, channel: str, message: bytes) -> None:
        connection.execute("SELECT pg_notify(%s, %s)",
                           (self._channel, f"{channel}\n{message.decode()}"))

    def _wake(self, connection, message: bytes = b"") -> None:
        self._publish(connection, self.wake, message)

    def _count(self, connection, what: str, number: int = 1) -> None:
        if number:
            connection.execute(
                "INSERT INTO tidegate.counts AS c VALUES (%s, %s, %s) "
                "ON CONFLICT (app, what) DO UPDATE SET number = c.number + excluded.number",
                (self._app, what, number))

    # Steps of a job.

    def _task_add(self, connection, name: str, payload: bytes, *words) -> int | None:
        given = dict(zip(words[::2], words[1::2], strict=True))
        _check(name, payload, given)
        full = connection.execute("SELECT 1 FROM tidegate.jobs WHERE app = %s OFFSET %s LIMIT 1",
                                  (self._app, JOBS_MAX - 1)).fetchone()
        if full is not None:
            raise _task_queue.QueueFull("too many jobs are waiting")
        added = connection.execute(_INSERT, (
            self._app, name, payload, given.get("KEY"), given.get("DELAY", 0),
            given.get("EXPIRES"), given.get("RETRIES", 0), given.get("BACKOFF", 0), False))
        id = next((id for id, in added), None)
        if id is not None:
            self._wake(connection)
        return id

    def _following(self, connection, task: "Task", due_ms: int) -> int:
        """The first time of a schedule after now, in milliseconds."""
        now_ms = connection.execute(
            f"SELECT (extract(epoch FROM {_NOW}) * 1000)::bigint").fetchone()[0]
        if task.every_ms is not None:
            due_ms = due_ms or now_ms
            return due_ms + max((now_ms - due_ms) // task.every_ms + 1, 1) * task.every_ms
        return _tidegate.cron_times(task.cron, now_ms // 1000, 1)[0] * 1000

    def _task_every(self, connection, task: "Task") -> int:
        stored = connection.execute(
            "SELECT period FROM tidegate.schedules WHERE app = %s AND name = %s",
            (self._app, task.name)).fetchone()
        if stored is not None and stored[0] == self._period(task):
            return 1
        number = connection.execute("SELECT count(*) FROM tidegate.schedules WHERE app = %s",
                                    (self._app,)).fetchone()[0]
        if stored is None and number >= SCHEDULES_MAX:
            raise ValueError("too many periodic tasks")
        connection.execute(
            "INSERT INTO tidegate.schedules VALUES (%s, %s, %s, to_timestamp(%s / 1000.0)) "
            "ON CONFLICT (app, name) DO UPDATE SET period = excluded.period, due = excluded.due",
            (self._app, task.name, self._period(task), self._following(connection, task, 0)))
        return 1

    def _begin_period(self, connection, task: "Task") -> int:
        """Begins the job of a periodic task if it is due; returns when to look at it again."""
        found = connection.execute(
            f"SELECT (extract(epoch FROM due) * 1000)::bigint, due <= {_NOW}, "
            f"{_UNTIL_MS.format('due')} FROM tidegate.schedules "
            "WHERE app = %s AND name = %s AND period = %s FOR UPDATE SKIP LOCKED",
            (self._app, task.name, self._period(task))).fetchone()
        if found is None:
            return CHECK_MS
        due_ms, is_due, left_ms = found
        if not is_due:
            return left_ms
        # A job of the same task that has not ended is a conflict.
        begun = connection.execute(_INSERT, (
            self._app, task.name, b"", None, 0, None, 0, 0, True)).fetchone()
        if begun is not None:
            connection.execute(
                "UPDATE tidegate.schedules SET due = to_timestamp(%s / 1000.0) "
                "WHERE app = %s AND name = %s",
                (self._following(connection, task, due_ms), self._app, task.name))
        return PERIOD_CHECK_MS

    def _task_take(self, connection, tasks: dict[str, "Task"]) -> list | int:
        periods = [self._begin_period(connection, task)
                   for task in tasks.values() if task.is_periodic]
        names = list(tasks)
        taken = connection.execute(
            _TAKE, (self._process(), self._visibility_ms, self._app, names)).fetchone()
        if taken is not None:
            id, name, payload, attempts = taken
            return [id, name.encode(), bytes(payload), attempts]
        left = connection.execute(_NEXT, (self._app, names, self._app)).fetchone()[0]
        return max(min(CHECK_MS, *periods, CHECK_MS if left is None else left), 1)

    def _clean(self, connection) -> None:
        """Gives up running jobs of processes that have not reported, and expired ones."""
        expired = connection.execute(
            "DELETE FROM tidegate.jobs WHERE app = %s AND process IS NULL "
            f"AND expires <= {_NOW}", (self._app,)).rowcount
        self._count(connection, "expired", expired)
        lost = connection.execute(
            "SELECT id FROM tidegate.jobs WHERE app = %s AND process IS NOT NULL "
            f"AND given_up <= {_NOW} LIMIT {_LOST} FOR UPDATE SKIP LOCKED", (self._app,))
        for id, in lost.fetchall():
            self._count(connection, "lost")
            self._failed(connection, id)

    def _mine(self, connection, id: int):
        """The row of a job that this process runs, locked: whether it was cancelled."""
        return connection.execute(
            "SELECT cancelled FROM tidegate.jobs WHERE id = %s AND process = %s FOR UPDATE",
            (id, self._process())).fetchone()

    def _remove(self, connection, id: int, what: str) -> None:
        connection.execute("DELETE FROM tidegate.jobs WHERE id = %s", (id,))
        self._count(connection, what)

    def _wait(self, connection, id: int, ms: int, attempts: int) -> None:
        connection.execute(
            f"UPDATE tidegate.jobs SET process = NULL, given_up = NULL, due = {_IN_MS}, "
            "attempts = attempts + %s WHERE id = %s", (ms, attempts, id))
        self._wake(connection)

    def _failed(self, connection, id: int) -> int:
        """The milliseconds until the next attempt; -1 without one, -2 for a cancelled job."""
        attempts, retries, backoff_ms, cancelled = connection.execute(
            "SELECT attempts, retries, backoff_ms, cancelled FROM tidegate.jobs WHERE id = %s",
            (id,)).fetchone()
        if cancelled or attempts > retries:
            self._remove(connection, id, "cancelled" if cancelled else "failed")
            return -2 if cancelled else -1
        pause = min(backoff_ms * 2 ** min(attempts - 1, 20), BACKOFF_MS)
        self._count(connection, "retried")
        self._wait(connection, id, pause, 0)
        return pause

    def _task_done(self, connection, id: int) -> int:
        if self._mine(connection, id) is None:
            return 0
        self._remove(connection, id, "done")
        return 1

    def _task_fail(self, connection, id: int) -> int | None:
        return None if self._mine(connection, id) is None else self._failed(connection, id)

    def _task_return(self, connection, id: int) -> int:
        mine = self._mine(connection, id)
        if mine is None:
            return 0
        if mine[0]:
            self._remove(connection, id, "cancelled")
        else:
            self._wait(connection, id, 0, -1)
        return 1

    def _task_renew(self, connection, *ids: int) -> list[int]:
        """Keeps running jobs; returns those that were cancelled."""
        connection.execute(f"DELETE FROM tidegate.results WHERE expires <= {_NOW}")
        kept = connection.execute(
            f"UPDATE tidegate.jobs SET given_up = {_IN_MS} WHERE id = ANY(%s) AND process = %s "
            "RETURNING id, cancelled", (self._visibility_ms, list(ids), self._process()))
        return [id for id, cancelled in kept if cancelled]

    def _task_cancel(self, connection, id: int) -> int:
        found = connection.execute(
            "SELECT process IS NOT NULL FROM tidegate.jobs WHERE id = %s AND app = %s FOR UPDATE",
            (id, self._app)).fetchone()
        if found is None:
            return 0
        if not found[0]:
            self._remove(connection, id, "cancelled")
            return 1
        connection.execute("UPDATE tidegate.jobs SET cancelled = true WHERE id = %s", (id,))
        self._wake(connection, str(id).encode())
        return 2

    def _task_find(self, connection, id: int) -> list | None:
        found = connection.execute(
            "SELECT process IS NOT NULL, attempts FROM tidegate.jobs WHERE id = %s AND app = %s",
            (id, self._app)).fetchone()
        return None if found is None else [b"running" if found[0] else b"waiting", found[1]]

    def _task_stats(self, connection) -> list[int]:
        numbers = connection.execute(
            "SELECT count(*) FILTER (WHERE process IS NULL), count(process) FROM tidegate.jobs "
            "WHERE app = %s", (self._app,)).fetchone()
        counts = dict(connection.execute(
            "SELECT what, number FROM tidegate.counts WHERE app = %s", (self._app,)).fetchall())
        return [*numbers, *(counts.get(what, 0) for what in _COUNTS)]


def _check(name: str, payload: bytes, given: dict) -> None:
    """Raises for what the other queues reject as well."""
    if not 1 <= len(name.encode()) <= NAME_BYTES:
        raise ValueError(f"the name of a task has 1 to {NAME_BYTES} bytes")
    if len(payload) > PAYLOAD_BYTES:
        raise ValueError(f"the arguments of a task have at most {PAYLOAD_BYTES} bytes")
    if max(given.get(word, 0) for word in ("DELAY", "EXPIRES", "BACKOFF")) > TIME_MS:
        raise ValueError("a time of a task is at most 30 days")
    if given.get("RETRIES", 0) > RETRIES_MAX:
        raise ValueError(f"a task has at most {RETRIES_MAX} retries")
    if "KEY" in given and not 1 <= len(given["KEY"].encode()) <= KEY_BYTES:
        raise ValueError(f"a key has 1 to {KEY_BYTES} bytes")


def _reason(error: Exception) -> str:
    """The first line of an error of the driver, which repeats no password."""
    return str(error).strip().split("\n")[0]
