"""Below the range of an axis: what was held out lies above it, and speaks of that side."""

from collections.abc import Mapping, Sequence

from models.features.encoder import Encoder
from models.members.mixture import RegimeModel
from models.questions.regimes import FEW_CONFIGURATIONS, INTERPOLATION, Kind
from models.tables import FloatArray

_LOWER_END = "\0below"
"""Ends the name of what answers below an axis; no column's name holds a zero byte."""

_SHARE_OF_INSIDE = 0.5
"""Share of the weights of interpolation there; a heuristic."""


class LowerEnds:
    """What answers questions below the ranges of a workload's axes.

    The held-out sets of an axis are its upper levels: they tell which members go on above it. Large
    loads show what is done for each sample, small ones what is done anyway, which a member that
    forecasts the upper levels well need not know. From 12 configurations on, where the weights of
    an axis are those of its held-out sets, half of the weights below its range are those of
    interpolation. The interval keeps the calibration of the axis.

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
        self.models: dict[str, RegimeModel] = {}
        """By the names that `of_rows` gives."""
        is_known = n_configurations >= FEW_CONFIGURATIONS
        used = [feature for feature in encoder.numeric if feature.used]
        for place, feature in enumerate(used):
            name = feature.column
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


def _mean(axis: RegimeModel, inside: RegimeModel) -> RegimeModel:
    share = _SHARE_OF_INSIDE
    return RegimeModel(
        (1 - share) * axis.weights + share * inside.weights,
        (1 - share) * axis.residual_variances + share * inside.residual_variances,
        axis.curve,
    )
