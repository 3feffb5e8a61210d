"""The functions that fitted estimators compute, as plain data, evaluated by numpy alone."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from models.once import once
from models.state.checks import demand
from models.tables import FloatArray, IntArray

MAX_DEPTH = 64
"""Deeper trees are refused, since a question would take too long."""

MAX_TREES = 2_000

_PART = 256
_ACTIVATIONS = ("identity", "relu", "tanh", "logistic")
_KERNELS = ("linear", "poly", "rbf", "sigmoid", "laplacian")


class Form(ABC):
    """A function of the rows of a matrix, made of numbers and other forms."""

    @abstractmethod
    def __call__(self, X: FloatArray) -> FloatArray:
        """Return the outputs, shape (n, n_outputs), for X of shape (n, n_inputs)."""

    @abstractmethod
    def n_outputs(self, n_inputs: int) -> int:
        """Return the number of output columns for `n_inputs` input columns.

        Raises
        ------
        ValueError
            If the numbers do not fit each other or `n_inputs`.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Affine(Form):
    """``X M + b``: linear regressors, principal components, weighted means."""

    matrix: FloatArray
    offset: FloatArray

    @override
    def __call__(self, X: FloatArray) -> FloatArray:
        """Return the outputs, shape (n, n_outputs)."""
        return np.asarray(X @ self.matrix + self.offset, dtype=np.float64)

    @override
    def n_outputs(self, n_inputs: int) -> int:
        """Return the number of columns of M."""
        demand(self.offset.ndim == 1, "an offset is no vector")
        demand(self.matrix.shape == (n_inputs, len(self.offset)), "a matrix has another shape")
        return len(self.offset)


@dataclass(frozen=True, slots=True, eq=False)
class Scaled(Form):
    """``(X - center) / scale``, column by column."""

    center: FloatArray
    scale: FloatArray

    @override
    def __call__(self, X: FloatArray) -> FloatArray:
        """Return the outputs, shape (n, n_inputs)."""
        return np.asarray((X - self.center) / self.scale, dtype=np.float64)

    @override
    def n_outputs(self, n_inputs: int) -> int:
        """Return the number of inputs."""
        demand(self.center.shape == self.scale.shape == (n_inputs,), "a scale has another shape")
        demand((np.abs(self.scale) > 1e-100).all(), "a scale is zero")  # noqa: PLR2004 - or nearly
        return n_inputs


@dataclass(frozen=True, slots=True, eq=False)
class Powers(Form):
    """Products of powers of the columns, one for each row of `exponents`."""

    exponents: FloatArray

    @override
    def __call__(self, X: FloatArray) -> FloatArray:
        """Return the products, shape (n, n_products)."""
        columns = [(X**row).prod(axis=1) for row in self.exponents]
        return np.column_stack(columns)

    @override
    def n_outputs(self, n_inputs: int) -> int:
        """Return the number of products."""
        shape = self.exponents.shape
        demand(len(shape) == 2 and shape[0] > 0 and shape[1] == n_inputs, "powers do not fit")  # noqa: PLR2004 - a matrix
        demand(np.isin(self.exponents, np.arange(10)).all(), "a power is no small whole number")
        return len(self.exponents)


@dataclass(frozen=True, slots=True, eq=False)
class Columns(Form):
    """Some of the columns."""

    index: FloatArray

    @override
    def __call__(self, X: FloatArray) -> FloatArray:
        """Return the chosen columns."""
        return np.asarray(X[:, self.index.astype(np.int64)], dtype=np.float64)

    @override
    def n_outputs(self, n_inputs: int) -> int:
        """Return the number of chosen columns."""
        demand(self.index.ndim == 1 and len(self.index), "no column is chosen")
        demand(np.isin(self.index, np.arange(n_inputs)).all(), "a column is not there")
        return len(self.index)


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours(Form):
    """The mean of the k nearest rows; rows tied with the k-th share the remaining weight.

    `power` is that of the Minkowski distance, 1 or 2; with `by_distance`, rows are weighted by
    inverse distance.
    """

    rows: FloatArray
    targets: FloatArray
    k: int
    power: int
    by_distance: bool

    @override
    def __call__(self, X: FloatArray) -> FloatArray:
        """Return the means, shape (n, 1)."""
        return _by_parts(self._part, X)

    def _part(self, X: FloatArray) -> FloatArray:
        distance = np.zeros((len(X), len(self.rows)))
        for column, reference in zip(X.T, self.rows.T, strict=True):
            distance += np.abs(np.subtract.outer(column, reference)) ** self.power
        last = np.partition(distance, self.k - 1, axis=1)[:, self.k - 1, None]
        is_nearer, is_tied = distance < last, distance == last
        remaining = self.k - is_nearer.sum(axis=1, keepdims=True)
        weights = is_nearer + is_tied * (remaining / is_tied.sum(axis=1, keepdims=True))
        if self.by_distance:
            is_exact = distance == 0
            inverse = 1 / np.where(is_exact, 1.0, distance ** (1 / self.power))
            weights *= np.where(is_exact.any(axis=1, keepdims=True), is_exact, inverse)
        return np.asarray((weights @ self.targets / weights.sum(axis=1))[:, None])

    @override
    def n_outputs(self, n_inputs: int) -> int:
        """Return 1."""
        demand(self.rows.shape == (len(self.targets), n_inputs), "neighbours do not fit")
        demand(self.targets.ndim == 1 and 1 <= self.k <= len(self.targets), "too few neighbours")
        demand(self.power in (1, 2), "distances have another power")
        return 1


