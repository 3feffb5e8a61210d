"""From raw numeric columns to the log features and ranges that regressors see."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from models.features.damping import Fading, fading_range
from models.features.layout import Role
from models.features.ordering import numeric_parameters
from models.tables import (
    CORE_COLUMNS,
    HARDWARE_COLUMNS,
    LARGEST,
    SMALLEST,
    FeatureTable,
    FloatArray,
)

Transform = Literal["log", "log1p", "scaled"]
Quotient = Literal["", "per_worker", "workers_per"]

MAX_LINEAR_RATIO = 30.0
"""Largest ratio of positive values at which a column with zeros stays linear (shares, flags)."""

PER_WORKER_VARIANCE_RATIO = 0.4
"""A parameter is a total over workers if dividing by them leaves less than this of its variance."""

DUPLICATE_CORRELATION = 0.9995
"""Absolute correlation above which a column repeats another."""

MAX_DUPLICATE_RATIO = 10.0
"""A column that varies more than this many times as much as another does not repeat it."""

MIN_MISSING_SHARE = 0.02
"""Missing values get an indicator unless nearly none or nearly all are missing."""

MAX_NARROW_RATIO = 1.05
"""Parameters whose values span a smaller ratio count from the smallest: years, versions, times."""

_WHOLE_COLUMNS = frozenset({"workers", "dataset_size", "epochs", "instance_vcpus"})
"""Columns that are not totals over workers."""

_MAX_TRENDLESS_LEVELS = 2
"""Number of levels that show no trend."""

_FLOOR = 1e-3
"""Positive values are floored at this share of the smallest measured one."""

_ONE_UNIT_BELOW = math.exp(-1)
"""Stands for zero, relative to the smallest measured value; the logarithm's tangent is 0 there."""

UNIDENTIFIED_SD = 0.5
"""Prior standard deviation of the exponent of a parameter that was constant in the runs."""

SWITCH_TOLERANCE = 1e-9
"""Differences up to this, in units of a constant, count as none."""

CORE_ROLES: Mapping[str, Role] = {
    "workers": "workers",
    "dataset_size": "dataset_size",
    "epochs": "epochs",
    "batch_size": "local_batch",
    "nodes": "workers_per_node",
    "instance_vcpus": "processors",
}


@dataclass(frozen=True, slots=True)
class NumericFeature:
    """One numeric column as regressors see it: quotient, transform, centre and measured range.

    `low` and `high` bound the transformed, centred values that were measured; `fill` stands for
    a missing one; `flagged` says that an indicator of missing values accompanies the feature;
    `used` is False for a column from which nothing could be learned: its exponent then has the
    prior mean `exponent` and deviation `exponent_sd` (`models.columns.exponents`); `fades` says on
    which sides of the measured range its trend fades (`models.columns.trends`), above it after
    `reach` log units; `origin` is the zero of a linear column.

    Zero and negative values have no ratio to a measured value: something is off that was on. Under
    a logarithm they are placed one unit below the smallest measured value. Where a column was
    constant and not positive, any other value is one unit away from the constant (`is_switch`).
    """

    column: str
    role: Role
    quotient: Quotient
    transform: Transform
    unit: float
    floor: float
    center: float
    fill: float
    low: float
    high: float
    spread: float
    always_known: bool
    flagged: bool
    used: bool
    exponent: float = 0.0
    exponent_sd: float = UNIDENTIFIED_SD
    fades: Fading = "none"
    reach: float = 0.0
    origin: float = 0.0

    @property
    def may_fade(self) -> bool:
        """Whether `models.columns.trends` judges its trend: a local batch or a parameter."""
        return self.role in ("local_batch", "parameter") and self.transform == "log" and self.used

    @property
    def fading_range(self) -> tuple[float, float]:
        """The values between which the trend is not damped, infinite on a side without fading."""
        return self.fading_range_beyond(self.low, self.high)

    def fading_range_beyond(self, low: float, high: float) -> tuple[float, float]:
        """Return what `fading_range` is if values from `low` to `high` were measured."""
        return fading_range(self.fades, low, high + self.reach)

    @property
    def axis_span(self) -> float:
        """Return the measured width, at least 0.2, so that distances from a constant exist too."""
        return max(self.high - self.low, 0.2)

    @property
    def off(self) -> float:
        """Return the substitute for values without a logarithm, in units."""
        if self.transform == "log1p":
            return _ONE_UNIT_BELOW - 1
        return self.floor / _FLOOR * _ONE_UNIT_BELOW if self.transform == "log" else self.floor

    @property
    def is_switch(self) -> bool:
        """Whether the column was constant and not positive in the runs."""
        return self.transform == "scaled" and self.spread == 0

    @property
    def tells_when_missing(self) -> bool:
        """Whether a question without it lacks something: a constant is taken as in the runs."""
        return self.always_known and self.spread > 0

    @property
    def missing_variance(self) -> float:
        """Return what leaving the feature out adds to the variance of the log duration."""
        exponent = UNIDENTIFIED_SD if self.role == "parameter" else 1.0
        return (exponent * self.spread) ** 2


