"""Asymmetric intervals for durations that may exceed the trend but hardly ever fall below it."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from models.distribution import AT_90, NORMAL_90
from models.features.encoded import Encoded
from models.features.encoder import Encoder
from models.features.layout import Role
from models.tables import FloatArray

_MAX_DISTANCE = 20.0
"""Log units beyond a range, a cap that keeps bounds finite; nobody asks further out."""


class _Side(NamedTuple):
    """One side of a feature's range: sign 1 above it, -1 below it.

    `unseen_sd` is the log standard deviation, per log unit beyond the range, of what no run shows;
    `shrinkage` is the share by which an interval's lower side shrinks at one log unit or more.
    """

    sign: int
    unseen_sd: float
    shrinkage: float


_SIDES: Mapping[Role, _Side] = {
    "local_batch": _Side(-1, 0.4, 0.2),
    "workers": _Side(1, 0.1, 0.15),
}
"""Heuristics: a step of any batch size has a fixed cost, and all workers wait for the slowest."""


class _RangeEnd(NamedTuple):
    """A feature's index among all and among those used, and where which of its sides begins."""

    feature: int
    column: int
    limit: float
    side: _Side


class AsymmetricIntervals:
    """Makes intervals reach further up than down where durations can only be underestimated.

    A step has a fixed cost however small a worker's batch is, which larger batches may not show.
    More workers than were measured share a network and wait for the slowest of them, which fewer
    workers hardly show. Whatever the number of configurations, intervals beyond these sides are
    longer above the median and shorter below it.

    Parameters
    ----------
    encoder
        Knows the columns of the features and where their ranges end.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._ends: list[_RangeEnd] = []
        used = [feature for feature in encoder.numeric if feature.used]
        for column, feature in enumerate(used):
            side = _SIDES.get(feature.role)
            if side is not None:
                limit = feature.high if side.sign > 0 else feature.low
                self._ends.append(_RangeEnd(encoder.numeric.index(feature), column, limit, side))

    def curves(
        self, encoded: Encoded, scale: FloatArray, curves: FloatArray
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return the half widths below the medians, and those above them (None if the same).

        At d log units beyond a range, the upper half width h at 90 % becomes
        ``hypot(h, 1.645 * s d)`` with s the `unseen_sd` of `_SIDES`; that of several features adds
        up in squares.

        Parameters
        ----------
        encoded
            The rows.
        scale, curves
            Their standard deviations, shape (n,), and half widths in units of these, shape (n, 5).
        """
        sides = [item for item in (self._beyond(encoded, end) for end in self._ends) if item]
        if not sides:
            return curves, None
        variance, lower_factor = np.zeros(len(scale)), np.ones(len(scale))
        for side, distance in sides:
            variance += (side.unseen_sd * distance) ** 2
            lower_factor *= 1.0 - side.shrinkage * np.minimum(distance, 1.0)
        upper_factor = np.hypot(1.0, NORMAL_90 * np.sqrt(variance) / (scale * curves[:, AT_90]))
        return curves * lower_factor[:, None], curves * upper_factor[:, None]

    def _beyond(self, encoded: Encoded, end: _RangeEnd) -> tuple[_Side, FloatArray] | None:
        """Return how far rows are beyond a side, in log units; None if no row is."""
        side, values = end.side, encoded.X[:, end.column]
        if len(values) == 1 and side.sign * (values.item() - end.limit) <= 0:
            return None  # as below, but a scalar costs a tenth of an array of one element
        is_beyond = side.sign * (values - end.limit) > 0
        if not is_beyond.any():
            return None
        distance = np.minimum(encoded.excess[:, end.feature], _MAX_DISTANCE)
        return side, np.where(is_beyond, distance, 0.0)
