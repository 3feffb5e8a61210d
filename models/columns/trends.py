"""Which trends fade beyond the measured range of a feature, and on which side."""

from dataclasses import replace

import numpy as np

from models.features.damping import Fading
from models.features.encoder import Encoder
from models.features.numeric import NumericFeature
from models.laws.scaling_laws import LogLinearLaw
from models.questions.regimes import FEW_CONFIGURATIONS
from models.tables import FeatureTable, FloatArray

_CERTAIN = 2.0
"""How many of its deviations the exponent of the local batch must be away from zero."""

_TOGETHER = 0.8
"""Correlation with the local batch from which on a feature goes with it."""


def with_fading_trends(
    encoder: Encoder, features: FeatureTable, y: FloatArray, seed: int
) -> Encoder:
    """Return the encoder with trends of the local batch, and of what goes with it, that fade.

    A duration is a sum of terms, each a power of the batch: in logarithms it is convex, so that a
    trend flattens on the side to which durations fall, as terms that do not change take over, and
    steepens on the other.

    - Where a data set is worked through, larger batches mean fewer steps: durations fall with a
      cost per step that ceases to count above the range (`models.features.damping`) and counts ever
      more below it.
    - Where the number of steps is fixed (pretraining, requests that are answered batch by batch),
      they rise with the work of a step, in the end in proportion to it, and fade below.

    A power law's exponent of the local batch tells, where it lies two of its posterior deviations
    away from zero, from 12 configurations on. Otherwise both sides fade, and so they do where
    durations fall with batches that went with the workers (a correlation of .8): whose doing it is
    the runs cannot tell, and more workers make small batches.

    Memory makes large batches go with short sequences, with small micro-batches, with other
    parameters. Runs along such a line tell what both do together, but hardly what each does alone;
    if one trend faded above and the other went on, their shares, which cancelled, would not any
    more. A parameter that went with a batch that fades above, in 12 configurations or more, fades
    on the side to which it goes as the batch grows.

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

    References
    ----------
    Boyd, Kim, Vandenberghe, Hassibi (2007), A tutorial on geometric programming, Optim. Eng. 8,
    67-127: posynomials are convex in logarithms.

    Examples
    --------
    >>> batch = np.tile([8.0, 16.0, 32.0, 64.0], 3)
    >>> columns = {"batch_size": batch, "workers": np.ones(12), "length": 8192 / batch**0.9}
    >>> columns["length"][0] = 2048.0
    >>> table = FeatureTable(columns, {}, 12)
    >>> learned = Encoder.learn(table)
    >>> falling = with_fading_trends(learned, table, np.log(1 + 8 / batch), 0)
    >>> {feature.column: feature.fades for feature in falling.numeric}
    {'workers': 'none', 'batch_size': 'both', 'length': 'below'}
    >>> rising = with_fading_trends(learned, table, np.log(1 + batch / 8), 0)
    >>> {feature.column: feature.fades for feature in rising.numeric}
    {'workers': 'none', 'batch_size': 'below', 'length': 'none'}
    """
    used = [feature for feature in encoder.numeric if feature.used]
    fading = [place for place, feature in enumerate(used) if feature.may_fade]
    batches = [place for place in fading if used[place].role == "local_batch"]
    if not batches:
        return encoder
    (batch,) = batches
    column = used[batch].column
    fades: dict[str, Fading] = {column: "both"}
    if len(y) >= FEW_CONFIGURATIONS:
        X = encoder.encode(features).X
        sign = _sign(encoder, X, y, batch, seed)
        together = _together(used, X, batch)
        if sign > 0:
            fades[column] = "below"
        else:
            fades |= {
                used[place].column: _side(correlation)
                for place, correlation in together.items()
                if place in fading
            }
        if sign < 0 and not any(used[place].role == "workers" for place in together):
            fades[column] = "above"
    return encoder.with_numeric(
        tuple(
            replace(item, fades=fades[item.column]) if item.column in fades else item
            for item in encoder.numeric
        )
    )


def _side(correlation: float) -> Fading:
    return "above" if correlation > 0 else "below"


def _sign(encoder: Encoder, X: FloatArray, y: FloatArray, batch: int, seed: int) -> int:
    """Return 1 or -1 if durations surely rise or fall with feature number `batch`, else 0."""
    try:
        law = LogLinearLaw(encoder.layout, seed=seed).fit(X, y).laws_[0]
    except (ValueError, np.linalg.LinAlgError):
        return 0
    place = 1 + batch
    exponent, deviation = law.theta[place], law.covariance[place, place] ** 0.5
    return int(np.sign(exponent)) if abs(exponent) > _CERTAIN * deviation else 0


def _together(used: list[NumericFeature], X: FloatArray, batch: int) -> dict[int, float]:
    """Return the correlations of features that went with feature number `batch`, by number."""
    found: dict[int, float] = {}
    for place, feature in enumerate(used):
        if place == batch or feature.spread * used[batch].spread == 0:
            continue
        correlation = float(np.corrcoef(X[:, place], X[:, batch])[0, 1])
        if abs(correlation) >= _TOGETHER:
            found[place] = correlation
    return found
