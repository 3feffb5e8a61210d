"""MLflow's runs: duration from start and end, work and parameters from what was logged."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final

from trainfare_client.importers.asked import RequestedNames
from trainfare_client.importers.expressions import number_in
from trainfare_client.importers.faults import Report, RowError
from trainfare_client.importers.fields import NUMBERS, RESOURCES, field_of
from trainfare_client.importers.mlflow_runs import find_runs
from trainfare_client.importers.naming import run_key, slug
from trainfare_client.importers.rows import ImportedRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trainfare_client.importers.expressions import Cell
    from trainfare_client.importers.mlflow_files import MlflowRun
    from trainfare_client.importers.options import Options

_STATUSES: Final = {"FINISHED": "succeeded", "FAILED": "failed", "KILLED": "cancelled"}
_ALIASES: Final = {
    "batch_size": ("batch_size", "global_batch_size", "train_batch_size"),
    "epochs": ("epochs", "num_epochs", "n_epochs", "max_epochs", "num_train_epochs"),
    "dataset_size": ("dataset_size", "num_samples", "n_samples", "num_examples"),
    "workers": ("workers", "world_size", "num_gpus", "n_gpus", "num_processes"),
    "nodes": ("nodes", "num_nodes", "nnodes"),
    "gpu_type": ("gpu_type", "gpu_name"),
    "instance_type": ("instance_type",),
}
_LABELS: Final = {
    "mlflow.runName": "label.run_name",
    "mlflow.source.git.commit": "label.git_sha",
    "mlflow.parentRunId": "label.parent_run",
}
_MAX_VALUE: Final = 500
_YEAR_10000_MS: Final = 253_402_300_800_000
_TOO_LONG: Final = "parameters whose name or value is too long or cannot be printed"


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
    if run.start_ms >= _YEAR_10000_MS:
        report.add(run.place, "Its start is beyond the year 9999.", "Correct start_time (ms).")
        return None
    started = datetime.fromtimestamp(run.start_ms / 1000, timezone.utc)
    fields: dict[str, Cell] = {
        "workload": slug(run.experiment),
        "external_id": run_key("mlflow", run.run_id),
        "status": status,
        "duration_seconds": (run.end_ms - run.start_ms) / 1000,
        "started_at": started.isoformat(timespec="milliseconds"),
        **_parameters(run, report, options),
        **_measured(run),
        **{
            label: run.tags[name][:_MAX_VALUE]
            for name, label in _LABELS.items()
            if name in run.tags
        },
    }
    return ImportedRow(run.place, fields, _facts(run, fields))


def _parameters(run: MlflowRun, report: Report, options: Options) -> dict[str, Cell]:
    fields: dict[str, Cell] = {}
    used = set()
    for name, aliases in _ALIASES.items():
        chosen = next(
            (alias for alias in aliases if _is_valid(name, run.params.get(alias, ""))), None
        )
        if chosen is not None:
            fields[name] = run.params[chosen].strip()
            used.add(chosen)
    for name in run.params:
        if name in used or (options.parameters and name not in options.parameters):
            continue
        value = run.params[name].strip()
        if len(value) <= _MAX_VALUE and value.isprintable() and field_of(f"param.{name}"):
            fields[f"param.{name}"] = value
        else:
            report.leave_out(_TOO_LONG)
    return fields


def _is_valid(name: str, value: str) -> bool:
    if name not in NUMBERS:
        return bool(value.strip())
    try:
        number = number_in(value, name)
    except RowError:
        return False
    return number is not None and number > 0


def _measured(run: MlflowRun) -> dict[str, Cell]:
    # The duration runs from start to end; --map can take another one.
    measured: dict[str, Cell] = {
        name: value
        for name, value in run.metrics.items()
        if (name in NUMBERS and name != "duration_seconds" and value > 0)
        or (name.startswith("phase.") and field_of(name))
    }
    return measured | {
        f"resource.{name}": run.largest[name] for name in RESOURCES if name in run.largest
    }


def _facts(run: MlflowRun, fields: dict[str, Cell]) -> dict[str, Cell]:
    return {
        "experiment": run.experiment,
        "elapsed_s": fields["duration_seconds"],
        **{f"params.{name}": value for name, value in run.params.items()},
        **{f"metrics.{name}": value for name, value in run.metrics.items()},
        **{f"tags.{name}": value for name, value in run.tags.items()},
    }
