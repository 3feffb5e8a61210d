"""A job under way and how long it still takes."""

from dataclasses import dataclass, field
from datetime import datetime

from app.domain.configurations import Configuration, Scenario
from app.domain.forecasts import ForecastWarning, Interval, SpotTerms
from app.domain.identifiers import Slug
from app.domain.prices import PriceQuery


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a job on another configuration: its duration and the share of work done."""

    configuration: Configuration
    elapsed_s: float
    progress: float


@dataclass(frozen=True, slots=True)
class RemainingRequest:
    """A job under way.

    `progress` and `elapsed_s` are those of the whole job, including past `segments`; None if
    unknown. `rate_variation` is the relative standard deviation of its rate over a whole run.
    """

    workload: Slug
    scenario: Scenario
    progress: float | None = None
    elapsed_s: float | None = None
    segments: tuple[Segment, ...] = ()
    confidence: float = 0.9
    deadline: datetime | None = None
    rate_variation: float = 0.1
    pricing: PriceQuery = field(default_factory=PriceQuery)
    spot: SpotTerms = field(default_factory=SpotTerms)
    regressor_version: int | None = None


@dataclass(frozen=True, slots=True)
class Remaining:
    """How long a job still takes.

    `total_s` is the whole duration (spent and remaining), `forecast_s` the original forecast for
    the present configuration, `ratio` the duration over that forecast, `weight` the share of the
    observed rate in the answer, in [0, 1]. `warnings` say what of the present configuration
    was never measured.
    """

    request: RemainingRequest
    regressor_version: int
    expected_s: float
    left_s: Interval
    total_s: Interval
    forecast_s: Interval
    ratio: float
    weight: float
    ends_at: datetime | None
    latest_end: datetime | None
    deadline_probability: float | None
    warnings: tuple[ForecastWarning, ...]
