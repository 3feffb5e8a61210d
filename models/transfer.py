"""Questions about levels that no run has: answered from the measured levels, shifted and wider."""

from dataclasses import dataclass

import numpy as np

from models.encoding import UNSEEN, Encoded, Encoder
from models.features import CategoryFeature
from models.hardware import UNKNOWN_SD, log_duration_shift, transfer_sd
from models.tables import BoolArray, FloatArray, IntArray

BESIDE_GPU_SD = 0.15
"""Log standard deviation of an unknown instance type where the GPU type is told as well."""

MAX_STAND_INS = 6
"""How many measured combinations of levels stand in for an open one."""


_StandIns = tuple[IntArray, FloatArray, FloatArray, FloatArray]
"""Codes of the stand-ins of one question, their weights, shifts and variances."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """Rows in which measured levels stand in for open ones.

    Row i of `X` answers question ``source[i]`` with weight ``weights[i]`` (they sum to 1 for each
    question), after adding ``shift[i]`` to the log duration and ``variance[i]`` to its variance.
    """

    X: FloatArray
    source: IntArray
    weights: FloatArray
    shift: FloatArray
    variance: FloatArray


class LevelTransfer:
    """Knows which combinations of levels were measured, and how often.

    Parameters
    ----------
    encoder
        The encoder of the fit.
    combinations
        Distinct rows of level codes among the configurations, shape (k, n_categories).
    counts
        How many runs each of them has, shape (k,).
    """

    def __init__(self, encoder: Encoder, combinations: IntArray, counts: FloatArray) -> None:
        self.encoder, self.combinations, self.counts = encoder, combinations, counts
        self._used = [c for c, item in enumerate(encoder.categories) if item.used]
        names = [category.column for category in encoder.categories]
        self._gpu = names.index("gpu_type") if "gpu_type" in names else None
        self._first_code = encoder.layout.n_numeric + 1

    @classmethod
    def learn(cls, encoder: Encoder, codes: IntArray, counts: FloatArray) -> "LevelTransfer":
        """Learn the measured combinations from the codes of all configurations."""
        if not codes.shape[1]:
            return cls(encoder, np.zeros((1, 0), dtype=np.int64), counts.sum(keepdims=True))
        combinations, inverse = np.unique(codes, axis=0, return_inverse=True)
        weights: FloatArray = np.zeros(len(combinations))
        np.add.at(weights, inverse.ravel(), counts)
        return cls(encoder, combinations, weights)

    def expand(self, encoded: Encoded, gpu_types: list[str | None] | None) -> Expansion | None:
        """Return stand-ins for open levels, None if every level was measured.

        An unseen GPU type whose data sheet is known, as are those of measured types, is shifted by
        the prior of `models.hardware`; any other unseen level adds a variance of 0.5 squared.
        """
        open_rows = np.asarray(np.any(encoded.codes < 0, axis=1), dtype=np.bool_)
        if not open_rows.any():
            return None
        # Many questions leave the same levels open: their stand-ins are found once.
        known: dict[tuple[tuple[int, ...], str | None], _StandIns] = {}
        parts: list[_StandIns] = []
        for row, levels in enumerate(encoded.codes.tolist()):
            key = tuple(levels), gpu_types[row] if gpu_types else None
            if key not in known:
                codes = encoded.codes[row]
                known[key] = (
                    self._stand_ins(codes, key[1])
                    if open_rows[row]
                    else (codes[None], np.ones(1), np.zeros(1), np.zeros(1))
                )
            parts.append(known[key])
        lengths = [len(part[0]) for part in parts]
        source = np.repeat(np.arange(len(encoded.X)), lengths)
        X = encoded.X[source].copy()
        codes = np.concatenate([part[0] for part in parts])
        X[:, self._first_code :] = codes[:, self._used]
        weights, shift, variance = (
            np.concatenate([part[index] for part in parts]) for index in (1, 2, 3)
        )
        return Expansion(X, source, weights, shift, variance)

    def _stand_ins(self, codes: IntArray, gpu_type: str | None) -> _StandIns:
        open_levels = codes < 0
        known = ~open_levels
        equal = np.asarray(np.equal(self.combinations[:, known], codes[known]))
        agree: BoolArray = np.asarray(np.all(equal, axis=1), dtype=np.bool_)
        chosen = agree if agree.any() else ~agree
        candidates, counts = self.combinations[chosen], self.counts[chosen]
        order = np.lexsort((np.arange(len(counts)), -counts))[:MAX_STAND_INS]
        filled = np.where(open_levels, candidates[order], codes)
        weights = counts[order] / counts[order].sum()
        shift, variance = np.zeros(len(order)), np.full(len(order), self._doubt(codes))
        if self._gpu is not None and codes[self._gpu] == UNSEEN:
            weights, shift, gpu_variance = self._shift(filled[:, self._gpu], gpu_type, weights)
            variance = variance + gpu_variance
        return filled, weights, shift, variance

    def _doubt(self, codes: IntArray) -> float:
        """Return the variance of unseen levels other than a GPU type."""
        total = 0.0
        for index, category in enumerate(self.encoder.categories):
            if codes[index] == UNSEEN and index != self._gpu:
                total += self._level_sd(category) ** 2
        return total

    def _level_sd(self, category: CategoryFeature) -> float:
        beside_gpu = category.column == "instance_type" and self._gpu is not None
        return BESIDE_GPU_SD if beside_gpu else UNKNOWN_SD

    def _shift(
        self, codes: IntArray, gpu_type: str | None, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return weights, shifts and variances of the stand-ins of an unseen GPU type."""
        assert self._gpu is not None
        asked = self.encoder.hardware.get(gpu_type or "")
        levels = self.encoder.categories[self._gpu].levels
        measured = [self.encoder.hardware.get(levels[code] or "") for code in codes]
        shift = np.zeros(len(codes))
        variance = np.full(len(codes), UNKNOWN_SD**2)
        described = np.zeros(len(codes), dtype=np.bool_)
        for index, hardware in enumerate(measured):
            if asked is None or hardware is None:
                continue
            described[index] = True
            shift[index] = log_duration_shift(asked, hardware)
            variance[index] = transfer_sd(asked, hardware) ** 2
        if described.any():
            # A type with a similar data sheet says more than one far away.
            weights = np.where(described, weights * np.exp(-3 * np.abs(shift)), 0.0)
        return weights / weights.sum(), shift, variance

    def is_described(self, codes: IntArray, gpu_type: str | None) -> bool:
        """Return whether an unseen GPU type is linked to a measured one by its data sheet."""
        if self._gpu is None or codes[self._gpu] != UNSEEN or gpu_type is None:
            return False
        levels = self.encoder.categories[self._gpu].levels
        measured = any(level in self.encoder.hardware for level in levels if level is not None)
        return measured and gpu_type in self.encoder.hardware
