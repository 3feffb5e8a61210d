"""The covariance of a law's residuals: a product of (1 + a k) over the features."""

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from models.once import once
from models.tables import FloatArray, IntArray

SQRT5 = math.sqrt(5.0)
N_DEVIATIONS = 3
"""Number of hyper-parameters before those of the kernel's shape: s, tau, sigma."""

_MIN_SAVING = 4
_MIN_SORTED = 48
"""With fewer questions, sorting their values takes longer than answering them."""

PART = 256
"""Questions answered at a time, so that intermediate results fit a processor's cache."""

_MAX_VALUES = 1024
"""A feature with more values gets no table, which would not fit the cache."""

_MAX_BROADCAST = 20_000
"""Up to this many correlations, one pass over all features beats a NumPy call per feature."""


@dataclass(frozen=True, slots=True)
class KernelParameters:
    """Natural values of the kernel's and the noise's hyper-parameters.

    ``deviation`` s, ``roughness`` tau (misfit of a configuration), ``noise`` sigma (of one run),
    ``strengths`` a_j and ``lengths`` l_j of the numeric features, ``shares`` a_c of the categories.
    """

    deviation: float
    roughness: float
    noise: float
    strengths: FloatArray
    lengths: FloatArray
    shares: FloatArray

    @classmethod
    def from_log(cls, logs: FloatArray, n_numeric: int) -> "KernelParameters":
        """Read the vector (log s, log tau, log sigma, log a_j.., log l_j.., log a_c..)."""
        values = np.exp(logs)
        return cls(
            float(values[0]),
            float(values[1]),
            float(values[2]),
            values[N_DEVIATIONS : N_DEVIATIONS + n_numeric],
            values[N_DEVIATIONS + n_numeric : N_DEVIATIONS + 2 * n_numeric],
            values[N_DEVIATIONS + 2 * n_numeric :],
        )

    @property
    def scale(self) -> float:
        """Return s^2 / prod (1 + a), the factor before the product."""
        product = np.multiply.reduce
        return self.deviation**2 / float(product(1 + self.strengths) * product(1 + self.shares))


def matern52(scaled: FloatArray) -> FloatArray:
    """Return the Matern 5/2 correlation of distances in length scales.

    ``(1 + r + r^2 / 3) exp(-r)`` with ``r = sqrt(5) d``.

    Examples
    --------
    >>> matern52(np.array([0.0, 1.0])).round(3).tolist()
    [1.0, 0.524]
    """
    r = SQRT5 * scaled
    return (1 + r * (1 + r / 3)) * np.exp(-r)


