"""Where background jobs are: in the store of the application, in Redis, or in PostgreSQL.

A queue makes the commands of one step of a job and sends them. All kinds of queue have the same
steps; Redis and PostgreSQL need a report of each process that it still works, because a job there
belongs to a process for a time, and not to a connection.
"""

import hashlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate import _store, _tidegate
from tidegate._tidegate import StoreError

if TYPE_CHECKING:
    from tidegate.tasks import Task

#: Times of a cron expression that Redis is told: its clock may differ from that of this process.
_UPCOMING = 4


class QueueFull(StoreError):
    """Too many jobs are waiting: this one was not queued."""


class StoreQueue:
    """Jobs in the store of the application, which ends with the server."""

    #: How often a process reports that its jobs run; None without that.
    beat: float | None = None
    #: The channel of changes and of cancellations.
    wake = "tidegate:tasks"

    def __init__(self) -> None:
        self.connection = _store.shared

    def command(self, word: str, *arguments: object) -> tuple:
        """The command of one step."""
        return ("TASK", word, *arguments)

    def take(self, tasks: dict[str, "Task"]) -> tuple:
        """The command that takes the next job of these tasks."""
        return self.command("TAKE", *tasks)

    def schedule(self, task: "Task") -> tuple:
        """The command that registers a periodic task."""
        if task.cron is not None:
            return self.command("CRON", task.name, task.cron)
        return self.command("EVERY", task.name, task.every_ms)

    def result_key(self, id: int) -> str:
        """The key of a result, and the channel of its announcement."""
        return f"tidegate:task:{id}"

    def call(self, *commands: tuple) -> list:
        try:
            return self.connection.call(*commands)
        except ValueError as error:
            raise _refused(error) from None

    async def acall(self, *commands: tuple) -> list:
        try:
            return await self.connection.acall(*commands)
        except ValueError as error:
            raise _refused(error) from None


class SharedQueue(StoreQueue):
    """Jobs that outlive the server, and which several servers share: those of one application."""

    def __init__(self, app: str, visibility: int) -> None:
        self._app = app
        self._visibility_ms = visibility * 1000
        self._token = os.urandom(16).hex()
        self.beat = min(visibility / 3, 5.0)
        self.wake = f"{app}:wake"

    def result_key(self, id: int) -> str:
        return f"{self._app}:result:{id}"

    def _process(self) -> str:
        # A forked process is another one.
        return f"{self._token}.{os.getpid()}"

    def _period(self, task: "Task") -> str:
        return f"cron {task.cron}" if task.cron is not None else f"every {task.every_ms}"


class RedisQueue(SharedQueue):
    """Jobs in Redis."""

    def __init__(self, url: str, app: str) -> None:
        prefix, visibility = _tidegate.redis_options(url)
        # In a cluster, keys with the same text in braces are on the same server.
        super().__init__(f"{{{prefix or f'tidegate:{app}'}}}", visibility)
        self.connection = _store.Connection(redis=url)
        self._script = Path(__file__).with_name("_redis_tasks.lua").read_text(encoding="utf-8")
        self._digest = hashlib.sha1(self._script.encode(), usedforsecurity=False).hexdigest()

    def command(self, word: str, *arguments: object) -> tuple:
        return ("EVALSHA", self._digest, 1, self._app, self._process(), self._visibility_ms, word,
                *arguments)

    def take(self, tasks: dict[str, "Task"]) -> tuple:
        periodic = [task for task in tasks.values() if task.is_periodic]
        described = [word for task in periodic for word in self._described(task)]
        return self.command("TAKE", len(periodic), *described, *tasks)

    def schedule(self, task: "Task") -> tuple:
        return self.command("EVERY", *self._described(task))

    def _described(self, task: "Task") -> tuple[str, str, str]:
        upcoming = []
        if task.cron is not None:
            upcoming = _tidegate.cron_times(task.cron, int(time.time()), _UPCOMING)
        return (task.name, self._period(task), " ".join(f"{at}000" for at in upcoming))

    def call(self, *commands: tuple) -> list:
        try:
            return super().call(*commands)
        except _NoScript:
            # Redis forgets scripts when it is started again.
            return super().call(*self._in_full(commands))

    async def acall(self, *commands: tuple) -> list:
        try:
            return await super().acall(*commands)
        except _NoScript:
            return await super().acall(*self._in_full(commands))

    def _in_full(self, commands: tuple) -> list[tuple]:
        return [("EVAL", self._script, *command[2:]) if command[0] == "EVALSHA" else command
                for command in commands]


class _NoScript(StoreError):
    """Redis does not know the script."""


def _refused(error: ValueError) -> Exception:
    """An error reply as an exception. One that begins with a code is about the state of the store,
    any other about the call."""
    text = str(error)
    code, _, rest = text.partition(" ")
    if code == "FULL":
        return QueueFull(rest)
    if code == "NOSCRIPT":
        return _NoScript(text)
    return StoreError(f"Redis: {text}") if code.isupper() and len(code) > 2 else error


_queue: StoreQueue | None = None


def use(url: str, app: str) -> None:
    """Lets this process keep its jobs in Redis or PostgreSQL. Raises ``ValueError``; connects
    later."""
    global _queue
    if url.startswith(("postgres://", "postgresql://")):
        from tidegate import _postgres_tasks

        _queue = _postgres_tasks.PostgresQueue(url, app)
    else:
        _queue = RedisQueue(url, app)


def queue() -> StoreQueue:
    """The queue of this process."""
    global _queue
    if _queue is None:
        _queue = StoreQueue()
    return _queue
