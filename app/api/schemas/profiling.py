"""Requests and responses about profiling plans."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from app.api.schemas.base import RequestModel, ResponseModel
from app.api.schemas.forecast_answers import BandOut, WarningOut
from app.api.schemas.forecasts import (
    Amount,
    ConfigurationIn,
    ParameterIn,
    ParameterName,
    Parameters,
    PricingIn,
    Probability,
    Size,
    WorkIn,
    to_parameters,
)
from app.api.schemas.instants import Instant
from app.api.schemas.recommendations import SearchIn
from app.api.schemas.runs import ConfigurationOut, WorkOut
from app.domain.configurations import Scenario
from app.domain.identifiers import Slug
from app.domain.profiling import (
    MadeRun,
    ProfilingRequest,
    ProfilingSearch,
    StopReason,
    StopRule,
)

MAX_SCENARIOS = 2_000
_Sizes = Annotated[list[Size] | None, Field(min_length=1, max_length=1000)]
_Values = Annotated[list[ParameterIn], Field(min_length=1, max_length=100)]
_Width = Annotated[float, Field(gt=0, le=1000)]


class ScenarioIn(RequestModel):
    """A configuration, its work and further parameters."""

    configuration: ConfigurationIn = ConfigurationIn()
    work: WorkIn = WorkIn()
    parameters: Annotated[Parameters, Field(default_factory=dict)]

    def to_domain(self) -> Scenario:
        """Return the scenario."""
        return Scenario(
            self.configuration.to_domain(), self.work.to_domain(), to_parameters(self.parameters)
        )


class MadeRunIn(ScenarioIn):
    """A run that was made, whatever its outcome."""

    duration_seconds: Annotated[float, Field(ge=0, le=1e12)]
    started_at: Annotated[
        Instant | None, Field(description="billed at the price that held then; default: the plan's")
    ] = None

    def to_made(self) -> MadeRun:
        """Return the run."""
        return MadeRun(self.to_domain(), self.duration_seconds, self.started_at)


def _as_list(value: object) -> object:
    # The path of an error must not contain an index into a list that the caller did not send.
    return [ScenarioIn.model_validate(value)] if isinstance(value, dict) else value


Targets = Annotated[
    list[ScenarioIn],
    BeforeValidator(_as_list, json_schema_input_type=ScenarioIn | list[ScenarioIn]),
    Field(min_length=1, max_length=100, description="what should be forecast with certainty"),
]


class ProfilingSearchIn(SearchIn):
    """The grid of candidates: the product of all lists. Absent lists follow from the targets."""

    dataset_sizes: Annotated[
        _Sizes, Field(description="default: 1/8, 1/4, 1/2 and all of the targets'")
    ] = None
    batch_sizes: Annotated[
        _Sizes, Field(description="default: 1/8, 1/4, 1/2 and all of the targets'")
    ] = None
    epochs: Annotated[_Sizes, Field(description="default: the targets', and 1")] = None
    parameters: Annotated[
        Mapping[ParameterName, _Values], Field(max_length=100, description="default: the targets'")
    ] = {}

    def to_profiling(self) -> ProfilingSearch:
        """Return the search without repeated values."""
        return ProfilingSearch(
            hardware=self.to_domain(),
            dataset_sizes=tuple(dict.fromkeys(self.dataset_sizes or ())),
            batch_sizes=tuple(dict.fromkeys(self.batch_sizes or ())),
            epochs=tuple(dict.fromkeys(self.epochs or ())),
            parameters={
                name: tuple(dict.fromkeys(to_parameters({name: value})[name] for value in values))
                for name, values in self.parameters.items()
            },
        )


class StopRuleIn(RequestModel):
    """When to stop measuring."""

    width: Annotated[
        _Width | None,
        Field(description="enough when the mean width, (upper - lower) / median, is below"),
    ] = None
    min_narrowing: Annotated[
        float,
        Field(ge=0, lt=1, description="a run that narrows the intervals by less is not planned"),
    ] = 0.01
    min_narrowing_per_cost: Annotated[
        float | None,
        Field(gt=0, le=1e12, description="enough when a unit of money narrows the width by less"),
    ] = None

    def to_domain(self) -> StopRule:
        """Return the rule."""
        return StopRule(self.width, self.min_narrowing, self.min_narrowing_per_cost)


class ProfilingPlanIn(RequestModel):
    """The forecasts to make more certain, the runs that may be measured, and the budget."""

    target: Targets
    candidates: Annotated[
        list[ScenarioIn] | None,
        Field(min_length=1, max_length=MAX_SCENARIOS, description="instead of a search"),
    ] = None
    search: ProfilingSearchIn = ProfilingSearchIn()
    exclude: Annotated[
        list[ScenarioIn],
        Field(
            default_factory=list,
            max_length=MAX_SCENARIOS,
            description="never planned, such as one that failed",
        ),
    ]
    made: Annotated[
        list[MadeRunIn],
        Field(
            default_factory=list,
            max_length=MAX_SCENARIOS,
            description="runs already made on this budget; their bill is deducted from it",
        ),
    ]
    budget: Annotated[
        Amount | None, Field(description="of all planned runs together, and those made")
    ] = None
    runs: Annotated[int, Field(ge=1, le=100, description="at most this many")] = 10
    repeat: Annotated[bool, Field(description="measure configurations again")] = False
    confidence: Annotated[Probability, Field(description="of the intervals")] = 0.9
    stop: StopRuleIn = StopRuleIn()
    pricing: PricingIn = PricingIn()

    def to_domain(self, workload: Slug) -> ProfilingRequest:
        """Return the profiling request for a workload."""
        return ProfilingRequest(
            workload=workload,
            targets=tuple(scenario.to_domain() for scenario in self.target),
            candidates=tuple(scenario.to_domain() for scenario in self.candidates or ()),
            search=self.search.to_profiling(),
            exclude=tuple(scenario.to_domain() for scenario in self.exclude),
            made=tuple(scenario.to_made() for scenario in self.made),
            budget=self.budget,
            runs=self.runs,
            repeat=self.repeat,
            confidence=self.confidence,
            stop=self.stop.to_domain(),
            pricing=self.pricing.to_domain(),
            spot=self.pricing.spot.to_domain(),
        )


PLAN_EXAMPLES: dict[str, Any] = {
    "budget": {
        "summary": "narrow one forecast within a budget",
        "value": {
            "target": {
                "configuration": {"gpu_type": "V100-16GB", "workers": 16},
                "work": {"dataset_size": 1281167, "epochs": 90, "batch_size": 1024},
            },
            "budget": "25.00",
            "runs": 5,
            "stop": {"width": 0.3},
        },
    },
    "candidates": {
        "summary": "choose among given configurations",
        "value": {
            "target": {"configuration": {"workers": 8}, "work": {"dataset_size": 100000}},
            "candidates": [
                {"configuration": {"workers": 1}, "work": {"dataset_size": 10000}},
                {"configuration": {"workers": 4}, "work": {"dataset_size": 10000}},
            ],
            "pricing": {"price_per_hour": "0.10"},
        },
    },
}


class PlannedRunOut(ResponseModel):
    """A run to make; `width` is the relative interval width expected after it and those before."""

    order: int
    configuration: ConfigurationOut
    work: WorkOut
    parameters: dict[str, float | str]
    duration_seconds: BandOut | None
    price: str | None
    price_per_hour: str | None
    total_price: str | None
    narrowing: float
    width: float


class ProfilingTargetOut(ResponseModel):
    """A target's interval now and as expected after the plan; null until runs give the scale."""

    configuration: ConfigurationOut
    work: WorkOut
    parameters: dict[str, float | str]
    now: BandOut | None
    expected: BandOut | None
    width: float
    expected_width: float


