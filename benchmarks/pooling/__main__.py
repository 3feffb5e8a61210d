"""Compare a workload's forecasts without and with what other workloads and data sheets tell.

Usage: ``python -m benchmarks.pooling --data DIR [--hardware FILE.csv] [--draws N] [--types N]
[--jobs N] [--only NAME ...] --out result.csv``. Each folder of DIR holds ``runs.csv``; it stands
for a project, and is left out of its own factory prior.
"""

import argparse
import csv
import multiprocessing
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path

# Before numpy is imported: several threads only slow small matrices down.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402 - see above
from rich.console import Console  # noqa: E402 - see above
from rich.progress import track  # noqa: E402 - see above
from rich.table import Table  # noqa: E402 - see above

from benchmarks.accuracy.traces import Task, read_hardware  # noqa: E402 - see above
from benchmarks.pooling.arms import ARMS, Priors, summarise_all  # noqa: E402 - see above
from benchmarks.pooling.judging import Result, judge  # noqa: E402 - see above
from benchmarks.pooling.workloads import (  # noqa: E402 - see above
    MeasuredWorkload,
    first_runs_tasks,
    read_workloads,
    unseen_type_tasks,
)

FIRST_RUNS = (1, 3, 6)
WORSE = 1.25
COLUMNS = (
    "kind", "data set", "tasks", "prior", "MAPE %", "geo", "cover .9", "width %", "> 25 % worse",
)  # fmt: skip


def main() -> None:
    """Judge, print, write."""
    arguments = _parse()
    workloads = read_workloads(arguments.data)
    targets = [item for item in workloads if not arguments.only or item.folder in arguments.only]
    console = Console(stderr=True)
    summaries = summarise_all(track(workloads, "summarising", console=console))
    priors = Priors(summaries, read_hardware(arguments.hardware))
    results: list[Result] = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.jobs, mp_context=context) as pool:
        futures = [
            pool.submit(judge, item, tuple(tasks), priors)
            for item in targets
            if (tasks := list(_tasks(item, arguments)))
        ]
        for future in track(as_completed(futures), "judging", len(futures), console=console):
            results += future.result()
    if not results:
        raise SystemExit(f"No workload with enough configurations under {arguments.data}.")
    results.sort(key=lambda item: (item.kind, item.task, ARMS.index(item.arm)))
    _write(results, arguments.out)
    _print(results)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pooling", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of data-set folders")
    parser.add_argument("--hardware", type=Path, help="CSV of GPU specifications")
    parser.add_argument("--out", type=Path, required=True, help="CSV of one row per task and arm")
    parser.add_argument("--draws", type=int, default=2, help="draws of first runs per workload")
    parser.add_argument("--types", type=int, default=4, help="GPU types left out per workload")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", nargs="*", help="names of folders whose workloads are targets")
    return parser.parse_args()


def _tasks(workload: MeasuredWorkload, arguments: argparse.Namespace) -> Iterable[Task]:
    yield from first_runs_tasks(workload, FIRST_RUNS, arguments.draws)
    yield from unseen_type_tasks(workload, arguments.types)


def _write(results: Sequence[Result], path: Path) -> None:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(asdict(results[0])))
        writer.writeheader()
        writer.writerows(asdict(item) for item in results)


def _print(results: Sequence[Result]) -> None:
    table = Table(*COLUMNS)
    alone = {item.task: item.mape for item in results if item.arm == ARMS[0]}
    for kind in sorted({item.kind for item in results}):
        of_kind = [item for item in results if item.kind == kind]
        for data_set in (*sorted({item.data_set for item in of_kind}), "all"):
            for arm in ARMS:
                members = [
                    item
                    for item in of_kind
                    if item.arm == arm and data_set in (item.data_set, "all")
                ]
                style = "bold" if data_set == "all" else ""
                table.add_row(kind, data_set, *_summary(members, arm, alone), style=style)
    Console(width=110).print(table)


def _summary(members: Sequence[Result], arm: str, alone: dict[str, float]) -> list[str]:
    errors = np.array([item.mape for item in members])
    ratios = errors / np.maximum([alone[item.task] for item in members], 1e-3)
    return [
        str(len(members)),
        arm,
        f"{100 * float(np.median(errors)):.1f}",
        f"{100 * float(np.exp(np.log(np.maximum(errors, 1e-3)).mean())):.1f}",
        f"{100 * float(np.mean([item.coverage_90 for item in members])):.1f}",
        f"{100 * float(np.median([item.width_90 for item in members])):.0f}",
        f"{100 * float((ratios > WORSE).mean()):.0f}",
    ]


if __name__ == "__main__":
    main()
