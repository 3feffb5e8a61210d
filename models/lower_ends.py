"""Below the range of an axis: what was held out lies above it, and speaks of that side."""

from collections.abc import Mapping, Sequence

import numpy as np

from models.distribution import LEVELS, NORMAL_KNOTS
from models.encoding import Encoded, Encoder
from models.mixture import RegimeModel
from models.regimes import FEW_CONFIGURATIONS, INTERPOLATION, IRRELEVANT_AXIS, Kind
from models.tables import FloatArray

_LOWER_END = "\0below"
"""Ends the name of what answers below an axis; no column's name holds a zero byte."""

_SHARE_OF_INSIDE = 0.5
"""Share of the weights of interpolation there; a heuristic."""

_STEP_COST = 0.4
"""Log standard deviation, per log unit below the batches, of what a step costs at least; a
heuristic."""

_NO_SHORTER = 0.2
"""By how much the intervals' lower sides are shorter there; a heuristic."""

_DEEPEST = 20.0
"""Nobody asks further below; bounds stay numbers."""

_AT_90 = LEVELS.index(0.9)


class LowerEnds:
    """What answers questions below the ranges of a workload's axes.

    The held-out sets of an axis are its upper levels: they tell which members go on above it. Large
    loads show what is done for each sample, small ones what is done anyway, which a member that
    forecasts the upper levels well need not know. From 12 configurations on, where the weights of
    an axis are those of its held-out sets, half of the weights below its range are those of
    interpolation. The interval keeps the calibration of the axis, but for the batch of a worker:
    below its range, whatever the number of configurations, it is longer above the median, and
    shorter below.

    Parameters
    ----------
    encoder
        Tells where the axes stand in the rows, and where their ranges begin.
    regimes, kinds
        How each kind of question is answered, and what kind of one it is.
    n_configurations
        Configurations of the fit.
    """

    def __init__(
        self,
        encoder: Encoder,
        regimes: Mapping[str, RegimeModel],
        kinds: Mapping[str, Kind],
        n_configurations: int,
    ) -> None:
        self._starts: dict[str, tuple[int, float]] = {}
        self._batch: tuple[int, int, float] | None = None
        self.models: dict[str, RegimeModel] = {}
        """By the names that `of_rows` gives."""
        is_known = n_configurations >= FEW_CONFIGURATIONS
        used = [feature for feature in encoder.numeric if feature.used]
        for place, feature in enumerate(used):
            name = feature.column
            if feature.role == "local_batch" and kinds[name] != IRRELEVANT_AXIS:
                self._batch = encoder.numeric.index(feature), place, feature.low
            if is_known and kinds[name] == "extrapolation":
                self._starts[name] = place, feature.low
                self.models[name + _LOWER_END] = _mean(regimes[name], regimes[INTERPOLATION])

    def of_rows(self, regimes: Sequence[str], X: FloatArray) -> Sequence[str]:
        """Return what answers each row: its regime, or the lower end of the axis it leaves."""
        asked = self._starts.keys() & set(regimes)
        if not asked:
            return regimes
        found = list(regimes)
        for row, name in enumerate(regimes):
            if name in asked:
                place, low = self._starts[name]
                found[row] += _LOWER_END if X[row, place] < low else ""
        return found

    def curves(
        self, encoded: Encoded, scale: FloatArray, curves: FloatArray
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return the half widths below the medians, and those above where they differ.

        A step costs something however small a worker's batch, of which larger batches may show
        nothing: below their range durations are longer than a trend says, hardly ever shorter.
        With d log units below, the 90 % bound above is ``hypot(h, 1.645 * .4 d)`` for h.

        Parameters
        ----------
        encoded
            The rows.
        scale, curves
            Their deviations, shape (n,), and the half widths in units of these, shape (n, 5).
        """
        if self._batch is None:
            return curves, None
        index, place, low = self._batch
        is_below = encoded.X[:, place] < low
        if not is_below.any():
            return curves, None
        depth = np.where(is_below, np.minimum(encoded.excess[:, index], _DEEPEST), 0.0)
        missing = NORMAL_KNOTS[1 + _AT_90] * _STEP_COST * depth
        longer = np.hypot(1.0, missing / (scale * curves[:, _AT_90]))
        shorter = 1.0 - _NO_SHORTER * np.minimum(depth, 1.0)
        return curves * shorter[:, None], curves * longer[:, None]


def _mean(axis: RegimeModel, inside: RegimeModel) -> RegimeModel:
    share = _SHARE_OF_INSIDE
    return RegimeModel(
        (1 - share) * axis.weights + share * inside.weights,
        (1 - share) * axis.residual_variances + share * inside.residual_variances,
        axis.curve,
    )
