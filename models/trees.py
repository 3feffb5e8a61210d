"""Regression trees as lookup tables: built once from their numbers, evaluated in numpy."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from models.errors import ArtifactError
from models.tables import BoolArray, FloatArray, IntArray

MAX_LEAVES = 16
"""Leaves of a tree are bits of a 16-bit word."""

MAX_TREES = 1_000

SPLIT_FIELDS = ("split_feature", "threshold", "decision_type", "left_child", "right_child")
"""What a split consists of, in LightGBM's words."""

_Number = TypeVar("_Number", np.float64, np.int64)
_Words = npt.NDArray[np.uint16]
_ALL, _MAX_SPLITS = 0xFFFF, MAX_LEAVES - 1
_NOWHERE = _MAX_SPLITS + MAX_LEAVES
_CATEGORICAL, _MISSING_TYPE, _ZERO_IS_MISSING = 1, 12, 4
_MAX_WORDS, _MAX_VALUE = 2**21, 100.0


@dataclass(frozen=True, slots=True)
class TreeArrays:
    """Trees as numbers, one tree after the other.

    Parameters
    ----------
    leaves
        Leaves of each tree, shape (n_trees,).
    splits
        Feature, threshold (or set of levels), decision type, left and right child of every split
        in LightGBM's numbering, shape (5, n_splits).
    values
        Values of the leaves, shape (n_leaves,).
    levels
        Sets of the levels that go left, 32 levels to a number, one set after the other.
    level_ends
        Where each set ends.
    """

    leaves: FloatArray
    splits: FloatArray
    values: FloatArray
    levels: FloatArray
    level_ends: FloatArray


@dataclass(frozen=True, slots=True)
class _Table:
    """The leaves that one feature leaves open: of every tree, by the rank of the value.

    `steps` are the thresholds as numbers: one value is ranked three times as fast among those.
    `first` is the place of its words among those of all tables.
    """

    feature: int
    thresholds: FloatArray | None
    words: _Words
    steps: Sequence[float] = ()
    first: int = 0

    def ranks(self, column: FloatArray) -> IntArray:
        """Return the row of `words` of each value."""
        if self.thresholds is None:
            return np.clip(column, -1, len(self.words) - 2).astype(np.int64) + 1
        return self.thresholds.searchsorted(column)

    def rank(self, value: float) -> int:
        """Return the row of `words` of one value."""
        if self.thresholds is None:
            return int(min(max(value, -1), len(self.words) - 2)) + 1
        return bisect_left(self.steps, value)


class TreeTables:
    """A sum of regression trees, evaluated without visiting a node.

    For every feature a table holds, between any two neighbouring thresholds, the leaves of all
    trees that a value there leaves open, one bit each. A question takes one row of each table; the
    lowest bit of their conjunction is its leaf. Cost per question: one search and one row per
    feature, whatever the depth.

    Parameters
    ----------
    arrays
        The trees.
    n_features
        Number of columns of X.

    Raises
    ------
    ArtifactError
        If they are no trees: unknown features, indices that form no tree, numbers that are
        not finite, more or larger trees than the library grows.

    References
    ----------
    Lucchese et al. (2015), QuickScorer: a fast algorithm to rank documents with additive ensembles
    of regression trees, SIGIR.
    """

    def __init__(self, arrays: TreeArrays, n_features: int) -> None:
        try:
            trees = _Trees(arrays)
            self._values = trees.ordered_values()
            self._tables, self._words = _stacked(trees.tabulate(n_features), len(self._values))
        except (ValueError, IndexError) as error:
            raise ArtifactError(f"The artefact's trees are damaged: {error}") from error
        self._places = np.arange(len(self._values)) * MAX_LEAVES
        self._leaves = self._values.ravel()

    def predict(self, X: FloatArray) -> FloatArray:
        """Return the sum of the trees, shape (n,), for finite X of shape (n, n_features)."""
        open_leaves = self._one(X[0]) if len(X) == 1 else self._many(X)
        leaves = self._leaves.take(_LOWEST_BIT.take(open_leaves) + self._places)
        total: FloatArray = np.add.reduce(leaves, axis=1)
        return total

    def _one(self, row: FloatArray) -> _Words:
        """Return the leaves that are open to one question, shape (1, n_trees)."""
        values = row.tolist()
        rows = np.array([t.first + t.rank(values[t.feature]) for t in self._tables], dtype=np.intp)
        open_leaves: _Words = np.bitwise_and.reduce(self._words.take(rows, axis=0), axis=0)
        return open_leaves[None]

    def _many(self, X: FloatArray) -> _Words:
        open_leaves: _Words = np.full((len(X), len(self._places)), _ALL, dtype=np.uint16)
        for table in self._tables:
            open_leaves &= table.words[table.ranks(X[:, table.feature])]
        return open_leaves


