"""The runs of the configurations that are most similar to a question."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from models.answers.memory import Memory
from models.features.encoded import Encoded
from models.features.encoder import UNSEEN, UNSPECIFIED
from models.once import once
from models.tables import FloatArray, IntArray

MAX_NEIGHBOURS = 500
"""Nearest runs are searched among at most this many configurations."""

N_NEAREST = 3
_CHUNK = 256
_MAX_FEW_ROWS = 64
"""Up to this many rows, grouping by tuples is faster than by arrays."""

_MAX_BROADCAST = 20_000
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
        questions, codes = encoded.X[:, : len(self._spans)] / self._spans, encoded.codes
        if len(questions) == 1:
            return [self._run_ids(self._nearest(questions[0], codes[0]))], np.zeros(
                1, dtype=np.int64
            )
        starts = range(0, len(questions), _CHUNK)
        chunks = [slice(start, start + _CHUNK) for start in starts]
        mismatches = [_mismatches(known) for known in self._levels]
        parts = [
            _smallest_columns(self._distances(questions[chunk], codes[chunk], mismatches))
            for chunk in chunks
        ]
        best = np.concatenate(parts) if parts else np.empty((0, N_NEAREST), dtype=np.int64)
        if len(best) <= _MAX_FEW_ROWS:
            return self._few_groups(best)
        # Groups are identified by integers, which are faster to compare than tuples.
        keys = best @ self._known.shape[1] ** np.arange(best.shape[1])
        _, rows, places = np.unique(keys, return_index=True, return_inverse=True)
        groups = best[rows]
        if best.shape[1] == N_NEAREST:  # each configuration contributes one run
            return list(map(tuple, self._firsts.take(groups).tolist())), places
        return list(map(self._run_ids, (groups * self._step).tolist())), places

    def _few_groups(self, best: IntArray) -> tuple[list[tuple[str, ...]], IntArray]:
        """Return the distinct groups and the group of each row, faster for few rows."""
        keys = list(map(tuple, best.tolist()))
        index_of = {group: index for index, group in enumerate(dict.fromkeys(keys))}
        groups = [self._run_ids([row * self._step for row in group]) for group in index_of]
        return groups, np.array(list(map(index_of.__getitem__, keys)), dtype=np.int64)

    @once
    def _firsts(self) -> npt.NDArray[np.object_]:
        """The first run of each searched configuration."""
        rows = range(0, self._known.shape[1] * self._step, self._step)
        return np.array([self._runs(row)[0] for row in rows], dtype=np.object_)

    def _run_ids(self, rows: Sequence[int]) -> tuple[str, ...]:
        """Return one run of each configuration, then further repetitions if these are too few."""
        runs = list(map(self._runs, rows))
        firsts = [names[0] for names in runs]
        if len(firsts) == N_NEAREST:
            return tuple(firsts)
        others = [name for names in runs for name in names[1:]]
        return tuple((firsts + others)[:N_NEAREST])

    def _nearest(self, question: FloatArray, codes: IntArray) -> tuple[int, ...]:
        """Return the rows of one question's nearest configurations; ties go to the first."""
        distance = np.add.reduce(np.abs(question[:, None] - self._known))
        for code, known in zip(codes.tolist(), self._levels, strict=True):
            distance += known != code
        rows = []
        for _ in range(min(N_NEAREST, len(distance))):
            best = int(distance.argmin())
            distance[best] = np.inf
            rows.append(best * self._step)
        return tuple(rows)

    def _distances(
        self, questions: FloatArray, codes: IntArray, mismatches: Sequence[FloatArray]
    ) -> FloatArray:
        """Return the distance of each row from each configuration, shape (n, n_known)."""
        # The sum adds feature by feature, as for a single question, so that ties stay ties.
        if questions.size * self._known.shape[1] <= _MAX_BROADCAST:
            differences = questions[:, :, None] - self._known
            distances: FloatArray = np.add.reduce(np.abs(differences, out=differences), axis=1)
            for levels, known in zip(codes.T, self._levels, strict=True):
                distances += levels[:, None] != known
            return distances
        distance = np.zeros((len(questions), self._known.shape[1]))
        differences = np.empty_like(distance)
        for column, values in zip(questions.T, self._known, strict=True):
            np.subtract(column[:, None], values, out=differences)
            distance += np.abs(differences, out=differences)
        for levels, table in zip(codes.T, mismatches, strict=True):
            distance += table.take(levels - UNSPECIFIED, axis=0, out=differences, mode="clip")
        return distance


def _mismatches(known: IntArray) -> FloatArray:
    """Return 1 where a configuration has another level, shape (n_codes, n_known).

    The rows are those of `UNSPECIFIED`, `UNSEEN`, each level from 0 on, and any level beyond these.
    Taking them is faster than comparing the codes of all questions.

    Examples
    --------
    >>> _mismatches(np.array([0, -2])).tolist()
    [[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 1.0]]
    """
    codes = np.arange(UNSPECIFIED, known.max(initial=UNSEEN) + 2)
    return np.asarray(codes[:, None] != known, dtype=np.float64)


def _smallest_columns(distance: FloatArray) -> IntArray:
    """Return the columns of the up to three smallest values of each row; ties go to the first.

    Examples
    --------
    >>> _smallest_columns(np.array([[2.0, 1.0, 1.0, 0.5]])).tolist()
    [[3, 1, 2]]
    """
    n, n_known = distance.shape
    nearest: IntArray = np.empty((n, min(N_NEAREST, n_known)), dtype=np.int64)
    rows = np.arange(n)
    for rank in range(nearest.shape[1]):
        best = distance.argmin(axis=1)
        distance[rows, best] = np.inf
        nearest[:, rank] = best
    return nearest