class ServingKernel:
    """The correlation between questions and training rows, prepared for speed.

    ``1 / N prod_j (1 + a_j M52(|x_j - x'_j| / l_j)) prod_c (1 + a_c 1[c = c'])``: outside the range
    of one feature it falls back on the effects of the others. Processes with the same rows and
    shape share one instance, which computes the correlation of a question once for all of them.

    Parameters
    ----------
    parameters
        Hyper-parameters; the deviation s is left to the caller.
    x, codes
        Scaled numeric features and category codes of the training rows.
    scales
        Divisors of the numeric features of a question.

    References
    ----------
    Durrande, Ginsbourger, Roustant (2012), Additive covariance kernels for high-dimensional
    Gaussian process modeling, Ann. Fac. Sci. Toulouse 21(3), 481-499.
    """

    def __init__(
        self, parameters: KernelParameters, x: FloatArray, codes: IntArray, scales: FloatArray
    ) -> None:
        self._strengths, self._lengths = parameters.strengths, parameters.lengths
        self._shares = parameters.shares
        self.scales, self.n_rows = scales, len(x)
        self._unit = parameters.scale / parameters.deviation**2
        x_over_length = x / parameters.lengths
        self._known = np.ascontiguousarray(SQRT5 * x_over_length.T)
        self._codes = np.ascontiguousarray(codes.T)
        self._rates = SQRT5 / (parameters.lengths * scales)
        self._by_level: list[dict[float, FloatArray]] = [{} for _ in self._codes]
        self.parts = (self._strengths, self._lengths, self._shares, x_over_length, codes)

    def is_same(self, other: "ServingKernel") -> bool:
        """Return whether another instance gives the same correlations."""
        return self.parts is other.parts or all(
            np.array_equal(a, b) for a, b in zip(self.parts, other.parts, strict=True)
        )

    def with_deviation(self, parameters: KernelParameters) -> Self:
        """Return the kernel with other deviations and the same shape; both share the rows.

        The correlations differ by rounding alone.
        """
        twin = copy.copy(self)
        twin._unit = parameters.scale / parameters.deviation**2  # noqa: SLF001 - it is of this class
        return twin

    def __call__(self, x: FloatArray, codes: IntArray) -> FloatArray:
        """Return the correlation of scaled questions with the rows, shape (n, n_training)."""
        return self._product(SQRT5 * (x / self._lengths), codes)

    def of_unscaled(self, x: FloatArray, codes: FloatArray) -> FloatArray:
        """Return the correlation of unscaled questions with the rows, shape (n, n_training)."""
        return self._product(x * self._rates, codes)

    def of_many_unscaled(self, x: FloatArray, codes: FloatArray) -> "ManyCorrelations":
        """Return the correlations that `of_unscaled` gives, to be computed part by part."""
        return self._prepare(x * self._rates, codes)

    def _product(self, questions: FloatArray, codes: IntArray | FloatArray) -> FloatArray:
        if len(questions) >= _MIN_SORTED:
            return np.concatenate(list(self._prepare(questions, codes).parts()))
        if len(questions) == 1:
            product = self._single_product(questions[0])
            for index, code in enumerate(codes[0].tolist()):
                product *= self._level_factor(index, code)
            return product[None]
        product = self._few_products(questions)
        if not len(codes):
            return product
        is_shared = np.logical_and.reduce(codes == codes[0]).tolist()
        for index, (is_one, code) in enumerate(zip(is_shared, codes[0].tolist(), strict=True)):
            if is_one:
                product *= self._level_factor(index, code)
            else:
                equal = np.equal.outer(codes[:, index], self._codes[index])
                product *= 1 + self._shares[index] * equal
        return product

    def _level_factor(self, index: int, code: float) -> FloatArray:
        """Return the factor of a level of one category for all training rows."""
        factor = self._by_level[index].get(code)
        if factor is None:
            factor = 1 + self._shares[index] * (self._codes[index] == code)
            self._by_level[index][code] = factor
        return factor

    @once
    def _columns(self) -> list[tuple[FloatArray, IntArray]]:
        """Distinct values of each feature of the training rows, and the index of each row's."""
        return [np.unique(column, return_inverse=True) for column in self._known]

    def _single_product(self, question: FloatArray) -> FloatArray:
        """Return the product of one question: all features at once."""
        factors = _factor(question[:, None], self._known, self._strengths[:, None])
        product: FloatArray = np.multiply.reduce(factors)
        product *= self._unit
        return product

    def _few_products(self, questions: FloatArray) -> FloatArray:
        product = np.full((len(questions), self.n_rows), self._unit)
        if 0 < questions.size * self.n_rows <= _MAX_BROADCAST:
            # All features at once, multiplied in order; features that questions share take one row.
            (varied,) = np.logical_or.reduce(questions != questions[0]).nonzero()
            known, strengths = self._known, self._strengths[:, None]
            factors = list(_factor(questions[0, :, None], known, strengths))
            varied_factors = _factor(questions[:, varied, None], known[varied], strengths[varied])
            for position, index in enumerate(varied.tolist()):
                factors[index] = varied_factors[:, position]
            for factor in factors:
                product *= factor
            return product
        for column, strength, known in zip(questions.T, self._strengths, self._known, strict=True):
            product *= _factor(column[:, None], known, strength)
        return product

    def _prepare(self, questions: FloatArray, codes: IntArray | FloatArray) -> "ManyCorrelations":
        """Return the factors of many questions, as tables where there are few distinct values."""
        factors: list[_TabulatedFactor | _DirectFactor] = []
        for column, strength, known, (levels, inverse) in zip(
            questions.T, self._strengths, self._known, self._columns, strict=True
        ):
            values, value_index = np.unique(column, return_inverse=True)
            # Many features have few distinct values: one correlation for each pair of values.
            is_tabulated = _MIN_SAVING * len(values) * len(levels) < len(column) * self.n_rows
            if is_tabulated and len(values) <= _MAX_VALUES:
                table = _factor(values[:, None], levels, strength).take(inverse, axis=1)
                factors.append(_TabulatedFactor(table, value_index))
            else:
                factors.append(_DirectFactor(column, known, strength))
        for index, column in enumerate(codes.T):
            values, value_index = np.unique(column, return_inverse=True)
            table = np.array([self._level_factor(index, code) for code in values.tolist()])
            factors.append(_TabulatedFactor(table, value_index))
        return ManyCorrelations(len(questions), self.n_rows, self._unit, factors)


@dataclass(frozen=True, slots=True)
class _TabulatedFactor:
    """The factor of a feature or category with few values: rows by value, each question's row."""

    table: FloatArray
    indices: IntArray

    def of(self, rows: slice) -> FloatArray:
        """Return the factor of some questions, one row if all have the same value."""
        return self.table if len(self.table) == 1 else self.table.take(self.indices[rows], axis=0)


@dataclass(frozen=True, slots=True)
class _DirectFactor:
    """The factor of a feature with many values."""

    values: FloatArray
    known: FloatArray
    strength: float

    def of(self, rows: slice) -> FloatArray:
        """Return the factor of some questions."""
        return _factor(self.values[rows, None], self.known, self.strength)


@dataclass(frozen=True, slots=True)
class ManyCorrelations:
    """The correlations of many questions with the training rows: factors times a unit."""

    n: int
    n_rows: int
    unit: float
    factors: Sequence[_TabulatedFactor | _DirectFactor]

    def parts(self) -> Iterator[FloatArray]:
        """Yield the correlations of `PART` questions at a time."""
        for start in range(0, self.n, PART):
            rows = slice(start, min(start + PART, self.n))
            product = np.full((rows.stop - start, self.n_rows), self.unit)
            for factor in self.factors:
                product *= factor.of(rows)
            yield product


def _factor(questions: FloatArray, known: FloatArray, strength: FloatArray | float) -> FloatArray:
    """Return ``1 + a M52`` of the distance of two arrays in length scales, times sqrt(5)."""
    r = np.abs(questions - known)
    factor = r * (1 / 3)
    factor += 1
    factor *= r
    factor += 1
    factor *= np.exp(np.negative(r, out=r), out=r)
    factor *= strength
    factor += 1
    return factor
