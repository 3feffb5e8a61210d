"""The runs of a CI report: read from files, or from the spool that collectors write."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trainfare_client.categories import number_as_text
from trainfare_client.errors import UploadFileError
from trainfare_client.requests import encoded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trainfare_client.errors import ProblemError

Run = dict[str, Any]

_TEXT_FIELDS: Final = frozenset(
    {
        "workload", "external_id", "run_id", "status", "gpu_type", "instance_type", "provider",
        "region", "purchase", "framework", "started_at", "ended_at", "cost_usd", "cost_amount",
        "cost_currency", "forecast_id", "excluded_reason",
    }
)  # fmt: skip
_LABEL_PREFIX: Final = "label."
_PARAMETER_PREFIX: Final = "param."
_ABSENCE: Final = frozenset({"na", "n/a", "#n/a", "nan", "null", "-", "--", "?"})
"""Cells that the service refuses among numbers, since they mean that there is no value."""
_SCHEMA_DRIFT: Final = "schema_drift"
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)


class TableRun(Run):
    """A run from a CSV file; `cells` holds the original texts, since cells have no types.

    `place` names file and row, counted from 1 without the header.
    """

    def __init__(self, cells: Mapping[str, str], place: str) -> None:
        super().__init__({name: _typed(name, cell) for name, cell in cells.items()})
        self.cells, self.place = cells, place

    def copied(self) -> TableRun:
        """Return an equal run."""
        copy = TableRun(self.cells, self.place)
        copy.update(self)
        return copy

    def change_type(self, name: str) -> bool:
        """Make a number a text or, if it is one, a text a number; return whether it changed."""
        value, cell = self[name], self.cells[name]
        self[name] = _typed(name, cell) if isinstance(value, str) else cell
        return bool(self[name] != value)


class CollectedRun(Run):
    """A run that a collector kept in the spool."""


def with_categories(runs: Sequence[Run], error: ProblemError) -> list[Run] | None:
    """Return the runs, with the cells that an error names in the other type.

    A column of numbers in CSV files is sent as numbers until the service says that the parameter is
    a category (16, bf16), and so is what a collector found; one with words is sent as texts until
    it says that the parameter is a number. The numbers of a JSON file are what its author calls
    numbers. None if the error names nothing of the kind.
    """
    corrected = [run.copied() if isinstance(run, TableRun) else run for run in runs]
    is_corrected = False
    for fault in error.errors if error.code == _SCHEMA_DRIFT else []:
        index, name = fault.get("row", 1) - 1, fault.get("field", "")
        run = corrected[index]
        if isinstance(run, TableRun) and name in run.cells:
            is_corrected = run.change_type(name) or is_corrected
        elif isinstance(run, CollectedRun) and (text := number_as_text(run, name)):
            corrected[index] = CollectedRun({**run, **text})
            is_corrected = True
    return corrected if is_corrected else None


def read_files(names: Sequence[str]) -> list[Run]:
    """Return the runs of CSV, JSON and NDJSON files as run documents, in order.

    Raises
    ------
    UploadFileError
        If a file cannot be read, or its name or content shows no runs.
    """
    runs = [run for name in names for run in _read(Path(name))]
    _give_columns_one_type([run for run in runs if isinstance(run, TableRun)])
    return runs


def _give_columns_one_type(runs: Sequence[TableRun]) -> None:
    """Let the parameters of a workload be texts if any of their cells is a word, as in uploads."""
    mixed = {
        (run.get("workload"), name)
        for run in runs
        for name, value in run.items()
        if name.startswith(_PARAMETER_PREFIX)
        and isinstance(value, str)
        and value.casefold() not in _ABSENCE
    }
    for run in runs:
        for name, cell in run.cells.items():
            if (run.get("workload"), name) in mixed:
                run[name] = cell


def _read(path: Path) -> Iterator[Run]:
    readers = {".csv": _csv, ".json": _json, ".jsonl": _json_lines, ".ndjson": _json_lines}
    reader = readers.get(path.suffix.casefold())
    if reader is None:
        raise UploadFileError(
            f"{path}: the name shows no file type.", f"Name it {', '.join(sorted(readers))}."
        )
    try:
        runs = reader(path.read_text(encoding="utf-8-sig"), path)
    except OSError as error:
        raise UploadFileError(
            f"{path} cannot be read: {error.strerror}.", "Check the path."
        ) from error
    except (ValueError, csv.Error) as error:
        raise UploadFileError(f"{path} cannot be understood: {error}.", "Correct it.") from error
    for number, run in enumerate(runs, start=1):
        if not isinstance(run, dict):
            raise UploadFileError(
                f"{path} holds something other than runs.",
                'Write objects such as {"workload": "cnn", "duration_seconds": 12.5}.',
            )
        _check_numbers(run, f"{path}, run {number}")
        yield run


def _check_numbers(run: Run, place: str) -> None:
    try:
        encoded(run)
    except ValueError as error:
        raise UploadFileError(
            f"{place}: one of its numbers is infinite or not a number.",
            "Leave it out, or write a finite one.",
        ) from error


def _json(content: str, _path: Path) -> list[Any]:
    document = json.loads(content)
    return document if isinstance(document, list) else [document]


def _json_lines(content: str, _path: Path) -> list[Any]:
    return [json.loads(line) for line in content.split("\n") if line.strip()]


def _csv(content: str, path: Path) -> list[Any]:
    rows = csv.DictReader(io.StringIO(content.lstrip("\n")), strict=True)
    names = rows.fieldnames or []
    if len(names) == 1 and (separator := next((mark for mark in ";\t|" if mark in names[0]), None)):
        raise ValueError(f"its columns are separated by {separator!r}, not by commas")
    runs: list[Any] = []
    try:
        for row in rows:
            runs.append(_flat_run(row, f"{path}, row {len(runs) + 1}"))
    except (ValueError, csv.Error) as error:
        raise ValueError(f"row {len(runs) + 1}: {error}") from error
    return runs


def _flat_run(row: dict[str, Any], place: str) -> Run:
    if None in row or None in row.values():
        raise ValueError("it has more or fewer cells than the header")
    cells = {name.strip(): cell.strip() for name, cell in row.items()}
    return TableRun({name: cell for name, cell in cells.items() if cell}, place)


def _typed(name: str, cell: str) -> float | int | str:
    """Return a cell in its field's type: JSON has types, a CSV file has none.

    Examples
    --------
    >>> _typed("workers", "4"), _typed("param.lr", "1e-3"), _typed("label.build", "17")
    (4, 0.001, '17')
    """
    if name in _TEXT_FIELDS or name.startswith(_LABEL_PREFIX) or not _NUMBER.fullmatch(cell):
        return cell
    number = float(cell)
    if math.isinf(number):
        # The service reports what is wrong with it, and where.
        return cell
    return int(cell) if cell.isdecimal() else number
