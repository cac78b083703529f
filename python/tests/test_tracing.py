"""tidegate.tracing: the trace of a request is the current one of OpenTelemetry."""

import asyncio
import json
import logging

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from hosting import IS_BEHIND_GATEWAY, KIND

if KIND != "tidegate" or IS_BEHIND_GATEWAY:
    pytest.skip("a module of ours", allow_module_level=True)

from tidegate import tracing

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
FIELDS = [("traceparent", f"00-{TRACE}-{PARENT}-01"), ("tracestate", "a=1"), ("tracestate", "b=2")]
TRACER = TracerProvider().get_tracer("tests")


def position():
    current = trace.get_current_span().get_span_context()
    with TRACER.start_as_current_span("view") as span:
        logging.getLogger("view").warning("noted")
        parent = span.parent and f"{span.parent.span_id:016x}"
        inner = f"{span.get_span_context().trace_id:032x}"
    return [f"{current.trace_id:032x}", parent, inner == f"{current.trace_id:032x}",
            current.trace_state.to_header()]


async def view(scope, receive, send):
    if scope["type"] != "http":
        raise RuntimeError("no lifespan")
    before = position()
    await asyncio.sleep(0)
    assert position()[:2] == before[:2]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps(before).encode()})


def wsgi_view(environ, start_response):
    before = position()
    start_response("200 OK", [])
    if environ["PATH_INFO"] == "/list":
        return [json.dumps(before).encode()]

    def steps():
        yield json.dumps(before).encode() + b"\n"
        yield json.dumps(position()).encode()

    return steps()


app = tracing.middleware(view)
wsgi = tracing.middleware(wsgi_view)

KINDS = pytest.mark.parametrize(
    "target, options", [("app", {}), ("wsgi", {}), ("wsgi", {"threads": "gevent"})],
    ids=["asgi", "wsgi", "gevent"])


@KINDS
def test_spans_of_a_view_are_children_of_the_servers(start_server, target, options):
    interface = "asgi" if target == "app" else "wsgi"
    server = start_server(f"test_tracing:{target}", interface, **options)
    for path in ("/list", "/steps"):
        lines = server.get(path, FIELDS).body.splitlines()
        assert lines
        for line in lines:
            assert json.loads(line)[:3] == [TRACE, PARENT, True]
    assert json.loads(lines[0])[3] == "a=1,b=2"
    server.line(f"noted .*logger=view trace_id={TRACE} span_id=[0-9a-f]{{16}}$")
    # The next request of the same thread or Task has another one, or none.
    assert json.loads(server.get("/list").body)[0] == "0" * 32
