"""Controls how the gateway's cache stores the responses of an application.

    from tidegate import http_cache

    application = http_cache.middleware(application)     # ASGI or WSGI

    @http_cache.stored(ttl=60, tags=lambda number: [f"product-{number}"])
    def product(number): ...

The gateway's filter ``cache`` obeys the header fields that this module sets. Browsers do not see a
lifetime: ``Cache-Control`` of the response is unchanged.
"""

import contextlib
import contextvars
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator

from tidegate._interface import is_asgi
from tidegate._wsgi import Steps
from tidegate.cache import Ttl

__all__ = ["invalidate", "middleware", "not_stored", "store", "stored"]

_CONTROL = "Tidegate-Cache-Control"
_TAGS = "Cache-Tag"
_GROUPS = "Cache-Groups"
_INVALIDATION = "Cache-Group-Invalidation"
# Only these fields make a response be stored; an error is not, whatever the view has said.
_STORING = (_CONTROL, _TAGS, _GROUPS)

_TAG = re.compile(r"[!-+\--~]+")
_GROUP = re.compile(r"[ -~]+")

Words = Iterable[str]


class _Fields(dict):
    """The fields of a response, and whether it has begun."""

    begun = False


# Of the response to the current request. It is shared by the threads and tasks that serve the
# request, since their contexts are copies.
_fields: contextvars.ContextVar[_Fields] = contextvars.ContextVar("tidegate_http_cache")


def store(
    ttl: Ttl,
    *,
    stale_while_revalidate: Ttl = None,
    stale_if_error: Ttl = None,
    tags: Words = (),
    groups: Words = (),
) -> None:
    """Lets the gateway store the response to the current request, if it is not an error.

    ``ttl`` and the two spans in which a stale response may be served (RFC 5861) are seconds or
    ``timedelta``. ``tags`` are purged by ``tidegate ctl purge --tag``, ``groups`` (RFC 9875) also
    by ``invalidate``.
    """
    _current().update(_storing(ttl, stale_while_revalidate, stale_if_error, tags, groups))


def not_stored() -> None:
    """Keeps the response to the current request out of the gateway's cache."""
    fields = _current()
    for name in _STORING:
        fields.pop(name, None)
    fields[_CONTROL] = "no-store"


def invalidate(*groups: str) -> None:
    """Removes the stored responses of these groups from the gateway's cache.

    This happens with the response to the current request, which must not be an error, and whose
    method must be an unsafe one such as POST (RFC 9875 3).
    """
    _current()[_INVALIDATION] = _strings(groups)


def stored(
    ttl: Ttl,
    *,
    stale_while_revalidate: Ttl = None,
    stale_if_error: Ttl = None,
    tags: Words | Callable[..., Words] = (),
    groups: Words | Callable[..., Words] = (),
) -> Callable:
    """Decorates a view or coroutine function as ``store`` called within it.

    ``tags`` and ``groups`` may be functions of the view's arguments. Without ``middleware`` the
    view has to return a response with ``headers``, as those of Django do.
    """

    def words(given: Words | Callable[..., Words], arguments: tuple, named: dict) -> Words:
        return given(*arguments, **named) if callable(given) else given

    def noted(result: object, arguments: tuple, named: dict) -> object:
        fields = _storing(
            ttl,
            stale_while_revalidate,
            stale_if_error,
            words(tags, arguments, named),
            words(groups, arguments, named),
        )
        found = _fields.get(None)
        headers = getattr(result, "headers", None)
        if found is not None:
            # What the view has said by itself holds.
            for name, value in fields.items() if _CONTROL not in found else ():
                found.setdefault(name, value)
        elif headers is None:
            raise _no_middleware()
        elif getattr(result, "status_code", 200) < 400:
            for name, value in fields.items():
                headers[name] = value
        return result

    def decorate(function: Callable) -> Callable:
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wrapper(*arguments, **named):
                return noted(await function(*arguments, **named), arguments, named)

        else:

            @functools.wraps(function)
            def wrapper(*arguments, **named):
                return noted(function(*arguments, **named), arguments, named)

        return wrapper

    if callable(ttl):
        raise TypeError("stored needs a ttl: @http_cache.stored(ttl=60)")
    _storing(ttl, stale_while_revalidate, stale_if_error, (), ())
    return decorate


