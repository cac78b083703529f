"""Requests that run in this process, and the stack of each.

The stack of a request has more than the frames of a thread: what its coroutine waits in, what a
Task does that was started for it (`BaseHTTPMiddleware` of Starlette), and what it runs in a thread
of a pool (`def` endpoints of FastAPI). Tasks and threads belong to a request if their context says
so. Only options that need it put an application around the application; others cost nothing.
"""

import asyncio
import contextvars
import functools
import sys
import threading
import time
from collections.abc import Iterator
from types import BuiltinMethodType, FrameType

#: Frames of one stack.
FRAMES_MAX = 200
#: Outermost frames in which a thread of a pool has the context of its work.
_CONTEXT_FRAMES = 8

#: Files of the code that calls applications: their frames are the outermost ones.
_RUNNERS = ("tidegate/_worker.py", "tidegate/__main__.py", "asyncio/base_events.py",
            "asyncio/events.py", "asyncio/runners.py", "/threading.py",
            "concurrent/futures/thread.py", "<frozen runpy>")

#: A file, a line and the name of a function.
Frame = tuple[str, int, str]

_current: contextvars.ContextVar["Request | None"] = contextvars.ContextVar(
    "tidegate_request", default=None)


class Request:
    """A request in the application; ``begin`` it in its Task, thread or greenlet."""

    def __init__(self, given: dict, loop: asyncio.AbstractEventLoop | None) -> None:
        #: The scope or the environ.
        self.given = given
        if loop is not None:
            self.method, self.path = given["method"], given["path"]
        else:
            self.method = given["REQUEST_METHOD"]
            self.path = given.get("SCRIPT_NAME", "") + given.get("PATH_INFO", "")
        self.began = time.monotonic()
        self._loop = loop
        self._task = None if loop is None else asyncio.current_task(loop)
        self._thread = _original("_thread", "get_ident")()
        self._greenlet = _greenlet()
        #: The same request, where two options watch it.
        self._outer = _current.get()
        #: The coroutine of the application.
        self.coroutine: object = None

    def call(self, function, *arguments):
        """Calls a function of the application within the context of the request."""
        token = _current.set(self)
        try:
            return function(*arguments)
        finally:
            _current.reset(token)

    async def wait_for(self, application, *arguments) -> None:
        """Calls an ASGI application within the context of the request, and waits for its end."""
        token = _current.set(self)
        try:
            self.coroutine = application(*arguments)
            await self.coroutine
        finally:
            _current.reset(token)

    def stack(self) -> tuple[list[Frame], bool]:
        """Its stack, outermost first, and whether it runs: otherwise it waits."""
        if self._loop is None:
            return self._stack_of_thread()
        frames = sys._current_frames()
        running = asyncio.current_task(self._loop)
        tasks = self._tasks()
        if running in tasks:
            outer = [] if running is self._task else _awaited(self.coroutine)
            return _joined(outer, _callers(frames.get(self._thread))), True
        others = [_awaited(task.get_coro()) for task in tasks if task is not self._task]
        stack = _joined(_awaited(self.coroutine), max(others, key=len, default=[]))
        for thread, frame in frames.items():
            if thread != self._thread and _belongs(frame, self):
                return _joined(stack, _callers(frame)), True
        return stack, False

    def _stack_of_thread(self) -> tuple[list[Frame], bool]:
        if self._greenlet is not None and (frame := self._greenlet.gr_frame) is not None:
            return _callers(frame), False
        return _callers(sys._current_frames().get(self._thread)), True

    def _tasks(self) -> list[asyncio.Task]:
        """The Tasks that work for it. Before CPython 3.12 a Task does not show its context."""
        others = asyncio.all_tasks(self._loop) if hasattr(asyncio.Task, "get_context") else ()
        return [self._task, *(task for task in others if task is not self._task
                              and self._is_in(task.get_context()))]

    def _is_in(self, context: contextvars.Context) -> bool:
        """True if a context is that of the request, or was copied from it."""
        found = context.get(_current)
        while found is not None and found is not self:
            found = found._outer
        return found is not None


def line(stack: list[Frame], most: int = 20) -> str:
    """A stack in one line for the log, innermost first."""
    words = [f"{name} ({short(file)}:{number})" for file, number, name in reversed(stack)]
    return " < ".join(words[:most] + ([f"{len(words) - most} more"] if len(words) > most else []))


def short(file: str) -> str:
    """The name of a file without what all files of an installation have in front."""
    _, _, package = file.rpartition("/site-packages/")
    if package != file:
        return package
    _, found, library = file.rpartition("/lib/python3.")
    return library.partition("/")[2] if found else file


def _joined(outer: list[Frame], inner: list[Frame]) -> list[Frame]:
    return (outer + inner)[:FRAMES_MAX]


def _greenlet():
    """The running greenlet, in a process of ``--threads gevent``."""
    gevent, monkey = sys.modules.get("gevent"), sys.modules.get("gevent.monkey")
    if monkey is None or not monkey.is_module_patched("threading"):
        return None
    return gevent.getcurrent()


def _original(module: str, name: str):
    """A function of the standard library, which gevent may have replaced."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and monkey.is_module_patched("threading"):
        return monkey.get_original(module, name)
    return getattr(__import__(module), name)


def sleep(seconds: float) -> None:
    """Blocks the thread, also where gevent would switch."""
    _original("time", "sleep")(seconds)


def start_thread(function) -> None:
    """Starts a thread of the system, also where gevent would start a greenlet."""
    if _greenlet() is None:
        threading.Thread(target=function, daemon=True, name="tidegate-stacks").start()
    else:
        _original("_thread", "start_new_thread")(function, ())


def _callers(frame: FrameType | None) -> list[Frame]:
    """The frames of a thread from the application's on, outermost first."""
    found: list[Frame] = []
    while frame is not None:
        file = frame.f_code.co_filename
        if file == __file__:
            break
        found.append((file, frame.f_lineno or 0, frame.f_code.co_qualname))
        frame = frame.f_back
    while found and found[-1][0].endswith(_RUNNERS):
        found.pop()
    return found[::-1]


def _awaited(coroutine: object) -> list[Frame]:
    """The frames that a coroutine waits in, outermost first."""
    return [(frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_qualname)
            for frame in _frames(coroutine)]


def _frames(coroutine: object) -> Iterator[FrameType]:
    for _ in range(FRAMES_MAX):
        for prefix, inner in (("cr", "cr_await"), ("gi", "gi_yieldfrom"), ("ag", "ag_await")):
            frame = getattr(coroutine, f"{prefix}_frame", None)
            if frame is not None:
                yield frame
                coroutine = getattr(coroutine, inner)
                break
        else:
            return


def _belongs(frame: FrameType, request: Request) -> bool:
    """True if a thread of a pool works for a request: asyncio, anyio and asgiref call functions
    in a copy of the caller's context, which is in a variable of one of the first frames."""
    outermost: list[FrameType] = []
    while frame is not None:
        outermost.append(frame)
        frame = frame.f_back
    for frame in outermost[-_CONTEXT_FRAMES:]:
        for value in list(frame.f_locals.values()):
            context = _context(value)
            if context is not None and request._is_in(context):
                return True
    return False


def _context(value: object) -> contextvars.Context | None:
    """The context in which a value calls its function, if it is known to have one."""
    if type(value).__name__ == "_WorkItem":
        value = getattr(value, "fn", None)
    if type(value) is functools.partial:
        value = value.func
    if type(value) is BuiltinMethodType:
        value = value.__self__
    # `isinstance` asks a proxy for its class, and a lazy one of an application would run here.
    return value if type(value) is contextvars.Context else None
