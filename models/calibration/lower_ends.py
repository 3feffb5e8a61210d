"""Answers below the range of an axis, whose held-out sets only test what lies above it."""

from collections.abc import Mapping, Sequence

from models.features.encoder import Encoder
from models.members.regime_model import RegimeModel
from models.questions.regimes import FEW_CONFIGURATIONS, INTERPOLATION, Kind
from models.tables import FloatArray

_LOWER_END = "\0below"
"""Suffix of an axis's name for its lower end; no column's name holds a zero byte."""

_SHARE_OF_INSIDE = 0.5
"""Share of the weights of interpolation below the range; a heuristic."""


class LowerEnds:
    """What answers questions below the ranges of a workload's axes.

    The held-out sets of an axis are its upper levels: they tell which members forecast well above
    its range. Large loads show the cost per sample, small ones the fixed cost, which a member that
    forecasts the upper levels well need not know. From 12 configurations on, where held-out sets
    determine the weights of an axis, the weights below its range are therefore the mean of the
    axis's own and those of interpolation. The interval keeps the calibration of the axis.

    Parameters
    ----------
    encoder
        Knows the columns of the axes and where their ranges begin.
    regimes, kinds
        How the questions of each regime are answered, and of what kind they are.
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
        """Models of the lower ends, by the names that `of_rows` returns."""
        is_learned = n_configurations >= FEW_CONFIGURATIONS
        used = [feature for feature in encoder.numeric if feature.used]
        for column, feature in enumerate(used):
            name = feature.column
            if is_learned and kinds[name] == "extrapolation":
                self._starts[name] = column, feature.low
                self.models[name + _LOWER_END] = _mean(regimes[name], regimes[INTERPOLATION])

    def of_rows(self, regimes: Sequence[str], X: FloatArray) -> Sequence[str]:
        """Return what answers each row: its regime, or the lower end of the axis that it leaves."""
        affected = self._starts.keys() & set(regimes)
        if not affected:
            return regimes
        names = list(regimes)
        for row, name in enumerate(regimes):
            if name in affected:
                column, low = self._starts[name]
                names[row] += _LOWER_END if X[row, column] < low else ""
        return names


def _mean(axis: RegimeModel, inside: RegimeModel) -> RegimeModel:
    share = _SHARE_OF_INSIDE
    return RegimeModel(
        (1 - share) * axis.weights + share * inside.weights,
        (1 - share) * axis.residual_variances + share * inside.residual_variances,
        axis.curve,
    )
