"""Columns that varied together in all runs: a question that parts them has two readings."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Final, NamedTuple

import numpy as np

from models.features.damping import damped
from models.features.encoded import Encoded, Readings
from models.features.encoder import Encoder
from models.features.hardware import UNKNOWN_SD
from models.features.numeric import UNIDENTIFIED_SD, apply_transform, quotient_of, snapped
from models.questions.presence import Presence
from models.questions.regimes import FEW_CONFIGURATIONS
from models.tables import SMALLEST, BoolArray, FeatureTable, FloatArray, IntArray

_MARGIN = 0.01
"""A value this much further from its companion than any run, in units of the feature, is apart."""

_MIN_VARIANCE = 0.01
"""Variance of standardised features below which a direction counts as hardly varied."""

_WORK: Final = frozenset({"dataset_size", "epochs"})
"""Roles whose effect physics knows: twice the work takes twice the time."""

_MIN_LOADING = 0.2
"""Length of a feature's part in the flat directions from which on they concern it."""

_OFF_PLANE = 0.1
"""A row this many deviations further from the plane than any run is off it."""

Pair = tuple[int, int, IntArray]
"""A category that was left out, its companion, and the companion's code for each of its codes."""


def paired_categories(encoder: Encoder, combinations: IntArray) -> list[Pair]:
    """Return the categories that were left out because their levels match another's one to one.

    Parameters
    ----------
    encoder
        The encoder of the fit.
    combinations
        Distinct rows of level codes among the configurations, shape (k, n_categories).

    Examples
    --------
    >>> levels = {"gpu_type": [None, "T4"], "param.driver": ["none", "new"]}
    >>> encoder = Encoder.learn(FeatureTable({}, levels, 2))
    >>> [category.levels for category in encoder.categories]
    [('T4', None), ('none', 'new')]
    >>> ((left_out, kept, codes),) = paired_categories(encoder, np.array([[0, 1], [1, 0]]))
    >>> left_out, kept, codes.tolist()
    (1, 0, [1, 0])
    """
    pairs: list[Pair] = []
    for left_out_index, kept_index in permutations(range(len(encoder.categories)), 2):
        left_out, kept = encoder.categories[left_out_index], encoder.categories[kept_index]
        if left_out.used or not kept.used or len(left_out.levels) != len(kept.levels):
            continue
        distinct = np.unique(combinations[:, [left_out_index, kept_index]], axis=0)
        if len(distinct) == len(left_out.levels):
            codes = np.zeros(len(distinct), dtype=np.int64)
            codes[distinct[:, 0]] = distinct[:, 1]
            pairs.append((left_out_index, kept_index, codes))
    return pairs


@dataclass(frozen=True, slots=True)
class Plane:
    """A linear relation between several features of all configurations: they lie on a plane.

    `directions` are the combinations of the numeric columns of X around `middle` that hardly
    varied; no configuration is further from the plane than `limit`; `columns` take part in it.
    """

    middle: FloatArray
    directions: FloatArray
    limit: float
    columns: tuple[str, ...]

    def is_off(self, X: FloatArray) -> BoolArray:
        """Return which rows are further from the plane than any configuration, shape (n,)."""
        distance = self.distance(X)
        return np.asarray(distance > self.limit + _OFF_PLANE, dtype=np.bool_)

    def distance(self, X: FloatArray) -> FloatArray:
        """Return how far rows are from the plane, in standard deviations; shape (n,)."""
        deviations = (X[:, : len(self.middle)] - self.middle) @ self.directions
        return np.asarray(np.sqrt((deviations * deviations).sum(axis=1)))


