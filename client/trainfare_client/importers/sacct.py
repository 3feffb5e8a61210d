"""Slurm's accounting: each ended job of `sacct --parsable2` is a run."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from trainfare_client.importers.csv_files import table
from trainfare_client.importers.faults import Report, RowError, SourceError, at_line
from trainfare_client.importers.fields import NUMBERS
from trainfare_client.importers.naming import run_key, slug
from trainfare_client.importers.rows import ImportedRow
from trainfare_client.importers.slurm_values import (
    bytes_in,
    elapsed_s,
    gpus_in_gres,
    gpus_in_tres,
    instant,
    resources,
    status_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trainfare_client.importers.expressions import Cell
    from trainfare_client.importers.options import Options

COLUMNS: Final = (
    "Cluster,JobID,JobIDRaw,JobName,State,ElapsedRaw,Start,NNodes,AllocCPUS,AllocTRES,Partition"
)
_REMEDY: Final = f"Export with: sacct --parsable2 --duplicates --format={COLUMNS}"
_UNDER_A_SECOND: Final = "jobs that never ran, or for less than a second"
_RESIZED: Final = "parts of jobs that were resized, which are not one configuration"
_READ_BEFORE: Final = "jobs that were read before"
_TOLD_OF_ATTEMPTS: Final = ("workload", "status", "duration_seconds", "started_at")
_LABELS: Final = {
    "Partition": "label.partition",
    "Cluster": "label.cluster",
    "JobName": "label.job_name",
}

_Attempts = defaultdict[str, "list[tuple[Cell, ...]]"]
"""The attempts of each job that were read so far."""


def read_sacct(paths: Sequence[str], report: Report, options: Options) -> Iterator[ImportedRow]:
    """Yield the ended jobs of `sacct --parsable2`; steps and unfinished jobs are left out.

    Raises
    ------
    SourceError
        If a file is not such output, or lacks a required column.
    """
    attempts: _Attempts = defaultdict(list)
    resized: set[tuple[str, str]] = set()
    for path in paths:
        is_checked = False
        for place, cells in table(path, report, options.delimiter, quoted=False):
            if not is_checked:
                _check_columns(path, cells)
                is_checked = True
            texts = {name: str(cell) for name, cell in cells.items()}
            if _is_resized(texts, resized):
                report.leave_out(_RESIZED)
                continue
            row = _row(place, texts, report, options)
            keyed = None if row is None else _with_key(row, texts, attempts, report)
            if keyed is not None:
                yield keyed


def _check_columns(path: str, cells: Mapping[str, Cell]) -> None:
    needed = (("JobIDRaw", "JobID"), ("State",), ("ElapsedRaw", "Elapsed"))
    for names in needed:
        if not any(name in cells for name in names):
            raise SourceError(at_line(path, 1), f"There is no column {names[0]}.", _REMEDY)


def _is_resized(cells: Mapping[str, str], resized: set[tuple[str, str]]) -> bool:
    """Whether a row is a part of a start that was resized; its parts follow in order of time."""
    start = _key(cells), cells.get("Restarts", "")
    if cells["State"].strip().upper() == "RESIZING":
        resized.add(start)
    return start in resized


def _row(
    place: str, cells: Mapping[str, str], report: Report, options: Options
) -> ImportedRow | None:
    reason = _exclusion_reason(cells)
    if reason is not None:
        report.leave_out(reason)
        return None
    try:
        status = status_of(cells["State"])
        seconds = elapsed_s(cells.get("ElapsedRaw") or cells.get("Elapsed") or "0")
        if status is None or not seconds:
            report.leave_out("jobs that have not ended" if status is None else _UNDER_A_SECOND)
            return None
        facts = _facts(cells, seconds)
        fields = {
            "status": status,
            "duration_seconds": seconds,
            "started_at": instant(cells.get("Start", ""), options.zone),
            **_configuration(facts),
            **_labels(cells),
            **_comment_numbers(facts),
            "workload": slug(cells.get("JobName", "")),
        }
    except RowError as error:
        report.add(place, error.message, error.remedy)
        return None
    return ImportedRow(place, fields, facts)


def _exclusion_reason(cells: Mapping[str, str]) -> str | None:
    job = cells.get("JobID") or cells.get("JobIDRaw", "")
    if "." in job:
        return "steps of jobs"
    if "+" in job:
        return "parts of heterogeneous jobs, which are not one configuration"
    if "[" in job:
        return "jobs that have not ended"
    return None


def _facts(cells: Mapping[str, str], seconds: float) -> dict[str, Cell]:
    nodes = cells.get("NNodes") or cells.get("AllocNodes") or ""
    count = int(nodes) if nodes.isdecimal() and int(nodes) else None
    gpus, types = _gpus(cells, count or 1)
    if len(types) > 1:
        raise RowError(
            f"The job ran on several types of GPU: {', '.join(types)}.",
            "A run has one; leave such jobs out with --skip-invalid.",
        )
    tres = resources(cells.get("AllocTRES", ""))
    comment = [part.partition("=") for part in cells.get("Comment", "").replace(",", " ").split()]
    cpus = cells.get("AllocCPUS") or tres.get("cpu") or ""
    return {
        **cells,
        "elapsed_s": seconds,
        "nodes": count,
        "gpus": gpus,
        "gpu_type": types[0] if types else None,
        "cpus": int(cpus) if cpus.isdecimal() and int(cpus) else None,
        "memory_bytes": bytes_in(tres.get("mem", "")),
        **{f"comment.{name}": value for name, equals, value in comment if equals and name},
    }


def _gpus(cells: Mapping[str, str], nodes: int) -> tuple[int, list[str]]:
    # A cluster may count GPUs in only one of these; the GRES request is per node.
    count, types = gpus_in_gres(cells.get("ReqGRES", ""))
    sources = (
        gpus_in_tres(cells.get("AllocTRES", "")),
        gpus_in_tres(cells.get("ReqTRES", "")),
        gpus_in_gres(cells.get("AllocGRES", "")),
        (count * nodes, types),
    )
    return next((gpus for gpus in sources if gpus[0]), (0, []))


def _configuration(facts: Mapping[str, Cell]) -> dict[str, Cell]:
    nodes = facts["nodes"]
    return {
        "gpu_type": facts["gpu_type"],
        "nodes": nodes,
        "workers": facts["gpus"] or nodes,
        "param.cpus": facts["cpus"],
    }


def _labels(cells: Mapping[str, str]) -> dict[str, Cell]:
    labels: dict[str, Cell] = {label: cells.get(name) for name, label in _LABELS.items()}
    array, underscore, task = cells.get("JobID", "").partition("_")
    if underscore:
        labels |= {"label.array_job": array, "label.array_task": task}
    return labels


def _comment_numbers(facts: Mapping[str, Cell]) -> dict[str, Cell]:
    return {name: facts.get(f"comment.{name}") for name in NUMBERS if f"comment.{name}" in facts}


def _key(cells: Mapping[str, str]) -> str:
    job = cells.get("JobIDRaw") or cells.get("JobID", "")
    return run_key("slurm", *(cells[name] for name in ("Cluster",) if cells.get(name)), job)


def _with_key(
    row: ImportedRow, cells: Mapping[str, str], attempts: _Attempts, report: Report
) -> ImportedRow | None:
    """Return a row with its key, None if the job's attempt has been read before."""
    key, restarts = _key(cells), cells.get("Restarts", "")
    # Exports of adjoining months share the jobs that ran in both.
    attempt = (restarts, *(row.fields[name] for name in _TOLD_OF_ATTEMPTS))
    if attempt in attempts[key]:
        report.leave_out(_READ_BEFORE)
        return None
    attempts[key].append(attempt)
    # A requeued job appears again under its id: with -D, once for each start.
    restart = int(restarts) if restarts.isdecimal() else len(attempts[key]) - 1
    external_id = key if not restart else f"{key}/restart-{restart}"
    return ImportedRow(row.place, {**row.fields, "external_id": external_id}, row.facts)
