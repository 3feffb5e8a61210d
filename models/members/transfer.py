"""Answers about levels without runs, from the measured levels, shifted and with wider intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.features.aliases import alias_values
from models.features.encoded import Encoded
from models.features.encoder import MAX_UNIDENTIFIED_VARIANCE, UNSEEN, UNSPECIFIED, Encoder
from models.features.hardware import UNKNOWN_GPU_SD, UNKNOWN_SD
from models.once import once
from models.pooling.level_effects import LevelEffects, ordinary_kriging
from models.questions.companions import Companions, Pair, find_plane, paired_categories
from models.questions.implied import ImpliedColumns
from models.questions.presence import Presence
from models.tables import BoolArray, FeatureTable, FloatArray, IntArray

BESIDE_GPU_SD = 0.15
"""Log standard deviation of an unknown instance type whose GPU type is known."""

UNMEASURED_GPU_SD = 2.5
"""The same of a GPU type where no run has a GPU: one may be as fast as 50 CPU cores, or as one."""

_MIN_SPREAD = 0.3
"""Least spread of a category for an unseen level, which may differ by more than the measured do."""

_MIN_WEIGHT = 1e-3
_SEEN_SD = 0.1
"""Log standard deviation of the effect of a measured level with few runs."""

MAX_STAND_INS = 6
"""How many measured combinations of levels at most stand in for an open one."""

_MACHINE = ("gpu_type", "instance_type")
"""Categories of machines, which unlike settings are no free choice beside the other levels."""

_INTERACTION_RATIO = 0.5
"""Variance of a level's interactions with other levels, relative to that of its effect."""


