"""One row of the answers: a forecast whose parts are computed when first needed."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import repeat

from typing_extensions import override

from app.domain.columns import Rows
from app.domain.configurations import Scenario
from app.domain.energy import EnergyForecast
from app.domain.forecasts import (
    Basis,
    CostForecast,
    ExplainedBy,
    Feasibility,
    Forecast,
    ForecastWarning,
    Interval,
    Lesson,
    PurchaseOption,
    SpotReport,
    SupportReport,
    TargetForecast,
)
from app.domain.identifiers import ForecastId, Slug, WorkloadId
from app.services.answering.columns import AnswerColumns
from app.services.answering.figures import none_if_nan


class Answered:
    """The attributes of `Forecast`, under the same names.

    Parameters
    ----------
    columns
        The answers that this is a row of.
    row
        Its index; the row can be answered.
    """

    __slots__ = ("columns", "row")

    def __init__(self, columns: AnswerColumns, row: int) -> None:
        self.columns, self.row = columns, row

    @property
    def forecast_id(self) -> ForecastId | None:
        """None: the forecast is not stored."""
        return None

    @property
    def workload(self) -> Slug:
        """The workload whose regressor answered."""
        return self.columns.workloads[self.row]

    @property
    def workload_id(self) -> WorkloadId:
        """The identifier of the workload."""
        return self.columns.served.workload_id

    @property
    def regressor_version(self) -> int:
        """The regressor version that answered."""
        return self.columns.served.version

    @property
    def fitted_at(self) -> datetime:
        """When the regressor was fitted."""
        return self.columns.served.fitted_at

    @property
    def scenario(self) -> Scenario:
        """The question, in the regressor's terms."""
        return self.columns.scenarios[self.row]

    @property
    def scenario_sha256(self) -> str:
        """The digest of the scenario."""
        return self.columns.digests[self.row]

    @property
    def duration_seconds(self) -> Interval:
        """The duration with its bounds."""
        return self.columns.figures.durations[self.row]

    @property
    def time_limit_seconds(self) -> float:
        """The duration that the requested share of runs stays below."""
        return self.columns.figures.time_limit[self.row]

    @property
    def cost(self) -> CostForecast | None:
        """The cost, None where no price is known."""
        return self.columns.cost_of(self.row)

    @property
    def feasibility(self) -> Feasibility:
        """Whether it fits into memory."""
        chances, bases = self.columns.chances_to_fit
        return Feasibility(chances[self.row], bases[self.row])

    @property
    def deadline_probability(self) -> float | None:
        """The probability of keeping the deadline, None where there is none."""
        return none_if_nan(self.columns.figures.deadline[self.row])

    @property
    def budget_probability(self) -> float | None:
        """The probability of keeping the budget, None where it is unknown."""
        return none_if_nan(self.columns.within_budget[self.row])

    @property
    def support(self) -> SupportReport:
        """How well the runs support the question."""
        return self.columns.reports[self.row]

    @property
    def basis(self) -> Basis:
        """What the forecast is based on."""
        return Basis(self.columns.support[self.row].basis)

    @property
    def energy(self) -> EnergyForecast:
        """Energy and emissions."""
        return self.columns.energies[self.row]

    @property
    def explanation(self) -> Mapping[str, float]:
        """The shares that make up the duration."""
        return self.columns.explanations[self.row]

    @property
    def explained_by(self) -> ExplainedBy:
        """What the shares of the explanation are of: phases or terms."""
        has_phases = self.columns.served.portfolio.phases is not None
        return ExplainedBy.PHASES if has_phases else ExplainedBy.TERMS

    @property
    def warnings(self) -> tuple[ForecastWarning, ...]:
        """What callers should know before they rely on the forecast."""
        return self.columns.warnings[self.row]

    @property
    def taught_by(self) -> tuple[Lesson, ...] | None:
        """The runs that influenced the forecast, None where that was not asked for."""
        return self.columns.lessons[self.row]

    @property
    def spot(self) -> SpotReport | None:
        """The assumptions on interruptions, None where there are none."""
        return self.columns.spot[self.row]

    @property
    def purchases(self) -> tuple[PurchaseOption, ...]:
        """On demand and spot side by side, where the question is about spot capacity."""
        return self.columns.purchases[self.row]

    @property
    def to_target(self) -> TargetForecast | None:
        """The time and cost of the training until it reaches its target."""
        return self.columns.targets[self.row]

    def to_forecast(self) -> Forecast:
        """Return the forecast with all its parts."""
        return Forecast(
            forecast_id=self.forecast_id,
            workload=self.workload,
            workload_id=self.workload_id,
            regressor_version=self.regressor_version,
            fitted_at=self.fitted_at,
            scenario=self.scenario,
            duration_seconds=self.duration_seconds,
            time_limit_seconds=self.time_limit_seconds,
            cost=self.cost,
            feasibility=self.feasibility,
            deadline_probability=self.deadline_probability,
            budget_probability=self.budget_probability,
            support=self.support,
            basis=self.basis,
            energy=self.energy,
            explanation=self.explanation,
            explained_by=self.explained_by,
            warnings=self.warnings,
            taught_by=self.taught_by,
            spot=self.spot,
            purchases=self.purchases,
            to_target=self.to_target,
        )


class AllAnswered(Rows[Answered]):
    """All rows of answers without refusals, in order.

    Parameters
    ----------
    columns
        The answers.
    """

    __slots__ = ("columns",)

    def __init__(self, columns: AnswerColumns) -> None:
        self.columns = columns

    @override
    def __len__(self) -> int:
        return len(self.columns.requests)

    @override
    def row(self, index: int) -> Answered:
        return Answered(self.columns, range(len(self))[index])

    @override
    def __iter__(self) -> Iterator[Answered]:
        return map(Answered, repeat(self.columns), range(len(self)))
