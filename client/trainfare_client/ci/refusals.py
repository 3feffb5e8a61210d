"""Reports which runs were refused, by their places in the caller's own files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trainfare_client.ci.sources import TableRun
from trainfare_client.errors import TrainfareError
from trainfare_client.importers.fields import is_number_field

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainfare_client.ci.sources import Run
    from trainfare_client.errors import ProblemError

_MAX_LINES: Final = 20


class RefusedRunsError(TrainfareError):
    """The service refused runs of a report; `lines` lists them, up to a limit."""

    def __init__(self, runs: Sequence[Run], error: ProblemError) -> None:
        message = f"{error.title} ({error.status} {error.code}): {error.detail}"
        super().__init__(message, str(error.document.get("remedy") or ""))
        self.lines = [_line(runs, fault) for fault in error.errors[:_MAX_LINES]]
        more = len(error.errors) - _MAX_LINES
        self.lines += [f"... and {more} more."] if more > 0 else []


def _line(runs: Sequence[Run], fault: Mapping[str, Any]) -> str:
    number, field = fault.get("row"), str(fault.get("field") or "")
    run = runs[number - 1] if number is not None and 0 < number <= len(runs) else None
    message, remedy, value = fault.get("message"), fault.get("remedy"), fault.get("value")
    if isinstance(run, TableRun) and field in run.cells:
        if isinstance(value, str) and is_number_field(field):
            # The service speaks of the JSON in which the cell was sent; the file has no types.
            message, remedy = f"{field} is not a number.", "Write a number, such as 4 or 0.5."
        value = run.cells[field]
    subject = f"{field} {value!r}" if field and value is not None else field
    place = ", ".join(part for part in (_place(run, number), subject) if part)
    explanation = " ".join(str(part) for part in (message, remedy) if part)
    return f"{place}: {explanation}" if place else explanation


def _place(run: Run | None, number: int | None) -> str:
    if isinstance(run, TableRun):
        return run.place
    if run is not None and run.get("external_id"):
        return f"run {run['external_id']}"
    return "" if number is None else f"run {number}"