class StopOut(ResponseModel):
    """Why the plan ends here, and the rule for stopping early."""

    reason: StopReason
    message: str
    width: float | None
    min_narrowing: float
    min_narrowing_per_cost: float | None


class RejectedRunOut(ResponseModel):
    """A candidate that is not in the plan, and why."""

    configuration: ConfigurationOut
    work: WorkOut
    parameters: dict[str, float | str]
    reason: Annotated[
        str,
        Field(
            description="measured, excluded, out_of_memory (more likely to run out of it than to"
            " succeed), price_unknown, other_currency, spot_infeasible, too_few_gpus (fewer on its"
            " nodes than workers) or too_few_workers (than nodes)"
        ),
    ]


class ProfilingPlanOut(ResponseModel):
    """The runs to make, in order, and the interval widths expected after them."""

    workload: str
    regressor_version: int | None
    basis: Annotated[str, Field(description="regressor, or prior where none is published")]
    confidence: float
    currency: str | None
    budget: str | None
    spent: Annotated[str | None, Field(description="bill of the runs already made")]
    considered: int
    runs: list[PlannedRunOut]
    total_price: str | None
    targets: list[ProfilingTargetOut]
    width: float
    expected_width: float
    attainable_width: float
    stop: StopOut
    rejected: list[RejectedRunOut]
    rejected_count: int
    warnings: list[WarningOut]
    request: dict[str, Any]
