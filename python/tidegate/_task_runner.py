"""Runs jobs of ``tidegate.tasks`` in a worker process.

Threads take jobs from the store and run them: synchronous functions themselves, coroutines on the
event loop of the application (ASGI), or on one of their own (WSGI). One more thread listens for new
jobs and for cancellations. A job that still runs when the process ends is put back into the queue.
"""

import asyncio
import contextvars
import ctypes
import pickle
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future

from tidegate import _store, _task_queue, broadcast, tasks
from tidegate._log import logger
from tidegate._tidegate import StoreError

#: The pause after the store could not be reached.
_PAUSE = 1.0


class _Attempt:
    """A job that a thread runs."""

    def __init__(self, task: tasks.Task, id: int) -> None:
        self.task = task
        self.id = id
        self.thread = threading.get_ident()
        self.greenlet = _current_greenlet()
        #: The coroutine's future, on its event loop.
        self.future: Future | None = None
        #: What ends it before it has returned.
        self.interruption: type[BaseException] | None = None

    def interrupt(self, kind: type[BaseException]) -> None:
        """Ends the function: a coroutine where it waits, another one at its next instruction."""
        if self.interruption is not None:
            return
        self.interruption = kind
        if self.future is not None:
            self.future.cancel()
        elif self.greenlet is not None:
            import gevent

            gevent.kill(self.greenlet, kind)
        elif not self.task.is_coroutine:
            _raise_in(self.thread, kind)


