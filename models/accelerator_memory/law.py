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

_MOST_KNOWN = 1024
"""How many answers are cached; the cache is cleared before one more is added."""

_PART = 256
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
        self._basis = self._words()
        self._known: dict[Seen, Feasibility] = {}

    @once
    def _prepared(self) -> tuple[FloatArray, FloatArray]:
        """All draws in one matrix, and the factors from excess over the limit to scaled margin."""
        # An overflow, in a forged artefact, ends as a probability that is NaN.
        with np.errstate(over="ignore"):
            parameters = Parameters.of(self.draws, self.features, len(self.latent))
        return parameters.stacked(), -1 / parameters.outcome_scale()[:, 0]

    def feasibility(self, asked: FeatureTable) -> Feasibility:
        """Return the probability that each row fits into memory."""
        seen = self.features.seen_of(asked)
        if seen is None:
            return self._feasibility(asked)
        # Many questions, within a table and between calls, differ only in irrelevant columns.
        known = self._known.get(seen)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[seen] = self._feasibility(seen.table())
        n = asked.n_rows
        return Feasibility(known.probability.repeat(n), known.basis * n, known.is_tested)

    def _feasibility(self, asked: FeatureTable) -> Feasibility:
        names = capacity_names(asked)
        order = {name: place for place, name in enumerate(dict.fromkeys(names))}
        codes = list(map(order.__getitem__, names))
        further = np.array(list(map(self._place, order))).take(codes, axis=0)
        design = self.features.design(asked, further)
        is_known = [name in self.capacities or name in self.latent for name in order]
        # The sum is NaN if any term is.
        if all(is_known) and not isnan(np.add.reduce(design[:, 1])):
            basis = (self._basis,) * len(names)
            return Feasibility(self._chances(design), basis, self.is_tested)
        usable = np.array(is_known).take(codes) & ~np.isnan(design[:, 1])
        chances = np.full(len(names), np.nan)
        if usable.any():
            chances[usable] = self._chances(design[usable])
        told = [_why_not(*each) for each in zip(order, is_known, strict=True)]
        # The last text is that of usable rows.
        rows = np.where(usable, len(told), codes).tolist()
        basis = tuple(map([*told, self._basis].__getitem__, rows))
        return Feasibility(chances, basis, self.is_tested)

    @property
    def is_tested(self) -> bool:
        """Whether a peak was measured or a run ran out of memory."""
        return self.counts.peaks + self.counts.out_of_memory > 0

    def _chances(self, design: FloatArray) -> FloatArray:
        """Return the probabilities of rows of `MemoryFeatures.design`, averaged over the draws.

        Many questions differ only in what memory does not depend on; equal rows are computed once.
        """
        if len(design) == 1:
            return self._part(design)
        keys = design.view(f"V{design.shape[1] * design.itemsize}").ravel().tolist()
        places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
        rows = design
        if len(places) < len(keys):
            rows = np.frombuffer(b"".join(places)).reshape(-1, design.shape[1])
        parts = [self._part(rows[start : start + _PART]) for start in range(0, len(rows), _PART)]
        distinct = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if len(places) == len(keys):
            return distinct
        chances: FloatArray = distinct.take(list(map(places.__getitem__, keys)))
        return chances

    def _part(self, design: FloatArray) -> FloatArray:
        stacked, per_scale = self._prepared
        terms, n_draws = design @ stacked, len(self.draws)
        # Margin of each row below the memory by draw, in scales, shape (n_rows, n_draws).
        add = np.logaddexp if len(design) == 1 else log_of_sum
        margins = add(terms[:, :n_draws], terms[:, n_draws:]) * per_scale
        chances: FloatArray = np.add.reduce(error_probability(margins), 1) / n_draws
        return chances

    def _place(self, name: str) -> list[float]:
        """Return a GPU's log memory, whether it is known, and indicators of the latent ones."""
        latent = [float(name == each) for each in self.latent]
        return [self.capacities.get(name, 0.0), 0.0 if name in self.latent else 1.0, *latent]

    def _words(self) -> str:
        counts = self.counts
        parts = [
            f"{number} {what.format('' if number == 1 else 's')}"
            for number, what in (
                (counts.peaks, "measured peak{} of memory"),
                (counts.out_of_memory, "run{} out of memory"),
                (counts.succeeded, "run{} that fitted"),
            )
            if number
        ]
        return ", ".join(parts)


def _why_not(name: str, is_known: bool) -> str:  # noqa: FBT001 - told for each name
    if is_known:
        return "the question gives no batch_size"
    return f"the memory of {name} is unknown" if name else "the question names no GPU type"
