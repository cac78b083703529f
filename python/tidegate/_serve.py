"""``tidegate.serve()``: serves an ASGI application from a running program."""

import asyncio
import json
import os
import socket
import struct
from collections.abc import Callable
from contextlib import asynccontextmanager

from tidegate import _lifespan, _tidegate
from tidegate._log import logger


class Serving:
    """A listening server and its ``url``."""

    def __init__(self, listener: socket.socket) -> None:
        address = listener.getsockname()
        if listener.family == socket.AF_UNIX:
            self.url = f"unix:{address}"
        else:
            host = f"[{address[0]}]" if ":" in address[0] else address[0]
            self.url = f"http://{host}:{address[1]}"


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
    ``limits`` and ``timeouts``. The lifespan events of the application are sent within.
    """
    loop = asyncio.get_running_loop()
    events = _lifespan.Lifespan(application, lifespan)
    await events.startup()
    listener = _listen(host, port, uds, backlog)
    control, worker_end = socket.socketpair()
    spec = _spec(listener, worker_end, configuration or {}, graceful_timeout)
    worker = _tidegate.embedded(json.dumps(spec))
    stopped = asyncio.Event()
    server = worker.asgi(
        application,
        loop,
        root_path=root_path,
        state=events.state if events.is_supported else None,
        report=report or log,
        on_stop=stopped.set,
    )
    loop.add_reader(server.fileno(), server.drain)
    monitor = loop.create_task(_await_ready(loop, control, ready := loop.create_future()))
    try:
        worker.ready()
        await ready
        yield Serving(listener)
    finally:
        monitor.cancel()
        await asyncio.wait([monitor])
        # New connections are refused now instead of waiting for a server that ends.
        listener.close()
        if uds is not None:
            os.unlink(uds)
        # Closing the control socket tells the server to drain.
        control.close()
        await stopped.wait()
        loop.remove_reader(server.fileno())
        await loop.run_in_executor(None, worker.join)
        await events.shutdown()


def log(error: BaseException) -> None:
    """Logs what an application raised."""
    logger.error("Exception in ASGI application", exc_info=error)


def _listen(host: str, port: int, uds: str | None, backlog: int) -> socket.socket:
    if uds is not None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(uds)
        listener.listen(backlog)
    else:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=backlog)
    listener.setblocking(False)
    return listener


def _spec(
    listener: socket.socket,
    control: socket.socket,
    configuration: dict,
    graceful_timeout: float,
) -> dict:
    """The specification with which a supervisor would start a worker process."""
    address = listener.getsockname()
    if listener.family == socket.AF_UNIX:
        bind = f"unix:{address}"
    else:
        bind = Serving(listener).url.removeprefix("http://")
    routes = [{"name": "app", "match": {"path": "/{*rest}"}, "handler": {"app": "main"}}]
    merged = {
        **configuration,
        "listeners": {"web": {"bind": bind}},
        "apps": {"main": {"python": "embedded:app"}},
        "routes": [*configuration.get("routes", []), *routes],
    }
    return {
        "version": _tidegate.__version__,
        "role": "http",
        "app": "main",
        "slot": 0,
        "generation": 1,
        "python": {},
        "config": json.dumps(merged),
        "control_fd": _inheritable(control.detach()),
        "listen": [{"name": "web", "fd": _inheritable(os.dup(listener.fileno()))}],
        "store": None,
        "log": {"level": "warn", "format": "text"},
        "graceful_ms": int(graceful_timeout * 1000),
        "stall_ms": 0,
    }


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
    received = b""
    while data := await loop.sock_recv(control, 65536):
        received += data
        while len(received) >= 4:
            (length,) = struct.unpack_from("<I", received)
            if len(received) < 4 + length:
                break
            report = json.loads(received[4 : 4 + length])
            received = received[4 + length :]
            if ready.done():
                continue
            if "ready" in report:
                ready.set_result(None)
            elif "failed" in report:
                ready.set_exception(RuntimeError(report["failed"]))
    if not ready.done():
        ready.set_exception(RuntimeError("the server ended before it was ready"))
