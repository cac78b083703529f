"""Background jobs: work after a response, later, or in regular periods, in any worker process.

    from tidegate import tasks

    @tasks.task(retries=3)
    def send_mail(address, subject): ...

    job = send_mail.enqueue("ann@example.com", "Welcome")   # await send_mail.aenqueue(...)
    send_mail.options(delay=60).enqueue("ann@example.com", "How is it going?")

    @tasks.periodic(every=300)
    async def refresh(): ...

    @tasks.periodic(cron="0 3 * * mon-fri")
    def report(): ...

A job is stored by the server until it has run, also while workers are replaced, and runs in a
worker that has imported its task. It runs at least once: again, if its worker ended before it.
The queue is bounded; ``enqueue`` raises ``QueueFull`` instead of dropping a job. All jobs are lost
when the server itself ends, unless they are in Redis or PostgreSQL (``--task-store``).
"""

import asyncio
import contextvars
import inspect
import math
import pickle
import time
from collections.abc import Callable
from datetime import timedelta

from tidegate import _task_queue, _tidegate, broadcast
from tidegate._task_queue import QueueFull

__all__ = [
    "Job", "JobCancelled", "JobFailed", "JobTimeout", "QueueFull", "Task", "connect", "current",
    "periodic", "run_waiting", "task",
]

#: Tasks of this process, by name.
_tasks: dict[str, "Task"] = {}
_current: contextvars.ContextVar["Running | None"] = contextvars.ContextVar("job", default=None)
#: How often a wait for a result checks whether the job still exists, in seconds: the end of a job
#: that does not run is not announced.
_CHECK = 1.0


class JobFailed(Exception):
    """The last attempt of a job has failed; the text is what it raised."""


class JobTimeout(BaseException):
    """Raised in a task that runs for longer than its ``timeout``."""


class JobCancelled(BaseException):
    """Raised in a synchronous task whose job is cancelled."""


class Running:
    """The job that the calling task runs: its ``id``, and its ``attempt``, 1 for the first."""

    def __init__(self, id: int, attempt: int) -> None:
        self.id = id
        self.attempt = attempt


def current() -> Running | None:
    """The job of the running task; None outside of one."""
    return _current.get()


def task(function: Callable | None = None, **options) -> "Task | Callable[[Callable], Task]":
    """Decorates a function or a coroutine function that runs as a job.

    ``name``: the same in all versions of the code; by default module and name of the function.
    ``retries``: further attempts after one that raised or whose worker ended.
    ``backoff``: seconds before the first retry; doubles with each, up to an hour.
    ``timeout``: seconds after which an attempt fails.
    ``keep_result``: seconds for which ``Job.result`` finds the result; none is stored without it.
    """
    if function is not None:
        return Task(function, **options)
    return lambda function: Task(function, **options)


def connect(url: str, app: str = "main") -> None:
    """Lets a program that is not a worker queue jobs in Redis or PostgreSQL, such as a script.

    ``url`` is that of ``--task-store``. ``app`` is the name of the application in a configuration;
    ``tidegate run`` has none. A URL with a ``prefix`` needs no ``app``.
    """
    _task_queue.use(url, app)


def periodic(
    *,
    every: float | timedelta | None = None,
    cron: str | None = None,
    name: str | None = None,
    timeout: float | timedelta | None = None,
) -> Callable[[Callable], "Task"]:
    """Decorates a function that runs once in each period, in one of all workers.

    ``every``: the seconds between two runs; the first is one period after the start.
    ``cron``: the times of runs in UTC, as in ``cron="*/15 8-17 * * mon-fri"`` (minute, hour, day of
    the month, month, day of the week), or ``@hourly``, ``@daily`` and the like.

    It takes no arguments, does not begin before an earlier run has ended, and is not repeated if it
    fails: its next run is that of the next period. ``name`` and ``timeout`` are those of ``task``.
    """
    if (every is None) == (cron is None):
        raise ValueError("a periodic task has either every=SECONDS or cron=EXPRESSION")
    return lambda function: Task(function, every=every, cron=cron, name=name, timeout=timeout)


class Task:
    """A function that can run as a job; a call runs it at once, in the caller."""

    def __init__(
        self,
        function: Callable,
        *,
        name: str | None = None,
        retries: int = 0,
        backoff: float | timedelta = 1.0,
        timeout: float | timedelta | None = None,
        keep_result: float | timedelta | None = None,
        every: float | timedelta | None = None,
        cron: str | None = None,
    ) -> None:
        self.function = function
        self.name = name or f"{function.__module__}.{function.__qualname__}"
        self.timeout_ms = None if timeout is None else _milliseconds("timeout", timeout)
        self.result_ms = None if keep_result is None else _milliseconds("keep_result", keep_result)
        self.every_ms = None if every is None else _milliseconds("every", every)
        self.cron = cron
        if cron is not None:
            _tidegate.cron_times(cron, 0, 1)
        self.is_coroutine = inspect.iscoroutinefunction(function)
        self._options = (*_retries(retries), "BACKOFF", _milliseconds("backoff", backoff))
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__wrapped__ = function
        other = _tasks.get(self.name)
        if other is not None and other.function.__code__ != function.__code__:
            raise ValueError(f"there are two tasks {self.name!r}: give one of them another name")
        _tasks[self.name] = self

    @property
    def is_periodic(self) -> bool:
        return self.every_ms is not None or self.cron is not None

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)

    def enqueue(self, *args, **kwargs) -> "Job | None":
        """Queues a job that calls the function with these arguments, which are pickled."""
        return self._job(_call(self._command(args, kwargs)))

    async def aenqueue(self, *args, **kwargs) -> "Job | None":
        """As ``enqueue``."""
        return self._job(await _acall(self._command(args, kwargs)))

    def options(
        self,
        *,
        delay: float | timedelta | None = None,
        expires: float | timedelta | None = None,
        key: str | None = None,
        retries: int | None = None,
        backoff: float | timedelta | None = None,
    ) -> "_Options":
        """Options of single jobs, for ``.enqueue(...)``.

        ``delay``: seconds before the job may begin. ``expires``: seconds after which it is dropped
        unless it has begun. ``key``: while a job with this key waits or runs, ``enqueue`` queues
        nothing and returns None.
        """
        words: tuple = ()
        for word, name, value in (("DELAY", "delay", delay), ("EXPIRES", "expires", expires),
                                  ("BACKOFF", "backoff", backoff)):
            if value is not None:
                words += (word, _milliseconds(name, value))
        if key is not None:
            words += ("KEY", key)
        return _Options(self, words + (_retries(retries) if retries is not None else ()))

    def _command(self, args: tuple, kwargs: dict, options: tuple = ()) -> tuple:
        payload = pickle.dumps((args, kwargs), protocol=5)
        return _task_queue.queue().command("ADD", self.name, payload, *self._options, *options)

    def _job(self, id: int | None) -> "Job | None":
        return None if id is None else Job(id, self)


