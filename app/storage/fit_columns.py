"""Reads runs as the columns that a fit learns from."""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, Final

from app.domain.runs import RunColumns
from app.storage.tables import RunRow

FIT_COLUMNS: Final = (
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
    RunRow.started_at,
)
"""What a fit learns from a run, in the order of `RunColumns`."""

_FIELDS: Final = tuple(field.name for field in fields(RunColumns))


def transposed(rows: Iterable[Sequence[Any]], n_columns: int) -> list[Sequence[Any]]:
    """Return the columns of rows, also of none."""
    return list(zip(*rows, strict=True)) or [()] * n_columns


def to_columns(columns: Sequence[Sequence[Any]]) -> RunColumns:
    """Return the columns named by `FIT_COLUMNS` as the domain has them."""
    named = dict(zip(_FIELDS, columns, strict=True))
    named["parameters"] = [values or {} for values in named["parameters"]]
    return RunColumns(**named)
