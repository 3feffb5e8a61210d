"""How accurate forecasts of Ray Train jobs are inside and beyond the measured range.

    python -m benchmarks.ray_study --runs examples/studies/ray-train-2core.csv

The runs are split by configuration: some are left out at random (interpolation), or those on more
workers than in the fit, or those on more data. The library is fitted for each split.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.accuracy.judging import Judgement, judge
from benchmarks.accuracy.traces import Row, Task, read_completed

FOLDS = 4
TIME_BUDGET_S = 20.0
_AXES = ("workers", "dataset_size", "param.cpus_per_worker")


def splits(rows: Sequence[Row], seed: int) -> Iterator[tuple[str, list[Task]]]:
    """Yield each kind of question with its tasks."""
    configurations = sorted({_configuration(row) for row in rows})
    order = np.random.default_rng(seed).permutation(len(configurations))
    fold = {configurations[index]: rank % FOLDS for rank, index in enumerate(order)}
    yield (
        "inside: a quarter of the configurations left out",
        [
            _task(rows, f"fold {number}", [fold[_configuration(row)] == number for row in rows])
            for number in range(FOLDS)
        ],
    )
    for column, unit in (("workers", "workers"), ("dataset_size", "samples")):
        values = sorted({float(row[column]) for row in rows})
        for most in values[len(values) // 2 - 1 : -1]:
            name = f"beyond: fitted up to {most:,.0f} {unit}"
            yield name, [_task(rows, name, [float(row[column]) > most for row in rows])]


def _configuration(row: Row) -> tuple[float, ...]:
    return tuple(float(row[name]) for name in _AXES)


def _task(rows: Sequence[Row], name: str, is_test: Sequence[bool]) -> Task:
    pairs = list(zip(rows, is_test, strict=True))
    train = tuple(row for row, held_out in pairs if not held_out)
    return Task(
        "ray", name, "study", name, train, tuple(row for row, held_out in pairs if held_out)
    )


def main() -> None:
    """Fit each split and print the errors."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.ray_study")
    parser.add_argument("--runs", type=Path, required=True, help="CSV export of the runs")
    parser.add_argument("--seed", type=int, default=1, help="of the random folds")
    arguments = parser.parse_args()
    rows = list(read_completed(arguments.runs))
    table = Table(title=f"{len(rows)} runs, {len({_configuration(row) for row in rows})} cells")
    for column in ("question", "fitted on", "asked", "MAPE", "in 90% band", "band's width"):
        table.add_column(column, justify="left" if column == "question" else "right")
    for name, tasks in splits(rows, arguments.seed):
        table.add_row(name, *_cells([judge(task, {}, {}, TIME_BUDGET_S) for task in tasks]))
    Console(width=120).print(table)
    Console().print(f"Two runs of one configuration differ by {_repeatability(rows):.0%} (median).")


def _cells(judged: Sequence[Judgement]) -> list[str]:
    n_test = np.array([judgement.n_test for judgement in judged])

    def mean(values: Sequence[float]) -> str:
        return f"{float(np.average(values, weights=n_test)):.0%}"

    return [
        f"{int(np.mean([judgement.n_train for judgement in judged]))}",
        f"{int(n_test.sum())}",
        mean([judgement.mape for judgement in judged]),
        mean([judgement.coverage_90 for judgement in judged]),
        mean([judgement.width_90 for judgement in judged]),
    ]


def _repeatability(rows: Sequence[Row]) -> float:
    """Return the median, over repeated configurations, of slowest over fastest run, minus 1."""
    groups: dict[tuple[float, ...], list[float]] = {}
    for row in rows:
        groups.setdefault(_configuration(row), []).append(float(row["duration_seconds"]))
    ratios = [max(group) / min(group) - 1 for group in groups.values() if len(group) > 1]
    return float(np.median(ratios)) if ratios else float("nan")


if __name__ == "__main__":
    main()