@dataclass(frozen=True, slots=True)
class Companion:
    """A numeric column that is left out because it varied together with another one in all runs.

    ``feature = intercept + slope * of`` holds for the transformed, centred values, to `tolerance`
    in units of the kept column `of`.
    """

    feature: NumericFeature
    of: str
    slope: float
    intercept: float
    tolerance: float


def prolonged(scaled: FloatArray) -> FloatArray:
    """Return values in units of the largest measured one, those beyond it on a logarithmic scale.

    ``x`` for ``|x| <= 1``, ``sign(x) (1 + log |x|)`` beyond, with the same slope at 1: a factor
    ``exp(w x)`` continues as the power law with the same elasticity at the end of the measured
    range. Otherwise ten times the largest value would raise the factor to its tenth power.

    Examples
    --------
    >>> prolonged(np.array([-10.0, 0.5, 1.0, 10.0])).round(2).tolist()
    [-3.3, 0.5, 1.0, 3.3]
    """
    magnitude = np.abs(scaled)
    # The maximum of NaN and a number is NaN.
    beyond = np.copysign(1 + np.log(np.maximum(magnitude, 1.0)), scaled)
    return np.where(magnitude > 1, beyond, scaled)


def snapped(values: FloatArray) -> FloatArray:
    """Return the values with those within `SMALLEST` of zero set to zero.

    Examples
    --------
    >>> snapped(np.array([1e-300, 2.0])).tolist()
    [0.0, 2.0]
    """
    return np.where(np.abs(values) < SMALLEST, 0.0, values)


def quotient_of(column: FloatArray, workers: FloatArray | None, quotient: Quotient) -> FloatArray:
    """Return the column itself, its value per worker, or the workers per unit of it.

    Examples
    --------
    >>> quotient_of(np.array([64.0]), np.array([4.0]), "per_worker").tolist()
    [16.0]
    """
    if not quotient or workers is None:
        return column
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        quotients = column / workers if quotient == "per_worker" else workers / column
    return np.where(np.isfinite(quotients), quotients, np.nan)


def learn_numeric(
    features: FeatureTable,
) -> tuple[tuple[NumericFeature, ...], tuple[Companion, ...]]:
    """Learn the transform of every numeric column, the core columns first, then by content.

    A column that repeats an earlier one is left out and becomes its companion.
    """
    workers = features.numeric.get("workers")
    workers = None if workers is None else snapped(workers)
    if workers is not None and (np.isnan(workers).any() or workers.min(initial=np.inf) <= 0):
        workers = None
    core_columns = [name for name in (*CORE_COLUMNS, *HARDWARE_COLUMNS) if name in features.numeric]
    names = [*core_columns, *numeric_parameters(features)]
    learned: list[NumericFeature] = []
    companions: list[Companion] = []
    kept: dict[str, FloatArray] = {}
    for name in names:
        raw = snapped(features.numeric[name])
        if np.isnan(raw).all():
            continue
        feature = _learn_feature(name, raw, workers)
        values = apply_transform(feature, quotient_of(raw, workers, feature.quotient))
        values = np.where(np.isnan(values), feature.fill, values)
        original = next(
            (other for other, column in kept.items() if _duplicates(values, column)), None
        )
        if original is not None:
            companions.append(_companion(feature, values, original, kept[original]))
            continue
        if feature.spread > 0:
            kept[name] = values
        learned.append(feature)
    return tuple(learned), tuple(companions)


def _learn_feature(name: str, raw: FloatArray, workers: FloatArray | None) -> NumericFeature:
    quotient = _choose_quotient(name, raw, workers)
    values = quotient_of(raw, workers, quotient)
    if np.isnan(values).all():
        quotient, values = "", raw
    known = values[~np.isnan(values)]
    if name not in CORE_ROLES and not quotient and _is_narrow(known):
        low = float(known.min())
        scaling = _Scaling("scaled", float(known.max()) - low, -LARGEST, low)
    else:
        scaling = _choose_transform(known)
    return _build_feature(name, quotient, values, scaling)


def _is_narrow(known: FloatArray) -> bool:
    """Whether positive values lie too close together for a power law.

    It would need implausible exponents, and a value ten times the range away would seem next to it.
    Two levels are excepted: they show no trend that could be continued so far.
    """
    low, high = float(known.min()), float(known.max())
    is_close = low > 0 and 1 + SWITCH_TOLERANCE < high / low < MAX_NARROW_RATIO
    return is_close and len(np.unique(known)) > _MAX_TRENDLESS_LEVELS


