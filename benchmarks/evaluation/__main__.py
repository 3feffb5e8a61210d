"""Time fits, loads and forecasts of the library relative to a plain numpy floor; print the ratios.

Usage: ``python -m benchmarks.evaluation [--rows 50 500 5000 20000] [--rounds 9]``. The floor is one
Gaussian-process mean and deviation over as many training rows as the workload has configurations
(at most 400), in bare numpy: the minimum for any answer with an interval. Library and floor are
measured in turns, in CPU seconds, so that other processes do not count; the floor relative to
itself shows how much the machine alone varies.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# Set before numpy is imported, since the goals are for one core.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402 - see above
from rich.console import Console  # noqa: E402 - see above
from rich.progress import track  # noqa: E402 - see above
from rich.table import Table  # noqa: E402 - see above

from benchmarks.console import table_console  # noqa: E402 - see above
from benchmarks.evaluation.workloads import generate_features, generate_runs  # noqa: E402 - above
from models import (  # noqa: E402 - see above
    FeatureTable,
    FittedPortfolio,
    FloatArray,
    dumps,
    fit_portfolio,
    loads,
)

_FIT_GOALS = {50: 2.0, 500: 10.0, 5000: 60.0, 20_000: 60.0}
_SMALL_BUDGET = 1.0
_ONE_GOALS, _ONE_GOAL = {50: 0.15e-3, 100: 0.15e-3}, 0.3e-3
_MANY_GOAL, _LOAD_GOAL, _BOOSTER_GOAL = 0.25, 0.02, 3.0
_MANY, _REPEATS, _CHUNK = 10_000, 50, 256
_LARGEST_FLOOR = 400

_FIRST_REQUEST = """
import sys, time
data = open(sys.argv[1], "rb").read()
import numpy as np
from models import loads
from benchmarks.evaluation.workloads import generate_features
asked = generate_features(1, 5)
started = time.process_time()
portfolio = loads(data)
loaded = time.process_time()
portfolio.predict(asked).interval(0.9)
print(loaded - started, time.process_time() - loaded)
"""


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds measured on one workload; ratios are medians over the rounds."""

    rows: int
    fit: float
    load: float
    first: float
    one: float
    many: float
    one_ratio: float
    many_ratio: float
    control: float
    kilobytes: float
    booster_ratio: float
    hurried: float
    hurried_error: float
    error: float

    def goal_ratios(self) -> dict[str, float]:
        """Return the ratio of each figure to its goal, by name; the goal is met up to 1."""
        return {
            "fit": self.fit / _FIT_GOALS.get(self.rows, np.inf),
            "load": self.load / _LOAD_GOAL,
            "load + first": (self.load + self.first) / _LOAD_GOAL,
            "load / Booster": self.booster_ratio / _BOOSTER_GOAL,
            "one": self.one / _ONE_GOALS.get(self.rows, _ONE_GOAL),
            "10,000": self.many / _MANY_GOAL,
        }

    def missed(self) -> list[str]:
        """Return the goals that were not reached."""
        return [
            f"{self.rows} rows: {name}" for name, ratio in self.goal_ratios().items() if ratio > 1
        ]


class Floor:
    """A Gaussian process in bare numpy, on features that are already numbers."""

    def __init__(self, n: int, columns: int) -> None:
        generator = np.random.default_rng(0)
        self._rows = generator.normal(size=(n, columns))
        self._squares = (self._rows**2).sum(axis=1)
        kernel = self._correlations(self._rows) + 1e-2 * np.eye(n)
        self._inverse = np.linalg.inv(kernel)
        self._alpha = self._inverse @ generator.normal(size=n)

    def predict(self, X: FloatArray) -> FloatArray:
        """Return means and deviations, computed in cache-sized parts."""
        parts = [
            self._predict_chunk(X[start : start + _CHUNK]) for start in range(0, len(X), _CHUNK)
        ]
        return np.concatenate(parts, axis=1)

    def _predict_chunk(self, X: FloatArray) -> FloatArray:
        k = self._correlations(X)
        variance = 1.0 - np.einsum("ij,ij->i", k @ self._inverse, k)
        return np.stack([k @ self._alpha, np.sqrt(np.maximum(variance, 0.0))])

    def _correlations(self, X: FloatArray) -> FloatArray:
        squares = (X**2).sum(axis=1)[:, None] + self._squares
        correlations: FloatArray = np.exp(X @ self._rows.T - 0.5 * squares)
        return correlations


