"""Exponents from other workloads for parameters that were constant in a workload's runs."""

from dataclasses import replace

import numpy as np

from models.features.encoder import Encoder
from models.features.numeric import NumericFeature
from models.laws.law_priors import TEMPLATES, Term
from models.pooling.priors import PooledPrior
from models.pooling.summaries import feature_name, parameter_names

_TERMS: tuple[Term, ...] = ("compute",)
"""The term of a single power law, which is the whole duration."""


def with_exponents(encoder: Encoder, prior: PooledPrior) -> Encoder:
    """Return the encoder with the pool's exponents for constant parameters.

    Runs that never varied a parameter (the sequence length, say) show nothing about it. A question
    that varies it is answered by the parameter's exponent in the other workloads, with its spread
    between them: mean and variance of the mixture of the templates, weighted as in the pool. A
    parameter that no workload of the pool varied keeps the exponent 0 +- .5. Parameters with zeros
    are left aside: their scale differs between workloads.
    """
    numeric = tuple(
        _with_pooled_exponent(feature, prior) if _is_constant(feature) else feature
        for feature in encoder.numeric
    )
    return encoder if numeric == encoder.numeric else encoder.with_numeric(numeric)


def _is_constant(feature: NumericFeature) -> bool:
    return not feature.used and feature.role == "parameter" and feature.transform == "log"


def _with_pooled_exponent(feature: NumericFeature, prior: PooledPrior) -> NumericFeature:
    names = parameter_names(_TERMS, [feature_name(feature)])[-1:]
    default = np.zeros(1), np.full(1, feature.exponent_sd)
    priors = [prior.numeric(template, _TERMS, names, default) for template in TEMPLATES]
    weights = np.exp([prior.log_weight(template, _TERMS) for template in TEMPLATES])
    weights /= weights.sum()
    means, sds = (np.array([pair[side][0] for pair in priors]) for side in (0, 1))
    mean = float(weights @ means)
    variance = float(weights @ (sds**2 + (means - mean) ** 2))
    return replace(feature, exponent=mean, exponent_sd=variance**0.5)
