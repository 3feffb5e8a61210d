"""Translates rows of runs into the domain."""

from dataclasses import replace
from typing import Any, Final

import sqlalchemy as sa

from app.domain.configurations import Configuration, Purchase, Scenario, Work
from app.domain.identifiers import ForecastId, RunId, Slug
from app.domain.runs import Money, Run, RunStatus
from app.storage.tables import RunRow

IS_USABLE: Final = (RunRow.status == RunStatus.SUCCEEDED, ~RunRow.excluded)
"""The runs whose durations a fit may learn from."""

SCENARIO: Final = (
    RunRow.gpu_type,
    RunRow.instance_type,
    RunRow.provider,
    RunRow.region,
    RunRow.purchase,
    RunRow.nodes,
    RunRow.workers,
    RunRow.dataset_size,
    RunRow.batch_size,
    RunRow.epochs,
    RunRow.parameters,
)
"""The columns of `scenario_of`."""


MEASURED: Final = (
    RunRow.id,
    RunRow.status,
    RunRow.duration_seconds,
    RunRow.created_at,
    RunRow.started_at,
    RunRow.forecast_id,
    *SCENARIO,
)
"""The columns of `to_measured_run`."""


def to_run(row: RunRow, slug: str) -> Run:
    """Return the run of a row."""
    return replace(
        to_measured_run(row, slug),
        external_id=row.external_id,
        progress=row.progress,
        phases=row.phases or {},
        resources=row.resources or {},
        cost=_cost(row),
        labels=row.labels or {},
        excluded=row.excluded,
        excluded_reason=row.excluded_reason,
    )


def to_measured_run(row: RunRow | sa.Row[*tuple[Any, ...]], slug: str) -> Run:
    """Return the run of a row with the columns of `MEASURED`, which are those of its duration."""
    return Run(
        run_id=RunId(row.id),
        workload=Slug(slug),
        status=RunStatus(row.status),
        duration_seconds=row.duration_seconds,
        scenario=scenario_of(row),
        created_at=row.created_at,
        started_at=row.started_at,
        forecast_id=None if row.forecast_id is None else ForecastId(row.forecast_id),
    )


def scenario_of(row: RunRow | sa.Row[*tuple[Any, ...]]) -> Scenario:
    """Return the scenario of a row with the columns of `SCENARIO`."""
    return Scenario(_configuration(row), _work(row), row.parameters or {})


def _configuration(row: RunRow | sa.Row[*tuple[Any, ...]]) -> Configuration:
    return Configuration(
        gpu_type=row.gpu_type,
        instance_type=row.instance_type,
        provider=row.provider,
        region=row.region,
        purchase=None if row.purchase is None else Purchase(row.purchase),
        nodes=row.nodes,
        workers=row.workers,
    )


def _work(row: RunRow | sa.Row[*tuple[Any, ...]]) -> Work:
    return Work(row.dataset_size, row.batch_size, row.epochs)


def _cost(row: RunRow) -> Money | None:
    if row.cost_amount is None or row.cost_currency is None:
        return None
    return Money(row.cost_amount, row.cost_currency)
