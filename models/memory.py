"""What an artefact remembers of the configurations it was fitted on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from models.configurations import UNBOUNDED
from models.encoding import Encoded
from models.run_names import RunNames
from models.tables import BoolArray, FloatArray

_ROUNDING = 1e-9
_DIGITS = 1e9


def row_signatures(encoded: Encoded) -> list[bytes]:
    """Return bytes that are equal for rows that the regressors cannot tell apart."""
    n, width = encoded.X.shape
    if n == 1:
        # What the rounding of arrays does, without the checks of its arguments.
        numbers = np.rint(encoded.X[0] * _DIGITS) / _DIGITS
        return [(np.concatenate([numbers, encoded.codes[0]]) + 0.0).tobytes()]
    rounded = np.empty((n, width + encoded.codes.shape[1]))
    np.round(encoded.X, 9, out=rounded[:, :width])
    rounded[:, width:] = encoded.codes
    rounded += 0.0  # no negative zeros
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

    def within_repetitions(
        self, encoded: Encoded, signatures: Sequence[bytes], log_median: FloatArray
    ) -> FloatArray:
        """Return the medians, those of repeated configurations moved into their repetitions.

        `signatures` are what `row_signatures` gives for the encoded rows.
        """
        found = log_median
        for row, signature in enumerate(signatures):
            span = self.repeated.get(signature)
            if (
                span is None
                or (encoded.excess[row] > _ROUNDING).any()
                or encoded.missing[row].any()
            ):
                continue
            if found is log_median:
                found = log_median.copy()
            found[row] = min(max(found[row], span[0]), span[1])
        return found


def _are_bounded(ranges: FloatArray) -> BoolArray:
    bounded: BoolArray = ranges[:, 1] < UNBOUNDED
    return bounded
