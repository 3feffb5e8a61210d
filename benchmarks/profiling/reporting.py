"""Results of orders as a growing file and as a table."""

import csv
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.profiling.trial import ORDERS, STOP_RULE, Reach
from models import FloatArray

_GOAL, _WIDTH, _DRAWS = 0.5, 130, 2000
_COMPARED = tuple(order for order in ORDERS if order != "plan")


def read_reaches(path: Path) -> list[Reach]:
    """Return the results of earlier trials; nothing if there is no such file."""
    if not path.exists():
        return []
    with path.open(newline="") as stream:
        return [
            Reach(**{column.name: column.type(row[column.name]) for column in fields(Reach)})  # type: ignore[operator]  # a plain class each
            for row in csv.DictReader(stream)
        ]


def append_reaches(reaches: Sequence[Reach], path: Path) -> None:
    """Append rows to a file, so that results survive an interruption."""
    is_new = not path.exists()
    with path.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, [column.name for column in fields(Reach)])
        if is_new:
            writer.writeheader()
        writer.writerows(asdict(reach) for reach in reaches)


def print_reaches(reaches: Sequence[Reach]) -> None:
    """Print medians over the seeds, and the plan's cost relative to each other order."""
    console = Console(soft_wrap=True, width=_WIDTH)
    names = sorted({reach.workload for reach in reaches})
    ratios = {
        order: np.array([_ratio(reaches, name, order) for name in names]) for order in _COMPARED
    }
    console.print(_table(reaches, names, ratios))
    for order, values in ratios.items():
        low, high = _bootstrap(values)
        console.print(
            f"dollars of the plan / {order}: median over {len(values)} workloads"
            f" {np.median(values):.2f} (90 % interval by bootstrap {low:.2f} to {high:.2f}),"
            f" cheaper on {np.count_nonzero(values < 1)}"
        )
    _print_stops(reaches, console)
    is_met = float(np.median(ratios["random"])) <= _GOAL
    console.print(f"goal of at most {_GOAL} of random order: {'met' if is_met else 'missed'}")


def _print_stops(reaches: Sequence[Reach], console: Console) -> None:
    stopped = [reach for reach in reaches if reach.order == STOP_RULE]
    if stopped:
        errors = [reach.error / reach.final_error for reach in stopped]
        low, middle, high = np.quantile(errors, [0.1, 0.5, 0.9])
        console.print(
            f"where the plan's own stop rule ends it: {_share(stopped):.0%} of the dollars of all"
            f" candidates (median), error / final error {middle:.2f} (tenths {low:.2f}, {high:.2f})"
        )


def _table(reaches: Sequence[Reach], names: Sequence[str], ratios: dict[str, FloatArray]) -> Table:
    table = Table(
        *("workload", "seeds", "final error", "runs", "dollars"),
        *(f"/ {order}" for order in _COMPARED),
        caption=f"runs and dollars (of measuring all candidates): {', '.join(ORDERS)}; medians over"
        " the seeds; ratios of the plan's dollars",
    )
    for row, name in enumerate(names):
        columns = [_select(reaches, name, order) for order in ORDERS]
        error = np.median([reach.final_error for reach in columns[0]])
        table.add_row(
            name,
            str(len(columns[0])),
            f"{error:.1%}",
            " ".join(f"{np.median([reach.runs for reach in column]):.0f}" for column in columns),
            " ".join(f"{_share(column):.0%}" for column in columns),
            *(f"{ratios[order][row]:.2f}" for order in _COMPARED),
        )
    return table


def _select(reaches: Sequence[Reach], name: str, order: str) -> list[Reach]:
    return [reach for reach in reaches if (reach.workload, reach.order) == (name, order)]


def _share(column: Sequence[Reach]) -> float:
    return float(np.median([reach.share for reach in column]))


def _ratio(reaches: Sequence[Reach], name: str, order: str) -> float:
    """Return the ratio of the median dollars; 1 if neither had to measure anything."""
    spent, compared = (_share(_select(reaches, name, key)) for key in ("plan", order))
    if compared > 0:
        return spent / compared
    return np.inf if spent > 0 else 1.0


def _bootstrap(ratios: FloatArray) -> tuple[float, float]:
    draws = np.random.default_rng(0).choice(ratios, (_DRAWS, len(ratios)))
    low, high = np.quantile(np.median(draws, axis=1), [0.05, 0.95], method="nearest")
    return float(low), float(high)
