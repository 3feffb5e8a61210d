"""The encoder: rows of features to matrices, distances from the measured range, level codes."""

from collections.abc import Mapping
from dataclasses import replace
from math import isnan, nan

import numpy as np

from models.features.categories import CategoryFeature, learn_categories
from models.features.damping import damped
from models.features.encoded import Encoded
from models.features.hardware import HardwareDescription, level_offsets
from models.features.layout import Layout, Role
from models.features.numeric import (
    SWITCH_TOLERANCE,
    Companion,
    NumericFeature,
    learn_numeric,
    prolonged,
    snapped,
)
from models.features.scales import Scale
from models.tables import SMALLEST, BoolArray, FeatureTable, FloatArray, IntArray

UNSEEN, UNSPECIFIED = -1, -2
"""Codes of a level that no run has, and of a level that a question does not specify."""

MAX_UNIDENTIFIED_VARIANCE = 4.0  # a factor of seven either way: a larger one adds nothing


class Encoder:
    """Turns features into matrices, as learned from the runs of one workload.

    Parameters
    ----------
    numeric, categories
        The columns, as learned by `models.features.numeric`.
    multi_node
        Whether an indicator of several nodes is a feature (if one and several were measured).
    hardware
        Data sheets of accelerators by GPU type.
    companions
        Numeric columns that repeat another one in all runs.
    """

    def __init__(
        self,
        numeric: tuple[NumericFeature, ...],
        categories: tuple[CategoryFeature, ...],
        hardware: Mapping[str, HardwareDescription],
        *,
        multi_node: bool,
        companions: tuple[Companion, ...],
    ) -> None:
        self.companions = companions
        self.numeric, self.categories = numeric, categories
        self.hardware, self.multi_node = hardware, multi_node
        self.layout = self._build_layout()
        self._per_worker = _quotient_indices(numeric, "per_worker")
        self._workers_per = _quotient_indices(numeric, "workers_per")
        self._linear = np.array([f.transform == "scaled" for f in numeric], dtype=bool)
        self._log1p = np.array([f.transform == "log1p" for f in numeric], dtype=bool)
        self._unit = np.array([f.unit for f in numeric])
        self._origin = np.array([f.origin for f in numeric])
        self._floor = np.array([f.floor for f in numeric])
        self._off = np.array([f.off for f in numeric])
        self._switches = np.array([f.is_switch for f in numeric], dtype=bool)
        self._center = np.array([f.center for f in numeric])
        self._fill = np.array([f.fill for f in numeric])
        self._low = np.array([f.low for f in numeric])
        self._high = np.array([f.high for f in numeric])
        self._span = np.array([f.axis_span for f in numeric])
        self._fading_ranges = [
            (index, *feature.fading_range)
            for index, feature in enumerate(numeric)
            if feature.fades != "none"
        ]
        self._tells_when_missing = np.array([f.tells_when_missing for f in numeric], dtype=bool)
        self._used_features = np.flatnonzero([f.used for f in numeric])
        self._flagged = np.flatnonzero([f.flagged for f in numeric])
        self._used_list, self._flagged_list = self._used_features.tolist(), self._flagged.tolist()
        self._scales = [Scale.of(feature) for feature in numeric]
        self._nothing_missing = np.zeros((1, len(numeric)), dtype=np.bool_)
        self._missing_variance = np.array([f.missing_variance for f in numeric])
        self._unused_variance = np.array([0.0 if f.used else f.exponent_sd**2 for f in numeric])
        self._prior_exponents = [
            (index, feature.exponent)
            for index, feature in enumerate(numeric)
            if feature.exponent and not feature.used
        ]
        self._is_plain = not (self._linear.any() or self._log1p.any())
        self._used_categories = [c for c, item in enumerate(categories) if item.used]
        self._lookup = tuple(_level_codes(category) for category in categories)

    @classmethod
    def learn(
        cls, features: FeatureTable, hardware: Mapping[str, HardwareDescription] | None = None
    ) -> "Encoder":
        """Learn transforms, ranges and levels from the configurations of a fit."""
        categories = learn_categories(features)
        nodes = features.numeric.get("nodes")
        multi_node = nodes is not None and bool((nodes > 1).any() and (nodes <= 1).any())
        numeric, companions = learn_numeric(features)
        return cls(
            numeric,
            tuple(categories),
            hardware or {},
            multi_node=multi_node,
            companions=companions,
        )

    def with_numeric(self, numeric: tuple[NumericFeature, ...]) -> "Encoder":
        """Return an encoder that differs in its numeric features."""
        return type(self)(
            numeric,
            self.categories,
            self.hardware,
            multi_node=self.multi_node,
            companions=self.companions,
        )

    def with_categories(self, categories: tuple[CategoryFeature, ...]) -> "Encoder":
        """Return an encoder that differs in its categories."""
        return type(self)(
            self.numeric,
            categories,
            self.hardware,
            multi_node=self.multi_node,
            companions=self.companions,
        )

    def encode(self, features: FeatureTable) -> Encoded:
        """Encode rows; an absent column counts as missing."""
        if features.n_rows == 1:
            return self._encode_row(features)
        values = self._transform(self._raw(features))
        missing = left_out = np.isnan(values)
        if is_any_missing := bool(missing.any()):
            values = np.where(missing, self._fill, values)
            left_out = missing & self._tells_when_missing
        excess = np.maximum(np.maximum(values - self._high, self._low - values), 0.0)
        variance = np.zeros(features.n_rows)
        if is_any_missing or self._unused_variance.any():
            variances = self._unused_variance * values**2
            variances = np.where(left_out, self._missing_variance, variances).sum(axis=1)
            variance = np.minimum(variances, MAX_UNIDENTIFIED_VARIANCE)
        shift: FloatArray = np.zeros(features.n_rows)
        for index, exponent in self._prior_exponents:
            shift += exponent * values[:, index]
        for index, low, high in self._fading_ranges:
            # Damping is the identity within the measured range.
            if excess[:, index].any():
                values[:, index] = damped(values[:, index], low, high)
        codes = self._codes(features)
        return Encoded(
            self._matrix(features, values, missing, codes),
            excess / self._span,
            excess,
            left_out,
            variance,
            shift,
            codes,
        )

    def _encode_row(self, features: FeatureTable) -> Encoded:
        """Return what `encode` does for one row: scalars are ten times as fast as arrays."""
        workers = features.numeric["workers"].item() if "workers" in features.numeric else nan
        values, excess, distances = [], [], []
        missing, left_out, variance, shift = [], [], 0.0, 0.0
        for scale, raw in zip(self._scales, self._raw_row(features), strict=True):
            value = scale.value(raw)
            missing.append(isnan(value))
            left_out.append(missing[-1] and scale.tells_when_missing)
            if missing[-1]:
                value = scale.fill
            if left_out[-1]:
                variance += scale.missing_variance
            elif scale.unused_variance:
                variance += scale.unused_variance * (value * value)
                shift += scale.unused_exponent * value
            beyond = max(value - scale.high, scale.low - value, 0.0)
            excess.append(beyond)
            distances.append(beyond / scale.span)
            values.append(value)
        for index, low, high in self._fading_ranges:
            if excess[index]:
                values[index] = damped(np.array(values[index]), low, high).item()
        codes = [
            lookup.get(features.categorical[category.column][0], UNSEEN)
            if category.column in features.categorical
            else lookup[None]
            for category, lookup in zip(self.categories, self._lookup, strict=True)
        ]
        row = [values[index] for index in self._used_list]
        row += [float(missing[index]) for index in self._flagged_list]
        if self.multi_node:
            nodes = features.numeric.get("nodes")
            row.append(float(nodes is not None and nodes.item() > 1))
        row.append(float(workers == 1))
        row += [codes[category] for category in self._used_categories]
        matrix: FloatArray = np.array([[*row, *distances, *excess]])
        width, n = len(row), len(values)
        return Encoded(
            matrix[:, :width],
            matrix[:, width : width + n],
            matrix[:, width + n :],
            np.array([left_out], dtype=np.bool_) if any(left_out) else self._nothing_missing,
            np.array([min(variance, MAX_UNIDENTIFIED_VARIANCE)]),
            np.array([shift]),
            np.array([codes], dtype=np.int64),
        )

    def with_missing(self, encoded: Encoded, column: str, rows: BoolArray | None) -> Encoded:
        """Return encoded rows with the uncertainty of leaving a column open; values are kept."""
        indices = np.flatnonzero([feature.column == column for feature in self.numeric])
        if rows is None or not len(indices):
            return encoded
        missing = encoded.missing.copy()
        missing[np.ix_(np.flatnonzero(rows), indices)] = True
        variance = encoded.variance + np.where(rows, self._missing_variance[indices].sum(), 0.0)
        return replace(
            encoded, missing=missing, variance=np.minimum(variance, MAX_UNIDENTIFIED_VARIANCE)
        )

    def _matrix(
        self, features: FeatureTable, values: FloatArray, missing: BoolArray, codes: IntArray
    ) -> FloatArray:
        """Return the matrix in the form of the layout."""
        X: FloatArray = np.empty((features.n_rows, self.layout.n_columns))
        gate, flags = self.layout.n_numeric, len(self._used_features)
        X[:, :flags] = values if flags == values.shape[1] else values[:, self._used_features]
        if len(self._flagged):
            X[:, flags : flags + len(self._flagged)] = missing[:, self._flagged]
        if self.multi_node:
            X[:, gate - 1] = _column(features, "nodes") > 1
        X[:, gate] = _column(features, "workers") == 1
        for position, category in enumerate(self._used_categories):
            X[:, gate + 1 + position] = codes[:, category]
        return X

    def axis_names(self) -> tuple[str, ...]:
        """Return the column behind each numeric feature, as axes are named in reports."""
        return tuple(feature.column for feature in self.numeric)

    def _build_layout(self) -> Layout:
        roles: list[Role] = [feature.role for feature in self.numeric if feature.used]
        roles += ["missing" for feature in self.numeric if feature.flagged]
        if self.multi_node:
            roles.append("multi_node")
        used = [category for category in self.categories if category.used]
        return Layout(
            tuple(roles),
            tuple(len(category.levels) for category in used),
            tuple(self._offsets(category) for category in used),
            tuple(category.spread for category in used),
        )

    def _offsets(self, category: CategoryFeature) -> tuple[float, ...]:
        if category.column != "gpu_type":
            return (0.0,) * len(category.levels)
        return level_offsets(category.levels, self.hardware)

    def _raw(self, features: FeatureTable) -> FloatArray:
        columns = np.empty((features.n_rows, len(self.numeric)))
        for index, feature in enumerate(self.numeric):
            columns[:, index] = features.numeric.get(feature.column, np.nan)
        raw = snapped(columns)
        if not (self._per_worker or self._workers_per):
            return raw
        workers = snapped(_column(features, "workers"))
        with np.errstate(divide="ignore", invalid="ignore"):
            for index in self._per_worker:
                raw[:, index] /= workers
            for index in self._workers_per:
                raw[:, index] = workers / raw[:, index]
        raw[~np.isfinite(raw)] = np.nan
        return raw

    def _raw_row(self, features: FeatureTable) -> list[float]:
        """Return what `_raw` does for one row."""
        given = features.numeric
        raw = [_snapped(given[f.column].item()) if f.column in given else nan for f in self.numeric]
        if self._per_worker or self._workers_per:
            workers = _snapped(given["workers"].item()) if "workers" in given else nan
            for index in self._per_worker:
                raw[index] = raw[index] / workers if workers else nan
            for index in self._workers_per:
                raw[index] = workers / raw[index] if raw[index] else nan
        return raw

    def _transform(self, raw: FloatArray) -> FloatArray:
        scaled = (raw - self._origin) / self._unit
        values = np.maximum(scaled, self._floor)
        is_off = np.where(self._log1p, scaled < 0, scaled <= 0)
        if is_off.any():
            values = np.where(is_off, self._off, values)
        if self._is_plain:
            values = np.log(values)
        else:
            values = np.where(self._log1p, values + 1.0, values)
            logs = np.log(np.where(self._linear, 1.0, values))
            values = np.where(self._linear, prolonged(scaled), logs)
        centred: FloatArray = values - self._center
        if self._switches.any():
            is_switched = self._switches & (np.abs(centred) > SWITCH_TOLERANCE)
            centred = np.where(is_switched, np.sign(centred), centred)
        return centred

    def _codes(self, features: FeatureTable) -> IntArray:
        codes = np.empty((features.n_rows, len(self.categories)), dtype=np.int64)
        for index, (category, lookup) in enumerate(zip(self.categories, self._lookup, strict=True)):
            levels = features.categorical.get(category.column)
            if levels is None:
                codes[:, index] = lookup[None]
            else:
                codes[:, index] = [lookup.get(level, UNSEEN) for level in levels]
        return codes


def _snapped(value: float) -> float:
    return 0.0 if abs(value) < SMALLEST else value


def _quotient_indices(numeric: tuple[NumericFeature, ...], quotient: str) -> list[int]:
    return [index for index, feature in enumerate(numeric) if feature.quotient == quotient]


def _column(features: FeatureTable, name: str) -> FloatArray:
    column = features.numeric.get(name)
    return np.full(features.n_rows, np.nan) if column is None else column


def _level_codes(category: CategoryFeature) -> dict[str | None, int]:
    """Return level -> code; an unspecified level is the measured one if there is only one."""
    lookup: dict[str | None, int] = {None: 0 if len(category.levels) == 1 else UNSPECIFIED}
    return lookup | {level: code for code, level in enumerate(category.levels)}
