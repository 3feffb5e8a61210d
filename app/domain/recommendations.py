"""A recommendation: which of many configurations to take for a piece of work."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Final

from app.domain.configurations import Configuration, ParameterValue, Purchase, Work
from app.domain.energy import NO_ENERGY_TERMS, EnergyTerms
from app.domain.forecasts import Forecast, SpotTerms
from app.domain.identifiers import Slug
from app.domain.prices import PriceQuery

ANYWHERE: Final = "*"


class Objective(StrEnum):
    """What should be as small as possible."""

    COST = "cost"
    DURATION = "duration"
    COST_DURATION_PRODUCT = "cost_duration_product"
    ENERGY = "energy"
    CARBON = "carbon"


@dataclass(frozen=True, slots=True)
class Search:
    """The search space; an empty tuple leaves the choice to what was measured.

    Without providers and regions the cheapest place counts; with `ANYWHERE` among them, every place
    where the hardware is on sale is a separate candidate.
    """

    gpu_types: tuple[str, ...] = ()
    instance_types: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    nodes: tuple[int, ...] = ()
    workers: tuple[int, ...] = ()
    purchase: tuple[Purchase, ...] = ()


@dataclass(frozen=True, slots=True)
class RecommendationRequest:
    """Which configuration is wanted for a piece of work; constraints hold at `confidence`."""

    workload: Slug
    work: Work = field(default_factory=Work)
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    search: Search = field(default_factory=Search)
    objective: Objective = Objective.COST
    deadline_s: float | None = None
    budget: Decimal | None = None
    confidence: float = 0.9
    require_within_range: bool = False
    limit: int = 10
    rejected_limit: int = 100
    pricing: PriceQuery = field(default_factory=PriceQuery)
    spot: SpotTerms = field(default_factory=SpotTerms)
    energy: EnergyTerms = NO_ENERGY_TERMS
    regressor_version: int | None = None

    @property
    def needs_cost(self) -> bool:
        """Whether a candidate without a known price is rejected."""
        return self.budget is not None or self.objective in {
            Objective.COST,
            Objective.COST_DURATION_PRODUCT,
        }


@dataclass(frozen=True, slots=True)
class RejectedCandidate:
    """A configuration that does not qualify, and why."""

    configuration: Configuration
    reason: str


@dataclass(frozen=True, slots=True)
class NextWorker:
    """The effect of one more worker.

    `extra_cost` is in the currency of the forecast, None if a price is unknown;
    `seconds_per_money` is None if the worker adds no cost.
    """

    workers: int
    seconds_saved: float
    extra_cost: Decimal | None
    currency: str | None
    seconds_per_money: float | None


@dataclass(frozen=True, slots=True)
class NeededChange:
    """A constraint that would have to be relaxed, or a fact that would have to be known.

    `constraint` names the field of the request, `asked` is its value and `needed` the value that it
    would need; None if it has none, if any value would do, or if no value would. `currency` is that
    of an amount if it is not the requested one.
    """

    constraint: str
    asked: float | bool | str | None
    needed: float | bool | str | None
    currency: str | None = None


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The best configurations, and what became of the others.

    `ranked` and `pareto` are cut at the limit; `rejected` lists some of `rejected_count`;
    `nearest` is the one that misses by the least if nothing qualifies.
    """

    request: RecommendationRequest
    regressor_version: int
    considered: int
    ranked: tuple[Forecast, ...]
    pareto: tuple[Forecast, ...]
    rejected: tuple[RejectedCandidate, ...]
    rejected_count: int
    rejected_by_reason: Mapping[str, int] = field(default_factory=dict)
    next_worker: NextWorker | None = None
    nearest: Forecast | None = None
    changes: tuple[NeededChange, ...] = ()
