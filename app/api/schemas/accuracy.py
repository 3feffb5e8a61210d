"""Requests and responses about the accuracy of past forecasts."""

from datetime import datetime, timedelta
from typing import Annotated, Final

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from app.api.schemas.base import RequestModel, ResponseModel
from app.domain.accuracy import (
    AccuracyFigures,
    AccuracyReport,
    DriftDirection,
    DriftReport,
    ForecastSource,
)
from app.domain.spans import parse_span

_MAX_WINDOW: Final = timedelta(days=3660)


def _to_window(text: str) -> timedelta:
    window = parse_span(text)
    if window is not None and timedelta(0) < window <= _MAX_WINDOW:
        return window
    raise PydanticCustomError(
        "window",
        "{text} is not a span of time",
        {
            "text": repr(text[:40]),
            "remedy": "Use a number with s, min, h, d or w, such as 90d or 12h; at most 3660d.",
        },
    )


def _check_window(text: str) -> str:
    _to_window(text)
    return text


class AccuracyQuery(RequestModel):
    """Which runs are evaluated."""

    window: Annotated[
        str,
        AfterValidator(_check_window),
        Field(description="runs that arrived within this span before now: 90d, 12h", max_length=40),
    ] = "90d"

    def to_window(self) -> timedelta:
        """Return the span of time."""
        return _to_window(self.window)


class AccuracyFiguresOut(ResponseModel):
    """Forecast errors as fractions; interval coverage and width by confidence level."""

    runs: int
    mape: Annotated[float, Field(description="mean of |forecast - observed| / observed")]
    bias: Annotated[
        float,
        Field(description="mean of (forecast - observed) / observed; above 0: forecasts too long"),
    ]
    coverage: Annotated[dict[str, float], Field(description="share of runs inside the interval")]
    median_width: Annotated[
        dict[str, float], Field(description="median of (upper - lower) / median")
    ]

    @classmethod
    def of(cls, figures: AccuracyFigures) -> "AccuracyFiguresOut":
        """Return the schema of accuracy figures."""
        return cls(
            runs=figures.runs,
            mape=_rounded(figures.mape),
            bias=_rounded(figures.bias),
            coverage={name: _rounded(value) for name, value in figures.coverage.items()},
            median_width={name: _rounded(value) for name, value in figures.median_width.items()},
        )


class DriftOut(ResponseModel):
    """Whether measured durations have drifted from the forecasts of one regressor version."""

    alarm: bool
    direction: DriftDirection | None
    change_ratio: Annotated[
        float,
        Field(
            description="typical observed / forecast since the change, divided by that before it"
        ),
    ]
    since: datetime | None
    since_run: str | None
    alarm_at: datetime | None
    alarm_run: str | None
    statistic: Annotated[float, Field(description="cumulative sum, in deviations of one run")]
    threshold: float
    regressor_version: int
    runs: int

    @classmethod
    def of(cls, drift: DriftReport) -> "DriftOut":
        """Return the schema of a report."""
        since, alarm = drift.since, drift.alarm
        return cls(
            alarm=drift.has_alarm,
            direction=drift.direction,
            change_ratio=_rounded(drift.change_ratio),
            since=None if since is None else since.created_at,
            since_run=None if since is None else since.run_id,
            alarm_at=None if alarm is None else alarm.created_at,
            alarm_run=None if alarm is None else alarm.run_id,
            statistic=_rounded(drift.statistic),
            threshold=_rounded(drift.threshold),
            regressor_version=drift.regressor_version,
            runs=drift.runs,
        )


class AccuracyOut(ResponseModel):
    """The forecasts of a workload compared with the runs that followed them."""

    workload: str
    window_start: datetime
    window_end: datetime
    not_judged: Annotated[
        int,
        Field(
            description="succeeded runs that could not be compared with an earlier forecast:"
            " there was none, or its regressor can no longer be read"
        ),
    ]
    truncated: Annotated[bool, Field(description="only the newest 10,000 runs were looked at")]
    overall: AccuracyFiguresOut | None
    within_range: AccuracyFiguresOut | None
    outside_range: AccuracyFiguresOut | None
    by_source: dict[ForecastSource, AccuracyFiguresOut]
    drift: DriftOut | None

    @classmethod
    def of(cls, report: AccuracyReport) -> "AccuracyOut":
        """Return the schema of a report."""
        return cls(
            workload=report.workload,
            window_start=report.start,
            window_end=report.end,
            not_judged=report.not_judged,
            truncated=report.is_truncated,
            overall=_figures(report.overall),
            within_range=_figures(report.within_range),
            outside_range=_figures(report.outside_range),
            by_source={
                source: AccuracyFiguresOut.of(figures)
                for source, figures in report.by_source.items()
            },
            drift=None if report.drift is None else DriftOut.of(report.drift),
        )


def _figures(figures: AccuracyFigures | None) -> AccuracyFiguresOut | None:
    return None if figures is None else AccuracyFiguresOut.of(figures)


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
