"""Forecasts along one axis: the benefit and cost of more workers, data or epochs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import exp, log
from typing import Final

from app.domain.configurations import ParameterValue
from app.domain.forecasts import Forecast
from app.domain.identifiers import RunId

WHOLE_AXES: Final = frozenset({"workers", "nodes"})
"""Features with integer values."""


@dataclass(frozen=True, slots=True)
class Axis:
    """The feature that varies, from `start` to `stop` in at most `points` steps.

    Where `is_start_open`, nobody asked for just this start.
    """

    name: str
    start: float
    stop: float
    points: int
    is_start_open: bool = False

    def values(self) -> list[float]:
        """Return the values: all integers if they fit into `points`, else in equal ratios.

        They are distinct and rise from `start` to `stop`.
        """
        span = self.stop - self.start
        if self.name in WHOLE_AXES and span < self.points:
            return [self.start + step for step in range(int(span) + 1)]
        if span == 0:
            return [self.start]
        first = log(self.start)
        ratio = (log(self.stop) - first) / (self.points - 1)
        spaced = [exp(first + ratio * step) for step in range(1, self.points - 1)]
        is_whole = self.name in WHOLE_AXES
        inner = [float(round(value) if is_whole else f"{value:.6g}") for value in spaced]
        # The ends stay as they are: rounded ones may lie beyond what was measured.
        return sorted({self.start, *(v for v in inner if self.start < v < self.stop), self.stop})


@dataclass(frozen=True, slots=True)
class RunsAlong:
    """The runs along an axis that have the given features, by name (parameters as `param.NAME`).

    They name one of these GPU types, or no GPU but one of these `machines`; None is any hardware.
    """

    axis: Axis
    features: Mapping[str, ParameterValue]
    gpu_types: Collection[str] | None = None
    machines: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A forecast on the curve.

    `speed_up` and `efficiency` are relative to the first point; `seconds_saved_per_money` is
    relative to the previous point: the seconds saved per additional unit of money.
    """

    value: float
    forecast: Forecast
    speed_up: float | None
    efficiency: float | None
    seconds_saved_per_money: float | None


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """A measured run that agrees with the question in all but the axis."""

    run_id: RunId
    value: float
    duration_seconds: float


@dataclass(frozen=True, slots=True)
class Curve:
    """Forecasts along an axis, and the runs measured there."""

    axis: Axis
    points: tuple[CurvePoint, ...]
    measured: tuple[MeasuredPoint, ...]