_StandIns = tuple[IntArray, FloatArray, FloatArray, FloatArray, FloatArray]
"""Of the stand-ins of one question: codes, weights, shift, variance, unknown; see `Expansion`."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """Rows in which measured levels stand in for open ones.

    Row i of `X` answers question ``source[i]`` with weight ``weights[i]`` (they sum to 1 for each
    question), after adding ``shift[i]`` to the log duration and ``variance[i]`` to its variance.
    ``unknown[i]`` is the variance of levels about which nothing is known.
    """

    X: FloatArray
    source: IntArray
    weights: FloatArray
    shift: FloatArray
    variance: FloatArray
    unknown: FloatArray


class LevelTransfer:
    """Knows which combinations of levels were measured, and how often.

    Parameters
    ----------
    encoder
        The encoder of the fit.
    combinations
        Distinct rows of level codes among the configurations, shape (k, n_categories).
    counts
        Number of runs of each, shape (k,).
    effects
        Effects of levels by category, as far as other workloads or data sheets tell them.
    X, codes
        The measured configurations, shape (n, n_columns), and their level codes, shape
        (n, n_categories); evaluated when the first question is asked.
    """

    def __init__(
        self,
        encoder: Encoder,
        combinations: IntArray,
        counts: FloatArray,
        effects: Mapping[str, LevelEffects],
        X: FloatArray,
        codes: FloatArray | IntArray,
    ) -> None:
        self.encoder, self.combinations, self.counts = encoder, combinations, counts
        self.effects, self._X, self._codes = effects, X, codes
        self._used = [c for c, item in enumerate(encoder.categories) if item.used]
        names = [category.column for category in encoder.categories]
        self._gpu = names.index("gpu_type") if "gpu_type" in names else None
        levels = encoder.categories[self._gpu].levels if self._gpu is not None else ()
        self._no_gpu = levels.index(None) if None in levels else UNSPECIFIED
        self._has_gpu_types = any(level is not None for level in levels)
        self._first_code = encoder.layout.n_numeric + 1

    @classmethod
    def learn(
        cls,
        encoder: Encoder,
        X: FloatArray,
        codes: IntArray,
        counts: FloatArray,
        effects: Mapping[str, LevelEffects],
    ) -> "LevelTransfer":
        """Learn the measured combinations from rows, codes and run counts of all configurations."""
        if not codes.shape[1]:
            nothing = np.zeros((1, 0), dtype=np.int64)
            return cls(encoder, nothing, counts.sum(keepdims=True), effects, X, codes)
        combinations, inverse = np.unique(codes, axis=0, return_inverse=True)
        weights: FloatArray = np.zeros(len(combinations))
        np.add.at(weights, inverse.ravel(), counts)
        return cls(encoder, combinations, weights, effects, X, codes)

    @once
    def _pairs(self) -> list[Pair]:
        """Categories whose levels match in all runs."""
        return paired_categories(self.encoder, self.combinations)

    @once
    def companions(self) -> Companions:
        """Columns that went together in all runs."""
        encoder, X = self.encoder, self._X
        presence = Presence.learn(encoder, X, self._codes.astype(np.int64))
        return Companions(encoder, self._pairs, find_plane(encoder, X), presence, len(X))

    @once
    def implied(self) -> ImpliedColumns:
        """What questions leave open although such a column tells it."""
        return ImpliedColumns(self.encoder, self._pairs)

    @once
    def _aliases(self) -> tuple[IntArray, FloatArray]:
        """Columns of X that the GPU type determines (such as rated power), and their values."""
        return alias_values(self.encoder, self._X, self._codes.astype(np.int64))

    def adjust(self, encoded: Encoded, features: FeatureTable) -> Encoded:
        """Return encoded questions, adjusted to what the runs can tell.

        Questions that separate columns which went together in all runs get their other reading.
        Columns that an unseen GPU type determines count neither as missing nor as out of range: its
        effect is that of the type; its rated power, for example, is not a further axis.
        """
        readings = self.companions.read(features, encoded)
        if readings is not None:
            variance = np.minimum(encoded.variance + readings.variance, MAX_UNIDENTIFIED_VARIANCE)
            shift = encoded.shift + readings.shift
            encoded = replace(encoded, readings=readings, variance=variance, shift=shift)
        columns = self._aliases[0]
        if self._gpu is None or not len(columns):
            return encoded
        rows = np.flatnonzero(encoded.codes[:, self._gpu] == UNSEEN)
        if not rows.size:
            return encoded
        used = [index for index, feature in enumerate(self.encoder.numeric) if feature.used]
        cells = np.ix_(rows, [used[column] for column in columns])
        distances, excess = encoded.distances.copy(), encoded.excess.copy()
        missing = encoded.missing.copy()
        distances[cells], excess[cells], missing[cells] = 0.0, 0.0, False
        return replace(encoded, distances=distances, excess=excess, missing=missing)

    def expand(self, encoded: Encoded, features: FeatureTable) -> Expansion | None:
        """Return stand-ins for open levels, None if every level was measured.

        An unseen level that the pool or a data sheet knows, along with a measured one, is shifted
        by `models.pooling.level_effects`. An unknown GPU type adds a variance of 1, or of 2.5
        squared where no run has a GPU. Any other level adds ``(.5 s)^2`` with s the `spread` of its
        category, at least .3 (.15 instead of .5 for an instance type whose GPU type is known). Rows
        with another reading are answered by both, with equal weights.
        """
        if not encoded.has_open_levels():
            return _both_readings(None, encoded)
        open_rows = np.asarray(np.any(encoded.codes < 0, axis=1), dtype=np.bool_)
        # Many questions leave the same levels open; their stand-ins are computed once.
        cached: dict[tuple[tuple[int, ...], tuple[str | None, ...]], _StandIns] = {}
        parts: list[_StandIns] = []
        for row, levels in enumerate(encoded.codes.tolist()):
            key = tuple(levels), self._unseen_names(levels, features, row)
            if key not in cached:
                codes = encoded.codes[row]
                cached[key] = (
                    self._stand_ins(codes, key[1])
                    if open_rows[row]
                    else (codes[None], np.ones(1), *np.zeros((3, 1)))
                )
            parts.append(cached[key])
        lengths = [len(part[0]) for part in parts]
        codes, weights, shift, variance, unknown = map(np.concatenate, zip(*parts, strict=True))
        source = np.repeat(np.arange(len(encoded.X)), lengths)
        X = encoded.X[source].copy()
        X[:, self._first_code :] = codes[:, self._used]
        if self._gpu is not None and len(self._aliases[0]):
            unseen = np.flatnonzero(encoded.codes[source, self._gpu] == UNSEEN)
            values = self._aliases[1][codes[unseen, self._gpu]]
            X[np.ix_(unseen, self._aliases[0])] = values
        return _both_readings(Expansion(X, source, weights, shift, variance, unknown), encoded)

    def _unseen_names(
        self, levels: Sequence[int], features: FeatureTable, row: int
    ) -> tuple[str | None, ...]:
        """Return the names of the unseen levels, None for the others."""
        return tuple(
            features.categorical[category.column][row] if code == UNSEEN else None
            for category, code in zip(self.encoder.categories, levels, strict=True)
        )

    def _stand_ins(self, codes: IntArray, names: Sequence[str | None]) -> _StandIns:
        is_open = codes < 0
        chosen = self._nearest(codes)
        filled = np.where(is_open, self.combinations[chosen], codes)
        weights = self._equalised(filled, self.counts[chosen], codes, names)
        if len(filled) == 1 and is_open.sum() == 1:
            filled, weights = self._with_crossed_levels(filled, codes, names)
        order = np.lexsort((np.arange(len(weights)), -weights))[:MAX_STAND_INS]
        filled, weights = filled[order], weights[order] / weights[order].sum()
        shift, variance, unknown = np.zeros((3, len(order)))
        for category, name in enumerate(names):
            if codes[category] == UNSEEN:
                shifted = self._shift(category, filled[:, category], name, weights)
                if shifted is not None:
                    weights, added_shift, added_variance = shifted
                    shift, variance = shift + added_shift, variance + added_variance
                elif category == self._gpu:
                    variance = variance + self._unknown_variance(category, codes)
                else:
                    unknown = unknown + self._unknown_variance(category, codes)
        return filled, weights, shift, variance, unknown

    def _nearest(self, codes: IntArray) -> BoolArray:
        """Return which measured combinations share most of the asked levels, shape (k,).

        Those with the asked GPU type precede all others, since a machine's effect is known beside
        its own GPU. For an unseen GPU type, those with any GPU do: the same machine without a GPU
        tells nothing about it.
        """
        is_equal = np.equal(self.combinations, codes)
        similarity = is_equal.sum(axis=1)
        if self._gpu is not None:
            is_preferred = is_equal[:, self._gpu]
            if codes[self._gpu] == UNSEEN:
                is_preferred = self.combinations[:, self._gpu] != self._no_gpu
            similarity += is_equal.shape[1] * is_preferred
        return np.asarray(similarity == similarity.max(), dtype=np.bool_)

    def _is_setting(self, category: int, codes: IntArray, names: Sequence[str | None]) -> bool:
        """Return whether the asked level is an unknown one of a setting, not of a machine."""
        column, levels = self._column(category), self.encoder.categories[category].levels
        is_known = self._is_known(category, names[category]) and any(
            self._is_known(category, level) for level in levels
        )
        return codes[category] == UNSEEN and column not in _MACHINE and not is_known

    def _equalised(
        self, filled: IntArray, counts: FloatArray, codes: IntArray, names: Sequence[str | None]
    ) -> FloatArray:
        """Return weights by runs, but equal for the levels of a setting open beside other columns.

        Its levels are exchangeable: how often one was run says nothing about its similarity to the
        asked one. A setting that alone is open keeps the weights by runs.
        """
        weights, open_categories = counts.copy(), np.flatnonzero(codes < 0).tolist()
        for category in open_categories if len(open_categories) > 1 else ():
            if self._is_setting(category, codes, names):
                weights /= np.bincount(filled[:, category], weights)[filled[:, category]]
        return weights

    def _with_crossed_levels(
        self, filled: IntArray, codes: IntArray, names: Sequence[str | None]
    ) -> tuple[IntArray, FloatArray]:
        """Return further levels of a setting where only one was measured with the asked levels.

        A single level does not show how levels differ. Where another level was measured beside it
        under k equal combinations of the other levels, its effect relative to the first is known.
        It then answers for a combination without runs, with weight ``1 / (1 + r / k)``, r being the
        variance of interactions relative to that of effects.

        References
        ----------
        Scheffe (1959), The analysis of variance, ch. 4 (additive two-way layouts).
        """
        (category,) = np.flatnonzero(codes < 0).tolist()
        if not self._is_setting(category, codes, names):
            return filled, np.ones(1)
        levels, others = self.combinations[:, category], self._others[category]
        is_reference = levels == filled[0, category]
        is_crossed = np.isin(others, others[is_reference]) & ~is_reference
        counts = np.bincount(levels[is_crossed])
        crossed = np.flatnonzero(counts)
        added = np.repeat(filled, len(crossed), axis=0)
        added[:, category] = crossed
        return np.vstack([filled, added]), np.append(
            1.0, 1 / (1 + _INTERACTION_RATIO / counts[crossed])
        )

    @once
    def _others(self) -> list[IntArray]:
        """For each category, labels of the combinations by their levels of all other categories."""
        return [
            np.unique(np.delete(self.combinations, category, 1), axis=0, return_inverse=True)[
                1
            ].ravel()
            for category in range(self.combinations.shape[1])
        ]

    def _unknown_variance(self, category: int, codes: IntArray) -> float:
        column = self._column(category)
        if column == "gpu_type":
            return (UNKNOWN_GPU_SD if self._has_gpu_types else UNMEASURED_GPU_SD) ** 2
        is_beside_gpu = column == "instance_type" and self._names_gpu(codes)
        spread = max(self.encoder.categories[category].spread, _MIN_SPREAD)
        return (spread * (BESIDE_GPU_SD if is_beside_gpu else UNKNOWN_SD)) ** 2

    def _names_gpu(self, codes: IntArray) -> bool:
        return self._has_gpu_types and self._gpu is not None and codes[self._gpu] != self._no_gpu

    def _shift(
        self,
        category: int,
        codes: IntArray,
        level: str | None,
        weights: FloatArray,
    ) -> tuple[FloatArray, FloatArray, float] | None:
        """Return weights, shifts and variance of the stand-ins of an unseen level.

        None where neither the pool nor a data sheet knows it.

        Ordinary kriging over levels: with K the prior covariance of the measured levels' effects
        and k that with the effect of the asked level, w solves ``K w = k`` under ``sum w = 1``.
        """
        column, levels = self._column(category), self.encoder.categories[category].levels
        effects = self.effects.get(column)
        is_known = np.array([self._is_known(category, levels[code]) for code in codes])
        if effects is None or not (is_known.any() and self._is_known(category, level)):
            return None
        # Another open category may have given a stand-in no weight; it stays a stand-in.
        weights = np.maximum(weights, _MIN_WEIGHT)
        distinct, indices = np.unique(codes[is_known], return_inverse=True)
        names = [*(levels[code] for code in distinct), level]
        _, covariance = effects.joint(names, self.encoder.hardware)
        runs = np.bincount(indices, weights[is_known])
        level_weights, variance = ordinary_kriging(covariance, _SEEN_SD**2 / len(distinct) / runs)
        shift, shares = np.zeros(len(codes)), np.zeros(len(codes))
        shift[is_known] = effects.differences(names, self.encoder.hardware)[indices]
        shares[is_known] = level_weights[indices] * weights[is_known] / runs[indices]
        return shares, shift, variance

    def _column(self, category: int) -> str:
        return self.encoder.categories[category].column

    def _is_known(self, category: int, level: str | None) -> bool:
        effects = self.effects.get(self._column(category))
        return (
            effects is not None
            and level is not None
            and effects.is_known(level, self.encoder.hardware)
        )

    def is_described(self, codes: IntArray, levels: Mapping[str, str | None]) -> bool:
        """Return whether unseen levels are linked to measured ones by data sheet or pool.

        For an unseen GPU type its own link is enough: an instance type comes with it.
        """
        unseen = np.flatnonzero(codes == UNSEEN).tolist()
        if self._gpu in unseen:
            unseen = [self._gpu]
        return bool(unseen) and all(self._is_linked(index, levels) for index in unseen)

    def _is_linked(self, category: int, levels: Mapping[str, str | None]) -> bool:
        measured = self.encoder.categories[category].levels
        level = levels.get(self._column(category))
        has_known = any(self._is_known(category, other) for other in measured)
        return has_known and self._is_known(category, level)


def _both_readings(expansion: Expansion | None, encoded: Encoded) -> Expansion | None:
    """Return the expansion with both readings of questions that separate companion columns."""
    if encoded.readings is None:
        return expansion
    n = len(encoded.X)
    if expansion is None:
        expansion = Expansion(encoded.X, np.arange(n), np.ones(n), *np.zeros((3, n)))
    alternative = encoded.readings.X[expansion.source]
    separated = np.flatnonzero(~np.isnan(alternative).all(axis=1))
    second = np.where(np.isnan(alternative), expansion.X, alternative)[separated]
    weights = expansion.weights.copy()
    weights[separated] /= 2
    rows = np.concatenate([np.arange(len(weights)), separated])
    return Expansion(
        np.vstack([expansion.X, second]),
        expansion.source[rows],
        weights[rows],
        expansion.shift[rows],
        expansion.variance[rows],
        expansion.unknown[rows],
    )