def _current_greenlet():
    """The running greenlet, in a process of ``--threads gevent``."""
    if _store.switching is None:
        return None
    import gevent

    return gevent.getcurrent()


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """Raises an exception in another thread, or takes back one that it has not got yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), None if kind is None else ctypes.py_object(kind))


class Runner:
    """The threads that run the jobs of this process."""

    def __init__(
        self,
        threads: int,
        loop: asyncio.AbstractEventLoop | None = None,
        record: Callable[[BaseException, str], None] | None = None,
    ) -> None:
        #: Records what a job has raised, with its name, for the admin API.
        self._record = record
        self._changed = threading.Condition()
        self._changes = 0
        self._is_stopping = False
        self._attempts: dict[int, _Attempt] = {}
        self._loop = loop
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._messages: broadcast.Messages | None = None
        self._threads = [threading.Thread(target=self._work, name=f"task-{number}", daemon=True)
                         for number in range(threads)]
        self._listener = threading.Thread(target=self._listen, name="tasks", daemon=True)
        self._queue = _task_queue.queue()
        #: The store does not reply: this was logged.
        self._is_down = False
        self._stopping = threading.Event()

    def start(self) -> None:
        for thread in (self._listener, *self._threads):
            thread.start()
        if self._queue.beat is not None:
            threading.Thread(target=self._beat, name="task-beat", daemon=True).start()

    def stop(self, within: float) -> None:
        """Takes no more jobs, waits for those that run, and puts back the others."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        end = time.monotonic() + within
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        with self._changed:
            left = list(self._attempts.values())
            self._attempts.clear()
        for attempt in left:
            logger.warning("the job %d of %s did not end in time and is put back into the queue",
                           attempt.id, attempt.task.name)
            try:
                self._queue.call(self._queue.command("RETURN", attempt.id))
            except StoreError:
                # The store puts it back when this process ends.
                pass
        self._stopping.set()
        if self._messages is not None:
            self._messages.close()

    def _beat(self) -> None:
        """Reports to the queue that jobs still run, and to the server how many there are."""
        while not self._stopping.wait(self._queue.beat):
            with self._changed:
                running = list(self._attempts)
            try:
                cancelled, numbers = self._queue.call(
                    self._queue.command("RENEW", *running), self._queue.command("STATS"))
                _store.shared.call(("TASK", "REPORT", *numbers))
            except (StoreError, ValueError) as error:
                self._failed(error)
                continue
            self._succeeded()
            # The announcement was missed.
            for id in cancelled:
                self._interrupt(id, tasks.JobCancelled)

    def _failed(self, error: Exception) -> None:
        """Logs that the store does not reply, once until it does again."""
        with self._changed:
            is_known, self._is_down = self._is_down, True
        if not is_known and not self._is_stopping:
            logger.warning("jobs cannot be taken from the store, trying again: %s", error)

    def _succeeded(self) -> None:
        if self._is_down:
            self._is_down = False
            logger.info("jobs are taken from the store again")

    def _listen(self) -> None:
        """Receives announcements until the runner stops."""
        while not self._is_stopping:
            try:
                channels = (self._queue.wake,)
                with broadcast.Messages(channels, self._queue.connection) as messages:
                    self._messages = messages
                    # Another thread may import a module with tasks.
                    for task in list(tasks._tasks.values()):
                        if task.is_periodic:
                            self._queue.call(self._queue.schedule(task))
                    self._change()
                    self._receive(messages)
            except (StoreError, ValueError) as error:
                self._failed(error)
                self._stopping.wait(_PAUSE)

    def _receive(self, messages: broadcast.Messages) -> None:
        while not self._is_stopping and (message := messages.get()) is not None:
            if message:
                self._interrupt(int(message), tasks.JobCancelled)
            else:
                self._change()

    def _interrupt(self, id: int, kind: type[BaseException]) -> None:
        # The lock keeps the attempt from ending before the exception is raised in its thread.
        with self._changed:
            if attempt := self._attempts.get(id):
                attempt.interrupt(kind)

    def _change(self) -> None:
        with self._changed:
            self._changes += 1
            self._changed.notify()

    def _work(self) -> None:
        """Takes and runs jobs until the runner stops."""
        while True:
            try:
                with self._changed:
                    if self._is_stopping:
                        return
                    seen = self._changes
                found = self._queue.call(self._queue.take(dict(tasks._tasks)))[0]
                self._succeeded()
                if isinstance(found, list):
                    # There may be more for the next thread.
                    self._change()
                    self._run(*found)
                    continue
                with self._changed:
                    self._changed.wait_for(
                        lambda seen=seen: self._is_stopping or self._changes != seen,
                        None if found is None else found / 1000)
            except (StoreError, ValueError) as error:
                self._failed(error)
                self._stopping.wait(_PAUSE)
            except (tasks.JobCancelled, tasks.JobTimeout):
                # It came after the function had returned.
                continue

    def _run(self, id: int, name: bytes, payload: bytes, number: int) -> None:
        task = tasks._tasks[name.decode()]
        attempt = _Attempt(task, id)
        with self._changed:
            self._attempts[id] = attempt
        alarm = None
        if task.timeout_ms is not None:
            alarm = threading.Timer(
                task.timeout_ms / 1000, self._interrupt, (id, tasks.JobTimeout))
            alarm.start()
        value, error, is_called, is_mine = None, None, False, False
        # An interruption may come at any instruction here.
        while True:
            try:
                if not is_called:
                    is_called = True
                    value = self._call(attempt, payload, tasks.Running(id, number))
                with self._changed:
                    is_mine = self._attempts.pop(id, None) is attempt or is_mine
                    _raise_in(attempt.thread, None)
                break
            except BaseException as raised:
                error = raised
        if alarm is not None:
            alarm.cancel()
        if is_mine:
            try:
                _report(attempt, number, value, error, self._record)
            except (tasks.JobCancelled, tasks.JobTimeout):
                # It came after the function had returned. To report twice changes nothing.
                _report(attempt, number, value, error, self._record)

    def _call(self, attempt: _Attempt, payload: bytes, job: tasks.Running):
        args, kwargs = pickle.loads(payload) if payload else ((), {})
        function = attempt.task.function
        if not attempt.task.is_coroutine:
            _close_old_connections()
            try:
                context = contextvars.copy_context()
                context.run(tasks._current.set, job)
                return context.run(function, *args, **kwargs)
            finally:
                _close_old_connections()
        loop = self._loop or self._background_loop()
        with self._changed:
            attempt.future = asyncio.run_coroutine_threadsafe(
                _with_job(function, args, kwargs, job), loop)
            if attempt.interruption is not None:
                attempt.future.cancel()
        value, error = attempt.future.result()
        if error is not None:
            raise error
        return value

    def _background_loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of coroutines in a process without one."""
        with self._changed:
            if self._own_loop is None:
                self._own_loop = asyncio.new_event_loop()
                threading.Thread(
                    target=self._own_loop.run_forever, name="task-loop", daemon=True).start()
            return self._own_loop


async def _with_job(function, args: tuple, kwargs: dict, job: tasks.Running) -> tuple:
    """What a coroutine function has returned, and what it has raised that would end the event
    loop: a Task raises these there too."""
    tasks._current.set(job)
    try:
        return await function(*args, **kwargs), None
    except (SystemExit, KeyboardInterrupt) as error:
        return None, error


def _report(
    attempt: _Attempt,
    number: int,
    value: object,
    error: BaseException | None,
    record: Callable[[BaseException, str], None] | None,
) -> None:
    """Tells the store how an attempt has ended."""
    task, id, queue = attempt.task, attempt.id, _task_queue.queue()
    if isinstance(error, CancelledError | tasks.JobTimeout | tasks.JobCancelled):
        error = (attempt.interruption or type(error))()
    if error is None:
        commands = [queue.command("DONE", id)]
        if task.result_ms is not None:
            commands = [tasks.store_result(task, id, True, value), *commands,
                        ("PUBLISH", queue.result_key(id), b"")]
        queue.call(*commands)
        return
    what = {tasks.JobTimeout: "it ran for longer than its timeout",
            tasks.JobCancelled: "it was cancelled"}.get(type(error))
    what = what or f"{type(error).__name__}: {error}"
    trace = None if isinstance(error, tasks.JobTimeout | tasks.JobCancelled) else error
    if trace is not None and record is not None:
        record(trace, task.name)
    reply = queue.call(queue.command("FAIL", id))[0]
    if reply is not None and reply >= 0:
        logger.warning("attempt %d of the job %d of %s failed, the next one is in %.1f s: %s",
                       number, id, task.name, reply / 1000, what, exc_info=trace)
        return
    if reply == -1:
        logger.error("the job %d of %s failed: %s", id, task.name, what, exc_info=trace)
    if task.result_ms is not None:
        queue.call(tasks.store_result(task, id, False, what),
                   ("PUBLISH", queue.result_key(id), b""))


def _close_old_connections() -> None:
    """Closes stale connections of Django, which does so between requests only."""
    django = sys.modules.get("django.db")
    # A program may use parts of Django without its settings, and has no connections then.
    if django is not None and sys.modules["django.conf"].settings.configured:
        django.close_old_connections()


def run_waiting() -> int:
    """Runs the jobs that are due, in the calling thread; returns their number."""
    runner, queue, count = Runner(0), _task_queue.queue(), 0
    while isinstance(found := queue.call(queue.take(tasks._tasks))[0], list):
        runner._run(*found)
        count += 1
    return count


def start(
    settings: dict,
    record: Callable[[BaseException, str], None],
    loop: asyncio.AbstractEventLoop | None = None,
) -> Runner | None:
    """Starts the threads, if the application has tasks."""
    threads = settings.get("task_threads", 4)
    if not tasks._tasks or threads == 0:
        return None
    runner = Runner(threads, loop, record)
    runner.start()
    return runner