def learn_logarithmic(feature: NumericFeature, features: FeatureTable) -> NumericFeature:
    """Return a column that has zeros and no quotient on a logarithmic instead of a linear scale."""
    values = snapped(features.numeric[feature.column])
    smallest = float(values[values > 0].min())
    return _build_feature(
        feature.column, feature.quotient, values, _Scaling("log1p", smallest, 0.0)
    )


class _Scaling(NamedTuple):
    """How a column is transformed; `floor` is its smallest value after flooring, in units."""

    transform: Transform
    unit: float
    floor: float
    origin: float = 0.0


def _build_feature(
    name: str, quotient: Quotient, values: FloatArray, scaling: _Scaling
) -> NumericFeature:
    """Return the feature of a column's values, given how they are transformed."""
    role = CORE_ROLES.get(name, "parameter")
    transform, unit, floor, origin = scaling
    draft = NumericFeature(
        name, role, quotient, transform, unit, floor, 0, 0, 0, 0, 0,
        always_known=True, flagged=False, used=True, origin=origin,
    )  # fmt: skip
    known = apply_transform(draft, values)
    known = known[~np.isnan(known)]
    # The mean of equal numbers may differ from them by rounding.
    center = float(known.mean() if known.min() < known.max() else known[0])
    missing_share = float(np.isnan(values).mean())
    spread = float(known.std())
    spread = spread if spread > SWITCH_TOLERANCE * max(1.0, abs(center)) else 0.0
    return NumericFeature(
        name, role, quotient, transform, unit, floor, center,
        fill=float(np.median(known)) - center,
        low=float(known.min()) - center,
        high=float(known.max()) - center,
        spread=spread,
        always_known=missing_share == 0,
        flagged=MIN_MISSING_SHARE <= missing_share <= 1 - MIN_MISSING_SHARE,
        used=spread > 0 or name in CORE_COLUMNS,
        origin=origin,
    )  # fmt: skip


def _choose_quotient(name: str, raw: FloatArray, workers: FloatArray | None) -> Quotient:
    known = raw[~np.isnan(raw)]
    if workers is None or known.min() <= 0 or name in _WHOLE_COLUMNS:
        return ""
    if name in ("batch_size", "nodes"):
        return "per_worker" if name == "batch_size" else "workers_per"
    logs = np.log(known)
    per_worker = logs - np.log(workers[~np.isnan(raw)])
    total = float(logs.var())
    # The variance of equal numbers may be above zero by rounding.
    varies = total > SWITCH_TOLERANCE**2
    is_total = varies and per_worker.var() < PER_WORKER_VARIANCE_RATIO * total
    return "per_worker" if is_total else ""


def _choose_transform(known: FloatArray) -> _Scaling:
    positive = known[known > 0]
    if len(positive) == len(known):
        return _Scaling("log", 1.0, float(positive.min()) * _FLOOR)
    largest = float(np.abs(known).max())
    has_few_decades = bool(len(positive)) and largest <= MAX_LINEAR_RATIO * positive.min()
    if known.min() < 0 or has_few_decades or largest == 0:
        return _Scaling("scaled", largest or 1.0, -LARGEST)
    return _Scaling("log1p", float(positive.min()), 0.0)


def apply_transform(feature: NumericFeature, values: FloatArray) -> FloatArray:
    """Return transformed, centred values; NaN stays NaN."""
    if feature.transform == "scaled":
        return prolonged((values - feature.origin) / feature.unit) - feature.center
    if feature.transform == "log":
        floored = np.where(values <= 0, feature.off, np.maximum(values, feature.floor))
        return np.log(floored) - feature.center
    scaled = values / feature.unit
    return np.log1p(np.where(scaled < 0, feature.off, scaled)) - feature.center


def _duplicates(values: FloatArray, earlier: FloatArray) -> bool:
    """Whether a column varies together with an earlier one, and by a similar amount.

    By correlation alone, one that hardly varies would repeat any column of two levels. Two rows
    always lie on a line: they show only that a column is another one in other units.
    """
    deviation, other = values - values.mean(), earlier - earlier.mean()
    norm, other_norm = float(np.sqrt(deviation @ deviation)), float(np.sqrt(other @ other))
    if not max(norm, other_norm) <= MAX_DUPLICATE_RATIO * min(norm, other_norm):
        return False
    is_conversion = abs(norm - other_norm) <= SWITCH_TOLERANCE * norm
    if not is_conversion and len(values) <= _MAX_TRENDLESS_LEVELS:
        return False
    return bool(abs(deviation @ other) > DUPLICATE_CORRELATION * norm * other_norm > 0)


def _companion(
    feature: NumericFeature, values: FloatArray, of: str, earlier: FloatArray
) -> Companion:
    deviation, other = values - values.mean(), earlier - earlier.mean()
    slope = float(deviation @ other / (other @ other))
    intercept = float(values.mean() - slope * earlier.mean())
    residuals = (values - intercept) / slope - earlier
    left_out = replace(feature, used=False)
    return Companion(left_out, of, slope, intercept, float(np.abs(residuals).max()))
