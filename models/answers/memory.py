"""What an artefact remembers of the configurations it was fitted on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from models.distribution import AT_90
from models.features.encoded import Encoded
from models.once import once
from models.runs.configurations import UNBOUNDED
from models.runs.run_names import RunNames
from models.tables import BoolArray, FloatArray, IntArray

_ROUNDING = 1e-9
_DECIMAL_SCALE = 1e9


def row_signatures(encoded: Encoded) -> list[bytes]:
    """Return for each row bytes that are equal if the regressors cannot tell rows apart."""
    if len(encoded.X) == 1:
        numbers = np.rint(encoded.X[0] * _DECIMAL_SCALE) / _DECIMAL_SCALE
        return [(np.concatenate([numbers, encoded.codes[0]]) + 0.0).tobytes()]
    return _signatures(encoded.X, encoded.codes)


def _signatures(X: FloatArray, codes: FloatArray | IntArray) -> list[bytes]:
    n, width = X.shape
    rounded = np.empty((n, width + codes.shape[1]))
    # The same as np.round, without the checks of its arguments.
    np.divide(np.rint(X * _DECIMAL_SCALE), _DECIMAL_SCALE, out=rounded[:, :width])
    rounded[:, width:] = codes
    rounded += 0.0  # no negative zeros
    keys: list[bytes] = rounded.view(f"V{rounded.shape[1] * rounded.itemsize}").ravel().tolist()
    return keys


@dataclass(frozen=True, kw_only=True)
class Memory:
    """The configurations of a fit.

    Parameters
    ----------
    X
        Encoded rows, shape (n, n_columns).
    codes
        Level codes of all categories, shape (n, n_categories).
    names
        Hashes of the configurations and names of up to three runs of each.
    held_out
        Held-out log forecast of each configuration in interpolation, shape (n,); `UNBOUNDED` where
        there is none.
    known_columns
        Every column for which some run has a value.
    unfinished
        Which configurations no run completed, shape (n,).
    ranges
        Least and largest log duration of the runs of each configuration, shape (n, 2); without
        bounds where there is one run.
    half_widths
        Half width of the 90 % interval of a new run of each configuration that its repetitions
        imply (`models.runs.repetitions`), shape (n,); `UNBOUNDED` where they imply none.
    """

    X: FloatArray
    codes: FloatArray
    names: RunNames
    held_out: FloatArray
    known_columns: frozenset[str]
    unfinished: BoolArray
    ranges: FloatArray
    half_widths: FloatArray

    @once
    def signatures(self) -> frozenset[bytes]:
        """The `row_signatures` of the configurations that some run completed."""
        signatures = _signatures(self.X, self.codes)
        if self.unfinished.any():
            return frozenset(compress(signatures, (~self.unfinished).tolist()))
        return frozenset(signatures)

    @once
    def repeated(self) -> Mapping[bytes, tuple[float, float, float]]:
        """The ranges and half widths of repeated configurations, by their `row_signatures`."""
        rows = self.is_repeated
        merged: dict[bytes, tuple[float, float, float]] = {}
        bounds = np.column_stack([self.ranges[rows], self.half_widths[rows]]).tolist()
        signatures = _signatures(self.X[rows], self.codes[rows])
        for signature, (low, high, half_width) in zip(signatures, bounds, strict=True):
            # Configurations that the regressors cannot tell apart share one range.
            other = merged.get(signature, (low, high, half_width))
            merged[signature] = min(low, other[0]), max(high, other[1]), max(half_width, other[2])
        return merged

    @property
    def is_repeated(self) -> BoolArray:
        """Which configurations have several runs, shape (n,)."""
        return _are_bounded(self.ranges)

    def limited_by_repetitions(
        self,
        encoded: Encoded,
        signatures: Sequence[bytes],
        log_median: FloatArray,
        scale: FloatArray,
        curves: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Return log medians and scales, limited by the repetitions of repeated configurations.

        Medians are moved into the range of the repetitions, and 90 % intervals are no wider than
        these imply. `signatures` are the `row_signatures` of the encoded rows, `curves` the half
        widths of their intervals in scales.
        """
        median, limited_scale = log_median, scale
        for row, signature in enumerate(signatures):
            bounds = self.repeated.get(signature)
            if (
                bounds is None
                or (encoded.excess[row] > _ROUNDING).any()
                or encoded.missing[row].any()
                or (encoded.readings is not None and encoded.readings.names[row])
            ):
                continue
            if median is log_median:
                median, limited_scale = log_median.copy(), scale.copy()
            median[row] = min(max(median[row], bounds[0]), bounds[1])
            limited_scale[row] = min(limited_scale[row], bounds[2] / curves[row, AT_90])
        return median, limited_scale


def _are_bounded(ranges: FloatArray) -> BoolArray:
    bounded: BoolArray = ranges[:, 1] < UNBOUNDED
    return bounded
