"""Which trends fade beyond the measured range of a feature, and on which side."""

from dataclasses import replace

import numpy as np

from models.columns.relevance import with_relevance
from models.features.damping import Fading, damped
from models.features.encoder import Encoder
from models.features.numeric import NumericFeature
from models.laws.scaling_laws import LogLinearLaw, ScalingLaw
from models.questions.regimes import FEW_CONFIGURATIONS
from models.tables import FeatureTable, FloatArray

_CERTAIN_DEVIATIONS = 2.0
"""Posterior deviations from zero at which the sign of the local batch's exponent is certain."""

_MIN_CORRELATION = 0.8
"""Absolute correlation from which on a feature varies together with the local batch."""

_SAME = 1e-9
"""Log units within which local batches are the same."""

_MIN_HELD_OUT, _MIN_KNOWN_SHARE = 3, 1 / 3
"""Fewest configurations with the largest batch that test a trend, and least share of others."""

_CLEARLY_BETTER = 0.9
"""Share of the error of fading trends that the error of continuing ones stays below."""


def with_fading_trends(
    encoder: Encoder, features: FeatureTable, y: FloatArray, seed: int
) -> Encoder:
    """Return the encoder with fading trends of the local batch and of what varied with it.

    A duration is a sum of terms, each a power of the batch: convex in logarithms, so that a trend
    flattens on the side where durations fall, as constant terms take over, and steepens on the
    other side.

    - Where the data set is fixed, larger batches mean fewer steps: durations fall with a cost per
      step that becomes negligible above the range (`models.features.damping`) and ever larger below
      it.
    - Where the number of steps is fixed (pretraining, requests answered batch by batch), durations
      rise with the work per step, in the end in proportion to it, and the trend fades below.

    From 12 configurations on, the sign of the local batch's exponent in a power law decides, if it
    is more than two posterior deviations from zero. Otherwise both sides fade. They also do where
    durations fall with batches that varied together with the workers (a correlation of .8): the
    runs cannot separate the two effects, and more workers make small batches.

    Runs at three or more batches can show more. From 12 configurations on, those with the largest
    batch (three or more) are held out and forecast from the others by a sum of laws. If it is
    clearly better without fading, the trend continues above the range as far as it was tested, and
    fades there.

    Because of memory limits, large batches go with short sequences, small micro-batches or other
    parameters. Runs along such a line show the joint effect, but hardly that of each alone; if one
    trend faded above and the other did not, their contributions would no longer cancel. A parameter
    that varied together with a batch that fades above, in 12 configurations or more, fades on the
    side to which it moves as the batch grows.

    Parameters
    ----------
    encoder
        The encoder learned from the features.
    features
        The configurations.
    y
        Their log durations less the median.
    seed
        Seed for the choice of a subset of large sets.

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
    fading = [index for index, feature in enumerate(used) if feature.may_fade]
    batches = [index for index in fading if used[index].role == "local_batch"]
    if not batches:
        return encoder
    (batch,) = batches
    column = used[batch].column
    fades: dict[str, Fading] = {column: "both"}
    reach = 0.0
    if len(y) >= FEW_CONFIGURATIONS:
        X = encoder.encode(features).X
        sign = _sign(encoder, X, y, batch, seed)
        correlations = _correlated(used, X, batch)
        if sign > 0:
            fades[column] = "below"
        elif correlations:
            fades |= {
                used[index].column: _fading_side(correlation)
                for index, correlation in correlations.items()
                if index in fading
            }
        else:
            reach = _tested_reach(encoder, X, y, batch, seed)
        if sign < 0 and not any(used[index].role == "workers" for index in correlations):
            fades[column] = "above"
    return encoder.with_numeric(
        tuple(
            replace(item, fades=fades[item.column], reach=reach) if item.column in fades else item
            for item in encoder.numeric
        )
    )


def _tested_reach(encoder: Encoder, X: FloatArray, y: FloatArray, batch: int, seed: int) -> float:
    """Return how far beyond its range the trend of feature number `batch` continues, in log units.

    The distance between the largest batch and the next if the runs at the others forecast those at
    the largest clearly better without fading, otherwise 0.
    """
    values = X[:, batch]
    largest = float(values.max())
    known = values < largest - _SAME
    n_known = int(known.sum())
    if not _MIN_KNOWN_SHARE * len(y) <= n_known <= len(y) - _MIN_HELD_OUT:
        return 0.0
    end = float(values[known].max())
    if end - values.min() < _SAME:
        return 0.0
    try:
        layout = with_relevance(encoder.layout, X[known], y[known], seed)
        law = ScalingLaw(layout, seed=seed).fit(X[known], y[known])
    except (ValueError, np.linalg.LinAlgError):
        return 0.0
    faded = X[~known].copy()
    faded[:, batch] = damped(faded[:, batch], -np.inf, end)
    continuing, fading = (
        float(np.abs(law.predict(rows) - y[~known]).mean()) for rows in (X[~known], faded)
    )
    return largest - end if continuing < _CLEARLY_BETTER * fading else 0.0


def _fading_side(correlation: float) -> Fading:
    return "above" if correlation > 0 else "below"


def _sign(encoder: Encoder, X: FloatArray, y: FloatArray, batch: int, seed: int) -> int:
    """Return 1 or -1 if durations certainly rise or fall with feature number `batch`, else 0."""
    try:
        law = LogLinearLaw(encoder.layout, seed=seed).fit(X, y).laws_[0]
    except (ValueError, np.linalg.LinAlgError):
        return 0
    index = 1 + batch
    exponent, sd = law.theta[index], law.covariance[index, index] ** 0.5
    return int(np.sign(exponent)) if abs(exponent) > _CERTAIN_DEVIATIONS * sd else 0


def _correlated(used: list[NumericFeature], X: FloatArray, batch: int) -> dict[int, float]:
    """Return the correlations of features that varied with feature number `batch`, by number."""
    correlations: dict[int, float] = {}
    for index, feature in enumerate(used):
        if index == batch or feature.spread * used[batch].spread == 0:
            continue
        correlation = float(np.corrcoef(X[:, index], X[:, batch])[0, 1])
        if abs(correlation) >= _MIN_CORRELATION:
            correlations[index] = correlation
    return correlations
