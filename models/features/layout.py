"""How a regressor reads the columns of an encoded matrix."""

from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from typing_extensions import override

from models.tables import FloatArray, IntArray

Role = Literal[
    "workers",
    "dataset_size",
    "epochs",
    "local_batch",
    "workers_per_node",
    "processors",
    "parameter",
    "multi_node",
    "missing",
]


class LayoutPrior(Protocol):
    """A prior on a law's parameters that corrects or replaces that of its templates."""

    @override
    def __hash__(self) -> int: ...

    @property
    def has_deviations(self) -> bool:
        """Whether category levels may act on each term differently."""
        ...

    def numeric(
        self, template: str, terms: tuple[str, ...], means: FloatArray, sds: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return means and standard deviations of log shares and exponents, given the template's.

        Both have shape (n_terms * (1 + n_numeric),): the log shares, then exponents term by term.
        """
        ...

    def log_weight(self, template: str, terms: tuple[str, ...]) -> float:
        """Return the log prior probability of a template, up to a constant."""
        ...

    def levels(self, spreads: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean, shape (sum of levels,), and covariance of the effects of all levels.

        `spreads` are factors on the part of the spread that only the runs inform, one per level.
        """
        ...


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns of an encoded matrix X: numeric features, one gate, category codes.

    Parameters
    ----------
    roles
        What each numeric feature means to a law; the first ``len(roles)`` columns of X.
    levels
        Number of levels of each category; its codes 0 .. levels - 1 are the last columns of X.
    offsets
        Prior log effect of each level of each category, centred.
    level_spreads
        Factor on the prior spread of each category's effects, where only the runs inform them; 1 if
        empty.
    prior
        Prior on the parameters of laws from other workloads; the templates alone if None.
    relevance
        Factor on the prior spread of each numeric feature's exponents; below 1, its part in kernels
        shrinks by the same factor; 1 if empty.

    The column between them is the gate: 1 where a single worker has nothing to synchronise.

    Examples
    --------
    >>> layout = Layout(("workers",), (2,), ((0.0, 0.0),))
    >>> layout.one_hot(np.array([[0.3, 0.0, 1.0]])).tolist()
    [[0.0, 1.0]]
    >>> layout.design(np.array([[0.3, 0.0, 1.0]])).tolist()
    [[0.3, 0.0, 1.0]]
    """

    roles: tuple[Role, ...]
    levels: tuple[int, ...]
    offsets: tuple[tuple[float, ...], ...]
    level_spreads: tuple[float, ...] = ()
    prior: LayoutPrior | None = field(default=None, compare=False, repr=False)
    relevance: tuple[float, ...] = field(default=(), compare=False, repr=False)

    @property
    def n_numeric(self) -> int:
        """Number of numeric features."""
        return len(self.roles)

    @property
    def relevances(self) -> tuple[float, ...]:
        """The factor of each numeric feature: below 1 if irrelevant, above if strong."""
        return self.relevance or (1.0,) * len(self.roles)

    def spreads_of_levels(self) -> FloatArray:
        """Return the factor of `level_spreads` of each level, shape (sum of levels,)."""
        factors = self.level_spreads or (1.0,) * len(self.levels)
        return np.repeat(np.array(factors, dtype=np.float64), self.levels)

    @property
    def n_columns(self) -> int:
        """Number of columns of X."""
        return len(self.roles) + 1 + len(self.levels)

    def numeric(self, X: FloatArray) -> FloatArray:
        """Return the numeric features, shape (n, n_numeric)."""
        return X[:, : len(self.roles)]

    def gate(self, X: FloatArray) -> FloatArray:
        """Return 1 where one worker runs alone, shape (n,)."""
        return X[:, len(self.roles)]

    def codes(self, X: FloatArray) -> IntArray:
        """Return the category codes, shape (n, n_categories)."""
        return X[:, len(self.roles) + 1 :].astype(np.int64)

    def one_hot(self, X: FloatArray) -> FloatArray:
        """Return one indicator column per level of every category, shape (n, sum of levels)."""
        columns = np.zeros((len(X), sum(self.levels)))
        rows, start = np.arange(len(X)), 0
        for codes, count in zip(self.codes(X).T, self.levels, strict=True):
            columns[rows, start + codes] = 1.0
            start += count
        return columns

    def design(self, X: FloatArray) -> FloatArray:
        """Return the matrix for a plain linear or kernel method: numeric features and one-hot."""
        return np.hstack([self.numeric(X), self.one_hot(X)])
