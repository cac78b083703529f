"""The flame graph of one request, instead of its response, for a client that has the token.

The request is sampled every millisecond while the application handles it as any other. A sample
weighs the time since the one before: the width of a frame is time, running or waiting.
"""

import asyncio
import hmac
import html
import threading
import time
from collections.abc import Callable
from http import HTTPStatus

from tidegate import _errors, _running

FIELD = "tidegate-profile"
_INTERVAL = 0.001
#: The time after which no more samples are taken, and the nodes of a graph.
_SECONDS_MAX = 300.0
_NODES_MAX = 20_000

_WIDTH, _ROW, _TOP = 1200, 17, 40
#: Narrower frames are not drawn.
_NARROWEST = 0.3


class Node:
    """A frame of a flame graph: the time in it and in those that it called."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.children: dict[tuple[str, bool], Node] = {}


class Profile:
    """Samples of one request."""

    def __init__(self, request: _running.Request) -> None:
        self.request = request
        self.root = Node()
        self.samples = 0
        self._nodes = 0
        self._ended = False

    def start(self) -> None:
        _running.start_thread(self._run)

    def end(self) -> None:
        self._ended = True

    def _run(self) -> None:
        last = time.perf_counter()
        until = last + _SECONDS_MAX
        while not self._ended and last < until:
            _running.sleep(_INTERVAL)
            if self._ended:
                break
            stack, runs = self.request.stack()
            now = time.perf_counter()
            self._add(stack, runs, now - last)
            last = now

    def _add(self, stack: list[_running.Frame], runs: bool, seconds: float) -> None:
        node = self.root
        node.seconds += seconds
        self.samples += 1
        for file, _, name in stack:
            key = (f"{name} ({_running.short(file)})", runs)
            child = node.children.get(key)
            if child is None:
                if self._nodes >= _NODES_MAX:
                    return
                self._nodes += 1
                child = node.children[key] = Node()
            child.seconds += seconds
            node = child

    def folded(self) -> str:
        """Stacks with their microseconds, a line each, for `flamegraph.pl` or speedscope."""
        lines: list[str] = []

        def walk(node: Node, names: tuple[str, ...]) -> None:
            own = node.seconds - sum(child.seconds for child in node.children.values())
            if names and own > 0:
                lines.append(f"{';'.join(names)} {round(own * 1e6)}")
            for (name, runs), child in node.children.items():
                word = name.replace(";", ":").replace("\n", " ")
                walk(child, (*names, word if runs else f"{word} [waits]"))

        walk(self.root, ())
        return "\n".join(lines) + "\n"

    def svg(self, status: int) -> str:
        """The picture: innermost frames at the bottom."""
        total = max(self.root.seconds, 1e-9)
        shapes: list[str] = []
        depths = [0]

        def draw(node: Node, left: float, depth: int) -> None:
            for (name, runs), child in node.children.items():
                width = child.seconds / total * _WIDTH
                if width >= _NARROWEST:
                    depths.append(depth + 1)
                    shapes.append(_shape(name, runs, child.seconds, total, left, width, depth))
                    draw(child, left, depth + 1)
                left += width

        draw(self.root, 0.0, 0)
        height = _TOP + (max(depths) + 1) * _ROW
        title = (f"{self.request.method} {self.request.path}: {status}, {total * 1e3:.1f} ms, "
                 f"{self.samples} samples; red runs, blue waits")
        # A control character cannot be in XML.
        title = html.escape("".join(c if c.isprintable() else "?" for c in title))
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
                f'font-family="monospace" font-size="12"><rect width="100%" height="100%" '
                f'fill="#fff"/><text x="4" y="24" font-size="15">{title}</text>'
                f'{"".join(shapes)}</svg>\n')


def _shape(name: str, runs: bool, seconds: float, total: float, left: float, width: float,
           depth: int) -> str:
    shade = hash(name) % 40
    colour = f"hsl({shade}, 85%, 68%)" if runs else f"hsl({205 + shade // 2}, 70%, 78%)"
    top = _TOP + depth * _ROW
    letters = int((width - 4) / 7.3)
    text = name if len(name) <= letters else name[:max(letters - 1, 0)] + "…"
    text = f'<text x="{left + 3:.1f}" y="{top + 12}">{html.escape(text)}</text>'
    note = html.escape(f"{name}: {seconds * 1e3:.1f} ms, {seconds / total:.1%}"
                       f"{'' if runs else ', waiting'}")
    return (f'<g><title>{note}</title><rect x="{left:.1f}" y="{top}" width="{width:.1f}" '
            f'height="{_ROW - 1}" fill="{colour}"/>{text if letters > 2 else ""}</g>')


class Profiler:
    """Samples requests that have the token, one at a time."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._busy = threading.Lock()

    def _is_allowed(self, given: bytes) -> bool:
        return hmac.compare_digest(given, self._token)

    def _result(self, profile: Profile, status: int, accept: str) -> tuple[str, bytes]:
        if "text/plain" in accept:
            return "text/plain; charset=utf-8", profile.folded().encode()
        return "image/svg+xml; charset=utf-8", profile.svg(status).encode()

    def _fields(self, kind: str, body: bytes, status: int) -> list[tuple[str, str]]:
        return [("content-type", kind), ("content-length", str(len(body))),
                ("cache-control", "no-store"), ("tidegate-profile-status", str(status))]

    def asgi(self, application: Callable) -> Callable:
        """An ASGI application around another one."""
        field = FIELD.encode()

        async def observed(scope, receive, send):
            given = None
            if scope["type"] == "http":
                given = next((value for name, value in scope["headers"] if name == field), None)
            if given is None:
                await application(scope, receive, send)
                return
            headers = [line for line in scope["headers"] if line[0] != field]
            scope = {**scope, "headers": headers}
            if not self._is_allowed(given) or not self._busy.acquire(blocking=False):
                await application(scope, receive, send)
                return
            try:
                await self._profile(application, scope, receive, send)
            finally:
                self._busy.release()

        return observed

    async def _profile(self, application: Callable, scope: dict, receive, send) -> None:
        status = 500

        async def sends(message):
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]

        request = _running.Request(scope, asyncio.get_running_loop())
        profile = Profile(request)
        profile.start()
        try:
            await request.wait_for(application, scope, receive, sends)
        except Exception as error:
            _errors.log("ASGI", error, _errors.trace_id(scope))
        finally:
            profile.end()
        accept = b",".join(value for name, value in scope["headers"] if name == b"accept")
        kind, body = self._result(profile, status, accept.decode("latin-1"))
        fields = [(name.encode(), value.encode())
                  for name, value in self._fields(kind, body, status)]
        await send({"type": "http.response.start", "status": 200, "headers": fields})
        await send({"type": "http.response.body", "body": body})

    def wsgi(self, application: Callable) -> Callable:
        """A WSGI application around another one."""
        variable = "HTTP_" + FIELD.upper().replace("-", "_")

        def observed(environ, start_response):
            given = environ.pop(variable, None)
            if (given is None or not self._is_allowed(given.encode("latin-1"))
                    or not self._busy.acquire(blocking=False)):
                return application(environ, start_response)
            try:
                kind, body, status = self._profile_wsgi(application, environ)
            finally:
                self._busy.release()
            start_response(f"200 {HTTPStatus.OK.phrase}", self._fields(kind, body, status))
            return [body]

        return observed

    def _profile_wsgi(self, application: Callable, environ: dict) -> tuple[str, bytes, int]:
        status = 500

        def starts(line, headers, exc_info=None):
            nonlocal status
            status = int(line[:3])
            return lambda data: None

        request = _running.Request(environ, None)
        profile = Profile(request)
        profile.start()
        try:
            request.call(_consume, application, environ, starts)
        except Exception as error:
            _errors.log("WSGI", error, _errors.trace_id(environ))
        finally:
            profile.end()
        kind, body = self._result(profile, status, environ.get("HTTP_ACCEPT", ""))
        return kind, body, status


def _consume(application: Callable, environ: dict, start_response: Callable) -> None:
    body = application(environ, start_response)
    try:
        for _ in body:
            pass
    finally:
        if hasattr(body, "close"):
            body.close()
