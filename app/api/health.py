"""Liveness, readiness and metrics; outside `/v1`, so that no key is needed."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, FastAPI, Request, Response
from pydantic import Field

from app.api.metrics.counters import MetricSources
from app.api.problems import problem_responses
from app.api.requests.routers import operation_id
from app.api.schemas.base import ResponseModel
from app.api.watching import OneReading
from app.domain.availability_errors import NotReadyError
from app.services.health import HealthService

if TYPE_CHECKING:
    from app.api.metrics.exposition import Exposition
    from app.domain.health import Check

router = APIRouter(tags=["health"], generate_unique_id_function=operation_id)


class LifeOut(ResponseModel):
    """The answer of a live process."""

    status: str = "ok"
    version: str


class CheckOut(ResponseModel):
    """The result of one check."""

    name: str
    ok: bool
    detail: str


class ReadinessOut(ResponseModel):
    """Whether the service is fully operational, with the result of each check."""

    status: Annotated[str, Field(description="always `ready`; otherwise the answer is a problem")]
    checks: list[CheckOut]


def install_health(app: FastAPI, sources: MetricSources, siblings: Path | None) -> None:
    """Set `app` up to report its readiness and its metrics.

    `siblings` is the folder in which the web processes of one port share their counts.
    """
    services = sources.services
    # A lambda: the service is created at first use, like all services.
    app.state.readiness_reading = OneReading(lambda: services.watching_health.check_readiness())  # noqa: PLW0108

    @cache
    def exposition() -> "Exposition":
        from app.api.metrics.exposition import Exposition  # noqa: PLC0415 - with the first scrape

        return Exposition(sources, siblings)

    app.state.exposition = exposition


@router.get(
    "/healthz",
    summary="Whether this process is alive",
    description="For liveness probes: it asks neither the database nor the fitters.",
    responses=problem_responses(),
)
async def life(request: Request) -> LifeOut:
    return LifeOut(version=request.app.version)


@router.get(
    "/readyz",
    summary="Whether the service can do all its work",
    description="Database, schema and a live fitter that can compute; 503 names what is missing.",
    responses=problem_responses(NotReadyError),
)
async def readiness(request: Request) -> ReadinessOut:
    reading: OneReading[list[Check]] = request.app.state.readiness_reading
    checks = HealthService.require_ready(await reading.result())
    results = [CheckOut(name=check.name, ok=check.is_ok, detail=check.detail) for check in checks]
    return ReadinessOut(status="ready", checks=results)


@router.get(
    "/metrics",
    summary="Metrics of this service's web processes for Prometheus",
    description="Requests, latency, fits, caches and, with `TRAINFARE_METRICS_WORKLOADS`, error and"
    " coverage of the busiest workloads' forecasts, in Prometheus's text format. Needs no key.",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
        **problem_responses(),
    },
)
async def metrics(request: Request) -> Response:
    exposition: Exposition = request.app.state.exposition()
    return Response(await exposition.document(), media_type=exposition.media_type)
