"""The flat form of a run: as a CSV row states it, and as two versions of a run are compared."""

from datetime import datetime
from decimal import Decimal
from typing import Final

import orjson

from app.domain.flat_fields import CONFIGURATION, PARAMETER, WORK
from app.domain.runs import Run, RunContent
from app.services.uploads.fields import FAMILIES, LABEL, PHASE, RESOURCE

FlatValue = str | float | Decimal | datetime
FLAT_FIELDS: Final = (
    "status",
    "duration_seconds",
    "progress",
    "started_at",
    *CONFIGURATION,
    *WORK,
    "cost_amount",
    "cost_currency",
    "forecast_id",
)


def flat_run(run: Run) -> dict[str, FlatValue]:
    """Return the fields of a stored run that have a value, except its names and its exclusion."""
    configuration, work = run.scenario.configuration, run.scenario.work
    plain: dict[str, FlatValue | None] = {
        "status": str(run.status),
        "duration_seconds": run.duration_seconds,
        "progress": run.progress,
        "started_at": run.started_at,
        "gpu_type": configuration.gpu_type,
        "instance_type": configuration.instance_type,
        "provider": configuration.provider,
        "region": configuration.region,
        "purchase": None if configuration.purchase is None else str(configuration.purchase),
        "nodes": configuration.nodes,
        "workers": configuration.workers,
        "dataset_size": work.dataset_size,
        "batch_size": work.batch_size,
        "epochs": work.epochs,
        "cost_amount": run.cost.amount if run.cost else None,
        "cost_currency": run.cost.currency if run.cost else None,
        "forecast_id": run.forecast_id,
    }
    families = (
        (PARAMETER, run.scenario.parameters),
        (PHASE, run.phases),
        (RESOURCE, run.resources),
        (LABEL, run.labels),
    )
    # 2**60 is stored as 1.152921504606847e+18, which PostgreSQL returns as an integer of its own.
    members = {
        family + name: value if isinstance(value, str) else float(value)
        for family, group in families
        for name, value in group.items()
    }
    return {name: value for name, value in plain.items() if value is not None} | members


def flat_content(content: RunContent, index: int) -> dict[str, FlatValue]:
    """Return the fields of one run of an upload that have a value."""
    flat: dict[str, FlatValue] = {}
    for name in FLAT_FIELDS:
        column = getattr(content, name)
        if column is not None and column[index] is not None:
            flat[name] = column[index]
    for name, family in FAMILIES.items():
        column = getattr(content, name)
        if column is not None and column[index] is not None:
            flat.update({family + key: value for key, value in orjson.loads(column[index]).items()})
    return flat
