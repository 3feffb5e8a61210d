"""How well the runs support a question: where it leaves them, nearest runs, what it rests on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from models.answers.departures import LEAVES_RANGE, Departure
from models.answers.memory import Memory
from models.answers.neighbours import Neighbours
from models.features.encoded import Encoded
from models.features.encoder import Encoder
from models.members.transfer import LevelTransfer
from models.once import once
from models.questions.regimes import RegimeMap
from models.reports import Basis, RareLevels, Support
from models.tables import FeatureTable, IntArray


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
    rare
        The `rare_levels` of each question, shape (n,).
    outside
        The support of the questions that are not, by row.
    """

    nearest: Sequence[tuple[str, ...]]
    places: IntArray
    bases: Sequence[Basis]
    rare: Sequence[RareLevels]
    outside: Mapping[int, Support]

    def of(self, row: int) -> Support:
        """Return the support of one question."""
        support = self.outside.get(row)
        if support is None:
            support = _within(self.nearest[self.places[row]], self.bases[row], self.rare[row])
        return support

    def rows(self) -> list[Support]:
        """Return the support of each question; equal ones share one object."""
        keys = list(zip(self.places.tolist(), self.bases, self.rare, strict=True))
        support_of = {key: _within(self.nearest[key[0]], *key[1:]) for key in set(keys)}
        supports = list(map(support_of.__getitem__, keys))
        for row, support in self.outside.items():
            supports[row] = support
        return supports


def _within(nearest: tuple[str, ...], basis: Basis, rare: RareLevels) -> Support:
    """Return the support of questions within all that was measured."""
    return Support(
        within_range=True,
        axes=(),
        unseen_levels=(),
        rare_levels=rare,
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

    @once
    def _neighbours(self) -> Neighbours:
        """The configurations, prepared for nearest-neighbour search."""
        return Neighbours(self._memory, _spans(self._encoder))

    def describe(
        self,
        features: FeatureTable,
        encoded: Encoded,
        signatures: Sequence[bytes],
        departures: Mapping[int, Departure],
    ) -> "SupportColumns":
        """Return the support of the rows of `features`, given encoded, settled and judged."""
        nearest, places = self._neighbours.nearest(encoded)
        is_known = list(map(self._memory.signatures.__contains__, signatures))
        rare = self._rare_levels(encoded)
        is_extrapolating = self._is_extrapolating(encoded) if departures else []
        outside = {}
        for row, departure in departures.items():
            basis = self._basis(
                measured=not (departure.axes or departure.unidentified) and is_known[row],
                described=bool(departure.unseen_levels)
                and self._transfer.is_described(encoded.codes[row], _levels_of(features, row)),
                rare=bool(rare[row]),
                n_unseen=len(departure.unseen_levels),
                outside=is_extrapolating[row],
            )
            outside[row] = Support(
                within_range=not any(departure),
                axes=departure.axes,
                unseen_levels=departure.unseen_levels,
                rare_levels=rare[row],
                unidentified=departure.unidentified,
                nearest_run_ids=nearest[places[row]],
                basis=basis,
            )
        return SupportColumns(nearest, places, self._bases(is_known, rare), rare, outside)

    def _bases(self, is_known: list[bool], rare: Sequence[RareLevels]) -> list[Basis]:
        """Return the basis of forecasts for questions within all that was measured."""
        if not any(rare):
            basis_of = [self._basis(measured=measured, rare=False) for measured in (False, True)]
            return list(map(basis_of.__getitem__, is_known))
        pairs = list(zip(is_known, map(bool, rare), strict=True))
        bases = {pair: self._basis(measured=pair[0], rare=pair[1]) for pair in set(pairs)}
        return list(map(bases.__getitem__, pairs))

    def _is_extrapolating(self, encoded: Encoded) -> list[bool]:
        """Return which rows are beyond a range that decides the kind of question."""
        telling = self._regime_map.relevant(encoded.distances).max(axis=1, initial=0.0)
        is_beyond: list[bool] = (telling > LEAVES_RANGE).tolist()
        if encoded.readings is None:
            return is_beyond
        # No run is near a question that separates columns which always went together.
        names = encoded.readings.names
        return [far or bool(own) for far, own in zip(is_beyond, names, strict=True)]

    def _rare_levels(self, encoded: Encoded) -> Sequence[RareLevels]:
        """Return the levels of each row that few runs have, each with its column."""
        few_levels, categories = self._regime_map.few_levels, self._encoder.categories
        if not any(few_levels):
            return [()] * len(encoded.X)
        rows = list(map(tuple, encoded.codes.tolist()))
        rare_of = {
            codes: tuple(
                (category.column, category.levels[code])
                for category, code, few in zip(categories, codes, few_levels, strict=True)
                if code in few
            )
            for codes in set(rows)
        }
        return list(map(rare_of.__getitem__, rows))

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


def _levels_of(features: FeatureTable, row: int) -> Mapping[str, str | None]:
    return {name: column[row] for name, column in features.categorical.items()}


def _spans(encoder: Encoder) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    spans = [feature.axis_span for feature in encoder.numeric if feature.used]
    return np.array(spans, dtype=np.float64)
