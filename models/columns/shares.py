"""Shares and other columns with zeros: whether they enter by their logarithm or linearly."""

import numpy as np

from models.features.encoder import Encoder
from models.features.numeric import NumericFeature, learn_logarithmic
from models.laws.law_priors import TERMS
from models.laws.scaling_laws import ScalingLaw
from models.questions.regimes import FEW_CONFIGURATIONS
from models.tables import FeatureTable, FloatArray

_MIN_LEVELS, _MAX_COLUMNS = 3, 4
"""Fewest levels that show how a share acts, and most shares of a workload that are examined."""

_MIN_LOG_ODDS = 1.0


def with_shares(encoder: Encoder, features: FeatureTable, y: FloatArray, seed: int) -> Encoder:
    """Return the encoder with the transforms of shares that the runs support.

    Work on a share x of the data adds ``b x`` to a duration, ``a + b x`` in all: a sum of power
    laws in terms of ``log(1 + x / u)``, but not in terms of x, and the difference grows beyond the
    measured range. For factors ``exp(w x)`` and durations that fall with x it is the other way
    round. A column of three or more levels, one of them zero, enters linearly unless the evidence
    of the full law (`models.laws.scaling_laws`) for its logarithm is e times as large.

    Parameters
    ----------
    encoder
        The encoder learned from the features alone.
    features
        The configurations.
    y
        Their log durations less the median.
    seed
        Seed for the choice of a subset of large sets.

    References
    ----------
    Box and Tidwell (1962), Transformation of the independent variables, Technometrics 4(4).
    MacKay (1992), Bayesian interpolation, Neural Computation 4(3), on evidence.

    Examples
    --------
    >>> share = np.tile([0.0, 0.25, 0.5, 1.0], 4)
    >>> table = FeatureTable({"param.share": share}, {}, 16)
    >>> added = with_shares(Encoder.learn(table), table, np.log(1 + 8 * share) - 1, seed=0)
    >>> added.numeric[0].transform
    'log1p'
    """
    if len(y) < FEW_CONFIGURATIONS:
        return encoder
    shares = [item for item in encoder.numeric if _is_share(item, encoder, features)]
    if not 0 < len(shares) <= _MAX_COLUMNS:
        return encoder
    best_evidence = _evidence(encoder, features, y, seed)
    for feature in shares:
        logarithmic = learn_logarithmic(feature, features)
        trial = encoder.with_numeric(
            tuple(logarithmic if item is feature else item for item in encoder.numeric)
        )
        evidence = _evidence(trial, features, y, seed)
        if evidence > best_evidence + _MIN_LOG_ODDS:
            encoder, best_evidence = trial, evidence
    return encoder


def _is_share(feature: NumericFeature, encoder: Encoder, features: FeatureTable) -> bool:
    values = features.numeric[feature.column]
    is_linear = feature.used and feature.transform == "scaled" and not feature.quotient
    has_companion = any(companion.of == feature.column for companion in encoder.companions)
    levels = np.unique(values[~np.isnan(values)])
    return is_linear and not has_companion and len(levels) >= _MIN_LEVELS and levels[0] == 0


def _evidence(encoder: Encoder, features: FeatureTable, y: FloatArray, seed: int) -> float:
    """Return the log evidence of the best template of the full law."""
    X = encoder.encode(features).X
    try:
        return ScalingLaw(encoder.layout, TERMS, 1.0, seed=seed).fit(X, y).laws_[0].evidence
    except (ValueError, np.linalg.LinAlgError):
        return -np.inf
