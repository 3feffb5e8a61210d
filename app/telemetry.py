"""Traces of requests and fits by OpenTelemetry: through api, services, storage and the queue."""

import inspect
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from fastapi.telemetry import TelemetryConfig
from opentelemetry import trace
from opentelemetry.trace import Span, Status, StatusCode, Tracer, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from typing_extensions import override

from app.domain.availability_errors import MissingExtraError
from app.domain.fits import ClaimedFit
from app.services.wiring import Services
from app.settings import Settings, check_endpoint
from app.storage.database import Database
from app.storage.tracing import is_traced, trace_statements

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider as SdkProvider
    from opentelemetry.util.types import AttributeValue

_logger = logging.getLogger(__name__)
_AMBIENT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
_AMBIENT_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
"""By precedence: the protocol of the collector that the environment names."""

_FLUSH_TIMEOUT_S: Final = 3.0
_NAME: Final = "trainfare"
_OFF: Final[TelemetryConfig] = {"tracing": False, "metrics": False, "logs": False}
_TRACED: Final = "/v1/"
_PROPAGATOR: Final = TraceContextTextMapPropagator()


@contextmanager
def exporting(settings: Settings) -> Iterator[TracerProvider | None]:
    """Yield the provider that exports spans by the settings, None without an endpoint.

    Flushes at the end. Without a setting spans go where the environment says that all programs send
    theirs; whoever set that may not have this program in mind, so it never prevents the start.

    Raises
    ------
    MissingExtraError
        If an endpoint is set but the exporter is not installed.
    """
    provider = _provider(settings)
    try:
        yield provider
    finally:
        if provider is not None:
            _flush(provider)


def _provider(settings: Settings) -> "SdkProvider | None":
    if settings.otlp_endpoint is not None:
        return _provider_to(settings.otlp_endpoint)
    ambient = os.environ.get(_AMBIENT)
    if not ambient or os.environ.get("OTEL_TRACES_EXPORTER") == "none":
        return None
    try:
        _require_http()
        return _provider_to(check_endpoint(ambient))
    except (MissingExtraError, ValueError) as error:
        _logger.warning("no traces", extra={"variable": _AMBIENT, "reason": str(error)})
        return None


def _require_http() -> None:
    """Raise `ValueError` if the collector of the environment does not take OTLP by HTTP."""
    for variable in _AMBIENT_PROTOCOLS:
        if protocol := os.environ.get(variable):
            if protocol != "http/protobuf":
                raise ValueError(f"{variable} is {protocol!r}, and spans are sent by http/protobuf")
            return


def _provider_to(endpoint: str) -> "SdkProvider":
    try:
        # An optional dependency: processes without traces never import it.
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider as SdkProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("otel", "TRAINFARE_OTLP_ENDPOINT") from error
    own = Resource.create({"service.name": _NAME, "service.version": version(_NAME)})
    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES tell one installation from another.
    resource = own.merge(OTELResourceDetector().detect())
    # At process exit it would wait once more for a collector that hangs.
    provider = SdkProvider(resource=resource, shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _flush(provider: "SdkProvider") -> None:
    """Send the last spans; a collector that is too slow does not delay the end."""
    thread = threading.Thread(target=provider.shutdown, daemon=True, name="traces")
    thread.start()
    thread.join(_FLUSH_TIMEOUT_S)
    if thread.is_alive():
        _logger.warning("the last spans were not sent", extra={"waited_s": _FLUSH_TIMEOUT_S})


def request_telemetry(provider: TracerProvider | None) -> TelemetryConfig:
    """Return how the web framework traces requests; free of cost where it does not."""
    if provider is None:
        return _OFF
    return {
        **_OFF,
        "tracing": True,
        "tracer_provider": _WithoutQueries(provider),
        "operation_spans": False,
        "exclude": lambda scope: not scope["path"].startswith(_TRACED),
    }


class _WithoutQueries(TracerProvider):
    """Provides tracers whose spans omit query strings, which may contain a key by mistake."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider

    @override
    def get_tracer(self, *args: Any, **kwargs: Any) -> Tracer:
        return _TracerWithoutQueries(self._provider.get_tracer(*args, **kwargs))


class _TracerWithoutQueries(Tracer):
    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    @override
    def start_span(self, name: str, *args: Any, **kwargs: Any) -> Span:
        return self._tracer.start_span(name, *args, **_without_query(kwargs))

    @override
    def start_as_current_span(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self._tracer.start_as_current_span(name, *args, **_without_query(kwargs))


def _without_query(arguments: dict[str, Any]) -> dict[str, Any]:
    attributes = arguments.get("attributes") or {}
    kept = {key: value for key, value in attributes.items() if key != "url.query"}
    return {**arguments, "attributes": kept}


def trace_database(database: Database, provider: TracerProvider) -> None:
    """Trace the statements of a database."""
    trace_statements(database.engine, provider.get_tracer(_NAME))


def trace_services(services: Services, provider: TracerProvider) -> None:
    """Trace the calls of all use cases and the statements that they cause."""
    for name in services.names():
        trace_methods(getattr(services, name), provider)
    trace_database(services.context.database, provider)


def trace_methods(service: object, provider: TracerProvider) -> None:
    """Put a span around each public method of this one object.

    Only within a trace, which requests and fits begin: background work (polling for queued fits,
    writing the ledger) has no spans.
    """
    tracer, kind = provider.get_tracer(_NAME), type(service)
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        is_static = isinstance(inspect.getattr_static(kind, name), staticmethod)
        if not name.startswith("_") and not is_static and not inspect.isasyncgenfunction(method):
            bound = getattr(service, name)
            setattr(service, name, _traced(tracer, f"{kind.__name__}.{name}", bound))


def _traced(tracer: Tracer, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        with _span(tracer, name):
            return method(*args, **kwargs)

    @wraps(method)
    async def call_async(*args: Any, **kwargs: Any) -> Any:
        with _span(tracer, name):
            return await method(*args, **kwargs)

    return call_async if inspect.iscoroutinefunction(method) else call


@contextmanager
def _span(tracer: Tracer, name: str) -> Iterator[None]:
    """Open a span; of an error it records only the class, as messages quote what callers sent."""
    if not is_traced():
        yield
        return
    with (
        tracer.start_as_current_span(
            name, record_exception=False, set_status_on_exception=False
        ) as span,
        _naming_errors(span),
    ):
        yield


@contextmanager
def _naming_errors(span: Span) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        span.set_status(Status(StatusCode.ERROR, type(error).__name__))
        raise


def report_failure(code: str) -> None:
    """Mark the current span, if there is one, as failed with a code or class of error."""
    trace.get_current_span().set_status(Status(StatusCode.ERROR, code))


@contextmanager
def fit_span(provider: TracerProvider | None, claim: ClaimedFit) -> Iterator[None]:
    """Trace one attempt of a fit as part of the request that started it."""
    if provider is None:
        yield
        return
    carrier = {} if claim.trace_parent is None else {"traceparent": claim.trace_parent}
    attributes: dict[str, AttributeValue] = {
        "trainfare.fit": claim.fit.fit_id,
        "trainfare.workload": claim.fit.workload,
        "trainfare.attempt": claim.fit.attempts,
    }
    with (
        provider.get_tracer(_NAME).start_as_current_span(
            "fit",
            context=_PROPAGATOR.extract(carrier),
            kind=trace.SpanKind.CONSUMER,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span,
        _naming_errors(span),
    ):
        yield
