"""Conditions by which runs are selected."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from app.domain.identifiers import WorkloadId, earliest_identifier
from app.domain.runs import RunFilter, RunStatus
from app.storage.run_rows import IS_USABLE
from app.storage.tables import RunRow

IS_UNUSABLE: Final = sa.or_(RunRow.status != sa.literal_column("'succeeded'"), RunRow.excluded)
"""The runs whose durations a fit may not learn from, as the partial index of these words it: a
query that says so besides what it asks reads only them."""


def usable(workload_id: WorkloadId) -> tuple[sa.ColumnElement[bool], ...]:
    """Select the runs of a workload whose duration a fit may use."""
    return (RunRow.workload_id == workload_id, *IS_USABLE)


def stored_since(since: datetime | None) -> Iterator[sa.ColumnElement[bool]]:
    """Select runs that were stored at or after an instant; None is the beginning of time."""
    if since is not None:
        # Identifiers sort by creation: the index of a workload's runs finds the new ones.
        yield RunRow.id >= earliest_identifier("run", since)
        yield RunRow.created_at >= since


def made_since(since: datetime | None) -> Iterator[sa.ColumnElement[bool]]:
    """Select runs by their start, where it is known, as change points are found."""
    if since is not None:
        # No run is stored before it starts.
        yield from stored_since(since)
        yield sa.func.coalesce(RunRow.started_at, RunRow.created_at) >= since


def conditions_of(wanted: RunFilter) -> Iterator[sa.ColumnElement[bool]]:
    """Select what a list of runs is to contain."""
    if wanted.excluded or wanted.status not in {None, RunStatus.SUCCEEDED}:
        yield IS_UNUSABLE
    if wanted.status is not None:
        yield RunRow.status == wanted.status
    if wanted.gpu_types:
        yield RunRow.gpu_type.in_(wanted.gpu_types)
    if wanted.created_after is not None:
        # An identifier is made when an upload has its locks, after the instant of its runs.
        yield RunRow.id >= earliest_identifier("run", wanted.created_after)
        yield RunRow.created_at > wanted.created_after
    if wanted.created_before is not None:
        yield RunRow.created_at < wanted.created_before
    if wanted.excluded is not None:
        yield RunRow.excluded == wanted.excluded
