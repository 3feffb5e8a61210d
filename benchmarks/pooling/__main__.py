"""Compare a workload's forecasts with and without knowledge from other workloads and data sheets.

Usage: ``python -m benchmarks.pooling --data DIR [--hardware FILE.csv] [--draws N] [--types N]
[--arms ARM ...] [--contributors N] [--jobs N] [--only NAME ...] --out result.csv``. Each folder of
DIR holds ``runs.csv``; it stands for a project and is left out of its own factory prior. Rows are
written as soon as they are known.
"""

import argparse
import csv
import multiprocessing
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, fields
from pathlib import Path

# Set before numpy is imported: several threads only slow down small matrices.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from rich.console import Console  # noqa: E402 - see above
from rich.progress import track  # noqa: E402 - see above

from benchmarks.accuracy.traces import SHIPPED_HARDWARE, Task, read_hardware  # noqa: E402 - see above
from benchmarks.pooling.arms import ARMS, Priors, summarise_all  # noqa: E402 - see above
from benchmarks.pooling.judging import Result, judge  # noqa: E402 - see above
from benchmarks.pooling.tables import print_results  # noqa: E402 - see above
from benchmarks.pooling.workloads import (  # noqa: E402 - see above
    MeasuredWorkload,
    first_runs_tasks,
    read_workloads,
    unseen_type_tasks,
)

FIRST_RUNS = (1, 3, 6)


def main(argv: Sequence[str] | None = None) -> None:
    """Judge, write, print."""
    arguments = _parse(argv)
    workloads = read_workloads(arguments.data)
    targets = [item for item in workloads if not arguments.only or item.folder in arguments.only]
    summaries = summarise_all(track(workloads, "summarising", console=Console(stderr=True)))
    names = {row.get("gpu_type", "") for item in workloads for row in item.rows}
    hardware = read_hardware(arguments.hardware, names)
    priors = Priors(summaries, hardware, arguments.contributors)
    work = [(item, tuple(_tasks(item, arguments))) for item in targets]
    arms = [arm for arm in ARMS if arm in {ARMS[0], *arguments.arms}]
    results: list[Result] = []
    with arguments.out.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, [field.name for field in fields(Result)])
        writer.writeheader()
        for judged in _judge_all([pair for pair in work if pair[1]], priors, arms, arguments.jobs):
            results += judged
            writer.writerows(asdict(item) for item in judged)
            stream.flush()
    if not results:
        raise SystemExit(f"No workload with enough configurations under {arguments.data}.")
    print_results(results)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pooling", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of data-set folders")
    parser.add_argument(
        "--hardware", type=Path, default=SHIPPED_HARDWARE, help="CSV of GPU specifications"
    )
    parser.add_argument("--out", type=Path, required=True, help="CSV of one row per task and arm")
    parser.add_argument("--draws", type=int, default=5, help="draws of first runs per workload")
    parser.add_argument("--types", type=int, help="GPU types left out per workload, default all")
    parser.add_argument(
        "--arms", nargs="*", choices=ARMS, default=ARMS, help=f"priors beside {ARMS[0]}; all"
    )
    parser.add_argument(
        "--contributors", type=int, help="other workloads of a project that count, default all"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", nargs="*", help="names of folders whose workloads are targets")
    return parser.parse_args(argv)


def _tasks(workload: MeasuredWorkload, arguments: argparse.Namespace) -> Iterable[Task]:
    yield from first_runs_tasks(workload, FIRST_RUNS, arguments.draws)
    yield from unseen_type_tasks(workload, arguments.types)


def _judge_all(
    work: Sequence[tuple[MeasuredWorkload, tuple[Task, ...]]],
    priors: Priors,
    arms: Sequence[str],
    jobs: int,
) -> Iterator[list[Result]]:
    console = Console(stderr=True)
    if jobs == 1:
        for workload, tasks in track(work, "judging", console=console):
            yield judge(workload, tasks, priors, arms)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        futures = [pool.submit(judge, workload, tasks, priors, arms) for workload, tasks in work]
        for future in track(as_completed(futures), "judging", len(futures), console=console):
            yield future.result()


if __name__ == "__main__":
    main()
