"""Runs of Weights & Biases: duration as it counts it, work and parameters from the config."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trainfare_client.importers.asked import RequestedNames
from trainfare_client.importers.faults import SourceError
from trainfare_client.importers.naming import run_key, slug
from trainfare_client.importers.rows import ImportedRow
from trainfare_client.importers.tracked import MAX_VALUE, described, instant_of, measured
from trainfare_client.importers.wandb_runs import (
    WandbRun,
    find_logs,
    in_order_of_sessions,
    read_run,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trainfare_client.importers.expressions import Cell
    from trainfare_client.importers.faults import Report
    from trainfare_client.importers.options import Options

_INTERRUPTED: Final = 255
_SAY_WORKERS: Final = "Say it: --map workers=gpu_count, or --set workers=1."


def read_wandb(paths: Sequence[str], report: Report, options: Options) -> Iterator[ImportedRow]:
    """Yield the ended runs in local folders; of a resumed run, its last session.

    Raises
    ------
    SourceError
        If a path holds nothing from Weights & Biases.
    UnknownNameError
        If a requested parameter is in no run.
    """
    requested = RequestedNames("--params", "member of the config", options.parameters)
    for run in _last_sessions(paths, report):
        row = _row(run, report, options)
        if row is not None:
            requested.observe(run.config)
            yield row
    requested.check()


def _last_sessions(paths: Sequence[str], report: Report) -> list[WandbRun]:
    sessions: dict[tuple[str, str], WandbRun] = {}
    for log in in_order_of_sessions(log for path in paths for log in find_logs(path)):
        try:
            run = read_run(log)
        except SourceError as error:
            report.add(error.place, error.reason, error.remedy)
            continue
        if not run.run_id:
            report.leave_out("logs that break off before they name their run")
            continue
        key = run.project, run.run_id
        if sessions.pop(key, None) is not None:
            report.leave_out("earlier sessions of resumed runs")
        sessions[key] = run
    return list(sessions.values())


def _row(run: WandbRun, report: Report, options: Options) -> ImportedRow | None:
    if run.exit_code is None:
        report.leave_out("runs that have not ended, or were killed")
        return None
    if not run.runtime_s:
        report.leave_out("runs of less than a second")
        return None
    status = _status(run)
    fields: dict[str, Cell] = {
        "workload": slug(run.project),
        "external_id": run_key("wandb", run.project, run.run_id),
        "status": status,
        "duration_seconds": run.runtime_s,
        "started_at": instant_of(run.started_s) if run.started_s else None,
        "gpu_type": run.gpu_type,
        # Of several processes only the first one logs, and its GPU alone is seen.
        **({"workers": len(run.gpus_used)} if len(run.gpus_used) > 1 else {}),
        **described(run.config, options.parameters, report),
        **measured(run.summary, run.summary, is_complete=status == "succeeded"),
        "label.run_name": run.name[:MAX_VALUE],
        "label.git_sha": run.commit[:MAX_VALUE],
        "label.group": run.group[:MAX_VALUE],
    }
    if "workers" not in {*fields, *options.mapping.fields} and run.gpu_count > 1:
        report.add(
            run.place,
            f"Its machine has {run.gpu_count} GPUs; how many it used is unknown.",
            _SAY_WORKERS,
        )
        return None
    return ImportedRow(run.place, fields, _facts(run))


def _status(run: WandbRun) -> str:
    if run.exit_code == 0:
        return "succeeded"
    if run.is_preempted:
        return "preempted"
    return "cancelled" if run.exit_code == _INTERRUPTED else "failed"


def _facts(run: WandbRun) -> dict[str, Cell]:
    return {
        "project": run.project,
        "group": run.group,
        "job_type": run.job_type,
        "host": run.host,
        "elapsed_s": run.runtime_s,
        "gpu_count": run.gpu_count,
        **{f"config.{name}": value for name, value in run.config.items()},
        **{f"summary.{name}": value for name, value in run.summary.items()},
    }
