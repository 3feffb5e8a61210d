"""Regression trees as lookup tables: built once from their numbers, evaluated in numpy."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from models.errors import ArtifactError
from models.tables import BoolArray, FloatArray, IntArray

MAX_LEAVES = 16
"""Each leaf of a tree is one bit of a 16-bit word."""

MAX_TREES = 1_000

SPLIT_FIELDS = ("feature", "threshold", "is_category", "place")
"""The fields of a split; `place` is the number of its tree's leaves to the left of it."""

_Words = npt.NDArray[np.uint16]
_ALL, _MAX_SPLITS = 0xFFFF, MAX_LEAVES - 1
_MAX_WORDS, _MAX_VALUE = 2**21, 100.0
_FEW = 32


@dataclass(frozen=True, slots=True)
class TreeArrays:
    """Trees as numbers, tree after tree, the leaves of each from left to right.

    A split separates the leaves left of its place from those right of it, within the part that
    earlier splits leave. Hence n - 1 different places, in any order, make a tree of n leaves.

    Parameters
    ----------
    leaves
        Number of leaves of each tree, shape (n_trees,).
    splits
        Feature, threshold (or set of levels), whether it is a set, and place of each split, those
        of a tree from its root on, shape (4, n_splits).
    values
        Values of the leaves, shape (n_leaves,).
    levels
        Sets of the levels that go left, 32 levels per number, set after set.
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
    """The leaves of all trees that one feature leaves open, by the rank of its value.

    `steps` are the thresholds as Python numbers, among which a single value is ranked three times
    as fast. `first` is the position of this table's words among those of all tables.
    """

    feature: int
    thresholds: FloatArray | None
    words: _Words
    steps: Sequence[float] = ()
    first: int = 0

    def ranks(self, column: FloatArray) -> IntArray:
        """Return the row of `words` of each value."""
        if self.thresholds is None:
            # The same as `np.clip`, without the checks of its arguments.
            clipped = np.minimum(np.maximum(column, -1.0), len(self.words) - 2.0)
            return clipped.astype(np.int64) + 1
        return self.thresholds.searchsorted(column)

    def rank(self, value: float) -> int:
        """Return the row of `words` of one value."""
        if self.thresholds is None:
            return int(min(max(value, -1), len(self.words) - 2)) + 1
        return bisect_left(self.steps, value)


class TreeTables:
    """A sum of regression trees, evaluated without visiting a node.

    For each feature, a table holds for each interval between thresholds the leaves of all trees
    that a value there leaves open, one bit per leaf. A question takes one row of each table; the
    lowest bit of their conjunction is its leaf. A question costs one search and one row per
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
        If they are not valid trees: unknown features, places that form no tree, numbers that are
        not finite, more or larger trees than the library grows.

    References
    ----------
    Lucchese et al. (2015), QuickScorer: a fast algorithm to rank documents with additive ensembles
    of regression trees, SIGIR.
    """

    def __init__(self, arrays: TreeArrays, n_features: int) -> None:
        try:
            trees = _Trees(arrays)
            self._tables, self._words = _stacked(trees.tabulate(n_features), len(trees.values))
        except (ValueError, IndexError) as error:
            raise ArtifactError(f"The artefact's trees are damaged: {error}") from error
        self._places = np.arange(len(trees.values)) * MAX_LEAVES
        self._leaves = trees.values.ravel()
        self._firsts = np.array([[table.first] for table in self._tables], dtype=np.intp)

    def predict(self, X: FloatArray) -> FloatArray:
        """Return the sum of the trees, shape (n,), for finite X of shape (n, n_features)."""
        if len(X) == 1:
            open_leaves = self._one(X[0])
        else:
            is_few = len(X) <= _FEW and bool(self._tables)
            open_leaves = self._few(X) if is_few else self._many(X)
        leaves = self._leaves.take(_LOWEST_BIT.take(open_leaves) + self._places)
        total: FloatArray = np.add.reduce(leaves, axis=1)
        return total

    def _one(self, row: FloatArray) -> _Words:
        """Return the open leaves for one question, shape (1, n_trees)."""
        values = row.tolist()
        rows = np.array([t.first + t.rank(values[t.feature]) for t in self._tables], dtype=np.intp)
        open_leaves: _Words = np.bitwise_and.reduce(self._words.take(rows, axis=0), axis=0)
        return open_leaves[None]

    def _few(self, X: FloatArray) -> _Words:
        """Return the same as `_many` with fewer calls of numpy but more memory."""
        rows = np.array([t.ranks(X[:, t.feature]) for t in self._tables]) + self._firsts
        open_leaves: _Words = np.bitwise_and.reduce(self._words.take(rows, axis=0), axis=0)
        return open_leaves

    def _many(self, X: FloatArray) -> _Words:
        open_leaves: _Words = np.full((len(X), len(self._places)), _ALL, dtype=np.uint16)
        for table in self._tables:
            open_leaves &= table.words[table.ranks(X[:, table.feature])]
        return open_leaves


def _stacked(tables: Sequence[_Table], n_trees: int) -> tuple[list[_Table], _Words]:
    """Return the tables with their words in one array, so that one call takes all rows."""
    empty: _Words = np.empty((0, n_trees), dtype=np.uint16)
    words: _Words = np.concatenate([empty, *(table.words for table in tables)])
    stacked, first = [], 0
    for table in tables:
        last = first + len(table.words)
        stacked.append(replace(table, words=words[first:last], first=first))
        first = last
    return stacked, words


def _lowest_bits() -> npt.NDArray[np.uint8]:
    words = np.arange(_ALL + 1)
    lowest = np.zeros(len(words), dtype=np.uint8)
    for bit in reversed(range(MAX_LEAVES)):
        lowest[(words >> bit) & 1 == 1] = bit
    return lowest


_LOWEST_BIT = _lowest_bits()


_RANKS = np.arange(MAX_LEAVES)
_IS_LATER = np.tri(_MAX_SPLITS, k=-1, dtype=np.bool_).T[:, :, None]


class _Trees:
    """All trees side by side, padded to the same shape."""

    def __init__(self, arrays: TreeArrays) -> None:
        self.n_leaves = _integers(arrays.leaves, "a number of leaves")
        if not 1 <= len(self.n_leaves) <= MAX_TREES:
            raise ValueError("there are none or too many")
        if self.n_leaves.min() < 1 or self.n_leaves.max() > MAX_LEAVES:
            raise ValueError("a tree has no leaves or too many")
        is_split = _RANKS[:_MAX_SPLITS] < self.n_leaves[:, None] - 1
        self.values = _padded(arrays.values, self.n_leaves[:, None] > _RANKS, "a leaf's value")
        if np.abs(self.values).max() > _MAX_VALUE:
            raise ValueError("a leaf adds more than any log duration")
        self.tree = is_split.nonzero()[0]
        if arrays.splits.shape != (len(SPLIT_FIELDS), len(self.tree)):
            raise ValueError("splits have not the declared length")
        feature, self.threshold, is_category, place = arrays.splits
        self.feature, place = _integers(feature, "a feature"), _integers(place, "a place")
        self.is_category = is_category == 1
        if not (self.is_category | (is_category == 0)).all():
            raise ValueError("a split is neither by a number nor by a category")
        if not np.isfinite(self.threshold).all():
            raise ValueError("a threshold is not finite")
        self._levels = _integers(arrays.levels, "a set of levels")
        if (self._levels < 0).any():
            raise ValueError("a set of levels is none")
        self._level_ends = _integers(arrays.level_ends, "the end of a set of levels")
        self.kept = self._kept(is_split, place)

    def _kept(self, is_split: BoolArray, place: IntArray) -> _Words:
        """Return the leaves that each split leaves open for values that go right, (n_splits,)."""
        if ((place < 1) | (place >= self.n_leaves[self.tree])).any():
            raise ValueError("its splits form no tree")
        # One row per split position, since numpy is fastest along the trees.
        places = np.zeros(is_split.shape[::-1], dtype=np.int8)
        places.T[is_split] = place
        covered = np.bitwise_or.reduce(np.left_shift(1, places, dtype=np.int32)) | 1
        if (covered != (1 << self.n_leaves) - 1).any():
            raise ValueError("its splits form no tree")
        # The part that a split separates begins at the nearest earlier split to its left.
        is_left = (places[:, None] < places) & _IS_LATER
        first = np.maximum.reduce(places[:, None] * is_left).T[is_split].astype(np.int64)
        kept: _Words = (_ALL ^ ((1 << place) - (1 << first))).astype(np.uint16)
        return kept

    def tabulate(self, n_features: int) -> list[_Table]:
        """Return the tables of all features that have splits."""
        if ((self.feature < 0) | (self.feature >= n_features)).any():
            raise ValueError("it asks for a feature that there is not")
        tables: list[_Table] = []
        for feature in np.flatnonzero(np.bincount(self.feature)).tolist():
            rows = np.flatnonzero(self.feature == feature)
            splits = self.tree[rows], self.threshold[rows], self.kept[rows]
            n_categories = np.count_nonzero(self.is_category[rows])
            if n_categories not in (0, len(rows)):
                raise ValueError("it takes a feature for a number and a category")
            tabulate_feature = self._level_table if n_categories else self._threshold_table
            tables.append(tabulate_feature(feature, *splits))
        return tables

    def _threshold_table(
        self, feature: int, tree: IntArray, threshold: FloatArray, kept: _Words
    ) -> _Table:
        ordered = np.sort(threshold)
        thresholds = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])]
        rank = thresholds.searchsorted(threshold)
        words: _Words = np.full((len(thresholds) + 1, len(self.values)), _ALL, dtype=np.uint16)
        np.bitwise_and.at(words, (rank + 1, tree), kept)
        kept_words = np.bitwise_and.accumulate(words, axis=0)
        return _Table(feature, thresholds, kept_words, thresholds.tolist())

    def _level_table(
        self, feature: int, tree: IntArray, set_ids: FloatArray, kept: _Words
    ) -> _Table:
        """Return the table of a category: row 0 for codes below 0, the last for unknown ones."""
        sets = self._level_sets(set_ids)
        goes_left = np.zeros((len(sets), 32 * sets.shape[1] + 2), dtype=np.bool_)
        goes_left[:, 1:-1] = np.unpackbits(sets.view(np.uint8), axis=1, bitorder="little")
        open_leaves = np.where(goes_left, np.uint16(_ALL), kept[:, None])
        trees, starts = np.unique(tree, return_index=True)
        words: _Words = np.full((goes_left.shape[1], len(self.values)), _ALL, dtype=np.uint16)
        words[:, trees] = np.bitwise_and.reduceat(open_leaves, starts, axis=0).T
        return _Table(feature, None, words)

    def _level_sets(self, set_ids: FloatArray) -> npt.NDArray[np.uint32]:
        """Return which levels go left, 32 per word, one row per split."""
        index, ends = _integers(set_ids, "a set of levels"), self._level_ends
        if not ((index >= 0) & (index < len(ends))).all():
            raise ValueError("it has no such set of levels")
        stops, starts = ends[index], np.where(index > 0, ends[index - 1], 0)
        if not ((starts >= 0) & (starts < stops) & (stops <= len(self._levels))).all():
            raise ValueError("its sets of levels do not fit together")
        width = int((stops - starts).max())
        if width * len(index) > _MAX_WORDS:
            raise ValueError("its sets of levels are larger than those of any fit")
        words = starts[:, None] + np.arange(width)
        is_present = words < stops[:, None]
        packed = np.zeros(words.shape, dtype="<u4")
        packed[is_present] = self._levels[words[is_present]]
        return packed


def _integers(numbers: FloatArray, name: str) -> IntArray:
    whole = np.minimum(np.maximum(numbers, -(2.0**31)), 2.0**32 - 1).astype(np.int64)
    if numbers.ndim != 1 or (whole != numbers).any():
        raise ValueError(f"{name} is no whole number")
    return whole


def _padded(numbers: FloatArray, is_present: BoolArray, name: str) -> FloatArray:
    if numbers.shape != (np.count_nonzero(is_present),) or not np.isfinite(numbers).all():
        raise ValueError(f"{name} is not finite, or they have not the declared length")
    padded = np.zeros(is_present.shape)
    padded[is_present] = numbers
    return padded