def find_plane(encoder: Encoder, X: FloatArray) -> Plane | None:
    """Return the plane on which the features of the configurations lie, None if there is none.

    Found by principal components of almost no variance (Jolliffe 2002, Principal component
    analysis, ch. 10), if a parameter takes part and there are enough configurations.

    Parameters
    ----------
    encoder
        The encoder of the fit.
    X
        Its configurations, shape (n, n_columns).

    Examples
    --------
    >>> size, length = np.random.default_rng(0).lognormal(size=(2, 20))
    >>> columns = {"dataset_size": size, "param.length": length, "param.lines": size / length}
    >>> table = FeatureTable(columns, {}, 20)
    >>> encoder = Encoder.learn(table)
    >>> plane = find_plane(encoder, encoder.encode(table).X)
    >>> sorted(plane.columns)
    ['dataset_size', 'param.length', 'param.lines']
    """
    used = [feature for feature in encoder.numeric if feature.used]
    varied = [column for column in range(len(used)) if np.ptp(X[:, column]) > SMALLEST]
    if len(varied) < 2 or len(X) < max(FEW_CONFIGURATIONS, 2 * len(varied)):  # noqa: PLR2004
        return None
    middle = X[:, : len(used)].mean(axis=0)
    centred = X[:, varied] - middle[varied]
    scale = np.sqrt((centred**2).mean(axis=0))
    spread, axes = np.linalg.eigh(centred.T @ centred / len(X) / np.outer(scale, scale))
    flat = axes[:, spread < _MIN_VARIANCE]
    is_on_plane = np.sqrt((flat**2).sum(axis=1)) > _MIN_LOADING
    on_plane = [
        used[column] for column, is_on in zip(varied, is_on_plane.tolist(), strict=True) if is_on
    ]
    if not any(feature.role == "parameter" for feature in on_plane):
        return None
    directions = np.zeros((len(used), flat.shape[1]))
    directions[varied] = flat / scale[:, None]
    names = tuple(feature.column for feature in on_plane)
    plane = Plane(middle, directions, 0.0, names)
    return replace(plane, limit=float(plane.distance(X).max()))


