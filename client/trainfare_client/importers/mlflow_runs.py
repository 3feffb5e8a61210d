"""Finds MLflow's runs in its folder of files, its SQLite database, or an export of its API."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trainfare_client.importers.expressions import as_float
from trainfare_client.importers.faults import Report, SourceError
from trainfare_client.importers.lines import document
from trainfare_client.importers.mlflow_files import MlflowRun, is_value, read_folder, whole_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SQLITE: Final = b"SQLite format 3\x00"
_REMEDY: Final = (
    "Name the folder mlruns, the database mlflow.db, or what runs/search of the REST API answered."
)
_RUNS: Final = (
    "SELECT r.run_uuid, e.name, r.status, r.start_time, r.end_time, r.lifecycle_stage"
    " FROM runs r LEFT JOIN experiments e ON e.experiment_id = r.experiment_id"
    " ORDER BY r.start_time, r.run_uuid"
)
_NEXT_PAGE: Final = "next_page_token"
_MORE_PAGES: Final = f"further pages of runs: the export has a {_NEXT_PAGE}"


def find_runs(path: str, report: Report) -> Iterator[MlflowRun]:
    """Yield the runs at a path.

    Raises
    ------
    SourceError
        If it is not a folder, database or export of MLflow.
    """
    if Path(path).is_dir():
        yield from read_folder(Path(path))
    elif _is_database(path):
        yield from _read_database(path)
    else:
        yield from _read_export(path, document(path), report)


def _is_database(path: str) -> bool:
    if not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _read_database(path: str) -> Iterator[MlflowRun]:
    try:
        uri = f"{Path(path).absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True)) as database:
            for row in database.execute(_RUNS):
                run_id, experiment, status, start_ms, end_ms, stage = row
                run = MlflowRun(
                    place=f"{path}: run {run_id}",
                    run_id=run_id,
                    experiment=experiment or "",
                    status=status,
                    start_ms=whole_of(start_ms),
                    end_ms=whole_of(end_ms),
                    is_deleted=stage == "deleted",
                )
                _fill(database, run)
                yield run
    except sqlite3.Error as error:
        raise SourceError(path, f"It is not a database of MLflow: {error}.", _REMEDY) from None


def _fill(database: sqlite3.Connection, run: MlflowRun) -> None:
    key = (run.run_id,)
    query = "SELECT CAST(key AS TEXT), CAST(value AS TEXT) FROM %s WHERE run_uuid = ?"
    run.params.update(database.execute(query % "params", key))
    run.tags.update(database.execute(query % "tags", key))
    condition = "FROM %s WHERE run_uuid = ? AND NOT is_nan AND abs(value) < ?"
    arguments = (run.run_id, sys.float_info.max)
    latest = "SELECT key, value " + condition % "latest_metrics"
    run.metrics.update(database.execute(latest, arguments))
    largest = "SELECT key, max(value) " + condition % "metrics" + " GROUP BY key"
    run.largest.update(database.execute(largest, arguments))


def _read_export(path: str, answer: Any, report: Report) -> Iterator[MlflowRun]:
    pages = answer if isinstance(answer, list) else [answer]
    number = 0
    for page in pages:
        if not isinstance(page, dict):
            raise SourceError(path, "It is not an export of MLflow's REST API.", _REMEDY)
        # The API leaves empty lists out: a page of no runs has no member for them.
        has_runs = bool(page.keys() - {_NEXT_PAGE})
        runs = page.get("runs", [page.get("run", page)] if has_runs else [])
        for run in runs if isinstance(runs, list) else [runs]:
            yield _exported(f"{path}: runs[{number}]", run)
            number += 1
    if pages and pages[-1].get(_NEXT_PAGE):
        report.leave_out(_MORE_PAGES)


def _exported(place: str, run: Any) -> MlflowRun:
    info = run.get("info") if isinstance(run, dict) else None
    run_id = (info.get("run_id") or info.get("run_uuid")) if isinstance(info, dict) else None
    if not isinstance(info, dict) or not isinstance(run_id, str):
        raise SourceError(place, "It is not a run of MLflow's REST API.", _REMEDY)
    data = run.get("data") if isinstance(run.get("data"), dict) else {}
    metrics = {
        name: as_float(value)
        for name, value in _pairs(data, "metrics")
        if isinstance(value, (int, float)) and is_value(as_float(value))
    }
    return MlflowRun(
        place=place,
        run_id=run_id,
        experiment=str(info.get("experiment_name") or f"mlflow-{info.get('experiment_id', '')}"),
        status=str(info.get("status", "")),
        start_ms=whole_of(info.get("start_time")),
        end_ms=whole_of(info.get("end_time")),
        is_deleted=info.get("lifecycle_stage") == "deleted",
        params={name: str(value) for name, value in _pairs(data, "params")},
        metrics=metrics,
        largest=metrics,
        tags={name: str(value) for name, value in _pairs(data, "tags")},
    )


def _pairs(data: Mapping[str, Any], name: str) -> Iterator[tuple[str, Any]]:
    entries = data.get(name)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("key"), str):
            yield entry["key"], entry.get("value")
