"""Stop a share of the long runs of measured data and compare fits with and without them.

Runs are stopped in two ways: by a time limit, which every longer run hits, and by preemption of
long runs after a random share of their duration. The forecasts are judged on the task's test runs
and on the true durations of the stopped runs.

    python -m benchmarks.censoring --data DIR [--tasks 8] [--out result.csv]
"""

import argparse
import csv
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.accuracy.traces import Task, read_tasks, to_tables
from models import Evidence, FloatArray, RunTable, UnfinishedRuns, fit_portfolio
from models.metrics import mape

SEED = 0
LIMIT_QUANTILE = 0.7
PREEMPTED_SHARE = 0.5
MIN_RUNS = 8
ARMS = ("complete", "dropped", "lower bounds", "with progress")


@dataclass(frozen=True, slots=True)
class Result:
    """MAPE (fractions) of one arm on one task, for its test runs and for the stopped runs."""

    data_set: str
    task: str
    stopping: str
    arm: str
    n_stopped: int
    test_mape: float
    stopped_mape: float


def main() -> None:
    """Judge, print, write."""
    arguments = _parse()
    folders = sorted(path.parent for path in arguments.data.glob("*/tasks.json"))
    tasks = [task for folder in folders for task in _chosen(read_tasks(folder), arguments.tasks)]
    results = [
        result
        for task in track(tasks, console=Console(stderr=True))
        for result in judge(task, arguments.time_budget)
    ]
    _print(results)
    if arguments.out is not None:
        _write(results, arguments.out)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.censoring", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of data-set folders")
    parser.add_argument("--tasks", type=int, default=8, help="tasks of each data set")
    parser.add_argument("--time-budget", type=float, default=10.0, help="seconds of one fit")
    parser.add_argument("--out", type=Path, help="CSV of all results")
    return parser.parse_args()


def _chosen(tasks: Sequence[Task], count: int) -> list[Task]:
    """Return evenly spaced tasks of interpolation with enough runs."""
    useful = [
        task for task in tasks if task.kind == "interpolation" and len(task.train) >= MIN_RUNS
    ]
    return useful[:: max(1, -(-len(useful) // count))]


def judge(task: Task, time_budget_s: float) -> Iterator[Result]:
    """Yield the result of each arm on a task, for both ways of stopping."""
    train, test = to_tables(task)
    for stopping in ("time limit", "preemption"):
        rng = np.random.default_rng(zlib.crc32(f"{task.name}/{stopping}".encode()))
        share = _stop(train, stopping, rng)
        stopped = np.flatnonzero(share < 1)
        if not len(stopped):
            continue
        for arm in ARMS:
            runs, evidence = _evidence(train, share, arm)
            portfolio = fit_portfolio(
                runs, seed=SEED, time_budget_s=time_budget_s, evidence=evidence
            )
            errors = [
                mape(table.duration_seconds, portfolio.predict(table.features).median())
                for table in (test, train.take(stopped))
            ]
            yield Result(task.folder, task.name, stopping, arm, len(stopped), *errors)


def _stop(train: RunTable, stopping: str, rng: np.random.Generator) -> FloatArray:
    """Return the observed share of each run, 1 if it ended."""
    seconds = train.duration_seconds
    if stopping == "time limit":
        return np.minimum(1.0, np.quantile(seconds, LIMIT_QUANTILE) / seconds)
    is_stopped = (seconds > np.median(seconds)) & (rng.random(len(seconds)) < PREEMPTED_SHARE)
    return np.where(is_stopped, rng.uniform(0.2, 0.95, len(seconds)), 1.0)


def _evidence(train: RunTable, share: FloatArray, arm: str) -> tuple[RunTable, Evidence | None]:
    if arm == "complete":
        return train, None
    ended, stopped = np.flatnonzero(share == 1), np.flatnonzero(share < 1)
    if arm == "dropped":
        return train.take(ended), None
    rows = train.take(stopped)
    progress = share[stopped] if arm == "with progress" else np.full(len(stopped), np.nan)
    unfinished = UnfinishedRuns(
        rows.features, rows.duration_seconds * share[stopped], progress, rows.run_ids
    )
    return train.take(ended), Evidence(unfinished=unfinished)


def _print(results: Sequence[Result]) -> None:
    table = Table("stopped by", "data set", "on", "tasks", *ARMS, "bounds / dropped", "better")
    for stopping in sorted({item.stopping for item in results}):
        kept = [item for item in results if item.stopping == stopping]
        for data_set in [*sorted({item.data_set for item in kept}), "all"]:
            group = [item for item in kept if data_set in (item.data_set, "all")]
            for column in ("test_mape", "stopped_mape"):
                table.add_row(
                    stopping, data_set, column.removesuffix("_mape"), *_row(group, column)
                )
    Console().print(table)


def _row(results: Sequence[Result], column: str) -> list[str]:
    errors = {
        arm: np.array([getattr(item, column) for item in results if item.arm == arm])
        for arm in ARMS
    }
    logs = {arm: np.log(np.maximum(values, 1e-3)) for arm, values in errors.items()}
    change = logs["lower bounds"] - logs["dropped"]
    means = [f"{100 * np.exp(logs[arm].mean()):.1f}%" for arm in ARMS]
    better = f"{(change < -0.02).sum()} better, {(change > 0.02).sum()} worse"  # noqa: PLR2004
    return [str(len(change)), *means, f"{np.exp(change.mean()):.2f}", better]


def _write(results: Sequence[Result], path: Path) -> None:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(asdict(results[0])))
        writer.writeheader()
        writer.writerows(asdict(item) for item in results)


if __name__ == "__main__":
    main()
