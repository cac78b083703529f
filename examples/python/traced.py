r"""Spans of the application below the span of the server, with OpenTelemetry.

    pip install opentelemetry-sdk
    tidegate run traced:app --app-dir examples/python
    curl -H 'traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' \
      http://127.0.0.1:8000/
"""

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from tidegate import tracing

# An exporter is added here: provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(TracerProvider())
tracer = trace.get_tracer(__name__)


async def page(request):
    with tracer.start_as_current_span("query the database") as span:
        return JSONResponse({"trace": f"{span.get_span_context().trace_id:032x}",
                             "parent": f"{span.parent.span_id:016x}"})


app = Starlette(routes=[Route("/", page)])
app.add_middleware(tracing.middleware)
