"""WSGI in greenlets of gevent: ``--threads gevent``.

The hub runs on the main thread. It is told by Rust's I/O thread of new requests, each of which runs
in a greenlet of a bounded pool; further ones wait in the queue. Bodies of requests are complete
before, and a response that its client does not read waits for room without blocking the others.
Calls of ``tidegate.cache`` and the like switch greenlets as well.
"""

import importlib
import os
import sys
import time

# As in `tidegate`, which imports this module first.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from tidegate import _errors, _store, _tidegate

#: How often the hub reports that it runs, and when it is late, in seconds.
_BEAT = 0.5
_BEAT_LATE_MS = 1000
#: Time for greenlets that are cut off to end, and for threads of gevent's pool, in seconds.
_END = 1.0


def patch() -> None:
    """Replaces what blocks in the standard library, before anything else is imported."""
    try:
        from gevent import monkey
    except ImportError:
        sys.exit("error: --threads gevent needs gevent: pip install gevent")
    monkey.patch_all()


def original(module: str, name: str):
    """A function or class of the standard library as it is without patches."""
    # It is imported where the library may be patched.
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None:
        return getattr(importlib.import_module(module), name)
    return monkey.get_original(module, name)


def install() -> None:
    """Lets calls of the shared store switch greenlets."""
    from tidegate import _store

    _store.switching = StoreCalls()


def end_threads() -> None:
    """Ends the threads of gevent's pool, which resolve names, before a fork: it copies none of
    them, and a worker starts its own."""
    import gevent
    from gevent._hub_local import get_hub_if_exists

    # It is made when something waits for the first time.
    hub = get_hub_if_exists()
    if hub is not None and hub._threadpool is not None:
        with gevent.Timeout(_END, False):
            hub.threadpool.size = 0


def forked() -> None:
    """Gives a forked process an event loop of its own. Greenlets that the application has started
    when it was imported continue in it."""
    import gevent

    # Does nothing without a hub.
    gevent.reinit()


def run(
    worker: "_tidegate.Worker",
    application,
    settings: dict,
    report: "_errors.Reporter",
) -> bool:
    """Serves an application until the process ends; returns whether all greenlets have ended."""
    return _Server(worker, application, settings, report).run()


class FileWrapper:
    """``wsgi.file_wrapper``: a regular file is sent by the kernel, another one is read."""

    def __init__(self, filelike, blksize: int = 65536) -> None:
        self.filelike = filelike
        self.blksize = blksize

    def __iter__(self) -> "FileWrapper":
        return self

    def __next__(self) -> bytes:
        if block := self.filelike.read(self.blksize):
            return block
        raise StopIteration

    def close(self) -> None:
        if hasattr(self.filelike, "close"):
            self.filelike.close()