def middleware(application: Callable) -> Callable:
    """Wraps an ASGI or WSGI application, so that its views can use this module."""
    if is_asgi(application):

        async def asgi(scope, receive, send):
            if scope["type"] != "http":
                await application(scope, receive, send)
                return
            fields = _Fields()

            async def observed(message):
                if message["type"] == "http.response.start":
                    lines = [
                        (name.lower().encode("ascii"), value.encode("ascii"))
                        for name, value in _sent(fields, message["status"])
                    ]
                    replaced = {name for name, _ in lines}
                    kept = [
                        (name, value)
                        for name, value in message.get("headers", ())
                        if bytes(name).lower() not in replaced
                    ]
                    message = {**message, "headers": kept + lines}
                await send(message)

            with _in_context(fields):
                await application(scope, receive, observed)

        return asgi

    def wsgi(environ, start_response):
        fields = _Fields()

        def observed(status, headers, *exception):
            lines = list(_sent(fields, int(status[:3])))
            replaced = {name.lower() for name, _ in lines}
            kept = [line for line in headers if line[0].lower() not in replaced]
            return start_response(status, kept + lines, *exception)

        def within(function, *arguments):
            with _in_context(fields):
                return function(*arguments)

        body = within(application, environ, observed)
        # A generator is a view that runs in its first step.
        return body if fields.begun else Steps(body, within)

    return wsgi


@contextlib.contextmanager
def _in_context(fields: _Fields) -> Iterator[None]:
    before = _fields.set(fields)
    try:
        yield
    finally:
        _fields.reset(before)


def _sent(fields: _Fields, status: int) -> Iterator[tuple[str, str]]:
    fields.begun = True
    for name, value in fields.items():
        if status < 400 or name not in _STORING or value == "no-store":
            yield name, value


def _current() -> _Fields:
    fields = _fields.get(None)
    if fields is None:
        raise _no_middleware()
    if fields.begun:
        raise RuntimeError("the response has begun: its header fields cannot change")
    return fields


def _no_middleware() -> RuntimeError:
    return RuntimeError(
        "no request is served by an application in tidegate.http_cache.middleware: wrap it, as in "
        "application = http_cache.middleware(application)"
    )


def _storing(
    ttl: Ttl, while_revalidate: Ttl, if_error: Ttl, tags: Words, groups: Words
) -> dict[str, str]:
    spans = {"max-age": ttl, "stale-while-revalidate": while_revalidate, "stale-if-error": if_error}
    parts = [f"{name}={_seconds(name, span)}" for name, span in spans.items() if span is not None]
    if ttl is None:
        raise ValueError("ttl is missing")
    fields = {_CONTROL: ", ".join(parts)}
    if words := _words(tags):
        for word in words:
            if not _TAG.fullmatch(word):
                raise ValueError(
                    f"{word!r} is not a tag: printable ASCII without spaces and commas"
                )
        fields[_TAGS] = ", ".join(words)
    if words := _words(groups):
        fields[_GROUPS] = _strings(words)
    return fields


def _seconds(name: str, span: Ttl) -> int:
    seconds = span.total_seconds() if hasattr(span, "total_seconds") else span
    if not 0 <= seconds < 2**31:
        raise ValueError(f"{name}: {span!r} is not a number of seconds from 0")
    return int(seconds)


def _words(words: Words) -> list[str]:
    if isinstance(words, str):
        raise TypeError(f"a list of words instead of {words!r}")
    return list(words)


def _strings(words: Words) -> str:
    """A list of strings (RFC 9651 3.3.3)."""
    for word in words:
        if not _GROUP.fullmatch(word):
            raise ValueError(f"{word!r} is not a group: printable ASCII")
    escaped = (re.sub(r'(["\\])', r"\\\1", word) for word in words)
    return ", ".join(f'"{word}"' for word in escaped)
