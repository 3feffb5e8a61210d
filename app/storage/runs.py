"""The store of runs."""

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.domain.identifiers import WorkloadId
from app.domain.runs import RunColumns, RunStatus
from app.storage.tables import RunRow

_FIT_COLUMNS = (
    RunRow.id,
    RunRow.content_sha256,
    RunRow.created_at,
    RunRow.duration_seconds,
    RunRow.gpu_type,
    RunRow.instance_type,
    RunRow.nodes,
    RunRow.workers,
    RunRow.dataset_size,
    RunRow.batch_size,
    RunRow.epochs,
    RunRow.parameters,
)
_FIT_FIELDS = tuple(field.name for field in fields(RunColumns))


class RunStore:
    """Reads and writes runs in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def usable_for_fit(self, workload_id: WorkloadId, since: datetime | None = None) -> RunColumns:
        """Return the succeeded runs that nobody excluded, those stored from `since` on."""
        query = (
            sa.select(*_FIT_COLUMNS)
            .where(
                RunRow.workload_id == workload_id,
                RunRow.status == RunStatus.SUCCEEDED,
                ~RunRow.excluded,
            )
            .order_by(RunRow.id)
        )
        if since is not None:
            query = query.where(RunRow.created_at >= since)
        rows = self._session.execute(query).all()
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(_FIT_COLUMNS)
        named = dict(zip(_FIT_FIELDS, columns, strict=True))
        named["parameters"] = [values or {} for values in named["parameters"]]
        return RunColumns(**named)
