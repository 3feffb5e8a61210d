"""One trial: from four random runs until the targets are forecast as well as by all runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.profiling.orders import Order, ernest_sequence, in_sequence, planned
from benchmarks.profiling.problems import Problem, Workload, make_problem
from models import FittedPortfolio, HardwareDescription, fit_portfolio
from models.metrics import mape

START_RUNS = 4
WITHIN = 1.2
"""Reached when the error is at most this multiple of the final regressor's."""

ORDERS = ("plan", "ernest", "random")
MOST_RUNS = 90
SEEDS_PER_SPLIT = 5
_GROWTH = 1.25
_SCREEN = 1.5
_SEED = 1


@dataclass(frozen=True, slots=True)
class Reach:
    """What one order took: dollars and runs beyond the first four, and whether it arrived."""

    workload: str
    seed: int
    order: str
    dollars: float
    share: float
    runs: int
    is_reached: bool
    final_error: float


@dataclass(frozen=True, slots=True)
class Trials:
    """The seeds of one split of a workload into candidates and targets."""

    workload: Workload
    seeds: tuple[int, ...]
    hardware: Mapping[str, HardwareDescription]
    is_exact: bool

    def run(self) -> list[Reach]:
        """Return what each order took for each seed."""
        problem = make_problem(self.workload, self.seeds[0] // SEEDS_PER_SPLIT)
        everything = list(range(problem.candidates.n_runs))
        final = error_of(self._fit(problem, everything, is_quick=False), problem)
        return [reach for seed in self.seeds for reach in self._seed(problem, seed, final)]

    def _seed(self, problem: Problem, seed: int, final: float) -> list[Reach]:
        generator = np.random.default_rng([seed, 11])
        sequence = generator.permutation(problem.candidates.n_runs)
        start = sequence[:START_RUNS].tolist()
        first = self._fit(problem, start, is_quick=False)
        orders: dict[str, Order] = {
            "plan": planned(problem),
            "ernest": in_sequence(ernest_sequence(problem, first)),
            "random": in_sequence(sequence),
        }
        return [
            self._reach(problem, start, seed, name, order, final) for name, order in orders.items()
        ]

    def _reach(
        self,
        problem: Problem,
        start: Sequence[int],
        seed: int,
        name: str,
        order: Order,
        final: float,
    ) -> Reach:
        measured, n, goal = list(start), problem.candidates.n_runs, WITHIN * final
        while True:
            portfolio, error = self._judge(problem, measured, goal, is_planned=name == "plan")
            if error <= goal or len(measured) >= min(n, MOST_RUNS):
                break
            count = max(1, round((_GROWTH - 1) * len(measured)))
            measured += order(portfolio, measured, min(count, n - len(measured)))
        spent = float(problem.dollars[measured[START_RUNS:]].sum())
        share = spent / float(problem.dollars.sum())
        return Reach(
            problem.name,
            seed,
            name,
            spent,
            share,
            len(measured) - START_RUNS,
            error <= goal,
            final,
        )

    def _judge(
        self, problem: Problem, measured: Sequence[int], goal: float, *, is_planned: bool
    ) -> tuple[FittedPortfolio, float]:
        """Return a fit to plan by, and the error by the rule that holds for every order.

        A fit without held-out sets tells where the whole fit is far from the goal; only a plan
        needs the whole fit there too.
        """
        quick = self._fit(problem, measured, is_quick=True)
        error = error_of(quick, problem)
        is_near = self.is_exact or error <= _SCREEN * goal
        if not (is_near or is_planned):
            return quick, error
        whole = self._fit(problem, measured, is_quick=False)
        return whole, error_of(whole, problem) if is_near else error

    def _fit(self, problem: Problem, rows: Sequence[int], *, is_quick: bool) -> FittedPortfolio:
        return fit_portfolio(
            problem.candidates.take(np.array(rows)),
            seed=_SEED,
            time_budget_s=0.0 if is_quick else 600.0,
            hardware=self.hardware,
        )


def error_of(portfolio: FittedPortfolio, problem: Problem) -> float:
    """Return the mean absolute percentage error on the targets, as a fraction."""
    median = portfolio.predict(problem.targets.features).median()
    return mape(problem.targets.duration_seconds, median)
