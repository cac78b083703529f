"""``tidegate.serve()``: serves an ASGI application from a running program."""

import asyncio
import json
import os
import socket
import struct
from collections.abc import Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial

from tidegate import _errors, _lifespan, _tidegate


class Serving:
    """A listening server and its ``url``."""

    def __init__(self, listener: socket.socket, scheme: str = "http") -> None:
        address = listener.getsockname()
        if listener.family == socket.AF_UNIX:
            self.url = f"unix:{address}"
        else:
            host = f"[{address[0]}]" if ":" in address[0] else address[0]
            self.url = f"{scheme}://{host}:{address[1]}"


async def serve(application, **options) -> None:
    """Serves until the task is cancelled; requests in flight are finished then.

    Options are those of ``serving``.
    """
    async with serving(application, **options):
        await asyncio.get_running_loop().create_future()


@asynccontextmanager
async def serving(
    application,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    uds: str | None = None,
    root_path: str = "",
    lifespan: str = "auto",
    backlog: int = 1024,
    graceful_timeout: float = 30.0,
    configuration: dict | None = None,
    report: Callable[[BaseException], None] | None = None,
):
    """Serves inside an ``async with``, on the running event loop; yields a ``Serving``.

    ``port=0`` takes a free port. ``configuration`` adds configuration keys of Tidegate, such as
    ``limits`` and ``timeouts``; the listener is ``listeners.web``, the application ``apps.main``.
    The lifespan events of the application are sent within.
    """
    loop = asyncio.get_running_loop()
    settings = _configuration(configuration or {})
    events = _lifespan.Lifespan(application, lifespan)
    async with AsyncExitStack() as ending:
        await events.startup()
        ending.push_async_callback(events.shutdown)
        listener = _listen(host, port, uds, backlog)
        ending.callback(_close, listener, uds)
        web = settings["listeners"]["web"]
        web["bind"] = bind_of(listener)
        control, worker_end = socket.socketpair()
        # Closing the control socket tells the server to drain.
        ending.callback(control.close)
        log = report or partial(_errors.log, "ASGI")
        worker = embedded(settings, {"web": listener}, worker_end, graceful_timeout)
        stopped = asyncio.Event()
        server = worker.asgi(
            application,
            loop,
            root_path=root_path,
            state=events.state if events.is_supported else None,
            report=lambda error, scope: log(error),
            on_stop=stopped.set,
        )
        loop.add_reader(server.fileno(), server.drain)
        monitor = loop.create_task(_await_ready(loop, control, ready := loop.create_future()))
        try:
            worker.ready()
            await ready
            yield Serving(listener, "https" if "tls" in web else "http")
        finally:
            monitor.cancel()
            await asyncio.wait([monitor])
            # New connections are refused now instead of waiting for a server that ends.
            _close(listener, uds)
            control.close()
            await stopped.wait()
            loop.remove_reader(server.fileno())
            await loop.run_in_executor(None, worker.join)


def _listen(host: str, port: int, uds: str | None, backlog: int) -> socket.socket:
    if uds is not None:
        _remove_stale(uds)
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.bind(uds)
        except OSError:
            listener.close()
            raise
        listener.listen(backlog)
    else:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=backlog)
    listener.setblocking(False)
    return listener


def _remove_stale(path: str) -> None:
    """Removes the file of a Unix socket on which nothing listens, as after a crash."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
        except OSError:
            # There is no socket, which `bind` finds as well, or one with a full queue.
            pass


def _close(listener: socket.socket, uds: str | None) -> None:
    """Closes a listening socket, unless that has happened."""
    if listener.fileno() < 0:
        return
    listener.close()
    if uds is not None:
        with suppress(FileNotFoundError):
            os.unlink(uds)


def _configuration(added: dict) -> dict:
    """The configuration of a program that serves one application on one address, which is added
    once the socket listens."""
    routes = [{"name": "app", "match": {"path": "/{*rest}"}, "handler": {"app": "main"}}]
    listener = _only(added, "listeners", "web", "bind")
    application = _only(added, "apps", "main", "python")
    return {
        **added,
        "listeners": {"web": listener},
        "apps": {"main": {**application, "python": "embedded:app"}},
        "routes": [*added.get("routes", []), *routes],
    }


def _only(added: dict, part: str, name: str, key: str) -> dict:
    """The added settings of the only listener or application, whose ``key`` is an argument."""
    given = added.get(part) or {}
    for other in given:
        if other != name:
            raise ValueError(
                f"configuration has {part}.{other}: a program serves one of them, {part}.{name}")
    settings = dict(given.get(name) or {})
    if key in settings:
        raise ValueError(
            f"configuration has {part}.{name}.{key}, which the arguments of serving() set")
    return settings


def bind_of(listener: socket.socket) -> str:
    """The address of a listening socket as a configuration writes it."""
    if listener.family == socket.AF_UNIX:
        return f"unix:{listener.getsockname()}"
    return Serving(listener).url.removeprefix("http://")


def embedded(
    configuration: dict,
    listeners: dict[str, socket.socket],
    control: socket.socket,
    graceful_timeout: float,
    level: str = "warn",
) -> "_tidegate.Worker":
    """A worker inside of this process, from the specification that a supervisor would write."""
    spec = {
        "version": _tidegate.__version__,
        "role": "http",
        "app": "main",
        "slot": 0,
        "generation": 1,
        "python": {},
        "config": json.dumps(configuration),
        "control_fd": _inheritable(control.detach()),
        "listen": [
            {"name": name, "fd": _inheritable(os.dup(listener.fileno()))}
            for name, listener in listeners.items()
        ],
        "store": None,
        "log": {"level": level, "format": "text"},
        "graceful_ms": int(graceful_timeout * 1000),
        "stall_ms": 0,
    }
    return _tidegate.embedded(json.dumps(spec))


def _inheritable(descriptor: int) -> int:
    """A descriptor that the worker takes over; it must be inheritable to be accepted."""
    os.set_inheritable(descriptor, True)
    return descriptor


async def _await_ready(
    loop: asyncio.AbstractEventLoop,
    control: socket.socket,
    ready: asyncio.Future,
) -> None:
    """Waits until the server accepts connections; ignores its later reports."""
    control.setblocking(False)
    reports = Reports()
    while data := await loop.sock_recv(control, 65536):
        for report in reports.take(data):
            if ready.done():
                continue
            if "ready" in report:
                ready.set_result(None)
            elif "failed" in report:
                ready.set_exception(RuntimeError(report["failed"]))
    if not ready.done():
        ready.set_exception(RuntimeError("the server ended before it was ready"))


class Reports:
    """Splits what a worker writes to its control socket into its reports."""

    def __init__(self) -> None:
        self._received = b""

    def take(self, data: bytes) -> list[dict]:
        self._received += data
        reports = []
        while len(self._received) >= 4:
            (length,) = struct.unpack_from("<I", self._received)
            if len(self._received) < 4 + length:
                break
            reports.append(json.loads(self._received[4 : 4 + length]))
            self._received = self._received[4 + length :]
        return reports
