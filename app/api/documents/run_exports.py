"""Exports runs as CSV that can be uploaded again."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final

from app.api.schemas.quantities import money_text, plain_number
from app.domain.instants import instant_text
from app.domain.runs import Run
from app.services.uploads.fields import EXCLUSION
from app.services.uploads.flat import FlatValue, flat_run
from app.services.uploads.formulas import guard_formula

_NO_REASON: Final = "no reason was given"
"""The reason written for a run that was excluded without one."""


def csv_blocks(columns: Sequence[str], pages: Iterable[Sequence[Run]]) -> Iterator[bytes]:
    """Yield a CSV file block by block: the header, then the rows of each page."""
    yield _block([list(columns)])
    for runs in pages:
        yield _block([_row(run, columns) for run in runs])


def _block(rows: Iterable[Sequence[str]]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue().encode()


def _row(run: Run, columns: Sequence[str]) -> list[str]:
    flat: dict[str, FlatValue] = {"workload": run.workload, **flat_run(run)}
    if run.external_id is not None:
        flat["external_id"] = run.external_id
    if run.excluded:
        flat[EXCLUSION] = run.excluded_reason or _NO_REASON
    return [_cell(flat.get(column)) for column in columns]


def _cell(value: FlatValue | None) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return instant_text(value)
    if isinstance(value, Decimal):
        return money_text(value)
    return guard_formula(value) if isinstance(value, str) else repr(plain_number(value))
