"""Spans are sent to a collector that the settings or the environment name."""

import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from fastapi.testclient import TestClient
from opentelemetry.sdk.trace import TracerProvider
from typing_extensions import override

from app.main import build_app
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from app.telemetry import exporting

pytestmark = pytest.mark.lengthy


class Collector(HTTPServer):
    """Receives what an exporter sends."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _CollectorHandler)
        self.paths: list[str] = []


class _CollectorHandler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        """Take a batch of spans."""
        assert isinstance(self.server, Collector)
        self.server.paths.append(self.path)
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_spans_are_sent_to_the_collector_of_the_settings(
    settings: Settings, database: Database
) -> None:
    with Collector() as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{collector.server_port}"
        changed = settings.model_copy(update={"otlp_endpoint": endpoint})
        app = build_app(changed, Services(ServiceContext(database, changed)))
        with TestClient(app) as client:
            client.get("/v1/workloads")
        collector.shutdown()

    assert collector.paths == ["/v1/traces"]


def test_spans_go_where_the_environment_says_without_a_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Collector() as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{collector.server_port}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        with exporting(Settings()) as provider:
            assert provider is not None
            provider.get_tracer("test").start_span("any").end()
        collector.shutdown()

    assert collector.paths == ["/v1/traces"]


@pytest.mark.parametrize(
    ("endpoint", "protocol", "reason"),
    [
        ("localhost:4317", "", "'localhost:4317' is neither http://"),
        ("http://127.0.0.1:1", "grpc", "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'"),
    ],
)
def test_an_endpoint_of_the_environment_that_is_no_use_stops_nothing(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    endpoint: str,
    protocol: str,
    reason: str,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)

    with exporting(Settings()) as provider:
        assert provider is None

    [told] = [vars(record) for record in caplog.records if record.message == "no traces"]
    assert told["variable"] == "OTEL_EXPORTER_OTLP_ENDPOINT"
    assert told["reason"].startswith(reason)


def test_environment_that_sends_no_traces_is_obeyed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")

    with exporting(Settings()) as provider:
        assert provider is None

    assert caplog.records == []


def test_protocol_of_traces_goes_before_that_of_all_signals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf")

    with exporting(Settings()) as provider:
        assert provider is not None


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("OTEL_SERVICE_NAME", "fare-staging", {"service.name": "fare-staging"}),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.version=9,a=b", {"service.version": "9", "a": "b"}),
        ("OTEL_SERVICE_NAME", "", {"service.name": "trainfare"}),
    ],
)
def test_environment_names_the_installation(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, told: dict[str, str]
) -> None:
    monkeypatch.setenv(variable, value)

    with exporting(Settings(otlp_endpoint="http://127.0.0.1:1")) as provider:
        assert isinstance(provider, TracerProvider)
        attributes = dict(provider.resource.attributes)

    assert told.items() <= attributes.items()
    assert {"service.name", "service.version"} <= attributes.keys()


def test_a_collector_that_hangs_holds_up_no_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("app.telemetry._FLUSH_TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with exporting(Settings(otlp_endpoint=address)) as provider:
            assert provider is not None
            provider.get_tracer("test").start_span("any").end()

    assert "the last spans were not sent" in [record.message for record in caplog.records]


def test_endpoint_without_the_extra_is_refused_with_a_remedy() -> None:
    program = (
        "import sys; sys.modules['opentelemetry.sdk'] = None\n"
        "from app.settings import Settings\n"
        "from app.telemetry import exporting\n"
        "exporting(Settings(otlp_endpoint='http://127.0.0.1:1')).__enter__()"
    )

    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert "the extra 'otel'" in process.stderr
