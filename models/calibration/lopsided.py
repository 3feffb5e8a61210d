"""Questions whose durations may be longer than any trend says, and are hardly ever shorter."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from models.distribution import AT_90, NORMAL_90
from models.features.encoder import Encoded, Encoder
from models.features.layout import Role
from models.questions.regimes import IRRELEVANT_AXIS, Kind
from models.tables import FloatArray

_DEEPEST = 20.0
"""Nobody asks further out; bounds stay numbers."""


class _Side(NamedTuple):
    """One side of a feature's range: 1 above it, -1 below it.

    `missed` is the log standard deviation, per log unit beyond the range, of what no run shows,
    and `no_shorter` by how much the intervals' lower sides are shorter one log unit beyond it.
    """

    sign: int
    missed: float
    no_shorter: float


_SIDES: Mapping[Role, _Side] = {
    "local_batch": _Side(-1, 0.4, 0.2),
    "workers": _Side(1, 0.1, 0.15),
}
"""Heuristics. Below the batches a step costs something, above the workers all wait for the last."""


class _Place(NamedTuple):
    """Where a feature stands among all and among those used, where its side begins, and which."""

    feature: int
    column: int
    limit: float
    side: _Side


class Lopsided:
    """What makes intervals reach further up than down.

    A step costs something however small a worker's batch, of which larger batches may show nothing.
    More workers than were measured share a network and wait for the slowest of them, of which fewer
    show little. Whatever the number of configurations, intervals there are longer above the median,
    and shorter below.

    Parameters
    ----------
    encoder
        Tells where the features stand in the rows, and where their ranges end.
    kinds
        What kind of question leaves each axis.
    """

    def __init__(self, encoder: Encoder, kinds: Mapping[str, Kind]) -> None:
        self._places: list[_Place] = []
        used = [feature for feature in encoder.numeric if feature.used]
        for column, feature in enumerate(used):
            side = _SIDES.get(feature.role)
            if side is not None and kinds[feature.column] != IRRELEVANT_AXIS:
                limit = feature.high if side.sign > 0 else feature.low
                self._places.append(_Place(encoder.numeric.index(feature), column, limit, side))

    def curves(
        self, encoded: Encoded, scale: FloatArray, curves: FloatArray
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return the half widths below the medians, and those above where they differ.

        With d log units beyond a range, the 90 % bound above is ``hypot(h, 1.645 * s d)`` for h,
        with s the `missed` of `_SIDES`; what two features miss adds up in squares.

        Parameters
        ----------
        encoded
            The rows.
        scale, curves
            Their deviations, shape (n,), and the half widths in units of these, shape (n, 5).
        """
        found = [each for each in (self._depth(encoded, place) for place in self._places) if each]
        if not found:
            return curves, None
        missed = np.sqrt(sum((side.missed * depth) ** 2 for side, depth in found))
        longer = np.hypot(1.0, NORMAL_90 * missed / (scale * curves[:, AT_90]))
        shorter = np.prod(
            [1.0 - side.no_shorter * np.minimum(depth, 1.0) for side, depth in found], axis=0
        )
        return curves * shorter[:, None], curves * longer[:, None]

    def _depth(self, encoded: Encoded, place: _Place) -> tuple[_Side, FloatArray] | None:
        """Return how far rows are beyond a side, in log units, None where none is."""
        side = place.side
        is_beyond = side.sign * (encoded.X[:, place.column] - place.limit) > 0
        if not is_beyond.any():
            return None
        depth = np.minimum(encoded.excess[:, place.feature], _DEEPEST)
        return side, np.where(is_beyond, depth, 0.0)