class _Options:
    """A task with options of single jobs."""

    def __init__(self, task: Task, options: tuple) -> None:
        self._task = task
        self._options = options

    def enqueue(self, *args, **kwargs) -> "Job | None":
        """As ``Task.enqueue``."""
        return self._task._job(_call(self._task._command(args, kwargs, self._options)))

    async def aenqueue(self, *args, **kwargs) -> "Job | None":
        """As ``Task.enqueue``."""
        command = self._task._command(args, kwargs, self._options)
        return self._task._job(await _acall(command))


class Job:
    """A queued job."""

    def __init__(self, id: int, task: Task) -> None:
        self.id = id
        self.task = task

    def state(self) -> str:
        """``waiting``, ``running``, or ``ended``."""
        found = _call(_task_queue.queue().command("FIND", self.id))
        return "ended" if found is None else found[0].decode()

    async def astate(self) -> str:
        """As ``state``."""
        found = await _acall(_task_queue.queue().command("FIND", self.id))
        return "ended" if found is None else found[0].decode()

    def cancel(self) -> bool:
        """Cancels the job; False if it has ended. A task that runs gets ``CancelledError`` if it is
        a coroutine, else ``JobCancelled`` at its next Python instruction."""
        return _call(_task_queue.queue().command("CANCEL", self.id)) != 0

    async def acancel(self) -> bool:
        """As ``cancel``."""
        return await _acall(_task_queue.queue().command("CANCEL", self.id)) != 0

    def result(self, timeout: float | None = None):
        """Waits for the job's end and returns what its function returned.

        Raises ``JobFailed``, also if the job has ended without a result: it was cancelled before it
        began, has expired, or its worker ended. Raises ``TimeoutError``. The task needs
        ``keep_result``.
        """
        channel = self._channel()
        end = math.inf if timeout is None else time.monotonic() + timeout
        has_ended = False
        with broadcast.Messages((channel,), _task_queue.queue().connection) as messages:
            while (found := _call(("GET", channel))) is None:
                left = end - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"job {self.id} has not ended within {timeout} s")
                if has_ended:
                    raise self._without_result()
                # The text of a failure is stored a moment after the end.
                has_ended = self.state() == "ended"
                messages.get(min(left, _CHECK))
        return _outcome(found)

    async def aresult(self, timeout: float | None = None):
        """As ``result``."""
        channel = self._channel()
        has_ended = False
        messages = broadcast.Subscription((channel,), _task_queue.queue().connection)
        async with asyncio.timeout(timeout), messages:
            while (found := await _acall(("GET", channel))) is None:
                if has_ended:
                    raise self._without_result()
                has_ended = await self.astate() == "ended"
                try:
                    async with asyncio.timeout(_CHECK):
                        await anext(messages)
                except TimeoutError:
                    # The job is checked again.
                    pass
        return _outcome(found)

    def _without_result(self) -> JobFailed:
        return JobFailed(f"the job {self.id} of {self.task.name} has ended without a result")

    def _channel(self) -> str:
        if self.task.result_ms is None:
            raise ValueError(f"the task {self.task.name!r} stores no results: give it keep_result")
        return _task_queue.queue().result_key(self.id)


def store_result(task: Task, id: int, is_done: bool, value: object) -> tuple:
    """The command that stores what a job has returned, or the text of what it raised."""
    try:
        outcome = pickle.dumps((is_done, value), protocol=5)
    except Exception as error:
        outcome = pickle.dumps((False, f"its result cannot be stored: {error}"), protocol=5)
    return ("SET", _task_queue.queue().result_key(id), outcome, "PX", task.result_ms)


def _outcome(found: bytes):
    is_done, value = pickle.loads(found)
    if not is_done:
        raise JobFailed(value)
    return value


def run_waiting() -> int:
    """Runs the jobs that are due, in the calling thread; returns their number. For tests."""
    from tidegate import _task_runner

    return _task_runner.run_waiting()


def _call(command: tuple):
    return _task_queue.queue().call(command)[0]


async def _acall(command: tuple):
    return (await _task_queue.queue().acall(command))[0]


def _retries(retries: int) -> tuple:
    if not isinstance(retries, int) or retries < 0:
        raise ValueError("retries is a number of further attempts: 0 or more")
    return ("RETRIES", retries)


def _milliseconds(name: str, value: float | timedelta) -> int:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if not seconds > 0 or math.isinf(seconds):
        raise ValueError(f"{name} is a number of seconds above 0")
    return math.ceil(seconds * 1000)


