"""Which of many forecast configurations to take: constraints first, then the objective."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from app.decisions.pareto import FloatArray, IndexArray, pareto_front
from app.domain.recommendations import Objective

BoolArray = npt.NDArray[np.bool_]


class Rejection(StrEnum):
    """Why a candidate does not qualify."""

    DEADLINE = "deadline"
    BUDGET = "budget"
    OUT_OF_MEMORY = "out_of_memory"
    BEYOND_RANGE = "beyond_range"
    PRICE_UNKNOWN = "price_unknown"
    ENERGY_UNKNOWN = "energy_unknown"
    CARBON_UNKNOWN = "carbon_unknown"


@dataclass(frozen=True, slots=True)
class Candidates:
    """Forecasts of n candidates as arrays of shape (n_candidates,); NaN is unknown.

    `duration_s`, `cost`, `energy_kwh` and `kg_co2e` are medians; the bounds are the values that
    are not exceeded with the stated confidence; `fits` is false where memory would not do with it.
    """

    duration_s: FloatArray
    duration_bound_s: FloatArray
    cost: FloatArray
    cost_bound: FloatArray
    energy_kwh: FloatArray
    kg_co2e: FloatArray
    within_range: BoolArray
    fits: BoolArray


@dataclass(frozen=True, slots=True)
class Constraints:
    """What a candidate has to keep at the confidence that the bounds were made for."""

    deadline_s: float | None = None
    budget: float | None = None
    require_within_range: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """A constraint that would have to give way, from `asked` to `needed`."""

    constraint: str
    asked: float | bool
    needed: float | bool


@dataclass(frozen=True, slots=True)
class Choice:
    """The qualified candidates by rising objective, the Pareto front, and the rest.

    `rejected` holds (index, reason) in the order of the candidates; `nearest` is the candidate
    that misses by least when none qualifies, with the `changes` that would admit it.
    """

    ranked: IndexArray
    pareto: IndexArray
    rejected: tuple[tuple[int, Rejection], ...]
    nearest: int | None = None
    changes: tuple[Change, ...] = ()


def objective_values(candidates: Candidates, objective: Objective) -> FloatArray:
    """Return what is minimised, shape (n_candidates,); NaN where it is unknown."""
    match objective:
        case Objective.COST:
            return candidates.cost
        case Objective.DURATION:
            return candidates.duration_s
        case Objective.COST_DURATION_PRODUCT:
            return candidates.cost * candidates.duration_s
        case Objective.ENERGY:
            return candidates.energy_kwh
        case Objective.CARBON:
            return candidates.kg_co2e


def choose(candidates: Candidates, objective: Objective, constraints: Constraints) -> Choice:
    """Return which candidates qualify, ranked, and why the others do not.

    A candidate qualifies when its objective is known, its duration bound keeps the deadline,
    its cost bound the budget, it fits into memory, and, if asked, its features lie within the
    measured range. Ties of the objective are broken by the shorter duration, then by the lower
    cost.
    """
    violations = _violations(candidates, objective, constraints)
    rejected_mask = np.zeros(candidates.duration_s.size, dtype=bool)
    for mask in violations.values():
        rejected_mask |= mask
    rejected = tuple(
        (int(index), next(reason for reason, mask in violations.items() if mask[index]))
        for index in np.flatnonzero(rejected_mask)
    )
    qualified = np.flatnonzero(~rejected_mask)
    value = objective_values(candidates, objective)[qualified]
    duration, cost = candidates.duration_s[qualified], candidates.cost[qualified]
    ranked = qualified[np.lexsort((cost, duration, value))]
    front = qualified[pareto_front(duration, cost)]
    if qualified.size or candidates.duration_s.size == 0:
        return Choice(ranked, front, rejected)
    nearest = _nearest(candidates, objective, constraints)
    if nearest is None:
        return Choice(ranked, front, rejected)
    return Choice(ranked, front, rejected, nearest, _changes(candidates, constraints, nearest))


def _violations(
    candidates: Candidates, objective: Objective, constraints: Constraints
) -> dict[Rejection, BoolArray]:
    violations: dict[Rejection, BoolArray] = {Rejection.OUT_OF_MEMORY: ~candidates.fits}
    unknown = np.isnan(objective_values(candidates, objective))
    if constraints.budget is not None:
        violations[Rejection.PRICE_UNKNOWN] = np.isnan(candidates.cost_bound)
        violations[Rejection.BUDGET] = candidates.cost_bound > constraints.budget
    if objective is Objective.ENERGY:
        violations[Rejection.ENERGY_UNKNOWN] = unknown
    elif objective is Objective.CARBON:
        violations[Rejection.CARBON_UNKNOWN] = unknown
    elif objective is not Objective.DURATION:
        violations[Rejection.PRICE_UNKNOWN] = unknown | np.isnan(candidates.cost_bound)
    if constraints.deadline_s is not None:
        violations[Rejection.DEADLINE] = candidates.duration_bound_s > constraints.deadline_s
    if constraints.require_within_range:
        violations[Rejection.BEYOND_RANGE] = ~candidates.within_range
    return violations


def _nearest(candidates: Candidates, objective: Objective, constraints: Constraints) -> int | None:
    """Return the candidate that exceeds its worst constraint by the smallest factor."""
    excess = np.ones(candidates.duration_s.size)
    if constraints.deadline_s is not None:
        excess = np.maximum(excess, candidates.duration_bound_s / constraints.deadline_s)
    if constraints.budget is not None:
        floor = max(constraints.budget, np.finfo(float).tiny)
        excess = np.maximum(excess, candidates.cost_bound / floor)
    outside = (
        ~candidates.within_range
        if constraints.require_within_range
        else np.zeros(excess.size, dtype=bool)
    )
    value = objective_values(candidates, objective)
    # No deadline and no budget makes room in memory.
    usable = np.flatnonzero(candidates.fits & ~(np.isnan(excess) | np.isnan(value)))
    if usable.size == 0:
        return None
    order = np.lexsort((value[usable], excess[usable], outside[usable]))
    return int(usable[order[0]])


def _changes(candidates: Candidates, constraints: Constraints, index: int) -> tuple[Change, ...]:
    changes = []
    duration, cost = candidates.duration_bound_s[index], candidates.cost_bound[index]
    if constraints.deadline_s is not None and duration > constraints.deadline_s:
        changes.append(Change("deadline_s", constraints.deadline_s, float(duration)))
    if constraints.budget is not None and cost > constraints.budget:
        changes.append(Change("budget", constraints.budget, float(cost)))
    if constraints.require_within_range and not candidates.within_range[index]:
        changes.append(Change("require_within_range", asked=True, needed=False))
    return tuple(changes)
