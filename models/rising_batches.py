"""Whether durations rise with the batch, so that its trend goes on beyond the measured range."""

from dataclasses import replace

import numpy as np

from models.encoding import Encoder
from models.regimes import FEW_CONFIGURATIONS
from models.scaling_laws import LogLinearLaw
from models.tables import FeatureTable, FloatArray

_CERTAIN = 2.0
"""How many of its deviations the exponent of the local batch must be above zero."""


def with_rising_batch(
    encoder: Encoder, features: FeatureTable, y: FloatArray, seed: int
) -> Encoder:
    """Return the encoder with a batch whose trend goes on above, if durations rise with it.

    Where a data set is worked through, larger batches mean fewer steps: durations fall with a cost
    per step that ceases to count, and the trend fades (`models.damping`). Where the number of steps
    is fixed (pretraining, requests that are answered batch by batch), they rise with the work of a
    step, in the end in proportion to it: nothing fades above the range. Below it the work of a step
    ceases to count, as before. A power law's exponent of the local batch tells, where it lies two
    of its posterior deviations above zero, from 12 configurations on.

    Parameters
    ----------
    encoder
        As learned from the features.
    features
        The configurations.
    y
        Their log durations above the median.
    seed
        Chooses the subset of large sets.

    Examples
    --------
    >>> batch = np.tile([8.0, 16.0, 32.0, 64.0], 3)
    >>> table = FeatureTable({"batch_size": batch, "workers": np.ones(12)}, {}, 12)
    >>> learned = Encoder.learn(table)
    >>> [item.rises for item in with_rising_batch(learned, table, np.log(1 + batch / 8), 0).numeric]
    [False, True]
    >>> with_rising_batch(learned, table, np.log(1 + 8 / batch), 0) is learned
    True
    """
    used = [feature for feature in encoder.numeric if feature.used]
    places = [index for index, feature in enumerate(used) if feature.is_damped]
    if len(y) < FEW_CONFIGURATIONS or not places:
        return encoder
    try:
        law = LogLinearLaw(encoder.layout, seed=seed).fit(encoder.encode(features).X, y).laws_[0]
    except (ValueError, np.linalg.LinAlgError):
        return encoder
    place = 1 + places[0]
    if law.theta[place] <= _CERTAIN * law.covariance[place, place] ** 0.5:
        return encoder
    numeric = (replace(item, rises=True) if item.is_damped else item for item in encoder.numeric)
    return encoder.with_numeric(tuple(numeric))
