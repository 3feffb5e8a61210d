"""Where questions leave what was measured: ranges, levels, and what the runs cannot show."""

from collections.abc import Sequence
from itertools import compress
from typing import Final, NamedTuple

import numpy as np

from models.features.encoded import Encoded
from models.features.encoder import UNSEEN, UNSPECIFIED, Encoder
from models.features.numeric import NumericFeature, Quotient, quotient_of
from models.once import once
from models.reports import AxisSupport
from models.tables import BoolArray, FeatureTable

LEAVES_RANGE: Final = 1e-9
"""Beyond this distance, in widths of the measured range, a question leaves the range."""

_DIGITS = 9
_SUFFIX = {"": "", "per_worker": "_per_worker", "workers_per": "_per_node"}


class Departure(NamedTuple):
    """Where one question leaves what was measured; the members are those of `Support`."""

    axes: tuple[AxisSupport, ...]
    unseen_levels: tuple[tuple[str, str], ...]
    unidentified: tuple[str, ...]


class _AxisForm(NamedTuple):
    """A numeric feature as answers tell it: its name and measured range, how it is read."""

    name: str
    column: str
    quotient: Quotient
    measured_min: float
    measured_max: float

    @classmethod
    def of(cls, feature: NumericFeature) -> "_AxisForm":
        """Return the form of a feature."""
        column = "workers" if feature.quotient == "workers_per" else feature.column
        name = column + _SUFFIX[feature.quotient]
        return cls(name, feature.column, feature.quotient, *_measured_range(feature))

    def asked(self, features: FeatureTable, rows: Sequence[int]) -> list[float]:
        """Return what some rows ask, in the units of the measured range."""
        values, workers = features.numeric[self.column][rows], features.numeric.get("workers")
        known = None if workers is None else workers[rows]
        asked: list[float] = quotient_of(values, known, self.quotient).tolist()
        return asked