@dataclass(frozen=True, slots=True, eq=False)
class Kernel(Form):
    """``sum_i w_i k(x, x_i) + b`` with the kernels of scikit-learn."""

    rows: FloatArray
    weights: FloatArray
    offset: float
    name: str
    gamma: float
    shift: float
    degree: int

    @override
    def __call__(self, X: FloatArray) -> FloatArray:
        """Return the sums, shape (n, 1)."""
        return _by_parts(lambda part: self._kernel(part) @ self.weights[:, None] + self.offset, X)

    def _kernel(self, X: FloatArray) -> FloatArray:
        if self.name in ("rbf", "laplacian"):
            power, distance = 2 if self.name == "rbf" else 1, np.zeros((len(X), len(self.rows)))
            for column, reference in zip(X.T, self.rows.T, strict=True):
                distance += np.abs(np.subtract.outer(column, reference)) ** power
            return np.asarray(np.exp(-self.gamma * distance), dtype=np.float64)
        product = X @ self.rows.T
        if self.name == "linear":
            return np.asarray(product, dtype=np.float64)
        inner = self.gamma * product + self.shift
        values = inner**self.degree if self.name == "poly" else np.tanh(inner)
        return np.asarray(values, dtype=np.float64)

    @override
    def n_outputs(self, n_inputs: int) -> int:
        """Return 1."""
        demand(self.rows.shape == (len(self.weights), n_inputs), "a kernel's rows do not fit")
        demand(self.weights.ndim == 1 and self.name in _KERNELS, "a kernel is not known")
        demand(np.isfinite([self.gamma, self.shift, self.offset]).all(), "a kernel is not finite")
        demand(self.gamma >= 0 and 1 <= self.degree <= 10, "a kernel is out of range")  # noqa: PLR2004 - as in use
        return 1


@dataclass(frozen=True, slots=True, eq=False)
class Activation(Form):
    """A function of each number, between the layers of a network."""

    name: str

    @override
    def __call__(self, X: FloatArray) -> FloatArray:
        """Return the activated numbers."""
        if self.name == "tanh":
            return np.asarray(np.tanh(X), dtype=np.float64)
        if self.name == "logistic":
            return np.asarray(0.5 * (1 + np.tanh(X / 2)), dtype=np.float64)
        return np.maximum(X, 0.0) if self.name == "relu" else X

    @override
    def n_outputs(self, n_inputs: int) -> int:
        """Return the number of inputs."""
        demand(self.name in _ACTIVATIONS, "an activation is not known")
        return n_inputs


