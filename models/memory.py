"""What an artefact remembers of the configurations it was fitted on."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import compress

import numpy as np

from models.configurations import UNBOUNDED
from models.encoding import Encoded
from models.run_names import RunNames
from models.tables import BoolArray, FloatArray, IntArray

MAX_NEIGHBOURS = 500
"""Nearest runs are searched among at most this many configurations."""

N_NEAREST = 3
_PART = 256
_ROUNDING = 1e-9


def row_signatures(encoded: Encoded) -> list[bytes]:
    """Return bytes that are equal for rows that the regressors cannot tell apart."""
    rounded = np.ascontiguousarray(np.hstack([encoded.X, encoded.codes]).round(9) + 0.0)
    found: list[bytes] = rounded.view(f"V{rounded.shape[1] * rounded.itemsize}").ravel().tolist()
    return found


@dataclass(frozen=True, slots=True)
class Memory:
    """The configurations of a fit.

    Parameters
    ----------
    X
        Encoded rows, shape (n, n_columns), and beside it
    codes
        the level codes of all categories, shape (n, n_categories).
    names
        Hashes of the configurations and up to three runs of each.
    held_out
        Held-out log forecast of each configuration in interpolation, shape (n,); `UNBOUNDED` where
        there is none.
    known_columns
        Every column that some run has a value of.
    signatures
        What `row_signatures` gives for the rows that some run completed.
    unfinished
        Which configurations none did, shape (n,).
    ranges
        Least and largest log duration of the runs of each configuration, shape (n, 2); without
        bounds where there is one run.
    repeated
        The ranges of those with several runs, by what `row_signatures` gives.
    """

    X: FloatArray
    codes: FloatArray
    names: RunNames
    held_out: FloatArray
    known_columns: frozenset[str]
    signatures: frozenset[bytes]
    unfinished: BoolArray
    ranges: FloatArray
    repeated: Mapping[bytes, tuple[float, float]]

    @classmethod
    def of(
        cls,
        encoded: Encoded,
        names: RunNames,
        held_out: FloatArray,
        known_columns: frozenset[str],
        unfinished: BoolArray,
        ranges: FloatArray,
    ) -> "Memory":
        """Remember encoded configurations."""
        codes = encoded.codes.astype(np.float64)
        signatures = row_signatures(encoded)
        completed = frozenset(
            compress(signatures, (~unfinished).tolist()) if unfinished.any() else signatures
        )
        repeated: dict[bytes, tuple[float, float]] = {}
        for row in np.flatnonzero(_are_bounded(ranges)).tolist():
            low, high = ranges[row].tolist()
            # Configurations that the regressors cannot tell apart have one range.
            other = repeated.get(signatures[row], (low, high))
            repeated[signatures[row]] = min(low, other[0]), max(high, other[1])
        return cls(
            encoded.X,
            codes,
            names,
            held_out,
            known_columns,
            completed,
            unfinished,
            ranges,
            repeated,
        )

    @property
    def is_repeated(self) -> BoolArray:
        """Which configurations have several runs, shape (n,)."""
        return _are_bounded(self.ranges)

    def within_repetitions(self, encoded: Encoded, log_median: FloatArray) -> FloatArray:
        """Return the medians, those of repeated configurations moved into their repetitions."""
        if not self.repeated:
            return log_median
        found = log_median.copy()
        is_outside = np.any((encoded.excess > _ROUNDING) | encoded.missing, axis=1).tolist()
        for row, signature in enumerate(row_signatures(encoded)):
            span = self.repeated.get(signature)
            if span is not None and not is_outside[row]:
                found[row] = min(max(found[row], span[0]), span[1])
        return found

    def nearest(self, encoded: Encoded, spans: FloatArray) -> list[tuple[str, ...]]:
        """Return up to three runs most like each row.

        Distances are city-block: numeric features in measured widths, one for another level.
        """
        step = max(1, -(-len(self.X) // MAX_NEIGHBOURS))
        n_numeric = len(spans)
        known, levels = self.X[::step, :n_numeric] / spans, self.codes[::step]
        nearest: list[tuple[str, ...]] = []
        for start in range(0, len(encoded.X), _PART):
            part = slice(start, start + _PART)
            asked, codes = encoded.X[part, :n_numeric] / spans, encoded.codes[part]
            distance = np.zeros((len(asked), len(known)))
            for column, values in zip(asked.T, known.T, strict=True):
                distance += np.abs(np.subtract.outer(column, values))
            for column, values in zip(codes.T, levels.T, strict=True):
                distance += np.not_equal.outer(column, values)
            nearest += [self._name(best) for best in (_smallest(distance) * step).tolist()]
        return nearest

    def _name(self, rows: list[int]) -> tuple[str, ...]:
        """Return one run of each configuration first, then further repetitions."""
        runs = [self.names.of_row(row) for row in rows]
        firsts = [names[0] for names in runs]
        others = [name for names in runs for name in names[1:]]
        return tuple((firsts + others)[:N_NEAREST])


def _are_bounded(ranges: FloatArray) -> BoolArray:
    bounded: BoolArray = ranges[:, 1] < UNBOUNDED
    return bounded


def _smallest(distance: FloatArray) -> IntArray:
    """Return the columns of the up to three smallest values of each row, the first of equals.

    Examples
    --------
    >>> _smallest(np.array([[2.0, 1.0, 1.0, 0.5]])).tolist()
    [[3, 1, 2]]
    """
    rows, found = np.arange(len(distance)), []
    for _ in range(min(N_NEAREST, distance.shape[1])):
        best = distance.argmin(axis=1)
        distance[rows, best] = np.inf
        found.append(best)
    return np.stack(found, axis=1)
