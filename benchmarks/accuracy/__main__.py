"""Run every task of every data-set folder through the library and print how good it is.

Usage: ``python -m benchmarks.accuracy --data DIR [--peers FILE.csv] [--hardware FILE.csv]
[--prior left-out|shipped|alone] [--jobs N] [--only NAME ...] --out result.csv``. Each folder holds
``runs.csv`` and ``tasks.json``. The factory prior of a folder's tasks is made of the other folders
(``left-out``); ``shipped`` is the one of the package, for folders that it has not seen.
"""

import argparse
import csv
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
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

from benchmarks.accuracy.judging import Judgement, judge  # noqa: E402 - see above
from benchmarks.accuracy.traces import (  # noqa: E402 - see above
    Task,
    read_best_peers,
    read_hardware,
    read_tasks,
)
from benchmarks.pooling.arms import factory_summaries, summarise_all  # noqa: E402 - see above
from benchmarks.pooling.workloads import read_workloads  # noqa: E402 - see above
from models import PooledPrior  # noqa: E402 - see above
from models.factory import factory_summaries as shipped_summaries  # noqa: E402 - see above

WIDTH = 170
"""Columns of the table where nobody looks at a terminal."""

PRIORS = ("left-out", "shipped", "alone")
COLUMNS = (
    "data set", "kind", "axis", "tasks", "MAPE %", "mean", "geo", "> 20 % off", "cover .8",
    "cover .9", "width %", "score", "own ok", "fit s", "vs floor", "vs peer",
)  # fmt: skip


def main() -> None:
    """Judge, print, write."""
    arguments = _parse()
    folders = sorted(path.parent for path in arguments.data.glob("*/tasks.json"))
    arguments.priors = _priors(arguments, [folder.name for folder in folders])
    if arguments.only:
        folders = [folder for folder in folders if folder.name in arguments.only]
    tasks = [task for folder in folders for task in read_tasks(folder)]
    judgements = sorted(_judge_all(tasks, arguments), key=lambda item: item.task)
    if not judgements:
        raise SystemExit(f"No folder with runs.csv and tasks.json under {arguments.data}.")
    _write(judgements, arguments.out)
    _print(judgements)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of data-set folders")
    parser.add_argument("--peers", type=Path, help="CSV of other tools' errors by task")
    parser.add_argument("--hardware", type=Path, help="CSV of GPU specifications")
    parser.add_argument("--out", type=Path, required=True, help="CSV of one row per task")
    parser.add_argument("--prior", choices=PRIORS, default=PRIORS[0], help="what is known before")
    parser.add_argument("--jobs", type=int, default=1, help="processes (fit times suffer)")
    parser.add_argument("--only", nargs="*", help="names of folders")
    parser.add_argument("--time-budget", type=float, default=60.0, help="seconds per fit")
    return parser.parse_args()


def _priors(arguments: argparse.Namespace, folders: Sequence[str]) -> dict[str, PooledPrior | None]:
    """Return what is known before the runs of each folder."""
    hardware = read_hardware(arguments.hardware)
    if arguments.prior == "alone":
        return dict.fromkeys(folders)
    if arguments.prior == "shipped":
        shipped = PooledPrior.from_summaries([], hardware, shipped_summaries())
        return dict.fromkeys(folders, shipped)
    workloads = read_workloads(arguments.data)
    summaries = summarise_all(track(workloads, "summarising", console=Console(stderr=True)))
    return {
        folder: PooledPrior.from_summaries([], hardware, factory_summaries(summaries, folder))
        for folder in folders
    }


def _judge_all(tasks: Sequence[Task], arguments: argparse.Namespace) -> Iterator[Judgement]:
    hardware, peers = read_hardware(arguments.hardware), read_best_peers(arguments.peers)
    budget, priors = arguments.time_budget, arguments.priors
    console = Console(stderr=True)
    if arguments.jobs == 1:
        for task in track(tasks, "judging", console=console):
            yield judge(task, hardware, peers, budget, priors[task.folder])
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.jobs, mp_context=context) as pool:
        futures = [
            pool.submit(judge, task, hardware, peers, budget, priors[task.folder]) for task in tasks
        ]
        for future in track(as_completed(futures), "judging", len(futures), console=console):
            yield future.result()


def _write(judgements: Sequence[Judgement], path: Path) -> None:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, [*asdict(judgements[0]), "ratio"])
        writer.writeheader()
        for item in judgements:
            writer.writerow({**asdict(item), "ratio": item.ratio})


def _print(judgements: Sequence[Judgement]) -> None:
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    table = Table(*COLUMNS)
    groups = sorted({(item.data_set, item.kind, item.axis) for item in judgements})
    for group in groups:
        members = [item for item in judgements if (item.data_set, item.kind, item.axis) == group]
        table.add_row(*group, *_summary(members))
    for data_set in sorted({item.data_set for item in judgements}):
        members = [item for item in judgements if item.data_set == data_set]
        table.add_row(data_set, "", "", *_summary(members), style="bold")
    for kind in sorted({item.kind for item in judgements}):
        members = [item for item in judgements if item.kind == kind]
        table.add_row("all", kind, "", *_summary(members), style="bold")
    table.add_row("all", "", "", *_summary(judgements), style="bold")
    console.print(table)
    console.print(
        f"geometric mean MAPE {100 * _geometric([item.mape for item in judgements]):.1f} %; "
        f"ratio to the best peer {_geometric([item.ratio for item in judgements]):.2f}; "
        f"better on {_share_better(judgements):.0%} of the peers' tasks"
    )


def _summary(members: Sequence[Judgement]) -> list[str]:
    def median(values: list[float]) -> float:
        known = [value for value in values if np.isfinite(value)]
        return float(np.median(known)) if known else float("nan")

    return [
        str(len(members)),
        f"{100 * median([item.mape for item in members]):.1f}",
        f"{100 * float(np.mean([item.mape for item in members])):.1f}",
        f"{100 * _geometric([item.mape for item in members]):.1f}",
        f"{100 * float(np.mean([item.off_by_20 for item in members])):.0f}%",
        f"{100 * float(np.mean([item.coverage_80 for item in members])):.1f}",
        f"{100 * float(np.mean([item.coverage_90 for item in members])):.1f}",
        f"{100 * median([item.width_90 for item in members]):.1f}",
        f"{median([item.score_90 for item in members]):.2f}",
        f"{100 * float(np.mean([item.knows_itself for item in members])):.0f}%",
        f"{median([item.fit_seconds for item in members]):.2f}",
        f"{_geometric([item.floor_ratio for item in members]):.2f}",
        f"{_geometric([item.ratio for item in members]):.2f}",
    ]


def _geometric(values: list[float]) -> float:
    known = [max(value, 1e-3) for value in values if np.isfinite(value)]
    return float(np.exp(np.mean(np.log(known)))) if known else float("nan")


def _share_better(judgements: Sequence[Judgement]) -> float:
    ratios = [item.ratio for item in judgements if np.isfinite(item.ratio)]
    return float(np.mean([ratio < 1 for ratio in ratios])) if ratios else float("nan")


if __name__ == "__main__":
    main()
