"""A collector of OTLP by the official definitions (opentelemetry-proto), over gRPC and HTTP.

It writes to standard error "grpc PORT", "http PORT", "app PORT", and then an object of JSON for
each span, metric and log record. The port "app" is a server behind the gateway, which records a
span of its own as a child of the one that its request names.
"""

import concurrent.futures
import http.server
import json
import secrets
import sys
import threading
import time

import grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2_grpc as logs_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as traces_grpc

writing = threading.Lock()


def tell(**what):
    with writing:
        sys.stderr.write(json.dumps(what) + "\n")
        sys.stderr.flush()


def attributes(pairs):
    def value(any_value):
        return getattr(any_value, any_value.WhichOneof("value"))

    return {pair.key: value(pair.value) for pair in pairs}


def read_traces(message, protocol):
    for of_resource in message.resource_spans:
        service = attributes(of_resource.resource.attributes)["service.name"]
        for scope in of_resource.scope_spans:
            for span in scope.spans:
                tell(
                    kind="span",
                    protocol=protocol,
                    service=service,
                    trace=span.trace_id.hex(),
                    id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    name=span.name,
                    took=span.end_time_unix_nano - span.start_time_unix_nano,
                    attributes=attributes(span.attributes),
                )
    return traces.ExportTraceServiceResponse()


def read_metrics(message, protocol):
    for of_resource in message.resource_metrics:
        service = attributes(of_resource.resource.attributes)["service.name"]
        for scope in of_resource.scope_metrics:
            for metric in scope.metrics:
                data = metric.WhichOneof("data")
                for point in getattr(metric, data).data_points:
                    row = {"attributes": attributes(point.attributes), "data": data}
                    if data == "histogram":
                        assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
                        assert sum(point.bucket_counts) == point.count
                        row["count"] = point.count
                        row["examples"] = [one.trace_id.hex() for one in point.exemplars]
                    else:
                        row["value"] = getattr(point, point.WhichOneof("value"))
                    tell(kind="metric", protocol=protocol, service=service, name=metric.name, **row)
    return metrics.ExportMetricsServiceResponse()


def read_logs(message, protocol):
    for of_resource in message.resource_logs:
        service = attributes(of_resource.resource.attributes)["service.name"]
        for scope in of_resource.scope_logs:
            for record in scope.log_records:
                tell(
                    kind="log",
                    protocol=protocol,
                    service=service,
                    severity=record.severity_text,
                    body=record.body.string_value,
                    trace=record.trace_id.hex(),
                    attributes=attributes(record.attributes),
                )
    return logs.ExportLogsServiceResponse()


class Traces(traces_grpc.TraceServiceServicer):
    def Export(self, request, context):
        return read_traces(request, "grpc")


class Metrics(metrics_grpc.MetricsServiceServicer):
    def Export(self, request, context):
        return read_metrics(request, "grpc")


class Logs(logs_grpc.LogsServiceServicer):
    def __init__(self):
        self.is_first = True

    def Export(self, request, context):
        # The exporter has to send the first batch again.
        if self.is_first:
            self.is_first = False
            context.abort(grpc.StatusCode.UNAVAILABLE, "not yet")
        return read_logs(request, "grpc")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    KINDS = {
        "/v1/traces": (traces.ExportTraceServiceRequest, read_traces),
        "/v1/metrics": (metrics.ExportMetricsServiceRequest, read_metrics),
        "/v1/logs": (logs.ExportLogsServiceRequest, read_logs),
    }

    def respond(self, content, content_type):
        self.send_response(200)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/own-span":
            # Of an application that records it without a library.
            tell(**json.loads(body))
            self.respond(b"", "text/plain")
            return
        request, read = self.KINDS[self.path]
        answer = read(request.FromString(body), "http")
        self.respond(answer.SerializeToString(), "application/x-protobuf")

    def do_GET(self):
        _, trace, parent, _ = self.headers["traceparent"].split("-")
        now = time.time_ns()
        tell(
            kind="span", protocol="own", service="app", trace=trace, id=secrets.token_hex(8),
            parent=parent, name="python", took=time.time_ns() - now, attributes={},
        )
        self.respond(b"from python", "text/plain")

    def log_message(self, *arguments):
        pass


def main():
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
    traces_grpc.add_TraceServiceServicer_to_server(Traces(), server)
    metrics_grpc.add_MetricsServiceServicer_to_server(Metrics(), server)
    logs_grpc.add_LogsServiceServicer_to_server(Logs(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stderr.write(f"grpc {port}\n")
    for name in ["http", "app"]:
        listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        sys.stderr.write(f"{name} {listener.server_port}\n")
    sys.stderr.flush()
    server.wait_for_termination()


main()