class _Separation(NamedTuple):
    """What a column that was left out implies for the kept one, and where the two are apart.

    `place` is the kept column's place in X; arrays have shape (n_rows,). `unknown` is the standard
    deviation of the unknown effect, with the sign of the difference.
    """

    place: int
    implied: FloatArray
    is_apart: BoolArray
    unknown: FloatArray
    shift: FloatArray
    columns: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Companions:
    """Columns that varied together in all runs of a workload, so that one of each two was left out.

    A question in which both vary together asks for what the runs show. One that changes only one of
    them is answered by the kept column as if the effect were all its own; it might as well be all
    the other's. Both readings count equally: the forecast lies between them, and its interval
    covers their difference. Dataset size, epochs, batch size and nodes that repeat another column
    have no second reading, since physics knows their part: more data or epochs take proportionally
    longer, and the effect of another batch size stays open. There is none either with fewer than 12
    configurations, where any columns may vary together by chance. All of these widen the interval.
    Where no two columns vary together but three or more are linearly related, all are kept: the
    members' own uncertainty widens the interval there, and the columns are named. Columns that
    some runs give and others leave out may be related by that alone (`Presence`): a question
    without such a relation gets the uncertainty of an unknown level.
    """

    encoder: Encoder
    pairs: Sequence[Pair]
    plane: Plane | None
    presence: Presence | None
    n_configurations: int

    def read(self, features: FeatureTable, encoded: Encoded) -> Readings | None:
        """Return second readings of the rows that part companions, None if there are none."""
        if not (self.encoder.companions or self.pairs or self.plane or self.presence):
            return None
        separations = [
            *self._numeric_separations(features, encoded),
            *self._category_separations(encoded),
        ]
        names = self._names(separations, encoded)
        X, variance = np.full(encoded.X.shape, np.nan), np.zeros(len(encoded.X))
        shift = np.zeros(len(encoded.X))
        for separation in separations:
            if self.n_configurations >= FEW_CONFIGURATIONS:
                X[separation.is_apart, separation.place] = separation.implied[separation.is_apart]
            variance += separation.unknown**2
            shift += separation.shift
        if self.presence is not None:
            variance += (self.presence.unknowns(encoded) ** 2).sum(axis=1)
        return Readings(X, variance, shift, tuple(names)) if any(names) else None

    def _names(self, separations: Sequence[_Separation], encoded: Encoded) -> list[tuple[str, ...]]:
        """Return for each row the columns whose effects cannot be told apart."""
        names: list[tuple[str, ...]] = [()] * len(encoded.X)
        found: list[tuple[BoolArray, tuple[str, ...]]] = [
            (item.is_apart, item.columns) for item in separations
        ]
        if self.plane is not None:
            found.append((self.plane.is_off(encoded.X), self.plane.columns))
        for is_concerned, columns in found:
            for row in np.flatnonzero(is_concerned).tolist():
                names[row] = tuple(dict.fromkeys((*names[row], *columns)))
        if self.presence is not None:
            rows = np.flatnonzero(self.presence.is_unknown(encoded))
            unknown = zip(rows.tolist(), self.presence.names(encoded.take(rows)), strict=True)
            for row, own_columns in unknown:
                names[row] = tuple(dict.fromkeys((*names[row], *own_columns)))
        return names

    def unknowns(self, features: FeatureTable, encoded: Encoded) -> FloatArray:
        """Return the unknown effects of rows that part companions, shape (n, n_unknowns).

        The effect of one of two columns by itself is one unknown for all questions that part them,
        in proportion to the difference; for two categories it is one for each pair of levels.
        """
        columns = [
            separation.unknown for separation in self._numeric_separations(features, encoded)
        ]
        pairs = zip(self.pairs, self._category_separations(encoded), strict=True)
        for (left_out, kept, _), separation in pairs:
            level_pairs = encoded.codes[:, [left_out, kept]]
            for pair in np.unique(level_pairs[separation.is_apart], axis=0):
                has_pair = np.logical_and(separation.is_apart, np.all(level_pairs == pair, axis=1))
                columns.append(np.where(has_pair, separation.unknown, 0.0))
        if self.presence is not None:
            columns += list(self.presence.unknowns(encoded).T)
        return np.column_stack(columns) if columns else np.zeros((len(encoded.X), 0))

    def _numeric_separations(
        self, features: FeatureTable, encoded: Encoded
    ) -> Iterator[_Separation]:
        """Yield what columns that were left out imply for the kept ones."""
        used = [item for item in self.encoder.numeric if item.used]
        for companion in self.encoder.companions:
            feature = companion.feature
            column = features.numeric.get(feature.column)
            if column is None:
                continue
            workers = features.numeric.get("workers")
            workers = None if workers is None else snapped(workers)
            values = apply_transform(
                feature, quotient_of(snapped(column), workers, feature.quotient)
            )
            implied = (values - companion.intercept) / companion.slope
            place = [item.column for item in used].index(companion.of)
            kept = used[place]
            implied = damped(implied, *kept.fading_range)
            axis = self.encoder.axis_names().index(companion.of)
            offset = implied - encoded.X[:, place]
            is_apart = (np.abs(offset) > companion.tolerance + _MARGIN) & ~encoded.missing[:, axis]
            # A parameter alone has a second reading: physics knows the other roles' effects.
            implied = implied if feature.role == "parameter" else np.full(len(implied), np.nan)
            # More work than the kept column implies takes proportionally longer.
            extra_work = values - companion.intercept - companion.slope * encoded.X[:, place]
            is_work = feature.role in _WORK
            shift = np.where(is_apart & is_work, extra_work, 0.0)
            unknown: FloatArray = UNIDENTIFIED_SD * np.where(is_apart, offset, 0.0)
            yield _Separation(
                place, implied, is_apart, unknown, shift, (companion.of, feature.column)
            )

    def _category_separations(self, encoded: Encoded) -> Iterator[_Separation]:
        """Yield what categories that were left out imply for the kept ones."""
        used = [index for index, item in enumerate(self.encoder.categories) if item.used]
        for left_out, kept, codes in self.pairs:
            requested, kept_codes = encoded.codes[:, left_out], encoded.codes[:, kept]
            implied = codes[np.maximum(requested, 0)]
            is_apart: BoolArray = (requested >= 0) & (kept_codes >= 0) & (implied != kept_codes)
            place = self.encoder.layout.n_numeric + 1 + used.index(kept)
            columns = self.encoder.categories[kept].column, self.encoder.categories[left_out].column
            unknown = np.where(is_apart, UNKNOWN_SD, 0.0)
            shift = np.zeros(len(implied))
            yield _Separation(place, implied.astype(np.float64), is_apart, unknown, shift, columns)