def _stacked(tables: Sequence[_Table], n_trees: int) -> tuple[list[_Table], _Words]:
    """Return the tables with their words in one array: one question takes all its rows at once."""
    none: _Words = np.empty((0, n_trees), dtype=np.uint16)
    words: _Words = np.concatenate([none, *(table.words for table in tables)])
    placed, first = [], 0
    for table in tables:
        last = first + len(table.words)
        placed.append(replace(table, words=words[first:last], first=first))
        first = last
    return placed, words


def _lowest_bits() -> npt.NDArray[np.uint8]:
    words = np.arange(_ALL + 1)
    lowest = np.zeros(len(words), dtype=np.uint8)
    for bit in reversed(range(MAX_LEAVES)):
        lowest[(words >> bit) & 1 == 1] = bit
    return lowest


_LOWEST_BIT = _lowest_bits()


class _Trees:
    """All trees side by side, padded to the same shape.

    A child is a split from 0 on or, from `_MAX_SPLITS` on, a leaf; padding points to `_NOWHERE`.
    """

    def __init__(self, arrays: TreeArrays) -> None:
        self.n_leaves = _whole(arrays.leaves, "num_leaves")
        if not 1 <= len(self.n_leaves) <= MAX_TREES:
            raise ValueError("there are none or too many")
        if self.n_leaves.min() < 1 or self.n_leaves.max() > MAX_LEAVES:
            raise ValueError("a tree has no leaves or too many")
        self.is_split = np.arange(_MAX_SPLITS) < self.n_leaves[:, None] - 1
        self.is_leaf = np.arange(MAX_LEAVES) < self.n_leaves[:, None]
        if arrays.splits.shape != (len(SPLIT_FIELDS), self.is_split.sum()):
            raise ValueError("splits have not the declared length")
        self.values = _padded(arrays.values, self.is_leaf, "leaf_value")
        if np.abs(self.values).max() > _MAX_VALUE:
            raise ValueError("a leaf adds more than any log duration")
        fields = dict(zip(SPLIT_FIELDS, arrays.splits, strict=True))
        self.threshold = _padded(fields["threshold"], self.is_split, "threshold")
        self.feature, self.decision, left, right = (
            _padded(_whole(fields[name], name), self.is_split, name)
            for name in ("split_feature", "decision_type", "left_child", "right_child")
        )
        self.left, self.right = (
            self._children("left_child", left),
            self._children("right_child", right),
        )
        self._levels = _whole(arrays.levels, "cat_threshold")
        self._level_ends = _whole(arrays.level_ends, "cat_boundaries")
        self._check_form()
        self.first, self.size = self._spans()

    def _children(self, name: str, child: IntArray) -> IntArray:
        n = self.n_leaves[:, None]
        is_split = (child > np.arange(_MAX_SPLITS)) & (child < n - 1)
        is_leaf = (child < 0) & (child >= -n)
        if (self.is_split & ~is_split & ~is_leaf).any():
            raise ValueError(f"{name} leads backwards or nowhere")
        found = np.where(is_leaf, _MAX_SPLITS - 1 - child, child)
        return np.where(self.is_split, found, _NOWHERE)

    def _check_form(self) -> None:
        """Check that every leaf and every split but the root is the child of exactly one split."""
        children = np.concatenate([self.left, self.right], axis=1)
        n_trees, width = len(children), _NOWHERE + 1
        places = np.arange(n_trees)[:, None] * width + children
        met = np.bincount(places.ravel(), minlength=n_trees * width).reshape(n_trees, width)
        expected = np.concatenate([self.is_split, self.is_leaf], axis=1)
        expected[:, 0] = False
        expected[:, _MAX_SPLITS] &= self.n_leaves > 1
        if (met[:, :_NOWHERE] != expected).any():
            raise ValueError("its indices form no tree")

    def _spans(self) -> tuple[IntArray, IntArray]:
        """Return the first leaf from the left below each node, and the number of leaves there."""
        rows = np.arange(len(self.values))
        size = np.zeros((len(rows), _NOWHERE + 1), dtype=np.int64)
        size[:, _MAX_SPLITS:_NOWHERE] = 1
        first = np.zeros_like(size)
        for split in reversed(range(_MAX_SPLITS)):
            size[:, split] = size[rows, self.left[:, split]] + size[rows, self.right[:, split]]
        for split in range(_MAX_SPLITS):
            left, right = self.left[:, split], self.right[:, split]
            first[rows, left] = first[:, split]
            first[rows, right] = first[:, split] + size[rows, left]
        return first, size

    def ordered_values(self) -> FloatArray:
        """Return the values of the leaves from left to right, shape (n_trees, MAX_LEAVES)."""
        ordered = np.zeros_like(self.values)
        rows = np.broadcast_to(np.arange(len(ordered))[:, None], ordered.shape)
        places = self.first[:, _MAX_SPLITS:_NOWHERE]
        ordered[rows[self.is_leaf], places[self.is_leaf]] = self.values[self.is_leaf]
        return ordered

    def tabulate(self, n_features: int) -> list[_Table]:
        """Return the tables of all features that are asked."""
        tree, split = np.nonzero(self.is_split)
        feature, category = self.feature[tree, split], self.decision[tree, split] & _CATEGORICAL
        missing = self.decision[tree, split] & _MISSING_TYPE
        if ((missing == _ZERO_IS_MISSING) & (category == 0)).any():
            raise ValueError("it takes zero for missing")
        if ((feature < 0) | (feature >= n_features)).any():
            raise ValueError("it asks for a feature that there is not")
        child = self.left[tree, split]
        start = self.first[tree, child]
        kept = (_ALL ^ (((1 << self.size[tree, child]) - 1) << start)).astype(np.uint16)
        tables: list[_Table] = []
        for asked in np.unique(feature).tolist():
            rows = feature == asked
            part = (tree[rows], self.threshold[tree[rows], split[rows]], kept[rows])
            if len(np.unique(category[rows])) > 1:
                raise ValueError("it takes a feature for a number and a category")
            make = self._of_levels if category[rows][0] else self._of_thresholds
            tables.append(make(asked, *part))
        return tables

    def _of_thresholds(
        self, feature: int, tree: IntArray, threshold: FloatArray, kept: _Words
    ) -> _Table:
        thresholds, rank = np.unique(threshold, return_inverse=True)
        words: _Words = np.full((len(thresholds) + 1, len(self.values)), _ALL, dtype=np.uint16)
        np.bitwise_and.at(words, (rank + 1, tree), kept)
        kept_words = np.bitwise_and.accumulate(words, axis=0)
        return _Table(feature, thresholds, kept_words, thresholds.tolist())

    def _of_levels(self, feature: int, tree: IntArray, which: FloatArray, kept: _Words) -> _Table:
        """Return the table of a category: row 0 for codes below 0, the last for unknown ones."""
        sets = [self._set_of_levels(place) for place in which.tolist()]
        width = max(len(words) for words in sets)
        if width * len(sets) > _MAX_WORDS:
            raise ValueError("its sets of levels are larger than those of any fit")
        packed = np.array([words + [0] * (width - len(words)) for words in sets], dtype="<u4")
        goes_left = np.unpackbits(packed.view(np.uint8), axis=1, bitorder="little")
        goes_left = np.pad(goes_left, ((0, 0), (1, 1)))
        open_leaves = np.where(goes_left, np.uint16(_ALL), kept[:, None])
        asked, starts = np.unique(tree, return_index=True)
        words: _Words = np.full((goes_left.shape[1], len(self.values)), _ALL, dtype=np.uint16)
        words[:, asked] = np.bitwise_and.reduceat(open_leaves, starts, axis=0).T
        return _Table(feature, None, words)

    def _set_of_levels(self, which: float) -> list[int]:
        """Return which levels go left, 32 to a word."""
        place = int(which)
        if place != which or not 0 <= place < len(self._level_ends):
            raise ValueError("it has no such set of levels")
        start = int(self._level_ends[place - 1]) if place else 0
        end = int(self._level_ends[place])
        if not 0 <= start < end <= len(self._levels):
            raise ValueError("its sets of levels do not fit together")
        return [int(word) for word in self._levels[start:end]]


def _whole(numbers: FloatArray, name: str) -> IntArray:
    whole = np.clip(numbers, -(2**31), 2**32 - 1).astype(np.int64)
    if numbers.ndim != 1 or (whole != numbers).any():
        raise ValueError(f"{name} is no whole number")
    return whole


def _padded(numbers: npt.NDArray[_Number], is_there: BoolArray, name: str) -> npt.NDArray[_Number]:
    if numbers.shape != (is_there.sum(),) or not np.isfinite(numbers).all():
        raise ValueError(f"{name} is not finite, or has not the declared length")
    padded = np.zeros(is_there.shape, dtype=numbers.dtype)
    padded[is_there] = numbers
    return padded
