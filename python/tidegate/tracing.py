"""The position of a request in its trace, for OpenTelemetry in the application.

    from tidegate import tracing

    application = tracing.middleware(application)       # ASGI or WSGI

Within a request, the current span of OpenTelemetry is then the server's (or, without tracing in the
server, the client's): spans that a view begins, and instrumentations of clients and databases, are
its children, and `traceparent` of the requests that they send names the same trace. The context is
attached for the time of the call and belongs to no other request.

``opentelemetry.instrumentation`` packages for ASGI, Django, Flask and FastAPI read the field of the
request themselves and need no middleware.
"""

from collections.abc import Callable

from tidegate._interface import is_asgi
from tidegate._wsgi import Steps

__all__ = ["middleware"]


def middleware(application: Callable) -> Callable:
    """Wraps an ASGI or WSGI application; needs ``opentelemetry-api``."""
    from opentelemetry import context, propagate

    def extracted(fields: dict[str, str]):
        return propagate.extract(fields, context.Context())

    if is_asgi(application):

        async def asgi(scope, receive, send):
            if scope["type"] not in ("http", "websocket"):
                await application(scope, receive, send)
                return
            token = context.attach(extracted(_asgi_fields(scope["headers"])))
            try:
                await application(scope, receive, send)
            finally:
                context.detach(token)

        return asgi

    def wsgi(environ, start_response):
        given = extracted({name[5:].replace("_", "-").lower(): value
                           for name, value in environ.items() if name.startswith("HTTP_")})

        def within(function, *arguments):
            token = context.attach(given)
            try:
                return function(*arguments)
            finally:
                context.detach(token)

        body = within(application, environ, start_response)
        # These run no code of the application.
        if isinstance(body, list | tuple) or type(body) is environ.get("wsgi.file_wrapper"):
            return body
        return Steps(body, within)

    return wsgi


def _asgi_fields(headers) -> dict[str, str]:
    """The fields of a request, with repeated ones joined, as RFC 9110 5.3 has it."""
    fields: dict[str, str] = {}
    for name, value in headers:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        fields[key] = f"{fields[key]},{text}" if key in fields else text
    return fields
