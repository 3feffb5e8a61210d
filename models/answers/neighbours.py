"""The runs of the configurations that are most similar to a question."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from models.answers.memory import Memory
from models.features.encoder import Encoded
from models.once import once
from models.tables import FloatArray, IntArray

MAX_NEIGHBOURS = 500
"""Nearest runs are searched among at most this many configurations."""

N_NEAREST = 3
_PART = 256
_FEW = 64
"""Up to this many rows, grouping by tuples is faster than by arrays."""

_AT_ONCE = 20_000
"""Up to this many differences, computing all at once is faster than one call per column."""


class Neighbours:
    """The configurations of a fit, prepared for nearest-neighbour search.

    Distances are city-block: numeric features in units of measured widths, 1 for each other level.

    Parameters
    ----------
    memory
        The configurations.
    spans
        Measured widths of the numeric features that are used, shape (n_numeric,).
    """

    def __init__(self, memory: Memory, spans: FloatArray) -> None:
        self._spans = spans
        self._step = max(1, -(-len(memory.X) // MAX_NEIGHBOURS))
        self._known = np.ascontiguousarray((memory.X[:: self._step, : len(spans)] / spans).T)
        self._levels = np.ascontiguousarray(memory.codes[:: self._step].T)
        self._runs = lru_cache(maxsize=2 * MAX_NEIGHBOURS)(memory.names.of_row)

    def nearest(self, encoded: Encoded) -> tuple[list[tuple[str, ...]], IntArray]:
        """Return distinct groups of the up to three nearest runs, and the group of each row."""
        asked, codes = encoded.X[:, : len(self._spans)] / self._spans, encoded.codes
        if len(asked) == 1:
            return [self._named(self._smallest(asked[0], codes[0]))], np.zeros(1, dtype=np.int64)
        starts = range(0, len(asked), _PART)
        parts = [slice(start, start + _PART) for start in starts]
        found = [_smallest(self._distances(asked[part], codes[part])) for part in parts]
        best = np.concatenate(found) if found else np.empty((0, N_NEAREST), dtype=np.int64)
        if len(best) <= _FEW:
            return self._few_groups(best)
        # Groups are identified by integers, which are faster to compare than tuples.
        keys = best @ self._known.shape[1] ** np.arange(best.shape[1])
        _, rows, places = np.unique(keys, return_index=True, return_inverse=True)
        groups = best[rows]
        if best.shape[1] == N_NEAREST:  # each configuration contributes one run
            return list(map(tuple, self._firsts.take(groups).tolist())), places
        return list(map(self._named, (groups * self._step).tolist())), places

    def _few_groups(self, best: IntArray) -> tuple[list[tuple[str, ...]], IntArray]:
        """Return the distinct groups and the group of each row, faster for few rows."""
        told = list(map(tuple, best.tolist()))
        place_of = {group: place for place, group in enumerate(dict.fromkeys(told))}
        groups = [self._named([row * self._step for row in group]) for group in place_of]
        return groups, np.array(list(map(place_of.__getitem__, told)), dtype=np.int64)

    @once
    def _firsts(self) -> npt.NDArray[np.object_]:
        """The first run of each searched configuration."""
        rows = range(0, self._known.shape[1] * self._step, self._step)
        return np.array([self._runs(row)[0] for row in rows], dtype=np.object_)

    def _named(self, rows: Sequence[int]) -> tuple[str, ...]:
        """Return one run of each configuration, then further repetitions if these are too few."""
        runs = list(map(self._runs, rows))
        firsts = [found[0] for found in runs]
        if len(firsts) == N_NEAREST:
            return tuple(firsts)
        others = [name for found in runs for name in found[1:]]
        return tuple((firsts + others)[:N_NEAREST])

    def _smallest(self, asked: FloatArray, codes: IntArray) -> tuple[int, ...]:
        """Return the rows of one question's nearest configurations; ties go to the first."""
        distance = np.add.reduce(np.abs(asked[:, None] - self._known))
        for code, known in zip(codes.tolist(), self._levels, strict=True):
            distance += known != code
        rows = []
        for _ in range(min(N_NEAREST, len(distance))):
            best = int(distance.argmin())
            distance[best] = np.inf
            rows.append(best * self._step)
        return tuple(rows)

    def _distances(self, asked: FloatArray, codes: IntArray) -> FloatArray:
        """Return the distance of each row from each configuration, shape (n, n_known)."""
        # The sum adds feature by feature, as for a single question, so that ties stay ties.
        if asked.size * self._known.shape[1] <= _AT_ONCE:
            apart = asked[:, :, None] - self._known
            whole: FloatArray = np.add.reduce(np.abs(apart, out=apart), axis=1)
            for levels, known in zip(codes.T, self._levels, strict=True):
                whole += levels[:, None] != known
            return whole
        distance = np.zeros((len(asked), self._known.shape[1]))
        apart = np.empty_like(distance)
        for column, values in zip(asked.T, self._known, strict=True):
            np.subtract(column[:, None], values, out=apart)
            distance += np.abs(apart, out=apart)
        for levels, known in zip(codes.T, self._levels, strict=True):
            distance += levels[:, None] != known
        return distance


def _smallest(distance: FloatArray) -> IntArray:
    """Return the columns of the up to three smallest values of each row; ties go to the first.

    Examples
    --------
    >>> _smallest(np.array([[2.0, 1.0, 1.0, 0.5]])).tolist()
    [[3, 1, 2]]
    """
    n, n_known = distance.shape
    nearest: IntArray = np.empty((n, min(N_NEAREST, n_known)), dtype=np.int64)
    rows = np.arange(n)
    for place in range(nearest.shape[1]):
        best = distance.argmin(axis=1)
        distance[rows, best] = np.inf
        nearest[:, place] = best
    return nearest
