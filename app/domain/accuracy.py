"""Whether forecasts came true: errors, coverage and drift of runs against earlier forecasts."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from app.domain.identifiers import Slug
from app.domain.runs import Run

LEVELS: Final = (0.5, 0.8, 0.9, 0.95)
"""The confidence levels whose coverage is reported."""


class ForecastSource(StrEnum):
    """Which earlier forecast a run is compared with.

    A recorded one that the run names by its identifier; the latest recorded one of the window with
    the same configuration and work that no earlier run has followed; or the forecast of the
    regressor that was published when the run arrived.
    """

    NAMED = "named"
    MATCHED = "matched"
    STANDING = "standing"


@dataclass(frozen=True, slots=True)
class AccuracyFigures:
    """How much forecasts and runs differed; all but `runs` are fractions.

    Parameters
    ----------
    runs
        Number of judged runs, at least 1.
    mape
        Mean of ``|forecast - observed| / observed``, for forecast medians.
    bias
        Mean of ``(forecast - observed) / observed``: positive if forecasts were too long.
    coverage
        Share of the runs inside their central interval, by level (``"0.9"``).
    median_width
        Median of interval width over forecast median, by level.
    """

    runs: int
    mape: float
    bias: float
    coverage: Mapping[str, float]
    median_width: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class RealisedForecast:
    """A recorded forecast and a run that names it; the project's name, times in seconds."""

    project: str
    workload: Slug
    observed_s: float
    median_s: float
    lower_s: float
    upper_s: float
    confidence: float


@dataclass(frozen=True, slots=True)
class RealisedAccuracy:
    """Accuracy of a workload's recorded forecasts: MAPE as a fraction, coverage by confidence.

    `judged` counts the runs behind each coverage: `runs` includes those of other confidences.
    """

    project: str
    workload: Slug
    runs: int
    mape: float
    coverage: Mapping[float, float]
    judged: Mapping[float, int]


class DriftDirection(StrEnum):
    """Which way durations went."""

    SLOWER = "slower"
    FASTER = "faster"


@dataclass(frozen=True, slots=True)
class DriftReport:
    """Whether durations have shifted relative to one and the same regressor.

    Parameters
    ----------
    statistic, threshold
        The cumulative sum and the value at which it raises the alarm, in standard deviations of one
        run.
    regressor_version
        The regressor with which the runs are compared.
    runs
        Number of runs in the sum, at least 1.
    changed_runs
        Number of these that arrived since the change.
    change_ratio
        Typical ratio of observed to forecast duration since the change, over that before it.
    since
        The first run after the change, None if there is none.
    alarm
        The run that raised the alarm, None without alarm.
    """

    statistic: float
    threshold: float
    regressor_version: int
    runs: int
    changed_runs: int
    change_ratio: float
    since: Run | None
    alarm: Run | None

    @property
    def has_alarm(self) -> bool:
        """Whether durations have shifted."""
        return self.alarm is not None

    @property
    def direction(self) -> DriftDirection | None:
        """The direction of the change, None if there is none."""
        if self.since is None:
            return None
        return DriftDirection.SLOWER if self.change_ratio > 1.0 else DriftDirection.FASTER


@dataclass(frozen=True, slots=True)
class AccuracyReport:
    """The forecasts of one workload compared with the runs that arrived in a window.

    `not_judged` counts succeeded runs in the window without an earlier forecast to compare with;
    `is_truncated` says that only the newest runs of the window were judged. Groups without runs are
    None or absent; `drift` is None if no run was judged since the present regressor was published.
    """

    workload: Slug
    start: datetime
    end: datetime
    not_judged: int
    is_truncated: bool
    overall: AccuracyFigures | None
    within_range: AccuracyFigures | None
    outside_range: AccuracyFigures | None
    by_source: Mapping[ForecastSource, AccuracyFigures]
    drift: DriftReport | None