@dataclass(frozen=True, eq=False)
class Trees(Form):
    """``(offset + sum of the trees' leaves) / divisor``, all trees side by side.

    Parameters
    ----------
    nodes
        One row per node, shape (n_nodes, 5): feature, threshold, left child, right child, value. A
        child's row comes after its parent's; a leaf's children are -1.
    roots
        First node of each tree.
    offset, divisor
        Start of the sum, and what the sum is divided by at the end.
    is_single
        Whether inputs are rounded to single precision first, as scikit-learn's trees do.
    """

    nodes: FloatArray
    roots: FloatArray
    offset: float
    divisor: float
    is_single: bool

    @override
    def __call__(self, X: FloatArray) -> FloatArray:
        """Return the sums, shape (n, 1)."""
        return _by_parts(self._part, X)

    def _part(self, X: FloatArray) -> FloatArray:
        feature, threshold, children, leaf = self._tables
        with np.errstate(over="ignore"):
            inputs = X.astype(np.float32) if self.is_single else X
        node = np.repeat(self.roots.astype(np.int64)[:, None], len(X), axis=1)
        rows = np.arange(len(X)) * X.shape[1]
        flat = np.ravel(inputs)
        for _ in range(self._depth):
            is_right = flat.take(rows + feature.take(node)) > threshold.take(node)
            node = children.take(2 * node + is_right)
        leaves = leaf.take(node)
        start = np.full((1, len(X)), self.offset)
        # Along the first axis numpy adds sequentially, as the estimators do.
        return np.asarray(np.add.reduce(np.vstack([start, leaves]))[:, None] / self.divisor)

    @once
    def _tables(self) -> tuple[IntArray, FloatArray, IntArray, FloatArray]:
        """Return features, thresholds, children (a leaf is its own) and values of the nodes."""
        is_leaf, indices = self.nodes[:, 2] < 0, np.arange(len(self.nodes))
        feature = np.where(is_leaf, 0, self.nodes[:, 0]).astype(np.int64)
        sides = [np.where(is_leaf, indices, self.nodes[:, side]) for side in (2, 3)]
        children = np.stack(sides, axis=1).astype(np.int64).ravel()
        return feature, self.nodes[:, 1].copy(), children, self.nodes[:, 4].copy()

    @once
    def _depth(self) -> int:
        """Return the depth of the deepest tree, found level by level.

        Raises
        ------
        ValueError
            If it exceeds `MAX_DEPTH`.
        """
        level = np.unique(self.roots).astype(np.int64)
        for depth in range(MAX_DEPTH + 1):
            children = self.nodes[level, 2:4]
            level = np.unique(children[children[:, 0] >= 0]).astype(np.int64)
            if not len(level):
                return depth
        raise ValueError("a tree is too deep")

    @override
    def n_outputs(self, n_inputs: int) -> int:
        """Return 1."""
        demand(self.nodes.ndim == 2 and self.nodes.shape[1] == 5, "nodes have other columns")  # noqa: PLR2004 - see above
        n = len(self.nodes)
        demand(self.roots.ndim == 1 and 0 < len(self.roots) <= MAX_TREES, "too many trees or none")
        demand(np.isin(self.roots, np.arange(n)).all(), "a root is not there")
        is_split = self.nodes[:, 2] >= 0
        split, parents = self.nodes[is_split], np.flatnonzero(is_split)[:, None]
        children = split[:, 2:4]
        demand((children == np.floor(children)).all(), "a child is no whole number")
        demand((children > parents).all() and (children < n).all(), "a child leads back or nowhere")
        demand(np.isin(split[:, 0], np.arange(n_inputs)).all(), "a feature is not there")
        demand(np.isfinite([self.offset, self.divisor]).all(), "a sum is not finite")
        demand(self.divisor > 0, "a sum is divided by nothing")
        demand(self._depth >= 0, "a tree has no depth")
        return 1


@dataclass(frozen=True, slots=True, eq=False)
class Chain(Form):
    """One form after the other."""

    parts: Sequence[Form]

    @override
    def __call__(self, X: FloatArray) -> FloatArray:
        """Return the outputs of the last form."""
        for part in self.parts:
            X = part(X)
        return X

    @override
    def n_outputs(self, n_inputs: int) -> int:
        """Return the number of outputs of the last form."""
        for part in self.parts:
            n_inputs = part.n_outputs(n_inputs)
        return n_inputs


@dataclass(frozen=True, slots=True, eq=False)
class Beside(Form):
    """Forms of the same rows, their outputs side by side."""

    parts: Sequence[Form]

    @override
    def __call__(self, X: FloatArray) -> FloatArray:
        """Return the outputs of all forms."""
        return np.hstack([part(X) for part in self.parts])

    @override
    def n_outputs(self, n_inputs: int) -> int:
        """Return the number of all outputs."""
        demand(self.parts, "there is nothing side by side")
        return sum(part.n_outputs(n_inputs) for part in self.parts)


def _by_parts(function: Callable[[FloatArray], FloatArray], X: FloatArray) -> FloatArray:
    if len(X) <= _PART:
        return function(X)
    starts = range(0, len(X), _PART)
    return np.concatenate([function(X[start : start + _PART]) for start in starts])
