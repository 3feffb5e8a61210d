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

    `duration_s`, `cost`, `energy_kwh` and `kg_co2e` are medians; the bounds are not exceeded with
    the stated confidence; `fits_probability` is the probability that the memory suffices.
    """

    duration_s: FloatArray
    duration_bound_s: FloatArray
    cost: FloatArray
    cost_bound: FloatArray
    energy_kwh: FloatArray
    kg_co2e: FloatArray
    within_range: BoolArray
    fits_probability: FloatArray


@dataclass(frozen=True, slots=True)
class Constraints:
    """Constraints that a candidate has to meet at the confidence of the bounds."""

    deadline_s: float | None = None
    budget: float | None = None
    require_within_range: bool = False
    confidence: float = 0.9


@dataclass(frozen=True, slots=True)
class Choice:
    """The qualified candidates by rising objective, the Pareto front, and the rest.

    `rejected` holds (index, reason) in the order of the candidates; `nearest` is the candidate
    that misses by the least if none qualifies.
    """

    ranked: IndexArray
    pareto: IndexArray
    rejected: tuple[tuple[int, Rejection], ...]
    nearest: int | None = None


def objective_values(candidates: Candidates, objective: Objective) -> FloatArray:
    """Return the values to minimise, shape (n_candidates,); NaN where unknown."""
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

    A candidate qualifies if its objective is known, its duration bound keeps the deadline, its cost
    bound the budget, it fits into memory, and, if required, its features lie within the measured
    range. Ties of the objective are broken by shorter duration, then by lower cost.
    """
    violations = _violations(candidates, objective, constraints)
    is_rejected = np.zeros(candidates.duration_s.size, dtype=bool)
    for mask in violations.values():
        is_rejected |= mask
    rejected = tuple(
        (int(index), next(reason for reason, mask in violations.items() if mask[index]))
        for index in np.flatnonzero(is_rejected)
    )
    qualified = np.flatnonzero(~is_rejected)
    value = objective_values(candidates, objective)[qualified]
    duration, cost = candidates.duration_s[qualified], candidates.cost[qualified]
    ranked = qualified[np.lexsort((cost, duration, value))]
    front = qualified[pareto_front(duration, cost)]
    if qualified.size or candidates.duration_s.size == 0:
        return Choice(ranked, front, rejected)
    nearest = _nearest(candidates, objective, constraints)
    return Choice(ranked, front, rejected, nearest)


def misfits(candidates: Candidates, constraints: Constraints) -> BoolArray:
    """Return where memory does not suffice with the confidence, shape (n_candidates,)."""
    return candidates.fits_probability < constraints.confidence


def _violations(
    candidates: Candidates, objective: Objective, constraints: Constraints
) -> dict[Rejection, BoolArray]:
    violations: dict[Rejection, BoolArray] = {
        Rejection.OUT_OF_MEMORY: misfits(candidates, constraints)
    }
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


def _nearest(candidates: Candidates, objective: Objective, constraints: Constraints) -> int:
    """Return the candidate that misses by the least.

    Candidates that do not fit into memory, or whose objective or cost is unknown, come last, since
    relaxing deadline and budget does not help them. Before them come those outside a required
    range. The rest are ordered by the factor by which the worst constraint is exceeded.
    """
    excess = np.ones(candidates.duration_s.size)
    unknown = np.isnan(objective_values(candidates, objective))
    # A deadline or budget of almost nothing is exceeded by a factor that overflows.
    with np.errstate(over="ignore"):
        if constraints.deadline_s is not None:
            excess = np.maximum(excess, candidates.duration_bound_s / constraints.deadline_s)
        if constraints.budget is not None:
            floor = max(constraints.budget, np.finfo(float).tiny)
            excess = np.fmax(excess, candidates.cost_bound / floor)
            unknown |= np.isnan(candidates.cost_bound)
    required = constraints.require_within_range
    is_outside = ~candidates.within_range & required
    value = np.where(unknown, candidates.duration_s, objective_values(candidates, objective))
    probability = candidates.fits_probability
    shortfall = np.where(misfits(candidates, constraints), 1.0 - probability, 0.0)
    return int(np.lexsort((value, excess, is_outside, unknown, shortfall))[0])
