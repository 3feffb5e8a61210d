"""Traces lead from a request through services and storage to the fit that it asked for."""

import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from fastapi.testclient import TestClient
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from typing_extensions import override

from app.domain.access import DEFAULT_PROJECT, Scope
from app.domain.availability_errors import StorageUnavailableError
from app.domain.fits import FitProblem
from app.domain.identifiers import Slug
from app.fitter import Fitter, run_until
from app.main import build_app
from app.services.computing.task import (
    ComputationLostError,
    FitOutcome,
    FitRefusedError,
    FitTask,
    InProcessComputer,
    OnProgress,
)
from app.services.fitting import FittingService
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from app.telemetry import exporting, request_telemetry, trace_methods
from tests.support.clock import FakeClock
from tests.support.log_lines import log_lines
from tests.support.outage import make_unavailable
from tests.support.regressors import QUICK, store_runs

pytestmark = pytest.mark.lengthy

_TRACE, _PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
_GIVEN = {"traceparent": f"00-{_TRACE}-{_PARENT}-01"}
_RUN = {"workload": "w", "duration_seconds": 10.0, "workers": 1, "external_id": "hush-hush"}
_SLUG = Slug("resnet")


class Spans:
    """The spans that ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def all(self) -> tuple[ReadableSpan, ...]:
        """Return all of them."""
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        """Return those of a name."""
        return [span for span in self.all() if span.name == name]

    def ancestry(self, span: ReadableSpan) -> list[str]:
        """Return the names from a span up to the first that is not here."""
        by_id = {each.context.span_id: each for each in self.all() if each.context}
        names, here = [], span
        while True:
            names.append(here.name)
            if here.parent is None or here.parent.span_id not in by_id:
                return names
            here = by_id[here.parent.span_id]


@pytest.fixture
def spans() -> Iterator[Spans]:
    spans = Spans()
    yield spans
    spans.provider.shutdown()


@pytest.fixture
def traced(settings: Settings, services: Services, spans: Spans) -> Iterator[TestClient]:
    app = build_app(settings, services, tracing=spans.provider)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


def test_statement_is_traced_up_to_the_request_that_caused_it(
    traced: TestClient, spans: Spans
) -> None:
    answer = traced.post("/v1/runs", json=_RUN, headers=_GIVEN)

    names = spans.ancestry(spans.named("INSERT")[0])
    [request] = spans.named("POST /v1/runs")
    assert answer.headers["x-request-id"] == _TRACE
    assert names == ["INSERT", "UploadService.upload", "POST /v1/runs"]
    assert {f"{span.context.trace_id:032x}" for span in spans.all() if span.context} == {_TRACE}
    assert request.parent is not None
    assert f"{request.parent.span_id:016x}" == _PARENT


def test_fit_is_part_of_the_trace_that_asked_for_it(
    traced: TestClient, services: Services, spans: Spans
) -> None:
    store_runs(services.context, _SLUG)
    fit = traced.post(f"/v1/workloads/{_SLUG}/fits", json={"regressors": ["log_linear"]}).json()
    fitting = FittingService(services.context)
    trace_methods(fitting, spans.provider)
    settings = services.context.settings
    fitter = Fitter(fitting, InProcessComputer(), settings, tracing=spans.provider)

    with log_lines() as lines:
        fitter.step()

    [span] = spans.named("fit")
    assert span.attributes is not None
    assert span.attributes["trainfare.fit"] == fit["fit_id"]
    assert spans.ancestry(spans.named("FittingService.publish")[0]) == [
        "FittingService.publish",
        "fit",
        "FitService.request_fit",
        "POST /v1/workloads/{workload}/fits",
    ]
    assert span.context is not None
    traces = {event.get("trace_id") for event in lines.events if event["event"] != "fit claimed"}
    assert f"{span.context.trace_id:032x}" in traces


def test_fit_that_no_trace_asked_for_begins_its_own(services: Services, spans: Spans) -> None:
    store_runs(services.context, _SLUG)
    services.fits.request_fit(DEFAULT_PROJECT, _SLUG, QUICK)

    Fitter(
        FittingService(services.context),
        InProcessComputer(),
        services.context.settings,
        tracing=spans.provider,
    ).step()

    [span] = spans.named("fit")
    assert span.parent is None


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (FitRefusedError(FitProblem("hushed", "hush-hush")), "hushed"),
        (ComputationLostError("hush-hush"), "ComputationLostError"),
        (ZeroDivisionError("hush-hush"), "internal"),
        (StorageUnavailableError("hush-hush"), "StorageUnavailableError"),
    ],
)
def test_fit_that_fails_is_told_by_a_code_or_class(
    services: Services, spans: Spans, error: Exception, told: str
) -> None:
    class Failing(InProcessComputer):
        @override
        def compute(self, task: FitTask, on_progress: OnProgress) -> FitOutcome:
            raise error

    store_runs(services.context, _SLUG)
    services.fits.request_fit(DEFAULT_PROJECT, _SLUG, QUICK)
    fitter = Fitter(
        FittingService(services.context),
        Failing(),
        services.context.settings,
        tracing=spans.provider,
    )

    with suppress(StorageUnavailableError):
        fitter.step()

    [span] = spans.named("fit")
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, told)
    assert "hush-hush" not in span.to_json()


def test_fitter_traces_itself_where_it_is_told_to(
    services: Services, spans: Spans, database: Database
) -> None:
    stop = threading.Event()
    stop.set()

    run_until(stop, services.context, spans.provider)
    while_idle = spans.all()
    with spans.provider.get_tracer("test").start_as_current_span("asked for"):
        run_until(stop, services.context, spans.provider)

    assert while_idle == ()
    assert spans.ancestry(spans.named("DELETE")[-1]) == [
        "DELETE",
        "FittingService.gone",
        "asked for",
    ]


def test_what_nobody_asked_for_has_no_trace(
    traced: TestClient, services: Services, spans: Spans
) -> None:
    fitting = FittingService(services.context)
    trace_methods(fitting, spans.provider)

    claim = fitting.claim("idle")
    services.ledger.flush()

    assert claim is None
    assert spans.all() == ()


def test_forecast_is_called_by_its_route_and_queries_are_not_told(
    traced: TestClient, spans: Spans
) -> None:
    traced.post("/v1/forecasts", json={"workload": "nobody"})
    traced.get("/v1/workloads?token=tf_insecret")

    [span] = spans.named("POST /v1/forecasts")
    assert span.attributes is not None
    assert span.attributes["http.route"] == "/v1/forecasts"
    assert spans.named("GET /v1/workloads")
    assert not any("tf_insecret" in each.to_json() for each in spans.all())


def test_spans_tell_neither_values_nor_keys(
    traced: TestClient, services: Services, spans: Spans
) -> None:
    _, token = services.access.create_key("ci", [Scope.ADMIN])
    bearer = {"Authorization": f"Bearer {token}"}
    traced.post("/v1/runs", json=_RUN, headers=bearer)
    traced.post("/v1/runs", json={**_RUN, "duration_seconds": 11.0}, headers=bearer)

    told = "".join(span.to_json() for span in spans.all())
    failed = [span.status.description for span in spans.named("UploadService.upload")]
    assert failed == [None, "RunConflictError"]
    assert "hush-hush" not in told
    assert token.rpartition("_")[2] not in told


def test_statement_that_fails_is_told(
    traced: TestClient, services: Services, spans: Spans, clock: FakeClock
) -> None:
    if not services.context.database.is_sqlite:
        pytest.skip("without its tables every statement of SQLite fails")
    make_unavailable(services.context.database)

    traced.get("/v1/workloads")

    assert spans.named("SELECT")[-1].status.description == "OperationalError"


@pytest.mark.parametrize(
    "path", ["/healthz", "/readyz", "/metrics", "/", "/docs", "/openapi.json", "/none", "/v1"]
)
def test_only_what_lies_below_the_base_path_is_traced(
    traced: TestClient, spans: Spans, path: str
) -> None:
    traced.get(path)

    assert not [span for span in spans.all() if "/" in span.name]


def test_without_a_collector_nothing_is_wrapped(
    client: TestClient, services: Services, settings: Settings
) -> None:
    with exporting(settings) as provider:
        assert provider is None
    assert "upload" not in vars(services.uploads)


def test_no_span_of_a_request_tells_its_query() -> None:
    spans, attributes = Spans(), {"url.query": "key=hush-hush", "url.path": "/v1/runs"}
    provider = request_telemetry(spans.provider)["tracer_provider"]
    assert provider is not None
    tracer = provider.get_tracer("web")

    tracer.start_span("first", attributes=attributes).end()
    with tracer.start_as_current_span("second", attributes=attributes):
        pass

    assert [span.attributes for span in spans.all()] == [{"url.path": "/v1/runs"}] * 2
