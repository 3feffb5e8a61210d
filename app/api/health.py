"""Life, readiness and metrics; outside `/v1`, so no key is needed."""

from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, FastAPI, Request, Response
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Gauge,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from pydantic import Field
from typing_extensions import override

from app.api.problems import problem_responses
from app.api.schemas.base import ResponseModel
from app.api.serving_metrics import RealisedMetrics
from app.api.sibling_metrics import SiblingMetrics
from app.api.watching import OneReading
from app.domain.errors import NotReadyError, StorageUnavailableError
from app.domain.health import Check, FitActivity
from app.services.health import HealthService
from app.services.realised import RealisedService
from app.services.wiring import Services

router = APIRouter(tags=["health"])


class LifeOut(ResponseModel):
    """The answer of a process that lives."""

    status: str = "ok"
    version: str


class CheckOut(ResponseModel):
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str


class ReadinessOut(ResponseModel):
    """The checks of a service that can do all its work."""

    status: Annotated[str, Field(description="always `ready`; otherwise the answer is a problem")]
    checks: list[CheckOut]


class QueueMetrics(Collector):
    """What the database knows about fits, read when the metrics are.

    Nothing is told before it was read once: no fitter would be alive in a process that never
    reached the database.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._database = Gauge(
            "trainfare_database_up", "1 while the database answers.", registry=registry
        )
        registry.register(self)
        self._is_read = False
        self._found = found = CollectorRegistry()
        self._queued = Gauge("trainfare_fits_queued", "Fits that wait.", registry=found)
        self._fitters = Gauge("trainfare_fitters_alive", "Fitters that live.", registry=found)
        self._waiting = Gauge(
            "trainfare_fitters_waiting",
            "Fitters that live but wait for their Ray cluster.",
            registry=found,
        )
        self._fits = Gauge(
            "trainfare_fits_last_hour",
            "Fits asked for in the last hour by state.",
            ("state",),
            registry=found,
        )
        self._takeovers = Gauge(
            "trainfare_fit_takeovers_last_hour",
            "Fits of the last hour that were started anew because their fitter was lost.",
            registry=found,
        )
        self._duration = Gauge(
            "trainfare_fit_duration_last_hour_seconds",
            "Mean duration of the fits that were asked for in the last hour and ended.",
            registry=found,
        )
        self._wait = Gauge(
            "trainfare_fit_longest_wait_seconds",
            "How long the oldest queued fit waits.",
            registry=found,
        )
        self._realised = RealisedMetrics(found)

    def read(self, health: HealthService, realised: RealisedService) -> bool:
        """Set the gauges; return whether the database answered: else they keep what was read."""
        try:
            queued, fitters = health.count_queue()
            self._show(health.fit_activity())
            self._realised.show(realised.accuracy())
        except StorageUnavailableError:
            return False
        self._queued.set(queued)
        self._fitters.set(fitters.alive)
        self._waiting.set(fitters.waiting)
        self._is_read = True
        return True

    def tell(self, *, is_up: bool) -> None:
        """Tell whether the database answers in time."""
        self._database.set(is_up)

    @override
    def collect(self) -> Iterable[Metric]:
        return self._found.collect() if self._is_read else ()

    def _show(self, activity: FitActivity) -> None:
        for state, count in activity.by_state.items():
            self._fits.labels(state).set(count)
        self._takeovers.set(activity.takeovers)
        self._duration.set(activity.mean_duration_s or 0.0)
        self._wait.set(activity.longest_wait_s)


def install_metrics(app: FastAPI, services: Services, siblings: Path | None) -> CollectorRegistry:
    """Measure `app` in registries of its own, so that several may live in one process.

    Returns what this process counts for itself; with a folder of siblings, `/metrics` adds up what
    all of them count.
    """
    registry = app.state.metrics_registry = CollectorRegistry()
    build = Gauge("trainfare_build_info", "Always 1.", ("version",), registry=registry)
    build.labels(version("trainfare")).set(1)
    own = registry if siblings is None else CollectorRegistry()
    ProcessCollector(registry=own)
    app.state.sibling_metrics = None
    if siblings is not None:
        app.state.sibling_metrics = SiblingMetrics(own, siblings)
        registry.register(app.state.sibling_metrics)
    queue = app.state.queue_metrics = QueueMetrics(registry)
    app.state.queue_reading = OneReading(
        lambda: queue.read(services.watching_health, services.realised)
    )
    # Made when it is asked for, as all services are.
    app.state.readiness_reading = OneReading(lambda: services.watching_health.check_readiness())  # noqa: PLW0108
    return own


@router.get("/healthz", summary="Whether this process lives", responses=problem_responses())
async def life() -> LifeOut:
    return LifeOut(version=version("trainfare"))


@router.get(
    "/readyz",
    summary="Whether the service can do all its work",
    description="Database, schema and a living fitter that can compute; 503 names what is missing.",
    responses=problem_responses(NotReadyError),
)
async def readiness(request: Request) -> ReadinessOut:
    reading: OneReading[list[Check]] = request.app.state.readiness_reading
    checks = HealthService.require_ready(await reading.result())
    shown = [CheckOut(name=each.name, ok=each.is_ok, detail=each.detail) for each in checks]
    return ReadinessOut(status="ready", checks=shown)


@router.get(
    "/metrics",
    summary="Metrics of this service's web processes for Prometheus",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
        **problem_responses(),
    },
)
async def metrics(request: Request) -> Response:
    is_up: bool | None = await request.app.state.queue_reading.result()
    request.app.state.queue_metrics.tell(is_up=bool(is_up))
    document = generate_latest(request.app.state.metrics_registry)
    return Response(document, media_type=CONTENT_TYPE_LATEST)
