"""Orders of measuring configurations: by plan, by Ernest's design, by price, at random."""

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.profiling.problems import Problem
from models import (
    Design,
    FittedPortfolio,
    FloatArray,
    IntArray,
    ernest_design,
    ernest_features,
    joint_forecast,
)

Order = Callable[[FittedPortfolio, Sequence[int], int], list[int]]
"""Maps a portfolio, the measured candidates and a number to the next candidates."""

_QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)
_DOUBLINGS = 10


def expected_dollars(problem: Problem, portfolio: FittedPortfolio) -> FloatArray:
    """Return the expected cost of each candidate by the forecasts, shape (n_candidates,)."""
    forecast = portfolio.predict(problem.candidates.features)
    seconds = np.mean([forecast.quantile(share) for share in _QUANTILES], axis=0)
    return np.asarray(seconds / 3600 * problem.hourly, dtype=np.float64)


def design_order(problem: Problem, *, price_power: float, min_narrowing: float = 0.0) -> Order:
    """Return the order of the greedy design, renewed at every fit.

    Gains are divided by the price to the power `price_power` (1 in the service). Runs that narrow
    the intervals by less than `min_narrowing` of their mean are not made.
    """

    def choose(portfolio: FittedPortfolio, measured: Sequence[int], count: int) -> list[int]:
        joints = joint_forecast(portfolio, problem.candidates.features, problem.targets.features)
        design = Design(joints, expected_dollars(problem, portfolio) ** price_power)
        is_unmeasured = np.ones(problem.candidates.n_runs, dtype=np.bool_)
        is_unmeasured[list(measured)] = False
        chosen: list[int] = []
        while len(chosen) < count:
            least = min_narrowing * float(design.half_widths().mean())
            step = design.step(is_unmeasured & (design.gains() >= least))
            if step is None:
                break
            is_unmeasured[step.candidate] = False
            chosen.append(step.candidate)
        return chosen

    return choose


def fixed_order(sequence: IntArray) -> Order:
    """Return the order of a fixed sequence."""

    def choose(portfolio: FittedPortfolio, measured: Sequence[int], count: int) -> list[int]:  # noqa: ARG001 - an order's signature
        known = set(measured)
        return [index for index in sequence.tolist() if index not in known][:count]

    return choose


def cheapest_sequence(problem: Problem, portfolio: FittedPortfolio) -> IntArray:
    """Return candidates by their expected cost after the first runs, the cheapest first."""
    return np.asarray(np.argsort(expected_dollars(problem, portfolio), kind="stable"))


def ernest_sequence(problem: Problem, portfolio: FittedPortfolio) -> IntArray:
    """Return candidates in the order in which Ernest's designs of growing budgets take them.

    Its features of workers and data are extended by the other columns: logs of numbers, indicators
    of categories. Costs are those expected after the first runs.
    """
    costs = expected_dollars(problem, portfolio)
    features = _features(problem)
    total, taken = float(costs.sum()), dict[int, None]()
    for power in range(_DOUBLINGS, -1, -1):
        share = ernest_design(features, costs, total / 2**power)
        for index in np.argsort(-share, kind="stable").tolist():
            if share[index] >= 0.5:  # noqa: PLR2004 - more than half taken
                taken[index] = None
    rest = [index for index in np.argsort(costs).tolist() if index not in taken]
    return np.array([*taken, *rest], dtype=np.int64)


def _features(problem: Problem) -> FloatArray:
    table = problem.candidates.features
    workers = np.nan_to_num(table.numeric["workers"], nan=1.0)
    size = np.nan_to_num(table.numeric["dataset_size"], nan=1.0)
    columns = [ernest_features(workers, size)]
    for name, values in table.numeric.items():
        known = np.nan_to_num(values, nan=0.0)
        if name not in {"workers", "dataset_size"} and np.ptp(known) > 0:
            columns.append(np.log1p(np.abs(known))[:, None])
    for levels in table.categorical.values():
        columns += [
            np.array([[float((value or "") == level)] for value in levels])
            for level in sorted({value or "" for value in levels})[1:]
        ]
    return np.hstack(columns)
