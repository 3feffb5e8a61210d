"""One trial: from four random runs until targets are forecast about as well as by all runs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.domain.profiling import StopRule
from benchmarks.profiling.orders import (
    Order,
    cheapest_sequence,
    design_order,
    ernest_sequence,
    fixed_order,
)
from benchmarks.profiling.problems import Problem, Workload, make_problem
from models import FittedPortfolio, HardwareDescription, fit_portfolio
from models.metrics import mape
from models.questions.regimes import Fold
from models.selection.holdout import FoldForecast

START_RUNS = 4
WITHIN = 1.2
"""The goal is reached when the error is at most this multiple of the final regressor's."""

ORDERS = ("plan", "ernest", "cheapest", "random")
STOP_RULE = "stop rule"
"""Another replay of the plan, until its own stop rule ends it, whatever the error is then."""

SEEDS_PER_SPLIT = 5
MEMBERS = ("gaussian_process", "physics_process")
"""The members with the largest prior weights and different laws, in a third of the time of all."""

_SEED = 1
_FIT_BUDGET_S = 600.0


@dataclass(frozen=True, slots=True)
class Reach:
    """The dollars and runs of one order, beyond the first four runs.

    `share` is the dollars as a share of the cost of measuring all candidates.
    """

    workload: str
    seed: int
    order: str
    dollars: float
    share: float
    runs: int
    error: float
    final_error: float


@dataclass(frozen=True, slots=True)
class Replay:
    """How trials are replayed.

    Parameters
    ----------
    hardware
        Data sheets of accelerators by GPU type.
    growth
        A new fit is made when the runs have grown by this factor.
    members
        Names of the portfolio's members in all fits, including the final one; None for all.
    has_held_out
        Whether fits weigh the members by held-out sets, which takes ten times as long; otherwise
        they have their prior weights.
    has_stop_rule
        Whether the plan is replayed once more, until its default stop rule ends it.
    price_power
        The plan takes the largest gain divided by the price to this power.
    """

    hardware: Mapping[str, HardwareDescription]
    growth: float = 1.25
    members: tuple[str, ...] | None = MEMBERS
    has_held_out: bool = False
    has_stop_rule: bool = False
    price_power: float = 1.0

    def fit(self, problem: Problem, rows: Sequence[int]) -> FittedPortfolio:
        """Return the portfolio of some of the candidates' runs."""
        return fit_portfolio(
            problem.candidates.take(np.array(rows)),
            seed=_SEED,
            time_budget_s=_FIT_BUDGET_S,
            regressors=self.members,
            hardware=self.hardware,
            fold_map=map if self.has_held_out else _skip,
        )


@dataclass(frozen=True, slots=True)
class Trials:
    """The seeds of one split of a workload into candidates and targets."""

    workload: Workload
    seeds: tuple[int, ...]
    replay: Replay

    def run(self) -> list[Reach]:
        """Return the result of each order for each seed."""
        problem = make_problem(self.workload, self.seeds[0] // SEEDS_PER_SPLIT)
        all_rows = range(problem.candidates.n_runs)
        final = error_of(self.replay.fit(problem, all_rows), problem)
        return [reach for seed in self.seeds for reach in self._seed(problem, seed, final)]

    def _seed(self, problem: Problem, seed: int, final: float) -> Iterator[Reach]:
        generator = np.random.default_rng([seed, 11])
        sequence = generator.permutation(problem.candidates.n_runs)
        start = sequence[:START_RUNS].tolist()
        first = self.replay.fit(problem, start)
        power = self.replay.price_power
        orders: dict[str, Order] = {
            "plan": design_order(problem, price_power=power),
            "ernest": fixed_order(ernest_sequence(problem, first)),
            "cheapest": fixed_order(cheapest_sequence(problem, first)),
            "random": fixed_order(sequence),
        }
        if self.replay.has_stop_rule:
            least = StopRule().min_narrowing
            orders[STOP_RULE] = design_order(problem, price_power=power, min_narrowing=least)
        for name, order in orders.items():
            goal = 0.0 if name == STOP_RULE else WITHIN * final
            measured, error = self._measure(problem, first, start, order, goal)
            spent = float(problem.dollars[measured[START_RUNS:]].sum())
            yield Reach(
                problem.name,
                seed,
                name,
                spent,
                spent / float(problem.dollars.sum()),
                len(measured) - START_RUNS,
                error,
                final,
            )

    def _measure(
        self,
        problem: Problem,
        first: FittedPortfolio,
        start: Sequence[int],
        order: Order,
        goal: float,
    ) -> tuple[list[int], float]:
        """Return the runs of an order until the error is small enough or no candidate is left."""
        measured, n, portfolio = list(start), problem.candidates.n_runs, first
        while (error := error_of(portfolio, problem)) > goal and len(measured) < n:
            count = max(1, round((self.replay.growth - 1) * len(measured)))
            chosen = order(portfolio, measured, min(count, n - len(measured)))
            if not chosen:
                break
            measured += chosen
            portfolio = self.replay.fit(problem, measured)
        return measured, error


def _skip(function: Callable[[Fold], FoldForecast], folds: Iterable[Fold]) -> list[FoldForecast]:  # noqa: ARG001 - a map's signature
    """Compute no held-out set."""
    return []


def error_of(portfolio: FittedPortfolio, problem: Problem) -> float:
    """Return the mean absolute percentage error on the targets, as a fraction."""
    median = portfolio.predict(problem.targets.features).median()
    return mape(problem.targets.duration_seconds, median)
