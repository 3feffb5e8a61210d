"""How one value of a feature becomes the number that regressors see."""

from math import copysign, inf
from typing import NamedTuple

import numpy as np

from models.features.numeric import SWITCH_TOLERANCE, NumericFeature


class Scale(NamedTuple):
    """How one value of a feature is transformed, and where it was measured."""

    origin: float
    unit: float
    floor: float
    off: float
    is_switch: bool
    center: float
    is_log: bool
    added: float
    low: float
    high: float
    span: float
    fill: float
    tells_when_missing: bool
    missing_variance: float
    unused_variance: float
    unused_exponent: float

    @classmethod
    def of(cls, feature: NumericFeature) -> "Scale":
        """Return the scale of a feature."""
        return cls(
            feature.origin,
            feature.unit,
            feature.floor,
            feature.off,
            feature.is_switch,
            feature.center,
            feature.transform != "scaled",
            float(feature.transform == "log1p"),
            feature.low,
            feature.high,
            feature.axis_span,
            feature.fill,
            feature.tells_when_missing,
            feature.missing_variance,
            0.0 if feature.used else feature.exponent_sd**2,
            0.0 if feature.used else feature.exponent,
        )

    def value(self, raw: float) -> float:
        """Return what `Encoder._transform` does for one value; NaN stays NaN."""
        scaled = (raw - self.origin) / self.unit
        if self.is_log:
            # In this order: the maximum of NaN and a number is NaN.
            is_off = scaled < 0 or (scaled == 0 and not self.added)
            floored = (self.off if is_off else max(scaled, self.floor)) + self.added
            # NumPy's logarithm equals that of many rows to the last bit; math.log need not.
            scaled = float(np.log(floored)) if floored > 0 else floored - inf
        elif abs(scaled) > 1:
            scaled = copysign(1 + float(np.log(abs(scaled))), scaled)
        centred = scaled - self.center
        if self.is_switch and abs(centred) > SWITCH_TOLERANCE:
            return copysign(1.0, centred)
        return centred
