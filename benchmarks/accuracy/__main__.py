"""Run every task of every data-set folder through the library and print its accuracy.

Usage: ``python -m benchmarks.accuracy --data DIR [--peers FILE.csv] [--prior
left-out|project|shipped|alone] [--jobs N] [--sample N] [--only NAME ...] [--group NAME ...]
[--unseen NAME ...] [--targets FILE] [--drawn SEED] [--plots DIR] --out result.csv``. DIR holds one
folder per data set with ``runs.csv`` and ``tasks.json``, or CSV files of uploads; runs without
``tasks.json`` are split by rule, and ``--drawn`` draws other tasks from any runs. The factory prior
of a folder's tasks is made of the other folders (``left-out``); with ``project`` the folder's other
workloads are known too, as in a service that has them in one project; ``shipped`` is the prior of
the package, for folders that it has not seen. The goals at the end are judged by the tasks that
were run, so a sample says less about them.
"""

import argparse
import csv
import hashlib
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path

# Set before numpy is imported: several threads only slow down small matrices.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from rich.console import Console  # noqa: E402 - see above
from rich.progress import track  # noqa: E402 - see above

from benchmarks.accuracy.drawing import draw_tasks  # noqa: E402 - see above
from benchmarks.accuracy.goals import (  # noqa: E402 - see above
    floor_table,
    goal_table,
    goals_of,
    read_targets,
)
from benchmarks.accuracy.judging import Judgement, judge  # noqa: E402 - see above
from benchmarks.accuracy.profiles import split_tasks  # noqa: E402 - see above
from benchmarks.accuracy.tables import summary_table  # noqa: E402 - see above
from benchmarks.accuracy.traces import (  # noqa: E402 - see above
    SHIPPED_HARDWARE,
    Task,
    read_best_peers,
    read_hardware,
    read_tasks,
)
from benchmarks.console import table_console  # noqa: E402 - see above
from benchmarks.pooling.arms import Priors, summarise_all  # noqa: E402 - see above
from benchmarks.pooling.workloads import read_workloads  # noqa: E402 - see above
from models import HardwareDescription, PooledPrior  # noqa: E402 - see above
from models.pooling.factory import factory_summaries as shipped_summaries  # noqa: E402 - see above

WIDTH = 190
"""Width of the table in columns where the output is not a terminal."""

PriorOf = Callable[[Task], PooledPrior | None]
"""What is known before the runs of a task."""

