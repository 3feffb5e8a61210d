"""Which columns runs gave together: a question may give others, whose effects cannot be told."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from models.features.encoded import Encoded
from models.features.encoder import Encoder
from models.features.hardware import UNKNOWN_SD
from models.tables import BoolArray, FloatArray, IntArray

_TOLERANCE: Final = 1e-8


@dataclass(frozen=True, slots=True)
class Presence:
    """Relations between the columns that runs give and those that they leave out.

    Giving a column (a parameter of one framework, say) has an effect of its own besides that of its
    value. If half of the runs give one column and the other half another one, no run shows what it
    means to give both, or neither: these effects are not estimable (Searle 1971, Linear models,
    sec. 5.4).

    Attributes
    ----------
    columns
        The columns that some runs give and others leave out.
    flags
        Places of the numeric ones among the columns of X: indicators of missing values.
    levels
        The others: index of the category, and the code of its missing level.
    directions
        Orthonormal combinations of 1 and the indicators that are 0 in all runs, shape
        (1 + n_columns, n_directions).
    """

    columns: tuple[str, ...]
    flags: tuple[int, ...]
    levels: tuple[tuple[int, int], ...]
    directions: FloatArray

    @classmethod
    def learn(cls, encoder: Encoder, X: FloatArray, codes: IntArray) -> "Presence | None":
        """Return the relations of encoded configurations and their level codes, None if none hold.

        Examples
        --------
        >>> from models.tables import FeatureTable
        >>> halves = np.array([1.0, 2.0, np.nan, np.nan]), np.array([np.nan, np.nan, 4.0, 8.0])
        >>> names = ("param.layers", "param.depth")
        >>> table = FeatureTable(dict(zip(names, halves)), {}, 4)
        >>> encoder = Encoder.learn(table)
        >>> encoded = encoder.encode(table)
        >>> presence = Presence.learn(encoder, encoded.X, encoded.codes)
        >>> both = encoder.encode(FeatureTable({name: np.ones(1) for name in names}, {}, 1))
        >>> presence.is_unknown(encoded).tolist(), presence.is_unknown(both).tolist()
        ([False, False, False, False], [True])
        """
        n_used = sum(feature.used for feature in encoder.numeric)
        flagged = [feature.column for feature in encoder.numeric if feature.flagged]
        levels = {
            category.column: (index, category.levels.index(None))
            for index, category in enumerate(encoder.categories)
            if category.used and None in category.levels
        }
        columns = (*flagged, *levels)
        if len(columns) < 2:  # noqa: PLR2004 - one alone has no relation to others
            return None
        flags = tuple(range(n_used, n_used + len(flagged)))
        presence = cls(columns, flags, tuple(levels.values()), np.empty((len(columns) + 1, 0)))
        patterns = np.unique(presence._patterns(X, codes), axis=0)
        _, sizes, axes = np.linalg.svd(patterns)
        directions = axes[np.count_nonzero(sizes > _TOLERANCE) :].T
        return cls(columns, flags, presence.levels, directions) if directions.size else None

    def is_unknown(self, encoded: Encoded) -> BoolArray:
        """Return which rows give columns in a way that no run tells of, shape (n,)."""
        off = np.abs(self._offsets(encoded)).max(axis=1)
        return np.asarray(off > _TOLERANCE, dtype=np.bool_)

    def unknowns(self, encoded: Encoded) -> FloatArray:
        """Return the unknown effects of the rows, shape (n, n_directions).

        Together they have the standard deviation of an unknown level.
        """
        offsets = self._offsets(encoded)
        size = np.sqrt((offsets**2).sum(axis=1, keepdims=True))
        return UNKNOWN_SD * np.where(size > _TOLERANCE, offsets / np.maximum(size, _TOLERANCE), 0.0)

    def names(self, encoded: Encoded) -> list[tuple[str, ...]]:
        """Return for each row the columns whose effects cannot be told apart."""
        shares = np.abs(self._offsets(encoded) @ self.directions[1:].T) > _TOLERANCE
        return [
            tuple(name for name, is_part in zip(self.columns, row, strict=True) if is_part)
            for row in shares.tolist()
        ]

    def _offsets(self, encoded: Encoded) -> FloatArray:
        return self._patterns(encoded.X, encoded.codes) @ self.directions

    def _patterns(self, X: FloatArray, codes: IntArray) -> FloatArray:
        """Return 1 and which columns the rows leave out, shape (n, 1 + n_columns)."""
        patterns = np.ones((len(X), 1 + len(self.columns)))
        patterns[:, 1 : 1 + len(self.flags)] = X[:, self.flags]
        for column, (category, code) in enumerate(self.levels, start=1 + len(self.flags)):
            patterns[:, column] = codes[:, category] == code
        return patterns