class MeasuredBounds:
    """What was measured: ranges, levels, and the columns whose effect the runs show.

    Parameters
    ----------
    encoder
        How questions are encoded.
    known_columns
        Every column for which some run has a value.
    """

    def __init__(self, encoder: Encoder, known_columns: frozenset[str]) -> None:
        self._encoder, self._known_columns = encoder, known_columns
        self._constant: BoolArray = np.array(
            [feature.spread == 0 for feature in encoder.numeric], dtype=np.bool_
        )
        self._names = [*encoder.axis_names(), *(category.column for category in encoder.categories)]

    def within(self, features: FeatureTable, encoded: Encoded) -> BoolArray:
        """Return which rows are within all that was measured, shape (n,)."""
        return ~np.array(_is_outside(encoded, self._unknown(features, encoded)), dtype=np.bool_)

    def departures(self, features: FeatureTable, encoded: Encoded) -> dict[int, Departure]:
        """Return where the rows that leave what was measured do so, by row."""
        unknown = self._unknown(features, encoded)
        is_outside = _is_outside(encoded, unknown)
        rows = list(compress(range(len(is_outside)), is_outside))
        if not rows:
            return {}
        axes, unseen = self._axes(features, encoded, rows), self._unseen(features, encoded, rows)
        return dict(
            zip(rows, map(Departure, axes, unseen, compress(unknown, is_outside)), strict=True)
        )

    def _axes(
        self, features: FeatureTable, encoded: Encoded, rows: Sequence[int]
    ) -> list[tuple[AxisSupport, ...]]:
        """Return the axes along which some rows leave the measured ranges, the farthest first."""
        axes: list[list[AxisSupport]] = [[] for _ in rows]
        for index, distances in enumerate(encoded.distances[rows].T.tolist()):
            if max(distances) <= LEAVES_RANGE:
                continue
            form = self._forms[index]
            ends = form.measured_min, form.measured_max
            asked = zip(axes, form.asked(features, rows), distances, strict=True)
            for own, value, distance in asked:
                if distance > LEAVES_RANGE:
                    own.append(AxisSupport(form.name, value, *ends, distance))
        for own in axes:
            if len(own) > 1:
                own.sort(key=lambda axis: -round(axis.distance, _DIGITS))
        return list(map(tuple, axes))

    @once
    def _forms(self) -> list[_AxisForm]:
        return list(map(_AxisForm.of, self._encoder.numeric))

    def _unseen(
        self, features: FeatureTable, encoded: Encoded, rows: Sequence[int]
    ) -> list[tuple[tuple[str, str], ...]]:
        """Return the levels of some rows that no run has, each with its column."""
        columns = [category.column for category in self._encoder.categories]
        return [
            tuple(
                (column, str(features.categorical[column][row]))
                for column, code in zip(columns, codes, strict=True)
                if code == UNSEEN
            )
            if UNSEEN in codes
            else ()
            for row, codes in zip(rows, encoded.codes[rows].tolist(), strict=True)
        ]

    def _unknown(self, features: FeatureTable, encoded: Encoded) -> list[tuple[str, ...]]:
        """Return for each row the columns whose effect on it the runs cannot show.

        First come columns of the fit, then those that went together in all runs, then columns of
        which no run has ever had a value.
        """
        readings = encoded.readings
        columns: list[tuple[str, ...]] = [()] * len(encoded.X)
        if readings is not None:
            columns = list(readings.names)
        known = self._known_columns
        unknown_columns = [
            name for name in (*features.numeric, *features.categorical) if name not in known
        ]
        if not unknown_columns and self._is_inside(encoded):
            return columns
        is_unasked = encoded.codes == UNSPECIFIED
        # A column that was constant in all runs takes that value where a question leaves it out.
        is_out = np.where(self._constant, encoded.excess > LEAVES_RANGE, encoded.missing)
        if is_out.any() or is_unasked.any():
            flags = np.hstack([is_out, is_unasked])
            for row in np.flatnonzero(flags.any(axis=1)).tolist():
                fit_columns = (self._names[index] for index in np.flatnonzero(flags[row]))
                columns[row] = tuple(dict.fromkeys((*fit_columns, *columns[row])))
        for name in sorted(unknown_columns):
            has_value = _has_value(features, name)
            columns = [
                (*names, name) if is_given else names
                for names, is_given in zip(columns, has_value, strict=True)
            ]
        return columns

    @staticmethod
    def _is_inside(encoded: Encoded) -> bool:
        """Return whether this is a single row, complete and within all measured ranges."""
        return (
            len(encoded.X) == 1
            and not any(encoded.excess[0].tolist())
            and not any(encoded.missing[0].tolist())
            and UNSPECIFIED not in encoded.codes[0].tolist()
        )


def _is_outside(encoded: Encoded, unknown: Sequence[tuple[str, ...]]) -> list[bool]:
    """Return which rows leave a measured range or level, or have `unknown` columns."""
    if len(encoded.X) == 1:
        codes, distances = encoded.codes[0].tolist(), encoded.distances[0].tolist()
        is_out = min(codes, default=0) < 0 or max(distances, default=0.0) > LEAVES_RANGE
        return [is_out or bool(unknown[0])]
    is_open = np.logical_or.reduce(encoded.codes < 0, axis=1)
    is_far = np.logical_or.reduce(encoded.distances > LEAVES_RANGE, axis=1)
    is_outside: list[bool] = (is_open | is_far).tolist()
    if not any(unknown):
        return is_outside
    return [is_out or bool(names) for is_out, names in zip(is_outside, unknown, strict=True)]


def _measured_range(feature: NumericFeature) -> tuple[float, float]:
    """Return the measured range in the column's own units."""
    ends = np.array([feature.low, feature.high]) + feature.center
    if feature.transform == "scaled":
        values = ends * feature.unit + feature.origin
    else:
        values = np.exp(ends) if feature.transform == "log" else np.expm1(ends) * feature.unit
    low, high = (float(f"{value:.12g}") for value in values)
    return low, high


def _has_value(features: FeatureTable, name: str) -> list[bool]:
    """Return which rows have a value of a column."""
    values = features.numeric.get(name)
    if values is None:
        return [level is not None for level in features.categorical[name]]
    return [not is_missing for is_missing in np.isnan(values).tolist()]