class _Server:
    def __init__(
        self,
        worker: "_tidegate.Worker",
        application,
        settings: dict,
        report: "_errors.Reporter",
    ) -> None:
        import gevent.event
        import gevent.hub
        import gevent.pool

        from tidegate import _wsgi

        self._worker = worker
        self._application = application
        self._hub = gevent.hub.get_hub()
        self._pool = gevent.pool.Pool(settings.get("greenlets") or 1000)
        self._stopped = gevent.event.Event()
        self._report = report
        self._requests = worker.greenlets(
            application,
            root_path=settings.get("root_path") or "",
            multiprocess=(settings.get("processes") or 1) > 1,
            errors=_wsgi.Errors(),
            file_wrapper=FileWrapper,
            report=self._report,
            # It is called within a function of Rust, which must not be switched away from.
            complain=lambda problem: self._hub.loop.run_callback(_wsgi.complain, problem),
        )
        #: Greenlets that wait for room in a response, by the numbers of their waits.
        self._waiting: dict[int, gevent.hub.Waiter] = {}
        self._last_wait = 0
        #: Requests may wait for a place in the pool.
        self._is_full = False
        self._make_waiter = lambda: gevent.hub.Waiter(self._hub)

    def run(self) -> bool:
        loop = self._hub.loop
        watcher = loop.io(self._requests.fileno(), 1)
        watcher.start(self._take)
        beat = loop.timer(_BEAT, _BEAT)
        self._requests.beat(_BEAT_LATE_MS)
        beat.start(self._requests.beat, _BEAT_LATE_MS)
        # What has arrived before.
        loop.run_callback(self._take)
        self._worker.ready()
        try:
            self._stopped.wait()
        finally:
            watcher.close()
            beat.close()
            self._pool.kill(timeout=_END)
        return len(self._pool) == 0

    def _take(self) -> None:
        """Begins what has arrived, in the hub: nothing here switches."""
        free = self._pool.free_count()
        requests, ended = self._requests.take(free)
        self._is_full = len(requests) == free
        for number in ended:
            if waiter := self._waiting.pop(number, None):
                waiter.switch(None)
        for request in requests:
            greenlet = self._pool.greenlet_class(self._handle, request)
            self._pool.add(greenlet)
            # After the pool's own: its place is free then.
            greenlet.rawlink(self._ended)
            greenlet.start()
        if self._requests.is_stopping:
            self._stopped.set()

    def _ended(self, greenlet) -> None:
        if self._is_full:
            self._take()

    def _handle(self, request) -> None:
        failed, environ = True, None
        try:
            environ, start_response = request.begin()
            failed = not self._respond(request, environ, start_response)
        except BaseException as error:
            self._log(error, environ)
        try:
            request.end(failed)
        except Exception as error:
            self._log(error, environ)

    def _log(self, error: BaseException, environ: dict | None) -> None:
        import gevent

        if not isinstance(error, gevent.GreenletExit):
            self._report(error, environ)

    def _respond(self, request, environ: dict, start_response) -> bool:
        def begin(*args, **kwargs):
            start_response(*args, **kwargs)
            return write

        def write(data: bytes) -> None:
            self._send(request, data, False)

        body = self._application(environ, begin)
        try:
            self._send_body(request, body)
        finally:
            # PEP 3333: "regardless of whether the request was completed".
            if hasattr(body, "close"):
                try:
                    body.close()
                except Exception as error:
                    self._log(error, environ)
        return True

    def _send_body(self, request, body) -> None:
        if request.send_whole(body):
            return
        if type(body) is FileWrapper and request.send_file(body.filelike):
            return
        try:
            is_whole = len(body) == 1
        except TypeError:
            is_whole = False
        for piece in body:
            if not self._send(request, piece, is_whole):
                return

    def _send(self, request, piece: bytes, is_whole: bool) -> bool:
        """Sends a piece once there is room for it; False if no more is wanted."""
        self._last_wait = number = self._last_wait + 1
        while not request.has_room(number):
            # The end of the wait is read by the hub, which does not run before this switches.
            self._waiting[number] = waiter = self._make_waiter()
            try:
                waiter.get()
            finally:
                self._waiting.pop(number, None)
            self._last_wait = number = self._last_wait + 1
        return request.piece(piece, is_whole)


class StoreCalls:
    """Calls of the shared store that switch greenlets while they wait."""

    def __init__(self) -> None:
        import gevent.hub
        from gevent import monkey

        self._get_ident = monkey.get_original("_thread", "get_ident")
        self._thread = self._get_ident()
        self._hub = gevent.hub.get_hub()
        #: The calls of each connection, and what watches for their replies.
        self._calls: dict = {}

    def can_switch(self) -> bool:
        """False in the hub, and in threads of their own, which may block."""
        import gevent

        return self._get_ident() == self._thread and gevent.getcurrent() is not self._hub

    def _begun(self, connection: "_store.Connection"):
        if connection not in self._calls:
            calls = connection.store().calls()
            watcher = self._hub.loop.io(calls.fileno(), 1)
            watcher.start(calls.drain)
            self._calls[connection] = (calls, watcher)
        return self._calls[connection][0]

    def call(self, connection: "_store.Connection", commands: tuple) -> list:
        from gevent.event import AsyncResult

        replies = AsyncResult()
        self._begun(connection).begin(commands, replies)
        return replies.get()

    def subscribe(self, connection: "_store.Connection", channels: list[str]):
        from gevent.event import AsyncResult

        active = AsyncResult()
        subscription = self._begun(connection).subscribe(channels, active)
        try:
            active.get()
        except BaseException:
            subscription.close()
            raise
        return subscription

    def next(self, connection: "_store.Connection", subscription, timeout: float | None):
        from gevent.event import AsyncResult

        end = None if timeout is None else time.monotonic() + timeout
        while (message := subscription.take()) is None:
            changed = AsyncResult()
            message = subscription.take_or_wait(self._begun(connection), changed)
            if message is not None or subscription.is_closed:
                break
            left = None if end is None else max(0.0, end - time.monotonic())
            if not changed.wait(left) and not changed.ready():
                return subscription.take()
        return message


def is_wanted() -> bool:
    """True in a process that imports the application, if its settings name gevent."""
    for variable in ("TIDEGATE_WORKER", "TIDEGATE_PRELOAD", "TIDEGATE_CHECK"):
        specification = os.environ.get(variable, "")
        if '"gevent"' in specification:
            import json

            settings = json.loads(specification)
            return settings.get("python", settings).get("threads") == "gevent"
    return False
