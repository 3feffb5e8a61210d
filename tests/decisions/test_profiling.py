"""When measuring ends: budgets, goals, gains, and what is left."""

from dataclasses import dataclass
from math import exp

import numpy as np
import pytest

from app.decisions.pareto import FloatArray
from app.decisions.profiling import BoolArray, Limits, Reach, plan_runs
from app.domain.profiling import StopReason, StopRule


@dataclass(frozen=True, slots=True)
class Taken:
    candidate: int
    half_widths: FloatArray


class HalvingDesign:
    """Each run takes its gain off a single target's half width; the cheapest per gain first."""

    def __init__(self, gains: list[float], prices: list[float], half_width: float = 1.0) -> None:
        self._gains, self._prices = np.array(gains), np.array(prices)
        self._half_width = half_width

    def half_widths(self) -> FloatArray:
        return np.array([self._half_width])

    def gains(self) -> FloatArray:
        return self._gains

    def step(self, affordable: BoolArray) -> Taken | None:
        if not affordable.any():
            return None
        worth = np.where(affordable, self._gains / self._prices, -np.inf)
        chosen = int(worth.argmax())
        self._half_width -= float(self._gains[chosen])
        return Taken(chosen, self.half_widths())


AS_THE_DESIGN = Reach(np.ones(1), np.ones(1))
GAINS, PRICES = [0.3, 0.2, 0.09, 0.001], [3.0, 1.0, 1.0, 0.001]


def plan(
    runs: int = 10, budget: float | None = None, stop: StopRule | None = None
) -> tuple[list[int], StopReason]:
    limits = Limits(runs, budget, stop or StopRule())
    design, allowed = HalvingDesign(GAINS, PRICES), np.ones(4, dtype=np.bool_)
    schedule = plan_runs(design, np.array(PRICES), limits, AS_THE_DESIGN, allowed)
    return [run.candidate for run in schedule.runs], schedule.stop


def test_worthwhile_runs_are_taken_by_gain_per_price() -> None:
    assert plan() == ([1, 0, 2], StopReason.GAIN_TOO_SMALL)


def test_everything_is_taken_where_no_gain_is_too_small() -> None:
    stop = StopRule(min_narrowing=0.0)

    assert plan(stop=stop) == ([3, 1, 0, 2], StopReason.CANDIDATES_EXHAUSTED)


def test_number_of_runs_ends_the_plan() -> None:
    assert plan(runs=2) == ([1, 0], StopReason.RUNS_PLANNED)


def test_what_the_budget_does_not_allow_is_passed_over() -> None:
    assert plan(budget=2.5) == ([1, 2], StopReason.GAIN_TOO_SMALL)


def test_spent_budget_ends_the_plan() -> None:
    stop = StopRule(min_narrowing=0.0)

    assert plan(budget=1.001, stop=stop) == ([3, 1], StopReason.BUDGET_SPENT)


def test_reached_goal_ends_the_plan() -> None:
    goal = float(AS_THE_DESIGN.widths(np.array([0.85]))[0])

    assert plan(stop=StopRule(width=goal)) == ([1], StopReason.GOAL_REACHED)


def test_too_little_narrowing_for_the_money_ends_the_plan() -> None:
    assert plan(stop=StopRule(min_narrowing_per_cost=0.4)) == ([1], StopReason.GAIN_TOO_SMALL)


def test_widths_are_those_of_the_forecast_on_either_side() -> None:
    limits, reach = Limits(1, None, StopRule()), Reach(np.array([0.5]), np.array([2.0]))

    design, allowed = HalvingDesign(GAINS, PRICES), np.ones(4, dtype=np.bool_)
    schedule = plan_runs(design, np.array(PRICES), limits, reach, allowed)

    assert schedule.half_widths == pytest.approx(np.ones(1))
    assert schedule.expected == pytest.approx(np.array([0.8]))
    assert schedule.runs[0].narrowing == pytest.approx(
        (exp(2.0) - exp(-0.5)) - (exp(1.6) - exp(-0.4))
    )


def test_absurd_half_widths_stay_finite() -> None:
    assert np.isfinite(AS_THE_DESIGN.widths(np.array([1e6]))).all()


def test_forbidden_candidates_are_never_taken() -> None:
    design, allowed = HalvingDesign(GAINS, PRICES), np.array([True, False, False, False])

    schedule = plan_runs(
        design, np.array(PRICES), Limits(10, None, StopRule()), AS_THE_DESIGN, allowed
    )

    assert [run.candidate for run in schedule.runs] == [0]
    assert schedule.stop is StopReason.CANDIDATES_EXHAUSTED


def test_budget_of_as_many_equal_prices_pays_for_all() -> None:
    prices, limits = [0.1] * 3, Limits(10, 0.3, StopRule(min_narrowing=0.0))
    design, allowed = HalvingDesign([0.1] * 3, prices), np.ones(3, dtype=np.bool_)

    schedule = plan_runs(design, np.array(prices), limits, AS_THE_DESIGN, allowed)

    assert len(schedule.runs) == 3
