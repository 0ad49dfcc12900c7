"""A collector of spans: OTLP over HTTP, in a thread of this process."""

import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Collected:
    """One span, with its ids in hexadecimal, and the process that it came from."""

    name: str
    process: str
    trace: str
    id: str
    parent: str
    links: tuple[str, ...]
    said: dict[str, Any]
    began: int
    ended: int


class Collector:
    """Takes spans until it is closed; `url` is what OTEL_EXPORTER_OTLP_ENDPOINT is to be."""

    def __init__(self) -> None:
        self.spans: list[Collected] = []
        taken = self._taken

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                taken(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Take no more."""
        self._server.shutdown()
        self._server.server_close()

    def of(self, conversation_id: str) -> list[Collected]:
        """The spans of a conversation, in the order in which they began."""
        found = [span for span in self.spans if span.said.get("gen_ai.conversation.id") == conversation_id]
        return sorted(found, key=lambda span: span.began)

    def _taken(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            process = _said(resource.resource.attributes)["service.instance.id"]
            for scope in resource.scope_spans:
                self.spans += [
                    Collected(
                        name=span.name,
                        process=process,
                        trace=span.trace_id.hex(),
                        id=span.span_id.hex(),
                        parent=span.parent_span_id.hex(),
                        links=tuple(link.span_id.hex() for link in span.links),
                        said=_said(span.attributes),
                        began=span.start_time_unix_nano,
                        ended=span.end_time_unix_nano,
                    )
                    for span in scope.spans
                ]


def _said(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}
