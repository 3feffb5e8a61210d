"""Whether a configuration fits into GPU memory: a monotone law of the peak, with uncertainty."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan

import numpy as np

from models.accelerator_memory.features import MemoryFeatures, Seen, capacity_names
from models.accelerator_memory.parameters import Parameters, error_probability, log_of_sum
from models.once import once
from models.reports import MemoryCounts
from models.tables import FeatureTable, FloatArray

_MAX_CACHED = 1024
"""How many answers are cached; the cache is cleared before one more is added."""

_CHUNK = 256
"""Rows computed at a time, so that their draws fit into a CPU's cache."""


@dataclass(frozen=True, slots=True)
class Feasibility:
    """Whether questions fit into GPU memory.

    Parameters
    ----------
    probability
        Probability that a new run does not run out of memory, shape (n,); NaN without evidence.
    basis
        What it rests on, in words, one text per row.
    is_tested
        True if peaks were measured or runs ran out of memory: only then is the limit known well
        enough to refuse a configuration.
    """

    probability: FloatArray
    basis: tuple[str, ...]
    is_tested: bool


class MemoryLaw:
    r"""The peak memory of one GPU as a monotone law with posterior draws of its parameters.

    ``log m = log(exp(alpha + u z) w^-s + exp(beta + v z) b) + d[c] + e``, affine in the local
    batch b, with exponents u and v between 0 and 3 of the numeric parameters z, an exponent s
    between 0 and 1 with which w workers share the part that does not depend on the batch, and an
    effect d of each level (precision); ``e ~ sigma t_4``. A run fits if m is below the usable share
    of its GPU's memory; where that memory is unknown, it is a parameter too. Measured peaks enter
    by their density, runs out of memory by the probability of exceeding the memory, and successful
    runs by that of staying below it. Every draw rises in the local batch, in every parameter and in
    the bits of a precision, and falls in the workers; hence so does the probability of running out
    of memory.

    Parameters
    ----------
    features
        How rows are read.
    capacities
        Log bytes of memory by GPU type, where known.
    latent
        The GPU types of the runs whose memory is unknown.
    draws
        Parameters, shape (n_draws, n_parameters).
    counts
        Numbers of runs on which the law rests.

    References
    ----------
    Rajbhandari et al. (2020), ZeRO: memory optimizations toward training trillion parameter
    models, SC20: weights and optimiser states do not depend on the batch, activations rise with
    it linearly; the former can be split over the workers.
    """

    def __init__(
        self,
        features: MemoryFeatures,
        capacities: Mapping[str, float],
        latent: tuple[str, ...],
        draws: FloatArray,
        counts: MemoryCounts,
    ) -> None:
        self.features, self.capacities, self.latent = features, dict(capacities), latent
        self.draws, self.counts = draws, counts
        self._basis = self._describe_basis()
        self._cache: dict[Seen, Feasibility] = {}

    @once
    def _prepared(self) -> tuple[FloatArray, FloatArray]:
        """All draws in one matrix, and the factors from excess over the limit to scaled margin."""
        # An overflow, in a forged artefact, ends as a probability that is NaN.
        with np.errstate(over="ignore"):
            parameters = Parameters.of(self.draws, self.features, len(self.latent))
        return parameters.stacked(), -1 / parameters.outcome_scale()[:, 0]

    def feasibility(self, questions: FeatureTable) -> Feasibility:
        """Return the probability that each row fits into memory."""
        if not questions.n_rows:
            return Feasibility(np.empty(0), (), self.is_tested)
        inputs = self.features.seen_of(questions)
        if inputs is None:
            return self._feasibility(questions)
        # Many questions, within a table and between calls, differ only in irrelevant columns.
        cached = self._cache.get(inputs)
        if cached is None:
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            cached = self._cache[inputs] = self._feasibility(inputs.table())
        n = questions.n_rows
        return Feasibility(cached.probability.repeat(n), cached.basis * n, cached.is_tested)

    def _feasibility(self, questions: FeatureTable) -> Feasibility:
        names = capacity_names(questions)
        index_of = {name: index for index, name in enumerate(dict.fromkeys(names))}
        codes = list(map(index_of.__getitem__, names))
        extra = np.array(list(map(self._gpu_columns, index_of))).take(codes, axis=0)
        design = self.features.design(questions, extra)
        is_known = [name in self.capacities or name in self.latent for name in index_of]
        # The sum is NaN if any term is.
        if all(is_known) and not isnan(np.add.reduce(design[:, 1])):
            basis = (self._basis,) * len(names)
            return Feasibility(self._probabilities(design), basis, self.is_tested)
        usable = np.array(is_known).take(codes) & ~np.isnan(design[:, 1])
        probability = np.full(len(names), np.nan)
        if usable.any():
            probability[usable] = self._probabilities(design[usable])
        reasons = [_why_unknown(*pair) for pair in zip(index_of, is_known, strict=True)]
        # The last text is that of usable rows.
        rows = np.where(usable, len(reasons), codes).tolist()
        basis = tuple(map([*reasons, self._basis].__getitem__, rows))
        return Feasibility(probability, basis, self.is_tested)

    @property
    def is_tested(self) -> bool:
        """Whether a peak was measured or a run ran out of memory."""
        return self.counts.peaks + self.counts.out_of_memory > 0

    def _probabilities(self, design: FloatArray) -> FloatArray:
        """Return the probabilities of rows of `MemoryFeatures.design`, averaged over the draws.

        Many questions differ only in what memory does not depend on; equal rows are computed once.
        """
        if len(design) == 1:
            return self._chunk_probabilities(design)
        keys = design.view(f"V{design.shape[1] * design.itemsize}").ravel().tolist()
        index_of = {key: index for index, key in enumerate(dict.fromkeys(keys))}
        rows = design
        if len(index_of) < len(keys):
            rows = np.frombuffer(b"".join(index_of)).reshape(-1, design.shape[1])
        parts = [
            self._chunk_probabilities(rows[start : start + _CHUNK])
            for start in range(0, len(rows), _CHUNK)
        ]
        distinct = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if len(index_of) == len(keys):
            return distinct
        probability: FloatArray = distinct.take(list(map(index_of.__getitem__, keys)))
        return probability

    def _chunk_probabilities(self, design: FloatArray) -> FloatArray:
        stacked, per_scale = self._prepared
        terms, n_draws = design @ stacked, len(self.draws)
        # Margin of each row below the memory by draw, in scales, shape (n_rows, n_draws).
        add = np.logaddexp if len(design) == 1 else log_of_sum
        margins = add(terms[:, :n_draws], terms[:, n_draws:]) * per_scale
        probability: FloatArray = np.add.reduce(error_probability(margins), 1) / n_draws
        return probability

    def _gpu_columns(self, name: str) -> list[float]:
        """Return a GPU's log memory, whether it is known, and indicators of the latent ones."""
        latent = [float(name == gpu) for gpu in self.latent]
        return [self.capacities.get(name, 0.0), 0.0 if name in self.latent else 1.0, *latent]

    def _describe_basis(self) -> str:
        counts = self.counts
        parts = [
            f"{count} {text.format('' if count == 1 else 's')}"
            for count, text in (
                (counts.peaks, "measured peak{} of memory"),
                (counts.out_of_memory, "run{} out of memory"),
                (counts.succeeded, "run{} that fitted"),
            )
            if count
        ]
        return ", ".join(parts)


def _why_unknown(name: str, is_known: bool) -> str:  # noqa: FBT001 - called for each name
    if is_known:
        return "the question gives no batch_size"
    return f"the memory of {name} is unknown" if name else "the question names no GPU type"
