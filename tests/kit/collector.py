"""A collector of spans on this machine, as OpenTelemetry's exporters send them over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Receiver:
    """A collector on this machine: what it was sent, and what it answers."""

    def __init__(self) -> None:
        self.status = 200
        self.requests: list[tuple[str, Mapping[str, str], ExportTraceServiceRequest]] = []
        received = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                received.requests.append((self.path, dict(self.headers), ExportTraceServiceRequest.FromString(body)))
                self.send_response(received.status)
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @property
    def spans(self) -> list[Any]:
        """The spans that came, in their order."""
        resources = [resource for _, _, request in self.requests for resource in request.resource_spans]
        return [span for resource in resources for scope in resource.scope_spans for span in scope.spans]

    def resources(self, name: str) -> list[str]:
        """The values of an attribute of the resources that sent spans, `""` for those without it."""
        kept = [resource.resource.attributes for _, _, request in self.requests for resource in request.resource_spans]
        return [next((one.value.string_value for one in each if one.key == name), "") for each in kept]

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()
