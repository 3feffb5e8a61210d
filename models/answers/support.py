"""How well the runs support a question: ranges, levels, what cannot be known, nearest runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

import numpy as np

from models.answers.memory import Memory
from models.answers.neighbours import Neighbours
from models.features.encoded import Encoded
from models.features.encoder import UNSEEN, UNSPECIFIED, Encoder
from models.features.numeric import NumericFeature
from models.members.transfer import LevelTransfer
from models.once import once
from models.questions.regimes import RegimeMap
from models.reports import AxisSupport, Basis, Support
from models.tables import BoolArray, FeatureTable, IntArray

_TOLERANCE = 1e-9
_DIGITS = 9
_SUFFIX = {"": "", "per_worker": "_per_worker", "workers_per": ""}


class _Row(NamedTuple):
    """A row that may leave what was measured: distances, whether they matter, level codes."""

    row: int
    distances: list[float]
    is_extrapolating: bool
    codes: IntArray


@dataclass(frozen=True, slots=True)
class SupportColumns:
    """How well the runs support many questions.

    Parameters
    ----------
    nearest
        Distinct groups of the up to three runs that are nearest to a question.
    places
        Index of each question's group, shape (n,).
    bases
        Basis of each forecast if its question is within all that was measured, shape (n,).
    outside
        The support of the questions that are not, by row.
    """

    nearest: Sequence[tuple[str, ...]]
    places: IntArray
    bases: Sequence[Basis]
    outside: Mapping[int, Support]

    def of(self, row: int) -> Support:
        """Return the support of one question."""
        support = self.outside.get(row)
        if support is None:
            support = _within(self.nearest[self.places[row]], self.bases[row])
        return support

    def rows(self) -> list[Support]:
        """Return the support of each question; equal ones share one object."""
        keys = list(zip(self.places.tolist(), self.bases, strict=True))
        support_of = {key: _within(self.nearest[key[0]], key[1]) for key in set(keys)}
        supports = list(map(support_of.__getitem__, keys))
        for row, support in self.outside.items():
            supports[row] = support
        return supports


def _within(nearest: tuple[str, ...], basis: Basis) -> Support:
    """Return the support of questions within all that was measured."""
    return Support(
        within_range=True,
        axes=(),
        unseen_levels=(),
        unidentified=(),
        nearest_run_ids=nearest,
        basis=basis,
    )


class SupportGrounds:
    """What the support of a question is judged by, prepared once for a fit.

    Parameters
    ----------
    encoder, transfer, memory
        How questions are encoded, how open levels are answered, and what was measured.
    regime_map
        Levels with few runs, and irrelevant parameters: beyond the range of one of these a forecast
        is no extrapolation, though the range is reported.
    """

    def __init__(
        self,
        encoder: Encoder,
        transfer: LevelTransfer,
        memory: Memory,
        regime_map: RegimeMap,
    ) -> None:
        self._encoder, self._transfer, self._memory = encoder, transfer, memory
        self._regime_map = regime_map
        self._constant: BoolArray = np.array(
            [feature.spread == 0 for feature in encoder.numeric], dtype=np.bool_
        )
        self._names = [*encoder.axis_names(), *(category.column for category in encoder.categories)]

    @once
    def _neighbours(self) -> Neighbours:
        """The configurations, prepared for nearest-neighbour search."""
        return Neighbours(self._memory, _spans(self._encoder))

    def within_range(self, features: FeatureTable, encoded: Encoded) -> BoolArray:
        """Return which rows are within all that was measured, shape (n,)."""
        return ~np.array(_is_outside(encoded, self._unknown(features, encoded)), dtype=np.bool_)

    def describe(
        self, features: FeatureTable, encoded: Encoded, signatures: Sequence[bytes]
    ) -> "SupportColumns":
        """Return the support of the rows of `features`, given encoded and settled."""
        nearest, places = self._neighbours.nearest(encoded)
        unknown = self._unknown(features, encoded)
        is_known = list(map(self._memory.signatures.__contains__, signatures))
        is_rare, is_outside = self._is_rare(encoded), _is_outside(encoded, unknown)
        outside = {
            question.row: self._outside(
                features,
                question,
                unknown[question.row],
                nearest[places[question.row]],
                (is_known[question.row], is_rare[question.row]),
            )
            for question in self._rows(encoded, list(compress(range(len(is_outside)), is_outside)))
        }
        return SupportColumns(nearest, places, self._bases(is_known, is_rare), outside)

    def _bases(self, is_known: list[bool], is_rare: list[bool]) -> list[Basis]:
        """Return the basis of forecasts for questions within all that was measured."""
        if not any(is_rare):
            basis_of = [self._basis(measured=measured, rare=False) for measured in (False, True)]
            return list(map(basis_of.__getitem__, is_known))
        pairs = list(zip(is_known, is_rare, strict=True))
        bases = {pair: self._basis(measured=pair[0], rare=pair[1]) for pair in set(pairs)}
        return list(map(bases.__getitem__, pairs))

    def _rows(self, encoded: Encoded, rows: Sequence[int]) -> Iterator["_Row"]:
        """Yield the numbers by which some rows are judged."""
        if not rows:
            return
        distances = encoded.distances[rows]
        telling = self._regime_map.relevant(distances).max(axis=1, initial=0.0)
        is_extrapolating = telling > _TOLERANCE
        if encoded.readings is not None:
            # No run is near a question that separates columns which always went together.
            is_extrapolating |= [bool(encoded.readings.names[row]) for row in rows]
        yield from map(
            _Row,
            rows,
            distances.tolist(),
            is_extrapolating.tolist(),
            encoded.codes[rows],
        )

    def _outside(
        self,
        features: FeatureTable,
        question: "_Row",
        unknown: tuple[str, ...],
        nearest: tuple[str, ...],
        flags: tuple[bool, bool],
    ) -> Support:
        """Return the support of a row that may leave what was measured."""
        codes = question.codes.tolist()
        levels: Mapping[str, str | None] = {}
        unseen: tuple[tuple[str, str], ...] = ()
        if codes and min(codes) < 0:
            levels = {name: column[question.row] for name, column in features.categorical.items()}
            unseen = _unseen(self._encoder, codes, levels)
        axes = self._axes(features, question)
        is_known, is_rare = flags
        basis = self._basis(
            measured=not (unknown or axes) and is_known,
            described=bool(unseen) and self._transfer.is_described(question.codes, levels),
            rare=is_rare,
            n_unseen=len(unseen),
            outside=question.is_extrapolating,
        )
        is_within = not (axes or unseen or unknown)
        return Support(is_within, axes, unseen, unknown, nearest, basis)

    def _axes(self, features: FeatureTable, question: "_Row") -> tuple[AxisSupport, ...]:
        axes = [
            _axis(
                self._encoder.numeric[index], self._ranges[index], features, question.row, distance
            )
            for index, distance in enumerate(question.distances)
            if distance > _TOLERANCE
        ]
        return tuple(sorted(axes, key=lambda axis: -round(axis.distance, _DIGITS)))

    @once
    def _ranges(self) -> list[tuple[float, float]]:
        return list(map(_measured_range, self._encoder.numeric))

    def _is_rare(self, encoded: Encoded) -> list[bool]:
        """Return which rows have a level with few runs."""
        if not any(self._regime_map.few_levels):
            return [False] * len(encoded.X)
        return [
            any(map(frozenset.__contains__, self._regime_map.few_levels, codes))
            for codes in encoded.codes.tolist()
        ]

    def _basis(
        self,
        *,
        measured: bool,
        rare: bool,
        described: bool = False,
        n_unseen: int = 0,
        outside: bool = False,
    ) -> Basis:
        """Return the basis of a forecast, which is the weakest that applies."""
        if measured and not n_unseen:
            return "measured"
        # An instance type comes with its GPU type, so both unseen count as one unknown.
        is_few = len(self._memory.names) <= 2  # noqa: PLR2004 - two show no trend
        if is_few or (n_unseen and not described):
            return "prior"
        if n_unseen or rare:
            return "transferred"
        return "extrapolated" if outside else "interpolated"

    def _unknown(self, features: FeatureTable, encoded: Encoded) -> list[tuple[str, ...]]:
        """Return for each row the columns whose effect on it the runs cannot show.

        First come columns of the fit, then those that went together in all runs, then columns of
        which no run has ever had a value.
        """
        readings = encoded.readings
        columns: list[tuple[str, ...]] = [()] * len(encoded.X)
        if readings is not None:
            columns = list(readings.names)
        known = self._memory.known_columns
        unknown_columns = [
            name for name in (*features.numeric, *features.categorical) if name not in known
        ]
        if not unknown_columns and self._is_inside(encoded):
            return columns
        is_unasked = encoded.codes == UNSPECIFIED
        # A column that was constant in all runs takes that value where a question leaves it out.
        is_out = np.where(self._constant, encoded.excess > _TOLERANCE, encoded.missing)
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


def _unseen(
    encoder: Encoder, codes: Sequence[int], levels: Mapping[str, str | None]
) -> tuple[tuple[str, str], ...]:
    return tuple(
        (category.column, str(levels[category.column]))
        for category, code in zip(encoder.categories, codes, strict=True)
        if code == UNSEEN
    )


def _is_outside(encoded: Encoded, unknown: Sequence[tuple[str, ...]]) -> list[bool]:
    """Return which rows leave a measured range or level, or have `unknown` columns."""
    if len(encoded.X) == 1:
        codes, distances = encoded.codes[0].tolist(), encoded.distances[0].tolist()
        is_out = min(codes, default=0) < 0 or max(distances, default=0.0) > _TOLERANCE
        return [is_out or bool(unknown[0])]
    is_open = np.logical_or.reduce(encoded.codes < 0, axis=1)
    is_far = np.logical_or.reduce(encoded.distances > _TOLERANCE, axis=1)
    is_outside: list[bool] = (is_open | is_far).tolist()
    if not any(unknown):
        return is_outside
    return [is_out or bool(names) for is_out, names in zip(is_outside, unknown, strict=True)]


def _spans(encoder: Encoder) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    spans = [feature.axis_span for feature in encoder.numeric if feature.used]
    return np.array(spans, dtype=np.float64)


def _axis(
    feature: NumericFeature,
    measured: tuple[float, float],
    features: FeatureTable,
    row: int,
    distance: float,
) -> AxisSupport:
    value = float(features.numeric[feature.column][row])
    name = feature.column + _SUFFIX[feature.quotient]
    if feature.quotient:
        workers = float(features.numeric["workers"][row])
        value = value / workers if feature.quotient == "per_worker" else workers / value
        name = "workers_per_node" if feature.quotient == "workers_per" else name
    return AxisSupport(name, value, *measured, distance)


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
