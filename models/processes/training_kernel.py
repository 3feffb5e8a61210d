"""The covariance of a fit's configurations, for many hyper-parameters and several processes."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, Self

import numpy as np

from models.numerics.triangles import is_lower
from models.processes.kernels import N_DEVIATIONS, SQRT5, KernelParameters, matern52
from models.tables import FloatArray, IntArray

_MIN_SAVING = 4
"""A table of value pairs is used where configuration pairs are this many times more."""


@dataclass(frozen=True, slots=True)
class KernelInputs:
    """Configurations as a process sees them, compared by their bytes.

    Attributes
    ----------
    key
        The bytes of the other attributes.
    x
        Scaled numeric features, shape (n, n_numeric).
    codes
        Category codes, shape (n, n_categories).
    counts
        Numbers of repetitions, shape (n,).
    """

    key: bytes
    x: FloatArray = field(compare=False)
    codes: IntArray = field(compare=False)
    counts: FloatArray = field(compare=False)

    @classmethod
    def of(cls, x: FloatArray, codes: IntArray, counts: FloatArray) -> Self:
        """Return configurations with their key."""
        return cls(b"".join(part.tobytes() for part in (x, codes, counts)), x, codes, counts)


class _Pairs(NamedTuple):
    """The difference of each pair of configurations in one column; lower triangle only.

    `values` are distances, or whether levels are equal; `places` gives the value of each pair, None
    where each pair has its own.
    """

    values: FloatArray
    places: IntArray | None

    def expand(self, items: FloatArray) -> FloatArray:
        """Return for each pair the item of its value."""
        return items if self.places is None else items.take(self.places, mode="clip")

    def total(self, weights: FloatArray) -> FloatArray:
        """Return the weights of the pairs, summed by value."""
        if self.places is None:
            return weights
        summed = np.bincount(self.places, weights, len(self.values))
        return np.asarray(summed, dtype=np.float64)


class _Shape(NamedTuple):
    """The kernel for given strengths, lengths and shares: product over features, its factors."""

    key: bytes
    product: FloatArray
    matrix: FloatArray
    correlations: list[FloatArray]


class TrainingKernel:
    """The covariance of `models.processes.kernels` among the configurations of a fit.

    It is symmetric: each pair is computed once; for a feature with few values, such as workers or
    batches, each pair of values. The result for one shape of the kernel is kept until another shape
    is asked for, since the processes of a fit differ by their deviations alone.

    Parameters
    ----------
    inputs
        The n configurations.

    Examples
    --------
    >>> x = np.array([[0.0], [1.0], [2.0]])
    >>> inputs = KernelInputs.of(x, np.zeros((3, 0), dtype=np.int64), np.ones(3))
    >>> logs = np.log([2.0, 0.1, 0.1, 1.0, 1.0])
    >>> TrainingKernel(inputs).covariance(logs).round(2)
    array([[4.  , 3.05, 2.28],
           [3.05, 4.  , 3.05],
           [2.28, 3.05, 4.  ]])
    """

    def __init__(self, inputs: KernelInputs) -> None:
        self.counts, self.n_numeric = inputs.counts, inputs.x.shape[1]
        self._lower = is_lower(len(inputs.x))
        rows, columns = _pairs_of(len(inputs.x))
        self._weights = np.where(rows == columns, 1.0, 2.0)
        self._distances = [_distances(column, rows, columns) for column in inputs.x.T]
        self._equal = [
            _Pairs(np.array([0.0, 1.0]), (codes[rows] == codes[columns]).astype(np.int64))
            for codes in inputs.codes.T
        ]
        self._shape: _Shape | None = None

    def covariance(self, logs: FloatArray) -> FloatArray:
        """Return the covariance of the configurations without noise, shape (n, n).

        Parameters
        ----------
        logs
            Log hyper-parameters as `KernelParameters.from_log` reads them.
        """
        parameters = KernelParameters.from_log(logs, self.n_numeric)
        return self._shape_for(logs, parameters).matrix * parameters.scale

    def gradient(self, logs: FloatArray, inner: FloatArray, *, shape_fixed: bool) -> FloatArray:
        """Return ``sum_ij inner_ij dK_ij / d log parameter``, noise included.

        Parameters
        ----------
        logs
            Log hyper-parameters, shape (k,).
        inner
            A symmetric matrix, shape (n, n).
        shape_fixed
            Leave the slopes of all but the three deviations at 0.
        """
        parameters = KernelParameters.from_log(logs, self.n_numeric)
        shape = self._shape_for(logs, parameters)
        weighted = inner[self._lower] * self._weights * shape.product * parameters.scale
        total, diagonal = float(weighted.sum()), np.diag(inner)
        slopes: FloatArray = np.zeros(len(logs))
        slopes[:N_DEVIATIONS] = (
            2 * total,
            2 * parameters.roughness**2 * float(diagonal.sum()),
            2 * parameters.noise**2 * float((diagonal / self.counts).sum()),
        )
        if not shape_fixed:
            slopes[N_DEVIATIONS:] = self._shape_slopes(parameters, shape, weighted, total)
        return slopes

    def _shape_slopes(
        self, parameters: KernelParameters, shape: _Shape, weighted: FloatArray, total: float
    ) -> list[float]:
        by_strength, by_length, by_share = [], [], []
        for pairs, correlation, a, length in zip(
            self._distances, shape.correlations, parameters.strengths, parameters.lengths,
            strict=True,
        ):  # fmt: skip
            r = pairs.values * (SQRT5 / length)
            ratio = pairs.total(weighted) * a / (1 + a * correlation) * correlation
            by_strength.append(float(ratio.sum()) - total * a / (1 + a))
            # r^2 (1 + r) / 3 exp(-r) is the slope of the correlation by the log length.
            by_length.append(float((ratio * (r * r * (1 + r) / (3 + r * (3 + r)))).sum()))
        for pairs, a in zip(self._equal, parameters.shares, strict=True):
            by_share.append(a / (1 + a) * (float(pairs.total(weighted)[1]) - total))
        return [*by_strength, *by_length, *by_share]

    def _shape_for(self, logs: FloatArray, parameters: KernelParameters) -> _Shape:
        key, shape = logs[N_DEVIATIONS:].tobytes(), self._shape
        if shape is None or shape.key != key:
            # Keep a local reference: another thread may replace the attribute meanwhile.
            shape = self._shape = self._new_shape(key, parameters)
        return shape

    def _new_shape(self, key: bytes, parameters: KernelParameters) -> _Shape:
        product, correlations = np.ones(len(self._weights)), []
        for pairs, a, length in zip(
            self._distances, parameters.strengths, parameters.lengths, strict=True
        ):
            correlation = matern52(pairs.values / length)
            product *= pairs.expand(1 + a * correlation)
            correlations.append(correlation)
        for pairs, a in zip(self._equal, parameters.shares, strict=True):
            product *= pairs.expand(1 + a * pairs.values)
        matrix: FloatArray = np.empty(self._lower.shape)
        matrix[self._lower] = matrix.T[self._lower] = product
        return _Shape(key, product, matrix, correlations)


@lru_cache(maxsize=2)
def training_kernel(inputs: KernelInputs) -> TrainingKernel:
    """Return the kernel of configurations, cached for the processes that ask for it in turn."""
    return TrainingKernel(inputs)


@lru_cache(maxsize=4)
def _pairs_of(n: int) -> tuple[IntArray, IntArray]:
    """Return the rows and the columns of the lower triangle, row by row."""
    return np.tril_indices(n)


def _distances(column: FloatArray, rows: IntArray, columns: IntArray) -> _Pairs:
    """Return the distances |x - x'| of a feature between each pair of configurations."""
    values, inverse = np.unique(column, return_inverse=True)
    if _MIN_SAVING * len(values) ** 2 > len(rows):
        return _Pairs(np.abs(column[rows] - column[columns]), None)
    differences = np.abs(np.subtract.outer(values, values)).ravel()
    return _Pairs(differences, inverse[rows] * len(values) + inverse[columns])