PRIORS = ("left-out", "project", "shipped", "alone")
_ARMS = {"left-out": "factory", "project": "both"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Judge, print, write, draw.

    Raises
    ------
    SystemExit
        If there is no task.
    """
    options = _parse(arguments)
    tasks = _read(options)
    if not tasks:
        raise SystemExit(f"No folder with runs.csv, nor a CSV of runs, in {options.data}.")
    names = {row.get("gpu_type", "") for task in tasks for row in (*task.train, *task.test)}
    hardware = read_hardware(options.hardware, names)
    prior_of = _prior_of(options, hardware)
    judgements = sorted(
        _judge_all(tasks, options, hardware, prior_of), key=lambda judgement: judgement.task
    )
    _write(judgements, options.out)
    _print(judgements, options)
    if options.plots:
        _draw(tasks, judgements, options, hardware, prior_of)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of data sets or profiles")
    parser.add_argument("--peers", type=Path, help="CSV of other tools' errors by task")
    parser.add_argument(
        "--hardware", type=Path, default=SHIPPED_HARDWARE, help="CSV of GPU specifications"
    )
    parser.add_argument("--out", type=Path, required=True, help="CSV of one row per task")
    parser.add_argument("--prior", choices=PRIORS, default=PRIORS[0], help="what is known before")
    parser.add_argument("--jobs", type=int, default=1, help="processes (fit times suffer)")
    parser.add_argument("--sample", type=int, help="this many tasks, the same ones each time")
    parser.add_argument("--drawn", type=int, metavar="SEED", help="draw other tasks")
    parser.add_argument("--only", nargs="*", help="names of folders")
    parser.add_argument("--group", nargs="*", default=[], help="data sets of the mean that counts")
    parser.add_argument("--unseen", nargs="*", default=[], help="data sets of the worst ratio")
    parser.add_argument("--targets", type=Path, help="table of the medians wanted of groups")
    parser.add_argument("--plots", type=Path, help="folder for drawings as SVG")
    parser.add_argument("--time-budget", type=float, default=60.0, help="seconds per fit")
    return parser.parse_args(arguments)


def _read(options: argparse.Namespace) -> list[Task]:
    files = {path.parent.name: path for path in sorted(options.data.glob("*/runs.csv"))}
    files = files or {path.stem: path for path in sorted(options.data.glob("*.csv"))}
    names = [name for name in files if not options.only or name in options.only]
    tasks: list[Task] = []
    for name in names:
        if options.drawn is not None:
            tasks += draw_tasks(files[name], name, options.drawn)
        elif files[name].with_name("tasks.json").is_file():
            tasks += read_tasks(files[name].parent)
        else:
            tasks += split_tasks(files[name], name)
    return tasks if options.sample is None else sample_tasks(tasks, options.sample)


def sample_tasks(tasks: Sequence[Task], size: int) -> list[Task]:
    """Return some tasks of as many groups as possible, independent of their order."""
    shuffled = sorted(tasks, key=lambda task: hashlib.sha256(task.name.encode()).digest())
    seen: dict[tuple[str, str, str], int] = {}
    ranked: list[tuple[int, int, Task]] = []
    for position, task in enumerate(shuffled):
        rank = seen[task.group()] = seen.get(task.group(), -1) + 1
        ranked.append((rank, position, task))
    return [task for _, _, task in sorted(ranked, key=lambda item: item[:2])[:size]]


def _prior_of(options: argparse.Namespace, hardware: Mapping[str, HardwareDescription]) -> PriorOf:
    """Return what is known before the runs of a task."""
    if options.prior == "alone":
        return lambda _task: None
    if options.prior == "shipped":
        shipped = PooledPrior.from_summaries([], hardware, shipped_summaries())
        return lambda _task: shipped
    workloads = read_workloads(options.data)
    summaries = summarise_all(track(workloads, "summarising", console=Console(stderr=True)))
    priors, arm = Priors(summaries, hardware), _ARMS[options.prior]
    return lambda task: priors.prior(arm, task.folder, task.workload)


def _judge_all(
    tasks: Sequence[Task],
    options: argparse.Namespace,
    hardware: Mapping[str, HardwareDescription],
    prior_of: PriorOf,
) -> Iterator[Judgement]:
    peers, budget = read_best_peers(options.peers), options.time_budget
    console = Console(stderr=True)
    if options.jobs == 1:
        for task in track(tasks, "judging", console=console):
            yield judge(task, hardware, peers, budget, prior_of(task))
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        futures = [
            pool.submit(judge, task, hardware, peers, budget, prior_of(task)) for task in tasks
        ]
        for future in track(as_completed(futures), "judging", len(futures), console=console):
            yield future.result()


def _write(judgements: Sequence[Judgement], path: Path) -> None:
    rows = [
        {**asdict(item), "ratio": item.ratio, "floor_ratio": item.floor_ratio}
        for item in judgements
    ]
    for row in rows:
        del row["points"]
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _print(judgements: Sequence[Judgement], options: argparse.Namespace) -> None:
    console = table_console(WIDTH)
    console.print(summary_table(judgements))
    floors = floor_table(judgements)
    if floors is not None:
        console.print(floors)
    goals = goals_of(
        judgements,
        group=options.group,
        unseen=options.unseen,
        targets=read_targets(options.targets),
    )
    console.print(goal_table(goals))


def _draw(
    tasks: Sequence[Task],
    judgements: Sequence[Judgement],
    options: argparse.Namespace,
    hardware: Mapping[str, HardwareDescription],
    prior_of: PriorOf,
) -> None:
    # The plotting library is needed only for plots.
    from benchmarks.accuracy.plots import draw_curve, draw_points  # noqa: PLC0415 - see above

    draw_points(judgements, options.plots)
    for task in track(tasks, "drawing", console=Console(stderr=True)):
        draw_curve(task, hardware, prior_of(task), options.time_budget, options.plots)


if __name__ == "__main__":
    main()
