"""MLflow's runs: duration from start and end, work and parameters from what was logged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trainfare_client.importers.asked import RequestedNames
from trainfare_client.importers.mlflow_runs import find_runs
from trainfare_client.importers.naming import run_key, slug
from trainfare_client.importers.rows import ImportedRow
from trainfare_client.importers.tracked import MAX_VALUE, described, instant_of, measured

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trainfare_client.importers.expressions import Cell
    from trainfare_client.importers.faults import Report
    from trainfare_client.importers.mlflow_files import MlflowRun
    from trainfare_client.importers.options import Options

_STATUSES: Final = {"FINISHED": "succeeded", "FAILED": "failed", "KILLED": "cancelled"}
_LABELS: Final = {
    "mlflow.runName": "label.run_name",
    "mlflow.source.git.commit": "label.git_sha",
    "mlflow.parentRunId": "label.parent_run",
}


def read_mlflow(paths: Sequence[str], report: Report, options: Options) -> Iterator[ImportedRow]:
    """Yield the ended runs of MLflow; deleted and unfinished ones are left out.

    Raises
    ------
    SourceError
        If a path holds nothing from MLflow.
    UnknownNameError
        If a requested parameter is in no run.
    """
    requested = RequestedNames("--params", "parameter", options.parameters)
    for path in paths:
        for run in find_runs(path, report):
            row = _row(run, report, options)
            if row is not None:
                requested.observe(run.params)
                yield row
    requested.check()


def _row(run: MlflowRun, report: Report, options: Options) -> ImportedRow | None:
    if run.is_deleted:
        report.leave_out("deleted runs")
        return None
    status = _STATUSES.get(run.status)
    if status is None or run.start_ms is None or run.end_ms is None:
        report.leave_out("runs that have not ended")
        return None
    started_at = instant_of(run.start_ms / 1000)
    if started_at is None:
        report.add(run.place, "Its start is beyond the year 9999.", "Correct start_time (ms).")
        return None
    fields: dict[str, Cell] = {
        "workload": slug(run.experiment),
        "external_id": run_key("mlflow", run.run_id),
        "status": status,
        "duration_seconds": (run.end_ms - run.start_ms) / 1000,
        "started_at": started_at,
        **described(run.params, options.parameters, report),
        **measured(run.metrics, run.largest, is_complete=status == "succeeded"),
        **{
            label: run.tags[name][:MAX_VALUE] for name, label in _LABELS.items() if name in run.tags
        },
    }
    return ImportedRow(run.place, fields, _facts(run, fields))


def _facts(run: MlflowRun, fields: dict[str, Cell]) -> dict[str, Cell]:
    return {
        "experiment": run.experiment,
        "elapsed_s": fields["duration_seconds"],
        **{f"params.{name}": value for name, value in run.params.items()},
        **{f"metrics.{name}": value for name, value in run.metrics.items()},
        **{f"tags.{name}": value for name, value in run.tags.items()},
    }