def main() -> None:
    """Measure, print, and fail when a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evaluation", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=list(_FIT_GOALS))
    parser.add_argument("--rounds", type=int, default=9, help="how often each is measured")
    arguments = parser.parse_args()
    progress = track(arguments.rows, "measuring", console=Console(stderr=True))
    measured = [_measure(rows, arguments.rounds) for rows in progress]
    # A pipe has no width of its own, and no figure may be cut.
    console = table_console(120)
    console.print(_table(measured))
    console.print(_goal_table(measured))
    missed = [goal for figures in measured for goal in figures.missed()]
    if missed:
        raise SystemExit(f"Goals missed: {', '.join(missed)}.")


def _measure(rows: int, rounds: int) -> Figures:
    # Imports during the first fit must not be measured.
    fit_portfolio(generate_runs(25, 0), seed=0, time_budget_s=60.0)
    portfolio, fit = _fit(rows, 60.0)
    hurried_portfolio, hurried = _fit(rows, _SMALL_BUDGET)
    artefact = dumps(portfolio)
    load, first = _first_request(artefact)
    served = loads(artefact)
    floor = Floor(min(portfolio.report.n_configurations, _LARGEST_FLOOR), 6)
    singles = [generate_features(1, seed) for seed in range(_REPEATS)]
    questions, numbers = (
        generate_features(_MANY, 7),
        np.random.default_rng(1).normal(size=(_MANY, 6)),
    )

    def one() -> None:
        for question in singles:
            _answer(served, question)

    def one_floor() -> None:
        for row in range(_REPEATS):
            floor.predict(numbers[row : row + 1])

    ones, one_floors, control = _in_turns(one, one_floor, rounds)
    many, many_floors, _ = _in_turns(
        lambda: _answer(served, questions), lambda: floor.predict(numbers), rounds
    )
    return Figures(
        rows, fit, load, first, statistics.median(ones) / _REPEATS, statistics.median(many),
        _ratio(ones, one_floors), _ratio(many, many_floors), control, len(artefact) / 1024,
        _booster_ratio(artefact, rows, rounds),
        hurried, _error(hurried_portfolio), _error(portfolio),
    )  # fmt: skip


def _fit(rows: int, budget_s: float) -> tuple[FittedPortfolio, float]:
    """Return a fit and its CPU seconds."""
    runs, started = generate_runs(rows, 0), time.process_time()
    portfolio = fit_portfolio(runs, seed=0, time_budget_s=budget_s)
    return portfolio, time.process_time() - started


def _error(portfolio: FittedPortfolio) -> float:
    """Return the mean relative error on runs that were not in the fit."""
    unseen = generate_runs(1000, 3)
    median = portfolio.predict(unseen.features).median()
    return float(np.abs(median / unseen.duration_seconds - 1).mean())


def _answer(portfolio: FittedPortfolio, questions: FeatureTable) -> None:
    """Ask like the service: median, bounds, time limit."""
    forecast = portfolio.predict(questions)
    forecast.median()
    forecast.interval(0.9)
    forecast.quantile(0.95)


def _in_turns(
    ours: Callable[[], object], floor: Callable[[], object], rounds: int
) -> tuple[list[float], list[float], float]:
    """Return the seconds of both by round, and the floor relative to itself."""
    ours()
    floor()
    timed = [(_seconds(ours), _seconds(floor), _seconds(floor)) for _ in range(rounds)]
    columns = [list(column) for column in zip(*timed, strict=True)]
    return columns[0], columns[1], _ratio(columns[1], columns[2])


def _seconds(function: Callable[[], object]) -> float:
    started = time.process_time()
    function()
    return time.process_time() - started


def _ratio(ours: list[float], floor: list[float]) -> float:
    return statistics.median(one / other for one, other in zip(ours, floor, strict=True))


def _first_request(artefact: bytes) -> tuple[float, float]:
    """Return the seconds of a load and a first forecast in fresh processes, as medians of 5."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "artefact"
        path.write_bytes(artefact)
        command = [sys.executable, "-c", _FIRST_REQUEST, str(path)]
        outputs = [
            subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
            for _ in range(5)
        ]
    loads_s, firsts_s = zip(*[(float(load), float(first)) for load, first in outputs], strict=True)
    return statistics.median(loads_s), statistics.median(firsts_s)


def _booster_ratio(artefact: bytes, rows: int, rounds: int) -> float:
    """Return the time of a load over that of LightGBM reading as many trees of the same runs.

    Trees are only a part of the artefact, which also holds processes, laws and runs with checks.
    """
    # Heavy, and not needed where a portfolio is served.
    import lightgbm  # noqa: PLC0415 - see above

    from benchmarks.evaluation.boosters import booster_text, leaves_of_trees  # noqa: PLC0415 - see above

    text = booster_text(generate_runs(rows, 0), leaves_of_trees(loads(artefact)))
    ours, theirs, _ = _in_turns(
        lambda: loads(artefact), lambda: lightgbm.Booster(model_str=text), rounds
    )
    return _ratio(ours, theirs)


def _table(measured: list[Figures]) -> Table:
    table = Table(title="Library on one core (CPU time, medians)")
    for heading in (
        "rows", "fit s", "KiB", "load ms", "first ms", "one ms", "/ floor", "10,000 s", "/ floor",
        "floor / floor",
    ):  # fmt: skip
        table.add_column(heading, justify="right", no_wrap=True)
    for figures in measured:
        table.add_row(
            f"{figures.rows:,}",
            f"{figures.fit:.2f}",
            f"{figures.kilobytes:.0f}",
            f"{1e3 * figures.load:.1f}",
            f"{1e3 * figures.first:.1f}",
            f"{1e3 * figures.one:.3f}",
            f"{figures.one_ratio:.1f}",
            f"{figures.many:.3f}",
            f"{figures.many_ratio:.1f}",
            f"{figures.control:.2f}",
        )
    return table


def _goal_table(measured: list[Figures]) -> Table:
    table = Table(title="Over the goals (at most 1), and what a budget of 1 s gives")
    names = list(measured[0].goal_ratios()) if measured else []
    for heading in ("rows", *names, "fit in 1 s", "error %", "error % unhurried"):
        table.add_column(heading, justify="right", no_wrap=True)
    for figures in measured:
        table.add_row(
            f"{figures.rows:,}",
            *(f"{ratio:.2f}" for ratio in figures.goal_ratios().values()),
            f"{figures.hurried:.2f}",
            f"{100 * figures.hurried_error:.1f}",
            f"{100 * figures.error:.1f}",
        )
    return table


if __name__ == "__main__":
    main()
