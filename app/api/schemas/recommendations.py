"""Requests and responses about recommendations."""

from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from app.api.schemas.base import BodyReadByHand, RequestModel, ResponseModel
from app.api.schemas.forecast_answers import ForecastOut
from app.api.schemas.forecasts import (
    Amount,
    Count,
    EnergyIn,
    Name,
    Parameters,
    PricingIn,
    Probability,
    Seconds,
    WorkIn,
    WorkloadId,
    to_parameters,
)
from app.api.schemas.runs import ConfigurationOut
from app.domain.configurations import Purchase
from app.domain.identifiers import Slug
from app.domain.recommendations import Objective, RecommendationRequest, Search

_Names = Annotated[list[Name] | None, Field(min_length=1, max_length=1000)]
_Counts = Annotated[list[Count] | None, Field(min_length=1, max_length=1000)]


class SearchIn(RequestModel):
    """The search space; lists left out default to the measured values."""

    gpu_types: _Names = None
    instance_types: _Names = None
    providers: Annotated[
        _Names, Field(description="default: the cheapest; `*`: each that sells it")
    ] = None
    regions: Annotated[
        _Names, Field(description="default: the cheapest; `*`: each where it is sold")
    ] = None
    nodes: _Counts = None
    workers: Annotated[
        _Counts,
        Field(description="default: powers of two up to four times the most measured"),
    ] = None
    purchase: Annotated[list[Purchase] | None, Field(min_length=1, max_length=10)] = None

    def to_domain(self) -> Search:
        """Return the search without repeated values."""
        return Search(
            gpu_types=tuple(dict.fromkeys(self.gpu_types or ())),
            instance_types=tuple(dict.fromkeys(self.instance_types or ())),
            providers=tuple(dict.fromkeys(self.providers or ())),
            regions=tuple(dict.fromkeys(self.regions or ())),
            nodes=tuple(dict.fromkeys(self.nodes or ())),
            workers=tuple(dict.fromkeys(self.workers or ())),
            purchase=tuple(dict.fromkeys(self.purchase or ())),
        )


class RecommendationIn(BodyReadByHand):
    """The work to find a configuration for, with the objective and the constraints."""

    workload: WorkloadId
    work: WorkIn = WorkIn()
    parameters: Annotated[Parameters, Field(default_factory=dict)]
    search: SearchIn = SearchIn()
    objective: Objective = Objective.COST
    deadline_s: Seconds | None = None
    budget: Annotated[
        Amount | None, Field(description="in pricing.currency, else the workload's")
    ] = None
    confidence: Annotated[
        Probability, Field(description="with which deadline and budget are kept")
    ] = 0.9
    require_within_range: bool = False
    limit: Annotated[
        int,
        Field(
            ge=1,
            le=1000,
            description="of the ranked candidates; of a longer Pareto front this many are shown,"
            " spread from end to end, with the recommended one if it is among them",
        ),
    ] = 10
    rejected_limit: Annotated[
        int, Field(ge=0, le=10_000, description="of the rejected candidates that are named")
    ] = 100
    pricing: PricingIn = PricingIn()
    energy: EnergyIn = EnergyIn()
    regressor_version: Annotated[int | None, Field(ge=1, lt=2**31)] = None

    def to_domain(self) -> RecommendationRequest:
        """Return the recommendation request."""
        return RecommendationRequest(
            workload=Slug(self.workload),
            work=self.work.to_domain(),
            parameters=to_parameters(self.parameters),
            search=self.search.to_domain(),
            objective=self.objective,
            deadline_s=self.deadline_s,
            budget=self.budget,
            confidence=self.confidence,
            require_within_range=self.require_within_range,
            limit=self.limit,
            rejected_limit=self.rejected_limit,
            pricing=self.pricing.to_domain(),
            spot=self.pricing.spot.to_domain(),
            energy=self.energy.to_domain(),
            regressor_version=self.regressor_version,
        )


RECOMMENDATION_IN: TypeAdapter[RecommendationIn] = TypeAdapter(RecommendationIn)
RECOMMENDATION_EXAMPLE: dict[str, Any] = {
    "workload": "resnet50",
    "work": {"dataset_size": 1281167, "epochs": 90, "batch_size": 1024},
    "search": {"gpu_types": ["V100-16GB", "T4"], "workers": [1, 2, 4, 8]},
    "objective": "cost",
    "deadline_s": 36000,
}


class RankedOut(ResponseModel):
    """A candidate with its forecast."""

    forecast: ForecastOut


class NextWorkerOut(ResponseModel):
    """The effect of one more worker.

    `extra_cost` is null if a price is unknown, `seconds_per_money` also if it costs nothing more.
    """

    workers: int
    seconds_saved: float
    extra_cost: str | None
    currency: str | None
    seconds_per_money: float | None


class RejectedOut(ResponseModel):
    """A candidate that does not qualify, and why."""

    configuration: ConfigurationOut
    reason: Annotated[
        str,
        Field(
            description="deadline, budget, out_of_memory, beyond_range, price_unknown,"
            " exchange_rate_unknown, energy_unknown, carbon_unknown, spot_infeasible, too_few_gpus"
            " (fewer on its nodes than workers) or too_few_workers (than nodes)"
        ),
    ]


class ChangeOut(ResponseModel):
    """A field of the request that would have to change, and the value it needs; null: any value."""

    constraint: str
    asked: float | bool | str | None
    needed: float | bool | str | None
    message: str


class NearestOut(ResponseModel):
    """The candidate that comes closest to the constraints, and what would have to change."""

    forecast: ForecastOut
    changes: list[ChangeOut]


class RecommendationOut(ResponseModel):
    """The best configurations, and why others were rejected."""

    workload: str
    regressor_version: int
    objective: Objective
    confidence: float
    considered: int
    recommended: RankedOut | None
    next_worker: NextWorkerOut | None
    ranked: list[RankedOut]
    pareto: list[RankedOut]
    rejected: list[RejectedOut]
    rejected_count: int
    rejected_by_reason: dict[str, int]
    nearest: NearestOut | None
