"""How far apart the levels of a category lie, as the runs show it."""

from dataclasses import dataclass, replace

import numpy as np

from models.features.encoder import Encoder
from models.features.layout import Layout
from models.laws.law_priors import Template
from models.laws.scaling_laws import LogLinearLaw
from models.tables import FeatureTable, FloatArray

SPREADS = (1.0, 0.3, 0.1)
"""Factors that compete: effects are typically a factor of 1.6, 16 % or 5 %."""

_MIN_LEVELS = 3
"""Two levels have one difference, which says almost nothing about the spread of differences."""

_MIN_LOG_ODDS = 3.0
"""Strong evidence (20 to 1; Kass and Raftery 1995, J. Am. Statist. Assoc. 90)."""

_ROUNDS = 2


def with_level_spreads(
    encoder: Encoder, features: FeatureTable, y: FloatArray, seed: int
) -> Encoder:
    """Return the encoder with the spread of each category's effects that the runs support.

    By default, the levels of a category are expected to differ by a factor of about 1.6. Where
    numbers describe them too (instance types by their cores and memory) or they hardly matter (who
    ran them), such a prior attributes to the levels what is due to the numbers, and the answer for
    a level without runs is distorted. As in a mixed model, the variance of the effects is chosen by
    the evidence of a power law under its most plausible template: one of `SPREADS` for each
    category in turn, if the odds for it against the default exceed e^3. Levels that data sheets
    describe keep their own.

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
    Gelman and Hill (2007), Data analysis using regression and multilevel models, ch. 12.
    MacKay (1992), Bayesian interpolation, Neural Computation 4(3), on evidence.

    Examples
    --------
    >>> cores = np.repeat([2.0, 4.0, 8.0, 16.0, 32.0], 3)
    >>> names = [f"{int(count)}-core" for count in cores]
    >>> workers = np.tile([1.0, 2.0, 4.0], 5)
    >>> columns = {"param.cores": cores, "workers": workers}
    >>> table = FeatureTable(columns, {"instance_type": names}, 15)
    >>> y = -0.9 * np.log(workers * cores)
    >>> encoder = with_level_spreads(Encoder.learn(table), table, y - np.median(y), seed=0)
    >>> [category.spread for category in encoder.categories if category.used]
    [0.1]
    """
    spreads = _Spreads(encoder.layout, encoder.encode(features).X, y, seed).chosen()
    if set(spreads) <= {1.0}:
        return encoder
    used_spreads = iter(spreads)
    return encoder.with_categories(
        tuple(
            replace(category, spread=next(used_spreads)) if category.used else category
            for category in encoder.categories
        )
    )


@dataclass(frozen=True, slots=True)
class _Spreads:
    """The choice of the factors of all used categories."""

    layout: Layout
    X: FloatArray
    y: FloatArray
    seed: int

    def chosen(self) -> tuple[float, ...]:
        """Return the factor of each category: the best one for each in turn, in two rounds."""
        default = spreads = (1.0,) * len(self.layout.levels)
        categories = [category for category in range(len(default)) if self._is_learnable(category)]
        if not categories:
            return default
        try:
            templates = LogLinearLaw(self.layout, seed=self.seed).fit(self.X, self.y).templates_
            for _ in range(_ROUNDS):
                previous = spreads
                for category in categories:
                    spreads = self._best(spreads, category, templates[:1])
                if spreads == previous:
                    break
        except (ValueError, np.linalg.LinAlgError):
            return default
        return spreads

    def _is_learnable(self, category: int) -> bool:
        levels, offsets = self.layout.levels[category], self.layout.offsets[category]
        return levels >= _MIN_LEVELS and not any(offsets)

    def _best(
        self, spreads: tuple[float, ...], category: int, templates: tuple[Template, ...]
    ) -> tuple[float, ...]:
        trials = [(*spreads[:category], factor, *spreads[category + 1 :]) for factor in SPREADS]
        evidences = [self._evidence(trial, templates) for trial in trials]
        best = int(np.argmax(evidences))
        return trials[best if evidences[best] - evidences[0] > _MIN_LOG_ODDS else 0]

    def _evidence(self, spreads: tuple[float, ...], templates: tuple[Template, ...]) -> float:
        layout = replace(self.layout, level_spreads=spreads)
        law = LogLinearLaw(layout, templates=templates, seed=self.seed).fit(self.X, self.y)
        return law.laws_[0].evidence
