"""How one kind of question is answered."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.tables import FloatArray

_MIN_NOISE = 1e-6


@dataclass(frozen=True, slots=True)
class RegimeModel:
    """The weights of members and the calibration of one kind of question.

    `weights` and `residual_variances` (for members without a variance of their own) follow the
    order of the members; `curve` holds the calibrated half widths at the levels of
    `models.distribution`.
    """

    weights: FloatArray
    residual_variances: FloatArray
    curve: FloatArray

    def noise(self, run_variances: Sequence[float | None]) -> float:
        """Return the variance of a run that no measurement removes.

        Members that do not know it count by their held-out errors, where no other has weight.
        """
        known = [
            (weight, variance)
            for weight, variance in zip(self.weights.tolist(), run_variances, strict=True)
            if weight > 0 and variance is not None
        ]
        if not known:
            return max(float(self.weights @ self.residual_variances), _MIN_NOISE)
        weights, variances = zip(*known, strict=True)
        return float(np.average(variances, weights=weights))
