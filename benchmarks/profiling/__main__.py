"""Print how many dollars a profiling plan takes against Ernest's design and random order.

Usage: ``python -m benchmarks.profiling --data DIR [--hardware FILE.csv] [--jobs N] [--seeds 20]
[--only NAME ...] [--exact] [--out FILE.csv]``. Each folder of DIR holds a ``runs.csv``; workloads
with at least 40 configurations count. From four random runs on, configurations are measured until
the held-out targets are forecast with at most 1.2 times the error of a regressor of all
candidates. An order that does not get there within 90 runs counts with what it spent, the plan as
infinitely dear. By default a fit is tested on held-out sets only where its error is near the goal;
``--exact`` tests every one.
"""

import argparse
import csv
import multiprocessing
import os
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

from benchmarks.accuracy.traces import read_hardware  # noqa: E402 - see above
from benchmarks.profiling.problems import read_workloads  # noqa: E402 - see above
from benchmarks.profiling.trial import (  # noqa: E402 - see above
    ORDERS,
    SEEDS_PER_SPLIT,
    Reach,
    Trials,
)

LEAST_CONFIGURATIONS = 40
_GOAL, _WIDE = 0.5, 120


def main() -> None:
    """Try, print, write."""
    arguments = _parse()
    reaches: list[Reach] = []
    for part in _try_all(arguments):
        reaches += part
        if arguments.out:
            # After each part, so that a run that is stopped has something to show.
            _write(reaches, arguments.out)
    if not reaches:
        raise SystemExit(
            f"No workload with {LEAST_CONFIGURATIONS} configurations under {arguments.data}."
        )
    _print(reaches)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profiling", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of data-set folders")
    parser.add_argument("--hardware", type=Path, help="CSV of GPU specifications")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seeds", type=int, default=20, help="starts of each workload")
    parser.add_argument("--only", nargs="*", help="names of workloads")
    parser.add_argument("--exact", action="store_true", help="test every fit (slower)")
    parser.add_argument("--out", type=Path, help="CSV of one row per workload, seed and order")
    return parser.parse_args()


def _try_all(arguments: argparse.Namespace) -> Iterator[list[Reach]]:
    hardware = read_hardware(arguments.hardware)
    seeds = range(arguments.seeds)
    splits = [
        tuple(seeds[start : start + SEEDS_PER_SPLIT])
        for start in range(0, arguments.seeds, SEEDS_PER_SPLIT)
    ]
    trials = [
        Trials(workload, part, hardware, arguments.exact)
        for workload in read_workloads(arguments.data, LEAST_CONFIGURATIONS)
        if not arguments.only or workload.name in arguments.only
        for part in splits
    ]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.jobs, mp_context=context) as pool:
        futures = [pool.submit(Trials.run, trial) for trial in trials]
        console = Console(stderr=True)
        for future in track(as_completed(futures), "measuring", len(futures), console=console):
            yield future.result()


def _write(reaches: Sequence[Reach], path: Path) -> None:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(asdict(reaches[0])))
        writer.writeheader()
        writer.writerows(asdict(reach) for reach in reaches)


def _print(reaches: Sequence[Reach]) -> None:
    table = Table(
        *("workload", "final error", "runs", "dollars", "arrived", "/ random", "/ ernest"),
        caption="runs, dollars (of measuring all candidates) and arrivals: plan, Ernest, random;"
        " medians over the seeds; ratios of the plan's dollars",
    )
    ratios: dict[str, list[float]] = {"random": [], "ernest": []}
    for name in sorted({reach.workload for reach in reaches}):
        own = {
            order: sorted(
                (each for each in reaches if (each.workload, each.order) == (name, order)),
                key=lambda each: each.seed,
            )
            for order in ORDERS
        }
        row = {order: _ratio(own["plan"], own[order]) for order in ratios}
        for order, ratio in row.items():
            ratios[order].append(ratio)
        table.add_row(*_cells(name, own), *(f"{ratio:.2f}" for ratio in row.values()))
    console = Console(soft_wrap=True, width=_WIDE)
    console.print(table)
    for order, found in ratios.items():
        median = float(np.median(found))
        console.print(f"dollars of the plan / {order}, median over workloads: {median:.2f}")
    is_met = float(np.median(ratios["random"])) <= _GOAL
    console.print(f"goal of at most {_GOAL} of random order: {'met' if is_met else 'missed'}")


def _cells(name: str, own: dict[str, list[Reach]]) -> list[str]:
    error = float(np.median([each.final_error for each in own["plan"]]))
    columns = [own[order] for order in ORDERS]
    return [
        name,
        f"{100 * error:.1f}%",
        " ".join(f"{np.median([each.runs for each in column]):.0f}" for column in columns),
        " ".join(f"{np.median([each.share for each in column]):.0%}" for column in columns),
        " ".join(f"{np.mean([each.is_reached for each in column]):.0%}" for column in columns),
    ]


def _ratio(plan: Sequence[Reach], other: Sequence[Reach]) -> float:
    """Return the ratio of the median dollars; a plan that did not arrive is infinitely dear."""
    spent = float(np.median([each.share if each.is_reached else np.inf for each in plan]))
    compared = float(np.median([each.share for each in other]))
    return spent / compared if compared > 0 else float("nan") if spent == 0 else np.inf


if __name__ == "__main__":
    main()
